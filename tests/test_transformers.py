"""The built-in transformers against the same networks in plain PyTorch, read by export, by a run and as ONNX."""

import io
import warnings
from contextlib import redirect_stdout

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from lpkit.costs import costs  # noqa: E402
from lpkit.interop.torch_model import read_torch  # noqa: E402
from lpkit.networks import network  # noqa: E402
from lpkit.products import OPS, gemms  # noqa: E402

LAYERS, WIDTH, HEADS = 2, 32, 4
SMALL = {"layers": LAYERS, "width": WIDTH, "heads": HEADS}


class Attention(nn.Module):
    """`fused`: by PyTorch's own function, else the two products and the softmax one by one."""

    def __init__(self, fused=True, causal=False):
        super().__init__()
        self.fused, self.causal = fused, causal
        self.query, self.key, self.value, self.output = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x):
        q, k, v = (part(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in (self.query, self.key, self.value))
        if self.fused:
            mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        else:
            mixed = (q @ k.transpose(-2, -1) / (WIDTH // HEADS) ** 0.5).softmax(-1) @ v
        return self.output(mixed.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, *, norm_first, **options):
        super().__init__()
        self.norm_first, self.attention = norm_first, Attention(**options)
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.dense = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        if self.norm_first:
            x = x + self.attention(self.norm1(x))
            return x + self.dense(self.norm2(x))
        x = self.norm1(x + self.attention(x))
        return self.norm2(x + self.dense(x))


class Bert(nn.Module):
    """`packed`: blocks of PyTorch's own, which make Q, K and V in one product."""

    def __init__(self, packed=False, **options):
        super().__init__()
        self.words, self.positions, self.segments = (nn.Embedding(n, WIDTH) for n in (30_522, 512, 2))
        self.norm, self.pooler = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)
        if packed:
            layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, activation="gelu", batch_first=True)
            self.blocks = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        else:
            self.blocks = nn.Sequential(*(Block(norm_first=False, **options) for _ in range(LAYERS)))

    def forward(self, tokens, segments):
        places = self.positions(torch.arange(tokens.shape[1]))
        found = self.blocks(self.norm(self.words(tokens) + self.segments(segments) + places))
        return torch.tanh(self.pooler(found[:, 0]))


class Gpt(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.words, self.positions = nn.Embedding(50_257, WIDTH), nn.Embedding(1024, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.blocks = nn.Sequential(*(Block(norm_first=True, **options) for _ in range(LAYERS)))
        self.head = nn.Linear(WIDTH, 50_257, bias=False)
        self.head.weight = self.words.weight

    def forward(self, tokens):
        found = self.blocks(self.words(tokens) + self.positions(torch.arange(tokens.shape[1])))
        return self.head(self.norm(found))


class Vit(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.patches, self.norm, self.head = nn.Conv2d(3, WIDTH, 16, 16), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 1000)
        self.token, self.positions = (nn.Parameter(torch.rand(1, n, WIDTH)) for n in (1, 17))
        self.blocks = nn.Sequential(*(Block(norm_first=True, **options) for _ in range(LAYERS)))

    def forward(self, images):
        found = self.patches(images).flatten(2).transpose(1, 2)
        found = torch.cat([self.token.expand(found.shape[0], -1, -1), found], 1) + self.positions
        return self.head(self.norm(self.blocks(found))[:, 0])


def tokens(length):
    return torch.zeros(1, length, dtype=torch.long)


# name -> the module, a sample, the options of the built-in; sequences as long as the tables of positions
CASES = {
    "bert_base": (Bert, (tokens(512), tokens(512)), {}),
    "gpt2": (Gpt, tokens(1024), {}),
    "vit_b16": (Vit, torch.zeros(1, 3, 64, 64), {"size": 64}),
}


def made(name, **options):
    """The module, no weight of it 0 or 1 (an exporter leaves those out), a sample and the built-in."""
    build, sample, own = CASES[name]
    module = build(**options).eval()
    with torch.no_grad():
        for weight in module.parameters():
            weight.copy_(torch.rand(weight.shape) + 0.5)
    return module, sample, network(name, **SMALL, **own)


def essence(net):
    """All that costs and plans depend on."""
    products = [[gemms(layer, op, batch=3) for op in OPS] for layer in net.layers]
    rest = [(layer.weights, layer.input_elements, layer.output_elements, layer.first_consumer, layer.shared_input,
             layer.on_longest_path) for layer in net.layers]  # fmt: skip
    return products, rest


@pytest.mark.parametrize("name", CASES)
def test_the_built_in_is_the_same_network_in_pytorch(name):
    module, sample, known = made(name, **({"causal": True} if name == "gpt2" else {}))
    for method in ("export", "run"):
        found = read_torch(module, sample, method=method, strict=True)
        assert essence(found) == essence(known) and found.cut_elements == known.cut_elements
        assert found.parameters == known.parameters == sum(weight.numel() for weight in module.parameters())
        ours, theirs = (costs(net, "32x16", batch=3) for net in (known, found))
        for column in (*OPS, "cut_bytes", "weight_bytes", "first_consumer"):
            assert getattr(ours, column).tolist() == getattr(theirs, column).tolist()


@pytest.mark.parametrize("name", CASES)
def test_products_written_out_one_by_one_are_those_of_the_built_in(name):
    module, sample, known = made(name, fused=False)
    found = read_torch(module, sample, strict=True)
    assert essence(found) == essence(known)


@pytest.mark.parametrize("name", CASES)
def test_through_onnx_it_is_the_same_network(name, tmp_path):
    pytest.importorskip("onnxscript", reason="PyTorch writes ONNX with the package onnxscript")
    reader = pytest.importorskip("lpkit.interop.onnx")
    module, sample, known = made(name, fused=False)
    with warnings.catch_warnings(), redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        inputs = sample if isinstance(sample, tuple) else (sample,)
        torch.onnx.export(module, inputs, tmp_path / "m.onnx", dynamo=True, verbose=False)
    found = reader.read_onnx(tmp_path / "m.onnx", strict=True)
    assert essence(found) == essence(known)
    assert found.parameters == known.parameters


def test_blocks_of_pytorch_with_q_k_and_v_in_one_product_are_the_same_work():
    module, sample, known = made("bert_base", packed=True)
    found = read_torch(module, sample, strict=True)
    assert len(known.layers) - len(found.layers) == 2 * LAYERS and found.parameters == known.parameters
    assert sum(layer.macs() for layer in found.layers) == sum(layer.macs() for layer in known.layers)
    ours, theirs = (costs(net, "16x32", batch=3) for net in (known, found))  # columns that divide the width
    assert [getattr(ours, op).sum() for op in OPS] == [getattr(theirs, op).sum() for op in OPS]


def test_a_table_that_a_head_shares_is_counted_once_with_the_head():
    module, sample, _ = made("gpt2")
    found = read_torch(module, sample)
    lookup = next(node for node in found.nodes if "embedding" in node.name)
    assert lookup.op.parameters == 0 and found.layers[-1].weights == module.words.weight.numel()
