"""What all explorers have: controls in words, a picture that is never stale, errors that are seen, pin and write.

The picture is an `ipywidgets.Image` fed with PNG bytes, not an `Output`: nothing flickers and nothing is kept from
redraw to redraw. What is drawn and said comes from pure functions of a state, which are given.
"""

import html
import importlib
from dataclasses import fields, replace
from pathlib import Path

from lpkit.checks import shown, write_all
from lpkit.explore_picture import DPI, SIZE, empty_png, svg
from lpkit.explore_spare import prepare
from lpkit.publish import DIGITS

__all__ = [
    "answers",
    "beginning",
    "connect",
    "ipywidgets",
    "menu",
    "offer",
    "panel",
    "show",
    "slider",
    "words",
    "write_files",
]

LONGEST_FOLDER = 1000  # characters


def ipywidgets():
    """The library of widgets.

    Raises
    ------
    ValueError
        If it is not installed.
    """
    try:
        return importlib.import_module("ipywidgets")
    except ImportError:
        raise ValueError("ipywidgets is not installed; install it with the extra: pip install "
                         "'layerpipe-lpkit[notebooks]'") from None  # fmt: skip


def show(widget):
    """Show a widget and nothing else: no text that another version of ipywidgets would write in another way."""
    display = importlib.import_module("IPython.display").display
    view = {"version_major": 2, "version_minor": 0, "model_id": widget.model_id}
    display({"application/vnd.jupyter.widget-view+json": view}, raw=True)


def beginning(state, initial, state_type):
    """The state to begin with: `state`, or the default one, with the fields of `initial` replaced.

    Raises
    ------
    ValueError
        If `state` is no such state, or a name is no field of it.
    """
    if state is not None and not isinstance(state, state_type):
        raise ValueError(f"state is {shown(state)}; give a {state_type.__name__}, or its fields by name")
    known = [field.name for field in fields(state_type)]
    for name in initial:
        if name not in known:
            raise ValueError(f"the explorer has no {shown(name)}; it has {', '.join(known)}")
    return replace(state_type() if state is None else state, **initial)


# Controls: each has the value of a field of the state, in the words of its unit


def words(widgets):
    """How a control looks that has its name before it."""
    return {"style": {"description_width": "120px"}, "layout": widgets.Layout(width="430px")}


def menu(widgets, label, options, value):
    """A choice of `options`, values or pairs of words and value."""
    return widgets.Dropdown(options=options, value=value, description=label, **words(widgets))


def slider(widgets, label, values, value, unit):
    """A slider over the values and the one that it begins with, read out by `unit`; it answers when let go."""
    options = [(unit(known), known) for known in sorted({*values, value})]
    return widgets.SelectionSlider(options=options, value=value, description=label, continuous_update=False,
                                   **words(widgets))  # fmt: skip


def offer(control, values, unit, instead=None):
    """Let a slider have these values and no others; from another it goes to `instead`, or to the nearest one."""
    options, old = tuple((unit(known), known) for known in sorted(values)), control.value
    if control.options == options:
        return
    control.options = options
    nearest = min(values, key=lambda known: abs(known - old))
    control.value = nearest if nearest == old or instead is None else instead


def answers(widgets):
    """What an explorer answers with, by name: error, picture and text; pin, unpin, and where to write.

    Examples
    --------
    >>> list(answers(ipywidgets()))
    ['error', 'text', 'image', 'pin', 'unpin', 'folder', 'write', 'written']
    """
    return {
        "error": widgets.HTML(layout=widgets.Layout(min_height="28px")), "text": widgets.HTML(),
        "image": widgets.Image(format="png", width=str(int(SIZE[0] * DPI)), height=str(int(SIZE[1] * DPI))),
        "pin": widgets.Button(description="pin this", tooltip="keep this configuration to compare with"),
        "unpin": widgets.Button(description="unpin", disabled=True),
        "folder": widgets.Text(value="explored", description="folder", continuous_update=False),
        "write": widgets.Button(description="write SVG and CSV", tooltip="picture and data of this view",
                                layout=widgets.Layout(width="auto")),
        "written": widgets.HTML(),
    }  # fmt: skip


def panel(widgets, controls, parts, *, left):
    """Everything in its place: controls in two columns, `left` in the first, the view below them, then the answers."""
    names = list(controls)
    columns = [widgets.VBox([controls[name] for name in part]) for part in (names[:left], names[left:-1])]
    foot = [parts[name] for name in ("pin", "unpin", "folder", "write")]
    rows = [_row(widgets, columns), controls["view"], parts["error"], parts["image"], parts["text"],
            _row(widgets, foot), parts["written"], widgets.HTML(LOOK)]  # fmt: skip
    return widgets.VBox(rows).add_class("lpkit-explorer")


def _row(widgets, parts):
    """Side by side; below each other where the window is too narrow."""
    return widgets.HBox(parts, layout=widgets.Layout(flex_flow="row wrap"))


# Sliders as long as each other, whatever they read: ipywidgets has no width of a readout. In an app of Voila the live
# picture and text stand in place of the printed ones, which a notebook has for those who do not run it.
LOOK = """<style>
body[data-voila] .jp-OutputArea-child:has(> :is([data-mime-type="text/plain"], .jp-RenderedImage)) {display: none}
.lpkit-explorer .widget-readout {flex: 0 0 130px; margin-left: 12px; padding: 0; text-align: left}
</style>"""


# What happens


def connect(controls, parts, *, asked, drawn, write, adapt=None):
    """Redraw at each change, and do what the buttons say.

    Parameters
    ----------
    controls : mapping of str to widget
    parts : dict
        From `answers`.
    asked : callable
        ``asked(controls)``: the state that the controls say.
    drawn : callable
        ``drawn(state, pinned)``: PNG bytes and lines of text.
    write : callable
        ``write(state, folder, pinned)``: paths of what it wrote.
    adapt : callable, optional
        ``adapt(controls)`` before each redraw, where what one offers depends on another; what it changes is not drawn
        one by one.
    """
    pinned, busy = [], []

    def adapted():
        if adapt is not None:
            adapt(controls)
        return _with_pinned(drawn, asked(controls), pinned)

    def redraw(_=None):
        if busy:
            return
        busy.append(True)
        parts["written"].value = ""
        _refresh(parts, adapted)
        prepare()
        busy.clear()

    def pin(_):
        pinned[:] = [asked(controls)] if not parts["error"].value else pinned
        parts["unpin"].disabled = not pinned
        redraw()

    def unpin(_):
        pinned.clear()
        parts["unpin"].disabled = True
        redraw()

    def put(_):
        said = _tried(lambda: write(asked(controls), parts["folder"].value, *pinned))
        parts["written"].value = said if isinstance(said, str) else f"written: {_escaped(' and '.join(map(str, said)))}"

    for control in controls.values():
        control.observe(redraw, "value")
    for name, action in (("pin", pin), ("unpin", unpin), ("write", put)):
        parts[name].on_click(action)
    redraw()


def _with_pinned(drawn, now, pinned):
    """What is drawn of `now` and what is pinned, if anything; which of the two is at fault is said where one is."""
    try:
        return drawn(now, *pinned)
    except (ValueError, OSError) as error:
        if not pinned:
            raise
        drawn(now)  # raises what is wrong with it, if anything is
        raise ValueError(f"the pinned configuration cannot be drawn, unpin it: {error}") from None


def _refresh(parts, work):
    """The picture and the text that `work` makes; or the reason there is none, and a grey picture."""
    found = _tried(work)
    if isinstance(found, str):
        parts["error"].value, parts["image"].value, parts["text"].value = found, empty_png(), ""
        return
    picture, lines = found
    style = "font-family: monospace; white-space: pre-wrap; line-height: 1.35"
    text = f'<div style="{style}">{_escaped(chr(10).join(lines))}</div>'
    parts["error"].value, parts["image"].value, parts["text"].value = "", picture, text


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


def write_files(folder, name, made):
    """Write ``name.svg`` and ``name.csv`` into `folder`; `made()` gives the figure and the table.

    Raises
    ------
    ValueError
        If the folder has no name or cannot be written to.
    """
    stem = _place(str(folder).strip()) / name
    figure, table = made()
    text = table.to_csv(index=False, lineterminator="\n", float_format=DIGITS)
    paths = [Path(f"{stem}.svg"), Path(f"{stem}.csv")]
    write_all(dict(zip(paths, (svg(figure), text))))
    return paths


def _place(folder):
    """The folder that a text names."""
    if not folder:
        raise ValueError("the folder has no name; give one, such as explored")
    if "\0" in folder or len(folder) > LONGEST_FOLDER or max(map(len, folder.split("/"))) > 255:
        raise ValueError(
            f"the folder {shown(folder)} cannot be: its name is too long, or holds a zero byte; choose another"
        )
    try:
        return Path(folder).expanduser()
    except RuntimeError:
        raise ValueError(
            f"the folder {shown(folder)} begins with a user who has no home here; give its whole path"
        ) from None
