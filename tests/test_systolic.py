"""Cycles, utilisation and traffic against runs of SCALE-Sim itself, a fold-by-fold recount, and brute-force sums.

The recorded rows in golden/scalesim_*.csv were printed by SCALE-Sim 3.0.0 (stall-free mode, 64 kB buffers) and by
SCALE-Sim v1; those of v1's os dataflow are left out, since its trace counts reads that do not happen.
"""

import itertools
import math
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lpkit.graph import Network, Node
from lpkit.networks import Activation, Conv, ConvTranspose, Dense, Flatten, network
from lpkit.products import Shape
from lpkit.systolic import (
    Array, Gemm, conv_read_pixels, cycles, cycles_grid, gemm_cycles, gemms, report, useful_macs,
)  # fmt: skip

HERE = Path(__file__).parent / "golden"
BESIDE = Path(__file__).parents[2] / "shared" / "golden"
FILES = ("scalesim_networks.csv", "scalesim_random.csv")
RECORDED = {
    "overall_utilisation": "overall_util_pct", "mapping_efficiency": "mapping_eff_pct",
    "compute_utilisation": "compute_util_pct", "ifmap_reads": "ifmap_sram_reads", "filter_reads": "filter_sram_reads",
    "ofmap_writes": "ofmap_sram_writes", "total_cycles": "total_cycles", "stall_cycles": "stall_cycles",
}  # fmt: skip


# recorded runs -------------------------------------------------------------------------------------------------------


def recorded(folder, file, v1):
    if not (folder / file).exists():
        pytest.skip(f"the full record {file} is not beside the checkout; its sample in tests/golden is tested")
    rows = pd.read_csv(folder / file)
    is_v1 = rows.scalesim_version.str.contains("v1")
    return rows[is_v1 & (rows.dataflow != "os")] if v1 else rows[~is_v1]


def products_of(rows, round_up):
    E = [(rows[f"ifmap_{a}"] - rows[f"filt_{a}"] + rows[f"stride_{a}"] + (rows[f"stride_{a}"] - 1) * round_up)
         // rows[f"stride_{a}"] for a in "hw"]  # fmt: skip
    return E[0] * E[1], rows.filt_h * rows.filt_w * rows.channels, rows.num_filter


@pytest.mark.parametrize("folder", [HERE, BESIDE], ids=["sample", "full"])
@pytest.mark.parametrize("file", FILES)
def test_every_recorded_cycle_count_of_v3_is_equal(folder, file):
    rows = recorded(folder, file, v1=False)
    assert len(rows) >= 150
    for dataflow, group in rows.groupby("dataflow"):
        sizes = (*products_of(group, True), group.array_rows, group.array_cols)
        found = gemm_cycles(*sizes, dataflow=dataflow, convention="scalesim")
        np.testing.assert_array_equal(found, group.total_cycles)
        np.testing.assert_array_equal(gemm_cycles(*sizes, dataflow=dataflow), group.demand_lines)


@pytest.mark.parametrize("folder", [HERE, BESIDE], ids=["sample", "full"])
@pytest.mark.parametrize("file", FILES)
def test_every_recorded_report_of_v3_is_equal(folder, file):
    rows = recorded(folder, file, v1=False)
    for (R, C, dataflow), group in rows.groupby(["array_rows", "array_cols", "dataflow"]):
        found = report(*products_of(group, True), Array(R, C, dataflow))
        for ours, theirs in RECORDED.items():
            np.testing.assert_allclose(getattr(found, ours), group[theirs], rtol=1e-12 if "_pct" in theirs else 0)


@pytest.mark.parametrize("folder", [HERE, BESIDE], ids=["sample", "full"])
def test_every_recorded_cycle_count_of_v1_is_equal(folder):
    rows = recorded(folder, "scalesim_random.csv", v1=True)
    assert len(rows) >= 90
    for dataflow, group in rows.groupby("dataflow"):
        read = conv_read_pixels(*((group[f"{what}_h"], group[f"{what}_w"]) for what in ("ifmap", "filt", "stride")))
        found = gemm_cycles(*products_of(group, False), group.array_rows, group.array_cols, dataflow=dataflow,
                            convention="scalesim_v1", read_pixels=read)
        np.testing.assert_array_equal(found, group.total_cycles)


# an independent count, fold by fold ----------------------------------------------------------------------------------

SIZES = st.integers(1, 40)


def by_folds(M, K, N, R, C, dataflow, convention):
    S_r, S_c, T = {"ws": (K, N, M), "os": (M, N, K), "is": (K, M, N)}[dataflow]
    total = 0
    for _ in itertools.product(range(0, S_r, R), range(0, S_c, C)):
        load = R if dataflow != "os" or convention == "ispass20" else 0
        last_row_done = load + (R - 1) + T - 1  # the last operand enters the last row, skewed by a cycle a row
        total += last_row_done + (C - 1) + 1  # crosses the columns; counted from 0
    return total


@given(SIZES, SIZES, SIZES, st.integers(1, 9), st.integers(1, 9), st.sampled_from(["ws", "os", "is"]))
@settings(deadline=None)
def test_exact_and_ispass_are_sums_over_folds(M, K, N, R, C, dataflow):
    for convention in ("exact", "ispass20"):
        expected = by_folds(M, K, N, R, C, dataflow, convention)
        assert gemm_cycles(M, K, N, R, C, dataflow=dataflow, convention=convention) == expected
    assert gemm_cycles(M, K, N, R, C, dataflow=dataflow, convention="scalesim") == by_folds(
        M, K, N, R, C, dataflow, "exact") - 1  # fmt: skip


def v1_by_folds(M, K, N, R, C, dataflow, read):
    """SCALE-Sim v1's bookkeeping as a loop: load the used rows, then the later of last read and last write."""
    S_c, T = (N, M) if dataflow == "ws" else (M, N)
    read, early = (read, 0) if dataflow == "ws" else (T, 1)
    packed, now, left = max(R // K, 1), 0, S_c
    while left > 0:
        here = min(left, packed * C)
        widest = min(here, C)
        if K > R:
            for first in range(0, K, R):
                used = min(R, K - first)
                now += used + max(read, used + widest + T - early)
        else:
            now += math.ceil(here / C) * K + max(T, K + widest + T - early)
        left -= here
    return now


@given(SIZES, SIZES, SIZES, st.integers(1, 50), st.integers(1, 9), st.sampled_from(["ws", "is"]), st.integers(0, 60))
@settings(deadline=None)
def test_v1_is_its_bookkeeping(M, K, N, R, C, dataflow, ragged):
    found = gemm_cycles(M, K, N, R, C, dataflow=dataflow, convention="scalesim_v1", read_pixels=M + ragged)
    assert found == v1_by_folds(M, K, N, R, C, dataflow, M + ragged)


def test_v1_reads_the_ragged_edge_only_where_it_outlasts_the_fill():
    assert conv_read_pixels((8, 8), (3, 3), (2, 2)) == 12  # 3.5 x 3.5
    common = {"convention": "scalesim_v1"}
    assert gemm_cycles(9, 9, 1, 1, 1, **common) == 9 * (1 + 1 + 1 + 9)
    assert gemm_cycles(9, 9, 1, 1, 1, read_pixels=12, **common) == 9 * (1 + 12)
    layer = one_layer((1, 8, 8), Conv(1, 3, stride=2))
    assert cycles(layer, "F", Array(1, 1), **common) == 9 * (1 + 12)
    assert cycles(layer, "F", Array(1, 1), batch=2, **common) == 9 * (1 + 24)
    assert cycles(layer, "F", Array(1, 1), batch=2, batching="per_image", **common) == 2 * 9 * (1 + 12)
    assert cycles(layer, "delta", Array(1, 1), **common) == gemm_cycles(9, 1, 9, 1, 1, **common)


def test_hidden_preload_formula():
    assert gemm_cycles(50, 70, 40, 32, 32, fold_overlap="preload_hidden") == 63 + 6 * 50 + 62
    assert gemm_cycles(10, 70, 40, 32, 32, dataflow="is", fold_overlap="preload_hidden") == 63 + 3 * 40 + 62
    assert gemm_cycles(1, 320, 32, 32, 32, fold_overlap="preload_hidden") == 63 + 10 * 32 + 62


def test_published_examples():
    assert gemm_cycles([50, 200, 10], [70, 27, 33], [40, 64, 8], 32, 32).tolist() == [864, 588, 208]
    assert gemm_cycles([50, 200, 10], [70, 27, 33], [40, 64, 8], 32, 32, dataflow="os").tolist() == [528, 1246, 95]


def test_sizes_broadcast():
    M, R = np.arange(1, 7)[:, None], np.array([1, 8, 32])
    found = gemm_cycles(M, 9.0, 4, R, 8)
    assert found.dtype == np.int64 and found.shape == (6, 3)
    assert all(found[i, j] == gemm_cycles(i + 1, 9, 4, R[j], 8) for i in range(6) for j in range(3))


# exact or refused ----------------------------------------------------------------------------------------------------


def test_largest_results_are_exact():
    M = 2**61
    assert int(gemm_cycles(M, 1, 1, 3, 5)) == 2 * 3 + 5 + M - 2
    assert int(gemm_cycles(M, 2, 1, 1, 1)) == 2 * (2 + 1 + M - 2)


@pytest.mark.parametrize("convention", ["exact", "scalesim", "scalesim_v1", "ispass20"])
@pytest.mark.parametrize("sizes", [(2**61, 2**10, 1), (2**40, 2**40, 2**40), (2**61, 5, 1), (2**62, 1, 2**62)])
def test_what_does_not_fit_is_refused(convention, sizes):
    with pytest.raises(ValueError, match="does not fit in 64 bits; use smaller sizes"):
        gemm_cycles(*sizes, 1, 1, convention=convention)


@given(*[st.integers(1, 2**62)] * 3, *[st.integers(1, 2**30)] * 2, st.sampled_from(["exact", "scalesim_v1"]))
@settings(deadline=None)
def test_never_a_wrong_number(M, K, N, R, C, convention):
    try:
        found = int(gemm_cycles(M, K, N, R, C, convention=convention))
    except ValueError as error:
        assert "64 bits" in str(error)
        return
    folds = -(-K // R) * -(-N // C)
    if convention == "exact":
        assert found == folds * (2 * R + C + M - 2)
    else:
        assert 0 < found <= folds * (2 * R + C + M)


@pytest.mark.parametrize("wrong, shown", [
    (0, "0"), (-3, "-3"), (1.5, "1.5"), (math.nan, "nan"), (math.inf, "inf"), ([4, 0], "0"),
    (2**62 + 1, str(2**62 + 1)), (np.float64(2.5), "2.5"), (2**70, str(2**70)), ([1, 2**70], str(2**70)),
    (np.float16(2.5), "2.5"), ([10**5000], "a whole number of about 5001 digits"),
])  # fmt: skip
@pytest.mark.parametrize("place", range(5))
def test_sizes_must_be_whole_and_positive(wrong, shown, place):
    sizes = [4, 4, 4, 4, 4]
    sizes[place] = wrong
    name = ("M", "K", "N", "rows", "columns")[place]
    with pytest.raises(ValueError, match=f"^{name} is {shown}; it must be a whole number from 1 to"):
        gemm_cycles(*sizes)


@pytest.mark.parametrize("wrong", ["32", True, None, [1, None]])
def test_sizes_must_be_numbers(wrong):
    with pytest.raises(ValueError, match="^K holds .* values; it must hold whole numbers from 1"):
        gemm_cycles(4, wrong, 4, 4, 4)


def test_choices_that_are_not_defined_are_refused():
    with pytest.raises(ValueError, match="scalesim_v1 has no cycle count for dataflow 'os', because"):
        gemm_cycles(4, 4, 4, 4, 4, dataflow="os", convention="scalesim_v1")
    for options in ({"dataflow": "os"}, {"convention": "scalesim"}, {"convention": "ispass20"}):
        with pytest.raises(ValueError, match="'preload_hidden' is not defined for convention"):
            gemm_cycles(4, 4, 4, 4, 4, fold_overlap="preload_hidden", **options)
    with pytest.raises(ValueError, match="read_pixels is meant for convention 'scalesim_v1' only, not 'exact'"):
        gemm_cycles(4, 4, 4, 4, 4, read_pixels=4)


@pytest.mark.parametrize("name", ["dataflow", "convention", "fold_overlap"])
def test_unknown_choices_name_the_known(name):
    with pytest.raises(ValueError, match=f"^{name} is 'wsx';.* Known: "):
        gemm_cycles(4, 4, 4, 4, 4, **{name: "wsx"})


def test_array_from_text():
    assert Array.parse(" 5 X 7 ", dataflow="is") == Array(5, 7, "is")
    assert Array(32.0, np.int64(16)) == Array(32, 16, "ws")
    for wrong in ("32", "32x", "32x-3", "ax3", "", None, 32, "3x3x3", "1.5x2"):
        with pytest.raises(ValueError, match="it must be ROWSxCOLUMNS, such as 32x32"):
            Array.parse(wrong)
    with pytest.raises(ValueError, match="^array rows is 0; it must be a whole number from 1"):
        Array.parse("0x3")
    with pytest.raises(ValueError, match="^dataflow is 'xs'"):
        Array(3, 3, "xs")


def test_gemm_is_checked():
    assert Gemm(2, 3.0, 4, count=5).macs == 120
    with pytest.raises(ValueError, match="^K is 0;"):
        Gemm(2, 0, 4)


# layers as products, against brute force -----------------------------------------------------------------------------


def one_layer(input_shape, op):
    nodes = (Node("flat", Flatten(), "input"),) if isinstance(op, Dense) else ()
    return Network("one", input_shape, (*nodes, Node("layer", op, "flat" if nodes else "input"))).layers[0]


def brute_force(shape, rng):
    """A convolution of one sample summed term by term: F of (a, W), G of (a, e), delta of (W, e), and the terms."""
    (kh, kw), (sh, sw), (ph, pw), (dh, dw) = shape.kernel, shape.stride, shape.padding, shape.dilation
    (H, W_), (Eh, Ew) = shape.input, shape.output
    a = rng.integers(1, 5, (shape.groups, shape.C, H, W_))
    W = rng.integers(1, 5, (shape.groups, shape.N, shape.C, kh, kw))
    e = rng.integers(1, 5, (shape.groups, shape.N, Eh, Ew))
    F, G, delta, terms = np.zeros_like(e), np.zeros_like(W), np.zeros_like(a), 0
    for y, x, u, v in itertools.product(range(Eh), range(Ew), range(kh), range(kw)):
        i, j = y * sh + u * dh - ph, x * sw + v * dw - pw
        if 0 <= i < H and 0 <= j < W_:
            F[..., y, x] += np.einsum("gnc,gc->gn", W[..., u, v], a[..., i, j])
            G[..., u, v] += np.einsum("gn,gc->gnc", e[..., y, x], a[..., i, j])
            delta[..., i, j] += np.einsum("gnc,gn->gc", W[..., u, v], e[..., y, x])
            terms += shape.groups * shape.N * shape.C
    return a, W, e, F, G, delta, terms


def im2col(a, shape):
    """(groups, pixels, window) of the padded input."""
    (ph, pw), (kh, kw), (sh, sw), (dh, dw) = shape.padding, shape.kernel, shape.stride, shape.dilation
    padded = np.pad(a, [(0, 0), (0, 0), (ph, ph), (pw, pw)])
    rows = [
        padded[:, :, y * sh : y * sh + dh * (kh - 1) + 1 : dh, x * sw : x * sw + dw * (kw - 1) + 1 : dw].reshape(
            shape.groups, -1)
        for y, x in itertools.product(*map(range, shape.output))
    ]  # fmt: skip
    return np.stack(rows, 1)


def col2im(columns, shape):
    """Sum of the windows (groups, pixels, window) back onto the input."""
    (H, W), (ph, pw), (kh, kw), (sh, sw), (dh, dw) = (
        shape.input, shape.padding, shape.kernel, shape.stride, shape.dilation)  # fmt: skip
    out = np.zeros((shape.groups, shape.C, H + 2 * ph, W + 2 * pw), dtype=columns.dtype)
    for pixel, (y, x) in enumerate(itertools.product(*map(range, shape.output))):
        window = columns[:, pixel].reshape(shape.groups, shape.C, kh, kw)
        out[:, :, y * sh : y * sh + dh * (kh - 1) + 1 : dh, x * sw : x * sw + dw * (kw - 1) + 1 : dw] += window
    return out[:, :, ph : ph + H, pw : pw + W]


def spread(e, shape):
    """Gradient with zeros between (and past) its values, and where a value stands or would stand past the edge."""
    reach = [d * (k - 1) for d, k in zip(shape.dilation, shape.kernel)]
    size = [i + p + r for i, p, r in zip(shape.input, shape.padding, reach)]
    out, kept = np.zeros((*e.shape[:2], *size), e.dtype), np.zeros(size, bool)
    for y, x in itertools.product(*map(range, shape.output)):
        i, j = y * shape.stride[0] + reach[0], x * shape.stride[1] + reach[1]
        if i < size[0] and j < size[1]:
            out[:, :, i, j] = e[:, :, y, x]
    kept[reach[0] % shape.stride[0] :: shape.stride[0], reach[1] % shape.stride[1] :: shape.stride[1]] = True
    return out, kept


def zero_insert_window(spread_map, i, j, shape):
    """What the taps see at input position (i, j): the spread gradient at i + p - u d."""
    reach = [d * (k - 1) for d, k in zip(shape.dilation, shape.kernel)]
    us = [i + shape.padding[0] - u * shape.dilation[0] + reach[0] for u in range(shape.kernel[0])]
    vs = [j + shape.padding[1] - v * shape.dilation[1] + reach[1] for v in range(shape.kernel[1])]
    return spread_map[..., us, :][..., vs]


def as_gemm(left, right, found):
    """left x right per group, after checking that its sizes are those of the `Gemm` found for it."""
    assert (left.shape[1], left.shape[2], right.shape[2], left.shape[0]) == (found.M, found.K, found.N, found.count)
    return left @ right


CONVS = [
    ((2, 5, 6), Conv(3, 3, stride=1, padding=1)),
    ((2, 7, 5), Conv(3, (3, 2), stride=(2, 1), padding=(1, 0))),
    ((4, 6, 7), Conv(6, 3, stride=2, padding=1, groups=2)),
    ((3, 6, 6), Conv(3, 3, stride=2, padding=1, groups=3)),
    ((2, 9, 8), Conv(2, 3, stride=2, padding=2, dilation=2)),
    ((2, 8, 8), Conv(3, 1, stride=2)),
    ((1, 11, 11), Conv(2, 5, stride=3, padding=2)),
    ((1, 7, 9), Conv(2, (2, 3), stride=(3, 4), dilation=(3, 2))),
    ((3, 2, 2), Dense(4)),
]


@pytest.mark.parametrize("input_shape, op", CONVS, ids=str)
def test_products_are_the_sums(input_shape, op):
    layer = one_layer(input_shape, op)
    shape = shape_of(layer)
    a, W, e, F, G, delta, terms = brute_force(shape, np.random.default_rng(7))
    columns, pixels = im2col(a, shape), math.prod(shape.output)
    flat_W, flat_e = W.reshape(shape.groups, shape.N, -1), e.reshape(shape.groups, shape.N, pixels)
    found = as_gemm(columns, flat_W.swapaxes(1, 2), gemms(layer, "F")[0])
    np.testing.assert_array_equal(found.swapaxes(1, 2).reshape(F.shape), F)
    found = as_gemm(columns.swapaxes(1, 2), flat_e.swapaxes(1, 2), gemms(layer, "G")[0])
    np.testing.assert_array_equal(found.swapaxes(1, 2).reshape(G.shape), G)
    found = as_gemm(flat_e, columns, gemms(layer, "G", G="b")[0])
    np.testing.assert_array_equal(found.reshape(G.shape), G)
    found = as_gemm(flat_e.swapaxes(1, 2), flat_W, gemms(layer, "delta")[0])
    np.testing.assert_array_equal(col2im(found, shape), delta)
    assert useful_macs(layer) == terms


@pytest.mark.parametrize("input_shape, op", CONVS, ids=str)
def test_zero_insertion_is_delta(input_shape, op):
    layer = one_layer(input_shape, op)
    shape = shape_of(layer)
    _, W, e, _, _, delta, _ = brute_force(shape, np.random.default_rng(7))
    spread_map, _ = spread(e, shape)
    windows = [zero_insert_window(spread_map, i, j, shape).reshape(shape.groups, -1)
               for i, j in itertools.product(*map(range, shape.input))]  # fmt: skip
    filters = W.transpose(0, 1, 3, 4, 2).reshape(shape.groups, -1, shape.C)
    found = as_gemm(np.stack(windows, 1), filters, gemms(layer, "delta", delta="zero_insert")[0])
    np.testing.assert_array_equal(found.swapaxes(1, 2).reshape(delta.shape), delta)


@pytest.mark.parametrize("input_shape, op", CONVS, ids=str)
def test_phases_are_delta_without_inserted_zeros(input_shape, op):
    layer = one_layer(input_shape, op)
    shape = shape_of(layer)
    _, W, e, _, _, delta, _ = brute_force(shape, np.random.default_rng(7))
    spread_map, kept = spread(e, shape)
    found, macs = np.zeros_like(delta), 0
    expected = sum((Counter({replace(g, count=shape.groups): g.count // shape.groups})
                    for g in gemms(layer, "delta", delta="phases")), Counter())  # fmt: skip
    for a, b in itertools.product(*(range(min(s, i)) for s, i in zip(shape.stride, shape.input))):
        here = list(itertools.product(*(range(o, i, s) for o, i, s in zip((a, b), shape.input, shape.stride))))
        taps = zero_insert_window(kept, a, b, shape)  # the same taps for every position of a phase
        if not taps.any():
            continue
        seen = [zero_insert_window(spread_map, i, j, shape)[..., taps] for i, j in here]
        rows = np.stack([window.reshape(shape.groups, -1) for window in seen], 1)
        filters = W[..., taps].transpose(0, 1, 3, 2).reshape(shape.groups, -1, shape.C)
        gemm = Gemm(rows.shape[1], rows.shape[2], shape.C, shape.groups)
        result = as_gemm(rows, filters, gemm)
        expected[gemm] -= 1
        for n, (i, j) in enumerate(here):
            found[:, :, i, j] = result[:, n]
        macs += rows.shape[1] * taps.sum() * shape.N * shape.C * shape.groups
    assert not any(expected.values())
    np.testing.assert_array_equal(found, delta)
    all_taps = sum(zero_insert_window(kept, i, j, shape).sum() for i, j in itertools.product(*map(range, shape.input)))
    assert macs == all_taps * shape.N * shape.C * shape.groups  # no inserted zero, and nothing left out
    assert macs == sum(g.macs for g in gemms(layer, "delta", delta="phases"))


def shape_of(layer):
    from lpkit.products import conv_shape

    return conv_shape(layer)[0]


@pytest.mark.parametrize("op", [ConvTranspose(3, 2, stride=2), ConvTranspose(3, (4, 3), stride=(2, 1), padding=(1, 0))])
def test_transposed_convolution_is_the_mirror(op):
    layer = one_layer((2, 4, 5), op)
    mirror = one_layer(layer.out_shape, Conv(2, op.kernel, stride=op.stride, padding=op.padding))
    assert mirror.out_shape == layer.in_shape
    for delta in ("col2im", "zero_insert", "phases"):
        assert gemms(layer, "F", delta=delta, batch=3) == gemms(mirror, "delta", delta=delta, batch=3)
        assert gemms(layer, "delta", delta=delta, batch=3) == gemms(mirror, "F", batch=3)
    for G in "ab":
        assert gemms(layer, "G", G=G) == gemms(mirror, "G", G=G)
    assert useful_macs(layer) == useful_macs(mirror)
    assert gemms(layer, "F")[0].macs == layer.macs()


def test_batch_folds_into_M_or_K_or_repeats():
    layer = one_layer((4, 6, 6), Conv(6, 3, padding=1, groups=2))
    assert gemms(layer, "F", batch=5) == (Gemm(180, 18, 3, 2),)
    assert gemms(layer, "G", batch=5) == (Gemm(18, 180, 3, 2),)
    assert gemms(layer, "G", batch=5, G="b") == (Gemm(3, 180, 18, 2),)
    assert gemms(layer, "delta", batch=5) == (Gemm(180, 3, 18, 2),)
    assert gemms(layer, "G", batch=5, batching="per_image") == (Gemm(18, 36, 3, 10),)
    dense = one_layer((4, 1, 1), Dense(7))
    assert [gemms(dense, op, batch=5)[0] for op in ("F", "G", "delta")] == [Gemm(5, 4, 7), Gemm(4, 5, 7), Gemm(5, 7, 4)]


def test_a_gradient_that_reaches_no_input_costs_nothing():
    layer = one_layer((1, 1, 1), Conv(1, 1, stride=5, padding=1))  # the only window lies in the padding
    assert gemms(layer, "delta", delta="phases") == () and useful_macs(layer) == 0
    assert cycles(layer, "delta", Array(4, 4), delta="phases") == 0


@pytest.mark.parametrize("name, wrong", [("delta", "full"), ("G", "c"), ("batching", "batch")])
def test_unknown_forms_name_the_known(name, wrong):
    layer = one_layer((4, 6, 6), Conv(6, 3))
    with pytest.raises(ValueError, match=f"^{name} is '{wrong}';.* Known: "):
        gemms(layer, "F", **{name: wrong})
    with pytest.raises(ValueError, match=f"^{name} is '{wrong}';.* Known: "):
        cycles(layer, "F", Array(4, 4), **{name: wrong})


def test_other_wrong_input():
    layer = one_layer((4, 6, 6), Conv(6, 3))
    with pytest.raises(ValueError, match="^op is 'B';.* Known: 'F', 'G', 'delta'"):
        gemms(layer, "B")
    with pytest.raises(ValueError, match="^batch is 0; it must be a whole number"):
        gemms(layer, "F", batch=0)
    with pytest.raises(ValueError, match="^batch is 2.5; it must be a whole number"):
        cycles_grid([layer], [Array(4, 4)], [16, 2.5])
    with pytest.raises(ValueError, match="^array is 32; it must be ROWSxCOLUMNS"):
        cycles(layer, "F", 32)


@pytest.mark.parametrize("batching", ["folded", "per_image"])
@pytest.mark.parametrize("op", ["F", "G", "delta"])
def test_a_batch_that_does_not_fit_is_refused(op, batching):
    layer = one_layer((2**10, 2**10, 2**10), Conv(2**10, 1))
    assert cycles(layer, op, Array(1, 1), batch=2**20, batching=batching) > 2**59
    with pytest.raises(ValueError, match="64 bits"):
        cycles(layer, op, Array(1, 1), batch=2**24, batching=batching)


# the grid is the sum of the single answers ---------------------------------------------------------------------------


@pytest.mark.parametrize("delta, batching, convention", [
    ("col2im", "folded", "exact"), ("zero_insert", "per_image", "scalesim"), ("phases", "folded", "scalesim"),
    ("phases", "per_image", "ispass20"),
])  # fmt: skip
def test_grid_equals_a_sum_over_gemms(delta, batching, convention):
    layers = network("mobilenet_v1").layers[:4] + network("unet").layers[-3:]
    arrays = [Array(8, 32), Array(5, 7, "is"), Array(16, 16)]
    grid = cycles_grid(layers, arrays, [1, 3], delta=delta, batching=batching, convention=convention)
    for op, (a, array), (b, batch) in itertools.product(grid, enumerate(arrays), enumerate([1, 3])):
        for l, layer in enumerate(layers):
            expected = sum(
                g.count * int(gemm_cycles(g.M, g.K, g.N, array.rows, array.columns, dataflow=array.dataflow,
                                          convention=convention))
                for g in gemms(layer, op, batch=batch, delta=delta, batching=batching)
            )  # fmt: skip
            assert grid[op][a, b, l] == expected
            options = {"delta": delta, "batching": batching, "convention": convention}
            assert cycles(layer, op, array, batch=batch, **options) == expected


def test_a_shape_stands_for_a_layer():
    shape = Shape(1, 3, 96, (11, 11), (4, 4), (0, 0), (1, 1), (224, 224), (55, 55))
    assert gemms(shape, "F") == (Gemm(3025, 363, 96),)


def test_layers_without_a_product_are_refused():
    from types import SimpleNamespace

    relu = SimpleNamespace(name="relu1", op=Activation(), in_shape=(1, 2, 2), out_shape=(1, 2, 2))
    with pytest.raises(ValueError, match="layer 'relu1' is a Activation; only Conv, ConvTranspose and Dense are Gemms"):
        gemms(relu, "F")


def test_report_where_scalesim_divides_by_zero():
    one = report(1, 1, 1, Array(1, 1, "os"))
    assert one.total_cycles == 0 and one.overall_utilisation == 100


def test_report_refuses_what_does_not_fit():
    with pytest.raises(ValueError, match="64 bits"):
        report(2**30, 2**30, 2**30, Array(2**20, 2**20))


# sizes beyond the usual -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dataflow, folds, fold", [
    ("ws", 144 * 16, 94 + 10**10), ("is", 144 * 312_500_000, 94 + 512), ("os", 16 * 312_500_000, 62 + 4608),
])  # fmt: skip
def test_only_what_streams_counts_towards_the_64_bits(dataflow, folds, fold):
    assert int(gemm_cycles(10**10, 4608, 512, 32, 32, dataflow=dataflow)) == folds * fold


def test_many_layers_do_not_narrow_the_64_bits():
    large = Shape(1, 1, 1, (1, 1), (1, 1), (0, 0), (1, 1), (2**31, 2**31), (2**31, 2**31))
    assert cycles_grid([large] * 4, ["1x1"], [1], ops=("F",))["F"].tolist() == [[[2**62 + 1] * 4]]


def test_read_pixels_are_exact_where_floats_are_not():
    H, W = 812_974_048, 747_556_602
    assert conv_read_pixels((H, W), (1, 1), (1, 1)) == H * W
    assert conv_read_pixels((2**31 + 1, 2**31 + 1), (2, 2), (3, 3)) == (2**31 + 2) ** 2 // 9
    assert conv_read_pixels((13, 81), (3, 3), (3, 3)) == 116  # 13/3 x 81/3 in floats, as the reference has it
    both = conv_read_pixels((np.array([8, H]), np.array([8, W])), (3, 3), (2, 2))
    assert both.tolist() == [12, (H - 1) * (W - 1) // 4]
    shape = Shape(1, 2, 1, (1, 1), (1, 1), (0, 0), (1, 1), (H, W), (H, W))
    assert cycles(shape, "F", "1x1", convention="scalesim_v1") == 2 * (H * W + 3)
    with pytest.raises(ValueError, match="too many pixels to count in 64 bits"):
        conv_read_pixels((2**40, 2**40), (1, 1), (1, 1))
    with pytest.raises(ValueError, match="^stride is 0; it must be a whole number"):
        conv_read_pixels((8, 8), (3, 3), (0, 2))


def test_products_too_large_are_named():
    shape = Shape(1, 1, 1, (1, 1), (1, 1), (0, 0), (1, 1), (2**40, 2**40), (2**40, 2**40))
    for op in ("F", "G", "delta"):
        for convention in ("exact", "scalesim_v1"):
            with pytest.raises(ValueError, match=f"^{op} of the layer does not fit in 64 bits: .* {2**80}"):
                cycles(shape, op, "8x8", convention=convention)
        with pytest.raises(ValueError, match="does not fit in 64 bits"):
            gemms(shape, op)


def test_ragged_sizes_are_refused():
    with pytest.raises(ValueError, match="^M is .*; its rows must be of one length"):
        gemm_cycles([[1, 2], [3]], 4, 4, 4, 4)


@pytest.mark.parametrize("text", ["9" * 5000 + "x3", "3x" + "9" * 5000, "x" * 5000, None])
def test_long_names_of_arrays_are_cut(text):
    with pytest.raises(ValueError, match="^array is .*; it must be ROWSxCOLUMNS") as caught:
        Array.parse(text)
    assert len(str(caught.value)) < 150


def one_axis(k, s, p, d, size, E):
    return Shape(1, 1, 1, (k, 1), (s, 1), (p, 0), (d, 1), (size, 1), (E, 1))


@given(st.integers(1, 20), *[st.integers(1, 14)] * 2, st.integers(0, 15), st.integers(1, 40), st.integers(1, 30))
@settings(deadline=None, max_examples=300)
def test_counts_of_taps_against_loops(k, s, d, p, size, E):
    shape = one_axis(k, s, p, d, size, E)
    phases = Counter()
    for a in range(min(s, size)):
        taps = sum((a + p - t * d) % s == 0 for t in range(k))
        phases[len(range(a, size, s)), taps] += taps > 0
    found = Counter()
    for g in gemms(shape, "delta", delta="phases"):
        found[g.M, g.K] += g.count
    assert found == +phases
    pairs = sum(0 <= e * s + t * d - p < size for e in range(E) for t in range(k))
    assert useful_macs(shape) == pairs


def test_huge_strides_and_kernels_are_counted_at_once():
    start = time.perf_counter()
    side = 2**20
    patches = Shape(1, 3, 8, (side, side), (side, side), (0, 0), (1, 1), (2 * side, 2 * side), (2, 2))
    assert gemms(patches, "delta", delta="phases") == (Gemm(4, 8, 3, side**2),)
    assert cycles(patches, "delta", "8x8", delta="phases") == side**2 * (2 * 8 + 8 + 4 - 2)
    assert useful_macs(patches) == 3 * 8 * (2 * side) ** 2
    assert useful_macs(one_axis(2**30, 1, 0, 1, 2**31, 2**30 + 1)) == 2**30 * (2**30 + 1)
    strided = one_axis(3, 2**20, 0, 1, 2**20 + 2, 1)
    assert sorted(gemms(strided, "delta", delta="phases"), key=lambda g: g.M) == [Gemm(1, 1, 1), Gemm(2, 1, 1, 2)]
    assert time.perf_counter() - start < 2  # loops over the phases take minutes
