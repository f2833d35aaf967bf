"""What a timeline keeps, and when: inputs of layers for G, and versions of weights.

All is told as intervals of time, as two arrays (from, until). One that ends when another starts is over.
"""

import numpy as np

from lpkit.timeline_rows import KINDS

__all__ = ["in_stage", "inputs_kept", "peak", "peak_bytes", "versions_kept"]


def inputs_kept(timeline, layer):
    """From when to when the inputs of a layer are kept: from the start of F to the end of G, both sorted.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> from lpkit.plans import Plan
    >>> from lpkit.schedule import gpipe
    >>> plan = Plan("by hand", Costs.from_times([2, 2], 2, [0, 2], unit="cycles"), 2, ends=(1, 2))
    >>> [column.tolist() for column in inputs_kept(gpipe(plan, micro_batches=2), 1)]
    [[0, 2], [12, 16]]
    """
    rows = timeline.rows_of_layer(layer)
    F, G = (rows[timeline.kind[rows] == KINDS.index(kind)] for kind in "FG")
    return np.sort(timeline.start[F]), np.sort(timeline.end[G])


def versions_kept(timeline, layer):
    """From when to when the versions of the weights of a layer are kept, both sorted.

    A version is kept from its update until the next, and until the last F, delta or delta' that uses it is done; the
    newest is kept beyond the end. A delta'' has a copy on its stage, which is not counted.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> from lpkit.plans import Plan
    >>> from lpkit.schedule import gpipe
    >>> plan = Plan("by hand", Costs.from_times([2, 2], 2, [0, 2], unit="cycles"), 2, ends=(1, 2))
    >>> [column.tolist() for column in versions_kept(gpipe(plan, 2, micro_batches=1), 1)]
    [[0, 10, 20], [10, 20, 21]]
    """
    rows = timeline.rows_of_layer(layer)
    kind = timeline.kind[rows]
    uses, U = rows[kind < KINDS.index("delta''")], rows[kind == KINDS.index("U")]
    made = np.sort(timeline.end[U])
    until = np.append(made, timeline.end.max() + 1)
    np.maximum.at(until, timeline.version[uses], timeline.end[uses])
    return np.append(made[:1] * 0, made), np.sort(until)


def in_stage(timeline, stage):
    """From when to when micro-batches are in a stage: from its first F of each to its last G, both sorted.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> from lpkit.plans import Plan
    >>> from lpkit.schedule import gpipe
    >>> plan = Plan("by hand", Costs.from_times([2, 2], 2, [0, 2], unit="cycles"), 2, ends=(1, 2))
    >>> [column.tolist() for column in in_stage(gpipe(plan, micro_batches=2), 2)]
    [[2, 4], [8, 12]]
    """
    at = timeline.stage == stage
    columns = []
    for kind, times, best in (("F", timeline.start, np.minimum), ("G", timeline.end, np.maximum)):
        rows = np.flatnonzero(at & (timeline.kind == KINDS.index(kind)))
        rows = rows[np.argsort(timeline.micro[rows], kind="stable")]
        firsts = np.flatnonzero(np.diff(timeline.micro[rows], prepend=-1))
        columns.append(np.sort(best.reduceat(times[rows], firsts)) if len(rows) else times[:0])
    return tuple(columns)


def peak(starts, ends):
    """Most intervals at one time.

    Examples
    --------
    >>> peak(np.array([0, 1, 4]), np.array([4, 5, 6]))
    2
    """
    return int((np.arange(1, len(starts) + 1) - np.searchsorted(ends, starts, side="right")).max(initial=0))


def peak_bytes(intervals):
    """Most bytes at one time, of triples (from, until, bytes of each).

    Examples
    --------
    >>> peak_bytes([(np.array([0, 4]), np.array([4, 6]), 10), (np.array([3]), np.array([5]), 1)])
    11
    """
    if not intervals:
        return 0
    changes = [change for starts, ends, size in intervals for change in ((ends, -size), (starts, size))]
    times = np.concatenate([moments for moments, _ in changes])
    steps = np.concatenate([np.full(len(moments), size) for moments, size in changes])
    order = np.lexsort((steps, times))  # at one time, what ends goes first
    return int(np.cumsum(steps[order]).max(initial=0))
