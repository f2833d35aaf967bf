"""Costs of a network, of given times, and of readings; the reconstructed Table II of the sample network."""

import math

import numpy as np
import pandas as pd
import pytest

from lpkit.costs import READINGS, Costs, Reading, bytes_of, costs, reading
from lpkit.graph import Network, Node
from lpkit.networks import Activation, Add, Conv, ConvTranspose, Dense, Flatten, network
from lpkit.systolic import Array, cycles

# LayerPipe Table II as far as it can be reconstructed: 32x32 ws, batch 32, the reading "closest"
TABLE_II = {
    "conv1": (1_204_506, 2_119_936, 40_143_150, 43_467_592, 2_400),
    "conv2": (5_022_300, 5_607_168, 20_075_100, 30_704_568, 51_200),
    "conv3": (1_813_104, 2_101_120, 7_232_112, 11_146_336, 73_728),
    "conv4": (3_626_208, 3_907_456, 3_626_208, 11_159_872, 147_456),
}
ELEMENTS = {
    "input": (4_816_896, 12_845_056, 6_422_528, 3_211_264),
    "output": (12_845_056, 6_422_528, 3_211_264, 3_211_264),
}


def test_table_ii_of_the_sample_network_to_the_last_digit():
    found = costs("sample4", Array(32, 32), batch=32, bytes_per_element=1, **READINGS["closest"].choices())
    rows = list(zip(*(c.tolist() for c in (found.F, found.G, found.delta, found.work, found.weight_bytes))))
    assert rows == list(TABLE_II.values())
    assert found.total == 96_478_368
    assert tuple(found.input_bytes) == ELEMENTS["input"] and tuple(found.output_bytes) == ELEMENTS["output"]
    assert tuple(found.cut_bytes) == ELEMENTS["output"][:-1]
    assert found.name == "sample4 on 32x32 ws, batch 32" and found.unit == "cycles" and len(found) == 4


@pytest.mark.parametrize("side, expected", [(32, 12.06), (64, 11.76)])
def test_vgg16_saturates_where_an_independent_count_says(side, expected):
    found = costs("vgg16", Array(side, side), batch=32, **READINGS["closest"].choices())
    assert found.total / (found.F + found.G).max() == pytest.approx(expected, abs=0.005)


@pytest.mark.parametrize("name, side, batch, F, ratios", [
    ("alexnet", 32, 1, 6.32e6, (0.41, 0.46, 0.99, 0.99, 0.99)),
    ("alexnet", 128, 32, 3.16e6, (0.83, 1.45, 0.91, 1.02, 1.02)),
    ("vgg16", 32, 32, 4.97e8, (1.05, 1.46, 0.99, 0.99, 0.99)),
    ("resnet50", 32, 1, 6.35e6, (0.88, 1.04, 0.98, 1.28, 0.98)),
])
def test_each_form_against_an_independent_count(name, side, batch, F, ratios):
    def total(op, **form):
        return int(getattr(costs(name, Array(side, side), batch=batch, **form), op).sum())

    forward = total("F")
    forms = [total("G"), total("G", G="b"), *(total("delta", delta=d) for d in ("col2im", "zero_insert", "phases"))]
    assert forward == pytest.approx(F, rel=0.002)
    assert [form / forward for form in forms] == pytest.approx(ratios, abs=0.0051)


def test_defaults_are_the_plain_reading():
    plain = costs("vgg16", "64x64", batch=16)
    named = costs("vgg16", Array(64, 64), batch=16, **reading("plain").choices())
    assert all(np.array_equal(getattr(plain, f), getattr(named, f)) for f in ("F", "G", "delta", "cut_bytes"))
    assert len(plain) == 16 and plain.delta[0] == 0 and plain.delta[1] > 0


def test_each_entry_is_the_cycles_of_the_layer():
    net = network("alexnet")
    options = {"delta": "phases", "G": "b", "convention": "scalesim", "batching": "per_image"}
    found = costs(net, Array(16, 32, "os"), batch=3, first_layer_delta=True, **options)
    for op in ("F", "G", "delta"):
        expected = [cycles(layer, op, Array(16, 32, "os"), batch=3, **options) for layer in net.layers]
        assert getattr(found, op).tolist() == expected


def test_bytes_follow_the_element_and_round_up():
    net = network("lenet5")
    four, half = (costs(net, batch=3, bytes_per_element=b) for b in (4, 0.5))
    assert four.weight_bytes.tolist() == [4 * layer.weights for layer in net.layers]
    assert four.input_bytes.tolist() == [12 * layer.input_elements for layer in net.layers]
    assert half.output_bytes.tolist() == [math.ceil(1.5 * layer.output_elements) for layer in net.layers]
    assert four.cut_bytes.tolist() == [12 * n for n in net.cut_elements]
    assert bytes_of([3], 0.3) == [1] and bytes_of([2**60], 0.5) == [2**59]


@pytest.mark.parametrize("wrong", [0, -1, math.nan, math.inf, "4", True, None])
def test_bytes_per_element_must_be_positive(wrong):
    with pytest.raises(ValueError, match="^bytes_per_element is .*; it must be a positive number, such as 4, 2, 1"):
        costs("sample4", bytes_per_element=wrong)


# which layers count --------------------------------------------------------------------------------------------------


def test_kinds_of_layers():
    assert [len(costs("resnet50", layers=kind)) for kind in ("all", "convolutions", "main_path")] == [54, 53, 49]
    assert [len(costs("vgg16", layers=kind)) for kind in ("all", "convolutions", "main_path")] == [16, 13, 13]
    unet = network("unet")
    transposed = sum(isinstance(layer.op, ConvTranspose) for layer in unet.layers)
    assert transposed and len(costs(unet, layers="convolutions")) == len(unet.layers)


@pytest.mark.parametrize("name", ["vgg16", "resnet18", "resnet50", "mobilenet_v1", "unet", "alexnet"])
def test_whole_network_keeps_what_the_graph_says(name):
    net = network(name)
    found = costs(net, batch=2, bytes_per_element=1)
    assert found.first_consumer.tolist() == [layer.first_consumer for layer in net.layers]
    assert found.shared_input.tolist() == [layer.shared_input for layer in net.layers]
    assert found.cut_bytes.tolist() == [2 * n for n in net.cut_elements]


@pytest.mark.parametrize("name", ["resnet18", "resnet50", "vgg16"])
def test_on_the_main_path_each_layer_feeds_the_next(name):
    found = costs(name, layers="main_path")
    assert found.first_consumer.tolist() == list(range(2, len(found) + 2))


def residual():
    """conv1 -> a -> b and a projection p of conv1 -> add -> c -> flatten -> fc."""
    return Network("residual", (2, 4, 4), (
        Node("conv1", Conv(4, 3, padding=1), "input"),
        Node("a", Conv(4, 3, padding=1), "conv1"),
        Node("b", Conv(8, 3, padding=1), "a"),
        Node("p", Conv(8, 1), "conv1"),
        Node("add", Add(), ("b", "p")),
        Node("c", Conv(2, 3, padding=1), "add"),
        Node("flatten", Flatten(), "c"),
        Node("fc", Dense(5), "flatten"),
    ))  # fmt: skip


def test_a_projection_left_out_is_fused_with_the_layer_before():
    whole = costs(residual(), batch=1, bytes_per_element=1)
    assert whole.layers == ("conv1", "a", "b", "p", "c", "fc")
    assert whole.cut_bytes.tolist() == [64, 128, 192, 128, 32]
    assert whole.first_consumer.tolist() == [2, 3, 5, 5, 6, 7]
    main = costs(residual(), batch=1, bytes_per_element=1, layers="main_path")
    assert main.layers == ("conv1", "a", "b", "c")
    assert main.cut_bytes.tolist() == [64, 128, 128]  # before c only the sum crosses, made with b and p
    assert main.first_consumer.tolist() == [2, 3, 4, 5]
    assert main.shared_input.tolist() == [False, True, False, False]
    assert main.F.tolist() == [whole.F[i] for i in (0, 1, 2, 4)]


def test_layers_left_out_are_looked_through():
    net = Network("mixed", (4, 1, 1), (
        Node("fc1", Dense(6), "input"), Node("conv", Conv(3, 1), "fc1"), Node("fc2", Dense(3), "conv"),
        Node("sum", Add(), ("conv", "fc2")), Node("last", Conv(2, 1), "sum"),
    ))  # fmt: skip
    found = costs(net, layers="convolutions")
    assert found.layers == ("conv", "last") and found.first_consumer.tolist() == [2, 3]
    assert found.delta[0] > 0  # fc1 before it needs the gradient, though it is not costed


def test_every_layer_that_reads_only_the_input_needs_no_delta():
    net = Network("two", (3, 4, 4), (
        Node("left", Conv(4, 1), "input"), Node("right", Conv(4, 1), "input"), Node("sum", Add(), ("left", "right")),
        Node("last", Conv(2, 1), "sum"),
    ))  # fmt: skip
    assert (costs(net).delta > 0).tolist() == [False, False, True]
    assert (costs(net, first_layer_delta=True).delta > 0).all()


def test_no_layer_of_a_kind():
    net = Network("dense", (4, 1, 1), (Node("fc", Dense(6), "input"),))
    with pytest.raises(ValueError, match="network 'dense' has no layers of the kind 'convolutions'; use layers 'all'"):
        costs(net, layers="convolutions")


def test_no_layer_at_all():
    with pytest.raises(ValueError, match="^network 'relu' has no matrix product to cost"):
        costs(Network("relu", (4, 1, 1), (Node("relu", Activation(), "input"),)))


@pytest.mark.parametrize("option", ["delta", "G", "convention", "fold_overlap", "batching", "layers"])
def test_unknown_options_name_the_known(option):
    with pytest.raises(ValueError, match=f"^{option} is 'nothing';.* Known: "):
        costs("sample4", **{option: "nothing"})


def test_other_wrong_input():
    with pytest.raises(ValueError, match="^network is 'vgg61'; did you mean .*'vgg16'"):
        costs("vgg61")
    with pytest.raises(ValueError, match="^network is 5; it must be a Network or the name of a built-in one"):
        costs(5)
    with pytest.raises(ValueError, match="^array is 32; it must be ROWSxCOLUMNS"):
        costs("sample4", 32)
    with pytest.raises(ValueError, match=r"^array is \(64, 64\); .* such as lp.Array\(64, 64\)"):
        costs("sample4", (64, 64))
    with pytest.raises(ValueError, match=r"^network is 'mine.onnx', .* give lp.read_onnx\('mine.onnx'\)"):
        costs("mine.onnx")
    with pytest.raises(ValueError, match="^array is '32'; it must be ROWSxCOLUMNS"):
        costs("sample4", "32")
    with pytest.raises(ValueError, match="^batch is 0; it must be a whole number"):
        costs("sample4", batch=0)
    with pytest.raises(ValueError, match="64 bits"):
        costs("vgg16", batch=2**40, batching="per_image")


def test_readings():
    assert READINGS["closest"] == Reading(
        "closest", "ws", "zero_insert", "a", "exact", "serial", "folded", True, "main_path")  # fmt: skip
    assert READINGS["plain"] == Reading("plain", "ws", "col2im", "a", "exact", "serial", "folded", False, "all")
    with pytest.raises(ValueError, match="reading is 'close'; did you mean 'closest'. Known: 'closest', 'plain'"):
        reading("close")


# given times ---------------------------------------------------------------------------------------------------------


def test_from_times_is_a_plain_chain():
    chain = Costs.from_times([1, 2, 3], [1, 1, 1], [0, 2, 4], ["a", "b", "c"], output_bytes=[8, 16, 32], unit="ms")
    assert chain.F.dtype == np.float64 and chain.work.tolist() == [2, 5, 8] and chain.total == 15
    assert chain.first_consumer.tolist() == [2, 3, 4] and not chain.shared_input.any()
    assert chain.cut_bytes.tolist() == [8, 16] and chain.weight_bytes.tolist() == [0, 0, 0]
    assert Costs.from_times(2, 3, 4).layers == ("layer1",)
    assert Costs.from_times([1], [1], [1]).cut_bytes.shape == (0,)


def test_cycles_stay_exact_and_totals_fit():
    big = 2**61 + 1
    chain = Costs.from_times([big, 1], [0, 0], [0, 1], unit="cycles")
    assert chain.total == big + 2 and chain.F.dtype == np.int64
    with pytest.raises(ValueError, match="add up to more than 64 bits hold; use a larger unit"):
        Costs.from_times([big] * 4, 0, 0, unit="cycles")
    with pytest.raises(ValueError, match="add up to more than 64 bits hold; use a larger unit"):
        Costs.from_times([1e308, 1e308], 0, 0)


def test_arrays_are_copies_that_cannot_be_written():
    F = np.array([1.0, 2.0])
    chain = Costs.from_times(F, F, F)
    F[0] = 9
    assert chain.F[0] == 1
    for name in ("F", "G", "delta", "weight_bytes", "input_bytes", "output_bytes", "cut_bytes", "first_consumer",
                 "shared_input"):  # fmt: skip
        with pytest.raises(ValueError, match="read-only"):
            getattr(chain, name)[...] = 0


@pytest.mark.parametrize("times, unit, message", [
    (([1, -2], 0, 0), "s", "^F of layer 2 is -2; it must be a finite number of at least 0"),
    ((1, [1, math.nan], 0), "s", "^G of layer 2 is nan; it must be a finite number"),
    ((1, 1, [math.inf]), "s", "^delta of layer 1 is inf; it must be a finite number"),
    (([1.5], 1, 1), "cycles", "^F of layer 1 is 1.5; it must be a finite whole number"),
    (([2**63], 1, 1), "cycles", "^F of layer 1 is 9223372036854775808; it must be a finite whole number"),
    (([2**70], 1, 1), "cycles", "^F is 1180591620717411303424 for one layer, more than 64 bits hold; use smaller"),
    ((["a"], 1, 1), "s", "^F holds .* values; give finite numbers"),
    (([1, 2], [1, 2, 3], 0), "s", r"^F, G and delta must be rows of one length; their shapes are F \(2,\), G \(3,\)"),
    (([[1, 2]], 0, 0), "s", "^F, G and delta must be rows of one length"),
    (([], [], []), "s", "^there is no layer to cost; give at least one"),
])  # fmt: skip
def test_wrong_times(times, unit, message):
    with pytest.raises(ValueError, match=message):
        Costs.from_times(*times, unit=unit)


def test_wrong_columns():
    good = Costs.from_times([1, 2], [1, 2], [1, 2])
    fields = {name: getattr(good, name) for name in good.__dataclass_fields__}
    for change, message in (
        ({"cut_bytes": [1, 2]}, r"^cut_bytes has shape \(2,\); it must be \(1,\), one number a layer but the last"),
        ({"weight_bytes": [1]}, r"^weight_bytes has shape \(1,\); it must be \(2,\)"),
        ({"input_bytes": [1, 0.5]}, "^input_bytes of layer 2 is 0.5; it must be a finite whole number"),
        ({"first_consumer": [1, 3]}, "^first_consumer must name a later layer for each layer, or L"),
        ({"first_consumer": [2, 4]}, "^first_consumer must name a later layer"),
        ({"shared_input": [True]}, r"^shared_input has shape \(1,\); it must be \(2,\)"),
    ):
        with pytest.raises(ValueError, match=message):
            Costs(**fields | change)


def test_frame_has_a_row_a_layer():
    frame = costs("sample4").to_frame()
    assert list(frame) == [
        "layer", "F", "G", "delta", "total", "weight_bytes", "input_bytes", "output_bytes", "cut_bytes",
        "first_consumer", "shared_input",
    ]  # fmt: skip
    assert (frame.F + frame.G + frame.delta == frame.total).all() and frame.cut_bytes.iloc[-1] == 0


@pytest.mark.parametrize("size", [
    np.int32(4), np.uint8(4), np.float16(4), np.float32(4), np.longdouble(4), np.array(4),
])  # fmt: skip
def test_numpy_sizes_of_elements_are_taken_like_python_numbers(size):
    expected = costs("alexnet", batch=8192, bytes_per_element=4)
    found = costs("alexnet", batch=8192, bytes_per_element=size)
    for name in ("weight_bytes", "input_bytes", "output_bytes", "cut_bytes"):
        assert getattr(found, name).tolist() == getattr(expected, name).tolist()
    assert found.bytes_per_element == 4 and not isinstance(found.bytes_per_element, np.generic)


def test_bytes_are_exact_for_any_number_of_elements():
    assert bytes_of(np.array([2**62, 3]), np.int32(4)) == [2**64, 12]
    assert bytes_of([2**62 + 1], np.float32(0.1)) == [-(-(2**62 + 1) * 13421773 // 2**27)]


@pytest.mark.parametrize("size", [
    np.array([4, 3]), np.bool_(True), np.float32(math.nan), np.timedelta64(3, "ns"), pd.NA,
])  # fmt: skip
def test_other_sizes_of_elements_are_refused(size):
    with pytest.raises(ValueError, match="^bytes_per_element is .*; it must be a positive number"):
        costs("lenet5", bytes_per_element=size)


def test_long_input_is_cut_in_messages():
    for call in (
        lambda: costs("x" * 5000), lambda: costs(10**5000), lambda: costs("lenet5", layers="x" * 5000),
        lambda: costs("lenet5", batch=10**5000), lambda: costs("lenet5", bytes_per_element=10**5000),
        lambda: costs("lenet5", bytes_per_element="4" * 5000), lambda: reading("x" * 5000),
        lambda: Costs.from_times([2**62], 2**62, 1, name="x" * 5000, unit="cycles"),
    ):  # fmt: skip
        with pytest.raises(ValueError) as caught:
            call()
        assert len(str(caught.value)) < 300


@pytest.mark.parametrize("layers", [5, np.float16(3), "ab", [["a"], ["b"]]])
def test_names_of_layers_must_be_a_list(layers):
    with pytest.raises(ValueError, match="^layers is .*; it must be a list of 2 names, one a layer"):
        Costs.from_times([1, 2], 1, 1, layers=layers)
