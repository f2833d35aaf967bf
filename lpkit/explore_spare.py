"""Axes that are set out before they are asked for: what a picture needs of matplotlib, whatever it shows.

Setting out axes takes a large part of a picture's time, and the next picture is nearly always of the same view. So its
axes are set out when the one before it is on the screen: `prepare`. No figure is handed out twice.
"""

from weakref import WeakKeyDictionary

from lpkit.explore_picture import blank
from lpkit.plots import styled

__all__ = ["figure_for", "prepare", "set_out"]

_kinds = WeakKeyDictionary()  # figure -> (view, number of cases)
_layouts = {}  # (view, number of cases) -> how its axes lie
_ready = {}  # (view, number of cases) -> a figure set out so: that of the view asked for last, if any


def figure_for(view, cases):
    """An empty figure for that many cases of a view; its axes are set out already where it was prepared.

    Examples
    --------
    >>> axes = set_out(figure_for("loads", 2), 1, 2, left=0.1)
    >>> prepare()
    >>> figure = figure_for("loads", 2)
    >>> len(figure.axes), set_out(figure, 1, 2, left=0.1) == figure.axes, len(figure_for("loads", 2).axes)
    (2, True, 0)
    """
    kind = view, cases
    figure = _ready.pop(kind, None)
    if figure is None:
        _ready.clear()
        figure = blank()
    _kinds[figure] = kind
    _ready[kind] = None
    return figure


def set_out(figure, rows, columns, *, share=(), **places):
    """Axes of a figure in rows and columns, from the upper left: new ones, or those that are there.

    Parameters
    ----------
    figure : matplotlib Figure
        From `figure_for`.
    rows, columns : int
    share : sequence of {"x", "y"}
        What the axes have in common.
    **places
        As for `matplotlib.figure.Figure.subplots_adjust`.

    Returns
    -------
    list of Axes
    """
    if not figure.axes:
        figure.subplots(rows, columns, sharex="x" in share, sharey="y" in share)
        figure.subplots_adjust(**places)
        if figure in _kinds:
            _layouts[_kinds[figure]] = (rows, columns), {"share": share, **places}
    return figure.axes


@styled
def prepare():
    """Set out the axes of a picture like the last one, while nobody waits for it."""
    kind = next(iter(_ready), None)
    if kind in _layouts and _ready[kind] is None:
        shape, places = _layouts[kind]
        _ready[kind] = blank()
        set_out(_ready[kind], *shape, **places)
