"""Operations of model files: what Conv and its kin cannot say is stated in full, and all else is carried along.

A model file knows the shape of every tensor. `ConvND` keeps a convolution of any number of sides, padded as it likes
at each; `Carried` keeps any operation that is no matrix product, so that the joins and skips of the model stay.
Source: Dumoulin & Visin, "A guide to convolution arithmetic", arXiv:1603.07285, for the sides of the output.
"""

import math
from dataclasses import dataclass

from lpkit.checks import shown, whole_number
from lpkit.matmul import stated_shape

__all__ = ["Carried", "ConvND", "VIEWS"]

# What only looks at its input in another order or form: the tensor that crosses a cut is the one it looks at.
VIEWS = ("Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten")


@dataclass(frozen=True)
class ConvND:
    """A convolution over any number of sides, padded `before` and `after` each; `transposed`: its mirror.

    Parameters
    ----------
    channels, sides : int, tuple of int
        Of the input, so that the operation is complete in itself.
    out_channels : int
    kernel, stride, dilation, before, after : tuple of int
        One number a side. Of a transposed convolution `after` may be negative: it adds to the output.
    groups : int
    bias, transposed : bool

    Raises
    ------
    ValueError
        If a size is wrong, the groups do not divide the channels, or nothing is left of a side.

    Examples
    --------
    >>> video = ConvND(3, (16, 112, 112), 64, (3, 7, 7), (1, 2, 2), (1, 1, 1), (1, 3, 3), (1, 3, 3))
    >>> video.shape, video.weight_count
    ((64, 16, 56, 56), 28224)
    """

    channels: int
    sides: tuple[int, ...]
    out_channels: int
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    groups: int = 1
    bias: bool = True
    transposed: bool = False

    def __post_init__(self):
        for name in ("channels", "out_channels", "groups"):
            object.__setattr__(self, name, whole_number(getattr(self, name), f"ConvND {name}"))
        least = {"before": 0, "after": -(2**40) if self.transposed else 0}
        for name in ("sides", "kernel", "stride", "dilation", "before", "after"):
            values = tuple(whole_number(n, f"ConvND {name}", least=least.get(name, 1)) for n in getattr(self, name))
            object.__setattr__(self, name, values)
            if len(values) != len(self.sides) or not values:
                raise ValueError(f"ConvND {name} is {shown(values)} for the sides {shown(self.sides)}; give each side "
                                 "a number")
        if self.channels % self.groups or self.out_channels % self.groups:
            raise ValueError(f"ConvND groups is {self.groups}, no divisor of {self.channels} and {self.out_channels} "
                             "channels; choose a divisor of both")
        if min(self.output) < 1:
            raise ValueError(f"ConvND leaves an output of {shown(self.output)} from {shown(self.sides)}; pad otherwise")

    @property
    def output(self):
        """Sides of the output."""
        return tuple(map(self._side, self.sides, self.kernel, self.stride, self.dilation, self.before, self.after))

    def _side(self, side, kernel, stride, dilation, before, after):
        span = dilation * (kernel - 1) + 1
        if self.transposed:
            return (side - 1) * stride + span - before - after
        return (side + before + after - span) // stride + 1

    @property
    def shape(self):
        """(channels, sides) of the output."""
        return (self.out_channels, *self.output)

    @property
    def weight_count(self):
        """Elements of the filters, without bias."""
        return self.channels * self.out_channels // self.groups * math.prod(self.kernel)

    @property
    def macs(self):
        """Multiply-accumulates of the forward pass of one sample, padding included."""
        return self.weight_count * math.prod(self.sides if self.transposed else self.output)


@dataclass(frozen=True)
class Carried:
    """An operation that is carried along with the `shape` it makes, but costs no matrix product here.

    Parameters
    ----------
    kind : str
        Its name in the model file, such as ``"LayerNormalization"``.
    shape : tuple of int
        Of its result for one sample, three numbers or more.
    parameters : int
        What it learns (scales, shifts, tables).
    missing_macs : int or None
        Multiply-accumulates it has in truth that are not counted as a layer; None if nobody knows.

    Examples
    --------
    >>> Carried("Softmax", (12, 128, 128)).missing_macs
    0
    """

    kind: str
    shape: tuple[int, ...]
    parameters: int = 0
    missing_macs: int | None = 0

    def __post_init__(self):
        if not isinstance(self.kind, str) or not self.kind.isprintable() or not self.kind:
            raise ValueError(f"Carried kind is {shown(self.kind)}; it must be the name of an operation")
        object.__setattr__(self, "shape", stated_shape(self.shape, "Carried shape"))
        object.__setattr__(self, "parameters", whole_number(self.parameters, "Carried parameters", least=0))
        if self.missing_macs is not None:
            most = 2**63 - 1
            object.__setattr__(self, "missing_macs",
                               whole_number(self.missing_macs, "Carried missing_macs", least=0, most=most))
