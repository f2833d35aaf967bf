"""Can the layers be done within a given period, and what is the least one? The dynamic programme behind `optimal`.

For a period T the cuts are scanned from the last layer down. ``spare(i)`` is the largest amount of work that the
stages above cut i (which hold layers i+1..L) can still take over from the stage below; one more stage i+1..j gives::

    spare(i) = max over j of  T - W(i+1, j) + min(cap(i, j), spare(j)),

feasible where it is not negative. More spare time above never hurts below, so the largest is enough. Everything is a
whole number: costs are whole, and a period a/b is tested by multiplying the costs by b.
Source: exchange argument on the chain; the least period of given cuts is an interval (Hall) condition on a path.
"""

import math
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from fractions import Fraction

from lpkit.ratios import at_or_above, below

__all__ = ["Chain", "fewest_stages", "least_period", "least_shift", "partition_within", "passed", "scaled"]


@dataclass(frozen=True)
class Chain:
    """A chain of L layers in whole units (Python integers: nothing overflows).

    Attributes
    ----------
    prefix : list
        Work of the first i layers, for i = 0..L.
    caps : list
        delta of each layer that may move.
    options : list
        For each place i = 0..L-1 a tuple of (end, cap, grain): a stage that starts at or below layer i+1 and ends with
        layer `end` may pass up to `cap` work to the next stage; any part of it, or with tiles what `grain` makes:
        multiples of an int, or the members of a sorted list. Each end is an option of the place before it.
    full : list
        Largest cap at the cut after i layers; 0 at both ends.
    reach : int
        Most layers between a place and the end of one of its options; 1 where each delta moves alone.
    links : list or None
        Time of the link at the cut after i layers.
    memory : tuple or None
        Bytes of the first i layers, for i = 0..L, and bytes that a stage holds.
    """

    prefix: list
    caps: list
    options: list
    full: list
    reach: int
    links: list | None = None
    memory: tuple | None = None


def partition_within(chain, period, processors, open_cuts=None):
    """Fewest stages within `period`: ``(ends, shifts)``, or None if `processors` stages are not enough.

    The stages are chosen from the input on: each as short as the stages above it can bear; shifts are the least amounts
    that keep a stage within the period. `open_cuts` tells for each cut 0..L whether it is allowed.
    """
    scaled, spare, history = _reached(chain, period, processors, open_cuts)
    if spare is None:
        return None
    ends, shifts = _descend(scaled, period.numerator, spare, history)
    return ends, [Fraction(shift, period.denominator) for shift in shifts]


def fewest_stages(chain, period, processors, open_cuts=None):
    """Number of stages of `partition_within`, which must exist."""
    return len(_reached(chain, period, processors, open_cuts)[2])


def _reached(chain, period, processors, open_cuts):
    """The chain in units of 1 / denominator of `period` with its allowed options, and what `_climb` makes of it."""
    chain = scaled(chain, period.denominator)
    if open_cuts is not None:
        options = [tuple(o for o in place if open_cuts[o[0]]) for place in chain.options]
        chain = Chain(**(vars(chain) | {"options": options}))
    return chain, *(_climb_in_memory if chain.memory else _climb)(chain, period.numerator, processors)


def scaled(chain, factor):
    """The chain with its work and all that its options pass on times `factor`; caps of layers and links stay.

    Examples
    --------
    >>> scaled(Chain([0, 2, 5], [1, 0], [((1, 1, None),), ((2, 0, None),)], [0, 1, 0], 1), 10).prefix
    [0, 20, 50]
    """
    if factor == 1:
        return chain
    options = [tuple((end, cap * factor, grain and _scaled_grain(grain, factor)) for end, cap, grain in place)
               for place in chain.options]
    columns = {"prefix": [w * factor for w in chain.prefix], "full": [c * factor for c in chain.full]}
    return Chain(**(vars(chain) | columns | {"options": options}))


def _scaled_grain(grain, factor):
    return [amount * factor for amount in grain] if isinstance(grain, list) else grain * factor


def _climb(chain, period, processors):
    """Spare time of every cut after 1, 2, .. stages from the end, until cut 0 is reached: the list, and how to undo it.

    -1 stands for a cut that is not reached. Only cuts below one whose useful spare time (up to the cap) has just
    changed can change, and only cuts whose lower layers fit the stages that are left matter: each stage works on a
    short window, and all of them together on about 2 L cuts.
    """
    prefix, full, L = chain.prefix, chain.full, len(chain.prefix) - 1
    never = prefix[L] + period + 1
    spare, keys, least = [-1] * L + [0], [never] * L, [never] * (L + 1)
    lift, low, high, deepest, history = max(full), L, L, L, []
    for left in range(processors, 0, -1):
        high = min(high, bisect_right(prefix, left * period + lift) - 1)
        if high < max(low, 1):
            break
        first, changes = max(low - chain.reach, 0), []
        for i in range(first, high):
            keys[i] = _key(prefix, spare, chain.options[i], never)
        best = least[high]
        for i in range(high - 1, -1, -1):
            if keys[i] < best:
                best = keys[i]
            room = prefix[i] + period - best
            if i < first and (best == least[i] or (room < 0 and i < deepest)):
                break
            least[i] = best
            if room >= 0 and room != spare[i]:
                changes.append((i, room))
        useful = [i for i, _ in changes if spare[i] < full[i]]
        history.append([(i, spare[i]) for i, _ in changes])
        for i, room in changes:
            spare[i] = room
        if spare[0] >= 0:
            return spare, history
        if not useful:
            break
        deepest = min(deepest, first)
        high, low = useful[0], useful[-1]
    return None, None


def _key(prefix, spare, options, never):
    """Least W(1, end) - passed work over the options of a place whose stage above is feasible."""
    best = never
    for end, cap, grain in options:
        room = spare[end]
        if room >= 0:
            key = prefix[end] - (passed(cap, room, grain) if grain else room if room < cap else cap)
            if key < best:
                best = key
    return best


def passed(cap, room, grain):
    """Most work, in whole tiles, that can be passed to a stage with `room`.

    Examples
    --------
    >>> passed(9, 7, 3), passed(9, 7, [0, 2, 5, 9])
    (6, 5)
    """
    if isinstance(grain, int):
        return min(cap, room) // grain * grain
    return grain[bisect_right(grain, room) - 1]


def _needed(need, grain):
    """`need` rounded up to what whole tiles make; infinite above all of them."""
    if isinstance(grain, int):
        return -(-need // grain) * grain
    place = bisect_left(grain, need)
    return grain[place] if place < len(grain) else math.inf


def _climb_in_memory(chain, period, processors):
    """As `_climb` where the n-th stage from the end holds n versions, so that its length has a limit that falls with n.

    No suffix minimum then: each end of a stage is tried.
    """
    prefix, L, lift = chain.prefix, len(chain.prefix) - 1, max(chain.full)
    spare, low, history = [-1] * L + [0], L, []
    for versions in range(1, processors + 1):
        changes = []
        for i in range(L - 1, -1, -1):
            if prefix[low] - prefix[i] > period + lift:
                break
            ends = range(i + 1, _furthest(chain, i, period + lift, versions) + 1)
            room = max((_room(chain, i, end, period, spare[end]) for end in ends if spare[end] >= 0), default=-1)
            if room > spare[i]:
                changes.append((i, room))
        history.append([(i, spare[i]) for i, _ in changes])
        for i, room in changes:
            spare[i], low = room, min(low, i)
        if spare[0] >= 0:
            return spare, history
    return None, None


def _furthest(chain, cut, most, versions):
    """Last layer of the longest stage after `cut` with at most so much work and so many versions in memory."""
    far = bisect_right(chain.prefix, chain.prefix[cut] + most) - 1
    if chain.memory:
        held, limit = chain.memory
        far = min(far, bisect_right(held, held[cut] + limit // versions) - 1)
    return far


def _room(chain, cut, end, period, above):
    """Spare time of the stage cut+1..end under a stage with spare time `above`; -1 if it does not fit."""
    most = [cap if not grain else passed(cap, above, grain) for cap, grain in _caps(chain, cut, end)]
    return max(period - (chain.prefix[end] - chain.prefix[cut]) + min(max(most), above), -1) if most else -1


def _caps(chain, cut, end):
    """(cap, grain) of each option that ends with `end` and serves a stage that starts after `cut`."""
    return [o[1:] for place in chain.options[cut:end] for o in place if o[0] == end]


def _descend(chain, period, spare, history):
    """Stages from the input on: each as short as the stages above can bear, with the least shift."""
    prefix, lift, cut, shift, ends, shifts = chain.prefix, max(chain.full), 0, 0, [], []
    while history:
        for i, before in history.pop():
            spare[i] = before
        room = period - shift
        for end in range(cut + 1, _furthest(chain, cut, room + lift, len(history) + 1) + 1):
            if spare[end] >= 0:
                shift = least_shift(chain, cut, end, max(prefix[end] - prefix[cut] - room, 0), spare[end])
                if shift is not None:
                    break
        ends.append(end)
        shifts.append(shift)
        cut = end
    return ends, shifts[:-1]


def least_shift(chain, cut, end, need, above):
    """Least work not below `need` that stage cut+1..end can pass to a stage with spare time `above`; None if none.

    Examples
    --------
    >>> chain = Chain([0, 2, 5], [4, 0], [((1, 4, 2),), ((2, 0, None),)], [0, 4, 0], 1)
    >>> least_shift(chain, 0, 1, 1, 3), least_shift(chain, 0, 1, 3, 3)
    (2, None)
    """
    if need > min(chain.full[end], above):
        return None
    found = [_needed(need, grain) if grain else need for cap, grain in _caps(chain, cut, end) if need <= cap]
    return min((f for f in found if f <= above), default=None)


def least_period(chain, processors, denominators, lower, tighten):
    """Least period of at most `processors` stages, ``(period, ends, shifts)``; None if no period is enough.

    Periods with denominators up to `denominators` are tried, from `lower` on (no plan is below). `tighten(ends,
    shifts)` is the least period of given stages, so that one success skips all periods down to it.
    """
    low = at_or_above(lower, denominators)
    found = _attempt(chain, low, processors)
    if found:
        return (low, *found)
    if chain.links:
        low = below(low, denominators)  # what failed at `low` may have been a link, not the work
    low, high, found = _first_success(chain, low, processors, denominators, tighten)
    failures = 0
    while found and (last := below(high, denominators)) > low:
        period = _between(low, last, denominators) if failures < 2 else last
        better = _attempt(chain, period, processors, high)
        if better:
            high, found, failures = tighten(*better), better, 0
        elif period == last:
            break
        else:
            low, failures = period, failures + 1
    return found and (high, *found)


def _between(low, last, denominators):
    """A period above `low` and up to `last`, near the middle: whole where there is room, which is quickest to test."""
    if last - low > 4:
        return Fraction((low + last) // 2)
    middle = Fraction(low + last, 2).limit_denominator(denominators)
    return middle if low < middle < last else last


def _attempt(chain, period, processors, link_limit=None):
    """`partition_within` over the cuts whose link is fast enough: within the period, or faster than `link_limit`."""
    if chain.links is None:
        return partition_within(chain, period, processors)
    allowed = [link <= period if link_limit is None else link < link_limit for link in chain.links]
    return partition_within(chain, period, processors, allowed)


def _first_success(chain, low, processors, denominators, tighten):
    """A period that is too short, one that is enough, and its stages: ever longer steps from `low`."""
    total = Fraction(chain.prefix[-1])
    constrained = chain.links or chain.memory
    step = total if constrained else low / 64
    while True:
        period = min(Fraction(math.ceil(low + step)), max(total, low))
        found = _attempt(chain, period, processors, math.inf if constrained else None)
        if found or period >= total:
            return low, found and tighten(*found), found
        low, step = period, 4 * step
