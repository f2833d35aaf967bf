"""The least period of stages with unequal capacities: the test of one period, and the search among periods.

As in `lpkit.parametric`, cuts are scanned from the last layer down, and ``spare(i)`` is the most work that the stages
above cut i can still take over; one more stage i+1..j of capacity c gives ``c T - W(i+1, j) + min(cap(i, j),
spare(j))``. What the stages above occupy (the processors from one on, or a number of them) is a state, with rooms of
its own. For given stages the least period is the largest, over runs m..n of stages, of (their work and all-reduce -
what may leave the last) over the sum of their capacities: no run can do with less, as its loads add up to that; and the
shifts ``y_k = max(0, S_k + y_(k-1) - c_k T)`` reach it. Everything is a whole number.
"""

import math
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from fractions import Fraction
from heapq import heappop, heappush

from lpkit.capacities import Problem, base, rows
from lpkit.parametric import Chain, least_shift, passed, scaled

__all__ = ["Found", "capacity_bound", "interval_period", "least_shifts", "solve", "within"]


@dataclass(frozen=True)
class Found:
    """Stages that keep to a period: ends, the steps that made them, and the work each passes on, in units."""

    period: Fraction
    ends: list
    steps: list
    shifts: list


@dataclass(frozen=True)
class _Test:
    """A problem at the period ``time / denominator``, with all work times the denominator."""

    problem: Problem
    chain: Chain
    prefixes: list
    needs: list
    time: int
    denominator: int
    lift: int


def _test_of(problem, period):
    """The test of a period; a cut needs so many replicas on both sides that its link keeps to the period."""
    b, time = period.denominator, period.numerator
    prefixes = [[w * b for w in prefix] for prefix in problem.prefixes] if b > 1 else problem.prefixes
    links = (link if link == math.inf else Fraction(link) / problem.speed_unit for link in problem.links)
    needs = [math.ceil(link / period) if period and link < math.inf else math.inf if link else 0 for link in links]
    chain = scaled(problem.chain, b)
    return _Test(problem, chain, prefixes, needs, time, b, max(chain.full))


def within(problem, period, counted=False):
    """`Found` for a period, or None: any stages that keep to it, or with `counted` those that the rule for ties takes.

    That rule: with speeds the fewest stages; then, from the input on, the first processor that leaves the period
    reachable. With replicas the fewest processors, then the fewest stages, then the fewest replicas from the input on.
    In both, then, the lowest cut and the least shift.

    Examples
    --------
    >>> from lpkit.capacities import crew_of, problem_of
    >>> from lpkit.costs import Costs
    >>> from lpkit.search import task_of
    >>> problem = problem_of(task_of(Costs.from_times([4, 2], 0, 0, unit="cycles")), crew_of(3, [1, 2, 1]))
    >>> found = within(problem, 3 * problem.factor, counted=True)
    >>> found.ends, [step.place for step in found.steps], within(problem, 1 * problem.factor)
    ([2], [2], None)
    """
    counted = counted or bool(problem.chain.memory and problem.crew.speeds)
    test, layout = _test_of(problem, Fraction(period)), rows(problem, counted)
    spare = {base(problem, counted): {len(problem.links) - 1: 0}}
    for row in layout:
        spare[row.state] = _rooms(test, row, spare)
        if row.last and 0 in spare[row.state]:
            return _descend(test, {row.state: row for row in layout}, spare, row.state)
    return None


def _rooms(test, row, spare):
    """Spare work of the cuts that the steps of a row reach."""
    prefix = test.chain.prefix
    # What is above a cut must be done by the processors above it, what is below by all others.
    low = bisect_left(prefix, prefix[-1] - row.above * test.time)
    high = bisect_right(prefix, row.below * test.time + test.lift) - 1
    rooms = {cut: room for cut, room in spare[row.skip].items() if cut <= high} if row.skip else {}
    for step in row.steps if low <= high else ():
        if spare.get(step.source):
            _widen(test, step, spare[step.source], range(low, high + 1), rooms)
    return rooms


def _widen(test, step, above, cuts, rooms):
    """Raise `rooms` of the `cuts` to what one more stage gives below the rooms `above`."""
    prefix, needs, options, r = test.prefixes[step.replicas - 1], test.needs, test.chain.options, step.replicas
    limit, memory, keys = step.capacity * test.time, test.chain.memory, []
    for cut in range(max(above) - 1, cuts.start - 1, -1):
        for end, cap, grain in options[cut]:
            room = above.get(end)
            if room is not None and needs[end] <= r:
                heappush(keys, (prefix[end] - (passed(cap, room, grain) if grain else min(cap, room)), end))
        if cut >= cuts.stop or needs[cut] > r:
            continue
        if memory:
            far = _furthest(memory, cut, step.versions)
            while keys and keys[0][1] > far:  # nor may a longer stage reach so far
                heappop(keys)
        if keys and (room := limit + prefix[cut] - keys[0][0]) >= 0 and room > rooms.get(cut, -1):
            rooms[cut] = room


def _furthest(memory, cut, versions):
    """Last layer of the longest stage after `cut` with so many versions in memory."""
    held, limit = memory
    return bisect_right(held, held[cut] + limit // versions) - 1


def _descend(test, layout, spare, state):
    """Stages from the input on, by the rule of `within`."""
    cut, shift, ends, steps, shifts = 0, 0, [], [], []
    while cut < len(test.needs) - 1:
        step, cut, shift = _stage(test, layout, spare, state, cut, shift)
        state = step.source
        for column, value in zip((ends, steps, shifts), (cut, step, shift)):
            column.append(value)
    time, *shifts = (Fraction(number, test.denominator) for number in (test.time, *shifts[:-1]))
    return Found(time, ends, steps, shifts)


def _stage(test, layout, spare, state, cut, taken):
    """First step and end that can take over `taken` work, with the least work passed on."""
    while True:
        row = layout[state]
        for step in row.steps:
            if test.needs[cut] <= step.replicas and (found := _end(test, step, spare[step.source], cut, taken)):
                return step, *found
        state = row.skip


def _end(test, step, above, cut, taken):
    """Shortest stage of `step` after `cut` that can take over `taken` work, with what it passes on; None if none."""
    prefix, room = test.prefixes[step.replicas - 1], step.capacity * test.time - taken
    far = _furthest(test.chain.memory, cut, step.versions) if test.chain.memory else len(prefix) - 1
    for end in range(cut + 1, far + 1):
        need = prefix[end] - prefix[cut] - room
        if need > test.lift:
            return None
        if end in above and test.needs[end] <= step.replicas:
            shift = least_shift(test.chain, cut, end, max(need, 0), above[end])
            if shift is not None:
                return end, shift
    return None


def interval_period(loads, caps, capacities):
    """Least period of given stages, all of whose passed work may be any part of their caps.

    Examples
    --------
    >>> interval_period([4, 8], [0, 0], [1, 2]), interval_period([9, 1], [3, 0], [1, 1])
    (Fraction(4, 1), Fraction(6, 1))
    """
    best = Fraction(0)
    for m in range(len(loads)):
        work = capacity = 0
        for n in range(m, len(loads)):
            work, capacity = work + loads[n], capacity + capacities[n]
            best = max(best, Fraction(work - (caps[n] if n < len(loads) - 1 else 0)) / capacity)
    return best


def least_shifts(loads, capacities, period):
    """Least work that each stage but the last must pass on to keep to the period.

    Examples
    --------
    >>> least_shifts([9, 1], [1, 1], 6)
    [3]
    """
    shift, shifts = 0, []
    for load, capacity in zip(loads[:-1], capacities):
        shift = max(0, load + shift - capacity * period)
        shifts.append(shift)
    return shifts


def capacity_bound(problem):
    """A period that no plan is below, and the layers and stages that show it: ``(period, (a, b, stages))``.

    Layers a..b meet at most one stage each, and these have at most the largest capacities there are.

    Examples
    --------
    >>> from lpkit.capacities import crew_of, problem_of
    >>> from lpkit.costs import Costs
    >>> from lpkit.search import task_of
    >>> problem = problem_of(task_of(Costs.from_times([1, 9, 2], 0, 0, unit="cycles")), crew_of(8, replicas=2))
    >>> capacity_bound(problem)[0] / problem.factor, capacity_bound(problem)[1]
    (Fraction(9, 2), (2, 2, 1))
    """
    prefix, L = problem.chain.prefix, len(problem.links) - 1
    leaving = [*problem.leaving[:-1], 0]
    best, where = Fraction(prefix[-1], problem.capacity), (1, L, problem.crew.processors)
    for stages in range(1, L + 1):
        most = int(problem.crew.most(stages) * problem.speed_unit)
        if most == problem.capacity:
            break
        work, b = max((prefix[b] - prefix[b - stages] - leaving[b - 1], -b) for b in range(stages, L + 1))
        if Fraction(work, most) > best:
            best, where = Fraction(work, most), (1 - b - stages, -b, stages)
    return best, where


def solve(problem):
    """`Found` for the least period, by the rule for ties; None if the memory is too small.

    Examples
    --------
    >>> from lpkit.capacities import crew_of, problem_of
    >>> from lpkit.costs import Costs
    >>> from lpkit.search import task_of
    >>> problem = problem_of(task_of(Costs.from_times([4, 2], 0, 0, unit="cycles")), crew_of(3, [1, 2, 1]))
    >>> found = solve(problem)
    >>> found.period / problem.factor, found.ends, [step.place for step in found.steps]
    (Fraction(2, 1), [1, 2], [2, 3])
    """
    low = capacity_bound(problem)[0]
    if within(problem, low):
        return within(problem, low, counted=True)
    low, high = _bracket(problem, low)
    failures = 0
    while high is not None:
        between = math.floor(low + high) // 2 if failures < 2 else low
        if not low < between < high:  # just below, nothing lies between
            between = high - Fraction(1, high.denominator * problem.denominators)
            failures = 2
        better = within(problem, between)
        if better:
            high, failures = _tightened(problem, better), 0
        elif failures >= 2:
            return within(problem, high, counted=True)
        else:
            low, failures = between, failures + 1
    return None


def _bracket(problem, low):
    """A period that is too short and one that is enough (None if none is): ever longer steps from `low`."""
    most = max(problem.prefixes, key=lambda prefix: prefix[-1])[-1]
    enough = Fraction(most) if not problem.crew.speeds else most / (min(problem.crew.speeds) * problem.speed_unit)
    enough = max([enough, *(Fraction(link, problem.speed_unit) for link in problem.links if link < math.inf)])
    step = max(low / 64, Fraction(1))
    while low < enough:
        period = min(Fraction(math.ceil(low + step)), enough)
        if found := within(problem, period):
            return low, _tightened(problem, found)
        low, step = period, 4 * step
    return low, None


def _tightened(problem, found):
    """Least period of given stages (with tiles: of given shifts too), links included."""
    starts = [0, *found.ends[:-1]]
    loads = [problem.prefixes[s.replicas - 1][b] - problem.prefixes[s.replicas - 1][a]
             for s, a, b in zip(found.steps, starts, found.ends)]
    capacities = [step.capacity for step in found.steps]
    if any(grain for place in problem.chain.options for _, _, grain in place):
        shifts = zip(loads, [*found.shifts, 0], [0, *found.shifts], capacities)
        period = max(Fraction(load - up + down) / c for load, up, down, c in shifts)
    else:
        caps = [_cap(problem.chain, a, b) for a, b in zip(starts, found.ends)]
        period = interval_period(loads, caps, capacities)
    links = (Fraction(problem.links[end], problem.speed_unit * min(one.replicas, other.replicas))
             for end, one, other in zip(found.ends, found.steps, found.steps[1:]))
    return max([Fraction(period), *links])


def _cap(chain, cut, end):
    """Most work that the stage cut+1..end may pass on."""
    return max(cap for place in chain.options[cut:end] for last, cap, _ in place if last == end)
