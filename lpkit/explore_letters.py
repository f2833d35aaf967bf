"""Words in a picture as outlines, all of a kind one collection.

Ticks and texts take most of the time that matplotlib needs for a small picture, many times what their letters take. A
word is put together from letters that are remembered, so that one never written before takes no longer.
"""

from functools import lru_cache
from itertools import accumulate, pairwise

import numpy as np
from matplotlib.collections import PathCollection
from matplotlib.font_manager import FontProperties
from matplotlib.path import Path
from matplotlib.textpath import TextPath
from matplotlib.ticker import NullLocator
from matplotlib.transforms import Affine2D, ScaledTranslation, blended_transform_factory

__all__ = ["letters", "tick_names", "width_of", "write"]

UNIT = 100  # points of the letters that are remembered
APART = "\u0300"  # from here on letters may join, combine or run leftwards: words of those are laid out as a whole


def write(axis, words, size, *, color="black", at=None, turn=0, align="middle", weight="normal", halo=False):
    """Write words at their places.

    Parameters
    ----------
    axis : matplotlib Axes
    words : sequence of (text, (x, y))
    size : float
        Of the letters, in points.
    at : matplotlib transform, optional
        Of the places; by default the data's.
    turn : float
        Degrees against the clock.
    align : {"middle", "right", "left"}
        What of a word stands at its place.
    weight : {"normal", "bold"}
    halo : bool
        Put a white disc behind.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> axis = Figure().subplots()
    >>> write(axis, [("2D", (0, 0)), ("D", (1, 1))], 8)
    >>> [len(collection.get_paths()) for collection in axis.collections]
    [2]
    """
    if not words:
        return
    at = at or axis.transData
    if halo:
        discs = [Path.circle((0, 0), 0.58 * size * (1 + 0.35 * max(len(text) - 2, 0))) for text, _ in words]
        axis.add_collection(_placed(axis.figure, discs, words, at, facecolor="white", zorder=4), autolim=False)
    written = letters(axis.figure, words, size, at=at, color=color, turn=turn, align=align, weight=weight)
    axis.add_collection(written, autolim=False)


def letters(figure, words, size, *, at, color="black", turn=0, align="middle", weight="normal"):
    """The words of `write` as one collection, to be added to an axis or a figure; `at` is the transform of the places.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> figure = Figure()
    >>> len(letters(figure, [("delta", (0, 0))], 8, at=figure.transFigure).get_paths())
    1
    """
    outlines = [_outline(text, size, turn, align, weight) for text, _ in words]
    return _placed(figure, outlines, words, at, facecolor=color, zorder=5)


def _placed(figure, paths, words, at, **look):
    """Paths in points, each at the place of its word."""
    points = Affine2D().scale(1 / 72) + figure.dpi_scale_trans
    return PathCollection(paths, offsets=[place for _, place in words], offset_transform=at, transform=points,
                          edgecolor="none", clip_on=False, **look)  # fmt: skip


@lru_cache(maxsize=2048)
def width_of(text, size):
    """Points that a text takes.

    Examples
    --------
    >>> width_of("PPRS", 10) > 3 * width_of("P", 10)
    True
    """
    return float(_outline(text, size, 0, "left", "normal").vertices[:, 0].max(initial=0))


def tick_names(axis, places, names, *, side="x", size=8.5, color="0.15", turn=0):
    """Names beside an axis in place of its ticks; several lines of a name stand below each other.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> axis = Figure().subplots()
    >>> tick_names(axis, [1, 2], ["P1\\n1-3", "P2\\n4"])
    >>> len(axis.collections)
    2
    """
    (axis.xaxis if side == "x" else axis.yaxis).set_major_locator(NullLocator())
    rows = [name.split("\n") for name in names]
    for line in range(max(map(len, rows), default=0)):
        words = [(row[line], place) for row, place in zip(rows, places) if line < len(row)]
        down = (0, -(9 + 11 * line) / 72) if side == "x" and not turn else (0, -5 / 72) if side == "x" else (-5 / 72, 0)
        shift = ScaledTranslation(*down, axis.figure.dpi_scale_trans)
        data, axes = axis.transData, axis.transAxes
        at = blended_transform_factory(*((data, axes) if side == "x" else (axes, data))) + shift
        words = [(text, (place, 0) if side == "x" else (0, place)) for text, place in words]
        write(axis, words, size, color=color, at=at, turn=turn, align="right" if turn or side == "y" else "middle")


@lru_cache(maxsize=2048)
def _outline(text, size, turn, align, weight):
    """The letters of a short text in points around (0, 0); of one height whatever they are."""
    vertices, codes = _word(text, weight) if max(text, default="") < APART else _glyphs(text, weight)
    left, right = (vertices[:, 0].min(), vertices[:, 0].max()) if len(vertices) else (0, 0)
    anchor = {"middle": (left + right) / 2, "right": right, "left": left}[align]
    return Path((vertices - (anchor, 0.365 * UNIT)) * (size / UNIT), codes).transformed(Affine2D().rotate_deg(turn))


def _word(text, weight):
    """Vertices and codes of a text put together from its letters."""
    parts = [_glyphs(letter, weight) for letter in text]
    places = accumulate((_step(*pair, weight) for pair in pairwise(text)), initial=0.0)
    vertices = [vertices + (place, 0) for place, (vertices, _) in zip(places, parts)]
    return (np.concatenate(column) for column in ([np.empty((0, 2)), *vertices], [[], *(codes for _, codes in parts)]))


@lru_cache(maxsize=4096)
def _step(letter, following, weight):
    """From the origin of a letter to that of the one that follows, kerning included."""
    both, own, other = (_glyphs(text, weight)[0] for text in (letter + following, letter, following))
    if len(other) == 0 or len(both) != len(own) + len(other):  # a space, or two letters drawn as one
        return _step(letter, "H", weight)
    return both[len(own), 0] - other[0, 0]


@lru_cache(maxsize=4096)
def _glyphs(text, weight):
    """Vertices and codes of a text as matplotlib lays it out; no text is a formula."""
    if not text.strip():
        return np.empty((0, 2)), []
    font = FontProperties(family="DejaVu Sans", weight=weight)
    path = TextPath((0, 0), text.replace("$", r"\$"), size=UNIT, prop=font)
    return path.vertices, path.codes
