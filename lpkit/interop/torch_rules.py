"""Of which layers part of delta can be computed by the next stage.

That stage has the layer's output only behind the activation that follows, and the error there. It can go on from those
where the derivative of the activation is a function of its output, as for ReLU; past a pooling it cannot.
"""

from lpkit.interop.torch_layers import needs_torch

__all__ = ["channel_axis", "error_before", "shift_problem"]

FROM_OUTPUT = {  # derivative of an activation, from its output
    "ReLU": lambda module, y: y > 0,
    "LeakyReLU": lambda module, y: (y > 0) + module.negative_slope * (y <= 0),
    "Tanh": lambda module, y: 1 - y * y,
    "Sigmoid": lambda module, y: y * (1 - y),
}
RESHAPING = ("Identity", "Flatten", "Unflatten")
SHARED = ("Linear", "Conv1d", "Conv2d", "Conv3d")


def shift_problem(layer):
    """Why delta of a `ModuleLayer` cannot be shared with the next stage, or "".

    Examples
    --------
    >>> from torch import nn
    >>> from lpkit.interop.torch_layers import module_layers
    >>> [shift_problem(module_layers([nn.Linear(4, 4), after])[0]) for after in (nn.ReLU(), nn.MaxPool1d(2))]
    ['', 'a MaxPool1d follows it, whose gradient needs more than its output']
    """
    module = layer.module
    if _kind(module) not in SHARED:
        return f"it is a {_kind(module)}; of these it can: {', '.join(SHARED)}"
    if _kind(module) != "Linear" and module.groups > 1:
        return f"it has {module.groups} groups"
    if _kind(module) != "Linear" and (module.padding_mode != "zeros" or isinstance(module.padding, str)):
        return "its padding is not a number of zeros"
    return _after_problem(layer.after)


def _kind(module):
    """Name of the class, if it is one of torch's own."""
    known = type(module) is getattr(needs_torch().nn, type(module).__name__, None)
    return type(module).__name__ if known else f"{type(module).__name__} of your own"


def _after_problem(modules):
    acting = [module for module in modules if _kind(module) not in RESHAPING]
    for module in acting:
        if _kind(module) not in FROM_OUTPUT:
            return f"a {_kind(module)} follows it, whose gradient needs more than its output"
        if _kind(module) == "LeakyReLU" and module.negative_slope <= 0:
            return "a LeakyReLU without a positive slope follows it"
    return "two activations follow it" if len(acting) > 1 else ""


def error_before(modules, output, error, shape):
    """Error at the input of `modules`, of `shape`, from their output and the error there.

    Parameters
    ----------
    modules : sequence of torch modules
        In the order of the forward pass.
    output, error : tensor
        Of the last of them; of any shape that holds the numbers of `shape`.
    shape : tuple of int

    Returns
    -------
    tensor

    Examples
    --------
    >>> import torch
    >>> error_before([torch.nn.ReLU(), torch.nn.Flatten()], torch.tensor([[0.0, 2.0]]), torch.ones(1, 2), (1, 1, 2))
    tensor([[[0., 1.]]])
    """
    output, error = output.reshape(shape), error.reshape(shape)
    for module in modules:
        if derivative := FROM_OUTPUT.get(_kind(module)):
            error = error * derivative(module, output)
    return error


def channel_axis(module):
    """Axis of the input channels of a layer's input."""
    return -1 if _kind(module) == "Linear" else 1
