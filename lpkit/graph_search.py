"""Can the layers of a graph be done within a given period, in any order? The dynamic programme over downsets.

It runs from the whole graph down, a stage at a time. What a stage may pass up depends on the layer that the next stage
begins with (a delta moves to the stage that begins with its first reader), so a state is a downset and who begins
behind it: a `Door`. What counts is the largest room, the work that the stages above can still take over::

    room(door of I) = max over J, door of J of  T - W(J - I) + min(delta that may pass the door of J, room(door of J)).

More room above never hurts below, nor do fewer stages above, so the largest room with the fewest stages is enough.
"""

import math
from dataclasses import dataclass
from functools import cache, cached_property

from lpkit.downsets import Lattice
from lpkit.layer_graph import members

__all__ = ["Door", "GraphTask", "stages_within"]


@dataclass(frozen=True, eq=False)
class Door:
    """A cut after a downset, and who begins behind it.

    Attributes
    ----------
    downset : int
        Its place in the lattice.
    movers : tuple of (layer mask, units)
        Deltas that may pass to the next stage if their layer is on the stage before the cut.
    first : int
        The layers, any of which the next stage must begin with for that.
    full : int
        Units of all `movers`.
    """

    downset: int
    movers: tuple
    first: int
    full: int


@dataclass(frozen=True, eq=False)
class GraphTask:
    """A graph to be planned: its lattice, who reads whom, and work, movable delta and links in whole units.

    Attributes
    ----------
    lattice : Lattice
    readers : tuple of int
        As in `LayerGraph`.
    work, caps : list of int, length L
    links : list of Fraction or None
        Time of the link at the cut after each downset.
    memory : tuple or None
        Bytes that the layers of each downset keep, and bytes that a stage holds.
    """

    lattice: Lattice
    readers: tuple
    work: list
    caps: list
    links: list | None = None
    memory: tuple | None = None

    @cached_property
    def done(self):
        """Work of each downset."""
        return self.total_of(self.work)

    def total_of(self, values):
        """Sum of the values of the layers of each downset."""
        sums = [0]
        sets = self.lattice.sets
        for downset, lower in zip(sets[1:], self.lattice.lower[1:]):
            layer = (downset & ~sets[lower[0]]).bit_length() - 1
            sums.append(sums[lower[0]] + values[layer])
        return sums

    @cached_property
    def doors(self):
        """The doors of each downset; the first of each lets nothing pass, whoever begins behind it."""
        sources = [0] * len(self.work)
        for layer, (cap, read) in enumerate(zip(self.caps, self.readers)):
            for reader in members(read if cap else 0):
                sources[reader] |= 1 << layer
        return [self._doors_of(place, sources) for place in range(len(self.lattice))]

    def _doors_of(self, place, sources):
        downset, ready = self.lattice.sets[place], self.lattice.ready[place]
        groups = {0: ready}
        for layer in members(ready):
            movers = sum(1 << m for m in members(sources[layer]) if not self.readers[m] & downset)
            if movers:
                groups[movers] = groups.get(movers, 0) | 1 << layer
        return [self._door(place, movers, first) for movers, first in groups.items()]

    def _door(self, place, movers, first):
        units = tuple((1 << m, self.caps[m]) for m in members(movers))
        return Door(place, units, first, sum(cap for _, cap in units))

    @cached_property
    def lift(self):
        """Most units that pass any door of each downset."""
        return [max(door.full for door in doors) for doors in self.doors]

    def lowers(self, period, most):
        """A function of a downset's place: those that a stage up to it within `period` may begin behind, largest first.

        It raises OverflowError once it has found more than `most` of them in all.
        """
        left, longest = most, math.floor(period)

        @cache
        def lowers_of(place):
            nonlocal left
            found, todo, least = {place}, [place], self.done[place] - self.lift[place] - longest
            for upper in todo:  # the list grows while it is read
                new = [low for low in self.lattice.lower[upper] if low not in found and self.done[low] >= least]
                found.update(new)
                todo += new
                if len(todo) > left:
                    raise OverflowError(f"more than {most} stages")
            left -= len(todo) - 1
            return sorted(todo[1:], key=lambda low: (-self.done[low], low))

        return lowers_of


def stages_within(task, period, processors, lowers, open_cuts=None):
    """A plan with the fewest stages within `period`: the downset and first layers of each stage, or None.

    Parameters
    ----------
    task : GraphTask
    period : Fraction
        In units.
    processors : int
        Most stages.
    lowers : callable
        From `GraphTask.lowers`, of this period or a larger one.
    open_cuts : list of bool, optional
        For each downset whether a cut after it is allowed.

    Returns
    -------
    list of (int, int) or None
        For each stage from the input on its layers and those of which any may begin it.
    """
    climb = _Climb(task, period, processors, open_cuts)
    top = Door(len(task.lattice) - 1, (), 0, 0)
    levels = [{top: (0, None)}]
    while levels[-1] and len(levels) <= processors:
        level = climb.level(levels[-1], lowers, len(levels))
        levels.append(level)
        if start := next((door for door in level if door.downset == 0), None):
            return _traced(task.lattice.sets, levels, start)
    return None


def _traced(sets, levels, door):
    """Layers of each stage and those that may begin it, from the input on."""
    stages = []
    for level in reversed(levels[1:]):
        above = level[door][1]
        stages.append((sets[above.downset] & ~sets[door.downset], door.first))
        door = above
    return stages


class _Climb:
    """One test of a period: the largest useful room met at each door so far, with the fewest stages."""

    def __init__(self, task, period, processors, open_cuts):
        self.task, self.processors, self.scale, self.period = task, processors, period.denominator, period.numerator
        self.done = [units * self.scale for units in task.done]
        self.lift = [units * self.scale for units in task.lift]
        # A cut that no plan may use is shut from the start, one where nothing can become better from then on.
        self.shut = [not open for open in open_cuts] if open_cuts else [False] * len(task.lattice)
        self.best = {}

    def level(self, above, lowers, stages):
        """Doors that one more stage below those of `above` reaches with more room than before: ``{door: (room, above)}``."""
        found = {}
        left = (self.processors - stages) * self.period
        for upper, (room, _) in above.items():
            lows = lowers(upper.downset) if stages < self.processors else (0,)  # no stage is left below the last
            for low, spare in self._stages(upper, room, lows, left):
                if self._holds(upper.downset, low, stages):
                    self._enter(low, spare, upper, found)
        return found

    def _stages(self, upper, room, lows, left):
        """Places of the cuts below `upper` that a stage can begin behind, with what it can take from the stage below."""
        sets, done, lift, scale = self.task.lattice.sets, self.done, self.lift, self.scale
        most = min(room, upper.full * scale)
        base = self.period - done[upper.downset]
        for low in lows:
            spare = base + done[low]
            if spare + most < 0:
                return
            if self.shut[low]:
                continue
            if most:
                spare += min(room, scale * sum(cap for mask, cap in upper.movers if mask & ~sets[low]))
            if spare >= 0 and done[low] - min(spare, lift[low]) <= left:
                yield low, spare

    def _holds(self, upper, low, versions):
        """Whether a stage keeps within the memory."""
        if self.task.memory is None:
            return True
        kept, limit = self.task.memory
        return (kept[upper] - kept[low]) * versions <= limit

    def _enter(self, low, spare, upper, found):
        """Keep what the stage from `low` up to `upper` offers to the doors of `low`."""
        stage = self.task.lattice.sets[upper.downset] & ~self.task.lattice.sets[low]
        shut = True
        for door in self.task.doors[low]:
            full, best = door.full * self.scale, self.best.get(door, -1)
            useful = min(spare, full)
            if useful > best and (not door.movers or door.first & stage):
                self.best[door] = best = useful
                found[door] = (useful, upper)
            shut = shut and best == full
        self.shut[low] = shut
