"""Attacks drawn: loss against simulated time, learning rates and gammas, and what became of the image.

As in `lpkit.plots`, nothing is computed here but where things stand.
"""

import numpy as np
from matplotlib.colors import TwoSlopeNorm
from matplotlib.ticker import FuncFormatter

from lpkit.plots import new_figure, styled

__all__ = ["attack_pictures", "learning_rates", "loss_against_time", "ratio_strips"]

# Okabe and Ito's palette; methods in the order of the legend.
SHADES = {
    "GD": "#777777", "AGD": "#D55E00", "PPRS, K = 2": "#56B4E9", "PPRS, K = 10": "#0072B2", "PPRS, K = 100": "#009E73",
}
TITLES = {"paper": "paper's grid"}
OTHERS = ("#CC79A7", "#E69F00", "#000000", "#8C564B", "#BCBD22", "#882255", "#44AA99")


def _shades(names):
    others = [name for name in names if name not in SHADES]
    return SHADES | {name: OTHERS[i % len(OTHERS)] for i, name in enumerate(others)}


@styled
def loss_against_time(curves, *, start=None, log=False, title=""):
    """Loss of each method against simulated time, a panel for each Delta and, where there are several, each grid.

    Parameters
    ----------
    curves : pandas.DataFrame
        Columns `Delta`, `name`, `time`, `loss`, `low`, `high` and possibly `grid`; see
        `lpkit.attack_tables.curve_rows`. Lines are medians of short spans, bands reach from the least to the largest.
    start : float, optional
        Loss before the first step, drawn as a line.
    log : bool
        Whether losses are on a logarithmic axis.

    Examples
    --------
    >>> import pandas as pd
    >>> line = {"Delta": 20, "name": "GD", "time": [0, 40], "loss": [9, 8], "low": [9, 7.5], "high": [9, 8.5]}
    >>> [axis.get_title() for axis in loss_against_time(pd.DataFrame(line)).axes]
    ['Delta = 20']
    """
    grids = list(curves["grid"].unique()) if "grid" in curves else [None]
    depths, names = sorted(curves["Delta"].unique()), list(dict.fromkeys(curves["name"]))
    size = max(6.4, 3.0 * len(depths) + 0.5), 1.95 * len(grids) + 0.9
    figure, axes = new_figure(len(grids), len(depths), size=size, sharey=True)
    shades = _shades(names)
    for row, grid in zip(axes, grids):
        for axis, depth in zip(row, depths):
            here = curves[(curves["Delta"] == depth) & ((curves["grid"] == grid) if grid else True)]
            _lines(axis, here, names, shades)
            if start is not None:
                axis.axhline(start, color="0.4", lw=0.8, ls=":", label="untouched image")
            axis.set(title=f"Delta = {depth}" + (f", {TITLES.get(grid, grid)}" if grid else ""),
                     xlabel="simulated time [thousand slots]")  # fmt: skip
        row[0].set_ylabel("loss")
    if log:
        axes[0][0].set_yscale("log")
        axes[0][0].yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes[0][0].yaxis.set_minor_formatter(FuncFormatter(lambda value, _: f"{value:g}" if _leads(value) else ""))
    handles = {label: handle for axis in axes.flat for handle, label in zip(*axis.get_legend_handles_labels())}
    many = len(handles) > 6
    figure.legend(handles.values(), handles.keys(), loc=f"outside {'right upper' if many else 'lower center'}",
                  ncols=1 if many else len(handles) if len(handles) < 6 else 3, columnspacing=1.2,
                  handlelength=1.6)  # fmt: skip
    if title:
        figure.suptitle(title, fontsize=10)
    return figure


def _leads(value):
    """Whether the first digit is 2, 3 or 5."""
    return f"{value:e}"[0] in "235"


def _lines(axis, rows, names, shades):
    others = [name for name in names if name not in SHADES]
    for name in names:
        dash = "-" if name in SHADES or others.index(name) < len(OTHERS) else (0, (4, 1.2))  # colours start again
        line = rows[rows["name"] == name]
        time = line["time"].to_numpy(float) / 1000
        axis.fill_between(time, line["low"], line["high"], color=shades[name], alpha=0.15, lw=0)
        axis.plot(time, line["loss"], color=shades[name], lw=1.4, ls=dash, label=name)
    axis.margins(x=0.01)


@styled
def learning_rates(frame, *, weight, title=""):
    """Tail means over lr and gamma for each K, and over lr for gd and agd beside the law of the two-cycle.

    Parameters
    ----------
    frame : pandas.DataFrame
        Rows of one image and Delta with `method`, `K`, `lr`, `gamma`, `start`, `tail mean`.
    weight : float
        lambda.
    """
    samples = sorted(frame.loc[frame["method"] == "pprs", "K"].unique())
    figure, (axes,) = new_figure(1, len(samples) + 1, size=(2.15 * len(samples) + 3.0, 2.9),
                                 gridspec_kw={"width_ratios": [*[1] * len(samples), 1.25]})  # fmt: skip
    rows = frame[frame["method"] == "pprs"]
    lrs, gammas = (sorted({float(f"{v:.3g}") for v in rows[name]}, reverse=name == "gamma") for name in ("lr", "gamma"))
    start = float(frame["start"].iloc[0])
    norm = TwoSlopeNorm(start, 0, 2 * start)
    for axis, K in zip(axes, samples):
        drawn = _map(axis, rows[rows["K"] == K], lrs, gammas, norm)
        axis.set(title=f"PPRS, K = {K}", xlabel="lr", ylabel="gamma" if axis is axes[0] else "")
    figure.colorbar(drawn, ax=axes[:-1], label="tail mean (white: untouched image)", extend="max", shrink=0.85)
    _law(axes[-1], frame, weight)
    if title:
        figure.suptitle(title, fontsize=10)
    return figure


def _map(axis, rows, lrs, gammas, norm):
    cells = np.full((len(gammas), len(lrs)), np.nan)
    for row in rows.to_dict("records"):
        at = gammas.index(float(f"{row['gamma']:.3g}")), lrs.index(float(f"{row['lr']:.3g}"))
        cells[at] = row["tail mean"]
    drawn = axis.imshow(np.ma.masked_invalid(cells), cmap="RdBu_r", norm=norm, aspect="auto")
    for (i, j), value in np.ndenumerate(cells):
        if np.isfinite(value):
            dark = not 0.25 < norm(value) < 0.8
            axis.text(j, i, f"{value:.0f}" if value >= 9.95 else f"{value:.1f}", ha="center", va="center",
                      fontsize=6, color="white" if dark else "black")  # fmt: skip
    axis.set_xticks(range(len(lrs)), [f"{lr:.0e}".replace("e-0", "e-") for lr in lrs], rotation=60, fontsize=7)
    axis.set_yticks(range(len(gammas)), [f"{g:.0e}".replace("e-0", "e-") for g in gammas], fontsize=7)
    axis.set_facecolor("0.88")
    axis.grid(visible=False)
    return drawn


def _law(axis, frame, weight):
    """Tail means of gd and agd against the effective step, and the least that a two-cycle of that step allows."""
    steps = np.logspace(-7, -2.4, 80)
    axis.plot(steps, weight**2 * steps / 2, color="0.3", lw=1, ls="--", label="lambda$^2$ lr / 2")
    for method, momentum, marker in (("gd", 0, "o"), ("agd", 0.99, "s")):
        rows = frame[frame["method"] == method].sort_values("lr")
        name = method.upper()
        axis.plot(rows["lr"] / (1 - momentum), rows["tail mean"], marker=marker, ms=4, lw=1, color=SHADES[name],
                  label=name if not momentum else f"{name}, at lr / (1 - {momentum})")  # fmt: skip
    start = float(frame["start"].iloc[0])
    axis.axhline(start, color="0.4", lw=0.8, ls=":", label="untouched image")
    axis.set(xscale="log", yscale="log", xlim=(7e-8, 4e-3), ylim=(start / 5, start * 12), xlabel="effective step",
             ylabel="tail mean", title="Kicks of lambda lr")  # fmt: skip
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.yaxis.set_minor_formatter(FuncFormatter(lambda value, _: f"{value:g}" if _leads(value) else ""))
    axis.legend(fontsize=7, loc="upper left")


@styled
def attack_pictures(results, untouched, classes, *, title=""):
    """The image, ten times the difference that each method made, the image attacked by the last, and the scores.

    Parameters
    ----------
    results : mapping of str to AttackResult
    untouched : array (C, H, W)
    classes : sequence of str
    """
    figure, (axes,) = new_figure(1, len(results) + 3, size=(1.75 * len(results) + 6.1, 2.45),
                                 gridspec_kw={"width_ratios": [1] * (len(results) + 2) + [1.9]})  # fmt: skip
    last = list(results.values())[-1]
    _picture(axes[0], f"image:\n{classes[int(last.clean_scores.argmax())]}", untouched)
    for axis, (name, result) in zip(axes[1:], results.items()):
        away = 0.5 + 10 * (result.image - untouched)
        _picture(axis, f"10 x difference\n{name}\nmax {result.linf_255:.1f} / 255", away)
    _picture(axes[-2], f"attacked by\n{list(results)[-1]}:\n{classes[last.predicted]}", last.clipped)
    scores = {"before": last.clean_scores} | {f"after {name}": result.scores for name, result in results.items()}
    _bars(axes[-1], scores, classes)
    if title:
        figure.suptitle(title, fontsize=10)
    return figure


def _picture(axis, name, pixels):
    axis.imshow(np.clip(pixels, 0, 1).transpose(1, 2, 0), interpolation="nearest")
    axis.set_title(name, fontsize=7)
    axis.set(xticks=[], yticks=[])
    axis.grid(visible=False)


def _bars(axis, scores, classes):
    place, width = np.arange(len(classes)), 0.8 / len(scores)
    shades = ["#BBBBBB", *(SHADES.get(name.removeprefix("after "), "#CC79A7") for name in list(scores)[1:])]
    for i, ((name, values), shade) in enumerate(zip(scores.items(), shades)):
        axis.bar(place + (i - (len(scores) - 1) / 2) * width, values, width=width, color=shade, label=name)
    axis.set_xticks(place, classes, rotation=60, fontsize=7)
    axis.set_title("scores", fontsize=7)
    axis.grid(axis="x", visible=False)
    axis.legend(fontsize=6.5, loc="upper left")


@styled
def ratio_strips(frame, *, reference=1.3, title=""):
    """Ratios on a logarithmic axis, a strip of points for each problem, coloured by Delta.

    Parameters
    ----------
    frame : pandas.DataFrame
        Columns `problem`, `Delta`, `share` and `ratio`.
    reference : float
        A line.
    """
    figure, ((axis,),) = new_figure(size=(6.8, 0.42 * frame["problem"].nunique() + 1.7))
    problems, depths = list(dict.fromkeys(frame["problem"])), sorted(frame["Delta"].unique())
    for depth, marker, shade in zip(depths, "os^vD", ("#56B4E9", "#0072B2", "#009E73", "#CC79A7", "#000000")):
        rows = frame[frame["Delta"] == depth]
        places = [problems.index(p) for p in rows["problem"]]
        axis.scatter(rows["ratio"], places, marker=marker, s=30, color=shade, alpha=0.85, label=f"Delta = {depth}")
    for ratio, line in ((1, "-"), (reference, "--")):
        axis.axvline(ratio, color="0.4", lw=0.8, ls=line)
    axis.set_xscale("log")
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.xaxis.set_minor_formatter(FuncFormatter(lambda value, _: f"{value:g}" if _leads(value) else ""))
    axis.set_yticks(range(len(problems)), problems)
    axis.set(xlabel="time of AutoPPRS over that of the best setting of the grid", title=title)
    axis.invert_yaxis()
    figure.legend(ncols=len(depths), loc="outside lower center")
    return figure
