"""What happens between the matrix products: activations, pooling, and the losses at the end, there and back.

Arrays are batch first, (B, C, H, W) or (B, C); float32 stays float32.
Sources: LayerPipe (ICCAD 2021), Eqs. 2 and 4 (f and the product with f'); Dumoulin and Visin, arXiv:1603.07285, for
the windows of a pooling.
"""

import numpy as np

from lpkit.checks import choice
from lpkit.operations import output_shape

__all__ = [
    "activate", "activation_slope", "padded_images", "pool_backward", "pool_forward", "softmax_cross_entropy",
    "squared_error", "tap_pixels",
]  # fmt: skip


# activations ---------------------------------------------------------------------------------------------------------


def _sigmoid(z):
    # tanh neither overflows nor loses the small values
    return z.dtype.type(0.5) * (np.tanh(z.dtype.type(0.5) * z) + z.dtype.type(1))


_ACTIVATIONS = {  # f(z), and f'(z) written in a = f(z), so that only a is kept for the way back
    "relu": (lambda z: np.maximum(z, 0), lambda a: (a > 0).astype(a.dtype)),
    "tanh": (np.tanh, lambda a: 1 - a * a),
    "sigmoid": (_sigmoid, lambda a: a * (1 - a)),
    "identity": (lambda z: z, np.ones_like),
}


def activate(z, kind):
    """f(z), element by element; `kind` is relu, tanh, sigmoid or identity.

    Raises
    ------
    ValueError
        For another kind.

    Notes
    -----
    LayerPipe, Eq. 2.

    Examples
    --------
    >>> activate(np.array([-1.0, 2.0]), "relu")
    array([0., 2.])
    """
    return _ACTIVATIONS[choice(kind, "activation", tuple(_ACTIVATIONS))][0](z)


def activation_slope(a, kind):
    """f'(z) from a = f(z), so that z need not be kept; that of ReLU at 0 is 0.

    Raises
    ------
    ValueError
        For an unknown kind.

    Examples
    --------
    >>> activation_slope(np.array([0.0, 0.5]), "tanh")
    array([1.  , 0.75])
    """
    return _ACTIVATIONS[choice(kind, "activation", tuple(_ACTIVATIONS))][1](a)


# pooling -------------------------------------------------------------------------------------------------------------


def tap_pixels(padded, tap, output, stride, dilation=(1, 1)):
    """View of the pixels of `padded` (..., H, W) that one tap of a kernel meets, one an output pixel.

    Parameters
    ----------
    padded : ndarray (..., H, W)
    tap : (int, int)
        Row and column in the kernel.
    output : (int, int)
        Rows and columns of the output.
    stride, dilation : (int, int)

    Returns
    -------
    ndarray (..., E_h, E_w)

    Examples
    --------
    >>> tap_pixels(np.arange(16).reshape(1, 1, 4, 4), (0, 1), (2, 2), (2, 2))[0, 0]
    array([[ 1,  3],
           [ 9, 11]])
    """
    rows, columns = (slice(t * d, t * d + s * (E - 1) + 1, s) for t, d, s, E in zip(tap, dilation, stride, output))
    return padded[..., rows, columns]


def pool_forward(a, op):
    """Max or average pooling, and what its way back needs.

    An average divides by the pixels inside the input, the padding not counted.

    Parameters
    ----------
    a : ndarray (B, C, H, W)
    op : lpkit.networks.Pool

    Returns
    -------
    ndarray (B, C, E_h, E_w), and for max the tap (a small int) that won in each window (the first of equals), else None

    Raises
    ------
    ValueError
        If the windows do not fit.

    Examples
    --------
    >>> from lpkit.operations import Pool
    >>> out, winner = pool_forward(np.arange(16.0).reshape(1, 1, 4, 4), Pool(2))
    >>> out[0, 0], winner[0, 0]
    (array([[ 5.,  7.],
           [13., 15.]]), array([[3, 3],
           [3, 3]], dtype=uint8))
    """
    output = output_shape(op, a.shape[1:])[1:]
    padded = _pool_padded(a, op, output, -np.inf if op.kind == "max" else 0)
    taps = [tap_pixels(padded, tap, output, op.stride) for tap in np.ndindex(*op.kernel)]
    if op.kind == "average":
        return sum(taps[1:], taps[0]) / _pool_counts(a, op, output), None
    best, winner = taps[0].copy(order="K"), np.zeros_like(taps[0], dtype=np.min_scalar_type(len(taps)))
    for t, value in enumerate(taps[1:], 1):
        larger = value > best
        np.copyto(best, value, where=larger)
        np.copyto(winner, t, where=larger)
    return best, winner


def pool_backward(delta, winner, op, input_shape):
    """The gradient with respect to the input of a pooling, from that of its output and the winners of `pool_forward`.

    Parameters
    ----------
    delta : ndarray (B, C, E_h, E_w)
    winner : ndarray of int, shaped as delta, or None
        From `pool_forward`; None of an average.
    op : Pool
    input_shape : tuple of int
        (C, H, W).

    Returns
    -------
    ndarray (B, C, H, W)

    Examples
    --------
    >>> from lpkit.operations import Pool
    >>> pool_backward(np.full((1, 1, 1, 1), 8.0), None, Pool(2, kind="average"), (1, 2, 2))[0, 0]
    array([[2., 2.],
           [2., 2.]])
    """
    output, (p, q), (H, width) = delta.shape[2:], op.padding, input_shape[1:]
    layout = delta if winner is None else winner  # the memory of what comes back lies as that of the input did
    whole = np.zeros_like(layout, dtype=delta.dtype, shape=(len(delta), *input_shape))
    padded = _pool_padded(whole, op, output, 0)
    share = delta / _pool_counts(whole, op, output) if op.kind == "average" else delta
    for t, tap in enumerate(np.ndindex(*op.kernel)):
        tap_pixels(padded, tap, output, op.stride)[...] += share if winner is None else np.where(winner == t, share, 0)
    return padded[:, :, p : p + H, q : q + width]


def padded_images(a, around, value=0):
    """Images (B, C, H, W) with rows and columns of `value` around, `around` as in `numpy.pad`; memory lies as in `a`.

    Parameters
    ----------
    a : ndarray (B, C, H, W)
    around : pair of pairs of int
        Rows above and below, columns left and right.
    value : number

    Returns
    -------
    ndarray (B, C, H + rows, W + columns)

    Examples
    --------
    >>> padded_images(np.ones((1, 1, 1, 2)), [(0, 1), (1, 0)])[0, 0]
    array([[0., 1., 1.],
           [0., 0., 0.]])
    """
    (top, bottom), (left, right) = around
    (H, W), shape = a.shape[2:], a.shape[:2]
    padded = np.full_like(a, value, shape=(*shape, top + H + bottom, left + W + right))
    padded[:, :, top : top + H, left : left + W] = a
    return padded


def _pool_padded(a, op, output, value):
    """`a` with its padding, and as much more behind as the last, ragged windows of `ceil_mode` reach."""
    behind = (
        max(0, s * (E - 1) + k - h - p)
        for s, E, k, h, p in zip(op.stride, output, op.kernel, a.shape[2:], op.padding)
    )
    around = [(p, b) for p, b in zip(op.padding, behind)]
    return padded_images(a, around, value) if np.any(around) else a


def _pool_counts(a, op, output):
    """Pixels inside the input in each window, (E_h, E_w)."""
    counts = []
    for axis in (0, 1):
        start = np.arange(output[axis]) * op.stride[axis] - op.padding[axis]
        counts.append(np.minimum(start + op.kernel[axis], a.shape[2 + axis]) - np.maximum(start, 0))
    return np.multiply.outer(*counts).astype(a.dtype)


# losses --------------------------------------------------------------------------------------------------------------


def softmax_cross_entropy(output, labels):
    """Mean cross-entropy of a batch, and its gradient with respect to the output (logits).

    Parameters
    ----------
    output : ndarray (B, classes)
    labels : ndarray (B,) of int

    Returns
    -------
    float, ndarray (B, classes)

    Raises
    ------
    ValueError
        If the labels are not one class number a sample.

    Examples
    --------
    >>> value, delta = softmax_cross_entropy(np.zeros((1, 2)), np.array([0]))
    >>> round(value, 4), delta
    (0.6931, array([[-0.5,  0.5]]))
    """
    _check_labels(output, labels)
    shifted = output - output.max(axis=1, keepdims=True)
    exponentials = np.exp(shifted)
    sums = exponentials.sum(axis=1, keepdims=True)
    rows = np.arange(len(output))
    value = float(np.mean(np.log(sums[:, 0]) - shifted[rows, labels]))
    delta = exponentials / sums
    delta[rows, labels] -= 1
    return value, delta / delta.dtype.type(len(output))


def _check_labels(output, labels):
    fits = labels.shape == output.shape[:1] and np.issubdtype(labels.dtype, np.integer)
    if not fits or labels.min() < 0 or labels.max() >= output.shape[1]:
        raise ValueError(
            f"labels have shape {labels.shape} and type {labels.dtype} for an output of {output.shape}; "
            f"give one whole number from 0 to {output.shape[1] - 1} a sample"
        )


def squared_error(output, target):
    """Half the squared error, summed over features, mean over the batch; and its gradient with respect to the output.

    Raises
    ------
    ValueError
        If the shapes differ.

    Examples
    --------
    >>> squared_error(np.array([[3.0], [1.0]]), np.array([[1.0], [1.0]]))
    (1.0, array([[1.],
           [0.]]))
    """
    if output.shape != target.shape:
        raise ValueError(f"the target has shape {target.shape} and the output {output.shape}; they must be the same")
    error = output - target
    return float(np.sum(error * error) / (2 * len(error))), error / error.dtype.type(len(error))
