"""Layers that stay together, processors of unequal speed and replicated stages, against every plan there is."""

import itertools
import math
import time
from fractions import Fraction

import numpy as np
import pytest
from test_partition import chain, random_costs, stage_amounts

from lpkit.chains import movable
from lpkit.partition import Plan, check_plan, communication, optimal, pipedream, verify_optimal


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
                  for end, pair in zip(ends, zip(replicas, replicas[1:]))]  # fmt: skip
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
