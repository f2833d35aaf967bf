"""The shortest clock period that retiming can give a graph, the lags that give it, and why none is shorter.

First the iteration bound and its potentials, which give lags with a period less than one longest node above the bound
(`lpkit.feasibility`). From there the aim is always one unit below what has been reached, until the bound is met or the
constraints of an aim close a walk that rules it out. No bisection, and no matrix of all pairs of nodes.
Source: Leiserson & Saxe, "Retiming synchronous circuitry", Algorithmica 6 (1991).
"""

from dataclasses import dataclass
from fractions import Fraction
from heapq import heappop, heappush
from itertools import pairwise

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from lpkit.feasibility import BUS, first_labels, lower, tied_bound, warm_lags, wiring
from lpkit.flowgraph import critical_path, plain, shown_path
from lpkit.moves import retime

__all__ = ["PeriodCertificate", "Retiming", "lags_for_period", "min_period", "verify_min_period"]


@dataclass(frozen=True)
class PeriodCertificate:
    """Why no retiming has a shorter period.

    Attributes
    ----------
    kind : {"node", "loop", "walk"}
        ``"node"``: one node takes the whole period. ``"loop"``: the time of the paths is more than any shorter period
        times their delays. ``"walk"``: more of the paths take the whole period, so that each needs a delay of its own,
        than there are delays on them all.
    paths : tuple of tuple of str
        Nodes of paths that close a walk: each begins at the node where the one before ends, or both are hosts. A walk
        from host to another host keeps its delays, as a loop does, and starts a new period there.
    text : str
        The same for people.
    """

    kind: str
    paths: tuple
    text: str


@dataclass(frozen=True)
class Retiming:
    """Lags, what they achieve, and why nothing is better.

    Attributes
    ----------
    period : int or Fraction
        Clock period of the retimed graph, in the unit of the node times.
    r : dict
        Lag of each node: `retime(dfg, r)` is the retimed graph. Hosts have 0; in a part of the graph without a host
        the first node has.
    certificate : PeriodCertificate or RegisterCertificate
    registers : int, Fraction or None
        Cost of the registers where they were minimised.
    """

    period: object
    r: dict
    certificate: object
    registers: object = None


def min_period(dfg):
    """Lags for the shortest clock period of any retiming of `dfg`, with a certificate.

    Parameters
    ----------
    dfg : DFG
        Its hosts keep the lag 0. A delay-free path may run through a host, but not from one host to another.

    Returns
    -------
    Retiming
        Exact; `verify_min_period` checks it without repeating the search.

    References
    ----------
    Leiserson & Saxe (1991), section 5 (OPT2), with descending aims.

    Examples
    --------
    >>> from lpkit.dfg import DFG, critical_path
    >>> ring = DFG({"a": 1, "b": 1, "m": 2, "n": 2}, [
    ...     ("a", "b", 0), ("b", "m", 1), ("b", "n", 2), ("m", "a", 0), ("n", "a", 0)])
    >>> found = min_period(ring)
    >>> critical_path(ring).period, found.period, found.r
    (4, 4, {'a': 0, 'b': 0, 'm': 0, 'n': 0})
    >>> print(found.certificate.text)
    the loop a -> b -> m -> a takes 4 over 1 delay, so no period is below 4
    """
    bound = tied_bound(dfg)
    least = max(-(-bound.value * dfg.denominator // 1), max(dfg.whole_times.tolist()))
    graph = wiring(dfg)
    labels, walk = first_labels(graph, warm_lags(dfg, bound)), None
    while True:
        period, lags = max(labels.arrivals), labels.lags.copy()
        walk = lower(graph, labels, period - 1) if period > least else None
        if walk or period <= least:
            break
    certificate = _from_walk(dfg, graph, period, lags, walk) if walk else _from_bound(dfg, period, bound)
    return Retiming(plain(Fraction(period, dfg.denominator)), settled_lags(dfg, lags), certificate)


def lags_for_period(dfg, period):
    """Lags whose period is at most `period`, as a list; None if there are none.

    Examples
    --------
    >>> from lpkit.dfg import DFG
    >>> ring = DFG({"a": 2, "b": 3}, [("a", "b", 0), ("b", "a", 2)])
    >>> lags_for_period(ring, 3), lags_for_period(ring, 2)
    ([0, 1], None)
    """
    limit = period * dfg.denominator // 1
    if limit < max(dfg.whole_times.tolist()):
        return None
    bound, graph = tied_bound(dfg), wiring(dfg)
    if bound.value > period:
        return None
    labels = first_labels(graph, warm_lags(dfg, bound))
    return None if lower(graph, labels, limit) else labels.lags


def settled_lags(dfg, lags):
    """Lags by name, shifted so that hosts have 0, and so has the first node of each part without a host.

    Examples
    --------
    >>> from lpkit.dfg import DFG
    >>> settled_lags(DFG({"a": 1, "b": 1, "c": 1}, [("a", "b", 0)], hosts="b"), [4, 5, 7])
    {'a': -1, 'b': 0, 'c': 0}
    """
    hosts = np.array([dfg.index[host] for host in dfg.hosts], dtype=np.int64)
    tails = np.concatenate([dfg.tails, hosts[:-1]])
    heads = np.concatenate([dfg.heads, hosts[1:]])
    parts = _weak_components(len(dfg.nodes), tails, heads)
    zero = {}
    for place in [*hosts.tolist(), *range(len(lags))]:
        zero.setdefault(parts[place], lags[place])
    return {name: int(lag - zero[part]) for name, lag, part in zip(dfg.nodes, lags, parts)}


def _weak_components(count, tails, heads):
    graph = csr_array((np.ones(len(tails), dtype=np.int8), (tails, heads)), shape=(count, count))
    return connected_components(graph, directed=True, connection="weak")[1].tolist()


def _from_bound(dfg, period, bound):
    """The certificate that the loop of the bound, or the longest node, gives."""
    shown, times = plain(Fraction(period, dfg.denominator)), dfg.whole_times.tolist()
    if period == max(times):
        name = dfg.nodes[times.index(period)]
        return PeriodCertificate("node", ((name,),), f"node {name} alone takes {shown}, so no period is below {shown}")
    paths = _split_at_bus(bound.loop)
    time, delays = _loop_total(dfg, paths)
    kind = "the loop" if BUS not in bound.loop else "hosts joined, the way"
    text = f"{kind} {', '.join(map(shown_path, paths))} takes {time} over {_count(delays)}, so no period is below {shown}"
    return PeriodCertificate("loop", paths, text)


def _count(delays):
    return f"{delays} delay{'' if delays == 1 else 's'}"


def _split_at_bus(loop):
    """The loop as paths between hosts, or, where it does not pass outside, as one path that returns to its start."""
    if BUS not in loop:
        return ((*loop, loop[0]),)
    at = loop.index(BUS)
    paths, path = [], []
    for name in (*loop[at + 1 :], *loop[: at + 1]):
        if name == BUS:
            paths.append(tuple(path))
            path = []
        else:
            path.append(name)
    return tuple(paths)


def _loop_total(dfg, paths):
    """Time and delays of a closed walk of paths: a node where two paths meet counts once, a way outside is a delay."""
    fewest = fewest_delays(dfg, paths)
    time = delays = 0
    for path, after in zip(paths, (*paths[1:], paths[0])):
        met = path[-1] == after[0]
        time += sum(dfg.times[name] for name in (path[:-1] if met else path))
        delays += sum(fewest[step] for step in pairwise(path)) + (not met)
    return time, delays


def fewest_delays(dfg, paths):
    """Fewest delays of an edge for each step of the paths that is an edge.

    Examples
    --------
    >>> from lpkit.dfg import DFG
    >>> fewest_delays(DFG.from_edges([("a", "b", 2), ("a", "b", 1)]), [("a", "b"), ("b", "a")])
    {('a', 'b'): 1}
    """
    wanted, fewest = {step for path in paths for step in pairwise(path)}, {}
    for u, v, w in dfg.edges:
        if (u, v) in wanted:
            fewest[u, v] = min(w, fewest.get((u, v), w))
    return fewest


def _from_walk(dfg, graph, period, lags, links):
    """The certificate that a closed walk of constraints gives: for each the path with the fewest delays behind it."""
    paths = tuple(tuple(dfg.nodes[place] for place in _path(graph, lags, *link)) for link in links)
    shown = plain(Fraction(period, dfg.denominator))
    delays, long = _walk_total(dfg, paths, shown)
    text = (
        f"a closed walk of {len(paths)} paths has {_count(delays)}, but {long} of them take {shown} or more "
        f"and each would need one of its own, so no period is below {shown}"
    )
    return PeriodCertificate("walk", paths, text)


def _walk_total(dfg, paths, period):
    """Delays of the paths, and how many of them take `period` or more."""
    fewest = fewest_delays(dfg, paths)
    delays = sum(fewest[step] for path in paths for step in pairwise(path))
    return delays, sum(sum(dfg.times[name] for name in path) >= period for path in paths)


def _path(graph, lags, start, end):
    """Places on the longest among the paths from `start` to `end` with the fewest delays, counted after retiming.

    Legal `lags` change all paths from `start` to `end` alike and keep the search near them.
    """
    best, before, heap = {start: (0, -graph.times[start])}, {}, [(0, -graph.times[start], start)]
    while heap:
        delays, minus_time, u = heappop(heap)
        if end in best and delays > best[end][0]:
            break
        if (delays, minus_time) != best[u]:
            continue
        for v, w in graph.edges[u]:
            label = (delays + w + lags[v] - lags[u], minus_time - graph.times[v])
            if v not in best or label < best[v]:
                best[v], before[v] = label, u
                heappush(heap, (*label, v))
    path = [end]
    while path[-1] != start:
        path.append(before[path[-1]])
    return path[::-1]


def verify_min_period(dfg, found):
    """Whether `found` is a retiming of `dfg` of the shortest period: its lags reach it, and its certificate holds.

    Reads the certificate against the graph alone, edge by edge; does not search.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from lpkit.dfg import DFG
    >>> ring = DFG({"a": 2, "b": 3}, [("a", "b", 0), ("b", "a", 1)])
    >>> found = min_period(ring)
    >>> verify_min_period(ring, found), verify_min_period(ring, replace(found, period=6))
    (True, False)
    """
    if critical_path(retime(dfg, found.r)).period != found.period:
        return False
    kind, paths, period = found.certificate.kind, found.certificate.paths, found.period
    if not paths or not _closes(dfg, paths):
        return False
    if kind == "node":
        return dfg.times[paths[0][0]] == period
    if kind == "loop":
        time, delays = _loop_total(dfg, paths)
        return time > (period - Fraction(1, dfg.denominator)) * delays  # periods are multiples of 1 / denominator
    delays, long = _walk_total(dfg, paths, period)
    return kind == "walk" and long > delays


def _closes(dfg, paths):
    """Whether the paths are paths of the graph, and each begins where the one before ends, or they meet outside."""
    fewest, hosts = fewest_delays(dfg, paths), set(dfg.hosts)
    joints = zip(paths, (*paths[1:], paths[0]))
    return all(step in fewest for path in paths for step in pairwise(path)) and all(
        path[-1] == after[0] or {path[-1], after[0]} <= hosts for path, after in joints
    )
