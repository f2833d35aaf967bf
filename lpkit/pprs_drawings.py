"""Drawings of the PPRS paper's computation graphs and of bubbling: which node works on which sample at which slot.

As in `lpkit.plots`, nothing is computed here but where things stand.
"""

from itertools import pairwise

import numpy as np
from matplotlib.collections import PolyCollection
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Patch, PathPatch
from matplotlib.path import Path
from matplotlib.ticker import MaxNLocator

from lpkit.gantt_places import corners
from lpkit.plots import COLORS, new_figure, styled

__all__ = ["bubbling_figure", "graph_figure", "graph_places", "longest_path", "timetable_figure"]

PASSES = {"forward": COLORS["F"], "backward": COLORS["delta"]}
IDLE = "#ECECEC"
STRONG = "#D55E00"
MOST_NUMBERS = 400  # cells of a timetable that are numbered


def graph_places(parents):
    """Where nodes, inputs and the bends of long edges stand: as far right as their longest path from an input is long.

    Returns
    -------
    dict of str to (x, y)
        An edge that skips levels has a place in each of them, (start, end, level), which no node is put upon.

    Examples
    --------
    >>> graph_places({"a": ["x"], "b": ["x"], "loss": ["a", "b"]})
    {'x': (0, 0.0), 'a': (1, 0.5), 'b': (1, -0.5), 'loss': (2, 0.0)}
    >>> graph_places({"a": ["x"], "loss": ["a", "x"]})[("x", "loss", 1)]
    (1, -0.5)
    """
    levels, before = _levels(parents), {}
    for node, names in parents.items():
        for name in names:
            way = [name, *((name, node, at) for at in range(levels.get(name, 0) + 1, levels[node])), node]
            for a, b in pairwise(way):
                before.setdefault(a, []), before.setdefault(b, []).append(a)
    level = {name: name[2] if isinstance(name, tuple) else levels.get(name, 0) for name in before}
    places = {}
    for at in range(max(level.values()) + 1):
        column = [name for name in before if level[name] == at]
        column.sort(key=lambda name: -np.mean([places[p][1] for p in before[name]]) if before[name] else 0)
        places |= {name: (at, (len(column) - 1) / 2 - i) for i, name in enumerate(column)}
    return places


def _levels(parents):
    """Nodes on the longest path up to each node."""
    levels = {}
    while len(levels) < len(parents):
        for node, names in parents.items():
            if node not in levels and all(p in levels or p not in parents for p in names):
                levels[node] = 1 + max((levels.get(p, 0) for p in names), default=0)
    return levels


def longest_path(parents):
    """Names from an input to the leaf along a longest path, the first of several.

    Examples
    --------
    >>> longest_path({"a": ["x"], "b": ["x"], "c": ["a"], "loss": ["b", "c"]})
    ('x', 'a', 'c', 'loss')
    """
    levels = _levels(parents)
    path = [max(levels, key=levels.get)]
    while path[0] in parents and parents[path[0]]:
        path.insert(0, max(parents[path[0]], key=lambda name: levels.get(name, 0)))
    return tuple(path)


@styled
def graph_figure(graphs, passes, *, title=""):
    """Computation graphs, the longest path strong, and beside each its timetable (PPRS, Figs. 1 and 2).

    Parameters
    ----------
    graphs : mapping of str to mapping
        Title to node -> names it reads.
    passes : pandas.DataFrame
        Columns ``graph``, ``node``, ``sample``, ``pass`` ("forward" or "backward"), ``start``, ``slots``.
    """
    heights = [max(2.0, 0.3 * len(parents) + 0.8) for parents in graphs.values()]
    figure, axes = new_figure(len(graphs), 2, size=(10.4, sum(heights) + 0.6), height_ratios=heights,
                              width_ratios=[5, 7])  # fmt: skip
    for (left, right), (name, parents) in zip(axes, graphs.items()):
        _graph(left, parents)
        left.set_title(name, loc="left")
        timetable(right, passes[passes["graph"] == name], list(parents))
        right.set_xlabel("slot")
    figure.legend(handles=_keys(), ncols=3, loc="outside lower center")
    if title:
        figure.suptitle(title)
    return figure


def _graph(axis, parents):
    places, strong = graph_places(parents), set(pairwise(longest_path(parents)))
    boxes = {name: _box(axis, name, place, name in parents) for name, place in places.items() if isinstance(name, str)}
    for node, names in parents.items():
        for name in names:
            bends = sorted((key for key in places if key[:2] == (name, node)), key=lambda key: key[2])
            way = [places[key] for key in (name, *bends, node)]
            _arrow(axis, way, boxes[name], boxes[node], (name, node) in strong)
    xs, ys = np.array(list(places.values()), dtype=float).T
    axis.set(xlim=(xs.min() - 0.5, xs.max() + 0.5), ylim=(ys.min() - 0.75, ys.max() + 0.75))
    axis.set_axis_off()


def _arrow(axis, points, start, end, strong):
    """An arrow from box to box; where there are points between, a curve that they pull to themselves."""
    look = {"color": STRONG, "lw": 2, "zorder": 2} if strong else {"color": "0.45", "lw": 0.9, "zorder": 1}
    points = np.array(points, dtype=float)
    middles = (points[1:] + points[:-1]) / 2
    if len(points) > 2:
        way = [points[0], middles[0], *(p for pair in zip(points[1:-1], middles[1:]) for p in pair)]
        codes = [Path.MOVETO, Path.LINETO, *[Path.CURVE3] * (len(way) - 2)]
        axis.add_patch(PathPatch(Path(way, codes), fill=False, edgecolor=look["color"], lw=look["lw"], zorder=1))
        points, start = points[[-1, -1]], None
        points[0] = middles[-1]
    axis.add_patch(FancyArrowPatch(*points, patchA=start, patchB=end, arrowstyle="-|>", mutation_scale=9, shrinkA=0,
                                   shrinkB=1, **look))  # fmt: skip


def _box(axis, name, place, node):
    """The name of a node in a box; of an input without a fill."""
    face, edge = ("#F3F3F3", "0.3") if node else ("white", "0.7")
    box = {"boxstyle": "round,pad=0.35", "facecolor": face, "edgecolor": edge}
    text = axis.text(*place, name, ha="center", va="center", fontsize=8, zorder=3, bbox=box)
    return text.get_bbox_patch()


def timetable(axis, passes, nodes):
    """Cells of a node's row: its passes at their slots with the sample's number; grey where the node waits."""
    row = {name: i for i, name in enumerate(nodes)}
    end = (passes["start"] + passes["slots"]).max()
    axis.add_patch(FancyBboxPatch((0, 0), end, len(nodes), boxstyle="square,pad=0", facecolor=IDLE, lw=0, zorder=0))
    tops = passes["node"].map(row).to_numpy(float)
    left = passes["start"].to_numpy(float)
    right = left + passes["slots"].to_numpy(float)
    faces = passes["pass"].map(PASSES).to_numpy()
    edges = np.where((right - left) * 300 > end, "white", faces)  # a white edge would hide what is narrower
    axis.add_collection(PolyCollection(corners(left, right, tops + 0.06, tops + 0.94), lw=0.5, edgecolor=edges.tolist(),
                                       facecolor=faces.tolist(), zorder=2))  # fmt: skip
    if len(passes) <= MOST_NUMBERS:
        for x, y, width, sample in zip(left, tops, right - left, passes["sample"]):
            if width * 40 > end:
                axis.text(x + width / 2, y + 0.52, sample, ha="center", va="center", fontsize=7, zorder=3)
    axis.set(xlim=(0, end), ylim=(len(nodes), 0))
    axis.set_yticks(np.arange(len(nodes)) + 0.5, nodes, fontsize=7.5)
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.tick_params(axis="y", length=0)
    axis.grid(visible=False)
    axis.spines["left"].set_visible(False)


def _keys():
    names = {"forward": "forward pass (number: sample)", "backward": "backward pass"}
    passes = [Patch(color=PASSES[name], label=label) for name, label in names.items()]
    return [*passes, Patch(color=IDLE, label="waits")]


@styled
def timetable_figure(tables, nodes, *, unit="slot", title=""):
    """Timetables of one graph below each other, each on its own axis of time.

    Parameters
    ----------
    tables : mapping of str to pandas.DataFrame
        Title to passes, as in `graph_figure`.
    nodes : sequence of str
        Rows, from the top.
    """
    figure, axes = new_figure(len(tables), 1, size=(9.6, (0.2 * len(nodes) + 0.8) * len(tables) + 0.4))
    for axis, (name, table) in zip(axes[:, 0], tables.items()):
        timetable(axis, table, nodes)
        axis.set_title(name, loc="left")
    axes[-1, 0].set_xlabel(unit)
    figure.legend(handles=_keys(), ncols=3, loc="outside lower center")
    if title:
        figure.suptitle(title)
    return figure


@styled
def bubbling_figure(passes, curves, *, title=""):
    """The cells (i, k) of one step of PPRS, and utilisation and time against K (PPRS, Fig. 2).

    Parameters
    ----------
    passes : pandas.DataFrame
        As in `graph_figure`, without ``graph``.
    curves : pandas.DataFrame
        Columns ``K``, ``Delta``, ``slots``, ``utilisation``, ``simulated`` (whether slots were made pass by pass).
    """
    tall = 0.34 * passes["node"].nunique() + 0.4
    figure, (top, bottom) = new_figure(2, 2, size=(9.6, tall + 3.8), height_ratios=[tall, 2.6])
    for axis in top:
        axis.remove()
    wide = figure.add_subplot(top[0].get_gridspec()[0, :])
    timetable(wide, passes, sorted(passes["node"].unique()))
    wide.set(xlabel="slot", ylabel="node i", title=title)
    for axis, column in zip(bottom, ("utilisation", "slots")):
        _against_samples(axis, curves, column)
    bottom[0].set(ylabel="utilisation", ylim=(0, 1.03))
    bottom[1].set(ylabel="slots of one step", yscale="log")
    bottom[1].legend(title="line: formula, dot: simulated", title_fontsize=8, fontsize=8)
    figure.legend(handles=_keys(), ncols=3, loc="outside lower center")
    return figure


def _against_samples(axis, curves, column):
    depths = sorted(curves["Delta"].unique())
    for depth, color in zip(depths, shades(len(depths))):
        own = curves[curves["Delta"] == depth]
        line, dots = own[~own["simulated"]], own[own["simulated"]]
        axis.plot(line["K"], line[column], color=color, label=f"Δ = {depth}")
        axis.plot(dots["K"], dots[column], "o", color=color, ms=4)
    axis.set(xlabel="samples K", xscale="log")
    axis.xaxis.set_major_formatter("{x:g}")


def shades(count):
    """So many colours from light to dark blue, told apart in grey too."""
    at = np.linspace(0, 1, max(count, 2))[:count, None]
    return (np.array([0.47, 0.77, 0.93]) * (1 - at) + np.array([0.02, 0.10, 0.30]) * at).tolist()
