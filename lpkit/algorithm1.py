"""The greedy partition of the paper, as printed and with its gaps closed.

The steps follow the prose of section IV; the line numbers beside them are those the prose names (1, 4, 6, 8, 9, 16,
26-30, 34). The listing itself was not at hand, so lines it does not name carry none.
Source: LayerPipe (ICCAD 2021), Algorithm 1.
"""

import math

import numpy as np

from lpkit.chains import check_processors, movable, python_number
from lpkit.checks import choice, shown
from lpkit.plans import Plan, check_plan, plain, ratio

__all__ = ["algorithm1"]

TOLERANCE = 1e-9  # relative, of a comparison of float times: T_tot / N_p must be reachable where the balance is perfect
GRID = 10**9  # targets for whole costs are multiples of T_tot / (N_p GRID), so that amounts stay short fractions
MOST_RESTARTS = 100_000


def algorithm1(costs, processors, *, mode="paper", alpha=1.01, threshold=None, residual="consumer"):
    """Plan of the paper's Algorithm 1: fill processors from the last layer on, relax the target until they suffice.

    ``"paper"`` takes the printed steps literally. They may put part of a delta on a processor that holds neither its
    layer nor the next, and a fixed part longer than the target on any processor; `Plan.notes` tells of both.
    ``"strict"`` refuses such steps and relaxes the target instead, so that no load exceeds the target.

    Parameters
    ----------
    costs : Costs
    processors : int
        N_p, 1 to the number of layers.
    mode : {"paper", "strict"}
    alpha : float
        Factor above 1 by which the target grows at each restart; the paper gives no value.
    threshold : number of bytes, optional
        A delta whose layer has more bytes of weights does not move (line 4).
    residual : {"consumer", "sum_site"}
        As in `optimal`. Only a delta whose layer feeds the next layer first moves at all.

    Returns
    -------
    Plan
        The last note gives the target and the number of restarts. The period may exceed the target in ``"paper"``.

    Raises
    ------
    ValueError
        If an argument is out of range, or alpha so near 1 that too many restarts would be needed.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> chain = Costs.from_times(1, 0, [0, 3, 0, 1], unit="cycles")
    >>> algorithm1(chain, 3, mode="strict").period > 3  # the least period is 3
    True
    >>> algorithm1(chain, 2, alpha=1.5).loads
    (4, 4)
    """
    processors = check_processors(costs, processors)
    place = {"paper": _literal, "strict": _strict}[choice(mode, "mode", ("paper", "strict"))]
    growth = _growth(processors, alpha)
    most = _most_restarts(processors, alpha, growth)
    # (line 1) All layers. The critical loops order the operations within a stage; they do not enter the partition.
    # (line 4) Delta may move where its communication is below the threshold, and only from layer l to layer l+1.
    may = movable(costs, threshold, residual) & (costs.first_consumer == np.arange(2, len(costs) + 2))
    scale = processors * GRID if costs.unit == "cycles" else 1  # in these units every target is a whole number
    flexible = [scale * d for d in np.where(may, costs.delta, 0).tolist()]
    fixed = [scale * f for f in np.where(may, costs.F + costs.G, costs.work).tolist()]
    # (line 6) T_tot, all work.
    for restart in range(most + 1):
        # (line 8) T_p = T_tot / N_p; (line 34) alpha T_p at each restart.
        target, slack = _target(costs, processors, growth, restart)
        placed = place(flexible, fixed, target, slack, processors)
        if placed:
            break
    target = ratio(target, scale)
    plan = _plan(costs, processors, scale, *placed)
    options = (("mode", mode), ("alpha", alpha), ("threshold", threshold), ("residual", residual))
    notes = (*check_plan(plan), *_over(plan, target, slack), _summary(target, restart, costs.unit))
    return Plan(f"algorithm1 ({mode})", costs, processors, plan.ends, plan.moved, notes, options=options)


def _growth(processors, alpha):
    """Logarithm of alpha; of what takes one restart, whatever is larger."""
    number = python_number(alpha)
    if number is None or not 1 < number < math.inf:
        raise ValueError(f"alpha is {shown(alpha)}; it must be a number above 1, such as 1.01")
    return math.log(min(number, 2 * processors))


def _most_restarts(processors, alpha, growth):
    """Restarts after which one processor holds everything."""
    if processors == 1:
        return 1
    most = math.ceil(math.log(processors) / growth + 1) if growth else math.inf
    if most > MOST_RESTARTS:
        often = f"up to {most} times" if growth else "without end"
        raise ValueError(f"alpha is {shown(alpha)}; the target would be relaxed {often}; give a larger alpha, "
                         f"such as {1 + 2 * math.log(processors) / MOST_RESTARTS:.6f}")
    return most


def _target(costs, processors, growth, restart):
    """T_p after so many restarts (cycles: times N_p GRID), and the slack of a comparison with it; never above T_tot."""
    relaxed = min(math.exp(restart * growth), 2 * processors)
    if costs.unit == "cycles":
        return costs.total * min(math.ceil(relaxed * GRID), processors * GRID), 0
    target = min(costs.total / processors * relaxed, costs.total)
    return target, TOLERANCE * target


def _literal(flexible, fixed, target, slack, processors):
    """The printed loop: where each fixed part and each part of a delta goes, by processor from the last (0) down."""
    homes, parts, p, load = [0] * len(fixed), [], 0, 0
    # (line 9) All layers, in reverse.
    for layer in range(len(fixed) - 1, -1, -1):
        idle = target - load
        if flexible[layer] <= idle + slack:
            # (line 16) The whole delta fits.
            parts.append((layer, p, flexible[layer]))
            load += flexible[layer]
        else:
            # Split: delta'' fills the processor, delta' starts the next.
            kept = max(idle, 0)
            parts += [(layer, p, kept), (layer, p + 1, flexible[layer] - kept)]
            p, load = p + 1, flexible[layer] - kept
        # (lines 26-30) The fixed part. The text compares T_flex here; only T_fix makes sense.
        if fixed[layer] > target - load + slack:
            p, load = p + 1, 0
        homes[layer] = p
        load += fixed[layer]
    # (line 34) Too many processors: relax and restart.
    return (homes, parts, p + 1) if p < processors else None


def _strict(flexible, fixed, target, slack, processors):
    """As `_literal`, but delta stays on the stage of its layer or the one of the next layer, and every load fits."""
    homes, parts, p, load = [0] * len(fixed), [], 0, 0
    for layer in range(len(fixed) - 1, -1, -1):
        idle = target - load + slack
        if flexible[layer] + fixed[layer] <= idle:
            parts.append((layer, p, flexible[layer]))
        elif layer == len(fixed) - 1:
            return None
        else:
            moved = max(min(flexible[layer], target - load), 0)
            parts += [(layer, p, moved), (layer, p + 1, flexible[layer] - moved)]
            p, load = p + 1, -moved
            if flexible[layer] - moved + fixed[layer] > target + slack or p >= processors:
                return None
        homes[layer] = p
        load += flexible[layer] + fixed[layer]
    return homes, parts, p + 1


def _plan(costs, processors, scale, homes, parts, used):
    """Placements by processor from the last as a `Plan` with stages from the input."""
    ends = tuple(sum(home >= used - k for home in homes) for k in range(1, used + 1))
    moved = [(layer + 1, used - homes[layer], used - p, plain(ratio(amount, scale))) for layer, p, amount in parts
             if p != homes[layer] and amount > 0]
    return Plan("algorithm1", costs, processors, ends, tuple(sorted(moved)))


def _over(plan, target, slack):
    """A note for each stage that is longer than the target."""
    return [f"stage {k} takes {_short(load)} {plan.costs.unit}, more than the target {_short(target)}"
            for k, load in enumerate(plan.loads, 1) if load > target + slack]


def _summary(target, restarts, unit):
    return f"target {_short(target)} {unit} after {restarts} restarts"


def _short(number):
    return f"{float(number):.6g}"
