"""The live explorer of LayerPipe: controls, a picture, its numbers; what each shows is a pure function of a `State`.

The picture is an `ipywidgets.Image` of fixed size fed with PNG bytes: nothing flickers, nothing is kept from redraw to
redraw, and the notebook runs and compares without a browser.
"""

import html
import importlib
from dataclasses import fields, replace
from pathlib import Path

from lpkit.checks import shown, write_all
from lpkit.costs import LAYERS
from lpkit.explore_calls import call_of, command_of
from lpkit.explore_state import VIEWS, State
from lpkit.explore_tables import cases_of, table_of
from lpkit.explore_text import text_of
from lpkit.explore_views import DPI, SIZE, draw, empty_png, png, svg
from lpkit.networks import NETWORKS
from lpkit.partition import PLANNERS
from lpkit.plots import PLANNER_NAMES
from lpkit.products import DELTAS
from lpkit.publish import DIGITS

__all__ = ["State", "call_of", "command_of", "explorer", "figure_of", "show", "table_for", "text_of", "write_view"]

OWN = "own file"
SIDES, BATCHES = [2**k for k in range(3, 10)], [2**k for k in range(11)]
BANDWIDTHS = [1, 4, 16, 64, 256, 1024, 4096]
FREE = 10**18  # of the slider of the links, where sends take no time; it knows no None


def figure_of(state, pinned=None):
    """The picture of a state; with `pinned`, of both, side by side.

    Returns
    -------
    matplotlib Figure
        9.6 x 4.5 inches.

    Raises
    ------
    ValueError, FileNotFoundError
        If the network cannot be planned so: more processors than layers, no such file.

    Examples
    --------
    >>> figure_of(State("sample4", processors=3)).axes[1].get_title()
    'LayerPipe (optimal)\\nperiod 1.395e7 cycles'
    """
    cases = cases_of(state, pinned)
    return draw(cases, table_of(cases))


def table_for(state, pinned=None):
    """The data behind `figure_of`, as a tidy DataFrame with a column ``case``.

    Examples
    --------
    >>> table_for(State("sample4", processors=2, view="speedup"))["speedup"].round(3).tolist()[:2]
    [1.0, 1.89]
    """
    return table_of(cases_of(state, pinned))


def write_view(state, folder, pinned=None):
    """Write the picture as SVG and the data as CSV, ``explorer_VIEW.svg`` and ``.csv``, into `folder`; their paths.

    Raises
    ------
    ValueError, FileNotFoundError
        As `figure_of`; or if the folder cannot be written to.
    """
    if not str(folder).strip():
        raise ValueError("the folder has no name; give one, such as explored")
    cases = cases_of(state, pinned)
    table = table_of(cases)
    stem = Path(str(folder).strip()).expanduser() / f"explorer_{state.view}"
    text = table.to_csv(index=False, lineterminator="\n", float_format=DIGITS)
    paths = [Path(f"{stem}.svg"), Path(f"{stem}.csv")]
    write_all(dict(zip(paths, (svg(draw(cases, table)), text))))
    return paths


def show(widget):
    """Show a widget and nothing else: no text that another version of ipywidgets would write in another way."""
    display = importlib.import_module("IPython.display").display
    view = {"version_major": 2, "version_minor": 0, "model_id": widget.model_id}
    display({"application/vnd.jupyter.widget-view+json": view}, raw=True)


def explorer(state=None, **initial):
    """Controls and the picture that they change.

    Parameters
    ----------
    state : State, optional
        Where to begin.
    **initial
        Fields of `State` that replace those.

    Returns
    -------
    ipywidgets.VBox

    Raises
    ------
    ValueError
        If ipywidgets is not installed, or the state cannot be.
    """
    start = replace(State() if state is None else state, **_known(initial))
    widgets = _widgets()
    controls = _controls(widgets, start)
    parts = {
        "error": widgets.HTML(), "text": widgets.HTML(),
        "image": widgets.Image(format="png", width=str(int(SIZE[0] * DPI)), height=str(int(SIZE[1] * DPI))),
        "pin": widgets.Button(description="pin this", tooltip="keep this configuration to compare with"),
        "unpin": widgets.Button(description="unpin", disabled=True),
        "folder": widgets.Text(value="explored", description="folder", continuous_update=False),
        "write": widgets.Button(description="write SVG and CSV", tooltip="picture and data of this view"),
        "written": widgets.HTML(),
    }  # fmt: skip
    _connect(controls, parts)
    names = list(controls)
    columns = [widgets.VBox([controls[name] for name in names[part]]) for part in (slice(0, 7), slice(7, -1))]
    foot = widgets.HBox([parts[name] for name in ("pin", "unpin", "folder", "write")])
    return widgets.VBox([widgets.HBox(columns), controls["view"], parts["error"], parts["image"], parts["text"], foot,
                         parts["written"]])  # fmt: skip


def _known(initial):
    known = [field.name for field in fields(State)]
    for name in initial:
        if name not in known:
            raise ValueError(f"the explorer has no {shown(name)}; it has {', '.join(known)}")
    return initial


def _widgets():
    try:
        return importlib.import_module("ipywidgets")
    except ImportError:
        raise ValueError("ipywidgets is not installed; install it with the extra: pip install "
                         "'layerpipe-lpkit[notebooks]'") from None  # fmt: skip


# Controls: each has the value of a field of the state, in the words of its unit


def _controls(widgets, state):
    """Field of the state to its control, in the order in which they stand; two for the network, the view last."""
    own = state.network not in NETWORKS
    words = {"description_width": "120px"}
    wide = widgets.Layout(width="430px")

    def menu(name, label, options):
        return widgets.Dropdown(options=options, value=getattr(state, name), description=label, style=words,
                                layout=wide)  # fmt: skip

    def slider(name, label, values, unit):
        value = FREE if getattr(state, name) is None else getattr(state, name)
        options = [(unit(known), known) for known in sorted({*values, value})]
        return widgets.SelectionSlider(options=options, value=value, description=label, style=words, layout=wide,
                                       continuous_update=False)  # fmt: skip

    return {
        "network": widgets.Dropdown(options=[*NETWORKS, OWN], value=OWN if own else state.network,
                                    description="network", style=words, layout=wide),
        "file": widgets.Text(value=state.network if own else "", description=OWN, style=words, layout=wide,
                             placeholder="CSV, ONNX or graph.txt", continuous_update=False),
        "rows": slider("rows", "array rows", SIDES, lambda n: f"{n} rows"),
        "columns": slider("columns", "array columns", SIDES, lambda n: f"{n} columns"),
        "batch": slider("batch", "mini-batch", BATCHES, lambda n: f"{n} samples"),
        "processors": slider("processors", "processors", range(1, 65), lambda n: f"{n} processor{'s' * (n > 1)}"),
        "bandwidth": slider("bandwidth", "links", [*BANDWIDTHS, FREE], _rate),
        "dataflow": menu("dataflow", "dataflow", [("ws: weights stay", "ws"), ("os: outputs stay", "os"),
                                                  ("is: inputs stay", "is")]),
        "planner": menu("planner", "planner", [(PLANNER_NAMES[name], name) for name in PLANNERS]),
        "delta": menu("delta", "form of delta", list(DELTAS)),
        "G": menu("G", "form of G", [("a: input streams", "a"), ("b: delta streams", "b")]),
        "layers": menu("layers", "layers", [(name.replace("_", " "), name) for name in LAYERS]),
        "first_layer_delta": widgets.Checkbox(value=state.first_layer_delta, description="delta of the first layer",
                                              style=words, layout=wide),
        "view": widgets.ToggleButtons(options=[(VIEW_NAMES[name], name) for name in VIEWS], value=state.view),
    }  # fmt: skip


VIEW_NAMES = dict(zip(VIEWS, ("loads", "speedup", "timeline", "communication", "utilisation", "graph with delays")))


def _rate(value):
    return "sends take no time" if value == FREE else f"{value} bytes a cycle"


def _asked(controls):
    """The state that the controls say; may raise what `State` does."""
    said = {name: control.value for name, control in controls.items()}
    file = said.pop("file")
    if said["network"] == OWN:
        if not file.strip():
            raise ValueError(f"no file is named; write its path into the line {OWN!r} and press Enter, or choose a "
                             "network")  # fmt: skip
        said["network"] = file
    return State(**said | {"bandwidth": None if said["bandwidth"] == FREE else said["bandwidth"]})


# What happens


def _connect(controls, parts):
    """Redraw at each change, and do what the buttons say."""
    pinned = []

    def redraw(_=None):
        parts["written"].value = ""
        _refresh(controls, parts, *pinned)

    def pin(_):
        pinned[:] = [_asked(controls)] if not parts["error"].value else pinned
        parts["unpin"].disabled = not pinned
        redraw()

    def unpin(_):
        pinned.clear()
        parts["unpin"].disabled = True
        redraw()

    def write(_):
        said = _tried(lambda: write_view(_asked(controls), parts["folder"].value, *pinned))
        parts["written"].value = said if isinstance(said, str) else f"written: {_escaped(' and '.join(map(str, said)))}"

    for name, control in controls.items():
        control.observe(redraw, "value")
    controls["file"].observe(lambda change: setattr(controls["network"], "value", OWN) if change.new else None, "value")
    for name, action in (("pin", pin), ("unpin", unpin), ("write", write)):
        parts[name].on_click(action)
    redraw()


def _refresh(controls, parts, pinned=None):
    """Picture and text of what the controls say; or the reason there is none, and a grey picture."""
    found = _tried(lambda: _shown_of(_asked(controls), pinned))
    if isinstance(found, str):
        parts["error"].value, parts["image"].value, parts["text"].value = found, empty_png(), ""
    else:
        parts["error"].value, parts["image"].value, parts["text"].value = "", *found


def _shown_of(state, pinned):
    cases = cases_of(state, pinned)
    lines = [text_of(state, pinned), f"Python: {call_of(state)}", f"shell:  {command_of(state)}"]
    style = "font-family: monospace; white-space: pre-wrap; line-height: 1.35"
    return png(draw(cases, table_of(cases))), f'<div style="{style}">{_escaped(chr(10).join(lines))}</div>'


def _tried(work):
    """What `work` returns, or why it cannot be done as a visible line: a callback's exceptions are seen by nobody."""
    try:
        return work()
    except (ValueError, OSError) as error:
        said = str(error)
    except Exception as error:  # noqa: BLE001 - a fault must not leave a picture that looks current
        said = f"this should not have happened: {type(error).__name__}: {error}"
    return f'<b style="color: #B00020">{_escaped(said)}</b>'


def _escaped(text):
    return html.escape(str(text))
