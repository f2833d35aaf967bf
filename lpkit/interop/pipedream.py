"""Profiles measured with PipeDream: its ``graph.txt``, our own CSV of the same numbers, and costs for the planners.

A profile is a directed graph of operations with forward and backward times in ms and sizes in bytes; backward is one
number. `lpkit.interop.pipedream_states` plans such a graph as PipeDream does.
Source: Narayanan et al., PipeDream (SOSP 2019), and the file format of github.com/msr-fiddle/pipedream (MIT licence).
"""

import csv
import math
import re
from collections import defaultdict
from dataclasses import dataclass, replace
from fractions import Fraction
from heapq import heapify, heappop, heappush
from itertools import accumulate
from pathlib import Path, PurePath

import numpy as np

from lpkit.chains import python_number
from lpkit.checks import choice, read_text, shown, unknown_name, write_atomically
from lpkit.costs import Costs

__all__ = ["Graph", "Operation", "PROFILES", "layer_homes", "read_graph", "read_profile", "to_costs", "without_inputs",
           "whole_graph", "write_profile"]

FOLDER = Path(__file__).parents[2] / "data" / "profiles"
PROFILES = ("alexnet", "densenet121", "gnmt", "resnet50", "resnet101", "vgg16")
COLUMNS = ("id", "operation", "forward_ms", "backward_ms", "activation_bytes", "parameter_bytes", "inputs")
LARGEST = 2**63 - 1024  # bytes of a layer or cut: what 64 bits hold, also as the nearest float
FIELDS = ("forward_compute_time", "backward_compute_time", "activation_size", "parameter_size")


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


def read_graph(path):
    """PipeDream's ``graph.txt``: nodes ``id -- description -- forward_compute_time=MS, ...``, edges TAB ``id -- id``.

    Raises
    ------
    FileNotFoundError, ValueError
        With the line that cannot be read; also for an unknown or repeated id and for a cycle.
    """
    path, nodes, inputs = Path(path), {}, defaultdict(list)
    for number, line in enumerate(read_text(path).splitlines(), 1):
        where = f"line {number} of {path.name!r}"
        if line.startswith("\t"):
            source, target = _edge(line, nodes, where)
            inputs[target].append(source)
        elif line.strip():
            node = _node(line.strip(), where)
            if node["id"] in nodes:
                raise ValueError(f"{where} repeats the node {shown(node['id'])}; ids must differ")
            nodes[node["id"]] = node
    operations = {name: Operation(**node, inputs=tuple(inputs[name])) for name, node in nodes.items()}
    name = path.name.removesuffix(".txt").removesuffix("graph").removesuffix(".") or path.parent.name
    return Graph(name, _ordered(operations, path.name), str(path.name))


def _node(line, where):
    """Fields of a node line."""
    parts = line.split(" -- ")
    if len(parts) not in (3, 4):
        raise ValueError(f"{where} is {shown(line)}; a node is 'id -- description -- forward_compute_time=MS, "
                         "backward_compute_time=MS, activation_size=BYTES, parameter_size=BYTES'")
    values = dict(part.split("=", 1) for part in parts[2].split(", ") if "=" in part)
    missing = [field for field in FIELDS if field not in values]
    if missing:
        raise ValueError(f"{where} has no {missing[0]}; a node needs {', '.join(FIELDS)}")
    names = [f"{field} in {where}" for field in FIELDS]
    forward, backward = (_sum(values[field], name) for field, name in zip(FIELDS[:2], names))
    activation, parameters = (_size(values[field], name) for field, name in zip(FIELDS[2:], names[2:]))
    return dict(id=parts[0].strip(), operation=parts[1].strip(), forward=forward, backward=backward,
                activation=activation, parameters=parameters)


def _edge(line, nodes, where):
    """Source and target of an edge line."""
    ends = line.strip().split(" -- ")
    if len(ends) != 2:
        raise ValueError(f"{where} is {shown(line.strip())}; an edge is a tab, then 'id -- id'")
    for end in ends:
        if end not in nodes:
            raise ValueError(f"{where} names the node {shown(end)}, which no line before it describes")
    return ends


def _sum(text, name):
    """Sum of the numbers of ``1.5`` or ``[1.5; 2]``, which must be finite and not negative."""
    try:
        total = sum(float(part) for part in text.strip("[] ").split(";"))
    except ValueError:
        total = math.nan
    if not 0 <= total < math.inf:
        raise ValueError(f"{name} is {shown(text)}; it must be a number from 0, or [number; number]")
    return total


def _size(text, name):
    """As `_sum`, of bytes: a whole number, exact also where a float would lose digits."""
    about = _sum(text, name)
    # An exponent far below zero would make a fraction of as many digits; a float does for what is small.
    parts = [Fraction(part.strip() if float(part) >= 2**53 else float(part)) for part in text.strip("[] ").split(";")]
    total = round(about if about < 2**53 else sum(parts))
    if total > LARGEST:
        raise ValueError(f"{name} is {shown(text)}; it must be a number of bytes of at most {LARGEST}")
    return total


def _ordered(operations, name):
    """Operations sorted by the number in their id, inputs first."""
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


def read_profile(path_or_name):
    """A profile from our own CSV: a built-in name or a path.

    Columns ``id, operation, forward_ms, backward_ms, activation_bytes, parameter_bytes, inputs`` (ids with blanks
    between them); a first line that starts with ``#`` says where the numbers are from.

    Raises
    ------
    FileNotFoundError, ValueError
        If there is no such profile or a row cannot be read.

    Examples
    --------
    >>> profile = read_profile("vgg16")
    >>> len(profile.operations), profile.operations[3]  # doctest: +NORMALIZE_WHITESPACE
    (41, Operation(id='node4', operation='Conv2d(64, 64, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))',
    forward=46.201, backward=113.33, activation=1644167168, parameters=147712, inputs=('node3',)))
    """
    if not isinstance(path_or_name, (str, PurePath)):
        raise unknown_name(path_or_name, "profile", PROFILES)
    text = str(path_or_name)
    if not text.endswith(".csv") and not Path(text).exists() and text not in PROFILES:
        raise unknown_name(text, "profile", PROFILES)
    path = FOLDER / f"{text}.csv" if text in PROFILES else Path(text)
    lines = read_text(path).splitlines()
    comments = [line for line in lines if line.startswith("#")]
    rows = list(csv.reader(line for line in lines if not line.startswith("#")))
    if not rows:
        raise ValueError(f"{path.name!r} holds nothing but comments; it may have been cut off")
    if tuple(rows[0]) != COLUMNS:
        columns = shown(", ".join(rows[0]))[1:-1]
        raise ValueError(f"{path.name!r} has the columns {columns}; a profile has {', '.join(COLUMNS)}")
    operations = {}
    for number, row in enumerate(rows[1:], len(comments) + 2):
        operation = _row(row, f"line {number} of {path.name!r}", operations)
        operations[operation.id] = operation
    if not operations:
        raise ValueError(f"{path.name!r} has no row; give at least one operation")
    return Graph(path.stem, tuple(operations.values()), " ".join(c.lstrip("# ") for c in comments[:1]))


def _row(row, where, before):
    """One operation of the CSV; its inputs must be rows `before` it."""
    if len(row) != len(COLUMNS):
        raise ValueError(f"{where} has {len(row)} columns; a profile has {len(COLUMNS)}")
    read = (_sum, _sum, _size, _size)
    values = [number(text, f"{column} in {where}") for number, text, column in zip(read, row[2:6], COLUMNS[2:6])]
    if row[0] in before:
        raise ValueError(f"{where} repeats the id {shown(row[0])}; ids must differ")
    for name in row[6].split():
        if name not in before:
            raise ValueError(f"{where} reads {shown(name)}, which no row before it is; rows come after their inputs")
    return Operation(row[0], row[1], *values, tuple(row[6].split()))


def write_profile(graph, path):
    """Write `graph` as our own CSV."""
    rows = [f"# {graph.source}", ",".join(COLUMNS)]
    for o in graph.operations:
        quoted = '"' + o.operation.replace('"', '""') + '"'
        rows.append(f"{o.id},{quoted},{o.forward:g},{o.backward:g},{o.activation},{o.parameters},{' '.join(o.inputs)}")
    return write_atomically(path, "\n".join(rows) + "\n")


def without_inputs(graph):
    """Operations that PipeDream plans: no ``Input`` without inputs of its own, no ``__getitem__`` that nobody reads."""
    dropped = {o.id for o in graph.operations if o.operation.startswith("Input") and not o.inputs}
    read = {name for o in graph.operations if o.id not in dropped for name in o.inputs}
    dropped |= {o.id for o in graph.operations if o.operation.startswith("__getitem__") and o.id not in read}
    kept = [o for o in graph.operations if o.id not in dropped]
    if not kept:
        raise ValueError(f"the profile {graph.name!r} has only inputs; there is nothing to plan")
    return tuple(replace(o, inputs=tuple(i for i in o.inputs if i not in dropped)) for o in kept)


def whole_graph(graph):
    """As `without_inputs`; refuses a graph of several parts, which edges that were cut off leave behind."""
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


def to_costs(graph, *, granularity="fused", split_backward="half", first_layer_delta=False):
    """Costs of a profile for the planners, in ms; a linear order of its operations (that of their ids).

    Parameters
    ----------
    graph : Graph
    granularity : {"fused", "nodes"}
        ``"fused"``: a layer is an operation with weights (batch normalisation aside) and what follows up to the next;
        ``"nodes"``: every operation is a layer.
    split_backward : {"half", "by_forward"} or number from 0 to 1
        How much of the backward time of an operation with weights is delta: half; all above the forward time (G then
        takes as long as F); or that share. The backward time of everything else stays where it is and counts as G.
    first_layer_delta : bool
        Whether the first layer computes the error of the network's input; its backward time is all G if not.

    Raises
    ------
    ValueError
        If an argument is unknown, the graph falls into parts, or a size leaves 64 bits.

    Examples
    --------
    >>> chain = to_costs(read_profile("vgg16"))
    >>> len(chain), round(chain.total, 1), chain.layers[1], chain.delta[1].item()
    (16, 672.5, 'node4 Conv2d', 56.665)
    """
    choice(granularity, "granularity", ("fused", "nodes"))
    share = _delta_of(split_backward)
    operations = whole_graph(graph)
    home, heads = layer_homes(operations, granularity)
    forward, backward, delta = (np.zeros(len(heads)) for _ in range(3))
    weights = [0] * len(heads)
    for o in operations:
        layer = home[o.id]
        forward[layer] += o.forward
        backward[layer] += o.backward
        weights[layer] += o.parameters
        if _leads(o) and (layer or first_layer_delta):
            delta[layer] = share(o.forward, o.backward)
    traffic = _traffic(graph, operations, home, heads)
    names = tuple(f"{o.id} {o.operation.split('(')[0]}" for o in heads)
    kinds = ("weights of", "inputs of", "outputs of", "tensors across the cut after")
    for what, sizes in zip(kinds, (weights, *traffic)):
        _fit(sizes, what, names)
    return Costs(f"{graph.name}, measured ({granularity})", names, forward, backward - delta, delta, weights,
                 *traffic, unit="ms", source=graph.source)


def _fit(sizes, what, names):
    """Refuse bytes of a layer that 64 bits do not hold."""
    for size, name in zip(sizes, names):
        if size > LARGEST:
            raise ValueError(f"the {what} layer {shown(name)} have {size} bytes, more than {LARGEST}; "
                             "check the sizes of the profile")


def _delta_of(split):
    """Delta's part of a backward time, as a function of forward and backward time."""
    share = python_number(split)
    if share is not None:
        if not 0 <= share <= 1:
            raise ValueError(f"split_backward is {shown(split)}; as a number it must lie between 0 and 1")
        return lambda forward, backward: float(share) * backward
    choice(split, "split_backward", ("half", "by_forward"))
    return (lambda forward, backward: backward / 2) if split == "half" else lambda f, b: max(b - f, 0.0)


def _leads(operation):
    """Whether an operation starts a layer: it has weights and does more than scale and shift."""
    return operation.parameters > 0 and not operation.operation.startswith("BatchNorm")


def layer_homes(operations, granularity):
    """Layer (from 0) of each id, and the operation that names each layer.

    An operation that starts no layer goes with the latest layer among its inputs, or with the first.
    """
    home, heads = {}, []
    for o in operations:
        if granularity == "nodes" or _leads(o):
            home[o.id] = len(heads)
            heads.append(o)
        else:
            home[o.id] = max((home[i] for i in o.inputs), default=0)
    return home, heads or list(operations[:1])


def _traffic(graph, operations, home, heads):
    """Input, output and cut bytes, first consumer (1-based) and shared input of each layer."""
    L, size = len(heads), {o.id: o.activation for o in graph.operations}
    readers = defaultdict(list)
    for o in operations:
        for name in o.inputs:
            readers[name].append(o)
    starts = {o.id: layer for layer, o in enumerate(heads)}
    given = {o.id: o.inputs for o in graph.operations}
    first, outputs, changes = [], [0] * L, [0] * L  # of the bytes that cross, from one cut to the next
    for o in reversed(operations):
        last = max((home[r.id] for r in readers[o.id]), default=home[o.id])
        changes[home[o.id]] += o.activation
        changes[last] -= o.activation
        outputs[home[o.id]] = outputs[home[o.id]] or o.activation
    for o in heads:
        first.append(_first_reader(o.id, readers, starts, L) + 1)
    cuts = list(accumulate(changes[:-1]))
    inputs = [sum(size[name] for name in given[o.id]) for o in heads]
    shared = [any(len(readers[name]) > 1 for name in o.inputs) for o in heads]
    return inputs, outputs, cuts, first, shared


def _first_reader(name, readers, starts, none):
    """Lowest layer that reads the output of `name`, directly or through operations that start no layer."""
    todo, seen, found = [name], set(), none
    while todo:
        for reader in readers[todo.pop()]:
            if reader.id in starts:
                found = min(found, starts[reader.id])
            elif reader.id not in seen:
                seen.add(reader.id)
                todo.append(reader.id)
    return found
