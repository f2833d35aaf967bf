"""Proof that a plan is optimal, by a programme that shares nothing with the search that found it."""

import math
from fractions import Fraction

from lpkit.capacities import allreduce_rates
from lpkit.capacity_proofs import Case, faster_exists, most_passed
from lpkit.chains import movable, positive
from lpkit.limits import closed_cuts, group_limit
from lpkit.plans import check_plan

__all__ = ["verify_optimal"]


def verify_optimal(plan):
    """Whether no plan with the same number of processors and the same options has a smaller period.

    Tries the largest period below that of `plan` which any plan could have (for float costs: 1e-11 below) with the
    pedestrian form of the dynamic programme: every stage of every length, exact, no windows. A plan that may not be run
    (`check_plan`) is not optimal. A plan of `pipedream` is measured against plans that move nothing, any other
    against plans that share delta. A plan with speeds or replicas is measured against all groups of processors in the
    order they have, with the speeds or the limit of its options.

    Raises
    ------
    ValueError
        If the plan does not tell the speeds of all processors.

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
    work, parts = list(map(Fraction, costs.work.tolist())), _parts(costs, caps, tiles)
    rate = positive(options.get("bandwidth", math.inf), "bandwidth", "bytes per unit of time")
    links = [0 if rate == math.inf else 2 * c / rate for c in costs.cut_bytes.tolist()]
    stages = [w + i for w, i in zip(costs.weight_bytes.tolist(), costs.input_bytes.tolist())]
    memory = positive(options.get("memory", math.inf), "memory", "bytes")
    closed = closed_cuts(options.get("together", ()))
    if speeds_or_rates := _unequal(plan, options):
        case = Case(work, parts, links, closed, costs.weight_bytes.tolist(), stages, memory, plan.processors,
                    *speeds_or_rates)
        return not faster_exists(case, _barely_below(plan))
    target = _next_lower(plan, tiles)
    below = Fraction(plan.period) if costs.unit == "cycles" else target * (1 + Fraction(1, 10**12))
    shut = closed | {layer for layer, time in enumerate(links, 1) if time >= below}
    return not _reachable(work, parts, target, plan.processors, shut, stages, memory)


def _unequal(plan, options):
    """Speeds of all processors and rates of their all-reduce, as `Case` has them; None for equal processors."""
    if plan.speeds:
        speeds = options.get("speeds", plan.speeds)
        if len(speeds) != plan.processors:
            raise ValueError(f"the plan tells the speeds of {len(speeds)} of {plan.processors} processors, so that it "
                             "cannot be verified; name all of them in its option speeds")
        return [Fraction(speed) for speed in speeds], (Fraction(0),)
    if plan.replicas:
        limit = group_limit(plan.processors, options.get("replicas", True))
        return None, allreduce_rates(limit, options.get("bandwidth"))
    return None


def _barely_below(plan):
    """The period, which a faster plan is strictly below; of float costs 1e-11 less, as they are rounded."""
    period = Fraction(plan.period)
    return period if plan.costs.unit == "cycles" else period * (1 - Fraction(1, 10**11))


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
                left = period - load + most_passed(movers, start, room)
                if left >= 0 and start - 1 not in shut:
                    lower[start - 1] = max(left, lower.get(start - 1, left))
        if 0 in lower:
            return True
        spare = lower
    return False
