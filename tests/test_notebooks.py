"""The form of every notebook, that its committed results are its own, and that its parameters drive them."""

import ast
import hashlib
import json
import os
import re
import subprocess
import sys

import pytest

from lpkit import paths
from lpkit.compare import strays
from lpkit.deliver import manifest
from lpkit.execute import Task, execute_all
from lpkit.notebooks import (
    KERNELSPEC, joined, missing, normalise, notebook_ids, notebook_text, read_notebook, tags, title,
)  # fmt: skip
from lpkit.parameters import parameters, values

IDS = notebook_ids()
WITHOUT_CLAIMS = {"explorer", "pprs_explorer", "pprs_beyond", "sensitivity", "retiming_playground", "stale_training",
                  "torch_pipeline", "transformers", "measured_profiles", "plan_your_model"}
WITHOUT_RESULTS = {"00_index", "explorer", "pprs_explorer"}
MOST_CODE_CELLS = 8
MOST_LINES = 12
MOST_BYTES = 300_000

# The smallest change of parameters that must change the results: id -> {name: value}. A notebook without parameters
# has an empty one.
VARIATIONS = {
    "explorer": {"network": "sample4", "processors": 2},
    "lp_fig4_communication": {"batch": 8},
    "lp_table1_sample_network": {"batch": 16},
    "lp_table2_costs": {"array_size": 64},
    "lp_table3_sample_schedule": {"processors": 2},
    "lp_table4_speedup": {"networks": ["sample4"], "array_sizes": [32], "batches": [32], "processors": [2, 3]},
    "lp_fig7_saturation": {"network": "sample4", "max_processors": 4, "array_sizes": [32], "batches": [32]},
    "lp_fig8_sweeps": {"networks": ["sample4"], "array_sizes": [32], "batches": [32], "processors": [2, 3]},
    "sensitivity": {"networks": ["sample4"], "array_sizes": [32], "processors": [2, 3]},
    "00_index": {"reading": "plain"},
    "lp_fig1_backprop_dfg": {"layers": 8, "most_layers": 3},
    "lp_fig2_retiming_steps": {"layers": 2, "stages": [1, 2]},
    "lp_fig3_delayed_gradients": {"delays": [0, 3], "samples": 400, "seeds": 2},
    "lp_fig5_delta_split": {"difference": 4},
    "lp_fig5_timelines": {"difference": 4},
    "lp_fig6_schedules": {"processors": 2, "larger": "sample4", "larger_processors": 2, "mini_batches": 16},
    "retiming_playground": {"graph": "biquad"},
    "measured_profiles": {"profiles": ["vgg16"], "splits": ["half"], "processors": [2, 3]},
    "torch_pipeline": {"shifts": [0.0, 0.5], "micro_batches": 2, "repeats": 1},
    "pprs_fig1_computation_graph": {"samples": 3},
    "pprs_fig3_adversarial": {"depths": [4]},
    "pprs_fig2_bubbling": {"K": 2, "Delta": 3, "samples": [1, 2], "depths": [3]},
    "pprs_rates": {"Delta": 5, "sizes": [2, 3]},
    "pprs_explorer": {"K": 2, "steps": 40},
    "pprs_beyond": {"steps": 10, "depth": 6, "problem_depths": [5]},
    "pprs_convex": {"dimension": 10, "seeds": 1, "precisions": [0.1], "samples": [1, 4]},
    "transformers": {"bert_sequences": [16], "gpt2_sequences": [16], "vit_sizes": [32], "processors": [2, 5]},
    "plan_your_model": {"model": "squeezenet", "processors": 2},
    "stale_training": {"layers": 3, "activations": ["tanh"], "step_sizes": [0.05], "seeds": 1, "epochs": 1},
}

each = pytest.mark.parametrize("id", IDS)


def code_cells(id):
    return [cell for cell in read_notebook(id)["cells"] if cell["cell_type"] == "code"]


def sources(id):
    return [joined(cell["source"]) for cell in code_cells(id)]


def outputs(notebook):
    return [output for cell in notebook["cells"] for output in cell.get("outputs", ())]


def calls(id):
    """Names of what is called in the code: ``lp.claims(...)`` is "lp.claims"."""
    nodes = (node for source in sources(id) for node in ast.walk(ast.parse(source)))
    return {ast.unparse(node.func) for node in nodes if isinstance(node, ast.Call)}


def test_there_are_notebooks():
    assert IDS, "notebooks/ holds no notebook, so nothing of this file was tested"


# ---- form ---------------------------------------------------------------------------------------------------------


@each
def test_begins_with_title_and_claim(id):
    first = joined(read_notebook(id)["cells"][0]["source"])
    assert len(title(id)) >= 8
    assert len(first.split("\n", 1)[-1].strip()) >= 60, "below the title stands the paper's claim, in own words"


@each
def test_ends_with_a_paragraph(id):
    last = read_notebook(id)["cells"][-1]
    assert last["cell_type"] == "markdown"
    assert len(joined(last["source"]).strip()) >= 60, "the last cell says what agrees, what does not, what was assumed"


@each
def test_every_parameter_has_a_help(id):
    assert [name for name, parameter in parameters(id).items() if not parameter.help] == []


@each
def test_every_code_cell_is_plain_python(id):
    for source in sources(id):
        ast.parse(source)  # magics and shell lines are none
        assert source.strip(), "empty cell"
        assert not re.search(r";\s*(#.*)?$", source, re.MULTILINE), "nbval does not know the trailing ';'"


@each
def test_few_and_short_cells(id):
    lines = [len([line for line in source.splitlines() if line.strip()]) for source in sources(id)]
    assert len(lines) <= MOST_CODE_CELLS
    assert max(lines[1:]) <= MOST_LINES, "what is longer belongs in the library"


@each
def test_imports_stand_in_one_cell(id):
    statements = [{type(node) for node in ast.walk(ast.parse(source))} for source in sources(id)]
    assert [n for n, kinds in enumerate(statements) if kinds & {ast.Import, ast.ImportFrom}] == [1]


@each
def test_nothing_depends_on_place_time_or_widgets_that_are_not_kept(id):
    text = "\n".join(sources(id))
    assert not re.search(r"\b(interact|interactive|interactive_output|Output|tqdm|pyplot|clear_output)\b", text)
    assert not re.search(r"\b(getcwd|cwd|chdir|perf_counter|time\.time|datetime|__file__)\b|sys\.path|\.\./", text)
    assert not re.search(r"""["'](/|~|https?:)""", text), "paths come from the package; nothing is downloaded"


@each
def test_prints_the_verdicts(id):
    assert id in WITHOUT_CLAIMS or "lp.claims" in calls(id)


@each
def test_publishes_under_its_own_id(id):
    assert id in WITHOUT_RESULTS or "lp.publish" in calls(id)
    for name in re.findall(r"""publish\(\s*["']([^"']+)""", "\n".join(sources(id))):
        assert name == id or name.startswith(f"{id}_")


# ---- what is committed --------------------------------------------------------------------------------------------


@each
def test_is_committed_executed_and_normalised(id):
    notebook = read_notebook(id)
    assert [cell["execution_count"] for cell in code_cells(id)] == list(range(1, len(code_cells(id)) + 1))
    assert notebook["metadata"]["kernelspec"] == KERNELSPEC
    text = (paths.notebooks() / f"{id}.ipynb").read_text(encoding="utf-8")
    assert text == notebook_text(normalise(notebook)), f"run: lpkit figures {id}"
    assert len(text.encode()) < MOST_BYTES
    assert not any("injected-parameters" in tags(cell) for cell in notebook["cells"])
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])


@each
def test_outputs_are_fit_to_be_compared(id):
    for output in outputs(read_notebook(id)):
        assert output["output_type"] != "error"
        assert output.get("name") != "stderr", joined(output["text"])
        data = output.get("data", {})
        assert not [kind for kind in data if kind.startswith("image/") and kind != "image/png"]
        text = "".join(joined(value) for kind, value in data.items() if kind.startswith("text/"))
        text += joined(output.get("text", ""))
        assert not re.search(r" at 0x[0-9a-f]+|np\.(float|int|bool)\d*\(|<Figure size", text)


@each
def test_something_is_shown(id):
    assert outputs(read_notebook(id))


@each
def test_committed_results_are_of_the_default_parameters(id):
    entries = {name: entry for name, entry in manifest(paths.repository()).items() if entry["notebook"] == id}
    assert bool(entries) or id in WITHOUT_RESULTS, f"run: lpkit figures {id}"
    for name, entry in entries.items():
        assert entry["parameters"] == values(id, {})
        table = paths.results() / f"{name}.csv"
        made = hashlib.sha256(table.read_bytes()).hexdigest() if table.exists() else None
        assert entry["results_sha256"] == made, f"run: lpkit figures {id}"
        assert (paths.figures() / f"{name}.md").read_text(encoding="utf-8").strip()


def test_every_committed_result_has_a_notebook():
    assert [str(stray) for stray in strays(paths.repository())] == []
    assert {entry["notebook"] for entry in manifest(paths.repository()).values()} <= set(IDS)


# ---- parameters ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def varied(tmp_path_factory):
    """Each notebook that has a variation, executed with it: id -> (outcome, folder)."""
    pytest.importorskip("papermill", reason="executing notebooks needs the extra 'notebooks'")
    folder = tmp_path_factory.mktemp("varied")
    chosen = {id: values(id, change) for id, change in VARIATIONS.items() if change and id in IDS and not missing(id)}
    tasks = [
        Task(id, paths.notebooks() / f"{id}.ipynb", folder / id, {name: given[name] for name in VARIATIONS[id]})
        for id, given in chosen.items()
    ]
    found = {}
    execute_all(tasks, 2, lambda task, outcome: found.update({task.id: (outcome, task.folder)}))
    return found


def test_variations_are_declared():
    assert sorted(VARIATIONS) == IDS
    for id, change in VARIATIONS.items():
        assert bool(change) == bool(parameters(id)), f"declare the smallest change of the parameters of {id}"
        assert all(values(id, change)[name] != parameters(id)[name].default for name in change)


@pytest.mark.parametrize("id", [id for id, change in VARIATIONS.items() if change])
def test_parameters_drive_the_results(id, varied):
    if missing(id):
        pytest.skip(f"the notebook needs {' and '.join(missing(id))}, which is not installed")
    outcome, folder = varied[id]
    assert outcome.ok, f"{outcome.error}\n{(folder / 'log').read_text()}"
    tables = sorted((folder / "data" / "results").glob("*.csv"))
    before = [(paths.results() / table.name).read_bytes() for table in tables]
    if tables:
        assert [table.read_bytes() for table in tables] != before, "the parameters change nothing"
    else:  # it publishes nothing: what it shows must change
        shown = normalise(json.loads((folder / "notebook.ipynb").read_text(encoding="utf-8")))
        pair = ([output.get("data") for output in outputs(made)] for made in (shown, read_notebook(id)))
        assert next(pair) != next(pair), "the parameters change nothing"


def test_plain_papermill_works_from_any_folder_and_writes_nothing_else(tmp_path):
    pytest.importorskip("papermill", reason="executing notebooks needs the extra 'notebooks'")
    id = next((id for id, change in VARIATIONS.items() if change), None)
    assert id is not None, "no notebook has a variation"
    folders = (paths.notebooks(), paths.data(), paths.figures())
    before = {path: path.stat().st_mtime_ns for folder in folders for path in folder.rglob("*.*")}
    words = [word for name, value in VARIATIONS[id].items() for word in ("-y", json.dumps({name: value}))]
    command = [sys.executable, "-m", "papermill", paths.notebooks() / f"{id}.ipynb", "out.ipynb", *words]
    python_path = os.pathsep.join([str(paths.repository()), os.environ.get("PYTHONPATH", "")])
    subprocess.run(command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": python_path}, check=True, capture_output=True)
    assert [path.name for path in tmp_path.iterdir()] == ["out.ipynb"]
    assert "injected-parameters" in (tmp_path / "out.ipynb").read_text(encoding="utf-8")
    assert {path: path.stat().st_mtime_ns for folder in folders for path in folder.rglob("*.*")} == before
