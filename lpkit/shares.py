"""What each stage passes on, as shares of the deltas of its layers: the moves of a plan.

Source: LayerPipe (ICCAD 2021), section IV, for what may move.
"""

from fractions import Fraction

import numpy as np

from lpkit.chains import split_amount
from lpkit.plans import plain

__all__ = ["movable_work", "moves_of", "snapped"]


def movable_work(task):
    """Work of each layer that may move, in the costs' own numbers.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> from lpkit.search import task_of
    >>> movable_work(task_of(Costs.from_times([1, 1, 1], 0, [0, 4, 2], unit="cycles")))
    [0, 4, 0]
    """
    return np.where(task.may, task.costs.delta, 0).tolist()


def moves_of(task, ends, shifts):
    """Moved work as `Plan` records it, of what each stage passes on: work, or with tiles the units of their chain.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> from lpkit.search import task_of
    >>> moves_of(task_of(Costs.from_times([1, 1, 1], 0, [0, 4, 2], unit="cycles")), (2, 3), [3])
    ((2, 1, 2, 3),)
    """
    stages = [range(a + 1, b + 1) for a, b in zip((0, *ends), ends)]
    caps = movable_work(task) if task.tiles is None else task.chain.caps
    moves = []
    for k, (stage, shift) in enumerate(zip(stages, shifts), 1):
        shares = split_amount(task.costs, caps, task.tiles, stage, shift) if shift else {}
        moves += [(layer, k, k + 1, _worth(task, layer, shares[layer])) for layer in sorted(shares)]
    return tuple(moves)


def _worth(task, layer, share):
    """Work, in the unit of the costs, of a share of the delta of `layer`."""
    if task.tiles is None:
        return plain(share)
    tiles, whole = task.tiles[layer - 1], task.chain.caps[layer - 1]
    return plain(task.costs.delta[layer - 1].item() * Fraction(share * tiles // whole, tiles))


def snapped(shift, limit):
    """`shift` within 0 and `limit`; a float that misses one of them by its rounding alone is put on it.

    Examples
    --------
    >>> snapped(1e-15, 2.0), snapped(2.0000000000000004, 2.0), snapped(1.0, 2.0)
    (0, 2.0, 1.0)
    """
    dust = 1e-12 * limit if isinstance(shift, float) else 0
    return 0 if shift <= dust else limit if shift >= limit - dust else shift
