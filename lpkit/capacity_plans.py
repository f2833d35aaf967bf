"""Plans for processors of unequal speed and for replicated stages, with their certificates."""

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

from lpkit.capacities import problem_of
from lpkit.capacity_search import capacity_bound, interval_period, least_shifts, solve
from lpkit.plans import Certificate, Plan, plain, ratio
from lpkit.search import by_stage, caps_by_stage, too_little_memory
from lpkit.shares import movable_work, moves_of, snapped

__all__ = ["capacity_plan"]


def capacity_plan(name, task, crew, options):
    """The plan of least period of a task for a crew; with a certificate if `name` is ``"optimal"``.

    Raises
    ------
    ValueError
        If no plan keeps to the memory.

    Examples
    --------
    >>> from lpkit.capacities import crew_of
    >>> from lpkit.costs import Costs
    >>> from lpkit.search import task_of
    >>> chain = Costs.from_times([4, 2], 0, 0, unit="cycles")
    >>> capacity_plan("optimal", task_of(chain), crew_of(3, replicas=True), ())
    Plan optimal of chain on 3 processors
    layers 1-2 with 3 replicas
    period 2 cycles, speedup 3 over one processor
    """
    problem = problem_of(task, crew)
    found = solve(problem)
    if found is None:
        raise too_little_memory(task, crew.processors)
    ends, counts = tuple(found.ends), [step.replicas for step in found.steps]
    number = plain if task.costs.unit == "cycles" else float
    weights = map(sum, by_stage(task.costs.weight_bytes.tolist(), ends))
    reduces = [crew.rates[count - 1] * size for count, size in zip(counts, weights)]
    links = [task.links[end - 1] / min(pair) for end, pair in zip(ends, pairwise(counts))] if task.links else []
    shifts = _shifts(task, crew, found, reduces, links) if task.tiles is None else _whole_units(problem, found)
    places = tuple(step.place for step in found.steps)
    if crew.speeds:
        fields = {"speeds": tuple(plain(crew.speeds[place - 1]) for place in places), "used": places}
    else:
        fields = {"replicas": places, "allreduce": tuple(map(number, reduces))}
    plan = Plan(name, task.costs, crew.processors, ends, moves_of(task, ends, shifts), links=tuple(map(number, links)),
                options=options, **fields)  # fmt: skip
    return replace(plan, certificate=_certificate(problem, plan, found.period)) if name == "optimal" else plan


def _whole_units(problem, found):
    """What each stage passes on in units of the task's chain, which tiles make whole."""
    return [int(shift / problem.factor) for shift in found.shifts]


def _shifts(task, crew, found, reduces, links):
    """Least work that each stage passes on, in the costs' own numbers."""
    loads = [sum(map(Fraction, part)) + reduce
             for part, reduce in zip(by_stage(task.costs.work.tolist(), found.ends), reduces)]
    caps = caps_by_stage(task, list(map(Fraction, movable_work(task))), found.ends)
    capacities = [crew.speeds[step.place - 1] if crew.speeds else step.replicas for step in found.steps]
    period = max([interval_period(loads, caps, capacities), *links])
    shifts = least_shifts(loads, capacities, period)
    if task.costs.unit == "cycles":
        return shifts
    return [snapped(float(shift), float(cap)) for shift, cap in zip(shifts, caps)]


def _certificate(problem, plan, period):
    """Why no plan on these processors is faster."""
    bound, interval = capacity_bound(problem)
    exact = plan.costs.unit == "cycles"
    tight = period == bound or (not exact and period - bound < 1)
    average = plain(ratio(plan.costs.total, problem.crew.capacity))
    binding = interval if tight else None
    return Certificate(plan.period, average, None, binding, None, _text(problem, plan, binding))


def _text(problem, plan, binding):
    """The certificate for people."""
    costs, crew = plan.costs, problem.crew
    what = "these speeds" if crew.speeds else f"at most {crew.limit} replicas a stage"
    head = f"optimal: no plan of {plan.processors} processors with {what} beats {float(plan.period):.4g} {costs.unit}: "
    if binding is None:
        return head + "an exact search met every smaller period with no plan (verify_optimal repeats the proof)"
    a, b, stages = binding
    if (a, b) == (1, len(costs)) and crew.most(stages) == crew.capacity:
        return head + f"that is all work divided {'by all speeds' if crew.speeds else 'evenly'}"
    names = costs.layers[a - 1] if a == b else f"{costs.layers[a - 1]} to {costs.layers[b - 1]}"
    each = "on the fastest processors" if crew.speeds else f"of {crew.limit} replicas"
    return head + f"what cannot leave {names} is shared by at most {stages} stage{'s' * (stages > 1)} {each}"
