"""How ambiguous a reconstruction of the lost Table I is: every four-layer network that meets what the text states.

The text gives two periods (PipeDream 4.35e7 and LayerPipe 3.22e7 cycles), PipeDream's mapping ({1}, {2}, {3, 4}) and
perfect balance under LayerPipe. All networks of a natural lattice are costed and held against these.
"""

from itertools import product

import numpy as np
import pandas as pd

from lpkit.checks import whole_number
from lpkit.costs import reading as named_reading
from lpkit.products import Shape, gemm_rows
from lpkit.systolic import gemm_cycles

__all__ = ["sample_candidates"]

PIPEDREAM = (4.345e7, 4.355e7)  # cycles that print as 4.35e7
LAYERPIPE = (3.215e7, 3.225e7)
CHANNELS = (16, 32, 64, 128, 256)
INPUT = (224, 3)  # pixels a side, channels
SPLITS = ((1, 2), (1, 3), (2, 3))  # last layers of stages 1 and 2; the first is PipeDream's split
CHUNK = 200_000  # prefixes expanded at a time, to bound memory


def sample_candidates(reading="closest", *, batch=32, array_size=32):
    """Networks of four convolutions that meet the stated periods, mapping and balance.

    The lattice: filters 1, 3, 5, 7 (and 11 in the first layer); 16 to 256 output channels in powers of two that never
    fall; strides 1 and 2 (and 4 in the first); padding 0, 1 or 'same'.

    Parameters
    ----------
    reading : str
        Name of a reading whose delta is ``col2im`` or ``zero_insert``.
    batch, array_size : int

    Returns
    -------
    pandas.DataFrame
        One row a network: the four layers as text, whether all paddings are 'same', whether LayerPipe's balanced plan
        keeps PipeDream's split, the two periods in cycles, and the number of weights LayerPipe moves.

    Raises
    ------
    ValueError
        If the reading or a size cannot be used.

    Examples
    --------
    >>> found = sample_candidates("closest")
    >>> found["layer 1"].unique().tolist()
    ['5x5 3>32 s2 p2']
    """
    read = named_reading(reading)
    if read.delta == "phases":
        raise ValueError("delta 'phases' of a lattice is not offered; use a reading with 'col2im' or 'zero_insert'")
    setting = read, whole_number(batch, "batch"), whole_number(array_size, "array_size")
    prefixes = pd.DataFrame({"H": [INPUT[0]], "C": [INPUT[1]]})
    for layer in range(1, 5):
        parts = [_extended(prefixes[i : i + CHUNK], layer, setting) for i in range(0, max(len(prefixes), 1), CHUNK)]
        prefixes = pd.concat(parts, ignore_index=True)
    return _described(prefixes)


def _extended(prefixes, layer, setting):
    """Every prefix with every choice of the next layer that can still meet the stated periods."""
    first = layer == 1
    lattice = product((1, 3, 5, 7, 11) if first else (1, 3, 5, 7), CHANNELS, (1, 2, 4) if first else (1, 2), (0, 1, -1))
    options = pd.DataFrame(list(lattice), columns=["k", "N", "s", "p"])
    options["p"] = options["p"].where(options["p"] >= 0, options["k"] // 2)
    table = prefixes.merge(options.drop_duplicates(), how="cross")
    table = table[(table["N"] >= table["C"]) & (table["H"] + 2 * table["p"] >= table["k"])]
    E = (table["H"] + 2 * table["p"] - table["k"]) // table["s"] + 1
    fixed, delta = _work(table, E, layer, *setting)
    table = table.assign(**{f"w{layer}": fixed + delta, f"d{layer}": delta, f"q{layer}": table["p"] == table["k"] // 2})
    table = table.assign(**{f"{f}{layer}": table[f] for f in "kCNsp"}, H=E, C=table["N"])
    return table[_possible(table, layer)].drop(columns=list("kNsp"))


def _work(table, E, layer, read, batch, array_size):
    """F + G, and delta, of each row, in cycles."""
    H, k, one = table["H"].to_numpy(), table["k"].to_numpy(), np.ones(len(table), int)
    shape = Shape(1, table["C"].to_numpy(), table["N"].to_numpy(), (k, k), (table["s"], table["s"]),
                  (table["p"], table["p"]), (one, one), (H, H), (E.to_numpy(), E.to_numpy()))
    F, G, delta = (_cycles(shape, op, read, batch, array_size) for op in ("F", "G", "delta"))
    return F + G, delta if layer > 1 or read.first_layer_delta else 0 * delta


def _cycles(shape, op, read, batch, array_size):
    ((M, K, N, _),) = gemm_rows(shape, op, read.delta, read.G)
    folded = (1, M, K * batch) if op == "G" else (1, M * batch, K)
    images, M, K = (batch, M, K) if read.batching == "per_image" else folded
    return images * gemm_cycles(M, K, N, array_size, array_size, dataflow=read.dataflow, convention=read.convention,
                                fold_overlap=read.fold_overlap)


def _possible(table, layers):
    """Rows whose first `layers` layers can still be the beginning of a match."""
    total, (low, high) = [3 * t for t in LAYERPIPE], PIPEDREAM
    w = [table[f"w{l}"] for l in range(1, layers + 1)]
    possible = np.logical_and.reduce([v < high for v in w])
    if layers == 1:
        return possible
    rest_low, rest_high = total[0] - w[0] - w[1], total[1] - w[0] - w[1]  # what layers 3 and 4 must add up to
    slowest = (w[0] >= low) | (w[1] >= low) | (rest_high >= low)
    possible &= slowest & (rest_low < high) & (rest_high > 0)
    if layers == 3:
        possible &= w[2] < np.minimum(rest_high, high)
    return possible & _matches(table) if layers == 4 else possible


def _matches(table):
    w1, w2, w3, w4 = (table[f"w{l}"] for l in range(1, 5))
    period, mean = _pipedream(table), (w1 + w2 + w3 + w4) / 3
    other = np.minimum(np.maximum(np.maximum(w1 + w2, w3), w4), np.maximum(np.maximum(w1, w2 + w3), w4))
    stated = period.between(*PIPEDREAM, inclusive="left") & mean.between(*LAYERPIPE, inclusive="left")
    return stated & (period <= other) & np.logical_or.reduce([_balanced(table, ends) for ends in SPLITS])


def _pipedream(table):
    return np.maximum(np.maximum(table["w1"], table["w2"]), table["w3"] + table["w4"])


def _moved(table, ends):
    """(layer, delta work that must move up a stage) at the ends of stages 1 and 2 for equal loads on three stages."""
    mean = sum(table[f"w{l}"] for l in range(1, 5)) / 3
    return [(end, sum(table[f"w{l}"] for l in range(1, end + 1)) - stages * mean) for stages, end in enumerate(ends, 1)]


def _balanced(table, ends):
    """Whether equal loads are possible when stages 1 and 2 end with the layers `ends`."""
    return np.logical_and.reduce([(moved >= 0) & (moved <= table[f"d{end}"]) for end, moved in _moved(table, ends)])


def _moved_weights(table):
    """Weights that follow the moved delta work, under the first of `SPLITS` that balances."""
    weights = [sum(moved / table[f"d{end}"] * table[f"k{end}"] ** 2 * table[f"C{end}"] * table[f"N{end}"]
                   for end, moved in _moved(table, ends)) for ends in SPLITS]
    return np.select([_balanced(table, ends) for ends in SPLITS], weights)


def _described(table):
    text = {f"layer {l}": [f"{k}x{k} {C}>{N} s{s} p{p}"
                           for k, C, N, s, p in table[[f"{f}{l}" for f in "kCNsp"]].to_numpy()]
            for l in range(1, 5)}
    same = np.logical_and.reduce([table[f"q{l}"] for l in range(1, 5)])
    periods = {"pipedream": _pipedream(table), "layerpipe": sum(table[f"w{l}"] for l in range(1, 5)) / 3}
    moved = {"moved weights": _moved_weights(table)}
    frame = pd.DataFrame(text | {"same padding": same, "keeps split": _balanced(table, SPLITS[0])} | periods | moved)
    return frame.sort_values([f"layer {l}" for l in range(1, 5)], ignore_index=True)
