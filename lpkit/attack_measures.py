"""One function a claim of PPRS (NeurIPS 2019), section 5: from the name of a reading to a number.

The numbers come from stored records of the attack frog to horse on images 0, 22 and 23 of CIFAR-10
(`lpkit.attack_tables`), so the reading, which is one of cycles, plays no part. Image 0 stands for the paper's, which is
not named. All methods are given the same simulated time, in which gradient descent makes 300 steps; a setting is judged
by its tail mean.
"""

import numpy as np

from lpkit.attack_tables import TARGETS, best_settings, frogs, frogs_long, on_paper_grid

__all__ = []  # used through the ledger: `lpkit.claims`

FIRST = 0  # image


def _first_seed(grid="half decades"):
    frame = frogs()
    frame = frame[(frame["seed"] == 0) & (frame["method"] != "fista")]
    return frame[on_paper_grid(frame)] if grid == "paper" else frame


def _best_rate(method, K):
    return _least_rate(_first_seed("paper").query("image == @FIRST and method == @method and K == @K"), "tail mean")


def _long_rate(method):
    return _least_rate(frogs_long().query("image == @FIRST and method == @method"), "tail mean long")


def _least_rate(rows, column):
    rows = rows.query("Delta == 200")
    return float(rows.loc[rows[column].idxmin(), "lr"])


# Best learning rates on the paper's grid


def gd_best_rate(read):
    return _best_rate("gd", 1)


def gd_best_rate_long(read):
    """The same after 4,000 steps."""
    return _long_rate("gd")


def agd_best_rate(read):
    return _best_rate("agd", 1)


def agd_best_rate_long(read):
    return _long_rate("agd")


def pprs_2_best_rate(read):
    return _best_rate("pprs", 2)


def pprs_10_best_rate(read):
    return _best_rate("pprs", 10)


def pprs_100_best_rate(read):
    return _best_rate("pprs", 100)


def _ends(K, grid="paper"):
    """Tail means over the loss of the untouched image, of the settings with lr = 1e-3 on the first image."""
    rows = _first_seed(grid).query("image == @FIRST and Delta == 200 and method == 'pprs' and K == @K")
    rows = rows[np.isclose(rows["lr"], 1e-3)]
    return (rows["tail mean"] / rows["start"]).to_numpy()


def pprs_2_diverges(read):
    """Share of gammas with which K = 2 and lr = 1e-3 ends above the untouched image."""
    return float(np.mean(_ends(2) > 1))


def pprs_10_converges(read):
    """Loss with K = 10, lr = 1e-3 and the best gamma over that of the untouched image."""
    return float(_ends(10).min())


def pprs_100_converges(read):
    return float(_ends(100).min())


def pprs_100_converges_wider(read):
    """The same with gamma = 1e-2 as well, which is outside the paper's grid."""
    return float(_ends(100, "half decades").min())


# PPRS against gd and agd


def _wins(grid, Delta):
    """Share of images on which the best of pprs is below the best of gd and agd."""
    best = best_settings(_first_seed(grid).query("Delta == @Delta"), grid)
    least = best.assign(pprs=best["method"] == "pprs").groupby(["image", "pprs"])["tail mean"].min().unstack()
    return float((least[True] < least[False]).mean())


def pprs_wins_20(read):
    return _wins("paper", 20)


def pprs_wins_200(read):
    return _wins("paper", 200)


def pprs_wins_20_half_decades(read):
    return _wins("half decades", 20)


def pprs_wins_200_half_decades(read):
    return _wins("half decades", 200)


def _times(Delta):
    """Least time to each target on the first image: (of gd and agd, of pprs), each an array over the targets."""
    rows = _first_seed().query("image == @FIRST and Delta == @Delta")
    names = [f"time to {target}" for target in TARGETS]
    return tuple(rows[(rows["method"] == "pprs") == pipelined][names].min().to_numpy() for pipelined in (False, True))


def pprs_speedup_200(read):
    """Median over the losses that pprs reaches of the time of the best of gd and agd over that of the best pprs."""
    alone, pipelined = _times(200)
    return float(np.median(alone[np.isfinite(pipelined)] / pipelined[np.isfinite(pipelined)]))


def pprs_speedup_20(read):
    alone, pipelined = _times(20)
    return float(np.median(alone[np.isfinite(pipelined)] / pipelined[np.isfinite(pipelined)]))


def depth_costs(read):
    """Median over losses of the time of pprs at Delta = 200 over that at 20; of gd and agd it is 10."""
    shallow, deep = _times(20)[1], _times(200)[1]
    both = np.isfinite(shallow) & np.isfinite(deep)
    return float(np.median(deep[both] / shallow[both]))


# More samples


def _by_samples(column):
    """Rows of the first image at Delta = 200, by lr and gamma, a column for each K; settings run for all K only."""
    rows = _first_seed().query("image == @FIRST and Delta == 200 and method == 'pprs'")
    return rows.pivot(index=["lr", "gamma"], columns="K", values=column).dropna()


def more_samples_more_stable(read):
    """Share of settings, run with K = 2, 10 and 100, in which more samples end no higher (to 1 %) after all steps."""
    ends = _by_samples("tail mean long").to_numpy()
    return float(np.mean(ends[:, 1:] <= 1.01 * ends[:, :-1]))


def more_samples_faster(read):
    """Share of losses which K = 100 reaches sooner than K = 10, and that sooner than K = 2, at Delta = 200."""
    rows = _first_seed().query("image == @FIRST and Delta == 200 and method == 'pprs'")
    least = rows.groupby("K")[[f"time to {target}" for target in TARGETS]].min().to_numpy()
    reached = np.isfinite(least).any(axis=0)
    return float(np.mean((least[1:] < least[:-1])[:, reached]))
