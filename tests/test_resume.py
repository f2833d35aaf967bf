"""Pieces on disk: found again for the same parameters only, and never believed when damaged."""

import hashlib

import numpy as np
import pytest

from lpkit.resume import DIGEST, kept


def counted(value=1.5):
    calls = []

    def compute():
        calls.append(value)
        return {"values": np.array([[value, np.nan]]), "steps": np.arange(3)}

    return compute, calls


def test_computed_once(tmp_path):
    compute, calls = counted()
    first, again = (kept("piece", {"lr": 0.1}, compute, folder=tmp_path) for _ in range(2))
    assert len(calls) == 1 and first.keys() == again.keys()
    assert all(np.array_equal(first[k], again[k], equal_nan=True) and first[k].dtype == again[k].dtype for k in first)


def test_other_parameters_are_another_piece(tmp_path):
    compute, calls = counted()
    for parameters in ({"lr": 0.1}, {"lr": 0.2}, {"lr": 0.1, "K": 1}):
        kept("piece", parameters, compute, folder=tmp_path)
    kept("other", {"lr": 0.1}, compute, folder=tmp_path)
    assert len(calls) == 4 == len(list(tmp_path.iterdir()))


def test_interrupted_run_goes_on(tmp_path):
    """What was done before the break is there, the piece that was broken off is not, and leaves no file."""
    compute, calls = counted()
    kept("piece", {"n": 1}, compute, folder=tmp_path)

    def broken():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kept("piece", {"n": 2}, broken, folder=tmp_path)
    assert len(list(tmp_path.iterdir())) == 1
    for n in (1, 2):
        kept("piece", {"n": n}, compute, folder=tmp_path)
    assert len(calls) == 2


def cut(content):
    return content[:-7]


def emptied(content):
    return b""


def flipped(content):
    return content[:DIGEST + 50] + bytes([content[DIGEST + 50] ^ 1]) + content[DIGEST + 51:]


@pytest.mark.parametrize("damage", [cut, emptied, flipped])
def test_damaged_file_is_computed_anew(tmp_path, damage):
    compute, calls = counted()
    first = kept("piece", {}, compute, folder=tmp_path)
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    again = kept("piece", {}, compute, folder=tmp_path)
    assert len(calls) == 2 and np.array_equal(first["values"], again["values"], equal_nan=True)
    assert hashlib.sha256(file.read_bytes()[DIGEST:]).digest() == file.read_bytes()[:DIGEST]


@pytest.mark.parametrize("name, parameters, message", [
    ("../x", {}, "name is '../x'; use letters, digits, '_' and '-'"),
    ("x", {"lr": float("nan")}, "parameters cannot be written as JSON"),
    ("x", {"lr": {1, 2}}, "parameters cannot be written as JSON"),
])  # fmt: skip
def test_bad_input(tmp_path, name, parameters, message):
    with pytest.raises(ValueError, match=message.replace(".", r"\.")):
        kept(name, parameters, dict, folder=tmp_path)


def test_a_folder_that_cannot_be_written_to_is_said_before_anything_is_computed(tmp_path):
    (tmp_path / "file").write_text("no folder")
    compute, calls = counted()
    with pytest.raises(ValueError, match="cannot write .*choose a folder you may write to"):
        kept("piece", {}, compute, folder=tmp_path / "file")
    assert not calls
