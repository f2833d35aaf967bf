"""Runs of plans on a real engine as tables and a drawing: what was sent, and predicted against measured times."""

import numpy as np
import pandas as pd

from lpkit.plans import communication
from lpkit.plots import PLANNER_NAMES, new_figure, styled

__all__ = ["loads_table", "measured_bars", "shift_table"]

CLOSE = 1e-6  # of gradients in single precision, relative


def shift_table(plans, runs, alone):
    """What moving delta over the first boundary sends, against the full accounting, and whether gradients stay equal.

    Parameters
    ----------
    plans : dict of fraction -> Plan
    runs : dict of fraction -> Run
        With one plan each; costs are those of one micro-batch.
    alone : Alone
        The same training in one process.

    Returns
    -------
    pandas.DataFrame
        One row a fraction; bytes of one step, as counted and (``predicted``) of the channels moved.
    """
    return pd.DataFrame([_shift_row(fraction, plans[fraction], run, alone) for fraction, run in runs.items()])


def _shift_row(fraction, plan, run, alone):
    sent, full = run.traffic[0], communication(plan, "full")
    exact = sent.moved / sent.channels / fraction if fraction else 0
    return {
        "shift": fraction, "channels moved": f"{sent.moved} of {sent.channels}",
        f"gradients within {CLOSE:g}": "yes" if run.difference(alone) < CLOSE else "no",
        "activations and errors": sent.activations + sent.errors, "weights": sent.weights,
        "predicted weights": round(float(full.weights[0]) * exact), "delta''": sent.results,
        "predicted delta''": round(float(full.results[0]) * exact * run.micro_batches),
        "additional share": (sent.weights + sent.results) / (sent.activations + sent.errors),
    }  # fmt: skip


def loads_table(plans, runs):
    """Predicted and measured milliseconds for one micro-batch: each stage, and the period, of each planner.

    Parameters
    ----------
    plans : dict of planner -> Plan
        From costs in seconds of one micro-batch.
    runs : dict of planner -> Run

    Returns
    -------
    pandas.DataFrame
        Columns planner, what, predicted ms, measured ms, measured / predicted.
    """
    rows = []
    for planner, run in runs.items():
        whats = [*(f"stage {k}" for k in range(1, run.stages + 1)), "period"]
        predicted, measured = (*plans[planner].loads, plans[planner].period), (*run.busy, run.period)
        rows += [(planner, what, 1e3 * float(p), 1e3 * m, m / float(p))
                 for what, p, m in zip(whats, predicted, measured)]  # fmt: skip
    return pd.DataFrame(rows, columns=["planner", "what", "predicted ms", "measured ms", "measured / predicted"])


@styled
def measured_bars(table):
    """Predicted beside measured, a panel for each planner of `loads_table`.

    Examples
    --------
    >>> rows = [("optimal", "stage 1", 2.0, 2.2, 1.1), ("optimal", "period", 2.0, 2.4, 1.2)]
    >>> columns = ["planner", "what", "predicted ms", "measured ms", "measured / predicted"]
    >>> [axis.get_title() for axis in measured_bars(pd.DataFrame(rows, columns=columns)).axes]
    ['LayerPipe (optimal)']
    """
    planners = list(dict.fromkeys(table["planner"]))
    figure, axes = new_figure(1, len(planners), size=(3.2 * len(planners), 3.0), sharey=True)
    for axis, planner in zip(axes[0], planners):
        own = table[table["planner"] == planner]
        places = np.arange(len(own))
        axis.bar(places - 0.2, own["predicted ms"], width=0.38, color="#56B4E9", label="predicted from the profile")
        axis.bar(places + 0.2, own["measured ms"], width=0.38, color="#E69F00", hatch="///", edgecolor="white",
                 label="measured on two processes")  # fmt: skip
        axis.set_xticks(places, own["what"])
        axis.set_title(PLANNER_NAMES.get(planner, planner))
        axis.grid(axis="x", visible=False)
    axes[0][0].set_ylabel("ms for one micro-batch")
    figure.legend(*axes[0][0].get_legend_handles_labels(), ncols=2, loc="outside lower center")
    return figure
