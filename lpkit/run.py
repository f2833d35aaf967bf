"""Regenerates the figures and results: executes notebooks, delivers what they publish, compares it with what was.

Only what a finished notebook made is delivered, whole. What a batch has finished is noted, so that a batch cut off
goes on where it stopped; one that came to its end leaves no note, and the next runs everything again.
"""

import hashlib
import json
import shutil
import sys
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from lpkit import paths
from lpkit.checks import real, shown, whole_number, write_atomically
from lpkit.compare import TOLERANCE, Difference, differences, same_pictures, strays
from lpkit.deliver import STATE, check_folder, deliver, manifest, sources
from lpkit.execute import Outcome, Task, execute_all, needs_papermill
from lpkit.notebooks import missing, notebook_ids, read_notebook, title
from lpkit.parameters import parameters, values
from lpkit.publish import versions

__all__ = ["Batch", "Check", "check", "notebook_ids", "parameters", "run", "title"]

MOST_JOBS = 2  # with more, kernels on a small machine start so slowly that they time out


@dataclass(frozen=True)
class Batch:
    """What a run did: an `Outcome` for each notebook, and the folder that holds the results.

    Examples
    --------
    >>> Batch((Outcome("a", 1.0), Outcome("b", 2.0, "ValueError: no")), Path("out")).exit_code
    1
    """

    outcomes: tuple
    folder: Path

    @property
    def exit_code(self):
        return int(not all(outcome.ok for outcome in self.outcomes))

    def to_dict(self):
        """The batch in plain types, for JSON."""
        return {"ok": not self.exit_code, "folder": str(self.folder), "notebooks": [asdict(o) for o in self.outcomes]}


@dataclass(frozen=True)
class Check:
    """What a check found: the notebooks executed and each `Difference` from what is committed.

    Examples
    --------
    >>> Check(("lp_table1",), ()).exit_code
    0
    """

    ids: tuple
    differences: tuple

    @property
    def exit_code(self):
        return int(bool(self.differences))

    def to_dict(self):
        """The check in plain types, for JSON."""
        return {
            "ok": not self.exit_code,
            "notebooks": list(self.ids),
            "differences": [asdict(d) for d in self.differences],
        }


def run(ids=None, parameters=None, *, jobs=2, out=None, fresh=False, timeout=600, root=None, say=None):
    """Execute the notebooks `ids` (all if None) with `parameters`; a failing one does not stop the others.

    Without `out`, results go to figures/ and data/results/ of the repository and the notebooks there are refreshed;
    with it, to the same folders in `out`. A notebook that fails is kept beside its log in failed/ of `out` (without
    it, of .lpkit/ in the repository). Notebooks whose id begins with ``00_`` are executed after all others. One that
    needs a library that is not installed (`lpkit.notebooks.missing`) is left alone, as is what is committed of it.

    Parameters
    ----------
    parameters : dict, optional
        Name -> value, for each notebook in `ids`; text is read as on a command line, see `lpkit.parameters.values`.
    jobs : int
        Notebooks at a time, 1 or 2.
    fresh : bool
        Execute also what a batch that was cut off has finished.
    timeout : float
        Seconds allowed a cell.
    root : path, optional
        The repository, if not the one `lpkit.paths.repository` finds.
    say : function of a line, optional
        Takes a line for each notebook; on standard error if None.

    Raises
    ------
    ValueError
        If an id or parameter is unknown; if values other than the defaults come without `out`; if papermill is
        missing, the results cannot be written or another run is writing them. Nothing has been executed then.
    """
    root = paths.repository(root)
    jobs = whole_number(jobs, "jobs", most=MOST_JOBS)
    timeout = real(timeout, "timeout", above=True)
    needs_papermill()
    chosen = {id: values(id, parameters or {}, root=root) for id in _chosen(ids, root)}
    folder = _folder(out, root)
    if folder == root:
        _refuse_changes(chosen, root)
        parameters = None  # they are the defaults: the committed notebooks get no cell that repeats them
    tasks = [
        Task(
            id,
            source=paths.notebooks(root) / f"{id}.ipynb",
            folder=folder / STATE / "work" / id,
            parameters={name: settings[name] for name in parameters or ()},
            timeout=timeout,
        )
        for id, settings in chosen.items()
    ]
    check_folder(folder, chosen)
    with _only_one(folder):
        return Batch(_run(tasks, chosen, jobs, fresh, root, folder, say), folder)


def check(ids=None, *, jobs=2, tolerance=TOLERANCE, timeout=600, root=None, say=None):
    """Execute the notebooks `ids` (all if None) into a scratch folder and compare with what is committed.

    Text and whole numbers must be equal, other numbers to `tolerance`, relative; pictures byte for byte where table and
    versions are the same. A notebook that fails, a missing file, a committed file that no notebook makes and a file
    other than the manifest says are differences too. The repository is not written to.

    Parameters
    ----------
    ids, jobs, timeout, root, say
        As for `run`.
    tolerance : float
        Relative; numbers of a table that was measured may differ by any amount.

    Returns
    -------
    Check
        Its differences have been passed to `say`, a line each, as the notebooks have.

    Raises
    ------
    ValueError
        As `run`.
    """
    root, say = paths.repository(root), say or _say
    ids = _chosen(ids, root)
    manifest(root)  # a broken one is told before anything is executed
    with tempfile.TemporaryDirectory(prefix="lpkit-check-") as scratch:
        batch = run(ids, jobs=jobs, out=scratch, timeout=timeout, root=root, say=say)
        failed = [Difference(o.id, f"notebooks/{o.id}.ipynb", "", "runs", o.error) for o in batch.outcomes if not o.ok]
        ran = [outcome.id for outcome in batch.outcomes if outcome.ok and not outcome.absent]
        alone = sum(bool(outcome.absent) for outcome in batch.outcomes)
        found = [d for id in ran for d in differences(id, root, batch.folder, tolerance=tolerance)]
        names = [name for name, entry in manifest(root).items() if entry["notebook"] in ran]
        pictures = sum(len(same_pictures(name, root, batch.folder)) for name in names)
    found = (*failed, *found, *(strays(root) if ids == notebook_ids(root) else ()))
    for difference in found:
        say(str(difference))
    left = f", {alone} left alone" if alone else ""
    bytewise = f", {pictures} pictures of the same data byte for byte" if pictures else ""
    say(f"{len(ids) - alone} notebooks checked{bytewise}{left}, {len(found) or 'no'} differences")
    return Check(tuple(ids), found)


def _chosen(ids, root):
    chosen = notebook_ids(root) if ids is None else list(dict.fromkeys([ids] if isinstance(ids, str) else ids))
    if ids is not None and not chosen:
        raise ValueError("ids is empty; give ids of notebooks, or None for all of them")
    return chosen


def _folder(out, root):
    """Where the results go."""
    if out is not None and not str(out).strip():
        raise ValueError("out is empty; name a folder, or . for the one you are in")
    return root if out is None else Path(out).resolve()


def _refuse_changes(chosen, root):
    """A sweep never lands among the committed results."""
    for id, settings in chosen.items():
        for name, default in values(id, {}, root=root).items():
            if settings[name] != default:
                raise ValueError(
                    f"{name} is {shown(settings[name])} and its default in notebook {id!r} is {default!r}; "
                    "figures/ and data/results/ hold the defaults only: name another folder with --out DIR"
                )


def _run(tasks, chosen, jobs, fresh, root, folder, say):
    shared = _hash_of_library_and_data(root)
    inputs = {id: _hash([shared, settings, sources(read_notebook(id, root=root))]) for id, settings in chosen.items()}
    finished = {} if fresh else _finished(folder)
    outcomes = {id: Outcome(id, 0, skipped=True) for id in chosen if finished.get(id) == inputs[id]}
    absent = {id: " and ".join(missing(id, root=root)) for id in chosen}
    outcomes |= {id: Outcome(id, 0, absent=absent[id]) for id in chosen if absent[id]}
    note = folder / STATE / "batch.json"
    with _progress(len(chosen), say) as tell:
        for outcome in outcomes.values():
            tell(outcome)

        def done(task, outcome):
            outcomes[task.id] = deliver(task, outcome, chosen[task.id], root=root, folder=folder)
            if outcomes[task.id].ok:
                finished[task.id] = inputs[task.id]
                with suppress(ValueError):  # what is not noted is only executed again
                    write_atomically(note, json.dumps(finished, indent=1))
            tell(outcomes[task.id])

        try:
            execute_all([task for task in tasks if task.id not in outcomes], jobs, done)
        except KeyboardInterrupt:
            (say or _say)(f"interrupted with {len(outcomes)} of {len(tasks)} done; the same command goes on from there")
            raise
    note.unlink(missing_ok=True)
    return tuple(outcomes[id] for id in chosen)


def _finished(folder):
    """Id -> hash of the inputs, of the notebooks that a batch cut off in `folder` has finished."""
    try:
        noted = json.loads((folder / STATE / "batch.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return noted if isinstance(noted, dict) else {}


def _hash(value):
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _hash_of_library_and_data(root):
    made = paths.results(root)
    files = [*paths.PACKAGE.rglob("*.py"), *(path for path in paths.data(root).rglob("*") if path.is_file())]
    read = {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files if made not in path.parents}
    return _hash([versions(), read])


@contextmanager
def _only_one(folder):
    """Refuse a second run into `folder`; the system gives the lock back when the process ends, however it does."""
    write_atomically(folder / STATE / ".gitignore", "*\n")
    with open(folder / STATE / "lock", "w") as lock:
        try:
            import fcntl

            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except ImportError:  # not on Windows
            pass
        except OSError:
            raise ValueError(f"another run is writing to {str(folder)!r}; wait for it or use another --out") from None
        shutil.rmtree(folder / STATE / "work", ignore_errors=True)
        yield


@contextmanager
def _progress(total, say):
    """A function that takes an outcome: its line goes to `say`, and a bar on a terminal moves on."""
    from tqdm import tqdm

    with tqdm(total=total, unit="notebook", leave=False, disable=None, file=sys.stderr) as bar:

        def tell(outcome):
            (say or _say)(str(outcome))
            bar.update()

        yield tell


def _say(line):
    """To standard error, above the bar: standard output is for results."""
    from tqdm import tqdm

    tqdm.write(line, file=sys.stderr)
