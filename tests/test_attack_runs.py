"""Runs over the grid of the paper: pieces, seeds, resume, and the tables made of them; on a small network."""

import numpy as np
import pandas as pd
import pytest

from lpkit import attack_runs as module
from lpkit.attack import LinfAttack
from lpkit.attack_runs import attack_runs, budget, main, settings, steps
from lpkit.attack_tables import (
    best_settings,
    best_table,
    curve_rows,
    curves_of_best,
    method_name,
    on_paper_grid,
    results_of_best,
    setting_rows,
    settings_of,
)
from lpkit.graph import INPUT, Network, Node
from lpkit.image_network import ImageNetwork
from lpkit.layerwise import Parameters
from lpkit.operations import Dense, Flatten
from lpkit.smoothing import gd, pprs
from lpkit.traces import Trace


def small_attack(seed=0):
    line = Network("line", (1, 2, 2), (Node("flat", Flatten(), INPUT), Node("fc", Dense(3), "flat")))
    weights = Parameters(np.float32(np.random.default_rng(seed).normal(size=(3, 4)) * 300), np.float32([9, 0, 0]))
    network = ImageNetwork(line, (weights,), (0.0,), (1.0,))
    image = np.full((1, 2, 2), 0.5)
    return LinfAttack(network, image, int(network.scores(image[None])[0].argmin()))


@pytest.fixture
def few(monkeypatch):
    """A grid of few settings and little time."""
    monkeypatch.setattr(module, "SLOTS", {"paper": 40, "quick": 20})
    pairs = ((1e-3, 1e-3), (1e-3, 1e-4), (1e-4, 1e-3))
    alone = ((1e-3, 0), (1e-4, 0))
    monkeypatch.setattr(module, "settings", lambda scale: {("gd", 1): alone, ("agd", 1): alone, ("pprs", 2): pairs})


def test_settings_are_the_papers_and_half_decades_beside():
    paper = settings()
    grid = {(lr, gamma) for lr in (1e-3, 1e-4, 1e-5, 1e-6, 1e-7) for gamma in (1e-3, 1e-4, 1e-5, 1e-6, 1e-7)}
    for K in (2, 10, 100):
        assert grid <= set(paper["pprs", K])
    assert {1e-3, 3e-4, 1e-5, 1e-7} <= {lr for lr, _ in paper["gd", 1]}
    assert all(set(pairs) <= set(paper[key]) for key, pairs in settings("quick").items())
    assert [steps(K, (20,), "paper") * 2 * (K + 19) <= budget(20) for K in (1, 2, 10, 100)] == [True] * 4


def test_pieces_give_what_one_batch_gives(few, tmp_path):
    """With common random numbers it does not matter how the grid is cut."""
    attack = small_attack()
    found = attack_runs(attack, depths=(4,), scale="paper", folder=tmp_path)["pprs", 2, 0]
    whole = pprs(attack, steps(2, (4,), "paper"), K=2, lr=[1e-3, 1e-3, 1e-4], gamma=[1e-3, 1e-4, 1e-3], dtype="float32")
    assert np.allclose(found.values, whole.values, rtol=1e-5) and np.allclose(found.points, whole.points, rtol=1e-5)
    assert found.time(4).tolist() == whole.time(4).tolist() and len(found) == 3
    assert found.settings["gamma"].tolist() == [1e-3, 1e-4, 1e-3]


def test_interrupted_run_goes_on(few, tmp_path, monkeypatch):
    attack, names = small_attack(), []

    def stop(done, pieces, name):
        names.append(name)
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        attack_runs(attack, depths=(4,), scale="paper", folder=tmp_path, progress=stop)
    done, compute, calls = len(names), module._run, []
    monkeypatch.setattr(module, "_run", lambda *given: calls.append(given) or compute(*given))
    resumed = attack_runs(attack, depths=(4,), scale="paper", folder=tmp_path, progress=lambda *_: None)
    assert done == 3 and len(calls) == 6 - 3
    fresh = attack_runs(attack, depths=(4,), scale="paper", folder=tmp_path / "new", progress=lambda *_: None)
    assert resumed.keys() == fresh.keys()
    assert all(np.array_equal(resumed[key].values, fresh[key].values, equal_nan=True) for key in fresh)


@pytest.mark.parametrize("other", [{"weight": 200.0}, {"margin": 0.5}, {"reduction": "mean"}, {"ties": "shared"}])
def test_another_attack_is_computed_anew(few, tmp_path, monkeypatch, other):
    attack = small_attack()
    attack_runs(attack, depths=(4,), scale="paper", folder=tmp_path)
    compute, calls = module._run, []
    monkeypatch.setattr(module, "_run", lambda *given: calls.append(given) or compute(*given))
    changed = LinfAttack(attack.network, attack.image, attack.target, **other)
    attack_runs(changed, depths=(4,), scale="paper", folder=tmp_path)
    assert len(calls) == 6


def test_seeds_change_pprs_only(few):
    runs = attack_runs(small_attack(), depths=(4,), seeds=(3, 5))
    assert list(runs) == [("gd", 1, 3), ("agd", 1, 3), ("pprs", 2, 3), ("pprs", 2, 5)]
    assert not np.array_equal(runs["pprs", 2, 3].values, runs["pprs", 2, 5].values)


def test_nothing_is_printed_where_there_is_no_terminal(few, capsys):
    attack_runs(small_attack(), depths=(4,))
    assert capsys.readouterr() == ("", "")


def test_progress_on_a_terminal(few, capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    attack_runs(small_attack(), depths=(4,))
    shown = capsys.readouterr().err
    assert "1 of 3: gd, K = 1, seed 0" in shown and shown.endswith("\n") and shown.count("\n") == 1


def trace_of(values, K=1, method="gd", **settings):
    values = np.array(values, dtype=float)
    given = {"lr": np.full(len(values), 1e-3)} | {name: np.array(v) for name, v in settings.items()}
    return Trace(method, "f", values, np.arange(values.shape[1]), values[:, :1], given, (len(values),),
                 np.full(len(values), -1), K)  # fmt: skip


def test_pieces_of_which_one_stopped_early_are_joined():
    joined = module._joined([trace_of([[3, 2]]), trace_of([[3, 2, 1], [3, 3, 3]])])
    assert joined.iterations.tolist() == [0, 1, 2] and len(joined) == 3
    assert np.isnan(joined.values[0, 2]) and joined.tail_mean().tolist() == [np.inf, 1, 3]


def test_setting_rows_by_hand(monkeypatch):
    """At Delta = 1 a step takes 2 slots; 20 slots are 10 steps, of which the last is the tail."""
    monkeypatch.setattr(module, "SLOTS", {"paper": 20})
    values = [[*range(12, 0, -1), 0], [5.0] * 8 + [np.nan] * 5]
    first, second = setting_rows(trace_of(values), [1], targets=(6,))
    assert (first["T"], first["time"], first["tail mean"], first["start"]) == (10, 20, 2.0, 12.0)
    assert (first["T long"], first["tail mean long"], first["time to 6"], first["gamma"]) == (12, 0.5, 12.0, 0.0)
    assert second["tail mean"] == second["tail mean long"] == np.inf and second["time to 6"] == 14 - 14


def frame(**columns):
    given = {"image": 0, "seed": 0, "Delta": 20, "method": "pprs", "K": 2, "lr": 1e-3, "gamma": 1e-3, "tail mean": 1.0}
    return pd.DataFrame(given | columns)


def test_best_settings_by_hand():
    rows = frame(lr=[1e-3, 3e-4, 1e-4, 1e-4], gamma=[1e-3, 1e-3, 1e-3, 1e-3], seed=[0, 0, 0, 1],
                 **{"tail mean": [4.0, 1.0, 2.0, 3.0]})  # fmt: skip
    (paper,) = best_settings(rows).to_dict("records")
    assert (paper["lr"], paper["tail mean"], paper["low"], paper["high"]) == (1e-4, 2.0, 2.0, 3.0)
    (wider,) = best_settings(rows, "half decades").to_dict("records")
    assert (wider["lr"], wider["low"], wider["high"]) == (3e-4, 1.0, 1.0)


def test_papers_grid():
    rows = frame(K=[1, 1, 2, 2], lr=[1e-7, 3e-4, 1e-3, 1e-3], gamma=[0, 0, 1e-2, float(np.float32(1e-3))])
    assert on_paper_grid(rows).tolist() == [True, False, False, True]


def test_curves_are_medians_of_spans():
    points = curve_rows(trace_of([[9, 5, 1, 3, 7, 8, 6]]), 0, 1, 100, pieces=2)
    assert [(p["time"], p["loss"], p["low"], p["high"]) for p in points] == [(0, 9, 9, 9), (4, 3, 1, 5), (10, 7, 6, 8)]
    assert [p["time"] for p in curve_rows(trace_of([[9, 5, 1, 3]]), 0, 1, 4)] == [0, 2, 4]
    assert len(curve_rows(trace_of([[9, 5, np.nan]]), 0, 1, 100)) == 2


def test_curves_of_best_are_those_of_the_runs(few):
    runs = attack_runs(small_attack(), depths=(4, 9))
    rows = settings_of(runs, "small", (4, 9), scale="quick")
    assert rows.groupby(["method", "Delta"]).size().to_dict() == {
        ("gd", 4): 2, ("gd", 9): 2, ("agd", 4): 2, ("agd", 9): 2, ("pprs", 4): 3, ("pprs", 9): 3}  # fmt: skip
    best = best_settings(rows)
    curves = curves_of_best(runs, best, scale="quick")
    for row in best.to_dict("records"):
        curve = curves[(curves["name"] == method_name(row["method"], row["K"])) & (curves["Delta"] == row["Delta"])]
        trace = runs[row["method"], row["K"], 0]
        gamma = trace.settings.get("gamma", np.zeros(len(trace)))
        same = np.isclose(trace.settings["lr"], row["lr"]) & np.isclose(gamma, row["gamma"])
        assert curve["loss"].iloc[-1] == pytest.approx(trace.values[same, row["T"]].item())


def test_results_of_best_are_those_of_the_last_points(few):
    attack = small_attack()
    runs = attack_runs(attack, depths=(4,))
    best = best_settings(settings_of(runs, "small", (4,), scale="quick"))
    results = results_of_best(attack, runs, best)
    assert list(results) == ["GD", "AGD", "PPRS, K = 2"]
    gd_runs = runs["gd", 1, 0]
    assert results["GD"].objective == pytest.approx(gd_runs.values[gd_runs.best(), -1])


def test_table_of_the_best_by_hand():
    first = frame(lr=[1e-3, 3e-4], **{"tail mean": [4.0, 1.04]})
    other_seed = frame(lr=[1e-3], seed=1, **{"tail mean": [6.0]})
    rows = pd.concat([first, other_seed, frame(method="gd", K=1, lr=[1e-5], gamma=0, **{"tail mean": [8.0]})])
    rows = rows.reset_index(drop=True)
    table = best_table(rows)
    assert table["grid"].tolist() == ["paper", "half decades"]
    assert table["PPRS, K = 2"].tolist() == ["4.0 (4.0 to 6.0) at 1e-3, 1e-3", "1.0 at 3e-4, 1e-3"]
    assert table["GD"].tolist() == ["8.0 at 1e-5"] * 2 and list(table)[3:] == ["GD", "PPRS, K = 2"]


def test_gd_of_the_runs_is_gd(few):
    attack = small_attack()
    assert np.array_equal(attack_runs(attack, depths=(4,))["gd", 1, 0].values,
                          gd(attack, 10, lr=[1e-3, 1e-4], dtype="float32").values)  # fmt: skip


@pytest.mark.parametrize("call, message", [
    (lambda: attack_runs(None, scale="huge"), "scale is 'huge'"),
    (lambda: attack_runs(None, depths=[0]), "depth is 0; it must be a whole number from 1"),
    (lambda: attack_runs(None, depths=[]), "depths or seeds are empty; give at least one of each"),
    (lambda: attack_runs(None, seeds=[-1]), "seed is -1; it must be a whole number from 0"),
])  # fmt: skip
def test_bad_input(call, message):
    with pytest.raises(ValueError) as error:
        call()
    assert message in str(error.value)


def test_command_says_what_is_wrong_in_a_line(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["no such picture.png", "frog"])
    assert ended.value.code == 2 and "no such picture.png" in capsys.readouterr().err.splitlines()[-1]
