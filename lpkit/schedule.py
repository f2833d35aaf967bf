"""Schedules of a pipeline: a plan and a number of mini-batches in, a `Timeline` out.

A schedule says in which order each stage runs its blocks: F of its layers, delta, G (or B, both layer by layer), and
the update U, which takes no time. Everything starts as soon as its stage is free and what it needs is there. Moved work
of the plan (delta'') runs on the next stage in every schedule, with the deltas of that stage. All layers run in the
linear order of the costs, so that a layer beside a skip connection waits for its neighbour.
Source: LayerPipe (ICCAD 2021), Fig. 6; GPipe (NeurIPS 2019); PipeDream (SOSP 2019); Zero Bubble (ICLR 2024).
"""

import inspect
from dataclasses import replace

from lpkit.block_orders import in_turn, put_off
from lpkit.checks import choice
from lpkit.event_engine import timeline_of
from lpkit.hand_orders import hand_made
from lpkit.interleaved_schedule import interleaved
from lpkit.schedule_input import counted, runnable
from lpkit.schedule_names import known_as

__all__ = ["SCHEDULES", "gpipe", "hand_made", "interleaved", "layerpipe", "one_f_one_b", "pipedream", "schedule",
           "schedule_named", "sequential", "zero_bubble"]

MODELS = ("registered", "1f1b")


def sequential(plan, batches=1, *, bandwidth=None, latency=0):
    """One operation at a time in the whole pipeline: the stages wait for each other.

    A single worker takes turns through all stages, so that the period is the whole work. The measures of the timeline
    stay those of the stages, as if each had a processor that waits for the others. `bandwidth` and `latency` are
    explained at `layerpipe`.

    Parameters
    ----------
    plan : Plan
    batches : int
        Mini-batches.
    bandwidth, latency
        As for `layerpipe`.

    Returns
    -------
    Timeline

    Raises
    ------
    ValueError
        As `layerpipe`.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> from lpkit.plans import Plan
    >>> plan = Plan("by hand", Costs.from_times([2, 2], 2, [0, 2], unit="cycles"), 2, ends=(1, 2))
    >>> sequential(plan, 3).period, sequential(plan, 3).makespan
    (10, 30)
    """
    batches, stages = counted(plan, batches), range(1, len(runnable(plan).ends) + 1)
    order = [block for n in range(batches)
             for block in (*((k, "F", n) for k in stages), *((k, what, n) for k in reversed(stages) for what in "BU"))]
    return _filled(timeline_of(plan, "sequential", [order], batches, 1, bandwidth, latency))


def gpipe(plan, batches=1, *, micro_batches=4, bandwidth=None, latency=0):
    """All micro-batches forward, then all back, last one first; then the update.

    Activations are kept, not computed again. The plan holds the costs of one micro-batch.

    Parameters
    ----------
    plan : Plan
    batches : int
        Mini-batches.
    micro_batches : int
        Of each mini-batch.
    bandwidth, latency
        As for `layerpipe`.

    Returns
    -------
    Timeline

    Raises
    ------
    ValueError
        As `layerpipe`; or if `micro_batches` is not a whole number of at least 1.

    References
    ----------
    Huang et al., GPipe (NeurIPS 2019), Fig. 2(c).

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> from lpkit.plans import Plan
    >>> plan = Plan("by hand", Costs.from_times([2, 2], 2, [0, 2], unit="cycles"), 2, ends=(1, 2))
    >>> gpipe(plan, micro_batches=3).makespan, gpipe(plan, micro_batches=3).in_flight
    (22, (3, 3))
    """
    batches, M = counted(plan, batches, micro_batches)
    order = [("F", m) for m in range(M)] + [("B", m) for m in reversed(range(M))]
    return _flushing(plan, "gpipe", lambda after: order, batches, M, bandwidth, latency)


def one_f_one_b(plan, batches=1, *, micro_batches=4, delta_first=False, bandwidth=None, latency=0):
    """One forward, one backward in turn, with a flush and an update after `micro_batches`.

    A stage with S stages after it takes S + 1 micro-batches in before its first backward. With `delta_first` a stage
    runs all its deltas before its first G; otherwise G and delta layer by layer.

    Parameters
    ----------
    plan, batches, micro_batches, bandwidth, latency
        As for `gpipe`.
    delta_first : bool
        Whether the error leaves a stage before the stage's weight gradients are made.

    Returns
    -------
    Timeline

    Raises
    ------
    ValueError
        As `gpipe`.

    References
    ----------
    Narayanan et al., PipeDream-Flush (ICML 2021), Fig. 4.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> from lpkit.plans import Plan
    >>> costs = Costs.from_times([9, 5, 4], [8, 6, 4], [8, 5, 3], unit="cycles")
    >>> plan = Plan("by hand", costs, 3, ends=(1, 2, 3))
    >>> [one_f_one_b(plan, micro_batches=48, delta_first=first).makespan for first in (False, True)]
    [1209, 1201]
    """
    batches, M = counted(plan, batches, micro_batches)
    backward = ("delta", "G") if delta_first else "B"

    def order(after):
        return in_turn(M, after + 1, backward)

    return _flushing(plan, "one_f_one_b", order, batches, M, bandwidth, latency)


def zero_bubble(plan, batches=1, *, micro_batches=4, bandwidth=None, latency=0):
    """1F1B with a flush in which G waits and fills bubbles: ZB-H1, whose B and W are delta and G here.

    Stage k puts off G by k - 1 micro-batches, so that no stage keeps more of them than the first stage of 1F1B.

    Parameters
    ----------
    plan, batches, micro_batches, bandwidth, latency
        As for `gpipe`.

    Returns
    -------
    Timeline

    Raises
    ------
    ValueError
        As `gpipe`.

    References
    ----------
    Qi et al., Zero Bubble Pipeline Parallelism (ICLR 2024), section 2.1 and Fig. 2.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> from lpkit.plans import Plan
    >>> plan = Plan("by hand", Costs.from_times([1] * 4, 1, 1, unit="cycles"), 4, ends=(1, 2, 3, 4))
    >>> zero_bubble(plan, micro_batches=8).makespan, one_f_one_b(plan, micro_batches=8).makespan
    (27, 33)
    """
    batches, M = counted(plan, batches, micro_batches)
    stages = len(runnable(plan).ends)

    def order(after):
        return put_off(in_turn(M, after + 1, ("delta",)), stages - 1 - after, M)

    return _flushing(plan, "zero_bubble", order, batches, M, bandwidth, latency)


def pipedream(plan, batches=1, *, bandwidth=None, latency=0):
    """One forward, one backward in turn without a flush; each mini-batch ends with an update of its own.

    F takes the newest weights and delta those that F used. With S stages after it a layer keeps S versions beside the
    newest, and its gradients are S updates late. The period is that of the plan, where links take no time.

    Parameters
    ----------
    plan, batches, bandwidth, latency
        As for `layerpipe`.

    Returns
    -------
    Timeline

    Raises
    ------
    ValueError
        As `layerpipe`.

    References
    ----------
    Narayanan et al., PipeDream (SOSP 2019), sections 3.2 and 3.3.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> from lpkit.plans import Plan
    >>> plan = Plan("by hand", Costs.from_times([4, 2, 2], 2, [2, 2, 2], unit="cycles"), 3, ends=(1, 2, 3))
    >>> pipedream(plan, 9).period, plan.period, pipedream(plan, 9).weight_versions
    (8, 8, (3, 2, 1))
    """
    batches = counted(plan, batches)
    return _updating(plan, "pipedream", lambda after: after + 1, "B", batches, bandwidth, latency)


def layerpipe(plan, batches=1, *, model="registered", bandwidth=None, latency=0):
    """LayerPipe: as `pipedream`, with all deltas of a stage before its G, and delta'' right after them.

    Parameters
    ----------
    plan : Plan
    batches : int
        Mini-batches.
    model : {"registered", "1f1b"}
        ``"registered"``: as in the derived graph, with a register at each boundary in both directions, a stage with S
        stages after it takes 2 S + 1 mini-batches in before its first backward, and its gradients are 2 S updates late.
        ``"1f1b"``: S + 1 and S, as in PipeDream, at the same period.
    bandwidth : number or sequence, optional
        Bytes a link carries in one unit of time, for all boundaries or for each. Without it sends take no time.
    latency : number or sequence
        Added to each send. A link carries one tensor at a time in each direction, from stage to stage.

    Returns
    -------
    Timeline

    Raises
    ------
    ValueError
        If the plan cannot be run, the mini-batches are not a whole number of at least 1, the model is unknown, or a
        bandwidth or latency is not a number in range.

    References
    ----------
    LayerPipe (ICCAD 2021), section IV and Figs. 5 and 6; section III for 2 S.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> from lpkit.plans import Plan
    >>> plan = Plan("by hand", Costs.from_times([4, 2, 2], 2, [2, 2, 2], unit="cycles"), 3, ends=(1, 2, 3))
    >>> [(line.period, line.weight_versions) for line in (layerpipe(plan, 15), layerpipe(plan, 15, model="1f1b"))]
    [(8, (5, 3, 1)), (8, (3, 2, 1))]
    """
    batches, each = counted(plan, batches), 2 if choice(model, "model", MODELS) == "registered" else 1
    return _updating(plan, "layerpipe", lambda after: each * after + 1, ("delta", "G"), batches, bandwidth, latency)


SCHEDULES = {"sequential": sequential, "gpipe": gpipe, "one_f_one_b": one_f_one_b, "pipedream": pipedream,
             "layerpipe": layerpipe, "zero_bubble": zero_bubble, "interleaved": interleaved}


def schedule(plan, name="layerpipe", batches=1, **options):
    """Timeline of a plan by the schedule of that name.

    The costs of the plan are those of one micro-batch in every schedule. Compare schedules by `Timeline.speedup` or
    `Timeline.period_of_micro_batch`, since a mini-batch of a schedule that flushes is `micro_batches` of them.

    Parameters
    ----------
    plan : Plan
    name : str
        In any case, or a common other name (`lpkit.schedule_names.ALIASES`), such as ``"1F1B"`` or ``"ZB-H1"``.

        ``"sequential"``: one operation at a time in the whole pipeline.
        ``"gpipe"``: all micro-batches forward, then all back, then the update. Options: micro_batches.
        ``"one_f_one_b"``: one forward, one back in turn, with a flush. Options: micro_batches, delta_first.
        ``"zero_bubble"``: the same, with G put off into the bubbles. Options: micro_batches.
        ``"interleaved"``: 1F1B with several stages a processor. Options: processors (without it, each stage has its
        own, as in one_f_one_b), micro_batches, delta_first.
        ``"pipedream"``: one forward, one back in turn without a flush, on old weights.
        ``"layerpipe"``: the same, deltas before G. Options: model.
    batches : int
        Mini-batches; `Timeline.fills_with` of them or more for the stashes of a full pipeline.
    micro_batches : int
        Of each mini-batch of a schedule that flushes; 4 by default.
    delta_first : bool
        Whether a stage runs all its deltas before its first G.
    model : {"registered", "1f1b"}
        ``"registered"``: a register at each boundary in both directions, so that gradients are 2 S updates late at a
        stage with S stages after it, which takes 2 S + 1 mini-batches in first. ``"1f1b"``: S and S + 1, as PipeDream.
    bandwidth, latency : number or sequence
        Of each link, for every schedule: bytes in one unit of time (without it sends take no time), and time added to
        a send.

    Returns
    -------
    Timeline

    Raises
    ------
    ValueError
        If there is no such schedule, it has no such option, or as the schedule does.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> from lpkit.plans import Plan
    >>> plan = Plan("by hand", Costs.from_times([2, 2], 2, [0, 2], unit="cycles"), 2, ends=(1, 2))
    >>> {name: schedule(plan, name, 6).makespan for name in SCHEDULES}  # doctest: +NORMALIZE_WHITESPACE
    {'sequential': 60, 'gpipe': 168, 'one_f_one_b': 168, 'pipedream': 40, 'layerpipe': 38, 'zero_bubble': 146,
     'interleaved': 168}
    """
    name = schedule_named(name)
    function = SCHEDULES[name]
    known = [p.name for p in inspect.signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY]
    for option in options:
        choice(option, f"option of {name}", known)
    return function(plan, batches, **options)


def schedule_named(name):
    """Name of a schedule in `SCHEDULES`, from one of its names; what is unknown is told as it was given.

    Raises
    ------
    ValueError
        If no schedule has that name.

    Examples
    --------
    >>> schedule_named("1F1B")
    'one_f_one_b'
    """
    found = known_as(name)
    return found if isinstance(found, str) and found in SCHEDULES else choice(name, "schedule", tuple(SCHEDULES))


def _flushing(plan, name, order, batches, each, bandwidth, latency):
    """Timeline of a schedule that repeats the same order, by stages after a stage, for every mini-batch."""
    stages, blocks = len(runnable(plan).ends), []
    for k in range(1, stages + 1):
        one = order(stages - k)
        blocks.append([block for n in range(batches)
                       for block in (*((k, what, n * each + m) for what, m in one), (k, "U", n))])  # fmt: skip
    return _filled(timeline_of(plan, name, blocks, batches, each, bandwidth, latency))


def _updating(plan, name, ahead, backward, batches, bandwidth, latency):
    """Timeline of a schedule that updates after each mini-batch and never flushes."""
    stages = len(runnable(plan).ends)
    blocks = [[(k, *block) for block in in_turn(batches, ahead(stages - k), (*backward, "U"))]
              for k in range(1, stages + 1)]  # fmt: skip
    # With A mini-batches taken in ahead, the first A use the initial weights, and only F of A - 2 more, all with other
    # versions, makes the stage keep A of them, its newest included.
    return _filled(timeline_of(plan, name, blocks, batches, 1, bandwidth, latency), max(1, 2 * ahead(stages - 1) - 2))


def _filled(timeline, batches=1):
    """`timeline`, with the mini-batches that it takes until it keeps the most it ever keeps; one where it flushes."""
    return replace(timeline, fills_with=batches)
