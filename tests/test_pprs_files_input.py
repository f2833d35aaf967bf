"""What the readers of weights, pictures, data and kept results, and the trials, say of what they cannot use."""

import hashlib
import io
import re
import tarfile
import zipfile
import zlib

import numpy as np
import pytest

from lpkit import cifar10
from lpkit.attack import LinfAttack
from lpkit.attack_runs import attack_runs
from lpkit.attack_tables import _found
from lpkit.auto_comparison import against_grid
from lpkit.checks import read_text
from lpkit.cifar10 import cifar10_image, data_folder
from lpkit.convex_trials import (
    errors_and_bounds,
    fastest,
    iterations_to,
    random_trial,
    smooth_iterations,
    theorem_iterations,
    trial_times,
)  # fmt: skip
from lpkit.graph import INPUT, Network, Node
from lpkit.image_network import ImageNetwork
from lpkit.images import picture
from lpkit.layerwise import Parameters
from lpkit.networks import Dense, Flatten
from lpkit.problems import Problem, random_max_affine
from lpkit.resume import kept
from lpkit.smoothing import gd
from lpkit.weights import checked_weights, read_parameters, write_parameters

LINE = Network("line", (1, 1, 2), (Node("flat", Flatten(), INPUT), Node("fc", Dense(2), "flat")))
WEIGHTS = Parameters(np.float32([[1, 2], [3, 4]]), np.float32([0, 1]))
ATTACK = LinfAttack(ImageNetwork(LINE, (WEIGHTS,), (0,), (1,)), np.full((1, 1, 2), 0.5), 0)
LONG = "x" * 5000
BOWL = Problem("bowl", 2, lambda x: ((x * x).sum(axis=1), 2 * x), start=[1.0, 1.0])
EASY = random_max_affine(3, 4)


@pytest.mark.parametrize("make, sentence", [
    (lambda: LinfAttack(ATTACK.network, np.full((1, 1, 2), 0.5j), 0), "the image is [[[0.5j"),
    (lambda: LinfAttack(ATTACK.network, ATTACK.image, 0, weight=1e300), "weight is 1e+300; it must be a finite number"),
    (lambda: ATTACK.result(np.zeros((1, 2, 1))), "the point has shape (1, 2, 1) and type float64; give"),
    (lambda: ATTACK.result("ab"), "the point has shape () and type <U2"),
    (lambda: ImageNetwork(LINE, (WEIGHTS,), (0,), (1,), ("a",)), "classes are ('a',); give one name for each of 2"),
    (lambda: ImageNetwork(LINE, (WEIGHTS,), (0,), (1,), 5), "classes are 5; give one name for each of 2"),
    (lambda: attack_runs(ATTACK, depths=20), "depths are 20 and seeds (0,); give sequences of whole numbers"),
    (lambda: data_folder("~nobody-of-that-name/x"), "the folder for data is '~nobody-of-that-name/x', and there is no"),
    (lambda: data_folder(5), "the folder for data is 5"),
    (lambda: against_grid(BOWL, depth=2, iterations=2), "optimum, R of the problem 'bowl' is not known"),
    (lambda: against_grid(EASY, depth=2, iterations=2, shares=[np.nan]), "share is nan"),
    (lambda: against_grid(EASY, depth=2, iterations=2, longer=np.nan), "longer is nan"),
    (lambda: iterations_to(BOWL, [0.1]), "optimum, L, R of the problem 'bowl' is not known"),
    (lambda: random_trial(0, []), "precisions are [] and samples [1, 2, 10, 100]; give at least one of each"),
    (lambda: random_trial(0, [-1], dimension=3), "eps is -1; it must be a finite number above 0"),
    (lambda: iterations_to(EASY, []), "precisions is empty; give at least one number"),
    (lambda: iterations_to(EASY, [np.nan]), "precisions has nan; it must be a finite number"),
    (lambda: iterations_to(EASY, [0.1], samples=[0], most=2), "samples is 0; it must be a whole number from 1"),
    (lambda: theorem_iterations(BOWL, 0.1), "optimum, L, R of the problem 'bowl' is not known"),
    (lambda: smooth_iterations(BOWL, 0.1), "optimum, beta, R of the problem 'bowl' is not known"),
    (lambda: errors_and_bounds(BOWL, [1]), "optimum, L, R of the problem 'bowl' is not known"),
    (lambda: errors_and_bounds(EASY, [1], seeds=0), "seeds is 0; it must be a whole number from 1"),
    (lambda: trial_times(iterations_to(EASY, [0.5], samples=[1], most=2), []), "depths are []; give at least one"),
    (lambda: fastest(iterations_to(EASY, [0.5], samples=[1], most=2), 5), "depths are 5; give at least one"),
])  # fmt: skip
def test_bad_input(make, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        make()


@pytest.mark.parametrize("read", [
    read_text, picture, checked_weights, lambda path: read_parameters(path, LINE), lambda path: cifar10_image(0, path),
])  # fmt: skip
def test_a_name_that_no_system_holds_is_no_file(read):
    with pytest.raises(FileNotFoundError, match="there is no .*'xxx.*") as error:
        read(LONG)
    assert len(str(error.value)) < 400


def test_one_point_as_an_image_is_taken_too():
    assert ATTACK.result(ATTACK.image).linf_255 == ATTACK.result(ATTACK.start).linf_255 == 0


def test_files_far_too_large_are_not_read(tmp_path):
    batch = f"{cifar10.BINARY}/data_batch_1.bin"
    places = {"weights.npz": checked_weights, batch: lambda _: cifar10_image(0, tmp_path)}
    for name, read in places.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        with open(path, "wb") as file:
            file.truncate(2**43)  # a hole: it takes no room, but 8 TB to read
        with pytest.raises(ValueError, match=f"{path.name}' has 8,?796,?093,?022,?208 bytes"):
            read(path)
        path.unlink()
    with open(tmp_path / "data_batch_1", "wb") as file:
        file.truncate(2**43)
    with pytest.raises(ValueError, match="data_batch_1' has not the MD5 of CIFAR-10's data_batch_1"):
        cifar10_image(0, tmp_path)


def test_checksums_that_are_no_text_are_named(tmp_path, monkeypatch):
    monkeypatch.setattr(cifar10, "IMAGES", 2)
    (tmp_path / "data_batch_1.bin").write_bytes(bytes(2 * cifar10.RECORD))
    (tmp_path / "SHA256SUMS").write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="SHA256SUMS' is not text"):
        cifar10_image(0, tmp_path)


def test_an_archive_whose_compressed_bytes_are_damaged_is_named(tmp_path, monkeypatch):
    def damaged(tar, name):
        return zlib.decompress(b"\x78\x9c" + b"\xff" * 50)  # as gzip does where the bytes of a file are wrong

    path = tmp_path / "archive.tar.gz"
    tarfile.open(path, "w:gz").close()
    monkeypatch.setattr(cifar10, "_member", damaged)
    with pytest.raises(ValueError, match="archive.tar.gz' is not the archive of CIFAR-10 .*decompressing"):
        cifar10._members(path)


def test_weights_in_another_compression_are_refused(tmp_path):
    """The decoder of LZMA takes as much memory as the file says it needs."""
    path = write_parameters(tmp_path / "line.npz", LINE, [WEIGHTS])
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    with pytest.raises(ValueError, match="line.npz' holds no weights of line .*compressed in another way"):
        read_parameters(path, LINE)


def test_weights_too_large_for_float32_are_refused(tmp_path):
    path = write_parameters(tmp_path / "line.npz", LINE, [Parameters(np.full((2, 2), 1e300), np.zeros(2))],
                            dtype=np.float64)  # fmt: skip
    with pytest.raises(ValueError, match="holds NaN or infinity, or numbers too large for float32"):
        read_parameters(path, LINE)


@pytest.mark.parametrize("kind, name", [(np.uint16, "grey.png"), (np.float32, "grey.tiff"), (np.int32, "grey.tiff")])
def test_pictures_of_more_than_8_bits_are_refused_and_not_cut_off_at_255(tmp_path, kind, name):
    pillow = pytest.importorskip("PIL.Image")
    pillow.fromarray(np.arange(1024, dtype=kind).reshape(32, 32)).save(tmp_path / name)
    with pytest.raises(ValueError, match="it has more than 8 bits a channel; save it with 8"):
        picture(tmp_path / name)


def npz_of_objects():
    file = io.BytesIO()
    np.savez(file, a=np.array([None]))
    return file.getvalue()


@pytest.mark.parametrize("content", [b"", b"junk", b"\x80\x04N.", npz_of_objects(), b"PK\x03\x04"])
def test_a_kept_file_with_a_right_digest_that_is_no_archive_is_computed_anew(tmp_path, content):
    kept("piece", {}, lambda: {"a": [1, 2]}, folder=tmp_path)
    (file,) = tmp_path.iterdir()
    file.write_bytes(hashlib.sha256(content).digest() + content)
    assert kept("piece", {}, lambda: {"a": [3, 4]}, folder=tmp_path)["a"].tolist() == [3, 4]


@pytest.mark.parametrize("result, sentence", [
    (None, "what was computed is None; give a dict of arrays"), ({1: [2]}, "what was computed is {1: [2]}"),
    ({"file": [1]}, "by names other than allow_pickle, file"), ({"allow_pickle": [1]}, "by names other than"),
    ({"a": [None]}, "'a' of what was computed holds objects; give arrays of numbers"),
])  # fmt: skip
def test_results_that_cannot_be_kept(tmp_path, result, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        kept("piece", {}, lambda: result, folder=tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_seed_given_twice_is_run_once(monkeypatch):
    monkeypatch.setattr("lpkit.attack_runs.settings", lambda scale: {("pprs", 2): ((1e-3, 1e-3),)})
    runs = attack_runs(ATTACK, depths=[1], seeds=[3, 3], progress=lambda *_: None)
    assert {key: len(trace) for key, trace in runs.items()} == {("pprs", 2, 3): 1}


def test_very_small_learning_rates_are_told_apart():
    trace = gd(EASY, 2, lr=[1e-10, 3e-10])
    assert _found({("gd", 1, 0): trace}, {"method": "gd", "K": 1, "seed": 0, "lr": 3e-10, "gamma": 0.0})[1] == 1


def test_a_start_within_the_target_takes_no_time():
    easy = Problem("bowl", 2, BOWL.oracle, start=[1.0, 1.0], optimum=0.0, L=1.0, R=1.0)
    rows = against_grid(easy, depth=2, iterations=2, shares=[1.0], K=[1], mu=[0.0])
    assert rows[["auto", "best", "ratio"]].values.tolist() == [[0.0, 0.0, 1.0]]
