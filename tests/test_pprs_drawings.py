"""Drawings of graphs and bubbling show every node, edge and pass; curves show the numbers they are given."""

import io

import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import PolyCollection
from matplotlib.patches import FancyArrowPatch

from lpkit import pprs_drawings as drawings
from lpkit.pipeline_time import bubbling, depth_of
from lpkit.pprs_models import chain_of, random_graph
from lpkit.pprs_plots import curve_panels

GRAPHS = [random_graph(seed, nodes) for seed, nodes in ((0, 4), (1, 9), (2, 14))] + [chain_of(1), chain_of(6)]


def passes(parents, samples):
    found = bubbling(parents, samples)
    return pd.DataFrame([("graph", node, k + 1, way, int(start), 1) for way in ("forward", "backward")
                         for node, starts in getattr(found, way).items() for k, start in enumerate(starts)],
                        columns=["graph", "node", "sample", "pass", "start", "slots"])  # fmt: skip


@pytest.mark.parametrize("parents", GRAPHS)
def test_no_two_things_stand_in_one_place_and_edges_run_to_the_right(parents):
    places = drawings.graph_places(parents)
    assert len(set(places.values())) == len(places)
    assert all(places[name][0] < places[node][0] for node, names in parents.items() for name in names)
    assert set(parents) <= set(places)
    bends = sum(places[node][0] - places[name][0] - 1 for node, names in parents.items() for name in names)
    assert sum(isinstance(name, tuple) for name in places) == bends


@pytest.mark.parametrize("parents", GRAPHS)
def test_the_longest_path_is_a_path_as_long_as_the_depth(parents):
    path = drawings.longest_path(parents)
    assert path[0] not in parents and len(path) - 1 == depth_of(parents)
    assert all(name in parents[node] for name, node in zip(path, path[1:]))


@pytest.mark.parametrize("parents", GRAPHS)
def test_a_figure_holds_every_edge_and_every_pass(parents):
    table = passes(parents, 3)
    figure = drawings.graph_figure({"graph": parents}, table, title="all of it")
    left, right = figure.axes
    arrows = [patch for patch in left.patches if isinstance(patch, FancyArrowPatch)]
    assert len(arrows) == sum(map(len, parents.values()))
    assert sum(arrow.get_linewidth() == 2 for arrow in arrows) == depth_of(parents)
    (cells,) = [c for c in right.collections if isinstance(c, PolyCollection)]
    corners = np.array([path.vertices[:4] for path in cells.get_paths()])
    assert len(corners) == len(table) == 6 * len(parents)
    assert corners[:, :, 0].min(axis=1).tolist() == table["start"].tolist()
    rows = [list(parents)[int(y)] for y in corners[:, :, 1].min(axis=1)]
    assert rows == table["node"].tolist()
    figure.savefig(io.BytesIO(), format="png")


def test_colours_tell_forward_from_backward_and_numbers_the_sample():
    axis = drawings.timetable_figure({"chain": passes(chain_of(2), 2)}, ["f1", "f2"]).axes[0]
    colors = {tuple(color) for color in axis.collections[0].get_facecolor()}
    assert len(colors) == 2
    assert sorted(text.get_text() for text in axis.texts) == ["1"] * 4 + ["2"] * 4


def test_bubbling_beside_its_curves():
    curves = pd.DataFrame([(1, 3, 6, 1 / 3, True), (1, 3, 6, 1 / 3, False), (4, 3, 12, 2 / 3, False)],
                          columns=["K", "Delta", "slots", "utilisation", "simulated"])  # fmt: skip
    figure = drawings.bubbling_figure(passes(chain_of(3), 2), curves, title="step")
    busy, slots = [axis for axis in figure.axes if axis.get_xlabel() == "samples K"]
    assert [line.get_ydata().tolist() for line in slots.lines] == [[6, 12], [6]]
    assert busy.lines[0].get_ydata().tolist() == [1 / 3, 2 / 3]


def test_curves_spreads_dots_and_marks():
    rows = pd.DataFrame([("a", "K = 10", "line", 1, 2.0, 1.0, 3.0), ("a", "K = 10", "line", 2, np.inf, 1.0, 3.0),
                         ("a", "K = 2", "line", 1, 5.0, np.nan, np.nan), ("a", "K = 3", "line", 1, np.nan, 1.0, 1.0),
                         ("a", "K = 2 bound", "line", 1, 9.0, np.nan, np.nan),
                         ("a", "memory model", "dot", 1, 4.0, None, None),
                         ("b", "equal", "mark", 7, 1.0, None, None)],
                        columns=["panel", "name", "kind", "x", "y", "low", "high"])  # fmt: skip
    a, b = curve_panels(rows, {"a": ("x", "y"), "b": ("x", "y")}, linear=["b"]).axes
    drawn = {line.get_label(): line for line in a.lines}
    assert set(drawn) == {"K = 10", "K = 2", "K = 2 bound", "memory model"}  # K = 3 has no finite point
    assert drawn["K = 10"].get_ydata().tolist() == [2.0] and len(a.collections) == 1
    assert drawn["K = 2 bound"].get_linestyle() == "--"
    assert drawn["K = 2"].get_color() == drawn["K = 2 bound"].get_color()
    assert sum(drawn["K = 10"].get_color()) < sum(drawn["K = 2"].get_color())  # the larger number is darker
    assert b.lines[0].get_xdata() == [7, 7] and (a.get_yscale(), b.get_yscale()) == ("log", "linear")
