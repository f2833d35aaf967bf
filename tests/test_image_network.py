"""AlexNet for CIFAR-10: its size, its gradients against differences and PyTorch, its weights, and wrong files."""

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from lpkit import numerics, paths
from lpkit.datasets import CIFAR10_CLASSES
from lpkit.image_network import CIFAR10_DEVIATION, CIFAR10_MEAN, PART, ImageNetwork, alexnet_cifar10, trained_alexnet
from lpkit.layerwise import Parameters, initial_parameters
from lpkit.networks import Activation, Conv, Dense, Flatten, Network, Node, Pool
from lpkit.weights import checked_weights, read_parameters, write_parameters

BESIDE = Path(__file__).parents[2] / "shared" / "data" / "cifar10_jpeg.npz"


@pytest.fixture(scope="module")
def alexnet():
    return trained_alexnet()


def images(count, seed=0):
    return np.random.default_rng(seed).random((count, 3, 32, 32), dtype=np.float32)


def chain(shape, *ops):
    names = ["input", *(f"n{i}" for i in range(len(ops)))]
    return Network("chain", shape, tuple(Node(n, op, r) for n, op, r in zip(names[1:], ops, names)))


# the network ---------------------------------------------------------------------------------------------------------


def test_layers_are_those_of_the_description():
    network = alexnet_cifar10()
    assert network.parameters == 2_472_266
    assert [layer.out_shape for layer in network.layers] == [
        (64, 8, 8), (192, 4, 4), (384, 2, 2), (256, 2, 2), (256, 2, 2), (10, 1, 1)]  # fmt: skip
    assert [p.W.size for p in initial_parameters(network, seed=0)] == [layer.weights for layer in network.layers]


@pytest.mark.parametrize("shape, ops", [
    ((2, 9, 9), (Conv(4, 3, stride=2, padding=1), Activation("tanh"), Pool(2, stride=1), Flatten(), Dense(3))),
    ((2, 8, 8), (Conv(4, 3, groups=2, dilation=2), Activation("sigmoid"), Pool(3, padding=1, kind="average"), Flatten(),
                 Dense(3))),
    ((2, 5, 5), (Conv(4, 5, padding=2, bias=False), Activation("identity"), Conv(2, 1), Flatten(), Dense(3))),
    ((2, 3, 3), (Flatten(), Dense(5), Activation("tanh"), Dense(3))),
])  # fmt: skip
@pytest.mark.parametrize("count", [1, 4])
def test_gradient_is_that_of_differences(shape, ops, count):
    network = chain(shape, *ops)
    net = ImageNetwork(network, initial_parameters(network, seed=1), (0.1, 0.2), (0.5, 2.0))
    rng = np.random.default_rng(0)
    x, weights = rng.random((count, *shape)), rng.standard_normal((count, 3)).astype(np.float32)
    _, gradient = net.scores_and_gradient(x, lambda scores: weights)
    for _ in range(5):
        direction = rng.standard_normal(x.shape)
        away = (weights * (net.scores(x + 1e-3 * direction) - net.scores(x - 1e-3 * direction))).sum() / 2e-3
        assert np.sum(gradient * direction) == pytest.approx(away, rel=2e-2, abs=2e-3)


def test_gradient_of_alexnet_is_that_of_differences_of_single_pixels(alexnet):
    x, step = images(1), 2e-3  # the network is piecewise linear: a difference is off only where it crosses a kink
    _, gradient = alexnet.scores_and_gradient(x, lambda scores: np.eye(10, dtype=np.float32)[[7]])
    pixels = np.argsort(-abs(gradient.ravel()))[:40:2]
    moved = np.repeat(x.reshape(1, -1), 40, axis=0)
    moved[np.arange(20), pixels] += step
    moved[np.arange(20, 40), pixels] -= step
    above, below = np.split(alexnet.scores(moved.reshape(-1, 3, 32, 32))[:, 7], 2)
    ratios = (above - below) / (2 * step) / gradient.ravel()[pixels]
    assert abs(np.median(ratios) - 1) < 0.01 and np.sum(abs(ratios - 1) < 0.05) > 12


def test_a_batch_is_its_images_one_by_one(alexnet):
    x = images(PART + 3)
    scores, gradient = alexnet.scores_and_gradient(x, lambda scores: scores)
    for i in (0, PART - 1, PART, PART + 2):
        score, slope = alexnet.scores_and_gradient(x[i : i + 1], lambda scores: scores)
        np.testing.assert_allclose(scores[i], score[0], rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(gradient[i], slope[0], atol=1e-4 * abs(slope).max())
    assert scores.dtype == gradient.dtype == np.float32 and gradient.shape == x.shape


def test_images_are_left_as_they_are(alexnet):
    x = images(2)
    before = x.copy()
    alexnet.scores_and_gradient(x, np.ones_like)
    assert np.array_equal(x, before)


def test_torch_computes_the_same(alexnet):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed (extra: torch)")
    from lpkit.interop.torch_problem import from_torch, to_torch

    module = to_torch(alexnet.network, alexnet.parameters)
    theirs = from_torch(module, mean=CIFAR10_MEAN, deviation=CIFAR10_DEVIATION, classes=CIFAR10_CLASSES)
    assert sum(p.numel() for p in module.parameters()) == 2_472_266 and not module.training
    x = images(7)
    error = np.random.default_rng(1).standard_normal((7, 10)).astype(np.float32)
    (ours, slope), (scores, gradient) = (net.scores_and_gradient(x, lambda s: error) for net in (alexnet, theirs))
    np.testing.assert_allclose(ours, scores, rtol=0, atol=2e-6 * abs(scores).max())
    np.testing.assert_allclose(slope, gradient, rtol=0, atol=2e-6 * abs(gradient).max())
    np.testing.assert_array_equal(theirs.scores(x), scores)
    assert isinstance(scores, np.ndarray) and scores.dtype == gradient.dtype == np.float32
    assert torch.is_grad_enabled()


@pytest.mark.skipif(not BESIDE.exists(), reason="CIFAR-10 is not beside the checkout")
def test_trained_weights_reach_their_accuracy(alexnet):
    with np.load(BESIDE) as arrays:
        pixels, labels = arrays["x_train_png"][:1000].transpose(0, 3, 1, 2), arrays["y_train_png"][:1000]
    right = alexnet.scores(pixels / np.float32(255)).argmax(axis=1) == labels
    assert 0.79 < right.mean() < 0.84  # 81.5 % of 4,000
    assert right[[0, 22, 23]].all() and (labels[[0, 22, 23]] == CIFAR10_CLASSES.index("frog")).all()


# batch last in memory ------------------------------------------------------------------------------------------------


def batch_last(a):
    return np.ascontiguousarray(a.transpose(1, 2, 3, 0)).transpose(3, 0, 1, 2)


@pytest.mark.parametrize("op", [
    Conv(4, 3, padding=1), Conv(4, 5, stride=4, padding=2),
    Conv(6, (3, 2), stride=(2, 1), padding=(0, 1), groups=2, dilation=(1, 2)),
])  # fmt: skip
def test_convolutions_give_the_same_however_images_lie(op):
    rng = np.random.default_rng(0)
    a = rng.standard_normal((5, 4, 9, 8))
    W = rng.standard_normal((op.out_channels, 4 // op.groups, *op.kernel))
    out = numerics.conv_forward(W, a, op)
    delta = rng.standard_normal(out.shape)
    for product in (np.matmul, numerics.ordered_product):
        found = numerics.conv_forward(W, batch_last(a), op, product=product)
        np.testing.assert_allclose(found, out, rtol=1e-12, atol=1e-12)
    assert numerics.conv_forward(W, batch_last(a), op).strides[0] == a.itemsize
    for form in ("col2im", "zero_insert", "phases"):
        back = numerics.conv_delta(W, batch_last(delta), op, a.shape[1:], form=form)
        np.testing.assert_allclose(back, numerics.conv_delta(W, delta, op, a.shape[1:]), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(numerics.conv_G(batch_last(delta), batch_last(a), op), numerics.conv_G(delta, a, op),
                               rtol=1e-12, atol=1e-12)  # fmt: skip


@pytest.mark.parametrize("op", [Pool(2), Pool(3, stride=2, padding=1, ceil_mode=True), Pool(2, kind="average")])
def test_poolings_give_the_same_however_images_lie(op):
    a = np.random.default_rng(0).standard_normal((5, 3, 8, 8))
    (out, winner), (last, last_winner) = numerics.pool_forward(a, op), numerics.pool_forward(batch_last(a), op)
    assert np.array_equal(out, last) and (winner is None or np.array_equal(winner, last_winner))
    back = numerics.pool_backward(out, winner, op, a.shape[1:])
    assert np.array_equal(back, numerics.pool_backward(batch_last(out), last_winner, op, a.shape[1:]))


# weights -------------------------------------------------------------------------------------------------------------

LINE = chain((2, 1, 1), Dense(3), Activation(), Dense(2, bias=False))


def test_weights_come_back_as_written(tmp_path):
    start = initial_parameters(LINE, seed=0)
    back = read_parameters(write_parameters(tmp_path / "line.npz", LINE, start, dtype=np.float32), LINE)
    assert all(np.array_equal(a.W, b.W) for a, b in zip(start, back)) and back[1].bias is None
    half = read_parameters(write_parameters(tmp_path / "half.npz", LINE, start), LINE)
    assert half[0].W.dtype == np.float32 and np.array_equal(half[0].W, start[0].W.astype(np.float16))


def test_other_weights_of_alexnet_are_read(tmp_path):
    network = alexnet_cifar10()
    path = write_parameters(tmp_path / "own.npz", network, initial_parameters(network, seed=0))
    assert trained_alexnet(path).scores(images(1)).shape == (1, 10)


@pytest.mark.parametrize("change", [lambda data: data[:-1000], lambda data: data[:500] + b"x" + data[501:],
                                    lambda data: b""])  # fmt: skip
def test_shipped_weights_that_were_changed_are_refused(tmp_path, change):
    path = tmp_path / "alexnet.npz"
    path.write_bytes(change((paths.data() / "alexnet_cifar10_fp16.npz").read_bytes()))
    with pytest.raises(ValueError, match="alexnet.npz' has the SHA-256 .* and not 9ccaa09a2d08...: it was cut off"):
        checked_weights(path)


def test_missing_weights():
    for read in (checked_weights, trained_alexnet):
        with pytest.raises(FileNotFoundError, match="there is no file 'no.npz' with weights"):
            read("no.npz")


def archive(path, arrays):
    file = io.BytesIO()
    np.savez(file, **arrays)
    path.write_bytes(file.getvalue())
    return path


GOOD = {"a.weight": np.zeros((3, 2)), "a.bias": np.zeros(3), "b.weight": np.zeros((2, 3))}


@pytest.mark.parametrize("arrays, sentence", [
    ({"a.weight": np.zeros((3, 2))}, "it holds 1 arrays where 3 are needed"),
    (GOOD | {"a.weight": np.zeros((2, 3))}, r"a.weight.npy is float64 of shape \(2, 3\); \(3, 2\) is needed"),
    (GOOD | {"a.weight": np.zeros((3, 2), int)}, "is int64 of shape"),
    (GOOD | {"a.bias": np.array([1, np.nan, 0])}, "a.bias.npy holds NaN or infinity"),
    (GOOD | {"a.weight": np.zeros((300, 200))}, r"a.weight.npy has \d+ bytes, too many for the shape \(3, 2\)"),
    ({"b.bias": np.zeros(3)} | GOOD, "it holds 4 arrays"),
    ({"a.bias": np.zeros(3), "a.weight": GOOD["a.weight"], "b.weight": GOOD["b.weight"]}, "stands where a weight of"),
    (GOOD | {"a.bias": np.array([{}] * 3)}, "is object of shape"),
])  # fmt: skip
def test_wrong_weights(tmp_path, arrays, sentence):
    with pytest.raises(ValueError, match=f"wrong.npz' holds no weights of chain .*{sentence}"):
        read_parameters(archive(tmp_path / "wrong.npz", arrays), LINE)


def test_a_claimed_size_is_not_allocated(tmp_path):
    file = io.BytesIO()
    np.save(file, GOOD["a.weight"])
    header = file.getvalue().replace(b"(3, 2), }         ", b"(3, 2000000000), }")
    assert header != file.getvalue()
    with zipfile.ZipFile(tmp_path / "wrong.npz", "w") as out:
        for name in GOOD:
            out.writestr(f"{name}.npy", header)
    with pytest.raises(ValueError, match=r"is float64 of shape \(3, 2000000000\)"):
        read_parameters(tmp_path / "wrong.npz", LINE)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 cut off", b"\x93NUMPY\x01\x00", b"text"])
def test_files_that_are_no_archives(tmp_path, content):
    (tmp_path / "wrong.npz").write_bytes(content)
    with pytest.raises(ValueError, match="wrong.npz' holds no weights of chain"):
        read_parameters(tmp_path / "wrong.npz", LINE)


def test_an_archive_that_is_cut_off(tmp_path):
    whole = archive(tmp_path / "whole.npz", GOOD).read_bytes()
    for length in range(0, len(whole), 97):
        (tmp_path / "cut.npz").write_bytes(whole[:length])
        with pytest.raises(ValueError, match="cut.npz' holds no weights of chain .*it may be cut off"):
            read_parameters(tmp_path / "cut.npz", LINE)


# wrong input ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong, sentence", [
    (np.zeros((3, 32, 32)), r"images have shape \(3, 32, 32\) and type float64; alexnet_cifar10 reads numbers"),
    (np.zeros((1, 32, 32, 3)), r"images have shape \(1, 32, 32, 3\)"),
    (np.zeros((0, 3, 32, 32)), r"images have shape \(0, 3, 32, 32\)"),
    (np.zeros((1, 3, 32, 32), complex), "type complex128"),
])  # fmt: skip
def test_wrong_images(alexnet, wrong, sentence):
    for call in (alexnet.scores, lambda x: alexnet.scores_and_gradient(x, np.ones_like)):
        with pytest.raises(ValueError, match=sentence):
            call(wrong)


@pytest.mark.parametrize("mean, deviation, sentence", [
    ((0.5,), (1, 1), r"mean is \(0.5,\); give one number for each of 2 channels"),
    ((0, 0), (1, 0), r"deviation is \(1, 0\); give one number for each of 2 channels, above 0"),
    ((0, np.nan), (1, 1), "mean is"),
])  # fmt: skip
def test_wrong_normalisation(mean, deviation, sentence):
    with pytest.raises(ValueError, match=sentence):
        ImageNetwork(LINE, initial_parameters(LINE, seed=0), mean, deviation)


def test_parameters_of_another_network():
    with pytest.raises(ValueError, match=r"W of layer 1 has shape \(1, 2\); it must be \(3, 2\)"):
        ImageNetwork(LINE, [Parameters(np.zeros((1, 2)), np.zeros(1)), Parameters(np.zeros((2, 3)))], (0, 0), (1, 1))


def test_from_torch_refuses_what_does_not_fit(monkeypatch):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed (extra: torch)")
    from lpkit.interop.torch_problem import from_torch, to_torch

    flat = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 4))
    for wrong, sentence in [
        (lambda: from_torch(np.zeros), "it must be a torch.nn.Module"),
        (lambda: from_torch(flat, mean=(1, 2)), "mean is .1, 2.; it must be one number, or one for each of 3 channels"),
        (lambda: from_torch(flat, deviation=0.0), "deviation is 0.0; it must be above 0"),
        (lambda: from_torch(torch.nn.Identity()).scores(np.zeros((1, 3, 2, 2))), "it must give one row of scores"),
        (lambda: to_torch(LINE, [Parameters(np.zeros((1, 2)))]), "there are parameters of 1 layers for 2"),
    ]:
        with pytest.raises(ValueError, match=sentence):
            wrong()
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(ValueError, match=r"torch is not installed here; .*pip install '.\[torch\]'"):
        from_torch(flat)
