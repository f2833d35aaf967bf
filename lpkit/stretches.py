"""Operations that follow each other on a worker with nothing to wait for in between, as one: a stretch.

A stage waits where it takes something from another stage, not at each of its layers, so that a schedule of thousands of
operations is run in a few hundred steps, and the times within a stretch are sums.
"""

from collections import namedtuple

import numpy as np

__all__ = ["BLOCKS", "Stretch", "cut", "spread", "stretches_of"]

BLOCKS = ("F", "delta", "G", "B", "U")

Stretch = namedtuple("Stretch", "slots needs needs_first")
Stretch.__doc__ = """Slots that a worker runs without a break, and what the first of them waits for, as in a `Slot`."""


def stretches_of(slots, resources, stages, each):
    """What each block of each worker is made of: all stretches, and of each worker [(stretch, micro-batch), ...].

    Parameters
    ----------
    slots : list of Slot
    resources : sequence of lists of (stage, block, number)
        As for `lpkit.event_engine.timeline_of`.
    stages, each : int
        Stages, and micro-batches of each mini-batch.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> from lpkit.plans import Plan
    >>> from lpkit.slots import slots_of
    >>> plan = Plan("by hand", Costs.from_times([2] * 3, 2, 2, unit="cycles"), 2, ends=(2, 3))
    >>> order = [[(k, what, 0) for what in "FB"] for k in (1, 2)]
    >>> stretches, orders = stretches_of(slots_of(plan, None), order, 2, 1)
    >>> [stretch.slots for stretch in stretches], orders
    ([[0, 1], [6, 8, 9, 11], [2], [3, 5]], [[(0, 0), (1, 0)], [(2, 0), (3, 0)]])
    """
    found, orders = {}, []  # found: place of a block, told apart by what its worker has done before it
    for blocks in resources:
        done, order = {}, []
        for stage, what, number in blocks:
            micro = number * each + each - 1 if what == "U" else number
            before = done.get((stage, micro), ())
            done[stage, micro] = (*before, what)
            order.append((found.setdefault((stage, what, before), len(found)), micro))
        orders.append(order)
    stretches, places = cut(slots, _waits(slots, found, stages))
    return stretches, [[(n, micro) for block, micro in order for n in places[block]] for order in orders]


def _waits(slots, blocks, stages):
    """Of each block [(slot, needs that its worker has not seen to), ...]."""
    runs, waits = _runs(slots, stages), []
    for stage, what, before in blocks:
        known, waiting = {slot for other in before for slot in runs[stage, other]}, []
        for slot in runs[stage, what]:
            waiting.append((slot, tuple(need for need in slots[slot].needs if need not in known)))
            known.update((slot, *slots[slot].needs))
        waits.append(waiting)
    return waits


def _runs(slots, stages):
    """Slots that each block of each stage runs, in order: {(stage, block): [slot, ...]}."""
    runs = {(stage, what): [] for stage in range(1, stages + 1) for what in BLOCKS}
    parts = {"F": "F", "G": "GB", "U": "U", "delta": ("delta", "B"), "delta'": ("delta", "B"), "send": ()}
    for place, slot in enumerate(slots):
        for what in parts.get(slot.kind, ()):
            runs[slot.stage, what].append(place)
    for place, slot in enumerate(slots):  # delta'' is the stage's last: only the stage below waits for it
        if slot.kind == "delta''":
            runs[slot.stage, "delta"].append(place)
            runs[slot.stage, "B"].append(place)
    return runs


def cut(slots, waits):
    """Stretches of runs of slots, and their places of each run: they begin at a wait and end at what is waited for.

    Parameters
    ----------
    slots : list of Slot
    waits : list of runs, lists of (slot, needs that its worker has not seen to)

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> from lpkit.plans import Plan
    >>> from lpkit.slots import slots_of
    >>> plan = Plan("by hand", Costs.from_times([2] * 3, 2, 2, unit="cycles"), 2, ends=(2, 3))
    >>> stretches, places = cut(slots_of(plan, None), [[(0, ()), (1, ())], [(2, (1,))]])
    >>> [stretch.slots for stretch in stretches], places
    ([[0, 1], [2]], [range(0, 1), range(1, 2)])
    """
    awaited = {need for run in waits for slot, needs in run for need in (*needs, *slots[slot].needs_first)}
    awaited |= {need for slot in slots if slot.kind == "send" for need in slot.needs}
    stretches, places = [], []
    for run in waits:
        first, last = len(stretches), None
        for slot, needs in run:
            if last is None or last in awaited or needs or slots[slot].needs_first:
                stretches.append(Stretch([], needs, slots[slot].needs_first))
            stretches[-1].slots.append(slot)
            last = slot
        places.append(range(first, len(stretches)))
    return stretches, places


def spread(stretches, times, order, starts, dtype):
    """Slot, micro-batch, start and end of each operation of stretches that start at given times, in the same order.

    Parameters
    ----------
    stretches : list of Stretch
    times : list
        Of each slot.
    order : list of (stretch, micro-batch)
    starts : list
        Of each entry of `order`.
    dtype : type
        Of the times.

    Examples
    --------
    >>> stretches = [Stretch([0, 1], (), ()), Stretch([2], (1,), ())]
    >>> [column.tolist() for column in spread(stretches, [2, 3, 4], [(0, 0), (1, 0), (0, 1)], [0, 7, 5], np.int64)]
    [[0, 1, 2, 0, 1], [0, 0, 0, 1, 1], [0, 2, 7, 5, 7], [2, 5, 11, 7, 10]]
    """
    which, micro = (np.fromiter(column, np.int64, len(order)) for column in zip(*order))
    lengths = np.array([len(stretch.slots) for stretch in stretches])
    slot = np.array([slot for stretch in stretches for slot in stretch.slots])
    begins, lengths = (np.cumsum(lengths) - lengths)[which], lengths[which]  # of each entry of `order`, in `slot`
    first, size = np.cumsum(lengths) - lengths, lengths.sum()
    starts, times = np.array(starts, dtype), np.array(times, dtype)[slot]
    from_slot, (start, end) = np.empty(size, np.int64), np.empty((2, size), dtype)
    for length in np.unique(lengths):
        own, steps = np.flatnonzero(lengths == length), np.arange(length)
        at, to = begins[own, None] + steps, first[own, None] + steps
        passed = np.cumsum(np.hstack([starts[own, None], times[at]]), axis=1)  # one after the other, as a worker adds
        from_slot[to], start[to], end[to] = slot[at], passed[:, :-1], passed[:, 1:]
    return from_slot, np.repeat(micro, lengths), start, end
