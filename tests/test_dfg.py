"""Data-flow graphs: the type, backprop graphs of chains and networks, cutsets, slow-down, unfolding, files."""

import json
from fractions import Fraction
from math import gcd
from pathlib import Path
from time import perf_counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lpkit.dfg import (
    DFG, Edge, backprop_dfg, critical_path, cutset, execution_order, iteration_bound, loops, operation, slow,
    stages_after, unfold,
)  # fmt: skip
from lpkit.interop.bench import read_bench
from lpkit.interop.dfg_files import from_networkx, read_json, to_networkx, write_json
from lpkit.networks import (
    GEMM_OPERATIONS, INPUT, Activation, Add, Carried, Concat, Conv, MatMul, Network, Node, Pool, network,
)  # fmt: skip


GOLDEN = json.loads((Path(__file__).parent / "golden" / "retiming.json").read_text())
TEXTBOOK = {entry["id"]: entry for entry in GOLDEN["textbook"]}
BACKPROP = {entry["id"]: entry for entry in GOLDEN["backprop"] if "L" in entry}
RING = DFG({"a": 2, "b": 2, "c": 1}, [("a", "b", 0), ("b", "c", 1), ("c", "a", 1)])


@st.composite
def graphs(draw, most_nodes=6, most_edges=12):
    """Graphs without a delay-free loop: only edges that lead up in the order of the nodes may have no delay."""
    names = [f"n{i}" for i in range(draw(st.integers(1, most_nodes)))]
    time = st.integers(0, 9) | st.fractions(0, 9, max_denominator=6)
    places = st.integers(0, len(names) - 1)
    edges = [
        (names[u], names[v], w + (u >= v))
        for u, v, w in draw(st.lists(st.tuples(places, places, st.integers(0, 3)), max_size=most_edges))
    ]
    return DFG({name: draw(time) for name in names}, edges)


def textbook(name):
    entry = TEXTBOOK[name]
    return DFG(entry["nodes"], entry["edges"], [entry["host"]] if entry["host"] else [])


def ours(name):
    """The golden files' D2 is delta2 here."""
    return name.replace("D", "delta")


def test_nodes_edges_and_arrays_keep_their_order():
    graph = DFG({"b": 1, "a": Fraction(1, 2)}, [("a", "b", 2), ("a", "b", 0), ("b", "b", 1)], hosts="a")
    assert graph.nodes == ("b", "a") and graph.hosts == ("a",)
    assert graph.edges[0] == Edge("a", "b", 2)
    assert [array.tolist() for array in (graph.tails, graph.heads, graph.delays)] == [[1, 1, 0], [0, 0, 0], [2, 0, 1]]
    assert graph.whole_times.tolist() == [2, 1] and graph.denominator == 2
    assert graph.registers() == 3 and graph.registers(shared=False) == 3
    assert hash(graph) == hash(DFG(dict(graph.times), graph.edges, graph.hosts))


def test_numpy_numbers_and_whole_floats_become_plain():
    times = {"a": np.int64(3), "b": 2.0, "c": Fraction(4, 2), "d": np.float32(2)}
    graph = DFG(times, [("a", "b", np.int32(1)), ("b", "c", 0.0)])
    assert graph.times == {"a": 3, "b": 2, "c": 2, "d": 2}
    assert {type(value) for value in (*graph.times.values(), *(edge.delays for edge in graph.edges))} == {int}


def test_times_beyond_int64_stay_exact():
    graph = DFG({"a": 2**80, "b": Fraction(1, 3)}, [("a", "b", 0), ("b", "a", 1)])
    assert critical_path(graph).period == 2**80 + Fraction(1, 3)
    assert iteration_bound(graph).value == 2**80 + Fraction(1, 3)


def test_nodes_may_stand_alone_and_parts_unconnected():
    graph = DFG({"a": 5, "b": 1, "c": 7}, [("b", "b", 1)])
    assert critical_path(graph) == (7, ("c",))
    assert iteration_bound(graph).value == 1


def test_a_chain_has_4L_plus_2_nodes_and_9L_minus_1_edges():
    for layers in (1, 2, 7):
        graph = backprop_dfg(layers)
        assert (len(graph.nodes), len(graph.edges)) == (4 * layers + 2, 9 * layers - 1)


@pytest.mark.parametrize("name", BACKPROP)
def test_backprop_graphs_are_the_golden_ones(name):
    golden = BACKPROP[name]
    graph = backprop_dfg(golden["L"], times={ours(node): time for node, time in golden["nodes"].items()})
    assert sorted(graph.edges) == sorted((ours(u), ours(v), w) for u, v, w in golden["edges_sequential"])
    assert critical_path(graph).period == golden["clock_sequential"]


@pytest.mark.parametrize("name", TEXTBOOK)
def test_periods_and_registers_of_textbook_graphs(name):
    golden, graph = TEXTBOOK[name]["golden"], textbook(name)
    period, path = critical_path(graph)
    assert period == golden["period0"] == sum(graph.times[node] for node in path)
    assert graph.registers() == golden["registers_shared"]
    assert graph.registers(shared=False) == golden["registers_edge_sum"]


@pytest.mark.parametrize(
    "name, J", [(name, J) for name, entry in TEXTBOOK.items() for J in entry["golden"].get("unfolded", ())]
)
def test_unfolded_textbook_graphs(name, J):
    golden, graph = TEXTBOOK[name]["golden"]["unfolded"][J], unfold(textbook(name), int(J))
    assert iteration_bound(graph).value == Fraction(golden["iteration_bound"])
    assert critical_path(graph).period == golden["period_before_retiming"]


def test_a_chain_network_is_the_chain_of_its_layers():
    assert backprop_dfg("vgg16") == backprop_dfg(16) == backprop_dfg(network("vgg16"))


def test_times_by_kind_by_layer_and_by_node():
    graph = backprop_dfg(2, times={"F": [3, 4], "delta": np.array([0, 5]), "U": Fraction(1, 2), "G2": 9})
    expected = {"F1": 3, "F2": 4, "delta2": 5, "U1": Fraction(1, 2), "G1": 1, "G2": 9, "E": 0, "X": 0}
    assert {name: graph.times[name] for name in expected} == expected


def test_resnet18_sums_the_errors_of_each_block_input():
    graph = backprop_dfg("resnet18")
    into = {name: [edge.source for edge in graph.edges if edge.target == name] for name in graph.nodes}
    assert into["sum:conv1"] == ["sum:layer1.0.add", "delta2", "F1"]
    assert into["add:layer1.0.add"] == ["F3", "F1"]
    assert into["G21"] == ["add:layer4.1.add", "E"]
    assert len([name for name in graph.nodes if name.startswith("sum:")]) == 8
    assert "delta1" not in graph.nodes
    assert iteration_bound(graph).value == critical_path(graph).period == 36  # 18 F, 17 delta and G1


def test_a_join_behind_an_activation_needs_the_error_in_front_of_it():
    nodes = (
        Node("a", Conv(3, 1), INPUT), Node("relu", Activation(), "a"),
        Node("join", Add(), ("relu", INPUT)), Node("b", Conv(3, 1), "join"),
    )  # fmt: skip
    graph = backprop_dfg(Network("bent", (3, 4, 4), nodes))
    assert Edge("delta2", "sum:a", 0) in graph.edges and Edge("sum:a", "G1", 0) in graph.edges
    straight = Network("straight", (3, 4, 4), (nodes[0], Node("join", Add(), ("a", INPUT)), nodes[3]))
    assert Edge("delta2", "G1", 0) in backprop_dfg(straight).edges


def test_nothing_comes_back_to_what_does_not_learn():
    nodes = (
        Node("pool", Pool(1), INPUT), Node("join", Concat(), (INPUT, "pool")),
        Node("a", Conv(3, 1), "join"), Node("b", Conv(3, 1), INPUT),
    )  # fmt: skip
    graph = backprop_dfg(Network("two heads", (3, 4, 4), nodes))
    assert not [name for name in graph.nodes if name.startswith(("delta", "sum"))]
    assert {edge.source for edge in graph.edges if edge.target == "E"} == {"F1", "F2", "T"}


def scalar_gradients(net, weights):
    """Derivatives of the sum of all outputs: a layer multiplies by its weight, joins add, products multiply."""
    values = {INPUT: (1, np.zeros(len(weights), dtype=object))}
    layer = 0
    for node in net.nodes:  # what is carried along and reads one tensor twice is an operation of one tensor
        inputs = dict.fromkeys(node.inputs) if isinstance(node.op, Carried) else node.inputs
        parts = [values[source] for source in inputs]
        if is_product(node.op):
            (a, of_a), (b, of_b) = parts
            value, slope = a * b, of_a * b + of_b * a
        else:
            value, slope = sum(part[0] for part in parts), sum(part[1] for part in parts)
        if isinstance(node.op, GEMM_OPERATIONS):
            if not is_product(node.op):
                unit = np.array([int(index == layer) for index in range(len(weights))], dtype=object)
                value, slope = value * weights[layer], slope * weights[layer] + unit * value
            layer += 1
        values[node.name] = value, slope
    read = {source for node in net.nodes for source in node.inputs}
    return sum(values[node.name][1] for node in net.nodes if node.name not in read)


def is_product(op):
    return isinstance(op, MatMul) and not op.weights


def run_once(graph, net, weights):
    """G of each layer that has one, when the graph is run for one iteration on the same numbers: backward."""
    reads = {name: [u for u, v, w in graph.edges if v == name and not w] for name in graph.nodes}
    products = {layer.index for layer in net.layers if is_product(layer.op)}
    squares = {layer.index for layer, node in zip(net.layers, gemm_nodes(net)) if len(set(node.inputs)) == 1}
    values = {"X": 1, "T": 0}
    for name in execution_order(graph):
        kind, layer = operation(name)
        operands = [s for s in reads[name] if operation(s)[0] in ("X", "F", "add", "concat", "carried")]
        forward = [values[s] for s in operands]
        made = f"F{layer}" if kind in ("G", "delta") else operands[0] if operands else None
        errors = [values[s] for s in reads[name] if operation(s)[0] in ("E", "delta", "sum")]
        error = sum(e[made] if isinstance(e, dict) else e for e in errors)
        if kind == "E":
            values[name] = 1
        elif kind == "F" and layer in products:
            values[name] = np.prod(forward, dtype=object) ** (2 if layer in squares else 1)
        elif kind == "delta" and layer in products:
            others = [np.prod(forward[:i] + forward[i + 1 :], dtype=object) for i in range(len(forward))]
            others = [2 * forward[0]] if layer in squares else others
            values[name] = {operand: error * other for operand, other in zip(operands, others)}
        elif kind in ("F", "add", "concat", "carried"):
            values[name] = sum(forward) * (weights[layer - 1] if kind == "F" else 1)
        elif kind in ("delta", "sum"):
            values[name] = error * (weights[layer - 1] if kind == "delta" else 1)
        elif kind == "G":
            values[name] = sum(forward) * error
        elif kind == "U":
            values[name] = 0
    return [values.get(f"G{layer}", 0) for layer in range(1, len(weights) + 1)]


def gemm_nodes(net):
    return [node for node in net.nodes if isinstance(node.op, GEMM_OPERATIONS)]


@pytest.mark.parametrize("name", ["lenet5", "resnet18", "resnet50", "mobilenet_v1", "unet"])
def test_the_graph_of_a_network_yields_its_gradients(name):
    weights = list(range(2, 2 + len(network(name).layers)))
    assert run_once(backprop_dfg(name), network(name), weights) == scalar_gradients(network(name), weights).tolist()


def small(name):
    return network(name, layers=2, width=8, heads=2, **({"size": 32} if name == "vit_b16" else {"sequence": 4}))


def gated():
    """A branch that scales another, a mask, a product of a tensor with itself, and one that learns nothing."""
    dense, shape = MatMul(4, 4, 4), (4, 4, 1)
    square = MatMul(4, 4, 4, weights=False)
    return Network("gated", shape, (
        Node("still", square, (INPUT, INPUT)), Node("a", dense, "still"), Node("gate", dense, "a"),
        Node("sigmoid", Activation("sigmoid"), "gate"), Node("scaled", Carried("Mul", shape), ("a", "sigmoid")),
        Node("masked", Carried("Add", shape), ("scaled", INPUT)), Node("square", square, ("masked", "masked")),
        Node("swish", Carried("Mul", shape), ("square", "square")), Node("b", dense, "swish"),
        Node("mix", square, ("b", "scaled")), Node("c", dense, "mix"),
    ))  # fmt: skip


def test_a_product_of_two_tensors_has_no_weights_and_hands_its_delta_to_both():
    graph = backprop_dfg(small("gpt2"))
    into = {name: [edge.source for edge in graph.edges if edge.target == name] for name in graph.nodes}
    assert [name for name in ("G4", "U4", "G5", "U5") if name in into] == []
    assert into["F4"] == ["F1", "F2"] and into["F5"] == ["F4", "F3"]
    assert into["delta5"] == ["delta6", "F4", "F3"] and into["delta4"] == ["delta5", "F1", "F2"]
    assert into["G3"] == ["X", "delta5"] and into["G1"] == into["G2"] == ["X", "delta4"]


def test_what_a_carried_operation_of_several_tensors_hands_back_is_a_sum():
    graph = backprop_dfg(gated())
    into = {name: [edge.source for edge in graph.edges if edge.target == name] for name in graph.nodes}
    assert "delta1" not in into and "G1" not in into and into["F1"] == ["X"]
    assert into["carried:scaled"] == ["F2", "F3"] and into["carried:masked"] == ["carried:scaled", "X"]
    assert into["sum:scaled"] == ["delta6", "sum:masked", "carried:scaled", "F2", "F3"]
    assert into["sum:gate"] == ["sum:scaled", "F3"]  # a sigmoid lies between the two
    assert into["delta4"] == ["delta5", "carried:masked"]  # of a product with itself


@pytest.mark.parametrize("net", [*map(small, ("bert_base", "gpt2", "vit_b16")), gated()], ids=lambda net: net.name)
def test_the_graph_of_a_network_with_products_yields_its_gradients(net):
    weights = list(range(2, 2 + len(net.layers)))
    assert run_once(backprop_dfg(net), net, weights) == scalar_gradients(net, weights).tolist()


def test_products_alone_learn_nothing():
    net = Network("still", (4, 4, 1), [Node("square", MatMul(4, 4, 4, weights=False), (INPUT, INPUT))])
    with pytest.raises(ValueError, match="network 'still' has no layers that learn"):
        backprop_dfg(net)


def test_operation_names():
    assert [operation(name) for name in ("X", "Y", "F1", "delta2'", "join2", "sum:a:b")] == [
        ("X", None), ("Y", None), ("F", 1), ("delta'", 2), ("join", 2), ("sum", "a:b"),
    ]  # fmt: skip


@given(st.lists(st.booleans(), max_size=12))
def test_stages_after_never_rises_and_ends_with_0(steps):
    stages = np.cumsum([1, *steps]).tolist()
    after = stages_after(stages)
    assert after[-1] == 0 and list(after) == sorted(after, reverse=True)
    assert [stage + more for stage, more in zip(stages, after)] == [stages[-1]] * len(stages)


def test_cutsets_of_the_paper():
    graph = backprop_dfg(3)
    assert cutset(graph, ["X", "T"]).kind == "feedforward"
    second = cutset(graph, ["U2", "F2"])
    assert (second.kind, second.nodes) == ("feedback", ("F2", "U2"))
    assert {edge[:2] for edge in second.backward} == {("F1", "F2"), ("G2", "U2")}
    same = cutset(graph, [edge[:2] for edge in second.forward + second.backward])
    assert {*same.forward, *same.backward} == {*second.forward, *second.backward}


@given(graphs(), st.data())
def test_a_feedforward_cutset_meets_no_loop(graph, data):
    side = data.draw(st.sets(st.sampled_from(graph.nodes)))
    try:
        cut = cutset(graph, side)
    except ValueError:
        inside = [(edge.source in side) == (edge.target in side) for edge in graph.edges]
        assert all(inside)
        return
    assert all(edge.source in side and edge.target not in side for edge in cut.forward)
    assert all(edge.source not in side and edge.target in side for edge in cut.backward)
    crossing = {edge[:2] for edge in cut.forward + cut.backward}
    on_loops = {step for loop in loops(graph) for step in zip(loop.nodes, loop.nodes[1:] + loop.nodes[:1])}
    if cut.kind == "feedforward":
        assert not crossing & on_loops
        more = [w + 3 * ((u, v) in crossing) for u, v, w in graph.edges]
        assert iteration_bound(graph.with_delays(more)).value == iteration_bound(graph).value
    else:
        assert cut.forward and cut.backward
    again = cutset(graph, list(crossing))
    assert {*again.forward, *again.backward} == {*cut.forward, *cut.backward}


@given(graphs(), st.integers(1, 5))
def test_unfolding_keeps_the_delays_of_every_edge(graph, J):
    unfolded = unfold(graph, J)
    assert len(unfolded.nodes) == J * len(graph.nodes)
    for place, edge in enumerate(graph.edges):
        copies = unfolded.edges[place * J : (place + 1) * J]
        assert sum(copy.delays for copy in copies) == edge.delays
        assert {copy.source.split("[")[0] for copy in copies} == {edge.source}
        assert len({copy.target for copy in copies}) == J


@given(st.integers(1, 5), st.integers(1, 12), st.integers(1, 8))
def test_a_loop_with_w_delays_unfolds_into_gcd_loops(length, w, J):
    ring = DFG.from_edges([(f"n{i}", f"n{(i + 1) % length}", w if i == 0 else 0) for i in range(length)])
    found = loops(unfold(ring, J))
    assert len(found) == gcd(w, J)
    assert {loop.delays for loop in found} == {w // gcd(w, J)}


def test_unfolding_carries_hosts_along():
    assert unfold(textbook("correlator"), 2).hosts == ("vh[0]", "vh[1]")


def test_slow_is_the_slow_correlator():
    assert slow(textbook("correlator"), 3) == textbook("correlator_3slow")


def test_json_keeps_everything(tmp_path):
    graph = DFG({"a": 2, "b": Fraction(7, 3)}, [("a", "b", 0), ("b", "a", 2), ("b", "a", 1)], hosts=("a",))
    assert read_json(write_json(graph, tmp_path / "graph.json")) == graph
    lonely = DFG({"a": 2}, [])
    assert read_json(write_json(lonely, tmp_path / "lonely.json")) == lonely


def test_json_decimals_are_exact(tmp_path):
    path = tmp_path / "graph.json"
    path.write_text('{"nodes": {"a": 0.1, "b": "1/3"}, "edges": [], "comment": "tenths"}')
    assert read_json(path).times == {"a": Fraction(1, 10), "b": Fraction(1, 3)}


def test_networkx_there_and_back():
    networkx = pytest.importorskip("networkx", reason="networkx is not installed")
    graph = DFG({"a": 2, "b": Fraction(7, 3)}, [("a", "b", 0), ("b", "a", 2), ("b", "a", 1)])
    back = from_networkx(to_networkx(graph))
    assert back.times == graph.times and sorted(back.edges) == sorted(graph.edges)
    with pytest.raises(ValueError, match="Graph is not a directed networkx graph"):
        from_networkx(networkx.Graph())


class Digraph:
    """What `from_networkx` asks of a graph, for a test without networkx."""

    def __init__(self, nodes, edges):
        self._nodes, self._edges = nodes, edges

    def is_directed(self):
        return True

    def nodes(self, data):
        return self._nodes

    def edges(self, data):
        return self._edges


def test_foreign_graphs():
    foreign = Digraph([(1, {"t": 2}), ("b", {"t": 3})], [(1, "b", {"w": 1})])
    graph = from_networkx(foreign, time="t", delays="w", hosts=[1])
    assert graph == DFG({"1": 2, "b": 3}, [("1", "b", 1)], hosts=("1",))
    with pytest.raises(ValueError, match="two nodes are named '1'; give each"):
        from_networkx(Digraph([(1, {"time": 2}), ("1", {"time": 2})], []))
    with pytest.raises(ValueError, match="edge 1 -> 1 has no attribute 'delays'; set it"):
        from_networkx(Digraph([(1, {"time": 2})], [(1, 1, {})]))


S27 = """
INPUT(G0)
OUTPUT(G17)
# two flip-flops in a row, and one fan-out of the first
G5 = DFF(G10)
G6 = DFF(G5)
G10 = NAND(G0, G6)
G17 = NOT(G5)
dead = BUFF(G10)
"""


def test_a_netlist(tmp_path):
    path = tmp_path / "small.bench"
    path.write_text(S27)
    graph = read_bench(path, times={"NAND": 2, "NOT": 1, "BUFF": 1})
    assert graph.times == {"G0": 0, "G10": 2, "G17": 1, "dead": 1, "output:G17": 0}
    assert graph.hosts == ("G0", "output:G17")
    assert graph.edges == (
        ("G0", "G10", 0), ("G10", "G10", 2), ("G10", "G17", 1), ("G10", "dead", 0), ("G17", "output:G17", 0),
    )  # fmt: skip
    assert "dead" not in read_bench(path, swept=True).nodes


@pytest.mark.parametrize("text, message", [
    ("INPUT(a)\ny = NAND(a", r"line 2: 'y = NAND\(a' is no line of a netlist, as INPUT\(a\)"),
    ("y = FOO(a)", "line 1: gate is 'FOO'; Known: 'AND'"),
    ("INPUT(a)\na = NOT(a)", "line 2: signal 'a' is driven twice; keep one"),
    ("OUTPUT(a)\nOUTPUT(a)", "line 2: signal 'a' is an output twice; keep one"),
    ("y = AND()", r"line 1: AND has the pins \(\); give names"),
    ("y = DFF(a, b)", r"line 1: DFF has the pins \(a, b\); give one signal"),
    ("OUTPUT(y)", "signal 'y' is read but never driven; the file may have been cut off"),
    ("q = DFF(d)", "signal 'd' is read but never driven; the file may have been cut off"),
    ("y = NOT(x)", "signal 'x' is read but never driven; the file may have been cut off"),
    ("p = DFF(q)\nq = DFF(p)", "the flip-flops p -> q -> p form a loop without a gate; drive one"),
    ("a = NOT(b)\nb = NOT(a)", "the loop a -> b -> a has no delay; put a delay"),
    ("# nothing", "has no gates; it may have been cut off"),
    ("INPUT(output:y)\nOUTPUT(y)", "line 2: signal 'output:y' has the name of the node of output 'y'; rename one"),
    ("OUTPUT(y)\nINPUT(output:y)", "line 2: signal 'output:y' has the name of the node of output 'y'; rename one"),
    ("INPUT(y)\nOUTPUT(y)\noutput:y = NOT(y)", "line 3: signal 'output:y' has the name of the node of output 'y'"),
    (f"y = NOT({'x' * 100_000})", r"signal 'x{60}\.\.\.' is read but never driven"),
    (f"y = NOT({'x,' * 100_000})", r"NOT has the pins \('[x,]{60}\.\.\.'\); give one signal"),
])  # fmt: skip
def test_faulty_netlists(tmp_path, text, message):
    path = tmp_path / "faulty.bench"
    path.write_text(text)
    with pytest.raises(ValueError, match=message) as error:
        read_bench(path)
    assert str(error.value).startswith(str(path)) and "\n" not in str(error.value)


def test_many_blanks_take_no_time_to_speak_of(tmp_path):
    path = tmp_path / "blanks.bench"
    path.write_text("INPUT(x)\ny = AND(" + " " * 200_000 + "x\n")
    start = perf_counter()
    with pytest.raises(ValueError, match="line 2: 'y = AND"):
        read_bench(path)
    assert perf_counter() - start < 2  # a quadratic pattern takes minutes
    path.write_text("INPUT(x)\ny = AND(" + " " * 200_000 + "x , x )\n")
    assert read_bench(path).edges == (("x", "y", 0), ("x", "y", 0))


def test_a_gate_without_a_time(tmp_path):
    path = tmp_path / "small.bench"
    path.write_text(S27)
    with pytest.raises(ValueError, match=r"times has none for NAND; give one for each type of gate: \['BUFF'"):
        read_bench(path, times={"NOT": 1})


@pytest.mark.parametrize("text, message", [
    ("{", "line 1 is not JSON .*; the file may have been cut off"),
    ("[]", "it holds no graph; give"),
    ('{"nodes": {"a": 1}, "edges": 3}', "'edges' is 3; it must be a list"),
    ('{"nodes": {"a": NaN}, "edges": []}', "a number is 'NaN'; write it as 3, 0.5"),
    ('{"nodes": {"a": 1e99}, "edges": []}', "a number is '1e99'; write it as"),
    ('{"nodes": {"a": "1/0"}, "edges": []}', "a number is '1/0'; its denominator must not be 0"),
    ('{"nodes": {"a": ' + "9" * 99 + '}, "edges": []}', "a number has 99 digits; at most 78 are allowed"),
    ('{"nodes": {"a": 1, "a": 2}, "edges": []}', "the key 'a' is there twice; keep one"),
    ('{"nodes": {"a": 1}, "edges": [["a", "b", 0]]}', "a node of edge a -> b is 'b'; Known: 'a'"),
    ("[" * 100_000, "it is nested too deeply for a graph"),
    (r'{"nodes": {"\ud800": 1}}', r"a node is named '\\ud800'; half a surrogate pair is no letter, so leave it out"),
])  # fmt: skip
def test_faulty_json(tmp_path, text, message):
    path = tmp_path / "faulty.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=message) as error:
        read_json(path)
    assert str(error.value).startswith(str(path)) and "\n" not in str(error.value)


@pytest.mark.parametrize("make, message", [
    (lambda: DFG({}, []), "the graph is empty; give it one node or more"),
    (lambda: DFG([1], []), r"times is \[1\]; it must map each node to its time"),
    (lambda: DFG({1: 1}, []), "a node is named 1; a name must be text"),
    (lambda: DFG({"a": -1}, []), "the time of node 'a' is -1; it must be a whole number or a Fraction from 0"),
    (lambda: DFG({"a": np.float64("nan")}, []), "the time of node 'a' is nan; it must be a whole number"),
    (lambda: DFG({"a": 0.1}, []), r"the time of node 'a' is 0.1; .* \(0.1 is Fraction\(1, 10\)\)"),
    (lambda: DFG({"a": True}, []), "the time of node 'a' is True; it must be"),
    (lambda: DFG({"a": 2**257}, []), "the time of node 'a' is a number of more than 256 bits; it must be"),
    (lambda: DFG({"a": 1}, [("a", "b", 0)]), "a node of edge a -> b is 'b'; Known: 'a'"),
    (lambda: DFG({"a": 1}, [("a", "a")]), r"an edge is \('a', 'a'\); it must be \(source, target, delays\)"),
    (lambda: DFG({"a": 1}, [("a", "a", -1)]), "the number of delays of edge a -> a is -1; it must be"),
    (lambda: DFG({"a": 1}, [("a", "a", 0.5)]), "the number of delays of edge a -> a is 0.5; it must be"),
    (lambda: DFG({"a": 1}, [("a", "a", 2**41)]), "the number of delays of edge a -> a is 2199023255552; it must be"),
    (lambda: DFG({"a": 1}, [("a", "a", 0)]), "the loop a -> a has no delay; put a delay on one of its edges"),
    (lambda: DFG({"a": 1}, [], hosts=["b"]), "a host is 'b'; Known: 'a'"),
    (lambda: DFG({"a": 1}, [], hosts=3), "a host is 3; Known: 'a'"),
    (lambda: DFG.from_edges([("a", "b", 0)], {"a": 1}), r"node 'b' has no time; give times\['b'\]"),
    (lambda: DFG({"x" * 100_000: -1}, []), r"the time of node 'x{60}\.\.\.' is -1"),
    (lambda: DFG({"a\nb": 1}, [("a\nb", "c", 0)]), r"a node of edge 'a\\nb' -> c is 'c'; Known: 'a\\nb'"),
    (lambda: DFG({"a\nb": 1}, [("a\nb", "a\nb", 0)]), r"the loop 'a\\nb' -> 'a\\nb' has no delay"),
    (lambda: DFG({"x" * 99: 1}, [("x" * 99, "x" * 99, -1)]), r"of edge 'x{60}\.\.\.' -> 'x{60}\.\.\.' is -1"),
    (lambda: DFG.from_edges([("x" * 99, "b", 0)], {}), r"node 'x{60}\.\.\.' has no time; give times\['x{60}"),
    (lambda: cutset(RING, [("a\n", "x" * 99)]), r"there is no edge 'a\\n' -> 'x{60}\.\.\.' in the graph"),
    (lambda: RING.with_delays(None), "delays is None; give a list of whole numbers, one an edge"),
    (lambda: RING.with_delays([[1], [1, 2]]), r"delays is \[\[1\], \[1, 2\]\]; give a list of whole numbers"),
    (lambda: RING.with_delays([1]), "there are 1 delays for 3 edges; give one an edge"),
    (lambda: RING.with_delays([0, 0, 0]), "the loop a -> b -> c -> a has no delay"),
    (lambda: RING.with_delays([1, -1, 1]), "the number of delays of edge b -> c is -1"),
    (lambda: backprop_dfg(0), "the number of layers is 0; it must be a whole number from 1"),
    (lambda: backprop_dfg("vgg61"), "network is 'vgg61'; did you mean 'vgg"),
    (lambda: backprop_dfg(Network("none", (1, 1, 1), [Node("a", Activation(), INPUT)])), "has no layers that learn"),
    (lambda: backprop_dfg(2, times={"D": 1}), "a name in times is 'D'; Known: 'F', 'G', 'delta'"),
    (lambda: backprop_dfg(2, times={"F": [1]}), r"times\['F'\] has 1 numbers; give one a layer, 2"),
    (lambda: backprop_dfg(2, times={"E": [1, 1]}), r"times\['E'\] has 2 numbers; give one number"),
    (lambda: backprop_dfg(2, times=3), "times is 3; it must map kinds or nodes to times"),
    (lambda: operation("D2"), "node 'D2' is none of a backprop graph; they are X, T, E, F1"),
    (lambda: stages_after((1, 3)), "layer 2 is on stage 3 after stage 1; stages start at 1"),
    (lambda: stages_after((1, 2, 1)), "layer 3 is on stage 1 after stage 2; stages start at 1"),
    (lambda: stages_after((2, 3)), "layer 1 is on stage 2 after stage 0; stages start at 1"),
    (lambda: stages_after((1, 1), 3), "stages has 2 numbers; give 3, one a layer"),
    (lambda: stages_after(()), "stages has 0 numbers; give one or more"),
    (lambda: cutset(RING, []), r"no edge joins \[\] and the rest of the graph; name some"),
    (lambda: cutset(RING, "abc"), "a node of the cutset is 'abc'; Known: 'a', 'b', 'c'"),
    (lambda: cutset(RING, [("a", "b")]), "these edges are not a cutset: a and b are on the same side"),
    (lambda: cutset(RING, [("a", "c")]), "there is no edge a -> c in the graph"),
    (lambda: cutset(RING, [7]), "a member of the cutset is 7; give names of nodes, or edges"),
    (lambda: slow(RING, 0), "k is 0; it must be a whole number from 1"),
    (lambda: slow(RING, 2**40 + 1), "k is 1099511627777; it must be"),
    (lambda: unfold(RING, 1.5), "J is 1.5; it must be a whole number from 1"),
    (lambda: unfold(RING, 10**8), "J is 100000000; it must be a whole number from 1 to 5592405"),
])  # fmt: skip
def test_bad_input_is_one_sentence(make, message):
    with pytest.raises(ValueError, match=message) as error:
        make()
    assert "\n" not in str(error.value) and "np." not in str(error.value)


def test_a_long_delay_free_loop_is_named_in_short():
    edges = [(f"n{i}", f"n{(i + 1) % 1000}", 0) for i in range(1000)]
    with pytest.raises(ValueError, match="the loop n0 -> n1 -> .* 989 more .* -> n999 -> n0 has no delay"):
        DFG.from_edges(edges)
