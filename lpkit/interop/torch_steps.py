"""What a PyTorch module calls, as steps: drawn by torch.export, or noted while it runs.

A step holds the name of an operator, its arguments by name with each tensor as a `Ref` (a key and sizes), and what
it makes.
"""

import operator
import weakref
from collections import namedtuple

__all__ = ["Found", "Ref", "Step", "exported_steps", "noted_steps"]

Ref = namedtuple("Ref", "key dims learned")  # learned: floating-point numbers, so that they may be weights
Step = namedtuple("Step", "kind arguments results module in_place known")  # known: an operator of PyTorch's own
Found = namedtuple("Found", "inputs fixed steps")  # inputs [(key, dims)], fixed {key: name of the weight}


def exported_steps(torch, module, inputs):
    """The steps of the graph that torch.export draws; nothing is executed.

    Raises
    ------
    Exception
        Whatever torch.export raises where the flow depends on numbers.
    """
    program = torch.export.export(module, inputs)
    signature = program.graph_signature
    named = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    found, refs, parts = Found([], {}, []), {}, {}
    for node in program.graph_module.graph.nodes:
        value = node.meta.get("val")
        if node.op == "placeholder" and isinstance(value, torch.Tensor):
            refs[node] = ref = _ref(node.name, value)
            if node.name in signature.user_inputs:
                found.inputs.append((ref.key, ref.dims))
            else:
                found.fixed[ref.key] = named.get(node.name, node.name)
        elif node.op == "get_attr":
            refs[node] = ref = Ref(node.name, tuple(getattr(value, "shape", ())), False)
            found.fixed[ref.key] = str(node.target)
        elif node.op == "call_function" and node.target is operator.getitem and node.args[0] in parts:
            refs[node] = parts[node.args[0]].get(node.args[1])
        elif node.op == "call_function":
            found.steps.append(_exported_step(torch, node, value, refs, parts))
    return found


def _exported_step(torch, node, value, refs, parts):
    several = list(value) if isinstance(value, (tuple, list)) else [value]
    results = {i: _ref(f"{node.name}.{i}" if i else node.name, v) for i, v in enumerate(several)
               if isinstance(v, torch.Tensor)}
    if isinstance(value, (tuple, list)):
        parts[node] = results
    elif results:
        refs[node] = results[0]
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    return _step(torch, node.target, _mapped(node.args, refs), _mapped(dict(node.kwargs), refs), list(results.values()),
                 stack[-1][0] if stack else "")


def _mapped(value, refs):
    """Arguments with nodes of the graph replaced by what they stand for."""
    if isinstance(value, (tuple, list)):
        return [_mapped(v, refs) for v in value]
    if isinstance(value, dict):
        return {name: _mapped(v, refs) for name, v in value.items()}
    return refs.get(value) if type(value).__name__ == "Node" else value


def _ref(key, tensor):
    return Ref(key, tuple(map(int, tensor.shape)), tensor.is_floating_point())


def _step(torch, target, args, kwargs, results, module):
    schema = getattr(target, "_schema", None)
    if schema is None:  # a control operator, or a plain function
        return Step(getattr(target, "__name__", str(target)), {"args": args, **kwargs}, results, module, False, False)
    names = [argument.name for argument in schema.arguments]
    space, _, kind = schema.name.partition("::")
    in_place = kind.endswith("_") and not kind.endswith("__")
    return Step(kind.rstrip("_") if in_place else kind, dict(zip(names, args)) | kwargs, results, module, in_place,
                space in ("aten", "prims"))


def noted_steps(torch, module, inputs):
    """The steps that a run on the sample takes, noted operator by operator."""
    from torch.utils._python_dispatch import TorchDispatchMode

    notes = _Notes(torch, module, inputs)

    class Noting(TorchDispatchMode):
        """PyTorch hands every operator to it."""

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            notes.note(func, args, kwargs or {}, result)
            return result

    handles = [hook for name, part in module.named_modules() for hook in notes.hooks(name, part)]
    try:
        with torch.no_grad(), Noting():
            module(*inputs)
    finally:
        for handle in handles:
            handle.remove()
    return notes.found


class _Notes:
    """Which tensor has which key, by identity, and the module that runs."""

    def __init__(self, torch, module, inputs):
        self.torch, self.found, self.seen, self.modules = torch, Found([], {}, []), {}, []
        for number, tensor in enumerate(inputs):
            ref = self.remember(tensor, f"input{number}")
            self.found.inputs.append((ref.key, ref.dims))
        for name, tensor in (*module.named_parameters(), *module.named_buffers()):
            self.found.fixed[self.remember(tensor, f"weight {name}").key] = name

    def hooks(self, name, part):
        """Hooks that note which module runs."""
        def leave(*_):
            self.modules.pop()
        return (part.register_forward_pre_hook(lambda *_: self.modules.append(name)),
                part.register_forward_hook(leave, always_call=True))

    def remember(self, tensor, key):
        """Give a tensor a key; its identity counts as long as it lives."""
        self.seen[id(tensor)] = weakref.ref(tensor), key
        return _ref(key, tensor)

    def recall(self, value):
        """Arguments with tensors replaced by their `Ref`s; a tensor from nowhere is a constant."""
        if isinstance(value, (tuple, list)):
            return [self.recall(v) for v in value]
        if not isinstance(value, self.torch.Tensor):
            return value
        alive, key = self.seen.get(id(value), (lambda: None, None))
        if alive() is not value:
            key = self.remember(value, f"constant {len(self.found.fixed)}").key
            self.found.fixed[key] = key
        return _ref(key, value)

    def note(self, func, args, kwargs, result):
        """Add one step."""
        several = result if isinstance(result, (tuple, list)) else [result]
        arguments = self.recall(args), {name: self.recall(v) for name, v in kwargs.items()}
        results = [self.remember(tensor, f"{len(self.found.steps)}.{place}") for place, tensor in enumerate(several)
                   if isinstance(tensor, self.torch.Tensor)]
        module = self.modules[-1] if self.modules else ""
        self.found.steps.append(_step(self.torch, func, *arguments, results, module))
