"""The iteration bound: the largest ratio of time to delays over all loops, exactly, and what proves it.

Howard's policy iteration. Every node that lies on a loop follows one of its edges (the policy). The best loop among
those gives a ratio p/q; each node then gets a value d, what it collects on its way at q time - p delays an edge, and
takes another edge where that gives more. When nothing gives more, d(u) >= q t(u) - p w + d(v) holds on every edge;
added up around any loop, that says that no loop has a larger ratio. So the values are a certificate.
Source: Howard (1960); Cochet-Terrasson, Cohen, Gaubert, McGettrick & Quadrat, "Numerical computation of spectral
elements in max-plus algebra" (1998); Dasdan, "Experimental analysis of the fastest optimum cycle ratio and mean
algorithms", ACM TODAES 9 (2004).
"""

import numbers
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from lpkit.orders import outgoing, strong_components, topological

__all__ = ["Bound", "iteration_bound"]

LARGEST = 2**62  # of any number that int64 arrays hold here


@dataclass(frozen=True, eq=False)
class Bound:
    """The iteration bound of a graph.

    Attributes
    ----------
    value : Fraction
        Largest time over delays of a loop, in the unit of the node times; 0 if there is no loop.
    loop : tuple of str
        Nodes of one loop that has it; the edges between them (and back) are those with the fewest delays.
    potentials : ndarray (nodes,)
        Whole numbers d in units of 1 / `denominator` with d(u) >= t(u) - value w + d(v) on every edge u -> v: no loop
        has a larger ratio. int64, or Python ints where that is too small.
    denominator : int
        A multiple of those of `value` and of all times.
    """

    value: Fraction
    loop: tuple
    potentials: np.ndarray
    denominator: int

    def verify(self, dfg):
        """Whether `loop` has the ratio `value` in `dfg`, and the potentials prove that none has a larger one.

        Examples
        --------
        >>> from lpkit.dfg import DFG
        >>> ring = DFG({"a": 2, "b": 3}, [("a", "b", 0), ("b", "a", 2)])
        >>> bound = iteration_bound(ring)
        >>> bound.verify(ring), bound.verify(ring.with_delays([0, 1]))
        (True, False)
        """
        return self._is_readable(dfg) and self._is_attained(dfg) and bool((reduced_slack(dfg, self) >= 0).all())

    def _is_readable(self, dfg):
        """Whether all parts are of the kinds that the attributes name, and fit `dfg`."""
        if not (isinstance(self.value, numbers.Rational) and isinstance(self.denominator, numbers.Integral)):
            return False
        if self.denominator <= 0 or self.denominator % dfg.denominator or self.denominator % self.value.denominator:
            return False
        loop = self.loop if isinstance(self.loop, (tuple, list)) else (None,)
        return all(isinstance(name, str) for name in loop) and _are_whole(self.potentials, len(dfg.nodes))

    def _is_attained(self, dfg):
        """Whether the loop exists and has the ratio `value`."""
        if not self.loop:
            return self.value == 0
        steps, fewest = list(zip(self.loop, self.loop[1:] + self.loop[:1])), {}
        wanted = set(steps)
        for u, v, w in dfg.edges:
            if (u, v) in wanted:
                fewest[u, v] = min(w, fewest.get((u, v), w))
        if len(fewest) < len(wanted):
            return False
        return sum(dfg.times[u] for u in self.loop) == self.value * sum(fewest[step] for step in steps)


def iteration_bound(dfg):
    """The iteration bound of `dfg`, a loop that attains it, and potentials that prove it.

    Returns
    -------
    Bound
        Exact; see its `verify`. A graph without loops has the bound 0.

    References
    ----------
    Parhi (1999), section 2.3; Howard's policy iteration as in Dasdan (2004).

    Examples
    --------
    >>> from lpkit.dfg import DFG, backprop_dfg
    >>> bound = iteration_bound(DFG({"a": 2, "b": 2, "c": 1}, [("a", "b", 0), ("b", "c", 1), ("c", "a", 1)]))
    >>> bound.value, bound.loop
    (Fraction(5, 2), ('a', 'b', 'c'))
    >>> iteration_bound(backprop_dfg(2)).loop
    ('E', 'delta2', 'G1', 'U1', 'F1', 'F2')
    """
    labels = strong_components(len(dfg.nodes), dfg.tails, dfg.heads)
    inner = labels[dfg.tails] == labels[dfg.heads]
    core, numbers = np.unique(dfg.tails[inner], return_inverse=True)
    places = np.zeros(len(dfg.nodes), dtype=np.int64)
    places[core] = np.arange(len(core))
    order = np.argsort(numbers, kind="stable")
    tails, heads = numbers[order], places[dfg.heads[inner][order]]
    times, delays = dfg.whole_times[dfg.tails[inner][order]], dfg.delays[inner][order]
    ratio, loop, values = _howard(len(core), tails, heads, times, delays) if len(core) else (Fraction(0), [], core)
    potentials = _extended(dfg, labels, core, values, ratio)
    names = tuple(dfg.nodes[place] for place in core[loop].tolist()) if loop else ()
    return Bound(ratio / dfg.denominator, names, potentials, ratio.denominator * dfg.denominator)


def reduced_slack(dfg, bound):
    """d(u) - t(u) + value w - d(v) of each edge, in units of 1 / `bound.denominator`; 0 on every critical loop.

    Examples
    --------
    >>> from lpkit.dfg import DFG
    >>> ring = DFG({"a": 2, "b": 3}, [("a", "b", 0), ("b", "a", 2), ("a", "a", 3)])
    >>> reduced_slack(ring, iteration_bound(ring)).tolist()
    [0, 0, 11]
    """
    scale, period = bound.denominator // dfg.denominator, int(bound.value * bound.denominator)
    times, delays, potentials = dfg.whole_times, dfg.delays, bound.potentials
    largest = scale * _largest(times) + period * _largest(delays) + 2 * _largest(potentials)
    if largest >= LARGEST:
        times, delays, potentials = (array.astype(object) for array in (times, delays, potentials))
    return potentials[dfg.tails] - scale * times[dfg.tails] + period * delays - potentials[dfg.heads]


def _are_whole(array, count):
    """Whether `array` is an array of `count` whole numbers."""
    if not isinstance(array, np.ndarray) or array.shape != (count,):
        return False
    return array.dtype.kind == "i" or (array.dtype == object and all(type(number) is int for number in array))


def _largest(array):
    """Largest absolute value as a Python int, 0 if there is none."""
    return max(int(array.max()), -int(array.min())) if array.size else 0


def _howard(count, tails, heads, times, delays):
    """Largest ratio, its loop, and the values of all nodes in units of 1 / denominator of the ratio.

    Every node has an edge, and the edges are sorted by `tails`; `times` are those of the sources.
    """
    starts = np.searchsorted(tails, np.arange(count))
    policy = _chosen(-delays, tails, starts)
    ratio, loop, values = Fraction(-1), [], np.zeros(count, dtype=np.int64)
    while True:
        cyclic, loop_of = _policy_loops(heads[policy])
        best, root = _best_loop(cyclic, loop_of, times[policy], delays[policy])
        if best > ratio:
            values = _rescaled(values, best.denominator, ratio.denominator)
            ratio, loop = best, _followed(heads[policy], root)
        gains, values = _gains(ratio, times, delays, values)
        values = _values(heads[policy], gains[policy], np.unique(loop_of), values)
        offers = gains + values[heads]
        better = np.maximum.reduceat(offers, starts) > values
        if not better.any():
            return ratio, loop, values
        policy = np.where(better, _chosen(offers, tails, starts), policy)


def _gains(ratio, times, delays, values):
    """q times - p delays of each edge, and the values: both int64, or Python ints if a path might not fit that."""
    p, q = ratio.numerator, ratio.denominator
    path = (q * (_largest(times) + 1) + p * (_largest(delays) + 1)) * len(values)
    whole = np.int64 if path + _largest(values) < LARGEST else object
    return q * times.astype(whole) - p * delays.astype(whole), values.astype(whole)


def _rescaled(values, denominator, held):
    """Values in units of 1 / `denominator` instead of 1 / `held`; rounded, as any start will do."""
    if _largest(values) * denominator >= LARGEST:
        values = values.astype(object)
    return values * denominator // held


def _chosen(offers, tails, starts):
    """For each node its first edge with the largest offer."""
    best = np.flatnonzero(offers == np.maximum.reduceat(offers, starts)[tails])
    choice = np.empty(len(starts), dtype=np.int64)
    choice[tails[best[::-1]]] = best[::-1]
    return choice


def _policy_loops(following):
    """The nodes that lie on a loop when each node leads to `following`, and the least node of the loop of each.

    Each doubling goes twice as far, so about log2 n of them take every node onto a loop, and around it.
    """
    count = len(following)
    jump, least = following, np.arange(count)
    for _ in range(count.bit_length()):
        least = np.minimum(least, least[jump])
        jump = jump[jump]
    cyclic = np.zeros(count, dtype=bool)
    cyclic[jump] = True
    return np.flatnonzero(cyclic), least[cyclic]


def _best_loop(cyclic, loop_of, times, delays):
    """Largest ratio among the loops of a policy, and the least node of the first loop that has it."""
    roots, places = np.unique(loop_of, return_inverse=True)
    time, delay = np.zeros(len(roots), dtype=times.dtype), np.zeros(len(roots), dtype=np.int64)
    np.add.at(time, places, times[cyclic])
    np.add.at(delay, places, delays[cyclic])
    if time.dtype != object:
        rough = time / delay
        near = rough >= rough.max() * (1 - 1e-9)  # floats only choose whom to compare exactly
        roots, time, delay = roots[near], time[near], delay[near]
    ratios = list(zip(time.tolist(), delay.tolist()))
    best = max(dict.fromkeys(ratios), key=lambda ratio: Fraction(*ratio))
    return Fraction(*best), int(roots[ratios.index(best)])


def _followed(following, root):
    """Nodes of the loop of `root`."""
    loop, place = [root], int(following[root])
    while place != root:
        loop.append(place)
        place = int(following[place])
    return loop


def _values(following, gains, roots, values):
    """What each node collects up to the root of its loop, and the value that the root already has."""
    following, gains = following.copy(), gains.copy()
    following[roots], gains[roots] = roots, 0
    while True:
        further = following[following]
        if (further == following).all():
            return gains + values[following]
        gains += gains[following]
        following = further


def _extended(dfg, labels, core, values, ratio):
    """Potentials of all nodes: those of each strong component raised by what lies behind it, in topological order."""
    scale, period = ratio.denominator, ratio.numerator
    potentials = [0] * len(dfg.nodes)
    for place, value in zip(core.tolist(), values.tolist()):
        potentials[place] = value
    outer = labels[dfg.tails] != labels[dfg.heads]
    tails, heads, delays = dfg.tails[outer].tolist(), dfg.heads[outer].tolist(), dfg.delays[outer].tolist()
    times, component = dfg.whole_times.tolist(), labels.tolist()
    starts, targets, order = outgoing(int(labels.max()) + 1, labels[dfg.tails[outer]], labels[dfg.heads[outer]])
    raised = [0] * (len(starts) - 1)
    for c in reversed(topological(starts, targets)):
        needs = [0] if starts[c] == starts[c + 1] else []
        for edge in order[starts[c] : starts[c + 1]]:
            u, v = tails[edge], heads[edge]
            collected = scale * times[u] - period * delays[edge] + potentials[v] + raised[component[v]]
            needs.append(collected - potentials[u])
        raised[c] = max(needs)
    potentials = [value + raised[c] for value, c in zip(potentials, component)]
    return np.array(potentials, dtype=np.int64 if max(map(abs, potentials)) < LARGEST else object)
