"""What delta is given when the weights have moved on: four ways to train, three of them through a pipeline.

A fully pipelined graph updates layer l with gradients that are 2 S(l) iterations late, and delta_l multiplies with the
weights that F_l used 2 S(l) iterations before, so those are stashed. The methods differ in what delta_l is given:

none
    nothing is pipelined: plain SGD.
stash
    the derived graph: the very weights of 2 S(l) iterations before, from the stash.
average
    the stash is gone; the old weights are reconstructed from the current ones and a moving average V of the updates:
    W(n - D) is taken to be W(n) - D V(n), with D = 2 S(l), V(n + 1) = beta V(n) + (1 - beta) (W(n + 1) - W(n)),
    beta = (D - 1) / (D + 1), V(0) = 0. This beta gives V the mean age, (D - 1) / 2, of the plain mean of the last D
    updates, which would be exact.
naive
    the stash is gone; delta_l multiplies with the current weights, although F_l used older ones.

Sources: LayerPipe (ICCAD 2021), section III; the idea of "average" is that of LayerPipe2, arXiv:2512.08160, of which
only the abstract was at hand, so the formula above is this package's own and may differ from the paper's.
"""

from typing import NamedTuple

import numpy as np

from lpkit.backprop import backprop_dfg, stages_after
from lpkit.checks import choice
from lpkit.derivation import stage_lags
from lpkit.layerwise import chain_layers, check_parameters, updated
from lpkit.moves import delay_gradients, pipeline, retime
from lpkit.stash import stash
from lpkit.training import recurrence, train

__all__ = [
    "METHODS", "Averaged", "averaged_update", "delta_lateness", "followed", "method_graph", "pipelined",
    "reconstruction_error", "train_by", "weight_memory",
]  # fmt: skip

METHODS = ("none", "stash", "average", "naive")


class Averaged(NamedTuple):
    """Weights, bias, the moving average of the weight updates, and how many iterations back delta needs them."""

    W: np.ndarray
    bias: np.ndarray | None
    average: np.ndarray
    back: int

    @property
    def past(self):
        """The weights of `back` iterations before, reconstructed: W - D V."""
        return self.W - self.back * self.average if self.back else self.W


def averaged_update(parameters, gradient, step_size):
    """U that also keeps the moving average of its updates.

    Examples
    --------
    >>> start = Averaged(np.zeros(1), None, np.zeros(1), 3)
    >>> from lpkit.training import Parameters
    >>> one = averaged_update(start, Parameters(np.array([-2.0])), 1.0)
    >>> one.W, one.average, one.past
    (array([2.]), array([1.]), array([-1.]))
    """
    new = updated(parameters, gradient, step_size)
    return followed(parameters, new.W)._replace(bias=new.bias)


def followed(averaged, W):
    """The same state after its weights have become `W`.

    Examples
    --------
    >>> followed(Averaged(np.zeros(1), None, np.zeros(1), 1), np.array([2.0])).past
    array([0.])
    """
    if not averaged.back:
        return averaged._replace(W=W)
    beta = (averaged.back - 1) / (averaged.back + 1)
    return averaged._replace(W=W, average=beta * averaged.average + (1 - beta) * (W - averaged.W))


# graphs --------------------------------------------------------------------------------------------------------------


def pipelined(layers, stages=None):
    """The fully pipelined and retimed backprop graph of a chain: a register at each boundary, there and back.

    Parameters
    ----------
    layers : int
    stages : sequence of int, optional
        Stage of each layer; default one a layer.

    Notes
    -----
    LayerPipe, Fig. 2: S(1) delays at the inputs, 2 S(l) on G_l -> U_l, then lags -S(l) of F_l and U_l, S(l) of G_l and
    delta_l.

    Examples
    --------
    >>> [edge for edge in pipelined(3).edges if edge[:2] == ("U2", "delta2")]
    [Edge(source='U2', target='delta2', delays=3)]
    """
    plain = backprop_dfg(layers)
    S = stages_after(stages, layers)
    delayed = delay_gradients(pipeline(plain, ("X", "T"), S[0]), {l: 2 * after for l, after in enumerate(S, 1)})
    return retime(delayed, stage_lags(plain, stages))


def method_graph(layers, method, stages=None):
    """The graph that `method` executes; without a stash, delta_l reads the weights that F_l reads at that clock.

    Parameters
    ----------
    layers : int
    method : {"none", "stash", "average", "naive"}
    stages : sequence of int, optional
        Stage of each layer; by default one a layer. ``"none"`` has none.

    Returns
    -------
    DFG

    Raises
    ------
    ValueError
        If the method is unknown, or layers or stages are none.

    Examples
    --------
    >>> for method in METHODS:
    ...     graph = method_graph(3, method)
    ...     print(method, [w for u, v, w in graph.edges if (u, v) in (("U2", "F2"), ("U2", "delta2"), ("F1", "G2"))])
    none [0, 1, 1]
    stash [3, 1, 3]
    average [3, 1, 1]
    naive [3, 1, 1]
    """
    choice(method, "method", METHODS)
    if method == "none":
        return backprop_dfg(layers)
    graph = pipelined(layers, stages)
    if method == "stash":
        return graph
    return graph.with_delays([1 if u[0] == "U" else w for u, _, w in graph.edges])


def weight_memory(network, method, stages=None, *, bytes_per_element=4):
    """Bytes that a method keeps beside the weights themselves: the stash, or the moving averages.

    The first layer has no delta, so it keeps nothing.

    Parameters
    ----------
    network : Network
    method : {"none", "stash", "average", "naive"}
    stages : sequence of int, optional
        Stage of each layer; by default one a layer.
    bytes_per_element : int

    Raises
    ------
    ValueError
        As `method_graph`.

    Examples
    --------
    >>> from lpkit.stale import digits_mlp
    >>> {method: weight_memory(digits_mlp(4), method) for method in METHODS}
    {'none': 0, 'stash': 24576, 'average': 8192, 'naive': 0}
    """
    if method == "none":
        return 0
    graph = method_graph(len(network.layers), "stash" if method == "average" else method, stages)
    kept = [layer for layer in stash(graph, network, bytes_per_element=bytes_per_element) if layer.weights]
    return sum(layer.weight_bytes // (layer.weights if method == "average" else 1) for layer in kept)


def delta_lateness(layers, stages=None):
    """D of each layer: how many iterations the weights of delta_l are older than those of F_l at the same clock.

    Examples
    --------
    >>> delta_lateness(4)
    (0, 4, 2, 0)
    """
    return tuple(layer.weights for layer in stash(pipelined(layers, stages)))


# training ------------------------------------------------------------------------------------------------------------


def train_by(method, network, batches, *, parameters, step_size, stages=None, loss="cross_entropy", drain=True):
    """Train `network` by one of `METHODS`, by executing its graph.

    Parameters
    ----------
    method : str
    network, batches, parameters, step_size, loss, drain
        As in `lpkit.training.train`.
    stages : sequence of int, optional
        Stage of each layer; default one a layer.

    Returns
    -------
    Trained

    Raises
    ------
    ValueError
        If the method is unknown, the stages are none, or as `lpkit.training.train`.

    Examples
    --------
    >>> from lpkit.layerwise import initial_parameters
    >>> from lpkit.stale import digits_mlp
    >>> network = digits_mlp(3, width=8)
    >>> start = initial_parameters(network, seed=0)
    >>> batch = (np.ones((4, 1, 8, 8), np.float32), np.array([3, 1, 4, 1]))
    >>> {method: train_by(method, network, [batch] * 9, parameters=start, step_size=0.01).losses.shape
    ...     for method in METHODS}
    {'none': (9,), 'stash': (9,), 'average': (9,), 'naive': (9,)}
    """
    layers = len(chain_layers(network))
    check_parameters(chain_layers(network), parameters)
    graph, update = method_graph(layers, method, stages), updated
    if method == "average":
        back = delta_lateness(layers, stages)
        parameters = [Averaged(p.W, p.bias, np.zeros_like(p.W), D) for p, D in zip(parameters, back)]
        update = averaged_update
    return train(graph, network, batches, parameters=parameters, step_size=step_size, loss=loss, drain=drain,
                 update=update)  # fmt: skip


def reconstruction_error(network, batches, *, parameters, step_size, stages=None, loss="cross_entropy"):
    """How far the reconstructed old weights are from the true ones, over how far the current ones are.

    Trained with the exact stash; 0 is exact, and below 1 the moving average is nearer than no reconstruction at all.

    Parameters
    ----------
    network, batches, parameters, step_size, loss
        As for `lpkit.training.train`.
    stages : sequence of int, optional
        Stage of each layer; by default one a layer.

    Returns
    -------
    dict
        From each layer that has a stash to the ratio of the root mean squares, over all iterations.

    Raises
    ------
    ValueError
        As `train_by`.

    Examples
    --------
    >>> from lpkit.layerwise import initial_parameters
    >>> from lpkit.stale import digits_mlp
    >>> network = digits_mlp(3, width=8)
    >>> start = initial_parameters(network, seed=0)
    >>> batch = (np.ones((4, 1, 8, 8), np.float32), np.array([3, 1, 4, 1]))
    >>> errors = reconstruction_error(network, [batch] * 30, parameters=start, step_size=0.01)
    >>> list(errors), errors[2] < 0.3
    ([2], True)
    """
    layers = len(chain_layers(network))
    check_parameters(chain_layers(network), parameters)
    copies = delta_lateness(layers, stages)
    delays = [2 * after for after in stages_after(stages, layers)]
    states = {l: [Averaged(parameters[l - 1].W, None, np.zeros_like(parameters[l - 1].W), D)]
              for l, D in enumerate(copies, 1) if D}  # fmt: skip
    for new, value in recurrence(network, batches, delays, parameters=parameters, step_size=step_size, loss=loss):
        for l, line in states.items() if value is not None else ():
            line.append(followed(line[-1], new[l - 1].W))
    return {l: _ratio(line, copies[l - 1]) for l, line in states.items()}


def _ratio(states, back):
    """Root mean square of W(n - D) - (W(n) - D V(n)), over that of W(n - D) - W(n)."""
    pairs = list(zip(states, states[back:]))
    reconstructed, current = (
        sum(float(np.sum(np.square(old.W - guess))) for (old, _), guess in zip(pairs, guesses))
        for guesses in ((new.past for _, new in pairs), (new.W for _, new in pairs))
    )
    return float(np.sqrt(reconstructed / current)) if current else 0.0
