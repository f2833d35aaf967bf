"""Curves of the PPRS paper's bounds and trials: panels of lines, dots, spreads and marks from one tidy table.

As in `lpkit.plots`, nothing is computed here.
"""

import re

import numpy as np

from lpkit.plots import COLORS, new_figure, styled
from lpkit.pprs_drawings import shades

__all__ = ["curve_panels"]

LOOKS = {
    "lower bound": ("black", "-"), "depth term": ("0.45", "--"), "sampling term": ("0.45", ":"),
    "16 d^(1/4)": ("0.45", "--"), "equal": ("0.45", "--"), "one at a time": (COLORS["pipedream"], "-"),
    "GPipe": (COLORS["optimal"], "-"), "PPRS": (COLORS["algorithm1"], "-"), "PPRS, best K": ("black", ":"),
    "memory model": (COLORS["weights"], ""),
}  # fmt: skip


@styled
def curve_panels(rows, labels, *, columns=3, linear=(), title=""):
    """Panels of curves on logarithmic axes, one a value of ``panel``.

    Parameters
    ----------
    rows : pandas.DataFrame
        Columns ``panel``, ``name`` (of a curve), ``kind`` ("line", "dot", or "mark": a vertical line where x is),
        ``x``, ``y`` and, for a spread over seeds, ``low`` and ``high``. Where y is not finite nothing is drawn.
        Names that differ in their number alone, such as "K = 10", are drawn from light to dark; with " bound" behind,
        dashed in the colour of the same name without.
    labels : mapping of str to (str, str)
        Panel, in order, to the names of its axes.
    linear : sequence of str
        Panels whose y is not logarithmic.

    Returns
    -------
    matplotlib Figure
    """
    columns = min(columns, len(labels))
    lines = -(-len(labels) // columns)
    figure, axes = new_figure(lines, columns, size=(3.9 * columns, 3.3 * lines))
    for axis in axes.flat[len(labels) :]:
        axis.remove()
    for axis, (panel, (xlabel, ylabel)) in zip(axes.flat, labels.items()):
        own = rows[rows["panel"] == panel]
        own = own[np.isfinite(own["y"])]
        looks = _looks(own["name"].unique())
        for (name, kind), curve in own.groupby(["name", "kind"], sort=False):
            _curve(axis, curve, name, kind, *looks[name])
        axis.set(xscale="log", yscale="linear" if panel in linear else "log", xlabel=xlabel, ylabel=ylabel)
        axis.set_title(panel, loc="left")
        if axis.get_legend_handles_labels()[0]:
            axis.legend(fontsize=7.5, handlelength=1.8)
        if panel not in linear:
            axis.set_ylim(top=axis.get_ylim()[1] * 3 ** max(0, len(looks) - 3))  # room for a long legend
    if title:
        figure.suptitle(title)
    return figure


def _curve(axis, curve, name, kind, color, style):
    if kind == "mark":
        for x in curve["x"]:
            axis.axvline(x, color=color, lw=0.9, ls=":", zorder=1)
    elif kind == "dot":
        axis.plot(curve["x"], curve["y"], "o", color=color, ms=4, mfc="white", label=name, zorder=3)
    else:
        axis.plot(curve["x"], curve["y"], color=color, ls=style, lw=1.5, label=name)
        if "low" in curve and curve["low"].notna().any():
            axis.fill_between(curve["x"], curve["low"], curve["high"], color=color, alpha=0.15, lw=0)


def _looks(names):
    """Colour and line of each name: a known one, or from light to dark in the order of its number."""
    plain = [name.removesuffix(" bound") if name not in LOOKS else name for name in names]
    numbered = sorted({name for name in plain if name not in LOOKS}, key=_number)
    dark = dict(zip(numbered, shades(len(numbered))))
    return {name: LOOKS.get(name) or (dark.get(base) or LOOKS[base][0], "-" if name == base else "--")
            for name, base in zip(names, plain)}  # fmt: skip


def _number(name):
    """The last number in a name; 0 without one."""
    found = re.findall(r"[0-9][0-9.,]*", name)
    return float(found[-1].replace(",", "")) if found else 0.0
