"""Gradient descent, Nesterov's acceleration and PPRS, pipeline-parallel randomised smoothing: the paper's Algorithm 1::

    G_t = mean of K subgradients at x_t + gamma X_k,  X_k ~ N(0, I)
    y_{t+1} = x_t - lr G_t
    x_{t+1} = y_{t+1} + mu_t (y_{t+1} - y_t)

The output is y. With K = 1, gamma = 0, mu = 0 it is gradient descent, to the last bit. All settings of a grid run as
one batch with the same X_k (common random numbers), so that their differences are those of the settings;
the last bits of a result may depend on how many run together, as those of a matrix product do.
Source: Colin, Dos Santos, Scaman, Theoretical Limits of Pipeline Parallel Optimization (NeurIPS 2019), section 4.
"""

import math
from typing import NamedTuple

import numpy as np

from lpkit.checks import real, shown, whole_number
from lpkit.descent import MOST_STEPS, descend, grid, mean_subgradients

__all__ = ["Parameters", "agd", "gd", "nesterov_momentum", "pprs", "theorem_parameters"]


def gd(problem, iterations, *, lr, **options):
    """Gradient descent with constant steps; one gradient a step.

    Parameters
    ----------
    problem : object
        With `value_and_subgradient`, `value`, `dimension` and `start`.
    iterations : int
        Steps.
    lr : float or array
        Learning rates; all run as one batch.
    options
        `start`, `record_every`, `callback`, `dtype` as for `lpkit.descent.descend`.

    Returns
    -------
    Trace

    Raises
    ------
    ValueError
        If a learning rate is negative or no finite number, or as `descend`.

    Examples
    --------
    >>> from lpkit.problems import max_affine
    >>> trace = gd(max_affine([[1.0]], [1.0]), 4, lr=[0.125, 0.25, 0.75])  # |x - 1| from 0
    >>> trace.values[:, -1].tolist(), trace.time(depth=20).tolist()
    ([0.5, 0.0, 0.5], [0, 40, 80, 120, 160])
    """
    settings, shape = grid(lr=lr)

    def step(t, state, settings, rng):
        y = state["y"]
        return {"y": y - settings["lr"][:, None] * mean_subgradients(problem, y[:, None])}

    return descend(problem, iterations, step, method="gd", settings=settings, shape=shape, **options)


def agd(problem, iterations, *, lr, mu=0.99, **options):
    """Nesterov's accelerated gradient descent; `mu` a number, an array or ``"nesterov"``. Options as for `gd`.

    Parameters
    ----------
    problem, iterations, lr, options
        As for `gd`.
    mu : float, array or "nesterov"
        Momentum; ``"nesterov"`` is `nesterov_momentum`.

    Returns
    -------
    Trace

    Raises
    ------
    ValueError
        As `gd`, or if `mu` is negative or another text.

    Examples
    --------
    >>> from lpkit.hard_functions import smooth_chain
    >>> problem = smooth_chain(50)
    >>> [float((m(problem, 200, lr=1).values[0, -1] - problem.optimum).round(5)) for m in (gd, agd)]
    [0.00028, 5e-05]
    """
    return _accelerated(problem, iterations, "agd", lr=lr, mu=mu, gamma=0.0, K=1, noise=False, **options)


def pprs(problem, iterations, *, K, lr, gamma, mu=0.0, **options):
    """Pipeline-parallel randomised smoothing: K perturbed subgradients a step, made in one pipeline.

    Parameters
    ----------
    K : int
        Samples a step.
    lr, gamma : float or array
        Learning rate and standard deviation of the perturbation; they broadcast to a grid.
    mu : float, array or "nesterov"
        Momentum; ``"nesterov"`` is the sequence of the theorem, `nesterov_momentum`.
    options
        As for `gd`, and `seed`.

    Returns
    -------
    Trace

    Raises
    ------
    ValueError
        If K is below 1, a setting is negative or no finite number, or as `descend`.

    References
    ----------
    Algorithm 1 of the paper.

    Examples
    --------
    >>> from lpkit.problems import max_affine
    >>> problem = max_affine([[1.0]], [1.0])  # |x - 1|, on which steps of 0.75 leap to and fro
    >>> trace = pprs(problem, 40, K=100, lr=0.75, gamma=[0, 1.0])
    >>> (trace.tail_mean() < 0.1).tolist(), int(trace.time(depth=20)[-1])
    ([False, True], 9520)
    """
    return _accelerated(problem, iterations, "pprs", lr=lr, mu=mu, gamma=gamma, K=whole_number(K, "K"), noise=True,
                        **options)  # fmt: skip


def _accelerated(problem, iterations, method, *, lr, mu, gamma, K, noise, **options):
    """Algorithm 1; without noise the point itself is taken."""
    T = whole_number(iterations, "iterations", least=0, most=MOST_STEPS)
    if isinstance(mu, str):
        if mu != "nesterov":
            raise ValueError(f"mu is {shown(mu)}; give a number, an array of numbers, or 'nesterov'")
        momentum, (settings, shape) = nesterov_momentum(T), grid(lr=lr, gamma=gamma)
    else:
        momentum, (settings, shape) = None, grid(lr=lr, gamma=gamma, mu=mu)

    memory = None  # of the points: asking the system for new megabytes at every step takes as long as the products

    def step(t, state, settings, rng):
        nonlocal memory
        x = state["x"]
        points = x[:, None]
        if noise:
            shape = len(x), K, x.shape[1]
            memory = points = memory if memory is not None and memory.shape == shape else np.empty(shape, x.dtype)
            np.multiply(settings["gamma"][:, None, None], rng.standard_normal(shape[1:], dtype=x.dtype), out=points)
            points += x[:, None]
        y = x - settings["lr"][:, None] * mean_subgradients(problem, points)
        mu_t = settings["mu"][:, None] if momentum is None else x.dtype.type(momentum[t])
        return {"y": y, "x": y + mu_t * (y - state["y"])}

    if not noise:
        settings = {name: values for name, values in settings.items() if name != "gamma"}
    return descend(problem, T, step, method=method, settings=settings, shape=shape, K=K,
                   state=lambda points: {"x": points.copy()}, **options)  # fmt: skip


def nesterov_momentum(iterations):
    """mu_1 ... mu_T of Nesterov's sequence: (lambda_t - 1) / lambda_{t+1}, from lambda_1 = 1.

    lambda_{t+1} = (1 + sqrt(1 + 4 lambda_t^2)) / 2. A start from lambda_0 = 0 would throw the first step away.

    Raises
    ------
    ValueError
        If `iterations` is not a whole number from 0.

    References
    ----------
    Beck and Teboulle (2009), FISTA with constant step size, has the same sequence.

    Examples
    --------
    >>> nesterov_momentum(4).round(3).tolist()
    [0.0, 0.282, 0.434, 0.531]
    """
    values = [1.0]
    for _ in range(whole_number(iterations, "iterations", least=0, most=MOST_STEPS)):
        values.append((1 + math.sqrt(1 + 4 * values[-1] ** 2)) / 2)
    values = np.array(values)
    return (values[:-1] - 1) / values[1:]


class Parameters(NamedTuple):
    """Keyword arguments of `pprs`: ``pprs(problem, T, **parameters._asdict())``."""

    K: int
    lr: float
    gamma: float
    mu: object


def theorem_parameters(iterations, L, R, dimension):
    """Settings for which the error after T steps is proved to be at most 4 R L d^(1/4) / (T + 1) on average.

    K = ceil((T + 1) / sqrt d), gamma = R d^(-1/4) / (T + 1), lr = gamma / L, and Nesterov's momentum.

    Parameters
    ----------
    L, R : float
        Lipschitz constant, and distance from the start to a minimiser.

    Raises
    ------
    ValueError
        If a number is out of range.

    References
    ----------
    Theorem 4 of the paper; the constants are derived in `lpkit.rates`.

    Examples
    --------
    >>> theorem_parameters(99, 1.0, 1.0, 16)
    Parameters(K=25, lr=0.005, gamma=0.005, mu='nesterov')
    """
    T, d = whole_number(iterations, "iterations"), whole_number(dimension, "dimension")
    L, R = real(L, "L", above=True), real(R, "R", above=True)
    gamma = R * d**-0.25 / (T + 1)
    return Parameters(math.ceil((T + 1) / math.sqrt(d)), gamma / L, gamma, "nesterov")
