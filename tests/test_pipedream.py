"""Profiles of PipeDream: read, carried over without a change, and planned as its own optimizer plans them."""

import json
import time
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from profile_cases import BRANCH, small

from lpkit.interop.pipedream import (
    PROFILES,
    Graph,
    Operation,
    read_graph,
    read_profile,
    to_costs,
    write_graph,
    write_profile,
)  # fmt: skip
from lpkit.interop.pipedream_costs import stage_operations
from lpkit.interop.pipedream_states import straight_pipeline
from lpkit.partition import Plan, optimal, pipedream
from lpkit.sources import kind_of

GOLDEN = json.loads((Path(__file__).parent / "golden" / "pipedream_runs.json").read_text())
FOLDER = Path(__file__).parents[1] / "data" / "profiles"
BESIDE = Path(__file__).parents[2] / "shared" / "golden" / "pipedream"
NODE = "node1 -- ReLU -- forward_compute_time=1, backward_compute_time=2, activation_size=[3; 4], parameter_size=0"
LONG = "z" * 5000
HEADER = "id,operation,forward_ms,backward_ms,activation_bytes,parameter_bytes,inputs\n"


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize("mode, bandwidth", [("straight", None), ("straight_comm", 1e10)])
def test_periods_of_the_recorded_optimizer(name, mode, bandwidth):
    graph = read_profile(name)
    runs = [run for run in GOLDEN["runs"] if run["profile"] == name and run["mode"] == mode]
    assert [run["machines"] for run in runs] == list(range(2, 13))
    for run in runs:
        period, stages = straight_pipeline(graph, run["machines"], bandwidth=bandwidth)
        stage_bound = run["period"] == max(stage[2] for stage in run["stages"])
        # A period that a link sets was printed to the microsecond only; times of operations are whole microseconds.
        exact = {"rel": 1e-9, "abs": 0} if stage_bound else {"rel": 0, "abs": 5.1e-7}
        assert period / 1e3 == pytest.approx(run["period"], **exact)
        assert sum(map(len, stages)) == len({node for stage in stages for node in stage})


@pytest.mark.parametrize("name", PROFILES)
def test_shipped_profile_equals_the_original(name):
    path = BESIDE / f"{name}.graph.txt"
    if not path.exists():
        pytest.skip("the original graph.txt files are not beside this checkout")
    assert read_graph(path).operations == read_profile(name).operations


@pytest.mark.parametrize("name", PROFILES)
def test_written_original_is_read_alike(name, tmp_path):
    path = BESIDE / f"{name}.graph.txt"
    if not path.exists():
        pytest.skip("the original graph.txt files are not beside this checkout")
    original = path.read_text()
    copy = write_graph(read_graph(path), tmp_path / "graph.txt")
    assert read_graph(copy).operations == read_graph(path).operations
    edges, others = ({line for line in text.splitlines() if line[0] == "\t"} for text in (original, copy.read_text()))
    assert edges == others


def test_a_chain_is_planned_alike_as_a_graph_and_as_costs():
    graph = read_profile("alexnet")
    nodes = to_costs(graph, granularity="nodes")
    for machines in range(1, 9):
        assert pipedream(nodes, machines).period == pytest.approx(straight_pipeline(graph, machines)[0], rel=1e-12)


def test_vgg16_at_fused_granularity():
    chain = to_costs(read_profile("vgg16"))
    rows = [(round(pipedream(chain, p).period, 1), round(optimal(chain, p).period, 1)) for p in range(2, 9)]
    assert rows == [(377.0, 354.4), (235.6, 224.2), (225.0, 178.9), (178.7, 158.3), (178.7, 132.8), (178.7, 122.0),
                    (178.7, 122.0)]
    certificate = optimal(chain, 12).certificate
    assert certificate.saturates_at == 7
    assert certificate.saturation_period == pytest.approx(122.006, abs=1e-9)
    assert certificate.binding == (2, 2, 1)


def test_resnet50_has_one_layer_for_each_convolution_and_the_dense_one():
    chain = to_costs(read_profile("resnet50"))
    assert len(chain) == 54
    assert chain.total == pytest.approx(443.4, abs=0.05)
    gains = [pipedream(chain, p).period / optimal(chain, p).period for p in range(2, 13)]
    assert 1.05 < max(gains) < 1.06


def test_costs_of_a_branch():
    chain = to_costs(BRANCH)
    assert chain.layers == ("n2 Conv2d", "n4 Conv2d", "n7 Linear")
    assert (chain.F.tolist(), chain.G.tolist(), chain.delta.tolist()) == ([2, 3, 3], [5, 4, 1], [0, 3, 1])
    assert chain.weight_bytes.tolist() == [100, 208, 300]
    assert chain.input_bytes.tolist() == [7, 10, 30]
    assert chain.output_bytes.tolist() == [10, 30, 40]
    assert chain.cut_bytes.tolist() == [10, 30]
    assert chain.first_consumer.tolist() == [2, 3, 4]
    assert chain.shared_input.tolist() == [False, True, False]
    assert chain.unit == "ms"


def test_every_operation_as_a_layer():
    chain = to_costs(BRANCH, granularity="nodes")
    assert chain.work.tolist() == [5, 2, 8, 2, 0, 5]
    assert chain.delta.tolist() == [0, 0, 3, 0, 0, 1]
    assert chain.first_consumer.tolist() == [2, 3, 4, 5, 6, 7]
    assert chain.cut_bytes.tolist() == [10, 10, 30, 30, 30]


def test_a_branch_may_be_cut_across():
    # States: n2 | n3 | n4 | n5 | n6 (which needs both) | n7; the cut after n4 also counts n3, which n6 still reads.
    period, stages = straight_pipeline(BRANCH, 2)
    assert (period, [n for stage in stages for n in stage]) == (15, ["n2", "n3", "n4", "n5", "n6", "n7"])
    assert straight_pipeline(BRANCH, 2, bandwidth=2)[0] == 22


def test_reader_of_graph_files(tmp_path):
    path = tmp_path / "net.graph.txt"
    path.write_text(f"{NODE.replace('node1', 'node2')} -- stage_id=1\n{NODE}\n\tnode1 -- node2\n")
    graph = read_graph(path)
    assert graph.name == "net"
    first = Operation("node1", "ReLU", 1, 2, 7, 0)
    assert graph.operations == (first, replace(first, id="node2", inputs=("node1",)))


def test_profiles_survive_writing_and_reading(tmp_path):
    path = write_profile(replace(BRANCH, source="made up, batch 1"), tmp_path / "own.csv")
    assert read_profile(path) == Graph("own", BRANCH.operations, "made up, batch 1")


def test_profiles_keep_every_digit(tmp_path):
    first = Operation("a", "ReLU", 1000 / 3, 2e-300, 3, 0)
    thirds = small(first, Operation("b", "Conv2d(1, 2)", 1e22, 12, 3, 4, ("a", "a")))
    assert read_profile(write_profile(thirds, tmp_path / "own.csv")).operations == thirds.operations
    assert read_graph(write_graph(thirds, tmp_path / "graph.txt")).operations == thirds.operations


@pytest.mark.parametrize("name", PROFILES)
def test_shipped_profiles_are_as_they_would_be_written(name, tmp_path):
    assert write_profile(read_profile(name), tmp_path / "own.csv").read_bytes() == (FOLDER / f"{name}.csv").read_bytes()


@pytest.mark.parametrize("name", PROFILES)
def test_graphs_survive_writing_and_reading(name, tmp_path):
    graph = read_profile(name)
    stages = straight_pipeline(graph, 4)[1]
    for path in (write_graph(graph, tmp_path / "graph.txt"), write_graph(graph, tmp_path / "graph.txt", stages=stages)):
        assert read_graph(path).operations == graph.operations


def test_text_of_a_written_graph(tmp_path):
    graph = small(Operation("node1", "Input", 1.5, 0, 7, 0), Operation("node2", "View(-1)", 0, 0.25, 8, 0, ("node1",)))
    assert write_graph(graph, tmp_path / "graph.txt").read_text() == (
        "node1 -- Input -- forward_compute_time=1.5, backward_compute_time=0, activation_size=7, parameter_size=0\n"
        "node2 -- View(-1) -- forward_compute_time=0, backward_compute_time=0.25, activation_size=8, parameter_size=0\n"
        "\tnode1 -- node2\n"
    )


def test_stages_of_a_written_graph(tmp_path):
    stages = stage_operations(BRANCH, Plan("by hand", to_costs(BRANCH), 2, ends=(1, 3)))
    assert stages == (("n2", "n3"), ("n4", "n5", "n6", "n7"))
    lines = write_graph(BRANCH, tmp_path / "graph.txt", stages=stages).read_text().splitlines()
    assert [line[-1] for line in lines if " -- stage_id=" in line] == list("0001111")  # the input goes with the first


def test_what_nobody_planned_stays_with_what_it_reads(tmp_path):
    graph = small(*BRANCH.operations, Operation("n8", "__getitem__(1)", 0, 0, 1, 0, ("n7",)))
    stages = straight_pipeline(graph, 2)[1]
    assert "n8" not in {name for stage in stages for name in stage}
    assert write_graph(graph, tmp_path / "graph.txt", stages=stages).read_text().splitlines()[7].endswith("stage_id=1")


def test_stages_of_operations_follow_the_layers():
    graph = read_profile("resnet50")
    for granularity in ("fused", "nodes"):
        found = optimal(to_costs(graph, granularity=granularity), 5)
        stages = stage_operations(graph, found, granularity=granularity)
        assert [name for stage in stages for name in stage] == [o.id for o in graph.operations[1:]]
        heads = [name.split()[0] for name in found.costs.layers]
        assert all(heads[layer - 1] in stage for stage, layers in zip(stages, found.stages) for layer in layers)


@pytest.mark.parametrize("name", PROFILES)
def test_shipped_profiles_name_their_source(name):
    source = read_profile(name).source
    assert "msr-fiddle/pipedream" in source and "7db6a1c3e64996d5b319faec6ca38cb31bfea1c4" in source and "MIT" in source


@pytest.mark.parametrize("text, message", [
    ("node1 -- ReLU\n", "line 1 of 'graph.txt' is 'node1 -- ReLU'; a node is 'id -- description -- forward_compute_"),
    ("node1 -- ReLU -- forward_compute_time=1, activation_size=1, parameter_size=0\n",
     "line 1 of 'graph.txt' has no backward_compute_time; a node needs"),
    (NODE.replace("time=1", "time=x"), "forward_compute_time in line 1 of 'graph.txt' is 'x'; it must be a number"),
    (NODE.replace("time=1", "time=-1"), "is '-1'; it must be a number from 0"),
    (NODE.replace("time=1", "time=nan"), "is 'nan'; it must be a number from 0"),
    (NODE.replace("[3; 4]", "1e300"), "activation_size in line 1 of 'graph.txt' is '1e300'; it must be a number of"),
    (NODE.replace("size=0", "size=9223372036854774785"), "it must be a number of bytes of at most 9223372036854774784"),
    (NODE.replace("size=0", "size=1e19"), "parameter_size in line 1 of 'graph.txt' is '1e19'; it must be a number of"),
    (NODE.replace("[3; 4]", "1e999999999"), "activation_size in line 1 of 'graph.txt' is '1e999999999'; it must be"),
    (NODE.replace("node1", LONG) + f"\n\t{LONG} -- {LONG}\n", "'graph.txt' has a cycle at or before 'zzz"),
    (NODE.replace("[3; 4]", LONG), "activation_size in line 1 of 'graph.txt' is 'zzz"),
    (LONG, "line 1 of 'graph.txt' is 'zzz"),
    (f"{NODE}\n\t{LONG}\n", "line 2 of 'graph.txt' is 'zzz"),
    (f"{NODE}\n\tnode1 -- {LONG}\n", "line 2 of 'graph.txt' names the node 'zzz"),
    (2 * (NODE.replace("node1", LONG) + "\n"), "line 2 of 'graph.txt' repeats the node 'zzz"),
    (f"{NODE}\n{NODE}\n", "line 2 of 'graph.txt' repeats the node 'node1'"),
    (f"{NODE}\n\tnode1\n", "line 2 of 'graph.txt' is 'node1'; an edge is a tab, then 'id -- id'"),
    (f"{NODE}\n\tnode1 -- node9\n", "line 2 of 'graph.txt' names the node 'node9', which no line before it describes"),
    (f"{NODE}\n\tnode1 -- node1\n", "'graph.txt' has a cycle at or before 'node1'"),
    ("\t\n \n\n.", "line 1 of 'graph.txt' is ''; an edge is"),
])
def test_what_is_wrong_with_a_graph_file(tmp_path, text, message):
    path = tmp_path / "graph.txt"
    path.write_text(text)
    with pytest.raises(ValueError) as error:
        read_graph(path)
    assert message in str(error.value) and len(str(error.value)) < 400


@pytest.mark.parametrize("text, message", [
    ("a,b\n", "'own.csv' has the columns a, b; a profile has id, operation"),
    (HEADER, "'own.csv' has no row"),
    ("# nothing\n# more\n", "'own.csv' holds nothing but comments; it may have been cut off"),
    (LONG, "'own.csv' has the columns zzz"),
    (f"{HEADER}a,ReLU,1,1,{LONG},1,\n", "activation_bytes in line 2 of 'own.csv' is 'zzz"),
    (f"{HEADER}a,ReLU,1,1,1,1e300,\n", "parameter_bytes in line 2 of 'own.csv' is '1e300'; it must be a number of"),
    (f"{HEADER}a,ReLU,1,1,1,1,{LONG}\n", "line 2 of 'own.csv' reads 'zzz"),
    (f"{HEADER}{LONG},ReLU,1,1,1,1,\n{LONG},ReLU,1,1,1,1,\n", "line 3 of 'own.csv' repeats the id 'zzz"),
    (f"# x\n{HEADER}a,ReLU,1,1,1\n", "line 3 of 'own.csv' has 5 columns; a profile has 7"),
    (f"{HEADER}a,ReLU,1,oops,1,1,\n", "backward_ms in line 2 of 'own.csv' is 'oops'"),
    (f"{HEADER}a,ReLU,1,1,1,1,b\n", "line 2 of 'own.csv' reads 'b', which no row before it is"),
    (f"{HEADER}a,ReLU,1,1,1,1,\na,ReLU,1,1,1,1,\n", "line 3 of 'own.csv' repeats the id 'a'"),
])
def test_what_is_wrong_with_a_profile(tmp_path, text, message):
    path = tmp_path / "own.csv"
    path.write_text(text)
    with pytest.raises(ValueError) as error:
        read_profile(path)
    assert message in str(error.value) and len(str(error.value)) < 400


PARTS = small(*BRANCH.operations, Operation("n8", "Linear", 3, 2, 40, 300))


def conv(number, activation, *inputs):
    return Operation(f"n{number}", "Conv2d", 1, 1, activation, 4, tuple(f"n{i}" for i in inputs))


def written(*operations, **options):
    return write_graph(small(*operations), Path("is not written"), **options)


def star(rays):
    return small(conv(1, 1), *(conv(n, 1, 1) for n in range(2, rays + 2)))


def crossing(size):
    """Five outputs that cross the cut after n5, read by one layer each."""
    chain = [conv(1, size), *(conv(n, size, n - 1) for n in range(2, 6))]
    return small(*chain, conv(6, 1, 5), *(conv(n, 1, n - 1, n - 6) for n in range(7, 11)))


def test_bytes_of_a_cut_are_added_up():
    assert to_costs(crossing(10)).cut_bytes.tolist() == [10, 20, 30, 40, 50, 41, 31, 21, 11]


def test_a_star_of_few_rays_has_one_state_for_each_set_of_them():
    assert straight_pipeline(star(6), 3)[0] == 6  # stages of 3, 2 and 2 operations


@pytest.mark.parametrize("kind", [np.int64, np.float32, np.longdouble, Fraction])
def test_numbers_of_other_kinds(kind):
    assert straight_pipeline(BRANCH, 2, bandwidth=kind(2)) == straight_pipeline(BRANCH, 2, bandwidth=2)


def test_links_as_fast_and_as_slow_as_can_be():
    assert straight_pipeline(BRANCH, 2, bandwidth=10**5000) == straight_pipeline(BRANCH, 2)
    period, stages = straight_pipeline(BRANCH, 2, bandwidth=Fraction(1, 10**5000))
    assert (period, len(stages)) == (22, 1)


def test_sizes_are_exact(tmp_path):
    odd = 2**53 + 1
    path = tmp_path / "graph.txt"
    path.write_text(NODE.replace("[3; 4]", f"[{odd}; 4]").replace("size=0", f"size={odd}"))
    assert read_graph(path).operations[0] == Operation("node1", "ReLU", 1, 2, odd + 4, odd)
    path = write_profile(small(Operation("a", "ReLU", 1, 1, odd, odd)), tmp_path / "own.csv")
    assert read_profile(path).operations[0] == Operation("a", "ReLU", 1, 1, odd, odd)


@pytest.mark.parametrize("call, message", [
    (lambda: read_profile(10**5000), "profile is a whole number of about 5001 digits; Known: 'alexnet'"),
    (lambda: read_profile("vgg61"), "profile is 'vgg61'; did you mean 'vgg16'?"),
    (lambda: to_costs(BRANCH, granularity="coarse"), "granularity is 'coarse'; Known: 'fused', 'nodes'"),
    (lambda: straight_pipeline(BRANCH, 0), "machines is 0; it must be a whole number from 1"),
    (lambda: straight_pipeline(BRANCH, 2, bandwidth=0), "bandwidth is 0; it must be a number of bytes per second"),
    (lambda: straight_pipeline(BRANCH, 2, bandwidth=-(10**5000)), "bandwidth is a whole number of about 5001 digits"),
    (lambda: straight_pipeline(PARTS, 2), "the profile 'small' falls into parts: no edge leads from 'n2' to 'n8'"),
    (lambda: to_costs(PARTS), "the profile 'small' falls into parts: no edge leads from 'n2' to 'n8'; give all edges"),
    (lambda: straight_pipeline(star(22), 3), "the graph has more than 4096 states, too many branches"),
    (lambda: to_costs(crossing(2**61)), "the tensors across the cut after layer 'n4 Conv2d' have 92233720368"),
    (lambda: to_costs(small(conv(1, 2**62), conv(2, 2**62, 1), conv(3, 1, 1, 2))),
     "the inputs of layer 'n3 Conv2d' have 9223372036854775808 bytes, more than"),
    (lambda: to_costs(small(conv(1, 2**64))), "the outputs of layer 'n1 Conv2d' have 18446744073709551616 bytes"),
    (lambda: to_costs(small(replace(conv(1, 1), parameters=2**64))), "the weights of layer 'n1 Conv2d' have 184467"),
    (lambda: to_costs(small(BRANCH.operations[0])), "the profile 'small' has only inputs; there is nothing to plan"),
    (lambda: written(replace(conv(1, 1), id="a -- b")), "the operation 'a -- b', 'Conv2d', cannot be written: id and"),
    (lambda: written(replace(conv(1, 1), id="")), "the operation '', 'Conv2d', cannot be written: id and description"),
    (lambda: written(replace(conv(1, 1), id="\ta")), "cannot be written: id and description must be text of"),
    (lambda: written(replace(conv(1, 1), operation="a\nb")), "cannot be written: id and description must be"),
    (lambda: written(replace(conv(1, 1), operation=LONG + " -- ")), "cannot be written: id and description must be"),
    (lambda: written(conv(1, 1), conv(1, 1)), "the id 'n1' stands for two operations; ids must differ"),
    (lambda: written(conv(1, 1, 2), conv(2, 1)), "the operation 'n1' reads 'n2', which is not before it; put"),
    (lambda: written(conv(1, 1), stages=[["n1"], ["n2"]]), "an operation of stage 1 is 'n2'; Known: 'n1'"),
    (lambda: written(conv(1, 1), stages=[["n1"], ["n1"]]), "the operation 'n1' is in the stages 0 and 1; it must be"),
    (lambda: stage_operations(star(3), Plan("by hand", to_costs(BRANCH), 1, ends=(3,))),
     "the plan is of 3 layers, not of the 4 that 'small' has as 'fused'; give a plan of its to_costs"),
])
def test_what_is_wrong_with_a_call(call, message):
    with pytest.raises(ValueError) as error:
        call()
    assert message in str(error.value) and len(str(error.value)) < 400


def test_a_missing_file():
    with pytest.raises(FileNotFoundError, match="there is no file 'nowhere.csv'"):
        read_profile("nowhere.csv")


@pytest.mark.parametrize("line", ["a -- " * 60_000, "a -- " + " -- " * 75_000, "x" * 300_000])
def test_what_a_long_line_is_takes_no_time(tmp_path, line):
    path = tmp_path / "long.txt"
    path.write_text(f"{line}\n")
    start = time.process_time()
    assert kind_of(path) == "topology"
    assert time.process_time() - start < 1


@pytest.mark.parametrize("text, kind", [
    (f"{NODE}\n", "graph"), (f"Layer, M, N, K\n{NODE}\n", "graph"), (f" {NODE}\n", "topology"),
    (NODE.replace(" -- forward", ", forward"), "topology"), ("a b -- c -- forward_compute_time=1\n", "topology"),
])  # fmt: skip
def test_a_graph_is_told_by_its_nodes(tmp_path, text, kind):
    path = tmp_path / "some.txt"
    path.write_text(text)
    assert kind_of(path) == kind
