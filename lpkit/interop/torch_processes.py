"""The processes that run the stages of a plan: started once, given job after job, ended whatever happens.

Each is a fresh Python that imports `lpkit.interop.torch_worker`: nothing is forked, and the caller's script or notebook
is not run again. It ends when its standard input does, so none outlives the caller, however that ended.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from lpkit import paths
from lpkit.checks import whole_number

__all__ = ["Workers"]

LOOPBACK = "lo"
PAUSE = 0.005  # seconds between two looks at the processes
GRACE = 2  # seconds for the other stages to say what stopped them, once one has


class Workers:
    """Processes for `lpkit.interop.torch.run_pipeline`, kept from run to run: importing torch takes seconds.

    They start with the first run, and again after one that failed. Use it in a ``with`` statement, or let them end
    with this process.

    Parameters
    ----------
    count : int
        Most stages of a plan.

    Raises
    ------
    ValueError
        If `count` is not a whole number from 1 to 64.

    Examples
    --------
    >>> with Workers(2) as workers:
    ...     workers.running
    0
    """

    def __init__(self, count):
        self._processes, self._logs = [], None
        self.count = whole_number(count, "the number of workers", most=64)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        self.close()

    @property
    def running(self):
        """Processes alive."""
        return sum(process.poll() is None for process in self._processes)

    def close(self):
        """End the processes; a later run starts new ones."""
        for process in self._processes:
            process.kill()
            process.stdin.close()
            process.wait()
        self._processes = []
        if self._logs:
            shutil.rmtree(self._logs, ignore_errors=True)
            self._logs = None

    def run(self, folder, count, *, timeout):
        """Run the jobs in `folder`, one for each of `count` stages, to their end.

        Raises
        ------
        ValueError
            If there are more stages than workers.
        RuntimeError
            If a stage fails, in the words of the one that failed first, or `timeout` seconds pass.
        """
        if count > self.count:
            raise ValueError(f"the plan has {count} stages and there are {self.count} workers; make Workers({count})")
        if self.running < self.count:
            self.close()
            self._start()
        try:
            for rank in range(count):
                self._processes[rank].stdin.write(f"{rank} {folder}\n".encode())
                self._processes[rank].stdin.flush()
            self._wait(Path(folder), count, timeout)
        except BaseException:  # what stopped in the middle cannot go on
            self.close()
            raise

    def _start(self):
        self._logs = tempfile.mkdtemp(prefix="lpkit-")
        for rank in range(self.count):
            with open(Path(self._logs, str(rank)), "wb") as log:
                command = [sys.executable, "-m", "lpkit.interop.torch_worker"]
                self._processes.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log,
                                                        env=_environment(), start_new_session=True))  # fmt: skip

    def _wait(self, folder, count, timeout):
        deadline = time.monotonic() + timeout
        while running := [rank for rank in range(count) if not (folder / f"result-{rank}").exists()]:
            if self._stopped(folder, count):
                raise RuntimeError(self._failure(folder, count))
            if time.monotonic() > deadline:
                stages = " and ".join(str(rank + 1) for rank in running)
                raise RuntimeError(f"after {timeout:g} s stage {stages} had not finished; give more time with "
                                   "timeout=..., or fewer steps")  # fmt: skip
            time.sleep(PAUSE)

    def _stopped(self, folder, count):
        """Stages that failed or whose process is gone."""
        return [rank for rank in range(count)
                if self._processes[rank].poll() is not None or (folder / f"error-{rank}").exists()]  # fmt: skip

    def _failure(self, folder, count):
        """A sentence about the stage that failed first; the others mostly say that they lost it."""
        end = time.monotonic() + GRACE
        while len(self._stopped(folder, count)) < count and time.monotonic() < end:
            time.sleep(PAUSE)
        told = {}
        for rank in self._stopped(folder, count):
            if not (folder / f"error-{rank}").exists():
                code = self._processes[rank].poll()
                return f"the process of stage {rank + 1} ended with code {code}{self._last(rank)}"
            moment, text = (folder / f"error-{rank}").read_text(encoding="utf-8").split("\n", 1)
            told[int(moment)] = f"stage {rank + 1} failed: {' '.join(text.split())}"
        return told[min(told)]

    def _last(self, rank):
        """The last line that a process wrote."""
        lines = Path(self._logs, str(rank)).read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return f": {lines[-1]}" if lines else ""


def _environment():
    """One thread a process, this library and the caller's modules, the loopback network."""
    python_path = map(os.path.abspath, [paths.PACKAGE.parent, *sys.path])
    environment = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(python_path))
    if Path("/sys/class/net", LOOPBACK).exists():
        environment.setdefault("GLOO_SOCKET_IFNAME", LOOPBACK)
    return environment
