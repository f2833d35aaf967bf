"""What people ask of schedules, side by side: one row a timeline.

Source: LayerPipe (ICCAD 2021), Fig. 6, for what is compared.
"""

from collections.abc import Mapping

import pandas as pd

from lpkit.checks import shown
from lpkit.timeline import Timeline
from lpkit.timeline_paths import boundary_bytes

__all__ = ["timeline_table"]


def timeline_table(timelines):
    """The measures of several timelines as a table.

    A mini-batch of a schedule with a flush is several micro-batches, each with the costs of the plan; without a flush
    it is one. What compares is the speedup, the period of a micro-batch and its megabytes.

    Parameters
    ----------
    timelines : mapping of str to Timeline

    Returns
    -------
    pandas.DataFrame
        schedule (the name given); micro-batches, of a mini-batch; speedup over one processor in the steady state,
        period of a mini-batch and of a micro-batch (None where the timeline is too short to have them), fill, drain and
        latency of a mini-batch (of the one in the middle), as floats in the unit of the costs; bubbles, the share of
        all time; and as text, with spaces between: utilisation in percent and micro-batches in flight of each
        processor, weight versions of each stage (the most of a layer of it), megabytes a micro-batch over each
        boundary.

    Raises
    ------
    ValueError
        If this is no mapping to timelines.

    Examples
    --------
    >>> import lpkit as lp
    >>> from lpkit.schedule import layerpipe
    >>> plan = lp.plan(lp.Costs.from_times([2, 2], 2, [2, 4], cut_bytes=[8e6], unit="cycles"), 2)
    >>> table = timeline_table({"S late": layerpipe(plan, 12, model="1f1b"), "2 S late": layerpipe(plan, 12)})
    >>> columns = ["schedule", "speedup", "period of a micro-batch", "latency of a mini-batch", "weight versions"]
    >>> table[columns].values.tolist()
    [['S late', 1.75, 8.0, 16.0, '2 1'], ['2 S late', 1.75, 8.0, 24.0, '3 1']]
    """
    if not isinstance(timelines, Mapping) or not all(isinstance(line, Timeline) for line in timelines.values()):
        raise ValueError(f"timelines is {shown(timelines)}; give a mapping of names to timelines")
    return pd.DataFrame([{"schedule": name, **_row(line)} for name, line in timelines.items()])


def _row(line):
    return {
        "micro-batches": line.micro_batches, "speedup": _float(line.speedup),
        "period of a mini-batch": _float(line.period), "period of a micro-batch": _float(line.period_of_micro_batch),
        "fill": float(line.fill), "drain": float(line.drain), "latency of a mini-batch": float(line.latency()),
        "bubbles": float(line.bubble_share),
        "utilisation": _listed(round(100 * float(share)) for share in line.utilisation),
        "in flight": _listed(line.in_flight), "weight versions": _listed(_versions(line)),
        "megabytes a micro-batch": _listed(f"{size / 1e6:.3g}" for size in _bytes(line)),
    }  # fmt: skip


def _float(value):
    return None if value is None else float(value)


def _versions(line):
    versions = line.weight_versions
    return [max((versions[layer - 1] for layer in layers), default=0) for layers in line.plan.stages]


def _bytes(line):
    """Over each boundary, both ways, for a micro-batch."""
    crossed = boundary_bytes(line)
    count = line.batches * line.micro_batches
    return [float(crossed.loc[crossed["boundary"] == k, "bytes"].sum()) / count for k in range(1, line.stages)]


def _listed(values):
    return " ".join(map(str, values))
