"""Tensors of a model with a batch in them, as the operations of one sample: what every reader of models shares.

A reader knows the whole sizes of the tensors, batch included; here they become `Conv`, `ConvTranspose`, `Dense`, or
where those cannot say it, `ConvND` and `MatMul`. Sources: Dumoulin & Visin, arXiv:1603.07285; the ONNX operators.
"""

import math
import re
from dataclasses import dataclass

from lpkit.checks import shown
from lpkit.networks import Conv, ConvND, ConvTranspose, Dense, MatMul, output_shape

__all__ = ["Sample", "attention_products", "conv_op", "conv_transpose_op", "einsum_op", "fitting", "matmul_op",
           "unique_name"]


@dataclass(frozen=True)
class Sample:
    """Where the samples are: `batch` of them, along `axis` of the tensors that keep them apart.

    Examples
    --------
    >>> two = Sample(2, 0)
    >>> two.shape((2, 3, 8, 8)), two.shape((2, 10)), two.shape((2, 128, 768)), two.shape((256, 768))
    ((3, 8, 8), (10, 1, 1), (128, 1, 768), (128, 1, 768))
    """

    batch: int = 1
    axis: int = 0

    def shape(self, dims):
        """Three numbers or more for one sample of a tensor of `dims`."""
        rest = self._without_batch(tuple(dims))
        if len(rest) < 3:
            return ((1, 1, 1), (*rest, 1, 1), (rest[0], 1, rest[-1]) if rest else ())[len(rest)]
        return rest

    def _without_batch(self, dims):
        places = [self.axis, 0, *range(1, len(dims))]
        for place in places:
            if place < len(dims) and dims[place] == self.batch:
                return dims[:place] + dims[place + 1:]
            if self.batch == 1:
                return dims
        for place in places:
            if place < len(dims) and dims[place] % self.batch == 0:
                return (*dims[:place], dims[place] // self.batch, *dims[place + 1:])
        return dims

    def share(self, *numbers):
        """`numbers` with the batch taken out of the first that it divides.

        Raises
        ------
        ValueError
            If it divides none.
        """
        for place, number in enumerate(numbers):
            if number % self.batch == 0:
                return (*numbers[:place], number // self.batch, *numbers[place + 1:])
        raise ValueError(f"its sizes {shown(numbers)} cannot be shared among {self.batch} samples; store the model "
                         "with a batch of 1")


def fitting(op, shapes, stated):
    """Whether `op` takes tensors of `shapes` and makes what the model states."""
    try:
        return output_shape(op, *shapes) == stated
    except ValueError:
        return False


def conv_op(dims, weight, *, stride, dilation, before, after, groups, bias, sample):
    """The convolution of a tensor (batch, channels, sides) with filters (out, channels / groups, kernel).

    What is folded into the batch (frames of a video) becomes a side of its own.

    Examples
    --------
    >>> square = dict(stride=(1, 1), dilation=(1, 1), groups=1, bias=True, sample=Sample())
    >>> conv_op((1, 3, 8, 8), (4, 3, 3, 3), before=(1, 1), after=(1, 1), **square).padding
    (1, 1)
    >>> conv_op((1, 3, 8, 8), (4, 3, 3, 3), before=(0, 0), after=(1, 1), **square).after
    (1, 1)
    """
    flat = _flat(_stated_conv(dims, weight[0], weight[2:], stride, dilation, before, after, groups, bias, sample,
                              False))
    if len(flat.sides) == 2 and flat.before == flat.after:
        return Conv(flat.out_channels, flat.kernel, flat.stride, flat.before, groups, flat.dilation, bias)
    return flat


def conv_transpose_op(dims, weight, output, *, stride, dilation, before, groups, bias, sample):
    """The transposed convolution with filters (channels, out / groups, kernel) that makes the sides `output`."""
    spans = [d * (k - 1) + 1 for d, k in zip(dilation, weight[2:])]
    after = [(h - 1) * s + span - p - e for h, s, span, p, e in zip(dims[2:], stride, spans, before, output)]
    out = weight[1] * groups
    flat = _flat(_stated_conv(dims, out, weight[2:], stride, dilation, before, after, groups, bias, sample, True))
    if len(flat.sides) == 2 and groups == 1 and flat.dilation == (1, 1) and flat.before == flat.after:
        return ConvTranspose(out, flat.kernel, flat.stride, flat.before, bias)
    return flat


def _stated_conv(dims, out, kernel, stride, dilation, before, after, groups, bias, sample, transposed):
    (images,) = sample.share(dims[0])
    fold = (images,) if images > 1 else ()
    one, none = (1,) * len(fold), (0,) * len(fold)
    return ConvND(dims[1], (*fold, *dims[2:]), out, (*one, *kernel), (*one, *stride), (*one, *dilation),
                  (*none, *before), (*none, *after), groups, bias, transposed)


def _flat(conv):
    """A convolution of one side as one of two, the first of size 1."""
    if len(conv.sides) != 1:
        return conv
    return ConvND(conv.channels, (1, *conv.sides), conv.out_channels, (1, *conv.kernel), (1, *conv.stride),
                  (1, *conv.dilation), (0, *conv.before), (0, *conv.after), conv.groups, conv.bias, conv.transposed)


def matmul_op(left, right, output, *, weights, sample, bias=False):
    """The product of tensors of sizes `left` and `right`; `weights` is "left", "right" or None: which one they are.

    Examples
    --------
    >>> matmul_op((1, 128, 768), (768, 64), (1, 128, 64), weights="right", sample=Sample()).M
    128
    >>> matmul_op((1, 4096), (4096, 1000), (1, 1000), weights="right", sample=Sample())
    Dense(out_features=1000, bias=False)
    """
    left, right = (1, *left) if len(left) == 1 else left, (*right, 1) if len(right) == 1 else right
    M, K, N = left[-2], left[-1], right[-1]
    depth = max(len(left), len(right)) - 2
    both = zip(*((1,) * (depth + 2 - len(dims)) + tuple(dims[:-2]) for dims in (left, right)))
    products = math.prod(map(max, both))
    if weights == "left":  # the transpose of the product, so that the weights are on the right
        left, right, M, N = right, left, N, M
    if weights is None:
        return product_op(M, K, N, products, output, weights=False, sample=sample, bias=bias)
    own = math.prod(right[:-2])
    return product_op(products // own * M, K, N, own, output, weights=True, sample=sample, bias=bias, given=left)


def product_op(M, K, N, count, output, *, weights, sample, bias=False, given=()):
    """`count` products with the batch still in them, as one operation of a sample."""
    if weights:
        (M,) = sample.share(M)
        if M == count == 1 and sample.shape(given)[1:] == (1, 1) and sample.shape(output)[1:] == (1, 1):
            return Dense(N, bias)
    else:
        count, M = sample.share(count, M)
    return MatMul(M, K, N, count, sample.shape(output), weights, bias)


def attention_products(query, key, value, output, sample):
    """Scores and mixture of attention on tensors (batch, heads, positions, width), each a product of two tensors.

    Examples
    --------
    >>> q = (1, 12, 128, 64)
    >>> [op.macs for op in attention_products(q, q, q, q, Sample())]
    [12582912, 12582912]
    """
    (products,) = sample.share(math.prod(query[:-2]))
    T, S = query[-2], key[-2]
    scores = MatMul(T, query[-1], S, products, (products, T, S), weights=False)
    return scores, MatMul(T, S, value[-1], products, sample.shape(output), weights=False)


def einsum_op(equation, left, right, output, *, weights, sample):
    """The contraction that an Einsum of two tensors is, or None if it is none (nothing is summed over in both).

    Examples
    --------
    >>> sizes = (1, 12, 8, 64), (1, 12, 8, 64), (1, 12, 8, 8)
    >>> einsum_op("bhqd,bhkd->bhqk", *sizes, weights=None, sample=Sample()).count
    12
    """
    terms = _terms(equation, left, right)
    if terms is None:
        return None
    a, b, out = terms
    size = dict(zip(a, left)) | {label: n for label, n in zip(b, right) if n != 1 or label not in a}
    kinds = {"count": a.keys() & b.keys() & out.keys(), "K": (a.keys() & b.keys()) - out.keys(),
             "M": (a.keys() - b.keys()) & out.keys(), "N": (b.keys() - a.keys()) & out.keys()}
    if not kinds["K"]:
        return None
    count, K, M, N = (math.prod(size[label] for label in labels) for labels in kinds.values())
    M, N, given = (N, M, right) if weights == "left" else (M, N, left)
    return product_op(M, K, N, count, output, weights=weights is not None, sample=sample, given=given)


def _terms(equation, left, right):
    """The labels of both operands and of the result, each a dict in order; None for what is no product of two."""
    text = equation.replace(" ", "")
    found = re.fullmatch(r"([A-Za-z.]+),([A-Za-z.]+)(?:->([A-Za-z.]*))?", text)
    if not found:
        return None
    a, b = (_spread(term, len(dims)) for term, dims in zip(found.groups()[:2], (left, right)))
    if a is None or b is None:
        return None
    if found[3] is None:
        out = sorted(label for label in {*a, *b} if (label in a) != (label in b) or not label.isalpha())
    else:
        dots = sorted(label for label in {*a, *b} if not label.isalpha())
        out = [*dots, *found[3].replace("...", "")]
    return dict.fromkeys(a), dict.fromkeys(b), dict.fromkeys(out)


def _spread(term, rank):
    """Labels of a term, those of "..." as numbers counted from the right; None if they do not fit `rank`."""
    before, dots, after = term.partition("...")
    hidden = rank - len(before) - len(after)
    labels = [*before, *(f"{1000 - i}" for i in range(hidden, 0, -1) if dots), *after]
    return labels if len(labels) == rank == len(set(labels)) and "." not in before + after else None


def unique_name(wanted, taken):
    """A name for a node, as a network may have it and no other node has; `taken` counts names and is kept up to date.

    Examples
    --------
    >>> taken = {}
    >>> [unique_name(name, taken) for name in ("conv 1", "conv 1", "", "#a", "input")]
    ['conv_1', 'conv_1_2', 'node', 'a', 'input_2']
    """
    base = "_".join("".join(sign if sign.isprintable() else " " for sign in str(wanted)).split()).lstrip("#") or "node"
    taken.setdefault("input", 1)
    name = base
    while name in taken:
        taken[base] += 1
        name = f"{base}_{taken[base]}"
    taken[name] = 1
    return name
