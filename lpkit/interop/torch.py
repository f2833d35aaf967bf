"""Runs a plan on a real engine: stages of a torch model in processes of their own; needs the extra ``torch``.

`run_pipeline` splits a chain of modules by a `Plan`, starts one process a stage (gloo, CPU, one thread each), and runs
a schedule of lpkit on torch's pipelining runtime, with the plan's delta'' on the next stage. The runtime flushes: the
gradients are those of one process (`run_alone`), and weights have one version. See `lpkit.interop.torch_shift`.
"""

import math
import shutil
import tempfile
from collections import namedtuple
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lpkit.checks import choice, whole_number
from lpkit.interop.torch_jobs import divided, jobs, save, shifts_of
from lpkit.interop.torch_layers import module_layers, needs_tested_torch, needs_torch, split
from lpkit.interop.torch_processes import Workers
from lpkit.interop.torch_profile import profile_layers, shapes_of
from lpkit.interop.torch_schedule import to_torch_csv
from lpkit.schedule import schedule as make_schedule
from lpkit.timeline import Timeline

__all__ = ["Alone", "Run", "Span", "Traffic", "Workers", "profile_layers", "run_alone", "run_pipeline"]

FLUSHING = ("gpipe", "one_f_one_b", "zero_bubble")
ASYNCHRONOUS = ("pipedream", "layerpipe")

Span = namedtuple("Span", "step stage operation micro_batch start end waited")
Span.__doc__ = """What a stage did: F, B (delta and G), I (delta), W (G) or delta'' of a micro-batch; stages from 1, seconds
since the start of the step. `waited` is the part of it spent waiting for delta''. The engine runs delta and G of stage 1
together, in W, where a schedule splits them."""
Traffic = namedtuple("Traffic", "boundary layer channels moved activations errors weights results")
Traffic.__doc__ = """Bytes sent over a boundary in one step, and how many input channels of which layer moved."""
Alone = namedtuple("Alone", "gradients state losses")
Alone.__doc__ = """What one process gives: gradients and final state by name, losses (steps, micro-batches)."""


@dataclass(frozen=True, eq=False)
class Run:
    """What a run gave and how long it took.

    Attributes
    ----------
    gradients, state : dict of name -> ndarray
        Gradients of the last step, and parameters and buffers after it, named as in the model.
    losses : ndarray (steps, micro-batches)
    spans : tuple of Span
    step_seconds : tuple of float
        Of each step, from the common start to the end of the last stage.
    traffic : tuple of Traffic
        One entry a boundary.
    traces : tuple of Path
        Profiler traces (Chrome JSON) of the last step, one a stage, where asked for.
    stages, micro_batches : int
    """

    gradients: dict
    state: dict
    losses: np.ndarray
    spans: tuple
    step_seconds: tuple
    traffic: tuple
    traces: tuple
    stages: int
    micro_batches: int

    @property
    def busy(self):
        """Seconds each stage computes for a micro-batch, waiting left out: the median of all steps but the first."""
        return tuple(_median_of_steps(self, lambda spans: sum(s.end - s.start - s.waited for s in spans
                                                              if s.stage == stage) / self.micro_batches)
                     for stage in range(1, self.stages + 1))  # fmt: skip

    @property
    def period(self):
        """Seconds from one micro-batch to the next on the last stage, the median of all steps but the first.

        None with fewer than two micro-batches.
        """
        return _median_of_steps(self, self._period) if self.micro_batches > 1 else None

    def _period(self, spans):
        done = {}
        for span in spans:
            if span.stage == self.stages and span.operation != "F":
                done[span.micro_batch] = max(span.end, done.get(span.micro_batch, 0))
        return (max(done.values()) - min(done.values())) / (self.micro_batches - 1)

    def difference(self, other):
        """Largest difference of a gradient to that of `other`, relative to the largest entry of the same module's."""
        modules = {}
        for name, one in self.gradients.items():
            modules.setdefault(name.rpartition(".")[0], []).append((one, other.gradients[name]))
        return max(map(_relative, modules.values()))


def _median_of_steps(run, measure):
    steps = sorted({span.step for span in run.spans})
    return float(np.median([measure([s for s in run.spans if s.step == step]) for step in steps[1:] or steps]))


def _relative(pairs):
    scale = max(np.abs(two).max(initial=0) for _, two in pairs)
    return float(max(np.abs(one - two).max(initial=0) for one, two in pairs) / (scale or 1))


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
        Processes kept from an earlier run; without them the run starts its own and ends them.
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
    common = {"stages": len(stages), "loss": loss, "micro_batches": len(inputs) // each,
              "steps": whole_number(steps, "steps"), "learning_rate": float(learning_rate), "timeout": timeout}  # fmt: skip
    text = _schedule_text(plan, schedule, common["micro_batches"])
    places = _trace_paths(traces, len(stages))
    folder = Path(tempfile.mkdtemp(prefix="lpkit-"))
    try:
        (folder / "schedule.csv").write_text(text, encoding="utf-8")
        for rank, job in enumerate(jobs(stages, shifts, shapes, inputs, targets)):
            save(job | common | {"schedule": str(folder / "schedule.csv"), "trace": str(places[rank]) if places else ""},
                  folder / f"job-{rank}")  # fmt: skip
        with nullcontext(workers) if workers else Workers(len(stages)) as hired:
            hired.run(folder, len(stages), timeout=timeout)
        results = [needs_torch().load(folder / f"result-{rank}", weights_only=True) for rank in range(len(stages))]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return _run(results, shifts, shapes, plan, common, places, inputs.element_size())


def run_alone(modules, inputs, targets, loss, *, micro_batches=4, steps=1, learning_rate=0.0):
    """The same training in this process alone: what a run is compared with.

    Parameters and errors are those of `run_pipeline`; the model that is given is not changed.

    Returns
    -------
    Alone

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
    return Alone(_arrays(gradients), _arrays(parameters | buffers), np.array(losses))


def _arrays(tensors):
    return {name: tensor.detach().numpy() for name, tensor in tensors.items()}


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
        raise ValueError(f"schedule is {name!r}, which updates without a flush and keeps several versions of the weights; "
                         f"torch's runtime flushes: use one of {', '.join(map(repr, FLUSHING))}")  # fmt: skip
    if line is None:
        line = make_schedule(plan, choice(name, "schedule", FLUSHING), micro_batches=micro_batches)
    if line.batches != 1 or line.micro_batches != micro_batches or line.plan.ends != plan.ends:
        raise ValueError(f"the timeline has {line.batches} mini-batches of {line.micro_batches} micro-batches on "
                         f"{len(line.plan.ends)} stages; torch's runtime flushes and updates after each mini-batch, so "
                         f"give one mini-batch of {micro_batches}, of the plan that is run")  # fmt: skip
    return to_torch_csv(line)


def _run(results, shifts, shapes, plan, common, places, element):
    """The reports of all stages as one."""
    begins = [min(result["steps"][n][0] for result in results) for n in range(common["steps"])]
    spans = [Span(n, stage, name, micro, (begin - begins[n]) / 1e9, (end - begins[n]) / 1e9, waited / 1e9)
             for stage, result in enumerate(results, 1) for n, (_, _, noted) in enumerate(result["steps"])
             for name, micro, begin, end, waited in noted]  # fmt: skip
    seconds = [(max(result["steps"][n][1] for result in results) - begins[n]) / 1e9 for n in range(common["steps"])]
    merged = {kind: _arrays({k: v for result in results for k, v in result[kind].items()})
              for kind in ("gradients", "state")}  # fmt: skip
    return Run(**merged, losses=np.array(results[-1]["losses"]), spans=tuple(spans), step_seconds=tuple(seconds),
               traffic=_traffic(results, shifts, shapes, plan, common, element), traces=places,
               stages=len(results), micro_batches=common["micro_batches"])  # fmt: skip


def _traffic(results, shifts, shapes, plan, common, element):
    """Bytes over each boundary in one step: of activations and errors by their shapes, of the shift as counted."""
    rows = []
    for boundary, (kept, channels) in enumerate(shifts, 1):
        layer = plan.ends[boundary - 1]
        size = math.prod(shapes[layer - 1].output) * element * common["micro_batches"]
        weights, result = results[boundary - 1]["sent"]["weights"], results[boundary]["sent"]["results"]
        rows.append(Traffic(boundary, layer, channels, channels - kept, size, size,
                            weights // common["steps"], result // common["steps"]))  # fmt: skip
    return tuple(rows)
