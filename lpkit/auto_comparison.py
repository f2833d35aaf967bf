"""How far PPRS that chooses for itself is from the best of a grid that knows the problem.

The grid is told L, R and the optimum of each problem, and its best setting is picked afterwards for each target; the
automatic choice is told none of this.
"""

import numpy as np
import pandas as pd

from lpkit.auto_pprs import auto_pprs
from lpkit.checks import real, whole_number
from lpkit.problems import known
from lpkit.smoothing import pprs

__all__ = ["against_grid"]

HALF_DECADES = np.logspace(-2.5, 0, 6)


def against_grid(problem, *, depth, iterations, shares=(0.1, 0.03, 0.01), K=(1, 3, 10, 30, 100),
                 mu=(0.0, 0.9, "nesterov"), lr=HALF_DECADES, gamma=HALF_DECADES, longer=1.5, seed=0):  # fmt: skip
    """Time to several targets, of `auto_pprs` and of the best setting of a grid for each target.

    Parameters
    ----------
    problem : Problem
        With `optimum`, `R` and, unless its first subgradient may stand for it, `L`.
    iterations : int
        Steps of `auto_pprs`.
    shares : sequence of float
        Targets: what is left of the gap between the start and the optimum.
    K, mu : sequence
        Of the grid.
    lr, gamma : sequence of float
        Of the grid, in units of R / L and R / sqrt d.
    longer : float
        The grid may take so many times as long as the automatic choice took to its last target.

    Returns
    -------
    pandas.DataFrame
        One row a target: `share`, `auto` and `best` (slots, inf if not reached), `ratio` of the two (0 if only the
        automatic choice arrives, NaN if neither does), and the best setting.

    Raises
    ------
    ValueError
        If the optimum or R of the problem is not known, or a number is out of range.

    Examples
    --------
    >>> from lpkit.problems import random_max_affine
    >>> rows = against_grid(random_max_affine(5, 9), depth=8, iterations=60, shares=[0.1], K=[4], mu=[0.0])
    >>> rows.columns.tolist(), bool(rows.ratio[0] > 0)
    (['share', 'auto', 'best', 'ratio', 'K', 'mu', 'lr', 'gamma'], True)
    """
    optimum, _ = known(problem, "optimum", "R")
    auto = auto_pprs(problem, iterations, depth=depth, seed=seed)
    gap = auto.values[0, 0] - optimum
    targets = [optimum + real(share, "share", above=True) * gap for share in shares]
    longer = real(longer, "longer", above=True)
    own = np.array([auto.time_to_target(target)[0] for target in targets])
    budget = longer * max([*own[np.isfinite(own)], auto.time()[-1] / 2])
    best = [(np.inf, None, None, None, None)] * len(shares)
    for trace, momentum in _grid(problem, depth, budget, K, mu, lr, gamma, seed):
        for i, target in enumerate(targets):
            times = trace.time_to_target(target, depth)
            j = int(times.argmin())
            setting = (float(times[j]), trace.K, momentum, *(float(trace.settings[n][j]) for n in ("lr", "gamma")))
            best[i] = min(best[i], setting, key=lambda s: s[0])
    rows = [(share, float(a), b[0], _ratio(a, b[0]), *b[1:]) for share, a, b in zip(shares, own, best)]
    return pd.DataFrame(rows, columns=["share", "auto", "best", "ratio", "K", "mu", "lr", "gamma"])


def _ratio(auto, best):
    if np.isinf(best):
        return np.nan if np.isinf(auto) else 0.0
    return float(auto / best) if best else 1.0  # no time at all: the start is near enough


def _grid(problem, depth, budget, samples, momenta, lr, gamma, seed):
    """Traces of all settings, each as long as the budget lets it be."""
    L = problem.L or float(np.linalg.norm(problem.value_and_subgradient(problem.start[None])[1]))
    steps = np.asarray(lr, dtype=float)[:, None] * problem.R / L
    widths = np.asarray(gamma, dtype=float) * problem.R / problem.dimension**0.5
    for K in samples:
        T = int(budget // (2 * (whole_number(K, "K") * problem.samples + depth - 1)))
        for mu in momenta:
            yield pprs(problem, max(T, 1), K=K, lr=steps, gamma=widths, mu=mu, seed=seed, dtype="float32"), mu
