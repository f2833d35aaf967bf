"""What a timeline shows when it is followed: what crosses the boundaries, the critical path, waits, and what is kept.

All is read from the table and the plan; nothing is run again.
Source: LayerPipe (ICCAD 2021), Fig. 5, for what crosses; the critical path of a schedule as in project planning (Kelley
and Walker, 1959).
"""

import numpy as np
import pandas as pd

from lpkit.checks import whole_number
from lpkit.plans import plain, ratio
from lpkit.timeline_index import before_on_worker, needs_by_row, rows_by_name
from lpkit.timeline_memory import inputs_kept, versions_kept
from lpkit.timeline_rows import KINDS, TENSORS, moved_work

__all__ = ["boundary_bytes", "bubbles", "critical_path", "crossings", "stash_over_time"]

CROSSING = ("tensor", "source", "target", "layer", "micro_batch", "makes", "uses", "bytes")


def crossings(timeline):
    """Tensors that go from stage to stage, one row each, in the order in which they are made.

    An activation ("a") and an error ("delta") belong to the layer that makes them, weights ("W") and part of an error
    ("delta''") to the layer whose delta is shared. Weights go once a mini-batch, after the first F with them. Where the
    layer of a delta'' is the first of its stage, its error goes on to the stage before, so that delta'' has that
    stage as its target, and "delta" holds the other bytes. With sends, they lie between `makes` and `uses`.

    Returns
    -------
    DataFrame
        tensor, source and target (stages), layer, micro_batch (through all mini-batches), makes and uses (rows of the
        timeline: what makes it, and what uses it first; -1 for delta'' of the first layer, which nothing uses), bytes.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> from lpkit.plans import Plan
    >>> from lpkit.schedule import layerpipe
    >>> chain = Costs.from_times([1, 1, 1], 1, [0, 4, 1], unit="cycles", weight_bytes=100, input_bytes=60,
    ...                          output_bytes=60)
    >>> line = layerpipe(Plan("by hand", chain, 2, ends=(2, 3), moved=((2, 1, 2, 2),)))
    >>> print(crossings(line).to_string(index=False))
     tensor  source  target  layer  micro_batch  makes  uses  bytes
          a       1       2      2            0      1     2     60
          W       1       2      2            0      1     5     50
      delta       2       1      3            0      3     4     60
    delta''       2       1      2            0      5     8     30
    """
    rows = rows_by_name(timeline)
    found = [_crossing(timeline, rows, *one) for one in _tensors(timeline.plan)]
    if not found:
        return pd.DataFrame({name: np.array([], object if name == "tensor" else int) for name in CROSSING})
    table = pd.concat(found, ignore_index=True)
    return table.sort_values("makes", kind="stable", ignore_index=True)


def boundary_bytes(timeline):
    """Bytes that cross each boundary in each direction, by tensor, of the whole timeline and of a mini-batch.

    A tensor that passes several boundaries counts at each: as without a direct link. A boundary is one between stages;
    where a single processor has both of them, nothing travels. The rest is as in `lpkit.partition.communication` with
    the accounting ``"full"``.

    Returns
    -------
    DataFrame
        boundary (k is between stages k and k + 1), direction ("forward" or "backward"), tensor, bytes,
        bytes_per_mini_batch.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> from lpkit.plans import Plan
    >>> from lpkit.schedule import layerpipe
    >>> chain = Costs.from_times([1, 1, 1], 1, [0, 4, 1], unit="cycles", weight_bytes=100, input_bytes=60,
    ...                          output_bytes=60)
    >>> line = layerpipe(Plan("by hand", chain, 2, ends=(2, 3), moved=((2, 1, 2, 2),)), 5)
    >>> print(boundary_bytes(line).to_string(index=False))
     boundary direction  tensor  bytes  bytes_per_mini_batch
            1   forward       a    300                    60
            1   forward       W    250                    50
            1  backward   delta    300                    60
            1  backward delta''    150                    30
    """
    totals = {}
    for tensor, source, target, _, _, _, size in _tensors(timeline.plan):
        times = timeline.batches * (1 if tensor == "W" else timeline.micro_batches)
        for boundary in range(min(source, target), max(source, target)):
            key = boundary, target < source, TENSORS.index(tensor)
            totals[key] = totals.get(key, 0) + size * times
    table = [(boundary, "backward" if back else "forward", TENSORS[tensor], plain(total),
              plain(ratio(total, timeline.batches)))
             for (boundary, back, tensor), total in sorted(totals.items())]  # fmt: skip
    return pd.DataFrame(table, columns=["boundary", "direction", "tensor", "bytes", "bytes_per_mini_batch"])


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
    times = np.unique(np.concatenate([timeline.start[:1] * 0, *(column for pair in inputs + versions for column in pair)]))
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


def _crossing(line, rows, tensor, source, target, layer, maker, users, size):
    """Rows of `crossings` of one tensor, for all micro-batches."""
    step = line.micro_batches if tensor == "W" else 1
    makes = rows[maker][::step]
    uses = np.min([rows[user][::step] for user in users], axis=0) if users else np.full(len(makes), -1)
    columns = tensor, source, target, layer, line.micro[makes], makes, uses, size
    return pd.DataFrame({name: np.full(len(makes), column) if np.ndim(column) == 0 else column
                         for name, column in zip(CROSSING, columns)})  # fmt: skip


def _tensors(plan):
    """(tensor, source, target, layer, name that makes it, names that use it, bytes) of all that crosses, once each."""
    costs, moved = plan.costs, moved_work(plan)
    for l in range(1, len(costs)):
        home, above = plan.stage_of(l), plan.stage_of(l + 1)
        if home == above:
            continue
        size = int(costs.cut_bytes[l - 1])
        yield "a", home, above, l, ("F", l, 0), [("F", l + 1, 0)], size
        through, whole = _passed_on(costs, moved, l + 1)
        if through is not None:
            through = min(through, size)
            yield "delta''", moved[l + 1][0], home, l + 1, ("delta''", l + 1, 0), _readers(costs, moved, l), through
        if not whole or through < size:
            maker = "delta'" if l + 1 in moved else "delta"
            yield "delta", above, home, l + 1, (maker, l + 1, 0), _readers(costs, moved, l), plain(size - (through or 0))
    for l, (target, amount) in moved.items():
        home, share = plan.stage_of(l), ratio(amount, costs.delta[l - 1].item())
        yield "W", home, target, l, ("F", l, 0), [("delta''", l, 0)], plain(share * int(costs.weight_bytes[l - 1]))
        if l == 1 or plan.stage_of(l - 1) == home:
            users = _readers(costs, moved, l - 1) if l > 1 else []
            size = plain(share * int(costs.input_bytes[l - 1]))
            yield "delta''", target, home, l, ("delta''", l, 0), users, size


def _passed_on(costs, moved, layer):
    """Bytes of delta'' of the first layer of a stage, None without; and whether its whole delta is moved."""
    if layer not in moved:
        return None, False
    share = ratio(moved[layer][1], costs.delta[layer - 1].item())
    return plain(share * int(costs.input_bytes[layer - 1])), share == 1


def _readers(costs, moved, layer):
    """What uses the error that the layer after `layer` passes down."""
    kept = "delta'" if layer in moved else "delta"
    return [("G", layer, 0), *([(kept, layer, 0)] if layer > 1 or costs.delta[0] else [])]
