"""A layer as matrix products: which Gemms its F, G and delta are, with every way to compute a strided delta.

Sources: im2col lowering as in SCALE-Sim's topologies; Dumoulin and Visin, "A guide to convolution arithmetic",
arXiv:1603.07285, for strided gradients; LayerPipe (ICCAD 2021), section IV, for the three operations.
"""

import math
from collections import namedtuple
from dataclasses import dataclass
from itertools import product

from lpkit.checks import choice, shown, whole_number
from lpkit.networks import Conv, ConvND, ConvTranspose, Dense, MatMul

__all__ = ["BATCHINGS", "DELTAS", "G_FORMS", "OPS", "Gemm", "Shape", "conv_shape", "gemm_rows", "gemms", "repeats",
           "useful_macs"]

OPS = ("F", "G", "delta")
DELTAS = ("col2im", "zero_insert", "phases")
G_FORMS = ("a", "b")
BATCHINGS = ("folded", "per_image")

LARGEST = 2**62  # of one dimension of a product


@dataclass(frozen=True)
class Gemm:
    """`count` matrix products out[M, N] = in[M, K] x filt[K, N], run one after the other (groups, images).

    Examples
    --------
    >>> Gemm(3025, 363, 96).macs
    105415200
    """

    M: int
    K: int
    N: int
    count: int = 1

    def __post_init__(self):
        for name in ("M", "K", "N", "count"):
            object.__setattr__(self, name, whole_number(getattr(self, name), name, most=LARGEST))

    @property
    def macs(self):
        """Multiplications, those by inserted or padded zeros included."""
        return self.M * self.K * self.N * self.count


# A convolution seen from above: channels per group, sizes as (vertical, horizontal) pairs, or of as many sides as it
# has. Dense is 1x1 on one pixel. `after` is the padding behind, where it is not that before.
Shape = namedtuple("Shape", "groups C N kernel stride padding dilation input output after", defaults=(None,))


def conv_shape(layer):
    """The `Shape` of a layer (a `Shape` stands for itself), and whether F and delta exchange roles (ConvTranspose).

    Raises
    ------
    ValueError
        If the layer is no matrix product.

    Examples
    --------
    >>> from lpkit.networks import sample4
    >>> shape, swapped = conv_shape(sample4().layers[0])
    >>> shape.kernel, shape.output, swapped
    ((5, 5), (112, 112), False)
    """
    if isinstance(layer, Shape):
        return layer, False
    op = layer.op
    if stated := _stated(op):
        return stated
    (C, H, W), (N, E_h, E_w) = layer.in_shape, layer.out_shape
    if isinstance(op, Conv):
        return Shape(op.groups, C // op.groups, N // op.groups, op.kernel, op.stride, op.padding, op.dilation,
                     (H, W), (E_h, E_w)), False
    if isinstance(op, ConvTranspose):
        return Shape(1, N, C, op.kernel, op.stride, op.padding, (1, 1), (E_h, E_w), (H, W)), True
    if isinstance(op, Dense):
        one = (1, 1)
        return Shape(1, C * H * W, N * E_h * E_w, one, one, (0, 0), one, one, one), False
    raise ValueError(f"layer {shown(layer.name)} is a {type(op).__name__}; only Conv, ConvTranspose and Dense are "
                     "Gemms, and ConvND and MatMul of model files")


def _stated(op):
    """The `Shape` of a ConvND, or of a MatMul as a 1x1 convolution on its positions, if `op` is one of them."""
    if isinstance(op, MatMul):
        return Shape(op.count, op.K, op.N, (1, 1), (1, 1), (0, 0), (1, 1), (op.M, 1), (op.M, 1)), False
    if not isinstance(op, ConvND):
        return None
    ends, channels = (op.sides, op.output), (op.channels // op.groups, op.out_channels // op.groups)
    if op.transposed:
        ends, channels = ends[::-1], channels[::-1]
    return Shape(op.groups, *channels, op.kernel, op.stride, op.before, op.dilation, *ends, op.after), op.transposed


def repeats(layer):
    """Whether each sample of a batch is a product of its own, as where both operands are computed.

    Examples
    --------
    >>> from lpkit.networks import sample4
    >>> repeats(sample4().layers[0])
    False
    """
    return isinstance(getattr(layer, "op", None), MatMul) and not layer.op.weights


def gemms(layer, op, *, batch=1, delta="col2im", G="a", batching="folded"):
    """The matrix products of F, G or delta of a layer.

    Per group, with E the output pixels, k the kernel, C and N channels per group, B the batch:

    ============================  =====================  =========  =========
    op                            M                      K          N
    ============================  =====================  =========  =========
    F                             B E_h E_w              k_h k_w C  N
    G form a (b: the transpose)   k_h k_w C              B E_h E_w  N
    delta col2im                  B E_h E_w              N          k_h k_w C
    delta zero_insert             B H W                  k_h k_w N  C
    delta phases (see below)      B pixels of the phase  k_taps N   C
    ============================  =====================  =========  =========

    ``col2im`` leaves the scatter-add to a vector unit; ``zero_insert`` convolves the gradient spread out with zeros;
    ``phases`` takes the s_h s_w sub-grids of the input apart, so that no inserted zero is multiplied:
    a Gemm for each number of pixels and taps that occurs, its count the sub-grids that have them.
    Dense is a 1x1 convolution on one pixel, for which the three agree. A ConvTranspose is the mirror of a Conv: its F
    is that Conv's delta (in the form `delta`), its delta that Conv's F, its G that Conv's G.
    A MatMul with weights is a 1x1 convolution on its M positions. Of a MatMul of two computed tensors, delta is the
    error of the first (M x N times N x K) and of the second (K x M times M x N), G is nothing, and each sample has
    products of its own.

    Parameters
    ----------
    layer : lpkit.networks.Layer or Shape
    op : {"F", "G", "delta"}
    batch : int
        Samples.
    batching : {"folded", "per_image"}
        The batch inside M (F, delta) or K (G), or one Gemm an image, repeated.

    Returns
    -------
    tuple of Gemm
        Several for ``phases`` and for delta of a product of two tensors, none for its G.

    Raises
    ------
    ValueError
        For an unknown choice, a batch that is not a whole number, a layer without a matrix product, or a dimension
        above 2**62.

    Notes
    -----
    Strided gradients as transposed and dilated convolutions: Dumoulin and Visin, arXiv 1603.07285.

    Examples
    --------
    >>> from lpkit.networks import sample4
    >>> gemms(sample4().layers[0], "F", batch=32)
    (Gemm(M=401408, K=75, N=32, count=1),)
    """
    batch = whole_number(batch, "batch")
    choice(batching, "batching", BATCHINGS)
    batching = "per_image" if repeats(layer) else batching
    return tuple(_batched(row, op, batch, batching) for row in gemm_rows(layer, op, delta, G))


def _batched(row, op, batch, batching):
    M, K, N, count = row
    if batching == "per_image":
        return Gemm(M, K, N, count * batch)
    return Gemm(M, K * batch, N, count) if op == "G" else Gemm(M * batch, K, N, count)


def gemm_rows(layer, op, delta="col2im", G="a"):
    """(M, K, N, count) of one sample, each at most 2**62; arrays, unchecked, of a `Shape` that holds arrays.

    Parameters
    ----------
    layer : Layer or Shape
    op : {"F", "G", "delta"}
    delta, G
        Forms, as for `gemms`.

    Raises
    ------
    ValueError
        If the operation or a form is unknown, the layer is no matrix product, or a product exceeds 64 bits.

    Examples
    --------
    >>> from lpkit.networks import sample4
    >>> first = sample4().layers[0]
    >>> gemm_rows(first, "F"), gemm_rows(first, "G", G="b")
    ([(12544, 75, 32, 1)], [(32, 12544, 75, 1)])
    """
    rows = _rows(layer, op, delta, G)
    numbers = (row for row in rows if all(isinstance(part, int) for part in row))
    too_large = next((row for row in numbers if max(row) > LARGEST), None)
    if too_large:
        name = f"layer {shown(layer.name)}" if hasattr(layer, "name") else "the layer"
        raise ValueError(f"{op} of {name} does not fit in 64 bits: M, K, N and count of a product would be "
                         f"{', '.join(map(shown, too_large))}; use smaller sizes")
    return rows


def _rows(layer, op, delta, G):
    choice(op, "op", OPS)
    choice(delta, "delta", DELTAS)
    choice(G, "G", G_FORMS)
    shape, mirrored = conv_shape(layer)
    role = {"F": "delta", "delta": "F"}.get(op, op) if mirrored else op
    if repeats(layer) and op != "F":
        (M, _), K, N, count = shape.input, shape.C, shape.N, shape.groups
        return [] if op == "G" else [(M, N, K, count), (K, M, N, count)]
    taps, pixels = math.prod(shape.kernel), math.prod(shape.output)
    window, C, N, g = taps * shape.C, shape.C, shape.N, shape.groups
    if role == "F":
        return [(pixels, window, N, g)]
    if role == "G":
        return [(window, pixels, N, g) if G == "a" else (N, pixels, window, g)]
    if delta == "col2im":
        return [(pixels, N, window, g)]
    if delta == "zero_insert":
        return [(math.prod(shape.input), taps * N, C, g)]
    sides = product(*(_phases(shape, axis) for axis in range(len(shape.kernel))))
    pixels_taps_numbers = ([math.prod(part) for part in zip(*phase)] for phase in sides)
    return [(pixels, taps * N, C, g * number) for pixels, taps, number in pixels_taps_numbers]


def _ceil(a, b):
    return -(-a // b)


def _phases(shape, axis):
    """(input pixels, kernel taps, how many) of the residues of the input position mod the stride that any tap meets.

    Tap t meets position a where t d = a + p (mod s): for every g-th a, g = gcd(d, s), at one t in s / g, so there are
    at most two numbers of taps, and two of pixels.
    """
    size, k, s, p, d = (getattr(shape, f)[axis] for f in ("input", "kernel", "stride", "padding", "dilation"))
    g = math.gcd(d, s)
    period, edge = s // g, (size - 1) % s + 1
    found = []
    for pixels, start, stop in ((_ceil(size, s), 0, edge), (size // s, edge, min(s, size))):
        first, last = _ceil(start + p, g), _ceil(stop + p, g)  # of (a + p) / g
        extra = _residues_below(first, last, pow(d // g, -1, period), period, k % period)
        found += [(pixels, k // period + 1, extra), (pixels, k // period, last - first - extra)]
    return [(pixels, taps, number) for pixels, taps, number in found if taps and number > 0]


def _residues_below(first, last, factor, period, bound):
    """How many j from `first` to `last` - 1 have (factor j) mod period < bound."""
    start, n = first * factor, max(0, last - first)
    return (_floor_sum(n, period, factor, start) - _floor_sum(n, period, factor, start + period - bound)) + n


def _floor_sum(n, m, a, b):
    """Sum of floor((a i + b) / m) over i = 0 .. n - 1, for a and b of at least 0, by Euclid's steps."""
    total = 0
    while n > 0:
        total += n * (n - 1) // 2 * (a // m) + n * (b // m)
        a, b = a % m, b % m
        n, b = divmod(a * n + b, m)
        m, a = a, m
    return total


def useful_macs(layer, *, batch=1):
    """Multiplications of two values that both exist: no padded and no inserted zero; the same for F, G and delta.

    Compare with the `macs` of the Gemms of an operation to see what zeros cost.

    Raises
    ------
    ValueError
        If `batch` is not a whole number of at least 1, or the layer is no matrix product.

    Examples
    --------
    >>> from lpkit.networks import sample4
    >>> first = sample4().layers[0]
    >>> useful_macs(first), gemms(first, "F")[0].macs, gemms(first, "delta", delta="zero_insert")[0].macs
    (29783904, 30105600, 120422400)
    """
    shape, _ = conv_shape(layer)
    return (whole_number(batch, "batch") * shape.groups * shape.C * shape.N
            * math.prod(_window_pairs(shape, axis) for axis in range(len(shape.kernel))))


def _window_pairs(shape, axis):
    """Pairs (output position e, tap t) along an axis that read an input position inside the input, not the padding."""
    k, s, p, d = (getattr(shape, f)[axis] for f in ("kernel", "stride", "padding", "dilation"))
    size, E = shape.input[axis], shape.output[axis]
    return _pairs_up_to(p + size - 1, E, k, s, d) - _pairs_up_to(p - 1, E, k, s, d)


def _pairs_up_to(limit, E, k, s, d):
    """Pairs (e, t), e < E and t < k, with e s + t d <= limit."""
    taps = min(k, limit // d + 1) if limit >= 0 else 0  # those that some e meets; the first `full` meet every e
    full = min(taps, max(0, (limit - (E - 1) * s) // d + 1))
    return E * full + (taps - full) + _floor_sum(taps - full, s, d, limit - (taps - 1) * d)
