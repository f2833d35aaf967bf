"""The loop that all optimisers share: a grid of settings in one batch, records, and settings that stop.

A method is a function ``step(t, state, settings, rng) -> state`` over dicts of arrays whose first axis is that of the
settings; ``state["y"]`` is what is recorded. Problems are known by their protocol only (`lpkit.problems`).
"""

import math

import numpy as np

from lpkit.checks import choice, shown, whole_number
from lpkit.traces import Trace, flushed

__all__ = ["descend", "grid", "mean_subgradients"]

DTYPES = ("float32", "float64")
MOST_NUMBERS = 2**28  # entries of the perturbed points of one step
MOST_STEPS = 10_000_000  # sequences of momenta and factors are made before the first one
PROTOCOL = ("value_and_subgradient", "value", "dimension", "start")


def grid(**values):
    """Settings from numbers and arrays that broadcast: dict of flat arrays, and the shape of the grid.

    Raises
    ------
    ValueError
        If a value is not a finite number of at least 0, or the shapes do not fit.

    Examples
    --------
    >>> settings, shape = grid(lr=[[0.1], [1]], gamma=[1e-3, 1e-2, 1e-1])
    >>> settings["lr"].tolist(), shape
    ([0.1, 0.1, 0.1, 1.0, 1.0, 1.0], (2, 3))
    """
    arrays = {name: _numbers(name, value) for name, value in values.items()}
    try:
        shape = np.broadcast_shapes(*(a.shape for a in arrays.values()))
    except ValueError:
        shapes = ", ".join(f"{name} {a.shape}" for name, a in arrays.items())
        raise ValueError(f"the shapes {shapes} do not broadcast; give one setting for each, or a grid") from None
    if math.prod(shape) > MOST_NUMBERS:
        raise ValueError(f"the grid has shape {shape}, {math.prod(shape):,} settings; give at most {MOST_NUMBERS:,}")
    return {name: np.broadcast_to(a, shape).ravel() for name, a in arrays.items()}, shape


def _numbers(name, value):
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "iuf":
            raise TypeError
    except (TypeError, ValueError):
        raise ValueError(f"{name} is {shown(value)}; give a number or an array of numbers, at least 0") from None
    if not array.size:
        raise ValueError(f"{name} is empty; give at least one number")
    bad = ~(np.isfinite(array) & (array >= 0))
    if bad.any():
        raise ValueError(f"{name} has {shown(array[bad].flat[0])}; it must be a finite number, at least 0")
    return array.astype(float)


def mean_subgradients(problem, points, *, lengths=False):
    """Mean over the K points of each setting of their subgradients; NaN where a loss is not finite.

    Parameters
    ----------
    points : array (settings, K, d)
    lengths : bool
        Return also the root mean square of their lengths, array (settings,).

    Returns
    -------
    array (settings, d)

    Raises
    ------
    ValueError
        If the problem answers in other shapes, or in no numbers.

    Examples
    --------
    >>> from lpkit.problems import max_affine
    >>> mean_subgradients(max_affine([[1.0]], [1.0]), np.array([[[0.0], [3.0], [4.0], [5.0]]]))  # of -1, 1, 1 and 1
    array([[0.5]])
    """
    S, K, d = points.shape
    answer = problem.value_and_subgradient(points.reshape(S * K, d))
    if not isinstance(answer, (tuple, list)) or len(answer) != 2:
        raise ValueError(f"for points of shape {(S * K, d)} the problem gave {shown(answer)}; "
                         "it must give values and subgradients")  # fmt: skip
    values = _answer(answer[0], "values", (S * K,), points.dtype)
    subgradients = _answer(answer[1], "subgradients", (S * K, d), points.dtype)
    mean = subgradients.reshape(S, K, d).sum(axis=1) / points.dtype.type(K)
    mean[~np.isfinite(values.reshape(S, K)).all(axis=1)] = np.nan
    return (mean, np.sqrt(np.square(subgradients).sum(axis=1).reshape(S, K).mean(axis=1))) if lengths else mean


def _answer(given, name, shape, dtype):
    """What a problem gave as an array of the type of its points."""
    try:
        array = np.asarray(given)
    except ValueError:  # lists of several lengths
        raise ValueError(f"the problem gave {name} {shown(given)}; it must give numbers of shape {shape}") from None
    if array.shape != shape or array.dtype.kind not in "iuf":
        raise ValueError(f"the problem gave {name} of shape {array.shape} and type {array.dtype}; "
                         f"it must give numbers of shape {shape}")  # fmt: skip
    return array.astype(dtype, copy=False)


def descend(problem, iterations, step, *, method, settings, shape, K=1, start=None, seed=0, record_every=1,
            callback=None, dtype="float64", state=None, depth=None, clock=flushed):  # fmt: skip
    """Run `step` from one start in all settings and record the exact loss.

    Parameters
    ----------
    problem : object
        With `value_and_subgradient`, `value` and `start`.
    iterations : int
        Steps, from 0.
    step : callable
        ``step(t, state, settings, rng) -> state``, t = 0, 1, ...; `settings` and `state` hold only settings that run.
    start : array (d,), optional
        Default `problem.start`.
    seed : int
        Of the one generator that all settings share.
    record_every : int
        Steps between records; step 0 and the last one are always recorded.
    callback : callable, optional
        ``callback(iteration, values)`` at each record; the run ends early where it returns True.
    dtype : {"float64", "float32"}
    state : callable, optional
        From the iterates (settings, d) at the start to the other arrays that the method keeps.

    Returns
    -------
    Trace

    Raises
    ------
    ValueError
        If a number is out of range, the start has a wrong shape, the loss there is not finite, the problem lacks
        something or answers in other shapes, or the callback cannot be called.

    Examples
    --------
    >>> from lpkit.problems import max_affine
    >>> def halve(t, state, settings, rng):  # a method that asks for no gradient
    ...     return {"y": settings["factor"][:, None] * state["y"]}
    >>> settings, shape = grid(factor=0.5)
    >>> trace = descend(max_affine([[1.0]], [0.0]), 3, halve, method="halving", settings=settings, shape=shape,
    ...                 start=[8.0])
    >>> trace.values.tolist()
    [[8.0, 4.0, 2.0, 1.0]]
    """
    T = whole_number(iterations, "iterations", least=0, most=MOST_STEPS)
    every, rng = whole_number(record_every, "record_every"), np.random.default_rng(
        whole_number(seed, "seed", least=0, most=2**63))  # fmt: skip
    _check_callables(problem, callback)
    first = _start(problem, start, dtype)
    with np.errstate(over="ignore", invalid="ignore"):  # a setting may diverge: that is a result
        run = _Run(problem, first, settings, K, state)
        ended = run.record(0, callback)
        for t in range(0 if ended else T):
            run.here = step(t, run.here, run.used, rng)
            run.keep(np.isfinite(run.here["y"]).all(axis=1), t + 1)
            due = (t + 1) % every == 0 or t + 1 == T or not run.active.size
            if due and (run.record(t + 1, callback) or not run.active.size):
                break
    return Trace(method, getattr(problem, "name", type(problem).__name__), np.stack(run.values, axis=1),
                 np.array(run.times), run.points, settings, shape, run.stopped, K, getattr(problem, "samples", 1),
                 depth, clock)  # fmt: skip


class _Run:
    """What changes during a run. Arrays of settings that have stopped are dropped, so that they cost nothing."""

    def __init__(self, problem, first, settings, K, state):
        S = len(next(iter(settings.values())))
        if S * K * len(first) > MOST_NUMBERS:
            raise ValueError(f"{S} settings x {K} points of {len(first)} numbers are too many at once; "
                             f"at most {MOST_NUMBERS:,} numbers: give fewer settings")  # fmt: skip
        self.problem, self.points, self.stopped = problem, np.tile(first, (S, 1)), np.full(S, -1)
        self.active, self.values, self.times = np.arange(S), [], []
        self.used = {name: values.astype(first.dtype) for name, values in settings.items()}
        for name, values in self.used.items():
            if not np.isfinite(values).all():
                raise ValueError(f"{name} has {shown(settings[name].max())}, too large for {first.dtype}; "
                                 "give smaller numbers or dtype='float64'")  # fmt: skip
        self.here = {"y": self.points.copy(), **(state(self.points) if state else {})}

    def keep(self, runs, t):
        """Go on with the settings that `runs` names; the others have stopped at step `t`."""
        if not runs.all():
            self.stopped[self.active[~runs]] = t
            self.active = self.active[runs]
            self.used, self.here = ({n: a[runs] for n, a in arrays.items()} for arrays in (self.used, self.here))
        self.points[self.active] = self.here["y"]

    def record(self, t, callback):
        """Note the losses at step `t`; whether the callback asks for an end."""
        values = np.full(len(self.points), np.nan)
        if self.active.size:
            y = self.here["y"]
            found = _answer(self.problem.value(y), "values", (len(y),), y.dtype)
            if t == 0 and not np.isfinite(found).all():
                raise ValueError(f"the loss at the start is {shown(found[0])}; start where it is finite")
            values[self.active] = np.where(np.isfinite(found), found, np.nan)
            self.keep(np.isfinite(found), t)
        self.values.append(values), self.times.append(t)
        wish = None if callback is None else callback(t, values.copy())
        return isinstance(wish, (bool, np.bool_)) and bool(wish)


def _check_callables(problem, callback):
    if missing := [name for name in PROTOCOL if not hasattr(problem, name)]:
        raise ValueError(f"the problem is {shown(problem)}, without {', '.join(missing)}; give one that has "
                         f"{', '.join(PROTOCOL)}")  # fmt: skip
    if callback is not None and not callable(callback):
        raise ValueError(f"callback is {shown(callback)}; give a function of the iteration and the values")


def _start(problem, start, dtype):
    kind = choice(_dtype_name(dtype), "dtype", DTYPES)
    return point(problem.start if start is None else start, "start", problem.dimension, dtype=kind)


def point(values, name, dimension, *, owner="the problem", dtype="float64"):
    """`values` as a new finite array (dimension,).

    Examples
    --------
    >>> point([1, 2], "start", 2)
    array([1., 2.])
    """
    try:
        with np.errstate(over="ignore"):
            array = np.array(values, dtype=dtype)
    except (TypeError, ValueError):
        raise ValueError(f"the {name} is {shown(values)}; give {dimension} numbers") from None
    if array.shape != (dimension,):
        raise ValueError(f"the {name} has shape {array.shape}; {owner} needs {(dimension,)}")
    if not np.isfinite(array).all():
        raise ValueError(f"the {name} holds NaN or infinity; give finite numbers that {dtype} can hold")
    return array


def _dtype_name(dtype):
    try:
        return str(np.dtype(dtype))
    except TypeError:
        return dtype
