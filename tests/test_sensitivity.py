"""Every row of the sensitivity study is what costs and planners give, one reading and one plan at a time."""

import math
import random
from functools import cache
from importlib import import_module

import numpy as np
import pandas as pd
import pytest

from lpkit.costs import costs
from lpkit.networks import Add, Concat, Conv, Dense, Flatten, Network, Node, Pool, network
from lpkit.partition import plan
from lpkit.sensitivity import SENSITIVITY_CHOICES, SENSITIVITY_VALUES, agreement, sensitivity, sensitivity_summary
from lpkit.systolic import Array

ARRAYS, BATCHES, PROCESSORS = (8, 24), (2, 5), (2, 3)
BASELINES, PLANNERS = ("pipedream", "equal_layers"), ("algorithm1", "optimal")
CHOICES = list(SENSITIVITY_CHOICES)
FIRST = {name: options[:1] for name, options in SENSITIVITY_CHOICES.items()}


def joined():
    """A residual network with a projection, heavy ends and a dense layer: every option of every choice changes it."""
    return Network("joined", (3, 20, 20), (
        Node("conv1", Conv(24, 5, stride=2, padding=2), ("input",)),
        Node("conv2", Conv(40, 3, stride=2, padding=1), ("conv1",)),
        Node("conv3", Conv(72, 3, padding=1), ("conv2",)),
        Node("project", Conv(72, 1, stride=2), ("conv1",)),
        Node("add", Add(), ("conv3", "project")),
        Node("conv4", Conv(48, 3), ("add",)),
        Node("pool", Pool(3), ("conv4",)), Node("flatten", Flatten(), ("pool",)), Node("fc", Dense(30), ("flatten",)),
    ))  # fmt: skip


NETS = (network("sample4"), joined())


@pytest.fixture(scope="module")
def frame():
    return sensitivity(NETS, ARRAYS, batches=BATCHES, processors=PROCESSORS)


@cache
def period(net, array, batch, reading, processors, planner):
    """Of one plan, from the costs on."""
    settings = dict(reading)
    array = Array(array, array, settings.pop("dataflow"))
    if settings["convention"] == "preload_hidden":
        settings |= {"convention": "exact", "fold_overlap": "preload_hidden"}
    made = plan(costs(net, array, batch=batch, **settings), processors, planner,
                **({"mode": "strict"} if planner == "algorithm1" else {}))
    return float(made.period)


def ratios(row, nets, arrays, batches, processors):
    """Old period over new of every plan of the grid, by brute force."""
    reading = tuple((name, row[name]) for name in CHOICES)
    points = [(net, a, b, reading, p) for net in nets for a in arrays for b in batches for p in processors]
    return np.array([period(*point, row["baseline"]) / period(*point, row["planner"]) for point in points])


def brute(row, **grid):
    found = ratios(row, **grid)
    return [np.mean(found - 1), np.mean(1 - 1 / found)]


def sampled(frame, seed=5):
    """For each option of each choice a few rows."""
    draw, chosen = random.Random(seed), set()
    for name, options in SENSITIVITY_CHOICES.items():
        for option in options:
            chosen |= set(draw.sample(frame.index[frame[name] == option].tolist(), 2))
    return sorted(chosen)


def test_sampled_rows_are_the_plans_one_at_a_time(frame):
    grid = dict(nets=NETS, arrays=ARRAYS, batches=BATCHES, processors=PROCESSORS)
    rows = frame.loc[sampled(frame)]
    assert len(rows) > 30 and rows.groupby(["baseline", "planner"]).ngroups == 4
    expected = np.array([brute(row, **grid) for row in rows.to_dict("records")])
    np.testing.assert_allclose(rows[["mean_gain", "mean_reduction"]], expected, atol=1e-4, rtol=0)


def test_the_rows_differ_in_every_choice(frame):
    """Each choice moves the mean gain of some reading by far more than the tolerance of the test above."""
    for name in [*CHOICES, "baseline", "planner"]:
        others = [n for n in [*CHOICES, "baseline", "planner"] if n != name]
        gain = frame.groupby(others)["mean_gain"].agg(["min", "max"])
        assert (gain["max"] - gain["min"]).max() > 1e-2, name


def test_every_defined_combination_once_and_no_other(frame):
    sizes = {name: len(options) for name, options in SENSITIVITY_CHOICES.items()}
    on_os = math.prod(sizes.values()) // sizes["dataflow"]
    undefined = on_os * 2 // sizes["convention"]
    assert len(frame) == (math.prod(sizes.values()) - undefined) * len(BASELINES) * len(PLANNERS)
    assert not frame.duplicated([*CHOICES, "baseline", "planner"]).any()
    left_out = frame[frame["dataflow"] == "os"]["convention"].unique().tolist()
    assert left_out == ["exact", "scalesim", "ispass20"]
    assert frame.columns.tolist() == [*CHOICES, "baseline", "planner", *SENSITIVITY_VALUES]


@pytest.mark.parametrize("option", [{"convention": "scalesim_v1"}, {"fold_overlap": "preload_hidden"}])
def test_what_is_left_out_has_no_cost(option):
    with pytest.raises(ValueError):
        costs("sample4", Array(32, 32, "os"), **option)


def test_the_optimum_is_never_slower_than_either_other(frame):
    best = frame[frame["planner"] == "optimal"].reset_index(drop=True)
    greedy = frame[frame["planner"] == "algorithm1"].reset_index(drop=True)
    assert (best["mean_gain"] >= greedy["mean_gain"] - 1e-5).all() and (best["mean_gain"] >= -1e-5).all()


def test_the_best_gain_at_eight_processors():
    grid = dict(arrays=(16, 64), batches=(2,), processors=(5, 8))
    found = sensitivity(["vgg11"], **grid, choices=FIRST | {"delta": ["col2im", "zero_insert"]})
    for row in found.to_dict("records"):
        at_8 = ratios(row, nets=[network("vgg11")], arrays=(16, 64), batches=(2,), processors=(8,))
        assert row["best_gain_8"] == pytest.approx(max(at_8 - 1), abs=1e-4)
        assert row["best_reduction_8"] == pytest.approx(max(1 - 1 / at_8), abs=1e-4)
        assert row["mean_gain"] != pytest.approx(np.mean(at_8 - 1), abs=1e-3)  # the mean is over 5 processors too
    assert len(found) == 8


def test_no_gain_at_eight_processors_without_eight(frame):
    assert frame[["best_gain_8", "best_reduction_8"]].isna().all().all()


def test_rows_do_not_depend_on_what_else_is_asked(frame):
    only = FIRST | {"dataflow": ["is"], "convention": ["ispass20"], "layers": ["main_path"]}
    alone = sensitivity(NETS, ARRAYS, batches=BATCHES, processors=PROCESSORS, choices=only)
    same = frame.merge(alone[[*CHOICES, "baseline", "planner"]], on=[*CHOICES, "baseline", "planner"])
    pd.testing.assert_frame_equal(same, alone)


def test_the_order_of_processors_does_not_matter():
    one, other = (sensitivity(["vgg11"], [32], processors=p, choices=FIRST) for p in ((2, 5, 8), (8, 2, 5)))
    pd.testing.assert_frame_equal(one, other)


def test_many_rows_are_planned_in_pieces(monkeypatch, frame):
    monkeypatch.setattr(import_module("lpkit.sensitivity"), "CHUNK", 7)
    only = FIRST | {"delta": SENSITIVITY_CHOICES["delta"], "batching": SENSITIVITY_CHOICES["batching"]}
    pieces = sensitivity(NETS, ARRAYS, batches=BATCHES, processors=PROCESSORS, choices=only)
    same = frame.merge(pieces[[*CHOICES, "baseline", "planner"]], on=[*CHOICES, "baseline", "planner"])
    pd.testing.assert_frame_equal(same, pieces, atol=2e-5)


@pytest.mark.parametrize("change, sentence", [
    (dict(networks=["sampel4"]), "network is 'sampel4'; did you mean 'sample4'?"),
    (dict(processors=[5]), "processors is 5; it must be a whole number from 1 to 4"),
    (dict(processors=[2, 0]), "processors is 0; it must be a whole number from 1"),
    (dict(arrays=[0]), "array rows is 0; it must be a whole number from 1"),
    (dict(batches=[1.5]), "batch is 1.5; it must be a whole number from 1"),
    (dict(choices=FIRST | {"delta": ["col2in"]}), "delta is 'col2in'; did you mean 'col2im'?"),
    (dict(choices=FIRST | {"delta": []}), "the choice 'delta' has no option; give at least one"),
    (dict(choices=FIRST | {"foo": [1]}), "choice is 'foo'; Known: 'first_layer_delta', 'delta'"),
    (dict(choices=FIRST | {"layers": [math.nan]}), "layers is nan; Known: 'all'"),
    (dict(choices=FIRST | {"batching": 5}), "batching is 5; Known: 'folded', 'per_image'"),
    (dict(choices=5), "choices is 5; give a dict such as {'delta': ['col2im', 'phases']}"),
    (dict(choices=FIRST | {"layers": ["dense"]}), "layers is 'dense'; Known: 'all', 'convolutions', 'main_path'"),
])  # fmt: skip
def test_bad_input_gets_one_sentence(change, sentence):
    grid = dict(networks=["sample4"], arrays=[32], processors=[2], choices=FIRST) | change
    with pytest.raises(ValueError) as caught:
        sensitivity(**grid)
    assert str(caught.value).startswith(sentence) and "\n" not in str(caught.value)


def test_an_option_may_stand_without_a_list():
    grid = dict(networks=["sample4"], arrays=[8], processors=[2])
    alone, listed = (sensitivity(**grid, choices=FIRST | {"delta": delta}) for delta in ("phases", ["phases"]))
    pd.testing.assert_frame_equal(alone, listed)


def inception():
    """Four branches that one layer reads first."""
    return Network("inception", (64, 32, 32), (
        Node("stem", Conv(256, 3, padding=1), "input"), Node("a", Conv(256, 3, padding=1), "stem"),
        *(Node(name, Conv(64, 1), "stem") for name in "bcd"), Node("join", Concat(), tuple("abcd")),
        Node("e", Conv(256, 3, padding=1), "join"), Node("f", Conv(64, 1), "e"),
    ))  # fmt: skip


def test_branches_that_are_joined_are_planned_exactly():
    grid = dict(arrays=(32,), batches=(32,), processors=(2, 3, 4, 5))
    rows = sensitivity([inception()], **grid, choices=FIRST)
    for _, row in rows.iterrows():
        expected = pytest.approx(brute(row, nets=[inception()], **grid), rel=2e-5)
        assert row[["mean_gain", "mean_reduction"]].tolist() == expected


# ---- summary ------------------------------------------------------------------------------------------------------


READINGS = pd.DataFrame({
    "G": ["a", "a", "a", "b"], "layers": ["all", "main_path", "all", "all"],
    "mean_gain": [0.40, 0.48, 0.10, 0.386], "mean_reduction": [0.24, 0.28, 0.09, 0.276],
    "best_gain_8": [0.79, 0.81, 0.8, 0.95],
}, index=[3, 1, 4, 9])  # fmt: skip


def test_agreement_by_hand():
    """43 % within a tenth is 38.7 to 47.3 %; 25 % is 22.5 to 27.5 %."""
    found = agreement(READINGS)
    assert found["gain near 43 %"].tolist() == [True, False, False, False]
    assert found["reduction near 25 %"].tolist() == [True, False, False, False]
    assert found["over 80 % at 8"].tolist() == [False, True, False, True]
    edges = READINGS.assign(mean_gain=[0.388, 0.472, 0.386, 0.474], mean_reduction=[0.226, 0.274, 0.224, 0.276],
                            best_gain_8=0.81)
    assert agreement(edges)["all three"].tolist() == [True, True, False, False]
    slower = edges.assign(best_gain_8=[0.8, 0.81, 0.81, 0.81])
    assert agreement(slower)["all three"].tolist() == [False, True, False, False]


def test_summary_by_hand():
    found = sensitivity_summary(READINGS, ["G", "layers"])
    assert found[["choice", "option", "readings"]].values.tolist() == [
        ["G", "a", 3], ["G", "b", 1], ["layers", "all", 3], ["layers", "main_path", 1]]  # fmt: skip
    assert found["mean gain [%]"].round(7).tolist() == [32.6666667, 38.6, 29.5333333, 48.0]
    assert found["least [%]"].tolist() == [10.0, 38.6, 10.0, 48.0]
    assert found["largest [%]"].tolist() == [48.0, 38.6, 40.0, 48.0]
    assert found["gain near 43 %"].tolist() == [1, 0, 1, 0]
    assert found["over 80 % at 8"].tolist() == [1, 1, 1, 1]
    assert found["all three"].tolist() == [0, 0, 0, 0]
