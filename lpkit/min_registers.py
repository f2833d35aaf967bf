"""The fewest registers that retiming can leave, at a given clock period or at any, by tensor size if need be.

The registers of an edge are linear in the lags, so this is a linear programme whose constraints are differences of two
lags: each edge keeps no fewer than 0 delays; where the edges of a node tap one chain, a mirror node bounds the longest
of them; each path longer than the period keeps a delay. Of the last kind there are too many to write down: the
programme is solved, its lags are corrected until they reach the period, and the paths met on the way are added, until
none is broken or the corrected lags cost as little as the programme says. The dual is a minimum-cost flow.
Source: Leiserson & Saxe, "Retiming synchronous circuitry", Algorithmica 6 (1991), section 8.
"""

import numbers
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from lpkit.feasibility import first_labels, lower, wiring
from lpkit.flowgraph import exact_time, plain
from lpkit.flows import min_cost_flow
from lpkit.min_period import Retiming, lags_for_period, min_period, reached_period, settled_lags
from lpkit.moves import retime
from lpkit.period_proofs import counted, fewest_delays
from lpkit.register_programme import cost_of, exact_dot, programme_of, whole_weights, with_cuts

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
    scaled, unit = whole_weights(dfg, weights)
    period = None if period is None else exact_time(period, "period")
    lags, graph, programme = _start(dfg, period), wiring(dfg), programme_of(dfg, scaled, shared)
    limit = sum(graph.times) if period is None else period * dfg.denominator // 1
    while True:
        lags, value, flow = _optimum(dfg, programme, lags, solver)
        labels, cuts = first_labels(graph, lags), []
        lower(graph, labels, limit, cuts)
        if not cuts or cost_of(dfg, scaled, shared, labels.lags) == value:
            break
        lags, programme = labels.lags, with_cuts(graph, programme, cuts)
    reached, registers = Fraction(max(labels.arrivals), dfg.denominator), plain(value * Fraction(unit))
    certificate = _certificate(programme, flow, registers)
    return Retiming(plain(reached), settled_lags(dfg, labels.lags), certificate, registers)


def _start(dfg, period):
    """Lags that reach the period."""
    if period is None:
        return [0] * len(dfg.nodes)
    lags = lags_for_period(dfg, period)
    if lags is None:
        shortest = min_period(dfg).period
        raise ValueError(f"no retiming has a period of {period}; the shortest possible is {shortest}")
    return lags


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
    return point[programme.same].tolist(), exact_dot(programme.cost, point) + programme.constant, flow


def _certificate(programme, flow, registers):
    """The constraints that carry flow, by kind."""
    counts = {"edge": [], "tap": [], "path": []}
    for place in np.flatnonzero(flow).tolist():
        kind, what = programme.sources[place]
        counts[kind].append((what, int(flow[place])))
    edges, taps, paths = (counted(len(listed), kind) for kind, listed in counts.items())
    text = f"{edges}, {taps} and {paths}, each as often as it says, add up to a cost of {registers} or more"
    return RegisterCertificate(*map(tuple, counts.values()), text)


def register_cost(dfg, *, weights=None, shared=True):
    """Cost of the registers of `dfg` as it stands, counted as `min_registers` does.

    Parameters
    ----------
    dfg : DFG
    weights : mapping of str to number, optional
        Cost of a register of what each node makes; by default 1.
    shared : bool
        Whether the edges that leave a node share its registers.

    Returns
    -------
    int or Fraction

    Raises
    ------
    ValueError
        If a weight is missing, negative or not exact, or is of a node that is not there.

    Examples
    --------
    >>> from lpkit.dfg import DFG
    >>> fork = DFG.from_edges([("a", "b", 3), ("a", "c", 2), ("b", "c", 1)])
    >>> register_cost(fork), register_cost(fork, weights={"a": 10, "b": 1}, shared=False)
    (4, 51)
    """
    scaled, unit = whole_weights(dfg, weights)
    return plain(cost_of(dfg, scaled, shared, [0] * len(dfg.nodes)) * Fraction(unit))


def verify_min_registers(dfg, found, period=None, *, weights=None, shared=True):
    """Whether `found` is a retiming of at most that period with the fewest registers: what it costs, and why not less.

    Adds up the constraints of the certificate, each checked against the graph alone; does not solve anything.

    Parameters
    ----------
    dfg : DFG
    found : Retiming
        From `min_registers`.
    period, weights, shared
        As they were given there.

    Returns
    -------
    bool

    Raises
    ------
    ValueError
        If the period or a weight is out of range: see `register_cost`.

    Examples
    --------
    >>> from lpkit.dfg import DFG
    >>> edges = [("a", "b", 0), ("a", "c", 0), ("b", "d", 2), ("c", "d", 2), ("d", "a", 0)]
    >>> fork = DFG({"a": 1, "b": 1, "c": 1, "d": 3}, edges)
    >>> found = min_registers(fork, 3)
    >>> found.registers, verify_min_registers(fork, found, 3), verify_min_registers(fork, found)
    (3, True, False)
    """
    scaled, unit = whole_weights(dfg, weights)
    period = None if period is None else exact_time(period, "period")
    reached, programme = reached_period(dfg, found.r), programme_of(dfg, scaled, shared)
    if reached is None or not _are_numbers(found) or found.period != reached:
        return False
    if (period is not None and reached > period) or not _is_readable(dfg, programme, found.certificate):
        return False
    rows = _counted(dfg, programme, found.certificate, period)
    cost = register_cost(retime(dfg, found.r), weights=weights, shared=shared)
    if rows is None or cost != found.registers:
        return False
    net, least = [0] * len(programme.cost), programme.constant  # Python ints, as counts may be of any size
    for tail, head, bound, count in rows:
        net[tail], net[head], least = net[tail] - count, net[head] + count, least - bound * count
    return net == programme.cost.tolist() and least * Fraction(unit) == found.registers


def _counted(dfg, programme, certificate, period):
    """The constraints of a certificate as (tail, head, bound, count); None if one does not hold in the graph."""
    same, rows = programme.same, []
    for place, count in certificate.edges:
        u, v = same[dfg.tails[place]], same[dfg.heads[place]]
        rows.append((u, v, int(dfg.delays[place]), count))
    for place, count in certificate.taps:
        rows.append((same[dfg.heads[place]], programme.mirror[dfg.tails[place]], -int(dfg.delays[place]), count))
    fewest = fewest_delays(dfg, [[dfg.nodes[place] for place in path] for path, _ in certificate.paths])
    for path, count in certificate.paths:
        names = [dfg.nodes[place] for place in path]
        steps = list(zip(names, names[1:]))
        if period is None or sum(dfg.times[name] for name in names) <= period or not fewest.keys() >= set(steps):
            return None
        rows.append((same[path[0]], same[path[-1]], sum(fewest[step] for step in steps) - 1, count))
    return None if any(count < 0 for *_, count in rows) else rows


def _are_numbers(found):
    return isinstance(found.period, numbers.Real) and isinstance(found.registers, numbers.Real)


def _is_readable(dfg, programme, certificate):
    """Whether the certificate names edges, chains and nodes that there are, each with a whole count."""
    if not isinstance(certificate, RegisterCertificate):
        return False
    listed = (certificate.edges, certificate.taps, certificate.paths)
    if not all(isinstance(part, (tuple, list)) and all(map(_is_counted, part)) for part in listed):
        return False
    edges, taps, paths = ([what for what, _ in part] for part in listed)
    if not all(isinstance(path, (tuple, list)) and path for path in paths):
        return False
    if not _are_places([*edges, *taps], len(dfg.edges)) or any(programme.mirror[dfg.tails[tap]] < 0 for tap in taps):
        return False
    return _are_places([place for path in paths for place in path], len(dfg.nodes))


def _is_counted(entry):
    return isinstance(entry, (tuple, list)) and len(entry) == 2 and type(entry[1]) is int


def _are_places(places, count):
    return all(isinstance(place, numbers.Integral) and 0 <= place < count for place in places)
