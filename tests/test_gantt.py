"""Gantt charts: each operation is a box of its own, as long as it takes; window, legend, outline, errors."""

import copy
import io
import time
import warnings
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from lpkit.costs import Costs, costs
from lpkit.gantt import LOOKS, gantt, gantts
from lpkit.partition import Plan, plan
from lpkit.plots import COLORS
from lpkit.schedule import SCHEDULES, layerpipe, one_f_one_b, pipedream, schedule
from lpkit.timeline_paths import critical_path


def moved():
    """Two stages; a third of delta of layer 1 is moved."""
    work = Costs.from_times([6, 6], [6, 10], [6, 6], weight_bytes=[12, 12], input_bytes=[30, 30], cut_bytes=[30],
                            unit="cycles")
    return Plan("by hand", work, 2, ends=(1, 2), moved=((1, 1, 2, 2),))


def boxes(axis, name):
    """(left, right, top, bottom) of each box of that name."""
    found = [c for c in axis.collections if c.get_label() == name]
    corners = [path.vertices for c in found for path in c.get_paths()]
    return sorted((*map(float, (v[:, 0].min(), v[:, 0].max(), v[:, 1].min(), v[:, 1].max())),) for v in corners)


def times(axis, name):
    return [(left, right) for left, right, _, _ in boxes(axis, name)]


def names(axis):
    return {c.get_label() for c in axis.collections}


def legend(figure):
    shown = figure.legends[0]
    return {text.get_text(): handle for text, handle in zip(shown.get_texts(), shown.legend_handles)}


def numbers(axis):
    return [text.get_text() for text in axis.texts]


# ---- what is drawn ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("bandwidth", [None, 4])
def test_every_operation_is_a_box_from_start_to_end(name, bandwidth):
    line = schedule(moved(), name, 3, bandwidth=bandwidth)
    axis = gantt(line).axes[0]
    size = {"cycles": 1, "kcycles": 1000}[axis.get_xlabel()[6:-1]]
    expected = {}
    for operation in line.operations:
        if operation.kind != "U":
            kind = f"send {operation.tensor}" if operation.kind == "send" else operation.kind
            expected.setdefault(kind, []).append((float(operation.start) / size, float(operation.end) / size))
    assert expected.keys() == names(axis) & set(LOOKS)
    for kind, spans in expected.items():
        assert np.allclose(times(axis, kind), sorted(spans), rtol=1e-12, atol=0)


def test_boxes_of_a_lane_do_not_overlap_and_lanes_do_not_touch():
    axis = gantt(layerpipe(moved(), 4, bandwidth=4)).axes[0]
    lanes = {}
    for name in LOOKS:
        for left, right, top, bottom in boxes(axis, name):
            lanes.setdefault((top, bottom), []).append((left, right))
    assert len(lanes) == 4 == len(axis.get_yticks())  # two processors, a link each way
    for spans in lanes.values():
        spans.sort()
        assert all(one[1] <= other[0] for one, other in pairwise(spans))
    edges = sorted(lanes)
    assert all(one[1] < other[0] for one, other in pairwise(edges))


def test_lanes_are_named_from_the_first_processor_down():
    axis = gantt(layerpipe(moved(), 2, bandwidth=4)).axes[0]
    assert [label.get_text() for label in axis.get_yticklabels()] == ["P1", "to P2", "P2", "to P1"]
    assert list(axis.get_yticks()) == sorted(axis.get_yticks()) and axis.yaxis_inverted()


def test_stages_that_share_a_processor_share_a_lane():
    line = replace(pipedream(moved(), 2), processors=(1, 1))
    axis = gantt(line, critical=False).axes[0]
    assert [label.get_text() for label in axis.get_yticklabels()] == ["P1"]
    assert len({box[2:] for name in LOOKS for box in boxes(axis, name)}) == 1


def test_a_window_cuts_what_reaches_out_of_it():
    line = pipedream(moved(), 4)
    axis = gantt(line, first=15, last=40).axes[0]
    assert axis.get_xlim() == (15, 40)
    inside = [o for o in line.operations if o.kind != "U" and o.start < 40 and o.end > 15]
    drawn = [span for name in LOOKS for span in times(axis, name)]
    assert sorted(drawn) == sorted((max(o.start, 15), min(o.end, 40)) for o in inside)
    ticks = next(c for c in axis.collections if c.get_label() == "U").get_segments()
    assert len(ticks) == len({(o.stage, o.end) for o in line.operations if o.kind == "U" and 15 <= o.end <= 40}) > 0


def test_a_window_may_end_after_the_timeline_and_bubbles_do_not():
    line = pipedream(moved(), 2)
    axis = gantt(line, last=1.5 * line.makespan).axes[0]
    assert axis.get_xlim()[1] == 1.5 * line.makespan
    assert set(times(axis, "bubble")) == {(0, line.makespan)} and len(boxes(axis, "bubble")) == line.stages


def test_the_bubbles_are_what_no_operation_covers():
    line = layerpipe(moved(), 5)
    axis = gantt(line).axes[0]
    grey = sum(right - left for left, right in times(axis, "bubble"))
    covered = sum(right - left for name in LOOKS for left, right in times(axis, name))
    assert Fraction(grey - covered).limit_denominator(10**6) / Fraction(grey) == line.bubble_share


def test_the_critical_path_is_outlined_from_the_first_to_the_last_moment():
    line = one_f_one_b(moved(), micro_batches=4)
    axis = gantt(line).axes[0]
    spans = times(axis, "critical path")
    assert spans[0][0] == 0 and spans[-1][1] == line.makespan
    assert all(one[1] == other[0] for one, other in pairwise(spans))
    path = np.asarray(critical_path(line))
    assert sum(b - a for a, b in spans) == (line.end - line.start)[path].sum() == line.makespan
    assert "critical path" in legend(gantt(line))
    without = gantt(line, critical=False)
    assert not {"critical path", "critical steps"} & names(without.axes[0]) and "critical path" not in legend(without)


def test_a_number_stands_where_it_fits():
    line = pipedream(moved(), 4)
    assert {"0", "1", "2", "3"} == set(numbers(gantt(line).axes[0]))
    long = pipedream(moved(), 400)
    assert numbers(gantt(long).axes[0]) == []
    assert {"200"} <= set(numbers(gantt(long, first=200 * long.period, last=204 * long.period).axes[0]))


def test_layers_of_a_stage_share_a_number():
    chain = Plan("by hand", Costs.from_times([3] * 3, 3, 0, unit="cycles"), 1, ends=(3,))
    axis = gantt(schedule(chain, "gpipe", micro_batches=1)).axes[0]
    assert len(boxes(axis, "F")) == 3 and len(boxes(axis, "G")) == 3
    assert numbers(axis) == ["0", "0"]


# ---- looks --------------------------------------------------------------------------------------------------------


def test_colours_and_hatches():
    axis = gantt(layerpipe(moved(), 3, bandwidth=4)).axes[0]
    found = {c.get_label(): c for c in axis.collections}
    assert {n: to_hex(found[n].get_facecolor()[0]).upper() for n in ("F", "G", "delta", "delta'")} == {
        "F": COLORS["F"], "G": COLORS["G"], "delta": COLORS["delta"], "delta'": COLORS["delta"]}
    assert to_hex(found["delta''"].get_facecolor()[0]) == "#ffffff"
    assert to_hex(found["delta''"].get_edgecolor()[0]).upper() == COLORS["delta"]
    assert {n for n in LOOKS if n in found and found[n].get_hatch()} == {"delta'", "delta''", "send delta''"}


def test_the_looks_differ():
    operations = [look for name, look in LOOKS.items() if not name.startswith("send")]
    sends = [look for name, look in LOOKS.items() if name.startswith("send")]
    assert len(set(operations)) == len(operations) and len(set(sends)) == len(sends)


def test_the_legend_holds_what_is_seen():
    plain = legend(gantt(pipedream(Plan("by hand", moved().costs, 2, ends=(1, 2)), 2)))
    assert list(plain) == ["F", "delta", "G", "update", "bubble (waits)", "critical path"]
    full = legend(gantt(layerpipe(moved(), 2, bandwidth=4)))
    assert set(full) - set(plain) == {"delta' (stays)", "delta'' (of the stage before)", "send a", "send delta",
                                      "send delta''", "send W"}
    assert full["delta'' (of the stage before)"].get_hatch() and not full["G"].get_hatch()


def test_the_legend_covers_no_operation():
    figure = gantt(layerpipe(moved(), 3))
    figure.savefig(io.BytesIO(), format="png")
    assert figure.legends[0].get_window_extent().y1 <= figure.axes[0].get_window_extent().y0


@pytest.mark.parametrize("unit, factor, label", [
    ("cycles", 1, "cycles"), ("cycles", 10**3, "kcycles"), ("cycles", 10**7, "Mcycles"), ("s", 1e-3, "ms"),
    ("s", 1e-6, "µs"), ("s", 1.0, "s"), ("cycles", 10**15, "Tcycles")])  # fmt: skip
def test_units_of_the_axis(unit, factor, label):
    work = Costs.from_times([6 * factor, 6 * factor], 6 * factor, 6 * factor, unit=unit)
    axis = gantt(pipedream(Plan("by hand", work, 2, ends=(1, 2)), 2)).axes[0]
    assert axis.get_xlabel() == f"time [{label}]"
    powers = {"k": 1e3, "M": 1e6, "T": 1e12, "m": 1e-3, "µ": 1e-6}
    power = powers.get(label[0] if label not in ("s", "cycles") else "", 1)
    assert times(axis, "F")[0] == pytest.approx((0, 6 * factor / power))


def test_several_share_the_axis_of_time():
    lines = {"one after the other": schedule(moved(), "sequential", 3), "LayerPipe": layerpipe(moved(), 3)}
    figure = gantts(lines, title="both")
    assert [axis.get_title("left") for axis in figure.axes] == list(lines)
    assert {axis.get_xlim() for axis in figure.axes} == {(0, lines["one after the other"].makespan)}
    assert [axis.get_xlabel() for axis in figure.axes] == ["", "time [cycles]"]
    assert figure.get_suptitle() == "both"
    assert times(figure.axes[1], "bubble")[0][1] == lines["LayerPipe"].makespan


def test_a_panel_that_is_over_stays_empty():
    lines = {"long": schedule(moved(), "sequential", 3), "short": pipedream(moved(), 1)}
    figure = gantts(lines, first=lines["short"].makespan + 1)
    assert not names(figure.axes[1]) & set(LOOKS) and numbers(figure.axes[1]) == []
    assert {right - left for left, right in times(figure.axes[1], "bubble")} == {0}
    figure.savefig(io.BytesIO(), format="png")


@pytest.mark.parametrize("kind", ["png", "svg"])
def test_renders_without_a_warning_and_leaves_no_trace(kind):
    before = copy.deepcopy(dict(matplotlib.rcParams))
    figure = gantt(layerpipe(moved(), 3, bandwidth=4), title="LayerPipe")
    assert type(figure) is Figure and dict(matplotlib.rcParams) == before
    stream = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure.savefig(stream, format=kind)
    assert stream.tell() > 5000


def test_twenty_thousand_operations_are_drawn_in_seconds():
    line = layerpipe(plan(costs("resnet50", batch=32), 12), 125)
    begin = time.process_time()
    figure = gantt(line, critical=False)
    figure.savefig(io.BytesIO(), format="png", dpi=80)
    assert time.process_time() - begin < 10  # about 1.7 s; far from the minutes that a patch each would take
    assert sum(len(boxes(figure.axes[0], name)) for name in LOOKS) == (line.end > line.start).sum() > 20_000


# ---- bad input ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("window, message", [
    ({"first": 50, "last": 20},
     "nothing happens from 50 to 20; the timeline runs from 0 to 62, and first must be before last"),
    ({"first": 80}, "nothing happens from 80 to 62; "),
    ({"first": 80, "last": 90}, "nothing happens from 80 to 90; "),
    ({"last": 0}, "nothing happens from 0 to 0; "),
    ({"first": -1}, "first is -1; it must be a time of at least 0"),
    ({"last": float("nan")}, "last is nan; it must be a time of at least 0"),
    ({"last": np.float64("inf")}, "last is inf; it must be a time of at least 0"),
    ({"last": True}, "last is True; it must be a time of at least 0"),
    ({"first": "start"}, "first is 'start'; it must be a time of at least 0")])  # fmt: skip
def test_a_bad_window(window, message):
    line = pipedream(moved(), 2)
    assert line.makespan == 62
    with pytest.raises(ValueError) as error:
        gantt(line, **window)
    assert str(error.value).startswith(message)


def test_what_is_no_timeline():
    with pytest.raises(ValueError, match="^the timeline is 'pipedream'; give a Timeline, as a schedule returns it$"):
        gantt("pipedream")
    for bad in ({}, [pipedream(moved())]):
        with pytest.raises(ValueError, match="; give a mapping of titles to timelines, with at least one$"):
            gantts(bad)


def test_timelines_of_different_units():
    seconds = Plan("by hand", Costs.from_times([1.0, 1.0], 1.0, 1.0), 2, ends=(1, 2))
    with pytest.raises(ValueError, match="^the timelines are in cycles and s; draw those of one unit together$"):
        gantts({"a": pipedream(moved()), "b": pipedream(seconds)})


def test_a_timeline_that_takes_no_time():
    with pytest.raises(ValueError, match="^no operation of the timeline takes time, so there is nothing to draw; "):
        gantt(pipedream(Plan("by hand", Costs.from_times([0], 0, 0, unit="cycles"), 1, ends=(1,))))


@pytest.mark.parametrize("last", [10**400, 1e305])
def test_a_window_that_ends_beyond_what_can_be_drawn(last):
    with pytest.raises(ValueError, match="^last is .*; it must be a time of at least 0, and at most 1e[+]300$"):
        gantt(layerpipe(moved(), 2), last=last)


@pytest.mark.parametrize("options", [{"title": "x" * 5000}, {"last": 1e290}])
def test_long_titles_and_times_leave_room_for_the_lanes(options):
    figure = gantt(layerpipe(moved(), 2), **options)
    figure.savefig(io.BytesIO(), dpi=40)  # a layout without room is a warning, and so an error here
    assert len(figure.axes[0].get_title("left")) <= 103


def test_huge_times_leave_room_for_the_lanes():
    chain = Costs.from_times([1e295, 1e295], 0, 0, unit="u" * 500)
    figure = gantts({"y" * 5000: layerpipe(Plan("by hand", chain, 2, ends=(1, 2)), 3)}, title="x" * 5000)
    figure.savefig(io.BytesIO(), dpi=40)
    assert figure.axes[0].get_xlabel() == "time [T" + "u" * 39 + "...]"
