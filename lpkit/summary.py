"""Summaries of sweeps, as the papers' tables print them: means over a grid, gains, and where speedup saturates."""

import numbers

import pandas as pd

from lpkit.checks import shown
from lpkit.costs import costs
from lpkit.costs import reading as named_reading
from lpkit.partition import optimal
from lpkit.systolic import Array

__all__ = ["gains", "saturation", "speedup_summary", "flat_from"]

GRID = ["reading", "network", "array", "batch", "processors"]


def gains(rows, baseline="pipedream"):
    """What every plan of a sweep gains over the baseline's plan of the same grid point.

    Parameters
    ----------
    rows : pandas.DataFrame
        From `sweep`; a column or index level ``reading`` is kept where there is one.
    baseline : str
        A planner of the sweep.

    Returns
    -------
    pandas.DataFrame
        `rows` and the columns ``period ratio`` (old over new), ``time reduction`` (1 - new over old) and
        ``throughput gain`` (old over new - 1).

    Raises
    ------
    ValueError
        If the sweep has no plans of that baseline.

    Examples
    --------
    >>> import lpkit as lp
    >>> rows = gains(lp.sweep(["sample4"], [32], batches=[32], processors=[3], reading="closest"))
    >>> rows[["planner", "time reduction", "throughput gain"]].round(3).values.tolist()
    [['pipedream', 0.0, 0.0], ['optimal', 0.26, 0.352]]
    """
    rows = rows.reset_index("reading") if "reading" in rows.index.names else rows
    keys = [name for name in GRID if name in rows]
    if baseline not in set(rows["planner"]):
        raise ValueError(f"the sweep has no planner {baseline!r}; add it to planners to compare with it")
    old = rows.loc[rows["planner"] == baseline, [*keys, "period"]].rename(columns={"period": "old"})
    rows = rows.reset_index(drop=True).merge(old, on=keys, how="left", validate="many_to_one")
    ratio = rows["old"] / rows["period"]
    return rows.drop(columns="old").assign(**{"period ratio": ratio, "time reduction": 1 - 1 / ratio,
                                              "throughput gain": ratio - 1})


def speedup_summary(rows):
    """Means over arrays and batches by processor count, one row a (reading, network, method, quantity).

    Parameters
    ----------
    rows : pandas.DataFrame
        From `gains`; without a column ``reading`` the rows count as one.

    Returns
    -------
    pandas.DataFrame
        Columns reading, network, method, quantity, one a processor count, and the mean (or largest) over those.
        Speedup, gain and reduction are means; the largest gain, and the largest additional traffic (the paper's
        accounting, at the bytes an element of the sweep), are those of the grid.

    Examples
    --------
    >>> import lpkit as lp
    >>> rows = gains(lp.sweep(["sample4"], [32], batches=[32], processors=[2, 3]))
    >>> speedup_summary(rows)[["method", "quantity", "2", "3"]].round(2).head(2).values.tolist()
    [['pipedream', 'speedup', 1.89, 2.12], ['optimal', 'speedup', 2.0, 2.57]]
    """
    quantities = {"speedup": ("speedup", "mean", 1), "throughput gain [%]": ("throughput gain", "mean", 100),
                  "time reduction [%]": ("time reduction", "mean", 100),
                  "largest gain [%]": ("throughput gain", "max", 100),
                  "largest additional [kB]": ("additional_bytes", "max", 1e-3)}
    rows, parts = rows if "reading" in rows else rows.assign(reading=""), []
    for quantity, (column, how, scale) in quantities.items():
        chosen = rows if quantity == "speedup" else rows[rows["planner"] != "pipedream"]
        grouped = chosen.groupby(["reading", "network", "planner", "processors"], sort=False)[column]
        table = scale * grouped.agg(how).unstack()
        table["mean" if how == "mean" else "largest"] = scale * chosen.groupby(
            ["reading", "network", "planner"], sort=False)[column].agg(how)
        parts.append(table.rename(columns={"largest": "mean"}).assign(quantity=quantity))
    table = pd.concat(parts).reset_index().rename(columns={"planner": "method", "mean": "mean or largest"})
    order = ["reading", "network", "method", "quantity"]
    table = table[order + [c for c in table.columns if c not in order]]
    return table.sort_values(order[:2], kind="stable", ignore_index=True).rename(columns=str)


def saturation(network, array_size, *, reading="plain", batch=32):
    """How far a network can be sped up at all on processors of one array each, and where that ends.

    Parameters
    ----------
    network : str or Network
    array_size : int
        Rows, and columns, of the array.
    reading : str
        A name in `READINGS`.
    batch : int
        Samples of a mini-batch.

    Returns
    -------
    dict
        ``PipeDream limit``: total work over the heaviest layer; ``LayerPipe limit``: over the saturation period that no
        sharing of deltas undercuts; ``reached at``: the fewest processors that reach it; ``paper's rule``: total work
        over the largest fixed work (F + G) of a layer.

    Raises
    ------
    ValueError
        If a name is unknown or a size is not a whole number of at least 1.

    Examples
    --------
    >>> saturation("sample4", 32, reading="closest")["reached at"]
    4
    """
    read = named_reading(reading)
    cost = costs(network, Array(array_size, array_size, read.dataflow), batch=batch, **read.choices())
    sure = optimal(cost, 1).certificate
    return {"reading": reading, "network": getattr(network, "name", network), "array": f"{array_size}x{array_size}",
            "PipeDream limit": cost.total / int(cost.work.max()),
            "LayerPipe limit": cost.total / float(sure.saturation_period), "reached at": sure.saturates_at,
            "paper's rule": cost.total / int((cost.F + cost.G).max())}


def flat_from(curve, tolerance=0.001):
    """Smallest index of a curve from which it rises by no more than `tolerance` (relative); None if it never settles.

    A curve of one point has settled; one of none has not. A tolerance that is not from 0 and below 1 is refused.

    Parameters
    ----------
    curve : pandas.Series
        Such as speedups, indexed by processors in rising order.
    tolerance : float
        From 0 and below 1.

    Raises
    ------
    ValueError
        If the tolerance is out of range.

    Examples
    --------
    >>> flat_from(pd.Series([1.0, 1.9, 2.5, 2.5], index=[1, 2, 3, 4]))
    3
    """
    if not isinstance(tolerance, numbers.Real) or not 0 <= tolerance < 1:
        raise ValueError(f"tolerance is {shown(tolerance)}; it must be a number from 0 and below 1, such as 0.001")
    if not len(curve):
        return None
    within = curve[curve >= curve.iloc[-1] * (1 - float(tolerance))]
    return None if len(within) == 1 and len(curve) > 1 else int(within.index[0])
