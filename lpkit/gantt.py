"""Timelines drawn as Gantt charts: a lane a processor, true durations, the bubbles grey, the critical path outlined.

Where links take time, thin lanes below a processor show what it sends up and down. As in `lpkit.plots`, nothing is
computed here but where things stand, and every operation is an item of a collection, so that 20,000 are drawn in about
a second.
"""

import math
import numbers
from collections.abc import Mapping
from itertools import pairwise

import numpy as np
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from lpkit.checks import plain, short, shown
from lpkit.gantt_places import PARTS, at_processors, boxes_of, corners, lanes_of, runs_of
from lpkit.plots import COLORS, new_figure, styled
from lpkit.timeline import KINDS, Timeline
from lpkit.timeline_paths import critical_path

__all__ = ["gantt", "gantts"]

WIDTH = 9.6  # inches
MARGIN = 0.8  # inches left of the lanes
DIGIT = 4.6  # points a digit of a number in a box takes
LONG = 1e6  # of the prefixed unit: times beyond are drawn as powers of ten
TITLE = 100  # characters of a title that have room
LATEST = 1e300  # near the largest float, axes cannot be laid out
VECTORS = 4000  # operations of a panel; more become pixels in an SVG
PREFIXES = {-4: "p", -3: "n", -2: "µ", -1: "m", 0: "", 1: "k", 2: "M", 3: "G", 4: "T"}
BUBBLE, OUTLINE = "#E4E4E4", "black"
# Face, edge and hatch of each kind of box: what of a delta stays and what moves are each other's negative.
LOOKS = {
    "F": (COLORS["F"], "white", None),
    "delta": (COLORS["delta"], "white", None),
    "delta'": (COLORS["delta"], "white", "\\\\\\"),
    "delta''": ("white", COLORS["delta"], "//////"),
    "G": (COLORS["G"], "white", None),
    "send a": (COLORS["F"], "white", None),
    "send delta": (COLORS["delta"], "white", None),
    "send delta''": ("white", COLORS["delta"], "//////"),
    "send W": (COLORS["weights"], "white", None),
}
LABELS = {"delta'": "delta' (stays)", "delta''": "delta'' (of the stage before)"}


def gantt(timeline, *, first=None, last=None, critical=True, title=""):
    """A timeline as a Gantt chart.

    Parameters
    ----------
    timeline : Timeline
    first, last : number, optional
        What to show, in the unit of the costs; by default all. Operations are cut at these times.
    critical : bool
        Outline the critical path, the chain of operations that leaves no time between them.
    title : str

    Returns
    -------
    matplotlib Figure
        A number in a box is the micro-batch, counted from 0.

    Raises
    ------
    ValueError
        If this is no timeline, takes no time, or is over before `first`, or `first` is not before `last`; or if it has
        no critical path, as a timeline with gaps that was not made by a schedule, and `critical` is true.

    Examples
    --------
    >>> import lpkit as lp
    >>> from lpkit.schedule import layerpipe
    >>> costs = lp.Costs.from_times([2000, 2000], 2000, [0, 4000], unit="cycles")
    >>> gantt(layerpipe(lp.plan(costs, 2), 6)).axes[0].get_xlabel()
    'time [kcycles]'
    """
    return gantts({title: timeline}, first=first, last=last, critical=critical)


@styled
def gantts(timelines, *, first=None, last=None, critical=True, title=""):
    """Several timelines below each other, on the same axis of time.

    Parameters
    ----------
    timelines : mapping of str to Timeline
        Title of a panel to what it shows.
    first, last, critical
        As for `gantt`.
    title : str
        Of the figure.

    Returns
    -------
    matplotlib Figure

    Raises
    ------
    ValueError
        If there is none, their units differ, or as `gantt` does.

    Examples
    --------
    >>> import lpkit as lp
    >>> from lpkit.schedule import SCHEDULES
    >>> plan = lp.plan(lp.Costs.from_times([2, 2], 2, [0, 4], unit="cycles"), 2)
    >>> figure = gantts({name: make(plan) for name, make in SCHEDULES.items()})
    >>> [axis.get_title("left") for axis in figure.axes][:3]
    ['sequential', 'gpipe', 'one_f_one_b']
    """
    unit = _checked(timelines)
    window = _window(list(timelines.values()), first, last)
    size, unit = _prefixed(window[1], unit)
    places = [lanes_of(line) for line in timelines.values()]
    inches = [max(bottom for _, bottom in lanes.values()) for lanes in places]
    figure, axes = new_figure(len(places), 1, size=(WIDTH, sum(inches) + 0.42 * len(places) + 0.9), sharex=True,
                              height_ratios=inches)  # fmt: skip
    parts = set()
    for axis, (name, line), lanes in zip(axes[:, 0], timelines.items(), places):
        axis.set_title(short(name, TITLE), loc="left")
        parts |= _panel(axis, line, lanes, window, size, critical)
    axes[-1, 0].set_xlabel(f"time [{short(unit)}]")
    figure.legend(handles=_legend(parts, critical), ncols=6, loc="outside lower center", handlelength=1.6)
    if title:
        figure.suptitle(short(title, TITLE))
    return figure


# Checks


def _checked(timelines):
    """The unit of time of all."""
    if not isinstance(timelines, Mapping) or not timelines:
        raise ValueError(f"timelines is {shown(timelines)}; give a mapping of titles to timelines, with at least one")
    for line in timelines.values():
        if not isinstance(line, Timeline):
            raise ValueError(f"the timeline is {shown(line)}; give a Timeline, as a schedule returns it")
    units = sorted({line.plan.costs.unit for line in timelines.values()})
    if len(units) > 1:
        raise ValueError(f"the timelines are in {' and '.join(units)}; draw those of one unit together")
    return units[0]


def _window(lines, first, last):
    """First and last time that are shown, as floats."""
    end = max(line.makespan for line in lines)
    if not end:
        raise ValueError("no operation of the timeline takes time, so there is nothing to draw; give costs above 0")
    first, last = (plain(given) if given is not None else default for given, default in ((first, 0), (last, end)))
    for name, value in (("first", first), ("last", last)):
        if not isinstance(value, numbers.Real) or isinstance(value, bool) or not 0 <= value <= LATEST:
            raise ValueError(f"{name} is {shown(value)}; it must be a time of at least 0, and at most {LATEST:g}")
    if not first < min(last, end):
        raise ValueError(f"nothing happens from {shown(first)} to {shown(last)}; the timeline runs from 0 to "
                         f"{shown(end)}, and first must be before last")  # fmt: skip
    return float(first), float(last)


def _prefixed(most, unit):
    """How many of the unit one of the axis is, and its name: 4e7 cycles are drawn in Mcycles."""
    power = min(max(math.floor(math.log10(most) / 3 + 1e-9), min(PREFIXES)), max(PREFIXES))
    return 1000.0**power, PREFIXES[power] + unit


# Drawing


def _panel(axis, line, lanes, window, size, critical):
    """Draw one timeline; the names of the parts that are seen."""
    window = (window[0] / size, window[1] / size)
    boxes = boxes_of(line, lanes, window, size)
    points = (WIDTH - MARGIN) * 72 / (window[1] - window[0])
    _bubbles(axis, lanes, window, line.makespan / size)
    seen = _operations(axis, boxes, points, rasterized=len(line) > VECTORS)
    updates = _updates(axis, line, lanes, window, size)
    _numbers(axis, line, boxes, points)
    if critical:
        _outline(axis, boxes, np.asarray(critical_path(line)))
    _frame(axis, lanes, window)
    return seen | ({"U"} if updates else set())


def _bubbles(axis, lanes, window, end):
    """Grey behind the operations of each processor, as far as the timeline goes: what is still seen of it is idle."""
    tops, bottoms = np.array([edges for (_, target), edges in lanes.items() if not target]).T
    left, right = np.full_like(tops, window[0]), np.full_like(tops, np.clip(float(end), *window))
    axis.add_collection(PolyCollection(corners(left, right, tops, bottoms), facecolor=BUBBLE, lw=0, label="bubble",
                                       zorder=1))  # fmt: skip


def _operations(axis, boxes, points, *, rasterized):
    """A collection for each kind of operation; their names."""
    seen = set()
    for place, name in enumerate(PARTS):
        face, edge, hatch = LOOKS[name]
        own = {key: column[boxes["part"] == place] for key, column in boxes.items()}
        if not len(own["row"]):
            continue
        wide = (own["right"] - own["left"]) * points > 3  # white edges would hide what is narrower
        axis.add_collection(PolyCollection(
            corners(own["left"], own["right"], own["top"], own["bottom"]), facecolor=face, hatch=hatch, label=name,
            edgecolor=np.where(wide, edge, edge if face == "white" else face), zorder=2,
            linewidth=np.where(wide, 0.6, 0.2), rasterized=rasterized))  # fmt: skip
        seen.add(name)
    return seen


def _updates(axis, line, lanes, window, size):
    """A tick at the foot of its lane for each moment of updates of a processor; how many there are."""
    at = line.kind == KINDS.index("U")
    moments = np.unique(np.stack([at_processors(line)[0][at], line.end[at] / (line.scale * size)], 1), axis=0)
    moments = moments[(moments[:, 1] >= window[0]) & (moments[:, 1] <= window[1])]
    feet = [lanes[int(processor), 0][1] for processor in moments[:, 0]]
    ticks = [[(time, foot - 0.07), (time, foot + 0.03)] for foot, time in zip(feet, moments[:, 1])]
    axis.add_collection(LineCollection(ticks, colors=OUTLINE, linewidths=1.3, label="U", zorder=4))
    return len(ticks)


def _numbers(axis, line, boxes, points):
    """The micro-batch in the middle of each run of boxes that is wide enough for it."""
    micro = line.micro[boxes["row"]]
    runs = runs_of(boxes, boxes["part"], micro)
    texts = line.micro[runs["row"]].astype(str)
    room = (runs["right"] - runs["left"]) * points
    fits = (room > DIGIT * np.char.str_len(texts) + 4) & (line.target[runs["row"]] == 0)
    pill = {"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none"}  # a hatch would hide a number
    for i in np.flatnonzero(fits).tolist():
        axis.text((runs["left"][i] + runs["right"][i]) / 2, (runs["top"][i] + runs["bottom"][i]) / 2 + 0.005, texts[i],
                  ha="center", va="center", fontsize=7.5, zorder=5,
                  bbox=pill if LOOKS[PARTS[runs["part"][i]]][2] else None)  # fmt: skip


def _outline(axis, boxes, path):
    """A line around the operations of the critical path, and from one to the next."""
    own = np.isin(boxes["row"], path)
    runs = runs_of({name: column[own] for name, column in boxes.items()})
    axis.add_collection(PolyCollection(corners(*(runs[name] for name in ("left", "right", "top", "bottom"))),
                                       facecolor="none", edgecolor=OUTLINE, lw=1.4, label="critical path", zorder=4))
    order = np.argsort(runs["left"], kind="stable")
    middle = (runs["top"] + runs["bottom"]) / 2
    steps = [[(runs["right"][a], middle[a]), (runs["left"][b], middle[b])] for a, b in pairwise(order)]
    axis.add_collection(LineCollection(steps, colors=OUTLINE, linewidths=1.4, label="critical steps", zorder=3))


def _frame(axis, lanes, window):
    names = [f"to P{target}" if target else f"P{processor}" for processor, target in lanes]
    axis.set_yticks([sum(edges) / 2 for edges in lanes.values()], names)
    for label, (_, target) in zip(axis.get_yticklabels(), lanes):
        label.set_fontsize(7 if target else 9)
    axis.tick_params(axis="y", length=0)
    axis.spines["left"].set_visible(False)
    axis.grid(axis="y", visible=False)
    # Beyond what prefixes reach, all digits would leave no room for the lanes.
    axis.ticklabel_format(axis="x", useOffset=False, style="plain" if window[1] < LONG else "sci")
    axis.set(xlim=window, ylim=(max(bottom for _, bottom in lanes.values()) + 0.05, 0))


def _legend(parts, critical):
    handles = [_key(name) for name in PARTS if name in parts]
    handles += [Line2D([], [], color=OUTLINE, marker="|", ms=7, mew=1.3, lw=0, label="update")] if "U" in parts else []
    handles.append(Patch(facecolor=BUBBLE, label="bubble (waits)"))
    return handles + [Patch(facecolor="none", edgecolor=OUTLINE, lw=1.4, label="critical path")] * bool(critical)


def _key(name):
    """Entry of the legend: a box for an operation, a line for what is sent in the thin lanes."""
    face, edge, hatch = LOOKS[name]
    if not name.startswith("send"):
        return Patch(facecolor=face, edgecolor=edge, hatch=hatch, label=LABELS.get(name, name))
    return Line2D([], [], color=edge if hatch else face, lw=3, ls=(0, (1, 0.6)) if hatch else "-", label=name)
