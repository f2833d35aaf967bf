"""The files around the library agree with each other."""

import re
import tomllib
from pathlib import Path

import pytest

import lpkit

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def required():
    """Requirement lines of pyproject.toml: the core and the extras that the repository's commands need."""
    extras = PROJECT["optional-dependencies"]
    return set(PROJECT["dependencies"] + extras["notebooks"] + extras["test"])


def test_environment_yml_says_the_same_as_pyproject():
    text = (ROOT / "environment.yml").read_text()
    listed = set(re.findall(r"^  - ([\w.-]+[<>=].*)$", text, re.M))
    python = "python" + PROJECT["requires-python"]
    assert listed == required() | {python}


def test_the_packages_of_the_card_are_there():
    names = {re.split("[<>=]", line)[0] for line in required()}
    assert {"jupyterlab", "numpy", "scipy", "matplotlib", "ipywidgets", "papermill", "pytest", "nbval"} <= names


def test_constraints_pin_every_requirement_within_its_bounds():
    pins = dict(re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(), re.M))
    for line in required():
        name, least = line.split(">=")
        assert tuple(map(int, pins[name].split(".")[:2])) >= tuple(map(int, least.split(".")[:2])), line


def test_every_public_name_exists_once():
    assert len(set(lpkit.__all__)) == len(lpkit.__all__)
    for name in lpkit.__all__:
        assert getattr(lpkit, name) is not None


@pytest.mark.parametrize("name", [n for n in lpkit.__all__ if n not in ("NETWORKS", "READINGS", "PLANNERS", "SCHEDULES",
                                                                         "SENSITIVITY_VALUES")])
def test_public_names_are_documented(name):
    assert len(getattr(lpkit, name).__doc__.strip()) > 20


def test_nothing_speaks_of_the_machine_it_was_made_on():
    words = re.compile(r"/work/|/tmp/|\.\./shared|pypi-more|\bCEO\b")
    for folder in ("lpkit", "notebooks", "data", "benchmarks", "figures"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".py", ".ipynb", ".csv", ".md", ".json"):
                assert not words.search(path.read_text()), path


def test_citation_names_version_and_both_papers():
    text = (ROOT / "CITATION.cff").read_text()
    assert f"version: {PROJECT['version']}" in text and "2108.06629" in text and "1910.05104" in text
