"""A plan as people and programs read it: a table of stages, a JSON document, a CSV file."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd

from lpkit.checks import write_atomically
from lpkit.jsonfile import exact, to_text
from lpkit.partition import communication

__all__ = ["SCHEMA", "certificate_dict", "described", "plan_text", "stage_table", "to_dict", "write_plan"]

SCHEMA = "lpkit-plan-2"
TIMELINES = ("trace.json", "schedule.csv", "timeline.csv")  # endings of what `lpkit.exports` writes
UNEQUAL = ("speeds", "used", "replicas", "allreduce")  # fields of a plan that most plans do not have
COLUMNS = ("F", "G", "delta", "weight_bytes", "input_bytes", "output_bytes", "cut_bytes", "first_consumer",
           "shared_input")


def stage_table(plan):
    """One row a stage: its layers, load, and the delta work taken from the stage before and given to the next.

    Returns
    -------
    pandas.DataFrame
        Columns stage, layers (first and last name, or "(none)"), load, fixed (F + G), delta_kept, delta_in, delta_out,
        in the unit of the costs; out_fraction, the part of the moved layers' delta that leaves; mandatory_bytes and
        additional_bytes (rounded) over the boundary to the next stage (the paper's accounting). Of a plan with speeds
        also processor, speed and time; of one with replicas replicas, allreduce_time (once in as many mini-batches),
        allreduce_bytes (of all replicas, for one) and time.

    Examples
    --------
    >>> import lpkit as lp
    >>> made = lp.plan(lp.costs("sample4", **lp.READINGS["closest"].choices()), 3)
    >>> stage_table(made)[["stage", "layers", "load"]].values.tolist()
    [[1, 'conv1', 32159456], [2, 'conv2', 32159456], [3, 'conv3 .. conv4', 32159456]]
    """
    return pd.DataFrame(_stage_rows(plan))


def _stage_rows(plan):
    """The rows of `stage_table` as dicts: beside a fraction a column of a DataFrame could not hold ints."""
    traffic = communication(plan)
    return [_stage_row(plan, stage, layers, traffic) for stage, layers in enumerate(plan.stages, 1)]


def _stage_row(plan, stage, layers, traffic):
    work, rows = plan.costs, [l - 1 for l in layers]
    # Algorithm 1 as printed may leave a stage without a layer.
    names = [work.layers[rows[0]], work.layers[rows[-1]]] if rows else ["(none)"]
    given = [(layer, amount) for layer, source, _, amount in plan.moved if source == stage]
    out, taken = sum(a for _, a in given), sum(a for _, _, target, a in plan.moved if target == stage)
    whole = sum(work.delta[layer - 1].item() for layer, _ in given)
    last = stage == len(plan.stages)
    return {
        "stage": stage, "layers": " .. ".join(dict.fromkeys(names)), "load": _number(plan.loads[stage - 1]),
        "fixed": (work.F[rows].sum() + work.G[rows].sum()).item(),
        "delta_kept": _number(work.delta[rows].sum().item() - out), "delta_in": _number(taken),
        "delta_out": _number(out), "out_fraction": float(f"{float(out / whole):.12g}") if whole else 0.0,
        "mandatory_bytes": 0 if last else _number(traffic.mandatory[stage - 1]),
        "additional_bytes": 0 if last else round(traffic.additional[stage - 1]), **_processor_row(plan, stage, traffic),
    }


def _processor_row(plan, stage, traffic):
    """The columns of a plan whose stages are not one equal processor each."""
    time = {"time": _number(plan.stage_times[stage - 1])}
    if plan.speeds:
        return {"processor": int(plan.used[stage - 1]), "speed": _number(plan.speeds[stage - 1])} | time
    if plan.replicas:
        reduce = plan.allreduce[stage - 1] if plan.allreduce else 0
        return {"replicas": int(plan.replicas[stage - 1]), "allreduce_time": _number(reduce),
                "allreduce_bytes": round(traffic.allreduce[stage - 1])} | time
    return {}


def _number(value):
    """An int where the value is whole, else the nearest float: what JSON and CSV can hold."""
    exact = Fraction(value)
    return exact.numerator if exact.denominator == 1 else float(exact)


def to_dict(plan):
    """The plan as plain numbers, text, lists and dicts: the JSON document that `lpkit.plan_reader.read_plan` reads.

    What the plan is made of (``costs``, ``ends``, ``moved``, ``links``, ``options``, ``certificate``) and ``loads`` are
    exact: a Fraction is text, ``"1/3"``. What follows from it (``period``, ``speedup``, ``total``, ``stages``,
    ``communication``) is there for programs that only look, as the nearest numbers. ``speeds`` and ``used``, or
    ``replicas`` and ``allreduce``, are there where the plan has them.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> from lpkit.partition import plan
    >>> to_dict(plan(Costs.from_times([4, 2, 2], 0, 0, unit="cycles"), 2))["ends"]
    [1, 3]
    """
    return {
        "schema": SCHEMA, "model": plan.costs.name, "unit": plan.costs.unit, "cost_source": plan.costs.source,
        "planner": plan.planner, "processors": int(plan.processors), "layers": list(plan.costs.layers),
        "ends": [int(end) for end in plan.ends], **described(plan),
        "moved": [{"layer": int(l), "from": int(s), "to": int(t), "amount": exact(a)} for l, s, t, a in plan.moved],
        "links": [exact(time) for time in plan.links], **_processors(plan),
        "options": {name: _option(value) for name, value in plan.options},
        "certificate": certificate_dict(plan.certificate), "notes": list(plan.notes), "costs": _columns(plan.costs),
    }


def _processors(plan):
    """What the plan says of unequal processors, exact; nothing where they are equal."""
    return {name: [exact(value) for value in getattr(plan, name)] for name in UNEQUAL if getattr(plan, name)}


def described(plan):
    """What follows from the plan, as the document says it.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> from lpkit.partition import plan
    >>> described(plan(Costs.from_times([4, 2, 2], 0, 0, unit="cycles"), 2))["loads"]
    [4, 4]
    """
    full = communication(plan, "full")
    reduced = {"allreduce_bytes": _number(full.total_allreduce)} if plan.replicas else {}
    times = {"stage_times": [_number(time) for time in plan.stage_times]} if plan.speeds or plan.replicas else {}
    return {
        "loads": [exact(load) for load in plan.loads], "period": _number(plan.period),
        "speedup": float(plan.speedup), "total": _number(plan.costs.total), "stages": _stage_rows(plan), **times,
        "communication": {
            "mandatory_bytes": _number(full.total_mandatory),
            "additional_bytes_paper": _number(communication(plan).total_additional),
            "additional_bytes_full": _number(full.total_additional), **reduced,
        },
    }


def _columns(costs):
    columns = {name: getattr(costs, name).tolist() for name in COLUMNS}
    return columns | {"bytes_per_element": exact(costs.bytes_per_element)}


def _option(value):
    """An option of a planner: a number, a name, nothing, or a list of them, such as a number for each layer."""
    value = value.tolist() if isinstance(value, np.ndarray) else value
    return [_option(v) for v in value] if isinstance(value, (list, tuple)) else exact(value)


def certificate_dict(sure):
    """A certificate as the document says it."""
    if sure is None:
        return None
    return {name: exact(getattr(sure, name)) for name in ("period", "average_bound", "saturation_period")} | {
        "binding": None if sure.binding is None else [int(n) for n in sure.binding],
        "saturates_at": sure.saturates_at, "text": sure.text}  # fmt: skip


def write_plan(plan, path):
    """Write the plan to `path`: the whole of it as ``.json``, its stages as ``.csv``; never half a file.

    Raises
    ------
    ValueError
        If the name ends in something else or the folder cannot be written to.

    Examples
    --------
    >>> import tempfile
    >>> from lpkit.costs import Costs
    >>> from lpkit.partition import plan
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_plan(plan(Costs.from_times([4, 2, 2], 0, 0), 2), f"{folder}/plan.json").name
    'plan.json'
    """
    return write_atomically(path, plan_text(plan, path))


def plan_text(plan, path):
    """What a file of the name `path` holds of the plan.

    Raises
    ------
    ValueError
        If the name says no known form.
    """
    name = Path(path).name
    if name.endswith(TIMELINES):
        raise ValueError(f"cannot export {str(path)!r} without a schedule; files named {', '.join(TIMELINES)} hold "
                         "timelines, a plan is written as another NAME.json or NAME.csv")
    if name.endswith(".json"):
        return to_text(to_dict(plan)) + "\n"
    if name.endswith(".csv"):
        return pd.DataFrame(_stage_rows(plan), dtype=object).to_csv(index=False, lineterminator="\n")
    raise ValueError(f"cannot export {str(path)!r}; a plan is written as NAME.json, its stages as NAME.csv")
