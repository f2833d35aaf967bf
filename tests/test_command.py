"""The `lpkit` command: what it prints is what the library says, and wrong input gets one line and status 2."""

import csv
import json
import math
import os
import re
import shutil
import subprocess
import sys
import zipfile
from fractions import Fraction
from importlib.metadata import version
from pathlib import Path

import pandas as pd
import pytest

from lpkit.claims import read_claims, verdicts
from lpkit.costs import READINGS, Costs, costs
from lpkit.exports import export
from lpkit.interop import pipedream, scalesim
from lpkit.interop.chrome_trace import trace_text
from lpkit.interop.pipedream_plan import to_pipedream
from lpkit.interop.torch_schedule import to_torch_csv
from lpkit.interop.torch_shift_file import input_channels, to_shift
from lpkit.network_graph import layer_graph
from lpkit.networks import NETWORKS, network, read_csv, write_csv
from lpkit.notebooks import notebook_ids, title
from lpkit.partition import PLANNERS, plan
from lpkit.plan_reader import read_plan
from lpkit.planfile import plan_text, stage_table, to_dict
from lpkit.schedule import SCHEDULES, schedule
from lpkit.schedule_report import measures, timeline_csv
from lpkit.plan_report import report_dict
from lpkit.sources import kind_of, layer_costs, network_of, topology_report
from lpkit.sweep import OPTIONS
from lpkit.systolic import Array

ROOT = Path(__file__).parents[1]
LENGTHY = 1000  # characters: no message is longer, however long what was given
COLUMNS = ["layer", "F", "G", "delta", "total", "weight_bytes", "input_bytes", "output_bytes", "cut_bytes"]
CONV = """\
Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, Strides,
Conv1, 34, 34, 3, 3, 3, 16, 1,
Conv2, 34, 34, 3, 3, 16, 48, 2,
Conv3, 17, 17, 1, 1, 48, 40, 1,
"""
GEMM = "Layer, M, N, K,\nqkv, 128, 96, 400,\nout, 128, 64, 96,\n"
NODE = "node{0} -- {1} -- forward_compute_time={2}, backward_compute_time={3}, activation_size={4}, parameter_size={5}"
GRAPH = "\n".join([
    NODE.format(1, "Conv2d(3, 64)", 1.5, 3.0, 4000, 700), NODE.format(2, "ReLU()", 0.25, 0.125, 4000, 0),
    NODE.format(3, "Linear(64, 10)", 2.25, 4.125, 80, 5000), NODE.format(4, "Linear(10, 10)", 0.1, 0.3, 80, 800),
    "\tnode1 -- node2", "\tnode2 -- node3", "\tnode3 -- node4", "",
])  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A file of every kind, good and bad."""
    path = tmp_path_factory.mktemp("sources")
    write_csv(network("vgg11"), path / "net.csv")
    texts = {
        "conv.csv": CONV, "gemm.csv": GEMM, "graph.txt": GRAPH, "comments.csv": "# one\n# two\n", "blank.csv": " \n\n",
        "cut.csv": CONV[: CONV.index("48, 2")], "cut_net.csv": (path / "net.csv").read_text()[:-40],
        "cut_graph.txt": GRAPH[:150], "cycle.txt": GRAPH + "\tnode3 -- node1\n",
        "nan.txt": GRAPH.replace("=2.25", "=nan"), "head.csv": CONV.splitlines()[0], "words.csv": "a b c\nd e f\n",
        "zero.csv": CONV.replace("Conv2, 34", "Conv2, 0"), "fraction.csv": CONV.replace("16, 48", "16, 4.5"),
        "plan.json": plan_text(plan(costs("sample4"), 2), "plan.json"), "cut.json": '{"schema": "lpkit-plan-2", ',
        "wide.csv": CONV.replace("1, 1, 48", "19, 19, 48"), "model.onnx": "x",
    }  # fmt: skip
    for name, text in texts.items():
        (path / name).write_text(text)
    (path / "binary.csv").write_bytes(bytes(range(256)))
    (path / "zeros.csv").write_bytes(b"a,b\n\0\0\0")
    (path / "empty.csv").touch()
    return path


def layers_of(found):
    """The rows that `lpkit cost --json` prints for costs."""
    return found.to_frame()[COLUMNS].to_dict("records")


# ---- sources ------------------------------------------------------------------------------------------------------


def test_a_source_is_told_by_what_is_in_it(folder):
    kinds = {name: kind_of(folder / name) for name in ("net.csv", "conv.csv", "gemm.csv", "graph.txt")}
    assert kinds == {"net.csv": "network", "conv.csv": "topology", "gemm.csv": "topology", "graph.txt": "graph"}
    assert {kind_of(name) for name in (*NETWORKS, "VGG16")} == {"name"}
    (folder / "graph_by_another_name.csv").write_text(GRAPH)
    (folder / "no_suffix").write_text(CONV)
    assert kind_of(folder / "graph_by_another_name.csv") == "graph" and kind_of(folder / "no_suffix") == "topology"


def test_a_file_that_changes_is_read_again(tmp_path):
    write_csv(network("sample4"), tmp_path / "net.csv")
    first = layer_costs(tmp_path / "net.csv").total
    write_csv(network("lenet5"), tmp_path / "net.csv")
    assert layer_costs(tmp_path / "net.csv").total == costs("lenet5").total != first == costs("sample4").total


def test_a_report_only_where_nothing_else_is_asked_for(folder):
    path = folder / "conv.csv"
    assert topology_report(path) is not None and topology_report(path, batch="1", convention="scalesim") is not None
    for other in ({"batch": "2"}, {"convention": "exact"}, {"delta": "phases"}, {"read": "plain"}, {"G": "b"}):
        assert topology_report(path, **other) is None, other
    assert [topology_report(s) for s in ("vgg16", folder / "net.csv", folder / "graph.txt")] == [None] * 3


def test_the_sequence_of_a_transformer_is_an_option(answer):
    found = answer("cost", "bert_base", "--sequence", 128, "--batch", 4)
    assert layers_of(costs(network("bert_base", sequence=128), batch=4)) == found["rows"]
    assert answer("plan", "gpt2", "--sequence", 64)["total"] == costs(network("gpt2", sequence=64)).total


# ---- cost ---------------------------------------------------------------------------------------------------------


def test_cost_of_a_built_in_network(answer):
    found = answer("cost", "vgg16")
    assert found["network"] == "vgg16 on 32x32 ws, batch 32" and found["unit"] == "cycles"
    assert found["rows"] == layers_of(costs("vgg16"))


def test_every_option_of_cost_reaches_the_model(answer):
    found = answer("cost", "vgg11", "--array", "16x64", "--batch", 8, "--dataflow", "is", "--convention", "scalesim_v1",
                   "--delta", "phases", "--g-form", "b", "--batching", "per_image", "--layers", "convolutions",
                   "--first-layer-delta", "--bytes", 2)
    expected = costs("vgg11", Array(16, 64, "is"), batch=8, convention="scalesim_v1", delta="phases", G="b",
                     batching="per_image", layers="convolutions", first_layer_delta=True, bytes_per_element=2)
    assert found["rows"] == layers_of(expected)
    hidden = answer("cost", "sample4", "--fold-overlap", "preload_hidden")["rows"]
    assert hidden == layers_of(costs("sample4", fold_overlap="preload_hidden")) != layers_of(costs("sample4"))


def test_a_choice_replaces_that_of_the_reading(answer):
    choices = READINGS["closest"].choices()
    assert answer("cost", "resnet18", "--reading", "closest")["rows"] == layers_of(costs("resnet18", **choices))
    found = answer("cost", "resnet18", "--reading", "closest", "--no-first-layer-delta", "--layers", "all")
    changed = choices | {"first_layer_delta": False, "layers": "all"}
    assert found["rows"] == layers_of(costs("resnet18", **changed)) != layers_of(costs("resnet18", **choices))


def test_cost_of_a_network_file(answer, folder):
    found = answer("cost", folder / "net.csv", "--batch", 4)
    assert found["rows"] == layers_of(costs(read_csv(folder / "net.csv"), batch=4))
    assert found["rows"] == layers_of(costs("vgg11", batch=4))


@pytest.mark.parametrize("name", ["conv.csv", "gemm.csv"])
@pytest.mark.parametrize("op", ["F", "all"])
def test_cost_of_a_topology_is_scalesims_report(answer, folder, name, op):
    found = answer("cost", folder / name, "--array", "16x8", "--dataflow", "os", "--op", op)
    expected = scalesim.report_topology(folder / name, Array(16, 8, "os"))
    assert found == {"network": str(folder / name), "array": "16x8", "rows": expected.to_dict("records")}
    assert [row["Total Cycles"] > 0 for row in found["rows"]] == [True] * (3 if name == "conv.csv" else 2)


def test_the_report_is_what_scalesim_itself_printed(answer, tmp_path):
    with open(ROOT / "tests" / "golden" / "scalesim_networks.csv", newline="") as file:
        recorded = [row for row in csv.DictReader(file) if row["stride_h"] == row["stride_w"]][:25]
    columns = ("layer", "ifmap_h", "ifmap_w", "filt_h", "filt_w", "channels", "num_filter", "stride_h")
    for number, row in enumerate(recorded):
        path = tmp_path / f"{number}.csv"
        path.write_text(CONV.splitlines()[0] + "\n" + ", ".join(row[c] for c in columns) + ",\n")
        array = f"{row['array_rows']}x{row['array_cols']}"
        found = answer("cost", path, "--array", array, "--dataflow", row["dataflow"])
        assert found["rows"][0]["Total Cycles"] == int(row["total_cycles"])
        assert math.isclose(found["rows"][0]["Mapping Efficiency %"], float(row["mapping_eff_pct"]), rel_tol=1e-12)


@pytest.mark.parametrize("name", ["conv.csv", "gemm.csv"])
def test_a_topology_is_costed_for_training_when_that_is_asked_for(answer, folder, name):
    path = folder / name
    assert answer("cost", path, "--batch", 8)["rows"] == layers_of(scalesim.topology_costs(path, batch=8))
    delta = answer("cost", path, "--op", "delta", "--delta", "zero_insert")["rows"]
    expected = scalesim.topology_costs(path, batch=32, delta="zero_insert").delta.tolist()
    assert [row["delta"] for row in delta] == expected and sum(expected) > 0


def test_cost_of_a_measured_graph(answer, folder):
    found = answer("cost", folder / "graph.txt")
    expected = pipedream.to_costs(pipedream.read_graph(folder / "graph.txt"))
    assert found["rows"] == layers_of(expected) and found["unit"] == "ms"
    assert sum(row["total"] for row in found["rows"]) == pytest.approx(1.5 + 3 + 0.25 + 0.125 + 2.25 + 4.125 + 0.4)


def test_a_graph_named_from_its_own_folder_has_a_name(answer, folder, monkeypatch):
    monkeypatch.chdir(folder)
    assert answer("cost", "graph.txt")["network"].startswith(folder.name)


@pytest.mark.parametrize("op", ["F", "G", "delta"])
def test_one_operation(lpkit, answer, op):
    found = costs("sample4")
    assert answer("cost", "sample4", "--op", op)["rows"] == found.to_frame()[["layer", op]].to_dict("records")
    status, out, _ = lpkit("cost", "sample4", "--op", op)
    assert status == 0 and out.splitlines()[-1] == f"total: {op} {getattr(found, op).sum():,} cycles"


def test_the_table_for_people(lpkit):
    status, out, err = lpkit("cost", "sample4")
    found = costs("sample4")
    assert (status, err) == (0, "") and out.splitlines()[3].split() == COLUMNS
    body = [line.split() for line in out.splitlines()[4:8]]
    assert body == [[row["layer"], *(f"{row[c]:,}" for c in COLUMNS[1:])] for row in layers_of(found)]
    assert out.splitlines()[-1] == (f"total: F {found.F.sum():,}, G {found.G.sum():,}, delta {found.delta.sum():,}, "
                                    f"total {found.total:,} cycles")


# ---- plan ---------------------------------------------------------------------------------------------------------


def told(made, net=None, given=()):
    """What ``--json`` prints of a plan."""
    graph = None if net is None else layer_graph(net, made.costs)
    return json.loads(json.dumps(to_dict(made) | report_dict(made, net, given, graph=graph)))


@pytest.mark.parametrize("name, read", [
    ("vgg11", lambda path: costs("vgg11")), ("net.csv", lambda path: costs(read_csv(path))),
    ("conv.csv", lambda path: scalesim.topology_costs(path, batch=32)),
    ("gemm.csv", lambda path: scalesim.topology_costs(path, batch=32)),
    ("graph.txt", lambda path: pipedream.to_costs(pipedream.read_graph(path))),
])  # fmt: skip
def test_plan_of_every_source(answer, folder, name, read):
    source = name if name in NETWORKS else folder / name
    net = network_of(source)
    assert (net is None) == (name in ("conv.csv", "gemm.csv", "graph.txt"))
    assert answer("plan", source, "-P", 2) == told(plan(read(source), 2), net)


@pytest.mark.parametrize("planner", PLANNERS)
def test_every_planner(answer, planner):
    found = answer("plan", "resnet18", "--processors", 5, "--planner", planner, "--reading", "closest",
                   "--array", "64x64")
    expected = plan(costs("resnet18", Array(64, 64), **READINGS["closest"].choices()), 5, planner,
                    **OPTIONS.get(planner, {}))  # fmt: skip
    assert found == told(expected, network("resnet18"))


def test_four_processors_and_the_optimum_by_default(answer):
    assert answer("plan", "vgg11") == told(plan(costs("vgg11"), 4), network("vgg11"))


def test_comparison_of_the_planners(answer, lpkit):
    found = answer("plan", "sample4", "-P", 3, "--reading", "closest", "--compare")["compare"]
    plans = {name: plan(costs("sample4", **READINGS["closest"].choices()), 3, name, **OPTIONS.get(name, {}))
             for name in PLANNERS}
    assert [row["planner"] for row in found] == list(PLANNERS)
    for row in found:
        ratio = float(plans["pipedream"].period) / float(plans[row["planner"]].period)
        assert row["period"] == float(plans[row["planner"]].period) and row["period ratio"] == pytest.approx(ratio)
        assert row["time reduction"] == pytest.approx(1 - 1 / ratio)
        assert row["throughput gain"] == pytest.approx(ratio - 1)
    assert found[-1]["throughput gain"] == pytest.approx(0.3516, abs=1e-4)
    _, out, _ = lpkit("plan", "sample4", "-P", 3, "--reading", "closest", "--compare")
    assert [line.split()[0] for line in out.splitlines()[-4:]] == list(PLANNERS)


def test_a_plan_for_people(lpkit):
    status, out, err = lpkit("plan", "sample4", "-P", 3)
    made = plan(costs("sample4"), 3)
    lines = out.splitlines()
    assert (status, err) == (0, "") and lines[0] == "sample4 on 32x32 ws, batch 32: optimal, 3 stages"
    assert [line.split()[0] for line in lines[2:5]] == ["1", "2", "3"]
    assert lines[5].startswith(f"period {int(made.period):,} cycles, speedup ") and made.certificate.text in out


def test_notes_of_a_plan_are_shown(lpkit):
    notes = plan(costs("vgg11"), 6, "algorithm1").notes
    _, out, _ = lpkit("plan", "vgg11", "-P", 6, "--planner", "algorithm1")
    assert notes and out.splitlines()[-len(notes):] == [f"note: {note}" for note in notes]


def test_without_any_work_all_planners_are_equal(answer, tmp_path):
    path = tmp_path / "idle.txt"
    path.write_text(re.sub(r"(compute_time)=[\d.]+", r"\1=0", GRAPH))
    found = answer("plan", path, "-P", 2, "--compare")
    assert found["period"] == 0 and [row["throughput gain"] for row in found["compare"]] == [0] * 4


def test_export(answer, tmp_path):
    found = answer("plan", "sample4", "-P", 3, "--export", tmp_path / "plan.json", "--export", tmp_path / "stages.csv")
    assert found.pop("files") == {str(tmp_path / "plan.json"): "plan",
                                  str(tmp_path / "stages.csv"): "stages of the plan, a row each"}  # fmt: skip
    assert found.keys() - to_dict(read_plan(tmp_path / "plan.json")).keys() == {"order", "next", "assumptions"}
    assert json.loads((tmp_path / "plan.json").read_text()) == {
        name: value for name, value in found.items() if name not in ("order", "next", "assumptions")}
    expected = stage_table(plan(costs("sample4"), 3))
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "stages.csv"), expected, check_dtype=False)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["plan.json", "stages.csv"]


# ---- schedules and files ------------------------------------------------------------------------------------------


def of(name):
    """Options that a schedule needs, or that make it one of its own, for a plan of six stages."""
    each = ["-P", 3, "--stages-per-processor", 2] if name == "interleaved" else ["-P", 6]
    return [*each, "--schedule", name]


@pytest.mark.parametrize("name", SCHEDULES)
def test_every_schedule(answer, lpkit, name):
    made = plan(costs("vgg11"), 6)
    assert len(made.ends) == 6
    own = {"processors": 3} if name == "interleaved" else {}
    flushes = name not in ("sequential", "pipedream", "layerpipe")
    own |= {"micro_batches": 24} if flushes else {}
    found = answer("plan", "vgg11", *of(name), "--batches", 7)["timeline"]
    assert found == json.loads(json.dumps(measures(schedule(made, name, 7, **own))))
    assert found["batches"] == 7 and found["micro_batches"] == (24 if flushes else 1)
    status, out, err = lpkit("plan", "vgg11", *of(name), "--ascii")
    count = 4 if flushes else {"sequential": 12, "pipedream": 16, "layerpipe": 31}[name]
    line = schedule(made, name, count, **own)
    processors = 3 if name == "interleaved" else 6
    assert (status, err) == (0, "") and f"\n{name}, 6 stages on {processors} processors: {count} mini-batches" in out
    assert sum(row.startswith(("stage ", "processor ")) for row in out.splitlines()) == 2 + processors
    assert f"; speedup {float(line.speedup):.2f} of {processors}\n" in out
    assert f"makespan {int(line.makespan):,}" in out and "bubbles " in out and "not filled" not in out and line.fills
    assert ("one for each stage" in out) == (name == "interleaved")


def test_equal_work_is_said(lpkit):
    out = lpkit("plan", "vgg11", "-P", 2, "--schedule", "GPipe", "--micro-batches", 3)[1]
    line = schedule(plan(costs("vgg11"), 2), "gpipe", 4, micro_batches=3)
    assert "4 mini-batches of 3 micro-batches, each with the plan's costs; in cycles\n" in out
    assert f"period of a mini-batch {line.period:,}, of a micro-batch " in out and "sends take no time\n" in out


def test_a_pipeline_that_has_not_filled_is_said(lpkit):
    line = "the stashes are of a pipeline that has not filled: ask for 8 mini-batches or more\n"
    for batches, short in ((7, True), (8, False)):
        assert (line in lpkit("plan", "vgg11", "-P", 3, "--schedule", "layerpipe", "--batches", batches)[1]) == short


@pytest.mark.parametrize("words, own", [
    ("1F1B --delta-first", ("one_f_one_b", {"delta_first": True, "micro_batches": 12})),
    ("layerpipe --model 1f1b", ("layerpipe", {"model": "1f1b"})),
    ("ZB-H1 --latency 1e6", ("zero_bubble", {"latency": 10**6, "micro_batches": 12})),
])  # fmt: skip
def test_options_that_single_schedules_have(answer, words, own):
    name, options = own
    found = answer("plan", "vgg11", "-P", 3, "--batches", 5, "--schedule", *words.split())["timeline"]
    assert found == json.loads(json.dumps(measures(schedule(plan(costs("vgg11"), 3), name, 5, **options))))


def test_links_that_take_time_are_said(lpkit):
    out = lpkit("plan", "sample4", "-P", 2, "--schedule", "pipedream", "--bandwidth", "2.5", "--latency", 7)[1]
    assert "sends take time: bandwidth 2.5 bytes per cycle; latency 7 cycles\n" in out


def test_the_width_of_a_drawing(lpkit, answer):
    words = ("plan", "sample4", "-P", 2, "--schedule", "pipedream", "--ascii", "--width", 33)
    assert [len(row) for row in lpkit(*words)[1].splitlines() if row.startswith("stage ")][1:] == [8 + 33] * 2
    assert len(answer(*words)["timeline"]["ascii"].splitlines()[0]) == 8 + 33


def test_options_of_a_schedule(answer):
    made = plan(costs("sample4"), 2)
    found = answer("plan", "sample4", "-P", 2, "--schedule", "gpipe", "--batches", 2, "--micro-batches", 3,
                   "--bandwidth", "2.5", "--ascii")["timeline"]  # fmt: skip
    line = schedule(made, "gpipe", 2, micro_batches=3, bandwidth=Fraction(5, 2))
    assert found.pop("ascii").splitlines()[0].startswith("stage 1 F")
    assert found == json.loads(json.dumps(measures(line)))


def test_names_say_what_a_file_holds(lpkit, tmp_path):
    names = ("plan.json", "trace.json", "schedule.csv", "timeline.csv", "stages.csv", "graph.txt", "b.trace.json")
    status, out, err = lpkit("plan", "vgg11", "-P", 3, "--schedule", "layerpipe", "--batches", 5, "--clock", "1e6",
                           "--export", *(tmp_path / name for name in names))
    made = plan(costs("vgg11"), 3)
    line = schedule(made, "layerpipe", 5)
    assert (status, err) == (0, "")
    trace = trace_text(line, clock=10**6)
    expected = {
        "plan.json": plan_text(made, "plan.json"), "trace.json": trace, "schedule.csv": to_torch_csv(line),
        "timeline.csv": timeline_csv(line), "stages.csv": plan_text(made, "stages.csv"),
        "graph.txt": to_pipedream(made), "b.trace.json": trace,
    }  # fmt: skip
    for name, text in expected.items():
        assert (tmp_path / name).read_text() == text, name
    shift = json.loads((tmp_path / "schedule.shift.json").read_text())
    assert shift == to_shift(line, channels=input_channels(network("vgg11")))
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*names, "schedule.shift.json"])
    wrote = dict(row.removeprefix(f"wrote {tmp_path}/").split(": ", 1) for row in out.splitlines() if "wrote " in row)
    assert wrote == {
        "plan.json": "plan", "trace.json": "Chrome trace, for Perfetto", "timeline.csv": "timeline, a row an operation",
        "schedule.csv": "schedule for torch's pipelining; layerpipe has become one flushed step of 5 micro-batches "
        "without weight versions, with delta'' in schedule.shift.json", "graph.txt": "PipeDream's profile, with stages",
        "schedule.shift.json": "delta'' that the schedule for torch shifts",
        "stages.csv": "stages of the plan, a row each",
        "b.trace.json": "Chrome trace, for Perfetto"}  # fmt: skip


def test_a_flushed_schedule_for_torch_loses_nothing_that_is_said(answer, tmp_path):
    found = answer("plan", "sample4", "-P", 2, "--schedule", "gpipe", "--export", tmp_path / "schedule.csv")
    assert found["files"] == {str(tmp_path / "schedule.csv"): "schedule for torch's pipelining",
                              str(tmp_path / "schedule.shift.json"): "delta'' that the schedule for torch shifts"}


@pytest.mark.parametrize("ending, first", [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_a_gantt_chart(lpkit, tmp_path, ending, first):
    path = tmp_path / f"gantt.{ending}"
    status, out, err = lpkit("plan", "sample4", "-P", 2, "--schedule", "pipedream", "--batches", 3, "--export", path)
    assert (status, err) == (0, "") and f"wrote {path}: Gantt chart\n" in out and path.read_bytes().startswith(first)


def test_the_table_of_operations(tmp_path):
    line = schedule(plan(costs("sample4"), 3), "layerpipe", 3, bandwidth=100)
    (tmp_path / "timeline.csv").write_text(timeline_csv(line))
    found = pd.read_csv(tmp_path / "timeline.csv", keep_default_na=False)
    frame = line.to_frame()
    assert found[["kind", "layer", "stage", "batch", "micro_batch", "version", "tensor", "target"]].equals(
        frame[["kind", "layer", "stage", "batch", "micro_batch", "version", "tensor", "target"]])
    assert found.start.tolist() == frame.start.map(float).tolist()
    assert found.end.tolist() == frame.end.map(float).tolist()


def test_a_plan_file_is_a_network(answer, lpkit, tmp_path):
    path = tmp_path / "plan.json"
    first = answer("plan", "resnet18", "-P", 5, "--array", "16x16", "--export", path)
    del first["files"]
    assert first == told(read_plan(path), network("resnet18"))
    assert answer("plan", path) == told(read_plan(path))
    again = answer("plan", path, "--schedule", "pipedream", "--compare", "--export", tmp_path / "again.json",
                   tmp_path / "schedule.csv")  # fmt: skip
    assert (tmp_path / "again.json").read_text() == path.read_text()
    assert again["timeline"]["period_of_mini_batch"] == first["period"]
    assert [row["planner"] for row in again["compare"]] == list(PLANNERS)
    assert json.loads((tmp_path / "schedule.shift.json").read_text())["shift"][0]["input_channels"] is None
    status, out, _ = lpkit("plan", path)
    assert status == 0 and out.startswith("resnet18 on 16x16 ws, batch 32: optimal, 5 stages\n")


def test_a_plan_as_pipedreams_graph(answer, tmp_path):
    """What PipeDream's reader sees is the plan's costs, with delta and G as one number, and the stage of each layer."""
    (tmp_path / "graph.txt").write_text(GRAPH)
    for source in ("vgg11", tmp_path / "graph.txt"):
        made = read_plan_of(answer, source, tmp_path)
        path = tmp_path / "out.graph.txt"
        path.write_text(to_pipedream(made))
        back = pipedream.to_costs(pipedream.read_graph(path), granularity="nodes")
        assert back.F.tolist() == made.costs.F.tolist()
        assert (back.G + back.delta).tolist() == pytest.approx((made.costs.G + made.costs.delta).tolist(), rel=1e-15)
        assert back.weight_bytes.tolist() == made.costs.weight_bytes.tolist()
        assert back.output_bytes.tolist() == made.costs.output_bytes.tolist()
        assert [name.split(" ", 1)[1] for name in back.layers] == list(made.costs.layers)
        nodes = [line for line in path.read_text().splitlines() if not line.startswith("\t")]
        stages = [int(line.rpartition("stage_id=")[2]) for line in nodes]
        assert stages == [made.stage_of(layer) - 1 for layer in range(1, len(made.costs) + 1)]


def read_plan_of(answer, source, folder):
    answer("plan", source, "-P", 2, "--export", folder / "plan.json")
    return read_plan(folder / "plan.json")


def test_times_of_a_graph_are_in_ms():
    made = plan(Costs.from_times([0.5, 2], 1, [0, 1], ["Input -- 1", "a\tb"]), 2)
    first, second, edge = to_pipedream(made).splitlines()
    assert first.startswith("node1 -- Layer Input - 1 -- forward_compute_time=500.0, backward_compute_time=1000.0, ")
    assert second.startswith("node2 -- a b -- forward_compute_time=2000.0, ") and edge == "\tnode1 -- node2"


def test_a_plan_file_that_is_scheduled_is_one_line(answer, lpkit, tmp_path):
    path = tmp_path / "plan.json"
    answer("plan", "vgg11", "-P", 4, "--export", path)
    status, out, _ = lpkit("plan", path, "--schedule", "interleaved", "--stages-per-processor", 2)
    assert status == 0 and "shifted" not in out and out.splitlines()[0].endswith(
        f"{repr(read_plan(path)).splitlines()[2]}; {repr(read_plan(path)).splitlines()[1]}")
    assert "interleaved, 4 stages on 2 processors: 4 mini-batches of 16 micro-batches" in out.splitlines()[1]
    for words in (["--schedule", "gpipe", "--stages"], []):
        assert "shifted" in lpkit("plan", path, *words)[1]
    status, _, err = lpkit("plan", path, "--schedule", "interleaved", "--stages-per-processor", 3)
    assert status == 2 and "the plan has 4 stages, which cannot be shared out by 3 a processor; ask for other" in err


def test_all_files_or_none(tmp_path):
    made = plan(costs("sample4"), 2)
    (tmp_path / "schedule.shift.json").mkdir()
    with pytest.raises(ValueError, match="^cannot write '.*schedule.shift.json'"):
        export(made, [tmp_path / "plan.json", tmp_path / "schedule.csv"], timeline=schedule(made, "gpipe"))
    with pytest.raises(ValueError, match="would be written twice; give each file a name of its own$"):
        export(made, [tmp_path / "plan.json", tmp_path / "plan.json"])
    assert [path.name for path in tmp_path.iterdir()] == ["schedule.shift.json"]
    assert export(made, [tmp_path / "plan.json"]) == [tmp_path / "plan.json"]


# ---- the commands of the repository -------------------------------------------------------------------------------


def test_list(answer, lpkit):
    rows = answer("list")["rows"]
    ids = notebook_ids()
    assert [row["id"] for row in rows] == ids and [row["title"] for row in rows] == list(map(title, ids))
    items = [claim.item for claim in read_claims()]
    assert all(row["claims"] == items.count(row["id"]) for row in rows) and any(row["claims"] for row in rows)
    status, out, _ = lpkit("list")
    assert status == 0 and all(id in out for id in notebook_ids())


def test_claims(answer, lpkit):
    found, expected = answer("claims"), verdicts()
    assert [list(row) for row in found] == [expected.columns.tolist()] * len(expected)
    for row, known in zip(found, expected.to_dict("records"), strict=True):
        assert row == {name: None if value != value else value for name, value in known.items()}
    assert [row["id"] for row in answer("claims", "lp_table2_costs")] == (
        expected.loc[expected["item"] == "lp_table2_costs", "id"].tolist())
    status, out, _ = lpkit("claims", "lp_table2_costs")
    assert status == 0 and "cannot be checked" not in out and "reproduced" in out


@pytest.mark.parametrize("arguments", [["-h"], ["cost", "-h"], ["plan", "--help"], ["figures", "-h"], ["--version"]])
def test_help_and_version(lpkit, arguments):
    status, out, err = lpkit(*arguments)
    assert (status, err) == (0, "") and ("Usage: lpkit" in out or version("layerpipe-lpkit") in out)


# ---- bad input ----------------------------------------------------------------------------------------------------


SIZES = [
    ("cost vgg16 --batch 0", "batch is '0'; it must be a whole number of at least 1"),
    ("cost vgg16 --batch -5", "batch is '-5'; it must be a whole number of at least 1"),
    ("cost vgg16 --batch 2.5", "batch is '2.5'; it must be a whole number"),
    ("cost vgg16 --batch nan", "batch is 'nan'; it must be a whole number"),
    ("cost vgg16 --batch inf", "batch is 'inf'; it must be a whole number"),
    ("cost vgg16 --batch 1e400", "batch is '1e400'; it must be a whole number"),
    ("cost vgg16 --batch many", "batch is 'many'; it must be a whole number"),
    ("cost vgg16 --batch 0x20", "batch is '0x20'; it must be a whole number"),
    ("cost vgg16 --batch 1099511627777", "batch is '1099511627777'; it must be a whole number"),
    ("cost vgg16 --batch 1099511627776", "input_bytes of layer 2 is 1.4"),
    ("cost vgg16 --array 0x32", "array rows is 0; it must be a whole number from 1"),
    ("cost vgg16 --array 32x0", "array columns is 0; it must be a whole number from 1"),
    ("cost vgg16 --array 32", "array is '32'; it must be ROWSxCOLUMNS, such as 32x32"),
    ("cost vgg16 --array 32x-32", "array is '32x-32'; it must be ROWSxCOLUMNS"),
    ("cost vgg16 --array 1.5x32", "array is '1.5x32'; it must be ROWSxCOLUMNS"),
    ("cost vgg16 --array 32x32x32", "array is '32x32x32'; it must be ROWSxCOLUMNS"),
    ("cost vgg16 --array 99999999999999x3", "array rows is 99999999999999; it must be a whole number from 1"),
    ("cost vgg16 --bytes 0", "bytes_per_element is 0.0; it must be a positive number"),
    ("cost vgg16 --bytes -1", "bytes_per_element is -1.0; it must be a positive number"),
    ("cost vgg16 --bytes nan", "bytes_per_element is nan; it must be a positive number"),
    ("cost vgg16 --bytes inf", "bytes_per_element is inf; it must be a positive number"),
    ("cost vgg16 --bytes 1e300", "weight_bytes is 10276044800"),
    ("cost vgg16 --bytes four", "Invalid value for '--bytes': 'four' is not a valid float"),
    ("plan vgg16 -P 0", "processors is 0; it must be a whole number from 1"),
    ("plan vgg16 -P -1", "processors is -1; it must be a whole number from 1"),
    ("plan vgg16 -P 2.5", "processors is '2.5'; it must be a whole number from 1"),
    ("plan vgg16 -P nan", "processors is 'nan'; it must be a whole number from 1"),
    ("plan vgg16 -P 17", "processors is 17, but there are only 16 layers and a stage holds at least one"),
    (f"plan vgg16 -P {'9' * 40}", f"processors is {'9' * 40}; it must be a whole number from 1"),
    (f"plan vgg16 -P {'9' * 5000}", "processors is '999"),
    (f"cost vgg16 --batch {'a' * 5000}", "batch is 'aaa"),
    (f"figures -j {'9' * 5000}", "Invalid value for '-j' / '--jobs': '999"),
    (f"figures -j {'n' * 5000}", "Invalid value for '-j' / '--jobs': 'nnn"),
    ("plan {}/conv.csv -P 4", "processors is 4, but there are only 3 layers"),
    ("plan {}/graph.txt -P 9", "processors is 9, but there are only 3 layers"),
]  # fmt: skip
NAMES = [
    ("cost vgg61", "network is 'vgg61'; did you mean 'vgg19' or 'vgg16' or 'vgg13'? Known: 'sample4', 'lenet5'"),
    ("plan resnet-50", "network is 'resnet-50'; did you mean 'resnet50'"),
    ("cost vgg16 --reading closets", "reading is 'closets'; did you mean 'closest'? Known: 'closest', 'plain'"),
    ("cost vgg16 --dataflow wss", "dataflow is 'wss'; did you mean 'ws'? Known: 'ws', 'os', 'is'"),
    ("cost vgg16 --convention scalsim", "convention is 'scalsim'; did you mean 'scalesim'"),
    ("cost vgg16 --fold-overlap none", "fold_overlap is 'none'; Known: 'serial', 'preload_hidden'"),
    ("cost vgg16 --delta zero_inserts", "delta is 'zero_inserts'; did you mean 'zero_insert'?"),
    ("cost vgg16 --g-form c", "G is 'c'; Known: 'a', 'b'"),
    ("cost vgg16 --batching fold", "batching is 'fold'; did you mean 'folded'?"),
    ("cost vgg16 --sequence 128", "vgg16 has no option 'sequence'; Known: 'classes', 'size'"),
    ("plan gpt2 --sequence many", "sequence is 'many'; it must be a whole number of at least 1"),
    ("cost {}/net.csv --sequence 128", "sequence cannot be chosen of '{}/net.csv', a file; leave the option out"),
    ("cost {}/conv.csv --sequence 128", "sequence cannot be chosen of '{}/conv.csv', a file; leave the option out"),
    ("cost vgg16 --layers convolution", "layers is 'convolution'; did you mean 'convolutions'?"),
    ("cost vgg16 --op H", "op is 'H'; Known: 'F', 'G', 'delta', 'all'"),
    ("cost vgg16 --dataflow os --convention scalesim_v1", "scalesim_v1 has no cycle count for dataflow 'os'"),
    ("plan vgg16 --planner optimum", "planner is 'optimum'; did you mean 'optimal'?"),
    ("cost {}/conv.csv --batch 0", "batch is '0'; it must be a whole number of at least 1"),
    ("cost {}/conv.csv --array 0x1", "array rows is 0; it must be a whole number"),
    ("cost {}/conv.csv --reading closets", "reading is 'closets'; did you mean 'closest'?"),
    ("cost {}/conv.csv --convention scalsim", "convention is 'scalsim'; did you mean 'scalesim'"),
    ("cost {}/conv.csv --dataflow rs", "dataflow is 'rs'; Known: 'ws', 'os', 'is'"),
    ("plan {}/conv.csv --layers convolutions", "layers cannot be chosen from a SCALE-Sim topology; leave"),
    ("cost {}/graph.txt --array 32x32", "'{}/graph.txt' holds measured times; array cannot change them, leave the"),
    ("plan {}/graph.txt -P 2 --batch 8 --delta phases", "'{}/graph.txt' holds measured times; batch, delta cannot"),
    ("cost {}/graph.txt --reading plain", "'{}/graph.txt' holds measured times; reading cannot change them"),
]  # fmt: skip
FILES = [
    ("cost {}/nothing.csv", "there is no file '{}/nothing.csv'; check the path"),
    ("cost {}", "'{}' is a folder; give a file in it"),
    ("cost {}/empty.csv", "'{}/empty.csv' is empty; it may have been cut off"),
    ("cost {}/blank.csv", "'{}/blank.csv' is empty; it may have been cut off"),
    ("cost {}/comments.csv", "'{}/comments.csv' holds nothing but comments; it may have been cut off"),
    ("cost {}/binary.csv", "'{}/binary.csv' is not text (byte 128 is not UTF-8); give a text file"),
    ("plan {}/zeros.csv", "'{}/zeros.csv' is not text (it holds a zero byte); give a text file"),
    ("cost /dev/zero", "'/dev/zero' is a pipe or a device; write what it gives to a file and give that"),
    ("cost {}/model.onnx", "'{}/model.onnx' is not an ONNX model, or it was cut off; export it again"),
    ("cost {}/cut.csv", "'{}/cut.csv', line 3: filters is missing; give a whole number of at least 1"),
    ("plan {}/cut.csv", "'{}/cut.csv', line 3: filters is missing"),
    ("cost {}/zero.csv", "'{}/zero.csv', line 3: ifmap height is 0; it must be a whole number from 1"),
    ("cost {}/fraction.csv", "'{}/fraction.csv', line 3: filters is '4.5'; it must be a whole number"),
    ("cost {}/wide.csv", "'{}/wide.csv', line 4: the filter of 'Conv3' is 19x19, larger than its input of 17x17"),
    ("cost {}/head.csv", "'{}/head.csv' has a heading but no layers; it may have been cut off"),
    ("cost {}/words.csv", "'{}/words.csv' has a heading but no layers; it may have been cut off"),
    ("cost {}/cut_net.csv", "{}/cut_net.csv, line "),
    ("cost {}/cut_graph.txt", "line 2 of 'cut_graph.txt'"),
    ("plan {}/cycle.txt -P 2", "'cycle.txt' has a cycle"),
    ("cost {}/nan.txt", "forward_compute_time in line 3 of 'nan.txt' is 'nan'; it must be a number from 0"),
    (f"cost ./{'a' * 300}", f"there is no file '{'a' * 120}"),
    ("plan vgg16 --export {}/plan.txt", "cannot export '{}/plan.txt'; names end in .json (a plan), .csv (its stages), "
     "graph.txt (PipeDream's profile), or with a schedule in trace.json, schedule.csv, timeline.csv, .png, .svg"),
    ("plan vgg16 --export {}/good.json --export {}/plan.txt", "cannot export '{}/plan.txt'"),
    ("plan vgg16 --export {}/empty.csv/plan.json", "cannot write '{}/empty.csv/plan.json': "),
    ("plan vgg16 --export {}/new/good.json --export {}/empty.csv/plan.csv", "cannot write '{}/empty.csv/plan.csv': "),
    ("plan vgg16 --export {}/trace.json", "cannot export '{}/trace.json' without a schedule; files named trace.json"),
    ("plan vgg16 --export {}/schedule.csv", "cannot export '{}/schedule.csv' without a schedule; files named"),
    ("plan vgg16 --schedule gpipe --export {}/a.json {}/a.json", "'{}/a.json' would be written twice; give each"),
    ("plan {}/graph.txt -P 2 --export {}/graph.txt", "'{}/graph.txt' is the file that is read; write to another name"),
    ("plan {}/none.json", "there is no file '{}/none.json'; check the path"),
    ("plan {}/cut.json", "'{}/cut.json': line 1 is not JSON"),
    ("plan {}/plan.json -P 3 --array 8x8", "'{}/plan.json' is a plan; array, processors cannot change it, leave the"),
    ("plan {}/plan.json --planner optimal", "'{}/plan.json' is a plan; planner cannot change it, leave the options"),
    ("plan vgg16 --schedule layerpip", "schedule is 'layerpip'; did you mean 'layerpipe'"),
    ("plan vgg16 --schedule layerpipe --batches 0", "batches is 0; it must be a whole number from 1"),
    ("plan vgg16 --schedule layerpipe --batches 2.5", "batches is '2.5'; it must be a whole number from 1"),
    ("plan vgg16 --schedule gpipe --micro-batches -1", "micro_batches is -1; it must be a whole number from 1"),
    ("plan vgg16 --schedule layerpipe --micro-batches 2", "the schedule 'layerpipe' has no micro-batches; leave the"),
    ("plan vgg16 --schedule layerpipe --batches 999999999", "there would be about "),
    ("plan vgg16 --schedule gpipe --bandwidth 0", "bandwidth is 0; it must be a finite number above 0"),
    ("plan vgg16 --memory 16GB", "memory is '16GB'; it must be a number of bytes without a unit, such as 16e9"),
    ("plan vgg16 --schedule gpipe --bandwidth 64GB/s", "bandwidth is '64GB/s'; it must be a number of bytes without a"),
    ("plan vgg16 --schedule gpipe --bandwidth nan", "bandwidth is 'nan'; it must be a finite number above 0"),
    ("plan vgg16 --schedule gpipe --clock 0 --export {}/trace.json", "clock is 0; it must be a number of cycles"),
    ("plan vgg16 --schedule gpipe --clock fast --export {}/trace.json", "clock is 'fast'; it must be a number of"),
    ("plan {}/graph.txt -P 2 --schedule gpipe --clock 9 --export {}/trace.json", "the costs are in 'ms', and a clock"),
    ("plan vgg16 --export {}/gantt.png", "cannot export '{}/gantt.png' without a schedule; files named trace.json"),
    ("plan vgg16 --schedule gpipe --width 50", "--width has no meaning without a drawing; give --ascii, or"),
    ("plan vgg16 --schedule gpipe --ascii --width 5", "width is 5; it must be a whole number from 10 to 10000"),
    ("plan vgg16 --schedule gpipe --model 1f1b", "the schedule 'gpipe' has no model; leave the option out, or give"),
    ("plan vgg16 --schedule layerpipe --model 2f2b", "model is '2f2b'; Known: 'registered', '1f1b'"),
    ("plan vgg16 --schedule gpipe --delta-first", "the schedule 'gpipe' has no choice of what comes first; leave the"),
    ("plan vgg16 --schedule gpipe --latency -1", "latency is '-1'; it must be a finite number of at least 0"),
    ("plan vgg16 --schedule interleaved", "the schedule 'interleaved' needs several stages a processor; give"),
    ("plan vgg16 --schedule interleaved --stages-per-processor 1", "stages_per_processor is 1; it must be a"),
    ("plan vgg16 --schedule gpipe --stages-per-processor 2", "stages_per_processor has no meaning for the schedule"),
    ("plan vgg16 --stages-per-processor 2", "stages_per_processor has no meaning without a schedule; give --schedule"),
    ("plan vgg16 --batches 3 --latency 2", "batches, latency has no meaning without a schedule; give --schedule"),
    ("plan vgg16 --ascii", "--ascii has no meaning without a schedule; give --schedule layerpipe or another"),
    ("plan vgg16 --clock 5", "--clock has no meaning without a schedule"),
    ("plan vgg16 --schedule gpipe --clock fast", "--clock has no meaning without a trace; give --export trace.json"),
]  # fmt: skip
USAGE = [
    ("", "Missing command. See lpkit -h"),
    ("cots vgg16", "No such command 'cots'"),
    ("cost", "Missing argument 'NETWORK'. See lpkit cost -h"),
    ("plan", "Missing argument 'NETWORK'. See lpkit plan -h"),
    ("cost vgg16 resnet50", "Got unexpected extra argument (resnet50)"),
    ("cost vgg16 --arrray 3x3", "No such option '--arrray'"),
    ("cost vgg16 --array", "Option '--array' requires an argument"),
    ("plan vgg16 -P", "Option '-P' requires an argument"),
    ("--jsn", "No such option '--jsn'"),
    ("list all", "Got unexpected extra argument (all)"),
    ("claims lp_table5", "item is 'lp_table5'; did you mean"),
    ("claims lp_table2_costs lp_table3", "Got unexpected extra argument (lp_table3)"),
    ("figures lp_fig77", "notebook is 'lp_fig77'"),
    ("figures lp_fig7_saturatoin", "notebook is 'lp_fig7_saturatoin'; did you mean 'lp_fig7_saturation'"),
    ("figures lp_fig7_saturation -p netwrk vgg16 --out {}/out",
     "notebook 'lp_fig7_saturation' has no parameter 'netwrk'; did you mean 'network'? Known: "),
    ("figures lp_fig7_saturation -p max_processors many --out {}/out", "parameter 'max_processors' is 'many'; give"),
    ("figures lp_fig7_saturation -p max_processors 2.5 --out {}/out", "parameter 'max_processors' is '2.5'; give"),
    ("figures lp_fig7_saturation -p network resnet50", "network is 'resnet50' and its default in notebook"),
    ("figures lp_fig7_saturation -p network", "Option '-p' requires 2 arguments"),
    ("figures -j 0", "jobs is 0; it must be a whole number from 1 to 2"),
    ("figures -j 3", "jobs is 3; it must be a whole number from 1 to 2"),
    ("figures --timeout 0", "timeout is 0.0; it must be a finite number above 0"),
    ("figures --timeout nan", "timeout is nan; it must be a finite number above 0"),
    ("figures -j two", "Invalid value for '-j'"),
    ("figures lp_fig7_saturation --out {}/empty.csv/out", "cannot write '{}/empty.csv/out/"),
    ("check -j 0", "jobs is 0; it must be a whole number from 1 to 2"),
    ("check lp_fig7_saturation", "Got unexpected extra argument"),
]  # fmt: skip


@pytest.mark.parametrize("line, sentence", SIZES + NAMES + FILES + USAGE, ids=lambda text: text[:60])
def test_bad_input_gets_one_line_and_status_2(lpkit, folder, line, sentence):
    before = sorted(folder.rglob("*"))
    status, out, err = lpkit(*(word.replace("{}", str(folder)) for word in line.split()))
    assert (status, out) == (2, "")
    assert err.startswith("lpkit: " + sentence.replace("{}", str(folder))), err
    assert err.count("\n") == 1 and err.endswith("\n") and len(err) < LENGTHY
    assert "Traceback" not in err and "Errno" not in err and "np." not in err
    assert sorted(folder.rglob("*")) == before  # nothing half written


def test_what_cannot_be_computed_gets_one_line_too(lpkit, monkeypatch):
    for error, told in ((OverflowError("too large"), "OverflowError: too large"), (MemoryError(), "MemoryError"),
                        (RecursionError("too deep"), "RecursionError: too deep")):
        monkeypatch.setattr("lpkit.sources.layer_costs", lambda *_, error=error, **__: (_ for _ in ()).throw(error))
        status, out, err = lpkit("cost", "vgg16")
        assert (status, out) == (2, "")
        assert err == f"lpkit: this cannot be computed here ({told}); use smaller sizes or a smaller file\n"


def test_no_long_line_of_a_message_survives(lpkit):
    status, _, err = lpkit("figures", "-j", "1 " * 5000)
    assert status == 2 and err.count("\n") == 1 and len(err) < 2000


@pytest.mark.parametrize("words", [["-p", "max_processors", "3"], []])
def test_an_empty_out_is_not_the_folder_one_is_in(lpkit, words):
    status, out, err = lpkit("figures", "lp_fig7_saturation", *words, "--out", "")
    assert (status, out, err) == (2, "", "lpkit: out is empty; name a folder, or . for the one you are in\n")


def test_a_file_whose_name_no_network_may_have(answer, tmp_path):
    path = tmp_path / "a, b.csv"
    path.write_text("# input: 3x32x32\nname,op,out,kernel\nconv1,Conv,16,3\n")
    assert answer("cost", path)["network"] == "a b on 32x32 ws, batch 32"


def test_an_empty_name(lpkit):
    status, out, err = lpkit("cost", "")
    assert (status, out) == (2, "") and err.startswith("lpkit: network is ''; Known: 'sample4', ")


def test_bad_input_is_bad_with_json_too(lpkit, folder):
    for words in (["cost", "vgg61"], ["plan", "vgg16", "-P", "0"], ["claims", "none"], ["cost", folder / "empty.csv"]):
        status, out, err = lpkit(*words, "--json")
        assert (status, out) == (2, "") and err.startswith("lpkit: ") and err.count("\n") == 1


# ---- as a process -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [["cost", "resnet152"], ["plan", "sample4", "--json"]])
def test_a_reader_that_has_gone_is_no_error(words):
    """As in `lpkit cost resnet152 | head -1`, with the reader gone before the first line is written."""
    reader, writer = os.pipe()
    command = [sys.executable, "-m", "lpkit", *words]
    process = subprocess.Popen(command, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    os.close(reader)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
def test_a_full_disk_under_the_output():
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-m", "lpkit", "cost", "sample4"], stdout=full, stderr=subprocess.PIPE,
                              text=True, timeout=60)  # fmt: skip
    assert (done.returncode, done.stderr) == (2, "lpkit: cannot write what was found: No space left on device\n")


def test_a_pipe_is_refused_in_words():
    done = subprocess.run([sys.executable, "-m", "lpkit", "cost", "/dev/stdin"], input=CONV, capture_output=True,
                          text=True, timeout=60)  # fmt: skip
    assert done.returncode == 2 and done.stderr.startswith("lpkit: '/dev/stdin' is a pipe or a device; write what")


# ---- as an installed wheel ----------------------------------------------------------------------------------------


def built_with():
    """Options of pip: without a download where this environment can build by itself."""
    try:
        major = int(version("setuptools").split(".")[0])
    except (ImportError, ValueError):
        major = 0
    return ["--no-build-isolation"] if major >= 77 else []


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel of the library as it is now, built outside the repository and unpacked."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    shutil.copytree(ROOT / "lpkit", source / "lpkit", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--quiet", "--retries", "0", "--timeout", "15",
               "--disable-pip-version-check", *built_with(), "--wheel-dir", folder, source]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180)
    if done.returncode and re.search("No matching distribution|Could not find a version|connection|No module named pip",
                                     done.stderr, re.I):
        pytest.skip("building a wheel needs setuptools >= 77, which can neither be imported nor downloaded here")
    assert done.returncode == 0, done.stderr
    (path,) = folder.glob("*.whl")
    zipfile.ZipFile(path).extractall(folder / "site")
    return folder / "site"


def installed(wheel, folder, *words):
    """Run the command from the unpacked wheel in another folder."""
    command = [sys.executable, "-W", "error", "-m", "lpkit", *words]
    environment = {**os.environ, "PYTHONPATH": str(wheel), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60)


def test_the_wheel_holds_the_whole_library_and_nothing_else(wheel):
    held = {path.relative_to(wheel).as_posix() for path in (wheel / "lpkit").rglob("*") if path.is_file()}
    source = wheel.parent / "source"
    assert held == {path.relative_to(source).as_posix() for path in (source / "lpkit").rglob("*.py")}
    (info,) = (path for path in wheel.iterdir() if path.name != "lpkit")
    assert info.name == f"layerpipe_lpkit-{version('layerpipe-lpkit')}.dist-info"
    assert "lpkit = lpkit.__main__:main" in (info / "entry_points.txt").read_text()
    assert list(info.rglob("LICENSE"))


def test_cost_and_plan_work_from_a_wheel(wheel, tmp_path):
    program = "import lpkit; print(lpkit.__file__)"
    where = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(wheel)},
                           capture_output=True, text=True, timeout=60)
    assert where.stdout.startswith(str(wheel))  # and not the checkout
    done = installed(wheel, tmp_path, "cost", "vgg16", "--json")
    assert (done.returncode, done.stderr) == (0, "") and json.loads(done.stdout)["rows"] == layers_of(costs("vgg16"))
    done = installed(wheel, tmp_path, "plan", "sample4", "-P", "3", "--export", "plan.json")
    assert (done.returncode, done.stderr) == (0, "") and "3 stages" in done.stdout
    assert json.loads((tmp_path / "plan.json").read_text()) == to_dict(plan(costs("sample4"), 3))


@pytest.mark.parametrize("words", [["claims"], ["figures", "--json"]], ids=" ".join)
def test_what_needs_the_repository_says_so_in_one_line(wheel, tmp_path, words):
    done = installed(wheel, tmp_path, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("lpkit: this command needs the lpkit repository (notebooks/, data/), and an")
    assert done.stderr.count("\n") == 1 and list(tmp_path.iterdir()) == []
