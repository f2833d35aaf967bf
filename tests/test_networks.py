"""Networks: published counts, independent re-counts of everything inferred, the CSV form, and every error."""

import dataclasses
import itertools
import math
import pickle
import re
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lpkit import builtin, graph, networks, operations, transformers
from lpkit.costs import costs
from lpkit.networks import (
    NETWORKS,
    Activation,
    Add,
    BatchNorm,
    Concat,
    Conv,
    ConvTranspose,
    Dense,
    Flatten,
    GlobalPool,
    Network,
    Node,
    Pool,
    network,
    output_shape,
    read_csv,
    write_csv,
)
from lpkit.products import gemms, useful_macs
from lpkit.systolic import gemm_cycles

DATA = Path(__file__).parents[1] / "data" / "networks"
JOINS = (Add, Concat)
LAYERS = (Conv, ConvTranspose, Dense)

PARAMETERS = {  # torchvision's models of the same names; MobileNet and U-Net: the padded forms in common use
    "sample4": 2_400 + 51_200 + 73_728 + 147_456,
    "lenet5": 61_706,
    "alexnet": 61_100_840,
    "vgg11": 132_863_336,
    "vgg13": 133_047_848,
    "vgg16": 138_357_544,
    "vgg19": 143_667_240,
    "resnet18": 11_689_512,
    "resnet34": 21_797_672,
    "resnet50": 25_557_032,
    "resnet101": 44_549_160,
    "resnet152": 60_192_808,
    "mobilenet_v1": 4_231_976,
    "unet": 31_037_698,
    "bert_base": 109_482_240,  # the released uncased model with its pooler
    "gpt2": 124_439_808,  # the released model, its tied table counted once
    "vit_b16": 86_567_656,
}
GIGA_MACS = {"vgg16": 15.47, "resnet50": 4.09, "alexnet": 0.71, "mobilenet_v1": 0.569, "resnet18": 1.81, "vgg11": 7.61,
             "vit_b16": 17.56}  # fmt: skip
LAYER_COUNTS = {"resnet18": 21, "resnet34": 37, "resnet50": 54, "resnet101": 105, "resnet152": 156, "vgg19": 19,
                "mobilenet_v1": 28, "unet": 23, "sample4": 4, "bert_base": 97, "gpt2": 97, "vit_b16": 98}  # fmt: skip


# ---- the built-in networks against what is published


@pytest.mark.parametrize("name", NETWORKS)
def test_parameters_are_the_published_ones(name):
    assert network(name).parameters == PARAMETERS[name]


@pytest.mark.parametrize("name", GIGA_MACS)
def test_macs_are_the_published_ones(name):
    digits = len(str(GIGA_MACS[name]).split(".")[1])
    assert round(sum(layer.macs() for layer in network(name).layers) / 1e9, digits) == GIGA_MACS[name]


@pytest.mark.parametrize("name", LAYER_COUNTS)
def test_layer_counts(name):
    layers = network(name).layers
    assert [layer.index for layer in layers] == list(range(1, LAYER_COUNTS[name] + 1))


def test_every_builtin_is_listed_and_found_in_any_case():
    assert set(NETWORKS) == set(PARAMETERS)
    assert network(" ResNet18 ") == networks.resnet18()
    assert all(network(name).name == name for name in NETWORKS)


def test_sample4_is_the_reconstructed_table():
    rows = [(layer.in_shape, layer.op.kernel, layer.op.stride, layer.out_shape) for layer in network("sample4").layers]
    assert rows == [
        ((3, 224, 224), (5, 5), (2, 2), (32, 112, 112)),
        ((32, 112, 112), (5, 5), (2, 2), (64, 56, 56)),
        ((64, 56, 56), (3, 3), (2, 2), (128, 28, 28)),
        ((128, 28, 28), (3, 3), (1, 1), (128, 28, 28)),
    ]


def test_resnet50_block_order_stride_and_path():
    layers = network("resnet50").layers
    names = [layer.name for layer in layers]
    assert names[:6] == ["conv1", "layer1.0.conv1", "layer1.0.conv2", "layer1.0.conv3", "layer1.0.downsample",
                         "layer1.1.conv1"]  # fmt: skip
    off_path = [layer.name for layer in layers if not layer.on_longest_path]
    assert off_path == [f"layer{group}.0.downsample" for group in (1, 2, 3, 4)]
    by_name = {layer.name: layer for layer in layers}
    assert by_name["layer2.0.conv1"].op.stride == (1, 1) and by_name["layer2.0.conv2"].op.stride == (2, 2)
    assert by_name["layer4.2.conv3"].out_shape == (2048, 7, 7)


def test_resnet50_cuts_and_consumers_by_hand():
    resnet50 = network("resnet50")
    small, wide = 64 * 56 * 56, 256 * 56 * 56
    # conv1 -> pool; block 1.0: its input waits for the projection; block 1.1: its input waits for the sum
    assert resnet50.cut_elements[:6] == (small, 2 * small, 2 * small, wide + small, wide, small + wide)
    assert resnet50.cut_elements[-1] == 2048
    assert [layer.first_consumer for layer in resnet50.layers[:6]] == [2, 3, 4, 6, 6, 7]
    assert [layer.shared_input for layer in resnet50.layers[:7]] == [False, True, False, False, True, True, False]
    assert resnet50.layers[-1].first_consumer == 55


def test_unet_skips_cross_the_cut_at_the_bottom():
    unet = network("unet")
    skips = sum(32 * 2**level * (1024 // 2**level) ** 2 for level in (1, 2, 3, 4))
    assert unet.layers[9].name == "enc5.conv2"
    assert unet.cut_elements[9] == skips + 1024 * 32 * 32
    assert all(layer.on_longest_path for layer in unet.layers)
    assert unet.layers[2].shared_input  # the first skip: read by the pooling before this layer, and by the last concat


@pytest.mark.parametrize("name", ["sample4", "lenet5", "alexnet", "vgg16", "mobilenet_v1"])
def test_in_a_chain_the_cut_is_the_next_input(name):
    chain = network(name)
    assert chain.cut_elements == tuple(layer.input_elements for layer in chain.layers[1:])
    assert [layer.first_consumer for layer in chain.layers] == [layer.index + 1 for layer in chain.layers]
    assert not any(layer.shared_input for layer in chain.layers)


def test_options_of_the_builtins():
    assert networks.vgg16(classes=10, size=32).parameters == 138_357_544 - 4096 * 512 * 48 - 4097 * 990
    assert networks.resnet18(size=(64, 96)).shapes["layer4.1.relu"] == (512, 2, 3)
    assert networks.unet(classes=1, size=64).shapes["output"] == (1, 64, 64)
    assert networks.lenet5(classes=26).shapes["output"] == (26, 1, 1)


def test_options_by_name_are_those_of_the_function():
    assert network("VGG16", classes=10, size=32) == networks.vgg16(classes=10, size=32)
    assert network("gpt2", sequence=64) == networks.gpt2(sequence=64)
    with pytest.raises(ValueError, match="vgg16 has no option 'sequence'; Known: 'classes', 'size'"):
        network("vgg16", sequence=128)
    with pytest.raises(ValueError, match="bert_base has no option 'sequenze'; did you mean 'sequence'"):
        network("bert_base", sequenze=128)


def test_the_largest_network_is_built_quickly():
    def seconds():
        start = time.perf_counter()
        built = networks.resnet152()
        assert built.layers and built.parameters and built.cut_elements
        return time.perf_counter() - start

    assert min(seconds() for _ in range(5)) < 0.1  # 0.02 s on a free processor


# ---- transformers

LARGER = {  # parameters of the released models
    ("bert_base", 24, 1024, 16): 335_141_888,
    ("gpt2", 24, 1024, 16): 354_823_168,
    ("gpt2", 36, 1280, 20): 774_030_080,
    ("gpt2", 48, 1600, 25): 1_557_611_200,
    ("vit_b16", 24, 1024, 16): 304_326_632,
}


@pytest.mark.parametrize("case", LARGER)
def test_larger_transformers_have_the_published_parameters(case):
    name, layers, width, heads = case
    assert network(name, layers=layers, width=width, heads=heads).parameters == LARGER[case]


def transformer_macs(layers, width, tokens):
    """By hand: of each token, 4 products of width^2 in attention and 8 after it, and width of each pair, twice."""
    return layers * (12 * tokens * width**2 + 2 * tokens**2 * width)


@pytest.mark.parametrize("tokens", [1, 128, 384, 1024])
def test_macs_of_transformers_by_hand(tokens):
    def macs(net):
        return sum(layer.macs() for layer in net.layers)

    assert macs(networks.bert_base(sequence=tokens)) == transformer_macs(12, 768, tokens) + 768**2
    assert macs(networks.gpt2(sequence=tokens)) == transformer_macs(12, 768, tokens) + tokens * 768 * 50257
    patches = 196 * 768 * 3 * 16**2
    assert macs(networks.vit_b16(size=224, classes=10)) == transformer_macs(12, 768, 197) + patches + 7680


def test_macs_of_transformers_against_published_operations():
    operations = {tokens: 2 * sum(layer.macs() for layer in networks.bert_base(sequence=tokens).layers)
                  for tokens in (128, 512)}  # fmt: skip
    assert operations[128] == pytest.approx(22.5e9, rel=0.01)  # MobileBERT, arXiv:2004.02984, Table 4: 22.5 B
    # counted product by product in public notebooks on GPT-2: 291,648,307,200 operations, head included
    assert 2 * sum(layer.macs() for layer in networks.gpt2().layers) == 291_648_307_200


def test_the_products_of_a_block():
    layers = {layer.name: layer for layer in networks.bert_base(sequence=128).layers}
    one = {name.partition(".")[2]: gemms(layer, "F")[0] for name, layer in layers.items() if name.startswith("block7.")}
    sizes = {name: (gemm.M, gemm.K, gemm.N, gemm.count) for name, gemm in one.items()}
    assert sizes == {
        **dict.fromkeys(("query", "key", "value", "output"), (128, 768, 768, 1)),
        "scores": (128, 64, 128, 12), "context": (128, 128, 64, 12),
        "fc1": (128, 768, 3072, 1), "fc2": (128, 3072, 768, 1),
    }  # fmt: skip
    deltas = gemms(layers["block7.context"], "delta", batch=2)
    assert [(g.M, g.K, g.N, g.count) for g in deltas] == [(128, 64, 128, 24), (128, 128, 64, 24)]
    assert gemms(layers["block7.context"], "G") == ()


def test_cuts_of_a_block_by_hand():
    wide, scores = 1024 * 768, 12 * 1024 * 1024
    gpt2 = networks.gpt2()  # a norm sits with the layer before it, so that between blocks the sum and its norm cross
    beside_the_sum = [wide, 2 * wide, 3 * wide, 3 * wide, scores + wide, wide, wide, 4 * wide, wide]
    assert gpt2.cut_elements[7:16] == tuple(wide + other for other in beside_the_sum)
    assert networks.bert_base().cut_elements[7] == 512 * 768  # its next block reads nothing but the norm
    assert [layer.first_consumer for layer in gpt2.layers[:8]] == [4, 4, 5, 5, 6, 7, 8, 9]


def test_the_shared_table_of_gpt2_is_counted_once_at_the_head():
    net = networks.gpt2()
    by_name = {node.name: node for node in net.nodes}
    assert by_name["embeddings"].op.parameters == 0 and net.layers[-1].weights == 50257 * 768


def test_longer_sequences_get_longer_tables_and_shorter_ones_keep_theirs():
    parameters = {tokens: networks.bert_base(sequence=tokens).parameters for tokens in (16, 512, 600)}
    assert parameters[16] == parameters[512] == parameters[600] - 88 * 768
    assert networks.gpt2(sequence=1025).parameters == 124_439_808 + 768
    assert networks.vit_b16(size=(224, 384)).shapes["positions"] == (14 * 24 + 1, 1, 768)


TRANSFORMER_ERRORS = {
    "sequence": (lambda: networks.bert_base(sequence=0), "sequence is 0; it must be a whole number from 1"),
    "layers": (lambda: networks.gpt2(layers=1.5), "layers is 1.5; it must be a whole number from 1"),
    "heads": (lambda: networks.gpt2(heads=7), "heads is 7, no divisor of the width 768; choose a divisor"),
    "size": (lambda: networks.vit_b16(size=225), "size is 225; the sides must be multiples of 16, the side of a patch"),
}


@pytest.mark.parametrize("case", TRANSFORMER_ERRORS)
def test_errors_of_transformers(case):
    wrong, message = TRANSFORMER_ERRORS[case]
    with pytest.raises(ValueError, match=re.escape(message)):
        wrong()


def test_the_first_delta_is_needed_where_a_table_before_it_learns():
    for name, unneeded in (("bert_base", []), ("gpt2", []), ("vit_b16", ["patches"]), ("resnet18", ["conv1"])):
        found = costs(name, "32x32", batch=1)
        assert [layer for layer, delta in zip(found.layers, found.delta) if delta == 0] == unneeded


@pytest.mark.parametrize("name", transformers.__all__)
def test_the_form_of_file_refuses_transformers(name, tmp_path):
    with pytest.raises(ValueError, match="this form of file cannot hold; keep the model file, or the built-in name"):
        write_csv(network(name), tmp_path / "n.csv")


# ---- independent re-counts


def naive_place(net):
    """Highest layer among each node and its ancestors, by collecting ancestors as sets."""
    index = {node.name: i for i, node in enumerate((n for n in net.nodes if isinstance(n.op, LAYERS)), 1)}
    ancestors = {"input": {"input"}}
    for node in net.nodes:
        ancestors[node.name] = {node.name}.union(*(ancestors[source] for source in node.inputs))
    return {name: max(index.get(a, 0) for a in above) for name, above in ancestors.items()}, index


def naive_cuts(net):
    place, index = naive_place(net)
    cuts = []
    for cut in range(1, len(index)):
        crossing = {s for n in net.nodes for s in n.inputs if place[s] <= cut < place[n.name]}
        cuts.append(sum(math.prod(net.shapes[s]) for s in crossing))
    return tuple(cuts)


def naive_first_consumer(net, name, index):
    """Breadth first through everything that is not a layer."""
    found, front, seen = [len(index) + 1], [name], set()
    while front:
        tensor = front.pop()
        for node in net.nodes:
            if tensor in node.inputs and node.name not in seen:
                seen.add(node.name)
                found += [index[node.name]] if node.name in index else []
                front += [] if node.name in index else [node.name]
    return min(found)


def naive_shared(net, name):
    """Forward: the tree of simple nodes below the producer ends in how many layers, joins and outputs?"""
    nodes = {node.name: node for node in net.nodes}
    simple = [n for n in nodes if not isinstance(nodes[n].op, LAYERS + JOINS)]
    producer = nodes[name].inputs[0]
    while producer in simple:
        producer = nodes[producer].inputs[0]

    def ends(tensor):
        readers = [n.name for n in net.nodes for source in n.inputs if source == tensor]
        return sum(max(ends(r), 1) if r in simple else 1 for r in readers)

    return ends(producer) > 1


def all_paths(net):
    nodes = {node.name: node for node in net.nodes}

    def back(name):
        if name == "input":
            return [()]
        return [path + (name,) for source in dict.fromkeys(nodes[name].inputs) for path in back(source)]

    return [tuple(n for n in p if isinstance(nodes[n].op, LAYERS)) for name in nodes for p in back(name)]


@st.composite
def dags(draw):
    """Small random networks with branches, joins, dead ends and several readers of the input."""
    shapes, nodes = {"input": (2, 6, 6)}, []
    for i in range(draw(st.integers(1, 9))):
        source = draw(st.sampled_from(list(shapes)))
        alike = [name for name in shapes if shapes[name] == shapes[source]]
        kind = draw(st.sampled_from(["conv", "conv", "up", "relu", "norm", "add", "concat"]))
        op, inputs = {
            "conv": (Conv(draw(st.integers(1, 3)), 3, padding=1), (source,)),
            "up": (ConvTranspose(2, 3, padding=1), (source,)),
            "relu": (Activation(), (source,)),
            "norm": (BatchNorm(), (source,)),
            "add": (Add(), (source, draw(st.sampled_from(alike)))),
            "concat": (Concat(), (source, draw(st.sampled_from(list(shapes))))),
        }[kind]
        nodes.append(Node(f"n{i}", op, inputs))
        shapes[f"n{i}"] = output_shape(op, *(shapes[s] for s in inputs))
    return Network("random", (2, 6, 6), nodes)


@settings(max_examples=300, deadline=None)
@given(dags())
def test_random_graphs_against_naive_counts(net):
    _, index = naive_place(net)
    assert net.cut_elements == naive_cuts(net)
    for layer in net.layers:
        assert layer.first_consumer == naive_first_consumer(net, layer.name, index)
        assert layer.shared_input == naive_shared(net, layer.name)
    paths = all_paths(net)
    on_path = tuple(layer.name for layer in net.layers if layer.on_longest_path)
    assert on_path in paths and len(on_path) == max(map(len, paths))


@pytest.mark.parametrize("name", ["alexnet", "resnet18", "resnet50", "unet"])
def test_builtins_against_naive_counts(name):
    net = network(name)
    _, index = naive_place(net)
    assert net.cut_elements == naive_cuts(net)
    assert [a.first_consumer for a in net.layers] == [naive_first_consumer(net, a.name, index) for a in net.layers]
    assert [a.shared_input for a in net.layers] == [naive_shared(net, a.name) for a in net.layers]


def test_a_skip_from_the_input_and_an_early_output():
    net = Network("n", (2, 4, 4), (
        Node("a", Conv(2, 1), "input"),
        Node("out", Activation(), "a"),
        Node("b", Conv(2, 1), "a"),
        Node("sum", Add(), ("b", "input")),
        Node("c", Conv(2, 1), "sum"),
    ))  # fmt: skip
    assert net.cut_elements == (64, 32)  # a and the input, then the sum alone
    assert [layer.shared_input for layer in net.layers] == [True, True, False]


def count_products(op, in_shape):
    """Multiplications of the plain loops over output (or input) positions, channels and filter taps."""
    C, H, W = in_shape
    k = list(itertools.product(range(op.kernel[0]), range(op.kernel[1])))
    if isinstance(op, ConvTranspose):
        return sum(op.out_channels * C for _ in itertools.product(range(H), range(W)) for _ in k)
    spans = [d * (n - 1) + 1 for d, n in zip(op.dilation, op.kernel)]
    tops = range(0, H + 2 * op.padding[0] - spans[0] + 1, op.stride[0])
    lefts = range(0, W + 2 * op.padding[1] - spans[1] + 1, op.stride[1])
    group_of_output = np.repeat(np.arange(op.groups), op.out_channels // op.groups)
    group_of_input = np.repeat(np.arange(op.groups), C // op.groups)
    meeting = sum(int(a == b) for a in group_of_output for b in group_of_input)
    return sum(meeting for _ in tops for _ in lefts for _ in k)


conv_cases = st.fixed_dictionaries({
    "kernel": st.tuples(st.integers(1, 4), st.integers(1, 4)),
    "stride": st.tuples(st.integers(1, 3), st.integers(1, 3)),
    "padding": st.tuples(st.integers(0, 2), st.integers(0, 2)),
})  # fmt: skip
sides = st.tuples(st.integers(7, 12), st.integers(7, 12))


@settings(max_examples=100, deadline=None)
@given(conv_cases, sides, st.integers(1, 3), st.integers(1, 2), st.integers(1, 2), st.integers(1, 5))
def test_macs_and_shapes_of_convolutions_by_loops(case, sides, groups, multiple, dilation, batch):
    op = Conv(groups * multiple, groups=groups, dilation=dilation, **case)
    layer = Network("n", (2 * groups, *sides), [Node("conv", op, "input")]).layers[0]
    assert layer.macs(batch) == batch * count_products(op, layer.in_shape)
    assert layer.macs() == layer.weights * layer.out_shape[1] * layer.out_shape[2]


@settings(max_examples=100, deadline=None)
@given(conv_cases, sides)
def test_transposed_convolution_inverts_the_shape_of_the_convolution(case, sides):
    op = ConvTranspose(3, **case)
    try:
        net = Network("n", (2, *sides), [Node("up", op, "input")])
    except ValueError:
        assert min((h - 1) * s - 2 * p + k for h, s, p, k in zip(sides, op.stride, op.padding, op.kernel)) < 1
        return
    assert output_shape(Conv(1, **case), net.shapes["up"]) == (1, *sides)
    assert net.layers[0].macs() == count_products(op, (2, *sides))
    assert net.layers[0].weights == 2 * 3 * math.prod(op.kernel)


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 12), st.integers(1, 4), st.integers(1, 4), st.integers(0, 3), st.booleans())
def test_pooling_windows_by_enumeration(side, kernel, stride, padding, ceil_mode):
    padding = min(padding, kernel - 1)
    if side + 2 * padding < kernel:
        return
    padded = side + 2 * padding
    whole = [start for start in range(0, padded, stride) if start + kernel <= padded]
    covered = whole[-1] + kernel == padded
    ragged = ceil_mode and not covered and whole[-1] + stride < side + padding
    op = Pool(kernel, stride, padding, ceil_mode=ceil_mode)
    assert output_shape(op, (5, side, side)) == (5, len(whole) + ragged, len(whole) + ragged)


def test_other_operations():
    assert output_shape(Flatten(), (4, 3, 2)) == (24, 1, 1)
    assert output_shape(GlobalPool(), (4, 3, 2)) == (4, 1, 1)
    assert output_shape(Add(), (4, 3, 2), (4, 3, 2), (4, 3, 2)) == (4, 3, 2)
    assert output_shape(Concat(), (4, 3, 2), (5, 3, 2)) == (9, 3, 2)
    assert output_shape(BatchNorm(), (4, 3, 2)) == output_shape(Activation(), (4, 3, 2)) == (4, 3, 2)
    assert output_shape(Dense(7), (4, 1, 1)) == (7, 1, 1)


# ---- types


def test_sizes_become_pairs_of_plain_ints():
    op = Conv(np.int64(8), [1, np.int32(3)], stride=2.0, bias=np.bool_(False))
    assert op == Conv(8, (1, 3), stride=(2, 2), bias=False)
    assert "np." not in repr(op)
    assert Pool(3) == Pool((3, 3), stride=(3, 3))
    assert Pool(3, 2).stride == (2, 2)


def test_a_network_is_a_value():
    resnet18 = networks.resnet18()
    assert resnet18.layers and resnet18 == networks.resnet18() and hash(resnet18) == hash(networks.resnet18())
    assert pickle.loads(pickle.dumps(resnet18)).layers == resnet18.layers
    with pytest.raises(dataclasses.FrozenInstanceError):
        resnet18.name = "x"


def test_a_network_without_layers():
    net = Network("n", (3, 8, 8), [Node("relu", Activation(), "input")])
    assert (net.layers, net.cut_elements, net.parameters) == ((), (), 0)


def test_one_layer_has_no_cut():
    net = Network("n", (3, 8, 8), [Node("c", Conv(1, 1), "input")])
    assert net.cut_elements == () and net.layers[0].first_consumer == 2


def test_public_names():
    for module in (operations, graph, builtin):
        names = set(module.__all__) - {"checked_shape"}  # of use to readers of files only
        assert names <= set(networks.__all__)
        assert all(getattr(networks, name) is getattr(module, name) for name in names)
    assert all(hasattr(networks, name) for name in networks.__all__)


# ---- errors


def build(*nodes, shape=(3, 8, 8), name="n"):
    return Network(name, shape, [Node(f"n{i}", op, inputs) for i, (op, inputs) in enumerate(nodes)])


RELU, HUGE = Activation(), 2**40
ERRORS = {
    "kernel": (lambda: Conv(8, 0), "Conv kernel is 0; it must be a whole number from 1"),
    "fraction": (lambda: Conv(8.5, 3), "Conv out_channels is 8.5; it must be a whole number"),
    "nan": (lambda: Dense(float("nan")), "Dense out_features is nan; it must be a whole number"),
    "triple": (lambda: Conv(8, (3, 3, 3)), "Conv kernel is (3, 3, 3); it must be one whole number or a pair"),
    "too large": (lambda: Dense(HUGE + 1), "Dense out_features is 1099511627777; it must be a whole number"),
    "negative padding": (lambda: Pool(3, padding=-1), "Pool padding is -1; it must be a whole number from 0"),
    "bias": (lambda: Conv(8, 3, bias="no"), "Conv bias is 'no'; it must be True or False"),
    "groups out": (lambda: Conv(8, 3, groups=3), "Conv groups is 3, no divisor of its 8 output channels"),
    "pool kind": (lambda: Pool(2, kind="maximum"), "Pool kind is 'maximum'; did you mean 'max'?"),
    "pool padding": (lambda: Pool(2, padding=2), "Pool padding is 2x2 for a 2x2 kernel; make it smaller"),
    "activation": (lambda: Activation("rule"), "Activation kind is 'rule'; Known: 'relu', 'relu6'"),
    "groups in": (lambda: build((Conv(4, 1, groups=2), "input")), "node 'n0': groups is 2, no divisor of the 3 input"),
    "filter": (
        lambda: build((Conv(4, 5, padding=1, dilation=3), "input")),
        "node 'n0': the filter spans 13x13, more than the 8x8 input padded to 10x10",
    ),
    "pool": (lambda: build((Pool(9), "input")), "node 'n0': the filter spans 9x9, more than the 8x8 input"),
    "transpose": (lambda: build((ConvTranspose(4, 1, padding=4), "input")), "node 'n0': padding 4x4 leaves an output"),
    "dense": (lambda: build((Dense(4), "input")), "node 'n0': Dense needs a flat input, but gets 3x8x8; put a Flatten"),
    "add": (
        lambda: build((Conv(4, 3), "input"), (Add(), ("n0", "input"))),
        "node 'n1': Add needs inputs of one shape, but gets 4x6x6 and 3x8x8",
    ),
    "concat": (
        lambda: build((Conv(4, 3), "input"), (Concat(), ("n0", "input"))),
        "node 'n1': Concat needs inputs of one height and width, but gets 4x6x6 and 3x8x8",
    ),
    "one operand": (lambda: build((Add(), "input")), "node 'n0': Add takes two or more inputs, but has 1"),
    "two inputs": (lambda: build((RELU, ("input", "input"))), "node 'n0': Activation takes exactly one input"),
    "unknown": (lambda: build((RELU, "inptu")), "an input of node 'n0' is 'inptu'; did you mean 'input'?"),
    "later": (lambda: build((RELU, "n1"), (RELU, "n0")), "node 'n0' reads 'n1', which does not come before it"),
    "itself": (lambda: build((RELU, "n0")), "node 'n0' reads 'n0', which does not come before it"),
    "twice": (
        lambda: Network("n", (3, 8, 8), [Node("a", RELU, "input"), Node("a", RELU, "input")]),
        "node 'a' is there twice",
    ),
    "named input": (lambda: Network("n", (3, 8, 8), [Node("input", RELU, "input")]), "or is named 'input'"),
    "empty": (lambda: Network("n", (3, 8, 8), []), "network 'n' is empty; give it one node or more"),
    "not a node": (lambda: Network("n", (3, 8, 8), [RELU]), "network 'n' holds Activation(kind='relu') for a node"),
    "nodes": (lambda: Network("n", (3, 8, 8), 7), "network 'n' holds 7 for a node"),
    "name": (lambda: build((RELU, "input"), name="a,b"), "network name is 'a,b'; it must be printable text"),
    "node name": (lambda: Node("a b", RELU, "input"), "node name is 'a b'; it must be printable text without blanks"),
    "hash": (lambda: Node("#a", RELU, "input"), "node name is '#a'; it must be printable text"),
    "no name": (lambda: Node("", RELU, "input"), "node name is ''; it must be printable text"),
    "no text": (lambda: Node("a", RELU, None), "node name is None; it must be printable text"),
    "no inputs": (lambda: Node("a", RELU, ()), "node 'a' has no inputs; name the node it reads, or 'input'"),
    "operation": (lambda: Node("a", "Conv", "input"), "node 'a' has 'Conv' for its operation; it must be one of Conv,"),
    "input shape": (lambda: build((RELU, "input"), shape=(3, 8)), "input_shape is (3, 8); it must be three whole"),
    "input side": (lambda: build((RELU, "input"), shape=(3, 0, 8)), "input height is 0; it must be a whole number"),
    "input size": (lambda: build((RELU, "input"), shape=(HUGE, HUGE, 1)), "more elements than 9223372036854775807"),
    "elements": (
        lambda: build((Conv(HUGE, 1), "input"), shape=(1, 4096, 4096)),
        "node 'n0': it has 18446744073709551616 elements in its output, more than 9223372036854775807 (int64)",
    ),
    "weights": (lambda: build((Flatten(), "input"), (Dense(HUGE), "n0"), shape=(1, 4096, 4096)), "weights, more than"),
    "macs": (lambda: build((Conv(2**20, 1), "input"), shape=(2**20, 2**15, 2**9)), "multiply-accumulates, more than"),
    "batch": (lambda: networks.sample4().layers[0].macs(0), "batch is 0; it must be a whole number"),
    "network": (lambda: network("resnet5"), "network is 'resnet5'; did you mean 'resnet50'"),
    "no network": (lambda: network(None), "network is None; Known: 'sample4'"),
    "unet size": (lambda: networks.unet(size=572), "size is 572; the sides must be multiples of 16"),
    "small": (lambda: networks.vgg16(size=16), "node 'pool5': the filter spans 2x2, more than the 1x1 input"),
    "classes": (lambda: networks.resnet18(classes=-1), "Dense out_features is -1; it must be a whole number"),
    "size": (lambda: networks.resnet18(size="big"), "size is 'big'; it must be a whole number"),
}  # fmt: skip


@pytest.mark.parametrize("case", ERRORS)
def test_errors(case):
    wrong, message = ERRORS[case]
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        wrong()
    assert "\n" not in str(caught.value) and "np." not in str(caught.value)


# ---- files


@pytest.mark.parametrize("name", builtin.__all__)
def test_round_trip_of_every_builtin(name, tmp_path):
    net = network(name)
    assert read_csv(write_csv(net, tmp_path / "n.csv")) == net


@pytest.mark.parametrize("name", ["sample4", "vgg16", "resnet50"])
def test_shipped_files_are_the_builtins(name, tmp_path):
    shipped = DATA / f"{name}.csv"
    assert read_csv(shipped) == network(name)
    assert write_csv(network(name), tmp_path / "n.csv").read_bytes() == shipped.read_bytes()


@settings(max_examples=50, deadline=None)
@given(net=dags())
def test_round_trip_of_random_graphs(net, tmp_path_factory):
    assert read_csv(write_csv(net, tmp_path_factory.getbasetemp() / "random.csv")) == net


def test_round_trip_of_every_setting(tmp_path):
    net = Network("odd: \"name\" é", (4, 30, 31), (
        Node('a,"1"', Conv(8, (1, 3), (2, 1), (0, 2), groups=4, dilation=(1, 2), bias=False), "input"),
        Node("b", Pool((3, 2), 2, (1, 0), kind="average", ceil_mode=True), 'a,"1"'),
        Node("c", Activation("leaky_relu"), "b"),
        Node("d", ConvTranspose(8, (2, 3), (1, 2), (0, 1), bias=False), "c"),
        Node("e", GlobalPool(), "d"),
        Node("f", Dense(3, bias=False), "e"),
    ))  # fmt: skip
    assert read_csv(write_csv(net, tmp_path / "deep" / "n.csv")) == net


HEAD = "# input: 3x8x8\nname,op,out,kernel,bias,inputs\n"


def written(tmp_path, text):
    path = tmp_path / "mine.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_a_file_written_by_hand(tmp_path):
    text = (
        "\ufeff# my own network\r\n# INPUT : 3 x 8.0 x 8,,,,\r\n\r\n op , name,kernel,out,inputs,bias\r\n"
        "conv,c1, 3 X 1,4.0,,No\r\n,,,,,\r\nRELU,r,,,,\r\n".replace("RELU", "activation")
        + "conv,c2,1,4,input,\r\n # a remark\r\nCONV,c3,1x1,4,r,yes\r\nadd,s,,,c3 r,\r\n"
    )
    assert read_csv(written(tmp_path, text)) == Network("mine", (3, 8, 8), (
        Node("c1", Conv(4, (3, 1), bias=False), "input"),
        Node("r", Activation(), "c1"),
        Node("c2", Conv(4, 1), "input"),
        Node("c3", Conv(4, 1), "r"),
        Node("s", Add(), ("c3", "r")),
    ))  # fmt: skip


FILES = {
    "empty": ("", "is empty; it may have been cut off"),
    "binary": (b"\x89PNG\r\n\x1a\n\xff\xfe", "is not text"),
    "zero byte": (b"# input: 3x8x8\nname,op\n\0", "is not text (it holds a zero byte)"),
    "no table": ("# input: 3x8x8\n", "has no table; begin it with a header"),
    "no input": ("name,op\nr,Activation\n", "has no line '# input: 3x224x224'; add one"),
    "input text": ("# input: big\nname,op\nr,Activation\n", "line 1: input is 'big'; it must be three whole numbers"),
    "input zero": ("# input: 3x0x8\nname,op\nr,Activation\n", "line 1: input height is 0; it must be a whole number"),
    "input pair": ("# input: 3x8\nname,op\nr,Activation\n", "line 1: input_shape is (3, 8); it must be three"),
    "input twice": ("# input: 3x8x8\n" + HEAD, "line 2: '# input:' was given in line 1 already"),
    "wrong column": ("# input: 3x8x8\nname,op,kernal\n", "line 2: column is 'kernal'; did you mean 'kernel'?"),
    "semicolons": ("# input: 3x8x8\nname;op;out\n", "line 2: column is 'name;op;out'"),
    "no name column": ("# input: 3x8x8\nop,out\n", "line 2: the header lacks 'name'; it needs 'name' and 'op'"),
    "column twice": ("# input: 3x8x8\nname,op,op\n", "line 2: the header names a column twice"),
    "no nodes": (HEAD, "has a header but no nodes; it may have been cut off"),
    "short line": (HEAD + "c,Conv,4,3\n", "line 3: 4 cells where the header has 6; give each line as many (or was"),
    "long line": (HEAD + "c,Conv,4,3,,,7\n", "line 3: 7 cells where the header has 6"),
    "unknown op": (HEAD + "c,Covn,4,3,,\n", "line 3: op is 'Covn'; did you mean 'Conv'"),
    "no op": (HEAD + "c,,4,3,,\n", "line 3: op is ''; Known: 'Conv'"),
    "missing": (HEAD + "c,Conv,4,,,\n", "line 3: Conv needs 'kernel'; fill that cell"),
    "not taken": (HEAD + "c,Dense,4,3,,\n", "line 3: Dense has no 'kernel' (here '3'); it takes out, bias"),
    "takes none": (HEAD + "c,Add,4,,,\n", "line 3: Add has no 'out' (here '4'); it takes no settings"),
    "nan": (HEAD + "c,Conv,nan,3,,\n", "line 3: out is 'nan'; it must be a whole number"),
    "fraction": (HEAD + "c,Conv,4,3.5,,\n", "line 3: kernel is '3.5'; it must be a whole number, or two as in 3x5"),
    "negative": (HEAD + "c,Conv,-4,3,,\n", "line 3: out is '-4'; it must be a whole number"),
    "zero": (HEAD + "c,Conv,4,0,,\n", "line 3: Conv kernel is 0; it must be a whole number from 1"),
    "endless": (HEAD + "c,Conv," + "9" * 5000 + ",3,,\n", "line 3: out is '99999"),
    "three": (HEAD + "c,Conv,4,3x3x3,,\n", "line 3: kernel is '3x3x3'; it must be a whole number, or two"),
    "bias": (HEAD + "c,Conv,4,3,maybe,\n", "line 3: bias is 'maybe'; it must be yes or no"),
    "no node name": (HEAD + ",Conv,4,3,,\n", "line 3: node name is ''; it must be printable text"),
    "quotes": (HEAD + '"c,Conv,4,3,,\n', "line 3: this is not a line of a CSV file"),
    "twice": (HEAD + "c,Conv,4,3,,\nc,Conv,4,3,,\n", "line 4: node 'c' is there twice"),
    "unknown input": (HEAD + "c,Conv,4,3,,d\n", "line 3: an input of node 'c' is 'd'; Known: 'input'"),
    "later input": (HEAD + "c,Conv,4,3,,d\nd,Conv,4,3,,\n", "line 3: node 'c' reads 'd', which does not come before"),
    "shape": (HEAD + "c,Conv,4,9,,\n", "line 3: node 'c': the filter spans 9x9, more than the 8x8 input"),
    "sum": (HEAD + "c,Conv,4,3,,\na,Add,,,,c input\n", "line 4: node 'a': Add needs inputs of one shape"),
    "count": ("# nodes: 2\n" + HEAD + "c,Conv,4,3,,\n", "line 1: '# nodes:' says '2', but the file has 1; it may"),
    "name": ("# network: a,b\n" + HEAD + "c,Conv,4,3,,\n", "line 1: network name is 'a,b'; it must be printable"),
}  # fmt: skip


@pytest.mark.parametrize("case", FILES)
def test_wrong_files(case, tmp_path):
    text, *messages = FILES[case]
    path = written(tmp_path, text)
    with pytest.raises(ValueError) as caught:
        read_csv(path)
    assert all(message in str(caught.value) for message in (str(path), *messages))
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400


def test_a_missing_file_a_folder_and_a_folder_that_cannot_be(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no file .*none.csv'; check the path"):
        read_csv(tmp_path / "none.csv")
    with pytest.raises(ValueError, match="is a folder; give a file in it"):
        read_csv(tmp_path)
    (tmp_path / "file").write_text("x")
    with pytest.raises(ValueError, match="cannot write .*; choose a folder you may write to"):
        write_csv(networks.sample4(), tmp_path / "file" / "n.csv")


def test_a_file_cut_off_anywhere_is_noticed(tmp_path):
    whole = write_csv(networks.sample4(), tmp_path / "whole.csv").read_text()
    for length in range(len(whole) - 1):
        with pytest.raises(ValueError):
            read_csv(written(tmp_path, whole[:length]))
    assert read_csv(written(tmp_path, whole[:-1])) == networks.sample4()


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_any_damage_gives_a_network_or_a_sentence(data, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "damaged.csv"
    content = bytearray((DATA / "sample4.csv").read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(bytes(content))
    try:
        assert isinstance(read_csv(path), Network)
    except ValueError as error:
        assert str(path) in str(error) and str(error).isprintable()


LONG_TEXT = {
    "node name": lambda: Node(" " + "x" * 5000, Conv(1, 1), "input"),
    "operation": lambda: Node("a", "x" * 5000, "input"),
    "no inputs": lambda: Node("x" * 5000, Conv(1, 1), ()),
    "unknown input": lambda: build((Conv(1, 1), "x" * 5000)),
    "node twice": lambda: Network("n", (1, 1, 1), (Node("x" * 5000, Conv(1, 1), "input"),) * 2),
    "network name": lambda: Network("," * 5000, (1, 1, 1), (Node("a", Conv(1, 1), "input"),)),
    "input shape": lambda: Network("n", [3] * 5000, (Node("a", Conv(1, 1), "input"),)),
    "input side": lambda: Network("n", (1, 1, 10**5000), (Node("a", Conv(1, 1), "input"),)),
    "nodes": lambda: Network("n", (1, 1, 1), ["x" * 5000]),
    "nodes of a number": lambda: Network("n", (1, 1, 1), np.array(3)),
    "flag": lambda: Conv(1, 1, bias="x" * 5000),
    "size": lambda: Conv(10**5000, 1),
    "array as a number": lambda: Conv(np.array([3, 3]), 1),
    "kind": lambda: Activation("x" * 5000),
    "network": lambda: network("x" * 5000),
}


@pytest.mark.parametrize("case", LONG_TEXT)
def test_long_input_is_cut_in_messages(case):
    with pytest.raises(ValueError) as caught:
        LONG_TEXT[case]()
    assert len(str(caught.value)) < 350


def test_joins_name_a_few_of_many_shapes():
    with pytest.raises(ValueError, match="gets 1x1x1 and 2x1x1 and 3x1x1 and 4x1x1 and 996 more$"):
        output_shape(Add(), *[(c, 1, 1) for c in range(1, 1001)])


@pytest.mark.parametrize("text", [
    "# input: 3x8x8\nname,op,out,kernel\nc," + "x" * 5000 + ",4,3\n",
    "# input: 3x8x8\nname,op,out,kernel\nc,Conv," + "9" * 5000 + ",3\n",
    "# input: 3x8x8\nname,op,out,kernel,bias\nc,Conv,4,3," + "x" * 5000 + "\n",
    "# input: 3x8x8\nname,op,out,kernel\nc,Dense,4," + "3" * 5000 + "\n",
    "# input: 3x8x8\nname,op," + "x" * 5000 + "\nc,Conv,4\n",
    "# input: " + "3" * 5000 + "\nname,op\nc,Conv\n",
    "# input: 3x8x8\n# nodes: " + "3" * 5000 + "\nname,op,out,kernel\nc,Conv,4,3\n",
    "# input: 3x8x8\n# network: " + "\t" + "," + "x" * 5000 + "\nname,op,out,kernel\nc,Conv,4,3\n",
])  # fmt: skip
def test_long_cells_are_cut_in_messages(tmp_path, text):
    path = tmp_path / "net.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match="net.csv, line ") as caught:
        read_csv(path)
    assert len(str(caught.value)) < 400


# ---- operations of model files: what they make is stated


VIDEO = dict(channels=3, sides=(4, 9, 8), out_channels=6, kernel=(3, 3, 2), stride=(1, 2, 2), dilation=(1, 1, 2),
             before=(1, 0, 1), after=(1, 2, 0), groups=3)  # fmt: skip


def windows(side, kernel, stride, dilation, before, after):
    """Count windows by sliding one."""
    starts = range(-before, side + after, stride)
    return sum(start + dilation * (kernel - 1) < side + after for start in starts)


def test_a_convolution_of_any_sides_counts_its_windows():
    op = networks.ConvND(**VIDEO)
    fields = [VIDEO[name] for name in ("sides", "kernel", "stride", "dilation", "before", "after")]
    assert op.output == tuple(windows(*values) for values in zip(*fields))
    assert op.weight_count == 6 * 1 * 18 and op.macs == op.weight_count * math.prod(op.output)
    net = Network("video", (3, 4, 9, 8), [Node("conv", op, "input")])
    assert net.shapes["conv"] == (6, *op.output) and net.parameters == op.weight_count + 6


def test_a_flat_convolution_of_any_sides_is_a_convolution():
    plain = Conv(8, 3, stride=2, padding=1, groups=2)
    stated = networks.ConvND(4, (9, 8), 8, (3, 3), (2, 2), (1, 1), (1, 1), (1, 1), groups=2)
    one, other = (Network("n", (4, 9, 8), [Node("c", op, "input")]) for op in (plain, stated))
    assert one.shapes == other.shapes and one.parameters == other.parameters
    assert one.layers[0].macs() == other.layers[0].macs()


def test_a_transposed_convolution_of_any_sides_mirrors_the_convolution():
    op = networks.ConvND(4, (5, 6), 8, (3, 3), (2, 2), (1, 1), (1, 1), (0, 0), groups=2, transposed=True)
    assert op.output == (10, 12)  # (H - 1) 2 + 3 - 1: an extra row and column, as with an output padding of 1
    back = networks.ConvND(8, op.output, 4, (3, 3), (2, 2), (1, 1), (1, 1), (0, 0), groups=2)
    assert back.output == (5, 6) and back.weight_count == op.weight_count and back.macs == op.macs


def attention(T=8, d=4, heads=2):
    width, MatMul = d * heads, networks.MatMul
    names = ("q", "k", "v")
    return Network("attention", (T, 1, width), [
        *(Node(name, MatMul(T, width, width, bias=True), "input") for name in names),
        Node("scores", MatMul(T, d, T, count=heads, shape=(heads, T, T), weights=False), ("q", "k")),
        Node("softmax", networks.Carried("Softmax", (heads, T, T)), "scores"),
        Node("mix", MatMul(T, T, d, count=heads, weights=False), ("softmax", "v")),
        Node("out", MatMul(T, width, width), "mix"),
        Node("sum", networks.Carried("Add", (T, 1, width), parameters=width), ("out", "input")),
    ])  # fmt: skip


def test_attention_by_hand():
    net = attention()
    assert [layer.weights for layer in net.layers] == [64, 64, 64, 0, 0, 64]
    assert [layer.macs() for layer in net.layers] == [512] * 3 + [512] * 3
    assert net.parameters == 4 * 64 + 3 * 8 + 8
    assert [layer.input_elements for layer in net.layers] == [64, 64, 64, 128, 128 + 64, 64]
    # after q: q and the input; after k: q, k, input; after v: all four; then softmax, v, the input; mix and the input
    assert net.cut_elements == (128, 192, 256, 128 + 64 + 64, 64 + 64)
    assert [layer.first_consumer for layer in net.layers] == [4, 4, 5, 5, 6, 7]
    assert [layer.shared_input for layer in net.layers] == [True] * 3 + [False] * 3


def test_a_view_crosses_a_cut_as_the_tensor_it_looks_at():
    def crossing(op):
        return Network("n", (4, 6, 6), [
            Node("a", Conv(4, 1), "input"), Node("view", op, "a"), Node("b", Conv(4, 1), "a"),
            Node("join", networks.Carried("Add", (4, 6, 6)), ("b", "view")),
        ]).cut_elements  # fmt: skip

    assert crossing(networks.Carried("Transpose", (4, 6, 6))) == (144,)
    assert crossing(Activation()) == (288,)


def test_products_of_stated_operations_count_the_macs_of_their_layers():
    nets = [attention(), Network("video", (3, 4, 9, 8), [Node("conv", networks.ConvND(**VIDEO), "input")])]
    for layer in (layer for net in nets for layer in net.layers):
        for batching in ("folded", "per_image"):
            products = {op: gemms(layer, op, batch=3, batching=batching) for op in ("F", "G", "delta")}
            macs = {op: sum(product.macs for product in found) for op, found in products.items()}
            assert macs["F"] == layer.macs(3)
            expected = (0, 2 * macs["F"]) if not layer.weights else (macs["F"], macs["F"])
            assert (macs["G"], macs["delta"]) == expected


def test_phases_of_three_sides_multiply_what_exists():
    layer = Network("video", (3, 4, 9, 8), [Node("conv", networks.ConvND(**VIDEO), "input")]).layers[0]
    sides = [VIDEO[name] for name in ("sides", "kernel", "stride", "dilation", "before")]
    pairs = 1
    for (side, kernel, stride, dilation, before), E in zip(zip(*sides), layer.op.output):
        pairs *= sum(0 <= e * stride + t * dilation - before < side for e in range(E) for t in range(kernel))
    assert useful_macs(layer) == 3 * 1 * 2 * pairs
    phases = sum(product.macs for product in gemms(layer, "delta", delta="phases"))
    assert useful_macs(layer) <= phases <= gemms(layer, "delta", delta="zero_insert")[0].macs


def test_costs_of_stated_operations_add_up_product_by_product():
    found = costs(attention(), "4x4", batch=3)
    for index, layer in enumerate(attention().layers):
        for op, column in (("F", found.F), ("G", found.G), ("delta", found.delta)):
            each = [int(gemm_cycles(g.M, g.K, g.N, 4, 4)) * g.count for g in gemms(layer, op, batch=3)]
            assert column[index] == (0 if op == "delta" and index < 3 else sum(each))
    assert found.weight_bytes.tolist() == [256, 256, 256, 0, 0, 256]


STATED_ERRORS = {
    "size": (lambda: networks.MatMul(0, 4, 4), "MatMul M is 0; it must be a whole number from 1"),
    "shape": (lambda: networks.MatMul(2, 4, 4, shape=(2, 2, 4)), "MatMul shape is (2, 2, 4), not the 8 elements of 1"),
    "flat shape": (lambda: networks.MatMul(2, 4, 4, shape=(8,)),
                   "MatMul shape is (8,); it must be three whole numbers"),
    "flag": (lambda: networks.MatMul(2, 4, 4, bias="no"), "MatMul weights and bias are True and 'no'"),
    "sides": (lambda: networks.ConvND(**VIDEO | {"kernel": (3, 3)}), "ConvND kernel is (3, 3) for the sides (4, 9, 8)"),
    "groups": (lambda: networks.ConvND(**VIDEO | {"groups": 2}), "ConvND groups is 2, no divisor of 3 and 6 channels"),
    "padding": (lambda: networks.ConvND(**VIDEO | {"after": (-1, 0, 0)}), "ConvND after is -1; it must be a whole"),
    "nothing": (lambda: networks.ConvND(**VIDEO | {"kernel": (9, 3, 2)}), "ConvND leaves an output of (-2, 5, 4)"),
    "kind": (lambda: networks.Carried("", (1, 1, 1)), "Carried kind is ''; it must be the name of an operation"),
    "carried shape": (lambda: networks.Carried("Exp", (1, 0, 1)), "a number of Carried shape is 0; it must be a whole"),
    "macs": (lambda: networks.Carried("LSTM", (1, 1, 1), 0, -1), "Carried missing_macs is -1; it must be a whole"),
    "one operand": (
        lambda: build((networks.MatMul(8, 8, 8, weights=False), "input")),
        "node 'n0': MatMul without weights takes exactly two inputs, but has 1",
    ),
    "input": (lambda: build((networks.ConvND(**VIDEO), "input")), "node 'n0': ConvND takes 3x4x9x8, but gets 3x8x8"),
    "four numbers": (
        lambda: build((Conv(4, 1), "input"), shape=(3, 4, 8, 8)),
        "node 'n0': Conv takes (channels, height, width), but gets 3x4x8x8",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", STATED_ERRORS)
def test_errors_of_stated_operations(case):
    wrong, message = STATED_ERRORS[case]
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        wrong()
    assert "\n" not in str(caught.value)


def test_the_plain_form_of_file_refuses_what_it_cannot_hold(tmp_path):
    with pytest.raises(ValueError, match="node 'q' is a MatMul, which this form of file cannot hold; keep the model"):
        write_csv(attention(), tmp_path / "a.csv")
    assert not (tmp_path / "a.csv").exists()


def test_scalesim_v1_reads_uneven_padding_and_refuses_more_sides():
    uneven = networks.ConvND(3, (8, 8), 4, (3, 3), (2, 2), (1, 1), (0, 0), (1, 1))
    even = Network("n", (3, 9, 9), [Node("c", Conv(4, 3, stride=2), "input")])  # the same map with the padding in it
    net = Network("n", (3, 8, 8), [Node("c", uneven, "input")])
    one, other = (costs(n, "4x4", batch=1, convention="scalesim_v1").F for n in (net, even))
    assert one.tolist() == other.tolist()
    with pytest.raises(ValueError, match="scalesim_v1 reads maps of two sides, not of 3; use convention 'scalesim'"):
        costs(Network("v", (3, 4, 9, 8), [Node("c", networks.ConvND(**VIDEO), "input")]), convention="scalesim_v1")
