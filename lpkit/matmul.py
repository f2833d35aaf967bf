"""Matrix products that are no convolution: dense layers over positions, and the two products of attention.

A product with weights is a dense layer applied at M positions of a sample. A product of two computed tensors has no
weights: its weight gradient is nothing, and its delta is the error of both operands, two products.
Source: Vaswani et al., "Attention is all you need", arXiv:1706.03762, equation 1; the gradients by the product rule.
"""

import math
from dataclasses import dataclass

from lpkit.checks import shown, whole_number

__all__ = ["MatMul"]


@dataclass(frozen=True)
class MatMul:
    """`count` products out[M, N] = in[M, K] x filt[K, N] a sample, which make a tensor of `shape`.

    Parameters
    ----------
    M, K, N, count : int
        Sizes for one sample: M positions, K inputs and N outputs of each, `count` heads or groups.
    shape : tuple of int
        Of the result; count M N elements. (count N, M, 1) if left out.
    weights : bool
        Whether filt are weights (count K N of them, kept over the mini-batch), or a second tensor that the node reads.
    bias : bool
        Whether count N biases are added.

    Raises
    ------
    ValueError
        If a size is no whole number of at least 1, or `shape` has another number of elements.

    Examples
    --------
    >>> MatMul(128, 768, 3072).shape
    (3072, 128, 1)
    >>> MatMul(128, 64, 128, count=12, shape=(12, 128, 128), weights=False).macs
    12582912
    """

    M: int
    K: int
    N: int
    count: int = 1
    shape: tuple[int, ...] = None
    weights: bool = True
    bias: bool = False

    def __post_init__(self):
        for name in ("M", "K", "N", "count"):
            object.__setattr__(self, name, whole_number(getattr(self, name), f"MatMul {name}"))
        shape = (self.count * self.N, self.M, 1) if self.shape is None else self.shape
        object.__setattr__(self, "shape", stated_shape(shape, "MatMul shape"))
        if not all(isinstance(flag, bool) for flag in (self.weights, self.bias)):
            raise ValueError(f"MatMul weights and bias are {shown(self.weights)} and {shown(self.bias)}; each must be "
                             "True or False")
        if math.prod(self.shape) != self.count * self.M * self.N:
            raise ValueError(f"MatMul shape is {shown(self.shape)}, not the {self.count * self.M * self.N} elements of "
                             f"{self.count} products of {self.M} x {self.N}")

    @property
    def macs(self):
        """Multiply-accumulates of the forward pass of one sample."""
        return self.count * self.M * self.K * self.N


def stated_shape(shape, name):
    """A shape that is stated, not inferred, as a tuple of three or more whole numbers.

    Examples
    --------
    >>> stated_shape([12, 128, 128], "shape")
    (12, 128, 128)
    """
    if not isinstance(shape, (tuple, list)) or len(shape) < 3:
        raise ValueError(f"{name} is {shown(shape)}; it must be three whole numbers or more (channels, sides)")
    return tuple(whole_number(n, f"a number of {name}") for n in shape)
