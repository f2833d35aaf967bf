"""Schedules of a pipeline: a plan and a number of mini-batches in, a `Timeline` out.

A schedule says in which order each stage runs its blocks: F of its layers, delta, G (or B, both layer by layer), and
the update U, which takes no time. Everything starts as soon as its stage is free and what it needs is there. Moved work
of the plan (delta'') runs on the next stage in every schedule, with the deltas of that stage. All layers run in the
linear order of the costs, so that a layer beside a skip connection waits for its neighbour.
Source: LayerPipe (ICCAD 2021), Fig. 6; GPipe (NeurIPS 2019); PipeDream (SOSP 2019); Zero Bubble (ICLR 2024).
"""

import math
import numbers
from collections import deque, namedtuple
from fractions import Fraction

import numpy as np

from lpkit.checks import choice, plain, shown, whole_number
from lpkit.plans import Plan, check_plan, ratio
from lpkit.timeline import KINDS, TENSORS, Timeline, moved_work

__all__ = ["SCHEDULES", "gpipe", "hand_made", "layerpipe", "one_f_one_b", "pipedream", "schedule", "sequential",
           "zero_bubble"]

MODELS = ("registered", "1f1b")
BLOCKS = ("F", "delta", "G", "B", "U")
MOST_OPERATIONS = 20_000_000

Slot = namedtuple("Slot", "kind layer stage time tensor target needs needs_first")
# An operation of one micro-batch. `needs` are places of other slots in the same micro-batch, `needs_first` in the first
# one of the mini-batch.


def sequential(plan, batches=1, *, bandwidth=None, latency=0):
    """One operation at a time in the whole pipeline: the stages wait for each other.

    The period is the whole work. `bandwidth` and `latency` are explained at `layerpipe`.

    Raises
    ------
    ValueError
        As `layerpipe`.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> plan = Plan("by hand", Costs.from_times([2, 2], 2, [0, 2], unit="cycles"), 2, ends=(1, 2))
    >>> sequential(plan, 3).period, sequential(plan, 3).makespan
    (10, 30)
    """
    batches, stages = _counted(plan, batches), range(1, len(_runnable(plan).ends) + 1)
    order = [block for n in range(batches)
             for block in (*((k, "F", n) for k in stages), *((k, what, n) for k in reversed(stages) for what in "BU"))]
    return _timeline(plan, "sequential", [order], batches, 1, bandwidth, latency)


def gpipe(plan, batches=1, *, micro_batches=4, bandwidth=None, latency=0):
    """All micro-batches forward, then all back, last one first; then the update.

    Activations are kept, not computed again. The plan holds the costs of one micro-batch.

    Raises
    ------
    ValueError
        As `layerpipe`; or if `micro_batches` is not a whole number of at least 1.

    References
    ----------
    Huang et al., GPipe (NeurIPS 2019), Fig. 2(c).

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> plan = Plan("by hand", Costs.from_times([2, 2], 2, [0, 2], unit="cycles"), 2, ends=(1, 2))
    >>> gpipe(plan, micro_batches=3).makespan, gpipe(plan, micro_batches=3).in_flight
    (22, (3, 3))
    """
    batches, M = _counted(plan, batches, micro_batches)
    order = [("F", m) for m in range(M)] + [("B", m) for m in reversed(range(M))]
    return _flushing(plan, "gpipe", lambda after: order, batches, M, bandwidth, latency)


def one_f_one_b(plan, batches=1, *, micro_batches=4, delta_first=False, bandwidth=None, latency=0):
    """One forward, one backward in turn, with a flush and an update after `micro_batches`.

    A stage with S stages after it takes S + 1 micro-batches in before its first backward. With `delta_first` a stage
    runs all its deltas before its first G; otherwise G and delta layer by layer.

    Raises
    ------
    ValueError
        As `gpipe`.

    References
    ----------
    Narayanan et al., PipeDream-Flush (ICML 2021), Fig. 4.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> costs = Costs.from_times([9, 5, 4], [8, 6, 4], [8, 5, 3], unit="cycles")
    >>> plan = Plan("by hand", costs, 3, ends=(1, 2, 3))
    >>> [one_f_one_b(plan, micro_batches=48, delta_first=first).makespan for first in (False, True)]
    [1209, 1201]
    """
    batches, M = _counted(plan, batches, micro_batches)
    backward = ("delta", "G") if delta_first else "B"

    def order(after):
        return _in_turn(M, after + 1, backward)

    return _flushing(plan, "one_f_one_b", order, batches, M, bandwidth, latency)


def zero_bubble(plan, batches=1, *, micro_batches=4, bandwidth=None, latency=0):
    """1F1B with a flush in which G waits and fills bubbles: ZB-H1, whose B and W are delta and G here.

    Stage k puts off G by k - 1 micro-batches, so that no stage keeps more of them than the first stage of 1F1B.

    Raises
    ------
    ValueError
        As `gpipe`.

    References
    ----------
    Qi et al., Zero Bubble Pipeline Parallelism (ICLR 2024), section 2.1 and Fig. 2.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> plan = Plan("by hand", Costs.from_times([1] * 4, 1, 1, unit="cycles"), 4, ends=(1, 2, 3, 4))
    >>> zero_bubble(plan, micro_batches=8).makespan, one_f_one_b(plan, micro_batches=8).makespan
    (27, 33)
    """
    batches, M = _counted(plan, batches, micro_batches)
    stages = len(_runnable(plan).ends)

    def order(after):
        return _put_off(_in_turn(M, after + 1, ("delta",)), stages - 1 - after, M)

    return _flushing(plan, "zero_bubble", order, batches, M, bandwidth, latency)


def pipedream(plan, batches=1, *, bandwidth=None, latency=0):
    """One forward, one backward in turn without a flush; each mini-batch ends with an update of its own.

    F takes the newest weights and delta those that F used. With S stages after it a layer keeps S versions beside the
    newest, and its gradients are S updates late. The period is that of the plan, where links take no time.

    Raises
    ------
    ValueError
        As `layerpipe`.

    References
    ----------
    Narayanan et al., PipeDream (SOSP 2019), sections 3.2 and 3.3.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> plan = Plan("by hand", Costs.from_times([4, 2, 2], 2, [2, 2, 2], unit="cycles"), 3, ends=(1, 2, 3))
    >>> pipedream(plan, 9).period, plan.period, pipedream(plan, 9).weight_versions
    (8, 8, (3, 2, 1))
    """
    batches = _counted(plan, batches)
    return _updating(plan, "pipedream", lambda after: after + 1, "B", batches, bandwidth, latency)


def layerpipe(plan, batches=1, *, model="registered", bandwidth=None, latency=0):
    """LayerPipe: as `pipedream`, with all deltas of a stage before its G, and delta'' right after them.

    Parameters
    ----------
    plan : Plan
    batches : int
        Mini-batches.
    model : {"registered", "1f1b"}
        ``"registered"``: as in the derived graph, with a register at each boundary in both directions, a stage with S
        stages after it takes 2 S + 1 mini-batches in before its first backward, and its gradients are 2 S updates late.
        ``"1f1b"``: S + 1 and S, as in PipeDream, at the same period.
    bandwidth : number or sequence, optional
        Bytes a link carries in one unit of time, for all boundaries or for each. Without it sends take no time.
    latency : number or sequence
        Added to each send. A link carries one tensor at a time in each direction, from stage to stage.

    Returns
    -------
    Timeline

    Raises
    ------
    ValueError
        If the plan cannot be run, the mini-batches are not a whole number of at least 1, the model is unknown, or a
        bandwidth or latency is not a number in range.

    References
    ----------
    LayerPipe (ICCAD 2021), section IV and Figs. 5 and 6; section III for 2 S.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> plan = Plan("by hand", Costs.from_times([4, 2, 2], 2, [2, 2, 2], unit="cycles"), 3, ends=(1, 2, 3))
    >>> [(line.period, line.weight_versions) for line in (layerpipe(plan, 15), layerpipe(plan, 15, model="1f1b"))]
    [(8, (5, 3, 1)), (8, (3, 2, 1))]
    """
    batches, each = _counted(plan, batches), 2 if choice(model, "model", MODELS) == "registered" else 1
    return _updating(plan, "layerpipe", lambda after: each * after + 1, ("delta", "G"), batches, bandwidth, latency)


def hand_made(plan, orders, *, micro_batches=1, bandwidth=None, latency=0):
    """A timeline from an order of your own.

    Parameters
    ----------
    plan : Plan
    orders : sequence of sequences of (block, number), one a stage
        Blocks are ``"F"``, ``"delta"`` and ``"G"`` (or ``"B"`` for both, layer by layer) of a micro-batch, and ``"U"``
        of a mini-batch, counted from 0 through all mini-batches.
    micro_batches : int
        Of each mini-batch.
    bandwidth, latency
        As for `layerpipe`.

    Raises
    ------
    ValueError
        If a block is missing, unknown or there twice, or the stages wait for each other in a circle, which is named.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> plan = Plan("by hand", Costs.from_times([2, 2], 2, [0, 2], unit="cycles"), 2, ends=(1, 2))
    >>> hand_made(plan, [[("F", 0), ("B", 0), ("U", 0)]] * 2).makespan
    10
    >>> hand_made(plan, [[("B", 0), ("F", 0), ("U", 0)]] * 2)  # doctest: +NORMALIZE_WHITESPACE
    Traceback (most recent call last):
    ...
    ValueError: the order cannot be run: G of layer 2, micro-batch 0 on stage 2 waits for F of layer 2, micro-batch 0
    on stage 2, which comes later on its stage
    """
    stages = len(_runnable(plan).ends)
    if not isinstance(orders, (list, tuple)) or len(orders) != stages:
        count = len(orders) if isinstance(orders, (list, tuple)) else shown(orders)
        raise ValueError(f"orders has {count} entries; give one list of blocks for each of the {stages} stages")
    orders = [_entries(order, k) for k, order in enumerate(orders, 1)]
    each = whole_number(micro_batches, "micro_batches")
    batches = _counted(plan, max((n + 1 for order in orders for what, n in order if what == "U"), default=0), each)[0]
    for k, order in enumerate(orders, 1):
        _complete(order, k, batches, each)
    blocks = [[(k, *entry) for entry in order] for k, order in enumerate(orders, 1)]
    return _timeline(plan, "hand_made", blocks, batches, each, bandwidth, latency)


SCHEDULES = {"sequential": sequential, "gpipe": gpipe, "one_f_one_b": one_f_one_b, "pipedream": pipedream,
             "layerpipe": layerpipe, "zero_bubble": zero_bubble}


def schedule(plan, name="layerpipe", batches=1, **options):
    """Timeline by the schedule of that name; `options` are the keyword options of that function.

    Raises
    ------
    ValueError
        If there is no such schedule, or as the schedule does.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> plan = Plan("by hand", Costs.from_times([2, 2], 2, [0, 2], unit="cycles"), 2, ends=(1, 2))
    >>> {name: schedule(plan, name, 6).makespan for name in SCHEDULES}  # doctest: +NORMALIZE_WHITESPACE
    {'sequential': 60, 'gpipe': 168, 'one_f_one_b': 168, 'pipedream': 40, 'layerpipe': 38, 'zero_bubble': 146}
    """
    return SCHEDULES[choice(name, "schedule", tuple(SCHEDULES))](plan, batches, **options)


# Orders


def _in_turn(count, ahead, backward):
    """Blocks of a stage that takes `ahead` micro-batches in, then runs one back and one forward in turn."""
    order = [("F", m) for m in range(min(ahead, count))]
    for m in range(count):
        order += [(what, m) for what in backward]
        order += [("F", m + ahead)] if m + ahead < count else []
    return order


def _put_off(order, late, count):
    """`order` with G of a micro-batch after the delta `late` micro-batches further on."""
    result = []
    for what, m in order:
        result.append((what, m))
        if what == "delta" and m >= late:
            result.append(("G", m - late))
    return result + [("G", m) for m in range(max(count - late, 0), count)]


def _flushing(plan, name, order, batches, each, bandwidth, latency):
    """Timeline of a schedule that repeats the same order, by stages after a stage, for every mini-batch."""
    stages, blocks = len(_runnable(plan).ends), []
    for k in range(1, stages + 1):
        one = order(stages - k)
        blocks.append([block for n in range(batches)
                       for block in (*((k, what, n * each + m) for what, m in one), (k, "U", n))])  # fmt: skip
    return _timeline(plan, name, blocks, batches, each, bandwidth, latency)


def _updating(plan, name, ahead, backward, batches, bandwidth, latency):
    """Timeline of a schedule that updates after each mini-batch and never flushes."""
    stages = len(_runnable(plan).ends)
    blocks = [[(k, *block) for block in _in_turn(batches, ahead(stages - k), (*backward, "U"))]
              for k in range(1, stages + 1)]  # fmt: skip
    return _timeline(plan, name, blocks, batches, 1, bandwidth, latency)


# Checks


def _runnable(plan):
    if not isinstance(plan, Plan):
        raise ValueError(f"plan is {shown(plan)}; give a Plan, as a planner returns it")
    if problems := check_plan(plan):
        raise ValueError(f"the plan cannot be run: {problems[0]}; choose another planner or mode")
    return plan


def _counted(plan, batches, micro_batches=None):
    """The counts as whole numbers, small enough together."""
    counts = [whole_number(batches, "batches")]
    counts += [] if micro_batches is None else [whole_number(micro_batches, "micro_batches")]
    operations = math.prod(counts) * 4 * len(_runnable(plan).costs)
    if operations > MOST_OPERATIONS:
        raise ValueError(f"there would be about {operations:,} operations; ask for at most {MOST_OPERATIONS:,}, "
                         "with fewer mini- or micro-batches")  # fmt: skip
    return counts[0] if micro_batches is None else counts


def _entries(order, stage):
    """The (block, number) pairs of a hand-made order."""
    if not isinstance(order, (list, tuple)):
        raise ValueError(f"the order of stage {stage} is {shown(order)}; give a list of pairs such as ('F', 0)")
    for entry in order:
        if not isinstance(entry, (list, tuple)) or len(entry) != 2:
            raise ValueError(f"stage {stage} has the entry {shown(entry)}; give pairs such as ('F', 0)")
    return [(choice(what, "block", BLOCKS), whole_number(n, "micro-batch", least=0)) for what, n in order]


def _complete(order, stage, batches, each):
    """Raise unless a stage does all of all mini-batches once."""
    both = [part for what, m in order for part in ((("delta", m), ("G", m)) if what == "B" else ((what, m),))]
    expected = {(what, m) for what in ("F", "delta", "G") for m in range(batches * each)}
    expected |= {("U", n) for n in range(batches)}
    seen = set()
    for what, m in both:
        if (what, m) in seen or (what, m) not in expected:
            why = "is there twice" if (what, m) in seen else f"is beyond the {batches} mini-batches that have a U"
            raise ValueError(f"on stage {stage} {what} {m} {why}; give each block once")
        seen.add((what, m))
    for what, m in sorted(expected - seen):
        raise ValueError(f"on stage {stage} {what} {m} is missing; give F, delta and G (or B) of each micro-batch and "
                         "U of each mini-batch")  # fmt: skip


def _each_boundary(value, name, plan, least_allowed):
    """One number a boundary, exact where given exactly."""
    boundaries = len(plan.ends) - 1
    values = list(value) if isinstance(value, (list, tuple, np.ndarray)) else [value] * boundaries
    if len(values) != boundaries:
        raise ValueError(f"{name} has {len(values)} entries; give one number, or one for each of {boundaries} "
                         "boundaries")  # fmt: skip
    values = [plain(v) for v in values]
    for v in values:
        number = isinstance(v, numbers.Real) and not isinstance(v, bool) and math.isfinite(v)
        if not number or v < 0 or (v == 0 and not least_allowed):
            range_of = "of at least" if least_allowed else "above"
            raise ValueError(f"{name} is {shown(v)}; it must be a number {range_of} 0")
    return tuple(values)


# From orders to times


def _timeline(plan, name, resources, batches, each, bandwidth, latency):
    """Timeline of `resources`: for each worker its blocks (stage, block, number) in order."""
    links = _links(plan, bandwidth, latency)
    slots = _slots(plan, links)
    orders, versions = _expanded(slots, resources, len(plan.ends), batches, each)
    if links:
        orders += _link_orders(plan, slots, resources, each)
    times, scale = _ticks([slot.time for slot in slots], batches * each)
    starts, ends = _run(slots, times, orders, each)
    ids = np.concatenate([np.array(order, np.int64) for order in orders])
    columns = {field: np.array([getattr(slot, field) for slot in slots]) for field in ("layer", "stage", "target")}
    columns["kind"] = np.array([KINDS.index(slot.kind) for slot in slots], np.int8)
    columns["tensor"] = np.array([TENSORS.index(slot.tensor) for slot in slots], np.int8)
    exact = np.float64 if scale is None else np.int64
    start, end = (np.fromiter((t[i] for i in ids.tolist()), exact, len(ids)) for t in (starts, ends))
    order = np.argsort(start, kind="stable")  # a stage keeps its order where operations take no time
    ids, start, end = ids[order], start[order], end[order]
    of, micro = ids % len(slots), ids // len(slots)
    home = np.array([plan.stage_of(layer) for layer in columns["layer"].tolist()])[of]
    version = np.where(columns["kind"][of] == KINDS.index("U"), micro // each + 1, versions[home - 1, micro])
    return Timeline(plan, name, batches, each, micro=micro, start=start, end=end, version=version, scale=scale or 1,
                    bandwidth=links and links[0], latency_of_link=links and links[1],
                    **{field: column[of] for field, column in columns.items()})  # fmt: skip


def _links(plan, bandwidth, latency):
    """Bandwidth and latency of each boundary; None where sends take no time."""
    latencies = _each_boundary(latency, "latency", plan, True)
    if bandwidth is None:
        return ((None,) * len(latencies), latencies) if any(latencies) else None
    return _each_boundary(bandwidth, "bandwidth", plan, False), latencies


def _slots(plan, links):
    """Operations of one micro-batch with what each needs."""
    slots = []
    add, send, across = _adders(plan.costs, links, slots)
    forward = _forward(plan, add, across)
    _backward(plan, add, send, across, forward)
    return slots


def _adders(costs, links, slots):
    """Three functions: append an operation, a send over a boundary, the sends of a tensor from stage to stage."""

    def add(kind, layer, stage, time, needs, *, tensor="", target=0, first=()):
        slots.append(Slot(kind, layer, stage, time, tensor, target, tuple(needs), tuple(first)))
        return len(slots) - 1

    def send(tensor, layer, stage, target, size, needs):
        if not links:
            return list(needs)
        bandwidth, latency = (values[min(stage, target) - 1] for values in links)
        time = latency + (0 if bandwidth is None else ratio(size, bandwidth))
        return [add("send", layer, stage, time, needs, tensor=tensor, target=target)]

    def across(tensor, layer, cut, source, target, needs):
        step = 1 if target > source else -1
        for k in range(source, target, step):
            needs = send(tensor, layer, k, k + step, int(costs.cut_bytes[cut - 1]), needs)
        return needs

    return add, send, across


def _forward(plan, add, across):
    """F of each layer: {layer: place}."""
    places, needs, before = {}, [], None
    for l, time in enumerate(plan.costs.F.tolist(), 1):
        home = plan.stage_of(l)
        needs = across("a", l - 1, l - 1, before, home, needs) if l > 1 else needs
        places[l], before = add("F", l, home, time, needs), home
        needs = [places[l]]
    return places


def _backward(plan, add, send, across, forward):
    """G, delta or its two parts, and U of each layer, last one first."""
    costs, moved, errors = plan.costs, moved_work(plan), {}  # errors: what the error that a layer passes down needs
    L, G, delta = len(costs), costs.G.tolist(), costs.delta.tolist()
    for l in range(L, 0, -1):
        home = plan.stage_of(l)
        needs = across("delta", l + 1, l, plan.stage_of(l + 1), home, errors[l + 1]) if l < L else []
        needs = [*needs, forward[l]]
        add("U", l, home, 0, [add("G", l, home, G[l - 1], needs)])
        if l in moved:
            target, amount = moved[l]
            share = ratio(amount, delta[l - 1])
            copy = send("W", l, home, target, share * int(costs.weight_bytes[l - 1]), [forward[l]])
            there = add("delta''", l, target, amount, errors[plan.stages[target - 1].start], first=copy)
            back = send("delta''", l, target, home, share * int(costs.input_bytes[l - 1]), [there])
            errors[l] = [add("delta'", l, home, delta[l - 1] - amount, needs), *back]
        elif l > 1 or delta[0]:
            errors[l] = [add("delta", l, home, delta[l - 1], needs)]


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


def _link_orders(plan, slots, resources, each):
    """Operation numbers of each link and direction: in the order in which the stages make what they send."""
    made = {}  # micro-batches in the order of F and of delta, for each stage
    for blocks in resources:
        for stage, what, micro in blocks:
            if what in ("F", "delta", "B"):
                made.setdefault((stage, what == "F"), []).append(micro)
    sends = {}
    for place, slot in enumerate(slots):
        if slot.kind == "send":
            sends.setdefault((slot.stage, slot.target), []).append(place)
    orders = []
    for (stage, target), places in sends.items():
        places.sort(key=lambda place: slots[place].tensor in ("W", "delta''"))
        for_each = made[plan.stage_of(slots[places[0]].layer) if target > stage else stage, target > stage]
        orders.append([micro * len(slots) + place for micro in for_each for place in places
                       if slots[place].tensor != "W" or micro % each == 0])  # fmt: skip
    return orders


def _ticks(times, count):
    """Times as whole numbers of 1 / scale, and the scale; floats and None if one of them is a float."""
    if any(isinstance(t, float) for t in times):
        return [float(t) for t in times], None
    scale = math.lcm(*(t.denominator for t in times if isinstance(t, Fraction)))
    ticks = [int(t * scale) for t in times]
    if sum(ticks) * count >= 2**63:
        raise ValueError(f"the timeline is longer than 64 bits hold (in units of 1/{scale}); use fewer mini-batches or "
                         "costs in a larger unit")  # fmt: skip
    return ticks, scale


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
    pairs = [(orders[w][at[w]], needed_by[w]) for w in seen[seen.index(worker) :]]
    steps = [" waits for ".join(_name(slots[i % len(slots)], i // len(slots)) for i in pair) for pair in pairs]
    later = ", which comes later on its stage"
    return f"the order cannot be run: {f'{later}, where '.join(steps)}{later}"


def _name(slot, micro):
    what = f"{slot.kind} {slot.tensor}".strip()
    return f"{what} of layer {slot.layer}, micro-batch {micro} on stage {slot.stage}"
