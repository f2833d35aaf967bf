"""What a notebook makes: its figure, the table behind it and a caption, written the same way to the last byte.

A notebook ends its figure cell with ``lp.publish(id, figure, table=table, caption="...")``. It is always shown; it is
written only where the runner (or the reader, with LPKIT_OUT) says, so exploring by hand, nbval and plain papermill
leave the repository alone. The same data give the same picture, byte for byte, with the same versions of what draws it.
"""

import hashlib
import io
import json
import os
import platform
import re
from importlib import metadata
from pathlib import Path

from lpkit.checks import write_atomically

__all__ = ["Shown", "publish", "versions", "OUT"]

OUT = "LPKIT_OUT"  # environment variable: the folder in which figures/ and data/results/ are written
CLIP = re.compile(rb'(?<=url\(#)p[0-9a-f]{10}(?=\))|(?<=<clipPath id=")p[0-9a-f]{10}(?=")')
SCREEN_DPI = 80
FILE_DPI = 160
DIGITS = "%.12g"  # the digits beyond differ between processors (vector units), and would make noise in git


class Shown:
    """A picture (PNG bytes, or None) under a name, shown by Jupyter; its text never changes from run to run.

    Examples
    --------
    >>> Shown("lp_fig7_saturation", b"...")
    figure: lp_fig7_saturation
    """

    def __init__(self, name, png=None):
        self.name, self.png = name, png

    def _repr_png_(self):
        return self.png

    def __repr__(self):
        return f"{'figure' if self.png else 'table'}: {self.name}"


def publish(name, figure=None, *, table=None, caption="", measured=False, folder=None):
    """Show `figure` and, where told to, write it with the `table` behind it and its `caption`.

    Written are figures/<name>.svg, .png, .md (the caption) and .json (versions, sha256 of the files), and
    data/results/<name>.csv, in `folder`; without it in the folder that LPKIT_OUT names, and without that nowhere.

    Parameters
    ----------
    name : str
        Id of the notebook, or that and a suffix when it makes several figures.
    figure : matplotlib Figure, optional
    table : pandas DataFrame, lpkit Table or what makes a DataFrame, optional
        Its index is written only when it is named. Floats keep 12 digits.
    caption : str
        One paragraph: what is seen, under which assumptions.
    measured : bool
        Whether the numbers of the table were measured on this machine, so that another run has others; `check` then
        compares its text and form only.

    Raises
    ------
    ValueError
        If the name is not made of letters, digits, '_' and '-'; nothing is given; the caption is missing.

    Examples
    --------
    >>> publish("lp_table1", table={"layer": [1], "cycles": [46]}, caption="Cycles of the sample network.")
    table: lp_table1
    """
    _check(name, figure, table, caption)
    shown = Shown(name, None if figure is None else _drawn(figure, "png", SCREEN_DPI))
    folder = folder or os.environ.get(OUT)
    if folder:
        _write(Path(folder), name, figure, table, caption, measured)
    return shown


def versions():
    """Versions of what results and pictures depend on.

    Examples
    --------
    >>> sorted(versions())
    ['lpkit', 'matplotlib', 'numpy', 'pillow', 'python']
    """
    names = {"lpkit": "layerpipe-lpkit", "numpy": "numpy", "matplotlib": "matplotlib", "pillow": "pillow"}
    return {"python": platform.python_version()} | {name: _version(named) for name, named in names.items()}


def _version(distribution):
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "not installed"


def _check(name, figure, table, caption):
    if not (isinstance(name, str) and re.fullmatch(r"[A-Za-z0-9][\w-]*", name, re.ASCII)):
        raise ValueError(f"name is {name!r}; use the notebook's id: letters, digits, '_' and '-'")
    if figure is None and table is None:
        raise ValueError(f"nothing to publish as {name!r}; give a figure, a table or both")
    if not (isinstance(caption, str) and caption.strip()):
        raise ValueError(f"{name!r} has no caption; say in a paragraph what is seen and under which assumptions")


def _write(folder, name, figure, table, caption, measured):
    drawn = folder / "figures" / name
    csv = None if table is None else _csv(table).encode()
    pictures = {} if figure is None else {"svg": _drawn(figure, "svg"), "png": _drawn(figure, "png", FILE_DPI)}
    for kind, picture in pictures.items():
        write_atomically(f"{drawn}.{kind}", picture)
    if csv is not None:
        write_atomically(folder / "data" / "results" / f"{name}.csv", csv)
    write_atomically(f"{drawn}.md", caption.strip() + "\n")
    entry = {"versions": versions(), "results_sha256": csv and hashlib.sha256(csv).hexdigest()}
    entry |= {f"{kind}_sha256": hashlib.sha256(picture).hexdigest() for kind, picture in pictures.items()}
    entry |= {"measured": True} if measured else {}
    write_atomically(f"{drawn}.json", json.dumps(entry, indent=1, sort_keys=True) + "\n")


def _drawn(figure, kind, dpi="figure"):
    """Bytes of the picture, without the date, the version and the random names that matplotlib puts in."""
    import matplotlib

    unset = {"svg": {"Date": None}, "png": {"Software": None}}[kind]
    stream = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "lpkit"}):
        figure.savefig(stream, format=kind, dpi=dpi, metadata=unset)
    return numbered_clips(stream.getvalue()) if kind == "svg" else stream.getvalue()


def numbered_clips(svg):
    """An SVG document whose clip paths are numbered in the order of their use.

    matplotlib names them after all digits of their place, of which the last may differ from run to run where a layout
    was solved for, although no digit that is written does.

    Examples
    --------
    >>> numbered_clips(b'url(#p0123456789) url(#pabcdefabcd) <clipPath id="p0123456789">')
    b'url(#clip1) url(#clip2) <clipPath id="clip1">'
    """
    names = {}
    return CLIP.sub(lambda found: names.setdefault(found[0], b"clip%d" % (len(names) + 1)), svg)


def _csv(table):
    import pandas

    frame = pandas.DataFrame(getattr(table, "frame", table))  # a `Table` holds one
    named = any(level is not None for level in frame.index.names)
    return frame.to_csv(index=named, lineterminator="\n", float_format=DIGITS)
