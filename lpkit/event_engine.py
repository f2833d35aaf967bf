"""From orders to times: each operation starts when its worker is free and what it needs is done.

Workers are processors, and links in one direction; each has a fixed order, so that the times are the earliest ones and
come out the same every time.
"""

import math
from collections import deque
from fractions import Fraction

import numpy as np

from lpkit.schedule_input import links_of
from lpkit.slots import slots_of
from lpkit.stretches import BLOCKS, cut, spread, stretches_of
from lpkit.timeline import Timeline
from lpkit.timeline_rows import KINDS, TENSORS

__all__ = ["BLOCKS", "ticks_of", "timeline_of"]

MOST_STEPS = 4  # of a circle that an error names


def timeline_of(plan, name, resources, batches, each, bandwidth, latency, *, processors=None):
    """Timeline of orders, each operation as early as it can be.

    Parameters
    ----------
    plan : Plan
    name : str
        Of the schedule.
    resources : sequence of lists of (stage, block, number)
        Blocks of each worker in order; the number is a micro-batch, or a mini-batch for ``"U"``.
    batches, each : int
        Mini-batches, and micro-batches of each.
    bandwidth, latency
        As for `lpkit.schedule.layerpipe`.
    processors : tuple of int, optional
        Processor of each stage.

    Raises
    ------
    ValueError
        If bandwidth or latency are wrong, the timeline is too long for 64 bits, or the workers wait in a circle.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> from lpkit.plans import Plan
    >>> plan = Plan("by hand", Costs.from_times([2], 2, 0, unit="cycles"), 1, ends=(1,))
    >>> timeline_of(plan, "once", [[(1, "F", 0), (1, "B", 0), (1, "U", 0)]], 1, 1, None, 0).end.tolist()
    [2, 4, 4]
    """
    processors = processors or tuple(range(1, len(plan.ends) + 1))
    links = links_of(plan, bandwidth, latency)
    slots = slots_of(plan, links if max(processors) > 1 else None)
    times, scale = ticks_of([slot.time for slot in slots], batches * each)
    stretches, orders = stretches_of(slots, resources, len(plan.ends), each)
    sends, sent = _link_orders(slots, resources, each, processors, len(stretches))
    stretches, orders = stretches + sends, orders + sent
    starts = _run(slots, times, stretches, orders, each)
    at, micro, start, end = _sorted(stretches, times, orders, starts, np.float64 if scale is None else np.int64)
    columns, versions = _columns(slots, at), _versions(resources, len(plan.ends), batches, each)
    home = np.searchsorted(plan.ends, columns["layer"]) + 1  # of the layer; its delta'' runs elsewhere
    version = np.where(columns["kind"] == KINDS.index("U"), micro // each + 1, versions[home - 1, micro])
    return Timeline(plan, name, batches, each, micro=micro, start=start, end=end, version=version, scale=scale or 1,
                    bandwidth=links and links[0], latency_of_link=links and links[1], processors=processors,
                    **columns)  # fmt: skip


def _sorted(stretches, times, orders, starts, dtype):
    """Operations by start; a worker keeps its order where operations take no time."""
    order, begins = ([entry for worker in workers for entry in worker] for workers in (orders, starts))
    columns = spread(stretches, times, order, begins, dtype)
    by_start = np.argsort(columns[2], kind="stable")
    return [column[by_start] for column in columns]


def _columns(slots, at):
    """Columns of a timeline that repeat with the slots."""
    columns = {field: np.array([getattr(slot, field) for slot in slots])[at] for field in ("layer", "stage", "target")}
    columns["kind"] = np.array([KINDS.index(slot.kind) for slot in slots], np.int8)[at]
    columns["tensor"] = np.array([TENSORS.index(slot.tensor) for slot in slots], np.int8)[at]
    return columns


def _versions(resources, stages, batches, each):
    """versions[stage - 1, micro-batch]: updates that the stage has made before its F."""
    versions, updates = np.zeros((stages, batches * each), np.int64), [0] * stages
    for stage, what, number in (block for blocks in resources for block in blocks):
        if what == "U":
            updates[stage - 1] += 1
        elif what == "F":
            versions[stage - 1, number] = updates[stage - 1]
    return versions


def _link_orders(slots, resources, each, processors, count):
    """A stretch of each send, after `count` others, and the order of each link and direction.

    A link carries what its processor makes in the order in which it is made.
    """
    sends, orders = {}, {}  # sends: of each stage, after its F or after its deltas
    for place, slot in enumerate(slots):
        if slot.kind == "send":
            sends.setdefault((slot.stage, slot.target > slot.stage), []).append(place)
            orders[processors[slot.stage - 1], processors[slot.target - 1]] = []
    for places in sends.values():
        places.sort(key=lambda place: slots[place].tensor in ("W", "delta''"))
    stretches, _ = cut(slots, [[(place, slots[place].needs)] for places in sends.values() for place in places])
    at = {stretch.slots[0]: n for n, stretch in enumerate(stretches, count)}
    for blocks in resources if sends else ():
        for stage, what, micro in blocks:
            for place in sends.get((stage, what == "F"), ()) if what in ("F", "delta", "B") else ():
                if slots[place].tensor != "W" or micro % each == 0:
                    link = processors[stage - 1], processors[slots[place].target - 1]
                    orders[link].append((at[place], micro))
    return stretches, list(orders.values())


def ticks_of(times, count):
    """Times as whole numbers of 1 / scale, and the scale; or floats and None.

    Floats where one of them is a float, and where fractions are so fine that the sum of `count` times all of them would
    not fit in 64 bits, as those of Algorithm 1 can be.

    Raises
    ------
    ValueError
        If whole numbers do not fit in 64 bits, or floats are not finite.

    Examples
    --------
    >>> ticks_of([1, Fraction(1, 3)], 4), ticks_of([1, 0.5], 4), ticks_of([1, Fraction(1, 10**18 + 9)], 100)
    (([3, 1], 3), ([1.0, 0.5], None), ([1.0, 1e-18], None))
    """
    scale = math.lcm(*(t.denominator for t in times if isinstance(t, Fraction)))
    if not any(isinstance(t, float) for t in times):
        ticks = [int(t * scale) for t in times]
        if sum(ticks) * count < 2**63:
            return ticks, scale
        if scale == 1:
            raise ValueError("the timeline is longer than 64 bits hold; use fewer mini-batches, costs in a larger "
                             "unit, or a bandwidth as a float, such as 8.0")  # fmt: skip
    try:
        ticks = [float(t) for t in times]
    except OverflowError:
        ticks = [math.inf]
    if not math.isfinite(sum(ticks) * count):
        raise ValueError("the timeline is longer than a float holds; use fewer mini-batches or a larger unit")
    return ticks, None


def _run(slots, times, stretches, orders, each):
    """Start of each stretch of each worker: when the worker is free and what it needs is done."""
    size = len(slots)
    count = max((micro for order in orders for _, micro in order), default=0) + 1
    ends, starts = [None] * (size * count), [[] for _ in orders]  # ends: of what ends a stretch
    steps = [(stretch.needs, stretch.needs_first, _added(times, stretch.slots), stretch.slots[-1])
             for stretch in stretches]  # fmt: skip
    free, waiting, ready = [0] * len(orders), {}, deque(range(len(orders)))
    while ready:
        worker = ready.popleft()
        order, begun, now = orders[worker], starts[worker], free[worker]
        while len(begun) < len(order):
            stretch, micro = order[len(begun)]
            needs, first, spans, last = steps[stretch]
            base, start, missing = micro * size, now, None
            for need in needs:
                end = ends[base + need]
                if end is None:
                    missing = base + need
                    break
                if end > start:
                    start = end
            if first and missing is None:
                start, missing = _after_first(first, micro // each * each * size, ends, start)
            if missing is not None:
                waiting.setdefault(missing, []).append(worker)
                break
            begun.append(start)
            now = start
            for span in spans:
                now += span
            ends[base + last] = now
            if base + last in waiting:
                ready.extend(waiting.pop(base + last))
        free[worker] = now
    if any(len(begun) < len(order) for begun, order in zip(starts, orders)):
        raise ValueError(_circle(slots, _operations(stretches, orders, starts, size), waiting))
    return starts


def _added(times, slots):
    """What is added to the start of a stretch until its end: floats one by one, as their sum would be rounded."""
    spans = tuple(times[slot] for slot in slots)
    return spans if isinstance(spans[0], float) else (sum(spans),)


def _operations(stretches, orders, starts, size):
    """Operation numbers (micro-batch times slots plus slot) that each worker has not run, in order."""
    return [[micro * size + slot for stretch, micro in order[len(begun) :] for slot in stretches[stretch].slots]
            for order, begun in zip(orders, starts)]  # fmt: skip


def _after_first(needs, base, ends, start):
    """Start after what is needed of the first micro-batch of the mini-batch, or what is missing of it."""
    for need in needs:
        if ends[base + need] is None:
            return start, base + need
        start = max(start, ends[base + need])
    return start, None


def _circle(slots, orders, waiting):
    """The operations that wait for each other, as a sentence; `orders` are what is left to run."""
    needed_by = {worker: operation for operation, workers in waiting.items() for worker in workers}
    owner = {operation: worker for worker, order in enumerate(orders) for operation in order}
    worker, seen = next(iter(needed_by)), []
    while worker not in seen:
        seen.append(worker)
        worker = owner[needed_by[worker]]
    workers = seen[seen.index(worker) :]
    steps = [_step(slots, orders[w][0], needed_by[w]) for w in workers[:MOST_STEPS]]
    more = len(workers) - MOST_STEPS
    rest = f", and so on through {more} more" if more > 0 else ""
    return f"the order cannot be run: {', where '.join(steps)}{rest}"


def _step(slots, waiting, needed):
    """One operation waits for another, as a clause."""
    one, other = (_name(slots[i % len(slots)], i // len(slots)) for i in (waiting, needed))
    where = "link" if slots[needed % len(slots)].kind == "send" else "stage"
    return f"{one} waits for {other}, which comes later on its {where}"


def _name(slot, micro):
    what = f"{slot.kind} {slot.tensor}".strip()
    return f"{what} of layer {slot.layer}, micro-batch {micro} on stage {slot.stage}"
