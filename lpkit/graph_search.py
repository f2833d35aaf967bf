"""Can the layers of a graph be done within a given period, in any order? The dynamic programme over downsets.

It runs from the whole graph down, a stage at a time. What a stage may pass up depends on the layer that the next stage
begins with (a delta moves to the stage that begins with its first reader), so a state is a downset and who begins
behind it: a `Cut`. What counts is the largest room, the work that the stages above can still take over::

    room(cut of I) = max over J, cut of J of  T - W(J - I) + min(delta that may pass the cut of J, room(cut of J)).

More room above never hurts below, nor do fewer stages above, so the largest room with the fewest stages is enough.
"""

import math
from dataclasses import dataclass
from functools import cache, cached_property

from lpkit.downsets import Lattice
from lpkit.layer_graph import members

__all__ = ["Cut", "GraphTask", "stages_within"]


@dataclass(frozen=True, eq=False)
class Cut:
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
    def cuts(self):
        """The cuts of each downset; the first of each lets nothing pass, whoever begins behind it."""
        sources = [0] * len(self.work)
        for layer, (cap, read) in enumerate(zip(self.caps, self.readers)):
            for reader in members(read if cap else 0):
                sources[reader] |= 1 << layer
        return [self._cuts_of(place, sources) for place in range(len(self.lattice))]

    def _cuts_of(self, place, sources):
        downset, ready = self.lattice.sets[place], self.lattice.ready[place]
        groups = {0: ready}
        for layer in members(ready):
            movers = sum(1 << m for m in members(sources[layer]) if not self.readers[m] & downset)
            if movers:
                groups[movers] = groups.get(movers, 0) | 1 << layer
        return [self._cut(place, movers, first) for movers, first in groups.items()]

    def _cut(self, place, movers, first):
        units = tuple((1 << m, self.caps[m]) for m in members(movers))
        return Cut(place, units, first, sum(cap for _, cap in units))

    @cached_property
    def lift(self):
        """Most units that pass any cut of each downset."""
        return [max(cut.full for cut in cuts) for cuts in self.cuts]

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

    Examples
    --------
    >>> from fractions import Fraction
    >>> from lpkit.downsets import lattice
    >>> fork = lattice([0b000, 0b001, 0b001], 10)  # layers 2 and 3 come after layer 1
    >>> task = GraphTask(fork, readers=(0b110, 0, 0), work=[2, 3, 1], caps=[0, 0, 0])
    >>> [bin(layers) for layers, _ in stages_within(task, Fraction(3), 2, task.lowers(3, 100))]
    ['0b101', '0b10']
    """
    climb = _Climb(task, period, processors, open_cuts)
    top = Cut(len(task.lattice) - 1, (), 0, 0)
    levels = [{top: (0, None)}]
    while levels[-1] and len(levels) <= processors:
        level = climb.level(levels[-1], lowers, len(levels))
        levels.append(level)
        if start := next((cut for cut in level if cut.downset == 0), None):
            return _traced(task.lattice.sets, levels, start)
    return None


def _traced(sets, levels, cut):
    """Layers of each stage and those that may begin it, from the input on."""
    stages = []
    for level in reversed(levels[1:]):
        above = level[cut][1]
        stages.append((sets[above.downset] & ~sets[cut.downset], cut.first))
        cut = above
    return stages


class _Climb:
    """One test of a period: the largest useful room met at each cut so far, with the fewest stages."""

    def __init__(self, task, period, processors, open_cuts):
        self.task, self.processors, self.scale, self.period = task, processors, period.denominator, period.numerator
        self.done = [units * self.scale for units in task.done]
        self.lift = [units * self.scale for units in task.lift]
        # A cut that no plan may use is shut from the start, one where nothing can become better from then on.
        self.shut = [not open for open in open_cuts] if open_cuts else [False] * len(task.lattice)
        self.best = {}

    def level(self, above, lowers, stages):
        """Cuts that one more stage, below those of `above`, reaches with more room: ``{cut: (room, cut above)}``."""
        found = {}
        left = self.processors - stages
        for upper, (room, _) in above.items():
            lows = lowers(upper.downset) if left else (0,)  # the last stage begins with the first layer
            for low, spare in self._stages(upper, room, lows, left * self.period):
                if self._holds(upper.downset, low, stages):
                    self._enter(low, spare, upper, found)
        return found

    def _stages(self, upper, room, lows, left):
        """Places of `lows` that a stage up to `upper` can begin behind, with the work it can take from the stage below.

        `left` is the time of the stages that are left below it.
        """
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
        """Keep what the stage from `low` up to `upper` offers to the cuts of `low`."""
        stage = self.task.lattice.sets[upper.downset] & ~self.task.lattice.sets[low]
        shut = True
        for cut in self.task.cuts[low]:
            full, best = cut.full * self.scale, self.best.get(cut, -1)
            useful = min(spare, full)
            if useful > best and (not cut.movers or cut.first & stage):
                self.best[cut] = best = useful
                found[cut] = (useful, upper)
            shut = shut and best == full
        self.shut[low] = shut
