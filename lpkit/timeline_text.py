"""A timeline as lines of text, for a terminal."""

import numpy as np

from lpkit.checks import whole_number
from lpkit.timeline_rows import KINDS

__all__ = ["drawn"]

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
    lines.append(f"0 to {timeline.makespan} {timeline.plan.costs.unit}. F forward, d delta, D delta'' for the stage "
                 "before, G weight gradient, . waits")  # fmt: skip
    return "\n".join(lines)


def _letters(line, processor, times):
    on = line.processor == processor
    rows = np.flatnonzero(on & (line.kind < KINDS.index("U")) & (line.end > line.start))
    if not len(rows):
        return "." * len(times)
    at = rows[np.maximum(np.searchsorted(line.start[rows], times, side="right") - 1, 0)]
    works = (line.start[at] <= times) & (times < line.end[at])
    return "".join(LETTERS[kind] if busy else "." for kind, busy in zip(line.kind[at].tolist(), works.tolist()))
