"""Planners against brute force, a mixed-integer programme, counterexamples worked out by hand, and each other."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import LinearConstraint, milp

from lpkit.algorithm1 import _strict
from lpkit.chains import movable
from lpkit.costs import Costs
from lpkit.costs import costs as costs_of
from lpkit.networks import network
from lpkit.partition import (
    PLANNERS,
    Plan,
    algorithm1,
    check_plan,
    communication,
    equal_layers,
    optimal,
    pipedream,
    plan,
    verify_optimal,
)
from lpkit.ratios import at_or_above, below


def chain(F, delta, **bytes_of):
    return Costs.from_times(F, 0, delta, unit="cycles", **bytes_of)


def random_costs(rng, most_layers=7, least_layers=1):
    """A small chain of whole costs, half of them with residual readers."""
    L = int(rng.integers(least_layers, most_layers + 1))
    top = int(rng.choice([3, 10, 1000]))
    sizes = {name: rng.integers(0, 10, L) for name in ("weight_bytes", "input_bytes")}
    sizes["output_bytes"] = rng.integers(0, 40, L)
    costs = chain(rng.integers(0, top + 1, L), rng.integers(0, 2 * top + 1, L), **sizes)
    if rng.random() < 0.5:
        return costs
    readers = np.minimum(np.arange(1, L + 1) + rng.choice([1, 1, 1, 2, 3], L), L + 1)
    return replace(costs, first_consumer=readers, shared_input=rng.random(L) < 0.3)


def closed_form(loads, caps):
    """Least period of given stages: for each run of stages what cannot leave it, over its length."""
    P = len(loads)
    caps = [*caps[:-1], 0]
    return max(Fraction(sum(loads[m : n + 1]) - caps[n], n - m + 1) for m in range(P) for n in range(m, P))


def stage_amounts(costs, may, tiles, a, b):
    """What stage a+1..b can pass on: the cap, or with tiles every amount."""
    movers = [n for n in range(a, b) if may[n] and costs.first_consumer[n] == b + 1]
    delta = costs.delta.tolist()
    if tiles is None:
        return sum(delta[n] for n in movers)
    choices = itertools.product(*(range(tiles[n] + 1) for n in movers))
    return sorted({sum(Fraction(delta[n] * c, tiles[n]) for n, c in zip(movers, counts)) for counts in choices})


def of_cuts(costs, cuts, may, tiles, links, memory):
    """Least period of given cuts, or None if a stage exceeds the memory."""
    ends = [0, *cuts, len(costs)]
    pairs = list(zip(ends, ends[1:]))
    loads = [int(costs.work[a:b].sum()) for a, b in pairs]
    bytes_of = costs.weight_bytes + costs.input_bytes
    held = [int(bytes_of[a:b].sum()) * (len(pairs) - k) for k, (a, b) in enumerate(pairs)]
    if memory is not None and max(held) > memory:
        return None
    amounts = [stage_amounts(costs, may, tiles, a, b) for a, b in pairs]
    if tiles is None:
        period = closed_form(loads, amounts)
    else:
        shifts = itertools.product(*amounts[:-1])
        period = min(max(s - up + down for s, up, down in zip(loads, (*y, 0), (0, *y))) for y in shifts)
    return max([period, *(links[cut - 1] for cut in cuts if links)])


def brute_force(costs, processors, may=None, tiles=None, links=None, memory=None):
    """(least period, fewest stages that reach it) over all cuts."""
    may = movable(costs) if may is None else may
    found = []
    for stages in range(1, processors + 1):
        for cuts in itertools.combinations(range(1, len(costs)), stages - 1):
            period = of_cuts(costs, cuts, may, tiles, links, memory)
            found += [] if period is None else [(period, stages)]
    return min(found, default=None)


def random_options(rng, costs):
    """Some options of `optimal`, and the same as arguments of `brute_force`."""
    L, options, oracle = len(costs), {}, {}
    if rng.random() < 0.3:
        options["threshold"] = int(rng.integers(0, 10))
    if rng.random() < 0.3:
        options["residual"] = "sum_site"
    if rng.random() < 0.4:
        options["granularity"] = oracle["tiles"] = rng.integers(1, 5, L).tolist()
    if rng.random() < 0.3:
        options["bandwidth"] = int(rng.choice([1, 3, 7, 20]))
        oracle["links"] = [Fraction(2 * c, options["bandwidth"]) for c in costs.cut_bytes.tolist()]
    if rng.random() < 0.3:
        options["memory"] = oracle["memory"] = int(rng.integers(1, 80))
    return options, oracle | {"may": movable(costs, options.get("threshold"), options.get("residual", "consumer"))}


@pytest.mark.parametrize("seed", range(6))
def test_optimal_equals_brute_force_with_all_options(seed):
    rng = np.random.default_rng(seed)
    compared = 0
    for _ in range(60):
        costs = random_costs(rng, 6)
        processors = int(rng.integers(1, len(costs) + 1))
        options, oracle = random_options(rng, costs)
        best = brute_force(costs, processors, **oracle)
        if best is None:
            with pytest.raises(ValueError, match="keeps every stage within the memory"):
                optimal(costs, processors, **options)
            continue
        found = optimal(costs, processors, **options)
        assert (found.period, len(found.ends)) == best, (options, costs)
        assert check_plan(found) == () and sum(found.loads) == costs.total and verify_optimal(found)
        saturation = brute_force(costs, len(costs), **oracle)
        assert (found.certificate.saturation_period, found.certificate.saturates_at) == saturation
        compared += 1
    assert compared > 40


@pytest.mark.parametrize("seed", range(3))
def test_float_costs_reach_the_same_period(seed):
    rng = np.random.default_rng(100 + seed)
    for _ in range(40):
        costs = random_costs(rng)
        tenths = replace(costs, F=costs.F * 0.1, G=costs.G * 0.1, delta=costs.delta * 0.1, unit="s")
        processors = int(rng.integers(1, len(costs) + 1))
        found, best = optimal(tenths, processors), brute_force(costs, processors)
        assert found.period == pytest.approx(float(best[0]) / 10, rel=1e-12, abs=1e-300)
        assert check_plan(found) == ()
        assert found.period == 0 or verify_optimal(found)


@pytest.mark.parametrize("seed", range(2))
def test_stages_follow_the_rule_for_ties(seed):
    rng = np.random.default_rng(200 + seed)
    for _ in range(60):
        costs = random_costs(rng, 6)
        processors = int(rng.integers(1, len(costs) + 1))
        period, stages = brute_force(costs, processors)
        cuts = min(c for c in itertools.combinations(range(1, len(costs)), stages - 1)
                   if of_cuts(costs, c, movable(costs), None, None, None) <= period)
        assert optimal(costs, processors).ends == (*cuts, len(costs))


def milp_period(costs, processors):
    """Least period by a mixed-integer programme: y[n,k] layer n on stage k, z[n,k] its delta may run there, g work."""
    F, D, L, P = (costs.F + costs.G).tolist(), costs.delta.tolist(), len(costs), processors
    y, z, g = (np.arange(L * P).reshape(L, P) + part * L * P for part in range(3))
    rows, low, high, period = [], [], [], 3 * L * P

    def require(terms, least, most):
        row = np.zeros(period + 1)
        for column, factor in terms:
            row[column] += factor
        rows.append(row), low.append(least), high.append(most)

    for n in range(L):
        require([(y[n, k], 1) for k in range(P)], 1, 1)
        require([(g[n, k], 1) for k in range(P)], D[n], D[n])
        for k in range(P):
            require([(g[n, k], 1), (y[n, k], -D[n]), (z[n, k], -D[n])], -np.inf, 0)
            require([(z[n, k], 1), *([(y[n, k - 1], -1)] if k else [])], -np.inf, 0)
            require([(z[n, k], 1), *([(y[n + 1, k], -1)] if n + 1 < L else [])], -np.inf, 0)
    for n in range(L - 1):
        require([(y[n + 1, k], k) for k in range(P)] + [(y[n, k], -k) for k in range(P)], 0, 1)
    for k in range(P):
        require([(period, 1), *((y[n, k], -F[n]) for n in range(L)), *((g[n, k], -1) for n in range(L))], 0, np.inf)
    whole = np.r_[np.ones(2 * L * P), np.zeros(L * P + 1)]
    upper = np.r_[np.ones(2 * L * P), np.full(L * P + 1, np.inf)]
    result = milp(np.eye(period + 1)[period], integrality=whole, bounds=(0, upper), options={"mip_rel_gap": 1e-9},
                  constraints=LinearConstraint(np.array(rows), low, high))
    assert result.success, result.message
    return result.fun


@pytest.mark.parametrize("seed", range(8))
def test_optimal_equals_a_mixed_integer_programme(seed):
    rng = np.random.default_rng(300 + seed)
    L = int(rng.integers(4, 9))
    costs = chain(rng.integers(1, 50, L), rng.integers(0, 100, L))
    processors = int(rng.integers(2, min(L, 5) + 1))
    assert float(optimal(costs, processors).period) == pytest.approx(milp_period(costs, processors), rel=1e-6)


# ---- Counterexamples and small cases worked out by hand


def strict_fits(costs, period, processors):
    """Whether the strict greedy fits within exactly this target."""
    return _strict(costs.delta.tolist(), costs.F.tolist(), Fraction(period), 0, processors) is not None


def test_greedy_is_not_optimal():
    costs = chain(1, [0, 3, 0, 1])
    assert optimal(costs, 3).period == 3
    assert not strict_fits(costs, 3, 3) and not strict_fits(costs, Fraction(349, 100), 3)
    assert strict_fits(costs, Fraction(7, 2), 3)


def test_greedy_is_not_monotone():
    costs = chain(1, [0, 4, 0, 2])
    assert [strict_fits(costs, t, 3) for t in (Fraction(7, 2), 4, Fraction(9, 2))] == [True, False, True]


def test_a_balanced_chain_needs_no_relaxation():
    costs = chain([8, 4, 4], [0, 8, 2])
    for mode in ("paper", "strict"):
        found = algorithm1(costs, 2, mode=mode)
        assert found.loads == (13, 13) and found.moved == ((2, 1, 2, 7),)
        assert found.notes == ("target 13 cycles after 0 restarts",)


def test_paper_mode_tells_of_inadmissible_steps():
    costs = chain([5, 9, 1, 1], [0, 4, 0, 0])
    found = algorithm1(costs, 4, mode="paper")
    assert found.ends == (1, 2, 2, 4) and found.moved == ((2, 2, 3, 1), (2, 2, 4, 3))
    assert found.loads == (5, 9, 1, 5) and found.period == 9
    assert found.notes == (
        "layer 2 feeds layer 3 first, but stage 3 starts with layer 3",
        "layer 2 on stage 2 moves work to stage 4, which is not the next",
        "stage 2 takes 9 cycles, more than the target 5",
        "target 5 cycles after 0 restarts",
    )
    assert not verify_optimal(found)


def test_restarts_are_bounded():
    costs = chain([1000, 1], [0, 0])
    found = algorithm1(costs, 2, mode="strict", alpha=1.5)
    assert found.loads == (1001,) and found.notes[-1] == "target 1001 cycles after 2 restarts"


def test_paths_of_the_certificate():
    even = optimal(chain([4, 2], [0, 2]), 2).certificate
    assert (even.period, even.binding, even.average_bound) == (4, (1, 2, 2), 4)
    assert even.text == ("optimal: no plan of 2 processors beats 4 cycles: that is all work divided evenly; "
                         "from 2 processors on nothing helps (4 cycles)")
    held = optimal(chain([9, 1, 1], 0), 3).certificate
    assert (held.binding, held.saturates_at) == ((1, 1, 1), 2)
    assert "what cannot leave layer1 is shared by at most 1 stage; from 2 processors" in held.text
    searched = optimal(chain([3, 3, 3], 0), 2).certificate
    assert (searched.period, searched.binding, searched.saturates_at) == (6, None, 3)
    assert "an exact search met every smaller period with no plan" in searched.text


def test_numbers_beyond_64_bits_stay_exact():
    big = 2**60
    found = optimal(chain([big, big + 1, big, 1], [0, 0, 3, 0]), 4)
    assert found.loads == (big, big + 1, big + 1, 3) and found.moved == ((3, 3, 4, 2),)


def test_projection_and_last_convolution_move_together():
    # Layers 2 (a projection) and 3 both feed layer 4 first.
    costs = replace(chain([1, 1, 4, 4], [0, 4, 4, 0]), first_consumer=np.array([2, 4, 4, 5]),
                    shared_input=np.array([False, True, False, False]))
    both = optimal(costs, 2)
    assert (both.period, both.loads) == (9, (9, 9))
    one = optimal(costs, 2, residual="sum_site")
    assert (one.period, {m[0] for m in one.moved}) == (10, {3})


def test_a_shift_takes_the_delta_with_the_fewest_bytes_first():
    costs = chain([1, 1, 4, 4], [0, 4, 4, 0], weight_bytes=[1, 8, 80, 1])
    costs = replace(costs, first_consumer=np.array([2, 4, 4, 5]))
    assert optimal(costs, 2).moved == ((2, 1, 2, 4), (3, 1, 2, 1))


def test_threshold_fixes_deltas_with_many_weights():
    costs = chain([1, 1], [4, 0], weight_bytes=[9, 9])
    assert optimal(costs, 2, threshold=9).period == 3
    assert optimal(costs, 2, threshold=8).period == 5
    assert algorithm1(costs, 2, threshold=8).period == 5


def test_tiles_move_whole():
    costs = chain([1, 1], [4, 0])
    assert [optimal(costs, 2, granularity=n).period for n in (1, 2, 3, 4)] == [5, 3, Fraction(11, 3), 3]
    assert verify_optimal(optimal(costs, 2, granularity=np.array([3, 1])))
    assert optimal(costs, 2, granularity=[3, 1]).moved == ((1, 1, 2, Fraction(4, 3)),)


def test_a_slow_link_moves_the_cut():
    costs = chain([4, 4, 4], 0, output_bytes=[6, 100, 0])
    assert pipedream(costs, 3, bandwidth=math.inf).ends == (1, 2, 3)
    slow = pipedream(costs, 3, bandwidth=1)
    assert (slow.ends, slow.links, slow.period) == ((3,), (), 12)
    assert (pipedream(costs, 3, bandwidth=2).ends, pipedream(costs, 3, bandwidth=2).links) == ((1, 3), (6,))


def test_memory_counts_a_version_for_each_stage_to_the_end():
    costs = chain([4, 4, 4], 0, weight_bytes=10)
    assert pipedream(costs, 3, memory=30).ends == (1, 2, 3)
    assert pipedream(costs, 2, memory=20).ends == (1, 3)
    with pytest.raises(ValueError, match="no plan of at most 3 processors keeps every stage within the memory"):
        pipedream(costs, 3, memory=19)


def test_layers_divided_by_number():
    costs = chain([1] * 7, 0)
    assert [equal_layers(costs, p).ends for p in (1, 3, 7)] == [(7,), (3, 5, 7), (1, 2, 3, 4, 5, 6, 7)]


def test_communication_counts_both_ways():
    costs = chain([1, 1, 1, 1], [0, 4, 4, 0], weight_bytes=[1, 100, 200, 1], input_bytes=[8, 10, 30, 50],
                  output_bytes=[10, 30, 50, 1])
    by_hand = Plan("by hand", costs, 3, (2, 3, 4), ((2, 1, 2, 1), (3, 2, 3, 2)))
    paper, full = communication(by_hand), communication(by_hand, "full")
    assert (paper.mandatory, paper.additional, paper.total_mandatory) == ((60, 100), (25, 100), 160)
    # Layer 3 is alone on its stage: its result goes straight to stage 1, in place of part of the mandatory error.
    assert (full.weights, full.results, full.total_additional) == ((25, 100), (Fraction(5, 2), 0), Fraction(255, 2))


def test_a_moved_product_of_two_tensors_takes_its_operands_along():
    net = network("gpt2", sequence=4, layers=1, width=8, heads=2)
    found = costs_of(net, "8x8", batch=3)
    tensor = 3 * 4 * 8 * 4  # bytes of Q, K or V, and by chance of all scores
    assert found.weight_bytes[2:5].tolist() == [256, 0, 0]
    assert found.moved_bytes[2:5].tolist() == [256, 2 * tensor, 2 * tensor]
    half = int(found.delta[3]) // 2
    by_hand = Plan("by hand", found, 2, (4, 9), ((4, 1, 2, half),))
    assert check_plan(by_hand) == ()
    share = Fraction(half, int(found.delta[3]))
    assert communication(by_hand).additional == (share * 2 * tensor,)
    assert communication(by_hand, "full").additional == (2 * share * 2 * tensor,)
    assert movable(found, threshold=2 * tensor)[3] and not movable(found, threshold=2 * tensor - 1)[3]


def test_equal_periods_prefer_fewer_stages():
    assert optimal(chain([9, 1, 1, 1], 0), 4).ends == (1, 4)


def test_plans_are_the_same_every_time():
    rng = np.random.default_rng(5)
    costs = chain(rng.integers(1, 100, 40), rng.integers(1, 100, 40))
    plans = [optimal(costs, 9) for _ in range(3)]
    assert len({(p.ends, p.moved, p.period) for p in plans}) == 1


def test_a_large_chain():
    rng = np.random.default_rng(7)
    costs = chain(rng.integers(1, 1000, 400), rng.integers(1, 2000, 400))
    found = optimal(costs, 24)
    assert check_plan(found) == () and verify_optimal(found)
    assert found.period <= pipedream(costs, 24).period


# ---- Invariants

COSTS = st.integers(1, 9).flatmap(lambda n: st.tuples(*(st.lists(st.integers(0, 60), min_size=n, max_size=n),) * 3))


@settings(max_examples=120, deadline=None)
@given(COSTS, st.data())
def test_planners_are_ordered_and_lose_no_work(columns, data):
    costs = Costs.from_times(*columns, unit="cycles")
    processors = data.draw(st.integers(1, len(costs)))
    plans = {name: plan(costs, processors, name) for name in PLANNERS}
    plans |= {f"algorithm1 {a}": algorithm1(costs, processors, mode="strict", alpha=a) for a in (1.01, 1.5)}
    assert all(sum(p.loads) == costs.total for p in plans.values())
    best = plans.pop("optimal")
    assert best.period <= plans["pipedream"].period <= plans["equal_layers"].period
    for p in plans.values():
        if check_plan(p) == ():
            assert best.period <= p.period
    assert check_plan(plans["algorithm1 1.01"]) == ()
    assert max(best.certificate.average_bound, best.certificate.saturation_period) <= best.period
    assert best.certificate.period == best.period == max(best.loads)


@settings(max_examples=60, deadline=None)
@given(COSTS)
def test_more_processors_never_hurt_and_saturate_where_promised(columns):
    costs = Costs.from_times(*columns, unit="cycles")
    plans = [optimal(costs, p) for p in range(1, len(costs) + 1)]
    periods = [p.period for p in plans]
    assert periods == sorted(periods, reverse=True)
    for p in plans:
        certificate = p.certificate
        assert certificate.saturation_period == periods[-1]
        assert certificate.saturates_at == 1 + next(n for n, t in enumerate(periods) if t == periods[-1])
        if certificate.binding and certificate.binding[1] - certificate.binding[0] + 1 == certificate.binding[2]:
            a, b, stages = certificate.binding
            leaves = int(costs.delta[b - 1]) if b < len(costs) else 0
            assert Fraction(int(costs.work[a - 1 : b].sum()) - leaves, stages) == p.period


@settings(max_examples=200, deadline=None)
@given(st.fractions(0, 5, max_denominator=40), st.integers(1, 15))
def test_neighbours_among_fractions(number, denominators):
    all_of_them = sorted({Fraction(n, d) for d in range(1, denominators + 1) for n in range(-1, 6 * d + 1)})
    assert at_or_above(number, denominators) == next(f for f in all_of_them if f >= number)
    assert below(number, denominators) == [f for f in all_of_them if f < number][-1]


# ---- What is wrong with an input

FOUR = chain([1, 2, 3, 4], [0, 1, 1, 1])


@pytest.mark.parametrize("planner", PLANNERS)
@pytest.mark.parametrize("processors, message", [
    (5, "processors is 5, but there are only 4 layers and a stage holds at least one; give at most 4"),
    (0, "processors is 0; it must be a whole number from 1"),
    (-1, "processors is -1; it must be a whole number from 1"),
    (2.5, "processors is 2.5; it must be a whole number from 1"),
    (math.nan, "processors is nan; it must be a whole number from 1"),
    ("2", "processors is '2'; it must be a whole number from 1"),
    (True, "processors is True; it must be a whole number from 1"),
])
def test_wrong_numbers_of_processors(planner, processors, message):
    with pytest.raises(ValueError) as error:
        plan(FOUR, processors, planner)
    assert message in str(error.value)


@pytest.mark.parametrize("call, message", [
    (lambda: plan(FOUR, 2, "optimum"), "planner is 'optimum'; did you mean 'optimal'? Known: 'equal_layers'"),
    (lambda: algorithm1(FOUR, 2, mode="loose"), "mode is 'loose'; Known: 'paper', 'strict'"),
    (lambda: algorithm1(FOUR, 2, alpha=1), "alpha is 1; it must be a number above 1, such as 1.01"),
    (lambda: algorithm1(FOUR, 2, alpha=math.nan), "alpha is nan; it must be a number above 1"),
    (lambda: algorithm1(FOUR, 2, alpha=-(10**5000)), "alpha is a whole number of about 5001 digits; it must be"),
    (lambda: algorithm1(FOUR, 2, alpha=Fraction(10**20 + 1, 10**20)), "the target would be relaxed without end; give"),
    (lambda: algorithm1(FOUR, 2, alpha=1 + 1e-9), "alpha is 1.000000001; the target would be relaxed up to"),
    (lambda: optimal(FOUR, 2, residual="sum"), "residual is 'sum'; Known: 'consumer', 'sum_site'"),
    (lambda: optimal(FOUR, 2, threshold=-1), "threshold is -1; it must be a number of bytes from 0"),
    (lambda: optimal(FOUR, 2, threshold=math.nan), "threshold is nan; it must be a number of bytes from 0"),
    (lambda: optimal(FOUR, 2, bandwidth=0), "bandwidth is 0; it must be a number of bytes per unit of time above 0"),
    (lambda: pipedream(FOUR, 2, bandwidth="fast"), "bandwidth is 'fast'; it must be a number"),
    (lambda: pipedream(FOUR, 2, memory=0), "memory is 0; it must be a number of bytes above 0"),
    (lambda: optimal(FOUR, 2, granularity=[1, 2]), "granularity has shape (2,); give one number of tiles for each"),
    (lambda: optimal(FOUR, 2, granularity=2**64), "granularity is 18446744073709551616; it must be a whole number"),
    (lambda: optimal(FOUR, 2, granularity=[None] * 4), "granularity is None; it must be a whole number from 1"),
    (lambda: optimal(FOUR, 2, granularity={}), "granularity is {}; it must be a whole number from 1"),
    (lambda: optimal(FOUR, 2, granularity=[[1], [2, 3]]), "granularity has shape (2,); give one number of tiles"),
    (lambda: optimal(FOUR, 2, bandwidth=np.array([3, 3])), "bandwidth is [3, 3]; it must be a number of bytes"),
    (lambda: optimal(FOUR, 2, memory=-(10**5000)), "memory is a whole number of about 5001 digits; it must be"),
    (lambda: optimal(Costs.from_times([2e-310, 1e-310], 0, 0), 2), "add up to 3e-310 s; times below 1e-290 have lost"),
    (lambda: optimal(FOUR, 2, granularity=0), "granularity is 0; it must be a whole number from 1"),
    (lambda: communication(equal_layers(FOUR, 2), "half"), "accounting is 'half'; Known: 'paper', 'full'"),
    (lambda: Costs.from_times([], [], [], unit="cycles"), "there is no layer to cost"),
    (lambda: plan("vgg16", 4), "costs is 'vgg16'; it must be the costs of its layers: give lp.costs('vgg16')"),
    (lambda: plan(FOUR, 2, "optimal_graph"), "give lp.optimal_graph(lp.layer_graph(network, costs), 2)"),
])
def test_other_wrong_arguments(call, message):
    with pytest.raises(ValueError) as error:
        call()
    assert message in str(error.value)


def test_too_many_amounts_of_tiles_are_refused():
    costs = replace(chain([1, 1, 1, 1], [0, 4, 4, 0]), first_consumer=np.array([2, 4, 4, 5]))
    with pytest.raises(ValueError, match="the tiles of layers 2, 3, which move to the same stage, make more than"):
        optimal(costs, 2, granularity=2000)


@pytest.mark.parametrize("ends, moved, message", [
    ((2, 3), (), "the stage ends are (2, 3); they must not fall and must finish with 4"),
    ((3, 2, 4), (), "the stage ends are (3, 2, 4)"),
    ((1, 2, 4), (), "there are 3 stages for 2 processors"),
    ((2, 4), ((2, 1, 2, 3),), "layer 2 moves 3 of 1 delta work"),
    ((2, 4), ((2, 1, 2, -1),), "layer 2 moves -1 of 1 delta work"),
    ((2, 4), ((3, 1, 2, 1),), "layer 3 is on stage 2, but its work leaves stage 1"),
    ((2, 4), ((3, 2, 1, 1),), "layer 3 on stage 2 moves work to stage 1, which is not the next"),
    ((2, 4), ((99, 1, 2, 1),), "the move (99, 1, 2, 1) is none; it must be (layer from 1 to 4, from stage, to stage"),
    ((2, 4), ((0, 1, 2, 1),), "the move (0, 1, 2, 1) is none"),
    ((2, 4), ((2, 9, 2, 1),), "the move (2, 9, 2, 1) is none"),
    ((2, 4), ((2, 1, 99, 1),), "the move (2, 1, 99, 1) is none"),
    ((2, 4), ((2, 1, 2, "x"),), "the move (2, 1, 2, 'x') is none"),
    ((2, 4), ((2, 1, 2, math.nan),), "layer 2 moves nan of 1 delta work"),
    ((2, 4), (5,), "the move 5 is none"),
    (3, (), "the stage ends are 3; they must not fall"),
    ((2.5, 4), (), "the stage ends are (2.5, 4); they must not fall"),
    ((3, 4), ((2, 1, 2, 1),), "layer 2 feeds layer 3 first, but stage 2 starts with layer 4"),
])
def test_plans_that_may_not_be_run(ends, moved, message):
    by_hand = Plan("by hand", FOUR, 2, ends, moved)
    assert any(message in problem for problem in check_plan(by_hand))
    assert not verify_optimal(by_hand)


LONG = pytest.param(10**5000, id="long")  # Python writes no number of so many digits
SIZED = chain([4, 2, 2, 3], [0, 1, 2, 3], weight_bytes=2 * 10**9, input_bytes=10**9, output_bytes=10**9)


@pytest.mark.parametrize("option, value", [("bandwidth", 10**9), ("memory", 2 * 10**9 + 10**9), ("threshold", 10**9)])
@pytest.mark.parametrize("kind", [np.int64, np.uint64, np.float32, np.float64, np.longdouble])
def test_numbers_of_numpy_count_as_those_of_python(option, value, kind):
    memory = {"memory": value * 10} if option == "memory" else {option: value}
    ours, theirs = optimal(SIZED, 3, **memory), optimal(SIZED, 3, **{option: kind(memory[option])})
    assert (ours.period, ours.ends, ours.moved) == (theirs.period, theirs.ends, theirs.moved)
    assert verify_optimal(theirs)


@pytest.mark.parametrize("option", ["bandwidth", "memory", "threshold"])
@pytest.mark.parametrize("most", [LONG, Fraction(10**5000, 3), math.inf])
@pytest.mark.parametrize("unit", ["cycles", "s"])
def test_options_larger_than_any_float(option, most, unit):
    costs = replace(SIZED, unit=unit)
    free, limited = optimal(costs, 3), optimal(costs, 3, **{option: most})
    assert (free.period, free.ends) == (limited.period, limited.ends) and verify_optimal(limited)


@pytest.mark.parametrize("alpha", [8, 1e300, LONG, Fraction(10**5000), np.int64(8)])
@pytest.mark.parametrize("mode", ["paper", "strict"])
def test_a_large_alpha_gives_one_processor_everything_at_the_first_restart(alpha, mode):
    made = algorithm1(chain([3, 3, 1, 5], 0), 4, mode=mode, alpha=alpha)
    assert made.loads == (12,) and made.notes[-1] == "target 12 cycles after 1 restarts"


def test_memory_beyond_64_bits():
    costs = chain([4, 2, 2], [0, 1, 1], weight_bytes=2**62, input_bytes=2**62)
    with pytest.raises(ValueError, match="no plan of at most 2 processors keeps every stage within the memory"):
        pipedream(costs, 2, memory=2**64 - 1)
    assert pipedream(costs, 2, memory=2**64).ends == (1, 3)
    enough = optimal(costs, 2, memory=2**65)
    assert enough.period == optimal(costs, 2).period and verify_optimal(enough)


@pytest.mark.parametrize("scale", [1e-289, 1e-280, 1e280, 1e306])
def test_very_small_and_very_large_times(scale):
    work, delta = np.array([4, 2, 2, 3]), np.array([0, 1, 2, 3])
    found = optimal(Costs.from_times(scale * work, 0, scale * delta), 2)
    assert float(found.period) / scale == pytest.approx(float(optimal(chain(work, delta), 2).period), rel=1e-12)
    assert verify_optimal(found)


@pytest.mark.parametrize("unit", ["cycles", "s"])
def test_no_plan_beats_one_without_work(unit):
    assert verify_optimal(optimal(Costs.from_times([0, 0, 0], 0, 0, unit=unit), 2))
