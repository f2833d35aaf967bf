"""One function a claim of the PPRS paper about its model, its bounds and convex problems: to a number.

No reading of costs enters: the argument is there for the ledger. Bounds are those of `lpkit.rates`, whose constants are
derived and not the paper's, so that what is measured is how they grow. The convex problems are five random max-affine
functions (d = 100, 200 rows, L = R = 1) for which no parameter but the best of a grid is chosen with an eye on time.
"""

from functools import cache
from itertools import product

import numpy as np
import pandas as pd

from lpkit import rates
from lpkit.convex_trials import (
    errors_and_bounds, fastest, random_trial, smooth_iterations, trial_times,
)  # fmt: skip
from lpkit.hard_functions import l1_chain, smooth_chain
from lpkit.image_network import alexnet_cifar10
from lpkit.pipeline_time import bubbling, chain_timeline, depth_of, pipeline_time
from lpkit.pprs_models import chain_of, network_graph, random_graph, simulated_bounds
from lpkit.problems import random_max_affine

__all__ = []  # used through the ledger: `lpkit.claims`

SEEDS = range(5)
SAMPLES = (1, 2, 10, 100)
DEPTHS = (1, 2, 5, 10, 20, 50, 100, 200)
GRID = tuple(product((1, 2, 10, 100), (1, 2, 20, 200)))  # K of the paper (and 1) by Delta of the paper (and 1, 2)


# Graphs and bubbling


def graph_makespan(read):
    """Share of graphs and K where K gradients, pass by pass, take exactly 2(K + Delta - 1) whatever the width."""
    graphs = [network_graph(alexnet_cifar10()), *map(chain_of, (1, 4, 20)), *map(random_graph, range(20))]
    return float(np.mean([bubbling(graph, K).makespan == pipeline_time(1, K, depth_of(graph))
                          for graph in graphs for K in SAMPLES]))  # fmt: skip


def bubbling_time(read):
    """Share of K and Delta where the schedule of a step, operation by operation, takes 2(K + Delta - 1)."""
    return float(np.mean([chain_timeline(K, depth).makespan == pipeline_time(1, K, depth) for K, depth in GRID]))


def bubbling_flat(read):
    """Largest time of K samples at Delta = K over that at Delta = 1."""
    return max(chain_timeline(K, K).makespan / chain_timeline(K, 1).makespan for K in SAMPLES)


def bubbling_speedup(read):
    """Least share of Delta by which K = 10 Delta samples in a pipeline are faster than one at a time."""
    return min(10 * depth * chain_timeline(1, depth).makespan / chain_timeline(10 * depth, depth).makespan / depth
               for depth in (2, 5, 20))  # fmt: skip


# Bounds


SMALL = np.logspace(-12, -9, 4)  # eps so small that what the bounds round or subtract no longer counts
DEEP = np.array([2, 20, 200])[:, None]


def _spread(upper, lower):
    """Largest over smallest ratio of two bounds."""
    ratio = upper / lower
    return float(ratio.max() / ratio.min())


def smooth_convex_ratio(read):
    return _spread(rates.naive_smooth(SMALL, depth=DEEP), rates.smooth_lower(SMALL, depth=DEEP))


def smooth_nonconvex_ratio(read):
    return _spread(rates.naive_nonconvex(SMALL, depth=DEEP), rates.nonconvex_lower(SMALL, depth=DEEP))


def _slope(x, y):
    """Exponent of y in x, by least squares on logarithms."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def dimension_exponent(read):
    """Exponent of d in the ratio of PPRS's bound to the lower bound, where depth dominates both."""
    d, depth = np.logspace(2, 8, 7), 1e12
    return _slope(d, rates.pprs_upper(1e-6, dimension=d, depth=depth) / rates.nonsmooth_lower(1e-6, depth=depth))


def shallow_factor(read):
    """Share of d for which that ratio is the same, within 1 %, where depth does not count: Delta = 2, eps small."""
    ratio = rates.pprs_upper(1e-9, dimension=np.logspace(2, 8, 7), depth=2) / rates.nonsmooth_lower(1e-9, depth=2)
    return float((abs(ratio / ratio[0] - 1) < 0.01).mean())


def precision_exponent(read):
    """Exponent of 1/eps in PPRS's bound at Delta = 20, as eps falls."""
    return _slope(1 / SMALL, rates.pprs_upper(SMALL, dimension=100, depth=20))


def depth_term_exponent(read):
    """Exponent of 1/eps in what PPRS's bound grows by from Delta = 20 to 200."""
    return _slope(1 / SMALL, rates.pprs_upper(SMALL, dimension=100, depth=200)
                  - rates.pprs_upper(SMALL, dimension=100, depth=20))  # fmt: skip


def near_linear_bound(read):
    """Exponent of Delta, from 20 to 200, in the bound of subgradient descent over that of PPRS, eps small."""
    depth = np.array([20, 200])
    return _slope(depth, rates.naive_nonsmooth(1e-9, depth=depth) / rates.pprs_upper(1e-9, dimension=100, depth=depth))


def near_linear_share(read):
    """That ratio over Delta, at Delta = 200."""
    return float(rates.naive_nonsmooth(1e-9, depth=200) / rates.pprs_upper(1e-9, dimension=100, depth=200) / 200)


LOWER = {"smooth convex": rates.smooth_lower, "non-convex": rates.nonconvex_lower,
         "non-smooth, depth": lambda eps, *, depth: depth * np.maximum(1 / (2 * eps) - 2, 0),
         "non-smooth, sampling": lambda eps, *, depth: rates.nonsmooth_lower(eps, depth=1)}  # fmt: skip


def lower_bounds_hold(read):
    """Share of runs of the memory model in which what beats eps comes no sooner than the lower bound says."""
    rows = pd.concat([simulated_bounds(depth, (2, 5, 9)) for depth in (2, 20)])
    met = [slots >= LOWER[name](eps * (1 - 1e-9), depth=depth) - 1e-6
           for name, depth, _, eps, slots in rows.itertuples(index=False)]  # fmt: skip
    return float(np.mean(met))


def bound_depth_growth(read):
    """PPRS's bound at Delta = 200 over that at 20, eps small."""
    return float(rates.pprs_upper(1e-9, dimension=100, depth=200) / rates.pprs_upper(1e-9, dimension=100, depth=20))


# Finite sums


def gpipe_time(read):
    """Share of m and Delta where m gradients in GPipe take 2(m + Delta - 1) slots and one at a time 2 m Delta."""
    both = [(chain_timeline(m, depth).makespan == 2 * (m + depth - 1),
             pipeline_time(m, 1, depth, how="schedule") == 2 * m * depth) for m, depth in GRID]  # fmt: skip
    return float(np.mean([all(pair) for pair in both]))


def _erm_wins(far_m, far_d):
    """Share of a grid with m <= Delta / far_m and d <= (RL/eps)^4 / far_d where PPRS's bound is below GPipe's."""
    eps, d, m, depth = np.meshgrid(np.logspace(-1, -4, 7), 10.0 ** np.arange(1, 9), 10.0 ** np.arange(5),
                                   10.0 ** np.arange(1, 7), indexing="ij")  # fmt: skip
    chosen = (m <= depth / far_m) & (d <= eps**-4 / far_d)
    wins = rates.pprs_upper(eps, dimension=d, depth=depth, m=m) < rates.gpipe_erm(eps, depth=depth, m=m)
    return float(wins[chosen].mean())


def erm_below(read):
    return _erm_wins(1.001, 1.001)


def erm_far_below(read):
    return _erm_wins(100, 1000)


def erm_many_examples(read):
    """Share of a grid with m >= Delta where GPipe's bound is below PPRS's."""
    eps, d, m, more = np.meshgrid(np.logspace(-1, -4, 7), 10.0 ** np.arange(1, 9), 10.0 ** np.arange(1, 6),
                                  [1, 10, 100], indexing="ij")  # fmt: skip
    depth = np.maximum(m / more, 1)
    return float((rates.gpipe_erm(eps, depth=depth, m=m) < rates.pprs_upper(eps, dimension=d, depth=depth, m=m)).mean())


# Convex problems


@cache
def times():
    """Slots of gradient descent and PPRS, tuned: one row a seed, precision and depth."""
    return pd.concat([fastest(random_trial(seed).tuned, DEPTHS).assign(seed=seed) for seed in SEEDS])


def _at(depth):
    return times()[times()["Delta"] == depth]


def proved_bound_holds(read):
    """Share of runs with the theorem's parameters whose error is at most the proved bound on its mean."""
    problems = [random_max_affine(16, 32, R=3.0), random_max_affine(100, 200), l1_chain(25, L=2.0)]
    rows = pd.concat([errors_and_bounds(problem, (2, 10, 100), seeds=len(SEEDS)) for problem in problems])
    return float((rows["error"] <= rows["bound"]).mean())


def convex_faster_20(read):
    return float((_at(20)["speedup"] > 1).mean())


def convex_faster_200(read):
    return float((_at(200)["speedup"] > 1).mean())


def convex_speedup_200(read):
    return float(_at(200)["speedup"].mean())


def convex_depth_growth(read):
    """How many times longer PPRS takes at Delta = 200 than at 20: mean over seeds and precisions."""
    return float((_at(200)["pprs"].to_numpy() / _at(20)["pprs"].to_numpy()).mean())


def best_samples_grow(read):
    """Share of seeds and precisions for which the best K never falls as Delta grows, and is larger at 200 than at 1."""
    groups = [group["K"].to_numpy() for _, group in times().groupby(["seed", "eps"])]
    return float(np.mean([(np.diff(K) >= 0).all() and K[-1] > K[0] for K in groups]))


def theorem_speedup_200(read):
    """Time of subgradient descent over that of PPRS at Delta = 200, both with the parameters of their theorems."""
    found = pd.concat([fastest(random_trial(seed).proved, [200]) for seed in SEEDS])
    return float(found["speedup"].mean())


def smooth_gains_nothing(read):
    """Share of K, gamma and depths for which PPRS is no sooner at a precision than K = 1, gamma = 0: a smooth chain."""
    timed = trial_times(smooth_iterations(smooth_chain(99), 1e-3), (20, 200))
    alone = timed[timed["method"] == "agd"].set_index("Delta")["slots"]
    ours = timed[timed["method"] == "pprs"]
    return float((ours["slots"].to_numpy() >= alone[ours["Delta"]].to_numpy()).mean())
