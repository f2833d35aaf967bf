"""The least period of any plan that shares delta with the next stage, and of any that shares nothing (PipeDream's).

For given cuts the least period is the largest, over runs m..n of stages, of (their work - what may leave the last) over
their number; so it is one of finitely many fractions with a denominator of at most the number of processors, and a test
"can it be done within T?" (`lpkit.parametric`) finds the least.
Source: LayerPipe (ICCAD 2021), section IV, for what may move; PipeDream (SOSP 2019), section 3.1, for the partition
without moving.
"""

from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np

from lpkit.certificates import certificate
from lpkit.chains import check_processors, granularity_of, split_amount
from lpkit.plans import Plan, plain
from lpkit.ratios import interval_bound
from lpkit.search import by_stage, caps_by_stage, solved, task_of

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
        Equal tiles of each delta; only whole tiles move. An array A wide splits a delta into ceil(input channels / A).
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
        With a certificate. Exact (int or Fraction) for cycles; for float costs within 1e-12 of the least period.

    Raises
    ------
    ValueError
        If an argument is out of range, or no plan fits the memory.

    References
    ----------
    LayerPipe (ICCAD 2021), section IV: the problem that its Algorithm 1 solves greedily.

    Notes
    -----
    The search is parametric: a test of one period takes time linear in L in practice, and the least period is one of
    finitely many fractions.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> chain = Costs.from_times(1, 0, [0, 3, 0, 1], ["a", "b", "c", "d"], unit="cycles")
    >>> plan = optimal(chain, 3)
    >>> plan.period, plan.ends, plan.moved, plan.loads
    (3, (2, 3, 4), ((2, 1, 2, 2),), (3, 3, 2))
    """
    processors = check_processors(costs, processors)
    tiles = granularity_of(costs, granularity)
    given = dict(threshold=threshold, granularity=tiles, residual=residual, bandwidth=bandwidth, memory=memory)
    task = task_of(costs, **given)
    options = tuple((name, value) for name, value in given.items() if value not in (None, "consumer"))
    period, ends, shifts = solved(task, processors)
    plan = Plan("optimal", costs, processors, tuple(ends), _moved(task, ends, shifts, period),
                links=_used_links(task, ends), options=options)
    return replace(plan, certificate=certificate(task, plan, period))


def straight(costs, processors, bandwidth=None, memory=None):
    """Ends and link times of the least-period partition that moves nothing (see `lpkit.partition.pipedream`)."""
    task = task_of(costs, bandwidth=bandwidth, memory=memory, still=True)
    ends = solved(task, check_processors(costs, processors))[1]
    return tuple(ends), _used_links(task, ends)


def _used_links(task, ends):
    """Times of the links that the boundaries of `ends` use, in units of the costs."""
    number = plain if task.costs.unit == "cycles" else float
    return tuple(number(task.links[end - 1]) for end in ends[:-1]) if task.links else ()


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


def _snapped(shift, limit):
    """`shift` within 0 and `limit`; a float that misses one of them by its rounding alone is put on it."""
    dust = 1e-12 * limit if isinstance(shift, float) else 0
    return 0 if shift <= dust else limit if shift >= limit - dust else shift


def _least_shifts(task, caps, ends, period):
    """Shift at each boundary in the costs' own numbers: y_k = max(0, S_k + y_(k-1) - T), which the cap holds."""
    works = [sum(part) for part in by_stage(task.costs.work.tolist(), ends)]
    limits = caps_by_stage(task, caps, ends)
    if task.costs.unit == "cycles":
        period /= task.unit
    else:
        period = max([interval_bound(works, limits)[0], *_used_links(task, ends)])
    shift, shifts = 0, []
    for work, limit in zip(works[:-1], limits):
        shift = _snapped(work + shift - period, limit)
        shifts.append(shift)
    return shifts
