"""Puts what a notebook made where it belongs: figures/, data/results/, figures/manifest.json, notebooks/.

A notebook publishes into a folder of its own. Only one process, that of the runner, moves files from there and writes
the manifest, one notebook after the other; each file is replaced whole.
"""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

from lpkit.checks import write_atomically
from lpkit.notebooks import joined, normalise, notebook_text, read_notebook

__all__ = ["STATE", "deliver", "manifest", "sources"]

STATE = ".lpkit"  # folder of what is no result: the work in progress, notes of a batch, failed notebooks


def manifest(folder):
    """The manifest of `folder`: name of a figure or table -> its notebook, parameters, versions, sha256 of the table.

    Raises
    ------
    ValueError
        If the file is no manifest.
    """
    path = Path(folder) / "figures" / "manifest.json"
    try:
        entries = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        valid = all({"notebook", "parameters", "results_sha256"} <= entry.keys() for entry in entries.values())
    except (ValueError, AttributeError):
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


def deliver(task, outcome, settings, *, root, folder):
    """Move what the executed `task` made to `folder`; if it failed, keep notebook and log. Returns the outcome."""
    failed = folder / (STATE if folder == root else "") / "failed" / task.id
    if outcome.ok:
        outcome = replace(outcome, error=_misnamed(task))
    if outcome.ok:
        for kept in (f"{failed}.ipynb", f"{failed}.log"):
            Path(kept).unlink(missing_ok=True)
        _move_published(task, settings, folder)
        _refresh(task, root, folder)
    else:
        failed.parent.mkdir(parents=True, exist_ok=True)
        for made, kept in (("notebook.ipynb", f"{failed}.ipynb"), ("log", f"{failed}.log")):
            if (task.folder / made).exists():
                os.replace(task.folder / made, kept)
        outcome = replace(outcome, error=f"{outcome.error}; see {failed}.log")
    shutil.rmtree(task.folder, ignore_errors=True)
    return outcome


def _misnamed(task):
    names = {path.stem for kind in ("figures", "data/results") for path in (task.folder / kind).glob("*")}
    wrong = [name for name in sorted(names) if name != task.id and not name.startswith(f"{task.id}_")]
    return f"published as {wrong[0]!r}; the name must be the notebook's id, or begin with it and '_'" if wrong else ""


def _move_published(task, settings, folder):
    known = manifest(folder)
    entries = {name: entry for name, entry in known.items() if entry["notebook"] != task.id}
    for kind in ("figures", "data/results"):
        for path in sorted((task.folder / kind).glob("*")):
            if path.suffix == ".json":
                about = {"notebook": task.id, "parameters": settings}
                entries[path.stem] = json.loads(path.read_text(encoding="utf-8")) | about
            else:
                (folder / kind).mkdir(parents=True, exist_ok=True)
                os.replace(path, folder / kind / path.name)
    if entries != known:
        write_atomically(folder / "figures" / "manifest.json", json.dumps(entries, indent=1, sort_keys=True) + "\n")


def _refresh(task, root, folder):
    """Write the executed notebook, unless the committed one was edited meanwhile."""
    target = folder / "notebooks" / f"{task.id}.ipynb"
    text = notebook_text(normalise(json.loads((task.folder / "notebook.ipynb").read_text(encoding="utf-8"))))
    edited = folder == root and sources(json.loads(text)) != sources(read_notebook(task.id, root=root))
    if not edited and not (target.exists() and target.read_text(encoding="utf-8") == text):
        write_atomically(target, text)
