"""The executor of data-flow graphs against a hand-written loop of SGD on the same numerics: LeNet-5 on digits.

    python benchmarks/bench_training.py

Prints samples per second of each, their ratio and the limit; exit status 1 if the limit is missed. Times are CPU
seconds of one process, the best of several runs that take turns; set OMP_NUM_THREADS=1 for one core.
"""

import sys
import time

import numpy as np

from lpkit.backprop import backprop_dfg
from lpkit.datasets import digits, minibatches
from lpkit.networks import lenet5
from lpkit.numerics import (
    bias_G, conv_delta, conv_forward, conv_G, dense_delta, dense_forward, dense_G, pool_backward, pool_forward,
    softmax_cross_entropy,
)  # fmt: skip
from lpkit.operations import Conv, Pool
from lpkit.stale import compare_methods, pipelined
from lpkit.training import initial_parameters, train

LIMIT = 1 / 3  # of the speed of the plain loop
SECONDS = 10  # of the default experiment
STEP = 0.05
POOL = Pool(2, kind="average")
CONVS = (Conv(6, 5), Conv(16, 5))


def plain_sgd(parameters, batches):
    """LeNet-5 by hand: losses, and the parameters at the end."""
    (W1, b1), (W2, b2), (W3, b3), (W4, b4), (W5, b5) = parameters
    losses = []
    for x, labels in batches:
        a1 = np.tanh(conv_forward(W1, x, CONVS[0]) + b1[:, None, None])
        p1, _ = pool_forward(a1, POOL)
        a2 = np.tanh(conv_forward(W2, p1, CONVS[1]) + b2[:, None, None])
        p2, _ = pool_forward(a2, POOL)
        flat = p2.reshape(len(p2), -1)
        a3 = np.tanh(dense_forward(W3, flat) + b3)
        a4 = np.tanh(dense_forward(W4, a3) + b4)
        loss, d5 = softmax_cross_entropy(dense_forward(W5, a4) + b5, labels)
        losses.append(loss)
        d4 = dense_delta(W5, d5) * (1 - a4 * a4)
        d3 = dense_delta(W4, d4) * (1 - a3 * a3)
        d2 = pool_backward(dense_delta(W3, d3).reshape(p2.shape), None, POOL, a2.shape[1:]) * (1 - a2 * a2)
        d1 = pool_backward(conv_delta(W2, d2, CONVS[1], p1.shape[1:]), None, POOL, a1.shape[1:]) * (1 - a1 * a1)
        W1, b1 = W1 - STEP * conv_G(d1, x, CONVS[0]), b1 - STEP * bias_G(d1)
        W2, b2 = W2 - STEP * conv_G(d2, p1, CONVS[1]), b2 - STEP * bias_G(d2)
        W3, b3 = W3 - STEP * dense_G(d3, flat), b3 - STEP * bias_G(d3)
        W4, b4 = W4 - STEP * dense_G(d4, a3), b4 - STEP * bias_G(d4)
        W5, b5 = W5 - STEP * dense_G(d5, a4), b5 - STEP * bias_G(d5)
    return np.array(losses), ((W1, b1), (W2, b2), (W3, b3), (W4, b4), (W5, b5))


def seconds(work):
    """CPU seconds of `work()`, and what it returns."""
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def main():
    network, batches = lenet5(), minibatches(digits(size=32), batch=32)
    start = initial_parameters(network, seed=0)
    ways = {
        "plain numpy SGD": lambda: plain_sgd(start, batches),
        "executor, sequential": lambda: train(backprop_dfg(5), network, batches, parameters=start, step_size=STEP),
        "executor, retimed": lambda: train(pipelined(5), network, batches, parameters=start, step_size=STEP),
    }
    best, results = dict.fromkeys(ways, np.inf), {}
    for _ in range(3):
        for name, way in ways.items():
            took, results[name] = seconds(way)
            best[name] = min(best[name], took)
    by_hand, sequential = results["plain numpy SGD"], results["executor, sequential"]
    assert np.array_equal(by_hand[0], sequential.losses)
    assert all(np.array_equal(a[0], b.W) for a, b in zip(by_hand[1], sequential.parameters, strict=True))
    samples = sum(len(labels) for _, labels in batches)
    ratios = {name: best["plain numpy SGD"] / took for name, took in best.items()}
    for name, took in best.items():
        print(f"{name}: {samples / took:,.0f} samples a second, {ratios[name]:.2f} of the loop, limit {LIMIT:.2f}")
    took, rows = seconds(compare_methods)
    print(f"default experiment, {len(rows)} rows: {took:.1f} s, limit {SECONDS} s")
    return int(min(ratios.values()) < LIMIT or took > SECONDS)


if __name__ == "__main__":
    sys.exit(main())
