"""What the pictures of the explorer have in common: axes at fixed places, names and legends that are drawn fast."""

from textwrap import wrap

import numpy as np
from matplotlib.collections import PolyCollection
from matplotlib.lines import TICKLEFT, Line2D
from matplotlib.patches import Patch, PathPatch, Rectangle
from matplotlib.path import Path
from matplotlib.ticker import MaxNLocator, NullLocator
from matplotlib.transforms import Affine2D

from lpkit.explore_letters import letters, tick_names, width_of, write
from lpkit.explore_spare import set_out
from lpkit.gantt import LOOKS
from lpkit.gantt_places import corners

__all__ = ["beside", "boxes", "legend", "numbered", "say", "stage_ticks"]

MOST_HATCHED = 200  # boxes of a part
LETTERS_PER_INCH = 11.5  # of a title
KEY, BETWEEN, LETTERS = 20, 20, 8.5  # of a legend, in points: width of a key, gap between two, size of letters


def beside(figure, count, *, bottom=0.2):
    """Axes side by side with room for a line of title above and a legend below; the first is labelled on the left."""
    return set_out(figure, 1, count, share="y", left=0.085, right=0.985, top=0.85, bottom=bottom, wspace=0.06)


def numbered(axes, most):
    """Heights of axes side by side from 0 to `most`, with round numbers beside the first and a line across all at each.

    These are the ticks and the grid of matplotlib, which drawn one by one take longer than what they number.
    """
    for axis in axes:
        axis.set_ylim(0, most)
    places = [place for place in MaxNLocator(6).tick_values(0, most) if 0 <= place <= most]
    formatter = axes[0].yaxis.get_major_formatter()
    tick_names(axes[0], places, formatter.format_ticks(places), side="y", size=9, color="black")
    _words_at(axes[0], [(formatter.get_offset(), (0, 8 + 72 * _inches(axes[0])[1]))], size=9, align="left")
    for axis in axes:
        axis.yaxis.set_major_locator(NullLocator())
        axis.yaxis.get_offset_text().set_visible(False)
        axis.hlines(places, 0, 1, color="#B0B0B0", alpha=0.25, lw=0.8, zorder=0.5, transform=axis.get_yaxis_transform())
        axis.plot([0] * len(places), places, lw=0, marker=TICKLEFT, ms=3.5, mew=0.8, color="black", clip_on=False,
                  transform=axis.get_yaxis_transform())  # fmt: skip


def _inches(axis):
    """Width and height of an axis."""
    return np.array(axis.get_position().bounds[2:]) * axis.figure.get_size_inches()


def _words_at(axis, words, **look):
    """Write words at places in points from the lower left corner of the axis."""
    corner = axis.get_position().min * axis.figure.get_size_inches()
    write(axis, words, at=Affine2D().scale(1 / 72).translate(*corner) + axis.figure.dpi_scale_trans, **look)


def say(axis, title="", x="", y=""):
    """Title, wrapped to the axis, and labels at fixed places: matplotlib measures every tick to find free ones.

    All are drawn as letters; the axis knows them too, for who asks it.
    """
    wide, tall = 72 * _inches(axis)
    lines = [part for line in title.split("\n") for part in wrap(line, int(wide / 72 * LETTERS_PER_INCH))]
    axis.set_title("\n".join(lines), y=1.0, visible=False)  # where one without y would stand is searched for
    axis.set_xlabel(x, visible=False)
    axis.set_ylabel(y, visible=False)
    above = [(line, (wide / 2, tall + 8.5 + 11 * row)) for row, line in enumerate(reversed(lines))]
    _words_at(axis, above, size=9.5, weight="bold")
    _words_at(axis, [(x, (wide / 2, -30))] if x else [], size=9)
    _words_at(axis, [(y, (-46, tall / 2))] if y else [], size=9, turn=90)


def legend(figure, handles, columns=None):
    """The legend below everything: rows of so many handles, patches or lines, each row in the middle.

    matplotlib's own measures and lays out boxes in boxes, which takes as long as drawing a view.
    """
    columns = columns or len(handles)
    rows = [handles[first : first + columns] for first in range(0, len(handles), columns)]
    points = Affine2D().scale(1 / 72) + figure.dpi_scale_trans
    words = []
    for above, row in enumerate(reversed(rows)):
        widths = [KEY + 6 + width_of(handle.get_label(), LETTERS) for handle in row]
        left = (72 * figure.get_figwidth() - sum(widths) - BETWEEN * (len(row) - 1)) / 2
        for handle, width in zip(row, widths):
            y = 13 + 13 * above
            figure.add_artist(_key(handle, left, y, points))
            words.append((handle.get_label(), (left + KEY + 6, y)))
            left += width + BETWEEN
    figure.add_artist(letters(figure, words, LETTERS, at=points, align="left"))


def _key(handle, x, y, points):
    """A copy of a patch or a line at its place in points."""
    if isinstance(handle, Patch):
        key = Rectangle((x, y - 3), KEY, 6)
    else:
        key = Line2D([x, x + KEY / 2, x + KEY], [y] * 3)
    key.update_from(handle)
    if isinstance(key, Line2D):
        key.set_markevery([1])  # in the middle
    key.set_transform(points)
    key.set_clip_on(False)  # to the axis that it was drawn in
    return key


def boxes(axis, left, right, top, bottom, name):
    """Boxes of a part of the work; so many that nobody could tell their hatch or edges have none.

    Those and the hatched are one path: a hatch is drawn anew for each, and many small paths take long to make. The
    limits of the axis are left as they are.
    """
    face, edge, hatch = LOOKS[name]
    many, polygons = len(left) > MOST_HATCHED, corners(*map(np.asarray, (left, right, top, bottom)))
    plain = {"facecolor": "#8FD3BD" if hatch else face, "lw": 0, "antialiased": False}
    look = plain if many else {"facecolor": face, "edgecolor": edge, "lw": 0.5, "hatch": hatch}
    if len(polygons) and (many or hatch):
        axis.add_artist(PathPatch(Path.make_compound_path_from_polys(polygons), **look))
    elif len(polygons):
        axis.add_collection(PolyCollection(polygons, **look), autolim=False)


def stage_ticks(axis, count, most, prefix="P", extra=()):
    """At most about `most` names for 1..count."""
    step = max(-(-count // most), 1)
    places = range(step, count + 1, step)
    tick_names(axis, places, [f"{prefix}{k}{extra[k - 1] if extra else ''}" for k in places])
