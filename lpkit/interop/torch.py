"""Runs a plan on a real engine: stages of a torch model in processes of their own; needs the extra ``torch``.

`run_pipeline` splits a chain of modules by a `Plan`, starts one process a stage (gloo, CPU, one thread each), and runs
a schedule of lpkit on torch's pipelining runtime, with the plan's delta'' on the next stage. The runtime flushes: the
gradients are those of one process (`run_alone`), and weights have one version. See `lpkit.interop.torch_shift`.
"""

import shutil
import tempfile
from contextlib import nullcontext
from copy import deepcopy
from pathlib import Path

import numpy as np

from lpkit.checks import choice, whole_number
from lpkit.interop.torch_jobs import divided, jobs, save, shifts_of
from lpkit.interop.torch_layers import module_layers, needs_tested_torch, needs_torch, split
from lpkit.interop.torch_processes import Workers
from lpkit.interop.torch_profile import profile_layers, shapes_of
from lpkit.interop.torch_results import Alone, Run, Span, Traffic, arrays, gathered
from lpkit.interop.torch_schedule import to_torch_csv
from lpkit.schedule import schedule as make_schedule
from lpkit.timeline import Timeline

__all__ = ["Alone", "Run", "Span", "Traffic", "Workers", "profile_layers", "run_alone", "run_pipeline"]

FLUSHING = ("gpipe", "one_f_one_b", "zero_bubble")
ASYNCHRONOUS = ("pipedream", "layerpipe")


def run_pipeline(modules, plan, inputs, targets, loss, *, micro_batches=4, schedule="one_f_one_b", shift=None, steps=1,
                 learning_rate=0.0, traces=None, workers=None, timeout=120):
    """Train a chain of modules as `plan` says, one process a stage, and bring the gradients back.

    The model that is given is not changed. Each step runs all micro-batches, on the same data, and a flush; a mean
    loss gives the gradients of the mini-batch, as long as no module takes statistics of a micro-batch.

    Parameters
    ----------
    modules : torch.nn.Sequential or list of torch.nn.Module
        See `lpkit.interop.torch_layers.module_layers`. Their classes must be importable, not defined in a notebook.
    plan : Plan
        From costs of this model, such as those of `profile_layers`.
    inputs, targets : torch.Tensor (B, ...)
        A mini-batch.
    loss : callable
        From output and target of a micro-batch to their mean loss: a module such as ``nn.MSELoss()``, or a function
        that can be imported.
    micro_batches : int
        Into which B is divided.
    schedule : str or Timeline
        ``"gpipe"``, ``"one_f_one_b"`` or ``"zero_bubble"``, or a timeline of one mini-batch.
    shift : number or sequence, optional
        Fraction of delta of the last layer before each boundary (or all) that the next stage computes, rounded to
        whole input channels; the plan's own if left out.
    steps : int
    learning_rate : float
        Of gradient descent after each step.
    traces : path, optional
        Folder for torch.profiler traces of the last step.
    workers : Workers, optional
        Processes kept from an earlier run; without them the run starts its own and ends them, which takes the seconds
        of an import of torch.
    timeout : float
        Seconds for everything.

    Returns
    -------
    Run

    Raises
    ------
    ValueError
        If torch is missing or of a version that was not tried, the plan does not fit the model, B cannot be divided,
        the schedule is asynchronous, or delta of a layer cannot be shared.
    RuntimeError
        If a process fails or time is up.

    Notes
    -----
    What stage k + 1 sends back goes to stage k also where the layer is the first of its stage; `communication`
    then counts it in place of part of the error that stage k sends on.

    Examples
    --------
    >>> import torch
    >>> from lpkit.costs import Costs
    >>> from lpkit.plans import Plan
    >>> model = torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(3)))
    >>> plan = Plan("by hand", Costs.from_times([1, 1, 1], 1, [0, 1, 1]), 2, ends=(2, 3), moved=((2, 1, 2, 0.5),))
    >>> data = torch.ones(8, 4), torch.zeros(8, 4)
    >>> run = run_pipeline(model, plan, *data, torch.nn.MSELoss())
    >>> run.difference(run_alone(model, *data, torch.nn.MSELoss())) < 1e-6, run.traffic[0].moved, run.traffic[0].results
    (True, 2, 64)
    """
    needs_tested_torch()
    stages = split(modules, plan)
    inputs, targets, each = divided(inputs, targets, micro_batches)
    shapes = shapes_of([layer for stage in stages for layer in stage], inputs[:each])
    shifts = shifts_of(plan, stages, shapes, shift)
    common = {"stages": len(stages), "loss": loss, "micro_batches": len(inputs) // each, "timeout": timeout,
              "steps": whole_number(steps, "steps"), "learning_rate": float(learning_rate)}  # fmt: skip
    text = _schedule_text(plan, schedule, common["micro_batches"])
    places = _trace_paths(traces, len(stages))
    folder = Path(tempfile.mkdtemp(prefix="lpkit-"))
    try:
        (folder / "schedule.csv").write_text(text, encoding="utf-8")
        for rank, job in enumerate(jobs(stages, shifts, shapes, inputs, targets)):
            job |= common | {"schedule": str(folder / "schedule.csv"), "trace": str(places[rank]) if places else ""}
            save(job, folder / f"job-{rank}")
        with nullcontext(workers) if workers else Workers(len(stages)) as hired:
            hired.run(folder, len(stages), timeout=timeout)
        results = [needs_torch().load(folder / f"result-{rank}", weights_only=True) for rank in range(len(stages))]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return gathered(results, shifts, shapes, plan, common, places, inputs.element_size())


def run_alone(modules, inputs, targets, loss, *, micro_batches=4, steps=1, learning_rate=0.0):
    """The same training in this process alone: what a run is compared with.

    Parameters and errors are those of `run_pipeline`; the model that is given is not changed.

    Returns
    -------
    Alone

    Raises
    ------
    ValueError
        As `run_pipeline`.

    Examples
    --------
    >>> import torch
    >>> alone = run_alone([torch.nn.Linear(2, 1, bias=False)], torch.ones(4, 2), torch.ones(4, 1), torch.nn.MSELoss())
    >>> alone.losses.shape, list(alone.gradients)
    ((1, 4), ['0.weight'])
    """
    torch = needs_torch()
    inputs, targets, each = divided(inputs, targets, micro_batches)
    named = [pair for layer in deepcopy(module_layers(modules)) for pair in zip(layer.names, layer.modules)]
    chain = torch.nn.Sequential(*(module for _, module in named))
    losses = []
    for _ in range(whole_number(steps, "steps")):
        chain.zero_grad()
        parts = [loss(chain(x), y) for x, y in zip(inputs.split(each), targets.split(each))]
        for part in parts:
            (part / len(parts)).backward()
        losses.append([part.item() for part in parts])
        with torch.no_grad():
            for parameter in chain.parameters():
                if parameter.grad is not None:
                    parameter.sub_(parameter.grad, alpha=learning_rate)
    parameters = {f"{name}.{own}": p for name, m in named for own, p in m.named_parameters()}
    buffers = {f"{name}.{own}": b for name, m in named for own, b in m.named_buffers()}
    gradients = {name: p.grad for name, p in parameters.items() if p.grad is not None}
    return Alone(arrays(gradients), arrays(parameters | buffers), np.array(losses))


def _trace_paths(traces, count):
    if traces is None:
        return ()
    folder = Path(traces).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    return tuple(folder / f"stage-{k}.json" for k in range(1, count + 1))




def _schedule_text(plan, name, micro_batches):
    """The schedule as the CSV that torch reads."""
    line = name if isinstance(name, Timeline) else None
    if line is None and name in ASYNCHRONOUS:
        raise ValueError(f"schedule is {name!r}, which updates without a flush and keeps several versions of the "
                         f"weights; torch's runtime flushes: use one of {', '.join(map(repr, FLUSHING))}")  # fmt: skip
    if line is None and name == "interleaved":
        raise ValueError("schedule is 'interleaved', which puts several stages on a process; here each stage has a "
                         f"process of its own: use one of {', '.join(map(repr, FLUSHING))}")  # fmt: skip
    if line is None:
        line = make_schedule(plan, choice(name, "schedule", FLUSHING), micro_batches=micro_batches)
    if line.batches != 1 or line.micro_batches != micro_batches or line.plan.ends != plan.ends:
        raise ValueError(f"the timeline has {line.batches} mini-batches of {line.micro_batches} micro-batches on "
                         f"{len(line.plan.ends)} stages; torch's runtime flushes and updates after each mini-batch, so "
                         f"give one mini-batch of {micro_batches}, of the plan that is run")  # fmt: skip
    return to_torch_csv(line)
