"""`lpkit plan` over all orders of the layers: the planner, what is said beside the linear order, files and refusals."""

import json

import pytest

from lpkit.costs import Costs, costs
from lpkit.interop import pipedream
from lpkit.interop.pipedream_layers import profile_layers
from lpkit.layer_graph import LayerGraph
from lpkit.network_graph import layer_graph
from lpkit.networks import NETWORKS, network, write_csv
from lpkit.optimal_graph import is_over_all, optimal_graph
from lpkit.partition import PLANNERS, optimal, plan, verify_optimal
from lpkit.plan_command import compared
from lpkit.plan_options import ALL_PLANNERS, another, taken
from lpkit.plan_order import MOST_STATES, has_orders, order_found
from lpkit.plan_reader import OF_ORDER, read_plan
from lpkit.plan_report import assumptions, next_processor
from lpkit.planfile import to_dict, write_plan
from lpkit.sources import graph_of, layer_costs

NODE = "node{} -- {} -- forward_compute_time={}, backward_compute_time={}, activation_size=4000, parameter_size={}"
FORK = [(1, 2), (2, 3), (1, 4), (4, 5), (3, 6), (5, 6)]


@pytest.fixture(scope="module")
def resnet():
    """ResNet-34, whose best order for four processors is not the one it is written in."""
    found = costs("resnet34")
    return layer_graph(network("resnet34"), found)


def fork(times=(1, 6, 2, 1, 2, 4), **sizes):
    names = ["stem", "a1", "a2", "b1", "b2", "head"]
    return LayerGraph.from_edges(Costs.from_times(times, 0, 0, names, unit="cycles", **sizes), FORK)


@pytest.fixture
def profile(tmp_path):
    """The same fork as a graph.txt of whole milliseconds."""
    rows = enumerate([1, 6, 2, 1, 2, 4], 1)
    lines = [NODE.format(l, f"Conv2d({l}, 4, kernel_size=(1, 1))", time, time, 16) for l, time in rows]
    (tmp_path / "graph.txt").write_text("\n".join(lines + [f"\tnode{a} -- node{b}" for a, b in FORK]) + "\n")
    return tmp_path / "graph.txt"


# ---- the planner of the command ----------------------------------------------------------------------------------


def test_the_planner_of_all_orders_is_one_of_the_command_and_of_no_other():
    assert set(ALL_PLANNERS) - set(PLANNERS) == {"optimal_graph"}
    with pytest.raises(ValueError, match=r"the planner 'optimal_graph' needs the graph of the layers; give "):
        plan(costs("resnet18"), 4, "optimal_graph")


def test_a_built_in_network(answer, resnet):
    found = answer("plan", "resnet34", "--planner", "optimal_graph")
    made = optimal_graph(resnet, 4)
    assert found.items() >= json.loads(json.dumps(to_dict(made))).items()
    assert found["order"] == order_found(made, resnet) and found["next"] == next_processor(made, resnet)
    assert found["next"]["period"] == float(optimal_graph(resnet, 5).period)
    assert any("runs of its layers in the order of the plan" in sentence for sentence in found["assumptions"])


def test_a_network_file(answer, tmp_path, resnet):
    write_csv(network("resnet34"), tmp_path / "net.csv")
    found = answer("plan", tmp_path / "net.csv", "--planner", "optimal_graph")
    assert found["period"] == float(optimal_graph(resnet, 4).period) < float(optimal(resnet.costs, 4).period)


def test_a_model_file(answer, tmp_path):
    pytest.importorskip("onnx")
    from lpkit.interop.onnx import read_onnx
    from lpkit.interop.onnx_shipped import model_path

    path = model_path("inception_v1")
    net = read_onnx(path)
    graph = layer_graph(net, costs(net))
    found = answer("plan", path, "--planner", "optimal_graph", "-P", 6)
    assert found["period"] == float(optimal_graph(graph, 6).period)


def test_a_measured_profile(answer, profile):
    found = answer("plan", profile, "-P", 2, "--planner", "optimal_graph")
    graph = profile_layers(pipedream.read_graph(profile))
    made = optimal_graph(graph, 2)
    assert found["period"] == made.period < optimal(graph.costs, 2).period
    assert tuple(found["layers"]) == made.costs.layers
    assert found["order"]["text"].startswith("stages are runs of the layers in the best of all orders; their given one "
                                             f"brings period {float(optimal(graph.costs, 2).period):.4g} instead of")


@pytest.mark.parametrize("words, keywords", [
    (["--bandwidth", "64"], {"bandwidth": 64}), (["--memory", "7e8"], {"memory": 7 * 10**8}),
    (["--threshold", "1e6"], {"threshold": 10**6}), (["--residual", "sum_site"], {"residual": "sum_site"}),
])  # fmt: skip
def test_limits_that_it_knows(answer, resnet, words, keywords):
    found = answer("plan", "resnet34", "-P", 6, "--planner", "optimal_graph", *words)
    assert found["period"] == float(optimal_graph(resnet, 6, **keywords).period)


@pytest.mark.parametrize("words, name", [
    (["--together", "1:2"], "together"), (["--speeds", "1,1,1,1"], "speeds"), (["--replicas"], "replicas"),
    (["--granularity", "4"], "granularity"),
])  # fmt: skip
def test_limits_that_it_does_not_know(lpkit, words, name):
    status, out, err = lpkit("plan", "resnet18", "--planner", "optimal_graph", *words)
    assert (status, out) == (2, "") and name not in taken("optimal_graph")
    known = " or ".join(planner for planner in ALL_PLANNERS if name in taken(planner))
    assert err == f"lpkit: the planner 'optimal_graph' has no {name}; leave the option out, or give --planner {known}\n"


def test_a_list_of_layers_has_no_graph(lpkit, tmp_path):
    path = tmp_path / "gemm.csv"
    path.write_text("Layer, M, N, K,\nqkv, 128, 96, 400,\nout, 128, 64, 96,\n")
    assert graph_of(path, layer_costs(path)) is None
    status, out, err = lpkit("plan", path, "-P", 2, "--planner", "optimal_graph")
    assert (status, out) == (2, "")
    assert err == (f"lpkit: {str(path)!r} is a list of layers, and the planner 'optimal_graph' needs their graph; "
                   "leave the option out, or give a network\n")


# ---- what is said of other orders ---------------------------------------------------------------------------------


def test_another_order_that_helps_is_said(lpkit, resnet):
    made, best = optimal(resnet.costs, 4), optimal_graph(resnet, 4)
    _, out, _ = lpkit("plan", "resnet34")
    assert ("\nstages are runs of the layers in their given order; another order brings period "
            f"{best.period:,} instead of {made.period:,} (--planner optimal_graph)\n") in out
    found = order_found(made, resnet)
    assert (found["searched"], found["downsets"], found["period"], found["helps"]) == ("all", 44, best.period, True)


def test_that_no_other_order_helps_is_said(lpkit):
    _, out, _ = lpkit("plan", "resnet101")
    assert "\nno other order of the layers helps (all 118 downsets searched)\n" in out


def test_a_graph_with_one_order_and_a_chain(answer):
    assert answer("plan", "unet")["order"]["text"] == "the graph allows no other order of the layers"
    assert answer("plan", "vgg11")["order"] is None
    assert answer("plan", "resnet18", "--planner", "pipedream")["order"] is None


def test_a_wide_graph_is_not_searched_and_that_is_said():
    wide = LayerGraph.from_edges(Costs.from_times([1] * 12, 0, 0, unit="cycles"),
                                 [(1, l) for l in range(2, 12)] + [(l, 12) for l in range(2, 12)])
    found = order_found(optimal(wide.costs, 3), wide)
    assert 2**10 + 2 > MOST_STATES and found["searched"] == "one" and found["period"] is None
    assert found["text"] == ("the graph has more than 1,000 downsets, so other orders were not searched (--planner "
                             "optimal_graph searches up to 20,000)")
    best = optimal_graph(wide, 3)
    assert is_over_all(best) and order_found(best, wide)["downsets"] == 2**10 + 2


def test_limits_of_the_linear_order_alone_are_said():
    graph = fork()
    made = optimal(graph.costs, 2, together=[(1, 2)])
    assert order_found(made, graph)["text"].endswith("(optimal_graph) does not know together")
    kept = optimal(graph.costs, 2, residual="sum_site")
    assert order_found(kept, graph)["period"] == 8


def test_the_given_order_without_a_plan_is_said():
    """In a memory that only another order fits."""
    graph = fork(weight_bytes=[7, 7, 1, 5, 9, 8])
    best = optimal_graph(graph, 2, memory=25)
    with pytest.raises(ValueError, match="no plan of at most 2 processors keeps every stage within the memory"):
        optimal(graph.costs, 2, memory=25)
    assert order_found(best, graph)["text"].endswith("in their given one there is no plan")


@pytest.mark.parametrize("name", NETWORKS)
def test_two_layers_beside_each_other_are_a_second_order(name):
    net = network(name)
    graph = layer_graph(net, costs(net))
    swaps = 0
    for layer in range(1, len(graph)):
        order = list(range(1, len(graph) + 1))
        order[layer - 1 : layer + 1] = [layer + 1, layer]
        try:
            graph.reordered(order)
            swaps += 1
        except ValueError:
            pass
    assert has_orders(graph) == (swaps > 0)


# ---- comparison ---------------------------------------------------------------------------------------------------


def test_the_comparison_has_all_orders_where_there_are_some(answer, resnet):
    rows = {row["planner"]: row for row in answer("plan", "resnet34", "--compare")["compare"]}
    assert list(rows) == list(ALL_PLANNERS)
    assert rows["optimal_graph"]["period"] == float(optimal_graph(resnet, 4).period)
    again = {row["planner"]: row for row in
             answer("plan", "resnet34", "--compare", "--planner", "optimal_graph")["compare"]}
    assert again == rows  # the others plan the given order
    assert [row["planner"] for row in answer("plan", "unet", "--compare")["compare"]] == list(PLANNERS)


def test_another_plan_needs_the_graph():
    graph = fork()
    made = optimal_graph(graph, 2)
    assert another(made, 3) is None and another(made, 3, graph=graph).period == optimal_graph(graph, 3).period
    assert another(made, planner="optimal", graph=graph).costs is graph.costs
    assert list(compared(made)["planner"]) == list(ALL_PLANNERS)  # a plan from a file: in its order


# ---- files --------------------------------------------------------------------------------------------------------


def test_a_plan_file_keeps_what_it_can_prove(answer, lpkit, tmp_path, resnet):
    path = tmp_path / "plan.json"
    assert lpkit("plan", "resnet34", "--planner", "optimal_graph", "--export", path)[0] == 0
    made, again = optimal_graph(resnet, 4), read_plan(path)
    assert again.planner == "optimal_graph" and verify_optimal(again)
    assert (again.ends, again.moved, again.loads) == (made.ends, made.moved, made.loads)
    assert again.certificate == optimal(made.costs, 4).certificate != made.certificate and again.notes == (OF_ORDER,)
    assert to_dict(read_plan(write_plan(again, tmp_path / "again.json"))) == to_dict(again)  # said once
    found = answer("plan", path)
    assert (found["order"], found["next"]) == (None, None)
    assert "order of the plan" in " ".join(found["assumptions"])
    _, out, _ = lpkit("plan", path)
    assert out.splitlines()[-1] == f"note: {OF_ORDER}"


def test_a_plan_file_that_is_not_optimal_for_its_order_loses_its_certificate(tmp_path, resnet):
    document = to_dict(optimal_graph(resnet, 4))
    worse = to_dict(plan(resnet.costs, 4, "pipedream")) | {"planner": "optimal_graph"}
    (tmp_path / "plan.json").write_text(json.dumps(worse | {"certificate": document["certificate"]}))
    again = read_plan(tmp_path / "plan.json")
    assert again.certificate is None
    assert again.notes[-1].startswith("the certificate in the file is left out: the optimal period is")


def test_assumptions_name_the_order(resnet):
    said = [" ".join(assumptions(made)) for made in (optimal_graph(resnet, 4), optimal(resnet.costs, 4))]
    assert "in the order of the plan" in said[0] and "in their order" in said[1]


# ---- the backward time of a profile -------------------------------------------------------------------------------


@pytest.mark.parametrize("words, keywords", [
    (["half"], {}), (["by_forward"], {"split_backward": "by_forward"}), (["0.25"], {"split_backward": 0.25}),
    (["by_gemm", "--array", "8x8"], {"split_backward": "by_gemm", "array": "8x8"}), (["1"], {"split_backward": 1}),
])  # fmt: skip
@pytest.mark.parametrize("command", ["cost", "plan"])
def test_how_the_backward_time_is_split(answer, profile, command, words, keywords):
    expected = pipedream.to_costs(pipedream.read_graph(profile), **keywords)
    if command == "cost":
        rows = answer("cost", profile, "--split-backward", *words)["rows"]
        assert [row["delta"] for row in rows] == expected.delta.tolist()
    else:
        found = answer("plan", profile, "-P", 2, "--planner", "optimal_graph", "--split-backward", *words)
        graph = profile_layers(pipedream.read_graph(profile), **keywords)
        assert found["period"] == optimal_graph(graph, 2).period and found["cost_source"] == expected.source


@pytest.mark.parametrize("line, sentence", [
    ("{} --split-backward third", "split_backward is 'third'; Known: 'half', 'by_forward', 'by_gemm'"),
    ("{} --split-backward 1.5", "split_backward is 1.5; as a number it must lie between 0 and 1"),
    ("{} --split-backward half --array 8x8", "'{}' holds measured times; array cannot change them, leave the"),
    ("{} --split-backward by_gemm --array 8", "array is '8'; it must be ROWSxCOLUMNS"),
    ("{} --split-backward by_gemm --batch 8", "'{}' holds measured times; batch cannot change them"),
    ("vgg16 --split-backward half", "split_backward has no meaning for 'vgg16', whose G and delta are counted apart"),
])  # fmt: skip
@pytest.mark.parametrize("command", ["cost", "plan"])
def test_wrong_ways_to_split(lpkit, profile, command, line, sentence):
    status, out, err = lpkit(command, *(word.replace("{}", str(profile)) for word in line.split()))
    assert (status, out) == (2, "") and err.startswith("lpkit: " + sentence.replace("{}", str(profile))), err
    assert err.count("\n") == 1


# ---- processors that differ ---------------------------------------------------------------------------------------


def test_layers_that_stay_together(answer):
    found = costs("resnet50")
    pair = (found.layers[3], found.layers[9])
    made = plan(found, 4, together=[pair])
    got = answer("plan", "resnet50", "--together", ":".join(pair))
    assert got["ends"] == list(made.ends) and got["options"]["together"] == [[4, 10]]
    assert not {4, 5, 6, 7, 8, 9} & set(got["ends"])


def test_processors_of_unequal_speed(answer, lpkit):
    made = plan(costs("resnet50"), 4, speeds=[1, 1, 0.5, 0.5])
    assert answer("plan", "resnet50", "--speeds", "1,1,0.5,0.5")["stage_times"] == [float(t) for t in made.stage_times]
    _, out, _ = lpkit("plan", "resnet50", "--speeds", "1,1,0.5,0.5")
    head, *rows = (line.split() for line in out.splitlines()[1:7])
    assert head[:7] == ["stage", "layers", "count", "load", "processor", "speed", "time"]
    busy = [f"{100 * float(time / made.period):.3g} %" for time in made.stage_times]
    for line, stage, time in zip([l for l in out.splitlines() if l.lstrip()[:1].isdigit()], range(4), busy):
        assert f"  {made.used[stage]}  " in line and f"{round(made.stage_times[stage]):,}  {time}" in line


def test_replicated_stages(answer, lpkit):
    made = plan(costs("resnet50"), 4, replicas=True, bandwidth=64)
    found = answer("plan", "resnet50", "--replicas", "--bandwidth", "64")
    assert found["replicas"] == list(made.replicas) and found["period"] == float(made.period)
    _, out, _ = lpkit("plan", "resnet50", "--replicas", "--bandwidth", "64")
    assert "replicas" in out.splitlines()[1] and "processor" not in out.splitlines()[1]
    assert "links and all-reduces take no time" in lpkit("plan", "resnet50", "--replicas")[1]


@pytest.mark.parametrize("words, what", [(["--replicas"], "replicas"), (["--speeds", "1,1,0.5,0.5"], "speeds")])
def test_a_schedule_of_them_is_refused(lpkit, words, what):
    status, out, err = lpkit("plan", "resnet50", *words, "--schedule", "layerpipe")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.endswith(f"is not made; plan without {what} for that\n")


def test_replicas_can_use_more_processors_than_layers():
    made = plan(costs("lenet5"), 5, replicas=True)
    found = next_processor(made)
    assert found["helps"] and found["period"] == float(plan(costs("lenet5"), 6, replicas=True).period)


def test_tensors_of_less_than_a_byte_have_an_order_too():
    tiny = {"batch": 256, "bytes_per_element": 1e-6}
    graph = graph_of("resnet18", layer_costs("resnet18", **tiny), **tiny)
    assert graph.before == graph_of("resnet18", layer_costs("resnet18")).before
