"""The least periods of many processor counts at once: the curve of the speedup, drawn while a slider is moved.

Each count is searched as `lpkit.search.solved` does, and with the same result, but from what its predecessor has
found: one more processor makes no period longer, and the distance from the bound below changes little.
"""

from bisect import bisect_right
from fractions import Fraction
from itertools import pairwise

from lpkit.parametric import partition_within
from lpkit.ratios import at_or_above, below, interval_bound
from lpkit.search import by_stage, caps_by_stage, denominators, task_of

__all__ = ["least_periods"]


def least_periods(costs, counts, *, still=False):
    """Least period of each processor count, in the unit of the costs, as floats.

    Parameters
    ----------
    costs : Costs
    counts : sequence of int
        Ascending, from 1 to the number of layers.
    still : bool
        Whether no delta moves, as in PipeDream's plans.

    Examples
    --------
    >>> from lpkit.costs import costs
    >>> least_periods(costs("sample4"), [1, 2, 3, 4])
    [35863410.0, 17931705.0, 13953910.0, 11159872.0]
    """
    task = task_of(costs, still=still)
    find = _whole_stages if still else _shared
    periods, high, excess = [], Fraction(task.chain.prefix[-1]), Fraction(1)
    for count in counts:
        high, excess = find(task, count, high, excess)
        periods.append(float(high / task.unit))
    return periods


def _whole_stages(task, count, high, excess):
    """Least load of the fullest of `count` runs of layers, at most `high`: bisection, each run as long as fits."""
    prefix, whole = task.chain.prefix, task.chain.prefix[-1]
    low, high = max(-(-whole // count), *(b - a for a, b in pairwise(prefix))), int(high)
    while low < high:
        middle, end = (low + high) // 2, 0
        for _ in range(count):
            end = bisect_right(prefix, prefix[end] + middle, end) - 1
        low, high = (low, middle) if prefix[end] == whole else (middle + 1, high)
    return Fraction(high), excess


def _shared(task, count, high, excess):
    """Least period of at most `count` stages where deltas may move, at most `high`, which is enough; over its bound.

    `excess` is that ratio of the count before. Half as much again is tried first, then the middle of what is left, and
    after two periods that are too short the one just below the least known: as a rule that is too short as well.
    """
    most = denominators(task, count)
    low = bound = at_or_above(max(Fraction(task.chain.prefix[-1], count), task.bounds[0]), most)
    if low >= high or partition_within(task.chain, low, count):
        return min(low, high), excess
    tried, failed = Fraction(int(bound * (1 + 3 * (excess - 1) / 2))), 0
    while (last := below(high, most)) > low:
        tried = tried if low < tried < last else last
        found = partition_within(task.chain, tried, count)
        if found:
            high, failed = _period(task, found[0], most), 0
        elif tried == last:
            break
        else:
            low, failed = tried, failed + 1
        tried, failed = (last, 0) if failed == 2 else (Fraction((low + high) // 2), failed)
    return high, high / bound


def _period(task, ends, most):
    """Least period of given stages."""
    work = [b - a for a, b in pairwise(task.chain.prefix)]
    bound, _ = interval_bound(list(map(sum, by_stage(work, ends))), caps_by_stage(task, task.chain.caps, ends))
    return Fraction(at_or_above(bound, most))
