"""What the explorer of PPRS shows, as one value: the problem, the settings of PPRS, its pipeline, and the view of them.

Source: PPRS (NeurIPS 2019), sections 4 and 5.
"""

import math
from dataclasses import dataclass, fields

from lpkit.attack_tables import TARGETS
from lpkit import checks
from lpkit.checks import choice, plain, shown, whole_number
from lpkit.explore_pprs_records import DEPTHS, offered

__all__ = ["FROG", "PROBLEMS", "VIEWS", "PprsState", "differences"]

FROG = "frog"
PROBLEMS = {"max_affine": "random max-affine", "l1_chain": "l1 chain", "nesterov_max": "Nesterov's max",
            "smooth_chain": "smooth chain", FROG: "attack on a frog, recorded"}  # fmt: skip
VIEWS = ("loss", "bubbling", "depth", "samples", "bounds")
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
    K : int
        Samples a step, 1 to 1000.
    gamma, lr : float
        Standard deviation of the perturbation, in units of R, and learning rate, in units of R/L (1/beta).
    mu : float or "nesterov"
        Momentum of PPRS and of AGD: below 1, or Nesterov's sequence.
    Delta : int
        Nodes of the pipeline, 1 to 1000.
    target : float
        Share of the error at the start that is to be reached; of the recorded attack a loss: 9, 8, 7, 6, 5.5 or 5.
    steps : int
        All methods have the time of so many steps of GD, 2 steps Delta; 1 to 1000.
    seeds : int
        Of the perturbations: 0 to seeds - 1; 1 to 5.
    rates : {"best", "same"}
        Learning rates of GD and AGD: the best of nine each, or that of PPRS.
    view : str
        A name in `VIEWS`.

    Of the recorded attack only K, gamma, lr, Delta and target can be chosen, from what was recorded.

    Raises
    ------
    ValueError
        If a value is not allowed, or was not recorded.

    Examples
    --------
    >>> PprsState(K=100).view
    'loss'
    """

    problem: str = "max_affine"
    dimension: int = 50
    K: int = 10
    gamma: float = 0.003
    lr: float = 0.01
    mu: float | str = "nesterov"
    Delta: int = 20
    target: float = 0.1
    steps: int = 150
    seeds: int = 3
    rates: str = "best"
    view: str = "loss"

    def __post_init__(self):
        checked = {name: whole_number(getattr(self, name), name, most=most) for name, most in MOST.items()}
        checked["dimension"] = whole_number(self.dimension, "dimension", least=2, most=MOST["dimension"])
        checked |= {"lr": _real(self.lr, "lr", above=True, most=100.0), "gamma": _real(self.gamma, "gamma", most=100.0),
                    "mu": _momentum(self.mu)}  # fmt: skip
        allowed = {"problem": tuple(PROBLEMS), "rates": ("best", "same"), "view": VIEWS}
        checked |= {name: choice(getattr(self, name), name, known) for name, known in allowed.items()}
        checked |= _recorded(checked, self.target) if checked["problem"] == FROG else {"target": _share(self.target)}
        for name, value in checked.items():
            object.__setattr__(self, name, value)


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
    target = _real(target, "target", above=True)
    if not LEAST_TARGET <= target < 1:
        raise ValueError(f"target is {target}; it is a share of the error at the start, from {LEAST_TARGET:g} to below 1")
    return target


def _recorded(checked, target):
    """The values of a setting that was recorded."""
    K = choice(checked["K"], "K", offered())
    lr = _near(checked["lr"], f"lr with K = {K}", offered(K))
    gamma = _near(checked["gamma"], f"gamma with K = {K} and lr = {lr:g}", offered(K, lr))
    target = _near(_real(target, "target"), "target", TARGETS)
    return {"lr": lr, "gamma": gamma, "target": float(target), "Delta": choice(checked["Delta"], "Delta", DEPTHS)}


def _near(value, name, known):
    """The known number that `value` is but for its last digits."""
    for number in known:
        if abs(value - number) <= 1e-6 * number:
            return number
    raise ValueError(f"{name} is {value:g}; recorded are {', '.join(f'{number:g}' for number in known)}")


def differences(state, other):
    """Names of the fields in which two states differ, the view aside.

    Examples
    --------
    >>> differences(PprsState(), PprsState(K=2, view="bounds"))
    ('K',)
    """
    names = [field.name for field in fields(PprsState) if field.name != "view"]
    return tuple(name for name in names if getattr(state, name) != getattr(other, name))
