"""Stages that may do unequal work in a period: on processors of unequal speed, or on several processors each.

A stage has a capacity c: the speed of its processor, or the number of its replicas, each of which takes every c-th
mini-batch. Within a period T it may do c T of work; of that, replicas spend a share on the all-reduce of the gradients
of their weights, which for r of them takes ``4 (r - 1) / r`` bytes for each byte of weights over the bandwidth, once in
r mini-batches. All of it is put in whole units here.
Source: PipeDream (SOSP 2019), section 3.1, with the all-reduce as its published optimizer charges it.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate

from lpkit.chains import positive
from lpkit.checks import plain
from lpkit.limits import group_limit, machines, speeds_of
from lpkit.parametric import Chain, scaled
from lpkit.search import leaving

__all__ = ["Crew", "Problem", "Row", "Step", "allreduce_rates", "base", "crew_of", "problem_of", "rows"]

GRAIN = 2**40  # the work is at least so many units, so that whole periods lie close together


@dataclass(frozen=True)
class Crew:
    """The processors: a speed for each of them, or the most that may share a stage and what their all-reduce takes.

    Attributes
    ----------
    processors : int
    speeds : tuple of Fraction or None
    limit : int
        Most replicas of a stage; 1 with speeds.
    rates : tuple of Fraction
        Time of an all-reduce for each byte of weights, for 1..limit replicas.
    given : True, int or None
        The limit as it was given.
    """

    processors: int
    speeds: tuple | None
    limit: int
    rates: tuple
    given: object = None

    @property
    def capacity(self):
        """Work that all processors do in a unit of time."""
        return sum(self.speeds) if self.speeds else self.processors

    def most(self, stages):
        """Largest capacity of so many stages."""
        if self.speeds:
            return sum(sorted(self.speeds)[-stages:])
        return min(self.processors, stages * self.limit)


def crew_of(processors, speeds=None, replicas=None, bandwidth=None):
    """The `Crew` of these options of `lpkit.partition.optimal`; None if neither speeds nor replicas are given.

    Raises
    ------
    ValueError
        If both are, or one is out of range.

    Examples
    --------
    >>> crew_of(4, replicas=2, bandwidth=8).rates, crew_of(2, [1, 3]).most(1), crew_of(4)
    ((Fraction(0, 1), Fraction(1, 4)), Fraction(3, 1), None)
    """
    replicas = None if plain(replicas) is False else plain(replicas)
    if speeds is None and replicas is None:
        return None
    if speeds is not None and replicas is not None:
        raise ValueError("speeds and replicas are both given; give one of them, since replicas share the mini-batches "
                         "evenly and so must be equally fast")
    processors = machines(processors)
    if speeds is not None:
        return Crew(processors, speeds_of(processors, speeds), 1, (Fraction(0),))
    limit = group_limit(processors, replicas)
    return Crew(processors, None, limit, allreduce_rates(limit, bandwidth), replicas is True or limit)


def allreduce_rates(limit, bandwidth):
    """Time of an all-reduce among 1..limit replicas for each byte of weights; 0 without a bandwidth.

    Examples
    --------
    >>> allreduce_rates(3, 2)
    (Fraction(0, 1), Fraction(1, 1), Fraction(4, 3))
    """
    rate = math.inf if bandwidth is None else positive(bandwidth, "bandwidth", "bytes per unit of time")
    return tuple(Fraction(0) if rate == math.inf else 4 * (r - 1) / (rate * r) for r in range(1, limit + 1))


@dataclass(frozen=True)
class Step:
    """One way to put a stage below the stages of the state `source`; `place` is its processor, or its replicas."""

    source: tuple
    capacity: int
    replicas: int
    versions: int
    place: int


@dataclass(frozen=True)
class Row:
    """The steps that lead to one state, which also has what the state `skip` has, with one processor unused.

    `above` and `below` are the capacities of the processors of the state and of all others; `last` tells whether the
    state may be that of a whole plan.
    """

    state: tuple
    skip: tuple | None
    steps: tuple
    above: int
    below: int
    last: bool


@dataclass(frozen=True)
class Problem:
    """What the search for unequal stages works on, in whole units.

    Attributes
    ----------
    chain : Chain
        Work, caps and tiles; no links.
    factor : int
        Units here in one unit of the task's chain.
    crew : Crew
    speed_unit : int
        Speeds times it are whole, and a period here is one of the task over it.
    prefixes : list of list
        Work and all-reduce of the first i layers, for 1..limit replicas.
    links : list
        Time of the link at the cut after i layers between single processors; infinite where the cut is closed.
    leaving : list
        For each layer b the most work of layers up to b that a stage after them may do.
    """

    chain: Chain
    factor: int
    crew: Crew
    speed_unit: int
    prefixes: list
    links: list
    leaving: list

    @cached_property
    def capacity(self):
        """Of all processors, whole."""
        return int(self.crew.capacity * self.speed_unit)

    @cached_property
    def denominators(self):
        """Largest denominator that a period of any plan can have."""
        return max(self.capacity, self.speed_unit)


def problem_of(task, crew):
    """The `Problem` of a task of `lpkit.search` for a crew: exact for cycles, rounded to their grid for float costs.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> from lpkit.search import task_of
    >>> chain = Costs.from_times([2**40, 2], 0, 0, unit="cycles", weight_bytes=2)
    >>> problem_of(task_of(chain), crew_of(2, replicas=2, bandwidth=1)).prefixes
    [[0, 1099511627776, 1099511627778], [0, 1099511627780, 1099511627786]]
    """
    rates, links = [rate * task.unit for rate in crew.rates], task.chain.links or [Fraction(0)] * (len(task.costs) + 1)
    exact = task.costs.unit == "cycles"
    speed_unit = math.lcm(*(speed.denominator for speed in crew.speeds or ()))
    factor = speed_unit * (_factor(task, rates, links) if exact else 1)
    chain = scaled(task.chain, factor)
    weights = list(accumulate(task.costs.weight_bytes.tolist(), initial=0))
    prefixes = [[w + round(b * rate * factor) for w, b in zip(chain.prefix, weights)] for rate in rates]
    links = [link if link == math.inf else math.ceil(link * factor) for link in links]
    return Problem(chain, factor, crew, speed_unit, prefixes, links, [cap * factor for cap in leaving(task)])


def _factor(task, rates, links):
    """Units that make every all-reduce and link whole, and the work at least `GRAIN`."""
    whole = math.lcm(*(n.denominator for n in (*rates, *links) if n != math.inf))
    return whole * max(1, GRAIN // max(1, whole * task.chain.prefix[-1]))


def rows(problem, counted):
    """The states in an order in which each comes after those it builds on.

    With speeds a state (p, ..) stands for stages on processors from p on; else (m, ..) for stages on m processors.
    `counted`: a state also holds the number of its stages, as the number of stashed versions and the rule for ties ask
    for; then states with few processors (or, with speeds, few stages) come first.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> from lpkit.search import task_of
    >>> problem = problem_of(task_of(Costs.from_times([1, 1], 0, 0, unit="cycles")), crew_of(2, replicas=2))
    >>> [(row.state, [step.source for step in row.steps]) for row in rows(problem, counted=False)]
    [((1,), [(0,)]), ((2,), [(1,), (0,)])]
    """
    return (_rows_of_speeds if problem.crew.speeds else _rows_of_replicas)(problem, counted)


def base(problem, counted):
    """The state without a stage.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> from lpkit.search import task_of
    >>> problem = problem_of(task_of(Costs.from_times([1, 1], 0, 0, unit="cycles")), crew_of(2, [1, 1]))
    >>> base(problem, False), base(problem, True)
    ((3,), (3, 0))
    """
    first = problem.crew.processors + 1 if problem.crew.speeds else 0
    return (first, 0) if counted else (first,)


def _rows_of_speeds(problem, counted):
    speeds = [int(speed * problem.speed_unit) for speed in problem.crew.speeds]
    P, L, found = len(speeds), len(problem.links) - 1, []
    above = list(accumulate(reversed(speeds), initial=0))[::-1]  # above[p - 1]: of processors p..P
    for n in range(1, min(P, L) + 1) if counted else [None]:
        for p in range(P - (n or 1) + 1, 0, -1):
            state, source, skip = ((p,), (p + 1,), (p + 1,)) if n is None else ((p, n), (p + 1, n - 1), (p + 1, n))
            # Before the first stage any processor may be skipped.
            source = base(problem, counted) if n == 1 else source
            step = Step(source, speeds[p - 1], 1, n or 1, p)
            skip = skip if n is None or p < P - n + 1 else None
            found.append(Row(state, skip, (step,), above[p - 1], above[0] - above[p - 1], p == 1 or n is None))
    return found


def _rows_of_replicas(problem, counted):
    P, L, limit, found = problem.crew.processors, len(problem.links) - 1, problem.crew.limit, []
    for m in range(1, P + 1):
        for n in range(-(-m // limit), min(m, L) + 1) if counted else [None]:
            groups = [r for r in range(1, min(m, limit) + 1) if n is None or _fits(m - r, n - 1, limit)]
            steps = tuple(Step((m - r,) if n is None else (m - r, n - 1), r, r, -(-m // r), r) for r in groups)
            found.append(Row((m,) if n is None else (m, n), None, steps, m, P - m, True))
    return found


def _fits(processors, stages, limit):
    """Whether so many processors can be so many stages."""
    return stages <= processors <= stages * limit
