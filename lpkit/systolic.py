"""Cycles, utilisation and SRAM traffic of F, G and delta of a layer on a systolic array, in closed form.

A layer becomes matrix products out[M, N] = in[M, K] x filt[K, N]; a product that does not fit on the array of R rows
and C columns is cut into folds, each of which fills and drains the array. Everything here is that one count, exact.
Sources: SCALE-Sim v1 (arXiv 1811.02883), its analytical model (ISPASS 2020), and SCALE-Sim v2 and v3, whose printed
numbers the formulas reproduce; LayerPipe (ICCAD 2021), section IV, for the three operations.
"""

import re
from dataclasses import dataclass

import numpy as np

from lpkit.checks import choice, shown, whole_number
from lpkit.products import BATCHINGS, DELTAS, G_FORMS, OPS, Gemm, conv_shape, gemm_rows, gemms, repeats, useful_macs

__all__ = [
    "BATCHINGS", "CONVENTIONS", "DATAFLOWS", "DELTAS", "FOLD_OVERLAPS", "G_FORMS", "OPS", "Array", "Gemm", "Report",
    "as_array", "conv_read_pixels", "cycles", "cycles_grid", "gemm_cycles", "gemms", "report", "useful_macs",
]  # fmt: skip

DATAFLOWS = ("ws", "os", "is")
CONVENTIONS = ("exact", "scalesim", "scalesim_v1", "ispass20")
FOLD_OVERLAPS = ("serial", "preload_hidden")

LARGEST = 2**62  # of one dimension of a product
LARGEST_SIDE = 2**30  # of an array
LARGEST_RESULT = 9.2e18  # just under 2**63, as a float, so that rounding of the bound cannot let an overflow pass


@dataclass(frozen=True)
class Array:
    """A systolic array: rows x columns of multipliers and what stays in place (``ws`` weights, ``os``, ``is``).

    Examples
    --------
    >>> Array.parse("128x32", dataflow="os")
    Array(rows=128, columns=32, dataflow='os')
    """

    rows: int
    columns: int
    dataflow: str = "ws"

    def __post_init__(self):
        object.__setattr__(self, "rows", whole_number(self.rows, "array rows", most=LARGEST_SIDE))
        object.__setattr__(self, "columns", whole_number(self.columns, "array columns", most=LARGEST_SIDE))
        choice(self.dataflow, "dataflow", DATAFLOWS)

    @classmethod
    def parse(cls, text, *, dataflow="ws"):
        """The array that ``"ROWSxCOLUMNS"`` names.

        Raises
        ------
        ValueError
            If `text` is not two whole numbers of at least 1 with an ``x`` between them.

        Examples
        --------
        >>> str(Array.parse("5x7"))
        '5x7 ws'
        """
        match = re.fullmatch(r"\s*(\d{1,40})\s*[xX×]\s*(\d{1,40})\s*", text if isinstance(text, str) else "")
        if not match:
            raise ValueError(f"array is {shown(text)}; it must be ROWSxCOLUMNS, such as 32x32")
        return cls(int(match[1]), int(match[2]), dataflow)

    def __str__(self):
        return f"{self.rows}x{self.columns} {self.dataflow}"


def as_array(array):
    """`array` itself, or the weight-stationary array that text such as ``"32x32"`` names.

    Raises
    ------
    ValueError
        If it is neither.

    Examples
    --------
    >>> as_array("32x16")
    Array(rows=32, columns=16, dataflow='ws')
    """
    if not isinstance(array, (Array, str)):
        raise ValueError(f"array is {shown(array)}; it must be ROWSxCOLUMNS, such as '64x64', or an Array, such as "
                         "lp.Array(64, 64)")
    return array if isinstance(array, Array) else Array.parse(array)


@dataclass(frozen=True, eq=False)
class Report:
    """What `report` found: cycles, utilisation in percent, and SRAM traffic in elements, each an array."""

    total_cycles: np.ndarray
    stall_cycles: np.ndarray
    overall_utilisation: np.ndarray
    mapping_efficiency: np.ndarray
    compute_utilisation: np.ndarray
    macs: np.ndarray
    ifmap_reads: np.ndarray
    filter_reads: np.ndarray
    ofmap_writes: np.ndarray


def gemm_cycles(M, K, N, rows, columns, *, dataflow="ws", convention="exact", fold_overlap="serial",
                read_pixels=None):
    """Cycles of out[M, N] = in[M, K] x filt[K, N] on a `rows` x `columns` array.

    With S_r, S_c, T = K, N, M for ws, M, N, K for os, K, M, N for is, and
    folds = ceil(S_r / rows) ceil(S_c / columns):

    * ``exact``: folds (2 rows + columns + T - 2) for ws and is, folds (rows + columns + T - 2) for os;
    * ``scalesim``: one less, the number SCALE-Sim v2 and v3 print (the index of the last cycle, counted from 0);
    * ``scalesim_v1``: SCALE-Sim v1: used rows and columns only, short filters packed in a column; ws and is;
    * ``ispass20``: folds (2 rows + columns + T - 2) for all three, the published analytical model.

    ``preload_hidden`` loads the next fold's stationary operand while the last one computes:
    2 rows - 1 + folds max(T, rows) + rows + columns - 2. It is defined for ws and is under ``exact``: an os array
    loads nothing beforehand, and the other conventions are serial by definition. (The first load is skewed, which
    makes a product of a single fold ``rows - 1`` cycles longer than in serial mode.)

    Parameters
    ----------
    M, K, N, rows, columns : array_like of whole numbers
        They broadcast.
    dataflow, convention, fold_overlap : str
    read_pixels : array_like of whole numbers, optional
        Only for ``scalesim_v1``: pixels its reader steps through (`conv_read_pixels`); M if left out.

    Returns
    -------
    ndarray of int64
        Cycles, of the broadcast shape.

    Raises
    ------
    ValueError
        If a size is not a whole number of at least 1, a choice is unknown or not defined for the others,
        or the result does not fit in 64 bits.

    Notes
    -----
    SCALE-Sim v1's os trace counts reads that do not happen, so no formula of it is offered.
    References: Samajdar et al., arXiv 1811.02883 and ISPASS 2020; ONNXim for the hidden preload.

    Examples
    --------
    >>> int(gemm_cycles(3025, 363, 96, 32, 32))
    112284
    >>> gemm_cycles(3025, 363, 96, [32, 128], [32, 128], convention="scalesim")
    array([112283,  10220])
    """
    _check_defined(dataflow, convention, fold_overlap, read_pixels)
    M, K, N, read = _whole_arrays(M=M, K=K, N=N, read_pixels=M if read_pixels is None else read_pixels)
    rows, columns = _whole_arrays(most=LARGEST_SIDE, rows=rows, columns=columns)
    S_r, S_c, T = _spatial(M, K, N, dataflow)
    streamed = np.maximum(T, read) if convention == "scalesim_v1" and dataflow == "ws" else T
    folds = checked_product(_ceil(S_r, rows), _ceil(S_c, columns), 2.0 * rows + columns + streamed)
    if convention == "scalesim_v1":
        return _v1_cycles(S_r, S_c, T, rows, columns, *((read, 0) if dataflow == "ws" else (T, 1)))
    if fold_overlap == "preload_hidden":
        return 2 * rows - 1 + folds * np.maximum(T, rows) + rows + columns - 2
    load = 0 if dataflow == "os" and convention != "ispass20" else rows
    return folds * (load + rows + columns + T - 2) - (convention == "scalesim")


def _check_defined(dataflow, convention, fold_overlap, read_pixels):
    choice(dataflow, "dataflow", DATAFLOWS)
    choice(convention, "convention", CONVENTIONS)
    choice(fold_overlap, "fold_overlap", FOLD_OVERLAPS)
    if convention == "scalesim_v1" and dataflow == "os":
        raise ValueError("scalesim_v1 has no cycle count for dataflow 'os', because its trace counts reads that do "
                         "not happen; use 'ws' or 'is', or convention 'scalesim'")
    if fold_overlap == "preload_hidden" and (convention != "exact" or dataflow == "os"):
        raise ValueError(f"fold_overlap 'preload_hidden' is not defined for convention {convention!r} with dataflow "
                         f"{dataflow!r}; use convention 'exact' with 'ws' or 'is'")
    if read_pixels is not None and convention != "scalesim_v1":
        raise ValueError(f"read_pixels is meant for convention 'scalesim_v1' only, not {convention!r}; leave it out")


def _whole_arrays(most=LARGEST, **values):
    return tuple(_whole_array(value, name, most) for name, value in values.items())


def _whole_array(value, name, most):
    """`value` as int64, every entry a whole number from 1 to `most`, given without loss."""
    array = _numbers(value, name, most)
    if array.dtype.kind not in "iuf":
        raise ValueError(f"{name} holds {array.dtype} values; it must hold whole numbers from 1 to {most}")
    most = most if array.dtype.kind in "iu" else min(most, 2**53)  # beyond it floats skip whole numbers
    right = (array >= 1) & (array <= most) & (array == np.floor(array) if array.dtype.kind == "f" else True)
    if not right.all():
        raise ValueError(f"{name} is {shown(array[~right].flat[0])}; it must be a whole number from 1 to {most}")
    return array.astype(np.int64)


def _numbers(value, name, most):
    """`value` as an array whose comparison with large numbers is safe."""
    try:
        array = np.asarray(value)
    except ValueError:
        raise ValueError(f"{name} is {shown(value)}; its rows must be of one length") from None
    if array.dtype.kind == "O" and all(isinstance(v, int) and not isinstance(v, bool) for v in array.flat):
        wrong = next(v for v in array.flat if not 1 <= v <= most)
        raise ValueError(f"{name} is {shown(wrong)}; it must be a whole number from 1 to {most}")
    return array.astype(float) if array.dtype == np.float16 else array


def checked_product(first, second, factor):
    """first x second as int64, after making sure that the product with `factor` fits too."""
    if np.any(np.multiply(first, second, dtype=float) * factor > LARGEST_RESULT):
        raise ValueError("the result does not fit in 64 bits; use smaller sizes or split the product")
    return first * second


def _spatial(M, K, N, dataflow):
    return {"ws": (K, N, M), "os": (M, N, K), "is": (K, M, N)}[dataflow]


def _ceil(a, b):
    return -(-a // b)


def _v1_cycles(S_r, S_c, T, rows, columns, read, early):
    """SCALE-Sim v1: `read` steps its reader through a fold; is (`early` = 1) reports its last write a cycle earlier."""
    packed = np.maximum(rows // S_r, 1)  # filters one below the other in a column
    across, down = _ceil(S_c, packed * columns), _ceil(S_r, rows)
    left = S_c - (across - 1) * packed * columns
    last_rows, last_columns = S_r - (down - 1) * rows, np.minimum(left, columns)

    def tall(r, c):
        return r + np.maximum(read, r + c + T - early)

    def short(filters, c):
        return filters * S_r + c + S_r + T - early

    def column_of_folds(c):
        return (down - 1) * tall(rows, c) + tall(last_rows, c)

    is_tall = S_r > rows
    full = np.where(is_tall, column_of_folds(columns), short(packed, columns))
    last_packed = np.minimum(packed, _ceil(left, columns))
    last = np.where(is_tall, column_of_folds(last_columns), short(last_packed, last_columns))
    return (across - 1) * full + last


def conv_read_pixels(input, kernel, stride):
    """Pixels SCALE-Sim v1 steps through when it streams a convolution: int(E_h E_w), the E's not rounded down.

    More than the pixels of the output only where a window is ragged, and it shows only where that excess is larger
    than the fill of the array. Below 2**52 the product is made in floats, as the reference makes it (13/3 x 81/3 is
    116 there), above it in whole numbers.

    Parameters
    ----------
    input, kernel, stride : pair of array_like of whole numbers
        (vertical, horizontal), the input padded.

    Raises
    ------
    ValueError
        If a size is not a whole number of at least 1, or the result is above 2**62.

    Examples
    --------
    >>> int(conv_read_pixels((8, 8), (3, 3), (2, 2)))  # E = 3.5 each way; the output has 3 x 3 pixels
    12
    """
    sizes = [_whole_arrays(input=i, kernel=k, stride=s) for i, k, s in zip(input, kernel, stride)]
    spans, steps = [i - k + s for i, k, s in sizes], [s for _, _, s in sizes]
    pixels = np.floor((spans[0] / steps[0]) * (spans[1] / steps[1]))
    small = pixels < 2**52
    if np.all(small):
        return pixels.astype(np.int64)
    spans, steps = ([np.atleast_1d(v).astype(object) for v in pair] for pair in (spans, steps))
    exact = (spans[0] * spans[1] // (steps[0] * steps[1])).reshape(pixels.shape)
    if np.any(exact > LARGEST):
        raise ValueError("the input has too many pixels to count in 64 bits; use smaller sizes")
    return np.where(small, np.where(small, pixels, 0).astype(np.int64), exact.astype(np.int64))


def _shape_read_pixels(shape):
    if len(shape.input) > 2:
        raise ValueError(f"scalesim_v1 reads maps of two sides, not of {len(shape.input)}; use convention 'scalesim'")
    size = [i + p + q for i, p, q in zip(shape.input, shape.padding, shape.after or shape.padding)]
    window = [d * (k - 1) + 1 for d, k in zip(shape.dilation, shape.kernel)]
    return conv_read_pixels(size, window, shape.stride)


def cycles(layer, op, array, *, batch=1, delta="col2im", G="a", batching="folded", convention="exact",
           fold_overlap="serial"):
    """Cycles of F, G or delta of one layer on an array; the options are those of `gemms` and `gemm_cycles`.

    Parameters
    ----------
    layer : lpkit.networks.Layer or lpkit.products.Shape
    op : {"F", "G", "delta"}
    array : Array or str
        Such as ``"32x32"``.
    batch : int
        Samples of a mini-batch.

    Returns
    -------
    int

    Raises
    ------
    ValueError
        As `gemms` and `gemm_cycles`.

    Examples
    --------
    >>> from lpkit.networks import sample4
    >>> cycles(sample4().layers[0], "delta", Array(32, 32), batch=32, delta="zero_insert")
    40143150
    """
    grid = cycles_grid([layer], [array], [batch], ops=(op,), delta=delta, G=G, batching=batching,
                       convention=convention, fold_overlap=fold_overlap)
    return int(grid[op][0, 0, 0])


def cycles_grid(layers, arrays, batches, *, ops=OPS, delta="col2im", G="a", batching="folded", convention="exact",
                fold_overlap="serial"):
    """Cycles of every layer on every array at every batch size, vectorised.

    Each Gemm is its own run: ``scalesim`` subtracts one for each group, image and phase.

    Parameters
    ----------
    layers : sequence of lpkit.networks.Layer (or lpkit.products.Shape), length L
    arrays : sequence of Array (or text such as ``"32x32"``), length A
    batches : sequence of int, length B

    Returns
    -------
    dict of str to ndarray of int64, shape (A, B, L)
        One entry for each of `ops`.

    Raises
    ------
    ValueError
        As `gemms` and `gemm_cycles`.

    Examples
    --------
    >>> from lpkit.networks import sample4
    >>> cycles_grid(sample4().layers, [Array(32, 32), Array(64, 64)], [32], ops=["F"])["F"][:, 0]
    array([[1204506, 5022300, 1813104, 3626208],
           [ 803196, 1307046,  455004,  910008]])
    """
    choice(batching, "batching", BATCHINGS)
    arrays = [as_array(array) for array in arrays]
    batches = np.array([whole_number(b, "batch") for b in batches], dtype=np.int64)
    options = {"convention": convention, "fold_overlap": fold_overlap}
    return {op: _op_grid(layers, op, arrays, batches, delta, G, batching, options) for op in ops}


def _op_grid(layers, op, arrays, batches, delta, G, batching, options):
    rows = [(index, *row) for index, layer in enumerate(layers) for row in gemm_rows(layer, op, delta, G)]
    owner, M, K, N, count = np.array(rows, dtype=np.int64).reshape(-1, 5).T
    read = _read_pixels(layers, op, owner, M) if options["convention"] == "scalesim_v1" else None
    apart = np.array([batching == "per_image" or repeats(layer) for layer in layers], dtype=bool)[owner]
    grows = np.where(apart, "count", "K" if op == "G" else "M")
    M, K, count, read = (
        v if v is None or not (grows == where).any()
        else checked_product(v, np.where(grows == where, batches[:, None], 1), 1.0)
        for v, where in ((M, "M"), (K, "K"), (count, "count"), (read, "M"))
    )
    result = np.zeros((len(arrays), len(batches), len(layers)), dtype=np.int64)
    for dataflow in dict.fromkeys(a.dataflow for a in arrays):
        which = [i for i, a in enumerate(arrays) if a.dataflow == dataflow]
        R, C = (np.array([getattr(arrays[i], side) for i in which])[:, None, None] for side in ("rows", "columns"))
        each = gemm_cycles(M, K, N, R, C, dataflow=dataflow, read_pixels=read, **options)
        most = np.bincount(owner, minlength=1).max()  # products of a layer, so that the sums over phases fit too
        each = checked_product(each, count, float(most))
        summed = np.zeros((len(which), *result.shape[1:]), dtype=np.int64)
        np.add.at(summed, (..., owner), each)
        result[which] = summed
    return result


def _read_pixels(layers, op, owner, M):
    """M of each row; but where a convolution is streamed, what SCALE-Sim v1 reads of it."""
    seen = [(shape, op == ("delta" if mirrored else "F")) for shape, mirrored in map(conv_shape, layers)]
    return np.array([_shape_read_pixels(seen[o][0]) if seen[o][1] else m for o, m in zip(owner, M)], dtype=np.int64)


def report(M, K, N, array):
    """What SCALE-Sim v2 and v3 print of a product on `array` when memory never stalls.

    Parameters
    ----------
    M, K, N : array_like of whole numbers
        They broadcast.
    array : Array or str

    Returns
    -------
    Report
        Arrays of the broadcast shape; efficiencies and utilisations in percent, traffic in elements.

    Raises
    ------
    ValueError
        As `gemm_cycles`.

    Notes
    -----
    The printed compute utilisation of ws and is divides by 2R + 2C + T - 3 (C - 1 more than a fold takes), the printed
    os writes carry R + C a fold on top of M N, and partial sums are never read back: kept as they are, since the
    purpose is equality. ``overall`` divides by the printed cycles (by 1 where SCALE-Sim would divide by 0).

    Examples
    --------
    >>> r = report(3025, 363, 96, Array(8, 8))
    >>> int(r.total_cycles), round(float(r.overall_utilisation), 4), int(r.ofmap_writes)
    (1681943, 97.9292, 13358400)
    """
    array = as_array(array)
    total = gemm_cycles(M, K, N, array.rows, array.columns, dataflow=array.dataflow, convention="scalesim")
    M, K, N, R, C = np.broadcast_arrays(*_whole_arrays(M=M, K=K, N=N), array.rows, array.columns)
    S_r, S_c, T = _spatial(M, K, N, array.dataflow)
    down, across = _ceil(S_r, R), _ceil(S_c, C)
    macs = checked_product(checked_product(M, K, 1.0 * N), N, 1.0)
    mapping = 100 * (S_r / (down * R)) * (S_c / (across * C))
    fold = R + C + T - 2 if array.dataflow == "os" else 2 * R + 2 * C + T - 3
    overall = 100 * (macs / np.maximum(total, 1)) / (1.0 * R * C)
    return Report(total, np.zeros_like(total), overall, mapping, mapping * T / fold, macs,
                  *_traffic(M, K, N, down, across, R + C, array.dataflow))


def _traffic(M, K, N, down, across, edge, dataflow):
    """Elements read of the input and the filter, and written, by folds down and across the array."""
    reads = {"ws": (across, 1), "os": (across, down), "is": (1, across)}[dataflow]
    one = 1.0
    ifmap = checked_product(checked_product(M, K, one), reads[0], one)
    filt = checked_product(checked_product(K, N, one), reads[1], one)
    if dataflow == "os":
        return ifmap, filt, checked_product(M, N, 2.0) + checked_product(down * across, edge, 2.0)
    return ifmap, filt, checked_product(checked_product(M, N, one), down, one)
