"""What a timeline is worth, in numbers: for a table, for machines, and as rows of a CSV file."""

import pandas as pd

from lpkit.display import counted, readable
from lpkit.plans import plain
from lpkit.timeline_text import mini_batches

__all__ = ["measures", "processor_table", "spoken", "timeline_csv"]

TIMES = ("period_of_mini_batch", "period_of_micro_batch", "fill", "drain", "latency_of_mini_batch", "makespan")


def measures(timeline):
    """The measures of a timeline as a dict of plain numbers, in the unit of the costs; those not whole as floats.

    Returns
    -------
    dict
        schedule, batches, micro_batches (of each), mini_batches (the same in words), unit, period_of_mini_batch,
        period_of_micro_batch and speedup (over one processor, in the steady state; None where the timeline is too short
        for a period), plan_period (a micro-batch's), fill, drain, latency_of_mini_batch (of the one in the middle),
        makespan, bubble_share, bandwidth and latency_of_link (a boundary, None where sends take no time), fills and
        fills_with (of `Timeline`), weight_versions (a layer) and processors: the rows of `processor_table`.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> from lpkit.plans import Plan
    >>> from lpkit.schedule import schedule
    >>> plan = Plan("by hand", Costs.from_times([2, 2], 2, [0, 2], unit="cycles"), 2, ends=(1, 2))
    >>> found = measures(schedule(plan, "pipedream", 4))
    >>> found["period_of_mini_batch"], found["makespan"], found["fill"], round(found["speedup"], 3)
    (6, 28, 10, 1.667)
    """
    times = (timeline.period, timeline.period_of_micro_batch, timeline.fill, timeline.drain, timeline.latency(),
             timeline.makespan)  # fmt: skip
    return {
        "schedule": timeline.schedule, "batches": timeline.batches, "micro_batches": timeline.micro_batches,
        "mini_batches": mini_batches(timeline), "unit": timeline.plan.costs.unit,
        **dict(zip(TIMES, map(_number, times))),
        "speedup": None if timeline.speedup is None else float(timeline.speedup),
        "plan_period": _number(timeline.plan.period), "bubble_share": float(timeline.bubble_share),
        **{name: _each(getattr(timeline, name)) for name in ("bandwidth", "latency_of_link")},
        "fills": timeline.fills, "fills_with": timeline.fills_with,
        "weight_versions": list(timeline.weight_versions), "processors": _rows(timeline),
    }  # fmt: skip


def spoken(timeline):
    """The measures of a timeline as a list of lines for people.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> from lpkit.plans import Plan
    >>> from lpkit.schedule import schedule
    >>> plan = Plan("by hand", Costs.from_times([2, 2], 2, [0, 2], unit="cycles"), 2, ends=(1, 2))
    >>> print("\\n".join(spoken(schedule(plan, "gpipe", 3))))
    gpipe, 2 stages on 2 processors: 3 mini-batches of 4 micro-batches, each with the plan's costs; in cycles
    period of a mini-batch 28, of a micro-batch 7; speedup 1.43 of 2
    fill 28, drain 20, latency of a mini-batch 28, makespan 84, bubbles 28.6%
    sends take no time
    """
    found, count = measures(timeline), max(timeline.processors)
    said = [None if found[name] is None else readable(found[name]) for name in TIMES]
    period = "period none, too few mini-batches to tell" if said[0] is None else (
        f"period of a mini-batch {said[0]}, of a micro-batch {said[1]}; speedup {found['speedup']:.2f} of {count}")
    lines = [f"{timeline.schedule}, {counted(timeline.stages, 'stage')} on {counted(count, 'processor')}: "
             f"{found['mini_batches']}; in {found['unit']}", period,
             f"fill {said[2]}, drain {said[3]}, latency of a mini-batch {said[4]}, makespan {said[5]}, "
             f"bubbles {found['bubble_share']:.1%}", _links(found)]  # fmt: skip
    return lines + ([] if timeline.fills in (True, None) else [
        f"the stashes are of a pipeline that has not filled: ask for {timeline.fills_with} mini-batches or more"])


def _links(found):
    """What sends take, in words."""
    if found["latency_of_link"] is None:
        return "sends take no time"
    unit = "cycle" if found["unit"] == "cycles" else found["unit"]
    rates = dict.fromkeys("without limit" if rate is None else f"{readable(rate)} bytes per {unit}"
                          for rate in found["bandwidth"])  # fmt: skip
    latencies = dict.fromkeys(map(readable, found["latency_of_link"]))
    return f"sends take time: bandwidth {', '.join(rates)}; latency {', '.join(latencies)} {found['unit']}"


def _each(values):
    return None if values is None else [_number(value) for value in values]


def processor_table(timeline):
    """One row a processor: its utilisation, and the most it keeps.

    Returns
    -------
    DataFrame
        processor, stages (text), utilisation, in_flight (micro-batches), activation_bytes, weight_bytes.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> from lpkit.partition import plan
    >>> from lpkit.schedule import schedule
    >>> line = schedule(plan(Costs.from_times([4, 2, 2], 0, 0, unit="cycles"), 2), "gpipe", 4)
    >>> processor_table(line)["utilisation"].tolist()
    [0.8, 0.8]
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
