"""Profiles measured with PipeDream: its ``graph.txt`` and our own CSV of the same numbers, read and written.

A profile is a directed graph of operations with forward and backward times in ms and sizes in bytes; backward is one
number. `to_costs` makes costs for the planners of it, `lpkit.interop.pipedream_states` plans it as PipeDream does.
Source: Narayanan et al., PipeDream (SOSP 2019), and the file format of github.com/msr-fiddle/pipedream (MIT licence).
"""

import csv
import math
import os
import re
from collections import defaultdict
from fractions import Fraction
from pathlib import Path, PurePath

from lpkit.checks import read_text, real, shown, unknown_name, whole_number, write_atomically
from lpkit.interop.pipedream_costs import LARGEST, to_costs
from lpkit.interop.pipedream_graph import Graph, Operation, in_order, whole_graph, without_inputs

__all__ = ["Graph", "Operation", "PROFILES", "read_graph", "read_profile", "to_costs", "without_inputs",
           "whole_graph", "write_graph", "write_profile"]

FOLDER = Path(__file__).parents[2] / "data" / "profiles"
PROFILES = ("alexnet", "densenet121", "gnmt", "resnet50", "resnet101", "vgg16")
COLUMNS = ("id", "operation", "forward_ms", "backward_ms", "activation_bytes", "parameter_bytes", "inputs")
CSV_ID = re.compile(r'[^\s,"#][^\s,"]*')  # of `write_profile`; a line with a # in front is a comment
MOST_DIGITS = 1000  # of an id, whose number gives the order
FIELDS = ("forward_compute_time", "backward_compute_time", "activation_size", "parameter_size")


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
    return Graph(name, in_order(operations, path.name), str(path.name))


def _node(line, where):
    """Fields of a node line."""
    parts = line.split(" -- ")
    if sum(character.isdigit() for character in parts[0]) > MOST_DIGITS:
        raise ValueError(f"{where} has an id of more than {MOST_DIGITS} digits; give a shorter one")
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
    if not text.endswith(".csv") and not os.path.exists(text) and text not in PROFILES:
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
    """Write `graph` as our own CSV; `read_profile` gives the same numbers back.

    Raises
    ------
    ValueError
        If an id, description, time or size would not be read back as it is, or the file cannot be written.
    """
    rows = ["# " + " ".join(str(graph.source).split()), ",".join(COLUMNS)]
    for o in graph.operations:
        numbers = ",".join(map(str, _numbers(o)))
        text = isinstance(o.id, str) and isinstance(o.operation, str)
        if not text or not CSV_ID.fullmatch(o.id) or o.operation.splitlines() not in ([], [o.operation]):
            raise ValueError(f"the operation {shown(o.id)}, {shown(o.operation)}, cannot be written: an id must be "
                             "text without blanks, commas, quotes and a # in front, a description text of one line")
        quoted = '"' + o.operation.replace('"', '""') + '"'
        rows.append(f"{o.id},{quoted},{numbers},{' '.join(o.inputs)}")
    return write_atomically(path, "\n".join(rows) + "\n")


def _numbers(o):
    """Times and sizes of an operation as they are written, which readers must be able to take."""
    names = [f"{field} of {shown(o.id)}" for field in FIELDS]
    times = [_text(real(time, name)) for time, name in zip((o.forward, o.backward), names)]
    sizes = zip((o.activation, o.parameters), names[2:])
    return [*times, *(whole_number(size, name, least=0, most=LARGEST) for size, name in sizes)]


def _text(time):
    """The shortest text that reads back as the same time."""
    return str(float(time)).removesuffix(".0")


def write_graph(graph, path, *, stages=()):
    """Write `graph` as PipeDream's ``graph.txt``, whole or not at all; returns the path.

    `read_graph` gives the same operations back, in the order of the numbers in their ids. The file has no place for the
    source of the numbers.

    Parameters
    ----------
    graph : Graph
    path : str or path
    stages : sequence of sequences of str, optional
        Ids of the operations of each stage, as `straight_pipeline` and `stage_operations` give them: each node then has
        a ``stage_id``, counted from 0. What is in none of them, as the inputs, which are not planned, is put with the
        latest stage that it reads from, or with the first.

    Raises
    ------
    ValueError
        If an id, description, time or size would not be read back as it is, an operation reads one that is not before
        it, a stage names an operation that is not there or in another stage, or the file cannot be written.
    """
    suffixes, known = dict.fromkeys((o.id for o in graph.operations), ""), set()
    if not (stages is None or (isinstance(stages, (list, tuple)) and not stages)):
        suffixes = {name: f" -- stage_id={stage}" for name, stage in _stage_ids(graph, stages).items()}
    nodes, edges = [], []
    for o in graph.operations:
        nodes.append(_node_line(o, known) + suffixes[o.id])
        edges += [f"\t{name} -- {o.id}" for name in o.inputs]
        known.add(o.id)
    return write_atomically(path, "\n".join(nodes + edges) + "\n")


def _node_line(o, before):
    """The line of an operation, whose inputs must be `before` it."""
    values = (f"{field}={value}" for field, value in zip(FIELDS, _numbers(o)))
    line = f"{o.id} -- {o.operation} -- " + ", ".join(values)
    parts = line.strip().split(" -- ")
    if line.splitlines() != [line] or [part.strip() for part in parts[:-1]] != [o.id, o.operation]:
        raise ValueError(f"the operation {shown(o.id)}, {shown(o.operation)}, cannot be written: id and description "
                         "must be text of one line without ' -- ' and without blanks at the ends")
    if o.id in before:
        raise ValueError(f"the id {shown(o.id)} stands for two operations; ids must differ")
    for name in o.inputs:
        if name not in before:
            raise ValueError(f"the operation {shown(o.id)} reads {shown(name)}, which is not before it; put operations "
                             "after their inputs")
    return line


def _stage_ids(graph, stages):
    """Stage, from 0, of each operation."""
    if not isinstance(stages, (list, tuple)) or not all(isinstance(stage, (list, tuple)) for stage in stages):
        raise ValueError(f"stages is {shown(stages)}; it must be a list with a list of ids for each stage")
    given = [(name, number) for number, stage in enumerate(stages) for name in stage]
    names, found = {o.id for o in graph.operations}, {}
    for name, number in given:
        if not isinstance(name, str) or name not in names:
            raise unknown_name(name, f"an operation of stage {number}", sorted(names))
        if found.setdefault(name, number) != number:
            raise ValueError(f"the operation {shown(name)} is in the stages {found[name]} and {number}; "
                             "it must be in one")
    for o in graph.operations:
        found.setdefault(o.id, max((found.get(name, 0) for name in o.inputs), default=0))
    return found
