"""The proof of a timeline: plan and table in, and nothing of how the table was made.

Every operation of plan and mini-batches is there once, on its stage, as long as it takes; nothing starts before what it
needs; a processor, or a link in one direction, does one thing at a time; F uses the newest weights, and delta those
that F used.
"""

import math
from collections import Counter

import numpy as np

from lpkit.checks import shown
from lpkit.plans import ratio
from lpkit.timeline_rows import KINDS, TENSORS, moved_work

__all__ = ["dependencies", "has_links", "problems_of"]

MOST_PROBLEMS = 20  # that are listed


def problems_of(timeline):
    """What is wrong with a timeline, a sentence each; empty if it may be run.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> from lpkit.plans import Plan
    >>> from lpkit.schedule import gpipe
    >>> plan = Plan("by hand", Costs.from_times([2, 2], 2, [0, 2], unit="cycles"), 2, ends=(1, 2))
    >>> line = gpipe(plan, micro_batches=2)
    >>> line.end[-1] += 1
    >>> problems_of(line)
    ('U of layer 1, mini-batch 0 takes 1; the plan says 0',)
    """
    if problems := _no_table(timeline) or _no_stage(timeline):
        return problems
    found, problems = _by_name(timeline)
    if not problems:
        problems = [*_wrong_rows(timeline, found), *_overlaps(timeline), *_too_early(timeline, found),
                    *_stale(timeline, found), *_unsorted(timeline)]  # fmt: skip
    return tuple(problems[:MOST_PROBLEMS])


def _no_table(line):
    """A sentence unless the columns are of one length, the counts are whole, and each row is of a known kind."""
    columns = (line.kind, line.layer, line.stage, line.micro, line.start, line.end, line.version, line.tensor,
               line.target)  # fmt: skip
    if len({len(column) for column in columns}) > 1:
        return (f"the columns have {', '.join(str(len(column)) for column in columns)} rows; give each as many",)
    counts = {"batches": line.batches, "micro_batches": line.micro_batches, "scale": line.scale}
    for name, count in counts.items():
        if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or count < 1:
            return (f"{name} is {shown(count)}; it must be a whole number of at least 1",)
    if line.scale > 1 and line.start.dtype.kind == "f":
        return (f"scale is {line.scale} for times in floats; it must be 1",)
    if line.batches * line.micro_batches > len(line):
        return (f"there are {len(line)} rows for {line.batches} mini-batches of {line.micro_batches} micro-batches",)
    return tuple(_wrong_kinds(line))[:MOST_PROBLEMS]


def _wrong_kinds(line):
    """Rows of no kind; sends without a tensor or a target, and other rows with one."""
    kind, tensor, target = line.kind, line.tensor, line.target
    unknown = (kind < 0) | (kind >= len(KINDS)) | (tensor < 0) | (tensor >= len(TENSORS))
    send = kind == KINDS.index("send")
    mixed = (send != (tensor > 0)) | (send != (target != 0))
    for row in np.flatnonzero(unknown | mixed).tolist():
        yield (f"row {row} has the kind {kind[row]}, the tensor {tensor[row]} and the target {target[row]}; a send has "
               "a tensor and a target, another row has neither")  # fmt: skip


def _no_stage(line):
    """A sentence unless each row is on a stage of the plan, and each stage on a processor."""
    count = line.stages
    whole = all(isinstance(p, (int, np.integer)) and 1 <= p <= count for p in line.processors)
    if len(line.processors) != count or not whole:
        given = shown(line.processors)
        return (f"the processors are {given}; there must be one, from 1 to {count}, for each of {count} stages",)
    for links in (line.bandwidth, line.latency_of_link):
        if (links is None) != (line.bandwidth is None) or (links is not None and len(links) != count - 1):
            given = f"{shown(line.bandwidth)} and {shown(line.latency_of_link)}"
            return (f"bandwidth and latency_of_link are {given}; both must have one entry for each of {count - 1} "
                    "boundaries, or be None",)  # fmt: skip
    outside = (line.stage < 1) | (line.stage > count) | (line.target < 0) | (line.target > count)
    return tuple(f"row {row} is on stage {line.stage[row]} and sends to {line.target[row]}; there are {count} stages"
                 for row in np.flatnonzero(outside)[:MOST_PROBLEMS].tolist())  # fmt: skip


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
    if not has_links(line):
        return once
    for k, l in enumerate(plan.ends[:-1], 1):
        if 0 < l < len(costs):
            size = int(costs.cut_bytes[l - 1])
            once["send a", l, k] = (k, _transfer(line, k, size))
            once["send delta", l + 1, k] = (k + 1, _transfer(line, k, size))
    for l, (target, amount) in moved.items():
        share, k = ratio(amount, costs.delta[l - 1].item()), target - 1
        once["send W", l, k] = (k, _transfer(line, k, math.ceil(share * int(costs.moved_bytes[l - 1]))))
        once["send delta''", l, k] = (target, _transfer(line, k, math.ceil(share * int(costs.input_bytes[l - 1]))))
    return once


def has_links(timeline):
    """Whether sends are rows of their own: links take time, and there is more than one processor.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> from lpkit.partition import plan
    >>> from lpkit.schedule import schedule
    >>> line = schedule(plan(Costs.from_times([4, 2, 2], 0, 0, unit="cycles"), 2), "gpipe", 4)
    >>> has_links(line)
    False
    """
    return timeline.bandwidth is not None and max(timeline.processors) > 1


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
            yield f"{_say(name)} takes {shown(line.in_unit(took))}; the plan says {shown(time)}"
        if starts[row] < 0:
            yield f"{_say(name)} starts before 0"


def _unsorted(line):
    """A row that starts before the one above it: what is read from a timeline relies on their order."""
    for row in (np.flatnonzero(np.diff(line.start) < 0) + 1).tolist():
        yield f"row {row} starts at {line.start[row]}, before the row above it; sort the rows by start"


def _overlaps(line):
    """Two operations of a processor, or of a link in one direction, at a time."""
    processors = np.array((0, *line.processors))  # 0: no send
    source, target = processors[line.stage], processors[line.target]
    order = np.lexsort((line.end, line.start, target, source))
    same = (source[order][1:] == source[order][:-1]) & (target[order][1:] == target[order][:-1])
    for place in np.flatnonzero(same & (line.start[order][1:] < line.end[order][:-1])).tolist():
        one, other = order[place], order[place + 1]
        yield (f"{KINDS[line.kind[other]]} of layer {line.layer[other]}, micro-batch {line.micro[other]} starts on "
               f"stage {line.stage[other]} before {KINDS[line.kind[one]]} of layer {line.layer[one]}, micro-batch "
               f"{line.micro[one]} is done")  # fmt: skip


def _too_early(line, found):
    """Operations that start before what they need has ended."""
    starts, ends = line.start.tolist(), line.end.tolist()
    needs, each = dependencies(line), line.micro_batches
    for micro in range(line.batches * each):
        for before, after in needs:
            first = micro - micro % each if before[0] == "send W" else micro
            if after[0] == "send W" and micro % each:
                continue
            one, other = ((what, l, m // each if what == "U" else m, k)
                          for (what, l, k), m in ((before, first), (after, micro)))  # fmt: skip
            if starts[found[other]] < ends[found[one]]:
                yield f"{_say(other)} starts before {_say(one)} is done"


def dependencies(timeline):
    """Pairs (before, after) of names (what, layer, boundary) within one micro-batch: forward, backward, updates.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> from lpkit.plans import Plan
    >>> from lpkit.schedule import gpipe
    >>> line = gpipe(Plan("by hand", Costs.from_times([2], 2, 0, unit="cycles"), 1, ends=(1,)))
    >>> dependencies(line)
    [(('F', 1, 0), ('G', 1, 0)), (('G', 1, 0), ('U', 1, 0))]
    """
    plan, links = timeline.plan, has_links(timeline)
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
