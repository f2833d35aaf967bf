"""Periods of many cost vectors at once, for studies of thousands of readings.

The planners of `lpkit.partition` return plans, exactly and one at a time. Here only the period is found, for N cost
vectors of one length L together, each step one numpy operation over all of them. Tests hold the two equal.
"""

import numpy as np

from lpkit.checks import whole_number

__all__ = ["algorithm1_periods", "equal_layers_periods", "movable_delta", "optimal_periods", "pipedream_periods"]

# Legend: work and delta have shape (N, L); the result has shape (N, P), column k-1 for k processors.


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
    L = work.shape[1]
    ends = [[L // k * s + min(s, L % k) for s in range(k + 1)] for k in range(1, P + 1)]
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


def movable_delta(delta, first_consumer):
    """The delta work that may cross each cut: of the layer before it, and of the layer before that.

    Delta of a layer may move only to the stage that starts with the layer that reads its output first. In a chain that
    is the next layer; where a residual projection stands between a convolution and the layer that reads their sum,
    both deltas may cross the cut after the projection.

    Parameters
    ----------
    delta : array_like, shape (N, L)
    first_consumer : array_like of int, shape (L,)
        1-based, as in `Costs`.

    Returns
    -------
    own, before : ndarray, shape (N, L)
        At the cut after layer l: delta of layer l, and of layer l-1.

    Examples
    --------
    >>> movable_delta([[5, 7, 9]], [3, 3, 4])  # layers 1 and 2 are both read first by layer 3
    (array([[0., 7., 9.]]), array([[0., 5., 0.]]))
    """
    delta = _rows(delta, "delta")
    reads = np.asarray(first_consumer) - np.arange(1, delta.shape[1] + 1)
    before = np.zeros_like(delta)
    before[:, 1:] = np.where(reads[:-1] == 2, delta[:, :-1], 0)
    return np.where(reads == 1, delta, 0), before


def optimal_periods(work, own, processors, *, before=None, precision=1e-9):
    """Least period when any part of the movable delta at the end of a stage may be done by the next stage.

    A dynamic programme decides whether a period T can be met (least load left for the stages below those already
    filled, from the last layer up); bisection finds the least T.

    Parameters
    ----------
    work : array_like, shape (N, L)
        F + G + delta.
    own, before : array_like, shape (N, L)
        From `movable_delta`; `before` may be left out for a chain.
    processors : int
        The largest processor count P, at most L.
    precision : float
        Relative width at which the bisection stops; the upper end, which a plan meets, is returned.

    Returns
    -------
    ndarray, shape (N, P)

    Examples
    --------
    >>> optimal_periods([[1, 4, 1, 2]], [[0, 3, 0, 1]], 3).round(6)
    array([[8., 4., 3.]])
    """
    work, own = _rows(work, "work"), _rows(own, "own")
    before = np.zeros_like(work) if before is None else _rows(before, "before")
    P, p = _processors(processors, work.shape[1]), _prefix(work)
    periods = pipedream_periods(work, P)
    fixed = work - own
    fixed[:, :-1] -= before[:, 1:]
    floor = np.maximum(fixed.max(axis=1), work[:, -1])  # the last layer gives nothing away
    columns = [np.ascontiguousarray(c.T) for c in (p, own, before)]  # one row a layer: what is swept lies together
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


def _fits(p, own, before, T, stages):
    """Whether each column can be run by at most `stages` stages within its T, shape (N,)."""
    T = T * (1 + 1e-12)
    free = np.full_like(own, -np.inf)  # free[j]: room for moved work in the stage above the cut after layer j
    free[-1] = 0
    done = np.zeros(len(T), bool)
    both = own + before
    pairs = np.flatnonzero(before.any(axis=1))
    for _ in range(stages):
        end = np.where(free >= 0, p[1:] - np.minimum(free, both), np.inf)
        lowest = np.minimum.accumulate(end[::-1], axis=0)[::-1]
        for j in pairs:  # a stage that holds layer j alone has only its own delta to give away
            alone = np.where(free[j] >= 0, p[j + 1] - np.minimum(free[j], own[j]), np.inf)
            lowest[j] = np.minimum(lowest[j + 1], alone) if j + 1 < len(own) else alone
        load = lowest - p[:-1]
        done |= load[0] <= T
        free[:-1] = np.where(load[1:] <= T, T - load[1:], -np.inf)
        free[-1] = -np.inf
    return done


def algorithm1_periods(work, own, processors, *, alpha=1.01):
    """Largest load of the paper's greedy Algorithm 1 in its strict mode, where no load exceeds the target.

    Parameters
    ----------
    work, own : array_like, shape (N, L)
        As for `optimal_periods`.
    processors : int
        The largest processor count P, at most L.
    alpha : float
        Factor by which the target grows at each restart, above 1.

    Returns
    -------
    ndarray, shape (N, P)

    Examples
    --------
    >>> algorithm1_periods([[1, 4, 1, 2]], [[0, 3, 0, 1]], 3).round(2)
    array([[8.  , 4.  , 3.52]])
    """
    work, own = _rows(work, "work"), _rows(own, "own")
    P, total = _processors(processors, work.shape[1]), work.sum(axis=1)
    columns = [np.ascontiguousarray(c.T) for c in (work, own)]
    chain, used = (index.ravel() for index in np.indices((len(work), P)))
    target, periods = total[chain] / (used + 1), total[chain]
    left = np.flatnonzero(used)  # one processor holds everything
    while len(left):
        met, period = _greedy(*(c[:, chain[left]] for c in columns), target[left], used[left] + 1)
        periods[left[met]] = period[met]
        left = left[~met]
        target[left] *= alpha
    return periods.reshape(len(work), P)


def _greedy(work, own, target, processors):
    """Whether Algorithm 1 needs no more than `processors` for each column, and its largest load, each shape (N,)."""
    room = target * (1 + 1e-9)
    load, peak, used = np.zeros_like(target), np.zeros_like(target), np.zeros(len(target), int)
    met = np.ones(len(target), bool)
    for l in range(len(work) - 1, -1, -1):
        stays = load + work[l] <= room
        moved = np.minimum(np.maximum(target - load, 0), own[l])
        peak = np.maximum(peak, np.where(stays, 0, load + moved))
        load = np.where(stays, load, -moved) + work[l]
        used += ~stays
        met &= load <= room
        if l == len(work) - 1:
            met &= stays  # the last delta has no next layer to go to
    return met & (used < processors), np.maximum(peak, load)
