"""What `lpkit plan` tells of a model file: the table for people, limits, the next processor, what it all rests on."""

import json
from fractions import Fraction
from pathlib import Path

import pytest

from lpkit.costs import Costs, costs
from lpkit.interop import pipedream
from lpkit.interop.scalesim_config import write_config
from lpkit.networks import network, write_csv
from lpkit.partition import PLANNERS, Plan, check_plan, optimal, plan
from lpkit.plan_command import compared
from lpkit.plan_options import another, limits, taken
from lpkit.plan_report import assumptions, next_processor, plan_table
from lpkit.systolic import Array

CHAIN = Costs.from_times([4, 2, 2], 1, [0, 6, 1], ["a", "b:x", "c"], unit="cycles", weight_bytes=100, input_bytes=500,
                         output_bytes=500)


@pytest.fixture
def columns():
    """Wide enough that no cell is wrapped."""
    return 400


# ---- the table


def test_the_table_names_what_is_where():
    made = Plan("by hand", CHAIN, 2, ends=(2, 3), moved=((2, 1, 2, 3),))
    assert check_plan(made) == ()  # b:x moves half of its weights there, and half of its result back
    assert plan_table(made).values.tolist() == [
        [1, "a - b:x", 2, 11, "100 %", "50 % of b:x", "1 kB", "300 B"], [2, "c", 1, 7, "63.6 %", "-", "", ""]]


def test_a_stage_without_a_layer_and_a_plan_without_work_have_rows_too():
    empty = plan_table(Plan("by hand", CHAIN, 3, ends=(2, 2, 3)))
    assert empty["layers"].tolist() == ["a - b:x", "(none)", "c"]
    assert plan_table(plan(Costs.from_times([0, 0], 0, 0), 2, "equal_layers"))["busy"].tolist() == ["0 %", "0 %"]


@pytest.mark.parametrize("processors", range(1, 9))
def test_the_table_adds_up(processors):
    made = plan(costs("resnet18"), processors)
    table = plan_table(made)
    assert table["count"].sum() == len(made.costs) and table["load"].tolist() == list(map(round, made.loads))
    assert table["load"].max() == round(made.period) and (table["busy"] == "100 %").any()
    assert [row != "-" for row in table["shifted"]] == [
        any(source == stage for _, source, _, _ in made.moved) for stage in table["stage"]]  # fmt: skip


# ---- one processor more


@pytest.mark.parametrize("name, processors", [("vgg11", 3), ("vgg11", 6), ("sample4", 3)])
def test_the_next_processor_is_that_of_a_plan_with_one_more(name, processors):
    made = plan(costs(name), processors)
    found, more = next_processor(made), plan(costs(name), processors + 1)
    assert (found["processors"], found["period"]) == (processors + 1, float(more.period))
    assert found["helps"] == (more.period < made.period) and found["speedup"] == float(more.speedup)


def test_where_no_further_processor_helps_the_certificate_says_so_too():
    saturated = next(made for made in map(lambda P: plan(costs("vgg11"), P), range(2, 12))
                     if made.certificate.saturation_period == made.period)
    found = next_processor(saturated)
    assert not found["helps"] and found["text"].startswith("no further processor helps: ")
    assert found["text"].endswith(" cycles is the least of any number")


def test_a_step_that_brings_nothing_alone_is_not_called_the_end():
    twins = plan(Costs.from_times([4, 4, 4, 4], 0, 0, unit="cycles"), 2)
    found = next_processor(twins)
    assert plan(twins.costs, 4).period < twins.period
    assert (found["helps"], found["text"]) == (False, "a 3rd processor alone does not help")


def test_ordinals_and_plans_that_cannot_grow():
    texts = [next_processor(plan(costs("resnet50"), P))["text"] for P in (10, 20, 21, 22)]
    assert [text.split()[1] for text in texts] == ["11th", "21st", "22nd", "23rd"]
    assert next_processor(Plan("by hand", CHAIN, 2, ends=(2, 3))) is None
    full = "no further processor helps: each of the 3 layers has one of its own"
    assert next_processor(plan(CHAIN, 3))["text"] == full


def test_several_stages_a_processor_have_no_next_processor(answer):
    words = ("plan", "vgg11", "-P", 2, "--stages-per-processor", 2, "--schedule", "interleaved", "--micro-batches", 4)
    assert answer(*words)["next"] is None


def test_the_next_plan_keeps_to_the_same_limits():
    made = optimal(costs("vgg16"), 4, threshold=10**6, bandwidth=50)
    assert another(made, 5).options == made.options
    assert another(made, 5).period == optimal(costs("vgg16"), 5, threshold=10**6, bandwidth=50).period


# ---- limits


def test_limits_from_words():
    words = dict(memory="2e9", bandwidth="2.5", threshold="0", granularity="8,4,2", residual="sum_site")
    assert limits("optimal", CHAIN, **words) == {
        "memory": 2 * 10**9, "bandwidth": Fraction(5, 2), "threshold": 0, "granularity": [8, 4, 2],
        "residual": "sum_site"}  # fmt: skip
    assert limits("equal_layers", CHAIN, memory=None, together=(), replicas=False) == {}


def test_limits_of_layers_and_processors():
    words = dict(together=("a:b:x", "1:2", "b:x:c"), speeds="1, 2,1/3", replicas=True)
    found = limits("optimal", CHAIN, **words)
    assert found == {"together": [("a", "b:x"), (1, 2), ("b:x", "c")], "speeds": [1, 2, Fraction(1, 3)],
                     "replicas": True}  # fmt: skip
    kept, fast, several = (plan(CHAIN, 3, **{name: found[name]}) for name in ("together", "speeds", "replicas"))
    assert kept.ends == (3,) and fast.speeds[0] == 1 and several.replicas == (3,)
    assert another(kept, 2).options == kept.options and another(several, 4).replicas == (4,)
    assert another(fast, 3).options == fast.options and another(fast, 2) is None  # how fast would the others be?
    with pytest.raises(ValueError, match="together is 'a'; it must be FIRST:LAST, two names or numbers of layers"):
        limits("optimal", CHAIN, together=("a",))


@pytest.mark.parametrize("name", ["together", "speeds", "replicas", "memory", "granularity"])
def test_a_planner_without_such_a_limit_refuses_it(lpkit, name):
    planner = next(planner for planner in PLANNERS if name not in taken(planner))
    value = [] if name == "replicas" else ["1:2" if name == "together" else "1"]
    status, out, err = lpkit("plan", "vgg11", "-P", 2, "--planner", planner, f"--{name}", *value)
    assert (status, out) == (2, "") and err.startswith(f"lpkit: the planner '{planner}' has no {name}; leave the ")
    assert err.count("\n") == 1


@pytest.mark.parametrize("words, keywords", [
    (["--memory", "8e9"], {"memory": 8 * 10**9}), (["--bandwidth", "40"], {"bandwidth": 40}),
    (["--granularity", "8"], {"granularity": 8}), (["--threshold", "1e6"], {"threshold": 10**6}),
    (["--residual", "sum_site"], {"residual": "sum_site"}),
])  # fmt: skip
def test_limits_of_the_command_are_those_of_the_planner(answer, words, keywords):
    found, expected = answer("plan", "resnet18", "-P", 4, *words), plan(costs("resnet18"), 4, **keywords)
    assert found["period"] == float(expected.period) and found["ends"] == list(expected.ends)


def test_limits_reach_the_planners_that_are_compared(lpkit, answer):
    rows = answer("plan", "vgg16", "-P", 4, "--bandwidth", 30, "--compare")["compare"]
    assert rows[1]["period"] == float(plan(costs("vgg16"), 4, "pipedream", bandwidth=30).period)
    out = lpkit("plan", "vgg16", "-P", 4, "--bandwidth", 30, "--compare")[1]
    assert out.endswith("equal_layers does not know bandwidth\nalgorithm1 does not know bandwidth\n")


def test_there_is_no_comparison_without_a_plan_of_pipedream():
    chain = Costs.from_times([1, 1], 0, 0, unit="cycles", weight_bytes=10)
    made = Plan("optimal", chain, 2, ends=(1, 2), options=(("memory", 1),))
    with pytest.raises(ValueError, match="there is nothing to compare with: no plan of PipeDream's planner keeps to"):
        compared(made)


# ---- what it rests on


def test_measured_times_and_chains(tmp_path):
    path = tmp_path / "graph.txt"
    node = "node{0} -- {1} -- forward_compute_time=1.5, backward_compute_time=3.0, activation_size=8, parameter_size=8"
    path.write_text("\n".join([node.format(1, "Linear()"), node.format(2, "Linear()"), "\tnode1 -- node2", ""]))
    measured = plan(pipedream.to_costs(pipedream.read_graph(path)), 2)
    assert assumptions(measured)[0].startswith("times are measured, in ms, and one backward time a layer is shared")
    assert not any("branches" in sentence for sentence in assumptions(measured))


def test_networks_that_branch():
    net = network("resnet18")
    made = plan(costs(net), 8)
    sums = [layer for layer, *_ in made.moved if made.costs.shared_input[layer - 1]]
    found = assumptions(made, net)
    assert any(sentence.startswith("the network branches: ") for sentence in found)
    assert any("is one term of a sum" in sentence for sentence in found) == bool(sums)
    kept = optimal(costs(net), 8, residual="sum_site", memory=10**12, bandwidth=10**9)
    words = ("one term", "without a bandwidth", "without a memory")
    assert not any(word in " ".join(assumptions(kept, net)) for word in words)


def test_a_plan_of_one_stage_has_no_cut():
    net = network("resnet18")
    found = " ".join(assumptions(plan(costs(net), 1), net))
    assert "cut" not in found and "links" not in found and "memory never stalls" in found
    assert "cut" not in " ".join(assumptions(optimal(costs(net), 1, bandwidth=1), net))


def test_what_a_bandwidth_means_is_said(lpkit, answer):
    one_way = "in the plan both ways of a boundary share one link (a cut takes twice its bytes over the bandwidth)"
    around = "(--bandwidth times the sends of the schedule; to plan with it too, export a plan.json with it and"
    words = "plan", "vgg11", "-P", 2
    assert [one_way in lpkit(*words, *more)[1] for more in ((), ("--bandwidth", 64))] == [False, True]
    scheduled = *words, "--schedule", "1f1b"
    assert [around in lpkit(*scheduled, *more)[1] for more in ((), ("--bandwidth", 64))] == [False, True]
    assert any(around in sentence for sentence in answer(*scheduled, "--bandwidth", 64)["assumptions"])


def test_the_headline_counts_stages_and_processors_with_nothing_to_do(lpkit):
    first = [lpkit("plan", "vgg11", "-P", P)[1].splitlines()[0] for P in (1, 2, 11)]
    stages = len(plan(costs("vgg11"), 11).ends)
    assert first[0].endswith(": optimal, 1 stage") and first[1].endswith(": optimal, 2 stages") and stages < 11
    assert first[2].endswith(f": optimal, {stages} stages ({11 - stages} of 11 processors idle)")
    assert "no plan of 1 processor beats" in lpkit("plan", "vgg11", "-P", 1)[1]
    assert lpkit("plan", "vgg11", "-P", 4, "--replicas")[1].splitlines()[0].count("idle") == 0


def test_layers_left_out_and_operations_that_take_no_time():
    net = network("resnet18")
    found = assumptions(plan(costs(net, layers="main_path"), 4), net)
    assert found[0].endswith("takes no time (20 BatchNorm, 8 Add, 1 Pool, 1 GlobalPool)")
    assert found[1] == "4 of 21 layers are left out and take no time either"
    assert any("delta of conv1 is not counted" in sentence for sentence in found)
    counted = assumptions(plan(costs(net, first_layer_delta=True), 4), net)
    assert not any("is not counted" in sentence for sentence in counted)


# ---- model files


onnx = pytest.importorskip("onnx", reason="the ONNX reader needs the package onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402


def claimed(name, sizes):
    return TensorProto(name=name, data_type=TensorProto.FLOAT, dims=sizes)


@pytest.fixture
def recurrent(tmp_path):
    """A file of an LSTM and a dense layer."""
    nodes = [helper.make_node("LSTM", ["x", "w", "r"], ["o"], hidden_size=16),
             helper.make_node("Reshape", ["o", "s"], ["f"]), helper.make_node("MatMul", ["f", "v"], ["y"])]  # fmt: skip
    shape = numpy_helper.from_array(__import__("numpy").array([1, 80]), "s")
    weights = [claimed("w", (1, 64, 8)), claimed("r", (1, 64, 16)), shape, claimed("v", (80, 10))]
    values = [helper.make_tensor_value_info(name, 1, sizes) for name, sizes in (("x", [5, 1, 8]), ("y", None))]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], weights)
    path = tmp_path / "recurrent.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())
    return path


@pytest.fixture
def images(tmp_path):
    """Two convolutions on images whose sides are left open."""
    nodes = [helper.make_node("Conv", ["x", "first.weight"], ["h"], pads=[1] * 4),
             helper.make_node("Conv", ["h", "second.weight"], ["y"], pads=[1] * 4)]  # fmt: skip
    values = [helper.make_tensor_value_info(name, 1, sizes) for name, sizes in (("x", ["n", 3, "side", "side"]),
                                                                               ("y", None))]
    weights = [claimed("first.weight", (64, 3, 3, 3)), claimed("second.weight", (64, 64, 3, 3))]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], weights)
    path = tmp_path / "images.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())
    return path


MISSING = "model 'recurrent' has operators whose work is not counted: 'o' (LSTM, 90.6 % of the MACs)"


def test_missing_work_is_told_and_strictly_refused(lpkit, answer, recurrent):
    words = ("plan", recurrent, "-P", 1, "--batch-dimension", 1)
    assert answer(*words)["assumptions"][0] == MISSING
    assert f"assumed: {MISSING}\n" in lpkit(*words)[1]
    status, out, err = lpkit(*words, "--strict")
    assert (status, out) == (2, "") and err == f"lpkit: {MISSING}; leave strict out to plan without them\n"
    status, out, err = lpkit("cost", recurrent, "--batch-dimension", 1)
    assert status == 0 and err == f"lpkit: warning: {MISSING}\n" and "MatMul" not in out


def test_open_dimensions_are_given_by_name(lpkit, answer, images):
    status, _, err = lpkit("plan", images, "-P", 2)
    assert status == 2 and "leaves dimension 2 ('side') open" in err
    found = answer("plan", images, "-P", 2, "--dimension", "side=32")
    assert found["layers"] == ["first", "second"] and any(", side=32" in text for text in found["assumptions"])
    assert found["total"] == costs(onnx_network(images, side=32), batch=32).total


def test_a_size_that_is_missing_is_asked_for_as_an_option(lpkit, images):
    status, _, err = lpkit("plan", images)
    assert status == 2 and "dimensions={'side': 224} (on the command line --dimension side=224)" in err


def onnx_network(path, **dimensions):
    import lpkit

    return lpkit.read_onnx(path, dimensions=dimensions)


@pytest.mark.parametrize("words, sentence", [
    (["--dimension", "side"], "dimension is 'side'; it must be NAME=SIZE, as in height=224"),
    (["--dimension", "side=big"], "dimension is 'side=big'; it must be NAME=SIZE"),
    (["--batch-dimension", "first"], "batch_dimension is 'first'; it must be a whole number from 0 to 7, or none"),
    (["--sequence", "9"], "sequence cannot be chosen of"),
])  # fmt: skip
def test_wrong_words_for_the_reader(lpkit, images, words, sentence):
    status, out, err = lpkit("plan", images, *words)
    assert (status, out) == (2, "") and err.startswith(f"lpkit: {sentence}") and err.count("\n") == 1


@pytest.mark.parametrize("word", [["--dimension", "a=1"], ["--batch-dimension", "1"], ["--strict"]])
def test_what_only_a_model_file_knows(lpkit, word):
    status, out, err = lpkit("plan", "vgg11", *word)
    assert (status, out) == (2, "") and "no meaning for 'vgg11', which is no ONNX model; leave the option out" in err


@pytest.mark.parametrize("kind", ["onnx", "csv"])
def test_the_shift_file_of_a_model_file_knows_channels(lpkit, images, tmp_path, kind):
    source, words = images, ["--dimension", "side=32"]
    if kind == "csv":
        source, words = write_csv(network("sample4"), tmp_path / "net.csv"), []
    made = lpkit("plan", source, "-P", 2, *words, "--schedule", "gpipe", "--export", tmp_path / "schedule.csv")
    shift = json.loads(Path(tmp_path / "schedule.shift.json").read_text())["shift"]
    assert made[0] == 0 and all(entry["input_channels"] for entry in shift)
    assert shift or kind == "onnx"


# ---- arrays from config files


def test_a_config_gives_array_and_dataflow(answer, lpkit, tmp_path):
    path = write_config(Array(64, 16, "os"), tmp_path / "scale.cfg")
    assert answer("plan", "vgg11", "--config", path)["total"] == costs("vgg11", Array(64, 16, "os")).total
    found = answer("cost", "vgg11", "--config", path, "--dataflow", "is")["rows"]
    assert sum(row["F"] for row in found) == costs("vgg11", Array(64, 16, "is")).F.sum()
    status, out, err = lpkit("plan", "vgg11", "--config", path, "--array", "8x8")
    assert (status, out) == (2, "")
    assert err == "lpkit: array and config both say the size of the array; give one of them\n"
