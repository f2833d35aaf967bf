"""An ONNX model as a `Network`: what it multiplies, and how its tensors flow, read without running anything.

Convolutions and matrix products become layers; every other operator stays a node of the graph, so that joins and skips
are kept. The weights are never needed: files beside the model may be missing. Source: the ONNX specification.
"""

import math
from dataclasses import dataclass, field
from pathlib import Path

from lpkit.checks import shown
from lpkit.interop import onnx_ops
from lpkit.interop.building import Builder, missing_work, module_of, report_missing, title_of
from lpkit.interop.lowering import fitting
from lpkit.interop.onnx_model import STANDARD, load_model, onnx_package
from lpkit.interop.onnx_order import free_names
from lpkit.interop.onnx_shapes import bind_inputs, tensor_sizes
from lpkit.networks import Carried

__all__ = ["missing_work", "read_onnx"]

RENAMES = ("Identity", "Dropout", "Cast")  # in training their result is as large as their input, and is made with it
SIZES = ("Shape", "Size")  # what they make does not depend on the numbers in a tensor
FLOATS = (1, 10, 11, 16)  # element types of weights: float, float16, double, bfloat16


def read_onnx(source, *, batch_dimension=0, batch_size=1, dimensions=None, strict=False, name=None):
    """The `Network` of an ONNX model, to be costed and planned as the built-in ones.

    Parameters
    ----------
    source : path or onnx.ModelProto
        A ModelProto is not changed.
    batch_dimension : int or None
        Which dimension of the inputs counts samples; None if none does. All sizes of the result are those of one
        sample.
    batch_size : int
        What a dynamic batch is bound to; the network does not depend on it, unless the model does.
    dimensions : dict, optional
        Sizes of other dynamic dimensions by name, or of an input: ``{"height": 224}``, ``{"x": [1, 3, 224, 224]}``.
    strict : bool
        Whether operators that multiply, but are no layers here, are an error instead of a warning.
    name : str, optional
        Of the network; that of the file or graph if left out.

    Returns
    -------
    Network
        Convolutions of any sides, products with weights (also einsum, quantised) and products of two tensors
        (attention) are layers, named after their weights where these have names of modules. Anything else is carried
        along. Parameters are weights, biases and fixed tensors of more than one number that the other operators read.

    Raises
    ------
    FileNotFoundError, ValueError
        If the file is missing, no model, cut off, newer than the installed onnx, cyclic or untrustworthy; if a dynamic
        dimension is left open, or a size cannot be inferred; and, if `strict`, for work that would be missing.

    Warns
    -----
    UserWarning
        Names the operators whose work is missing, with its share (`missing_work`).

    Examples
    --------
    >>> from onnx import helper
    >>> values = [helper.make_tensor_value_info(n, 1, s) for n, s in (("x", ["N", 3, 8, 8]), ("y", None))]
    >>> conv = helper.make_node("Conv", ["x", "conv.weight"], ["y"], pads=[1, 1, 1, 1])
    >>> weight = helper.make_tensor("conv.weight", 1, [4, 3, 3, 3], [0.0] * 108)
    >>> network = read_onnx(helper.make_model(helper.make_graph([conv], "tiny", values[:1], values[1:], [weight])))
    >>> network.layers[0].name, network.layers[0].out_shape, network.layers[0].macs()
    ('conv', (4, 8, 8), 6912)
    """
    onnx = onnx_package()
    model = load_model(source)
    wanted = name or (model.graph.name if isinstance(source, onnx.ModelProto) else Path(source).stem)
    sample = bind_inputs(model.graph, batch_dimension=batch_dimension, batch_size=batch_size, dimensions=dimensions)
    sizes, types, why = tensor_sizes(model, onnx)
    walk = _Walk(sample, sizes=sizes, types=types, why=why)
    walk.begin([(value.name, value.name, sizes[value.name]) for value in model.graph.input])
    walk.fixed.update({tensor.name: tensor.name for tensor in model.graph.initializer})
    walk.read = {name for node in model.graph.node for name in free_names(node)}
    for node in model.graph.node:
        _add(walk, node)
    network = walk.network(title_of(wanted))
    report_missing(network, strict)
    return network


@dataclass
class _Walk(Builder):
    """What is known of an ONNX graph while its nodes are walked through."""

    sizes: dict = field(default_factory=dict)
    types: dict = field(default_factory=dict)
    why: str = ""  # what onnx says of sizes that contradict each other
    read: set = field(default_factory=set)  # tensors that a node reads


def _add(walk, node):
    """Add the nodes of one operator to the network, or note that it makes fixed or renamed tensors only."""
    reads = free_names(node)
    outputs = [name for name in node.output if name]
    standard = node.domain in STANDARD
    if (standard and node.op_type in SIZES) or all(name in walk.fixed for name in reads):
        origin = next((walk.fixed[name] for name in reads if name in walk.fixed), node.name)
        walk.fixed.update(dict.fromkeys(outputs, origin))
    elif standard and node.op_type in RENAMES and outputs and node.input[0] in walk.node_of:
        walk.node_of[outputs[0]] = walk.node_of[node.input[0]]
        walk.fixed.update(dict.fromkeys(outputs[1:], node.name))  # the mask of a dropout
    elif outputs:
        _lower(walk, node, outputs, [walk.node_of[name] for name in reads if name not in walk.fixed])


def _lower(walk, node, outputs, inputs):
    standard = node.domain in STANDARD
    try:
        call = onnx_ops.Call(node.op_type, [_size_of(walk, name) for name in node.input],
                             [walk.sizes.get(name) for name in node.output],
                             [name in walk.fixed for name in node.input],
                             onnx_ops.attributes(node) if standard else {}, walk.sample)
        if standard and node.op_type in onnx_ops.PRODUCTS and (found := onnx_ops.product(call)):
            op, places = found
            weights = [walk.fixed[name] for name in node.input if name in walk.fixed]
            named = (module_of(name) for name in node.input if name in walk.fixed)  # weights may be made by nodes
            walk.node_of[outputs[0]] = walk.layer(next(filter(None, named), _title(node)), op,
                                                  [node.input[p] for p in places], walk.sizes[outputs[0]], weights)
            return
        if standard and node.op_type == "Attention" and (found := onnx_ops.attention_ops(call)):
            walk.node_of[outputs[0]] = walk.attention(_title(node), found, inputs)
            return
        _carry(walk, node, call, outputs, inputs)
    except ValueError as error:
        raise ValueError(f"node {shown(_title(node))} ({shown(node.op_type)[1:-1]}): {error}") from None


def _size_of(walk, name):
    """Sizes of an input; () for one left out."""
    return walk.sizes.get(name) if name else None


def _carry(walk, node, call, outputs, inputs):
    """A node for each tensor that an operator makes."""
    hidden = onnx_ops.hidden_macs(call, node)
    hidden = None if hidden is None else -(-hidden // walk.sample.batch)
    parameters = _learned(walk, node)
    for number, name in enumerate(outputs):
        shape = _stated(walk, node, name)
        op = onnx_ops.plain_op(call) if node.domain in STANDARD and not hidden and call.ins else None
        fixed_ones = sum(call.fixed)
        known = op and (fixed_ones == 0 or node.op_type == "BatchNormalization") and number == 0
        if not known or not fitting(op, [walk.shapes[name] for name in inputs], shape):
            kind = node.op_type if node.domain in STANDARD else f"{node.domain}.{node.op_type}"
            op = Carried(kind, shape, 0 if number else parameters, 0 if number else hidden)
        title = _title(node) if number == 0 else f"{_title(node)}.{number}"
        walk.node_of[name] = walk.append(title, op, inputs, shape)


def _learned(walk, node):
    """Numbers in the weights that an operator reads, counted where they are first read."""
    new = {name: walk.fixed[name] for name in node.input if name in walk.fixed}
    count = 0
    for name, origin in new.items():
        size = math.prod(walk.sizes.get(name, ()))
        if walk.types.get(name) in FLOATS and size > 1:
            count += walk.learned(origin, size)
    return count


def _stated(walk, node, name):
    """Shape of a tensor for one sample; one that nothing reads may be of unknown size."""
    sizes = walk.sizes.get(name)
    if sizes is not None and 0 not in sizes:
        return walk.sample.shape(sizes)
    if name not in walk.read and not walk.why:
        return (1, 1, 1)
    if sizes is not None:
        raise ValueError(f"tensor {shown(name)} has the sizes {shown(list(sizes))}, and so holds nothing")
    reason = f" ({walk.why})" if walk.why else ""
    raise ValueError(f"the size of tensor {shown(name)} cannot be inferred{reason}; export the model with fixed sizes")


def _title(node):
    return node.name or next(filter(None, node.output), node.op_type)
