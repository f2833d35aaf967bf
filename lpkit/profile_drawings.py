"""Drawings of plans on measured profiles."""

from itertools import cycle

from matplotlib.ticker import MaxNLocator

from lpkit.plots import new_figure, styled

__all__ = ["profile_ratios"]

# Okabe and Ito's palette; markers and dashes tell the lines apart without colour.
LOOKS = (("#666666", "X", ":"), ("#CC79A7", "D", "--"), ("#D55E00", "s", "-"), ("#009E73", "^", "-"),
         ("#E69F00", "v", "--"), ("#0072B2", "o", "-"), ("#56B4E9", "P", "--"))  # fmt: skip
NEAR_ONE = 1.1  # lines that stay below are also drawn larger


@styled
def profile_ratios(periods, *, title=""):
    """Ratio of PipeDream's least period to LayerPipe's against processors, a line a profile, a panel a split.

    Lines that stay near 1 are drawn once more below, on an axis of their own, where others do not.

    Parameters
    ----------
    periods : pandas.DataFrame
        As `lpkit.profile_measures.profile_periods` gives it.
    """
    splits, looks = periods["split"].unique(), dict(zip(periods["profile"].unique(), cycle(LOOKS)))
    largest = periods.groupby("profile")["ratio"].transform("max")
    near = periods[largest < NEAR_ONE]
    rows = [periods, near] if 0 < len(near) < len(periods) else [periods]
    figure, axes = new_figure(len(rows), len(splits), size=(2.9 * len(splits) + 0.9, 2 * len(rows) + 1.2),
                              sharex=True, sharey="row")  # fmt: skip
    for line, table in zip(axes, rows):
        for axis, split in zip(line, splits):
            _lines(axis, table[table["split"] == split], looks)
    for axis, split in zip(axes[0], splits):
        axis.set_title(f"split: {split}")
    for axis in axes[-1]:
        axis.set_xlabel("processors")
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    figure.supylabel("period of PipeDream / period of LayerPipe", fontsize="medium")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, ncols=min(len(labels), 2 * len(splits)), loc="outside lower center")
    if title:
        figure.suptitle(title)
    return figure


def _lines(axis, rows, looks):
    axis.axhline(1, color="0.4", lw=0.8)
    for name, line in rows.groupby("profile", sort=False):
        color, marker, dashes = looks[name]
        axis.plot(line["processors"], line["ratio"], color=color, marker=marker, ls=dashes, ms=4.5, lw=1.4, label=name)
