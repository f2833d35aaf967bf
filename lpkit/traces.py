"""What an optimiser leaves behind: losses of a whole grid of settings, on the clock of a pipeline.

Source: PPRS (NeurIPS 2019), section 5, where losses are drawn against the simulated time 2T(K + Delta - 1).
"""

import math
import numbers
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from lpkit.checks import plain, shown, whole_number
from lpkit.pipeline_time import pipeline_time

__all__ = ["Trace", "flushed"]


def flushed(iterations, samples, depth):
    """Slots after each of the recorded iterations, where every step waits for all its gradients.

    Parameters
    ----------
    iterations : int or sequence of int
        T, steps made.
    samples, depth : int
        K, gradients a step, and Delta, nodes of the longest path.

    Returns
    -------
    int, or ndarray of int
        2 T (K + Delta - 1) slots.

    Raises
    ------
    ValueError
        If a number is not a whole number, of at least 0 iterations and at least 1 of the others.

    References
    ----------
    PPRS (NeurIPS 2019), section 5.

    Examples
    --------
    >>> flushed([1, 10], 4, 5).tolist()
    [16, 160]
    """
    return pipeline_time(iterations, samples, depth)


@dataclass(frozen=True)
class Trace:
    """Losses of one method over many settings.

    Attributes
    ----------
    method, problem : str
    values : array (settings, records)
        Exact loss of the iterate, never of a perturbed point; NaN after a setting has stopped.
    iterations : array (records,) of int
        Steps made before each record, from 0.
    points : array (settings, d)
        Last iterates; of a stopped setting the last ones with finite entries.
    settings : dict
        Name -> array (settings,), such as ``lr`` and ``gamma``.
    shape : tuple
        Of the grid as given; ``trace.tail_mean().reshape(trace.shape)`` is a heat map.
    stopped : array (settings,) of int
        Step at which the loss, its subgradient or the iterate ceased to be finite; -1 if it never did.
    K : int
        Gradients a step.
    samples : int
        Terms of a finite sum, each of which is a gradient of its own.
    depth : int or None
        Delta, where the iterates themselves depend on it.
    clock : callable (iterations, samples, depth) -> slots
    """

    method: str
    problem: str
    values: np.ndarray
    iterations: np.ndarray
    points: np.ndarray
    settings: dict
    shape: tuple
    stopped: np.ndarray
    K: int = 1
    samples: int = 1
    depth: int | None = None
    clock: Callable = field(default=flushed, repr=False)

    def __len__(self):
        """Number of settings."""
        return len(self.values)

    @property
    def notes(self):
        """One sentence for each setting that stopped.

        Examples
        --------
        >>> line = Trace("gd", "f", np.array([[1, np.nan]]), np.arange(2), np.zeros((1, 1)), {"lr": np.array([9.0])},
        ...              (1,), np.array([1]))
        >>> line.notes
        ('lr 9.0 stopped at step 1: its loss, subgradient or iterate is no longer finite',)
        """
        return tuple(
            f"{self.setting(i)} stopped at step {self.stopped[i]}: its loss, subgradient or iterate is no longer finite"
            for i in np.flatnonzero(self.stopped >= 0)
        )

    def setting(self, index):
        """Name and value of what is set in one of the settings, as text."""
        return ", ".join(f"{name} {shown(values[index])}" for name, values in self.settings.items()) or "the setting"

    def time(self, depth=None):
        """Slots after each record, array (records,): 2T(K + Delta - 1), or the formula of the method.

        Raises
        ------
        ValueError
            If `depth` is no whole number from 1, or not the one that the iterates were made for.

        Examples
        --------
        >>> one = np.ones(1)
        >>> Trace("pprs", "f", one[:, None], np.array([50]), one[:, None], {}, (), -one, K=100).time(depth=20).tolist()
        [11900]
        """
        if depth is None and self.depth is None:
            raise ValueError(f"depth is missing; give the Delta at which the time of {self.method} is asked for")
        depth = whole_number(self.depth if depth is None else depth, "depth")
        if self.depth not in (None, depth):
            raise ValueError(f"depth is {depth}; these iterates of {self.method} were made for depth {self.depth}")
        return self.clock(self.iterations, self.K * self.samples, depth)

    def time_to_target(self, target, depth=None):
        """Slots until the loss of each setting is first at most `target`, array (settings,); inf if it never is.

        Raises
        ------
        ValueError
            If `target` is no number, or as `time`.

        Examples
        --------
        >>> line = Trace("gd", "f", np.array([[3, 2, 1], [3, 3, 3]]), np.arange(3), np.zeros((2, 1)), {}, (2,),
        ...              np.array([-1, -1]))
        >>> line.time_to_target(2, depth=10).tolist()
        [20.0, inf]
        """
        target = plain(target)
        if not isinstance(target, numbers.Real) or math.isnan(target):
            raise ValueError(f"target is {shown(target)}; give a loss, one number")
        hit = self.values <= target
        return np.where(hit.any(axis=1), self.time(depth)[hit.argmax(axis=1)], np.inf)

    def tail_mean(self, share=0.1):
        """Mean loss over the records of the last `share` of the steps, array (settings,); inf if it stopped.

        Raises
        ------
        ValueError
            If `share` is not in (0, 1].

        Examples
        --------
        >>> line = Trace("gd", "f", np.array([[9.0, 8, 3, 1]]), np.arange(4), np.zeros((1, 1)), {}, (), -np.ones(1))
        >>> line.tail_mean(), line.tail_mean(0.5)
        (array([1.]), array([2.]))
        """
        share = plain(share)
        if not isinstance(share, numbers.Real) or not 0 < share <= 1:
            raise ValueError(f"share is {shown(share)}; it must be above 0 and at most 1")
        last = self.iterations[-1]
        before = np.floor(last * (1 - share) + 1e-12 * last)  # 1 - 0.9 is a little less than 0.1
        tail = self.values[:, self.iterations >= min(last, before + 1)]
        return np.where(np.isfinite(tail).all(axis=1), np.nan_to_num(tail).mean(axis=1), np.inf)

    def best(self, share=0.1):
        """Index of the setting with the least tail mean."""
        return int(self.tail_mean(share).argmin())
