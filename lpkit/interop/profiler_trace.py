"""What a real run did: the ``PP:`` spans of a torch.profiler trace, as a table.

``torch.distributed.pipelining`` names each action in its profile: ``PP:0F3`` is F of stage 0, micro-batch 3.
Source: torch 2.13, ``torch/distributed/pipelining/schedules.py``, for the names; Trace Event Format (Google, 2016).
"""

import gzip
import json
import re
import zlib
from collections import Counter
from pathlib import Path

import pandas as pd

from lpkit.checks import LARGEST_FILE, read_text, shown, whole_number

__all__ = ["read_profiler_trace"]

SPAN = re.compile(r"PP:([0-9]{1,6})([A-Z_]+?)([0-9]{1,9})?")
ACTIONS = ("F", "I", "W", "B", "SEND_F", "RECV_F", "SEND_B", "RECV_B", "UNSHARD", "RESHARD", "REDUCE_GRAD")
COLUMNS = ("rank", "stage", "action", "micro_batch", "start", "duration", "step")


def read_profiler_trace(*paths):
    """The ``PP:`` spans of one trace file for each rank, as a tidy table.

    Parameters
    ----------
    *paths : str or path
        Traces that ``torch.profiler`` exported, as JSON or ``.json.gz``.

    Returns
    -------
    DataFrame
        rank (as the trace says, else the place of the file), stage (from 0), action (F, I, W, B, SEND_F, ...),
        micro_batch (-1 where there is none), start and duration in seconds, step (from 0: how often the action was
        there before); sorted by start within each rank. Clocks of ranks on one machine agree; others may not.

    Raises
    ------
    FileNotFoundError, ValueError
        If there is no such file, it is no trace, is larger than 256 MB (also unpacked), or has no ``PP:`` span.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "rank0.json"
    >>> event = {"ph": "X", "cat": "user_annotation", "name": "PP:0F1", "ts": 5000000, "dur": 250, "pid": 1, "tid": 1}
    >>> _ = path.write_text(json.dumps({"traceEvents": [event]}))
    >>> read_profiler_trace(path).values.tolist()
    [[0, 0, 'F', 1, 5.0, 0.00025, 0]]
    """
    if not paths:
        raise ValueError("no trace is given; give the file of each rank")
    found, seen, files = [], {}, set()
    for place, path in enumerate(paths):
        if (file := Path(path).resolve()) in files:
            raise ValueError(f"{str(path)!r} is given twice; give one file a rank")
        files.add(file)
        rank, rows = _spans_of(Path(path), place)
        if rank in seen:
            raise ValueError(f"{str(path)!r} and {seen[rank]!r} are both of rank {rank}; give one file a rank")
        seen[rank] = str(path)
        found += rows
    return pd.DataFrame(found, columns=COLUMNS)


def _spans_of(path, place):
    """The rank of a trace and its rows."""
    try:
        document = json.loads(_text(path))
    except json.JSONDecodeError as error:
        raise ValueError(f"{str(path)!r}: line {error.lineno} is not JSON ({error.msg}); it may have been cut "
                         "off") from None  # fmt: skip
    except (RecursionError, ValueError) as error:
        if isinstance(error, RecursionError) or "digits" in str(error):
            raise ValueError(f"{str(path)!r} is no trace: its lists or numbers are too long") from None
        raise
    events = document.get("traceEvents") if isinstance(document, dict) else document
    if not isinstance(events, list):
        raise ValueError(f"{str(path)!r} is no trace: it has no list 'traceEvents'; export it with torch.profiler")
    rank, steps = _rank(document, path, place), Counter()
    spans = sorted(filter(None, (_span(event, path) for event in events)))
    if not spans:
        raise ValueError(f"{str(path)!r} has no PP: span; profile a step of a torch pipeline schedule "
                         "(user_annotation)")  # fmt: skip
    rows = []
    for start, duration, action in spans:
        rows.append((rank, *action, start / 1e6, duration / 1e6, steps[action]))
        steps[action] += 1
    return rank, rows


def _text(path):
    """Text of a trace; a packed one is unpacked up to the size that any file may have."""
    if path.suffix != ".gz":
        return read_text(path)
    if not path.exists():
        raise FileNotFoundError(f"there is no file {str(path)!r}; check the path")
    if not path.is_file():
        raise ValueError(f"{str(path)!r} is no file; give a trace")
    try:
        with gzip.open(path) as file:
            content = file.read(LARGEST_FILE + 1)
        if len(content) <= LARGEST_FILE:
            return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{str(path)!r} does not hold text; give a trace of torch.profiler") from None
    except (OSError, EOFError, zlib.error):
        raise ValueError(f"{str(path)!r} cannot be unpacked; it may have been cut off") from None
    raise ValueError(f"{str(path)!r} holds more than {LARGEST_FILE:,} bytes; profile fewer steps")


def _rank(document, path, place):
    """Rank of a trace: what torch wrote of it, else the place of its file among the arguments."""
    about = document.get("distributedInfo") if isinstance(document, dict) else None
    if not isinstance(about, dict) or "rank" not in about:
        return place
    return whole_number(about["rank"], f"the rank in {str(path)!r}", least=0)


def _span(event, path):
    """(start, duration, (stage, action, micro-batch)) of a ``PP:`` span; None of any other event."""
    if not isinstance(event, dict) or event.get("ph") != "X" or event.get("cat") != "user_annotation":
        return None
    name = event.get("name")
    match = SPAN.fullmatch(name) if isinstance(name, str) else None
    if match is None or match[2] not in ACTIONS:
        return None
    for key in ("ts", "dur"):
        value = event.get(key)
        number = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 2**63
        if not number or (key == "dur" and value < 0):
            raise ValueError(f"{str(path)!r}: {key} of {name} is {shown(value)}; it must be a number of microseconds")
    micro = -1 if match[3] is None else int(match[3])
    return float(event["ts"]), float(event["dur"]), (int(match[1]), match[2], micro)
