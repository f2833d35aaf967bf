"""Bounds on the time to reach a precision, with explicit constants, for pipelines of depth Delta.

The paper states rates up to constants; the constants here are those of the derivations named in each function. Lower
bounds hold for every method of the paper's memory model (`lpkit.memory_model` runs their constructions), upper bounds
for the named method. All arguments broadcast; times are in slots, one pass of one node each.
Source: PPRS (NeurIPS 2019), Theorems 1-4 and section 4.
"""

import numpy as np

from lpkit.checks import shown

__all__ = [
    "crossover_depth", "crossover_dimension", "crossover_precision", "crossover_samples", "gpipe_erm",
    "naive_erm", "naive_nonconvex", "naive_nonsmooth", "naive_smooth", "nonconvex_lower", "nonsmooth_lower",
    "pprs_error", "pprs_iterations", "pprs_nonconvex", "pprs_upper", "smooth_lower",
]  # fmt: skip

PROVED = 4.0  # in E f - f* <= PROVED R L d^(1/4) / (T + 1), for every T >= 1
SMALLEST, LARGEST = 1e-25, 1e25  # of an argument: no product here leaves the range of float64
CHAIN = 12 * 152  # coordinates of the non-convex chain: beta D / (CHAIN eps^2); see `lpkit.hard_functions`


def smooth_lower(eps, *, beta=1.0, R=1.0, depth=1):
    """Convex, beta-smooth, any method: Delta (R sqrt(3 beta / (32 eps)) - 2), at least 0 (Theorem 1).

    Derived: Nesterov's chain, split over the depth, gives at most t/Delta + 1 coordinates by time t, and k of them
    leave an error of at least 3 beta R^2 / (32 (k + 1)^2). Holds for Delta >= 2.

    Parameters
    ----------
    eps, beta, R, depth : number or array
        Precision of f; Lipschitz constant of its gradient; distance of the start from a minimiser; Delta.

    Raises
    ------
    ValueError
        If an argument is not a finite number above 0, from 1e-25 to 1e25, or the shapes do not broadcast.

    Examples
    --------
    >>> smooth_lower([3 / 3200, 3 / 320000], depth=20).round(6).tolist()
    [160.0, 1960.0]
    """
    eps, beta, R, depth = _positive(eps=eps, beta=beta, R=R, depth=depth)
    return np.maximum(depth * (R * np.sqrt(3 * beta / (32 * eps)) - 2), 0)


def naive_smooth(eps, *, beta=1.0, R=1.0, depth=1):
    """Convex, beta-smooth, Nesterov's method one gradient at a time: 2 Delta ceil(sqrt(2 beta R^2 / eps)).

    From f(y_T) - f* <= 2 beta R^2 / (T + 1)^2; optimal up to the constant.

    Parameters
    ----------
    eps, beta, R, depth : number or array
        As for `smooth_lower`.

    Raises
    ------
    ValueError
        As `smooth_lower`.

    Examples
    --------
    >>> float(naive_smooth(0.02, depth=20))
    400.0
    """
    eps, beta, R, depth = _positive(eps=eps, beta=beta, R=R, depth=depth)
    return 2 * depth * _up(np.sqrt(2 * beta * R**2 / eps))


def nonconvex_lower(eps, *, beta=1.0, D=1.0, depth=1):
    """Non-convex, beta-smooth, a gradient of length at most eps, any method (Theorem 2): Delta (k - 1).

    k = floor(beta D / (1824 eps^2)): derived from the non-convex chain, all k coordinates of which must be found. The
    constants 12 and 152 in it are those of the chain's authors. Holds for Delta >= 2.

    Parameters
    ----------
    eps, beta, D, depth : number or array
        Length of the gradient; Lipschitz constant of the gradient; f at the start over its least value; Delta.

    Raises
    ------
    ValueError
        As `smooth_lower`.

    Examples
    --------
    >>> float(nonconvex_lower(0.001, depth=20))
    10940.0
    """
    eps, beta, D, depth = _positive(eps=eps, beta=beta, D=D, depth=depth)
    return np.maximum(depth * (np.floor(beta * D / (CHAIN * eps**2)) - 1), 0)


def naive_nonconvex(eps, *, beta=1.0, D=1.0, depth=1):
    """Non-convex, beta-smooth, gradient descent with steps 1/beta: 2 Delta ceil(2 beta D / eps^2).

    From ``min |grad|^2 <= 2 beta D / T``.

    Parameters
    ----------
    eps, beta, D, depth : number or array
        As for `nonconvex_lower`.

    Raises
    ------
    ValueError
        As `smooth_lower`.

    Examples
    --------
    >>> float(naive_nonconvex(0.1, depth=20))
    8000.0
    """
    eps, beta, D, depth = _positive(eps=eps, beta=beta, D=D, depth=depth)
    return 2 * depth * _up(2 * beta * D / eps**2)


def nonsmooth_lower(eps, *, L=1.0, R=1.0, depth=1):
    """Convex, L-Lipschitz, any method (Theorem 3): the larger of the two terms, at least half their sum.

    Derived: Delta (RL/(2 eps) - 2) from the l1 chain, for Delta >= 2; and (RL/(2 eps) - 1)^2 from Nesterov's max on
    one node, in a dimension above that. The second counts one subgradient of that node a slot.

    Parameters
    ----------
    eps, L, R, depth : number or array
        Precision of f; its Lipschitz constant; distance of the start from a minimiser; Delta.

    Raises
    ------
    ValueError
        As `smooth_lower`.

    Examples
    --------
    >>> nonsmooth_lower(0.01, depth=[20, 200]).tolist()
    [2401.0, 9600.0]
    """
    eps, L, R, depth = _positive(eps=eps, L=L, R=R, depth=depth)
    half = R * L / (2 * eps)
    return np.maximum(depth * np.maximum(half - 2, 0), np.maximum(half - 1, 0) ** 2)


def naive_nonsmooth(eps, *, L=1.0, R=1.0, depth=1):
    """Convex, L-Lipschitz, subgradient descent: 2 Delta ceil((RL/eps)^2).

    From the error RL / sqrt T of the mean or the best iterate with steps R / (L sqrt T).

    Parameters
    ----------
    eps, L, R, depth : number or array
        As for `nonsmooth_lower`.

    Raises
    ------
    ValueError
        As `smooth_lower`.

    Examples
    --------
    >>> float(naive_nonsmooth(0.1, depth=20))
    4000.0
    """
    return naive_erm(eps, L=L, R=R, depth=depth, m=1)


def naive_erm(eps, *, L=1.0, R=1.0, depth=1, m=1):
    """A mean of m functions, one gradient at a time: 2 m Delta ceil((RL/eps)^2).

    Parameters
    ----------
    eps, L, R, depth, m : number or array
        As for `nonsmooth_lower`; m is the number of functions.

    Raises
    ------
    ValueError
        As `smooth_lower`.

    Examples
    --------
    >>> float(naive_erm(0.1, depth=20, m=5))
    20000.0
    """
    eps, L, R, depth, m = _positive(eps=eps, L=L, R=R, depth=depth, m=m)
    return 2 * m * depth * _up((R * L / eps) ** 2)


def gpipe_erm(eps, *, L=1.0, R=1.0, depth=1, m=1):
    """A mean of m functions, GPipe: subgradient descent, the m gradients pipelined: 2 ceil((RL/eps)^2) (m + Delta - 1).

    Parameters
    ----------
    eps, L, R, depth, m : number or array
        As for `naive_erm`.

    Raises
    ------
    ValueError
        As `smooth_lower`.

    Examples
    --------
    >>> float(gpipe_erm(0.1, depth=20, m=5))
    4800.0
    """
    eps, L, R, depth, m = _positive(eps=eps, L=L, R=R, depth=depth, m=m)
    return 2 * _up((R * L / eps) ** 2) * (m + depth - 1)


def pprs_error(iterations, *, L=1.0, R=1.0, dimension):
    """Mean error of PPRS after T steps with the theorem's parameters, at most 4 R L d^(1/4) / (T + 1) (Theorem 4).

    Derived: smoothing by gamma costs gamma L sqrt d and makes the gradient L/gamma-Lipschitz; the accelerated method
    with steps eta = gamma/L and noise of variance L^2/K then has the error
    2 R^2 / (eta (T + 1)^2) + eta (L^2/K) T + gamma L sqrt d. The three are at most 2, 1 and 1 times
    R L d^(1/4) / (T + 1). (10/3 in place of 4 can be had from T = 2 on.)

    Parameters
    ----------
    iterations, L, R, dimension : number or array
        Steps T; Lipschitz constant of f; distance of the start from a minimiser; d, numbers in a point.

    Raises
    ------
    ValueError
        As `smooth_lower`.

    Examples
    --------
    >>> pprs_error([79, 799], dimension=16).tolist()
    [0.1, 0.01]
    """
    T, L, R, d = _positive(iterations=iterations, L=L, R=R, dimension=dimension)
    return PROVED * R * L * d**0.25 / (T + 1)


def pprs_iterations(eps, *, L=1.0, R=1.0, dimension):
    """Steps T and samples K with which `pprs_error` is at most eps.

    T + 1 = ceil(4 RL d^(1/4) / eps), K = ceil((T + 1) / sqrt d).

    Parameters
    ----------
    eps, L, R, dimension : number or array
        Precision of f, and as for `pprs_error`.

    Returns
    -------
    T, K : float or ndarray
        Whole numbers.

    Raises
    ------
    ValueError
        As `smooth_lower`.

    Examples
    --------
    >>> [float(number) for number in pprs_iterations(0.1, dimension=16)]
    [79.0, 20.0]
    """
    eps, L, R, d = _positive(eps=eps, L=L, R=R, dimension=dimension)
    T = np.maximum(_up(PROVED * R * L * d**0.25 / eps) - 1, 1)
    return T, _up((T + 1) / np.sqrt(d))


def pprs_upper(eps, *, L=1.0, R=1.0, dimension, depth=1, m=1):
    """Convex, L-Lipschitz, PPRS (Theorem 4; for a mean of m functions its corollary): 2T(K m + Delta - 1).

    T and K of `pprs_iterations`; about 32 m (RL/eps)^2 + 8 (RL/eps) d^(1/4) (m + Delta).

    Parameters
    ----------
    eps, L, R, dimension, depth, m : number or array
        Precision of f; its Lipschitz constant; distance of the start from a minimiser; d, numbers in a point; Delta;
        number of functions in the mean.

    Raises
    ------
    ValueError
        As `smooth_lower`.

    Examples
    --------
    >>> pprs_upper(0.1, dimension=16, depth=[20, 200]).tolist()
    [6162.0, 34602.0]
    """
    eps, L, R, d, depth, m = _positive(eps=eps, L=L, R=R, dimension=dimension, depth=depth, m=m)
    T, K = pprs_iterations(eps, L=L, R=R, dimension=d)
    return 2 * T * (K * m + depth - 1)


def pprs_nonconvex(eps, *, gamma, L=1.0, D=1.0, dimension, depth=1):
    """Neither convex nor smooth, PPRS without acceleration: a gradient of f smoothed by gamma of length eps on average.

    Derived, with steps gamma/L: ``mean |grad|^2 <= 2 L D' / (gamma T) + L^2 / K``, where D' = D + 2 gamma L sqrt d. So
    T = ceil(4 L D' / (gamma eps^2)), K = ceil(2 L^2 / eps^2), and the time is 2T(K + Delta - 1): depth multiplies the
    first factor only (section 4.2).

    Parameters
    ----------
    eps, gamma, L, D, dimension, depth : number or array
        Length of the gradient; standard deviation of the smoothing; Lipschitz constant of f; f at the start over its
        least value; d, numbers in a point; Delta.

    Raises
    ------
    ValueError
        As `smooth_lower`.

    Examples
    --------
    >>> float(pprs_nonconvex(0.5, gamma=0.25, dimension=4, depth=20))
    6912.0
    """
    eps, gamma, L, D, d, depth = _positive(eps=eps, gamma=gamma, L=L, D=D, dimension=dimension, depth=depth)
    T = _up(4 * L * (D + 2 * gamma * L * np.sqrt(d)) / (gamma * eps**2))
    return 2 * T * (_up(2 * L**2 / eps**2) + depth - 1)


# crossovers ----------------------------------------------------------------------------------------------------------


def crossover_depth(eps, *, L=1.0, R=1.0, dimension, m=1):
    """Depth above which the bound of PPRS is below that of GPipe (m = 1: of subgradient descent); inf if it never is.

    Both are linear in Delta, so this is exact.

    Parameters
    ----------
    eps, L, R, dimension, m : number or array
        As for `pprs_upper`.

    Raises
    ------
    ValueError
        As `smooth_lower`.

    Examples
    --------
    >>> crossover_depth(0.01, dimension=16, m=[1, 10]).round(2).tolist()
    [17.28, 163.81]
    """
    eps, L, R, d, m = _positive(eps=eps, L=L, R=R, dimension=dimension, m=m)
    T, K, N = *pprs_iterations(eps, L=L, R=R, dimension=d), _up((R * L / eps) ** 2)
    return _where(N > T, lambda: np.maximum((T * (K * m - 1) - N * (m - 1)) / (N - T), 0))


def crossover_samples(eps, *, L=1.0, R=1.0, dimension, depth=1):
    """Number of examples m below which the bound of PPRS is below that of GPipe; inf if it is for every m, 0 for none.

    Parameters
    ----------
    eps, L, R, dimension, depth : number or array
        As for `pprs_upper`.

    Raises
    ------
    ValueError
        As `smooth_lower`.

    Examples
    --------
    >>> crossover_samples(0.01, dimension=16, depth=[20, 200]).round(2).tolist()
    [1.17, 12.22]
    """
    eps, L, R, d, depth = _positive(eps=eps, L=L, R=R, dimension=dimension, depth=depth)
    T, K, N = *pprs_iterations(eps, L=L, R=R, dimension=d), _up((R * L / eps) ** 2)
    return _where(T * K > N, lambda: np.maximum((N - T) * (depth - 1) / (T * K - N), 0))


def crossover_dimension(eps, *, L=1.0, R=1.0, depth=1, m=1):
    """Dimension below which the bound of PPRS is below that of GPipe, without rounding; 0 if it never is.

    With q = RL/eps and c = 4 the bounds are 2 c^2 q^2 m + 2 c q d^(1/4) (m + Delta) and 2 q^2 (m + Delta): equal at
    d^(1/4) = q/c - c q m / (m + Delta). For m << Delta this is the paper's condition d << q^4.

    Parameters
    ----------
    eps, L, R, depth, m : number or array
        As for `pprs_upper`.

    Raises
    ------
    ValueError
        As `smooth_lower`.

    Examples
    --------
    >>> crossover_dimension(0.01, depth=[20, 200]).round(1).tolist()
    [1255.3, 280325.6]
    """
    eps, L, R, depth, m = _positive(eps=eps, L=L, R=R, depth=depth, m=m)
    q = R * L / eps
    return np.maximum(q / PROVED - PROVED * q * m / (m + depth), 0) ** 4


def crossover_precision(*, L=1.0, R=1.0, dimension, depth=1, m=1):
    """Precision eps below which the bound of PPRS is below that of GPipe, without rounding; 0 if it never is.

    Equal at RL/eps = c d^(1/4) / (1 - c^2 m / (m + Delta)), as for `crossover_dimension`: finite only if Delta is
    above (c^2 - 1) m.

    Parameters
    ----------
    L, R, dimension, depth, m : number or array
        As for `pprs_upper`.

    Raises
    ------
    ValueError
        As `smooth_lower`.

    Examples
    --------
    >>> crossover_precision(dimension=16, depth=[10, 20, 200]).round(4).tolist()
    [0.0, 0.0298, 0.115]
    """
    L, R, d, depth, m = _positive(L=L, R=R, dimension=dimension, depth=depth, m=m)
    return np.maximum(R * L * (1 - PROVED**2 * m / (m + depth)) / (PROVED * d**0.25), 0)


def _where(condition, value):
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(condition, value(), np.inf)[()]


def _up(value):
    """The whole number at or above, where rounding of the last digits does not count."""
    return np.ceil(value * (1 - 1e-12))


def _positive(**values):
    """The arguments as float arrays, all finite and above 0, none so small or large that a bound would overflow."""
    arrays = []
    for name, value in values.items():
        try:
            array = np.asarray(value, dtype=float)
        except (TypeError, ValueError):
            array = np.array(np.nan)
        bad = ~(np.isfinite(array) & (array > 0))
        if bad.any():
            given = np.asarray(value)[bad].flat[0] if array.ndim else value
            raise ValueError(f"{name} is {shown(given)}; it must be a finite number above 0")
        if array.size and (array.min() < SMALLEST or array.max() > LARGEST):
            raise ValueError(f"{name} is {shown(array.min() if array.min() < SMALLEST else array.max())}; "
                             f"it must be from {SMALLEST:g} to {LARGEST:g}")  # fmt: skip
        arrays.append(array[()])
    try:
        np.broadcast_shapes(*map(np.shape, arrays))
    except ValueError:
        shapes = ", ".join(f"{name} {np.shape(array)}" for name, array in zip(values, arrays))
        raise ValueError(f"the shapes {shapes} do not broadcast; give one number for each, or a grid") from None
    return arrays
