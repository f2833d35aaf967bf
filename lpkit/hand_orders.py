"""A timeline from an order of your own, and what may be wrong with such an order."""

from lpkit.checks import choice, shown, whole_number
from lpkit.event_engine import BLOCKS, timeline_of
from lpkit.schedule_input import counted, runnable

__all__ = ["hand_made"]


def hand_made(plan, orders, *, micro_batches=1, bandwidth=None, latency=0):
    """A timeline from an order of your own.

    Parameters
    ----------
    plan : Plan
    orders : sequence of sequences of (block, number), one a stage
        Blocks are ``"F"``, ``"delta"`` and ``"G"`` (or ``"B"`` for both, layer by layer) of a micro-batch, and ``"U"``
        of a mini-batch, counted from 0 through all mini-batches.
    micro_batches : int
        Of each mini-batch.
    bandwidth, latency
        As for `layerpipe`.

    Raises
    ------
    ValueError
        If a block is missing, unknown or there twice, or the stages wait for each other in a circle, which is named.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> from lpkit.plans import Plan
    >>> plan = Plan("by hand", Costs.from_times([2, 2], 2, [0, 2], unit="cycles"), 2, ends=(1, 2))
    >>> hand_made(plan, [[("F", 0), ("B", 0), ("U", 0)]] * 2).makespan
    10
    >>> hand_made(plan, [[("B", 0), ("F", 0), ("U", 0)]] * 2)  # doctest: +NORMALIZE_WHITESPACE
    Traceback (most recent call last):
    ...
    ValueError: the order cannot be run: G of layer 2, micro-batch 0 on stage 2 waits for F of layer 2, micro-batch 0
    on stage 2, which comes later on its stage
    """
    stages = len(runnable(plan).ends)
    if not isinstance(orders, (list, tuple)) or len(orders) != stages:
        has = f"has {len(orders)} entries" if isinstance(orders, (list, tuple)) else f"is {shown(orders)}"
        raise ValueError(f"orders {has}; give one list of blocks for each of the {stages} stages")
    orders = [_entries(order, k) for k, order in enumerate(orders, 1)]
    each = whole_number(micro_batches, "micro_batches")
    updates = [n for order in orders for what, n in order if what == "U"]
    if not updates:
        raise ValueError("there is no U in the orders; give each stage a ('U', n) for each mini-batch n")
    batches = counted(plan, max(updates) + 1, each)[0]
    for k, order in enumerate(orders, 1):
        _complete(order, k, batches, each)
    blocks = [[(k, *entry) for entry in order] for k, order in enumerate(orders, 1)]
    return timeline_of(plan, "hand_made", blocks, batches, each, bandwidth, latency)


def _entries(order, stage):
    """The (block, number) pairs of a hand-made order."""
    if not isinstance(order, (list, tuple)):
        raise ValueError(f"the order of stage {stage} is {shown(order)}; give a list of pairs such as ('F', 0)")
    for entry in order:
        if not isinstance(entry, (list, tuple)) or len(entry) != 2:
            raise ValueError(f"stage {stage} has the entry {shown(entry)}; give pairs such as ('F', 0)")
    return [(choice(what, "block", BLOCKS), whole_number(n, "micro-batch", least=0)) for what, n in order]


def _complete(order, stage, batches, each):
    """Raise unless a stage does all of all mini-batches once."""
    both = [part for what, m in order for part in ((("delta", m), ("G", m)) if what == "B" else ((what, m),))]
    expected = {(what, m) for what in ("F", "delta", "G") for m in range(batches * each)}
    expected |= {("U", n) for n in range(batches)}
    seen = set()
    for what, m in both:
        if (what, m) in seen or (what, m) not in expected:
            why = "is there twice" if (what, m) in seen else f"is beyond the {batches} mini-batches that have a U"
            raise ValueError(f"on stage {stage} {what} {m} {why}; give each block once")
        seen.add((what, m))
    for what, m in sorted(expected - seen):
        raise ValueError(f"on stage {stage} {what} {m} is missing; give F, delta and G (or B) of each micro-batch and "
                         "U of each mini-batch")  # fmt: skip
