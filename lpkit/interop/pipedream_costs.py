"""Costs of a profile for the planners: layers of a linear order of its operations.

Source: Narayanan et al., PipeDream (SOSP 2019), for the profiles; the bytes of cuts count skip tensors as `lpkit.costs`
does.
"""

from collections import defaultdict
from itertools import accumulate

from lpkit.checks import choice, shown
from lpkit.costs import Costs
from lpkit.interop.pipedream_graph import whole_graph
from lpkit.interop.pipedream_split import delta_times, has_weights, layer_name

__all__ = ["layer_homes", "stage_operations", "to_costs"]

LARGEST = 2**63 - 1024  # bytes of a layer or cut: what 64 bits hold, also as the nearest float


def to_costs(graph, *, granularity="fused", split_backward="half", array="32x32", first_layer_delta=False):
    """Costs of a profile for the planners, in ms; a linear order of its operations (that of their ids).

    Parameters
    ----------
    graph : Graph
    granularity : {"fused", "nodes"}
        ``"fused"``: a layer is an operation with weights (batch normalisation aside) and what follows up to the next;
        ``"nodes"``: every operation is a layer.
    split_backward : {"half", "by_forward", "by_gemm"}, number from 0 to 1, mapping or sequence
        How much of the backward time of an operation with weights is delta: half; all above the forward time (G then
        takes as long as F); as the cycles of the products of G and delta on `array`, half where the profile does not
        tell the product (see `forward_gemm`); or that share. The backward time of everything else stays where it is and
        counts as G. Or own shares, of the operation that leads a layer, whatever it is: a mapping from its id or the
        layer's name, half where not named; or a sequence of L numbers.
    array : str or lpkit.systolic.Array
        For ``"by_gemm"``; the products are those of `lpkit.systolic.gemms` without options.
    first_layer_delta : bool
        Whether a layer before which nothing learns computes the error of the network's input; its backward time is all
        G if not.

    Returns
    -------
    Costs
        Its `source` ends with how the backward time was split, and with the part of it that was halved for want of
        anything better.

    Raises
    ------
    ValueError
        If an argument is unknown, the graph falls into parts, or a size leaves 64 bits.

    Examples
    --------
    >>> from lpkit.interop.pipedream import read_profile
    >>> chain = to_costs(read_profile("vgg16"))
    >>> len(chain), round(chain.total, 1), chain.layers[1], chain.delta[1].item()
    (16, 672.5, 'node4 Conv2d', 56.665)
    >>> to_costs(read_profile("vgg16"), split_backward={"node4": 0.25}).delta[1].item()
    28.3325
    """
    choice(granularity, "granularity", ("fused", "nodes"))
    operations = whole_graph(graph)
    home, heads = layer_homes(operations, granularity)
    learned = _after_weights(operations)
    asked = [first_layer_delta or o.id in learned for o in heads]
    delta, said = delta_times(heads, split_backward, asked, array=array)
    forward, backward, weights = [0.0] * len(heads), [0.0] * len(heads), [0] * len(heads)
    for o in operations:
        layer = home[o.id]
        forward[layer] += o.forward
        backward[layer] += o.backward
        weights[layer] += o.parameters
    G = [both - part for both, part in zip(backward, delta)]
    traffic = _traffic(graph, operations, home, heads)
    names = tuple(map(layer_name, heads))
    kinds = ("weights of", "inputs of", "outputs of", "tensors across the cut after")
    for what, sizes in zip(kinds, (weights, *traffic)):
        _fit(sizes, what, names)
    source = "; backward time of operations with weights: ".join(filter(None, (graph.source, said)))
    return Costs(f"{graph.name}, measured ({granularity})", names, forward, G, delta, weights, *traffic, unit="ms",
                 source=source)


def stage_operations(graph, plan, *, granularity="fused"):
    """Ids of the operations of each stage of a plan of `to_costs`, for `lpkit.interop.pipedream.write_graph`.

    Raises
    ------
    ValueError
        If the plan is not one of the graph's layers.

    Examples
    --------
    >>> from lpkit.interop.pipedream import read_profile
    >>> from lpkit.partition import pipedream
    >>> profile = read_profile("vgg16")
    >>> stage_operations(profile, pipedream(to_costs(profile), 3))[0]
    ('node2', 'node3', 'node4', 'node5', 'node6')
    """
    operations = whole_graph(graph)
    home, heads = layer_homes(operations, choice(granularity, "granularity", ("fused", "nodes")))
    if plan.costs.layers != tuple(map(layer_name, heads)):
        raise ValueError(f"the plan is of {len(plan.costs)} layers, not of the {len(heads)} that {graph.name!r} has as "
                         f"{granularity!r}; give a plan of its to_costs")
    stages = [[] for _ in plan.stages]
    for o in operations:
        stages[plan.stage_of(home[o.id] + 1) - 1].append(o.id)
    return tuple(map(tuple, stages))


def _after_weights(operations):
    """Ids of the operations that read, however far back, something with weights."""
    learning, after = set(), set()
    for o in operations:
        if not learning.isdisjoint(o.inputs):
            after.add(o.id)
        if o.parameters > 0 or o.id in after:
            learning.add(o.id)
    return after


def _fit(sizes, what, names):
    """Refuse bytes of a layer that 64 bits do not hold."""
    for size, name in zip(sizes, names):
        if size > LARGEST:
            raise ValueError(f"the {what} layer {shown(name)} have {size} bytes, more than {LARGEST}; "
                             "check the sizes of the profile")


def layer_homes(operations, granularity):
    """Layer (from 0) of each id, and the operation that names each layer.

    An operation that starts no layer goes with the latest layer among its inputs, or with the first.
    """
    home, heads = {}, []
    for o in operations:
        if granularity == "nodes" or has_weights(o):
            home[o.id] = len(heads)
            heads.append(o)
        else:
            home[o.id] = max((home[i] for i in o.inputs), default=0)
    return home, heads or list(operations[:1])


def _traffic(graph, operations, home, heads):
    """Input, output and cut bytes, first consumer (1-based) and shared input of each layer."""
    L, size = len(heads), {o.id: o.activation for o in graph.operations}
    readers = defaultdict(list)
    for o in operations:
        for name in o.inputs:
            readers[name].append(o)
    starts = {o.id: layer for layer, o in enumerate(heads)}
    given = {o.id: o.inputs for o in graph.operations}
    outputs, changes = [0] * L, [0] * L  # of the bytes that cross, from one cut to the next
    for o in reversed(operations):
        last = max((home[r.id] for r in readers[o.id]), default=home[o.id])
        changes[home[o.id]] += o.activation
        changes[last] -= o.activation
        outputs[home[o.id]] = outputs[home[o.id]] or o.activation
    found = _first_readers(operations, starts, L)
    first = [found.get(o.id, L) + 1 for o in heads]
    cuts = list(accumulate(changes[:-1]))
    inputs = [sum(size[name] for name in given[o.id]) for o in heads]
    shared = [any(len(readers[name]) > 1 for name in o.inputs) for o in heads]
    return inputs, outputs, cuts, first, shared


def _first_readers(operations, starts, none):
    """Lowest layer that reads each output, directly or through operations that start no layer; `none` if none does."""
    found = {}
    for o in reversed(operations):
        reader = starts[o.id] if o.id in starts else found.get(o.id, none)
        for name in o.inputs:
            found[name] = min(found.get(name, none), reader)
    return found
