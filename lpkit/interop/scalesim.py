"""SCALE-Sim topology files: read them, report on them as SCALE-Sim does, plan on them, and write them.

A topology is a CSV file, one layer a line: name, input height and width (padding included), filter height and width,
channels, number of filters, stride. A GEMM topology has name, M, N, K instead. The reader forgives what makes
SCALE-Sim's own reader fail (no trailing comma, tabs, comments, spare columns) and names the line it cannot read.
"""

import re
import textwrap
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from lpkit.checks import LARGEST_SIZE, choice, read_text, shown, whole_number
from lpkit.costs import Costs, bytes_of
from lpkit.interop.scalesim_write import HEADER, write_topology
from lpkit.products import Shape, gemm_rows
from lpkit.systolic import Array, as_array, checked_product, cycles_grid, report

__all__ = ["Topology", "TopologyLayer", "read_topology", "report_topology", "topology_costs", "write_topology"]

CONV = ("ifmap_height", "ifmap_width", "filter_height", "filter_width", "channels", "filters", "stride")
GEMM = ("M", "N", "K")
PAIRS = (("ifmap_height", "ifmap_width"), ("filter_height", "filter_width"), ("stride", "stride_width"))
LARGEST_EXPANSION = 100_000  # layers that names with DP may expand to
HEADINGS = {  # what a heading holds (lower case, letters only) -> the column
    "ifmapheight": "ifmap_height", "ifmapwidth": "ifmap_width", "filterheight": "filter_height",
    "filterwidth": "filter_width", "channels": "channels", "channel": "channels", "numchannels": "channels",
    "numfilter": "filters", "numfilters": "filters", "strides": "stride", "stride": "stride",
    "strideheight": "stride", "stridewidth": "stride_width", "m": "M", "n": "N", "k": "K",
    "sparsity": "sparsity", "sparsityratio": "sparsity", "batchsize": "batch", "batch": "batch",
}  # fmt: skip


@dataclass(frozen=True)
class TopologyLayer:
    """A line of a topology: sizes as (height, width), the input padded.

    `separate` counts one-channel layers that run one after the other (a name with DP in it: `channels` is then 1);
    `batch` counts repetitions; `sparsity` is N:M as written and changes no count here (SCALE-Sim's default too);
    `gemm` says that the line gave M, N, K.
    """

    name: str
    ifmap: tuple
    filter: tuple
    channels: int
    filters: int
    stride: tuple
    separate: int = 1
    batch: int = 1
    sparsity: str = ""
    gemm: bool = False
    rounding: str = "ceil"

    @property
    def ofmap(self):
        """Output (height, width): (I - k + s) / s, rounded up as SCALE-Sim does, or down as frameworks do."""
        up = self.rounding == "ceil"
        return tuple((i - k + s + (s - 1) * up) // s for i, k, s in zip(self.ifmap, self.filter, self.stride))

    @property
    def shape(self):
        """The layer as a `lpkit.products.Shape`; a product M, N, K is a 1x1 convolution of M pixels, K channels."""
        one = (1, 1)
        if self.gemm:
            pixels = (self.ifmap[0], 1)
            return Shape(1, self.ifmap[1], self.filters, one, one, (0, 0), one, pixels, pixels)
        return Shape(self.separate, self.channels, self.filters, self.filter, self.stride, (0, 0), one, self.ifmap,
                     self.ofmap)


@dataclass(frozen=True)
class Topology:
    """A chain of layers of a topology file, in its order."""

    name: str
    layers: tuple = field(repr=False)

    def __len__(self):
        return len(self.layers)


def read_topology(path, *, kind=None, rounding="ceil"):
    """Read a SCALE-Sim topology, convolutions or products.

    Taken: with or without the trailing comma, byte order mark, tabs or semicolons for commas, blank lines, comments
    from ``#`` on, any line ends, columns for sparsity or batch, spare columns with an unknown heading, titles (a name
    and nothing else) before the heading or groups of layers, no heading, a heading that says width (or height) twice
    for height and width, the stride given twice without a column for it.

    Parameters
    ----------
    path : str or Path
    kind : {"conv", "gemm"}, optional
        What the lines hold; by default the heading, or else the number of columns, decides.
    rounding : {"ceil", "floor"}
        Whether a ragged last window counts, as in SCALE-Sim v2 and v3, or not.

    Returns
    -------
    Topology

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        Names the file, the line and what is wrong with it.

    Examples
    --------
    >>> import tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "net.csv")
    >>> with open(path, "w") as file:
    ...     _ = file.write("Layer,M,N,K\\nfc,4,10,64\\n")
    >>> read_topology(path).layers[0].shape.N
    10
    """
    choice(rounding, "rounding", ("ceil", "floor"))
    lines = [(n, cells) for n, cells in enumerate(map(_cells, read_text(path).splitlines()), 1) if any(cells)]
    # A name alone is a title, but on the last line it is a layer cut off.
    lines = [line for line in lines[:-1] if len(line[1]) > 1] + lines[-1:]
    columns = _columns(lines, path, kind)
    if _is_heading(lines[0][1]):
        lines = lines[1:]
    layers = tuple(_at(path, n, _fitting_layer, cells, columns, rounding) for n, cells in lines)
    if not layers:
        raise ValueError(f"{str(path)!r} has a heading but no layers; it may have been cut off")
    if sum(layer.separate for layer in layers) > LARGEST_EXPANSION:
        raise ValueError(f"{str(path)!r} expands to more than {LARGEST_EXPANSION} layers; give depthwise layers fewer "
                         "channels, or names without DP")
    return Topology(Path(path).stem, layers)


def _cells(line):
    line = line.split("#")[0]
    separator = next((s for s in ",\t;" if s in line), ",")
    cells = [cell.strip().strip('"').strip() for cell in line.split(separator)]
    while cells and not cells[-1]:
        cells.pop()
    return cells


def _is_heading(cells):
    return not any(re.fullmatch(r"[+-]?[\d.]+(e\d+)?", cell.lower()) for cell in cells[1:])


def _columns(lines, path, kind):
    """Which column each cell after the name is, from the heading or else from how many there are."""
    if kind is not None:
        choice(kind, "kind", ("conv", "gemm"))
    if not lines:
        raise ValueError(f"{str(path)!r} has no layers; it may have been cut off")
    number, first = lines[0]
    headings = _at(path, number, _headings, first[1:]) if _is_heading(first) else []
    for columns in (CONV, GEMM):
        if set(columns) <= set(headings) and kind in (None, "gemm" if columns is GEMM else "conv"):
            return headings
    if headings and kind is None:
        heading = textwrap.shorten(", ".join(first), 120, placeholder=" ...")
        raise ValueError(f"{str(path)!r}, line {number}: the heading {heading!r} is that of no topology; it must be "
                         f"{HEADER.strip(' ,' + chr(10))!r} or 'Layer, M, N, K'")
    count = max(len(cells) for _, cells in lines) - 1
    return list(GEMM if kind == "gemm" or (kind is None and count < len(CONV)) else CONV)


def _headings(cells):
    """Columns that a heading names; one that says width (or height) twice means height and width, in this order."""
    found = [HEADINGS.get(re.sub("[^a-z]", "", cell.lower())) for cell in cells]
    for pair in PAIRS:
        places = [i for i, column in enumerate(found) if column in pair]
        if len(places) == 2 and found[places[0]] == found[places[1]]:
            found[places[0]], found[places[1]] = pair
    repeated = [cell for cell, column in zip(cells, found) if column and found.count(column) > 1]
    if repeated:
        raise ValueError(f"the heading names {shown(repeated[0])} more than once; name each column once")
    return found


def _at(path, number, function, *arguments):
    try:
        return function(*arguments)
    except ValueError as error:
        raise ValueError(f"{str(path)!r}, line {number}: {error}") from None


def _fitting_layer(cells, columns, rounding):
    layer = _layer(cells, columns, rounding)
    gemm_rows(layer.shape, "F")  # refuses what 64 bits do not hold
    return layer


def _layer(cells, columns, rounding):
    values = dict(zip(columns, cells[1:]))
    spare = _spare(cells, columns, values)
    if len(spare) == 1 and ":" in spare[0] and "sparsity" not in columns:
        values["sparsity"], spare = spare[0], []
    if spare:
        raise ValueError(f"there is a value {shown(spare[0])} more than columns; remove it, or name its column in the "
                         "heading")
    needed = GEMM if "M" in columns else CONV
    sizes = {name: _whole(values.get(name, ""), name) for name in needed}
    options = {"batch": _whole(values.get("batch") or "1", "batch"), "sparsity": _sparsity(values.get("sparsity", "")),
               "rounding": rounding}
    if needed is GEMM:
        M, N, K = sizes.values()
        return TopologyLayer(cells[0], (M, K), (1, K), 1, N, (1, 1), gemm=True, **options)
    return _conv_layer(cells[0], sizes, _whole(values.get("stride_width") or values["stride"], "stride"), options)


def _spare(cells, columns, values):
    """Values that no column holds, without those that SCALE-Sim's own files have there."""
    spare = [cell for cell in cells[1 + len(columns):] if cell]
    if spare and "stride_width" not in columns and spare[0] == values.get("stride"):
        return spare[1:]  # the stride again, for the width
    if len(spare) == 2 and "stride_width" in columns and all(map(str.isdigit, spare)):
        return [":".join(spare)]  # SCALE-Sim v3 writes the sparsity N:M as N, M
    return spare


def _conv_layer(name, sizes, stride_width, options):
    ifmap, filter = ((sizes[f"{what}_height"], sizes[f"{what}_width"]) for what in ("ifmap", "filter"))
    if filter[0] > ifmap[0] or filter[1] > ifmap[1]:
        raise ValueError(f"the filter of {shown(name)} is {filter[0]}x{filter[1]}, larger than its input of "
                         f"{ifmap[0]}x{ifmap[1]}; input sizes must include the padding")
    channels = sizes["channels"]
    separate, channels = (channels, 1) if "DP" in name else (1, channels)
    return TopologyLayer(name, ifmap, filter, channels, sizes["filters"], (sizes["stride"], stride_width), separate,
                         **options)


def _whole(text, name):
    name = name.replace("_", " ")
    if not text:
        raise ValueError(f"{name} is missing; give a whole number of at least 1")
    if not re.fullmatch(r"\d{1,40}(\.0*)?", text):
        raise ValueError(f"{name} is {shown(text)}; it must be a whole number of at least 1, at most {LARGEST_SIZE}")
    return whole_number(int(text.split(".")[0]), name)


def _sparsity(text):
    match = re.fullmatch(r"(\d{1,40})\s*:\s*(\d{1,40})", text)
    if text and not (match and 1 <= int(match[1]) <= int(match[2])):
        raise ValueError(f"sparsity is {shown(text)}; it must be N:M with N from 1 to M, such as 2:4")
    return text


def report_topology(topology, array=Array(32, 32)):
    """SCALE-Sim's compute report of a topology, and its SRAM traffic, without running it.

    Parameters
    ----------
    topology : Topology or path
    array : lpkit.systolic.Array or str

    Returns
    -------
    pandas.DataFrame
        LayerID, Total Cycles, Stall Cycles (0: memory never stalls), Overall Util %, Mapping Efficiency %,
        Compute Util %, then the layer's name and SRAM reads and writes in elements. A name with DP in it gives a row
        for each of its one-channel layers; a batch multiplies cycles and traffic.

    Raises
    ------
    ValueError
        As `read_topology` and `lpkit.systolic.report`.

    Examples
    --------
    >>> layer = TopologyLayer("conv1", (224, 224), (11, 11), 3, 96, (4, 4))
    >>> report_topology(Topology("net", (layer,)), "32x32")[["LayerID", "Total Cycles"]]
       LayerID  Total Cycles
    0        0        112283
    """
    topology, array = _opened(topology), as_array(array)
    rows = [(name, layer) for layer in topology.layers for name in _names(layer)]
    M, K, N = np.array([gemm_rows(layer.shape, "F")[0][:3] for _, layer in rows]).T
    batch = np.array([whole_number(layer.batch, "batch") for _, layer in rows])
    found = report(M, K, N, array)

    def times_batch(values):
        return checked_product(values, batch, 1.0)

    return pd.DataFrame({
        "LayerID": np.arange(len(rows)),
        "Total Cycles": times_batch(found.total_cycles),
        "Stall Cycles": found.stall_cycles,
        "Overall Util %": found.overall_utilisation,
        "Mapping Efficiency %": found.mapping_efficiency,
        "Compute Util %": found.compute_utilisation,
        "Layer name": [name for name, _ in rows],
        "SRAM IFMAP Reads": times_batch(found.ifmap_reads),
        "SRAM Filter Reads": times_batch(found.filter_reads),
        "SRAM OFMAP Writes": times_batch(found.ofmap_writes),
    })


def _names(layer):
    return [f"{layer.name}Channel_{i}" for i in range(layer.separate)] if "DP" in layer.name else [layer.name]


def _opened(topology):
    return topology if isinstance(topology, Topology) else read_topology(topology)


def topology_costs(topology, array=Array(32, 32), *, batch=1, delta="col2im", G="a", convention="exact",
                   fold_overlap="serial", batching="folded", first_layer_delta=False, bytes_per_element=4):
    """Costs of training the layers of a topology as a plain chain, to plan on.

    The layers of a name with DP in it stay together as one. The options are those of `lpkit.costs.costs`; `batch`
    multiplies what the lines say (a GEMM topology often has its batch in M already).

    Returns
    -------
    lpkit.costs.Costs

    Raises
    ------
    ValueError
        As `read_topology` and `lpkit.costs.costs`.

    Examples
    --------
    >>> layer = TopologyLayer("conv1", (224, 224), (11, 11), 3, 96, (4, 4))
    >>> topology_costs(Topology("net", (layer,)), "32x32").F
    array([112284])
    """
    topology, array = _opened(topology), as_array(array)
    shapes = [layer.shape for layer in topology.layers]
    batches = [whole_number(batch, "batch") * layer.batch for layer in topology.layers]
    options = {"delta": delta, "G": G, "convention": convention, "fold_overlap": fold_overlap, "batching": batching}
    different = sorted(set(batches))
    grid = cycles_grid(shapes, [array], different, **options)
    chosen = [different.index(b) for b in batches], np.arange(len(shapes))
    F, G_cycles, delta_cycles = (grid[op][0][chosen] for op in ("F", "G", "delta"))
    if not first_layer_delta:
        delta_cycles[0] = 0
    sizes = [bytes_of([size(s) * b for s, b in zip(shapes, scale)], bytes_per_element)
             for size, scale in ((_weights, [1] * len(shapes)), (_inputs, batches), (_outputs, batches))]
    L = len(shapes)
    return Costs(f"{topology.name} on {array}, batch {batch}", tuple(layer.name for layer in topology.layers), F,
                 G_cycles, delta_cycles, *sizes, sizes[2][:-1], np.arange(2, L + 2), np.zeros(L, bool), "cycles",
                 f"topology, {convention}, delta {delta}, G {G}", bytes_per_element)


def _weights(shape):
    return shape.groups * shape.C * shape.N * shape.kernel[0] * shape.kernel[1]


def _inputs(shape):
    return shape.groups * shape.C * shape.input[0] * shape.input[1]


def _outputs(shape):
    return shape.groups * shape.N * shape.output[0] * shape.output[1]
