"""The numbers behind each view of the explorer, as tidy tables: what is drawn, and what is written as CSV.

A view is of cases, labels of states: PipeDream's plan beside the one asked for, or a pinned configuration beside the
current one.
"""

from dataclasses import replace
from functools import lru_cache

import numpy as np
import pandas as pd

from lpkit.backprop import backprop_dfg, operation, stages_after
from lpkit.derivation import split_delta, stage_lags
from lpkit.dfg import DFG
from lpkit.explore_periods import least_periods
from lpkit.explore_state import costs_of, differences, layers_of, plan_of, timeline_of
from lpkit.moves import delay_gradients, pipeline, retime
from lpkit.partition import communication
from lpkit.planfile import stage_table
from lpkit.plans import ratio
from lpkit.plots import PLANNER_NAMES
from lpkit.systolic import useful_macs
from lpkit.timeline_table import timeline_table

__all__ = ["cases_of", "graph_of", "labelled", "layers_drawn", "processor_counts", "table_of"]

MOST_POINTS = 16  # processor counts that a curve has one by one; beyond, every fourth
MOST_NAMED = 4  # differences in a label; of more the first three
SHOWN_LAYERS = 6  # that a graph has room for
COMPARED = ("loads", "speedup", "timeline", "communication")  # views where PipeDream stands beside the plan


def cases_of(state, pinned=None):
    """What is drawn side by side: label to state; with `pinned` that one and the current one, else PipeDream's first.

    Examples
    --------
    >>> from lpkit.explore_state import State
    >>> list(cases_of(State())), list(cases_of(State(rows=64, columns=64), State()))
    (['PipeDream', 'LayerPipe (optimal)'], ['pinned: rows 32, columns 32', 'now: rows 64, columns 64'])
    """
    if pinned is not None:
        names = differences(state, pinned)
        return {_label("pinned", pinned, names): replace(pinned, view=state.view), _label("now", state, names): state}
    chosen = {PLANNER_NAMES[state.planner]: state}
    if state.view not in COMPARED or state.planner == "pipedream":
        return chosen
    return {PLANNER_NAMES["pipedream"]: replace(state, planner="pipedream")} | chosen


def _label(when, state, names):
    said = [f"{name.replace('_', ' ')} {_value(name, getattr(state, name))}" for name in names]
    return labelled(when, said)


def labelled(when, said):
    """A label of a few differences.

    Examples
    --------
    >>> labelled("now", ["rows 8", "columns 8", "batch 1", "processors 2", "G b"]), labelled("now", [])
    ('now: rows 8, columns 8, batch 1 and 2 more', 'now')
    """
    shown, more = MOST_NAMED - 1, len(said) - MOST_NAMED + 1
    few = said if len(said) <= MOST_NAMED else [*said[: shown - 1], f"{said[shown - 1]} and {more} more"]
    return f"{when}: {', '.join(few)}" if few else when


def _value(name, value):
    known = {"planner": PLANNER_NAMES, "first_layer_delta": {True: "counted", False: "not counted"}}
    text = str(known.get(name, {}).get(value, "free" if value is None else value))
    return text if len(text) <= 24 else f"...{text[-21:]}"


def table_of(cases):
    """The data of the view of the cases as a DataFrame, with a column ``case``.

    Raises
    ------
    ValueError, FileNotFoundError
        If a case cannot be planned, or its view not be had.

    Examples
    --------
    >>> from lpkit.explore_state import State
    >>> table_of(cases_of(State("sample4", processors=2)))[["case", "stage", "load"]].values.tolist()[2:]
    [['LayerPipe (optimal)', 1, 17931705], ['LayerPipe (optimal)', 2, 17931705]]
    """
    made = {"loads": _loads, "speedup": _speedup, "timeline": _timeline, "communication": _communication,
            "utilisation": _utilisation, "graph": _graph}  # fmt: skip
    for state in cases.values():
        plan_of(state)  # a view that needs no plan must not look as if there were one
    tables = [made[state.view](state).assign(case=label) for label, state in cases.items()]
    joined = pd.concat(tables, ignore_index=True)
    return joined[["case", *(name for name in joined if name != "case")]]


def _loads(state):
    """One row a stage: its own F, G and kept delta, and what it took over."""
    plan = plan_of(state)
    table = stage_table(plan)
    rows = [np.array(stage, dtype=int) - 1 for stage in plan.stages]
    F, G = ([column[row].sum().item() for row in rows] for column in (plan.costs.F, plan.costs.G))
    return pd.DataFrame({"stage": table["stage"], "layers": table["layers"], "F": F, "G": G,
                         "delta": table["delta_kept"], "delta_taken": table["delta_in"], "load": table["load"],
                         "unit": plan.costs.unit})  # fmt: skip


def _speedup(state):
    """One row a processor count: the speedup over one processor."""
    total, counts = costs_of(state).total, processor_counts(state)
    periods = _periods(state, tuple(counts))
    return pd.DataFrame({"processors": counts, "period": periods,
                         "speedup": [float(total) / period if period else 1.0 for period in periods]})  # fmt: skip


def processor_counts(state):
    """The processor counts of a curve: up to 64 and the number of layers, beyond 16 every fourth, and the one chosen.

    Examples
    --------
    >>> from lpkit.explore_state import State
    >>> processor_counts(State("vgg19"))[-3:]
    [15, 16, 19]
    """
    layers = min(len(costs_of(state)), 64)
    counts = {*range(1, min(layers, MOST_POINTS) + 1), *range(20, layers + 1, 4), layers}
    return sorted(counts | ({state.processors} if state.processors <= layers else set()))


def _periods(state, counts):
    """The period of each plan of a curve; where only that is asked for, without what a plan has beside it."""
    if state.planner not in ("optimal", "pipedream"):
        return [float(plan_of(state, count).period) for count in counts]
    return _least(costs_of(state), counts, state.planner == "pipedream")


@lru_cache(maxsize=64)
def _least(costs, counts, still):
    return least_periods(costs, counts, still=still)


def _timeline(state):
    """One row, the measures of the timeline."""
    return _measures(timeline_of(state))


@lru_cache(maxsize=8)
def _measures(timeline):
    return timeline_table({timeline.schedule: timeline})


def _communication(state):
    """One row a boundary: bytes of a mini-batch in both directions, and the time of a link of the bandwidth."""
    plan = plan_of(state)
    traffic = communication(plan, "full")
    table = pd.DataFrame({"boundary": range(1, len(plan.ends)), "mandatory": map(float, traffic.mandatory),
                          "weights": map(float, traffic.weights), "results": map(float, traffic.results)})  # fmt: skip
    if state.bandwidth is None:
        return table
    busier = table["mandatory"] / 2 + np.maximum(table["weights"], table["results"])
    return table.assign(busier_link_time=busier / state.bandwidth, period=float(plan.period))


def _utilisation(state):
    """One row a layer: useful multiplications over cells times cycles, in percent; none where there is no work."""
    costs, cells = costs_of(state), state.rows * state.columns
    useful = np.array([useful_macs(layer, batch=batch) for layer, batch in layers_of(state)], dtype=float)
    with np.errstate(divide="ignore"):
        shares = {op: np.where(work > 0, 100 * useful / (cells * work.astype(float)), np.nan)
                  for op in ("F", "G", "delta") for work in [getattr(costs, op)]}  # fmt: skip
    return pd.DataFrame({"layer": costs.layers, **shares})


def _graph(state):
    """One row an edge of the part of the graph that is drawn."""
    return pd.DataFrame([edge._asdict() for edge in graph_of(state)[0].edges])


def graph_of(state):
    """The part of the pipelined graph around the boundary where most moves: the graph, its first and its last layer.

    The layers are a chain in their order, as the planners and schedules take them. A delta that is shared across that
    boundary is split, as in LayerPipe's Fig. 5.

    Examples
    --------
    >>> from lpkit.explore_state import State
    >>> graph, first, last = graph_of(State("sample4", processors=3))
    >>> first, last, [tuple(edge) for edge in graph.edges if edge.source == "F1"]
    (1, 4, [('F1', 'F2', 0), ('F1', 'G2', 4), ('F1', 'join2', 4)])
    """
    plan, shares, (first, last) = plan_of(state), _shares(plan_of(state)), layers_drawn(state)
    dfg = _pipelined(tuple(plan.stage_of(layer) for layer in range(1, len(plan.costs) + 1)))
    for layer in plan.ends[:-1]:
        if first <= layer <= last and f"delta{layer}" in dfg.index and shares.get(layer):
            dfg = split_delta(dfg, layer, shares[layer])
    return _part(dfg, first, last), first, last


def layers_drawn(state):
    """First and last layer of `graph_of`.

    Examples
    --------
    >>> from lpkit.explore_state import State
    >>> layers_drawn(State("vgg16"))
    (2, 7)
    """
    plan, shares = plan_of(state), _shares(plan_of(state))
    centre = max(plan.ends[:-1], key=lambda end: (shares.get(end, 0), -end), default=1)
    first = max(1, min(centre - SHOWN_LAYERS // 2 + 1, len(plan.costs) - SHOWN_LAYERS + 1))
    return first, min(len(plan.costs), first + SHOWN_LAYERS - 1)


def _shares(plan):
    """What part of its delta each layer gives away."""
    return {layer: ratio(amount, plan.costs.delta[layer - 1].item()) for layer, _, _, amount in plan.moved}


@lru_cache(maxsize=64)
def _pipelined(stages):
    """The graph of a chain in these stages, after all moves of the derivation at once."""
    renumbered = {stage: place for place, stage in enumerate(sorted(set(stages)), 1)}
    stages = tuple(renumbered[stage] for stage in stages)
    dfg, after = backprop_dfg(len(stages)), stages_after(stages)
    delayed = delay_gradients(pipeline(dfg, ("X", "T"), after[0]), {l: 2 * s for l, s in enumerate(after, 1)})
    return retime(delayed, stage_lags(dfg, stages))


def _part(dfg, first, last):
    """The nodes of the layers from `first` to `last`, and the sources and the error where these are next to them."""
    ends = {"X": first == 1, "T": f"F{last + 1}" not in dfg.index, "E": f"F{last + 1}" not in dfg.index}
    layer = {name: operation(name)[1] for name in dfg.nodes}
    kept = {name: time for name, time in dfg.times.items()
            if (ends.get(name) if layer[name] is None else first <= layer[name] <= last)}  # fmt: skip
    return DFG(kept, [edge for edge in dfg.edges if edge.source in kept and edge.target in kept])
