"""How long K samples take through a computation graph and back, one pass of one node a slot.

A node passes samples forward one at a time, then back, last one first: GPipe's schedule, which the PPRS paper calls
bubbling. A graph with one leaf and depth Delta (nodes on its longest path) takes 2(K + Delta - 1) slots, whatever its
width, and no schedule is faster: the leaf makes 2 K passes, and Delta - 1 nodes pass before its first and after its
last. Nothing here assumes that formula but `pipeline_time`; the schedules are made pass by pass.
Source: PPRS (NeurIPS 2019), sections 2 and 5 and Fig. 2.
"""

from collections.abc import Hashable, Mapping
from itertools import chain
from typing import NamedTuple

import numpy as np

from lpkit.checks import choice, shown, whole_number
from lpkit.costs import Costs
from lpkit.plans import Plan
from lpkit.schedule import gpipe

__all__ = ["Bubbling", "bubbling", "chain_timeline", "depth_of", "pipeline_time"]

MOST_PASSES = 10_000_000


def pipeline_time(iterations, samples, depth, *, how="formula"):
    """Slots of `iterations` steps, each with `samples` gradients through `depth` nodes: 2T(K + Delta - 1).

    Parameters
    ----------
    iterations : int or array of int
        T, from 0.
    samples : int
        K gradients a step; 1 for gradient descent.
    depth : int
        Delta, nodes on the longest path.
    how : {"formula", "schedule"}
        ``"schedule"`` makes one step with `lpkit.schedule.gpipe`, operation by operation; steps wait for each other.

    Returns
    -------
    int, or array of int64 of the shape of `iterations`

    Raises
    ------
    ValueError
        If a number is not whole or too small, or there are more slots than int64 holds.

    Examples
    --------
    >>> pipeline_time(300, 1, 20), pipeline_time(50, 100, 20), pipeline_time(50, 100, 20, how="schedule")
    (12000, 11900, 11900)
    """
    K, depth = whole_number(samples, "samples"), whole_number(depth, "depth")
    if choice(how, "how", ("formula", "schedule")) == "formula":
        one = 2 * (K + depth - 1)
    else:
        one = int(chain_timeline(K, depth).makespan)
    if np.ndim(iterations):
        slots = [whole_number(T, "iterations", least=0) * one for T in np.ravel(iterations)]
        _check_slots(max(slots, default=0))
        return np.array(slots, dtype=np.int64).reshape(np.shape(iterations))
    return whole_number(iterations, "iterations", least=0) * one


def chain_timeline(samples, depth):
    """`Timeline` of one step: `samples` micro-batches through a chain of `depth` nodes, a slot each way.

    Raises
    ------
    ValueError
        If a number is not a whole number of at least 1, or there would be more than ten million passes each way.

    References
    ----------
    PPRS (NeurIPS 2019), Fig. 2.

    Examples
    --------
    >>> line = chain_timeline(3, 4)
    >>> line.makespan, line.bubble_share
    (12.0, 0.5)
    """
    depth, K = whole_number(depth, "depth"), whole_number(samples, "samples")
    _check_passes(K * depth)
    passes = Costs.from_times([1] * depth, 0, 1, unit="slots")  # the pass back of a node is its delta, with no G
    return gpipe(Plan("one node a stage", passes, depth, ends=tuple(range(1, depth + 1))), micro_batches=K)


class Bubbling(NamedTuple):
    """Slot, from 0, in which each pass starts: dicts of node -> array (K,); and the slot at which all is done."""

    forward: dict
    backward: dict
    makespan: int


def bubbling(parents, samples, *, times=None):
    """All passes of K samples through a graph and back, each as soon as its node and what it needs are there.

    Parameters
    ----------
    parents : mapping
        From each node to the names it reads; a name that is no node is an input.
    samples : int
        K.
    times : mapping, optional
        Slots of a pass (each way) by node; default 1, as in the paper's model.

    Returns
    -------
    Bubbling

    Raises
    ------
    ValueError
        If the graph has a circle, or not one leaf, a number is not whole or too small, or `times` names no node.

    Examples
    --------
    >>> found = bubbling({"a": ["x"], "b": ["x"], "c": ["a"], "loss": ["b", "c"]}, 3)
    >>> found.makespan, found.forward["loss"].tolist(), found.backward["b"].tolist()
    (10, [2, 3, 4], [8, 7, 6])
    """
    order, K = _ordered(parents), whole_number(samples, "samples")
    _check_passes(len(order) * K)
    cost = _costs(order, {} if times is None else times)
    _check_slots(2 * K * sum(cost.values()))
    children = {node: [c for c in order if node in parents[c]] for node in order}
    done, back = {}, {}
    for node in order:
        done[node] = _in_turn([done[p] for p in parents[node] if p in parents], np.zeros(K, np.int64), cost[node])
    for node in reversed(order):
        ready = np.full(K, done[node][-1])
        back[node] = _in_turn([back[c] for c in children[node]], ready, cost[node])
    starts = {node: ends - cost[node] for node, ends in done.items()}
    return Bubbling(starts, {n: back[n][::-1] - cost[n] for n in order}, int(max(ends[-1] for ends in back.values())))


def _costs(order, times):
    if not isinstance(times, Mapping) or not set(times) <= set(order):
        raise ValueError(f"times are {shown(times)}; give a mapping from nodes of the graph to slots")
    return {node: whole_number(times.get(node, 1), f"times[{node!r}]") for node in order}


def _check_passes(passes):
    if passes > MOST_PASSES:
        raise ValueError(f"there would be {passes:,} passes each way; ask for at most {MOST_PASSES:,}")


def _check_slots(slots):
    if slots >= 2**63:
        raise ValueError(f"there would be {slots:,} slots, more than 64 bits hold; give smaller numbers")


def _in_turn(needed, ready, cost):
    """When each of the K passes of a node ends, which run in this order, none before what it needs."""
    places = cost * np.arange(len(ready))
    earliest = np.maximum.reduce([ready, *needed])
    return np.maximum.accumulate(earliest - places) + places + cost


def depth_of(parents):
    """Delta of a graph: nodes, inputs not counted, on its longest path.

    Raises
    ------
    ValueError
        As `bubbling`.

    Examples
    --------
    >>> depth_of({"a": ["x"], "b": ["x"], "c": ["a"], "loss": ["b", "c"]})
    3
    """
    depths = {}
    for node in _ordered(parents):
        depths[node] = 1 + max((depths.get(p, 0) for p in parents[node]), default=0)
    return max(depths.values())


def _ordered(parents):
    """Nodes with those they read first; the graph is checked."""
    if not isinstance(parents, Mapping) or not parents:
        raise ValueError(f"the graph is {shown(parents)}; give a mapping from each node to the names it reads")
    for node, names in parents.items():
        if not isinstance(names, (list, tuple)) or not all(isinstance(name, Hashable) for name in names):
            raise ValueError(f"node {shown(node)} reads {shown(names)}; give a list of names")
    order, left = [], {node: {p for p in names if p in parents} for node, names in parents.items()}
    while ready := [node for node, missing in left.items() if not missing]:
        order += ready
        for node in ready:
            del left[node]
        for missing in left.values():
            missing.difference_update(ready)
    if left:
        raise ValueError(f"the graph has a circle through some of {', '.join(map(shown, list(left)[:5]))}; remove it")
    read = set(chain.from_iterable(parents.values()))
    if len(leaves := [node for node in order if node not in read]) != 1:
        raise ValueError(f"the graph has {len(leaves)} leaves ({', '.join(map(shown, leaves[:5]))}); "
                         "join them in one, the value of the function")  # fmt: skip
    return order
