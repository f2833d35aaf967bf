"""Every drawing function on real data: a picture that renders, leaves no trace, names its axes and fits its text."""

import copy
import io
import struct
import subprocess
import sys
import warnings
from dataclasses import replace
from fractions import Fraction

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from lpkit import plots
from lpkit.claims import VERDICTS, verdicts
from lpkit.costs import READINGS, Costs, costs
from lpkit.partition import PLANNERS, Plan, check_plan, plan
from lpkit.sensitivity import SENSITIVITY_CHOICES, sensitivity
from lpkit.summary import gains
from lpkit.sweep import sweep

SLACK = 2  # pixels


def sample():
    return costs("sample4", **READINGS["closest"].choices())


def swept(networks=("vgg11", "resnet18"), arrays=(32, 64), batches=(16,), processors=(2, 3, 4, 5)):
    return sweep(networks, arrays, batches=batches, processors=processors, planners=tuple(PLANNERS))


def curves(rows, by):
    return rows.pivot_table(index=by, columns="planner", values="speedup")[list(PLANNERS)]


def of_layers():
    return plots.layer_bars(costs("resnet18").to_frame(), title="resnet18 on 32x32 ws, batch 32")


def of_communication():
    layers = costs("vgg16", batch=32, layers="convolutions")
    frame = pd.DataFrame({"layer": layers.layers, "activation": layers.output_bytes, "delta": layers.input_bytes,
                          "weights": layers.weight_bytes})
    return plots.communication_bars(frame, title="vgg16, mini-batch of 32, 4 bytes an element")


def of_stages():
    plans = {"PipeDream": plan(sample(), 3, "pipedream"), "LayerPipe (Algorithm 1)": plan(sample(), 3, "algorithm1"),
             "LayerPipe (optimal)": plan(sample(), 3)}
    return plots.stage_loads(plans, title="sample4")


def of_speedup():
    rows = swept()
    panels = {f"{n}, reading 'plain'": curves(part, "processors") for n, part in rows.groupby("network")}
    return plots.speedup_curves(panels, saturation={label: 4 for label in panels}, title="speedup")


def of_sweep():
    rows = swept()
    line = {"resnet18 (plain)": curves(rows[rows["network"] == "resnet18"], "processors"),
            "arrays (plain)": curves(rows, "array"), "batches (plain)": curves(rows, "batch")}
    return plots.sweep_panels([line, line], title="sweeps")


def of_gain():
    rows = gains(swept(batches=(8,)))
    best = rows[rows["planner"] == "optimal"]
    table = best.pivot_table(index="network", columns="processors", values="throughput gain")
    return plots.gain_table({"reading 'closest'": table, "reading 'plain'": table / 2}, title="gain [%]")


def of_choices():
    few = {name: options[:2] for name, options in SENSITIVITY_CHOICES.items()}
    frame = sensitivity(["sample4"], [32], processors=[2, 3], choices=few)
    return plots.choice_strips(frame, "mean_gain", [*few, "baseline"], marks={"25 %": 0.25, "43 %": 0.43},
                               xlabel="mean throughput gain [%]", title="readings")


def of_verdicts():
    found = verdicts("lp_table3_sample_schedule")
    counts = pd.DataFrame({r: found[f"verdict {r}"].value_counts() for r in READINGS}).T
    return plots.verdict_counts(counts.reindex(columns=list(VERDICTS)).fillna(0).astype(int), title="verdicts")


DRAWINGS = {
    "layer_bars": of_layers, "communication_bars": of_communication, "stage_loads": of_stages,
    "speedup_curves": of_speedup, "sweep_panels": of_sweep, "gain_table": of_gain, "choice_strips": of_choices,
    "verdict_counts": of_verdicts,
}  # fmt: skip
LABELS = {
    "layer_bars": {("", "cycles")}, "communication_bars": {("", "bytes per mini-batch")},
    "stage_loads": {("", "load per mini-batch [cycles]"), ("", "")},
    "speedup_curves": {("processors", "speedup over one processor"), ("processors", "")},
    "sweep_panels": {("processors", "speedup over one processor"), ("array", ""), ("batch", "")},
    "gain_table": {("processors", ""), ("", "")}, "choice_strips": {("mean throughput gain [%]", "")},
    "verdict_counts": {("claims", "")},
}  # fmt: skip
each = pytest.mark.parametrize("name", DRAWINGS)


@pytest.fixture(scope="module")
def settings():
    """matplotlib's global settings before and after each drawing, by name; filled by `figures`."""
    return {}


@pytest.fixture(scope="module")
def figures(settings):
    made = {}
    for name, draw in DRAWINGS.items():
        before = copy.deepcopy(dict(matplotlib.rcParams))
        made[name] = draw()
        settings[name] = before, dict(matplotlib.rcParams)
    return made


def drawn(figure):
    """The renderer after the layout has been made."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return canvas.get_renderer()


def texts(figure):
    """Every text that is drawn: ticks beyond the limits of their axis exist, but are not."""
    hidden = {label for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)
              for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()) for label in (tick.label1, tick.label2)
              if not min(axis.get_view_interval()) <= tick.get_loc() <= max(axis.get_view_interval())}
    return [t for t in figure.findobj(Text) if t.get_text().strip() and t.get_visible() and t not in hidden]


def outside(figure):
    """Texts that lie outside the picture by more than the slack."""
    renderer = drawn(figure)
    left, bottom, right, top = figure.bbox.extents
    found = []
    for text in texts(figure):
        box = text.get_window_extent(renderer)
        if box.x0 < left - SLACK or box.y0 < bottom - SLACK or box.x1 > right + SLACK or box.y1 > top + SLACK:
            found.append(text.get_text())
    return found


def heights(axis):
    """(middle, bottom, top) of each bar."""
    return [(b.get_x() + b.get_width() / 2, b.get_y(), b.get_y() + b.get_height()) for b in axis.patches]


# ---- every figure -------------------------------------------------------------------------------------------------


def test_no_drawing_function_is_left_out():
    functions = {name for name in plots.__all__ if callable(getattr(plots, name))}
    assert functions == set(DRAWINGS) == set(LABELS)


@pytest.mark.parametrize("name, kind", [*((n, "png") for n in DRAWINGS), ("stage_loads", "svg"), ("gain_table", "svg")])
def test_a_figure_that_renders_without_a_warning(figures, name, kind):
    assert type(figures[name]) is Figure
    stream = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figures[name].savefig(stream, format=kind)
    data = stream.getvalue()
    if kind == "svg":
        assert b"<svg" in data and data.rstrip().endswith(b"</svg>")
    else:
        assert data.startswith(b"\x89PNG") and min(struct.unpack(">II", data[16:24])) > 100


@each
def test_axes_are_named(figures, name):
    assert {(axes.get_xlabel(), axes.get_ylabel()) for axes in figures[name].axes} == LABELS[name]


@each
def test_no_text_leaves_the_picture(figures, name):
    assert len(texts(figures[name])) > 5
    assert outside(figures[name]) == []


def test_a_text_that_leaves_the_picture_is_found():
    figure = Figure(figsize=(3, 2))
    axes = figure.subplots()
    axes.text(0.95, 0.5, "much too long for where it starts")
    axes.set_ylabel("load " * 20)
    axes.text(0.1, 0.5, "fits")
    assert sorted(outside(figure)) == ["load " * 20, "much too long for where it starts"]


@each
def test_global_settings_stay_as_they_were(figures, settings, name):
    before, after = settings[name]
    assert after == before
    assert before["axes.spines.top"] != plots.STYLE["axes.spines.top"]  # or nothing could have changed


def test_global_settings_stay_when_drawing_fails():
    before = dict(matplotlib.rcParams)
    with pytest.raises(KeyError):
        plots.layer_bars(pd.DataFrame({"layer": ["conv1"], "F": [1]}))
    assert dict(matplotlib.rcParams) == before


def test_pyplot_is_never_imported():
    program = (
        "import sys, lpkit as lp; made = lp.plan(lp.costs('sample4'), 2);"
        "lp.plots.layer_bars(made.costs.to_frame()).savefig(sys.stderr.buffer, format='png');"
        "lp.plots.stage_loads({'best': made}); print([name for name in sys.modules if 'pyplot' in name])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=120)
    assert (done.returncode, done.stdout.decode().strip()) == (0, "[]") and done.stderr.startswith(b"\x89PNG")


def test_the_documentation_survives_the_style():
    assert plots.layer_bars.__name__ == "layer_bars" and plots.layer_bars.__doc__.startswith("Stacked bars")


# ---- what is drawn ------------------------------------------------------------------------------------------------


def test_layer_bars_stack_to_the_work():
    cost = sample()
    bars = heights(plots.layer_bars(cost.to_frame()).axes[0])
    assert len(bars) == 12
    for layer, work in enumerate(cost.work.tolist()):
        assert max(top for x, _, top in bars if round(x) == layer) == work


def test_stage_bars_stack_to_the_load_and_touch():
    made = plan(sample(), 3)
    axis, other = plots.stage_loads({"best": made, "PipeDream": plan(sample(), 3, "pipedream")}).axes
    taken = [b for b in axis.patches if b.get_hatch()]
    assert [b.get_height() for b in taken] == [amount for _, _, _, amount in made.moved]
    for stage, load in enumerate(made.loads, 1):
        parts = sorted((low, high) for x, low, high in heights(axis) if round(x) == stage)
        assert parts[-1][1] == pytest.approx(load) and parts[0][0] == 0
        assert all(high == pytest.approx(low) for (_, high), (low, _) in zip(parts, parts[1:]))
    assert not [b for b in other.patches if b.get_hatch()]
    assert "period 3.216e7 cycles" in axis.get_title() and "period 4.347e7 cycles" in other.get_title()


def test_two_deltas_taken_over_by_a_stage_stack():
    """Residual networks move two: that of a convolution and that of the projection beside it."""
    chain = Costs.from_times([4, 4, 4, 4], 0, [4, 4, 4, 0], unit="cycles")
    chain = replace(chain, first_consumer=np.array([3, 3, 4, 5]))
    made = Plan("by hand", chain, 2, ends=(2, 4), moved=((1, 1, 2, 2), (2, 1, 2, 3)))
    assert check_plan(made) == ()
    (axis,) = plots.stage_loads({"residual": made}).axes
    assert max(top for x, _, top in heights(axis) if round(x) == 2) == made.loads[1] == 17


@pytest.mark.parametrize("limits", [{"speeds": [1, Fraction(1, 2), 2]}, {"replicas": True, "bandwidth": 100}])
def test_bars_of_processors_that_differ_reach_the_time_of_their_stage(limits):
    cost = Costs.from_times([4, 4, 9], 2, [0, 4, 4], unit="cycles", weight_bytes=[8, 8, 90], output_bytes=10)
    made = plan(cost, 3, **limits)
    assert made.stage_times != made.loads
    figure = plots.stage_loads({"differ": made})
    for stage, time in enumerate(made.stage_times, 1):
        parts = sorted((low, high) for x, low, high in heights(figure.axes[0]) if round(x) == stage)
        assert parts[-1][1] == pytest.approx(float(time)) and parts[0][0] == 0
        assert all(high == pytest.approx(low) for (_, high), (low, _) in zip(parts, parts[1:]))
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert ("all-reduce" in legend) == any(made.allreduce)
    assert figure.axes[0].get_ylabel() == "time per mini-batch [cycles]"


def test_curves_go_through_the_speedups():
    table = pd.DataFrame({"pipedream": [1.0, 1.8], "optimal": [1.0, 2.0]}, index=pd.Index([1, 2], name="processors"))
    axis = plots.speedup_curves({"net": table}, saturation={"net": 2}).axes[0]
    lines = {line.get_label(): list(line.get_ydata()) for line in axis.lines}
    assert lines["PipeDream"] == [1.0, 1.8] and lines["LayerPipe (optimal)"] == [1.0, 2.0]
    assert [t.get_text() for t in axis.texts] == ["saturates at 2"]
    assert not plots.speedup_curves({"net": table}, saturation={"net": None}).axes[0].texts


def test_panels_by_size_have_a_tick_for_each_size():
    table = pd.DataFrame({"optimal": [3.0, 2.0, 1.0]}, index=pd.Index(["32x32", "64x64", "256x256"], name="array"))
    axis = plots.sweep_panels([{"sizes": table}]).axes[0]
    assert [t.get_text() for t in axis.get_xticklabels()] == ["32x32", "64x64", "256x256"]
    assert axis.lines[0].get_xydata().tolist() == [[0, 3], [1, 2], [2, 1]] and axis.get_title() == "(a) sizes"


def test_the_cells_of_a_gain_table_are_percent():
    table = pd.DataFrame([[0.104, 0.431], [0.0, 0.25]], index=["vgg16", "resnet50"], columns=[2, 3])
    axis = plots.gain_table({"plain": table}).axes[0]
    assert [t.get_text() for t in axis.texts] == ["10", "43", "0", "25"]
    assert [t.get_text() for t in axis.get_yticklabels()] == ["vgg16", "resnet50"]


def test_strips_show_each_reading_and_the_median():
    frame = pd.DataFrame({"G": ["a", "b", "a"], "gain": [0.1, 0.5, 0.3]})
    axis = plots.choice_strips(frame, "gain", ["G"], marks={"43 %": 0.43}).axes[0]
    assert [sorted(c.get_offsets()[:, 0].round(9)) for c in axis.collections] == [[10, 30], [50]]
    assert [float(np.mean(line.get_xdata())) for line in axis.lines] == pytest.approx([20, 50, 43])
    assert [t.get_text() for t in axis.get_yticklabels()] == ["G: a", "G: b"]


def test_counts_of_verdicts_stack_to_all_claims():
    counts = pd.DataFrame([[2, 0, 1, 0, 1], [0, 0, 4, 0, 0]], index=["closest", "plain"], columns=list(VERDICTS))
    axis = plots.verdict_counts(counts).axes[0]
    assert [t.get_text() for t in axis.texts] == ["2", "1", "4", "1"]  # by verdict, then by reading; no 0
    assert max(b.get_x() + b.get_width() for b in axis.patches) == 4
