"""Interleaved 1F1B: several stages a processor."""

import re
from fractions import Fraction

import numpy as np
import pytest
from schedule_cases import THREE, equal_stages, random_plan

from lpkit.costs import Costs
from lpkit.partition import Plan
from lpkit.schedule import interleaved, one_f_one_b
from lpkit.timeline_paths import critical_path


def random_stages(rng, stages):
    """A plan of that many unequal stages of one to three layers, some with moved delta work."""
    ends = np.cumsum(rng.integers(1, 4, stages)).tolist()
    L = ends[-1]
    sizes = {name: rng.integers(0, 40, L) for name in ("weight_bytes", "input_bytes", "output_bytes")}
    chain = Costs.from_times(*rng.integers(1, 10, (3, L)), unit="cycles", **sizes)
    moved = tuple((end, k, k + 1, int(rng.integers(1, chain.delta[end - 1] + 1)))
                  for k, end in enumerate(ends[:-1], 1) if rng.random() < 0.5)  # fmt: skip
    return Plan("by hand", chain, stages, ends=tuple(ends), moved=moved)


@pytest.mark.parametrize("P, v, groups", [(1, 3, 2), (2, 1, 3), (2, 2, 1), (3, 3, 2), (4, 2, 2), (4, 3, 1), (5, 2, 3)])
@pytest.mark.parametrize("F, delta, G", [(1, 1, 1), (5, 6, 4)])
def test_bubbles_of_equal_stages_are_the_published_share_of_the_ideal_time(P, v, groups, F, delta, G):
    m = groups * P
    line = interleaved(equal_stages(P * v, F, G, delta), processors=P, micro_batches=m)
    ideal = m * v * (F + delta + G)
    assert Fraction(line.makespan - ideal, ideal) == Fraction(P - 1, v * m)
    assert line.busy == (ideal,) * P and line.utilisation == (Fraction(ideal, line.makespan),) * P
    assert line.bubble_share == 1 - Fraction(ideal, line.makespan)


@pytest.mark.parametrize("seed", range(15))
def test_one_stage_a_processor_is_1f1b(seed):
    rng = np.random.default_rng(seed)
    found, options = random_plan(rng), dict(micro_batches=int(rng.integers(1, 9)), delta_first=bool(seed % 2))
    for links in ({}, dict(bandwidth=3, latency=1)):
        one, other = interleaved(found, 2, **options, **links), one_f_one_b(found, 2, **options, **links)
        assert one.operations == other.operations and one.processors == other.processors


@pytest.mark.parametrize("seed", range(25))
def test_unequal_stages_hold_up_to_the_check(seed):
    rng = np.random.default_rng(seed)
    P, v = int(rng.integers(1, 5)), int(rng.integers(1, 4))
    found, M = random_stages(rng, P * v), P * int(rng.integers(1, 4))
    for links in ({}, dict(latency=2), dict(bandwidth=Fraction(7, 3), latency=1)):
        line = interleaved(found, 3, processors=P, micro_batches=M, **links)
        assert line.check() == () and line.weight_versions == (1,) * len(found.costs)
        assert line.busy == tuple(3 * M * sum(found.loads[p::P]) for p in range(P))
        assert line.makespan >= max(line.busy) and line.period >= M * max(sum(found.loads[p::P]) for p in range(P))
        path = critical_path(line)
        assert (line.end[path] - line.start[path]).sum() == line.end.max()


@pytest.mark.parametrize("seed", range(10))
def test_peaks_of_a_processor_are_those_of_a_count_at_every_moment(seed):
    rng = np.random.default_rng(seed)
    P, v = int(rng.integers(1, 4)), int(rng.integers(2, 4))
    found = random_stages(rng, P * v)
    line = interleaved(found, 2, processors=P, micro_batches=2 * P)
    rows, inputs = line.operations, found.costs.input_bytes.tolist()
    end = {(row.layer, row.micro_batch): row.end for row in rows if row.kind == "G"}
    kept = [(row.layer, row.start, end[row.layer, row.micro_batch]) for row in rows if row.kind == "F"]
    first = {stage.start: k for k, stage in enumerate(found.stages, 1)}
    for p in range(1, P + 1):
        on = [(l, a, b) for l, a, b in kept if (found.stage_of(l) - 1) % P + 1 == p]
        moments = {a for _, a, _ in on}
        assert line.activation_bytes[p - 1] == max(sum(inputs[l - 1] for l, a, b in on if a <= t < b) for t in moments)
        assert line.in_flight[p - 1] == max(sum(a <= t < b for l, a, b in on if l in first) for t in moments)
    weights = found.costs.weight_bytes
    assert line.weight_bytes == tuple(sum(int(weights[l - 1]) for k in range(p, P * v, P) for l in found.stages[k])
                                      for p in range(P))  # fmt: skip


def test_a_processor_that_feeds_itself_sends_nothing():
    line = interleaved(THREE, 2, processors=1, micro_batches=2, latency=5)
    assert line.makespan == 4 * THREE.costs.total and line.bubble_share == 0 and line.check() == ()


def test_two_stages_share_the_link_between_their_processors():
    found = equal_stages(4, 1, 1, 1)  # 1 -> 2 and 3 -> 4 go from the first processor to the second
    line = interleaved(found, processors=2, micro_batches=4, latency=9)
    sends = sorted((row.start, row.end) for row in line.operations if row.kind == "send" and row.stage % 2 == 1)
    assert len(sends) == 12 and all(a <= b for (_, a), (b, _) in zip(sends, sends[1:]))


def test_the_drawing_has_a_line_a_processor():
    lines = interleaved(equal_stages(4, 1, 1, 1), processors=2, micro_batches=2).ascii(15).splitlines()
    assert lines[:2] == ["processor 1 FFFF..Gd.GdGdGd", "processor 2 .FFFGdFGdGdGd.."]


@pytest.mark.parametrize("options, sentence", [
    (dict(processors=2), "the plan has 3 stages for 2 processors; interleaving needs a multiple of 2"),
    (dict(processors=0), "processors is 0; it must be a whole number from 1 to 3"),
    (dict(processors=4), "processors is 4; it must be a whole number from 1 to 3"),
])  # fmt: skip
def test_processors_that_do_not_fit_are_one_sentence(options, sentence):
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        interleaved(THREE, **options)


def test_micro_batches_must_be_a_multiple_of_the_processors():
    with pytest.raises(ValueError, match="^micro_batches is 5; interleaving needs a multiple of the 2 processors$"):
        interleaved(equal_stages(4, 1, 1, 1), processors=2, micro_batches=5)
