"""Schedules against literal cases, published formulas, the plans' periods and the derivation's stashes."""

import re
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from lpkit.costs import Costs, costs
from lpkit.partition import PLANNERS, Plan, check_plan, plan
from lpkit.schedule import (
    SCHEDULES, gpipe, hand_made, layerpipe, one_f_one_b, pipedream, schedule, sequential, zero_bubble,
)  # fmt: skip
from lpkit.stash import smallest_delays
from lpkit.systolic import Array
from lpkit.timeline import KINDS, TENSORS

THREE = Plan("by hand", Costs.from_times([9, 5, 4], [8, 6, 4], [8, 5, 3], unit="cycles"), 3, ends=(1, 2, 3))
THREE_ON_TWO = Plan("by hand", THREE.costs, 2, ends=(1, 3))
SIZES = dict(weight_bytes=[100, 100], input_bytes=[40, 60], output_bytes=[60, 20])
TWO_LAYERS = Costs.from_times([2, 2], 2, [4, 2], unit="cycles", **SIZES)
TWO = Plan("by hand", TWO_LAYERS, 2, ends=(1, 2), moved=((1, 1, 2, 1),))
ASYNCHRONOUS = {
    "pipedream": pipedream, "registered": layerpipe, "1f1b": lambda plan, n: layerpipe(plan, n, model="1f1b"),
}  # fmt: skip


def equal_stages(P, F, G, delta):
    return Plan("by hand", Costs.from_times([F] * P, G, delta, unit="cycles"), P, ends=tuple(range(1, P + 1)))


def random_plan(rng, unit="cycles"):
    """A plan of a random chain, half of them with residual readers, by a random planner that may be run."""
    L, top = int(rng.integers(1, 9)), int(rng.choice([3, 10, 1000]))
    columns = rng.integers(1, top + 1, L), rng.integers(0, top + 1, L), rng.integers(0, 2 * top + 1, L)
    columns = columns if unit == "cycles" else [column / 7 for column in columns]
    sizes = {name: rng.integers(0, 40, L) for name in ("weight_bytes", "input_bytes", "output_bytes")}
    chain = Costs.from_times(*columns, unit=unit, **sizes)
    if rng.random() < 0.5:
        readers = np.minimum(np.arange(1, L + 1) + rng.choice([1, 1, 1, 2, 3], L), L + 1)
        chain = replace(chain, first_consumer=readers, shared_input=rng.random(L) < 0.3)
    found = plan(chain, int(rng.integers(1, L + 1)), str(rng.choice(list(PLANNERS))))
    return found if not check_plan(found) else plan(chain, found.processors, "optimal")


def every_schedule(found, **links):
    for name, function in SCHEDULES.items():
        micro = {"micro_batches": 3} if name in ("gpipe", "one_f_one_b", "zero_bubble") else {}
        yield function(found, 4, **micro, **links)
    yield layerpipe(found, 7, model="1f1b", **links)
    yield one_f_one_b(found, 2, micro_batches=5, delta_first=True, **links)


# Against numbers worked out elsewhere


@pytest.mark.parametrize("count, plain, first", [(3, 84, 76), (6, 159, 151), (12, 309, 301), (48, 1209, 1201)])
def test_delta_before_G_saves_the_same_eight_units_however_many_micro_batches(count, plain, first):
    lines = [one_f_one_b(THREE, micro_batches=count, delta_first=delta_first) for delta_first in (False, True)]
    assert [line.makespan for line in lines] == [plain, first]
    assert [line.fill for line in lines] == [52, 44]
    assert all(line.check() == () for line in lines)


def test_delta_before_G_leaves_the_period_alone():
    lines = pipedream(THREE, 40), layerpipe(THREE, 40, model="1f1b")
    assert [line.period for line in lines] == [25, 25]
    assert [line.makespan for line in lines] == [48 * 25 + 9 - 8 * 25, 48 * 25 + 1 - 8 * 25]


@pytest.mark.parametrize("P, count", [(1, 3), (2, 4), (4, 8), (6, 20)])
@pytest.mark.parametrize("F, delta, G", [(1, 1, 1), (5, 6, 4), (3, 4, 2)])
def test_bubbles_are_the_published_ones_for_equal_stages(P, count, F, delta, G):
    found, work = equal_stages(P, F, G, delta), count * (F + delta + G)
    assert gpipe(found, micro_batches=count).makespan == work + (P - 1) * (F + delta + G)
    assert one_f_one_b(found, micro_batches=count).makespan == work + (P - 1) * (F + delta + G)
    assert zero_bubble(found, micro_batches=count).makespan == work + (P - 1) * (F + delta - G)


def test_stages_keep_as_many_micro_batches_as_published():
    found = equal_stages(4, 1, 1, 1)
    assert gpipe(found, micro_batches=8).in_flight == (8, 8, 8, 8)
    assert one_f_one_b(found, micro_batches=8).in_flight == (4, 3, 2, 1)
    assert zero_bubble(found, micro_batches=8).in_flight == (4, 4, 4, 4)
    assert layerpipe(found, 20).in_flight == (7, 5, 3, 1)
    assert sequential(found, 3).in_flight == (1, 1, 1, 1)


def test_a_moved_delta_runs_beside_the_rest_of_it():
    rows = {(row.kind, row.layer): row for row in layerpipe(TWO, 1).operations}
    spans = {name: (row.stage, row.start, row.end) for name, row in rows.items()}
    assert spans["delta", 2] == (2, 4, 6)
    assert spans["delta'", 1] == (1, 6, 9) and spans["delta''", 1] == (2, 6, 7)
    assert spans["G", 1] == (1, 9, 11) and spans["G", 2] == (2, 7, 9)


def test_sends_take_latency_and_bytes_over_bandwidth():
    line = layerpipe(TWO, 1, bandwidth=20, latency=1)
    sends = {row.tensor: (row.stage, row.target, row.start, row.end) for row in line.operations if row.kind == "send"}
    # a: 60 bytes; W: a quarter of 100, after a on the same link; delta back: 60; delta'': a quarter of 40
    assert sends["a"] == (1, 2, 2, 6) and sends["W"] == (1, 2, 6, Fraction(33, 4))
    assert sends["delta"] == (2, 1, 10, 14) and sends["delta''"] == (2, 1, 14, Fraction(31, 2))
    assert line.makespan == 19 and line.check() == ()


def test_weights_for_a_moved_delta_are_sent_once_a_mini_batch():
    line = gpipe(TWO, 2, micro_batches=3, bandwidth=20)
    assert (line.tensor == TENSORS.index("W")).sum() == 2
    assert (line.tensor == TENSORS.index("delta''")).sum() == 6 and line.check() == ()


def test_slow_links_lengthen_the_period_of_1f1b_and_registers_hide_them():
    found = equal_stages(2, 1, 1, 1)
    # F 1, send 2, F 1, delta 1, send 2, delta and G 2: 9 for two mini-batches in flight, or for three
    assert layerpipe(found, 20, model="1f1b", latency=2).period == Fraction(9, 2)
    assert layerpipe(found, 20, latency=2).period == 3 == found.period


# Against the plan


@pytest.mark.parametrize("seed", range(60))
def test_the_steady_period_is_the_period_of_the_plan(seed):
    found = random_plan(np.random.default_rng(seed))
    for function in ASYNCHRONOUS.values():
        assert function(found, 40).period == found.period


@pytest.mark.parametrize("name", ["vgg16", "resnet50"])
@pytest.mark.parametrize("P", [2, 7, 12])
def test_the_steady_period_is_the_period_of_the_plan_on_networks(name, P):
    cost = costs(name, Array(32, 32), batch=32)
    for planner in ("pipedream", "optimal"):
        found = plan(cost, P, planner)
        for function in ASYNCHRONOUS.values():
            assert function(found, 100).period == found.period


@pytest.mark.parametrize("seed", range(20))
def test_floats_come_to_the_same_period(seed):
    found = random_plan(np.random.default_rng(seed), "ms")
    for function in ASYNCHRONOUS.values():
        line = function(found, 40)
        assert line.period == pytest.approx(found.period, rel=1e-9) and line.check() == ()


@pytest.mark.parametrize("seed", range(40))
def test_every_schedule_of_a_random_plan_holds_up_to_the_check(seed):
    rng = np.random.default_rng(seed)
    found = random_plan(rng)
    slow = dict(bandwidth=int(rng.integers(1, 50)), latency=int(rng.integers(0, 3)))
    for links in ({}, slow, dict(bandwidth=Fraction(7, 3)), dict(latency=0.5)):
        for line in every_schedule(found, **links):
            assert line.check() == (), (line.schedule, found.ends, found.moved, links)


@pytest.mark.parametrize("seed", range(20))
def test_stages_do_the_loads_of_the_plan_and_never_wait_without_reason(seed):
    found = random_plan(np.random.default_rng(seed))
    for line in every_schedule(found):
        each = line.batches * line.micro_batches
        assert line.busy == tuple(load * each for load in found.loads)
        assert line.makespan >= max(line.busy)
        assert line.bubble_share == 1 - Fraction(sum(line.busy)) / (line.makespan * len(found.ends))
        assert line.utilisation == tuple(Fraction(b) / line.makespan for b in line.busy)
        assert set(line.start.tolist()) <= {0, *line.end.tolist()}  # nothing starts at a time when nothing ends


def test_the_sequential_schedule_takes_all_the_work():
    assert sequential(THREE, 4).makespan == 4 * THREE.costs.total
    assert sequential(THREE, 4).period == sequential(THREE, 4).latency() == THREE.costs.total


def test_a_stage_without_layers_passes_on():
    found = Plan("by hand", THREE.costs, 4, ends=(1, 1, 2, 3))
    line = layerpipe(found, 20, latency=1)
    assert line.check() == () and line.in_flight[1] == 0 and line.activation_bytes[1] == 0
    assert line.period == 25 and ".." * 36 in line.ascii().splitlines()[1]


def test_a_first_layer_with_a_delta_runs_it():
    assert [row.kind for row in gpipe(THREE, micro_batches=1).operations if row.layer == 1] == ["F", "G", "delta", "U"]


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
                uses = [r.end for r in rows if (r.layer, r.version) == (layer, v) and r.kind not in ("G", "U")]
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
    ("U", 2, 3, dict(start=0, end=0), "the updates of layer 2 are out of order"),
])  # fmt: skip
def test_the_check_finds_damage(kind, layer, micro, changes, sentence):
    line = layerpipe(TWO, 6)
    assert line.check() == ()
    problems = damaged(line, row_of(line, kind, layer, micro), **changes).check()
    assert any(problem.startswith(sentence) for problem in problems), problems


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


# By hand, in pictures, in tables


def test_a_hand_made_order_gives_the_same_as_the_schedule_it_copies():
    def order(after):
        blocks = [("F", n) for n in range(after + 1)]
        for n in range(6):
            blocks += [("B", n), ("U", n)] + ([("F", n + after + 1)] if n + after + 1 < 6 else [])
        return blocks

    own, copied = pipedream(THREE, 6), hand_made(THREE, [order(2), order(1), order(0)])
    assert own.operations == copied.operations


def test_the_drawing():
    lines = layerpipe(TWO, 1).ascii(11).splitlines()
    assert lines[:2] == ["stage 1 FF....dddGG", "stage 2 ..FFddDGG.."]
    assert lines[2].startswith("0 to 11 cycles.")


def test_the_table():
    frame = layerpipe(TWO, 3, latency=1).to_frame()
    assert len(frame) == len(layerpipe(TWO, 3, latency=1)) and frame.isna().sum().sum() == 0
    assert frame[frame.kind == "send"].tensor.value_counts().to_dict() == {"a": 3, "delta": 3, "W": 3, "delta''": 3}


def test_the_same_comes_out_twice():
    assert layerpipe(TWO, 9, latency=1).operations == layerpipe(TWO, 9, latency=1).operations


def test_moved_fractions_stay_exact():
    found = replace(TWO, moved=((1, 1, 2, Fraction(4, 3)),))
    line = layerpipe(found, 20)
    assert line.scale == 3 and line.start.dtype == np.int64
    assert line.period == found.period == Fraction(22, 3)


def test_a_timeline_too_short_for_a_steady_state_has_no_period():
    assert layerpipe(THREE, 1).period is None and gpipe(THREE, 1).period is None
    assert gpipe(THREE, 3, micro_batches=2).period == gpipe(THREE, 3, micro_batches=2).latency()


# Bad input

BY_HAND = [[("F", 0), ("B", 0), ("U", 0)]] * 3
WRONG = Plan("by hand", THREE.costs, 2, ends=(1, 2))


@pytest.mark.parametrize("call, sentence", [
    (lambda: pipedream(THREE, 0), "batches is 0; it must be a whole number from 1 to"),
    (lambda: gpipe(THREE, 1, micro_batches=1.5), "micro_batches is 1.5; it must be a whole number from 1 to"),
    (lambda: pipedream(THREE, 10**9), "there would be about 12,000,000,000 operations; ask for at most 20,000,000"),
    (lambda: schedule(THREE, "gpip"), "schedule is 'gpip'; did you mean 'gpipe'?"),
    (lambda: layerpipe(THREE, model="1F1B"), "model is '1F1B'; Known: 'registered', '1f1b'"),
    (lambda: layerpipe("vgg16"), "plan is 'vgg16'; give a Plan, as a planner returns it"),
    (lambda: layerpipe(WRONG), "the plan cannot be run: the stage ends are (1, 2); they must not fall and must finish"),
    (lambda: layerpipe(THREE, bandwidth=0), "bandwidth is 0; it must be a number above 0"),
    (lambda: layerpipe(THREE, bandwidth="fast"), "bandwidth is 'fast'; it must be a number above 0"),
    (lambda: layerpipe(THREE, latency=float("nan")), "latency is nan; it must be a number of at least 0"),
    (lambda: layerpipe(THREE, latency=[1]), "latency has 1 entries; give one number, or one for each of 2 boundaries"),
    (lambda: layerpipe(THREE, 2).latency(2), "batch is 2; it must be a whole number from 0 to 1"),
    (lambda: layerpipe(THREE).ascii(5), "width is 5; it must be a whole number from 10 to 10000"),
    (lambda: hand_made(THREE, [[]]), "orders has 1 entries; give one list of blocks for each of the 3 stages"),
    (lambda: hand_made(THREE, "FBU"), "orders has 'FBU' entries; give one list of blocks"),
    (lambda: hand_made(THREE, [1, *BY_HAND[1:]]), "the order of stage 1 is 1; give a list of pairs such as ('F', 0)"),
    (lambda: hand_made(THREE, [["F"], *BY_HAND[1:]]), "stage 1 has the entry 'F'; give pairs such as ('F', 0)"),
    (lambda: hand_made(THREE, [[("W", 0)], *BY_HAND[1:]]), "block is 'W'; Known: 'F', 'delta', 'G', 'B', 'U'"),
    (lambda: hand_made(THREE, [[*BY_HAND[0], ("F", 0)], *BY_HAND[1:]]), "on stage 1 F 0 is there twice"),
    (lambda: hand_made(THREE, [[*BY_HAND[0], ("F", 1)], *BY_HAND[1:]]), "on stage 1 F 1 is beyond the 1 mini-batches"),
    (lambda: hand_made(THREE, [BY_HAND[0][:1], *BY_HAND[1:]]), "on stage 1 G 0 is missing; give F, delta and G (or B)"),
])  # fmt: skip
def test_bad_input_is_one_sentence(call, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)) as caught:
        call()
    assert "\n" not in str(caught.value) and "np." not in str(caught.value)


def test_orders_that_wait_in_a_circle_are_named():
    found = equal_stages(2, 1, 1, 1)
    one = [("F", 1), ("F", 0), ("B", 0), ("U", 0), ("B", 1), ("U", 1)]
    other = [("F", 0), ("B", 0), ("U", 0), ("F", 1), ("B", 1), ("U", 1)]
    assert hand_made(found, [one, other]).check() == ()
    with pytest.raises(ValueError) as caught:
        hand_made(found, [other, [("F", 1), *other[:3], *other[4:]]])
    assert str(caught.value) == (
        "the order cannot be run: G of layer 1, micro-batch 0 on stage 1 waits for delta of layer 2, micro-batch 0 on "
        "stage 2, which comes later on its stage, where F of layer 2, micro-batch 1 on stage 2 waits for F of layer 1, "
        "micro-batch 1 on stage 1, which comes later on its stage"
    )


def test_a_timeline_longer_than_64_bits_is_refused():
    found = Plan("by hand", Costs.from_times([2**60], 0, 0, unit="cycles"), 1, ends=(1,))
    assert layerpipe(found, 7).makespan == 7 * 2**60
    with pytest.raises(ValueError, match="the timeline is longer than 64 bits hold"):
        layerpipe(found, 8)
