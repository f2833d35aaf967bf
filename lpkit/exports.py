"""Files that a plan and its timeline are written to; the name of a file says what it holds.

============================  ==============================================================================
NAME.json                     the plan, which `lpkit.plan_reader.read_plan` reads
NAME.csv                      the stages of the plan, a row each
NAMEgraph.txt                 PipeDream's graph.txt with the stage of each layer
NAMEtrace.json                the timeline for Perfetto and chrome://tracing
NAMEschedule.csv              its order for torch.distributed.pipelining, and NAMEschedule.shift.json beside it
NAMEtimeline.csv              its operations, a row each
============================  ==============================================================================
"""

from pathlib import Path

from lpkit.checks import check_writable, write_all
from lpkit.interop.chrome_trace import trace_text
from lpkit.interop.pipedream_plan import to_pipedream
from lpkit.interop.torch_schedule import to_torch_csv
from lpkit.interop.torch_shift_file import beside, shift_text
from lpkit.planfile import plan_text
from lpkit.schedule_report import timeline_csv

__all__ = ["export", "export_texts"]


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
    """
    texts = export_texts(plan, paths, timeline=timeline, channels=channels, clock=clock)
    for path in texts:
        check_writable(path)
    write_all(texts)
    return list(texts)


def export_texts(plan, paths, *, timeline=None, channels=None, clock=None):
    """{path: text} of the files that `export` writes."""
    texts = {}
    for path in map(Path, paths):
        for place, text in _texts(path, plan, timeline, channels, clock).items():
            if place in texts:
                raise ValueError(f"{str(place)!r} would be written twice; give each file a name of its own")
            texts[place] = text
    return texts


def _texts(path, plan, timeline, channels, clock):
    """The file of that name, and what goes with it."""
    name = path.name
    if name.endswith("graph.txt"):
        return {path: to_pipedream(plan)}
    if timeline is not None and name.endswith("trace.json"):
        return {path: trace_text(timeline, clock=clock)}
    if timeline is not None and name.endswith("timeline.csv"):
        return {path: timeline_csv(timeline)}
    if timeline is not None and name.endswith("schedule.csv"):
        return {path: to_torch_csv(timeline), beside(path): shift_text(timeline, channels=channels)}
    return {path: plan_text(plan, path)}
