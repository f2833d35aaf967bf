"""Timelines in the explorer: some periods around the moment when the pipeline is full, and the way of one mini-batch.

The whole of a timeline is drawn by `lpkit.gantt`; here operations that follow each other are one box, so that it can be
drawn while a slider is moved.
"""

import numpy as np
from matplotlib.collections import PolyCollection
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from lpkit.display import engineering
from lpkit.explore_axes import boxes, legend, say
from lpkit.explore_spare import set_out
from lpkit.explore_letters import tick_names
from lpkit.explore_state import timeline_of
from lpkit.gantt import BUBBLE, LABELS, LOOKS
from lpkit.gantt_places import PARTS, boxes_of, corners, lanes_of, runs_of

__all__ = ["draw_timelines"]

PERIODS = 14  # of a timeline that are seen


def draw_timelines(figure, cases):
    """The timelines of the cases below each other in `figure`, on the same axis of time."""
    lines = {label: timeline_of(state) for label, state in cases.items()}
    axes = set_out(figure, len(lines), 1, share="x", left=0.055, right=0.985, top=0.93, bottom=0.215, hspace=0.26)
    window = _window(list(lines.values()))
    size = 1000.0 ** (np.log10(max(window[1], 1)) // 3)
    window, seen = (window[0] / size, window[1] / size), set()
    prefix = {1.0: "", 1e3: "k", 1e6: "M", 1e9: "G", 1e12: "T"}.get(size, f"{size:.0e} ")
    for axis, (label, line) in zip(axes, lines.items()):
        seen |= _lanes(axis, line, window, size)
        unit = line.plan.costs.unit
        say(
            axis,
            f"{label}: period {engineering(line.plan.period)} {unit}",
            f"time [{prefix}{unit}]" if axis is axes[-1] else "",
        )
    places = [place for place in MaxNLocator(8).tick_values(*window) if window[0] <= place <= window[1]]
    tick_names(axes[-1], places, [f"{place:g}" for place in places])  # for both: ticks would take longer than all else
    for axis in axes:
        axis.vlines(places, 0, 1, color="0.9", lw=0.7, zorder=0, transform=axis.get_xaxis_transform())
    handles = [Patch(facecolor=LOOKS[n][0], edgecolor=LOOKS[n][1] if LOOKS[n][2] else LOOKS[n][0], hatch=LOOKS[n][2],
                     label=LABELS.get(n, n)) for n in PARTS if n in seen]  # fmt: skip
    outline = Patch(facecolor="none", edgecolor="black", lw=1.3, label="one mini-batch")
    handles += [Patch(facecolor=BUBBLE, label="waits"), outline]
    legend(figure, handles, columns=len(handles) if len(handles) <= 7 else 6)


def _window(lines):
    """Some periods, from where the first mini-batch is nearly through: the pipeline fills, and is full."""
    full, end = (max(float(getattr(line, name)) for line in lines) for name in ("fill", "makespan"))
    period = (
        max(*(float(line.plan.period) for line in lines), *(float(line.period or 0) for line in lines), 1e-9 * end)
        or 1.0
    )
    first = max(0.0, min(full - 0.6 * PERIODS * period, end - PERIODS * period))
    return first, min(first + PERIODS * period, end)


def _lanes(axis, line, window, size):
    """The operations of a timeline in its lanes, those that follow each other joined; names of the parts seen."""
    lanes = lanes_of(line)
    found = boxes_of(line, lanes, window, size)
    micro = line.micro[found["row"]]
    runs = runs_of(found, found["part"], micro)
    part = _parts_by_row(line, found)[runs["row"]]
    tops, bottoms = np.array([edges for (_, target), edges in lanes.items() if not target]).T
    ends = np.full_like(tops, min(window[1], float(line.makespan) / size))
    axis.add_collection(PolyCollection(corners(np.full_like(tops, window[0]), ends, tops, bottoms), facecolor=BUBBLE))
    for place, name in enumerate(PARTS):
        own = part == place
        if own.any():
            boxes(axis, *(runs[side][own] for side in ("left", "right", "top", "bottom")), name)
    whole = runs_of(found, micro)
    _outline(axis, whole, line.micro[whole["row"]], window)
    named = list(lanes) if len(lanes) <= 12 else [lane for lane in lanes if not lane[1]]
    named = named[:: -(-len(named) // 12)]
    names = [f"to P{target}" if target else f"P{k}" for k, target in named]
    tick_names(axis, [sum(lanes[lane]) / 2 for lane in named], names, side="y", size=8.5 if len(lanes) <= 6 else 7.5)
    axis.set(xlim=window, ylim=(max(edges[1] for edges in lanes.values()) + 0.03, 0))
    return {PARTS[place] for place in np.unique(part)}


def _parts_by_row(line, found):
    """The part of each row of the timeline that has a box."""
    part = np.zeros(len(line), dtype=int)
    part[found["row"]] = found["part"]
    return part


def _outline(axis, runs, micro, window):
    """A frame around the boxes of one mini-batch, the last that ends well inside the window."""
    ends = {n: runs["right"][micro == n].max() for n in np.unique(micro)}
    inside = [n for n, end in ends.items() if end < window[0] + 0.9 * (window[1] - window[0])]
    if inside:
        own = micro == max(inside)
        sides = (runs[side][own] for side in ("left", "right", "top", "bottom"))
        axis.add_collection(PolyCollection(corners(*sides), facecolor="none", edgecolor="black", lw=1.3))
