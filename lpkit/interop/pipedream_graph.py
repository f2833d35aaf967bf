"""A profile as a graph of measured operations, and the parts of it that are planned.

Source: Narayanan et al., PipeDream (SOSP 2019); which operations it plans is the behaviour of its published optimizer.
"""

import re
from collections import defaultdict
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush

from lpkit.checks import shown

__all__ = ["Graph", "Operation", "in_order", "whole_graph", "without_inputs"]


@dataclass(frozen=True)
class Operation:
    """One node of a profile: times in ms, sizes in bytes of one mini-batch, `inputs` the ids of the nodes it reads."""

    id: str
    operation: str
    forward: float
    backward: float
    activation: int
    parameters: int
    inputs: tuple = ()


@dataclass(frozen=True)
class Graph:
    """A profile: operations in an order in which each comes after its inputs."""

    name: str
    operations: tuple
    source: str = ""


def in_order(operations, name):
    """Operations, a dict by id, as a tuple sorted by the number in their id, inputs first.

    Raises
    ------
    ValueError
        If there is none, or a cycle; `name` is the file's.
    """
    ranks = {key: (int(re.sub(r"\D", "", key) or 0), key) for key in operations}
    if not operations:
        raise ValueError(f"{name!r} has no node; give at least one")
    missing = {key: set(o.inputs) for key, o in operations.items()}
    readers, ordered = defaultdict(set), []
    for key, inputs in missing.items():
        for source in inputs:
            readers[source].add(key)
    ready = [(ranks[key], key) for key, inputs in missing.items() if not inputs]
    heapify(ready)
    while ready:
        key = heappop(ready)[1]
        ordered.append(operations[key])
        for reader in readers[key]:
            missing[reader].discard(key)
            if not missing[reader]:
                heappush(ready, (ranks[reader], reader))
    if len(ordered) < len(operations):
        stuck = min((key for key, inputs in missing.items() if inputs), key=ranks.get)
        raise ValueError(f"{name!r} has a cycle at or before {shown(stuck)}; a profile must not have one")
    return tuple(ordered)


def without_inputs(graph):
    """Operations that PipeDream plans: no ``Input`` without inputs of its own, no ``__getitem__`` that nobody reads.

    Raises
    ------
    ValueError
        If nothing else is there.
    """
    dropped = {o.id for o in graph.operations if o.operation.startswith("Input") and not o.inputs}
    read = {name for o in graph.operations if o.id not in dropped for name in o.inputs}
    dropped |= {o.id for o in graph.operations if o.operation.startswith("__getitem__") and o.id not in read}
    kept = [o for o in graph.operations if o.id not in dropped]
    if not kept:
        raise ValueError(f"the profile {graph.name!r} has only inputs; there is nothing to plan")
    return tuple(replace(o, inputs=tuple(i for i in o.inputs if i not in dropped)) for o in kept)


def whole_graph(graph):
    """As `without_inputs`; refuses a graph of several parts, which edges that were cut off leave behind.

    Raises
    ------
    ValueError
        If there are several parts, or nothing to plan.
    """
    operations = without_inputs(graph)
    neighbours = defaultdict(set)
    for o in operations:
        for name in o.inputs:
            neighbours[o.id].add(name)
            neighbours[name].add(o.id)
    found, todo = {operations[0].id}, [operations[0].id]
    while todo:
        new = neighbours[todo.pop()] - found
        found |= new
        todo += new
    for o in operations:
        if o.id not in found:
            raise ValueError(f"the profile {graph.name!r} falls into parts: no edge leads from {operations[0].id!r} to "
                             f"{shown(o.id)}; give all edges, the file may have been cut off")
    return operations
