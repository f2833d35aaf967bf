"""Pictures by name: from packages, from files, from CIFAR-10, and what is no picture."""

import sys

import numpy as np
import pytest

from lpkit import images
from lpkit.datasets import RECORD
from lpkit.images import SAMPLE, picture

pillow = pytest.importorskip("PIL.Image", reason="Pillow is not installed (extra: datasets)")


def stripes(path, width=64, height=32, mode="RGB", **options):
    """Left half red, right half blue."""
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[:, : width // 2, 0], pixels[:, width // 2 :, 2] = 255, 255
    pillow.fromarray(pixels).convert(mode).save(path, **options)
    return path


def test_the_default_needs_no_network_and_no_extra():
    found = picture()
    assert found.name == SAMPLE and found.label is None
    assert found.pixels.shape == (3, 32, 32) and found.pixels.dtype == np.float64
    assert 0 <= found.pixels.min() < 0.2 < 0.8 < found.pixels.max() <= 1
    assert np.array_equal(found.pixels, picture("matplotlib:grace_hopper.jpg").pixels)


def test_pictures_of_scikit_learn():
    pytest.importorskip("sklearn", reason="scikit-learn is not installed (extra: datasets)")
    assert picture("scikit-learn:flower.jpg", size=8).pixels.shape == (3, 8, 8)


@pytest.mark.parametrize("name, options", [
    ("a.png", {}), ("a.bmp", {}), ("a.jpg", {"quality": 95}), ("a.png", {"mode": "RGBA"}), ("a.gif", {"mode": "P"}),
])  # fmt: skip
def test_the_middle_of_a_file(tmp_path, name, options):
    found = picture(stripes(tmp_path / name, **options)).pixels
    assert found[0, :, :14].min() > 0.9 and found[2, :, :14].max() < 0.1
    assert found[2, :, 18:].min() > 0.9 and found[0, :, 18:].max() < 0.1


def test_a_picture_of_the_right_size_is_taken_as_it_is(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (32, 32, 3), dtype=np.uint8)
    pillow.fromarray(pixels).save(tmp_path / "small.png")
    assert np.array_equal(picture(tmp_path / "small.png").pixels, pixels.transpose(2, 0, 1) / 255)


def test_images_of_cifar10(tmp_path, monkeypatch):
    monkeypatch.setattr("lpkit.cifar10.IMAGES", 2)
    record = np.arange(2 * RECORD).astype(np.uint8).reshape(2, RECORD)
    record[:, 0] = 6, 7
    for name in ("data_batch_1.bin", "test_batch.bin"):
        (tmp_path / name).write_bytes(record.tobytes())
    found = picture("cifar10:1", data=tmp_path)
    assert found.label == "horse" and np.array_equal(found.pixels.ravel(), record[1, 1:] / 255)
    assert picture("cifar10:test:0", data=tmp_path).label == "frog"


# wrong input ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name, error, sentence", [
    ("cifar10:x", ValueError, "image is 'cifar10:x'; write cifar10:0 for a training image, cifar10:test:0"),
    ("cifar10:-1", ValueError, "write cifar10:0"),
    ("cifar10:best:1", ValueError, "write cifar10:0"),
    ("cifar10:0", FileNotFoundError, "there is no CIFAR-10 at .*lpkit data cifar10 downloads it"),
    ("frog.png", FileNotFoundError, "there is no picture 'frog.png'; give a picture file, cifar10:INDEX or matpl"),
    ("matplotlib:grace_hoper.jpg", ValueError, "picture of matplotlib is .*did you mean 'grace_hopper.jpg'"),
    ("matplotlib:../x.png", ValueError, "picture of matplotlib is '../x.png'; Known"),
])  # fmt: skip
def test_names_that_name_nothing(tmp_path, monkeypatch, name, error, sentence):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=sentence):
        picture(name, data=tmp_path)


@pytest.mark.parametrize("content", [b"", b"text", b"\x89PNG\r\n\x1a\n", b"GIF89a", b"%!PS-Adobe-3.0 EPSF-3.0\n"])
def test_files_that_are_no_pictures(tmp_path, content):
    (tmp_path / "wrong.png").write_bytes(content)
    with pytest.raises(ValueError, match="wrong.png' cannot be read as a picture .*; give PNG, JPEG or the like"):
        picture(tmp_path / "wrong.png")


def test_a_picture_that_is_cut_off(tmp_path):
    whole = stripes(tmp_path / "whole.png", width=300, height=300).read_bytes()
    (tmp_path / "cut.png").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="cut.png' cannot be read as a picture"):
        picture(tmp_path / "cut.png")


def test_a_picture_that_is_too_large(tmp_path, monkeypatch):
    monkeypatch.setattr(images, "MOST_PIXELS", 1000)
    with pytest.raises(ValueError, match=r"it has 64 x 32 pixels, more than 1,000"):
        picture(stripes(tmp_path / "large.png"))


def test_wrong_sizes(tmp_path):
    with pytest.raises(ValueError, match="size of a picture is 0"):
        picture(size=0)
    with pytest.raises(ValueError, match="size is 16; images of CIFAR-10 have 32 x 32 pixels"):
        picture("cifar10:0", size=16)


def test_missing_libraries_name_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(ValueError, match=r"Pillow is not installed here; .*pip install '.\[datasets\]'"):
        picture()
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(ValueError, match="scikit-learn is not installed, so there is no 'flower.jpg' of it"):
        picture("scikit-learn:flower.jpg")
