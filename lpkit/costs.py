"""What each layer of a network costs: cycles or times of F, G and delta, and bytes of weights and activations.

A `Costs` is one row a layer. It comes from a systolic array (`costs`) or from measured times (`Costs.from_times`);
the planners of `lpkit.partition` see nothing else of a network.
Source: LayerPipe (ICCAD 2021), Tables I and II and section IV: F and G stay with a layer, delta may be shared.
"""

import math
import numbers
from dataclasses import asdict, dataclass
from fractions import Fraction

import numpy as np
import pandas as pd

from lpkit.checks import choice, plain, short, shown, whole_number
from lpkit.networks import Dense, MatMul, Network, parameter_count
from lpkit.networks import network as named_network
from lpkit.systolic import Array, as_array, cycles_grid

__all__ = ["READINGS", "Costs", "Reading", "bytes_of", "costs", "reading", "work_grid"]

LAYERS = ("all", "convolutions", "main_path")
LARGEST = 2**63 - 1  # of int64
LARGEST_KEPT = 2**63 - 1024  # the largest float below it: what is larger could change sign on its way to int64
BYTES = ("weight_bytes", "input_bytes", "output_bytes")


@dataclass(frozen=True, eq=False)
class Costs:
    """Work and bytes of a chain of L layers for one mini-batch.

    Attributes
    ----------
    name : str
        What was costed, such as ``"vgg16 on 32x32 ws, batch 32"``.
    layers : tuple of str, length L
    F, G, delta : ndarray, shape (L,)
        Forward, weight gradient and activation gradient: int64 cycles, or float64 in `unit`.
    weight_bytes, input_bytes, output_bytes : ndarray of int64, shape (L,)
        Bytes of W_l, a^(l-1) (as large as the result of delta_l) and a^l, the whole mini-batch.
    cut_bytes : ndarray of int64, shape (L-1,)
        What crosses the cut after layer l in one direction.
    first_consumer : ndarray of int64, shape (L,)
        1-based index of the first layer that reads the output of layer l; L+1 if none does.
    shared_input : ndarray of bool, shape (L,)
        Whether the input of layer l also feeds another layer or a join.
    unit, source : str
        Unit of F, G and delta, and where they come from.
    bytes_per_element : float

    Raises
    ------
    ValueError
        If lengths differ, or a cost is negative, not finite, or (for cycles) not whole, or the total leaves int64.

    Examples
    --------
    >>> chain = Costs.from_times([1.0, 2.0], [1.0, 2.0], [0.0, 3.0])
    >>> chain.work, chain.total, len(chain)
    (array([2., 7.]), 9.0, 2)
    >>> chain
    Costs of chain: 2 layers, layer1 to layer2
    F 3, G 3, delta 3, total 9 s
    """

    name: str
    layers: tuple
    F: np.ndarray
    G: np.ndarray
    delta: np.ndarray
    weight_bytes: np.ndarray
    input_bytes: np.ndarray
    output_bytes: np.ndarray
    cut_bytes: np.ndarray
    first_consumer: np.ndarray
    shared_input: np.ndarray
    unit: str = "cycles"
    source: str = ""
    bytes_per_element: float = 4

    def __post_init__(self):
        L = len(self.layers)
        if L == 0:
            raise ValueError("there is no layer to cost; give at least one")
        whole = self.unit == "cycles"
        checked = {"layers": tuple(str(layer) for layer in self.layers)}
        checked |= {name: _column(getattr(self, name), name, L, whole) for name in ("F", "G", "delta")}
        checked |= {name: _column(getattr(self, name), name, L, True) for name in BYTES}
        checked["cut_bytes"] = _column(self.cut_bytes, "cut_bytes", L - 1, True)
        checked["first_consumer"] = _consumers(self.first_consumer, L)
        checked["shared_input"] = _flags(self.shared_input, L)
        size = plain(self.bytes_per_element)
        checked["bytes_per_element"] = float(size) if isinstance(size, np.floating) else size  # longdouble
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        if not self._total_fits():
            raise ValueError(f"the costs of {shown(self.name)} add up to more than 64 bits hold; use a larger unit")

    def __len__(self):
        return len(self.layers)

    def __repr__(self):
        first, last = short(self.layers[0]), short(self.layers[-1])
        sums = ", ".join(f"{name} {math.fsum(getattr(self, name)):.10g}" for name in ("F", "G", "delta"))
        return (f"Costs of {short(self.name, 80)}: {len(self)} layer{'s' * (len(self) > 1)}, {first}"
                f"{f' to {last}' if len(self) > 1 else ''}\n{sums}, total {self.total:.10g} "
                f"{short(self.unit)}")

    @property
    def work(self):
        """F + G + delta of each layer, shape (L,), in `unit`."""
        return self.F + self.G + self.delta

    @property
    def moved_bytes(self):
        """Bytes that another stage needs for the whole delta of each layer beside the error, int64, shape (L,).

        Its weights; or its input, where it has neither weights nor a G, as a product of two computed tensors: both
        operands.
        """
        return np.where((self.weight_bytes == 0) & (self.G == 0), self.input_bytes, self.weight_bytes)

    @property
    def total(self):
        """Sum of all work, in `unit`: an int for cycles, a correctly rounded float otherwise."""
        values = [v for column in (self.F, self.G, self.delta) for v in column.tolist()]
        return sum(values) if self.unit == "cycles" else math.fsum(values)

    def _total_fits(self):
        if self.unit == "cycles":
            return self.total <= LARGEST
        with np.errstate(over="ignore"):
            return bool(np.isfinite(self.work.sum()))

    def to_frame(self):
        """One row a layer as a pandas DataFrame; `cut_bytes` of the last layer is 0.

        Examples
        --------
        >>> Costs.from_times([1.0], [2.0], [3.0], ["conv"]).to_frame()[["layer", "F", "G", "delta", "total"]]
          layer    F    G  delta  total
        0  conv  1.0  2.0    3.0    6.0
        """
        columns = {"layer": self.layers, "F": self.F, "G": self.G, "delta": self.delta, "total": self.work}
        columns |= {name: getattr(self, name) for name in BYTES}
        columns["cut_bytes"] = np.append(self.cut_bytes, 0)
        return pd.DataFrame(columns | {"first_consumer": self.first_consumer, "shared_input": self.shared_input})

    @classmethod
    def from_times(cls, F, G, delta, layers=None, *, name="chain", weight_bytes=0, input_bytes=0, output_bytes=0,
                   cut_bytes=None, unit="s", source="measured", bytes_per_element=4):
        """A plain chain (each layer feeds the next alone) from given times of its forward pass (F), weight gradient (G)
        and activation gradient (delta).

        Parameters
        ----------
        F, G, delta : array_like, shape (L,)
            Costs in `unit`; a single number stands for every layer.
        layers : sequence of str, optional
            Names; ``layer1``, ``layer2``, ... if left out.
        weight_bytes, input_bytes, output_bytes : int or array_like, shape (L,)
        cut_bytes : array_like, shape (L-1,), optional
            As `output_bytes` of the layer before the cut if left out.

        Raises
        ------
        ValueError
            As for `Costs`.

        Examples
        --------
        >>> Costs.from_times([4, 2], 1, [0, 3], unit="cycles").total
        11
        """
        columns = np.broadcast_arrays(*map(np.atleast_1d, _same_length(F, G, delta)))
        L = len(columns[0])
        if layers is not None and (isinstance(layers, str) or np.ndim(layers) != 1):
            raise ValueError(f"layers is {shown(layers)}; it must be a list of {L} names, one a layer")
        sizes = [np.broadcast_to(b, L) if np.ndim(b) == 0 else b for b in (weight_bytes, input_bytes, output_bytes)]
        return cls(name, tuple(layers) if layers is not None else tuple(f"layer{l}" for l in range(1, L + 1)),
                   *columns, *sizes, np.asarray(sizes[2])[: L - 1] if cut_bytes is None else cut_bytes,
                   np.arange(2, L + 2), np.zeros(L, bool), unit, source, bytes_per_element)


def _same_length(F, G, delta):
    lengths = {name: np.size(v) for name, v in (("F", F), ("G", G), ("delta", delta)) if np.ndim(v)}
    if len(set(lengths.values())) > 1 or any(np.ndim(v) > 1 for v in (F, G, delta)):
        given = ", ".join(f"{name} {np.shape(v)}" for name, v in (("F", F), ("G", G), ("delta", delta)))
        raise ValueError(f"F, G and delta must be rows of one length; their shapes are {given}")
    return F, G, delta


def _column(values, name, length, whole):
    """`values` as a read-only int64 (whole) or float64 array of `length`, all finite and at least 0."""
    column = np.asarray(values)
    if column.shape != (length,):
        raise ValueError(f"{name} has shape {column.shape}; it must be ({length},), one number a layer"
                         f"{' but the last' if name == 'cut_bytes' else ''}")
    if length and column.dtype.kind == "O" and all(isinstance(v, int) for v in column):
        raise ValueError(f"{name} is {shown(max(column, key=abs))} for one layer, more than 64 bits hold; use smaller "
                         "sizes")
    if length and column.dtype.kind not in "iuf":
        raise ValueError(f"{name} holds {column.dtype} values; give finite numbers that fit in 64 bits")
    wrong = ~np.isfinite(column) | (column < 0)
    if whole:
        wrong |= (column != np.floor(column)) | (column > LARGEST_KEPT)
    if wrong.any():
        first = int(np.flatnonzero(wrong)[0])
        raise ValueError(f"{name} of layer {first + 1} is {shown(column[first])}; it must be a finite "
                         f"{f'whole number from 0 to {LARGEST_KEPT}' if whole else 'number of at least 0'}")
    column = column.astype(np.int64 if whole else np.float64)
    column.flags.writeable = False
    return column


def _consumers(values, L):
    column = _column(values, "first_consumer", L, True)
    if (column <= np.arange(1, L + 1)).any() or (column > L + 1).any():
        raise ValueError("first_consumer must name a later layer for each layer, or L+1 if nothing reads its output")
    return column


def _flags(values, L):
    column = np.array(values, dtype=bool)
    if column.shape != (L,):
        raise ValueError(f"shared_input has shape {column.shape}; it must be ({L},), one truth value a layer")
    column.flags.writeable = False
    return column


def costs(network, array=Array(32, 32), *, batch=32, delta="col2im", G="a", convention="exact", fold_overlap="serial",
          batching="folded", first_layer_delta=False, layers="all", bytes_per_element=4):
    """Costs of training a network on a systolic array, one mini-batch.

    ``layers`` keeps all layers with weights, the ``convolutions``, or those on the ``main_path``: the convolutions on
    the longest path from input to output (residual projections and dense layers are left out, as in the tables of the
    paper). A layer left out costs nothing and counts as fused with the kept layer before it: a cut sits just before
    the next kept layer and carries all that crosses there in the whole network; `first_consumer` looks through layers
    left out as through a pooling; `shared_input` stays what it is in the whole network.

    Parameters
    ----------
    network : lpkit.networks.Network or str
        A network, or the name of a built-in one.
    array : lpkit.systolic.Array or str
        An array, or text such as ``"32x32"`` (weight stationary).
    batch : int
        Samples a mini-batch.
    delta, G, convention, fold_overlap, batching : str
        Options of `lpkit.systolic.gemms` and `lpkit.systolic.gemm_cycles`.
    first_layer_delta : bool
        Whether a layer before which nothing learns (no layer, table or scale) is charged for the gradient of its
        input.
    layers : {"all", "convolutions", "main_path"}
    bytes_per_element : float
        Such as 4, 2, 1 or 0.5; sizes are rounded up to whole bytes.

    Returns
    -------
    Costs
        In cycles.

    Raises
    ------
    ValueError
        For an unknown choice, a size that is not a whole number, or a network without a layer of that kind.

    Notes
    -----
    `READINGS` holds named sets of these options.

    Examples
    --------
    >>> sample = costs("sample4", Array(32, 32), batch=32, **READINGS["closest"].choices())
    >>> sample.total, sample.work
    (96478368, array([43467592, 30704568, 11146336, 11159872]))
    """
    network, array = _network(network), as_array(array)
    batch = whole_number(batch, "batch")
    options = {"delta": delta, "G": G, "convention": convention, "fold_overlap": fold_overlap, "batching": batching}
    kept, grid = _kept_grid(network, [array], [batch], layers, first_layer_delta, options)
    F, G_cycles, delta_cycles = (work[0, 0] for work in grid)
    source = f"{convention}, {fold_overlap}, batch {batching}, delta {delta}, G {G}, layers {layers}"
    return Costs(f"{network.name} on {array}, batch {batch}", tuple(layer.name for layer in kept), F, G_cycles,
                 delta_cycles, *_sizes(network, kept, batch, bytes_per_element),
                 _first_consumers(network, kept), [layer.shared_input for layer in kept], "cycles", source,
                 bytes_per_element)


def work_grid(network, arrays, batches, *, layers="all", first_layer_delta=False, **options):
    """F, G and delta of every layer on every array at every batch size: the work columns of `costs`, vectorised.

    Parameters
    ----------
    network : lpkit.networks.Network or str
    arrays : sequence of lpkit.systolic.Array, length A
    batches : sequence of int, length B
    layers, first_layer_delta, **options
        As in `costs`.

    Returns
    -------
    F, G, delta : ndarray of int64, shape (A, B, L)

    Raises
    ------
    ValueError
        As `costs`.

    Examples
    --------
    >>> F, G, delta = work_grid("sample4", [Array(32, 32), Array(64, 64)], [16, 32, 64])
    >>> F.shape, int(F[0, 1, 0])
    ((2, 3, 4), 1204506)
    """
    network = named_network(network) if isinstance(network, str) else network
    return _kept_grid(network, arrays, batches, layers, first_layer_delta, options)[1]


def _kept_grid(network, arrays, batches, layers, first_layer_delta, options):
    """The layers kept, and their (F, G, delta)."""
    kept = _kept(network, choice(layers, "layers", LAYERS))
    grid = cycles_grid(kept, arrays, batches, **options)
    if not first_layer_delta:
        unneeded = _first_layers(network)
        grid["delta"][..., [layer.name in unneeded for layer in kept]] = 0
    return kept, tuple(grid[op] for op in ("F", "G", "delta"))


def _network(network):
    if isinstance(network, str) and network.lower().endswith(".onnx"):
        raise ValueError(f"network is {shown(network)}, the name of a file; give lp.read_onnx({shown(network)})")
    if isinstance(network, (str, Network)):
        return named_network(network) if isinstance(network, str) else network
    raise ValueError(f"network is {shown(network)}; it must be a Network or the name of a built-in one")


def _kept(network, layers):
    kept = [
        layer for layer in network.layers
        if (layers == "all" or not isinstance(layer.op, (Dense, MatMul)))
        and (layers != "main_path" or layer.on_longest_path)
    ]
    if not kept and not network.layers:
        raise ValueError(f"network {shown(network.name)} has no matrix product to cost: it has no convolution, "
                         "no dense layer and no product of two tensors")
    if not kept:
        raise ValueError(f"network {shown(network.name)} has no layers of the kind {layers!r}; use layers 'all'")
    return kept


def _sizes(network, kept, batch, bytes_per_element):
    """Bytes of W, a^(l-1) and a^l of each kept layer, and of the cuts just before each but the first."""
    columns = ([layer.weights for layer in kept], [batch * layer.input_elements for layer in kept],
               [batch * layer.output_elements for layer in kept],
               [batch * network.cut_elements[after.index - 2] for after in kept[1:]])
    return [bytes_of(column, bytes_per_element) for column in columns]


def bytes_of(elements, bytes_per_element):
    """Whole bytes, rounded up, of each number of elements, as Python ints.

    Raises
    ------
    ValueError
        If `bytes_per_element` is not a positive finite number.

    Examples
    --------
    >>> bytes_of([3, 4], 0.5)
    [2, 2]
    """
    size = plain(bytes_per_element)
    real = isinstance(size, numbers.Real) and not isinstance(size, (bool, np.timedelta64))
    if not real or not 0 < size < math.inf:
        raise ValueError(f"bytes_per_element is {shown(size)}; it must be a positive number, such as 4, 2, 1 or 0.5")
    size = Fraction(*size.as_integer_ratio())
    return [math.ceil(int(n) * size) for n in elements]


def _first_consumers(network, kept):
    """1-based place in `kept` of the first layer that reads each one's output, layers left out looked through."""
    place = {layer.name: l for l, layer in enumerate(kept, 1)}
    first = dict.fromkeys(range(1, len(kept) + 1), len(kept) + 1)
    for name, sources in _sources(network, place).items():
        if name in place:
            first |= {source: min(first[source], place[name]) for source in sources}
    return list(first.values())


def _first_layers(network):
    """Names of the layers before which nothing learns: no layer with weights, and no table or scale of another node."""
    learning = set()
    for node in network.nodes:
        learns = parameter_count(node.op, network.shapes[node.inputs[0]]) > 0
        if learns or not learning.isdisjoint(node.inputs):
            learning.add(node.name)
    reads = {node.name: node.inputs for node in network.nodes}
    return {layer.name for layer in network.layers if learning.isdisjoint(reads[layer.name])}


def _sources(network, place):
    """For each node, the places of the layers whose output reaches it through no other of them."""
    leaving, entering = {}, {}
    for node in network.nodes:
        entering[node.name] = set().union(*(leaving.get(name, set()) for name in node.inputs))
        leaving[node.name] = {place[node.name]} if node.name in place else entering[node.name]
    return entering


@dataclass(frozen=True)
class Reading:
    """A named set of the modelling choices that the paper leaves open; the defaults are the plain ones.

    Examples
    --------
    >>> READINGS["plain"].choices()["delta"]
    'col2im'
    """

    name: str
    dataflow: str = "ws"
    delta: str = "col2im"
    G: str = "a"
    convention: str = "exact"
    fold_overlap: str = "serial"
    batching: str = "folded"
    first_layer_delta: bool = False
    layers: str = "all"

    def choices(self):
        """The options of `costs`; the dataflow belongs to the array."""
        return {name: value for name, value in asdict(self).items() if name not in ("name", "dataflow")}


READINGS = {
    # nearest of ten that were tried to the published mean, maximum and saturation of VGG16 and ResNet50
    "closest": Reading("closest", delta="zero_insert", first_layer_delta=True, layers="main_path"),
    "plain": Reading("plain"),
}


def reading(name):
    """The `Reading` of that name.

    Raises
    ------
    ValueError
        If there is none; the message lists the known ones.

    Examples
    --------
    >>> reading("closest").delta
    'zero_insert'
    """
    return READINGS[choice(name, "reading", tuple(READINGS))]
