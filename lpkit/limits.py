"""What a plan must keep to, as it is given: layers that stay together, a speed for each processor, replicas of a stage.

Source: PipeDream (SOSP 2019), section 3.1, for replicas.
"""

from fractions import Fraction

import numpy as np

from lpkit.chains import python_number
from lpkit.checks import plain, shown, unknown_name, whole_number

__all__ = ["closed_cuts", "group_limit", "is_speed", "machines", "speeds_of", "together_of"]

SLOWEST, FASTEST = 1e-12, 1e12  # so that the time of no work is longer than floats can tell
MOST_MACHINES = 1024  # of a search over speeds or replicas, which takes time quadratic in their number


def together_of(costs, together):
    """Runs of layers that stay on one stage, as 1-based pairs in order; pairs that share a layer are one run.

    Raises
    ------
    ValueError
        If it is no sequence of pairs (first, last) of layer names or numbers, or a pair runs backwards.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> chain = Costs.from_times([1, 1, 1, 1, 1], 0, 0, layers=["a", "b", "c", "d", "e"])
    >>> together_of(chain, [("d", "e"), (1, "b"), (2, 3)])
    ((1, 3), (4, 5))
    """
    if together is None:
        return ()
    if not _is_row(together):
        raise ValueError(f"together is {shown(together)}; it must be a sequence of pairs (first, last) of layer names "
                         "or numbers")
    merged = []
    for first, last in sorted(_run(costs, pair, f"together[{place}]") for place, pair in enumerate(together)):
        if merged and first <= merged[-1][1]:
            first, last = merged[-1][0], max(last, merged.pop()[1])
        merged.append((first, last))
    return tuple((first, last) for first, last in merged if first < last)


def _run(costs, pair, name):
    """One pair as numbers of layers."""
    if not _is_row(pair) or len(pair) != 2:
        raise ValueError(f"{name} is {shown(pair)}; it must be a pair (first, last) of layer names or numbers")
    first, last = (_layer(costs, plain(end), name) for end in pair)
    if first > last:
        raise ValueError(f"{name} is {shown(tuple(map(plain, pair)))}; layer {first} comes after layer {last}, so give "
                         "them the other way round")
    return first, last


def _is_row(value):
    return isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.ndim > 0)


def _layer(costs, layer, name):
    """Number of a layer given by its name or number."""
    if not isinstance(layer, str):
        return whole_number(layer, f"a layer of {name}", most=len(costs))
    if layer not in costs.layers:
        raise unknown_name(layer, f"a layer of {name}", costs.layers)
    return costs.layers.index(layer) + 1


def closed_cuts(runs):
    """Cuts, by the number of the layer before them, that the runs of `together_of` forbid.

    Examples
    --------
    >>> sorted(closed_cuts(((1, 3), (4, 5))))
    [1, 2, 4]
    """
    return frozenset(cut for first, last in runs for cut in range(first, last))


def machines(processors):
    """Number of processors of which some may share a stage or stay unused, so that there may be more than layers.

    Raises
    ------
    ValueError
        If it is not a whole number from 1 to 1024.

    Examples
    --------
    >>> machines(8)
    8
    """
    return whole_number(processors, "processors", most=MOST_MACHINES)


def speeds_of(processors, speeds):
    """The speed of each processor as an exact Fraction; a float stands for its shortest decimal.

    Raises
    ------
    ValueError
        If there is not one number from 1e-12 to 1e12 for each processor.

    Examples
    --------
    >>> speeds_of(3, [2, 0.1, Fraction(1, 3)])
    (Fraction(2, 1), Fraction(1, 10), Fraction(1, 3))
    """
    if not _is_row(speeds):
        raise ValueError(f"speeds is {shown(speeds)}; it must be a sequence of numbers, one for each of {processors} "
                         "processors")
    if len(speeds) != processors:
        raise ValueError(f"speeds has {len(speeds)} entries; give one for each of {processors} processors")
    return tuple(_speed(value, f"speeds[{place}]") for place, value in enumerate(speeds))


def _speed(value, name):
    if not is_speed(value):
        raise ValueError(f"{name} is {shown(value)}; it must be a number from {SLOWEST:g} to {FASTEST:g}, 1 as costed")
    # str of numpy's scalar, before it becomes a float, is its shortest decimal too.
    number = python_number(value)
    return Fraction(str(value)) if isinstance(number, float) else Fraction(number)


def is_speed(value):
    """Whether `value` is a number that a speed can be.

    Examples
    --------
    >>> is_speed(0.5), is_speed(0), is_speed("1"), is_speed(float("nan"))
    (True, False, False, False)
    """
    number = python_number(value)
    return number is not None and SLOWEST <= number <= FASTEST


def group_limit(processors, replicas):
    """The most processors that may share a stage.

    Raises
    ------
    ValueError
        If `replicas` is not True or a whole number from 1.

    Examples
    --------
    >>> group_limit(8, True), group_limit(8, 3), group_limit(8, 99)
    (8, 3, 8)
    """
    if replicas is True:
        return processors
    number = python_number(replicas)
    if not isinstance(number, int) or number < 1:
        raise ValueError(f"replicas is {shown(replicas)}; it must be True, or the largest group as a whole number "
                         "from 1")
    return min(number, processors)
