"""Run a data-flow graph on real values, clock by clock, exactly as its delays say.

At clock t a node reads, over an edge with w delays, what the source of the edge gave at clock t - w. A value that does
not exist yet, or no more, is nothing (None): a valid bit travels with every value, so a pipeline fills and drains by
itself. What stands in the registers at the start is given by `initial`.
Source: the meaning of a data-flow graph in Parhi, "VLSI Digital Signal Processing Systems" (Wiley 1999), chapter 2.
"""

from collections import deque
from itertools import count
from typing import NamedTuple

from lpkit.checks import unknown_name, whole_number
from lpkit.flowgraph import execution_order

__all__ = ["execute"]


class _Step(NamedTuple):
    node: str
    operation: object  # None: a source
    reads: tuple  # (source, delays), in the order of the edges
    own: int | None  # place in `reads` of the node's own last value


def execute(dfg, operations, samples, *, initial=None, clocks=None):
    """What every node of `dfg` gives, clock after clock.

    A node calls its operation when all it reads is there. Else it gives nothing; only a node that reads itself (a
    register with a rule, such as the weights U) then gives its own value of before.

    Parameters
    ----------
    dfg : DFG
    operations : mapping
        From each node that is not a source to a function of what it reads, in the order of its edges in `dfg.edges`.
    samples : mapping
        From each source node to the sequence of what it gives, one a clock from clock 0; nothing after its end.
    initial : callable, optional
        ``initial(node, clock)`` is what the node gave at a clock before 0, as its delays remember it; default nothing.
    clocks : int, optional
        How many clocks; by default until all samples are used and nothing moves any more.

    Yields
    ------
    dict
        From each node to what it gave at this clock, None for nothing.

    Raises
    ------
    ValueError
        If a node has neither an operation nor samples, or a node with samples reads something.

    Examples
    --------
    A running sum, whose input is late by one clock:

    >>> from lpkit.flowgraph import DFG
    >>> graph = DFG.from_edges([("x", "sum", 1), ("sum", "sum", 1)])
    >>> clocks = execute(graph, {"sum": lambda x, before: before + x}, {"x": [1, 2, 3]}, initial=lambda node, clock: (
    ...     0 if node == "sum" else None))
    >>> [(now["x"], now["sum"]) for now in clocks]
    [(1, 0), (2, 1), (3, 3), (None, 6), (None, 6)]
    """
    steps = _steps(dfg, operations, samples)
    lines = _lines(dfg, initial)
    longest, used = max([0, *dfg.delays.tolist()]), max(map(len, samples.values()), default=0)
    quiet = 0  # clocks since anything moved: after the longest delay nothing can
    for clock in count() if clocks is None else range(whole_number(clocks, "clocks", least=0)):
        now, moved = _clock(clock, steps, lines, samples)
        yield now
        for node, line in lines.items():
            line.appendleft(now[node])
        quiet = 0 if moved else quiet + 1
        if clocks is None and clock + 1 >= used and quiet >= longest:
            return


def _clock(clock, steps, lines, samples):
    """What each node gives at this clock, and whether any of them did something."""
    now, moved = {}, False
    for node, operation, reads, own in steps:
        if operation is None:
            values = samples[node]
            now[node] = values[clock] if clock < len(values) else None
            moved = moved or now[node] is not None
            continue
        given = [lines[source][delays - 1] if delays else now[source] for source, delays in reads]
        if all(value is not None for value in given):
            now[node], moved = operation(*given), True
        else:
            now[node] = None if own is None else given[own]
    return now, moved


def _steps(dfg, operations, samples):
    """The nodes in an order in which each comes after all it reads at the same clock."""
    for node in (*operations, *samples):
        if node not in dfg.times:
            raise unknown_name(node, "a node that is given an operation or samples", dfg.nodes)
    reads = {node: [] for node in dfg.nodes}
    for source, target, delays in dfg.edges:
        reads[target].append((source, delays))
    return [_step(node, reads[node], operations, samples) for node in execution_order(dfg)]


def _step(node, reads, operations, samples):
    if node in samples:
        if reads or node in operations:
            raise ValueError(f"node {node!r} is given samples, but it reads {reads[0][0] if reads else 'nothing'!r} "
                             "or has an operation; give samples to sources only")  # fmt: skip
        return _Step(node, None, (), None)
    if node not in operations:
        raise ValueError(f"node {node!r} has no operation; give it one, or samples if it is a source")
    own = next((place for place, (source, _) in enumerate(reads) if source == node), None)
    return _Step(node, operations[node], tuple(reads), own)


def _lines(dfg, initial):
    """For each node that is read late, what it gave before, latest first."""
    depth = {}
    for source, _, delays in dfg.edges:
        depth[source] = max(depth.get(source, 0), delays)
    return {
        node: deque((initial(node, -late) if initial else None for late in range(1, longest + 1)), maxlen=longest)
        for node, longest in depth.items()
        if longest
    }
