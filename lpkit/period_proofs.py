"""Why no retiming of a graph has a shorter period: what a bound or a failed search proves, in a form to be checked.

Source: Leiserson & Saxe, "Retiming synchronous circuitry", Algorithmica 6 (1991), theorem 7, whose constraints the
walks are made of.
"""

from dataclasses import dataclass
from fractions import Fraction
from heapq import heappop, heappush
from itertools import pairwise

from lpkit.flowgraph import plain, shown_path
from lpkit.ties import BUS

__all__ = [
    "PeriodCertificate", "certificate_of_bound", "certificate_of_walk", "counted", "fewest_delays", "proves_period",
]  # fmt: skip


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


def certificate_of_bound(dfg, period, bound):
    """The certificate that the loop of the bound, or the longest node, gives.

    Parameters
    ----------
    dfg : DFG
    period : int
        Times the denominator of the node times.
    bound : lpkit.dfg.Bound
        From `lpkit.ties.tied_bound`.

    Examples
    --------
    >>> from lpkit.dfg import DFG
    >>> from lpkit.ties import tied_bound
    >>> ring = DFG({"a": 1, "b": 1}, [("a", "b", 0), ("b", "a", 1)])
    >>> certificate_of_bound(ring, 2, tied_bound(ring)).text
    'the loop a -> b -> a takes 2 over 1 delay, so no period is below 2'
    """
    shown, times = plain(Fraction(period, dfg.denominator)), dfg.whole_times.tolist()
    if period == max(times):
        name = dfg.nodes[times.index(period)]
        return PeriodCertificate("node", ((name,),), f"node {name} alone takes {shown}, so no period is below {shown}")
    paths = _split_at_bus(bound.loop)
    time, delays = _loop_total(dfg, paths)
    kind = "the loop" if BUS not in bound.loop else "hosts joined, the way"
    way = ", ".join(map(shown_path, paths))
    text = f"{kind} {way} takes {time} over {counted(delays, 'delay')}, so no period is below {shown}"
    return PeriodCertificate("loop", paths, text)


def counted(number, what):
    """``"1 delay"``, ``"2 delays"``.

    Examples
    --------
    >>> counted(1, "delay"), counted(0, "path")
    ('1 delay', '0 paths')
    """
    return f"{number} {what}{'' if number == 1 else 's'}"


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


def certificate_of_walk(dfg, graph, period, lags, links):
    """The certificate that a closed walk of constraints gives: for each the path with the fewest delays behind it.

    Parameters
    ----------
    dfg : DFG
    graph
        From `lpkit.feasibility.wiring`.
    period : int
        Times the denominator of the node times.
    lags : list of int
    links : sequence of (int, int)
        The constraints, as places of nodes.
    """
    paths = tuple(tuple(dfg.nodes[place] for place in _path(graph, lags, *link)) for link in links)
    shown = plain(Fraction(period, dfg.denominator))
    delays, long = _walk_total(dfg, paths, shown)
    text = (
        f"a closed walk of {counted(len(paths), 'path')} has {counted(delays, 'delay')}, but {long} of them take "
        f"{shown} or more and each would need one of its own, so no period is below {shown}"
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


def proves_period(dfg, certificate, period):
    """Whether the certificate rules out every period of `dfg` below `period`.

    Parameters
    ----------
    dfg : DFG
    certificate : PeriodCertificate
    period : int or Fraction
        In the unit of the node times.

    Examples
    --------
    >>> from lpkit.dfg import DFG
    >>> ring, certificate = DFG({"a": 2}, [("a", "a", 2)]), PeriodCertificate("node", (("a",),), "")
    >>> proves_period(ring, certificate, 2), proves_period(ring, certificate, 3)
    (True, False)
    """
    if not isinstance(certificate, PeriodCertificate):
        return False
    kind, paths = certificate.kind, certificate.paths
    if not _are_walks(dfg, paths) or not _closes(dfg, paths):
        return False
    if kind == "node":
        return dfg.times[paths[0][0]] == period
    if kind == "loop":
        time, delays = _loop_total(dfg, paths)
        return time > (period - Fraction(1, dfg.denominator)) * delays  # periods are multiples of 1 / denominator
    delays, long = _walk_total(dfg, paths, period)
    return kind == "walk" and long > delays


def _are_walks(dfg, paths):
    """Whether these are one or more lists of one or more nodes of the graph."""
    if not isinstance(paths, (tuple, list)) or not all(isinstance(path, (tuple, list)) and path for path in paths):
        return False
    return bool(paths) and all(isinstance(name, str) and name in dfg.index for path in paths for name in path)


def _closes(dfg, paths):
    """Whether the paths are paths of the graph, and each begins where the one before ends, or they meet outside."""
    fewest, hosts = fewest_delays(dfg, paths), set(dfg.hosts)
    joints = zip(paths, (*paths[1:], paths[0]))
    return all(step in fewest for path in paths for step in pairwise(path)) and all(
        path[-1] == after[0] or {path[-1], after[0]} <= hosts for path, after in joints
    )
