"""A network as a SCALE-Sim topology file: convolutions, or the M, N, K of its products.

Both hold the forward pass of one image. What `lpkit.interop.scalesim.read_topology` reads back has the same products.
"""

import re

from lpkit.checks import choice, shown, write_atomically
from lpkit.products import conv_shape, gemm_rows

__all__ = ["HEADER", "write_topology"]

HEADER = "Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, Strides,\n"
GEMM_HEADER = "Layer, M, N, K,\n"


def write_topology(network, path, *, form="conv"):
    """Write the forward pass of a network, one image, as a SCALE-Sim topology that gives the same products.

    With ``form="gemm"`` each product is a line of M, N and K, for SCALE-Sim's ``-i gemm``; groups are one line each.
    With ``"conv"`` input sizes include the padding and leave out the edge no window reaches, so rounding up or down
    agree. A depthwise layer becomes one line with ``_DP`` at its name, other groups one line each. What a line
    cannot say (dilation, unequal strides, transposed convolution) is written as its matrix product: M x K in, filters
    1 x K.

    Returns
    -------
    Path

    Raises
    ------
    ValueError
        If a layer's name has a comma or the letters DP (which make SCALE-Sim split the layer), `form` is unknown, or
        `path` cannot be written.

    Examples
    --------
    >>> import tempfile, os
    >>> from lpkit.networks import sample4
    >>> path = write_topology(sample4(), os.path.join(tempfile.mkdtemp(), "sample4.csv"))
    >>> path.read_text().splitlines()[1]
    'conv1, 227, 227, 5, 5, 3, 32, 2,'
    >>> write_topology(sample4(), path, form="gemm").read_text().splitlines()[1]
    'conv1, 12544, 32, 75,'
    """
    header, of = {"conv": (HEADER, _lines), "gemm": (GEMM_HEADER, _products)}[choice(form, "form", ("conv", "gemm"))]
    for layer in network.layers:
        _check_name(layer)
    lines = [line for layer in network.layers for line in of(layer)]
    return write_atomically(path, header + "".join(f"{', '.join(map(str, line))},\n" for line in lines))


def _check_name(layer):
    if "DP" in layer.name or re.search(r'[,#;\t"]', layer.name):
        raise ValueError(f"layer {shown(layer.name)} cannot be written: SCALE-Sim splits layers with DP in their "
                         "names, and commas, semicolons, quotes and # divide a line; rename it")


def _products(layer):
    return [line for M, K, N, groups in gemm_rows(layer, "F") for line in _each_group(layer.name, groups, (M, N, K))]


def _lines(layer):
    shape, transposed = conv_shape(layer)
    if transposed or shape.dilation != (1, 1) or shape.stride[0] != shape.stride[1]:
        M, K, N, groups = gemm_rows(layer, "F")[0]
        return _each_group(layer.name, groups, (M, K, 1, K, 1, N, 1))
    size = [(e - 1) * s + k for e, s, k in zip(shape.output, shape.stride, shape.kernel)]
    if shape.groups > 1 and shape.C == 1:
        return [(f"{layer.name}_DP", *size, *shape.kernel, shape.groups, shape.N, shape.stride[0])]
    return _each_group(layer.name, shape.groups, (*size, *shape.kernel, shape.C, shape.N, shape.stride[0]))


def _each_group(name, groups, sizes):
    return [(f"{name}_group{g}" if groups > 1 else name, *sizes) for g in range(1, groups + 1)]
