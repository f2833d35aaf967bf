"""What the explorer of PPRS says beside the picture: losses reached, time to the target, speed-up, what is proved."""

import numpy as np

from lpkit.display import cell
from lpkit.explore_pprs_records import DEPTHS
from lpkit.explore_pprs_runs import budget, fitting, pays_from, problem_of, runs_of, slots, start_error, steps_made
from lpkit.explore_pprs_state import FROG, PROBLEMS
from lpkit.explore_pprs_tables import cases_of, named
from lpkit.rates import naive_nonsmooth, naive_smooth, nonsmooth_lower, pprs_iterations, pprs_upper, smooth_lower

__all__ = ["described", "text_of"]


def described(state):
    """The lines on one state.

    Examples
    --------
    >>> from lpkit.explore_pprs_state import PprsState
    >>> print("\\n".join(described(PprsState("frog", lr=3e-4, target=9))))  # doctest: +ELLIPSIS
    attack on a frog, recorded: loss 18.28 at the start, Delta 20, 12,000 slots (300 steps of GD)
    reached (mean of the last tenth): GD, lr 0.0001: 9.924; AGD, lr 1e-06: 10.94; PPRS, K 10, ...: 6.851 (6.83 to 6.913)
    slots to 9: GD 22,040; AGD 15,320; PPRS 4,756 (4,640 to 4,814); speed-up over GD 4.63, over AGD 3.22
    with this target PPRS is ahead of GD from Delta 2 on, of AGD from Delta 3 on
    recorded, not computed: ...
    """
    runs, proved = runs_of(state), _proved(state)
    return [_head(state), _reached(state, runs), _times(state, runs), _crossing(runs), *proved, *_notes(state, runs),
            *VIEWS.get(state.view, lambda _: [])(state)]  # fmt: skip


def _head(state):
    steps = 300 if state.problem == FROG else state.steps
    size = "" if state.problem == FROG else f", {state.dimension} coordinates"
    what = "loss" if state.problem == FROG else "error"
    return (f"{PROBLEMS[state.problem]}{size}: {what} {start_error(state):.4g} at the start, Delta {state.Delta}, "
            f"{cell(budget(state))} slots ({_count(steps, 'step')} of GD)")  # fmt: skip


def _reached(state, runs):
    start = start_error(state)
    one = (lambda e: f"{e:.4g}") if state.problem == FROG else lambda e: f"{100 * e / start:.3g} %"
    said = [f"{named(run)}: {_spread(run.reached, one)}" for run in runs]
    unit = "" if state.problem == FROG else " of that error"
    return f"reached (mean of the last tenth{unit and ','}{unit}): {'; '.join(said)}"


def _spread(values, one, none="never"):
    """The median of the seeds, and the least and the largest where they differ; `none` where a value is infinite."""
    if np.isinf(np.median(values)):
        return none if np.isinf(values).all() else f"{none} by most seeds (at best {one(values.min())})"
    low, high = one(values.min()), one(values.max()) if np.isfinite(values.max()) else none
    return one(np.median(values)) + (f" ({low} to {high})" if low != high else "")


def _target(state):
    return f"{state.target:g}" if state.problem == FROG else f"{100 * state.target:g} % of the error at the start"


def _times(state, runs):
    times = {run.method: slots(run.hits, run.K, state.Delta) for run in runs}
    none = "not in the record"
    if state.problem != FROG:  # runs for deeper pipelines go further than this one's time
        times = {method: np.where(time <= budget(state), time, np.inf) for method, time in times.items()}
        none = "not within this time"
    said = [f"{method} {_spread(time, '{:,.0f}'.format, none)}" for method, time in times.items()]
    ours = float(np.median(times["PPRS"]))
    gains = [f"over {method} {float(time[0]) / ours:.3g}" for method, time in times.items()
             if method != "PPRS" and np.isfinite([ours, time[0]]).all() and ours]  # fmt: skip
    gained = f"; speed-up {', '.join(gains)}" if gains else ""
    return f"slots to {_target(state)}: {'; '.join(said)}{gained}"


def _crossing(runs):
    *single, ours = runs
    if np.isinf(np.median(ours.hits)):
        return "PPRS does not reach the target in the steps that were made, at any Delta"
    said = [f"of {run.method} {_ahead(ours, run)}" for run in single]
    return f"with this target PPRS is ahead {', '.join(said)}"


def _ahead(ours, run):
    at = pays_from(ours, run)
    if np.isinf(run.hits).all():
        return f"at every Delta ({run.method} does not get there in its steps)"
    return "at no Delta" if at is None else f"from Delta {at} on"


def _proved(state):
    """What the theorems say of the target."""
    problem = problem_of(state)
    if problem is None:
        return []
    eps, given = state.target * start_error(state), {"R": problem.R, "depth": state.Delta}
    if problem.beta:
        lower, upper = (bound(eps, beta=problem.beta, **given) for bound in (smooth_lower, naive_smooth))
        return [f"proved: in the worst case, of high dimension, any method needs {lower:,.0f} slots, Nesterov's "
                f"at most {upper:,.0f}; PPRS gains nothing in proof on smooth functions"]  # fmt: skip
    lower, upper = (bound(eps, L=problem.L, **given) for bound in (nonsmooth_lower, naive_nonsmooth))
    ours = pprs_upper(eps, L=problem.L, dimension=state.dimension, **given)
    T, K = pprs_iterations(eps, L=problem.L, R=problem.R, dimension=state.dimension)
    return [f"proved: in the worst case, of high dimension, any method needs {lower:,.0f} slots; GD at most "
            f"{upper:,.0f}, PPRS at most {ours:,.0f} with the theorem's T = {T:,.0f}, K = {K:,.0f}"]  # fmt: skip


def _notes(state, runs):
    if state.problem == FROG:
        return [f"recorded, not computed: image 0 of CIFAR-10, frog to horse, at Delta {DEPTHS[0]} and {DEPTHS[1]}; "
                f"{_count(len(runs[-1].hits), 'seed')} of this setting, no momentum in PPRS, 0.99 in AGD"]  # fmt: skip
    made, wanted = steps_made(state), fitting(state, state.K)
    if made >= wanted:
        return []
    return [f"PPRS is shown as far as {_count(made, 'step')} of the {wanted:,} that the time has: more take longer "
            f"than a "
            "slider's move; take fewer seeds"]  # fmt: skip


def _of_bubbling(state):
    K, Delta = state.K, state.Delta
    return [f"one step: {slots(1, K, Delta):,} slots, 2(K + Delta - 1); nodes work {100 * K / (K + Delta - 1):.3g} "
            f"% of it; "
            f"K gradients one by one would take {2 * K * Delta:,}"]  # fmt: skip


def _of_samples(state):
    return ["PPRS by its first seed within the time, at the other settings as they are"]


VIEWS = {"bubbling": _of_bubbling, "samples": _of_samples}


def text_of(state, pinned=None):
    """The numbers of a state in lines; with `pinned`, of both and how they compare.

    Examples
    --------
    >>> from lpkit.explore_pprs_state import PprsState
    >>> pinned = PprsState("frog", K=2, lr=1e-4, gamma=1e-3, target=9)
    >>> text_of(PprsState("frog", lr=3e-4, target=9), pinned).splitlines()[-1]
    'now against pinned: PPRS reaches its target in 0.486 of the slots'
    """
    if pinned is None:
        return "\n".join(described(state))
    both = [line for label, one in cases_of(state, pinned).items()
            for line in (label, *(f"  {line}" for line in described(one)))]  # fmt: skip
    old, new = (_ours(one) for one in (pinned, state))
    return "\n".join(both + ([_between(old, new)] if np.isfinite([old, new]).all() and old else []))


def _ours(state):
    run = runs_of(state)[-1]
    return float(np.median(slots(run.hits, run.K, state.Delta)))


def _between(old, new):
    return f"now against pinned: PPRS reaches its target in {new / old:.3f} of the slots"


def _count(number, noun):
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
