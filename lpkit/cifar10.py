"""A local copy of CIFAR-10: where it is looked for, single images of it, and its download where there is a network.

Nothing of CIFAR-10 comes with lpkit. A copy is a folder with the binary version (``cifar-10-batches-bin``) or the
Python version (``cifar-10-batches-py``), or an .npz file with lossless images; it is looked for in the folder given, in
the one that the environment variable LPKIT_DATA names, and in ``~/.cache/lpkit``. The Python version is made of
pickles: they are read as a sequence of opcodes, of which the bytes of the pixels and the labels are taken; nothing is
unpickled.
Source: Krizhevsky, "Learning multiple layers of features from tiny images", technical report, 2009;
https://www.cs.toronto.edu/~kriz/cifar.html for the format and the MD5 of the archive.
"""

import hashlib
import importlib
import os
import pickletools
import re
import tarfile
import zlib
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

from lpkit.checks import choice, is_file, not_installed, read_text, shown, whole_number, write_all
from lpkit.datasets import CIFAR10_CLASSES, RECORD, cifar10_pixels

__all__ = ["cifar10_image", "data_folder", "download_cifar10"]

URL = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
ARCHIVE_MD5 = "c32a1d4ab5d03f1284b67883e8d87530"
IMAGES = 10_000  # of each file
BINARY, PYTHON, SUMS = "cifar-10-batches-bin", "cifar-10-batches-py", "SHA256SUMS"
NAMES = (*(f"data_batch_{n}" for n in range(1, 6)), "test_batch")
PYTHON_MD5 = dict(zip(NAMES, (
    "c99cafc152244af753f735de768cd75f", "d4bba439e000b95fd0a9bffe97cbabec", "54ebc095f3ab1f0389bbae665268c751",
    "634d18415352ddfa80567beed471001a", "482c414d41f54cd18b22e5b47cb7c3cb", "40351d587109b95175f43aff81a1287e",
)))  # fmt: skip
ADVICE = "lpkit data cifar10 downloads it; or give the folder of a copy, or name it in LPKIT_DATA"


def data_folder(path=None):
    """Folder for data that does not come with lpkit: `path`, else what LPKIT_DATA names, else ``~/.cache/lpkit``.

    Raises
    ------
    ValueError
        If it begins with a home that nobody has, or is no path.

    Examples
    --------
    >>> data_folder("copies").name
    'copies'
    """
    given = path or os.environ.get("LPKIT_DATA") or "~/.cache/lpkit"
    try:
        return Path(given).expanduser()
    except (RuntimeError, TypeError):
        raise ValueError(f"the folder for data is {shown(given)}, and there is no such home or it is no path; "
                         "give another one, or name it in LPKIT_DATA") from None  # fmt: skip


def cifar10_image(index, path=None, *, part="train"):
    """An image of a local copy of CIFAR-10 and its class number.

    Parameters
    ----------
    index : int
        From 0: of 50,000 images to train on, or 10,000 to test on.
    path : path, optional
        The copy; see `data_folder`.
    part : {"train", "test"}

    Returns
    -------
    ndarray (3, 32, 32) of uint8, int

    Raises
    ------
    FileNotFoundError
        If there is no copy.
    ValueError
        If a file was cut off or changed (the sentence names it), or there is no such image.

    Examples
    --------
    >>> cifar10_image(0, "no/such/folder")
    Traceback (most recent call last):
    ...
    FileNotFoundError: there is no CIFAR-10 at 'no/such/folder'; lpkit data cifar10 downloads it; or give the folder \
of a copy, or name it in LPKIT_DATA
    """
    choice(part, "part", ("train", "test"))
    folder = data_folder(path)
    if is_file(folder):
        return _from_file(folder, index, part)
    number, place = divmod(whole_number(index, f"index of a {part} image", least=0, most=_most(part) - 1), IMAGES)
    name = NAMES[number] if part == "train" else "test_batch"
    for found in (folder / BINARY, folder):
        if is_file(file := found / f"{name}.bin"):
            return _binary_image(file, place)
    for found in (folder / PYTHON, folder):
        if is_file(file := found / name):
            return _python_image(file, place)
    raise FileNotFoundError(f"there is no CIFAR-10 at {shown(str(folder), 200)}; {ADVICE}")


def download_cifar10(path=None, *, progress=False, url=URL, md5=ARCHIVE_MD5):
    """Fetch the binary version of CIFAR-10 (162 MB) with pooch, unless it is there; returns its folder.

    The archive is checked against its MD5, its six files are written with their SHA-256 beside them, which are
    checked when an image is read.

    Parameters
    ----------
    path : path, optional
        Folder to put it into; see `data_folder`.
    progress : bool
        Whether to show a progress bar.

    Raises
    ------
    ValueError
        If pooch is not installed, there is no network, or what came is not CIFAR-10.
    """
    folder = data_folder(path)
    target = folder / BINARY
    if (target / SUMS).is_file() and all((target / f"{name}.bin").is_file() for name in NAMES):
        return target
    archive = _fetched(folder, progress, url, md5)
    files = {f"{name}.bin": content for name, content in zip(NAMES, _members(archive))}
    sums = "".join(f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in files.items())
    write_all({target / name: content for name, content in files.items()} | {target / SUMS: sums})
    archive.unlink()
    return target


def _most(part):
    return 5 * IMAGES if part == "train" else IMAGES


def _from_file(path, index, part):
    """From an .npz file with images without loss, in the order of the training images."""
    if part == "test":
        raise ValueError(f"{str(path)!r} holds images to train on only; give a folder for those to test on")
    x, y, x_more, y_more = cifar10_pixels(path, images="lossless")
    place = whole_number(index, "index of a train image", least=0, most=len(y) + len(y_more) - 1)
    return (x[place], int(y[place])) if place < len(y) else (x_more[place - len(y)], int(y_more[place - len(y)]))


def _binary_image(path, place):
    if (size := path.stat().st_size) != IMAGES * RECORD:
        raise ValueError(f"{str(path)!r} has {size} bytes; a file of CIFAR-10 has {IMAGES * RECORD}: "
                         "it was cut off or is another one; get it anew")  # fmt: skip
    content, sums = _content(path), path.with_name(SUMS)
    if is_file(sums) and f"{hashlib.sha256(content).hexdigest()}  {path.name}" not in read_text(sums).splitlines():
        raise ValueError(f"{str(path)!r} has another SHA-256 than when it was downloaded; delete its folder and run "
                         "lpkit data cifar10")  # fmt: skip
    record = np.frombuffer(content, np.uint8, RECORD, place * RECORD)
    return record[1:].reshape(3, 32, 32), _checked_label(path, int(record[0]))


def _python_image(path, place):
    small = path.stat().st_size <= 2 * IMAGES * RECORD  # a larger one is no file of CIFAR-10, and is not read
    content = _content(path) if small else b""
    if hashlib.md5(content, usedforsecurity=False).hexdigest() != PYTHON_MD5[path.name]:
        raise ValueError(f"{str(path)!r} has not the MD5 of CIFAR-10's {path.name}: it was cut off or is another file; "
                         "get it anew")  # fmt: skip
    try:
        pixels, labels = _python_arrays(content)
    except Exception as error:  # noqa: BLE001 - pickletools raises nearly anything where there is no pickle
        raise ValueError(f"{str(path)!r} is no file of CIFAR-10's Python version ({error})") from None
    return pixels[place], _checked_label(path, labels[place])


def _content(path):
    try:
        return path.read_bytes()
    except OSError as error:
        raise ValueError(f"{str(path)!r} cannot be read: {error.strerror}") from None


def _python_arrays(content):
    """Pixels (n, 3, 32, 32) and labels of a file of the Python version, from its opcodes; nothing is executed."""
    key, pixels, labels = None, None, []
    for opcode, value, _ in pickletools.genops(content):
        if isinstance(value, (str, bytes)) and len(value) >= 3072:
            pixels = np.frombuffer(value.encode("latin-1") if isinstance(value, str) else value, np.uint8)
        elif isinstance(value, (str, bytes)):
            key = value if isinstance(value, str) else value.decode("latin-1")
        elif key == "labels" and opcode.name in ("BININT1", "BININT", "BININT2", "INT"):
            labels.append(value)
    if pixels is None or len(pixels) != 3072 * len(labels):
        raise ValueError(f"it holds {0 if pixels is None else len(pixels)} bytes of pixels and {len(labels)} labels")
    return pixels.reshape(-1, 3, 32, 32), labels


def _checked_label(path, label):
    if not 0 <= label < len(CIFAR10_CLASSES):
        raise ValueError(f"{str(path)!r} holds the class {label}; classes are 0 to 9, so this is not CIFAR-10")
    return label


def _fetched(folder, progress, url, md5):
    try:
        pooch = importlib.import_module("pooch")
    except ImportError:
        raise not_installed("pooch", "datasets") from None
    pooch.get_logger().setLevel("ERROR")
    try:
        return Path(pooch.retrieve(url, f"md5:{md5}", Path(url).name, folder, progressbar=progress))
    except (OSError, ValueError) as error:  # no network, a refusal, a wrong checksum, a folder that is read only
        offline = re.search("Connect|Timeout", type(error).__name__)
        why = f"no connection to {urlsplit(url).hostname}" if offline else " ".join(str(error).split())[:160]
        raise ValueError(f"CIFAR-10 could not be downloaded ({why}); fetch {url} where there is a network, unpack it, "
                         f"and name the folder in LPKIT_DATA") from None  # fmt: skip


def _members(archive):
    """The six files of the archive, in the order of NAMES; only regular files of the right size are read."""
    try:
        with tarfile.open(archive, "r:gz") as tar:
            return [_member(tar, f"{BINARY}/{name}.bin") for name in NAMES]
    except (tarfile.TarError, zlib.error, KeyError, EOFError, OSError) as error:
        raise ValueError(f"{str(archive)!r} is not the archive of CIFAR-10 ({error}); "
                         "delete it and try again") from None  # fmt: skip


def _member(tar, name):
    member = tar.getmember(name)
    if not member.isfile() or member.size != IMAGES * RECORD:
        raise KeyError(f"{name} is no file of {IMAGES * RECORD} bytes")
    return tar.extractfile(member).read()
