"""What crosses boundaries, critical paths, bubbles and stashes over time, on random plans and literal ones."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from schedule_cases import THREE, TWO, equal_stages, every_schedule, random_plan

from lpkit.costs import Costs, costs
from lpkit.partition import Plan, communication, plan
from lpkit.plans import ratio
from lpkit.schedule import gpipe, interleaved, layerpipe, one_f_one_b, pipedream, sequential
from lpkit.systolic import Array
from lpkit.timeline_paths import boundary_bytes, bubbles, critical_path, crossings, stash_over_time

LINKS = ({}, dict(latency=1), dict(bandwidth=Fraction(7, 3)), dict(bandwidth=3.0, latency=0.5))
# Layer 2 is alone on its stage, and half of its delta is moved
ALONE = Plan("by hand", Costs.from_times([1, 1, 1], 1, [0, 4, 1], unit="cycles", weight_bytes=100, input_bytes=60,
                                         output_bytes=60), 3, ends=(1, 2, 3), moved=((2, 2, 3, 2),))  # fmt: skip


# What crosses


@pytest.mark.parametrize("seed", range(10))
def test_what_crosses_is_made_before_it_is_used_on_the_stages_it_names(seed):
    found = random_plan(np.random.default_rng(seed))
    for links in LINKS:
        for line in every_schedule(found, **links):
            table = crossings(line)
            makes, uses = table.makes.to_numpy(int), table.uses.to_numpy(int)
            used = uses >= 0
            assert (line.stage[makes] == table.source).all() and (table.source != table.target).all()
            assert (line.stage[uses[used]] == table.target[used]).all()
            assert (line.end[makes[used]] <= line.start[uses[used]]).all()
            assert (line.micro[makes] == table.micro_batch).all() and (np.diff(makes) >= 0).all()
            assert set(table.layer[~used]) <= {1} and set(table.tensor[~used]) <= {"delta''"}


@pytest.mark.parametrize("seed", range(10))
def test_every_send_lies_between_what_makes_and_what_uses_its_tensor(seed):
    found = random_plan(np.random.default_rng(seed))
    for line in every_schedule(found, latency=1):
        table = crossings(line)
        first = table.groupby(["tensor", "layer", "micro_batch"]).first()
        for row in line.operations:
            if row.kind == "send" and (row.tensor, row.layer, row.micro_batch) in first.index:
                one = first.loc[(row.tensor, row.layer, row.micro_batch)]
                assert line.in_unit(int(line.end[one.makes])) <= row.start
                assert one.uses < 0 or row.end <= line.in_unit(int(line.start[one.uses]))
        sent = {(row.tensor, row.layer, row.micro_batch) for row in line.operations if row.kind == "send"}
        assert set(first.index) <= sent


def test_the_row_that_uses_a_tensor_is_the_first_that_does():
    line = layerpipe(TWO, 1)
    table = crossings(line).set_index("tensor")
    names = {tensor: tuple((line.operations[row].kind, line.operations[row].layer) if row >= 0 else None
                           for row in table.loc[tensor, ["makes", "uses"]]) for tensor in table.index}  # fmt: skip
    assert names == {
        "a": (("F", 1), ("F", 2)), "delta": (("delta", 2), ("delta'", 1)), "W": (("F", 1), ("delta''", 1)),
        "delta''": (("delta''", 1), None),
    }  # fmt: skip
    assert table.bytes.to_dict() == {"a": 60, "delta": 60, "W": 25, "delta''": 10}


def test_the_error_of_a_layer_alone_on_its_stage_goes_on_to_the_stage_before():
    table = crossings(layerpipe(ALONE, 1))
    rows = table[(table.layer == 2) & table.tensor.str.startswith("delta")]
    assert sorted(zip(rows.tensor, rows.source, rows.target, rows.bytes)) == [
        ("delta", 2, 1, 30), ("delta''", 3, 1, 30)]  # fmt: skip
    whole = crossings(layerpipe(replace(ALONE, moved=((2, 2, 3, 4),)), 1))
    assert [tensor for tensor, layer in zip(whole.tensor, whole.layer) if layer == 2] == ["a", "W", "delta''"]


def test_weights_cross_once_a_mini_batch():
    table = crossings(gpipe(TWO, 2, micro_batches=3))
    assert table.tensor.value_counts().to_dict() == {"a": 6, "delta": 6, "delta''": 6, "W": 2}
    assert table[table.tensor == "W"].micro_batch.tolist() == [0, 3]


def test_nothing_crosses_in_one_stage():
    line = pipedream(Plan("by hand", THREE.costs, 1, ends=(3,)), 2)
    assert len(crossings(line)) == len(boundary_bytes(line)) == len(bubbles(line)) == 0
    assert list(crossings(line).columns) == list(crossings(layerpipe(TWO)).columns)


def by_boundary(line, tensors):
    table = boundary_bytes(line)
    own = table[table.tensor.isin(tensors)].groupby("boundary").bytes_per_mini_batch.sum()
    return [own.get(k, 0) for k in range(1, line.stages)]


def agrees(found, line):
    """Bytes of a mini-batch against `communication`, whose direct link from stage k + 1 to k - 1 no timeline has."""
    said, each = communication(found, "full"), line.micro_batches
    through = [0] * len(said.mandatory)
    for layer, source, _, amount in found.moved:
        if layer == found.stages[source - 1].start:
            share = ratio(amount, found.costs.delta[layer - 1].item())
            through[source - 1] += share * int(found.costs.input_bytes[layer - 1])
    assert by_boundary(line, ["W"]) == list(said.weights)
    assert by_boundary(line, ["a", "delta", "delta''"]) == [
        each * (m + r + t) for m, r, t in zip(said.mandatory, said.results, through)]  # fmt: skip


@pytest.mark.parametrize("seed", range(10))
def test_bytes_are_those_of_the_plan(seed):
    found = random_plan(np.random.default_rng(seed))
    chain = found.costs  # a layer's input is what crosses the cut before it, as in a network
    sized = replace(chain, input_bytes=np.array([chain.input_bytes[0], *chain.cut_bytes]))
    found = replace(found, costs=sized)
    for links in ({}, dict(latency=1)):
        for line in every_schedule(found, **links):
            agrees(found, line)


@pytest.mark.parametrize("name, P", [("vgg16", 6), ("resnet50", 12)])
def test_bytes_are_those_of_the_plan_on_networks(name, P):
    found = plan(costs(name, Array(32, 32), batch=32), P)
    assert found.moved
    agrees(found, layerpipe(found, 3))


@pytest.mark.parametrize("planned", [TWO, ALONE])
def test_bytes_are_those_of_the_sends(planned):
    line = layerpipe(planned, 4, bandwidth=1)  # a byte takes a unit of time
    table = boundary_bytes(line).groupby(["boundary", "direction"]).bytes.sum().to_dict()
    sent = {}
    for row in line.operations:
        if row.kind == "send":
            key = min(row.stage, row.target), "forward" if row.target > row.stage else "backward"
            sent[key] = sent.get(key, 0) + row.end - row.start
    assert table == sent


# Critical paths and bubbles


@pytest.mark.parametrize("seed", range(10))
def test_a_critical_path_has_no_gap_and_bubbles_are_all_that_is_not_work(seed):
    found = random_plan(np.random.default_rng(seed))
    for links in LINKS:
        for line in every_schedule(found, **links):
            path = critical_path(line)
            start, end = line.start[path], line.end[path]
            assert start[0] == 0 and end[-1] == line.end.max() and (start[1:] == end[:-1]).all()
            waits = bubbles(line)
            assert (waits.start < waits.end).all()
            for p, busy in enumerate(line.busy, 1):
                own = waits[waits.processor == p]
                assert sum(own.end - own.start) + busy == pytest.approx(line.makespan, rel=1e-12)
            share = sum(waits.end - waits.start) / (line.makespan * len(line.busy))
            assert float(share) == pytest.approx(float(line.bubble_share), abs=1e-12)


def test_steps_of_a_critical_path_are_dependencies_or_turns_of_a_processor():
    line = one_f_one_b(THREE, micro_batches=2)
    rows = [line.operations[row] for row in critical_path(line)]
    for one, other in zip(rows, rows[1:]):
        assert one.stage == other.stage or (one.micro_batch == other.micro_batch and abs(one.layer - other.layer) == 1)
    assert [(row.kind, row.layer, row.micro_batch) for row in rows] == [
        ("F", 1, 0), ("F", 2, 0), ("F", 3, 0), ("G", 3, 0), ("delta", 3, 0), ("G", 2, 0), ("delta", 2, 0), ("G", 1, 0),
        ("delta", 1, 0), ("G", 1, 1), ("delta", 1, 1)]  # fmt: skip


def test_the_critical_path_of_a_sequential_schedule_is_all_its_work():
    line = sequential(THREE, 3)
    path = critical_path(line)
    work = np.flatnonzero(line.end > line.start)
    assert set(work) <= set(path) and (line.end[path] - line.start[path]).sum() == line.makespan


def test_a_gap_has_no_critical_path():
    line = pipedream(THREE, 2)
    late = replace(line, start=line.start + 1, end=line.end + 1)
    with pytest.raises(ValueError, match="^row 0 of the timeline starts at 1 and waits for nothing until then; there"):
        critical_path(late)


def test_bubbles_of_several_stages_on_a_processor():
    line = interleaved(equal_stages(4, 1, 1, 1), processors=2, micro_batches=2)
    assert bubbles(line).to_numpy().tolist() == [[1, 4, 6], [1, 8, 9], [2, 0, 1], [2, 13, 15]]


# Over time


@pytest.mark.parametrize("seed", range(12))
def test_what_is_kept_over_time_peaks_where_the_measures_say(seed):
    found = random_plan(np.random.default_rng(seed))
    for line in every_schedule(found, latency=1):
        for k, layers in enumerate(found.stages, 1):
            table = stash_over_time(line, k)
            assert table.activation_bytes.max() == line.activation_bytes[k - 1]
            assert table.weight_bytes.max() == line.weight_bytes[k - 1]
            assert table.weight_versions.max() == max((line.weight_versions[l - 1] for l in layers), default=0)
            assert table.time.iloc[0] == 0 and (np.diff(table.time.astype(float)) > 0).all()
            assert table.time.iloc[-1] <= line.makespan and table.activation_bytes.iloc[-1] == 0


def test_a_stash_as_steps():
    table = stash_over_time(pipedream(Plan("by hand", TWO.costs, 2, ends=(1, 2)), 2), 1)
    assert table[["time", "activation_bytes", "weight_versions"]].to_numpy().tolist() == [
        [0, 40, 1], [2, 80, 1], [10, 40, 1], [14, 40, 2], [16, 0, 2], [20, 0, 1]]  # fmt: skip


@pytest.mark.parametrize("stage", [0, 3, True, 1.5])
def test_a_stage_that_is_not_there(stage):
    with pytest.raises(ValueError, match=f"^stage is {stage}; it must be a whole number from 1 to 2$"):
        stash_over_time(layerpipe(TWO), stage)
