"""The runs behind the explorer of PPRS: GD, AGD and PPRS on one problem, remembered, so that a slider can be moved.

Iterates do not depend on Delta, only their clock does: one run serves every depth. The work of a redraw is bounded; a
run that would be longer is made as far as that goes, and says so.
"""

from contextlib import nullcontext
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np

from lpkit.explore_pprs_records import recorded, steps_to
from lpkit.explore_pprs_state import FROG
from lpkit.hard_functions import l1_chain, nesterov_max, smooth_chain
from lpkit.problems import random_max_affine
from lpkit.smoothing import agd, gd, pprs

__all__ = ["RATES", "Run", "budget", "first_hits", "fitting", "on_one_thread", "pays_from", "problem_of", "runs_of",
           "slots", "start_error", "steps_made", "steps_told"]

RATES = tuple(float(f"{10**e:.3g}") for e in np.linspace(-4, 0, 9))  # of GD and AGD, half decades
MOST_WORK = 40_000  # of the runs of one redraw, in subgradients of 50 numbers; a step alone costs as much as 100


class Run(NamedTuple):
    """A method at a setting; arrays have one row a seed.

    `errors` (seeds, steps + 1) are losses above the optimum, inf once a run has stopped, and None where only a record
    is left; `reached` is the mean of the last tenth of the steps in the time (of a record: the loss); `hits` are the
    steps to the target, inf if it is never reached.
    """

    method: str
    K: int
    lr: float
    gamma: float
    reached: np.ndarray
    hits: np.ndarray
    errors: np.ndarray | None


@cache
def _problem(name, dimension):
    made = {"max_affine": lambda n: random_max_affine(n, 2 * n), "l1_chain": l1_chain, "nesterov_max": nesterov_max,
            "smooth_chain": smooth_chain}  # fmt: skip
    return made[name](dimension)


def problem_of(state):
    """The problem of a state; of the recorded attack none.

    Examples
    --------
    >>> from lpkit.explore_pprs_state import PprsState
    >>> problem_of(PprsState("l1_chain", dimension=4)).R
    1.0
    """
    return None if state.problem == FROG else _problem(state.problem, state.dimension)


def start_error(state):
    """Loss above the optimum at the start; of the recorded attack the loss.

    Examples
    --------
    >>> from lpkit.explore_pprs_state import PprsState
    >>> round(start_error(PprsState("l1_chain", dimension=50)), 6)
    0.01
    """
    if state.problem == FROG:
        return float(recorded(state.Delta, "gd")["start"].iloc[0])
    problem = problem_of(state)
    return float(problem.value(problem.start[None])[0]) - problem.optimum


def slots(steps, K, Delta):
    """Simulated time of so many steps, 2T(K + Delta - 1); inf stays inf.

    Examples
    --------
    >>> slots(50, 100, 20)
    11900
    """
    return 2 * steps * (K + Delta - 1)


def budget(state):
    """Slots that all methods are given.

    Examples
    --------
    >>> from lpkit.explore_pprs_state import PprsState
    >>> budget(PprsState(steps=300, Delta=20))
    12000
    """
    return slots(300 if state.problem == FROG else state.steps, 1, state.Delta)


def steps_made(state, K=None, seeds=None):
    """Steps of PPRS that are made: as many as of GD, but no more than the work of a redraw allows.

    Examples
    --------
    >>> from lpkit.explore_pprs_state import PprsState
    >>> steps_made(PprsState()), steps_made(PprsState(K=1000, steps=1000))
    (121, 12)
    """
    K, seeds = K or state.K, seeds or state.seeds
    return max(1, min(state.steps, int(MOST_WORK / (seeds * (100 + K * state.dimension / 50)))))


def fitting(state, K):
    """Steps with K samples that the time has, at least 1.

    Examples
    --------
    >>> from lpkit.explore_pprs_state import PprsState
    >>> fitting(PprsState(steps=300, Delta=20), 100)
    50
    """
    return max(1, state.steps * state.Delta // (K + state.Delta - 1))


def steps_told(state):
    """Steps of PPRS whose result is told: those that are made and fit into the time.

    Examples
    --------
    >>> from lpkit.explore_pprs_state import PprsState
    >>> steps_told(PprsState()), int(slots(103, 10, 20)), budget(PprsState())
    (103, 5974, 6000)
    """
    return min(steps_made(state), fitting(state, state.K))


@cache
def _libraries():
    """What sets the threads of numpy's matrix products; None where threadpoolctl is not installed."""
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:
        return None
    return ThreadpoolController()


def on_one_thread():
    """A context in which a matrix product has one thread: these are so small that more mostly wait for each other.

    Examples
    --------
    >>> with on_one_thread():
    ...     float(np.ones(3) @ np.ones(3))
    3.0
    """
    return nullcontext() if _libraries() is None else _libraries().limit(limits=1, user_api="blas")


@lru_cache(maxsize=128)
def _single(name, dimension, method, mu, steps, rates):
    problem = _problem(name, dimension)
    lr = np.array(rates)
    with on_one_thread():
        trace = gd(problem, steps, lr=lr) if method == "GD" else agd(problem, steps, lr=lr, mu=mu)
    return _errors(trace.values, problem, steps)


@lru_cache(maxsize=1024)
def _perturbed(name, dimension, K, lr, gamma, mu, steps, seed, until):
    """Errors (1, steps + 1) of one run of PPRS, which ends where its error is at most `until`."""
    problem = _problem(name, dimension)
    with on_one_thread():
        trace = pprs(problem, steps, K=K, lr=lr, gamma=gamma, mu=mu, seed=seed,
                     callback=lambda _, values: bool(values[0] - problem.optimum <= until))  # fmt: skip
    return _errors(trace.values, problem, steps)


def _errors(values, problem, steps):
    """Losses above the optimum, inf from where a run stopped."""
    errors = np.full((len(values), steps + 1), np.inf)
    errors[:, : values.shape[1]] = np.where(np.isfinite(values), values - problem.optimum, np.inf)
    errors.flags.writeable = False
    return errors


def runs_of(state):
    """GD, AGD and PPRS as `Run`.

    Examples
    --------
    >>> from lpkit.explore_pprs_state import PprsState
    >>> [(run.method, run.lr, len(run.hits)) for run in runs_of(PprsState(steps=50))]
    [('GD', 0.1, 1), ('AGD', 0.01, 1), ('PPRS', 0.01, 3)]
    """
    return _recorded_runs(state) if state.problem == FROG else _runs(state)


@lru_cache(maxsize=64)
def _recorded_runs(state):
    rate = None if state.rates == "best" else state.lr
    found = {"GD": recorded(state.Delta, "gd", lr=rate), "AGD": recorded(state.Delta, "agd", lr=rate),
             "PPRS": recorded(state.Delta, "pprs", state.K, state.lr, state.gamma)}  # fmt: skip
    runs = []
    for method, rows in found.items():
        K, lr, gamma = int(rows["K"].iloc[0]), float(rows["lr"].iloc[0]), float(rows["gamma"].iloc[0])
        hits = steps_to(state.target, method.lower(), K, lr, gamma)
        runs.append(Run(method, K, lr, gamma, rows["tail mean"].to_numpy(float), hits, None))
    return tuple(runs)


@lru_cache(maxsize=64)
def _runs(state):
    target = state.target * start_error(state)
    rates = RATES if state.rates == "best" else (state.lr,)
    runs = []
    for method in ("GD", "AGD"):
        errors = _single(state.problem, state.dimension, method, state.mu, state.steps, rates)
        best = int(_tail(errors, state.steps).argmin())
        runs.append(_run(method, 1, rates[best], 0.0, errors[best : best + 1], state, target))
    errors = [_seed(state, state.K, steps_made(state), seed, -np.inf) for seed in range(state.seeds)]
    return (*runs, _run("PPRS", state.K, state.lr, state.gamma, np.concatenate(errors), state, target))


def first_hits(state, K):
    """PPRS with K samples as `Run`, by the first seed and until it reaches the target or the time is over.

    Examples
    --------
    >>> from lpkit.explore_pprs_state import PprsState
    >>> run = first_hits(PprsState(), 25)
    >>> run.K, int(run.hits[0]) <= fitting(PprsState(), 25)
    (25, True)
    """
    target = state.target * start_error(state)
    steps = min(steps_made(state, K, 1), fitting(state, K))
    errors = runs_of(state)[-1].errors[:1, : steps + 1] if K == state.K else ()
    errors = errors if len(errors) and errors.shape[1] > steps else _seed(state, K, steps, 0, target)
    return _run("PPRS", K, state.lr, state.gamma, errors, state, target)


def _seed(state, K, steps, seed, until):
    return _perturbed(state.problem, state.dimension, K, state.lr, state.gamma, state.mu, steps, seed, until)


def _run(method, K, lr, gamma, errors, state, target):
    hit = errors <= target
    hits = np.where(hit.any(axis=1), hit.argmax(axis=1).astype(float), np.inf)
    return Run(method, K, lr, gamma, _tail(errors, fitting(state, K)), hits, errors)


def _tail(errors, steps):
    """Mean of the last tenth of the first so many steps, as far as they were made."""
    last = min(steps, errors.shape[1] - 1)
    return errors[:, last - last // 10 : last + 1].mean(axis=1)


def pays_from(run, other):
    """Least Delta at which `run` reaches its target before `other`, by the median of its seeds; None if at none.

    Examples
    --------
    >>> one, ten = (Run("", K, 0, 0, None, np.array([hits]), None) for K, hits in ((1, 100.0), (10, 40.0)))
    >>> pays_from(ten, one), pays_from(one, one)
    (7, None)
    """
    mine, theirs = float(np.median(run.hits)), float(np.median(other.hits))
    if np.isinf(mine):
        return None
    if np.isinf(theirs):
        return 1
    if mine >= theirs:
        return 1 if mine * run.K < theirs * other.K else None
    return max(1, int(np.floor((mine * (run.K - 1) - theirs * (other.K - 1)) / (theirs - mine))) + 1)
