"""What an explorer says beside the picture: the numbers, why no plan is better, and what the view shows."""

import re
from dataclasses import replace
from functools import lru_cache

from lpkit.display import engineering, kilobytes
from lpkit.explore_state import costs_of, is_measured, layers_of, plan_of, timeline_of
from lpkit.explore_tables import cases_of, layers_drawn, table_of
from lpkit.plots import PLANNER_NAMES
from lpkit.products import gemms

__all__ = ["described", "largest_product", "text_of", "timeline_words"]

SPATIAL = {"ws": ("K", "N"), "os": ("M", "N"), "is": ("K", "M")}  # what of a product lies along rows and columns


def described(state):
    """The lines on one state: plan, comparison with PipeDream, certificate, what the array and the links do.

    Examples
    --------
    >>> from lpkit.explore_state import State
    >>> print("\\n".join(described(State("sample4", processors=3))))  # doctest: +ELLIPSIS
    sample4 on 32x32 ws, batch 32, 3 processors, LayerPipe (optimal): period 1.395e7 cycles, speedup 2.570 of 3
    against PipeDream (period 1.689e7 cycles): period ratio 1.210, time reduction 17.4 %, throughput gain 21.0 %
    optimal: no plan of 3 processors beats 1.395e7 cycles: ...
    loads: P1 1.395e7, P2 1.075e7, P3 1.116e7
    moved: P2 does 100 % of the delta of conv2
    """
    plan = plan_of(state)
    unit = plan.costs.unit
    head = (f"{plan.costs.name}, {_count(state.processors, 'processor')}, {PLANNER_NAMES[state.planner]}: "
            f"period {engineering(plan.period)} {unit}, speedup {float(plan.speedup):.3f} of "
            f"{state.processors}")  # fmt: skip
    return [head, *_against(plan, plan_of(replace(state, planner="pipedream"))), _certificate(state, plan),
            *_unused(state), *VIEWS[state.view](state)]  # fmt: skip


def _against(plan, old):
    """The three columns that the papers mix up, where PipeDream's plan is another."""
    if plan.planner == "pipedream" or not plan.period:
        return []
    ratio = float(old.period) / float(plan.period)
    return [f"against PipeDream (period {engineering(old.period)} {plan.costs.unit}): {_columns(ratio)}"]


def _certificate(state, plan):
    """Why no plan is better; for another planner's, by how much the optimum is."""
    best = plan_of(replace(state, planner="optimal"))
    above = float(plan.period) / float(best.period) - 1 if best.period else 0.0
    if plan.certificate is not None or above < 5e-7:
        return _styled(best.certificate.text)
    return f"{100 * above:.3g} % above the optimum; {_styled(best.certificate.text)}"


def _styled(text):
    """A certificate with its large numbers written as the others are.

    Examples
    --------
    >>> _styled("no plan beats 4.1e+08 cycles")
    'no plan beats 4.100e8 cycles'
    """
    return re.sub(r"\b\d(\.\d+)?e\+\d+", lambda found: engineering(float(found[0])), text)


def _unused(state):
    """Where no product is as large as the array."""
    if is_measured(state):
        return ["the times are measured: array, dataflow, batch and the forms of delta and G do not change them"]
    rows, columns = largest_product(layers_of(state), state.dataflow, state.delta, state.G)
    said = [
        f"no product has more than {most} {what}, so {size - most} of the {size} {what} never work"
        for most, size, what in ((rows, state.rows, "rows"), (columns, state.columns, "columns"))
        if most < size
    ]
    return ["the array is larger than needed: " + "; ".join(said)] if said else []


@lru_cache(maxsize=256)
def largest_product(layers, dataflow, delta, G):
    """The most rows and the most columns of an array that any product of the layers can fill.

    Examples
    --------
    >>> from lpkit.networks import sample4
    >>> largest_product(tuple((layer, 32) for layer in sample4().layers), "ws", "col2im", "a")
    (401408, 1152)
    """
    sizes = [tuple(int(getattr(product, side)) for side in SPATIAL[dataflow])
             for layer, batch in layers for op in ("F", "G", "delta")
             for product in gemms(layer, op, batch=batch, delta=delta, G=G)]  # fmt: skip
    return tuple(max(column) for column in zip(*sizes))


# Of each view


def _of_loads(state):
    plan = plan_of(state)
    moved = [f"P{target} does {100 * float(amount) / plan.costs.delta[layer - 1].item():.3g} % of the delta of "
             f"{plan.costs.layers[layer - 1]}" for layer, _, target, amount in plan.moved]  # fmt: skip
    few = "; ".join(moved[:4]) + (f"; and {len(moved) - 4} more" if len(moved) > 4 else "")
    loads = ", ".join(f"P{k} {engineering(load)}" for k, load in enumerate(plan.loads[:8], 1))
    return [f"loads: {loads}{', ...' if len(plan.loads) > 8 else ''}", *([f"moved: {few}"] if moved else [])]


def _of_speedup(state):
    best = plan_of(replace(state, planner="optimal")).certificate
    limit = float(costs_of(state).total) / float(best.saturation_period) if best.saturation_period else 1.0
    return [f"no number of processors reaches a speedup above {limit:.4g}; {best.saturates_at} are enough for it"]


def timeline_words(line):
    """A timeline in a line.

    Examples
    --------
    >>> from lpkit.explore_state import State
    >>> timeline_words(timeline_of(State("sample4", processors=2)))  # doctest: +ELLIPSIS
    'layerpipe, 16 mini-batches: steady period 1.793e7 cycles, first mini-batch through after ...'
    """
    unit, steady = line.plan.costs.unit, line.period
    period = "no steady period yet" if steady is None else f"steady period {engineering(steady)} {unit}"
    return (f"{line.schedule}, {line.batches} mini-batches: {period}, first mini-batch through after "
            f"{engineering(line.fill)} {unit}, {100 * float(line.bubble_share):.1f} % of all time spent "
            f"waiting")  # fmt: skip


def _of_timeline(state):
    line = timeline_of(state)
    slow = line.period is not None and float(line.period) > 1.0001 * float(line.plan.period)
    held = ["the links hold the stages up: the steady period is above the plan's"] if slow else []
    return [timeline_words(line), *held]


def _of_communication(state):
    table = table_of({"": state})
    if not len(table):
        return ["one stage: nothing is sent"]
    sums = table[["mandatory", "weights", "results"]].sum()
    said = [f"a mini-batch sends {kilobytes(sums['mandatory'])} of activations and errors, and for delta'' "
            f"{kilobytes(sums['weights'])} of weights and {kilobytes(sums['results'])} of results"]  # fmt: skip
    if state.bandwidth is not None:
        share = (table["busier_link_time"] / table["period"]).max()
        limit = ": the links, not the stages, are the limit" if share > 1 else ""
        rate = f"{state.bandwidth} bytes per {_one(state)}"
        said += [f"the busiest link, at {rate}, takes {100 * share:.3g} % of a period{limit}"]
    return said


def _of_utilisation(state):
    table, costs = table_of({"": state}), costs_of(state)
    work = {op: getattr(costs, op).sum() for op in ("F", "G", "delta")}
    shares = {op: (table[op].fillna(0) * getattr(costs, op)).sum() / work[op] for op in work if work[op]}
    return ["useful multiplications, in percent of cells times cycles: "
            + ", ".join(f"{op} {share:.1f}" for op, share in shares.items())]  # fmt: skip


def _of_graph(state):
    first, last = layers_drawn(state)
    plan = plan_of(state)
    after = len(plan.ends) - plan.stage_of(first)
    late = _count(2 * after, "update")
    return [
        f"layers {first} to {last} as a chain, with a register at every boundary in both directions",
        f"{_count(after, 'stage')} after that of layer {first}: its gradient meets weights {late} newer than its own",
    ]


VIEWS = {"loads": _of_loads, "speedup": _of_speedup, "timeline": _of_timeline, "communication": _of_communication,
         "utilisation": _of_utilisation, "graph": _of_graph}  # fmt: skip


def text_of(state, pinned=None):
    """The numbers of a state in lines, with the certificate; with `pinned`, of both and how they compare.

    Raises
    ------
    ValueError, FileNotFoundError
        If the network cannot be planned so.

    Examples
    --------
    >>> from lpkit.explore_state import State
    >>> text_of(State("sample4", processors=3), State("sample4", processors=2)).splitlines()[-1]
    'now against pinned: period ratio 1.285, time reduction 22.2 %, throughput gain 28.5 %'
    """
    if pinned is None:
        return "\n".join(described(state))
    both = [line for label, one in cases_of(state, pinned).items()
            for line in (label, *(f"  {line}" for line in described(one)))]  # fmt: skip
    return "\n".join(both + _between(pinned, state))


def _between(pinned, state):
    """How the two compare, where their periods are of one kind."""
    old, new = plan_of(pinned), plan_of(state)
    if old.costs.unit != new.costs.unit or not old.period or not new.period:
        return []
    ratio = float(old.period) / float(new.period)
    samples = "" if pinned.batch == state.batch else f" (of {pinned.batch} and {state.batch} samples)"
    return [f"now against pinned: {_columns(ratio)}{samples}"]


def _columns(ratio):
    """The three ways to say how much faster, which the papers mix."""
    return (f"period ratio {ratio:.3f}, time reduction {100 * (1 - 1 / ratio):.1f} %, throughput gain "
            f"{100 * (ratio - 1):.1f} %")  # fmt: skip


def _count(number, noun):
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _one(state):
    unit = costs_of(state).unit
    return unit[:-1] if unit == "cycles" else unit
