"""ONNX models as networks: models nobody here wrote, hand-made ones, independent counts, and every bad input."""

import re
import subprocess
import sys
import time
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

onnx = pytest.importorskip("onnx", reason="the ONNX reader needs the package onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from lpkit.costs import costs  # noqa: E402
from lpkit.interop import onnx_model, onnx_shapes, onnx_shipped  # noqa: E402
from lpkit.interop.onnx import missing_work, read_onnx  # noqa: E402
from lpkit.interop.onnx_shipped import model_path  # noqa: E402
from lpkit.networks import (  # noqa: E402
    Add, BatchNorm, Carried, Concat, Conv, ConvND, ConvTranspose, Dense, MatMul, Network, network,
)  # fmt: skip
from lpkit.partition import plan  # noqa: E402
from lpkit.sources import kind_of, layer_costs  # noqa: E402
from lpkit.systolic import Array  # noqa: E402

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def value(name, sizes, kind=FLOAT):
    return helper.make_tensor_value_info(name, kind, sizes)


def claimed(name, sizes, kind=FLOAT):
    """A weight of which only the sizes exist, as where a file beside the model is missing."""
    return TensorProto(name=name, data_type=kind, dims=sizes)


def numbers(name, values):
    return numpy_helper.from_array(np.array(values, np.int64), name)


def model(nodes, inputs, outputs=("y",), weights=(), *, opset=17, functions=(), extra_opsets=()):
    outs = [out if not isinstance(out, str) else value(out, None) for out in outputs]
    graph = helper.make_graph(nodes, "hand", inputs, outs, list(weights))
    opsets = [helper.make_opsetid("", opset), *extra_opsets]
    return helper.make_model(graph, opset_imports=opsets, functions=list(functions), ir_version=8)


def one(kind, sizes, weights, *, dims=(1, 3, 8, 8), **attributes):
    """A model of one node that reads x of `dims` and weights of `sizes`."""
    names = [f"w{i}" for i in range(len(sizes))]
    node = helper.make_node(kind, ["x", *names], ["y"], **attributes)
    return model([node], [value("x", dims)], ["y"], [claimed(n, s) for n, s in zip(names, sizes)][: weights])


# ---- models that nobody here wrote

# parameters as published (Caffe's scale layers repeat what batch normalisation learns, so DenseNet and Inception v2
# have 2 more numbers a normalised channel), layers, and 10**9 multiply-accumulates of the convolutions and products
SHIPPED = {
    "bvlc_alexnet": (60_965_224, 8, 0.65), "densenet121": (7_978_856 + 83_648, 121, 2.83),
    "inception_v1": (6_998_552, 58, 1.43), "inception_v2": (11_214_888, 70, 2.02), "resnet50": (25_557_032, 54, 4.09),
    "shufflenet": (1_393_320, 50, 0.12), "squeezenet": (1_235_496, 26, 0.35), "vgg19": (143_667_240, 19, 19.63),
    "zfnet512": (87_250_536, 8, 1.48),
}  # fmt: skip


def shipped(name):
    return read_onnx(LIGHT / f"light_{name}.onnx", strict=True)


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_models(name):
    parameters, layers, giga_macs = SHIPPED[name]
    found = shipped(name)
    assert found.name == f"light_{name}" and found.input_shape == (3, 224, 224)
    assert (found.parameters, len(found.layers)) == (parameters, layers)
    assert round(sum(layer.macs() for layer in found.layers) / 1e9, 2) == giga_macs
    assert missing_work(found) == ()


# Parameters and 10**9 multiply-accumulates in the tables of weights in torchvision's documentation; its SqueezeNet of
# that size is version 1.1.
TORCHVISION = {"vgg19": (143_667_240, 19.63), "resnet50": (25_557_032, 4.09), "squeezenet": (1_235_496, 0.35),
               "densenet121": (7_978_856, 2.83)}  # fmt: skip


@pytest.mark.parametrize("name", TORCHVISION)
def test_counts_that_torchvision_publishes(name):
    parameters, giga_macs = TORCHVISION[name]
    found = shipped(name)
    # Caffe normalises first and scales in a layer of its own; what is read has both, two numbers a channel twice.
    kinds = [getattr(node.op, "kind", "") for node in found.nodes]
    scales = kinds.count("Mul") > 0
    repeated = 2 * sum(found.shapes[node.name][0] for node in found.nodes if isinstance(node.op, BatchNorm)) * scales
    assert scales == (name == "densenet121") and found.parameters - repeated == parameters
    assert round(sum(layer.macs() for layer in found.layers) / 1e9, 2) == giga_macs


def test_alexnet_is_the_one_of_the_paper_with_its_groups():
    """Krizhevsky et al. (2012), section 3.5; torchvision's 61,100,840 are of another AlexNet, without groups."""
    convs = [(3, 96, 11), (48, 256, 5), (256, 384, 3), (192, 384, 3), (192, 256, 3)]
    dense = [(256 * 6 * 6, 4096), (4096, 4096), (4096, 1000)]
    found = shipped("bvlc_alexnet")
    assert found.parameters == sum(k * k * c * n + n for c, n, k in convs) + sum(k * n + n for k, n in dense)
    assert [layer.op.groups for layer in found.layers[:5]] == [1, 2, 1, 2, 2]
    assert network("alexnet").parameters == 61_100_840


def test_inception_v1_is_googlenet_without_its_side_heads():
    """Szegedy et al. (2015), Table 1: channels in, 1x1, 3x3 after reduction, 5x5 after reduction, pool projection.

    torchvision's 6,624,904 and 1.50 GMACs are of a variant with 3x3 in place of 5x5 filters.
    """
    rows = [(192, 64, 96, 128, 16, 32, 32), (256, 128, 128, 192, 32, 96, 64), (480, 192, 96, 208, 16, 48, 64),
            (512, 160, 112, 224, 24, 64, 64), (512, 128, 128, 256, 24, 64, 64), (512, 112, 144, 288, 32, 64, 64),
            (528, 256, 160, 320, 32, 128, 128), (832, 256, 160, 320, 32, 128, 128),
            (832, 384, 192, 384, 48, 128, 128)]  # fmt: skip
    convs = [(3, 64, 7), (64, 64, 1), (64, 192, 3)]
    for c, one, to_three, three, to_five, five, pool in rows:
        convs += [(c, one, 1), (c, to_three, 1), (to_three, three, 3), (c, to_five, 1), (to_five, five, 5),
                  (c, pool, 1)]
    assert shipped("inception_v1").parameters == sum(k * k * c * n + n for c, n, k in convs) + 1024 * 1000 + 1000


def test_layers_of_caffe2_bear_the_names_of_their_weights():
    names = [layer.name for layer in shipped("squeezenet").layers]
    assert names[:3] == ["conv1", "fire2/squeeze1x1", "fire2/expand1x1"] and names[-1] == "conv10"


def test_importing_lpkit_imports_no_reader():
    code = ("import sys, lpkit, lpkit.__main__, lpkit.sources; assert not {'onnx', 'torch'} & set(sys.modules); "
            "print(lpkit.read_onnx.__name__, lpkit.read_torch.__name__, {'onnx', 'torch'} & set(sys.modules))")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split(maxsplit=2) == ["read_onnx", "read_torch", "set()\n"]
    import lpkit

    assert lpkit.read_onnx is read_onnx


@pytest.mark.parametrize("name", SHIPPED)
def test_the_models_inside_onnx_are_found_by_name(name):
    assert model_path(name) == LIGHT / f"light_{name}.onnx" and name in onnx_shipped.SHIPPED
    with pytest.raises(ValueError, match="model is 'vgg91'; did you mean 'vgg19'"):
        model_path("vgg91")


def products(net):
    """What costs depend on, layer by layer."""
    return [(layer.op, layer.in_shape, layer.out_shape, layer.weights, layer.first_consumer, layer.shared_input,
             layer.on_longest_path) for layer in net.layers]  # fmt: skip


def test_vgg19_is_the_built_in():
    found, known = shipped("vgg19"), network("vgg19")
    assert products(found) == products(known) and found.cut_elements == known.cut_elements


def test_resnet50_is_the_built_in_but_for_the_stride_and_the_place_of_projections():
    found, known = shipped("resnet50"), network("resnet50")
    sizes = [sorted((layer.weights, layer.output_elements, layer.macs()) for layer in net.layers)
             for net in (found, known)]  # fmt: skip
    assert sizes[0] == sizes[1]
    assert sum(isinstance(node.op, Add) for node in found.nodes) == 16
    assert sum(isinstance(node.op, BatchNorm) for node in found.nodes) == 53
    assert max(found.cut_elements) == max(known.cut_elements)


@pytest.mark.parametrize("name", ["squeezenet", "inception_v1", "densenet121"])
def test_joins_of_shipped_models_stay(name):
    joins = {"squeezenet": 8, "inception_v1": 9, "densenet121": 58}
    found = shipped(name)
    assert sum(isinstance(node.op, Concat) for node in found.nodes) == joins[name]
    assert any(layer.shared_input for layer in found.layers)


@pytest.mark.parametrize("name", ["shufflenet", "resnet50"])
def test_shipped_models_are_costed_and_planned(name):
    found = costs(shipped(name), Array(32, 32), batch=4)
    assert len(found) == SHIPPED[name][1] and found.total > 0
    assert plan(found, 4).period < found.total / 3


def test_a_file_is_a_network_on_the_command_line():
    path = LIGHT / "light_vgg19.onnx"
    found, known = layer_costs(path, array="64x64", batch=8), costs(network("vgg19"), "64x64", batch=8)
    assert kind_of(path) == "onnx" and found.total == known.total
    assert found.cut_bytes.tolist() == known.cut_bytes.tolist()


def naive_cuts(net):
    """Every tensor made at or before a cut and read after it, by its maker; forms of one tensor are one tensor."""
    views = ("Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten")
    by_name = {node.name: node for node in net.nodes}
    index = {layer.name: layer.index for layer in net.layers}

    def maker(name):
        while name in by_name and getattr(by_name[name].op, "kind", type(by_name[name].op).__name__) in views:
            name = by_name[name].inputs[0]
        return name

    place = {"input": 0}
    for node in net.nodes:
        place[node.name] = index.get(node.name) or max(place[source] for source in node.inputs)
    made, last = {}, {}
    for node in net.nodes:
        if node.op == Carried("Input", net.shapes[node.name]):
            continue
        for source in map(maker, node.inputs):
            made[source], last[source] = place[source], max(last.get(source, 0), place[node.name])
    sizes = {name: int(np.prod(net.shapes[name])) for name in made}
    return tuple(sum(sizes[name] for name in made if made[name] <= cut < last[name])
                 for cut in range(1, len(net.layers)))  # fmt: skip


@pytest.mark.parametrize("name", ["shufflenet", "inception_v1", "resnet50"])
def test_cuts_of_shipped_models_against_a_naive_count(name):
    assert shipped(name).cut_elements == naive_cuts(shipped(name))


# ---- convolutions


CONVOLUTIONS = {
    "plain": (one("Conv", [(4, 3, 3, 3), (4,)], 2, pads=[1, 1, 1, 1]), Conv(4, 3, padding=1)),
    "groups": (one("Conv", [(6, 1, 3, 2)], 1, group=3, strides=[2, 1]), Conv(6, (3, 2), (2, 1), groups=3, bias=False)),
    "dilated": (one("Conv", [(4, 3, 3, 3)], 1, dilations=[2, 3]), Conv(4, 3, dilation=(2, 3), bias=False)),
    "one side": (
        one("Conv", [(4, 3, 5)], 1, dims=(1, 3, 20), pads=[2, 2]), Conv(4, (1, 5), padding=(0, 2), bias=False),
    ),
    "three sides": (
        one("Conv", [(4, 3, 3, 3, 3)], 1, dims=(1, 3, 8, 8, 8), strides=[1, 2, 2], pads=[1] * 6),
        ConvND(3, (8, 8, 8), 4, (3, 3, 3), (1, 2, 2), (1, 1, 1), (1, 1, 1), (1, 1, 1), bias=False),
    ),
    "uneven": (
        one("Conv", [(4, 3, 3, 3)], 1, pads=[0, 1, 1, 0]),
        ConvND(3, (8, 8), 4, (3, 3), (1, 1), (1, 1), (0, 1), (1, 0), bias=False),
    ),
    "same upper": (
        one("Conv", [(4, 3, 3, 3)], 1, strides=[2, 2], auto_pad="SAME_UPPER"),
        ConvND(3, (8, 8), 4, (3, 3), (2, 2), (1, 1), (0, 0), (1, 1), bias=False),
    ),
    "same lower": (
        one("Conv", [(4, 3, 3, 3)], 1, strides=[2, 2], auto_pad="SAME_LOWER"),
        ConvND(3, (8, 8), 4, (3, 3), (2, 2), (1, 1), (1, 1), (0, 0), bias=False),
    ),
    "same even": (one("Conv", [(4, 3, 3, 3)], 1, auto_pad="SAME_UPPER"), Conv(4, 3, padding=1, bias=False)),
    "valid": (one("Conv", [(4, 3, 3, 3)], 1, auto_pad="VALID"), Conv(4, 3, bias=False)),
    "transposed": (
        one("ConvTranspose", [(3, 4, 2, 2), (4,)], 2, strides=[2, 2]), ConvTranspose(4, 2, stride=2),
    ),
    "transposed, padded at the output": (
        one("ConvTranspose", [(3, 4, 3, 3)], 1, strides=[2, 2], pads=[1] * 4, output_padding=[1, 1]),
        ConvND(3, (8, 8), 4, (3, 3), (2, 2), (1, 1), (1, 1), (0, 0), bias=False, transposed=True),
    ),
    "transposed to a size": (
        one("ConvTranspose", [(3, 4, 3, 3)], 1, strides=[2, 2], output_shape=[16, 16]),
        ConvND(3, (8, 8), 4, (3, 3), (2, 2), (1, 1), (1, 1), (0, 0), bias=False, transposed=True),
    ),
    "transposed in groups": (
        one("ConvTranspose", [(4, 3, 3), (6,)], 2, dims=(1, 4, 9), group=2),
        ConvND(4, (1, 9), 6, (1, 3), (1, 1), (1, 1), (0, 0), (0, 0), 2, transposed=True),
    ),
    "frames in the batch": (
        model([helper.make_node("Reshape", ["x", "s"], ["f"]), helper.make_node("Conv", ["f", "w"], ["y"])],
              [value("x", (1, 5, 3, 8, 8))], ["y"], [numbers("s", [5, 3, 8, 8]), claimed("w", (4, 3, 3, 3))]),
        ConvND(3, (5, 8, 8), 4, (1, 3, 3), (1, 1, 1), (1, 1, 1), (0, 0, 0), (0, 0, 0), bias=False),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_convolutions(case):
    given, op = CONVOLUTIONS[case]
    (layer,) = read_onnx(given).layers
    assert layer.op == op
    inferred = onnx.shape_inference.infer_shapes(given, strict_mode=True).graph.output[0]
    sizes = [dim.dim_value for dim in inferred.type.tensor_type.shape.dim]
    assert layer.output_elements == np.prod(sizes)
    assert layer.macs() == layer.weights * np.prod(layer.in_shape[1:] if "transposed" in case else sizes[2:]) * (
        sizes[0] if "frames" in case else 1)  # fmt: skip


# ---- matrix products


def matmul(left, right, fixed="right"):
    weights = {"left": ["a"], "right": ["b"], None: []}[fixed]
    sizes = {"a": left, "b": right}
    return model([helper.make_node("MatMul", ["a", "b"], ["y"])],
                 [value(n, s) for n, s in sizes.items() if n not in weights], ["y"],
                 [claimed(n, sizes[n]) for n in weights])  # fmt: skip


MATMULS = {
    "dense": (matmul((1, 20), (20, 5)), Dense(5, bias=False)),
    "positions": (matmul((1, 7, 20), (20, 5)), MatMul(7, 20, 5, shape=(7, 1, 5))),
    "heads": (matmul((1, 4, 7, 20), (4, 20, 5)), MatMul(7, 20, 5, count=4, shape=(4, 7, 5))),
    "shared by heads": (matmul((1, 4, 7, 20), (1, 20, 5)), MatMul(28, 20, 5, shape=(4, 7, 5))),
    "spread over heads": (matmul((1, 1, 7, 20), (4, 20, 5)), MatMul(7, 20, 5, count=4, shape=(4, 7, 5))),
    "weights on the left": (matmul((5, 20), (1, 20, 7), "left"), MatMul(7, 20, 5, shape=(5, 1, 7))),
    "vector": (matmul((1, 7, 20), (20,)), MatMul(7, 20, 1, shape=(7, 1, 1))),
    "two tensors": (
        matmul((1, 4, 7, 20), (1, 4, 20, 6), None), MatMul(7, 20, 6, count=4, shape=(4, 7, 6), weights=False),
    ),
    "gemm": (one("Gemm", [(5, 20), (5,)], 2, dims=(1, 20), transB=1), Dense(5)),
    "gemm of columns": (one("Gemm", [(20, 5)], 1, dims=(20, 1), transA=1), Dense(5, bias=False)),
}  # fmt: skip


@pytest.mark.parametrize("case", MATMULS)
def test_matrix_products(case):
    given, op = MATMULS[case]
    (layer,) = read_onnx(given, batch_dimension=None if "columns" in case or "left" in case else 0).layers
    assert layer.op == op


EINSUMS = {
    "projection": ("btc,cd->btd", [(1, 7, 20), (20, 5)], "right", MatMul(7, 20, 5, shape=(7, 1, 5))),
    "scores": ("bqhd,bkhd->bhqk", [(1, 7, 4, 20), (1, 6, 4, 20)], None,
               MatMul(7, 20, 6, count=4, shape=(4, 7, 6), weights=False)),
    "to heads": ("btc,hcd->bhtd", [(1, 7, 20), (4, 20, 5)], "right", MatMul(7, 20, 20, shape=(4, 7, 5))),
    "own heads": ("bhtc,hcd->bhtd", [(1, 4, 7, 20), (4, 20, 5)], "right", MatMul(7, 20, 5, count=4, shape=(4, 7, 5))),
    "dots": ("...c,cd->...d", [(1, 7, 20), (20, 5)], "right", MatMul(7, 20, 5, shape=(7, 1, 5))),
    "implicit": ("btc,cd", [(1, 7, 20), (20, 5)], "right", MatMul(7, 20, 5, shape=(5, 1, 7))),  # b, d, t: by letter
    "on the left": ("dc,bct->bdt", [(5, 20), (1, 20, 7)], "left", MatMul(7, 20, 5, shape=(5, 1, 7))),
}  # fmt: skip


def einsum(equation, sizes, fixed):
    names = ["a", "b", "c"][: len(sizes)]
    weights = {"left": "a", "right": "b", None: ""}[fixed]
    return model([helper.make_node("Einsum", names, ["y"], equation=equation)],
                 [value(n, s) for n, s in zip(names, sizes) if n != weights], ["y"],
                 [claimed(n, s) for n, s in zip(names, sizes) if n == weights])  # fmt: skip


@pytest.mark.parametrize("case", EINSUMS)
def test_einsums_that_are_contractions(case):
    equation, sizes, fixed, op = EINSUMS[case]
    (layer,) = read_onnx(einsum(equation, sizes, fixed)).layers
    assert layer.op == op
    labels = {a: n for term, dims in zip(equation.split("->")[0].split(","), sizes) for a, n in zip(term, dims)}
    if "." not in equation:
        assert layer.macs() == np.prod(list(labels.values()))


@pytest.mark.parametrize("equation, sizes", [("bi,bj->bij", [(1, 3), (1, 4)]), ("bij->bji", [(1, 3, 4)]),
                                             ("bi,bi->bi", [(1, 3), (1, 3)])])  # fmt: skip
def test_einsums_that_sum_over_nothing_are_carried(equation, sizes):
    found = read_onnx(einsum(equation, sizes, None), strict=True)
    assert found.layers == () and found.nodes[-1].op.kind == "Einsum"


@pytest.mark.parametrize("batch", [1, 2, 5])
def test_the_network_is_that_of_one_sample_whatever_the_batch(batch):
    nodes = [helper.make_node("Conv", ["x", "c"], ["f"], pads=[1] * 4), helper.make_node("Relu", ["f"], ["r"]),
             helper.make_node("Reshape", ["r", "s"], ["t"]), helper.make_node("MatMul", ["t", "q"], ["queries"]),
             helper.make_node("Transpose", ["t"], ["k"], perm=[0, 2, 1]),
             helper.make_node("MatMul", ["queries", "k"], ["scores"]), helper.make_node("Softmax", ["scores"], ["p"]),
             helper.make_node("MatMul", ["p", "t"], ["mix"]), helper.make_node("Flatten", ["mix"], ["flat"]),
             helper.make_node("Gemm", ["flat", "g", "bias"], ["y"])]  # fmt: skip
    weights = [claimed("c", (4, 3, 3, 3)), numbers("s", [0, 4, -1]), claimed("q", (64, 64)), claimed("g", (256, 10)),
               claimed("bias", (10,))]  # fmt: skip
    dynamic = model(nodes, [value("x", ["batch", 3, 8, 8])], ["y"], weights)
    fixed = model(nodes, [value("x", [batch, 3, 8, 8])], ["y"], weights)
    expected = read_onnx(dynamic)
    assert read_onnx(dynamic, batch_size=batch) == expected == read_onnx(fixed)
    assert [type(layer.op).__name__ for layer in expected.layers] == ["Conv", "MatMul", "MatMul", "MatMul", "Dense"]
    assert [layer.macs() for layer in expected.layers] == [6912, 4 * 64 * 64, 4 * 64 * 4, 4 * 4 * 64, 2560]


def test_quantised_products_are_layers():
    names = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"]
    scales = [helper.make_tensor(n, FLOAT, [], [1.0]) for n in ("xs", "ws", "ys")]
    zeros = [helper.make_tensor(n, TensorProto.UINT8, [], [0]) for n in ("xz", "wz", "yz")]
    given = model([helper.make_node("QLinearConv", names, ["y"])], [value("x", (1, 3, 8, 8), TensorProto.UINT8)],
                  [value("y", None, TensorProto.UINT8)],
                  [*scales, *zeros, claimed("w", (4, 3, 3, 3), TensorProto.UINT8)])
    assert read_onnx(given, strict=True).layers[0].op == Conv(4, 3, bias=False)


def test_the_attention_operator_is_two_products():
    sizes = {"q": (1, 4, 7, 16), "k": (1, 4, 9, 16), "v": (1, 4, 9, 8)}
    given = model([helper.make_node("Attention", list(sizes), ["y"])], [value(n, s) for n, s in sizes.items()],
                  opset=23)  # fmt: skip
    scores, mix = read_onnx(given, strict=True).layers
    assert scores.op == MatMul(7, 16, 9, count=4, shape=(4, 7, 9), weights=False)
    assert mix.op == MatMul(7, 9, 8, count=4, shape=(4, 7, 8), weights=False)


# ---- what is carried along


def test_weights_may_be_computed_from_weights_and_sizes():
    nodes = [helper.make_node("Shape", ["x"], ["size"]), helper.make_node("Gather", ["size", "zero"], ["n"]),
             helper.make_node("Concat", ["n", "rest"], ["s"], axis=0), helper.make_node("Reshape", ["x", "s"], ["f"]),
             helper.make_node("Transpose", ["w"], ["wt"]), helper.make_node("MatMul", ["f", "wt"], ["y"])]  # fmt: skip
    weights = [numbers("zero", [0]), numbers("rest", [-1]), claimed("fc.weight", (10, 192))]
    nodes[4].input[0] = "fc.weight"
    found = read_onnx(model(nodes, [value("x", ["N", 3, 8, 8])], ["y"], weights))
    assert [(node.name, type(node.op).__name__) for node in found.nodes] == [("f", "Carried"), ("fc", "Dense")]


def test_parameters_of_other_operators_count_once():
    nodes = [helper.make_node("LayerNormalization", ["x", "scale", "shift"], ["n"]),
             helper.make_node("Mul", ["n", "scale"], ["m"]), helper.make_node("Mul", ["m", "half"], ["y"])]  # fmt: skip
    weights = [claimed("scale", (20,)), claimed("shift", (20,)), helper.make_tensor("half", FLOAT, [], [0.5])]
    assert read_onnx(model(nodes, [value("x", (1, 7, 20))], ["y"], weights)).parameters == 40


def test_further_inputs_hang_on_the_first():
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Add", ["h", "mask"], ["y"])]
    given = model(nodes, [value("x", (1, 7, 20)), value("mask", (1, 7, 20))], ["y"], [claimed("w", (20, 20))])
    found = read_onnx(given)
    assert found.nodes[0].op == Carried("Input", (7, 1, 20)) and found.nodes[0].inputs == ("input",)
    assert not found.layers[0].shared_input


def test_control_nodes_are_carried_with_what_they_read_from_outside():
    def branch(name):
        return helper.make_graph([helper.make_node("Add", ["h", "x"], [name])], name, [], [value(name, (1, 20))])

    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("ReduceMax", ["x"], ["m"], keepdims=0),
             helper.make_node("Cast", ["m"], ["c"], to=TensorProto.BOOL),
             helper.make_node("If", ["c"], ["y"], then_branch=branch("t"), else_branch=branch("e"))]  # fmt: skip
    found = read_onnx(model(nodes, [value("x", (1, 20))], ["y"], [claimed("w", (20, 20))]), strict=True)
    assert found.nodes[-1].inputs == ("m", "h", "input") and found.nodes[-1].op.kind == "If"


def test_functions_of_the_model_are_written_out():
    function = helper.make_function("own", "Block", ["a", "w"], ["b"], [
        helper.make_node("MatMul", ["a", "w"], ["m"]), helper.make_node("Relu", ["m"], ["b"])],
        [helper.make_opsetid("", 17)])  # fmt: skip
    nodes = [helper.make_node("Block", ["x", "w"], ["h"], domain="own"),
             helper.make_node("Block", ["h", "w"], ["y"], domain="own")]  # fmt: skip
    given = model(nodes, [value("x", (1, 20))], ["y"], [claimed("w", (20, 20))], functions=[function],
                  extra_opsets=[helper.make_opsetid("own", 1)])  # fmt: skip
    assert [type(node.op).__name__ for node in read_onnx(given).nodes] == ["Dense", "Activation"] * 2


def test_nodes_in_any_order_are_sorted_and_a_sorted_model_keeps_its_order():
    nodes = [helper.make_node("Relu", ["h"], ["y"]), helper.make_node("MatMul", ["x", "w"], ["h"])]
    given = model(nodes, [value("x", (1, 20))], ["y"], [claimed("w", (20, 20))])
    assert [node.name for node in read_onnx(given).nodes] == ["h", "y"]
    assert [node.op_type for node in given.graph.node] == ["Relu", "MatMul"]  # the model given is not changed


def test_an_lstm_is_missing_with_its_share():
    nodes = [helper.make_node("LSTM", ["x", "w", "r"], ["o"], hidden_size=16),
             helper.make_node("Reshape", ["o", "s"], ["f"]), helper.make_node("MatMul", ["f", "v"], ["y"])]  # fmt: skip
    weights = [claimed("w", (1, 64, 8)), claimed("r", (1, 64, 16)), numbers("s", [1, 80]), claimed("v", (80, 10))]
    given = model(nodes, [value("x", (5, 1, 8))], ["y"], weights)
    with pytest.warns(UserWarning, match=r"model 'hand' has operators whose work is not counted: 'o' \(LSTM, 90.6 %"):
        found = read_onnx(given, batch_dimension=1)
    lstm = 5 * (64 * 8 + 64 * 16)
    assert missing_work(found) == (("o", "LSTM", lstm / (lstm + 800)),)
    with pytest.raises(ValueError, match="work is not counted: 'o' .LSTM, 90.6 % of the MACs.; leave strict out"):
        read_onnx(given, batch_dimension=1, strict=True)


def test_an_operator_of_another_domain_is_missing_with_unknown_work():
    node = helper.make_node("FusedConv", ["x", "w"], ["h"], domain="com.vendor")
    given = model([node, helper.make_node("Relu", ["h"], ["y"])], [value("x", (1, 3, 8, 8))], ["y"],
                  [claimed("w", (4, 3, 3, 3))], extra_opsets=[helper.make_opsetid("com.vendor", 1)])  # fmt: skip
    with pytest.raises(ValueError, match="the size of tensor 'h' cannot be inferred"):
        read_onnx(given)
    given.graph.value_info.append(value("h", (1, 4, 6, 6)))
    with pytest.raises(ValueError, match="'h' .com.vendor.FusedConv, unknown work.; leave strict out"):
        read_onnx(given, strict=True)


# ---- bad input


RELU = helper.make_node("Relu", ["x"], ["y"])
RELU_MODEL = model([RELU], [value("x", (1, 3))])


def changed(given, change):
    copy = type(given)()
    copy.CopyFrom(given)
    change(copy)
    return copy


def function_bomb(calls=40):
    """Each function calls the one before twice: 2**40 nodes from a few hundred bytes."""
    functions = [helper.make_function("own", "f0", ["a"], ["b"], [helper.make_node("Relu", ["a"], ["b"])],
                                      [helper.make_opsetid("", 17)])]  # fmt: skip
    for i in range(1, calls):
        body = [helper.make_node(f"f{i - 1}", ["a"], ["m"], domain="own"),
                helper.make_node(f"f{i - 1}", ["m"], ["b"], domain="own")]  # fmt: skip
        functions.append(helper.make_function("own", f"f{i}", ["a"], ["b"], body, [helper.make_opsetid("own", 1)]))
    return model([helper.make_node(f"f{calls - 1}", ["x"], ["y"], domain="own")], [value("x", (1, 3))],
                 functions=functions, extra_opsets=[helper.make_opsetid("own", 1)])  # fmt: skip


def recursive():
    body = [helper.make_node("f", ["a"], ["b"], domain="own")]
    function = helper.make_function("own", "f", ["a"], ["b"], body, [helper.make_opsetid("own", 1)])
    return model([helper.make_node("f", ["x"], ["y"], domain="own")], [value("x", (1, 3))], functions=[function],
                 extra_opsets=[helper.make_opsetid("own", 1)])  # fmt: skip


def external(location):
    weight = claimed("w", (20, 20))
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value=location)
    return model([helper.make_node("MatMul", ["x", "w"], ["y"])], [value("x", (1, 20))], ["y"], [weight])


BAD = {
    "opset": (model([RELU], [value("x", (1, 3))], opset=999), {},
        "version 999 of the ONNX operators, and the installed"),
    "no opset": (changed(model([RELU], [value("x", (1, 3))]), lambda m: m.ClearField("opset_import")), {},
                 "does not say which version of the ONNX operators"),
    "form": (changed(model([RELU], [value("x", (1, 3))]), lambda m: setattr(m, "ir_version", 99)), {},
             "the model is of form (IR version) 99"),
    "empty": (onnx.ModelProto(), {}, "the model has no graph or no node in it"),
    "cycle": (
        model([helper.make_node("Add", ["x", "b"], ["a"]), helper.make_node("Relu", ["a"], ["b"])],
              [value("x", (1, 3))], ["b"]), {}, "the graph has a cycle: node 'a' (Add) waits for what is made of its",
    ),
    "from nowhere": (model([helper.make_node("Add", ["x", "z"], ["y"])], [value("x", (1, 3))]), {},
                     "node 'y' (Add) reads 'z', which nothing in the model makes"),
    "twice": (model([RELU, RELU], [value("x", (1, 3))]), {}, "tensor 'y' is made twice, the second time by node 'y'"),
    "no input": (model([helper.make_node("Relu", ["w"], ["y"])], [], ["y"], [claimed("w", (3,))]), {},
                 "the model has no input that is not a weight"),
    "nothing moves": (model([helper.make_node("Relu", ["w"], ["y"])], [value("x", (1, 3))], ["y"],
                            [claimed("w", (3,))]), {}, "nothing in model 'hand' depends on its input"),
    "open": (model([RELU], [value("x", ["N", 3, "height", 8])]), {},
             "input 'x' leaves dimension 2 ('height') open; give it a size, as in dimensions={'height': 224}"),
    "open, no name": (model([RELU], [value("x", ["N", 3, None, 8])]), {},
                      "input 'x' leaves dimension 2 open; give it a size, as in dimensions={'x': [1, 3, 224, 224]}"),
    "no sizes": (model([RELU], [value("x", None)]), {}, "input 'x' has no sizes in the model; give them, as in"),
    "zero": (model([RELU], [value("x", [1, 0])]), {},
        "dimension 1 of input 'x' is 0; it must be a whole number from 1"),
    "negative": (model([RELU], [value("x", [1, -3])]), {}, "dimension 1 of input 'x' is -3; it must be a whole number"),
    "sequence": (model([helper.make_node("SequenceLength", ["x"], ["y"])],
                       [helper.make_tensor_sequence_value_info("x", FLOAT, [1, 3])]), {},
                 "input 'x' is no tensor (a sequence_type); only models on tensors are read"),
    "no such dimension": (model([RELU], [value("x", ["N", "h"])]), {"dimensions": {"width": 3}},
                          "dimensions names 'width', which is no input and no dynamic dimension of the model; it has "
                          "'N', 'h', 'x'"),
    "other rank": (model([RELU], [value("x", ["N", "h"])]), {"dimensions": {"x": [1, 2, 3]}},
                   "dimensions gives input 'x' 3 sizes; it has 2 dimensions"),
    "dimensions": (model([RELU], [value("x", [1, 3])]), {"dimensions": 7},
                   "dimensions is 7; it must map names to sizes"),
    "batch size": (model([RELU], [value("x", [1, 3])]), {"batch_size": 0},
                   "batch_size is 0; it must be a whole number"),
    "misfit": (one("Conv", [(4, 5, 3, 3)], 1), {},
        "node 'y' (Conv): its filters of sizes (4, 5, 3, 3) in 1 groups do not fit"),
    "strides": (one("Conv", [(4, 3, 3, 3)], 1, strides=[0, 1]), {}, "node 'y' (Conv): "),
    "unknown size": (
        model([helper.make_node("NonZero", ["x"], ["n"]), helper.make_node("Transpose", ["n"], ["y"])],
              [value("x", (1, 3))]), {}, "node 'n' (NonZero): the size of tensor 'n' cannot be inferred; export",
    ),
    "huge weight": (one("Conv", [(2**40, 3, 3, 3)], 1, dims=(1, 3, 2**20, 2**20)), {}, "more than 9223372036854775807"),
    "negative weight": (one("Conv", [(4, -3, 3, 3)], 1), {},
        "weight 'w0' has the sizes [4, -3, 3, 3]; sizes are whole"),
    "function bomb": (function_bomb(), {}, f"the functions of the model write out to {2**39} nodes; at most 100,000"),
    "deep functions": (function_bomb(3000), {}, "calls itself, or stands more than 100 calls deep"),
    "recursion": (recursive(), {}, "function 'f' of the model calls itself"),
    "outside": (external("../../etc/passwd"), {},
        "weight 'w' refers to the file '../../etc/passwd' outside of the model"),
    "root": (external("/etc/passwd"), {}, "weight 'w' refers to the file '/etc/passwd' outside of the model's folder"),
    "drive": (external("C:\\w.bin"), {}, "outside of the model's folder"),
    "no model": (7, {}, "the model is 7; give the path of an ONNX file, or a ModelProto"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_models(case):
    given, options, message = BAD[case]
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        read_onnx(given, **options)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 500


def test_missing_weights_beside_the_model_are_not_missed():
    assert read_onnx(external("weights.bin")).layers[0].weights == 400
    assert read_onnx(external("folder/weights.bin")).layers[0].weights == 400


def renamed(given, old, new):
    """A model with a name in its file changed to other bytes of the same number."""
    return onnx.ModelProto.FromString(given.SerializeToString().replace(old, new))


NO_TEXT = [(RELU_MODEL, b"Relu"), (external("weights.bin"), b"weights.bin"), (RELU_MODEL, b"hand"),
           (model([RELU], [value("x", ["height"])]), b"height")]  # fmt: skip


@pytest.mark.parametrize("given, name", NO_TEXT)
def test_names_that_are_no_text(given, name):
    damaged = renamed(given, name, b"\xff" * len(name))
    with pytest.raises(ValueError, match=r"the model holds the name b'.xff.*, which is not text; the file is damaged"):
        read_onnx(damaged)


WRONG_FILES = {
    "empty": (b"", "is empty; it may have been cut off"), "text": (b"x", "is not an ONNX model, or it was cut off"),
    "picture": (b"\x89PNG\r\n\x1a\n" + bytes(50), "is not an ONNX model, or it was cut off"),
    "zip": (b"PK\x03\x04" + bytes(50), "is a zip archive, not an ONNX file; unpack it"),
    "gzip": (b"\x1f\x8b\x08" + bytes(50), "is a gzip file, not an ONNX file; unpack it"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG_FILES)
def test_wrong_files(case, tmp_path):
    content, message = WRONG_FILES[case]
    (tmp_path / "m.onnx").write_bytes(content)
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        read_onnx(tmp_path / "m.onnx")
    assert "m.onnx" in str(caught.value) and "\n" not in str(caught.value)


def test_missing_files_folders_and_devices(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no file .*none.onnx'; check the path"):
        read_onnx(tmp_path / "none.onnx")
    with pytest.raises(ValueError, match="is a folder; give a file"):
        read_onnx(tmp_path)
    with pytest.raises(ValueError, match="'/dev/zero' is a pipe or a device; give a file"):
        read_onnx("/dev/zero")


def test_a_model_cut_off_anywhere_is_noticed(tmp_path):
    content = CONVOLUTIONS["plain"][0].SerializeToString()
    for length in range(len(content)):
        (tmp_path / "m.onnx").write_bytes(content[:length])
        with pytest.raises(ValueError):
            read_onnx(tmp_path / "m.onnx")


def test_a_real_model_cut_off_is_a_sentence_or_the_beginning_of_the_graph(tmp_path):
    content = (LIGHT / "light_bvlc_alexnet.onnx").read_bytes()
    whole = len(shipped("bvlc_alexnet").layers)
    for length in range(1, len(content), 97):
        (tmp_path / "m.onnx").write_bytes(content[:length])
        with pytest.raises(ValueError) as caught:
            read_onnx(tmp_path / "m.onnx")
        assert str(caught.value).isprintable() and len(str(caught.value)) < 600
    assert whole == 8


def test_claimed_sizes_ask_for_no_memory():
    given = one("Conv", [(2**20, 3, 2**10, 2**10)], 1, dims=(1, 3, 2**12, 2**12), strides=[512, 512])
    tracemalloc.start()
    found = read_onnx(given)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.layers[0].weights == 3 * 2**40 and peak < 5e6


NAMES = ("bvlc_alexnet", "zfnet512", "vgg19", "squeezenet")
SMALL = [(LIGHT / f"light_{name}.onnx").read_bytes() for name in NAMES] + [
    given.SerializeToString() for given in (*(given for given, _ in (*CONVOLUTIONS.values(), *MATMULS.values())),
                                            external("weights.bin"), recursive(), function_bomb(6))]  # fmt: skip


def damaged(data, content):
    """A file with bytes changed, left out, or repeated elsewhere."""
    content = bytearray(content)
    for kind in data.draw(st.lists(st.sampled_from(["change", "leave out", "repeat"]), min_size=1, max_size=4)):
        at, much = data.draw(st.integers(0, len(content) - 1)), data.draw(st.integers(1, 30))
        if kind == "change":
            content[at] = data.draw(st.integers(0, 255))
        elif kind == "leave out" and len(content) > much:
            del content[at:at + much]
        else:
            start = data.draw(st.integers(0, len(content) - 1))
            content[at:at] = content[start:start + much]
    return bytes(content)


@settings(max_examples=300)
@given(data=st.data())
def test_any_damage_gives_a_network_or_a_sentence(data, tmp_path_factory):
    content = damaged(data, data.draw(st.sampled_from(SMALL)))
    path = tmp_path_factory.getbasetemp() / "damaged.onnx"
    path.write_bytes(content)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = read_onnx(path)
        assert isinstance(found, Network)
        if found.layers:
            costs(found, "8x8", batch=2)
    except ValueError as error:
        assert str(error).isprintable() and len(str(error)) < 600


# ---- size


def test_ten_thousand_nodes():
    nodes, weights = [], [claimed("w", (8, 8, 3, 3))]
    for i in range(2000):
        before = f"t{i - 1}" if i else "x"
        nodes += [helper.make_node("Conv", [before, "w"], [f"c{i}"], pads=[1] * 4),
                  helper.make_node("Relu", [f"c{i}"], [f"r{i}"]), helper.make_node("Sigmoid", [f"r{i}"], [f"s{i}"]),
                  helper.make_node("Mul", [f"r{i}", f"s{i}"], [f"m{i}"]),
                  helper.make_node("Add", [f"m{i}", before], [f"t{i}"])]  # fmt: skip
    given = model(nodes, [value("x", (1, 8, 16, 16))], ["t1999"], weights)
    start = time.perf_counter()
    found = read_onnx(given)
    assert len(found.nodes) == 10_000 and len(found.layers) == 2000 and len(found.cut_elements) == 1999
    assert time.perf_counter() - start < 60  # 3 s on a free processor


def test_without_the_package_one_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(ValueError, match=r"onnx is not installed here; .*pip install '.\[onnx\]'"):
        read_onnx("model.onnx")
    assert onnx_model.STANDARD and onnx_shapes.LARGEST_DIMENSION  # their import needs no onnx
