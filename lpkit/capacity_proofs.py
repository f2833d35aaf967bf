"""Proof that no plan on unequal processors, or with replicas, is faster: every stage of every length on every group.

It shares nothing with the search: exact fractions and strict inequalities at the period itself. A plan faster than T is
there if and only if every stage can take strictly less than T.
"""

from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

__all__ = ["Case", "faster_exists", "most_passed"]


@dataclass(frozen=True)
class Case:
    """What bounds the stages: work, movable parts by cut, link times by cut, memory by layer, and the processors.

    `speeds` holds one for each processor, or None; `rates` the time of an all-reduce for each byte of `weights`, for 1,
    2, .. replicas. `shut` are cuts that are not allowed.
    """

    work: list
    parts: dict
    links: list
    shut: set
    weights: list
    memories: list
    memory: object
    processors: int
    speeds: list | None
    rates: tuple


def faster_exists(case, period):
    """Whether some plan takes less than `period`.

    Examples
    --------
    >>> case = Case([4, 2], {}, [0], set(), [0, 0], [0, 0], 1, 3, None, (0, 0))
    >>> faster_exists(case, 3), faster_exists(case, 2)
    (True, False)
    """
    rooms = defaultdict(dict)
    for state, source, group in _groups_of_speeds(case) if case.speeds else _groups_of_replicas(case):
        above = rooms[source] if source else {len(case.work): Fraction(0)}
        for cut, room in _one_more(case, period, above, *group):
            rooms[state][cut] = max(room, rooms[state].get(cut, room))
        if 0 in rooms[state]:
            return True
    return False


def _groups_of_speeds(case):
    """(state, state above, (capacity, replicas, versions)); a state is the lowest processor used and how many are."""
    for n in range(1, case.processors + 1):
        for p in range(case.processors, 0, -1):
            for q in range(p + 1, case.processors + 1) if n > 1 else [None]:
                yield (p, n), q and (q, n - 1), (case.speeds[p - 1], 1, n)


def _groups_of_replicas(case):
    """The same, where a state is the number of processors used."""
    for m in range(1, case.processors + 1):
        for r in range(1, min(m, len(case.rates)) + 1):
            yield (m,), (m - r,) if m > r else None, (r, r, -(-m // r))


def _one_more(case, period, above, capacity, replicas, versions):
    """(cut, work that a stage from it on can still take over) for each stage that ends where `above` begins."""
    for end, room in above.items():
        if not _open(case, end, period * replicas):
            continue
        load = kept = 0
        for start in range(end, 0, -1):  # the stage holds layers start..end
            load += case.work[start - 1] + case.rates[replicas - 1] * case.weights[start - 1]
            kept += case.memories[start - 1]
            parts = case.parts.get(end, ())
            if load >= period * capacity + sum(cap for _, cap, _ in parts) or kept * versions > case.memory:
                break
            left = period * capacity - load + most_passed(parts, start, room, strict=True)
            if left > 0 and _open(case, start - 1, period * replicas):
                yield start - 1, left


def _open(case, cut, time):
    """Whether a stage may begin or end at `cut`, whose link must take less than `time`."""
    return cut in (0, len(case.work)) or (cut not in case.shut and case.links[cut - 1] < time)


def most_passed(parts, start, room, strict=False):
    """Most work that the deltas of layers from `start` on can pass to a stage with `room`; `strict`: less than that.

    `parts` are (layer, cap, tiles or None). Any amount below the least of the caps' sum and the room is as good as that
    least itself, so that only whole tiles make a difference to `strict`.

    Examples
    --------
    >>> most_passed([(2, 6, 3)], 1, 4), most_passed([(2, 6, 3)], 1, 4, strict=True), most_passed([(2, 6, None)], 1, 5)
    (Fraction(4, 1), Fraction(2, 1), Fraction(5, 1))
    """
    parts = [(cap, tiles) for layer, cap, tiles in parts if layer >= start]
    if all(tiles is None for _, tiles in parts):
        return min(sum((cap for cap, _ in parts), Fraction(0)), Fraction(room))
    choices = product(*(range(tiles + 1) for _, tiles in parts))
    sums = (sum(Fraction(n * cap, tiles) for n, (cap, tiles) in zip(counts, parts)) for counts in choices)
    return max(s for s in sums if s < room or (s == room and not (strict and s)))
