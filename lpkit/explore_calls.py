"""How a state of the explorer is repeated without it: a line of Python and a command that give the same plan."""

import shlex

from lpkit.explore_state import COSTING, State, choices_of, is_measured, timeline_of
from lpkit.networks import NETWORKS
from lpkit.sweep import OPTIONS

__all__ = ["call_of", "command_of"]

OPTION_OF = {"batch": "--batch", "dataflow": "--dataflow", "delta": "--delta", "G": "--g-form", "layers": "--layers"}


def call_of(state):
    """The Python expression whose value is the plan, or in its view the timeline.

    It knows ``import lpkit as lp`` and, where the network is a file, ``from lpkit.sources import layer_costs``.

    Examples
    --------
    >>> call_of(State("sample4", rows=64, processors=3))
    "lp.plan(lp.costs('sample4', lp.Array(64, 32)), 3)"
    """
    options = OPTIONS.get(state.planner, {})
    named = [repr(state.planner)] if state.planner != "optimal" else []
    made = _call("lp.plan", _costs_call(state), state.processors, *named, **{n: repr(v) for n, v in options.items()})
    if state.view != "timeline":
        return made
    line = timeline_of(state)
    rate = {} if state.bandwidth is None else {"bandwidth": state.bandwidth}
    return _call("lp.schedule", made, repr(line.schedule), line.batches, **rate)


def _costs_call(state):
    default, built_in = State(), state.network in NETWORKS
    changed = {name: getattr(state, name) for name in COSTING[3:] if getattr(state, name) != getattr(default, name)}
    if built_in:
        flow = [repr(state.dataflow)] if state.dataflow != "ws" else []
        array = _call("lp.Array", state.rows, state.columns, *flow)
        array = [] if array == "lp.Array(32, 32)" else [array]
        return _call("lp.costs", repr(state.network), *array, **{name: repr(value) for name, value in changed.items()})
    given = {name: repr(value) for name, value in choices_of(state)}
    return _call("layer_costs", repr(state.network), **given)


def _call(name, *values, **named):
    return f"{name}({', '.join([*map(str, values), *(f'{key}={value}' for key, value in named.items())])})"


def command_of(state):
    """The shell command that prints the same plan; in the view of the timeline with the schedule.

    Examples
    --------
    >>> command_of(State("sample4", batch=8, processors=3, first_layer_delta=True))
    'lpkit plan sample4 --processors 3 --batch 8 --first-layer-delta'
    """
    default = State()
    words = ["lpkit", "plan", state.network, "--processors", str(state.processors)]
    words += ["--planner", state.planner] if state.planner != default.planner else []
    if not is_measured(state):
        square = (state.rows, state.columns) == (default.rows, default.columns)
        words += [] if square else ["--array", f"{state.rows}x{state.columns}"]
        words += [word for name, option in OPTION_OF.items() if getattr(state, name) != getattr(default, name)
                  for word in (option, str(getattr(state, name)))]  # fmt: skip
        words += ["--first-layer-delta"] if state.first_layer_delta else []
    if state.view == "timeline":
        line = timeline_of(state)
        words += ["--schedule", line.schedule, "--batches", str(line.batches)]
        words += ["--bandwidth", str(state.bandwidth)] if state.bandwidth is not None else []
    return shlex.join(words)
