"""The badges of README: well-formed, and saying what the files beside them say."""

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from lpkit.badges import badge

ROOT = Path(__file__).parents[1]
BADGES = sorted((ROOT / "figures" / "badges").glob("*.svg"))
SVG = "{http://www.w3.org/2000/svg}"


def said(text):
    """The words of a badge: its label and its value."""
    return [part.text for part in ElementTree.fromstring(text).iter(f"{SVG}text")]


@pytest.mark.parametrize("label, value", [("licence", "MIT"), ("a < b", 'R&D "x"'), ("", "1")])
def test_a_badge_says_what_it_is_given_whatever_the_letters(label, value):
    picture = ElementTree.fromstring(badge(label, value))
    assert [text or "" for text in said(badge(label, value))] == [label, value]
    assert picture.find(f"{SVG}title").text == f"{label}: {value}"
    ends = [int(t.get("x")) + int(t.get("textLength")) for t in picture.iter(f"{SVG}text")]
    assert ends[0] < ends[1] < int(picture.get("width"))


def test_readme_shows_every_badge_and_its_table_adds_up_to_the_one_of_claims():
    readme = (ROOT / "README.md").read_text()
    assert len(BADGES) == 4 and all(f"(figures/badges/{path.name})" in readme for path in BADGES)
    heading = re.search(r"^\| table or figure \| (.*) \|$", readme, re.M)[1].split(" | ")
    rows = re.findall(r"^\| \[.*\]\(notebooks/\w+\.ipynb\) \| ([\d |]+) \|$", readme, re.M)
    sums = [sum(column) for column in zip(*(map(int, row.split(" | ")) for row in rows))]
    claims, reproduced = (sums[heading.index(word)] for word in ("claims", "reproduced"))
    assert said((ROOT / "figures/badges/claims.svg").read_text())[1] == f"{reproduced} of {claims} reproduced"


def test_the_badge_of_notebooks_counts_them():
    count = len(list((ROOT / "notebooks").glob("*.ipynb")))
    assert said((ROOT / "figures/badges/notebooks.svg").read_text())[1] == str(count)
