"""What crosses the boundaries of a timeline: which operation makes each tensor, which uses it first, and its bytes.

Source: LayerPipe (ICCAD 2021), Fig. 5 and section V: activations, errors, and what moving delta work adds.
"""

import numpy as np
import pandas as pd

from lpkit.plans import plain, ratio
from lpkit.timeline_index import rows_by_name
from lpkit.timeline_rows import TENSORS, moved_work

__all__ = ["boundary_bytes", "crossings"]

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

    A boundary lies between two stages, also where one processor has both. A tensor that passes several boundaries
    counts at each, as there is no direct link. But for that the sum is as in `lpkit.partition.communication` with the
    accounting ``"full"``, and shares of a tensor are exact, though sends round them up to whole bytes.

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
            left = plain(size - (through or 0))
            yield "delta", above, home, l + 1, (maker, l + 1, 0), _readers(costs, moved, l), left
    for l, (target, amount) in moved.items():
        home, share = plan.stage_of(l), ratio(amount, costs.delta[l - 1].item())
        yield "W", home, target, l, ("F", l, 0), [("delta''", l, 0)], plain(share * int(costs.moved_bytes[l - 1]))
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
