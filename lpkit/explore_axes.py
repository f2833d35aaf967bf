"""What the pictures of the explorer have in common: axes at fixed places, names and legends that are drawn fast."""

import numpy as np
from matplotlib.collections import PolyCollection
from matplotlib.ticker import MaxNLocator

from lpkit.explore_letters import tick_names
from lpkit.gantt import LOOKS
from lpkit.gantt_places import corners

__all__ = ["beside", "boxes", "legend", "say", "stage_ticks"]

MOST_HATCHED = 200  # boxes of a part


def beside(figure, count, *, bottom=0.2):
    """Axes side by side with room for a line of title above and a legend below; the first is labelled on the left."""
    axes = figure.subplots(1, count, sharey=True, squeeze=False)[0]
    axes[0].yaxis.set_major_locator(MaxNLocator(6))
    figure.subplots_adjust(left=0.085, right=0.985, top=0.85, bottom=bottom, wspace=0.06)
    return axes


def say(axis, title="", x="", y=""):
    """Title and labels at fixed places: matplotlib measures every tick to find free ones."""
    axis.set_title(title, y=1.0, pad=5)
    wide, tall = np.array(axis.get_position().bounds[2:]) * axis.figure.get_size_inches()
    if x:
        axis.set_xlabel(x)
        axis.xaxis.set_label_coords(0.5, -0.36 / tall)
    if y:
        axis.set_ylabel(y)
        axis.yaxis.set_label_coords(-0.58 / wide, 0.5)


def legend(figure, handles, columns=None):
    """The legend below everything."""
    figure.legend(handles=handles, ncols=columns or len(handles), loc="lower center", fontsize=8.5)


def boxes(axis, left, right, top, bottom, name):
    """Boxes of a part of the work; so many that nobody could tell their hatch or edges have none."""
    face, edge, hatch = LOOKS[name]
    many = len(left) > MOST_HATCHED
    plain = {"facecolor": "#8FD3BD" if hatch else face, "lw": 0, "antialiased": False}
    look = plain if many else {"facecolor": face, "edgecolor": edge, "lw": 0.5, "hatch": hatch}
    axis.add_collection(PolyCollection(corners(*map(np.asarray, (left, right, top, bottom))), **look))


def stage_ticks(axis, count, most, prefix="P", extra=()):
    """At most about `most` names for 1..count."""
    step = max(-(-count // most), 1)
    places = range(step, count + 1, step)
    tick_names(axis, places, [f"{prefix}{k}{extra[k - 1] if extra else ''}" for k in places])
