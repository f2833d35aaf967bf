"""One drawing function a figure: tidy data in, a matplotlib Figure out.

Nothing is computed or saved here and pyplot's global state is never touched, so a figure can be drawn anywhere:
notebook, batch, widget or server.
"""

from collections.abc import Mapping
from functools import wraps

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from lpkit.display import engineering

__all__ = ["STYLE", "COLORS", "PLANNER_NAMES", "layer_bars", "communication_bars", "stage_loads", "speedup_curves",
           "sweep_panels", "gain_table", "choice_strips", "verdict_counts"]

STYLE = {
    "font.family": "DejaVu Sans", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False,
    "axes.grid": True, "grid.alpha": 0.25, "axes.axisbelow": True, "legend.frameon": False, "figure.dpi": 100,
    "savefig.dpi": 100, "hatch.linewidth": 0.6, "axes.titlesize": 9.5, "axes.titleweight": "bold",
}
# Okabe and Ito's palette, told apart by readers with colour-blindness and in grey.
COLORS = {
    "F": "#56B4E9", "G": "#E69F00", "delta": "#009E73", "equal_layers": "#999999", "pipedream": "#D55E00",
    "algorithm1": "#0072B2", "optimal": "#009E73", "weights": "#CC79A7", "activation": "#56B4E9", "ideal": "#BBBBBB",
    "allreduce": "#CC79A7",
}
PLANNER_NAMES = {
    "equal_layers": "equal layers", "pipedream": "PipeDream", "algorithm1": "LayerPipe (Algorithm 1)",
    "optimal": "LayerPipe (optimal)",
}
MARKERS = {"equal_layers": "v", "pipedream": "s", "algorithm1": "o", "optimal": "^"}


def styled(draw):
    """Run a drawing function under `STYLE` without leaving a trace in matplotlib's global settings."""
    @wraps(draw)
    def styled(*args, **kwargs):
        with rc_context(STYLE):
            return draw(*args, **kwargs)
    return styled


def new_figure(rows=1, columns=1, size=(6.4, 3.4), **options):
    figure = Figure(figsize=size, layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


@styled
def layer_bars(frame, *, columns=("F", "G", "delta"), unit="cycles", title=""):
    """Stacked bars, one a layer: the work of F, G and delta.

    Parameters
    ----------
    frame : pandas.DataFrame
        Columns ``layer`` and those of `columns` (see `Costs.to_frame`).

    Examples
    --------
    >>> import lpkit as lp
    >>> figure = layer_bars(lp.costs(lp.network("sample4")).to_frame())
    >>> figure.axes[0].get_ylabel()
    'cycles'
    """
    figure, ((axis,),) = new_figure(size=(max(4.8, 0.34 * len(frame) + 2), 3.2))
    bottom = np.zeros(len(frame))
    for column in columns:
        axis.bar(frame["layer"], frame[column], bottom=bottom, color=COLORS[column], label=column, width=0.7)
        bottom += frame[column].to_numpy(float)
    axis.set(ylabel=unit, title=title)
    axis.tick_params(axis="x", rotation=60 if len(frame) > 6 else 0)
    axis.grid(axis="x", visible=False)
    axis.legend(ncols=len(columns))
    return figure


@styled
def communication_bars(frame, *, title=""):
    """Bytes of each variable of each layer on a logarithmic axis (LayerPipe, Fig. 4).

    Parameters
    ----------
    frame : pandas.DataFrame
        Columns ``layer``, ``activation``, ``delta``, ``weights``: bytes for one mini-batch.
    """
    figure, ((axis,),) = new_figure(size=(max(5.6, 0.5 * len(frame) + 1), 3.4))
    place = np.arange(len(frame))
    for shift, column in zip((-0.27, 0, 0.27), ("activation", "delta", "weights")):
        axis.bar(place + shift, frame[column], width=0.25, color=COLORS[column], label=column)
    axis.set_yscale("log")
    for level, name in ((1e3, "1 kB"), (1e6, "1 MB"), (1e9, "1 GB")):
        axis.axhline(level, color="0.4", lw=0.7, ls=":")
        axis.annotate(name, (1.005, level), xycoords=("axes fraction", "data"), fontsize=7, va="center")
    axis.set_xticks(place, frame["layer"], rotation=60 if len(frame) > 6 else 0)
    axis.set(ylabel="bytes per mini-batch", title=title)
    axis.grid(axis="x", visible=False)
    axis.legend(ncols=3, loc="upper center", bbox_to_anchor=(0.5, 1.0))
    axis.set_ylim(top=axis.get_ylim()[1] * 8)
    return figure


@styled
def stage_loads(plans, *, title=""):
    """Load of every stage under several plans, the delta taken over from the stage before hatched (Table III).

    Where processors differ the bars are the times that the loads take, with the all-reduce of replicas on top.

    Parameters
    ----------
    plans : mapping of str to Plan
        Label to plan; drawn side by side.
    """
    figure, axes = new_figure(1, len(plans), size=(3.1 * len(plans) + 0.8, 3.3), sharey=True)
    for axis, (label, plan) in zip(axes[0], plans.items()):
        _stage_bars(axis, plan)
        axis.set_title(f"{label}\nperiod {engineering(plan.period)} {plan.costs.unit}")
    axes[0][0].set_ylabel(f"{_ordinate(plans.values())} per mini-batch [{plan.costs.unit}]")
    parts = [Patch(color=COLORS[op], label=op) for op in ("F", "G", "delta")]
    if any(map(_reduces, plans.values())):
        parts.append(Patch(color=COLORS["allreduce"], label="all-reduce"))
    taken = Patch(facecolor="white", edgecolor=COLORS["delta"], hatch="////", label="delta'' of the stage before")
    figure.legend(handles=[*parts, taken], ncols=4, loc="outside lower center")
    if title:
        figure.suptitle(title)
    return figure


def _ordinate(plans):
    return "time" if any(plan.speeds or plan.replicas for plan in plans) else "load"


def _reduces(plan):
    return any(plan.allreduce)


def _stage_bars(axis, plan):
    work, speeds = plan.costs, [float(speed) for speed in plan.speeds or plan.replicas or [1] * len(plan.stages)]
    given, top = np.zeros(len(plan.stages) + 1), [_own(plan, k) for k in range(1, len(plan.stages) + 1)]
    for _, source, target, amount in plan.moved:
        given[source - 1] += float(amount)
        speed = speeds[target - 1]
        axis.bar(target, float(amount) / speed, bottom=top[target - 1] / speed, color="white",
                 edgecolor=COLORS["delta"], hatch="////", width=0.65)
        top[target - 1] += float(amount)
    for stage, (layers, speed) in enumerate(zip(plan.stages, speeds), 1):
        rows = np.array(layers, dtype=int) - 1
        bottom = 0.0
        for op in ("F", "G", "delta"):
            height = float(getattr(work, op)[rows].sum()) - (given[stage - 1] if op == "delta" else 0)
            axis.bar(stage, height / speed, bottom=bottom / speed, color=COLORS[op], width=0.65)
            bottom += height
    for stage, reduce in enumerate(plan.allreduce if _reduces(plan) else (), 1):
        own = float(reduce) / speeds[stage - 1]
        axis.bar(stage, own, bottom=float(plan.stage_times[stage - 1]) - own, color=COLORS["allreduce"], width=0.65)
    axis.axhline(float(plan.period), color="0.3", lw=0.8, ls="--")
    axis.set_xticks(range(1, len(plan.stages) + 1), [f"P{s}" for s in range(1, len(plan.stages) + 1)])
    axis.grid(axis="x", visible=False)


def _own(plan, stage):
    """Work of `stage` on its own layers after what it gave away."""
    taken = sum(float(amount) for _, _, target, amount in plan.moved if target == stage)
    return float(plan.loads[stage - 1]) - taken


@styled
def speedup_curves(panels, *, saturation=None, title=""):
    """Speedup over one processor against processors, one panel a table (LayerPipe, Fig. 7).

    Parameters
    ----------
    panels : mapping of str to pandas.DataFrame
        Label to a table indexed by processors with one column a planner.
    saturation : mapping of str to int, optional
        Processor count beyond which nothing helps, marked in the panel of that label.
    """
    figure, axes = new_figure(1, len(panels), size=(3.6 * len(panels) + 0.4, 3.3), sharey=True)
    for axis, (label, table) in zip(axes[0], panels.items()):
        _curves(axis, table, "processors")
        axis.plot(table.index, table.index, color=COLORS["ideal"], lw=1, ls="--", zorder=0)
        mark = (saturation or {}).get(label)
        if mark is not None:
            axis.axvline(mark, color="0.4", lw=0.8, ls=":")
            axis.annotate(f"saturates at {mark}", (mark, 0.02), xycoords=("data", "axes fraction"), fontsize=7.5,
                          rotation=90, ha="right", va="bottom")
        axis.set_ylim(0.8, max(float(t.max().max()) for t in panels.values()) * 1.08)
        axis.set_title(label)
    axes[0][0].set_ylabel("speedup over one processor")
    _planner_legend(figure, axes[0][0])
    if title:
        figure.suptitle(title)
    return figure


def _curves(axis, table, xlabel):
    for planner in table.columns:
        axis.plot(table.index, table[planner], color=COLORS[planner], marker=MARKERS[planner], ms=4,
                  label=PLANNER_NAMES[planner])
    axis.set_xlabel(xlabel)
    if xlabel == "processors":
        axis.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=4))


def _planner_legend(figure, axis):
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles, labels, ncols=len(labels), loc="outside lower center")


@styled
def sweep_panels(panels, *, ylabel="speedup over one processor", title=""):
    """A grid of small curves: rows of panels, each a table of one column a planner (LayerPipe, Fig. 8).

    Parameters
    ----------
    panels : sequence of mapping of str to pandas.DataFrame
        One mapping a row of the figure; each table's index name labels its axis. Indices that are not processor
        counts are drawn on evenly spaced ticks.
    """
    columns, letters = max(len(row) for row in panels), iter("abcdefghijklmnopqrstuvwxyz")
    figure, axes = new_figure(len(panels), columns, size=(2.75 * columns + 0.4, 2.5 * len(panels) + 0.5))
    for row, line in zip(axes, panels):
        for axis in row[len(line):]:
            axis.set_axis_off()
        for axis, (label, table) in zip(row, line.items()):
            if table.index.name != "processors":
                ticks = [str(v) for v in table.index]
                table = table.set_axis(range(len(table)), axis=0).rename_axis(table.index.name)
                axis.set_xticks(range(len(table)), ticks, fontsize=7.5)
            _curves(axis, table, table.index.name)
            axis.set_title(f"({next(letters)}) {label}")
            axis.set_ylim(0, float(table.max().max()) * 1.15)
        row[0].set_ylabel(ylabel)
    _planner_legend(figure, axes[0][0])
    if title:
        figure.suptitle(title)
    return figure


@styled
def gain_table(panels, *, title=""):
    """Throughput gain over PipeDream in percent as shaded cells, one panel a reading (LayerPipe, Table IV).

    Parameters
    ----------
    panels : mapping of str to pandas.DataFrame
        Label to a table of fractions; rows are networks, columns processor counts.
    """
    figure, axes = new_figure(len(panels), 1, size=(8.2, 1.25 * len(panels) + 0.5))
    top = max(float(table.to_numpy().max()) for table in panels.values())
    for axis, (label, table) in zip(axes[:, 0], panels.items()):
        axis.imshow(table, cmap="YlGnBu", vmin=0, vmax=top, aspect="auto")
        for (i, j), value in np.ndenumerate(table.to_numpy()):
            axis.text(j, i, f"{100 * value:.0f}", ha="center", va="center", fontsize=8,
                      color="white" if value > 0.6 * top else "black")
        axis.set_xticks(range(table.shape[1]), table.columns)
        axis.set_yticks(range(table.shape[0]), table.index)
        axis.set_title(label)
        axis.grid(False)
    axes[-1, 0].set_xlabel("processors")
    if title:
        figure.suptitle(title)
    return figure


@styled
def choice_strips(frame, value, choices, *, marks: Mapping = {}, xlabel="", title=""):
    """Distribution of a number over all readings, split by each option of each choice in turn.

    Parameters
    ----------
    frame : pandas.DataFrame
        One row a reading: a column for each of `choices` and the column `value` (a fraction, shown in percent).
    marks : mapping of str to float
        Vertical lines, such as the paper's number.
    """
    lines = [(choice, option) for choice in choices for option in frame[choice].drop_duplicates()]
    figure, ((axis,),) = new_figure(size=(7.4, 0.235 * len(lines) + 1.1))
    for y, (choice, option) in enumerate(lines):
        values = np.sort(100 * frame.loc[frame[choice] == option, value].to_numpy(float))
        spread = (np.arange(len(values)) % 7 - 3) * 0.08  # a fixed stagger, so that the picture never changes
        shade = COLORS["algorithm1"] if list(choices).index(choice) % 2 else COLORS["pipedream"]
        axis.scatter(values, y + spread, s=4, color=shade, alpha=0.35, lw=0, rasterized=True)
        axis.plot([np.median(values)] * 2, [y - 0.38, y + 0.38], color="black", lw=1.4)
    for label, at in marks.items():
        axis.axvline(100 * at, color="0.35", lw=0.9, ls="--")
        axis.annotate(label, (100 * at, 1.003), xycoords=("data", "axes fraction"), fontsize=7.5, ha="center")
    axis.set_yticks(range(len(lines)), [f"{choice}: {option}" for choice, option in lines], fontsize=8)
    axis.set_ylim(len(lines) - 0.4, -0.6)
    axis.set(xlabel=xlabel)
    if title:
        figure.suptitle(title)
    return figure


@styled
def verdict_counts(frame, *, title=""):
    """How many claims hold under each reading: one stacked bar a reading.

    Parameters
    ----------
    frame : pandas.DataFrame
        Rows are readings, columns verdicts, values counts.
    """
    shades = {"reproduced": "#009E73", "reproduced (fitted)": "#8FD3BD", "direction only": "#F0E442",
              "not reproduced": "#D55E00", "cannot be checked": "#BBBBBB"}
    figure, ((axis,),) = new_figure(size=(7.2, 0.55 * len(frame) + 1.1))
    left = np.zeros(len(frame))
    for verdict in frame.columns:
        counts = frame[verdict].to_numpy()
        axis.barh(frame.index, counts, left=left, color=shades[verdict], label=verdict, height=0.6)
        for y, (count, start) in enumerate(zip(counts, left)):
            if count:
                axis.text(start + count / 2, y, str(count), ha="center", va="center", fontsize=8)
        left += counts
    axis.set(xlabel="claims", title=title)
    axis.invert_yaxis()
    axis.grid(axis="y", visible=False)
    figure.legend(ncols=5, loc="outside lower center", fontsize=8)
    return figure
