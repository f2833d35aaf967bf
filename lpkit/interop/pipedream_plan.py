"""A plan as PipeDream's ``graph.txt`` with the stage of each node, as its optimizer writes it for its runtime.

The format holds one backward time a node: delta and G are one number there, and moved delta work is not in it. Layers
are written as a chain, so that tensors that skip layers are not in it either. Times are ms where the costs are times;
cycles are written as they are.
Source: Narayanan et al., PipeDream (SOSP 2019), and the file format of github.com/msr-fiddle/pipedream (MIT licence).
"""

import math
import re

from lpkit.checks import shown, write_atomically

__all__ = ["to_pipedream", "write_pipedream"]

MILLISECONDS = {"s": 1e3, "us": 1e-3, "ns": 1e-6}  # of a unit of time; ms and cycles stay as they are


def to_pipedream(plan):
    """The text of the file; `lpkit.interop.pipedream.read_graph` reads it.

    Raises
    ------
    ValueError
        If a time is so long that its milliseconds are more than a float holds.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> from lpkit.plans import Plan
    >>> chain = Costs.from_times([2, 1], 1, [0, 1], ["conv", "fc"], unit="ms", weight_bytes=8, output_bytes=16)
    >>> print(to_pipedream(Plan("by hand", chain, 2, ends=(1, 2))), end="")  # doctest: +NORMALIZE_WHITESPACE
    node1 -- conv -- forward_compute_time=2.0, backward_compute_time=1.0, activation_size=16, parameter_size=8
        -- stage_id=0
    node2 -- fc -- forward_compute_time=1.0, backward_compute_time=2.0, activation_size=16, parameter_size=8
        -- stage_id=1
    \tnode1 -- node2
    """
    costs, factor = plan.costs, MILLISECONDS.get(plan.costs.unit, 1)
    columns = (costs.F, costs.G + costs.delta, costs.output_bytes, costs.weight_bytes)
    if not all(math.isfinite(time * factor) for column in columns[:2] for time in column.tolist()):
        raise ValueError(f"the costs of {shown(costs.name)} hold times too long to be written in ms; use a larger unit")
    rows = zip(costs.layers, *(column.tolist() for column in columns))
    nodes = [f"node{l} -- {_description(name)} -- forward_compute_time={F * factor}, backward_compute_time="
             f"{B * factor}, activation_size={out}, parameter_size={weights} -- stage_id={plan.stage_of(l) - 1}"
             for l, (name, F, B, out, weights) in enumerate(rows, 1)]  # fmt: skip
    edges = [f"\tnode{l} -- node{l + 1}" for l in range(1, len(costs))]
    return "\n".join(nodes + edges) + "\n"


def write_pipedream(plan, path):
    """Write the plan to `path`, whole or not at all; returns the path.

    Raises
    ------
    ValueError
        As `to_pipedream`, or if the file cannot be written.
    """
    return write_atomically(path, to_pipedream(plan))


def _description(name):
    """A layer's name as a node may have it; a node called Input, or one that picks an item, would not be planned."""
    name = re.sub(r"(?: --)+ ", " - ", re.sub(r"\s+", " ", name)).strip(" -")
    return f"Layer {name}" if not name or name.startswith(("Input", "__getitem__")) else name
