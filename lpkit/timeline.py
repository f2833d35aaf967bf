"""A timeline: which stage works on what, from when to when, and with which version of the weights.

It is a table with one row an operation. What people ask of a schedule (period, fill, drain, latency, bubbles, stashes)
is read from that table, and so is its proof: `Timeline.check` takes plan and table and nothing of how it was made.
Times are exact: whole numbers of `1 / scale` of a cycle; or floats where the costs are, or where moved work is in
fractions too fine for 64 bits.
Source: LayerPipe (ICCAD 2021), Fig. 6; PipeDream (SOSP 2019), section 3, for weight versions.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import pandas as pd

from lpkit.checks import whole_number
from lpkit.plans import Plan, plain, ratio
from lpkit.timeline_check import problems_of
from lpkit.timeline_memory import in_stage, inputs_kept, peak, peak_bytes, versions_kept
from lpkit.timeline_rows import KINDS, TENSORS, Operation, moved_work
from lpkit.timeline_text import drawn, summary

__all__ = ["KINDS", "TENSORS", "Operation", "Timeline", "moved_work"]


@dataclass(frozen=True, eq=False)
class Timeline:
    """Operations of a schedule as columns, sorted by start, in the order in which a stage runs them.

    Attributes
    ----------
    plan : Plan
        Its costs are those of one micro-batch; a mini-batch is `micro_batches` of them and ends with an update.
    schedule : str
    batches, micro_batches : int
        Mini-batches, and micro-batches of each.
    kind, tensor : ndarray of int
        Places in `KINDS` and `TENSORS`.
    layer, stage, micro, version, target : ndarray of int
        `micro` counts micro-batches through all mini-batches; `target` is the stage a send goes to, else 0.
    start, end : ndarray of int64 or float64
        In units of ``1 / scale`` of the unit of the costs.
    scale : int
    bandwidth, latency_of_link : tuple or None
        Of each boundary, where sends take time.
    processors : tuple of int
        Processor (1-based) that runs each stage; by default each stage has its own. A processor, and a link from one
        to another, does one thing at a time; `busy`, `utilisation`, `in_flight`, `activation_bytes` and `weight_bytes`
        have one entry a processor. The schedule `sequential` lets these processors work one after the other.
    fills_with : int or None
        Mini-batches after which what is kept grows no more, as the schedule says; None of an order that does not say.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> from lpkit.schedule import schedule
    >>> plan = Plan("by hand", Costs.from_times([2, 2], 2, [0, 2], unit="cycles"), 2, ends=(1, 2))
    >>> line = schedule(plan, "pipedream", 4)
    >>> line.operations[0]  # doctest: +NORMALIZE_WHITESPACE
    Operation(kind='F', layer=1, stage=1, batch=0, micro_batch=0, start=0, end=2, version=0, tensor='', target=0)
    >>> line.period, line.makespan, line.fill, line.drain, line.latency(), line.bubble_share, line.check()
    (6, 28, 10, 10, 12, Fraction(2, 7), ())
    >>> line.speedup, line.fills
    (Fraction(5, 3), True)
    """

    plan: Plan
    schedule: str
    batches: int
    micro_batches: int
    kind: np.ndarray
    layer: np.ndarray
    stage: np.ndarray
    micro: np.ndarray
    start: np.ndarray
    end: np.ndarray
    version: np.ndarray
    tensor: np.ndarray
    target: np.ndarray
    scale: int = 1
    bandwidth: tuple | None = None
    latency_of_link: tuple | None = None
    processors: tuple | None = None
    fills_with: int | None = None

    def __post_init__(self):
        if self.processors is None:
            object.__setattr__(self, "processors", tuple(range(1, self.stages + 1)))

    def __len__(self):
        return len(self.kind)

    def __repr__(self):
        return summary(self)

    @property
    def operations(self):
        """All rows as a list of `Operation`, times in the unit of the costs."""
        columns = (self.kind, self.layer, self.stage, self.micro, self.start, self.end, self.version, self.tensor,
                   self.target)  # fmt: skip
        return [Operation(KINDS[kind], layer, stage, micro // self.micro_batches, micro, self.in_unit(start),
                          self.in_unit(end), version, TENSORS[tensor], target)
                for kind, layer, stage, micro, start, end, version, tensor, target
                in zip(*(column.tolist() for column in columns))]  # fmt: skip

    def to_frame(self):
        """All rows as a pandas DataFrame, with the fields of `Operation` as columns."""
        return pd.DataFrame(self.operations, columns=Operation._fields)

    def in_unit(self, ticks):
        """Ticks of the table in the unit of the costs."""
        return plain(Fraction(ticks, self.scale)) if self.scale > 1 else ticks

    @property
    def stages(self):
        return len(self.plan.ends)

    @property
    def processor(self):
        """Processor that does each row, an array; of a send, the one it comes from."""
        return np.array(self.processors)[self.stage - 1]

    @property
    def _stages_on(self):
        """Stages of each processor."""
        return [[k for k, own in enumerate(self.processors, 1) if own == p] for p in range(1, max(self.processors) + 1)]

    @property
    def makespan(self):
        """Time from the first operation to the end of the last."""
        return self.in_unit(self.end.max().item())

    @property
    def busy(self):
        """Time each processor works."""
        return tuple(map(self.in_unit, self._busy_ticks()))

    def _busy_ticks(self):
        at, processor = self.kind != KINDS.index("send"), self.processor
        spent = [(self.end - self.start)[at & (processor == p)] for p in range(1, max(self.processors) + 1)]
        return [column.sum().item() for column in spent]

    @property
    def utilisation(self):
        """Share of the makespan that each processor works."""
        return tuple(ratio(b, self.makespan) if self.makespan else 0 for b in self.busy)

    @property
    def bubble_share(self):
        """Share of the time of all processors in which they wait, fill and drain included."""
        busy = self.busy
        return max(plain(1 - ratio(sum(busy), self.makespan * len(busy))), 0) if self.makespan else 0  # floats round

    @cached_property
    def period(self):
        """Mean time of a mini-batch in the steady state, or None where the timeline is too short to have one.

        Taken at the processor that works most, from the ends of its mini-batches as long as it still takes new ones in.
        The steps between them must repeat, one by one or in groups (slow links make groups), to the last step.
        """
        busy, update = self._busy_ticks(), self.kind == KINDS.index("U")
        # Only a processor with a layer has mini-batches that end there; without any work the first of them does.
        at = self.processor == max(set(self.processor[update].tolist()), key=lambda p: (busy[p - 1], -p))
        updates = np.sort(self.end[at & update]).reshape(self.batches, -1)[:, -1]
        F = at & (self.kind == KINDS.index("F"))
        takes = F & (self.end > self.start)  # an F that takes no time may start as late as the last update
        entered = self.start[takes if takes.any() else F].max()
        last = int(np.searchsorted(updates, entered, side="right"))
        steps = np.diff(updates[: min(last + 1, self.batches)])
        group = _repeats(steps, 2 * self.stages)
        return plain(ratio(self.in_unit(steps[-group:].sum().item()), group)) if group else None

    @property
    def period_of_micro_batch(self):
        """Mean time of a micro-batch in the steady state; what schedules with and without a flush compare by."""
        return None if self.period is None else plain(ratio(self.period, self.micro_batches))

    @property
    def speedup(self):
        """Throughput in the steady state, over that of one processor that does all work; None without a period."""
        each = self.period_of_micro_batch
        return None if each is None else plain(ratio(self.plan.costs.total, each)) if each else 1

    @property
    def fills(self):
        """Whether the mini-batches are enough to fill the pipeline and its stashes; None where the order does not tell.

        If not, `in_flight`, `activation_bytes`, `weight_versions` and `weight_bytes` may be less than in a longer run.
        """
        return None if self.fills_with is None else self.batches >= self.fills_with

    @property
    def fill(self):
        """Time until the first micro-batch is through, forward and back."""
        return self.in_unit(self.end[(self.micro == 0) & (self.kind < KINDS.index("U"))].max().item())

    @property
    def drain(self):
        """Time from the end of the last F of the first layer to the end of everything."""
        first = (self.layer == 1) & (self.kind == KINDS.index("F"))
        return self.in_unit((self.end.max() - self.end[first].max()).item())

    def latency(self, batch=None):
        """Time from the first operation of a mini-batch to its last update; by default of the one in the middle.

        The last ones are faster: nothing comes behind them.

        Raises
        ------
        ValueError
            If there is no such mini-batch.
        """
        batch = self.batches // 2 if batch is None else whole_number(batch, "batch", least=0, most=self.batches - 1)
        own = self.micro // self.micro_batches == batch
        return self.in_unit((self.end[own].max() - self.start[own].min()).item())

    @property
    def in_flight(self):
        """Most micro-batches that a processor keeps at once, from the first F of a stage to its last G.

        One that is in two stages of a processor counts twice: each stage keeps its own inputs of it.
        """
        found = [[in_stage(self, k) for k in stages] for stages in self._stages_on]
        return tuple(peak(*(np.sort(np.concatenate(column)) for column in zip(*spans))) if spans else 0
                     for spans in found)  # fmt: skip

    @property
    def activation_bytes(self):
        """Most bytes of layer inputs that each processor keeps for G."""
        return self._peaks(inputs_kept, self.plan.costs.input_bytes)

    @property
    def weight_versions(self):
        """Most versions of its weights that each layer keeps at once, the newest among them; one entry a layer.

        A version is kept from its update until the next, and until the last F, delta or delta' that uses it is done. A
        delta'' has a copy on its stage, which is not counted.
        """
        return tuple(peak(*versions_kept(self, l)) for l in range(1, len(self.plan.costs) + 1))

    @property
    def weight_bytes(self):
        """Most bytes of weights, all versions, that each processor keeps."""
        return self._peaks(versions_kept, self.plan.costs.weight_bytes)

    def _peaks(self, kept, sizes):
        """Most bytes of each processor over the layers of its stages."""
        sizes, layers = sizes.tolist(), self.plan.stages
        return tuple(peak_bytes([(*kept(self, l), sizes[l - 1]) for k in stages for l in layers[k - 1]])
                     for stages in self._stages_on)  # fmt: skip

    def rows_of_layer(self, layer):
        """Places of the rows of a layer (1-based), sends among them, in order."""
        return self._rows[layer - 1]

    @cached_property
    def _rows(self):
        order = np.argsort(self.layer, kind="stable")
        return np.split(order, np.searchsorted(self.layer[order], np.arange(2, len(self.plan.costs) + 1)))

    def ascii(self, width=72):
        """A drawing for a terminal: a line a stage (or processor of several), a character the operation at that time.

        Raises
        ------
        ValueError
            If `width` is not a whole number from 10 to 10000.

        Examples
        --------
        >>> from lpkit.costs import Costs
        >>> from lpkit.schedule import schedule
        >>> plan = Plan("by hand", Costs.from_times([2, 2], 2, [0, 2], unit="cycles"), 2, ends=(1, 2))
        >>> print(schedule(plan, "one_f_one_b", micro_batches=3).ascii(22))
        stage 1 FFFF....GGFF..GG....GG
        stage 2 ..FFGGddFFGGddFFGGdd..
        0 to 22 cycles. F forward, d delta, D delta'' for the stage before, G weight gradient, . waits
        """
        return drawn(self, width)

    def check(self):
        """What is wrong with the timeline, a sentence each; empty if it may be run.

        Every operation of plan and mini-batches is there once, on its stage, as long as it takes; nothing starts before
        what it needs; a processor, or a link in one direction, does one thing at a time; F uses the newest weights of
        its layer, and delta those that F used.
        """
        return problems_of(self)


def _repeats(steps, long):
    """Smallest number of steps after which the last `long` ones, or all there are, repeat; 0 if there is none."""
    for group in range(1, max(len(steps) // 2, min(len(steps), 1)) + 1):
        last = steps[-(long + group) :]
        if np.allclose(last[group:], last[:-group], rtol=1e-9 if steps.dtype.kind == "f" else 0, atol=0):
            return group
    return 0
