"""The live explorer of LayerPipe: controls, a picture, its numbers; what each shows is a pure function of a `State`.

`figure_of` is its picture, `text_of` its numbers in words, `table_for` the data behind the picture, `call_of` and
`command_of` the Python and the command that give the same; `explorer` is all of it, live.

What the controls do is in `lpkit.explore_widgets`; the notebook runs and compares without a browser.
"""

from lpkit.costs import LAYERS
from lpkit.explore_calls import call_of, command_of
from lpkit.explore_picture import png, undisturbed
from lpkit.explore_state import VIEWS, State
from lpkit.explore_tables import cases_of, table_of
from lpkit.explore_text import text_of
from lpkit.explore_views import draw
from lpkit.explore_widgets import (
    answers, beginning, connect, ipywidgets, menu, panel, show, slider, words, write_files,
)  # fmt: skip
from lpkit.networks import NETWORKS
from lpkit.partition import PLANNERS
from lpkit.plots import PLANNER_NAMES
from lpkit.products import DELTAS

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
    return draw(cases_of(state, pinned))


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
    cases = cases_of(state, pinned)

    return write_files(folder, f"explorer_{state.view}", lambda: (draw(cases), table_of(cases)))


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
    start = beginning(state, initial, State)
    widgets = ipywidgets()
    controls, parts = _controls(widgets, start), answers(widgets)
    connect(controls, parts, asked=_asked, drawn=drawn, write=write_view)
    controls["file"].observe(lambda change: setattr(controls["network"], "value", OWN) if change.new else None, "value")
    return panel(widgets, controls, parts, left=7)


def _controls(widgets, state):
    """Field of the state to its control, in the order in which they stand; two for the network, the view last."""
    own = state.network not in NETWORKS

    def choose(name, label, options):
        return menu(widgets, label, options, getattr(state, name))

    def slide(name, label, values, unit):
        value = FREE if getattr(state, name) is None else getattr(state, name)
        return slider(widgets, label, values, value, unit)

    return {
        "network": menu(widgets, "network", [*NETWORKS, OWN], OWN if own else state.network),
        "file": widgets.Text(value=state.network if own else "", description=OWN, continuous_update=False,
                             placeholder="CSV, ONNX or graph.txt", **words(widgets)),
        "rows": slide("rows", "array rows", SIDES, lambda n: f"{n} rows"),
        "columns": slide("columns", "array columns", SIDES, lambda n: f"{n} columns"),
        "batch": slide("batch", "mini-batch", BATCHES, lambda n: f"{n} samples"),
        "processors": slide("processors", "processors", range(1, 65), lambda n: f"{n} processor{'s' * (n > 1)}"),
        "bandwidth": slide("bandwidth", "links", [*BANDWIDTHS, FREE], _rate),
        "dataflow": choose("dataflow", "dataflow", [("ws: weights stay", "ws"), ("os: outputs stay", "os"),
                                                    ("is: inputs stay", "is")]),
        "planner": choose("planner", "planner", [(PLANNER_NAMES[name], name) for name in PLANNERS]),
        "delta": choose("delta", "form of delta", list(DELTAS)),
        "G": choose("G", "form of G", [("a: input streams", "a"), ("b: delta streams", "b")]),
        "layers": choose("layers", "layers", [(name.replace("_", " "), name) for name in LAYERS]),
        "first_layer_delta": widgets.Checkbox(value=state.first_layer_delta, description="delta of the first layer",
                                              **words(widgets)),
        "view": widgets.ToggleButtons(options=[(VIEW_NAMES[name], name) for name in VIEWS], value=state.view,
                                      style={"button_width": "auto"}),
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


@undisturbed
def drawn(state, pinned=None):
    """What the explorer shows of a state: the picture as PNG bytes, and the lines beside it."""
    lines = [text_of(state, pinned), f"Python: {call_of(state)}", f"shell:  {command_of(state)}"]
    return png(draw(cases_of(state, pinned))), lines
