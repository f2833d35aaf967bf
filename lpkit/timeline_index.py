"""Where the operations of a timeline are: rows by name, and the rows that a row waits for."""

import numpy as np

from lpkit.timeline_check import dependencies
from lpkit.timeline_rows import KINDS, TENSORS

__all__ = ["before_on_worker", "name_of", "needs_by_row", "rows_by_name"]


def name_of(timeline, row):
    """Name (what, layer, boundary) of a row, as `dependencies` has it; the boundary is 0 but for a send.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> from lpkit.plans import Plan
    >>> from lpkit.schedule import layerpipe
    >>> plan = Plan("by hand", Costs.from_times([2, 2], 2, [0, 2], unit="cycles"), 2, ends=(1, 2))
    >>> [name_of(layerpipe(plan, latency=1), row) for row in range(3)]
    [('F', 1, 0), ('send a', 1, 1), ('F', 2, 0)]
    """
    kind, layer = KINDS[timeline.kind[row]], int(timeline.layer[row])
    if kind != "send":
        return kind, layer, 0
    return f"send {TENSORS[timeline.tensor[row]]}", layer, int(min(timeline.stage[row], timeline.target[row]))


def rows_by_name(timeline):
    """{(what, layer, boundary): rows by micro-batch}; of updates and sent weights, by mini-batch.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> from lpkit.plans import Plan
    >>> from lpkit.schedule import gpipe
    >>> line = gpipe(Plan("by hand", Costs.from_times([2], 2, 0, unit="cycles"), 1, ends=(1,)), micro_batches=2)
    >>> {name: rows.tolist() for name, rows in rows_by_name(line).items()}
    {('F', 1, 0): [0, 1], ('G', 1, 0): [3, 2], ('U', 1, 0): [4]}
    """
    columns = timeline.kind, timeline.tensor, timeline.layer, np.minimum(timeline.stage, timeline.target)
    order = np.lexsort((timeline.micro, *reversed(columns)))
    changes = np.any([np.diff(column[order]) for column in columns], axis=0)
    groups = np.split(order, np.flatnonzero(changes) + 1)
    return {name_of(timeline, rows[0]): rows for rows in groups}


def needs_by_row(timeline):
    """A function from a row to the rows that must be done before it, one list a row.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> from lpkit.plans import Plan
    >>> from lpkit.schedule import gpipe
    >>> line = gpipe(Plan("by hand", Costs.from_times([2], 2, 0, unit="cycles"), 1, ends=(1,)), micro_batches=2)
    >>> list(map(needs_by_row(line), range(5)))
    [[], [], [1], [0], [3, 2]]
    """
    rows, each, needs = rows_by_name(timeline), timeline.micro_batches, {}
    for before, after in dependencies(timeline):
        needs.setdefault(after, []).append(before)

    def of_row(row):
        name, micro = name_of(timeline, row), int(timeline.micro[row])
        first = micro // each * each
        found = []
        for before in needs.get(name, ()):
            if name[0] == "U":
                found += rows[before][first : first + each].tolist()
            else:
                found.append(int(rows[before][micro // each if before[0] == "send W" else micro]))
        return found

    return of_row


def before_on_worker(timeline):
    """Row that a processor, or a link in one direction, did before each row; -1 for its first.

    A sequential schedule is one worker.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> from lpkit.plans import Plan
    >>> from lpkit.schedule import gpipe
    >>> plan = Plan("by hand", Costs.from_times([2, 2], 2, [0, 2], unit="cycles"), 2, ends=(1, 2))
    >>> before_on_worker(gpipe(plan, micro_batches=2))[:4]
    [-1, 0, -1, 2]
    """
    processors = np.array((0, *timeline.processors))  # 0: no send
    alone = timeline.schedule == "sequential"
    source = np.where((timeline.target == 0) & alone, 1, processors[timeline.stage])
    target = processors[timeline.target]
    order = np.lexsort((target, source))  # stable: a worker keeps its order
    same = (np.diff(source[order]) == 0) & (np.diff(target[order]) == 0)
    before = np.full(len(timeline), -1)
    before[order[1:][same]] = order[:-1][same]
    return before.tolist()
