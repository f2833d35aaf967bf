"""Checks of what comes in, and safe ways to read and write files.

Every error is one sentence: what was given, what is allowed, what to do.
"""

import difflib
import numbers
import os
import tempfile
from pathlib import Path

__all__ = ["whole_number", "pair", "choice", "unknown_name", "read_text", "write_atomically"]

LARGEST_SIZE = 2**40  # no layer, array or batch is larger; products are checked again where they are formed


def whole_number(value, name, *, least=1, most=LARGEST_SIZE):
    """`value` as a Python int between `least` and `most`.

    Integral floats (``32.0``) and numpy integers are taken; fractions, NaN, booleans and text are refused.

    Raises
    ------
    ValueError
        Names the argument, what was given and what is allowed.

    Examples
    --------
    >>> whole_number(32.0, "batch")
    32
    >>> whole_number(0, "batch")
    Traceback (most recent call last):
    ...
    ValueError: batch is 0; it must be a whole number from 1 to 1099511627776
    """
    number = isinstance(value, numbers.Real) and not isinstance(value, bool) and least <= value <= most
    if not number or value != int(value):
        shown = value.item() if hasattr(value, "item") and not hasattr(value, "__len__") else value
        raise ValueError(f"{name} is {shown!r}; it must be a whole number from {least} to {most}")
    return int(value)


def pair(value, name, *, least=1):
    """`value` as a (vertical, horizontal) pair of whole numbers; one number stands for both.

    Examples
    --------
    >>> pair(3, "kernel"), pair((1, 7), "kernel")
    ((3, 3), (1, 7))
    """
    values = tuple(value) if isinstance(value, (tuple, list)) else (value, value)
    if len(values) != 2:
        raise ValueError(f"{name} is {value!r}; it must be one whole number or a pair (vertical, horizontal)")
    return tuple(whole_number(v, name, least=least) for v in values)


def choice(value, name, allowed):
    """`value` if it is among `allowed`, else an error that lists what is, nearest first.

    Examples
    --------
    >>> choice("ws", "dataflow", ("ws", "os", "is"))
    'ws'
    """
    if value in allowed:
        return value
    raise unknown_name(value, name, allowed)


def unknown_name(value, name, allowed):
    """A `ValueError` for a name that is not among `allowed`, with the near ones.

    Examples
    --------
    >>> print(unknown_name("vgg61", "network", ["alexnet", "vgg16"]))
    network is 'vgg61'; did you mean 'vgg16'? Known: 'alexnet', 'vgg16'
    """
    near = difflib.get_close_matches(str(value), [str(a) for a in allowed], n=3)
    hint = f" did you mean {' or '.join(map(repr, near))}?" if near else ""
    return ValueError(f"{name} is {value!r};{hint} Known: {', '.join(map(repr, allowed))}")


def read_text(path):
    """Text of the file at `path` (UTF-8, byte order mark removed), never executed or unpickled.

    Raises
    ------
    FileNotFoundError, ValueError
        If there is no such file, or it is a folder, is not text or is empty.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"there is no file {str(path)!r}; check the path")
    if path.is_dir():
        raise ValueError(f"{str(path)!r} is a folder; give a file in it")
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{str(path)!r} is not text (byte {error.start} is not UTF-8); give a text file") from None
    except OSError as error:
        raise ValueError(f"{str(path)!r} cannot be read: {error.strerror}") from None
    if "\0" in text:
        raise ValueError(f"{str(path)!r} is not text (it holds a zero byte); give a text file")
    if not text.strip():
        raise ValueError(f"{str(path)!r} is empty; it may have been cut off")
    return text


def write_atomically(path, content):
    """Write `content` (str or bytes) to `path` under a temporary name, then rename: never half a file.

    Raises
    ------
    ValueError
        If the folder cannot be made or written to.
    """
    path = Path(path)
    data = content.encode() if isinstance(content, str) else content
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except OSError as error:
        if temporary and os.path.exists(temporary):
            os.unlink(temporary)
        raise ValueError(f"cannot write {str(path)!r}: {error.strerror}; choose a folder you may write to") from None
    return path


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask
