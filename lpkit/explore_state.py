"""What an explorer shows, as one value: the network, the array, the plan asked for, and the view of it.

A `State` says everything, so a picture can be drawn, described and repeated from it alone; its costs, its plan and its
timeline come from here, and are remembered once made.
"""

from dataclasses import dataclass, fields
from functools import lru_cache
from numbers import Real
from pathlib import Path

from lpkit.checks import choice, is_file, plain, shown, whole_number
from lpkit.costs import LAYERS, Costs, costs, reading
from lpkit.networks import NETWORKS, network, read_csv
from lpkit.partition import PLANNERS, plan
from lpkit.products import DELTAS, G_FORMS
from lpkit.schedule import schedule
from lpkit.sources import kind_of, layer_costs
from lpkit.sweep import OPTIONS
from lpkit.systolic import DATAFLOWS, Array

__all__ = ["COSTING", "VIEWS", "State", "choices_of", "costs_of", "differences", "is_measured", "layers_of", "plan_of",
           "timeline_of"]

VIEWS = ("loads", "speedup", "timeline", "communication", "utilisation", "graph")
MOST_SIDE, MOST_BATCH, MOST_PROCESSORS = 4096, 2**20, 64
LONGEST_NAME, LONGEST_PART = 1000, 255  # characters of a path, and of a name in it
MOST_LAYERS, MOST_BYTES = 1000, 2**21  # of a file: reading and planning more would have to be waited for
LONGEST = 24_000  # operations of a timeline, about: beyond, a picture would have to be waited for
COSTING = ("rows", "columns", "dataflow", "batch", "delta", "G", "first_layer_delta", "layers")  # what costs depend on


@dataclass(frozen=True)
class State:
    """A configuration of the explorer.

    Attributes
    ----------
    network : str
        A built-in name, or the path of a file: a network CSV, a SCALE-Sim topology, an ONNX model, a PipeDream
        graph.txt (whose measured times no array or batch changes).
    rows, columns : int
        Of the array, 1 to 4096.
    dataflow : {"ws", "os", "is"}
    batch : int
        Samples of a mini-batch.
    processors : int
        1 to 64.
    planner : str
        A name in `PLANNERS`; Algorithm 1 holds its loads to the target (``mode="strict"``).
    delta, G : str
        The form of their matrix products (`lpkit.costs.costs`).
    first_layer_delta : bool
    layers : {"all", "convolutions", "main_path"}
    bandwidth : number, optional
        Bytes that a link carries in one unit of time (a cycle); without it sends take no time. The plan is made without
        it; the timeline has the sends, and the view of the communication their times.
    view : str
        A name in `VIEWS`.

    Raises
    ------
    ValueError
        If a value is not allowed. Whether the network can be planned so shows only when it is.

    Examples
    --------
    >>> State("sample4", processors=3).view
    'loads'
    """

    network: str = "vgg16"
    rows: int = 32
    columns: int = 32
    dataflow: str = "ws"
    batch: int = 32
    processors: int = 4
    planner: str = "optimal"
    delta: str = "col2im"
    G: str = "a"
    first_layer_delta: bool = False
    layers: str = "all"
    bandwidth: float | None = None
    view: str = "loads"

    def __post_init__(self):
        checked = {"network": _network(self.network), "bandwidth": _bandwidth(self.bandwidth)}
        most = {"rows": MOST_SIDE, "columns": MOST_SIDE, "batch": MOST_BATCH, "processors": MOST_PROCESSORS}
        checked |= {name: whole_number(getattr(self, name), name, most=limit) for name, limit in most.items()}
        allowed = {"dataflow": DATAFLOWS, "planner": tuple(PLANNERS), "delta": DELTAS, "G": G_FORMS, "layers": LAYERS,
                   "view": VIEWS, "first_layer_delta": (True, False)}  # fmt: skip
        checked |= {name: choice(getattr(self, name), name, known) for name, known in allowed.items()}
        for name, value in checked.items():
            object.__setattr__(self, name, value)


def _network(name):
    if not isinstance(name, (str, Path)) or not str(name).strip():
        raise ValueError(f"network is {shown(name)}; give a built-in name such as 'vgg16', or the path of a file")
    name = str(name).strip()
    if len(name) > LONGEST_NAME or max(map(len, name.split("/"))) > LONGEST_PART or "\0" in name:
        raise ValueError(f"network is {shown(name)}; no file has that name, give a built-in name or the path of a file")
    return name.lower() if name.lower() in NETWORKS else name


def _bandwidth(value):
    value = plain(value)
    if value is None:
        return None
    if not isinstance(value, Real) or isinstance(value, bool) or not 0 < value < 1e18:
        raise ValueError(f"bandwidth is {shown(value)}; it must be a number of bytes per unit of time above 0, or None "
                         "where sends take no time")  # fmt: skip
    return int(value) if value == int(value) else float(value)


def costs_of(state):
    """The costs of each layer under `state`.

    Raises
    ------
    ValueError, FileNotFoundError
        As `lpkit.sources.layer_costs`.

    Examples
    --------
    >>> costs_of(State("sample4")).name
    'sample4 on 32x32 ws, batch 32'
    """
    return _costs(state.network, _stamp(state.network), choices_of(state))


def plan_of(state, processors=None):
    """The plan that `state` asks for, or the one of another number of processors.

    Raises
    ------
    ValueError, FileNotFoundError
        As `costs_of`; or if there are more processors than layers.

    Examples
    --------
    >>> plan_of(State("sample4", processors=3)).period
    13953910
    """
    asked = state.processors if processors is None else processors
    return _plan(state.network, _stamp(state.network), choices_of(state), asked, state.planner)


def timeline_of(state):
    """The plan run: mini-batches until the pipeline is full and then some, as far as about 24,000 operations go.

    PipeDream's schedule where no delta moves (``pipedream``, ``equal_layers``), else LayerPipe's.

    Examples
    --------
    >>> timeline_of(State("sample4", processors=3)).schedule, timeline_of(State("sample4", processors=3)).batches
    ('layerpipe', 18)
    """
    return _timeline(state, _stamp(state.network))


def layers_of(state):
    """Each layer of `costs_of(state)` as `lpkit.products` takes it, and its batch.

    Raises
    ------
    ValueError
        If the file holds measured times, of which nobody knows on what they ran.
    """
    return _layers(state.network, _stamp(state.network), choices_of(state))


def is_measured(state):
    """Whether the network of `state` is a profile, which no array and no batch changes."""
    return kind_of(state.network) == "graph"


def differences(state, other):
    """Names of the fields in which two states of one explorer differ, the view aside.

    Examples
    --------
    >>> differences(State(), State(rows=64, view="graph"))
    ('rows',)
    """
    names = [field.name for field in fields(state) if field.name != "view"]
    return tuple(name for name in names if getattr(state, name) != getattr(other, name))


# Remembered


def _stamp(name):
    """What tells whether a file is still the one that was read; None of a built-in network."""
    if name in NETWORKS or not is_file(name):
        return None
    found = Path(name).stat()
    if found.st_size > MOST_BYTES and Path(name).suffix.lower() != ".onnx":
        raise ValueError(f"{shown(name, 200)} has {found.st_size:,} bytes; an explorer reads at most {MOST_BYTES:,}, "
                         "lpkit plan more")  # fmt: skip
    return found.st_mtime_ns, found.st_size


def choices_of(state):
    """What `lpkit.sources.layer_costs` is given, as pairs of name and value.

    Examples
    --------
    >>> choices_of(State(rows=64))[:2]
    (('array', '64x32'), ('dataflow', 'ws'))
    """
    if state.network not in NETWORKS and is_measured(state):
        return ()
    given = {name: getattr(state, name) for name in COSTING[2:]}
    if state.layers == "all":  # a topology knows no other, and refuses to be asked
        del given["layers"]
    return (("array", f"{state.rows}x{state.columns}"), *given.items())


@lru_cache(maxsize=64)
def _costs(name, stamp, choices) -> Costs:
    if name in NETWORKS:
        return _costs_of_built_in(name, dict(choices))
    made = layer_costs(name, **dict(choices))
    if len(made) > MOST_LAYERS:
        raise ValueError(f"{shown(name, 200)} has {len(made):,} layers; an explorer shows at most {MOST_LAYERS:,}, "
                         "lpkit plan plans more")  # fmt: skip
    return made


def _costs_of_built_in(name, given):
    """What `lpkit.sources.layer_costs` gives, without building the network anew: that takes longer than its costs."""
    array = Array.parse(given.pop("array"), dataflow=given.pop("dataflow"))
    return costs(_built_in(name), array, **reading("plain").choices() | given)


@lru_cache(maxsize=len(NETWORKS))
def _built_in(name):
    return network(name)


@lru_cache(maxsize=512)
def _plan(name, stamp, choices, processors, planner):
    return plan(_costs(name, stamp, choices), processors, planner, **OPTIONS.get(planner, {}))


@lru_cache(maxsize=8)
def _timeline(state, stamp):
    made = plan_of(state)
    each = 4 * len(made.costs) + (4 * len(made.ends) if state.bandwidth is not None else 0)
    batches = max(4, min(2 * len(made.ends) + 12, LONGEST // each))
    moves = state.planner in ("algorithm1", "optimal")
    return schedule(made, "layerpipe" if moves else "pipedream", batches, bandwidth=state.bandwidth)


@lru_cache(maxsize=16)
def _layers(name, stamp, choices):
    given, kind = dict(choices), kind_of(name)
    if kind == "graph":
        raise ValueError(f"{shown(name)} holds measured times, so the array they ran on is not known; choose another "
                         "view, or a network")  # fmt: skip
    kept = set(_costs(name, stamp, choices).layers)
    if kind == "topology":
        from lpkit.interop.scalesim import read_topology

        return tuple((layer.shape, layer.batch * given["batch"]) for layer in read_topology(name).layers)
    made = {"name": _built_in, "network": read_csv, "onnx": _onnx}[kind](name)
    return tuple((layer, given["batch"]) for layer in made.layers if layer.name in kept)


def _onnx(name):
    from lpkit.interop.onnx import read_onnx

    return read_onnx(name)

