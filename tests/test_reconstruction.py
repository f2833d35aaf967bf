"""The reconstructions of Table I meet what the paper states, and there are no others in the lattice."""

import random
import re
from importlib import import_module
from itertools import product

import pytest

from lpkit.costs import READINGS, Reading, costs
from lpkit.networks import Conv, Network, Node, network
from lpkit.partition import communication, optimal, pipedream
from lpkit.reconstruction import sample_candidates
from lpkit.systolic import Array

module = import_module("lpkit.reconstruction")
LAYERS = [f"layer {l}" for l in range(1, 5)]
TEXT = re.compile(r"(\d+)x\1 (\d+)>(\d+) s(\d) p(\d)")


def fields(text):
    """(kernel, channels in, channels out, stride, padding) of a layer's text."""
    return tuple(map(int, TEXT.fullmatch(text).groups()))


def rebuilt(row):
    """The network that a row describes; the channels of each layer must be those of the one before."""
    nodes, before, channels = [], "input", 3
    for l, text in enumerate(row, 1):
        k, C, N, s, p = fields(text)
        assert C == channels
        nodes.append(Node(f"conv{l}", Conv(N, k, stride=s, padding=p), (before,)))
        before, channels = f"conv{l}", N
    return Network("candidate", (3, 224, 224), tuple(nodes))


def costed(net, reading, batch=32):
    choices = READINGS[reading]
    return costs(net, Array(32, 32, choices.dataflow), batch=batch, **choices.choices())


def balanced(cost):
    """(ends of stages 1 and 2, weights that follow the moved deltas) of every split with three equal loads possible."""
    splits = []
    for ends in ((1, 2), (1, 3), (2, 3)):
        moved = [(end, sum(cost.work[:end].tolist()) - stage * cost.total / 3) for stage, end in enumerate(ends, 1)]
        if all(0 <= amount <= cost.delta[end - 1] for end, amount in moved):
            shares = [(amount / cost.delta[end - 1], cost.weight_bytes[end - 1] / 4) for end, amount in moved]
            splits.append((ends, sum(share * weights for share, weights in shares)))
    return splits


def test_the_built_in_network_moves_what_its_plan_moves(found):
    """Both moved deltas of the optimal plan, by their share of the weights, at 4 bytes a weight."""
    made = optimal(costed("sample4", "closest"), 3)
    assert made.ends[:2] == balanced(made.costs)[0][0]
    assert balanced(made.costs)[0][1] == pytest.approx(float(communication(made).total_additional) / 4, rel=1e-12)
    assert found["moved weights"].sub(balanced(made.costs)[0][1]).abs().min() < 1e-6


@pytest.fixture(scope="module")
def found():
    return sample_candidates("closest")


def test_sampled_candidates_meet_what_the_paper_states(found):
    assert len(found) >= 20
    for i in random.Random(3).sample(range(len(found)), 12):
        row = found.iloc[i]
        cost = costed(rebuilt(row[LAYERS]), "closest")
        theirs, ours = pipedream(cost, 3), optimal(cost, 3)
        assert f"{float(theirs.period):.2e}" == "4.35e+07" and f"{float(ours.period):.2e}" == "3.22e+07"
        assert ours.period * 3 == cost.total  # perfect balance
        assert sum(cost.work[2:].tolist()) <= theirs.period >= max(cost.work[:2])  # {1}, {2}, {3, 4} is a best mapping
        assert row["pipedream"] == theirs.period and row["layerpipe"] == pytest.approx(float(ours.period), rel=1e-12)
        assert row["same padding"] == all(p == k // 2 for k, _, _, _, p in map(fields, row[LAYERS]))
        ends, weights = balanced(cost)[0]
        assert row["keeps split"] == (ends == (1, 2)) and row["moved weights"] == pytest.approx(weights, rel=1e-9)


def test_candidates_differ_and_are_sorted(found):
    assert not found.duplicated(LAYERS).any()
    assert found[LAYERS].values.tolist() == sorted(found[LAYERS].values.tolist())
    assert found["keeps split"].any() and not found["keeps split"].all() and found["same padding"].any()


def test_the_built_in_network_is_among_the_candidates(found):
    texts = []
    for layer in network("sample4").layers:
        (k, _), (s, _), (p, _) = layer.op.kernel, layer.op.stride, layer.op.padding
        texts.append(f"{k}x{k} {layer.in_shape[0]}>{layer.out_shape[0]} s{s} p{p}")
    row = found[(found[LAYERS] == texts).all(axis=1)]
    cost = costed("sample4", "closest")
    assert row["pipedream"].item() == pipedream(cost, 3).period and row["layerpipe"].item() == optimal(cost, 3).period
    assert row["same padding"].item()


# ---- brute force: own cycle counts, every layer of a small lattice, no pruning before the last layer -----------------


def folds(M, K, N):
    """Exact cycles of a weight-stationary 32x32 array."""
    return -(-K // 32) * -(-N // 32) * (2 * 32 + 32 + M - 2)


def work(H, C, k, N, s, p, batch=32):
    """(F + G, delta with inserted zeros, output size), or None where the filter does not fit."""
    if k > H + 2 * p:
        return None
    E = (H + 2 * p - k) // s + 1
    F = folds(batch * E * E, k * k * C, N)
    G = folds(k * k * C, batch * E * E, N)
    return F + G, folds(batch * H * H, k * k * N, C), E


def prints(value, text):
    return f"{value:.2e}" == text


def stated(fixed, delta):
    """Whether the four works give both periods, the mapping and the balance."""
    w = [f + d for f, d in zip(fixed, delta)]
    mappings = {(1, 2): max(w[0], w[1], w[2] + w[3]), (1, 3): max(w[0], w[1] + w[2], w[3]), 
                (2, 3): max(w[0] + w[1], *w[2:])}
    if not prints(mappings[1, 2], "4.35e+07") or mappings[1, 2] > min(mappings.values()):
        return False
    total = sum(w)
    even = any(all(0 <= 3 * sum(w[:end]) - stage * total <= 3 * delta[end - 1] for stage, end in enumerate(ends, 1))
               for ends in mappings)
    return prints(total / 3, "3.22e+07") and even


def brute_force(firsts, kernels, channels):
    """Every network of the small lattice that meets the statement, as texts."""
    matches = []

    def grow(H, C, texts, fixed, delta):
        if len(texts) == 4:
            matches.extend([texts] if stated(fixed, delta) else [])
            return
        options = firsts if not texts else product(kernels, channels, (1, 2), (0, 1, -1))
        for k, N, s, p in dict.fromkeys((k, N, s, k // 2 if p < 0 else p) for k, N, s, p in options if N >= C):
            layer = work(H, C, k, N, s, p)
            if layer and layer[0] + layer[1] < 4.36e7:  # a layer longer than PipeDream's period never fits
                grow(layer[2], N, [*texts, f"{k}x{k} {C}>{N} s{s} p{p}"], [*fixed, layer[0]], [*delta, layer[1]])

    grow(224, 3, [], [], [])
    return sorted(matches)


def test_brute_force_finds_the_same_candidates_in_a_part_of_the_lattice(found):
    firsts = [(5, 32, 2, -1), (5, 32, 2, 1), (7, 32, 2, -1), (11, 16, 4, 0), (3, 64, 2, 1)]
    kernels, channels = (3, 5, 7), (32, 64, 128)
    expected = brute_force(firsts, kernels, channels)
    part = [row for row in found[LAYERS].values.tolist()
            if all(fields(t)[0] in kernels and fields(t)[2] in channels for t in row[1:])
            and fields(row[0])[:1] + fields(row[0])[2:4] in {f[:3] for f in firsts}]
    assert part == expected and len(expected) >= 10


def test_only_one_first_layer_is_possible(found):
    """PipeDream's slowest processor must hold layer 1 or 2 alone, or 3 and 4; in this lattice it is layer 1."""
    assert found["layer 1"].unique().tolist() == ["5x5 3>32 s2 p2"]
    assert found["pipedream"].unique().tolist() == [sum(work(224, 3, 5, 32, 2, 2)[:2])]


def test_small_pieces_give_the_same(monkeypatch, found):
    monkeypatch.setattr(module, "CHUNK", 50)
    assert sample_candidates("closest").equals(found)


def test_without_the_first_delta_nothing_in_the_lattice_fits():
    """Under the plain reading layer 1 costs too little; the empty answer keeps its columns."""
    plain = sample_candidates("plain")
    assert plain.empty and plain.columns.tolist()[:4] == LAYERS


def test_an_array_too_large_for_the_stated_periods_leaves_no_candidate(found):
    none = sample_candidates(array_size=2**29)
    assert none.empty and none.columns.tolist() == found.columns.tolist()


@pytest.mark.parametrize("arguments, sentence", [
    (("closets",), "reading is 'closets'; did you mean 'closest'? Known: 'closest', 'plain'"),
    (dict(batch=0), "batch is 0; it must be a whole number from 1"),
    (dict(array_size=2.5), "array_size is 2.5; it must be a whole number from 1"),
])  # fmt: skip
def test_bad_input_gets_one_sentence(arguments, sentence):
    with pytest.raises(ValueError) as caught:
        sample_candidates(*arguments) if isinstance(arguments, tuple) else sample_candidates(**arguments)
    assert str(caught.value).startswith(sentence) and "\n" not in str(caught.value)


def test_deltas_in_phases_are_refused(monkeypatch):
    monkeypatch.setitem(READINGS, "in phases", Reading("in phases", delta="phases"))
    with pytest.raises(ValueError, match="^delta 'phases' of a lattice is not offered; use a reading with 'col2im'"):
        sample_candidates("in phases")
