"""A plan in a file says the same numbers as the plan, and a file is whole or not there."""

import csv
import io
import json
import math
import os
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from lpkit.costs import READINGS, Costs, costs
from lpkit.jsonfile import exact, parse_json, to_text
from lpkit.networks import network
from lpkit.partition import PLANNERS, Plan, communication, optimal, pipedream, plan, verify_optimal
from lpkit.plan_reader import check_plan_of, from_dict, read_plan
from lpkit.planfile import COLUMNS, SCHEMA, plan_text, stage_table, to_dict, write_plan
from lpkit.systolic import Array


def measured():
    """Times in seconds, with a period that is no whole number."""
    sizes = dict(weight_bytes=[100, 200, 300, 400], input_bytes=50, output_bytes=[40, 30, 20, 10])
    return Costs.from_times([0.5, 1.25, 0.75, 1], [0.5, 1, 0.25, 1.125], [0, 2.5, 0.7, 1], **sizes)


PLANS = {
    "balanced": lambda: optimal(costs("sample4", **READINGS["closest"].choices()), 3),
    "fractions": lambda: optimal(costs("resnet18", Array(32, 32)), 7),
    "one processor": lambda: optimal(costs("sample4"), 1),
    "no certificate": lambda: pipedream(costs("vgg11"), 4),
    "an empty stage": lambda: plan(costs("resnet18", Array(64, 64), **READINGS["closest"].choices()), 5, "algorithm1"),
    "notes": lambda: plan(costs("vgg11"), 6, "algorithm1", mode="paper"),
    "seconds": lambda: optimal(measured(), 3),
    "links": lambda: pipedream(measured(), 3, bandwidth=10),
    "options": lambda: optimal(costs("vgg11"), 3, threshold=10**6, granularity=3, residual="sum_site", memory=math.inf),
    "another alpha": lambda: plan(costs("vgg11"), 3, "algorithm1", mode="strict", alpha=Fraction(11, 10)),
    "no work": lambda: optimal(Costs.from_times([0, 0], 0, 0, unit="cycles"), 2),
}
each = pytest.mark.parametrize("made", [pytest.param(make(), id=name) for name, make in PLANS.items()])


def read(made, path):
    return json.loads(write_plan(made, path).read_text(), parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def same(written, value):
    """Whether a number of a file is `value`: whole ones as ints and exact, others to the last bit of a float."""
    if Fraction(value).denominator == 1:
        return type(written) is int and written == value
    return type(written) is float and written == float(value)


# ---- the JSON document --------------------------------------------------------------------------------------------


@each
def test_the_document_holds_the_numbers_of_the_plan(made, tmp_path):
    found = read(made, tmp_path / "plan.json")
    assert found == to_dict(made) and found["schema"] == SCHEMA
    assert (found["planner"], found["processors"]) == (made.planner, made.processors)
    work = made.costs
    assert (found["model"], found["unit"], found["cost_source"]) == (work.name, work.unit, work.source)
    assert tuple(found["layers"]) == made.costs.layers and tuple(found["ends"]) == made.ends
    assert found["loads"] == [exact(load) for load in made.loads]
    assert same(found["period"], made.period) and same(found["total"], made.costs.total)
    assert found["speedup"] == float(made.speedup) and tuple(found["notes"]) == made.notes
    assert all(same(stage["load"], load) for stage, load in zip(found["stages"], made.loads, strict=True))
    for move, (layer, source, target, amount) in zip(found["moved"], made.moved, strict=True):
        assert (move["layer"], move["from"], move["to"]) == (layer, source, target)
        assert move["amount"] == exact(amount)


@each
def test_the_certificate_goes_along(made, tmp_path):
    found, sure = read(made, tmp_path / "plan.json")["certificate"], made.certificate
    if sure is None:
        assert found is None
        return
    assert found["period"] == exact(sure.period)
    assert found["average_bound"] == exact(sure.average_bound)
    assert found["saturation_period"] == exact(sure.saturation_period)
    assert found["binding"] == (None if sure.binding is None else list(sure.binding))
    assert (found["saturates_at"], found["text"]) == (sure.saturates_at, sure.text)


@each
def test_stages_account_for_all_work(made):
    rows = to_dict(made)["stages"]
    assert math.isclose(sum(row["load"] for row in rows), made.costs.total, rel_tol=1e-12)
    for row in rows:
        assert math.isclose(row["load"], row["fixed"] + row["delta_kept"] + row["delta_in"], rel_tol=1e-12)
    delta = sum(row["delta_kept"] + row["delta_out"] for row in rows)
    assert math.isclose(delta, made.costs.delta.sum(), rel_tol=1e-12)
    assert math.isclose(sum(r["delta_in"] for r in rows), sum(r["delta_out"] for r in rows), rel_tol=1e-12)
    assert rows[0]["delta_in"] == rows[-1]["delta_out"] == 0


@each
def test_bytes_are_those_of_the_communication(made):
    found, rows = to_dict(made)["communication"], to_dict(made)["stages"]
    paper, full = communication(made), communication(made, "full")
    assert same(found["mandatory_bytes"], paper.total_mandatory)
    assert same(found["additional_bytes_paper"], paper.total_additional)
    assert same(found["additional_bytes_full"], full.total_additional)
    assert [row["mandatory_bytes"] for row in rows] == [*paper.mandatory, 0]
    assert [row["additional_bytes"] for row in rows] == [*map(round, paper.additional), 0]


def test_the_plans_above_cover_what_they_are_named_for():
    made = {name: make() for name, make in PLANS.items()}
    amounts = [amount for *_, amount in made["fractions"].moved]
    assert any(isinstance(a, Fraction) for a in amounts) and any(isinstance(a, int) for a in amounts)
    assert min(map(len, made["an empty stage"].stages)) == 0
    assert made["notes"].notes and made["links"].links and made["no certificate"].certificate is None
    assert made["seconds"].moved and not float(made["seconds"].period).is_integer() and made["no work"].period == 0
    additional = {name: (communication(p).total_additional, communication(p, "full").total_additional)
                  for name, p in made.items()}
    assert any(paper != full for paper, full in additional.values())


# ---- the table of stages ------------------------------------------------------------------------------------------


def test_the_table_by_hand():
    chain = Costs.from_times([4, 2, 2], 1, [0, 6, 1], ["a", "b", "c"], unit="cycles", weight_bytes=100, output_bytes=50)
    made = Plan("by hand", chain, 2, ends=(2, 3), moved=((2, 1, 2, 3),))
    assert stage_table(made).to_dict("records") == [
        {"stage": 1, "layers": "a .. b", "load": 11, "fixed": 8, "delta_kept": 3, "delta_in": 0, "delta_out": 3,
         "out_fraction": 0.5, "mandatory_bytes": 100, "additional_bytes": 50},
        {"stage": 2, "layers": "c", "load": 7, "fixed": 3, "delta_kept": 1, "delta_in": 3, "delta_out": 0,
         "out_fraction": 0.0, "mandatory_bytes": 0, "additional_bytes": 0},
    ]  # fmt: skip


def test_two_deltas_that_leave_a_stage_are_added():
    chain = Costs.from_times([4, 4, 4, 4], 0, [4, 4, 4, 0], unit="cycles")
    chain = replace(chain, first_consumer=np.array([3, 3, 4, 5]))
    made = Plan("by hand", chain, 2, ends=(2, 4), moved=((1, 1, 2, 2), (2, 1, 2, Fraction(3, 2))))
    first, second = stage_table(made).to_dict("records")
    assert (first["delta_out"], first["delta_kept"], second["delta_in"]) == (3.5, 4.5, 3.5)
    assert first["out_fraction"] == 3.5 / 8


@each
def test_the_csv_file_is_the_table(made, tmp_path):
    rows = list(csv.DictReader(io.StringIO(write_plan(made, tmp_path / "stages.csv").read_text())))
    assert list(rows[0]) == stage_table(made).columns.tolist()
    for row, known in zip(rows, to_dict(made)["stages"], strict=True):
        assert row == {name: str(value) for name, value in known.items()}  # ints as ints, floats to the last bit


def test_a_stage_without_a_layer_of_its_own():
    chain = Costs.from_times([4, 4], 0, [0, 6], ["a", "b"], unit="cycles")
    made = Plan("by hand", chain, 3, ends=(1, 2, 2), moved=((2, 2, 3, 5),))
    row = stage_table(made).to_dict("records")[2]
    assert (row["layers"], row["load"], row["fixed"], row["delta_kept"], row["delta_in"]) == ("(none)", 5, 0, 0, 5)


def test_the_document_of_every_planner_is_json(tmp_path):
    for planner in PLANNERS:
        assert read(plan(costs("resnet18"), 6, planner), tmp_path / f"{planner}.json")["planner"].startswith(planner)


# ---- files --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["plan.txt", "plan", "plan.json.gz", "plan.xlsx", ""])
def test_other_names_are_refused(tmp_path, name):
    with pytest.raises(ValueError) as caught:
        write_plan(pipedream(costs("sample4"), 2), tmp_path / name)
    assert str(caught.value).startswith(f"cannot export {str(tmp_path / name)!r}; a plan is written as NAME.json, its")
    assert "\n" not in str(caught.value) and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["trace.json", "schedule.csv", "timeline.csv", "vgg.trace.json"])
def test_a_plan_is_not_written_under_the_name_of_a_timeline(tmp_path, name):
    with pytest.raises(ValueError, match="without a schedule; files named trace.json, schedule.csv, timeline.csv hold"):
        write_plan(pipedream(costs("sample4"), 2), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["plan.json", "plan.csv"])
def test_a_folder_that_cannot_be_written_to(tmp_path, name):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ValueError, match=f"^cannot write '.*/file/{name}': .*; choose a folder you may write to$"):
        write_plan(pipedream(costs("sample4"), 2), tmp_path / "file" / name)
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_folder_in_the_way_of_the_file(tmp_path):
    (tmp_path / "plan.json").mkdir()
    with pytest.raises(ValueError, match="^cannot write '.*/plan.json': "):
        write_plan(pipedream(costs("sample4"), 2), tmp_path / "plan.json")
    assert [p.name for p in tmp_path.iterdir()] == ["plan.json"]


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch):
    path = write_plan(pipedream(costs("sample4"), 2), tmp_path / "plan.json")
    old = path.read_text()

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(ValueError, match="No space left on device; choose a folder"):
            write_plan(pipedream(costs("sample4"), 3), path)
    assert path.read_text() == old and [p.name for p in tmp_path.iterdir()] == ["plan.json"]
    assert write_plan(pipedream(costs("sample4"), 3), path).read_text() != old


def test_folders_are_made(tmp_path):
    path = write_plan(pipedream(costs("sample4"), 2), tmp_path / "new" / "folder" / "plan.json")
    assert json.loads(path.read_text())["ends"] == list(pipedream(costs("sample4"), 2).ends)


def test_text_without_a_file():
    made = pipedream(costs("sample4"), 2)
    assert json.loads(plan_text(made, "any.json")) == to_dict(made)
    assert plan_text(made, "any.csv").splitlines()[0].startswith("stage,layers,load,")


# ---- read back ----------------------------------------------------------------------------------------------------


def assert_equal(one, other):
    """Every field of two plans, costs included, is equal and of one type."""
    for name in ("planner", "processors", "ends", "moved", "notes", "certificate", "links", "options"):
        assert repr(getattr(one, name)) == repr(getattr(other, name)), name  # 2 and 2.0 differ, 1/2 and 0.5 too
    mine, theirs = one.costs, other.costs
    for name in ("name", "layers", "unit", "source", "bytes_per_element"):
        assert getattr(mine, name) == getattr(theirs, name), name
    for name in COLUMNS:
        assert getattr(mine, name).dtype == getattr(theirs, name).dtype, name
        assert getattr(mine, name).tolist() == getattr(theirs, name).tolist(), name
    assert one.loads == other.loads and one.period == other.period


@each
def test_a_plan_comes_back_equal(made, tmp_path):
    path = write_plan(made, tmp_path / "plan.json")
    again = read_plan(path)
    assert_equal(again, made)
    assert plan_text(again, path) == path.read_text()
    if made.certificate is not None:
        assert verify_optimal(again)


@pytest.mark.parametrize("planner", PLANNERS)
@pytest.mark.parametrize("name", ["resnet18", "unet", "mobilenet_v1"])
def test_plans_of_every_planner_come_back_equal(planner, name, tmp_path):
    made = plan(costs(name), 6, planner)
    assert_equal(read_plan(write_plan(made, tmp_path / "plan.json")), made)


TIMES = some.floats(0, 1e12) | some.integers(0, 10**6).map(float)


@given(some.lists(some.tuples(TIMES, TIMES, TIMES), min_size=1, max_size=6), some.integers(1, 6), some.text(max_size=9))
@settings(max_examples=60, deadline=None)
def test_any_measured_chain_comes_back_equal(times, processors, name):
    chain = Costs.from_times(*zip(*times), name=name, layers=[f"{name}{i}" for i in range(len(times))], unit="ms")
    made = optimal(chain, min(processors, len(times)))
    assert_equal(from_dict(parse_json(to_text(to_dict(made)))), made)


def changed(**entries):
    """The document of a small plan with some entries replaced; a function gets the old one."""
    document = json.loads(json.dumps(to_dict(PLANS["fractions"]())))
    return document | {name: new(document[name]) if callable(new) else new for name, new in entries.items()}


def first(**entries):
    return lambda rows: [rows[0] | entries, *rows[1:]]


def without(name):
    return {key: value for key, value in changed().items() if key != name}


BAD = [
    ([1, 2], "it holds a list, not a plan; give a file that lpkit plan --export wrote"),
    ({"schema": "lpkit-plan-1"}, "its schema is 'lpkit-plan-1', which holds no costs; make the plan again"),
    (changed(schema="graph"), "its schema is 'graph'; a plan has the schema 'lpkit-plan-2'"),
    ({}, "its schema is None; a plan has the schema"),
    *((without(name), f"there is no '{name}'; the file may have been cut off or changed")
      for name in ("model", "unit", "cost_source", "planner", "processors", "layers", "ends", "moved", "links",
                   "options", "notes", "costs", "loads")),
    (changed(layers="conv1"), "layers is text; it must be a list"),
    (changed(layers=[]), "there is no layer to cost; give at least one"),
    (changed(layers=lambda names: names[:-1]), "F has shape (21,); it must be (20,), one number a layer"),
    (changed(layers=lambda names: [5, *names[1:]]), "layers[0] is a number; it must be text"),
    (changed(costs=lambda c: c | {"F": c["F"][1:]}), "F has shape (20,); it must be (21,), one number a layer"),
    (changed(costs=lambda c: c | {"F": [True, *c["F"][1:]]}), "F[0] is True; it must be a number"),
    (changed(costs=lambda c: c | {"F": [None, *c["F"][1:]]}), "F[0] is None; it must be a number"),
    (changed(costs=lambda c: c | {"F": ["1", *c["F"][1:]]}), "F[0] is '1'; it must be a number"),
    (changed(costs=lambda c: c | {"F": [[1], *c["F"][1:]]}), "F[0] is [1]; it must be a number"),
    (changed(costs=lambda c: c | {"F": [-1, *c["F"][1:]]}), "F of layer 1 is -1; it must be a finite whole number"),
    (changed(costs=lambda c: c | {"F": [0.5, *c["F"][1:]]}), "F of layer 1 is 0.5; it must be a finite whole number"),
    (changed(costs=lambda c: c | {"F": [10**30, *c["F"][1:]]}), "F is 1000000000000000000000000000000 for one layer"),
    (changed(costs=lambda c: c | {"shared_input": [0] * 21}), "shared_input[0] is 0; it must be true or false"),
    (changed(costs=lambda c: c | {"first_consumer": [1] * 21}), "first_consumer must name a later layer"),
    (changed(costs=lambda c: c | {"bytes_per_element": 0}), "bytes_per_element is 0; it must be above 0"),
    (changed(costs=lambda c: c | {"bytes_per_element": "four"}), "bytes_per_element is 'four'; it must be a number"),
    (changed(costs=lambda c: c | {"F": [c["F"][0] + 1, *c["F"][1:]]}), "loads is ["),
    (changed(processors=0), "processors is 0; it must be a whole number from 1"),
    (changed(processors=2), "there are 7 stages for 2 processors; correct one of them"),
    (changed(processors=True), "processors is a truth value; it must be a number"),
    (changed(ends=[]), "ends is []; stage ends must not fall and must finish with 21, the number of layers"),
    (changed(ends=[3, 2, 21]), "ends is [3, 2, 21]; stage ends must not fall"),
    (changed(ends=[3, 99]), "ends[1] is 99; it must be a whole number from 0 to 21"),
    (changed(ends=["3", 21]), "ends[0] is '3'; it must be a whole number from 0 to 21"),
    (changed(ends=lambda ends: [*ends[:-2], ends[-2] + 1, 21]), "loads is "),
    (changed(moved=[5]), "moved[0] is a number; it must be an object with layer, from, to and amount"),
    (changed(moved=[{"layer": 1}]), "moved[0] has no 'from'; it needs layer, from, to and amount"),
    (changed(moved=first(layer=22)), "layer of moved[0] is 22; it must be a whole number from 1 to 21"),
    (changed(moved=first(to=8)), "'to' of moved[0] is 8; it must be a whole number from 1 to 7"),
    (changed(moved=first(amount="1/0")), "amount of moved[0] is '1/0'; it must be a number, or a fraction as text"),
    (changed(moved=first(amount=None)), "amount of moved[0] is None; it must be a number"),
    (changed(moved=first(amount=-1)), "layer "),
    (changed(moved=first(amount=10**15)), "layer "),
    (changed(links=[-1]), "links[0] is -1; it must be at least 0"),
    (changed(options={"memory": {}}), "memory is {}; it must be a number"),
    (changed(notes=[3]), "notes[0] is a number; it must be text"),
    (changed(certificate=7), "certificate is a number; it must be an object"),
    (changed(period=1), "period is 1; the rest of the file gives "),
    (changed(speedup="fast"), "speedup is 'fast'; the rest of the file gives "),
    (changed(total=1), "total is 1; the rest of the file gives "),
    (changed(loads=lambda loads: [0, *loads[1:]]), "loads is [0, "),
    (changed(stages=first(load=5)), "load of stages[0] is 5; the rest of the file gives "),
    (changed(stages=first(layers="conv9")), "layers of stages[0] is 'conv9'; the rest of the file gives "),
    (changed(communication={"mandatory_bytes": 0}), "communication is {'mandatory_bytes': 0}; the rest of the file"),
]  # fmt: skip


@pytest.mark.parametrize("document, sentence", BAD, ids=lambda value: value[:50] if isinstance(value, str) else "")
def test_a_document_that_is_no_plan_gets_one_sentence(document, sentence, tmp_path):
    (tmp_path / "plan.json").write_text(json.dumps(document))
    with pytest.raises(ValueError) as caught:
        read_plan(tmp_path / "plan.json")
    message = str(caught.value)
    assert message.startswith(f"{str(tmp_path / 'plan.json')!r}: {sentence}"), message
    assert "\n" not in message and len(message) < 500


@pytest.mark.parametrize("text, sentence", [
    ('{"schema": "lpkit-plan-2", "ends": [1,', "line 1 is not JSON (Expecting value); the file may have been cut off"),
    ('{"ends": [1], "ends": [2]}', "the key 'ends' is there twice; keep one"),
    ('{"period": NaN}', "'NaN' is there as a number; numbers must be finite"),
    ('{"period": 1e999}', "'1e999' is there as a number; numbers must be finite"),
    ("9" * 5000, "a number has 5000 digits; at most 400 are allowed"),
    ("[" * 100_000 + "]" * 100_000, "its lists lie in one another too deeply; give a file that lpkit wrote"),
])  # fmt: skip
def test_text_that_is_no_json_gets_one_sentence(text, sentence, tmp_path):
    (tmp_path / "plan.json").write_text(text)
    with pytest.raises(ValueError) as caught:
        read_plan(tmp_path / "plan.json")
    assert str(caught.value) == f"{str(tmp_path / 'plan.json')!r}: {sentence}"


def test_no_such_plan(tmp_path):
    with pytest.raises(FileNotFoundError, match="^there is no file '.*plan.json'; check the path$"):
        read_plan(tmp_path / "plan.json")


def test_a_file_cut_off_anywhere_is_refused(tmp_path):
    text = plan_text(PLANS["balanced"](), "plan.json")
    for length in range(1, len(text) - 2, 37):
        (tmp_path / "plan.json").write_text(text[:length])
        with pytest.raises(ValueError, match="the file may have been cut off"):
            read_plan(tmp_path / "plan.json")


ANY = some.recursive(some.none() | some.booleans() | some.integers(-5, 50) | some.floats(-3, 3) | some.text(max_size=4)
                     | some.sampled_from(["1/2", "0/1", "1/0", "inf", "-1/3"]),
                     lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(max_size=3), inner,
                                                                                     max_size=3),
                     max_leaves=5)  # fmt: skip


def places(value, path=()):
    """Paths to all values of a document."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in inner:
        yield from places(entry, (*path, key))


@given(some.data(), ANY)
@settings(max_examples=300, deadline=None)
def test_a_document_with_anything_in_any_place_is_a_plan_or_refused(data, anything):
    document = json.loads(json.dumps(to_dict(PLANS["seconds"]())))
    path = data.draw(some.sampled_from([path for path in places(document) if path]))
    inner = document
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = anything
    try:
        found = from_dict(document)
    except ValueError as error:
        assert str(error) and "\n" not in str(error) and len(str(error)) < 1000
        return
    assert to_dict(found)["loads"] == document["loads"]  # what is let through is still a plan, and a sound one
    assert min(found.loads) >= 0 and found.ends[-1] == len(found.costs)


def test_a_certificate_that_does_not_hold_is_left_out():
    made = PLANS["balanced"]()
    wrong = to_dict(made)
    wrong["certificate"]["saturates_at"] += 1
    found = from_dict(wrong)
    assert found.certificate is None
    assert found.notes == ("the certificate in the file is left out: planning again gives another one",)
    slow = to_dict(replace(pipedream(made.costs, 3), certificate=made.certificate))
    found = from_dict(slow)
    assert found.certificate is None
    assert found.notes == (f"the certificate in the file is left out: the optimal period is {made.period}",)
    other = to_dict(replace(plan(made.costs, 3, "algorithm1"), certificate=made.certificate))
    assert from_dict(other).notes[-1].endswith("left out: these costs and options give no optimal plan")


def test_a_plan_for_other_costs_is_refused():
    made = plan(costs("vgg11"), 3)
    check_plan_of(made, costs("vgg11"))
    check_plan_of(made, network("vgg11"))
    part = plan(costs("vgg11", layers="convolutions"), 3)
    check_plan_of(part, network("vgg11"))
    cases = [
        (made, costs("vgg11", Array(64, 64)),
         r"the plan has F \d+ for layer 'conv1_1', and 'vgg11 on 64x64 ws, batch 32'"),
        (made, costs("sample4"), "the plan has the layer 'conv1_1', which 'sample4 on .*' has not; make a plan"),
        (made, network("sample4"), "the plan has the layer 'conv1_1', which 'sample4' has not; make a plan for this"),
        (part, costs("vgg11"), "the plan has 8 layers and 'vgg11 on .*' has 11, or in another order; make a plan"),
        (plan(Costs.from_times([1, 2], 1, 1), 2), Costs.from_times([1, 2], 1, 1, unit="ms"),
         "the plan counts in 's', and 'chain' in 'ms'; make a plan"),
    ]  # fmt: skip
    for given_plan, found, message in cases:
        with pytest.raises(ValueError, match=message):
            check_plan_of(given_plan, found)


@pytest.mark.parametrize("change, message", [
    ({"certificate": False}, "certificate is a truth value; it must be an object"),
    ({"certificate": ""}, "certificate is text; it must be an object"),
    ({"certificate": []}, "certificate is a list; it must be an object"),
    ({"links": [1]}, "links has 1 entries; give none, or one for each of 2 boundaries"),
    ({"model": "\ud800"}, "model is '\\ud800', which is not Unicode text; write it again"),
    ({"notes": ["\udfff"]}, "notes[0] is '\\udfff', which is not Unicode text; write it again"),
])  # fmt: skip
def test_entries_that_looked_like_others(change, message):
    with pytest.raises(ValueError) as error:
        from_dict(to_dict(plan(costs("sample4"), 3)) | change)
    assert str(error.value) == message
