"""The delayed LMS filter: by hand, against one-layer training to the last bit, and its step-size bound."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lpkit.dlms import as_training, dlms, identification, learning_curves, mean_bound, measured_bound, tap_windows


def by_loops(x, d, taps, mu, M):
    """The definition, one number at a time."""
    w, errors, weights = [0.0] * taps, [], []
    at = [[x[n - k] if n >= k else 0.0 for k in range(taps)] for n in range(len(x))]
    for n in range(len(x)):
        output = at[n][0] * w[0]
        for k in range(1, taps):
            output += at[n][k] * w[k]
        errors.append(d[n] - output)
        if n >= M:
            w = [w[k] + mu * (errors[n - M] * at[n - M][k]) for k in range(taps)]
        weights.append(w)
    return errors, weights


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 6), st.integers(0, 9), st.integers(1, 30), st.integers(0, 99))
def test_filter_loops_and_training_are_equal_to_the_last_bit(taps, M, samples, seed):
    rng = np.random.default_rng(seed)
    x, d = rng.standard_normal((2, samples))
    errors, weights = by_loops(x.tolist(), d.tolist(), taps, 0.05, M)
    result = dlms(x, d, taps=taps, step_size=0.05, delay=M)
    assert result.errors[:, 0].tolist() == errors and result.weights[:, 0].tolist() == weights[-1]
    assert as_training(x, d, taps=taps, step_size=0.05, delay=M)[:samples].tolist() == weights


def test_another_delay_is_not_equal():
    x, d = np.random.default_rng(0).standard_normal((2, 30))
    assert not np.array_equal(as_training(x, d, taps=3, step_size=0.05, delay=3)[29],
                              dlms(x, d, taps=3, step_size=0.05, delay=2).weights[:, 0])  # fmt: skip


def test_runs_are_independent_and_have_their_own_step_size():
    x, d = identification(taps=4, samples=50, seeds=3)
    steps = np.array([0.01, 0.02, 0.05])
    together = dlms(x, d, taps=4, step_size=steps, delay=2)
    for run, step in enumerate(steps):
        alone = dlms(x[:, run], d[:, run], taps=4, step_size=step, delay=2)
        assert np.array_equal(alone.errors[:, 0], together.errors[:, run])


def test_windows_hold_what_came_before():
    windows = tap_windows(np.arange(1.0, 9.0).reshape(4, 2), 3)
    assert windows[2].tolist() == [[5, 6], [3, 4], [1, 2]] and windows[0].tolist() == [[1, 2], [0, 0], [0, 0]]


def test_no_delay_converges_to_the_noise():
    errors = learning_curves([0, 4], step_size=0.05, noise=0.1)
    for M in (0, 4):
        assert errors[M].shape == (2000, 10)
        assert 0.009 < errors[M][-500:].mean() < 0.02 and errors[M][:4].mean() > 0.3


def test_too_large_a_step_with_delay_diverges_without_a_warning():
    errors = learning_curves([0, 16], step_size=0.15)
    assert errors[0][-100:].max() < 0.1 and not errors[16][-100:].mean() < 1


@pytest.mark.parametrize("M", [0, 1, 2, 4, 8, 16])
def test_measured_bound_of_a_constant_input_is_the_bound_of_the_mean(M):
    assert measured_bound(M) == pytest.approx(mean_bound(M), rel=2e-3)


@pytest.mark.parametrize("M", [0, 1, 3, 10])
def test_mean_bound_is_where_a_root_leaves_the_unit_circle(M):
    def radius(mu):
        return np.abs(np.roots([1, -1, *[0] * (M - 1), mu] if M else [1, mu - 1])).max()

    assert radius(mean_bound(M) * 0.999) < 1 < radius(mean_bound(M) * 1.001)


def test_measured_bound_of_a_white_input_falls_with_the_delay_and_with_the_taps():
    bounds = {(M, taps): measured_bound(M, signal="white", taps=taps, samples=1500, points=20, refinements=2)
              for M in (0, 2, 8) for taps in (4, 16)}  # fmt: skip
    for taps in (4, 16):
        assert bounds[0, taps] > bounds[2, taps] > bounds[8, taps] > 0
    assert all(bounds[M, 4] > bounds[M, 16] and bounds[M, 4] < mean_bound(M) for M in (0, 2, 8))


@pytest.mark.parametrize("call, sentence", [
    (lambda: dlms([1, 2], [1], taps=1, step_size=0.1), r"x has shape \(2,\) and d has \(1,\)"),
    (lambda: dlms([], [], taps=1, step_size=0.1), r"x has shape \(0,\)"),
    (lambda: dlms([1], [1], taps=0, step_size=0.1), "taps is 0"),
    (lambda: dlms([1], [1], taps=1, step_size=0.1, delay=-1), "delay is -1"),
    (lambda: mean_bound(1.5), "delay is 1.5"),
    (lambda: mean_bound(1, power=0), "power is 0; it must be above 0"),
    (lambda: mean_bound(1, power="a"), "power is 'a'; it must be above 0 and finite"),
    (lambda: mean_bound(1, power=np.nan), "power is nan"),
    (lambda: dlms([1], [1], taps=1, step_size=np.nan), "step_size is .*nan.*; it must be a finite number"),
    (lambda: dlms([1], [1], taps=1, step_size="a"), "step_size is 'a'; it must be real numbers"),
    (lambda: dlms([1], [1], taps=1, step_size=[0.1, 0.2]), "it must be a finite number, or 1 of them, one a run"),
    (lambda: dlms([1j], [1], taps=1, step_size=0.1), r"x is \[1j\]; it must be real numbers"),
    (lambda: dlms([1], np.array([1j]), taps=1, step_size=0.1), "d is .*; it must be real numbers"),
    (lambda: dlms([[1], [1, 2]], [1], taps=1, step_size=0.1), "x is .*; it must be real numbers"),
    (lambda: identification(noise=-1), "noise is -1; it must be a finite number of 0 or more"),
    (lambda: identification(noise=np.nan), "noise is nan"),
    (lambda: measured_bound(1, samples=1), "samples is 1; it must be a whole number from 4"),
    (lambda: measured_bound(1, signal="pink"), "signal is 'pink'"),
    (lambda: learning_curves([0], step_size="a"), "step_size is 'a'"),
])  # fmt: skip
def test_wrong_input_is_one_clear_sentence(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()
