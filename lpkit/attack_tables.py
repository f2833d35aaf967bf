"""Attacks as tidy tables: one row a setting, the best of them, and curves; of a run here or recorded before.

A setting is judged by its tail mean: the mean of the exact loss over the last tenth of the steps that fit into the
time which all methods are given. The best loss so far would flatter settings that leap about.
"""

import io
import json
from functools import cache, partial

import numpy as np
import pandas as pd

from lpkit.attack_runs import PAPER, budget
from lpkit.checks import read_text
from lpkit.paths import data

__all__ = [
    "GRIDS", "best_settings", "best_table", "curve_rows", "curves_of_best", "frog_curves", "frog_provenance", "frogs",
    "frogs_auto", "frogs_long", "method_name", "on_paper_grid", "results_of_best", "setting_rows", "settings_of",
]  # fmt: skip

TARGETS = (9, 8, 7, 6, 5.5, 5)
CASE = ["image", "Delta", "method", "K"]
GRIDS = ("paper", "half decades")  # the second holds the first


def method_name(method, K=1):
    """As it is written in a legend.

    Examples
    --------
    >>> method_name("gd"), method_name("pprs", 10)
    ('GD', 'PPRS, K = 10')
    """
    return f"PPRS, K = {K}" if method == "pprs" else {"fista": "FISTA-prox"}.get(method, method.upper())


def setting_rows(trace, depths, *, scale="paper", targets=TARGETS):
    """One row a setting and Delta: what it reached in the time that all are given, and when it reached some losses.

    Parameters
    ----------
    trace : Trace
    depths : sequence of int
        Deltas.
    scale : {"paper", "quick"}
        Which `lpkit.attack_runs.budget` of slots is given.
    targets : sequence of float
        Losses.

    Returns
    -------
    list of dict
        `tail mean` is of the first T steps, `tail mean long` of all that were made, `T long`.

    Examples
    --------
    >>> from lpkit.problems import max_affine
    >>> from lpkit.smoothing import gd
    >>> (row,) = setting_rows(gd(max_affine([[1.0]], [1.0]), 8, lr=0.25), [1], scale="quick", targets=[0.5])
    >>> row["T"], *(float(row[name]) for name in ("start", "tail mean", "time to 0.5"))
    (8, 1.0, 0.0, 4.0)
    """
    return [row for depth in depths for row in _at_depth(trace, depth, budget(depth, scale), targets)]


def _at_depth(trace, depth, slots, targets):
    time = trace.time(depth)
    within = time <= slots
    T = int(trace.iterations[within][-1])
    tail = trace.values[:, within & (trace.iterations > 0.9 * T)]
    tail = np.where(np.isfinite(tail).all(axis=1), np.nan_to_num(tail).mean(axis=1), np.inf) if T else tail[:, 0]
    hits = {f"time to {target}": trace.time_to_target(target, depth) for target in targets}
    gamma = trace.settings.get("gamma", np.zeros(len(trace)))
    return [{"Delta": depth, "method": trace.method, "K": trace.K, "lr": float(trace.settings["lr"][i]),
             "gamma": float(gamma[i]), "start": trace.values[i, 0], "T": T, "time": int(time[within][-1]),
             "tail mean": tail[i], "T long": int(trace.iterations[-1]), "tail mean long": trace.tail_mean()[i],
             **{name: hit[i] for name, hit in hits.items()}} for i in range(len(trace))]  # fmt: skip


def settings_of(runs, image, depths, *, scale):
    """`setting_rows` of `attack_runs`, with columns `image` and `seed`.

    Parameters
    ----------
    runs : dict of (method, K, seed) to Trace
    image : str
        Its name, for the table.
    depths, scale
        As for `setting_rows`.

    Returns
    -------
    pandas.DataFrame

    Examples
    --------
    >>> from lpkit.problems import max_affine
    >>> from lpkit.smoothing import gd
    >>> runs = {("gd", 1, 0): gd(max_affine([[1.0]], [1.0]), 8, lr=[0.25, 0.5])}
    >>> settings_of(runs, "line", [1, 2], scale="quick")[["image", "Delta", "lr", "seed"]].values.tolist()
    [['line', 1, 0.25, 0], ['line', 1, 0.5, 0], ['line', 2, 0.25, 0], ['line', 2, 0.5, 0]]
    """
    return pd.DataFrame([{"image": image, "seed": seed, **row} for (_, _, seed), trace in runs.items()
                         for row in setting_rows(trace, depths, scale=scale)])  # fmt: skip


def on_paper_grid(frame):
    """Which rows have a learning rate, and a gamma if any, of the paper's grid.

    Returns
    -------
    ndarray of bool, shape (rows,)

    Examples
    --------
    >>> on_paper_grid(pd.DataFrame({"lr": [1e-3, 3e-4, 1e-3], "gamma": [0.0, 1e-3, 3e-3], "K": [1, 2, 2]})).tolist()
    [True, False, False]
    """
    lr, gamma = (np.isclose(frame[name].to_numpy(float)[:, None], PAPER, rtol=1e-6, atol=0).any(axis=1)
                 for name in ("lr", "gamma"))  # fmt: skip
    return lr & (gamma | (frame["K"] == 1).to_numpy())


def best_settings(frame, grid="paper", *, column="tail mean"):
    """The setting with the least tail mean for each image, Delta, method and K: one row each, by the first seed.

    Parameters
    ----------
    frame : pandas.DataFrame
        From `settings_of`, or `frogs`.
    grid : {"paper", "half decades"}
        Which rows may be chosen: those of the paper's grid, or all.
    column : str
        What is to be least.

    Returns
    -------
    pandas.DataFrame
        The rows, with `low` and `high`: least and largest tail mean over the seeds, where there are several.

    Examples
    --------
    >>> rows = pd.DataFrame({"image": "frog", "Delta": 20, "method": "gd", "K": 1, "lr": [1e-3, 1e-4, 3e-4],
    ...                      "gamma": 0.0, "tail mean": [9.0, 6.0, 5.0]})
    >>> [best_settings(rows, grid)["lr"].tolist() for grid in GRIDS]
    [[0.0001], [0.0003]]
    """
    chosen = frame[on_paper_grid(frame)] if grid == "paper" else frame
    seeds = chosen["seed"] if "seed" in chosen else pd.Series(0, index=chosen.index)
    first = chosen[seeds == seeds.min()]
    best = first.loc[first.groupby(CASE, sort=False)[column].idxmin()]
    spread = chosen.groupby([*CASE, "lr", "gamma"])[column].agg(low="min", high="max").reset_index()
    return best.merge(spread, on=[*CASE, "lr", "gamma"], how="left")


def curve_rows(trace, index, depth, slots, *, pieces=60):
    """The losses of one setting against time, thinned: median, least and largest of each of some pieces of the time.

    Parameters
    ----------
    trace : Trace
    index : int
        Which of its settings.
    depth : int
        Delta.
    slots : int
        The time to be shown.
    pieces : int
        At the most, beside the start.

    Returns
    -------
    list of dict
        `time` (the middle record of a piece), `loss`, `low`, `high`; the start is a piece of its own.

    Examples
    --------
    >>> from lpkit.problems import max_affine
    >>> from lpkit.smoothing import gd
    >>> points = curve_rows(gd(max_affine([[1.0]], [1.0]), 4, lr=0.25), 0, 1, 100, pieces=2)
    >>> [(point["time"], point["loss"]) for point in points]
    [(0, 1.0), (4, 0.625), (8, 0.125)]
    """
    time = trace.time(depth)
    records = np.flatnonzero((time <= slots) & np.isfinite(trace.values[index]))
    blocks = [records[:1], *np.array_split(records[1:], min(pieces, max(len(records) - 1, 1)))]
    return [{"time": int(time[block[len(block) // 2]]), "loss": float(np.median(trace.values[index, block])),
             "low": trace.values[index, block].min(), "high": trace.values[index, block].max()}
            for block in blocks if len(block)]  # fmt: skip


def curves_of_best(runs, best, *, scale):
    """`curve_rows` of the settings in `best_settings`, with their columns and `name`.

    Parameters
    ----------
    runs : dict of (method, K, seed) to Trace
    best : pandas.DataFrame
        From `best_settings`.
    scale : {"paper", "quick"}

    Returns
    -------
    pandas.DataFrame
    """
    found = []
    for row in best[[*CASE, "lr", "gamma", "seed"]].to_dict("records"):
        trace, index = _found(runs, row)
        points = curve_rows(trace, index, row["Delta"], budget(row["Delta"], scale))
        found += [{**row, "name": method_name(row["method"], row["K"]), **point} for point in points]
    return pd.DataFrame(found)


def results_of_best(attack, runs, best):
    """What the settings in `best_settings` made of the image: name -> AttackResult of their last point.

    Parameters
    ----------
    attack : LinfAttack
    runs : dict of (method, K, seed) to Trace
    best : pandas.DataFrame
        From `best_settings`, of one image.
    """
    rows = best[[*CASE, "lr", "gamma", "seed"]].to_dict("records")
    places = {method_name(row["method"], row["K"]): _found(runs, row) for row in rows}
    return {name: attack.result(trace.points[index]) for name, (trace, index) in places.items()}


def _found(runs, row):
    """(trace, place in it) of the setting in a row."""
    trace = runs[row["method"], row["K"], row["seed"]]
    gamma = trace.settings.get("gamma", np.zeros(len(trace)))
    near = partial(np.isclose, rtol=1e-4, atol=0)  # learning rates of 1e-9 are not near those of 3e-9
    same = near(trace.settings["lr"], row["lr"]) & near(gamma, row["gamma"])
    return trace, int(np.flatnonzero(same)[0])


def best_table(frame):
    """The best settings as a person reads them: a row an image, Delta and grid, a column a method.

    A cell holds the learning rate, the gamma and the tail mean, with its spread where there are several seeds.

    Parameters
    ----------
    frame : pandas.DataFrame
        As for `best_settings`.

    Returns
    -------
    pandas.DataFrame

    Examples
    --------
    >>> rows = pd.DataFrame({"image": "frog", "Delta": 20, "method": "gd", "K": 1, "lr": [1e-3, 1e-4, 3e-4],
    ...                      "gamma": 0.0, "tail mean": [9.0, 6.0, 5.0]})
    >>> best_table(rows)[["grid", "GD"]].values.tolist()
    [['paper', '6.0 at 1e-4'], ['half decades', '5.0 at 3e-4']]
    """
    frame = frame[frame["method"] != "fista"]
    best = pd.concat([best_settings(frame, grid).assign(grid=grid) for grid in GRIDS])
    best["name"] = [method_name(method, K) for method, K in zip(best["method"], best["K"])]
    best["cell"] = [_cell(row) for row in best.to_dict("records")]
    names = list(dict.fromkeys(best.sort_values("K", kind="stable")["name"]))
    wide = best.pivot(index=["image", "Delta", "grid"], columns="name", values="cell")[names].reset_index()
    return wide.sort_values(["image", "Delta", "grid"], ascending=[True, True, False])


def _cell(row):
    gamma = f", {_power(row['gamma'])}" if row["gamma"] else ""
    low, high = f"{row['low']:.1f}", f"{row['high']:.1f}"
    spread = f" ({low} to {high})" if low != high else ""
    return f"{row['tail mean']:.1f}{spread} at {_power(row['lr'])}{gamma}"


def _power(value):
    """A setting in few characters.

    Examples
    --------
    >>> _power(0.0003), _power(1e-10)
    ('3e-4', '1e-10')
    """
    return f"{value:.0e}".replace("e-0", "e-")


def _record(name):
    """Text of a stored record."""
    return read_text(data() / "records" / name)


def _table(name):
    return pd.read_csv(io.StringIO(_record(name)))


@cache
def frogs():
    """What was recorded of attacks on images 0, 22 and 23 of CIFAR-10, frogs all: one row a setting and Delta.

    With a column `seed`; the best settings were run with several. `frog_provenance` tells how it was made.

    Examples
    --------
    >>> sorted(frogs()["image"].unique().tolist())
    [0, 22, 23]
    """
    frame = _table("pprs_frogs.csv").assign(seed=0)
    more = _table("pprs_frogs_seeds.csv")
    return pd.concat([frame, more], ignore_index=True)


@cache
def frogs_auto():
    """AutoPPRS on the same images in the same time, three seeds: what it reached, as `tail mean`."""
    return _table("pprs_frogs_auto.csv")


@cache
def frogs_long():
    """gd and agd on image 0 with the paper's learning rates, 4,000 steps: `tail mean long` is of the last tenth."""
    return _table("pprs_frogs_long.csv")


@cache
def frog_curves():
    """Loss against time of the best settings on image 0, in the form of `curves_of_best`, with a column `grid`."""
    return _table("pprs_frogs_curves.csv")


@cache
def frog_provenance():
    """How the records were made: images, weights, program."""
    return json.loads(_record("pprs_frogs.json"))
