"""Priority by critical loop: which operation of a plan can wait, and how long, before the iteration bound is missed.

Every operation lies on loops of the data-flow graph. The tightest of them leaves it T x delays - time to spare, with
T the iteration bound, and none on a critical loop. Operations are ranked by that slack, least first, and those on no
loop come last. In the graph of sequential training the loop U_l, F_l, ..., F_L, delta_L, ..., delta_(l+1), G_l decides
for layer l: it takes all F from layer l on, all delta after it, and G_l. So all F, all delta and G_1 are critical, and
no other G, as long as G_l is shorter than G_1 and the F and delta that layer 1's loop has on top. Where that fails,
layer l's loop is critical, and F of the layers before l, delta up to l and G_1 have time to spare.
Source: Wang & Parhi, "High-level DSP synthesis using concurrent transformations, scheduling, and allocation" (MARS),
IEEE Trans. CAD 14 (1995); LayerPipe (ICCAD 2021), section IV and Fig. 6.
"""

import math
from fractions import Fraction

import pandas as pd

from lpkit.backprop import backprop_dfg, operation
from lpkit.checks import choice, shown
from lpkit.costs import Costs
from lpkit.derivation import split_delta
from lpkit.moves import delay_gradients
from lpkit.plans import Plan, ratio
from lpkit.schedule_input import runnable
from lpkit.slack import slack
from lpkit.timeline import moved_work

__all__ = ["critical_gradients", "operation_graph", "priorities"]

GRAPHS = ("sequential", "delayed")
FINEST = 2**46  # units of all nodes together that leave room for delays in the 2**53 of exact slack
GRAIN = 2**32  # floats become whole multiples of the total work over this


def priorities(plan_or_costs, *, graph="sequential"):
    """Slack to the iteration bound and rank of every F, delta and G: least slack first.

    Parameters
    ----------
    plan_or_costs : Plan or Costs
        Moved work of a plan is an operation of its own, delta''.
    graph : {"sequential", "delayed"}
        ``"delayed"``: with 2 S(l) more delays on each gradient, which pipelines the stages of the plan. Retiming moves
        delays and leaves those of each loop alone, so that slack is the same before and after it.

    Returns
    -------
    pandas.DataFrame
        Columns kind, layer, stage (None for Costs), time, slack (None on no loop), critical and rank; equal slack has
        equal rank. Rows by rank, then in the order of one training step. Slack is exact, or a float where costs are.

    Raises
    ------
    ValueError
        If it is neither a plan that can be run nor costs, the graph is unknown, or is to be delayed without a plan.

    Notes
    -----
    A shortest path for each operation; loops are not listed, as a chain of L layers has 3**L - 1.

    References
    ----------
    LayerPipe, section IV, "a schedule that prioritizes computations along the critical loop".

    Examples
    --------
    >>> table = priorities(Costs.from_times([2, 2], 3, [0, 2], unit="cycles"))
    >>> print(table.drop(columns="stage").to_string(index=False))
     kind  layer time slack  critical  rank
        F      1    2     0      True     1
        F      2    2     0      True     1
    delta      2    2     0      True     1
        G      1    3     0      True     1
        G      2    3     4     False     2
    """
    dfg, unit = operation_graph(plan_or_costs, graph=graph)
    spare = slack(dfg)
    costs, moved, stage_of = _parts(plan_or_costs)
    rows = []
    for name in _step_order(len(costs), moved, costs.delta[0].item() > 0):
        kind, layer = operation(name)
        left = spare.get(name)
        if left is not None:
            left = left * unit
        stage = moved[layer][0] if kind == "delta''" else stage_of(layer)
        rows.append((kind, layer, stage, _time(costs, moved, kind, layer), left, left == 0))
    ranks = {left: rank for rank, left in enumerate(sorted({row[4] for row in rows} - {None}), 1)}
    rows = [(*row, ranks.get(row[4], len(ranks) + 1)) for row in rows]
    rows.sort(key=lambda row: row[-1])
    frame = pd.DataFrame(rows, columns=["kind", "layer", "stage", "time", "slack", "critical", "rank"], dtype=object)
    return frame.astype({"layer": int, "critical": bool, "rank": int})


def operation_graph(plan_or_costs, *, graph="sequential"):
    """The data-flow graph of a plan with its times, moved deltas split in two, and the unit of these times.

    Returns
    -------
    dfg : DFG
    unit : int or float
        1 where the times are exact; floats are rounded to whole multiples of a unit, 2**-32 of all work. Fractions of
        moved work that are too fine to be held exactly are rounded to whole units.

    Raises
    ------
    ValueError
        As `priorities`.

    Examples
    --------
    >>> chain = Costs.from_times([2, 2], 2, [0, 4], unit="cycles")
    >>> dfg, unit = operation_graph(Plan("by hand", chain, 1, ends=(2,)))
    >>> dfg.times["delta2"], unit, [len(operation_graph(chain)[0].nodes)]
    (4, 1, [10])
    """
    costs, moved, stage_of = _parts(plan_or_costs)
    if choice(graph, "graph", GRAPHS) == "delayed" and isinstance(plan_or_costs, Costs):
        raise ValueError("graph 'delayed' depends on the stages; give a Plan, or take graph 'sequential' for costs")
    times, unit = _whole(costs)
    dfg = backprop_dfg(len(costs), times=times)
    if graph == "delayed":
        last = len(plan_or_costs.ends)
        dfg = delay_gradients(dfg, {l: 2 * (last - stage_of(l)) for l in range(1, len(costs) + 1)})
    for layer, amount in _moved_units(moved, unit, sum(map(sum, times.values())) * len(dfg.nodes)).items():
        if layer > 1:  # a delta of layer 1 is for nobody, and in no graph of training
            dfg = split_delta(dfg, layer, ratio(amount, times["delta"][layer - 1]), moved=0)
    return dfg, unit


def critical_gradients(costs):
    """Layers whose G is on a critical loop of sequential training, in closed form; (1,) is what LayerPipe says.

    G_l is critical where sum(F_k, k >= l) + sum(delta_k, k > l) + G_l is largest. Other layers than the first are, if
    G_l >= G_1 + sum(F_k + delta_(k+1), k < l) for one of them; the first alone is not, if that is so strictly.

    Raises
    ------
    ValueError
        If `costs` are none.

    References
    ----------
    LayerPipe, section IV, "G does not appear in the critical loop except in the first layer".

    Examples
    --------
    >>> critical_gradients(Costs.from_times([2, 2], [3, 6], [0, 2], unit="cycles"))
    (1,)
    >>> critical_gradients(Costs.from_times([2, 2], [3, 7], [0, 2], unit="cycles"))
    (1, 2)
    >>> critical_gradients(Costs.from_times([2, 2], [3, 8], [0, 2], unit="cycles"))
    (2,)
    """
    if not isinstance(costs, Costs):
        raise ValueError(f"costs is {shown(costs)}; give Costs, as lpkit.costs.costs returns them")
    times, _ = _whole(costs)
    F, G, delta = (times[kind] for kind in ("F", "G", "delta"))
    loops, after = [], 0  # after: F and delta of the layers above, one delta of which is the layer's own
    for l in range(len(costs), 0, -1):
        loops.append(after + F[l - 1] + G[l - 1])
        after += F[l - 1] + delta[l - 1]
    longest = max(loops)
    return tuple(l for l, time in enumerate(reversed(loops), 1) if time == longest)


def _parts(plan_or_costs):
    """Costs, {layer: (stage, amount moved)} and the stage of each layer."""
    if isinstance(plan_or_costs, Costs):
        return plan_or_costs, {}, lambda layer: None
    if not isinstance(plan_or_costs, Plan):
        raise ValueError(f"there are no operations in {shown(plan_or_costs)}; give a Plan or Costs")
    return runnable(plan_or_costs).costs, moved_work(plan_or_costs), plan_or_costs.stage_of


def _whole(costs):
    """Times of F, G and delta as Python numbers that a graph takes, and their unit."""
    columns = {"F": costs.F.tolist(), "G": costs.G.tolist(), "delta": costs.delta.tolist()}
    if costs.F.dtype.kind != "f":
        return columns, 1
    unit = float(costs.total) / GRAIN or 1.0
    return {kind: [round(time / unit) for time in column] for kind, column in columns.items()}, unit


def _moved_units(moved, unit, size):
    """{layer: amount moved in units}: as they are, or whole where they are floats or too fine for `size`."""
    amounts = {layer: amount for layer, (_, amount) in moved.items()}
    exact = unit == 1 and math.lcm(*(Fraction(a).denominator for a in amounts.values())) * size < FINEST
    return amounts if exact else {layer: round(amount / unit) for layer, amount in amounts.items()}


def _step_order(layers, moved, first_delta):
    """Names of the operations in the order of one training step: forward, then layer by layer back."""
    names = [f"F{l}" for l in range(1, layers + 1)]
    for l in range(layers, 0, -1):
        deltas = [f"delta{l}'", f"delta{l}''"] if l in moved else [f"delta{l}"] if l > 1 or first_delta else []
        names += [*deltas, f"G{l}"]
    return names


def _time(costs, moved, kind, layer):
    """Time of an operation in the unit of the costs."""
    if kind == "delta''":
        return moved[layer][1]
    whole = getattr(costs, kind.rstrip("'"))[layer - 1].item()
    return whole - moved[layer][1] if kind == "delta'" else whole
