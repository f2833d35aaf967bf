"""The exact proximal map of the l_inf norm, by projection on an l1 ball.

prox of ``s |.|_inf`` is what a point loses when it is projected on the l1 ball of radius s (Moreau): the largest
coordinates are cut down to one level, the others stay.
Source: Duchi, Shalev-Shwartz, Singer, Chandra (ICML 2008), Fig. 1, for the projection by sorting.
"""

import numpy as np

__all__ = ["l1_ball_projection", "linf_prox"]


def l1_ball_projection(points, radius):
    """The nearest points of l1 balls around 0.

    Parameters
    ----------
    points : array (n, d)
    radius : float or array (n,)
        At least 0.

    Returns
    -------
    array (n, d)

    Raises
    ------
    ValueError
        If a radius is negative or NaN, or the points are no numbers (n, d) and the radii not n or one.

    Examples
    --------
    >>> l1_ball_projection(np.array([[3.0, -1.0], [0.5, 0.25]]), 1.0).tolist()
    [[1.0, -0.0], [0.5, 0.25]]
    """
    points, radius = _floats(points, radius)
    size = abs(points)
    if not (radius >= 0).all():
        raise ValueError("a radius is negative or NaN; give radii of at least 0")
    ordered = -np.sort(-size, axis=1)
    levels = (np.cumsum(ordered, axis=1) - radius) / np.arange(1, points.shape[1] + 1, dtype=points.dtype)
    count = np.maximum((ordered > levels).sum(axis=1, keepdims=True), 1)  # coordinates that stay above the level
    level = np.maximum(np.take_along_axis(levels, count - 1, axis=1), 0)
    return np.copysign(np.maximum(size - level, 0), points)


def linf_prox(points, steps):
    """``argmin_u  steps |u|_inf + |u - point|^2 / 2``, for each point.

    Parameters
    ----------
    points : array (n, d)
    steps : float or array (n,)
        Step size times the weight of the norm, at least 0.

    Returns
    -------
    array (n, d)

    Raises
    ------
    ValueError
        If a step is negative or NaN, or the points are no numbers (n, d) and the steps not n or one.

    Examples
    --------
    >>> linf_prox(np.array([[3.0, -1.0]]), 1.0).tolist(), linf_prox(np.array([[3.0, -1.0]]), 9.0).tolist()
    ([[2.0, -1.0]], [[0.0, 0.0]])
    """
    points, steps = _floats(points, steps)
    return points - l1_ball_projection(points, steps[:, 0])


def _floats(points, sizes):
    """Points (n, d) and one size for each, (n, 1); whole numbers become float64, as sizes between them may not."""
    points, sizes = np.asarray(points), np.asarray(sizes)
    fits = points.ndim == 2 and points.shape[1] and sizes.shape in ((), (1,), (len(points),))
    if not fits or points.dtype.kind not in "iuf" or sizes.dtype.kind not in "iuf":
        raise ValueError(f"points have shape {points.shape} and type {points.dtype}, their sizes shape {sizes.shape} "
                         f"and type {sizes.dtype}; give numbers of shape (n, d), and one size or n")  # fmt: skip
    points = points if points.dtype.kind == "f" else points.astype(float)
    return points, np.broadcast_to(sizes.astype(points.dtype), len(points))[:, None]
