"""k independent trainings take turns in one pipeline, so that it is full and no gradient is late.

With k delays for each one (the k-slow graph), training i has every k-th clock, and the additional delays can be retimed
to the boundaries between stages: no gradient is delayed, no step of SGD is changed. A pipeline of P + 1 stages is full
with k = 2 P + 1 seeds, step sizes or data sets. What it costs is memory for k sets of weights.
Source: Leiserson and Saxe, "Retiming synchronous circuitry", Algorithmica 6 (1991), section 9 (k-slow circuits).
"""

from collections import deque

import numpy as np

from lpkit.backprop import backprop_dfg, operation, stages_after
from lpkit.checks import whole_number
from lpkit.cutsets import slow
from lpkit.derivation import stage_lags
from lpkit.execution import execute
from lpkit.layerwise import chain_layers, check_parameters, input_signal
from lpkit.moves import pipeline, retime
from lpkit.training import Trained, checked_batch, training_operations

__all__ = ["interleaved", "interleaved_graph"]


def interleaved_graph(layers, k, stages=None):
    """The k-slow graph, pipelined by retiming alone: k trainings take turns, and no gradient is late.

    Parameters
    ----------
    layers : int
    k : int
        Trainings that take turns.
    stages : sequence of int, optional
        Stage of each layer; by default one a layer.

    Returns
    -------
    DFG

    Raises
    ------
    ValueError
        If k is below 2 S(1) + 1: then the pipeline is not filled, and the retiming has not enough delays.

    Examples
    --------
    >>> [w for u, v, w in interleaved_graph(3, 5).edges if (u, v) in (("U1", "F1"), ("G1", "U1"), ("F1", "F2"))]
    [0, 1, 1]
    """
    S = stages_after(stages, layers)
    least = 2 * S[0] + 1
    if whole_number(k, "k") < least:
        raise ValueError(f"k is {k}; a pipeline of {S[0] + 1} stages needs {least} trainings or more to be full")
    plain = backprop_dfg(layers)
    lags = {node: -lag if node[0] == "U" else lag for node, lag in stage_lags(plain, stages).items()}  # U stays with G
    return retime(pipeline(slow(plain, k), ("X", "T"), S[0]), lags)


def interleaved(network, batches, *, parameters, step_size, stages=None, loss="cross_entropy"):
    """Train k networks at once in one pipeline, each exactly as it would be trained alone.

    Parameters
    ----------
    batches, parameters : sequence of k
        For each training its mini-batches (equally many) and initial parameters.
    network, step_size, stages, loss
        As in `lpkit.stale.train_by`.

    Returns
    -------
    tuple of Trained

    Raises
    ------
    ValueError
        If the trainings are fewer than 2 S(1) + 1, or do not have equally many mini-batches.

    Examples
    --------
    >>> from lpkit.stale import digits_mlp, train_by
    >>> network = digits_mlp(2, width=8)
    >>> from lpkit.layerwise import initial_parameters
    >>> starts = [initial_parameters(network, seed=seed) for seed in range(3)]
    >>> batch = (np.ones((4, 1, 8, 8), np.float32), np.array([3, 1, 4, 1]))
    >>> together = interleaved(network, [[batch] * 5] * 3, parameters=starts, step_size=0.1)
    >>> alone = train_by("none", network, [batch] * 5, parameters=starts[1], step_size=0.1)
    >>> np.array_equal(together[1].losses, alone.losses)
    True
    """
    k, layers = len(batches), chain_layers(network)
    if len(parameters) != k or len(set(map(len, batches))) != 1:
        raise ValueError(f"there are {k} runs of {sorted(set(map(len, batches)))} mini-batches and {len(parameters)} "
                         "sets of parameters; give equally many to each")  # fmt: skip
    for start in parameters:
        check_parameters(layers, start)
    batches = [[checked_batch(batch) for batch in run] for run in batches]
    S = stages_after(stages, len(layers))
    graph = interleaved_graph(len(layers), k, stages)
    operations = training_operations(graph, network, step_size=step_size, loss=loss)
    turns = [batch for turn in zip(*batches) for batch in turn]
    samples = {"X": [input_signal(layers, x) for x, _ in turns], "T": [target for _, target in turns]}

    def run_of(l, clock):  # whose turn it is in U_l: it has the lag S(l), behind the S(1) registers at the input
        return (clock - S[l - 1] - S[0]) % k

    def initial(node, clock):
        kind, l = operation(node)
        return parameters[run_of(l, clock)][l - 1] if kind == "U" else None

    clocks, losses, last = 0, [], deque(maxlen=k)
    for now in execute(graph, operations, samples, initial=initial):
        clocks += 1
        last.append(now)
        if now["E"] is not None:
            losses.append(now["E"].loss)
    final = {(run_of(l, clock), l): now[f"U{l}"] for clock, now in zip(range(clocks - k, clocks), last)
             for l in range(1, len(layers) + 1)}  # fmt: skip
    losses = np.array(losses).reshape(-1, k)
    return tuple(Trained(losses[:, i], tuple(final[i, l] for l in range(1, len(layers) + 1))) for i in range(k))
