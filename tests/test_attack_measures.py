"""Measures of the claims of the experiment: on records made by hand, and that the stored ones are as they are said."""

import hashlib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lpkit import attack_measures as measures
from lpkit import attack_tables
from lpkit.attack import LinfAttack
from lpkit.attack_tables import TARGETS, frog_curves, frog_provenance, frogs
from lpkit.cifar10 import cifar10_image
from lpkit.image_network import trained_alexnet
from lpkit.smoothing import gd
from lpkit.weights import ALEXNET_SHA256

COPY = Path(__file__).parents[2] / "shared" / "data" / "cifar10_jpeg.npz"


def row(method, K, lr, gamma, tail, *, image=0, Delta=200, longer=None, seed=0, reached=8):
    """One setting: tail mean, and the time to each target from `reached` on, shorter by sqrt K."""
    times = {f"time to {t}": Delta * (100 - 10 * t) / K**0.5 if t >= reached else np.inf for t in TARGETS}
    return {"image": image, "Delta": Delta, "method": method, "K": K, "lr": lr, "gamma": gamma, "start": 10.0,
            "tail mean": tail, "tail mean long": tail if longer is None else longer, "seed": seed, **times}  # fmt: skip


@pytest.fixture
def by_hand(monkeypatch):
    rows = [row("gd", 1, 1e-4, 0, 8.0, longer=7.0), row("gd", 1, 1e-5, 0, 9.0, longer=6.0),
            row("gd", 1, 3e-5, 0, 7.5), row("agd", 1, 1e-6, 0, 8.5), row("agd", 1, 1e-7, 0, 8.6, longer=2.0),
            row("pprs", 2, 1e-3, 1e-3, 20.0), row("pprs", 2, 1e-3, 1e-4, 9.0), row("pprs", 2, 1e-4, 1e-3, 7.8),
            row("pprs", 10, 1e-3, 1e-3, 12.0), row("pprs", 10, 1e-3, 1e-4, 15.0), row("pprs", 10, 1e-4, 1e-3, 7.0),
            row("pprs", 100, 1e-3, 1e-2, 4.0), row("pprs", 100, 1e-3, 1e-3, 11.0), row("pprs", 100, 1e-4, 1e-3, 7.05),
            row("pprs", 10, 1e-4, 1e-3, 0.1, seed=1), row("fista", 1, 1e-3, 0, 0.5),
            row("gd", 1, 1e-4, 0, 5.0, image=22), row("pprs", 2, 1e-4, 1e-3, 6.0, image=22),
            row("pprs", 2, 3e-4, 3e-3, 4.0, image=22)]  # fmt: skip
    table = pd.DataFrame(rows)
    shallow = table.assign(Delta=20, **{name: table[name] / 4 for name in table if name.startswith("time to")})
    frame = pd.concat([table, shallow], ignore_index=True)
    monkeypatch.setattr(measures, "frogs", lambda: frame)
    monkeypatch.setattr(measures, "frogs_long", lambda: frame[frame["K"] == 1])
    return frame


def test_best_rates(by_hand):
    assert (measures.gd_best_rate("any"), measures.gd_best_rate_long("any")) == (1e-4, 1e-5)
    assert (measures.agd_best_rate("any"), measures.agd_best_rate_long("any")) == (1e-6, 1e-7)
    assert measures.pprs_2_best_rate("any") == measures.pprs_10_best_rate("any") == 1e-4
    assert measures.pprs_100_best_rate("any") == 1e-4


def test_divergence(by_hand):
    assert measures.pprs_2_diverges("any") == 0.5  # 20 and 9, from 10
    assert (measures.pprs_10_converges("any"), measures.pprs_100_converges("any")) == (1.2, 1.1)
    assert measures.pprs_100_converges_wider("any") == 0.4


def test_wins(by_hand):
    assert measures.pprs_wins_20("any") == measures.pprs_wins_200("any") == 0.5  # image 0: 7 < 8; 22: 6 > 5
    assert measures.pprs_wins_20_half_decades("any") == measures.pprs_wins_200_half_decades("any") == 1.0


def test_times(by_hand):
    assert measures.pprs_speedup_20("any") == measures.pprs_speedup_200("any") == pytest.approx(10)  # sqrt 100
    assert measures.depth_costs("any") == pytest.approx(4)


def test_a_loss_that_only_pprs_reaches_counts_as_more_than_any_speedup(monkeypatch):
    rows = [row("gd", 1, 1e-4, 0, 8.0, reached=9), row("pprs", 100, 1e-4, 1e-3, 5.0, reached=5)]
    monkeypatch.setattr(measures, "frogs", lambda: pd.DataFrame(rows))
    assert measures.pprs_speedup_200("any") == np.inf


def test_samples(by_hand):
    """Settings of all three K: (1e-3, 1e-3) 20, 12, 11 and (1e-4, 1e-3) 7.8, 7.0, 7.05, the last a rise within 1 %."""
    assert measures.more_samples_more_stable("any") == 1.0
    by_hand.loc[(by_hand["K"] == 100) & (by_hand["lr"] == 1e-4), "tail mean long"] = 7.2
    assert measures.more_samples_more_stable("any") == 0.75
    assert measures.more_samples_faster("any") == 1.0


# ---- what is stored -------------------------------------------------------------------------------------------------


def test_records_are_whole():
    table = frogs()
    assert table[["image", "Delta", "method", "K", "lr", "gamma", "start", "tail mean"]].notna().all().all()
    assert set(table["Delta"]) == {20, 200} and set(table["K"]) == {1, 2, 10, 100}
    assert (table["time"] <= 600 * table["Delta"]).all()
    assert (table["time"] == 2 * table["T"] * (table["K"] + table["Delta"] - 1)).all()
    assert not table.duplicated(["image", "Delta", "method", "K", "lr", "gamma", "seed"]).any()
    curves = frog_curves()
    assert (curves["low"] <= curves["loss"]).all() and (curves["loss"] <= curves["high"]).all()
    assert (curves["time"] <= 600 * curves["Delta"]).all() and set(curves["grid"]) == set(attack_tables.GRIDS)


def test_records_are_of_these_weights():
    assert frog_provenance()["weights sha256"] == ALEXNET_SHA256


@pytest.mark.skipif(not COPY.exists(), reason="needs a copy of CIFAR-10 in ../shared/data")
def test_records_are_of_these_images_and_can_be_had_again():
    for number, facts in frog_provenance()["images of CIFAR-10, training part"].items():
        pixels, _ = cifar10_image(int(number), COPY)
        assert hashlib.sha256(pixels.tobytes()).hexdigest() == facts["sha256"]
    attack = LinfAttack(trained_alexnet(), cifar10_image(0, COPY)[0] / 255, "horse")
    start = frogs().query("image == 0")["start"].iloc[0]
    assert float(attack.value(attack.start[None])[0]) == pytest.approx(start, rel=1e-4)
    two_cycle = frogs().query("image == 0 and Delta == 20 and method == 'gd'").set_index("lr")["tail mean"]
    trace = gd(attack, 60, lr=1e-3, dtype="float32")
    assert trace.tail_mean()[0] == pytest.approx(two_cycle.loc[1e-3], abs=0.5) == 45.0
