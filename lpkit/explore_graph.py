"""A pipelined backprop graph drawn in a fraction of the time that `lpkit.drawings` takes: one collection a kind.

Nodes stand as there; arrows, discs and letters are a collection each, so that a slider can be moved.
"""

import numpy as np
from matplotlib.collections import EllipseCollection, LineCollection, PathCollection
from matplotlib.path import Path

from lpkit.backprop import operation
from lpkit.drawings import RADIUS, SHADES, backprop_places
from lpkit.explore_letters import write

__all__ = ["draw_graph"]

STEPS = np.linspace(0, 1, 25)[:, None]  # of a curve
CLOSER = {"delta''": (-0.25, 0), "join": (0.15, 0)}  # so that the parts of neighbouring layers do not touch
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
    edges = [edge for edge in dfg.edges if edge.source != edge.target]
    curves = [_curve(places[edge.source], places[edge.target]) for edge in edges]
    own = [(edge, _ring(places[edge.source])) for edge in dfg.edges if edge.source == edge.target]
    axis.add_collection(LineCollection([*curves, *(ring for _, ring in own)], colors="0.45", linewidths=0.8, zorder=1))
    heads = [_head(curve) for curve in curves]
    axis.add_collection(PathCollection(heads, facecolor="0.3", edgecolor="none", zorder=2))
    colors = [SHADES.get(operation(name)[0].rstrip("'"), "white") for name in places]
    sizes = [2 * RADIUS] * len(places)
    axis.add_collection(EllipseCollection(sizes, sizes, 0, units="xy", offsets=list(places.values()), facecolor=colors,
                                          offset_transform=axis.transData, edgecolor="0.2", lw=0.9, zorder=3))
    delayed = [(edge.delays, curve[len(curve) // 2]) for edge, curve in zip(edges, curves) if edge.delays]
    delayed += [(edge.delays, ring[12]) for edge, ring in own if edge.delays]
    delays = [(f"{count}D" if count > 1 else "D", place) for count, place in delayed]
    write(axis, delays, 7.5, color="#B03A00", halo=True)
    write(axis, [(name.replace("delta", "δ"), place) for name, place in places.items()], 8)
    xs, ys = zip(*places.values())
    axis.set(xlim=(min(xs) - 0.75, max(xs) + 0.75), ylim=(min(ys) - 0.75, max(ys) + 0.6), aspect="equal")
    axis.set_axis_off()


def _curve(start, end):
    """Points of an arrow from edge to edge of two discs, straight to a neighbour, bent past the nodes between."""
    across = (end - start)[::-1] * (1, -1)
    dx, dy = np.abs(end - start)
    bend = 0.0 if max(dx, dy) < 1.7 else 0.14 if min(dx, dy) > 0.1 else 0.38
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
