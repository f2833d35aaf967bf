"""Images to train on: scikit-learn's digits, which come with that library, and CIFAR-10 from files that are there.

Nothing is downloaded and nothing is unpickled. Images are float (samples, channels, height, width), each channel with
mean 0 and variance 1 over the training part.
Sources: Alpaydin and Kaynak, "Optical recognition of handwritten digits", UCI repository, 1998 (its test part is what
scikit-learn holds); Krizhevsky, "Learning multiple layers of features from tiny images", technical report, 2009.
"""

import importlib
import io
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lpkit.checks import choice, not_installed, shown, whole_number

__all__ = ["CIFAR10_CLASSES", "Dataset", "cifar10", "cifar10_pixels", "digits", "minibatches"]

CIFAR10_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
RECORD = 1 + 3 * 32 * 32  # bytes of an image of the binary version: its class, then red, green, blue


@dataclass(frozen=True, eq=False)
class Dataset:
    """Images (samples, channels, height, width) and class numbers (samples,), to train on and to test on."""

    name: str
    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray

    @property
    def shape(self):
        """(channels, height, width) of a sample."""
        return self.x_train.shape[1:]


def digits(*, size=8, test=297, seed=0, dtype=np.float32):
    """The 1,797 handwritten digits of scikit-learn, 8 x 8 grey pixels, 10 classes.

    Parameters
    ----------
    size : int
        Side of the images, a multiple of 8; each pixel is repeated.
    test : int
        Images kept for testing, chosen by `seed`.

    Raises
    ------
    ValueError
        If scikit-learn is not installed, or a number does not fit.

    Examples
    --------
    >>> data = digits()  # doctest: +SKIP
    >>> data.x_train.shape, data.y_test.shape  # doctest: +SKIP
    ((1500, 1, 8, 8), (297,))
    """
    repeat = whole_number(size, "size of a digit") // 8
    if size != 8 * repeat:
        raise ValueError(f"size of a digit is {size}; it must be a multiple of 8")
    test, dtype = whole_number(test, "test images", most=1796), _float_type(dtype)
    source = _library("sklearn.datasets", "scikit-learn").load_digits()
    order = np.random.default_rng(seed).permutation(len(source.target))
    images = source.images[order][:, None].repeat(repeat, axis=2).repeat(repeat, axis=3)
    labels = source.target[order].astype(np.int64)
    return _dataset("digits", images[test:], labels[test:], images[:test], labels[:test], dtype)


def cifar10(path, *, train=None, test=None, images=None, dtype=np.float32):
    """CIFAR-10 from a folder with its binary version, or from an .npz file.

    Parameters
    ----------
    path : path
        A folder with ``data_batch_1.bin`` ... ``data_batch_5.bin`` and ``test_batch.bin``, or with the folder
        ``cifar-10-batches-bin`` of these; or an .npz file with arrays ``jpeg`` (bytes of all images, one after the
        other), ``offsets``, ``label`` and ``is_test``, or ``x_train_png`` (n, 32, 32, 3) and ``y_train_png``, or both.
    train, test : int, optional
        How many images at most, spread evenly over the file: its images may be in the order of their classes.
    images : {"jpeg", "lossless"}, optional
        Which images of an .npz file; jpeg where it has both. Of the lossless ones the last quarter is for testing.

    Raises
    ------
    FileNotFoundError, ValueError
        If files are missing, cut off or not of this form, or Pillow is needed and not installed.

    Examples
    --------
    >>> cifar10("no/such/folder")
    Traceback (most recent call last):
    ...
    FileNotFoundError: there is no CIFAR-10 at 'no/such/folder'; give a folder with its binary version, or an .npz file
    """
    dtype = _float_type(dtype)
    return _dataset("cifar10", *cifar10_pixels(path, train=train, test=test, images=images), dtype)


def cifar10_pixels(path, *, train=None, test=None, images=None):
    """CIFAR-10 as it is stored: grey levels 0 to 255 and class numbers; arguments and errors as `cifar10`.

    Returns
    -------
    x_train, y_train, x_test, y_test
        uint8 (samples, 3, 32, 32) and int64 (samples,).

    Raises
    ------
    FileNotFoundError, ValueError
        As `cifar10`.

    Examples
    --------
    >>> cifar10_pixels("no/such/folder")
    Traceback (most recent call last):
    ...
    FileNotFoundError: there is no CIFAR-10 at 'no/such/folder'; give a folder with its binary version, or an .npz file
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(
            f"there is no CIFAR-10 at {str(path)!r}; give a folder with its binary version, or an .npz file"
        )
    counts = [n if n is None else whole_number(n, f"{part} images") for part, n in (("train", train), ("test", test))]
    if path.is_dir():
        return tuple(_from_folder(path, *counts))
    arrays = _read_npz(path)
    kinds = [kind for kind, key in (("jpeg", "jpeg"), ("lossless", "x_train_png")) if key in arrays]
    if not kinds:
        raise ValueError(f"{str(path)!r} holds {', '.join(arrays) or 'nothing'}; it needs jpeg, offsets, label and "
                         "is_test, or x_train_png and y_train_png")  # fmt: skip
    read = {"jpeg": _from_jpeg, "lossless": _from_lossless}[choice(images or kinds[0], "images", tuple(kinds))]
    return tuple(read(path, arrays, *counts))


def minibatches(dataset, *, batch=32, epochs=1, seed=0):
    """The training part in mini-batches (x, labels), shuffled anew in each epoch; a last, smaller one is left out.

    Parameters
    ----------
    dataset : Dataset
    batch : int
        Samples of a mini-batch.
    epochs : int
    seed : int
        Of the order of the samples.

    Returns
    -------
    list of (ndarray (B, C, H, W), ndarray (B,))

    Raises
    ------
    ValueError
        If the batch is larger than the training part.

    Examples
    --------
    >>> few = Dataset("few", np.zeros((5, 1, 2, 2)), np.arange(5), np.zeros((0, 1, 2, 2)), np.arange(0))
    >>> [y.tolist() for _, y in minibatches(few, batch=2, epochs=2)]
    [[2, 4], [3, 0], [4, 1], [2, 0]]
    """
    samples = len(dataset.y_train)
    batch, epochs = whole_number(batch, "batch", most=samples), whole_number(epochs, "epochs")
    rng = np.random.default_rng(seed)
    starts = range(0, samples - batch + 1, batch)
    chosen = (order[s : s + batch] for order in (rng.permutation(samples) for _ in range(epochs)) for s in starts)
    return [(dataset.x_train[places], dataset.y_train[places]) for places in chosen]


def _dataset(name, x_train, y_train, x_test, y_test, dtype):
    mean = x_train.mean(axis=(0, 2, 3), keepdims=True)
    deviation = x_train.std(axis=(0, 2, 3), keepdims=True)
    deviation = np.where(deviation > 0, deviation, 1)
    scaled = (((x - mean) / deviation).astype(dtype) for x in (x_train, x_test))
    return Dataset(name, next(scaled), y_train, next(scaled), y_test)


def _float_type(dtype):
    """`dtype` as a numpy type of floating-point numbers."""
    try:
        found = np.dtype(dtype)
    except (TypeError, ValueError):
        found = None
    if found is None or found.kind != "f":
        raise ValueError(f"dtype is {shown(dtype)}; it must be a floating-point type, such as numpy.float32")
    return found


def _library(module, package):
    try:
        return importlib.import_module(module)
    except ImportError:
        raise not_installed(package, "datasets") from None


def _from_folder(folder, train, test):
    """Images and labels of the binary version."""
    inner = folder / "cifar-10-batches-bin"
    folder = inner if inner.is_dir() else folder
    parts = []
    for names, most in (([f"data_batch_{n}.bin" for n in range(1, 6)], train), (["test_batch.bin"], test)):
        records = np.concatenate([_records(folder / name) for name in names])
        records = records[_spread(len(records), most)]
        parts += [records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0].astype(np.int64)]
    return parts


def _spread(count, most):
    """Places of at most `most` of `count` things, evenly apart."""
    return np.arange(count) if most is None or most >= count else np.arange(most) * count // most


def _records(path):
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {str(path)!r}; the binary version of CIFAR-10 has data_batch_1.bin "
                                "to data_batch_5.bin and test_batch.bin")  # fmt: skip
    data = np.fromfile(path, np.uint8)
    if not len(data) or len(data) % RECORD:
        raise ValueError(f"{str(path)!r} has {len(data)} bytes, no multiple of {RECORD}; it may have been cut off")
    records = data.reshape(-1, RECORD)
    _check_labels(path, records[:, 0])
    return records


def _check_labels(path, labels):
    wrong = labels[(labels < 0) | (labels >= len(CIFAR10_CLASSES))]
    if len(wrong):
        raise ValueError(f"{str(path)!r} holds the class {wrong[0]}; classes are 0 to 9, so this is not CIFAR-10")


def _check_parts(path, train, test):
    if not train or not test:
        raise ValueError(f"{str(path)!r} has {train} images to train on and {test} to test on; "
                         "it must have some of each")  # fmt: skip


def _read_npz(path):
    """The arrays of an .npz file; objects in it are refused, not unpickled."""
    try:
        if not zipfile.is_zipfile(path):
            raise ValueError("it is no zip archive")
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except Exception as error:  # noqa: BLE001 - damaged bytes raise nearly anything (zip, header, codec)
        why = " ".join(str(error).split())[:200] or type(error).__name__
        raise ValueError(f"{str(path)!r} cannot be read as .npz of plain arrays ({why}); it may be cut off") from None


def _array(path, arrays, name, kind, shape):
    """Array `name`, whose type is of `kind` and whose shape is `shape` (None: any length)."""
    if name not in arrays:
        raise ValueError(f"{str(path)!r} has no array {name!r}; it holds {', '.join(arrays)}")
    array = arrays[name]
    fits = len(array.shape) == len(shape) and all(want in (None, have) for want, have in zip(shape, array.shape))
    if not fits or not np.issubdtype(array.dtype, kind):
        wanted = " x ".join("any" if n is None else str(n) for n in shape)
        raise ValueError(f"{name} in {str(path)!r} is {array.dtype} of shape {array.shape}; "
                         f"it must be {kind.__name__.rstrip('_')} of shape {wanted}")  # fmt: skip
    return array


def _from_lossless(path, arrays, train, test):
    x = _array(path, arrays, "x_train_png", np.uint8, (None, 32, 32, 3)).transpose(0, 3, 1, 2)
    y = _array(path, arrays, "y_train_png", np.integer, (len(x),)).astype(np.int64)
    _check_labels(path, y)
    cut = len(x) - len(x) // 4
    _check_parts(path, cut, len(x) - cut)
    few, fewer = _spread(cut, train), cut + _spread(len(x) - cut, test)
    return x[few], y[few], x[fewer], y[fewer]


def _from_jpeg(path, arrays, train, test):
    label = _array(path, arrays, "label", np.integer, (None,)).astype(np.int64)
    _check_labels(path, label)
    is_test = _array(path, arrays, "is_test", np.bool_, label.shape)
    _check_parts(path, np.count_nonzero(~is_test), np.count_nonzero(is_test))
    data = _array(path, arrays, "jpeg", np.uint8, (None,))
    ends = _array(path, arrays, "offsets", np.integer, (len(label) + 1,)).astype(np.int64)
    if ends[0] < 0 or ends[-1] > len(data) or (np.diff(ends) < 0).any():
        raise ValueError(f"offsets in {str(path)!r} do not rise within the {len(data)} bytes of jpeg; is it cut off?")
    open_image = _library("PIL.Image", "Pillow").open
    parts = []
    for chosen, most in ((~is_test, train), (is_test, test)):
        places = np.flatnonzero(chosen)[_spread(np.count_nonzero(chosen), most)]
        pixels = [_decoded(path, open_image, data[ends[i] : ends[i + 1]].tobytes(), i) for i in places.tolist()]
        parts += [np.array(pixels, np.uint8).reshape(-1, 32, 32, 3).transpose(0, 3, 1, 2), label[places]]
    return parts


def _decoded(path, open_image, data, number):
    try:
        image = open_image(io.BytesIO(data), formats=("JPEG",))
        if image.size != (32, 32):
            raise ValueError(f"it has {image.size[0]} x {image.size[1]} pixels")
        return np.asarray(image.convert("RGB"))
    except (OSError, ValueError) as error:
        raise ValueError(f"image {number} in {str(path)!r} is no 32 x 32 JPEG image ({error})") from None
