"""The picture of an explorer: of one size, drawn without a layout engine, as PNG for the screen and SVG for a file.

The same picture gives the same bytes, so that a test can tell whether it is the one that the functions draw.
"""

import gc
import io
import struct
import zlib
from functools import wraps

import numpy as np
from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from lpkit.plots import styled

__all__ = ["DPI", "SIZE", "blank", "empty_png", "png", "svg", "undisturbed"]

SIZE, DPI = (9.6, 4.5), 100  # inches, dots an inch: 960 x 450 pixels


def undisturbed(made):
    """Let a function that makes a picture be done before garbage is collected, and then collect only what it left.

    A figure is thousands of objects that hold each other. Collected while it is drawn they grow old, and old ones go
    only with a search of everything that was ever imported, which takes longer than a picture.

    Examples
    --------
    >>> undisturbed(gc.isenabled)(), gc.isenabled()
    (False, True)
    """
    @wraps(made)
    def undisturbed(*args, **kwargs):
        if not gc.isenabled():
            return made(*args, **kwargs)
        gc.disable()
        try:
            return made(*args, **kwargs)
        finally:
            gc.enable()
            gc.collect(1)

    return undisturbed


def blank(**look):
    """A figure of that size with nothing in it."""
    return Figure(figsize=SIZE, dpi=DPI, **look)


def png(figure):
    """The figure as PNG bytes, the same for the same picture.

    Rows go in as they are; writers that seek the best filter for each take as long as the drawing.

    Examples
    --------
    >>> png(Figure(figsize=(1, 1), dpi=10))[:4]
    b'\\x89PNG'
    """
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    colors = np.asarray(canvas.buffer_rgba())[:, :, :3]  # nothing shines through
    height, width, _ = colors.shape
    rows = np.zeros((height, 1 + 3 * width), np.uint8)  # a row begins with its filter, none
    rows[:, 1:] = colors.reshape(height, -1)
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)  # 8 bits of red, green and blue
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", head) + _chunk(b"IDAT", zlib.compress(rows, 1)) + _chunk(b"IEND", b"")


def _chunk(kind, content):
    """A part of a PNG file: its length, its kind, what it holds, and a sum to check it by."""
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


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
