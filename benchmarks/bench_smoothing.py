"""How fast the optimisers are: 100 steps of 25 settings with 100 samples each, in 100 dimensions.

    python benchmarks/bench_smoothing.py

Printed is also the ratio to the bare matrix products of the 250,000 subgradients, in one run. Times are CPU seconds on
one core (unless OMP_NUM_THREADS says otherwise: on matrices of this size a second one mostly waits), the best of
several runs that take turns. Exit status 1 if the limit is missed.
"""

import os
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from lpkit.auto_pprs import auto_pprs
from lpkit.baselines import adam, decaying_gd
from lpkit.problems import random_max_affine
from lpkit.smoothing import gd, pprs

LIMIT = 1.0  # seconds, in either precision
STEPS, K, ROWS, D = 100, 100, 200, 100
RATES, WIDTHS = np.logspace(-2, 0, 5), np.logspace(-3, -1, 5)


def products(dtype):
    """The matrix products alone, at one set of points."""
    points = np.random.default_rng(0).standard_normal((256, D)).astype(dtype)
    slopes = np.random.default_rng(1).standard_normal((D, ROWS)).astype(dtype)
    for _ in range(STEPS * K * RATES.size * WIDTHS.size // len(points)):
        points @ slopes


def seconds(work):
    """CPU seconds of `work()`."""
    start = time.process_time()
    work()
    return time.process_time() - start


def main():
    problem = random_max_affine(D, ROWS)

    def grid(dtype):
        return pprs(problem, STEPS, K=K, lr=RATES[:, None], gamma=WIDTHS, mu="nesterov", dtype=dtype)

    ways = {f"{name}, {dtype}": lambda work=work, dtype=dtype: work(dtype)
            for dtype in ("float32", "float64")
            for name, work in (("25 settings", grid), ("products alone", products))}  # fmt: skip
    ways |= {"gd, 25 settings": lambda: gd(problem, STEPS, lr=np.repeat(RATES, 5)),
             "decaying gd, 25 settings": lambda: decaying_gd(problem, STEPS, lr=np.repeat(RATES, 5)),
             "adam, 25 settings": lambda: adam(problem, STEPS, lr=np.repeat(RATES, 5)),
             "auto pprs, depth 200": lambda: auto_pprs(problem, STEPS, depth=200)}  # fmt: skip
    best = dict.fromkeys(ways, np.inf)
    for _ in range(3):
        for name, way in ways.items():
            best[name] = min(best[name], seconds(way))
    for name, took in best.items():
        print(f"{name:30} {took:8.3f} s")
    for dtype in ("float32", "float64"):
        ratio = best[f"25 settings, {dtype}"] / best[f"products alone, {dtype}"]
        print(f"{dtype}: {ratio:.1f} times the bare products")
    met = all(best[f"25 settings, {dtype}"] <= LIMIT for dtype in ("float32", "float64"))
    print(f"limit {LIMIT:g} s{'' if met else '   MISSED'}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
