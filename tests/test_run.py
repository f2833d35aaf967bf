"""The notebook runner on notebooks of a few lines, in a repository made for the test."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from lpkit import paths
from lpkit.compare import Difference, compare_tables, differences, same_pictures, strays
from lpkit.execute import Outcome, Task, execute
from lpkit.notebooks import KERNELSPEC, missing, normalise, notebook_ids, notebook_text, read_notebook, title
from lpkit.parameters import parameters, values
from lpkit.publish import OUT, publish
from lpkit.run import check, run

CHECKOUT = Path(__file__).parents[1]
PARAMETERS = """\
layers: int = 3  # how many layers
rate: float = 0.5  # learning rate
network: str = "vgg16"  # which network
save: bool = False  # keep
sizes: list[int] = [32, 64]  # array sizes
limit: int | None = None  # most layers
"""
PUBLISH = """\
from lpkit.publish import publish
table = {"layer": range(1, layers + 1), "share": [rate / i for i in range(1, layers + 1)]}
print("layers", layers)
publish("NAME", table=table, caption="Share of each layer.")
"""


def cell(kind, number, source, tags=()):
    made = {"cell_type": kind, "id": f"c{number}", "metadata": {"tags": list(tags)} if tags else {}, "source": source}
    return made | ({"execution_count": None, "outputs": []} if kind == "code" else {})


def notebook(root, id, *sources, parameters=PARAMETERS, tags=("parameters",)):
    """Write notebooks/`id`.ipynb under `root`: a title, the parameters cell and a code cell for each source."""
    cells = [cell("markdown", 0, f"# The {id}\n\nA claim."), cell("code", 1, parameters, tags)]
    cells += [cell("code", n, source) for n, source in enumerate(sources, start=2)]
    kernel = {"kernelspec": {"name": "of-another-machine", "display_name": "x", "language": "python"}}
    path = root / "notebooks" / f"{id}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}))
    return path


def tree(root):
    """Every file under `root` but the runner's own, with its bytes."""
    files = (path for path in root.rglob("*") if path.is_file() and ".lpkit" not in path.parts)
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in files}


def gone(pid, seconds=15):
    """Whether process `pid` ends within `seconds`."""
    for _ in range(10 * seconds):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False


# ---- reading ------------------------------------------------------------------------------------------------------


def test_ids_and_title(tmp_path):
    notebook(tmp_path, "b")
    notebook(tmp_path, "a")
    assert notebook_ids(tmp_path) == ["a", "b"]
    assert title("b", root=tmp_path) == "The b"


def test_unknown_id_names_the_near_one(tmp_path):
    notebook(tmp_path, "lp_table1")
    with pytest.raises(ValueError, match=r"notebook is 'lp_tabel1'; did you mean 'lp_table1'\?"):
        title("lp_tabel1", root=tmp_path)


def test_an_id_is_no_path(tmp_path):
    notebook(tmp_path, "a")
    with pytest.raises(ValueError, match="notebook is '../notebooks/a'"):
        read_notebook("../notebooks/a", root=tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not a notebook .line 1"),
        ("[]", "nbformat 4"),
        ('{"nbformat": 3, "cells": []}', "nbformat 4"),
        ('{"nbformat": 4, "cells": [1]}', "nbformat 4"),
        ('{"nbformat": 4, "cells": [{"cell_type": "code"}]}', "nbformat 4"),
        ('{"nbformat": 4, "cells": [{"cell_type": "code", "source": 5}]}', "nbformat 4"),
        ('{"nbformat": 4, "cells": [{"cell_type": "code", "source": [1, 2]}]}', "nbformat 4"),
        ('{"nbformat": 4, "cells": [{"cell_type": 1, "source": ""}]}', "nbformat 4"),
        ('{"nbformat": 4, "cells": [{"cell_type": "code", "source": "", "metadata": null}]}', "nbformat 4"),
        ('{"nbformat": 4, "cells": [{"cell_type": "code", "source": "", "metadata": {"tags": 5}}]}', "nbformat 4"),
        ('{"nbformat": 4, "cells": [{"cell_type": "code", "source": "", "metadata": {"tags": [5]}}]}', "nbformat 4"),
        ("[" * 200_000, "nbformat 4"),
    ],
)
def test_broken_notebook(tmp_path, text, message):
    notebook(tmp_path, "a").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_notebook("a", root=tmp_path)


def test_no_title(tmp_path):
    path = notebook(tmp_path, "a")
    path.write_text(path.read_text().replace("# The a", "The a"))
    with pytest.raises(ValueError, match="notebook 'a' has no title; begin its first cell"):
        title("a", root=tmp_path)


def test_parameters_are_read_not_executed(tmp_path):
    notebook(tmp_path, "a", "raise SystemExit")
    found = parameters("a", root=tmp_path)
    assert list(found) == ["layers", "rate", "network", "save", "sizes", "limit"]
    assert found["layers"] == (3, "int", "how many layers")
    assert found["sizes"] == ([32, 64], "list[int]", "array sizes")
    assert str(found["network"]) == "str = 'vgg16' (which network)"


@pytest.mark.parametrize(
    ("tags", "message"), [((), "must have its first code cell, and no other, tagged 'parameters'; none is")]
)
def test_tag_missing(tmp_path, tags, message):
    notebook(tmp_path, "a", tags=tags)
    with pytest.raises(ValueError, match=message):
        parameters("a", root=tmp_path)


def test_tag_misplaced_or_doubled(tmp_path):
    path = notebook(tmp_path, "a", "x = 1", tags=())
    made = json.loads(path.read_text())
    made["cells"][2]["metadata"] = {"tags": ["parameters"]}
    path.write_text(json.dumps(made))
    with pytest.raises(ValueError, match="a later one is"):
        parameters("a", root=tmp_path)
    made["cells"][1]["metadata"] = {"tags": ["parameters"]}
    path.write_text(json.dumps(made))
    with pytest.raises(ValueError, match="2 of them is"):
        parameters("a", root=tmp_path)


@pytest.mark.parametrize("line", ["layers = 3", "import os", "a: int", "a.b: int = 3", "print(3)", '"text"'])
def test_no_declaration(tmp_path, line):
    notebook(tmp_path, "a", parameters=f"layers: int = 3\n{line}")
    with pytest.raises(ValueError, match="line 2 of the parameters cell of notebook 'a' is not 'name: type = literal"):
        parameters("a", root=tmp_path)


@pytest.mark.parametrize("value", ["2 * 3", "[n for n in x]", "(2, 3)", "{2}", "f(1)", "1j", "b'a'", "1e999", "{1: 2}"])
def test_no_plain_literal(tmp_path, value):
    notebook(tmp_path, "a", parameters=f"layers: int = {value}")
    with pytest.raises(ValueError, match="line 1 of the parameters cell of notebook 'a' is no plain literal"):
        parameters("a", root=tmp_path)


def test_parameters_cell_is_not_python(tmp_path):
    notebook(tmp_path, "a", parameters="%matplotlib inline")
    with pytest.raises(ValueError, match=r"the parameters cell of notebook 'a' is not Python \(line 1\)"):
        parameters("a", root=tmp_path)


@pytest.mark.parametrize("text", ["x: int = " + "-" * 100_000 + "1", "x: int = 1\0"], ids=["deep", "zero byte"])
def test_parameters_cell_that_cannot_be_read(tmp_path, text):
    notebook(tmp_path, "a", parameters=text)
    with pytest.raises(ValueError, match="line 1 of the parameters cell of notebook 'a' is no plain|is not Python"):
        parameters("a", root=tmp_path)


# ---- values -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "given", "value"),
    [
        ("layers", "4", 4),
        ("layers", 4.0, 4),
        ("layers", np.int64(4), 4),
        ("rate", "1e-3", 0.001),
        ("rate", 2, 2.0),
        ("network", "3", "3"),
        ("network", "resnet50", "resnet50"),
        ("save", "true", True),
        ("save", "False", False),
        ("sizes", "[16, 8]", [16, 8]),
        ("sizes", (16, 8.0), [16, 8]),
        ("sizes", [], []),
        ("limit", "None", None),
        ("limit", "7", 7),
    ],
)
def test_value_in_the_type_of_the_default(tmp_path, name, given, value):
    notebook(tmp_path, "a")
    found = values("a", {name: given}, root=tmp_path)
    assert found[name] == value and type(found[name]) is type(value)
    assert found | {name: None} == values("a", {}, root=tmp_path) | {name: None}


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("layers", "3.5"),
        ("layers", True),
        ("layers", "many"),
        ("layers", None),
        ("layers", "[3]"),
        ("rate", "nan"),
        ("rate", 10**400),
        ("rate", "Infinity"),
        ("network", 3),
        ("network", None),
        ("save", 1),
        ("save", "yes"),
        ("sizes", "32"),
        ("sizes", "[32, 'a']"),
        ("sizes", "__import__('os')"),
        ("sizes", "[" * 5000),
    ],
)
def test_mistyped_value(tmp_path, name, given):
    notebook(tmp_path, "a")
    with pytest.raises(ValueError, match=rf"parameter '{name}' is .*; give a value like \w+.* = .*\(\w+") as raised:
        values("a", {name: given}, root=tmp_path)
    assert parameters("a", root=tmp_path)[name].help in str(raised.value)


def test_unknown_parameter_lists_the_known(tmp_path):
    notebook(tmp_path, "a")
    with pytest.raises(ValueError, match="notebook 'a' has no parameter 'netwrk'; did you mean 'network'") as raised:
        values("a", {"netwrk": "vgg16"}, root=tmp_path)
    assert "layers: int = 3 (how many layers); rate: float = 0.5 (learning rate)" in str(raised.value)


# ---- the committed form -------------------------------------------------------------------------------------------


def executed():
    data = {"image/png": "iVBO\nRw0K\n", "image/svg+xml": "<svg/>", "text/plain": "figure: a"}
    widget = {"application/vnd.jupyter.widget-view+json": {"model_id": "1"}, "text/plain": "VBox(...)"}
    first = cell("code", 1, "a = 1\nb = 2") | {"execution_count": 5}
    first["metadata"] = {"execution": {"iopub.status.busy": "2026"}, "papermill": {"duration": 1}, "tags": ["x"]}
    first["outputs"] = [
        {"output_type": "stream", "name": "stdout", "text": "one\nt"},
        {"output_type": "stream", "name": "stdout", "text": ["wo\n"]},
        {"output_type": "execute_result", "data": data, "metadata": {"image/png": {"width": 3}}, "execution_count": 5},
        {"output_type": "display_data", "data": widget, "metadata": {}},
    ]
    cells = [cell("markdown", 0, "# A"), first, cell("code", 2, "") | {"metadata": {"tags": [], "collapsed": True}}]
    metadata = {"papermill": {}, "widgets": {}, "language_info": {"name": "python", "version": "3.9"}}
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 4}


def test_normalise():
    normal = normalise(executed())
    assert normal["metadata"] == {"kernelspec": KERNELSPEC, "language_info": {"name": "python"}}
    assert [c["metadata"] for c in normal["cells"]] == [{}, {"tags": ["x"]}, {}]
    assert [c["id"] for c in normal["cells"]] == ["c0", "c1", "c2"]
    assert [c.get("execution_count") for c in normal["cells"]] == [None, 1, None]
    assert normal["cells"][1]["source"] == ["a = 1\n", "b = 2"]
    stream, picture = normal["cells"][1]["outputs"]
    assert stream == {"output_type": "stream", "name": "stdout", "text": ["one\n", "two\n"]}
    assert picture["data"] == {"image/png": "iVBORw0K", "text/plain": ["figure: a"]}
    assert picture["execution_count"] == 1 and picture["metadata"] == {}


def test_normalise_is_idempotent_and_changes_nothing_given():
    given = executed()
    normal = normalise(given)
    assert given == executed()
    assert normalise(json.loads(notebook_text(normal))) == normal == normalise(normal)


def test_normal_text_is_what_nbformat_writes():
    nbformat = pytest.importorskip("nbformat")
    text = notebook_text(normalise(executed()))
    read = nbformat.reads(text, as_version=4)
    nbformat.validate(read)
    assert nbformat.writes(read) + "\n" == text


# ---- publishing ---------------------------------------------------------------------------------------------------


def drawing():
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3, 2), layout="constrained")
    axes = figure.subplots()
    axes.plot([1, 2], label="a")
    axes.legend()
    return figure


def test_published_files_are_the_same_to_the_byte(tmp_path):
    for folder in ("one", "two"):
        table = {"layer": ["a", "b"], "cycles": [2**60, 1], "share": [1 / 3, 1.0]}
        publish("lp_fig7", drawing(), table=table, caption=" Seen. ", folder=tmp_path / folder)
    made = tree(tmp_path / "one")
    assert made == tree(tmp_path / "two")
    assert sorted(made) == [
        "data/results/lp_fig7.csv",
        *(f"figures/lp_fig7.{end}" for end in ("json", "md", "png", "svg")),
    ]
    assert made["data/results/lp_fig7.csv"] == b"layer,cycles,share\na,1152921504606846976,0.333333333333\nb,1,1\n"
    assert made["figures/lp_fig7.md"] == b"Seen.\n"
    assert b"<dc:date>" not in made["figures/lp_fig7.svg"] and b"Software" not in made["figures/lp_fig7.png"]


def test_shown_is_the_same_whether_written_or_not(tmp_path):
    shown = publish("a", drawing(), caption="c", folder=tmp_path)
    assert shown.png == publish("a", drawing(), caption="c").png


def test_publish_shows_and_writes_nothing_unless_told(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(OUT, raising=False)
    shown = publish("lp_fig7", drawing(), table={"a": [1]}, caption="c")
    assert repr(shown) == "figure: lp_fig7" and shown._repr_png_().startswith(b"\x89PNG")
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setenv(OUT, str(tmp_path))
    shown = publish("lp_table1", table={"a": [1]}, caption="c")
    assert repr(shown) == "table: lp_table1" and shown._repr_png_() is None
    assert (tmp_path / "data/results/lp_table1.csv").read_text() == "a\n1\n"


def test_named_index_is_written(tmp_path):
    import pandas

    publish(
        "a", table=pandas.DataFrame({"x": [1]}, index=pandas.Index(["f"], name="layer")), caption="c", folder=tmp_path
    )
    assert (tmp_path / "data/results/a.csv").read_text() == "layer,x\nf,1\n"


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("../a", {"table": {"a": [1]}, "caption": "c"}, "name is '../a'; use the notebook's id"),
        (3, {"table": {"a": [1]}, "caption": "c"}, "name is 3; use the notebook's id"),
        ("a", {"caption": "c"}, "nothing to publish as 'a'; give a figure, a table or both"),
        ("a", {"table": {"a": [1]}}, "'a' has no caption"),
        ("a", {"table": {"a": [1]}, "caption": " "}, "'a' has no caption"),
    ],
)
def test_publish_refuses(name, options, message):
    with pytest.raises(ValueError, match=message):
        publish(name, **options)


# ---- running ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """A repository of three notebooks after one run: `a`, the index that reads what `a` wrote, and one that fails."""
    root = tmp_path_factory.mktemp("repository")
    notebook(root, "a", PUBLISH.replace("NAME", "a"))
    index = f"from pathlib import Path\nprint(Path({str(root)!r}, 'data/results/a.csv').read_text())"
    notebook(root, "00_index", index, parameters="first: int = 1  # first")
    fails = f"import os\nprint(os.getcwd(), os.listdir())\n{PUBLISH.replace('NAME', 'fails')}\n1 / 0"
    notebook(root, "fails", fails)
    lines = []
    return root, run(root=root, say=lines.append), lines


def test_failing_notebook_is_kept_with_its_log_and_the_others_go_on(ran):
    root, batch, lines = ran
    assert [(o.id, o.ok) for o in batch.outcomes] == [("00_index", True), ("a", True), ("fails", False)]
    assert batch.exit_code == 1 and not batch.to_dict()["ok"]
    log = root / ".lpkit/failed/fails.log"
    assert f"ZeroDivisionError: division by zero (cell 2); see {log}" in batch.outcomes[2].error
    assert "1 / 0" in log.read_text() and "\x1b" not in log.read_text()
    assert "ZeroDivisionError" in (root / ".lpkit/failed/fails.ipynb").read_text()
    assert not (root / "data/results/fails.csv").exists()  # it had published before it failed
    assert "ZeroDivisionError" not in (root / "notebooks/fails.ipynb").read_text()
    assert sorted(line.split()[0] for line in lines) == ["00_index", "a", "fails"]
    assert sum(" s  ok" in line for line in lines) == 2


def test_results_are_delivered_with_their_manifest(ran):
    root = ran[0]
    assert (root / "data/results/a.csv").read_text() == "layer,share\n1,0.5\n2,0.25\n3,0.166666666667\n"
    assert sorted(path.name for path in (root / "figures").iterdir()) == ["a.md", "manifest.json"]
    entry = json.loads((root / "figures/manifest.json").read_text())["a"]
    assert entry["notebook"] == "a" and entry["parameters"] == values("a", {}, root=root)
    assert sorted(entry["versions"]) == ["lpkit", "matplotlib", "numpy", "pillow", "python"]


def test_committed_notebook_is_executed_and_normal(ran):
    root = ran[0]
    made = read_notebook("a", root=root)
    assert made == normalise(made)
    assert [c["id"] for c in made["cells"]] == ["c0", "c1", "c2"]  # no cell was put in
    assert [c.get("execution_count") for c in made["cells"]] == [None, 1, 2]
    stream, shown = made["cells"][2]["outputs"]
    assert stream["text"] == ["layers 3\n"] and shown["data"] == {"text/plain": ["table: a"]}


def test_index_is_executed_last(ran):
    assert "0.166666666667" in (ran[0] / "notebooks/00_index.ipynb").read_text()
    assert ran[2][-1].startswith("00_index")


def test_kernel_starts_in_an_empty_folder(ran):
    failed = json.loads((ran[0] / ".lpkit/failed/fails.ipynb").read_text())
    outputs = [o for c in failed["cells"] for o in c.get("outputs", ()) if o["output_type"] == "stream"]
    assert "".join(outputs[0]["text"]).splitlines()[0].endswith("/empty []")


def without_kernels(tasks, jobs, done):
    """In place of `execute_all`: every notebook publishes what `PUBLISH` makes of the defaults."""
    for task in tasks:
        table = {"layer": [1, 2, 3], "share": [0.5, 0.25, 0.5 / 3]}
        publish(task.id, table=table, caption="Share of each layer.", folder=task.folder)
        (task.folder / "notebook.ipynb").write_bytes(task.source.read_bytes())
        (task.folder / "log").write_text("of the kernel")
        done(task, Outcome(task.id, 0.1))


@pytest.fixture
def quick(tmp_path, monkeypatch):
    """A repository of two notebooks, `a` and `b`, that has run without kernels."""
    monkeypatch.setattr("lpkit.run.execute_all", without_kernels)
    for id in ("a", "b"):
        notebook(tmp_path, id)
    assert run(root=tmp_path, say=lambda line: None).exit_code == 0
    return tmp_path


def test_what_cannot_be_delivered_is_one_failed_notebook_and_nothing_of_it_is_half_there(quick):
    for path in ("figures/a.md", "data/results/a.csv", "figures/manifest.json", "figures/b.md"):
        (quick / path).unlink()
    (quick / "figures/a.md").mkdir()  # in the way
    before = tree(quick)
    lines = []
    first, second = run(root=quick, fresh=True, say=lines.append).outcomes
    assert second.ok and len(lines) == 2 and (quick / "figures/b.md").exists()
    log = quick / ".lpkit/failed/a.log"
    assert first.error.startswith(f"cannot write '{quick}/figures/a.md': Is a directory")
    assert f"see {log}" in first.error
    assert log.read_text() == "of the kernel" and log.with_suffix(".ipynb").exists()
    assert not [path for path in set(tree(quick)) - set(before) if "a." in path]
    assert list(json.loads((quick / "figures/manifest.json").read_text())) == ["b"]
    assert list((quick / "figures/a.md").iterdir()) == [] and not (quick / ".lpkit/work/a").exists()


def test_a_log_that_cannot_be_kept_is_no_reason_to_stop(quick):
    (quick / "figures/a.md").unlink()
    (quick / "figures/a.md").mkdir()
    (quick / ".lpkit/failed").touch()
    first, second = run(root=quick, say=lambda line: None).outcomes
    assert second.ok and "; its log could not be kept: " in first.error


def test_a_note_that_cannot_be_written_is_no_reason_to_stop(quick):
    (quick / ".lpkit/batch.json").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "unlink", lambda *_, **__: None)
        assert run(root=quick, say=lambda line: None).exit_code == 0


def test_execute_tells_of_a_disk_error_and_does_not_raise(tmp_path):
    (tmp_path / "file").touch()
    outcome = execute(Task("a", source=tmp_path / "a.ipynb", folder=tmp_path / "file" / "a"))
    assert outcome.error == f"cannot write '{tmp_path}/file/a': Not a directory"


@pytest.mark.parametrize("file", ["notebooks/a.ipynb", "figures", "data", "figures/manifest.json"])
def test_what_cannot_be_written_is_told_before_anything_is_executed(quick, tmp_path, monkeypatch, file):
    monkeypatch.setattr("lpkit.run.execute_all", lambda *_: pytest.fail("executed"))
    out = tmp_path / "out"
    (out / file).parent.mkdir(parents=True)
    (out / file).mkdir() if "." in file else (out / file).touch()
    told = f"'{out}/.*(choose a folder you may write to|cannot be read: Is a directory)$"
    with pytest.raises(ValueError, match=told):
        run("a", root=quick, out=out)


@pytest.mark.parametrize("text", ["garbage", "[" * 100_000, '{"a": 1}'])
def test_a_broken_manifest_is_told_before_anything_is_executed(quick, monkeypatch, text):
    monkeypatch.setattr("lpkit.run.execute_all", lambda *_: pytest.fail("executed"))
    (quick / "figures/manifest.json").write_text(text)
    for job in (run, check):
        with pytest.raises(ValueError, match="is not a manifest of figures; restore it, or remove it and run all"):
            job("a", root=quick)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b"x" * 200_000], ids=["empty", "binary", "long"])
def test_a_committed_result_that_cannot_be_read_is_one_more_difference(quick, content):
    for path in ("data/results/a.csv", "figures/b.md"):
        (quick / path).write_bytes(content)
    lines = []
    result = check(root=quick, say=lines.append)
    files = [difference.file for difference in result.differences]
    assert result.exit_code == 1 and files == ["data/results/a.csv", "figures/manifest.json", "figures/b.md"]
    assert lines[-1] == "2 notebooks checked, 3 differences" and not any("\n" in line for line in lines)


def test_no_ids_are_not_all_ids(quick):
    for job in (run, check):
        with pytest.raises(ValueError, match="ids is empty; give ids of notebooks, or None for all of them"):
            job([], root=quick)


@pytest.mark.parametrize("out", ["", " "])
def test_an_empty_out_is_no_folder(quick, out):
    with pytest.raises(ValueError, match="out is empty; name a folder, or . for the one you are in"):
        run("a", root=quick, out=out)


def test_changed_parameters_go_to_another_folder_only(ran, tmp_path):
    root = ran[0]
    before = tree(root)
    with pytest.raises(ValueError, match="layers is 5 and its default in notebook 'a' is 3; .* with --out DIR"):
        run("a", {"layers": "5"}, root=root)
    with pytest.raises(ValueError, match="hold the defaults only"):
        run("a", {"layers": 5}, root=root, out=root)
    lines = []
    assert run("a", {"layers": "5", "rate": 1}, root=root, out=tmp_path / "{out}", say=lines.append).exit_code == 0
    assert tree(root) == before
    made = tree(tmp_path / "{out}")
    assert made["data/results/a.csv"].decode().splitlines()[-1] == "5,0.2"
    assert json.loads(made["figures/manifest.json"])["a"]["parameters"]["layers"] == 5
    assert b"layers = 5" in made["notebooks/a.ipynb"]


def test_check_passes_on_what_was_committed_and_finds_what_was_altered(ran, monkeypatch):
    root = ran[0]
    before = tree(root)
    result = check("a", root=root, say=lambda line: None)
    assert result.differences == () and result.exit_code == 0
    csv, caption = root / "data/results/a.csv", root / "figures/a.md"
    csv.write_text(csv.read_text().replace("0.25", "0.26"))
    caption.write_text("Another caption.\n")
    lines = []
    monkeypatch.setattr("lpkit.run.execute_all", without_kernels)
    result = check(["a"], root=root, say=lines.append)
    csv.write_bytes(before["data/results/a.csv"])
    caption.write_bytes(before["figures/a.md"])
    assert tree(root) == before
    assert result.exit_code == 1
    assert "a: data/results/a.csv, row 2, share: committed 0.26, here 0.25" in lines
    assert "a: figures/a.md: committed 'Another caption.', here 'Share of each layer.'" in lines
    assert [d.file for d in result.differences][-1] == "figures/manifest.json" and len(result.differences) == 3
    assert lines[-1] == "1 notebooks checked, 3 differences"


def test_notebook_that_hangs_or_whose_kernel_dies(tmp_path):
    notebook(tmp_path, "dies", "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
    notebook(tmp_path, "hangs", "import time\ntime.sleep(100)")
    batch = run(root=tmp_path, timeout=3, say=lambda line: None)
    dies, hangs = batch.outcomes
    assert "DeadKernelError" in dies.error and "CellTimeoutError" in hangs.error
    assert sorted(path.name for path in (tmp_path / ".lpkit/failed").iterdir()) == [
        f"{id}.{end}" for id in ("dies", "hangs") for end in ("ipynb", "log")
    ]
    assert not (tmp_path / "figures").exists() and not (tmp_path / ".lpkit/batch.json").exists()


def test_a_notebook_that_publishes_under_another_name(quick, monkeypatch):
    def renamed(tasks, jobs, done):
        def rename(task, outcome):
            (task.folder / "figures/a.md").rename(task.folder / "figures/other.md")
            done(task, outcome)

        without_kernels(tasks, jobs, rename)

    monkeypatch.setattr("lpkit.run.execute_all", renamed)
    (outcome,) = run("a", root=quick, say=lambda line: None).outcomes
    assert outcome.error.startswith("published as 'other'; the name must be the notebook's id")
    assert not (quick / "figures/other.md").exists()


def test_killed_batch_goes_on_where_it_stopped(tmp_path):
    counted = f"with open({str(tmp_path / 'runs')!r}, 'a') as file:\n    print('first', file=file)"
    notebook(tmp_path, "first", counted)
    pid, wait = tmp_path / "pid", tmp_path / "wait"
    wait.touch()
    slow = f"import os, pathlib, time\npathlib.Path({str(pid)!r}).write_text(str(os.getpid()))"
    slow += f"\nwhile pathlib.Path({str(wait)!r}).exists():\n    time.sleep(0.1)"
    notebook(tmp_path, "slow", slow)
    code = f"from lpkit.run import run\nrun(root={str(tmp_path)!r}, jobs=1)"
    process = subprocess.Popen([sys.executable, "-c", code], cwd=CHECKOUT, stderr=subprocess.PIPE, text=True)
    with process:
        assert process.stderr.readline().split()[0] == "first"
        while not (pid.exists() and pid.read_text()):
            time.sleep(0.05)
        with pytest.raises(ValueError, match="another run is writing to .*; wait for it or use another --out"):
            run(root=tmp_path)
        process.send_signal(signal.SIGKILL)
    assert gone(int(pid.read_text()))
    wait.unlink()
    batch = run(root=tmp_path, say=lambda line: None)
    assert [(o.id, o.ok, o.skipped) for o in batch.outcomes] == [("first", True, True), ("slow", True, False)]
    assert (tmp_path / "runs").read_text() == "first\n"
    assert not (tmp_path / ".lpkit/batch.json").exists()  # the batch came to its end: the next runs all again


def test_note_of_a_batch_that_does_not_fit_is_not_used(tmp_path):
    from lpkit.run import _finished

    (tmp_path / ".lpkit").mkdir()
    for text in ("", "[1]", "{", '"a"'):
        (tmp_path / ".lpkit/batch.json").write_text(text)
        assert _finished(tmp_path) == {}


@pytest.mark.parametrize("jobs", [0, 3, 1.5, "2"])
def test_jobs(tmp_path, jobs):
    notebook(tmp_path, "a")
    with pytest.raises(ValueError, match=f"jobs is {jobs!r}; it must be a whole number from 1 to 2"):
        run(root=tmp_path, jobs=jobs)


def test_nothing_runs_when_a_parameter_is_wrong(tmp_path):
    notebook(tmp_path, "a")
    with pytest.raises(ValueError, match="has no parameter 'x'"):
        run(None, {"x": 1}, root=tmp_path)
    with pytest.raises(ValueError, match="notebook is 'b'"):
        run(["a", "b"], root=tmp_path)
    assert not (tmp_path / ".lpkit").exists()


def test_out_is_a_file(tmp_path):
    notebook(tmp_path, "a")
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="cannot write .*; choose a folder you may write to"):
        run(root=tmp_path, out=tmp_path / "file")


def test_papermill_missing(tmp_path, monkeypatch):
    notebook(tmp_path, "a")
    monkeypatch.setattr("lpkit.execute.find_spec", lambda name: None)
    message = (
        r"needs papermill and ipykernel, not installed here; install with: pip install '.\[notebooks\]'"
    )
    with pytest.raises(ValueError, match=message):
        run(root=tmp_path)


def test_no_repository(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "PACKAGE", tmp_path / "site-packages" / "lpkit")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"needs the lpkit repository \(notebooks/, data/\).*pip install -e \."):
        notebook_ids()
    with pytest.raises(ValueError, match="holds no folder 'notebooks'"):
        notebook_ids(tmp_path)
    monkeypatch.chdir(CHECKOUT / "tests")  # an installed lpkit, used inside a clone
    assert paths.repository() == CHECKOUT


# ---- comparing ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("committed", "here", "found"),
    [
        ("a,b\n1,x\n", "a,b\n1,x\n", []),
        ("a\n1\n", "a\n2\n", [("row 1, a", "1", "2")]),
        ("a\n1000000000001\n", "a\n1000000000002\n", [("row 1, a", "1000000000001", "1000000000002")]),
        ("a\n0.3\n", "a\n0.3000000000001\n", []),
        ("a\n0.3\n", "a\n0.300000001\n", [("row 1, a", "0.3", "0.300000001")]),
        ("a\n3\n", "a\n3.0000000000001\n", []),
        ("a\nnan\n", "a\n1.0\n", [("row 1, a", "nan", "1.0")]),
        ("a\nx\n", "a\ny\n", [("row 1, a", "x", "y")]),
        ("a\n1\n", "b\n1\n", [("columns", "a", "b")]),
        ("a\n1\n", "a\n1\n2\n", [("rows", "1", "2")]),
        ("a,b\n1\n", "a,b\n1,2\n", [("row 1, b", "(missing)", "2")]),
        ("a\n1\n", "", [("columns", "a", "(missing)")]),
    ],
)
def test_compare_tables(committed, here, found):
    assert compare_tables(committed, here) == found


def test_tolerance():
    assert compare_tables("a\n0.5\n", "a\n0.51\n", tolerance=0.1) == []


def delivered(folder, name, **change):
    """What the runner leaves of a notebook `a` that publishes `name`."""
    publish(name, table={"x": [1]}, caption="c", folder=folder)
    fragment = folder / f"figures/{name}.json"
    entry = {"notebook": "a", "parameters": {"n": 1}} | json.loads(fragment.read_text()) | change
    fragment.unlink()
    manifest = folder / "figures/manifest.json"
    known = json.loads(manifest.read_text()) if manifest.exists() else {}
    manifest.write_text(json.dumps(known | {name: entry}))


def test_files_missing_on_either_side(tmp_path):
    for folder, name in ((tmp_path / "root", "a_old"), (tmp_path / "here", "a_new")):
        delivered(folder, "a")
        delivered(folder, name)
    (tmp_path / "here/figures/a.svg").touch()
    (tmp_path / "root/data/results/left.csv").touch()
    found = [str(d) for d in differences("a", tmp_path / "root", tmp_path / "here")]
    assert found == [
        "a: figures/a.svg: committed (missing), here there",
        "a: data/results/a_new.csv: committed (missing), here there",
        "a: figures/a_new.md: committed (missing), here there",
        "a: figures/manifest.json, a_new: committed (missing), here there",
        "a: data/results/a_old.csv: committed there, here (missing)",
        "a: figures/a_old.md: committed there, here (missing)",
        "a: figures/manifest.json, a_old: committed there, here (missing)",
    ]
    assert list(strays(tmp_path / "root")) == [
        Difference("left", "data/results/left.csv", "", "there", "no notebook makes it")
    ]


def picture_of(folder, width, **change):
    """What the runner leaves of a notebook `a` with a table, whatever its numbers, and a picture of that width."""
    table = {"x": [1, 2]}
    figure = drawing()
    figure.set_size_inches(width, 2)
    publish("a", figure, table=table, caption="c", folder=folder)
    fragment = folder / "figures/a.json"
    entry = {"notebook": "a", "parameters": {}} | json.loads(fragment.read_text()) | change
    fragment.unlink()
    (folder / "figures/manifest.json").write_text(json.dumps({"a": entry}))
    return entry


def test_pictures_of_the_same_data_and_versions_are_compared_byte_for_byte(tmp_path):
    root, here = tmp_path / "root", tmp_path / "here"
    picture_of(root, 3), picture_of(here, 3)
    assert same_pictures("a", root, here) == ["figures/a.svg", "figures/a.png"]
    assert list(differences("a", root, here)) == []
    picture_of(here, 4)
    found = [(d.file, d.where) for d in differences("a", root, here)]
    assert found == [(f"figures/a.{kind}", "bytes, though data and versions are the same") for kind in ("svg", "png")]


@pytest.mark.parametrize("change", [{"versions": {"matplotlib": "1.0"}}, {"measured": True}, {"results_sha256": None}])
def test_other_pictures_may_differ(tmp_path, change):
    root, here = tmp_path / "root", tmp_path / "here"
    picture_of(root, 3, **change), picture_of(here, 4, **change if "versions" not in change else {})
    assert same_pictures("a", root, here) == []
    files = {d.file for d in differences("a", root, here)}
    assert not files & {"figures/a.svg", "figures/a.png"}


def test_the_manifest_speaks_of_the_committed_pictures(tmp_path):
    root, here = tmp_path / "root", tmp_path / "here"
    picture_of(root, 3), picture_of(here, 3)
    (root / "figures/a.png").write_bytes(b"edited")
    said = [str(d) for d in differences("a", root, here)]
    assert said[-1] == "a: figures/manifest.json, a: committed another png_sha256, here that of figures/a.png"


def test_parameters_of_the_committed_results(tmp_path):
    delivered(tmp_path / "root", "a", parameters={"n": 2})
    delivered(tmp_path / "here", "a")
    assert [str(d) for d in differences("a", tmp_path / "root", tmp_path / "here")] == [
        "a: figures/manifest.json, a: committed {'n': 2}, here {'n': 1}"
    ]


@pytest.mark.parametrize("text", ["{", "[]", '{"a": 1}', '{"a": {}}'])
def test_broken_manifest(tmp_path, text):
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures/manifest.json").write_text(text)
    with pytest.raises(ValueError, match="is not a manifest of figures; restore it, or remove it and run all"):
        list(strays(tmp_path))


def test_a_notebook_that_needs_what_is_not_installed_is_left_alone(tmp_path):
    """Executed it would fail; its committed results stay, and are no strays."""
    path = notebook(tmp_path, "deep", "import no_such_library", PUBLISH.replace("NAME", "deep"))
    tagged = json.loads(path.read_text())
    tagged["cells"][2]["metadata"]["tags"] = ["requires-no_such_library", "requires-json"]
    path.write_text(json.dumps(tagged))
    entry = {"deep": {"notebook": "deep", "parameters": {}, "results_sha256": None, "versions": {}}}
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "manifest.json").write_text(json.dumps(entry))
    (tmp_path / "figures" / "deep.md").write_text("Caption.\n")
    before, said = tree(tmp_path), []
    assert missing("deep", root=tmp_path) == ["no_such_library"]
    assert run(root=tmp_path, say=said.append).exit_code == 0
    assert check(root=tmp_path, say=said.append).exit_code == 0
    assert tree(tmp_path) == before
    assert said[0].split(None, 1) == ["deep", "left alone: it needs no_such_library, which is not installed here"]
    assert said[-1] == "0 notebooks checked, 1 left alone, no differences"


def test_measured_tables_are_compared_by_form_and_text(tmp_path):
    """Numbers of another run may differ; a name, a row or a column may not. A table not measured stays exact."""
    def publish_in(folder, name, rows, measured):
        made = tmp_path / folder
        publish(name, table=rows, caption="Times.", measured=measured, folder=made)
        entry = json.loads((made / "figures" / f"{name}.json").read_text())
        book = made / "figures" / "manifest.json"
        entries = json.loads(book.read_text()) if book.exists() else {}
        book.write_text(json.dumps(entries | {name: entry | {"notebook": "a", "parameters": {}}}))

    for folder, ms, stage in (("root", 1.25, "one"), ("same", 7, "one"), ("other", 7, "two")):
        for name, measured in (("a", False), ("a_measured", True)):
            publish_in(folder, name, {"stage": [stage], "ms": [ms]}, measured)
    found = {here: [str(d) for d in differences("a", tmp_path / "root", tmp_path / here)] for here in ("same", "other")}
    assert found["same"] == ["a: data/results/a.csv, row 1, ms: committed 1.25, here 7"]
    assert found["other"][-1] == "a: data/results/a_measured.csv, row 1, stage: committed one, here two"
    assert len(found["other"]) == 3


def test_the_path_of_a_file_is_made_absolute_and_a_name_stays(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("mine.onnx", "resnet50"):
        Path(name).write_text("")
    given = [values("plan_your_model", {"model": text})["model"] for text in ("mine.onnx", "./mine.onnx", "resnet50")]
    assert given == [str(tmp_path / "mine.onnx")] * 2 + ["resnet50"]
    assert values("plan_your_model", {"model": "other.onnx"})["model"] == "other.onnx"


def test_a_list_is_asked_for_as_a_command_line_takes_it():
    with pytest.raises(ValueError, match=r"""on a command line -p profiles '\["alexnet", """):
        values("measured_profiles", {"profiles": "vgg16"})
