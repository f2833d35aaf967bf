"""What a network is made of: operations as plain records, and the shape and size rules of each.

An operation knows nothing of its input; `output_shape` and `weight_count` work that out from the shapes that
reach it, so no size is ever typed twice. A shape is (channels, height, width) of one sample, and an output side is
floor((H + 2p - d(k - 1) - 1) / s) + 1, see Dumoulin & Visin, "A guide to convolution arithmetic", arXiv:1603.07285.
"""

import math
from dataclasses import dataclass

import numpy as np

from lpkit.checks import choice, pair, shown, whole_number
from lpkit.matmul import MatMul
from lpkit.stated import VIEWS, Carried, ConvND

__all__ = [
    "Conv", "ConvTranspose", "Dense", "Pool", "GlobalPool", "Flatten", "BatchNorm", "Activation", "Add", "Concat",
    "Carried", "ConvND", "MatMul", "ACTIVATIONS", "GEMM_OPERATIONS", "JOINS", "OPERATIONS", "STATED", "is_source",
    "is_view", "mac_count", "output_shape", "weight_count", "parameter_count",
]  # fmt: skip

ACTIVATIONS = (
    "relu", "relu6", "leaky_relu", "elu", "gelu", "silu", "hard_swish", "hard_sigmoid", "sigmoid", "tanh",
    "softplus", "softmax", "log_softmax", "identity",
)  # fmt: skip


def _normalise(op, *, numbers=(), pairs=(), paddings=(), flags=()):
    """Check the fields of a frozen operation and store them in one form (ints, pairs of ints, bools)."""
    kind = type(op).__name__
    for field in numbers:
        object.__setattr__(op, field, whole_number(getattr(op, field), f"{kind} {field}"))
    for field in pairs + paddings:
        checked = pair(getattr(op, field), f"{kind} {field}", least=0 if field in paddings else 1)
        object.__setattr__(op, field, checked)
    for field in flags:
        value = getattr(op, field)
        if not isinstance(value, (bool, np.bool_)):
            raise ValueError(f"{kind} {field} is {shown(value)}; it must be True or False")
        object.__setattr__(op, field, bool(value))


@dataclass(frozen=True)
class Conv:
    """A 2-D convolution; sizes are (vertical, horizontal), one number stands for both.

    Raises
    ------
    ValueError
        If a size is not a whole number >= 1 (padding: >= 0), or `groups` does not divide `out_channels`.

    Examples
    --------
    >>> Conv(64, 3, padding=1)
    Conv(out_channels=64, kernel=(3, 3), stride=(1, 1), padding=(1, 1), groups=1, dilation=(1, 1), bias=True)
    """

    out_channels: int
    kernel: tuple[int, int]
    stride: tuple[int, int] = 1
    padding: tuple[int, int] = 0
    groups: int = 1
    dilation: tuple[int, int] = 1
    bias: bool = True

    def __post_init__(self):
        _normalise(
            self,
            numbers=("out_channels", "groups"),
            pairs=("kernel", "stride", "dilation"),
            paddings=("padding",),
            flags=("bias",),
        )
        if self.out_channels % self.groups:
            raise ValueError(
                f"Conv groups is {self.groups}, no divisor of its {self.out_channels} output channels; choose a divisor"
            )


@dataclass(frozen=True)
class ConvTranspose:
    """A transposed 2-D convolution (up-sampling): an output side is (H - 1) s - 2p + k.

    Raises
    ------
    ValueError
        If a size is not a whole number >= 1 (padding: >= 0).

    Examples
    --------
    >>> ConvTranspose(64, 2, stride=2).stride
    (2, 2)
    """

    out_channels: int
    kernel: tuple[int, int]
    stride: tuple[int, int] = 1
    padding: tuple[int, int] = 0
    bias: bool = True

    def __post_init__(self):
        _normalise(self, numbers=("out_channels",), pairs=("kernel", "stride"), paddings=("padding",), flags=("bias",))


@dataclass(frozen=True)
class Dense:
    """A fully connected layer; its input must be flat, (C, 1, 1).

    Examples
    --------
    >>> Dense(10)
    Dense(out_features=10, bias=True)
    """

    out_features: int
    bias: bool = True

    def __post_init__(self):
        _normalise(self, numbers=("out_features",), flags=("bias",))


@dataclass(frozen=True)
class Pool:
    """Max or average pooling; `stride` defaults to `kernel`.

    With `ceil_mode` a last, ragged window counts if it starts inside the input or its leading padding.

    Raises
    ------
    ValueError
        If a size is not a whole number, or the padding is not smaller than the kernel (a window of nothing).

    Examples
    --------
    >>> Pool(2)
    Pool(kernel=(2, 2), stride=(2, 2), padding=(0, 0), kind='max', ceil_mode=False)
    """

    kernel: tuple[int, int]
    stride: tuple[int, int] | None = None
    padding: tuple[int, int] = 0
    kind: str = "max"
    ceil_mode: bool = False

    def __post_init__(self):
        if self.stride is None:
            object.__setattr__(self, "stride", self.kernel)
        _normalise(self, pairs=("kernel", "stride"), paddings=("padding",), flags=("ceil_mode",))
        choice(self.kind, "Pool kind", ("max", "average"))
        if any(p >= k for p, k in zip(self.padding, self.kernel)):
            raise ValueError(
                f"Pool padding is {_by(self.padding)} for a {_by(self.kernel)} kernel; make it smaller than the kernel"
            )


@dataclass(frozen=True)
class GlobalPool:
    """Average over the whole map: (C, H, W) -> (C, 1, 1).

    Examples
    --------
    >>> from lpkit.graph import Network, Node
    >>> Network("small", (3, 8, 8), (Node("a", Conv(4, 3), ("input",)), Node("b", GlobalPool(), ("a",)))).shapes["b"]
    (4, 1, 1)
    """


@dataclass(frozen=True)
class Flatten:
    """(C, H, W) -> (C H W, 1, 1), as `Dense` needs it.

    Examples
    --------
    >>> from lpkit.graph import Network, Node
    >>> Network("small", (3, 8, 8), (Node("a", Conv(4, 3), ("input",)), Node("b", Flatten(), ("a",)))).shapes["b"]
    (144, 1, 1)
    """


@dataclass(frozen=True)
class BatchNorm:
    """Batch normalisation; its parameters are one scale and one shift a channel.

    Examples
    --------
    >>> from lpkit.graph import Network, Node
    >>> Network("small", (3, 8, 8), (Node("a", BatchNorm(), ("input",)),)).parameters
    6
    """


@dataclass(frozen=True)
class Activation:
    """An element-wise non-linearity, one of `ACTIVATIONS`.

    Examples
    --------
    >>> Activation("tanh")
    Activation(kind='tanh')
    """

    kind: str = "relu"

    def __post_init__(self):
        choice(self.kind, "Activation kind", ACTIVATIONS)


@dataclass(frozen=True)
class Add:
    """The sum of two or more tensors of one shape (a residual connection).

    Examples
    --------
    >>> from lpkit.graph import Network, Node
    >>> Network("small", (3, 8, 8), (Node("a", Conv(4, 3), ("input",)), Node("b", Add(), ("a", "a")))).shapes["b"]
    (4, 6, 6)
    """


@dataclass(frozen=True)
class Concat:
    """Two or more tensors of one height and width, stacked along the channels.

    Examples
    --------
    >>> from lpkit.graph import Network, Node
    >>> Network("small", (3, 8, 8), (Node("a", Conv(4, 3), ("input",)), Node("b", Concat(), ("a", "a")))).shapes["b"]
    (8, 6, 6)
    """


GEMM_OPERATIONS = (Conv, ConvTranspose, Dense, ConvND, MatMul)  # the layers that cost: each is a matrix product
JOINS = (Add, Concat)
STATED = (ConvND, MatMul, Carried)  # they state what they make; a model file knows it
OPERATIONS = (Conv, ConvTranspose, Dense, Pool, GlobalPool, Flatten, BatchNorm, Activation, *JOINS, *STATED)


def output_shape(op, *shapes):
    """Shape (channels, height, width) that `op` makes of one sample whose inputs have `shapes`.

    Raises
    ------
    ValueError
        If the operation does not fit the shapes; the sentence holds the numbers.

    Examples
    --------
    >>> output_shape(Conv(64, 7, stride=2, padding=3), (3, 224, 224))
    (64, 112, 112)
    >>> output_shape(Concat(), (64, 28, 28), (32, 28, 28))
    (96, 28, 28)
    """
    _check_count(op, shapes)
    if isinstance(op, STATED):
        return _stated_shape(op, shapes)
    channels, *sides = shapes[0]
    if len(sides) != 2 and not isinstance(op, (Activation, Add, Concat, BatchNorm, Flatten)):
        raise ValueError(f"{type(op).__name__} takes (channels, height, width), but gets {_by(shapes[0])}")
    match op:
        case Conv():
            return _conv_shape(op, channels, sides)
        case ConvTranspose():
            return _conv_transpose_shape(op, sides)
        case Dense():
            if sides != [1, 1]:
                raise ValueError(f"Dense needs a flat input, but gets {_by(shapes[0])}; put a Flatten before it")
            return (op.out_features, 1, 1)
        case Pool():
            return (channels, *_windows(op, sides, op.kernel))
        case GlobalPool():
            return (channels, 1, 1)
        case Flatten():
            return (math.prod(shapes[0]), 1, 1)
        case Concat():
            _check_equal("Concat", "height and width", shapes, [s[1:] for s in shapes])
            return (sum(s[0] for s in shapes), *sides)
        case Add():
            _check_equal("Add", "shape", shapes, shapes)
    return tuple(shapes[0])


def weight_count(op, in_shape):
    """Elements of the filter or weight matrix W of `op`, without bias; 0 if it has none.

    Examples
    --------
    >>> weight_count(Conv(64, 3, groups=32), (32, 112, 112))
    576
    """
    match op:
        case Conv():
            return op.out_channels * (in_shape[0] // op.groups) * math.prod(op.kernel)
        case ConvTranspose():
            return in_shape[0] * op.out_channels * math.prod(op.kernel)
        case Dense():
            return in_shape[0] * op.out_features
        case ConvND():
            return op.weight_count
        case MatMul(weights=True):
            return op.count * op.K * op.N
    return 0


def mac_count(op, in_shape, out_shape):
    """Multiply-accumulates of the forward pass of `op` on one sample; 0 if it is no matrix product.

    Each weight meets every pixel of the output once; in a transposed convolution, every pixel of the input.

    Parameters
    ----------
    op
        One of the operations of this module.
    in_shape, out_shape : tuple of int
        (C, H, W) of its input and output.

    Examples
    --------
    >>> mac_count(Conv(64, 3), (32, 9, 9), (64, 7, 7))
    903168
    """
    if isinstance(op, (ConvND, MatMul)):
        return op.macs
    pixels = in_shape if isinstance(op, ConvTranspose) else out_shape
    return weight_count(op, in_shape) * math.prod(pixels[1:])


def is_view(op):
    """Whether `op` makes no tensor of its own, but looks at its input in another form.

    Examples
    --------
    >>> is_view(Flatten()), is_view(Carried("Transpose", (8, 4, 1))), is_view(Activation())
    (True, True, False)
    """
    return isinstance(op, Flatten) or (isinstance(op, Carried) and op.kind in VIEWS)


def is_source(op):
    """Whether `op` stands for a further input of a network, which hangs on the first without reading it.

    Examples
    --------
    >>> is_source(Carried("Input", (128, 1, 1)))
    True
    """
    return isinstance(op, Carried) and op.kind == "Input"


def parameter_count(op, in_shape):
    """What the published counts count: weights, biases, and scale and shift of a batch normalisation.

    Examples
    --------
    >>> parameter_count(Dense(1000), (4096, 1, 1)), parameter_count(BatchNorm(), (64, 56, 56))
    (4097000, 128)
    """
    if isinstance(op, BatchNorm):
        return 2 * in_shape[0]
    if isinstance(op, Carried):
        return op.parameters
    if isinstance(op, MatMul):
        return weight_count(op, in_shape) + op.count * op.N * op.bias
    outputs = op.out_features if isinstance(op, Dense) else getattr(op, "out_channels", 0)
    return weight_count(op, in_shape) + outputs * getattr(op, "bias", False)


def _by(numbers):
    return "x".join(map(str, numbers))


def _stated_shape(op, shapes):
    if isinstance(op, ConvND) and math.prod(shapes[0]) != op.channels * math.prod(op.sides):
        raise ValueError(f"ConvND takes {_by((op.channels, *op.sides))}, but gets {_by(shapes[0])}")
    return op.shape


def _check_count(op, shapes):
    if isinstance(op, Carried):
        return
    if isinstance(op, MatMul) and not op.weights:
        if len(shapes) != 2:
            raise ValueError(f"MatMul without weights takes exactly two inputs, but has {len(shapes)}")
        return
    joins = isinstance(op, JOINS)
    if len(shapes) < 2 if joins else len(shapes) != 1:
        allowed = "two or more" if joins else "exactly one"
        raise ValueError(f"{type(op).__name__} takes {allowed} input{'s' * joins}, but has {len(shapes)}")


def _check_equal(kind, what, shapes, compared):
    if len(set(map(tuple, compared))) > 1:
        different = list(map(_by, dict.fromkeys(shapes)))
        more = f" and {len(different) - 4} more" if len(different) > 4 else ""
        raise ValueError(f"{kind} needs inputs of one {what}, but gets {' and '.join(different[:4])}{more}")


def _conv_shape(op, channels, sides):
    if channels % op.groups:
        raise ValueError(f"groups is {op.groups}, no divisor of the {channels} input channels; choose a divisor")
    span = tuple(d * (k - 1) + 1 for d, k in zip(op.dilation, op.kernel))
    return (op.out_channels, *_windows(op, sides, span))


def _conv_transpose_shape(op, sides):
    out = tuple((h - 1) * s - 2 * p + k for h, s, p, k in zip(sides, op.stride, op.padding, op.kernel))
    if min(out) < 1:
        raise ValueError(f"padding {_by(op.padding)} leaves an output of {_by(out)} from {_by(sides)}; pad less")
    return (op.out_channels, *out)


def _windows(op, sides, span):
    """How many windows of `span` fit into the padded input, down and across."""
    padded = tuple(h + 2 * p for h, p in zip(sides, op.padding))
    if any(k > h for k, h in zip(span, padded)):
        raise ValueError(
            f"the filter spans {_by(span)}, more than the {_by(sides)} input padded to {_by(padded)}; "
            "use a larger input, more padding or a smaller filter"
        )
    steps = [divmod(h - k, s) for h, k, s in zip(padded, span, op.stride)]
    ragged = [_ragged(op, sides[i], i, *steps[i]) for i in range(2)]
    return tuple(whole + 1 + extra for (whole, _), extra in zip(steps, ragged))


def _ragged(op, side, axis, whole, rest):
    """1 if pooling with `ceil_mode` adds a last, incomplete window, else 0."""
    starts = (whole + 1) * op.stride[axis]
    return int(getattr(op, "ceil_mode", False) and rest > 0 and starts < side + op.padding[axis])
