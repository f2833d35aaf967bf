"""Executes notebooks with papermill, each in a kernel of its own, in at most two worker processes.

The kernel is this Python, whatever kernels the machine knows. It talks over sockets in a fresh folder (IPC) instead of
ports, which two kernels could both take, starts in an empty working folder and ignores the user's IPython profile.
"""

import contextlib
import multiprocessing
import os
import re
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from lpkit import paths
from lpkit.publish import OUT

__all__ = ["Task", "Outcome", "needs_papermill", "execute_all", "start_worker", "execute"]

START_TIMEOUT = 120  # seconds; a kernel on a loaded machine takes far longer than on an idle one
GRACE = 10  # seconds a worker has to stop its kernel when the runner was killed
LONGEST_SOCKET_FOLDER = 80  # characters; the system allows about 100 for the name of a socket in it


@dataclass(frozen=True)
class Task:
    """A notebook to execute: where it is, with which parameters, where its files go, seconds allowed a cell."""

    id: str
    source: Path
    folder: Path
    parameters: dict = field(default_factory=dict)
    timeout: float = 600


@dataclass(frozen=True)
class Outcome:
    """How it went: the error in one line ("" if none), the seconds taken; skipped if it had been done before.

    `absent` names a library that is not installed here and without which the notebook was left alone.

    Examples
    --------
    >>> print(Outcome("lp_table1", 1.62))
    lp_table1                            1.6 s  ok
    """

    id: str
    seconds: float
    error: str = ""
    skipped: bool = False
    absent: str = ""

    @property
    def ok(self):
        return not self.error

    def __str__(self):
        if self.absent:
            return f"{self.id:<32}    left alone: it needs {self.absent}, which is not installed here"
        verdict = "unchanged, done before" if self.skipped else "ok" if self.ok else f"failed: {self.error}"
        return f"{self.id:<32} {self.seconds:>7.1f} s  {verdict}"


def needs_papermill():
    """Raise a `ValueError` that says what to install if notebooks cannot be executed here.

    Raises
    ------
    ValueError
        If papermill or ipykernel is missing.
    """
    missing = [name for name in ("papermill", "ipykernel") if find_spec(name) is None]
    if missing:
        raise ValueError(
            f"executing notebooks needs {' and '.join(missing)}, not installed here; "
            "install with: pip install '.[notebooks]' in the clone of lpkit"
        )


def start_worker():
    """Prepare this worker process: it stops its kernel when told to end, and ends when its parent was killed.

    Its kernels compute on one core, unless the user's OMP_NUM_THREADS says otherwise: two that each take all cores wait
    for each other, and both take three times as long.
    """
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process; the runner decides what ends
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    threading.Thread(target=_end_with_parent, daemon=True).start()
    warnings.simplefilter("ignore")  # of papermill and its libraries; those of a notebook are raised in its kernel


def execute(task):
    """Execute `task`; its folder then holds notebook.ipynb, log and what the notebook published. Never raises."""
    begin = time.perf_counter()
    try:
        task.folder.mkdir(parents=True, exist_ok=True)
        error = _executed(task)
    except SystemExit:
        os._exit(1)  # told to end; by now the kernel is stopped and its folder cleared
    except OSError as failure:
        error = _disk_error(failure)
    return Outcome(task.id, time.perf_counter() - begin, error)


def execute_all(tasks, jobs, done):
    """Execute `tasks` in worker processes and call `done(task, outcome)` in this one, as they end.

    Parameters
    ----------
    tasks : sequence of Task
    jobs : int
        Workers at the most.
    done : callable
        ``done(task, outcome)``; an error that it raises ends all workers.
    """
    if not tasks:
        return
    before = set(multiprocessing.active_children())
    index = [task for task in tasks if task.id.startswith("00_")]  # it reads what the others wrote
    pool = ProcessPoolExecutor(min(jobs, len(tasks)), mp_context=_context(), initializer=start_worker)
    try:
        for together in ([task for task in tasks if task not in index], index):
            futures = {pool.submit(execute, task): task for task in together}
            for future in as_completed(futures):
                done(futures[future], _outcome(future, futures[future]))
    except BaseException:  # an interruption too must leave no kernel behind
        for worker in set(multiprocessing.active_children()) - before:
            worker.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _context():
    """Workers are forked from a server that imported papermill, which takes seconds, once, and found the fonts."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["papermill", "matplotlib.font_manager", "lpkit.execute"])
    return context


def _outcome(future, task):
    try:
        return future.result()
    except BrokenProcessPool:
        return Outcome(task.id, 0, "a worker process died (killed, or out of memory); run it again with jobs 1")


def _end_with_parent():
    multiprocessing.parent_process().join()
    os.kill(os.getpid(), signal.SIGTERM)  # the main thread stops the kernel and clears its folder
    time.sleep(GRACE)
    os._exit(1)


def _executed(task):
    """The error in one line, or ""."""
    error = ""
    with tempfile.TemporaryDirectory(prefix="lpkit-") as scratch, _stderr_to(task.folder / "log"):
        os.environ.update(_environment(task, scratch))
        try:
            _papermill(task, scratch)
        except Exception as failure:
            error = _in_one_line(failure)
            _log("".join(traceback.format_exception_only(failure)))
        executed = Path(scratch, "notebook.ipynb")
        try:
            shutil.copyfile(executed if executed.exists() else task.source, task.folder / "notebook.ipynb")
        except OSError as failure:
            (task.folder / "notebook.ipynb").unlink(missing_ok=True)  # half of it
            error = error or _disk_error(failure)
    return error


def _log(text):
    """To standard error past its buffer, which on a full disk would keep the text for the next notebook."""
    with contextlib.suppress(OSError):
        os.write(2, _without_colours(text).encode())


def _disk_error(failure):
    return f"cannot write {str(failure.filename2 or failure.filename)!r}: {failure.strerror}"


def _environment(task, scratch):
    package = paths.PACKAGE.parent
    python_path = [str(package)] if (package / "pyproject.toml").exists() else []  # not the folder of all packages
    python_path += [os.path.abspath(p) for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
    return {
        OUT: str(task.folder),
        "IPYTHONDIR": scratch,
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(python_path)),
    }


def _papermill(task, scratch):
    import nbformat
    import papermill

    empty = Path(scratch, "empty")
    empty.mkdir()
    papermill.execute_notebook(
        nbformat.read(task.source, as_version=4),  # not the path: papermill would fill in braces in it
        os.path.join(scratch, "notebook.ipynb"),
        parameters=task.parameters,
        kernel_name="python3",
        kernel_manager_class=_kernel_manager(scratch),
        progress_bar=False,
        start_timeout=START_TIMEOUT,
        execution_timeout=task.timeout,
        cwd=empty,
    )


def _kernel_manager(scratch):
    from jupyter_client.manager import AsyncKernelManager

    short = os.name == "posix" and len(scratch) <= LONGEST_SOCKET_FOLDER
    transport = {"transport": "ipc", "ip": os.path.join(scratch, "kernel")} if short else {}

    class ThisPython(AsyncKernelManager):
        def __init__(self, **options):
            super().__init__(**transport, **options)

        def format_kernel_cmd(self, extra_arguments=None):
            launch = [sys.executable, "-m", "ipykernel_launcher", "-f", self.connection_file]
            return launch + list(extra_arguments or ())

    return ThisPython


@contextlib.contextmanager
def _stderr_to(path):
    """What this process and the kernel it starts write to standard error goes to the file at `path`."""
    sys.stderr.flush()
    kept = os.dup(2)
    with open(path, "wb") as log:
        os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)


def _in_one_line(failure):
    name = getattr(failure, "ename", type(failure).__name__)
    lines = _without_colours(str(getattr(failure, "evalue", failure))).strip().splitlines() or [""]
    where = f" (cell {failure.exec_count})" if getattr(failure, "exec_count", None) else ""
    return f"{name}: {lines[0]}{where}"


def _without_colours(text):
    return re.sub(r"\x1b\[[0-9;]*m", "", text)
