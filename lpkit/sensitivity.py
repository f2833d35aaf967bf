"""The mean gain over a baseline under every combination of modelling choices: which reading gives which number.

Every choice the paper leaves open is an axis; the full product is computed, thousands of cost vectors at a time
(`lpkit.periods`), so that "under which reading does the paper's number come out" is a question with an answer.
"""

from collections.abc import Mapping
from itertools import product

import numpy as np
import pandas as pd

from lpkit.checks import choice, shown, unknown_name
from lpkit.costs import costs, work_grid
from lpkit.networks import Network, network
from lpkit.periods import algorithm1_periods, equal_layers_periods, optimal_periods, pipedream_periods
from lpkit.sweep import PAPER_ARRAYS, PAPER_PROCESSORS, processor_counts, several
from lpkit.systolic import Array

__all__ = ["SENSITIVITY_CHOICES", "SENSITIVITY_VALUES", "agreement", "sensitivity",
           "sensitivity_summary"]

SENSITIVITY_CHOICES = {
    "first_layer_delta": (False, True),
    "delta": ("col2im", "zero_insert", "phases"),
    "G": ("a", "b"),
    "dataflow": ("ws", "os", "is"),
    "convention": ("exact", "preload_hidden", "scalesim", "scalesim_v1", "ispass20"),
    "batching": ("folded", "per_image"),
    "layers": ("all", "convolutions", "main_path"),
}
BASELINES = {"pipedream": pipedream_periods, "equal_layers": equal_layers_periods}
SENSITIVITY_VALUES = ("mean_gain", "mean_reduction", "best_gain_8", "best_reduction_8")
CHUNK = 256  # cost vectors at a time: what the exact planner sweeps over stays in the processor's cache
PRECISION = 1e-5  # of the exact planner's periods: gains are right to 0.001 %
NEAR = 0.1  # relative distance within which a number counts as the paper's


def sensitivity(networks=("vgg16", "resnet50"), arrays=PAPER_ARRAYS, *, batches=(32,), processors=PAPER_PROCESSORS,
                choices=None):
    """Gain of LayerPipe over a baseline for every combination of choices, baselines and planners.

    Parameters
    ----------
    networks : sequence of str or Network
    arrays : sequence of int
        Sizes of square arrays.
    batches, processors : sequence of int
    choices : mapping of str to sequence, optional
        Options of each choice; by default all of `SENSITIVITY_CHOICES`. A choice left out takes all its options.
        ``preload_hidden`` stands for the exact convention with hidden preloads.

    Returns
    -------
    pandas.DataFrame
        One row a combination: the choices, ``baseline``, ``planner``, and of the plans of the grid ``mean_gain``
        (throughput gain: old period over new - 1), ``mean_reduction`` (time reduction: 1 - new over old),
        ``best_gain_8`` and ``best_reduction_8`` (largest with 8 processors; NaN where 8 is not in `processors`).
        Combinations that are not defined (`scalesim_v1` and `preload_hidden` on an os array) are left out.

    Raises
    ------
    ValueError
        If the study is empty, a choice or an option is unknown, or a network, size, batch or processor count is none.

    Examples
    --------
    >>> only = {name: options[:1] for name, options in SENSITIVITY_CHOICES.items()}
    >>> rows = sensitivity(["vgg16"], [32], processors=[2, 8], choices=only)
    >>> rows[["baseline", "planner"]].values.tolist()
    [['pipedream', 'algorithm1'], ['pipedream', 'optimal'], ['equal_layers', 'algorithm1'], ['equal_layers', 'optimal']]
    """
    options = _options(choices)
    combinations = [c for c in (dict(zip(options, v)) for v in product(*options.values())) if _defined(c)]
    nets = [n if isinstance(n, Network) else network(n) for n in several(networks)]
    arrays, batches, processors = several(arrays), several(batches), processor_counts(several(processors))
    if not (combinations and nets and arrays and batches and processors):
        raise ValueError("the study is empty; give at least one network, array, batch, processor count and option")
    periods = [_periods(net, combinations, arrays, batches, max(processors)) for net in nets]
    rows = []
    for baseline, planner in product(BASELINES, ("algorithm1", "optimal")):
        old, new = (np.concatenate([p[name] for p in periods], axis=1) for name in (baseline, planner))
        values = _values(old, new, processors)
        rows += [c | {"baseline": baseline, "planner": planner} | {n: float(v[i]) for n, v in values.items()}
                 for i, c in enumerate(combinations)]
    return pd.DataFrame(rows)


def _options(choices):
    """All options of each choice, those of `choices` in place of the default, checked."""
    given = {} if choices is None else choices
    if not isinstance(given, Mapping):
        raise ValueError(f"choices is {shown(given)}; give a dict such as {{'delta': ['col2im', 'phases']}}")
    options = dict(SENSITIVITY_CHOICES)
    for name, values in given.items():
        if name not in options:
            raise unknown_name(name, "choice", SENSITIVITY_CHOICES)
        options[name] = [choice(value, name, SENSITIVITY_CHOICES[name]) for value in several(values)]
        if not options[name]:
            raise ValueError(f"the choice {name!r} has no option; give at least one, or leave it out for all")
    return options


def _defined(choices):
    return choices["dataflow"] != "os" or choices["convention"] not in ("scalesim_v1", "preload_hidden")


def _periods(net, combinations, arrays, batches, processors):
    """Periods of every planner: name -> array (combinations, grid cells, processors)."""
    result = {}
    for layers in dict.fromkeys(c["layers"] for c in combinations):
        which = [i for i, c in enumerate(combinations) if c["layers"] == layers]
        grids = [_work(net, arrays, batches, combinations[i]) for i in which]
        cells = len(grids[0][0])
        work, delta = (np.concatenate([g[part] for g in grids]) for part in (0, 1))
        found = _planned(work, delta, costs(net, layers=layers).first_consumer, processors)
        for name, rows in found.items():
            table = result.setdefault(name, np.empty((len(combinations), cells, processors)))
            table[which] = rows.reshape(len(which), cells, processors)
    return result


def _work(net, arrays, batches, choices):
    """All work, and delta, of every cell of the grid under one combination: two arrays of shape (cells, L)."""
    choices = dict(choices)
    dataflow = choices.pop("dataflow")
    arrays = [Array(size, size, dataflow) for size in arrays]
    if choices["convention"] == "preload_hidden":
        choices |= {"convention": "exact", "fold_overlap": "preload_hidden"}
    F, G, delta = work_grid(net, arrays, batches, **choices)
    return [w.reshape(-1, w.shape[-1]) for w in (F + G + delta, delta)]


def _planned(work, delta, first_consumer, processors):
    """Periods of all planners for each row; equal rows are planned once."""
    rows, inverse = np.unique(np.hstack([work, delta]), axis=0, return_inverse=True)
    work, delta = np.hsplit(rows, 2)
    reads = {"first_consumer": first_consumer}
    chunks = [slice(i, i + CHUNK) for i in range(0, len(rows), CHUNK)]
    best = [optimal_periods(work[c], delta[c], processors, precision=PRECISION, **reads) for c in chunks]
    found = {name: plan(work, processors) for name, plan in BASELINES.items()}
    found |= {"algorithm1": algorithm1_periods(work, delta, processors, **reads), "optimal": np.concatenate(best)}
    return {name: periods[inverse] for name, periods in found.items()}


def _values(old, new, processors):
    """The four numbers of each combination from periods of shape (combinations, cells, processors)."""
    columns = np.array(processors) - 1
    gain, reduction = (old / new - 1)[:, :, columns], (1 - new / old)[:, :, columns]
    at_8 = [i for i, p in enumerate(processors) if p == 8]
    best = [g[:, :, at_8[0]].max(axis=1) if at_8 else np.full(len(old), np.nan) for g in (gain, reduction)]
    return dict(zip(SENSITIVITY_VALUES, (gain.mean(axis=(1, 2)), reduction.mean(axis=(1, 2)), *best)))


def agreement(frame):
    """Which of the paper's three numbers each combination gives: columns of truth values.

    43 % as a mean throughput gain and 25 % as a mean time reduction count within 10 % (relative); more than 80 % is the
    best throughput gain with 8 processors.

    Parameters
    ----------
    frame : pandas.DataFrame
        From `sensitivity`; its columns ``mean_gain``, ``mean_reduction`` and ``best_gain_8`` are read.

    Examples
    --------
    >>> found = pd.DataFrame({"mean_gain": [0.40], "mean_reduction": [0.255], "best_gain_8": [0.77]})
    >>> agreement(found).iloc[0].tolist()
    [True, True, False, False]
    """
    near = {"gain near 43 %": (frame["mean_gain"] / 0.43 - 1).abs() <= NEAR,
            "reduction near 25 %": (frame["mean_reduction"] / 0.25 - 1).abs() <= NEAR,
            "over 80 % at 8": frame["best_gain_8"] > 0.8}
    return pd.DataFrame(near | {"all three": np.logical_and.reduce(list(near.values()))})


def sensitivity_summary(frame, choices):
    """What each option of each choice does to the mean gain, over all combinations of the others.

    Parameters
    ----------
    frame : pandas.DataFrame
        From `sensitivity`.
    choices : sequence of str
        Columns to go through.

    Returns
    -------
    pandas.DataFrame
        Columns choice, option, mean, least and largest mean gain in percent, how many combinations there are, and of
        how many each column of `agreement` holds.

    Examples
    --------
    >>> only = {name: options[:1] for name, options in SENSITIVITY_CHOICES.items()}
    >>> rows = sensitivity(["sample4"], [32], processors=[2, 4], choices=only | {"delta": ("col2im", "zero_insert")})
    >>> sensitivity_summary(rows, choices=["delta"])[["choice", "option", "readings"]].values.tolist()
    [['delta', 'col2im', 4], ['delta', 'zero_insert', 4]]
    """
    agrees = agreement(frame)
    rows = []
    for name in choices:
        for option, part in frame.groupby(name, sort=False):
            gain = part["mean_gain"]
            rows.append({"choice": name, "option": str(option), "mean gain [%]": 100 * gain.mean(),
                         "least [%]": 100 * gain.min(), "largest [%]": 100 * gain.max(), "readings": len(part)}
                        | agrees.loc[part.index].sum().to_dict())  # fmt: skip
    return pd.DataFrame(rows)
