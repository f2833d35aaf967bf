"""The data-flow graph of training by backpropagation, one node an operation of a layer.

Of layer l: F (forward), G (weight gradient), U (weight update) and delta, which turns the error at the layer's output
into the error at its input and so exists only where a layer before it learns. A product of two computed tensors has no
weights: it has no G and no U, and its delta reads both operands and makes the errors of both. X and T are the sources
(input and target), E makes the error at the output of the network. Only U holds a delay: the weights of the iteration
before. Only layers have a U here: tables and scales of carried operations are updated on the side.

In a network with branches, a forward join is a node "add:name" (or "concat:name"; "carried:name" for any other
operation of several tensors), and the error at the output of a layer or join with several readers is the sum of what
comes back from them: a node "sum:name", which for a carried operation also reads its operands. Pooling, normalisation
and activations belong to the layer or join before them, their derivatives to the delta or sum that makes that error.
Source: LayerPipe (arXiv:2108.06629), Fig. 1 and equations (1)-(4).
"""

import re
from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from lpkit.checks import unknown_name, whole_number
from lpkit.flowgraph import DFG
from lpkit.graph import INPUT, Network
from lpkit.networks import network as built_in
from lpkit.operations import GEMM_OPERATIONS, JOINS, Activation, Carried, Concat, GlobalPool, MatMul, Pool, is_view

__all__ = ["DEFAULT_TIMES", "backprop_dfg", "operation", "stages_after"]

DEFAULT_TIMES = {"F": 1, "G": 1, "delta": 1, "U": 0, "E": 0, "X": 0, "T": 0, "add": 0, "concat": 0,
                 "carried": 0, "sum": 0}
MOST_LAYERS = 2**24


def backprop_dfg(network_or_layers, *, times=None):
    """The graph of one step of sequential SGD; a chain of L layers has 4 L + 2 nodes and 9 L - 1 edges.

    Parameters
    ----------
    network_or_layers : int, Network or name of a built-in network
        A number stands for a plain chain of so many layers.
    times : mapping, optional
        From a kind ("F", "G", "delta", "U", "E", "X", "T", "add", "concat", "carried", "sum") to one time or to a
        sequence of L, or from the name of a node to its time, which counts first. Default: F, G and delta take 1, the
        rest 0.

    Raises
    ------
    ValueError
        If the network has no layers, or `times` has an unknown name, a wrong length or a time that is none.

    References
    ----------
    LayerPipe, Fig. 1 and equations (1)-(4).

    Examples
    --------
    >>> graph = backprop_dfg(2)
    >>> len(graph.nodes), len(graph.edges), [edge.target for edge in graph.edges if edge.source == "U2"]
    (10, 17, ['U2', 'F2', 'delta2'])
    >>> sorted(name for name in backprop_dfg("resnet18").nodes if "layer1.0" in name or "sum:conv" in name)
    ['add:layer1.0.add', 'sum:conv1', 'sum:layer1.0.add']
    """
    if isinstance(network_or_layers, str):
        network_or_layers = built_in(network_or_layers)
    if isinstance(network_or_layers, Network):
        edges, layers = _network_edges(network_or_layers), len(network_or_layers.layers)
    else:
        layers = whole_number(network_or_layers, "the number of layers", most=MOST_LAYERS)
        edges = _chain_edges(layers)
    nodes = dict.fromkeys(["X", "T", "E"]) | dict.fromkeys(name for edge in edges for name in edge[:2])
    return DFG(_times(nodes, layers, times or {}), edges, hosts=("X", "T"))


def operation(node):
    """Kind and layer of a node of a backprop graph: ``("delta", 2)`` of "delta2", ``("sum", "conv1")`` of "sum:conv1".

    The parts of a split delta are kinds of their own, "delta'" and "delta''"; X, T, E and Y belong to no layer (None).

    Raises
    ------
    ValueError
        If the name is not one of a backprop graph.

    Examples
    --------
    >>> operation("F12"), operation("delta2''"), operation("add:block1"), operation("E")
    (('F', 12), ("delta''", 2), ('add', 'block1'), ('E', None))
    """
    if node in ("X", "T", "E", "Y"):
        return node, None
    layer = re.fullmatch(r"(F|G|U|delta|join)([1-9][0-9]*)('{0,2})", str(node))
    if layer and (not layer[3] or layer[1] == "delta"):
        return layer[1] + layer[3], int(layer[2])
    join = re.fullmatch(r"(add|concat|carried|sum):(.+)", str(node))
    if join:
        return join[1], join[2]
    raise ValueError(f"node {node!r} is none of a backprop graph; they are X, T, E, F1, G1, U1, delta2, ..., sum:name")


def stages_after(stages, layers=None):
    """S(l) of each layer: how many stages come after its own.

    `stages` gives the stage of each layer, 1-based, in order; None puts each of `layers` layers on a stage of its own.

    Raises
    ------
    ValueError
        If the stages are not as many as the layers, start above 1, fall, or leave one out.

    References
    ----------
    LayerPipe, section III.

    Examples
    --------
    >>> stages_after((1, 1, 2, 3)), stages_after(None, 3)
    ((2, 2, 1, 0), (2, 1, 0))
    """
    if stages is None:
        stages = range(1, whole_number(layers, "the number of layers", most=MOST_LAYERS) + 1)
    stages = tuple(whole_number(stage, "a stage") for stage in stages)
    if not stages or (layers is not None and len(stages) != layers):
        wanted = "one or more" if layers is None else f"{layers}, one a layer"
        raise ValueError(f"stages has {len(stages)} numbers; give {wanted}")
    for layer, (before, stage) in enumerate(zip((0, *stages), stages), 1):
        if stage - before not in (0, 1) or (layer == 1 and stage != 1):
            raise ValueError(
                f"layer {layer} is on stage {stage} after stage {before}; "
                "stages start at 1 and go on with the same or the next number"
            )
    return tuple(stages[-1] - stage for stage in stages)


def _chain_edges(layers):
    edges = []
    for l in range(1, layers + 1):
        reads, error = ("X" if l == 1 else f"F{l - 1}"), ("E" if l == layers else f"delta{l + 1}")
        edges += _layer_edges(l, reads, error, with_delta=l > 1)
    return edges + [(f"F{layers}", "E", 0), ("T", "E", 0)]


def _layer_edges(l, reads, error, with_delta):
    """Edges into F, G, U and delta of layer `l`, which reads `reads` and whose output has the error `error`."""
    edges = [(reads, f"F{l}", 0), (reads, f"G{l}", 0), (error, f"G{l}", 0), (f"G{l}", f"U{l}", 0)]
    edges += [(f"U{l}", f"U{l}", 1), (f"U{l}", f"F{l}", 1)]
    if with_delta:
        edges += [(error, f"delta{l}", 0), (f"U{l}", f"delta{l}", 1), (reads, f"delta{l}", 0)]
    return edges


def _product_edges(l, reads, error, with_delta):
    """Edges into F and delta of layer `l`, a product of the tensors that `reads` make: no weights, so no G and no U."""
    edges = [(read, f"F{l}", 0) for read in reads]
    return edges + [(read, f"delta{l}", 0) for read in (error, *reads)] if with_delta else edges


def _network_edges(network):
    """The edges of training `network`, layer by layer."""
    makers = _makers(network)
    learning = _learning(network, makers)
    if not learning:
        raise ValueError(f"network {network.name!r} has no layers that learn; give it a Conv or a Dense")
    errors, sums = _errors(network, makers, learning)
    edges = []
    for node in network.nodes:
        made, reads = makers[node.name], [makers[source] for source in node.inputs]
        if _is_product(node.op):
            edges += _product_edges(int(made[1:]), dict.fromkeys(reads), errors.get(made), made in learning)
        elif isinstance(node.op, GEMM_OPERATIONS):
            edges += _layer_edges(int(made[1:]), reads[0], errors[made], reads[0] in learning)
        elif made not in reads:
            edges += [(source, made, 0) for source in reads]
    return edges + sums + [(makers[name], "E", 0) for name in _outputs(network)] + [("T", "E", 0)]


def _is_product(op):
    """Whether `op` multiplies two computed tensors, so that it has nothing to learn."""
    return isinstance(op, MatMul) and not op.weights


def _makers(network):
    """The graph node that makes each tensor: F of a layer, a join, or, for any other operation, that of its operand."""
    makers, layer = {INPUT: "X"}, 0
    for node in network.nodes:
        reads = {makers[source] for source in node.inputs}
        if isinstance(node.op, GEMM_OPERATIONS):
            layer += 1
            makers[node.name] = f"F{layer}"
        elif isinstance(node.op, JOINS):
            makers[node.name] = f"{'concat' if isinstance(node.op, Concat) else 'add'}:{node.name}"
        else:
            makers[node.name] = f"carried:{node.name}" if len(reads) > 1 else reads.pop()
    return makers


def _learning(network, makers):
    """The makers whose error is needed: layers with weights, and joins and products that read one in the end."""
    learning = set()
    for node in network.nodes:
        learns = isinstance(node.op, GEMM_OPERATIONS) and not _is_product(node.op)
        if learns or any(makers[source] in learning for source in node.inputs):
            learning.add(makers[node.name])
    return learning


def _outputs(network):
    """Nodes that nothing reads."""
    read = {source for node in network.nodes for source in node.inputs}
    return [node.name for node in network.nodes if node.name not in read]


def _errors(network, makers, learning):
    """The graph node that makes the error at the output of each learning maker, and the edges of the sums among them.

    Read backwards: when a layer or join is met, all that reads its output has been. A single part needs no sum, unless
    a join hands it back through an activation or a pooling, whose derivative nothing else would take, or is itself
    an operation that is carried along.
    """
    parts, bent, errors, edges = defaultdict(list), set(), {}, []
    for name in _outputs(network):
        parts[makers[name]].append("E")
    by_name = {node.name: node for node in network.nodes}
    for node in reversed(network.nodes):
        made, reads = makers[node.name], [makers[source] for source in node.inputs]
        if made not in learning or made in reads:
            continue
        operands = dict.fromkeys(reads) if isinstance(node.op, Carried) else ()
        if len(parts[made]) == 1 and made not in bent and not operands:
            errors[made] = parts[made][0]
        else:
            errors[made] = f"sum:{node.name}"
            edges = [(part, errors[made], 0) for part in [*parts[made], made, *operands]] + edges
        if isinstance(node.op, GEMM_OPERATIONS):
            for read in dict.fromkeys(reads):
                parts[read].append(f"delta{made[1:]}")
            continue
        for source, read in zip(node.inputs, reads):
            parts[read].append(errors[made])
            if _is_bent(source, by_name, makers):
                bent.add(read)
    return errors, edges


def _is_bent(tensor, by_name, makers):
    """Whether an operation with a derivative of its own lies between `tensor` and what made it."""
    while tensor != INPUT and (first := by_name[tensor].inputs[0]) and makers[first] == makers[tensor]:
        op = by_name[tensor].op
        if isinstance(op, (Activation, Pool, GlobalPool)) or (isinstance(op, Carried) and not is_view(op)):
            return True
        tensor = first
    return False


def _times(nodes, layers, times):
    """Time of each node: by its name, by its kind, or the default of its kind."""
    if not isinstance(times, Mapping):
        raise ValueError(f"times is {times!r:.60}; it must map kinds or nodes to times, as in {{'F': 2}}")
    for name in times:
        if name not in nodes and name not in DEFAULT_TIMES:
            raise unknown_name(name, "a name in times", [*DEFAULT_TIMES, *list(nodes)[3:11]])
    by_kind = {kind: _per_layer(kind, times.get(kind, time), layers) for kind, time in DEFAULT_TIMES.items()}
    result = {}
    for name in nodes:
        kind, layer = operation(name)
        result[name] = times.get(name, by_kind[kind][layer - 1 if isinstance(layer, int) else 0])
    return result


def _per_layer(kind, value, layers):
    """`value` for each layer, Python numbers."""
    if not isinstance(value, (list, tuple, np.ndarray)) or np.ndim(value) == 0:
        return [value] * layers
    if len(value) != layers or kind not in ("F", "G", "delta", "U"):
        allowed = f"one a layer, {layers}" if kind in ("F", "G", "delta", "U") else "one number"
        raise ValueError(f"times[{kind!r}] has {len(value)} numbers; give {allowed}")
    return list(value)
