"""Does delay hurt, and must the old weights be kept? Loss curves on real data, over step sizes and seeds.

The methods are those of `lpkit.old_weights`, whose public names are public names of this module too. The other way
out, k trainings that take turns in one pipeline so that no gradient is late, is `lpkit.interleaving`.
Source: LayerPipe (ICCAD 2021), section III, which takes from DLMS that late gradients hardly hurt at small step sizes;
here it is measured.
"""

from itertools import product

import numpy as np
import pandas as pd

from lpkit.checks import choice, whole_number
from lpkit.datasets import digits, minibatches
from lpkit.layerwise import chain_layers, check_parameters, checked_target, forward, initial_parameters, input_signal
from lpkit.networks import Activation, Dense, Flatten, Network, Node
from lpkit.old_weights import (
    METHODS, Averaged, averaged_update, delta_lateness, followed, method_graph, pipelined, reconstruction_error,
    train_by, weight_memory,
)  # fmt: skip

__all__ = [
    "METHODS", "Averaged", "accuracy", "averaged_update", "compare_methods", "delta_lateness", "digits_mlp", "followed",
    "method_graph", "pipelined", "reconstruction_error", "summarise", "train_by", "weight_memory",
]  # fmt: skip


def accuracy(network, parameters, x, labels):
    """Share of samples whose class the network names.

    Parameters
    ----------
    network : Network
    parameters : tuple of Parameters
        One a layer.
    x : array (B, C, H, W)
    labels : array (B,)
        Class numbers.

    Raises
    ------
    ValueError
        If the parameters, samples or labels do not fit.

    Examples
    --------
    >>> network = digits_mlp(2)
    >>> accuracy(network, initial_parameters(network, seed=0), np.ones((2, 1, 8, 8)), np.array([8, 9]))
    0.5
    """
    layers = chain_layers(network)
    check_parameters(layers, parameters)
    signal, labels = input_signal(layers, x), checked_target(labels)
    if labels.shape != signal.value.shape[:1]:
        raise ValueError(f"labels have shape {labels.shape} for {len(signal.value)} samples; give one a sample")
    for layer, p in zip(layers, parameters):
        signal = forward(layer, p, signal)
    return float(np.mean(signal.value.argmax(axis=1) == labels))


def digits_mlp(layers=6, *, width=32, activation="tanh", input_shape=(1, 8, 8)):
    """A chain of dense layers that names one of ten classes, by default of the 8 x 8 digits.

    Parameters
    ----------
    layers : int
        Dense layers.
    width : int
        Features of each but the last.
    activation : str
        A kind of `lpkit.operations.Activation`.
    input_shape : tuple of int
        (C, H, W).

    Returns
    -------
    Network

    Raises
    ------
    ValueError
        If a size is not a whole number of at least 1, or the activation is unknown.

    Examples
    --------
    >>> [layer.weights for layer in digits_mlp(3, width=16).layers]
    [1024, 256, 160]
    """
    nodes, before = [Node("flatten", Flatten(), "input")], "flatten"
    for l in range(1, whole_number(layers, "layers")):
        nodes += [Node(f"fc{l}", Dense(width), before), Node(f"act{l}", Activation(activation), f"fc{l}")]
        before = f"act{l}"
    return Network(f"digits_mlp{layers}", input_shape, (*nodes, Node(f"fc{layers}", Dense(10), before)))


def compare_methods(*, network=None, dataset=None, methods=METHODS, step_sizes=(0.01, 0.03, 0.1), seeds=3, epochs=5,
                    batch=32, stages=None):  # fmt: skip
    """Loss curves of the methods, over step sizes and seeds.

    Parameters
    ----------
    network : Network, optional
        Default `digits_mlp`.
    dataset : Dataset, optional
        Default `digits`.
    seeds : int
        Seeds 0, 1, ...: each has its own initial weights and order of samples, the same for all methods.
    stages : sequence of int, optional
        Stage of each layer; default one a layer.

    Returns
    -------
    pandas.DataFrame
        One row a method, step size, seed and epoch: `loss` (mean over the epoch, inf if it diverged), and of the whole
        run `accuracy` on the test part, of the weights W_l(N) of all layers after the last of the N mini-batches, and
        `weight_bytes` kept beside the weights.

    Raises
    ------
    ValueError
        If a method is unknown, a number is out of range, or the default data set needs scikit-learn, which is missing.

    Examples
    --------
    >>> rows = compare_methods(methods=["none"], step_sizes=[0.2], seeds=1, epochs=2)  # doctest: +SKIP
    >>> rows.columns.tolist()  # doctest: +SKIP
    ['method', 'step_size', 'seed', 'epoch', 'loss', 'accuracy', 'weight_bytes']
    """
    network, dataset = network or digits_mlp(), dataset or digits()
    for method in methods:
        choice(method, "method", METHODS)
    rows = []
    for seed in range(whole_number(seeds, "seeds")):
        start = initial_parameters(network, seed=seed, dtype=dataset.x_train.dtype)
        batches = minibatches(dataset, batch=batch, epochs=epochs, seed=seed)
        for method, step_size in product(methods, step_sizes):
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # a run may diverge: that is a result
                run = train_by(method, network, batches, parameters=start, step_size=step_size, stages=stages,
                               drain=False)  # fmt: skip
                reached = accuracy(network, run.parameters, dataset.x_test, dataset.y_test)
                losses = np.nan_to_num(run.losses, nan=np.inf, posinf=np.inf).reshape(epochs, -1).mean(axis=1)
            kept = weight_memory(network, method, stages, bytes_per_element=start[0].W.itemsize)
            run_of = (method, step_size, seed)
            rows += [(*run_of, epoch, float(loss), reached, kept) for epoch, loss in enumerate(losses, 1)]
    return pd.DataFrame(rows, columns=["method", "step_size", "seed", "epoch", "loss", "accuracy", "weight_bytes"])


def summarise(rows):
    """The last epoch of `compare_methods`, over seeds: mean and standard deviation of the loss, mean accuracy.

    Examples
    --------
    >>> rows = pd.DataFrame({"method": "none", "step_size": 0.1, "seed": [0, 0, 1, 1], "epoch": [1, 2, 1, 2],
    ...     "loss": [2.0, 1.0, 2.0, 3.0], "accuracy": [0.5, 0.5, 0.75, 0.75], "weight_bytes": 0})
    >>> summarise(rows).to_dict("records")[0]["loss"]
    2.0
    """
    last = rows[rows.epoch == rows.epoch.max()]
    groups = last.groupby(["method", "step_size"], sort=False)
    with np.errstate(invalid="ignore"):
        return groups.agg(loss=("loss", "mean"), loss_deviation=("loss", "std"), accuracy=("accuracy", "mean"),
                          weight_bytes=("weight_bytes", "first")).reset_index()  # fmt: skip
