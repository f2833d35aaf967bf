"""The recorded attack on a frog as the explorer asks for it: which settings there are, what they reached, and when.

Nothing is computed: the records are of `lpkit.attack_tables`, image 0. What was not recorded is not offered.
"""

from functools import cache

import numpy as np

from lpkit.attack_tables import TARGETS, frog_curves, frogs

__all__ = ["DEPTHS", "best_setting", "offered", "recorded", "recorded_curve", "steps_to"]

IMAGE = 0
DEPTHS = (20, 200)
NEAR = {"rtol": 1e-6, "atol": 0}


def offered(K=None, lr=None):
    """What was recorded of PPRS: the K; with `K` its learning rates; with `lr` too the gammas of both.

    Examples
    --------
    >>> offered(), offered(10), offered(10, 1e-3)
    ((2, 10, 100), (1e-05, 0.0001, 0.0003, 0.001), (1e-07, 1e-06, 1e-05, 0.0001, 0.001, 0.01))
    """
    rows = _rows("pprs")
    if K is None:
        return tuple(sorted({int(k) for k in rows["K"]}))
    rows = rows[rows["K"] == K]
    if lr is not None:
        rows = rows[np.isclose(rows["lr"], lr, **NEAR)]
    return tuple(sorted({float(f"{value:.6g}") for value in rows["lr" if lr is None else "gamma"]}))


def best_setting(Delta, K=None, lr=None, gamma=None):
    """K, lr and gamma of the recorded PPRS with the least loss at this depth among those that have what is given.

    Raises
    ------
    ValueError
        If none has what is given.

    Examples
    --------
    >>> best_setting(20), best_setting(200), best_setting(20, lr=1e-4)
    ((10, 0.0003, 0.003), (100, 0.0003, 0.003), (10, 0.0001, 0.001))
    """
    rows, said = _rows("pprs"), []
    rows = rows[rows["Delta"] == Delta]
    for name, value in {"K": K, "lr": lr, "gamma": gamma}.items():
        if value is None:
            continue
        same = np.isclose(rows[name], value, **NEAR)
        if not same.any():
            known = ", ".join(f"{number:g}" for number in sorted(set(rows[name])))
            having = f" with {' and '.join(said)}" if said else ""
            raise ValueError(f"{name} of the frog{having} is {value:g}; recorded are {known}; give one of these, "
                             f"or leave K, lr "
                             "and gamma out for the best")  # fmt: skip
        rows, said = rows[same], [*said, f"{name} = {value:g}"]
    K, lr, gamma = rows.groupby(["K", "lr", "gamma"])["tail mean"].mean().idxmin()
    return int(K), float(f"{lr:.6g}"), float(f"{gamma:.6g}")


def recorded(Delta, method, K=1, lr=None, gamma=0.0):
    """The rows of a setting, one a seed; without `lr` those of the learning rate with the least tail mean.

    Examples
    --------
    >>> recorded(20, "pprs", 10, 3e-4, 3e-3)["tail mean"].round(2).tolist(), recorded(20, "gd")["lr"].tolist()
    ([6.83, 6.85, 6.91], [0.0001])
    """
    rows = _rows(method)
    rows = rows[(rows["Delta"] == Delta) & (rows["K"] == K) & np.isclose(rows["gamma"], gamma, **NEAR)]
    lr = rows.loc[rows["tail mean"].idxmin(), "lr"] if lr is None else lr
    return rows[np.isclose(rows["lr"], lr, **NEAR)].sort_values("seed")


def steps_to(target, method, K, lr, gamma):
    """Steps of each seed until its loss was first at most `target`, one of those recorded; inf where it never was.

    Steps do not depend on Delta; the records at the larger one are the longer.

    Examples
    --------
    >>> steps_to(9, "gd", 1, 1e-4, 0.0).tolist(), steps_to(7, "pprs", 10, 1e-3, 1e-4).tolist()
    ([551.0], [inf])
    """
    slots = recorded(DEPTHS[-1], method, K, lr, gamma)[f"time to {_plain(target)}"].to_numpy(float)
    return slots / (2 * (K + DEPTHS[-1] - 1))


def recorded_curve(Delta, method, K, lr, gamma):
    """Loss against time of a setting: ``time``, ``loss``, ``low``, ``high``, and whether these are of a kept curve.

    Curves were kept of the best settings; of the others only when their losses first reached some values.

    Examples
    --------
    >>> recorded_curve(20, "gd", 1, 1e-4, 0.0)[1], recorded_curve(20, "pprs", 10, 1e-3, 1e-2)[1]
    (True, False)
    """
    kept = frog_curves()
    same = (kept["Delta"] == Delta) & (kept["method"] == method) & (kept["K"] == K)
    kept = kept[same & np.isclose(kept["lr"], lr, **NEAR) & np.isclose(kept["gamma"], gamma, **NEAR)]
    if len(kept):
        kept = kept[kept["grid"] == kept["grid"].iloc[0]]
        return kept[["time", "loss", "low", "high"]].reset_index(drop=True), True
    row = recorded(Delta, method, K, lr, gamma).iloc[0]
    hits = [(0.0, row["start"])]
    hits += [(row[f"time to {_plain(t)}"], t) for t in TARGETS if row[f"time to {_plain(t)}"] <= row["time"]]
    import pandas as pd

    points = pd.DataFrame(hits, columns=["time", "loss"]).astype(float)
    return points.assign(low=points["loss"], high=points["loss"]), False


@cache
def _rows(method):
    rows = frogs()
    return rows[(rows["image"] == IMAGE) & (rows["method"] == method)]


def _plain(target):
    return f"{float(target):g}"
