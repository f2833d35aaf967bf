"""ONNX operators as operations of a network: those that are matrix products, and those a network knows by name.

Everything here works on sizes and attributes only. Source: the ONNX operator specifications.
"""

import math
from collections import namedtuple

from lpkit.checks import shown
from lpkit.interop.lowering import attention_products, conv_op, conv_transpose_op, einsum_op, matmul_op
from lpkit.interop.onnx_model import STANDARD
from lpkit.interop.onnx_order import child_graphs
from lpkit.networks import Activation, Add, BatchNorm, Concat, Flatten, GlobalPool, Pool

__all__ = ["PRODUCTS", "Call", "attention_ops", "attributes", "hidden_macs", "plain_op", "product"]

# A node with all that is known of it: the sizes of its inputs and outputs (None where unknown), which inputs are fixed
# (weights and what is made of them alone), its attributes, and where the samples are.
Call = namedtuple("Call", "kind ins outs fixed options sample")

# Which inputs are the data and the filters; quantised forms put scales between them.
OPERANDS = {"Conv": (0, 1), "ConvInteger": (0, 1), "QLinearConv": (0, 3), "ConvTranspose": (0, 1), "Gemm": (0, 1),
            "MatMul": (0, 1), "MatMulInteger": (0, 1), "QLinearMatMul": (0, 3), "Einsum": (0, 1)}
BIASES = {"Conv": 2, "QLinearConv": 8, "ConvTranspose": 2, "Gemm": 2}
PRODUCTS = tuple(OPERANDS)
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
ACTIVATIONS = {"Relu": "relu", "LeakyRelu": "leaky_relu", "Elu": "elu", "Gelu": "gelu", "HardSwish": "hard_swish",
               "HardSigmoid": "hard_sigmoid", "Sigmoid": "sigmoid", "Tanh": "tanh", "Softplus": "softplus",
               "Softmax": "softmax", "LogSoftmax": "log_softmax", "Swish": "silu"}
# What the attributes that are read hold; a damaged file may say otherwise.
KINDS = {**dict.fromkeys(("auto_pad", "equation"), (str, "text")),
         **dict.fromkeys(("dilations", "kernel_shape", "output_padding", "output_shape", "pads", "strides"),
                         (tuple, "whole numbers")),
         **dict.fromkeys(("ceil_mode", "count_include_pad", "group", "kv_num_heads", "q_num_heads", "transA", "transB"),
                         (int, "a whole number"))}  # fmt: skip
UNKNOWN_COST = ("DFT", "STFT", "Det")  # they multiply a lot, but not as a product of these kinds


def attributes(node):
    """{name: value} of the attributes that are whole numbers or text.

    Raises
    ------
    ValueError
        If one of a known name is of another kind.

    Examples
    --------
    >>> from onnx import helper
    >>> attributes(helper.make_node("Conv", ["x", "w"], ["y"], strides=[2, 2], auto_pad="SAME_UPPER"))["strides"]
    (2, 2)
    """
    found = {}
    for a in node.attribute:
        if a.ints:
            found[a.name] = tuple(a.ints)
        elif a.HasField("i"):
            found[a.name] = a.i
        elif a.HasField("s"):
            found[a.name] = a.s.decode("utf-8", "replace")
    for name in sorted(found.keys() & KINDS.keys()):
        kind, what = KINDS[name]
        if not isinstance(found[name], kind):
            raise ValueError(f"its attribute {name} is {shown(found[name])}; it must be {what}")
    return found


def product(call):
    """The operation of a matrix product and the places of the inputs it reads, or None if the node is none.

    Raises
    ------
    ValueError
        If sizes and attributes contradict each other.
    """
    data, filters = OPERANDS[call.kind]
    if len(call.ins) <= max(data, filters) or call.outs[0] is None:
        return None
    left, right = call.ins[data], call.ins[filters]
    if left is None or right is None or (call.fixed[data] and call.fixed[filters]):
        return None
    if "Conv" in call.kind:
        return _convolution(call, left, right, data, filters)
    if call.kind == "Einsum" and len(call.ins) != 2:
        return None
    if call.kind == "Gemm":
        left, right = (dims[::-1] if call.options.get(name) else dims for dims, name in ((left, "transA"),
                                                                                        (right, "transB")))
    weights = "left" if call.fixed[data] else "right" if call.fixed[filters] else None
    if call.kind == "Einsum":
        op = einsum_op(call.options.get("equation", ""), left, right, call.outs[0], weights=weights, sample=call.sample)
    else:
        bias = _biased(call) and weights is not None and call.fixed[BIASES[call.kind]]
        op = matmul_op(left, right, call.outs[0], weights=weights, sample=call.sample, bias=bias)
    return op and (op, [place for place in (data, filters) if not call.fixed[place]])


def _biased(call):
    place = BIASES.get(call.kind)
    return place is not None and len(call.ins) > place and call.ins[place] is not None


def _convolution(call, dims, weight, data, filters):
    if call.fixed[data] or not call.fixed[filters]:
        return None  # filters that are computed themselves
    n = len(dims) - 2
    if n < 1 or len(weight) != n + 2 or len(call.outs[0]) != n + 2:
        raise ValueError(f"its input, filter and output have {len(dims)}, {len(weight)} and {len(call.outs[0])} "
                         "dimensions; they must be as many")
    sizes = {name: call.options.get(key, (1,) * n) for name, key in (("stride", "strides"), ("dilation", "dilations"))}
    groups = call.options.get("group", 1)
    if any(len(v) != n or min(v) < 1 for v in sizes.values()) or groups < 1:
        raise ValueError(f"its strides, dilations and group are {sizes['stride']}, {sizes['dilation']} and {groups}; "
                         f"it needs {n} of each, from 1")
    if dims[1] != (weight[0] if call.kind == "ConvTranspose" else weight[1] * groups):
        raise ValueError(f"its filters of sizes {weight} in {groups} groups do not fit an input of {dims[1]} channels")
    pads = _pads(call, dims, weight, sizes, n)
    shared = {**sizes, "groups": groups, "bias": _biased(call), "sample": call.sample, "before": pads[:n]}
    if call.kind == "ConvTranspose":
        return conv_transpose_op(dims, weight, call.outs[0][2:], **shared), [data]
    return conv_op(dims, weight, after=pads[n:], **shared), [data]


def _pads(call, dims, weight, sizes, n):
    """Padding before and after each side; what auto_pad asks for follows from the sides of the output."""
    mode = call.options.get("auto_pad", "NOTSET")
    transposed = call.kind == "ConvTranspose"
    if not mode.startswith("SAME") and not (transposed and "output_shape" in call.options):
        pads = call.options.get("pads", (0,) * 2 * n) if mode == "NOTSET" else (0,) * 2 * n
        if len(pads) != 2 * n:
            raise ValueError(f"its pads are {pads}; it needs {2 * n}")
        return pads
    sides = (call.outs[0][2:], dims[2:]) if transposed else (dims[2:], call.outs[0][2:])
    extra = call.options.get("output_padding", (0,) * n) if transposed else (0,) * n
    total = [max(0, (e - 1) * s + d * (k - 1) + 1 + x - h) for h, e, s, d, k, x in
             zip(*sides, sizes["stride"], sizes["dilation"], weight[2:], extra)]
    smaller, larger = [t // 2 for t in total], [t - t // 2 for t in total]
    return tuple(smaller + larger if mode == "SAME_UPPER" else larger + smaller)


def plain_op(call):
    """The operation of that meaning that a network knows by name, or None; whether it fits is seen from its shape."""
    options, n = call.options, len(call.ins[0] or ()) - 2
    if call.kind in ACTIVATIONS:
        return Activation(ACTIVATIONS[call.kind])
    if call.kind in ("MaxPool", "AveragePool") and n == 2:
        return _pool("max" if call.kind == "MaxPool" else "average", options)
    named = {"BatchNormalization": BatchNorm, "GlobalAveragePool": GlobalPool, "Flatten": Flatten, "Add": Add,
             "Sum": Add, "Concat": Concat}
    return named[call.kind]() if call.kind in named else None


def _pool(kind, options, none=(0, 0, 0, 0)):
    pads, dilations = options.get("pads", none), options.get("dilations", (1, 1))
    kernel = options.get("kernel_shape", ())
    if len(kernel) != 2 or pads[:2] != pads[2:] or dilations != (1, 1) or options.get("auto_pad", "NOTSET") != "NOTSET":
        return None
    if options.get("count_include_pad") and any(pads):
        return None
    try:
        return Pool(kernel, options.get("strides", (1, 1)), pads[:2], kind, bool(options.get("ceil_mode", 0)))
    except ValueError:
        return None


def hidden_macs(call, node):
    """Multiply-accumulates, for the whole batch, of an operator that is not a layer here; None if nobody knows."""
    if node.domain not in STANDARD or call.kind in UNKNOWN_COST:
        return None
    if call.kind in GATES and len(call.ins) > 2 and None not in call.ins[:3]:
        steps = math.prod(call.ins[0][:2])
        return steps * (math.prod(call.ins[1]) + math.prod(call.ins[2]))
    if call.kind in ("DeformConv", "Conv", "ConvTranspose") and len(call.ins) > 1 and None not in call.ins[:2]:
        pixels = call.ins[0] if call.kind == "ConvTranspose" else call.outs[0]
        return None if pixels is None else pixels[0] * math.prod(call.ins[1]) * math.prod(pixels[2:])
    if call.kind == "Einsum":
        return _einsum_macs(call)
    if call.kind in PRODUCTS or call.kind in GATES or any(_heavy(graph) for graph in child_graphs(node)):
        return None
    return 0


def _heavy(graph):
    return any(node.op_type in (*PRODUCTS, *GATES, "DeformConv", "Attention") or node.domain not in STANDARD
               or any(map(_heavy, child_graphs(node))) for node in graph.node)


def _einsum_macs(call):
    """Of an Einsum: none if it sums over nothing that two operands share; else as if all were multiplied at once."""
    terms = call.options.get("equation", "").replace(" ", "").split("->")[0].split(",")
    if len(terms) < 2:
        return 0
    if len(terms) != len(call.ins) or None in call.ins or "." in "".join(terms):
        return None
    sizes = {label: n for term, dims in zip(terms, call.ins) for label, n in zip(term, dims)}
    kept = call.options.get("equation", "").replace(" ", "").partition("->")[2]
    shared = {label for label in sizes if sum(label in term for term in terms) > 1 and label not in kept}
    return math.prod(sizes.values()) if shared else 0


def attention_ops(call):
    """The two products of an Attention operator.

    None if its heads are not to be told from its sizes.
    """
    query, key, value = call.ins[:3]
    if None in (query, key, value) or len({len(query), len(key), len(value)}) > 1 or len(query) not in (3, 4):
        return None
    heads = query[1] if len(query) == 4 else call.options.get("q_num_heads", 0)
    of_keys = key[1] if len(query) == 4 else call.options.get("kv_num_heads", heads)
    if min(heads, of_keys) < 1 or (len(query) == 3 and (query[2] % heads or value[2] % of_keys)):
        return None
    dims = [(d[0], n, d[1], d[2] // n) if len(d) == 3 else d for d, n in zip(call.ins, (heads, of_keys, of_keys))]
    return attention_products(*dims, call.outs[0], call.sample)
