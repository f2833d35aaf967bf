"""A profile as a graph of layers, so that `lpkit.optimal_graph` plans it over all topological orders.

An operation without weights stays with the layer that `to_costs` gives its time to, in whichever order the layers are.
Source: Narayanan et al., PipeDream (SOSP 2019), whose planner searches the same orders.
"""

from collections import defaultdict
from fractions import Fraction

from lpkit.interop.pipedream_costs import layer_homes, to_costs
from lpkit.interop.pipedream_graph import whole_graph
from lpkit.layer_graph import LayerGraph, Tensor

__all__ = ["profile_layers"]


def profile_layers(graph, *, granularity="fused", **choices):
    """The `LayerGraph` of a profile; its costs are those of `lpkit.interop.pipedream.to_costs` with the same
    `granularity` and `choices`.

    Raises
    ------
    ValueError
        As `to_costs`.

    Examples
    --------
    >>> from lpkit.interop.pipedream import read_profile
    >>> from lpkit.optimal_graph import optimal_graph
    >>> from lpkit.partition import optimal
    >>> graph = profile_layers(read_profile("resnet50"), granularity="nodes")
    >>> optimal_graph(graph, 8).period < optimal(graph.costs, 8).period
    True
    """
    costs = to_costs(graph, granularity=granularity, **choices)
    operations = whole_graph(graph)
    home, heads = layer_homes(operations, granularity)
    starts = {o.id: layer for layer, o in enumerate(heads)}
    before, read = [0] * len(costs), defaultdict(int)
    for o in operations:
        own = 1 << home[o.id]
        for name in o.inputs:
            read[name] |= own
            before[home[o.id]] |= 1 << home[name] & ~own
    tensors = tuple(Tensor(1 << home[o.id], read[o.id], Fraction(o.activation)) for o in operations)
    return LayerGraph(costs, tuple(before), _readers(operations, starts), tensors)


def _readers(operations, starts):
    """Layers that read the output of the operation that starts each layer, also through others that start none."""
    reached = defaultdict(int)  # by the output of each operation
    for o in reversed(operations):
        reader = 1 << starts[o.id] if o.id in starts else reached[o.id]
        for name in o.inputs:
            reached[name] |= reader
    return tuple(reached[name] for name in starts)
