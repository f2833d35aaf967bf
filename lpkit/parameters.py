"""The parameters of a notebook: read from its ``parameters`` cell without executing it, and the values given for them.

papermill only warns where a parameter is unknown or the tag is missing, and then computes with the defaults; it passes
"64" as it stands where a number is meant. Here each of these is an error, or the value of the default's type.
"""

import ast
import difflib
import io
import json
import math
import re
import tokenize
from pathlib import Path
from typing import NamedTuple

from lpkit.checks import is_file, shown
from lpkit.notebooks import joined, read_notebook, tags

__all__ = ["Parameter", "parameters", "values"]


class Parameter(NamedTuple):
    """A parameter of a notebook: its default, its annotation and what it means, as written in the cell.

    Examples
    --------
    >>> print(Parameter(32, "int", "mini-batch size"))
    int = 32 (mini-batch size)
    """

    default: object
    annotation: str
    help: str

    def __str__(self):
        return f"{self.annotation} = {self.default!r}" + (f" ({self.help})" if self.help else "")


def parameters(id, *, root=None):
    """Parameters of the notebook `id`: name -> `Parameter`, parsed and never executed.

    Raises
    ------
    ValueError
        If the first code cell is not the only one tagged ``parameters``, or holds anything but lines of the form
        ``name: type = literal  # help``.

    Examples
    --------
    >>> parameters("lp_fig5_delta_split")["difference"].default
    2
    """
    source = _tagged_source(read_notebook(id, root=root)["cells"], id)
    try:
        statements = ast.parse(source).body
    except SyntaxError as error:
        raise ValueError(f"the parameters cell of notebook {id!r} is not Python (line {error.lineno})") from None
    except (ValueError, RecursionError, MemoryError):  # a zero byte, or what is nested too deep
        raise ValueError(f"the parameters cell of notebook {id!r} is not Python that can be read") from None
    comments = _comments(source)
    return dict(_parameter(statement, comments, id) for statement in statements)


def values(id, given, *, root=None):
    """Value of every parameter of the notebook `id`: the defaults, and those of the dict `given` in their types.

    Text stands for a value where another type is wanted, as on a command line: "3", "true", "[2, 3]"; the path of a
    file is made absolute, since a notebook runs in a folder of its own.

    Parameters
    ----------
    id : str
        A notebook.
    given : mapping of str to value
    root : path, optional
        The repository, if not the one that `lpkit.paths.repository` finds.

    Returns
    -------
    dict

    Raises
    ------
    ValueError
        If a name is unknown (all known ones are listed, with their help) or a value does not fit the type exactly.

    Examples
    --------
    >>> values("lp_fig5_delta_split", {"difference": "4"})
    {'F': 6, 'G': 6, 'delta': 6, 'difference': 4}
    """
    known = parameters(id, root=root)
    for name in given:
        if name not in known:
            raise _unknown(name, id, known)
    defaults = {name: parameter.default for name, parameter in known.items()}
    return defaults | {name: _value(name, value, known[name]) for name, value in given.items()}


def _tagged_source(cells, id):
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    tagged = [cell for cell in code if "parameters" in tags(cell)]
    if len(tagged) == 1 and tagged[0] is code[0]:
        return joined(tagged[0]["source"])
    found = "a later one" if len(tagged) == 1 else f"{len(tagged)} of them" if tagged else "none"
    raise ValueError(f"notebook {id!r} must have its first code cell, and no other, tagged 'parameters'; {found} is")


def _comments(source):
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {token.start[0]: token.string.lstrip("# ").rstrip() for token in tokens if token.type == tokenize.COMMENT}


def _parameter(statement, comments, id):
    where = f"line {statement.lineno} of the parameters cell of notebook {id!r}"
    if not (isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and statement.value):
        raise ValueError(f"{where} is not 'name: type = literal  # help'; move anything else to a later cell")
    try:
        default = ast.literal_eval(statement.value)
        plain = (
            json.loads(json.dumps(default, allow_nan=False)) == default
        )  # no tuples or sets: papermill would pass them as text
    except (ValueError, TypeError, RecursionError, MemoryError):
        plain = False
    if not plain:
        raise ValueError(f"{where} is no plain literal; use a number, text, True, False, None, a list or a dict")
    help = comments.get(statement.end_lineno, "")
    return statement.target.id, Parameter(default, ast.unparse(statement.annotation), help)


def _unknown(name, id, known):
    near = difflib.get_close_matches(str(name)[:60], known, n=2)
    hint = f" did you mean {' or '.join(map(repr, near))}?" if near else ""
    listed = "; ".join(f"{name}: {parameter}" for name, parameter in known.items()) or "none"
    return ValueError(f"notebook {id!r} has no parameter {shown(name)};{hint} Known: {listed}")


def _value(name, given, parameter):
    default = parameter.default
    value = given.item() if hasattr(given, "item") else given  # numpy scalars
    optional = default is None or "None" in parameter.annotation
    if isinstance(value, str) and (not isinstance(default, str) or (optional and value == "None")):
        value = _read(value)
    if optional and value is None:
        return None
    if isinstance(value, str) and re.search(r"[./\\]", value) and is_file(value):
        value = str(Path(value).absolute())
    try:
        return _fitted(value, default)
    except (TypeError, ValueError, OverflowError):
        text = f", on a command line -p {name} '{json.dumps(default)}'" if isinstance(default, (list, dict)) else ""
        raise ValueError(f"parameter {name!r} is {shown(given)}; give a value like {parameter}{text}") from None


def _read(text):
    """The value that `text` writes down as JSON or as a Python literal, else the text itself."""
    for read in (json.loads, ast.literal_eval):
        try:
            return read(text.strip())
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            pass
    return text


def _fitted(value, default):
    """`value` in the type of `default` if that loses nothing, else an error."""
    kind = type(default)
    if kind is list and isinstance(value, (list, tuple)):
        like = default[0] if len({type(item) for item in default}) == 1 else None
        return [_fitted(item, like) for item in value]
    if kind in (int, float) and type(value) in (int, float) and math.isfinite(value) and kind(value) == value:
        return kind(value)
    if default is None or (type(value) is kind and kind in (bool, str, dict)):
        return value
    raise TypeError(f"{value!r} is no {kind.__name__}")
