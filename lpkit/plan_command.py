"""What ``lpkit plan`` does between its options and its text: a source becomes a plan, a plan a timeline and files."""

import inspect
import re
from fractions import Fraction
from pathlib import Path

import pandas as pd

from lpkit.checks import choice
from lpkit.interop.torch_shift_file import input_channels
from lpkit.networks import network, read_csv
from lpkit.partition import PLANNERS
from lpkit.partition import plan as make
from lpkit.plan_reader import read_plan
from lpkit.schedule import SCHEDULES
from lpkit.schedule import schedule as schedule_of
from lpkit.sources import kind_of, layer_costs
from lpkit.sweep import OPTIONS

__all__ = ["channels_of", "compared", "is_plan", "number", "planned", "refuse_overwriting", "scheduled", "whole"]

BATCHES, MICRO_BATCHES, PROCESSORS, PLANNER = 12, 4, 4, "optimal"
NUMBER = re.compile(r"[0-9]{1,18}(\.[0-9]{1,18})?(e[0-9]{1,2})?(/[0-9]{1,18})?")


def is_plan(source):
    """Whether a NETWORK names a plan file.

    Examples
    --------
    >>> is_plan("best/plan.json"), is_plan("vgg16")
    (True, False)
    """
    return Path(source).suffix.lower() == ".json"


def planned(source, *, processors=None, planner=None, **choices):
    """The plan of a network (4 processors and the optimum by default), or the one in a plan file.

    Raises
    ------
    ValueError, FileNotFoundError
        As `layer_costs`, the planners and `read_plan`; or if a choice is given that a plan file cannot use.

    Examples
    --------
    >>> planned("sample4", processors="3").period
    13953910
    """
    if is_plan(source):
        given = [name for name, value in {"processors": processors, "planner": planner, **choices}.items()
                 if value is not None]  # fmt: skip
        if given:
            raise ValueError(f"{str(source)!r} is a plan; {', '.join(sorted(given))} cannot change it, leave the options "
                             "out")  # fmt: skip
        return read_plan(source)
    planner = PLANNER if planner is None else planner
    costs = layer_costs(source, **choices)
    return make(costs, PROCESSORS if processors is None else whole(processors), planner, **OPTIONS.get(planner, {}))


def scheduled(plan, name, *, batches=None, micro_batches=None, bandwidth=None):
    """Timeline of a plan by name; 12 mini-batches, and 4 micro-batches where a schedule has them, by default.

    None without a name, where no other option may be given either.

    Raises
    ------
    ValueError
        As the schedules; or if an option is given that has no meaning.

    Examples
    --------
    >>> scheduled(planned("sample4"), "gpipe", batches="2").micro_batches
    4
    """
    given = {"batches": whole(batches), "micro_batches": whole(micro_batches), "bandwidth": number(bandwidth)}
    given = {option: value for option, value in given.items() if value is not None}
    if name is None:
        if given:
            raise ValueError(f"{', '.join(given)} has no meaning without a schedule; give --schedule layerpipe or another")
        return None
    parameters = inspect.signature(SCHEDULES[choice(name, "schedule", SCHEDULES)]).parameters
    if "micro_batches" not in parameters and "micro_batches" in given:
        raise ValueError(f"the schedule {name!r} has no micro-batches; leave the option out, or ask for more mini-batches")
    counts = {"micro_batches": MICRO_BATCHES} if "micro_batches" in parameters else {}
    counts |= given
    return schedule_of(plan, name, counts.pop("batches", BATCHES), **counts)


def whole(text):
    """A whole number from a command line; what is none stays as it is, and is refused where it is used."""
    try:
        return int(text)
    except (TypeError, ValueError):
        return text


def number(text):
    """A number from a command line, exact; what is not one stays text, which is refused where it is used.

    Examples
    --------
    >>> number("4"), number("2.5"), number("1e9"), number("many")
    (4, Fraction(5, 2), 1000000000, 'many')
    """
    if not isinstance(text, str) or not NUMBER.fullmatch(text):
        return text
    whole, _, below = text.partition("/")
    if below and not int(below):
        return text
    value = Fraction(whole) / Fraction(below or 1)
    return value.numerator if value.denominator == 1 else value


def channels_of(source):
    """Input channels of each layer, where the source is a network; else None."""
    kind = None if is_plan(source) else kind_of(source)
    if kind not in ("name", "network"):
        return None
    return input_channels(network(source) if kind == "name" else read_csv(source))


def refuse_overwriting(source, paths):
    """Raise if one of the files to write is the one that is read."""
    for path in paths:
        if Path(source).exists() and Path(path).exists() and Path(source).samefile(path):
            raise ValueError(f"{str(path)!r} is the file that is read; write to another name")


def compared(plan):
    """Every planner on the same costs: period ratio, time reduction and throughput gain against PipeDream."""
    plans = {name: make(plan.costs, plan.processors, name, **OPTIONS.get(name, {})) for name in PLANNERS
             if name != plan.planner.split()[0]}  # fmt: skip
    plans = {name: plans.get(name, plan) for name in PLANNERS}
    old = float(plans["pipedream"].period)
    ratios = {name: old / float(p.period) if p.period else 1.0 for name, p in plans.items()}
    return pd.DataFrame([
        {"planner": name, "period": float(p.period), "speedup": float(p.speedup), "period ratio": ratios[name],
         "time reduction": 1 - 1 / ratios[name], "throughput gain": ratios[name] - 1}
        for name, p in plans.items()
    ])
