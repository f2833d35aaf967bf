"""A data-flow graph: nodes that take time, edges that carry delays.

An edge u -> v with w delays says that v in iteration n uses what u made in iteration n - w. A loop without a delay
cannot be computed and is refused. Times are whole numbers or Fractions and stay exact.
Source: Parhi, "VLSI Digital Signal Processing Systems" (Wiley 1999), chapter 2; Leiserson & Saxe, "Retiming
synchronous circuitry", Algorithmica 6 (1991), whose host is a node that retiming leaves alone.
"""

import math
import numbers
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np

from lpkit.checks import LARGEST_SIZE, LONGEST_SHOWN, shown, unknown_name, whole_number
from lpkit.checks import plain as plain_number
from lpkit.orders import outgoing, plain, shown_path, strong_components, topological

__all__ = ["DFG", "CriticalPath", "Edge", "critical_path", "exact_time", "execution_order", "shown_name"]

LARGEST_TIME = 2**256  # of a numerator or denominator; sums of such times stay exact


class Edge(NamedTuple):
    """What `target` uses of `source`: the result of `delays` iterations ago.

    Examples
    --------
    >>> Edge("a", "b", 2)
    Edge(source='a', target='b', delays=2)
    """

    source: str
    target: str
    delays: int = 0


class CriticalPath(NamedTuple):
    """The clock period of a graph as it stands, and the delay-free path that needs it."""

    period: int | Fraction
    path: tuple


@dataclass(frozen=True)
class DFG:
    """A data-flow graph; edges may be parallel, nodes may stand alone.

    Attributes
    ----------
    times : dict
        Time of each node, an int or Fraction >= 0 in any one unit; the order of the nodes is kept.
    edges : tuple of Edge
        Or anything that holds (source, target, delays) triples.
    hosts : tuple of str
        Nodes that retiming must leave alone (inputs, outputs, the host of Leiserson & Saxe).

    Raises
    ------
    ValueError
        If there are no nodes, an edge names an unknown node, a time or a delay is negative or not a number of the
        right kind, or a loop has no delay; the sentence names the node, the edge or the loop.

    Examples
    --------
    >>> ring = DFG({"a": 2, "b": 2, "c": 1}, [("a", "b", 0), ("b", "c", 1), ("c", "a", 1)])
    >>> ring.nodes, ring.registers(), ring.edges[1]
    (('a', 'b', 'c'), 2, Edge(source='b', target='c', delays=1))
    >>> DFG({"a": 1, "b": 1}, [("a", "b", 0), ("b", "a", 0)])
    Traceback (most recent call last):
    ...
    ValueError: the loop a -> b -> a has no delay; put a delay on one of its edges
    """

    times: Mapping = field(hash=False)
    edges: tuple
    hosts: tuple = ()

    def __post_init__(self):
        object.__setattr__(self, "times", _checked_times(self.times))
        object.__setattr__(self, "edges", _checked_edges(self.edges, self.times))
        object.__setattr__(self, "hosts", _checked_hosts(self.hosts, self.times))
        _refuse_delay_free_loops(self)

    @classmethod
    def from_edges(cls, edges, times=1, *, hosts=()):
        """A graph from its edges alone; nodes in order of appearance, each with the time `times[node]` or `times`.

        Raises
        ------
        ValueError
            If an edge is not (source, target, delays), or a node has no time.

        Examples
        --------
        >>> DFG.from_edges([("add", "mul", 0), ("mul", "add", 1)], {"add": 2, "mul": 4}).times
        {'add': 2, 'mul': 4}
        """
        edges = _listed_edges(edges)
        nodes = dict.fromkeys(times) if isinstance(times, Mapping) else {}
        nodes |= dict.fromkeys(name for edge in edges for name in edge[:2])
        if not isinstance(times, Mapping):
            return cls(dict.fromkeys(nodes, times), edges, hosts)
        missing = [name for name in nodes if name not in times]
        if missing:
            name = shown(missing[0])
            raise ValueError(f"node {name} has no time; give times[{name}], whole or a Fraction")
        return cls({name: times[name] for name in nodes}, edges, hosts)

    @cached_property
    def nodes(self):
        """Names of the nodes, in order."""
        return tuple(self.times)

    @cached_property
    def index(self):
        """Place of each node in `nodes`."""
        return {name: place for place, name in enumerate(self.times)}

    @cached_property
    def tails(self):
        """Place of the source of each edge, int64 (edges,)."""
        return np.array([self.index[edge[0]] for edge in self.edges], dtype=np.int64)

    @cached_property
    def heads(self):
        """Place of the target of each edge, int64 (edges,)."""
        return np.array([self.index[edge[1]] for edge in self.edges], dtype=np.int64)

    @cached_property
    def delays(self):
        """Delays of each edge, int64 (edges,)."""
        return np.array([edge[2] for edge in self.edges], dtype=np.int64)

    @cached_property
    def denominator(self):
        """Least common denominator of the times."""
        return math.lcm(*{time.denominator for time in self.times.values()})

    @cached_property
    def whole_times(self):
        """Times in units of 1 / `denominator`, (nodes,): int64, or Python ints (object) where that is too small."""
        scale = self.denominator
        times = [time.numerator * (scale // time.denominator) for time in self.times.values()]
        return np.array(times, dtype=np.int64 if sum(times) < 2**62 else object)

    def registers(self, *, shared=True):
        """Delays of all edges; with `shared` the edges that leave a node tap one chain as long as the longest of them.

        Examples
        --------
        >>> fork = DFG.from_edges([("a", "b", 3), ("a", "c", 2)])
        >>> fork.registers(), fork.registers(shared=False)
        (3, 5)
        """
        if not shared:
            return sum(self.delays.tolist())
        longest = np.zeros(len(self.nodes), dtype=np.int64)
        np.maximum.at(longest, self.tails, self.delays)
        return sum(longest.tolist())

    def with_delays(self, delays):
        """The same graph with other delays, one a edge in the order of `edges`.

        Examples
        --------
        >>> DFG.from_edges([("a", "b", 0), ("b", "a", 1)]).with_delays([1, 0]).edges[0]
        Edge(source='a', target='b', delays=1)
        """
        delays = _listed_delays(delays)
        if len(delays) != len(self.edges):
            raise ValueError(f"there are {len(delays)} delays for {len(self.edges)} edges; give one an edge")
        edges = _checked_edges([(u, v, w) for (u, v, _), w in zip(self.edges, delays)], self.times)
        other = object.__new__(DFG)  # nodes and times have been checked, and the arrays made of them stay
        other.__dict__.update({name: value for name, value in vars(self).items() if name != "delays"}, edges=edges)
        _refuse_delay_free_loops(other)
        return other


def execution_order(dfg):
    """The nodes in an order in which each comes after all it reads without a delay.

    Examples
    --------
    >>> execution_order(DFG.from_edges([("a", "b", 1), ("b", "a", 0)]))
    ('b', 'a')
    """
    free = dfg.delays == 0
    starts, targets, _ = outgoing(len(dfg.nodes), dfg.tails[free], dfg.heads[free])
    return tuple(dfg.nodes[place] for place in topological(starts, targets))


def critical_path(dfg):
    """The longest delay-free path: the clock period of the graph as it stands, both ends included.

    Returns
    -------
    CriticalPath
        ``period`` in the unit of the times, and ``path``, the nodes of one such path (the first, on ties).

    References
    ----------
    Leiserson & Saxe (1991), algorithm CP.

    Examples
    --------
    >>> critical_path(DFG({"a": 2, "b": 2, "c": 1}, [("a", "b", 0), ("b", "c", 1), ("c", "a", 1)]))
    CriticalPath(period=4, path=('a', 'b'))
    """
    free = dfg.delays == 0
    starts, targets, _ = outgoing(len(dfg.nodes), dfg.tails[free], dfg.heads[free])
    times = dfg.whole_times.tolist()
    arrival, before = times.copy(), [-1] * len(times)
    for u in topological(starts, targets):
        for v in targets[starts[u] : starts[u + 1]]:
            if arrival[u] + times[v] > arrival[v]:
                arrival[v], before[v] = arrival[u] + times[v], u
    place = max(range(len(arrival)), key=arrival.__getitem__)
    period, path = plain(Fraction(arrival[place], dfg.denominator)), []
    while place >= 0:
        path.append(dfg.nodes[place])
        place = before[place]
    return CriticalPath(period, tuple(reversed(path)))


def _refuse_delay_free_loops(dfg):
    free = dfg.delays == 0
    tails, heads = dfg.tails[free], dfg.heads[free]
    labels = strong_components(len(dfg.nodes), tails, heads)
    inside = (labels[tails] == labels[heads]) & ((tails == heads) | (np.bincount(labels)[labels[tails]] > 1))
    following = dict(zip(tails[inside].tolist(), heads[inside].tolist()))
    if following:
        seen, place = {}, min(following)
        while place not in seen:
            seen[place] = len(seen)
            place = following[place]
        loop = [shown_name(dfg.nodes[p]) for p in [*list(seen)[seen[place] :], place]]
        raise ValueError(f"the loop {shown_path(loop)} has no delay; put a delay on one of its edges")


def exact_time(value, name):
    """`value` as an int or Fraction >= 0.

    Integral floats and numpy integers are taken; other floats are not, as 0.1 is not one tenth.

    Raises
    ------
    ValueError
        Names the argument, what was given and what is allowed.

    Examples
    --------
    >>> exact_time(Fraction(6, 4), "time"), exact_time(3.0, "time")
    (Fraction(3, 2), 3)
    """
    if type(value) is int and 0 <= value <= LARGEST_TIME:
        return value
    value = plain_number(value)  # a float32 cannot be compared with 2**256
    if isinstance(value, numbers.Real) and not isinstance(value, bool) and 0 <= value <= LARGEST_TIME:
        if not isinstance(value, numbers.Rational) and value == int(value):
            value = int(value)
        if isinstance(value, numbers.Rational) and value.denominator <= LARGEST_TIME:
            return plain(Fraction(int(value.numerator), int(value.denominator)))
    exact = isinstance(value, numbers.Rational) and not isinstance(value, bool)
    given = "a number of more than 256 bits" if exact and value > 0 else shown(value)
    allowed = "a whole number or a Fraction from 0 to 2**256 (0.1 is Fraction(1, 10))"
    raise ValueError(f"{name} is {given}; it must be {allowed}")


def shown_name(name):
    """The name of a node as a message shows it: as it is, or cut and in quotes if it is long or not on one line.

    Examples
    --------
    >>> print(shown_name("a"), shown_name("a\\nb"), len(shown_name("a" * 100_000)))
    a 'a\\nb' 65
    """
    return name if isinstance(name, str) and len(name) <= LONGEST_SHOWN and name.isprintable() else shown(name)


def _listed_delays(delays):
    try:
        listed = np.asarray(delays).tolist()
    except ValueError:  # rows of several lengths
        listed = None
    if not isinstance(listed, list):
        raise ValueError(f"delays is {shown(delays)}; give a list of whole numbers, one an edge")
    return listed


def _checked_times(times):
    if not isinstance(times, Mapping):
        raise ValueError(f"times is {shown(times)}; it must map each node to its time, as in {{'a': 1}}")
    if not times:
        raise ValueError("the graph is empty; give it one node or more")
    for name in times:
        if not (isinstance(name, str) and name.strip()):
            raise ValueError(f"a node is named {shown(name)}; a name must be text")
        if not name.isascii() and any("\ud800" <= letter <= "\udfff" for letter in name):
            raise ValueError(f"a node is named {shown(name)}; half a surrogate pair is no letter, so leave it out")
    return {name: exact_time(time, f"the time of node {shown(name)}") for name, time in times.items()}


def _listed_edges(edges):
    edges = tuple(edges) if isinstance(edges, Iterable) and not isinstance(edges, (str, Mapping)) else (edges,)
    for edge in edges:
        if not isinstance(edge, (tuple, list)) or len(edge) != 3:
            raise ValueError(f"an edge is {shown(edge, 80)}; it must be (source, target, delays)")
    return edges


def _checked_edges(edges, times):
    checked = []
    for edge in _listed_edges(edges):
        u, v, w = edge
        try:
            known = u in times and v in times
        except TypeError:  # a list cannot even be looked up
            known = False
        if not known:
            raise _unknown_node(u, v, times)
        if type(w) is not int or not 0 <= w <= LARGEST_SIZE:
            w = whole_number(w, f"the number of delays of edge {shown_name(u)} -> {shown_name(v)}", least=0)
        checked.append(Edge(u, v, w))
    return tuple(checked)


def _unknown_node(u, v, times):
    name = u if not isinstance(u, str) or u not in times else v
    error = unknown_name(name, f"a node of edge {shown_name(u)} -> {shown_name(v)}", list(times)[:50])
    return ValueError(f"{error}{', ...' if len(times) > 50 else ''}")


def _checked_hosts(hosts, times):
    hosts = tuple(hosts) if isinstance(hosts, Iterable) and not isinstance(hosts, str) else (hosts,)
    for host in hosts:
        if not isinstance(host, str) or host not in times:
            raise unknown_name(host, "a host", list(times)[:50])
    return tuple(dict.fromkeys(hosts))
