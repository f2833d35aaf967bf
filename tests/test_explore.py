"""The explorer: pure functions of a state against the planners, and the widget against the pure functions."""

import gc
import io
import re
import resource
import weakref
import shlex
from dataclasses import fields, replace

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from matplotlib.colors import to_hex
from PIL import Image

import lpkit as lp
from lpkit import explore, explore_widgets
from lpkit.__main__ import cli
from lpkit.explore import State, call_of, command_of, figure_of, table_for, text_of, write_view
from lpkit.explore_graph import DELAYS
from lpkit.explore_letters import _glyphs, _outline
from lpkit.explore_periods import least_periods
from lpkit.explore_picture import empty_png, png, undisturbed
from lpkit.explore_state import COSTING, VIEWS, costs_of, differences, plan_of, timeline_of
from lpkit.explore_tables import cases_of, graph_of, processor_counts
from lpkit.explore_text import largest_product
from lpkit.retiming import derive
from lpkit.sources import layer_costs

SMALL = State("sample4", processors=3)
MIXED = State("lenet5", rows=16, columns=8, dataflow="os", batch=4, processors=2, planner="algorithm1",
              delta="zero_insert",
              G="b", first_layer_delta=True, layers="convolutions", bandwidth=2.5, view="timeline")  # fmt: skip
GRAPH = """\
node1 -- Input -- forward_compute_time=0.000, backward_compute_time=0.000, activation_size=0.0, parameter_size=0.0
node2 -- Conv -- forward_compute_time=2.000, backward_compute_time=4.000, activation_size=100.0, parameter_size=40.000
node3 -- Linear -- forward_compute_time=1.000, backward_compute_time=3.000, activation_size=10.0, parameter_size=80.000
\tnode1 -- node2
\tnode2 -- node3
"""


@pytest.fixture
def files(tmp_path):
    """A file of each kind that needs no library."""
    lp.write_csv(lp.network("lenet5"), tmp_path / "own net.csv")
    (tmp_path / "topology.csv").write_text("Layer name, M, N, K,\nfirst, 64, 32, 16,\nsecond, 64, 8, 32,\n")
    (tmp_path / "graph.txt").write_text(GRAPH)
    return tmp_path


# ---- the state ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong, message", [
    ({"network": ""}, "network is ''; give a built-in name such as 'vgg16', or the path of a file"),
    ({"network": 3}, "network is 3; give a built-in name such as 'vgg16', or the path of a file"),
    ({"rows": 0}, "rows is 0; it must be a whole number from 1 to 4096"),
    ({"columns": 2.5}, "columns is 2.5; it must be a whole number from 1 to 4096"),
    ({"batch": "32"}, "batch is '32'; it must be a whole number from 1 to 1048576"),
    ({"processors": 65}, "processors is 65; it must be a whole number from 1 to 64"),
    ({"dataflow": "sw"}, "dataflow is 'sw'; Known: 'ws', 'os', 'is'"),
    ({"planner": "best"}, "planner is 'best'; Known: 'equal_layers', 'pipedream', 'algorithm1', 'optimal'"),
    ({"delta": "x"}, "delta is 'x'; Known: 'col2im', 'zero_insert', 'phases'"),
    ({"G": "c"}, "G is 'c'; Known: 'a', 'b'"),
    ({"layers": "some"}, "layers is 'some'; Known: 'all', 'convolutions', 'main_path'"),
    ({"view": "plan"}, "view is 'plan'; Known: 'loads', 'speedup', 'timeline', 'communication', 'utilisation', "
                       "'graph'"),
    ({"first_layer_delta": 1}, "first_layer_delta is 1; Known: True, False"),
    ({"bandwidth": 0}, "bandwidth is 0; it must be a number of bytes per unit of time above 0, or None where sends "
                       "take no "
                       "time"),
])  # fmt: skip
def test_a_wrong_value_is_refused_in_a_sentence(wrong, message):
    with pytest.raises(ValueError) as error:
        State(**wrong)
    assert str(error.value) == message


def test_values_become_plain_and_names_lower_case():
    state = State(" VGG16 ", rows=np.int64(64), batch=8.0, bandwidth=np.float64(4))
    assert (state.network, state.rows, state.batch, state.bandwidth) == ("vgg16", 64, 8, 4)
    assert [type(value) for value in (state.rows, state.batch, state.bandwidth)] == [int] * 3
    assert hash(state) == hash(State(rows=64, batch=8, bandwidth=4))


def test_the_costs_and_the_plan_are_those_of_the_library():
    state = State("sample4", processors=3, delta="zero_insert", first_layer_delta=True, layers="main_path")
    reading = lp.READINGS["closest"].choices()
    assert np.array_equal(costs_of(state).work, lp.costs("sample4", batch=32, **reading).work)
    assert (plan_of(state).period, plan_of(replace(state, planner="pipedream")).period) == (32159456, 43467592)
    assert "period ratio 1.352, time reduction 26.0 %, throughput gain 35.2 %" in text_of(state)


def test_every_choice_changes_the_costs():
    changes = {"rows": 16, "columns": 16, "dataflow": "os", "batch": 8, "delta": "zero_insert", "G": "b",
               "first_layer_delta": True, "layers": "convolutions"}  # fmt: skip
    assert set(changes) == set(COSTING)
    state = State("resnet18")
    for name, value in changes.items():
        other = costs_of(replace(state, **{name: value}))
        assert list(other.work) != list(costs_of(state).work), name


def test_a_file_that_changes_is_read_again(files):
    state = State(str(files / "topology.csv"), processors=1)
    before = costs_of(state).total
    (files / "topology.csv").write_text("Layer name, M, N, K,\nfirst, 640, 320, 160,\n")
    assert costs_of(state).total > before


# ---- what repeats it ----------------------------------------------------------------------------------------------


def repeated(state):
    return eval(call_of(state), {"lp": lp, "layer_costs": layer_costs})


def ran(state):
    words = shlex.split(command_of(state))
    assert words[0] == "lpkit"
    done = CliRunner().invoke(cli, [*words[1:], "--json"])
    assert done.exit_code == 0, done.output
    return pd.io.json.ujson_loads(done.stdout)


SAME = [SMALL, MIXED, replace(MIXED, planner="equal_layers", bandwidth=None),
        State("alexnet", planner="pipedream", rows=64),
        replace(SMALL, view="timeline")]  # fmt: skip


@pytest.mark.parametrize("state", SAME)
def test_the_python_call_gives_the_same(state):
    made = repeated(state)
    if state.view == "timeline":
        assert made.makespan == timeline_of(state).makespan
        made = made.plan
    assert (made.ends, made.moved, made.period) == (plan_of(state).ends, plan_of(state).moved, plan_of(state).period)


@pytest.mark.parametrize("state", SAME)
def test_the_command_gives_the_same(state):
    said = ran(state)
    assert said["ends"] == list(plan_of(state).ends)
    assert said["period"] == pytest.approx(float(plan_of(state).period), rel=1e-12)
    if state.view == "timeline":
        assert said["timeline"]["makespan"] == pytest.approx(float(timeline_of(state).makespan), rel=1e-12)


@pytest.mark.parametrize("name", ["own net.csv", "topology.csv", "graph.txt"])
def test_own_files_are_planned_and_repeated(files, name):
    state = State(str(files / name), rows=16, batch=2, processors=2)
    assert repeated(state).period == plan_of(state).period
    assert ran(state)["period"] == pytest.approx(float(plan_of(state).period))
    for view in VIEWS:
        if (name, view) != ("graph.txt", "utilisation"):
            assert png(figure_of(replace(state, view=view)))


def test_measured_times_have_no_utilisation_and_say_so(files):
    state = State(str(files / "graph.txt"), processors=2)
    assert "the times are measured" in text_of(state)
    with pytest.raises(
        ValueError, match="holds measured times, so the array they ran on is not known; choose another view"
    ):
        figure_of(replace(state, view="utilisation"))


# ---- the views ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("network, processors", [("sample4", 1), ("sample4", 4), ("vgg16", 4), ("resnet50", 16)])
def test_every_view_is_the_same_picture_each_time(view, network, processors):
    state = State(network, processors=processors, view=view)
    first = png(figure_of(state))
    assert first == png(figure_of(state))
    assert first != empty_png()
    assert len(text_of(state).splitlines()) >= 3
    assert not re.search(r"np\.|nan|inf\b| at 0x", text_of(state))


@pytest.mark.parametrize("view", VIEWS)
def test_a_pin_is_drawn_beside_what_is_current(view):
    pinned, state = replace(SMALL, view="graph"), replace(SMALL, rows=64, view=view)
    assert list(cases_of(state, pinned)) == ["pinned: rows 32", "now: rows 64"]
    assert set(table_for(state, pinned)["case"]) == {"pinned: rows 32", "now: rows 64"}
    assert png(figure_of(state, pinned)) != png(figure_of(state))
    said = text_of(state, pinned)
    assert said.startswith("pinned: rows 32\n") and "now against pinned: period ratio" in said


def test_a_pin_equal_to_the_current_one_is_told_apart():
    assert list(cases_of(SMALL, SMALL)) == ["pinned", "now"]
    assert differences(SMALL, replace(SMALL, view="graph")) == ()


def test_loads_are_those_of_the_plans():
    table = table_for(State("vgg16", processors=4))
    for planner, (_, part) in zip(("pipedream", "optimal"), table.groupby("case", sort=False)):
        plan = lp.plan(lp.costs("vgg16"), 4, planner)
        parts = part[["F", "G", "delta", "delta_taken"]].sum(axis=1)
        assert np.allclose(parts, part["load"]) and np.allclose(part["load"], [float(load) for load in plan.loads])
        assert part["delta_taken"].sum() == sum(amount for *_, amount in plan.moved)


@pytest.mark.parametrize("planner", list(lp.PLANNERS))
def test_the_speedup_curve_is_that_of_the_plans(planner):
    state = State("alexnet", planner=planner, view="speedup")
    table = table_for(state)
    own = table[table["case"] == table["case"].iloc[-1]]
    assert own["processors"].tolist() == list(range(1, 9))
    assert own["speedup"].tolist() == pytest.approx([float(plan_of(state, k).speedup) for k in range(1, 9)])


@pytest.mark.parametrize("still, planner", [(False, "optimal"), (True, "pipedream")])
@pytest.mark.parametrize("network", lp.NETWORKS)
def test_periods_found_one_after_the_other_are_those_of_the_planner(network, still, planner):
    made, counts = lp.costs(network, "48x16"), (1, 2, 3, 4)
    known = [float(lp.plan(made, count, planner).period) for count in counts]
    assert least_periods(made, counts, still=still) == known


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.lists(st.tuples(*[st.integers(0, 30)] * 3), min_size=1, max_size=9), st.booleans(),
       st.sampled_from(["cycles", "s"]))  # fmt: skip
def test_periods_of_any_chain_are_those_of_the_planner(work, still, unit):
    made = lp.Costs.from_times(*zip(*([a + (k == 0), b, c] for k, (a, b, c) in enumerate(work))), unit=unit)
    counts, planner = range(1, len(work) + 1), "pipedream" if still else "optimal"
    known = [float(lp.plan(made, count, planner).period) for count in counts]
    assert least_periods(made, counts, still=still) == pytest.approx(known, rel=0 if unit == "cycles" else 1e-12, abs=0)


@pytest.mark.parametrize("network", lp.NETWORKS)
def test_remembered_networks_cost_what_the_library_says(network):
    state = State(network, rows=24, columns=40, dataflow="is", batch=3, delta="phases", G="b", first_layer_delta=True)
    own, known = costs_of(state), layer_costs(network, array="24x40", dataflow="is", batch=3, delta="phases", G="b",
                                              first_layer_delta=True)  # fmt: skip
    assert repr(own) == repr(known) and (own.work == known.work).all() and (own.cut_bytes == known.cut_bytes).all()


def test_the_curve_has_the_chosen_processors_and_ends_with_the_layers():
    assert processor_counts(State("resnet50", processors=23))[15:19] == [16, 20, 23, 24]
    assert processor_counts(State("resnet50"))[-1] == 54
    assert processor_counts(State("resnet152"))[-1] == 64


def test_utilisation_is_useful_work_over_cells_and_cycles():
    table, costs = table_for(State("sample4", view="utilisation")), lp.costs("sample4")
    from lpkit.products import useful_macs

    by_hand = [100 * useful_macs(layer, batch=32) / (32 * 32 * cycles) for layer, cycles in
               zip(lp.network("sample4").layers, costs.F.tolist())]  # fmt: skip
    assert table["F"].tolist() == pytest.approx(by_hand)
    assert np.isnan(table["delta"][0]) and (table[["F", "G"]] <= 100).all(axis=None)


def test_communication_is_the_full_account_and_the_links_their_time():
    table = table_for(State("vgg16", view="communication", bandwidth=8))
    own, full = table[table["case"] == "LayerPipe (optimal)"], lp.communication(plan_of(State("vgg16")), "full")
    assert own["mandatory"].tolist() == [float(size) for size in full.mandatory]
    assert own["weights"].tolist() == [float(size) for size in full.weights]
    least = own["mandatory"] / 2 / 8
    assert (own["busier_link_time"] >= least).all()
    slow = State("vgg16", view="communication", bandwidth=0.01)
    assert "the links, not the stages, are the limit" in text_of(slow)


def test_slow_links_hold_the_timeline_up():
    state = State("sample4", processors=2, view="timeline", bandwidth=0.1)
    assert "the links hold the stages up" in text_of(state)
    assert timeline_of(state).check() == ()


def test_the_graph_has_the_delays_of_the_derivation():
    state = State("sample4", processors=4, planner="pipedream", view="graph")
    assert plan_of(state).ends == (1, 2, 3, 4)
    graph, first, last = graph_of(state)
    assert (first, last) == (1, 4)
    assert sorted(graph.edges) == sorted(derive(4)[-1].dfg.edges)


def test_the_graph_of_a_large_network_is_part_of_the_whole():
    graph, first, last = graph_of(State("vgg16", processors=5, planner="pipedream", view="graph"))
    stages = tuple(plan_of(State("vgg16", processors=5, planner="pipedream")).stage_of(layer) for layer in range(1, 17))
    assert last - first == 5
    assert set(graph.edges) <= set(derive(16, stages)[-1].dfg.edges)


def test_an_array_larger_than_every_product_is_said():
    state = State("lenet5", rows=512, columns=512, batch=1)
    layers = tuple((layer, 1) for layer in lp.network("lenet5").layers)
    assert largest_product(layers, "ws", "col2im", "a")[1] == 400
    assert "no product has more than 400 columns, so 112 of the 512 columns never work" in text_of(state)
    assert "larger than needed" not in text_of(State("vgg16"))


def test_another_planner_is_held_against_the_optimum():
    assert re.search(
        r"\n8\.\d+ % above the optimum; optimal: no plan of 4 processors", text_of(State(planner="pipedream"))
    )


def test_writing_gives_the_picture_and_its_data(tmp_path):
    paths = write_view(SMALL, tmp_path / "new")
    assert [path.name for path in paths] == ["explorer_loads.svg", "explorer_loads.csv"]
    assert paths[0].read_text().lstrip().startswith("<?xml")
    table = pd.read_csv(paths[1])
    assert table["load"].tolist() == table_for(SMALL)["load"].tolist()
    before = paths[0].read_bytes()
    assert write_view(SMALL, tmp_path / "new")[0].read_bytes() == before


def test_writing_to_nowhere_is_refused(tmp_path):
    with pytest.raises(ValueError, match="the folder has no name; give one, such as explored"):
        write_view(SMALL, "  ")
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="cannot write"):
        write_view(SMALL, tmp_path / "file")


# ---- impossible states --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state, message", [
    (State("sample4", processors=5), "processors is 5"),
    (State("vgg61"), "network is 'vgg61'; did you mean 'vgg19'"),
    (State("no/such.csv"), "there is no file 'no/such.csv'; check the path"),
    (State("plan.json"), "there is no file 'plan.json'"),
])  # fmt: skip
def test_what_cannot_be_is_a_sentence_in_both(state, message):
    for function in (figure_of, text_of):
        with pytest.raises((ValueError, FileNotFoundError)) as error:
            function(state)
        assert message in str(error.value)


def hostile(folder):
    """Files that are none or lie: what each holds, and what is said of it."""
    whole = (lp.write_csv(lp.network("lenet5"), folder / "whole.csv"), (folder / "whole.csv").read_text())[1]
    head = "Layer name, M, N, K,\n"
    return {
        "empty.csv": ("", "is empty; it may have been cut off"),
        "binary.csv": (bytes(range(256)), "is not text"),
        "cut.csv": (whole[: len(whole) // 2], "cells where the header has 12; give each line as many (or was the "
                                              "file cut off?)"),
        "nan.csv": (head + "a, nan, 3, 4,\n", "nan"),
        "negative.csv": (head + "a, -5, 3, 4,\n", "-5"),
        "claims.csv": (head + "a, 99999999999999, 3, 4,\n", "99999999999999"),
        "overflow.csv": (head + "a, 1000000000000, 1000000000000, 1000000000000,\n", "a"),
        "model.onnx": (bytes(range(256)), "is not an ONNX model"),
        "long.csv": (head + "".join(f"l{n}, 64, 32, 16,\n" for n in range(1001)), "has 1,001 layers; an explorer "
                                                                                  "shows at most"),
        "large.csv": ("#" * 2**21 + "\n" + whole, "bytes; an explorer reads at most 2,097,152, lpkit plan more"),
    }  # fmt: skip


@pytest.mark.parametrize("view", VIEWS)
def test_a_file_that_cannot_be_a_network_is_a_sentence_in_every_view(tmp_path, view):
    for name, (content, message) in hostile(tmp_path).items():
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        error = tried(figure_of, State(str(tmp_path / name), processors=1, view=view))
        assert isinstance(error, Exception) and message in str(error) and len(str(error)) < 600, (name, error)
        assert "\n" not in str(error), name
    assert "is a folder; give a file in it" in str(tried(figure_of, State(str(tmp_path), view=view)))


@pytest.mark.parametrize("name", ["x" * 5000, "x" * 300 + ".csv", "/".join(["x" * 200] * 9), "a\0b.csv"])
def test_a_name_that_no_file_has_is_refused_in_a_sentence(name):
    with pytest.raises(ValueError, match="no file has that name, give a built-in name or the path of a file") as error:
        State(name)
    assert len(str(error.value)) < 200


@pytest.mark.parametrize("view", VIEWS)
def test_names_are_drawn_as_they_are_whatever_signs_they_hold(tmp_path, view):
    names = ["$\\frac{$", "$a^2$", "<b>bold</b>", "x" * 3000]
    file = tmp_path / "a$_$b$<script>.csv"
    file.write_text("Layer name, M, N, K,\n" + "".join(f"{name}, 64, 32, 16,\n" for name in names))
    state = State(str(file), processors=2, view=view)
    assert png(figure_of(state)) and png(figure_of(state, replace(state, network="lenet5")))
    assert len(max(text_of(state).splitlines(), key=len)) < 500


@pytest.mark.parametrize("bandwidth", [1e-290, 1e-9, 9e17])
def test_links_of_any_speed_have_a_timeline(bandwidth):
    assert png(figure_of(State("sample4", processors=2, view="timeline", bandwidth=bandwidth)))


def test_a_label_names_few_of_many_differences():
    names = list(cases_of(MIXED, State()))
    assert names[1] == "now: network lenet5, rows 16, columns 8 and 9 more"
    assert max(map(len, names)) < 90


def test_numbers_of_the_text_have_one_style():
    assert not re.search(r"\de[+]", text_of(State()) + text_of(State("resnet50", processors=2, planner="pipedream")))


@pytest.mark.parametrize("network", ["vgg16", "resnet50", "sample4"])
def test_delays_of_the_graph_stand_clear_of_the_nodes(network):
    axis = figure_of(State(network, processors=4, view="graph")).axes[0]
    discs = next(c for c in axis.collections if type(c).__name__ == "EllipseCollection").get_offsets()
    delays = next(c for c in axis.collections if [to_hex(color).upper() for color in c.get_facecolor()] == [DELAYS])
    apart = np.hypot(*(delays.get_offsets()[:, None] - discs).transpose(2, 0, 1)).min(axis=1)
    assert len(apart) >= 10 and apart.min() > 0.27 + 0.1


def test_a_legend_has_a_key_to_each_of_its_words():
    figure = figure_of(State("sample4", processors=3, view="speedup"))
    keys = [artist for artist in figure.artists if hasattr(artist, "get_marker")]
    assert len(keys) == 3 and not any(key.get_clip_on() for key in keys)


STATES = st.builds(
    State, st.sampled_from(["sample4", "lenet5", "alexnet", "unet"]), rows=st.integers(1, 512),
    columns=st.integers(1, 512),
    dataflow=st.sampled_from(["ws", "os", "is"]), batch=st.integers(1, 1024), processors=st.integers(1, 12),
    planner=st.sampled_from(list(lp.PLANNERS)), delta=st.sampled_from(["col2im", "zero_insert", "phases"]),
    G=st.sampled_from("ab"), first_layer_delta=st.booleans(),
    layers=st.sampled_from(["all", "convolutions", "main_path"]),
    bandwidth=st.none() | st.floats(1e-3, 1e6), view=st.sampled_from(VIEWS),
)  # fmt: skip


def tried(function, *states):
    try:
        return function(*states)
    except (ValueError, FileNotFoundError) as error:
        return error


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(STATES, st.none() | STATES)
def test_any_state_gives_a_figure_and_a_text_or_one_sentence(state, pinned):
    figure, text = tried(figure_of, state, pinned), tried(text_of, state, pinned)
    assert isinstance(figure, Exception) == isinstance(text, Exception)
    if isinstance(figure, Exception):
        assert str(figure) == str(text) and "\n" not in str(figure) and len(str(figure)) > 20
        assert len(costs_of(state)) < state.processors or len(costs_of(pinned)) < pinned.processors
    else:
        assert png(figure)[:4] == b"\x89PNG"
        assert len(table_for(state, pinned)) or state.processors == 1
        assert repeated(replace(state, view="loads")).period == plan_of(state).period


# ---- the widget ---------------------------------------------------------------------------------------------------

widgets = pytest.importorskip("ipywidgets", reason="the widget needs the extra 'notebooks'")


def all_of(widget):
    """The widget and what it holds, depth first."""
    return [widget, *(inner for child in getattr(widget, "children", ()) for inner in all_of(child))]


class Handle:
    """The parts of an explorer, by what they say."""

    def __init__(self, **initial):
        self.ui = explore.explorer(**initial)
        self.parts = {part.description: part for part in all_of(self.ui) if getattr(part, "description", "")}
        self.image = next(part for part in all_of(self.ui) if isinstance(part, widgets.Image))
        self.view = next(part for part in all_of(self.ui) if isinstance(part, widgets.ToggleButtons))
        self.error, self.text, self.written, _ = (p for p in all_of(self.ui) if isinstance(p, widgets.HTML))

    def __getitem__(self, description):
        return self.parts[description]


def test_the_widget_shows_what_the_functions_give():
    handle = Handle(network="sample4", processors=3)
    assert handle.image.value == png(figure_of(SMALL))
    handle["array rows"].value = 64
    handle["processors"].value = 2
    handle["network"].value = "alexnet"
    handle["planner"].value = "algorithm1"
    handle.view.value = "speedup"
    now = State("alexnet", rows=64, processors=2, planner="algorithm1", view="speedup")
    assert handle.image.value == png(figure_of(now))
    assert text_of(now).splitlines()[0] in handle.text.value
    assert "lpkit plan alexnet --processors 2 --planner algorithm1 --array 64x32" in handle.text.value


def test_every_field_has_a_control():
    begun = Handle(**{field.name: getattr(MIXED, field.name) for field in fields(State)})
    assert begun.image.value == png(figure_of(MIXED))
    assert begun["array rows"].label == "16 rows" and begun["links"].label == "2.5 bytes a cycle"


def test_no_control_redraws_while_it_moves():
    parts = all_of(explore.explorer(network="sample4"))
    moving = [part for part in parts if hasattr(part, "continuous_update")]
    assert len(moving) >= 6 and not any(part.continuous_update for part in moving)
    assert not any(type(part).__name__ == "Output" for part in parts)


def test_an_impossible_state_removes_the_picture_and_says_why():
    handle = Handle(network="sample4", processors=4)
    good = handle.image.value
    handle["processors"].value = 5
    assert handle.image.value == empty_png() and handle.text.value == ""
    assert "processors is 5" in handle.error.value
    handle["processors"].value = 4
    assert handle.image.value == good and handle.error.value == ""


def test_a_fault_leaves_no_picture_that_looks_current(monkeypatch):
    handle = Handle(network="sample4")
    monkeypatch.setattr(explore, "draw", lambda *_: 1 / 0)
    handle["mini-batch"].value = 64
    assert handle.image.value == empty_png()
    assert "this should not have happened: ZeroDivisionError" in handle.error.value


def test_an_own_file_is_read_when_its_path_is_written(files):
    handle = Handle(network="sample4", processors=2)
    handle["own file"].value = str(files / "own net.csv")
    assert handle["network"].value == "own file"
    assert handle.image.value == png(figure_of(State(str(files / "own net.csv"), processors=2)))
    handle["own file"].value = "<b>.csv"
    assert "there is no file &#x27;&lt;b&gt;.csv&#x27;" in handle.error.value
    handle["own file"].value = ""
    assert "no file is named" in handle.error.value
    handle["network"].value = "sample4"
    assert handle.error.value == ""


def test_pinning_compares_and_unpinning_ends_it():
    handle = Handle(network="sample4", processors=3)
    alone = handle.image.value
    handle["pin this"].click()
    handle["array rows"].value = 64
    now = replace(SMALL, rows=64)
    assert handle.image.value == png(figure_of(now, SMALL)) and "now against pinned" in handle.text.value
    handle["unpin"].click()
    assert handle.image.value == png(figure_of(now)) and handle["unpin"].disabled
    handle["array rows"].value = 32
    assert handle.image.value == alone


def test_a_pin_that_became_impossible_is_named_and_can_be_taken_off(files):
    handle = Handle(network=str(files / "topology.csv"), processors=2)
    handle["pin this"].click()
    (files / "topology.csv").unlink()
    handle["network"].value = "sample4"
    assert "the pinned configuration cannot be drawn, unpin it: there is no file" in handle.error.value
    assert handle.image.value == empty_png() and handle.text.value == ""
    handle["processors"].value = 9
    assert "processors is 9" in handle.error.value and "pinned" not in handle.error.value
    handle["processors"].value = 2
    handle["unpin"].click()
    assert handle.error.value == "" and handle.image.value == png(figure_of(State("sample4", processors=2)))


def test_what_cannot_be_drawn_cannot_be_pinned():
    handle = Handle(network="sample4", processors=9)
    handle["pin this"].click()
    assert handle["unpin"].disabled


def test_nothing_is_collected_while_a_picture_is_made_and_collecting_goes_on_after_an_error():
    def fails():
        assert not gc.isenabled()
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        undisturbed(fails)()
    assert gc.isenabled()
    gc.disable()
    try:
        assert undisturbed(gc.isenabled)() is False and not gc.isenabled()
    finally:
        gc.enable()


def test_a_picture_holds_the_pixels_of_the_figure():
    figure = figure_of(SMALL)
    found = np.asarray(Image.open(io.BytesIO(png(figure))))
    assert np.array_equal(found, np.asarray(figure.canvas.buffer_rgba())[:, :, :3]) and found.shape == (450, 960, 3)


@pytest.mark.parametrize("text", ["LayerPipe (optimal) AV Te. 1e7", "a b ", "", "$x$", "δ 10⁻⁵"])
def test_a_word_put_together_is_the_one_that_matplotlib_lays_out(text):
    own, whole = (_outline.__wrapped__(text, 9, 0, "left", "bold"), _glyphs(text, "bold")[0])
    assert np.allclose(own.vertices[:, 0], (whole[:, 0] - whole[:, 0].min(initial=1e9)) * 0.09, atol=1e-9)


def test_the_button_writes_the_current_view(tmp_path):
    handle = Handle(network="sample4", processors=3)
    handle["folder"].value = str(tmp_path / "out")
    handle["write SVG and CSV"].click()
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["explorer_loads.csv", "explorer_loads.svg"]
    assert "written" in handle.written.value
    handle["folder"].value = ""
    handle["write SVG and CSV"].click()
    assert "the folder has no name" in handle.written.value


@pytest.mark.parametrize("folder, message", [
    ("x" * 5000, "its name is too long, or holds a zero byte; choose another"),
    ("y" * 256 + "/z", "its name is too long, or holds a zero byte; choose another"),
    ("a\0b", "its name is too long, or holds a zero byte; choose another"),
    ("~nobody-of-this-name/x", "begins with a user who has no home here; give its whole path"),
    ("/dev/null/x", "choose a folder you may write to"),
])  # fmt: skip
def test_a_folder_that_cannot_be_is_a_short_sentence(folder, message):
    handle = Handle(network="sample4", processors=3)
    handle["folder"].value = folder
    handle["write SVG and CSV"].click()
    assert message in handle.written.value and len(handle.written.value) < 300
    assert handle.error.value == "" and handle.image.value != empty_png()


def test_nothing_is_written_while_an_error_is_shown(tmp_path):
    handle = Handle(network="sample4", processors=9)
    handle["folder"].value = str(tmp_path / "out")
    handle["write SVG and CSV"].click()
    assert "processors is 9" in handle.written.value and not (tmp_path / "out").exists()


def test_markup_in_a_name_is_shown_as_text(tmp_path):
    file = tmp_path / "<img src=x onerror=alert(1)>.csv"
    file.write_text("Layer name, M, N, K,\n<script>, 64, 32, 16,\n")
    handle = Handle(network=str(file), processors=1)
    assert handle.error.value == "" and "&lt;img" in handle.text.value
    assert not re.search("<(img|script)", handle.text.value)


def test_room_is_kept_for_an_error():
    assert Handle(network="sample4").error.layout.min_height == "28px"


def test_a_state_of_another_kind_is_refused():
    with pytest.raises(ValueError, match="state is 3; give a State, or its fields by name"):
        explore.explorer(3)


def test_an_unknown_field_is_refused():
    with pytest.raises(ValueError, match="the explorer has no 'row'; it has network, rows, columns"):
        explore.explorer(row=3)


def test_without_ipywidgets_it_says_what_to_install(monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(explore_widgets.importlib, "import_module", missing)
    with pytest.raises(ValueError, match="ipywidgets is not installed; install it with the extra"):
        explore.explorer()


def test_showing_gives_no_text_to_compare(monkeypatch):
    shown = []
    display = explore_widgets.importlib.import_module("IPython.display")
    monkeypatch.setattr(display, "display", lambda data, raw: shown.append((list(data), raw)))
    explore.show(explore.explorer(network="sample4"))
    assert shown == [(["application/vnd.jupyter.widget-view+json"], True)]


def test_memory_is_flat_over_1000_redraws():
    handle = Handle(network="sample4", processors=2)

    def turn(times):
        """So many redraws by the widget, view after view; the objects there are then, and the most memory so far."""
        for n in range(times):
            handle.view.value = VIEWS[n % len(VIEWS)]  # a redraw each, and one more where the array changes
            if n % len(VIEWS) == 0:
                handle["array rows"].value = 48 - handle["array rows"].value
        gc.collect()
        # pandas notes who has looked at a table in weak references, and clears out the dead ones now and then
        objects = sum(not issubclass(type(known), weakref.ref) for known in gc.get_objects())
        return objects, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    handle["array rows"].value = 16
    objects, memory = turn(24)
    still, most = turn(860)
    assert still - objects < 400, f"{still - objects} more objects after 1,000 redraws: one picture has as many"
    assert most - memory < 60_000, (
        f"{most - memory} kB more after 1,000 redraws"
    )  # garbage that waits for its collection
