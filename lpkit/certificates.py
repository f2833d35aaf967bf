"""The certificate of an optimal plan: what holds the period up, and from how many processors on nothing helps."""

from fractions import Fraction

from lpkit.display import counted
from lpkit.parametric import fewest_stages
from lpkit.plans import Certificate, plain, ratio
from lpkit.ratios import at_or_above
from lpkit.search import denominators, is_plain, solved, within

__all__ = ["certificate"]


def certificate(task, plan, period):
    """Why `plan`, whose period in units is `period`, is optimal, and how far more processors would help."""
    costs, processors = plan.costs, plan.processors
    least, interval = task.bounds
    saturation, stages = _saturation(task, period, len(plan.ends), least)
    if _tight(task, period, Fraction(task.chain.prefix[-1], processors)):
        binding = (1, len(costs), processors)
    elif _tight(task, period, least):
        binding = (*interval, interval[1] - interval[0] + 1)
    else:
        binding = None
    average = plain(ratio(costs.total, processors))
    floor = plan.period if saturation == period else _in_costs(task, saturation)
    return Certificate(plan.period, average, floor, binding, stages, _text(plan, binding, floor, stages))


def _tight(task, period, bound):
    """Whether the period is a bound itself; for float costs, whether no whole unit lies between."""
    return period == (bound if task.costs.unit == "cycles" else at_or_above(bound, 1))


def _saturation(task, period, stages, least):
    """Least period in units of any number of processors, and the fewest stages that reach it."""
    layers = len(task.costs)
    if not is_plain(task):
        least, ends, _ = solved(task, layers)
        return least, len(ends)
    least = at_or_above(least, denominators(task, layers))
    return least, stages if least == period else within(task, least, layers, fewest_stages)


def _in_costs(task, units):
    """A period of `units` in the unit of the costs."""
    return plain(units / task.unit) if task.costs.unit == "cycles" else float(units / task.unit)


def _text(plan, binding, floor, stages):
    """The certificate for people."""
    costs = plan.costs
    head = f"optimal: no plan of {counted(plan.processors, 'processor')} beats {float(plan.period):.4g} {costs.unit}: "
    if binding is None:
        why = "an exact search met every smaller period with no plan (verify_optimal repeats the proof)"
    elif binding == (1, len(costs), plan.processors):
        why = "that is all work divided evenly"
    else:
        a, b, s = binding
        names = costs.layers[a - 1] if a == b else f"{costs.layers[a - 1]} to {costs.layers[b - 1]}"
        why = (f"what cannot leave {names} is shared by at most {s} stage{'s' * (s > 1)}")
    return f"{head}{why}; from {counted(stages, 'processor')} on nothing helps ({float(floor):.4g} {costs.unit})"
