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
from lpkit.timeline import Timeline
from lpkit.timeline_rows import KINDS, TENSORS

__all__ = ["BLOCKS", "ticks_of", "timeline_of"]

BLOCKS = ("F", "delta", "G", "B", "U")
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
    orders, versions = _expanded(slots, resources, len(plan.ends), batches, each)
    orders += _link_orders(slots, resources, each, processors)
    times, scale = ticks_of([slot.time for slot in slots], batches * each)
    starts, ends = _run(slots, times, orders, each)
    ids, start, end = _sorted(orders, starts, ends, np.float64 if scale is None else np.int64)
    columns = _columns(slots, ids % len(slots))
    micro = ids // len(slots)
    home = np.array([plan.stage_of(slot.layer) for slot in slots])[ids % len(slots)]
    version = np.where(columns["kind"] == KINDS.index("U"), micro // each + 1, versions[home - 1, micro])
    return Timeline(plan, name, batches, each, micro=micro, start=start, end=end, version=version, scale=scale or 1,
                    bandwidth=links and links[0], latency_of_link=links and links[1], processors=processors,
                    **columns)  # fmt: skip


def _sorted(orders, starts, ends, dtype):
    """Operation numbers by start with their times; a worker keeps its order where operations take no time."""
    ids = np.concatenate([np.array(order, np.int64) for order in orders])
    start, end = (np.fromiter(map(times.__getitem__, ids.tolist()), dtype, len(ids)) for times in (starts, ends))
    order = np.argsort(start, kind="stable")
    return ids[order], start[order], end[order]


def _columns(slots, at):
    """Columns of a timeline that repeat with the slots."""
    columns = {field: np.array([getattr(slot, field) for slot in slots])[at] for field in ("layer", "stage", "target")}
    columns["kind"] = np.array([KINDS.index(slot.kind) for slot in slots], np.int8)[at]
    columns["tensor"] = np.array([TENSORS.index(slot.tensor) for slot in slots], np.int8)[at]
    return columns


def _expanded(slots, resources, stages, batches, each):
    """Operation numbers (micro-batch times slots plus slot) of each worker, and versions[stage - 1, micro-batch]."""
    runs = _blocks(slots, stages)
    versions, updates = np.zeros((stages, batches * each), np.int64), [0] * stages
    orders = []
    for blocks in resources:
        orders.append(order := [])
        for stage, what, number in blocks:
            micro = number * each + each - 1 if what == "U" else number
            if what == "U":
                updates[stage - 1] += 1
            elif what == "F":
                versions[stage - 1, micro] = updates[stage - 1]
            base = micro * len(slots)
            order += [base + slot for slot in runs[stage, what]]
    return orders, versions


def _blocks(slots, stages):
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


def _link_orders(slots, resources, each, processors):
    """Operation numbers of each link and direction: in the order in which its processor makes what it sends."""
    sends, orders = {}, {}  # sends: of each stage, after its F or after its deltas
    for place, slot in enumerate(slots):
        if slot.kind == "send":
            sends.setdefault((slot.stage, slot.target > slot.stage), []).append(place)
            orders[processors[slot.stage - 1], processors[slot.target - 1]] = []
    for places in sends.values():
        places.sort(key=lambda place: slots[place].tensor in ("W", "delta''"))
    for blocks in resources if sends else ():
        for stage, what, micro in blocks:
            for place in sends.get((stage, what == "F"), ()) if what in ("F", "delta", "B") else ():
                if slots[place].tensor != "W" or micro % each == 0:
                    link = processors[stage - 1], processors[slots[place].target - 1]
                    orders[link].append(micro * len(slots) + place)
    return list(orders.values())


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


def _run(slots, times, orders, each):
    """Start and end of each operation: when its worker is free and what it needs is done."""
    size = len(slots)
    needs, first = [slot.needs for slot in slots], [slot.needs_first for slot in slots]
    count = max((max(order) for order in orders if order), default=0) // size + 1
    starts, ends = [None] * (size * count), [None] * (size * count)
    at, free, waiting, ready = [0] * len(orders), [0] * len(orders), {}, deque(range(len(orders)))
    while ready:
        worker = ready.popleft()
        order, place, now = orders[worker], at[worker], free[worker]
        while place < len(order):
            operation = order[place]
            slot = operation % size
            base = operation - slot
            start, missing = now, None
            for need in needs[slot]:
                end = ends[base + need]
                if end is None:
                    missing = base + need
                    break
                if end > start:
                    start = end
            if first[slot] and missing is None:
                start, missing = _after_first(first[slot], operation // size // each * each * size, ends, start)
            if missing is not None:
                waiting.setdefault(missing, []).append(worker)
                break
            starts[operation], ends[operation] = start, (now := start + times[slot])
            place += 1
            if operation in waiting:
                ready.extend(waiting.pop(operation))
        at[worker], free[worker] = place, now
    if any(place < len(order) for place, order in zip(at, orders)):
        raise ValueError(_circle(slots, orders, at, waiting))
    return starts, ends


def _after_first(needs, base, ends, start):
    """Start after what is needed of the first micro-batch of the mini-batch, or what is missing of it."""
    for need in needs:
        if ends[base + need] is None:
            return start, base + need
        start = max(start, ends[base + need])
    return start, None


def _circle(slots, orders, at, waiting):
    """The operations that wait for each other, as a sentence."""
    needed_by = {worker: operation for operation, workers in waiting.items() for worker in workers}
    owner = {operation: worker for worker, order in enumerate(orders) for operation in order[at[worker]:]}
    worker, seen = next(iter(needed_by)), []
    while worker not in seen:
        seen.append(worker)
        worker = owner[needed_by[worker]]
    workers = seen[seen.index(worker) :]
    steps = [_step(slots, orders[w][at[w]], needed_by[w]) for w in workers[:MOST_STEPS]]
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
