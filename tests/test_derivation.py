"""The derivation of pipelined training: Fig. 2 step by step, the split delta of Fig. 5, staleness and stashes."""

import json
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lpkit.costs import costs
from lpkit.dfg import DFG, backprop_dfg, critical_path, iteration_bound, loops, operation, slow, stages_after
from lpkit.networks import network
from lpkit.retiming import (
    delay_gradients, derive, min_period, move, pipeline, retime, smallest_delays, split_delta, stage_lags, staleness,
    stash, tensor_bytes,
)  # fmt: skip


GOLDEN = json.loads((Path(__file__).parent / "golden" / "retiming.json").read_text())["backprop"]
CHAINS = [entry for entry in GOLDEN if "L" in entry]
FIG2 = next(entry for entry in GOLDEN if "steps" in entry)


def ours(name):
    """The recorded D2 is delta2 here."""
    return name.replace("D", "delta")


def edge_set(edges):
    return sorted((ours(u), ours(v), w) for u, v, w in edges)


@st.composite
def stage_maps(draw, most=5):
    steps = draw(st.lists(st.booleans(), max_size=most - 1))
    stages = [1]
    for step in steps:
        stages.append(stages[-1] + step)
    return tuple(stages)


def closed_form(dfg, S):
    """Delays after pipelining of a chain, edge by edge, from the table of the derivation (S(0) = S(1))."""
    S = {0: S[0]} | dict(enumerate(S, 1))
    result = []
    for u, v, _ in dfg.edges:
        (a, i), (b, j) = operation(u), operation(v)
        if a == "X":
            result.append(0 if b == "F" else 2 * S[1])
        elif a == "T":
            result.append(S[1])
        elif a == "F":
            result.append(S[i] - S[j] if b == "F" else 0 if b == "E" else S[j] + S[i])
        elif a in ("E", "delta"):
            result.append(0 if a == "E" else S[j] - S[i])
        elif a == "G":
            result.append(0)
        else:
            result.append(1 + 2 * S[i] if b == "delta" else 1)
    return result


# Fig. 2


def test_the_five_recorded_graphs_of_fig_2():
    sequential = [(ours(u), ours(v), int(u[0] == "U")) for u, v, _ in FIG2["steps"][0]["edges"]]
    dfg = DFG({ours(name): time for name, time in FIG2["nodes"].items()}, sequential, ("X", "T", "Y"))
    steps = derive(dfg)
    assert [step.name for step in steps] == ["(a)", "(b)", "(c)", "(d)", "(e)", "(f)"]
    for step, recorded in zip(steps, [*FIG2["steps"], FIG2["steps"][-1]]):
        assert [tuple(edge) for edge in step.dfg.edges] == [(ours(u), ours(v), w) for u, v, w in recorded["edges"]]
        if step.cutset:
            assert set(step.cutset) == {ours(name) for name in recorded["inside"]}
            assert step.moved == recorded["k"]
    assert {(u, v): w for u, v, w in steps[-1].dfg.edges}["U1", "delta1"] == 5


@pytest.mark.parametrize("entry", CHAINS, ids=lambda entry: entry["id"])
def test_recorded_chains(entry):
    times = {ours(name): time for name, time in entry["nodes"].items()}
    top = max(entry["S"])
    stages = tuple(top - after + 1 for after in entry["S"])
    steps = derive(entry["L"], stages, times=times)
    assert edge_set(steps[0].dfg.edges) == edge_set(entry["edges_delayed"])
    assert edge_set(steps[-1].dfg.edges) == edge_set(entry["edges_retimed"])
    lags = {ours(name): lag for name, lag in entry["lags"].items()}
    assert steps[-1].lags == lags == stage_lags(steps[0].dfg, stages)
    assert critical_path(steps[-1].dfg).period == entry["clock_retimed"]
    assert str(iteration_bound(steps[-1].dfg).value) == entry["iteration_bound_pipelined"]
    kept = stash(steps[-1].dfg)
    assert [s.staleness for s in kept] == [entry["weight_stash_extra"][str(s.layer)] for s in kept]
    assert [s.weights for s in kept[1:]] == [entry["weight_stash_extra"][str(s.layer)] for s in kept[1:]]


@given(stage_maps())
def test_any_grouping_ends_in_the_closed_form(stages):
    steps, S = derive(len(stages), stages), stages_after(stages)
    assert steps[-1].dfg.delays.tolist() == closed_form(steps[0].dfg, S)
    assert steps[-1].lags == stage_lags(steps[0].dfg, stages)
    assert steps[-1].dfg.edges == retime(steps[0].dfg, steps[-1].lags).edges
    for before, after in pairwise(steps):
        assert (after.dfg.delays >= 0).all()
        if after.cutset:
            assert after.dfg.edges == move(before.dfg, after.cutset, after.moved).edges
    loop_delays = [sorted((loop.nodes, loop.delays) for loop in loops(s.dfg, 1000)) for s in (steps[0], steps[-1])]
    assert loop_delays[0] == loop_delays[1]
    assert len(steps) == 2 + 2 * S[0]


@given(stage_maps(), st.data())
def test_bound_after_insertion(stages, data):
    L, S = len(stages), stages_after(stages)
    column = st.lists(st.integers(0, 9), min_size=L, max_size=L)
    times = {kind: data.draw(column) for kind in ("F", "G", "delta", "U")} | {"E": data.draw(st.integers(0, 9))}
    F, G, delta, U, E = (times[kind] for kind in ("F", "G", "delta", "U", "E"))
    loop = [sum(F[l:]) + E + sum(delta[l + 1 :]) + G[l] + U[l] for l in range(L)]
    sequential = backprop_dfg(L, times=times)
    assert iteration_bound(sequential).value == max(loop)
    pipelined = derive(sequential, stages)[-1].dfg
    own = max(U)  # the loop U -> U keeps its one delay
    assert iteration_bound(pipelined).value == max(own, *(Fraction(t, 1 + 2 * s) for t, s in zip(loop, S)))
    assert min_period(pipelined).period <= critical_path(pipelined).period


NETWORKS = [("resnet18", 4), ("resnet18", 21), ("unet", 5), ("resnet50", 3), ("mobilenet_v1", 6), ("vgg16", 16)]


@pytest.mark.parametrize("name, processors", NETWORKS)
def test_networks_with_branches(name, processors):
    L = len(network(name).layers)
    stages = tuple(1 + layer * processors // L for layer in range(L))
    steps, S = derive(network(name), stages), stages_after(stages)
    final = steps[-1].dfg
    assert staleness(final) == {layer: 2 * after for layer, after in enumerate(S, 1)}
    assert iteration_bound(final).value == iteration_bound(steps[0].dfg).value
    for u, v, w in final.edges:
        (a, i), (b, j) = operation(u), operation(v)
        if a == b == "F":
            assert w == S[i - 1] - S[j - 1]
        if (a, b) == ("U", "delta"):
            assert w == 1 + 2 * S[i - 1]
        if a == "G":
            assert w == 0
    place = {f"{kind}{l}": stages[l - 1] for kind in ("F", "G", "U", "delta") for l in range(1, L + 1)}
    inside = [e for e in final.edges if place.get(e[0], 0) == place.get(e[1], -1) and e[0][0] in "F" and e[1][0] == "F"]
    assert all(edge.delays == 0 for edge in inside)


@pytest.mark.parametrize("name", ["bert_base", "gpt2"])
def test_products_of_two_tensors_are_pipelined_without_gradients_of_their_own(name):
    net = network(name, sequence=4, layers=2, width=8, heads=2)
    stages = (1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 3, 4, 4, 4, 4)  # the first cut parts scores and context
    steps, S = derive(net, stages), stages_after(stages)
    final, products = steps[-1].dfg, (4, 5, 12, 13)
    assert staleness(final) == {layer: 2 * s for layer, s in enumerate(S, 1) if layer not in products}
    assert delay_gradients(backprop_dfg(net), stages).registers() > backprop_dfg(net).registers()
    kept = stash(final, net, batch=3)
    assert [k.staleness for k in kept if k.layer in products] == [None] * 4
    assert [k.activations for k in kept] == [2 * s for s in S]  # operands of a product wait for its delta
    assert [k.weights for k in kept if k.layer in (4, 5)] == [0, 0] and kept[5].weights == 4
    assert kept[3].activation_bytes == 6 * 3 * 4 * 2 * 4 * 8  # Q and K of 3 samples, 4 tokens and 8 channels
    split = split_delta(final, 4, Fraction(1, 2))
    assert staleness(split) == staleness(final) and [k.weights for k in stash(split)] == [k.weights for k in kept]
    into = {part: {e.source: e.delays for e in split.edges if e.target == part} for part in ("delta4'", "delta4''")}
    assert into == {"delta4'": {"delta5": 1, "F1": 6, "F2": 6}, "delta4''": {"delta5": 0, "F1": 5, "F2": 5}}
    sizes = tensor_bytes(final, net, batch=3)
    assert sizes["delta4"] == 3 * 4 * 2 * 4 * 8 and sizes["F4"] == 3 * 4 * 2 * 4 * 4


def test_words_of_the_example():
    texts = [step.text for step in derive(3)]
    assert texts[0] == (
        "Pipeline: put 2 delays, one for each boundary between stages, on every edge of the feedforward cutsets where "
        "data enters and leaves (X -> F1: 2, X -> G1: 2, T -> E: 2). Delay the gradients: put twice the number of "
        "later stages between gradient and update (G1 -> U1: 4, G2 -> U2: 2)."
    )
    assert texts[2] == (
        "Stage 1, cutset around F1, U1: take 2 delays from each edge that enters (X -> F1: 2 to 0, G1 -> U1: 2 to 0) "
        "and give them to each edge that leaves (F1 -> F2: 0 to 2, F1 -> G2: 0 to 2, F1 -> delta2: 0 to 2)."
    )
    assert "delta2 uses the weights of 2 iterations before" in texts[-1]
    assert derive(2, (1, 1))[0].text == "With one stage there is no boundary, so no delay is inserted."
    assert [step.name for step in derive(15)][-2:] == ["(ac)", "(ad)"]


def test_one_stage_is_plain_training():
    steps = derive(3, (1, 1, 1))
    assert steps[-1].dfg.edges == backprop_dfg(3).edges and set(steps[-1].lags.values()) == {0}
    assert staleness(steps[-1].dfg) == {1: 0, 2: 0, 3: 0}


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: derive(3, (1, 2)), "stages has 2 numbers; give 3"),
        (lambda: derive(3, (1, 3, 3)), "layer 2 is on stage 3 after stage 1"),
        (lambda: derive(0), "the number of layers is 0"),
        (lambda: derive("vgg61"), "did you mean"),
        (lambda: derive(derive(2)[-1].dfg), "the derivation starts from sequential training"),
        (lambda: split_delta(backprop_dfg(3), 1, 1), "layer 1 has no delta to split; layers that have one: 2, 3"),
        (lambda: split_delta(backprop_dfg(3), 2, 2), "share is 2; it must be from 0 to 1"),
        (lambda: split_delta(backprop_dfg(3), 2, 0.3), "share is 0.3; it must be a whole number or a Fraction"),
        (lambda: split_delta(derive(3)[-1].dfg, 2, 1, moved=2), "takes 2 from edge delta3 -> delta2'', which has 1"),
        (lambda: staleness(slow(backprop_dfg(2), 2)), "edge U1 -> U1 has 2 delays"),
        (lambda: staleness(DFG({"E": 1}, [])), "the graph has no layers"),
        (lambda: staleness(DFG({"a": 1}, [])), "node 'a' is none of a backprop graph"),
        (lambda: staleness(DFG({"F1": 1, "G1": 1}, [])), "there is no edge G1 -> U1"),
        (lambda: staleness(uneven()), "one iteration would mix two samples"),
        (lambda: stash(backprop_dfg(2), network("lenet5")), "sizes has 5 layers, but the graph has 2"),
        (lambda: stash(backprop_dfg(2), 3), "sizes is a int; give a Network or Costs"),
        (lambda: tensor_bytes(backprop_dfg(7), network("lenet5")), "node delta6 makes no tensor of network"),
        (lambda: tensor_bytes(backprop_dfg(2), 3), "network is a int"),
        (lambda: smallest_delays((1, 2), "2f2b"), "model is '2f2b'"),
        (lambda: smallest_delays((1, 2), "1f1b", slots=0), "slots is 0"),
        (lambda: smallest_delays(()), "stages has 0 numbers"),
    ],
)
def test_bad_input_says_why(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def uneven():
    dfg = backprop_dfg(2)
    return dfg.with_delays([int(w or (u, v) == ("X", "G1")) for u, v, w in dfg.edges])


# Fig. 5


@given(stage_maps(), st.fractions(0, 1, max_denominator=6), st.data())
def test_split_delta(stages, share, data):
    L, S = len(stages), dict(enumerate(stages_after(stages), 1))
    if L < 3:
        return
    layer = data.draw(st.integers(2, L - 1))
    final = derive(L, stages, times={"delta": 6})[-1].dfg
    split = split_delta(final, layer, share)
    delays = {(u, v): w for u, v, w in split.edges}
    stays, goes, join = f"delta{layer}'", f"delta{layer}''", f"join{layer}"
    across = S[layer] - S[layer + 1]
    assert delays[f"delta{layer + 1}", goes] == 0 and delays[goes, join] == across
    assert delays[f"delta{layer + 1}", stays] == across and delays[stays, join] == 0
    assert delays[f"U{layer}", stays] == 1 + 2 * S[layer]
    assert delays[f"U{layer}", goes] == 1 + 2 * S[layer] - across
    assert delays[f"F{layer - 1}", join] == S[layer] + S[layer - 1]
    assert split.times[stays] + split.times[goes] == 6 and split.times[join] == 0
    assert split.times[goes] == 6 * share
    assert staleness(split) == staleness(final) and stash(split) == stash(final)
    assert stage_lags(split, stages)[goes] == S[layer + 1]


def test_split_commutes_with_pipelining():
    """Splitting the sequential graph and pipelining it with the lags of the parts gives the same graph."""
    for stages in ((1, 2, 3), (1, 1, 2, 3), (1, 2, 2)):
        L = len(stages)
        sequential = split_delta(backprop_dfg(L), 2, Fraction(1, 3))
        delayed = delay_gradients(pipeline(sequential, ("X", "T"), stages[-1] - 1), stages)
        pipelined = retime(delayed, stage_lags(delayed, stages))
        assert pipelined.edges == split_delta(derive(L, stages)[-1].dfg, 2, Fraction(1, 3)).edges


def test_split_of_the_last_layer_has_no_next_stage():
    split = split_delta(derive(3)[-1].dfg, 3, 1)
    assert {(u, v): w for u, v, w in split.edges}["delta3''", "join3"] == 0
    assert stage_lags(split)["delta3''"] == 0


def test_split_in_a_network_with_branches():
    stages = tuple(1 + layer * 4 // 21 for layer in range(21))
    final = derive("resnet18", stages)[-1].dfg
    for layer in range(2, 22):
        split = split_delta(final, layer, Fraction(1, 2))
        assert staleness(split) == staleness(final)
        assert (split.delays >= 0).all()


# what is kept


def test_stash_in_bytes():
    lenet, stages = network("lenet5"), (1, 2, 3, 4, 5)
    final = derive(lenet, stages)[-1].dfg
    kept = stash(final, lenet, batch=32)
    assert kept == stash(final, costs(lenet, batch=32))
    second = kept[1]
    assert (second.staleness, second.weights, second.activations) == (6, 6, 6)
    assert second.weight_bytes == 6 * 4 * 6 * 16 * 5 * 5 and second.activation_bytes == 6 * 32 * 4 * 6 * 14 * 14
    assert stash(final)[1].weight_bytes is None
    assert kept[0].weights == 0 and kept[0].activations == 8  # layer 1 makes no error that needs its weights


def test_sizes_of_tensors():
    resnet = network("resnet18")
    sizes = tensor_bytes(backprop_dfg("resnet18"), resnet, batch=2)
    assert sizes["sum:layer1.0.add"] == sizes["add:layer1.0.add"] == sizes["delta4"]
    assert sizes["U1"] == sizes["G1"] == 4 * 3 * 64 * 49
    assert sizes["X"] == 2 * 4 * 3 * 224 * 224 and sizes["E"] == sizes["T"] == 2 * 4 * 1000


def bellman_ford(nodes, rows):
    """Whether x_v >= x_u + c can hold for all rows."""
    x = dict.fromkeys(nodes, 0)
    for _ in range(len(x) + 1):
        late = [(v, x[u] + c) for u, v, c in rows if x[u] + c > x[v]]
        if not late:
            return True
        for v, value in late:
            x[v] = max(x[v], value)
    return False


def smallest_by_constraints(stages, keep_weight_register):
    """Smallest M of each layer alone for which legal lags leave a register at every boundary."""
    S, dfg, result = stages_after(stages), backprop_dfg(len(stages)), {}
    for layer in range(1, len(stages) + 1):
        for M in range(2 * S[0] + 2):
            rows = []
            for u, v, w in dfg.edges:
                (a, i), (b, j) = operation(u), operation(v)
                w += (M if i == layer else 10**4) if a == "G" else 0
                forward = S[i - 1] - S[j - 1] if a == b == "F" else 0
                backward = S[j - 1] - S[i - 1] if a == "delta" else 0
                kept = int(keep_weight_register and a == "U")
                if a not in "XT":
                    rows.append((u, v, max(forward, backward, kept) - w))
            if bellman_ford(dfg.nodes, rows):
                result[layer] = M
                break
    return result


@settings(max_examples=30)
@given(stage_maps())
def test_smallest_delays_follow_from_the_constraints(stages):
    assert smallest_delays(stages) == smallest_by_constraints(stages, True)
    assert smallest_delays(stages, "weights_retimed") == smallest_by_constraints(stages, False)
    assert smallest_delays(stages) == staleness(derive(len(stages), stages)[-1].dfg)


def smallest_in_slots(P, slots):
    """P + 1 stages, each with one forward and one backward slot; B to F of a stage carries 1 + M iterations."""
    result = {}
    for stage in range(1, P + 2):
        for M in range(2 * P + 3):
            rows = [(f"F{s}", f"F{s + 1}", 1) for s in range(1, P + 1)] + [(f"F{P + 1}", f"B{P + 1}", 1)]
            rows += [(f"B{s + 1}", f"B{s}", 1) for s in range(1, P + 1)]
            rows += [(f"B{s}", f"F{s}", 1 - slots * (1 + (M if s == stage else 10**4))) for s in range(1, P + 2)]
            if bellman_ford({name for row in rows for name in row[:2]}, rows):
                result[stage] = M
                break
    return result


@pytest.mark.parametrize("slots, known", [(1, [7, 5, 3, 1]), (2, [3, 2, 1, 0]), (3, [2, 1, 1, 0])])
def test_smallest_delays_of_one_forward_one_backward(slots, known):
    stages = (1, 2, 3, 4)
    assert list(smallest_delays(stages, "1f1b", slots=slots).values()) == known
    assert smallest_delays(stages, "1f1b", slots=slots) == smallest_in_slots(3, slots)


def test_table_of_the_three_models():
    assert list(smallest_delays((1, 2, 3, 4)).values()) == [6, 4, 2, 0]
    assert list(smallest_delays((1, 2, 3, 4), "weights_retimed").values()) == [5, 3, 1, 0]
    assert list(smallest_delays((1, 1, 2, 2), "weights_retimed").values()) == [1, 1, 0, 0]


@given(stage_maps(), st.data())
def test_staleness_survives_retiming_and_follows_the_delays(stages, data):
    L = len(stages)
    M = {layer: data.draw(st.integers(0, 5)) for layer in range(1, L + 1)}
    delayed = delay_gradients(backprop_dfg(L), M)
    assert staleness(delayed) == M
    assert staleness(retime(delayed, min_period(delayed).r)) == M
    full = delay_gradients(pipeline(backprop_dfg(L), ("X", "T"), 2), stages)
    assert staleness(full) == {layer: 2 * after for layer, after in enumerate(stages_after(stages), 1)}
