"""The attack: values and subgradients by hand and by differences, the exact proximal map, the l1 check, results."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lpkit.attack import LinfAttack
from lpkit.image_network import ImageNetwork, trained_alexnet
from lpkit.layerwise import Parameters
from lpkit.networks import Dense, Flatten, Network, Node

# scores of an image (a, b): a, b and a + b - 1
LINE = Network("line", (1, 1, 2), (Node("flat", Flatten(), "input"), Node("fc", Dense(3), "flat")))
WEIGHTS = Parameters(np.float32([[1, 0], [0, 1], [1, 1]]), np.float32([0, 0, -1]))
LINEAR = ImageNetwork(LINE, (WEIGHTS,), (0.0,), (1.0,), ("left", "right", "both"))


def linear(image=(0.75, 0.25), target="right", **options):
    return LinfAttack(LINEAR, np.reshape(image, (1, 1, 2)), target, **options)


def test_objective_by_hand():
    attack = linear(weight=8)
    values, subgradients = attack.value_and_subgradient(np.array([[0.75, 0.25], [0.5, 0.375], [0.0, 2.5]]))
    # margins 1 - 0.25 + 0.75 and 1 - 0.25 + 0; 1 - 0.375 + 0.5 and 1 - 0.375 - 0.125; max(0, -1.5) and 1 - 2.5 + 1.5
    assert values.tolist() == [2.25, 1.125 + 0.5 + 8 * 0.25, 0 + 0 + 8 * 2.25]
    assert subgradients.tolist() == [[2, -1], [2 - 8, -1], [0, 8]]  # max(0, t) has 0 at 0
    assert values.dtype == subgradients.dtype == np.float64
    assert attack.value(np.array([[0.5, 0.375]])).tolist() == [3.625]
    assert attack.start.tolist() == [0.75, 0.25] and attack.dimension == 2
    assert attack.name == "l_inf attack, left to right"


def test_mean_divides_the_margin_alone():
    values, subgradients = linear(weight=8, reduction="mean").value_and_subgradient(np.array([[0.5, 0.375]]))
    np.testing.assert_allclose(values, [1.625 / 3 + 2], rtol=1e-6)
    np.testing.assert_allclose(subgradients, [[2 / 3 - 8, -1 / 3]], rtol=1e-6)


def test_margin_is_an_option():
    assert linear(margin=0.0).value(np.array([[0.75, 0.25]])).tolist() == [0.5]
    assert linear(margin=2.0).value(np.array([[0.75, 0.25]])).tolist() == [4.25]


def test_ties_of_the_largest_change():
    point = np.array([[1.0, 0.0]])  # both pixels moved by a quarter
    clean = linear(weight=8).margin_value_and_gradient(point)[1]
    assert (linear(weight=8).value_and_subgradient(point)[1] - clean).tolist() == [[8, 0]]
    assert (linear(weight=8, ties="shared").value_and_subgradient(point)[1] - clean).tolist() == [[4, -4]]
    start = linear().start[None]
    for ties in ("first", "shared"):
        attack = linear(ties=ties)
        assert np.array_equal(attack.value_and_subgradient(start)[1], attack.margin_value_and_gradient(start)[1])


def test_float32_stays_float32():
    attack = linear()
    points = np.float32([[0.5, 0.5]])
    found = [*attack.value_and_subgradient(points), *attack.margin_value_and_gradient(points), attack.value(points),
             attack.penalty(points), attack.prox(points, 0.01)]  # fmt: skip
    assert {a.dtype for a in found} == {np.dtype(np.float32)}


@given(st.lists(st.floats(-3, 3, width=32), min_size=2, max_size=2), st.floats(0, 2))
def test_prox_is_the_best_point(point, step):
    attack = linear(weight=1)
    points = np.array([point])
    best = attack.prox(points, step)

    def cost(u):
        return step * attack.penalty(u) + ((u - points) ** 2).sum(axis=1) / 2

    others = best + np.random.default_rng(0).standard_normal((500, 2)) * np.logspace(-4, 0, 500)[:, None]
    assert (cost(others) >= cost(best) - 1e-12).all()


def test_loss_and_penalty_are_the_objective():
    attack = linear(weight=8)
    points = np.random.default_rng(0).random((6, 2))
    np.testing.assert_allclose(attack.loss.value(points) + attack.penalty(points), attack.value(points), rtol=1e-6)
    assert attack.loss.dimension == 2 and np.array_equal(attack.loss.start, attack.start)
    assert np.array_equal(attack.loss.value_and_subgradient(points)[1], attack.margin_value_and_gradient(points)[1])


# AlexNet -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def alexnet():
    return trained_alexnet()


@pytest.fixture(scope="module")
def image():
    """Smooth colours, which AlexNet takes for something with confidence."""
    ramp = np.linspace(0, 1, 32)
    return np.stack(np.broadcast_arrays(ramp[:, None], ramp, 0.5 + 0 * ramp))


def test_one_step_against_the_gradient_lowers_the_margin(alexnet, image):
    attack = LinfAttack(alexnet, image, "horse")
    value, gradient = attack.margin_value_and_gradient(attack.start[None])
    step = 1e-4
    lower = attack.loss.value(attack.start[None] - step * np.sign(gradient))
    assert value - lower == pytest.approx(step * abs(gradient).sum(), rel=0.1)  # the l1 norm is the dual of l_inf


def test_the_l1_check_tells_whether_the_untouched_image_is_best(alexnet, image):
    whole, shared = (LinfAttack(alexnet, image, "horse", reduction=kind).l1_check() for kind in ("sum", "mean"))
    assert shared.norm == pytest.approx(whole.norm / 10, rel=1e-4)
    for factor, best in ((1.1, True), (0.9, False)):
        attack = LinfAttack(alexnet, image, "horse", weight=factor * whole.norm)
        check, here = attack.l1_check(), attack.value(attack.start[None])
        _, gradient = attack.margin_value_and_gradient(attack.start[None])
        assert check.clean_is_optimal is best
        assert (attack.value(attack.start[None] - 1e-4 * np.sign(gradient)) > here) == best
    assert str(check).endswith("a change of the image pays") and f"{check.norm:.6g} > lambda" in str(check)


def test_results(alexnet, image):
    attack = LinfAttack(alexnet, image, "horse")
    clean = attack.result(attack.start)
    assert not clean.success and clean.linf_255 == 0 and clean.predicted == attack.clean_class
    assert np.array_equal(clean.image, image) and clean.objective == attack.value(attack.start[None])[0]
    point = attack.start.copy()
    for _ in range(40):  # signs of the gradient, far enough to succeed
        point = point - 2 / 255 * np.sign(attack.margin_value_and_gradient(point[None])[1][0])
    found = attack.result(point)
    assert found.success and alexnet.classes[found.predicted] == "horse" and 2 < found.linf_255 <= 80.001
    assert found.clipped.min() >= 0 and found.clipped.max() <= 1 and found.image.min() < 0
    assert found.scores.argmax() == 7 and np.array_equal(found.clean_scores, attack.clean_scores)


# wrong input ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call, sentence", [
    (lambda: linear(target="left"), "the target is left, the class that the network gives this image already; choose"),
    (lambda: linear(target=0), "the target is left, the class"),
    (lambda: linear(target=3), r"target \(a class\) is 3; it must be a whole number from 0 to 2"),
    (lambda: linear(target="rihgt"), "target is 'rihgt'; did you mean 'right'"),
    (lambda: LinfAttack(ImageNetwork(LINE, (WEIGHTS,), (0,), (1,)), np.zeros((1, 1, 2)), "right"), "have no names"),
    (lambda: linear(image=(0.75, np.nan)), r"the image holds NaN in 1 places; give numbers in \[0, 1\]"),
    (lambda: linear(image=(255, 3)), r"the image holds values from 3 to 255; they must be in \[0, 1\]; divide by 255"),
    (lambda: linear(image=(0.5, -0.1)), r"the image holds values from -0.1 to 0.5; they must be in \[0, 1\]$"),
    (lambda: linear(image=(0.5, np.inf)), r"the image holds values from 0.5 to inf; they must be in \[0, 1\]$"),
    (lambda: LinfAttack(LINEAR, np.zeros((2, 1, 1)), 0), r"image has shape \(2, 1, 1\); the network reads \(1, 1, 2\)"),
    (lambda: LinfAttack(LINEAR, "frog", 0), "the image is 'frog'; give an array"),
    (lambda: linear(weight=-1), "weight is -1; it must be a finite number of at least 0"),
    (lambda: linear(margin=np.nan), "margin is nan"),
    (lambda: linear(reduction="max"), "reduction is 'max'.*Known: 'sum', 'mean'"),
    (lambda: linear(ties="last"), "ties is 'last'.*Known: 'first', 'shared'"),
    (lambda: linear().value(np.zeros(2)), r"points have shape \(2,\) and type float64; .* shape \(n, 2\)"),
    (lambda: linear().value_and_subgradient(np.zeros((1, 3))), r"points have shape \(1, 3\)"),
    (lambda: linear().prox(np.zeros((1, 2), complex), 1.0), "type complex128"),
    (lambda: linear().result(np.zeros(3)),
     r"the point has shape \(3,\) and type float64; give numbers of shape \(2,\) or \(1, 1, 2\)"),
    (lambda: linear().result([0, np.nan]), "the point has 2 values, 1 of them not finite"),
])  # fmt: skip
def test_wrong_input(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()


def test_points_that_are_not_finite_have_no_finite_value():
    points = np.array([[np.nan, 0.5], [np.inf, 0.5], [0.5, 0.5]])
    with np.errstate(invalid="ignore"):
        values, subgradients = linear().value_and_subgradient(points)
    assert np.isfinite(values).tolist() == [False, False, True] and np.isfinite(subgradients[2]).all()
