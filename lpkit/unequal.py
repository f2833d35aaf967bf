"""What a plan says of processors that differ and of replicated stages: what is wrong with it, and its text."""

import numbers

from lpkit.checks import shown
from lpkit.limits import FASTEST, SLOWEST, is_speed

__all__ = ["only_equal", "parted", "unequal_text", "wrong_processors"]


def only_equal(plan, what):
    """Refuse a plan with speeds or replicas for what would be wrong for it: `what` is the subject, such as a timeline.

    Raises
    ------
    ValueError
        If the plan has either.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> from lpkit.plans import Plan
    >>> only_equal(Plan("by hand", Costs.from_times([4], 0, 0), 2, ends=(1,), replicas=(2,)), "a timeline")
    Traceback (most recent call last):
    ...
    ValueError: a timeline of replicated stages is not made; plan without replicas for that
    """
    if plan.replicas:
        raise ValueError(f"{what} of replicated stages is not made; plan without replicas for that")
    if plan.speeds:
        raise ValueError(f"{what} of processors of unequal speed is not made; plan without speeds for that")


def parted(plan):
    """A sentence for each stage of `plan` that ends within layers that its option ``together`` keeps on one stage.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> from lpkit.plans import Plan
    >>> chain = Costs.from_times([4, 2, 2], 0, 0, unit="cycles")
    >>> parted(Plan("by hand", chain, 2, ends=(2, 3), options=(("together", ((1, 3),)),)))
    ['layers 1 to 3 must stay together, but stage 1 ends with layer 2']
    """
    runs = dict(plan.options).get("together", ())
    if not isinstance(runs, (list, tuple)) or not all(map(_is_run, runs)):
        return [f"the option together is {shown(runs)}; it must hold pairs (first, last) of layer numbers"]
    return [f"layers {first} to {last} must stay together, but stage {k} ends with layer {end}"
            for first, last in runs for k, end in enumerate(plan.ends, 1) if first <= end < last]  # fmt: skip


def _is_run(pair):
    return isinstance(pair, (list, tuple)) and len(pair) == 2 and all(isinstance(n, numbers.Integral) for n in pair)


def wrong_processors(plan):
    """A sentence for each thing that cannot be with the speeds or replicas of `plan`.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> from lpkit.plans import Plan
    >>> wrong_processors(Plan("by hand", Costs.from_times([4], 0, 0), 2, ends=(1,), replicas=(3,)))
    ('there are 3 replicas for 2 processors',)
    """
    if not (plan.speeds or plan.used or plan.replicas or plan.allreduce):
        return ()
    if (plan.speeds or plan.used) and (plan.replicas or plan.allreduce):
        return ("the plan has speeds and replicas; it can have one of them",)
    columns = ("speeds", "used") if plan.speeds or plan.used else ("replicas", "allreduce")
    for name in columns:
        length = len(getattr(plan, name))
        if length != len(plan.ends) and not (name == "allreduce" and not length):
            return (f"{name} has {length} entries; there must be one for each of {len(plan.ends)} stages",)
    return _wrong_speeds(plan) if plan.speeds else _wrong_replicas(plan)


def _wrong_speeds(plan):
    if bad := [speed for speed in plan.speeds if not is_speed(speed)]:
        return (f"a stage has the speed {shown(bad[0])}; it must be a number from {SLOWEST:g} to {FASTEST:g}",)
    rising = all(isinstance(p, numbers.Integral) and a < p for a, p in zip((0, *plan.used), plan.used))
    if not rising or plan.used[-1] > plan.processors:
        return (f"the stages are on processors {shown(plan.used)}; these must rise from 1 to at most "
                f"{plan.processors}",)  # fmt: skip
    given = dict(plan.options).get("speeds")
    if given is None:
        return ()
    if not isinstance(given, (list, tuple)) or len(given) != plan.processors:
        return (f"the option speeds is {shown(given)}; it must hold one number for each of {plan.processors} "
                "processors",)  # fmt: skip
    return tuple(f"stage {k} has the speed {speed}, but processor {p} has {shown(given[p - 1])}"
                 for k, (p, speed) in enumerate(zip(plan.used, plan.speeds), 1) if given[p - 1] != speed)


def _wrong_replicas(plan):
    if bad := [count for count in plan.replicas if not isinstance(count, numbers.Integral) or count < 1]:
        return (f"a stage has {shown(bad[0])} replicas; it must have a whole number from 1",)
    if sum(plan.replicas) > plan.processors:
        return (f"there are {sum(plan.replicas)} replicas for {plan.processors} processors",)
    if bad := [time for time in plan.allreduce if not _is_number(time) or time < 0]:
        return (f"an all-reduce takes {shown(bad[0])}; it must take a finite time of at least 0",)
    return ()


def _is_number(value):
    return isinstance(value, numbers.Real) and not isinstance(value, bool) and value - value == 0


def unequal_text(plan):
    """What the text of a plan says after its layers.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> from lpkit.plans import Plan
    >>> chain = Costs.from_times([4, 2], 0, 0, unit="cycles")
    >>> unequal_text(Plan("by hand", chain, 4, ends=(1, 2), replicas=(3, 1)))
    ' with 3, 1 replicas'
    """
    if plan.speeds:
        speeds = ", ".join(f"{float(speed):.4g}" for speed in plan.speeds)
        return f" on processors {', '.join(map(str, plan.used))} of speed {speeds}"
    return f" with {', '.join(map(str, plan.replicas))} replicas" if plan.replicas else ""
