"""One function a claim of the LayerPipe paper: from the name of a reading to the number found here.

"LayerPipe" is the paper's own Algorithm 1 with every load held to the target (`strict`); what the exact planner adds
is shown beside it in the notebooks. Gains are means over the paper's whole grid of the gain of each plan.
"""

import csv
from functools import cache

import numpy as np

from lpkit.costs import costs, reading
from lpkit.partition import communication, plan
from lpkit.paths import repository
from lpkit.sweep import OPTIONS, PAPER_ARRAYS, PAPER_BATCHES, PAPER_PROCESSORS, sweep
from lpkit.systolic import Array, gemm_cycles

__all__ = []  # used through the ledger: `lpkit.claims`

LAYERPIPE = "algorithm1"
NETWORKS = ("vgg16", "resnet50")


@cache
def sample(read, planner):
    """The plan of the sample network at the paper's setting: three 32x32 arrays, mini-batch 32."""
    choices = reading(read)
    array = Array(32, 32, choices.dataflow)
    return plan(costs("sample4", array, batch=32, **choices.choices()), 3, planner, **OPTIONS.get(planner, {}))


@cache
def grid(read):
    """PipeDream and LayerPipe over the paper's grid, one row a (network, array, batch, processors)."""
    rows = sweep(NETWORKS, planners=("pipedream", LAYERPIPE), reading=read)
    index = ["network", "array", "batch", "processors"]
    wide = rows.pivot(index=index, columns="planner", values=["period", "speedup", "additional_bytes", "total"])
    wide.columns = [f"{value} {planner}" for value, planner in wide.columns]
    wide["gain"] = wide["period pipedream"] / wide[f"period {LAYERPIPE}"] - 1
    wide["reduction"] = 1 - wide[f"period {LAYERPIPE}"] / wide["period pipedream"]
    return wide.reset_index()


def sample_pipedream_period(read):
    return float(sample(read, "pipedream").period)


def sample_layerpipe_period(read):
    return float(sample(read, LAYERPIPE).period)


def sample_mapping(read):
    return float(sample(read, "pipedream").ends == (1, 2, 4))


def sample_balance(read):
    made = sample(read, LAYERPIPE)
    return float(made.period * made.processors / made.costs.total)


def sample_throughput_gain(read):
    return sample_pipedream_period(read) / sample_layerpipe_period(read) - 1


def sample_time_reduction(read):
    return 1 - sample_layerpipe_period(read) / sample_pipedream_period(read)


def sample_additional_bytes(read):
    made = sample(read, LAYERPIPE)
    return float(communication(made).total_additional) / made.costs.bytes_per_element


def sample_additional_share(read):
    traffic = communication(sample(read, LAYERPIPE))
    return float(traffic.total_additional) / float(traffic.total_mandatory)


def scalesim_agreement(read):
    """Share of recorded SCALE-Sim runs whose cycles come out equal; the same under every reading."""
    with open(repository() / "tests" / "golden" / "scalesim_networks.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    height, width, kh, kw, channels, filters, sh, sw, R, C, recorded = (
        np.array([int(row[name]) for row in rows])
        for name in ("ifmap_h", "ifmap_w", "filt_h", "filt_w", "channels", "num_filter", "stride_h", "stride_w",
                     "array_rows", "array_cols", "total_cycles"))
    M = -(-(height - kh + sh) // sh) * -(-(width - kw + sw) // sw)
    found = [gemm_cycles(*gemm, dataflow=row["dataflow"], convention="scalesim")
             for *gemm, row in zip(M, kh * kw * channels, filters, R, C, rows)]
    return float(np.mean(np.array(found) == recorded))


@cache
def vgg16_traffic():
    """(activation, delta, weights): elements of each VGG16 convolution at batch 32."""
    layers = costs("vgg16", batch=32, layers="convolutions", bytes_per_element=1)
    return layers.output_bytes, layers.input_bytes, layers.weight_bytes


def activations_in_megabytes(read):
    activation, _, _ = vgg16_traffic()  # delta^l is as large as a^l
    return float(np.mean((activation >= 1e6) & (activation < 1e9)))


def filters_in_kilobytes(read):
    return float(np.mean(vgg16_traffic()[2] < 1e6))


def filters_smaller(read):
    activation, _, weights = vgg16_traffic()
    return float(np.mean(weights < activation))


def mean_throughput_gain(read):
    return grid(read)["gain"].mean()


def mean_time_reduction(read):
    return grid(read)["reduction"].mean()


def _best(read, column, processors):
    rows = grid(read)
    return rows.loc[rows["processors"] == processors, column].max()


def best_gain_at_8(read):
    return _best(read, "gain", 8)


def best_reduction_at_8(read):
    return _best(read, "reduction", 8)


def best_gain_7_to_9(read):
    return min(_best(read, "gain", p) for p in (7, 8, 9))


def largest_additional_bytes(read):
    return grid(read)[f"additional_bytes {LAYERPIPE}"].max() / 4  # costs are at 4 bytes an element


def _saturation_rule(read, name, arrays=PAPER_ARRAYS):
    """Processors at which the ideal load falls to the largest fixed work, mean over the arrays and batches."""
    choices = reading(read)
    cells = [costs(name, Array(a, a, choices.dataflow), batch=b, **choices.choices())
             for a in arrays for b in PAPER_BATCHES]
    return float(np.mean([c.total // int((c.F + c.G).max()) for c in cells]))


def saturation_rule_vgg16(read):
    return _saturation_rule(read, "vgg16")


def saturation_rule_vgg16_small(read):
    return _saturation_rule(read, "vgg16", (32, 64))


def saturation_rule_resnet50(read):
    return _saturation_rule(read, "resnet50")


def _mean_speedups(read, by):
    """Mean speedups of both methods, indexed by network and `by`."""
    columns = ["speedup pipedream", f"speedup {LAYERPIPE}"]
    return grid(read).groupby(["network", by])[columns].mean()


def _flat_after_11(read, name):
    mean = _mean_speedups(read, "processors").loc[name]
    return float((mean.loc[PAPER_PROCESSORS[-1]] / mean.loc[11]).max())


def flat_after_11_vgg16(read):
    return _flat_after_11(read, "vgg16")


def flat_after_11_resnet50(read):
    return _flat_after_11(read, "resnet50")


def always_better(read):
    mean = _mean_speedups(read, "processors")
    return float((mean[f"speedup {LAYERPIPE}"] > mean["speedup pipedream"] * (1 + 1e-9)).mean())


def _by_array(read, planner):
    """Mean speedup by array size, smallest first, shape (networks, sizes)."""
    mean = _mean_speedups(read, "array")[f"speedup {planner}"].unstack()
    return mean[[f"{size}x{size}" for size in PAPER_ARRAYS]].to_numpy()


def _smaller_is_better(read, planner):
    by_array = _by_array(read, planner)
    return float((by_array[:, :-1] > by_array[:, 1:]).mean())


def smaller_arrays_pipedream(read):
    return _smaller_is_better(read, "pipedream")


def smaller_arrays_layerpipe(read):
    return _smaller_is_better(read, LAYERPIPE)


def smaller_arrays_more_points(read):
    ours, theirs = _by_array(read, LAYERPIPE), _by_array(read, "pipedream")
    return float((ours[:, 0] - ours[:, -1] > theirs[:, 0] - theirs[:, -1]).mean())


def smaller_arrays_more_ratio(read):
    ours, theirs = _by_array(read, LAYERPIPE), _by_array(read, "pipedream")
    return float((ours[:, 0] / ours[:, -1] > theirs[:, 0] / theirs[:, -1]).mean())


def batch_independent(read):
    mean = _mean_speedups(read, "batch").groupby("network")
    return float((mean.max() / mean.min() <= 1.02).to_numpy().mean())

