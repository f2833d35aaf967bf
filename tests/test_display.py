"""Tables have one text form in a terminal, in a notebook and on GitHub."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from lpkit.display import Table, cell, engineering, kilobytes


@pytest.mark.parametrize("value, text", [
    (1234567, "1,234,567"), (np.int64(12), "12"), (0.123456, "0.1235"), (np.float64(2.0), "2"), (float("nan"), "-"),
    (None, "-"), (True, "yes"), (np.bool_(False), "no"), (Fraction(7, 1), "7"), (Fraction(1, 3), "0.3333"),
    ("a|b\nc", "a/b c"),
])  # fmt: skip
def test_cell(value, text):
    assert cell(value) == text


def test_engineering_and_kilobytes():
    assert engineering(32159456) == "3.216e7" and engineering(0) == "0"
    assert [kilobytes(v) for v in (5, 2730, 4.8e6, 3e9)] == ["5 B", "2.73 kB", "4.8 MB", "3 GB"]


def test_table_aligns_numbers_right_and_shows_a_named_index():
    frame = pd.DataFrame({"cycles": [5, 1000]}, index=pd.Index(["a", "bb"], name="layer"))
    assert repr(Table(frame)) == "layer  cycles\na           5\nbb      1,000"
    assert Table(frame)._repr_markdown_().splitlines()[:2] == ["| layer | cycles |", "| :--- | ---: |"]


def test_an_empty_table_is_its_head():
    assert repr(Table(pd.DataFrame({"layer": []}))) == "layer"
