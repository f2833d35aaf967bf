"""Pictures to attack, by name: from a local copy of CIFAR-10, from a file, or one that an installed package brings::

    cifar10:0               training image 0 of a local copy of CIFAR-10; cifar10:test:0 is the first test image
    matplotlib:NAME         a picture among matplotlib's sample data; this is where the default comes from
    scikit-learn:NAME       china.jpg or flower.jpg
    any path                a picture file; the largest square in its middle, made smaller

No picture comes with lpkit, and none is downloaded.
"""

import importlib
import importlib.resources
import re
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lpkit.checks import is_file, not_installed, shown, unknown_name, whole_number
from lpkit.cifar10 import cifar10_image
from lpkit.datasets import CIFAR10_CLASSES

__all__ = ["SAMPLE", "Picture", "picture"]

SAMPLE = "matplotlib:grace_hopper.jpg"  # matplotlib is always there; the picture is in the public domain
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "PPM", "TIFF", "WEBP")
PACKAGES = {"matplotlib": ("matplotlib", "mpl-data/sample_data"), "scikit-learn": ("sklearn.datasets", "images")}
MOST_PIXELS = 2**26
WIDE = ("I", "F")  # Pillow's modes of more than 8 bits, which it would cut off at 255


@dataclass(frozen=True, eq=False)
class Picture:
    """A picture: float64 (3, size, size) in [0, 1], the name it was asked for by, and its class where that is known."""

    name: str
    pixels: np.ndarray
    label: str | None = None


def picture(image=SAMPLE, *, size=32, data=None):
    """The picture that `image` names, `size` x `size`, in [0, 1].

    Parameters
    ----------
    image : str or path
        ``cifar10:INDEX``, ``cifar10:test:INDEX``, ``matplotlib:NAME``, ``scikit-learn:NAME`` or a picture file.
    size : int
        Side; images of CIFAR-10 have 32 only.
    data : path, optional
        A copy of CIFAR-10, see `lpkit.cifar10.data_folder`.

    Raises
    ------
    FileNotFoundError, ValueError
        If there is no such picture, or it cannot be read; the sentence names it.

    Examples
    --------
    >>> found = picture()
    >>> found.name, found.pixels.shape, bool(0 <= found.pixels.min() < found.pixels.max() <= 1)
    ('matplotlib:grace_hopper.jpg', (3, 32, 32), True)
    """
    size, text = whole_number(size, "size of a picture", most=4096), str(image)
    kind, _, rest = text.partition(":")
    if kind == "cifar10":
        return _from_cifar10(text, rest, size, data)
    return Picture(text, _pixels(_packaged(kind, rest) if kind in PACKAGES else Path(text), size))


def _from_cifar10(text, rest, size, data):
    found = re.fullmatch(r"(?:(train|test):)?([0-9]{1,6})", rest)
    if not found:
        raise ValueError(f"image is {shown(text)}; write cifar10:0 for a training image, cifar10:test:0 for one to "
                         "test on")  # fmt: skip
    if size != 32:
        raise ValueError(f"size is {size}; images of CIFAR-10 have 32 x 32 pixels")
    pixels, label = cifar10_image(int(found[2]), data, part=found[1] or "train")
    return Picture(text, pixels / 255.0, CIFAR10_CLASSES[label])


def _packaged(package, name):
    """Path of a picture that a package brings."""
    module, folder = PACKAGES[package]
    try:
        place = importlib.resources.files(module) / folder
    except ImportError:
        raise ValueError(f"{package} is not installed, so there is no {shown(name)} of it; "
                         "give another picture") from None  # fmt: skip
    known = sorted(p.name for p in Path(str(place)).glob("*") if p.suffix in (".jpg", ".png"))
    if name not in known:
        raise unknown_name(name, f"picture of {package}", known)
    return Path(str(place)) / name


def _pixels(path, size):
    """The middle of a picture file, (3, size, size) in [0, 1]."""
    if not is_file(path):
        raise FileNotFoundError(f"there is no picture {shown(str(path), 200)}; give a picture file, cifar10:INDEX or "
                                f"{SAMPLE}")  # fmt: skip
    try:
        pillow, edit = importlib.import_module("PIL.Image"), importlib.import_module("PIL.ImageOps")
    except ImportError:
        raise not_installed("Pillow", "datasets") from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pillow.DecompressionBombWarning)
            with pillow.open(path, formats=FORMATS) as found:
                _check_size(found.size)
                if found.mode.split(";")[0] in WIDE:
                    raise ValueError("it has more than 8 bits a channel; save it with 8")
                upright = edit.exif_transpose(found).convert("RGB")
    except Exception as error:  # noqa: BLE001 - damaged pictures raise nearly anything
        why = " ".join(str(error).split())[:160] or type(error).__name__
        raise ValueError(f"{str(path)!r} cannot be read as a picture ({why}); give PNG, JPEG or the like") from None
    small = upright if upright.size == (size, size) else edit.fit(upright, (size, size), pillow.Resampling.LANCZOS)
    return np.asarray(small).transpose(2, 0, 1) / 255.0


def _check_size(size):
    if size[0] * size[1] > MOST_PIXELS:
        raise ValueError(f"it has {size[0]} x {size[1]} pixels, more than {MOST_PIXELS:,}")
