"""The live explorer of PPRS: K, gamma, learning rate, Delta and problem; what each shows is a pure function of a state.

What the controls do is in `lpkit.explore_widgets`; the notebook runs and compares without a browser.
Source: PPRS (NeurIPS 2019), sections 4 and 5.
"""

import shlex
from dataclasses import fields
from functools import partial

from lpkit.attack_tables import TARGETS
from lpkit.explore_picture import png, undisturbed
from lpkit.explore_pprs_records import DEPTHS, best_setting, offered
from lpkit.explore_pprs_runs import steps_told
from lpkit.explore_pprs_state import DEFAULTS, FROG, FROG_DEFAULTS, PROBLEMS, VIEWS, PprsState
from lpkit.explore_pprs_tables import cases_of, table_of
from lpkit.explore_pprs_text import text_of
from lpkit.explore_pprs_views import draw
from lpkit.explore_widgets import (
    answers, beginning, connect, ipywidgets, menu, offer, panel, show, slider, write_files,
)  # fmt: skip

__all__ = [
    "PprsState",
    "call_of",
    "command_of",
    "figure_of",
    "pprs_explorer",
    "show",
    "table_for",
    "text_of",
    "write_view",
]

COUNTS = (1, 2, 3, 5, 10, 20, 30, 50, 100, 200, 300, 500, 1000)
RATES = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0)
OFFERED = {"dimension": (10, 20, 50, 100, 200), "K": COUNTS, "gamma": (0.0, *RATES), "lr": RATES, "Delta": COUNTS,
           "target": (0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005), "steps": (50, 100, 150, 200, 300, 500, 1000),
           "seeds": (1, 2, 3, 4, 5)}  # fmt: skip
RECORDED = ("K", "gamma", "lr", "Delta")
FIXED = ("dimension", "mu", "steps", "seeds")  # of the recorded attack
VIEW_NAMES = dict(zip(VIEWS, ("loss against time", "bubbling", "time against Delta", "time against K", "bounds")))
MADE = {"max_affine": ("lpkit.problems", "random_max_affine"), "l1_chain": ("lpkit.hard_functions", "l1_chain"),
        "nesterov_max": ("lpkit.hard_functions", "nesterov_max"),
        "smooth_chain": ("lpkit.hard_functions", "smooth_chain")}  # fmt: skip


def figure_of(state, pinned=None):
    """The picture of a state; with `pinned`, of both, beside or below each other.

    Returns
    -------
    matplotlib Figure
        9.6 x 4.5 inches.

    Raises
    ------
    ValueError
        If the problem has not that view.

    Examples
    --------
    >>> figure_of(PprsState(steps=20)).axes[0].get_ylabel()
    'loss above the optimum'
    """
    cases = cases_of(state, pinned)
    return draw(cases, table_of(cases))


def table_for(state, pinned=None):
    """The data behind `figure_of`, as a tidy DataFrame with a column ``case``.

    Examples
    --------
    >>> table = table_for(PprsState("frog", lr=3e-4, target=9, view="samples"))
    >>> table.query("method == 'PPRS'")["time"].round().tolist()
    [inf, 4756.0, 14042.0]
    """
    return table_of(cases_of(state, pinned))


def write_view(state, folder, pinned=None):
    """Write picture and data, ``pprs_explorer_VIEW.svg`` and ``.csv``, into `folder`; their paths.

    Raises
    ------
    ValueError
        As `figure_of`; or if the folder cannot be written to.
    """
    cases = cases_of(state, pinned)

    def made():
        table = table_of(cases)
        return draw(cases, table), table

    return write_files(folder, f"pprs_explorer_{state.view}", made)


def call_of(state):
    """A line of Python for the runs of PPRS that the text tells of, a `Trace` a seed; of the attack for its record.

    Examples
    --------
    >>> call_of(PprsState())
    "from lpkit.problems import random_max_affine; from lpkit.smoothing import pprs; \
[pprs(random_max_affine(50, 100), 103, K=10, lr=0.01, gamma=0.003, mu='nesterov', seed=seed) for seed in range(3)]"
    """
    if state.problem == FROG:
        return ("from lpkit.explore_pprs_records import recorded; "
                f"recorded({state.Delta}, 'pprs', {state.K}, {state.lr!r}, {state.gamma!r})")  # fmt: skip
    module, made = MADE[state.problem]
    size = f"{state.dimension}, {2 * state.dimension}" if state.problem == "max_affine" else state.dimension
    return (f"from {module} import {made}; from lpkit.smoothing import pprs; [pprs({made}({size}), "
            f"{steps_told(state)}, K={state.K}, lr={state.lr!r}, gamma={state.gamma!r}, mu={state.mu!r}, seed=seed) "
            f"for seed in range({state.seeds})]")  # fmt: skip


def command_of(state):
    """The shell command that writes the same view into the folder ``explored``, from the notebook of the explorer.

    Examples
    --------
    >>> command_of(PprsState(K=100, view="depth"))
    'lpkit figures pprs_explorer --out explored -p K 100 -p view depth'
    """
    default, words = PprsState(state.problem), ["lpkit", "figures", "pprs_explorer", "--out", "explored"]
    changed = {field.name for field in fields(PprsState) if getattr(state, field.name) != getattr(default, field.name)}
    changed |= {"problem"} if state.problem != PprsState().problem else set()
    # of a recorded setting the values left out depend on those given
    changed |= set(RECORDED) if state.problem == FROG and changed & set(RECORDED) else set()
    for field in fields(PprsState):
        words += ["-p", field.name, str(getattr(state, field.name))] if field.name in changed else []
    return shlex.join(words)


def pprs_explorer(state=None, **initial):
    """Controls and the picture that they change.

    Parameters
    ----------
    state : PprsState, optional
        Where to begin.
    **initial
        Fields of `PprsState` that replace those.

    Returns
    -------
    ipywidgets.VBox

    Raises
    ------
    ValueError
        If ipywidgets is not installed, or the state cannot be.
    """
    known = {field.name for field in fields(PprsState)}
    # what is left out depends on the problem: a default state whose problem is replaced would have another's values
    start = (
        PprsState(**initial) if state is None and known.issuperset(initial) else beginning(state, initial, PprsState)
    )
    widgets = ipywidgets()
    controls, parts = _controls(widgets, start), answers(widgets)
    connect(controls, parts, asked=_asked, drawn=drawn, write=write_view, adapt=partial(_adapt, start))
    return panel(widgets, controls, parts, left=6)


def _asked(controls):
    """The state that the controls say; what is fixed for the recorded attack keeps what it would be for another."""
    return PprsState(**{name: control.value for name, control in controls.items()})


@undisturbed
def drawn(state, pinned=None):
    """What the explorer shows of a state: the picture as PNG bytes, and the lines beside it."""
    cases = cases_of(state, pinned)
    lines = [text_of(state, pinned), f"Python: {call_of(state)}", f"shell:  {command_of(state)}"]
    return png(draw(cases, table_of(cases))), lines


# Controls


def _controls(widgets, state):
    """Field of the state to its control, in the order in which they stand, the view last."""

    def slide(name, label):
        values = (getattr(state, name),) if state.problem == FROG else OFFERED[name]
        return slider(widgets, label, values, getattr(state, name), _unit(name, state.problem))

    momenta = [("Nesterov's sequence", "nesterov"), *((f"{mu:g}", mu) for mu in (0.0, 0.5, 0.9, 0.99))]
    momenta += [(f"{state.mu:g}", state.mu)] if state.mu not in dict(momenta).values() else []
    return {
        "problem": menu(widgets, "problem", [(name, key) for key, name in PROBLEMS.items()], state.problem),
        "K": slide("K", "samples K"),
        "gamma": slide("gamma", "gamma"),
        "lr": slide("lr", "learning rate"),
        "Delta": slide("Delta", "depth Delta"),
        "target": slide("target", "target"),
        "dimension": slide("dimension", "dimension"),
        "mu": menu(widgets, "momentum", momenta, state.mu),
        "steps": slide("steps", "time"),
        "seeds": slide("seeds", "seeds"),
        "rates": menu(widgets, "GD and AGD", [("best of nine learning rates", "best"),
                                              ("the same learning rate", "same")], state.rates),
        "view": widgets.ToggleButtons(options=[(VIEW_NAMES[name], name) for name in VIEWS], value=state.view,
                                      style={"button_width": "auto"}),
    }  # fmt: skip


def _unit(name, problem):
    """A value of a slider with its unit, as a function."""
    rate = {"smooth_chain": " / beta", FROG: ""}.get(problem, " R/L")
    share = "loss {:g}".format if problem == FROG else lambda value: f"{100 * value:g} % of the error"
    return {
        "K": lambda n: f"{n} sample{'s' * (n > 1)}", "gamma": lambda x: f"{x:g}" + " R" * (problem != FROG),
        "lr": lambda x: f"{x:g}{rate}", "Delta": lambda n: f"{n} node{'s' * (n > 1)}", "target": share,
        "dimension": "{} coordinates".format, "steps": "{} steps of GD".format,
        "seeds": lambda n: f"{n} seed{'s' * (n > 1)}",
    }[name]  # fmt: skip


def _adapt(start, controls):
    """Offer what the problem has: of the recorded attack what was recorded, of each K, and with each learning rate."""
    frog = controls["problem"].value == FROG
    for name in FIXED:
        controls[name].disabled = frog
    recorded = {"K": offered, "lr": lambda: offered(controls["K"].value), "Delta": lambda: DEPTHS,
                "gamma": lambda: offered(controls["K"].value, controls["lr"].value),
                "target": lambda: TARGETS}  # fmt: skip
    begin = FROG_DEFAULTS | {"K": best_setting(DEPTHS[0])[0], "lr": 3e-4} if frog else {"target": DEFAULTS["target"]}
    for name, values in recorded.items():
        own = {getattr(start, name)} if name != "target" or start.target < 1 else set()
        offer(controls[name], values() if frog else {*OFFERED[name], *own}, _unit(name, controls["problem"].value),
              begin.get(name))  # fmt: skip
