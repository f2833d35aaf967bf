"""A list scheduler: whenever a stage is free, it runs the one of its ready operations that comes first by a priority.

No order is given beforehand, as it is in `lpkit.schedule`; it results. An operation is ready when what it needs is
done. F of a mini-batch enters a stage while the stage has fewer mini-batches under way than the model allows; a
mini-batch leaves when all of its operations there are done. Each layer's weights are updated at the end of its G.
Source: Graham, "Bounds on multiprocessing timing anomalies", SIAM J. Applied Mathematics 17 (1969), for list
scheduling; MARS (Wang & Parhi, IEEE Trans. CAD 14, 1995) for priority by loops; LayerPipe (ICCAD 2021), section IV.
"""

from heapq import heappop, heappush

import numpy as np
import pandas as pd

from lpkit.checks import choice, whole_number
from lpkit.event_engine import ticks_of
from lpkit.priorities import priorities
from lpkit.schedule_input import counted
from lpkit.slots import slots_of
from lpkit.timeline import KINDS, Timeline

__all__ = ["PRIORITIES", "deltas_first", "list_schedule"]

PRIORITIES = ("critical_loop", "delta_first", "layer_order", "oldest")
MODELS = {"registered": 2, "1f1b": 1}  # mini-batches under way for each stage that comes after
DELTAS = tuple(KINDS.index(kind) for kind in ("delta", "delta'", "delta''"))


def list_schedule(plan, batches=1, *, priority="critical_loop", model="registered", in_turn=True):
    """The timeline that results when each free stage runs its most urgent ready operation. Sends take no time.

    Parameters
    ----------
    plan : Plan
    batches : int
        Mini-batches.
    priority : {"critical_loop", "delta_first", "layer_order", "oldest"} or pandas.DataFrame
        ``"critical_loop"``: least slack to the iteration bound of sequential training (`lpkit.priorities`), then the
        older mini-batch. ``"delta_first"``: delta, then the older mini-batch. ``"layer_order"``: the older mini-batch,
        and within it layer by layer, G before delta, as frameworks run them. ``"oldest"``: what has been ready longest.
        Or a table with the columns kind, layer and rank, as `priorities` returns it.
    model : {"registered", "1f1b"}
        A stage with S stages after it has at most 2 S + 1 mini-batches under way, as in the derived graph, or S + 1,
        as in PipeDream.
    in_turn : bool
        A stage that has all of these under way runs one back and takes one in, in turn, as in `lpkit.schedule`: the
        period is that of the plan. Otherwise it runs what is ready within the bound, which may cost throughput.

    Returns
    -------
    Timeline
        Mini-batches leave each operation in order. Ties are settled, so that the same comes out each time.

    Raises
    ------
    ValueError
        If the plan cannot be run, the mini-batches are not a whole number of at least 1, the priority or model is
        unknown, a table leaves an operation out, or the timeline is too long for 64 bits.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> from lpkit.plans import Plan
    >>> plan = Plan("by hand", Costs.from_times([4, 2, 2], 2, [2, 2, 2], unit="cycles"), 2, ends=(1, 3))
    >>> line = list_schedule(plan, 6)
    >>> line.period, line.makespan, line.check(), deltas_first(line)
    (12, 76, (), 1.0)
    >>> [list_schedule(plan, 6, priority=name, model="1f1b").makespan for name in PRIORITIES]
    [76, 76, 80, 80]
    """
    each = MODELS[choice(model, "model", tuple(MODELS))]
    batches = counted(plan, batches)
    tasks = _tasks(plan)
    times, scale = ticks_of([task.time for task in tasks], batches)
    ahead = [each * (len(plan.ends) - stage) + 1 for stage in range(1, len(plan.ends) + 1)]
    line = _Line(tasks, _ranks(plan, tasks, priority), ahead, batches, in_turn)
    name = f"list, {priority if isinstance(priority, str) else 'own priorities'}"
    return _timeline(plan, name, batches, tasks, _run(tasks, times, line, batches), scale)


def deltas_first(timeline):
    """Share of the mini-batches of all stages in which every delta of the stage starts before every G: 1.0 is all.

    A delta of the first layer does not count, as nothing waits for it; nor do stages without both. 1.0 if none is left.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> from lpkit.plans import Plan
    >>> from lpkit.schedule import layerpipe, pipedream
    >>> plan = Plan("by hand", Costs.from_times([4, 2, 2], 2, [2, 2, 2], unit="cycles"), 2, ends=(1, 3))
    >>> deltas_first(layerpipe(plan, 6)), deltas_first(pipedream(plan, 6))
    (1.0, 0.0)
    """
    delta, G = np.isin(timeline.kind, DELTAS) & (timeline.layer > 1), timeline.kind == KINDS.index("G")
    place = timeline.micro * timeline.stages + timeline.stage - 1
    size = timeline.batches * timeline.micro_batches * timeline.stages
    last, first = np.full(size, -1), np.full(size, len(timeline))
    np.maximum.at(last, place[delta], np.flatnonzero(delta))  # rows are in the order in which a stage runs them
    np.minimum.at(first, place[G], np.flatnonzero(G))
    both = (last >= 0) & (first < len(timeline))
    return float((last < first)[both].mean()) if both.any() else 1.0


def _tasks(plan):
    """Operations of a mini-batch but updates, which come at the end of a G: all F, then back with G before delta."""
    slots = slots_of(plan, None)
    place = {n: task for task, n in enumerate(n for n, slot in enumerate(slots) if slot.kind != "U")}
    return [slots[n]._replace(needs=tuple(place[need] for need in slots[n].needs)) for n in place]


def _ranks(plan, tasks, priority):
    """Rank of each task, the least first; None for the order in which they become ready."""
    if isinstance(priority, pd.DataFrame):
        return _ranks_of(priority, tasks)
    choice(priority, "priority", PRIORITIES)
    if priority == "critical_loop":
        return _ranks_of(priorities(plan), tasks)
    if priority == "delta_first":
        return [int(KINDS.index(task.kind) not in DELTAS) for task in tasks]
    return [0] * len(tasks) if priority == "layer_order" else None


def _ranks_of(table, tasks):
    """Ranks from a table; each task must have one."""
    missing = [name for name in ("kind", "layer", "rank") if name not in table]
    if missing:
        raise ValueError(f"the priorities have no column {missing[0]!r}; give kind, layer and rank, one row an "
                         "operation")  # fmt: skip
    ranks = dict(zip(zip(table["kind"].tolist(), table["layer"].tolist()), table["rank"].tolist()))
    for task in tasks:
        if (task.kind, task.layer) not in ranks:
            raise ValueError(f"the priorities have no row for {task.kind} of layer {task.layer}; give each operation "
                             "one")  # fmt: skip
        whole_number(ranks[task.kind, task.layer], f"the rank of {task.kind} of layer {task.layer}", least=0)
    return [int(ranks[task.kind, task.layer]) for task in tasks]


def _run(tasks, times, line, batches):
    """Rows (operation, start, end, version) in order of start.

    Task n of mini-batch b is operation b tasks + n; the update at the end of a G has its number and all of them more.
    """
    size, rows, events, now = len(tasks), [], [], 0
    made, used = [0] * (size + 1), [0] * (batches * size)  # updates of each layer; versions, by b tasks + layer - 1
    while line.touched:
        for stage in line.can_start():
            operation = line.take(stage)
            task = tasks[operation % size]
            own = operation - operation % size + task.layer - 1
            if task.kind == "F":
                used[own] = made[task.layer]
            end = now + times[operation % size]
            rows.append((operation, now, end, used[own]))
            heappush(events, (end, operation))
        now = events[0][0] if events else now
        while events and events[0][0] == now:
            operation = heappop(events)[1]
            task = tasks[operation % size]
            if task.kind == "G":
                made[task.layer] += 1
                rows.append((operation + batches * size, now, now, made[task.layer]))
            line.finish(operation, now)
    return rows


class _Line:
    """What is ready on each stage, and what each operation still waits for."""

    def __init__(self, tasks, ranks, ahead, batches, in_turn):
        self.size, self.ranks, self.ahead, self.batches = len(tasks), ranks, ahead, batches
        self.stage_of, self.is_F = [task.stage - 1 for task in tasks], [task.kind == "F" for task in tasks]
        self.users = [[] for _ in tasks]
        for n, task in enumerate(tasks):
            for need in task.needs:
                self.users[need].append(n)
        self.entry = {self.stage_of[n]: n for n in reversed(range(self.size)) if self.is_F[n]}  # first F of each stage
        self.last_F = set({self.stage_of[n]: n for n in range(self.size) if self.is_F[n]}.values())
        each = [len(task.needs) + (self.entry.get(task.stage - 1) == n) for n, task in enumerate(tasks)]
        self.missing = each * batches  # operations, and room on its stage for the first F there
        self.left = [self.stage_of.count(stage) for stage in range(len(ahead))] * batches
        self.turn = [-1 if in_turn else batches] * len(ahead)  # the last mini-batch that may go back
        self.ready, self.early = ([[] for _ in ahead] for _ in range(2))
        self.free, self.touched = [True] * len(ahead), set()
        for stage, n in self.entry.items():
            for batch in range(min(ahead[stage], batches)):
                self._less(batch * self.size + n, 0)

    def can_start(self):
        """Stages that are free and have something ready, in order."""
        found = [stage for stage in sorted(self.touched) if self.free[stage] and self.ready[stage]]
        self.touched.clear()
        return found

    def take(self, stage):
        """The most urgent operation of a stage, which is then busy."""
        self.free[stage] = False
        return heappop(self.ready[stage])[1]

    def finish(self, operation, now):
        """Free the stage, and let go what waited for `operation` alone."""
        batch, n = divmod(operation, self.size)
        stage, base = self.stage_of[n], operation - n
        self.free[stage] = True
        self.touched.add(stage)
        for user in self.users[n]:
            self._less(base + user, now)
        if n in self.last_F and batch >= min(self.ahead[stage], self.batches) - 1:
            self._back(stage, max(batch - self.ahead[stage] + 1, 0), now)
        place = batch * len(self.ahead) + stage
        self.left[place] -= 1
        if not self.left[place]:
            self._leave(stage, batch, now)

    def _leave(self, stage, batch, now):
        """`batch` has left `stage`: there is room for another; or, where no more come, it is the turn of the next."""
        if batch + self.ahead[stage] < self.batches:
            self._less((batch + self.ahead[stage]) * self.size + self.entry[stage], now)
        elif batch + 1 < self.batches:
            self._back(stage, batch + 1, now)

    def _back(self, stage, batch, now):
        """Let mini-batches up to `batch` go back through `stage`."""
        self.turn[stage] = max(self.turn[stage], batch)
        early, self.early[stage] = self.early[stage], []
        for operation in early:
            self._push(operation, now)

    def _less(self, operation, now):
        self.missing[operation] -= 1
        if not self.missing[operation]:
            self._push(operation, now)

    def _push(self, operation, now):
        n = operation % self.size
        stage = self.stage_of[n]
        if self.is_F[n] or operation // self.size <= self.turn[stage]:
            heappush(self.ready[stage], (now if self.ranks is None else self.ranks[n], operation))
            self.touched.add(stage)
        else:
            self.early[stage].append(operation)


def _timeline(plan, name, batches, tasks, rows, scale):
    """The timeline of `rows`."""
    operation, start, end, version = (np.array(column) for column in zip(*rows))
    size = len(tasks)
    update, operation = operation >= batches * size, operation % (batches * size)
    of = operation % size
    kind = np.array([KINDS.index(task.kind) for task in tasks], np.int8)[of]
    kind[update] = KINDS.index("U")
    layer, stage = (np.array([getattr(task, name) for task in tasks])[of] for name in ("layer", "stage"))
    nothing = np.zeros(len(rows), np.int64)
    return Timeline(plan, name, batches, 1, kind=kind, layer=layer, stage=stage, micro=operation // size, start=start,
                    end=end, version=version, tensor=nothing.astype(np.int8), target=nothing,
                    scale=scale or 1)  # fmt: skip
