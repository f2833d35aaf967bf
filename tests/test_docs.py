"""Every public name is documented, and the pages of docs/ name all of them; `make docs` builds the site."""

import dataclasses
import importlib
import importlib.util
import inspect
import re
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import pytest

import lpkit
from lpkit.claims import read_claims
from lpkit.contents import Heading, pictures, thumbnail
from lpkit.notebooks import notebook_ids

DOCS = Path(__file__).parents[1] / "docs"
NEED_TORCH = ("interop.torch_shift", "interop.torch_worker")  # import it at once

# Why a public function has no example: a pattern of names -> the reason. Records need none: what makes them shows them.
WITHOUT_EXAMPLE = {
    "*drawings.*": "draws; notebooks show it",
    "plots.*": "draws; notebooks show it",
    "pprs_plots.*": "draws; notebooks show it",
    "explore*": "draws on axes or makes widgets",
    "interop.torch*": "needs torch, a model of it or other processes",
    "interop.onnx*": "takes parts of an ONNX model",
    "interop.lowering.*": "takes parts of a model that is being read",
    "interop.building.*": "takes parts of a model that is being read",
    "interop.pipedream*": "takes a profile that is not in the repository, or writes one",
    "attack*": "takes a network, an image and minutes, or records of that",
    "execute.*": "starts processes",
    "run.*": "executes notebooks",
    "deliver.*": "moves files that a notebook made",
    "cifar10.download_cifar10": "downloads",
    "plan_command.*": "is the inside of a command",
    "planfile.*": "gives pages of JSON",
    "sources.topology_report": "reads a file",
    "parametric.*": "is the inside of a search; `optimal` shows what it finds",
    "optimal.straight": "is the inside of a planner",
    "search.*": "is the inside of a search; `optimal` shows what it finds",
    "chains.*": "is the inside of a search; `optimal` shows what it finds",
    "certificates.certificate": "is the inside of a planner",
    "period_proofs.*": "takes what a search found",
}


@cache
def conf():
    """docs/conf.py as a module; it imports no Sphinx until a page is made."""
    spec = importlib.util.spec_from_file_location("lpkit_docs_conf", DOCS / "conf.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pages():
    return {path.name: path.read_text(encoding="utf-8") for path in DOCS.glob("*.md")}


@cache
def public():
    """Public functions and classes where they are defined: ``module.name`` without ``lpkit.`` -> the object."""
    found = {}
    for name in conf().public_modules():
        if name in NEED_TORCH and not importlib.util.find_spec("torch"):
            continue
        module = importlib.import_module(f"lpkit.{name}")
        here = {public: getattr(module, public) for public in module.__all__}
        found |= {f"{name}.{public}": value for public, value in here.items()
                  if getattr(value, "__module__", None) == module.__name__}
    return found


def has_example(value):
    return ">>>" in (inspect.getdoc(value) or "")


def is_record(value):
    return inspect.isclass(value) and (dataclasses.is_dataclass(value) or hasattr(value, "_fields"))


def test_there_are_public_names():
    assert len(public()) > 600
    assert {"costs.costs", "partition.plan", "interop.scalesim.read_topology"} <= set(public())


def test_every_public_name_says_in_a_sentence_what_it_is():
    told = {name: (inspect.getdoc(value) or "").split("\n\n")[0] for name, value in public().items()}
    told = {name: text for name, text in told.items() if not hasattr(public()[name], "_fields")}  # Python's own text
    assert [name for name, text in told.items() if not re.search(r"[.:)`]$", text) or len(text) < 10] == []


def test_every_public_function_has_an_example_or_a_reason():
    bare = [name for name, value in public().items() if not has_example(value) and not is_record(value)]
    assert [name for name in bare if not any(fnmatch(name, pattern) for pattern in WITHOUT_EXAMPLE)] == []
    idle = [pattern for pattern in WITHOUT_EXAMPLE if not any(fnmatch(name, pattern) for name in bare)]
    absent = not importlib.util.find_spec("torch")
    assert [pattern for pattern in idle if not (absent and "torch" in pattern)] == [], "no longer needed"


@pytest.mark.parametrize("name", [name for name in lpkit.__all__ if callable(getattr(lpkit, name))])
def test_what_lpkit_itself_gives_has_an_example(name):
    assert has_example(getattr(lpkit, name)) or is_record(getattr(lpkit, name))


def test_every_module_stands_in_one_room():
    chosen = [name for page in pages().values() for name in conf().chosen(conf().words(page, "modules"))]
    assert sorted(chosen) == sorted(conf().public_modules()), "name each module in one docs/api_*.md"


def test_every_pattern_of_a_room_names_a_module():
    patterns = [word for page in pages().values() for word in conf().words(page, "modules")]
    assert [pattern for pattern in patterns if not conf().chosen([pattern])] == []


def test_the_first_page_of_the_library_names_everything_once():
    assert sorted(conf().words(pages()["api.md"], "names")) == sorted(lpkit.__all__)


def test_every_comment_of_a_page_is_one_that_is_replaced():
    said = {kind for page in pages().values() for kind in re.findall(r"<!-- (\w+)", page)}
    assert said == set(conf().SAYS)


def test_names_are_linked_to_where_they_are_defined():
    table = conf().names(["plan", "Plan", "NETWORKS", "plots"]).splitlines()[2:]
    targets = [re.search("<(.*?)>", row)[1] for row in table]
    assert targets == ["lpkit.partition.plan", "lpkit.plans.Plan", "lpkit.networks.NETWORKS", "lpkit.plots"]
    assert table[2].endswith("`unet`, `bert_base`, `gpt2`, `vit_b16` |")


def test_the_ledger_of_the_site_holds_every_claim_once():
    text = conf().ledger([])
    for claim in read_claims():
        assert text.count(f"\n| {claim.statement.replace('|', '/')} ({claim.source}) |") == 1, claim.id


def test_every_figure_is_shown_with_its_caption():
    text = conf().figures([])
    for id in notebook_ids():
        for name in pictures(id):
            assert text.count(f"(../figures/{name}.png)") == 1
            assert (DOCS.parent / "figures" / f"{name}.md").read_text(encoding="utf-8").strip() in text


def test_thumbnails_are_small_and_fit():
    from PIL import Image
    from io import BytesIO

    small = thumbnail("lp_fig7_saturation", width=200, height=50)
    with Image.open(BytesIO(small._repr_png_())) as picture:
        assert picture.height <= 50 and picture.width <= 200 and max(picture.size) >= 50
    assert thumbnail("lp_fig7_saturation")._repr_png_() == thumbnail("lp_fig7_saturation")._repr_png_()


def test_a_picture_that_is_not_there_gets_a_sentence():
    with pytest.raises(ValueError, match="there is no picture 'lp_fig9' in figures/; make it with lpkit figures"):
        thumbnail("lp_fig9")


def test_a_size_that_is_none_gets_a_sentence():
    with pytest.raises(ValueError, match="width is 0"):
        thumbnail("lp_fig7_saturation", width=0)


def test_headings_say_what_became_of_the_claims():
    assert Heading("a", "A", 1, 0).said == "0 of 1 claim reproduced"
    assert Heading("a", "A", 0, 0)._repr_markdown_() == "**[A](a.ipynb)**: no claim of a paper"
