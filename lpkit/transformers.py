"""The built-in transformers, as functions that return a `Network`: `bert_base`, `gpt2` and `vit_b16`.

A block has eight products: Q, K and V, the scores Q K^T and their mixture (the context) of each head, the projection of
the heads, and the two dense layers after it. Scores and context multiply two computed tensors: they have no weights and
no G, and their delta is two products. Embeddings are looked up; they, norms, softmax and GELU are carried along without
a product, with what they learn. A mask saves no product: all scores are made. Dropout is left out.

Sources: Vaswani et al., "Attention is all you need", arXiv:1706.03762, and the publication in each docstring.
"""

from lpkit.checks import pair, whole_number
from lpkit.graph import INPUT, Network, Node
from lpkit.matmul import MatMul
from lpkit.operations import Activation, Add, Carried, Conv, Dense

__all__ = ["bert_base", "gpt2", "vit_b16"]

PATCH = 16  # side of a patch of `vit_b16`, pixels


def bert_base(*, sequence=512, layers=12, width=768, heads=12):
    """BERT-base up to its pooled output, on `sequence` tokens (109,482,240 parameters).

    The norm comes after each residual sum. The last tenth of its pre-training has 512 tokens, as here, what comes
    before has 128. The table of positions has 512 rows, or more for a longer sequence. The two tables beside that of
    the words (positions, segments) count as parameters of the sum that reads them. The heads of pre-training are left
    out.

    Source: Devlin et al., arXiv:1810.04805, section 3; ``layers=24, width=1024, heads=16`` is its BERT-large.

    Parameters
    ----------
    sequence : int
        Tokens.
    layers, width, heads : int
        Blocks, numbers a token is given, and parts of them in attention.

    Returns
    -------
    Network

    Raises
    ------
    ValueError
        If a size is not a whole number of at least 1, or `heads` does not divide `width`.

    Examples
    --------
    >>> network = bert_base(sequence=128)
    >>> network.parameters, len(network.layers), sum(layer.macs() for layer in network.layers)
    (109482240, 97, 11174215680)
    """
    tokens, layers, width, heads = _sizes(sequence, layers, width, heads)
    nodes = [
        Node("embeddings", Carried("Embedding", (tokens, 1, width), 30_522 * width), INPUT),
        Node("positions", Carried("Add", (tokens, 1, width), (max(512, tokens) + 2) * width), "embeddings"),
        _norm("norm", tokens, width, "positions"),
    ]
    for number in range(1, layers + 1):
        nodes += _post_norm_block(f"block{number}", nodes[-1].name, tokens, width, heads)
    nodes += [
        Node("first", Carried("Slice", (width, 1, 1)), nodes[-1].name),
        Node("pooler", Dense(width), "first"),
        Node("tanh", Activation("tanh"), "pooler"),
    ]
    return Network("bert_base", (tokens, 1, 1), nodes)


def gpt2(*, sequence=1024, layers=12, width=768, heads=12):
    """The smallest GPT-2 with its language model head, on `sequence` tokens (124,439,808 parameters).

    The norm comes before attention and before the dense layers. The head shares its weights with the table of the
    words: its product is there, and they are counted once, as the head's; the table itself counts none. The table of
    positions has 1024 rows, or more for a longer sequence. Q, K and V are three products here; one product with three
    times the columns, as in the published code, is the same work.

    Source: Radford et al., "Language models are unsupervised multitask learners", 2019, section 2.3 and Table 2, whose
    larger models are ``layers=24, width=1024, heads=16``, (36, 1280, 20) and (48, 1600, 25).

    Parameters
    ----------
    sequence, layers, width, heads
        As for `bert_base`.

    Returns
    -------
    Network

    Raises
    ------
    ValueError
        As `bert_base`.

    Examples
    --------
    >>> network = gpt2()
    >>> network.parameters, len(network.layers), network.layers[-1].op.N
    (124439808, 97, 50257)
    """
    tokens, layers, width, heads = _sizes(sequence, layers, width, heads)
    nodes = [
        Node("embeddings", Carried("Embedding", (tokens, 1, width)), INPUT),
        Node("positions", Carried("Add", (tokens, 1, width), max(1024, tokens) * width), "embeddings"),
    ]
    for number in range(1, layers + 1):
        nodes += _pre_norm_block(f"block{number}", nodes[-1].name, tokens, width, heads)
    nodes.append(_norm("norm", tokens, width, nodes[-1].name))
    nodes.append(Node("head", MatMul(tokens, width, 50_257, shape=(tokens, 1, 50_257)), "norm"))
    return Network("gpt2", (tokens, 1, 1), nodes)


def vit_b16(*, classes=1000, size=224, layers=12, width=768, heads=12):
    """ViT-B/16 on a 3 x 224 x 224 input: 196 patches and a class token (86,567,656 parameters).

    `size` is a side of the input, or (height, width), in multiples of 16; the table of positions has a row for each
    token. The norm comes before attention and before the dense layers; the head is one dense layer.

    Source: Dosovitskiy et al., arXiv:2010.11929, section 3.1 and Table 1, whose ViT-L/16 is ``layers=24, width=1024,
    heads=16``.

    Parameters
    ----------
    classes : int
        Of the head.
    size : int or (int, int)
        Pixels.
    layers, width, heads
        As for `bert_base`.

    Returns
    -------
    Network

    Raises
    ------
    ValueError
        As `bert_base`; or if a side is not a multiple of 16.

    Examples
    --------
    >>> network = vit_b16()
    >>> network.parameters, len(network.layers), network.shapes["positions"]
    (86567656, 98, (197, 1, 768))
    """
    sides = pair(size, "size")
    if any(side % PATCH for side in sides):
        raise ValueError(f"size is {size!r}; the sides must be multiples of {PATCH}, the side of a patch")
    patches = (sides[0] // PATCH) * (sides[1] // PATCH)
    tokens, layers, width, heads = _sizes(patches + 1, layers, width, heads)
    nodes = [
        Node("patches", Conv(width, PATCH, stride=PATCH), INPUT),
        Node("flatten", Carried("Transpose", (patches, 1, width)), "patches"),
        Node("token", Carried("Concat", (tokens, 1, width), width), "flatten"),
        Node("positions", Carried("Add", (tokens, 1, width), tokens * width), "token"),
    ]
    for number in range(1, layers + 1):
        nodes += _pre_norm_block(f"block{number}", nodes[-1].name, tokens, width, heads)
    nodes.append(_norm("norm", tokens, width, nodes[-1].name))
    nodes += [Node("first", Carried("Slice", (width, 1, 1)), "norm"), Node("head", Dense(classes), "first")]
    return Network("vit_b16", (3, *sides), nodes)


def _sizes(sequence, layers, width, heads):
    sizes = {"sequence": sequence, "layers": layers, "width": width, "heads": heads}
    sizes = {name: whole_number(number, name) for name, number in sizes.items()}
    if sizes["width"] % sizes["heads"]:
        raise ValueError(f"heads is {sizes['heads']}, no divisor of the width {sizes['width']}; choose a divisor")
    return tuple(sizes.values())


def _post_norm_block(name, source, tokens, width, heads):
    """Nodes of a block as of BERT: each residual sum is normalised, and the next part reads that."""
    return [
        *_attention(name, source, tokens, width, heads),
        Node(f"{name}.add1", Add(), (source, f"{name}.output")),
        _norm(f"{name}.norm1", tokens, width, f"{name}.add1"),
        *_dense_layers(name, f"{name}.norm1", tokens, width),
        Node(f"{name}.add2", Add(), (f"{name}.norm1", f"{name}.fc2")),
        _norm(f"{name}.norm2", tokens, width, f"{name}.add2"),
    ]


def _pre_norm_block(name, source, tokens, width, heads):
    """Nodes of a block as of GPT-2 and ViT: each part reads the normalised sum, and is added to the sum itself."""
    return [
        _norm(f"{name}.norm1", tokens, width, source),
        *_attention(name, f"{name}.norm1", tokens, width, heads),
        Node(f"{name}.add1", Add(), (source, f"{name}.output")),
        _norm(f"{name}.norm2", tokens, width, f"{name}.add1"),
        *_dense_layers(name, f"{name}.norm2", tokens, width),
        Node(f"{name}.add2", Add(), (f"{name}.add1", f"{name}.fc2")),
    ]


def _attention(name, source, tokens, width, heads):
    """Q, K and V of `source`, equation 1 of arXiv:1706.03762 for each head, and the projection of all heads."""
    each, project = width // heads, MatMul(tokens, width, width, shape=(tokens, 1, width), bias=True)
    scores = MatMul(tokens, each, tokens, heads, (heads, tokens, tokens), weights=False)
    context = MatMul(tokens, tokens, each, heads, (tokens, 1, width), weights=False)
    return [
        *(Node(f"{name}.{part}", project, source) for part in ("query", "key", "value")),
        Node(f"{name}.scores", scores, (f"{name}.query", f"{name}.key")),
        Node(f"{name}.softmax", Activation("softmax"), f"{name}.scores"),
        Node(f"{name}.context", context, (f"{name}.softmax", f"{name}.value")),
        Node(f"{name}.output", project, f"{name}.context"),
    ]


def _dense_layers(name, source, tokens, width):
    """Two dense layers at each token, four times as wide between them."""
    return [
        Node(f"{name}.fc1", MatMul(tokens, width, 4 * width, shape=(tokens, 1, 4 * width), bias=True), source),
        Node(f"{name}.gelu", Activation("gelu"), f"{name}.fc1"),
        Node(f"{name}.fc2", MatMul(tokens, 4 * width, width, shape=(tokens, 1, width), bias=True), f"{name}.gelu"),
    ]


def _norm(name, tokens, width, source):
    return Node(name, Carried("LayerNormalization", (tokens, 1, width), 2 * width), source)
