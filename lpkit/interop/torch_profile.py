"""Times of each layer of a torch module on this machine, as `Costs` in seconds; needs the extra ``torch``.

F, delta and G are timed one by one, not guessed from the time of the whole backward pass: autograd is asked for the
gradient of the input alone, and of the weights alone. What is fused with a layer is charged to its F and, backwards, to
its G, since it stays with the layer when delta moves.
Any version of torch will do; what is measured holds for this machine, this number of threads and this micro-batch.
"""

import math
import platform
import time
from collections import namedtuple
from copy import deepcopy

import numpy as np

from lpkit.checks import shown, whole_number
from lpkit.costs import Costs
from lpkit.interop.torch_layers import module_layers, needs_torch

__all__ = ["Shapes", "profile_layers", "shapes_of"]

Shapes = namedtuple("Shapes", "input result output dtype")
Shapes.__doc__ = """Shapes of a layer's input and result, and shape and type of the output of what is fused after it."""


def profile_layers(modules, sample, *, repeats=9, warmup=2, threads=1, seed=0, name="measured chain"):
    """Costs of a chain of modules for one micro-batch, in seconds: medians of `repeats` passes over the whole chain.

    Parameters
    ----------
    modules : torch.nn.Sequential or list of torch.nn.Module
        On the CPU; not changed.
    sample : torch.Tensor (B, ...)
        Input of one micro-batch.
    repeats, warmup : int
        Passes that count, and those before them.
    threads : int
        Of torch; 1 as in `lpkit.interop.torch.run_pipeline`.
    seed : int
        Of the errors sent back and of modules that draw numbers.
    name : str
        Of the costs.

    Returns
    -------
    Costs
        Layers are named as in the model. The first needs no delta.

    Raises
    ------
    ValueError
        If torch is missing, a number is out of range, or the sample does not fit the model.

    Notes
    -----
    G of a layer that is neither a convolution nor linear (a block with branches, say) is its backward pass less delta.

    Examples
    --------
    >>> import torch
    >>> costs = profile_layers([torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)], torch.ones(4, 8))
    >>> costs.unit, costs.layers, costs.weight_bytes, bool((costs.F > 0).all())
    ('s', ('0', '2'), array([256,  64]), True)
    """
    torch = needs_torch()
    repeats, warmup = whole_number(repeats, "repeats"), whole_number(warmup, "warmup", least=0)
    threads, seed = whole_number(threads, "threads", most=1024), whole_number(seed, "seed", least=0)
    layers = deepcopy(module_layers(modules))
    shapes = shapes_of(layers, sample)
    before = torch.get_num_threads()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        torch.set_num_threads(threads)
        try:
            passes = [_pass(layers, sample.detach()) for _ in range(warmup + repeats)][warmup:]
        finally:
            torch.set_num_threads(before)
    F, G, delta = np.median(np.array(passes), axis=0)
    return Costs.from_times(F, G, delta, [layer.name for layer in layers], name=name, **_bytes(layers, shapes),
                            source=_source(torch, sample, repeats, threads))  # fmt: skip


def shapes_of(layers, sample):
    """`Shapes` of each layer for a sample; the modules are not changed.

    Raises
    ------
    ValueError
        If a module does not take what the one before gives.
    """
    torch = needs_torch()
    if not isinstance(sample, torch.Tensor) or not sample.dim():
        raise ValueError(f"the sample is {shown(sample)}; give a tensor (B, ...), the input of one micro-batch")
    result, x = [], sample
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        for layer in deepcopy(layers):
            seen = [x := x.detach()]
            for name, module in zip(layer.names, layer.modules):
                seen.append(x := _applied(module, name, x).clone())
            result.append(Shapes(*(tuple(seen[n].shape) for n in (layer.main, layer.main + 1, -1)), x.dtype))
    return result


def _applied(module, name, x):
    torch = needs_torch()
    try:
        y = module(x.clone())
    except Exception as error:  # whatever a module does with a wrong shape or type
        said = " ".join(str(error).split())
        raise ValueError(f"module {shown(name)} does not take an input of shape {tuple(x.shape)} and type {x.dtype}: "
                         f"{shown(said, 200)}") from None  # fmt: skip
    if not isinstance(y, torch.Tensor):
        raise ValueError(f"module {shown(name)} gives a {type(y).__name__}; stages pass one tensor on, so skip "
                         "connections and other tuples must stay inside one module")  # fmt: skip
    return y


def _pass(layers, sample):
    """Seconds of F, G and delta of each layer in one pass forward and back, three rows."""
    torch = needs_torch()
    x, kept, F = sample, [], []
    for n, layer in enumerate(layers):
        x = x.detach().requires_grad_(n > 0)
        begin = time.perf_counter()
        edge, y = _forward(layer, x)
        F.append(time.perf_counter() - begin)
        kept.append((x, edge, y))
        x = y
    error, G, delta = torch.randn_like(x), [], []
    for layer, tensors in zip(reversed(layers), reversed(kept)):
        seconds_G, seconds_delta, error = _backward(layer, *tensors, error)
        G.append(seconds_G)
        delta.append(seconds_delta)
    return F, G[::-1], delta[::-1]


def _forward(layer, x):
    """Where in autograd's graph the result of the layer's own module is, and the output of all fused with it."""
    torch = needs_torch()
    for module in layer.modules[: layer.main]:
        x = module(x)
    z = layer.module(x)
    edge = torch.autograd.graph.get_gradient_edge(z)  # holds also where what follows works in place
    for module in layer.after:
        z = module(z)
    return edge, z


def _backward(layer, x, edge, y, error):
    """Seconds of G (with what is fused) and of delta, and the error of the input (None for the first layer)."""
    fused = [p for module in layer.after for p in module.parameters() if p.requires_grad]
    own = [p for module in layer.modules[: layer.main + 1] for p in module.parameters() if p.requires_grad]
    seconds, (at_result, *_) = _timed(y, [edge, *fused], error)
    seconds_G = _timed(edge, own, at_result)[0] if own else 0.0
    if not x.requires_grad:
        return seconds + seconds_G, 0.0, None
    seconds_delta, (below,) = _timed(edge, [x], at_result)
    if not _separable(layer.module):
        seconds_G = max(_timed(edge, [x, *own], at_result)[0] - seconds_delta, 0.0)
    return seconds + seconds_G, seconds_delta, below


def _timed(output, inputs, error):
    """Seconds in which autograd finds the gradients of `inputs`, and those."""
    torch = needs_torch()
    begin = time.perf_counter()
    gradients = torch.autograd.grad([output], inputs, [error], retain_graph=True, allow_unused=True)
    return time.perf_counter() - begin, gradients


def _separable(module):
    """Whether delta and G of a module are two products that share no work."""
    nn = needs_torch().nn
    return isinstance(module, (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d,
                               nn.ConvTranspose3d))  # fmt: skip


def _bytes(layers, shapes):
    size = next(layers[0].module.parameters()).element_size()
    return {"weight_bytes": [layer.weights * size for layer in layers],
            "input_bytes": [math.prod(shape.input) * size for shape in shapes],
            "output_bytes": [math.prod(shape.output) * size for shape in shapes],
            "bytes_per_element": size}  # fmt: skip


def _source(torch, sample, repeats, threads):
    return (f"measured: median of {repeats} passes of {len(sample)} samples on {threads} "
            f"{'thread' if threads == 1 else 'threads'} of a {platform.machine()} CPU, "
            f"torch {torch.__version__}")  # fmt: skip
