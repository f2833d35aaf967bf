"""Measures of Figs. 5 and 6 against the bounds and counts they stand for, and against damage."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from lpkit import schedule_measures as measures
from lpkit.costs import READINGS, Costs
from lpkit.partition import Plan, check_plan, plan
from lpkit.schedule import hand_made, layerpipe, pipedream

READS = list(READINGS)


@pytest.mark.parametrize("read, cell", list(itertools.product(READS, measures.CELLS)))
def test_plans_can_be_run_in_whole_cycles_and_keep_the_period_of_their_planner(read, cell):
    made = measures.planned(read, cell)
    assert check_plan(made) == () and all(type(move[3]) is int for move in made.moved)
    again = plan(made.costs, cell[1], measures.LAYERPIPE, mode="strict")
    assert again.ends == made.ends and abs(made.period - again.period) <= 1
    for order, model in (("layer", "1f1b"), ("delta", "1f1b"), ("delta", "registered")):
        assert measures.timeline(read, cell, measures.LAYERPIPE, order, model, 3).check() == ()


def test_the_bound_on_a_lone_mini_batch_is_reached_without_moved_work_and_never_passed():
    """Against all orders of G and delta that a stage may run, blocks of a stage of two layers apart."""
    rng, reached = np.random.default_rng(0), 0
    for _ in range(60):
        layers = int(rng.integers(2, 6))
        chain = Costs.from_times(*(rng.integers(1, 9, layers) for _ in range(3)), unit="cycles")
        made = plan(replace(chain, delta=np.array([0, *chain.delta[1:]])), int(rng.integers(1, layers + 1)), "optimal")
        bound = measures._least(made)
        for line in (layerpipe(made), pipedream(made)):
            assert line.makespan >= bound
        reached += layerpipe(made).makespan == bound
        assert made.moved or layerpipe(made).makespan == bound
    assert reached > 30


def test_two_stages_by_hand():
    """F 1 + 2 + 3; delta3 4 above the cut; of delta2, 6, the next stage does 2: stage 1 ends last, on G1 and G2."""
    chain = Costs.from_times([1, 2, 3], [5, 7, 1], [0, 6, 4], unit="cycles")
    made = Plan("by hand", chain, 2, ends=(2, 3), moved=((2, 1, 2, 2),))
    assert measures._least(made) == layerpipe(made).makespan == 6 + 4 + (6 - 2) + 5 + 7
    assert measures._overlaps(layerpipe(made)) == [True]
    later = [[("F", 0), ("B", 0), ("U", 0)], [("F", 0), ("delta", 0), ("G", 0), ("U", 0)]]
    assert measures._overlaps(hand_made(made, later)) == [False]  # delta2'' is long done when stage 1 has done G2


def test_what_passes_for_a_critical_loop_of_the_paper():
    ordinary = Costs.from_times([2, 2], [3, 6], [0, 2], unit="cycles")
    assert measures._passes(measures.priorities(ordinary))
    assert not measures._passes(measures.priorities(replace(ordinary, G=np.array([3, 7]))))
    assert not measures._passes(measures.priorities(replace(ordinary, G=np.array([3, 8]))))


def test_stages_are_numbered_without_empty_ones():
    assert measures._numbered([1, 1, 3, 4, 4]) == (1, 1, 2, 3, 3) and measures._numbered([2]) == (1,)


def test_the_example_of_fig_5_by_hand():
    """12 + 12 + 6 against 10 + 12 + 6; a third of delta is the whole difference, so that the loads change places."""
    assert [measures._example(moved).loads for moved in (0, 1, 2)] == [(30, 28), (29, 29), (28, 30)]
    lines = [layerpipe(measures._example(moved), 12) for moved in (0, 1, 2)]
    assert [line.period for line in lines] == [30, 29, 30]
    alone = [layerpipe(measures._example(moved)).makespan for moved in (0, 1, 2)]
    assert alone == [22 + 6 + 6 + 12, 22 + 6 + 5 + 12, 22 + 6 + 4 + 12]
    assert measures.third_lowers_latency("plain") == 44 / 46
    assert measures.third_raises_throughput("plain") == 0
    assert measures.half_the_difference_raises_throughput("plain") == 1


@pytest.mark.parametrize("read", READS)
def test_latency_in_a_full_pipeline_is_what_is_under_way_times_the_period(read):
    """Where the first stage sets the pace: S + 1 mini-batches under way, or 2 S + 1, whichever order."""
    made = Plan("by hand", Costs.from_times([6, 2, 2], [6, 2, 2], [0, 2, 2], unit="cycles"), 3, ends=(1, 2, 3))
    for line, under_way in ((pipedream(made, 30), 3), (layerpipe(made, 30, model="1f1b"), 3), (layerpipe(made, 30), 5)):
        assert line.latency(15) == under_way * line.period
    assert measures.delta_first_steady_latency(read) == 0 and measures.registered_latency_vgg16(read) > 1.4


@pytest.mark.parametrize("read", READS)
def test_shares_are_shares_and_ratios_are_of_the_timelines(read):
    one, other = (measures.timeline(read, measures.SAMPLE, measures.LAYERPIPE, order, "1f1b", 1)
                  for order in ("delta", "layer"))  # fmt: skip
    assert measures.delta_first_latency_sample(read) == float(one.makespan / other.makespan) < 1
    theirs = measures.timeline(read, measures.SAMPLE, "pipedream", "layer", "1f1b", 1)
    assert measures.layerpipe_latency_sample(read) == float(one.makespan / theirs.makespan)
    for share in (measures.critical_loop_pipelined, measures.loops_order_split_delta_first, measures.latency_is_least,
                  measures.stages_are_balanced, measures.timeline_keeps_the_derived_versions):  # fmt: skip
        assert 0 <= share(read) <= 1
