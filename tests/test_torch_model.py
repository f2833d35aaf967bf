"""PyTorch modules as networks: exported, run with hooks, and through ONNX must be the same network."""

import io
import warnings
from contextlib import redirect_stdout

import pytest

torch = pytest.importorskip("torch", reason="the reader of modules needs PyTorch")
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from lpkit.costs import costs  # noqa: E402
from lpkit.interop.building import missing_work  # noqa: E402
from lpkit.interop.torch_model import read_torch  # noqa: E402
from lpkit.networks import Carried, ConvND, ConvTranspose, Dense, MatMul, network  # noqa: E402
from lpkit.partition import plan  # noqa: E402


def conv(channels, out, kernel=3, stride=1, groups=1):
    return nn.Sequential(nn.Conv2d(channels, out, kernel, stride, kernel // 2, groups=groups, bias=False),
                         nn.BatchNorm2d(out), nn.ReLU(inplace=True))  # fmt: skip


class Residual(nn.Module):
    """Bottleneck with a projection, as of ResNet."""

    def __init__(self, channels, out, stride, groups=1):
        super().__init__()
        self.body = nn.Sequential(conv(channels, out // 4, 1), conv(out // 4, out // 4, 3, stride, groups),
                                  nn.Conv2d(out // 4, out, 1))  # fmt: skip
        self.down = nn.Conv2d(channels, out, 1, stride)

    def forward(self, x):
        return functional.relu(self.body(x) + self.down(x))


class Inverted(nn.Module):
    """Inverted residual with squeeze and excitation, as of MobileNet v3 and EfficientNet."""

    def __init__(self, channels):
        super().__init__()
        self.expand, self.depth = conv(channels, 4 * channels, 1), conv(4 * channels, 4 * channels, 3, 1, 4 * channels)
        self.squeeze, self.excite = nn.Conv2d(4 * channels, channels, 1), nn.Conv2d(channels, 4 * channels, 1)
        self.project = nn.Conv2d(4 * channels, channels, 1)

    def forward(self, x):
        y = self.depth(self.expand(x))
        scale = self.excite(functional.silu(self.squeeze(functional.adaptive_avg_pool2d(y, 1))))
        return x + self.project(y * torch.sigmoid(scale))


class DenseBlock(nn.Module):
    """Each layer reads all before it, as in DenseNet."""

    def __init__(self, channels, growth, layers):
        super().__init__()
        self.layers = nn.ModuleList(conv(channels + i * growth, growth) for i in range(layers))

    def forward(self, x):
        for layer in self.layers:
            x = torch.cat([x, layer(x)], 1)
        return x


class Branches(nn.Module):
    """Four branches side by side, as of Inception."""

    def __init__(self, channels):
        super().__init__()
        self.one, self.three = conv(channels, 8, 1), nn.Sequential(conv(channels, 4, 1), conv(4, 8))
        self.tall, self.pool = nn.Conv2d(channels, 8, (7, 1), padding=(3, 0)), conv(channels, 8, 1)

    def forward(self, x):
        pooled = functional.max_pool2d(x, 3, 1, 1)
        return torch.cat([self.one(x), self.three(x), self.tall(x), self.pool(pooled)], 1)


class Shuffle(nn.Module):
    """Half of the channels pass by, then all are shuffled, as in ShuffleNet v2."""

    def __init__(self, channels):
        super().__init__()
        self.body = conv(channels // 2, channels // 2, 3, 1, channels // 2)

    def forward(self, x):
        left, right = x.chunk(2, 1)
        y = torch.cat([left, self.body(right)], 1)
        b, c, h, w = y.shape
        return y.view(b, 2, c // 2, h, w).transpose(1, 2).reshape(b, c, h, w)


class ConvNext(nn.Module):
    """Depthwise convolution, then dense layers on the channels of each pixel."""

    def __init__(self, channels):
        super().__init__()
        self.depth, self.norm = nn.Conv2d(channels, channels, 7, padding=3, groups=channels), nn.LayerNorm(channels)
        self.up, self.down = nn.Linear(channels, 4 * channels), nn.Linear(4 * channels, channels)

    def forward(self, x):
        y = self.norm(self.depth(x).permute(0, 2, 3, 1))
        return x + self.down(functional.gelu(self.up(y))).permute(0, 3, 1, 2)


class UNet(nn.Module):
    """One level of a U-Net: down, up and a skip."""

    def __init__(self):
        super().__init__()
        self.enc, self.bottom = conv(3, 8), conv(8, 16)
        self.up, self.dec, self.out = nn.ConvTranspose2d(16, 8, 2, 2), conv(16, 8), nn.Conv2d(8, 2, 1)

    def forward(self, x):
        skip = self.enc(x)
        deep = self.bottom(functional.max_pool2d(skip, 2))
        return self.out(self.dec(torch.cat([skip, self.up(deep)], 1)))


class Vision(nn.Module):
    """Patches, a class token, positions and a transformer encoder, as of ViT."""

    def __init__(self, width=32):
        super().__init__()
        self.patch, self.token = nn.Conv2d(3, width, 8, 8), nn.Parameter(torch.randn(1, 1, width))
        self.position = nn.Parameter(torch.randn(1, 17, width))
        self.encoder, self.head = encoder(width, 1), nn.Linear(width, 10)

    def forward(self, x):
        y = self.patch(x).flatten(2).transpose(1, 2)
        y = torch.cat([self.token.expand(y.shape[0], -1, -1), y], 1) + self.position
        return self.head(self.encoder(y)[:, 0])


def encoder(width=32, layers=2):
    layer = nn.TransformerEncoderLayer(width, 4, 2 * width, batch_first=True)
    return nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)


def head(channels, classes=10):
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(), nn.Linear(channels, classes))


def chain(*convs):
    return nn.Sequential(*convs)


IMAGE = (3, 32, 32)
ARCHITECTURES = {
    "vgg": (lambda: chain(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(True), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3), nn.ReLU(),
                          nn.Flatten(), nn.Linear(16 * 14 * 14, 64), nn.ReLU(), nn.Linear(64, 10)), IMAGE),
    "resnet": (lambda: chain(conv(3, 16, 7, 2), nn.MaxPool2d(3, 2, 1), Residual(16, 32, 1), Residual(32, 64, 2),
                             head(64)), IMAGE),
    "resnext": (lambda: chain(conv(3, 16), Residual(16, 32, 2, 4), head(32)), IMAGE),
    "mobilenet": (lambda: chain(conv(3, 8, 3, 2), Inverted(8), Inverted(8), head(8)), IMAGE),
    "densenet": (lambda: chain(conv(3, 8), DenseBlock(8, 4, 3), head(20)), IMAGE),
    "inception": (lambda: chain(conv(3, 8), Branches(8), Branches(32), head(32)), IMAGE),
    "shufflenet": (lambda: chain(conv(3, 8), Shuffle(8), Shuffle(8), head(8)), IMAGE),
    "convnext": (lambda: chain(nn.Conv2d(3, 8, 4, 4), ConvNext(8), ConvNext(8), head(8)), IMAGE),
    "unet": (UNet, IMAGE),
    "encoder": (encoder, (12, 32)),
    "vision transformer": (Vision, IMAGE),
}  # fmt: skip


def made(name):
    """The module, its weights all different from zero and one (an exporter leaves those out), and a sample."""
    torch.manual_seed(0)
    build, sizes = ARCHITECTURES[name]
    module = build().eval()
    with torch.no_grad():
        for tensor in (*module.parameters(), *module.buffers()):
            if tensor.is_floating_point():
                tensor.copy_(torch.rand(tensor.shape) + 0.5)
    return module, torch.zeros(1, *sizes)


def through_onnx(module, sample, path):
    pytest.importorskip("onnxscript", reason="PyTorch writes ONNX with the package onnxscript")
    reader = pytest.importorskip("lpkit.interop.onnx")
    with warnings.catch_warnings(), redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        torch.onnx.export(module, (sample,), path, dynamo=True, verbose=False)
    return reader.read_onnx(path, strict=True)


def essence(net):
    """All that costs and plans depend on."""
    layers = [(type(layer.op).__name__, layer.macs(), layer.weights, layer.input_elements, layer.output_elements,
               layer.first_consumer, layer.shared_input, layer.on_longest_path) for layer in net.layers]  # fmt: skip
    return layers, net.cut_elements


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_exported_run_and_through_onnx_are_one_network(name, tmp_path):
    module, sample = made(name)
    exported, ran = (read_torch(module, sample, method=method, strict=True) for method in ("export", "run"))
    assert essence(exported) == essence(ran)
    assert exported.parameters == ran.parameters == sum(weight.numel() for weight in module.parameters())
    stored = through_onnx(module, sample, tmp_path / "m.onnx")
    assert essence(stored) == essence(exported)
    assert costs(stored, "8x8", batch=4).total == costs(exported, "8x8", batch=4).total
    assert missing_work(exported) == ()


@pytest.mark.parametrize("name", ["resnet", "encoder", "unet", "shufflenet"])
@pytest.mark.parametrize("method", ["export", "run"])
def test_the_batch_of_the_sample_does_not_matter(name, method):
    module, sample = made(name)
    several = read_torch(module, torch.cat([sample] * 3), method=method)
    assert essence(several) == essence(read_torch(module, sample, method=method))


def test_layers_bear_the_names_of_their_modules():
    module, sample = made("resnet")
    names = [layer.name for layer in read_torch(module, sample).layers]
    assert names[:5] == ["0.0", "2.body.0.0", "2.body.1.0", "2.body.2", "2.down"] and names[-1] == "4.3"


def test_kinds_of_layers():
    kinds = {name: [type(layer.op) for layer in read_torch(*made(name)).layers] for name in ("unet", "encoder")}
    assert ConvTranspose in kinds["unet"] and Dense not in kinds["unet"] and set(kinds["encoder"]) == {MatMul}
    scores, mix = [layer.op for layer in read_torch(*made("encoder")).layers if not layer.weights][:2]
    assert (scores.M, scores.K, scores.N, scores.count) == (12, 8, 12, 4) == (mix.M, mix.N, mix.K, mix.count)


def test_lenet_is_the_built_in():
    tanh, pool = nn.Tanh, nn.AvgPool2d
    module = chain(nn.Conv2d(1, 6, 5), tanh(), pool(2), nn.Conv2d(6, 16, 5), tanh(), pool(2), nn.Flatten(),
                   nn.Linear(400, 120), tanh(), nn.Linear(120, 84), tanh(), nn.Linear(84, 10))  # fmt: skip
    found, known = read_torch(module, torch.zeros(1, 1, 32, 32)), network("lenet5")
    assert essence(found) == essence(known) and found.parameters == known.parameters
    assert [layer.op for layer in found.layers] == [layer.op for layer in known.layers]


def test_a_plan_of_a_module():
    found = costs(read_torch(*made("resnet")), "8x8", batch=4)
    assert plan(found, 3).period < found.total


class Choosing(nn.Module):
    """Its flow depends on numbers, so that it cannot be exported."""

    def __init__(self):
        super().__init__()
        self.small, self.large = nn.Linear(8, 4), nn.Linear(8, 16)

    def forward(self, x):
        return self.large(x) if x.sum().item() > 0 else self.small(x)


@pytest.mark.parametrize("number, layer", [(1, "large"), (-1, "small")])
def test_where_export_fails_a_run_is_noted(number, layer):
    module, sample = Choosing(), number * torch.ones(1, 8)
    assert [found.name for found in read_torch(module, sample).layers] == [layer]
    with pytest.raises(ValueError, match="the module Choosing fails on the sample: "):
        read_torch(module, sample, method="export")


class InPlace(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        y = self.first(x)
        y.add_(1).relu_()  # what comes back is not used
        return self.second(y)


@pytest.mark.parametrize("method", ["export", "run"])
def test_operators_in_place_change_the_tensor_that_is_read_later(method):
    found = read_torch(InPlace(), torch.zeros(1, 8), method=method)
    assert [(node.name.rpartition(".")[2], node.inputs) for node in found.nodes] == [
        ("first", ("input",)), ("add", ("first",)), ("relu", ("add",)), ("second", ("relu",))]  # fmt: skip


OTHERS = {
    "one side": (lambda: nn.Conv1d(3, 4, 5, padding="same"), (3, 20), (4, 1, 20)),
    "three sides": (lambda: nn.Conv3d(3, 4, 3), (3, 8, 8, 8), (4, 6, 6, 6)),
    "up, with an output padding": (lambda: nn.ConvTranspose2d(4, 6, 3, 2, 1, 1, 2), (4, 8, 8), (6, 16, 16)),
}  # fmt: skip


@pytest.mark.parametrize("case", OTHERS)
@pytest.mark.parametrize("method", ["export", "run"])
def test_convolutions_of_other_forms(case, method):
    build, sizes, out = OTHERS[case]
    module = build()
    (layer,) = read_torch(module, torch.zeros(1, *sizes), method=method).layers
    assert layer.out_shape == out and layer.weights == module.weight.numel()
    assert isinstance(layer.op, ConvND) == (case != "one side")


def test_an_lstm_is_missing_with_its_share():
    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm, self.fc = nn.LSTM(8, 16, batch_first=True), nn.Linear(80, 10)

        def forward(self, x):
            return self.fc(self.lstm(x)[0].flatten(1))

    with pytest.warns(UserWarning, match=r"model 'Recurrent' has operators whose .*: 'lstm.lstm' \(lstm, 90.6 % of"):
        found = read_torch(Recurrent(), torch.zeros(1, 5, 8), method="export")
    lstm = 5 * (64 * 8 + 64 * 16)
    assert missing_work(found) == (("lstm.lstm", "lstm", lstm / (lstm + 800)),)


def test_the_module_is_left_as_it_was():
    module, sample = made("resnet")
    module.train()
    module[0].eval()
    fast = torch.backends.mha.get_fastpath_enabled()
    for method in ("export", "run"):
        read_torch(module, sample, method=method)
        assert module.training and not module[0].training and module[2].training
        assert torch.backends.mha.get_fastpath_enabled() == fast
        assert not any(part._forward_pre_hooks or part._forward_hooks for part in module.modules())


def test_further_inputs_hang_on_the_first():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(8, 8)

        def forward(self, x, y):
            return self.fc(x) + y

    found = read_torch(Two(), (torch.zeros(1, 8), torch.zeros(1, 8)))
    assert found.nodes[0].op == Carried("Input", (8, 1, 1)) and not found.layers[0].shared_input


ERRORS = {
    "module": (lambda: read_torch(7, torch.zeros(1, 8)), "the module is 7; it must be a torch.nn.Module"),
    "sample": (lambda: read_torch(nn.Linear(8, 4), 7), "the sample is 7; it must be a tensor, or a tuple of tensors"),
    "no sample": (lambda: read_torch(nn.Linear(8, 4), ()), "the sample is .*; it must be a tensor, or a tuple"),
    "method": (lambda: read_torch(nn.Linear(8, 4), torch.zeros(1, 8), method="trace"), "method is 'trace'; it must be"),
    "misfit": (lambda: read_torch(nn.Linear(8, 4), torch.zeros(1, 9)), "the module Linear fails on the sample: "),
    "nothing": (lambda: read_torch(nn.Identity(), torch.zeros(1, 9)), "nothing in model 'Identity' depends on its in"),
}  # fmt: skip


@pytest.mark.parametrize("case", ERRORS)
def test_errors(case):
    wrong, message = ERRORS[case]
    with pytest.raises(ValueError, match=message) as caught:
        wrong()
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400


def test_without_pytorch_one_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(ValueError, match=r"torch is not installed here; .*pip install '.\[torch\]'"):
        read_torch(None, None)


@pytest.mark.parametrize("name, giga_macs", [("resnet18", 1.81), ("alexnet", 0.71)])
def test_modules_of_torchvision_are_the_built_ins(name, giga_macs):
    models = pytest.importorskip("torchvision.models", reason="torchvision is not installed", exc_type=Exception)
    found, known = read_torch(getattr(models, name)(weights=None), torch.zeros(1, 3, 224, 224)), network(name)
    assert found.parameters == known.parameters
    assert round(sum(layer.macs() for layer in found.layers) / 1e9, 2) == giga_macs
    assert essence(found) == essence(known)
