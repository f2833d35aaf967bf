"""Training a chain of layers by executing its data-flow graph: sequential, delayed, retimed, with delta split or not.

`training_operations` gives every node of a backprop graph its numbers; `lpkit.execution.execute` runs them.
`recurrence` computes the same training from its formula, without a graph::

    W_l(n + 1) = W_l(n) - eta G_l(n - M_l),  every G_l(n) taken at the weights W(n) of all layers and at sample n.

For a fully pipelined graph M_l = 2 S(l), and the two are equal to the last bit.
Source: LayerPipe (ICCAD 2021), Eqs. 1-6 and Figs. 2, 3, 5.
"""

import math
import numbers
from collections import deque
from itertools import chain, pairwise, repeat
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from lpkit.backprop import operation
from lpkit.checks import choice, shown, whole_number
from lpkit.execution import execute
from lpkit.layerwise import (
    ChainLayer, Error, Parameters, Signal, backpropagation, backward_tail, chain_layers, check_parameters,
    checked_target, chosen_products, forward, gradients, initial_parameters, input_error, input_signal, output_error,
    updated,
)  # fmt: skip
from lpkit.numerics import softmax_cross_entropy, squared_error

__all__ = [
    "LOSSES", "ChainLayer", "Error", "Parameters", "Signal", "Trained", "chain_layers", "execute",
    "initial_parameters", "input_signal", "recurrence", "train", "training_operations",
]  # fmt: skip

LOSSES = {"cross_entropy": softmax_cross_entropy, "squared_error": squared_error}
_DRAINED = object()  # stands for a mini-batch after the last one


class Trained(NamedTuple):
    """Losses, one a sample (mini-batch) in order, and the parameters of each layer at the end."""

    losses: np.ndarray
    parameters: tuple


# operations of a graph -----------------------------------------------------------------------------------------------

_ROLES = {"X": "signal", "F": "signal", "T": "target", "E": "error", "delta": "error", "join": "error",
          "G": "gradient", "U": "parameters", "delta'": "stays", "delta''": "moved"}  # fmt: skip


def training_operations(dfg, network, *, step_size, loss="cross_entropy", products=None, moved=None,
                        update=updated):  # fmt: skip
    """The numbers of each node of a backprop graph (also delayed, retimed, with delta split), for `execute`.

    Parameters
    ----------
    dfg : DFG
        Nodes named as by `backprop_dfg`; any delays.
    network : Network
        A plain chain of as many layers.
    step_size : float
        eta.
    loss : {"cross_entropy", "squared_error"}
    products : mapping, optional
        From "F", "G" or "delta" to what multiplies its matrices; default `numpy.matmul`. With
        ``{"delta": ordered_product}`` a split of delta changes no bit.
    moved : mapping, optional
        From a layer to how many of its input channels (the last ones) delta'' computes; default half of them.
    update : callable
        U: the new parameters from (parameters, gradient, step_size); default one step of SGD.

    Returns
    -------
    dict
        From each node but X and T to a function of what it reads, in the order of its edges.

    Raises
    ------
    ValueError
        If the graph is none of this network, a node does not read what it needs, or `moved` leaves a part empty or
        cuts through a group.

    Examples
    --------
    >>> from lpkit.backprop import backprop_dfg
    >>> from lpkit.networks import lenet5
    >>> sorted(training_operations(backprop_dfg(5), lenet5(), step_size=0.1))[:4]
    ['E', 'F1', 'F2', 'F3']
    """
    layers = chain_layers(network)
    for node in dfg.nodes:
        if operation(node)[0] in ("add", "concat", "sum"):
            raise ValueError(f"node {node!r} joins branches; numbers are there for plain chains only")
    last = max((operation(node)[1] for node in dfg.nodes if operation(node)[0] == "F"), default=0)
    if last != len(layers):
        raise ValueError(f"the graph has {last} layers and network {network.name!r} has {len(layers)}; give as many")
    options = {"step_size": checked_step_size(step_size), "loss": LOSSES[choice(loss, "loss", tuple(LOSSES))],
               "products": chosen_products(products), "update": update}  # fmt: skip
    parts = {l: _parts(layers[l - 1], l, (moved or {}).get(l)) for l in range(2, last + 1) if f"join{l}" in dfg.times}
    reads = {node: [] for node in dfg.nodes}
    for source, target, _ in dfg.edges:
        reads[target].append(source)
    return {
        node: _in_order(node, reads[node], *_function(*operation(node), layers, parts, options))
        for node in dfg.nodes
        if node not in ("X", "T")
    }


def _function(kind, l, layers, parts, options):
    """The roles of what an operation reads, and the operation as a function of these."""
    layer, before = (layers[l - 1], layers[l - 2]) if l else (layers[-1], None)
    by = options["products"]
    match kind:
        case "F":
            return ("parameters", "signal"), lambda p, signal: forward(layer, p, signal, product=by["F"])
        case "G":
            return ("signal", "error"), lambda signal, error: gradients(layer, signal, error, product=by["G"])
        case "U":
            return ("parameters", "gradient"), lambda p, G: options["update"](p, G, options["step_size"])
        case "E":
            return ("signal", "target"), lambda signal, target: output_error(layer, signal, target, options["loss"])
        case "delta":
            return ("parameters", "error", "signal"), lambda p, error, signal: Error(
                backward_tail(before, signal, input_error(layer, p.past, error, product=by["delta"])))  # fmt: skip
        case "delta'" | "delta''":
            channels = parts[l][kind == "delta''"]
            return ("parameters", "error"), lambda p, error: input_error(
                layer, p.past, error, product=by["delta"], channels=channels)  # fmt: skip
        case "join":
            return ("stays", "moved", "signal"), lambda stays, moved, signal: Error(
                backward_tail(before, signal, np.concatenate([stays, moved], axis=1)))  # fmt: skip
    raise ValueError(f"node {kind!r} has no numbers here; leave it out of a graph that is executed")


def _in_order(node, sources, roles, function):
    """`function` with its arguments in the order of the edges into the node."""
    found = [_ROLES.get(operation(source)[0]) for source in sources]
    if sorted(found, key=str) != sorted(roles):
        raise ValueError(f"node {node!r} reads {', '.join(sources) or 'nothing'}; it needs {', '.join(roles)}")
    pick = itemgetter(*map(found.index, roles))
    return lambda *given: function(*pick(given))


def _parts(layer, l, moved):
    """Input channels that stay and that are moved, as ranges."""
    channels, groups = layer.in_shape[0], getattr(layer.op, "groups", 1)
    unit = channels // groups if groups > 1 else 1  # a group is not cut
    if moved is None:
        moved = channels // unit // 2 * unit
    moved = whole_number(moved, f"channels moved of layer {l}", least=0)
    if not 0 < moved < channels or moved % unit:
        raise ValueError(f"{moved} of the {channels} input channels of layer {l} are moved; "
                         f"move a multiple of {unit} and leave some")  # fmt: skip
    return range(channels - moved), range(channels - moved, channels)


def checked_step_size(step_size):
    """`step_size` as a Python float, which leaves float32 weights float32.

    Examples
    --------
    >>> checked_step_size(np.float64(0.5))
    0.5
    """
    if not isinstance(step_size, numbers.Real) or isinstance(step_size, bool) or not math.isfinite(step_size):
        raise ValueError(f"step_size is {step_size!r}; it must be a finite number")
    return float(step_size)


# the loop and the formula --------------------------------------------------------------------------------------------


def train(dfg, network, batches, *, parameters, step_size, loss="cross_entropy", drain=True, **options):
    """Train by executing `dfg` until all mini-batches have had their effect.

    Parameters
    ----------
    dfg : DFG
    network : Network
    batches : iterable of (x, target)
        x (B, C, H, W); target (B,) of class numbers, or for "squared_error" the wanted output (B, N).
    parameters : tuple of Parameters
        At the start, one a layer; see `initial_parameters`.
    step_size, loss, options
        As in `training_operations`.
    drain : bool
        Whether late gradients that are still on their way after the last of N samples are applied. If not, the
        parameters are W_l(N) of each layer: those that `recurrence` has after N samples.

    Returns
    -------
    Trained

    Raises
    ------
    ValueError
        If the graph, the parameters or a mini-batch do not fit the network, or the loss is unknown.

    Examples
    --------
    >>> from lpkit.backprop import backprop_dfg
    >>> from lpkit.networks import Dense, Network, Node
    >>> line = Network("line", (1, 1, 1), (Node("fc", Dense(1, bias=False), "input"),))
    >>> batch = (np.array([[[[2.0]]]]), np.array([[4.0]]))
    >>> result = train(backprop_dfg(1), line, [batch] * 3, parameters=[Parameters(np.zeros((1, 1)))], step_size=0.125,
    ...     loss="squared_error")
    >>> result.losses, result.parameters[0].W
    (array([8. , 2. , 0.5]), array([[1.75]]))
    """
    layers = chain_layers(network)
    check_parameters(layers, parameters)
    operations = training_operations(dfg, network, step_size=step_size, loss=loss, **options)
    batches = list(map(checked_batch, batches))
    samples = {"X": [input_signal(layers, x) for x, _ in batches], "T": [target for _, target in batches]}
    start = {f"U{l}": p for l, p in enumerate(parameters, 1)}
    last = {} if drain else _last_updates(dfg, len(layers), len(samples["X"]))
    losses, now, reached = [], start, dict(start)
    for clock, now in enumerate(execute(dfg, operations, samples, initial=lambda node, clock: start.get(node))):
        reached |= {node: now[node] for node in start if clock <= last.get(node, clock)}
        if now["E"] is not None:
            losses.append(now["E"].loss)
    return Trained(np.array(losses), tuple(reached[f"U{l}"] for l in range(1, len(layers) + 1)))


def checked_batch(batch):
    """The pair (x, target) of a mini-batch."""
    if not isinstance(batch, (tuple, list)) or len(batch) != 2:
        raise ValueError(f"a mini-batch is {shown(batch)}; it must be a pair (x, target)")
    return batch[0], checked_target(batch[1])


def _last_updates(dfg, layers, samples):
    """The clock at which each U_l gives W_l(N): what F_l would read with a sample more, after its N samples."""
    delays = {(source, target): w for source, target, w in dfg.edges}
    path, late, last = ["X", *(f"F{l}" for l in range(1, layers + 1))], 0, {}
    for l, edge in enumerate(pairwise(path), 1):
        late += delays[edge]  # F_l is as much later than X
        last[f"U{l}"] = samples + late - delays[f"U{l}", f"F{l}"]
    return last


def recurrence(network, batches, delays, *, parameters, step_size, loss="cross_entropy", products=None):
    """Delayed-gradient SGD from its formula, W_l(n + 1) = W_l(n) - eta G_l(n - M_l), without a graph.

    Parameters
    ----------
    delays : sequence of int
        M_l of each layer; all 0 is plain SGD.
    network, batches, parameters, step_size, loss, products
        As in `train` and `training_operations`.

    Yields
    ------
    (tuple of Parameters, float or None)
        W(n + 1) of all layers and the loss at W(n), for n = 0, 1, ...; after the last sample the late gradients are
        used up, without a loss.

    Raises
    ------
    ValueError
        If there is not one delay a layer, a whole number of at least 0, or as `train`; at the first step.

    Notes
    -----
    LayerPipe, Eq. 6, with a delay of its own for each layer.

    Examples
    --------
    >>> from lpkit.networks import Dense, Network, Node
    >>> line = Network("line", (1, 1, 1), (Node("fc", Dense(1, bias=False), "input"),))
    >>> batch = (np.array([[[[2.0]]]]), np.array([[4.0]]))
    >>> steps = recurrence(line, [batch] * 3, [1], parameters=[Parameters(np.zeros((1, 1)))], step_size=0.125,
    ...     loss="squared_error")
    >>> [(float(p.W[0, 0]), loss) for (p,), loss in steps]
    [(0.0, 8.0), (1.0, 8.0), (2.0, 2.0), (2.5, None)]
    """
    layers, measure = chain_layers(network), LOSSES[choice(loss, "loss", tuple(LOSSES))]
    step_size, delays = checked_step_size(step_size), [whole_number(M, "a delay", least=0) for M in delays]
    if len(delays) != len(layers):
        raise ValueError(f"there are {len(delays)} delays for {len(layers)} layers; give one a layer")
    check_parameters(layers, parameters)
    waiting = [deque([None] * M) for M in delays]  # gradients on their way to the update
    for batch in chain(batches, repeat(_DRAINED, max(delays))):
        G, value = [None] * len(layers), None
        if batch is not _DRAINED:
            G, value = backpropagation(layers, parameters, *checked_batch(batch), measure, products=products)
        for line, latest in zip(waiting, G):
            line.append(latest)
        arrived = [line.popleft() for line in waiting]
        parameters = tuple(p if g is None else updated(p, g, step_size) for p, g in zip(parameters, arrived))
        yield parameters, value
