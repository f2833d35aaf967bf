"""Retiming: legal moves, shortest period, fewest registers, against recorded answers and all-pairs oracles."""

import json
import sys
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from lpkit.dfg import DFG, backprop_dfg, critical_path, iteration_bound, loops, slow
from lpkit.flows import SOLVERS, min_cost_flow
from lpkit.interop.bench import read_bench
from lpkit.retiming import (
    PeriodCertificate, delay_gradients, derive, min_period, min_registers, move, pipeline, register_cost, retime,
    tensor_bytes, verify_min_period, verify_min_registers,
)  # fmt: skip


GOLDEN = json.loads((Path(__file__).parent / "golden" / "retiming.json").read_text())
OUTSIDE = Path(__file__).parents[2] / "shared" / "golden" / "retiming"
ANSWERS = json.loads((OUTSIDE / "answers.json").read_text()) if OUTSIDE.exists() else {"iscas89": [], "random": []}
outside = pytest.mark.skipif(not OUTSIDE.exists(), reason="the netlists and random graphs are not in the repository")
RING = DFG({"a": 2, "b": 3, "c": 1}, [("a", "b", 0), ("b", "c", 1), ("c", "a", 1)])


@st.composite
def graphs(draw, most_nodes=6, hosts=True, times=st.integers(0, 6) | st.fractions(0, 6, max_denominator=4)):
    """Graphs without a delay-free loop, some with hosts."""
    names = [f"n{i}" for i in range(draw(st.integers(1, most_nodes)))]
    places = st.integers(0, len(names) - 1)
    triples = draw(st.lists(st.tuples(places, places, st.integers(0, 2)), max_size=2 * most_nodes))
    edges = [(names[u], names[v], w + (u >= v)) for u, v, w in triples]
    held = draw(st.sets(st.sampled_from(names), max_size=3)) if hosts else ()
    return DFG({name: draw(times) for name in names}, edges, sorted(held))


def random_lags(dfg, seed):
    """Legal lags of some size: how many delays the paths from a random start have at least."""
    rng = np.random.default_rng(seed)
    lags = {name: int(rng.integers(-3, 4)) for name in dfg.nodes}
    for _ in dfg.nodes:  # the largest lags below these that are legal
        for u, v, w in dfg.edges:
            lags[u] = min(lags[u], lags[v] + w)
    return lags


def all_paths(dfg):
    """{(u, v): (W, D)}: fewest delays of a path and the longest time of such a path; not from host to host."""
    best = {}
    for name in dfg.nodes:
        best[name, name] = (0, -Fraction(dfg.times[name]))
    for _ in dfg.nodes:
        for (s, u), (w, d) in list(best.items()):
            for a, b, delays in dfg.edges:
                if a == u:
                    label = (w + delays, d - dfg.times[b])
                    best[s, b] = min(best.get((s, b), label), label)
    return {ends: (w, -d) for ends, (w, d) in best.items()}


def constraints(dfg, paths, period):
    """(a, b, k): r(a) - r(b) <= k, those of a period included; host lags are equal."""
    rows = [(u, v, w) for u, v, w in dfg.edges]
    rows += [(a, b, w - 1) for (a, b), (w, d) in paths.items() if period is not None and d > period]
    return rows + [row for a, b in pairwise(dfg.hosts) for row in ((a, b, 0), (b, a, 0))]


def is_feasible(dfg, rows):
    """Bellman-Ford."""
    lag = dict.fromkeys(dfg.nodes, 0)
    for _ in range(len(lag) + 1):
        changed = False
        for a, b, k in rows:
            if lag[a] - k > lag[b]:
                lag[b], changed = lag[a] - k, True
        if not changed:
            return True
    return False


def fewest_by_linprog(dfg, rows, shared):
    """The primal programme on all constraints at once."""
    index, n, count = dfg.index, len(dfg.nodes), 2 * len(dfg.nodes)
    cost, matrix, bound, constant = np.zeros(count), [], [], 0
    for a, b, k in rows:
        matrix.append(np.eye(count)[index[a]] - np.eye(count)[index[b]])
        bound.append(k)
    for u, v, w in dfg.edges:
        if shared:
            matrix.append(np.eye(count)[index[v]] - np.eye(count)[n + index[u]])
            bound.append(-w)
        else:
            constant += w
            cost[index[v]] += 1
            cost[index[u]] -= 1
    for u in {edge.source for edge in dfg.edges} if shared else ():
        cost[n + index[u]], cost[index[u]] = 1, cost[index[u]] - 1
    found = linprog(cost, A_ub=np.reshape(matrix, (-1, count)), b_ub=bound, bounds=(-50, 50))
    return round(found.fun) + constant


def loop_delays(dfg):
    return sorted((loop.nodes, loop.delays) for loop in loops(dfg, 10_000))


# moves


def test_moves_by_hand():
    assert [e.delays for e in retime(RING, {"b": 1}).edges] == [1, 0, 1]
    assert [e.delays for e in move(RING, ["b", "c"], 1).edges] == [1, 1, 0]
    assert [e.delays for e in move(RING, "a", 0).edges] == [0, 1, 1]
    assert retime(RING, {}).edges == RING.edges
    parallel = DFG({"a": 1, "b": 1}, [("a", "b", 0), ("a", "b", 2)])
    assert [e.delays for e in pipeline(parallel, "b", 3).edges] == [3, 5]
    assert [e.delays for e in pipeline(parallel, [("a", "b")], 1).edges] == [1, 3]


@given(graphs(hosts=False), st.integers(0, 10_000))
def test_retiming_keeps_loops_and_bound_and_shifts_paths(dfg, seed):
    lags = random_lags(dfg, seed)
    retimed = retime(dfg, lags)
    assert loop_delays(retimed) == loop_delays(dfg)
    assert iteration_bound(retimed).value == iteration_bound(dfg).value
    before, after = all_paths(dfg), all_paths(retimed)
    assert all(after[u, v][0] == w + lags[v] - lags[u] for (u, v), (w, _) in before.items())
    assert retime(retimed, {name: -lag for name, lag in lags.items()}).edges == dfg.edges


@given(graphs(hosts=False), st.integers(0, 3), st.data())
def test_a_move_is_a_retiming_of_one_side(dfg, k, data):
    side = data.draw(st.sets(st.sampled_from(dfg.nodes), min_size=1))
    joined = any((u in side) != (v in side) for u, v, _ in dfg.edges)
    enough = all(w >= k for u, v, w in dfg.edges if u in side and v not in side)
    if joined and enough:
        assert move(dfg, side, k).edges == retime(dfg, dict.fromkeys(side, k)).edges
    else:
        with pytest.raises(ValueError, match="no edge joins|which has"):
            move(dfg, side, k)


@given(graphs(hosts=False), st.integers(1, 3), st.data())
def test_pipelining_takes_feedforward_cutsets_only(dfg, k, data):
    side = data.draw(st.sets(st.sampled_from(dfg.nodes), min_size=1))
    out = [e for e in dfg.edges if e.source in side and e.target not in side]
    back = [e for e in dfg.edges if e.target in side and e.source not in side]
    if bool(out) == bool(back):
        with pytest.raises(ValueError, match="not feedforward|no edge joins"):
            pipeline(dfg, side, k)
    else:
        piped = pipeline(dfg, side, k)
        assert [new.delays - old.delays for old, new in zip(dfg.edges, piped.edges)] == [
            k * (old in (out or back)) for old in dfg.edges
        ]
        assert loop_delays(piped) == loop_delays(dfg)
        # k delays on a feedforward cutset are a retiming of one side: the side that enters runs k iterations later
        other = set(dfg.nodes) - side if out else side
        assert piped.edges == retime(dfg, dict.fromkeys(other, k)).edges


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: retime(RING, {"a": 1}), r"edge a -> b would have -1 delays: it has 0, r\(b\) = 0 and r\(a\) = 1"),
        (lambda: retime(RING, {"z": 1}), "a node of r is 'z'; Known: 'a', 'b', 'c'"),
        (lambda: retime(RING, {"a": 0.5}), "the lag of node 'a' is 0.5; it must be a whole number"),
        (lambda: retime(RING, {"a": np.nan}), "the lag of node 'a' is nan"),
        (lambda: retime(RING, [1, 2, 3]), "r is a list; it must map nodes to lags"),
        (lambda: retime(replace(RING, hosts=("b",)), {"b": 1}), "host 'b' has the lag 1; hosts keep the lag 0"),
        (lambda: move(RING, "c", 2), "moving 2 delays takes 2 from edge c -> a, which has 1; move fewer"),
        (lambda: move(RING, "b", -1), "moving 1 delays takes 1 from edge a -> b, which has 0"),
        (lambda: move(RING, "q", 1), "'q'"),
        (lambda: move(RING, RING.nodes, 1), "no edge joins"),
        (lambda: pipeline(RING, "a", 1), "not feedforward: a -> b leads one way and c -> a the other"),
        (lambda: pipeline(RING, [("a", "b")], 1), "these edges are not a cutset"),
        (lambda: pipeline(RING, [("a", "c")], 1), "there is no edge a -> c"),
        (lambda: pipeline(RING, "a", -1), "the number of delays to add is -1"),
        (lambda: delay_gradients(backprop_dfg(2), {3: 1}), "no edge G3 -> U3; its layers are 1, 2"),
        (lambda: delay_gradients(backprop_dfg(2), {1: -1}), "the gradient delay of layer 1 is -1"),
        (lambda: delay_gradients(backprop_dfg(2), (1, 2, 2)), "stages has 3 numbers; give 2"),
        (lambda: delay_gradients(RING, {1: 1}), "no edge G1 -> U1; its layers are none"),
    ],
)
def test_illegal_moves_say_why(call, message):
    with pytest.raises(ValueError, match=message) as caught:
        call()
    assert "np." not in str(caught.value) and "\n" not in str(caught.value)


# shortest period


def textbook(entry):
    return DFG(entry["nodes"], entry["edges"], [entry["host"]] if entry["host"] else [])


@pytest.mark.parametrize("entry", GOLDEN["textbook"], ids=lambda entry: entry["id"])
def test_textbook_periods_and_registers(entry):
    dfg, golden = textbook(entry), entry["golden"]
    found = min_period(dfg)
    assert found.period == golden["min_period"] and verify_min_period(dfg, found)
    for shared, key in ((True, "min_registers_shared"), (False, "min_registers_edge_sum")):
        for period, suffix in ((None, ""), (found.period, "_at_min_period")):
            least = min_registers(dfg, period, shared=shared)
            assert least.registers == golden[key + suffix]
            assert verify_min_registers(dfg, least, period, shared=shared)


@outside
@pytest.mark.parametrize("kind", ["raw", "swept"])
@pytest.mark.parametrize("entry", [e for e in ANSWERS["iscas89"] if e["gates"] < 3000], ids=lambda entry: entry["id"])
def test_small_circuits(entry, kind):
    dfg, golden = read_bench(OUTSIDE / entry["file"], swept=kind == "swept"), entry[kind]
    found = min_period(dfg)
    assert found.period == golden["min_period"] and verify_min_period(dfg, found)
    for period, suffix in ((None, ""), (found.period, "_at_min_period")):
        least = min_registers(dfg, period)
        assert least.registers == golden["min_registers_shared" + suffix] and verify_min_registers(dfg, least, period)
    if kind == "raw":
        assert min_period(replace(dfg, hosts=())).period == entry["min_period_free_io"]


@outside
@pytest.mark.parametrize("entry", [e for e in ANSWERS["iscas89"] if e["gates"] >= 3000], ids=lambda entry: entry["id"])
def test_periods_of_large_circuits(entry):
    dfg = read_bench(OUTSIDE / entry["file"])
    found = min_period(dfg)
    assert found.period == entry["raw"]["min_period"] and verify_min_period(dfg, found)


def read_random(path):
    import gzip

    with gzip.open(path, "rt") as file:
        next(file)
        times = {f"n{i}": int(time) for i, time in enumerate(next(file).split())}
        edges = [(f"n{u}", f"n{v}", int(w)) for u, v, w in map(str.split, file)]
    return DFG(times, edges)


@outside
@pytest.mark.parametrize("entry", [e for e in ANSWERS["random"]], ids=lambda entry: entry["id"])
def test_random_graphs(entry):
    dfg, golden = read_random(OUTSIDE / entry["file"]), entry["golden"]
    found = min_period(dfg)
    assert found.period == golden["min_period"] and verify_min_period(dfg, found)
    if len(dfg.nodes) <= 1000:
        for period, suffix in ((None, ""), (found.period, "_at_min_period")):
            assert min_registers(dfg, period).registers == golden["min_registers_shared" + suffix]
            assert min_registers(dfg, period, shared=False).registers == golden["min_registers_edge_sum" + suffix]


@settings(max_examples=300)
@given(graphs())
def test_shortest_period_against_all_pairs(dfg):
    found, paths = min_period(dfg), all_paths(dfg)
    periods = sorted({d for _, d in paths.values()})
    feasible = [c for c in periods if c >= max(dfg.times.values()) and is_feasible(dfg, constraints(dfg, paths, c))]
    assert found.period == feasible[0]
    assert verify_min_period(dfg, found)
    assert all(found.r[host] == 0 for host in dfg.hosts)


@settings(max_examples=200)
@given(graphs(hosts=False, times=st.integers(0, 9)))
def test_period_lies_between_its_bounds(dfg):
    bound, longest, period = iteration_bound(dfg).value, max(dfg.times.values()), min_period(dfg).period
    assert max(-(-bound // 1), longest) <= period <= max(longest, -(-bound // 1) + max(longest - 1, 0))
    unit = DFG(dict.fromkeys(dfg.nodes, 1), dfg.edges)
    assert min_period(unit).period == max(1, -(-iteration_bound(unit).value // 1))
    tripled = DFG({name: 3 * time for name, time in dfg.times.items()}, dfg.edges)
    assert min_period(tripled).period == 3 * period
    backwards = DFG(dfg.times, [(v, u, w) for u, v, w in dfg.edges])
    assert min_period(backwards).period == period
    more = dfg.with_delays(dfg.delays + 1)
    assert min_period(more).period <= period


def test_hosts_keep_the_delays_between_them():
    edges = [("in", "a", 0), ("a", "b", 0), ("b", "c", 1), ("c", "out", 0)]
    line = DFG({"in": 0, "a": 3, "b": 4, "c": 4, "out": 0}, edges)
    assert min_period(line).period == 4
    tied = replace(line, hosts=("in", "out"))
    found = min_period(tied)
    assert (found.period, found.r["in"], found.r["out"]) == (7, 0, 0)
    assert found.certificate.kind == "walk" and verify_min_period(tied, found)
    assert min_period(replace(line, hosts=("in",))).period == 4
    passing = DFG({"x": 1, "y": 1, "h": 0, "i": 0}, [("x", "h", 0), ("i", "y", 0)], ("h", "i"))
    assert min_period(passing).period == 1  # no path leads from one host to another


def test_correlator_certificate_in_words():
    dfg = textbook(next(entry for entry in GOLDEN["textbook"] if entry["id"] == "correlator"))
    found = min_period(dfg)
    assert found.period == 13 and critical_path(retime(dfg, found.r)).period == 13
    assert found.certificate.kind == "walk"
    assert found.certificate.text == (
        "a closed walk of 4 paths has 3 delays, but 4 of them take 13 or more and each would need one of its own, "
        "so no period is below 13"
    )


def test_certificates_that_prove_nothing_are_refused():
    slower = replace(min_period(RING), r={"b": 1}, period=4)
    assert critical_path(retime(RING, slower.r)).period == 4 and min_period(RING).period == 3
    node, loop = (("b",),), (("a", "b", "c", "a"),)
    for kind, paths in (
        ("node", node), ("loop", loop), ("loop", (("a", "b"),)), ("loop", (("b",),)), ("loop", (("a", "c", "a"),)),
        ("walk", (("a", "b"), ("b", "c"), ("c", "a"))), ("walk", (("a", "b"),)), ("walk", ()), ("proof", loop),
    ):  # fmt: skip
        assert not verify_min_period(RING, replace(slower, certificate=PeriodCertificate(kind, paths, "")))


@pytest.mark.parametrize("change", [
    {"r": {"a": 1}}, {"r": {"z": 0}}, {"r": None}, {"r": {"a": 0.5}}, {"period": float("nan")}, {"period": None},
    {"certificate": PeriodCertificate("node", (("z",),), "")}, {"certificate": PeriodCertificate("walk", ((),), "")},
    {"certificate": PeriodCertificate("loop", ((["a"], "b"),), "")}, {"certificate": PeriodCertificate("loop", 3, "")},
    {"certificate": min_registers(RING, 3).certificate}, {"certificate": None},
])  # fmt: skip
def test_what_cannot_be_read_is_no_shortest_period(change):
    found = min_period(RING)
    assert verify_min_period(RING, found) and not verify_min_period(RING, replace(found, **change))


def test_huge_and_fractional_times_are_exact():
    big = 2**200
    dfg = DFG({"a": big, "b": Fraction(1, 3)}, [("a", "b", 1), ("b", "a", 1)])
    assert min_period(dfg).period == big
    dfg = DFG({"a": big, "b": Fraction(1, 3)}, [("a", "b", 1), ("b", "a", 0)])
    assert min_period(dfg).period == big + Fraction(1, 3)
    assert verify_min_period(dfg, min_period(dfg))
    assert min_period(DFG({"a": 0, "b": 0}, [("a", "b", 0), ("b", "a", 2**40)])).period == 0


def test_single_nodes_and_parts_without_hosts():
    assert min_period(DFG({"a": 5}, [])).r == {"a": 0}
    two = DFG({"a": 1, "b": 1, "c": 1, "d": 1}, [("a", "b", 0), ("b", "a", 2), ("c", "d", 0), ("d", "c", 2)], ("d",))
    found = min_period(two)
    assert found.period == 1 and found.r["a"] == 0 and found.r["d"] == 0 and verify_min_period(two, found)


def test_long_chains_take_no_time_to_speak_of():
    deep = backprop_dfg(300)
    assert min_period(deep).period == 600
    piped = derive(12)[-1].dfg
    assert min_period(piped).period == 2


@pytest.mark.parametrize("J, period", [(1, 3), (2, 5)])
def test_unfolding_nears_the_fractional_bound(J, period):
    from lpkit.dfg import unfold

    ring = DFG({"a": 2, "b": 2, "c": 1}, [("a", "b", 0), ("b", "c", 1), ("c", "a", 1)])
    assert min_period(unfold(ring, J)).period == period


def test_unfolded_textbook_periods():
    from lpkit.dfg import unfold

    for entry in GOLDEN["textbook"]:
        for J, golden in entry["golden"].get("unfolded", {}).items():
            dfg = textbook(entry)
            if len(dfg.hosts) < 1:  # several copies of one host are tied, which the recorded numbers are not
                assert min_period(unfold(dfg, int(J))).period == golden["min_period"], (entry["id"], J)


# fewest registers


@settings(max_examples=150)
@given(graphs(most_nodes=5), st.booleans())
def test_fewest_registers_against_all_constraints_at_once(dfg, shared):
    paths, shortest = all_paths(dfg), min_period(dfg).period
    for period in (None, shortest, shortest + 2):
        found = min_registers(dfg, period, shared=shared)
        assert found.registers == fewest_by_linprog(dfg, constraints(dfg, paths, period), shared)
        assert retime(dfg, found.r).registers(shared=shared) == found.registers
        assert verify_min_registers(dfg, found, period, shared=shared)


@settings(max_examples=60)
@given(graphs(most_nodes=5), st.booleans(), st.data())
def test_weights_scale_and_solvers_agree(dfg, shared, data):
    weights = {name: data.draw(st.integers(0, 9) | st.fractions(0, 9, max_denominator=5)) for name in dfg.nodes}
    period = min_period(dfg).period
    found = min_registers(dfg, period, weights=weights, shared=shared)
    assert verify_min_registers(dfg, found, period, weights=weights, shared=shared)
    assert register_cost(retime(dfg, found.r), weights=weights, shared=shared) == found.registers
    larger = {name: 1_000_003 * weight for name, weight in weights.items()}
    assert min_registers(dfg, period, weights=larger, shared=shared).registers == 1_000_003 * found.registers
    assert found.registers <= register_cost(retime(dfg, min_period(dfg).r), weights=weights, shared=shared)


def test_lemon_gives_the_same():
    pytest.importorskip("pylmcf", reason="the extra 'solvers' is not installed")
    for entry in GOLDEN["textbook"]:
        dfg, golden = textbook(entry), entry["golden"]
        found = min_registers(dfg, golden["min_period"], solver="lemon")
        assert found.registers == golden["min_registers_shared_at_min_period"]
        assert verify_min_registers(dfg, found, golden["min_period"])


def test_registers_of_a_pipeline_in_bytes():
    from lpkit.networks import network

    lenet = network("lenet5")
    dfg = derive(lenet, (1, 1, 2, 2, 3))[-1].dfg
    weights = tensor_bytes(dfg, lenet, batch=8)
    period = critical_path(dfg).period
    found = min_registers(dfg, period, weights=weights)
    assert found.period <= period and verify_min_registers(dfg, found, period, weights=weights)
    assert found.registers < register_cost(dfg, weights=weights)


def test_a_register_certificate_must_fit():
    dfg = backprop_dfg(3)
    found = min_registers(dfg, 6)
    assert verify_min_registers(dfg, found, 6)
    assert not verify_min_registers(dfg, replace(found, registers=found.registers - 1), 6)
    assert not verify_min_registers(dfg, found, 5)
    assert not verify_min_registers(dfg, found, 6, shared=False)
    doubled = tuple((place, 2 * count) for place, count in found.certificate.taps)
    assert not verify_min_registers(dfg, replace(found, certificate=replace(found.certificate, taps=doubled)), 6)
    negative = tuple((place, -count) for place, count in found.certificate.taps)
    assert not verify_min_registers(dfg, replace(found, certificate=replace(found.certificate, taps=negative)), 6)


@pytest.mark.parametrize("change", [
    {"period": 1000}, {"period": -7}, {"period": float("nan")}, {"period": None}, {"registers": None},
    {"r": {"z": 1}}, {"r": {"F1": 2**41}}, {"certificate": None}, {"certificate": PeriodCertificate("node", (), "")},
])  # fmt: skip
def test_what_cannot_be_read_is_not_the_fewest_registers(change):
    dfg = backprop_dfg(3)
    found = min_registers(dfg, 6)
    assert verify_min_registers(dfg, found, 6) and not verify_min_registers(dfg, replace(found, **change), 6)


@pytest.mark.parametrize("kind", ["edges", "taps", "paths"])
@pytest.mark.parametrize("entry", [(10**6, 1), (-1, 1), ("E", 1), (0, 0.5), (0, float("nan")), 7, ((), 1), ((99,), 1)])
def test_a_register_certificate_names_what_there_is(kind, entry):
    dfg = backprop_dfg(3)
    found = min_registers(dfg, 6)
    changed = replace(found.certificate, **{kind: (*getattr(found.certificate, kind), entry)})
    assert not verify_min_registers(dfg, replace(found, certificate=changed), 6)


def test_slowing_frees_registers_for_a_shorter_period():
    assert min_period(slow(RING, 3)).period == 3
    dfg = slow(backprop_dfg(3), 5)
    assert min_period(replace(dfg, hosts=())).period == 2  # 2 L / (2 S(1) + 1), rounded up


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: min_registers(RING, 2), "no retiming has a period of 2; the shortest possible is 3"),
        (lambda: min_registers(RING, Fraction(5, 2)), "no retiming has a period of 5/2; the shortest possible is 3"),
        (lambda: min_registers(RING, 0.3), "period is 0.3; it must be a whole number or a Fraction"),
        (lambda: min_registers(RING, -1), "period is -1"),
        (lambda: min_registers(RING, solver="glpk"), "solver is 'glpk'; Known: 'highs', 'lemon'"),
        (lambda: min_registers(RING, weights={"a": 1}), "weights has no entry for node 'b', which edge b -> c leaves"),
        (lambda: min_registers(RING, weights={"z": 1}), "a node of weights is 'z'"),
        (lambda: min_registers(RING, weights=[1, 1, 1]), "weights is a list; it must map nodes to numbers"),
        (lambda: min_registers(RING, weights={"a": -1, "b": 1, "c": 1}), "the weight of node 'a' is -1"),
        (lambda: min_registers(RING, weights={"a": 2**62, "b": 1, "c": 1}), "too many for 64 bits"),
        (lambda: min_registers(RING, weights={"a": 2**55, "b": 1, "c": 1}), "too large for solver 'highs'"),
    ],
)
def test_bad_register_problems_say_why(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_missing_solver_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pylmcf", None)
    with pytest.raises(ValueError, match=r"pip install '.\[solvers\]' in the clone of lpkit, or use solver='highs'"):
        min_registers(RING, solver="lemon")


def test_a_wrong_solver_is_found_out(monkeypatch):
    monkeypatch.setitem(SOLVERS, "highs", lambda supply, tails, heads, costs: (0 * costs, 0 * supply))
    with pytest.raises(ValueError, match="solver 'highs' found no exact optimum of these numbers; try solver='lemon'"):
        min_cost_flow(np.array([1, -1]), np.array([0]), np.array([1]), np.array([1]))


def test_messages_cut_very_long_names():
    name = "n" * 5000
    ring = DFG.from_edges([(name, "b", 0), ("b", name, 1)])
    for wrong in (lambda: retime(ring, {name: 5}), lambda: move(ring, [name], 5), lambda: pipeline(ring, name, 1)):
        with pytest.raises(ValueError) as error:
            wrong()
        assert "nnn..." in str(error.value) and len(str(error.value)) < 500
