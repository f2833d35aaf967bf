"""Sweeps are the planners one at a time, whoever runs them; summaries are the means a person would work out."""

import io
import math
import re
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from importlib import import_module
from itertools import product
from multiprocessing import get_context

import pandas as pd
import pytest
from pandas.testing import assert_frame_equal
from tqdm import tqdm

from lpkit.costs import READINGS, Reading, costs
from lpkit.networks import Conv, Network, Node, network
from lpkit.partition import communication, optimal, pipedream, plan
from lpkit.summary import flat_from, gains, saturation, speedup_summary
from lpkit.sweep import sweep
from lpkit.systolic import Array

module = import_module("lpkit.sweep")  # the package's attribute of that name is the function
COLUMNS = ["network", "array", "batch", "processors", "planner", "period", "total", "speedup", "mandatory_bytes",
           "additional_bytes", "stages"]  # fmt: skip
GRID = dict(networks=["sample4", "vgg11"], arrays=[16, "32x8"], batches=[4, 32], processors=[4, 1],
            planners=["optimal", "algorithm1", "pipedream"], reading="closest")  # fmt: skip
GRID_RESIDUAL = dict(networks=["resnet18"], arrays=[64], batches=[8], processors=[5])


def one_at_a_time(networks, arrays, batches, processors, planners=("pipedream", "optimal"), reading="plain"):
    """The rows of a sweep by hand, in the documented order."""
    read = READINGS[reading]
    for name, array, batch in product(networks, arrays, batches):
        array = Array.parse(array) if isinstance(array, str) else Array(array, array)
        found = costs(name, array, batch=batch, **read.choices())
        for planner, p in product(planners, processors):
            made = plan(found, p, planner, **({"mode": "strict"} if planner == "algorithm1" else {}))
            traffic = communication(made)
            yield [name, f"{array.rows}x{array.columns}", batch, p, planner, made.period, found.total,
                   found.total / made.period, traffic.total_mandatory, traffic.total_additional, len(made.ends)]


def chain(name, *channels):
    """A network of 3x3 convolutions of so many channels each."""
    inputs = ("input", *(f"conv{l}" for l in range(1, len(channels))))
    nodes = [Node(f"conv{l}", Conv(c, 3, padding=1), (i,)) for l, (c, i) in enumerate(zip(channels, inputs), 1)]
    return Network(name, (3, 16, 16), tuple(nodes))


def cleared():
    module._plans.cache_clear()
    module._costs.cache_clear()


@pytest.fixture(scope="module")
def rows():
    return sweep(**GRID)


# ---- rows ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("grid", [GRID, GRID_RESIDUAL], ids=["chains", "residual"])
def test_rows_are_the_plans_one_at_a_time(grid):
    expected = pd.DataFrame(list(one_at_a_time(**grid)), columns=COLUMNS)
    numbers = {name: float for name in ("period", "speedup", "mandatory_bytes", "additional_bytes")}
    assert_frame_equal(sweep(**grid), expected.astype(numbers), rtol=1e-14)


def test_a_sweep_is_not_empty_of_content(rows):
    """The grid is one on which planners differ and deltas move, or the test above would say little."""
    periods = rows.pivot(index=COLUMNS[:4], columns="planner", values="period")
    assert (periods["optimal"] < periods["pipedream"]).mean() > 0.3
    assert (rows["additional_bytes"] > 0).any() and (rows["additional_bytes"] == 0).any()
    assert (rows["stages"] < rows["processors"]).any()


@pytest.mark.parametrize("pool", [
    lambda: ThreadPoolExecutor(2), lambda: ProcessPoolExecutor(1, mp_context=get_context("spawn")),
], ids=["threads", "processes"])  # fmt: skip
def test_an_executor_gives_the_identical_frame(rows, pool):
    cleared()
    with pool() as executor:
        assert_frame_equal(sweep(**GRID, executor=executor), rows, check_exact=True)


def test_remembered_plans_are_the_same_and_cannot_be_spoilt(rows):
    cleared()
    first = sweep(**GRID)
    first["period"] = 0.0  # a caller may do with its frame what it wants
    hits = module._plans.cache_info().hits
    assert_frame_equal(sweep(**GRID), rows, check_exact=True)
    assert module._plans.cache_info().hits > hits


def test_two_networks_of_one_name_are_not_confused():
    small, large = chain("mine", 8, 8, 8), chain("mine", 8, 64, 8)
    grid = dict(arrays=[16], batches=[2], processors=[2], planners=["optimal"])
    totals = [sweep([net], **grid)["total"].item() for net in (small, large, small)]
    assert totals == [costs(net, Array(16, 16), batch=2).total for net in (small, large, small)]
    assert totals[0] != totals[1]


@pytest.mark.parametrize("options, sentence", [
    ({"opti": {"threshold": 0}}, "planner of options is 'opti'; did you mean 'optimal'"),
    ({"optimal": {"treshold": 0}}, "option of optimal is 'treshold'; did you mean 'threshold'? Known: 'threshold'"),
    ({"pipedream": {"threshold": 0}}, "option of pipedream is 'threshold'; Known: 'bandwidth', 'memory'"),
    ({"equal_layers": {"memory": 1}}, "option of equal_layers is 'memory'; Known: "),
    ({"optimal": 3}, "options is {'optimal': 3}; it must map names of planners to their keywords"),
    ("optimal", "options is 'optimal'; it must map names of planners to their keywords"),
])  # fmt: skip
def test_options_that_no_planner_has_get_a_sentence(options, sentence):
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}"):
        sweep("sample4", 32, batches=32, processors=3, options=options)


def test_options_do_not_leak_from_one_sweep_into_the_next():
    grid = dict(networks=["sample4"], arrays=[32], batches=[32], processors=[3], planners=["optimal"])
    free = sweep(**grid)["period"].item()
    fixed = sweep(**grid, options={"optimal": {"threshold": 0}})["period"].item()
    assert fixed == float(pipedream(costs("sample4"), 3).period) > free == sweep(**grid)["period"].item()


def test_an_own_network_stands_beside_a_built_in_one():
    own = chain("own", 16, 32, 16)
    found = sweep([own, "sample4", network("sample4")], [32], batches=[32], processors=[2], planners=["pipedream"])
    assert found["network"].tolist() == ["own", "sample4"]  # what stands twice in a grid counts once
    assert found["period"][0] == float(pipedream(costs(own), 2).period)
    assert found["period"][1] == float(pipedream(costs("sample4"), 2).period)


@pytest.mark.parametrize("array", [64, "64x64", Array(64, 64)])
def test_an_array_is_a_size_text_or_an_array(array):
    found = sweep(["lenet5"], [array], batches=[8], processors=[2], planners=["optimal"])
    assert found[["array", "period"]].values.tolist() == [["64x64", float(optimal(costs("lenet5", "64x64", batch=8),
                                                                                  2).period)]]


def test_the_dataflow_is_that_of_the_reading_of_the_choice_or_of_the_array():
    def total(array=32, **choices):
        return sweep(["lenet5"], [array], batches=[8], processors=[1], planners=["optimal"], **choices)["total"].item()

    of = {dataflow: costs("lenet5", Array(32, 32, dataflow), batch=8).total for dataflow in ("ws", "os", "is")}
    assert len(set(of.values())) == 3
    assert total() == of["ws"] and total(dataflow="os") == of["os"]
    assert total(reading=Reading("mine", dataflow="is")) == of["is"] == total("32x32", dataflow="is")
    assert total(Array(32, 32, "os"), dataflow="is") == of["os"]  # an array says itself what stays in place


def test_a_choice_replaces_that_of_the_reading():
    one = dict(arrays=[32], batches=[32], processors=[3], planners=["optimal"])
    found = sweep(["sample4"], reading="closest", first_layer_delta=False, **one)["period"].item()
    choices = READINGS["closest"].choices() | {"first_layer_delta": False}
    assert found == float(optimal(costs("sample4", **choices), 3).period)
    assert found != sweep(["sample4"], reading="closest", **one)["period"].item()


def test_algorithm1_is_strict_unless_told_otherwise():
    found = costs("sample4")
    grid = dict(networks=["sample4"], arrays=[32], batches=[32], processors=[3], planners=["algorithm1"])
    assert sweep(**grid)["period"].item() == float(plan(found, 3, "algorithm1", mode="strict").period)
    loose = {"mode": "paper", "alpha": 1.5}
    assert sweep(**grid, options={"algorithm1": loose})["period"].item() == float(
        plan(found, 3, "algorithm1", **loose).period)


@pytest.mark.parametrize("change, sentence", [
    (dict(networks=[]), "the sweep is empty; give at least one network, array, batch, processor count and planner"),
    (dict(arrays=[]), "the sweep is empty"),
    (dict(batches=[]), "the sweep is empty"),
    (dict(processors=[]), "the sweep is empty"),
    (dict(planners=[]), "the sweep is empty"),
    (dict(networks=["sampel4"]), "network is 'sampel4'; did you mean 'sample4'?"),
    (dict(planners=["optimum"]), "planner is 'optimum'; did you mean 'optimal'? Known: 'equal_layers', 'pipedream'"),
    (dict(reading="close"), "reading is 'close'; did you mean 'closest'? Known: 'closest', 'plain'"),
    (dict(processors=[5]), "processors is 5, but there are only 4 layers and a stage holds at least one; give at"),
    (dict(processors=[0]), "processors is 0; it must be a whole number from 1"),
    (dict(processors=[2.5]), "processors is 2.5; it must be a whole number from 1"),
    (dict(batches=[0]), "batch is 0; it must be a whole number from 1"),
    (dict(batches=[float("nan")]), "batch is nan; it must be a whole number from 1"),
    (dict(arrays=[0]), "array rows is 0; it must be a whole number from 1"),
    (dict(arrays=["32x"]), "array is '32x'; it must be ROWSxCOLUMNS, such as 32x32"),
    (dict(delta="col2in"), "delta is 'col2in'; did you mean 'col2im'?"),
])  # fmt: skip
def test_bad_input_gets_one_sentence(change, sentence):
    grid = dict(networks=["sample4"], arrays=[32], batches=[32], processors=[2])
    with pytest.raises(ValueError) as caught:
        sweep(**(grid | change))
    assert sentence in str(caught.value) and "\n" not in str(caught.value)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_bar_only_on_a_terminal_and_only_if_wanted(monkeypatch):
    """The bar waits a second before it shows; here it does not."""
    monkeypatch.setattr(module, "tqdm", lambda rows, **options: tqdm(rows, **(options | {"delay": 0})))
    written = []
    for stderr, progress in ((io.StringIO(), True), (Terminal(), False), (Terminal(), True)):
        monkeypatch.setattr(sys, "stderr", stderr)
        sweep(["sample4"], [32], batches=[32], processors=[2], progress=progress)
        written.append(stderr.getvalue())
    assert written[:2] == ["", ""] and "1/1" in written[2]


def test_a_short_sweep_shows_no_bar(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    sweep(["sample4"], [32], batches=[32], processors=[2])
    assert not sys.stderr.getvalue().strip()


# ---- summaries ----------------------------------------------------------------------------------------------------


def planned(array, processors, planner, period, additional=0.0):
    return dict(reading="mine", network="net", array=array, batch=32, processors=processors, planner=planner,
                period=period, speedup=120.0 / period, additional_bytes=additional)


PLANNED = pd.DataFrame([
    planned("8x8", 2, "pipedream", 100.0), planned("8x8", 2, "optimal", 80.0, 1000.0),
    planned("8x8", 3, "pipedream", 80.0), planned("8x8", 3, "optimal", 40.0, 3000.0),
    planned("9x9", 2, "pipedream", 60.0), planned("9x9", 2, "optimal", 60.0),
    planned("9x9", 3, "pipedream", 60.0), planned("9x9", 3, "optimal", 48.0, 2000.0),
])  # fmt: skip


def test_gains_by_hand():
    found = gains(PLANNED)
    assert found["period ratio"].tolist() == [1, 1.25, 1, 2, 1, 1, 1, 1.25]
    assert found["time reduction"].round(12).tolist() == [0, 0.2, 0, 0.5, 0, 0, 0, 0.2]
    assert found["throughput gain"].tolist() == [0, 0.25, 0, 1, 0, 0, 0, 0.25]
    assert_frame_equal(found[PLANNED.columns], PLANNED)


def test_gains_over_another_baseline():
    found = gains(PLANNED, baseline="optimal")
    assert found["period ratio"].tolist() == [0.8, 1, 0.5, 1, 1, 1, 0.8, 1]


def test_gains_compare_within_a_reading():
    """The same grid points under two readings, as `pandas.concat` of two sweeps with keys gives them."""
    slow = PLANNED.drop(columns="reading")
    fast = slow.assign(period=slow["period"].where(slow["planner"] == "pipedream", slow["period"] / 2))
    found = gains(pd.concat({"slow": slow, "fast": fast}, names=["reading"]))
    assert found.loc[found["reading"] == "slow", "throughput gain"].tolist() == [0, 0.25, 0, 1, 0, 0, 0, 0.25]
    assert found.loc[found["reading"] == "fast", "throughput gain"].tolist() == [0, 1.5, 0, 3, 0, 1, 0, 1.5]


def test_gains_are_those_of_the_plans():
    found = gains(sweep(["sample4"], [32], batches=[32], processors=[3], reading="closest")).set_index("planner")
    cost = costs("sample4", **READINGS["closest"].choices())
    ratio = pipedream(cost, 3).period / optimal(cost, 3).period
    assert math.isclose(found.loc["optimal", "period ratio"], ratio, rel_tol=1e-15)


def test_gains_without_the_baseline():
    with pytest.raises(ValueError, match="^the sweep has no planner 'equal_layers'; add it to planners to compare"):
        gains(PLANNED, "equal_layers")


def test_speedup_summary_by_hand():
    found = speedup_summary(gains(PLANNED))
    assert found.columns.tolist() == ["reading", "network", "method", "quantity", "2", "3", "mean or largest"]
    values = {(row.method, row.quantity): [round(v, 9) for v in row[4:]] for row in found.itertuples(index=False)}
    assert values == {
        ("pipedream", "speedup"): [1.6, 1.75, 1.675],  # (1.2 + 2) / 2, (1.5 + 2) / 2
        ("optimal", "speedup"): [1.75, 2.75, 2.25],  # (1.5 + 2) / 2, (3 + 2.5) / 2
        ("optimal", "throughput gain [%]"): [12.5, 62.5, 37.5],
        ("optimal", "time reduction [%]"): [10.0, 35.0, 22.5],
        ("optimal", "largest gain [%]"): [25.0, 100.0, 100.0],
        ("optimal", "largest additional [kB]"): [1.0, 3.0, 3.0],
    }


def test_speedup_summary_keeps_readings_and_networks_apart():
    other = PLANNED.assign(reading="other", period=PLANNED["period"] / 2, speedup=PLANNED["speedup"] * 2)
    found = speedup_summary(gains(pd.concat([PLANNED, other], ignore_index=True)))
    speedup = found[(found["quantity"] == "speedup") & (found["method"] == "pipedream")]
    assert speedup[["reading", "2"]].values.tolist() == [["mine", 1.6], ["other", 3.2]]
    assert found["reading"].tolist() == sorted(found["reading"])  # the rows of a reading stand together


@pytest.mark.parametrize("name", ["sample4", "lenet5", "vgg11"])
@pytest.mark.parametrize("reading", list(READINGS))
def test_saturation_is_where_the_exact_plans_stop_improving(name, reading):
    found = saturation(name, 64, reading=reading, batch=16)
    cost = costs(name, Array(64, 64), batch=16, **READINGS[reading].choices())
    periods = [optimal(cost, p).period for p in range(1, len(cost) + 1)]
    assert math.isclose(found["LayerPipe limit"], cost.total / periods[-1], rel_tol=1e-12)
    assert found["reached at"] == 1 + periods.index(periods[-1])
    assert math.isclose(found["PipeDream limit"], pipedream(cost, len(cost)).speedup, rel_tol=1e-12)
    assert math.isclose(found["paper's rule"], cost.total / max((cost.F + cost.G).tolist()), rel_tol=1e-12)
    assert (found["reading"], found["network"], found["array"]) == (reading, name, "64x64")
    assert saturation(network(name), 64, reading=reading, batch=16) == found


@pytest.mark.parametrize("values, options, at", [
    ([1.0, 1.9, 2.5, 2.5], {}, 3),
    ([1.0, 1.9, 2.4, 2.5], {}, None),  # the last point still rises: nobody knows whether it settles
    ([1.0, 2.498, 2.499, 2.5], {}, 2),  # within 0.1 %
    ([1.0, 2.498, 2.499, 2.5], {"tolerance": 0.0005}, 3),
    ([1.0, 2.498, 2.499, 2.5], {"tolerance": 0}, None),
    ([2.0, 2.0, 2.0], {}, 1),
    ([2.0], {}, 1),
    ([], {}, None),
])  # fmt: skip
def test_flat_from(values, options, at):
    curve = pd.Series(values, index=range(1, len(values) + 1), dtype=float)
    assert flat_from(curve, **options) == at


@pytest.mark.parametrize("tolerance", [-1, float("nan"), float("inf"), pytest.param(10**5000, id="long"), "a", None])
def test_a_tolerance_is_a_share(tolerance):
    with pytest.raises(ValueError, match="^tolerance is .*; it must be a number from 0 and below 1, such as 0.001$"):
        flat_from(pd.Series([1.0, 2.0]), tolerance=tolerance)


def test_flat_from_gives_a_processor_count_not_a_place():
    assert flat_from(pd.Series([1.0, 3.0, 3.0], index=[2, 7, 12])) == 7
