"""The shortest clock period that retiming can give a graph, the lags that give it, and why none is shorter.

First the iteration bound and its potentials, which give lags with a period less than one longest node above the bound
(`lpkit.feasibility`). From there the aim is always one unit below what has been reached, until the bound is met or the
constraints of an aim close a walk that rules it out. No bisection, and no matrix of all pairs of nodes.
Source: Leiserson & Saxe, "Retiming synchronous circuitry", Algorithmica 6 (1991).
"""

import numbers
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from lpkit.feasibility import first_labels, lower, wiring
from lpkit.flowgraph import critical_path, plain
from lpkit.moves import retime
from lpkit.orders import weak_components
from lpkit.period_proofs import certificate_of_bound, certificate_of_walk, proves_period
from lpkit.ties import tied_bound, warm_lags

__all__ = ["Retiming", "lags_for_period", "min_period", "reached_period", "settled_lags", "verify_min_period"]


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
    if walk:
        certificate = certificate_of_walk(dfg, graph, period, lags, walk)
    else:
        certificate = certificate_of_bound(dfg, period, bound)
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
    parts = weak_components(len(dfg.nodes), tails, heads).tolist()
    zero = {}
    for place in [*hosts.tolist(), *range(len(lags))]:
        zero.setdefault(parts[place], lags[place])
    return {name: int(lag - zero[part]) for name, lag, part in zip(dfg.nodes, lags, parts)}


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
    period = reached_period(dfg, found.r)
    if period is None or not isinstance(found.period, numbers.Real) or found.period != period:
        return False
    return proves_period(dfg, found.certificate, period)


def reached_period(dfg, r):
    """Clock period of the graph with the lags `r`; None if they are no legal lags of it.

    Examples
    --------
    >>> from lpkit.dfg import DFG
    >>> ring = DFG({"a": 2, "b": 3}, [("a", "b", 0), ("b", "a", 2)])
    >>> reached_period(ring, {"b": 1}), reached_period(ring, {"a": 1})
    (3, None)
    """
    try:
        return critical_path(retime(dfg, r)).period
    except ValueError:
        return None
