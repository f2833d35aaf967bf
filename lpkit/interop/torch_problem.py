"""PyTorch modules as classifiers of lpkit, and networks of lpkit as PyTorch modules; needs the extra ``torch``.

`from_torch` gives any `torch.nn.Module` the two methods that `lpkit.attack.LinfAttack` asks of a network, so that an
attack is computed on it as on a network of numpy. `to_torch` goes the other way, for training and for comparison.
Arrays that go in and come out are numpy, float32.
"""

import importlib
from dataclasses import dataclass

import numpy as np

from lpkit.checks import not_installed, shown
from lpkit.layerwise import chain_layers, check_parameters
from lpkit.operations import Activation, Dense, Pool

__all__ = ["TorchClassifier", "from_torch", "to_torch"]

_ACTIVATIONS = {"relu": "ReLU", "tanh": "Tanh", "sigmoid": "Sigmoid", "identity": "Identity"}


def _torch():
    try:
        return importlib.import_module("torch")
    except ImportError:
        raise not_installed("torch", "torch") from None


@dataclass(frozen=True, eq=False)
class TorchClassifier:
    """A PyTorch module with the methods of `lpkit.image_network.ImageNetwork`; made by `from_torch`."""

    module: object
    input_shape: tuple
    mean: object
    deviation: object
    classes: tuple | None = None

    def scores(self, images):
        """Scores (logits), float32 (B, classes), of images (B, C, H, W) in [0, 1]."""
        with _torch().no_grad():
            return self._forward(self._tensor(images)).numpy()

    def scores_and_gradient(self, images, error_of_scores):
        """Scores of images, and the gradient with respect to them of a function of the scores.

        Parameters
        ----------
        images : ndarray (B, C, H, W)
        error_of_scores : callable
            From scores (B, classes) to the gradient with respect to them, (B, classes).

        Returns
        -------
        ndarray (B, classes), ndarray (B, C, H, W)
        """
        torch, x = _torch(), self._tensor(images).requires_grad_()
        out = self._forward(x)
        scores = out.detach().numpy()
        error = torch.from_numpy(np.ascontiguousarray(error_of_scores(scores), dtype=np.float32))
        return scores, torch.autograd.grad(out, x, error)[0].numpy()

    def _tensor(self, images):
        return _torch().from_numpy(np.array(images, dtype=np.float32))

    def _forward(self, x):
        out = self.module((x - self.mean) / self.deviation)
        if out.ndim != 2 or len(out) != len(x):
            raise ValueError(f"the module gives an output of shape {tuple(out.shape)} for {len(x)} images; "
                             "it must give one row of scores an image")  # fmt: skip
        return out


def from_torch(module, *, input_shape=(3, 32, 32), mean=0.0, deviation=1.0, classes=None):
    """Any PyTorch module that maps images to scores, as a network to attack; it is put into evaluation mode.

    Parameters
    ----------
    module : torch.nn.Module
        From (B, C, H, W) to scores (B, classes), float32, on the CPU.
    input_shape : tuple (C, H, W)
    mean, deviation : float or one a channel
        The module is shown (image - mean) / deviation of images in [0, 1]; leave both if it does so itself.
    classes : tuple of str, optional
        Names of the classes.

    Raises
    ------
    ValueError
        If PyTorch is not installed, this is no module, or the normalisation does not fit.

    Examples
    --------
    >>> import torch  # doctest: +SKIP
    >>> net = from_torch(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 3)),  # doctest: +SKIP
    ...                  input_shape=(3, 2, 2))
    >>> net.scores(np.zeros((5, 3, 2, 2))).shape  # doctest: +SKIP
    (5, 3)
    """
    torch = _torch()
    if not isinstance(module, torch.nn.Module):
        raise ValueError(f"module is {shown(module)}; it must be a torch.nn.Module")  # noqa: TRY004
    scale = [_per_channel(torch, v, name, input_shape[0]) for v, name in ((mean, "mean"), (deviation, "deviation"))]
    if not bool((scale[1] > 0).all()):
        raise ValueError(f"deviation is {shown(deviation)}; it must be above 0")
    return TorchClassifier(module.eval(), tuple(input_shape), *scale, None if classes is None else tuple(classes))


def _per_channel(torch, value, name, channels):
    array = np.atleast_1d(np.asarray(value, dtype=np.float32))
    if array.shape not in ((1,), (channels,)) or not np.isfinite(array).all():
        raise ValueError(f"{name} is {shown(value)}; it must be one number, or one for each of {channels} channels")
    return torch.from_numpy(array)[:, None, None]


def to_torch(network, parameters):
    """A plain chain of lpkit as a `torch.nn.Sequential` with these parameters.

    Parameters
    ----------
    network : Network
    parameters : sequence of Parameters
        One a layer, as of `lpkit.layerwise.initial_parameters`.

    Raises
    ------
    ValueError
        If PyTorch is not installed, the network is no plain chain, or it holds what is not translated.

    Examples
    --------
    >>> from lpkit.layerwise import initial_parameters  # doctest: +SKIP
    >>> from lpkit.networks import lenet5  # doctest: +SKIP
    >>> sum(p.numel() for p in to_torch(lenet5(), initial_parameters(lenet5(), seed=0)).parameters())  # doctest: +SKIP
    61706
    """
    torch, layers = _torch(), chain_layers(network)
    check_parameters(layers, parameters)
    modules = []
    for layer, p in zip(layers, parameters):
        modules += [_module(torch, layer, p), *(_behind(torch, op) for op in layer.tail)]
    return torch.nn.Sequential(*modules)


def _module(torch, layer, parameters):
    """The convolution or dense layer itself."""
    op, channels = layer.op, layer.in_shape[0]
    if isinstance(op, Dense):
        module = torch.nn.Linear(channels, op.out_features, bias=op.bias)
    else:
        module = torch.nn.Conv2d(channels, op.out_channels, op.kernel, op.stride, op.padding, op.dilation, op.groups,
                                 bias=op.bias)  # fmt: skip
    with torch.no_grad():
        module.weight.copy_(torch.from_numpy(np.array(parameters.W)))
        if op.bias:
            module.bias.copy_(torch.from_numpy(np.array(parameters.bias)))
    return module


def _behind(torch, op):
    """What stands between two layers."""
    if isinstance(op, Activation):
        return getattr(torch.nn, _ACTIVATIONS[op.kind])()
    if not isinstance(op, Pool):
        return torch.nn.Flatten()
    if op.kind == "max":
        return torch.nn.MaxPool2d(op.kernel, op.stride, op.padding, ceil_mode=op.ceil_mode)
    return torch.nn.AvgPool2d(op.kernel, op.stride, op.padding, ceil_mode=op.ceil_mode, count_include_pad=False)
