"""One function a claim of the LayerPipe paper on data-flow graphs; the readings make no difference to them."""

from fractions import Fraction
from functools import cache

import numpy as np

from lpkit.costs import Costs
from lpkit.dfg import backprop_dfg, cutset, iteration_bound, operation, stages_after
from lpkit.dlms import learning_curves
from lpkit.partition import optimal
from lpkit.retiming import delay_gradients, derive, smallest_delays, stash
from lpkit.stale import digits_mlp
from lpkit.training import initial_parameters, recurrence, train

__all__ = []  # used through the ledger: `lpkit.claims`

CHAINS = range(2, 9)  # lengths of the networks that a statement about "the" graph is checked on
GROUPINGS = ((1, 2, 3), (1, 1, 2), (1, 2, 2, 3), (1, 2, 3, 4), (1, 1, 2, 2, 3))


def critical_loop(read):
    """Share of chains whose critical loop passes every delta, and G of the first layer alone."""
    return float(np.mean([_passes(L) for L in CHAINS]))


def _passes(layers):
    kinds = [operation(node) for node in iteration_bound(backprop_dfg(layers)).loop]
    deltas, gradients = ({l for kind, l in kinds if kind == name} for name in ("delta", "G"))
    return deltas == set(range(2, layers + 1)) and gradients == {1}


def feedforward_cutsets(read):
    """Share of chains in which no set of nodes but the inputs can be cut off in one direction.

    A feedforward cutset separates strongly connected parts; a node is a part of its own only if it is on no loop with
    others, and here these are X and T.
    """
    return float(np.mean([_only_inputs(L) for L in CHAINS]))


def _only_inputs(layers):
    graph = backprop_dfg(layers)
    inner = [node for node in graph.nodes if node not in ("X", "T")]
    reach = {node: _reached(graph, node) for node in inner}
    return all(set(inner) <= found for found in reach.values()) and cutset(graph, ("X", "T")).kind == "feedforward"


def _reached(graph, start):
    following = {}
    for u, v, _ in graph.edges:
        following.setdefault(u, []).append(v)
    seen, waiting = set(), [start]
    while waiting:
        for node in following.get(waiting.pop(), ()):
            if node not in seen:
                seen.add(node)
                waiting.append(node)
    return seen


def inserted_delays(read):
    """Share of the two layers of Fig. 2 whose gradients are delayed by four and two iterations."""
    delayed = delay_gradients(backprop_dfg(3), (1, 2, 3))
    found = {u: w for u, v, w in delayed.edges if v[0] == "U" and u[0] == "G"}
    return float(np.mean([found["G1"] == 4, found["G2"] == 2]))


def steps_equal_delayed_training(read):
    """Share of derivation steps that train bit for bit as the delayed-gradient recurrence, over several groupings."""
    return float(np.mean([equal for stages in GROUPINGS for equal in _steps_equal(stages)]))


@cache
def _steps_equal(stages):
    layers, rng = len(stages), np.random.default_rng(0)
    network = digits_mlp(layers, width=8)
    start = initial_parameters(network, seed=0, dtype=np.float64)
    batches = [(rng.standard_normal((4, 1, 8, 8)), rng.integers(0, 10, 4)) for _ in range(10)]
    delays = [2 * after for after in stages_after(stages)]
    *_, (wanted, _) = recurrence(network, batches, delays, parameters=start, step_size=0.1)
    ends = [train(step.dfg, network, batches, parameters=start, step_size=0.1).parameters
            for step in derive(layers, stages)]  # fmt: skip
    return [all(np.array_equal(p.W, q.W) for p, q in zip(end, wanted)) for end in ends]


def backward_uses_its_own_forward(read):
    """Share of groupings whose pipelined graph trains with gradients of one consistent set of weights, bit for bit.

    That is what the stashes of PipeDream (weights) and GPipe (activations) are for.
    """
    return float(np.mean([_steps_equal(stages)[-1] for stages in GROUPINGS]))


def stash_is_twice_the_stages_after(read):
    """Share of layers with a delta whose weights and activations are kept 2 S(l) iterations, over several groupings."""
    kept = [(layer, after) for stages in GROUPINGS
            for layer, after in zip(stash(derive(len(stages), stages)[-1].dfg), stages_after(stages))]
    right = [layer.activations == 2 * after and (layer.layer == 1 or layer.weights == 2 * after)
             for layer, after in kept]  # fmt: skip
    return float(np.mean(right))


def stash_over_1f1b(read):
    """Weight versions of the derived pipeline over those of PipeDream's 1F1B, first layer of four stages."""
    stages = (1, 2, 3, 4)
    return smallest_delays(stages)[1] / smallest_delays(stages, "1f1b")[1]


def delayed_error(read):
    """Mean squared error at the end with gradients 8 iterations late over that without delay, small step size."""
    curves = learning_curves([0, 8], step_size=0.02, samples=2000, seeds=20)
    on_time, late = (curves[M][-500:].mean() for M in (0, 8))
    return float(late / on_time)


def balancing_share(read):
    """Share of delta that balances two processors whose loads differ by a third of it, by the exact planner."""
    F, delta, difference = 6, 6, 2
    chain = Costs.from_times([F, F, 2 * F - difference], [F, F, 2 * F], [0, delta, delta], unit="cycles")
    plan = optimal(chain, 2)
    return float(Fraction(sum(amount for *_, amount in plan.moved), delta))
