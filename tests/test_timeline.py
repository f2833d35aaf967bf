"""Timelines: what is kept, drawings and tables, and a check that finds what is wrong."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from schedule_cases import ASYNCHRONOUS, THREE, THREE_ON_TWO, TWO, equal_stages, every_schedule, random_plan

from lpkit.backprop import backprop_dfg
from lpkit.costs import Costs
from lpkit.derivation import derive, stage_lags
from lpkit.moves import delay_gradients, retime
from lpkit.partition import Plan
from lpkit.schedule import SCHEDULES, gpipe, hand_made, layerpipe, one_f_one_b, schedule, zero_bubble
from lpkit.stash import smallest_delays, stash
from lpkit.timeline import KINDS, TENSORS

# Weights and what is kept


@pytest.mark.parametrize("name, model, each", [
    ("pipedream", "1f1b", 1), ("1f1b", "1f1b", 1), ("registered", "registered", 2),
])  # fmt: skip
def test_weights_are_as_old_as_the_derivation_says(name, model, each):
    found = Plan("by hand", Costs.from_times([3, 1, 4, 1, 5], 2, [0, 6, 5, 3, 5], unit="cycles"), 4, ends=(2, 3, 4, 5))
    late, line = smallest_delays((1, 1, 2, 3, 4), model), ASYNCHRONOUS[name](found, 30)
    for row in line.operations:
        if row.kind != "U":
            assert row.version == max(0, row.batch - late[row.layer])
    # the first layer has no delta and needs no old weights
    assert line.weight_versions == (1, *(late[layer] + 1 for layer in (2, 3, 4, 5)))
    assert late[1] == 3 * each


def derived(stages, model):
    """What the pipelined graph of a chain keeps: with registers both ways, or with 1F1B, where errors need none."""
    if model == "registered":
        return stash(derive(len(stages), stages)[-1].dfg)
    delayed = delay_gradients(backprop_dfg(len(stages)), smallest_delays(stages, "1f1b"))
    lags = {node: min(lag, 0) for node, lag in stage_lags(delayed, stages).items()}
    early = [w - lags["F1"] if u == "X" else w for u, _, w in delayed.edges]  # samples come as much ahead as F1 is
    return stash(retime(delayed.with_delays(early), lags))


@pytest.mark.parametrize("seed", range(10))
def test_at_the_same_period_registers_keep_twice_as_many_old_versions_as_1f1b(seed):
    rng = np.random.default_rng(seed)
    L = int(rng.integers(2, 8))
    ends = (*sorted(rng.choice(np.arange(1, L), int(rng.integers(1, min(L, 5))), replace=False).tolist()), L)
    chain = Costs.from_times(*rng.integers(1, 9, (3, L)), unit="cycles")
    chain = replace(chain, delta=np.array([0, *chain.delta[1:]]))
    found = Plan("by hand", chain, len(ends), ends=ends)
    stages = [found.stage_of(layer) for layer in range(1, L + 1)]
    for name, line in ((name, function(found, 40)) for name, function in ASYNCHRONOUS.items()):
        kept = derived(stages, "registered" if name == "registered" else "1f1b")
        assert line.period == found.period and line.check() == ()
        assert line.weight_versions == tuple(one.weights + 1 for one in kept)
        assert line.in_flight == tuple(kept[end - 1].activations + 1 for end in ends)
        F = [row for row in line.operations if row.kind == "F" and row.batch == 39]
        assert {row.layer: 39 - row.version for row in F} == {one.layer: one.staleness for one in kept}
    twice, once = derived(stages, "registered"), derived(stages, "1f1b")
    assert [one.weights for one in twice] == [2 * one.weights for one in once]


def test_a_flush_leaves_one_version():
    for function in (gpipe, one_f_one_b, zero_bubble):
        line = function(THREE, 3, micro_batches=4)
        assert line.weight_versions == (1, 1, 1)
        assert all(row.version == row.batch + (row.kind == "U") for row in line.operations)


@pytest.mark.parametrize("seed", range(12))
def test_peaks_are_those_of_a_count_at_every_moment(seed):
    found = random_plan(np.random.default_rng(seed))
    inputs, weights = found.costs.input_bytes.tolist(), found.costs.weight_bytes.tolist()
    for line in every_schedule(found):
        rows = line.operations
        moments = sorted({row.start for row in rows})
        end = {(row.kind, row.layer, row.micro_batch): row.end for row in rows}
        kept = {(row.layer, row.micro_batch): (row.start, end["G", row.layer, row.micro_batch])
                for row in rows if row.kind == "F"}  # fmt: skip
        made = {(row.layer, row.version): row.end for row in rows if row.kind == "U"}
        alive = {}
        for layer in range(1, len(inputs) + 1):
            for v in range(line.batches + 1):
                uses = [row.end for row in rows
                        if (row.layer, row.version) == (layer, v) and row.kind in ("F", "delta", "delta'")]  # fmt: skip
                alive[layer, v] = made.get((layer, v), 0), max([made.get((layer, v + 1), line.makespan + 1), *uses])

        def most(spans, layers, sizes):
            own = [(sizes[layer - 1], a, b) for (layer, _), (a, b) in spans.items() if layer in layers]
            return max(sum(size for size, a, b in own if a <= t < b) for t in moments)

        assert line.activation_bytes == tuple(most(kept, layers, inputs) for layers in found.stages)
        assert line.weight_bytes == tuple(most(alive, layers, weights) for layers in found.stages)
        ones = [1] * len(inputs)
        assert line.weight_versions == tuple(most(alive, (layer,), ones) for layer in range(1, len(inputs) + 1))


# The check finds what is wrong


def damaged(line, row, **changes):
    columns = {name: getattr(line, name).copy() for name in changes}
    for name, value in changes.items():
        columns[name][row] = value
    return replace(line, **columns)


def row_of(line, kind, layer, micro):
    return int(np.flatnonzero((line.kind == KINDS.index(kind)) & (line.layer == layer) & (line.micro == micro))[0])


@pytest.mark.parametrize("kind, layer, micro, changes, sentence", [
    ("F", 2, 1, dict(micro=99), "F of layer 2, micro-batch 1 is missing"),
    ("F", 2, 1, dict(micro=0), "F of layer 2, micro-batch 0 is there 2 times"),
    ("G", 1, 0, dict(kind=1), "delta of layer 1, micro-batch 0 is not part of the plan"),
    ("F", 2, 1, dict(stage=1), "F of layer 2, micro-batch 1 is on stage 1; the plan says 2"),
    ("G", 1, 2, dict(end=10**6), "G of layer 1, micro-batch 2 takes "),
    ("F", 1, 0, dict(start=-2, end=0), "F of layer 1, micro-batch 0 starts before 0"),
    ("F", 2, 0, dict(start=1, end=3), "F of layer 2, micro-batch 0 starts before F of layer 1, micro-batch 0 is done"),
    ("delta''", 1, 0, dict(start=3, end=4), "delta'' of layer 1, micro-batch 0 starts before delta of layer 2, "),
    ("F", 1, 1, dict(start=1, end=3), "F of layer 1, micro-batch 1 starts on stage 1 before F of layer 1, "),
    ("F", 1, 4, dict(version=0), "F of layer 1, micro-batch 4 uses version 0 of the weights; the newest is "),
    ("delta'", 1, 4, dict(version=4), "delta' of layer 1, micro-batch 4 uses version 4 of the weights; F used "),
    ("U", 2, 3, dict(version=3), "U of layer 2, mini-batch 3 makes version 3; it must be 4"),
    ("F", 2, 1, dict(stage=3), "row 10 is on stage 3 and sends to 0; there are 2 stages"),
    ("U", 2, 3, dict(start=0, end=0), "the updates of layer 2 are out of order"),
])  # fmt: skip
def test_the_check_finds_damage(kind, layer, micro, changes, sentence):
    line = layerpipe(TWO, 6)
    assert line.check() == ()
    problems = damaged(line, row_of(line, kind, layer, micro), **changes).check()
    assert any(problem.startswith(sentence) for problem in problems), problems


def test_the_check_finds_stages_without_a_processor():
    for processors in ((1,), (0, 1)):
        (problem,) = replace(layerpipe(TWO, 2), processors=processors).check()
        assert problem == f"the processors are {processors}; there must be one, from 1 to 2, for each of 2 stages"


def test_the_check_finds_two_stages_of_a_processor_at_work():
    problems = replace(layerpipe(TWO, 2), processors=(1, 1)).check()
    assert any("is done" in problem and " starts on stage " in problem for problem in problems)


def test_the_check_finds_an_update_before_all_gradients_are_there():
    early = [[("F", 0), ("F", 1), ("B", 1), ("U", 0), ("B", 0)], [("F", 0), ("F", 1), ("B", 1), ("B", 0), ("U", 0)]]
    assert "U of layer 1, mini-batch 0 starts before G of layer 1, micro-batch 0 is done" in hand_made(
        THREE_ON_TWO, early, micro_batches=2).check()  # fmt: skip


def test_the_check_finds_a_send_that_is_late_or_missing():
    line = layerpipe(TWO, 2, latency=2)
    send = int(np.flatnonzero(line.tensor == TENSORS.index("a"))[0])
    assert "send a of layer 1, micro-batch 0 over boundary 1 is missing" in damaged(line, send, micro=9).check()
    late = damaged(line, send, start=100, end=102).check()
    assert "F of layer 2, micro-batch 0 starts before send a of layer 1, micro-batch 0 over boundary 1 is done" in late


# Pictures and tables


def test_the_drawing():
    lines = layerpipe(TWO, 1).ascii(11).splitlines()
    assert lines[:2] == ["stage 1 FF....dddGG", "stage 2 ..FFddDGG.."]
    assert lines[2].startswith("0 to 11 cycles.")


def test_the_table():
    frame = layerpipe(TWO, 3, latency=1).to_frame()
    assert len(frame) == len(layerpipe(TWO, 3, latency=1)) and frame.isna().sum().sum() == 0
    assert frame[frame.kind == "send"].tensor.value_counts().to_dict() == {"a": 3, "delta": 3, "W": 3, "delta''": 3}


def test_a_timeline_too_short_for_a_steady_state_has_no_period():
    assert layerpipe(THREE, 1).period is None and gpipe(THREE, 1).period is None
    assert gpipe(THREE, 3, micro_batches=2).period == gpipe(THREE, 3, micro_batches=2).latency()


# Corners: no work, no layer, wrong tables


@pytest.mark.parametrize("ends", [(0, 2), (0, 0, 2), (0, 1, 1, 2), (2,)])
def test_a_plan_without_work_has_a_period_of_nothing(ends):
    found = Plan("by hand", Costs.from_times([0, 0], 0, 0, unit="cycles"), len(ends), ends=ends)
    assert {line.period for line in every_schedule(found)} == {0}


def test_the_period_where_only_the_first_layer_of_a_stage_takes_time():
    # all that comes last in a stage takes no time, so that the last mini-batches end when the last F starts
    found = Plan("by hand", Costs.from_times([1, 0], 0, 0, unit="cycles"), 4, ends=(0, 2, 2, 2))
    assert [function(found, 12).period for function in ASYNCHRONOUS.values()] == [found.period] * 3 == [1] * 3


def test_rounding_makes_no_bubbles_below_nothing():
    F, G, delta = [0.1, 0.1, 0.0, 0.1, 0.3, 0.0], [0.0, 0.1, 0.958, 0.682, 0.0, 0.3], [0.1, 0.3, 0.3, 0.0, 0.3, 0.0]
    for seed in range(30):
        chain = Costs.from_times(*np.random.default_rng(seed).permuted([F, G, delta], axis=1))
        assert 0 <= layerpipe(Plan("by hand", chain, 1, ends=(6,)), 7).bubble_share < 1e-12


@pytest.mark.parametrize("column, row, value", [
    ("tensor", 0, 1), ("tensor", 0, 100), ("tensor", 0, -5), ("target", 0, 2), ("kind", 0, -7), ("kind", 0, 100),
    ("kind", 0, -1),
])  # fmt: skip
def test_the_check_finds_rows_of_no_kind_and_targets_of_what_is_no_send(column, row, value):
    line = gpipe(TWO, micro_batches=2)
    changed = getattr(line, column).copy()
    changed[row] = value
    (problem,) = replace(line, **{column: changed}).check()
    assert problem.startswith("row 0 has the kind ")
    assert problem.endswith("a send has a tensor and a target, another row has neither")


def test_the_check_finds_sends_without_a_target():
    line = layerpipe(TWO, 2, bandwidth=1)
    for column in ("tensor", "target"):
        changed = np.zeros_like(getattr(line, column))
        assert "a send has a tensor and a target" in replace(line, **{column: changed}).check()[0]


def test_the_check_finds_rows_that_are_not_in_order():
    line = layerpipe(TWO, 2)
    names = ("kind", "layer", "stage", "micro", "start", "end", "version", "tensor", "target")
    back = replace(line, **{name: getattr(line, name)[::-1] for name in names})
    assert len(back.check()) == len(set(line.start.tolist())) - 1
    for problem, start in zip(back.check(), sorted(set(line.start.tolist()))[-2::-1]):
        assert problem.endswith(f" starts at {start}, before the row above it; sort the rows by start")


@pytest.mark.parametrize("given, message", [
    ({"start": np.zeros(3, int)}, "the columns have 18, 18, 18, 18, 3, 18, 18, 18, 18 rows; give each as many"),
    ({"batches": 0}, "batches is 0; it must be a whole number of at least 1"),
    ({"micro_batches": "x"}, "micro_batches is 'x'; it must be a whole number of at least 1"),
    ({"scale": 0}, "scale is 0; it must be a whole number of at least 1"),
    ({"batches": 10**12}, "there are 18 rows for 1000000000000 mini-batches of 1 micro-batches"),
    ({"processors": (1, "a")}, "the processors are (1, 'a'); there must be one, from 1 to 2, for each of 2 stages"),
    ({"processors": (1, 3)}, "the processors are (1, 3); there must be one, from 1 to 2, for each of 2 stages"),
    ({"bandwidth": (1,)}, "bandwidth and latency_of_link are (1,) and None; both must have one entry for each of 1 "
     "boundaries, or be None"),
])  # fmt: skip
def test_the_check_finds_what_is_no_table(given, message):
    assert replace(layerpipe(TWO, 2), **given).check() == (message,)


def test_the_check_finds_a_scale_of_floats():
    chain = Costs.from_times([2.0, 2.0], 2.0, [0.0, 2.0])
    line = layerpipe(Plan("by hand", chain, 2, ends=(1, 2)), 2)
    assert replace(line, scale=2).check() == ("scale is 2 for times in floats; it must be 1",)


# Short timelines


@pytest.mark.parametrize("seed", range(6))
def test_peaks_of_a_pipeline_that_fills_are_those_of_a_long_run(seed):
    rng = np.random.default_rng(seed)
    found = random_plan(rng)
    for name, options in [*((name, {}) for name in SCHEDULES), ("layerpipe", {"model": "1f1b"})]:
        enough = schedule(found, name, **options).fills_with
        short, long = (schedule(found, name, n * enough, **options) for n in (1, 4))
        assert short.fills is long.fills is True
        for kept in ("in_flight", "activation_bytes", "weight_versions", "weight_bytes"):
            assert getattr(short, kept) == getattr(long, kept), (name, kept)


@pytest.mark.parametrize("name", ASYNCHRONOUS)
def test_one_mini_batch_less_does_not_fill(name):
    plan = equal_stages(5, 2, 1, 1)
    enough = ASYNCHRONOUS[name](plan, 1).fills_with
    short, long = ASYNCHRONOUS[name](plan, enough - 1), ASYNCHRONOUS[name](plan, 4 * enough)
    assert short.fills is False and long.fills is True and enough == (16 if name == "registered" else 8)
    assert short.weight_versions[0] + 1 == long.weight_versions[0]


def test_an_order_by_hand_says_nothing_of_longer_runs():
    assert hand_made(TWO, [[("F", 0), ("B", 0), ("U", 0)]] * 2).fills is None


def test_speedup_compares_equal_work():
    lines = [gpipe(THREE, 3, micro_batches=20), gpipe(THREE, 3, micro_batches=2), layerpipe(THREE, 20)]
    for line in lines:
        assert line.speedup == THREE.costs.total * line.micro_batches / Fraction(line.period)
        assert line.period_of_micro_batch == Fraction(line.period, line.micro_batches)
    assert lines[1].speedup < lines[0].speedup < lines[2].speedup == THREE.speedup
    assert layerpipe(THREE, 1).speedup is layerpipe(THREE, 1).period_of_micro_batch is None


def test_latency_is_that_of_the_steady_state():
    line = layerpipe(THREE, 21)
    assert line.latency() == line.latency(10) > line.latency(20)


def test_a_summary_has_three_lines():
    assert repr(layerpipe(THREE, 1)).splitlines()[1:] == [
        "1 mini-batch with the plan's costs",
        f"period of a mini-batch none, too few mini-batches to tell, makespan 42, bubbles {1 - 52 / 126:.1%}"]
    assert len(repr(gpipe(THREE, 3)).splitlines()) == 3
