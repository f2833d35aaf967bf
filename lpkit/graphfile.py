"""A data-flow graph from a file, and what the command line says of it: bound, period, registers, lags."""

from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path

from lpkit.dfg import critical_path, iteration_bound
from lpkit.flowgraph import exact_time
from lpkit.interop.bench import read_bench
from lpkit.interop.dfg_files import read_json
from lpkit.min_period import lags_for_period, settled_lags
from lpkit.retiming import min_period, min_registers, retime

__all__ = ["read_graph", "retimed"]


def read_graph(path):
    """The graph in a JSON file, or an ISCAS netlist if the name ends in ``.bench``.

    Raises
    ------
    FileNotFoundError, ValueError
        As the readers.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "ring.json")
    ...     _ = file.write_text('{"nodes": {"a": 1, "b": 2}, "edges": [["a", "b", 0], ["b", "a", 1]]}')
    ...     read_graph(file).times
    {'a': 1, 'b': 2}
    """
    return read_bench(path) if Path(path).suffix.lower() == ".bench" else read_json(path)


def retimed(dfg, period="min", *, fewest=False):
    """What retiming makes of `dfg`: numbers for people, and the lag of each node.

    A given period is reached by some retiming; the fewest registers cost more time to find.

    Parameters
    ----------
    dfg : DFG
    period : "min", number or text
        The clock period to stay within, in the unit of the node times.
    fewest : bool
        Choose, of all retimings with that period, one with the fewest registers (fan-out shared).

    Returns
    -------
    (dict, dict)

    Raises
    ------
    ValueError
        If the period is no number or cannot be reached.

    Examples
    --------
    >>> from lpkit.dfg import DFG
    >>> ring = DFG({"a": 1, "b": 2}, [("a", "b", 0), ("b", "a", 2)])
    >>> retimed(ring)[0]["period"], retimed(ring, 3)[0]["least period"], retimed(ring)[1]
    ('2', '2', {'a': 0, 'b': 1})
    >>> retimed(DFG({"a": Fraction(5, 2)}, [("a", "a", 1)]), "5/2")[0]["period"]
    '5/2'
    """
    best = min_period(dfg)
    target = best.period if period == "min" else exact_time(_number(period), "period")
    if target < best.period:
        raise ValueError(f"no retiming has a period of {target}; the shortest possible is {best.period}")
    if fewest:
        lags = min_registers(dfg, target, solver="lemon" if find_spec("pylmcf") else "highs").r
    else:
        lags = best.r if period == "min" else settled_lags(dfg, lags_for_period(dfg, target))
    after, bound = retime(dfg, lags), iteration_bound(dfg)
    found = {
        "nodes": len(dfg.nodes), "edges": len(dfg.edges), "iteration bound": str(bound.value),
        "critical loop": " -> ".join(bound.loop[:12]) + (" ..." if len(bound.loop) > 12 else ""),
        "period before": str(critical_path(dfg).period), "period": str(critical_path(after).period),
        "least period": str(best.period), "registers before": dfg.registers(), "registers": after.registers(),
    }
    return found, {node: int(lag) for node, lag in lags.items()}


def _number(text):
    """A period that may come as text: a whole number, a decimal or a fraction, as in the JSON files."""
    try:
        return Fraction(text) if isinstance(text, str) and len(text) < 80 else text
    except (ValueError, ZeroDivisionError):
        return text
