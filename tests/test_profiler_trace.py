"""Traces of real runs: read whole or refused in one sentence, and laid over what was planned."""

import gzip
import json
import math

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from lpkit.costs import Costs
from lpkit.interop import profiler_trace
from lpkit.interop.overlay import overlay, planned_spans
from lpkit.interop.profiler_trace import COLUMNS, read_profiler_trace
from lpkit.partition import Plan
from lpkit.schedule import SCHEDULES, schedule

SPAN = {"ph": "X", "cat": "user_annotation", "pid": 7, "tid": 7}


def span(name, start, duration, **more):
    return SPAN | {"name": f"PP:{name}", "ts": start, "dur": duration} | more


def trace(path, *events, rank=None):
    document = {"schemaVersion": 1, "traceEvents": list(events)}
    if rank is not None:
        document["distributedInfo"] = {"backend": "gloo", "rank": rank, "world_size": 2}
    text = json.dumps(document)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def test_spans_of_two_ranks(tmp_path):
    noise = [{"ph": "X", "cat": "cpu_op", "name": "PP:0F0", "ts": 1, "dur": 1}, {"ph": "M", "name": "process_name"}, 5,
             span("0F0", 3, 4, cat="gpu_user_annotation"), SPAN | {"name": "ProfilerStep#1", "ts": 0, "dur": 9},
             SPAN | {"name": "PP:0NOTHING1", "ts": 0, "dur": 9}, SPAN | {"name": 3, "ts": 0, "dur": 9}]  # fmt: skip
    one = trace(tmp_path / "a.json", *noise, span("0F1", 300, 20), span("0F0", 100, 50), span("0SEND_F0", 160, 1),
                span("0REDUCE_GRAD", 700, 2), span("0F0", 1100, 40), rank=0)  # fmt: skip
    two = trace(tmp_path / "b.json.gz", span("1F0", 170, 50), span("1B0", 230, 60.5), rank=1)
    found = read_profiler_trace(one, two)
    assert found.columns.tolist() == list(COLUMNS)
    expected = [
        (0, 0, "F", 0, 100, 50, 0), (0, 0, "SEND_F", 0, 160, 1, 0), (0, 0, "F", 1, 300, 20, 0),
        (0, 0, "REDUCE_GRAD", -1, 700, 2, 0), (0, 0, "F", 0, 1100, 40, 1),
        (1, 1, "F", 0, 170, 50, 0), (1, 1, "B", 0, 230, 60.5, 0),
    ]  # fmt: skip
    assert found.values.tolist() == [[*row[:4], row[4] / 1e6, row[5] / 1e6, row[6]] for row in expected]


def test_ranks_by_the_place_of_the_file(tmp_path):
    paths = [trace(tmp_path / f"{k}.json", span(f"{k}F0", 0, 1)) for k in range(3)]
    assert read_profiler_trace(*paths)["rank"].tolist() == [0, 1, 2]
    assert read_profiler_trace(*reversed(paths)).stage.tolist() == [2, 1, 0]


def test_a_list_of_events_is_a_trace_too(tmp_path):
    (tmp_path / "list.json").write_text(json.dumps([span("0F0", 0, 1)]))
    assert len(read_profiler_trace(tmp_path / "list.json")) == 1


@pytest.mark.parametrize("text, sentence", [
    ('{"traceEvents": [{"ph": "X"', "line 1 is not JSON (Expecting "),
    ("{}", " is no trace: it has no list 'traceEvents'; export it with torch.profiler"),
    ("7", " is no trace: it has no list 'traceEvents'"),
    ('{"traceEvents": []}', " has no PP: span; profile a step of a torch pipeline schedule"),
    ("[" * 100_000, " is no trace: its lists or numbers are too long"),
    ("[" + "9" * 5000 + "]", " is no trace: its lists or numbers are too long"),
    (json.dumps([span("0F0", "now", 1)]), "ts of PP:0F0 is 'now'; it must be a number of microseconds"),
    (json.dumps([span("0F0", 1, -1)]), "dur of PP:0F0 is -1; it must be a number of microseconds"),
    ('[{"ph": "X", "cat": "user_annotation", "name": "PP:0F0", "ts": NaN, "dur": 1}]',
     "ts of PP:0F0 is nan; it must be"),
    (json.dumps([{k: v for k, v in span("0F0", 1, 1).items() if k != "dur"}]), "dur of PP:0F0 is None; it must be"),
    (json.dumps({"traceEvents": [], "distributedInfo": {"rank": -1}}), "the rank in "),
])  # fmt: skip
def test_what_is_no_trace(text, sentence, tmp_path):
    (tmp_path / "trace.json").write_text(text)
    with pytest.raises(ValueError) as caught:
        read_profiler_trace(tmp_path / "trace.json")
    message = str(caught.value)
    assert sentence in message and str(tmp_path / "trace.json") in message and "\n" not in message
    assert len(message) < 400


def test_packed_files_that_are_broken(tmp_path):
    path = trace(tmp_path / "t.json.gz", span("0F0", 0, 1))
    whole = path.read_bytes()
    for content in (whole[:-9], b"no gzip", whole[:12] + b"\xff" * 20 + whole[32:]):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="t.json.gz' cannot be unpacked; it may have been cut off$"):
            read_profiler_trace(path)
    path.write_bytes(gzip.compress(b"\xff\xfe\xfa"))
    with pytest.raises(ValueError, match="does not hold text; give a trace of torch.profiler$"):
        read_profiler_trace(path)
    with pytest.raises(FileNotFoundError, match="^there is no file"):
        read_profiler_trace(tmp_path / "none.json.gz")
    (tmp_path / "folder.gz").mkdir()
    with pytest.raises(ValueError, match="is no file; give a trace$"):
        read_profiler_trace(tmp_path / "folder.gz")


def test_a_file_is_unpacked_up_to_a_size_only(tmp_path, monkeypatch):
    monkeypatch.setattr(profiler_trace, "LARGEST_FILE", 1000)
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(gzip.compress(b" " * 10**7))
    with pytest.raises(ValueError, match="holds more than 1,000 bytes; profile fewer steps$"):
        read_profiler_trace(path)


def test_one_file_a_rank(tmp_path):
    paths = [trace(tmp_path / f"{k}.json", span("0F0", 0, 1), rank=0) for k in range(2)]
    with pytest.raises(ValueError, match="are both of rank 0; give one file a rank$"):
        read_profiler_trace(*paths)
    with pytest.raises(ValueError, match="^no trace is given; give the file of each rank$"):
        read_profiler_trace()


VALUES = some.none() | some.booleans() | some.integers(-9, 9) | some.floats() | some.text(max_size=3) | some.just([])
KEYS = {"ph": some.just("X") | VALUES, "cat": some.just("user_annotation") | VALUES,
        "name": some.sampled_from(["PP:0F0", "PP:1SEND_B3", "PP:0UNSHARD", "PP:F", "PP:0F" + "9" * 12]) | VALUES,
        "ts": some.integers(0, 99) | VALUES, "dur": some.integers(0, 99) | VALUES}  # fmt: skip


@given(some.lists(some.fixed_dictionaries({}, optional=KEYS) | VALUES, max_size=6))
@settings(max_examples=200, deadline=None)
def test_any_events_are_a_trace_or_refused(tmp_path_factory, events):
    path = tmp_path_factory.mktemp("any") / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    try:
        found = read_profiler_trace(path)
    except ValueError as error:
        assert "\n" not in str(error)
        return
    assert len(found) and (found.duration >= 0).all() and found.start.map(math.isfinite).all()


# ---- overlay ------------------------------------------------------------------------------------------------------


def chain(unit="s"):
    return Plan("by hand", Costs.from_times([4, 3, 5], [2, 3, 4], [0, 4, 3], unit=unit), 2, ends=(2, 3),
                moved=((2, 1, 2, 1),))  # fmt: skip


def as_trace(path, line, *, factor=1.0, steps=1):
    """A trace of a run that does exactly what was planned, `factor` times as slow."""
    spans = planned_spans(line)
    events = [span(f"{row.stage}{row.action}{row.micro_batch}", (row.start + 1000 * n) * factor * 1e6,
                   row.duration * factor * 1e6) for n in range(steps) for row in spans.itertuples()]  # fmt: skip
    return read_profiler_trace(trace(path, *events))


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_run_as_planned(name, tmp_path):
    line = schedule(chain(), name, 4)
    found = overlay(line, as_trace(tmp_path / "t.json", line))
    assert found.scale == 1
    table = found.table.dropna()
    assert table.measured.tolist() == pytest.approx(table.planned.tolist(), abs=1e-9)
    values = {(row.stage, row.measure): row.planned for row in table.itertuples()}
    assert values[1, "F"] == 7 and values[1, "delta + G"] == 2 + 3 + 3  # 1 of delta of layer 2 is moved
    if name in ("layerpipe", "zero_bubble"):
        assert (values[2, "F"], values[2, "delta"], values[2, "G"]) == (5, 3 + 1, 4)
    else:
        assert (values[2, "F"], values[2, "delta + G"]) == (5, 3 + 1 + 4)
    assert values[1, "busy"] == 15 * (1 if name == "sequential" else 4)


def test_the_period_of_a_run(tmp_path):
    line = schedule(chain(), "pipedream", 12)
    table = overlay(line, as_trace(tmp_path / "t.json", line, factor=2)).table
    period = table[table.measure == "period"]
    assert period.planned.tolist() == [15, 15] == [chain().period] * 2 and period.ratio.tolist() == [2, 2]
    bubble = table[table.measure == "bubble"]
    assert bubble.planned.tolist() == pytest.approx(bubble.measured.tolist())


def test_cycles_are_fitted_to_the_run(tmp_path):
    line = schedule(chain("cycles"), "gpipe", micro_batches=3)
    found = overlay(line, as_trace(tmp_path / "t.json", line, factor=1e-3))
    assert found.scale == pytest.approx(1e-3)
    assert found.notes[1] == ("1 cycle is taken as 0.001 s, so that all work takes as long as it did: ratios compare "
                              "stages and operations")  # fmt: skip
    assert found.table.ratio.dropna().tolist() == pytest.approx([1] * found.table.ratio.notna().sum())


def test_waits_show_in_the_median_and_not_in_the_least(tmp_path):
    line = schedule(chain(), "gpipe", micro_batches=3)
    run = as_trace(tmp_path / "t.json", line)
    slow = (run.stage == 1) & (run.action == "F") & (run.micro_batch > 0)
    found = overlay(line, run.assign(duration=run.duration.where(~slow, run.duration + 10)))
    values = {(row.stage, row.measure): row.ratio for row in found.table.itertuples()}
    assert values[2, "F"] == 3 and values[2, "least F"] == 1
    assert any("waits for receives are inside" in note for note in found.notes)


def test_which_step(tmp_path):
    line = schedule(chain(), "gpipe", micro_batches=2)
    run = as_trace(tmp_path / "t.json", line, steps=3)
    run.loc[run.step == 1, "duration"] *= 3
    busy = [overlay(line, run, step=step).table.query("measure == 'busy'").ratio.tolist() for step in (0, 1, 2, None)]
    assert busy == [pytest.approx([r, r]) for r in (1, 3, 1, 1)]
    with pytest.raises(ValueError, match="^step is 3; it must be a whole number from 0 to 2$"):
        overlay(line, run, step=3)


def test_a_run_of_another_plan(tmp_path):
    line = schedule(chain(), "gpipe", micro_batches=2)
    run = as_trace(tmp_path / "t.json", line)
    told = r"^the run has the stages \[0\] and the plan \[0, 1\]; give the traces of all"
    with pytest.raises(ValueError, match=told):
        overlay(line, run[run.stage == 0])
    with pytest.raises(ValueError, match=r"^the run has the micro-batches \[0, 1\] and the plan \[0, 1, 2\]; give"):
        overlay(schedule(chain(), "gpipe", micro_batches=3), run)
    with pytest.raises(ValueError, match="^the run has no F, I, W or B; give the trace of a step"):
        overlay(line, run[run.action == "SEND_F"])
    with pytest.raises(ValueError, match="^the spans have no column 'stage'; give those of read_profiler_trace$"):
        overlay(line, pd.DataFrame())


def test_a_file_that_is_given_twice(tmp_path):
    path = trace(tmp_path / "a.json", span("0F0", 0, 1))
    with pytest.raises(ValueError, match="a.json' is given twice; give one file a rank"):
        read_profiler_trace(path, tmp_path / "." / "a.json")


def planned(unit="s"):
    line = schedule(chain(unit), "one_f_one_b", micro_batches=3)
    return line, planned_spans(line).assign(step=0)


def test_a_run_with_a_hole(tmp_path):
    line, run = planned()
    hole = run.drop(index=run.index[run.action == "B"][0])
    with pytest.raises(ValueError, match="stage 0, micro-batch 0 of the run has F; give a step that was recorded as"):
        overlay(line, hole)
    with pytest.raises(ValueError, match="stage 0, micro-batch 0 of the run has B, B, F, F; give a step"):
        overlay(line, pd.concat([run, run]))


def test_what_cannot_be_laid_over():
    line, run = planned()
    for timeline, spans, message in [
        (None, run, "timeline is None; give a Timeline"),
        (line, None, "spans is None; give the table of read_profiler_trace"),
        (line, run.assign(start=math.nan), "start of the spans holds other values than finite numbers"),
        (line, run.assign(duration="x"), "duration of the spans holds other values than finite numbers"),
    ]:
        with pytest.raises(ValueError, match=f"^{message}"):
            overlay(timeline, spans)
    nothing = Plan("by hand", Costs.from_times([0, 0], 0, 0, unit="cycles"), 2, ends=(1, 2))
    with pytest.raises(ValueError, match="no operation of the timeline takes time, so there is nothing to compare"):
        overlay(schedule(nothing, "one_f_one_b", micro_batches=3), run)
