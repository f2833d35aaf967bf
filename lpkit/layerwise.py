"""F, G, delta and U of the layers of a plain chain, on numbers.

A layer is a convolution or a dense layer with what follows it up to the next one (activation, pooling, flattening), so
the product with f' belongs to the delta that makes the error of that layer. Functions of a layer know nothing of the
order in which they are called; `lpkit.training` calls them as a graph says.
Source: LayerPipe (ICCAD 2021), Eqs. 1-5.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from lpkit.checks import shown, unknown_name
from lpkit.graph import INPUT
from lpkit.numerics import (
    activate, activation_slope, bias_G, conv_delta, conv_forward, conv_G, dense_delta, dense_forward, dense_G,
    pool_backward, pool_forward,
)  # fmt: skip
from lpkit.operations import Activation, Conv, Dense, Flatten, Pool
from lpkit.products import OPS

__all__ = [
    "ChainLayer", "Error", "Parameters", "Signal", "backpropagation", "backward_tail", "chain_layers",
    "check_parameters", "checked_target", "chosen_products", "forward", "gradients", "initial_parameters",
    "input_error", "input_signal", "output_error", "updated", "weight_shape",
]  # fmt: skip

NUMERIC_ACTIVATIONS = ("relu", "tanh", "sigmoid", "identity")


class Parameters(NamedTuple):
    """W and bias of a layer, or the gradients of both; no bias is None."""

    W: np.ndarray
    bias: np.ndarray | None = None

    @property
    def past(self):
        """The weights that delta multiplies with: these, as they came over the edge from U."""
        return self.W


class Signal(NamedTuple):
    """What F of a layer gives: its output, and for each operation behind the product what its way back needs."""

    value: np.ndarray
    kept: tuple = ()


class Error(NamedTuple):
    """Gradient of the loss with respect to the output of a layer before its activation; from E also the loss."""

    delta: np.ndarray
    loss: float | None = None


@dataclass(frozen=True)
class ChainLayer:
    """A layer of a chain: its Conv or Dense, the shape it reads, and the operations behind it up to the next layer."""

    op: object
    in_shape: tuple
    tail: tuple = ()


def chain_layers(network):
    """The layers of a network that is a plain chain.

    Raises
    ------
    ValueError
        If the network branches, or holds an operation that has no numbers here; the sentence names the node.

    Examples
    --------
    >>> from lpkit.networks import lenet5
    >>> first = chain_layers(lenet5())[0]
    >>> first.op.out_channels, [type(op).__name__ for op in first.tail]
    (6, ['Activation', 'Pool'])
    """
    layers, before = [], INPUT
    for node in network.nodes:
        if node.inputs != (before,):
            raise ValueError(f"node {node.name!r} does not read {before!r} alone; only plain chains have numbers here")
        if isinstance(node.op, (Conv, Dense)):
            layers.append(ChainLayer(node.op, network.shapes[before]))
        elif not _has_numbers(node.op):
            raise ValueError(f"node {node.name!r} is {node.op}, which has no numbers here; known are Conv, Dense, "
                             f"Pool, Flatten and Activation of {', '.join(NUMERIC_ACTIVATIONS)}")  # fmt: skip
        elif layers:
            layers[-1] = replace(layers[-1], tail=(*layers[-1].tail, node.op))
        elif not isinstance(node.op, Flatten):
            raise ValueError(f"node {node.name!r} comes before the first layer; only a Flatten may")
        before = node.name
    if not layers:
        raise ValueError(f"network {network.name!r} has no layer; give it a Conv or a Dense")
    return tuple(layers)


def _has_numbers(op):
    return isinstance(op, (Pool, Flatten)) or (isinstance(op, Activation) and op.kind in NUMERIC_ACTIVATIONS)


def initial_parameters(network, *, seed, dtype=np.float32):
    """Parameters of each layer at the start: W normal with variance 1 / inputs (before ReLU: 2 / inputs), biases 0.

    Notes
    -----
    He, Zhang, Ren, Sun, "Delving deep into rectifiers", arXiv:1502.01852, section 2.2, for the variances.

    Examples
    --------
    >>> from lpkit.networks import lenet5
    >>> start = initial_parameters(lenet5(), seed=0)
    >>> [p.W.shape for p in start][:3], start[0].bias.shape
    ([(6, 1, 5, 5), (16, 6, 5, 5), (120, 400)], (6,))
    """
    rng = np.random.default_rng(seed)
    return tuple(_start(layer, rng, np.dtype(dtype)) for layer in chain_layers(network))


def _start(layer, rng, dtype):
    op, shape = layer.op, weight_shape(layer)
    gain = 2 if any(isinstance(o, Activation) and o.kind == "relu" for o in layer.tail) else 1
    scale = np.sqrt(gain / np.prod(shape[1:]))
    bias = np.zeros(shape[0], dtype) if op.bias else None
    return Parameters((rng.standard_normal(shape) * scale).astype(dtype), bias)


def input_signal(layers, x):
    """A mini-batch x (B, C, H, W) as the first of `layers` reads it, flattened for a dense one.

    Raises
    ------
    ValueError
        If the sizes do not fit.

    Examples
    --------
    >>> from lpkit.networks import lenet5
    >>> input_signal(chain_layers(lenet5()), np.zeros((2, 1, 32, 32))).value.shape
    (2, 1, 32, 32)
    """
    x, wanted = _real_numbers(x, "x of a mini-batch"), layers[0].in_shape
    if not x.ndim or not len(x):
        raise ValueError(f"x of a mini-batch has shape {x.shape}; give one sample or more of shape {wanted}")
    if np.prod(x.shape[1:]) != np.prod(wanted) or (isinstance(layers[0].op, Conv) and x.shape[1:] != wanted):
        raise ValueError(f"a sample has shape {x.shape[1:]}; the network reads {wanted}")
    return Signal(x.reshape(len(x), -1) if isinstance(layers[0].op, Dense) else x)


def checked_target(target):
    """The target of a mini-batch as an array of real numbers; the loss looks at its shape.

    Raises
    ------
    ValueError
        If it holds anything else.

    Examples
    --------
    >>> checked_target([3, 1])
    array([3, 1])
    """
    return _real_numbers(target, "the target (labels) of a mini-batch")


def _real_numbers(value, name):
    try:
        array = np.asarray(value)
    except ValueError:  # rows of several lengths
        array = np.asarray(None)
    if array.dtype.kind not in "fiu":
        raise ValueError(f"{name} is {shown(value)}; it must be real numbers, in an array or a list")
    return array


def check_parameters(layers, parameters):
    """Refuse parameters that are not those of `layers`.

    Raises
    ------
    ValueError
        Names the layer and what it needs.

    Examples
    --------
    >>> check_parameters([ChainLayer(Dense(1), (2, 1, 1))], [Parameters(np.zeros((2, 1)))])
    Traceback (most recent call last):
    ...
    ValueError: W of layer 1 has shape (2, 1); it must be (1, 2)
    """
    if not isinstance(parameters, (tuple, list)):
        raise ValueError(  # noqa: TRY004 - bad input is a ValueError everywhere
            f"parameters is {shown(parameters)}; give one set a layer, such as initial_parameters makes"
        )
    if len(parameters) != len(layers):
        raise ValueError(f"there are parameters of {len(parameters)} layers for {len(layers)}; give one set a layer")
    for l, (layer, p) in enumerate(zip(layers, parameters), 1):
        if not hasattr(p, "W") or not hasattr(p, "bias"):
            raise ValueError(f"parameters of layer {l} are {shown(p)}; give Parameters(W, bias)")
        _check_array(p.W, f"W of layer {l}", weight_shape(layer))
        if (p.bias is not None) != layer.op.bias:
            raise ValueError(f"layer {l} has {'a' if layer.op.bias else 'no'} bias; give its parameters the same")
        if layer.op.bias:
            _check_array(p.bias, f"bias of layer {l}", weight_shape(layer)[:1])


def _check_array(array, name, shape):
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiu":
        raise ValueError(f"{name} is {shown(array)}; it must be an array of real numbers of shape {shape}")
    if array.shape != shape:
        raise ValueError(f"{name} has shape {array.shape}; it must be {shape}")


def weight_shape(layer):
    """Shape of W of a layer.

    Examples
    --------
    >>> weight_shape(ChainLayer(Dense(5), (2, 3, 3)))
    (5, 18)
    """
    op, (C, H, W) = layer.op, layer.in_shape
    return (op.out_channels, C // op.groups, *op.kernel) if isinstance(op, Conv) else (op.out_features, C * H * W)


def forward(layer, parameters, before, *, product=np.matmul):
    """F of a layer: the signal behind it, from its parameters and the signal before it.

    Notes
    -----
    LayerPipe, Eqs. 1 and 2.

    Examples
    --------
    >>> layer = ChainLayer(Dense(1), (2, 1, 1), (Activation("relu"),))
    >>> forward(layer, Parameters(np.array([[1.0, -2.0]]), np.array([0.5])), Signal(np.array([[3.0, 1.0]]))).value
    array([[1.5]])
    """
    W, bias = parameters.W, parameters.bias
    if isinstance(layer.op, Conv):
        value = conv_forward(W, before.value, layer.op, product=product)
        value = value if bias is None else value + bias[:, None, None]
    else:
        value = dense_forward(W, before.value.reshape(len(before.value), -1), product=product)
        value = value if bias is None else value + bias
    kept = []
    for op in layer.tail:
        value, note = _forward_through(op, value)
        kept.append(note)
    return Signal(value, tuple(kept))


def _forward_through(op, value):
    """The value behind an operation of a tail, and what its way back needs."""
    if isinstance(op, Activation):
        out = activate(value, op.kind)
        return out, out
    if isinstance(op, Pool):
        out, winner = pool_forward(value, op)
        return out, (winner, value.shape[1:])
    return value.reshape(len(value), -1), value.shape[1:]


def backward_tail(layer, signal, error):
    """The error before the tail of a layer, from the one behind it: for an activation the product with f'.

    Parameters
    ----------
    layer : ChainLayer
    signal : Signal
        What `forward` gave for this layer.
    error : ndarray
        Gradient of the loss with respect to ``signal.value``; may be flat.

    Examples
    --------
    >>> layer = ChainLayer(Dense(1), (2, 1, 1), (Activation("tanh"),))
    >>> backward_tail(layer, Signal(np.array([[0.5]]), (np.array([[0.5]]),)), np.array([[2.0]]))
    array([[1.5]])
    """
    error = error.reshape(signal.value.shape)
    for op, note in zip(reversed(layer.tail), reversed(signal.kept)):
        if isinstance(op, Activation):
            error = error * activation_slope(note, op.kind)
        elif isinstance(op, Pool):
            winner, shape = note
            error = pool_backward(error, winner, op, shape)
        else:
            error = error.reshape(len(error), *note)
    return error


def gradients(layer, before, error, *, product=np.matmul):
    """G of a layer: the gradients of its parameters.

    Notes
    -----
    LayerPipe, Eq. 5.

    Examples
    --------
    >>> layer = ChainLayer(Dense(1), (2, 1, 1))
    >>> gradients(layer, Signal(np.array([[3.0, 1.0]])), Error(np.array([[2.0]])))
    Parameters(W=array([[6., 2.]]), bias=array([2.]))
    """
    if isinstance(layer.op, Conv):
        W = conv_G(error.delta, before.value, layer.op, product=product)
    else:
        W = dense_G(error.delta, before.value.reshape(len(before.value), -1), product=product)
    return Parameters(W, bias_G(error.delta) if layer.op.bias else None)


def input_error(layer, W, error, *, product=np.matmul, channels=None):
    """delta of a layer without the product with f': the error at what it reads, (B, C, H, W) or (B, C).

    `channels` (a range) computes those input channels alone, the columns of the product: a part of a split delta.

    Parameters
    ----------
    layer : ChainLayer
    W : ndarray
        Weights, as `lpkit.numerics` lays them.
    error : Error
        At the output of the layer.
    product : callable
        What multiplies matrices.
    channels : range, optional
        Input channels that are computed; by default all.

    Raises
    ------
    ValueError
        If the error does not fit the weights.

    Notes
    -----
    LayerPipe, Eq. 4 and Fig. 5.

    Examples
    --------
    >>> layer = ChainLayer(Dense(1), (3, 1, 1))
    >>> W, error = np.array([[1.0, 2.0, 3.0]]), Error(np.array([[2.0]]))
    >>> input_error(layer, W, error), input_error(layer, W, error, channels=range(2, 3))
    (array([[2., 4., 6.]]), array([[6.]]))
    """
    if isinstance(layer.op, Dense):
        W = W if channels is None else W[:, channels.start : channels.stop]
        return dense_delta(W, error.delta, product=product)
    if channels is None:
        return conv_delta(W, error.delta, layer.op, layer.in_shape, product=product)
    op, W, delta = _part(layer, W, error.delta, channels)
    return conv_delta(W, delta, op, (len(channels), *layer.in_shape[1:]), product=product)


def _part(layer, W, delta, channels):
    """The convolution that reads only `channels`."""
    op, per_group = layer.op, layer.in_shape[0] // layer.op.groups
    if op.groups == 1:
        return op, W[:, channels.start : channels.stop], delta
    first, last = channels.start // per_group, channels.stop // per_group
    outputs = slice(first * (op.out_channels // op.groups), last * (op.out_channels // op.groups))
    W = W[outputs]
    return replace(op, groups=last - first, out_channels=len(W)), W, delta[:, outputs]


def updated(parameters, gradient, step_size):
    """U of a layer: one step down the gradient.

    Examples
    --------
    >>> updated(Parameters(np.array([1.0])), Parameters(np.array([4.0])), 0.25)
    Parameters(W=array([0.]), bias=None)
    """
    bias = None if parameters.bias is None else parameters.bias - step_size * gradient.bias
    return Parameters(parameters.W - step_size * gradient.W, bias)


def output_error(layer, signal, target, loss):
    """E: the loss, and the error at the output of the last layer before its activation.

    Parameters
    ----------
    layer : ChainLayer
        The last one.
    signal : Signal
        What it made.
    target : ndarray
    loss : callable
        ``loss(output, target) -> (value, error)``, such as `lpkit.numerics.squared_error`.

    Raises
    ------
    ValueError
        As `checked_target` and the loss.

    Examples
    --------
    >>> from lpkit.numerics import squared_error
    >>> output_error(ChainLayer(Dense(1), (2, 1, 1)), Signal(np.array([[3.0]])), np.array([[1.0]]), squared_error)
    Error(delta=array([[2.]]), loss=2.0)
    """
    value, error = loss(signal.value, checked_target(target))
    return Error(backward_tail(layer, signal, error), value)


def backpropagation(layers, parameters, x, target, loss, *, products=None):
    """Gradients of all layers at `parameters` on one mini-batch, and the loss; `products` as in `chosen_products`.

    Returns
    -------
    list of Parameters, float

    Notes
    -----
    LayerPipe, Eqs. 1-5.

    Examples
    --------
    >>> from lpkit.numerics import squared_error
    >>> layers, start = [ChainLayer(Dense(1, bias=False), (2, 1, 1))], [Parameters(np.array([[1.0, 0.0]]))]
    >>> backpropagation(layers, start, np.array([[3.0, 1.0]]), np.array([[1.0]]), squared_error)
    ([Parameters(W=array([[6., 2.]]), bias=None)], 2.0)
    """
    by = chosen_products(products)
    signals = [input_signal(layers, x)]
    for layer, p in zip(layers, parameters):
        signals.append(forward(layer, p, signals[-1], product=by["F"]))
    error = output_error(layers[-1], signals[-1], target, loss)
    value, found = error.loss, []
    for l in reversed(range(len(layers))):
        found.append(gradients(layers[l], signals[l], error, product=by["G"]))
        if l:
            back = input_error(layers[l], parameters[l].W, error, product=by["delta"])
            error = Error(backward_tail(layers[l - 1], signals[l], back))
    return found[::-1], value


def chosen_products(products):
    """What multiplies in F, G and delta: `numpy.matmul` where `products` names nothing else.

    Raises
    ------
    ValueError
        If it names another operation than F, G and delta.

    Examples
    --------
    >>> chosen_products({"delta": np.dot})["F"] is np.matmul
    True
    """
    unknown = [op for op in products or () if op not in OPS]
    if unknown:
        raise unknown_name(unknown[0], "an operation in products", OPS)
    return dict.fromkeys(OPS, np.matmul) | dict(products or {})
