"""A plan told to people: its stages by the names of their layers, what one processor more would bring, and what the
numbers rest on.

`plan_table` and `next_processor` are made from the plan alone, `assumptions` also from the network, where there is one.
"""

from collections import Counter

import pandas as pd

from lpkit.checks import short
from lpkit.display import cell, kilobytes
from lpkit.networks import GEMM_OPERATIONS, Carried
from lpkit.partition import communication
from lpkit.plan_order import is_chain, order_found
from lpkit.plan_options import another

__all__ = ["assumptions", "next_processor", "plan_table", "report_dict"]

MOST_NAMES, MOST_KINDS = 3, 4  # listed before the rest is counted
FREE = ("Input", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Activation")  # forms, or cheap everywhere


def plan_table(plan):
    """One row a stage, for people: layers by name, load, the part of the period it fills, what it gives to the next.

    Returns
    -------
    pandas.DataFrame
        Columns stage; layers, the first and the last by name; count of them; load in the unit of the costs, whole
        cycles; busy, the time of the stage over the period; shifted, the part of delta of named layers that the next
        stage computes; to next, bytes that any pipeline sends over that boundary, both ways; added, those that shifting
        delta sends beside them, weights there and results back (``"full"`` of `communication`; the paper counts the
        weights alone). Where processors differ, after the load also processor and speed, or replicas, and the time of
        the stage for a mini-batch.

    Examples
    --------
    >>> import lpkit as lp
    >>> made = lp.plan(lp.costs("sample4", **lp.READINGS["closest"].choices()), 3)
    >>> plan_table(made)[["layers", "busy", "shifted", "to next"]].values.tolist()[:2]
    [['conv1', '100 %', '28.2 % of conv1', '103 MB'], ['conv2', '100 %', '49.1 % of conv2', '51.4 MB']]
    """
    traffic = communication(plan, "full")
    sends = [(kilobytes(must), kilobytes(more) if more else "0") for must, more in
             zip(traffic.mandatory, traffic.additional)]
    return pd.DataFrame([
        {"stage": stage, "layers": _span(plan, layers), "count": len(layers), "load": _told(plan, load),
         **_processor(plan, stage - 1), "busy": _percent(plan.stage_times[stage - 1], plan.period),
         "shifted": _shifted(plan, stage), "to next": to_next, "added": added}
        for stage, (layers, load, (to_next, added)) in enumerate(zip(plan.stages, plan.loads, [*sends, ("", "")]), 1)
    ])


def _percent(time, period):
    return f"{100 * float(time / period) if period else 0:.3g} %"


def _processor(plan, place):
    """What a row says of the processor of a stage, where they differ, or of its replicas."""
    if not (plan.speeds or plan.replicas):
        return {}
    who = ({"processor": plan.used[place], "speed": float(plan.speeds[place])} if plan.speeds
           else {"replicas": plan.replicas[place]})
    return who | {"time": _told(plan, plan.stage_times[place])}


def _span(plan, layers):
    """Names of the first and the last layer of a stage."""
    if not layers:
        return "(none)"
    names = [short(plan.costs.layers[layer - 1]) for layer in (layers[0], layers[-1])]
    return " - ".join(dict.fromkeys(names))


def _told(plan, value):
    """A time as a column of a table holds it: whole cycles, or a float."""
    return round(value) if plan.costs.unit == "cycles" else float(value)


def _shifted(plan, stage):
    """What part of the delta of which layers goes from a stage to the next."""
    given = [(layer, amount) for layer, source, _, amount in plan.moved if source == stage]
    whole = sum(plan.costs.delta[layer - 1].item() for layer, _ in given)
    if not given:
        return "-"
    return f"{100 * float(sum(amount for _, amount in given) / whole):.3g} % of {_listed(plan, [l for l, _ in given])}"


def _listed(plan, layers):
    names = [short(plan.costs.layers[layer - 1]) for layer in layers[:MOST_NAMES]]
    more = len(layers) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")


def next_processor(plan, graph=None):
    """What one processor more would bring by the same planner: a dict of processors, period, speedup, helps and text.

    A plan of ``optimal_graph`` needs the `LayerGraph` it was made of.

    Returns
    -------
    dict or None
        None for a plan made by hand, and where the limits of the plan do not say what another processor is like.

    Examples
    --------
    >>> import lpkit as lp
    >>> next_processor(lp.plan(lp.costs("vgg11"), 2))["text"]
    'a 3rd processor: period 297,523,904 cycles instead of 385,623,744, speedup 2.55 instead of 1.96'
    >>> next_processor(lp.plan(lp.costs("sample4"), 4))["text"]
    'no further processor helps: each of the 4 layers has one of its own'
    """
    P = plan.processors
    found = {"processors": P + 1, "period": None, "speedup": None, "helps": False}
    if P >= len(plan.costs) and not plan.replicas:
        return found | {"text": f"no further processor helps: each of the {len(plan.costs)} layers has one of its own"}
    if (more := another(plan, P + 1, graph=graph)) is None:
        return None
    found |= {"period": float(more.period), "speedup": float(more.speedup), "helps": more.period < plan.period}
    return found | {"text": _gain(plan, more) if found["helps"] else _no_gain(plan, more)}


def _gain(plan, more):
    better, period = (cell(_told(made, made.period)) for made in (more, plan))
    return (f"a {_ordinal(more.processors)} processor: period {better} {plan.costs.unit} instead of {period}, speedup "
            f"{float(more.speedup):.3g} instead of {float(plan.speedup):.3g}")


def _no_gain(plan, more):
    sure = plan.certificate
    if sure is not None and sure.saturation_period == plan.period:
        period = cell(_told(plan, plan.period))
        return f"no further processor helps: {period} {plan.costs.unit} is the least of any number"
    return f"a {_ordinal(more.processors)} processor alone does not help"


def _ordinal(number):
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10 if number % 100 not in (11, 12, 13) else 0, "th")
    return f"{number}{ending}"


def assumptions(plan, network=None, given=(), *, sends=False):
    """What the numbers of a plan rest on, a sentence each; first `given`, warnings of who read the network.

    `sends` says that a schedule of the plan was given a bandwidth.

    Examples
    --------
    >>> import lpkit as lp
    >>> for sentence in assumptions(lp.plan(lp.costs("vgg11"), 4), lp.network("vgg11")):
    ...     print(sentence)
    memory never stalls the array, and what is no matrix product takes no time (5 Pool)
    delta of conv1_1 is not counted: nothing before it learns
    links take no time in the plan, which was made without a bandwidth
    stages may keep any number of bytes: the plan was made without a memory
    """
    costs, found = plan.costs, list(given)
    found += _of_work(costs, network) + _of_graph(plan) + _of_links(plan, sends)
    if "memory" not in dict(plan.options):
        found.append("stages may keep any number of bytes: the plan was made without a memory")
    return tuple(found)


def _of_work(costs, network):
    """Assumptions on times: of an array, or measured."""
    if costs.unit != "cycles":
        return [f"times are measured, in {costs.unit}, and one backward time a layer is shared between G and delta "
                f"({short(costs.source or 'as the file says', 120)})"]
    found = [f"memory never stalls the array, and what is no matrix product takes no time{_free(network)}"]
    if network is not None and (left := len(network.layers) - len(costs)):
        found.append(f"{left} of {len(network.layers)} layers are left out and take no time either")
    first = [l for l, (cost, reads) in enumerate(zip(costs.delta, costs.F), 1) if not cost and reads]
    if first:
        found.append(f"delta of {_names(costs, first)} is not counted: nothing before it learns")
    return found


def _free(network):
    """Operations that take no time here, counted, the most frequent first."""
    kinds = Counter() if network is None else Counter(
        node.op.kind if isinstance(node.op, Carried) else type(node.op).__name__
        for node in network.nodes
        if not isinstance(node.op, GEMM_OPERATIONS) and getattr(node.op, "missing_macs", 0) == 0)
    free = [f"{count} {kind}" for kind, count in kinds.most_common() if kind not in FREE]
    return f" ({', '.join(free[:MOST_KINDS])}{', ...' * (len(free) > MOST_KINDS)})" if free else ""


def _names(costs, layers):
    listed = ", ".join(short(costs.layers[layer - 1]) for layer in layers[:MOST_NAMES])
    more = len(layers) - MOST_NAMES
    return listed + (f" and {more} more" if more > 0 else "")


def _of_links(plan, sends):
    """What sends take in the plan, where there are any, and how that is not what they take in a schedule."""
    cuts, told = len(plan.ends) > 1, plan.links or "bandwidth" in dict(plan.options)
    if told:
        return ["in the plan both ways of a boundary share one link (a cut takes twice its bytes over the bandwidth), "
                "and shifting delta sends nothing; in a schedule each way has a link of its own, and what shifting "
                "sends takes time too"] * cuts
    what = "links and all-reduces" if plan.replicas else "links"
    way = (" (--bandwidth times the sends of the schedule; to plan with it too, export a plan.json with it and "
           "schedule that)" if sends else "")
    return [f"{what} take no time in the plan, which was made without a bandwidth{way}"] * (cuts or bool(plan.replicas))


def _of_graph(plan):
    """Assumptions on a network that is more than a chain."""
    costs = plan.costs
    if is_chain(costs) or len(plan.ends) == 1:
        return []
    order = "the order of the plan" if plan.planner == "optimal_graph" else "their order"
    found = [f"the network branches: stages are runs of its layers in {order}, and a cut sends every tensor that is "
             "read after it, skips included"]
    sums = sorted({layer for layer, *_ in plan.moved if costs.shared_input[layer - 1]})
    if sums:
        found.append(f"delta of {_names(costs, sums)} is shared though its result is one term of a sum "
                     "(--residual sum_site keeps it)")
    return found


def report_dict(plan, network=None, given=(), *, graph=None, grows=True, sends=False):
    """What a document says beside the plan: ``order`` of the layers, ``next``, None unless it `grows`, ``assumptions``.

    `graph` is the `LayerGraph` behind the plan; without it nothing is known of other orders. `sends` is that of
    `assumptions`.

    Examples
    --------
    >>> import lpkit as lp
    >>> found = report_dict(lp.plan(lp.costs("sample4"), 3))
    >>> found["next"]["helps"], len(found["assumptions"])
    (True, 4)
    """
    return {"order": order_found(plan, graph), "next": next_processor(plan, graph) if grows else None,
            "assumptions": list(assumptions(plan, network, given, sends=sends))}
