"""Can the layers of a graph be done within a given period, in any order? The dynamic programme over downsets.

It runs from the whole graph down, a stage at a time. What a stage may pass up depends on the layer that the next stage
begins with (a delta moves to the stage that begins with its first reader), so a state is a downset and who begins
behind it: a `Door`. What counts is the largest room, the work that the stages above can still take over::

    room(door of I) = max over J, door of J of  T - W(J - I) + min(delta that may pass the door of J, room(door of J)).

More room above never hurts below, nor do fewer stages above, so the largest room with the fewest stages is enough.
"""

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
        left = most

        @cache
        def lowers_of(place):
            nonlocal left
            found, todo, least = {place}, [place], self.done[place] - self.lift[place] - period
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
    """One test of a period: the largest useful room met at each door so far."""

    def __init__(self, task, period, processors, open_cuts):
        self.task, self.processors, self.scale, self.period = task, processors, period.denominator, period.numerator
        self.done = [units * self.scale for units in task.done]
        self.lift = [units * self.scale for units in task.lift]
        self.open_cuts = open_cuts or [True] * len(task.lattice)
        self.best = {}

    def level(self, above, lowers, stages):
        """Doors that one more stage below those of `above` reaches with more room than before: ``{door: (room, above)}``."""
        found = {}
        for upper, (room, _) in above.items():
            for low, spare in self._stages(upper, room, lowers(upper.downset), stages):
                stage = self.task.lattice.sets[upper.downset] & ~self.task.lattice.sets[low]
                for door in self.task.doors[low]:
                    useful = min(spare, door.full * self.scale)
                    if (door.first & stage or not door.movers) and useful > self.best.get(door, -1):
                        self.best[door] = useful
                        found[door] = (useful, upper)
        return found

    def _stages(self, upper, room, lows, stages):
        """Places of the cuts below `upper` that a stage can begin behind, with what it can take from the stage below."""
        task, sets, most = self.task, self.task.lattice.sets, min(room, upper.full * self.scale)
        left = (self.processors - stages) * self.period
        for low in lows:
            spare = self.period - self.done[upper.downset] + self.done[low]
            if spare + most < 0:
                return
            if upper.movers and most:
                passed = sum(cap for mask, cap in upper.movers if mask & ~sets[low]) * self.scale
                spare += min(passed, room)
            fits = spare >= 0 and self.done[low] - min(spare, self.lift[low]) <= left
            if fits and self.open_cuts[low] and self._holds(upper.downset, low, stages):
                yield low, spare

    def _holds(self, upper, low, versions):
        if self.task.memory is None:
            return True
        kept, limit = self.task.memory
        return (kept[upper] - kept[low]) * versions <= limit
