"""Drawings of graphs show every node, every delay and the loop they are asked to mark."""

import io

import numpy as np
import pandas as pd
import pytest
from matplotlib.patches import Circle, FancyArrowPatch

from lpkit import drawings
from lpkit.dfg import DFG, backprop_dfg, iteration_bound
from lpkit.retiming import delay_gradients, derive, split_delta

SPLIT = split_delta(derive(3)[-1].dfg, 2, 1)


@pytest.mark.parametrize("dfg", [backprop_dfg(4), derive(5, (1, 1, 2, 3, 3))[-1].dfg, SPLIT],
                         ids=["plain", "stages", "split"])  # fmt: skip
def test_places_of_backprop_graphs_keep_nodes_apart(dfg):
    places = np.array(list(drawings.backprop_places(dfg).values()))
    gaps = np.linalg.norm(places[:, None] - places[None], axis=-1) + 9 * np.eye(len(places))
    assert gaps.min() > 2 * drawings.RADIUS


@pytest.mark.parametrize("dfg, places", [
    (SPLIT, drawings.backprop_places(SPLIT)),
    (DFG({"a": 1, "b": 2}, [("a", "b", 0), ("b", "a", 3), ("b", "b", 1)]), {"a": (0, 0), "b": (2, 0)}),
])  # fmt: skip
def test_a_panel_holds_every_node_edge_and_delay(dfg, places):
    figure = drawings.graph_panels({"graph": dfg}, places, show_times=True)
    axis = figure.axes[0]
    texts = [text.get_text() for text in axis.texts]
    delays = sorted(f"{w}D" if w > 1 else "D" for _, _, w in dfg.edges if w)
    assert sorted(t for t in texts if t.rstrip("D").isdigit() or t == "D") == delays
    assert len(texts) == len(dfg.nodes) + len(delays)
    arrows = sum(isinstance(patch, FancyArrowPatch) for patch in axis.patches)
    own = sum(u == v for u, v, _ in dfg.edges)
    assert arrows + own == len(dfg.edges)
    assert sum(isinstance(patch, Circle) for patch in axis.patches) == len(dfg.nodes) + own
    figure.savefig(io.BytesIO(), format="png")


def test_the_critical_loop_is_drawn_strong():
    dfg = backprop_dfg(3)
    loop = iteration_bound(dfg).loop
    axis = drawings.graph_panels({"graph": dfg}, drawings.backprop_places(dfg), loops={"graph": loop}).axes[0]
    assert sum(isinstance(p, FancyArrowPatch) and p.get_linewidth() == 2 for p in axis.patches) == len(loop)


def test_curves_show_what_they_are_given():
    bounds = pd.DataFrame({"M": [0, 2], "largest step (theory)": [2, 0.6], "largest step (measured)": [1.9, 0.7]})
    curves = {0: np.ones((90, 2)), 2: 3 * np.ones((90, 2))}
    block, left, right = drawings.delay_curves(curves, bounds, delay_gradients(backprop_dfg(1), {1: 7})).axes
    assert "7D" in [text.get_text() for text in block.texts]
    assert [line.get_ydata().max() for line in left.lines] == pytest.approx([1, 3])
    assert right.lines[1].get_ydata().tolist() == [1.9, 0.7]
    rows = pd.DataFrame([("none", 0.1, s, e, 1.0 * s + e) for s in (0, 2) for e in (1, 2)],
                        columns=["method", "step_size", "seed", "epoch", "loss"])  # fmt: skip
    (axis,) = drawings.loss_curves(rows).axes
    assert axis.lines[0].get_ydata().tolist() == [2.0, 3.0] and axis.get_title().endswith("0.1")
