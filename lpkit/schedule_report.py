"""What a timeline is worth, in numbers: for a table, for machines, and as rows of a CSV file."""

import pandas as pd

from lpkit.plans import plain

__all__ = ["measures", "processor_table", "timeline_csv"]


def measures(timeline):
    """The measures of a timeline as a dict of plain numbers, in the unit of the costs; those not whole as floats.

    Returns
    -------
    dict
        schedule, batches, micro_batches, unit, period (None where the timeline is too short for one), plan_period (a
        micro-batch's), makespan, fill, drain, latency (of the last mini-batch), bubble_share, weight_versions (a layer)
        and processors: the rows of `processor_table`.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> from lpkit.plans import Plan
    >>> from lpkit.schedule import schedule
    >>> plan = Plan("by hand", Costs.from_times([2, 2], 2, [0, 2], unit="cycles"), 2, ends=(1, 2))
    >>> found = measures(schedule(plan, "pipedream", 4))
    >>> found["period"], found["makespan"], found["fill"], round(found["bubble_share"], 3), found["weight_versions"]
    (6, 28, 10, 0.286, [1, 1])
    """
    times = {name: _number(getattr(timeline, name)) for name in ("period", "makespan", "fill", "drain")}
    return {
        "schedule": timeline.schedule, "batches": timeline.batches, "micro_batches": timeline.micro_batches,
        "unit": timeline.plan.costs.unit, **times, "plan_period": _number(timeline.plan.period),
        "latency": _number(timeline.latency()), "bubble_share": float(timeline.bubble_share),
        "weight_versions": list(timeline.weight_versions), "processors": _rows(timeline),
    }  # fmt: skip


def processor_table(timeline):
    """One row a processor: its utilisation, and the most it keeps.

    Returns
    -------
    DataFrame
        processor, stages (text), utilisation, in_flight (micro-batches), activation_bytes, weight_bytes.
    """
    return pd.DataFrame(_rows(timeline))


def _rows(timeline):
    columns = zip(timeline.utilisation, timeline.in_flight, timeline.activation_bytes, timeline.weight_bytes)
    return [{"processor": processor, "stages": _stages(timeline, processor), "utilisation": float(share),
             "in_flight": int(flight), "activation_bytes": int(activations), "weight_bytes": int(weights)}
            for processor, (share, flight, activations, weights) in enumerate(columns, 1)]  # fmt: skip


def _stages(timeline, processor):
    return " ".join(str(k) for k, home in enumerate(timeline.processors, 1) if home == processor)


def _number(value):
    """An int where the value is whole, else a float; None stays."""
    value = plain(value) if value is not None else None
    return value if value is None or isinstance(value, int) else float(value)


def timeline_csv(timeline):
    """Every operation as a row of CSV text, in order of start; times that are not whole as floats.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> from lpkit.plans import Plan
    >>> from lpkit.schedule import schedule
    >>> plan = Plan("by hand", Costs.from_times([2, 2], 2, [0, 2], unit="cycles"), 2, ends=(1, 2))
    >>> timeline_csv(schedule(plan, "pipedream", 1)).splitlines()[:2]  # doctest: +NORMALIZE_WHITESPACE
    ['kind,layer,layer_name,stage,processor,batch,micro_batch,start,end,version,tensor,target',
     'F,1,layer1,1,1,0,0,0,2,0,,0']
    """
    names, homes = timeline.plan.costs.layers, timeline.processors
    rows = [(o.kind, o.layer, names[o.layer - 1], o.stage, homes[o.stage - 1], o.batch, o.micro_batch, _number(o.start),
             _number(o.end), o.version, o.tensor, o.target) for o in timeline.operations]  # fmt: skip
    columns = ("kind", "layer", "layer_name", "stage", "processor", "batch", "micro_batch", "start", "end", "version",
               "tensor", "target")  # fmt: skip
    return pd.DataFrame(rows, columns=columns, dtype=object).to_csv(index=False, lineterminator="\n")
