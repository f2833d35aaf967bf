"""The explorers in a real browser, in JupyterLab and as an app of Voila, against the pure functions behind it.

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
from lpkit import explore, explore_pprs
from lpkit.explore import State
from lpkit.explore_picture import empty_png, png
from lpkit.explore_pprs import PprsState

pytestmark = pytest.mark.skipif(browser.chromium_path() is None,
                                reason="there is no Chromium: install one, or name it in CHROMIUM")  # fmt: skip

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
# What others say on the console: Voila of its icons, without a network; ipywidgets of controls that were not run yet.
NO_ICONS = r"Failed to load resource: net::ERR_\w+ https://cdn\.jsdelivr\.net/npm/@fortawesome/"
NOT_RUN = r"Error: widget model not found"
IMAGE = "document.querySelector('img.widget-image')"
CUT = """[...document.querySelectorAll('.lpkit-explorer :is(.widget-readout, .widget-label, button)')]
         .filter(part => part.scrollWidth > part.clientWidth + 1).map(part => part.textContent)"""
FAULTS = "[...document.querySelectorAll('[data-mime-type$=\"jupyter.error\"], [data-mime-type$=\"jupyter.stderr\"]')]"


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
def notebook():
    """The notebook that is looked at, where a test does not say another."""
    return "explorer"


@pytest.fixture
def copy(folder, request, notebook):
    """The path of a new copy of the notebook, within the folder that is served."""
    place = Path(re.sub(r"\W+", "_", request.node.name)) / f"{notebook}.ipynb"
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
    of = explore if isinstance(state, State) else explore_pprs
    try:
        lines = of.text_of(state), f"Python: {of.call_of(state)}", f"shell:  {of.command_of(state)}"
        return Seen(checksum(png(of.figure_of(state))), "", "\n".join(lines))
    except ValueError as error:
        return Seen(checksum(empty_png()), str(error), "")


def seen(page):
    texts = page.ask("[...document.querySelectorAll('.widget-html-content')].map(part => part.textContent)")
    return Seen(checksum(page.data(f"{IMAGE}.src")), *texts[:2])


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


def slide(page, label, reading, key="ArrowRight"):
    """Press a key on a slider, which then reads so."""
    focus(page, f"{control(label)}.querySelector('.noUi-handle')")
    page.press(key)
    assert page.ask(f"{control(label)}.querySelector('.widget-readout').textContent") == reading


def choose(page, label, option):
    """Open a menu by its key, go to an option and take it: JupyterLab keeps the keys of a closed one to itself."""
    menu = f"{control(label)}.querySelector('select')"
    options = page.ask(f"[...{menu}.options].map(option => option.text.replaceAll('\\xa0', ' '))")
    focus(page, menu)
    for key in (" ", "Home", *["ArrowDown"] * options.index(option), "Enter"):
        page.press(key)
    page.wait(f"{menu}.selectedIndex === {options.index(option)}")


def push(page, label):
    """Push a button by its key."""
    focus(page, f"[...document.querySelectorAll('button')].find(part => part.textContent === {json.dumps(label)})")
    page.press(" ")


# ---- the tests ----------------------------------------------------------------------------------------------------

CHANGES = {
    "explorer": (State(), [
        (slide, ("array rows", "64 rows"), {"rows": 64}), (slide, ("processors", "5 processors"), {"processors": 5}),
        (choose, ("network", "resnet18"), {"network": "resnet18"}), (push, ("speedup",), {"view": "speedup"})]),
    "pprs_explorer": (PprsState(), [
        (slide, ("samples K", "20 samples"), {"K": 20}), (slide, ("depth Delta", "30 nodes"), {"Delta": 30}),
        (choose, ("problem", "l1 chain"), {"problem": "l1_chain"}), (push, ("bubbling",), {"view": "bubbling"})]),
}  # fmt: skip


def test_what_goes_wrong_in_a_page_is_heard_of(chromium):
    script = """console.log('well'); console.error('said', 1);
                setTimeout(() => {document.title = 'done'; throw Error('thrown')})"""
    with browser.page(chromium, f"data:text/html,<script>{script}</script>") as page:
        page.wait("document.title === 'done'")
        said, thrown = page.errors()
    assert said == "said 1" and thrown.startswith("Error: thrown")


@pytest.mark.parametrize("notebook", CHANGES)
def test_the_controls_change_picture_and_text_to_what_the_functions_give(live, notebook):
    state, changes = CHANGES[notebook]
    assert shows(live, state)
    assert live.ask(CUT) == []
    for act, words, change in changes:
        act(live, *words)
        assert expected(replace(state, **change)).picture != expected(state).picture
        state = replace(state, **change)
        assert shows(live, state)


def test_an_impossible_choice_is_a_sentence_and_no_picture_until_it_is_undone(live):
    possible = State("sample4")
    choose(live, "network", "sample4")
    assert shows(live, possible)
    slide(live, "processors", "5 processors")
    impossible = replace(possible, processors=5)
    assert "processors is 5" in expected(impossible).error
    assert shows(live, impossible)
    slide(live, "processors", "4 processors", key="ArrowLeft")
    assert shows(live, possible)


@pytest.mark.parametrize("notebook", CHANGES)
def test_an_app_shows_picture_and_text_once(chromium, voila, copy):
    with run_in_voila(chromium, voila, copy) as page:
        page.wait(f"{IMAGE}?.naturalWidth > 0")
        static = "[...document.querySelectorAll('.jp-RenderedImage img, .jp-RenderedText')]"
        assert page.ask(f"{static}.length") >= 2
        assert page.ask(f"{static}.filter(part => part.offsetHeight).length") == 0


def test_a_saved_notebook_opened_again_has_its_static_figure_without_being_run(chromium, jupyterlab, folder, copy):
    state = State()
    figure = lp.publish("explorer", explore.figure_of(state), table=explore.table_for(state), caption="As it was.").png
    with run_in_jupyterlab(chromium, jupyterlab, copy) as page:
        page.ask("window.jupyterapp.commands.execute('docmanager:save')")
        page.ask("window.jupyterapp.shell.currentWidget.sessionContext.shutdown()")
    cells = json.loads((folder / copy).read_text())["cells"]
    assert "error" not in {output["output_type"] for cell in cells for output in cell.get("outputs", ())}
    with in_jupyterlab(chromium, jupyterlab, copy) as page:
        static = "document.querySelector('.jp-OutputArea-output img')"
        assert page.wait(f"{static}?.naturalWidth > 0")
        assert page.data(f"{static}.src") == figure
        assert page.ask(f"{IMAGE} === null"), "the live picture is there, so something was run"
        assert errors(page, NOT_RUN) == []
