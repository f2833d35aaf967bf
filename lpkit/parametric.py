"""Can the layers be done within a given period, and what is the least one? The dynamic programme behind `optimal`.

For a period T the cuts are scanned from the last layer down. ``spare(i)`` is the largest amount of work that the
stages above cut i (which hold layers i+1..L) can still take over from the stage below; one more stage i+1..j gives

    spare(i) = max over j of  T - W(i+1, j) + min(cap(i, j), spare(j)),

feasible where it is not negative. More spare time above never hurts below, so the largest is enough. Everything is a
whole number: costs are whole, and a period a/b is tested by multiplying the costs by b.
Source: exchange argument on the chain; the least period of given cuts is an interval (Hall) condition on a path.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

__all__ = ["Chain", "at_or_above", "below", "interval_bound", "least_period", "partition_within"]


@dataclass(frozen=True)
class Chain:
    """A chain of L layers in whole units. An option (end j, place, cap) is a stage that ends with layer j, starts at or
    below layer place+1 and so may pass up to `cap` work to the stage above.

    prefix : work of the first i layers, shape (L+1,).
    layer_caps : delta of each layer that may move, shape (L,).
    full : largest cap of each cut, shape (L+1,); 0 at both ends.
    ends, places, caps, tiles : options sorted by place, one or more for each place 0..L-1; tiles divide the caps.
    starts : first option of each place, shape (L+1,).
    sums : for options of several layers with tiles: the amounts that can be made up, sorted.
    links : time of the link at each cut 0..L, or None. memory : (bytes of the first i layers, bytes of a stage) or None.
    tiled : whether only whole tiles may be moved.
    """

    prefix: np.ndarray
    layer_caps: np.ndarray
    full: np.ndarray
    ends: np.ndarray
    places: np.ndarray
    caps: np.ndarray
    tiles: np.ndarray
    starts: np.ndarray
    sums: dict
    links: list | None = None
    memory: tuple | None = None
    tiled: bool = False


def interval_bound(work, caps):
    """Largest (W(a, b) - cap_b) / (b - a + 1) over all intervals of a chain, with its interval (a, b), 1-based.

    Parametric search (Dinkelbach): for a ratio r the interval with the largest W - r (b - a + 1) - cap is found in one
    pass (Kadane); it raises r until none is above. The last cap is ignored: nothing leaves the last layer.

    Examples
    --------
    >>> interval_bound([1, 9, 1], [0, 3, 0])
    (Fraction(6, 1), (2, 2))
    """
    caps = [*caps[:-1], 0]
    exact = not isinstance(work[0], float)
    value, size, where = work[0] - caps[0], 1, (1, 1)
    while True:
        found = _best_interval(work, caps, value, size)
        better = found[0] / found[1] > value / size if not exact else found[0] * size > value * found[1]
        if not better:
            return (Fraction(value, size) if exact else value / size), where
        value, size, where = found


def _best_interval(work, caps, value, size):
    """Interval with the largest size * (W - cap) - value * length, as (W - cap, length, (a, b))."""
    best, found, run, start = 0, (value, size, None), 0, 1
    for b, (w, cap) in enumerate(zip(work, caps), 1):
        if run < 0:
            run, start = 0, b
        run += size * w - value
        if run - size * cap > best:
            best, found = run - size * cap, (None, b - start + 1, (start, b))
    if found[2] is None:
        return found
    a, b = found[2]
    return sum(work[a - 1 : b]) - caps[b - 1], b - a + 1, (a, b)


def below(number, denominators):
    """Largest fraction below `number` with a denominator of at most `denominators`.

    Examples
    --------
    >>> below(Fraction(1, 2), 5)
    Fraction(2, 5)
    """
    a, b = number.numerator, number.denominator
    if b <= denominators:
        # Neighbours p/q < a/b of a Farey sequence satisfy a q - b p = 1.
        q = pow(a, -1, b) if b > 1 else 1
        q += (denominators - q) // b * b
        return Fraction((a * q - 1) // b, q)
    top, bottom = 0, 0
    for q in range(1, denominators + 1):
        p = (a * q - 1) // b
        if not bottom or p * bottom > top * q:
            top, bottom = p, q
    return Fraction(top, bottom)


def at_or_above(number, denominators):
    """Smallest fraction that is not below `number`, with a denominator of at most `denominators`.

    Examples
    --------
    >>> at_or_above(Fraction(1, 7), 5)
    Fraction(1, 5)
    """
    number = Fraction(number)
    return number if number.denominator <= denominators else -below(-number, denominators)


def partition_within(chain, period, processors, open_cuts=None):
    """Fewest stages within `period`: ``(ends, shifts)``, or None if `processors` stages are not enough.

    The stages are chosen from the input on: each as short as the stages above it can bear; shifts are the least amounts
    that keep the stage within the period. `open_cuts` marks the cuts 0..L that are allowed.
    """
    scaled = _scaled(chain, period.denominator, period.numerator)
    climb = _climb_in_memory if chain.memory else _climb
    spare, history = climb(scaled, period.numerator, processors, open_cuts)
    if spare is None:
        return None
    ends, shifts = _descend(scaled, period.numerator, spare, history, open_cuts)
    return ends, [Fraction(int(s), period.denominator) for s in shifts]


def _scaled(chain, factor, period):
    """The chain with all work times `factor`; as Python integers where 64 bits would not hold it."""
    wide = max(int(chain.prefix[-1]) * factor, period) >= 2**60
    kind = object if wide else np.int64
    if factor == 1 and chain.prefix.dtype == kind:
        return chain
    columns = {name: getattr(chain, name).astype(kind) * factor for name in ("prefix", "full", "caps", "tiles")}  # not layer_caps: the search does not read them
    return Chain(**(vars(chain) | columns))


def _never(chain):
    """A number above every key: ``int`` for wide chains."""
    return 2**62 if chain.prefix.dtype == np.int64 else 1 << (int(chain.prefix[-1]).bit_length() + 64)


def _amounts(chain, options, room):
    """What each of the `options` (a slice) can pass on when the stage above has `room`."""
    amounts = np.minimum(chain.caps[options], room)
    if chain.tiled:
        amounts -= amounts % chain.tiles[options]
        for option in [o for o in chain.sums if options.start <= o < options.stop]:
            at = option - options.start
            sums = chain.sums[option]
            amounts[at] = sums[max(np.searchsorted(sums, room[at], "right") - 1, 0)]
    return amounts


def _keys(chain, low, high, spare, never, open_cuts):
    """For each place low..high-1: least W(1, j) - passed amount over its options whose stage above is feasible."""
    options = slice(int(chain.starts[low]), int(chain.starts[high]))
    ends = chain.ends[options]
    room = spare[ends]
    keys = chain.prefix[ends] - _amounts(chain, options, room)
    shut = room < 0 if open_cuts is None else (room < 0) | ~open_cuts[ends]
    keys[shut] = never
    if len(keys) == high - low:
        return keys
    return np.minimum.reduceat(keys, chain.starts[low:high] - options.start)


def _climb(chain, period, processors, open_cuts):
    """Spare time of every cut after 0, 1, .. stages, until cut 0 is reached: the spare array and how to undo it.

    Only cuts below one whose useful spare time has just changed can change, and only cuts whose lower layers fit the
    stages that are left matter, so each stage works on a short window.
    """
    prefix, full, L = chain.prefix, chain.full, len(chain.prefix) - 1
    never, reach = _never(chain), int((chain.ends - chain.places).max())
    spare, useful = np.full(L + 1, -1, prefix.dtype), np.full(L + 1, -1, prefix.dtype)
    keys, least = np.full(L, never, prefix.dtype), np.full(L + 1, never, prefix.dtype)
    spare[L] = useful[L] = 0
    history, low, high = [], L, L
    total, lift = int(prefix[L]), int(full.max())
    for left in range(processors, 0, -1):
        if left * period + lift < total:
            high = min(high, int(np.searchsorted(prefix, left * period + lift, "right")) - 1)
        if high < max(low, 1):
            return None, None
        first = max(low - reach, 0)
        keys[first:high] = _keys(chain, first, high, spare, never, open_cuts)
        after = int(least[high]) if high < L else never
        bottom = min(int(np.searchsorted(prefix, min(int(keys[first:high].min()), after) - period)), high)
        window = slice(bottom, high)
        runs = np.minimum.accumulate(keys[window][::-1])[::-1]
        least[window] = np.minimum(runs, after, out=runs)
        new = prefix[window] - runs
        new += period
        new = np.maximum(new, -1, out=new)
        history.append((window, spare[window].copy()))
        spare[window] = new
        if bottom == 0 and new[0] >= 0:
            return spare, history
        new = np.minimum(new, full[window])
        changed = np.flatnonzero(new != useful[window])
        if not len(changed):
            return None, None
        useful[window] = new
        low, high = bottom + int(changed[0]), bottom + int(changed[-1])
    return None, None


def _climb_in_memory(chain, period, processors, open_cuts):
    """As `_climb` where stage n from the end keeps n versions, so that its length is limited by n.

    No suffix minimum here: every length of a stage is tried, for all cuts at once.
    """
    prefix, L = chain.prefix, len(chain.prefix) - 1
    bytes_before, limit = chain.memory
    spare = np.full(L + 1, -1, prefix.dtype)
    spare[L] = 0
    history, never = [], _never(chain)
    for versions in range(1, processors + 1):
        keys = prefix[chain.ends] - _amounts(chain, slice(0, len(chain.ends)), spare[chain.ends])
        shut = spare[chain.ends] < 0
        keys[shut if open_cuts is None else shut | ~open_cuts[chain.ends]] = never
        furthest = np.searchsorted(bytes_before, bytes_before + limit // versions, "right") - 1
        least = np.full(L + 1, never, prefix.dtype)
        # An option serves the cuts i <= place from which its end is still within the memory.
        nearest = np.searchsorted(furthest, chain.ends)
        for back in range(int(np.max(chain.places - nearest, initial=-1)) + 1):
            at = chain.places - back
            fits = at >= nearest
            np.minimum.at(least, at[fits], keys[fits])
        new = np.maximum(np.maximum(prefix + period - least, -1), spare)
        history.append((slice(0, L + 1), spare))
        if new[0] >= 0:
            return new, history
        if np.array_equal(new, spare) and versions > L:
            break
        spare = new
    return None, None


def _descend(chain, period, spare, history, open_cuts):
    """Stages from the input on: each as short as the stages above can bear, with the least shift."""
    prefix, L = chain.prefix, len(chain.prefix) - 1
    lift, cut, shift, ends, shifts = int(chain.full.max()), 0, 0, [], []
    while history:
        window, before = history.pop()
        spare[window] = before
        far = int(np.searchsorted(prefix, int(prefix[cut]) + period - shift + lift, "right")) - 1
        if chain.memory:
            bytes_before, limit = chain.memory
            far = min(far, int(np.searchsorted(bytes_before, bytes_before[cut] + limit // (len(history) + 1), "right")) - 1)
        end, shift = _shortest(chain, cut, far, period - shift, spare, open_cuts)
        ends.append(end)
        shifts.append(shift)
        cut = end
    return ends, shifts[:-1]


def _shortest(chain, cut, far, room, spare, open_cuts):
    """Lowest end of a stage that starts after `cut` and has `room` for its own work; and what it must pass on.

    The work to pass on grows with the end, so the lowest end also has the least to pass.
    """
    options = slice(int(chain.starts[cut]), int(chain.starts[far]))
    ends = chain.ends[options]
    need = np.maximum(chain.prefix[ends] - chain.prefix[cut] - room, 0)
    if chain.tiled:
        need = _rounded_up(chain, options, need)
    fits = (need <= chain.caps[options]) & (need <= spare[ends]) & (spare[ends] >= 0) & (ends <= far)
    if open_cuts is not None:
        fits &= open_cuts[ends]
    chosen = np.flatnonzero(fits)
    chosen = chosen[ends[chosen] == ends[chosen].min()]
    best = chosen[np.argmin(need[chosen])]
    return int(ends[best]), int(need[best])


def _rounded_up(chain, options, need):
    """`need` rounded up to what whole tiles make; above the cap where they do not reach."""
    tiles = chain.tiles[options]
    need = -(-need // tiles) * tiles
    for option in [o for o in chain.sums if options.start <= o < options.stop]:
        at, sums = option - options.start, chain.sums[option]
        place = np.searchsorted(sums, need[at])
        need[at] = sums[place] if place < len(sums) else sums[-1] + need[at]
    return need


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
    while found and (last := below(high, denominators)) > low:
        middle = Fraction(low + high, 2).limit_denominator(denominators)
        near = (high - low) * 128 < high or not low < middle < last
        period = last if near else middle
        better = _attempt(chain, period, processors, high)
        if better:
            high, found = tighten(*better), better
        elif near:
            break
        else:
            low = period
    return found and (high, *found)


def _attempt(chain, period, processors, link_limit=None):
    """`partition_within` over the cuts whose link is fast enough: within the period, or faster than `link_limit`."""
    if chain.links is None:
        return partition_within(chain, period, processors)
    allowed = [link <= period if link_limit is None else link < link_limit for link in chain.links]
    return partition_within(chain, period, processors, np.array(allowed))


def _first_success(chain, low, processors, denominators, tighten):
    """A period that is too short, one that is enough, and its stages: ever longer steps from `low`."""
    total = Fraction(int(chain.prefix[-1]))
    constrained = chain.links or chain.memory
    step = total if constrained else low / 64
    while True:
        period = min(at_or_above(low + step, denominators), max(total, low))
        found = _attempt(chain, period, processors, math.inf if constrained else None)
        if found or period >= total:
            return low, found and tighten(*found), found
        low, step = period, 4 * step
