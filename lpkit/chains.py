"""From costs to a chain in whole units: what may move where, in which pieces, over which links.

Float costs are put on a grid of the total times 2^-80, so that one exact programme serves both kinds.
"""

import math
from collections import defaultdict
from fractions import Fraction
from itertools import accumulate, product

import numpy as np

from lpkit.checks import LARGEST_SIZE, choice, plain, shown, whole_number
from lpkit.parametric import Chain

__all__ = ["chain_of", "check_processors", "granularity_of", "movable", "positive",
           "python_number", "split_amount"]

GRID_BITS = 80  # of the total of float costs: finer than their own rounding
LEAST_TOTAL = 1e-290  # of float costs: parts of what is smaller have lost digits
MOST_TILES = 2**20  # of a delta
MOST_SUMS = 10**6  # amounts that the tiles of one cut may make up


def check_processors(costs, processors):
    """`processors` as an int from 1 to the number of layers.

    Raises
    ------
    ValueError
        If it is not that.

    Examples
    --------
    >>> check_processors(["conv1", "conv2"], 3)
    Traceback (most recent call last):
    ...
    ValueError: processors is 3, but there are only 2 layers and a stage holds at least one; give at most 2
    """
    processors = whole_number(processors, "processors")
    if processors > len(costs):
        raise ValueError(f"processors is {processors}, but there are only {len(costs)} layers and a stage holds at "
                         f"least one; give at most {len(costs)}")
    return processors


def movable(costs, threshold=None, residual="consumer"):
    """Which deltas may move at all, shape (L,) of bool.

    A delta moves to the stage that reads its layer's output first, so that somebody must read it; it is fixed if its
    weights (of a product of two tensors: its operands) are more than `threshold` bytes; ``residual="sum_site"`` also
    fixes it where the input of the layer feeds another layer or a join, because then its result is one term of a sum
    that another stage may perform.

    Raises
    ------
    ValueError
        If `residual` is unknown or `threshold` is not a number of bytes from 0.

    References
    ----------
    LayerPipe (ICCAD 2021), section IV: Algorithm 1, line 4 (threshold), and the note on ResNet and U-Net (sums).

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> movable(Costs.from_times([1, 1, 1], 1, 1, weight_bytes=[10, 999, 10]), threshold=100).tolist()
    [True, False, False]
    """
    choice(residual, "residual", ("consumer", "sum_site"))
    may = (costs.first_consumer <= len(costs)) & (costs.delta > 0)
    if threshold is not None:
        limit = positive(threshold, "threshold", "bytes", zero=True)
        may &= np.array([size <= limit for size in costs.moved_bytes.tolist()])
    return may & ~costs.shared_input if residual == "sum_site" else may


def positive(value, name, what, zero=False):
    """`value` as an exact number above 0 (or from 0): a Fraction; infinity is left.

    Raises
    ------
    ValueError
        If it is no such number; `what` says of what in the message.

    Examples
    --------
    >>> positive(np.int32(3), "memory", "bytes"), positive(0.5, "memory", "bytes")
    (Fraction(3, 1), Fraction(1, 2))
    """
    number = python_number(value)
    # No float of it is taken: whole numbers may be larger than any.
    if number is None or not number >= 0 or (number == 0 and not zero):
        raise ValueError(f"{name} is {shown(value)}; it must be a number of {what} {'from' if zero else 'above'} 0")
    return number if number == math.inf else Fraction(number)


def python_number(value):
    """`value` as an int, float or Fraction, numpy's scalars and arrays of no dimension too; None if it is no number.

    Examples
    --------
    >>> python_number(np.float32(0.5)), python_number(3), python_number("3"), python_number(True)
    (0.5, 3, None, None)
    """
    value = plain(value)
    if isinstance(value, np.floating):  # longer than Python's float
        return float(value)
    return value if isinstance(value, (int, float, Fraction)) and not isinstance(value, bool) else None


def granularity_of(costs, granularity):
    """`granularity` as one number of tiles a layer, or None.

    Raises
    ------
    ValueError
        If it is not one whole number from 1 for each layer.
    """
    if granularity is None:
        return None
    given = granularity.tolist() if hasattr(granularity, "tolist") else granularity
    tiles = list(given) if isinstance(given, (list, tuple, range)) else [given] * len(costs)
    if len(tiles) != len(costs):
        raise ValueError(f"granularity has shape ({len(tiles)},); "
                         f"give one number of tiles for each of {len(costs)} layers")
    return [whole_number(t, "granularity", most=MOST_TILES) for t in tiles]


def chain_of(costs, may=None, tiles=None, link_times=None, memory=None, closed=()):
    """The chain in whole units, and how many units make one of the costs' (a Fraction).

    Parameters
    ----------
    may : ndarray of bool, shape (L,), optional
        Deltas that may move; none if left out.
    tiles : list of int, optional
        Equal tiles of each delta; any part may move if left out.
    link_times : list of Fraction, optional
        Time of the link at each cut after layer 1..L-1, in units of the costs.
    memory : number of bytes of a stage, optional
    closed : set of int, optional
        Cuts that are not allowed: their links take for ever.
    """
    work, delta, unit = _whole(costs, tiles)
    may = [False] * len(costs) if may is None else may.tolist()
    caps = [d if m else 0 for d, m in zip(delta, may)]
    prefix = list(accumulate(work, initial=0))
    options, full = _options(costs, caps, tiles)
    links = _links(len(costs), unit, link_times, closed)
    if memory is not None:
        kept = map(sum, zip(costs.weight_bytes.tolist(), costs.input_bytes.tolist()))
        held = list(accumulate(kept, initial=0))
        memory = (held, math.floor(min(memory, held[-1] * LARGEST_SIZE)))  # so many versions need no more
    reach = max(place[0][0] - start for start, place in enumerate(options))
    return Chain(prefix, caps, options, full, reach, links, memory), unit


def _links(layers, unit, times, closed):
    """`Chain.links`: in units, infinite at a cut that is closed."""
    if times is None and not closed:
        return None
    links = [Fraction(0), *(t * unit for t in times or [0] * (layers - 1)), Fraction(0)]
    return [math.inf if cut in closed else link for cut, link in enumerate(links)]


def _whole(costs, tiles):
    """Work and delta in whole units, so that each tile of a delta is whole too, and units per unit of the costs."""
    rest, delta = (costs.F + costs.G).tolist(), costs.delta.tolist()
    if costs.unit == "cycles":
        unit = 1 if tiles is None else math.lcm(*(t // math.gcd(t, d) for t, d in zip(tiles, delta)))
        delta = [d * unit for d in delta]
        return [r * unit + d for r, d in zip(rest, delta)], delta, Fraction(unit)
    if 0 < costs.total < LEAST_TOTAL:
        raise ValueError(f"the costs of {costs.name!r} add up to {costs.total} {costs.unit}; times below {LEAST_TOTAL} "
                         "have lost digits, use a smaller unit")
    power = GRID_BITS - math.frexp(costs.total)[1]
    rest, delta = ([round(math.ldexp(x, power)) for x in column] for column in (rest, delta))
    if tiles is not None:
        delta = [-(-d // t) * t for d, t in zip(delta, tiles)]
    return [r + d for r, d in zip(rest, delta)], delta, Fraction(2) ** power


def _options(costs, caps, tiles):
    """`Chain.options` and `Chain.full`: for each cut, what a stage can pass on, by how many of its layers it holds."""
    L, members = len(caps), defaultdict(list)
    for layer, (cap, reader) in enumerate(zip(caps, costs.first_consumer.tolist()), 1):
        if cap:
            members[reader - 1].append(layer)
    places = [[] for _ in range(L)]
    for end in range(L, 0, -1):
        layers = members[end]
        for n, first in enumerate(layers):
            places[first - 1].append((end, *_cap_and_grain(layers[n:], caps, tiles)))
        if end not in layers:
            places[end - 1].append((end, 0, None))
    full = [0, *(sum(caps[layer - 1] for layer in members[end]) for end in range(1, L + 1))]
    return [tuple(place) for place in places], full


def _cap_and_grain(group, caps, tiles):
    """Most work that the deltas of `group` can pass on, and which amounts their tiles make (None: any)."""
    cap = sum(caps[layer - 1] for layer in group)
    if tiles is None:
        return cap, None
    return (cap, cap // tiles[group[0] - 1]) if len(group) == 1 else (cap, _sums(group, caps, tiles))


def _sums(group, caps, tiles):
    """All amounts that whole tiles of the deltas of `group` make, sorted."""
    if math.prod(tiles[layer - 1] + 1 for layer in group) > MOST_SUMS:
        names = ", ".join(map(str, group))
        raise ValueError(f"the tiles of layers {names}, which move to the same stage, make more than {MOST_SUMS} "
                         "amounts; give a coarser granularity")
    columns = [[caps[layer - 1] // tiles[layer - 1] * n for n in range(tiles[layer - 1] + 1)] for layer in group]
    return sorted(set(map(sum, product(*columns))))


def split_amount(costs, caps, tiles, stage, amount):
    """`amount` of whole units on the layers of `stage` (a range) that may pass it on: ``{layer: units}``.

    The delta with the fewest bytes to send a unit goes first, then the highest layer. With tiles, the first
    selection of whole tiles in that order that makes up the amount.
    """
    layers = [layer for layer in stage if caps[layer - 1] > 0 and costs.first_consumer[layer - 1] == stage.stop]
    layers.sort(key=lambda layer: (costs.moved_bytes[layer - 1].item() / caps[layer - 1], -layer))
    if tiles is not None:
        return _whole_tiles(layers, {layer: caps[layer - 1] // tiles[layer - 1] for layer in layers}, tiles, amount)
    shares = {}
    for layer in layers:
        shares[layer] = min(amount, caps[layer - 1])
        amount -= shares[layer]
    return {layer: share for layer, share in shares.items() if share}


def _whole_tiles(layers, size, tiles, amount):
    """Whole tiles of `layers` that make `amount`: as many as can be of the first, then of the next."""
    *choices, last = layers
    for counts in product(*(range(tiles[layer - 1], -1, -1) for layer in choices)):
        rest = amount - sum(n * size[layer] for n, layer in zip(counts, choices))
        if 0 <= rest <= tiles[last - 1] * size[last] and rest % size[last] == 0:
            shares = {layer: n * size[layer] for layer, n in zip(choices, counts)} | {last: rest}
            return {layer: int(share) for layer, share in shares.items() if share}
    raise ArithmeticError(f"no whole tiles of layers {layers} make {amount}")
