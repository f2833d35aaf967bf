"""Puts what a notebook made where it belongs: figures/, data/results/, figures/manifest.json, notebooks/.

A notebook publishes into a folder of its own. Only one process, that of the runner, copies files from there and writes
the manifest, one notebook after the other; each file is replaced whole, and none before there was room for all.
"""

import json
import os
import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from lpkit.checks import check_writable, write_all
from lpkit.notebooks import joined, normalise, notebook_text, read_notebook

__all__ = ["STATE", "check_folder", "deliver", "manifest", "sources"]

STATE = ".lpkit"  # folder of what is no result: the work in progress, notes of a batch, failed notebooks


def manifest(folder):
    """The manifest of `folder`: name of a figure or table -> its notebook, parameters, versions, sha256 of the table.

    Raises
    ------
    ValueError
        If the file is no manifest.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     manifest(folder)  # nothing was made there yet
    {}
    """
    path = Path(folder) / "figures" / "manifest.json"
    try:
        entries = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        valid = all({"notebook", "parameters", "results_sha256"} <= entry.keys() for entry in entries.values())
    except OSError as error:
        raise ValueError(f"{str(path)!r} cannot be read: {error.strerror}") from None
    except (ValueError, AttributeError, RecursionError):
        valid = False
    if not valid:
        raise ValueError(f"{str(path)!r} is not a manifest of figures; restore it, or remove it and run all notebooks")
    return entries


def sources(notebook):
    """What the reader wrote in a notebook: kind and text of each cell.

    Examples
    --------
    >>> sources({"cells": [{"cell_type": "markdown", "source": ["# Title"]}]})
    [('markdown', '# Title')]
    """
    return [(cell["cell_type"], joined(cell["source"])) for cell in notebook["cells"]]


def check_folder(folder, ids):
    """Raise a `ValueError` if what the notebooks `ids` make could not be delivered to `folder`.

    Raises
    ------
    ValueError
        If the manifest there is none, or a file could not be written.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     check_folder(Path(folder), ["lp_table1_networks"])
    """
    manifest(folder)
    notebooks = (f"notebooks/{id}.ipynb" for id in ids)
    for file in ("figures/manifest.json", "data/results/table.csv", *notebooks):
        check_writable(folder / file)


def deliver(task, outcome, settings, *, root, folder):
    """Copy what the executed `task` made to `folder`; if that or `task` failed, keep notebook and log.

    Returns the outcome; never raises for what this one notebook did.

    Parameters
    ----------
    task : lpkit.execute.Task
    outcome : lpkit.execute.Outcome
    settings : dict
        Value of every parameter, for the manifest.
    root, folder : Path
        The repository, and where the results go.
    """
    failed = folder / (STATE if folder == root else "") / "failed" / task.id
    if outcome.ok:
        outcome = replace(outcome, error=_misnamed(task) or _delivered(task, settings, root, folder))
    if outcome.ok:
        _remove(f"{failed}.ipynb", f"{failed}.log")
    else:
        outcome = replace(outcome, error=outcome.error + _kept(task, failed))
    shutil.rmtree(task.folder, ignore_errors=True)
    return outcome


def _delivered(task, settings, root, folder):
    """The error in one line, and then nothing is delivered; or ""."""
    try:
        write_all(_published(task, settings, folder) | _refreshed(task, root, folder))
    except (OSError, ValueError) as error:
        return str(error)
    return ""


def _kept(task, failed):
    """Keep notebook and log; where the log is, as the end of the error."""
    try:
        failed.parent.mkdir(parents=True, exist_ok=True)
        for made, kept in (("notebook.ipynb", f"{failed}.ipynb"), ("log", f"{failed}.log")):
            if (task.folder / made).exists():
                os.replace(task.folder / made, kept)
    except OSError as error:
        return f"; its log could not be kept: {error.strerror}"
    return f"; see {failed}.log" if Path(f"{failed}.log").exists() else ""


def _remove(*files):
    for file in files:
        with suppress(OSError):  # what failed before and is left over does no harm
            os.unlink(file)


def _misnamed(task):
    names = {path.stem for kind in ("figures", "data/results") for path in (task.folder / kind).glob("*")}
    wrong = [name for name in sorted(names) if name != task.id and not name.startswith(f"{task.id}_")]
    return f"published as {wrong[0]!r}; the name must be the notebook's id, or begin with it and '_'" if wrong else ""


def _published(task, settings, folder):
    """Path -> content of the figures and tables, and of the manifest if it changes."""
    known, contents = manifest(folder), {}
    entries = {name: entry for name, entry in known.items() if entry["notebook"] != task.id}
    for kind in ("figures", "data/results"):
        for path in sorted((task.folder / kind).glob("*")):
            if path.suffix == ".json":
                about = {"notebook": task.id, "parameters": settings}
                entries[path.stem] = json.loads(path.read_text(encoding="utf-8")) | about
            else:
                contents[folder / kind / path.name] = path.read_bytes()
    if entries != known:
        contents[folder / "figures" / "manifest.json"] = json.dumps(entries, indent=1, sort_keys=True) + "\n"
    return contents


def _refreshed(task, root, folder):
    """Path -> text of the executed notebook; none if it changes nothing or the committed one was edited meanwhile."""
    target = folder / "notebooks" / f"{task.id}.ipynb"
    text = notebook_text(normalise(json.loads((task.folder / "notebook.ipynb").read_text(encoding="utf-8"))))
    edited = folder == root and sources(json.loads(text)) != sources(read_notebook(task.id, root=root))
    return {} if edited or (target.exists() and target.read_text(encoding="utf-8") == text) else {target: text}
