"""Compares what the notebooks compute now with what is committed, cell by cell, and never touches the repository.

What is compared is the table behind each picture, and its caption. Pictures depend on the version of what draws them;
where the versions of the manifest are those used here, and the tables are the same, so must the pictures be, byte for
byte.
"""

import csv
import hashlib
import math
import re
from dataclasses import dataclass
from itertools import zip_longest

from lpkit.checks import read_text, shown
from lpkit.deliver import manifest

__all__ = ["Difference", "compare_tables", "differences", "same_pictures", "strays"]

TOLERANCE = 1e-9
NOTHING = "(missing)"
KINDS = ("svg", "png")


@dataclass(frozen=True)
class Difference:
    """A place where committed and computed differ: notebook, file, place in it, both values.

    Examples
    --------
    >>> print(Difference("lp_table1", "data/results/lp_table1.csv", "row 1, cycles", "46", "45"))
    lp_table1: data/results/lp_table1.csv, row 1, cycles: committed 46, here 45
    """

    id: str
    file: str
    where: str
    committed: str
    here: str

    def __str__(self):
        place = f"{self.file}, {self.where}" if self.where else self.file
        return f"{self.id}: {place}: committed {self.committed}, here {self.here}"


def compare_tables(committed, here, *, tolerance=TOLERANCE):
    """Places where two CSV texts differ: (place, committed value, value here). With an infinite tolerance any number
    equals any other.

    Parameters
    ----------
    committed, here : str
        The texts, the first line naming the columns.
    tolerance : float
        Relative, for numbers that are not whole on both sides.

    Examples
    --------
    >>> compare_tables("layer,cycles\\n1,46\\n", "layer,cycles\\n1,45\\n")
    [('row 1, cycles', '46', '45')]
    >>> compare_tables("loss\\n0.5\\n", "loss\\n0.5000000000001\\n")
    []
    """
    old, new = (list(csv.reader(text.splitlines())) for text in (committed, here))
    if old[:1] != new[:1]:
        return [("columns", ", ".join(old[0]) if old else NOTHING, ", ".join(new[0]) if new else NOTHING)]
    if len(old) != len(new):
        return [("rows", str(len(old) - 1), str(len(new) - 1))]
    return [
        (f"row {row}, {column}", a, b)
        for row, cells in enumerate(zip(old[1:], new[1:]), start=1)
        for column, a, b in zip_longest(old[0], *cells, fillvalue=NOTHING)
        if not _equal(a, b, tolerance)
    ]


def differences(id, root, scratch, *, tolerance=TOLERANCE):
    """Each `Difference` between what notebook `id` made in the folder `scratch` and what is committed in `root`.

    Parameters
    ----------
    id : str
        A notebook.
    root, scratch : Path
        The repository, and a folder laid out like it.
    tolerance : float
        As for `compare_tables`; of a measured table it is infinite.

    Yields
    ------
    Difference

    Raises
    ------
    ValueError
        If one of the two manifests is none.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     list(differences("lp_table1", Path(folder), Path(folder)))  # neither holds anything
    []
    """
    here, committed = manifest(scratch), manifest(root)
    names = sorted({name for book in (here, committed) for name, entry in book.items() if entry["notebook"] == id})
    for name in names:
        measured = here.get(name, {}).get("measured") and committed.get(name, {}).get("measured")
        allowed = math.inf if measured else tolerance
        for file in (f"data/results/{name}.csv", f"figures/{name}.md"):
            yield from (Difference(id, file, *d) for d in _file_differences(root / file, scratch / file, allowed))
        for picture in (f"figures/{name}.{kind}" for kind in KINDS):
            old, new = ((folder / picture).exists() for folder in (root, scratch))
            if old != new:
                yield Difference(id, picture, "", *("there" if is_there else NOTHING for is_there in (old, new)))
        for picture in same_pictures(name, root, scratch):
            old, new = (_sha256(folder / picture) for folder in (root, scratch))
            if old != new:
                yield Difference(id, picture, "bytes, though data and versions are the same", old[:12], new[:12])
        yield from _manifest_differences(id, name, committed.get(name), here.get(name), root)


def same_pictures(name, root, scratch):
    """Pictures of `name` that must be the same to the byte: same versions, same table, not measured; in both folders.

    Parameters
    ----------
    name : str
        Of a figure.
    root, scratch : Path
        As for `differences`.

    Returns
    -------
    list of str
        Paths below the folders.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     same_pictures("lp_table1", Path(folder), Path(folder))  # neither manifest speaks of it
    []
    """
    entries = [manifest(folder).get(name, {}) for folder in (root, scratch)]
    said = [[entry.get(key) for key in ("versions", "results_sha256", "measured")] for entry in entries]
    if said[0] != said[1] or said[0][2] or not said[0][1]:
        return []
    pictures = [f"figures/{name}.{kind}" for kind in KINDS]
    return [picture for picture in pictures if all((folder / picture).is_file() for folder in (root, scratch))]


def _sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def strays(root):
    """Committed files of results that no notebook makes, each as a `Difference`.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     (made := Path(folder, "figures")).mkdir()
    ...     _ = (made / "old.md").write_text("left over")
    ...     print(*strays(Path(folder)))
    old: figures/old.md: committed there, here no notebook makes it
    """
    known = manifest(root)
    for folder in ("data/results", "figures"):
        for path in sorted((root / folder).glob("*")):
            if path.stem not in known and path.suffix in (".csv", ".svg", ".png", ".md"):
                yield Difference(path.stem, f"{folder}/{path.name}", "", "there", "no notebook makes it")


def _equal(a, b, tolerance):
    if a == b:
        return True
    if all(re.fullmatch(r"[+-]?\d+", value) for value in (a, b)):
        return math.isinf(tolerance)
    try:
        return math.isclose(float(a), float(b), rel_tol=tolerance, abs_tol=1e-15)
    except ValueError:
        return False


def _file_differences(committed, here, tolerance):
    if not committed.exists() and not here.exists():
        return []
    if not committed.exists() or not here.exists():
        return [("", *("there" if path.exists() else NOTHING for path in (committed, here)))]
    try:
        old, new = read_text(committed), read_text(here)
        if committed.suffix == ".csv":
            return compare_tables(old, new, tolerance=tolerance)
    except (ValueError, csv.Error) as error:  # empty, binary, or one line of megabytes
        return [("", f"there, but {error}", "a table" if committed.suffix == ".csv" else "a caption")]
    return [] if old == new else [("", shown(old.strip(), 1000), shown(new.strip(), 1000))]


def _manifest_differences(id, name, committed, here, root):
    """The parameters, and that the manifest speaks of the committed table and pictures and of no others."""
    if committed is None or here is None:
        yield Difference(
            id, "figures/manifest.json", name, *("there" if entry else NOTHING for entry in (committed, here))
        )
        return
    if committed["parameters"] != here["parameters"]:
        yield Difference(id, "figures/manifest.json", name, str(committed["parameters"]), str(here["parameters"]))
    files = {"results": f"data/results/{name}.csv"} | {kind: f"figures/{name}.{kind}" for kind in KINDS}
    for kind, file in files.items():
        if (root / file).is_file() and _sha256(root / file) != committed.get(f"{kind}_sha256"):
            yield Difference(id, "figures/manifest.json", name, f"another {kind}_sha256", f"that of {file}")
