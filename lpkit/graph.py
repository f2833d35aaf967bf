"""A network as a directed acyclic graph of operations, and what follows from the graph alone.

Only convolutions and dense layers cost matrix products; they are the numbered layers 1..L, in file order. Every other
node (activation, pooling, batch normalisation, join) sits with the highest layer among its ancestors, so a ReLU
belongs to the layer before it and a residual addition to its latest operand. A cut after layer l sends every tensor
that is made at or before l and read after it, skip connections included. Branches and joins are kept as edges.

Source: the layer chain of LayerPipe (arXiv:2108.06629), extended to residual and skip edges.
"""

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, count

from lpkit.checks import plain, shown, unknown_name, whole_number
from lpkit.operations import (
    GEMM_OPERATIONS,
    OPERATIONS,
    is_source,
    is_view,
    mac_count,
    output_shape,
    parameter_count,
    weight_count,
)

__all__ = ["INPUT", "Layer", "Network", "Node", "checked_shape", "node_shape"]

INPUT = "input"  # names the network's own input among the inputs of a node
MOST_SIDES = 16  # of a tensor; no model file has more
LARGEST_COUNT = 2**63 - 1  # every count must fit the int64 arrays it ends up in


@dataclass(frozen=True)
class Node:
    """An operation with a name and the names of the nodes it reads ("input": the network's input).

    Raises
    ------
    ValueError
        If the name is not printable text without blanks, `op` is not an operation, or there are no inputs.

    Examples
    --------
    >>> from lpkit.operations import Flatten
    >>> Node("flatten", Flatten(), "pool5").inputs
    ('pool5',)
    """

    name: str
    op: object
    inputs: tuple[str, ...]

    def __post_init__(self):
        inputs = tuple(self.inputs) if isinstance(self.inputs, (tuple, list)) else (self.inputs,)
        object.__setattr__(self, "inputs", inputs)
        for name in (self.name, *inputs):
            if not _is_node_name(name):
                raise ValueError(
                    f"node name is {shown(name)}; it must be printable text without blanks that does not start with #"
                )
        if not isinstance(self.op, OPERATIONS):
            raise ValueError(
                f"node {shown(self.name)} has {shown(self.op)} for its operation; it must be one of "
                + ", ".join(op.__name__ for op in OPERATIONS)
            )
        if not inputs:
            raise ValueError(f"node {shown(self.name)} has no inputs; name the node it reads, or {INPUT!r}")


@dataclass(frozen=True)
class Layer:
    """A layer that costs matrix products: its shapes (channels, height, width) and its place in the network.

    `weights` counts the elements of W without bias. `first_consumer` is the smallest index of a layer that reads this
    layer's output through other nodes (L + 1: none). `shared_input` says that the tensor it reads, followed back to
    the layer or join that made it, is also read by something else, so that its error is a sum of several terms.
    """

    index: int
    name: str
    op: object
    in_shape: tuple[int, int, int]
    out_shape: tuple[int, int, int]
    weights: int
    on_longest_path: bool
    first_consumer: int
    shared_input: bool
    second_shape: tuple[int, ...] = ()  # of the other operand, where a product reads two tensors

    def macs(self, batch=1):
        """Multiply-accumulates of the forward pass of `batch` samples (exact, a Python int).

        Examples
        --------
        >>> from lpkit.builtin import vgg16
        >>> vgg16().layers[0].macs(batch=32)
        2774532096
        """
        return mac_count(self.op, self.in_shape, self.out_shape) * whole_number(batch, "batch")

    @property
    def input_elements(self):
        """Elements of the input of one sample, of both operands where a product reads two tensors."""
        return math.prod(self.in_shape) + (math.prod(self.second_shape) if self.second_shape else 0)

    @property
    def output_elements(self):
        """Elements of the output of one sample."""
        return math.prod(self.out_shape)


@dataclass(frozen=True)
class Network:
    """Nodes in topological order behind an input of shape (channels, height, width); all other shapes are inferred.

    Raises
    ------
    ValueError
        If a node does not fit its inputs, reads an unknown or later node, or bears a name twice; if there are no
        nodes; if a count exceeds int64. The sentence names the node and the numbers.

    Examples
    --------
    >>> from lpkit.operations import Activation, Conv, Flatten, Dense
    >>> network = Network("tiny", (3, 8, 8), (
    ...     Node("conv", Conv(4, 3), "input"),
    ...     Node("relu", Activation(), "conv"),
    ...     Node("flat", Flatten(), "relu"),
    ...     Node("fc", Dense(10), "flat"),
    ... ))
    >>> network.shapes["relu"], network.parameters, network.cut_elements
    ((4, 6, 6), 1562, (144,))
    >>> [(layer.index, layer.name, layer.weights, layer.macs()) for layer in network.layers]
    [(1, 'conv', 108, 3888), (2, 'fc', 1440, 1440)]
    """

    name: str
    input_shape: tuple[int, int, int]
    nodes: tuple[Node, ...]

    def __post_init__(self):
        _check_network_name(self.name)
        object.__setattr__(self, "input_shape", checked_shape(self.input_shape))
        object.__setattr__(self, "nodes", _checked_nodes(self.name, self.nodes))
        self.shapes  # infers, and so checks, every shape

    @cached_property
    def shapes(self):
        """Shape (channels, height, width) of the output of each node, and of "input", per sample."""
        shapes = {INPUT: self.input_shape}
        known = {node.name for node in self.nodes}
        for node in self.nodes:
            shapes[node.name] = node_shape(node, shapes, known)
        return shapes

    @cached_property
    def layers(self):
        """The convolutions, transposed convolutions and dense layers, in file order; empty if there are none."""
        consumers, path, first = _consumers(self.nodes), _longest_path(self.nodes), _first_consumers(self.nodes)
        by_name = {node.name: node for node in self.nodes}
        return tuple(
            Layer(
                index=index,
                name=node.name,
                op=node.op,
                in_shape=self.shapes[node.inputs[0]],
                out_shape=self.shapes[node.name],
                weights=weight_count(node.op, self.shapes[node.inputs[0]]),
                on_longest_path=node.name in path,
                first_consumer=first[node.name],
                shared_input=any(_is_shared(source, by_name, consumers) for source in node.inputs),
                second_shape=self.shapes[node.inputs[1]] if len(set(node.inputs)) > 1 else (),
            )
            for index, node in enumerate(_gemm_nodes(self.nodes), 1)
        )

    @cached_property
    def parameters(self):
        """Weights, biases, and scale and shift of batch normalisations: what the published counts count."""
        return sum(parameter_count(node.op, self.shapes[node.inputs[0]]) for node in self.nodes)

    @cached_property
    def cut_elements(self):
        """Elements per sample of all tensors that cross the cut after layer 1, ..., L - 1, skip tensors included."""
        place, consumers = _places(self.nodes), _consumers(_without_views(self.nodes))
        change = [0] * (len(self.layers) + 2)
        for tensor, readers in consumers.items():
            elements, last = math.prod(self.shapes[tensor]), max(place[reader.name] for reader in readers)
            change[place[tensor]] += elements  # it crosses the cuts place .. last - 1
            change[last] -= elements
        return tuple(accumulate(change))[1 : len(self.layers)]


def node_shape(node, shapes, known=()):
    """Output shape of `node`, given the `shapes` of the nodes before it; `known` are the names in the whole file.

    Parameters
    ----------
    node : Node
    shapes : mapping of str to tuple of int
        Name -> (C, H, W); the network's input is ``"input"``.
    known : sequence of str
        Only for the error: an input that comes later is told from one that is unknown.

    Returns
    -------
    tuple of int
        (C, H, W).

    Raises
    ------
    ValueError
        If the name is taken, an input is unknown or comes later, the operation does not fit its inputs, or the
        elements of its output, its weights or its multiply-accumulates exceed int64.

    Examples
    --------
    >>> from lpkit.operations import Add, Conv
    >>> node_shape(Node("conv1", Conv(64, 3), "input"), {"input": (3, 9, 9)})
    (64, 7, 7)
    >>> node_shape(Node("sum", Add(), ("a", "b")), {"a": (64, 7, 7), "b": (32, 7, 7)})
    Traceback (most recent call last):
    ...
    ValueError: node 'sum': Add needs inputs of one shape, but gets 64x7x7 and 32x7x7
    """
    if node.name in shapes:
        raise ValueError(
            f"node {shown(node.name)} is there twice (or is named {INPUT!r}); give each node a name of its own"
        )
    for source in node.inputs:
        if source not in shapes:
            raise _unknown_input(node, source, shapes, known)
    in_shapes = [shapes[source] for source in node.inputs]
    try:
        shape = output_shape(node.op, *in_shapes)
        _check_counts(node.op, in_shapes[0], shape)
    except ValueError as error:
        raise ValueError(f"node {shown(node.name)}: {error}") from None
    return shape


def _unknown_input(node, source, shapes, known):
    if source in known:
        return ValueError(
            f"node {shown(node.name)} reads {shown(source)}, which does not come before it; "
            "list the nodes so that each comes after all it reads (a cycle is not allowed)"
        )
    return unknown_name(source, f"an input of node {shown(node.name)}", list(shapes))


def _check_counts(op, in_shape, shape):
    counts = {
        "elements in its output": math.prod(shape),
        "weights": weight_count(op, in_shape),
        "multiply-accumulates": mac_count(op, in_shape, shape),
    }
    for what, number in counts.items():
        if number > LARGEST_COUNT:
            raise ValueError(f"it has {number} {what}, more than {LARGEST_COUNT} (int64); use smaller sizes")


def _is_node_name(name):
    return isinstance(name, str) and name.isprintable() and name.split() == [name] and not name.startswith("#")


def _check_network_name(name):
    if not (isinstance(name, str) and name.isprintable() and name.strip() == name and name and "," not in name):
        raise ValueError(f"network name is {shown(name)}; it must be printable text without commas")


def checked_shape(shape):
    """`shape` as Python ints (channels, height, width), or more sides, whose product fits int64.

    Raises
    ------
    ValueError
        If it is not three whole numbers >= 1 or more of them, or too many elements.

    Examples
    --------
    >>> checked_shape([3, 224.0, 224])
    (3, 224, 224)
    """
    if not isinstance(shape, (tuple, list)) or not 3 <= len(shape) <= MOST_SIDES:
        raise ValueError(f"input_shape is {shown(shape)}; it must be three whole numbers (channels, height, width)")
    names = ("channels", "height", "width") if len(shape) == 3 else ("channels", *["side"] * (len(shape) - 1))
    sides = tuple(whole_number(n, f"input {name}") for n, name in zip(shape, names))
    if math.prod(sides) > LARGEST_COUNT:
        raise ValueError(f"input_shape is {sides}, more elements than {LARGEST_COUNT} (int64); use smaller sizes")
    return sides


def _checked_nodes(name, nodes):
    nodes = plain(nodes)
    nodes = tuple(nodes) if isinstance(nodes, Iterable) else (nodes,)
    for node in nodes:
        if not isinstance(node, Node):
            raise ValueError(f"network {shown(name)} holds {shown(node)} for a node; it must be Node(name, op, inputs)")
    if not nodes:
        raise ValueError(f"network {shown(name)} is empty; give it one node or more")
    return nodes


def _gemm_nodes(nodes):
    return (node for node in nodes if isinstance(node.op, GEMM_OPERATIONS))


def _consumers(nodes):
    """The nodes that read each tensor, once an operand; further inputs of the network only hang on the first."""
    consumers = defaultdict(list)
    for node in nodes:
        for source in node.inputs if not is_source(node.op) else ():
            consumers[source].append(node)
    return dict(consumers)


def _without_views(nodes):
    """Nodes that read what views look at, the views themselves left out: a tensor crosses a cut once in any form.

    A view that nothing reads stays: it is an output of the network.
    """
    looks_at, kept = {}, []
    read = {source for node in nodes for source in node.inputs}
    for node in nodes:
        inputs = tuple(looks_at.get(source, source) for source in node.inputs)
        if is_view(node.op) and node.name in read:
            looks_at[node.name] = inputs[0]
        else:
            kept.append(replace(node, inputs=inputs) if inputs != node.inputs else node)
    return kept


def _places(nodes):
    """The layer each node sits with: a layer with itself, any other node with its latest operand; the input with 0."""
    place = {INPUT: 0}
    index = count(1)
    for node in nodes:
        is_layer = isinstance(node.op, GEMM_OPERATIONS)
        place[node.name] = next(index) if is_layer else max(place[source] for source in node.inputs)
    return place


def _first_consumers(nodes):
    """Smallest index of a layer that reads each node, directly or through nodes that are not layers."""
    index = {node.name: i for i, node in enumerate(_gemm_nodes(nodes), 1)}
    first = defaultdict(lambda: len(index) + 1)
    for node in reversed(nodes):
        reader = index.get(node.name, first[node.name])
        for source in node.inputs:
            first[source] = min(first[source], reader)
    return first


def _longest_path(nodes):
    """Names on the path from the input with the most layers; ties go to the earlier operand and the earlier end."""
    length, before = {INPUT: 0}, {}
    for node in nodes:
        before[node.name] = max(node.inputs, key=length.__getitem__)
        length[node.name] = length[before[node.name]] + isinstance(node.op, GEMM_OPERATIONS)
    path, name = set(), max(length, key=length.__getitem__)
    while name != INPUT:
        path.add(name)
        name = before[name]
    return path


def _is_shared(tensor, by_name, consumers):
    """Whether `tensor`, or one it is made of without a layer or a join between, has a second reader."""
    while len(consumers[tensor]) == 1:
        node = by_name.get(tensor)
        if node is None or isinstance(node.op, GEMM_OPERATIONS) or len(node.inputs) > 1:
            return False
        tensor = node.inputs[0]
    return True
