"""Hosts, whose lags are tied to each other: the iteration bound that follows, and lags to start a search from.

Source: Leiserson & Saxe, "Retiming synchronous circuitry", Algorithmica 6 (1991), for the host; the start follows from
the potentials of the iteration bound, as a periodic schedule does (Parhi 1999, section 4.5).
"""

from types import SimpleNamespace

import numpy as np

from lpkit.bounds import iteration_bound

__all__ = ["BUS", "tied", "tied_bound", "warm_lags"]

BUS = ""  # stands for the world outside, which joins the hosts; no node has an empty name


def tied(dfg):
    """For each node the first that shares its lag: the first host for all hosts, else the node itself (nodes,).

    Examples
    --------
    >>> from lpkit.dfg import DFG
    >>> tied(DFG({"x": 0, "a": 1, "y": 0}, [("x", "a", 0), ("a", "y", 0)], hosts=("x", "y"))).tolist()
    [0, 1, 0]
    """
    same = np.arange(len(dfg.nodes))
    same[[dfg.index[host] for host in dfg.hosts]] = dfg.index[dfg.hosts[0]] if dfg.hosts else 0
    return same


def tied_bound(dfg):
    """The iteration bound of `dfg` with its hosts joined outside by one delay: no retiming has a shorter period.

    A path from host to host with W delays keeps them, as hosts keep their lag, and so it has W + 1 stretches.

    Examples
    --------
    >>> from lpkit.dfg import DFG
    >>> line = DFG({"in": 0, "a": 3, "b": 4, "out": 0}, [("in", "a", 0), ("a", "b", 1), ("b", "out", 0)])
    >>> tied_bound(line).value, tied_bound(DFG(line.times, line.edges, ("in", "out"))).value
    (Fraction(0, 1), Fraction(7, 2))
    """
    hosts = np.array([dfg.index[host] for host in dfg.hosts], dtype=np.int64)
    if len(hosts) < 2 or not np.isin(hosts, dfg.heads).any():
        return iteration_bound(dfg)
    bus, ones = np.full(len(hosts), len(dfg.nodes)), np.ones(len(hosts), dtype=np.int64)
    return iteration_bound(SimpleNamespace(
        nodes=(*dfg.nodes, BUS),
        tails=np.concatenate([dfg.tails, hosts, bus]),
        heads=np.concatenate([dfg.heads, bus, hosts]),
        delays=np.concatenate([dfg.delays, 0 * ones, ones]),
        whole_times=np.append(dfg.whole_times, 0),
        denominator=dfg.denominator,
    ))  # fmt: skip


def warm_lags(dfg, bound):
    """Lags with a period below max(bound, longest node) + longest node, from the potentials of the bound.

    With x = (t - d) / T, each edge u -> v gives x(u) - x(v) <= w - t(v) / T. So floor(x) is legal, and along a path
    without a delay the times of all nodes but the first add up to less than T. Hosts may still differ by one.

    Examples
    --------
    >>> from lpkit.dfg import DFG, iteration_bound
    >>> ring = DFG({"a": 2, "b": 2, "c": 2}, [("a", "b", 0), ("b", "c", 0), ("c", "a", 3)])
    >>> warm_lags(ring, iteration_bound(ring))
    [1, 2, 3]
    """
    times = dfg.whole_times.tolist()
    scale = bound.denominator // dfg.denominator
    period = max(int(bound.value * bound.denominator), scale * max(times))
    if period == 0:
        return [0] * len(times)
    return [(scale * time - d) // period for time, d in zip(times, bound.potentials.tolist())]
