"""Input gradients of AlexNet for CIFAR-10, batch 100: numpy alone, and as a ratio to PyTorch where it is installed.

    python benchmarks/bench_alexnet.py

Prints gradients per second, the best of several runs that take turns, and the limits; exit status 1 if one is missed.
The limit in gradients per second is for two idle cores.
"""

import os
import sys
import time

import numpy as np

from lpkit.image_network import CIFAR10_DEVIATION, CIFAR10_MEAN, trained_alexnet
from lpkit.interop.torch_problem import from_torch, to_torch

LIMIT = 700  # gradients per second
RATIO = 1 / 5  # of PyTorch's speed
BATCH, RUNS = 100, 20


def seconds(net, images):
    """Wall-clock seconds of one batch of gradients."""
    start = time.perf_counter()
    net.scores_and_gradient(images, np.ones_like)
    return time.perf_counter() - start


def main():
    images = np.random.default_rng(0).random((BATCH, 3, 32, 32), dtype=np.float32)
    nets = {"numpy": trained_alexnet()}
    try:
        module = to_torch(nets["numpy"].network, nets["numpy"].parameters)
        nets["torch"] = from_torch(module, mean=CIFAR10_MEAN, deviation=CIFAR10_DEVIATION)
    except ValueError as error:
        print(error)
    best = dict.fromkeys(nets, np.inf)
    for _ in range(RUNS):
        for name, net in nets.items():
            best[name] = min(best[name], seconds(net, images))
    speed = {name: BATCH / took for name, took in best.items()}
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    for name, found in speed.items():
        print(f"{name}: {found:,.0f} gradients a second (load of the machine {load:.1f})")
    print(f"limit for numpy: {LIMIT}")
    ratio = speed["numpy"] / speed.get("torch", speed["numpy"])
    print(f"numpy is {ratio:.2f} as fast as torch, limit {RATIO:.2f}" if "torch" in speed else "no ratio without torch")
    return int(speed["numpy"] < LIMIT or ratio < RATIO)


if __name__ == "__main__":
    sys.exit(main())
