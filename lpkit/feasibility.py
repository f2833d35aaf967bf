"""Which clock periods a retiming can reach: lags that reach one, or a closed walk that shows that no lags do.

Each node has a label (lag, arrival): the lag moves delays, the arrival is the time within a clock period at which the
node is done. An edge u -> v with w delays asks for lag(v) >= lag(u) - w; with equality v starts when u is done, and if
that ends after the period, v waits for the next clock: lag + 1. Labels only rise, each as far as it must. If that goes
on for ever, the constraints that last raised the lags close a walk, and the walk has more stretches that each need a
delay than it has delays, whatever the lags. All numbers are Python ints, so nothing can overflow.
Source: Leiserson & Saxe, "Retiming synchronous circuitry", Algorithmica 6 (1991), algorithm FEAS, here with labels that
are corrected one by one; the walk is the positive cycle of its difference constraints.
"""

from collections import deque
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from lpkit.flowgraph import outgoing, topological
from lpkit.ties import tied

__all__ = ["Labels", "Wiring", "first_labels", "lower", "wiring"]


@dataclass(frozen=True)
class Wiring:
    """A graph as Python lists: edges (target, delays) and time of each node, hosts, and `same`: one node for all hosts.

    `arrays` are the sources, targets and delays of all edges once more.
    """

    arrays: tuple
    edges: list
    times: list
    hosts: list
    same: list


@dataclass(frozen=True)
class Labels:
    """Lag and arrival of each node, the node where its delay-free stretch begins, and what raised its lag last.

    `before` is the edge, as (source, delays), that set the label, None where a stretch begins.
    """

    lags: list
    arrivals: list
    begins: list
    parents: list
    before: list


def wiring(dfg):
    """The lists of `dfg` that the search reads.

    Examples
    --------
    >>> from lpkit.dfg import DFG
    >>> wiring(DFG({"a": 2, "b": 3}, [("a", "b", 0), ("b", "a", 2)])).edges
    [[(1, 0)], [(0, 2)]]
    """
    starts, targets, order = outgoing(len(dfg.nodes), dfg.tails, dfg.heads)
    pairs = list(zip(targets, dfg.delays[order].tolist()))
    edges = [pairs[start:end] for start, end in pairwise(starts)]
    hosts = [dfg.index[host] for host in dfg.hosts]
    arrays = dfg.tails, dfg.heads, dfg.delays
    return Wiring(arrays, edges, dfg.whole_times.tolist(), hosts, tied(dfg).tolist())


def first_labels(graph, lags):
    """Labels for `lags` once hosts are brought to one lag and illegal edges repaired; any period is allowed.

    Examples
    --------
    >>> from lpkit.dfg import DFG
    >>> graph = wiring(DFG({"a": 2, "b": 3}, [("a", "b", 0), ("b", "a", 2)]))
    >>> first_labels(graph, [0, 0]).arrivals, first_labels(graph, [0, 1]).arrivals
    ([2, 5], [2, 3])
    """
    lags = _level_hosts(graph, lags)
    count = len(lags)
    labels = Labels(lags, graph.times.copy(), list(range(count)), [None] * count, [None] * count)
    (tails, heads, delays), place = graph.arrays, np.array(lags)
    tight = delays + place[heads] <= place[tails]
    starts, targets, _ = outgoing(count, tails[tight], heads[tight])
    _settle(graph, labels, sum(graph.times), topological(starts, targets))
    return labels


def _level_hosts(graph, lags):
    """Lags with one for all hosts: that of the last host that something feeds; else the first, which is then legal."""
    if not graph.hosts:
        return list(lags)
    fed = set(graph.hosts).intersection(graph.arrays[1].tolist())
    level = max(lags[host] for host in fed) if fed else min(lags[host] for host in graph.hosts)
    held = set(graph.hosts)
    return [level if place in held else lag for place, lag in enumerate(lags)]


def lower(graph, labels, limit, cuts=None):
    """Raise `labels` in place until no arrival is later than `limit` (at least the longest node).

    `cuts`, if given, is a list that takes the paths longer than `limit` that are met, each as (delays, its nodes).

    Returns
    -------
    list of (from, to) or None
        None if that is reached. Else the constraints of a closed walk that rules it out: each lag of `to` follows from
        that of `from`, along an edge, or along a path that takes longer than `limit`.

    Examples
    --------
    >>> from lpkit.dfg import DFG
    >>> graph = wiring(DFG({"a": 2, "b": 3}, [("a", "b", 0), ("b", "a", 1)]))
    >>> labels = first_labels(graph, [0, 0])
    >>> lower(graph, labels, 5), lower(graph, labels, 4)
    (None, [(0, 1), (1, 0)])
    """
    late = [v for v, arrival in enumerate(labels.arrivals) if arrival > limit]
    queue = []
    for v in late:
        if labels.arrivals[v] > limit:  # a host may have been reset with another
            if cuts is not None:
                cuts += _long_path(graph, labels, limit, v, labels.before[v])
            raised = _raise_lag(graph, labels, labels.begins[v], v, labels.lags[v] + 1)
            if raised is None:
                return [(labels.begins[v], v)]
            labels.arrivals[v], labels.begins[v], labels.before[v] = graph.times[v], v, None
            queue += [v, *raised]
    return _settle(graph, labels, limit, queue, cuts)


def _long_path(graph, labels, limit, v, edge):
    """Delays and nodes of the shortest end of the path into `v` by `edge` that takes longer than `limit`, in a list.

    The list is empty if a label on the way has been raised since, so that the path can no longer be followed.
    """
    path, time, delays = [v], graph.times[v], 0
    while time <= limit and edge:
        path.append(edge[0])
        time, delays = time + graph.times[edge[0]], delays + edge[1]
        edge = labels.before[edge[0]]
    return [(delays, tuple(reversed(path)))] if time > limit else []


def _raise_lag(graph, labels, parent, v, lag):
    """Set the lag of `v` and of the other hosts if it is one; those others, or None if `v` would raise itself."""
    same = graph.same[v]
    if graph.same[parent] == same:
        return None
    labels.lags[v] = lag
    labels.parents[same] = (parent, v)
    if not graph.hosts or same != graph.hosts[0]:
        return ()
    others = [host for host in graph.hosts if labels.lags[host] < lag]
    for host in others:
        labels.lags[host], labels.arrivals[host] = lag, graph.times[host]
        labels.begins[host], labels.before[host] = host, None
    return others


def _settle(graph, labels, limit, first, cuts=None):
    """Correct labels along the edges until all agree, from the nodes `first` on; a closed walk as `lower` has it."""
    lags, arrivals, begins, before, times = labels.lags, labels.arrivals, labels.begins, labels.before, graph.times
    queue, queued, patience = deque(), bytearray(len(times)), 16 + len(times) // 8  # a look for a walk costs O(nodes)
    countdown = patience
    _join(queue, queued, first)
    while queue:
        u = queue.popleft()
        queued[u] = 0
        lag_u, done_u = lags[u], arrivals[u]
        for v, w in graph.edges[u]:
            lag, done = lag_u - w, done_u + times[v]
            waits = done > limit
            if waits:
                lag, done = lag + 1, times[v]
            if lag < lags[v] or (lag == lags[v] and done <= arrivals[v]):
                continue
            if lag > lags[v]:
                if waits and cuts is not None:
                    cuts += _long_path(graph, labels, limit, v, (u, w))
                parent = begins[u] if waits else u
                others = _raise_lag(graph, labels, parent, v, lag)
                if others is None:
                    return [(parent, v)]
                _join(queue, queued, others)
                countdown -= 1
            arrivals[v] = done
            begins[v], before[v] = (v, None) if waits else (begins[u], (u, w))
            if not queued[v]:
                queued[v] = 1
                queue.append(v)
        if countdown <= 0:
            countdown = patience
            walk = _closed_walk(graph, labels.parents)
            if walk:
                return walk
    return None


def _join(queue, queued, nodes):
    """Append the nodes that do not wait yet."""
    for node in nodes:
        if not queued[node]:
            queued[node] = 1
            queue.append(node)


def _closed_walk(graph, parents):
    """The constraints of a cycle of parents, in the direction of the edges; None if there is none."""
    seen = [0] * len(parents)
    for root in range(len(parents)):
        node = root
        while seen[node] == 0 and parents[node]:
            seen[node] = root + 1
            node = graph.same[parents[node][0]]
        if seen[node] == root + 1:
            return _walk_back(graph, parents, node)
        seen[node] = seen[node] or root + 1
    return None


def _walk_back(graph, parents, start):
    links, node = [], start
    while not links or node != start:
        links.append(parents[node])
        node = graph.same[parents[node][0]]
    return links[::-1]
