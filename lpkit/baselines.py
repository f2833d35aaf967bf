"""What PPRS is compared with today: decaying steps, averages, late gradients, Adam, proximal and sign methods.

All run a whole grid of learning rates as one batch and leave a `Trace`, each with its own simulated time. Options
(`start`, `record_every`, `callback`, `dtype`) are those of `lpkit.descent.descend`.
"""

from functools import partial

import numpy as np

from lpkit.checks import choice, real, whole_number
from lpkit.descent import MOST_NUMBERS, MOST_STEPS, descend, grid, mean_subgradients, point

__all__ = ["adam", "decaying_gd", "delayed_gd", "fista", "proximal_gradient", "sign_pgd", "streamed"]


def _at(problem, points):
    return mean_subgradients(problem, points[:, None])


def decaying_gd(problem, iterations, *, lr, decay="sqrt", average=None, **options):
    """Subgradient descent with steps that shrink, and the average of its iterates if asked for.

    Parameters
    ----------
    lr : float or array
        First step.
    decay : {"sqrt", "linear", "constant"}
        Step t = 1 ... T is lr / sqrt(t), lr (1 - (t - 1)/T) or lr.
    average : float, optional
        eta >= 0: recorded is the mean of the iterates, with weights that grow as t^eta; 0 weighs all alike.

    Raises
    ------
    ValueError
        If the decay is unknown or a number is out of range.

    References
    ----------
    Shamir and Zhang (ICML 2013), section 4, for the averages.

    Examples
    --------
    >>> from lpkit.problems import max_affine
    >>> problem = max_affine([[1.0]], [1.0])  # |x - 1| from 0
    >>> [decaying_gd(problem, 4, lr=0.75, decay=d).values[0].tolist() for d in ("constant", "linear")]
    [[1.0, 0.25, 0.5, 0.25, 0.5], [1.0, 0.25, 0.3125, 0.0625, 0.125]]
    """
    T, (settings, shape) = whole_number(iterations, "iterations", least=0, most=MOST_STEPS), grid(lr=lr)
    eta = None if average is None else real(average, "average")
    t = np.arange(1, T + 1)
    factors = {"sqrt": 1 / np.sqrt(t), "linear": 1 - (t - 1) / max(T, 1), "constant": np.ones(T)}
    factors = factors[choice(decay, "decay", tuple(factors))]

    def step(t, state, settings, rng):
        x = state["x"]
        x = x - settings["lr"][:, None] * x.dtype.type(factors[t]) * _at(problem, x)
        weight = 1 if eta is None else x.dtype.type((eta + 1) / (t + 1 + eta))
        return {"x": x, "y": x if eta is None else state["y"] + weight * (x - state["y"])}

    return descend(problem, T, step, method=f"gd, {decay} steps{'' if eta is None else ', averaged'}",
                   settings=settings, shape=shape, state=lambda points: {"x": points.copy()}, **options)  # fmt: skip


def streamed(iterations, samples, depth, *, units="shared"):
    """Slots of a pipeline that never waits: 2 (T + Delta - 1), or T + 2 Delta - 1 with a unit for each direction.

    Parameters
    ----------
    iterations : int or sequence of int
        T, steps made.
    samples, depth : int
        Gradients a step, and Delta, nodes of the longest path.
    units : {"shared", "separate"}
        Whether a node has one unit for both directions or one for each.

    Returns
    -------
    int, or ndarray of int
        Slots, shaped as `iterations`; 0 where no step was made.

    Examples
    --------
    >>> streamed(100, 1, 20), streamed(100, 1, 20, units="separate")
    (238, 139)
    """
    T = np.asarray(iterations) * samples
    slots = 2 * (T + depth - 1) if units == "shared" else T + 2 * depth - 1
    return np.where(T > 0, slots, 0).tolist() if T.ndim == 0 else np.where(T > 0, slots, 0)


def delayed_gd(problem, iterations, *, lr, depth, units="shared", **options):
    """Asynchronous gradient descent: the pipeline is kept full and every gradient is applied late.

    Parameters
    ----------
    depth : int
        Delta.
    units : {"shared", "separate"}
        ``"shared"``: a node makes one pass a slot, as in 2T(K + Delta - 1); a sample enters every second slot, and its
        gradient comes Delta - 1 steps late. ``"separate"``: forward and backward units work side by side; a sample
        enters every slot, and its gradient is 2 Delta - 1 steps late.

    Returns
    -------
    Trace
        Its time is `streamed`, for this depth only.

    Raises
    ------
    ValueError
        If the units are unknown or a number is out of range.

    Examples
    --------
    >>> from lpkit.problems import max_affine
    >>> trace = delayed_gd(max_affine([[1.0]], [1.0]), 7, lr=0.25, depth=3)  # |x - 1| from 0: it overshoots
    >>> trace.values[0].tolist(), trace.time().tolist()
    ([1.0, 0.75, 0.5, 0.25, 0.0, 0.25, 0.5, 0.5], [0, 6, 8, 10, 12, 14, 16, 18])
    """
    depth, (settings, shape) = whole_number(depth, "depth"), grid(lr=lr)
    choice(units, "units", ("shared", "separate"))
    late = depth - 1 if units == "shared" else 2 * depth - 1

    def step(t, state, settings, rng):
        past = state["past"]  # iterate t - late is at place t modulo late + 1: it is read, then the new one put there
        oldest = past[:, max(t - late, 0) % (late + 1)]
        y = state["y"] - settings["lr"][:, None] * _at(problem, oldest)
        past[:, (t + 1) % (late + 1)] = y
        return {"y": y, "past": past}

    return descend(problem, iterations, step, method="delayed gd", settings=settings, shape=shape, depth=depth,
                   clock=partial(streamed, units=units),
                   state=lambda points: {"past": _past(points, late + 1)}, **options)  # fmt: skip


def _past(points, length):
    if points.size * length > MOST_NUMBERS:
        raise ValueError(f"{length:,} past iterates of {points.size:,} numbers are too many to keep; at most "
                         f"{MOST_NUMBERS:,} numbers: give a smaller depth or fewer settings")  # fmt: skip
    return np.repeat(points[:, None], length, axis=1)


def adam(problem, iterations, *, lr, beta1=0.9, beta2=0.999, epsilon=1e-8, **options):
    """Adam on subgradients.

    Parameters
    ----------
    problem, iterations, lr, options
        As for `lpkit.smoothing.gd`.
    beta1, beta2 : float
        Decay of the means of the subgradient and of its square; from 0 and below 1.
    epsilon : float
        Added to the root of the second; above 0.

    Returns
    -------
    Trace

    Raises
    ------
    ValueError
        If a number is out of range.

    References
    ----------
    Kingma and Ba (ICLR 2015), Algorithm 1.

    Examples
    --------
    >>> from lpkit.problems import max_affine
    >>> adam(max_affine([[1.0, 0.0]], [1.0]), 3, lr=0.25).values[0].round(4).tolist()  # |x_1 - 1| from 0
    [1.0, 0.75, 0.5, 0.25]
    """
    settings, shape = grid(lr=lr)
    beta1, beta2 = (real(b, name, most=1 - 1e-9) for b, name in ((beta1, "beta1"), (beta2, "beta2")))
    epsilon = real(epsilon, "epsilon", above=True)

    def step(t, state, settings, rng):
        g = _at(problem, state["y"])
        m, v = beta1 * state["m"] + (1 - beta1) * g, beta2 * state["v"] + (1 - beta2) * g * g
        ahead = m / (1 - beta1 ** (t + 1)) / (np.sqrt(v / (1 - beta2 ** (t + 1))) + epsilon)
        return {"y": state["y"] - settings["lr"][:, None] * ahead, "m": m, "v": v}

    return descend(problem, iterations, step, method="adam", settings=settings, shape=shape,
                   state=lambda points: {"m": np.zeros_like(points), "v": np.zeros_like(points)},
                   **options)  # fmt: skip


def proximal_gradient(problem, iterations, *, lr, **options):
    """Subgradient steps on `problem.loss`, then the exact proximal map of the rest, `problem.prox`.

    Parameters
    ----------
    problem : object
        As for `lpkit.smoothing.gd`, and with `loss` and ``prox(points, steps)``: see `lpkit.problems.linf_penalised`.
    iterations, lr, options
        As for `lpkit.smoothing.gd`.

    Returns
    -------
    Trace

    Raises
    ------
    ValueError
        If the problem has no `loss` and `prox`, or a number is out of range.

    Examples
    --------
    >>> from lpkit.problems import linf_penalised, max_affine
    >>> problem = linf_penalised(max_affine([[1.0]], [4.0]), 0.5)  # |x - 4| + |x| / 2 from 0
    >>> proximal_gradient(problem, 4, lr=0.25).values[0].tolist()
    [4.0, 3.9375, 3.875, 3.8125, 3.75]
    """
    return _proximal(problem, iterations, "proximal gradient", lr, False, options)


def fista(problem, iterations, *, lr, **options):
    """`proximal_gradient` with Nesterov's momentum.

    Parameters
    ----------
    problem, iterations, lr, options
        As for `proximal_gradient`.

    Returns
    -------
    Trace

    Raises
    ------
    ValueError
        As `proximal_gradient`.

    References
    ----------
    Beck and Teboulle (2009), FISTA with constant step size.

    Examples
    --------
    >>> from lpkit.hard_functions import smooth_chain
    >>> from lpkit.problems import linf_penalised
    >>> problem = linf_penalised(smooth_chain(30), 1e-3)
    >>> [float((m(problem, 100, lr=1.0).values[0, -1] * 1000).round(3)) for m in (proximal_gradient, fista)]
    [-11.403, -11.977]
    """
    return _proximal(problem, iterations, "fista", lr, True, options)


def _proximal(problem, iterations, method, lr, accelerate, options):
    settings, shape = grid(lr=lr)
    if getattr(problem, "loss", None) is None or getattr(problem, "prox", None) is None:
        raise ValueError(f"{method} needs a problem with a loss and the proximal map of a penalty, such as "
                         "linf_penalised makes; this one has none")  # fmt: skip

    def step(t, state, settings, rng):
        y = problem.prox(state["x"] - settings["lr"][:, None] * _at(problem.loss, state["x"]), settings["lr"])
        if not accelerate:
            return {"y": y, "x": y, "weight": state["weight"]}
        weight = (1 + np.sqrt(1 + 4 * state["weight"] ** 2)) / 2
        mu = ((state["weight"] - 1) / weight)[:, None]
        return {"y": y, "x": y + mu * (y - state["y"]), "weight": weight}

    return descend(problem, iterations, step, method=method, settings=settings, shape=shape,
                   state=lambda points: {"x": points.copy(), "weight": np.ones(len(points), points.dtype)},
                   **options)  # fmt: skip


def sign_pgd(problem, iterations, *, lr, radius, centre=None, **options):
    """Steps of fixed size in the sign of the subgradient, kept within `radius` of `centre` in every coordinate.

    Parameters
    ----------
    lr, radius : float or array
        Broadcast to a grid.
    centre : array (d,), optional
        Default the start of the problem.

    Returns
    -------
    Trace
        Subgradients are those of `problem.loss` where there is one, as the box takes the place of the penalty; the
        values are those of the whole problem.

    Raises
    ------
    ValueError
        If a number is out of range, or the centre has another shape or is not finite.

    References
    ----------
    Madry et al. (ICLR 2018), section 2.1.

    Examples
    --------
    >>> from lpkit.problems import linf_penalised, max_affine
    >>> problem = linf_penalised(max_affine([[1.0, 1.0]], [4.0]), 0.5)
    >>> sign_pgd(problem, 30, lr=0.1, radius=[1, 2, 3]).values[:, -1].round(6).tolist()
    [2.5, 1.0, 1.0]
    """
    settings, shape = grid(lr=lr, radius=radius)
    loss = getattr(problem, "loss", None) or problem
    middle = point(problem.start if centre is None else centre, "centre", problem.dimension)

    def step(t, state, settings, rng):
        y = state["y"] - settings["lr"][:, None] * np.sign(_at(loss, state["y"]))
        c, r = middle.astype(y.dtype), settings["radius"][:, None]
        return {"y": np.clip(y, c - r, c + r)}

    return descend(problem, iterations, step, method="sign pgd", settings=settings, shape=shape, **options)
