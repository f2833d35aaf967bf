"""One function a claim of the LayerPipe paper about schedules, Figs. 5 and 6: from the name of a reading to a number.

The plans are those of the sample network on 3 processors and of VGG16 on 4, 8 and 12, all with arrays of 32x32 and
mini-batch 32, by PipeDream and by LayerPipe (Algorithm 1, strict). "Delta before G" compares two orders of the same
plan with the same mini-batches under way (S + 1 a stage); "a mini-batch alone" is one in an empty pipeline.
"""

from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np

from lpkit.costs import Costs, costs, reading
from lpkit.list_schedule import deltas_first, list_schedule
from lpkit.measures import LAYERPIPE
from lpkit.partition import plan
from lpkit.plans import Plan
from lpkit.priorities import priorities
from lpkit.schedule import layerpipe, pipedream
from lpkit.stash import smallest_delays
from lpkit.sweep import OPTIONS
from lpkit.systolic import Array
from lpkit.timeline import KINDS, moved_work

__all__ = []  # used through the ledger: `lpkit.claims`

SAMPLE, VGG16 = ("sample4", 3), ("vgg16", 8)
CELLS = (SAMPLE, ("vgg16", 4), VGG16, ("vgg16", 12))


@cache
def planned(read, cell, planner=LAYERPIPE):
    """The plan of a (network, processors) by a planner, with moved work in whole cycles."""
    (name, processors), choices = cell, reading(read)
    made = costs(name, Array(32, 32, choices.dataflow), batch=32, **choices.choices())
    found = plan(made, processors, planner, **OPTIONS.get(planner, {}))
    return replace(found, moved=tuple((*move, round(amount)) for *move, amount in found.moved if round(amount)))


@cache
def timeline(read, cell, planner, order, model, batches):
    """Timeline of that plan, delta before G (``order`` "delta") or layer by layer ("layer")."""
    found = planned(read, cell, planner)
    if order == "delta":
        return layerpipe(found, batches, model=model)
    return pipedream(found, batches)


def _steady(cell):
    """Mini-batches enough for a steady state."""
    return 6 * cell[1] + 6


def whole_paper_schedule(read, cell, batches, model="1f1b"):
    """(PipeDream's plan and order, LayerPipe's plan and order) of a cell."""
    return (timeline(read, cell, "pipedream", "layer", "1f1b", batches),
            timeline(read, cell, LAYERPIPE, "delta", model, batches))  # fmt: skip


# What is on the critical loops


def critical_loop_of_plans(read):
    """Share of plans, moved work in two parts, whose critical loops pass each layer's delta, and G of layer 1 alone."""
    return float(np.mean([_passes(priorities(planned(read, cell))) for cell in CELLS]))


def critical_loop_pipelined(read):
    """The same in the graph with the delays of the pipeline."""
    return float(np.mean([_passes(priorities(planned(read, cell), graph="delayed")) for cell in CELLS]))


def _passes(table):
    on = table[table["critical"]]
    deltas = set(on["layer"][on["kind"].str.startswith("delta")])
    gradients = set(on["layer"][on["kind"] == "G"])
    return deltas == set(range(2, table["layer"].max() + 1)) and gradients == {1}


def loops_order_delta_first(read):
    """Share of mini-batches on a stage of PipeDream's plans whose deltas all start before its G, by critical loops."""
    return _delta_first_share(read, "pipedream")


def loops_order_split_delta_first(read):
    """The same on LayerPipe's plans, where a delta may have to wait for the part that the next stage does."""
    return _delta_first_share(read, LAYERPIPE)


def _delta_first_share(read, planner):
    lines = [list_schedule(planned(read, cell, planner), _steady(cell), model="1f1b") for cell in CELLS]
    return float(np.mean([deltas_first(line) for line in lines]))


# Latency


def _alone(read, cell, order, planner=LAYERPIPE):
    return timeline(read, cell, planner, order, "1f1b", 1).makespan


def delta_first_lowers_latency(read):
    """Share of plans of both planners on which delta before G shortens the way of a mini-batch alone."""
    return float(np.mean([_alone(read, cell, "delta", planner) < _alone(read, cell, "layer", planner)
                          for cell in CELLS for planner in ("pipedream", LAYERPIPE)]))  # fmt: skip


def _latency_ratio(read, cell):
    return float(_alone(read, cell, "delta") / _alone(read, cell, "layer"))


def delta_first_latency_sample(read):
    return _latency_ratio(read, SAMPLE)


def delta_first_latency_vgg16(read):
    return _latency_ratio(read, VGG16)


def delta_first_steady_latency(read):
    """Share of plans on which delta before G shortens the way of a mini-batch through a full pipeline."""
    return float(np.mean([_steady_latency(read, cell, planner, "delta") < _steady_latency(read, cell, planner, "layer")
                          for cell in CELLS for planner in ("pipedream", LAYERPIPE)]))  # fmt: skip


def _steady_latency(read, cell, planner, order, model="1f1b"):
    batches = _steady(cell)
    return timeline(read, cell, planner, order, model, batches).latency(batches // 2)


def layerpipe_latency(read):
    """Share of cells where a mini-batch alone takes less by LayerPipe's plan and order than by PipeDream's."""
    return float(np.mean([_alone(read, cell, "delta") < _alone(read, cell, "layer", "pipedream") for cell in CELLS]))


def layerpipe_latency_sample(read):
    return float(_alone(read, SAMPLE, "delta") / _alone(read, SAMPLE, "layer", "pipedream"))


def layerpipe_latency_vgg16(read):
    return float(_alone(read, VGG16, "delta") / _alone(read, VGG16, "layer", "pipedream"))


def registered_latency_vgg16(read):
    """The same in a full pipeline with a register at each boundary both ways, as derived, against PipeDream's 1F1B."""
    return float(_steady_latency(read, VGG16, LAYERPIPE, "delta", "registered")
                 / _steady_latency(read, VGG16, "pipedream", "layer"))  # fmt: skip


def latency_is_least(read):
    """Share of plans whose mini-batch alone, by critical loops, is as fast as a bound for any order allows."""
    made = [planned(read, cell, planner) for cell in CELLS for planner in ("pipedream", LAYERPIPE)]
    return float(np.mean([list_schedule(one).makespan == _least(one) for one in made]))


def _least(made):
    """No mini-batch is sooner through: a stage has all its backward work to do once the first error reaches it.

    The error of a layer is there no sooner than all F and the deltas above it, of two parts the longer.
    """
    L, moved = len(made.costs), moved_work(made)
    at, arrival = sum(made.costs.F.tolist()), {}
    for l in range(L, 0, -1):
        arrival.setdefault(made.stage_of(l), at)
        delta = made.costs.delta.tolist()[l - 1]
        at += max(delta - moved[l][1], moved[l][1]) if l in moved else delta
    F = made.costs.F.tolist()
    own = {k: sum(F[l - 1] for l in layers) for k, layers in enumerate(made.stages, 1)}
    return max(at + made.loads[k - 1] - own[k] for k, at in arrival.items())


# Two parts of a delta


def split_deltas_overlap(read):
    """Share of the deltas in two parts, of a mini-batch alone, whose parts run at the same time for a while."""
    found = [both for cell in CELLS for both in _overlaps(timeline(read, cell, LAYERPIPE, "delta", "1f1b", 1))]
    return float(np.mean(found))


def _overlaps(line):
    spans = {(KINDS[kind], layer): (start, end) for kind, layer, start, end in
             zip(line.kind.tolist(), line.layer.tolist(), line.start.tolist(), line.end.tolist())}  # fmt: skip
    return [max(spans["delta'", l][0], spans["delta''", l][0]) < min(spans["delta'", l][1], spans["delta''", l][1])
            for l in moved_work(line.plan) if spans["delta'", l][0] < spans["delta'", l][1]]  # fmt: skip


def split_lowers_latency(read):
    """Share of plans with moved work on which it shortens the way of a mini-batch alone, the stages being the same."""
    moving = [planned(read, cell) for cell in CELLS if planned(read, cell).moved]
    return float(np.mean([layerpipe(made).makespan < layerpipe(_unmoved(made)).makespan for made in moving]))


def _unmoved(made):
    return replace(made, moved=())


# Throughput and stashes


def schedule_keeps_the_period(read):
    """Share of timelines (both orders, both models) whose steady period is the period of the plan."""
    found = []
    for cell in CELLS:
        for order, model in (("layer", "1f1b"), ("delta", "1f1b"), ("delta", "registered")):
            line = timeline(read, cell, LAYERPIPE, order, model, _steady(cell))
            found.append(line.period == line.plan.period)
    return float(np.mean(found))


def layerpipe_period(read):
    """Share of cells where the steady period of LayerPipe's timeline is below that of PipeDream's."""
    pairs = [whole_paper_schedule(read, cell, _steady(cell)) for cell in CELLS]
    return float(np.mean([ours.period < theirs.period for theirs, ours in pairs]))


def stages_are_balanced(read):
    """Share of all stages of LayerPipe's plans that work at least 99 % of the period."""
    return float(np.mean([load >= 0.99 * made.period for made in (planned(read, cell) for cell in CELLS)
                          for load in made.loads]))  # fmt: skip


def timeline_keeps_the_derived_versions(read):
    """Share of layers with a delta that keep a version of their weights for each derived delay, and the newest."""
    found = []
    for cell in CELLS:
        line = timeline(read, cell, LAYERPIPE, "delta", "registered", _steady(cell))
        ends = [line.plan.stage_of(l) for l in range(1, len(line.plan.costs) + 1)]
        rows = zip(line.weight_versions, smallest_delays(_numbered(ends)).values(), line.plan.costs.delta.tolist())
        found += [kept == late + 1 for kept, late, delta in rows if delta]
    return float(np.mean(found))


def _numbered(stages):
    """Stages of layers, counted from 1 without those that hold no layer."""
    steps = [0, *(int(a != b) for a, b in pairwise(stages))]
    return tuple((1 + np.cumsum(steps)).tolist())


# Fig. 5(c) and (d)


def _example(moved):
    """Two processors whose loads differ by a third of delta 2, `moved` sixths of it moved."""
    chain = Costs.from_times([6, 6, 10], [6, 6, 12], [0, 6, 6], unit="cycles")
    return Plan("by hand", chain, 2, ends=(2, 3), moved=((2, 1, 2, moved),) if moved else ())


def third_raises_throughput(read):
    """Whether the period is shorter with a third of delta moved, as printed."""
    return float(layerpipe(_example(2), 12).period < layerpipe(_example(0), 12).period)


def half_the_difference_raises_throughput(read):
    """The same with a sixth moved, half of the difference."""
    return float(layerpipe(_example(1), 12).period < layerpipe(_example(0), 12).period)


def third_lowers_latency(read):
    """Time of a mini-batch alone with a third of delta moved over that without."""
    return float(layerpipe(_example(2)).makespan / layerpipe(_example(0)).makespan)
