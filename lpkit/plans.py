"""What a planner returns: the stages, the work moved between them, and why no plan can be better.

A stage holds a contiguous run of layers. F and G stay with their layer; part of delta of a layer whose output the
next stage reads first may be computed there (delta'').
Source: LayerPipe (ICCAD 2021), section IV and Fig. 5.
"""

import numbers
from bisect import bisect_left
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

from lpkit.checks import choice, short, shown
from lpkit.costs import Costs
from lpkit.display import counted
from lpkit.orders import plain
from lpkit.unequal import parted, unequal_text, wrong_processors

__all__ = ["Certificate", "Communication", "Plan", "check_plan", "communication"]


@dataclass(frozen=True)
class Certificate:
    """Why a plan is optimal.

    Attributes
    ----------
    period : int, Fraction or float
    average_bound : int, Fraction or float
        All work over the number of processors, or over the sum of their speeds: no plan is faster.
    saturation_period : int, Fraction or float
        The best period that any number of processors reaches; None where their speeds differ or replicas are allowed,
        as it then depends on what processors are added.
    binding : tuple (a, b, stages) or None
        Layers a..b meet at most `stages` stages (of the fastest processors there are, or of all replicas allowed), and
        cannot be done faster by them. With all layers and processors: the average. None where no interval of layers
        proves the period; `verify_optimal` proves it then.
    saturates_at : int
        Fewest processors that reach `saturation_period`; None as that.
    text : str
        The same for people.
    """

    period: object
    average_bound: object
    saturation_period: object
    binding: tuple | None
    saturates_at: int | None
    text: str


@dataclass(frozen=True, eq=False)
class Plan:
    """Layers on stages, and the delta work that another stage does.

    Attributes
    ----------
    planner : str
    costs : Costs
    processors : int
        Processors asked for; `ends` may use fewer.
    ends : tuple of int
        Last layer of each stage, 1-based; stage k holds layers ``ends[k-1] + 1 .. ends[k]``. A repeated end is a stage
        without a layer of its own.
    moved : tuple of (layer, from_stage, to_stage, amount)
        Delta work that leaves the stage of its layer; amounts in the unit of the costs.
    notes : tuple of str
    certificate : Certificate or None
    links : tuple of number
        Time of the link at each boundary, where the planner charged one.
    options : tuple of (name, value)
        Planner options that are not the default; `verify_optimal` reads them.
    speeds, used : tuple
        Where processors differ: the speed of the processor of each stage (the time of work is the work over it), and
        the number of that processor, from 1.
    replicas, allreduce : tuple
        Where stages are replicated: the processors of each stage, of which each takes every so-many-th mini-batch, and
        the time of the all-reduce of its gradients, once in as many mini-batches as replicas.

    Examples
    --------
    >>> chain = Costs.from_times([4, 2, 2], 1, [0, 1, 1], unit="cycles")
    >>> plan = Plan("by hand", chain, 2, ends=(1, 3))
    >>> plan.loads, plan.period, plan.speedup, plan.stages, plan.stage_of(3)
    ((5, 8), 8, Fraction(13, 8), [range(1, 2), range(2, 4)], 2)
    >>> plan
    Plan by hand of chain on 2 processors
    layers 1 | 2-3
    period 8 cycles, speedup 1.625 over one processor
    """

    planner: str
    costs: Costs
    processors: int
    ends: tuple
    moved: tuple = ()
    notes: tuple = ()
    certificate: Certificate | None = None
    links: tuple = ()
    options: tuple = ()
    speeds: tuple = ()
    used: tuple = ()
    replicas: tuple = ()
    allreduce: tuple = ()

    def __repr__(self):
        head = f"Plan {short(self.planner)} of {short(self.costs.name)} on {counted(self.processors, 'processor')}"
        if problems := check_plan(self):
            return f"{head}\nwith ends {shown(self.ends)}; cannot be run: {problems[0]}"
        stages = " | ".join(f"{s.start}-{s[-1]}" if len(s) > 1 else f"{s.start}" if s else "none" for s in self.stages)
        stages = short(stages, 200) + short(unequal_text(self), 200)
        moved = f"; delta'' of {', '.join(map(str, sorted({move[0] for move in self.moved})))}" if self.moved else ""
        period = f"{self.period:,}" if isinstance(self.period, int) else f"{float(self.period):.10g}"
        return (f"{head}\nlayers {stages}{short(moved, 200)}\nperiod {period} {short(self.costs.unit)}, "
                f"speedup {float(self.speedup):.4g} over one processor")  # fmt: skip

    @cached_property
    def loads(self):
        """Work of each stage; for cycles the sum is exactly ``costs.total``."""
        loads = [_total(self.costs.work[stage.start - 1 : stage.stop - 1]) for stage in self.stages]
        for _, source, target, amount in self.moved:
            loads[source - 1] -= amount
            loads[target - 1] += amount
        return tuple(map(plain, loads))

    @property
    def stage_times(self):
        """Time of each stage for a mini-batch: the load, over the speed, or with the all-reduce over the replicas."""
        if self.speeds:
            return tuple(plain(ratio(load, speed)) for load, speed in zip(self.loads, self.speeds))
        if self.replicas:
            loads = zip(self.loads, self.allreduce or (0,) * len(self.loads), self.replicas)
            return tuple(plain(ratio(load + reduce, count)) for load, reduce, count in loads)
        return self.loads

    @property
    def period(self):
        """Longest time of a stage or charged link."""
        return max(self.stage_times + self.links)

    @property
    def speedup(self):
        """Time of one processor (of speed 1) over the period; the throughput ratio."""
        return plain(ratio(self.costs.total, self.period)) if self.period else 1

    @property
    def stages(self):
        """Layers of each stage as ranges, 1-based."""
        return [range(a + 1, b + 1) for a, b in zip((0, *self.ends), self.ends)]

    def stage_of(self, layer):
        """Stage (1-based) that holds `layer` (1-based)."""
        return bisect_left(self.ends, layer) + 1


@dataclass(frozen=True)
class Communication:
    """Bytes that cross each boundary of a plan, in both directions, for one mini-batch.

    Attributes
    ----------
    accounting : str
    mandatory : tuple
        Activations forward and their errors back: any pipeline sends these.
    weights : tuple
        Share of the weights that goes with moved delta work: the paper's additional overhead.
    results : tuple
        Share of the result of moved delta work that comes back (accounting ``"full"``).
    allreduce : tuple
        Of each replicated stage: what its r replicas together send each other in a ring, ``2 (r - 1) / r`` of its
        weights for one mini-batch. Empty without replicas.
    """

    accounting: str
    mandatory: tuple
    weights: tuple
    results: tuple
    allreduce: tuple = field(default=(), repr=False)

    @property
    def additional(self):
        """Weights and results of each boundary."""
        return tuple(plain(w + r) for w, r in zip(self.weights, self.results))

    @property
    def total_mandatory(self):
        return sum(self.mandatory)

    @property
    def total_additional(self):
        return plain(sum(self.additional))

    @property
    def total_allreduce(self):
        return plain(sum(self.allreduce))


def communication(plan, accounting="paper"):
    """Bytes that cross each boundary of `plan`: mandatory ones, and those that moving delta work adds.

    ``"paper"`` counts the moved share of the weights; of a product of two tensors, which has none, of both operands.
    ``"full"`` also counts the result delta'' that travels back: the same share of the input's bytes, where the layer is
    not the first of its stage. Where it is, the result goes straight to the stage before, in place of the same bytes of
    that boundary's mandatory error, so that the volume is unchanged. The first layer has nobody to send a result to.

    Raises
    ------
    ValueError
        If `accounting` is unknown.

    References
    ----------
    LayerPipe (ICCAD 2021), section V, "mandatory" and "additional" overheads.

    Examples
    --------
    >>> sizes = dict(weight_bytes=100, input_bytes=50, output_bytes=50)
    >>> chain = Costs.from_times([1, 1, 1], 1, [0, 4, 1], unit="cycles", **sizes)
    >>> plan = Plan("by hand", chain, 2, ends=(2, 3), moved=((2, 1, 2, 2),))
    >>> communication(plan), communication(plan, "full").additional
    (Communication(accounting='paper', mandatory=(100,), weights=(50,), results=(0,)), (75,))
    """
    choice(accounting, "accounting", ("paper", "full"))
    costs, boundaries = plan.costs, len(plan.ends) - 1
    cuts = [int(costs.cut_bytes[end - 1]) if 0 < end < len(costs) else 0 for end in plan.ends[:-1]]
    weights, results = [0] * boundaries, [0] * boundaries
    for layer, source, target, amount in plan.moved:
        share = ratio(amount, costs.delta[layer - 1].item())
        for boundary in range(source - 1, target - 1):
            weights[boundary] += share * int(costs.moved_bytes[layer - 1])
        if accounting == "full" and layer > plan.stages[source - 1].start:
            results[source - 1] += share * int(costs.input_bytes[layer - 1])
    reduced = [plain(Fraction(2 * (r - 1), r) * _total(costs.weight_bytes[stage.start - 1 : stage.stop - 1]))
               for r, stage in zip(plan.replicas, plan.stages)]  # fmt: skip
    return Communication(accounting, tuple(2 * c for c in cuts), tuple(map(plain, weights)), tuple(map(plain, results)),
                         tuple(reduced))


def check_plan(plan):
    """What is wrong with a plan, a sentence each; empty if it may be run.

    Checks that the stages cover the layers in order, that moved work is part of the delta of a layer whose output the
    next stage reads first, that it goes to that stage, and (for cycles) that no work is lost; that speeds or replicas
    are those of processors that are there, and that layers of the option ``together`` are.

    Examples
    --------
    >>> chain = Costs.from_times([1, 1, 1], 1, [0, 4, 1], unit="cycles")
    >>> check_plan(Plan("by hand", chain, 2, ends=(2, 3), moved=((2, 1, 2, 2),)))
    ()
    >>> check_plan(Plan("by hand", chain, 2, ends=(2, 3), moved=((1, 1, 2, 2),)))
    ('layer 1 moves 2 of 0 delta work', 'layer 1 feeds layer 2 first, but stage 2 starts with layer 3')
    """
    problems, costs = [], plan.costs
    ends = plan.ends
    if unreadable := _wrong_ends(ends, len(costs)) or _unreadable_moves(plan) or wrong_processors(plan):
        return unreadable
    if len(ends) > plan.processors:
        problems.append(f"there are {len(ends)} stages for {plan.processors} processors")
    problems += parted(plan)
    for layer, source, target, _ in plan.moved:
        problems += _wrong_move(plan, layer, source, target)
    for layer in sorted({move[0] for move in plan.moved}):
        amount, delta = sum(m[3] for m in plan.moved if m[0] == layer), costs.delta[layer - 1].item()
        if not 0 < amount <= delta:
            problems.insert(0, f"layer {layer} moves {shown(amount)} of {delta} delta work")
    if costs.unit == "cycles" and sum(plan.loads) != costs.total:
        problems.append(f"the loads add up to {sum(plan.loads)}; the work is {costs.total}")
    return tuple(problems)


def _wrong_ends(ends, layers):
    """A sentence if the stage ends are no whole numbers in order up to `layers`."""
    whole = isinstance(ends, (tuple, list)) and all(isinstance(end, numbers.Integral) for end in ends)
    if whole and ends and ends[-1] == layers and all(a <= b for a, b in zip((0, *ends), ends)):
        return ()
    return (f"the stage ends are {shown(ends)}; they must not fall and must finish with {layers}",)


def _unreadable_moves(plan):
    """A sentence for each move that names no layer or no stage, so that the loads cannot be told."""
    return tuple(f"the move {shown(move)} is none; it must be (layer from 1 to {len(plan.costs)}, from stage, to stage "
                 f"from 1 to {len(plan.ends)}, amount)" for move in plan.moved if not _readable(plan, move))


def _readable(plan, move):
    if not (isinstance(move, (tuple, list)) and len(move) == 4 and isinstance(move[3], numbers.Real)):
        return False
    most = (len(plan.costs), len(plan.ends), len(plan.ends))
    return all(isinstance(n, numbers.Integral) and 1 <= n <= last for n, last in zip(move, most))


def _wrong_move(plan, layer, source, target):
    """What is inadmissible about moving delta of `layer` from stage `source` to stage `target`."""
    if plan.stage_of(layer) != source:
        return [f"layer {layer} is on stage {plan.stage_of(layer)}, but its work leaves stage {source}"]
    if target != source + 1:
        return [f"layer {layer} on stage {source} moves work to stage {target}, which is not the next"]
    reader, start = int(plan.costs.first_consumer[layer - 1]), plan.stages[target - 1].start
    if reader != start or plan.stage_of(reader) != target:
        return [f"layer {layer} feeds layer {reader} first, but stage {target} starts with layer {start}"]
    return []


def ratio(a, b):
    """`a` / `b`, exact unless one of them is a float.

    Examples
    --------
    >>> ratio(6, 4), ratio(6.0, 4)
    (Fraction(3, 2), 1.5)
    """
    return a / b if isinstance(a, float) or isinstance(b, float) else Fraction(a) / b


def _total(column):
    """Sum of an array as a Python number, without overflow."""
    return sum(column.tolist())
