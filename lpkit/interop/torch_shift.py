"""delta'' on a real engine: part of a layer's input gradient is computed by the next stage and sent back.

Of the last layer of a stage, the gradients of the first input channels (delta') are computed where the layer is, those
of the others (delta'') by the next stage: it knows the error that it sends, gets the needed slice of the weights once a
step, and its result comes back on a process group of its own. Two autograd functions around the layer do it. Theirs is
the order of backpropagation: delta', then G, and only then the wait for delta'', for which all that came before lay
under way. Imported by the processes of `lpkit.interop.torch` only.
Source: LayerPipe (ICCAD 2021), section IV and Fig. 5(d).
"""

import time

import torch
import torch.distributed as dist
from torch import nn

from lpkit.interop.torch_rules import channel_axis, error_before

__all__ = ["Helper", "Owner", "ShiftedLayer", "input_gradient"]

WEIGHTS = 2**20  # tag of the message with the weights; those of the micro-batches are their numbers


def input_gradient(module, weight, error, shape):
    """Gradient of the input channels that `weight` (Co, C', ...) reads, of `shape`, from the error of the output.

    Parameters
    ----------
    module : Linear or convolution
    weight : tensor (Co, C', ...)
    error : tensor (B, Co, ...)
    shape : tuple of int
        (B, C', ...).

    Returns
    -------
    tensor
    """
    if isinstance(module, nn.Linear):
        return error @ weight
    unread = error.new_empty(1).expand(shape)  # only its shape matters to the gradient
    zeros = [0] * len(module.stride)
    return torch.ops.aten.convolution_backward(error, unread, weight, None, module.stride, module.padding,
                                               module.dilation, False, zeros, 1, [True, False, False])[0]  # fmt: skip


class ShiftedLayer(nn.Module):
    """A layer of which the next stage computes delta of all input channels but the first `kept`."""

    def __init__(self, layer, kept, owner):
        super().__init__()
        self.layer, self.kept, self.owner = layer, kept, owner

    def forward(self, x):
        micro = self.owner.micro
        if micro is None or not x.requires_grad:  # torch tries shapes out before the first step
            return self.layer(x)
        shared = _Received.apply(x, self, micro)
        return _Kept.apply(shared, self.layer(shared.detach()), self)


class _Kept(torch.autograd.Function):
    """Passes z on; back, delta' for the input, and the error to the layer, whose G then needs no input gradient."""

    @staticmethod
    def forward(ctx, x, z, shifted):
        ctx.shifted, ctx.shape, ctx.done = shifted, x.shape, False
        return z.detach()

    @staticmethod
    def backward(ctx, error):
        if ctx.done:  # the step for weights runs this node again, after that for the input
            return None, error, None
        ctx.done = True
        return _with_room(ctx.shifted, error, ctx.shape), error, None


class _Received(torch.autograd.Function):
    """Passes x on; back, waits for delta'' and puts it beside delta'."""

    @staticmethod
    def forward(ctx, x, shifted, micro):
        ctx.shifted, ctx.micro = shifted, micro
        shifted.owner.expect(_rest(shifted, x), micro)
        return x.detach()

    @staticmethod
    def backward(ctx, gradient):
        _rest(ctx.shifted, gradient).copy_(ctx.shifted.owner.received(ctx.micro))
        return gradient, None, None


def _rest(shifted, tensor):
    """The channels of `tensor` that the next stage computes."""
    axis = channel_axis(shifted.layer)
    return tensor.narrow(axis, shifted.kept, tensor.shape[axis] - shifted.kept)


def _with_room(shifted, error, shape):
    """delta' in the first channels of a tensor of `shape`."""
    gradient = error.new_empty(shape)
    if shifted.kept:
        kept = gradient.narrow(channel_axis(shifted.layer), 0, shifted.kept)
        weight = shifted.layer.weight[:, : shifted.kept].detach()
        kept.copy_(input_gradient(shifted.layer, weight, error, kept.shape))
    return gradient


class Owner:
    """The side of the stage that has the layer: sends the weights, waits for delta''."""

    def __init__(self, helper_rank, group):
        self.rank, self.group = helper_rank, group
        self.micro, self.coming, self.waited, self.sent_bytes, self.sends = None, {}, 0, 0, []

    def begin(self, shifted):
        """Send the slice of the weights of this step."""
        slice = shifted.layer.weight[:, shifted.kept :].detach().contiguous()
        self.sends.append((slice, dist.isend(slice, self.rank, self.group, tag=WEIGHTS)))
        self.sent_bytes += slice.numel() * slice.element_size()

    def expect(self, like, micro):
        buffer = like.new_empty(like.shape)
        self.coming[micro] = buffer, dist.irecv(buffer, self.rank, self.group, tag=micro)

    def received(self, micro):
        buffer, work = self.coming.pop(micro)
        begin = time.monotonic_ns()
        work.wait()
        self.waited += time.monotonic_ns() - begin
        return buffer

    def finish(self):
        _finish(self.sends)


class Helper:
    """The side of the next stage: receives the weights, computes delta'' and sends it."""

    def __init__(self, module, tail, kept, owner_rank, group):
        self.module, self.tail, self.rank, self.group = module, tail, owner_rank, group
        self.slice = torch.empty_like(module.weight[:, kept:]).contiguous()
        self.axis, self.sent_bytes, self.sends, self.weights = channel_axis(module), 0, [], None

    def begin(self):
        """Be ready for the weights of this step."""
        self.weights = dist.irecv(self.slice, self.rank, self.group, tag=WEIGHTS)

    def compute(self, micro, output, error, shape, input_shape):
        """Compute and send delta'' from the output of the stage before and its error."""
        if self.weights is not None:
            self.weights.wait()
            self.weights = None
        error = error_before(self.tail, output, error, shape)
        result = input_gradient(self.module, self.slice, error, input_shape).contiguous()
        self.sends.append((result, dist.isend(result, self.rank, self.group, tag=micro)))
        self.sent_bytes += result.numel() * result.element_size()

    def finish(self):
        _finish(self.sends)


def _finish(sends):
    """Wait for what was sent; until then its memory must stay."""
    for _, work in sends:
        work.wait()
    sends.clear()
