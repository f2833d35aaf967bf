"""Graphs, and runs of the memory model, that the notebooks of the PPRS paper and the measures of its claims share.

Source: PPRS (NeurIPS 2019), section 2, for graphs and memory; the functions are those of `lpkit.hard_functions`.
"""

import numpy as np
import pandas as pd

from lpkit.hard_functions import l1_chain, nesterov_max, nonconvex_chain, smooth_chain
from lpkit.memory_model import coordinates_found

__all__ = ["chain_of", "network_graph", "random_graph", "simulated_bounds"]


def random_graph(seed, nodes=12):
    """A graph with one leaf: each node reads up to three of the input and the nodes before it, the leaf what is left.

    Returns
    -------
    dict
        Node -> names it reads, as `lpkit.pipeline_time.bubbling` takes it.

    Raises
    ------
    ValueError
        If the seed is negative.

    Examples
    --------
    >>> random_graph(0, nodes=4)
    {'f1': ['x'], 'f2': ['f1', 'x'], 'f3': ['x'], 'leaf': ['f2', 'f3']}
    """
    rng = np.random.default_rng(seed)
    names = ["x", *(f"f{i}" for i in range(1, nodes))]
    graph = {names[i]: sorted(set(rng.choice(names[:i], rng.integers(1, 4)).tolist())) for i in range(1, nodes)}
    read = {name for parents in graph.values() for name in parents}
    return graph | {"leaf": [name for name in graph if name not in read]}


def chain_of(depth):
    """A chain of nodes, the first of which reads the input.

    Examples
    --------
    >>> chain_of(2)
    {'f1': ['x'], 'f2': ['f1']}
    """
    return {f"f{i}": [f"f{i - 1}" if i > 1 else "x"] for i in range(1, depth + 1)}


def network_graph(network):
    """The nodes of a network as units, and one for the loss.

    Examples
    --------
    >>> from lpkit.networks import network
    >>> list(network_graph(network("sample4")).items())[-1]
    ('loss', ['relu4'])
    """
    return {node.name: list(node.inputs) for node in network.nodes} | {"loss": [network.nodes[-1].name]}


def simulated_bounds(depth, sizes=(2, 3, 5, 9, 17, 33)):
    """The memory model run on the functions that prove the lower bounds: one row a function and size.

    Returns
    -------
    pandas.DataFrame
        Columns ``class``, ``Delta``, ``coordinates`` (that must be found), ``eps``: the least error (of the non-convex
        chain: the least gradient) that is proved for all points in which the last of them is 0; ``slots``: the slot
        before which no memory holds another one. The smooth chain has 2 n - 1 coordinates, of which n must be found;
        of the others all must.

    Examples
    --------
    >>> simulated_bounds(20, [3])
                      class  Delta  coordinates       eps  slots
    0         smooth convex     20            3  0.010417     60
    1     non-smooth, depth     20            3  0.166667     60
    2  non-smooth, sampling     20            3  0.183013     22
    3            non-convex     20            3  0.013518     60
    """
    rows = []
    for n in sizes:
        smooth, chain = smooth_chain(2 * n - 1, depth=depth), l1_chain(n, depth=depth)
        steep, deep = nesterov_max(n, depth=depth), nonconvex_chain(n, depth=depth)
        proved = [("smooth convex", smooth, 3 / (32 * n**2), n), ("non-smooth, depth", chain, 1 / (2 * n), n),
                  ("non-smooth, sampling", steep, -steep.optimum, n),
                  ("non-convex", deep, deep.gradient_floor, n)]  # fmt: skip
        rows += [(name, depth, n, eps, int((coordinates_found(problem.graph) < needed).sum()))
                 for name, problem, eps, needed in proved]  # fmt: skip
    return pd.DataFrame(rows, columns=["class", "Delta", "coordinates", "eps", "slots"])


