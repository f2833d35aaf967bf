"""Odd input to planners, profiles and models: each is taken, or refused with one sentence in a short time."""

import time
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from lpkit.checks import shown
from lpkit.costs import Costs
from lpkit.interop.onnx import read_onnx
from lpkit.interop.pipedream import (
    Graph, Operation, read_graph, read_profile, to_costs, write_graph, write_profile,
)  # fmt: skip
from lpkit.interop.pipedream_plan import to_pipedream, write_pipedream
from lpkit.interop.pipedream_states import straight_pipeline
from lpkit.interop.torch_model import read_torch
from lpkit.layer_graph import LayerGraph
from lpkit.partition import check_plan, optimal, pipedream
from lpkit.plan_reader import read_plan
from lpkit.planfile import write_plan

FOUR = Costs.from_times([1, 2, 3, 4], 0, [0, 1, 1, 1], unit="cycles", weight_bytes=10, input_bytes=3, output_bytes=5)


# ---- Values as messages show them


@pytest.mark.parametrize("value, text", [
    (np.array([1, 2]), "[1, 2]"), (np.array([[1.5], [2]]), "[[1.5], [2.0]]"),
    ([(np.int64(1), np.str_("q"))], "[(1, 'q')]"), (np.array([1, None], object), "[1, None]"),
    (np.ma.array([1, 2], mask=[0, 1]), "[1, None]"), (np.array([]), "[]"),
    (np.array(["a"]), "['a']"), ((np.float32(0.5), [np.bool_(True)]), "(0.5, [True])"),
])  # fmt: skip
def test_messages_show_no_types_of_numpy(value, text):
    assert shown(value) == text


def test_long_and_nested_values_are_cut():
    loop = []
    loop.append(loop)
    assert len(shown(np.zeros(10**6))) < 70 and len(shown(loop)) < 70 and len(shown([[10**5000]])) < 70


# ---- Planners


@pytest.mark.parametrize("planner", [optimal, pipedream])
@pytest.mark.parametrize("options, message", [
    ({"together": np.array(3)}, "together is 3; it must be a sequence of pairs (first, last) of layer names"),
    ({"together": [np.array(3)]}, "together[0] is 3; it must be a pair (first, last) of layer names or numbers"),
    ({"together": np.array([1, 2])}, "together[0] is 1; it must be a pair (first, last) of layer names or numbers"),
    ({"replicas": np.timedelta64(3, "s")}, "it must be True, or the largest group as a whole number from 1"),
    ({"replicas": np.array([2, 2])}, "replicas is [2, 2]; it must be True, or the largest group as a whole number"),
    ({"replicas": Fraction(4, 2)}, "replicas is Fraction(2, 1); it must be True, or the largest group"),
    ({"memory": np.timedelta64(3, "s")}, "it must be a number of bytes above 0"),
    ({"bandwidth": np.timedelta64(3, "s")}, "it must be a number of bytes per unit of time above 0"),
    ({"bandwidth": np.array([1, 2])}, "bandwidth is [1, 2]; it must be a number of bytes per unit of time above 0"),
    ({"bandwidth": Decimal(2)}, "bandwidth is Decimal('2'); it must be a number of bytes per unit of time above 0"),
    ({"speeds": np.array([[1, 2], [3, 4]])}, "speeds[0] is [1, 2]; it must be a number from 1e-12 to 1e+12"),
    ({"speeds": np.array(2)}, "speeds is 2; it must be a sequence of numbers, one for each of 2 processors"),
])  # fmt: skip
def test_what_is_no_limit_is_refused(planner, options, message):
    with pytest.raises(ValueError) as error:
        planner(FOUR, 2, **options)
    assert message in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("options, same", [
    ({"replicas": np.array(2)}, {"replicas": 2}),
    ({"replicas": np.bool_(True)}, {"replicas": True}),
    ({"memory": np.array(60), "bandwidth": np.longdouble("1.5")}, {"memory": 60, "bandwidth": 1.5}),
    ({"speeds": np.array([1, 2])}, {"speeds": [1, 2]}),
    ({"together": np.array([["layer1", "layer2"]])}, {"together": [(1, 2)]}),
    ({"threshold": np.float16(10)}, {"threshold": 10}),
])  # fmt: skip
def test_numbers_of_numpy_are_planned_and_written(options, same, tmp_path):
    made, plain = optimal(FOUR, 2, **options), optimal(FOUR, 2, **same)
    assert (made.ends, made.moved, made.links, made.options) == (plain.ends, plain.moved, plain.links, plain.options)
    again = read_plan(write_plan(made, tmp_path / "plan.json"))
    assert check_plan(again) == () and again.certificate == plain.certificate


@pytest.mark.parametrize("seed", range(4))
def test_larger_work_and_faster_processors_scale_the_period_exactly(seed):
    rng = np.random.default_rng(seed)
    few, many = rng.integers(0, 40, (2, 7))
    for options in ({"speeds": [0.3, 1.1, 2.5, 0.7]}, {"replicas": True}, {"replicas": 2, "granularity": 3}):
        options = options | {"memory": 10**4, "together": [(3, 4)]}
        small, large = (Costs.from_times(few * k, 0, many * k, unit="cycles", weight_bytes=9) for k in (1, 2**52))
        plan, scaled = optimal(small, 4, **options), optimal(large, 4, **options)
        assert scaled.period == plan.period * 2**52 and scaled.ends == plan.ends
        if "speeds" in options:
            fast = [Fraction(str(speed)) * 10**9 for speed in options["speeds"]]
            assert optimal(small, 4, **options | {"speeds": fast}).period * 10**9 == plan.period


# ---- Graphs of layers


@pytest.mark.parametrize("make, message", [
    (lambda: LayerGraph.from_edges(FOUR, 3), "edges is 3; it must be a sequence of pairs of layers, as in [(1, 2)]"),
    (lambda: LayerGraph.from_edges(FOUR, None), "edges is None; it must be a sequence of pairs of layers"),
    (lambda: LayerGraph.from_edges(FOUR, [np.array(3)]), "edge is 3; it must be two layers from 1 to 4, as in (1, 2)"),
    (lambda: LayerGraph.from_edges(FOUR, np.array([[1, 9]])), "layer of an edge is 9; it must be a whole number"),
    (lambda: LayerGraph.from_edges(FOUR, [(1, 2)]).reordered(3), "order is 3; it must hold each layer from 1 to 4"),
])  # fmt: skip
def test_what_is_no_graph_of_layers_is_refused(make, message):
    with pytest.raises(ValueError) as error:
        make()
    assert message in str(error.value)


def test_edges_may_be_an_array():
    listed, given = (LayerGraph.from_edges(FOUR, edges) for edges in ([(1, 2), (2, 4)], np.array([[1, 2], [2, 4]])))
    assert (listed.before, listed.readers) == (given.before, given.readers)


# ---- Profiles


def profile_of(*changes):
    """A profile of two operations, the second with `changes`."""
    fields = {"id": "node2", "operation": "fc", "forward": 1.0, "backward": 2.0, "activation": 8, "parameters": 8}
    return Graph("two", (Operation("node1", "conv", 1.0, 2.0, 8, 8),
                         Operation(**fields | dict(changes), inputs=("node1",))))


@pytest.mark.parametrize("write", [write_graph, write_profile])
@pytest.mark.parametrize("field, value, message", [
    ("forward", float("nan"), "forward_compute_time of 'node2' is nan; it must be a finite number of at least 0"),
    ("backward", -1, "backward_compute_time of 'node2' is -1; it must be a finite number of at least 0"),
    ("backward", 10**400, "backward_compute_time of 'node2' is 1"),
    ("forward", None, "forward_compute_time of 'node2' is None; it must be a finite number of at least 0"),
    ("activation", 1.5, "activation_size of 'node2' is 1.5; it must be a whole number from 0"),
    ("activation", -8, "activation_size of 'node2' is -8; it must be a whole number from 0"),
    ("parameters", 2**63, "parameter_size of 'node2' is 9223372036854775808; it must be a whole number from 0"),
    ("operation", "one\ntwo", "the operation 'node2', 'one\\ntwo', cannot be written"),
])  # fmt: skip
def test_profiles_that_would_not_be_read_back_are_not_written(write, field, value, message, tmp_path):
    with pytest.raises(ValueError) as error:
        write(profile_of((field, value)), tmp_path / "profile.csv")
    assert message in str(error.value) and not any(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["node 2", "a,b", '"a"', "#2", "", 2])
def test_ids_that_a_csv_does_not_hold_are_refused(name, tmp_path):
    with pytest.raises(ValueError, match="cannot be written: an id must be text without blanks, commas, quotes and"):
        write_profile(profile_of(("id", name)), tmp_path / "profile.csv")


def test_a_source_of_several_lines_is_written_as_one(tmp_path):
    two = profile_of()
    again = read_profile(write_profile(Graph("two", two.operations, "one\n\ntwo"), tmp_path / "two.csv"))
    assert (again.operations, again.source) == (two.operations, "one two")


@pytest.mark.parametrize("stages, message", [
    (3, "stages is 3; it must be a list with a list of ids for each stage"),
    (["node1", "node2"], "stages is ['node1', 'node2']; it must be a list with a list of ids for each stage"),
    ([None], "stages is [None]; it must be a list with a list of ids for each stage"),
    (np.array([["node1"], ["node2"]]), "it must be a list with a list of ids for each stage"),
    ([[["node1"]]], "an operation of stage 0 is ['node1']; did you mean 'node1'? Known: 'node1', 'node2'"),
])  # fmt: skip
def test_what_is_no_list_of_stages_is_refused(stages, message, tmp_path):
    with pytest.raises(ValueError) as error:
        write_graph(profile_of(), tmp_path / "graph.txt", stages=stages)
    assert message in str(error.value)


def test_a_name_longer_than_any_file_is_an_unknown_profile():
    with pytest.raises(ValueError, match=r"^profile is 'x{60}\.\.\.'; Known: 'alexnet'"):
        read_profile("x" * 10_000)


def test_ids_of_very_many_digits_are_refused(tmp_path):
    path = tmp_path / "graph.txt"
    path.write_text(f"node{'9' * 5000} -- conv -- forward_compute_time=1, backward_compute_time=1, activation_size=1, "
                    "parameter_size=1\n")  # fmt: skip
    with pytest.raises(ValueError, match="^line 1 of 'graph.txt' has an id of more than 1000 digits; give a shorter"):
        read_graph(path)


@pytest.mark.parametrize("name, description", [
    ("x -- -- y", "x - y"), ("-- b -- -- -- c", "b - c"), ("__getitem__(a)", "Layer __getitem__(a)"),
    ("--", "Layer "), ("a\u2028b", "a b"),
])  # fmt: skip
def test_any_name_of_a_layer_is_read_back_as_a_node_that_is_planned(name, description, tmp_path):
    chain = Costs.from_times([2.0, 1.0], 1, [0, 1], ["a", name], unit="ms", weight_bytes=8, output_bytes=16)
    graph = read_graph(write_pipedream(optimal(chain, 2), tmp_path / "graph.txt"))
    assert graph.operations[1].operation == description.strip()
    assert to_costs(graph, granularity="nodes").F.tolist() == chain.F.tolist()


def test_times_that_milliseconds_do_not_hold_are_refused():
    with pytest.raises(ValueError, match="^the costs of 'chain' hold times too long to be written in ms; use a larger"):
        to_pipedream(optimal(Costs.from_times([1e306, 1.0], 0, 0, unit="s"), 2))


def test_large_profiles_are_costed_or_refused_soon():
    """Time in seconds of one processor; both took above 20 once."""
    chain = [Operation(f"node{n}", "Linear", 1.0, 2.0, 8, 8 if n < 1500 else 0, (f"node{n - 1}",) if n else ())
             for n in range(5000)]
    # All of the first 1500 are also read by what costs nothing, thousands of which follow.
    chain[1500] = Operation("node1500", "add", 1.0, 2.0, 8, 0, tuple(f"node{n}" for n in range(1500)))
    graph, start = Graph("long", tuple(chain)), time.process_time()
    costs = to_costs(graph)
    assert costs.first_consumer.tolist() == [*range(2, 1501), 1501] and time.process_time() - start < 5
    start = time.process_time()
    with pytest.raises(ValueError, match="the graph has more than 4096 states"):
        straight_pipeline(graph, 8)
    assert time.process_time() - start < 5


# ---- Models


@pytest.mark.parametrize("attribute, value, message", [
    ("group", "x", "its attribute group is 'x'; it must be a whole number"),
    ("group", [1, 1], "its attribute group is (1, 1); it must be a whole number"),
    ("strides", 2, "its attribute strides is 2; it must be whole numbers"),
    ("pads", "SAME", "its attribute pads is 'SAME'; it must be whole numbers"),
    ("auto_pad", 1, "its attribute auto_pad is 1; it must be text"),
])  # fmt: skip
def test_attributes_of_another_kind_are_refused(attribute, value, message):
    helper = pytest.importorskip("onnx").helper
    values = [helper.make_tensor_value_info("x", 1, [1, 3, 8, 8]), helper.make_tensor_value_info("y", 1, [1, 4, 6, 6])]
    weight = helper.make_tensor("w", 1, [4, 3, 3, 3], [0.0] * 108)
    conv = helper.make_node("Conv", ["x", "w"], ["y"], name="first", **{attribute: value})
    with pytest.raises(ValueError) as error:
        read_onnx(helper.make_model(helper.make_graph([conv], "g", values[:1], values[1:], [weight])))
    assert str(error.value) == f"node 'first' (Conv): {message}"


def test_a_batch_of_no_samples_is_refused():
    torch = pytest.importorskip("torch")
    with pytest.raises(ValueError, match=r"the sample holds 0 samples \(dimension 0 of its tensors\); give at least"):
        read_torch(torch.nn.Linear(4, 4), torch.zeros(0, 4))
