"""List schedules against the independent check, the plan's period, every order of small cases, and fixed schedules."""

import itertools
import time

import numpy as np
import pytest

from lpkit.costs import Costs, costs
from lpkit.list_schedule import PRIORITIES, deltas_first, list_schedule
from lpkit.partition import PLANNERS, Plan, check_plan, plan
from lpkit.priorities import critical_gradients, priorities
from lpkit.schedule import hand_made, layerpipe, one_f_one_b, pipedream
from lpkit.timeline import KINDS

MODELS = ("registered", "1f1b")
THREE = Plan("by hand", Costs.from_times([9, 5, 4], [8, 6, 4], [8, 5, 3], unit="cycles"), 3, ends=(1, 2, 3))


def random_plan(rng, planners=tuple(PLANNERS), unit="cycles"):
    layers, top = int(rng.integers(1, 8)), int(rng.choice([3, 10, 1000]))
    columns = rng.integers(1, top + 1, layers), rng.integers(0, top + 1, layers), rng.integers(0, 2 * top + 1, layers)
    chain = Costs.from_times(*(columns if unit == "cycles" else (column / 7 for column in columns)), unit=unit)
    found = plan(chain, int(rng.integers(1, layers + 1)), str(rng.choice(planners)))
    return found if not check_plan(found) else plan(chain, found.processors, "optimal")


def under_way(line, stage):
    """Most mini-batches that a stage has begun and not finished, counted at every start."""
    rows = (line.stage == stage) & (line.kind < KINDS.index("U"))
    begun = [line.start[rows & (line.micro == n)].min() for n in range(line.batches)]
    done = [line.end[rows & (line.micro == n)].max() for n in range(line.batches)]
    return max(sum(b <= at for b in begun) - sum(d <= at for d in done) for at in begun)


# Every schedule


@pytest.mark.parametrize("in_turn", [True, False])
@pytest.mark.parametrize("seed", range(30))
def test_every_list_schedule_holds_up_to_the_check_and_to_the_bound_on_mini_batches(seed, in_turn):
    found = random_plan(np.random.default_rng(seed))
    last = len(found.ends)
    for model, priority in itertools.product(MODELS, PRIORITIES):
        line = list_schedule(found, 7, priority=priority, model=model, in_turn=in_turn)
        assert line.check() == ()
        for stage in range(1, last + 1):
            if found.stages[stage - 1] and line.busy[stage - 1] and min(found.costs.F) > 0:
                assert under_way(line, stage) <= (2 if model == "registered" else 1) * (last - stage) + 1
        assert (np.diff(line.start) >= 0).all() and line.busy == tuple(7 * load for load in found.loads)


@pytest.mark.parametrize("seed", range(40))
def test_in_turn_the_period_is_that_of_the_plan_whatever_the_priority(seed):
    found = random_plan(np.random.default_rng(seed))
    for model, priority in itertools.product(MODELS, PRIORITIES):
        assert list_schedule(found, 6 * len(found.ends) + 6, priority=priority, model=model).period == found.period


def test_free_choice_within_the_bound_may_cost_throughput():
    """The same plan and priority: F of later mini-batches goes before G, which then keeps others from coming in."""
    rng, slower = np.random.default_rng(3), 0
    for _ in range(60):
        found = random_plan(rng)
        free = list_schedule(found, 10 * len(found.ends), model="1f1b", in_turn=False)
        assert free.makespan >= 10 * len(found.ends) * found.period
        slower += free.period is not None and free.period > found.period
    assert 0 < slower < 30


@pytest.mark.parametrize("priority", PRIORITIES)
def test_the_same_comes_out_twice_and_floats_do_as_whole_numbers_do(priority):
    for seed in range(8):
        whole = random_plan(np.random.default_rng(seed), ("pipedream",))
        one, two = (list_schedule(whole, 6, priority=priority) for _ in range(2))
        assert one.operations == two.operations
        seconds = Plan("by hand", Costs.from_times(*(column / 4 for column in (whole.costs.F, whole.costs.G,
                       whole.costs.delta))), whole.processors, whole.ends)  # fmt: skip
        other = list_schedule(seconds, 6, priority=priority)
        assert other.check() == () and (other.kind == one.kind).all() and np.allclose(other.end * 4, one.end)


# What order results


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("seed", range(30))
def test_critical_loops_give_the_order_of_layerpipe(seed, model):
    """Without moved work, and with G_1 alone critical: all deltas of a stage before its G, and its very times."""
    rng = np.random.default_rng(seed)
    found = random_plan(rng, ("pipedream", "equal_layers"))
    if critical_gradients(found.costs) != (1,) or found.costs.delta[1:].min(initial=1) == 0:
        found = Plan("by hand", Costs.from_times([2, 3, 4, 1], [1, 2, 3, 4], [0, 5, 1, 2], unit="cycles"), 3, (1, 3, 4))
    line, fixed = list_schedule(found, 9, model=model), layerpipe(found, 9, model=model)
    assert deltas_first(line) == 1.0
    if not found.costs.delta[0]:  # nothing waits for a delta of layer 1: its place among the G is free
        assert (line.makespan, line.fill, line.drain, line.period) == (
            fixed.makespan, fixed.fill, fixed.drain, fixed.period)  # fmt: skip
        assert line.latency(5) == fixed.latency(5)
    assert deltas_first(list_schedule(found, 9, model=model, priority="delta_first")) == 1.0


def test_G_of_the_first_layer_goes_first_among_the_G_as_it_is_critical():
    found = Plan("by hand", Costs.from_times([1] * 4, 1, [0, 1, 1, 1], unit="cycles"), 2, ends=(3, 4))
    line = list_schedule(found)
    backward = [(op.kind, op.layer) for op in line.operations if op.stage == 1 and op.kind in ("G", "delta")]
    assert backward == [("delta", 3), ("delta", 2), ("G", 1), ("G", 2), ("G", 3)]
    fixed = [(op.kind, op.layer) for op in layerpipe(found).operations if op.stage == 1 and op.kind in ("G", "delta")]
    assert fixed == [("delta", 3), ("delta", 2), ("G", 3), ("G", 2), ("G", 1)]


def test_layer_order_is_that_of_pipedream():
    found = Plan("by hand", Costs.from_times([2, 3, 4, 1], [1, 2, 3, 4], [0, 5, 1, 2], unit="cycles"), 2, (2, 4))
    line, fixed = list_schedule(found, 8, priority="layer_order", model="1f1b"), pipedream(found, 8)
    assert (line.makespan, line.fill, line.period) == (fixed.makespan, fixed.fill, fixed.period)
    assert deltas_first(line) == deltas_first(fixed) == 0.0


def test_a_G_runs_while_a_delta_waits_for_its_other_half():
    """Stage 1 has delta3' done at 9; delta2 needs delta3'' too, till 14, and G3 of 5 fits before it."""
    chain = Costs.from_times([1, 1, 1, 1], [1, 1, 5, 1], [0, 2, 10, 2], unit="cycles")
    found = Plan("by hand", chain, 2, ends=(3, 4), moved=((3, 1, 2, 8),))
    line = list_schedule(found)
    backward = [(op.kind, op.layer, op.start) for op in line.operations if op.stage == 1 and op.kind not in "FU"]
    assert backward == [("delta'", 3, 6), ("G", 3, 8), ("delta", 2, 14), ("G", 1, 16), ("G", 2, 17)]
    assert deltas_first(line) == 0.5 and layerpipe(found).makespan - line.makespan == 5


def test_a_lone_mini_batch_against_numbers_worked_out_by_hand():
    forward, deltas, gradients, first_stage = 9 + 5 + 4, 3 + 5, 4 + 6, 8 + 8
    first = forward + deltas + first_stage
    plain = first + gradients  # layer by layer, each stage makes the next one wait for its G
    assert [list_schedule(THREE, priority=name).makespan for name in PRIORITIES] == [first, first, plain, plain]


def test_own_ranks_turn_the_order_round():
    found = Plan("by hand", Costs.from_times([1] * 4, 1, 1, unit="cycles"), 2, ends=(3, 4))
    table = priorities(found)
    table["rank"] = (table["kind"] != "G") + 1
    line = list_schedule(found, 4, priority=table)
    assert line.check() == () and deltas_first(line) == 0.0 and line.schedule == "list, own priorities"


# Against every order there is


def every_order(found):
    """Makespans of one mini-batch under all orders of the backward operations on each stage that can be run."""
    wanted = []
    for layers in found.stages:
        own = [("G", l) for l in layers] + [("delta", l) for l in layers if l > 1]
        wanted.append(list(itertools.permutations(own)))
    costs_of = {"G": found.costs.G.tolist(), "delta": found.costs.delta.tolist()}
    for orders in itertools.product(*wanted):
        done, place, free = {("delta", len(found.costs) + 1): sum(found.costs.F.tolist())}, [0] * len(orders), {}
        moving = True
        while moving:
            moving = False
            for k, order in enumerate(orders):
                if place[k] < len(order) and ("delta", order[place[k]][1] + 1) in done:
                    kind, l = order[place[k]]
                    start = max(free.get(k, 0), done["delta", l + 1])
                    free[k] = done[kind, l] = start + costs_of[kind][l - 1]
                    place[k], moving = place[k] + 1, True
        if all(at == len(order) for at, order in zip(place, orders)):
            yield max(free.values())


@pytest.mark.parametrize("seed", range(12))
def test_no_order_of_a_lone_mini_batch_is_faster_than_delta_first(seed):
    rng = np.random.default_rng(seed)
    chain = Costs.from_times(rng.integers(1, 9, 4), rng.integers(1, 9, 4), [0, *rng.integers(1, 9, 3)], unit="cycles")
    found = Plan("by hand", chain, 2, ends=(int(rng.integers(1, 4)), 4))
    spans = list(every_order(found))
    assert list_schedule(found, priority="delta_first").makespan == layerpipe(found).makespan == min(spans)
    assert pipedream(found).makespan <= max(spans)
    if critical_gradients(chain) == (1,):
        assert list_schedule(found).makespan == min(spans)


def test_list_schedules_are_near_the_fixed_ones_on_random_plans():
    ratios = []
    for seed in range(60):
        found = random_plan(np.random.default_rng(seed))
        count = 4 * len(found.ends)
        ratios.append(float(list_schedule(found, count).makespan / layerpipe(found, count).makespan))
    assert 0.97 < min(ratios) <= np.mean(ratios) < 1.001 and max(ratios) < 1.03


def test_against_1f1b_with_a_flush():
    """One mini-batch at a time with an update is one micro-batch after the other; overlap only makes it shorter."""
    for first, priority in ((False, "layer_order"), (True, "critical_loop")):
        flushed = one_f_one_b(THREE, micro_batches=12, delta_first=first)
        line = list_schedule(THREE, 12, priority=priority, model="1f1b")
        assert line.makespan == flushed.makespan  # the same turns, and updates take no time


def test_a_hand_made_copy_takes_as_long():
    found = Plan("by hand", Costs.from_times([2, 3, 1], [1, 2, 2], [0, 4, 1], unit="cycles"), 2, ends=(2, 3))
    orders = [[("F", 0), ("delta", 0), ("G", 0), ("U", 0)]] * 2
    assert hand_made(found, orders).makespan == list_schedule(found).makespan


# Size and speed


def test_twenty_thousand_operations_take_less_than_half_a_second():
    found, spent = plan(costs("resnet50", batch=32), 12, "optimal"), []
    for _ in range(5):
        before = time.process_time()
        line = list_schedule(found, 100)
        spent.append(time.process_time() - before)
    assert len(line) > 20_000 and line.period == found.period and min(spent) < 0.5


@pytest.mark.parametrize("call, sentence", [
    (lambda: list_schedule(THREE.costs), "plan is Costs.*; give a Plan, as a planner returns it"),
    (lambda: list_schedule(Plan("by hand", THREE.costs, 2, ends=(1, 2, 3))),
     "the plan cannot be run: there are 3 stages"),
    (lambda: list_schedule(THREE, 0), "batches is 0; it must be a whole number from 1 to "),
    (lambda: list_schedule(THREE, 10**8),
     "there would be about 1,200,000,000 operations; ask for at most 20,000,000, with"),
    (lambda: list_schedule(THREE, priority="critical"), "priority is 'critical'; did you mean 'critical_loop'"),
    (lambda: list_schedule(THREE, model="2f2b"), "model is '2f2b'; Known: 'registered', '1f1b'"),
    (lambda: list_schedule(THREE, priority=priorities(THREE).drop(columns="rank")),
     "the priorities have no column 'rank'; give kind, layer and rank, one row an operation"),
    (lambda: list_schedule(THREE, priority=priorities(THREE).query("kind != 'G'")),
     "the priorities have no row for G of layer 3; give each operation one"),
    (lambda: list_schedule(THREE, priority=priorities(THREE).assign(rank=0.5)),
     "the rank of F of layer 1 is 0.5; it must be a whole number from 0 to "),
    (lambda: list_schedule(Plan("by hand", Costs.from_times([2**61], 2**61, 0, unit="cycles"), 1, ends=(1,)), 3),
     "the timeline is longer than 64 bits hold; use fewer mini-batches, costs in a larger unit, or"),
    (lambda: list_schedule(Plan("by hand", Costs.from_times([1e308], 5e307, 0), 1, ends=(1,)), 3),
     "the timeline is longer than a float holds; use fewer mini-batches or a larger unit"),
])  # fmt: skip
def test_bad_input_is_one_sentence(call, sentence):
    with pytest.raises(ValueError, match=f"^{sentence}") as caught:
        call()
    assert "\n" not in str(caught.value)
