"""Periods of many cost vectors at once, for studies of thousands of readings.

The planners of `lpkit.partition` return plans, exactly and one at a time. Here only the period is found, for N cost
vectors of one length L together, each step one numpy operation over all of them. Tests hold the two equal.
"""

from collections import defaultdict

import numpy as np

from lpkit.checks import whole_number

__all__ = ["algorithm1_periods", "equal_layers_periods", "optimal_periods", "pipedream_periods"]

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


def _readers(first_consumer, layers):
    """0-based first reader of each layer, L where there is none; the next layer if `first_consumer` is None."""
    given = np.arange(2, layers + 2) if first_consumer is None else np.asarray(first_consumer)
    if given.shape != (layers,) or (given <= np.arange(1, layers + 1)).any() or (given > layers + 1).any():
        raise ValueError("first_consumer must name a later layer for each layer, or L+1 if nothing reads its output")
    return (given - 1).tolist()


def _groups(first_consumer, layers):
    """Last layer of a stage -> the layers up to it whose delta the next stage may do; all 0-based."""
    groups = defaultdict(list)
    for layer, reader in enumerate(_readers(first_consumer, layers)):
        if reader < layers:
            groups[reader - 1].append(layer)
    return groups


def _short_stages(groups):
    """(first, last, movable layers) of each stage that holds not all of the group that moves at its end."""
    stages = [(first, last, [layer for layer in group if layer >= first])
              for last, group in groups.items() for first in range(group[0] + 1, last + 1)]
    return sorted(stages, key=lambda stage: stage[:2])


def _caps(delta, groups, stages):
    """Most that may move at each cut, shape (L, N), and that each of `stages` may pass on, shape (len(stages), N)."""
    most = np.zeros_like(delta)
    for last, group in groups.items():
        most[:, last] = delta[:, group].sum(axis=1)
    short = [delta[:, layers].sum(axis=1) for _, _, layers in stages]
    return np.ascontiguousarray(most.T), np.reshape(short, (len(stages), len(delta)))


def optimal_periods(work, delta, processors, *, first_consumer=None, precision=1e-9):
    """Least period when any part of the movable delta at the end of a stage may be done by the next stage.

    At the cut after layer l the deltas of all layers may move that layer l+1 is the first to read, those that the stage
    holds. A dynamic programme decides whether a period T can be met (least load left for the stages below those already
    filled, from the last layer up); bisection finds the least T.

    Parameters
    ----------
    work : array_like, shape (N, L)
        F + G + delta.
    delta : array_like, shape (N, L)
    processors : int
        The largest processor count P, at most L.
    first_consumer : array_like of int, shape (L,), optional
        1-based, as in `Costs`; a chain if left out.
    precision : float
        Relative width at which the bisection stops; the upper end, which a plan meets, is returned.

    Returns
    -------
    ndarray, shape (N, P)

    Examples
    --------
    >>> optimal_periods([[1, 4, 1, 2]], [[0, 3, 0, 1]], 3).round(6)
    array([[8., 4., 3.]])
    >>> optimal_periods([[5, 5, 2]], [[4, 4, 0]], 2, first_consumer=[3, 3, 4]).round(6)  # layer 3 reads both first
    array([[12.,  6.]])
    """
    work, delta = _rows(work, "work"), _rows(delta, "delta")
    P, p = _processors(processors, work.shape[1]), _prefix(work)
    periods = pipedream_periods(work, P)
    groups = _groups(first_consumer, work.shape[1])
    stages = _short_stages(groups)
    fixed = work.copy()
    for group in groups.values():
        fixed[:, group] -= delta[:, group]
    floor = fixed.max(axis=1)
    columns = [np.ascontiguousarray(p.T), *_caps(delta, groups, stages)]  # one row a layer: what is swept lies together
    for k in range(2, P + 1):
        low = np.maximum(p[:, -1] / k, floor)
        high = np.minimum(periods[:, k - 1], periods[:, k - 2])
        periods[:, k - 1] = _bisect(lambda T, rows: _fits(*(c[:, rows] for c in columns), stages, T, k),
                                    low, high, precision)
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


def _fits(p, most, short, stages, T, processors):
    """Whether each column can be run by at most `processors` stages within its T, shape (N,)."""
    T = T * (1 + 1e-12)
    free = np.full_like(most, -np.inf)  # free[j]: room for moved work in the stage above the cut after layer j
    free[-1] = 0
    done = np.zeros(len(T), bool)
    for _ in range(processors):
        load = _lowest(p, most, short, stages, free) - p[:-1]
        done |= load[0] <= T
        free[:-1] = np.where(load[1:] <= T, T - load[1:], -np.inf)
        free[-1] = -np.inf
    return done


def _lowest(p, most, short, stages, free):
    """Least work up to the end of a stage, less what it passes on, for stages that start with each layer."""
    end = np.where(free >= 0, p[1:] - np.minimum(free, most), np.inf)
    lowest = np.minimum.accumulate(end[::-1], axis=0)[::-1]
    if not stages:
        return lowest
    whole, places = lowest.copy(), defaultdict(dict)
    for (first, last, _), cap in zip(stages, short):
        places[first][last] = np.where(free[last] >= 0, p[last + 1] - np.minimum(free[last], cap), np.inf)
    for first, ends in places.items():
        beyond = max(ends) + 1
        lowest[first] = whole[beyond] if beyond < len(end) else np.inf
        for last in range(first, beyond):
            lowest[first] = np.minimum(lowest[first], ends.get(last, end[last]))
    return lowest


def algorithm1_periods(work, delta, processors, *, first_consumer=None, alpha=1.01):
    """Largest load of the paper's greedy Algorithm 1 in its strict mode, where no load exceeds the target.

    Parameters
    ----------
    work, delta : array_like, shape (N, L)
    processors : int
        The largest processor count P, at most L.
    first_consumer : array_like of int, shape (L,), optional
        As for `optimal_periods`; only a delta whose layer feeds the next layer first moves at all.
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
    work, delta = _rows(work, "work"), _rows(delta, "delta")
    L = work.shape[1]
    own = np.where(np.equal(_readers(first_consumer, L), np.arange(1, L + 1)), delta, 0)
    P, total = _processors(processors, L), work.sum(axis=1)
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
