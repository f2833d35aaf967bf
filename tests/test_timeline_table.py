"""The table of several timelines holds what each of them says."""

import pytest

from lpkit.costs import Costs
from lpkit.partition import Plan, communication
from lpkit.schedule import SCHEDULES, layerpipe, one_f_one_b, schedule
from lpkit.timeline import Timeline
from lpkit.timeline_table import timeline_table


def moved():
    work = Costs.from_times([6, 6, 2], [6, 10, 2], [0, 6, 2], weight_bytes=12e6, input_bytes=30e6, output_bytes=30e6,
                            unit="cycles")
    return Plan("by hand", work, 2, ends=(2, 3), moved=((2, 1, 2, 2),))


def test_a_row_for_each_timeline_in_order():
    lines = {name: schedule(moved(), name, 6) for name in reversed(SCHEDULES)}
    table = timeline_table(lines).set_index("schedule")
    assert list(table.index) == list(lines)
    for name, line in lines.items():
        row = table.loc[name]
        assert row["period of a micro-batch"] == pytest.approx(float(line.period) / line.micro_batches, rel=1e-12)
        assert row["period of a mini-batch"] == float(line.period) and row["micro-batches"] == line.micro_batches
        assert row["speedup"] == pytest.approx(moved().costs.total * line.micro_batches / float(line.period), rel=1e-12)
        assert (row["fill"], row["drain"], row["latency of a mini-batch"]) == (line.fill, line.drain, line.latency(3))
        assert row["bubbles"] == float(line.bubble_share)
        assert row["in flight"] == " ".join(map(str, line.in_flight))
        assert row["utilisation"] == " ".join(f"{100 * float(share):.0f}" for share in line.utilisation)


def test_versions_are_the_most_of_a_stage():
    row = timeline_table({"as derived": layerpipe(moved(), 12)}).iloc[0]
    assert row["weight versions"] == "3 1"


def test_bytes_of_a_micro_batch_are_those_of_the_plan():
    plan = moved()
    told = communication(plan, "full")
    expected = float(told.mandatory[0] + told.additional[0])
    found = timeline_table({"": layerpipe(plan, 5)})["megabytes a micro-batch"].tolist()
    assert found == [f"{expected / 1e6:.3g}"] == ["74"]
    flushed = timeline_table({"": one_f_one_b(plan, 5, micro_batches=4)})["megabytes a micro-batch"].tolist()
    assert flushed == ["71"]  # a and delta 60 and delta'' 10; the weights' 4, once for four micro-batches


def test_a_timeline_without_a_period():
    short = timeline_table({"short": layerpipe(moved(), 1)})
    for column in ("period of a mini-batch", "period of a micro-batch", "speedup"):
        assert short[column].isna().tolist() == [True]


@pytest.mark.parametrize("bad", [None, [], {"a": 3}])
def test_what_is_no_mapping_of_timelines(bad):
    with pytest.raises(ValueError, match="^timelines is .*; give a mapping of names to timelines$"):
        timeline_table(bad)


def test_versions_of_many_layers_are_counted_once(monkeypatch):
    counted = []
    versions = Timeline.weight_versions.fget
    monkeypatch.setattr(Timeline, "weight_versions", property(lambda line: counted.append(1) or versions(line)))
    timeline_table({"layerpipe": layerpipe(moved(), 3)})
    assert len(counted) == 1
