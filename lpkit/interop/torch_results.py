"""What a run of a plan on a real engine gives: gradients, losses, what each stage did when, and what was sent."""

import math
from collections import namedtuple
from dataclasses import dataclass

import numpy as np

__all__ = ["Alone", "Run", "Span", "Traffic", "arrays", "gathered"]

Span = namedtuple("Span", "step stage operation micro_batch start end waited")
Span.__doc__ = """What a stage did: F, B (delta and G), I (delta), W (G) or delta'' of a micro-batch.

Stages count from 1; seconds since the start of the step. `waited` is the part of it spent waiting for delta''. The
engine runs delta and G of stage 1 together, in W, where a schedule splits them."""
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

        None with fewer than two micro-batches. It holds sends and receives, the engine's own work, and everything else
        that the machine does, so that for small layers it is several times the plan's; `busy` tells how much of it.
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


def gathered(results, shifts, shapes, plan, common, places, element):
    """The reports of all stages as one."""
    begins = [min(result["steps"][n][0] for result in results) for n in range(common["steps"])]
    spans = [Span(n, stage, name, micro, (begin - begins[n]) / 1e9, (end - begins[n]) / 1e9, waited / 1e9)
             for stage, result in enumerate(results, 1) for n, (_, _, noted) in enumerate(result["steps"])
             for name, micro, begin, end, waited in noted]  # fmt: skip
    seconds = [(max(result["steps"][n][1] for result in results) - begins[n]) / 1e9 for n in range(common["steps"])]
    merged = {kind: arrays({k: v for result in results for k, v in result[kind].items()})
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


def arrays(tensors):
    """Tensors by name as arrays by name."""
    return {name: tensor.detach().numpy() for name, tensor in tensors.items()}
