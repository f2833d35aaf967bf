"""The delayed LMS adaptive filter: the smallest learner whose gradient comes late, M samples after its weights::

    e(n) = d(n) - w(n)' x(n),    w(n + 1) = w(n) + mu e(n - M) x(n - M)

This is a network of one dense layer without bias and activation, trained on squared error with a gradient delay of M,
and the two are equal to the last bit (`as_training`): Fig. 3 of LayerPipe, which takes delayed gradients from it.
Sources: LayerPipe (ICCAD 2021), Eq. 6 and Fig. 3; Long, Ling, Proakis, "The LMS algorithm with delayed coefficient
adaptation", IEEE Trans. Acoustics, Speech, Signal Processing 37 (1989). The bound of `mean_bound` is derived there
where it stands.
"""

import math
import numbers
from typing import NamedTuple

import numpy as np

from lpkit.backprop import backprop_dfg
from lpkit.checks import choice, plain, shown, whole_number
from lpkit.execution import execute
from lpkit.networks import Dense, Network, Node
from lpkit.numerics import ordered_product
from lpkit.training import Parameters, Signal, checked_step_size, training_operations

__all__ = ["Filtered", "as_training", "dlms", "identification", "learning_curves", "mean_bound", "measured_bound"]


class Filtered(NamedTuple):
    """Errors e(n), (samples, runs), and weights w(n) at the end, (taps, runs)."""

    errors: np.ndarray
    weights: np.ndarray


def dlms(x, d, *, taps, step_size, delay=0):
    """Run the filter on the input x and the wanted output d, from weights 0.

    Parameters
    ----------
    x, d : ndarray (samples,) or (samples, runs)
        Runs are independent; x(n) is 0 before the first sample.
    taps : int
    step_size : float or ndarray (runs,)
        mu.
    delay : int
        M; 0 is the LMS filter.

    Returns
    -------
    Filtered
        float64. A run that diverges ends in infinities or NaN, without a warning.

    Raises
    ------
    ValueError
        If the shapes or numbers do not fit.

    Notes
    -----
    LayerPipe, Eq. 6; Long, Ling, Proakis (1989).

    Examples
    --------
    >>> result = dlms([1.0] * 6, [1.0] * 6, taps=1, step_size=0.5, delay=1)
    >>> result.errors[:, 0].tolist(), result.weights.tolist()
    ([1.0, 1.0, 0.5, 0.0, -0.25, -0.25], [[1.125]])
    """
    x, d = _checked_signals(x, d)
    taps, delay = whole_number(taps, "taps"), whole_number(delay, "delay", least=0)
    step_size = _numbers(step_size, "step_size")
    if step_size.shape not in ((), (1,), x.shape[1:]) or not np.isfinite(step_size).all():
        raise ValueError(f"step_size is {shown(step_size)}; it must be a finite number, "
                         f"or {x.shape[1]} of them, one a run")  # fmt: skip
    errors, weights = np.empty_like(x), np.zeros((taps, x.shape[1]))
    windows = tap_windows(x, taps)
    with np.errstate(over="ignore", invalid="ignore"):
        for n, window in enumerate(windows):
            errors[n] = d[n] - np.cumsum(window * weights, axis=0)[-1]  # in the order of the taps
            if n >= delay:
                weights = weights + step_size * (errors[n - delay] * windows[n - delay])
    return Filtered(errors, weights)


def tap_windows(x, taps):
    """x(n), x(n - 1), ..., x(n - taps + 1) for each n: (samples, taps, runs).

    Examples
    --------
    >>> tap_windows(np.array([[1.0], [2.0], [3.0]]), 2)[:, :, 0].tolist()
    [[1.0, 0.0], [2.0, 1.0], [3.0, 2.0]]
    """
    padded = np.concatenate([np.zeros((taps - 1, *x.shape[1:])), x])
    return np.lib.stride_tricks.sliding_window_view(padded, taps, axis=0)[..., ::-1].swapaxes(1, 2)


def _checked_signals(x, d):
    x, d = _numbers(x, "x"), _numbers(d, "d")
    if x.shape != d.shape or x.ndim not in (1, 2) or not x.size:
        raise ValueError(f"x has shape {x.shape} and d has {d.shape}; give both (samples,) or both (samples, runs)")
    return x.reshape(len(x), -1), d.reshape(len(d), -1)


def _numbers(value, name):
    """`value` as a float64 array; complex numbers and what is no number are refused."""
    try:
        array = np.asarray(value)
    except ValueError:  # rows of several lengths
        array = np.asarray(None)
    if array.dtype.kind not in "fiu":
        raise ValueError(f"{name} is {shown(value)}; it must be real numbers, in an array or a list")
    return array.astype(float)


def _not_negative(value, name):
    """`value` as a finite float of 0 or more."""
    value = plain(value)
    if not isinstance(value, numbers.Real) or isinstance(value, bool) or not 0 <= value < math.inf:
        raise ValueError(f"{name} is {shown(value)}; it must be a finite number of 0 or more")
    return float(value)


def identification(*, taps=8, samples=2000, seeds=10, noise=0.01):
    """Signals of a system to be identified: white Gaussian input, a random filter of norm 1, and white noise on top.

    Parameters
    ----------
    taps : int
        Of the filter to be found.
    samples, seeds : int
    noise : float
        Standard deviation of what is added to d.

    Returns
    -------
    x, d : ndarray (samples, seeds)
        One run a seed 0, 1, ..., seeds - 1; `noise` is the standard deviation of what no filter can explain.

    Raises
    ------
    ValueError
        If a count is not a whole number of at least 1, or the noise is negative or not finite.

    Examples
    --------
    >>> x, d = identification(samples=500, seeds=3)
    >>> x.shape, dlms(x, d, taps=8, step_size=0.05).errors[-100:].std() < 0.02
    ((500, 3), np.True_)
    """
    noise = _not_negative(noise, "noise")
    rngs = map(np.random.default_rng, range(whole_number(seeds, "seeds")))
    x, d = np.stack([_identified(rng, taps, samples, noise) for rng in rngs], axis=-1)
    return x, d


def _identified(rng, taps, samples, noise):
    system = rng.standard_normal(whole_number(taps, "taps"))
    x = rng.standard_normal(whole_number(samples, "samples"))
    clean = np.convolve(x, system / np.linalg.norm(system))[:samples]
    return x, clean + noise * rng.standard_normal(samples)


def learning_curves(delays, *, step_size=0.02, taps=8, samples=2000, seeds=10, noise=0.01):
    """Squared error against n for each delay, all on the same signals.

    Parameters
    ----------
    delays : sequence of int
        M.
    step_size : float
    taps, samples, seeds, noise
        As for `identification`.

    Returns
    -------
    dict
        From delay M to ndarray (samples, seeds).

    Raises
    ------
    ValueError
        As `identification`, if a delay is not a whole number of at least 0, or the step size not a finite number.

    References
    ----------
    LayerPipe (ICCAD 2021), Fig. 3.

    Examples
    --------
    >>> curves = learning_curves([0, 8], step_size=0.05, samples=300, seeds=4)
    >>> {M: round(float(curve[100:].mean()), 4) for M, curve in curves.items()}
    {0: 0.0001, 8: 0.0003}
    """
    x, d = identification(taps=taps, samples=samples, seeds=seeds, noise=noise)
    step_size = checked_step_size(step_size)
    return {M: dlms(x, d, taps=taps, step_size=step_size, delay=M).errors ** 2 for M in delays}


def mean_bound(delay, *, power=1.0):
    """Largest step size for which the mean of the weights converges: 2 sin(pi / (2 (2 M + 1))) / power.

    With x independent of w(n), the mean error v of the weights along an eigenvector of the correlation of x obeys
    v(n + 1) = v(n) - mu power v(n - M); its characteristic z^(M+1) - z^M + mu power first meets the unit circle there.

    Parameters
    ----------
    delay : int
    power : float
        Largest eigenvalue of the correlation matrix of x; the variance of a white x.

    Raises
    ------
    ValueError
        If `delay` is not a whole number of at least 0, or `power` not a finite number above 0.

    Examples
    --------
    >>> [round(mean_bound(M), 4) for M in (0, 1, 2, 8)]
    [2.0, 1.0, 0.618, 0.1845]
    """
    delay = whole_number(delay, "delay", least=0)
    power = plain(power)
    if not isinstance(power, numbers.Real) or isinstance(power, bool) or not 0 < power < math.inf:
        raise ValueError(f"power is {shown(power)}; it must be above 0 and finite")
    return 2 * math.sin(math.pi / (2 * (2 * delay + 1))) / power


def measured_bound(delay, *, signal="constant", taps=1, samples=4000, seeds=5, points=40, refinements=3):
    """The step size at which the filter stops converging, by experiment.

    A run converges if its errors have less power in the last quarter than in the first; a step size is stable if most
    seeds converge. From a grid of step sizes the largest that is stable, with all below it, is looked up, and the
    grid is refined around it.

    Parameters
    ----------
    delay : int
    signal : {"constant", "white"}
        x(n) = 1 for all n, or white Gaussian with variance 1.
    taps, samples, seeds : int
    points, refinements : int
        Step sizes of a grid, and how often it is refined.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If the signal is unknown or a number is out of range.

    Examples
    --------
    >>> round(measured_bound(2), 3), round(mean_bound(2), 3)
    (0.618, 0.618)
    """
    choice(signal, "signal", ("constant", "white"))
    samples = whole_number(samples, "samples", least=4)  # a quarter is one or more
    x, d = identification(taps=taps, samples=samples, seeds=seeds, noise=0.0)
    if signal == "constant":
        x, d = np.ones((samples, 1)), np.ones((samples, 1))
    lowest, highest = 0.0, 2.5
    for _ in range(whole_number(refinements, "refinements")):
        grid = np.linspace(lowest, highest, whole_number(points, "points", least=2) + 1)[1:]
        stable = _stable(x, d, grid, taps, delay)
        first_bad = len(grid) if stable.all() else int(np.argmin(stable))
        below = lowest if first_bad == 0 else float(grid[first_bad - 1])
        lowest, highest = below, float(grid[min(first_bad, len(grid) - 1)])
    return lowest


def _stable(x, d, grid, taps, delay):
    """Whether most runs converge, for each step size; all are run at once."""
    runs = x.shape[1]
    wide = [np.tile(signal, (1, len(grid))) for signal in (x, d)]
    errors = dlms(*wide, taps=taps, step_size=np.repeat(grid, runs), delay=delay).errors
    quarter = len(errors) // 4
    with np.errstate(over="ignore", invalid="ignore"):
        first, last = ((part**2).mean(axis=0) for part in (errors[:quarter], errors[-quarter:]))
        return (last < first).reshape(len(grid), runs).mean(axis=1) > 0.5  # NaN is not smaller


def as_training(x, d, *, taps, step_size, delay=0):
    """The same filter as a network: one dense layer, squared error, M delays between G_1 and U_1, executed as a graph.

    Parameters
    ----------
    x, d : ndarray (samples,)
    taps, step_size, delay
        As in `dlms`.

    Returns
    -------
    ndarray (samples + delay, taps)
        Weights w(n + 1) after each sample and, while late gradients arrive, after the last.

    Raises
    ------
    ValueError
        As `dlms`.

    Notes
    -----
    LayerPipe, Fig. 3. Products are summed in the order of the taps, as in `dlms`, so the weights are bit-equal.

    Examples
    --------
    >>> as_training([1.0] * 6, [1.0] * 6, taps=1, step_size=0.5, delay=1)[:, 0].tolist()
    [0.0, 0.5, 1.0, 1.25, 1.25, 1.125, 1.0]
    """
    x, d = _checked_signals(x, d)
    taps = whole_number(taps, "taps")
    network = Network("filter", (taps, 1, 1), (Node("weights", Dense(1, bias=False), "input"),))
    delay = whole_number(delay, "delay", least=0)
    plain = backprop_dfg(1)
    graph = plain.with_delays([w + delay * (u == "G1") for u, _, w in plain.edges])
    operations = training_operations(
        graph, network, step_size=step_size, loss="squared_error", products={"F": ordered_product}
    )
    samples = {"X": [Signal(window.T) for window in tap_windows(x, taps)], "T": list(d[:, :, None])}
    start = Parameters(np.zeros((1, taps)))
    clocks = execute(graph, operations, samples, initial=lambda node, clock: start if node == "U1" else None,
                     clocks=len(x) + delay)  # fmt: skip
    return np.array([now["U1"].W[0] for now in clocks])
