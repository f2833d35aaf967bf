"""Periods of many cost vectors at once, for studies of thousands of readings.

The planners of `lpkit.partition` return plans, exactly and one at a time. Here only the period is found, for N cost
vectors of one length L together, each step one numpy operation over all of them. Tests hold the two equal.
"""

import numpy as np

from lpkit.checks import whole_number

__all__ = ["equal_layers_periods", "pipedream_periods", "optimal_periods"]

# Legend: work, fixed, delta have shape (N, L); the result has shape (N, P), column k-1 for k processors.


def _prefix(work):
    """Prefix sums with a leading zero, shape (N, L+1)."""
    return np.concatenate([np.zeros((len(work), 1)), np.cumsum(work, axis=1, dtype=float)], axis=1)


def _rows(values, name):
    rows = np.asarray(values, dtype=float)
    if rows.ndim != 2 or 0 in rows.shape or not np.isfinite(rows).all() or (rows < 0).any():
        raise ValueError(f"{name} has shape {rows.shape}; it must be rows of finite costs of at least 0, shape (N, L)")
    return rows


def _processors(processors, layers):
    return whole_number(processors, "processors", most=layers)


def equal_layers_periods(work, processors):
    """Periods when every stage holds as equal a number of layers as can be.

    Parameters
    ----------
    work : array_like, shape (N, L)
        F + G + delta of each layer.
    processors : int
        The largest processor count P, at most L.

    Returns
    -------
    ndarray, shape (N, P)

    Examples
    --------
    >>> equal_layers_periods([[3, 1, 1, 1]], 2)
    array([[6., 4.]])
    """
    work = _rows(work, "work")
    P = _processors(processors, work.shape[1])
    p = _prefix(work)
    ends = [[p.shape[1] - 1 - (p.shape[1] - 1) * (k - s) // k for s in range(k + 1)] for k in range(1, P + 1)]
    return np.stack([np.diff(p[:, e], axis=1).max(axis=1) for e in ends], axis=1)


def pipedream_periods(work, processors):
    """Least period over all contiguous partitions of whole layers (PipeDream's straight pipeline).

    Parameters and result as in `equal_layers_periods`.

    Examples
    --------
    >>> pipedream_periods([[3, 1, 1, 1]], 2)
    array([[6., 3.]])
    """
    work = _rows(work, "work")
    P, p = _processors(processors, work.shape[1]), _prefix(work)
    best = p.copy()  # best[:, j]: period of layers 1..j on k stages
    periods = [best[:, -1]]
    for _ in range(1, P):
        best = np.stack([np.maximum(best[:, : j + 1], p[:, j : j + 1] - p[:, : j + 1]).min(axis=1)
                         for j in range(p.shape[1])], axis=1)
        periods.append(best[:, -1])
    return np.stack(periods, axis=1)


def optimal_periods(fixed, delta, processors, *, precision=1e-9):
    """Least period when any fraction of the last delta of a stage may move to the next stage.

    A dynamic programme decides whether a period T can be met (least residual of the delta below the stages already
    filled, from the last layer up); bisection finds the least T.

    Parameters
    ----------
    fixed, delta : array_like, shape (N, L)
        F + G, and delta, of each layer.
    processors : int
        The largest processor count P, at most L.
    precision : float
        Relative width at which the bisection stops; the upper end, which is met by a plan, is returned.

    Returns
    -------
    ndarray, shape (N, P)

    Examples
    --------
    >>> optimal_periods([[1, 1, 1, 1]], [[0, 3, 0, 1]], 3).round(6)
    array([[8., 4., 3.]])
    """
    fixed, delta = _rows(fixed, "fixed"), _rows(delta, "delta")
    P, p = _processors(processors, fixed.shape[1]), _prefix(fixed + delta)
    periods = pipedream_periods(fixed + delta, P)
    floor = np.maximum(fixed.max(axis=1), (fixed + delta)[:, -1])  # a layer's fixed work, and the last layer whole
    columns = [np.ascontiguousarray(c.T) for c in (fixed, delta, p)]  # one row a layer: what is swept lies together
    for k in range(2, P + 1):
        low = np.maximum(p[:, -1] / k, floor)
        high = np.minimum(periods[:, k - 1], periods[:, k - 2])
        periods[:, k - 1] = _bisect(lambda T, rows: _fits(*(c[:, rows] for c in columns), T, k), low, high, precision)
    return periods


def _bisect(fits, low, high, precision):
    """Least T of each row for which `fits`, between `low` (tried first) and `high` (known to fit)."""
    rows = np.arange(len(low))
    met = fits(low, rows)
    high = np.where(met, low, high)
    rows = np.flatnonzero(~met & (high - low > precision * high))
    while len(rows):
        middle = (low[rows] + high[rows]) / 2
        met = fits(middle, rows)
        high[rows], low[rows] = np.where(met, middle, high[rows]), np.where(met, low[rows], middle)
        rows = rows[high[rows] - low[rows] > precision * high[rows]]
    return high


def _fits(fixed, delta, p, T, stages):
    """Whether each column can be run by at most `stages` stages within its T, shape (N,)."""
    T = T * (1 + 1e-12)
    residual = np.full(p.shape, np.inf)  # residual[i]: least rest of delta_i when the top stages hold i+1..L
    residual[-1] = delta[-1]
    done = np.zeros(len(T), bool)
    base = fixed + p[:-1]
    for _ in range(stages):
        load = np.minimum.accumulate((base + residual[1:])[::-1], axis=0)[::-1] - p[:-1]
        done |= load[0] <= T
        rest = np.maximum(0, delta[:-1] - (T - load[1:]))
        residual[1:-1] = np.where(load[1:] <= T, rest, np.inf)
        residual[-1] = np.inf
    return done
