"""Priorities by critical loop against every loop of small graphs, closed forms, and the cases where the paper errs."""

from fractions import Fraction

import numpy as np
import pytest

from lpkit.bounds import iteration_bound
from lpkit.costs import READINGS, Costs, costs
from lpkit.derivation import derive
from lpkit.loops import loops
from lpkit.partition import Plan, check_plan, plan
from lpkit.priorities import critical_gradients, operation_graph, priorities
from lpkit.slack import slack
from lpkit.systolic import Array


def chain(rng, layers, top=9):
    return Costs.from_times(*(rng.integers(0, top + 1, layers) for _ in range(3)), unit="cycles")


def random_plan(rng):
    """A plan of up to five layers by the exact planner, so that it may move work."""
    layers = int(rng.integers(2, 6))
    return plan(chain(rng, layers), int(rng.integers(1, layers + 1)), "optimal")


def by_loops(dfg):
    """Slack of each node on a loop, from every loop there is."""
    found = loops(dfg, limit=200_000)
    bound = max(loop.bound for loop in found)
    return {node: min(bound * loop.delays - loop.time for loop in found if node in loop.nodes)
            for node in {node for loop in found for node in loop.nodes}}  # fmt: skip


def names(table):
    """Node names of a table's rows."""
    return [(kind.rstrip("'") + str(layer) + kind[len(kind.rstrip("'")):]) for kind, layer in
            zip(table["kind"], table["layer"])]  # fmt: skip


@pytest.mark.parametrize("graph", ["sequential", "delayed"])
@pytest.mark.parametrize("seed", range(15))
def test_slack_is_that_of_the_tightest_of_all_loops(seed, graph):
    found = random_plan(np.random.default_rng(seed))
    table, spare = priorities(found, graph=graph), by_loops(operation_graph(found, graph=graph)[0])
    assert len(table) == len(spare.keys() & set(names(table))) + (found.costs.delta[0] > 0) * (
        1 + any(move[0] == 1 for move in found.moved))  # layer 1's delta is on no loop
    for name, left, critical in zip(names(table), table["slack"], table["critical"]):
        assert left == spare.get(name) and critical == (left == 0)


@pytest.mark.parametrize("seed", range(25))
def test_ranks_follow_slack_and_times_are_those_of_the_plan(seed):
    found = random_plan(np.random.default_rng(seed))
    table = priorities(found)
    pairs = list(zip(table["slack"], table["rank"]))
    known = [pair for pair in pairs if pair[0] is not None]
    assert known == sorted(known) and [rank for left, rank in pairs if left is None] == [
        len({left for left, _ in known}) + 1] * (len(pairs) - len(known))  # fmt: skip
    assert len(set(known)) == len({left for left, _ in known}) == len({rank for _, rank in known})
    assert tuple(sum(table["time"][table["stage"] == k]) for k in range(1, len(found.ends) + 1)) == found.loads


# Where the paper is right, and exactly where not


def test_equal_layers_have_G_of_the_first_layer_alone_on_the_critical_loops():
    table = priorities(Costs.from_times([1] * 5, 1, 1, unit="cycles"))
    on = set(names(table[table["critical"]]))
    assert on == {"F1", "F2", "F3", "F4", "F5", "delta2", "delta3", "delta4", "delta5", "G1"}
    assert [table["slack"][names(table).index(f"G{l}")] for l in (2, 3, 4, 5)] == [2, 4, 6, 8]


@pytest.mark.parametrize("extra, critical, gradients", [
    (-1, {"F1", "F2", "F3", "delta2", "delta3", "G1"}, (1,)),
    (0, {"F1", "F2", "F3", "delta2", "delta3", "G1", "G2"}, (1, 2)),
    (1, {"F2", "F3", "delta3", "G2"}, (2,)),  # layer 2's loop has F1, delta2 and G1 off
])
def test_a_G_as_long_as_F_and_delta_below_it_and_G1_is_critical(extra, critical, gradients):
    F, G1, delta2 = 3, 5, 4
    made = Costs.from_times([F, 2, 2], [G1, F + delta2 + G1 + extra, 1], [0, delta2, 6], unit="cycles")
    table = priorities(made)
    assert set(names(table[table["critical"]])) == critical and critical_gradients(made) == gradients


@pytest.mark.parametrize("seed", range(40))
def test_the_closed_form_names_the_layers_whose_G_is_on_a_critical_loop_of_all(seed):
    rng = np.random.default_rng(seed)
    made = chain(rng, int(rng.integers(1, 6)), top=int(rng.choice([2, 9, 30])))
    spare = by_loops(operation_graph(made)[0])
    assert critical_gradients(made) == tuple(l for l in range(1, len(made) + 1) if spare[f"G{l}"] == 0)
    longest = made.G[0] + np.cumsum([0, *(made.F[:-1] + made.delta[1:])])  # of G that leaves layer 1 critical
    assert (1 in critical_gradients(made)) == bool((made.G <= longest).all())
    if critical_gradients(made) == (1,):
        assert all(spare[f"delta{l}"] == 0 for l in range(2, len(made) + 1))
        assert all(spare[f"F{l}"] == 0 for l in range(1, len(made) + 1))


def test_both_kinds_of_graph_are_met():
    found = [critical_gradients(chain(np.random.default_rng(seed), 4, top=30)) for seed in range(200)]
    assert 0.5 < np.mean([layers == (1,) for layers in found]) < 1


@pytest.mark.parametrize("read", list(READINGS))
@pytest.mark.parametrize("name", ["sample4", "vgg16", "resnet50"])
def test_the_networks_of_the_paper_have_G1_alone_on_their_critical_loops(name, read):
    assert critical_gradients(costs(name, Array(32, 32), batch=32, **READINGS[read].choices())) == (1,)


def test_two_halves_of_a_delta_may_make_the_G_above_them_critical():
    """Side by side they take half as long; the loop of layer 1 gets shorter, and that of layer 2 does not."""
    made = Costs.from_times([2, 6, 1], [1, 8, 0], [0, 8, 0], unit="cycles")
    whole, split = (Plan("by hand", made, 2, (2, 3), moved) for moved in ((), ((2, 1, 2, 4),)))
    assert critical_gradients(made) == (1,) and check_plan(split) == ()
    on = [set(names(table[table["critical"]])) for table in map(priorities, (whole, split))]
    assert on == [{"F1", "F2", "F3", "delta2", "delta3", "G1"}, {"F2", "F3", "delta3", "G2"}]


# After the delays of the pipeline


def test_in_the_pipelined_graph_the_last_stage_has_the_critical_loop_and_its_G():
    """One layer a stage, equal times: U4, F4, E, G4 takes 2; every other loop has time to spare, that of delta too."""
    made = Plan("by hand", Costs.from_times([1] * 4, 1, 1, unit="cycles"), 4, ends=(1, 2, 3, 4))
    table = priorities(made, graph="delayed").set_index(["kind", "layer"])
    assert table["critical"].sum() == 2 and table.loc[("F", 4), "critical"] and table.loc[("G", 4), "critical"]
    assert [table.loc[("G", l), "slack"] for l in (1, 2, 3, 4)] == [6, 4, 2, 0]
    assert [table.loc[("delta", l), "slack"] for l in (2, 3, 4)] == [6, 4, 2]


@pytest.mark.parametrize("seed", range(20))
def test_retiming_leaves_slack_alone_and_the_bound_is_within_the_period(seed):
    rng = np.random.default_rng(seed)
    made = chain(rng, 5)
    found = plan(made, 3, "pipedream")
    before = operation_graph(found, graph="delayed")[0]
    after = derive(operation_graph(found)[0], [found.stage_of(l) for l in range(1, 6)])[-1].dfg
    spare = slack(after)
    assert slack(before) == {name: spare[name] for name in before.nodes}
    assert iteration_bound(before).value <= found.period


# Costs in floats, and input that is none


def test_floats_are_rounded_to_a_grain_and_order_as_whole_numbers_do():
    whole = Costs.from_times([3, 5, 2], [4, 1, 6], [0, 7, 2], unit="cycles")
    seconds = Costs.from_times(*(column / 7 for column in (whole.F, whole.G, whole.delta)))
    one, other = priorities(whole), priorities(seconds)
    assert names(one) == names(other) and one["rank"].tolist() == other["rank"].tolist()
    assert np.allclose(one["slack"].astype(float) / 7, other["slack"].astype(float), atol=1e-7)
    assert critical_gradients(seconds) == critical_gradients(whole) == (1,)


def test_moved_floats_are_operations_of_their_own():
    found = plan(Costs.from_times([0.3, 0.2, 0.1], 0.1, [0.0, 1.7, 0.1]), 2, "optimal")
    table = priorities(found)
    parts = {kind: table["time"][table["kind"] == kind].sum() for kind in ("delta'", "delta''")}
    assert found.moved and sum(parts.values()) == pytest.approx(1.7) and min(parts.values()) > 0


def test_moved_fractions_stay_exact():
    found = Plan("by hand", Costs.from_times([2, 2], 2, [0, 5], unit="cycles"), 1, ends=(2,))
    assert priorities(found)["slack"].map(type).eq(int).all()
    split = Plan("by hand", Costs.from_times([2, 2, 2], 2, [0, 5, 5], unit="cycles"), 2, (2, 3),
                 ((2, 1, 2, Fraction(5, 3)),))  # fmt: skip
    table = priorities(split).set_index(["kind", "layer"])
    assert table.loc[("delta''", 2), "slack"] == Fraction(5, 3) and table.loc[("delta'", 2), "slack"] == 0


@pytest.mark.parametrize("call, sentence", [
    (lambda: priorities("vgg16"), "there are no operations in 'vgg16'; give a Plan or Costs"),
    (lambda: critical_gradients(3), "costs is 3; give Costs, as lpkit.costs.costs returns them"),
    (lambda: priorities(Costs.from_times([1], 1, 0), graph="pipelined"),
     "graph is 'pipelined'; .*Known: 'sequential', "),
    (lambda: priorities(Costs.from_times([1], 1, 0), graph="delayed"), "graph 'delayed' depends on the stages; give a"),
    (lambda: priorities(Plan("by hand", Costs.from_times([1, 1], 1, 0), 2, ends=(1, 1))),
     "the plan cannot be run: the "),
])  # fmt: skip
def test_bad_input_is_one_sentence(call, sentence):
    with pytest.raises(ValueError, match=f"^{sentence}") as caught:
        call()
    assert "\n" not in str(caught.value)
