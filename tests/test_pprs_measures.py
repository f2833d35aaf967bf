"""Measures of the PPRS paper's model and bounds, against damage and by hand; trials against runs step by step."""

import numpy as np
import pandas as pd
import pytest

from lpkit import pprs_measures as measures
from lpkit import rates
from lpkit.baselines import decaying_gd
from lpkit.claims import read_claims
from lpkit.convex_trials import STEPS, fastest, iterations_to, theorem_iterations, trial_times
from lpkit.pipeline_time import pipeline_time
from lpkit.pprs_models import random_graph, simulated_bounds
from lpkit.problems import random_max_affine
from lpkit.smoothing import gd, pprs, theorem_parameters


@pytest.fixture(scope="module")
def problem():
    return random_max_affine(12, 30, seed=4)


def test_a_schedule_that_is_one_slot_late_is_noticed(monkeypatch):
    assert measures.graph_makespan("plain") == measures.bubbling_time("plain") == measures.gpipe_time("plain") == 1
    exact = measures.pipeline_time
    monkeypatch.setattr(measures, "pipeline_time", lambda T, K, depth, **how: exact(T, K, depth, **how) + (K == 10))
    assert measures.graph_makespan("plain") == measures.bubbling_time("plain") == 0.75


@pytest.mark.parametrize("measure, bound", [
    ("smooth_convex_ratio", "naive_smooth"), ("smooth_nonconvex_ratio", "naive_nonconvex"),
    ("dimension_exponent", "pprs_upper"), ("precision_exponent", "pprs_upper"), ("depth_term_exponent", "pprs_upper"),
    ("near_linear_bound", "pprs_upper"), ("bound_depth_growth", "pprs_upper"),
])  # fmt: skip
def test_a_bound_that_grows_otherwise_is_noticed(monkeypatch, measure, bound):
    before, exact = getattr(measures, measure)("plain"), getattr(rates, bound)
    def worse(eps, *, depth, **given):
        return exact(eps, depth=depth, **given) * np.asarray(depth, dtype=float) ** 0.5 * np.power(eps, -0.5) * (
            np.asarray(given.get("dimension", 1), dtype=float) ** 0.25)  # fmt: skip
    monkeypatch.setattr(rates, bound, worse)
    assert abs(getattr(measures, measure)("plain") - before) > 0.2


def test_lower_bounds_are_near_the_slots_that_prove_them():
    for depth in (2, 20):
        for name, _, n, eps, slots in simulated_bounds(depth, (5, 17)).itertuples(index=False):
            bound = measures.LOWER[name](eps * (1 - 1e-9), depth=depth)
            assert 0 < bound <= slots + 1e-6 and slots - bound <= 3.1 * depth, (name, depth, n)


def test_a_lower_bound_that_is_too_high_is_noticed(monkeypatch):
    assert measures.lower_bounds_hold("plain") == 1
    monkeypatch.setitem(measures.LOWER, "smooth convex", lambda eps, *, depth: 3 * rates.smooth_lower(eps, depth=depth))
    assert measures.lower_bounds_hold("plain") < 1


def test_the_condition_of_empirical_risk_cell_by_cell():
    wins = [rates.pprs_upper(e, dimension=d, depth=D, m=m) < rates.gpipe_erm(e, depth=D, m=m)
            for e in np.logspace(-1, -4, 7) for d in 10.0 ** np.arange(1, 9) for m in 10.0 ** np.arange(5)
            for D in 10.0 ** np.arange(1, 7) if 1.001 * m <= D and 1.001 * d <= e**-4]  # fmt: skip
    assert measures.erm_below("plain") == pytest.approx(np.mean(wins))
    assert 0.5 < measures.erm_below("plain") < measures.erm_far_below("plain")


def test_random_graphs_have_one_leaf_and_differ():
    graphs = [random_graph(seed) for seed in range(20)]
    assert len({str(graph) for graph in graphs}) == 20
    for graph in graphs:
        read = {name for names in graph.values() for name in names}
        assert set(graph) - read == {"leaf"} and "x" in read


# Trials


def test_tuned_steps_are_the_least_of_every_setting(problem):
    found = iterations_to(problem, [0.1, 0.03], samples=[4], most=300, seed=1).set_index(["method", "eps"])["steps"]
    for eps in (0.1, 0.03):
        runs = [method(problem, 300, lr=lr) for method in (gd, decaying_gd) for lr in STEPS]
        least = min(float(run.time_to_target(eps, 1)[0]) / 2 for run in runs)
        assert found["gd", eps] <= least < np.inf
        one = pprs(problem, 150, K=4, lr=0.03, gamma=0.03, mu="nesterov", seed=1)  # a setting of the grid, on its own
        assert found["pprs", eps] <= one.time_to_target(eps, 1)[0] / 8 < np.inf


def test_a_precision_out_of_reach_is_inf(problem):
    found = iterations_to(problem, [1e-9], samples=[1], most=5)
    assert np.isinf(found["steps"]).all()
    assert fastest(found, [1, 2])[["gd", "pprs"]].to_numpy().tolist() == [[np.inf] * 2] * 2


def test_theorem_steps_are_first_hits_within_what_is_proved(problem):
    gradient, ours = theorem_iterations(problem, 0.1, seed=3).itertuples(index=False)
    trace = pprs(problem, ours.proved, **theorem_parameters(ours.proved, 1.0, 1.0, 12)._asdict(), seed=3)
    assert ours.steps == int((trace.values[0] <= 0.1).argmax()) <= ours.proved
    assert 0 < gradient.steps <= gradient.proved == 100


def test_times_are_those_of_the_pipeline():
    rows = pd.DataFrame([("gd", 1, 0.1, 7.0), ("pprs", 5, 0.1, 2.0), ("pprs", 1, 0.1, 10.0)],
                        columns=["method", "K", "eps", "steps"])  # fmt: skip
    timed = trial_times(rows, [1, 6])
    expected = [pipeline_time(T, K, depth) for T, K in ((7, 1), (2, 5), (10, 1)) for depth in (1, 6)]
    assert timed["slots"].tolist() == expected
    best = fastest(rows, [1, 6])
    assert best["K"].tolist() == [5, 5]  # at Delta = 1 both take 20 slots: the larger K counts
    assert best["pprs"].tolist() == [20, 40] and best["speedup"].tolist() == [0.7, 2.1]


def test_measures_of_trials_read_the_table_as_they_say(monkeypatch):
    cases = [(0, 0.1, 20, 10.0, 5.0, 2), (0, 0.1, 200, 100.0, 10.0, 5),
             (1, 0.1, 20, 10.0, 20.0, 2), (1, 0.1, 200, 100.0, 50.0, 1)]  # fmt: skip
    table = pd.DataFrame(cases, columns=["seed", "eps", "Delta", "gd", "pprs", "K"])
    monkeypatch.setattr(measures, "times", lambda: table.assign(speedup=table["gd"] / table["pprs"]))
    assert (measures.convex_faster_20("plain"), measures.convex_faster_200("plain")) == (0.5, 1.0)
    assert (measures.convex_speedup_200("plain"), measures.convex_depth_growth("plain")) == (6.0, 2.25)
    assert measures.best_samples_grow("plain") == 0.5


def test_the_ledger_names_the_notebooks_and_the_paper():
    own = [claim for claim in read_claims() if claim.computed and hasattr(measures, claim.computed)]
    assert len(own) >= 20 and {claim.item for claim in own} == {
        "pprs_fig1_computation_graph", "pprs_fig2_bubbling", "pprs_rates", "pprs_convex"}  # fmt: skip
    assert all(claim.source.startswith("PPRS") for claim in own)
