"""PyTorch operators as operations of a network: those that are matrix products, and those a network knows by name.

Everything here works on sizes and options only. Source: the ATen operator schemas.
"""

import math

from lpkit.interop.lowering import attention_products, conv_op, conv_transpose_op, einsum_op, matmul_op
from lpkit.interop.torch_steps import Ref
from lpkit.networks import Activation, Add, BatchNorm, Concat, GlobalPool, Pool

__all__ = ["VIEWS", "hidden_macs", "is_rename", "plain_op", "product", "tensors"]

RENAMES = ("alias", "clone", "contiguous", "detach", "dropout", "feature_dropout", "lift_fresh", "lift_fresh_copy",
           "native_dropout", "to", "_to_copy", "type_as")  # in training as large, and made with their input
VIEWS = {"view": "Reshape", "reshape": "Reshape", "_unsafe_view": "Reshape", "unflatten": "Reshape",
         "flatten": "Flatten", "permute": "Transpose", "transpose": "Transpose", "t": "Transpose", "mT": "Transpose",
         "numpy_T": "Transpose", "squeeze": "Squeeze", "unsqueeze": "Unsqueeze"}
ACTIVATIONS = {name: name for name in ("relu", "relu6", "leaky_relu", "elu", "gelu", "silu", "sigmoid", "tanh",
                                       "softplus", "softmax", "log_softmax")}
ACTIVATIONS |= {"hardswish": "hard_swish", "hardsigmoid": "hard_sigmoid", "_softmax": "softmax",
                "_safe_softmax": "softmax", "_log_softmax": "log_softmax", "hardtanh": "relu6"}
PRODUCTS = {"matmul": ("self", "other"), "mm": ("self", "mat2"), "bmm": ("self", "mat2"), "mv": ("self", "vec"),
            "dot": ("self", "tensor"), "addmm": ("mat1", "mat2"), "baddbmm": ("batch1", "batch2")}
RECURRENT = ("lstm", "gru", "rnn_tanh", "rnn_relu", "quantized_lstm", "mkldnn_rnn_layer", "_thnn_fused_lstm_cell")
HEAVY = ("addbmm", "addmv", "addr", "ger", "outer_product", "bilinear", "_trilinear", "deform_conv2d", "cdist",
         "linalg_multi_dot", "chain_matmul", "_native_multi_head_attention", "_transformer_encoder_layer_fwd")


def tensors(value):
    """Each `Ref` among arguments, in order.

    Examples
    --------
    >>> [ref.key for ref in tensors({"tensors": [Ref("a", (1,), True), Ref("b", (1,), True)], "dim": 1})]
    ['a', 'b']
    """
    if isinstance(value, Ref):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [ref for part in parts for ref in tensors(part)]


def is_rename(step):
    """Whether a step makes no tensor of its own: a copy, a dropout, or an expansion to the size it has."""
    if step.kind == "expand":
        return step.results[0].dims == tensors(step.arguments)[0].dims
    return step.known and step.kind in RENAMES


def product(step, fixed, sample):
    """The operation of a matrix product (for attention, its two) and the tensors it reads, or None.

    Raises
    ------
    ValueError
        If the batch of the sample cannot be taken out.
    """
    given = step.arguments
    if not step.known:
        return None
    if step.kind == "linear":
        weight = given["weight"]
        return _matmul(given["input"], weight, weight.dims[::-1], fixed, step, sample, given.get("bias") is not None)
    if step.kind in PRODUCTS:
        left, right = (given[name] for name in PRODUCTS[step.kind])
        bias = step.kind in ("addmm", "baddbmm") and given["self"].key in fixed
        return _matmul(left, right, right.dims, fixed, step, sample, bias)
    if step.kind == "einsum" and len(given["tensors"]) == 2:
        return _einsum(given["equation"], *given["tensors"], fixed, step, sample)
    if "scaled_dot_product" in step.kind:
        refs = [given[name] for name in ("query", "key", "value")]
        mask = given.get("attn_mask") or given.get("attn_bias")
        others = [mask] if isinstance(mask, Ref) and mask.key not in fixed else []
        if any(ref.key in fixed for ref in refs):
            return None
        return attention_products(*(ref.dims for ref in refs), step.results[0].dims, sample), refs + others
    return _convolution(step, fixed, sample) if _is_convolution(step.kind) else None


def _is_convolution(kind):
    return kind in ("convolution", "_convolution") or (kind.startswith("conv") and kind[4:5] in "123_")


def _matmul(left, right, right_dims, fixed, step, sample, bias):
    sides = [side for side, ref in (("left", left), ("right", right)) if ref.key in fixed]
    if len(sides) == 2:
        return None
    op = matmul_op(left.dims, right_dims, step.results[0].dims, weights=sides[0] if sides else None, sample=sample,
                   bias=bias and bool(sides))
    return op, [ref for ref in (left, right) if ref.key not in fixed]


def _einsum(equation, left, right, fixed, step, sample):
    weights = "left" if left.key in fixed else "right" if right.key in fixed else None
    op = einsum_op(equation, left.dims, right.dims, step.results[0].dims, weights=weights, sample=sample)
    return op and (op, [ref for ref in (left, right) if ref.key not in fixed])


def _convolution(step, fixed, sample):
    given = step.arguments
    data, weight = given["input"], given["weight"]
    if weight.key not in fixed or data.key in fixed:
        return None
    n = len(weight.dims) - 2
    lone = len(data.dims) == n + 1  # one image without a batch before it
    dims, output = (((1, *d) if lone else d) for d in (data.dims, step.results[0].dims))
    sizes = {name: _each(given.get(name), n, 1) for name in ("stride", "dilation")}
    before, after = _padding(given.get("padding", 0), n, weight.dims, sizes)
    shared = {**sizes, "before": before, "groups": given.get("groups", 1), "bias": given.get("bias") is not None,
              "sample": sample}
    if given.get("transposed") or step.kind.startswith("conv_transpose"):
        return conv_transpose_op(dims, weight.dims, output[2:], **shared), [data]
    return conv_op(dims, weight.dims, after=after, **shared), [data]


def _each(value, n, default):
    values = value if isinstance(value, (list, tuple)) and value else [default if value in (None, []) else value]
    return tuple(values) * n if len(values) == 1 else tuple(values)


def _padding(padding, n, weight, sizes):
    if padding == "valid":
        padding = 0
    if padding == "same":
        total = [d * (k - 1) for d, k in zip(sizes["dilation"], weight[2:])]
        return tuple(t // 2 for t in total), tuple(t - t // 2 for t in total)
    return (_each(padding, n, 0),) * 2


def plain_op(step):
    """The operation of that meaning that a network knows by name, or None; whether it fits is seen from its shape."""
    given = step.arguments
    if step.kind in ACTIVATIONS:
        return Activation(ACTIVATIONS[step.kind])
    if step.kind in ("max_pool2d", "max_pool2d_with_indices", "avg_pool2d"):
        return _pool("max" if step.kind.startswith("max") else "average", given)
    named = {"batch_norm": BatchNorm, "native_batch_norm": BatchNorm, "_native_batch_norm_legit_no_training": BatchNorm,
             "cudnn_batch_norm": BatchNorm, "add": Add, "cat": Concat, "concat": Concat, "mean": GlobalPool,
             "adaptive_avg_pool2d": GlobalPool, "_adaptive_avg_pool2d": GlobalPool}
    return named[step.kind]() if step.kind in named else None


def _pool(kind, given):
    pads = _each(given.get("padding", 0), 2, 0)
    counts_padding = kind == "average" and given.get("count_include_pad", True) and any(pads)
    if _each(given.get("dilation", 1), 2, 1) != (1, 1) or counts_padding:
        return None
    kernel = _each(given["kernel_size"], 2, 1)
    stride = _each(given["stride"], 2, 1) if given.get("stride") else kernel
    try:
        return Pool(kernel, stride, pads, kind, bool(given.get("ceil_mode", False)))
    except ValueError:
        return None


def hidden_macs(step):
    """Multiply-accumulates, for the whole batch, of an operator that is no layer here; None if nobody knows."""
    if not step.known or step.kind in HEAVY or step.kind in PRODUCTS or "scaled_dot_product" in step.kind:
        return None
    if step.kind in RECURRENT:
        return _recurrent_macs(step)
    if _is_convolution(step.kind):
        weight, made = step.arguments["weight"].dims, step.results[0].dims
        return made[0] * math.prod(weight) * math.prod(made[2:])
    if step.kind == "einsum" and len(step.arguments["tensors"]) > 2:
        return None
    return 0


def _recurrent_macs(step):
    """Each matrix of a recurrent operator meets every step of every sample once."""
    read = tensors(step.arguments)
    matrices = sum(math.prod(ref.dims) for ref in tensors(step.arguments.get("params", [])) if len(ref.dims) == 2)
    return math.prod(read[0].dims[:2]) * matrices if matrices else None
