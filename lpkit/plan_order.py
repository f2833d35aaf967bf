"""Which order of the layers a plan searched, and what another one would bring, told to people.

A plan of `lpkit.optimal` cuts the layers in the order in which they were read; where the network branches, there are
others (`lpkit.optimal_graph`).
"""

from lpkit.display import cell
from lpkit.downsets import lattice
from lpkit.optimal_graph import MOST_SEARCHED, is_over_all
from lpkit.plan_options import LIMITS, another, taken

__all__ = ["MOST_STATES", "has_orders", "is_chain", "order_found"]

MOST_STATES = 1000  # downsets that are searched beside a plan that did not ask for it: a second or two


def has_orders(graph):
    """Whether a `LayerGraph` has a second topological order: two layers beside each other may change places.

    Examples
    --------
    >>> import lpkit as lp
    >>> [has_orders(lp.layer_graph(lp.network(name), lp.costs(name))) for name in ("vgg16", "resnet50", "unet")]
    [False, True, False]
    """
    return any(not before >> layer & 1 for layer, before in enumerate(graph.before[1:]))


def order_found(plan, graph):
    """What a plan of `optimal` or `optimal_graph` knows of other orders of the layers of its graph.

    Returns
    -------
    dict or None
        ``searched``, "all" orders or "one"; ``downsets`` that were searched, None where there is one order; ``period``,
        the least over all orders, None where it is not known; ``helps``, whether it is below that of the given order;
        ``text``. None for other planners, without a graph, and for a chain.

    Examples
    --------
    >>> import lpkit as lp
    >>> found = lp.costs("resnet50")
    >>> order_found(lp.plan(found, 8), lp.layer_graph(lp.network("resnet50"), found))["text"]
    'no other order of the layers helps (all 67 downsets searched)'
    """
    planner = plan.planner.split()[0]
    if graph is None or planner not in ("optimal", "optimal_graph") or is_chain(graph.costs):
        return None
    if not has_orders(graph):
        return _one("the graph allows no other order of the layers")
    return _of_best(plan, graph) if planner == "optimal_graph" else _of_given(plan, graph)


def is_chain(costs):
    """Whether every layer reads the output of the one before it, and nothing else does.

    Examples
    --------
    >>> from lpkit.costs import costs
    >>> is_chain(costs("vgg16")), is_chain(costs("resnet18"))
    (True, False)
    """
    return not costs.shared_input.any() and bool((costs.first_consumer[:-1] == range(2, len(costs) + 1)).all())


def _one(text):
    return {"searched": "one", "downsets": None, "period": None, "helps": None, "text": text}


def _all(graph, best, given):
    """What a search of all orders found: `best`, against the plan of the given order."""
    sets = len(lattice(graph.before, MOST_SEARCHED))
    found = {"searched": "all", "downsets": sets, "period": float(best.period), "helps": best.period < given.period}
    return found, f"(all {sets:,} downsets searched)"


def _of_best(plan, graph):
    """What is said of a plan of `optimal_graph`."""
    if not is_over_all(plan):
        return _one("stages are runs of the layers in their given order, and other orders were not searched")
    given = another(plan, planner="optimal", graph=graph)
    if given is None:
        return _one("stages are runs of the layers in the order of the plan; in their given one there is no plan")
    found, searched = _all(graph, plan, given)
    if not found["helps"]:
        return found | {"text": f"no other order of the layers is better than the given one {searched}"}
    return found | {"text": "stages are runs of the layers in the best of all orders; their given one brings period "
                            f"{_period(given)} instead of {_period(plan)} {searched}"}


def _of_given(plan, graph):
    """What is said of a plan of `optimal`."""
    if missing := [name for name, _ in plan.options if name in LIMITS and name not in taken("optimal_graph")]:
        return _one("stages are runs of the layers in their given order; the planner that searches others "
                    f"(optimal_graph) does not know {', '.join(missing)}")
    if lattice(graph.before, MOST_STATES) is None:
        return _one(f"the graph has more than {MOST_STATES:,} downsets, so other orders were not searched (--planner "
                    f"optimal_graph searches up to {MOST_SEARCHED:,})")
    best = another(plan, planner="optimal_graph", graph=graph)
    if best is None or not is_over_all(best):
        return _one("the graph is too wide, so other orders were not searched")
    found, searched = _all(graph, best, plan)
    if not found["helps"]:
        return found | {"text": f"no other order of the layers helps {searched}"}
    return found | {"text": "stages are runs of the layers in their given order; another order brings period "
                            f"{_period(best)} instead of {_period(plan)} (--planner optimal_graph)"}


def _period(plan):
    """The period for people: whole cycles, or four digits of what was measured."""
    return cell(round(plan.period) if plan.costs.unit == "cycles" else float(plan.period))
