"""Optimisers: against loops written out by hand, and what a grid, a seed and a diverging setting do."""

import numpy as np
import pytest

from lpkit.baselines import adam, decaying_gd, delayed_gd, fista, proximal_gradient, sign_pgd
from lpkit.hard_functions import l1_chain, smooth_chain
from lpkit.problems import Problem, finite_sum, linf_penalised, max_affine, random_max_affine
from lpkit.smoothing import agd, gd, nesterov_momentum, pprs, theorem_parameters

CLIFF = Problem("cliff", 2, lambda x: (np.exp(x[:, 0] ** 2), 2 * x * np.exp(x**2)), start=[1.0, 0.0])
WALL = Problem("wall", 1, lambda x: (np.where(x[:, 0] > 0.5, np.inf, -x[:, 0]), -np.ones_like(x)))
RATES = np.array([0.01, 0.1, 1.0])


def slope(problem, x):
    return problem.value_and_subgradient(x[None])[1][0]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("problem", [
    random_max_affine(9, 30), l1_chain(8), smooth_chain(7), random_max_affine(4, 5, samples=3),
])  # fmt: skip
def test_one_unperturbed_sample_is_gradient_descent_to_the_last_bit(problem, dtype):
    plain = gd(problem, 60, lr=RATES, dtype=dtype)
    special = pprs(problem, 60, K=1, gamma=0, mu=0, lr=RATES, dtype=dtype, seed=5)
    assert np.array_equal(plain.values, special.values) and np.array_equal(plain.points, special.points)
    assert plain.time(20).tolist() == special.time(20).tolist()
    for i, lr in enumerate(RATES.astype(dtype)):  # and gradient descent is the loop of the textbook
        x = np.zeros(problem.dimension, dtype)
        batch = np.tile(x, (3, 1))
        for _ in range(60):
            batch = batch - lr * problem.value_and_subgradient(batch)[1]
        assert np.array_equal(plain.points[i], batch[0])


def test_algorithm_1_line_by_line():
    problem, T, K, lr, gamma = random_max_affine(6, 20), 15, 4, 0.2, 0.05
    for mu in (0.0, 0.7, "nesterov"):
        trace = pprs(problem, T, K=K, lr=lr, gamma=gamma, mu=mu, seed=3)
        rng, x, y = np.random.default_rng(3), np.zeros(6), np.zeros(6)
        for t in range(T):
            X = rng.standard_normal((K, 6))
            G = sum(slope(problem, x + gamma * X[k]) for k in range(K)) / K
            new = x - lr * G
            momentum = nesterov_momentum(T)[t] if mu == "nesterov" else mu
            x, y = (1 + momentum) * new - momentum * y, new
            assert trace.values[0, t + 1] == pytest.approx(problem.value(y[None])[0], rel=1e-9)
        assert np.allclose(trace.points[0], y)


def test_accelerated_gradient_descent_line_by_line():
    problem, x, y = smooth_chain(8), np.zeros(8), np.zeros(8)
    trace = agd(problem, 30, lr=[0.5, 1.0], mu=0.9)
    for _ in range(30):
        new = x - slope(problem, x)
        x, y = new + 0.9 * (new - y), new
    assert np.allclose(trace.points[1], y)
    assert set(trace.settings) == {"lr", "mu"}


def test_nesterov_momentum_is_its_recurrence():
    lam, expected = 1.0, []
    for _ in range(50):
        new = (1 + (1 + 4 * lam * lam) ** 0.5) / 2
        expected, lam = [*expected, (lam - 1) / new], new
    assert np.allclose(nesterov_momentum(50), expected)
    trace = agd(smooth_chain(40, beta=2.0, R=5.0), 100, lr=0.5, mu="nesterov")
    errors = trace.values[0] - smooth_chain(40, beta=2.0, R=5.0).optimum
    assert (errors[1:] <= 2 * 2.0 * 25 / (trace.iterations[1:] + 1) ** 2).all()


def test_all_settings_see_the_same_noise():
    problem = random_max_affine(5, 9)
    together = pprs(problem, 20, K=3, lr=[[0.1], [0.2]], gamma=[0.01, 0.1, 0.3], seed=8)
    assert together.shape == (2, 3) and len(together) == 6
    for i in range(6):
        alone = pprs(problem, 20, K=3, lr=together.settings["lr"][i], gamma=together.settings["gamma"][i], seed=8)
        assert np.allclose(alone.values[0], together.values[i], rtol=1e-9)
    twice = pprs(problem, 20, K=3, lr=[0.1, 0.1], gamma=0.1, seed=8)
    assert np.array_equal(twice.values[0], twice.values[1])


def test_seeds():
    run = [pprs(random_max_affine(5, 9), 20, K=3, lr=0.1, gamma=0.1, seed=s).values for s in (1, 1, 2)]
    assert np.array_equal(run[0], run[1]) and not np.array_equal(run[0], run[2])


def test_records_and_callbacks():
    problem, seen = random_max_affine(5, 9), []
    every = gd(problem, 10, lr=RATES)
    some = gd(problem, 10, lr=RATES, record_every=4, callback=lambda t, values: seen.append((t, values.tolist())))
    assert some.iterations.tolist() == [0, 4, 8, 10] == [t for t, _ in seen]
    assert np.array_equal(some.values, every.values[:, [0, 4, 8, 10]])
    assert [values for _, values in seen] == some.values.T.tolist()
    ended = gd(problem, 10, lr=RATES, callback=lambda t, values: t == 3)
    assert ended.iterations.tolist() == [0, 1, 2, 3] and np.array_equal(ended.values, every.values[:, :4])
    assert gd(problem, 0, lr=1).values.shape == (1, 1)


def test_a_start_of_ones_own():
    start = np.full(5, 2.0)
    trace = gd(random_max_affine(5, 9), 3, lr=0.1, start=start)
    assert trace.values[0, 0] == random_max_affine(5, 9).value(start[None])[0]
    assert start.tolist() == [2.0] * 5


@pytest.mark.parametrize("method", [
    lambda lr: gd(CLIFF, 40, lr=lr), lambda lr: agd(CLIFF, 40, lr=lr, mu=0.5),
    lambda lr: pprs(CLIFF, 40, K=3, lr=lr, gamma=1e-3, mu="nesterov"), lambda lr: decaying_gd(CLIFF, 40, lr=lr),
    lambda lr: delayed_gd(CLIFF, 40, lr=lr, depth=2), lambda lr: gd(CLIFF, 40, lr=lr, dtype="float32"),
    lambda lr: gd(CLIFF, 40, lr=lr, record_every=7)])  # fmt: skip
def test_a_setting_that_diverges_stops_alone(method):
    both, alone = method([0.01, 50.0, 0.02]), method([0.01, 0.02])
    assert both.stopped.tolist()[::2] == [-1, -1] and both.stopped[1] > 0
    assert np.allclose(both.values[::2], alone.values, rtol=1e-5) and np.isnan(both.values[1, -1])
    assert np.isfinite(both.points).all() and np.isinf(both.tail_mean()[1]) and both.best() != 1
    assert len(both.notes) == 1 and both.notes[0].startswith("lr 50.0") and "no longer finite" in both.notes[0]


def test_when_all_settings_diverge_the_run_ends():
    calls = []
    trace = gd(CLIFF, 10**6, lr=[50.0, 60.0], callback=lambda t, values: calls.append(t))
    assert (trace.stopped > 0).all() and len(calls) < 20 and trace.best() == 0


def test_a_loss_that_is_infinite_with_a_finite_slope_stops():
    trace = gd(WALL, 10, lr=[0.01, 0.2])
    assert trace.stopped.tolist() == [-1, 3] and np.isnan(trace.values[1, 3:]).all()


def test_time_counts_the_samples_of_a_finite_sum():
    problem = finite_sum([random_max_affine(3, 4, seed=s) for s in range(5)])
    trace = pprs(problem, 7, K=3, lr=0.1, gamma=0.1)
    assert trace.time(20)[-1] == 2 * 7 * (3 * 5 + 19)


def test_time_to_target_and_tail_mean():
    trace = gd(max_affine([[1.0]], [1.0]), 20, lr=[0.125, 0.25])
    assert trace.time_to_target(0.5, 10).tolist() == [4 * 20, 2 * 20]
    assert trace.time_to_target(-1, 10).tolist() == [np.inf, np.inf]
    assert trace.tail_mean().tolist() == trace.values[:, -2:].mean(axis=1).tolist()
    assert trace.tail_mean(1).tolist() == trace.values[:, 1:].mean(axis=1).tolist()


def test_the_floor_of_a_maximum_is_half_lambda_squared_times_the_step():
    """On lambda |x|_inf a step moves one coordinate by lambda lr, for ever to and fro: mean lambda^2 lr / 2."""
    weight, lr = 300.0, 1e-3
    problem = linf_penalised(max_affine([[1e-9] * 3], [0.0]), weight, centre=np.zeros(3))
    trace = gd(problem, 1000, lr=lr, start=[0.3 * weight * lr, 0.0, 0.0])
    tail = trace.values[0, 500:]
    assert tail.mean() == pytest.approx(weight**2 * lr / 2, rel=0.01) and tail.std() > 1


# baselines


def test_decaying_steps_and_averages_line_by_line():
    problem, T = random_max_affine(6, 20), 25
    factors = {"sqrt": lambda t: t**-0.5, "linear": lambda t: 1 - (t - 1) / T, "constant": lambda t: 1}
    for decay, steps in factors.items():
        plain, mean = (decaying_gd(problem, T, lr=0.3, decay=decay, average=a) for a in (None, 0))
        x, seen = np.zeros(6), []
        for t in range(1, T + 1):
            x = x - 0.3 * steps(t) * slope(problem, x)
            seen.append(x)
        assert np.allclose(plain.points[0], x) and np.allclose(mean.points[0], np.mean(seen, axis=0))
    weights = np.cumprod([1] * T)  # eta = 1: the weight of iterate t grows as t
    weighted = decaying_gd(problem, T, lr=0.3, decay="constant", average=1).points[0]
    assert np.allclose(weighted, np.average(seen, axis=0, weights=np.arange(1, T + 1) * weights))


@pytest.mark.parametrize("units, late", [("shared", 4), ("separate", 9)])
def test_delayed_gradients_are_late_by_the_depth(units, late):
    problem, T = random_max_affine(6, 20), 30
    trace = delayed_gd(problem, T, lr=0.05, depth=5, units=units)
    path = [np.zeros(6)]
    for t in range(T):
        path.append(path[-1] - 0.05 * slope(problem, path[max(t - late, 0)]))
    assert np.allclose(trace.values[0], [problem.value(x[None])[0] for x in path])
    assert trace.time(5)[-1] == {"shared": 2 * (T + 4), "separate": T + 9}[units]
    with pytest.raises(ValueError, match="depth is 6; these iterates of delayed gd were made for depth 5"):
        trace.time(6)


def test_without_depth_late_gradients_are_in_time():
    problem = random_max_affine(6, 20)
    late, plain = delayed_gd(problem, 30, lr=RATES, depth=1), gd(problem, 30, lr=RATES)
    assert np.array_equal(late.values, plain.values) and late.time().tolist() == plain.time(1).tolist()


def test_adam_line_by_line():
    problem, x, m, v = random_max_affine(6, 20), np.zeros(6), 0, 0
    trace = adam(problem, 25, lr=0.05)
    for t in range(1, 26):
        g = slope(problem, x)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        x = x - 0.05 * (m / (1 - 0.9**t)) / ((v / (1 - 0.999**t)) ** 0.5 + 1e-8)
    assert np.allclose(trace.points[0], x)


def test_proximal_methods_reach_what_a_solver_finds():
    rng = np.random.default_rng(0)
    H = rng.standard_normal((12, 5))
    y = rng.standard_normal(12)
    quadratic = Problem("least squares", 5, lambda x: (((x @ H.T - y) ** 2).sum(axis=1) / 2, (x @ H.T - y) @ H))
    problem, lr = linf_penalised(quadratic, 2.0), 1 / np.linalg.norm(H, 2) ** 2
    slow, fast = proximal_gradient(problem, 3000, lr=lr), fista(problem, 300, lr=lr)
    x, g = fast.points[0], slope(quadratic, fast.points[0])
    assert abs(g).sum() == pytest.approx(2.0, rel=1e-6) and -g @ x == pytest.approx(2.0 * abs(x).max(), rel=1e-6)
    assert slow.values[0, -1] == pytest.approx(fast.values[0, -1], rel=1e-9)
    assert fast.values[0, 30] < slow.values[0, 30]


def test_sign_steps_stay_in_the_box():
    problem = random_max_affine(6, 20)
    trace = sign_pgd(problem, 50, lr=[[0.01], [0.1]], radius=[0.05, 0.5])
    assert (abs(trace.points).max(axis=1) <= trace.settings["radius"] + 1e-12).all() and trace.shape == (2, 2)


# bad input


class Crooked:
    name, dimension, start = "crooked", 2, np.zeros(2)

    def value(self, x):
        return x[:, 0]

    def value_and_subgradient(self, x):
        return x[:, 0], x[:, :1]


GOOD = random_max_affine(3, 4)


@pytest.mark.parametrize("call, message", [
    (lambda: pprs(GOOD, 5, K=0, lr=1, gamma=1), "K is 0; it must be a whole number from 1"),
    (lambda: pprs(GOOD, 5, K=1.5, lr=1, gamma=1), "K is 1.5; it must be a whole number"),
    (lambda: pprs(GOOD, 5, K=1, lr=-1, gamma=1), "lr has -1; it must be a finite number, at least 0"),
    (lambda: pprs(GOOD, 5, K=1, lr=1, gamma=[0.1, -0.5]), "gamma has -0.5; it must be a finite number, at least 0"),
    (lambda: pprs(GOOD, 5, K=1, lr=np.nan, gamma=1), "lr has nan; it must be a finite number, at least 0"),
    (lambda: pprs(GOOD, 5, K=1, lr=[], gamma=1), "lr is empty; give at least one number"),
    (lambda: pprs(GOOD, 5, K=1, lr="fast", gamma=1), "lr is 'fast'; give a number or an array of numbers"),
    (lambda: pprs(GOOD, 5, K=1, lr=[1, 2], gamma=[1, 2, 3]), "the shapes lr (2,), gamma (3,), mu () do not broadcast"),
    (lambda: pprs(GOOD, 5, K=1, lr=1, gamma=1, mu="fast"), "mu is 'fast'; give a number, an array of numbers, or"),
    (lambda: pprs(GOOD, 5, K=1, lr=1, gamma=1, seed=-1), "seed is -1; it must be a whole number from 0"),
    (lambda: pprs(GOOD, 5, K=10**9, lr=1, gamma=1), "1 settings x 1000000000 points of 3 numbers are too many at once"),
    (lambda: gd(GOOD, -1, lr=1), "iterations is -1; it must be a whole number from 0"),
    (lambda: gd(GOOD, 5, lr=1, record_every=0), "record_every is 0; it must be a whole number from 1"),
    (lambda: gd(GOOD, 5, lr=1, dtype="int8"), "dtype is 'int8'; Known: 'float32', 'float64'"),
    (lambda: gd(GOOD, 5, lr=1, start=[1, 2]), "the start has shape (2,); the problem needs (3,)"),
    (lambda: gd(GOOD, 5, lr=1, start=[1, 2, np.nan]), "the start holds NaN or infinity; give finite numbers"),
    (lambda: gd(WALL, 5, lr=1, start=[99.0]), "the loss at the start is inf; start where it is finite"),
    (lambda: gd(Crooked(), 5, lr=1), "the problem gave subgradients of shape"),
    (lambda: theorem_parameters(0, 1, 1, 1), "iterations is 0; it must be a whole number from 1"),
    (lambda: theorem_parameters(5, 0, 1, 1), "L is 0; it must be a finite number above 0"),
    (lambda: decaying_gd(GOOD, 5, lr=1, decay="slow"), "decay is 'slow'; Known: 'sqrt'"),
    (lambda: decaying_gd(GOOD, 5, lr=1, average=-1), "average is -1; it must be a finite number of at least 0"),
    (lambda: delayed_gd(GOOD, 5, lr=1, depth=0), "depth is 0; it must be a whole number from 1"),
    (lambda: delayed_gd(GOOD, 5, lr=1, depth=3, units="two"), "units is 'two'; Known: 'shared', 'separate'"),
    (lambda: adam(GOOD, 5, lr=1, beta1=1), "beta1 is 1; it must be a finite number of at least 0 and at most"),
    (lambda: fista(GOOD, 5, lr=1), "fista needs a problem with a loss and the proximal map of a penalty"),
    (lambda: sign_pgd(GOOD, 5, lr=1, radius=1, centre=[1]), "the centre has shape (1,); the problem needs (3,)"),
    (lambda: gd(GOOD, 5, lr=1).time(), "depth is missing; give the Delta at which the time of gd is asked for"),
    (lambda: gd(GOOD, 5, lr=1).tail_mean(0), "share is 0; it must be above 0 and at most 1"),
])  # fmt: skip
def test_messages(call, message):
    with pytest.raises(ValueError) as error:
        call()
    assert message in str(error.value) and "\n" not in str(error.value)
