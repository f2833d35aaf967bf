"""AlexNet for CIFAR-10 in numpy: scores, and the gradient of a function of the scores with respect to the image.

An `ImageNetwork` is a plain chain of layers with its parameters and the normalisation of its images. It runs the F and
delta of `lpkit.numerics` and no G: an attack moves the image, not the weights. The samples of a batch lie side by side
in memory, and a large batch is done a part at a time, so that the matrices of a layer stay in the processor's cache.
Sources: Krizhevsky, "One weird trick for parallelizing convolutional neural networks", arXiv:1404.5997, in the small
form in common use for CIFAR-10; LayerPipe (ICCAD 2021), Eqs. 1, 2 and 4, for F and delta.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lpkit.checks import shown
from lpkit.datasets import CIFAR10_CLASSES
from lpkit.graph import INPUT, Network, Node
from lpkit.layerwise import Error, Signal, backward_tail, chain_layers, check_parameters, forward, input_error
from lpkit.operations import Activation, Conv, Dense, Flatten, Pool
from lpkit.weights import checked_weights, read_parameters

__all__ = ["CIFAR10_DEVIATION", "CIFAR10_MEAN", "ImageNetwork", "alexnet_cifar10", "trained_alexnet"]

CIFAR10_MEAN = (0.4914, 0.4822, 0.4465)  # red, green, blue over the training images, in [0, 1]
CIFAR10_DEVIATION = (0.2023, 0.1994, 0.2010)  # the mean of the deviations within an image, as is usual
PART = 50  # images at a time


def alexnet_cifar10(*, classes=10):
    """AlexNet for 3 x 32 x 32 images: five convolutions and one dense layer (2,472,266 parameters).

    Examples
    --------
    >>> alexnet_cifar10().parameters, [layer.name for layer in alexnet_cifar10().layers]
    (2472266, ['conv1', 'conv2', 'conv3', 'conv4', 'conv5', 'fc'])
    """
    filters = [Conv(64, 11, stride=4, padding=5), Conv(192, 5, padding=2)]
    filters += [Conv(channels, 3, padding=1) for channels in (384, 256, 256)]
    steps = []
    for i, conv in enumerate(filters, 1):
        steps += [(f"conv{i}", conv), (f"relu{i}", Activation())]
        steps += [(f"pool{i}", Pool(2))] if i in (1, 2, 5) else []
    steps += [("flatten", Flatten()), ("fc", Dense(classes))]
    reads = [INPUT, *(name for name, _ in steps)]
    return Network("alexnet_cifar10", (3, 32, 32), tuple(Node(name, op, r) for (name, op), r in zip(steps, reads)))


def trained_alexnet(path=None):
    """AlexNet for CIFAR-10 with trained weights: 74.0 % of the test images (JPEG copies of them) right.

    Parameters
    ----------
    path : path, optional
        Other weights of `alexnet_cifar10`, such as ``scripts/train_alexnet.py`` writes; default are those in
        ``data/alexnet_cifar10_fp16.npz`` of the repository, whose checksum is verified.

    Raises
    ------
    FileNotFoundError, ValueError
        If the file is missing, cut off or holds other weights; the sentence names it.

    Examples
    --------
    >>> trained_alexnet().scores(np.full((1, 3, 32, 32), 0.5)).shape
    (1, 10)
    """
    network = alexnet_cifar10()
    parameters = read_parameters(checked_weights() if path is None else path, network)
    return ImageNetwork(network, parameters, CIFAR10_MEAN, CIFAR10_DEVIATION, CIFAR10_CLASSES)


@dataclass(frozen=True, eq=False)
class ImageNetwork:
    """A trained chain of layers that maps images in [0, 1] to scores; float32.

    Parameters
    ----------
    network : Network
        A plain chain that ends in a dense layer.
    parameters : tuple of Parameters
        One a layer.
    mean, deviation : tuple of float
        One a channel; the layers see (image - mean) / deviation.
    classes : tuple of str, optional
        Their names.

    Raises
    ------
    ValueError
        If the parameters or the normalisation do not fit the network.

    Examples
    --------
    >>> from lpkit.layerwise import Parameters
    >>> line = Network("line", (1, 1, 2), (Node("flat", Flatten(), INPUT), Node("fc", Dense(2), "flat")))
    >>> weights = Parameters(np.float32([[1, 2], [3, 4]]), np.float32([0, 1]))
    >>> net = ImageNetwork(line, (weights,), (0.0,), (0.5,))
    >>> image = np.float32([[[[0.5, 1.0]]]])
    >>> net.scores(image)
    array([[ 5., 12.]], dtype=float32)
    >>> net.scores_and_gradient(image, lambda scores: np.float32([[0, 1]]))[1]
    array([[[[6., 8.]]]], dtype=float32)
    """

    network: Network
    parameters: tuple
    mean: tuple
    deviation: tuple
    classes: tuple | None = None

    def __post_init__(self):
        check_parameters(self.layers, self.parameters)
        channels, count = self.input_shape[0], self.layers[-1].op.out_features
        named = isinstance(self.classes, (tuple, list)) and len(self.classes) == count
        if self.classes is not None and not named:
            raise ValueError(f"classes are {shown(self.classes)}; give one name for each of {count} scores, or None")
        for name, least in (("mean", -np.inf), ("deviation", 0)):
            values = np.asarray(getattr(self, name), dtype=float)
            if values.shape != (channels,) or not np.isfinite(values).all() or values.min() <= least:
                raise ValueError(f"{name} is {shown(getattr(self, name))}; give one number for each of {channels} "
                                 f"channels{', above 0' * (name == 'deviation')}")  # fmt: skip

    @cached_property
    def layers(self):
        """As of `lpkit.layerwise.chain_layers`."""
        return chain_layers(self.network)

    @property
    def input_shape(self):
        """(channels, height, width) of an image."""
        return self.network.input_shape

    def scores(self, images):
        """Scores (logits), float32 (B, classes), of images (B, C, H, W) in [0, 1]."""
        return np.concatenate([self._forward(part)[-1].value for part in self._parts(images)])

    def scores_and_gradient(self, images, error_of_scores):
        """Scores of images, and the gradient with respect to them of a function of the scores.

        Parameters
        ----------
        images : ndarray (B, C, H, W)
        error_of_scores : callable
            From scores (b, classes) of some of the images to the gradient of the function with respect to them.

        Returns
        -------
        ndarray (B, classes), ndarray (B, C, H, W)
            float32.
        """
        scores, gradients = [], np.empty(np.shape(images), np.float32)
        for n, part in enumerate(self._parts(images)):
            signals = self._forward(part)
            scores.append(signals[-1].value)
            gradients[n * PART : (n + 1) * PART] = self._backward(signals, error_of_scores(scores[-1]))
        return np.concatenate(scores), gradients

    def _parts(self, images):
        """The images, normalised, a part at a time, the samples of a part side by side in memory."""
        images = np.asarray(images)
        fits = images.ndim == 4 and len(images) and images.shape[1:] == self.input_shape
        if not fits or images.dtype.kind not in "fiu":
            raise ValueError(f"images have shape {images.shape} and type {images.dtype}; {self.network.name} reads "
                             f"numbers of shape (images, {', '.join(map(str, self.input_shape))})")  # fmt: skip
        mean, deviation = (np.array(v, np.float32)[:, None, None, None] for v in (self.mean, self.deviation))
        for start in range(0, len(images), PART):
            part = images[start : start + PART].transpose(1, 2, 3, 0).astype(np.float32, order="C")
            part -= mean
            part /= deviation
            yield part.transpose(3, 0, 1, 2)

    def _forward(self, images):
        """The signal before the first layer and behind each one."""
        signals = [Signal(images if isinstance(self.layers[0].op, Conv) else images.reshape(len(images), -1))]
        for layer, p in zip(self.layers, self.parameters):
            signals.append(forward(layer, p, signals[-1]))
        return signals

    def _backward(self, signals, error):
        """The error at the images from the one at the scores."""
        for l in reversed(range(len(self.layers))):
            error = backward_tail(self.layers[l], signals[l + 1], np.asarray(error, np.float32))
            error = input_error(self.layers[l], self.parameters[l].W, Error(error))
        shape = np.array(self.deviation, np.float32)[:, None, None]
        return error.reshape(-1, *self.input_shape) / shape
