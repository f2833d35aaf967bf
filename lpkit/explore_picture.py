"""The picture of an explorer: of one size, drawn without a layout engine, as PNG for the screen and SVG for a file.

The same picture gives the same bytes, so that a test can tell whether it is the one that the functions draw.
"""

import io

from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from lpkit.plots import styled

__all__ = ["DPI", "SIZE", "blank", "empty_png", "png", "svg"]

SIZE, DPI = (9.6, 4.5), 100  # inches, dots an inch: 960 x 450 pixels


def blank(**look):
    """A figure of that size with nothing in it."""
    return Figure(figsize=SIZE, dpi=DPI, **look)


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
    figure = blank(facecolor="0.88")
    figure.text(0.5, 0.5, "no picture: see the line above", ha="center", va="center", color="0.45", fontsize=13)
    return png(figure)
