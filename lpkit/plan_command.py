"""What ``lpkit plan`` does between its options and its text: a source becomes a plan, a plan a timeline and files."""

import inspect
import warnings
from functools import partial
from pathlib import Path

import pandas as pd

from lpkit.checks import choice, plain, whole_number
from lpkit.display import readable
from lpkit.interop.torch_shift_file import input_channels
from lpkit.networks import Network
from lpkit.optimal_graph import optimal_graph
from lpkit.partition import PLANNERS
from lpkit.partition import plan as make
from lpkit.plan_options import ALL_PLANNERS, LIMITS, another, limits, number, size, whole
from lpkit.plan_order import has_orders
from lpkit.plan_reader import read_plan
from lpkit.schedule import SCHEDULES, schedule_named
from lpkit.schedule import schedule as schedule_of
from lpkit.sources import graph_of, kind_of, layer_costs, network_of
from lpkit.sweep import OPTIONS

__all__ = ["channels_of", "compared", "is_plan", "idle", "one_line", "opened", "planned",
           "planned_of", "refuse_overwriting",
           "scheduled"]

PROCESSORS, PLANNER = 4, "optimal"
FLUSHED_BATCHES, BATCHES = 4, 12  # mini-batches with a flush after each, and the fewest without
MICRO_BATCHES = 4  # times the stages


def is_plan(source):
    """Whether a NETWORK names a plan file.

    Examples
    --------
    >>> is_plan("best/plan.json"), is_plan("vgg16")
    (True, False)
    """
    return Path(source).suffix.lower() == ".json"


def planned(source, **choices):
    """The plan of `planned_of`, without its graph.

    Raises
    ------
    ValueError, FileNotFoundError
        As that.

    Examples
    --------
    >>> planned("sample4", processors="3").period
    13953910
    >>> planned("vgg11", processors="4", stages_per_processor="2").processors
    8
    """
    return planned_of(source, **choices)[0]


def planned_of(source, *, processors=None, planner=None, stages_per_processor=None, **choices):
    """The plan of a network (4 processors and the optimum by default), or the one in a plan file, and its graph.

    With several stages a processor the plan has as many stages as there are for all processors.

    Parameters
    ----------
    source : str, path or Network
    **choices
        Those of `layer_costs`, and of `lpkit.plan_options.limits`.

    Returns
    -------
    plan : Plan
    graph : LayerGraph or None
        The layers behind it; None for a plan file and a topology.

    Raises
    ------
    ValueError, FileNotFoundError
        As `layer_costs`, the planners and `read_plan`; or if a choice is given that a plan file or the planner cannot
        use.

    Examples
    --------
    >>> plan, graph = planned_of("resnet34", planner="optimal_graph")
    >>> plan.period, planned("resnet34").period, len(graph)
    (91718336, 92616736, 37)
    """
    if not isinstance(source, Network) and is_plan(source):
        given = {name: value for name, value in {"processors": processors, "planner": planner, **choices}.items()
                 if value not in (None, False, ())}  # fmt: skip
        if given:
            raise ValueError(f"{str(source)!r} is a plan; {', '.join(sorted(given))} cannot change it, leave the "
                             "options out")
        return read_plan(source), None
    planner = choice(PLANNER if planner is None else planner, "planner", tuple(ALL_PLANNERS))
    processors, each = PROCESSORS if processors is None else whole(processors), 1
    if stages_per_processor is not None:
        processors, each = whole_number(processors, "processors"), _several(stages_per_processor)
    asked = {name: choices.pop(name) for name in LIMITS if name in choices}
    found, processors = layer_costs(source, **choices), processors * each if each > 1 else processors
    graph, keywords = graph_of(source, found, **choices), limits(planner, found, **asked)
    if planner != "optimal_graph":
        return make(found, processors, planner, **OPTIONS.get(planner, {}), **keywords), graph
    if graph is None:
        raise ValueError(f"{str(source)!r} is a list of layers, and the planner 'optimal_graph' needs their graph; "
                         "leave the option out, or give a network")
    return optimal_graph(graph, processors, **keywords), graph


def scheduled(plan, name, *, stages_per_processor=None, **given):
    """Timeline of a plan by name, or None without one, where no other option may be given either.

    By default there are 4 micro-batches for each stage and 4 mini-batches where a schedule flushes; else 12
    mini-batches, or half as many again as fill the pipeline and its stashes, where that is more.

    Raises
    ------
    ValueError
        As the schedules; or if an option is given that has no meaning, or one is missing.

    Examples
    --------
    >>> line = scheduled(planned("sample4"), "GPipe", batches="2")
    >>> line.schedule, line.stages, line.micro_batches, scheduled(planned("sample4"), "layerpipe").batches
    ('gpipe', 4, 16, 19)
    """
    given = {option: _read(option, value) for option, value in given.items() if value is not None}
    if name is None:
        if given := [*given, *["stages_per_processor"] * (stages_per_processor is not None)]:
            raise ValueError(f"{', '.join(given)} has no meaning without a schedule; give --schedule layerpipe or "
                             "another")
        return None
    name = schedule_named(name)
    parameters = inspect.signature(SCHEDULES[name]).parameters
    for option in given:
        if option not in ("batches", *parameters):
            raise ValueError(f"the schedule {name!r} has no {WORDS.get(option, option)}")
    if name == "interleaved" or stages_per_processor is not None:
        given["processors"] = _processors(plan, name, stages_per_processor)
    if "micro_batches" in parameters:
        given = {"micro_batches": MICRO_BATCHES * len(plan.ends)} | given
    batches = given.pop("batches", None)
    return schedule_of(plan, name, _batches(plan, name, given) if batches is None else batches, **given)


WORDS = {"micro_batches": "micro-batches; leave the option out, or ask for more mini-batches",
         "model": "model; leave the option out, or give --schedule layerpipe",
         "delta_first": "choice of what comes first; leave the option out, or give --schedule one_f_one_b"}  # fmt: skip


def _read(option, value):
    """The value of an option of a schedule, from the text that was given."""
    readers = {"bandwidth": partial(size, "bandwidth"), "latency": number, "batches": whole, "micro_batches": whole}
    return readers.get(option, plain)(value)


def _batches(plan, name, options):
    """Mini-batches that show a schedule in its steady state: the one in the middle neither fills nor drains it."""
    if "micro_batches" in options:
        return FLUSHED_BATCHES
    enough = schedule_of(plan, name, **options).fills_with
    return max(BATCHES, enough + enough // 2 + 1)


def _several(stages_per_processor):
    return whole_number(whole(stages_per_processor), "stages_per_processor", least=2, most=2**20)


def _processors(plan, name, stages_per_processor):
    """Processors of an interleaved schedule."""
    if name != "interleaved":
        raise ValueError(f"stages_per_processor has no meaning for the schedule {name!r}; give --schedule interleaved")
    if stages_per_processor is None:
        raise ValueError("the schedule 'interleaved' needs several stages a processor; give --stages-per-processor 2 "
                         "or more, or --schedule one_f_one_b")
    each, stages = _several(stages_per_processor), len(plan.ends)
    if stages % each:
        raise ValueError(f"the plan has {stages} stages, which cannot be shared out by {each} a processor; ask for "
                         "other processors or stages_per_processor")
    return stages // each


def one_line(plan):
    """A plan in a line, where the table of its stages has been seen before.

    Examples
    --------
    >>> one_line(planned("sample4", processors="3"))
    "period 13,953,910 cycles, speedup 2.57 over one processor; layers 1-2 | 3 | 4; delta'' of 2"
    """
    layers = repr(plan).splitlines()[1]
    return (f"period {readable(plan.period)} {plan.costs.unit}, speedup {float(plan.speedup):.4g} over one processor; "
            f"{layers}")


def idle(plan):
    """How many processors have nothing to do in a plan, in brackets; empty where all work.

    Examples
    --------
    >>> idle(planned("vgg16", processors="14")), idle(planned("vgg16"))
    (' (3 of 14 processors idle)', '')
    """
    left = plan.processors - (sum(plan.replicas) or len(plan.ends))
    return f" ({left} of {plan.processors} processors idle)" if left else ""


def opened(source, **choices):
    """The network of a source, and what its reader assumed; (None, ()) where the source holds costs or a plan.

    Examples
    --------
    >>> net, warned = opened("lenet5")
    >>> net.name, warned, opened("best/plan.json")
    ('lenet5', (), (None, ()))
    """
    if is_plan(source):
        return None, ()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        net = network_of(source, **choices)
    told = [str(warning.message) for warning in caught]
    if kind_of(source) == "onnx":
        sizes = "".join(f", {size}" for size in choices.get("dimension") or ())
        told.append("a sample is one entry along the batch dimension, as many as --batch says whatever the file does"
                    f"{sizes}")
    return net, tuple(told)


def channels_of(net):
    """Input channels of each layer of a network; None without one.

    Examples
    --------
    >>> channels_of(opened("sample4")[0])["conv2"]
    32
    """
    return None if net is None else input_channels(net)


def refuse_overwriting(source, paths):
    """Raise if one of the files to write is the one that is read.

    Raises
    ------
    ValueError
        With the name of that file.
    """
    for path in paths:
        if Path(source).exists() and Path(path).exists() and Path(source).samefile(path):
            raise ValueError(f"{str(path)!r} is the file that is read; write to another name")


def compared(plan, graph=None):
    """Every planner on the same costs, under the limits it knows, if it finds a plan: its period against PipeDream's.

    The planner ``optimal_graph`` is among them where `graph`, the `LayerGraph` behind the plan, has a second order.
    Columns planner, period, speedup, period ratio, time reduction and throughput gain.

    Raises
    ------
    ValueError
        If no plan of PipeDream's planner keeps to the limits.
    """
    own = plan.planner.split()[0]
    names = ALL_PLANNERS if own == "optimal_graph" or graph is not None and has_orders(graph) else PLANNERS
    plans = {name: plan if name == own else another(plan, planner=name, graph=graph) for name in names}
    plans = {name: made for name, made in plans.items() if made is not None}
    if "pipedream" not in plans:
        raise ValueError("there is nothing to compare with: no plan of PipeDream's planner keeps to what was asked for")
    old = float(plans["pipedream"].period)
    ratios = {name: old / float(p.period) if p.period else 1.0 for name, p in plans.items()}
    return pd.DataFrame([
        {"planner": name, "period": float(p.period), "speedup": float(p.speedup), "period ratio": ratios[name],
         "time reduction": 1 - 1 / ratios[name], "throughput gain": ratios[name] - 1}
        for name, p in plans.items()
    ])
