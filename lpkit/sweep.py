"""Grids over network x array x batch x processors x planner, as one tidy table.

The papers average over such grids; an explorer walks through one. The costs of a (network, array, batch) cell are
computed once and shared by all its plans; cells are independent, so any `concurrent.futures.Executor` may run them.
Plans once made are remembered in the process.
"""

import inspect
from collections.abc import Iterable, Mapping
from functools import lru_cache, partial
from itertools import product

import pandas as pd
from tqdm import tqdm

from lpkit.checks import choice, shown, unknown_name, whole_number
from lpkit.costs import Reading, costs
from lpkit.costs import reading as named_reading
from lpkit.networks import Network, network
from lpkit.partition import PLANNERS, communication, plan
from lpkit.systolic import Array

__all__ = ["sweep", "PAPER_ARRAYS", "PAPER_BATCHES", "PAPER_PROCESSORS"]

PAPER_ARRAYS = (32, 64, 128, 256)  # LayerPipe, evaluation: 32x32 to 256x256 in powers of two
PAPER_BATCHES = (16, 32, 64, 128, 256)
PAPER_PROCESSORS = tuple(range(2, 13))
OPTIONS = {"algorithm1": {"mode": "strict"}}


def sweep(networks, arrays=PAPER_ARRAYS, *, batches=PAPER_BATCHES, processors=PAPER_PROCESSORS,
          planners=("pipedream", "optimal"), reading="plain", options=None, executor=None, progress=True, **choices):
    """Every plan of a grid: one row for each network, array, batch, processor count and planner.

    Parameters
    ----------
    networks : str, Network or a sequence of them
        Built-in names or networks of your own (`lpkit.read_csv`).
    arrays : int, str, Array or a sequence of them
        ``64`` and ``"64x64"`` stand for a square array with the dataflow of the reading.
    batches, processors : int or sequence of int
    planners : str or sequence of str
        Names in `PLANNERS`.
    reading : str or Reading
        The set of modelling choices (see `READINGS`).
    options : mapping of str to mapping, optional
        Keyword options of a planner, by its name. Without an entry Algorithm 1 runs in its ``strict`` mode: the printed
        steps may give a plan that cannot be run, and its period would mean nothing in a mean.
    executor : concurrent.futures.Executor, optional
        Runs the cells; by default they run here, one after the other.
    progress : bool
        Show a bar on a terminal when the sweep takes longer than a second.
    **choices
        Single modelling choices that replace those of the reading (keywords of `costs`).

    Returns
    -------
    pandas.DataFrame
        Columns network, array, batch, processors, planner, period, total (cycles per mini-batch), speedup
        (total / period), mandatory_bytes, additional_bytes (the paper's accounting), stages.

    Raises
    ------
    ValueError
        If the grid is empty, a network, planner, reading or choice is unknown, `options` name what is no planner or no
        option of it, or a size or count is not a whole number of at least 1.
    TypeError
        If `costs` has no such choice.

    Examples
    --------
    >>> rows = sweep(["sample4"], [32], batches=[32], processors=[3], reading="closest")
    >>> rows[["planner", "period"]].values.tolist()
    [['pipedream', 43467592.0], ['optimal', 32159456.0]]
    """
    networks = [n if isinstance(n, Network) else network(n) for n in several(networks)]
    processors, planners = processor_counts(dict.fromkeys(several(processors))), list(dict.fromkeys(several(planners)))
    jobs = list(product(*map(dict.fromkeys, (networks, several(arrays), several(batches)))))
    if not jobs or not processors or not planners:
        raise ValueError("the sweep is empty; give at least one network, array, batch, processor count and planner")
    read = reading if isinstance(reading, Reading) else named_reading(reading)
    work = partial(_cell, processors=processors, planners=tuple(planners), read=read, choices=choices,
                   options=OPTIONS | _options(options))
    rows = map(work, jobs) if executor is None else executor.map(work, jobs)
    bar = tqdm(rows, total=len(jobs), delay=1, unit="cell", disable=None if progress else True)
    return pd.DataFrame([row for cell in bar for row in cell])


def several(values):
    """`values` as a list; one text, number, network or array stands for itself.

    Examples
    --------
    >>> several("vgg16"), several(range(2))
    (['vgg16'], [0, 1])
    """
    single = isinstance(values, (str, Network, Array)) or not isinstance(values, Iterable)
    return [values] if single or getattr(values, "ndim", 1) == 0 else list(values)


def processor_counts(processors):
    """`processors` as a list of ints of at least 1.

    Examples
    --------
    >>> processor_counts(range(2, 5))
    [2, 3, 4]
    """
    return [whole_number(p, "processors") for p in processors]


def _options(given):
    """`options` of `sweep`, whose planners and keywords must be there."""
    given = {} if given is None else given
    if not isinstance(given, Mapping) or not all(isinstance(own, Mapping) for own in given.values()):
        raise ValueError(f"options is {shown(given)}; it must map names of planners to their keywords, as in "
                         "{'optimal': {'memory': 4e9}}")
    for planner, own in given.items():
        function = PLANNERS[choice(planner, "planner of options", tuple(PLANNERS))]
        known = tuple(inspect.signature(function).parameters)[2:]
        for name in own:
            if name not in known:
                raise unknown_name(name, f"option of {planner}", known)
    return dict(given)


def _cell(job, processors, planners, read, choices, options):
    """The rows of one (network, array, batch)."""
    net, array, batch = job
    settings = {**read.choices(), "dataflow": read.dataflow, **choices}
    array, batch = _array(array, settings.pop("dataflow")), whole_number(batch, "batch")
    head = dict(network=net.name, array=f"{array.rows}x{array.columns}", batch=batch)
    try:
        return [head | row for planner in planners
                for row in _plans(net, array, batch, _items(settings), tuple(processors), planner,
                                  _items(options.get(planner, {})))]
    except ValueError as error:
        raise ValueError(f"{net.name} on {array}, batch {batch}: {error}") from None


def _array(array, dataflow):
    if isinstance(array, Array):
        return array
    return Array.parse(array, dataflow=dataflow) if isinstance(array, str) else Array(array, array, dataflow)


def _items(mapping):
    """A mapping as something that can be looked up in a cache."""
    return tuple(sorted((name, tuple(v) if isinstance(v, list) else v) for name, v in mapping.items()))


@lru_cache(maxsize=4096)
def _plans(net, array, batch, settings, processors, planner, options):
    """The rows of one planner; kept, since claims, figures and explorers walk over the same grids."""
    return [_row(_costs(net, array, batch, settings), p, planner, dict(options)) for p in processors]


@lru_cache(maxsize=64)
def _costs(net, array, batch, settings):
    return costs(net, array, batch=batch, **dict(settings))


def _row(layer_costs, processors, planner, options):
    made = plan(layer_costs, processors, planner, **options)
    traffic = communication(made)
    return dict(processors=processors, planner=planner, period=float(made.period), total=int(layer_costs.total),
                speedup=float(made.speedup), mandatory_bytes=float(traffic.total_mandatory),
                additional_bytes=float(traffic.total_additional), stages=len(made.ends))
