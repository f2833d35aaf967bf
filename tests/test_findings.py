"""Sentences with numbers in notebooks and README say what the committed results say."""

import re
from pathlib import Path

import pandas as pd
import pytest

import lpkit as lp
from lpkit.interop.onnx_shipped import model_path
from lpkit.network_graph import layer_graph
from lpkit.notebooks import joined, read_notebook
from lpkit.optimal_graph import optimal_graph
from lpkit.sensitivity import agreement

ROOT = Path(__file__).parents[1]
FINDING = (
    "with inserted zeros ({} to {} %) or in phases ({} to {} %): every other reading gives {} to {} %, while against "
    "an equal-layers split the mean gain is {} to {} %. Of the {} readings {} give 43 %"
)


@pytest.fixture(scope="module")
def readings():
    return pd.read_csv(ROOT / "data" / "results" / "sensitivity.csv")


def percent(gain):
    return [f"{100 * gain.min():.0f}", f"{100 * gain.max():.0f}"]


def finding(readings):
    """The sentence with the numbers of the results."""
    ours = readings[readings["baseline"] == "pipedream"]
    zeros, phases = (ours["first_layer_delta"] & (ours["delta"] == form) for form in ("zero_insert", "phases"))
    ranges = [ours[zeros], ours[phases], ours[~zeros & ~phases], readings[readings["baseline"] == "equal_layers"]]
    numbers = [text for part in ranges for text in percent(part["mean_gain"])]
    return FINDING.format(*numbers, f"{len(readings):,}", agreement(readings)["all three"].sum())


def test_the_finding_of_the_sensitivity_notebook(readings):
    text = joined(read_notebook("sensitivity")["cells"][0]["source"])
    assert finding(readings) in text
    all_three = readings[agreement(readings)["all three"] & (readings["baseline"] == "pipedream")]
    assert f"the {len(all_three)} of these that compare with PipeDream's optimum" in text
    assert all_three["first_layer_delta"].all()
    assert len(re.findall(r"[.;]\s+(?=[A-Z])|\.$", text.split("\n\n")[1].removeprefix("**Finding.** "))) == 2


def test_readings_above_25_percent_without_the_first_delta_cost_dense_layers_image_by_image(readings):
    against = (readings["baseline"] == "pipedream") & ~readings["first_layer_delta"]
    part = readings[against & (readings["mean_gain"] > 0.25)]
    assert len(part) and (part["batching"] == "per_image").all() and (part["layers"] == "all").all()


def test_the_findings_of_the_readme():
    text = " ".join((ROOT / "README.md").read_text().split())
    values = lp.verdicts().set_index("id")
    gain, reduction = values.loc["mean-gain-body-throughput"], values.loc["mean-gain-body-time"]
    assert f"is {gain['closest']:.1%} and its mean time reduction {reduction['closest']:.1%}".replace("%", " %") in text
    sweeps = {r: lp.gains(lp.sweep(["vgg16", "resnet50"], planners=["pipedream", "algorithm1", "optimal"], reading=r))
              for r in lp.READINGS}
    plain = sweeps["plain"][sweeps["plain"]["planner"] == "algorithm1"]
    each = plain.groupby("network")["throughput gain"].mean()
    words = f"gains {gain['plain']:.1%}: {each['vgg16']:.1%} on VGG16, {each['resnet50']:.1%} on ResNet50"
    assert words.replace("%", " %") in text
    closest = sweeps["closest"].groupby("planner")["throughput gain"].mean()
    words = f"exact planner gains {closest['optimal']:.1%} where Algorithm 1 gains {closest['algorithm1']:.1%}"
    assert words.replace("%", " %") in text
    assert f"Moved weights are {values.loc['sample-additional', 'closest']:,.0f} bytes" in text
    assert values.loc["largest-additional", ["closest", "plain"]].min() > 1e6
    found = lp.sample_candidates()
    assert f"({len(found)} networks" in text and found["layer 1"].nunique() == 1
    assert (values.loc[["saturation-flat-vgg16", "saturation-flat-resnet50"], "verdict closest"] == "reproduced").all()
    rows = sweeps["closest"].query("network == 'vgg16' and planner == 'optimal'")
    vgg16 = rows.groupby("processors")["speedup"].mean()
    assert vgg16[12] > 1.01 * vgg16[11]


def test_the_findings_of_the_readme_on_measured_times():
    measured = pd.read_csv(ROOT / "data" / "results" / "measured_profiles.csv")
    ratios = measured[measured["split"] == "half"].groupby("profile")["ratio"]
    text = " ".join((ROOT / "README.md").read_text().split())
    assert f"optimum is {ratios.mean()['vgg16']:.2f} times as fast as PipeDream's on VGG16" in text
    assert f"on ResNet50 it is at most {ratios.max()['resnet50']:.3f} times as fast" in text


@pytest.mark.parametrize("name, processors, words", [
    ("inception_v1", 6, "{:.1f} % faster than the given one on Inception v1 with 6 processors"),
    ("resnet50", 9, "{:.1f} % on ResNet50 with 9"),
])  # fmt: skip
def test_the_findings_of_the_readme_on_orders(name, processors, words):
    model = lp.network(name) if name in lp.NETWORKS else lp.read_onnx(model_path(name))
    cost = lp.costs(model)
    gain = lp.plan(cost, processors).period / optimal_graph(layer_graph(model, cost), processors).period - 1
    assert words.format(100 * float(gain)) in " ".join((ROOT / "README.md").read_text().split())
