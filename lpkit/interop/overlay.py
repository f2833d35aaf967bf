"""Planned against measured, stage by stage: a timeline and the spans of a real run, measured in the same way.

Pitfall: a rank of torch waits for what it receives inside its compute action, so that a measured F or delta holds
waiting as well as work. The least of its durations is nearest to work alone, and bubbles look smaller than they are.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from lpkit.checks import shown, whole_number
from lpkit.interop.torch_schedule import is_flushed, torch_actions
from lpkit.timeline import KINDS

__all__ = ["Overlay", "overlay", "planned_spans"]

LETTERS = {"F": "F", "delta": "I", "delta'": "I", "delta''": "I", "G": "W"}
COMPUTE = ("F", "I", "W", "B")
SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
NOTES = ("waits for receives are inside the measured F, delta and busy: see the least of the durations; measured "
         "bubbles are too small by as much",
         "on stage 1 the engine does all of the backward in one action: delta + G")  # fmt: skip


@dataclass(frozen=True, eq=False)
class Overlay:
    """What was planned against what was measured.

    Attributes
    ----------
    table : DataFrame
        stage (from 1), measure, planned and measured (in seconds), ratio (measured over planned). Measures: ``F``,
        ``delta`` (with delta'' for the stage before) and ``G``, or ``delta + G`` where the run does not split them:
        medians over the micro-batches, and ``least F`` and so on; ``busy``, all of a step; ``period``, the median time
        from the end of one micro-batch to that of the next; ``bubble``, the share of the step in which it is not busy.
    scale : float
        Seconds of a unit of the costs.
    notes : tuple of str
        What to beware of, and where the scale is from.
    """

    table: pd.DataFrame
    scale: float
    notes: tuple


def overlay(timeline, spans, *, step=None):
    """Lay the spans of a run over the timeline that was planned.

    Parameters
    ----------
    timeline : Timeline
        One that flushes is compared by its first mini-batch; another by all of it, as torch runs it in one step.
    spans : DataFrame
        Of `lpkit.interop.profiler_trace.read_profiler_trace`, of all ranks.
    step : int, optional
        Which step of the run; by default the last one, since the first ones also set up what later ones use.

    Returns
    -------
    Overlay

    Raises
    ------
    ValueError
        If this is no timeline or no table of spans, stages or micro-batches of the run are not those of the timeline,
        an action of one is missing or there twice, no work of the timeline takes time, or there is no such step.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> from lpkit.plans import Plan
    >>> from lpkit.schedule import schedule
    >>> plan = Plan("by hand", Costs.from_times([2, 2], 2, [0, 2]), 2, ends=(1, 2))
    >>> line = schedule(plan, "one_f_one_b", micro_batches=3)
    >>> run = planned_spans(line).assign(step=0)
    >>> table = overlay(line, run.assign(start=1.5 * run.start, duration=1.5 * run.duration)).table
    >>> table[(table.stage == 2) & (table.measure == "period")].values.tolist()
    [[2, 'period', 6.0, 9.0, 1.5]]
    """
    step, run = _run_of(spans, step)
    planned = planned_spans(timeline)
    if not planned.duration.sum():
        raise ValueError("no operation of the timeline takes time, so there is nothing to compare; give costs above 0")
    _check_same(planned, run)
    _check_complete(run)
    unit = timeline.plan.costs.unit
    scale = SECONDS.get(unit) or _ratio(run.duration.sum(), planned.duration.sum())
    whence = () if unit in SECONDS else (f"1 {unit.removesuffix('s')} is taken as {scale:.4g} s, so that all work "
                                         "takes as long as it did: ratios compare stages and operations",)  # fmt: skip
    planned = planned.assign(**{name: planned[name] * scale for name in ("start", "duration", "end")})
    rows = []
    for stage in sorted(run.stage.unique().tolist()):
        whole = stage == 0 or any("B" in set(table.action[table.stage == stage]) for table in (planned, run))
        pairs = _measures(planned, stage, whole), _measures(run, stage, whole)
        rows += [(stage + 1, name, due, pairs[1][name], _ratio(pairs[1][name], due)) for name, due in pairs[0].items()]
    table = pd.DataFrame(rows, columns=["stage", "measure", "planned", "measured", "ratio"])
    return Overlay(table, float(scale), (f"step {step} of the run", *whence, *NOTES))


def planned_spans(timeline):
    """What a timeline plans for a step, as spans of a run: stage from 0, action, micro_batch, start, duration, end.

    Times are in the unit of the costs; delta'' counts where it is done. The duration is that of the work.

    Returns
    -------
    pandas.DataFrame

    Raises
    ------
    ValueError
        As `lpkit.interop.torch_schedule.torch_actions`.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> from lpkit.plans import Plan
    >>> from lpkit.schedule import schedule
    >>> plan = Plan("by hand", Costs.from_times([2, 2], 2, [0, 2], unit="cycles"), 2, ends=(1, 2))
    >>> planned_spans(schedule(plan, "gpipe", micro_batches=1))
       stage action  micro_batch  start  duration   end
    0      0      B            0    8.0       2.0  10.0
    1      0      F            0    0.0       2.0   2.0
    2      1      B            0    4.0       4.0   8.0
    3      1      F            0    2.0       2.0   4.0
    """
    whole = {(stage, micro) for row in torch_actions(timeline) for stage, op, micro in row if op == "B"}
    each = timeline.micro_batches
    count = each if is_flushed(timeline) else timeline.batches * each
    rows = np.flatnonzero((timeline.kind < KINDS.index("U")) & (timeline.micro < count))
    kinds, stages, micros = (column[rows].tolist() for column in (timeline.kind, timeline.stage, timeline.micro))
    letters = [LETTERS[KINDS[kind]] for kind in kinds]
    table = pd.DataFrame({
        "stage": timeline.stage[rows] - 1,
        "action": ["B" if a != "F" and (k - 1, m) in whole else a for a, k, m in zip(letters, stages, micros)],
        "micro_batch": timeline.micro[rows], "start": timeline.start[rows] / timeline.scale,
        "duration": (timeline.end[rows] - timeline.start[rows]) / timeline.scale,
        "end": timeline.end[rows] / timeline.scale,
    })  # fmt: skip
    grouped = table.groupby(["stage", "action", "micro_batch"], sort=True)
    return grouped.agg(start=("start", "min"), duration=("duration", "sum"), end=("end", "max")).reset_index()


def _run_of(spans, step):
    """The compute actions of one step, with their ends."""
    if not isinstance(spans, pd.DataFrame):
        raise ValueError(f"spans is {shown(spans)}; give the table of read_profiler_trace")
    missing = [name for name in ("stage", "action", "micro_batch", "start", "duration", "step") if name not in spans]
    if missing:
        raise ValueError(f"the spans have no column {missing[0]!r}; give those of read_profiler_trace")
    for name in ("start", "duration"):
        if spans[name].dtype.kind not in "iuf" or not np.isfinite(spans[name]).all():
            raise ValueError(f"{name} of the spans holds other values than finite numbers; give the table of "
                             "read_profiler_trace")  # fmt: skip
    run = spans[spans.action.isin(COMPUTE)]
    if run.empty:
        raise ValueError("the run has no F, I, W or B; give the trace of a step of a pipeline schedule")
    last = int(run.groupby(["stage", "action", "micro_batch"]).step.max().min())  # one that every action has
    step = last if step is None else whole_number(step, "step", least=0, most=last)
    run = run[run.step == step]
    return step, run.assign(end=run.start + run.duration)


def _check_same(planned, run):
    for name, what in (("stage", "stages"), ("micro_batch", "micro-batches")):
        due, found = (sorted(table[name].unique().tolist()) for table in (planned, run))
        if due != found:
            raise ValueError(f"the run has the {what} {shown(found)} and the plan {shown(due)}; give the traces of all "
                             "ranks, and the timeline that was run")  # fmt: skip


def _check_complete(run):
    """Raise unless each micro-batch went forward and back on each stage once; a median would hide what is missing."""
    done = run.groupby(["stage", "micro_batch"]).action.agg(list)
    for (stage, micro), actions in done.items():
        if "F" not in actions or not {"W", "B"} & set(actions) or len(set(actions)) < len(actions):
            raise ValueError(f"stage {stage}, micro-batch {micro} of the run has {', '.join(sorted(actions))}; give a "
                             "step that was recorded as a whole, with F, and B or I and W, once")  # fmt: skip


def _measures(spans, stage, whole):
    """{measure: time} of one stage; `whole` if delta and G are told together."""
    own = spans[spans.stage == stage]
    backward = own[own.action != "F"]
    parts = {"F": own[own.action == "F"]}
    parts |= {"delta + G": backward} if whole else {"delta": own[own.action == "I"], "G": own[own.action == "W"]}
    times = {name: part.groupby("micro_batch").duration.sum() for name, part in parts.items()}
    found = {name: float(time.median()) for name, time in times.items()}
    found |= {f"least {name}": float(time.min()) for name, time in times.items()}
    ends = np.sort(backward.groupby("micro_batch").end.max().to_numpy())
    long, busy = spans.end.max() - spans.start.min(), float(own.duration.sum())
    return found | {"busy": busy, "period": float(np.median(np.diff(ends))) if len(ends) > 1 else float("nan"),
                    "bubble": 1 - _ratio(busy, long)}  # fmt: skip


def _ratio(a, b):
    return float(a) / float(b) if b else float("nan")
