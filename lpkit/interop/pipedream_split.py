"""Delta's part of a backward time that a profile gives as one number: by a rule, by its matrix product, or as told.

The product of a convolution or dense layer can be told from a profile alone: its description holds channels and
kernel, the bytes of its parameters then give the bytes of an element, and those of its output the pixels of the whole
mini-batch, so that neither the batch nor the size of the image has to be known.
"""

import math
import re
from collections.abc import Mapping, Sequence

import numpy as np

from lpkit.chains import python_number
from lpkit.checks import choice, shown, unknown_name
from lpkit.products import Gemm
from lpkit.systolic import as_array, gemm_cycles

__all__ = ["SPLITS", "delta_times", "forward_gemm", "has_weights", "layer_name"]

SPLITS = ("half", "by_forward", "by_gemm")
ELEMENTS = (1, 2, 4, 8)  # bytes that one may have
PRODUCT = re.compile(r"\b(Conv[123]d|Linear)\(([^()]*(?:\([^()]*\)[^()]*)*)\)")


def has_weights(operation):
    """Whether an operation has a G: it has weights, and does more with them than scale and shift."""
    return operation.parameters > 0 and not operation.operation.startswith("BatchNorm")


def layer_name(operation):
    """Id and kind of the operation that leads a layer: ``node4 Conv2d``."""
    return f"{operation.id} {operation.operation.split('(')[0]}"


def delta_times(heads, split, asked, *, array):
    """Delta's part of the backward time of each operation, and a phrase that says how it was found.

    Parameters
    ----------
    heads : sequence of Operation, length L
        Those that lead the layers.
    split : str, number, mapping or sequence
        As `split_backward` of `lpkit.interop.pipedream_costs.to_costs`.
    asked : sequence of bool, length L
        Which of them compute a delta at all; the others get 0.
    array : lpkit.systolic.Array or str
        Of the split ``"by_gemm"``.

    Returns
    -------
    times : list of float, length L
        In ms.
    said : str

    Raises
    ------
    ValueError
        If `split` or `array` is none of these, a share lies outside 0 to 1, or a layer is not known.
    """
    times, said = _times(heads, split, array)
    named = [(o, time) for o, time, wanted in zip(heads, times, asked) if wanted and has_weights(o)]
    unknown = [o.backward for o, time in named if time is None]
    if unknown:
        part = sum(unknown) / (sum(o.backward for o, _ in named) or 1)
        said += f", half for {len(unknown)} of {len(named)} operations ({part:.1%} of the time that is split)"
    times = [_with_weights(o, o.backward / 2) if time is None else time for o, time in zip(heads, times)]
    return [time if wanted else 0.0 for time, wanted in zip(times, asked)], said


def _times(heads, split, array):
    """Delta's time of each operation, None where it is not known, and how it was found."""
    share = python_number(split)
    if share is not None:
        if not 0 <= share <= 1:
            raise ValueError(f"split_backward is {shown(split)}; as a number it must lie between 0 and 1")
        return [_with_weights(o, float(share) * o.backward) for o in heads], f"delta is {float(share):g} of it"
    if isinstance(split, Mapping):
        return _by_name(heads, split), "delta by fractions given"
    if isinstance(split, (Sequence, np.ndarray)) and not isinstance(split, str):
        return _by_place(heads, split), "delta by fractions given"
    if choice(split, "split_backward", SPLITS) == "half":
        return [_with_weights(o, o.backward / 2) for o in heads], "delta is half of it"
    if split == "by_forward":
        return [_with_weights(o, max(o.backward - o.forward, 0.0)) for o in heads], "delta is what exceeds forward"
    array = as_array(array)
    return [_of_gemm(o, array) for o in heads], f"delta by the cycles of its product on {array}"


def _with_weights(operation, time):
    return time if has_weights(operation) else 0.0


def _by_name(heads, split):
    """Times by a mapping from a layer's name, or the id of the operation that leads it, to a fraction."""
    names = [layer_name(o) for o in heads]
    places = {o.id: n for n, o in enumerate(heads)} | {name: n for n, name in enumerate(names)}
    times = [None] * len(heads)
    for key, value in split.items():
        place = places.get(key) if isinstance(key, str) else None
        if place is None:
            raise unknown_name(key, "the layer of split_backward", names)
        if times[place] is not None:
            raise ValueError(f"split_backward names layer {shown(names[place])} twice, by its name and by its id; "
                             "name it once")
        times[place] = _fraction(value, names[place]) * heads[place].backward
    return times


def _by_place(heads, split):
    if getattr(split, "ndim", 1) != 1 or len(split) != len(heads):
        raise ValueError(f"split_backward is {shown(split)}; as a sequence it must be {len(heads)} numbers, one a "
                         "layer")
    return [_fraction(value, layer_name(o)) * o.backward for value, o in zip(split, heads)]


def _fraction(value, name):
    share = python_number(value)
    if share is None or not 0 <= share <= 1:
        raise ValueError(f"split_backward of layer {shown(name)} is {shown(value)}; it must be a number from 0 to 1")
    return float(share)


def _of_gemm(operation, array):
    """Delta's time by the cycles of its product and of G's, batch folded in, no zeros inserted; None if not known."""
    gemm = forward_gemm(operation)
    if gemm is None:
        return None
    size = {"rows": array.rows, "columns": array.columns, "dataflow": array.dataflow}
    G = int(gemm_cycles(gemm.K, gemm.M, gemm.N, **size))
    delta = int(gemm_cycles(gemm.M, gemm.N, gemm.K, **size))
    return operation.backward * delta / (G + delta)


def forward_gemm(operation):
    """The matrix product of the forward pass of a whole mini-batch, or None where the profile does not tell it.

    M is all output pixels, K the window of one, N the output channels, of a group; `count` is the groups. It is known
    for a ``Conv1d``, ``Conv2d``, ``Conv3d`` or ``Linear``, also the only one inside of another module, whose parameter
    bytes are those of its weights and bias at 1, 2, 4 or 8 bytes an element and whose output bytes are whole pixels of
    such elements.

    Examples
    --------
    >>> from lpkit.interop.pipedream import read_profile
    >>> forward_gemm(read_profile("vgg16").operations[3])  # 128 images of 224 x 224, window 3 x 3 x 64
    Gemm(M=6422528, K=576, N=64, count=1)
    """
    products = PRODUCT.findall(operation.operation)
    found = _window(*products[0]) if len(products) == 1 else None
    if found is None:
        return None
    window, outputs, groups, bias = found
    elements = outputs * (window + bias)
    size = next((size for size in ELEMENTS if elements * size == operation.parameters), None)
    if size is None or operation.activation == 0 or operation.activation % (size * outputs):
        return None
    return Gemm(operation.activation // (size * outputs), window, outputs // groups, groups)


def _window(kind, text):
    """Elements of a window, output channels, groups, and whether there is a bias; None if `text` does not say."""
    bias = "bias=False" not in text
    if kind == "Linear":
        sides = re.fullmatch(r"in_features=(\d{1,18}), out_features=(\d{1,18})\b.*", text)
        found = (int(sides[1]), int(sides[2]), 1, bias) if sides else None
    else:
        channels = re.match(r"(\d{1,18}), (\d{1,18}),", text)
        kernel = re.search(r"\bkernel_size=\(([\d, ]+)\)", text)
        given = re.search(r"\bgroups=(\d{1,18})\b", text)
        groups = int(given[1]) if given else 1
        if not channels or not kernel or not groups or int(channels[1]) % groups or int(channels[2]) % groups:
            return None
        taps = math.prod(int(side) for side in re.findall(r"\d{1,18}", kernel[1]))
        found = (int(channels[1]) // groups * taps, int(channels[2]), groups, bias)
    return found if found and found[0] and found[1] else None
