"""Attack the frogs of CIFAR-10 with gd, agd and pprs, and write what came out as numbers, with their provenance.

    python scripts/record_frogs.py CIFAR10.npz [--out data/records] [--images 0 22 23] [--quick] [--automatic]

CIFAR10.npz holds training images without loss (`x_train_png`); a folder with the binary version does as well. The
first image is run on the paper's grid (for K = 10 and 100 without the settings that hardly move or hardly smooth) and
on half decades around the best settings, the others on a part of it. All settings of a method are one batch. PyTorch
computes the gradients where it is installed, numpy otherwise; they agree to about 1e-6.
"""

import argparse
import hashlib
import json
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd

from lpkit.attack import LinfAttack
from lpkit.attack_runs import budget
from lpkit.attack_tables import setting_rows
from lpkit.auto_pprs import auto_pprs, samples_for
from lpkit.baselines import fista
from lpkit.checks import write_all
from lpkit.cifar10 import cifar10_image
from lpkit.image_network import CIFAR10_DEVIATION, CIFAR10_MEAN, trained_alexnet
from lpkit.pipeline_time import pipeline_time
from lpkit.smoothing import agd, gd, pprs
from lpkit.weights import ALEXNET_SHA256

DEPTHS = {depth: budget(depth) for depth in (20, 200)}  # Delta: simulated time that every method is given
PAPER = [10.0**-k for k in range(3, 8)]  # learning rates, and gammas
HALF = [k * 10.0**-e for e in range(3, 8) for k in (1, 3)][:-1]
STEPS = {1: 300, 2: 298, 10: 287, 100: 200}  # T that fits the longer time
LONG = 2000  # steps of gd and agd at which the paper's learning rates come out


def settings(K, first):
    """(lr, gamma) of pprs with K samples."""
    half = [(1e-3, 1e-2), (3e-4, 1e-2), (3e-4, 3e-3), (1e-4, 3e-3)]
    if K == 2:
        return [(lr, gamma) for lr in PAPER for gamma in PAPER] + half
    if not first:
        return ([(1e-4, 1e-3)] if K == 100 else [(1e-3, 1e-3), (1e-4, 1e-3), (1e-4, 1e-4)]) + half[::2]
    lrs, gammas = (PAPER[:3], PAPER) if K == 10 else (PAPER[:2], PAPER[:3])
    return [(lr, gamma) for lr in lrs for gamma in gammas] + half


def runs(attack, first, quick):
    """(what, trace) of every method on one image."""
    shorter = 10 if quick else 1
    options = {"dtype": "float32"}
    long = LONG if first else STEPS[1]
    for method in (gd, agd):
        yield method.__name__, method(attack, long // shorter, lr=HALF, **options)
    for K in (2, 10, 100):
        lr, gamma = np.array(settings(K, first)).T
        yield "pprs", pprs(attack, STEPS[K] // shorter, K=K, lr=lr, gamma=gamma, **options)
    yield "fista", fista(attack, STEPS[1] // shorter, lr=[1e-2, 1e-3, 1e-4], **options)


def automatic(attack, quick):
    """Rows of AutoPPRS, which is told Delta alone: as many steps as fit into the time, its search included."""
    for depth, slots in DEPTHS.items():
        most = slots // pipeline_time(1, samples_for(depth), depth)
        for seed in range(3):
            trace = auto_pprs(attack, most // (10 if quick else 1), depth=depth, seed=seed, dtype="float32")
            within = trace.time() <= slots
            T = int(trace.iterations[within][-1])
            tail = trace.values[0, within & (trace.iterations > 0.9 * T)]
            yield {"Delta": depth, "seed": seed, "K": trace.K, "start": trace.values[0, 0], "T": T,
                   "time": int(trace.time()[within][-1]), "tail mean": tail.mean()}  # fmt: skip


def network():
    """AlexNet, by PyTorch where it is installed, and by what it computes."""
    ours = trained_alexnet()
    try:
        from lpkit.interop.torch_problem import from_torch, to_torch

        module = to_torch(ours.network, ours.parameters)
    except ValueError:
        return ours, f"numpy {np.__version__}"
    theirs = from_torch(module, mean=CIFAR10_MEAN, deviation=CIFAR10_DEVIATION, classes=ours.classes)
    return theirs, f"torch {version('torch')}"


def record_automatic(net, options):
    table = []
    for number in options.images:
        attack = LinfAttack(net, cifar10_image(number, options.cifar10)[0] / 255, "horse")
        for row in automatic(attack, options.quick):
            table.append({"image": number, **row})
            print(f"image {number}: Delta = {row['Delta']}, seed {row['seed']}: {row['tail mean']:.3f}", flush=True)
    text = pd.DataFrame(table).to_csv(index=False, float_format="%.6g", lineterminator="\n")
    write_all({Path(options.out) / "pprs_frogs_auto.csv": text})


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("cifar10", help=".npz file with lossless images, or folder with the binary version")
    parser.add_argument("--out", default="data/records", help="folder [%(default)s]")
    parser.add_argument("--images", type=int, nargs="+", default=[0, 22, 23])
    parser.add_argument("--quick", action="store_true", help="a tenth of the steps, to try it out")
    parser.add_argument("--automatic", action="store_true", help="AutoPPRS alone, into pprs_frogs_auto.csv")
    options = parser.parse_args()
    net, computed_by = network()
    if options.automatic:
        return record_automatic(net, options)
    table, facts = [], {}
    for number in options.images:
        pixels, label = cifar10_image(number, options.cifar10)
        attack = LinfAttack(net, pixels / 255, "horse")
        facts[number] = {"class": net.classes[label], "sha256": hashlib.sha256(pixels.tobytes()).hexdigest(),
                         "scores": attack.clean_scores.astype(float).round(4).tolist(),
                         "l1 norm of the gradient": round(attack.l1_check().norm, 2)}  # fmt: skip
        for method, trace in runs(attack, number == options.images[0], options.quick):
            table += [{"image": number, **row} for row in setting_rows(trace, DEPTHS)]
            least = trace.tail_mean().min()
            print(f"image {number}: {method}, K = {trace.K}, {len(trace)} settings, best {least:.3f}", flush=True)
    provenance = {
        "what": "the attack frog to horse, lambda 300, sum over the classes, margin 1, start at the image, float32",
        "made by": "scripts/record_frogs.py", "computed by": computed_by, "seed": 0,
        "weights sha256": ALEXNET_SHA256, "images of CIFAR-10, training part": facts, "simulated time": DEPTHS,
    }  # fmt: skip
    text = pd.DataFrame(table).to_csv(index=False, float_format="%.6g", lineterminator="\n")
    folder = Path(options.out)
    write_all({folder / "pprs_frogs.csv": text, folder / "pprs_frogs.json": json.dumps(provenance, indent=1) + "\n"})


if __name__ == "__main__":
    main()
