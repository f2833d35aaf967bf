"""Cutsets of a data-flow graph, and the two transformations that change all of its delays: slow-down and unfolding.

A cutset parts the nodes in two. If all its edges lead the same way it is a feedforward cutset, and as many delays as
one likes may be put on each of them; otherwise delays can only be moved from one direction to the other.
Source: Parhi (1999), sections 3.2 (feedforward cutsets), 4.4 (cutset retiming and slow-down) and 5.3 (unfolding).
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from lpkit.checks import shown, unknown_name, whole_number
from lpkit.flowgraph import DFG, shown_name
from lpkit.orders import weak_components

__all__ = ["Cutset", "cutset", "slow", "unfold"]

MOST_NODES = 2**24  # of an unfolded graph


@dataclass(frozen=True)
class Cutset:
    """The edges between some nodes and all others.

    Attributes
    ----------
    nodes : tuple of str
        One side, in the order of the graph.
    forward, backward : tuple of Edge
        Edges that leave these nodes, and edges that enter them.
    kind : str
        "feedforward" if all edges lead the same way, else "feedback".
    """

    nodes: tuple
    forward: tuple
    backward: tuple
    kind: str


def cutset(dfg, side):
    """The cutset that parts `side` from the rest: names of nodes, or the edges themselves as (source, target) pairs.

    Of edges, `side` is checked to be a cutset: without them no path, in whatever direction, joins the two ends of one
    of them. A pair stands for all parallel edges; a delay as third member is not looked at.

    Raises
    ------
    ValueError
        If a name or an edge is unknown, no edge joins the two sides, or the edges are not a cutset.

    Examples
    --------
    >>> from lpkit.dfg import backprop_dfg
    >>> cut = cutset(backprop_dfg(2), ["G2", "delta2"])
    >>> cut.kind, [edge.target for edge in cut.forward], [edge.source for edge in cut.backward]
    ('feedback', ['G1', 'U2'], ['F1', 'E', 'E', 'U2', 'F1'])
    >>> cutset(backprop_dfg(2), [("X", "F1"), ("X", "G1"), ("T", "E")]).kind
    'feedforward'
    """
    members = list(side) if isinstance(side, Iterable) and not isinstance(side, str) else [side]
    if any(not isinstance(member, str) for member in members):
        members = _side_of_edges(dfg, members)
    inside = np.zeros(len(dfg.nodes), dtype=bool)
    inside[[_place(dfg, name) for name in members]] = True
    leaves, enters = inside[dfg.tails] & ~inside[dfg.heads], ~inside[dfg.tails] & inside[dfg.heads]
    if not (leaves.any() or enters.any()):
        raise ValueError(f"no edge joins {_shown(members)} and the rest of the graph; name some of its nodes, not all")
    forward, backward = (tuple(dfg.edges[e] for e in np.flatnonzero(cut)) for cut in (leaves, enters))
    nodes = tuple(dfg.nodes[place] for place in np.flatnonzero(inside))
    return Cutset(nodes, forward, backward, "feedback" if forward and backward else "feedforward")


def _place(dfg, name):
    if name not in dfg.index:
        raise unknown_name(name, "a node of the cutset", dfg.nodes[:50])
    return dfg.index[name]


def _shown(names):
    some = f"[{', '.join(map(shown, names[:5]))}]"
    return f"{some} ... ({len(names)} nodes)" if len(names) > 5 else some


def _side_of_edges(dfg, edges):
    """Nodes on the side of the source of the first edge."""
    pairs = dict.fromkeys(_pair_of(edge) for edge in edges)
    for missing in pairs.keys() - {edge[:2] for edge in dfg.edges}:
        u, v = map(shown_name, missing)
        raise ValueError(f"there is no edge {u} -> {v} in the graph; a cutset is made of its edges")
    kept = np.array([edge[:2] not in pairs for edge in dfg.edges])
    part_of = weak_components(len(dfg.nodes), dfg.tails[kept], dfg.heads[kept])
    parts = int(part_of.max()) + 1
    cut = [(int(part_of[dfg.index[u]]), int(part_of[dfg.index[v]])) for u, v in pairs]
    sides = _two_sides(parts, cut)
    for (u, v), (a, b) in zip(pairs, cut):
        if sides[a] == sides[b]:
            u, v = shown_name(u), shown_name(v)
            raise ValueError(
                f"these edges are not a cutset: {u} and {v} are on the same side of them; "
                f"add the edges that still join the two, or leave out {u} -> {v}"
            )
    return [name for name, part in zip(dfg.nodes, part_of) if sides[part] == 0]


def _pair_of(edge):
    if not isinstance(edge, (tuple, list)) or len(edge) not in (2, 3) or not all(isinstance(n, str) for n in edge[:2]):
        raise ValueError(f"a member of the cutset is {shown(edge, 80)}; give names of nodes, or edges (source, target)")
    return tuple(edge[:2])


def _two_sides(parts, cut):
    """Side 0 or 1 of each part that differ across cut edges as far as they can; untouched parts are on side 1."""
    neighbours, sides = [[] for _ in range(parts)], [None] * parts
    for a, b in cut:
        neighbours[a].append(b)
        neighbours[b].append(a)
    for start, _ in cut:
        if sides[start] is None:
            sides[start], waiting = 0, [start]
            while waiting:
                part = waiting.pop()
                for other in neighbours[part]:
                    if sides[other] is None:
                        sides[other] = 1 - sides[part]
                        waiting.append(other)
    return [1 if side is None else side for side in sides]


def slow(dfg, k):
    """The k-slow graph: k delays for each one, so that k independent runs take turns; its iteration bound is 1/k.

    Raises
    ------
    ValueError
        If `k` is not a whole number >= 1, or an edge would get more than 2**40 delays.

    References
    ----------
    Leiserson & Saxe (1991), section 9; Parhi (1999), section 4.4.

    Examples
    --------
    >>> slow(DFG({"a": 1}, [("a", "a", 2)]), 3).edges[0].delays
    6
    """
    k = whole_number(k, "k")
    return dfg.with_delays([delays * k for delays in dfg.delays.tolist()])


def unfold(dfg, J):
    """The J-unfolded graph: one iteration of it is J iterations of `dfg`; its iteration bound is J times as large.

    Copy i of node v (i = 0..J-1) is "v[i]". An edge u -> v with w delays becomes the edges u[i] -> v[(i + w) mod J]
    with floor((i + w) / J) delays: w in sum.

    Raises
    ------
    ValueError
        If `J` is not a whole number >= 1, or there would be more than 2**24 nodes.

    References
    ----------
    Parhi (1999), section 5.3.

    Examples
    --------
    >>> unfold(DFG({"a": 1, "b": 1}, [("a", "b", 0), ("b", "a", 3)]), 2).edges[2:]
    (Edge(source='b[0]', target='a[1]', delays=1), Edge(source='b[1]', target='a[0]', delays=2))
    """
    J = whole_number(J, "J", most=max(MOST_NODES // len(dfg.nodes), 1))
    times = {f"{name}[{i}]": time for name, time in dfg.times.items() for i in range(J)}
    edges = [(f"{u}[{i}]", f"{v}[{(i + w) % J}]", (i + w) // J) for u, v, w in dfg.edges for i in range(J)]
    return DFG(times, edges, tuple(f"{host}[{i}]" for host in dfg.hosts for i in range(J)))
