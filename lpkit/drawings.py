"""Data-flow graphs drawn as the papers draw them: nodes by layer, delays as numbers with D, one loop in colour.

As in `lpkit.plots`, nothing is computed here but where things stand.
"""

from collections.abc import Mapping

import numpy as np
from matplotlib.patches import Circle, FancyArrowPatch
from matplotlib.ticker import MaxNLocator

from lpkit.dfg import DFG, operation  # noqa: F401 - examples make a DFG
from lpkit.plots import COLORS, new_figure, styled

__all__ = ["backprop_places", "circle_places", "delay_curves", "draw_graph", "graph_panels", "loss_curves"]

ROWS = {"F": 0.0, "U": 1.0, "G": 2.0, "delta": 3.0}
SHADES = {"F": COLORS["F"], "G": COLORS["G"], "delta": COLORS["delta"], "U": "#CCCCCC", "E": "#F0E442"}
RADIUS = 0.27
WIDE = 1.6  # between the columns of two layers; rows are 1 apart


def backprop_places(dfg):
    """Where each node of a backprop graph stands: columns are layers, rows F, U, G and delta from below.

    Returns
    -------
    dict of str to (x, y)

    Examples
    --------
    >>> from lpkit.dfg import backprop_dfg
    >>> backprop_places(backprop_dfg(2))["G2"]
    (3.2, 2.0)
    """
    kinds = {node: operation(node) for node in dfg.nodes}
    last = WIDE * max((layer for kind, layer in kinds.values() if kind in ROWS), default=1)
    places = {}
    for node, (kind, layer) in kinds.items():
        shift = {"delta'": (0.05, 0.0), "delta''": (0.7, 0.85), "join": (-0.6, 0.75)}.get(kind, (0.0, 0.0))
        row = ROWS.get(kind, 3.0)
        places[node] = {"X": (0.0, 0.0), "T": (last + WIDE, 0.6), "E": (last + WIDE, 1.7)}.get(
            kind, (WIDE * (layer or 0) + shift[0], row + shift[1]))
    return places


def circle_places(dfg):
    """The nodes of any graph evenly on a circle, the first at the top, clockwise.

    Examples
    --------
    >>> circle_places(DFG({"a": 1, "b": 1}, [("a", "b", 0), ("b", "a", 1)]))["a"]
    (0.0, 2.0)
    """
    n = len(dfg.nodes)
    size = max(2.0, 0.28 * n)
    angles = np.pi / 2 - 2 * np.pi * np.arange(n) / n
    return {v: (round(float(size * np.cos(a)), 9), round(float(size * np.sin(a)), 9))
            for v, a in zip(dfg.nodes, angles)}  # fmt: skip


def draw_graph(axis, dfg, places, *, loop=(), changed=(), inside=(), inward=False, show_times=False):
    """Draw a graph into `axis`: circles, arrows, delays.

    Parameters
    ----------
    axis : matplotlib Axes
    dfg : DFG
    places : mapping of str to (x, y)
    loop : sequence of str
        Nodes of a loop, in order; its edges are drawn strong.
    changed : sequence of (source, target)
        Edges whose delays are emphasised, such as those a retiming step changed.
    inside : sequence of str
        Nodes inside a cutset, with a strong dashed ring.
    inward : bool
        Bend arrows towards the middle, as suits nodes on a circle.
    show_times : bool
        Write the time of each node under its name.
    """
    middle = np.mean(list(places.values()), axis=0) if inward else None
    strong = set(zip(loop, [*loop[1:], *loop[:1]]))
    texts = {node: f"{node}\n{time}" if show_times else node for node, time in dfg.times.items()}
    circles = {node: _draw_node(axis, node, places[node], texts[node]) for node in dfg.nodes}
    for node in inside:
        axis.add_patch(Circle(places[node], 1.35 * RADIUS, fill=False, edgecolor="#B03A00", lw=1.4, ls=(0, (3, 1.5)),
                              zorder=4))  # fmt: skip
    for edge in dfg.edges:
        ends = (edge.source, edge.target)
        _draw_edge(axis, edge, [places[e] for e in ends], [circles[e] for e in ends], ends in strong, ends in changed,
                   middle)  # fmt: skip
    xs, ys = zip(*(places[node] for node in dfg.nodes))
    axis.set(xlim=(min(xs) - 0.7, max(xs) + 0.7), ylim=(min(ys) - 0.7, max(ys) + 0.7), aspect="equal")
    axis.set_axis_off()


def _draw_node(axis, node, place, name):
    kind = _kind(node)
    circle = Circle(place, RADIUS, facecolor=SHADES.get(kind, "white"), edgecolor="0.2", lw=0.9, zorder=3)
    axis.add_patch(circle)
    axis.text(*place, name.replace("delta", "δ"), ha="center", va="center", fontsize=6.5, zorder=4)
    return circle


def _kind(node):
    """Kind of operation of a backprop graph's node; empty for the nodes of other graphs."""
    try:
        return operation(node)[0].rstrip("'")
    except ValueError:
        return ""


def _draw_edge(axis, edge, ends, circles, strong, changed, middle):
    start, end = map(np.array, ends)
    color = "#D55E00" if strong else "0.4"
    if edge.source == edge.target:
        return _draw_loop(axis, start, edge.delays, color, changed)
    bend = _bend(start, end) if middle is None else _inward(start, end, middle)
    axis.add_patch(FancyArrowPatch(start, end, connectionstyle=f"arc3,rad={bend}", arrowstyle="-|>", mutation_scale=8,
                                   patchA=circles[0], patchB=circles[1], shrinkA=0, shrinkB=0.5, color=color,
                                   lw=2 if strong else 0.8, zorder=2 if strong else 1))
    if edge.delays:
        half, across = (start + end) / 2, (end - start)[::-1] * (1, -1)
        _label(axis, half + 0.5 * bend * across, edge.delays, changed)


def _bend(start, end):
    """Curvature of an arrow: straight to a neighbour, bent past the nodes between."""
    dx, dy = np.abs(end - start)
    return 0.0 if max(dx, dy) < 1.7 else 0.14 if min(dx, dy) > 0.1 else 0.38


def _inward(start, end, middle):
    """Curvature of an arrow that bends slightly towards `middle`."""
    across = (end - start)[::-1] * (1, -1)
    return 0.18 if across @ (middle - (start + end) / 2) >= 0 else -0.18


def _draw_loop(axis, place, delays, color, changed):
    ring = Circle(place + (-0.3, -0.3), 0.22, fill=False, edgecolor=color, lw=0.8, zorder=1)
    axis.add_patch(ring)
    _label(axis, place + (-0.48, -0.48), delays, changed)


def _label(axis, place, delays, changed):
    box = {"boxstyle": "round,pad=0.12", "facecolor": "#FBE3D6" if changed else "white", "edgecolor": "none"}
    axis.text(*place, f"{delays}D" if delays > 1 else "D", fontsize=6, ha="center", va="center", zorder=5, bbox=box,
              color="#B03A00" if changed else "0.1")


@styled
def graph_panels(panels, places, *, columns=3, loops: Mapping = {}, changed: Mapping = {}, cutsets: Mapping = {},
                 title="", **options):
    """Several graphs side by side, such as the steps of a derivation (LayerPipe, Figs. 1, 2 and 5).

    Parameters
    ----------
    panels : mapping of str to DFG
    places : mapping of str to (x, y), or one such mapping a label
        Where the nodes stand.
    columns : int
        Panels in a row.
    loops, changed, cutsets : mapping of str to what `draw_graph` takes as loop, changed, inside
        By the label of the panel.
    **options
        As `draw_graph` takes them.
    """
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    place_of = {label: places.get(label, places) for label in panels}
    wide = max(max(x for x, _ in p.values()) - min(x for x, _ in p.values()) for p in place_of.values()) + 1.4
    tall = max(max(y for _, y in p.values()) - min(y for _, y in p.values()) for p in place_of.values()) + 1.9
    figure, axes = new_figure(rows, columns, size=(0.66 * wide * columns, 0.66 * tall * rows))
    for axis in axes.flat[len(panels):]:
        axis.set_axis_off()
    for axis, (label, dfg) in zip(axes.flat, panels.items()):
        draw_graph(axis, dfg, place_of[label], loop=loops.get(label, ()), changed=changed.get(label, ()),
                   inside=cutsets.get(label, ()), **options)
        axis.set_title(label)
    if title:
        figure.suptitle(title)
    return figure


@styled
def delay_curves(curves, bounds, block, *, title=""):
    """The graph of a delayed update, learning curves for each delay, and the largest step size against the delay.

    The first panel is LayerPipe's Fig. 3.

    Parameters
    ----------
    curves : mapping of int to ndarray, shape (samples, seeds)
        Squared errors, from `lpkit.dlms.learning_curves`.
    bounds : pandas.DataFrame
        Columns ``M``, ``largest step (theory)``, ``largest step (measured)``.
    block : DFG
        A backprop graph of one layer.
    """
    figure, ((first, left, right),) = new_figure(1, 3, size=(10.6, 3.3))
    right.xaxis.set_major_locator(MaxNLocator(integer=True))
    draw_graph(first, block, backprop_places(block))
    first.set_title("W(n+1) = W(n) - η G(n-M)")
    shades = np.linspace(0.15, 0.9, len(curves))
    for (M, curve), shade in zip(curves.items(), shades):
        mean, width = curve.mean(axis=1), max(1, len(curve) // 60)
        smooth = np.convolve(mean, np.ones(width) / width, mode="valid")
        left.plot(np.arange(len(smooth)) + width // 2, smooth, color=_shade(shade), lw=1.2, label=f"M = {M}")
    left.set(xlabel="iteration", ylabel="mean squared error", yscale="log")
    left.legend(ncols=2, fontsize=7.5)
    right.plot(bounds["M"], bounds["largest step (theory)"], color="0.3", label="theory")
    right.plot(bounds["M"], bounds["largest step (measured)"], "o", color=COLORS["algorithm1"], label="measured")
    right.set(xlabel="delay M [iterations]", ylabel="largest step size", yscale="log")
    right.legend()
    if title:
        figure.suptitle(title)
    return figure


def _shade(at):
    """A colour between light blue and black."""
    return tuple(np.array([0.34, 0.71, 0.91]) * (1 - at) + np.array([0.05, 0.05, 0.15]) * at)


METHOD_COLORS = {"none": "0.3", "stash": COLORS["algorithm1"], "average": COLORS["delta"], "naive": COLORS["pipedream"]}


@styled
def loss_curves(rows, *, title=""):
    """Training loss by epoch of each method, one panel a step size (and activation); bands span the seeds.

    Parameters
    ----------
    rows : pandas.DataFrame
        From `lpkit.stale.compare_methods`, with a column ``activation`` where there are several. A run that diverged
        (infinite loss) ends its curve.
    """
    keys = [name for name in ("activation", "step_size") if name in rows]
    groups = list(rows.groupby(keys, sort=False))
    figure, axes = new_figure(1, len(groups), size=(2.4 * len(groups) + 0.4, 3.2), sharey=True)
    for axis, (values, group) in zip(axes[0], groups):
        for method, part in group.groupby("method", sort=False):
            loss = part.groupby("epoch")["loss"].agg(["mean", "min", "max"]).replace(np.inf, np.nan)
            axis.plot(loss.index, loss["mean"], color=METHOD_COLORS[method], marker="o", ms=3, label=method)
            axis.fill_between(loss.index, loss["min"], loss["max"], where=loss["mean"].notna(),
                              color=METHOD_COLORS[method], alpha=0.15, lw=0)
        axis.set(xlabel="epoch", title=", step size ".join(map(str, values)), yscale="log")
    axes[0][0].set_ylabel("training loss (cross-entropy)")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, ncols=len(labels), loc="outside lower center")
    if title:
        figure.suptitle(title)
    return figure
