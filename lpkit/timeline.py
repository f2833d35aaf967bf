"""A timeline: which stage works on what, from when to when, and with which version of the weights.

It is a table with one row an operation. What people ask of a schedule (period, fill, drain, latency, bubbles, stashes)
is read from that table, and so is its proof: `Timeline.check` takes plan and table and nothing of how it was made.
Times are exact: whole numbers of `1 / scale` of a cycle, or floats where the costs are.
Source: LayerPipe (ICCAD 2021), Fig. 6; PipeDream (SOSP 2019), section 3, for weight versions.
"""

from collections import Counter, namedtuple
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pandas as pd

from lpkit.checks import shown, whole_number
from lpkit.plans import Plan, plain, ratio

__all__ = ["KINDS", "Operation", "TENSORS", "Timeline"]

KINDS = ("F", "delta", "delta'", "delta''", "G", "U", "send")
TENSORS = ("", "a", "delta", "delta''", "W")  # what a send carries
LETTERS = "FddDG"  # of KINDS in a drawing; the others take no time of a stage
MOST_PROBLEMS = 20  # that `check` lists

Operation = namedtuple("Operation", "kind layer stage batch micro_batch start end version tensor target")
Operation.__doc__ = """A row of a timeline: mini- and micro-batches counted from 0, layers and stages from 1.

`version` is the number of updates in the weights used (made, for U); `tensor` and `target` say what a send takes where.
"""


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

    def __len__(self):
        return len(self.kind)

    @property
    def operations(self):
        """All rows as a list of `Operation`, times in the unit of the costs."""
        columns = (self.kind, self.layer, self.stage, self.micro, self.start, self.end, self.version, self.tensor,
                   self.target)  # fmt: skip
        return [Operation(KINDS[kind], layer, stage, micro // self.micro_batches, micro, self._time(start),
                          self._time(end), version, TENSORS[tensor], target)
                for kind, layer, stage, micro, start, end, version, tensor, target
                in zip(*(column.tolist() for column in columns))]  # fmt: skip

    def to_frame(self):
        """All rows as a pandas DataFrame, with the fields of `Operation` as columns."""
        return pd.DataFrame(self.operations, columns=Operation._fields)

    def _time(self, ticks):
        """Ticks of the table in the unit of the costs."""
        return plain(Fraction(ticks, self.scale)) if self.scale > 1 else ticks

    @property
    def stages(self):
        return len(self.plan.ends)

    @property
    def makespan(self):
        """Time from the first operation to the end of the last."""
        return self._time(self.end.max().item())

    @property
    def busy(self):
        """Time each stage works, one entry a stage."""
        return tuple(map(self._time, self._busy_ticks()))

    def _busy_ticks(self):
        at = self.kind != KINDS.index("send")
        spent = [(self.end - self.start)[at & (self.stage == k)] for k in range(1, self.stages + 1)]
        return [column.sum().item() for column in spent]

    @property
    def utilisation(self):
        """Share of the makespan that each stage works."""
        return tuple(ratio(b, self.makespan) if self.makespan else 0 for b in self.busy)

    @property
    def bubble_share(self):
        """Share of the time of all stages in which they wait, fill and drain included."""
        return plain(1 - ratio(sum(self.busy), self.makespan * self.stages)) if self.makespan else 0

    @property
    def period(self):
        """Mean time of a mini-batch in the steady state, or None where the timeline is too short to have one.

        Taken at the stage that works most, from the ends of its mini-batches as long as it still takes new ones in. The
        steps between them must repeat, one by one or in groups (slow links make groups), to the last step.
        """
        busy = self._busy_ticks()
        at = self.stage == busy.index(max(busy)) + 1
        updates = np.sort(self.end[at & (self.kind == KINDS.index("U"))])
        updates = updates.reshape(self.batches, -1)[:, -1]
        entered = self.start[at & (self.kind == KINDS.index("F"))].max()
        last = int(np.searchsorted(updates, entered, side="right"))
        steps = np.diff(updates[: min(last + 1, self.batches)])
        group = _repeats(steps, 2 * self.stages)
        return plain(ratio(self._time(steps[-group:].sum().item()), group)) if group else None

    @property
    def fill(self):
        """Time until the first micro-batch is through, forward and back."""
        return self._time(self.end[(self.micro == 0) & (self.kind < KINDS.index("U"))].max().item())

    @property
    def drain(self):
        """Time from the end of the last F of the first layer to the end of everything."""
        first = (self.layer == 1) & (self.kind == KINDS.index("F"))
        return self._time((self.end.max() - self.end[first].max()).item())

    def latency(self, batch=None):
        """Time from the first operation of a mini-batch (by default the last one) to its last update.

        Raises
        ------
        ValueError
            If there is no such mini-batch.
        """
        batch = self.batches - 1 if batch is None else whole_number(batch, "batch", least=0, most=self.batches - 1)
        own = self.micro // self.micro_batches == batch
        return self._time((self.end[own].max() - self.start[own].min()).item())

    @property
    def in_flight(self):
        """Most micro-batches whose inputs a stage keeps at once, from F to G of a layer; one entry a stage."""
        return tuple(max((self._peak(*self._kept(l)) for l in layers), default=0) for layers in self.plan.stages)

    @property
    def activation_bytes(self):
        """Most bytes of layer inputs that each stage keeps for G."""
        sizes = self.plan.costs.input_bytes.tolist()
        return tuple(self._stage_peak(layers, self._kept, sizes) for layers in self.plan.stages)

    @property
    def weight_versions(self):
        """Most versions of its weights that each layer keeps at once, the newest among them; one entry a layer.

        A version is kept from its update until the next, and until the last F or delta that uses it is done. Copies
        that go to another stage for delta'' are not counted.
        """
        return tuple(self._peak(*self._alive(l)) for l in range(1, len(self.plan.costs) + 1))

    @property
    def weight_bytes(self):
        """Most bytes of weights, all versions, that each stage keeps."""
        sizes = self.plan.costs.weight_bytes.tolist()
        return tuple(self._stage_peak(layers, self._alive, sizes) for layers in self.plan.stages)

    def _rows(self):
        """Rows of each layer, as an index array each."""
        cached = self.__dict__.get("_rows_of")
        if cached is None:
            order = np.argsort(self.layer, kind="stable")
            cached = np.split(order, np.searchsorted(self.layer[order], np.arange(2, len(self.plan.costs) + 1)))
            object.__setattr__(self, "_rows_of", cached)
        return cached

    def _kept(self, layer):
        """From when to when the inputs of a layer are kept, two sorted arrays."""
        rows = self._rows()[layer - 1]
        F, G = (rows[self.kind[rows] == KINDS.index(kind)] for kind in "FG")
        return np.sort(self.start[F]), np.sort(self.end[G])

    def _alive(self, layer):
        """From when to when the versions of the weights of a layer are kept, two sorted arrays."""
        rows = self._rows()[layer - 1]
        uses, U = rows[self.kind[rows] < KINDS.index("G")], rows[self.kind[rows] == KINDS.index("U")]
        made = np.sort(self.end[U])
        until = np.append(made, self.end.max() + 1)
        np.maximum.at(until, self.version[uses], self.end[uses])
        return np.append(made[:1] * 0, made), np.sort(until)

    def _peak(self, starts, ends):
        """Most intervals at one time; one that ends when another starts is over."""
        return int((np.arange(1, len(starts) + 1) - np.searchsorted(ends, starts, side="right")).max(initial=0))

    def _stage_peak(self, layers, intervals, sizes):
        """Most bytes at one time over the layers of a stage."""
        found = [(*intervals(l), sizes[l - 1]) for l in layers]
        if not found:
            return 0
        changes = [change for starts, ends, size in found for change in ((ends, -size), (starts, size))]
        times = np.concatenate([moments for moments, _ in changes])
        steps = np.concatenate([np.full(len(moments), size) for moments, size in changes])
        order = np.lexsort((steps, times))  # at one time, what ends goes first
        return int(np.cumsum(steps[order]).max())

    def ascii(self, width=72):
        """A drawing for a terminal: a line a stage, each character the operation at that time.

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
        width = whole_number(width, "width", least=10, most=10_000)
        times = (np.arange(width) + 0.5) * (float(self.end.max()) / width)
        margin = len(str(self.stages))
        lines = [f"stage {k:>{margin}} {self._letters(k, times)}" for k in range(1, self.stages + 1)]
        lines.append(f"0 to {self.makespan} {self.plan.costs.unit}. F forward, d delta, D delta'' for the stage before,"
                     " G weight gradient, . waits")  # fmt: skip
        return "\n".join(lines)

    def _letters(self, stage, times):
        rows = np.flatnonzero((self.stage == stage) & (self.kind < KINDS.index("U")) & (self.end > self.start))
        if not len(rows):
            return "." * len(times)
        at = rows[np.maximum(np.searchsorted(self.start[rows], times, side="right") - 1, 0)]
        works = (self.start[at] <= times) & (times < self.end[at])
        return "".join(LETTERS[kind] if on else "." for kind, on in zip(self.kind[at].tolist(), works.tolist()))

    def check(self):
        """What is wrong with the timeline, a sentence each; empty if it may be run.

        Every operation of plan and mini-batches is there once, on its stage, as long as it takes; nothing starts before
        what it needs; a stage, or a link in one direction, does one thing at a time; F uses the newest weights of its
        layer, and delta those that F used.
        """
        found, problems = _by_name(self)
        if not problems:
            problems = [*_wrong_rows(self, found), *_overlaps(self), *_too_early(self, found), *_stale(self, found)]
        return tuple(problems[:MOST_PROBLEMS])


def _repeats(steps, long):
    """Smallest number of steps after which the last `long` ones, or all there are, repeat; 0 if there is none."""
    for group in range(1, max(len(steps) // 2, min(len(steps), 1)) + 1):
        last = steps[-(long + group) :]
        if np.allclose(last[group:], last[:-group], rtol=1e-9 if steps.dtype.kind == "f" else 0, atol=0):
            return group
    return 0


def _by_name(line):
    """{(kind or tensor, layer, micro-batch, boundary): row}, and what is missing or not of the plan."""
    names = []
    for kind, layer, stage, micro, tensor, target in zip(*(column.tolist() for column in (
            line.kind, line.layer, line.stage, line.micro, line.tensor, line.target))):  # fmt: skip
        if KINDS[kind] == "send":
            names.append(("send " + TENSORS[tensor], layer, micro, min(stage, target)))
        else:
            names.append((KINDS[kind], layer, micro // line.micro_batches if KINDS[kind] == "U" else micro, 0))
    count, expected = Counter(names), _expected(line)
    problems = [f"{_say(name)} is missing" for name in expected if name not in count]
    problems += [f"{_say(name)} is not part of the plan" for name in count if name not in expected]
    problems += [f"{_say(name)} is there {times} times" for name, times in count.items() if times > 1]
    return {name: row for row, name in enumerate(names)}, problems


def _say(name):
    what, layer, micro, boundary = name
    over = f" over boundary {boundary}" if boundary else ""
    return f"{what} of layer {layer}, {'mini' if what == 'U' else 'micro'}-batch {micro}{over}"


def moved_work(plan):
    """{layer: (stage that does part of its delta, amount)} of a plan.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> moved_work(Plan("by hand", Costs.from_times([2, 2], 2, 4), 2, ends=(1, 2), moved=((1, 1, 2, 1), (1, 1, 2, 2))))
    {1: (2, 3)}
    """
    moved = {}
    for layer, _, target, amount in plan.moved:
        moved[layer] = (target, amount + moved.get(layer, (target, 0))[1])
    return moved


def _expected(line):
    """{name: (stage, time in the unit of the costs)} of all that must be there."""
    plan, expected = line.plan, {}
    once = _once(line)
    for micro in range(line.batches * line.micro_batches):
        for (what, layer, boundary), place in once.items():
            if what == "U" or (what == "send W" and micro % line.micro_batches):
                continue
            expected[what, layer, micro, boundary] = place
    for batch in range(line.batches):
        expected |= {("U", l, batch, 0): (plan.stage_of(l), 0) for l in range(1, len(plan.costs) + 1)}
    return expected


def _once(line):
    """{(what, layer, boundary): (stage, time)} of one micro-batch."""
    plan, costs, moved, once = line.plan, line.plan.costs, moved_work(line.plan), {}
    for l, (F, G, delta) in enumerate(zip(costs.F.tolist(), costs.G.tolist(), costs.delta.tolist()), 1):
        home = plan.stage_of(l)
        once["F", l, 0], once["G", l, 0] = (home, F), (home, G)
        if l in moved:
            once["delta'", l, 0], once["delta''", l, 0] = (home, delta - moved[l][1]), moved[l]
        elif l > 1 or delta:
            once["delta", l, 0] = (home, delta)
    if line.bandwidth is None:
        return once
    for k, l in enumerate(plan.ends[:-1], 1):
        if 0 < l < len(costs):
            size = int(costs.cut_bytes[l - 1])
            once["send a", l, k] = (k, _transfer(line, k, size))
            once["send delta", l + 1, k] = (k + 1, _transfer(line, k, size))
    for l, (target, amount) in moved.items():
        share, k = ratio(amount, costs.delta[l - 1].item()), target - 1
        once["send W", l, k] = (k, _transfer(line, k, share * int(costs.weight_bytes[l - 1])))
        once["send delta''", l, k] = (target, _transfer(line, k, share * int(costs.input_bytes[l - 1])))
    return once


def _transfer(line, boundary, size):
    bandwidth, latency = line.bandwidth[boundary - 1], line.latency_of_link[boundary - 1]
    return latency + (0 if bandwidth is None else ratio(size, bandwidth))


def _wrong_rows(line, found):
    """Operations on another stage than the plan's, or of another length."""
    stages, starts, ends = line.stage.tolist(), line.start.tolist(), line.end.tolist()
    for name, (stage, time) in _expected(line).items():
        row = found[name]
        if stages[row] != stage:
            yield f"{_say(name)} is on stage {stages[row]}; the plan says {stage}"
        took, due = ends[row] - starts[row], time * line.scale
        if took != due and not (line.start.dtype.kind == "f" and abs(took - due) <= 1e-9 * max(abs(ends[row]), 1e-300)):
            yield f"{_say(name)} takes {shown(line._time(took))}; the plan says {shown(time)}"
        if starts[row] < 0:
            yield f"{_say(name)} starts before 0"


def _overlaps(line):
    """Two operations of a stage, or of a link in one direction, at a time."""
    order = np.lexsort((line.end, line.start, line.target, line.stage))
    same = (line.stage[order][1:] == line.stage[order][:-1]) & (line.target[order][1:] == line.target[order][:-1])
    for place in np.flatnonzero(same & (line.start[order][1:] < line.end[order][:-1])).tolist():
        one, other = order[place], order[place + 1]
        yield (f"{KINDS[line.kind[other]]} of layer {line.layer[other]}, micro-batch {line.micro[other]} starts on "
               f"stage {line.stage[other]} before {KINDS[line.kind[one]]} of layer {line.layer[one]}, micro-batch "
               f"{line.micro[one]} is done")  # fmt: skip


def _too_early(line, found):
    """Operations that start before what they need has ended."""
    starts, ends = line.start.tolist(), line.end.tolist()
    needs, each = _needs(line.plan, line.bandwidth is not None), line.micro_batches
    for micro in range(line.batches * each):
        for before, after in needs:
            first = micro - micro % each if before[0] == "send W" else micro
            if after[0] == "send W" and micro % each:
                continue
            one, other = ((what, l, m // each if what == "U" else m, k)
                          for (what, l, k), m in ((before, first), (after, micro)))  # fmt: skip
            if starts[found[other]] < ends[found[one]]:
                yield f"{_say(other)} starts before {_say(one)} is done"


def _needs(plan, links):
    """Pairs (before, after) of (what, layer, boundary) within one micro-batch: forward, backward, updates."""
    L, moved, pairs = len(plan.costs), moved_work(plan), []
    boundaries = {l: [k for k, end in enumerate(plan.ends[:-1], 1) if end == l and links] for l in range(1, L)}

    def done(l):  # the error that layer l passes down
        if l not in moved:
            return [("delta", l, 0)]
        back = ("send delta''", l, moved[l][0] - 1) if links else ("delta''", l, 0)
        return [("delta'", l, 0), back]

    def chain(*names):
        pairs.extend(zip(names, names[1:]))

    for l in range(1, L + 1):
        kept = (("delta'",) if l in moved else ("delta",)) if l > 1 or plan.costs.delta[0] else ()
        chain(("F", l, 0), *(("send a", l, k) for k in boundaries.get(l, ())), *([("F", l + 1, 0)] if l < L else []))
        for what in ("G", *kept):
            chain(("F", l, 0), (what, l, 0))
            for last in done(l + 1) if l < L else ():
                chain(last, *(("send delta", l + 1, k) for k in reversed(boundaries[l])), (what, l, 0))
        chain(("G", l, 0), ("U", l, 0))
        if l in moved:
            for last in done(plan.stages[moved[l][0] - 1].start):
                chain(last, ("delta''", l, 0))
            if links:
                k = moved[l][0] - 1
                chain(("F", l, 0), ("send W", l, k), ("delta''", l, 0), ("send delta''", l, k))
    return pairs


def _stale(line, found):
    """F with other than the newest weights, delta and G with others than F used, updates out of order."""
    starts, ends, versions = line.start.tolist(), line.end.tolist(), line.version.tolist()
    updates = {l: [ends[found["U", l, n, 0]] for n in range(line.batches)] for l in range(1, len(line.plan.costs) + 1)}
    made = {l: np.array(times) for l, times in updates.items()}
    for l, times in updates.items():
        if times != sorted(times):
            yield f"the updates of layer {l} are out of order"
            return
    for (what, l, micro, boundary), row in found.items():
        if what == "F":  # an update at the very moment may come before or after an F
            least, most = (int(np.searchsorted(made[l], starts[row], side=side)) for side in ("left", "right"))
            if not least <= versions[row] <= most:
                yield f"{_say((what, l, micro, 0))} uses version {versions[row]} of the weights; the newest is {most}"
        elif what == "U":
            if versions[row] != micro + 1:
                yield f"{_say((what, l, micro, 0))} makes version {versions[row]}; it must be {micro + 1}"
        elif versions[row] != versions[found["F", l, micro, 0]]:
            yield (f"{_say((what, l, micro, boundary))} uses version {versions[row]} of the weights; F used "
                   f"{versions[found['F', l, micro, 0]]}")  # fmt: skip
