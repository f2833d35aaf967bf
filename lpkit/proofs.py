"""Proof that a plan is optimal, by a programme that shares nothing with the search that found it."""

import math
from fractions import Fraction
from itertools import product

from lpkit.chains import movable, positive
from lpkit.plans import check_plan

__all__ = ["verify_optimal"]


def verify_optimal(plan):
    """Whether no plan with the same number of processors and the same options has a smaller period.

    Tries the largest period below that of `plan` which any plan could have (for float costs: 1e-11 below) with the
    pedestrian form of the dynamic programme: every stage of every length, exact, no windows. A plan that may not be run
    (`check_plan`) is not optimal. A plan of `pipedream` is measured against plans that move nothing, any other
    against plans that share delta.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> from lpkit.partition import optimal, pipedream, Plan
    >>> chain = Costs.from_times([4, 2, 2], 1, [0, 1, 1], unit="cycles")
    >>> verify_optimal(optimal(chain, 2)), verify_optimal(Plan("by hand", chain, 2, ends=(2, 3)))
    (True, False)
    """
    if check_plan(plan):
        return False
    costs, options = plan.costs, dict(plan.options)
    may = movable(costs, options.get("threshold"), options.get("residual", "consumer"))
    caps = [d if m and plan.planner != "pipedream" else 0 for d, m in zip(costs.delta.tolist(), may.tolist())]
    tiles = options.get("granularity")
    tiles = None if tiles is None else [int(tiles)] * len(costs) if isinstance(tiles, int) else [int(t) for t in tiles]
    target = _next_lower(plan, tiles)
    rate = positive(options.get("bandwidth", math.inf), "bandwidth", "bytes per unit of time")
    links = [0 if rate == math.inf else 2 * c / rate for c in costs.cut_bytes.tolist()]
    below = Fraction(plan.period) if costs.unit == "cycles" else target * (1 + Fraction(1, 10**12))
    shut = {layer for layer, time in enumerate(links, 1) if time >= below}
    stages = [w + i for w, i in zip(costs.weight_bytes.tolist(), costs.input_bytes.tolist())]
    memory = positive(options.get("memory", math.inf), "memory", "bytes")
    return not _reachable(list(map(Fraction, costs.work.tolist())), _parts(costs, caps, tiles), target,
                          plan.processors, shut, stages, memory)


def _next_lower(plan, tiles):
    """Largest value below the period that the stages of a plan could take."""
    period = Fraction(plan.period)
    if not period:
        return Fraction(-1)
    if plan.costs.unit != "cycles":
        return period * (1 - Fraction(1, 10**11))
    if tiles:
        unit = math.lcm(*tiles)
        return Fraction(math.ceil(period * unit) - 1, unit)
    return max(Fraction(math.ceil(period * s) - 1, s) for s in range(1, plan.processors + 1))


def _parts(costs, caps, tiles):
    """For each cut the movable deltas, as (layer, cap, tiles or None)."""
    parts = {}
    for layer, (cap, reader) in enumerate(zip(caps, costs.first_consumer.tolist()), 1):
        if cap:
            parts.setdefault(reader - 1, []).append((layer, Fraction(cap), tiles and tiles[layer - 1]))
    return parts


def _reachable(work, parts, period, processors, shut, memories, memory):
    """Whether at most `processors` stages do everything within `period`: stage by stage from the end."""
    spare = {len(work): Fraction(0)}
    for versions in range(1, processors + 1):
        lower = {}
        for end, room in spare.items():
            load = kept = 0
            for start in range(end, 0, -1):  # the stage holds layers start..end
                load += work[start - 1]
                kept += memories[start - 1]
                movers = parts.get(end, ())
                if load > period + sum(cap for _, cap, _ in movers) or kept * versions > memory:
                    break
                left = period - load + _passed(movers, start, room)
                if left >= 0 and start - 1 not in shut:
                    lower[start - 1] = max(left, lower.get(start - 1, left))
        if 0 in lower:
            return True
        spare = lower
    return False


def _passed(parts, start, room):
    """Most work that the deltas of layers from `start` on can pass to a stage with `room`."""
    parts = [(cap, tiles) for layer, cap, tiles in parts if layer >= start]
    if all(tiles is None for _, tiles in parts):
        return min(sum((cap for cap, _ in parts), Fraction(0)), room)
    choices = product(*(range(tiles + 1) for _, tiles in parts))
    sums = (sum(n * cap / tiles for n, (cap, tiles) in zip(counts, parts)) for counts in choices)
    return max(s for s in sums if s <= room)
