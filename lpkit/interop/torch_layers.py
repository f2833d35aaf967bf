"""The layers of a torch module, and the stages into which a plan splits them; needs the extra ``torch``.

A model is an `nn.Sequential`, nested ones unfolded, or a list of modules that run one after the other. A layer begins
at each module with a weight of two or more dimensions (convolution, linear); what follows without one (activation,
pooling, normalisation) is fused with it, and what comes before the first layer with that. This is the chain of
`lpkit.costs`, so that a plan from it says which modules a stage holds.
"""

import importlib
from dataclasses import dataclass

import numpy as np

from lpkit.checks import not_installed, shown
from lpkit.plans import Plan, check_plan
from lpkit.unequal import only_equal

__all__ = ["TESTED", "ModuleLayer", "module_layers", "needs_tested_torch", "needs_torch", "split"]

TESTED = ("2.13",)  # versions whose pipelining runtime, which is private, was tried


@dataclass(frozen=True, eq=False)
class ModuleLayer:
    """A layer of a chain of modules: the modules fused in it, with their names, and which of them has the weights."""

    names: tuple
    modules: tuple
    main: int

    @property
    def name(self):
        """Name of the module with the weights, such as ``"0"`` or ``"features.3"``."""
        return self.names[self.main]

    @property
    def module(self):
        """The module with the weights."""
        return self.modules[self.main]

    @property
    def after(self):
        """The modules fused after it."""
        return self.modules[self.main + 1 :]

    @property
    def weights(self):
        """Elements of its weights, no biases."""
        return sum(p.numel() for p in self.module.parameters() if p.dim() > 1)


def needs_torch():
    """The package torch.

    Raises
    ------
    ValueError
        If it is not installed.
    """
    try:
        return importlib.import_module("torch")
    except ImportError:
        raise not_installed("torch", "torch") from None


def needs_tested_torch():
    """The package torch, in a version whose pipelining runtime was tried.

    Raises
    ------
    ValueError
        If it is not installed or another one.
    """
    torch = needs_torch()
    version = str(torch.__version__)
    if not any(version.split("+")[0].startswith(f"{tested}.") for tested in TESTED):
        raise ValueError(f"torch {version} is installed; plans run on torch {' or '.join(TESTED)} only, since the "
                         f"runtime for schedules of one's own is private to torch and changes: pip install "
                         f"'torch=={TESTED[-1]}.*'")  # fmt: skip
    return torch


def module_layers(modules):
    """Layers of a model.

    Parameters
    ----------
    modules : torch.nn.Sequential, or list of torch.nn.Module

    Returns
    -------
    tuple of ModuleLayer

    Raises
    ------
    ValueError
        If it is neither, holds no layer with weights, or two of its layers share a parameter.

    Examples
    --------
    >>> from torch import nn
    >>> model = nn.Sequential(nn.Flatten(), nn.Linear(4, 8), nn.ReLU(), nn.Sequential(nn.Linear(8, 2)))
    >>> [(layer.name, layer.names) for layer in module_layers(model)]
    [('1', ('0', '1', '2')), ('3.0', ('3.0',))]
    """
    chain = _unfolded(modules)
    mains = [n for n, (_, module) in enumerate(chain) if any(p.dim() > 1 for p in module.parameters())]
    if not mains:
        raise ValueError("the model has no layer with weights; give at least one, such as a Linear or a Conv2d")
    starts = [0, *mains[1:]]
    layers = tuple(ModuleLayer(*zip(*chain[a:b]), main - a)
                   for a, b, main in zip(starts, [*mains[1:], len(chain)], mains))  # fmt: skip
    _check_parameters(layers)
    return layers


def _unfolded(modules):
    """(name, module) of each module in the order in which they run, nested Sequentials unfolded."""
    nn = needs_torch().nn
    if isinstance(modules, nn.Module) and not isinstance(modules, nn.Sequential):
        raise ValueError(f"the model is a {type(modules).__name__}; give an nn.Sequential or a list of modules that "
                         "run one after the other, with each branch or skip connection inside one of them")  # fmt: skip
    named = list(modules.named_children()) if isinstance(modules, nn.Sequential) else None
    if named is None and isinstance(modules, (list, tuple, nn.ModuleList)):
        named = [(str(n), module) for n, module in enumerate(modules)]
    if named is None or not all(isinstance(module, nn.Module) for _, module in named):
        wrong = modules if named is None else next(m for _, m in named if not isinstance(m, nn.Module))
        raise ValueError(f"the model holds {shown(wrong)}; give an nn.Sequential or a list of nn.Module")
    return [(f"{name}.{inner}" if inner else name, module) for name, child in named
            for inner, module in (_unfolded(child) if isinstance(child, nn.Sequential) else [("", child)])]  # fmt: skip


def _check_parameters(layers):
    owner = {}
    for layer in layers:
        for name, module in zip(layer.names, layer.modules):
            for parameter in module.parameters():
                if parameter.device.type != "cpu":
                    raise ValueError(f"module {shown(name)} is on {parameter.device}; move the model to the CPU, on "
                                     "which the stages run")  # fmt: skip
                if owner.setdefault(id(parameter), name) != name:
                    raise ValueError(f"modules {shown(owner[id(parameter)])} and {shown(name)} share a parameter; each "
                                     "layer needs weights of its own, since stages do not share memory")  # fmt: skip


def split(modules, plan):
    """Layers of each stage of `plan`, a list of tuples of `ModuleLayer`.

    Raises
    ------
    ValueError
        As `module_layers`; if the plan cannot be run, does not fit the model, leaves a stage without a layer, or is
        one of a network with skip connections.

    Examples
    --------
    >>> from torch import nn
    >>> from lpkit.costs import Costs
    >>> plan = Plan("by hand", Costs.from_times([1, 1], 1, [0, 1]), 2, ends=(1, 2))
    >>> [[layer.name for layer in stage] for stage in split([nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)], plan)]
    [['0'], ['2']]
    """
    if not isinstance(plan, Plan):
        raise ValueError(f"plan is {shown(plan)}; give a Plan, as a planner returns it")
    if problems := check_plan(plan):
        raise ValueError(f"the plan cannot be run: {problems[0]}; choose another planner or mode")
    only_equal(plan, "a pipeline of torch")
    layers = module_layers(modules)
    _check_chain(plan)
    _check_sizes(plan, layers)
    if any(not len(stage) for stage in plan.stages):
        raise ValueError("the plan leaves a stage without a layer; plan for fewer processors")
    return [layers[stage.start - 1 : stage.stop - 1] for stage in plan.stages]


def _check_chain(plan):
    """Only a chain runs: torch sends between neighbours."""
    costs = plan.costs
    chain = np.arange(2, len(costs) + 2)
    odd = np.flatnonzero((costs.first_consumer != chain) | costs.shared_input)
    if len(odd):
        raise ValueError(f"the plan is of a network with branches (at layer {shown(costs.layers[odd[0]])}); torch's "
                         "pipeline sends from a stage to the next only: skip connections across stages cannot be run. "
                         "Plan from profile_layers of a chain, each block a module of its own")  # fmt: skip


def _check_sizes(plan, layers):
    costs = plan.costs
    if len(costs) != len(layers):
        raise ValueError(f"the plan has {len(costs)} layers and the model {len(layers)}: "
                         f"{shown(', '.join(layer.name for layer in layers))}; plan from costs of this "
                         "model")  # fmt: skip
    for name, layer, size in zip(costs.layers, layers, costs.weight_bytes.tolist()):
        if size and size != int(np.ceil(layer.weights * costs.bytes_per_element)):
            raise ValueError(f"layer {shown(name)} of the plan has {size} bytes of weights, and module "
                             f"{shown(layer.name)} {layer.weights} weights of {costs.bytes_per_element} bytes; plan "
                             "from costs of this model")  # fmt: skip
