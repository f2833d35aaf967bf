"""How a pipelined training follows from the sequential one, in moves that are all legal: LayerPipe's derivation.

S(l) is the number of stages after the stage of layer l, P = S(1). Delays go in at the two legal places: P at the
inputs (and at the output of the backward pass, if it has one), 2 S(l) between gradient and update of layer l. Then,
stage by stage, S delays are moved from behind G and delta to before them, and from before F and U to behind them.
What comes out is one delay at each boundary in both directions, and the stashes: nobody chose their length.

The same holds in a network with branches: a join runs where its last operand is made.
Source: LayerPipe (arXiv:2108.06629), section III, Figs. 2 and 5.
"""

from dataclasses import dataclass, replace
from fractions import Fraction

from lpkit.backprop import backprop_dfg, operation, stages_after
from lpkit.flowgraph import DFG, Edge, exact_time, execution_order, plain
from lpkit.moves import delay_gradients, move, pipeline, shown_layers

__all__ = ["Step", "derive", "split_delta", "stage_lags"]

SHOWN = 6  # edges that a sentence names


@dataclass(frozen=True)
class Step:
    """One panel of the derivation.

    Attributes
    ----------
    name : str
        "(a)", "(b)", ... as the panels of Fig. 2.
    text : str
        What is done, in words, with the edges and their delays.
    dfg : DFG
        The graph after the step.
    cutset : tuple of str
        Nodes inside the retiming cutset; empty where nothing is moved across one.
    moved : int
        Delays taken from each edge that leaves them and given to each that enters them (negative: the other way).
    lags : dict
        Lag of each node so far.
    """

    name: str
    text: str
    dfg: DFG
    cutset: tuple
    moved: int
    lags: dict


def stage_lags(dfg, stages=None):
    """Lag of each node of a backprop graph once its layers are pipelined in `stages`.

    F and U run S(l) iterations ahead, so their lag is -S(l); G and delta run S(l) behind, so it is S(l); a join runs
    where its last operand is made; X, T, E and Y stay. The moved part delta'' of a split delta runs on the next stage.

    Raises
    ------
    ValueError
        If the stages do not fit the layers of the graph.

    Examples
    --------
    >>> lags = stage_lags(backprop_dfg(3), (1, 2, 2))
    >>> lags["F1"], lags["G1"], lags["delta2"], lags["E"]
    (-1, 1, 0, 0)
    """
    S = _stages_after(dfg, stages)
    readers, lags = {}, {}
    for u, v, w in dfg.edges:
        readers.setdefault(v, []).append((u, w))
    for node in execution_order(dfg):
        kind, layer = operation(node)
        if kind in ("F", "U"):
            lags[node] = -S[layer - 1]
        elif isinstance(layer, int):
            lags[node] = S[layer] if kind == "delta''" and layer < len(S) else S[layer - 1]
        elif layer is None:
            lags[node] = 0
        else:  # the input has the lag 0, but its P delays make it as late as a node of lag -P
            lags[node] = max(-S[0] if u == "X" else lags[u] for u, w in readers[node] if w == 0)
    return {name: lags[name] for name in dfg.nodes}


def _stages_after(dfg, stages):
    """S(l) of each layer of a backprop graph."""
    return stages_after(stages, sum(operation(node)[0] == "F" for node in dfg.nodes))


def derive(network_or_layers, stages=None, *, times=None):
    """The steps of Fig. 2: from sequential training to a pipeline of the given stages.

    Parameters
    ----------
    network_or_layers : int, Network, name of a built-in network, or DFG
        A number stands for a chain of so many layers; a DFG must be a sequential backprop graph.
    stages : sequence of int, optional
        Stage of each layer, 1-based, not falling; one layer a stage by default.
    times : mapping, optional
        Node times, as `backprop_dfg` takes them.

    Returns
    -------
    tuple of Step
        Two moves a stage but the last, between the insertion of delays and the graph that results. Each is checked to
        be legal. There are up to 2 L steps of O(L); for thousands of layers retime once, by `stage_lags`.

    Raises
    ------
    ValueError
        If the stages do not fit the network, or a DFG is not a sequential backprop graph.

    References
    ----------
    LayerPipe, section III and Fig. 2.

    Examples
    --------
    >>> steps = derive(3)
    >>> [(step.name, step.cutset, step.moved) for step in steps[1:3]]
    [('(b)', ('G1',), 2), ('(c)', ('F1', 'U1'), -2)]
    >>> sorted((u, v, w) for u, v, w in steps[-1].dfg.edges if u in ("U2", "F1"))  # doctest: +NORMALIZE_WHITESPACE
    [('F1', 'F2', 1), ('F1', 'G2', 3), ('F1', 'delta2', 3), ('U2', 'F2', 1), ('U2', 'U2', 1), ('U2', 'delta2', 3)]
    """
    dfg = network_or_layers if isinstance(network_or_layers, DFG) else backprop_dfg(network_or_layers, times=times)
    S, final = _stages_after(dfg, stages), stage_lags(dfg, stages)
    steps = [_inserted(dfg, S)]
    for stage, after in enumerate(dict.fromkeys(s for s in S if s), 1):
        for lag in (after, -after):
            inside = tuple(name for name in dfg.nodes if final[name] == lag)
            steps.append(_moved(steps[-1], inside, lag, stage))
    steps.append(_result(steps[-1]))
    return tuple(replace(step, name=f"({_letters(place)})") for place, step in enumerate(steps))


def _letters(place):
    """a, b, ..., z, aa, ab, ..."""
    return (_letters(place // 26 - 1) if place >= 26 else "") + "abcdefghijklmnopqrstuvwxyz"[place % 26]


def _inserted(dfg, S):
    """Fig. 2(a): the delays that pipelining and delayed gradients allow."""
    for u, v, w in dfg.edges:
        if w != (u[0] == "U"):
            raise ValueError(f"edge {u} -> {v} has {w} delays; the derivation starts from sequential training, "
                             "where edges from U have 1 and all others 0")  # fmt: skip
    late = {l: 2 * s for l, s in enumerate(S, 1) if f"G{l}" in dfg.index or f"U{l}" in dfg.index}
    delayed = delay_gradients(pipeline(dfg, ("X", "T"), S[0]), late)
    if "Y" in dfg.index:
        delayed = pipeline(delayed, "Y", S[0])
    changed = [new for old, new in zip(dfg.edges, delayed.edges) if old.delays != new.delays]
    cut, late = ([edge for edge in changed if (edge.source[0] == "G") == gradient] for gradient in (False, True))
    if changed:
        text = (
            f"Pipeline: put {_delays(S[0])}, one for each boundary between stages, on every edge of the feedforward "
            f"cutsets where data enters and leaves ({_shown(cut)}). Delay the gradients: put twice the number of later "
            f"stages between gradient and update ({_shown(late)})."
        )
    else:
        text = "With one stage there is no boundary, so no delay is inserted."
    return Step("", text, delayed, (), 0, dict.fromkeys(dfg.nodes, 0))


def _moved(before, inside, k, stage):
    """Fig. 2(b)-(e): `k` delays across the cutset around the nodes `inside`."""
    if not inside:
        raise ValueError(f"stage {stage} has no nodes to move delays across; check the graph")
    after = move(before.dfg, inside, k)
    held = set(inside)
    leaving, entering = [], []
    for old, new in zip(before.dfg.edges, after.edges):
        if old.delays != new.delays:
            (leaving if old.source in held else entering).append((old, new))
    source, target = ("leaves", "enters") if k > 0 else ("enters", "leaves")
    giving, taking = (leaving, entering) if k > 0 else (entering, leaving)
    text = (
        f"Stage {stage}, cutset around {_listed(inside)}: take {_delays(abs(k))} from each edge that {source} "
        f"({_changes(giving)}) and give {'it' if abs(k) == 1 else 'them'} to each edge that {target} "
        f"({_changes(taking)})."
    )
    lags = before.lags | {name: before.lags[name] + k for name in inside}
    return Step("", text, after, inside, k, lags)


def _result(last):
    """Fig. 2(f): what has come out."""
    dfg, kept = last.dfg, []
    for u, v, w in dfg.edges:
        if operation(v)[0] == "delta" and u == f"U{operation(v)[1]}" and w > 1:
            kept.append(f"{v} uses the weights of {w - 1} iterations before those that {u} gives to F{u[1:]}")
    text = (
        "The pipelined graph: a delay at each boundary that is crossed, in either direction; none inside a stage, and "
        f"none between gradient and update. Stashed weights: {_listed(kept) or 'none'}."
    )
    return Step("", text, dfg, (), 0, last.lags)


def _delays(count):
    return f"{count} delay{'' if count == 1 else 's'}"


def _listed(names):
    names = list(names)
    more = [f"and {len(names) - SHOWN} more"] if len(names) > SHOWN else []
    return ", ".join(names[:SHOWN] + more)


def _shown(edges):
    return _listed(f"{u} -> {v}: {w}" for u, v, w in edges)


def _changes(pairs):
    return _listed(f"{old.source} -> {old.target}: {old.delays} to {new.delays}" for old, new in pairs)


def split_delta(dfg, layer, share, *, moved=None):
    """Fig. 5: part delta of `layer` in delta', which stays, and delta'', which the stage of the next layer computes.

    Both read the error and the weights (or the operands of a product of two tensors); a join puts their results
    together and applies the derivative of the activation. The delays on the error's way in are then retimed across
    delta'', so that it runs on the stage where the error is made and one version of the weights fewer is kept for each.

    Parameters
    ----------
    dfg : DFG
        A backprop graph, sequential or pipelined; best split before it is retimed by hand.
    layer : int
    share : int or Fraction
        Of the time of delta that goes to delta'', 0 to 1.
    moved : int, optional
        Delays to move across delta''; by default all that the error has on its way in.

    Raises
    ------
    ValueError
        If the layer has no delta, the share is out of range, or the error has fewer delays than are to be moved.

    References
    ----------
    LayerPipe, section IV and Fig. 5.

    Examples
    --------
    >>> split = split_delta(derive(3)[-1].dfg, 2, Fraction(1, 3))
    >>> [tuple(edge) for edge in split.edges if edge.target == "delta2'"]
    [('delta3', "delta2'", 1), ('U2', "delta2'", 3)]
    >>> [tuple(edge) for edge in split.edges if "delta2''" in edge]
    [('delta3', "delta2''", 0), ('U2', "delta2''", 2), ("delta2''", 'join2', 1)]
    """
    delta, (stays, goes, join) = f"delta{layer}", (f"delta{layer}'", f"delta{layer}''", f"join{layer}")
    if delta not in dfg.index:
        there = [operation(name)[1] for name in dfg.nodes if operation(name)[0] == "delta"]
        raise ValueError(f"layer {layer} has no delta to split; layers that have one: {shown_layers(there)}")
    share = exact_time(share, "share")
    if share > 1:
        raise ValueError(f"share is {share}; it must be from 0 to 1")
    reads = {u for u, v, _ in dfg.edges if v == f"F{layer}"} - {f"U{layer}"}
    times, edges, late = {}, [], 0
    for name, time in dfg.times.items():
        parts = {stays: plain(Fraction(time * (1 - share))), goes: plain(Fraction(time * share)), join: 0}
        times |= parts if name == delta else {name: time}
    is_product = f"U{layer}" not in dfg.index
    for u, v, w in dfg.edges:
        if v != delta or u in reads:
            edges.append(Edge(join if u == delta else u, join if v == delta else v, w))
        if v == delta and (is_product or u not in reads):  # both parts of a product read its operands
            edges += [Edge(u, stays, w), Edge(u, goes, w)]
            late = late if u == f"U{layer}" or u in reads else w
    split = DFG(times, [*edges, Edge(stays, join, 0), Edge(goes, join, 0)], dfg.hosts)
    moved = late if moved is None else moved
    return move(split, goes, -moved) if moved else split
