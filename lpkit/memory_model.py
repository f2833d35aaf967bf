"""The PPRS paper's memory model, run: which numbers of each node's memory can be other than 0 at which slot.

At each slot every node may pass forward any inputs in the span of what was in memory before, and pass back any vector;
the results join the memories. What is kept here is the span of whole coordinates, which holds the paper's spans: no
method of the model is faster, however it chooses its points. A function that needs long here needs long for all.
Source: PPRS (NeurIPS 2019), section 2, Eqs. 5-8; Theorems 1-3 for what is concluded.
"""

import numpy as np

from lpkit.checks import shown, whole_number
from lpkit.computation_graph import ComputationGraph
from lpkit.descent import MOST_NUMBERS

__all__ = ["chain_slots", "coordinates_found", "first_slots"]

SCALES = np.logspace(-2, 2, 32)  # of the points tried: functions may be flat near 0 or far from it


def first_slots(graph, *, slots=100_000, leaf_holds_one=True, seed=0):
    """The first slot at which each coordinate of each memory can be other than 0.

    Parameters
    ----------
    graph : ComputationGraph
    slots : int
        At most so many are run; the run ends when no memory grows any more.
    leaf_holds_one : bool
        The paper starts all memories at 0; then a function with the value 0 at 0 gives the leaf nothing to pass back,
        and no method ever starts. By default the leaf has the number 1 from the beginning, as every method of back
        propagation has; that can only help.
    seed : int
        Of the points at which passes are tried.

    Returns
    -------
    dict
        Name -> array (size,) of int, the input as ``"x"``; 0 for what is there at the start, -1 for what never comes.

    Raises
    ------
    ValueError
        If a number is not whole or out of range, or the graph is None, as that of a problem without one is.

    Examples
    --------
    >>> from lpkit.hard_functions import l1_chain
    >>> found = first_slots(l1_chain(5, depth=10).graph)
    >>> found["x"].tolist(), found["f9"].tolist()
    ([10, 11, 30, 31, 50], [1, 20, 21, 40, 41, 1])
    """
    if not isinstance(graph, ComputationGraph):
        raise ValueError(f"graph is {shown(graph)}; give a ComputationGraph, such as that of l1_chain(9).graph")
    slots, rng = whole_number(slots, "slots"), np.random.default_rng(whole_number(seed, "seed", least=0, most=2**63))
    leaf = list(graph.nodes)[-1]
    found = {name: np.full(graph.size(name), -1) for name in ("x", *graph.nodes)}
    found[leaf][:] = 0 if leaf_holds_one else -1
    grown = set(found)
    for slot in range(1, slots + 1):
        before = {name: first >= 0 for name, first in found.items()}
        due = [(name, node) for name, node in graph.nodes.items() if grown & {name, *node.parents}]
        grown = set()
        for name, node in due:
            for place, reached in _passes(name, node, before, rng):
                if (new := reached & (found[place] < 0)).any():
                    found[place][new] = slot
                    grown.add(place)
        if not grown:
            break
    return found


def _passes(name, node, memory, rng):
    """Where one pass forward and one back of a node, at many points, give other numbers than 0."""
    inputs = [_points(memory[parent], rng) for parent in node.parents]
    with np.errstate(over="ignore", under="ignore"):
        yield name, (node.forward(*inputs) != 0).any(axis=0)
        for parent, part in zip(node.parents, node.backward(_points(memory[name], rng), *inputs)):
            yield parent, (part != 0).any(axis=0)


def _points(support, rng):
    """Points in the span of some coordinates: of many sizes and signs, all above 0, all below 0, and 0."""
    sizes = SCALES[:, None] * (0.5 + rng.random((len(SCALES), len(support))))
    signs = rng.choice([-1.0, 1.0], sizes.shape)
    return np.vstack([sizes * signs, sizes, -sizes, np.zeros_like(sizes[:1])]) * support


def coordinates_found(graph, **options):
    """How many coordinates of theta can be other than 0 after each slot: array, slot 0 first, until the last is found.

    Options as for `first_slots`.

    Examples
    --------
    >>> from lpkit.hard_functions import l1_chain
    >>> coordinates_found(l1_chain(3, depth=2).graph).tolist()
    [0, 0, 1, 2, 2, 2, 3]
    """
    first = first_slots(graph, **options)["x"]
    counts = np.bincount(first[first >= 0], minlength=1)
    return np.cumsum(counts)


def chain_slots(coordinates, depth):
    """Slots at which the coordinates of a split chain are found.

    Delta (2j - 1) for the odd ones, j = 1, 2, ..., and one slot more for the even one after each.

    Parameters
    ----------
    coordinates : int
    depth : int
        At least 2; on one node there is a new coordinate a slot.

    Returns
    -------
    array (coordinates,) of int

    Raises
    ------
    ValueError
        If a number is out of range.

    Examples
    --------
    >>> chain_slots(5, 10).tolist()
    [10, 11, 30, 31, 50]
    """
    i = np.arange(whole_number(coordinates, "coordinates", most=MOST_NUMBERS))
    return whole_number(depth, "depth", least=2) * (2 * (i // 2) + 1) + i % 2
