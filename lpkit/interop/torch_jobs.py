"""What each process of a pipeline run has to know of its stage, and what cannot be run at all."""

import pickle

import numpy as np

from lpkit.checks import shown, whole_number
from lpkit.interop.torch_layers import needs_torch
from lpkit.interop.torch_rules import channel_axis, shift_problem

__all__ = ["divided", "jobs", "save", "shifts_of"]


def divided(inputs, targets, micro_batches):
    """Inputs and targets as tensors, and the samples of a micro-batch.

    Parameters
    ----------
    inputs, targets : tensor or array (samples, ...)
    micro_batches : int

    Returns
    -------
    inputs, targets : tensor
    each : int

    Raises
    ------
    ValueError
        If there are not as many of both, or they cannot be divided evenly.
    """
    torch = needs_torch()
    inputs, targets = torch.as_tensor(inputs), torch.as_tensor(targets)
    count = whole_number(micro_batches, "micro_batches")
    if inputs.dim() == 0 or targets.dim() == 0 or len(inputs) != len(targets):
        raise ValueError(f"inputs have the shape {tuple(inputs.shape)} and targets {tuple(targets.shape)}; give as "
                         "many of both")  # fmt: skip
    if len(inputs) < count or len(inputs) % count:
        raise ValueError(f"{len(inputs)} samples cannot be divided into {count} equal micro-batches, and torch's "
                         "runtime takes no others; choose a number of samples that it divides")  # fmt: skip
    return inputs.detach(), targets.detach(), len(inputs) // count


def shifts_of(plan, stages, shapes, shift):
    """Channels that stay and all channels of the last layer before each boundary: [(kept, of), ...].

    Parameters
    ----------
    plan : Plan
    stages : sequence of sequence of layers
    shapes : sequence of lpkit.interop.torch_profile.Shapes
        One a layer.
    shift : float, sequence of float or None
        As for `lpkit.interop.torch.run_pipeline`.

    Raises
    ------
    ValueError
        If delta of such a layer cannot be shared, or `shift` is out of range.
    """
    fractions = _fractions(plan, shift)
    result = []
    for boundary, fraction in enumerate(fractions, 1):
        layer, place = stages[boundary - 1][-1], plan.ends[boundary - 1] - 1
        channels = shapes[place].input[channel_axis(layer.module)]
        moved = round(fraction * channels)
        problem = shift_problem(layer) if place else "the first layer has none"
        if moved and problem:
            raise ValueError(f"delta of module {shown(layer.name)} cannot be shared with the next stage: {problem}; "
                             "move the boundary, or set shift=0")  # fmt: skip
        result.append((channels - moved, channels))
    return result


def _fractions(plan, shift):
    """Fraction of delta that moves over each boundary."""
    boundaries = len(plan.ends) - 1
    if shift is None:
        fractions = [0.0] * boundaries
        for layer, source, _, amount in plan.moved:
            fractions[source - 1] += float(amount / plan.costs.delta[layer - 1].item())
        return fractions
    fractions = list(shift) if isinstance(shift, (list, tuple, np.ndarray)) else [shift] * boundaries
    wrong = [f for f in fractions if isinstance(f, (bool, str)) or not np.isreal(f) or not 0 <= f <= 1]
    if len(fractions) != boundaries or wrong:
        raise ValueError(f"shift is {shown(shift)}; give a fraction from 0 to 1, or one for each of the {boundaries} "
                         "boundaries")  # fmt: skip
    return [float(fraction) for fraction in fractions]


def jobs(stages, shifts, shapes, inputs, targets):
    """What each process has to know of its stage: a dict each.

    Parameters
    ----------
    stages : sequence of sequence of layers
    shifts : sequence of (int, int)
        From `shifts_of`.
    shapes : sequence of lpkit.interop.torch_profile.Shapes
        One a layer.
    inputs, targets : tensor
        Of a whole step.
    """
    done = 0
    for rank, stage in enumerate(stages):
        modules = [(name, module) for layer in stage for name, module in zip(layer.names, layer.modules)]
        job = {"modules": modules, "owns": None, "helps": None, "output": _like(shapes[done + len(stage) - 1])}
        job |= {"inputs": None if rank else inputs, "input": _like(shapes[done - 1]) if rank else None}
        job |= {"targets": targets if rank == len(stages) - 1 else None}
        if rank and shifts[rank - 1][0] < shifts[rank - 1][1]:
            job["helps"] = _help(stages[rank - 1][-1], shapes[done - 1], shifts[rank - 1])
        if rank < len(shifts) and shifts[rank][0] < shifts[rank][1]:
            job["owns"] = (len(modules) - len(stage[-1].after) - 1, shifts[rank][0])
        done += len(stage)
        yield job


def _like(shapes):
    """Shape and type of a layer's output."""
    return shapes.output, shapes.dtype


def _help(layer, shapes, shift):
    """What the next stage needs to compute delta'' of `layer`: no weights, those are sent."""
    kept, channels = shift
    axis = channel_axis(layer.module)
    moved = list(shapes.input)
    moved[axis] = channels - kept
    return {"module": layer.module, "tail": list(layer.after), "kept": kept, "shapes": (shapes.result, tuple(moved))}


def save(job, path):
    """Write a job; a `ValueError` if it holds what a fresh process could not import.

    Raises
    ------
    ValueError
        If it does, or cannot be pickled.
    """
    for name in ("loss", "modules"):
        _check_importable(name, job[name])
    try:
        needs_torch().save(job, path)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ValueError(f"the model or the loss cannot be sent to another process ({' '.join(str(error).split())}); "
                         "use classes and functions that can be imported from a module") from None  # fmt: skip


def _check_importable(name, value):
    """Classes and functions of a script or notebook exist nowhere else."""
    parts = [module for _, module in value] if name == "modules" else [value]
    inner = [m for part in parts for m in (part.modules() if hasattr(part, "modules") else [part])]
    for part in inner:
        kind = part if callable(part) and hasattr(part, "__name__") else type(part)
        if kind.__module__ == "__main__" or kind.__name__ == "<lambda>":
            raise ValueError(f"{kind.__name__} is defined in the script or notebook itself, which other processes do "
                             "not run; put it into a module of its own and import it")  # fmt: skip
