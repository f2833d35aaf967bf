"""Checks of input: what is taken, what is refused and with which sentence."""

import math
import os

import numpy as np
import pytest

from lpkit.checks import choice, pair, read_text, unknown_name, whole_number, write_atomically


@pytest.mark.parametrize("value", [1, 1.0, np.int64(1), np.float64(1.0)])
def test_whole_number_takes_integral_values(value):
    assert whole_number(value, "n") == 1 and type(whole_number(value, "n")) is int


@pytest.mark.parametrize("value", [0, -1, 1.5, math.nan, math.inf, True, "1", None, 2**41, [1], 1j, 10**400, -(10**400)])
def test_whole_number_refuses_the_rest_in_one_sentence(value):
    with pytest.raises(ValueError, match=r"n is .*; it must be a whole number from 1 to 1099511627776$"):
        whole_number(value, "n")


def test_whole_number_shows_plain_values():
    with pytest.raises(ValueError, match=r"^n is 0; it"):
        whole_number(np.int64(0), "n")


def test_pair():
    assert pair(2, "stride") == (2, 2) and pair([1, 3], "stride") == (1, 3) and pair(0, "padding", least=0) == (0, 0)
    with pytest.raises(ValueError, match="a pair"):
        pair((1, 2, 3), "stride")


def test_choice_names_the_near_ones():
    assert choice("os", "dataflow", ("ws", "os")) == "os"
    with pytest.raises(ValueError, match=r"dataflow is 'w'; did you mean 'ws'\? Known: 'ws', 'os'"):
        choice("w", "dataflow", ("ws", "os"))
    assert "did you mean" not in str(unknown_name("zzz", "network", ["vgg16"]))


def test_read_text(tmp_path):
    good = tmp_path / "good.csv"
    good.write_bytes(b"\xef\xbb\xbfname\r\n")
    assert read_text(good) == "name\r\n"
    with pytest.raises(FileNotFoundError, match="there is no file"):
        read_text(tmp_path / "none.csv")
    with pytest.raises(ValueError, match="is a folder"):
        read_text(tmp_path)
    for content, words in ((b"", "is empty"), (b"  \n", "is empty"), (b"a\0b", "zero byte"), (b"\xff\xfe", "not UTF-8")):
        good.write_bytes(content)
        with pytest.raises(ValueError, match=words):
            read_text(good)


def test_write_atomically_replaces_whole_files(tmp_path):
    path = tmp_path / "new" / "file.txt"
    assert write_atomically(path, "one").read_text() == "one"
    assert write_atomically(path, b"two").read_bytes() == b"two"
    assert os.listdir(path.parent) == ["file.txt"]


def test_write_atomically_says_what_is_in_the_way(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(ValueError, match="cannot write"):
        write_atomically(tmp_path / "file" / "below.txt", "x")
    (tmp_path / "folder").mkdir()
    with pytest.raises(ValueError, match="cannot write"):
        write_atomically(tmp_path / "folder", "x")
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"]  # no temporary file is left
