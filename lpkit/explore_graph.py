"""A pipelined backprop graph drawn in a fraction of the time that `lpkit.drawings` takes: one collection a kind.

Nodes stand as there; arrows, discs and letters are a collection each, so that a slider can be moved.
"""

import numpy as np
from matplotlib.collections import EllipseCollection, LineCollection, PathCollection
from matplotlib.path import Path

from lpkit.backprop import operation
from lpkit.drawings import RADIUS, SHADES, backprop_places
from lpkit.explore_letters import write

__all__ = ["DELAYS", "draw_graph"]

STEPS = np.linspace(0, 1, 25)[:, None]  # of a curve
CLOSER = {"delta''": (-0.25, 0), "join": (0.15, 0)}  # so that the parts of neighbouring layers do not touch
MOST_STRETCH = 1.4  # of a graph in a wide axis
ROOM = 0.3  # that a label needs at most, in units of the axis
DELAYS = "#B03A00"  # colour of their numbers
HEAD = 0.13  # length of an arrow's head, in units of the axis


def draw_graph(axis, dfg):
    """Draw a backprop graph of a chain into `axis`: columns are layers, rows F, U, G and delta from below.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from lpkit.backprop import backprop_dfg
    >>> axis = Figure().subplots()
    >>> draw_graph(axis, backprop_dfg(3))
    >>> len(axis.collections)
    6
    """
    places = {name: np.array(place) + CLOSER.get(operation(name)[0], (0, 0))
              for name, place in backprop_places(dfg).items()}  # fmt: skip
    size, reach = _stretched(axis, places)
    edges = [edge for edge in dfg.edges if edge.source != edge.target]
    curves = [_curve(places[edge.source], places[edge.target], reach) for edge in edges]
    own = [(edge, _ring(places[edge.source])) for edge in dfg.edges if edge.source == edge.target]
    axis.add_collection(LineCollection([*curves, *(ring for _, ring in own)], colors="0.45", linewidths=0.8, zorder=1))
    heads = [_head(curve) for curve in curves]
    axis.add_collection(PathCollection(heads, facecolor="0.3", edgecolor="none", zorder=2))
    colors = [SHADES.get(operation(name)[0].rstrip("'"), "white") for name in places]
    sizes = [2 * RADIUS] * len(places)
    axis.add_collection(EllipseCollection(sizes, sizes, 0, units="xy", offsets=list(places.values()), facecolor=colors,
                                          offset_transform=axis.transData, edgecolor="0.2", lw=0.9, zorder=3))
    lines = [*zip(edges, curves), *own]
    delayed = [k for k, (edge, _) in enumerate(lines) if edge.delays]
    spots = _free_spots([line for _, line in lines], delayed, np.array([*places.values()]))
    counts = [lines[k][0].delays for k in delayed]
    numbers = [f"{count}D" if count > 1 else "D" for count in counts]
    write(axis, [*zip(numbers, spots)], 0.94 * size, color=DELAYS, halo=True)
    write(axis, [(name.replace("delta", "δ"), place) for name, place in places.items()], size)


def _stretched(axis, places):
    """Move the columns apart as far as an axis has room, set its limits; size of letters, reach of straight lines."""
    wide, tall = np.array(axis.get_position().bounds[2:]) * axis.figure.get_size_inches()
    xs, ys = np.array([*places.values()]).T
    width, height = np.ptp(xs), np.ptp(ys) + 1.35
    more = np.clip((wide / tall * height - 1.5) / max(width, 1), 1, MOST_STRETCH)
    for place in places.values():
        place *= (more, 1)
    axis.set(xlim=(more * xs.min() - 0.75, more * xs.max() + 0.75), ylim=(ys.min() - 0.75, ys.max() + 0.6),
             aspect="equal")  # fmt: skip
    axis.set_axis_off()
    unit = 72 * min(wide / (more * width + 1.5), tall / height)  # points
    return float(np.clip(8 * unit * RADIUS / 13, 5, 8)), 1.7 * more


def _free_spots(lines, labelled, discs):
    """Where on its line each label is farthest from discs, from other lines and from labels placed before."""
    spots = np.empty((0, 2))
    every = np.concatenate([line[::2] for line in lines])
    owner = np.repeat(range(len(lines)), [len(line[::2]) for line in lines])
    for k in labelled:
        inner = lines[k][1:-1] if len(lines[k]) > 4 else lines[k]
        room = np.minimum(_nearest(inner, discs) - RADIUS, 0.9 * _nearest(inner, spots))
        room = np.minimum(np.minimum(room, ROOM), 0.08 + _nearest(inner, every[owner != k]))
        off = np.abs(np.linspace(-1, 1, len(inner)))
        spots = np.vstack([spots, inner[np.argmax(room - 0.06 * off)]])
    return spots


def _nearest(points, others):
    """Distance of each point to the nearest other one."""
    if not len(others):
        return np.full(len(points), np.inf)
    return np.hypot(*(points[:, None] - others).transpose(2, 0, 1)).min(axis=1)


def _curve(start, end, reach):
    """Points of an arrow from edge to edge of two discs, straight within reach, else bent past the nodes between."""
    across = (end - start)[::-1] * (1, -1)
    dx, dy = np.abs(end - start)
    bend = 0.0 if dx < reach and dy < 1.7 else 0.14 if min(dx, dy) > 0.1 else 0.38
    middle = (start + end) / 2 + bend * across
    points = (1 - STEPS) ** 2 * start + 2 * STEPS * (1 - STEPS) * middle + STEPS**2 * end
    far = (np.hypot(*(points - start).T) > RADIUS) & (np.hypot(*(points - end).T) > RADIUS)
    return points[far]


def _ring(place):
    """A small circle at the lower left of a node, for an edge to itself."""
    turn = 2 * np.pi * STEPS[:, 0] + np.pi / 4
    return place + (-0.3, -0.3) + 0.22 * np.stack([np.cos(turn), np.sin(turn)], 1)


def _head(curve):
    """The triangle at the end of a curve."""
    ahead = curve[-1] - curve[-2]
    ahead = ahead / (np.hypot(*ahead) or 1)
    side = ahead[::-1] * (1, -1)
    foot = curve[-1] - HEAD * ahead
    return Path([curve[-1], foot + 0.4 * HEAD * side, foot - 0.4 * HEAD * side, curve[-1]])
