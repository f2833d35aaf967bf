"""Pictures of attacks: what is drawn is what the tables say."""

import numpy as np
import pandas as pd
import pytest
from test_attack_runs import small_attack

from lpkit.attack_drawings import attack_pictures, learning_rates, loss_against_time, ratio_strips


def curves(**columns):
    line = {"Delta": 20, "name": "GD", "time": [0, 2000], "loss": [9.0, 8.0], "low": [9.0, 7.0], "high": [9.0, 8.5]}
    return pd.DataFrame({**line, **columns})


def test_a_panel_for_each_depth_and_grid():
    cases = [(depth, grid, name) for depth in (200, 20) for grid in ("paper", "half") for name in ("GD", "new")]
    rows = pd.concat([curves(Delta=depth, grid=grid, name=name) for depth, grid, name in cases])
    figure = loss_against_time(rows, start=9.5)
    assert [axis.get_title() for axis in figure.axes] == [
        "Delta = 20, paper's grid", "Delta = 200, paper's grid", "Delta = 20, half", "Delta = 200, half"]  # fmt: skip
    for axis in figure.axes:
        lines = {line.get_label(): line for line in axis.lines}
        assert list(lines) == ["GD", "new", "untouched image"]
        assert lines["GD"].get_xdata().tolist() == [0, 2] and lines["GD"].get_ydata().tolist() == [9, 8]
        assert lines["untouched image"].get_ydata() == [9.5, 9.5]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["GD", "new", "untouched image"]
    assert len({line.get_color() for line in figure.axes[0].lines}) == 3


def test_logarithmic_losses():
    axis = loss_against_time(curves(), log=True).axes[0]
    assert axis.get_yscale() == "log"


def settings():
    rows = [("gd", 1, 1e-3, 0, 45.0), ("gd", 1, 1e-5, 0, 9.0), ("agd", 1, 1e-5, 0, 20.0)]
    rows += [("pprs", K, 1e-3, g, 10.0 * K + 1e4 * g) for K in (2, 10) for g in (1e-3, 1e-4)]
    frame = pd.DataFrame(rows, columns=["method", "K", "lr", "gamma", "tail mean"])
    return frame.assign(start=12.5)


def test_maps_show_each_setting_and_the_law_is_where_it_should_be():
    figure = learning_rates(settings(), weight=300)
    small, large, law = figure.axes[:3]
    assert (small.get_title(), large.get_title()) == ("PPRS, K = 2", "PPRS, K = 10")
    assert [text.get_text() for text in small.texts] == ["30", "21"]  # the larger gamma on top
    assert [label.get_text() for label in small.get_yticklabels()] == ["1e-3", "1e-4"]
    lines = {line.get_label(): line for line in law.lines}
    x, y = lines["lambda$^2$ lr / 2"].get_data()
    assert np.allclose(y / x, 45_000)  # 300^2 / 2: 45 for lr = 1e-3
    assert lines["GD"].get_xydata().tolist() == [[1e-5, 9], [1e-3, 45]]
    ((step, loss),) = lines["AGD, at lr / (1 - 0.99)"].get_xydata()
    assert (step, loss) == (pytest.approx(1e-3), 20)


def test_pictures_of_an_attack():
    attack = small_attack()
    colour = np.repeat(attack.image, 3, axis=0)
    moved = attack.result(attack.start + 0.02)
    shown = type(moved)(**{**vars(moved), "image": colour + 0.02, "clipped": colour + 0.02})
    figure = attack_pictures({"GD": shown, "AGD": shown}, colour, ("a", "b", "c"))
    image, *differences, attacked, scores = figure.axes
    assert image.get_title() == f"image:\n{'abc'[attack.clean_class]}"
    assert [axis.get_title() for axis in differences] == [
        f"10 x difference\n{name}\nmax 5.1 / 255" for name in ("GD", "AGD")]  # fmt: skip
    assert np.allclose(differences[0].images[0].get_array(), 0.7)  # 0.5 + 10 * 0.02
    assert np.allclose(attacked.images[0].get_array(), 0.52)
    assert attacked.get_title() == f"attacked by\nAGD:\n{'abc'[moved.predicted]}"
    heights = [bar.get_height() for bar in scores.patches]
    assert heights == pytest.approx([*moved.clean_scores, *moved.scores, *moved.scores])


def test_strips():
    rows = pd.DataFrame({"problem": ["f", "f", "g"], "Delta": [20, 100, 20], "share": 0.1, "ratio": [0.5, 2.0, 1.0]})
    (axis,) = ratio_strips(rows).axes
    assert [label.get_text() for label in axis.get_yticklabels()] == ["f", "g"]
    assert [points.get_offsets().tolist() for points in axis.collections] == [[[0.5, 0], [1.0, 1]], [[2.0, 0]]]
