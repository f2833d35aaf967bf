"""The fewest registers that retiming can leave, at a given clock period or at any, by tensor size if need be.

The registers of an edge are linear in the lags, so this is a linear programme whose constraints are differences of two
lags: each edge keeps no fewer than 0 delays; where the edges of a node tap one chain, a mirror node bounds the longest
of them; each path longer than the period keeps a delay. Of the last kind there are too many to write down: the
programme is solved, its lags are corrected until they reach the period, and the paths met on the way are added, until
none is broken or the corrected lags cost as little as the programme says. The dual is a minimum-cost flow.
Source: Leiserson & Saxe, "Retiming synchronous circuitry", Algorithmica 6 (1991), section 8.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from lpkit.checks import unknown_name
from lpkit.feasibility import first_labels, lower, tied, wiring
from lpkit.flowgraph import critical_path, exact_time, plain
from lpkit.flows import min_cost_flow
from lpkit.min_period import Retiming, fewest_delays, lags_for_period, min_period, settled_lags
from lpkit.moves import retime

__all__ = ["RegisterCertificate", "min_registers", "register_cost", "verify_min_registers"]


@dataclass(frozen=True, eq=False)
class RegisterCertificate:
    """Why no retiming of that period has fewer registers: constraints, and how much each of them counts.

    Attributes
    ----------
    edges : tuple of (edge, count)
        Place in `dfg.edges` of an edge whose delays cannot be negative.
    taps : tuple of (edge, count)
        Place of an edge that the chain of its source must be long enough for.
    paths : tuple of (path, count)
        Nodes of a path that takes longer than the period and so keeps a delay.
    text : str
    """

    edges: tuple
    taps: tuple
    paths: tuple
    text: str


@dataclass(frozen=True)
class _Programme:
    """min cost x + constant, with x[tails] - x[heads] <= bounds: x are lags, one for all hosts, and then mirrors."""

    cost: np.ndarray
    constant: int
    same: np.ndarray  # (nodes,): which lag is that of a node
    mirror: np.ndarray  # (nodes,): the mirror of a node with a shared chain, else -1
    tails: np.ndarray
    heads: np.ndarray
    bounds: np.ndarray
    sources: tuple  # of each constraint: ("edge" or "tap", place in dfg.edges) or ("path", nodes)


def min_registers(dfg, period=None, *, weights=None, shared=True, solver="highs"):
    """Lags with the fewest registers of all retimings of `dfg` whose period is at most `period`.

    Parameters
    ----------
    dfg : DFG
    period : int or Fraction, optional
        In the unit of the node times; None allows any.
    weights : mapping from node to number, optional
        Cost of one register behind a node, such as the bytes of its tensor; all that have an edge. Default: 1.
    shared : bool
        The edges that leave a node tap one chain of registers, as long as the longest; else each has its own.
    solver : {"highs", "lemon"}
        HiGHS suits up to some thousand nodes. LEMON (the extra ``solvers``) is ten to a hundred times as fast.

    Returns
    -------
    Retiming
        With ``registers``, their total cost, and a certificate for `verify_min_registers`.

    Raises
    ------
    ValueError
        If no retiming has that period (the sentence says which is the shortest), the weights are not weights of all
        nodes with edges, or the solver is unknown, missing or not exact on numbers of that size.

    References
    ----------
    Leiserson & Saxe (1991), section 8.

    Examples
    --------
    >>> from lpkit.dfg import DFG
    >>> edges = [("a", "b", 0), ("a", "c", 0), ("b", "d", 2), ("c", "d", 2), ("d", "a", 0)]
    >>> fork = DFG({"a": 1, "b": 1, "c": 1, "d": 3}, edges)
    >>> fork.registers(), min_registers(fork).registers, min_registers(fork, 3).registers
    (4, 2, 3)
    >>> min_registers(fork, 0)
    Traceback (most recent call last):
    ...
    ValueError: no retiming has a period of 0; the shortest possible is 3
    """
    scaled, unit = _whole_weights(dfg, weights)
    lags, graph, programme = _start(dfg, period), wiring(dfg), _programme(dfg, scaled, shared)
    limit = sum(graph.times) if period is None else period * dfg.denominator // 1
    while True:
        lags, value, flow = _optimum(dfg, programme, lags, solver)
        labels, cuts = first_labels(graph, lags), []
        lower(graph, labels, limit, cuts)
        if not cuts or _cost(dfg, scaled, shared, labels.lags) == value:
            break
        lags, programme = labels.lags, _with_cuts(graph, programme, cuts)
    reached, registers = Fraction(max(labels.arrivals), dfg.denominator), plain(value * Fraction(unit))
    certificate = _certificate(programme, flow, registers)
    return Retiming(plain(reached), settled_lags(dfg, labels.lags), certificate, registers)


def _start(dfg, period):
    """Lags that reach the period."""
    if period is None:
        return [0] * len(dfg.nodes)
    exact_time(period, "period")
    lags = lags_for_period(dfg, period)
    if lags is None:
        shortest = min_period(dfg).period
        raise ValueError(f"no retiming has a period of {period}; the shortest possible is {shortest}")
    return lags


def _whole_weights(dfg, weights):
    """Weights as whole numbers (a list), and the unit they are counted in."""
    if weights is None:
        return [1] * len(dfg.nodes), 1
    if not isinstance(weights, Mapping):
        raise ValueError(f"weights is a {type(weights).__name__}; it must map nodes to numbers, as in {{'a': 4}}")
    for name in weights:
        if name not in dfg.times:
            raise unknown_name(name, "a node of weights", dfg.nodes[:50])
    for u, v, _ in dfg.edges:
        if u not in weights:
            raise ValueError(f"weights has no entry for node {u!r}, which edge {u} -> {v} leaves; give one")
    exact = [Fraction(exact_time(weights.get(name, 0), f"the weight of node {name!r}")) for name in dfg.nodes]
    scale = math.lcm(*(weight.denominator for weight in exact))
    whole = [int(weight * scale) for weight in exact]
    common = math.gcd(*whole) or 1
    if sum(whole) // common >= 2**60:
        raise ValueError(f"the weights add up to {sum(whole) // common} units, too many for 64 bits; round them")
    return [weight // common for weight in whole], Fraction(common, scale)


def _programme(dfg, weights, shared):
    """The programme without periods. A node with one edge needs no mirror: its chain is that edge."""
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
    return _Programme(
        cost, _dot(paid, w[alone]), same, mirror,
        np.concatenate([u[free], v[taps]]), np.concatenate([v[free], chain[taps]]), np.concatenate([w[free], -w[taps]]),
        (*(("edge", place) for place in free.tolist()), *(("tap", place) for place in taps.tolist())),
    )  # fmt: skip


def _optimum(dfg, programme, lags, solver):
    """Optimal lags, the value of the programme and the flow on its constraints, from lags that keep them all."""
    point = np.full(len(programme.cost), min(lags) - 1)  # below any mirror
    point[: len(lags)] = lags
    point[programme.same] = lags
    chain = programme.mirror[dfg.tails]
    taps = chain >= 0
    np.maximum.at(point, chain[taps], (point[programme.same[dfg.heads]] + dfg.delays)[taps])
    costs = programme.bounds - point[programme.tails] + point[programme.heads]  # 0 or more, as the point is feasible
    flow, shift = min_cost_flow(-programme.cost, programme.tails, programme.heads, costs, solver=solver)
    point = point + shift
    return point[programme.same].tolist(), _dot(programme.cost, point) + programme.constant, flow


def _dot(a, b):
    """Sum of products of two int64 arrays, exact."""
    if len(a) * int(np.abs(a).max(initial=0)) * int(np.abs(b).max(initial=0)) < 2**62:
        return int(a @ b)
    return sum(x * y for x, y in zip(a.tolist(), b.tolist()))


def _with_cuts(graph, programme, cuts):
    """The programme with the constraints of paths that are too long; of those between two nodes the strictest."""
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


def _certificate(programme, flow, registers):
    """The constraints that carry flow, by kind."""
    counts = {"edge": [], "tap": [], "path": []}
    for place in np.flatnonzero(flow).tolist():
        kind, what = programme.sources[place]
        counts[kind].append((what, int(flow[place])))
    text = (
        f"{len(counts['edge'])} edges, {len(counts['tap'])} taps and {len(counts['path'])} paths, each with its weight, "
        f"add up to a cost of at least {registers} for any retiming"
    )
    return RegisterCertificate(*map(tuple, counts.values()), text)


def _cost(dfg, weights, shared, lags):
    """Cost of the registers with these lags, a Python int."""
    lags, weights = np.array(lags, dtype=np.int64), np.array(weights, dtype=np.int64)
    delays = dfg.delays + lags[dfg.heads] - lags[dfg.tails]
    if shared:
        held = np.zeros(len(dfg.nodes), dtype=np.int64)
        np.maximum.at(held, dfg.tails, delays)
        return _dot(weights, held)
    return _dot(weights[dfg.tails], delays)


def register_cost(dfg, *, weights=None, shared=True):
    """Cost of the registers of `dfg` as it stands, counted as `min_registers` does.

    Examples
    --------
    >>> from lpkit.dfg import DFG
    >>> fork = DFG.from_edges([("a", "b", 3), ("a", "c", 2), ("b", "c", 1)])
    >>> register_cost(fork), register_cost(fork, weights={"a": 10, "b": 1}, shared=False)
    (4, 51)
    """
    scaled, unit = _whole_weights(dfg, weights)
    return plain(_cost(dfg, scaled, shared, [0] * len(dfg.nodes)) * Fraction(unit))


def verify_min_registers(dfg, found, period=None, *, weights=None, shared=True):
    """Whether `found` is a retiming of at most that period with the fewest registers: what it costs, and why not less.

    Adds up the constraints of the certificate, each checked against the graph alone; does not solve anything.

    Examples
    --------
    >>> from lpkit.dfg import DFG
    >>> edges = [("a", "b", 0), ("a", "c", 0), ("b", "d", 2), ("c", "d", 2), ("d", "a", 0)]
    >>> fork = DFG({"a": 1, "b": 1, "c": 1, "d": 3}, edges)
    >>> found = min_registers(fork, 3)
    >>> found.registers, verify_min_registers(fork, found, 3), verify_min_registers(fork, found)
    (3, True, False)
    """
    scaled, unit = _whole_weights(dfg, weights)
    retimed, programme = retime(dfg, found.r), _programme(dfg, scaled, shared)
    if period is not None and critical_path(retimed).period > period:
        return False
    counted = _counted(dfg, programme, found.certificate, period)
    if counted is None or register_cost(retimed, weights=weights, shared=shared) != found.registers:
        return False
    net, least = np.zeros(len(programme.cost), dtype=np.int64), programme.constant
    for tail, head, bound, count in counted:
        net[tail], net[head], least = net[tail] - count, net[head] + count, least - bound * count
    return bool((net == programme.cost).all()) and least * Fraction(unit) == found.registers


def _counted(dfg, programme, certificate, period):
    """The constraints of a certificate as (tail, head, bound, count); None if one does not hold in the graph."""
    same, counted = programme.same, []
    for place, count in certificate.edges:
        u, v = same[dfg.tails[place]], same[dfg.heads[place]]
        counted.append((u, v, int(dfg.delays[place]), count))
    for place, count in certificate.taps:
        counted.append((same[dfg.heads[place]], programme.mirror[dfg.tails[place]], -int(dfg.delays[place]), count))
    fewest = fewest_delays(dfg, [[dfg.nodes[place] for place in path] for path, _ in certificate.paths])
    for path, count in certificate.paths:
        names = [dfg.nodes[place] for place in path]
        steps = list(zip(names, names[1:]))
        if period is None or sum(dfg.times[name] for name in names) <= period or not fewest.keys() >= set(steps):
            return None
        counted.append((same[path[0]], same[path[-1]], sum(fewest[step] for step in steps) - 1, count))
    return None if any(count < 0 for *_, count in counted) else counted
