"""Delta's part of a measured backward time: the rules, the products told from a profile, and own fractions."""

import re
from dataclasses import astuple, replace
from fractions import Fraction

import numpy as np
import pytest
from profile_cases import BRANCH

from lpkit.interop.pipedream import PROFILES, Graph, Operation, read_profile, to_costs
from lpkit.interop.pipedream_split import SPLITS, forward_gemm, layer_name
from lpkit.networks import network
from lpkit.products import Gemm, gemms
from lpkit.systolic import Array, cycles

LONG = "z" * 5000


def deltas(split, graph=BRANCH, **options):
    return to_costs(graph, split_backward=split, **options).delta.tolist()


def test_rules():
    assert deltas("half") == [0, 3, 1]
    assert deltas("by_forward") == [0, 4, 0]
    assert deltas(0.25, first_layer_delta=True) == [1, 1.5, 0.5]


def test_own_fractions():
    assert deltas({"n4": 0.25, "n7 Linear": 1}) == [0, 1.5, 2]
    assert deltas({"n7": 1}) == [0, 3, 2]  # half where not named
    assert deltas([1, 0.5, Fraction(1, 4)]) == [0, 3, 0.5]  # nothing learns before the first
    assert deltas(np.array([1, 0.5, 0]), first_layer_delta=True) == [4, 3, 0]
    assert deltas({"n3": 1, "n5": 1}, granularity="nodes") == [0, 1, 3, 1, 0, 1]


@pytest.mark.parametrize("kind", [np.int64, np.float32, np.longdouble, Fraction])
def test_numbers_of_other_kinds(kind):
    assert deltas(kind(1)) == deltas({"n4": kind(1), "n7": kind(1)}) == [0, 6, 2]


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize("granularity", ["fused", "nodes"])
@pytest.mark.parametrize("split", [*SPLITS, 0, 1, {}])
def test_no_split_makes_or_loses_time(name, granularity, split):
    graph = read_profile(name)
    whole, found = (to_costs(graph, granularity=granularity, split_backward=s) for s in (0, split))
    np.testing.assert_allclose(found.G + found.delta, whole.G, rtol=1e-15)
    assert (found.F == whole.F).all() and (found.delta >= 0).all() and (found.G >= 0).all()


def test_nothing_is_sent_back_where_nothing_learns():
    # The decoder of GNMT begins with a table of its own, which reads nothing but an input of the network.
    chain = to_costs(read_profile("gnmt"))
    tables = [layer for layer, name in enumerate(chain.layers) if "Embedding" in name]
    assert tables == [0, 5] and chain.delta[tables].tolist() == [0, 0]
    assert (to_costs(read_profile("gnmt"), first_layer_delta=True).delta[tables] > 0).all()
    scale = Operation("n0", "BatchNorm2d", 0, 0, 7, 8, ("n1",))  # one that learns, before the first convolution
    before = replace(BRANCH, operations=(BRANCH.operations[0], scale, replace(BRANCH.operations[1], inputs=("n0",)),
                                         *BRANCH.operations[2:]))  # fmt: skip
    assert deltas("half", before) == [2, 3, 1]


# ---- products -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["vgg16", "resnet50"])
def test_products_are_those_of_the_built_in_network(name):
    heads = [o for o in read_profile(name).operations if o.operation.startswith(("Conv2d", "Linear"))]
    built = [gemm for layer in network(name).layers for gemm in gemms(layer, "F", batch=128)]
    assert sorted(map(astuple, map(forward_gemm, heads))) == sorted(map(astuple, built))


@pytest.mark.parametrize("array", [Array(32, 32), Array(128, 64, "os")])
def test_shares_are_those_of_the_cycles(array):
    chain = to_costs(read_profile("vgg16"), split_backward="by_gemm", array=array, granularity="nodes")
    heads = [o for o in read_profile("vgg16").operations if o.parameters]
    delta = dict(zip(chain.layers, chain.delta.tolist()))
    for o, layer in zip(heads[1:], network("vgg16").layers[1:], strict=True):
        G, error = (cycles(layer, op, array, batch=128) for op in ("G", "delta"))
        assert delta[layer_name(o)] == pytest.approx(o.backward * error / (G + error), rel=1e-12)


def operation(text, parameters, activation):
    return Operation("n1", text, 1, 1, activation, parameters)


@pytest.mark.parametrize("text, parameters, activation, gemm", [
    ("Conv2d(3, 4, kernel_size=(3, 5), stride=(2, 2), bias=False)", 4 * 180, 4 * 4 * 7, Gemm(7, 45, 4)),
    ("Conv2d(3, 4, kernel_size=(3, 5), stride=(2, 2))", 2 * 184, 2 * 4 * 7, Gemm(7, 45, 4)),
    ("Conv2d(6, 4, kernel_size=(1, 1), stride=(1, 1), groups=2, bias=False)", 4 * 12, 4 * 4 * 7, Gemm(7, 3, 2, 2)),
    ("Conv2d(3, 4, kernel_size=(3, 3), stride=(1, 1), dilation=(2, 2), bias=False)", 4 * 108, 16, Gemm(1, 27, 4)),
    ("Conv1d(3, 4, kernel_size=(7,), stride=(1,))", 4 * 88, 16 * 9, Gemm(9, 21, 4)),
    ("Conv3d(1, 2, kernel_size=(2, 2, 2), stride=(1, 1, 1), bias=False)", 8 * 16, 8 * 2 * 5, Gemm(5, 8, 2)),
    ("Linear(in_features=5, out_features=3, bias=True)", 4 * 18, 4 * 3 * 9, Gemm(9, 5, 3)),
    ("Linear(in_features=5, out_features=3, bias=False)", 15, 3, Gemm(1, 5, 3)),
    ("Linear(in_features=5, out_features=3)", 18, 3, Gemm(1, 5, 3)),
    ("Head(  (dense): Linear(in_features=5, out_features=3, bias=True))", 72, 12, Gemm(1, 5, 3)),
])  # fmt: skip
def test_products_told_from_a_profile(text, parameters, activation, gemm):
    assert forward_gemm(operation(text, parameters, activation)) == gemm


@pytest.mark.parametrize("text, parameters, activation", [
    ("ReLU(inplace)", 72, 12), ("LSTM(5, 3)", 72, 12), ("Conv2d", 72, 12), ("Linear(5)", 72, 12), ("Conv2d(", 72, 12),
    ("ConvTranspose2d(1, 2, kernel_size=(3, 3), bias=False)", 72, 8),
    ("Linear(in_features=5, out_features=3, bias=True)", 73, 12),  # parameters that it cannot have
    ("Linear(in_features=5, out_features=3, bias=True)", 72, 13),  # no whole number of rows
    ("Linear(in_features=5, out_features=3, bias=True)", 72, 0),
    ("Linear(in_features=5, out_features=3, bias=True)", 0, 12),
    ("Linear(in_features=0, out_features=3, bias=True)", 12, 12), ("Linear(in_features=5, out_features=0)", 0, 12),
    ("Conv2d(6, 4, kernel_size=(1, 1), groups=0)", 72, 12), ("Conv2d(6, 4, kernel_size=(1, 1), groups=4)", 40, 16),
    ("Two(Linear(in_features=1, out_features=3), Linear(in_features=1, out_features=3))", 24, 12),
])  # fmt: skip
def test_products_that_a_profile_does_not_tell(text, parameters, activation):
    assert forward_gemm(operation(text, parameters, activation)) is None


def test_what_is_not_known_is_halved_and_said():
    known = operation("Linear(in_features=5, out_features=3, bias=False)", 60, 24)
    graph = Graph("g", (known, Operation("n2", "LSTM(5, 3)", 1, 3, 24, 4, ("n1",)),
                        replace(known, id="n3", inputs=("n2",))), "made up")  # fmt: skip
    chain = to_costs(graph, split_backward="by_gemm", array="2x2")
    # Of M, K, N = 2, 5, 3 on 2x2: delta (2, 3, 5) has 2 x 3 folds of 6 cycles, G (5, 2, 3) 1 x 2 folds of 9.
    assert chain.delta.tolist() == [0, 1.5, 36 / 54]
    assert chain.source == ("made up; backward time of operations with weights: delta by the cycles of its product on "
                            "2x2 ws, half for 1 of 2 operations (75.0% of the time that is split)")  # fmt: skip
    assert to_costs(graph, split_backward={"n3": 0}).source.endswith(
        "delta by fractions given, half for 1 of 2 operations (75.0% of the time that is split)")


@pytest.mark.parametrize("name, said", [
    ("vgg16", ""), ("resnet50", ""), ("gnmt", ", half for 8 of 9 operations (97.4% of the time that is split)"),
])
def test_what_is_not_known_of_the_shipped_profiles(name, said):
    source = to_costs(read_profile(name), split_backward="by_gemm").source
    assert source.endswith(f"delta by the cycles of its product on 32x32 ws{said}")


@pytest.mark.parametrize("split, said", [
    ("half", "delta is half of it"), ("by_forward", "delta is what exceeds forward"), (0.25, "delta is 0.25 of it"),
    ([0, 1, 1], "delta by fractions given"),
])  # fmt: skip
def test_the_source_says_how_the_time_was_split(split, said):
    assert re.fullmatch(f"made up; .*: {said}", to_costs(BRANCH, split_backward=split).source)


def test_a_long_description_takes_no_time():
    assert forward_gemm(operation("Conv2d(" * 50_000, 72, 12)) is None
    assert forward_gemm(operation("Conv2d(" + "(x)" * 50_000, 72, 12)) is None
    assert forward_gemm(operation(f"Linear(in_features={'9' * 50_000}, out_features=3)", 72, 12)) is None


@pytest.mark.parametrize("split, message", [
    ("evenly", "split_backward is 'evenly'; Known: 'half', 'by_forward', 'by_gemm'"),
    (1.5, "split_backward is 1.5; as a number it must lie between 0 and 1"),
    (float("nan"), "split_backward is nan; as a number it must lie between 0 and 1"),
    pytest.param(10**5000, "split_backward is a whole number of about 5001 digits;", id="huge"),
    (None, "split_backward is None; Known: 'half', 'by_forward', 'by_gemm'"),
    ({"n4 Conv": 1}, "the layer of split_backward is 'n4 Conv'; did you mean 'n4 Conv2d' or 'n2 Conv2d'?"),
    ({"n5": 1}, "the layer of split_backward is 'n5'; Known: 'n2 Conv2d', 'n4 Conv2d', 'n7 Linear'"),
    ({4: 1}, "the layer of split_backward is 4; Known: 'n2 Conv2d'"),
    ({LONG: 1}, "the layer of split_backward is 'zzz"),
    ({"n4": 1, "n4 Conv2d": 1}, "split_backward names layer 'n4 Conv2d' twice, by its name and by its id; name"),
    ({"n4": 1.5}, "split_backward of layer 'n4 Conv2d' is 1.5; it must be a number from 0 to 1"),
    ([0, "half", 1], "split_backward of layer 'n4 Conv2d' is 'half'; it must be a number from 0 to 1"),
    ([0, [1], 1], "split_backward of layer 'n4 Conv2d' is [1]; it must be a number from 0 to 1"),
    ([0, 1], "split_backward is [0, 1]; as a sequence it must be 3 numbers, one a layer"),
    (np.zeros((3, 1)), "as a sequence it must be 3 numbers, one a layer"),
    (np.array([]), "as a sequence it must be 3 numbers, one a layer"),
])
def test_what_is_wrong_with_a_split(split, message):
    with pytest.raises(ValueError) as error:
        to_costs(BRANCH, split_backward=split)
    assert message in str(error.value) and len(str(error.value)) < 400


def test_what_is_wrong_with_an_array():
    with pytest.raises(ValueError, match="^array is 'large'; it must be ROWSxCOLUMNS, such as 32x32$"):
        to_costs(BRANCH, split_backward="by_gemm", array="large")
