"""What the optimisers, their problems and their traces say of input that cannot be used."""

import re
from types import SimpleNamespace

import numpy as np
import pytest

from lpkit.baselines import decaying_gd, delayed_gd, sign_pgd
from lpkit.descent import grid
from lpkit.problems import Problem, finite_sum, linf_penalised, max_affine, random_max_affine
from lpkit.prox import linf_prox
from lpkit.smoothing import agd, gd
from lpkit.traces import Trace

GOOD = max_affine([[1.0, 0.0]], [1.0])


def odd(answer=None, value=None):
    """A problem that answers as it is told."""
    return SimpleNamespace(dimension=2, start=np.zeros(2), value=value or (lambda x: np.ones(len(x))),
                           value_and_subgradient=answer or (lambda x: (np.ones(len(x)), np.ones_like(x))))  # fmt: skip


@pytest.mark.parametrize("make, sentence", [
    (lambda: grid(lr=np.ones((10**5, 1)), gamma=np.ones(10**5)), "the grid has shape (100000, 100000)"),
    (lambda: gd(GOOD, 2, lr=1e39, dtype="float32"), "lr has 1e+39, too large for float32"),
    (lambda: gd(GOOD, 2, lr=1, dtype="foo"), "dtype is 'foo'; Known: 'float32', 'float64'"),
    (lambda: gd(GOOD, 2, lr=1, dtype=5), "dtype is 5;"),
    (lambda: gd(GOOD, 2, lr=1, start="abc"), "the start is 'abc'; give 2 numbers"),
    (lambda: gd(GOOD, 2, lr=1, start=[1, 2j]), "the start is [1, 2j]; give 2 numbers"),
    (lambda: gd(GOOD, 2, lr=1, start=[1, 1e39], dtype="float32"), "the start holds NaN or infinity"),
    (lambda: gd(GOOD, 2, lr=1, callback=5), "callback is 5; give a function"),
    (lambda: gd(None, 2, lr=1), "the problem is None, without value_and_subgradient"),
    (lambda: gd(odd(lambda x: None), 2, lr=1), "the problem gave None; it must give values and subgradients"),
    (lambda: gd(odd(lambda x: (np.ones(len(x)), x * 1j)), 2, lr=1), "subgradients of shape (1, 2) and type complex128"),
    (lambda: gd(odd(lambda x: ([[1], [1, 2]], x)), 2, lr=1), "the problem gave values [[1], [1, 2]]"),
    (lambda: gd(odd(value=lambda x: 1.0), 2, lr=1), "the problem gave values of shape ()"),
    (lambda: gd(odd(value=lambda x: np.ones((len(x), 1))), 2, lr=1), "the problem gave values of shape (1, 1)"),
    (lambda: gd(odd(value=lambda x: None), 2, lr=1), "the problem gave values of shape () and type object"),
    (lambda: agd(GOOD, 2**40, lr=1, mu="nesterov"), "iterations is 1099511627776; it must be a whole number from 0 to"),
    (lambda: decaying_gd(GOOD, 2**40, lr=1), "iterations is 1099511627776"),
    (lambda: delayed_gd(GOOD, 2, lr=1, depth=2**40), "past iterates of 2 numbers are too many to keep"),
    (lambda: sign_pgd(GOOD, 2, lr=1, radius=1, centre="ab"), "the centre is 'ab'; give 2 numbers"),
    (lambda: sign_pgd(GOOD, 2, lr=1, radius=1, centre=[0, np.nan]), "the centre holds NaN"),
    (lambda: Problem("f", "x", None), "dimension is 'x'; it must be a whole number from 1"),
    (lambda: Problem("f", 2, None, start="ab"), "the start is 'ab'; give 2 numbers"),
    (lambda: GOOD.value([[1], [1, 2]]), "points are [[1], [1, 2]]; give an array (n, 2)"),
    (lambda: random_max_affine(2**40), "rows of 1099511627776 numbers are too many"),
    (lambda: finite_sum([1]), "a part of the sum is 1; give a problem"),
    (lambda: finite_sum(1), "a part of the sum is 1; give a problem"),
    (lambda: finite_sum([GOOD, max_affine([[1.0, 0.0]], [1.0], start=[1.0, 0.0])]), "the parts have different starts"),
    (lambda: linf_penalised(None, 1), "the loss is None; give a problem"),
    (lambda: linf_penalised(GOOD, 1, centre=[0, np.nan]), "the centre holds NaN or infinity"),
    (lambda: linf_prox(np.ones(3), 1), "points have shape (3,)"),
    (lambda: linf_prox(np.ones((1, 3)), [1, 2]), "their sizes shape (2,)"),
    (lambda: linf_prox("a", 1), "points have shape () and type <U1"),
    (lambda: linf_prox(np.ones((2, 0)), 1), "points have shape (2, 0)"),
])  # fmt: skip
def test_bad_input(make, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        make()


def test_a_callback_may_answer_with_numpy_s_true():
    assert gd(GOOD, 9, lr=0.1, callback=lambda t, values: (values < 0.95).all()).iterations[-1] == 1


def test_what_a_callback_raises_goes_through():
    def fail(t, values):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        gd(GOOD, 9, lr=0.1, callback=fail)


def test_lists_are_answers_too_and_the_type_of_the_points_is_kept():
    seen = []

    def answer(x):
        seen.append(x.dtype)
        return [1.0] * len(x), np.ones(x.shape)  # float64 always

    found = gd(odd(answer, lambda x: [float(v) for v in x[:, 0]]), 3, lr=[0.5, 1], dtype="float32")
    assert found.values.tolist() == [[0, -0.5, -1, -1.5], [0, -1, -2, -3]] and set(seen) == {np.dtype("float32")}


def test_whole_points_are_not_projected_with_a_step_cut_to_a_whole_number():
    assert linf_prox(np.array([[3, -1]]), 0.5).tolist() == [[2.5, -1.0]]


def test_sums_of_sums_count_all_their_terms():
    assert finite_sum([random_max_affine(3, 4, samples=5), random_max_affine(3, 4, samples=2)]).samples == 7


def trace(records):
    return Trace("gd", "f", np.arange(float(records))[None], np.arange(records), np.zeros((1, 1)), {}, (), -np.ones(1))


@pytest.mark.parametrize("share", ["a", None, np.nan, 0])
def test_share_must_be_a_number(share):
    with pytest.raises(ValueError, match="it must be above 0 and at most 1"):
        trace(3).tail_mean(share)


@pytest.mark.parametrize("target", ["a", None, np.nan, [1, 2]])
def test_target_must_be_a_number(target):
    with pytest.raises(ValueError, match="target is .*; give a loss, one number"):
        trace(3).time_to_target(target, 2)


@pytest.mark.parametrize("steps", [10, 20, 30])
def test_the_tail_of_nine_tenths_leaves_a_tenth_out(steps):
    assert trace(steps + 1).tail_mean(0.9) == np.arange(steps // 10 + 1, steps + 1).mean()
