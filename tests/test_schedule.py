"""Schedules against literal cases, published formulas and the plans' periods."""

import inspect
import math
import re
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from schedule_cases import ASYNCHRONOUS, THREE, TWO, equal_stages, every_schedule, random_plan

from lpkit.costs import READINGS, Costs, costs
from lpkit.list_schedule import list_schedule
from lpkit.partition import Plan, plan
from lpkit.schedule import (
    MODELS, SCHEDULES, gpipe, hand_made, layerpipe, one_f_one_b, pipedream, schedule, sequential, zero_bubble,
)  # fmt: skip
from lpkit.schedule_names import ALIASES
from lpkit.systolic import Array
from lpkit.timeline import TENSORS


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


# By hand


def test_a_hand_made_order_gives_the_same_as_the_schedule_it_copies():
    def order(after):
        blocks = [("F", n) for n in range(after + 1)]
        for n in range(6):
            blocks += [("B", n), ("U", n)] + ([("F", n + after + 1)] if n + after + 1 < 6 else [])
        return blocks

    own, copied = pipedream(THREE, 6), hand_made(THREE, [order(2), order(1), order(0)])
    assert own.operations == copied.operations


def test_the_same_comes_out_twice():
    assert layerpipe(TWO, 9, latency=1).operations == layerpipe(TWO, 9, latency=1).operations


def test_moved_fractions_stay_exact():
    found = replace(TWO, moved=((1, 1, 2, Fraction(4, 3)),))
    line = layerpipe(found, 20)
    assert line.scale == 3 and line.start.dtype == np.int64
    assert line.period == found.period == Fraction(22, 3)


# Bad input

BY_HAND = [[("F", 0), ("B", 0), ("U", 0)]] * 3
OTHER = replace(THREE, costs=Costs.from_times([1, 2], 3, 4))
MOVED = replace(TWO, costs=Costs.from_times([2, 2], 2, [0, 2], unit="cycles"), moved=((1, 1, 2, 2),))
SKIPPED = replace(TWO.costs, first_consumer=np.array([3, 3]))
WRONG = Plan("by hand", THREE.costs, 2, ends=(1, 2))


@pytest.mark.parametrize("call, sentence", [
    (lambda: pipedream(THREE, 0), "batches is 0; it must be a whole number from 1 to"),
    (lambda: gpipe(THREE, 1, micro_batches=1.5), "micro_batches is 1.5; it must be a whole number from 1 to"),
    (lambda: pipedream(THREE, 10**9), "there would be about 12,000,000,000 operations; ask for at most 20,000,000"),
    (lambda: pipedream(THREE, True), "batches is True; it must be a whole number from 1 to"),
    (lambda: pipedream(THREE, 2.5), "batches is 2.5; it must be a whole number from 1 to"),
    (lambda: pipedream(THREE, float("nan")), "batches is nan; it must be a whole number from 1 to"),
    (lambda: gpipe(THREE, 10**400), "batches is 1000"),
    (lambda: gpipe(THREE, 10**6, micro_batches=10**6), "there would be about 12,000,000,000,000 operations"),
    (lambda: schedule(THREE, "gpipe", 2, model="1f1b"), "option of gpipe is 'model'; Known: 'micro_batches', "),
    (lambda: layerpipe(OTHER), "the plan cannot be run: the stage ends are (1, 2, 3); they must not fall and must"),
    (lambda: layerpipe(MOVED), "the plan cannot be run: layer 1 moves 2 of 0 delta work"),
    (lambda: layerpipe(replace(TWO, costs=SKIPPED)), "the plan cannot be run: layer 1 feeds layer 3 first, but"),
    (lambda: Costs.from_times([1, -2], 1, 1), "F of layer 2 is -2"),
    (lambda: Costs.from_times([1, float("nan")], 1, 1), "F of layer 2 is nan"),
    (lambda: schedule(THREE, "gpip"), "schedule is 'gpip'; did you mean 'gpipe'?"),
    (lambda: layerpipe(THREE, model="1F1B"), "model is '1F1B'; Known: 'registered', '1f1b'"),
    (lambda: layerpipe("vgg16"), "plan is 'vgg16'; give a Plan, as a planner returns it"),
    (lambda: layerpipe(WRONG), "the plan cannot be run: the stage ends are (1, 2); they must not fall and must finish"),
    (lambda: layerpipe(THREE, bandwidth=0), "bandwidth is 0; it must be a finite number above 0"),
    (lambda: layerpipe(THREE, bandwidth=float("nan")), "bandwidth is nan; it must be a finite number above 0"),
    (lambda: layerpipe(THREE, bandwidth=float("inf")), "bandwidth is inf; it must be a finite number above 0"),
    (lambda: layerpipe(THREE, bandwidth=True), "bandwidth is True; it must be a finite number above 0"),
    (lambda: layerpipe(THREE, bandwidth=[8, -1]), "bandwidth is -1; it must be a finite number above 0"),
    (lambda: layerpipe(THREE, latency=-1), "latency is -1; it must be a finite number of at least 0"),
    (lambda: layerpipe(THREE, latency=10**400), "the timeline is longer than 64 bits hold"),
    (lambda: layerpipe(THREE, latency=1.7e308), "the timeline is longer than a float holds; use fewer mini-batches"),
    (lambda: layerpipe(THREE, bandwidth="fast"), "bandwidth is 'fast'; it must be a finite number above 0"),
    (lambda: layerpipe(THREE, latency=float("nan")), "latency is nan; it must be a finite number of at least 0"),
    (lambda: layerpipe(THREE, latency=[1]), "latency has 1 entries; give one number, or one for each of 2 boundaries"),
    (lambda: layerpipe(THREE, 2).latency(2), "batch is 2; it must be a whole number from 0 to 1"),
    (lambda: layerpipe(THREE).ascii(5), "width is 5; it must be a whole number from 10 to 10000"),
    (lambda: hand_made(THREE, [[]]), "orders has 1 entries; give one list of blocks for each of the 3 stages"),
    (lambda: hand_made(THREE, "FBU"), "orders is 'FBU'; give one list of blocks for each of the 3 stages"),
    (lambda: hand_made(THREE, [[], [], []]), "there is no U in the orders; give each stage a ('U', n) for each mini-"),
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


def test_a_long_circle_is_cut_short():
    found = Plan("by hand", THREE.costs, 9, ends=(1, *[1] * 6, 2, 3))
    forward = [("F", 0), ("F", 1), ("B", 0), ("U", 0), ("B", 1), ("U", 1)]
    late = [("F", 0), ("B", 0), ("U", 0), ("F", 1), ("B", 1), ("U", 1)]
    with pytest.raises(ValueError) as caught:
        hand_made(found, [late, *[forward] * 8], latency=1)
        hand_made(found, [late, *[forward] * 6, [("F", 1), *late[:3], *late[4:]], forward], latency=1)
    assert str(caught.value).count("waits for") == 4 and "which comes later on its link, where" in str(caught.value)
    assert re.search(r", and so on through \d+ more$", str(caught.value))


def test_shares_of_a_real_plan_go_over_links_of_whole_bandwidth():
    found = plan(costs("resnet50", Array(32, 32), batch=32), 12)
    line = layerpipe(found, 3, bandwidth=1000)
    assert line.scale == 1000 and line.start.dtype == np.int64 and line.check() == ()


@pytest.mark.parametrize("made", [layerpipe, list_schedule])
def test_fractions_too_fine_for_64_bits_become_floats(made):
    vgg16 = costs("vgg16", Array(32, 32), batch=32, **READINGS["closest"].choices())
    found = plan(vgg16, 8, "algorithm1", mode="strict")
    exact, line = made(found, 2), made(found, 60)
    assert exact.scale > 10**6 and exact.start.dtype == np.int64
    assert line.scale == 1 and line.start.dtype == np.float64 and line.check() == ()
    assert math.isclose(line.period, found.period, rel_tol=1e-12)


def test_a_timeline_longer_than_64_bits_is_refused():
    found = Plan("by hand", Costs.from_times([2**60], 0, 0, unit="cycles"), 1, ends=(1,))
    assert layerpipe(found, 7).makespan == 7 * 2**60
    with pytest.raises(ValueError, match="the timeline is longer than 64 bits hold"):
        layerpipe(found, 8)


def test_links_as_an_array_of_no_dimension():
    plain = layerpipe(TWO, 2, bandwidth=2, latency=1)
    array = layerpipe(TWO, 2, bandwidth=np.array(2), latency=np.array(1))
    assert array.bandwidth == (2,) and array.latency_of_link == (1,) and array.makespan == plain.makespan


# Names and options


@pytest.mark.parametrize("alias, name", [
    *ALIASES.items(), *((name.upper().replace("_", "-"), name) for name in SCHEDULES),
])  # fmt: skip
def test_other_names_of_a_schedule(alias, name):
    assert schedule(THREE, alias).schedule == schedule(THREE, alias.upper().replace("_", " ")).schedule == name


@pytest.mark.parametrize("name", ["gpip", "", None, 3])
def test_an_unknown_name_lists_all(name):
    with pytest.raises(ValueError, match=f"^schedule is {name!r};.* Known: {', '.join(map(repr, SCHEDULES))}$"):
        schedule(THREE, name)


def test_help_names_every_schedule_and_its_options():
    for name, function in SCHEDULES.items():
        assert f'``"{name}"``' in schedule.__doc__
        for option in inspect.signature(function).parameters:
            assert option in schedule.__doc__, (name, option)
    assert all(f'"{model}"' in schedule.__doc__ for model in MODELS)
