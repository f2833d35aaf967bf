"""Functions that are as hard as functions of their class can be, each also as a computation graph of a given depth.

They are sums of terms in neighbouring coordinates. Terms in the pairs (1, 2), (3, 4), ... sit on the first node of a
chain, the others on the last, so that a method must cross the chain for every other coordinate it finds.
Sources: Nesterov, Lectures on Convex Optimization, 2.1.2; Bubeck (2015), Theorem 3.13; Carmon, Duchi, Hinder, Sidford
(2017), lower bounds for stationary points; Scaman et al. (2018) for the l1 chain; the split is `split_chain`'s.
"""

import math

import numpy as np
from scipy.special import ndtr

from lpkit.checks import real, whole_number
from lpkit.computation_graph import split_chain
from lpkit.problems import Problem

__all__ = ["l1_chain", "nesterov_max", "nonconvex_chain", "smooth_chain"]

CHAIN_DROP = 12  # of the non-convex chain before scaling: f(0) - inf f is at most this a coordinate
CHAIN_SMOOTHNESS = 152  # and the Lipschitz constant of its gradient


def smooth_chain(coordinates, *, beta=1.0, R=1.0, depth=2):
    """Nesterov's smooth convex chain: beta s^2/4 (u_1^2/2 + sum (u_i - u_{i+1})^2/2 + u_n^2/2 - u_1), u = x/s.

    `s` is such that the minimiser u_i = 1 - i/(n + 1) is at distance R from the start 0.

    Parameters
    ----------
    coordinates : int
        n, which is also the dimension.
    beta, R : float
        Lipschitz constant of the gradient, and distance of the minimiser from 0.
    depth : int
        Delta, nodes over which the terms are spread.

    Returns
    -------
    Problem

    Raises
    ------
    ValueError
        If a number is out of range.

    Examples
    --------
    >>> problem = smooth_chain(3, R=2.0)
    >>> values, gradients = problem.value_and_subgradient(problem.minimiser[None])
    >>> bool(np.isclose(values[0], problem.optimum)), bool(abs(gradients).max() < 1e-12)
    (True, True)
    """
    n, beta, R = whole_number(coordinates, "coordinates"), real(beta, "beta", above=True), real(R, "R", above=True)
    u = 1 - np.arange(1, n + 1) / (n + 1)
    scale = R / np.linalg.norm(u)
    a = beta / 4

    def ends(x):
        value = a * (x[:, 0] ** 2 / 2 + x[:, -1] ** 2 / 2 - scale * x[:, 0])
        gradient = np.zeros_like(x)
        gradient[:, 0] += a * (x[:, 0] - scale)
        gradient[:, -1] += a * x[:, -1]
        return value, gradient

    near, far = _halves(n, lambda left, right: (a * (left - right) ** 2 / 2, a * (left - right), a * (right - left)),
                        ends)  # fmt: skip
    return _problem("smooth chain", n, near, far, depth, beta=beta, R=R, minimiser=scale * u,
                    optimum=-beta * scale**2 / 8 * n / (n + 1))  # fmt: skip


def l1_chain(coordinates, *, L=1.0, R=1.0, depth=2):
    """The non-smooth chain ``a (|x_1 - r| + sum |x_i - x_{i+1}|)``, whose depth no method can hide.

    a = L / (2 sqrt n) and r = R / sqrt n; the minimiser has all coordinates r. The subgradient of ``|.|`` at 0 is
    0: a method that starts at 0 learns of one coordinate at a time.

    Parameters
    ----------
    coordinates : int
        n, which is also the dimension.
    L, R : float
        Lipschitz constant, and distance of the minimiser from 0.
    depth : int
        Delta, nodes over which the terms are spread.

    Returns
    -------
    Problem

    Raises
    ------
    ValueError
        If a number is out of range.

    Examples
    --------
    >>> problem = l1_chain(4)
    >>> values, subgradients = problem.value_and_subgradient(np.zeros((1, 4)))
    >>> values.tolist(), subgradients.tolist()
    ([0.125], [[-0.25, 0.0, 0.0, 0.0]])
    """
    n, L, R = whole_number(coordinates, "coordinates"), real(L, "L", above=True), real(R, "R", above=True)
    a, r = L / (2 * math.sqrt(n)), R / math.sqrt(n)

    def ends(x):
        gradient = np.zeros_like(x)
        gradient[:, 0] = a * np.sign(x[:, 0] - r)
        return a * abs(x[:, 0] - r), gradient

    def pair(left, right):
        slope = a * np.sign(left - right)
        return a * abs(left - right), slope, -slope

    near, far = _halves(n, pair, ends)
    return _problem("l1 chain", n, near, far, depth, L=L, R=R, optimum=0.0, minimiser=np.full(n, r))


def nonconvex_chain(coordinates, *, beta=1.0, D=1.0, depth=2):
    """The smooth non-convex chain: while its last coordinate is 0 its gradient is longer than `threshold`.

    -Psi(1) Phi(u_1) + sum Psi(-u_i) Phi(-u_{i+1}) - Psi(u_i) Phi(u_{i+1}), scaled so that f is beta-smooth and
    f(0) - inf f <= D. Psi(u) = exp(1 - 1/(2u - 1)^2) above 1/2, else 0; Phi(u) = sqrt(e) times the integral of
    exp(-t^2/2) up to u. The threshold is the problem's `gradient_floor`.

    Parameters
    ----------
    coordinates : int
        n, which is also the dimension.
    beta, D : float
        Lipschitz constant of the gradient, and the most that f can fall from 0.
    depth : int
        Delta, nodes over which the terms are spread.

    Returns
    -------
    Problem

    Raises
    ------
    ValueError
        If a number is out of range.

    Examples
    --------
    >>> problem = nonconvex_chain(5, beta=152.0, D=60.0)
    >>> gradient = problem.value_and_subgradient(np.zeros((1, 5)))[1]
    >>> problem.gradient_floor, gradient.round(3).tolist()
    (1.0, [[-1.649, 0.0, 0.0, 0.0, 0.0]])
    """
    n, beta, D = whole_number(coordinates, "coordinates"), real(beta, "beta", above=True), real(D, "D", above=True)
    scale = math.sqrt(D * CHAIN_SMOOTHNESS / (CHAIN_DROP * beta * n))
    a = beta * scale**2 / CHAIN_SMOOTHNESS

    def ends(x):
        value, slope = _phi(x[:, 0] / scale)
        gradient = np.zeros_like(x)
        gradient[:, 0] = -a * slope / scale
        return -a * value, gradient

    def pair(left, right):
        (down, down1), (low, low1) = _psi(-left / scale), _phi(-right / scale)
        (up, up1), (high, high1) = _psi(left / scale), _phi(right / scale)
        return (a * (down * low - up * high), -a / scale * (down1 * low + up1 * high),
                -a / scale * (down * low1 + up * high1))  # fmt: skip

    near, far = _halves(n, pair, ends)
    return _problem("non-convex chain", n, near, far, depth, beta=beta, D=D,
                    gradient_floor=beta * scale / CHAIN_SMOOTHNESS)  # fmt: skip


def _psi(u):
    inside = u > 0.5
    w = np.where(inside, 2 * u - 1, 1)
    value = np.where(inside, np.exp(1 - 1 / np.square(w)), 0)
    return value.astype(u.dtype), (value * 4 / w**3).astype(u.dtype)


def _phi(u):
    return math.sqrt(2 * math.pi * math.e) * ndtr(u), math.sqrt(math.e) * np.exp(-np.square(u) / 2)


def nesterov_max(coordinates, *, dimension=None, L=1.0, R=1.0, depth=1):
    """Nesterov's hard max: ``c max(x_1 ... x_k) + alpha |x|^2 / 2``.

    c = L sqrt k / (1 + sqrt k) and alpha = L / (R (1 + sqrt k)): it is
    L-Lipschitz in the ball of radius R around 0, which holds the minimiser, -R/sqrt k in the k coordinates. Of several
    largest coordinates the first gives the subgradient, so that a method starting at 0 learns of one at a time. All of
    it sits on the first node: depth hides none of it.

    Parameters
    ----------
    coordinates : int
        k.
    dimension : int, optional
        d >= k; by default k.
    L, R : float
        As for `l1_chain`.
    depth : int
        Delta.

    Returns
    -------
    Problem

    Raises
    ------
    ValueError
        If a number is out of range, or there are more coordinates than dimensions.

    Examples
    --------
    >>> problem = nesterov_max(4)
    >>> round(problem.optimum, 4), problem.minimiser.tolist(), problem.value(np.zeros((1, 4))).tolist()
    (-0.1667, [-0.5, -0.5, -0.5, -0.5], [0.0])
    """
    k = whole_number(coordinates, "coordinates")
    d = whole_number(k if dimension is None else dimension, "dimension", least=k)
    L, R = real(L, "L", above=True), real(R, "R", above=True)
    c, alpha = L * math.sqrt(k) / (1 + math.sqrt(k)), L / (R * (1 + math.sqrt(k)))

    def oracle(x):
        first, rows = x[:, :k].argmax(axis=1), np.arange(len(x))
        gradient = alpha * x
        gradient[rows, first] += c
        return c * x[rows, first] + alpha / 2 * (x * x).sum(axis=1), gradient

    minimiser = np.where(np.arange(d) < k, -R / math.sqrt(k), 0.0)
    depth = whole_number(depth, "depth")
    graph = split_chain(d, oracle, lambda x: (np.zeros(len(x), x.dtype), np.zeros_like(x)), depth)
    return Problem("Nesterov's max", d, oracle, optimum=-L * R / (2 * (1 + math.sqrt(k))), minimiser=minimiser, L=L,
                   R=R, depth=depth, graph=graph)  # fmt: skip


def _halves(n, pair, ends):
    """The terms of neighbours (1, 2), (3, 4), ...; and the others, with `ends`. `pair` gives value and both slopes."""

    def terms(x, first):
        values, gradient = np.zeros(len(x), x.dtype), np.zeros_like(x)
        left, right = x[:, first : n - 1 : 2], x[:, first + 1 : n : 2]
        if left.shape[1]:
            value, gradient[:, first : n - 1 : 2], gradient[:, first + 1 : n : 2] = pair(left, right)
            values = value.sum(axis=1)
        return values, gradient

    def far(x):
        (value, gradient), (edge, slope) = terms(x, 1), ends(x)
        return value + edge, gradient + slope

    return lambda x: terms(x, 0), far


def _problem(name, n, near, far, depth, **known):
    def oracle(x):
        (a, left), (b, right) = near(x), far(x)
        return a + b, left + right

    depth = whole_number(depth, "depth")
    return Problem(name, n, oracle, depth=depth, graph=split_chain(n, near, far, depth), **known)
