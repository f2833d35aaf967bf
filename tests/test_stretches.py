"""Every operation starts as early as it can, whatever stretch it is run in: each row is told from its own needs."""

import numpy as np
import pytest

import lpkit as lp
from lpkit.schedule import SCHEDULES, schedule
from lpkit.timeline_check import dependencies
from lpkit.timeline_rows import KINDS, TENSORS

OPTIONS = {"layerpipe": ({}, {"model": "1f1b"}), "one_f_one_b": ({}, {"delta_first": True}),
           "interleaved": ({"processors": 2}, {"processors": 2, "delta_first": True})}  # fmt: skip


def earliest(line):
    """Start of each row: the end of the row before on its worker, or the last of what it needs."""
    needs, ends, free, starts = {}, {}, {}, []
    for before, after in dependencies(line):
        needs.setdefault(after, []).append(before)
    rows = zip(*(column.tolist() for column in (line.kind, line.tensor, line.layer, line.stage, line.target, line.micro,
                                                line.end)))  # fmt: skip
    for kind, tensor, layer, stage, target, micro, end in rows:
        name = KINDS[kind] if not tensor else f"send {TENSORS[tensor]}"
        boundary = min(stage, target) if target else 0
        on = [line.processors[k - 1] for k in (stage, target) if k]
        worker = "all" if line.schedule == "sequential" and not target else tuple(on)
        micros = {"send W": micro // line.micro_batches * line.micro_batches}
        known = [ends[need, micros.get(need[0], micro)] for need in needs.get((name, layer, boundary), ())]
        starts.append(max([free.get(worker, 0), *known]))
        ends[(name, layer, boundary), micro] = free[worker] = end
    return starts


def plans():
    random = np.random.default_rng(5)
    for unit, stages in (("cycles", 2), ("s", 4), ("cycles", 6)):
        times = random.integers(0, 30, (3, 9)) if unit == "cycles" else random.random((3, 9))
        costs = lp.Costs.from_times(*times, unit=unit, cut_bytes=random.integers(1, 99, 8), weight_bytes=50,
                                    input_bytes=40)  # fmt: skip
        yield lp.plan(costs, stages)


@pytest.mark.parametrize("links", ({}, {"bandwidth": 7, "latency": 2}), ids=("no links", "links"))
@pytest.mark.parametrize("name", SCHEDULES)
def test_every_operation_starts_as_early_as_it_can(name, links):
    for plan in plans():
        for options in OPTIONS.get(name, ({},)):
            line = schedule(plan, name, 5, **options, **links)
            assert line.start.tolist() == earliest(line)
            assert line.check() == ()
