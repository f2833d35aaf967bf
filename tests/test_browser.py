"""The explorer in a real browser, in JupyterLab and as an app of Voila, against the pure functions behind it.

The pictures are compared byte by byte: the kernel and this process draw with the same lpkit and the same matplotlib.
"""

import hashlib
import json
import re
import shutil
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import browser
import pytest

import lpkit as lp
from lpkit.explore import State, call_of, command_of, figure_of, table_for, text_of
from lpkit.explore_picture import empty_png, png

pytestmark = pytest.mark.skipif(browser.chromium_path() is None,
                                reason="there is no Chromium: install one, or name it in CHROMIUM")  # fmt: skip

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
# What others say on the console: Voila without a network, of its icons; ipywidgets, of controls that nothing has run yet.
NO_ICONS = r"Failed to load resource: net::ERR_\w+ https://cdn\.jsdelivr\.net/npm/@fortawesome/"
NOT_RUN = r"Error: widget model not found"
IMAGE = "document.querySelector('img.widget-image')"
FAULTS = "[...document.querySelectorAll('[data-mime-type$=\"jupyter.error\"], [data-mime-type$=\"jupyter.stderr\"]')]"
LAB = "window.jupyterapp.shell.currentWidget"
SMALL = State("sample4")


# ---- what is looked at --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Copies of the notebooks: what is tested changes none of the repository's."""
    return tmp_path_factory.mktemp("notebooks")


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    with browser.chromium(tmp_path_factory.mktemp("chromium")) as address:
        yield address


def needs(module, extra):
    if not find_spec(module):
        pytest.skip(f"{module} is not installed: pip install 'layerpipe-lpkit[{extra}]'")


@pytest.fixture(scope="module")
def jupyterlab(tmp_path_factory, folder):
    needs("jupyterlab", "notebooks")
    with browser.jupyterlab(tmp_path_factory.mktemp("jupyterlab"), folder) as address:
        yield address


@pytest.fixture(scope="module")
def voila(tmp_path_factory, folder):
    needs("voila", "voila")
    with browser.voila(tmp_path_factory.mktemp("voila"), folder) as address:
        yield address


@contextmanager
def in_jupyterlab(chromium, address, notebook):
    """A page of JupyterLab on a notebook, with a kernel that is ready."""
    with browser.page(chromium, f"{address}/lab/tree/{notebook}?reset") as page:
        page.wait("window.jupyterapp?.shell?.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'")
        yield page


@contextmanager
def run_in_jupyterlab(chromium, address, notebook):
    """A page of JupyterLab on a notebook, run from its first cell to its last."""
    with in_jupyterlab(chromium, address, notebook) as page:
        assert page.ask("window.jupyterapp.commands.execute('notebook:run-all-cells').then(() => true)")
        yield page


def run_in_voila(chromium, address, notebook):
    """A page of Voila, which runs the notebook."""
    return browser.page(chromium, f"{address}/voila/render/{notebook}")


RUN = {"jupyterlab": run_in_jupyterlab, "voila": run_in_voila}


@pytest.fixture
def copy(folder, request):
    """The path of a new copy of the explorer, within the folder that is served."""
    place = Path(re.sub(r"\W+", "_", request.node.name)) / "explorer.ipynb"
    (folder / place).parent.mkdir()
    shutil.copy(NOTEBOOKS / place.name, folder / place)
    return place


@pytest.fixture(params=RUN)
def live(request, chromium, copy):
    """A page with the live explorer, in each of the two; when the test is done, nothing may have gone wrong in it."""
    with RUN[request.param](chromium, request.getfixturevalue(request.param), copy) as page:
        page.wait(f"{IMAGE}?.naturalWidth > 0")
        yield page
        assert page.ask(f"{FAULTS}.map(fault => fault.textContent)") == []
        assert errors(page, NO_ICONS) == []


def errors(page, known):
    """What went wrong in the page, beside what is known."""
    return [said for said in page.errors() if not re.match(known, said)]


# ---- what is done and seen ----------------------------------------------------------------------------------------


class Seen(NamedTuple):
    """What the live explorer shows: the sum of its picture, the reason there is none, its text."""

    picture: str
    error: str
    text: str


def checksum(picture):
    return hashlib.sha256(picture).hexdigest()


def expected(state):
    """What is to be seen of a state, from the functions themselves."""
    try:
        lines = text_of(state), f"Python: {call_of(state)}", f"shell:  {command_of(state)}"
        return Seen(checksum(png(figure_of(state))), "", "\n".join(lines))
    except ValueError as error:
        return Seen(checksum(empty_png()), str(error), "")


def seen(page):
    texts = page.ask("[...document.querySelectorAll('.widget-html-content')].map(part => part.textContent)")
    return Seen(checksum(page.data(page.ask(f"{IMAGE}.src"))), *texts[:2])


def shows(page, state):
    """Wait until the page shows the state, all of it; say what it shows instead."""
    wanted = expected(state)
    try:
        browser.wait(f"{state}", lambda: seen(page) == wanted)
    except TimeoutError:
        assert seen(page) == wanted
    return True


def control(label):
    """The part of the page that has this label."""
    boxes = "[...document.querySelectorAll('.widget-inline-hbox')]"
    return f"{boxes}.find(box => box.querySelector('.widget-label')?.textContent === {json.dumps(label)})"


def focus(page, expression):
    page.ask(f"{expression}.focus()")
    assert page.ask(f"document.activeElement === {expression}"), expression


def slide(page, label, key):
    """Press a key on a slider; what it reads then."""
    focus(page, f"{control(label)}.querySelector('.noUi-handle')")
    page.press(key)
    return page.ask(f"{control(label)}.querySelector('.widget-readout').textContent")


def choose(page, label, option):
    """Open a menu by its key, go to an option and take it, as JupyterLab keeps the keys of a closed one to itself."""
    menu = f"{control(label)}.querySelector('select')"
    options = page.ask(f"[...{menu}.options].map(option => option.text)")
    focus(page, menu)
    for key in (" ", "Home", *["ArrowDown"] * options.index(option), "Enter"):
        page.press(key)
    page.wait(f"{menu}.selectedOptions[0].text === {json.dumps(option)}")


def push(page, label):
    """Push a button by its key."""
    focus(page, f"[...document.querySelectorAll('button')].find(part => part.textContent === {json.dumps(label)})")
    page.press(" ")


# ---- the tests ----------------------------------------------------------------------------------------------------


def test_the_controls_change_picture_and_text_to_what_the_functions_give(live):
    state = State()
    assert shows(live, state)
    assert slide(live, "array rows", "ArrowRight") == "64 rows"
    assert shows(live, state := replace(state, rows=64))
    assert slide(live, "processors", "ArrowRight") == "5 processors"
    assert shows(live, state := replace(state, processors=5))
    choose(live, "network", "resnet18")
    assert shows(live, state := replace(state, network="resnet18"))
    push(live, "speedup")
    assert shows(live, replace(state, view="speedup"))


def test_an_impossible_choice_is_a_sentence_and_no_picture_until_it_is_undone(live):
    choose(live, "network", "sample4")
    assert shows(live, SMALL)
    assert slide(live, "processors", "ArrowRight") == "5 processors"
    impossible = replace(SMALL, processors=5)
    assert "processors is 5" in expected(impossible).error
    assert shows(live, impossible)
    assert slide(live, "processors", "ArrowLeft") == "4 processors"
    assert shows(live, SMALL)


def test_a_saved_notebook_opened_again_has_its_static_figure_without_being_run(chromium, jupyterlab, folder, copy):
    state = State()
    figure = lp.publish("explorer", figure_of(state), table=table_for(state), caption="The explorer.").png
    with run_in_jupyterlab(chromium, jupyterlab, copy) as page:
        page.ask("window.jupyterapp.commands.execute('docmanager:save')")
        page.ask(f"{LAB}.sessionContext.shutdown()")
    outputs = [output for cell in json.loads((folder / copy).read_text())["cells"] for output in cell.get("outputs", ())]
    assert "error" not in {output["output_type"] for output in outputs}
    with in_jupyterlab(chromium, jupyterlab, copy) as page:
        static = "document.querySelector('.jp-OutputArea-output img')"
        assert page.wait(f"{static}?.naturalWidth > 0")
        assert page.data(page.ask(f"{static}.src")) == figure
        assert page.ask(f"{IMAGE} === null"), "the live picture is there, so something was run"
        assert errors(page, NOT_RUN) == []
