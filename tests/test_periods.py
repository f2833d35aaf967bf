"""Periods of many rows at once are those of the planners, one at a time."""

from dataclasses import replace

import numpy as np
import pytest

from lpkit.costs import Costs, costs
from lpkit.partition import plan
from lpkit.periods import algorithm1_periods, equal_layers_periods, optimal_periods, pipedream_periods


def chains(seed, rows, layers):
    """Random chains with heavy tails, as one table of fixed and one of delta."""
    rng = np.random.default_rng(seed)
    fixed = np.ceil(rng.lognormal(3, 1, (rows, layers)))
    return fixed, np.floor(rng.lognormal(3, 1, (rows, layers))) * (rng.random((rows, layers)) < 0.8)


def planned(each, planner, processors, **options):
    return np.array([[float(plan(c, k, planner, **options).period) for k in range(1, processors + 1)] for c in each])


@pytest.fixture(scope="module")
def random_chains():
    fixed, delta = chains(7, 25, 9)
    each = [Costs.from_times(f, 0, d, unit="cycles") for f, d in zip(fixed, delta)]
    return fixed, delta, each


def test_whole_layer_planners(random_chains):
    fixed, delta, each = random_chains
    np.testing.assert_array_equal(pipedream_periods(fixed + delta, 9), planned(each, "pipedream", 9))
    np.testing.assert_array_equal(equal_layers_periods(fixed + delta, 9), planned(each, "equal_layers", 9))


def test_optimal(random_chains):
    fixed, delta, each = random_chains
    np.testing.assert_allclose(optimal_periods(fixed + delta, delta, 9), planned(each, "optimal", 9), rtol=2e-9)


def test_algorithm1(random_chains):
    fixed, delta, each = random_chains
    found = algorithm1_periods(fixed + delta, delta, 9, alpha=1.05)
    np.testing.assert_allclose(found, planned(each, "algorithm1", 9, mode="strict", alpha=1.05), rtol=1e-7)


def test_a_residual_network_with_projections_and_heavy_ends():
    """ResNet18's projections share a cut with the convolution before them; weights make those cuts matter."""
    cost = costs("resnet18", batch=1)
    rng = np.random.default_rng(3)
    rows = np.ceil(rng.lognormal(3, 1.2, (12, 2, len(cost))))
    each = [Costs(**{**vars(cost), "F": f, "G": 0 * f, "delta": d}) for f, d in rows]
    assert (cost.first_consumer == np.arange(3, len(cost) + 3)).sum() == 3
    found = optimal_periods(rows.sum(axis=1), rows[:, 1], 12, first_consumer=cost.first_consumer)
    np.testing.assert_allclose(found, planned(each, "optimal", 12), rtol=2e-9)


@pytest.mark.parametrize("readers", [
    [2, 6, 6, 6, 6, 7, 8, 9],  # four branches into one layer
    [9, 9, 9, 9, 9, 9, 9, 9],  # nobody reads anything
    [8, 8, 8, 8, 8, 8, 8, 9],  # all feed the last
    [4, 5, 4, 6, 8, 8, 8, 9],  # groups with gaps, and one that its last layer is not in
    [6, 3, 6, 8, 8, 7, 9, 9],
])  # fmt: skip
def test_layers_that_one_layer_reads_first_move_together(readers):
    fixed, delta = chains(11, 15, 8)
    each = [replace(Costs.from_times(f, 0, d, unit="cycles"), first_consumer=np.array(readers))
            for f, d in zip(fixed, delta)]
    found = optimal_periods(fixed + delta, delta, 8, first_consumer=readers)
    np.testing.assert_allclose(found, planned(each, "optimal", 8), rtol=2e-9)
    greedy = algorithm1_periods(fixed + delta, delta, 8, first_consumer=readers)
    np.testing.assert_allclose(greedy, planned(each, "algorithm1", 8, mode="strict"), rtol=1e-7)


def test_bad_input():
    with pytest.raises(ValueError, match=r"work has shape \(2,\); it must be rows"):
        pipedream_periods([1, 2], 1)
    with pytest.raises(ValueError, match="finite costs of at least 0"):
        optimal_periods([[1, np.nan]], [[0, 0]], 1)
    with pytest.raises(ValueError, match="first_consumer must name a later layer for each layer"):
        optimal_periods([[1, 2]], [[0, 0]], 1, first_consumer=[1, 3])
    with pytest.raises(ValueError, match="processors is 3; it must be a whole number from 1 to 2"):
        equal_layers_periods([[1, 2]], 3)
