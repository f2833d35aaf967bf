"""The numbers behind each view of the explorer of PPRS, as tidy tables: what is drawn, and what is written as CSV."""

from dataclasses import replace

import numpy as np
import pandas as pd

from lpkit.explore_pprs_records import offered, recorded_curve, steps_to
from lpkit.explore_pprs_runs import Run, budget, first_hits, fitting, problem_of, runs_of, slots, start_error
from lpkit.explore_pprs_state import FROG, PROBLEMS
from lpkit.explore_state import differences
from lpkit.explore_tables import labelled
from lpkit.rates import naive_nonsmooth, naive_smooth, nonsmooth_lower, pprs_upper, smooth_lower

__all__ = ["cases_of", "named", "table_of"]

DEPTHS = np.unique(np.logspace(0, 3, 31).round().astype(int))
MOST_PASSES = 400  # that are drawn one by one
SAMPLES = (1, 5, 25, 100)
PRECISIONS = np.logspace(-0.25, -3, 12)  # of the bounds, in errors at the start


def cases_of(state, pinned=None):
    """What is drawn: label to state; with `pinned` that one and the current one.

    Examples
    --------
    >>> from lpkit.explore_pprs_state import PprsState
    >>> list(cases_of(PprsState(K=2), PprsState()))
    ['pinned: K 10', 'now: K 2']
    """
    if pinned is None:
        return {PROBLEMS[state.problem]: state}
    names = differences(state, pinned)
    return {_label("pinned", pinned, names): replace(pinned, view=state.view), _label("now", state, names): state}


def _label(when, state, names):
    said = [f"{name} {PROBLEMS.get(getattr(state, name), getattr(state, name))}" for name in names]
    return labelled(when, said)


def named(run):
    """A method with what is set, in few characters.

    Examples
    --------
    >>> named(Run("PPRS", 10, 1e-3, 3e-4, None, None, None)), named(Run("GD", 1, 0.316, 0.0, None, None, None))
    ('PPRS, K 10, lr 0.001, gamma 0.0003', 'GD, lr 0.316')
    """
    own = f", K {run.K}" if run.method == "PPRS" else ""
    return f"{run.method}{own}, lr {run.lr:g}" + (f", gamma {run.gamma:g}" if run.method == "PPRS" else "")


def table_of(cases):
    """The data of the view of the cases as a DataFrame, with a column ``case``.

    Raises
    ------
    ValueError
        If a case has not that view.

    Examples
    --------
    >>> from lpkit.explore_pprs_state import PprsState
    >>> table_of(cases_of(PprsState(K=2, Delta=2, view="bubbling")))["end"].tolist()
    [1, 2, 2, 3, 5, 6, 4, 5]
    """
    made = {"loss": _loss, "bubbling": _bubbling, "depth": _depth, "samples": _samples, "bounds": _bounds}
    tables = [made[state.view](state).assign(case=label) for label, state in cases.items()]
    joined = pd.concat(tables, ignore_index=True)
    return joined[["case", *(name for name in joined if name != "case")]]


def _loss(state):
    """Losses against time: above the optimum, median and spread of the seeds; of the record as they were kept."""
    return pd.concat([_curve(state, run) for run in runs_of(state)], ignore_index=True)


def _curve(state, run):
    if run.errors is None:
        rows, kept = recorded_curve(state.Delta, run.method.lower(), run.K, run.lr, run.gamma)
        return rows.assign(method=run.method, setting=named(run), kept=kept)
    steps = np.arange(run.errors.shape[1])
    time = slots(steps, run.K, state.Delta)
    seen = run.errors[:, time <= budget(state)]
    middle = np.median(seen, axis=0)
    return pd.DataFrame({"time": time[: len(middle)], "loss": middle, "low": seen.min(axis=0), "high": seen.max(axis=0),
                         "method": run.method, "setting": named(run), "kept": True})  # fmt: skip


def _bubbling(state):
    """One step as GPipe makes it: a row a pass; of many a row for all passes of a node that follow each other."""
    K, nodes = state.K, np.arange(1, state.Delta + 1)
    each = K * state.Delta <= MOST_PASSES
    place, one = (np.arange(K), 1) if each else (np.zeros(1, int), K)
    starts = {"forward": nodes - 1, "backward": K + 2 * state.Delta - 1 - nodes}
    first = {"forward": place + 1, "backward": K - place}
    return pd.concat([pd.DataFrame({"node": np.repeat(nodes, len(place)), "pass": kind,
                                    "sample": np.tile(first[kind], state.Delta), "passes": one,
                                    "start": (start[:, None] + place).ravel(),
                                    "end": (start[:, None] + place + one).ravel()})
                      for kind, start in starts.items()], ignore_index=True)  # fmt: skip


def _depth(state):
    """Slots to the target at each depth: median, and spread over the seeds."""
    depths = np.union1d(DEPTHS, [state.Delta])
    return pd.concat([_timed(run, run.hits[:, None], depths, "Delta") for run in runs_of(state)], ignore_index=True)


def _timed(run, hits, depths, name):
    time = slots(hits, run.K, depths)
    middle = np.median(time, axis=0)
    return pd.DataFrame({name: depths, "time": middle, "low": time.min(axis=0), "high": time.max(axis=0),
                         "method": run.method, "setting": named(run)})  # fmt: skip


def _samples(state):
    """Slots to the target against K at the other settings of the state, by the first seed, within the time."""
    counts, runs = _counts(state), [(run, run.K) for run in (_ours_with(state, K) for K in _counts(state))]
    runs = [(run, K) for run in runs_of(state)[:-1] for K in counts] + runs
    rows = [(K, float(slots(run.hits[0], run.K, state.Delta)), run.method, named(run)) for run, K in runs]
    return pd.DataFrame(rows, columns=["K", "time", "method", "setting"])


def _counts(state):
    if state.problem == FROG:
        return [K for K in offered() if state.lr in offered(K) and state.gamma in offered(K, state.lr)]
    return sorted({*SAMPLES, state.K})


def _ours_with(state, K):
    if state.problem != FROG:
        return first_hits(state, K)
    hits = steps_to(state.target, "pprs", K, state.lr, state.gamma)
    return Run("PPRS", K, state.lr, state.gamma, None, hits, None)


def _bounds(state):
    """Slots to each precision: what is proved, and what these runs took (inf where they did not get there)."""
    if state.problem == FROG:
        raise ValueError("no bound is known for the attack: its loss is not convex; choose the view loss, "
                         "bubbling, depth "
                         "or samples, or another problem")  # fmt: skip
    problem, eps = problem_of(state), PRECISIONS * start_error(state)
    if problem.beta:
        given = {"beta": problem.beta, "R": problem.R, "depth": state.Delta}
        proved = {"no method": smooth_lower(eps, **given), "AGD": naive_smooth(eps, **given)}
    else:
        given = {"L": problem.L, "R": problem.R, "depth": state.Delta}
        proved = {"no method": nonsmooth_lower(eps, **given), "GD": naive_nonsmooth(eps, **given),
                  "PPRS": pprs_upper(eps, dimension=state.dimension, **given)}  # fmt: skip
    rows = [pd.DataFrame({"eps": eps, "time": time, "method": name, "kind": "bound"}) for name, time in proved.items()]
    rows += [pd.DataFrame({"eps": eps, "time": _until(run, eps, state), "method": run.method, "kind": "run"})
             for run in runs_of(state)]  # fmt: skip
    return pd.concat(rows, ignore_index=True)


def _until(run, eps, state):
    """Slots to each precision within the time, median over the seeds."""
    hit = run.errors[:, None, : fitting(state, run.K) + 1] <= eps[:, None] * (1 + 1e-12)
    steps = np.where(hit.any(axis=2), hit.argmax(axis=2).astype(float), np.inf)
    return slots(np.median(steps, axis=0), run.K, state.Delta)
