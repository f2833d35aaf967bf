"""Results of long runs kept on disk, piece by piece, so that a run that was interrupted goes on where it was.

A piece is a dict of arrays under a name and the parameters it was computed with; it is found again only for the same
parameters and the same version of lpkit. The file begins with the SHA-256 of what follows: one that was cut off or
changed is computed anew, and it is read only after that, without unpickling.
"""

import hashlib
import io
import json
import re
from pathlib import Path

import numpy as np

from lpkit.checks import check_writable, shown, write_atomically
from lpkit.publish import versions

__all__ = ["kept", "runs_folder"]

RESERVED = {"file", "allow_pickle"}  # arguments of numpy.savez
DIGEST = hashlib.sha256().digest_size


def runs_folder():
    """Where pieces are kept unless another folder is named: ``~/.cache/lpkit/runs``.

    Examples
    --------
    >>> runs_folder().parts[-3:]
    ('.cache', 'lpkit', 'runs')
    """
    return Path.home() / ".cache" / "lpkit" / "runs"


def kept(name, parameters, compute, *, folder=None):
    """The arrays that `compute` returns: from the disk if they were computed with these parameters before.

    Parameters
    ----------
    name : str
        Letters, digits, '_' and '-'; begins the name of the file.
    parameters : dict
        All that the result depends on, as JSON can write it.
    compute : callable
        Without arguments, returns a dict of arrays of numbers.
    folder : path, optional
        Default `runs_folder`.

    Returns
    -------
    dict of str to ndarray

    Raises
    ------
    ValueError
        If the name, the parameters or what was computed cannot be used, or the folder cannot be written to (before
        anything is computed).

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     first = kept("sum", {"n": 3}, lambda: {"sum": np.arange(3).sum()}, folder=folder)
    ...     again = kept("sum", {"n": 3}, lambda: 1 / 0, folder=folder)
    >>> int(again["sum"])
    3
    """
    path = Path(folder or runs_folder()) / _file_name(name, parameters)
    found = _read(path)
    if found is None:
        check_writable(path)
        found, stream = _arrays(compute()), io.BytesIO()
        np.savez(stream, **found)
        write_atomically(path, hashlib.sha256(stream.getvalue()).digest() + stream.getvalue())
    return found


def _file_name(name, parameters):
    if not (isinstance(name, str) and re.fullmatch(r"[\w-]+", name, re.ASCII)):
        raise ValueError(f"name is {shown(name)}; use letters, digits, '_' and '-'")
    try:
        text = json.dumps([versions()["lpkit"], parameters], sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"parameters cannot be written as JSON ({error}); give numbers, texts and lists") from None
    return f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:32]}.npz"


def _arrays(result):
    """What was computed, as arrays that numpy can write without pickling."""
    if not isinstance(result, dict) or not all(isinstance(key, str) for key in result) or RESERVED & set(result):
        raise ValueError(f"what was computed is {shown(result)}; give a dict of arrays, by names other than "
                         f"{', '.join(sorted(RESERVED))}")  # fmt: skip
    arrays = {key: np.asarray(array) for key, array in result.items()}
    for key, array in arrays.items():
        if array.dtype.hasobject:
            raise ValueError(f"{shown(key)} of what was computed holds objects; give arrays of numbers")
    return arrays


def _read(path):
    """The arrays in the file, or None if there is none that is whole."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    if hashlib.sha256(content[DIGEST:]).digest() != content[:DIGEST]:
        return None
    try:
        with np.load(io.BytesIO(content[DIGEST:]), allow_pickle=False) as arrays:
            return dict(arrays)
    except Exception:  # noqa: BLE001 - a file with the right digest that is no such archive was not written here
        return None
