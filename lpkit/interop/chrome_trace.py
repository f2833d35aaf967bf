"""A timeline as a trace for chrome://tracing and Perfetto: what runs where, what is sent, and what is kept.

A process is a processor (a stage, where each stage has its own); its threads are ``compute`` and one for each neighbour
it sends to or receives from. Arrows follow what crosses from stage to stage: activations, deltas, copies of weights and
delta''. Counters show the bytes and versions a stage keeps. `lpkit.interop.trace_check` checks a trace by itself.
Source: Duan and others, Trace Event Format (Google, 2016). Opened in the Perfetto UI 52.
"""

import json
import math
import numbers
from fractions import Fraction

from lpkit.checks import shown, write_atomically
from lpkit.interop.trace_check import validate_chrome_trace
from lpkit.plans import plain
from lpkit.timeline import KINDS, TENSORS, Timeline
from lpkit.timeline_paths import crossings, stash_over_time

__all__ = ["to_chrome_trace", "trace_text", "validate_chrome_trace", "write_chrome_trace"]

MICROSECONDS = {"s": 10**6, "ms": 1000, "us": 1, "ns": Fraction(1, 1000)}  # of a unit of time
LONGEST = 2**53  # microseconds: beyond, neighbouring times cannot be told apart
SENT = {"a": "activation", "delta": "delta", "delta''": "delta''", "W": "weights"}
INSET = 64  # arrows start and end this part of a slice inside it, so that they belong to no neighbour


def to_chrome_trace(timeline, *, clock=None):
    """The trace of a timeline as a dict for JSON.

    Parameters
    ----------
    timeline : Timeline
    clock : number, optional
        Cycles a second, for costs in cycles. Without it a cycle is shown as 1 us; ``otherData`` says so. Times in s,
        ms, us and ns are true; any other unit is shown as 1 us.

    Returns
    -------
    dict
        ``traceEvents``: slices (phase X) with ``args`` layer, op, mini-batch, micro-batch, weight version, stage (and
        tensor, from and to of a send); updates as instants (i); flows (s, t, f); counters (C); names (M). Mini- and
        micro-batches count from 0, stages from 1.

    Raises
    ------
    ValueError
        If `timeline` is none, `clock` is not a positive number or the costs are not in cycles, or the trace would be
        longer than 2**53 us.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> from lpkit.plans import Plan
    >>> from lpkit.schedule import schedule
    >>> plan = Plan("by hand", Costs.from_times([2, 2], 2, [0, 2], unit="cycles"), 2, ends=(1, 2))
    >>> trace = to_chrome_trace(schedule(plan, "layerpipe", 1))
    >>> [(e["name"], e["pid"], e["ts"], e["dur"]) for e in trace["traceEvents"] if e["ph"] == "X"][1:]
    [('F layer2', 2, 2, 2), ('delta layer2', 2, 4, 2), ('G layer1', 1, 6, 2), ('G layer2', 2, 6, 2)]
    >>> trace["otherData"]["time"]
    '1 cycle is shown as 1 us'
    """
    if not isinstance(timeline, Timeline):
        raise ValueError(f"timeline is {shown(timeline)}; give a Timeline, as a schedule returns it")
    factor, said = _scale(timeline, clock)
    if float(timeline.makespan) * float(factor) > LONGEST:
        raise ValueError(f"the trace would be longer than 2**53 us ({float(timeline.makespan):.3g} "
                         f"{timeline.plan.costs.unit}); give a clock, fewer mini-batches or costs in a larger "
                         "unit")  # fmt: skip
    threads = _threads(timeline)
    spans = _spans(timeline, factor)
    events = [*_named(timeline, threads), *_operations(timeline, threads, spans), *_flows(timeline, threads, spans),
              *_counters(timeline, factor)]  # fmt: skip
    return {"traceEvents": events, "displayTimeUnit": "ns",
            "otherData": {"schedule": timeline.schedule, "costs": timeline.plan.costs.name,
                          "planner": timeline.plan.planner, "time": said}}  # fmt: skip


def trace_text(timeline, *, clock=None):
    """The text of a trace file: JSON with an event a line.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> from lpkit.plans import Plan
    >>> from lpkit.schedule import schedule
    >>> plan = Plan("by hand", Costs.from_times([2, 2], 2, [0, 2], unit="cycles"), 2, ends=(1, 2))
    >>> print(trace_text(schedule(plan, "layerpipe", 1)).splitlines()[1])
    {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "stage 1: layer1"}},
    """
    trace = to_chrome_trace(timeline, clock=clock)
    events = ",\n".join(json.dumps(event, allow_nan=False) for event in trace.pop("traceEvents"))
    return f'{{"traceEvents": [\n{events}\n], {json.dumps(trace)[1:]}\n'


def write_chrome_trace(timeline, path, *, clock=None):
    """Write the trace of a timeline to `path`, whole or not at all; returns the path.

    Parameters
    ----------
    timeline : Timeline
    path : path
    clock : number, optional
        As for `to_chrome_trace`.

    Raises
    ------
    ValueError
        As `to_chrome_trace`, or if the file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> import lpkit as lp
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_chrome_trace(lp.schedule(lp.plan(lp.costs("sample4"), 2)), f"{folder}/trace.json", clock=1e9).name
    'trace.json'
    """
    return write_atomically(path, trace_text(timeline, clock=clock))


def _scale(timeline, clock):
    """Microseconds of a unit of the costs, and a sentence that says so."""
    unit = timeline.plan.costs.unit
    if clock is None:
        if unit in MICROSECONDS:
            return MICROSECONDS[unit], f"times are true, from costs in {unit}"
        return 1, f"1 {'cycle' if unit == 'cycles' else unit} is shown as 1 us"
    clock = plain(clock)
    if not isinstance(clock, numbers.Real) or isinstance(clock, bool) or not 0 < clock < math.inf:
        raise ValueError(f"clock is {shown(clock)}; it must be a number of cycles a second, above 0")
    if unit != "cycles":
        raise ValueError(f"the costs are in {shown(unit)}, and a clock is for cycles; leave clock out")
    return Fraction(10**6) / Fraction(clock), f"times are those of a clock of {clock} Hz"


def _spans(timeline, factor):
    """Start and length of each row in microseconds."""
    factor = Fraction(factor) / timeline.scale
    return [(_us(start, factor), _us(end - start, factor))
            for start, end in zip(timeline.start.tolist(), timeline.end.tolist())]


def _us(time, factor):
    """`time` times an exact factor: an int where it is whole, else the nearest float."""
    exact = Fraction(time) * factor if isinstance(time, Fraction) or factor.denominator > 1 else time * factor.numerator
    return exact if isinstance(exact, float) else exact.numerator if exact.denominator == 1 else float(exact)


def _threads(timeline):
    """{(processor, "compute", 0 or "send" or "receive", other processor): thread}, numbered through all processes.

    Some viewers take a thread of one number for the same in every process, and one of the number of its process for
    its main thread.
    """
    homes, used = timeline.processors, set()
    for stage, target in {*zip(timeline.stage.tolist(), timeline.target.tolist())}:
        if target:
            source, target = homes[stage - 1], homes[target - 1]
            used |= {(source, "send", target), (target, "receive", source)}
    used |= {(processor, "compute", 0) for processor in homes}
    order = ("compute", "send", "receive")
    ranked = sorted(used, key=lambda thread: (thread[0], order.index(thread[1]), thread[2]))
    return {thread: number for number, thread in enumerate(ranked, 1 + max(homes))}


def _named(timeline, threads):
    """Names and places of processes and threads."""
    layers, stages = timeline.plan.costs.layers, timeline.plan.stages
    for processor in sorted(set(timeline.processors)):
        held = [k for k, home in enumerate(timeline.processors, 1) if home == processor]
        what = " + ".join(_held(stages[k - 1], layers) for k in held)
        name = f"stage {held[0]}" if len(held) == 1 else f"processor {processor}, stages {', '.join(map(str, held))}"
        yield {"ph": "M", "name": "process_name", "pid": processor, "args": {"name": f"{name}: {what}"}}
        yield {"ph": "M", "name": "process_sort_index", "pid": processor, "args": {"sort_index": processor}}
    words = {"compute": "compute", "send": "send to {}", "receive": "receive from {}"}
    for (processor, what, other), thread in threads.items():
        place = {"ph": "M", "pid": processor, "tid": thread}
        yield place | {"name": "thread_name", "args": {"name": words[what].format(other)}}
        yield place | {"name": "thread_sort_index", "args": {"sort_index": thread}}


def _held(stage, layers):
    names = dict.fromkeys((layers[stage[0] - 1], layers[stage[-1] - 1])) if stage else ["no layer"]
    return " .. ".join(names)


def _operations(timeline, threads, spans):
    """A slice for each operation (for a send one at each end) and an instant for each update."""
    columns = (timeline.kind, timeline.layer, timeline.stage, timeline.micro, timeline.version, timeline.tensor,
               timeline.target)  # fmt: skip
    layers, homes = timeline.plan.costs.layers, timeline.processors
    for kind, layer, stage, micro, version, tensor, target, (ts, dur) in zip(*(c.tolist() for c in columns), spans):
        op, name, home = KINDS[kind], layers[layer - 1], homes[stage - 1]
        arguments = {"layer": name, "op": op, "mini-batch": micro // timeline.micro_batches, "micro-batch": micro,
                     "weight version": version, "stage": stage}  # fmt: skip
        event = {"name": f"{op} {name}", "cat": op, "ts": ts, "pid": home, "tid": threads[home, "compute", 0]}
        if op == "U":
            yield event | {"ph": "i", "s": "t", "args": arguments}
        elif op == "send":
            arguments |= {"tensor": SENT[TENSORS[tensor]], "from": stage, "to": target}
            for process, thread in _ends_of(homes, stage, target):
                yield {"ph": "X", "name": f"{SENT[TENSORS[tensor]]} {name}", "cat": op, "ts": ts, "dur": dur,
                       "pid": process, "tid": threads[thread], "args": arguments}  # fmt: skip
        else:
            yield event | {"ph": "X", "dur": dur, "args": arguments}


def _ends_of(homes, stage, target):
    """(process, thread) that sends and that receives."""
    source, target = homes[stage - 1], homes[target - 1]
    return (source, (source, "send", target)), (target, (target, "receive", source))


def _flows(timeline, threads, spans):
    """Arrows from the slice that makes a tensor to the one that uses it first, by way of its sends."""
    sends, homes = _sends(timeline), timeline.processors
    for number, row in enumerate(crossings(timeline).itertuples(index=False), 1):
        if row.uses < 0:
            continue
        compute = [(home, threads[home, "compute", 0], spans[place]) for place in (row.makes, row.uses)
                   for home in [homes[timeline.stage[place] - 1]]]  # fmt: skip
        between = [(process, threads[thread], spans[place])
                   for place in sends.get((row.tensor, row.layer, row.micro_batch), ())
                   for process, thread in _ends_of(homes, timeline.stage[place], timeline.target[place])]
        steps = [compute[0], *between, compute[1]]
        flow = {"name": SENT[row.tensor], "cat": "crossing", "id": number}
        for place, (process, thread, (ts, dur)) in enumerate(steps):
            phase = "s" if place == 0 else "f" if place == len(steps) - 1 else "t"
            inside = ts + dur - dur / INSET if phase == "s" else ts + dur / INSET
            ends = {"bp": "e"} if phase == "f" else {}
            yield flow | {"ph": phase, "ts": inside, "pid": process, "tid": thread} | ends


def _sends(timeline):
    """{(tensor, layer, micro-batch): rows of its sends, in order}."""
    found = {}
    rows = (timeline.kind == KINDS.index("send")).nonzero()[0]
    for row in rows.tolist():
        key = TENSORS[timeline.tensor[row]], int(timeline.layer[row]), int(timeline.micro[row])
        found.setdefault(key, []).append(row)
    return found


def _counters(timeline, factor):
    """Bytes and versions that each stage keeps, at each change."""
    factor = Fraction(factor)
    for stage, home in enumerate(timeline.processors, 1):
        for row in stash_over_time(timeline, stage).itertuples(index=False):
            event = {"ph": "C", "pid": home, "ts": _us(row.time, factor)}
            kept = {"activations": int(row.activation_bytes), "weights": int(row.weight_bytes)}
            yield event | {"name": f"stash of stage {stage} (bytes)", "args": kept}
            yield event | {"name": f"weight versions of stage {stage}", "args": {"versions": int(row.weight_versions)}}
