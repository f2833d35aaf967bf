"""The adversarial attack of PPRS (NeurIPS 2019), section 5, as a problem for the optimisers.

::

    f(x~) = sum over i != y of max(0, margin - s_y(x~) + s_i(x~)) + lambda max_j |x~_j - x_j|

y is the class that the image x is to be taken for, s are the scores of a network, and the search starts at x~ = x.
The sum is what the paper's experiment needs: divided by the number of classes, as PyTorch's MultiMarginLoss does, the
gradient at x is so small that lambda = 300 makes the untouched image the best one; `LinfAttack.l1_check` shows it.

Subgradients: max(0, t) has 0 at t = 0, and ``|t|`` has 0 at t = 0, so that of the penalty is 0 at x. Among several
largest coordinates the first one counts (``ties="first"``) or all share evenly (``ties="shared"``).
"""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from lpkit.checks import choice, real, shown, whole_number
from lpkit.prox import linf_prox

__all__ = ["AttackResult", "L1Check", "LinfAttack"]

REDUCTIONS = ("sum", "mean")
TIES = ("first", "shared")
LARGEST = 1e30  # of lambda and the margin: float32 holds what comes of them


class L1Check(NamedTuple):
    """The l1 norm of the margin's gradient at the untouched image against lambda, the dual norms of each other."""

    norm: float
    weight: float

    @property
    def clean_is_optimal(self):
        """Whether no small change of the image lowers the objective, because lambda is at least the l1 norm."""
        return self.norm <= self.weight

    def __str__(self):
        verdict = "the untouched image is a local minimum" if self.clean_is_optimal else "a change of the image pays"
        sign = "<=" if self.clean_is_optimal else ">"
        return f"l1 norm of the gradient {self.norm:.6g} {sign} lambda {self.weight:.6g}: {verdict}"


@dataclass(frozen=True, eq=False)
class AttackResult:
    """What an attack came to: `success` is that the scores of `image` are largest for the target.

    `image` is the point itself; `clipped` is what can be shown, in [0, 1], and `clipped_success` its success.
    `linf_255` is ``max |x~ - x|`` in grey levels of 255. Classes are numbers.
    """

    success: bool
    predicted: int
    scores: np.ndarray
    clean_scores: np.ndarray
    objective: float
    linf_255: float
    image: np.ndarray
    clipped: np.ndarray
    clipped_success: bool


@dataclass(frozen=True, eq=False)
class LinfAttack:
    """Change an image as little as can be, in its largest pixel change, so that a network takes it for a class.

    Points are images flattened to (n, d), float32 or float64; the network computes in float32, values and
    subgradients come back in the type of the points. Nothing is clipped to [0, 1], as in the paper.

    Parameters
    ----------
    network : ImageNetwork or TorchClassifier
        Anything with `input_shape`, `scores` and `scores_and_gradient`.
    image : array (C, H, W)
        In [0, 1].
    target : int or str
        y: a class number, or its name where the network has names.
    weight : float
        lambda.
    reduction : {"sum", "mean"}
        Over the classes, of the margin.
    margin : float
    ties : {"first", "shared"}

    Raises
    ------
    ValueError
        If the image has another shape, a pixel outside [0, 1] or NaN; if the target is no class, or the one that the
        network gives the image already; if a number or a name is out of range.

    Notes
    -----
    PPRS, section 5: lambda = 300. The margin of 1 and the sum are choices the paper leaves open.

    Examples
    --------
    >>> from lpkit.image_network import trained_alexnet
    >>> attack = LinfAttack(trained_alexnet(), np.zeros((3, 32, 32)), "horse")
    >>> values, subgradients = attack.value_and_subgradient(attack.start[None])
    >>> values.shape, subgradients.shape, str(attack)
    ((1,), (1, 3072), 'l_inf attack, cat to horse')
    """

    network: Any = field(repr=False)
    image: Any = field(repr=False)
    target: Any
    weight: float = field(default=300.0, kw_only=True)
    reduction: str = field(default="sum", kw_only=True)
    margin: float = field(default=1.0, kw_only=True)
    ties: str = field(default="first", kw_only=True)
    clean_scores: np.ndarray = field(init=False, repr=False)

    def __post_init__(self):
        image = _checked_image(self.image, self.network.input_shape)
        image.flags.writeable = False
        choice(self.reduction, "reduction", REDUCTIONS)
        choice(self.ties, "ties", TIES)
        clean = self.network.scores(image[None])[0]
        values = {"image": image, "weight": real(self.weight, "weight", most=LARGEST),
                  "margin": real(self.margin, "margin", most=LARGEST),
                  "target": _class(self.target, self.network, len(clean)), "clean_scores": clean}  # fmt: skip
        for name, value in values.items():
            object.__setattr__(self, name, value)
        if self.target == self.clean_class:
            raise ValueError(f"the target is {self._name(self.target)}, the class that the network gives this image "
                             "already; choose another one")  # fmt: skip

    def __str__(self):
        return self.name

    @property
    def name(self):
        """What is attacked, from which class to which."""
        return f"l_inf attack, {self._name(self.clean_class)} to {self._name(self.target)}"

    @property
    def clean_class(self):
        """Class number that the network gives the untouched image."""
        return int(self.clean_scores.argmax())

    @property
    def dimension(self):
        """d, the number of pixel values."""
        return self.image.size

    @property
    def start(self):
        """The untouched image as a point (d,)."""
        return self.image.reshape(-1)

    def value(self, points):
        """Objective (n,) at points (n, d)."""
        points = self._points(points)
        margins = self._margins(self.network.scores(self._images(points)))
        return margins.astype(points.dtype) + self.penalty(points)

    def value_and_subgradient(self, points):
        """Objective (n,) and a subgradient (n, d) at points (n, d)."""
        points = self._points(points)
        values, subgradients = self.margin_value_and_gradient(points)
        away = points - self.start.astype(points.dtype)
        size = abs(away)
        largest = size.max(axis=1, keepdims=True)
        if self.ties == "first":
            rows, first = np.arange(len(points)), size.argmax(axis=1)
            subgradients[rows, first] += points.dtype.type(self.weight) * np.sign(away[rows, first])
        else:
            tied = size == largest
            subgradients += points.dtype.type(self.weight) * np.sign(away) * tied / tied.sum(axis=1, keepdims=True)
        return values + points.dtype.type(self.weight) * largest[:, 0], subgradients

    def margin_value_and_gradient(self, points):
        """The sum over the classes alone, (n,) and (n, d): the part whose proximal map is not known."""
        points = self._points(points)
        scores, gradients = self.network.scores_and_gradient(self._images(points), self._error_of_scores)
        return self._margins(scores).astype(points.dtype), gradients.reshape(points.shape).astype(points.dtype)

    def penalty(self, points):
        """``lambda max |x~ - x|``, (n,)."""
        points = self._points(points)
        return points.dtype.type(self.weight) * abs(points - self.start.astype(points.dtype)).max(axis=1)

    def prox(self, points, steps):
        """``argmin_u  step penalty(u) + |u - point|^2 / 2`` for each point: exact."""
        points = self._points(points)
        middle = self.start.astype(points.dtype)
        return middle + linf_prox(points - middle, self.weight * np.asarray(steps, points.dtype))

    @property
    def loss(self):
        """The margin as a problem of its own, as proximal methods ask for it."""
        return SimpleNamespace(
            name=f"margin of {self.name}", dimension=self.dimension, start=self.start,
            value_and_subgradient=self.margin_value_and_gradient,
            value=lambda points: self.value(points) - self.penalty(points))  # fmt: skip

    def l1_check(self):
        """Whether the untouched image is a local minimum: lambda against the l1 norm of the margin's gradient."""
        _, gradient = self.margin_value_and_gradient(self.start[None])
        return L1Check(float(abs(gradient.astype(float)).sum()), self.weight)

    def result(self, point):
        """What an attack came to, at one point (d,) or image (C, H, W).

        Raises
        ------
        ValueError
            If it has another size, or holds NaN or infinity.
        """
        given = np.asarray(point)
        if given.dtype.kind not in "iuf" or given.shape not in ((self.dimension,), self.image.shape):
            raise ValueError(f"the point has shape {given.shape} and type {given.dtype}; give numbers of shape "
                             f"{(self.dimension,)} or {self.image.shape}")  # fmt: skip
        point = given.astype(np.float64).reshape(-1)
        if point.size != self.dimension or not np.isfinite(point).all():
            raise ValueError(f"the point has {point.size} values, {np.count_nonzero(~np.isfinite(point))} of them not "
                             f"finite; give {self.dimension} finite ones")  # fmt: skip
        image = point.reshape(self.image.shape)
        clipped = np.clip(image, 0, 1)
        scores, clipped_scores = self.network.scores(np.stack([image, clipped]))
        return AttackResult(
            bool(scores.argmax() == self.target), int(scores.argmax()), scores, self.clean_scores,
            float(self.value(point[None])[0]), float(abs(point - self.start).max() * 255), image, clipped,
            bool(clipped_scores.argmax() == self.target))  # fmt: skip

    def _margins(self, scores):
        return np.maximum(self._terms(scores), 0).sum(axis=1) / (scores.shape[1] if self.reduction == "mean" else 1)

    def _terms(self, scores):
        """margin - s_y + s_i, with -inf at i = y, which is no term."""
        terms = np.float32(self.margin) - scores[:, [self.target]] + scores
        terms[:, self.target] = -np.inf
        return terms

    def _error_of_scores(self, scores):
        error = (self._terms(scores) > 0).astype(np.float32)
        error[:, self.target] = -error.sum(axis=1)
        return error / np.float32(scores.shape[1]) if self.reduction == "mean" else error

    def _points(self, points):
        points = np.asarray(points)
        if points.ndim != 2 or points.shape[1] != self.dimension or points.dtype.kind not in "iuf":
            raise ValueError(f"points have shape {points.shape} and type {points.dtype}; the attack needs numbers of "
                             f"shape (n, {self.dimension})")  # fmt: skip
        return points if points.dtype in (np.float32, np.float64) else points.astype(np.float64)

    def _images(self, points):
        return points.reshape(-1, *self.image.shape)

    def _name(self, number):
        return self.network.classes[number] if self.network.classes else f"class {number}"


def _checked_image(image, shape):
    """The image as float64 (C, H, W) with all pixels in [0, 1]."""
    try:
        found = np.array(image)
        if found.dtype.kind == "c":
            raise TypeError
        found = found.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"the image is {shown(image)}; give an array of numbers in [0, 1], "
                         "such as picture(name).pixels") from None
    if found.shape != tuple(shape):
        raise ValueError(f"the image has shape {found.shape}; the network reads {tuple(shape)}: "
                         "channels, height, width")  # fmt: skip
    if np.isnan(found).any():
        raise ValueError(f"the image holds NaN in {np.count_nonzero(np.isnan(found))} places; give numbers in [0, 1]")
    if found.min() < 0 or found.max() > 1:
        hint = "; divide by 255" if 1 < found.max() <= 255 and found.min() >= 0 else ""
        raise ValueError(f"the image holds values from {found.min():.6g} to {found.max():.6g}; "
                         f"they must be in [0, 1]{hint}")  # fmt: skip
    return found


def _class(target, network, count):
    if isinstance(target, str):
        if not network.classes:
            raise ValueError(f"target is {shown(target)}, but the classes of this network have no names; give a number")
        return tuple(network.classes).index(choice(target, "target", tuple(network.classes)))
    return whole_number(target, "target (a class)", least=0, most=count - 1)
