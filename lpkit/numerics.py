"""The numbers behind the costs: F, G and delta of a layer as the very matrix products that `lpkit.products` counts.

A convolution gathers its windows into a matrix, one product a group follows, and for delta in the form ``col2im`` the
result is scattered back; nothing else multiplies. All arrays are batch first (B, C, H, W), or (B, C) for dense
layers; W is (N, C / groups, k_h, k_w), or (N, C). float32 stays float32.

What lies between the products is in `lpkit.pointwise`, whose public names are public names of this module too.

Sources: LayerPipe (ICCAD 2021), Eqs. 1-5; im2col and its transpose as in Dumoulin and Visin, "A guide to convolution
arithmetic for deep learning", arXiv:1603.07285, chapters 4 and 5, for strided gradients.
"""

import math

import numpy as np

from lpkit.checks import choice
from lpkit.operations import Conv, output_shape
from lpkit.pointwise import (
    activate, activation_slope, padded_images, pool_backward, pool_forward, softmax_cross_entropy, squared_error,
    tap_pixels,
)  # fmt: skip
from lpkit.products import DELTAS, G_FORMS

__all__ = [
    "activate", "activation_slope", "bias_G", "conv_delta", "conv_forward", "conv_G", "dense_delta", "dense_forward",
    "dense_G", "ordered_product", "pool_backward", "pool_forward", "softmax_cross_entropy", "squared_error",
]  # fmt: skip


def ordered_product(a, b):
    """`a @ b`, each element summed over K one after the other, so that it depends on its own row and column alone.

    A fast matrix product may round an element differently once the matrix beside it has another width; this one does
    not, so a delta computed in two parts by columns is the whole, to the last bit (LayerPipe, Fig. 5).

    Parameters
    ----------
    a : ndarray (..., M, K)
    b : ndarray (..., K, N)

    Returns
    -------
    ndarray (..., M, N)

    Examples
    --------
    >>> ordered_product(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0], [5.0, 6.0]]))
    array([[13., 16.]])
    """
    total = a[..., :, :1] * b[..., :1, :]
    for k in range(1, a.shape[-1]):
        total += a[..., :, k : k + 1] * b[..., k : k + 1, :]
    return total


# convolution ---------------------------------------------------------------------------------------------------------


def conv_forward(W, a, op, *, product=np.matmul):
    """F of a convolution without bias: one product [B E, k C] x [k C, N] a group.

    Parameters
    ----------
    W : ndarray (N, C / groups, k_h, k_w)
    a : ndarray (B, C, H, W)
    op : lpkit.networks.Conv
    product : callable
        Multiplies stacks of matrices; `numpy.matmul`, or `ordered_product`.

    Returns
    -------
    ndarray (B, N, E_h, E_w)

    Raises
    ------
    ValueError
        If the shapes of W, a and the operation do not fit.

    Notes
    -----
    LayerPipe, Eq. 1.

    Examples
    --------
    >>> image = np.arange(9.0).reshape(1, 1, 3, 3)
    >>> conv_forward(np.ones((1, 1, 2, 2)), image, Conv(1, 2))[0, 0]
    array([[ 8., 12.],
           [20., 24.]])
    """
    _check_weights(W, op, a.shape[1:])
    filters, last = W.reshape(op.groups, op.out_channels // op.groups, -1), _batch_last(a)
    out = _multiplied(_windows(a, op, last), filters.transpose(0, 2, 1), product, last)
    return _as_images(out, len(a), output_shape(op, a.shape[1:]), last)


def conv_G(delta, a, op, *, form="a", product=np.matmul):
    """G of a convolution: [k C, B E] x [B E, N] a group in form "a", its transpose [N, B E] x [B E, k C] in form "b".

    Parameters
    ----------
    delta : ndarray (B, N, E_h, E_w)
        Gradient of the loss with respect to the output of the layer, before its activation.
    a : ndarray (B, C, H, W)
        Input of the layer.

    Returns
    -------
    ndarray (N, C / groups, k_h, k_w)

    Raises
    ------
    ValueError
        If the shapes do not fit, or the form is unknown.

    Notes
    -----
    LayerPipe, Eq. 5.

    Examples
    --------
    >>> image = np.arange(9.0).reshape(1, 1, 3, 3)
    >>> conv_G(np.ones((1, 1, 2, 2)), image, Conv(1, 2))[0, 0]
    array([[ 8., 12.],
           [20., 24.]])
    """
    choice(form, "form of G", G_FORMS)
    _check_delta(delta, op, a.shape[1:], len(a))
    windows, rows = _windows(a, op), _as_rows(delta, op.groups)
    if form == "a":
        G = product(windows.transpose(0, 2, 1), rows).transpose(0, 2, 1)
    else:
        G = product(rows.transpose(0, 2, 1), windows)
    return G.reshape(op.out_channels, a.shape[1] // op.groups, *op.kernel)


def conv_delta(W, delta, op, input_shape, *, form="col2im", product=np.matmul):
    """delta of a convolution: the gradient of the loss with respect to its input.

    ``col2im`` multiplies [B E, N] x [N, k C] and scatters; ``zero_insert`` convolves delta, spread out with zeros,
    with the turned filter, [B H W, k N] x [k N, C]; ``phases`` does so for each residue of the input position modulo
    the stride with the taps that meet it, so that no inserted zero is multiplied.

    Parameters
    ----------
    W : ndarray (N, C / groups, k_h, k_w)
    delta : ndarray (B, N, E_h, E_w)
    op : lpkit.networks.Conv
    input_shape : tuple (C, H, W)

    Returns
    -------
    ndarray (B, C, H, W)

    Raises
    ------
    ValueError
        If the shapes do not fit, or the form is unknown.

    Notes
    -----
    LayerPipe, Eq. 4, without the product with f' that follows it.

    Examples
    --------
    >>> conv_delta(np.ones((1, 1, 2, 2)), np.ones((1, 1, 2, 2)), Conv(1, 2), (1, 3, 3))[0, 0]
    array([[1., 2., 1.],
           [2., 4., 2.],
           [1., 2., 1.]])
    """
    choice(form, "form of delta", DELTAS)
    _check_delta(delta, op, input_shape, len(delta))
    _check_weights(W, op, input_shape)
    per_form = {"col2im": _delta_col2im, "zero_insert": _delta_zero_insert, "phases": _delta_phases}
    return per_form[form](W, delta, op, tuple(input_shape), product)


def _delta_col2im(W, delta, op, input_shape, product):
    g, batch, (C, H, width), (p, q) = op.groups, len(delta), input_shape, op.padding
    if _batch_last(delta):
        return _delta_col2im_batch_last(W, delta, op, input_shape, product)
    filters = W.reshape(g, op.out_channels // g, C // g, *op.kernel).transpose(0, 1, 3, 4, 2)
    columns = product(_as_rows(delta, g), filters.reshape(g, op.out_channels // g, -1))
    columns = columns.reshape(g, batch, *delta.shape[2:], *op.kernel, C // g).transpose(4, 5, 1, 0, 6, 2, 3)
    padded = np.zeros((batch, H + 2 * p, width + 2 * q, g, C // g), columns.dtype)  # channels last, as in columns
    padded = padded.transpose(0, 3, 4, 1, 2)
    for tap in np.ndindex(*op.kernel):
        tap_pixels(padded, tap, delta.shape[2:], op.stride, op.dilation)[...] += columns[tap]
    return padded[..., p : p + H, q : q + width].reshape(batch, *input_shape)


def _delta_col2im_batch_last(W, delta, op, input_shape, product):
    g, (C, H, width), (p, q) = op.groups, input_shape, op.padding
    rows = delta.transpose(1, 2, 3, 0).reshape(g, op.out_channels // g, -1).transpose(0, 2, 1)
    columns = _multiplied(rows, W.reshape(g, op.out_channels // g, -1), product, True).transpose(0, 2, 1)
    columns = columns.reshape(C, *op.kernel, *delta.shape[2:], len(delta)).transpose(1, 2, 5, 0, 3, 4)
    padded = np.zeros((C, H + 2 * p, width + 2 * q, len(delta)), columns.dtype).transpose(3, 0, 1, 2)
    for tap in np.ndindex(*op.kernel):
        tap_pixels(padded, tap, delta.shape[2:], op.stride, op.dilation)[...] += columns[tap]
    return padded[..., p : p + H, q : q + width]


def _delta_zero_insert(W, delta, op, input_shape, product):
    g, (C, *sides) = op.groups, input_shape
    spans = [d * (k - 1) for d, k in zip(op.dilation, op.kernel)]
    spread = np.zeros((*delta.shape[:2], *(h + span for h, span in zip(sides, spans))), delta.dtype)
    into, taken = zip(*(_inside(s, span - p, len_, E) for s, span, p, len_, E in zip(
        op.stride, spans, op.padding, spread.shape[2:], delta.shape[2:])))  # fmt: skip
    spread[:, :, into[0], into[1]] = delta[:, :, taken[0], taken[1]]
    turned = W.reshape(g, op.out_channels // g, C // g, *op.kernel)[..., ::-1, ::-1]
    filters = turned.transpose(0, 1, 3, 4, 2).reshape(g, -1, C // g)
    windows = _windows(spread, Conv(C, op.kernel, groups=g, dilation=op.dilation))
    return _as_images(product(windows, filters), len(delta), input_shape)


def _inside(stride, offset, length, count):
    """Where output pixels e land, at offset + stride e, as far as inside [0, length), and which e these are."""
    first = max(0, -(offset // stride))
    last = min(count - 1, (length - 1 - offset) // stride)
    start = offset + stride * first
    return slice(start, max(start, offset + stride * last + 1), stride), slice(first, max(first, last + 1))


def _delta_phases(W, delta, op, input_shape, product):
    g, batch, (C, *sides) = op.groups, len(delta), input_shape
    result = np.zeros((batch, *input_shape), np.result_type(W, delta))
    padded = np.pad(delta, ((0, 0), (0, 0), (0, 1), (0, 1)))  # its last row and column are what lies outside
    filters = W.reshape(g, op.out_channels // g, C // g, *op.kernel)
    for a, taps_a, at_a in _phases(op, sides, delta.shape[2:], 0):
        for b, taps_b, at_b in _phases(op, sides, delta.shape[2:], 1):
            met = padded[:, :, at_a[:, None, :, None], at_b[None, :, None, :]]
            met = met.reshape(batch, g, -1, *met.shape[2:]).transpose(1, 0, 3, 4, 2, 5, 6)
            used = filters[:, :, :, taps_a[:, None], taps_b].transpose(0, 1, 3, 4, 2).reshape(g, -1, C // g)
            out = product(met.reshape(g, batch * len(at_a) * len(at_b), -1), used)
            part = result[:, :, a :: op.stride[0], b :: op.stride[1]]
            part[...] = _as_images(out, batch, part.shape[1:])
    return result


def _phases(op, sides, output, axis):
    """(residue, its taps, output pixel that each of its input pixels meets by each tap) along an axis."""
    size, E, k, s, p, d = (x[axis] for x in (sides, output, op.kernel, op.stride, op.padding, op.dilation))
    for residue in range(min(s, size)):
        taps = np.array([t for t in range(k) if (residue + p - t * d) % s == 0], dtype=int)
        if len(taps):
            met = np.arange(-(-(size - residue) // s))[:, None] + (residue + p - taps * d) // s
            yield residue, taps, np.where((met >= 0) & (met < E), met, E)


def _batch_last(images):
    """Whether the samples of images (B, C, H, W) lie side by side in memory; then they stay so through a layer.

    Windows are copied in runs of B numbers then, which is faster for many small images.
    """
    return len(images) > 1 and images.strides[0] == images.itemsize


def _multiplied(a, b, product, transposed):
    """`product(a, b)` of stacks of matrices; `transposed` lays each result out with its rows side by side."""
    if not transposed or product is not np.matmul:
        return product(a, b)
    out = np.empty((len(a), b.shape[2], a.shape[1]), np.result_type(a, b)).transpose(0, 2, 1)
    return np.matmul(a, b, out=out)


def _windows(a, op, batch_last=False):
    """The input as a stack of matrices (groups, B E, k C): one row an output pixel."""
    g = op.groups
    (p, q), (d, e), (s, t) = op.padding, op.dilation, op.stride
    spans = [d * (op.kernel[0] - 1) + 1, e * (op.kernel[1] - 1) + 1]
    if p or q:
        a = padded_images(a, [(p, p), (q, q)])
    view = np.lib.stride_tricks.sliding_window_view(a, spans, axis=(2, 3))[:, :, ::s, ::t, ::d, ::e]
    pixels, rows = (2, 3, 0) if batch_last else (0, 2, 3), len(a) * math.prod(view.shape[2:4])
    columns = view.transpose(1, 4, 5, *pixels).reshape(g, -1, rows)  # pixels last: long runs to copy
    return columns.transpose(0, 2, 1)


def _as_rows(delta, groups):
    """(B, N, E_h, E_w) as a stack of matrices (groups, B E, N / groups)."""
    batch, N, height, width = delta.shape
    rows = delta.reshape(batch, groups, N // groups, height * width).transpose(1, 0, 3, 2)
    return rows.reshape(groups, batch * height * width, N // groups)


def _as_images(rows, batch, shape, batch_last=False):
    """A stack of matrices (groups, B E, N / groups) as (B, N, E_h, E_w)."""
    if batch_last:
        return rows.transpose(0, 2, 1).reshape(*shape, batch).transpose(3, 0, 1, 2)
    images = rows.reshape(len(rows), batch, math.prod(shape[1:]), -1).transpose(1, 0, 3, 2)
    return images.reshape(batch, *shape)


def _check_weights(W, op, input_shape):
    if len(input_shape) != 3:
        raise ValueError(f"a sample of a convolution has shape {input_shape}; it must be (channels, height, width)")
    wanted = (op.out_channels, input_shape[0] // op.groups, *op.kernel)
    if input_shape[0] % op.groups or W.shape != wanted:
        raise ValueError(f"W has shape {W.shape}; {op} on {input_shape[0]} channels needs {wanted}")


def _check_delta(delta, op, input_shape, batch):
    wanted = (batch, *output_shape(op, tuple(input_shape)))
    if delta.shape != wanted:
        raise ValueError(f"delta has shape {delta.shape}; {op} on an input of {tuple(input_shape)} gives {wanted}")


# dense layers and biases ---------------------------------------------------------------------------------------------


def dense_forward(W, a, *, product=np.matmul):
    """F of a dense layer without bias: [B, C] x [C, N].

    Parameters
    ----------
    W : ndarray (N, C)
    a : ndarray (B, C)
    product : callable
        What multiplies matrices.

    Returns
    -------
    ndarray (B, N)

    Raises
    ------
    ValueError
        If the columns of W are not the features of a.

    Notes
    -----
    LayerPipe, Eq. 1.

    Examples
    --------
    >>> dense_forward(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0], [5.0, 6.0]]))
    array([[11.],
           [17.]])
    """
    _check_dense(a, "a", W.shape[1], "columns")
    return product(a, W.T)


def dense_G(delta, a, *, form="a", product=np.matmul):
    """G of a dense layer, shaped as W (N, C): [C, B] x [B, N] in form "a", its transpose [N, B] x [B, C] in form "b".

    Parameters
    ----------
    delta : ndarray (B, N)
    a : ndarray (B, C)
    form : {"a", "b"}
        Which of the two products is made.
    product : callable
        What multiplies matrices.

    Returns
    -------
    ndarray (N, C)

    Raises
    ------
    ValueError
        If delta and a have another batch, or the form is unknown.

    Notes
    -----
    LayerPipe, Eq. 5.

    Examples
    --------
    >>> dense_G(np.array([[1.0], [2.0]]), np.array([[3.0, 4.0], [5.0, 6.0]]))
    array([[13., 16.]])
    """
    choice(form, "form of G", G_FORMS)
    if len(delta) != len(a):
        raise ValueError(f"delta has a batch of {len(delta)} and a one of {len(a)}; they must be of the same samples")
    return product(a.T, delta).T if form == "a" else product(delta.T, a)


def dense_delta(W, delta, *, product=np.matmul):
    """delta of a dense layer, the gradient with respect to its input: [B, N] x [N, C].

    Parameters
    ----------
    W : ndarray (N, C)
    delta : ndarray (B, N)
    product : callable
        What multiplies matrices.

    Returns
    -------
    ndarray (B, C)

    Raises
    ------
    ValueError
        If the rows of W are not the features of delta.

    Notes
    -----
    LayerPipe, Eq. 4, without the product with f' that follows it.

    Examples
    --------
    >>> dense_delta(np.array([[1.0, 2.0]]), np.array([[3.0], [5.0]]))
    array([[ 3.,  6.],
           [ 5., 10.]])
    """
    _check_dense(delta, "delta", W.shape[0], "rows")
    return product(delta, W)


def _check_dense(array, name, wanted, what):
    if array.ndim != 2 or array.shape[1] != wanted:
        raise ValueError(f"{name} has shape {array.shape}; W has {wanted} {what}, so it must be (batch, {wanted})")


def bias_G(delta):
    """Gradient with respect to the bias of a layer: delta summed over samples and pixels.

    Examples
    --------
    >>> bias_G(np.ones((2, 3, 4, 4)))
    array([32., 32., 32.])
    """
    return delta.sum(axis=(0, *range(2, delta.ndim)))
