"""Files with the weights of a plain chain of layers: .npz archives, read without executing or trusting anything.

The arrays of an archive are taken in their order, one ``<layer>.weight`` and, where the layer has one, one
``<layer>.bias`` a layer; the names before the dot are free, so that the state of a PyTorch module of the same layers is
read as well. Weights of half precision become float32.
"""

import hashlib
import io
import math
import zipfile
from pathlib import Path

import numpy as np

from lpkit import paths
from lpkit.checks import is_file, shown, write_atomically
from lpkit.layerwise import Parameters, chain_layers, weight_shape

__all__ = ["ALEXNET_SHA256", "checked_weights", "read_parameters", "write_parameters"]

ALEXNET_SHA256 = "9ccaa09a2d0884e64710583d5850ffa58dbc0e207fc774b4fbad0861486424a2"
TYPES = ("float16", "float32", "float64")
HEADER = 4096  # bytes of a .npy header, at most
LARGEST_FILE = 2**32  # bytes, of a file that is read whole
COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # others ask for memory as the file claims


def checked_weights(path=None, *, sha256=ALEXNET_SHA256):
    """Path of the weights of AlexNet that came with the repository, after their checksum was verified.

    Raises
    ------
    FileNotFoundError, ValueError
        If the file is missing, or its SHA-256 is another; the sentence names it.

    Examples
    --------
    >>> checked_weights().name
    'alexnet_cifar10_fp16.npz'
    """
    path = Path(path or paths.data() / "alexnet_cifar10_fp16.npz")
    found = hashlib.sha256(_bytes(path)).hexdigest()
    if found != sha256:
        raise ValueError(f"{str(path)!r} has the SHA-256 {found[:12]}... and not {sha256[:12]}...: it was cut off or "
                         "changed; restore it from the repository")  # fmt: skip
    return path


def read_parameters(path, network):
    """Parameters of each layer of `network`, a plain chain, from an .npz file; float32.

    Raises
    ------
    FileNotFoundError, ValueError
        If the file is missing, no such archive, or holds other shapes; the sentence names it.

    Examples
    --------
    >>> from lpkit.networks import Dense, Network, Node
    >>> line = Network("line", (2, 1, 1), (Node("fc", Dense(1), "input"),))
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "line.npz"
    >>> path = write_parameters(path, line, [Parameters(np.float32([[1, 2]]), np.float32([3]))])
    >>> read_parameters(path, line)
    (Parameters(W=array([[1., 2.]], dtype=float32), bias=array([3.], dtype=float32)),)
    """
    path, wanted = Path(path), _wanted(network)
    content = io.BytesIO(_bytes(path))
    try:
        with zipfile.ZipFile(content) as archive:
            return _parameters(archive, wanted)
    except Exception as error:  # noqa: BLE001 - damaged bytes raise nearly anything (zip, header, codec)
        why = " ".join(str(error).split())[:200] or type(error).__name__
        raise ValueError(f"{str(path)!r} holds no weights of {network.name} ({why}); it may be cut off") from None


def write_parameters(path, network, parameters, *, dtype=np.float16):
    """Write the parameters of a chain to an .npz file for `read_parameters`, whole or not at all; returns the path.

    Parameters
    ----------
    path : path
    network : Network
        A plain chain.
    parameters : sequence of Parameters
        One a layer.
    dtype : numpy dtype
        Of the file.

    Raises
    ------
    ValueError
        If the file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> from lpkit.networks import Dense, Network, Node
    >>> network = Network("line", (2, 1, 1), (Node("fc", Dense(1, bias=False), "input"),))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = write_parameters(f"{folder}/line.npz", network, [Parameters(np.array([[1.5, 2.0]]))])
    ...     read_parameters(path, network)[0].W
    array([[1.5, 2. ]], dtype=float32)
    """
    arrays = {}
    for layer, p in zip(network.layers, parameters, strict=True):
        arrays |= {f"{layer.name}.{kind}": a.astype(dtype) for kind, a in zip(("weight", "bias"), p) if a is not None}
    file = io.BytesIO()
    np.savez(file, **arrays)
    return write_atomically(path, file.getvalue())


def _bytes(path):
    if not is_file(path):
        raise FileNotFoundError(f"there is no file {shown(str(path), 200)} with weights; check the path")
    if (size := path.stat().st_size) > LARGEST_FILE:
        raise ValueError(f"{str(path)!r} has {size:,} bytes; files of at most {LARGEST_FILE:,} bytes are read")
    try:
        return path.read_bytes()
    except OSError as error:
        raise ValueError(f"{str(path)!r} cannot be read: {error.strerror}") from None


def _wanted(network):
    """(last part of the name, shape) of each array, in order."""
    wanted = []
    for layer in chain_layers(network):
        shape = weight_shape(layer)
        wanted += [("weight", shape), *([("bias", shape[:1])] if layer.op.bias else [])]
    return wanted


def _parameters(archive, wanted):
    members = archive.infolist()
    if len(members) != len(wanted):
        raise ValueError(f"it holds {len(members)} arrays where {len(wanted)} are needed")
    parameters = []
    for member, (kind, shape) in zip(members, wanted):
        array = _array(archive, member, kind, shape)
        if kind == "weight":
            parameters.append(Parameters(array))
        else:
            parameters[-1] = parameters[-1]._replace(bias=array)
    return tuple(parameters)


def _array(archive, member, kind, shape):
    """One array, after its size was held against what is needed: no claim of the file is trusted."""
    if member.filename.removesuffix(".npy").rpartition(".")[2] != kind:
        raise ValueError(f"{member.filename[:40]} stands where a {kind} of shape {shape} is needed")
    if member.file_size > 8 * math.prod(shape) + HEADER:
        raise ValueError(f"{member.filename[:40]} has {member.file_size} bytes, too many for the shape {shape}")
    if member.compress_type not in COMPRESSIONS:
        raise ValueError(f"{member.filename[:40]} is compressed in another way than numpy does it")
    file = io.BytesIO(archive.read(member))
    version = np.lib.format.read_magic(file)
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    found, fortran, dtype = read_header(file)
    if found != shape or fortran or dtype.name not in TYPES:
        raise ValueError(f"{member.filename[:40]} is {dtype.name} of shape {found}; {shape} is needed")
    with np.errstate(over="ignore"):  # what is too large is infinite, and refused below
        array = np.frombuffer(file.read(), dtype).reshape(shape).astype(np.float32)
    if not np.isfinite(array).all():
        raise ValueError(f"{member.filename[:40]} holds NaN or infinity, or numbers too large for float32")
    return array
