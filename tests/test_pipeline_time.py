"""The paper's time formula against schedules made pass by pass, on chains and on random graphs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lpkit.baselines import streamed
from lpkit.costs import Costs
from lpkit.pipeline_time import bubbling, chain_timeline, depth_of, pipeline_time
from lpkit.plans import Plan
from lpkit.schedule import gpipe, pipedream


@pytest.mark.parametrize("depth", [1, 2, 3, 7, 20])
@pytest.mark.parametrize("samples", [1, 2, 10, 25])
def test_the_schedule_takes_as_long_as_the_formula(samples, depth):
    line = chain_timeline(samples, depth)
    assert line.makespan == 2 * (samples + depth - 1) == pipeline_time(1, samples, depth, how="schedule")
    assert line.check() == ()
    assert line.bubble_share == pytest.approx((depth - 1) / (samples + depth - 1))
    assert bubbling({i: [i - 1] for i in range(1, depth + 1)}, samples).makespan == line.makespan


def test_steps_wait_for_each_other():
    plan = Plan("chain", Costs.from_times([1] * 4, 0, 1, unit="slots"), 4, ends=(1, 2, 3, 4))
    assert gpipe(plan, 5, micro_batches=3).makespan == pipeline_time(5, 3, 4) == 60


@pytest.mark.parametrize("depth", [1, 2, 5, 9])
@pytest.mark.parametrize("steps", [1, 4, 30])
def test_a_full_pipeline_takes_as_long_as_its_formula(steps, depth):
    plan = Plan("chain", Costs.from_times([1] * depth, 0, 1, unit="slots"), depth, ends=tuple(range(1, depth + 1)))
    assert pipedream(plan, steps).makespan == streamed(steps, 1, depth)


@st.composite
def graphs(draw):
    """Graphs with one leaf: each node reads the input or earlier nodes, the last one all that nothing else reads."""
    count = draw(st.integers(1, 12))
    parents = {i: draw(st.lists(st.integers(-1, i - 1), min_size=1, max_size=3, unique=True)) for i in range(count)}
    read = {p for names in parents.values() for p in names}
    return {**parents, "leaf": [i for i in range(count) if i not in read]}


@settings(max_examples=200)
@given(graphs(), st.integers(1, 30))
def test_only_the_depth_of_a_graph_counts(parents, samples):
    found = bubbling(parents, samples)
    assert found.makespan == 2 * (samples + depth_of(parents) - 1)
    for node, names in parents.items():  # by the rules, pass by pass, without the recurrence that made it
        passes = np.concatenate([found.forward[node], found.backward[node]])
        assert len(set(passes.tolist())) == 2 * samples and passes.min() >= 0
        for p in set(names) & set(parents):
            assert (found.forward[p] + 1 <= found.forward[node]).all()
            assert (found.backward[node] + 1 <= found.backward[p]).all()


def test_slow_nodes_set_the_pace():
    found = bubbling({"a": ["x"], "b": ["a"]}, 3, times={"a": 5})
    assert found.forward["a"].tolist() == [0, 5, 10] and found.forward["b"].tolist() == [5, 10, 15]
    assert found.makespan == 16 + 1 + 2 * 0 + 15  # b ends at 16 and at once turns back; a then has its three passes


def test_times_of_many_iterations():
    assert pipeline_time([0, 1, 50], 10, 20).tolist() == [0, 58, 2900]


@pytest.mark.parametrize("call, message", [
    (lambda: pipeline_time(1, 0, 20), "samples is 0; it must be a whole number from 1"),
    (lambda: pipeline_time(-1, 1, 20), "iterations is -1; it must be a whole number from 0"),
    (lambda: pipeline_time(1, 1, 2.5), "depth is 2.5; it must be a whole number from 1"),
    (lambda: pipeline_time(1, 1, 2, how="guess"), "how is 'guess'"),
    (lambda: bubbling({"a": ["b"], "b": ["a"]}, 1), "the graph has a circle through some of 'a', 'b'; remove it"),
    (lambda: bubbling({"a": ["x"], "b": ["x"]}, 1), "the graph has 2 leaves ('a', 'b'); join them"),
    (lambda: bubbling({"a": "x"}, 1), "node 'a' reads 'x'; give a list of names"),
    (lambda: bubbling({}, 1), "the graph is {}; give a mapping"),
    (lambda: bubbling({"a": ["x"]}, 10**8), "there would be 100,000,000 passes each way; ask for at most"),
    (lambda: bubbling({"a": ["x"]}, 1, times={"a": 0}), "times['a'] is 0; it must be a whole number"),
])  # fmt: skip
def test_messages(call, message):
    with pytest.raises(ValueError) as error:
        call()
    assert message in str(error.value) and "\n" not in str(error.value)
