"""Whether a document is a sound trace in the Trace Event format, told from the document alone.

Viewers drop what they cannot place without a word; this says what, and where.
Source: Duan and others, Trace Event Format (Google, 2016), the JSON object form and the phases X, M, i, C, s, t and f.
"""

import math
from bisect import bisect_right
from collections import defaultdict

from lpkit.checks import shown

__all__ = ["validate_chrome_trace"]

NEEDED = {
    "X": ("name", "ts", "dur", "pid", "tid"), "M": ("name", "pid", "args"), "i": ("name", "ts", "pid", "tid"),
    "C": ("name", "ts", "pid", "args"), **{phase: ("name", "cat", "id", "ts", "pid", "tid") for phase in "stf"},
}  # fmt: skip
NAMED = {"process_name": "name", "thread_name": "name", "process_sort_index": "sort_index",
         "thread_sort_index": "sort_index", "process_labels": "labels"}  # fmt: skip
MOST_PROBLEMS = 20
LARGEST = 1.7e308  # a viewer reads each number as a float
CLOSE = 1e-9  # relative: ts + dur is rounded where a viewer adds it up


def validate_chrome_trace(document):
    """What is wrong with a trace, a sentence each; empty if there is nothing.

    Checks that each event has the keys of its phase; that all numbers are finite; that the slices of a thread lie after
    or inside one another; that each flow has one start and one end, in this order, each inside a slice; and that the
    values of a counter come in order of time.

    Parameters
    ----------
    document : dict
        ``{"traceEvents": [...]}``, as parsed from JSON.

    Returns
    -------
    tuple of str

    Examples
    --------
    >>> slice_ = {"ph": "X", "name": "F", "ts": 0, "dur": 5, "pid": 1, "tid": 1}
    >>> validate_chrome_trace({"traceEvents": [slice_, slice_ | {"ts": 5}]})
    ()
    >>> validate_chrome_trace({"traceEvents": [slice_, slice_ | {"ts": 3}]})
    ("slice 'F' at 3 on process 1, thread 1 starts inside 'F' at 0 and ends after it",)
    """
    if not isinstance(document, dict) or not isinstance(document.get("traceEvents"), list):
        return ("the document is no object with a list 'traceEvents'",)
    events = document["traceEvents"]
    problems = [problem for place, event in enumerate(events) for problem in _wrong_event(place, event)]
    if not problems:
        slices = _slices(events)
        problems = [*_crossed(slices), *_loose_flows(events, slices), *_unordered(events)]
    return tuple(problems[:MOST_PROBLEMS])


def _wrong_event(place, event):
    """What is wrong with one event by itself."""
    if not isinstance(event, dict):
        return [f"event {place} is no object"]
    phase = event.get("ph")
    if not isinstance(phase, str) or phase not in NEEDED:
        return [f"event {place} has the phase {shown(phase)}; known are {', '.join(NEEDED)}"]
    if missing := [key for key in NEEDED[phase] if key not in event]:
        return [f"event {place} of phase {phase} has no {missing[0]!r}"]
    if wrong := [key for key in ("ts", "dur") if key in event and not _is_number(event[key])]:
        return [f"{wrong[0]} of event {place} is {shown(event[wrong[0]])}, not a finite number"]
    if event.get("dur", 0) < 0:
        return [f"dur of event {place} is {event['dur']}, below 0"]
    if wrong := [key for key in ("name", "cat", "id", "pid", "tid") if not _is_label(event.get(key, ""))]:
        return [f"{wrong[0]} of event {place} is {shown(event[wrong[0]])}, neither text nor a number"]
    if not _is_finite(event):
        return [f"event {place} holds a number that is not finite"]
    return _wrong_detail(place, event)


def _wrong_detail(place, event):
    """What only some phases have."""
    phase, arguments = event["ph"], event.get("args", {})
    if not isinstance(arguments, dict):
        return [f"args of event {place} is no object"]
    if phase == "M" and NAMED.get(event["name"]) not in arguments:
        return [f"metadata event {place} {shown(event['name'])} is unknown or its args do not say it"]
    if phase == "C" and not (arguments and all(map(_is_number, arguments.values()))):
        return [f"counter {shown(event['name'])} of event {place} has no values, or other values than numbers"]
    if phase == "i" and event.get("s", "t") not in ("g", "p", "t"):
        return [f"the scope of instant event {place} is {shown(event['s'])}; it must be g, p or t"]
    if phase == "f" and event.get("bp", "e") != "e":
        return [f"bp of event {place} is {shown(event['bp'])}; it must be e or be left out"]
    return []


def _is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= LARGEST


def _is_label(value):
    return isinstance(value, str) or _is_number(value)


def _is_finite(value):
    """Whether all numbers in a JSON value are finite."""
    left = [value]  # no recursion: lists of a document may lie in one another as deep as its reader allows
    while left:
        value = left.pop()
        if isinstance(value, (dict, list)):
            left += value.values() if isinstance(value, dict) else value
        elif isinstance(value, float) and not math.isfinite(value):
            return False
    return True


def _slices(events):
    """Slices of each thread, as (start, end, name), the outer one first."""
    slices = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            end = event["ts"] + event["dur"]
            slices[event["pid"], event["tid"]].append((event["ts"], end, event["name"]))
    return {thread: sorted(rows, key=lambda row: (row[0], -row[1])) for thread, rows in slices.items()}


def _crossed(slices):
    """Slices that start inside another one of their thread and end after it."""
    for (process, thread), rows in slices.items():
        open_ = []
        for start, end, name in rows:
            slack = CLOSE * max(abs(end), abs(start))
            while open_ and open_[-1][1] <= start + slack:
                open_.pop()
            if open_ and end > open_[-1][1] + slack:
                yield (f"slice {shown(name)} at {start} on process {process}, thread {thread} starts inside "
                       f"{shown(open_[-1][2])} at {open_[-1][0]} and ends after it")  # fmt: skip
            open_.append((start, end, name))


def _loose_flows(events, slices):
    """Flows without one start and one end, out of order, or outside every slice."""
    flows = defaultdict(list)
    for event in events:
        if event["ph"] in "stf":
            flows[event["cat"], event["name"], event["id"]].append(event)
    reach = {thread: _reach(rows) for thread, rows in slices.items()}
    for (_, name, number), steps in flows.items():
        phases = [step["ph"] for step in steps]
        times = [step["ts"] for step in steps]
        if phases[0] != "s" or phases[-1] != "f" or set(phases[1:-1]) - {"t"}:
            yield f"flow {shown(name)} {shown(number)} has the steps {' '.join(phases)}; it needs s, any t, f"
        elif times != sorted(times):
            yield f"flow {shown(name)} {shown(number)} goes back in time"
        for step in steps:
            if not _inside(step, reach.get((step["pid"], step["tid"]))):
                yield f"flow {shown(name)} {shown(number)} at {step['ts']} is in no slice of its thread"


def _reach(rows):
    """Starts of the slices of a thread, and the latest end so far."""
    ends, latest = [], -math.inf
    for _, end, _ in rows:
        latest = max(latest, end)
        ends.append(latest)
    return [start for start, _, _ in rows], ends


def _inside(step, reach):
    place = bisect_right(reach[0], step["ts"]) if reach else 0
    return place > 0 and step["ts"] <= reach[1][place - 1]


def _unordered(events):
    """Counters whose times go back, or whose series change."""
    last = {}
    for event in (event for event in events if event["ph"] == "C"):
        name, series = (event["pid"], event["name"]), set(event["args"])
        time, before = last.get(name, (event["ts"], series))
        if event["ts"] < time:
            yield f"counter {shown(event['name'])} of process {event['pid']} goes back in time, from {time}"
        if series != before:
            yield f"counter {shown(event['name'])} of process {event['pid']} changes its series at {event['ts']}"
        last[name] = event["ts"], series
