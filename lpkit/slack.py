"""What the iteration bound leaves open: how much time each node has to spare, and a schedule that reaches the bound.

Both follow from the potentials of `lpkit.bounds`: on each edge u -> v, d(u) - t(u) + T w - d(v) is never negative, and
around a loop these numbers add up to T times its delays less its time.
Source: Reiter, "Scheduling parallel computations", J. ACM 15 (1968), for periodic schedules; modulo schedules as in
Parhi (1999), chapter 6, where slot and lag are what folding needs.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from lpkit.bounds import Bound, iteration_bound, reduced_slack
from lpkit.flowgraph import exact_time
from lpkit.orders import plain, shown_path

__all__ = ["Schedule", "modulo_schedule", "slack"]

LARGEST = 2**53  # whole numbers that scipy's shortest paths, in floats, hold exactly
AT_ONCE = 2**22  # distances in memory at a time


@dataclass(frozen=True)
class Schedule:
    """A periodic schedule: iteration n of node v starts at ``starts[v] + n period``; iterations overlap.

    Attributes
    ----------
    period : int or Fraction
    starts : dict
        Start of iteration 0 of each node, >= 0.
    """

    period: int | Fraction
    starts: dict

    @property
    def lags(self):
        """Whole periods before each start: a legal retiming."""
        return {name: int(start // self.period) for name, start in self.starts.items()}

    @property
    def slots(self):
        """Start of each node within the period."""
        return {name: plain(Fraction(start % self.period)) for name, start in self.starts.items()}


def modulo_schedule(dfg, period=None):
    """Start times with the given `period`, or with the least there is: the iteration bound itself.

    Each result is ready when it is used: start(v) >= start(u) + t(u) - period w on every edge u -> v. As many
    processors as it takes are assumed; a node may take longer than a period and then overlaps with itself.

    Raises
    ------
    ValueError
        If `period` is below the iteration bound (the sentence names the loop), or the bound is 0 and none is given.

    References
    ----------
    Reiter (1968).

    Examples
    --------
    >>> from lpkit.dfg import DFG
    >>> ring = DFG({"a": 2, "b": 2, "c": 1}, [("a", "b", 0), ("b", "c", 1), ("c", "a", 1)])
    >>> schedule = modulo_schedule(ring)
    >>> schedule.period, schedule.starts
    (Fraction(5, 2), {'a': 0, 'b': 2, 'c': Fraction(3, 2)})
    """
    bound = _bound_at(dfg, period)
    if not bound.value:
        raise ValueError("no loop of this graph takes time, so that any period will do; give one above 0")
    latest = max(bound.potentials.tolist())
    starts = [plain(Fraction(latest - value, bound.denominator)) for value in bound.potentials.tolist()]
    return Schedule(plain(bound.value), dict(zip(dfg.nodes, starts)))


def _bound_at(dfg, period):
    """The iteration bound with `period` in place of its value: potentials that fit the bound fit any longer period."""
    bound = iteration_bound(dfg)
    if period is None:
        return bound
    period = Fraction(exact_time(period, "period"))
    if period < bound.value:
        raise ValueError(
            f"period {period} is too short: the loop {shown_path([*bound.loop, *bound.loop[:1]])} needs {bound.value}"
        )
    finer = period.denominator
    potentials = np.array([value * finer for value in bound.potentials.tolist()], dtype=object)
    return Bound(period, bound.loop, potentials, bound.denominator * finer)


def slack(dfg, period=None):
    """How much longer each node may take, alone, with the iteration bound still within `period` (default: as it is).

    Returns
    -------
    dict
        Node to int or Fraction; 0 on critical loops, None for a node on no loop.

    Raises
    ------
    ValueError
        If `period` is below the iteration bound, or the numbers are too large to be exact (2**53).

    Notes
    -----
    The least of period x delays - time over all loops through the node: a shortest path for each of n nodes.

    Examples
    --------
    >>> from lpkit.dfg import backprop_dfg
    >>> spare = slack(backprop_dfg(3))
    >>> [spare[name] for name in ("delta2", "delta3", "G1", "G2", "G3", "X")]
    [0, 0, 0, 2, 4, None]
    """
    bound = _bound_at(dfg, period)
    spare = reduced_slack(dfg, bound)
    if spare.size and int(spare.max()) * len(dfg.nodes) >= LARGEST:
        raise ValueError("the times are too large for exact slack (2**53 in all); use a coarser unit")
    shortest = _shortest_loops(len(dfg.nodes), dfg.tails, dfg.heads, spare.astype(np.int64))
    return {
        name: None if value == np.inf else plain(Fraction(int(value), bound.denominator))
        for name, value in zip(dfg.nodes, shortest.tolist())
    }


def _shortest_loops(count, tails, heads, lengths):
    """Length of the shortest loop through each node, infinite if there is none; lengths are >= 0."""
    order = np.lexsort((lengths, heads, tails))
    tails, heads, lengths = tails[order], heads[order], lengths[order]
    first = np.ones(len(order), dtype=bool)
    first[1:] = (tails[1:] != tails[:-1]) | (heads[1:] != heads[:-1])  # a sparse matrix would add parallel edges up
    tails, heads, lengths = tails[first], heads[first], lengths[first]
    from scipy.sparse import csr_array  # takes longer to import than all of lpkit
    from scipy.sparse.csgraph import dijkstra

    graph = csr_array((lengths.astype(float), (tails, heads)), shape=(count, count))
    shortest, rows = np.full(count, np.inf), max(AT_ONCE // count, 1)
    for start in range(0, count, rows):
        distances = dijkstra(graph, indices=np.arange(start, min(start + rows, count)))
        mine = np.flatnonzero((heads >= start) & (heads < start + rows))
        np.minimum.at(shortest, heads[mine], distances[heads[mine] - start, tails[mine]] + lengths[mine])
    return shortest
