"""Functions as computation graphs: nodes with a pass forward and a pass back, as the PPRS paper's units have them.

Source: PPRS (NeurIPS 2019), section 2: a directed acyclic graph with one leaf, the value.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from lpkit.checks import shown, whole_number
from lpkit.pipeline_time import depth_of

__all__ = ["ComputationGraph", "GraphNode", "split_chain"]

MOST_DEPTH = 1_000_000


class GraphNode(NamedTuple):
    """A unit: `forward(*inputs) -> (n, size)`, and `backward(v, *inputs)` -> one (n, size) array for each parent."""

    parents: tuple
    size: int
    forward: Callable
    backward: Callable


@dataclass(frozen=True)
class ComputationGraph:
    """A scalar function of `dimension` numbers; `nodes` in an order in which each comes after its parents.

    The name ``"x"`` is the input. The last node is the leaf and has size 1.

    Raises
    ------
    ValueError
        If a node reads one that does not come before it, there is not one leaf, the last, or its size is not 1.

    Examples
    --------
    >>> square = GraphNode(("x",), 1, lambda x: (x * x).sum(1, keepdims=True), lambda v, x: (2 * x * v,))
    >>> graph = ComputationGraph(2, {"square": square})
    >>> values, gradients = graph.value_and_subgradient(np.array([[3.0, 4.0]]))
    >>> values.tolist(), gradients.tolist(), graph.depth
    ([25.0], [[6.0, 8.0]], 1)
    """

    dimension: int
    nodes: dict

    def __post_init__(self):
        whole_number(self.dimension, "dimension")
        before = {"x"}
        for name, node in self.nodes.items():
            if unknown := [parent for parent in node.parents if parent not in before]:
                raise ValueError(f"node {shown(name)} reads {shown(unknown[0])}, which does not come before it; "
                                 "give nodes in order, and 'x' as the input")  # fmt: skip
            before.add(name)
        depth_of(self.parents)  # refuses a graph without a node, or with several leaves
        if (size := list(self.nodes.values())[-1].size) != 1:
            raise ValueError(f"the last node gives {shown(size)} numbers; it must give 1, the value")

    @property
    def parents(self):
        """Node -> names it reads, as `lpkit.pipeline_time.bubbling` takes it."""
        return {name: node.parents for name, node in self.nodes.items()}

    @property
    def depth(self):
        """Delta: nodes on the longest path."""
        return depth_of(self.parents)

    def size(self, name):
        """Numbers that a node, or the input, gives."""
        return self.dimension if name == "x" else self.nodes[name].size

    def value_and_subgradient(self, points):
        """Values (n,) and subgradients (n, d) by one pass forward and one back of every node."""
        points = np.asarray(points)
        if points.ndim != 2 or points.shape[1] != self.dimension or points.dtype.kind not in "iuf":
            raise ValueError(f"points have shape {points.shape} and type {points.dtype}; the graph needs numbers of "
                             f"shape (n, {self.dimension})")  # fmt: skip
        results = {"x": points}
        for name, node in self.nodes.items():
            results[name] = node.forward(*(results[p] for p in node.parents))
        errors = {name: np.zeros_like(result) for name, result in results.items()}
        leaf = name
        errors[leaf] = np.ones_like(results[leaf])
        for name, node in reversed(self.nodes.items()):
            for parent, part in zip(node.parents, node.backward(errors[name], *(results[p] for p in node.parents))):
                errors[parent] = errors[parent] + part
        return results[leaf][:, 0], errors["x"]


def split_chain(dimension, near, far, depth):
    """The chain of `depth` nodes that makes hard functions hard: ``near`` on the first node, ``far`` on the last.

    The first node gives (theta, near(theta)), those between pass it on, and the last gives near(theta) + far(theta).
    What one part tells about a coordinate must cross the chain before the other part can use it.

    Parameters
    ----------
    near, far : callable
        From points (n, d) to values (n,) and subgradients (n, d).

    Raises
    ------
    ValueError
        If the dimension or the depth is no whole number from 1, or there are too many nodes.

    Examples
    --------
    >>> first = lambda x: (x[:, 0], np.array([[1.0, 0.0]]))
    >>> second = lambda x: (x[:, 1] ** 2, np.array([[0.0, 2.0]]) * x)
    >>> split_chain(2, first, second, 5).value_and_subgradient(np.array([[2.0, 3.0]]))
    (array([11.]), array([[1., 6.]]))
    """
    dimension, depth = whole_number(dimension, "dimension"), whole_number(depth, "depth", most=MOST_DEPTH)
    names = ["x", *(f"f{i}" for i in range(1, depth + 1))]
    if depth == 1:
        only = GraphNode(("x",), 1, lambda x: (near(x)[0] + far(x)[0])[:, None],
                         lambda v, x: (v * (near(x)[1] + far(x)[1]),))  # fmt: skip
        return ComputationGraph(dimension, {"f1": only})
    first = GraphNode(("x",), dimension + 1, lambda x: np.column_stack([x, near(x)[0]]),
                      lambda v, x: (v[:, :-1] + v[:, -1:] * near(x)[1],))  # fmt: skip
    last = GraphNode((names[-2],), 1, lambda u: (u[:, -1] + far(u[:, :-1])[0])[:, None],
                     lambda v, u: (v * np.column_stack([far(u[:, :-1])[1], np.ones(len(u), u.dtype)]),))  # fmt: skip
    between = {name: GraphNode((before,), dimension + 1, lambda u: u, lambda v, u: (v,))
               for before, name in pairwise(names[1:-1])}  # fmt: skip
    return ComputationGraph(dimension, {"f1": first, **between, names[-1]: last})
