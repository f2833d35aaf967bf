"""PPRS that chooses its own parameters, which the paper leaves to future work.

From the depth Delta alone: K = Delta / 2 samples a step (fewer for a finite sum, whose terms fill the pipeline too), so
that a step lasts at most half as long again as one of gradient descent. From running estimates at every step::

    L   the largest root mean square length of the K subgradients
    R   the larger of the farthest distance gone from the start and three times the best distance of a first search
    t   steps since R was last found to be more than 1.3 times too small
    s = (K d)^(1/4) R / (4 (t + 3))      perturbations of length s: gamma = s / sqrt d
    lr = s / L,  mu = 0.7

After 8 steps, 16 more, 32 more and so on the loss is looked at, in a pass forward of one point. Where it has climbed
above that of the start by more than L R / 10 of the search, R was too large: back to the start, with 0.3 s from then
on.

The search looks along the first subgradient at half decades over eight decades: as no point waits for another, it is
one pass forward of a full pipeline. The form d^(1/4) R / t is that of the theorem, in which gamma sqrt d is
R d^(1/4) / (T + 1) for the last step T; here it holds for all T at once. The numbers 3, 4, 1.3, 0.7 and K^(1/4) were
chosen by trial on problems of other seeds and sizes than those that `tests/test_auto_pprs.py` holds it to, 8, 1/10 and
0.3 also on an attack (one image, two depths, two seeds). Where the first subgradient is no way down at all, as on
Nesterov's max, R starts far too small and much time is lost; nothing is proved of this method.
Source: PPRS (NeurIPS 2019), section 6, for the question; Ivgi, Hinder, Carmon (ICML 2023) for distances gone as R.
"""

from functools import partial

import numpy as np

from lpkit.checks import whole_number
from lpkit.descent import descend, grid, mean_subgradients
from lpkit.pipeline_time import pipeline_time

__all__ = ["auto_pprs", "samples_for"]

MOMENTUM = 0.7
SOONEST = 3  # in R / (t + SOONEST)
LEAP = 1.3  # a growth of R after which t starts again
WIDEN = 3  # times the best distance of the search
LOOK = 8  # steps to the first look at the loss; to each further one twice as many
CLIMB = 0.1  # of L R at the start, that the loss may be above its first value
BACK = 0.3  # of s, after a climb
DISTANCES = np.logspace(-5, 3, 17)  # times the length of the start, or 1 if that is shorter


def samples_for(depth, samples=1):
    """K for a depth and a number of terms of a finite sum: Delta / (2 m), at least 1.

    Raises
    ------
    ValueError
        If a number is not whole or too small.

    Examples
    --------
    >>> samples_for(1), samples_for(20), samples_for(200, samples=10)
    (1, 10, 10)
    """
    return max(1, round(whole_number(depth, "depth") / (2 * whole_number(samples, "samples"))))


def auto_pprs(problem, iterations, *, depth, scale=1.0, **options):
    """PPRS with K, gamma, lr and mu chosen as it runs.

    Parameters
    ----------
    problem : object
        With `value_and_subgradient`, `value`, `dimension` and `start`; nothing else of it is used but `samples`.
    iterations : int
        Steps. The choice does not depend on it: a run can be ended at any step.
    depth : int
        Delta.
    scale : float or array
        Multiplies s; to see what another choice would do. Nothing has to be set.
    options
        `start`, `seed`, `record_every`, `callback`, `dtype` as for `lpkit.descent.descend`.

    Returns
    -------
    Trace
        Its time counts the search, a gradient at the start and a pass forward of 17 points, and the looks at the loss.

    Raises
    ------
    ValueError
        If a number is out of range, or as `descend`.

    Examples
    --------
    >>> from lpkit.problems import random_max_affine
    >>> traces = [auto_pprs(random_max_affine(20, 40, R=R), 60, depth=20) for R in (1e-2, 1, 1e2)]
    >>> [bool(t.values[0, -1] < 0.05 * t.values[0, 0]) for t in traces], int(traces[0].time()[-1])
    ([True, True, True], 3616)
    """
    depth, m = whole_number(depth, "depth"), getattr(problem, "samples", 1)
    K, (settings, shape) = samples_for(depth, m), grid(scale=scale)

    def step(t, state, settings, rng):
        x, type_of = state["x"], state["x"].dtype.type
        s = settings["scale"] * state["share"] * state["R"] * type_of((K * x.shape[1]) ** 0.25 / 4) / (
            state["t"] + SOONEST)  # fmt: skip
        points = (s / type_of(x.shape[1] ** 0.5))[:, None, None] * rng.standard_normal((K, x.shape[1]), dtype=x.dtype)
        points += x[:, None]
        G, length = mean_subgradients(problem, points, lengths=True)
        L = np.maximum(state["L"], length)
        y = x - np.where(L > 0, s / np.where(L > 0, L, 1), 0)[:, None] * G
        R = np.maximum(state["R"], np.linalg.norm(y - state["first"], axis=1))
        leapt = R > LEAP * state["known"]
        after = state | {
            "y": y, "x": y + type_of(MOMENTUM) * (y - state["y"]), "L": L, "R": R,
            "known": np.where(leapt, R, state["known"]), "t": np.where(leapt, 0, state["t"] + 1).astype(x.dtype)}
        return after if _looks(t + 1) == _looks(t) else _back(after, ~(problem.value(y) <= state["most"]))

    return descend(problem, iterations, step, method="auto pprs", settings=settings, shape=shape, K=K, depth=depth,
                   state=partial(_at_start, problem), clock=partial(_slots, m), **options)  # fmt: skip


def _back(state, climbed):
    """Settings whose loss has climbed, or is NaN, begin again with smaller steps; what is known of L stays."""
    kept = {"known": state["near"], "R": state["near"], "t": 0 * state["t"], "share": state["share"].dtype.type(BACK)
            * state["share"], "x": state["first"], "y": state["first"]}  # fmt: skip
    choose = {name: climbed.reshape(-1, *[1] * (before.ndim - 1)) for name, before in kept.items()}
    return state | {name: np.where(choose[name], before, state[name]) for name, before in kept.items()}


def _at_start(problem, points):
    """The search: where along the first subgradient the loss is least. All settings start at one point."""
    first = points[:1]
    slope = mean_subgradients(problem, first[:, None])
    length = np.linalg.norm(slope)
    distances = (DISTANCES * max(1.0, np.linalg.norm(first))).astype(points.dtype)
    along = problem.value(first - distances[:, None] * slope / (length or 1))
    best = distances[np.where(np.isfinite(along), along, np.inf).argmin()]
    fill = np.ones(len(points), points.dtype)
    R = WIDEN * best * fill
    most = problem.value(first)[0] + CLIMB * length * R
    return {"x": points.copy(), "first": points.copy(), "L": length * fill, "R": R, "known": R, "t": 0 * fill,
            "near": R, "share": fill, "most": most}  # fmt: skip


def _looks(iterations):
    """How often the loss has been looked at: at 8, 24, 56, ... steps."""
    return np.frexp(np.asarray(iterations) // LOOK + 1)[1] - 1  # whole binary logarithm, without rounding


def _slots(samples, iterations, gradients, depth):
    """2T(K m + Delta - 1), and m values at each look; at first a gradient of m terms and 17 m values."""
    search = pipeline_time(1, samples, depth) + len(DISTANCES) * samples + depth - 1
    looks = _looks(iterations) * (samples + depth - 1)
    return np.where(iterations > 0, pipeline_time(iterations, gradients, depth) + search + looks, 0)
