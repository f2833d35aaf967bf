"""A process that runs one stage of a plan on torch's pipelining runtime; started by `lpkit.interop.torch_processes`.

It takes lines "RANK FOLDER" from its standard input, reads FOLDER/job-RANK, which the parent wrote, and leaves
FOLDER/result-RANK or FOLDER/error-RANK. It ends when its standard input does, which is when the parent ends.
The runtime of schedules of one's own is `_PipelineScheduleRuntime`, private to torch: hence the versions tested.
"""

import os
import queue
import sys
import threading
import time
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining import schedules as engine

from lpkit.interop.torch_shift import Helper, Owner, ShiftedLayer

__all__ = ["main"]


class Stage:
    """One stage: its part of the schedule, its side of each shift, and notes of what it did when."""

    def __init__(self, job, rank, group):
        self.job, self.rank, self.last = job, rank, rank == job["stages"] - 1
        self.spans, self.sends = [], []
        self.owner = Owner(rank + 1, group) if job["owns"] else None
        self.module = nn.Sequential(*self._modules())
        self.helper = _helper(job["helps"], rank, group)
        self.runtime = self._runtime()

    def _modules(self):
        """The modules of the stage, the shifted layer wrapped."""
        self.shifted, modules = None, [module for _, module in self.job["modules"]]
        if self.owner:
            place, kept = self.job["owns"]
            self.shifted = modules[place] = ShiftedLayer(modules[place], kept, self.owner)
        return modules

    def _runtime(self):
        job = self.job
        # With shapes given torch does not find them by an extra pass, which would change the statistics of BatchNorm.
        received = job["inputs"].chunk(job["micro_batches"])[0] if self.rank == 0 else _like(*job["input"])
        stage = PipelineStage(self.module, self.rank, job["stages"], torch.device("cpu"), input_args=received,
                              output_args=_like(*job["output"]))  # fmt: skip
        runtime = engine._PipelineScheduleRuntime([stage], job["micro_batches"], loss_fn=job["loss"])
        runtime._load_csv(job["schedule"])
        if self.helper:  # the error is sent before delta'' is computed, not after
            order = runtime.pipeline_order_with_comms
            order[self.rank] = [a for a in order[self.rank] if a.computation_type != engine.SEND_B]
            for kind in (engine.BACKWARD_INPUT, engine.FULL_BACKWARD):
                runtime.register_custom_function(kind, self._backward)
        self.stage = stage
        stage.forward_one_chunk = self._timed(stage.forward_one_chunk, self._forward)
        stage.backward_one_chunk = self._timed(stage.backward_one_chunk, _kind_of_backward)
        stage.backward_weight_one_chunk = self._timed(stage.backward_weight_one_chunk, lambda *_, **__: "W")
        return runtime

    def _timed(self, function, kind):
        """`function` of a micro-batch, noted with the time it waited for delta''."""
        def timed(micro, *args, **options):
            name, waited, begin = kind(micro, **options), self._waited(), time.monotonic_ns()
            result = function(micro, *args, **options)
            self.spans.append((name, micro, begin, time.monotonic_ns(), self._waited() - waited))
            return result

        return timed

    def _waited(self):
        return self.owner.waited if self.owner else 0

    def _forward(self, micro, **_):
        if self.owner:
            self.owner.micro = micro
        return "F"

    def _backward(self, action, context):
        """Backward of a micro-batch on a stage that also computes delta'' for the stage before."""
        runtime, stage, micro = context.schedule_ref, self.stage, action.microbatch_index
        if not stage.is_last:
            engine._wait_batch_p2p(runtime.bwd_recv_ops.pop((stage.stage_index, micro)))
        received = stage.fwd_cache[micro][1][0].detach()
        full = action.computation_type == engine.FULL_BACKWARD
        runtime.backward_counter[stage.stage_index] += full
        done = runtime.backward_counter[stage.stage_index] == self.job["micro_batches"]
        stage.backward_one_chunk(micro, loss=runtime._maybe_get_loss(stage, micro), full_backward=full,
                                 last_backward=full and done)  # fmt: skip
        error = stage.bwd_cache[micro][0]
        self.sends.append(engine._batch_p2p(stage.get_bwd_send_ops(micro)))
        begin = time.monotonic_ns()
        self.helper.compute(micro, received, error, *self.job["helps"]["shapes"])
        self.spans.append(("delta''", micro, begin, time.monotonic_ns(), 0))

    def step(self):
        """One mini-batch: the losses of its micro-batches, on the last stage."""
        losses = []
        for side in filter(None, (self.owner, self.helper)):
            side.begin(self.shifted) if side is self.owner else side.begin()
        given = (self.job["inputs"],) if self.rank == 0 else ()
        wanted = {"target": self.job["targets"], "losses": losses} if self.last else {}
        self.runtime.step(*given, return_outputs=False, **wanted)
        while self.sends:
            engine._wait_batch_p2p(self.sends.pop())
        for side in filter(None, (self.owner, self.helper)):
            side.finish()
        return [loss.item() for loss in losses]

    def named(self, kind):
        """Parameters or buffers with the names they have in the whole model."""
        pairs = zip((name for name, _ in self.job["modules"]), self.module)
        inner = ((name, m.layer if isinstance(m, ShiftedLayer) else m) for name, m in pairs)
        return {f"{name}.{own}": value for name, m in inner for own, value in getattr(m, f"named_{kind}")()}


def _like(shape, dtype):
    """A tensor of that shape without memory, which needs a gradient."""
    return torch.empty(shape, dtype=dtype, device="meta", requires_grad=True)


def _kind_of_backward(micro, *, full_backward=True, **_):
    return "B" if full_backward else "I"


def _helper(helps, rank, group):
    if not helps:
        return None
    return Helper(helps["module"], helps["tail"], helps["kept"], rank - 1, group)


def _run(job, rank, group):
    """All steps; what the parent wants to know."""
    stage, losses, steps = Stage(job, rank, group), [], []
    for step in range(job["steps"]):
        for parameter in stage.module.parameters():
            parameter.grad = None
        before = len(stage.spans)
        traced = job["trace"] and step == job["steps"] - 1
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) if traced else nullcontext() as p:
            dist.barrier()
            begin = time.monotonic_ns()
            losses.append(stage.step())
            steps.append((begin, time.monotonic_ns(), stage.spans[before:]))
        if traced:
            p.export_chrome_trace(job["trace"])
        _update(stage.module, job["learning_rate"])
    gradients = {name: p.grad for name, p in stage.named("parameters").items() if p.grad is not None}
    state = {name: value.detach() for kind in ("parameters", "buffers") for name, value in stage.named(kind).items()}
    sent = {"weights": stage.owner.sent_bytes if stage.owner else 0,
            "results": stage.helper.sent_bytes if stage.helper else 0}  # fmt: skip
    return {"gradients": gradients, "state": state, "losses": losses, "steps": steps, "sent": sent}


@torch.no_grad()
def _update(module, learning_rate):
    """One step of gradient descent."""
    for parameter in module.parameters():
        if learning_rate and parameter.grad is not None:
            parameter.sub_(parameter.grad, alpha=learning_rate)


def _work(folder, rank):
    """Run one job; whether the process can take another."""
    try:
        job = torch.load(folder / f"job-{rank}", weights_only=False)  # written by the parent, in a folder of its own
        size, patience = job["stages"], timedelta(seconds=job["timeout"])
        store = dist.FileStore(str(folder / "rendezvous"), size)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=patience)
        result = _run(job, rank, dist.new_group(timeout=patience))
        dist.barrier()
        dist.destroy_process_group()
        _leave(folder / f"result-{rank}", lambda path: torch.save(result, path))
        return True
    except Exception as error:  # whatever a module does; the parent tells it
        moment, root = time.monotonic_ns(), error
        while root.__cause__ is not None:  # torch wraps what a module raised
            root = root.__cause__
        text = f"{moment}\n{type(root).__name__}: {root}"
        _leave(folder / f"error-{rank}", lambda path: path.write_text(text, encoding="utf-8"))
        return False


def _leave(path, write):
    """Put a file there whole."""
    write(path.with_suffix(".part"))
    os.replace(path.with_suffix(".part"), path)


def _listen(jobs):
    """Jobs from the parent, until there is none."""
    for line in sys.stdin.buffer:
        rank, folder = line.decode().rstrip("\n").split(" ", 1)
        jobs.put((Path(folder), int(rank)))
    os._exit(1)


def main():
    """Run jobs for ever: the thread that listens ends the process."""
    jobs = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(jobs,), daemon=True).start()
    torch.set_num_threads(1)
    while _work(*jobs.get()):
        pass
    os._exit(1)  # gloo's threads may still wait for the other stages


if __name__ == "__main__":
    main()
