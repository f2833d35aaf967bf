"""How soon gradient descent and PPRS reach a precision on convex functions whose optimum, L and R are known.

Each method is run twice: with the parameters that its theorem gives for the precision, and with the best of a grid,
picked afterwards for each precision. Steps do not depend on the depth, so one run serves all depths.
Source: PPRS (NeurIPS 2019), sections 3 and 4, whose bounds are put to trial; the grids are ours.
"""

import math
from functools import cache
from typing import NamedTuple

import numpy as np
import pandas as pd

from lpkit.baselines import decaying_gd
from lpkit.checks import real, shown, whole_number
from lpkit.descent import grid
from lpkit.pipeline_time import pipeline_time
from lpkit.problems import Problem, known, random_max_affine
from lpkit.rates import naive_nonsmooth, pprs_error, pprs_iterations
from lpkit.smoothing import agd, gd, pprs, theorem_parameters

__all__ = [
    "Trial", "errors_and_bounds", "fastest", "iterations_to", "random_trial", "smooth_iterations", "theorem_iterations",
    "trial_times",
]  # fmt: skip

STEPS = np.logspace(-3, 0, 7)  # in units of R / L, for gradient descent
ACCELERATED = np.logspace(-4, -1, 7)  # the same with momentum 0.99
WIDTHS = np.array([1e-3, 3e-3, 1e-2, 3e-2])  # gamma in units of R
FACTORS = np.array([1.0, 3.0, 10.0, 30.0])  # lr in units of gamma / L; the theorem has 1


def iterations_to(problem, precisions, *, samples=(1, 2, 10, 100), most=2000, seed=0):
    """Least number of steps to each precision, over the grid of each method.

    Parameters
    ----------
    problem : Problem
        With `optimum`, `L` and `R`.
    precisions : sequence of float
        eps: a step counts from the first iterate whose value is at most the optimum + eps.
    samples : sequence of int
        K of PPRS, which has Nesterov's momentum.
    most : int
        Steps of gradient descent at the most; of PPRS with K samples, most / sqrt K.
    seed : int
        Of the perturbations.

    Returns
    -------
    pandas.DataFrame
        Columns ``method`` ("gd": the best of constant steps, of steps falling as 1/sqrt t and of momentum 0.99;
        "pprs"), ``K``, ``eps``, ``steps`` (inf if never reached).

    Raises
    ------
    ValueError
        If the problem does not state these, a precision is negative, or a count is not a whole number of at least 1.

    Examples
    --------
    >>> from lpkit.problems import random_max_affine
    >>> iterations_to(random_max_affine(20, 40), [0.1, 0.05], samples=[10])
      method   K   eps  steps
    0     gd   1  0.10   15.0
    1     gd   1  0.05   32.0
    2   pprs  10  0.10   11.0
    3   pprs  10  0.05   18.0
    """
    optimum, L, R = known(problem, "optimum", "L", "R")
    precisions = grid(precisions=precisions)[0]["precisions"].tolist()
    samples, most = [whole_number(K, "samples") for K in samples], whole_number(most, "most")
    targets, unit = optimum + np.array(precisions), R / L
    until = {"callback": lambda _, values: bool(np.nanmin(values) <= targets.min())}
    single = [gd(problem, most, lr=STEPS * unit, **until), decaying_gd(problem, most, lr=STEPS * unit, **until),
              agd(problem, most, lr=ACCELERATED * unit, **until)]  # fmt: skip
    found = [("gd", 1, np.min([_first(trace, targets) for trace in single], axis=0))]
    gamma = WIDTHS[:, None] * problem.R
    for K in samples:
        trace = pprs(problem, math.ceil(most / K**0.5), K=K, lr=FACTORS * gamma / problem.L, gamma=gamma, mu="nesterov",
                     seed=seed, **until)  # fmt: skip
        found.append(("pprs", K, _first(trace, targets)))
    return pd.DataFrame([(method, K, eps, steps) for method, K, hits in found for eps, steps in zip(precisions, hits)],
                        columns=["method", "K", "eps", "steps"])  # fmt: skip


class Trial(NamedTuple):
    """A problem and the steps to each precision, tuned (`iterations_to`) and proved (`theorem_iterations`)."""

    problem: Problem
    tuned: pd.DataFrame
    proved: pd.DataFrame


def random_trial(seed, precisions=(0.05, 0.02, 0.01), *, dimension=100, samples=(1, 2, 10, 100), most=600):
    """The `Trial` of a random max-affine function of 2 d rows; remembered, so do not change what it holds.

    Parameters
    ----------
    seed : int
        Of the function and of the perturbations.
    precisions, samples, most
        As for `iterations_to`.

    Raises
    ------
    ValueError
        If there is no precision or no K, or as `iterations_to`.

    Examples
    --------
    >>> random_trial(0, [0.1], dimension=20, samples=[10]).tuned["steps"].tolist()
    [15.0, 11.0]
    """
    precisions, samples = (np.atleast_1d(values).ravel().tolist() for values in (precisions, samples))
    if not precisions or not samples:
        raise ValueError(f"precisions are {shown(precisions)} and samples {shown(samples)}; give at least one of each")
    return _random_trial(seed, tuple(precisions), dimension, tuple(samples), most)


@cache
def _random_trial(seed, precisions, dimension, samples, most):
    problem = random_max_affine(dimension, 2 * dimension, seed=seed)
    proved = pd.concat([theorem_iterations(problem, eps, seed=seed) for eps in precisions], ignore_index=True)
    return Trial(problem, iterations_to(problem, precisions, samples=samples, most=most, seed=seed), proved)


def _first(trace, targets):
    """Step at which any setting is first at most each target; inf if none ever is."""
    least = np.fmin.reduce(trace.values, axis=0)
    hit = least <= targets[:, None]
    return np.where(hit.any(axis=1), trace.iterations[hit.argmax(axis=1)], np.inf)


def theorem_iterations(problem, eps, *, seed=0):
    """Steps to a precision, with the parameters for which it is proved: a row for "gd" and one for "pprs".

    Gradient descent has the steps R / (L sqrt T) with T = (RL/eps)^2, PPRS the parameters of
    `lpkit.smoothing.theorem_parameters`.

    Parameters
    ----------
    problem : Problem
        With `optimum`, `L` and `R`.
    eps : float
        The precision.
    seed : int
        Of the perturbations.

    Returns
    -------
    pandas.DataFrame
        Columns method, K, eps, steps (made until f is within `eps`) and proved (those that are enough for sure).

    Raises
    ------
    ValueError
        If the problem does not state these, or `eps` is not a finite number above 0.

    Examples
    --------
    >>> from lpkit.problems import random_max_affine
    >>> theorem_iterations(random_max_affine(20, 40), 0.1)
      method   K  eps  steps  proved
    0     gd   1  0.1     22     100
    1   pprs  20  0.1     47      84
    """
    known(problem, "optimum", "L", "R")
    until = {"callback": lambda _, values: bool(values[0] <= problem.optimum + eps)}
    single = int(naive_nonsmooth(eps, L=problem.L, R=problem.R)) // 2
    T = int(pprs_iterations(eps, L=problem.L, R=problem.R, dimension=problem.dimension)[0])
    chosen = theorem_parameters(T, problem.L, problem.R, problem.dimension)
    traces = (gd(problem, single, lr=problem.R / (problem.L * single**0.5), **until),
              pprs(problem, T, **chosen._asdict(), seed=seed, **until))  # fmt: skip
    rows = [(name, trace.K, eps, int(trace.iterations[-1]), proved)
            for name, trace, proved in zip(("gd", "pprs"), traces, (single, T))]  # fmt: skip
    return pd.DataFrame(rows, columns=["method", "K", "eps", "steps", "proved"])


def smooth_iterations(problem, eps, *, samples=(2, 10, 100), gammas=(1e-3, 1e-2, 1e-1), most=100, seed=0):
    """Steps to a precision on a smooth function: Nesterov's method ("agd"), and PPRS for each K and gamma; lr 1/beta.

    Parameters
    ----------
    problem : Problem
        With `optimum`, `beta` and `R`.
    gammas : sequence of float
        In units of R.

    Raises
    ------
    ValueError
        If the problem does not state these, or a number is out of range.

    Examples
    --------
    >>> from lpkit.hard_functions import smooth_chain
    >>> rows = smooth_iterations(smooth_chain(9), 0.01, samples=[10], gammas=[0.01])
    >>> rows.drop(columns="gamma").values.tolist()
    [['agd', 1, 0.01, 5.0], ['pprs', 10, 0.01, 5.0]]
    """
    optimum, beta, _ = known(problem, "optimum", "beta", "R")
    lr, target = 1 / beta, np.array([optimum + real(eps, "eps")])
    rows = [("agd", 1, 0.0, eps, *_first(agd(problem, most, lr=lr, mu="nesterov"), target))]
    for K in samples:
        for gamma in gammas:
            trace = pprs(problem, most, K=K, lr=lr, gamma=gamma * problem.R, mu="nesterov", seed=seed)
            rows.append(("pprs", K, gamma, eps, *_first(trace, target)))
    return pd.DataFrame(rows, columns=["method", "K", "gamma", "eps", "steps"])


def fastest(rows, depths):
    """Slots to each precision at each depth, of gradient descent and of PPRS with the best K.

    Parameters
    ----------
    rows : pandas.DataFrame
        Of `iterations_to`, for one problem.
    depths : sequence of int
        Delta.

    Returns
    -------
    pandas.DataFrame
        Columns ``eps``, ``Delta``, ``gd``, ``pprs``, ``K`` (the largest of the best), ``speedup`` = gd / pprs.

    Examples
    --------
    >>> rows = pd.DataFrame([("gd", 1, 0.1, 40.0), ("pprs", 1, 0.1, 50.0), ("pprs", 10, 0.1, 9.0)],
    ...                     columns=["method", "K", "eps", "steps"])
    >>> fastest(rows, [1, 20])
       eps  Delta      gd   pprs   K   speedup
    0  0.1      1    80.0  100.0   1  0.800000
    1  0.1     20  1600.0  522.0  10  3.065134
    """
    timed = trial_times(rows, depths)
    timed = timed.sort_values(["slots", "K"], ascending=[True, False], kind="stable")  # of equals the largest K first
    first = timed.drop_duplicates(["method", "eps", "Delta"]).set_index(["eps", "Delta"])
    single, ours = (first[first["method"] == method] for method in ("gd", "pprs"))
    found = pd.DataFrame({"gd": single["slots"], "pprs": ours["slots"], "K": ours["K"]})
    found = found.reindex(pd.MultiIndex.from_product([rows["eps"].unique(), depths], names=["eps", "Delta"]))
    return found.assign(speedup=found["gd"] / found["pprs"]).reset_index()


def trial_times(rows, depths):
    """The rows of `iterations_to` or `theorem_iterations` at each depth, with their slots 2 steps (K + Delta - 1).

    Raises
    ------
    ValueError
        If a depth is not a whole number of at least 1, or there is none.

    Examples
    --------
    >>> rows = pd.DataFrame([("pprs", 10, 0.1, 9.0)], columns=["method", "K", "eps", "steps"])
    >>> trial_times(rows, [1, 20])[["Delta", "slots"]].values.tolist()
    [[1.0, 180.0], [20.0, 522.0]]
    """
    if not np.iterable(depths) or not len(depths):
        raise ValueError(f"depths are {shown(depths)}; give at least one whole number, in a list")
    timed = rows.assign(Delta=[list(depths)] * len(rows)).explode("Delta", ignore_index=True).astype({"Delta": int})
    return timed.assign(slots=timed["steps"] * [pipeline_time(1, *pair) for pair in zip(timed["K"], timed["Delta"])])


def errors_and_bounds(problem, iterations, *, seeds=10):
    """Error after T steps with the theorem's parameters beside its bound: one row a T and seed.

    Parameters
    ----------
    problem : Problem
        With `optimum`, `L` and `R`.
    iterations : sequence of int
        Steps T.
    seeds : int
        Of the perturbations: 0, 1, ...

    Returns
    -------
    pandas.DataFrame
        Columns d, T, K, seed, error (f at the last iterate, over its least value), bound.

    Raises
    ------
    ValueError
        If the problem does not state these, or a number is not a whole number of at least 1.

    References
    ----------
    PPRS (NeurIPS 2019), Theorem 4, with the constant of `lpkit.rates.pprs_error`.

    Examples
    --------
    >>> from lpkit.problems import random_max_affine
    >>> rows = errors_and_bounds(random_max_affine(16, 32), [9], seeds=3)
    >>> rows["bound"].tolist(), bool((rows["error"] < rows["bound"]).all())
    ([0.8, 0.8, 0.8], True)
    """
    known(problem, "optimum", "L", "R")
    rows, seeds = [], whole_number(seeds, "seeds")
    for T in iterations:
        chosen = theorem_parameters(T, problem.L, problem.R, problem.dimension)
        bound = float(pprs_error(T, L=problem.L, R=problem.R, dimension=problem.dimension))
        for seed in range(seeds):
            last = pprs(problem, T, **chosen._asdict(), seed=seed, record_every=T).values[0, -1]
            rows.append((problem.dimension, T, chosen.K, seed, float(last - problem.optimum), bound))
    return pd.DataFrame(rows, columns=["d", "T", "K", "seed", "error", "bound"])
