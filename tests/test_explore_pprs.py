"""The explorer of PPRS: pure functions of a state against the optimisers, and the widget against the pure functions."""

import gc
import re
import resource
import weakref
import shlex
import time
from dataclasses import fields, replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lpkit import explore_pprs, explore_pprs_views
from lpkit.attack_tables import frogs
from lpkit.explore_picture import empty_png, png
from lpkit.explore_pprs import PprsState, call_of, command_of, figure_of, table_for, text_of, write_view
from lpkit.explore_pprs_records import offered, recorded, recorded_curve, steps_to
from lpkit.explore_pprs_runs import (
    RATES,
    budget,
    on_one_thread,
    pays_from,
    problem_of,
    runs_of,
    slots,
    start_error,
    steps_made,
)
from lpkit.explore_pprs_state import PROBLEMS, VIEWS
from lpkit.explore_state import differences
from lpkit.explore_pprs_tables import cases_of
from lpkit.explore_pprs_views import _numbers
from lpkit.hard_functions import l1_chain, nesterov_max, smooth_chain
from lpkit.pipeline_time import chain_timeline, pipeline_time
from lpkit.problems import random_max_affine
from lpkit.rates import nonsmooth_lower, pprs_upper, smooth_lower
from lpkit.smoothing import agd, gd, pprs

SMALL = PprsState(dimension=10, steps=30, K=4, seeds=2)
FROG = PprsState("frog", lr=3e-4, target=9)
COMPUTED = [name for name in PROBLEMS if name != "frog"]


# ---- the state ----------------------------------------------------------------------------------------------------


LEAVE = "; give one of these, or leave K, lr and gamma out for the best"


@pytest.mark.parametrize("wrong, message", [
    ({"problem": "rosenbrock"}, "problem is 'rosenbrock'; Known: 'max_affine', 'l1_chain', 'nesterov_max', "
                                "'smooth_chain', "
                                "'frog'"),
    ({"dimension": 1}, "dimension is 1; it must be a whole number from 2 to 200"),
    ({"K": 0}, "K is 0; it must be a whole number from 1 to 1000"),
    ({"Delta": 1001}, "Delta is 1001; it must be a whole number from 1 to 1000"),
    ({"steps": 2.5}, "steps is 2.5; it must be a whole number from 1 to 1000"),
    ({"seeds": 6}, "seeds is 6; it must be a whole number from 1 to 5"),
    ({"lr": 0}, "lr is 0; it must be a finite number above 0 and at most 100"),
    ({"gamma": -1}, "gamma is -1; it must be a finite number of at least 0 and at most 100"),
    ({"lr": 10**400}, "lr is inf; it must be a finite number above 0 and at most 100"),
    ({"gamma": float("nan")}, "gamma is nan; it must be a finite number of at least 0 and at most 100"),
    ({"K": 10**5000}, "K is a whole number of about 5001 digits; it must be a whole number from 1 to 1000"),
    ({"target": 1e-300}, "target is 1e-300; it is a share of the error at the start, from 1e-09 to below 1"),
    ({"mu": "heavy"}, "mu is 'heavy'; give a number of at least 0 and below 1, or 'nesterov'"),
    ({"mu": 1}, "mu is 1.0; it must be below 1, or nothing ever slows down"),
    ({"target": 1}, "target is 1.0; it is a share of the error at the start, from 1e-09 to below 1"),
    ({"target": 0}, "target is 0; it must be a finite number above 0"),
    ({"rates": "worst"}, "rates is 'worst'; Known: 'best', 'same'"),
    ({"view": "loads"}, "view is 'loads'; did you mean 'loss'? Known: 'loss', 'bubbling', 'depth', 'samples', "
                        "'bounds'"),
    ({"problem": "frog", "K": 5}, "K of the frog is 5; recorded are 2, 10, 100" + LEAVE),
    ({"problem": "frog", "K": 10, "lr": 0.01}, "lr of the frog with K = 10 is 0.01; recorded are 1e-05, 0.0001, "
                                               "0.0003, 0.001"
                                               + LEAVE),
    ({"problem": "frog", "K": 10, "lr": 3e-4, "gamma": 0.5}, "gamma of the frog with K = 10 and lr = 0.0003 is "
                                                             "0.5; recorded "
                                                             "are 0.003, 0.01" + LEAVE),
    ({"problem": "frog", "lr": 3e-4, "target": 0.1}, "target of the frog is 0.1; recorded are 9, 8, 7, 6, 5.5, 5; "
                                                     "left out it is 9"),
    ({"problem": "frog", "lr": 3e-4, "target": 9, "Delta": 50}, "Delta of the frog is 50; recorded are 20, 200; "
                                                                "left out "
                                                                  "it is 20"),
])  # fmt: skip
def test_a_wrong_value_is_refused_in_a_sentence(wrong, message):
    with pytest.raises(ValueError) as error:
        PprsState(**wrong)
    assert str(error.value) == message


def test_values_become_plain_and_momentum_may_be_text():
    state = PprsState(K=np.int64(4), lr=np.float32(0.5), mu="0.9")
    assert (state.K, state.lr, state.mu) == (4, 0.5, 0.9)
    assert [type(value) for value in (state.K, state.lr)] == [int, float]
    assert hash(state) == hash(PprsState(K=4, lr=0.5, mu=0.9))


# ---- the runs are those of the optimisers ---------------------------------------------------------------------------

MAKERS = {"max_affine": lambda n: random_max_affine(n, 2 * n), "l1_chain": l1_chain, "nesterov_max": nesterov_max,
          "smooth_chain": smooth_chain}  # fmt: skip


@pytest.mark.parametrize("name", COMPUTED)
@pytest.mark.parametrize("mu", ["nesterov", 0.0, 0.9])
def test_runs_are_those_of_the_optimisers(name, mu):
    state = PprsState(name, dimension=10, steps=40, K=3, lr=0.03, gamma=0.02, mu=mu, seeds=3, rates="same", Delta=7)
    problem = MAKERS[name](10)
    single, fast, ours = runs_of(state)
    assert np.array_equal(single.errors, gd(problem, 40, lr=0.03).values - problem.optimum)
    assert np.array_equal(fast.errors, agd(problem, 40, lr=0.03, mu=mu).values - problem.optimum)
    for seed in range(3):
        trace = pprs(problem, 40, K=3, lr=0.03, gamma=0.02, mu=mu, seed=seed)
        assert np.array_equal(ours.errors[seed], trace.values[0] - problem.optimum)
        target = problem.optimum + state.target * start_error(state)
        assert slots(ours.hits[seed], 3, 7) == trace.time_to_target(target, 7)[0]


def test_gd_and_agd_have_the_best_of_the_learning_rates():
    single, fast, _ = runs_of(SMALL)
    problem = problem_of(SMALL)
    for run, traces in ((single, gd(problem, 30, lr=RATES)), (fast, agd(problem, 30, lr=RATES, mu="nesterov"))):
        means = (traces.values[:, 27:] - problem.optimum).mean(axis=1)
        assert run.lr == RATES[means.argmin()] and run.reached == pytest.approx(means.min(), rel=1e-9)


def test_a_run_that_diverges_never_arrives_and_is_said_to():
    state = PprsState("smooth_chain", lr=100.0, mu=0.9, steps=400, K=1, seeds=1)
    assert np.isinf(runs_of(state)[-1].reached).all()
    assert "PPRS, K 1, lr 100, gamma 0.003: never" in text_of(state)
    for view in VIEWS:
        assert png(figure_of(replace(state, view=view))) != empty_png()


def test_the_work_of_a_redraw_is_bounded_and_what_is_left_out_is_said():
    state = PprsState(K=1000, Delta=1000, steps=1000, seeds=5)
    assert steps_made(state) == 7
    assert runs_of(state)[-1].errors.shape == (5, 8)
    assert "PPRS is shown as far as 7 steps of the 500 that the time has" in text_of(state)
    assert "is shown as far as" not in text_of(PprsState())


def test_gd_has_all_the_time_and_pprs_no_more():
    table = table_for(PprsState(K=7, Delta=5))
    assert table.groupby("method")["time"].max().le(budget(PprsState(Delta=5))).all()
    assert table.query("method == 'GD'")["time"].max() == pipeline_time(150, 1, 5)
    ours = table.query("method == 'PPRS'")
    assert ours["time"].tolist()[:3] == pipeline_time([0, 1, 2], 7, 5).tolist()
    assert (ours["low"] <= ours["loss"]).all() and (ours["loss"] <= ours["high"]).all()


# ---- the views ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("K, Delta", [(1, 1), (3, 4), (10, 20), (30, 40)])
def test_bubbling_is_the_schedule_of_the_simulator(K, Delta):
    table = table_for(PprsState(K=K, Delta=Delta, view="bubbling"))
    line = chain_timeline(K, Delta).to_frame()
    for kind, name in (("F", "forward"), ("delta", "backward")):
        made, own = line[line["kind"] == kind], table[table["pass"] == name]
        busy = {(node, t) for node, start, end in zip(own["node"], own["start"], own["end"]) for t in range(start, end)}
        assert busy == {(node, int(start)) for node, start in zip(made["stage"], made["start"])}
        if K * Delta <= 400:
            cells = set(zip(made["stage"], made["micro_batch"] + 1, made["start"].astype(int)))
            assert set(zip(own["node"], own["sample"], own["start"])) == cells
    assert table["end"].max() == pipeline_time(1, K, Delta)


def test_time_against_depth_crosses_where_the_text_says():
    state = replace(SMALL, view="depth", lr=0.03)
    table = table_for(state)
    *single, ours = runs_of(state)
    assert np.isfinite(ours.hits).all()
    for run in single:
        at = pays_from(ours, run)
        ahead = [slots(np.median(ours.hits), ours.K, depth) < slots(run.hits[0], 1, depth) for depth in range(1, 2000)]
        assert at == (ahead.index(True) + 1 if any(ahead) else None)
        if at is not None:
            assert all(ahead[at - 1 :]) and f"{run.method} from Delta {at} on" in text_of(state)
    own = table[(table["method"] == "PPRS") & (table["Delta"] == state.Delta)]
    assert own["time"].item() == slots(np.median(ours.hits), state.K, state.Delta)


def test_time_against_samples_is_that_of_each_run():
    state = replace(SMALL, view="samples", lr=0.03, Delta=50)
    table, problem = table_for(state), problem_of(state)
    assert table.query("method == 'PPRS'")["K"].tolist() == [1, 4, 5, 25, 100]
    target = problem.optimum + state.target * start_error(state)
    for K, moment in table.query("method == 'PPRS'")[["K", "time"]].itertuples(index=False):
        trace = pprs(problem, 30 * 50 // (K + 49), K=K, lr=0.03, gamma=state.gamma, mu="nesterov", seed=0)
        assert moment == trace.time_to_target(target, 50)[0]
    assert table.query("method == 'GD'")["time"].nunique() == 1
    assert table.query("method == 'GD'")["time"].iloc[0] == slots(runs_of(state)[0].hits[0], 1, 50)


def test_bounds_are_those_of_the_rates():
    table = table_for(replace(SMALL, view="bounds"))
    lower, ours = (table[(table["method"] == name) & (table["kind"] == "bound")] for name in ("no method", "PPRS"))
    assert lower["time"].tolist() == nonsmooth_lower(lower["eps"].to_numpy(), depth=20).tolist()
    assert ours["time"].tolist() == pprs_upper(ours["eps"].to_numpy(), dimension=10, depth=20).tolist()
    smooth = table_for(replace(SMALL, problem="smooth_chain", view="bounds"))
    assert set(smooth.query("kind == 'bound'")["method"]) == {"no method", "AGD"}
    eps = smooth.query("method == 'no method'")["eps"].to_numpy()
    assert smooth.query("method == 'no method'")["time"].tolist() == smooth_lower(eps, depth=20).tolist()


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("problem", COMPUTED)
def test_every_view_is_the_same_picture_each_time(view, problem):
    state = replace(SMALL, problem=problem, view=view)
    first = png(figure_of(state))
    assert first == png(figure_of(state))
    assert first != empty_png()
    assert len(text_of(state).splitlines()) >= 5
    assert not re.search(r"np\.|nan|\binf\b| at 0x", text_of(state))


@pytest.mark.parametrize("view", VIEWS)
def test_a_pin_is_drawn_beside_what_is_current(view):
    pinned, state = replace(SMALL, view="depth"), replace(SMALL, K=8, view=view)
    assert list(cases_of(state, pinned)) == ["pinned: K 4", "now: K 8"]
    assert set(table_for(state, pinned)["case"]) == {"pinned: K 4", "now: K 8"}
    assert png(figure_of(state, pinned)) != png(figure_of(state))
    assert text_of(state, pinned).startswith("pinned: K 4\n")
    assert differences(SMALL, replace(SMALL, view="depth")) == ()


def test_the_text_has_the_speed_up_of_the_times():
    single, _, ours = runs_of(PprsState())
    gain = slots(single.hits[0], 1, 20) / slots(np.median(ours.hits), 10, 20)
    assert f"speed-up over GD {gain:.3g}" in text_of(PprsState())


def test_writing_gives_the_picture_and_its_data(tmp_path):
    paths = write_view(SMALL, tmp_path / "new")
    assert [path.name for path in paths] == ["pprs_explorer_loss.svg", "pprs_explorer_loss.csv"]
    assert pd.read_csv(paths[1])["loss"].tolist() == pytest.approx(table_for(SMALL)["loss"].tolist(), rel=1e-11)
    before = paths[0].read_bytes()
    assert before.lstrip().startswith(b"<?xml") and write_view(SMALL, tmp_path / "new")[0].read_bytes() == before
    with pytest.raises(ValueError, match="the folder has no name; give one, such as explored"):
        write_view(SMALL, "  ")


# ---- the record ---------------------------------------------------------------------------------------------------


def test_every_recorded_setting_is_offered_and_no_other():
    rows = frogs().query("image == 0 and method == 'pprs'")
    made = {(K, lr, gamma) for K in offered() for lr in offered(K) for gamma in offered(K, lr)}
    assert made == {
        (K, float(f"{lr:.6g}"), float(f"{g:.6g}")) for K, lr, g in zip(rows["K"], rows["lr"], rows["gamma"])
    }


def test_every_recorded_setting_has_its_views():
    for K in offered():
        for lr in offered(K):
            state = PprsState("frog", K=K, lr=lr, gamma=offered(K, lr)[0], target=9)
            for view in ("loss", "depth", "samples"):
                assert len(table_for(replace(state, view=view)))
            assert "recorded, not computed" in text_of(state)


def test_recorded_times_are_of_steps_that_do_not_depend_on_the_depth():
    for K, lr, gamma in ((2, 1e-4, 1e-3), (10, 3e-4, 3e-3), (100, 3e-4, 3e-3)):
        hits, short = steps_to(9, "pprs", K, lr, gamma), recorded(20, "pprs", K, lr, gamma)
        assert slots(hits, K, 20) == pytest.approx(short["time to 9"].to_numpy(float))


def test_a_curve_that_was_not_kept_is_shown_by_what_was():
    curve, kept = recorded_curve(20, "pprs", 2, 1e-5, 1e-3)
    assert not kept and curve["time"].iloc[0] == 0 and curve["loss"].iloc[0] == pytest.approx(18.2838)
    table = table_for(PprsState("frog", K=2, lr=1e-5, gamma=1e-3, target=9))
    assert table.groupby("method")["kept"].first().to_dict() == {"AGD": True, "GD": True, "PPRS": False}


def test_the_recorded_attack_has_no_bounds_and_says_so():
    for function in (figure_of, table_for):
        with pytest.raises(ValueError) as error:
            function(replace(FROG, view="bounds"))
        assert str(error.value) == ("no bound is known for the attack: its loss is not convex; choose the view loss, "
                                    "bubbling, depth or samples, or another problem")  # fmt: skip


@pytest.mark.parametrize(
    "given", [{}, {"Delta": 200}, {"K": 2}, {"K": 100, "Delta": 200}, {"lr": 1e-4}, {"gamma": 0.01}]
)
def test_what_is_left_out_of_a_record_is_that_of_its_best(given):
    state = PprsState("frog", **given)
    assert all(getattr(state, name) == value for name, value in given.items())
    rows = frogs().query("image == 0 and method == 'pprs'")
    rows = rows[np.logical_and.reduce([np.isclose(rows[name], v) for name, v in ({"Delta": 20} | given).items()])]
    assert runs_of(state)[-1].reached.mean() == rows.groupby(["K", "lr", "gamma"])["tail mean"].mean().min()
    assert state.target == 9


def test_a_problem_alone_is_enough_everywhere():
    from lpkit.parameters import values

    assert PprsState(**values("pprs_explorer", {"problem": "frog"})) == PprsState("frog")
    assert PprsState(**values("pprs_explorer", {})) == PprsState(K=10, gamma=0.003, lr=0.01, Delta=20, target=0.1)
    assert command_of(PprsState("frog")) == "lpkit figures pprs_explorer --out explored -p problem frog"
    assert PprsState("frog", view="bounds").K == 10


def test_pictures_say_what_limits_them():
    said = png_words(PprsState(view="bounds"))
    assert "lower bound (worst function)" in said
    assert "not within this time: PPRS with K 1, 100" in png_words(PprsState(view="samples"))
    assert "never" not in png_words(PprsState(view="samples"))


def png_words(state):
    """All words of the picture of a state."""
    legends = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(explore_pprs_views, "legend", lambda _, handles: legends.extend(h.get_label() for h in handles))
        figure = figure_of(state)
    return "\n".join([*legends, *(text.get_text() for axis in figure.axes for text in axis.texts)])


# ---- what repeats it ----------------------------------------------------------------------------------------------


def repeated(state):
    """The value of the line of Python."""
    *imports, last = call_of(state).split("; ")
    known = {}
    exec("\n".join(imports), known)
    return eval(last, known)


@pytest.mark.parametrize("name", COMPUTED)
def test_the_python_line_gives_the_run_of_the_first_seed(name):
    state = replace(SMALL, problem=name, mu=0.5)
    problem = problem_of(state)
    traces, told = repeated(state), runs_of(state)[-1].errors
    assert len(traces) == state.seeds
    for trace, errors in zip(traces, told):
        assert np.array_equal(trace.values[0] - problem.optimum, errors[: len(trace.values[0])])
    assert repeated(FROG)["tail mean"].tolist() == runs_of(FROG)[-1].reached.tolist()


@pytest.mark.parametrize("state", [PprsState(), replace(SMALL, K=20), PprsState("smooth_chain", lr=0.3, seeds=1),
                                   PprsState(K=100, steps=1000, seeds=2), PprsState(K=1, steps=20)])  # fmt: skip
def test_the_numbers_of_the_text_follow_from_the_python_line(state):
    traces, problem, start = repeated(state), problem_of(state), start_error(state)
    steps = {trace.values.shape[1] - 1 for trace in traces}
    assert all(slots(made, state.K, state.Delta) <= budget(state) for made in steps)
    tails = [trace.values[0, made - made // 10 :].mean() - problem.optimum for trace in traces for made in steps]
    assert f"gamma {state.gamma:g}: {100 * np.median(tails) / start:.3g} %" in text_of(state).splitlines()[1]
    target = problem.optimum + state.target * start
    moment = np.median([trace.time_to_target(target, state.Delta)[0] for trace in traces])
    said = f"PPRS {moment:,.0f}" if np.isfinite(moment) else "PPRS not within this time"
    assert said in text_of(state).splitlines()[2]


def test_the_default_state_tells_of_the_steps_that_fit_into_its_time():
    assert ", 103, K=10" in call_of(PprsState()) and slots(104, 10, 20) > budget(PprsState()) == 6000


@pytest.mark.parametrize("state", [PprsState(), replace(SMALL, mu=0.9, view="depth", problem="l1_chain"), FROG,
                                   PprsState("frog", K=100, Delta=200),
                                   PprsState("frog", gamma=0.01, target=5)])  # fmt: skip
def test_the_command_gives_the_same_state(state):
    from lpkit.parameters import values

    words = shlex.split(command_of(state))
    assert words[:5] == ["lpkit", "figures", "pprs_explorer", "--out", "explored"]
    assert words[5::3] == ["-p"] * (len(words[5:]) // 3)
    assert PprsState(**values("pprs_explorer", dict(zip(words[6::3], words[7::3])))) == state


STATES = st.builds(
    PprsState, st.sampled_from(COMPUTED), dimension=st.integers(2, 30), K=st.integers(1, 50), Delta=st.integers(1, 100),
    gamma=st.floats(0, 2), lr=st.floats(1e-5, 10), mu=st.just("nesterov") | st.floats(0, 0.99),
    steps=st.integers(1, 40),
    target=st.floats(0.001, 0.99), seeds=st.integers(1, 3), rates=st.sampled_from(["best", "same"]),
    view=st.sampled_from(VIEWS),
)  # fmt: skip


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(STATES, st.none() | STATES)
def test_any_state_gives_a_figure_and_a_text(state, pinned):
    assert png(figure_of(state, pinned))[:4] == b"\x89PNG"
    assert len(table_for(state, pinned))
    assert not re.search(r"np\.|nan|\binf\b", text_of(state, pinned))


# ---- the widget ---------------------------------------------------------------------------------------------------

widgets = pytest.importorskip("ipywidgets", reason="the widget needs the extra 'notebooks'")


def all_of(widget):
    """The widget and what it holds, depth first."""
    return [widget, *(inner for child in getattr(widget, "children", ()) for inner in all_of(child))]


class Handle:
    """The parts of an explorer, by what they say."""

    def __init__(self, state=None, **initial):
        self.ui = explore_pprs.pprs_explorer(state, **initial)
        self.parts = {part.description: part for part in all_of(self.ui) if getattr(part, "description", "")}
        self.image = next(part for part in all_of(self.ui) if isinstance(part, widgets.Image))
        self.view = next(part for part in all_of(self.ui) if isinstance(part, widgets.ToggleButtons))
        self.error, self.text, self.written, *_ = (p for p in all_of(self.ui) if isinstance(p, widgets.HTML))

    def __getitem__(self, description):
        return self.parts[description]


def test_the_widget_shows_what_the_functions_give():
    handle = Handle(SMALL)
    assert handle.image.value == png(figure_of(SMALL))
    handle["samples K"].value = 100
    handle["depth Delta"].value = 200
    handle["problem"].value = "nesterov_max"
    handle["momentum"].value = 0.9
    handle.view.value = "depth"
    now = replace(SMALL, K=100, Delta=200, problem="nesterov_max", mu=0.9, view="depth")
    assert handle.image.value == png(figure_of(now))
    assert text_of(now).splitlines()[0].split(": ")[1] in handle.text.value
    assert "lpkit figures pprs_explorer --out explored -p problem nesterov_max" in handle.text.value


def test_every_field_has_a_control_with_its_unit():
    state = PprsState("smooth_chain", 7, 4, 0.02, 0.07, 0.3, 6, 0.15, 25, 4, "same", "samples")
    begun = Handle(**{field.name: getattr(state, field.name) for field in fields(PprsState)})
    assert begun.image.value == png(figure_of(state))
    sliders = [begun[name] for name in ("samples K", "gamma", "learning rate", "depth Delta", "target", "dimension",
                                        "time",
                                        "seeds")]  # fmt: skip
    labels = [one.options[one.index][0] for one in sliders]
    assert labels == ["4 samples", "0.02 R", "0.07 / beta", "6 nodes", "15 % of the error", "7 coordinates",
                      "25 steps of GD", "4 seeds"]  # fmt: skip


def test_no_control_redraws_while_it_moves():
    parts = all_of(explore_pprs.pprs_explorer(SMALL))
    moving = [part for part in parts if hasattr(part, "continuous_update")]
    assert len(moving) >= 8 and not any(part.continuous_update for part in moving)
    assert not any(type(part).__name__ == "Output" for part in parts)


def test_of_the_record_only_what_was_recorded_is_offered(monkeypatch):
    handle, drawn = Handle(SMALL), []
    monkeypatch.setattr(explore_pprs, "draw", lambda *given, draw=explore_pprs.draw: drawn.append(1) or draw(*given))
    handle["problem"].value = "frog"
    assert len(drawn) == 1, "what a control changes in others is not drawn one by one"
    assert handle.error.value == "" and "recorded, not computed" in handle.text.value
    for K in offered():
        handle["samples K"].value = K
        assert tuple(value for _, value in handle["learning rate"].options) == offered(K)
        for lr in offered(K):
            handle["learning rate"].value = lr
            assert tuple(value for _, value in handle["gamma"].options) == offered(K, lr)
            assert handle.error.value == ""
    assert handle["dimension"].disabled and handle["seeds"].disabled and handle["momentum"].disabled
    handle.view.value = "bounds"
    assert "no bound is known for the attack" in handle.error.value and handle.image.value == empty_png()
    handle["problem"].value = "l1_chain"
    assert handle.error.value == "" and not handle["seeds"].disabled and handle["target"].value == 0.1


def test_a_pin_that_has_not_the_view_is_named():
    handle = Handle(FROG)
    handle["pin this"].click()
    handle["problem"].value = "l1_chain"
    assert handle.error.value == ""
    handle.view.value = "bounds"
    assert "the pinned configuration cannot be drawn, unpin it: no bound is known for the attack" in handle.error.value
    assert handle.image.value == empty_png()
    handle["unpin"].click()
    assert handle.error.value == ""


def test_the_largest_of_everything_is_drawn_without_a_wait():
    largest = PprsState(K=1000, Delta=1000, steps=1000, seeds=5, dimension=200)
    start = time.process_time()
    for view in VIEWS:
        assert png(figure_of(replace(largest, view=view))) != empty_png() and text_of(replace(largest, view=view))
    assert time.process_time() - start < 2 * len(VIEWS)


def test_products_have_one_thread_where_that_can_be_set():
    threads = pytest.importorskip("threadpoolctl", reason="threadpoolctl comes with the extra 'notebooks'")
    with on_one_thread():
        assert {found["num_threads"] for found in threads.threadpool_info() if found["user_api"] == "blas"} == {1}


def test_numbers_of_an_axis_have_one_style():
    assert _numbers([1000.0, 1e4, 1e5]) == ["10³", "10⁴", "10⁵"]
    assert _numbers([1000.0, 1e4]) == ["1,000", "10,000"]


def test_the_record_can_be_where_it_begins():
    assert Handle(problem="frog").image.value == png(figure_of(PprsState("frog")))
    handle = Handle(FROG)
    assert handle.image.value == png(figure_of(FROG)) and handle["learning rate"].label == "0.0003"


def test_a_fault_leaves_no_picture_that_looks_current(monkeypatch):
    handle = Handle(SMALL)
    monkeypatch.setattr(explore_pprs, "draw", lambda *_: 1 / 0)
    handle["samples K"].value = 100
    assert handle.image.value == empty_png() and handle.text.value == ""
    assert "this should not have happened: ZeroDivisionError" in handle.error.value


def test_pinning_compares_and_unpinning_ends_it():
    handle = Handle(SMALL)
    alone = handle.image.value
    handle["pin this"].click()
    handle["samples K"].value = 10
    now = replace(SMALL, K=10)
    assert handle.image.value == png(figure_of(now, SMALL)) and "pinned: K 4" in handle.text.value
    handle["unpin"].click()
    assert handle.image.value == png(figure_of(now)) and handle["unpin"].disabled
    handle["samples K"].value = 4
    assert handle.image.value == alone


def test_the_button_writes_the_current_view(tmp_path):
    handle = Handle(SMALL)
    handle["folder"].value = str(tmp_path / "out")
    handle["write SVG and CSV"].click()
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "pprs_explorer_loss.csv",
        "pprs_explorer_loss.svg",
    ]
    assert "written" in handle.written.value


def test_an_unknown_field_is_refused():
    with pytest.raises(ValueError, match="state is 'frog'; give a PprsState, or its fields by name"):
        explore_pprs.pprs_explorer("frog")
    with pytest.raises(ValueError, match="the explorer has no 'k'; it has problem, dimension, K"):
        explore_pprs.pprs_explorer(k=3)


def test_memory_is_flat_over_400_redraws():
    handle = Handle(SMALL)

    def turn(times):
        """So many redraws by the widget, view after view; the objects there are then, and the most memory so far."""
        for n in range(times):
            handle.view.value = VIEWS[n % len(VIEWS)]  # a redraw each, and one more where K changes
            if n % len(VIEWS) == 0:
                handle["samples K"].value = 5 - handle["samples K"].value
        gc.collect()
        # pandas notes who has looked at a table in weak references, and clears out the dead ones now and then
        objects = sum(not issubclass(type(known), weakref.ref) for known in gc.get_objects())
        return objects, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    handle["samples K"].value = 2
    objects, memory = turn(25)
    still, most = turn(334)
    assert still - objects < 400, f"{still - objects} more objects after 400 redraws: one picture has as many"
    assert most - memory < 60_000, f"{most - memory} kB more after 400 redraws"  # garbage that waits for its collection
