"""Interleaved 1F1B: each processor runs several stages, which lie as far apart as there are processors.

Source: Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM (SC 2021),
section 2.2.2 and Fig. 4.
"""

from dataclasses import replace

from lpkit.block_orders import in_turn
from lpkit.checks import whole_number
from lpkit.event_engine import timeline_of
from lpkit.schedule_input import counted

__all__ = ["interleaved"]


def interleaved(plan, batches=1, *, processors=None, micro_batches=4, delta_first=False, bandwidth=None, latency=0):
    """1F1B with a flush where each processor runs several stages: stage k is on processor (k - 1) mod processors + 1.

    Fill and drain take a v-th of the time for v stages a processor, for v times as many sends.

    Parameters
    ----------
    plan : Plan
        Of ``v * processors`` stages.
    batches : int
        Mini-batches.
    processors : int, optional
        As many as stages by default, which is `one_f_one_b`: nothing is interleaved without it.
    micro_batches : int
        Of each mini-batch; a multiple of `processors` where a processor has several stages.
    delta_first : bool
        As in `one_f_one_b`.
    bandwidth, latency
        As for `layerpipe`. All that one processor sends to another shares a link; a single processor sends nothing.

    Raises
    ------
    ValueError
        As `gpipe`; or if the stages or the micro-batches are not a multiple of the processors.

    References
    ----------
    Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM (SC 2021),
    section 2.2.2 and Fig. 4.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> from lpkit.plans import Plan
    >>> plan = Plan("by hand", Costs.from_times([1] * 8, 1, 1, unit="cycles"), 8, ends=tuple(range(1, 9)))
    >>> line = interleaved(plan, processors=4, micro_batches=8)
    >>> line.processors, line.makespan, line.bubble_share
    ((1, 2, 3, 4, 1, 2, 3, 4), 57, Fraction(3, 19))
    """
    batches, M = counted(plan, batches, micro_batches)
    P, v = _split(plan, processors, M)
    order = [_order(p, P, v, M, ("delta", "G") if delta_first else "B") for p in range(1, P + 1)]
    blocks = [[block for n in range(batches)
               for block in (*((k, what, n * M + m) for k, what, m in order[p - 1]),
                             *((k, "U", n) for k in range(p, P * v + 1, P)))]
              for p in range(1, P + 1)]  # fmt: skip
    own = tuple(range(1, P + 1)) * v
    made = timeline_of(plan, "interleaved", blocks, batches, M, bandwidth, latency, processors=own)
    return replace(made, fills_with=1)


def _split(plan, processors, micro_batches):
    """The processors, and how many stages each has."""
    stages = len(plan.ends)
    P = stages if processors is None else whole_number(processors, "processors", most=stages)
    if stages % P:
        raise ValueError(f"the plan has {stages} stages for {P} processors; interleaving needs a multiple of {P}")
    if stages > P and micro_batches % P:
        raise ValueError(f"micro_batches is {micro_batches}; interleaving needs a multiple of the {P} processors")
    return P, stages // P


def _order(place, processors, chunks, count, backward):
    """Blocks (stage, block, micro-batch) of processor `place`, which holds every `processors`-th stage.

    It takes `processors` micro-batches through one of its stages, then the same ones through the next, and groups
    follow each other; backward the same from its last stage. It lets 2 (processors - place) + (chunks - 1) processors
    of these steps pass before its first backward, then runs one forward and one backward in turn. A single chunk needs
    only processors - place of them: 1F1B.
    """
    ahead = processors - place + 1 if chunks == 1 else 2 * (processors - place) + (chunks - 1) * processors + 1
    blocks = []
    for what, n in in_turn(count * chunks, ahead, backward):
        chunk, micro = n // processors % chunks, n // (processors * chunks) * processors + n % processors
        stage = place + processors * (chunk if what == "F" else chunks - 1 - chunk)
        blocks.append((stage, what, micro))
    return blocks
