"""Networks: find a built-in one by name; read and write them as CSV files that people can edit.

The file format is described at `read_csv`. The types come from `lpkit.operations` and `lpkit.graph`, the
architectures from `lpkit.builtin` and `lpkit.transformers`; all of their public names are public names of this module
too.
"""

import csv
import dataclasses
import inspect
import io
import re
from contextlib import contextmanager
from pathlib import Path

from lpkit import builtin, transformers
from lpkit.builtin import (
    alexnet, lenet5, mobilenet_v1, resnet18, resnet34, resnet50, resnet101, resnet152, sample4, unet, vgg11, vgg13,
    vgg16, vgg19,
)  # fmt: skip
from lpkit.checks import choice, read_text, shown, unknown_name, write_atomically
from lpkit.graph import INPUT, Layer, Network, Node, checked_shape, node_shape
from lpkit.operations import (
    ACTIVATIONS, GEMM_OPERATIONS, JOINS, OPERATIONS, STATED, Activation, Add, BatchNorm, Carried, Concat, Conv, ConvND,
    ConvTranspose, Dense, Flatten, GlobalPool, MatMul, Pool, is_source, is_view, mac_count, output_shape,
    parameter_count, weight_count,
)  # fmt: skip
from lpkit.transformers import bert_base, gpt2, vit_b16

__all__ = [
    "NETWORKS", "network", "read_csv", "write_csv",
    "sample4", "lenet5", "alexnet", "vgg11", "vgg13", "vgg16", "vgg19", "resnet18", "resnet34", "resnet50", "resnet101",
    "resnet152", "mobilenet_v1", "unet", "bert_base", "gpt2", "vit_b16",
    "INPUT", "Layer", "Network", "Node", "node_shape",
    "Conv", "ConvTranspose", "Dense", "Pool", "GlobalPool", "Flatten", "BatchNorm", "Activation", "Add", "Concat",
    "Carried", "ConvND", "MatMul", "ACTIVATIONS", "GEMM_OPERATIONS", "JOINS", "OPERATIONS", "STATED", "is_source",
    "is_view", "mac_count", "output_shape", "parameter_count", "weight_count",
]  # fmt: skip

_BUILT_IN = {name: getattr(module, name) for module in (builtin, transformers) for name in module.__all__}
NETWORKS = tuple(_BUILT_IN)

_WRITTEN = [kind for kind in OPERATIONS if kind not in STATED]  # what a file of this form can say

_COLUMNS = (
    "name", "op", "inputs", "out", "kernel", "stride", "padding", "groups", "dilation", "bias", "kind", "ceil_mode",
)  # fmt: skip
_COLUMN_OF = {"out_channels": "out", "out_features": "out"}  # any other field has a column of its own name
_FLAGS = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}


def network(name, **options):
    """The built-in network of that name (any case), one of `NETWORKS`, at its published input size.

    ``**options`` are those of the function of that name in this module, such as `size`, `classes` or `sequence`.

    Raises
    ------
    ValueError
        If there is none, the sentence names the nearest; or if the network does not take an option, or not that value.

    Examples
    --------
    >>> network("VGG16").parameters
    138357544
    >>> network("bert_base", sequence=128).input_shape
    (128, 1, 1)
    """
    known = str(name).strip().lower()
    if known not in NETWORKS:
        raise unknown_name(name, "network", NETWORKS)
    taken = tuple(inspect.signature(_BUILT_IN[known]).parameters)
    for option in options:
        if option not in taken:
            raise unknown_name(option, "option", taken, said=f"{known} has no option {shown(option)}")
    return _BUILT_IN[known](**options)


def read_csv(path):
    """The `Network` in a CSV file: one line a node, in an order in which each comes after all it reads.

    ::

        # network: tiny
        # input: 3x32x32
        name,op,out,kernel,stride,padding,inputs
        conv1,Conv,16,3,,1,
        relu1,Activation,,,,,
        conv2,Conv,16,3x3,1,1x1,
        sum,Add,,,,,conv2 relu1

    * Before the nodes stand comments `# key: value`: `input` (channels x height x width; needed), `network` (its name;
      the file's, without commas, if left out) and `nodes` (how many there are: a check that nothing was cut off).
      Other lines that start with # say nothing to the reader, nor do empty ones.
    * The header names the columns, in any order: `name` and `op` are needed; `inputs`, `out`, `kernel`, `stride`,
      `padding`, `groups`, `dilation`, `bias`, `kind`, `ceil_mode` as the operations take them.
    * `op` is Conv, ConvTranspose, Dense, Pool, GlobalPool, Flatten, BatchNorm, Activation, Add or Concat. An empty cell
      is the default of the operation. `out` is the number of output channels or features; sizes are `3` or, vertical
      x horizontal, `3x5`; `bias` and `ceil_mode` are yes or no.
    * `inputs` are names of earlier nodes with blanks between; `input` is the network's own. Empty: the line before.

    Raises
    ------
    FileNotFoundError, ValueError
        If the file is missing, is not such a table, or its nodes do not fit; the sentence gives file and line.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "tiny.csv"
    >>> _ = path.write_text("# input: 3x32x32\\nname,op,out,kernel\\nconv1,Conv,16,3\\nrelu1,Activation,,\\n")
    >>> read_csv(path).shapes["relu1"]
    (16, 30, 30)
    """
    comments, table = _lines(path, read_text(path))
    columns = _header(path, table)
    shape = _input_shape(path, comments)
    nodes, shapes = [], {INPUT: shape}
    known = {cells[columns.index("name")] for _, cells in table[1:] if len(cells) == len(columns)}
    for line, cells in table[1:]:
        with _at(path, line):
            node = _node(columns, cells, nodes[-1].name if nodes else INPUT)
            shapes[node.name] = node_shape(node, shapes, known)
        nodes.append(node)
    _check_node_count(path, comments, nodes)
    line, name = comments.get("network", (1, _name_of(path)))
    with _at(path, line):
        return Network(name, shape, tuple(nodes))


def _name_of(path):
    """The name of a file as a network may have it: without commas and what cannot be printed."""
    kept = "".join(sign if sign.isprintable() and sign != "," else " " for sign in Path(path).stem)
    return " ".join(kept.split()) or "network"


def write_csv(network, path):
    """Write `network` to `path` in the format of `read_csv`, whole or not at all; returns the path.

    Raises
    ------
    ValueError
        If the file cannot be written, or the network holds a ConvND, MatMul or Carried, as those of model files and
        transformers do.

    Examples
    --------
    >>> import tempfile
    >>> path = write_csv(sample4(), Path(tempfile.mkdtemp()) / "sample4.csv")
    >>> print(*path.read_text().splitlines()[:5], sep="\\n")
    # network: sample4
    # input: 3x224x224
    # nodes: 8
    name,op,inputs,out,kernel,stride,padding,groups,dilation,bias,kind,ceil_mode
    conv1,Conv,,32,5x5,2x2,2x2,,,no,,
    """
    text = io.StringIO()
    text.write(f"# network: {network.name}\n# input: {_text(network.input_shape)}\n# nodes: {len(network.nodes)}\n")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    previous = INPUT
    for node in network.nodes:
        writer.writerow(_row(node, previous))
        previous = node.name
    return write_atomically(path, text.getvalue())


@contextmanager
def _at(path, line):
    """Put file and line before the message of a ValueError."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{path}, line {line}: {error}") from None


def _lines(path, text):
    """Comments as {key: (line, value)} and the other lines as [(line, cells)]; empty lines are left out."""
    comments, table = {}, []
    for line, content in enumerate(text.splitlines(), 1):
        with _at(path, line):
            if content.lstrip().startswith("#"):
                _keep_comment(comments, line, content)
            elif content.strip(" ,\t"):
                table.append((line, _cells(content)))
    return comments, table


def _keep_comment(comments, line, content):
    content = content.strip(" ,\t")  # spreadsheets fill comment lines up with commas
    found = re.fullmatch(r"#\s*(network|input|nodes)\s*:\s*(.*)", content, re.IGNORECASE)
    if not found:
        return
    key = found[1].lower()
    if key in comments:
        raise ValueError(f"'# {key}:' was given in line {comments[key][0]} already; keep one of them")
    comments[key] = (line, found[2])


def _cells(content):
    try:
        return [cell.strip() for cell in next(csv.reader([content], strict=True))]
    except csv.Error as error:
        raise ValueError(f"this is not a line of a CSV file ({error}); check its quotation marks") from None


def _header(path, table):
    if not table:
        raise ValueError(f"{path} has no table; begin it with a header, as in 'name,op,out,kernel'")
    line, columns = table[0]
    with _at(path, line):
        for column in columns:
            choice(column, "column", _COLUMNS)
        missing = [column for column in ("name", "op") if column not in columns]
        if missing or len(set(columns)) < len(columns):
            fault = f"lacks {missing[0]!r}" if missing else "names a column twice"
            raise ValueError(f"the header {fault}; it needs 'name' and 'op', and each column once")
    if len(table) == 1:
        raise ValueError(f"{path} has a header but no nodes; it may have been cut off")
    return columns


def _input_shape(path, comments):
    if "input" not in comments:
        raise ValueError(f"{path} has no line '# input: 3x224x224'; add one (channels x height x width)")
    line, text = comments["input"]
    with _at(path, line):
        return checked_shape(_numbers("input", text, 3, "three whole numbers, as in 3x224x224"))


def _check_node_count(path, comments, nodes):
    line, text = comments.get("nodes", (1, str(len(nodes))))
    if text != str(len(nodes)):
        raise ValueError(
            f"{path}, line {line}: '# nodes:' says {shown(text)}, but the file has {len(nodes)}; "
            "it may have been cut off (after an edit, correct or delete that line)"
        )


def _node(columns, cells, previous):
    if len(cells) != len(columns):
        raise ValueError(
            f"{len(cells)} cells where the header has {len(columns)}; give each line as many (or was the file cut off?)"
        )
    cells = {column: cell for column, cell in zip(columns, cells) if cell}
    name, inputs = cells.pop("name", ""), cells.pop("inputs", previous)
    return Node(name, _operation(cells), tuple(inputs.split()))


def _operation(cells):
    """The operation that non-empty `cells` {column: text} describe."""
    kinds = {kind.__name__.lower(): kind for kind in _WRITTEN}
    text = cells.pop("op", "")
    if text.lower() not in kinds:
        raise unknown_name(text, "op", [kind.__name__ for kind in _WRITTEN])
    kind = kinds[text.lower()]
    fields = {_COLUMN_OF.get(field.name, field.name): field for field in dataclasses.fields(kind)}
    for column in cells:
        if column not in fields:
            takes = ", ".join(fields) or "no settings"
            raise ValueError(f"{kind.__name__} has no {shown(column)} (here {shown(cells[column])}); it takes {takes}")
    for column, field in fields.items():
        if field.default is dataclasses.MISSING and column not in cells:
            raise ValueError(f"{kind.__name__} needs {shown(column)}; fill that cell")
    return kind(**{fields[column].name: _value(column, cell) for column, cell in cells.items()})


def _value(column, cell):
    if column == "kind":
        return cell
    if column in ("bias", "ceil_mode"):
        if cell.lower() not in _FLAGS:
            raise ValueError(f"{column} is {shown(cell)}; it must be yes or no")
        return _FLAGS[cell.lower()]
    if column in ("out", "groups"):
        return _numbers(column, cell, 1, "a whole number")[0]
    numbers = _numbers(column, cell, 2, "a whole number, or two as in 3x5")
    return numbers[0] if len(numbers) == 1 else numbers


def _numbers(column, cell, most, allowed):
    """Numbers written as 3, 3.0 or 3x5: digits only, so no sign, fraction, exponent or NaN."""
    parts = cell.lower().split("x")
    if len(parts) > most or not all(re.fullmatch(r"[0-9]{1,18}(\.0*)?", part.strip()) for part in parts):
        raise ValueError(f"{column} is {shown(cell)}; it must be {allowed}")
    return tuple(int(part.split(".")[0]) for part in parts)


def _row(node, previous):
    """The cells of `node`; what is a default, or the line before as input, stays empty."""
    if type(node.op) not in _WRITTEN:
        raise ValueError(f"node {shown(node.name)} is a {type(node.op).__name__}, which this form of file cannot hold; "
                         "keep the model file, or the built-in name, that it came from")
    fields = dataclasses.fields(node.op)
    needed = {field.name: getattr(node.op, field.name) for field in fields if field.default is dataclasses.MISSING}
    plain = type(node.op)(**needed)
    cells = {"name": node.name, "op": type(node.op).__name__}
    if node.inputs != (previous,):
        cells["inputs"] = " ".join(node.inputs)
    for field in fields:
        value = getattr(node.op, field.name)
        if field.name in needed or value != getattr(plain, field.name):
            cells[_COLUMN_OF.get(field.name, field.name)] = _text(value)
    return [cells.get(column, "") for column in _COLUMNS]


def _text(value):
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "x".join(map(str, value)) if isinstance(value, tuple) else str(value)
