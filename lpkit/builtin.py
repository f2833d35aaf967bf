"""The built-in architectures, as functions that return a `Network`.

Each follows the publication in its docstring (the layout torchvision trains, where that differs is said). Dropout is
left out: it costs no matrix product and has no parameters. There is no adaptive pooling: at another input size the
first dense layer of `alexnet` and `vgg` grows or shrinks with the map that reaches it.
"""

from lpkit.checks import pair
from lpkit.graph import INPUT, Network, Node
from lpkit.operations import (
    Activation,
    Add,
    BatchNorm,
    Concat,
    Conv,
    ConvTranspose,
    Dense,
    Flatten,
    GlobalPool,
    Pool,
)

__all__ = [
    "sample4", "lenet5", "alexnet", "vgg11", "vgg13", "vgg16", "vgg19", "resnet18", "resnet34", "resnet50",
    "resnet101", "resnet152", "mobilenet_v1", "unet",
]  # fmt: skip

_VGG_BLOCKS = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}
_RESNET_BLOCKS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}


def sample4(*, size=224):
    """The four-layer sample network of LayerPipe, reconstructed from the cycle counts in the paper's text.

    Four convolutions with ReLU on a 3 x 224 x 224 input (`size`: side, or height and width). It is the plainest of
    the networks that give those cycles; layer 1 is moderately certain, layers 2 to 4 are one choice of many, and the
    published Table I may differ. Filters only, no bias.

    Source: LayerPipe, arXiv:2108.06629 (stands for its Table I).

    Examples
    --------
    >>> [layer.weights for layer in sample4().layers]
    [2400, 51200, 73728, 147456]
    """
    filters = [(32, 5, 2), (64, 5, 2), (128, 3, 2), (128, 3, 1)]
    steps = []
    for i, (channels, kernel, stride) in enumerate(filters, 1):
        conv = Conv(channels, kernel, stride=stride, padding=kernel // 2, bias=False)
        steps += [(f"conv{i}", conv), (f"relu{i}", Activation())]
    return Network("sample4", _shape(3, size), _chain(INPUT, steps))


def lenet5(*, classes=10, size=32):
    """LeNet-5 on a 1 x 32 x 32 input: tanh, average pooling, every map connected (61,706 parameters).

    Source: LeCun, Bottou, Bengio, Haffner, "Gradient-based learning applied to document recognition", 1998, Fig. 2,
    without the trainable sub-sampling, the connection table of C3 and the radial basis output.

    Examples
    --------
    >>> lenet5().parameters
    61706
    """
    steps = [
        ("c1", Conv(6, 5)), ("tanh1", Activation("tanh")), ("s2", Pool(2, kind="average")),
        ("c3", Conv(16, 5)), ("tanh3", Activation("tanh")), ("s4", Pool(2, kind="average")),
        ("flatten", Flatten()),
        ("c5", Dense(120)), ("tanh5", Activation("tanh")),
        ("f6", Dense(84)), ("tanh6", Activation("tanh")),
        ("output", Dense(classes)),
    ]  # fmt: skip
    return Network("lenet5", _shape(1, size), _chain(INPUT, steps))


def alexnet(*, classes=1000, size=224):
    """AlexNet in its one-tower form on a 3 x 224 x 224 input (61,100,840 parameters).

    Source: Krizhevsky, "One weird trick for parallelizing convolutional neural networks", arXiv:1404.5997; no local
    response normalisation.

    Examples
    --------
    >>> alexnet().parameters
    61100840
    """
    filters = [(64, 11, 4, 2), (192, 5, 1, 2), (384, 3, 1, 1), (256, 3, 1, 1), (256, 3, 1, 1)]
    steps = []
    for i, (channels, kernel, stride, padding) in enumerate(filters, 1):
        steps += [(f"conv{i}", Conv(channels, kernel, stride=stride, padding=padding)), (f"relu{i}", Activation())]
        steps += [(f"pool{i}", Pool(3, stride=2))] if i in (1, 2, 5) else []
    return Network("alexnet", _shape(3, size), _chain(INPUT, steps + _classifier(classes)))


def vgg11(*, classes=1000, size=224):
    """VGG with 11 layers (configuration A, 132,863,336 parameters); see `vgg16`.

    Examples
    --------
    >>> vgg11().parameters
    132863336
    """
    return _vgg(11, classes, size)


def vgg13(*, classes=1000, size=224):
    """VGG with 13 layers (configuration B, 133,047,848 parameters); see `vgg16`.

    Examples
    --------
    >>> vgg13().parameters
    133047848
    """
    return _vgg(13, classes, size)


def vgg16(*, classes=1000, size=224):
    """VGG with 16 layers on a 3 x 224 x 224 input (configuration D, 138,357,544 parameters).

    `size` is a side of the input, or (height, width); 32 or more.

    Source: Simonyan & Zisserman, arXiv:1409.1556, Table 1.

    Examples
    --------
    >>> vgg16().parameters
    138357544
    """
    return _vgg(16, classes, size)


def vgg19(*, classes=1000, size=224):
    """VGG with 19 layers (configuration E, 143,667,240 parameters); see `vgg16`.

    Examples
    --------
    >>> vgg19().parameters
    143667240
    """
    return _vgg(19, classes, size)


def resnet18(*, classes=1000, size=224):
    """Residual network of two-layer blocks, 18 deep (11,689,512 parameters); see `resnet50`.

    Examples
    --------
    >>> resnet18().parameters
    11689512
    """
    return _resnet(18, classes, size)


def resnet34(*, classes=1000, size=224):
    """Residual network of two-layer blocks, 34 deep (21,797,672 parameters); see `resnet50`.

    Examples
    --------
    >>> resnet34().parameters
    21797672
    """
    return _resnet(34, classes, size)


def resnet50(*, classes=1000, size=224):
    """Residual network of bottleneck blocks on a 3 x 224 x 224 input, 50 deep (25,557,032 parameters).

    The stride sits on the 3x3 convolution (torchvision's v1.5; the paper has it on the first 1x1). In a block the
    order is conv1, conv2, conv3, downsample; `downsample` (the projection) is off the longest path.

    Source: He, Zhang, Ren, Sun, arXiv:1512.03385, Table 1.

    Examples
    --------
    >>> network = resnet50()
    >>> network.parameters, len(network.layers), sum(layer.on_longest_path for layer in network.layers)
    (25557032, 54, 50)
    """
    return _resnet(50, classes, size)


def resnet101(*, classes=1000, size=224):
    """Residual network of bottleneck blocks, 101 deep (44,549,160 parameters); see `resnet50`.

    Examples
    --------
    >>> resnet101().parameters
    44549160
    """
    return _resnet(101, classes, size)


def resnet152(*, classes=1000, size=224):
    """Residual network of bottleneck blocks, 152 deep (60,192,808 parameters); see `resnet50`.

    Examples
    --------
    >>> resnet152().parameters
    60192808
    """
    return _resnet(152, classes, size)


def mobilenet_v1(*, classes=1000, size=224):
    """MobileNet of depthwise (grouped) and pointwise convolutions on 3 x 224 x 224 (4,231,976 parameters).

    Source: Howard et al., arXiv:1704.04861, Table 1, with padding 1 and a bias in the last layer only. The table's
    stride of 2 in the second of the 7x7 blocks is taken as 1, as its map sizes demand.

    Examples
    --------
    >>> mobilenet_v1().parameters
    4231976
    """
    blocks = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1)]
    steps = _conv_bn_relu("conv1", "bn1", "relu1", Conv(32, 3, stride=2, padding=1, bias=False))
    channels = 32
    for i, (out, stride) in enumerate(blocks, 2):
        depthwise = Conv(channels, 3, stride=stride, padding=1, groups=channels, bias=False)
        steps += _conv_bn_relu(f"conv{i}.dw", f"bn{i}.dw", f"relu{i}.dw", depthwise)
        steps += _conv_bn_relu(f"conv{i}.pw", f"bn{i}.pw", f"relu{i}.pw", Conv(out, 1, bias=False))
        channels = out
    return Network("mobilenet_v1", _shape(3, size), _chain(INPUT, steps + _head(classes)))


def unet(*, classes=2, size=512):
    """U-Net in the padded form in common use on 3 x 512 x 512 (31,037,698 parameters); sides are multiples of 16.

    The original has unpadded convolutions on 572 x 572 and crops what it concatenates; here every 3x3 convolution is
    padded by 1, free of bias and followed by batch normalisation, so that the maps fit without a crop. A transposed
    2x2 convolution up-samples; the skip tensor comes first in each concatenation.

    Source: Ronneberger, Fischer, Brox, arXiv:1505.04597, Fig. 1.

    Raises
    ------
    ValueError
        If a side is not a multiple of 16.

    Examples
    --------
    >>> unet().parameters
    31037698
    """
    if any(side % 16 for side in pair(size, "size")):
        raise ValueError(f"size is {size!r}; the sides must be multiples of 16, for four halvings")
    nodes = _double_conv(INPUT, "enc1", 64)
    for level in range(2, 6):
        nodes += _chain(nodes[-1].name, [(f"pool{level - 1}", Pool(2))])
        nodes += _double_conv(nodes[-1].name, f"enc{level}", 32 * 2**level)
    for level in range(4, 0, -1):
        channels = 32 * 2**level
        nodes += _chain(nodes[-1].name, [(f"up{level}", ConvTranspose(channels, 2, stride=2))])
        nodes += [Node(f"concat{level}", Concat(), (f"enc{level}.relu2", f"up{level}"))]
        nodes += _double_conv(nodes[-1].name, f"dec{level}", channels)
    nodes += _chain(nodes[-1].name, [("output", Conv(classes, 1))])
    return Network("unet", _shape(3, size), nodes)


def _shape(channels, size):
    return (channels, *pair(size, "size"))


def _chain(source, steps):
    """Nodes that each read the one before, the first `source`; `steps` are pairs (name, operation)."""
    names = [source, *(name for name, _ in steps)]
    return [Node(name, op, (before,)) for before, (name, op) in zip(names, steps)]


def _conv_bn_relu(conv, bn, relu, op):
    return [(conv, op), (bn, BatchNorm()), (relu, Activation())]


def _double_conv(source, prefix, channels):
    steps = []
    for i in (1, 2):
        op = Conv(channels, 3, padding=1, bias=False)
        steps += _conv_bn_relu(f"{prefix}.conv{i}", f"{prefix}.bn{i}", f"{prefix}.relu{i}", op)
    return _chain(source, steps)


def _classifier(classes):
    """The three dense layers of AlexNet and VGG."""
    return [
        ("flatten", Flatten()),
        ("fc6", Dense(4096)), ("relu6", Activation()),
        ("fc7", Dense(4096)), ("relu7", Activation()),
        ("fc8", Dense(classes)),
    ]  # fmt: skip


def _head(classes):
    return [("pool", GlobalPool()), ("flatten", Flatten()), ("fc", Dense(classes))]


def _vgg(depth, classes, size):
    steps = []
    for block, (count, channels) in enumerate(zip(_VGG_BLOCKS[depth], (64, 128, 256, 512, 512)), 1):
        for i in range(1, count + 1):
            steps += [(f"conv{block}_{i}", Conv(channels, 3, padding=1)), (f"relu{block}_{i}", Activation())]
        steps += [(f"pool{block}", Pool(2))]
    return Network(f"vgg{depth}", _shape(3, size), _chain(INPUT, steps + _classifier(classes)))


def _resnet(depth, classes, size):
    expansion = 4 if depth >= 50 else 1
    stem = _conv_bn_relu("conv1", "bn1", "relu", Conv(64, 7, stride=2, padding=3, bias=False))
    nodes = _chain(INPUT, stem + [("maxpool", Pool(3, stride=2, padding=1))])
    channels = 64
    for group, count in enumerate(_RESNET_BLOCKS[depth], 1):
        for i in range(count):
            width, stride = 32 * 2**group, 2 if i == 0 and group > 1 else 1
            project = stride > 1 or channels != expansion * width
            nodes += _residual_block(nodes[-1].name, f"layer{group}.{i}", width, stride, expansion, project)
            channels = expansion * width
    return Network(f"resnet{depth}", _shape(3, size), nodes + _chain(nodes[-1].name, _head(classes)))


def _residual_block(source, prefix, width, stride, expansion, project):
    """Convolutions 3x3, 3x3 (or 1x1, 3x3, 1x1 if `expansion` is 4), a projection where shapes change, and the sum."""
    convs = [Conv(width, 3, stride=stride, padding=1, bias=False), Conv(width, 3, padding=1, bias=False)]
    if expansion > 1:
        convs = [Conv(width, 1, bias=False), convs[0], Conv(expansion * width, 1, bias=False)]
    steps = []
    for i, conv in enumerate(convs, 1):
        steps += _conv_bn_relu(f"{prefix}.conv{i}", f"{prefix}.bn{i}", f"{prefix}.relu{i}", conv)
    nodes = _chain(source, steps[:-1])  # the last ReLU comes after the sum
    skip = source
    if project:
        skip = f"{prefix}.downsample"
        conv = Conv(expansion * width, 1, stride=stride, bias=False)
        nodes += _chain(source, [(skip, conv), (f"{skip}.bn", BatchNorm())])
        skip = f"{skip}.bn"
    branch = f"{prefix}.bn{len(convs)}"
    return [*nodes, Node(f"{prefix}.add", Add(), (branch, skip)), Node(f"{prefix}.relu", Activation(), f"{prefix}.add")]
