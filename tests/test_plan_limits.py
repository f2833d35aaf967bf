"""Layers that stay together, processors of unequal speed and replicated stages, against every plan there is."""

import csv
import importlib
import io
import itertools
import json
import math
import time
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import LinearConstraint, milp
from test_partition import chain, random_costs, stage_amounts

from lpkit.chains import movable
from lpkit.interleaved_schedule import interleaved
from lpkit.interop.pipedream import read_profile, to_costs
from lpkit.list_schedule import list_schedule
from lpkit.partition import Plan, check_plan, communication, optimal, pipedream, verify_optimal
from lpkit.plan_reader import from_dict, read_plan
from lpkit.planfile import plan_text, stage_table, to_dict, write_plan
from lpkit.schedule import schedule


def compositions(total, parts, most):
    """All ways to write a number of at most `total` as so many parts from 1 to `most`."""
    return (c for c in itertools.product(range(1, most + 1), repeat=parts) if sum(c) <= total)


def period_of(loads, amounts, capacities, tiles):
    """Least period of stages with these loads (all-reduce included) and what each may pass on."""
    stages = range(len(loads))
    if tiles is None:
        caps = [*amounts[:-1], 0]
        return max(Fraction(sum(loads[m : n + 1]) - caps[n]) / sum(capacities[m : n + 1])
                   for m in stages for n in range(m, len(loads)))  # fmt: skip
    return min(max(Fraction(s - up + down) / c for s, up, down, c in zip(loads, (*y, 0), (0, *y), capacities))
               for y in itertools.product(*amounts[:-1]))  # fmt: skip


def of_stages(costs, ends, may, tiles, capacities, replicas, bandwidth, memory):
    """Least period of given stages on given processors, or None if a processor exceeds the memory."""
    pairs = list(zip((0, *ends), ends))
    sizes = costs.weight_bytes + costs.input_bytes
    for k, (a, b) in enumerate(pairs):
        versions = math.ceil(Fraction(sum(replicas[k:]), replicas[k]))
        if memory is not None and int(sizes[a:b].sum()) * versions > memory:
            return None
    loads = [Fraction(int(costs.work[a:b].sum())) for a, b in pairs]
    links = [0]
    if bandwidth is not None:
        loads = [load + Fraction(4 * (r - 1) * int(costs.weight_bytes[a:b].sum()), bandwidth * r)
                 for load, r, (a, b) in zip(loads, replicas, pairs)]  # fmt: skip
        links += [Fraction(2 * int(costs.cut_bytes[end - 1]), bandwidth * min(pair))
                  for end, pair in zip(ends, itertools.pairwise(replicas))]  # fmt: skip
    amounts = [stage_amounts(costs, may, tiles, a, b) for a, b in pairs]
    return max(period_of(loads, amounts, capacities, tiles), *links)


def all_plans(costs, processors, options, still=False):
    """(period, processors or stages, stages, (place, end) of each stage) of every plan that keeps to the options."""
    may = movable(costs, options.get("threshold"), options.get("residual", "consumer")) & (not still)
    speeds, limit = options.get("speeds"), options.get("replicas", 1)
    limit = processors if limit is True else limit
    shut = {cut for first, last in options.get("together", ()) for cut in range(first, last)}
    for stages in range(1, min(processors, len(costs)) + 1):
        for cuts in itertools.combinations(range(1, len(costs)), stages - 1):
            if shut & set(cuts):
                continue
            if speeds:
                places = itertools.combinations(range(1, processors + 1), stages)
            else:
                places = compositions(processors, stages, limit)
            for place in places:
                replicas = (1,) * stages if speeds else place
                capacities = [speeds[p - 1] for p in place] if speeds else place
                period = of_stages(costs, (*cuts, len(costs)), may, options.get("granularity"), capacities, replicas,
                                   options.get("bandwidth"), options.get("memory"))  # fmt: skip
                if period is not None:
                    yield period, stages if speeds else sum(place), stages, (*zip(place, (*cuts, len(costs))),)


def random_limits(rng, costs, processors, kind):
    """Options with a limit of that kind, and others with it."""
    options, L = {}, len(costs)
    if kind == "speeds":
        options["speeds"] = [Fraction(int(n), int(d)) for n, d in zip(rng.integers(1, 6, processors),
                                                                      rng.integers(1, 4, processors))]  # fmt: skip
    elif kind == "replicas":
        options["replicas"] = True if rng.random() < 0.5 else int(rng.integers(1, processors + 1))
    if kind == "together" or rng.random() < 0.25:
        options["together"] = [tuple(sorted(rng.integers(1, L + 1, 2).tolist())) for _ in range(rng.integers(1, 3))]
    if rng.random() < 0.3:
        options["granularity"] = rng.integers(1, 4, L).tolist()
    if rng.random() < 0.4:
        options["bandwidth"] = int(rng.choice([1, 3, 7, 20]))
    if rng.random() < 0.3:
        options["memory"] = int(rng.integers(5, 90))
    if rng.random() < 0.2:
        options["threshold"] = int(rng.integers(0, 10))
    return options


@pytest.mark.parametrize("planner", [optimal, pipedream])
@pytest.mark.parametrize("kind", ["together", "speeds", "replicas"])
@pytest.mark.parametrize("seed", range(4))
def test_least_period_and_rule_for_ties_equal_those_of_all_plans(seed, kind, planner):
    rng, compared = np.random.default_rng(seed), 0
    for _ in range(100):
        costs = random_costs(rng, 5)
        processors = int(rng.integers(1, 6)) if kind != "together" else int(rng.integers(1, len(costs) + 1))
        options = random_limits(rng, costs, processors, kind)
        still = planner is pipedream
        if still:
            options = {name: value for name, value in options.items() if name not in ("granularity", "threshold")}
        best = min(all_plans(costs, processors, options, still), default=None)
        if best is None:
            with pytest.raises(ValueError, match="keeps every stage within the memory"):
                planner(costs, processors, **options)
            continue
        found = planner(costs, processors, **options)
        assert check_plan(found) == () and sum(found.loads) == costs.total
        assert (found.period, len(found.ends)) == (best[0], best[2]), (options, costs)
        places = found.used or found.replicas or (1,) * len(found.ends)
        assert (*zip(places, found.ends),) == best[3], (options, costs)
        if kind == "speeds":
            assert [options["speeds"][p - 1] for p in found.used] == list(found.speeds)
        assert verify_optimal(found)
        compared += 1
    assert compared > 60


# ---- PipeDream's own planner with replicas, as it was recorded

RUNS = json.loads((Path(__file__).parent / "golden" / "pipedream_replicas.json").read_text())["runs"]
# On a graph with branches its states are not the cuts of one order of the nodes: it may cut across branches, and at
# some states it charges a link for more bytes than cross it.
ACROSS = {("resnet50", "repl", 8): 1.038, ("resnet50", "repl", 12): 1.013, ("gnmt", "repl_comm", 12): 0.977}


@pytest.mark.parametrize("run", RUNS, ids=lambda run: f"{run['profile']}-{run['mode']}-{run['machines']}")
def test_periods_of_the_recorded_optimizer_with_replicas(run):
    nodes = to_costs(read_profile(run["profile"]), granularity="nodes")
    if run["mode"] == "repl":  # links are free, the all-reduce is not
        nodes = replace(nodes, cut_bytes=np.zeros_like(nodes.cut_bytes))
    bandwidth = {"repl": 1e6, "repl_comm": 1e7}[run["mode"]]  # bytes in a ms
    found = pipedream(nodes, run["machines"], bandwidth=bandwidth, replicas=True)
    factor = ACROSS.get((run["profile"], run["mode"], run["machines"]))
    if factor is None:  # printed to the microsecond
        assert found.period == pytest.approx(1e3 * run["period"], rel=0, abs=6e-4)
    else:
        assert found.period / (1e3 * run["period"]) == pytest.approx(factor, abs=1e-3)


# ---- Small cases worked out by hand


def test_layers_together_leave_fewer_cuts():
    costs = chain([4, 4, 4, 4], 0)
    assert optimal(costs, 4).ends == (1, 2, 3, 4)
    bound = optimal(costs, 4, together=[("layer2", 3)])
    assert (bound.ends, bound.period, dict(bound.options)) == ((1, 3, 4), 8, {"together": ((2, 3),)})
    assert pipedream(costs, 3, together=[(3, 4), (1, 2)]).ends == (2, 4)
    assert optimal(costs, 4, together=[(1, 3), (3, 4)]).ends == (4,)  # they share layer 3: one run
    assert optimal(costs, 2, together=[(1, 2), (3, 4)]).ends == (2, 4)
    assert optimal(costs, 4, together=[]).options == optimal(costs, 4, together=[(2, 2)]).options == ()


def test_delta_still_leaves_layers_that_stay_together():
    costs = chain([1, 1, 4], [0, 4, 0])
    bound = optimal(costs, 2, together=[(1, 2)])
    assert (bound.ends, bound.moved, bound.period) == ((2, 3), ((2, 1, 2, 1),), 5)


def test_a_processor_takes_work_by_its_speed_and_a_slow_one_is_not_used():
    costs = chain([6, 6, 6], 0)
    fast = optimal(costs, 2, speeds=[2, 1])
    assert (fast.ends, fast.used, fast.speeds) == ((2, 3), (1, 2), (2, 1))
    assert (fast.loads, fast.stage_times) == ((12, 6), (6, 6))
    assert (fast.period, fast.speedup) == (6, 3)
    idle = optimal(costs, 3, speeds=[3, Fraction(1, 100), 0.5])
    assert (idle.ends, idle.used, idle.speeds, idle.period) == ((3,), (1,), (3,), 6)
    assert optimal(costs, 3, speeds=[Fraction(1, 100), 3, 3]).used == (2, 3)
    assert optimal(costs, 8, speeds=[1] * 8).used == (1, 2, 3)  # more processors than layers


def test_delta_goes_to_the_faster_neighbour():
    found = optimal(chain([0, 2], [9, 0]), 2, speeds=[1, 2])
    assert found.period == Fraction(11, 3) and found.moved == ((1, 1, 2, Fraction(16, 3)),)
    assert found.stage_times == (Fraction(11, 3), Fraction(11, 3))


def test_a_float_speed_stands_for_its_decimal():
    costs = chain([1, 2], 0)
    for tenth in (0.1, np.float32(0.1), Fraction(1, 10)):
        assert optimal(costs, 1, speeds=[tenth]).period == 30
    assert optimal(costs, 2, speeds=np.array([1.0, 2.0])).period == 1


def test_replicas_share_the_mini_batches_and_pay_for_the_all_reduce():
    costs = chain([6, 2], 0, weight_bytes=[3, 5], output_bytes=[9, 9])
    free = optimal(costs, 4, replicas=True)
    assert (free.ends, free.replicas, free.allreduce, free.period, free.speedup) == ((2,), (4,), (0,), 2, 4)
    two = optimal(costs, 4, replicas=3)
    assert (two.ends, two.replicas, two.stage_times) == ((1, 2), (3, 1), (2, 2))
    # 3 replicas: 4 * 2 / 3 of 3 bytes over the bandwidth 8 take 1; the link carries 18 bytes for its slower side.
    paid = Plan("by hand", costs, 4, (1, 2), replicas=(3, 1), allreduce=(1, 0), links=(Fraction(9, 4),))
    assert paid.stage_times == (Fraction(7, 3), 2) and paid.period == Fraction(7, 3)
    found = optimal(costs, 4, replicas=3, bandwidth=8)
    assert (found.period, found.replicas, found.allreduce, found.links) == (
        paid.period, paid.replicas, paid.allreduce, paid.links)


def test_memory_counts_a_version_for_each_group_of_replicas_to_the_end():
    rising, falling = chain([2, 4], 0, weight_bytes=10), chain([4, 2], 0, weight_bytes=10)
    # A stage of 1 before one of 2 holds 3 versions of its 10 bytes, a stage of 2 before one of 1 only 2.
    assert [optimal(rising, 3, replicas=2, memory=size).replicas for size in (30, 29)] == [(1, 2), (2,)]
    assert optimal(falling, 3, replicas=2, memory=20).replicas == (2, 1)


def test_bytes_of_the_all_reduce():
    costs = chain([6, 2], 0, weight_bytes=[30, 5])
    sent = communication(Plan("by hand", costs, 4, (1, 2), replicas=(3, 1)))
    assert (sent.allreduce, sent.total_allreduce) == ((40, 0), 40)
    assert communication(Plan("by hand", costs, 2, (1, 2))).allreduce == ()


def test_text_of_plans_and_certificates():
    costs = chain([6, 6, 6], 0)
    fast = optimal(costs, 2, speeds=[2, 1])
    assert repr(fast).splitlines()[1] == "layers 1-2 | 3 on processors 1, 2 of speed 2, 1"
    assert fast.certificate.text == ("optimal: no plan of 2 processors with these speeds beats 6 cycles: that is all "
                                     "work divided by all speeds")
    assert (fast.certificate.average_bound, fast.certificate.saturation_period) == (6, None)
    assert (fast.certificate.binding, fast.certificate.saturates_at) == ((1, 3, 2), None)
    held = optimal(chain([1, 9], 0), 8, replicas=2)
    assert repr(held).splitlines()[1] == "layers 1 | 2 with 1, 2 replicas"
    assert held.certificate.text == ("optimal: no plan of 8 processors with at most 2 replicas a stage beats 4.5 "
                                     "cycles: what cannot leave layer2 is shared by at most 1 stage of 2 replicas")
    slow = optimal(chain([3, 3, 3], 0), 2, speeds=[1, 1]).certificate
    assert (slow.period, slow.binding) == (6, None)
    assert "with these speeds beats 6 cycles: an exact search met every smaller period" in slow.text
    alone = optimal(chain([1, 9, 1], 0), 3, speeds=[1, 2, 1]).certificate
    assert alone.text.endswith("what cannot leave layer2 is shared by at most 1 stage on the fastest processors")


# ---- Invariants


@pytest.mark.parametrize("planner", [optimal, pipedream])
@pytest.mark.parametrize("seed", range(3))
def test_equal_speeds_and_single_replicas_plan_as_without(seed, planner):
    rng = np.random.default_rng(50 + seed)
    for _ in range(60):
        costs = random_costs(rng, 7)
        processors = int(rng.integers(1, len(costs) + 1))
        options = random_limits(rng, costs, processors, "none")
        if planner is pipedream:
            options = {name: value for name, value in options.items() if name not in ("granularity", "threshold")}
        try:
            plain = planner(costs, processors, **options)
        except ValueError:
            continue
        for equal in ({"speeds": [1] * processors}, {"replicas": 1}):
            found = planner(costs, processors, **options, **equal)
            assert (found.ends, found.moved, found.period, found.links) == (
                plain.ends, plain.moved, plain.period, plain.links)  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_more_speed_more_replicas_and_looser_limits_never_hurt(data):
    layers, processors = data.draw(st.integers(1, 7)), data.draw(st.integers(1, 6))
    whole = st.lists(st.integers(0, 50), min_size=layers, max_size=layers)
    costs = chain(data.draw(whole), data.draw(whole), weight_bytes=data.draw(whole), output_bytes=data.draw(whole))
    speed = st.integers(1, 9)
    speeds = data.draw(st.lists(speed, min_size=processors, max_size=processors))
    faster = [s + data.draw(st.integers(0, 3)) for s in speeds]
    slow, fast = (optimal(costs, processors, speeds=s) for s in (speeds, faster))
    assert fast.period <= slow.period <= pipedream(costs, processors, speeds=speeds).period
    assert optimal(costs, processors, speeds=[3 * s for s in speeds]).period * 3 == slow.period
    for bandwidth in (None, 5):
        periods = [optimal(costs, processors, replicas=r, bandwidth=bandwidth).period for r in range(1, processors + 1)]
        assert periods == sorted(periods, reverse=True)
        assert periods[-1] == optimal(costs, processors, replicas=True, bandwidth=bandwidth).period
    assert periods[0] >= periods[-1] >= Fraction(costs.total, processors)
    for options in ({"speeds": speeds}, {"replicas": 2, "bandwidth": 5}):
        one = optimal(costs, processors, together=[(1, layers)], **options)
        assert len(one.ends) == 1 and one.period >= optimal(costs, processors, **options).period
    sure = slow.certificate
    assert sure.average_bound <= sure.period == slow.period == max(slow.stage_times)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("limits", [{"speeds": [1.5, 0.7, 1, 2]}, {"replicas": True}, {"together": [(2, 4)]}])
def test_float_costs_reach_the_same_period(limits, seed):
    rng = np.random.default_rng(seed)
    for _ in range(30):
        costs = random_costs(rng, 8, 5)
        tenths = replace(costs, F=costs.F * 0.1, G=costs.G * 0.1, delta=costs.delta * 0.1, unit="s")
        for options in ({}, {"bandwidth": 7}, {"granularity": 3}):
            exact = optimal(costs, 4, **limits, **options)
            rate = {"bandwidth": 70} if "bandwidth" in options else {}
            found = optimal(tenths, 4, **limits, **options | rate)
            assert float(found.period) == pytest.approx(float(exact.period) / 10, rel=1e-11, abs=1e-300)
            assert check_plan(found) == () and isinstance(found.period, (int, float))
        assert verify_optimal(found)


def test_a_mixed_integer_programme_finds_the_same_periods():
    for seed in range(6):
        rng = np.random.default_rng(seed)
        costs = chain(rng.integers(1, 50, 7), rng.integers(0, 100, 7))
        speeds = rng.integers(1, 5, 4).tolist()
        assert float(optimal(costs, 4, speeds=speeds).period) == pytest.approx(programme(costs, speeds), rel=1e-6)


def programme(costs, speeds):
    """Least period on processors of these speeds: for each choice of those that are used a mixed-integer programme."""
    choices = (itertools.combinations(speeds, n) for n in range(1, len(speeds) + 1))
    return min(programme_of_all(costs, used) for used in itertools.chain.from_iterable(choices))


def programme_of_all(costs, speeds):
    """The same where all processors are used: y[n,k] layer n on processor k, g[n,k] work of its delta there."""
    F, D, L, P = (costs.F + costs.G).tolist(), costs.delta.tolist(), len(costs), len(speeds)
    y, g, period = np.arange(L * P).reshape(L, P), L * P + np.arange(L * P).reshape(L, P), 2 * L * P
    rows, low, high = [], [], []

    def require(terms, least, most):
        row = np.zeros(period + 1)
        for column, factor in terms:
            row[column] += factor
        rows.append(row), low.append(least), high.append(most)

    for n in range(L):
        require([(y[n, k], 1) for k in range(P)], 1, 1)
        require([(g[n, k], 1) for k in range(P)], D[n], D[n])
        for k in range(P):  # delta runs with its layer, or one processor on if the next layer is there
            before = [(y[n, k - 1], -D[n])] if k else []
            require([(g[n, k], 1), (y[n, k], -D[n]), *before], -np.inf, 0)
            require([(g[n, k], 1), (y[n, k], -D[n]), *([(y[n + 1, k], -D[n])] if n + 1 < L else [])], -np.inf, 0)
    for n in range(L - 1):
        require([(y[n + 1, k], k) for k in range(P)] + [(y[n, k], -k) for k in range(P)], 0, 1)
    for k in range(P):
        load = [*((y[n, k], -F[n]) for n in range(L)), *((g[n, k], -1) for n in range(L))]
        require([(period, speeds[k]), *load], 0, np.inf)
    whole = np.r_[np.ones(L * P), np.zeros(L * P + 1)]
    upper = np.r_[np.ones(L * P), np.full(L * P + 1, np.inf)]
    result = milp(np.eye(period + 1)[period], integrality=whole, bounds=(0, upper), options={"mip_rel_gap": 1e-9},
                  constraints=LinearConstraint(np.array(rows), low, high))
    assert result.success, result.message
    return result.fun


def test_large_chains_are_planned_soon_enough():
    rng = np.random.default_rng(3)
    seconds = []
    for layers, processors, options in [
        (54, 12, {"replicas": True, "bandwidth": 100}),
        (1000, 32, {"speeds": [1 + 0.37 * (k % 3) for k in range(32)]}),
    ]:
        costs = chain(rng.integers(1, 10**6, layers), rng.integers(1, 10**6, layers),
                      weight_bytes=rng.integers(1, 10**7, layers), output_bytes=rng.integers(1, 10**6, layers))
        start = time.process_time()
        assert check_plan(optimal(costs, processors, **options)) == ()
        seconds.append(time.process_time() - start)
    assert seconds[0] < 0.5 and seconds[1] < 5  # measured: 0.05 and 0.4 s


# ---- Plans as files


@pytest.mark.parametrize("options", [
    {"speeds": [1, 0.5, Fraction(7, 3)]}, {"replicas": True}, {"replicas": 2, "bandwidth": 7},
    {"together": [(1, 2), (3, 4)]}, {"speeds": [1, 2, 3], "together": [(2, 3)], "granularity": 2},
])  # fmt: skip
@pytest.mark.parametrize("unit", ["cycles", "s"])
def test_plans_survive_writing_and_reading(options, unit, tmp_path):
    costs = replace(chain([3, 5, 2, 7, 6], [0, 4, 4, 3, 2], weight_bytes=6, output_bytes=4), unit=unit)
    made = optimal(costs, 3, **options)
    again = read_plan(write_plan(made, tmp_path / "plan.json"))
    for name in ("ends", "moved", "links", "speeds", "used", "replicas", "allreduce", "stage_times", "period",
                 "certificate", "notes"):  # fmt: skip
        assert getattr(again, name) == getattr(made, name), name
    assert verify_optimal(again) and repr(again) == repr(made)
    rows = list(csv.DictReader(io.StringIO(plan_text(made, "plan.csv"))))
    assert [float(row["load"]) for row in rows] == pytest.approx([float(load) for load in made.loads])
    if "together" not in options or "speeds" in options:
        assert [float(row["time"]) for row in rows] == pytest.approx([float(time) for time in made.stage_times])
    table = stage_table(made)
    assert ("speed" in table, "replicas" in table) == ("speeds" in options, "replicas" in options)


def test_plain_plans_are_written_as_before():
    document = to_dict(optimal(chain([4, 2, 2], 0), 2))
    assert not {"speeds", "used", "replicas", "allreduce", "stage_times"} & set(document)
    assert list(stage_table(optimal(chain([4, 2, 2], 0), 2)))[-1] == "additional_bytes"


@pytest.mark.parametrize("change, message", [
    ({"speeds": [1, 0]}, "a stage has the speed 0; it must be a number from 1e-12 to 1e+12; correct it"),
    ({"speeds": 3}, "speeds is a number; it must be a list"),
    ({"speeds": [1, "inf"]}, "speeds[1] is 'inf'; it must be a number"),
    ({"used": [1, 9]}, "the stages are on processors (1, 9); these must rise from 1 to at most 2; correct it"),
    ({"used": [1.5, 2]}, "used[0] is 1.5; it must be a whole number from 1"),
    ({"speeds": [2, 2]}, "stage 2 has the speed 2, but processor 2 has 1; correct it"),
    ({"replicas": [1, 1]}, "the plan has speeds and replicas; it can have one of them; correct it"),
    ({"stage_times": [1, 1]}, "stage_times is [1, 1]; the rest of the file gives [6, 6]"),
    ({"options": {"speeds": [2]}}, "the option speeds is [2]; it must hold one number for each of 2 processors"),
    ({"options": {"speeds": [2, 1], "together": [3]}}, "together is [3]; it must be a list of pairs (first, last)"),
])
def test_wrong_entries_of_a_file(change, message):
    document = to_dict(optimal(chain([6, 6, 6], 0), 2, speeds=[2, 1]))
    with pytest.raises(ValueError) as error:
        from_dict(document | change)
    assert message in str(error.value)


# ---- What is wrong with an input

FOUR = chain([1, 2, 3, 4], [0, 1, 1, 1], weight_bytes=10)


@pytest.mark.parametrize("planner", [optimal, pipedream])
@pytest.mark.parametrize("options, message", [
    ({"speeds": [1]}, "speeds has 1 entries; give one for each of 2 processors"),
    ({"speeds": [1, 1, 1]}, "speeds has 3 entries; give one for each of 2 processors"),
    ({"speeds": 2}, "speeds is 2; it must be a sequence of numbers, one for each of 2 processors"),
    ({"speeds": "11"}, "speeds is '11'; it must be a sequence of numbers"),
    ({"speeds": [1, 0]}, "speeds[1] is 0; it must be a number from 1e-12 to 1e+12"),
    ({"speeds": [-1, 1]}, "speeds[0] is -1; it must be a number from 1e-12 to 1e+12"),
    ({"speeds": [1, math.nan]}, "speeds[1] is nan; it must be a number from 1e-12 to 1e+12"),
    ({"speeds": [1, math.inf]}, "speeds[1] is inf; it must be a number from 1e-12 to 1e+12"),
    ({"speeds": [1, "2"]}, "speeds[1] is '2'; it must be a number from 1e-12 to 1e+12"),
    ({"speeds": [1, True]}, "speeds[1] is True; it must be a number from 1e-12 to 1e+12"),
    ({"replicas": 0}, "replicas is 0; it must be True, or the largest group as a whole number from 1"),
    ({"replicas": 1.5}, "replicas is 1.5; it must be True, or the largest group"),
    ({"replicas": "all"}, "replicas is 'all'; it must be True, or the largest group"),
    ({"replicas": True, "speeds": [1, 1]}, "speeds and replicas are both given; give one of them, since"),
    ({"together": "ab"}, "together is 'ab'; it must be a sequence of pairs (first, last) of layer names or numbers"),
    ({"together": ("layer1", "layer2")}, "together[0] is 'layer1'; it must be a pair (first, last) of layer names or"),
    ({"together": [(1, 2), (1, 2, 3)]}, "together[1] is (1, 2, 3); it must be a pair (first, last)"),
    ({"together": [(1, "layer9")]}, "a layer of together[0] is 'layer9'; did you mean"),
    ({"together": [(0, 2)]}, "a layer of together[0] is 0; it must be a whole number from 1 to 4"),
    ({"together": [(1, 5)]}, "a layer of together[0] is 5; it must be a whole number from 1 to 4"),
    ({"together": [(1, 2.5)]}, "a layer of together[0] is 2.5; it must be a whole number from 1 to 4"),
    ({"together": [(3, "layer2")]}, "together[0] is (3, 'layer2'); layer 3 comes after layer 2, so give them"),
    ({"together": [(1, 3)], "memory": 25}, "give more memory or more processors, or keep fewer layers together"),
    ({"speeds": [1, 1], "memory": 5}, "no plan of at most 2 processors keeps every stage within the memory; give more"),
    ({"replicas": 2, "memory": 5}, "no plan of at most 2 processors keeps every stage within the memory; give more"),
])
def test_wrong_limits(planner, options, message):
    with pytest.raises(ValueError) as error:
        planner(FOUR, 2, **options)
    assert message in str(error.value)


@pytest.mark.parametrize("processors", [0, 1025, 2.5, "2"])
def test_wrong_numbers_of_machines(processors):
    with pytest.raises(ValueError, match="it must be a whole number from 1 to 1024"):
        optimal(FOUR, processors, replicas=True)


@pytest.mark.parametrize("fields, message", [
    ({"speeds": (1,), "used": (1,)}, "speeds has 1 entries; there must be one for each of 2 stages"),
    ({"speeds": (1, 1)}, "used has 0 entries; there must be one for each of 2 stages"),
    ({"used": (1, 2)}, "speeds has 0 entries; there must be one for each of 2 stages"),
    ({"speeds": (1, -1), "used": (1, 2)}, "a stage has the speed -1; it must be a number from 1e-12 to 1e+12"),
    ({"speeds": (1, math.nan), "used": (1, 2)}, "a stage has the speed nan; it must be a number from 1e-12 to 1e+12"),
    ({"speeds": (1, 1), "used": (2, 1)}, "the stages are on processors (2, 1); these must rise from 1 to at most 3"),
    ({"speeds": (1, 1), "used": (2, 4)}, "the stages are on processors (2, 4); these must rise from 1 to at most 3"),
    ({"replicas": (1,)}, "replicas has 1 entries; there must be one for each of 2 stages"),
    ({"allreduce": (1, 1)}, "replicas has 0 entries; there must be one for each of 2 stages"),
    ({"replicas": (1, 0)}, "a stage has 0 replicas; it must have a whole number from 1"),
    ({"replicas": (2, 2)}, "there are 4 replicas for 3 processors"),
    ({"replicas": (2, 1), "allreduce": (-1, 0)}, "an all-reduce takes -1; it must take a finite time of at least 0"),
    ({"replicas": (1, 1), "speeds": (1, 1)}, "the plan has speeds and replicas; it can have one of them"),
    ({"options": (("together", ((1, 2), (2, 3))),)}, "layers 2 to 3 must stay together, but stage 1 ends with layer 2"),
    ({"options": (("together", 3),)}, "the option together is 3; it must hold pairs (first, last) of layer numbers"),
])
def test_plans_by_hand_that_may_not_be_run(fields, message):
    by_hand = Plan("by hand", FOUR, 3, (2, 4), **fields)
    assert message in check_plan(by_hand)
    assert message in repr(by_hand) and not verify_optimal(by_hand)


def test_a_plan_that_does_not_tell_all_speeds_cannot_be_verified():
    by_hand = Plan("by hand", FOUR, 3, (2, 4), speeds=(1, 2), used=(1, 3))
    with pytest.raises(ValueError, match="tells the speeds of 2 of 3 processors, so that it cannot be verified; name"):
        verify_optimal(by_hand)
    told = replace(by_hand, options=(("speeds", (1, 1, 2)),))
    assert not verify_optimal(told)


@pytest.mark.parametrize("make", [schedule, list_schedule, lambda plan: interleaved(plan, processors=1)])
def test_no_timeline_of_unequal_stages(make):
    with pytest.raises(ValueError, match="a timeline of replicated stages is not made; plan without replicas for that"):
        make(optimal(FOUR, 4, replicas=2))
    with pytest.raises(ValueError, match="a timeline of processors of unequal speed is not made; plan without speeds"):
        make(optimal(FOUR, 2, speeds=[1, 2]))
    assert make(optimal(FOUR, 2, together=[(1, 2)]))


def test_torch_runs_no_unequal_stages():
    nn = pytest.importorskip("torch.nn")
    split = importlib.import_module("lpkit.interop.torch_layers").split
    modules = [nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)]
    for options, what in (({"replicas": 2}, "replicated stages"), ({"speeds": [1, 2]}, "processors of unequal speed")):
        with pytest.raises(ValueError, match=f"a pipeline of torch of {what} is not made; plan without"):
            split(modules, optimal(FOUR, 2, **options))
