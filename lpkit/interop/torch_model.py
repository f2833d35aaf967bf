"""A PyTorch module as a `Network`: the graph that torch.export draws of it, or what it calls when it is run.

Where a module cannot be exported (its flow depends on numbers), it is run once on the sample with hooks that note
every operator. Source: the PyTorch documentation of torch.export and of torch.utils._python_dispatch.
"""

import math
import warnings

from lpkit.checks import not_installed, shown, whole_number
from lpkit.interop import torch_ops
from lpkit.interop.building import Builder, report_missing, title_of
from lpkit.interop.lowering import Sample, fitting
from lpkit.interop.torch_steps import exported_steps, noted_steps
from lpkit.networks import Carried

__all__ = ["read_torch"]

METHODS = ("export", "run")


def read_torch(module, sample, *, batch_dimension=0, method=None, strict=False, name=None):
    """The `Network` of a module in evaluation mode, the same as through ONNX.

    Parameters
    ----------
    module : torch.nn.Module
        It is left as it was; its weights are never read.
    sample : torch.Tensor or tuple of torch.Tensor
        What it is called with; only the sizes count, unless its flow depends on numbers.
    batch_dimension : int or None
        Which dimension of the inputs counts samples; None if none does. All sizes of the result are those of one
        sample.
    method : {"export", "run"}, optional
        By default torch.export, and, where that fails, a run.
    strict : bool
        Whether operators that multiply, but are no layers here, are an error instead of a warning.
    name : str, optional
        Of the network; the class of the module if left out.

    Raises
    ------
    ValueError
        If PyTorch is not installed, module or sample is none, the sample is empty, the module fails on the sample;
        and, if `strict`, for work that would be missing.

    Warns
    -----
    UserWarning
        Names the operators whose work is missing, with its share.

    Examples
    --------
    >>> import torch  # doctest: +SKIP
    >>> read_torch(torch.nn.Linear(8, 4), torch.zeros(1, 8)).parameters  # doctest: +SKIP
    36
    """
    torch = _torch()
    inputs = _checked(torch, module, sample, method)
    axis = None if batch_dimension is None else whole_number(batch_dimension, "batch_dimension", least=0, most=7)
    found = _steps(torch, module, inputs, method)
    build = Builder(_sample(inputs, axis), fixed=dict(found.fixed))
    build.begin([(f"input{number}", key, dims) for number, (key, dims) in enumerate(found.inputs, 1)])
    read = {ref.key for step in found.steps for ref in torch_ops.tensors(step.arguments)}
    for step in found.steps:
        _add(build, _without_leftovers(step, read))
    network = build.network(title_of(name or type(module).__name__))
    report_missing(network, strict)
    return network


def _torch():
    try:
        import torch
    except ImportError:
        raise not_installed("torch", "torch") from None
    return torch


def _checked(torch, module, sample, method):
    if not isinstance(module, torch.nn.Module):
        raise ValueError(f"the module is {shown(module)}; it must be a torch.nn.Module")
    inputs = tuple(sample) if isinstance(sample, (tuple, list)) else (sample,)
    if not inputs or not all(isinstance(tensor, torch.Tensor) for tensor in inputs):
        raise ValueError(f"the sample is {shown(sample)}; it must be a tensor, or a tuple of tensors")
    if method is not None and method not in METHODS:
        raise ValueError(f"method is {shown(method)}; it must be 'export' or 'run', or left out")
    return inputs


def _sample(inputs, axis):
    batches = [tensor.shape[axis] for tensor in inputs if axis is not None and tensor.dim() > axis]
    if 0 in batches:
        raise ValueError(f"the sample holds 0 samples (dimension {axis} of its tensors); give at least one")
    return Sample(batches[0], axis) if batches else Sample()


def _steps(torch, module, inputs, method):
    """The steps of the module, in evaluation mode; its mode and PyTorch's settings are put back."""
    modes = {part: part.training for part in module.modules()}
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # it is one operator for a whole layer of a transformer
    try:
        module.eval()
        return _tried(torch, module, inputs, method)
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        for part, training in modes.items():
            part.training = training


def _tried(torch, module, inputs, method):
    ways = {"export": exported_steps, "run": noted_steps}
    for way in METHODS if method is None else (method,):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of the exporter, of no concern to who reads sizes
                return ways[way](torch, module, inputs)
        except Exception as error:  # whatever PyTorch or the module raises
            reason = error
    text = " ".join(str(reason).split())
    raise ValueError(f"the module {type(module).__name__} fails on the sample: "
                     f"{text[:160]}{'...' * (len(text) > 160)}") from None


def _without_leftovers(step, read):
    """A step with its first result, and those others that something reads (no statistics kept for a backward pass)."""
    return step._replace(results=[ref for place, ref in enumerate(step.results) if not place or ref.key in read])


def _add(build, step):
    """Add the nodes of one operator, or note that what it makes is fixed or has only another name."""
    read = torch_ops.tensors(step.arguments)
    moving = [ref for ref in read if ref.key not in build.fixed]
    if not moving:
        origin = next((build.fixed[ref.key] for ref in read), step.kind)
        build.fixed.update({ref.key: origin for ref in step.results})
    elif torch_ops.is_rename(step):
        build.node_of[step.results[0].key] = build.node_of[moving[0].key]
        build.fixed.update({ref.key: step.kind for ref in step.results[1:]})
    else:
        _lower(build, step, read, moving)
    if step.in_place and moving and step.results and step.results[0].key in build.node_of:
        build.node_of[read[0].key] = build.node_of[step.results[0].key]


def _lower(build, step, read, moving):
    title = ".".join(filter(None, (step.module, step.kind)))
    found = torch_ops.product(step, build.fixed, build.sample)
    if found and isinstance(found[0], tuple):
        ops, refs = found
        build.node_of[step.results[0].key] = build.attention(title, ops, [build.node_of[ref.key] for ref in refs])
        build.fixed.update({ref.key: step.kind for ref in step.results[1:]})
    elif found:
        op, refs = found
        weights = [build.fixed[ref.key] for ref in read if ref.key in build.fixed]
        build.node_of[step.results[0].key] = build.layer(title, op, [ref.key for ref in refs], step.results[0].dims,
                                                         weights)
    else:
        _carry(build, step, title, read, moving)


def _carry(build, step, title, read, moving):
    inputs = [build.node_of[ref.key] for ref in moving]
    hidden = torch_ops.hidden_macs(step)
    hidden = None if hidden is None else -(-hidden // build.sample.batch)
    parameters = _learned(build, step, read)
    for number, ref in enumerate(step.results):
        shape = build.sample.shape(ref.dims)
        op = torch_ops.plain_op(step) if number == 0 and not hidden else None
        fixed_ones = len(read) - len(moving)
        known = op and (fixed_ones == 0 or step.kind.endswith("batch_norm"))
        if not known or not fitting(op, [build.shapes[name] for name in inputs], shape):
            kind = torch_ops.VIEWS.get(step.kind, step.kind)
            op = Carried(kind, shape, 0 if number else parameters, 0 if number else hidden)
        build.node_of[ref.key] = build.append(f"{title}.{number}" if number else title, op, inputs, shape)


def _learned(build, step, read):
    """Numbers in the weights that an operator reads, counted where they are first read."""
    count = 0
    for ref in read:
        origin = build.fixed.get(ref.key)
        if origin and ref.learned and math.prod(ref.dims) > 1:
            count += build.learned(origin, math.prod(ref.dims))
    return count
