"""The least period of any plan that shares delta with the next stage, and of any that shares nothing (PipeDream's).

For given cuts the least period is the largest, over runs m..n of stages, of (their work - what may leave the last) over
their number; so it is one of finitely many fractions with a denominator of at most the number of processors, and a test
"can it be done within T?" (`lpkit.parametric`) finds the least. Processors of unequal speed and replicated stages have
a search of their own (`lpkit.capacity_search`).
Source: LayerPipe (ICCAD 2021), section IV, for what may move; PipeDream (SOSP 2019), section 3.1, for the partition
without moving.
"""

from dataclasses import replace

from lpkit.capacities import crew_of
from lpkit.capacity_plans import capacity_plan
from lpkit.certificates import certificate
from lpkit.chains import check_processors, granularity_of, python_number
from lpkit.limits import together_of
from lpkit.plans import Plan, plain
from lpkit.ratios import interval_bound
from lpkit.search import by_stage, caps_by_stage, solved, task_of
from lpkit.shares import movable_work, moves_of, snapped

__all__ = ["optimal", "straight"]


def optimal(costs, processors, *, threshold=None, granularity=None, residual="consumer", bandwidth=None, memory=None,
            together=None, speeds=None, replicas=None):  # fmt: skip
    """Plan with the least period: stages are runs of layers, and part of delta may move to the next stage.

    Among the plans with the least period it takes one with the fewest stages; of those, stage by stage from the input,
    the shortest stage (the lowest cut) that leaves the period reachable, and the least work moved. With `speeds` a
    stage takes, before that, the first processor that leaves the period reachable; with `replicas` the fewest
    processors come before the fewest stages, and the fewest replicas of a stage before the shortest.

    Parameters
    ----------
    costs : Costs
        L layers.
    processors : int
        1..L; with `speeds` or `replicas` 1..1024.
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
        Of a processor. The n-th stage from the end holds n versions of its weights and of the inputs of its layers.
    together : sequence of (first, last), optional
        Layers first..last, by name or 1-based number, stay on one stage. Pairs that share a layer are one run.
    speeds : sequence of number, shape (processors,), optional
        Of the processors, in order from the input: the time of work is the work over the speed. A float stands for its
        shortest decimal. Processors keep their order and may stay unused (`Plan.used` tells); other orders are not
        tried.
    replicas : True or int, optional
        A stage may run on several processors (at most so many), each of which takes every r-th mini-batch, so that a
        link between stages carries 1 / min(r, r') of the mini-batches. Their gradients meet in an all-reduce, which
        takes ``4 (r - 1) / r`` times the bytes of the weights over the bandwidth, once in r mini-batches, and nothing
        if `bandwidth` is left out. A stage of r replicas, with m processors from it to the end, holds ceil(m / r)
        versions.

    Returns
    -------
    Plan
        With a certificate. Exact (int or Fraction) for cycles; for float costs within 1e-12 of the least period.

    Raises
    ------
    ValueError
        If an argument is out of range, `speeds` and `replicas` are both given, or no plan fits the memory.

    Notes
    -----
    The search is parametric: a test of one period takes time linear in L in practice, and the least period is one of
    finitely many fractions.

    References
    ----------
    LayerPipe (ICCAD 2021), section IV: the problem that its Algorithm 1 solves greedily. PipeDream (SOSP 2019), section
    3.1, for replicas.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> chain = Costs.from_times(1, 0, [0, 3, 0, 1], ["a", "b", "c", "d"], unit="cycles")
    >>> plan = optimal(chain, 3)
    >>> plan.period, plan.ends, plan.moved, plan.loads
    (3, (2, 3, 4), ((2, 1, 2, 2),), (3, 3, 2))
    >>> optimal(chain, 3, together=[("b", "d")]).ends, optimal(chain, 3, replicas=2).replicas
    ((1, 4), (1, 2))
    >>> optimal(chain, 3, speeds=[1, 2, 1])
    Plan optimal of chain on 3 processors
    layers 1-2 | 3 | 4 on processors 1, 2, 3 of speed 1, 2, 1; delta'' of 2
    period 2 cycles, speedup 4 over one processor
    """
    given = dict(threshold=threshold, granularity=granularity_of(costs, granularity), residual=residual,
                 bandwidth=bandwidth, memory=memory)  # fmt: skip
    return _planned("optimal", costs, processors, given, together, speeds, replicas)


def straight(costs, processors, *, bandwidth=None, memory=None, together=None, speeds=None, replicas=None):
    """The least-period plan that moves nothing (see `lpkit.partition.pipedream`)."""
    given = dict(bandwidth=bandwidth, memory=memory)
    return _planned("pipedream", costs, processors, given, together, speeds, replicas)


def _planned(name, costs, processors, given, together, speeds, replicas):
    """The plan of a planner: `given` are the options of `task_of`; the rest is what the plan must keep to."""
    crew = crew_of(processors, speeds, replicas, given["bandwidth"])
    processors = crew.processors if crew else check_processors(costs, processors)
    runs = together_of(costs, together)
    task = task_of(costs, **given, together=runs, still=name == "pipedream")
    numbers = ((key, python_number(value)) for key, value in given.items())
    given |= {key: number for key, number in numbers if number is not None}  # not as numpy's, which no file holds
    given |= {"together": runs or None, **({"speeds": crew.speeds, "replicas": crew.given} if crew else {})}
    options = tuple((key, value) for key, value in given.items() if value not in (None, "consumer"))
    return capacity_plan(name, task, crew, options) if crew else _equal_plan(name, task, processors, options)


def _equal_plan(name, task, processors, options):
    """The plan for equal processors with one stage each."""
    period, ends, shifts = solved(task, processors)
    if task.tiles is None:
        shifts = _least_shifts(task, ends, period)
    plan = Plan(name, task.costs, processors, tuple(ends), moves_of(task, ends, shifts), links=_used_links(task, ends),
                options=options)  # fmt: skip
    return replace(plan, certificate=certificate(task, plan, period)) if name == "optimal" else plan


def _used_links(task, ends):
    """Times of the links that the boundaries of `ends` use, in units of the costs."""
    number = plain if task.costs.unit == "cycles" else float
    return tuple(number(task.links[end - 1]) for end in ends[:-1]) if task.links else ()


def _least_shifts(task, ends, period):
    """Shift at each boundary in the costs' own numbers: y_k = max(0, S_k + y_(k-1) - T), which the cap holds."""
    works = [sum(part) for part in by_stage(task.costs.work.tolist(), ends)]
    limits = caps_by_stage(task, movable_work(task), ends)
    if task.costs.unit == "cycles":
        period /= task.unit
    else:
        period = max([interval_bound(works, limits)[0], *_used_links(task, ends)])
    shift, shifts = 0, []
    for work, limit in zip(works[:-1], limits):
        shift = snapped(work + shift - period, limit)
        shifts.append(shift)
    return shifts
