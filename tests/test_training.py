"""The executor against the recurrence, bit by bit: sequential, delayed, retimed, split; and that this can fail."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lpkit.derivation import derive, split_delta
from lpkit.dfg import DFG, backprop_dfg, operation, stages_after
from lpkit.execution import execute
from lpkit.layerwise import backpropagation, input_error
from lpkit.networks import (
    Activation, Add, BatchNorm, Conv, ConvTranspose, Dense, Flatten, Network, Node, Pool, lenet5,
)  # fmt: skip
from lpkit.numerics import ordered_product, softmax_cross_entropy, squared_error
from lpkit.training import (
    Error, chain_layers, initial_parameters, input_signal, recurrence, train, training_operations,
)  # fmt: skip

# networks and data ---------------------------------------------------------------------------------------------------


def chained(name, shape, *ops):
    names = [f"{type(op).__name__.lower()}{i}" for i, op in enumerate(ops)]
    return Network(name, shape, tuple(map(Node, names, ops, ["input", *names])))


def mlp(layers, *, activation="tanh", bias=True, seed=0):
    widths = np.random.default_rng(seed).integers(3, 9, layers + 1).tolist()
    ops = [op for width in widths[1:] for op in (Dense(width, bias=bias), Activation(activation))]
    return chained(f"mlp{layers}", (widths[0], 1, 1), *ops[:-1])


def small_lenet(*, kind="average", activation="tanh"):
    """LeNet-5 in small: two convolutions with pooling, three dense layers."""
    act = Activation(activation)
    return chained(
        "small_lenet", (1, 12, 12), Conv(4, 3), act, Pool(2, kind=kind), Conv(6, 2), act, Pool(2, kind=kind),
        Flatten(), Dense(9), act, Dense(7), act, Dense(4),
    )  # fmt: skip


def strange():
    """Stride, padding, dilation, groups, pooling before the activation, an output activation, few biases."""
    return chained(
        "strange", (2, 9, 8), Conv(4, 3, stride=(2, 1), padding=1, bias=False), Pool(2, stride=1), Activation("relu"),
        Conv(4, (2, 3), groups=4, dilation=(2, 1)), Activation("sigmoid"), Flatten(), Activation("tanh"),
        Dense(5, bias=False), Activation("tanh"),
    )  # fmt: skip


def without_flatten():
    """Maps of one pixel go straight into dense layers."""
    return chained("pixels", (2, 6, 6), Conv(3, 3), Activation("tanh"), Pool(4), Dense(5), Activation("relu"), Dense(4))


def batches_of(network, count, *, batch=3, dtype=np.float64, seed=1):
    rng = np.random.default_rng(seed)
    outputs = network.shapes[network.nodes[-1].name][0]
    return [(rng.standard_normal((batch, *network.input_shape)).astype(dtype), rng.integers(0, outputs, batch))
            for _ in range(count)]  # fmt: skip


# graphs, from the table of delays, without the library's retiming ----------------------------------------------------


def with_delays(dfg, new):
    return dfg.with_delays([new(*edge) for edge in dfg.edges])


def after(S, node):
    """Lag of a node after retiming: r(F) = r(U) = -S, r(G) = r(delta) = S."""
    kind, layer = operation(node)
    return 0 if layer is None else S[layer - 1] * (-1 if kind in ("F", "U") else 1)


def delayed(layers, S, extra=None):
    """S(1) delays on what X and T send, 2 S(l) between G_l and U_l (or `extra`)."""
    M = extra or [2 * s for s in S]

    def new(source, target, delays):
        if source in ("X", "T"):
            return delays + S[0]
        return delays + M[operation(target)[1] - 1] if operation(source)[0] == "G" else delays

    return with_delays(backprop_dfg(layers), new)


def retimed(layers, S):
    return with_delays(delayed(layers, S), lambda u, v, w: w + after(S, v) - after(S, u))


def split(dfg, S, layers):
    """delta of each of `layers` in two parts and a join; delta'' has the lag of the stage of the next layer."""
    edges = []
    for source, target, delays in dfg.edges:
        kind, l = operation(target)
        source_kind = operation(source)[0]
        if kind == "delta" and l in layers:
            late = S[l - 1] - (*S, 0)[l]  # delta'' runs so many clocks before delta'
            if source_kind in ("F", "X"):
                edges.append((source, f"join{l}", delays))
            else:
                edges += [(source, f"delta{l}'", delays), (source, f"delta{l}''", delays - late)]
                if source_kind == "U":
                    edges += [(f"delta{l}'", f"join{l}", 0), (f"delta{l}''", f"join{l}", late)]
        else:
            edges.append((source, target, delays))
    renamed = {f"delta{l}": f"join{l}" for l in layers}
    return DFG.from_edges([(renamed.get(u, u), v, w) for u, v, w in edges])


# bit equality --------------------------------------------------------------------------------------------------------


def same(a, b):
    return all((x is None and y is None) or (x.dtype == y.dtype and np.array_equal(x, y)) for x, y in zip(a, b))


def bit_equal(dfg, network, batches, *, delays, offsets, dtype=np.float64, **options):
    """Whether each U_l at clock offsets[l] + n gives W_l(n + 1) of the recurrence, for every n; and W_l(0) before."""
    start = initial_parameters(network, seed=3, dtype=dtype)
    common = {"step_size": 0.3, "loss": options.pop("loss", "cross_entropy")}
    products = options.get("products")
    wanted = [W for W, _ in recurrence(network, batches, delays, parameters=start, products=products, **common)]
    assert not any(same(p, q) for p, q in zip(wanted[-1], start))  # every layer did learn
    operations = training_operations(dfg, network, **common, **options)
    samples = {"X": [input_signal(chain_layers(network), x) for x, _ in batches], "T": [t for _, t in batches]}
    initial = {f"U{l}": p for l, p in enumerate(start, 1)}
    clocks = list(execute(dfg, operations, samples, initial=lambda node, clock: initial.get(node)))
    for l, offset in enumerate(offsets):
        sequence = [start[l]] * offset + [W[l] for W in wanted]
        sequence += [sequence[-1]] * (len(clocks) - len(sequence))
        if not all(same(now[f"U{l + 1}"], W) for now, W in zip(clocks, sequence)):
            return False
    return len(clocks) >= len(batches)


def three_graphs(network, stages, **options):
    L = len(network.layers)
    S = stages_after(stages, L)
    zero, M = [0] * L, [2 * s for s in S]
    assert bit_equal(backprop_dfg(L), network, delays=zero, offsets=zero, **options)
    assert bit_equal(delayed(L, S), network, delays=M, offsets=[S[0]] * L, **options)
    assert bit_equal(retimed(L, S), network, delays=M, offsets=[S[0] - s for s in S], **options)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("stages", [
    (1, 2), (1, 2, 3), (1, 2, 3, 4), (1, 2, 3, 4, 5), (1, 2, 3, 4, 5, 6), (1, 1, 2, 2), (1, 1, 2, 2, 3, 3),
    (1, 1, 1, 2, 3), (1, 1, 1),
])  # fmt: skip
def test_mlp_sequential_delayed_and_retimed_are_the_recurrence(stages, dtype):
    network = mlp(len(stages))
    three_graphs(network, stages, batches=batches_of(network, 25, dtype=dtype), dtype=dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("stages", [(1, 2, 3, 4, 5), (1, 2, 2, 3, 3)])
@pytest.mark.parametrize("network", [small_lenet(), small_lenet(kind="max", activation="relu")])
def test_convolutional_networks_too(network, stages, dtype):
    three_graphs(network, stages, batches=batches_of(network, 14, dtype=dtype), dtype=dtype)


def test_every_kind_of_layer_and_tail():
    three_graphs(strange(), (1, 2, 3), batches=batches_of(strange(), 14))


def test_maps_of_one_pixel_need_no_flatten():
    three_graphs(without_flatten(), (1, 2, 3), batches=batches_of(without_flatten(), 10))


def test_squared_error_without_biases():
    network = mlp(3, bias=False, activation="sigmoid")
    rng = np.random.default_rng(0)
    shape = (2, network.shapes[network.nodes[-1].name][0])
    batches = [(x, rng.standard_normal(shape)) for x, _ in batches_of(network, 12, batch=2)]
    three_graphs(network, (1, 2, 3), batches=batches, loss="squared_error")


@settings(max_examples=25, deadline=None)
@given(st.lists(st.booleans(), min_size=1, max_size=5), st.integers(1, 9), st.integers(0, 99))
def test_any_grouping_and_any_number_of_samples(boundaries, count, seed):
    stages = list(itertools.accumulate(boundaries, initial=1))
    network = mlp(len(stages), seed=seed)
    three_graphs(network, stages, batches=batches_of(network, count, seed=seed))


@pytest.mark.parametrize("network, stages", [
    (mlp(2), (1, 2)), (mlp(3), (1, 2, 3)), (mlp(4), (1, 1, 2, 2)), (mlp(6), (1, 2, 2, 3, 4, 4)), (small_lenet(), None),
])  # fmt: skip
def test_every_step_of_the_derivation_computes_the_same(network, stages):
    S = stages_after(stages, len(network.layers))
    steps = derive(len(S), stages)
    assert len(steps) == 2 + 2 * S[0]
    batches = batches_of(network, 12)
    for step in steps:
        offsets = [S[0] + step.lags[f"U{l}"] for l in range(1, len(S) + 1)]
        assert bit_equal(step.dfg, network, batches, delays=[2 * s for s in S], offsets=offsets)


@pytest.mark.parametrize("wrong", [(3, 2, 0), (4, 1, 0), (4, 2, 1)])
def test_a_wrong_delay_is_not_equal(wrong):
    network, S = mlp(3), (2, 1, 0)
    batches = batches_of(network, 25)
    right = {"delays": (4, 2, 0), "offsets": [2, 2, 2]}
    assert bit_equal(delayed(3, S), network, batches, **right)
    assert not bit_equal(delayed(3, S, extra=wrong), network, batches, **right)


@pytest.mark.parametrize("edge, by", [
    (("U2", "delta2"), -1), (("F1", "delta2"), -1), (("F1", "G2"), -1), (("F2", "F3"), -1), (("T", "E"), -1),
    (("U2", "delta2"), 1), (("F1", "delta2"), 1), (("F1", "G2"), 1), (("F2", "F3"), 1), (("T", "E"), 1),
    (("U3", "F3"), 1), (("X", "G1"), 1), (("delta2", "G1"), 1), (("E", "G3"), 1),
])  # fmt: skip
def test_one_register_more_or_less_on_an_edge_of_the_retimed_graph_is_not_equal(edge, by):
    network, S = mlp(3), (2, 1, 0)
    graph = retimed(3, S)
    right = {"delays": (4, 2, 0), "offsets": [0, 1, 2]}
    batches = batches_of(network, 25)
    assert bit_equal(graph, network, batches, **right)
    assert any(e[:2] == edge for e in graph.edges)
    wrong = with_delays(graph, lambda u, v, w: w + by * ((u, v) == edge))
    assert not bit_equal(wrong, network, batches, **right)


# delta split ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("network, stages, where, moved", [
    (mlp(3), (1, 2, 3), [2], {}),
    (mlp(4), (1, 2, 3, 4), [2, 3], {2: 1}),
    (mlp(5), (1, 1, 2, 3, 3), [2, 3, 4], {}),
    (small_lenet(), (1, 2, 3, 4, 5), [2, 3, 4], {2: 1, 3: 5}),
    (small_lenet(), (1, 2, 2, 3, 3), [3], {3: 1}),
    (strange(), (1, 2, 3), [2], {2: 3}),
])  # fmt: skip
def test_delta_split_is_the_recurrence(network, stages, where, moved, dtype):
    L = len(network.layers)
    S = stages_after(stages, L)
    graph = split(retimed(L, S), S, where)
    assert sum("''" in node for node in graph.nodes) == len(where)
    batches = batches_of(network, 14, dtype=dtype)
    assert bit_equal(graph, network, batches, delays=[2 * s for s in S], offsets=[S[0] - s for s in S], dtype=dtype,
                     products={"delta": ordered_product}, moved=moved)  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("network, stages, where", [
    (mlp(3), None, [2]), (mlp(5), (1, 2, 2, 3, 3), [3]), (mlp(4), None, [2, 3, 4]), (small_lenet(), None, [2, 3]),
])  # fmt: skip
def test_delta_split_of_the_derived_graph_is_the_recurrence(network, stages, where, dtype):
    S = stages_after(stages, len(network.layers))
    graph = derive(len(S), stages)[-1].dfg
    for layer in where:
        graph = split_delta(graph, layer, Fraction(1, 3))
    batches = batches_of(network, 14, dtype=dtype)
    assert bit_equal(graph, network, batches, delays=[2 * s for s in S], offsets=[S[0] - s for s in S], dtype=dtype,
                     products={"delta": ordered_product}, moved={where[0]: 1})  # fmt: skip


def test_a_part_that_uses_the_weights_of_another_iteration_is_not_equal():
    network, S = mlp(3), (2, 1, 0)
    graph = with_delays(split(retimed(3, S), S, [2]), lambda u, v, w: w - ((u, v) == ("U2", "delta2''")))
    assert not bit_equal(graph, network, batches_of(network, 25), delays=(4, 2, 0), offsets=[0, 1, 2],
                         products={"delta": ordered_product})  # fmt: skip


@pytest.mark.parametrize("network, l, cut", [(strange(), 2, 3), (small_lenet(), 2, 1), (small_lenet(), 3, 7)])
def test_parts_of_delta_are_the_columns_of_the_whole(network, l, cut):
    layer, W = chain_layers(network)[l - 1], initial_parameters(network, seed=0)[l - 1].W
    shape = network.layers[l - 1].out_shape
    error = Error(np.random.default_rng(0).standard_normal((2, *shape[: 3 if isinstance(layer.op, Conv) else 1])))
    parts = [input_error(layer, W, error, product=ordered_product, channels=channels)
             for channels in (range(cut), range(cut, layer.in_shape[0]))]  # fmt: skip
    whole = input_error(layer, W, error, product=ordered_product)
    assert np.array_equal(np.concatenate(parts, axis=1), whole)
    np.testing.assert_allclose(whole, input_error(layer, W, error), rtol=1e-12, atol=1e-12)


# backpropagation as a whole ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("network", [mlp(3), small_lenet(), small_lenet(kind="max"), strange(), without_flatten()])
@pytest.mark.parametrize("loss", [softmax_cross_entropy, squared_error])
def test_gradients_of_a_network_by_finite_differences(network, loss):
    layers, start = chain_layers(network), initial_parameters(network, seed=2, dtype=np.float64)
    rng = np.random.default_rng(1)
    start = tuple(p if p.bias is None else p._replace(bias=rng.standard_normal(p.bias.shape)) for p in start)
    ((x, target),) = batches_of(network, 1, seed=5)
    if loss is squared_error:
        target = rng.standard_normal((3, network.shapes[network.nodes[-1].name][0]))
    found, _ = backpropagation(layers, start, x, target, loss)
    places = [(l, name) for l, p in enumerate(start) for name in ("W", "bias") if getattr(p, name) is not None]
    for l, name in places:

        def value(array, l=l, name=name):
            changed = (*start[:l], start[l]._replace(**{name: array}), *start[l + 1 :])
            return backpropagation(layers, changed, x, target, loss)[1]

        wanted = slopes(value, getattr(start[l], name), 12)
        scale = max(map(abs, wanted.values()))
        for place, slope in wanted.items():
            assert abs(getattr(found[l], name)[place] - slope) <= 1e-6 * scale + 1e-9


def slopes(value, array, count, step=1e-5):
    """Central differences at `count` places of `array`, by place."""
    places = np.random.default_rng(0).permutation(array.size)[:count]
    found = {}
    for place in (np.unravel_index(p, array.shape) for p in places):
        up, down = array.copy(), array.copy()
        up[place] += step
        down[place] -= step
        found[place] = (value(up) - value(down)) / (2 * step)
    return found


def test_training_lowers_the_loss_and_returns_every_loss():
    network = mlp(3)
    batch = batches_of(network, 1)[0]
    start = initial_parameters(network, seed=3, dtype=np.float64)
    result = train(retimed(3, (2, 1, 0)), network, [batch] * 60, parameters=start, step_size=0.3)
    assert result.losses.shape == (60,) and result.losses[-1] < 0.2 * result.losses[0]
    *_, (wanted, _) = recurrence(network, [batch] * 60, (4, 2, 0), parameters=start, step_size=0.3)
    assert all(map(same, result.parameters, wanted))
    assert same(start[0], initial_parameters(network, seed=3, dtype=np.float64)[0])  # what was given is left as it was


def test_a_step_size_of_numpy_does_not_promote_float32():
    network = mlp(2)
    start = initial_parameters(network, seed=0)
    result = train(backprop_dfg(2), network, batches_of(network, 2, dtype=np.float32), parameters=start,
                   step_size=np.float64(0.1))  # fmt: skip
    assert {p.W.dtype for p in result.parameters} == {np.dtype(np.float32)}


# the executor alone --------------------------------------------------------------------------------------------------


def test_parallel_edges_and_the_order_of_arguments():
    graph = DFG.from_edges([("x", "sub", 1), ("x", "sub", 0)])
    given = [now["sub"] for now in execute(graph, {"sub": lambda old, new: new - old}, {"x": [1, 4, 9]})]
    assert given == [None, 3, 5, None]


def test_clocks_and_initial_values():
    ring = DFG.from_edges([("a", "b", 2), ("b", "a", 0)])
    clocks = execute(ring, {"a": lambda b: b + 1, "b": lambda a: a}, {}, clocks=5,
                     initial=lambda node, clock: 10 * clock if node == "a" else None)  # fmt: skip
    assert [now["a"] for now in clocks] == [-19, -9, -18, -8, -17]


def test_a_graph_that_nothing_enters_ends_at_once():
    assert list(execute(DFG({"a": 1}, []), {}, {"a": []})) == [{"a": None}]


# wrong input ---------------------------------------------------------------------------------------------------------

LINE = DFG.from_edges([("x", "y", 0)])
TWO = mlp(2)
START = initial_parameters(TWO, seed=0, dtype=np.float64)
ONE = batches_of(TWO, 1)[0]


def trained(batches=(ONE,), parameters=START):
    return train(backprop_dfg(2), TWO, batches, parameters=parameters, step_size=0.1)


def test_lists_and_a_generator_of_batches_are_taken():
    wanted, found = trained([ONE] * 3), trained(tuple(part.tolist() for part in ONE) for _ in range(3))
    assert np.array_equal(found.losses, wanted.losses) and all(map(same, found.parameters, wanted.parameters))
    *_, (last, _) = recurrence(TWO, (list(map(np.ndarray.tolist, ONE)) for _ in range(3)), [0, 0], parameters=START,
                               step_size=0.1)  # fmt: skip
    assert all(map(same, last, wanted.parameters))


def run(dfg=LINE, operations=(), samples=(), **options):
    return lambda: list(execute(dfg, dict(operations), dict(samples), **options))


@pytest.mark.parametrize("call, sentence", [
    (run(samples={"x": [1]}), "node 'y' has no operation; give it one, or samples if it is a source"),
    (run(operations={"y": abs}, samples={"x": [1], "y": [2]}), "node 'y' is given samples, but it reads 'x'"),
    (run(operations={"z": abs}), "a node that is given an operation or samples is 'z'"),
    (run(operations={"y": abs}, samples={"x": [1]}, clocks=-1), "clocks is -1"),
    (lambda: chain_layers(chained("bn", (1, 5, 5), Conv(2, 3), BatchNorm())), "node 'batchnorm1' is BatchNorm"),
    (lambda: chain_layers(chained("up", (1, 5, 5), ConvTranspose(2, 3))), "node 'convtranspose0' is ConvTranspose"),
    (lambda: chain_layers(chained("g", (1, 5, 5), Conv(2, 3), Activation("gelu"))), "'gelu'.*has no numbers here"),
    (lambda: chain_layers(chained("p", (1, 9, 9), Pool(2), Conv(2, 3))), "comes before the first layer"),
    (lambda: chain_layers(chained("none", (1, 5, 5), Flatten())), "network 'none' has no layer"),
    (lambda: chain_layers(
        Network("res", (1, 5, 5), (Node("c", Conv(1, 1), "input"), Node("s", Add(), ("c", "input"))))),
     "node 's' does not read 'c' alone"),
    (lambda: input_signal(chain_layers(lenet5()), np.zeros((2, 1, 28, 28))), r"shape \(1, 28, 28\); the network reads"),
    (lambda: training_operations(backprop_dfg(3), TWO, step_size=1), "the graph has 3 layers and network 'mlp2' has 2"),
    (lambda: training_operations(backprop_dfg(2), TWO, step_size=np.nan), "step_size is nan; it must be a finite"),
    (lambda: training_operations(backprop_dfg(2), TWO, step_size=1, loss="mse"), "loss is 'mse'"),
    (lambda: training_operations(backprop_dfg(2), TWO, step_size=1, products={"D": np.dot}), "in products is 'D'"),
    (lambda: training_operations(DFG.from_edges([("X", "F1", 0), ("F1", "F2", 0)]), TWO, step_size=1),
     "node 'F1' reads X; it needs parameters, signal"),
    (lambda: training_operations(split(backprop_dfg(2), (0, 0), [2]), TWO, step_size=1, moved={2: 99}),
     "99 of the . input channels of layer 2 are moved"),
    (lambda: list(recurrence(TWO, [], [0], parameters=[], step_size=1)), "there are 1 delays for 2 layers"),
    (lambda: list(recurrence(TWO, [], [0, -1], parameters=[], step_size=1)), "a delay is -1"),
    (lambda: list(recurrence(TWO, [], [0, 0], parameters=[], step_size=1)), "parameters of 0 layers for 2"),
    (lambda: train(backprop_dfg(2), TWO, [], parameters=initial_parameters(mlp(2, bias=False), seed=0), step_size=1),
     "layer 1 has a bias"),
    (lambda: train(backprop_dfg(2), TWO, [], parameters=initial_parameters(TWO, seed=0)[::-1], step_size=1),
     "W of layer 1 has shape"),
    (lambda: trained(batches=[(ONE[0], None)]), r"target \(labels\) of a mini-batch is None; it must be real numbers"),
    (lambda: trained(batches=[(ONE[0][:0], ONE[1][:0])]),
     r"x of a mini-batch has shape \(0, .*; give one sample or more"),
    (lambda: trained(batches=[(None, ONE[1])]), "x of a mini-batch is None; it must be real numbers"),
    (lambda: trained(batches=[(1j * ONE[0], ONE[1])]), "x of a mini-batch is .*; it must be real numbers"),
    (lambda: trained(batches=[None]), r"a mini-batch is None; it must be a pair \(x, target\)"),
    (lambda: trained(batches=[ONE[0]]), r"a mini-batch is .*; it must be a pair"),
    (lambda: trained(parameters=None), "parameters is None; give one set a layer, such as initial_parameters makes"),
    (lambda: trained(parameters=[p.W for p in START]), r"parameters of layer 1 are .*; give Parameters\(W, bias\)"),
    (lambda: trained(parameters=[START[0], START[1]._replace(bias=np.zeros(99))]),
     r"bias of layer 2 has shape \(99,\); it must be"),
    (lambda: trained(parameters=[START[0]._replace(W=[1.0]), START[1]]),
     r"W of layer 1 is \[1.0\]; it must be an array"),
    (lambda: list(recurrence(TWO, [(ONE[0], None)], [0, 0], parameters=START, step_size=1)), "the target .* is None"),
    (lambda: list(recurrence(TWO, [None], [0, 0], parameters=START, step_size=1)), "a mini-batch is None"),
])  # fmt: skip
def test_wrong_input_is_one_clear_sentence(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()


def test_a_cut_through_a_group_is_refused():
    network = chained("grouped", (2, 4, 4), Conv(4, 1), Conv(4, 1, groups=2), Flatten(), Dense(2))
    graph = split(backprop_dfg(3), (0, 0, 0), [2])
    with pytest.raises(ValueError, match="1 of the 4 input channels of layer 2 are moved; move a multiple of 2"):
        training_operations(graph, network, step_size=1, moved={2: 1})


def test_a_branched_graph_has_no_numbers():
    residual = Network("residual", (2, 4, 4), (
        Node("a", Conv(2, 1), "input"), Node("b", Conv(2, 1), "a"), Node("add", Add(), ("a", "b"))))  # fmt: skip
    with pytest.raises(ValueError, match="node '(sum:a|add:add)' joins branches; numbers are there for plain chains"):
        training_operations(backprop_dfg(residual), TWO, step_size=1)
