"""Checks of what comes in, and safe ways to read and write files.

Every error is one sentence: what was given, what is allowed, what to do.
"""

import difflib
import errno
import math
import numbers
import os
import re
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import numpy as np

__all__ = [
    "whole_number", "real", "pair", "choice", "unknown_name", "plain", "not_installed", "short", "shown", "is_file",
    "read_text", "write_atomically", "write_all", "check_writable",
]  # fmt: skip

LARGEST_SIZE = 2**40  # no layer, array or batch is larger; products are checked again where they are formed
LARGEST_FLOAT = sys.float_info.max
LONGEST_SHOWN = 60  # characters of a value in a message
MOST_KNOWN = 16  # names listed in a message
MOST_COMPARED = 5000  # names among which near ones are sought
LARGEST_FILE = 2**28  # bytes; a file of text that is read whole


def whole_number(value, name, *, least=1, most=LARGEST_SIZE):
    """`value` as a Python int between `least` and `most`.

    Integral floats (``32.0``) and numpy integers are taken; fractions, NaN, booleans and text are refused.

    Parameters
    ----------
    value : number
    name : str
        Of the argument, for the error.
    least, most : int

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
    value = plain(value)
    number = isinstance(value, numbers.Real) and not isinstance(value, (bool, np.timedelta64))
    if not number or not least <= value <= most or value != int(value):
        raise ValueError(f"{name} is {shown(value)}; it must be a whole number from {least} to {most}")
    return int(value)


def real(value, name, *, least=0.0, most=math.inf, above=False):
    """`value` as a finite float in [least, most], or above `least`.

    Parameters
    ----------
    value : number
    name : str
        Of the argument, for the error.
    least, most : float
    above : bool
        Whether `least` itself is refused.

    Raises
    ------
    ValueError
        If it is text, a boolean, not finite or out of range.

    Examples
    --------
    >>> real(np.float32(0.5), "mu")
    0.5
    """
    value = plain(value)
    good = isinstance(value, numbers.Real) and not isinstance(value, bool) and -LARGEST_FLOAT <= value <= LARGEST_FLOAT
    if not good or not least <= value <= most or (above and value == least):
        low = f"above {least:g}" if above else f"of at least {least:g}"
        high = "" if most == math.inf else f" and at most {most:g}"
        raise ValueError(f"{name} is {shown(value)}; it must be a finite number {low}{high}")
    return float(value)


def plain(value):
    """A numpy scalar (or an array of no dimension) as the Python value it stands for; anything else as it is.

    Examples
    --------
    >>> plain(np.float16(3)), plain("3")
    (3.0, '3')
    """
    scalar = isinstance(value, (np.generic, np.ndarray)) and value.ndim == 0 and value.dtype.kind in "biufcUS"
    return value.item() if scalar else value


def not_installed(package, extra):
    """The error for a package that is not there: how to get it with its extra.

    Examples
    --------
    >>> print(not_installed("torch", "torch"))
    torch is not installed here; get it with the extra: pip install '.[torch]' in the clone of lpkit
    """
    return ValueError(f"{package} is not installed here; get it with the extra: pip install '.[{extra}]' in the clone "
                      "of lpkit")  # fmt: skip


def short(name, most=40):
    """A name for a message, without quotes, cut after about `most` characters.

    Examples
    --------
    >>> short("delta2"), short("x" * 5000, 6)
    ('delta2', 'xxxxxx...')
    """
    name = str(name)
    return name if len(name) <= most else name[:most] + "..."


def shown(value, most=LONGEST_SHOWN):
    """`value` as a message shows it: plain Python values on one line, cut after about `most` characters.

    Examples
    --------
    >>> print(shown(np.int64(3)), shown("x" * 5000, 6), shown(10**5000), shown((np.int64(3), np.ones(2))))
    3 'xxxxxx...' a whole number of about 5001 digits (3, [1.0, 1.0])
    """
    value = _plain_parts(value)
    if isinstance(value, str):
        return repr(value if len(value) <= most else value[:most] + "...")
    if isinstance(value, int) and value.bit_length() > 4096:
        return f"a whole number of about {int(value.bit_length() * math.log10(2)) + 1} digits"
    try:
        text = re.sub(r"\s*\n\s*", " ", str(value) if isinstance(value, np.generic) else repr(value))
    except ValueError:  # it holds a whole number of more digits than Python writes
        return f"a {type(value).__name__} of very long numbers"
    return text if len(text) <= most else text[:most] + "..."


def _plain_parts(value, depth=3):
    """`value`, and what lists, tuples and arrays hold, as plain Python values; `depth` bounds lists within lists."""
    if isinstance(value, np.ndarray) and value.ndim:
        return [_plain_parts(part, depth) for part in value[:LONGEST_SHOWN].tolist()]
    if type(value) in (list, tuple) and depth:
        return type(value)(_plain_parts(part, depth - 1) for part in value)
    return plain(value)


def pair(value, name, *, least=1):
    """`value` as a (vertical, horizontal) pair of whole numbers; one number stands for both.

    Parameters
    ----------
    value : int or (int, int)
    name : str
        Of the argument, for the error.
    least : int

    Raises
    ------
    ValueError
        If it is neither, or one is below `least`.

    Examples
    --------
    >>> pair(3, "kernel"), pair((1, 7), "kernel")
    ((3, 3), (1, 7))
    """
    several = isinstance(value, (tuple, list)) or (isinstance(value, np.ndarray) and value.ndim == 1)
    values = tuple(value) if several else (value, value)
    if len(values) != 2:
        raise ValueError(f"{name} is {shown(value)}; it must be one whole number or a pair (vertical, horizontal)")
    return tuple(whole_number(v, name, least=least) for v in values)


def choice(value, name, allowed):
    """`value` if it is among `allowed`, else an error that lists what is, nearest first.

    Parameters
    ----------
    value
        What was given.
    name : str
        Of the argument, for the error.
    allowed : iterable

    Raises
    ------
    ValueError
        `unknown_name`, if it is not; ``True`` is not 1, and 1 not ``"1"``.

    Examples
    --------
    >>> choice("ws", "dataflow", ("ws", "os", "is"))
    'ws'
    """
    given = plain(value)
    for known in allowed:
        if given is known or (isinstance(given, type(known)) and given == known):
            return known
    raise unknown_name(value, name, allowed)


def unknown_name(value, name, allowed, *, said=None):
    """A `ValueError` for a name that is not among `allowed`, with the near ones.

    Parameters
    ----------
    value
        What was given.
    name : str
        Of the argument.
    allowed : iterable
        What is known.
    said : str, optional
        What to say before the near ones, by default ``name is value``.

    Examples
    --------
    >>> print(unknown_name("vgg61", "network", ["alexnet", "vgg16"]))
    network is 'vgg61'; did you mean 'vgg16'? Known: 'alexnet', 'vgg16'
    """
    allowed = list(allowed)
    near = difflib.get_close_matches(_start(value), map(_start, allowed[:MOST_COMPARED]), n=3)
    hint = f" did you mean {' or '.join(map(shown, near))}?" if near else ""
    more = f" and {len(allowed) - MOST_KNOWN} more" if len(allowed) > MOST_KNOWN else ""
    known = ", ".join(shown(a, 40) for a in allowed[:MOST_KNOWN])
    said = said or f"{name} is {shown(value)}"
    return ValueError(f"{said};{hint} Known: {known}{more}")


def _start(name):
    """What is compared of a name; a longer one is near to nothing."""
    return name[:LONGEST_SHOWN] if isinstance(name, str) else shown(name)


def is_file(path):
    """Whether there is a regular file at `path`; there is none under a name that no system holds.

    Examples
    --------
    >>> is_file("x" * 5000)
    False
    """
    try:
        return Path(path).is_file()
    except OSError:  # of a name that is too long, a folder that may not be entered
        return False


def read_text(path):
    """Text of the file at `path` (UTF-8, byte order mark removed), never executed or unpickled.

    Raises
    ------
    FileNotFoundError, ValueError
        If there is no such file, or it is a folder, a pipe or a device, is larger than 256 MB, is not text or is
        empty.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "net.csv")
    ...     _ = file.write_text("name,op", encoding="utf-8-sig")
    ...     read_text(file)
    'name,op'
    """
    path = Path(path)
    if not is_file(path) and not os.path.exists(path):
        raise FileNotFoundError(f"there is no file {shown(str(path), 200)}; check the path")
    if path.is_dir():
        raise ValueError(f"{str(path)!r} is a folder; give a file in it")
    if not path.is_file():  # a device may have no end, and a pipe can be read only once
        raise ValueError(f"{str(path)!r} is a pipe or a device; write what it gives to a file and give that")
    if (size := path.stat().st_size) > LARGEST_FILE:
        raise ValueError(f"{str(path)!r} has {size:,} bytes; files of at most {LARGEST_FILE:,} bytes are read")
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

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_atomically(f"{folder}/new/net.csv", "name,op").read_text()
    'name,op'
    """
    write_all({path: content})
    return Path(path)


def write_all(contents):
    """Write several files, a dict of path -> str or bytes; all lie there under temporary names before one is renamed.

    Raises
    ------
    ValueError
        If one of them cannot be written: then none is.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_all({f"{folder}/a.txt": "one", f"{folder}/new/b.bin": b"two"})
    ...     Path(folder, "a.txt").read_text(), Path(folder, "new/b.bin").read_bytes()
    ('one', b'two')
    """
    staged = {}
    try:
        for path, content in contents.items():
            with _writing(path):
                _stage(Path(path), content, staged)
        for path, temporary in staged.items():
            with _writing(path):
                os.replace(temporary, path)
    finally:
        for temporary in staged.values():
            if os.path.exists(temporary):
                os.unlink(temporary)


def check_writable(path):
    """Raise the `ValueError` of `write_all` if no file can be written to `path`; leaves nothing behind.

    Raises
    ------
    ValueError
        If it cannot: a folder is there, or the system refuses.

    Examples
    --------
    >>> check_writable(Path(tempfile.gettempdir()) / "new" / "plan.json")
    """
    path = Path(path)
    with _writing(path):
        _no_folder(path)
        there = next(folder for folder in path.absolute().parents if folder.exists())
        with tempfile.TemporaryFile(dir=there):  # permissions alone say little to root and of read-only systems
            pass


def _stage(path, content, staged):
    """Write `content` beside `path` and note in `staged` where."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _no_folder(path)
    handle, staged[path] = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(handle, "wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
    os.chmod(staged[path], 0o666 & ~_umask())


def _no_folder(path):
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))


@contextmanager
def _writing(path):
    """An error of the system while `path` is written, as one sentence."""
    try:
        yield
    except OSError as error:
        raise ValueError(f"cannot write {str(path)!r}: {error.strerror}; choose a folder you may write to") from None


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask
