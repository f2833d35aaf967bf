"""What the notebook of measured profiles computes, against numbers found without this library and by hand."""

import pandas as pd
import pytest
from matplotlib.colors import to_hex

from lpkit.interop.pipedream import PROFILES
from lpkit.profile_drawings import LOOKS, profile_ratios
from lpkit.profile_measures import granularity_speedups, period_table, profile_periods

PROCESSORS = list(range(2, 13))
# Found with a separate programme (a dynamic programme over cuts, checked against brute force), in ms to one decimal.
VGG16 = {
    "pipedream": [377.0, 235.6, 225.0, 178.7, 178.7, *[178.7] * 6],
    "layerpipe": [354.4, 224.2, 178.9, 158.3, 132.8, *[122.0] * 6],
    "ratio": [1.064, 1.051, 1.257, 1.129, 1.346, *[1.464] * 6],
}


@pytest.fixture(scope="module")
def periods():
    return profile_periods()


def ratios(periods, profile, split="half"):
    return periods[(periods["profile"] == profile) & (periods["split"] == split)]["ratio"]


def test_vgg16_as_found_apart(periods):
    rows = periods[(periods["profile"] == "vgg16") & (periods["split"] == "half")]
    assert rows["processors"].tolist() == PROCESSORS
    for column, digits in (("pipedream", 1), ("layerpipe", 1), ("ratio", 3)):
        assert rows[column].round(digits).tolist() == VGG16[column]
    assert rows["ratio"].mean() == pytest.approx(1.33, abs=0.005)


def test_resnet50_gains_little(periods):
    assert ratios(periods, "resnet50").max() == pytest.approx(1.055, abs=5e-4)
    assert all(ratios(periods, "resnet50", split).max() < 1.065 for split in ("half", "by_forward", "by_gemm"))


@pytest.mark.parametrize("profile, split, mean, largest", [
    ("vgg16", "half", 1.330, 1.464), ("vgg16", "by_forward", 1.409, 1.602), ("vgg16", "by_gemm", 1.300, 1.415),
    ("gnmt", "half", 1.287, 1.471), ("resnet50", "half", 1.023, 1.055), ("resnet50", "by_forward", 1.025, 1.060),
    ("resnet101", "half", 1.015, 1.046), ("densenet121", "half", 1.006, 1.017), ("alexnet", "half", 1.002, 1.024),
])
def test_what_the_notebook_says(periods, profile, split, mean, largest):
    found = ratios(periods, profile, split)
    assert (round(found.mean(), 3), round(found.max(), 3)) == (mean, largest)


def test_a_larger_array_leaves_delta_a_smaller_share():
    rows = profile_periods("vgg16", "by_gemm", array="128x128")
    assert rows["ratio"].mean() == pytest.approx(1.254, abs=5e-4)
    assert (profile_periods("vgg16", "by_gemm")["delta"] > rows["delta"]).all()


def test_no_plan_is_slower_than_pipedreams(periods):
    assert periods["ratio"].min() >= 1 - 1e-12
    theirs = periods.groupby(["profile", "processors"])["pipedream"]
    assert (theirs.max() - theirs.min() < 1e-9).all()  # the same for each split
    assert len(periods) == len(PROFILES) * 3 * len(PROCESSORS)


def test_without_delta_there_is_nothing_to_gain():
    rows = profile_periods(["vgg16", "gnmt"], [0], processors=[3, 8])
    assert rows["ratio"].tolist() == pytest.approx([1, 1, 1, 1], rel=1e-12) and set(rows["delta"]) == {0}


def test_processors_without_a_layer_are_idle(periods):
    rows = periods[(periods["profile"] == "alexnet") & (periods["split"] == "half")].set_index("processors")
    assert rows["layers"].unique().tolist() == [8]
    assert rows.loc[12, ["pipedream", "layerpipe"]].tolist() == rows.loc[8, ["pipedream", "layerpipe"]].tolist()


def test_what_a_layer_is():
    # 4.216 and 11.56: recorded from PipeDream's optimizer; 3.764 and 5.512: 672.5 over periods of the table above.
    found = granularity_speedups(["vgg16", "resnet50"]).round(3)
    assert found["PipeDream states"].tolist() == [4.216, 11.562]
    assert found.loc["vgg16"].tolist() == [3.764, 4.216, 4.216, 5.512, 6.538]
    assert found.loc["resnet50", "LayerPipe fused"] < found.loc["resnet50", "PipeDream states"]


def test_table():
    rows = pd.DataFrame({"profile": "net", "split": ["half", "half", 0.2, 0.2], "processors": [2, 3, 2, 3],
                         "pipedream": [4.0, 3, 4, 3], "layerpipe": [2.0, 2, 4, 2], "ratio": [2, 1.5, 1, 1.5]})
    table = period_table(rows)
    assert table.index.tolist() == [("net", "PipeDream"), ("net", "LayerPipe half"), ("net", "LayerPipe 0.2")]
    assert table.columns.tolist() == [2, 3, "mean ratio", "largest ratio"]
    assert table.iloc[0, :2].tolist() == [4, 3] and table.iloc[0, 2:].isna().all()
    assert table.iloc[1:].to_numpy().tolist() == [[2, 2, 1.75, 2], [4, 2, 1.25, 1.5]]


def test_figure(periods):
    figure = profile_ratios(periods)
    upper, lower = figure.axes[:3], figure.axes[3:]
    drawn = [[line.get_label() for line in axis.lines[1:]] for axis in (upper[0], lower[0])]
    assert drawn == [list(PROFILES), ["alexnet", "densenet121", "resnet50", "resnet101"]]
    assert upper[1].lines[-1].get_ydata().tolist() == ratios(periods, "vgg16", "by_forward").tolist()
    colors = [{line.get_label(): line.get_color() for line in axis.lines[1:]} for axis in (upper[2], lower[1])]
    assert colors[0] | colors[1] == colors[0]
    assert [axis.get_title() for axis in upper] == ["split: half", "split: by_forward", "split: by_gemm"]
    assert len({to_hex(color) for color, _, _ in LOOKS}) == len({marker for _, marker, _ in LOOKS}) == len(LOOKS) > 6


def test_figure_of_one_line_has_one_panel(periods):
    one = periods[(periods["profile"] == "vgg16") & (periods["split"] == "half")]
    assert len(profile_ratios(one, title="one").axes) == 1


@pytest.mark.parametrize("call, message", [
    (lambda: profile_periods([]), "there is nothing to plan; give at least one profile, split and processor count"),
    (lambda: profile_periods(processors=[]), "there is nothing to plan; give at least one profile, split and"),
    (lambda: profile_periods("vgg61"), "profile is 'vgg61'; did you mean 'vgg16'?"),
    (lambda: profile_periods("vgg16", "halves"), "split_backward is 'halves'; did you mean 'half'?"),
    (lambda: profile_periods("vgg16", granularity="layers"), "granularity is 'layers'; Known: 'fused', 'nodes'"),
    (lambda: profile_periods("vgg16", processors=[0]), "processors is 0; it must be a whole number from 1"),
])
def test_what_is_wrong_with_a_call(call, message):
    with pytest.raises(ValueError) as error:
        call()
    assert message in str(error.value)
