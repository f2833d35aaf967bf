"""Words in a picture as outlines, all of a kind one collection.

Ticks and texts take most of the time that matplotlib needs for a small picture, many times what their letters take.
"""

from functools import lru_cache

from matplotlib.collections import PathCollection
from matplotlib.font_manager import FontProperties
from matplotlib.path import Path
from matplotlib.textpath import TextPath
from matplotlib.ticker import NullLocator
from matplotlib.transforms import Affine2D, ScaledTranslation, blended_transform_factory

__all__ = ["letters", "tick_names", "width_of", "write"]


def write(axis, words, size, *, color="black", at=None, turn=0, align="middle", halo=False):
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
    axis.add_collection(letters(axis.figure, words, size, at=at, color=color, turn=turn, align=align), autolim=False)


def letters(figure, words, size, *, at, color="black", turn=0, align="middle"):
    """The words of `write` as one collection, to be added to an axis or a figure; `at` is the transform of the places.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> figure = Figure()
    >>> len(letters(figure, [("delta", (0, 0))], 8, at=figure.transFigure).get_paths())
    1
    """
    outlines = [_outline(text, size, turn, align) for text, _ in words]
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
    return float(_outline(text, size, 0, "left").get_extents().x1)


def tick_names(axis, places, names, *, side="x", size=8.5, turn=0):
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
        write(axis, words, size, color="0.15", at=at, turn=turn, align="right" if turn or side == "y" else "middle")


@lru_cache(maxsize=2048)
def _outline(text, size, turn, align):
    """The letters of a short text in points around (0, 0); of one height whatever they are, a dollar sign being one."""
    path = TextPath((0, 0), text.replace("$", r"\$"), size=size, prop=FontProperties(family="DejaVu Sans"))
    box = path.get_extents()
    left = {"middle": (box.x0 + box.x1) / 2, "right": box.x1, "left": box.x0}[align]
    return path.transformed(Affine2D().translate(-left, -0.365 * size).rotate_deg(turn))
