"""Run the best settings that scripts/record_frogs.py has found again: their curves, and their spread over seeds.

    python scripts/record_frog_curves.py CIFAR10.npz [--records data/records] [--seeds 1 2]

Reads pprs_frogs.csv there and writes pprs_frogs_curves.csv (loss against time on the first image, seed 0) and
pprs_frogs_seeds.csv (tail means with more seeds; not for K = 100) beside it. The best settings are those of
each Delta, method and K on the paper's grid, and with the half decades. pprs_frogs_long.csv holds gd and agd on the
first image with the paper's learning rates and more steps; --long writes only that.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from record_frogs import DEPTHS, PAPER, STEPS, network

from lpkit.attack import LinfAttack
from lpkit.attack_tables import GRIDS, best_settings, curve_rows, method_name, setting_rows
from lpkit.baselines import fista
from lpkit.checks import write_all, write_atomically
from lpkit.cifar10 import cifar10_image
from lpkit.smoothing import agd, gd, pprs

SETTING = ["lr", "gamma"]
LONG = 4000


def run(attack, method, K, pairs, seed):
    """Trace of some settings (lr, gamma)."""
    lr, gamma = np.array(pairs).T
    if method == "pprs":
        return pprs(attack, STEPS[K], K=K, lr=lr, gamma=gamma, seed=seed, dtype="float32")
    return {"gd": gd, "agd": agd, "fista": fista}[method](attack, STEPS[1], lr=lr, dtype="float32")


def long_rows(attack, image):
    """gd and agd with the paper's learning rates; records at odd distances see both ends of a two-cycle."""
    traces = [method(attack, LONG, lr=PAPER, record_every=9, dtype="float32") for method in (gd, agd)]
    return [{"image": image, **row} for trace in traces for row in setting_rows(trace, DEPTHS)]


def csv(rows):
    return pd.DataFrame(rows).to_csv(index=False, float_format="%.6g", lineterminator="\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("cifar10", help=".npz file with lossless images, or folder with the binary version")
    parser.add_argument("--records", default="data/records", help="folder [%(default)s]")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--long", action="store_true", help="gd and agd with more steps, and nothing else")
    options = parser.parse_args()
    folder, (net, _) = Path(options.records), network()
    table = pd.read_csv(folder / "pprs_frogs.csv")
    best = pd.concat([best_settings(table, grid).assign(grid=grid) for grid in GRIDS])
    first, curves, seeds = int(table["image"].iloc[0]), [], []
    attack = LinfAttack(net, cifar10_image(first, options.cifar10)[0] / 255, "horse")
    write_atomically(folder / "pprs_frogs_long.csv", csv(long_rows(attack, first)))
    if options.long:
        return
    for (image, method, K), rows in best.groupby(["image", "method", "K"], sort=False):
        attack = LinfAttack(net, cifar10_image(int(image), options.cifar10)[0] / 255, "horse")
        pairs = list(dict.fromkeys(map(tuple, rows[SETTING].to_numpy())))
        if image == first:
            trace = run(attack, method, K, pairs, 0)
            for row in rows.to_dict("records"):
                about = {name: row[name] for name in ("image", "grid", "Delta", "method", "K", *SETTING)}
                points = curve_rows(trace, pairs.index((row["lr"], row["gamma"])), row["Delta"], DEPTHS[row["Delta"]])
                curves += [{**about, "name": method_name(method, K), **point} for point in points]
        for seed in options.seeds if 1 < K < 100 else ():
            trace = run(attack, method, K, pairs, seed)
            seeds += [{"image": image, **row, "seed": seed} for row in setting_rows(trace, DEPTHS)]
        print(f"image {image}: {method}, K = {K}, {len(pairs)} settings", flush=True)
    write_all({folder / "pprs_frogs_curves.csv": csv(curves), folder / "pprs_frogs_seeds.csv": csv(seeds)})


if __name__ == "__main__":
    main()
