"""What a schedule takes: a plan that can be run, whole numbers of batches, and the links between the stages."""

import math
import numbers

import numpy as np

from lpkit.checks import plain, shown, whole_number
from lpkit.plans import Plan, check_plan
from lpkit.unequal import only_equal

__all__ = ["counted", "links_of", "runnable"]

MOST_OPERATIONS = 20_000_000


def runnable(plan):
    """`plan`, if it is one whose stages and moved work fit its costs, on equal processors of one stage each.

    Raises
    ------
    ValueError
        If it is not. A timeline counts the work of a stage as its time, and has one row for each stage.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> runnable(Plan("by hand", Costs.from_times([2, 2], 2, [0, 2]), 1, ends=(1,)))  # doctest: +NORMALIZE_WHITESPACE
    Traceback (most recent call last):
    ...
    ValueError: the plan cannot be run: the stage ends are (1,); they must not fall and must finish with 2; choose
    another planner or mode
    """
    if not isinstance(plan, Plan):
        raise ValueError(f"plan is {shown(plan)}; give a Plan, as a planner returns it")
    if problems := check_plan(plan):
        raise ValueError(f"the plan cannot be run: {problems[0]}; choose another planner or mode")
    only_equal(plan, "a timeline")
    return plan


def counted(plan, batches, micro_batches=None):
    """Mini-batches, and micro-batches of each where they are given, as whole numbers that are small enough together.

    Raises
    ------
    ValueError
        If one of them is no whole number of at least 1, or there would be more than 20 million operations.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> plan = Plan("by hand", Costs.from_times([2, 2], 2, [0, 2]), 1, ends=(2,))
    >>> counted(plan, 3.0), counted(plan, 3, 4)
    (3, [3, 4])
    """
    counts = [whole_number(batches, "batches")]
    counts += [] if micro_batches is None else [whole_number(micro_batches, "micro_batches")]
    operations = math.prod(counts) * 4 * len(runnable(plan).costs)
    if operations > MOST_OPERATIONS:
        raise ValueError(f"there would be about {operations:,} operations; ask for at most {MOST_OPERATIONS:,}, "
                         "with fewer mini- or micro-batches")  # fmt: skip
    return counts[0] if micro_batches is None else counts


def links_of(plan, bandwidth, latency):
    """Bandwidth and latency of each boundary; None where sends take no time.

    Raises
    ------
    ValueError
        If a bandwidth is not a finite number above 0, a latency not one of at least 0, or there are too few or many.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> plan = Plan("by hand", Costs.from_times([2, 2], 2, [0, 2]), 2, ends=(1, 2))
    >>> links_of(plan, None, 0), links_of(plan, 8, 0), links_of(plan, None, [3])
    (None, ((8,), (0,)), ((None,), (3,)))
    """
    latencies = _each_boundary(latency, "latency", plan, True)
    if bandwidth is None:
        return ((None,) * len(latencies), latencies) if any(latencies) else None
    return _each_boundary(bandwidth, "bandwidth", plan, False), latencies


def _each_boundary(value, name, plan, least_allowed):
    """One number a boundary, exact where given exactly."""
    boundaries = len(plan.ends) - 1
    value = plain(value)
    values = list(value) if isinstance(value, (list, tuple, np.ndarray)) else [value] * boundaries
    if len(values) != boundaries:
        raise ValueError(f"{name} has {len(values)} entries; give one number, or one for each of {boundaries} "
                         "boundaries")  # fmt: skip
    values = [plain(v) for v in values]
    for v in values:
        number = isinstance(v, numbers.Real) and not isinstance(v, bool) and v - v == 0  # finite
        if not number or v < 0 or (v == 0 and not least_allowed):
            range_of = "of at least" if least_allowed else "above"
            raise ValueError(f"{name} is {shown(v)}; it must be a finite number {range_of} 0")
    return tuple(values)
