"""PipeDream's own planner for a graph: the least-period straight pipeline over its states.

A state is a set of operations closed towards the input (the past of an antichain); a stage is the difference of two.
Source: Narayanan et al., PipeDream (SOSP 2019), section 3.1, and the behaviour of its published optimizer.
"""

import math
import sys
from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, reduce
from operator import or_

import numpy as np

from lpkit.chains import positive
from lpkit.checks import whole_number
from lpkit.interop.pipedream_graph import whole_graph
from lpkit.layer_graph import members

__all__ = ["straight_pipeline"]

MOST_STATES = 4096  # their tables of pairs take a gigabyte
LEAST_RATE, LARGEST_RATE = 5e-324, Fraction(sys.float_info.max)  # floats


@dataclass(frozen=True)
class _States:
    """PipeDream's states: closed sets of operations as bit masks, small ones first, with time and boundary bytes."""

    masks: tuple
    times: np.ndarray
    boundary: np.ndarray


@lru_cache(maxsize=16)
def _states(operations):
    """Closed sets that grow from the first operation: each adds one that reads the set, with all that it needs."""
    index = {o.id: n for n, o in enumerate(operations)}
    readers = defaultdict(list)
    closed, read = [], [0] * len(operations)
    for n, o in enumerate(operations):
        mask = 1 << n
        for name in o.inputs:
            mask |= closed[index[name]]
            readers[index[name]].append(n)
            read[index[name]] |= 1 << n
        closed.append(mask)
    masks, todo = {closed[0]}, [(closed[0], read[0])]
    while todo:
        mask, outside = todo.pop()  # and the operations outside that read it
        for reader in members(outside):
            grown = mask | closed[reader]
            if grown not in masks:
                masks.add(grown)
                new = (read[n] for n in members(grown & ~mask))
                todo.append((grown, reduce(or_, new, outside) & ~grown))
        if len(masks) > MOST_STATES:
            raise ValueError(f"the graph has more than {MOST_STATES} states, too many branches beside each other; plan "
                             "it as a chain with to_costs")
    masks = sorted(masks, key=lambda m: (m.bit_count(), m))
    work = [o.forward + o.backward for o in operations]
    times = [math.fsum(w for n, w in enumerate(work) if m >> n & 1) for m in masks]
    boundary = [sum(operations[n].activation for n in _frontier(m, readers, closed)) for m in masks]
    return _States(tuple(masks), np.array(times), np.array(boundary, float))


def _frontier(mask, readers, closed):
    """Operations of a state whose output PipeDream counts at a cut after it.

    Those that nobody in the state reads, and those that have a reader outside the past of one of these: with branches
    that is more than what really crosses the cut, but it is what the recorded optimizer charges.
    """
    inside = members(mask)
    tips = [n for n in inside if not any(mask >> r & 1 for r in readers[n])]
    inner = {n for tip in tips for n in inside
             if n != tip and closed[tip] >> n & 1 and any(not closed[tip] >> r & 1 for r in readers[n])}
    return {*tips, *inner}


def straight_pipeline(graph, machines, *, bandwidth=None):
    """Least-period straight pipeline over the states of a graph, as PipeDream's optimizer finds it.

    Parameters
    ----------
    graph : Graph
    machines : int
        Stages, at most.
    bandwidth : number, optional
        Bytes per second: each boundary also costs twice its bytes over the bandwidth
        (``--straight_pipeline --activation_compression_ratio 1``); free if left out.

    Returns
    -------
    period : float
        In ms.
    stages : tuple of tuple of str
        Ids of the operations of each stage.

    Raises
    ------
    ValueError
        If `machines` is not a whole number from 1 or `bandwidth` not a number above 0, or if the graph falls into parts
        or has more than 4096 states.

    Examples
    --------
    >>> from lpkit.interop.pipedream import read_profile
    >>> period, stages = straight_pipeline(read_profile("vgg16"), 5)
    >>> round(period, 3), len(stages)
    (159.531, 5)
    """
    machines = whole_number(machines, "machines")
    rate = positive(math.inf if bandwidth is None else bandwidth, "bandwidth", "bytes per second")
    operations = whole_graph(graph)
    states = _states(operations)
    with np.errstate(over="ignore"):  # a link that takes for ever is not used
        link = 2e3 * states.boundary / max(float(min(rate, LARGEST_RATE)), LEAST_RATE)
    link[-1] = 0
    best, choices = _straight(states, link, machines)
    cuts, state = [len(states.masks) - 1], len(states.masks) - 1
    for step in reversed(choices):
        if step[state] >= 0:
            state = int(step[state])
            cuts.append(state)
    masks = [0, *(states.masks[c] for c in reversed(cuts))]
    parts = [b & ~a for a, b in zip(masks, masks[1:])]
    return float(best[-1]), tuple(tuple(o.id for n, o in enumerate(operations) if p >> n & 1) for p in parts)


def _straight(states, link, machines):
    """Least period of each state for at most `machines` stages; for each added stage the state below it (-1: none)."""
    inside = _inside(states.masks)
    with np.errstate(invalid="ignore"):
        stage = np.where(inside, states.times[None, :] - states.times[:, None], np.inf)
    best, choices = states.times.copy(), []
    for _ in range(1, min(machines, len(states.masks))):
        candidates = np.maximum(np.maximum(best, link)[:, None], np.maximum(stage, link[None, :]))
        below = candidates.argmin(axis=0)
        least = candidates[below, np.arange(len(best))]
        better = least < best
        choices.append(np.where(better, below, -1))
        best = np.where(better, least, best)
    return best, choices


def _inside(masks):
    """inside[k, j]: whether state k is a proper part of state j."""
    inside = np.zeros((len(masks), len(masks)), bool)
    for j, mask in enumerate(masks):
        inside[:j, j] = [m | mask == mask for m in masks[:j]]
    return inside
