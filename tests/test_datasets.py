"""Datasets: digits, CIFAR-10 in each of its forms, and files that are not what they should be."""

import io
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from lpkit.datasets import CIFAR10_CLASSES, RECORD, Dataset, cifar10, digits, minibatches

BESIDE = Path(__file__).parents[2] / "shared" / "data" / "cifar10_jpeg.npz"


def test_digits():
    pytest.importorskip("sklearn", reason="scikit-learn is not installed (extra: datasets)")
    data = digits()
    assert data.x_train.shape == (1500, 1, 8, 8) and data.x_test.shape == (297, 1, 8, 8) and data.shape == (1, 8, 8)
    assert data.x_train.dtype == np.float32 and data.y_train.dtype == np.int64
    assert abs(data.x_train.mean()) < 1e-5 and abs(data.x_train.std() - 1) < 1e-5
    counts = np.bincount(np.concatenate([data.y_train, data.y_test]))
    assert counts.tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    large = digits(size=32, test=100, dtype=np.float64)
    assert large.x_test.shape == (100, 1, 32, 32) and large.x_test.dtype == np.float64
    assert np.array_equal(large.x_test[:, :, ::4, ::4], large.x_test[:, :, 3::4, 3::4])
    assert np.array_equal(digits(seed=1).y_test, digits(seed=1).y_test)
    assert not np.array_equal(digits(seed=1).y_test, digits(seed=0).y_test)


def write_binary(folder, per_file=3):
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    records = rng.integers(0, 256, (6 * per_file, RECORD), dtype=np.uint8)
    records[:, 0] %= 10
    for n, name in enumerate([*(f"data_batch_{n}" for n in range(1, 6)), "test_batch"]):
        (folder / f"{name}.bin").write_bytes(records[n * per_file : (n + 1) * per_file].tobytes())
    return records


@pytest.mark.parametrize("inner", [".", "cifar-10-batches-bin"])
def test_cifar10_binary_version(tmp_path, inner):
    records = write_binary(tmp_path / "data" / inner)
    data = cifar10(tmp_path / "data", dtype=np.float64)
    assert data.x_train.shape == (15, 3, 32, 32) and data.y_test.tolist() == records[15:, 0].tolist()
    raw = records[:15, 1:].reshape(15, 3, 1024)
    mean, deviation = (measure(axis=(0, 2))[:, None] for measure in (raw.mean, raw.std))
    np.testing.assert_allclose(data.x_train.reshape(15, 3, 1024) * deviation + mean, raw, atol=1e-9)
    assert len(cifar10(tmp_path / "data", train=4, test=2).y_test) == 2


def test_cifar10_lossless(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (8, 32, 32, 3), dtype=np.uint8)
    np.savez(tmp_path / "few.npz", x_train_png=images, y_train_png=np.arange(8, dtype=np.uint8))
    data = cifar10(tmp_path / "few.npz", test=1)
    assert data.x_train.shape == (6, 3, 32, 32) and data.y_test.tolist() == [6]
    flat = images[:6, :, :, 0].ravel()
    np.testing.assert_allclose(data.x_train[0, 0], (images[0, :, :, 0] - flat.mean()) / flat.std(), atol=1e-5)


def jpeg_file(path, images, *, size=(32, 32), **changed):
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed (extra: datasets)")
    parts = []
    for pixels in images:
        file = io.BytesIO()
        image.fromarray(pixels).resize(size).save(file, "JPEG", quality=95)
        parts.append(file.getvalue())
    arrays = {"jpeg": np.frombuffer(b"".join(parts), np.uint8), "offsets": np.cumsum([0, *map(len, parts)]),
              "label": np.arange(len(images), dtype=np.uint8), "is_test": np.arange(len(images)) % 2 == 1}  # fmt: skip
    np.savez(path, **arrays | changed)
    return path


FLAT = np.full((4, 32, 32, 3), 1, np.uint8) * np.array([10, 60, 110, 160], np.uint8)[:, None, None, None]


def test_cifar10_jpeg(tmp_path):
    data = cifar10(jpeg_file(tmp_path / "few.npz", FLAT), dtype=np.float64)
    assert data.y_train.tolist() == [0, 2] and data.y_test.tolist() == [1, 3]
    np.testing.assert_allclose(data.x_train[:, 0, 0, 0], [-1, 1])  # 10 and 110
    np.testing.assert_allclose(data.x_test[:, 2, 5, 5], [0, 2])
    np.savez(tmp_path / "both.npz", **np.load(tmp_path / "few.npz"), x_train_png=FLAT, y_train_png=np.arange(4))
    assert cifar10(tmp_path / "both.npz").y_train.tolist() == [0, 2]
    assert cifar10(tmp_path / "both.npz", images="lossless").y_train.tolist() == [0, 1, 2]


@pytest.mark.skipif(not BESIDE.exists(), reason="CIFAR-10 is not beside the checkout; small files like it are tested")
def test_cifar10_itself():
    pytest.importorskip("PIL.Image", reason="Pillow is not installed (extra: datasets)")
    lossless = cifar10(BESIDE, images="lossless")
    assert [CIFAR10_CLASSES[lossless.y_train[i]] for i in (0, 22, 23)] == ["frog"] * 3
    jpeg = cifar10(BESIDE, train=20, test=10)
    assert jpeg.x_train.shape == (20, 3, 32, 32) and len(jpeg.y_test) == 10


def few(count=7):
    x = np.arange(count * 4.0).reshape(count, 1, 2, 2)
    return Dataset("few", x, np.arange(count), np.zeros((0, 1, 2, 2)), np.arange(0))


def test_minibatches_show_every_sample_once_an_epoch():
    batches = minibatches(few(8), batch=4, epochs=3, seed=1)
    assert len(batches) == 6
    for first, second in zip(batches[::2], batches[1::2]):
        assert sorted([*first[1], *second[1]]) == list(range(8))
    assert all(np.array_equal(x[:, 0, 0, 0], 4 * y) for x, y in batches)
    assert batches[0][1].tolist() != batches[2][1].tolist()
    assert len(minibatches(few(7), batch=4)) == 1


# wrong input ---------------------------------------------------------------------------------------------------------


def test_missing_libraries_name_the_extra(monkeypatch, tmp_path):
    few = jpeg_file(tmp_path / "few.npz", FLAT)
    for module in ("sklearn.datasets", "PIL.Image"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ValueError, match=r"scikit-learn is not installed here; .*pip install '.\[datasets\]'"):
        digits()
    with pytest.raises(ValueError, match="Pillow is not installed"):
        cifar10(few)


def binary_without(tmp_path, name, content):
    write_binary(tmp_path / "bin")
    (tmp_path / "bin" / name).unlink()
    if content is not None:
        (tmp_path / "bin" / name).write_bytes(content)
    return tmp_path / "bin"


@pytest.mark.parametrize("name, content, error, sentence", [
    ("test_batch.bin", None, FileNotFoundError, "there is no file '.*test_batch.bin'; the binary version"),
    ("data_batch_3.bin", b"\0" * 100, ValueError, "has 100 bytes, no multiple of 3073; it may have been cut off"),
    ("data_batch_3.bin", b"", ValueError, "has 0 bytes"),
    ("data_batch_2.bin", b"\x0a" * RECORD, ValueError, "holds the class 10; classes are 0 to 9"),
])  # fmt: skip
def test_wrong_folders(tmp_path, name, content, error, sentence):
    with pytest.raises(error, match=sentence):
        cifar10(binary_without(tmp_path, name, content))


@pytest.mark.parametrize("arrays, sentence", [
    ({"a": np.zeros(2)}, "holds a; it needs jpeg, offsets, label and is_test, or x_train_png and y_train_png"),
    ({"x_train_png": np.zeros((2, 32, 32, 3))},
     r"x_train_png in .* is float64 .*; it must be uint8 of shape any x 32 x 32 x 3"),
    ({"x_train_png": FLAT}, "has no array 'y_train_png'; it holds x_train_png"),
    ({"x_train_png": FLAT, "y_train_png": np.arange(3)},
     r"y_train_png .* of shape \(3,\); it must be integer of shape 4"),
    ({"x_train_png": FLAT, "y_train_png": np.arange(4) - 1}, "holds the class -1; classes are 0 to 9"),
    ({"x_train_png": FLAT[:3], "y_train_png": np.arange(3)}, "has 3 images to train on and 0 to test on"),
    ({"x_train_png": FLAT, "y_train_png": np.array([{}] * 4)}, "cannot be read as .npz of plain arrays"),
])  # fmt: skip
def test_wrong_npz_files(tmp_path, arrays, sentence):
    np.savez(tmp_path / "wrong.npz", **arrays)
    with pytest.raises(ValueError, match=sentence):
        cifar10(tmp_path / "wrong.npz")


@pytest.mark.parametrize("changed, sentence", [
    ({"offsets": np.array([0, 5, 3, 9, 12])}, "offsets in .* do not rise"),
    ({"offsets": np.array([0, 5, 6, 7, 10**9])}, "offsets in .* do not rise within"),
    ({"offsets": np.array([0, 5, 6, 7, 8])}, "image 0 in .* is no 32 x 32 JPEG image"),
    ({"label": np.array([0, 1, 2, 77])}, "holds the class 77"),
    ({"is_test": np.ones(4, bool)}, "has 0 images to train on and 4 to test on; it must have some of each"),
    ({"is_test": np.zeros(4, bool)}, "has 4 images to train on and 0 to test on"),
    ({"is_test": np.zeros(4, int)}, r"is_test in .* is int64 of shape \(4,\); it must be bool of shape 4"),
    ({"size": (16, 32)}, "image 0 in .* \\(it has 16 x 32 pixels\\)"),
])  # fmt: skip
def test_wrong_jpeg_files(tmp_path, changed, sentence):
    with pytest.raises(ValueError, match=sentence):
        cifar10(jpeg_file(tmp_path / "wrong.npz", FLAT, **changed))


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 cut off", b"\x93NUMPY\x01\x00", b"text"])
def test_files_that_are_no_archives(tmp_path, content):
    (tmp_path / "wrong.npz").write_bytes(content)
    with pytest.raises(ValueError, match="cannot be read as .npz of plain arrays"):
        cifar10(tmp_path / "wrong.npz")


def changed_bytes(path, marker, offset, value):
    """The archive with the 2 bytes `offset` behind each `marker` set to `value`."""
    data, at = bytearray(path.read_bytes()), -1
    while (at := data.find(marker, at + 1)) >= 0:
        data[at + offset : at + offset + 2] = value
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("places", [
    [(b"PK\x01\x02", 10, b"\x63\x00"), (b"PK\x03\x04", 8, b"\x63\x00")],  # a compression that is not known
    [(b"PK\x01\x02", 8, b"\x01\x00"), (b"PK\x03\x04", 6, b"\x01\x00")],  # a password
])  # fmt: skip
def test_archives_that_are_damaged(tmp_path, places):
    np.savez(tmp_path / "few.npz", x_train_png=FLAT, y_train_png=np.arange(4))
    for place in places:
        changed_bytes(tmp_path / "few.npz", *place)
    with pytest.raises(ValueError, match="cannot be read as .npz of plain arrays"):
        cifar10(tmp_path / "few.npz")


def test_a_header_that_is_damaged(tmp_path):
    file = io.BytesIO()
    np.save(file, FLAT)
    with zipfile.ZipFile(tmp_path / "few.npz", "w") as archive:
        archive.writestr("x_train_png.npy", file.getvalue().replace(b"'shape': (", b"'shape':((("))
    with pytest.raises(ValueError, match="cannot be read as .npz of plain arrays"):
        cifar10(tmp_path / "few.npz")


def test_an_archive_that_is_cut_off(tmp_path):
    whole = jpeg_file(tmp_path / "whole.npz", FLAT).read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="it may be cut off"):
        cifar10(tmp_path / "cut.npz")
    np.save(tmp_path / "one.npy", FLAT)
    with pytest.raises(ValueError, match="it is no zip archive"):
        cifar10(tmp_path / "one.npy")


@pytest.mark.parametrize("call, sentence", [
    (lambda: digits(size=12), "size of a digit is 12; it must be a multiple of 8"),
    (lambda: digits(dtype="x"), "dtype is 'x'; it must be a floating-point type"),
    (lambda: cifar10(Path(__file__).parent, dtype=int), "dtype is <class 'int'>; it must be a floating-point type"),
    (lambda: digits(test=1797), "test images is 1797"),
    (lambda: minibatches(few(), batch=8), "batch is 8; it must be a whole number from 1 to 7"),
    (lambda: minibatches(few(), batch=2, epochs=0), "epochs is 0"),
    (lambda: cifar10(Path(__file__).parent, train=0), "train images is 0"),
])  # fmt: skip
def test_wrong_numbers(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()
