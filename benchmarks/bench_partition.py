"""How fast the exact planner is: against limits, against the pedestrian dynamic programme, and against HiGHS.

    python benchmarks/bench_partition.py

Limits and ratios of one run count, not the times. Exit status 1 if a bar is missed. Peak memory is that of the process
after the largest plan.
"""

import resource
import sys
import time
from fractions import Fraction

import numpy as np
from scipy.optimize import LinearConstraint, milp

from lpkit.costs import Costs
from lpkit.partition import check_plan, optimal

SIZES = [(54, 12, 0.005), (1_000, 32, 0.100), (10_000, 1_000, 5.0)]  # layers, processors, seconds
MEMORY_MOST = 300  # MB
PEDESTRIAN_LEAST = 5  # times as fast as the pedestrian programme, 240 layers on 12 processors
MILP_LEAST = 20  # times as fast as HiGHS, 8 layers on 4 processors


def random_chain(layers, seed):
    columns = np.random.default_rng(seed).integers(1_000, 10_000_000, (3, layers))
    return Costs.from_times(*columns, unit="cycles")


def best_of(repeats, function, *arguments):
    """Shortest time of some calls in seconds, and the last result."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = function(*arguments)
        times.append(time.perf_counter() - start)
    return min(times), result


def pedestrian(costs, processors):
    """Least period to 1e-12 by bisection over the plain programme: every stage of every length, all cuts each time."""
    work, delta, L = costs.work.tolist(), costs.delta.tolist(), len(costs)
    before = [0]
    for w in work:
        before.append(before[-1] + w)

    def fits(period):
        spare = [-1.0] * L + [0.0]
        for _ in range(processors):
            lower = list(spare)
            for i in range(L):
                for j in range(i + 1, L + 1):
                    load = before[j] - before[i]
                    cap = delta[j - 1] if j < L else 0
                    if load - cap > period:
                        break
                    if spare[j] >= 0:
                        lower[i] = max(lower[i], period - load + min(cap, spare[j]))
            spare = lower
        return spare[0] >= 0

    low, high = 0.0, float(before[-1])
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def by_milp(costs, processors):
    """Least period by a mixed-integer programme: cuts as binaries, shifts as amounts."""
    F, D, L, P = (costs.F + costs.G).tolist(), costs.delta.tolist(), len(costs), processors
    on, may, part = (np.arange(L * P).reshape(L, P) + n * L * P for n in range(3))
    rows, low, high, period = [], [], [], 3 * L * P

    def require(terms, least, most):
        rows.append(np.zeros(period + 1))
        for column, factor in terms:
            rows[-1][column] += factor
        low.append(least)
        high.append(most)

    for n in range(L):
        require([(on[n, k], 1) for k in range(P)], 1, 1)
        require([(part[n, k], 1) for k in range(P)], D[n], D[n])
        for k in range(P):
            require([(part[n, k], 1), (on[n, k], -D[n]), (may[n, k], -D[n])], -np.inf, 0)
            require([(may[n, k], 1), *([(on[n, k - 1], -1)] if k else [])], -np.inf, 0)
            require([(may[n, k], 1), *([(on[n + 1, k], -1)] if n + 1 < L else [])], -np.inf, 0)
    for n in range(L - 1):
        require([(on[n + 1, k], k) for k in range(P)] + [(on[n, k], -k) for k in range(P)], 0, 1)
    for k in range(P):
        load = [*((on[n, k], -F[n]) for n in range(L)), *((part[n, k], -1) for n in range(L))]
        require([(period, 1), *load], 0, np.inf)
    result = milp(np.eye(period + 1)[period], integrality=np.r_[np.ones(2 * L * P), np.zeros(L * P + 1)],
                  bounds=(0, np.r_[np.ones(2 * L * P), np.full(L * P + 1, np.inf)]), options={"mip_rel_gap": 1e-9},
                  constraints=LinearConstraint(np.array(rows), low, high))
    return result.fun


def report(what, value, bar, unit, higher_is_better):
    met = value >= bar if higher_is_better else value <= bar
    print(f"{what:58} {value:10.3f} {unit:6} bar {bar:g}, {value / bar:.2f} of it{'' if met else '   MISSED'}")
    return met


def main():
    met = []
    for layers, processors, limit in SIZES:
        chain = random_chain(layers, 0)
        seconds, found = best_of(20 if layers < 100 else 5 if layers < 5_000 else 1, optimal, chain, processors)
        assert check_plan(found) == ()
        met.append(report(f"optimal, {layers} layers on {processors} processors", 1e3 * seconds, 1e3 * limit, "ms",
                          False))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    met.append(report("peak memory of the process", peak, MEMORY_MOST, "MB", False))

    chain = random_chain(240, 1)
    own, found = best_of(5, optimal, chain, 12)
    peer, period = best_of(1, pedestrian, chain, 12)
    assert abs(period - float(found.period)) <= 1e-9 * period
    met.append(report("times as fast as the pedestrian programme (240 on 12)", peer / own, PEDESTRIAN_LEAST, "x", True))

    scaled = random_chain(8, 2)
    chain = Costs.from_times(*(np.rint(c / 1e5) for c in (scaled.F, scaled.G, scaled.delta)), unit="cycles")
    own, found = best_of(20, optimal, chain, 4)
    peer, period = best_of(1, by_milp, chain, 4)
    assert abs(Fraction(period) - found.period) <= 1e-6 * period
    met.append(report("times as fast as HiGHS (8 layers on 4 processors)", peer / own, MILP_LEAST, "x", True))
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
