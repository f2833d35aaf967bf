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

from lpkit.costs import READINGS, Costs, costs
from lpkit.partition import PLANNERS, Plan, communication, optimal, pipedream, plan
from lpkit.planfile import SCHEMA, plan_text, stage_table, to_dict, write_plan
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
    assert same(found["period"], made.period) and same(found["total"], made.costs.total)
    assert found["speedup"] == float(made.speedup) and tuple(found["notes"]) == made.notes
    assert all(same(stage["load"], load) for stage, load in zip(found["stages"], made.loads, strict=True))
    for move, (layer, source, target, amount) in zip(found["moved"], made.moved, strict=True):
        assert (move["layer"], move["from"], move["to"]) == (layer, source, target) and same(move["amount"], amount)


@each
def test_the_certificate_goes_along(made, tmp_path):
    found, sure = read(made, tmp_path / "plan.json")["certificate"], made.certificate
    if sure is None:
        assert found is None
        return
    assert same(found["average_bound"], sure.average_bound)
    assert same(found["saturation_period"], sure.saturation_period)
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


@pytest.mark.parametrize("name", ["plan.txt", "plan", "plan.json.gz", "trace.json", "schedule.csv", "plan.xlsx", ""])
def test_other_names_are_refused(tmp_path, name):
    with pytest.raises(ValueError) as caught:
        write_plan(pipedream(costs("sample4"), 2), tmp_path / name)
    assert str(caught.value).startswith(f"cannot export {str(tmp_path / name)!r}; a plan is written as NAME.json, its")
    assert "\n" not in str(caught.value) and list(tmp_path.iterdir()) == []


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
