"""Functions to be minimised, known to the optimisers by one protocol only.

A problem is any object with ::

    value_and_subgradient(points) -> values (n,), subgradients (n, d)    for points (n, d), float32 or float64
    value(points) -> values (n,)
    dimension, start                                                     d, and an array (d,)

and, where they are known, `optimum`, `minimiser`, `L` (Lipschitz constant), `R` (distance from the start to a
minimiser), `depth` (Delta), `samples` (terms of a finite sum) and `name`. Conventions: ``|.|`` has the subgradient 0 at
0; among several largest terms the first one counts.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lpkit.checks import real, shown, whole_number
from lpkit.descent import MOST_NUMBERS, PROTOCOL, point
from lpkit.prox import linf_prox

__all__ = ["Problem", "finite_sum", "known", "linf_penalised", "max_affine", "random_max_affine"]

BLOCK = 256  # points at once; more leave the cache, and new large arrays cost more than what is done with them


@dataclass(frozen=True, eq=False)
class Problem:
    """A function with what is known of it; `oracle(points)` gives values and subgradients.

    Attributes
    ----------
    oracle : callable
        From points (n, d) to values (n,) and subgradients (n, d).
    evaluate : callable, optional
        Values only, where that is cheaper.
    start : array (d,)
        Default 0.
    optimum, minimiser, L, R, beta, D, gradient_floor : optional
        Least value, where it is taken, Lipschitz constants of the function and its gradient, distance and drop from
        the start to the minimiser, and what a gradient is longer than until all coordinates are found.
    depth : int
        Delta.
    samples : int
        Terms of a finite sum.
    loss, prox, penalty : optional
        Of a sum: the part known by its subgradients only, the exact proximal map of the other,
        ``prox(points, steps)``, and its values.
    graph : ComputationGraph, optional
    """

    name: str
    dimension: int
    oracle: Callable = field(repr=False)
    evaluate: Callable | None = field(default=None, repr=False)
    start: Any = field(default=None, repr=False)
    optimum: float | None = None
    minimiser: Any = field(default=None, repr=False)
    L: float | None = None
    R: float | None = None
    beta: float | None = None
    D: float | None = None
    gradient_floor: float | None = None
    depth: int = 1
    samples: int = 1
    loss: Any = field(default=None, repr=False)
    prox: Callable | None = field(default=None, repr=False)
    penalty: Callable | None = field(default=None, repr=False)
    graph: Any = field(default=None, repr=False)

    def __post_init__(self):
        d = whole_number(self.dimension, "dimension", most=MOST_NUMBERS)
        object.__setattr__(self, "dimension", d)
        start = np.zeros(d) if self.start is None else point(self.start, "start", d, owner=self.name)
        start.flags.writeable = False
        object.__setattr__(self, "start", start)

    def value_and_subgradient(self, points):
        """Values (n,) and subgradients (n, d), in the dtype of the points.

        Raises
        ------
        ValueError
            If the points are no array (n, d) of numbers.
        """
        points = self._points(points)
        values, subgradients = self.oracle(points)
        return np.asarray(values, points.dtype), np.asarray(subgradients, points.dtype)

    def value(self, points):
        """Values (n,)."""
        points = self._points(points)
        return np.asarray(self.evaluate(points) if self.evaluate else self.oracle(points)[0], points.dtype)

    def _points(self, points):
        try:
            points = np.asarray(points)
        except ValueError:
            raise ValueError(f"points are {shown(points)}; give an array (n, {self.dimension})") from None
        if points.ndim != 2 or points.shape[1] != self.dimension or points.dtype.kind not in "iuf":
            raise ValueError(f"points have shape {points.shape} and type {points.dtype}; {self.name} needs numbers of "
                             f"shape (n, {self.dimension})")  # fmt: skip
        return points if points.dtype in (np.float32, np.float64) else points.astype(float)


def max_affine(slopes, offsets, *, name="max affine", **known):
    """``max_i |a_i . x - b_i|``: convex, non-smooth, Lipschitz with the length of the longest a_i.

    Parameters
    ----------
    slopes : array (rows, d)
        The a_i.
    offsets : array (rows,)
        The b_i.
    known
        Other fields of `Problem`, such as `optimum`; also `L`, if a smaller one is known near the start.

    Raises
    ------
    ValueError
        If the shapes do not fit or a number is not finite.

    Examples
    --------
    >>> problem = max_affine([[1, 0], [0, 2]], [1, 1])
    >>> problem.value_and_subgradient(np.array([[0.0, 0.0], [1.0, 2.0]])), problem.L
    ((array([1., 3.]), array([[-1., -0.],
           [ 0.,  2.]])), 2.0)
    """
    A, b = _matrix(slopes, "slopes", 2), _matrix(offsets, "offsets", 1)
    if len(A) != len(b):
        raise ValueError(f"there are {len(A)} slopes and {len(b)} offsets; give as many")
    with np.errstate(over="ignore"):  # numbers too large for float32 make an infinite loss there
        typed = {np.dtype(t): (A.astype(t), np.ascontiguousarray(A.T.astype(t)), b.astype(t)) for t in ("f4", "f8")}

    def oracle(x):
        values, subgradients = np.empty(len(x), x.dtype), np.empty_like(x)
        for block in (slice(i, i + BLOCK) for i in range(0, len(x), BLOCK)):
            largest_row(x[block], *typed[x.dtype], values[block], subgradients[block])
        return values, subgradients

    def largest_row(x, rows, columns, shift, values, subgradients):
        residual = x @ columns
        residual -= shift
        largest = _largest(residual)
        there = residual[np.arange(len(x)), largest]
        np.abs(there, out=values)
        np.take(rows, largest, axis=0, out=subgradients, mode="clip")  # the places are valid: nothing is copied twice
        subgradients *= np.sign(there)[:, None]

    def evaluate(x):
        _, columns, shift = typed[x.dtype]
        return abs(x @ columns - shift).max(axis=1)

    longest = {"L": float(np.linalg.norm(A, axis=1).max())}
    return Problem(name, A.shape[1], oracle, evaluate, **longest | known)


def _largest(residual):
    """Where |residual| is largest in each row, the first of several."""
    return abs(residual).argmax(axis=1)


def random_max_affine(dimension=100, rows=200, *, seed=0, R=1.0, samples=1):
    """`max_affine` with random a_i of length 1 and all residuals 0 at a random point at distance R from the start 0.

    L = 1 and the optimum is 0. With `samples` it is the mean of so many such functions with one minimiser.

    Parameters
    ----------
    dimension, rows : int
        d, and how many a_i there are.
    seed : int
    R : float
        Distance of the minimiser from 0.
    samples : int
        m, functions of which it is the mean.

    Returns
    -------
    Problem

    Raises
    ------
    ValueError
        If a number is out of range.

    Examples
    --------
    >>> problem = random_max_affine(dimension=3, rows=5)
    >>> problem.optimum, problem.L, problem.value(problem.minimiser[None]).round(12).tolist()
    (0.0, 1.0, [0.0])
    """
    d, rows = whole_number(dimension, "dimension"), whole_number(rows, "rows")
    m, R = whole_number(samples, "samples"), real(R, "R", above=True)
    if d * rows * m > MOST_NUMBERS:
        raise ValueError(f"{m} x {rows} rows of {d} numbers are too many; give at most {MOST_NUMBERS:,} numbers")
    rng = np.random.default_rng(whole_number(seed, "seed", least=0, most=2**63))
    minimiser = rng.standard_normal(d)
    minimiser *= R / np.linalg.norm(minimiser)
    parts = []
    for _ in range(m):
        A = rng.standard_normal((rows, d))
        A /= np.linalg.norm(A, axis=1, keepdims=True)
        parts.append(max_affine(A, A @ minimiser, optimum=0.0, minimiser=minimiser, R=R))
    return parts[0] if m == 1 else finite_sum(parts, optimum=0.0, minimiser=minimiser, R=R)


def finite_sum(parts, *, name=None, **known):
    """The mean of several problems of one dimension and start: empirical risk over as many examples.

    L is the mean of theirs, depth the largest; `samples` is len(parts), or more where a part is a sum itself.

    Parameters
    ----------
    parts : sequence of Problem
    name : str, optional
    known
        Other fields of `Problem`, such as `optimum`.

    Returns
    -------
    Problem

    Raises
    ------
    ValueError
        If there are none, or their dimensions or starts differ.

    References
    ----------
    PPRS (NeurIPS 2019), section 4, empirical risk minimisation.

    Examples
    --------
    >>> both = finite_sum([max_affine([[1.0]], [1.0]), max_affine([[1.0]], [-1.0])])
    >>> both.value(np.array([[0.0], [3.0]])).tolist(), both.samples
    ([1.0, 3.0], 2)
    """
    parts = tuple(parts) if np.iterable(parts) else (parts,)
    for part in parts:
        _check_protocol(part, "a part of the sum")
    if not parts or len({p.dimension for p in parts}) != 1:
        raise ValueError(f"the parts have the dimensions {shown(sorted({p.dimension for p in parts}))}; "
                         "give at least one part, all of one dimension")  # fmt: skip

    if any(not np.array_equal(p.start, parts[0].start) for p in parts):
        raise ValueError("the parts have different starts; give all the same one")

    def oracle(x):
        values, subgradients = zip(*(p.value_and_subgradient(x) for p in parts))
        return sum(values) / len(parts), sum(subgradients) / len(parts)

    constants = [getattr(p, "L", None) for p in parts]
    L = None if None in constants else float(np.mean(constants))
    return Problem(name or f"mean of {len(parts)}", parts[0].dimension, oracle,
                   lambda x: sum(p.value(x) for p in parts) / len(parts), parts[0].start, L=L,
                   samples=sum(getattr(p, "samples", 1) for p in parts),
                   depth=max(getattr(p, "depth", 1) for p in parts), **known)  # fmt: skip


def linf_penalised(loss, weight, *, centre=None, **known):
    """`loss(x) + weight max_i |x_i - centre_i|`, with the exact proximal map of the second part.

    The subgradient of the maximum is the sign of the first largest coordinate.

    Parameters
    ----------
    loss : problem
    weight : float
        lambda, at least 0.
    centre : array (d,), optional
        Default the start of `loss`.

    Raises
    ------
    ValueError
        If the weight is negative, or the centre has another shape or is not finite.

    Examples
    --------
    >>> problem = linf_penalised(max_affine([[1.0, 1.0]], [4.0]), 2.0)
    >>> problem.value_and_subgradient(np.array([[0.0, -1.0]]))
    (array([7.]), array([[-1., -3.]]))
    """
    weight = real(weight, "weight")
    _check_protocol(loss, "the loss")
    centre = point(loss.start if centre is None else centre, "centre", loss.dimension, owner="the loss")

    def penalty(x):
        return weight * abs(x - centre.astype(x.dtype)).max(axis=1)

    def oracle(x):
        values, subgradients = loss.value_and_subgradient(x)
        away, rows = x - centre.astype(x.dtype), np.arange(len(x))
        first = _largest(away)
        subgradients = subgradients.copy()
        subgradients[rows, first] += weight * np.sign(away[rows, first])
        return values + weight * abs(away[rows, first]), subgradients

    def prox(points, steps):
        middle = centre.astype(points.dtype)
        return middle + linf_prox(points - middle, weight * np.asarray(steps))

    return Problem(f"{getattr(loss, 'name', 'loss')} + l_inf", loss.dimension, oracle,
                   lambda x: loss.value(x) + penalty(x), loss.start, loss=loss, prox=prox, penalty=penalty,
                   L=None if getattr(loss, "L", None) is None else loss.L + weight, depth=getattr(loss, "depth", 1),
                   samples=getattr(loss, "samples", 1), **known)  # fmt: skip


def known(problem, *names):
    """The named fields of a problem, all of which must be known.

    Raises
    ------
    ValueError
        If one is missing.

    Examples
    --------
    >>> known(max_affine([[1.0]], [1.0], optimum=0.0), "L", "optimum")
    [1.0, 0.0]
    """
    values = [getattr(problem, name, None) for name in names]
    if missing := [name for name, value in zip(names, values) if value is None]:
        raise ValueError(f"{', '.join(missing)} of the problem {shown(getattr(problem, 'name', problem))} is not "
                         "known; give a problem that states it")  # fmt: skip
    return values


def _check_protocol(problem, name):
    if not all(hasattr(problem, attribute) for attribute in PROTOCOL):
        raise ValueError(f"{name} is {shown(problem)}; give a problem, with {', '.join(PROTOCOL)}")


def _matrix(values, name, dimensions):
    try:
        array = np.array(values, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"{name} is {shown(values)}; give an array of numbers") from None
    if array.ndim != dimensions or not array.size or not np.isfinite(array).all():
        raise ValueError(f"{name} has shape {array.shape}; give finite numbers in {dimensions} dimension(s)")
    return array
