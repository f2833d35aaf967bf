"""Closed-form costs of a 100-layer transformer on a thousand array shapes: one call against a plain loop.

    python benchmarks/bench_transformer.py

The ratio of one run counts, not the times. Exit status 1 if a bar is missed or a number differs.
"""

import argparse
import sys
import time
import tracemalloc

import numpy as np

from lpkit.costs import work_grid
from lpkit.networks import network
from lpkit.products import gemms
from lpkit.systolic import OPS, Array, report

BLOCKS = 100  # of eight products each
SIDES = [4 * n for n in range(1, 33)]
ARRAYS = [Array(rows, columns) for rows in SIDES for columns in SIDES][:1000]
BATCH = 8
MOST = 1.0  # CPU seconds of the one call
LEAST = 10  # times as fast as the loop
SOME = 20  # of the arrays are enough for the loop, which takes as long on each


def seconds(work, repeats=1):
    """Smallest CPU time of `work()`, and what it returns."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        result = work()
        times.append(time.process_time() - start)
    return min(times), result


def loop(net, arrays):
    """F, G and delta of every layer on each array, one product at a time in plain Python, shape (3, arrays, layers)."""
    products = [[gemms(layer, op, batch=BATCH) for layer in net.layers] for op in OPS]
    return [[[sum(g.count * -(-g.K // a.rows) * -(-g.N // a.columns) * (2 * a.rows + a.columns + g.M - 2) for g in of)
              for of in layers] for a in arrays] for layers in products]


def bench_costs(net):
    def at_once():
        return np.array(work_grid(net, ARRAYS, [BATCH], first_layer_delta=True))[:, :, 0]

    some = ARRAYS[:: len(ARRAYS) // SOME]
    ours, found = seconds(at_once, 5)
    theirs, expected = seconds(lambda: loop(net, some), 3)
    theirs *= len(ARRAYS) / len(some)
    equal = np.array_equal(found[:, :: len(ARRAYS) // SOME], expected)
    tracemalloc.start()
    at_once()
    peak = tracemalloc.get_traced_memory()[1]
    print(f"{net.name} of {BLOCKS} blocks ({len(net.layers)} products) on {len(ARRAYS)} arrays, {found.size:,} costs: "
          f"{ours:.2f} s in one call (limit {MOST:.0f} s, {peak / 2**20:.0f} MB), a plain loop {theirs:.1f} s, "
          f"{theirs / ours:.0f} times faster, {'equal' if equal else 'NOT EQUAL'}")
    return equal and ours <= MOST and theirs / ours >= LEAST


def bench_report(net):
    """What SCALE-Sim prints of all forward products on one array: arrays in, arrays out."""
    sizes = np.array([(g.M, g.K, g.N) for layer in net.layers for g in gemms(layer, "F")]).T
    at_once, one = seconds(lambda: report(*sizes, ARRAYS[-1]), 20)
    one_by_one, several = seconds(lambda: [report(*size, ARRAYS[-1]).total_cycles for size in sizes.T], 3)
    equal = one.total_cycles.tolist() == [int(total) for total in several]
    print(f"report of {sizes.shape[1]} products on one array: {1e3 * at_once:.2f} ms in one call, "
          f"{one_by_one / at_once:.0f} times faster than one by one, {'equal' if equal else 'NOT EQUAL'}")
    return equal


def main():
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    net = network("gpt2", layers=BLOCKS)
    passed = bench_costs(net)
    return 0 if bench_report(net) and passed else 1


if __name__ == "__main__":
    sys.exit(main())
