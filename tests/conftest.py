"""What all tests share. Property tests draw the same examples in every run, and none fails for being slow."""

import json

import pytest
from hypothesis import settings

settings.register_profile("lpkit", derandomize=True, deadline=None)
settings.load_profile("lpkit")


@pytest.fixture
def columns():
    """Characters of a line of the terminal that the command believes in."""
    return 200


@pytest.fixture
def lpkit(capsys, monkeypatch, columns):
    """Run the command in this process: (status, standard output, standard error)."""
    from lpkit.__main__ import main

    monkeypatch.setenv("COLUMNS", str(columns))

    def run(*arguments):
        capsys.readouterr()
        status = main([str(a) for a in arguments])
        return status, *capsys.readouterr()

    return run


@pytest.fixture
def answer(lpkit):
    """The JSON that a command prints when it succeeds."""
    def read(*arguments):
        status, out, err = lpkit(*arguments, "--json")
        assert (status, err) == (0, "")
        return json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))

    return read
