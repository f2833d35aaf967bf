"""The legal moves of delays: retiming, pipelining on a feedforward cutset, delayed gradients.

Retiming gives each node a lag r; an edge u -> v then has w + r(v) - r(u) delays, which must not be negative. It moves
delays and makes none: those of a loop stay. New delays may enter in two places only: any number, the same on every edge
of a feedforward cutset; and between a gradient and the weight update that uses it, as in the delayed LMS algorithm.
Source: LayerPipe (arXiv:2108.06629), section III; Leiserson & Saxe, Algorithmica 6 (1991); Parhi (1999), chapter 4.
"""

from collections.abc import Mapping

import numpy as np

from lpkit.backprop import operation, stages_after
from lpkit.checks import short, shown, unknown_name, whole_number
from lpkit.cutsets import cutset

__all__ = ["delay_gradients", "move", "pipeline", "retime", "shown_layers"]

LARGEST_LAG = 2**40


def retime(dfg, r):
    """The graph with w + r(v) - r(u) delays on each edge u -> v.

    Parameters
    ----------
    dfg : DFG
    r : mapping from node to int
        Lags; nodes it does not name have 0, and so must the hosts.

    Raises
    ------
    ValueError
        If an edge would have negative delays, a host a lag, or `r` is not lags of nodes. The sentence names them.

    References
    ----------
    Leiserson & Saxe (1991), section 3.

    Examples
    --------
    >>> from lpkit.dfg import DFG
    >>> ring = DFG.from_edges([("a", "b", 0), ("b", "a", 2)])
    >>> retime(ring, {"b": 1}).edges
    (Edge(source='a', target='b', delays=1), Edge(source='b', target='a', delays=1))
    >>> retime(ring, {"a": 1})
    Traceback (most recent call last):
    ...
    ValueError: edge a -> b would have -1 delays: it has 0, r(b) = 0 and r(a) = 1; make r(b) larger or r(a) smaller
    """
    lags = _lags(dfg, r)
    delays = dfg.delays + lags[dfg.heads] - lags[dfg.tails]
    illegal = np.flatnonzero(delays < 0)
    if illegal.size:
        u, v, w = dfg.edges[illegal[0]]
        ru, rv = (int(lags[dfg.index[name]]) for name in (u, v))
        u, v = short(u), short(v)
        raise ValueError(
            f"edge {u} -> {v} would have {w + rv - ru} delays: it has {w}, r({v}) = {rv} and r({u}) = {ru}; "
            f"make r({v}) larger or r({u}) smaller"
        )
    return dfg.with_delays(delays)


def _lags(dfg, r):
    """Lags as an array (nodes,)."""
    if not isinstance(r, Mapping):
        raise ValueError(f"r is a {type(r).__name__}; it must map nodes to lags, as in {{'a': 1}}")
    lags = np.zeros(len(dfg.nodes), dtype=np.int64)
    for name, lag in r.items():
        if not (isinstance(name, str) and name in dfg.index):
            raise unknown_name(name, "a node of r", dfg.nodes[:50])
        said = f"the lag of node {shown(name)}"
        lags[dfg.index[name]] = whole_number(lag, said, least=-LARGEST_LAG, most=LARGEST_LAG)
    for host in dfg.hosts:
        lag = int(lags[dfg.index[host]])
        if lag:
            raise ValueError(f"host {shown(host)} has the lag {lag}; hosts keep the lag 0, so take it off all lags")
    return lags


def move(dfg, nodes, k):
    """Move `k` delays from each edge that leaves `nodes` to each that enters them; the other way for negative `k`.

    The edges between `nodes` and the rest are a cutset; moving delays across it is a retiming of one side.

    Parameters
    ----------
    dfg : DFG
    nodes : sequence of str
        Or one name.
    k : int
        Delays.

    Returns
    -------
    DFG

    Raises
    ------
    ValueError
        If an edge has too few delays to give, a node is unknown or a host, or no edge joins `nodes` to the rest.

    References
    ----------
    LayerPipe, section III, "retiming cutsets"; Parhi (1999), section 4.4 (cutset retiming).

    Examples
    --------
    >>> from lpkit.dfg import DFG
    >>> chain = DFG.from_edges([("a", "b", 0), ("b", "c", 3), ("c", "a", 1)])
    >>> [edge.delays for edge in move(chain, ["b"], 2).edges]
    [2, 1, 1]
    >>> move(chain, "c", 2)
    Traceback (most recent call last):
    ...
    ValueError: moving 2 delays takes 2 from edge c -> a, which has 1; move fewer
    """
    k = whole_number(k, "the number of delays to move", least=-LARGEST_LAG, most=LARGEST_LAG)
    cut = cutset(dfg, nodes)
    for u, v, w in (cut.forward if k > 0 else cut.backward) if k else ():
        if w < abs(k):
            raise ValueError(f"moving {abs(k)} delays takes {abs(k)} from edge {short(u)} -> {short(v)}, which has "
                             f"{w}; move fewer")  # fmt: skip
    return retime(dfg, dict.fromkeys(cut.nodes, k))


def pipeline(dfg, side, k):
    """The graph with `k` more delays on every edge of a feedforward cutset.

    Parameters
    ----------
    dfg : DFG
    side : node names, or (source, target) pairs
        The nodes on one side of the cutset, or its edges (a pair stands for all parallel ones).
    k : int
        Delays to add, 0 or more.

    Raises
    ------
    ValueError
        If that is no cutset, or its edges do not all lead the same way; the sentence names one that does not.

    References
    ----------
    LayerPipe, section III; Parhi (1999), section 3.2 (feedforward cutsets).

    Examples
    --------
    >>> from lpkit.dfg import DFG
    >>> fir = DFG.from_edges([("x", "m1", 0), ("x", "m2", 1), ("m1", "add", 0), ("m2", "add", 0)])
    >>> [edge.delays for edge in pipeline(fir, ["x", "m1"], 1).edges]
    [0, 2, 1, 0]
    >>> pipeline(DFG.from_edges([("a", "b", 0), ("b", "a", 1)]), "a", 1)
    Traceback (most recent call last):
    ...
    ValueError: this cutset is not feedforward: a -> b leads one way and b -> a the other; new delays may not cut a loop
    """
    k = whole_number(k, "the number of delays to add", least=0, most=LARGEST_LAG)
    cut = cutset(dfg, side)
    if cut.kind != "feedforward":
        out, back = (f"{short(edge.source)} -> {short(edge.target)}" for edge in (cut.forward[0], cut.backward[0]))
        raise ValueError(
            f"this cutset is not feedforward: {out} leads one way and {back} the other; new delays may not cut a loop"
        )
    inside = np.zeros(len(dfg.nodes), dtype=bool)
    inside[[dfg.index[name] for name in cut.nodes]] = True
    return dfg.with_delays(dfg.delays + k * (inside[dfg.tails] != inside[dfg.heads]))


def delay_gradients(dfg, M):
    """The graph with M_l more delays between the gradient G_l and the weight update U_l.

    Parameters
    ----------
    dfg : DFG
        A backprop graph.
    M : mapping from layer to int, or sequence of the stages of all layers
        Delays of each layer, 0 where none is named; or the stages, for twice the number of stages after each layer
        that learns (a product of two tensors has a stage, but no gradient to delay).

    Raises
    ------
    ValueError
        If a layer is unknown, or a number negative.

    References
    ----------
    LayerPipe, equation (6) and Fig. 3; Long, Ling & Proakis, "The LMS algorithm with delayed coefficient adaptation"
    (1989).

    Examples
    --------
    >>> from lpkit.dfg import backprop_dfg
    >>> [edge.delays for edge in delay_gradients(backprop_dfg(3), (1, 2, 3)).edges if edge.source.startswith("G")]
    [4, 2, 0]
    """
    updates = {operation(v)[1]: place for place, (u, v, _) in enumerate(dfg.edges) if _is_update(u, v)}
    if not isinstance(M, Mapping):
        layers = updates.keys() | {int(v[1:]) for v in dfg.nodes if v[:1] == "F" and v[1:].isdigit()}
        late = enumerate(stages_after(M, len(layers)), 1)
        M = {layer: 2 * after for layer, after in late if layer in updates or f"U{layer}" in dfg.index}
    delays = dfg.delays.copy()
    for layer, amount in M.items():
        if layer not in updates:
            raise ValueError(f"the graph has no edge G{layer} -> U{layer}; its layers are {shown_layers(updates)}")
        delays[updates[layer]] += whole_number(amount, f"the gradient delay of layer {layer}", least=0)
    return dfg.with_delays(delays)


def _is_update(u, v):
    """Whether u -> v leads from the gradient of a layer to its weight update."""
    return u[:1] == "G" and v[:1] == "U" and u[1:] == v[1:] and u[1:].isdigit()


def shown_layers(layers):
    """``"1, 2, 4"``, or ``"1 to 9"`` for the many.

    Examples
    --------
    >>> shown_layers([1, 2, 4]), shown_layers(range(1, 10)), shown_layers([])
    ('1, 2, 4', '1 to 9', 'none')
    """
    layers = sorted(layers)
    return f"{layers[0]} to {layers[-1]}" if len(layers) > 6 else ", ".join(map(str, layers)) or "none"
