"""Operations of one micro-batch, each with what it needs: the pattern that a schedule repeats.

Source: LayerPipe (ICCAD 2021), Fig. 5, for delta' and delta''.
"""

import math
from collections import namedtuple

from lpkit.plans import ratio
from lpkit.timeline_rows import moved_work

__all__ = ["Slot", "slots_of"]

Slot = namedtuple("Slot", "kind layer stage time tensor target needs needs_first")
Slot.__doc__ = """An operation of one micro-batch.

`needs` are places of other slots in the same micro-batch, `needs_first` in the first one of the mini-batch.
"""


def slots_of(plan, links):
    """Operations of one micro-batch of a plan, F first and then back through the layers; with `links`, sends too.

    `links` holds bandwidth and latency of each boundary, as `links_of` gives them.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> from lpkit.plans import Plan
    >>> plan = Plan("by hand", Costs.from_times([2, 2], 2, [0, 2], unit="cycles"), 2, ends=(1, 2))
    >>> [(slot.kind, slot.layer, slot.needs) for slot in slots_of(plan, None)]  # doctest: +NORMALIZE_WHITESPACE
    [('F', 1, ()), ('F', 2, (0,)), ('G', 2, (1,)), ('U', 2, (2,)), ('delta', 2, (1,)), ('G', 1, (4, 0)), ('U', 1, (5,))]
    """
    slots = []
    add, send, across = _adders(plan.costs, links, slots)
    forward = _forward(plan, add, across)
    _backward(plan, add, send, across, forward)
    return slots


def _adders(costs, links, slots):
    """Three functions: append an operation, a send over a boundary, the sends of a tensor from stage to stage."""

    def add(kind, layer, stage, time, needs, *, tensor="", target=0, first=()):
        slots.append(Slot(kind, layer, stage, time, tensor, target, tuple(needs), tuple(first)))
        return len(slots) - 1

    def send(tensor, layer, stage, target, size, needs):
        if not links:
            return list(needs)
        bandwidth, latency = (values[min(stage, target) - 1] for values in links)
        time = latency + (0 if bandwidth is None else ratio(size, bandwidth))
        return [add("send", layer, stage, time, needs, tensor=tensor, target=target)]

    def across(tensor, layer, cut, source, target, needs):
        step = 1 if target > source else -1
        for k in range(source, target, step):
            needs = send(tensor, layer, k, k + step, int(costs.cut_bytes[cut - 1]), needs)
        return needs

    return add, send, across


def _forward(plan, add, across):
    """F of each layer: {layer: place}."""
    places, needs, before = {}, [], None
    for l, time in enumerate(plan.costs.F.tolist(), 1):
        home = plan.stage_of(l)
        needs = across("a", l - 1, l - 1, before, home, needs) if l > 1 else needs
        places[l], before = add("F", l, home, time, needs), home
        needs = [places[l]]
    return places


def _backward(plan, add, send, across, forward):
    """G, delta or its two parts, and U of each layer, last one first."""
    costs, moved, errors = plan.costs, moved_work(plan), {}  # errors: what the error that a layer passes down needs
    L, G, delta = len(costs), costs.G.tolist(), costs.delta.tolist()
    for l in range(L, 0, -1):
        home = plan.stage_of(l)
        needs = across("delta", l + 1, l, plan.stage_of(l + 1), home, errors[l + 1]) if l < L else []
        needs = [*needs, forward[l]]
        add("U", l, home, 0, [add("G", l, home, G[l - 1], needs)])
        if l in moved:
            target, amount = moved[l]
            share = ratio(amount, delta[l - 1])  # sent in whole bytes: shares would lead to huge denominators of times
            copy = send("W", l, home, target, math.ceil(share * int(costs.moved_bytes[l - 1])), [forward[l]])
            there = add("delta''", l, target, amount, errors[plan.stages[target - 1].start], first=copy)
            back = send("delta''", l, target, home, math.ceil(share * int(costs.input_bytes[l - 1])), [there])
            errors[l] = [add("delta'", l, home, delta[l - 1] - amount, needs), *back]
        elif l > 1 or delta[0]:
            errors[l] = [add("delta", l, home, delta[l - 1], needs)]
