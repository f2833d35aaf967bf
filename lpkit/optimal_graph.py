"""The least period of any plan of a graph: over all topological orders of its layers, not over one alone.

A chain of downsets of the graph is a topological order cut into stages; the search runs over all of them and gives back
the best order, cut by `optimal`. A delta moves as there: to the next stage, where that begins with the first reader of
its layer's output, so that the error is complete there.
Source: LayerPipe (ICCAD 2021), section IV, for what may move; PipeDream (SOSP 2019), section 3.1, for downsets.
"""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

from lpkit.chains import check_processors, positive
from lpkit.checks import shown, whole_number
from lpkit.display import counted
from lpkit.downsets import lattice
from lpkit.graph_search import GraphTask, stages_within
from lpkit.layer_graph import LayerGraph, members
from lpkit.optimal import optimal
from lpkit.plans import Certificate, plain
from lpkit.ratios import at_or_above, below
from lpkit.search import denominators, solved, task_of

__all__ = ["is_over_all", "optimal_graph"]

OVER_ALL = "optimal over all"  # how the certificate of such a plan begins
MOST_SEARCHED = 20_000  # downsets
MOST_STAGES = 400_000  # pairs of downsets that a search looks at: about ten seconds


def optimal_graph(graph, processors, *, threshold=None, residual="consumer", bandwidth=None, memory=None,
                  most_states=MOST_SEARCHED):
    """Plan with the least period over all topological orders of the layers of a graph.

    The plan is that of `optimal` for the best order: the given one, if no other is better. Where the graph is too wide
    it is the plan of the given order; the certificate says which.

    Parameters
    ----------
    graph : LayerGraph
        L layers.
    processors : int
        1..L.
    threshold, residual, bandwidth, memory
        As for `optimal`.
    most_states : int
        Downsets up to which all orders are searched.

    Returns
    -------
    Plan
        Its costs are those of the graph in the order of the plan. `verify_optimal` proves it for that order.

    Raises
    ------
    ValueError
        If an argument is out of range, or no plan fits the memory.

    Notes
    -----
    The rule for moving is that of `check_plan`: the next stage begins with the first reader. A stage that reads the
    output first, but begins with another layer, is not sent that delta, although it completes the sum too.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> costs = Costs.from_times([1, 6, 2, 1, 2, 4], 0, 0, ["stem", "a1", "a2", "b1", "b2", "head"], unit="cycles")
    >>> fork = LayerGraph.from_edges(costs, [(1, 2), (2, 3), (1, 4), (4, 5), (3, 6), (5, 6)])
    >>> plan = optimal_graph(fork, 2)
    >>> plan.costs.layers, plan.loads, optimal(fork.costs, 2).loads
    (('stem', 'a1', 'b1', 'a2', 'b2', 'head'), (8, 8), (7, 9))
    >>> plan.certificate.text.split(":")[0]
    'optimal over all 11 downsets'
    """
    if not isinstance(graph, LayerGraph):
        raise ValueError(f"graph is {shown(graph)}; it must be a LayerGraph, from layer_graph or LayerGraph.from_edges")
    processors = check_processors(graph.costs, processors)
    most = whole_number(most_states, "most_states")
    options = {"threshold": threshold, "residual": residual, "bandwidth": bandwidth, "memory": memory}
    search = _Search(graph, options, task_of(graph.costs, **options), lattice(graph.before, most))
    if search.lattice is None:
        return search.in_given_order(processors, f"in the given order, as the graph has more than {most} downsets: ")
    if len(search.lattice) == len(graph) + 1:
        return search.in_given_order(processors, "in the one order that the graph allows: ")
    try:
        return search.plan(processors)
    except OverflowError:
        where = f"in the given order, as the graph has more than {MOST_STAGES} stages: "
        return search.in_given_order(processors, where)


def is_over_all(plan):
    """Whether a plan of `optimal_graph` is the best over all orders, not of the one that was given.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> costs = Costs.from_times([1, 2, 3, 4], 0, 0, unit="cycles")
    >>> fork = LayerGraph.from_edges(costs, [(1, 2), (1, 3), (2, 4), (3, 4)])
    >>> is_over_all(optimal_graph(fork, 2)), is_over_all(optimal_graph(fork, 2, most_states=5))
    (True, False)
    """
    return plan.certificate is not None and plan.certificate.text.startswith(OVER_ALL)


@dataclass(frozen=True, eq=False)
class _Search:
    """A graph with the options of a plan and the `Task` of its given order."""

    graph: object
    options: dict
    given: object
    lattice: object

    @cached_property
    def task(self):
        """The graph in the units of `given`."""
        costs, chain = self.graph.costs, self.given.chain
        work = [b - a for a, b in zip(chain.prefix, chain.prefix[1:])]
        task = GraphTask(self.lattice, self.graph.readers, work, chain.caps, self._links())
        if chain.memory is None:
            return task
        kept = task.total_of((costs.weight_bytes + costs.input_bytes).tolist())
        return replace(task, memory=(kept, chain.memory[1]))

    def _links(self):
        """Time in units of the link at the cut after each downset."""
        if self.options["bandwidth"] is None:
            return None
        rate = positive(self.options["bandwidth"], "bandwidth", "bytes per unit of time")
        sets = self.lattice.sets
        return [Fraction(0) if rate == math.inf or mask in (0, sets[-1])
                else 2 * self.graph.crossing(mask) / rate * self.given.unit for mask in sets]

    def plan(self, processors):
        """The plan over all orders, with its certificate."""
        given = list(range(1, len(self.graph) + 1))
        period, order = self.least(processors, given)
        if order != given:  # of the orders that reach the period one with the fewest stages
            order = _order_of(self.within(period, processors))
        plan = optimal(self.graph.reordered(order), processors, **self.options)
        saturation, _ = self.least(len(self.graph), order)
        stages = len(self.within(saturation, len(self.graph)))
        sure = self._certificate(plan, order, period, saturation, stages)
        return replace(plan, planner="optimal_graph", certificate=sure)

    def in_given_order(self, processors, where):
        """The plan of `optimal` for the given order; its certificate says `where` first."""
        plan = optimal(self.graph.costs, processors, **self.options)
        sure = replace(plan.certificate, text=where + plan.certificate.text)
        return replace(plan, planner="optimal_graph", certificate=sure)

    def least(self, processors, order):
        """Least period in units over all orders, and an order that reaches it: `order` if none is better."""
        most = denominators(self.given, processors)
        high, found = self._start(order, processors)
        lowers = self.task.lowers(high, MOST_STAGES)
        period, failures = at_or_above(self.bound(processors)[0], most), 0
        low = below(period, most)
        while (last := below(high, most)) > low:
            period = min(period, last)
            # A cut whose link is slower than `period` may still belong to a plan that is better than `high`.
            open_cuts = self.task.links and [link < high for link in self.task.links]
            stages = stages_within(self.task, period, processors, lowers, open_cuts)
            if stages:
                found, failures = _order_of(stages), 0
                high = self._of_order(found, processors)
            else:
                low, failures = period, failures + 1
            period = last if failures >= 2 else _between(low, below(high, most), most)
        if found is None:
            raise ValueError(f"no plan of at most {processors} processors keeps every stage within the memory, in any "
                             "order of the layers; give more memory or more processors")
        return high, found

    def within(self, period, processors):
        """The fewest stages that reach a period in units, as of `stages_within`."""
        open_cuts = self.task.links and [link <= period for link in self.task.links]
        return stages_within(self.task, period, processors, self.task.lowers(period, MOST_STAGES), open_cuts)

    def bound(self, processors):
        """A period in units that no plan is below, and the layer (from 0) that says so; None: all of them together."""
        fixed = [work - cap for work, cap in zip(self.task.work, self.task.caps)]
        largest = max(range(len(fixed)), key=fixed.__getitem__)
        average = Fraction(self.task.done[-1], processors)
        return (average, None) if average >= fixed[largest] else (Fraction(fixed[largest]), largest)

    def _of_order(self, order, processors):
        """Least period in units of one order."""
        return solved(task_of(self.graph.reordered(order), **self.options), processors)[0]

    def _start(self, order, processors):
        """Least period of `order`, and `order`; where it fits no memory, a period above all, and None."""
        try:
            return self._of_order(order, processors), order
        except ValueError:
            if self.task.memory is None:
                raise
            return self.task.done[-1] + max(self.task.links or [0]) + Fraction(1), None

    def _certificate(self, plan, order, period, saturation, stages):
        """As of `optimal`, but over all orders."""
        costs, processors = plan.costs, plan.processors
        bound, layer = self.bound(processors)
        binding = (1, len(costs), processors) if layer is None else (order.index(layer + 1) + 1,) * 2 + (1,)
        if period != at_or_above(bound, denominators(self.given, processors)):
            binding, why = None, "an exact search met every smaller period with no order and no cuts"
        elif layer is None:
            why = "that is all work divided evenly"
        else:
            why = f"what cannot leave {self.graph.costs.layers[layer]} is done by one stage"
        units = saturation / self.given.unit
        floor = plan.period if saturation == period else plain(units) if costs.unit == "cycles" else float(units)
        reached = f"from {counted(stages, 'processor')} on nothing helps ({float(floor):.4g} {costs.unit})"
        text = (f"{OVER_ALL} {len(self.lattice)} downsets: no plan of {counted(processors, 'processor')} in any order "
                f"of the layers beats {float(plan.period):.4g} {costs.unit}: {why}; {reached}")
        return Certificate(plan.period, plan.certificate.average_bound, floor, binding, stages, text)


def _between(low, last, most):
    """A period above `low` and up to `last`, near the middle."""
    middle = Fraction(low + last, 2).limit_denominator(most)
    return middle if low < middle < last else last


def _order_of(stages):
    """Layers, numbered from 1, stage by stage; each stage begins with the lowest of those that may begin it."""
    order = []
    for stage, may_begin in stages:
        begin = members(stage & may_begin)[0]
        order += [begin, *(layer for layer in members(stage) if layer != begin)]
    return [layer + 1 for layer in order]
