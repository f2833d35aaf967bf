"""The linear programme of the fewest registers: what registers cost, and the constraints that lags must keep.

Source: Leiserson & Saxe, "Retiming synchronous circuitry", Algorithmica 6 (1991), section 8, with its mirror nodes for
registers that edges share.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from lpkit.checks import shown, unknown_name
from lpkit.flowgraph import exact_time, shown_name
from lpkit.ties import tied

__all__ = ["Programme", "cost_of", "exact_dot", "programme_of", "whole_weights", "with_cuts"]


@dataclass(frozen=True)
class Programme:
    """min cost x + constant, with x[tails] - x[heads] <= bounds: x are lags, one for all hosts, and then mirrors."""

    cost: np.ndarray
    constant: int
    same: np.ndarray  # (nodes,): which lag is that of a node
    mirror: np.ndarray  # (nodes,): the mirror of a node with a shared chain, else -1
    tails: np.ndarray
    heads: np.ndarray
    bounds: np.ndarray
    sources: tuple  # of each constraint: ("edge" or "tap", place in dfg.edges) or ("path", nodes)


def whole_weights(dfg, weights):
    """Weights as whole numbers (a list), and the unit they are counted in.

    Raises
    ------
    ValueError
        If a weight is missing, negative, not exact or of an unknown node, or they do not fit into 64 bits together.

    Examples
    --------
    >>> from lpkit.dfg import DFG
    >>> whole_weights(DFG.from_edges([("a", "b", 1), ("b", "a", 1)]), {"a": Fraction(1, 2), "b": 3})
    ([1, 6], Fraction(1, 2))
    """
    if weights is None:
        return [1] * len(dfg.nodes), 1
    if not isinstance(weights, Mapping):
        raise ValueError(f"weights is a {type(weights).__name__}; it must map nodes to numbers, as in {{'a': 4}}")
    for name in weights:
        if name not in dfg.times:
            raise unknown_name(name, "a node of weights", dfg.nodes[:50])
    for u, v, _ in dfg.edges:
        if u not in weights:
            edge = f"{shown_name(u)} -> {shown_name(v)}"
            raise ValueError(f"weights has no entry for node {shown(u)}, which edge {edge} leaves; give one")
    exact = [Fraction(exact_time(weights.get(name, 0), f"the weight of node {shown(name)}")) for name in dfg.nodes]
    scale = math.lcm(*(weight.denominator for weight in exact))
    whole = [int(weight * scale) for weight in exact]
    common = math.gcd(*whole) or 1
    if sum(whole) // common >= 2**60:
        raise ValueError(f"the weights add up to {sum(whole) // common} units, too many for 64 bits; round them")
    return [weight // common for weight in whole], Fraction(common, scale)


def programme_of(dfg, weights, shared):
    """The programme without periods. A node with one edge needs no mirror: its chain is that edge.

    Parameters
    ----------
    dfg : DFG
    weights : sequence of int
        One a node.
    shared : bool
        As for `cost_of`.

    Examples
    --------
    >>> from lpkit.dfg import DFG
    >>> fork = DFG.from_edges([("a", "b", 3), ("a", "c", 2), ("b", "c", 1)])
    >>> programme_of(fork, [1, 1, 1], shared=True).sources
    (('edge', 0), ('edge', 1), ('edge', 2), ('tap', 0), ('tap', 1))
    """
    count, same, weights = len(dfg.nodes), tied(dfg), np.array(weights, dtype=np.int64)
    tapped = np.flatnonzero(np.bincount(dfg.tails, minlength=count) > 1) if shared else np.empty(0, dtype=np.int64)
    mirror = np.full(count, -1)
    mirror[tapped] = count + np.arange(len(tapped))
    u, v, w, chain = same[dfg.tails], same[dfg.heads], dfg.delays, mirror[dfg.tails]
    alone, taps, free = np.flatnonzero(chain < 0), np.flatnonzero(chain >= 0), np.flatnonzero(u != v)
    paid = weights[dfg.tails[alone]]
    cost = np.zeros(count + len(tapped), dtype=np.int64)
    for place, amount in ((v[alone], paid), (u[alone], -paid), (mirror[tapped], weights[tapped]),
                          (same[tapped], -weights[tapped])):
        np.add.at(cost, place, amount)
    return Programme(
        cost, exact_dot(paid, w[alone]), same, mirror,
        np.concatenate([u[free], v[taps]]), np.concatenate([v[free], chain[taps]]), np.concatenate([w[free], -w[taps]]),
        (*(("edge", place) for place in free.tolist()), *(("tap", place) for place in taps.tolist())),
    )  # fmt: skip


def with_cuts(graph, programme, cuts):
    """The programme with the constraints of paths that are too long; of those between two nodes the strictest.

    Parameters
    ----------
    graph
        From `lpkit.feasibility.wiring`.
    programme : Programme
    cuts : sequence of (delays, path)
        Delays and nodes, as places, of a path that takes too long.

    Examples
    --------
    >>> from lpkit.dfg import DFG
    >>> from lpkit.feasibility import wiring
    >>> fork = DFG.from_edges([("a", "b", 3), ("a", "c", 2), ("b", "c", 1)])
    >>> programme = with_cuts(wiring(fork), programme_of(fork, [1, 1, 1], False), [(4, (0, 1, 2)), (2, (0, 2))])
    >>> programme.sources[-1], int(programme.bounds[-1])
    (('path', (0, 2)), 1)
    """
    strictest = {}
    for delays, path in cuts:
        ends = graph.same[path[0]], graph.same[path[-1]]
        if ends not in strictest or delays < strictest[ends][0]:
            strictest[ends] = delays, path
    ends = np.array(list(strictest), dtype=np.int64)
    return replace(
        programme,
        tails=np.concatenate([programme.tails, ends[:, 0]]),
        heads=np.concatenate([programme.heads, ends[:, 1]]),
        bounds=np.concatenate([programme.bounds, [delays - 1 for delays, _ in strictest.values()]]),
        sources=programme.sources + tuple(("path", path) for _, path in strictest.values()),
    )


def cost_of(dfg, weights, shared, lags):
    """Cost of the registers with these lags, a Python int.

    Parameters
    ----------
    dfg : DFG
    weights, lags : sequence of int
        One a node.
    shared : bool
        Whether the edges that leave a node share its registers.

    Examples
    --------
    >>> from lpkit.dfg import DFG
    >>> fork = DFG.from_edges([("a", "b", 3), ("a", "c", 2), ("b", "c", 1)])
    >>> cost_of(fork, [1, 1, 1], True, [0, 0, 0]), cost_of(fork, [1, 1, 1], False, [0, -1, 0])
    (4, 6)
    """
    lags, weights = np.array(lags, dtype=np.int64), np.array(weights, dtype=np.int64)
    delays = dfg.delays + lags[dfg.heads] - lags[dfg.tails]
    if shared:
        held = np.zeros(len(dfg.nodes), dtype=np.int64)
        np.maximum.at(held, dfg.tails, delays)
        return exact_dot(weights, held)
    return exact_dot(weights[dfg.tails], delays)


def exact_dot(a, b):
    """Sum of products of two int64 arrays, exact.

    Examples
    --------
    >>> exact_dot(np.array([2**62, 1]), np.array([4, 1]))
    18446744073709551617
    """
    if len(a) * int(np.abs(a).max(initial=0)) * int(np.abs(b).max(initial=0)) < 2**62:
        return int(a @ b)
    return sum(x * y for x, y in zip(a.tolist(), b.tolist()))
