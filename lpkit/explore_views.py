"""The pictures of the explorer: a fixed size, drawn once and fast, from the cases of a view and their table.

As in `lpkit.plots`, nothing is computed here and pyplot's global state is not touched. Margins are fixed where other
figures have a layout engine, which takes several times as long as the drawing itself; and what there are many of is one
collection.
"""

import io

import numpy as np
from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator, NullLocator

from lpkit.display import engineering, kilobytes
from lpkit.explore_graph import draw_graph
from lpkit.explore_letters import tick_names
from lpkit.explore_state import plan_of, timeline_of
from lpkit.explore_tables import graph_of, processor_counts
from lpkit.gantt import BUBBLE, LABELS, LOOKS
from lpkit.gantt_places import PARTS, boxes_of, corners, lanes_of, runs_of
from lpkit.plots import COLORS, MARKERS, styled

__all__ = ["DPI", "SIZE", "draw", "empty_png", "png", "svg"]

SIZE, DPI = (9.6, 4.5), 100  # inches, dots an inch: 960 x 450 pixels
MOST_HATCHED = 200  # boxes of a part
PERIODS = 14  # of a timeline that are seen
CASES = (COLORS["pipedream"], COLORS["algorithm1"])  # colours where cases are told apart by them
OPS = ("F", "G", "delta")


@styled
def draw(cases, table):
    """The picture of the view of the cases.

    Parameters
    ----------
    cases : mapping of str to State
        One or two, from `lpkit.explore_tables.cases_of`.
    table : pandas.DataFrame
        From `lpkit.explore_tables.table_of`.

    Returns
    -------
    matplotlib Figure, of `SIZE`

    Examples
    --------
    >>> from lpkit.explore_state import State
    >>> from lpkit.explore_tables import cases_of, table_of
    >>> cases = cases_of(State("sample4", processors=3))
    >>> len(draw(cases, table_of(cases)).axes)
    2
    """
    drawn = {"loads": _loads, "speedup": _speedup, "timeline": _timeline, "communication": _communication,
             "utilisation": _utilisation, "graph": _graph}  # fmt: skip
    figure = Figure(figsize=SIZE, dpi=DPI)
    parts = {label: table[table["case"] == label] for label in cases}
    drawn[next(iter(cases.values())).view](figure, cases, parts)
    return figure


def png(figure):
    """The figure as PNG bytes, the same for the same picture.

    Examples
    --------
    >>> png(Figure(figsize=(1, 1), dpi=10))[:4]
    b'\\x89PNG'
    """
    stream = io.BytesIO()
    canvas = FigureCanvasAgg(figure)
    canvas.print_png(stream, metadata={"Software": None}, pil_kwargs={"compress_level": 1})
    return stream.getvalue()


def svg(figure):
    """The figure as an SVG document, the same for the same picture.

    Examples
    --------
    >>> svg(Figure(figsize=(1, 1))).lstrip()[:5]
    '<?xml'
    """
    stream = io.StringIO()
    with rc_context({"svg.hashsalt": "lpkit"}):
        figure.savefig(stream, format="svg", metadata={"Date": None})
    return stream.getvalue()


@styled
def empty_png():
    """The grey picture that stands where none can be drawn.

    Examples
    --------
    >>> empty_png() == empty_png()
    True
    """
    figure = Figure(figsize=SIZE, dpi=DPI, facecolor="0.88")
    figure.text(0.5, 0.5, "no picture: see the line above", ha="center", va="center", color="0.45", fontsize=13)
    return png(figure)


# Axes


def _beside(figure, count, *, bottom=0.2):
    """Axes side by side with room for a line of title above and a legend below; the first is labelled on the left."""
    axes = figure.subplots(1, count, sharey=True, squeeze=False)[0]
    axes[0].yaxis.set_major_locator(MaxNLocator(6))
    figure.subplots_adjust(left=0.085, right=0.985, top=0.85, bottom=bottom, wspace=0.06)
    return axes


def _say(axis, title="", x="", y=""):
    """Title and labels at fixed places: matplotlib measures every tick to find free ones."""
    axis.set_title(title, y=1.0, pad=5)
    left, low, wide, tall = axis.get_position().bounds
    inches = np.array(axis.figure.get_size_inches())
    if x:
        axis.set_xlabel(x)
        axis.xaxis.set_label_coords(0.5, -0.36 / (tall * inches[1]))
    if y:
        axis.set_ylabel(y)
        axis.yaxis.set_label_coords(-0.58 / (wide * inches[0]), 0.5)


def _legend(figure, handles, columns=None):
    figure.legend(handles=handles, ncols=columns or len(handles), loc="lower center", fontsize=8.5)


def _boxes(axis, left, right, top, bottom, name):
    """Boxes of a part of the work; so many that nobody could tell their hatch or edges have none."""
    face, edge, hatch = LOOKS[name]
    many = len(left) > MOST_HATCHED
    look = dict(facecolor="#8FD3BD" if hatch else face, lw=0) if many else dict(facecolor=face, edgecolor=edge, lw=0.5,
                                                                               hatch=hatch)  # fmt: skip
    axis.add_collection(PolyCollection(corners(*map(np.asarray, (left, right, top, bottom))), **look))


def _stage_ticks(axis, count, most, prefix="P", extra=()):
    """At most about `most` names for 1..count."""
    places = range(1, count + 1, max(-(-count // most), 1))
    tick_names(axis, places, [f"{prefix}{k}{extra[k - 1] if extra else ''}" for k in places])


# Views


def _loads(figure, cases, parts):
    axes = _beside(figure, len(cases), bottom=0.21)
    highest = max(float(part["load"].max()) for part in parts.values()) or 1.0
    for axis, (label, state), part in zip(axes, cases.items(), parts.values()):
        plan, stages = plan_of(state), part["stage"].to_numpy(float)
        below = np.zeros(len(stages))
        for column, name in (*((op, op) for op in OPS), ("delta_taken", "delta''")):
            above = below + part[column].to_numpy(float)
            _boxes(axis, stages - 0.36, stages + 0.36, above, below, name)
            below = above
        axis.axhline(float(plan.period), color="0.25", lw=1, ls="--")
        axis.set(xlim=(0.4, len(stages) + 0.6), ylim=(0, 1.08 * highest))
        _say(axis, f"{label}\nperiod {engineering(plan.period)} {plan.costs.unit}")
        runs = [_run(stage) for stage in plan.stages]
        _stage_ticks(axis, len(stages), 32 // len(cases), extra=[f"\n{run}" for run in runs] if len(stages) <= 10 else ())
    _say(axes[0], axes[0].get_title(), y=f"load per mini-batch [{plan.costs.unit}]")
    _legend(figure, [*(Patch(color=COLORS[op], label=op) for op in OPS), _moved_patch()])


def _run(stage):
    """Layers of a stage for a tick."""
    return "-" if not len(stage) else str(stage[0]) if len(stage) == 1 else f"{stage[0]}-{stage[-1]}"


def _moved_patch():
    face, edge, hatch = LOOKS["delta''"]
    return Patch(facecolor=face, edgecolor=edge, hatch=hatch, label=LABELS["delta''"])


def _speedup(figure, cases, parts):
    axis = figure.subplots()
    figure.subplots_adjust(left=0.085, right=0.985, top=0.93, bottom=0.21)
    ends, top = 1, 1.0
    for color, marker, (label, state), part in zip(CASES, "so", cases.items(), parts.values()):
        counts, speedup = part["processors"].to_numpy(), part["speedup"].to_numpy()
        axis.plot(counts, speedup, color=color, marker=marker, ms=4, label=label)
        now = counts == state.processors
        axis.plot(counts[now], speedup[now], marker=marker, ms=10, mfc="none", mec="black", mew=1.4, lw=0)
        ends, top = max(ends, int(counts[-1])), max(top, float(speedup.max()))
        _saturation(axis, state, color, float(speedup[-1]))
    axis.plot([1, ends], [1, ends], color=COLORS["ideal"], ls="--", label="ideal", zorder=0)
    _stage_ticks(axis, ends, 32, "")
    axis.set(xlim=(0.5, ends + 0.5), ylim=(0, 1.12 * top))
    _say(axis, "ringed: the processors chosen", "processors", "speedup over one processor")
    _legend(figure, axis.get_legend_handles_labels()[0])


def _saturation(axis, state, color, last):
    """The line above which nothing helps, where the curve gets there."""
    sure = plan_of(state).certificate
    if sure is None or sure.saturates_at > processor_counts(state)[-1]:
        return
    axis.axvline(sure.saturates_at, color=color, lw=0.9, ls=":")
    axis.annotate(f"saturates at {sure.saturates_at}", (sure.saturates_at, 0.03), xycoords=("data", "axes fraction"),
                  rotation=90, ha="right", va="bottom", fontsize=8, color=color)  # fmt: skip


def _timeline(figure, cases, parts):
    lines = {label: timeline_of(state) for label, state in cases.items()}
    axes = figure.subplots(len(lines), 1, squeeze=False, sharex=True)[:, 0]
    figure.subplots_adjust(left=0.055, right=0.985, top=0.93, bottom=0.205, hspace=0.26)
    window = _window(list(lines.values()))
    size = 1000.0 ** (np.log10(max(window[1], 1)) // 3)
    window, seen = (window[0] / size, window[1] / size), set()
    axes[0].xaxis.set_major_locator(MaxNLocator(8))
    for axis, (label, line) in zip(axes, lines.items()):
        seen |= _lanes(axis, line, window, size)
        _say(axis, f"{label}: period {engineering(line.plan.period)} {line.plan.costs.unit}")
    prefix = {1.0: "", 1e3: "k", 1e6: "M", 1e9: "G", 1e12: "T"}.get(size, f"{size:.0e} ")
    _say(axes[-1], axes[-1].get_title(), f"time [{prefix}{line.plan.costs.unit}]")
    handles = [Patch(facecolor=LOOKS[n][0], edgecolor=LOOKS[n][1] if LOOKS[n][2] else LOOKS[n][0], hatch=LOOKS[n][2],
                     label=LABELS.get(n, n)) for n in PARTS if n in seen]  # fmt: skip
    outline = Patch(facecolor="none", edgecolor="black", lw=1.3, label="one mini-batch")
    _legend(figure, [*handles, Patch(facecolor=BUBBLE, label="waits"), outline])


def _window(lines):
    """Some periods, from where the first mini-batch is nearly through: the pipeline fills, and is full."""
    period = max(float(line.plan.period) for line in lines) or 1.0
    full, end = (max(float(getattr(line, name)) for line in lines) for name in ("fill", "makespan"))
    first = max(0.0, min(full - 0.6 * PERIODS * period, end - PERIODS * period))
    return first, min(first + PERIODS * period, end)


def _lanes(axis, line, window, size):
    """The operations of a timeline in its lanes, those that follow each other joined; names of the parts seen."""
    lanes = lanes_of(line)
    boxes = boxes_of(line, lanes, window, size)
    keys = (boxes["part"], line.micro[boxes["row"]])
    runs = runs_of(boxes, *keys)
    part, micro = (key_of[runs["row"]] for key_of in (_parts_by_row(line, boxes), line.micro))
    tops, bottoms = np.array([edges for (_, target), edges in lanes.items() if not target]).T
    ends = np.full_like(tops, min(window[1], float(line.makespan) / size))
    axis.add_collection(PolyCollection(corners(np.full_like(tops, window[0]), ends, tops, bottoms), facecolor=BUBBLE))
    for place, name in enumerate(PARTS):
        own = part == place
        if own.any():
            _boxes(axis, *(runs[side][own] for side in ("left", "right", "top", "bottom")), name)
    _outline(axis, runs, micro, window)
    step = -(-len(lanes) // 12)
    names = [f"to P{target}" if target else f"P{k}" for k, target in lanes]
    tick_names(axis, [sum(edges) / 2 for edges in lanes.values()][::step], names[::step], side="y")
    axis.set(xlim=window, ylim=(max(edges[1] for edges in lanes.values()) + 0.03, 0))
    return {PARTS[place] for place in np.unique(part)}


def _parts_by_row(line, boxes):
    """The part of each row of the timeline that has a box."""
    part = np.zeros(len(line), dtype=int)
    part[boxes["row"]] = boxes["part"]
    return part


def _outline(axis, runs, micro, window):
    """A frame around the boxes of one mini-batch, the last that ends well inside the window."""
    ends = {n: runs["right"][micro == n].max() for n in np.unique(micro)}
    inside = [n for n, end in ends.items() if end < window[0] + 0.9 * (window[1] - window[0])]
    if inside:
        own = micro == max(inside)
        sides = (runs[side][own] for side in ("left", "right", "top", "bottom"))
        axis.add_collection(PolyCollection(corners(*sides), facecolor="none", edgecolor="black", lw=1.3))


def _communication(figure, cases, parts):
    axes = _beside(figure, len(cases))
    kinds = (("mandatory", COLORS["F"], "activations and errors (mandatory)"),
             ("weights", COLORS["weights"], "weights that go with delta''"),
             ("results", COLORS["delta"], "results of delta'' that come back"))  # fmt: skip
    values = np.concatenate([part[kind].to_numpy(float) for part in parts.values() for kind, _, _ in kinds])
    low, high = _decades(values[values > 0])
    for axis, (label, state), part in zip(axes, cases.items(), parts.values()):
        place = part["boundary"].to_numpy(float)
        for shift, (kind, color, _) in zip((-0.27, 0, 0.27), kinds):
            height = np.log10(np.maximum(part[kind].to_numpy(float), 10.0**low))
            sides = (place + shift - 0.125, place + shift + 0.125, height, np.full_like(height, low))
            axis.add_collection(PolyCollection(corners(*sides), facecolor=color))
        axis.hlines(range(low + 1, high), 0, len(part) + 1, color="0.85", lw=0.7, zorder=0)
        axis.set(ylim=(low, high), xlim=(0.4, max(len(part), 1) + 0.6))
        onward = [f" to P{k + 1}" for k in range(1, len(part) + 1)] if len(part) < 6 else ()
        _stage_ticks(axis, len(part), 32 // len(cases), extra=onward)
        axis.yaxis.set_major_locator(NullLocator())
        _say(axis, label, "boundary after processor")
        if not len(part):
            axis.text(0.5, 0.5, "one stage: nothing is sent", transform=axis.transAxes, ha="center")
    tick_names(axes[0], range(low, high + 1), [kilobytes(10**k) for k in range(low, high + 1)], side="y")
    _say(axes[0], axes[0].get_title(), axes[0].get_xlabel(), "bytes per mini-batch")
    _legend(figure, [Patch(color=color, label=label) for _, color, label in kinds])


def _decades(values):
    """Powers of ten around positive values."""
    low, high = np.log10((values.min(), values.max())) if len(values) else (0, 3)
    return max(int(np.floor(low - 0.1)), 0), max(int(np.ceil(high + 0.1)), 1)


def _utilisation(figure, cases, parts):
    axes = _beside(figure, len(cases), bottom=0.3)
    for axis, (label, state), part in zip(axes, cases.items(), parts.values()):
        place = np.arange(1, len(part) + 1)
        for op, marker in zip(OPS, "osD"):
            axis.plot(place, part[op], color=COLORS[op], marker=marker, ms=4 if len(part) <= 60 else 2, lw=1, label=op)
        step = -(-len(part) // (56 // len(cases)))
        tick_names(axis, place[::step], [_short(name) for name in part["layer"][::step]], size=7.5, turn=55)
        axis.set(ylim=(0, 100), xlim=(0.3, len(part) + 0.7))
        _say(axis, f"{state.network}: {state.rows}x{state.columns} {state.dataflow}" if len(cases) == 1 else label)
    _say(axes[0], axes[0].get_title(), y="useful multiplications [% of cells x cycles]")
    _legend(figure, axes[0].get_legend_handles_labels()[0])


def _short(name):
    """The end of a layer's name that tells it from its neighbours."""
    return name if len(name) <= 14 else f"...{name[-12:]}"


def _graph(figure, cases, parts):
    axes = figure.subplots(1, len(cases), squeeze=False)[0]
    figure.subplots_adjust(left=0.005, right=0.995, top=0.9, bottom=0.01, wspace=0.01)
    for axis, (label, state) in zip(axes, cases.items()):
        graph, first, last = graph_of(state)
        draw_graph(axis, graph)
        homes = dict.fromkeys(f"P{plan_of(state).stage_of(layer)}" for layer in range(first, last + 1))
        _say(axis, f"{label}: layers {first}-{last} of {len(plan_of(state).costs)}, on {', '.join(homes)}")
