"""How the site is built: Sphinx reads README, notebooks and docstrings where they are; nothing is copied or executed.

The source folder is the repository (``make docs``), so that links of README and notebooks lead where they lead on
GitHub. Pages of this folder are thin: a comment ``<!-- modules: ... -->``, ``<!-- names: ... -->``,
``<!-- figures -->`` or ``<!-- ledger -->`` is replaced by what the library, figures/ or the ledger say at that moment.
"""

import importlib.util
import inspect
import pkgutil
import re
import shutil
import sys
import tomllib
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from textwrap import shorten

import pandas as pd

import lpkit
from lpkit.claims import read_claims, value_text
from lpkit.contents import pictures
from lpkit.costs import READINGS
from lpkit.notebooks import notebook_ids, title

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "docs"

project = "lpkit"
author = "the lpkit authors"
release = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode", "sphinx.ext.mathjax"]
root_doc = "README"
include_patterns = ["README.md", "CONTRIBUTING.md", "data/README.md", "docs/*.md", "notebooks/*.ipynb"]
exclude_patterns = [".*", "docs/_build", "**/.ipynb_checkpoints"]
source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb"}
default_role = "py:obj"  # a name in single backquotes is a link where it is a name of lpkit
highlight_language = "none"
nb_execution_mode = "off"  # the committed outputs are shown
nb_render_markdown_format = "myst"  # tables and links of notebooks are Markdown outputs
nb_merge_streams = True
myst_enable_extensions = ["html_image"]  # pictures of README with a width
myst_heading_anchors = 3
autodoc_mock_imports = [] if importlib.util.find_spec("torch") else ["torch"]
autodoc_member_order = "bysource"
autodoc_typehints = "none"
napoleon_google_docstring = False
napoleon_custom_sections = [("Attributes", "params_style")]
napoleon_use_param = napoleon_use_rtype = False  # a size such as (B, C, H, W) or a field named `shape` is no link
html_theme = "furo"
html_title = f"lpkit {release}"
html_show_copyright = False
html_static_path = html_css_files = ["style.css"]

CONTENTS = """
```{toctree}
:hidden:
:caption: Results

docs/figures
docs/notebooks
docs/claims
```
```{toctree}
:hidden:
:caption: Library

docs/api
```
```{toctree}
:hidden:
:caption: The repository

CONTRIBUTING
data/README
```
"""


LEDGER = ["claim, and where it stands", "paper", *READINGS, "check", "note, and the measure"]


# ---- what the comments of a page stand for --------------------------------------------------------------------------


@cache
def public_modules():
    """Names of the modules of lpkit that say what is public, without ``lpkit.``."""
    found = (info.name for info in pkgutil.walk_packages(lpkit.__path__, "lpkit.") if not info.ispkg)
    return [name.removeprefix("lpkit.") for name in found if re.search("^__all__ = ", _text(name), re.M)]


@cache
def _text(module):
    return Path(lpkit.__path__[0], *module.split(".")[1:]).with_suffix(".py").read_text(encoding="utf-8")


def words(page, kind):
    """Words of the comments of `kind` on a page, in order."""
    return [word for _, said in re.findall(rf"<!-- ({kind}):\s*(.*?)-->", page, re.S) for word in said.split()]


def chosen(patterns):
    """The public modules that patterns such as ``timeline*`` name."""
    return [name for pattern in patterns for name in public_modules() if fnmatch(name, pattern)]


def home(module, name):
    """The module in which a public object is defined; of a constant, the one that sets it."""
    found = getattr(module, name)
    if inspect.isclass(found) or callable(found):
        return found.__module__ if found.__module__.startswith("lpkit") else module.__name__
    sets = re.compile(rf'^__all__ = [^]]*"{name}".*^(\w+, )*{name}(, \w+)* = ', re.M | re.S)
    places = sorted(map("lpkit.{}".format, public_modules()), key=lambda place: place != module.__name__)
    return next(place for place in places if sets.search(_text(place)))


def names(said):
    """Public names as a table: a link, and the first sentence of what is documented."""
    rows = [f"| {{py:obj}}`lp.{name} <{_target(name)}>` | {first_sentence(getattr(lpkit, name))} |" for name in said]
    return "\n".join(["| name | what it is |", "| :--- | :--- |", *rows])


def _target(name):
    found = getattr(lpkit, name)
    return found.__name__ if inspect.ismodule(found) else f"{home(lpkit, name)}.{name}"


def first_sentence(found):
    """The first sentence of a docstring; of a constant, its values in words."""
    if isinstance(found, (dict, tuple)):
        return ", ".join(f"`{value}`" for value in found)
    return re.sub(r"\s+", " ", inspect.getdoc(found).split("\n\n")[0]).replace("|", "\\|")


def modules(said):
    """Public modules: what each is about, all it defines, and links to what it only passes on."""
    return "\n\n".join(map(_module, chosen(said)))


def _module(name):
    from sphinx.ext.autodoc.mock import mock  # here, so that the tests read the pages without Sphinx

    with mock(autodoc_mock_imports):
        module = importlib.import_module(f"lpkit.{name}")
    lines = [f"## `lpkit.{name}`", "```{eval-rst}", f".. automodule:: lpkit.{name}"]
    homes = {public: home(module, public) for public in module.__all__}
    for public, where in homes.items():
        lines += _entry(f"lpkit.{name}.{public}", getattr(module, public)) if where == module.__name__ else []
    elsewhere = {public: where for public, where in homes.items() if where != module.__name__}
    passed_on = [f":py:obj:`{public} <{where}.{public}>`" for public, where in elsewhere.items()]
    lines += ["", f"Also here: {', '.join(passed_on)}."] if passed_on else []
    return "\n".join([*lines, "```"])


def _entry(name, found):
    if inspect.isclass(found):
        return ["", f".. autoclass:: {name}", "   :members:"]
    if callable(found):
        return ["", f".. autofunction:: {name}"]
    module, _, name = name.rpartition(".")
    return ["", f".. py:data:: {name}", f"   :module: {module}", f"   :value: {shorten(_value(found), 400)}"]


def _value(found):
    """A constant as text; functions in it by their names."""
    if isinstance(found, dict):
        return "{" + ", ".join(f"{key!r}: {_value(value)}" for key, value in found.items()) + "}"
    if isinstance(found, tuple) and not hasattr(found, "_fields"):
        return "(" + ", ".join(map(_value, found)) + ")"
    return found.__name__ if callable(found) else repr(found)


def figures(_):
    """Every committed figure with its caption and its notebook."""
    parts = []
    for id in notebook_ids(ROOT):
        drawn = [_drawn(name, f"../notebooks/{id}.ipynb") for name in pictures(id)]
        parts += [f"## [{title(id)}](../notebooks/{id}.ipynb)", *drawn] if drawn else []
    return "\n\n".join(parts)


def _drawn(name, notebook):
    caption = (ROOT / "figures" / f"{name}.md").read_text(encoding="utf-8").strip()
    return f"[![{name}](../figures/{name}.png)]({notebook})\n\n{caption}"


def ledger(_):
    """Every claim of `data/claims.csv` with the values and verdicts of the committed run."""
    found = pd.read_csv(ROOT / "data" / "results" / "00_index.csv").set_index("id").to_dict("index")
    parts = {}
    for claim in read_claims(ROOT / "data" / "claims.csv"):
        parts.setdefault(claim.item, []).append(_claim(claim, found[claim.id]))
    head = "\n".join(f"| {' | '.join(row)} |" for row in (LEDGER, [":---"] * len(LEDGER)))
    return "\n\n".join(f"## [{title(item)}](../notebooks/{item}.ipynb)\n\n{head}\n" + "\n".join(rows)
                       for item, rows in sorted(parts.items()))


def _claim(claim, found):
    """One row of the ledger."""
    numbers = [found["paper"], *(found[reading] for reading in READINGS)]
    paper, *here = (value_text(number, claim.unit) for number in numbers)
    told = [f"{value}: {found[f'verdict {reading}']}" for value, reading in zip(here, READINGS)]
    note = f"{claim.note} (`{claim.computed}`)" if claim.computed else claim.note
    cells = [f"{claim.statement} ({claim.source})", paper, *told, _how(claim), note]
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def _how(claim):
    """What counts as reproduced."""
    within = f", within {100 * claim.tolerance:g} %" if claim.tolerance else ""
    return {"none": "cannot be checked", "holds": f"in all cases{within}"}.get(
        claim.check, claim.check.replace("_", " ") + within)


SAYS = {"ledger": ledger, "figures": figures, "names": names, "modules": modules}


def fill(app, docname, source):
    """Replace the comments of a page; README gets the table of contents."""
    if docname.startswith("docs/"):
        source[0] = re.sub(rf"<!-- ({'|'.join(SAYS)}):?\s*(.*?)-->", lambda m: SAYS[m[1]](m[2].split()), source[0],
                           flags=re.S)
    if docname == root_doc:
        source[0] += CONTENTS


def keep_sentence(app, what, name, found, options, lines):
    """Napoleon takes words before a colon in the first line of a property for its type; an empty comment has none."""
    if what in ("property", "attribute", "data"):
        lines[:0] = ["..", ""]


def follow_import(app, env, node, said):
    """A link to a name where a module imports it leads to where it is defined."""
    owner, _, name = node["reftarget"].rpartition(".")
    found = getattr(sys.modules.get(owner or node.get("py:module")), name, None)
    home = getattr(found, "__module__", None)
    if node.get("refdomain") != "py" or not isinstance(home, str) or not home.startswith("lpkit"):
        return None
    return env.domains["py"].resolve_xref(env, node["refdoc"], app.builder, "obj", f"{home}.{name}", node, said)


def open_at_index(app, exception):
    """The first page under the name that servers look for, too."""
    if not exception:
        shutil.copyfile(Path(app.outdir, f"{root_doc}.html"), Path(app.outdir, "index.html"))


def setup(app):
    app.connect("source-read", fill)
    app.connect("autodoc-process-docstring", keep_sentence, priority=400)
    app.connect("missing-reference", follow_import)
    app.connect("build-finished", open_at_index)
