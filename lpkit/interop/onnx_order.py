"""The nodes of an ONNX graph in an order in which each reads what is made before it.

Source: Kahn, "Topological sorting of large networks", 1962, with the earliest node in the file first.
"""

import heapq

from lpkit.checks import shown

__all__ = ["child_graphs", "free_names", "sort_nodes"]

MOST_NODES = 100_000


def child_graphs(node):
    """The graphs inside a control node (branches, bodies of loops).

    Examples
    --------
    >>> from onnx import helper
    >>> child_graphs(helper.make_node("Relu", ["x"], ["y"]))
    []
    """
    return [graph for a in node.attribute for graph in ([a.g] if a.HasField("g") else []) + list(a.graphs)]


def free_names(node):
    """Names that a node reads, those that the graphs inside it take from outside included.

    Examples
    --------
    >>> from onnx import helper
    >>> free_names(helper.make_node("Add", ["x", "x"], ["y"]))
    ['x', 'x']
    """
    names, inside = [name for name in node.input if name], []
    for graph in child_graphs(node):
        own = {value.name for value in (*graph.input, *graph.initializer)}
        own.update(name for inner in graph.node for name in inner.output)
        inner = [name for n in graph.node for name in free_names(n)] + [value.name for value in graph.output]
        inside += [name for name in inner if name not in own]
    return names + [name for name in dict.fromkeys(inside) if name not in names]


def sort_nodes(graph):
    """Put the nodes, in place, into an order in which each reads what is made before it: the given one if it is such.

    Raises
    ------
    ValueError
        If there is a cycle, a tensor is made twice or never, or there are more than 100,000 nodes.
    """
    if len(graph.node) > MOST_NODES:
        raise ValueError(f"the model has {len(graph.node):,} nodes; at most {MOST_NODES:,} are read")
    reads = [set(free_names(node)) for node in graph.node]
    maker = _makers(graph)
    waiting = [{maker[name] for name in names if name in maker} for names in reads]
    known = {value.name for value in (*graph.input, *graph.initializer)}
    for node, names in zip(graph.node, reads):
        for name in sorted(name for name in names if name not in maker and name not in known):
            raise ValueError(f"node {_title(node)} reads {shown(name)}, which nothing in the model makes")
    order = _order(waiting)
    if len(order) < len(waiting):
        node = graph.node[min(set(range(len(waiting))) - set(order))]
        raise ValueError(f"the graph has a cycle: node {_title(node)} waits for what is made of its own result; "
                         "a model must be free of cycles")
    if order != sorted(order):
        nodes = [graph.node[i] for i in order]
        copies = [type(node).FromString(node.SerializeToString()) for node in nodes]
        del graph.node[:]
        graph.node.extend(copies)


def _makers(graph):
    maker = {}
    known = {value.name for value in (*graph.input, *graph.initializer)}
    for index, node in enumerate(graph.node):
        for name in filter(None, node.output):
            if name in maker or name in known:
                raise ValueError(f"tensor {shown(name)} is made twice, the second time by node {_title(node)}; "
                                 "each tensor has one maker")
            maker[name] = index
    return maker


def _order(waiting):
    """Indices in topological order, the smallest possible next; short if there is a cycle."""
    readers = [[] for _ in waiting]
    for index, before in enumerate(waiting):
        for maker in before:
            readers[maker].append(index)
    left = [len(before) for before in waiting]
    ready, order = [index for index, n in enumerate(left) if not n], []
    while ready:
        order.append(heapq.heappop(ready))
        for reader in readers[order[-1]]:
            left[reader] -= 1
            if not left[reader]:
                heapq.heappush(ready, reader)
    return order


def _title(node):
    name = node.name or next(iter(node.output), "")
    return f"{shown(name)} ({shown(node.op_type)[1:-1]})"
