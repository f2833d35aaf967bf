"""Checks of input: what is taken, what is refused and with which sentence."""

import errno
import math
import os
import tempfile

import numpy as np
import pandas as pd
import pytest

from lpkit.checks import (
    check_writable, choice, pair, plain, read_text, real, shown, unknown_name, whole_number, write_all,
    write_atomically,
)  # fmt: skip


@pytest.mark.parametrize("value", [1, 1.0, np.int64(1), np.float64(1.0), np.float16(1), np.longdouble(1),
                                   np.uint8(1), np.array(1)])
def test_whole_number_takes_integral_values(value):
    assert whole_number(value, "n") == 1 and type(whole_number(value, "n")) is int


@pytest.mark.parametrize("value", [math.nan, math.inf, -1, True, "1", None, [1], 1j, 10**400, -(10**400)])
def test_real_refuses_what_is_no_finite_number(value):
    with pytest.raises(ValueError, match="x is .*; it must be a finite number of at least 0$"):
        real(value, "x")


@pytest.mark.parametrize("value", [
    0, -1, 1.5, math.nan, math.inf, True, "1", None, 2**41, [1], 1j, 10**400, -(10**400),
])  # fmt: skip
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
    told = {b"": "is empty", b"  \n": "is empty", b"a\0b": "zero byte", b"\xff\xfe": "not UTF-8"}
    for content, words in told.items():
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


AWKWARD = [10**5000, -(10**5000), "9" * 5000, "two\nlines", [3] * 5000, [10**5000, 3], np.array([[3, 3], [1, 1]]),
           pd.NA, pd.NaT, np.datetime64("NaT"), np.timedelta64(3, "s"), np.timedelta64(3, "ns"), np.float16(3.5),
           np.longdouble(0.5), np.array(["a"]), pd.DataFrame({"a": [1, 2]}), {"a": 1}]  # fmt: skip


@pytest.mark.parametrize("value", AWKWARD, ids=lambda value: type(value).__name__)
def test_awkward_values_are_refused_in_one_short_sentence(value):
    for check in (lambda: whole_number(value, "n"), lambda: pair(value, "n"), lambda: choice(value, "n", ("ws", "os"))):
        with pytest.raises(ValueError, match="^n is ") as caught:
            check()
        assert len(str(caught.value)) < 200 and "\n" not in str(caught.value) and "np." not in str(caught.value)


def test_pairs_may_be_arrays():
    assert pair(np.array([3, 5]), "kernel") == (3, 5) == pair((np.int8(3), np.float16(5)), "kernel")
    with pytest.raises(ValueError, match=r"^kernel is \[3, 3, 3\];"):
        pair(np.array([3, 3, 3]), "kernel")


def test_choices_need_not_be_python_text():
    assert choice(np.str_("os"), "dataflow", ("ws", "os")) == "os"
    assert choice(None, "registers", (None, "min")) is None
    with pytest.raises(ValueError, match="Known: None, 'min'"):
        choice(np.array([3, 3]), "registers", (None, "min"))


def test_shown_is_plain_and_short():
    numbers = np.int64(3), np.float32(0.5), np.longdouble(0.5), np.array(3)
    assert [shown(number) for number in numbers] == ["3", "0.5", "0.5", "3"]
    assert shown("x" * 61) == repr("x" * 60 + "...") and shown("x" * 60) == repr("x" * 60)
    assert shown(10**5000) == "a whole number of about 5001 digits"
    assert shown([10**5000]) == "a list of very long numbers"
    assert plain(np.bool_(True)) is True and plain("a") == "a"


def test_long_lists_of_names_are_cut():
    message = str(unknown_name("layer4000x", "node", [f"layer{i}" for i in range(4001)]))
    assert "did you mean 'layer4000'" in message and message.endswith("'layer15' and 3985 more")
    message = str(unknown_name("x" * 5000, "node", ["y" * 5000] * 20))
    assert message.startswith("node is 'xxx") and message.endswith("and 4 more") and len(message) < 1000


# ---- what is no file, and several files ---------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_read_text_waits_for_no_pipe_and_reads_no_device_without_end(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/zero"):
        with pytest.raises(ValueError, match=f"'{path}' is a pipe or a device; write what it gives to a file and give"):
            read_text(path)


def test_read_text_refuses_what_would_fill_the_memory(tmp_path):
    with open(tmp_path / "large.csv", "wb") as file:
        file.truncate(2**28 + 1)  # a hole: it takes no room
    with pytest.raises(ValueError, match="large.csv' has 268,435,457 bytes; files of at most 268,435,456 bytes are"):
        read_text(tmp_path / "large.csv")


def test_several_files_are_written_all_or_none(tmp_path):
    write_all({tmp_path / "new" / "a": "one", tmp_path / "b": b"two"})
    assert ((tmp_path / "new" / "a").read_text(), (tmp_path / "b").read_text()) == ("one", "two")
    (tmp_path / "folder").mkdir()
    with pytest.raises(ValueError, match="cannot write '.*/folder': Is a directory; choose a folder you may write to"):
        write_all({tmp_path / "b": "three", tmp_path / "folder": "x"})
    assert (tmp_path / "b").read_text() == "two" and sorted(os.listdir(tmp_path)) == ["b", "folder", "new"]


def test_a_full_disk_leaves_neither_half_a_file_nor_a_temporary_one(tmp_path, monkeypatch):
    make = tempfile.mkstemp

    def full(*, prefix, **options):
        if prefix == ".second.":
            raise OSError(errno.ENOSPC, "No space left on device")
        return make(prefix=prefix, **options)

    monkeypatch.setattr(tempfile, "mkstemp", full)
    with pytest.raises(ValueError, match="cannot write '.*/second': No space left on device"):
        write_all({tmp_path / "first": "1", tmp_path / "second": "2"})
    assert os.listdir(tmp_path) == []


def test_check_writable_leaves_nothing_behind(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    check_writable(tmp_path / "new" / "sub" / "a.json")
    for path in ("file/a.json", "file/new/a.json", "folder"):
        with pytest.raises(ValueError, match=f"cannot write '{tmp_path / path}': .*; choose a folder you may write to"):
            check_writable(tmp_path / path)
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"]
