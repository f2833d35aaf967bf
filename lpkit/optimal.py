"""The least period of any plan that shares delta with the next stage, and of any that shares nothing (PipeDream's).

For given cuts the least period is the largest, over runs m..n of stages, of (their work - what may leave the last) over
their number; so it is one of finitely many fractions with a denominator of at most the number of processors, and a test
"can it be done within T?" (`lpkit.parametric`) finds the least.
Source: LayerPipe (ICCAD 2021), section IV, for what may move; PipeDream (SOSP 2019), section 3.1, for the partition
without moving.
"""

import math
from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import pairwise

import numpy as np

from lpkit.chains import chain_of, check_processors, granularity_of, movable, positive, split_amount
from lpkit.costs import Costs
from lpkit.parametric import Chain, at_or_above, interval_bound, least_period, partition_within
from lpkit.plans import Certificate, Plan, plain, ratio

__all__ = ["optimal", "straight"]


def optimal(costs, processors, *, threshold=None, granularity=None, residual="consumer", bandwidth=None, memory=None):
    """Plan with the least period: stages are runs of layers, and part of delta may move to the next stage.

    Among the plans with the least period it takes one with the fewest stages; of those, stage by stage from the input,
    the shortest stage (the lowest cut) that leaves the period reachable, and the least work moved.

    Parameters
    ----------
    costs : Costs
        L layers.
    processors : int
        1..L.
    threshold : number of bytes, optional
        A delta whose layer has more bytes of weights does not move.
    granularity : int or sequence of int, shape (L,), optional
        Equal tiles of each delta; only whole tiles move. On an array A wide a delta splits into ceil(input channels / A).
    residual : {"consumer", "sum_site"}
        At a cut after layer e the deltas that may move are those of the layers on the stage whose output layer e+1
        reads first; ``"sum_site"`` holds back those whose result is one term of a sum (`costs.shared_input`).
    bandwidth : number, optional
        Bytes of a link in one unit of time: a cut costs twice its bytes (there and back) over the bandwidth, beside the
        stages; the bytes of moved work are not charged.
    memory : number of bytes, optional
        Of a stage. The n-th stage from the end holds n versions of its weights and of the inputs of its layers.

    Returns
    -------
    Plan
        With a certificate. Exact (int or Fraction) for cycles; for float costs within 1e-11 of the least period.

    Raises
    ------
    ValueError
        If an argument is out of range, or no plan fits the memory.

    References
    ----------
    LayerPipe (ICCAD 2021), section IV: the problem that its Algorithm 1 solves greedily.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> chain = Costs.from_times(1, 0, [0, 3, 0, 1], ["a", "b", "c", "d"], unit="cycles")
    >>> plan = optimal(chain, 3)
    >>> plan.period, plan.ends, plan.moved, plan.loads
    (3, (2, 3, 4), ((2, 1, 2, 2),), (3, 3, 2))
    """
    processors = check_processors(costs, processors)
    given = dict(threshold=threshold, granularity=granularity, residual=residual, bandwidth=bandwidth, memory=memory)
    options = tuple((name, value) for name, value in given.items() if value not in (None, "consumer"))
    task = _task(costs, **given)
    period, ends, shifts = solved(task, processors)
    plan = Plan("optimal", costs, processors, tuple(ends), _moved(task, ends, shifts, period),
                links=_used_links(task, ends), options=options)
    return replace(plan, certificate=certificate(task, plan, period))


def straight(costs, processors, bandwidth=None, memory=None):
    """Ends and link times of the least-period partition that moves nothing (see `lpkit.partition.pipedream`)."""
    task = _task(costs, bandwidth=bandwidth, memory=memory, still=True)
    ends = solved(task, check_processors(costs, processors))[1]
    return tuple(ends), _used_links(task, ends)


@dataclass(frozen=True)
class _Task:
    """What one search needs: the costs, the deltas that may move, their tiles, the chain and its unit, link times."""

    costs: Costs
    may: np.ndarray
    tiles: list | None
    chain: Chain
    unit: Fraction
    links: list | None


def _task(costs, threshold=None, granularity=None, residual="consumer", bandwidth=None, memory=None, still=False):
    tiles, may = granularity_of(costs, granularity), movable(costs, threshold, residual) & (not still)
    links = None
    if bandwidth is not None:
        rate = positive(bandwidth, "bandwidth", "bytes per unit of time")
        links = [Fraction(0) if math.isinf(rate) else 2 * cut / rate for cut in costs.cut_bytes.tolist()]
    memory = None if memory is None else positive(memory, "memory", "bytes")
    return _Task(costs, may, tiles, *chain_of(costs, may, tiles, links, memory), links)


def _used_links(task, ends):
    """Times of the links that the boundaries of `ends` use, in units of the costs."""
    number = plain if task.costs.unit == "cycles" else float
    return tuple(number(task.links[end - 1]) for end in ends[:-1]) if task.links else ()


def denominators(task, processors):
    """Largest denominator of a period that the search tries; 1 where periods are whole units."""
    return processors if task.costs.unit == "cycles" and task.tiles is None else 1


def _work(task):
    """Work of each layer in units."""
    return [b - a for a, b in pairwise(task.chain.prefix)]


def bounds(task):
    """Least period in units of any number of processors, from intervals of layers: ``(period, (a, b))``."""
    return interval_bound(_work(task), leaving(task))


def is_plain(task):
    """Whether each delta may move on its own at the cut after its layer, in any amount, over any link."""
    chain = task.chain
    alone = chain.full[1:-1] == chain.caps[:-1] and all(len(place) == 1 for place in chain.options)
    return alone and task.tiles is None and task.links is None and chain.memory is None


def leaving(task):
    """For each b the most work of layers up to b that may move to a stage after them: at most one cut's worth."""
    caps, readers = task.chain.caps, task.costs.first_consumer.tolist()
    waiting, most = Counter(), []
    for b, (cap, reader) in enumerate(zip(caps, readers), 1):
        waiting.pop(b, None)
        if cap:
            waiting[reader] += cap
        most.append(max(waiting.values(), default=0))
    return most


def solved(task, processors):
    """Least period in units with the chosen stages and shifts, ``(period, ends, shifts)``."""
    lower = max(Fraction(task.chain.prefix[-1], processors), bounds(task)[0])
    most = denominators(task, processors)
    found = least_period(task.chain, processors, most, lower, partial(_tightened, task))
    if found is None:
        raise ValueError(f"no plan of at most {processors} processors keeps every stage within the memory; "
                         "give more memory or more processors")
    # Once more at the least period itself, so that the stages do not depend on the way the search took.
    return found[0], *within(task, found[0], processors)


def within(task, period, processors):
    """`partition_within` for a period in units, over the links that keep to it."""
    allowed = task.chain.links and [link <= period for link in task.chain.links]
    whole = denominators(task, processors) == 1
    return partition_within(task.chain, Fraction(math.floor(period)) if whole else period, processors, allowed)


def _tightened(task, ends, shifts):
    """Least period in units of given stages (with tiles: of given shifts too), links included."""
    loads = [sum(part) for part in _by_stage(_work(task), ends)]
    if task.tiles is None:
        period = interval_bound(loads, _caps_by_stage(task, task.chain.caps, ends))[0]
        period = at_or_above(period, denominators(task, len(ends)))
    else:
        period = max(load - up + down for load, up, down in zip(loads, [*shifts, 0], [0, *shifts]))
    return max([Fraction(period), *(task.chain.links[end] for end in ends[:-1] if task.chain.links)])


def _by_stage(values, ends):
    """`values` of the layers, cut into lists at `ends`."""
    return [values[a:b] for a, b in zip((0, *ends), ends)]


def _caps_by_stage(task, caps, ends):
    """What each stage may pass on: the caps of its layers whose output the next stage reads first."""
    readers = _by_stage(task.costs.first_consumer.tolist(), ends)
    return [sum(c for c, r in zip(part, read) if r == end + 1) for part, read, end in zip(_by_stage(caps, ends), readers, ends)]


def _moved(task, ends, shifts, period):
    """Moved work as `Plan` records it: at each boundary the least that keeps the stage within the period."""
    stages = [range(a + 1, b + 1) for a, b in zip((0, *ends), ends)]
    if task.tiles is None:
        caps = np.where(task.may, task.costs.delta, 0).tolist()
        shifts, worth = _least_shifts(task, caps, ends, period), lambda layer, share: plain(share)
    else:
        caps = task.chain.caps
        worth = partial(_of_tiles, task)
    moves = []
    for k, (stage, shift) in enumerate(zip(stages, shifts), 1):
        shares = split_amount(task.costs, caps, task.tiles, stage, shift) if shift else {}
        moves += [(layer, k, k + 1, worth(layer, shares[layer])) for layer in sorted(shares)]
    return tuple(moves)


def _of_tiles(task, layer, units):
    """Work, in the unit of the costs, of the tiles of `layer` that take so many `units`."""
    tiles, whole = task.tiles[layer - 1], task.chain.caps[layer - 1]
    return plain(task.costs.delta[layer - 1].item() * Fraction(units * tiles // whole, tiles))


def _least_shifts(task, caps, ends, period):
    """Shift at each boundary in the costs' own numbers: y_k = max(0, S_k + y_(k-1) - T), which the cap holds."""
    works = [sum(part) for part in _by_stage(task.costs.work.tolist(), ends)]
    limits = _caps_by_stage(task, caps, ends)
    if task.costs.unit == "cycles":
        period /= task.unit
    else:
        period = max([interval_bound(works, limits)[0], *_used_links(task, ends)])
    shift, shifts = 0, []
    for work, limit in zip(works[:-1], limits):
        shift = min(max(0, work + shift - period), limit)
        shifts.append(shift)
    return shifts


def certificate(task, plan, period):
    """Why `plan`, whose period in units is `period`, is optimal, and how far more processors would help."""
    costs, processors = plan.costs, plan.processors
    least, interval = bounds(task)
    saturation, stages = _saturation(task, period, len(plan.ends), least)
    if period == at_or_above(Fraction(task.chain.prefix[-1], processors), denominators(task, processors)):
        binding = (1, len(costs), processors)
    elif period == at_or_above(least, denominators(task, processors)):
        binding = (*interval, interval[1] - interval[0] + 1)
    else:
        binding = None
    average = plain(ratio(costs.total, processors))
    floor = plan.period if saturation == period else _in_costs(task, saturation)
    return Certificate(plan.period, average, floor, binding, stages, _text(plan, binding, floor, stages))


def _saturation(task, period, stages, least):
    """Least period in units of any number of processors, and the fewest stages that reach it."""
    layers = len(task.costs)
    if not is_plain(task):
        least, ends, _ = solved(task, layers)
        return (least, len(ends))
    least = at_or_above(least, denominators(task, layers))
    return least, stages if least == period else len(within(task, least, layers)[0])


def _in_costs(task, units):
    """A period of `units` in the unit of the costs."""
    return plain(units / task.unit) if task.costs.unit == "cycles" else float(units / task.unit)


def _text(plan, binding, floor, stages):
    """The certificate for people."""
    costs = plan.costs
    head = f"optimal: no plan of {plan.processors} processors beats {float(plan.period):.4g} {costs.unit}: "
    if binding is None:
        why = "every smaller period that a plan could have was ruled out"
    elif binding == (1, len(costs), plan.processors):
        why = "that is all work divided evenly"
    else:
        a, b, s = binding
        names = costs.layers[a - 1] if a == b else f"{costs.layers[a - 1]} to {costs.layers[b - 1]}"
        why = (f"{names} cannot share more with the stage after and meet{'s' if a == b else ''} at most {s} "
               f"stage{'s' * (s > 1)}")
    return f"{head}{why}; from {stages} processors on nothing helps ({float(floor):.4g} {costs.unit})"
