"""The whole Fig. 8 sweep, and thousands of readings at once, as ratios in one run.

    python benchmarks/bench_sweep.py

Prints measured time, limit and ratio; exit status 1 if a limit is missed. Times are CPU seconds of one process.
"""

import sys
import time

import numpy as np

import lpkit as lp
from lpkit.periods import optimal_periods

LIMIT = 3.0  # seconds for 2 networks x 4 arrays x 5 batches x 11 processor counts x 4 planners


def seconds(work):
    """CPU seconds of `work()`, and what it returns."""
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def main():
    lp.plan(lp.costs("sample4"), 2)  # imports and first calls are not what is measured
    took, rows = seconds(lambda: lp.sweep(["vgg16", "resnet50"], planners=list(lp.PLANNERS), reading="closest"))
    print(f"Fig. 8 sweep, {len(rows)} plans: {took:.2f} s, limit {LIMIT:.0f} s, {LIMIT / took:.1f} times inside it")
    again, _ = seconds(lambda: lp.sweep(["vgg16", "resnet50"], planners=list(lp.PLANNERS), reading="closest"))
    print(f"the same again, remembered: {again:.3f} s, {took / again:.0f} times faster")
    rng = np.random.default_rng(1)
    fixed, delta = np.ceil(rng.lognormal(8, 1, (2, 200, 54)))
    chains = [lp.Costs.from_times(f, 0, d, unit="cycles") for f, d in zip(fixed, delta)]
    at_once, periods = seconds(lambda: optimal_periods(fixed + delta, delta, 12, precision=1e-5))
    one_by_one, exact = seconds(lambda: [[float(lp.plan(c, k).period) for k in range(1, 13)] for c in chains])
    assert np.allclose(periods, exact, rtol=1e-5)
    print(f"{len(chains)} chains x 12 processor counts: {at_once:.2f} s at once, {one_by_one:.2f} s one by one, "
          f"{one_by_one / at_once:.1f} times faster to 5 digits")
    return int(took > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
