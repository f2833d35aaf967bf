"""What a plan must keep to, from words of a command line to keywords of a planner.

Which keywords a planner has is asked of the planner itself, so that one that learns a new one takes it here too.
"""

import inspect
import re
from fractions import Fraction

from lpkit.checks import choice, shown
from lpkit.optimal_graph import optimal_graph
from lpkit.partition import PLANNERS
from lpkit.partition import plan as make
from lpkit.sweep import OPTIONS

__all__ = ["ALL_PLANNERS", "LIMITS", "another", "lacking", "limits", "number", "size", "whole"]

ALL_PLANNERS = PLANNERS | {"optimal_graph": optimal_graph}  # the last plans a graph of layers, the others costs

LIMITS = ("memory", "bandwidth", "threshold", "granularity", "residual", "together", "speeds", "replicas")
UNIT = re.compile(r"[0-9]{1,18}(\.[0-9]{1,18})? ?[kmgt]?i?b?(/s)?", re.IGNORECASE)  # 16GB, 4 MiB, ...
NUMBER = re.compile(r"[0-9]{1,18}(\.[0-9]{1,18})?(e[0-9]{1,2})?(/[0-9]{1,18})?")


def limits(planner, costs, **given):
    """Keywords of `planner`, from words; those that are None, empty or False were not asked for.

    ``together`` holds words FIRST:LAST, each the name or the number of a layer; ``speeds`` is numbers with commas
    between; ``granularity`` one whole number, or one a layer with commas between; ``replicas`` is a flag.

    Raises
    ------
    ValueError
        If the planner has no such keyword, or a word cannot be read.

    Examples
    --------
    >>> limits("optimal", None, memory="4e9", granularity="8", residual=None)
    {'memory': 4000000000, 'granularity': 8}
    >>> limits("equal_layers", None, memory="4e9")  # doctest: +NORMALIZE_WHITESPACE
    Traceback (most recent call last):
    ...
    ValueError: the planner 'equal_layers' has no memory; leave the option out, or give --planner pipedream or optimal
    or optimal_graph
    """
    asked = {name: value for name, value in given.items() if value not in (None, False, ())}
    if asked:
        choice(planner, "planner", tuple(ALL_PLANNERS))
    for name in asked:
        if name not in taken(planner):
            others = [other for other in ALL_PLANNERS if name in taken(other)]
            hint = f", or give --planner {' or '.join(others)}" if others else ""
            raise ValueError(f"the planner {planner!r} has no {name}; leave the option out{hint}")
    return {name: _read(name, value, costs) for name, value in asked.items()}


def taken(planner):
    """Keywords of a planner.

    Examples
    --------
    >>> "threshold" in taken("optimal"), "threshold" in taken("pipedream")
    (True, False)
    """
    return tuple(inspect.signature(ALL_PLANNERS[planner]).parameters)[2:]


def another(plan, processors=None, planner=None, *, graph=None):
    """The plan of the same costs with other processors or by another planner, under the limits that it knows.

    `graph`, the `LayerGraph` behind the plan where there is one, gives the costs in the order they were read in;
    ``optimal_graph`` needs it.

    Returns
    -------
    Plan or None
        None where there is no such plan: more processors than layers, limits that none meets, a plan made by hand,
        or no graph.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> made = make(Costs.from_times([4, 2, 2], 0, 0, unit="cycles"), 1)
    >>> another(made, 2).period, another(made, 2, "equal_layers").ends, another(made, 4)
    (4, (2, 3), None)
    """
    planner = planner or plan.planner.split()[0]
    if planner not in (PLANNERS if graph is None else ALL_PLANNERS):
        return None
    options = {name: value for name, value in plan.options if name in taken(planner)}
    if isinstance(options.get("speeds"), (list, tuple)) and processors not in (None, plan.processors):
        return None  # nobody said how fast one more processor is
    try:
        if planner == "optimal_graph":
            return optimal_graph(graph, processors or plan.processors, **options)
        costs = plan.costs if graph is None else graph.costs
        return make(costs, processors or plan.processors, planner, **{**OPTIONS.get(planner, {}), **options})
    except ValueError:
        return None


def lacking(plan):
    """{planner: limits of the plan that it does not know}.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> lacking(make(Costs.from_times([4, 2, 2], 0, 0, unit="cycles"), 2, memory=9))
    {'equal_layers': ['memory'], 'algorithm1': ['memory']}
    """
    asked = [name for name, _ in plan.options if name in LIMITS]
    found = {planner: [name for name in asked if name not in taken(planner)] for planner in ALL_PLANNERS}
    return {planner: names for planner, names in found.items() if names}


def _read(name, value, costs):
    if name == "together":
        return [_pair(text, costs) for text in value]
    if name == "speeds":
        return [number(part.strip()) for part in value.split(",")]
    if name == "granularity":
        parts = [whole(part.strip()) for part in value.split(",")]
        return parts[0] if len(parts) == 1 else parts
    return value if name in ("residual", "replicas") else size(name, value)


def size(name, value):
    """A number of bytes as `number` reads it; one with a unit is refused here, where it can be said how to write it.

    Raises
    ------
    ValueError
        If there is a unit behind the number.

    Examples
    --------
    >>> size("memory", "16e9")
    16000000000
    >>> size("memory", "16GB")
    Traceback (most recent call last):
    ...
    ValueError: memory is '16GB'; it must be a number of bytes without a unit, such as 16e9
    """
    if isinstance(found := number(value), str) and UNIT.fullmatch(found):
        raise ValueError(f"{name} is {shown(found)}; it must be a number of bytes without a unit, such as 16e9")
    return found


def _pair(text, costs):
    """First and last layer of FIRST:LAST; a name of a layer may hold colons itself."""
    parts = text.split(":")
    splits = [(":".join(parts[:i]), ":".join(parts[i:])) for i in range(1, len(parts))]
    if not splits:
        raise ValueError(f"together is {shown(text)}; it must be FIRST:LAST, two names or numbers of layers")
    known = [pair for pair in splits if all(name in costs.layers for name in pair)]
    return tuple(name if name in costs.layers else whole(name) for name in (known or splits)[0])


def whole(text):
    """A whole number from a command line; what is none stays as it is, and is refused where it is used.

    Examples
    --------
    >>> whole("4"), whole("four")
    (4, 'four')
    """
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
