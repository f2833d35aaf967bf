"""Minimum-cost flow on integers: HiGHS, which comes with scipy, or LEMON's network simplex; the answer is checked.

The dual of a linear programme whose constraints are all of the form r(a) - r(b) <= k is such a flow, with an arc a -> b
of cost k for each constraint; the potentials of the flow are the solution. Both ends are integers, so whatever numbers
a solver works with, rounding and one pass of integer arithmetic show whether the answer is optimal.
Source: Ahuja, Magnanti & Orlin, "Network Flows" (1993), chapters 9 and 11; Kovács, "Minimum-cost flow algorithms"
(2015), for LEMON.
"""

import numpy as np

from lpkit.checks import choice

__all__ = ["SOLVERS", "min_cost_flow"]

LARGEST = {"highs": 2**50, "lemon": 2**60}  # floats hold whole numbers below 2**53


def min_cost_flow(supply, tails, heads, costs, *, solver="highs"):
    """Cheapest flow that takes `supply` from where it is positive to where it is negative, along arcs without limits.

    Parameters
    ----------
    supply : int64 array (nodes,)
        Adds up to 0.
    tails, heads, costs : int64 arrays (arcs,)
        Costs of one unit, 0 or more.
    solver : {"highs", "lemon"}

    Returns
    -------
    flow : int64 array (arcs,)
    potentials : int64 array (nodes,)
        With ``potentials[tail] - potentials[head] <= cost`` on each arc, and equality where there is flow.

    Raises
    ------
    ValueError
        If `solver` is unknown, not installed or not exact on these numbers, or the numbers are too large for it.

    Examples
    --------
    >>> arcs = np.array([0, 0, 1]), np.array([1, 2, 2]), np.array([1, 3, 1])
    >>> flow, potentials = min_cost_flow(np.array([2, 0, -2]), *arcs)
    >>> flow.tolist(), int(potentials[0] - potentials[2])
    ([2, 0, 2], 2)
    """
    choice(solver, "solver", SOLVERS)
    largest = max(sum(np.abs(supply).tolist()), int(costs.max(initial=0)) * (len(supply) + 1))
    if largest >= LARGEST[solver]:
        raise ValueError(f"the weights or delays reach {largest}, too large for solver {solver!r}; scale them down")
    if not len(tails):
        return np.zeros(0, dtype=np.int64), np.zeros(len(supply), dtype=np.int64)
    flow, potentials = SOLVERS[solver](supply, tails, heads, costs)
    if not _is_optimal(supply, tails, heads, costs, flow, potentials):
        others = " or ".join(repr(name) for name in SOLVERS if name != solver)
        raise ValueError(f"solver {solver!r} found no exact optimum of these numbers; try solver={others}")
    return flow, potentials


def _is_optimal(supply, tails, heads, costs, flow, potentials):
    """Whether the flow is one, the potentials allow every arc, and only tight arcs carry flow."""
    slack = costs - potentials[tails] + potentials[heads]
    net = np.zeros(len(supply), dtype=np.int64)
    np.add.at(net, tails, flow)
    np.subtract.at(net, heads, flow)
    return bool((net == supply).all() and (flow >= 0).all() and (slack >= 0).all() and not slack[flow > 0].any())


def _by_highs(supply, tails, heads, costs):
    """By the dual simplex, which starts optimal but unbalanced; presolving a network only slows it, up to tenfold."""
    arcs, ones = np.arange(len(tails)), np.ones(len(tails))
    ends = np.concatenate([tails, heads]), np.concatenate([arcs, arcs])
    from scipy.optimize import linprog  # takes longer to import than all of lpkit
    from scipy.sparse import csc_array

    balance = csc_array((np.concatenate([ones, -ones]), ends), shape=(len(supply), len(tails)))
    found = linprog(costs, A_eq=balance, b_eq=supply, bounds=(0, None), method="highs-ds", options={"presolve": False})
    if found.x is None:
        raise ValueError(f"HiGHS found no flow: {found.message}")
    return np.rint(found.x).astype(np.int64), np.rint(found.eqlin.marginals).astype(np.int64)


def _by_lemon(supply, tails, heads, costs):
    try:
        from pylmcf import Graph
    except ImportError:
        raise ValueError(
            "solver 'lemon' needs pylmcf, which is not installed; "
            "pip install '.[solvers]' in the clone of lpkit, or use solver='highs'"
        ) from None
    order = np.lexsort((heads, tails))
    graph = Graph(len(supply), tails[order], heads[order])
    graph.set_node_supply(supply)
    graph.set_edge_costs(costs[order])
    graph.set_edge_capacities(np.full(len(tails), int(np.abs(supply).sum()) + 1))
    graph.solve()
    flow = np.empty(len(tails), dtype=np.int64)
    flow[order] = graph.result()
    return flow, -graph.potentials()


SOLVERS = {"highs": _by_highs, "lemon": _by_lemon}
