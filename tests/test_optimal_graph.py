"""Plans over all orders of a graph of layers, against brute force over orders and cuts that shares nothing with it."""

import importlib
import itertools
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from lpkit.costs import Costs
from lpkit.costs import costs as costs_of
from lpkit.downsets import lattice
from lpkit.interop.pipedream import PROFILES, read_profile
from lpkit.interop.pipedream_layers import profile_layers
from lpkit.interop.pipedream_states import straight_pipeline
from lpkit.layer_graph import LayerGraph
from lpkit.network_graph import layer_graph
from lpkit.networks import Carried, Conv, Dense, Flatten, Network, Node, network
from lpkit.optimal_graph import optimal_graph
from lpkit.partition import check_plan, optimal, verify_optimal
from lpkit.plan_reader import read_plan
from lpkit.planfile import write_plan
from lpkit.search import task_of

module = importlib.import_module("lpkit.optimal_graph")  # lpkit.optimal_graph is the function
PATH = [(1, 2), (2, 3), (3, 4)]


def two_branches():
    """A stem, two branches of two layers each, and a head."""
    names = ["stem", "a1", "a2", "b1", "b2", "head"]
    costs = Costs.from_times([1, 6, 2, 1, 2, 4], 0, 0, names, unit="cycles", output_bytes=10)
    return LayerGraph.from_edges(costs, [(1, 2), (2, 3), (1, 4), (4, 5), (3, 6), (5, 6)])


def random_graph(rng, most_layers=6):
    """Edges and costs of a small random graph; half of the layers read the one before, as in networks."""
    L = int(rng.integers(2, most_layers + 1))
    pairs = itertools.combinations(range(1, L + 1), 2)
    edges = [(a, b) for a, b in pairs if rng.random() < (0.5 if b == a + 1 else 0.25)]
    top = int(rng.choice([3, 10, 1000]))
    sizes = {name: rng.integers(0, 10, L) for name in ("weight_bytes", "input_bytes", "output_bytes")}
    costs = Costs.from_times(rng.integers(0, top + 1, L), 0, rng.integers(0, 2 * top + 1, L), unit="cycles", **sizes)
    return costs, edges


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
    inputs = inputs_of(len(costs), edges)
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
    """Options of a plan, each left out more often than not."""
    ranges = {"threshold": (0, 10), "bandwidth": (1, 10), "memory": (20, 90)}
    options = {name: int(rng.integers(*span)) if rng.random() < 0.4 else None for name, span in ranges.items()}
    return options | {"residual": str(rng.choice(["consumer", "sum_site"]))}


@pytest.mark.parametrize("seed", range(8))
def test_no_order_and_no_cuts_are_better(seed):
    rng = np.random.default_rng(seed)
    for _ in range(50):
        costs, edges = random_graph(rng, most_layers=7 if rng.random() < 0.1 else 6)
        processors, options = int(rng.integers(1, min(len(costs), 4) + 1)), some_options(rng)
        best = brute_force(costs, edges, processors, **options)
        graph = LayerGraph.from_edges(costs, edges)
        if best is None:
            with pytest.raises(ValueError, match="keeps every stage within the memory"):
                optimal_graph(graph, processors, **options)
            continue
        plan = optimal_graph(graph, processors, **options)
        assert plan.period == plan.certificate.period == best
        assert check_plan(plan) == () and verify_optimal(plan)


def test_the_certificate_says_what_more_processors_reach():
    rng = np.random.default_rng(11)
    for _ in range(60):
        costs, edges = random_graph(rng, most_layers=5)
        options = some_options(rng) | {"memory": None}
        sure = optimal_graph(LayerGraph.from_edges(costs, edges), 1, **options).certificate
        periods = [brute_force(costs, edges, P, **options) for P in range(1, len(costs) + 1)]
        assert sure.saturation_period == periods[-1]
        assert sure.saturates_at == 1 + periods.index(periods[-1])


def test_float_costs_come_within_their_rounding():
    rng = np.random.default_rng(12)
    for _ in range(60):
        costs, edges = random_graph(rng)
        exact = LayerGraph.from_edges(costs, edges)
        third = replace(costs, F=costs.F / 3, G=costs.G / 3, delta=costs.delta / 3, unit="s")
        plan = optimal_graph(LayerGraph.from_edges(third, edges), 2)
        assert plan.period == pytest.approx(float(optimal_graph(exact, 2).period) / 3, rel=1e-12)


def test_some_of_the_random_graphs_are_better_in_another_order():
    rng, better = np.random.default_rng(0), 0
    for _ in range(50):
        graph = LayerGraph.from_edges(*random_graph(rng))
        plan, given = optimal_graph(graph, 2), optimal(graph.costs, 2)
        assert plan.period <= given.period
        assert (plan.costs.layers == graph.costs.layers) == (plan.period == given.period)
        better += plan.period < given.period
    assert better > 5


def test_two_branches_that_the_given_order_cuts_badly():
    graph = two_branches()
    assert optimal(graph.costs, 2).loads == (7, 9)
    plan = optimal_graph(graph, 2)
    assert plan.costs.layers == ("stem", "a1", "b1", "a2", "b2", "head")
    assert plan.loads == (8, 8)
    assert plan.costs.cut_bytes.tolist() == [10, 20, 20, 20, 20]
    assert plan.costs.first_consumer.tolist() == [2, 4, 5, 6, 6, 7]
    assert plan.certificate.binding == (1, 6, 2)
    assert plan.certificate.text == (
        "optimal over all 11 downsets: no plan of 2 processors in any order of the layers beats 8 cycles: that is all "
        "work divided evenly; from 3 processors on nothing helps (6 cycles)")


def test_deltas_of_two_branches_move_together_to_the_stage_that_reads_their_sum():
    costs = Costs.from_times([2, 1, 1, 9], 0, [0, 4, 4, 0], unit="cycles")
    plan = optimal_graph(LayerGraph.from_edges(costs, [(1, 2), (1, 3), (2, 4), (3, 4)]), 2)
    assert plan.period == Fraction(21, 2)
    later = optimal_graph(LayerGraph.from_edges(replace(costs, F=[2, 1, 1, 0]), [(1, 2), (1, 3), (2, 4), (3, 4)]), 2)
    assert later.loads == (6, 6) and sum(move[3] for move in later.moved) == 6
    assert {move[0] for move in later.moved} == {2, 3}


def test_a_delta_whose_input_is_shared_stays_under_the_stricter_policy():
    costs = Costs.from_times([2, 1, 1, 0], 0, [0, 4, 4, 0], unit="cycles")
    graph = LayerGraph.from_edges(costs, [(1, 2), (1, 3), (2, 4), (3, 4)])
    assert graph.costs.shared_input.tolist() == [False, True, True, False]
    strict = optimal_graph(graph, 2, residual="sum_site")
    assert strict.period == 7 and strict.moved == ()
    assert strict.options == (("residual", "sum_site"),)


def test_skip_tensors_count_at_the_cut_that_they_cross():
    costs = Costs.from_times([3, 3, 1, 1, 4], 0, 0, unit="cycles", output_bytes=[8, 1, 1, 1, 1])
    graph = LayerGraph.from_edges(costs, [(1, 2), (1, 3), (2, 4), (3, 5), (4, 5)])
    assert graph.costs.cut_bytes.tolist() == [8, 9, 2, 2]
    assert optimal_graph(graph, 2).period == 6
    plan = optimal_graph(graph, 2, bandwidth=1)  # the cut 1 2 | 3 4 5 has 9 bytes each way, 1 2 3 | 4 5 has 2
    assert plan.period == 7 and plan.links == (4,)


@pytest.mark.parametrize("name", ["alexnet", "vgg16", "mobilenet_v1"])
def test_a_chain_has_one_order(name):
    net = network(name)
    graph = layer_graph(net, costs_of(net))
    assert len(lattice(graph.before, 100)) == len(graph) + 1
    for processors in (2, 5, len(graph)):
        plan, given = optimal_graph(graph, processors), optimal(graph.costs, processors)
        assert (plan.ends, plan.moved, plan.period) == (given.ends, given.moved, given.period)
        assert plan.certificate.text == f"in the one order that the graph allows: {given.certificate.text}"
        search = module._Search(graph, {"bandwidth": None}, task_of(graph.costs), lattice(graph.before, 100))
        searched = search.plan(processors)
        assert (searched.ends, searched.moved, searched.period) == (given.ends, given.moved, given.period)
        assert searched.certificate.saturation_period == given.certificate.saturation_period
        assert searched.certificate.saturates_at == given.certificate.saturates_at


def test_the_order_in_which_the_layers_are_given_does_not_matter():
    rng = np.random.default_rng(13)
    for _ in range(30):
        costs, edges = random_graph(rng)
        graph = LayerGraph.from_edges(costs, edges)
        periods = set()
        for order in itertools.islice(orders(len(costs), edges), 0, None, 7):
            place = {layer: n for n, layer in enumerate(order, 1)}
            renamed = LayerGraph.from_edges(graph.reordered(order), [(place[a], place[b]) for a, b in edges])
            periods.add(optimal_graph(renamed, min(3, len(costs)), bandwidth=5).period)
        assert len(periods) == 1


def test_a_graph_that_is_too_wide_is_planned_in_the_given_order(monkeypatch):
    graph = two_branches()
    plan = optimal_graph(graph, 2, most_states=10)
    assert plan.loads == (7, 9) and plan.planner == "optimal_graph" and verify_optimal(plan)
    assert plan.certificate.text.startswith(
        "in the given order, as the graph has more than 10 downsets: optimal: no plan of 2 processors beats 9 cycles")
    assert optimal_graph(graph, 2, most_states=11).loads == (8, 8)
    monkeypatch.setattr(module, "MOST_STAGES", 3)
    plan = optimal_graph(graph, 2)
    assert plan.loads == (7, 9)
    assert plan.certificate.text.startswith("in the given order, as the graph has more than 3 stages: optimal: ")


def test_memory_may_fit_in_another_order_alone():
    costs = Costs.from_times([1, 1, 1, 1], 0, 0, unit="cycles", weight_bytes=[9, 1, 2, 3])
    graph = LayerGraph.from_edges(costs, [])
    with pytest.raises(ValueError, match="no plan of at most 2 processors keeps every stage within the memory; give"):
        optimal(graph.costs, 2, memory=12)
    plan = optimal_graph(graph, 2, memory=12)
    first = plan.costs.weight_bytes[: plan.ends[0]].sum()  # of two versions
    assert plan.period == 2 and 2 * first <= 12 and 15 - first <= 12
    with pytest.raises(ValueError, match="within the memory, in any order of the layers; give more memory or more"):
        optimal_graph(graph, 2, memory=9)


def test_many_branches_do_not_take_for_ever():
    wide = Costs.from_times([1] * 60, 0, 0, unit="cycles")
    assert optimal_graph(LayerGraph.from_edges(wide, []), 4).certificate.text.startswith("in the given order, as")


def test_a_plan_over_all_orders_can_be_written_and_read(tmp_path):
    plan = optimal_graph(two_branches(), 2)
    again = read_plan(write_plan(plan, tmp_path / "plan.json"))
    assert (again.ends, again.loads, again.costs.layers) == (plan.ends, plan.loads, plan.costs.layers)


def test_a_link_between_two_periods_that_work_could_have_decides():
    costs = Costs.from_times([4, 4, 4], 0, 0, unit="cycles", output_bytes=[89, 87, 0])
    graph = LayerGraph.from_edges(costs, [(1, 3), (2, 3)])
    assert optimal(graph.costs, 2, bandwidth=20).period == Fraction(89, 10)
    plan = optimal_graph(graph, 2, bandwidth=20)  # halves lie at 8.5 and 9
    assert plan.period == Fraction(87, 10) and plan.costs.layers == ("layer2", "layer1", "layer3")


def test_a_view_and_a_second_input_cross_no_cut_of_their_own():
    net = Network("views", (2, 4, 4), (
        Node("conv1", Conv(3, 1), "input"), Node("flat", Flatten(), "conv1"), Node("conv2", Conv(3, 1), "conv1"),
        Node("more", Carried("Input", (5, 1, 1)), "input"), Node("fc1", Dense(4), "more"),
        Node("fc2", Dense(4), "flat"),
    ))  # fmt: skip
    graph = layer_graph(net, costs_of(net, batch=1, bytes_per_element=1))
    assert graph.costs.cut_bytes.tolist() == [48 + 5, 48 + 5, 48]
    assert graph.reordered([3, 1, 4, 2]).cut_bytes.tolist() == [32, 48, 48]


@pytest.mark.parametrize("given, told", [
    ([(1, 2), (3, 1)], "edge 3 -> 1 leads back; list the layers so that each comes after all it reads"),
    ([(2, 2)], "edge 2 -> 2 leads back"),
    ([(1, 9)], "layer of an edge is 9; it must be"),
    ([(0, 1)], "layer of an edge is 0; it must be"),
    ([5], "edge is 5; it must be two layers from 1 to 4, as in"),
])  # fmt: skip
def test_edges_that_are_none(given, told):
    with pytest.raises(ValueError, match=told):
        LayerGraph.from_edges(Costs.from_times([1, 1, 1, 1], 0, 0, unit="cycles"), given)


@pytest.mark.parametrize("order, told", [
    ([1, 3, 2, 4], "order has layer 3 before layer 2, which must come first"),
    ([1, 2, 3], "it must hold each layer from 1 to 4 once"),
    ([1, 2, 2, 4], "it must hold each layer from 1 to 4 once"),
    ([0, 1, 2, 3], "layer of the order is 0"),
])  # fmt: skip
def test_orders_that_are_none(order, told):
    graph = LayerGraph.from_edges(Costs.from_times([1, 1, 1, 1], 0, 0, unit="cycles"), PATH)
    with pytest.raises(ValueError, match=told):
        graph.reordered(order)


def test_arguments_that_are_none():
    graph = two_branches()
    with pytest.raises(ValueError, match="it must be a LayerGraph, from layer_graph or LayerGraph.from_edges"):
        optimal_graph(graph.costs, 2)
    with pytest.raises(ValueError, match="processors is 7, but there are only 6 layers"):
        optimal_graph(graph, 7)
    with pytest.raises(ValueError, match="most_states is 0"):
        optimal_graph(graph, 2, most_states=0)
    with pytest.raises(ValueError, match="residual"):
        optimal_graph(graph, 2, residual="none")


def test_a_plain_chain_of_edges_is_the_chain():
    costs = Costs.from_times([1, 2, 3, 4], 0, 1, unit="cycles", output_bytes=[7, 5, 3, 1])
    graph = LayerGraph.from_edges(costs, PATH)
    for name in ("cut_bytes", "first_consumer", "shared_input"):
        assert getattr(graph.costs, name).tolist() == getattr(costs, name).tolist()


@pytest.mark.parametrize("name", ["resnet18", "unet", "mobilenet_v1", "bert_base"])
@pytest.mark.parametrize("layers", ["all", "convolutions", "main_path"])
def test_a_network_in_its_own_order_has_its_own_costs(name, layers):
    net = network(name)
    if name == "bert_base" and layers != "all":
        pytest.skip("it has no convolutions")
    costs = costs_of(net, layers=layers, bytes_per_element=0.5, batch=3)
    same = layer_graph(net, costs).reordered(range(1, len(costs) + 1))
    for column in ("cut_bytes", "first_consumer", "shared_input"):
        assert getattr(same, column).tolist() == getattr(costs, column).tolist()


@pytest.mark.parametrize("name", ["resnet18", "bert_base", "unet"])
def test_another_order_has_the_costs_of_the_network_written_in_it(name):
    net = network(name)
    graph, rng = layer_graph(net, costs_of(net)), np.random.default_rng(3)
    different = 0
    for _ in range(5):
        nodes = shuffled(net.nodes, rng)
        other = costs_of(Network(net.name, net.input_shape, nodes))
        mine = graph.reordered([graph.costs.layers.index(layer) + 1 for layer in other.layers])
        different += other.layers != graph.costs.layers
        for column in ("F", "G", "delta", "cut_bytes", "first_consumer", "shared_input", "moved_bytes"):
            assert getattr(mine, column).tolist() == getattr(other, column).tolist()
    assert different or name == "unet"


def shuffled(nodes, rng):
    """The nodes in another order in which each comes after all it reads."""
    left, order, done = list(nodes), [], {"input"}
    while left:
        ready = [node for node in left if done >= set(node.inputs)]
        node = ready[rng.integers(len(ready))]
        left.remove(node)
        order.append(node)
        done.add(node.name)
    return tuple(order)


def test_costs_of_another_network_are_refused():
    for costs in (costs_of("vgg16"), costs_of("resnet18", layers="convolutions")):
        with pytest.raises(ValueError, match="are not those of network 'vgg13'; give costs that were made from it"):
            layer_graph(network("vgg13"), costs)
    small = costs_of("resnet18")
    wrong = replace(small, cut_bytes=small.cut_bytes + 1)
    with pytest.raises(ValueError, match="are not those of network 'resnet18'"):
        layer_graph(network("resnet18"), wrong)


def test_bytes_across_a_downset_are_those_of_a_cut_after_it():
    net = network("resnet18")
    graph = layer_graph(net, costs_of(net))
    cuts = [graph.crossing((1 << layer) - 1) for layer in range(1, len(graph))]
    assert cuts == graph.costs.cut_bytes.tolist()


@pytest.mark.parametrize("name, downsets", [("resnet50", 241), ("resnet101", 411)])
def test_without_moving_it_is_the_planner_of_pipedream_over_its_states(name, downsets):
    profile = read_profile(name)
    graph = profile_layers(profile, granularity="nodes", split_backward=0)
    assert len(lattice(graph.before, 1000)) == downsets  # those that PipeDream's optimizer finds, and the empty one
    for processors in (2, 8, 13):
        assert optimal_graph(graph, processors).period == pytest.approx(straight_pipeline(profile, processors)[0])


@pytest.mark.parametrize("granularity", ["fused", "nodes"])
@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_in_its_own_order_has_its_own_costs(name, granularity):
    graph = profile_layers(read_profile(name), granularity=granularity)
    same = graph.reordered(range(1, len(graph) + 1))
    for column in ("cut_bytes", "first_consumer", "shared_input"):
        assert getattr(same, column).tolist() == getattr(graph.costs, column).tolist()


def test_branches_of_inception_gain_from_another_order():
    onnx = pytest.importorskip("onnx")
    from lpkit.interop.onnx import read_onnx

    net = read_onnx(Path(onnx.__file__).parent / "backend/test/data/light/light_inception_v1.onnx")
    graph = layer_graph(net, costs_of(net))
    assert len(lattice(graph.before, 1000)) == 9 * 35 + 5
    assert (optimal(graph.costs, 2).period, optimal_graph(graph, 2).period) == (77156218, 73022936)
