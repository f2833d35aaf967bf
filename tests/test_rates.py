"""Bounds: against errors that are measured, against each other, and crossovers against the bounds they cross."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lpkit import rates
from lpkit.baselines import decaying_gd
from lpkit.hard_functions import l1_chain, nesterov_max, smooth_chain
from lpkit.problems import Problem, max_affine, random_max_affine
from lpkit.smoothing import agd, gd, pprs, theorem_parameters

SEEDS = 12


def l1_distance(dimension, R=1.0):
    """|x - c|_1 with |c| = R, as a mean: L = sqrt d."""
    c = np.full(dimension, R / dimension**0.5)
    signs = np.sign(np.random.default_rng(0).standard_normal(dimension))
    return Problem("l1", dimension, lambda x: (abs(x - signs * c).sum(axis=1), np.sign(x - signs * c)), optimum=0.0,
                   L=dimension**0.5, R=R)  # fmt: skip


FAMILY = [random_max_affine(16, 40, R=3.0), random_max_affine(100, 200), random_max_affine(9, 12, samples=3),
          l1_chain(25, L=2.0, R=4.0), l1_distance(16),
          max_affine(np.eye(36), np.full(36, 1 / 6), optimum=0.0, R=1.0)]  # fmt: skip


@pytest.mark.parametrize("problem", FAMILY, ids=lambda p: f"{p.name} {p.dimension}")
@pytest.mark.parametrize("T", [1, 2, 10, 60])
def test_pprs_stays_below_its_bound(problem, T):
    parameters = theorem_parameters(T, problem.L, problem.R, problem.dimension)
    errors = [pprs(problem, T, **parameters._asdict(), seed=seed, record_every=T).values[0, -1] - problem.optimum
              for seed in range(SEEDS)]  # fmt: skip
    bound = rates.pprs_error(T, L=problem.L, R=problem.R, dimension=problem.dimension)
    assert np.mean(errors) <= max(errors) <= bound
    assert min(errors) >= 0


@pytest.mark.parametrize("K", [1, 3, 30])
@pytest.mark.parametrize("T", [5, 40])
def test_the_three_terms_bound_other_settings_too(K, T):
    """2 R^2/(eta (T + 1)^2) + eta (L^2/K) T + gamma L sqrt d, for steps eta up to gamma/L."""
    problem = random_max_affine(16, 40)
    gamma = np.array([0.01, 0.03, 0.1, 0.3])[:, None]
    eta = gamma * np.array([0.1, 0.5, 1.0])
    runs = [pprs(problem, T, K=K, lr=eta, gamma=gamma, mu="nesterov", seed=s).values[:, -1] for s in range(SEEDS)]
    bound = 2 / (eta * (T + 1) ** 2) + eta / K * T + gamma * 4
    assert (np.mean(runs, axis=0).reshape(bound.shape) <= bound).all()


def test_the_constant_of_the_bound_follows_from_its_terms():
    T = np.arange(1, 400)
    lam = [1.0]
    for _ in T[1:]:
        lam.append((1 + (1 + 4 * lam[-1] ** 2) ** 0.5) / 2)
    lam = np.array(lam)
    spread = np.cumsum(lam**2) / lam**2
    assert (spread <= lam + 1e-9).all() and (lam <= T).all() and (lam >= (T + 1) / 2).all()
    assert ((T + 1) ** 2 / (2 * lam**2) + spread / (T + 1) + 1 <= rates.PROVED).all()


def test_upper_bounds_of_the_naive_methods_hold():
    problem, T = smooth_chain(60, beta=2.0, R=3.0), np.arange(1, 120)
    errors = agd(problem, 119, lr=0.5, mu="nesterov").values[0, 1:] - problem.optimum
    assert (rates.naive_smooth(errors, beta=2.0, R=3.0, depth=5) >= 2 * 5 * T).all()
    lipschitz = nesterov_max(50, L=2.0, R=3.0)
    for steps in (4, 25, 100):
        lr = 3.0 / (2.0 * steps**0.5)
        best = gd(lipschitz, steps, lr=lr).values[0].min() - lipschitz.optimum
        assert rates.naive_nonsmooth(best, L=2.0, R=3.0, depth=5) >= 2 * 5 * steps


@pytest.mark.parametrize("k", [1, 4, 15, 40])
def test_no_method_beats_the_lower_bounds(k):
    """After k gradients, on the chain that is hard for k of them, the error is one for which the bound allows that."""
    depth = 100
    smooth = smooth_chain(2 * k + 1, beta=2.0, R=3.0, depth=depth)
    for trace in (gd(smooth, k, lr=[0.25, 0.5, 0.9]), agd(smooth, k, lr=0.5, mu=[0.3, 0.9]),
                  agd(smooth, k, lr=0.5, mu="nesterov")):  # fmt: skip
        error = trace.values.min() - smooth.optimum
        assert 0 < rates.smooth_lower(error, beta=2.0, R=3.0, depth=depth) + 1 <= trace.time(depth)[-1]
    chain = l1_chain(k + 1, L=2.0, R=3.0, depth=depth)
    for trace in (gd(chain, k, lr=[0.1, 1, 3]), decaying_gd(chain, k, lr=[1, 3]), agd(chain, k, lr=[0.1, 1], mu=0.5)):
        assert rates.nonsmooth_lower(trace.values.min(), L=2.0, R=3.0, depth=depth) <= trace.time(depth)[-1]


@given(st.floats(1e-4, 0.5), st.integers(2, 500), st.integers(1, 4000))
def test_lower_bounds_are_below_upper_bounds(eps, depth, dimension):
    assert rates.smooth_lower(eps, depth=depth) <= rates.naive_smooth(eps, depth=depth)
    assert rates.nonconvex_lower(eps, depth=depth) <= rates.naive_nonconvex(eps, depth=depth)
    assert rates.nonsmooth_lower(eps, depth=depth) <= rates.naive_nonsmooth(eps, depth=depth)
    assert rates.nonsmooth_lower(eps, depth=depth) <= rates.pprs_upper(eps, dimension=dimension, depth=depth)


def test_bounds_scale_as_the_class_does():
    """Only R L / eps, R sqrt(beta/eps) and beta D / eps^2 count."""
    for bound in (rates.nonsmooth_lower, rates.naive_nonsmooth, rates.gpipe_erm):
        assert bound(0.25, L=4, R=0.5, depth=9) == bound(0.125, depth=9)
    assert rates.pprs_upper(0.25, L=4, R=0.5, depth=9, dimension=16) == rates.pprs_upper(0.125, depth=9, dimension=16)
    for bound in (rates.smooth_lower, rates.naive_smooth):
        assert bound(0.5, beta=8, R=0.5, depth=9) == bound(0.25, depth=9)
    for bound in (rates.nonconvex_lower, rates.naive_nonconvex):
        assert bound(0.25, beta=2, D=8, depth=9) == bound(0.0625, depth=9)


def test_bounds_take_grids():
    found = rates.pprs_upper([[0.1], [0.01]], dimension=16, depth=[1, 20, 200])
    assert found.shape == (2, 3)
    assert found[1, 2] == rates.pprs_upper(0.01, dimension=16, depth=200)


@pytest.mark.parametrize("eps", [0.05, 0.01, 0.003])
@pytest.mark.parametrize("dimension", [4, 100])
@pytest.mark.parametrize("m", [1, 7])
def test_bounds_are_equal_at_the_crossover_in_depth(eps, dimension, m):
    depth = rates.crossover_depth(eps, dimension=dimension, m=m)
    gap = lambda d: rates.pprs_upper(eps, dimension=dimension, depth=d, m=m) - rates.gpipe_erm(eps, depth=d, m=m)
    if np.isfinite(depth):
        assert gap(depth + 1) < 0 and (depth < 1 or gap(max(depth - 1, 0.01)) > 0)
    else:
        assert (gap(10.0 ** np.arange(8)) >= 0).all()


@pytest.mark.parametrize("eps, depth", [(0.01, 100), (0.01, 4000), (0.001, 50), (0.2, 5)])
def test_bounds_are_equal_at_the_crossover_in_samples(eps, depth):
    m = rates.crossover_samples(eps, dimension=16, depth=depth)
    gap = lambda m: rates.pprs_upper(eps, dimension=16, depth=depth, m=m) - rates.gpipe_erm(eps, depth=depth, m=m)
    assert gap(m * 1.01 + 0.01) > 0 and (m == 0 or gap(m * 0.99) < 0)


def test_crossovers_in_dimension_and_precision_agree():
    """Each solves the other: at the dimension found, the precision found is that given, and the bounds nearly meet."""
    eps, depth, m = np.array([0.01, 0.003, 0.001]), 300, 2
    dimension = rates.crossover_dimension(eps, depth=depth, m=m)
    assert np.allclose(rates.crossover_precision(dimension=dimension, depth=depth, m=m), eps)
    ratio = rates.pprs_upper(eps, dimension=dimension, depth=depth, m=m) / rates.gpipe_erm(eps, depth=depth, m=m)
    assert np.allclose(ratio, 1, atol=0.03)
    assert rates.crossover_dimension(0.5, depth=2) == rates.crossover_precision(dimension=4, depth=14) == 0


def test_nonconvex_time_is_a_product_of_steps_and_samples():
    one = rates.pprs_nonconvex(0.1, gamma=0.01, dimension=16, depth=1)
    two = rates.pprs_nonconvex(0.1, gamma=0.01, dimension=16, depth=201)
    assert (two - one) / one == pytest.approx(1.0)  # K = 2 L^2/eps^2 = 200


@pytest.mark.parametrize("call, message", [
    (lambda: rates.smooth_lower(0), "eps is 0; it must be a finite number above 0"),
    (lambda: rates.pprs_upper([0.1, -0.5], dimension=2), "eps is -0.5; it must be a finite number above 0"),
    (lambda: rates.pprs_upper(0.1, dimension=np.nan), "dimension is nan; it must be a finite number above 0"),
    (lambda: rates.gpipe_erm("small"), "eps is 'small'; it must be a finite number above 0"),
])  # fmt: skip
def test_messages(call, message):
    with pytest.raises(ValueError) as error:
        call()
    assert message in str(error.value)
