"""Traces of timelines: every operation where and when it runs; the validator knows nothing of how they are made."""

import json
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from lpkit.costs import READINGS, Costs, costs
from lpkit.interop.chrome_trace import to_chrome_trace, trace_text, write_chrome_trace
from lpkit.interop.trace_check import validate_chrome_trace
from lpkit.partition import Plan, optimal
from lpkit.schedule import SCHEDULES, interleaved, layerpipe, schedule
from lpkit.timeline import KINDS
from lpkit.timeline_paths import crossings, stash_over_time

CLOSEST = READINGS["closest"].choices()


def chain(scale=1, unit="cycles"):
    sizes = dict(weight_bytes=[100, 200, 300], input_bytes=[60, 50, 40], output_bytes=[50, 40, 10])
    times = [np.array(column) * scale for column in ([4, 3, 5], [2, 3, 4], [0, 4, 3])]
    return Costs.from_times(*times, ["a", "b", "c"], unit=unit, **sizes)


def shared(**options):
    """Three layers on two stages, part of whose delta moves."""
    return Plan("by hand", chain(**options), 2, ends=(2, 3), moved=((2, 1, 2, 1),))


def events(document, phase):
    return [event for event in document["traceEvents"] if event["ph"] == phase]


@pytest.mark.parametrize("bandwidth", [None, 7])
@pytest.mark.parametrize("name", SCHEDULES)
def test_every_schedule_gives_a_sound_trace(name, bandwidth):
    for made in (shared(), optimal(costs("sample4", **CLOSEST), 3), optimal(costs("resnet18"), 7)):
        line = schedule(made, name, 3, bandwidth=bandwidth)
        document = json.loads(trace_text(line), parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
        assert document == json.loads(json.dumps(to_chrome_trace(line)))
        assert validate_chrome_trace(document) == ()


@pytest.mark.parametrize("bandwidth", [None, 7])
def test_slices_are_the_operations(bandwidth):
    line = layerpipe(shared(), 4, bandwidth=bandwidth)
    document = to_chrome_trace(line)
    names = {thread["tid"]: thread["args"]["name"]
             for thread in events(document, "M") if thread["name"] == "thread_name"}  # fmt: skip
    found = Counter((e["args"]["op"], e["args"]["layer"], e["pid"], e["args"]["micro-batch"], e["args"]["mini-batch"],
                     e["args"]["weight version"], e["args"]["stage"], round(e["ts"], 9), round(e["ts"] + e["dur"], 9))
                    for e in events(document, "X") if names[e["tid"]] == "compute")  # fmt: skip
    expected = Counter((o.kind, "abc"[o.layer - 1], o.stage, o.micro_batch, o.batch, o.version, o.stage,
                        round(float(o.start), 9), round(float(o.end), 9))
                       for o in line.operations if o.kind not in ("U", "send"))  # fmt: skip
    assert found == expected and sum(found.values()) == 4 * 9
    updates = Counter((e["args"]["layer"], round(e["ts"], 9), e["args"]["weight version"])
                      for e in events(document, "i"))  # fmt: skip
    assert updates == Counter(("abc"[o.layer - 1], round(float(o.start), 9), o.version)
                              for o in line.operations if o.kind == "U")  # fmt: skip
    sent = [e for e in events(document, "X") if names[e["tid"]] != "compute"]
    sends = [o for o in line.operations if o.kind == "send"]
    assert len(sent) == 2 * len(sends) and bool(sends) == bool(bandwidth)
    for o in sends:
        ends = {(e["pid"], names[e["tid"]]) for e in sent if (e["ts"], e["args"]["op"]) == (float(o.start), "send")
                and e["args"]["from"] == o.stage and e["args"]["to"] == o.target}  # fmt: skip
        assert ends == {(o.stage, f"send to {o.target}"), (o.target, f"receive from {o.stage}")}


@pytest.mark.parametrize("bandwidth", [None, 7])
def test_arrows_are_the_crossings(bandwidth):
    line = layerpipe(shared(), 4, bandwidth=bandwidth)
    document, table = to_chrome_trace(line), crossings(line)
    steps = {}
    for event in document["traceEvents"]:
        if event["ph"] in "stf":
            steps.setdefault(event["id"], []).append(event)
    assert len(steps) == len(table) == 16
    words = {"a": "activation", "delta": "delta", "delta''": "delta''", "W": "weights"}
    assert Counter(flow[0]["name"] for flow in steps.values()) == Counter(map(words.get, table.tensor))
    operations = line.operations
    for flow, row in zip(steps.values(), table.itertuples(index=False)):
        for step, place in ((flow[0], row.makes), (flow[-1], row.uses)):
            assert operations[place].start <= step["ts"] <= operations[place].end * (1 + 1e-12)
            assert step["pid"] == operations[place].stage
        assert [step["ph"] for step in flow] == ["s", "f"] if bandwidth is None else ["s", "t", "t", "f"]
        assert flow[-1]["bp"] == "e"


def test_counters_are_what_is_kept():
    line = layerpipe(shared(), 4)
    document = to_chrome_trace(line)
    for stage in (1, 2):
        kept = [(e["ts"], e["args"]["activations"], e["args"]["weights"]) for e in events(document, "C")
                if e["name"] == f"stash of stage {stage} (bytes)" and e["pid"] == stage]  # fmt: skip
        versions = [e["args"]["versions"] for e in events(document, "C")
                    if e["name"] == f"weight versions of stage {stage}"]  # fmt: skip
        table = stash_over_time(line, stage)
        assert kept == list(zip(table.time, table.activation_bytes, table.weight_bytes))
        assert versions == table.weight_versions.tolist()
        assert max(k for _, k, _ in kept) == line.activation_bytes[stage - 1]
        assert max(k for _, _, k in kept) == line.weight_bytes[stage - 1]


def test_names_and_places():
    line = interleaved(Plan("by hand", Costs.from_times([1] * 4, 1, 1, unit="cycles"), 4, ends=(1, 2, 3, 4)),
                       processors=2, micro_batches=2)  # fmt: skip
    document = to_chrome_trace(line)
    names = [e["args"]["name"] for e in events(document, "M") if e["name"] == "process_name"]
    assert names == ["processor 1, stages 1, 3: layer1 + layer3", "processor 2, stages 2, 4: layer2 + layer4"]
    threads = [e["tid"] for e in events(document, "M") if e["name"] == "thread_name"]
    assert len(threads) == len(set(threads)) == 2 and not {1, 2} & set(threads)
    places = [e["args"]["sort_index"] for e in events(document, "M") if e["name"] == "thread_sort_index"]
    assert places == sorted(places)
    assert {e["pid"] for e in events(document, "X")} == {1, 2}


@pytest.mark.parametrize("unit, factor", [("s", 10**6), ("ms", 1000), ("us", 1), ("ns", Fraction(1, 1000))])
def test_times_are_true(unit, factor):
    document = to_chrome_trace(layerpipe(shared(unit=unit), 1))
    first = events(document, "X")[0]
    assert (first["ts"], first["dur"]) == (0, float(4 * factor))
    assert document["otherData"]["time"] == f"times are true, from costs in {unit}"


def test_a_clock_and_what_a_cycle_is_without():
    plain, clocked = (to_chrome_trace(layerpipe(shared(), 1), clock=clock) for clock in (None, 2 * 10**9))
    assert plain["otherData"]["time"] == "1 cycle is shown as 1 us"
    assert clocked["otherData"]["time"] == "times are those of a clock of 2000000000 Hz"
    assert events(clocked, "X")[0]["dur"] == events(plain, "X")[0]["dur"] / 2000 == 0.002
    assert to_chrome_trace(layerpipe(shared(unit="tick"), 1))["otherData"]["time"] == "1 tick is shown as 1 us"


def test_times_that_are_no_whole_cycles():
    made = Plan("by hand", chain(), 2, ends=(2, 3), moved=((2, 1, 2, Fraction(1, 3)),))
    document = to_chrome_trace(layerpipe(made, 2))
    assert validate_chrome_trace(document) == ()
    assert any(e["dur"] == 1 / 3 for e in events(document, "X") if e["args"]["op"] == "delta''")


@pytest.mark.parametrize("arguments, sentence", [
    ({"clock": 0}, "clock is 0; it must be a number of cycles a second, above 0"),
    ({"clock": float("nan")}, "clock is nan; it must be a number"),
    ({"clock": "1e9"}, "clock is '1e9'; it must be a number"),
    ({"clock": True}, "clock is True; it must be a number"),
])  # fmt: skip
def test_no_clock(arguments, sentence):
    with pytest.raises(ValueError, match=f"^{sentence}"):
        to_chrome_trace(layerpipe(shared(), 1), **arguments)


def test_what_cannot_be_shown():
    with pytest.raises(ValueError, match="^the costs are in 'ms', and a clock is for cycles; leave clock out$"):
        to_chrome_trace(layerpipe(shared(unit="ms"), 1), clock=10**9)
    told = r"^the trace would be longer than 2\*\*53 us .*; give a clock, fewer mini-batches"
    with pytest.raises(ValueError, match=told):
        to_chrome_trace(layerpipe(shared(scale=10**15), 1))
    assert validate_chrome_trace(to_chrome_trace(layerpipe(shared(scale=10**15), 1), clock=10**15)) == ()
    with pytest.raises(ValueError, match="^timeline is 'layerpipe'; give a Timeline, as a schedule returns it$"):
        to_chrome_trace("layerpipe")


def test_a_file(tmp_path):
    line = layerpipe(shared(), 2)
    path = write_chrome_trace(line, tmp_path / "trace.json")
    assert json.loads(path.read_text()) == json.loads(json.dumps(to_chrome_trace(line)))
    assert path.read_text().count("\n") == len(to_chrome_trace(line)["traceEvents"]) + 2


TIMES = some.lists(some.tuples(*[some.integers(0, 9)] * 3), min_size=2, max_size=5)


@given(TIMES, some.sampled_from(sorted(SCHEDULES)), some.sampled_from([None, 3]), some.sampled_from(["cycles", "s"]),
       some.integers(1, 3))  # fmt: skip
@settings(max_examples=40, deadline=None)
def test_any_timeline_gives_a_sound_trace(times, name, bandwidth, unit, batches):
    made = optimal(Costs.from_times(*zip(*times), unit=unit, input_bytes=5, weight_bytes=7, output_bytes=5), 2)
    line = schedule(made, name, batches, bandwidth=bandwidth)
    document = to_chrome_trace(line)
    assert validate_chrome_trace(document) == ()
    assert len(events(document, "i")) == np.sum(line.kind == KINDS.index("U"))


# ---- the validator ------------------------------------------------------------------------------------------------

SLICE = {"ph": "X", "name": "F", "cat": "F", "ts": 0, "dur": 8, "pid": 1, "tid": 1}
FLOW = {"name": "a", "cat": "crossing", "id": 1, "pid": 1, "tid": 1}
COUNTER = {"ph": "C", "name": "bytes", "pid": 1, "ts": 0, "args": {"weights": 1}}


def without(event, key):
    return {name: value for name, value in event.items() if name != key}


@pytest.mark.parametrize("broken, sentence", [
    ([5], "event 0 is no object"),
    ([SLICE | {"ph": "Y"}], "event 0 has the phase 'Y'; known are X, M, i, C, s, t, f"),
    *(([without(SLICE, key)], f"event 0 of phase X has no '{key}'") for key in ("name", "ts", "dur", "pid", "tid")),
    ([without(COUNTER, "args")], "event 0 of phase C has no 'args'"),
    ([without(FLOW | {"ph": "s", "ts": 0}, "id")], "event 0 of phase s has no 'id'"),
    ([SLICE | {"ts": "0"}], "ts of event 0 is '0', not a finite number"),
    ([SLICE | {"dur": float("inf")}], "dur of event 0 is inf, not a finite number"),
    ([SLICE | {"dur": True}], "dur of event 0 is True, not a finite number"),
    ([SLICE | {"dur": -1}], "dur of event 0 is -1, below 0"),
    ([SLICE | {"args": {"x": [float("nan")]}}], "event 0 holds a number that is not finite"),
    ([SLICE | {"args": 3}], "args of event 0 is no object"),
    ([{"ph": "M", "name": "process_nam", "pid": 1, "args": {}}],
     "metadata event 0 'process_nam' is unknown or its args"),
    ([COUNTER | {"args": {}}], "counter 'bytes' of event 0 has no values, or other values than numbers"),
    ([COUNTER | {"args": {"x": "1"}}], "counter 'bytes' of event 0 has no values, or other values than numbers"),
    ([SLICE | {"ph": "i", "s": "x"}], "the scope of instant event 0 is 'x'; it must be g, p or t"),
    ([SLICE, FLOW | {"ph": "s", "ts": 1}, FLOW | {"ph": "f", "ts": 2, "bp": "n"}],
     "bp of event 2 is 'n'; it must be e"),
    ([SLICE, SLICE | {"ts": 4, "name": "G"}], "slice 'G' at 4 on process 1, thread 1 starts inside 'F' at 0 and ends"),
    ([SLICE, FLOW | {"ph": "s", "ts": 1}], "flow 'a' 1 has the steps s; it needs s, any t, f"),
    ([SLICE, FLOW | {"ph": "f", "ts": 1}], "flow 'a' 1 has the steps f; it needs s, any t, f"),
    ([SLICE, *(FLOW | {"ph": p, "ts": 1} for p in "sfsf")], "flow 'a' 1 has the steps s f s f; it needs s, any t, f"),
    ([SLICE, FLOW | {"ph": "s", "ts": 5}, FLOW | {"ph": "f", "ts": 2}], "flow 'a' 1 goes back in time"),
    ([SLICE, FLOW | {"ph": "s", "ts": 5}, FLOW | {"ph": "f", "ts": 9}], "flow 'a' 1 at 9 is in no slice of its thread"),
    ([SLICE, FLOW | {"ph": "s", "ts": 5}, FLOW | {"ph": "f", "ts": 6, "tid": 2}], "flow 'a' 1 at 6 is in no slice"),
    ([COUNTER | {"ts": 5}, COUNTER], "counter 'bytes' of process 1 goes back in time, from 5"),
    ([COUNTER, COUNTER | {"args": {"x": 1}}], "counter 'bytes' of process 1 changes its series at 0"),
])  # fmt: skip
def test_the_validator_finds(broken, sentence):
    (problem,) = validate_chrome_trace({"traceEvents": broken})
    assert problem.startswith(sentence)


def test_what_the_validator_lets_pass():
    inner = [SLICE | {"ts": 2, "dur": 3}, SLICE | {"ts": 5, "dur": 3}, SLICE | {"tid": 2, "ts": 4}, SLICE | {"ts": 8}]
    flow = [FLOW | {"ph": "s", "ts": 0}, FLOW | {"ph": "t", "ts": 3, "tid": 2} | {"ts": 4},
            FLOW | {"ph": "f", "ts": 16}]  # fmt: skip
    assert validate_chrome_trace({"traceEvents": [SLICE, *inner, *flow, COUNTER, COUNTER | {"ts": 1}]}) == ()
    assert validate_chrome_trace([SLICE]) == ("the document is no object with a list 'traceEvents'",)
    assert len(validate_chrome_trace({"traceEvents": [3] * 100})) == 20


@pytest.mark.parametrize("event, problem", [
    ({"pid": []}, "pid of event 0 is [], neither text nor a number"),
    ({"tid": {}}, "tid of event 0 is {}, neither text nor a number"),
    ({"name": []}, "name of event 0 is [], neither text nor a number"),
    ({"ph": []}, "event 0 has the phase []; known are X, M, i, C, s, t, f"),
    ({"ph": "M", "name": [], "args": {}}, "name of event 0 is [], neither text nor a number"),
    ({"ph": "s", "cat": {}, "id": 1}, "cat of event 0 is {}, neither text nor a number"),
    ({"ph": "f", "cat": "c", "id": []}, "id of event 0 is [], neither text nor a number"),
    ({"ph": "C", "name": {}, "args": {"a": 1}}, "name of event 0 is {}, neither text nor a number"),
    ({"ts": 10**400}, "ts of event 0 is 1000000000000000000000000"),
    ({"dur": 10**400}, "dur of event 0 is 1000000000000000000000000"),
    ({"args": {"a": [[[math.nan]]]}}, "event 0 holds a number that is not finite"),
])  # fmt: skip
def test_values_of_other_types_are_problems(event, problem):
    slice_ = {"ph": "X", "name": "F", "ts": 0, "dur": 1, "pid": 1, "tid": 1}
    found = validate_chrome_trace({"traceEvents": [slice_ | event]})
    assert len(found) == 1 and found[0].startswith(problem[:40])


def test_lists_that_lie_in_one_another_deeply():
    deep = []
    for _ in range(10**5):
        deep = [deep]
    event = {"ph": "X", "name": "F", "ts": 0, "dur": 1, "pid": 1, "tid": 1, "args": {"deep": deep}}
    assert validate_chrome_trace({"traceEvents": [event]}) == ()
