"""One search for the least period: the costs as a chain, bounds from below, and the period of given stages.

For given cuts the least period is the largest, over runs m..n of stages, of (their work - what may leave the last) over
their number; so it is one of finitely many fractions with a denominator of at most the number of processors.
"""

import math
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from itertools import pairwise

import numpy as np

from lpkit.chains import chain_of, granularity_of, movable, positive
from lpkit.costs import Costs
from lpkit.limits import closed_cuts
from lpkit.parametric import Chain, least_period, partition_within
from lpkit.ratios import at_or_above, interval_bound

__all__ = ["Task", "by_stage", "caps_by_stage", "denominators", "is_plain", "leaving", "solved", "task_of",
           "too_little_memory", "within"]


@dataclass(frozen=True)
class Task:
    """What one search needs: costs, deltas that may move, tiles, the chain and its unit, link times, closed cuts."""

    costs: Costs
    may: np.ndarray
    tiles: list | None
    chain: Chain
    unit: Fraction
    links: list | None
    closed: frozenset = frozenset()

    @cached_property
    def bounds(self):
        """Least period in units of any number of processors, from intervals of layers: ``(period, (a, b))``."""
        return interval_bound(_work(self), leaving(self))


def task_of(costs, threshold=None, granularity=None, residual="consumer", bandwidth=None, memory=None, together=(),
            still=False):  # fmt: skip
    """The `Task` of the options of `optimal`, checked; `together` as numbers of layers; `still`: no delta moves."""
    tiles, may = granularity_of(costs, granularity), movable(costs, threshold, residual) & (not still)
    links = None
    if bandwidth is not None:
        rate = positive(bandwidth, "bandwidth", "bytes per unit of time")
        links = [Fraction(0) if rate == math.inf else 2 * cut / rate for cut in costs.cut_bytes.tolist()]
    memory = None if memory is None else positive(memory, "memory", "bytes")
    closed = closed_cuts(together)
    return Task(costs, may, tiles, *chain_of(costs, may, tiles, links, memory, closed), links, closed)


def denominators(task, processors):
    """Largest denominator of a period that the search tries; 1 where periods are whole units."""
    return processors if task.costs.unit == "cycles" and task.tiles is None else 1


def _work(task):
    """Work of each layer in units."""
    return [b - a for a, b in pairwise(task.chain.prefix)]


def is_plain(task):
    """Whether each delta may move on its own at the cut after its layer, in any amount, over any link."""
    return task.chain.reach == 1 and task.tiles is None and task.chain.links is None and task.chain.memory is None


def leaving(task):
    """For each b the most units of layers up to b that may move to a stage after them: at most one cut's worth.

    Examples
    --------
    >>> leaving(task_of(Costs.from_times([1, 1, 1], 0, [0, 4, 2], unit="cycles")))
    [0, 4, 0]
    """
    caps, readers = task.chain.caps, task.costs.first_consumer.tolist()
    if task.chain.reach == 1:
        return caps
    waiting, most = Counter(), []
    for b, (cap, reader) in enumerate(zip(caps, readers), 1):
        waiting.pop(b, None)
        if cap:
            waiting[reader] += cap
        most.append(max(waiting.values(), default=0))
    return most


def solved(task, processors):
    """Least period in units with the chosen stages and shifts, ``(period, ends, shifts)``.

    Raises
    ------
    ValueError
        If no plan fits the memory.
    """
    lower = max(Fraction(task.chain.prefix[-1], processors), task.bounds[0])
    most = denominators(task, processors)
    found = least_period(task.chain, processors, most, lower, partial(_tightened, task))
    if found is None:
        raise too_little_memory(task, processors)
    # Once more at the least period itself, so that the stages do not depend on the way the search took.
    return found[0], *within(task, found[0], processors)


def too_little_memory(task, processors):
    """The error for a memory that no plan keeps to.

    Examples
    --------
    >>> print(too_little_memory(task_of(Costs.from_times([1, 1, 1], 0, 0)), 2))
    no plan of at most 2 processors keeps every stage within the memory; give more memory or more processors
    """
    fewer = ", or keep fewer layers together" if task.closed else ""
    return ValueError(f"no plan of at most {processors} processors keeps every stage within the memory; "
                      f"give more memory or more processors{fewer}")  # fmt: skip


def within(task, period, processors, find=partition_within):
    """`partition_within` (or `fewest_stages`) for a period in units, over the links that keep to it."""
    allowed = task.chain.links and [link <= period for link in task.chain.links]
    whole = denominators(task, processors) == 1
    return find(task.chain, Fraction(math.floor(period)) if whole else period, processors, allowed)


def _tightened(task, ends, shifts):
    """Least period in units of given stages (with tiles: of given shifts too), links included."""
    loads = [sum(part) for part in by_stage(_work(task), ends)]
    if task.tiles is None:
        period = interval_bound(loads, caps_by_stage(task, task.chain.caps, ends))[0]
        period = at_or_above(period, denominators(task, len(ends)))
    else:
        period = max(load - up + down for load, up, down in zip(loads, [*shifts, 0], [0, *shifts]))
    return max([Fraction(period), *(task.chain.links[end] for end in ends[:-1] if task.chain.links)])


def by_stage(values, ends):
    """`values` of the layers, cut into lists at `ends`.

    Examples
    --------
    >>> by_stage([5, 1, 2], (1, 3))
    [[5], [1, 2]]
    """
    return [values[a:b] for a, b in zip((0, *ends), ends)]


def caps_by_stage(task, caps, ends):
    """What each stage may pass on: the caps of its layers whose output the next stage reads first."""
    parts, readers = by_stage(caps, ends), by_stage(task.costs.first_consumer.tolist(), ends)
    return [sum(c for c, r in zip(p, read) if r == end + 1) for p, read, end in zip(parts, readers, ends)]
