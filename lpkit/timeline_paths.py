"""What a timeline shows when it is followed: its critical path, the waits, what is kept, and what crosses boundaries.

All is read from the table and the plan; nothing is run again.
Source: Kelley and Walker, Critical-Path Planning and Scheduling (1959), for the critical path.
"""

import numpy as np
import pandas as pd

from lpkit.checks import whole_number
from lpkit.timeline_crossings import boundary_bytes, crossings
from lpkit.timeline_index import before_on_worker, needs_by_row
from lpkit.timeline_memory import inputs_kept, versions_kept
from lpkit.timeline_rows import KINDS

__all__ = ["boundary_bytes", "bubbles", "critical_path", "crossings", "stash_over_time"]


def critical_path(timeline):
    """Rows of a chain of operations from 0 to the makespan, each of which starts when the one before ends.

    The one before is something it needs, else what its processor (or link) did before; of several, the first in the
    table. In a sequential schedule all processors take turns, and count as one. No such chain is longer, so that the
    timeline shortens only where one of its operations does, or the orders change.

    Returns
    -------
    ndarray of int

    Raises
    ------
    ValueError
        If there is a time at which something waits for nothing.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> from lpkit.plans import Plan
    >>> from lpkit.schedule import layerpipe
    >>> line = layerpipe(Plan("by hand", Costs.from_times([2, 3], 2, [0, 2], unit="cycles"), 2, ends=(1, 2)), 1)
    >>> [(row.kind, row.layer) for row in (line.operations[place] for place in critical_path(line))]
    [('F', 1), ('F', 2), ('delta', 2), ('G', 1)]
    """
    needs, before = needs_by_row(timeline), before_on_worker(timeline)
    starts, ends = timeline.start.tolist(), timeline.end.tolist()
    row = int(np.argmax(timeline.end))  # the first of those that end last
    chain = [row]
    while starts[row] > 0:
        near = sorted(need for need in needs(row) if ends[need] == starts[row]) or [before[row]]
        if near[0] < 0 or ends[near[0]] != starts[row]:
            raise ValueError(f"row {row} of the timeline starts at {timeline.start[row]} and waits for nothing until "
                             "then; there is no critical path without a gap")  # fmt: skip
        row = near[0]
        chain.append(row)
    return np.array(chain[::-1])


def bubbles(timeline):
    """Times in which a processor waits, from 0 to the makespan.

    Returns
    -------
    DataFrame
        processor (the stage, where each has its own), start, end in the unit of the costs; by processor and start.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> from lpkit.plans import Plan
    >>> from lpkit.schedule import layerpipe
    >>> line = layerpipe(Plan("by hand", Costs.from_times([2, 3], 2, [0, 2], unit="cycles"), 2, ends=(1, 2)), 1)
    >>> print(bubbles(line).to_string(index=False))
     processor  start  end
             1      2    7
             2      0    2
    """
    table, at = [], timeline.kind < KINDS.index("U")
    last = timeline.end.max()
    for processor in range(1, max(timeline.processors) + 1):
        rows = np.flatnonzero(at & (timeline.processor == processor))
        until = np.append(timeline.start[rows], last)
        since = np.append(last * 0, timeline.end[rows])  # rows are in order and do not overlap
        table += [(processor, timeline.in_unit(a), timeline.in_unit(b))
                  for a, b in zip(since.tolist(), until.tolist()) if a < b]  # fmt: skip
    return pd.DataFrame(table, columns=["processor", "start", "end"])


def stash_over_time(timeline, stage):
    """What a stage keeps, as steps: each row holds from its time to that of the next.

    Returns
    -------
    DataFrame
        time in the unit of the costs, activation_bytes (inputs kept for G), weight_bytes (all versions), and
        weight_versions (of the layer with most). Sizes are those of `Timeline.activation_bytes` and so on.

    Raises
    ------
    ValueError
        If there is no such stage.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> from lpkit.plans import Plan
    >>> from lpkit.schedule import layerpipe
    >>> chain = Costs.from_times([2, 3], 2, [0, 2], unit="cycles", weight_bytes=100, input_bytes=60)
    >>> print(stash_over_time(layerpipe(Plan("by hand", chain, 2, ends=(1, 2)), 1), 1).to_string(index=False))
     time  activation_bytes  weight_bytes  weight_versions
        0                60           100                1
        9                 0           100                1
    """
    stage = whole_number(stage, "stage", most=timeline.stages)
    costs, layers = timeline.plan.costs, timeline.plan.stages[stage - 1]
    inputs, versions = ([kept(timeline, l) for l in layers] for kept in (inputs_kept, versions_kept))
    moments = [column for interval in inputs + versions for column in interval]
    times = np.unique(np.concatenate([timeline.start[:1] * 0, *moments]))
    times = times[times <= timeline.end.max()]
    inputs, versions = ([_count(pair, times) for pair in pairs] for pairs in (inputs, versions))
    none = np.zeros(len(times), np.int64)
    return pd.DataFrame({
        "time": [timeline.in_unit(t) for t in times.tolist()],
        "activation_bytes": sum((n * costs.input_bytes[l - 1] for n, l in zip(inputs, layers)), none),
        "weight_bytes": sum((n * costs.weight_bytes[l - 1] for n, l in zip(versions, layers)), none),
        "weight_versions": np.max([none, *versions], axis=0),
    })  # fmt: skip


def _count(interval, times):
    """How many of the intervals hold each time; one that ends then is over."""
    starts, ends = interval
    return np.searchsorted(starts, times, side="right") - np.searchsorted(ends, times, side="right")
