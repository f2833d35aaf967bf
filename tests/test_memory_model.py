"""The lower bounds, checked by running the paper's memory model on the functions that prove them."""

import numpy as np
import pytest
from scipy.optimize import linprog

from lpkit import rates
from lpkit.computation_graph import ComputationGraph, GraphNode
from lpkit.hard_functions import l1_chain, nesterov_max, nonconvex_chain, smooth_chain
from lpkit.memory_model import chain_slots, coordinates_found, first_slots

DEPTHS = (2, 3, 5, 20)


@pytest.mark.parametrize("make", [smooth_chain, l1_chain, nonconvex_chain])
@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("coordinates", [1, 2, 9])
def test_two_coordinates_cost_two_depths(make, depth, coordinates):
    found = first_slots(make(coordinates, depth=depth).graph)["x"]
    assert found.tolist() == chain_slots(coordinates, depth).tolist()
    counts = coordinates_found(make(coordinates, depth=depth).graph)
    assert (counts <= np.arange(len(counts)) / depth + 1).all()  # what the bounds are derived from


def test_on_one_node_each_slot_finds_a_coordinate():
    for make in (smooth_chain, l1_chain, nonconvex_chain):
        assert first_slots(make(7, depth=1).graph)["x"].tolist() == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize("depth", [1, 2, 5, 20])
def test_depth_hides_nothing_of_a_function_on_one_node(depth):
    """The term of Theorem 3 without Delta: after a first way back each slot finds one coordinate, and no more."""
    assert first_slots(nesterov_max(9, depth=depth).graph)["x"].tolist() == list(range(depth, depth + 9))


def test_memories_that_start_at_0():
    """With f(0) other than 0 the first value comes a slot later; with f(0) = 0 nothing ever starts."""
    chain = l1_chain(5, depth=4)
    plain = first_slots(chain.graph, leaf_holds_one=False)["x"]
    assert plain.tolist() == (chain_slots(5, 4) + 1).tolist()
    assert first_slots(smooth_chain(5, depth=4).graph, leaf_holds_one=False)["x"].tolist() == [-1] * 5


def least_smooth(problem, known):
    """Least value of the smooth chain over points whose first `known` coordinates are free: a linear system."""
    slopes = problem.value_and_subgradient(np.vstack([np.zeros(problem.dimension), np.eye(problem.dimension)]))[1]
    hessian, linear = (slopes[1:] - slopes[0])[:known, :known], slopes[0][:known]
    point = np.zeros(problem.dimension)
    point[:known] = -np.linalg.solve(hessian, linear) if known else 0
    return problem.value(point[None])[0]


def least_l1(problem, known):
    """The same of the l1 chain: a linear programme."""
    n, r, a = problem.dimension, problem.minimiser[0], problem.value(np.zeros((1, problem.dimension)))[0]
    a /= r
    rows = np.zeros((n, n))  # residuals rows @ x - shift
    rows[0, 0] = 1
    for i in range(n - 1):
        rows[i + 1, i : i + 2] = 1, -1
    shift = np.zeros(n)
    shift[0] = r
    free, eye = rows[:, :known], np.eye(n)
    solved = linprog(np.concatenate([np.zeros(known), np.full(n, a)]), np.block([[free, -eye], [-free, -eye]]),
                     np.concatenate([shift, -shift]), bounds=[(None, None)] * known + [(0, None)] * n)  # fmt: skip
    return solved.fun


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("k", [1, 2, 5, 12])
def test_theorem_1_no_point_in_memory_is_better_than_the_bound(depth, k):
    """On the chain that is hard for k coordinates: the best of all points in memory, up to the slot before k + 1."""
    problem = smooth_chain(2 * k + 1, beta=3.0, R=2.0, depth=depth)
    counts = coordinates_found(problem.graph)
    last = np.flatnonzero(counts <= k)[-1]
    error = least_smooth(problem, k) - problem.optimum
    assert error >= 3 * 3.0 * 2.0**2 / (32 * (k + 1) ** 2) * (1 - 1e-12)
    assert rates.smooth_lower(error, beta=3.0, R=2.0, depth=depth) <= last
    assert rates.smooth_lower(error, beta=3.0, R=2.0, depth=depth) >= last - 4 * depth  # and it is not far from it
    assert least_smooth(problem, 2 * k + 1) == pytest.approx(problem.optimum)


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("n", [2, 3, 8, 13])
def test_theorem_3_depth_term(depth, n):
    problem = l1_chain(n, L=2.0, R=3.0, depth=depth)
    last = len(coordinates_found(problem.graph)) - 2  # the slot before the last coordinate is found
    error = least_l1(problem, n - 1)
    assert error == pytest.approx(2.0 * 3.0 / (2 * n))
    assert depth * (2.0 * 3.0 / (2 * error) - 2) <= last + 1e-9
    assert least_l1(problem, n) == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("k", [1, 4, 9])
def test_theorem_3_sampling_term(k):
    """In the slots up to k only k coordinates of k + 1 are there, and a point without the last is no better than 0."""
    problem = nesterov_max(k + 1, L=2.0, R=3.0)
    slots = coordinates_found(problem.graph)
    assert slots[k] == k
    points = np.random.default_rng(0).standard_normal((2000, k + 1)) * np.logspace(-3, 1, 2000)[:, None]
    points[:, k] = 0
    error = problem.value(points).min() - problem.optimum
    assert (2.0 * 3.0 / (2 * error) - 1) ** 2 <= k + 1 + 1e-9


@pytest.mark.parametrize("depth", DEPTHS)
def test_theorem_2_no_point_in_memory_has_a_short_gradient(depth):
    k, beta, D = 6, 2.0, 5.0
    problem = nonconvex_chain(k, beta=beta, D=D, depth=depth)
    last = len(coordinates_found(problem.graph)) - 2
    assert rates.nonconvex_lower(problem.gradient_floor * (1 - 1e-9), beta=beta, D=D, depth=depth) <= last
    rng = np.random.default_rng(1)
    points = rng.standard_normal((3000, k)) * rng.exponential(30, (3000, 1))
    points[:, -1] = 0
    lengths = np.linalg.norm(problem.value_and_subgradient(points)[1], axis=1)
    assert lengths.min() > problem.gradient_floor


def test_a_graph_with_branches_by_hand():
    """x_1 (x_2 + 1): b is 1 at slot 1, which the leaf passes back to x_1 at slot 2. A memory does not tell values from
    errors, so b passes its 1 back to a at slot 2 as well, and a to x_2 at slot 3."""
    a = GraphNode(("x",), 1, lambda x: x[:, 1:], lambda v, x: (np.column_stack([np.zeros_like(v), v]),))
    b = GraphNode(("a",), 1, lambda a: a + 1, lambda v, a: (v,))
    leaf = GraphNode(("x", "b"), 1, lambda x, b: x[:, :1] * b,
                     lambda v, x, b: (np.column_stack([v * b, np.zeros_like(b)]), v * x[:, :1]))  # fmt: skip
    graph = ComputationGraph(2, {"a": a, "b": b, "leaf": leaf})
    assert graph.value_and_subgradient(np.array([[3.0, 4.0]]))[1].tolist() == [[5.0, 3.0]] and graph.depth == 3
    found = first_slots(graph)
    assert {name: first.tolist() for name, first in found.items()} == {"x": [2, 3], "a": [2], "b": [1], "leaf": [0]}


def test_messages():
    graph = l1_chain(3).graph
    for call, message in [(lambda: first_slots(graph, slots=0), "slots is 0; it must be a whole number from 1"),
                          (lambda: first_slots(graph, seed=-1), "seed is -1; it must be a whole number from 0"),
                          (lambda: chain_slots(3, 1), "depth is 1; it must be a whole number from 2")]:  # fmt: skip
        with pytest.raises(ValueError) as error:
            call()
        assert message in str(error.value)
