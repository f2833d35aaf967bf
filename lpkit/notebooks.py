"""What a notebook says of itself, read without executing it, and the one form in which it is committed.

A notebook is its JSON (nbformat 4); its id is the name of its file and its title the first line. Nothing here needs
Jupyter, so that listing works with the bare library.
"""

import json
from importlib.util import find_spec

from lpkit import paths
from lpkit.checks import read_text, unknown_name

__all__ = ["notebook_ids", "read_notebook", "title", "joined", "tags", "missing", "normalise", "notebook_text"]

KERNELSPEC = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
REQUIRES = "requires-"  # begins a tag that names a library
WIDGET = "application/vnd.jupyter.widget-view+json"
OTHER_PICTURES = ("image/svg+xml", "image/jpeg", "image/gif", "application/pdf")


def notebook_ids(root=None):
    """Ids of the notebooks, which are the names of their files, in order.

    Examples
    --------
    >>> sorted(notebook_ids()) == notebook_ids()
    True
    """
    return sorted(path.stem for path in paths.notebooks(root).glob("*.ipynb") if not path.name.startswith("."))


def read_notebook(id, *, root=None):
    """The notebook `id` as nested dicts.

    Raises
    ------
    ValueError
        If no notebook has this id, with the near ones; if the file is no nbformat 4 notebook.

    Examples
    --------
    >>> read_notebook("lp_fig5_delta_split")["nbformat"]
    4
    """
    known = notebook_ids(root)
    if id not in known:
        raise unknown_name(id, "notebook", known)
    path = paths.notebooks(root) / f"{id}.ipynb"
    try:
        notebook = json.loads(read_text(path))
        valid = notebook["nbformat"] == 4 and all(map(_is_cell, notebook["cells"]))
    except json.JSONDecodeError as error:
        raise ValueError(f"{str(path)!r} is not a notebook (line {error.lineno}: {error.msg}); restore it") from None
    except (KeyError, TypeError, AttributeError, RecursionError):
        valid = False
    if not valid:
        raise ValueError(f"{str(path)!r} is not a notebook of nbformat 4; save it again with JupyterLab")
    return notebook


def _is_cell(cell):
    """Whether kind, text and tags of a cell are what nbformat 4 says."""
    lists = [cell.get("metadata", {}).get("tags", []), *([] if isinstance(cell["source"], str) else [cell["source"]])]
    return isinstance(cell["cell_type"], str) and all(
        isinstance(found, list) and all(isinstance(text, str) for text in found) for found in lists
    )


def title(id, *, root=None):
    """Title of the notebook `id`: its first line, which must be a heading that begins with ``#``.

    Raises
    ------
    ValueError
        If the first cell is not Markdown that begins with one.

    Examples
    --------
    >>> title("lp_fig5_delta_split")
    'Fig. 5: splitting delta between two processors'
    """
    cells = read_notebook(id, root=root)["cells"]
    first = joined(cells[0]["source"]) if cells and cells[0]["cell_type"] == "markdown" else ""
    if not first.startswith("# "):
        raise ValueError(f"notebook {id!r} has no title; begin its first cell, a Markdown cell, with '# '")
    return first.splitlines()[0][2:].strip()


def joined(source):
    """Text of a cell or an output, which a file holds as one string or as a list of lines.

    Examples
    --------
    >>> joined(["a = 1\\n", "b = 2"]) == joined("a = 1\\nb = 2")
    True
    """
    return source if isinstance(source, str) else "".join(source)


def tags(cell):
    """Tags of a cell.

    Examples
    --------
    >>> tags({"cell_type": "code", "metadata": {"tags": ["parameters"]}})
    ['parameters']
    """
    return list(cell.get("metadata", {}).get("tags", []))


def missing(id, *, root=None):
    """Libraries that notebook `id` says it needs, by a tag such as ``requires-torch`` on a cell, and that are not here.

    A notebook that needs more than the extra ``notebooks`` is left alone where that is not installed, and so are its
    committed results.

    Examples
    --------
    >>> missing(notebook_ids()[0])
    []
    """
    found = [tag for cell in read_notebook(id, root=root)["cells"] for tag in tags(cell)]
    names = dict.fromkeys(tag.removeprefix(REQUIRES) for tag in found if tag.startswith(REQUIRES))
    return [name for name in names if find_spec(name) is None]


def normalise(notebook):
    """The executed `notebook` in the form in which it is committed, as a new dict; normalising again changes nothing.

    Counts run 1, 2, ...; pictures are PNG only; pieces of one stream are joined; widgets, whose state is not kept,
    are dropped; of the metadata only the kernel and the tags stay. So a run without a change gives the same bytes.

    Examples
    --------
    >>> cell = {"cell_type": "code", "id": "a", "execution_count": 7, "metadata": {"execution": {}}, "source": "1",
    ...         "outputs": []}
    >>> normalise({"cells": [cell], "metadata": {"papermill": {}}, "nbformat": 4, "nbformat_minor": 5})["cells"]
    [{'cell_type': 'code', 'id': 'a', 'metadata': {}, 'source': ['1'], 'execution_count': 1, 'outputs': []}]
    """
    ran = [cell for cell in notebook["cells"] if cell.get("execution_count") is not None]
    counts = {id(cell): number for number, cell in enumerate(ran, start=1)}
    return {
        "cells": [_normal_cell(cell, n, counts.get(id(cell))) for n, cell in enumerate(notebook["cells"], start=1)],
        "metadata": {"kernelspec": dict(KERNELSPEC), "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def notebook_text(notebook):
    """Text of the file of `notebook`, in the layout JupyterLab writes (keys sorted, one space, last newline).

    Examples
    --------
    >>> notebook_text({"nbformat": 4, "cells": []})
    '{\\n "cells": [],\\n "nbformat": 4\\n}\\n'
    """
    return json.dumps(notebook, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _normal_cell(cell, number, count):
    normal = {
        "cell_type": cell["cell_type"],
        "id": cell.get("id", f"cell-{number}"),
        "metadata": {"tags": tags(cell)} if tags(cell) else {},
        "source": joined(cell["source"]).splitlines(keepends=True),
    }
    if "attachments" in cell:
        normal["attachments"] = cell["attachments"]
    if cell["cell_type"] == "code":
        normal |= {"execution_count": count, "outputs": _normal_outputs(cell["outputs"], count)}
    return normal


def _normal_outputs(outputs, count):
    normal = []
    for output in outputs:
        kind = output["output_type"]
        if kind == "stream" and normal and normal[-1].get("name") == output["name"]:
            text = joined(normal[-1]["text"]) + joined(output["text"])
            normal[-1]["text"] = text.splitlines(keepends=True)
        elif kind == "stream":
            text = joined(output["text"]).splitlines(keepends=True)
            normal.append({"output_type": "stream", "name": output["name"], "text": text})
        elif kind == "error":
            normal.append(dict(output))
        elif WIDGET not in output["data"]:
            counted = {"execution_count": count} if kind == "execute_result" else {}
            normal.append({"output_type": kind, "data": _normal_data(output["data"]), "metadata": {}} | counted)
    return normal


def _normal_data(data):
    kept = {kind: value for kind, value in data.items() if not ("image/png" in data and kind in OTHER_PICTURES)}
    return {kind: _normal_value(kind, value) for kind, value in kept.items()}


def _normal_value(kind, value):
    if kind == "image/png":
        return "".join(joined(value).split())
    return joined(value).splitlines(keepends=True) if kind.startswith("text/") else value
