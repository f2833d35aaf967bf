"""Reader, reports, costs and writer of SCALE-Sim topologies, on small files with the defects found in the wild."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lpkit.costs import costs
from lpkit.graph import Network, Node
from lpkit.interop.scalesim import (
    Topology, TopologyLayer, read_topology, report_topology, topology_costs, write_topology,
)  # fmt: skip
from lpkit.networks import NETWORKS, Conv, ConvND, ConvTranspose, network
from lpkit.products import gemm_rows
from lpkit.systolic import Array, cycles, gemm_cycles

CONV_HEADING = "Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, Strides,\n"
ROW = "first,9,8,3,2,4,5,2"
FIRST = TopologyLayer("first", (9, 8), (3, 2), 4, 5, (2, 2))
HERE = Path(__file__).parent / "golden"


def save(tmp_path, text, name="net.csv"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize("text", [
    CONV_HEADING + ROW + ",\n",
    CONV_HEADING + ROW,  # no trailing comma, no line end
    "\ufeff" + CONV_HEADING + ROW + ",\n",  # byte order mark
    CONV_HEADING.replace("\n", "\r\n") + "\r\n" + ROW + ",\r\n\r\n",
    CONV_HEADING + ",,,,,,,,\n" + ROW + ", \n\t\n",  # lines of nothing
    CONV_HEADING.replace(",", "\t") + ROW.replace(",", "\t") + "\t\n",
    CONV_HEADING.replace(",", ";") + ROW.replace(",", ";"),
    CONV_HEADING + ROW + ",#dw\n",
    "# a comment\n" + CONV_HEADING + ROW + ",   # 12,13\n",
    CONV_HEADING.rstrip(",\n") + ",,,Eh,Ew\n" + ROW + ",,,4,4\n",  # spare columns
    "layer_name,ifmap height,ifmap width,filter height,filter width,channels,num filters,strides\n\t" + ROW,
    '"Layer","IFMAP_Height","IFMAP_Width","Filter_Height","Filter_Width","Channels","Num_Filter","Strides"\n'
    '"first",9,8,3,2,4,5,2',
    CONV_HEADING.replace("Strides", "Stride height, Stride width") + ROW + ",2,\n",
    CONV_HEADING.replace("Strides", "Strides, Batch Size") + ROW + ", 1,\n",
    CONV_HEADING + "\nNetwork one,\n" + ROW + ", \n",  # a title
    ROW + ",\n",  # no heading at all
    "first,9.0,8,3,2,4,5,2.\n",
    "Layer name,Num Filter,Channels,IFMAP Height,IFMAP Width,Filter Height,Filter Width,Strides\nfirst,5,4,9,8,3,2,2\n",
    CONV_HEADING.replace("IFMAP Height", "IFMAP Width") + ROW + ",\n",  # the width twice for height and width
    CONV_HEADING.replace("Filter Width", "Filter Height") + ROW + ",\n",
    CONV_HEADING.replace("Strides", "Strides, Strides") + ROW + ",2,\n",
    "Network one,\n\n" + CONV_HEADING + ROW + ",\n",  # a title before the heading
    CONV_HEADING + ROW + ", 2\n",  # the stride again, without a column for it
    CONV_HEADING.replace("Strides,", "Strides,, Target") + ROW + ", NPU\n",  # a word under a heading of nothing
    CONV_HEADING.replace("Strides", "Strides, Batch Size") + ROW + ",\n",  # a column that no line fills
    CONV_HEADING + "first   ,9      ,8  ,3 ,2 ,4   ,5   , 2 ,\n",
], ids=range(26))  # fmt: skip
def test_files_that_mean_the_same(tmp_path, text):
    found = read_topology(save(tmp_path, text))
    assert found.layers == (FIRST,) and found.name == "net" and len(found) == 1


@pytest.mark.parametrize("text, batch", [
    ("Layer,M,N,K,\nfc,4,10,64,\n", 1), ("Layer,M,N,K\nfc,4,10,64\n", 1), ("Layer Name, K, M, N,\nfc, 64, 4, 10,", 1),
    ("fc,4,10,64\n", 1), ("Layer\tM\tN\tK\nfc\t4\t10\t64", 1), ("Layer,M,N,K,Batch,\nfc,4,10,64,3,\n", 3),
    ("Layer,M,N,K,fc,\nfc,4,10,64,", 1), ("Layer,M,N,K\r\n\r\nfc,4,10,64", 1),
])  # fmt: skip
def test_products(tmp_path, text, batch):
    (layer,) = read_topology(save(tmp_path, text)).layers
    assert layer == TopologyLayer("fc", (4, 64), (1, 64), 1, 10, (1, 1), batch=batch, gemm=True)
    frame = report_topology(save(tmp_path, text), Array(8, 8, "os"))
    one = gemm_cycles(4, 64, 10, 8, 8, dataflow="os", convention="scalesim")
    assert frame["Total Cycles"].tolist() == [batch * one]
    assert topology_costs(save(tmp_path, text), "8x8").F.tolist() == [gemm_cycles(4 * batch, 64, 10, 8, 8)]


@pytest.mark.parametrize("text, sparsity", [
    (CONV_HEADING.replace("Strides", "Strides, Sparsity") + ROW + ", 2:4,\n", "2:4"),
    (CONV_HEADING + ROW + ",1:4\n", "1:4"),
    (CONV_HEADING + ROW + ",2,1:4\n", "1:4"),  # the stride again, then the sparsity
    (CONV_HEADING.replace("Strides", "Stride height, Stride width") + ROW + ",2,3,4,\n", "3:4"),  # as SCALE-Sim writes
])  # fmt: skip
def test_sparsity_is_kept_and_changes_no_count(tmp_path, text, sparsity):
    (layer,) = read_topology(save(tmp_path, text)).layers
    assert layer.sparsity == sparsity
    dense = report_topology(save(tmp_path, ROW, "dense.csv"))
    pd.testing.assert_frame_equal(report_topology(save(tmp_path, text)), dense)


def test_ragged_windows_count_or_not(tmp_path):
    path = save(tmp_path, CONV_HEADING + "c,9,8,3,2,4,5,3,\n")
    assert read_topology(path).layers[0].ofmap == (3, 3)
    assert read_topology(path, rounding="floor").layers[0].ofmap == (3, 3)
    path = save(tmp_path, CONV_HEADING + "c,10,9,3,2,4,5,3,\n")
    assert read_topology(path).layers[0].ofmap == (4, 4)
    assert read_topology(path, rounding="floor").layers[0].ofmap == (3, 3)


def test_a_heading_that_says_a_width_twice_keeps_the_order(tmp_path):
    heading = CONV_HEADING.replace("IFMAP Height", "IFMAP Width").replace("Strides", "Stride, Stride")
    (layer,) = read_topology(save(tmp_path, heading + "c,700,161,41,11,1,32,2,3,\n")).layers
    assert (layer.ifmap, layer.filter, layer.stride) == ((700, 161), (41, 11), (2, 3))


def test_a_name_with_DP_is_a_layer_a_channel(tmp_path):
    path = save(tmp_path, CONV_HEADING + "c,9,9,3,3,4,5,1,\nDP1,9,9,3,3,4,1,1,\n")
    frame = report_topology(path, "8x8")
    assert frame["Layer name"].tolist() == ["c", *(f"DP1Channel_{i}" for i in range(4))]
    assert frame["Total Cycles"].tolist()[1:] == [gemm_cycles(49, 9, 1, 8, 8, convention="scalesim")] * 4
    assert frame.LayerID.tolist() == [0, 1, 2, 3, 4]
    found = topology_costs(path, "8x8")
    assert found.layers == ("c", "DP1") and found.F[1] == 4 * gemm_cycles(49, 9, 1, 8, 8)
    assert found.weight_bytes[1] == 4 * 9 * 4 and found.input_bytes[1] == 4 * 81 * 4


@pytest.mark.parametrize("text, message", [
    (CONV_HEADING + ROW + "\nsecond,9,8,3,2,4,,2\n", "line 3: filters is missing; give a whole number"),
    (CONV_HEADING + ROW + ",\nsec", "line 3: ifmap height is missing"),
    (CONV_HEADING + "second,9,8,3,2\n", "line 2: channels is missing"),
    (CONV_HEADING + "second,9,8,3,2,4,x5,2\n", "line 2: filters is 'x5'; it must be a whole number of at least 1"),
    (CONV_HEADING + "second,9,8,3,2,4,-5,2\n", "line 2: filters is '-5'; it must be a whole number"),
    (CONV_HEADING + "second,9,8,3,2,4,5.5,2\n", "line 2: filters is '5.5'; it must be a whole number"),
    (CONV_HEADING + "second,9,8,3,2,4,0,2\n", "line 2: filters is 0; it must be a whole number from 1"),
    (CONV_HEADING + "\n\nsecond,2,8,3,2,4,5,2\n", "line 4: the filter of 'second' is 3x2, larger than its input of 2x"),
    (CONV_HEADING + ROW + ",7,\n", "line 2: there is a value '7' more than columns; remove it, or name its column"),
    (CONV_HEADING + ROW + ",4:2,\n", "line 2: sparsity is '4:2'; it must be N:M with N from 1 to M"),
    (CONV_HEADING.replace("Strides", "Strides,Sparsity") + ROW + ",1\n", "line 2: sparsity is '1'; it must be N:M"),
    ("Layer,M,N\nfc,4,10\n", "line 1: the heading 'Layer, M, N' is that of no topology; it must be 'Layer name, IFMAP"),
    ("Layer,M,N,K,K\nfc,4,10,64,64\n", "line 1: the heading names 'K' more than once; name each column once"),
    ("name, Cycles, Stalls, Folds,\nfc, 4, 10, 64,\n", "line 1: the heading 'name, Cycles, Stalls, Folds' is that of"),
    (f"name{', IFMAP Interline Order' * 20},\nfc{', 1' * 20},\n", "Interline ...' is that of no topology"),
    (CONV_HEADING + ROW + ",2,7,\n", "line 2: there is a value '7' more than columns"),
    (CONV_HEADING.replace("Strides", "Strides, Stride width") + ROW + ",2,7,\n", "line 2: there is a value '7' more"),
    (CONV_HEADING + "\ngate,1,B,1,1,H,H,1,\n", "line 3: ifmap width is 'B'; it must be a whole number of at least 1"),
    (CONV_HEADING + "fc, 1, 1, 1, ,1 2, 2, 1,\n", "line 2: filter width is missing; give a whole number"),
    ("fc,4,10\n", "line 1: K is missing"),
    (CONV_HEADING, "has a heading but no layers; it may have been cut off"),
    (",,,\n#\n", "has no layers; it may have been cut off"),
    (CONV_HEADING + "DP,9,9,3,3,100001,1,1\n", "expands to more than 100000 layers"),
    ("", "is empty"),
    (b"\xff\xfe\x00", "is not text"),
])  # fmt: skip
def test_errors_name_file_and_line(tmp_path, text, message):
    with pytest.raises(ValueError) as caught:
        read_topology(save(tmp_path, text))
    assert message in str(caught.value) and "net.csv" in str(caught.value)


def test_wrong_arguments(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no file"):
        read_topology(tmp_path / "missing.csv")
    with pytest.raises(ValueError, match="^rounding is 'up';.* Known: 'ceil', 'floor'"):
        read_topology(save(tmp_path, ROW), rounding="up")
    with pytest.raises(ValueError, match="^kind is 'mnk';.* Known: 'conv', 'gemm'"):
        read_topology(save(tmp_path, ROW), kind="mnk")
    with pytest.raises(ValueError, match="line 1: M is 'x'"):
        read_topology(save(tmp_path, "fc,x,1,1"), kind="gemm")
    with pytest.raises(ValueError, match="line 1: filter width is missing"):
        read_topology(save(tmp_path, "fc,4,5,6"), kind="conv")


def test_report_equals_the_recorded_runs(tmp_path):
    rows = pd.read_csv(HERE / "scalesim_networks.csv")
    rows = rows[(rows.stride_h == rows.stride_w) & ~rows.layer.str.contains("DP")]
    for (R, C, dataflow), group in rows.groupby(["array_rows", "array_cols", "dataflow"]):
        sizes = group[["layer", "ifmap_h", "ifmap_w", "filt_h", "filt_w", "channels", "num_filter", "stride_h"]]
        text = CONV_HEADING + "".join(",".join(map(str, row)) + ",\n" for row in sizes.itertuples(index=False))
        frame = report_topology(save(tmp_path, text), Array(R, C, dataflow))
        for ours, theirs in (
            ("Total Cycles", "total_cycles"), ("SRAM IFMAP Reads", "ifmap_sram_reads"),
            ("SRAM Filter Reads", "filter_sram_reads"), ("SRAM OFMAP Writes", "ofmap_sram_writes"),
            ("Stall Cycles", "stall_cycles"),
        ):  # fmt: skip
            np.testing.assert_array_equal(frame[ours], group[theirs])
        for ours, theirs in (("Overall Util %", "overall_util_pct"), ("Mapping Efficiency %", "mapping_eff_pct"),
                             ("Compute Util %", "compute_util_pct")):  # fmt: skip
            np.testing.assert_allclose(frame[ours], group[theirs], rtol=1e-12)


@pytest.mark.parametrize("name", NETWORKS)
def test_written_networks_cost_the_same(tmp_path, name):
    net, array = network(name), Array(32, 16)
    written = topology_costs(write_topology(net, tmp_path / "net.csv"), array)
    expected = [cycles(layer, "F", array) for layer in net.layers]
    found = dict.fromkeys((layer.name for layer in net.layers), 0)
    for line, F in zip(written.layers, written.F.tolist()):
        found[line.removesuffix("_DP").split("_group")[0]] += F
    assert list(found.values()) == expected


def odd_layers():
    return Network("odd", (4, 12, 13), (
        Node("dilated", Conv(4, 3, padding=2, dilation=2), "input"),
        Node("unequal", Conv(6, 3, stride=(2, 1), padding=1, groups=2), "dilated"),
        Node("grouped", Conv(6, 3, stride=2, padding=1, groups=3), "unequal"),
        Node("up", ConvTranspose(3, 2, stride=2), "grouped"),
        Node("ragged", Conv(3, 3, stride=2), "up"),
    ))  # fmt: skip


def model_layers():
    """What only model files hold: one-sided padding, three sides, a transposed convolution in groups."""
    one, none = (1, 1), (0, 0)
    return Network("model", (4, 12, 12), (
        Node("uneven", ConvND(4, (12, 12), 6, (3, 3), (2, 2), one, (0, 1), (1, 0)), "input"),
        Node("grouped_up", ConvND(6, (6, 6), 4, (2, 2), (2, 2), one, none, none, 2, transposed=True), "uneven"),
        Node("solid", ConvND(4, (1, 12, 12), 2, (1, 3, 3), (1, 1, 1), (1, 1, 1), (0, 0, 0), (0, 0, 0)), "grouped_up"),
    ))  # fmt: skip


@pytest.mark.parametrize("rounding", ["ceil", "floor"])
def test_what_a_line_cannot_say_is_written_as_a_product(tmp_path, rounding):
    net, array = odd_layers(), Array(8, 8, "is")
    path = write_topology(net, tmp_path / "odd.csv")
    found = topology_costs(read_topology(path, rounding=rounding), array)
    names = ["dilated", "unequal_group1", "unequal_group2", *(f"grouped_group{g}" for g in (1, 2, 3)), "up", "ragged"]
    assert list(found.layers) == names
    per_layer = np.add.reduceat(found.F, [0, 1, 3, 6, 7])
    assert per_layer.tolist() == [cycles(layer, "F", array) for layer in net.layers]


def written_products(net, path, form):
    """{layer: its products (M, K, N), sorted} as read back from a topology, the lines of its groups put together."""
    found = {}
    for line in read_topology(write_topology(net, path, form=form)).layers:
        products = [product[:3] for product in gemm_rows(line.shape, "F") for _ in range(product[3])]
        found.setdefault(line.name.removesuffix("_DP").split("_group")[0], []).extend(products)
    return {name: sorted(products) for name, products in found.items()}


@pytest.mark.parametrize("form", ["conv", "gemm"])
@pytest.mark.parametrize("name", ["odd", "model", "mobilenet_v1", "resnet18", "unet", "vit_b16"])
def test_both_forms_read_back_have_the_same_products(tmp_path, name, form):
    net = odd_layers() if name == "odd" else model_layers() if name == "model" else network(name)
    assert written_products(net, tmp_path / "net.csv", form) == {
        layer.name: sorted(product[:3] for product in gemm_rows(layer, "F") for _ in range(product[3]))
        for layer in net.layers}  # fmt: skip


def test_a_form_that_there_is_not(tmp_path):
    with pytest.raises(ValueError, match="form is 'csv'; Known: 'conv', 'gemm'"):
        write_topology(odd_layers(), tmp_path / "net.csv", form="csv")


@pytest.mark.parametrize("name", ["convDP", "a,b", "a;b", "a#b"])
def test_names_that_a_topology_cannot_hold(tmp_path, name):
    net = Network("net", (3, 4, 4), (Node(name, Conv(2, 1), "input"),))
    with pytest.raises(ValueError, match="cannot be written: SCALE-Sim splits layers with DP in their names.* rename"):
        write_topology(net, tmp_path / "net.csv")
    assert not (tmp_path / "net.csv").exists()


def test_costs_of_an_unpadded_network_are_those_of_its_topology(tmp_path):
    net = Network("net", (3, 11, 11), (Node("a", Conv(4, 3, stride=2), "input"), Node("b", Conv(5, 2), "a")))
    path = write_topology(net, tmp_path / "net.csv")
    for delta in ("col2im", "zero_insert", "phases"):
        options = {"batch": 6, "delta": delta, "first_layer_delta": True, "bytes_per_element": 2}
        ours, theirs = costs(net, Array(16, 8), **options), topology_costs(path, Array(16, 8), **options)
        for name in ("F", "G", "delta", "weight_bytes", "input_bytes", "output_bytes"):
            assert getattr(ours, name).tolist() == getattr(theirs, name).tolist()
    assert topology_costs(path).delta[0] == 0 and topology_costs(path).first_consumer[0] == 2


def test_a_batch_that_leaves_64_bits_is_refused():
    layer = TopologyLayer("c", (224, 224), (3, 3), 3, 96, (1, 1), batch=2**40)
    with pytest.raises(ValueError, match="^the result does not fit in 64 bits; use smaller sizes"):
        report_topology(Topology("net", (layer,)), "1x1")
    with pytest.raises(ValueError, match="does not fit in 64 bits"):
        topology_costs(Topology("net", (layer,)), "1x1")
    with pytest.raises(ValueError, match="^batch is 1180591620717411303424; it must be a whole number"):
        report_topology(Topology("net", (TopologyLayer("c", (3, 3), (3, 3), 3, 9, (1, 1), batch=2**70),)))


@pytest.mark.parametrize("batch", [1, 3, 2**30])
def test_a_batch_multiplies_cycles_and_traffic_exactly(batch):
    one, many = (report_topology(Topology("net", (TopologyLayer("c", (9, 8), (3, 2), 4, 5, (2, 2), batch=b),)), "4x4")
                 for b in (1, batch))  # fmt: skip
    for column in ("Total Cycles", "SRAM IFMAP Reads", "SRAM Filter Reads", "SRAM OFMAP Writes"):
        assert many[column].tolist() == [value * batch for value in one[column].tolist()]


def test_inputs_that_leave_64_bits_are_refused(tmp_path):
    path = save(tmp_path, CONV_HEADING + "big,1099511627776,1099511627776,3,3,1,1,1,\n")
    for call in (lambda: read_topology(path), lambda: report_topology(path), lambda: topology_costs(path, batch=2)):
        with pytest.raises(ValueError, match="net.csv', line 2: F of the layer does not fit in 64 bits: .* smaller"):
            call()
    big = Topology("net", (TopologyLayer("big", (2**40, 2**40), (3, 3), 1, 1, (1, 1)),))
    for call in (lambda: report_topology(big), lambda: topology_costs(big), lambda: topology_costs(big, batch=2)):
        with pytest.raises(ValueError, match="^F of the layer does not fit in 64 bits"):
            call()
    strided = Topology("net", (TopologyLayer("big", (2**40, 2**40), (1, 1), 1, 1, (2**20, 2**20)),))  # the input only
    with pytest.raises(ValueError, match="^input_bytes is 4835703278458516698824704 for one layer, more than 64 bits"):
        topology_costs(strided)


@pytest.mark.parametrize("text", [
    CONV_HEADING + "c," + "9" * 5000 + ",8,3,2,4,5,2\n",
    CONV_HEADING + "c,9,8,3,2,4," + "x" * 5000 + ",2\n",
    CONV_HEADING + "c" * 5000 + ",2,2,3,2,4,5,2\n",
    CONV_HEADING + ROW + "," + "y" * 5000 + "\n",
    CONV_HEADING.rstrip("\n") + "Sparsity,\n" + ROW + "," + "9" * 5000 + ":" + "9" * 5000 + "\n",
    "Layer," + "M" * 5000 + ",N,K\nfc,4,10,64\n",
])  # fmt: skip
def test_long_cells_are_cut_in_messages(tmp_path, text):
    with pytest.raises(ValueError, match="net.csv', line [12]: ") as caught:
        read_topology(save(tmp_path, text))
    assert len(str(caught.value)) < 500
