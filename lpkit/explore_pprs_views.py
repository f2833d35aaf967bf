"""The pictures of the explorer of PPRS: drawn fast at a fixed size from the cases of a view and their table.

As in `lpkit.plots`, nothing is computed here.
"""

import numpy as np
from matplotlib.collections import PolyCollection
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator, NullLocator

from lpkit.explore_axes import beside, legend, numbered, say
from lpkit.explore_letters import tick_names, write
from lpkit.explore_pprs_runs import budget, pays_from, runs_of, slots, start_error
from lpkit.explore_pprs_state import FROG, PROBLEMS
from lpkit.explore_spare import figure_for, set_out
from lpkit.gantt_places import corners
from lpkit.plots import COLORS, styled
from lpkit.pprs_drawings import IDLE, PASSES

__all__ = ["draw"]

METHODS = {"GD": COLORS["pipedream"], "AGD": COLORS["G"], "PPRS": COLORS["algorithm1"], "no method": "black"}
POWERS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
RING = {"marker": "o", "ms": 10, "mfc": "none", "mec": "black", "mew": 1.4, "lw": 0}
MOST_NUMBERED = 400  # passes whose samples are numbered
MOST_ROWS = 26  # in which numbers can be read
FAR = 1e6  # beyond every picture: higher losses are drawn there
MOST_RATIO = 30.0  # of a loss above that at the start: what leaps higher leaves the picture


@styled
def draw(cases, table):
    """The picture of the view of the cases.

    Parameters
    ----------
    cases : mapping of str to PprsState
        One or two, from `lpkit.explore_pprs_tables.cases_of`.
    table : pandas.DataFrame
        From `lpkit.explore_pprs_tables.table_of`.

    Returns
    -------
    matplotlib Figure

    Examples
    --------
    >>> from lpkit.explore_pprs_state import PprsState
    >>> from lpkit.explore_pprs_tables import cases_of, table_of
    >>> cases = cases_of(PprsState(K=2, Delta=3, view="bubbling"))
    >>> draw(cases, table_of(cases)).axes[0].get_title()
    'random max-affine: one step, 2 samples through 3 nodes in 8 slots'
    """
    drawn = {"loss": _loss, "bubbling": _bubbling, "depth": _depth, "samples": _samples, "bounds": _bounds}
    figure = figure_for(next(iter(cases.values())).view, len(cases))
    parts = {label: table[table["case"] == label] for label in cases}
    drawn[next(iter(cases.values())).view](figure, cases, parts)
    return figure


def _title(label, state):
    return label if label == PROBLEMS[state.problem] else f"{label}\n{PROBLEMS[state.problem]}"


# Losses ------------------------------------------------------------------------------------------------------------


def _loss(figure, cases, parts):
    plain = all(state.problem == FROG for state in cases.values())
    axes = beside(figure, len(cases))
    for axis, (label, state), part in zip(axes, cases.items(), parts.values()):
        for method, own in part.groupby("method", sort=False):
            _curve(axis, own, METHODS[method])
        level = state.target * (1 if state.problem == FROG else start_error(state))
        axis.axhline(level, color="0.35", lw=0.9, ls=":")
        _slots(axis, budget(state))
        what = "loss" if plain else "loss above the optimum"
        say(axis, _title(label, state), "simulated time [slots]", what if axis is axes[0] else "")
    _heights(axes, parts.values(), [start_error(state) for state in cases.values()], plain)
    legend(figure, [*_methods(), Patch(color="0.85", label="least to largest"),
                    Line2D([], [], color="0.35", ls=":", label="target")])  # fmt: skip


def _curve(axis, own, color):
    time, *losses = (own[name].to_numpy(float) for name in ("time", "loss", "low", "high"))
    loss, low, high = (np.minimum(values, FAR) for values in losses)
    if not own["kept"].iloc[0]:
        axis.plot(time, loss, color=color, lw=1, ls="--", marker="o", ms=5)
        return
    axis.fill_between(time, low, high, color=color, alpha=0.2, lw=0)
    axis.plot(time, loss, color=color, lw=1.5)


def _heights(axes, parts, starts, plain):
    """One scale of losses for all cases: from the least to somewhat above the start."""
    loss = np.concatenate([part["loss"].to_numpy(float) for part in parts])
    loss = loss[np.isfinite(loss) & (loss < MOST_RATIO * max(starts))]
    if plain:
        numbered(axes, 2 * max(starts))
        return
    low, high = np.log10(max(loss.min(), 1e-12)), np.log10(max(loss.max(), 2 * max(starts)))
    _logarithmic(axes, "y", low - 0.05, high + 0.05)


def _logarithmic(axes, side, low, high):
    """A logarithmic axis from 10^low to 10^high with few names, which take a fraction of the time of ticks."""
    for axis in axes if side == "x" else axes[:1]:
        axis.set(**{f"{side}scale": "log", f"{side}lim": (10.0**low, 10.0**high)})
        (axis.xaxis if side == "x" else axis.yaxis).set_minor_locator(NullLocator())
    powers = range(int(np.floor(low)), int(np.ceil(high)) + 1)
    if high - low < 2.2:
        places = [digit * 10.0**k for k in powers for digit in (1, 2, 5) if low <= np.log10(digit * 10.0**k) <= high]
    else:
        places = [10.0**k for k in powers[:: -(-len(powers) // 9)] if low <= k <= high]
    for axis in axes:
        if side == "x" or axis is axes[0]:
            tick_names(axis, places, _numbers(places), side=side)
        lines, across = (
            (axis.vlines, axis.get_xaxis_transform()) if side == "x" else (axis.hlines, axis.get_yaxis_transform())
        )
        lines(places, 0, 1, color="0.9", lw=0.7, zorder=0, transform=across)


def _numbers(values):
    """Numbers beside an axis, all in one style: where one is very large or small, powers of ten.

    Examples
    --------
    >>> _numbers([0.05, 2000.0]), _numbers([1e-5, 0.2]), _numbers([1e4, 2e7])
    (['0.05', '2,000'], ['10⁻⁵', '2·10⁻¹'], ['10⁴', '2·10⁷'])
    """
    if all(1e-3 <= value < 1e5 for value in values):
        return [f"{value:,.0f}" if value >= 1 else f"{value:g}" for value in values]
    return [_power(value) for value in values]


def _power(value):
    mantissa, power = f"{value:.0e}".split("e")
    return f"{'' if mantissa == '1' else f'{mantissa}·'}10{str(int(power)).translate(POWERS)}"


def _slots(axis, end):
    """Names below an axis of slots; one that would stand out at its end is left out."""
    places = [place for place in MaxNLocator(6, integer=True).tick_values(0, end) if 0 <= place <= 0.97 * end]
    tick_names(axis, places, [f"{place:,.0f}" for place in places])
    axis.set_xlim(0, end)


# Bubbling ----------------------------------------------------------------------------------------------------------


def _bubbling(figure, cases, parts):
    axes = set_out(figure, len(cases), 1, share="x", left=0.085, right=0.985, top=0.93, bottom=0.19, hspace=0.28)
    end = max(part["end"].max() for part in parts.values())
    for axis, (label, state), part in zip(axes, cases.items(), parts.values()):
        own = part["end"].max()
        axis.add_collection(
            PolyCollection(corners(*np.array([[0], [own], [0.5], [state.Delta + 0.5]], float)), facecolor=IDLE)
        )
        for kind, color in PASSES.items():
            _passes(axis, part[part["pass"] == kind], color, end, numbered=state.Delta * len(cases) <= MOST_ROWS)
        axis.set_ylim(state.Delta + 0.5, 0.5)
        axis.grid(visible=False)
        step = -(-state.Delta // (16 // len(cases)))
        rows = range(1, state.Delta + 1, step)
        tick_names(axis, rows, [str(node) for node in rows], side="y")
        many = f"{state.K} samples through {state.Delta} nodes in {slots(1, state.K, state.Delta):,} slots"
        say(axis, f"{label}: one step, {many}", "slot" if axis is axes[-1] else "", "node")
    _slots(axes[-1], end)
    keys = {"forward": "forward passes", "backward": "backward passes"}
    legend(
        figure,
        [*(Patch(color=PASSES[kind], label=text) for kind, text in keys.items()), Patch(color=IDLE, label="waits")],
    )


def _passes(axis, part, color, end, *, numbered):
    left, right, node = (part[name].to_numpy(float) for name in ("start", "end", "node"))
    few = (part["passes"] == 1).all() and end <= 120
    half, edge = (0.46, {"edgecolor": "white", "lw": 0.5}) if few else (0.5, {"lw": 0, "antialiased": False})
    axis.add_collection(PolyCollection(corners(left, right, node - half, node + half), facecolor=color, **edge))
    if numbered and few and end <= 80 and len(part) * 2 <= MOST_NUMBERED:
        write(axis, [(str(sample), place) for sample, place in zip(part["sample"], zip((left + right) / 2, node))], 7)


# Time to the target ------------------------------------------------------------------------------------------------


def _depth(figure, cases, parts):
    axes = _on_logarithms(figure, cases, parts, "Delta", "depth of the pipeline Delta [nodes]")
    for axis, state, part in zip(axes, cases.values(), parts.values()):
        for method, own in part.groupby("method", sort=False):
            x, time, low, high = (own[name].to_numpy(float) for name in ("Delta", "time", "low", "high"))
            axis.fill_between(x, low, high, where=np.isfinite(high), color=METHODS[method], alpha=0.2, lw=0)
            axis.plot(x, time, color=METHODS[method], lw=1.5)
            axis.plot(x[x == state.Delta], time[x == state.Delta], **RING)
        *single, ours = runs_of(state)
        for run in single:
            _pays(axis, pays_from(ours, run), run)
    legend(figure, [*_methods(), Line2D([], [], **RING | {"ms": 7}, label="as chosen")])


def _pays(axis, at, run):
    """A line where PPRS comes to be ahead of another method."""
    if at is None or np.isinf(run.hits).all() or at > 1000:
        return
    axis.axvline(at, color=METHODS[run.method], lw=0.9, ls=":")
    above = at < 30  # where the curves are below
    axis.annotate(f"ahead of {run.method} from {at}", (at, 0.98 if above else 0.03), ha="right", rotation=90,
                  fontsize=8, va="top" if above else "bottom", color=METHODS[run.method],
                  xycoords=("data", "axes fraction"))  # fmt: skip


def _samples(figure, cases, parts):
    axes = _on_logarithms(figure, cases, parts, "K", "samples a step K")
    for axis, state, part in zip(axes, cases.values(), parts.values()):
        for method, own in part.groupby("method", sort=False):
            x, time = own["K"].to_numpy(float), own["time"].to_numpy(float)
            axis.plot(x, time, color=METHODS[method], lw=1.5, marker="o" if method == "PPRS" else None, ms=5)
            if method == "PPRS":
                axis.plot(x[x == state.K], time[x == state.K], **RING)
    legend(figure, [*_methods(), Line2D([], [], **RING | {"ms": 7}, label="as chosen")])


def _on_logarithms(figure, cases, parts, x, xlabel):
    """Axes of slots against `x`, logarithmic both, and which methods do not get there."""
    axes = beside(figure, len(cases))
    times = np.concatenate([part["time"].to_numpy(float) for part in parts.values()])
    times = np.log10(times[np.isfinite(times) & (times > 0)])
    low, high = (times.min(), times.max()) if len(times) else (3, 4)
    spare = max(0.1, 0.5 - (high - low) / 2)
    what = _heights_of_times(cases, x)
    for axis, (label, state), part in zip(axes, cases.items(), parts.values()):
        say(axis, _title(label, state), xlabel, what if axis is axes[0] else "")
        never = [name for name, own in part.groupby("method", sort=False) if np.isinf(own["time"]).all()]
        missed = part[np.isinf(part["time"]) & (part["method"] == "PPRS")] if x == "K" and "PPRS" not in never else ()
        never += [f"PPRS with K {', '.join(map(str, missed['K']))}"] if len(missed) else []
        if never:
            limit = (
                "in the record" if state.problem == FROG else "in these steps" if x == "Delta" else "within this time"
            )
            axis.text(0.02, 0.97, f"not {limit}: {', '.join(never)}", transform=axis.transAxes, va="top", color="0.3")
    _logarithmic(axes, "y", low - spare, high + spare)
    places = np.log10(np.concatenate([part[x].to_numpy(float) for part in parts.values()]))
    _logarithmic(axes, "x", places.min() - 0.05, places.max() + 0.05)
    return axes


def _heights_of_times(cases, x):
    """What the heights of `_on_logarithms` are."""
    *_, state = cases.values()
    if x == "eps":
        return "slots"
    return (
        f"slots to a loss of {state.target:g}"
        if state.problem == FROG
        else f"slots to {100 * state.target:g} % of the error"
    )


def _methods():
    return [Line2D([], [], color=METHODS[name], label=name) for name in ("GD", "AGD", "PPRS")]


def _bounds(figure, cases, parts):
    axes = _on_logarithms(figure, cases, parts, "eps", "precision, loss above the optimum")
    for axis, part in zip(axes, parts.values()):
        for (method, kind), own in part.groupby(["method", "kind"], sort=False):
            look = {"ls": "--", "lw": 1.3} if kind == "bound" else {"ls": "-", "lw": 1, "marker": "o", "ms": 4}
            axis.plot(own["eps"], own["time"], color=METHODS[method], **look)
    for axis in axes:
        axis.set_xlim(axis.get_xlim()[::-1])
    kinds = {"lower bound (worst function)": {"color": "black", "ls": "--"}, "proved": {"color": "0.4", "ls": "--"},
             "these runs": {"color": "0.4", "marker": "o", "ms": 4}}  # fmt: skip
    legend(figure, [*_methods(), *(Line2D([], [], label=label, **look) for label, look in kinds.items())])
