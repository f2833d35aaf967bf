"""What the explorer of PPRS shows, as one value: the problem, the settings of PPRS, its pipeline, and the view of them.

Source: PPRS (NeurIPS 2019), sections 4 and 5.
"""

import math
from dataclasses import dataclass, fields

from lpkit.attack_tables import TARGETS
from lpkit import checks
from lpkit.checks import choice, plain, shown, whole_number
from lpkit.explore_pprs_records import DEPTHS, best_setting

__all__ = ["FROG", "PROBLEMS", "VIEWS", "PprsState"]

FROG = "frog"
PROBLEMS = {"max_affine": "random max-affine", "l1_chain": "l1 chain", "nesterov_max": "Nesterov's max",
            "smooth_chain": "smooth chain", FROG: "attack on a frog, recorded"}  # fmt: skip
VIEWS = ("loss", "bubbling", "depth", "samples", "bounds")
DEFAULTS = {"K": 10, "gamma": 0.003, "lr": 0.01, "Delta": 20, "target": 0.1}
FROG_DEFAULTS = {"Delta": DEPTHS[0], "target": float(TARGETS[0])}  # K, gamma and lr: the best recorded
LEAST_TARGET = 1e-9
MOST = {"dimension": 200, "K": 1000, "Delta": 1000, "steps": 1000, "seeds": 5}


@dataclass(frozen=True)
class PprsState:
    """A configuration of the explorer of PPRS.

    Attributes
    ----------
    problem : str
        A name in `PROBLEMS`. L and R of the convex ones are 1, of the smooth chain beta and R.
    dimension : int
        Coordinates, 2 to 200.
    K : int, optional
        Samples a step, 1 to 1000; if left out 10.
    gamma, lr : float, optional
        Standard deviation of the perturbation, in units of R, and learning rate, in units of R/L (1/beta); if left out
        0.003 and 0.01.
    mu : float or "nesterov"
        Momentum of PPRS and of AGD: below 1, or Nesterov's sequence.
    Delta : int, optional
        Nodes of the pipeline, 1 to 1000; if left out 20.
    target : float, optional
        Share of the error at the start that is to be reached, if left out 0.1; of the recorded attack a loss: 9, 8, 7,
        6, 5.5 or 5, if left out 9.
    steps : int
        All methods have the time of so many steps of GD, 2 steps Delta; 1 to 1000.
    seeds : int
        Of the perturbations: 0 to seeds - 1; 1 to 5.
    rates : {"best", "same"}
        Learning rates of GD and AGD: the best of nine each, or that of PPRS.
    view : str
        A name in `VIEWS`.

    Of the recorded attack only K, gamma, lr, Delta and target can be chosen, from what was recorded; of K, gamma and lr
    those left out are of the setting with the least loss at that Delta that has the others.

    Raises
    ------
    ValueError
        If a value is not allowed, or was not recorded.

    Examples
    --------
    >>> PprsState(K=100).view
    'loss'
    >>> state = PprsState("frog", K=100)
    >>> state.lr, state.gamma, state.Delta, state.target
    (0.001, 0.01, 20, 9.0)
    """

    problem: str = "max_affine"
    dimension: int = 50
    K: int | None = None
    gamma: float | None = None
    lr: float | None = None
    mu: float | str = "nesterov"
    Delta: int | None = None
    target: float | None = None
    steps: int = 150
    seeds: int = 3
    rates: str = "best"
    view: str = "loss"

    def __post_init__(self):
        allowed = {"problem": tuple(PROBLEMS), "rates": ("best", "same"), "view": VIEWS}
        named = {name: choice(getattr(self, name), name, known) for name, known in allowed.items()}
        frog = named["problem"] == FROG
        given = {field.name: getattr(self, field.name) for field in fields(self)} | named
        given |= {name: value for name, value in (FROG_DEFAULTS if frog else DEFAULTS).items() if given[name] is None}
        checked = {name: _checked(name, value) for name, value in given.items()}
        checked |= _recorded(checked) if frog else {"target": _share(checked["target"])}
        for name, value in checked.items():
            object.__setattr__(self, name, value)


def _checked(name, value):
    """A value by itself; what is left out of a recorded setting stays so."""
    if name in MOST and value is not None:
        return whole_number(value, name, least=2 if name == "dimension" else 1, most=MOST[name])
    if name in ("lr", "gamma") and value is not None:
        return _real(value, name, above=name == "lr", most=100.0)
    if name == "target":
        return _real(value, name, above=True)
    return _momentum(value) if name == "mu" else value


def _real(value, name, **limits):
    """As `lpkit.checks.real`, to which a whole number beyond all floats is infinite, so refused."""
    value = plain(value)
    beyond = isinstance(value, int) and value.bit_length() > 1000
    return checks.real(math.inf if beyond else value, name, **limits)


def _momentum(value):
    """A number below 1, also as text, which is how a command line gives it; or the name of the sequence."""
    value = plain(value)
    if isinstance(value, str) and value != "nesterov":
        try:
            value = float(value)
        except ValueError:
            raise ValueError(f"mu is {shown(value)}; give a number of at least 0 and below 1, or 'nesterov'") from None
    if value == "nesterov":
        return value
    value = _real(value, "mu", most=1.0)
    if value == 1:
        raise ValueError("mu is 1.0; it must be below 1, or nothing ever slows down")
    return value


def _share(target):
    if not LEAST_TARGET <= target < 1:
        raise ValueError(
            f"target is {target}; it is a share of the error at the start, from {LEAST_TARGET:g} to below 1"
        )
    return target


def _recorded(checked):
    """The values of a setting that was recorded: what was left out is of the best one."""
    found = {name: _near(checked[name], name, known, FROG_DEFAULTS[name])
             for name, known in (("Delta", DEPTHS), ("target", TARGETS))}  # fmt: skip
    K, lr, gamma = best_setting(found["Delta"], checked["K"], checked["lr"], checked["gamma"])
    return {"K": K, "lr": lr, "gamma": gamma, "Delta": found["Delta"], "target": float(found["target"])}


def _near(value, name, known, default):
    """The known number that `value` is but for its last digits."""
    for number in known:
        if abs(value - number) <= 1e-6 * number:
            return number
    listed = ", ".join(f"{number:g}" for number in known)
    raise ValueError(f"{name} of the frog is {value:g}; recorded are {listed}; left out it is {default:g}")
