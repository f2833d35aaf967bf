"""What the docstrings of public functions hold: a sentence, errors where there are some, parameters that exist.

That each has an example or a reason for none is checked in test_docs.py. What needs torch at once is left out.
"""

import ast
import importlib
import inspect
import pkgutil
import re
import textwrap

import pytest

import lpkit

SECTIONS = ("Parameters", "Returns", "Yields", "Raises", "Notes", "References", "Examples")  # in this order
NEED_TORCH = ("lpkit.interop.torch_shift", "lpkit.interop.torch_worker")
RAISE = r"_?check(ed)?(_(?!plan$).*)?|whole_number|real|pair|choice|read_text|write_all|write_atomically"  # calls


def public():
    """``module.name`` -> each function of an `__all__`, where it is defined."""
    names = [found.name for found in pkgutil.walk_packages(lpkit.__path__, "lpkit.")]
    for name in (n for n in names if n not in NEED_TORCH and not n.endswith("__main__")):
        module = importlib.import_module(name)
        for said in getattr(module, "__all__", ()):
            value = getattr(module, said)
            if inspect.isfunction(value) and value.__module__ == name:
                yield f"{name}.{said}", value


FUNCTIONS = dict(public())
TOP = {name: value for name, value in FUNCTIONS.items() if getattr(lpkit, name.split(".")[-1], None) is value}


def doc(function):
    return inspect.getdoc(function) or ""


def sections(text):
    """Name -> lines of each section of a docstring, in the order in which they stand."""
    parts = re.split(rf"^({'|'.join(SECTIONS)})\n(-+)$", text, flags=re.MULTILINE)[1:]
    assert all(len(name) == len(line) for name, line in zip(parts[::3], parts[1::3])), "underline the whole name"
    return dict(zip(parts[::3], parts[2::3]))


def refuses(function):
    """Whether an error is raised in the function itself, or it calls one of the checks."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function))))
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    checks = [call.id for call in calls if isinstance(call, ast.Name) and re.fullmatch(RAISE, call.id)]
    return bool(checks) or any(isinstance(node, ast.Raise) and node.exc for node in ast.walk(tree))


def documented(text):
    """Names of the parameters that a docstring explains."""
    heads = re.findall(r"^(?=\S)([^:\n]+)", sections(text).get("Parameters", ""), flags=re.MULTILINE)
    return {name.strip().lstrip("*") for head in heads for name in head.split(",")}


def takes_options(function):
    return any(p.kind is p.VAR_KEYWORD for p in inspect.signature(function).parameters.values())


def test_there_are_functions():
    assert len(FUNCTIONS) > 550 and len(TOP) > 40
    assert {"lpkit.sweep.sweep", "lpkit.rates.pprs_upper"} <= set(FUNCTIONS)


@pytest.mark.parametrize("function, told", [(lpkit.sweep, True), (lpkit.claims, False)])
def test_the_rule_of_errors_tells_functions_apart(function, told):
    assert refuses(function) is told


def test_every_public_function_begins_with_a_sentence():
    assert [name for name, value in FUNCTIONS.items() if not re.match(r"\S.*\n?.*[.:)`\]]$", doc(value), re.M)] == []


def test_what_lpkit_itself_gives_has_an_example():
    assert [name for name, value in TOP.items() if ">>>" not in doc(value)] == []


def test_what_refuses_something_says_so():
    assert [name for name, value in FUNCTIONS.items()
            if refuses(value) and "Raises" not in sections(doc(value))] == []  # fmt: skip


def test_sections_come_in_one_order():
    orders = {name: list(sections(doc(value))) for name, value in FUNCTIONS.items()}
    assert {name for name, found in orders.items() if found != sorted(found, key=SECTIONS.index)} == set()


def test_what_is_explained_is_a_parameter():
    closed = {name: value for name, value in FUNCTIONS.items() if not takes_options(value)}
    assert {name: unknown for name, value in closed.items()
            if (unknown := documented(doc(value)) - set(inspect.signature(value).parameters))} == {}  # fmt: skip
