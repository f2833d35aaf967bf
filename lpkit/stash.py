"""What a pipelined training must keep: how stale its gradients are, and how long weights and activations wait.

All is read from the delays of the graph, however they came there. F, G, delta and E take from each other without going
through a weight; counted along these edges each node has a place in time. The gradient of layer l is stale by the
delays on the loop U_l, F_l, ..., G_l, U_l but one. Weights wait for delta, and activations for G, as much longer than
for F as their edges have more delays. A product of two tensors has no weights: its operands wait for its delta.
Source: LayerPipe (arXiv:2108.06629), section III; PipeDream (SOSP 2019), section 3.3, and GPipe (NeurIPS 2019), for the
stashes this explains.
"""

import math
from dataclasses import dataclass

from lpkit.backprop import operation, stages_after
from lpkit.checks import choice, whole_number
from lpkit.costs import Costs
from lpkit.graph import Network
from lpkit.moves import shown_layers

__all__ = ["Stash", "smallest_delays", "staleness", "stash", "tensor_bytes"]


@dataclass(frozen=True)
class Stash:
    """What is kept for one layer.

    Attributes
    ----------
    layer : int
    staleness : int or None
        Iterations between the weights that a gradient was made with and those that it updates; None without weights.
    weights, activations : int
        Iterations that the weights wait for delta after F has used them, and the input of the layer for G (the operands
        of a product of two tensors for its delta).
    weight_bytes, activation_bytes : int or None
        The same in bytes: one tensor an iteration.
    """

    layer: int
    staleness: int | None
    weights: int
    activations: int
    weight_bytes: int | None = None
    activation_bytes: int | None = None


def staleness(dfg):
    """Iterations by which the gradient of each layer that learns is late, {layer: M_l}; retiming does not change them.

    Raises
    ------
    ValueError
        If `dfg` is not the graph of one training step (a slowed one is several), or its paths disagree.

    References
    ----------
    LayerPipe, equation (6): W(n + 1) = W(n) - eta G(n - M).

    Examples
    --------
    >>> from lpkit.dfg import backprop_dfg
    >>> from lpkit.moves import delay_gradients
    >>> staleness(delay_gradients(backprop_dfg(3), (1, 2, 3)))
    {1: 4, 2: 2, 3: 0}
    """
    place = _places(dfg)
    delays = {(u, v): w for u, v, w in dfg.edges}
    result = {}
    for layer in _layers(dfg):
        F, G, U = (f"{kind}{layer}" for kind in "FGU")
        if _is_product(dfg, layer):
            continue
        for edge in ((G, U), (U, F), (U, U)):
            if edge not in delays:
                raise ValueError(f"there is no edge {edge[0]} -> {edge[1]}; the graph must be a backprop graph")
        if delays[U, U] != 1:
            raise ValueError(f"edge {U} -> {U} has {delays[U, U]} delays; staleness is that of one run, with 1")
        result[layer] = delays[G, U] + delays[U, F] + place[G] - place[F] - 1
    return result


def _is_product(dfg, layer):
    """Whether a layer has no weights: neither G nor U."""
    return f"G{layer}" not in dfg.index and f"U{layer}" not in dfg.index


def _layers(dfg):
    layers = sorted(operation(name)[1] for name in dfg.nodes if operation(name)[0] == "F")
    if not layers:
        raise ValueError("the graph has no layers, F1, F2, ...; it must be a backprop graph")
    return layers


def _places(dfg):
    """Delays from one node of each part to the others, along edges that neither begin nor end at a weight update."""
    beside = {name: [] for name in dfg.nodes}
    for u, v, w in dfg.edges:
        if u[0] != "U" and v[0] != "U":
            beside[u].append((v, w))
            beside[v].append((u, -w))
    place = {}
    for root in dfg.nodes:
        waiting = [] if root in place else [root]
        place.setdefault(root, 0)
        for u in waiting:  # the list grows while it is read
            for v, w in beside[u]:
                if v not in place:
                    place[v] = place[u] + w
                    waiting.append(v)
    for u, v, w in dfg.edges:
        if u[0] != "U" and v[0] != "U" and place[v] - place[u] != w:
            raise ValueError(
                f"edge {u} -> {v} has {w} delays, but another way between the two has {place[v] - place[u]}; "
                "one iteration would mix two samples"
            )
    return place


def stash(dfg, sizes=None, *, batch=1, bytes_per_element=4):
    """What is kept for each layer, in iterations and, where sizes are given, in bytes.

    Parameters
    ----------
    dfg : DFG
        A backprop graph, sequential or pipelined, with a split delta or not.
    sizes : Network or Costs, optional
        Costs hold bytes of a mini-batch; of a Network, `batch` and `bytes_per_element` say how large it is.

    Returns
    -------
    tuple of Stash, one a layer

    Raises
    ------
    ValueError
        As `staleness`; or if `sizes` has other layers than the graph.

    References
    ----------
    LayerPipe, section III and Fig. 2(f).

    Examples
    --------
    >>> from lpkit.derivation import derive
    >>> for kept in stash(derive(3)[-1].dfg):
    ...     print(kept.layer, kept.staleness, kept.weights, kept.activations)
    1 4 0 4
    2 2 2 2
    3 0 0 0
    """
    late, layers, delays, reads = staleness(dfg), _layers(dfg), {(u, v): w for u, v, w in dfg.edges}, {}
    for u, v, _ in dfg.edges:
        if v[0] == "F" and u[0] != "U":
            reads[v] = u
    weight_bytes, input_bytes = _layer_bytes(sizes, len(layers), batch, bytes_per_element)
    result = []
    for layer in layers:
        F, G, U = (f"{kind}{layer}" for kind in "FGU")
        readers = (delays.get((U, f"delta{layer}{part}"), 0) for part in ("", "'", "''"))
        weights = max(0, *(w - delays[U, F] for w in readers)) if layer in late else 0
        users = (G, *(f"delta{layer}{part}" for part in ("", "'", "''") if layer not in late))
        activations = max(delays.get((reads[F], user), 0) for user in users) - delays[reads[F], F]
        sized = () if sizes is None else (weights * weight_bytes[layer - 1], activations * input_bytes[layer - 1])
        result.append(Stash(layer, late.get(layer), weights, activations, *sized))
    return tuple(result)


def _layer_bytes(sizes, layers, batch, bytes_per_element):
    """Bytes of the weights and of the input of each layer, as lists of Python ints."""
    if sizes is None:
        return (), ()
    if isinstance(sizes, Costs):
        lists = sizes.weight_bytes.tolist(), sizes.input_bytes.tolist()
    elif isinstance(sizes, Network):
        scale = whole_number(bytes_per_element, "bytes_per_element")
        weights = [layer.weights * scale for layer in sizes.layers]
        lists = weights, [layer.input_elements * whole_number(batch, "batch") * scale for layer in sizes.layers]
    else:
        raise ValueError(f"sizes is a {type(sizes).__name__}; give a Network or Costs")
    if len(lists[0]) != layers:
        raise ValueError(f"sizes has {len(lists[0])} layers, but the graph has {layers}; give those of its network")
    return lists


def tensor_bytes(dfg, network, *, batch=1, bytes_per_element=4):
    """Bytes of what each node of a backprop graph makes, {node: bytes}: `weights` for `min_registers`.

    F and joins make activations, delta and sums the errors of the same size, G and U tensors like the weights.

    Parameters
    ----------
    dfg : DFG
        A backprop graph.
    network : Network
    batch : int
        Samples of a mini-batch.
    bytes_per_element : int

    Raises
    ------
    ValueError
        If the graph is not that of `network`, or has a split delta, whose parts have no size of their own.

    Examples
    --------
    >>> from lpkit.dfg import backprop_dfg
    >>> from lpkit.networks import network
    >>> sizes = tensor_bytes(backprop_dfg("lenet5"), network("lenet5"), batch=32)
    >>> sizes["U1"], sizes["F1"], sizes["X"]
    (600, 602112, 131072)
    """
    if not isinstance(network, Network):
        raise ValueError(f"network is a {type(network).__name__}; give the Network of the graph")
    activation = whole_number(batch, "batch") * whole_number(bytes_per_element, "bytes_per_element")
    of_node = {name: activation * math.prod(shape) for name, shape in network.shapes.items()}
    result = {}
    for name in dfg.nodes:
        kind, place = operation(name)
        layer = network.layers[place - 1] if isinstance(place, int) and place <= len(network.layers) else None
        if kind in ("G", "U") and layer:
            result[name] = layer.weights * bytes_per_element
        elif kind in ("F", "delta") and layer:
            result[name] = activation * (layer.output_elements if kind == "F" else layer.input_elements)
        elif kind in ("X", "Y"):
            result[name] = of_node["input"]
        elif kind in ("T", "E"):
            result[name] = of_node[network.nodes[-1].name]
        elif place in of_node:
            result[name] = of_node[place]
        else:
            layers = shown_layers(layer.index for layer in network.layers)
            raise ValueError(f"node {name} makes no tensor of network {network.name!r}, whose layers are {layers}")
    return result


MODELS = ("registered", "weights_retimed", "1f1b")


def smallest_delays(stages, model="registered", *, slots=2):
    """Smallest gradient delay of each layer, {layer: M_l}, under one of three models of a pipeline.

    Parameters
    ----------
    stages : sequence of int
        Stage of each layer, 1-based, not falling.
    model : {"registered", "weights_retimed", "1f1b"}
        ``"registered"``: a register at each boundary in both directions, and the weight register stays before F and
        delta: 2 S(l). ``"weights_retimed"``: the weight register may serve as one of them: 2 S(l) - 1.
        ``"1f1b"``: a stage runs one forward and one backward slot, each boundary costs a slot, not an iteration.
    slots : int
        Slots an iteration takes under ``"1f1b"``: 2 for one forward and one backward, as in PipeDream, gives S(l).

    Raises
    ------
    ValueError
        If the stages are none, the model is unknown, or the slots are not a whole number of at least 1.

    Notes
    -----
    The loop from U_l through F to the last stage and back by delta to G_l crosses S(l) boundaries each way and has
    1 + M_l delays, the weight register among them. In slots: 2 (S(l) + 1) of them pass within 1 + M_l iterations.

    References
    ----------
    LayerPipe, section III, for 2 S(l); PipeDream (SOSP 2019), section 3.2, for 1F1B.

    Examples
    --------
    >>> [list(smallest_delays((1, 2, 3, 4), model).values()) for model in ("registered", "weights_retimed", "1f1b")]
    [[6, 4, 2, 0], [5, 3, 1, 0], [3, 2, 1, 0]]
    """
    choice(model, "model", MODELS)
    slots = whole_number(slots, "slots")
    needed = {
        "registered": lambda after: 2 * after + 1,
        "weights_retimed": lambda after: max(2 * after, 1),
        "1f1b": lambda after: -(-2 * (after + 1) // slots),
    }[model]
    return {layer: needed(after) - 1 for layer, after in enumerate(stages_after(stages), 1)}
