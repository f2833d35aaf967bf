"""All downsets of a graph of layers: sets that hold, with each layer, all that come before it.

A chain of downsets, each within the next, is a topological order cut into stages, and every such order is one; a chain
of L layers has L + 1 downsets, branches beside each other multiply theirs.
Source: PipeDream (SOSP 2019) plans over the same sets, as pasts of antichains.
"""

from dataclasses import dataclass

from lpkit.layer_graph import members

__all__ = ["Lattice", "lattice"]


@dataclass(frozen=True)
class Lattice:
    """Downsets, small ones first (the first is empty, the last full), with bit l - 1 of each for layer l.

    Attributes
    ----------
    sets : tuple of int
    ready : tuple of int
        The layers that may come next after each downset.
    lower : tuple of tuple of int
        For each downset the places of those with one layer less.
    """

    sets: tuple
    ready: tuple
    lower: tuple

    def __len__(self):
        return len(self.sets)


def lattice(before, most):
    """All downsets of a graph in which layer l comes after the layers of ``before[l - 1]``; None if more than `most`.

    Examples
    --------
    >>> fork = lattice([0b000, 0b001, 0b001], 10)  # layers 2 and 3 come after layer 1
    >>> [bin(downset) for downset in fork.sets], fork.lower
    (['0b0', '0b1', '0b11', '0b101', '0b111'], ((), (0,), (1,), (1,), (2, 3)))
    >>> lattice([0b000, 0b001, 0b001], 4) is None
    True
    """
    after = [[] for _ in before]
    for layer, mask in enumerate(before):
        for source in members(mask):
            after[source].append(layer)
    level = {0: (sum(1 << layer for layer, mask in enumerate(before) if not mask), [])}
    found = {}
    while level:
        start, level = len(found), dict(sorted(level.items()))
        found.update(level)
        if len(found) > most:
            return None
        level = _next_level(before, after, level, start)
    return Lattice(tuple(found), tuple(ready for ready, _ in found.values()),
                   tuple(tuple(lower) for _, lower in found.values()))


def _next_level(before, after, level, start):
    """The downsets of one more layer than those of `level`, whose places begin at `start`."""
    above = {}
    for place, (downset, (ready, _)) in enumerate(level.items(), start):
        for layer in members(ready):
            larger = downset | 1 << layer
            if larger not in above:
                more = sum(1 << a for a in after[layer] if not before[a] & ~larger)
                above[larger] = (ready & ~(1 << layer) | more, [])
            above[larger][1].append(place)
    return above
