"""What graphs, times and bounds say of input that cannot be used; numbers too large are refused, never wrong."""

import re

import numpy as np
import pytest

from lpkit import rates
from lpkit.computation_graph import ComputationGraph, GraphNode, split_chain
from lpkit.hard_functions import l1_chain
from lpkit.memory_model import chain_slots, first_slots
from lpkit.pipeline_time import bubbling, pipeline_time
from lpkit.problems import random_max_affine


def node(parents, size=1):
    return GraphNode(parents, size, lambda x: x, lambda v, x: (v,))


@pytest.mark.parametrize("make, sentence", [
    (lambda: pipeline_time([1, 2**40], 2**40, 2), "slots, more than 64 bits hold; give smaller numbers"),
    (lambda: pipeline_time(1, 1, 2**40, how="schedule"), "there would be 1,099,511,627,776 passes each way"),
    (lambda: bubbling({"a": ["x"]}, 10**7, times={"a": 2**40}), "slots, more than 64 bits hold"),
    (lambda: bubbling({"a": [["x"]]}, 1), "node 'a' reads [['x']]; give a list of names"),
    (lambda: bubbling({"a": ["x"]}, 1, times=5), "times are 5; give a mapping from nodes of the graph to slots"),
    (lambda: bubbling({"a": ["x"]}, 1, times={"b": 2}), "times are {'b': 2}; give a mapping from nodes of the graph"),
    (lambda: rates.nonconvex_lower(1e-200), "eps is 1e-200; it must be from 1e-25 to 1e+25"),
    (lambda: rates.crossover_depth(0.1, L=1e30, dimension=2), "L is 1e+30; it must be from 1e-25 to 1e+25"),
    (lambda: rates.gpipe_erm([0.1, 0.2], depth=[1, 2, 3]), "eps (2,), L (), R (), depth (3,), m () do not broadcast"),
    (lambda: ComputationGraph(2, {}), "the graph is {}; give a mapping from each node"),
    (lambda: ComputationGraph(2, {"a": node(("z",))}), "node 'a' reads 'z', which does not come before it"),
    (lambda: ComputationGraph(2, {"a": node(("x",), 2)}), "the last node gives 2 numbers; it must give 1, the value"),
    (lambda: ComputationGraph(2, {"a": node(("x",)), "b": node(("x",))}), "the graph has 2 leaves"),
    (lambda: l1_chain(3).graph.value_and_subgradient(np.zeros(3)), "points have shape (3,) and type float64; the"),
    (lambda: split_chain(2, None, None, 0), "depth is 0; it must be a whole number from 1 to 1000000"),
    (lambda: first_slots(random_max_affine(3, 5).graph), "graph is None; give a ComputationGraph, such as that of"),
    (lambda: chain_slots(2**40, 2), "coordinates is 1099511627776; it must be a whole number from 1 to 268435456"),
    (lambda: l1_chain(3, depth=2**40), "depth is 1099511627776; it must be a whole number from 1 to 1000000"),
])  # fmt: skip
def test_bad_input(make, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        make()


def test_times_keep_the_shape_of_the_steps():
    assert pipeline_time([[1, 2], [3, 0]], 4, 2).tolist() == [[10, 20], [30, 0]]
    assert pipeline_time([], 4, 2).shape == (0,)


@pytest.mark.parametrize("bound", [
    rates.naive_smooth, rates.naive_nonconvex, rates.naive_nonsmooth, rates.gpipe_erm, rates.nonsmooth_lower,
    lambda eps, depth: rates.pprs_upper(eps, dimension=1e25, L=1e25, R=1e25, m=1e25, depth=depth),
    lambda eps, depth: rates.pprs_nonconvex(eps, gamma=1e-25, dimension=1e25, L=1e25, D=1e25, depth=depth),
])  # fmt: skip
def test_bounds_are_finite_at_the_ends_of_what_is_taken(bound):
    assert np.isfinite(bound(1e-25, depth=1e25)) and np.isfinite(rates.crossover_dimension(1e-25, L=1e25, R=1e25))
