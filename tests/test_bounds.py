"""The iteration bound and what comes with it: certificate, loops, reference methods, slack, modulo schedules."""

import gzip
import json
from dataclasses import replace
from fractions import Fraction
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lpkit.dfg import (
    DFG, Bound, backprop_dfg, critical_path, cycle_mean_bound, iteration_bound, longest_path_matrix_bound, loops,
    modulo_schedule, slack, slow, stages_after, unfold,
)  # fmt: skip
from lpkit.interop.bench import read_bench
from test_dfg import BACKPROP, TEXTBOOK, graphs, ours, textbook

OUTSIDE = Path(__file__).parents[2] / "shared" / "golden" / "retiming"
needs_files = pytest.mark.skipif(not OUTSIDE.is_dir(), reason="there are no netlists beside the checkout")
ANSWERS = json.loads((OUTSIDE / "answers.json").read_text()) if OUTSIDE.is_dir() else {"iscas89": [], "random": []}


def largest_ratio(graph):
    """Every order of every subset of nodes, tried as a loop."""
    fewest = {}
    for u, v, w in graph.edges:
        fewest[u, v] = min(w, fewest.get((u, v), w))
    best = Fraction(0)
    for count in range(1, len(graph.nodes) + 1):
        for nodes in permutations(graph.nodes, count):
            steps = list(zip(nodes, nodes[1:] + nodes[:1]))
            if all(step in fewest for step in steps):
                time = sum(graph.times[node] for node in nodes)
                best = max(best, Fraction(time) / sum(fewest[step] for step in steps))
    return best


def retimed(graph, lags):
    return graph.with_delays([w + lags[v] - lags[u] for u, v, w in graph.edges])


@pytest.mark.parametrize("name", TEXTBOOK)
def test_textbook_bounds(name):
    golden, graph = TEXTBOOK[name]["golden"], textbook(name)
    bound = iteration_bound(graph)
    assert bound.value == Fraction(golden["iteration_bound"]) and bound.verify(graph)
    assert longest_path_matrix_bound(graph) == cycle_mean_bound(graph) == bound.value
    found = loops(graph)
    assert len(found) == golden["n_loops"]
    if found:
        assert max(loop.bound for loop in found) == bound.value
        assert bound.value in [loop.bound for loop in found if set(loop.nodes) == set(golden["critical_loop"])]


@pytest.mark.parametrize("name", BACKPROP)
def test_backprop_bounds(name):
    golden = BACKPROP[name]
    times = {ours(node): time for node, time in golden["nodes"].items()}
    for kind, edges in (("sequential", "sequential"), ("pipelined", "delayed"), ("pipelined", "retimed")):
        graph = DFG(times, [(ours(u), ours(v), w) for u, v, w in golden[f"edges_{edges}"]])
        bound = iteration_bound(graph)
        assert bound.value == Fraction(golden[f"iteration_bound_{kind}"]) and bound.verify(graph)
        golden_loop = {ours(node) for node in golden[f"critical_loop_{kind}"]}
        assert bound.value in [loop.bound for loop in loops(graph) if set(loop.nodes) == golden_loop]
    assert len(loops(graph)) == golden["n_loops"] == 3 ** golden["L"] - 1
    assert critical_path(graph).period == golden["clock_retimed"]


@needs_files
@pytest.mark.parametrize("circuit", ANSWERS["iscas89"], ids=lambda circuit: circuit["id"])
def test_iscas_circuits(circuit):
    for kind in ("raw", "swept"):
        golden, graph = circuit[kind], read_bench(OUTSIDE / circuit["file"], swept=kind == "swept")
        assert (len(graph.nodes), len(graph.edges)) == (golden["nodes"], golden["edges"])
        assert critical_path(graph).period == golden["period0"]
        assert graph.registers() == golden["registers_shared"]
        bound = iteration_bound(graph)
        assert bound.value == Fraction(golden["iteration_bound"]) and bound.verify(graph)


def read_random(path):
    lines = gzip.decompress(path.read_bytes()).decode().split("\n")
    times = {str(node): int(time) for node, time in enumerate(lines[1].split())}
    return DFG(times, [(u, v, int(w)) for u, v, w in (line.split() for line in lines[2:] if line)])


@needs_files
@pytest.mark.parametrize("entry", ANSWERS["random"], ids=lambda entry: entry["id"])
def test_random_graphs(entry):
    graph = read_random(OUTSIDE / entry["file"])
    bound = iteration_bound(graph)
    assert bound.value == Fraction(entry["golden"]["iteration_bound"]) and bound.verify(graph)
    assert critical_path(graph).period == entry["golden"]["period0"]


@settings(max_examples=200, deadline=None)
@given(graphs(most_nodes=5))
def test_all_ways_to_the_bound_agree(graph):
    expected = largest_ratio(graph)
    bound = iteration_bound(graph)
    assert bound.value == expected and bound.verify(graph)
    assert max((loop.bound for loop in loops(graph)), default=0) == expected
    assert longest_path_matrix_bound(graph) == expected
    assert cycle_mean_bound(graph) == expected


@given(graphs())
def test_loops_are_simple_and_all_there(graph):
    found = loops(graph)
    assert len({loop.nodes for loop in found}) == len(found)
    edges = {edge[:2] for edge in graph.edges}
    expected = 0
    for count in range(1, len(graph.nodes) + 1):
        for nodes in permutations(graph.nodes, count):
            closed = all(step in edges for step in zip(nodes, nodes[1:] + nodes[:1]))
            expected += closed and nodes[0] == min(nodes)
    assert len(found) == expected
    for loop in found:
        assert loop.time == sum(graph.times[node] for node in loop.nodes)
        assert loop.bound == Fraction(loop.time) / loop.delays


@settings(max_examples=40, deadline=None)
@given(graphs(), st.sampled_from([2**40, 2**70, Fraction(2**90, 3), Fraction(1, 2**100)]))
def test_the_bound_scales_with_the_times_beyond_int64(graph, factor):
    scaled = DFG({name: time * factor for name, time in graph.times.items()}, graph.edges)
    bound = iteration_bound(scaled)
    assert bound.value == iteration_bound(graph).value * factor and bound.verify(scaled)
    assert longest_path_matrix_bound(scaled) == cycle_mean_bound(scaled) == bound.value
    assert critical_path(scaled).period == critical_path(graph).period * factor


def test_numbers_that_no_float_holds():
    times = {f"n{i}": Fraction(2**200, 2**250 + 2 * i + 1) for i in range(8)}
    ring = DFG(times, [(f"n{i}", f"n{(i + 1) % 8}", 1) for i in range(8)])
    bound = iteration_bound(ring)
    assert bound.value == sum(times.values()) / 8 and bound.verify(ring)


def test_two_ratios_that_floats_cannot_tell_apart():
    large = 2**52
    graph = DFG(
        {"a": large, "b": large + 1, "c": large}, [("a", "a", 2**30 - 1), ("b", "b", 2**30 - 1), ("c", "c", 2**30)]
    )
    bound = iteration_bound(graph)
    assert bound.loop == ("b",) and bound.value == Fraction(large + 1, 2**30 - 1)


@given(graphs(), st.integers(1, 4))
def test_slow_and_unfold_change_the_bound_as_they_should(graph, k):
    value = iteration_bound(graph).value
    assert iteration_bound(slow(graph, k)).value == value / k
    assert iteration_bound(unfold(graph, k)).value == value * k


@given(graphs())
def test_reversing_all_edges_keeps_the_bound(graph):
    backwards = DFG(graph.times, [(v, u, w) for u, v, w in graph.edges])
    assert iteration_bound(backwards).value == iteration_bound(graph).value


@given(graphs(), st.data())
def test_a_further_delay_never_raises_the_bound(graph, data):
    assume(graph.edges)
    place = data.draw(st.integers(0, len(graph.edges) - 1))
    more = graph.delays + (np.arange(len(graph.edges)) == place)
    assert iteration_bound(graph.with_delays(more)).value <= iteration_bound(graph).value


@given(graphs())
def test_the_largest_path_is_no_shorter_than_the_bound_rounded_down(graph):
    assert critical_path(graph).period >= max(graph.times.values())
    assert critical_path(graph).period >= iteration_bound(graph).value


@given(graphs(), st.fractions(0, 5, max_denominator=5))
def test_a_modulo_schedule_keeps_every_edge_and_its_lags_retime(graph, more):
    value = iteration_bound(graph).value
    assume(value + more > 0)
    schedule = modulo_schedule(graph, value + more)
    starts, period = schedule.starts, schedule.period
    assert period == value + more and min(starts.values()) >= 0
    assert all(starts[v] >= starts[u] + graph.times[u] - period * w for u, v, w in graph.edges)
    assert all(starts[v] == schedule.lags[v] * period + schedule.slots[v] for v in graph.nodes)
    after = retimed(graph, schedule.lags)  # refuses a negative delay
    assert critical_path(after).period < period + max(graph.times.values()) or not any(graph.times.values())
    assert iteration_bound(after).value == value
    before = {loop.nodes: loop.delays for loop in loops(graph)}
    assert {loop.nodes: loop.delays for loop in loops(after)} == before


def test_the_least_modulo_schedule_reaches_a_bound_that_is_no_whole_number():
    schedule = modulo_schedule(textbook("frac_5_2"))
    assert schedule.period == Fraction(5, 2)


@given(graphs(most_nodes=5), st.integers(0, 3))
def test_slack_is_what_a_node_can_take_longer(graph, more):
    value = iteration_bound(graph).value
    period = value + more
    through = {name: [loop for loop in loops(graph) if name in loop.nodes] for name in graph.nodes}
    for name, spare in slack(graph, period).items():
        if not through[name]:
            assert spare is None
            continue
        assert spare == min(period * loop.delays - loop.time for loop in through[name])
        longer = DFG(dict(graph.times) | {name: graph.times[name] + spare}, graph.edges)
        assert iteration_bound(longer).value <= period
        too_long = DFG(dict(graph.times) | {name: graph.times[name] + spare + Fraction(1, 9)}, graph.edges)
        assert iteration_bound(too_long).value > period


def test_every_delta_is_critical_and_G_only_in_layer_1():
    spare = slack(backprop_dfg(5))
    assert [spare[f"delta{layer}"] for layer in range(2, 6)] == [0] * 4
    assert [spare[f"G{layer}"] for layer in range(1, 6)] == [0, 2, 4, 6, 8]


times_of_layers = st.integers(1, 5).flatmap(
    lambda L: st.tuples(*[st.lists(st.integers(0, 20), min_size=L, max_size=L) for _ in range(4)], st.integers(0, 9))
)


def path_and_back(F, G, delta, U, E):
    """A_l + B_l: forward from layer l, through E, back to it, its gradient and its update."""
    return [sum(F[l:]) + E + sum(delta[l + 1 :]) + G[l] + U[l] for l in range(len(F))]


@given(times_of_layers)
def test_closed_form_of_the_backprop_bound(times):
    F, G, delta, U, E = times
    graph = backprop_dfg(len(F), times={"F": F, "G": G, "delta": delta, "U": U, "E": E})
    assert iteration_bound(graph).value == max(path_and_back(*times))
    assert len(loops(graph)) == 3 ** len(F) - 1


@given(times_of_layers, st.data())
def test_closed_form_of_the_bound_with_delayed_gradients(times, data):
    F, G, delta, U, E = times
    steps = data.draw(st.lists(st.booleans(), min_size=len(F) - 1, max_size=len(F) - 1))
    after = stages_after(np.cumsum([1, *steps]).tolist())
    graph = backprop_dfg(len(F), times={"F": F, "G": G, "delta": delta, "U": U, "E": E})
    delayed = graph.with_delays([
        w + (2 * after[int(u[1:]) - 1] if u[0] == "G" else 0) for u, v, w in graph.edges
    ])  # fmt: skip
    around = [Fraction(time, 1 + 2 * later) for time, later in zip(path_and_back(*times), after)]
    expected = max(around + U)  # an update is also a loop of its own, with the one delay of its weights
    bound = iteration_bound(delayed)
    assert bound.value == expected and bound.verify(delayed)


def test_one_layer_a_stage_runs_with_period_2():
    graph = backprop_dfg(1000)
    assert iteration_bound(graph).value == 2000
    delayed = graph.with_delays([w + (2 * (1000 - int(u[1:])) if u[0] == "G" else 0) for u, v, w in graph.edges])
    bound = iteration_bound(delayed)
    assert bound.value == 2 and bound.verify(delayed)


def test_a_certificate_of_another_graph_is_refused():
    graph = backprop_dfg(3)
    bound = iteration_bound(graph)
    assert bound.verify(graph)
    assert not Bound(bound.value + 1, bound.loop, bound.potentials, bound.denominator).verify(graph)
    assert not Bound(bound.value, (), bound.potentials, bound.denominator).verify(graph)
    assert not Bound(bound.value, ("X", "T"), bound.potentials, bound.denominator).verify(graph)
    assert not Bound(bound.value, bound.loop, bound.potentials * 0, bound.denominator).verify(graph)
    assert not bound.verify(backprop_dfg(4))
    assert not bound.verify(backprop_dfg(3, times={"F": Fraction(1, 2)}))


@pytest.mark.parametrize("change", [
    {"value": Fraction(2), "loop": ("b",), "potentials": np.zeros(2, np.int64), "denominator": 0},  # 5 is the bound
    {"denominator": -1}, {"denominator": 1.0}, {"denominator": float("nan")}, {"value": float("nan")},
    {"value": float("inf")}, {"value": None}, {"loop": None}, {"loop": ([],)}, {"potentials": [0, 0]},
    {"potentials": np.zeros((2, 1), np.int64)}, {"potentials": np.zeros(3, np.int64)}, {"potentials": None},
    {"potentials": np.full(2, np.nan)}, {"potentials": np.full(2, np.inf)},
    {"potentials": np.array([np.nan, 0], dtype=object)},
])  # fmt: skip
def test_a_certificate_that_cannot_be_read_proves_nothing(change):
    graph = DFG({"a": 5, "b": 2}, [("a", "a", 1), ("b", "b", 1)])
    bound = iteration_bound(graph)
    assert bound.verify(graph) and not replace(bound, **change).verify(graph)


@pytest.mark.parametrize("call, message", [
    (lambda: loops(backprop_dfg(10), limit=1000), "there are more than 1000 loops; raise `limit`, or use"),
    (lambda: loops(backprop_dfg(2), limit=0), "limit is 0; it must be a whole number from 1"),
    (lambda: longest_path_matrix_bound(slow(backprop_dfg(2), 40)), "the graph holds 200 delays, more than 128; use"),
    (lambda: cycle_mean_bound(slow(backprop_dfg(2), 40)), "the graph holds 200 delays, more than 128; use"),
    (lambda: modulo_schedule(backprop_dfg(1), 1), "period 1 is too short: the loop E -> G1 -> U1 -> F1 -> E needs 2"),
    (lambda: slack(backprop_dfg(1), Fraction(1, 2)), "period 1/2 is too short: the loop E -> G1"),
    (lambda: modulo_schedule(backprop_dfg(1), -1), "period is -1; it must be a whole number or a Fraction"),
    (lambda: modulo_schedule(DFG({"a": 1}, [])), "no loop of this graph takes time, so that any period will do; give"),
    (lambda: slack(DFG({"a": 2**60, "b": 1}, [("a", "a", 1), ("b", "b", 1)])), "the times are too large for exact"),
])  # fmt: skip
def test_bad_input_is_one_sentence(call, message):
    with pytest.raises(ValueError, match=message) as error:
        call()
    assert "\n" not in str(error.value) and "np." not in str(error.value)
