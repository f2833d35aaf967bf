"""Plans over all orders of a graph of layers, against brute force over orders and cuts that shares nothing with them."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from lpkit import optimal_graph as module
from lpkit.costs import Costs
from lpkit.costs import costs as costs_of
from lpkit.downsets import lattice
from lpkit.layer_graph import LayerGraph, layer_graph
from lpkit.networks import NETWORKS, network
from lpkit.optimal_graph import optimal_graph
from lpkit.partition import check_plan, optimal, verify_optimal

PATH = [(1, 2), (2, 3), (3, 4)]


def random_graph(rng, most_layers=6):
    """Edges and costs of a small random graph; half of the layers read the one before, as in networks."""
    L = int(rng.integers(2, most_layers + 1))
    edges = {(a, b) for a, b in itertools.combinations(range(1, L + 1), 2) if rng.random() < (0.5 if b == a + 1 else 0.25)}
    top = int(rng.choice([3, 10, 1000]))
    sizes = {name: rng.integers(0, 10, L) for name in ("weight_bytes", "input_bytes", "output_bytes")}
    costs = Costs.from_times(rng.integers(0, top + 1, L), 0, rng.integers(0, 2 * top + 1, L), unit="cycles", **sizes)
    return costs, sorted(edges)


def orders(L, edges):
    """All topological orders."""
    for order in itertools.permutations(range(1, L + 1)):
        place = {layer: n for n, layer in enumerate(order)}
        if all(place[a] < place[b] for a, b in edges):
            yield order


def inputs_of(L, edges):
    return {layer: frozenset(a for a, b in edges if b == layer) for layer in range(1, L + 1)}


def is_shared(layer, inputs):
    """Whether the tensor that a layer reads is read by another one too, alone or in a sum."""
    mine = inputs[layer]
    others = [sources for other, sources in inputs.items() if other != layer]
    return mine in others or (len(mine) == 1 and any(mine <= sources for sources in others))


def crossing(costs, edges, done):
    """Bytes of outputs of `done`, and of the network's input, that somebody outside reads."""
    inputs = inputs_of(len(costs), edges)
    sources = {a for a, b in edges if a in done and b not in done}
    first = [layer for layer, read in inputs.items() if not read]
    own = max(int(costs.input_bytes[layer - 1]) for layer in first) if set(first) - set(done) else 0
    return own + sum(int(costs.output_bytes[a - 1]) for a in sources)


def of_stages(costs, edges, stages, *, threshold, residual, bandwidth, memory):
    """Least period of stages, each a tuple of layers in order; None if one does not fit the memory."""
    L, inputs = len(costs), inputs_of(len(costs), edges)
    place = {layer: n for n, layer in enumerate(itertools.chain(*stages))}
    loads = [sum(int(costs.work[layer - 1]) for layer in stage) for stage in stages]
    kept = [sum(int(costs.weight_bytes[n - 1] + costs.input_bytes[n - 1]) for n in stage) for stage in stages]
    if memory is not None and any(k * (len(stages) - n) > memory for n, k in enumerate(kept)):
        return None
    caps = []
    for stage, following in itertools.pairwise(stages):
        cap = 0
        for layer in stage:
            read_by = [b for a, b in edges if a == layer]
            moves = min(read_by, key=place.get, default=None) == following[0]
            moves &= residual == "consumer" or not is_shared(layer, inputs)
            moves &= threshold is None or int(costs.moved_bytes[layer - 1]) <= threshold
            cap += int(costs.delta[layer - 1]) if moves else 0
        caps.append(cap)
    caps.append(0)
    runs = [(m, n) for m in range(len(stages)) for n in range(m, len(stages))]
    period = max(Fraction(sum(loads[m : n + 1]) - caps[n], n - m + 1) for m, n in runs)
    if bandwidth is None:
        return period
    done = [set(itertools.chain(*stages[:n])) for n in range(1, len(stages))]
    return max([period, *(Fraction(2 * crossing(costs, edges, d), bandwidth) for d in done)])


def brute_force(costs, edges, processors, **options):
    """Least period over all orders and cuts; None if nothing fits the memory."""
    L, periods = len(costs), {}
    for order in orders(L, edges):
        for count in range(min(processors, L)):
            for cuts in itertools.combinations(range(1, L), count):
                ends = (0, *cuts, L)
                stages = tuple(order[a:b] for a, b in itertools.pairwise(ends))
                key = tuple((stage[0], frozenset(stage)) for stage in stages)
                if key not in periods:
                    periods[key] = of_stages(costs, edges, stages, **options)
    return min((p for p in periods.values() if p is not None), default=None)


def some_options(rng):
    """Options of a plan, each left out half of the time."""
    values = dict(threshold=int(rng.integers(0, 10)), bandwidth=int(rng.integers(1, 10)), memory=int(rng.integers(20, 90)))
    options = {name: value if rng.random() < 0.4 else None for name, value in values.items()}
    return options | {"residual": str(rng.choice(["consumer", "sum_site"]))}


@pytest.mark.parametrize("seed", range(8))
def test_no_order_and_no_cuts_are_better(seed):
    rng = np.random.default_rng(seed)
    for _ in range(50):
        costs, edges = random_graph(rng)
        processors, options = int(rng.integers(1, min(len(costs), 4) + 1)), some_options(rng)
        best = brute_force(costs, edges, processors, **options)
        graph = LayerGraph.from_edges(costs, edges)
        if best is None:
            with pytest.raises(ValueError, match="keeps every stage within the memory, in any order"):
                optimal_graph(graph, processors, **options)
            continue
        plan = optimal_graph(graph, processors, **options)
        assert plan.period == best
        assert check_plan(plan) == () and verify_optimal(plan)
        assert plan.certificate.period == best and "over all" in plan.certificate.text
