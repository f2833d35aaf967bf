"""The pictures of the explorer: a fixed size, drawn once and fast, from the cases of a view.

As in `lpkit.plots`, nothing is computed here and pyplot's global state is not touched. Margins are fixed where other
figures have a layout engine, which takes several times as long as the drawing itself; and what there are many of is one
collection.
"""

import numpy as np
from matplotlib.collections import PolyCollection
from matplotlib.patches import Patch
from matplotlib.ticker import NullLocator

from lpkit.display import engineering, kilobytes
from lpkit.explore_axes import beside, boxes, legend, numbered, say, stage_ticks
from lpkit.explore_graph import draw_graph
from lpkit.explore_letters import tick_names
from lpkit.explore_spare import figure_for, set_out
from lpkit.explore_state import plan_of
from lpkit.explore_tables import graph_of, processor_counts, table_of
from lpkit.explore_timeline import draw_timelines
from lpkit.gantt import LABELS, LOOKS
from lpkit.gantt_places import corners
from lpkit.plots import COLORS, styled

__all__ = ["draw"]

CASES = (COLORS["pipedream"], COLORS["algorithm1"])  # colours where cases are told apart by them
OPS = ("F", "G", "delta")


@styled
def draw(cases):
    """The picture of the view of the cases.

    Parameters
    ----------
    cases : mapping of str to State
        One or two, from `lpkit.explore_tables.cases_of`.

    Returns
    -------
    matplotlib Figure

    Examples
    --------
    >>> from lpkit.explore_state import State
    >>> from lpkit.explore_tables import cases_of
    >>> len(draw(cases_of(State("sample4", processors=3))).axes)
    2
    """
    view = next(iter(cases.values())).view
    figure = figure_for(view, len(cases))
    if view in WHOLE:
        WHOLE[view](figure, cases)
    else:
        table = table_of(cases)
        FROM_TABLES[view](figure, cases, {label: table[table["case"] == label] for label in cases})
    return figure


def _loads(figure, cases, parts):
    axes = beside(figure, len(cases), bottom=0.21)
    highest = max(float(part["load"].max()) for part in parts.values()) or 1.0
    for axis, (label, state), part in zip(axes, cases.items(), parts.values()):
        plan, stages = plan_of(state), part["stage"].to_numpy(float)
        below = np.zeros(len(stages))
        for column, name in (*((op, op) for op in OPS), ("delta_taken", "delta''")):
            above = below + part[column].to_numpy(float)
            boxes(axis, stages - 0.36, stages + 0.36, above, below, name)
            below = above
        axis.axhline(float(plan.period), color="0.25", lw=1, ls="--")
        axis.set_xlim(0.4, len(stages) + 0.6)
        say(axis, f"{label}\nperiod {engineering(plan.period)} {plan.costs.unit}",
            y=f"load per mini-batch [{plan.costs.unit}]" if axis is axes[0] else "")  # fmt: skip
        runs = [_run(stage) for stage in plan.stages]
        few = len(stages) <= 10
        stage_ticks(axis, len(stages), 32 // len(cases), extra=[f"\n{run}" for run in runs] if few else ())
    numbered(axes, 1.08 * highest)
    legend(figure, [*(Patch(color=COLORS[op], label=op) for op in OPS), _moved_patch()])


def _run(stage):
    """Layers of a stage for a tick."""
    return "-" if not len(stage) else str(stage[0]) if len(stage) == 1 else f"{stage[0]}-{stage[-1]}"


def _moved_patch():
    face, edge, hatch = LOOKS["delta''"]
    return Patch(facecolor=face, edgecolor=edge, hatch=hatch, label=LABELS["delta''"])


def _speedup(figure, cases, parts):
    (axis,) = set_out(figure, 1, 1, left=0.085, right=0.985, top=0.93, bottom=0.21)
    ends, top = 1, 1.0
    for color, marker, (label, state), part in zip(CASES, "so", cases.items(), parts.values()):
        counts, speedup = part["processors"].to_numpy(), part["speedup"].to_numpy()
        axis.plot(counts, speedup, color=color, marker=marker, ms=4, label=label)
        now = counts == state.processors
        axis.plot(counts[now], speedup[now], marker=marker, ms=10, mfc="none", mec="black", mew=1.4, lw=0)
        ends, top = max(ends, int(counts[-1])), max(top, float(speedup.max()))
        _saturation(axis, state, color, float(speedup[-1]))
    axis.plot([1, ends], [1, ends], color=COLORS["ideal"], ls="--", label="ideal", zorder=0)
    stage_ticks(axis, ends, 32, "")
    axis.set_xlim(0.5, ends + 0.5)
    numbered([axis], 1.12 * top)
    say(axis, "ringed: the processors chosen", "processors", "speedup over one processor")
    legend(figure, axis.get_legend_handles_labels()[0])


def _saturation(axis, state, color, last):
    """The line above which nothing helps, where the curve gets there."""
    sure = plan_of(state).certificate
    if sure is None or sure.saturates_at > processor_counts(state)[-1]:
        return
    axis.axvline(sure.saturates_at, color=color, lw=0.9, ls=":")
    axis.annotate(f"saturates at {sure.saturates_at}", (sure.saturates_at, 0.03), xycoords=("data", "axes fraction"),
                  rotation=90, ha="right", va="bottom", fontsize=8, color=color)  # fmt: skip


def _communication(figure, cases, parts):
    axes = beside(figure, len(cases))
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
        stage_ticks(axis, len(part), 32 // len(cases), extra=onward)
        axis.yaxis.set_major_locator(NullLocator())
        say(axis, label, "boundary after processor", "bytes per mini-batch" if axis is axes[0] else "")
        if not len(part):
            axis.text(0.5, 0.5, "one stage: nothing is sent", transform=axis.transAxes, ha="center")
    tick_names(axes[0], range(low, high + 1), [kilobytes(10**k) for k in range(low, high + 1)], side="y")
    legend(figure, [Patch(color=color, label=label) for _, color, label in kinds])


def _decades(values):
    """Powers of ten around positive values."""
    low, high = np.log10((values.min(), values.max())) if len(values) else (0, 3)
    return max(int(np.floor(low - 0.1)), 0), max(int(np.ceil(high + 0.1)), 1)


def _utilisation(figure, cases, parts):
    axes = beside(figure, len(cases), bottom=0.3)
    for axis, (label, state), part in zip(axes, cases.items(), parts.values()):
        place = np.arange(1, len(part) + 1)
        small = 1 if len(part) <= 60 else 0.5
        for op, marker, size in zip(OPS, "osD", (7, 4, 3.5)):  # F is often under delta: a ring around it
            axis.plot(place, part[op], color=COLORS[op], marker=marker, ms=size * small, lw=1, label=op, clip_on=False,
                      mfc="none" if op == "F" else COLORS[op], mew=1.2 * small)  # fmt: skip
        step = -(-len(part) // (56 // len(cases)))
        tick_names(axis, place[::step], [_short(name) for name in part["layer"][::step]], size=7.5, turn=55)
        axis.set_xlim(0.3, len(part) + 0.7)
        say(axis, f"{state.network}: {state.rows}x{state.columns} {state.dataflow}" if len(cases) == 1 else label,
            y="useful multiplications [% of cells x cycles]" if axis is axes[0] else "")  # fmt: skip
    numbered(axes, 100)
    legend(figure, axes[0].get_legend_handles_labels()[0])


def _short(name):
    """The end of a layer's name that tells it from its neighbours."""
    return name if len(name) <= 14 else f"...{name[-12:]}"


def _graph(figure, cases):
    axes = set_out(figure, 1, len(cases), left=0.005, right=0.995, top=0.87, bottom=0.01, wspace=0.01)
    for axis, (label, state) in zip(axes, cases.items()):
        graph, first, last = graph_of(state)
        draw_graph(axis, graph)
        homes = dict.fromkeys(f"P{plan_of(state).stage_of(layer)}" for layer in range(first, last + 1))
        say(axis, f"{label}: layers {first}-{last} of {len(plan_of(state).costs)}, on {', '.join(homes)}")


WHOLE = {"timeline": draw_timelines, "graph": _graph}  # their tables are measures, which take longer than the picture
FROM_TABLES = {"loads": _loads, "speedup": _speedup, "communication": _communication, "utilisation": _utilisation}
