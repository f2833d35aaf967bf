"""A timeline as lines of text, for a terminal."""

import numpy as np

from lpkit.checks import short, whole_number
from lpkit.timeline_rows import KINDS

__all__ = ["drawn", "mini_batches", "summary"]

LETTERS = "FddDG"  # of KINDS; the others take no time of a processor


def drawn(timeline, width):
    """A line a stage (or processor of several), each character the operation at that time.

    Raises
    ------
    ValueError
        If `width` is not a whole number from 10 to 10000.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> from lpkit.plans import Plan
    >>> from lpkit.schedule import gpipe
    >>> plan = Plan("by hand", Costs.from_times([2, 2], 2, [0, 2], unit="cycles"), 2, ends=(1, 2))
    >>> print(drawn(gpipe(plan, micro_batches=1), 10))
    stage 1 FF......GG
    stage 2 ..FFGGdd..
    0 to 10 cycles. F forward, d delta, D delta'' for the stage before, G weight gradient, . waits
    """
    width = whole_number(width, "width", least=10, most=10_000)
    times = (np.arange(width) + 0.5) * (float(timeline.end.max()) / width)
    count = max(timeline.processors)
    what, margin = "stage" if count == timeline.stages else "processor", len(str(count))
    lines = [f"{what} {p:>{margin}} {_letters(timeline, p, times)}" for p in range(1, count + 1)]
    end = timeline.makespan if isinstance(timeline.makespan, int) else f"{float(timeline.makespan):.10g}"
    lines.append(f"0 to {end} {timeline.plan.costs.unit}. F forward, d delta, D delta'' for the stage before, G weight "
                 "gradient, . waits")  # fmt: skip
    return "\n".join(lines)


def _letters(line, processor, times):
    on = line.processor == processor
    rows = np.flatnonzero(on & (line.kind < KINDS.index("U")) & (line.end > line.start))
    if not len(rows):
        return "." * len(times)
    at = rows[np.maximum(np.searchsorted(line.start[rows], times, side="right") - 1, 0)]
    works = (line.start[at] <= times) & (times < line.end[at])
    return "".join(LETTERS[kind] if busy else "." for kind, busy in zip(line.kind[at].tolist(), works.tolist()))


def mini_batches(timeline):
    """What the timeline runs, in words: a mini-batch of one schedule may be many of another.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> from lpkit.plans import Plan
    >>> from lpkit.schedule import gpipe, pipedream
    >>> plan = Plan("by hand", Costs.from_times([2, 2], 2, [0, 2], unit="cycles"), 2, ends=(1, 2))
    >>> mini_batches(gpipe(plan, 8)), mini_batches(pipedream(plan))
    ("8 mini-batches of 4 micro-batches, each with the plan's costs", "1 mini-batch with the plan's costs")
    """
    batches, each = timeline.batches, timeline.micro_batches
    words = f"{batches} mini-batch{'es' * (batches > 1)}" + (f" of {each} micro-batches" if each > 1 else "")
    return f"{words}{', each' * (batches * each > 1)} with the plan's costs"


def summary(timeline):
    """Three lines on a timeline: schedule and plan, what it runs, and how fast.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> from lpkit.plans import Plan
    >>> from lpkit.schedule import gpipe
    >>> plan = Plan("by hand", Costs.from_times([2, 2], 2, [0, 2], unit="cycles"), 2, ends=(1, 2))
    >>> gpipe(plan, 3)
    Timeline by gpipe of chain, plan by hand, 2 stages on 2 processors
    3 mini-batches of 4 micro-batches, each with the plan's costs
    period of a mini-batch 28 cycles, speedup 1.43 of 2, makespan 84, bubbles 28.6%
    """
    costs, count = timeline.plan.costs, max(timeline.processors)
    period = "none, too few mini-batches to tell" if timeline.period is None else (
        f"{float(timeline.period):.6g} {short(costs.unit)}, speedup {float(timeline.speedup):.2f} of {count}")
    return (f"Timeline by {short(timeline.schedule)} of {short(costs.name)}, plan {short(timeline.plan.planner)}, "
            f"{timeline.stages} stages on {count} processors\n{mini_batches(timeline)}\n"
            f"period of a mini-batch {period}, makespan {float(timeline.makespan):.6g}, "
            f"bubbles {float(timeline.bubble_share):.1%}")  # fmt: skip
