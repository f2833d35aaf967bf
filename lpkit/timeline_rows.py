"""What a row of a timeline says: the kinds of operations, what a send carries, and the moved work of a plan."""

from collections import namedtuple

__all__ = ["KINDS", "TENSORS", "Operation", "moved_work"]

KINDS = ("F", "delta", "delta'", "delta''", "G", "U", "send")
TENSORS = ("", "a", "delta", "delta''", "W")  # what a send carries

Operation = namedtuple("Operation", "kind layer stage batch micro_batch start end version tensor target")
Operation.__doc__ = """A row of a timeline: mini- and micro-batches counted from 0, layers and stages from 1.

`version` is the number of updates in the weights used (made, for U); `tensor` and `target` say what a send takes where.
"""


def moved_work(plan):
    """{layer: (stage that does part of its delta, amount)} of a plan.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> from lpkit.plans import Plan
    >>> moved_work(Plan("by hand", Costs.from_times([2, 2], 2, 4), 2, ends=(1, 2), moved=((1, 1, 2, 1), (1, 1, 2, 2))))
    {1: (2, 3)}
    """
    moved = {}
    for layer, _, target, amount in plan.moved:
        moved[layer] = (target, amount + moved.get(layer, (target, 0))[1])
    return moved
