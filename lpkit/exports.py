"""Files that a plan and its timeline are written to; the name of a file says what it holds.

============================  ==============================================================================
NAME.json                     the plan, which `lpkit.plan_reader.read_plan` reads
NAME.csv                      the stages of the plan, a row each
NAMEgraph.txt                 PipeDream's graph.txt with the stage of each layer
NAMEtrace.json                the timeline for Perfetto and chrome://tracing
NAMEschedule.csv              its order for torch.distributed.pipelining, and NAMEschedule.shift.json beside it
NAMEtimeline.csv              its operations, a row each
NAME.png, NAME.svg            its Gantt chart
============================  ==============================================================================
"""

import io
from pathlib import Path

from lpkit.checks import check_writable, write_all
from lpkit.interop.chrome_trace import trace_text
from lpkit.interop.pipedream_plan import to_pipedream
from lpkit.interop.torch_schedule import is_flushed, to_torch_csv
from lpkit.interop.torch_shift_file import beside, shift_text
from lpkit.planfile import plan_text
from lpkit.schedule_report import timeline_csv

__all__ = ["ENDINGS", "export", "export_texts", "held"]

OF_TIMELINES = {
    "trace.json": "Chrome trace, for Perfetto", "schedule.csv": "schedule for torch's pipelining",
    "timeline.csv": "timeline, a row an operation", ".png": "Gantt chart", ".svg": "Gantt chart",
}  # fmt: skip
OF_PLANS = {"graph.txt": "PipeDream's profile, with stages", ".json": "plan", ".csv": "stages of the plan, a row each"}
ENDINGS = (*OF_TIMELINES, *OF_PLANS)  # in the order in which a name is read
SHIFT = "delta'' that the schedule for torch shifts"


def export(plan, paths, *, timeline=None, channels=None, clock=None):
    """Write files of a plan, and of its timeline: all of them, or none.

    Parameters
    ----------
    plan : Plan
    paths : sequence of str or path
        Their names decide what they hold.
    timeline : Timeline, optional
        Needed for what shows a schedule.
    channels : dict, optional
        Of `lpkit.interop.torch_shift_file.to_shift`.
    clock : number, optional
        Of `lpkit.interop.chrome_trace.to_chrome_trace`.

    Returns
    -------
    list of Path
        What was written, in order; the file beside a schedule.csv included.

    Raises
    ------
    ValueError
        If a name says nothing known, needs a timeline, or comes twice; if a timeline cannot be expressed in its form;
        or if a file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> import lpkit as lp
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     made = export(lp.plan(lp.costs("sample4"), 2), [f"{folder}/best.json", f"{folder}/best.csv"])
    ...     [(path.name, path.exists()) for path in made]
    [('best.json', True), ('best.csv', True)]
    """
    texts = export_texts(plan, paths, timeline=timeline, channels=channels, clock=clock)
    for path in texts:
        check_writable(path)
    write_all(texts)
    return list(texts)


def export_texts(plan, paths, *, timeline=None, channels=None, clock=None):
    """{path: text, or bytes of a picture} of the files that `export` writes.

    Parameters
    ----------
    plan, paths, timeline, channels, clock
        As for `export`.

    Raises
    ------
    ValueError
        As `export`, apart from what comes of writing.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> from lpkit.plans import Plan
    >>> plan = Plan("by hand", Costs.from_times([2, 2], 2, [0, 2], unit="cycles"), 2, ends=(1, 2))
    >>> {path.name: text.splitlines()[0] for path, text in export_texts(plan, ["new/best.csv"]).items()}
    {'best.csv': 'stage,layers,load,fixed,delta_kept,delta_in,delta_out,out_fraction,mandatory_bytes,additional_bytes'}
    """
    texts, forms = {}, {path: _form(path, timeline) for path in map(Path, paths)}  # names first: pictures take a while
    for path in map(Path, paths):
        for place, text in _texts(path, forms[path], plan, timeline, channels, clock).items():
            if place in texts:
                raise ValueError(f"{str(place)!r} would be written twice; give each file a name of its own")
            texts[place] = text
    return texts


def held(path, timeline=None):
    """What a file that `export` wrote holds, in words.

    Examples
    --------
    >>> held("best.json"), held("graph.txt"), held("schedule.shift.json")
    ('plan', "PipeDream's profile, with stages", "delta'' that the schedule for torch shifts")
    """
    if Path(path).name.endswith("schedule.shift.json"):
        return SHIFT
    form = _form(Path(path), timeline)
    words = (OF_TIMELINES | OF_PLANS)[form]
    if form != "schedule.csv" or is_flushed(timeline):
        return words
    return (f"{words}; {timeline.schedule} has become one flushed step of {timeline.batches * timeline.micro_batches} "
            f"micro-batches without weight versions, with delta'' in {beside(Path(path)).name}")  # fmt: skip


def _form(path, timeline):
    """The ending that says what a file holds."""
    for ending in ENDINGS:
        if path.name.endswith(ending):
            if ending in OF_TIMELINES and timeline is None:
                raise ValueError(f"cannot export {str(path)!r} without a schedule; files named "
                                 f"{', '.join(OF_TIMELINES)} show one, a plan is written as another NAME.json or "
                                 "NAME.csv")  # fmt: skip
            return ending
    raise ValueError(f"cannot export {str(path)!r}; names end in .json (a plan), .csv (its stages), graph.txt "
                     f"(PipeDream's profile), or with a schedule in {', '.join(OF_TIMELINES)}")  # fmt: skip


def _texts(path, form, plan, timeline, channels, clock):
    """The file of that name, and what goes with it."""
    if form in (".png", ".svg"):
        return {path: _drawn(timeline, form)}
    if form == "schedule.csv":
        return {path: to_torch_csv(timeline), beside(path): shift_text(timeline, channels=channels)}
    if form == "trace.json":
        return {path: trace_text(timeline, clock=clock)}
    if form == "timeline.csv":
        return {path: timeline_csv(timeline)}
    return {path: to_pipedream(plan) if form == "graph.txt" else plan_text(plan, path)}


def _drawn(timeline, form):
    """The Gantt chart as the bytes of a picture."""
    import matplotlib  # takes long to import, and few ask for pictures

    from lpkit.gantt import gantt

    stream, undated = io.BytesIO(), {".svg": {"Date": None}, ".png": {"Software": None}}[form]
    with matplotlib.rc_context({"svg.hashsalt": "lpkit"}):  # the same picture each time
        gantt(timeline, title=timeline.schedule).savefig(stream, format=form[1:], metadata=undated)
    return stream.getvalue()
