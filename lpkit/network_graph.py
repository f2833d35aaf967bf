"""The graph of the layers of a network: what costs nothing, and what was left out, goes with the layers around it.

Source: the places of nodes and cuts in `lpkit.graph`, for any order of the layers.
"""

import math
from fractions import Fraction
from functools import reduce
from operator import or_

from lpkit.checks import shown
from lpkit.graph import INPUT
from lpkit.layer_graph import LayerGraph, Tensor, members
from lpkit.operations import GEMM_OPERATIONS, is_source, is_view

__all__ = ["layer_graph"]


def layer_graph(network, costs, *, batch=None):
    """The `LayerGraph` of a network whose `costs` were made by `lpkit.costs.costs`.

    Activations, poolings and joins cost nothing and go with the latest of the layers they depend on, in whichever order
    the layers stand. A layer that `costs` leaves out stays with the costed layer before it.

    Parameters
    ----------
    network : Network
    costs : Costs
        All of its layers, or some.
    batch : int, optional
        Samples a mini-batch, if not as the bytes of the largest output say.

    Raises
    ------
    ValueError
        If the costs are not those of the network.

    Examples
    --------
    >>> from lpkit.costs import costs
    >>> from lpkit.networks import network
    >>> resnet = network("resnet18")
    >>> graph = layer_graph(resnet, costs(resnet))
    >>> graph.costs.layers[5:8], [n + 1 for n in members(graph.readers[4])], graph.before[7] == 1 << 4
    (('layer2.0.conv1', 'layer2.0.conv2', 'layer2.0.downsample'), [6, 8], True)
    """
    place = {name: layer for layer, name in enumerate(costs.layers)}
    outputs = {layer.name: layer.output_elements for layer in network.layers}
    if not set(place) <= set(outputs):
        raise _other_costs(network, costs)
    before, readers, held = _edges(network, place)
    size = Fraction(costs.bytes_per_element)
    if batch is None:
        largest = max(range(len(costs)), key=lambda layer: outputs[costs.layers[layer]])
        batch = math.floor(costs.output_bytes[largest].item() / (size * outputs[costs.layers[largest]]))
    tensors = [Tensor(held[name], read, batch * math.prod(network.shapes[name]) * size)
               for name, read in _reads(network, held).items()]
    graph = LayerGraph(costs, tuple(before), tuple(readers), tuple(tensors))
    same = graph.reordered(range(1, len(costs) + 1))
    if any((getattr(same, name) != getattr(costs, name)).any() for name in ("cut_bytes", "first_consumer")):
        raise _other_costs(network, costs)
    return graph


def _other_costs(network, costs):
    return ValueError(f"the costs of {shown(costs.name)} are not those of network {shown(network.name)}; give costs "
                      "that were made from it, with their layers in its order")


def _edges(network, place):
    """Layers before each layer, those that read it, and for each node the layers it goes with the latest of."""
    before, past, readers = [0] * len(place), [0] * len(place), [0] * len(place)
    held, sources, latest = {INPUT: 0}, {INPUT: 0}, 0  # `sources`: layers whose output reaches a node through no other
    for node in network.nodes:
        behind, reads = (reduce(or_, (of[name] for name in node.inputs)) for of in (held, sources))
        earlier = reduce(or_, (past[layer] for layer in members(behind)), 0)
        behind &= ~earlier  # what comes before another of them is never the latest
        if node.name in place:
            latest = 1 << place[node.name]
            for source in members(reads):
                readers[source] |= latest
            reads = latest
        fixed = isinstance(node.op, GEMM_OPERATIONS)
        held[node.name], sources[node.name] = latest if fixed else behind, reads
        if fixed and latest:
            layer = latest.bit_length() - 1
            before[layer] |= behind & ~latest
            past[layer] |= (behind | earlier) & ~latest
    return before, readers, held


def _reads(network, held):
    """For each tensor that is read the layers that its readers go with; a view is the tensor it looks at."""
    looks_at, reads = {}, {}
    read = {name for node in network.nodes for name in node.inputs}
    for node in network.nodes:
        inputs = [looks_at.get(name, name) for name in node.inputs]
        if is_view(node.op) and node.name in read:
            looks_at[node.name] = inputs[0]
        elif not is_source(node.op):
            for name in inputs:
                reads[name] = reads.get(name, 0) | held[node.name]
    return reads
