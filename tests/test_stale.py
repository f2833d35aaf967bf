"""Training without old weights, by reconstruction, and interleaved: graphs, numbers, memory."""

import numpy as np
import pytest

from lpkit.backprop import stages_after
from lpkit.datasets import Dataset, minibatches
from lpkit.derivation import derive
from lpkit.dfg import DFG, critical_path
from lpkit.interleaving import interleaved, interleaved_graph
from lpkit.layerwise import backpropagation, chain_layers
from lpkit.networks import Activation, Conv, Dense, Flatten, Network, Node, Pool
from lpkit.numerics import softmax_cross_entropy
from lpkit.stale import (
    METHODS, Averaged, accuracy, compare_methods, delta_lateness, digits_mlp, followed, method_graph, pipelined,
    reconstruction_error, summarise, train_by, weight_memory,
)  # fmt: skip
from lpkit.training import initial_parameters, recurrence

CLASSES = 4


def random_batches(network, count, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    shape = (5, *network.input_shape)
    return [(rng.standard_normal(shape).astype(dtype), rng.integers(0, CLASSES, 5)) for _ in range(count)]


def small_dataset():
    """Four classes of 8 x 8 images, one bright quarter each, with noise."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, CLASSES, 240)
    x = 0.5 * rng.standard_normal((240, 1, 8, 8))
    for image, label in zip(x, labels):
        image[0, 4 * (label // 2) : 4 * (label // 2) + 4, 4 * (label % 2) : 4 * (label % 2) + 4] += 1
    x = x.astype(np.float32)
    return Dataset("quarters", x[:200], labels[:200], x[200:], labels[200:])


def small_conv():
    ops = [Conv(3, 3), Activation("tanh"), Pool(2), Flatten(), Dense(6), Activation("tanh"), Dense(CLASSES)]
    names = [f"n{i}" for i in range(len(ops))]
    return Network("small_conv", (1, 8, 8), tuple(map(Node, names, ops, ["input", *names])))


def same(found, wanted):
    return all(np.array_equal(p.W, q.W) and np.array_equal(p.bias, q.bias) for p, q in zip(found, wanted, strict=True))


# graphs --------------------------------------------------------------------------------------------------------------


def test_pipelined_graph_has_the_stash_of_the_paper_and_a_short_period():
    assert delta_lateness(5) == (0, 6, 4, 2, 0)  # 2 S(l); layer 1 has no delta
    assert delta_lateness(4, (1, 1, 2, 2)) == (0, 2, 0, 0)
    assert delta_lateness(3, (1, 1, 1)) == (0, 0, 0)
    assert critical_path(pipelined(5)).period == 2
    assert pipelined(5).edges == derive(5)[-1].dfg.edges
    assert pipelined(4, (1, 1, 2, 2)).edges == derive(4, (1, 1, 2, 2))[-1].dfg.edges


def test_memory_of_the_methods():
    network = digits_mlp(5, width=16)
    assert weight_memory(network, "stash") == (6 + 4 + 2) * 16 * 16 * 4
    assert weight_memory(network, "average") == 3 * 16 * 16 * 4
    assert weight_memory(network, "naive") == weight_memory(network, "none") == 0
    assert weight_memory(network, "stash", (1, 1, 1, 2, 2), bytes_per_element=8) == 2 * 2 * 16 * 16 * 8


# methods -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("network", [digits_mlp(4, width=8), small_conv()])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_none_and_stash_are_the_recurrence(network, dtype):
    batches, start = random_batches(network, 20, dtype=dtype), initial_parameters(network, seed=1, dtype=dtype)
    L = len(start)
    for method, delays in (("none", [0] * L), ("stash", [2 * (L - l) for l in range(1, L + 1)])):
        *_, (wanted, _) = recurrence(network, batches, delays, parameters=start, step_size=0.2)
        assert same(train_by(method, network, batches, parameters=start, step_size=0.2).parameters, wanted)


@pytest.mark.parametrize("stages", [None, (1, 1, 2, 2), (1, 1, 1, 1)])
@pytest.mark.parametrize("count", [0, 1, 3, 20])
def test_without_draining_the_stash_is_the_recurrence_after_exactly_its_samples(stages, count):
    network = digits_mlp(4, width=8)
    batches, start = random_batches(network, count), initial_parameters(network, seed=1, dtype=np.float64)
    delays = [2 * after for after in stages_after(stages, 4)]
    steps = [start] + [p for p, _ in recurrence(network, batches, delays, parameters=start, step_size=0.2)]
    for drain, wanted in ((False, steps[count]), (True, steps[-1])):
        run = train_by("stash", network, batches, parameters=start, step_size=0.2, stages=stages, drain=drain)
        assert same(run.parameters, wanted) and len(run.losses) == count
    assert same(steps[count], steps[-1]) == (max(delays) == 0 or count == 0)


@pytest.mark.parametrize("method", METHODS)
def test_a_run_without_draining_does_not_know_what_comes_after(method):
    network = digits_mlp(4, width=8)
    batches, start = random_batches(network, 20), initial_parameters(network, seed=1, dtype=np.float64)
    run = train_by(method, network, batches, parameters=start, step_size=0.2, drain=False)
    seen = train_by(method, network, [*batches, batches[0]], parameters=start, step_size=0.2, drain=False)
    assert np.array_equal(run.losses, seen.losses[:20])
    assert seen.losses[20] == loss_at(network, run.parameters, batches[0])  # F of the next sample reads these weights


def loss_at(network, parameters, batch):
    return backpropagation(chain_layers(network), parameters, *batch, softmax_cross_entropy)[1]


def test_accuracy_of_a_comparison_is_that_after_the_last_sample():
    network, data = digits_mlp(4, width=8), small_dataset()
    rows = compare_methods(network=network, dataset=data, methods=["stash"], step_sizes=[0.3], seeds=1, epochs=1,
                           batch=40)  # fmt: skip
    start = initial_parameters(network, seed=0, dtype=data.x_train.dtype)
    batches = minibatches(data, batch=40, epochs=1, seed=0)
    steps = [p for p, _ in recurrence(network, batches, (6, 4, 2, 0), parameters=start, step_size=0.3)]
    after, drained = (accuracy(network, p, data.x_test, data.y_test) for p in (steps[len(batches) - 1], steps[-1]))
    assert rows.accuracy.tolist() == [after] and after != drained


def test_all_methods_agree_where_nothing_is_late_and_differ_where_something_is():
    network = digits_mlp(4, width=8)
    batches, start = random_batches(network, 20), initial_parameters(network, seed=1, dtype=np.float64)
    one_stage = [train_by(m, network, batches, parameters=start, step_size=0.2, stages=(1, 1, 1, 1)) for m in METHODS]
    assert all(same(run.parameters, one_stage[0].parameters) for run in one_stage)
    runs = [train_by(m, network, batches, parameters=start, step_size=0.2) for m in METHODS]
    assert not any(same(a.parameters, b.parameters) for i, a in enumerate(runs) for b in runs[:i])


def by_hand(network, batches, start, step_size, method):
    """Naive and average without a graph: iteration m of delta_l and G_l happens when U_l is 2 S(l) iterations on."""
    L = len(start)
    D = [2 * (L - l) for l in range(1, L + 1)]
    W = [[p] for p in start]  # W[l][m]: at iteration m
    V = [[np.zeros_like(p.W)] for p in start]
    for m in range(len(batches) + D[0]):
        for l in range(L):
            n = m - D[l]  # the gradient that arrives
            now, average = W[l][m], V[l][m]
            if 0 <= n < len(batches):
                by = 1 if method == "average" else 0
                back = [W[k][n + D[k]].W - by * D[k] * V[k][n + D[k]] for k in range(l, L)]
                G = gradient([w[n] for w in W], batches[n], back, l)
                new = type(now)(now.W - step_size * G[0], now.bias - step_size * G[1])
                beta = (D[l] - 1) / (D[l] + 1) if D[l] else 0
                average = beta * average + (1 - beta) * (new.W - now.W)
                now = new
            W[l].append(now)
            V[l].append(average)
    return [w[-1] for w in W]


def gradient(parameters, batch, back, l):
    """Gradient of layer l of a tanh MLP whose delta_k, k > l, multiply with back[k - l]."""
    x, labels = batch
    a = [x.reshape(len(x), -1)]
    for k, p in enumerate(parameters):
        z = a[-1] @ p.W.T + p.bias
        a.append(z if k == len(parameters) - 1 else np.tanh(z))
    e = np.exp(a[-1] - a[-1].max(axis=1, keepdims=True))
    delta = (e / e.sum(axis=1, keepdims=True) - np.eye(a[-1].shape[1])[labels]) / len(x)
    for k in range(len(parameters) - 1, l, -1):
        delta = (delta @ back[k - l]) * (1 - a[k] ** 2)
    return delta.T @ a[l], delta.sum(axis=0)


@pytest.mark.parametrize("method", ["naive", "average"])
def test_naive_and_average_by_hand(method):
    network = digits_mlp(4, width=8)
    batches, start = random_batches(network, 20), initial_parameters(network, seed=1, dtype=np.float64)
    run = train_by(method, network, batches, parameters=start, step_size=0.2)
    for found, wanted in zip(run.parameters, by_hand(network, batches, start, 0.2, method), strict=True):
        np.testing.assert_allclose(found.W, wanted.W, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(found.bias, wanted.bias, rtol=1e-9, atol=1e-12)


def test_steady_updates_are_reconstructed_exactly_in_the_end():
    state = Averaged(np.zeros(2), None, np.zeros(2), 4)
    for n in range(1, 200):
        state = followed(state, np.array([3.0, -1.0]) * n)
    np.testing.assert_allclose(state.past, np.array([3.0, -1.0]) * 195, rtol=1e-12)


def test_reconstruction_error_by_hand():
    network = digits_mlp(3, width=8)
    batches, start = random_batches(network, 12), initial_parameters(network, seed=1, dtype=np.float64)
    W = [start[1].W] + [p[1].W for p, loss in recurrence(network, batches, (4, 2, 0), parameters=start, step_size=0.2)
                        if loss is not None]  # fmt: skip
    V, above, below = np.zeros_like(W[0]), 0.0, 0.0
    for n in range(len(W)):
        V = V / 3 + (W[n] - W[n - 1]) * 2 / 3 if n else V  # D = 2: beta = 1/3
        if n >= 2:
            above += ((W[n - 2] - W[n] + 2 * V) ** 2).sum()
            below += ((W[n - 2] - W[n]) ** 2).sum()
    found = reconstruction_error(network, batches, parameters=start, step_size=0.2)
    assert found == {2: pytest.approx((above / below) ** 0.5, rel=1e-12)}


# the experiment ------------------------------------------------------------------------------------------------------


def test_comparison_is_a_tidy_table_and_repeats_itself():
    options = {"network": digits_mlp(3, width=12), "dataset": small_dataset(), "step_sizes": (0.05, 0.1), "seeds": 2,
               "epochs": 3, "batch": 20}  # fmt: skip
    rows = compare_methods(**options)
    assert len(rows) == 4 * 2 * 2 * 3 and rows.equals(compare_methods(**options))
    assert rows.groupby("method").weight_bytes.first().to_dict() == {
        "none": 0, "stash": 2 * 144 * 4, "average": 144 * 4, "naive": 0}  # fmt: skip
    one_step = rows[(rows.method == "none") & (rows.step_size == 0.1)]
    assert (one_step[one_step.epoch == 3].loss.to_numpy() < 0.5 * one_step[one_step.epoch == 1].loss.to_numpy()).all()
    last = summarise(rows)
    assert len(last) == 8 and (last.accuracy > 0.8).any() and last.loss_deviation.notna().all()


def test_a_run_that_diverges_is_a_row_of_infinity_without_a_warning():
    rows = compare_methods(network=digits_mlp(3, activation="relu"), dataset=small_dataset(), methods=["naive"],
                           step_sizes=[1e6], seeds=1, epochs=2, batch=20)  # fmt: skip
    assert rows.loss.iloc[-1] == np.inf and rows.accuracy.iloc[0] < 0.6


# interleaving --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("network, stages, k", [
    (digits_mlp(2, width=8), None, 3),
    (digits_mlp(3, width=8), None, 5),
    (digits_mlp(3, width=8), None, 8),
    (digits_mlp(4, width=8), (1, 1, 2, 3), 5),
    (digits_mlp(3, width=8), (1, 1, 1), 1),
    (small_conv(), None, 5),
])  # fmt: skip
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_each_interleaved_training_is_the_one_alone_to_the_last_bit(network, stages, k, dtype):
    starts = [initial_parameters(network, seed=seed, dtype=dtype) for seed in range(k)]
    batches = [random_batches(network, 7, seed=seed, dtype=dtype) for seed in range(k)]
    together = interleaved(network, batches, parameters=starts, step_size=0.2, stages=stages)
    alone = [train_by("none", network, b, parameters=p, step_size=0.2) for b, p in zip(batches, starts)]
    for found, wanted in zip(together, alone, strict=True):
        assert np.array_equal(found.losses, wanted.losses) and same(found.parameters, wanted.parameters)
    assert k == 1 or not np.array_equal(together[0].losses, together[1].losses)


def test_interleaved_graph_is_short_and_has_no_late_gradients():
    graph = interleaved_graph(4, 7)
    assert critical_path(graph).period == 2 and max(graph.delays) == 7
    assert [w for u, v, w in graph.edges if (u[0], v[0]) == ("G", "U")] == [0] * 4
    assert isinstance(graph, DFG)


@pytest.mark.parametrize("call, sentence", [
    (lambda: train_by("average", digits_mlp(2), [], parameters=None, step_size=1), "parameters is None; give one set"),
    (lambda: accuracy(digits_mlp(2), initial_parameters(digits_mlp(2), seed=0), np.ones((2, 1, 8, 8)), [1]),
     r"labels have shape \(1,\) for 2 samples; give one a sample"),
    (lambda: method_graph(3, "exact"), "method is 'exact'"),
    (lambda: compare_methods(dataset=small_dataset(), methods=["stash", "exact"]), "method is 'exact'"),
    (lambda: interleaved_graph(3, 4), "k is 4; a pipeline of 3 stages needs 5 trainings or more"),
    (lambda: interleaved(digits_mlp(2), [[1], [1, 2], [1]], parameters=[()] * 3, step_size=1), r"3 runs of \[1, 2\] "),
    (lambda: interleaved(digits_mlp(2), [[1]] * 3, parameters=[()] * 2, step_size=1), "and 2 sets of parameters"),
    (lambda: interleaved(digits_mlp(1), [[(np.ones((1, 1, 8, 8)), None)]], step_size=1,
                         parameters=[initial_parameters(digits_mlp(1), seed=0)]), "the target .* is None"),
    (lambda: pipelined(3, (1, 2)), "stages has 2 numbers; give 3, one a layer"),
    (lambda: weight_memory(digits_mlp(2), "stash", bytes_per_element=0), "bytes_per_element is 0"),
])  # fmt: skip
def test_wrong_input_is_one_clear_sentence(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()
