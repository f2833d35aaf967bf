"""A timeline as the compute-only schedule CSV of ``torch.distributed.pipelining``, and back; torch is not needed.

A row is a rank, an entry what it does next: ``1F0`` is F of stage 1 (from 0), micro-batch 0; I is delta (the gradient
of the stage's input), W is G (of its weights), B both, layer by layer. The engine adds the communication.

What the engine cannot express is lost in the CSV and said in a JSON beside it (`lpkit.interop.torch_shift_file`): it
flushes and updates once a step, so that an asynchronous timeline (`pipedream`, `layerpipe`) is written as one step
whose micro-batches are its mini-batches, in the same order, with no weights of other versions; delta'' is no action;
and stage 0 does all of its backward in W. Refused are timelines that interrupt F, I or W of a stage, and stages without
a layer.
Source: torch 2.13, ``torch/distributed/pipelining/schedules.py`` (BSD-3), for the format.
"""

import re
from collections import defaultdict, namedtuple

from lpkit.checks import read_text, shown, write_atomically
from lpkit.timeline import KINDS, Timeline

__all__ = ["Action", "is_flushed", "orders_of", "read_torch_csv", "to_torch_csv", "torch_actions", "write_torch_csv"]

Action = namedtuple("Action", "stage op micro_batch")
Action.__doc__ = """What a rank does: `op` F, I, W or B of a stage and a micro-batch, both counted from 0."""

LETTERS = {"F": "F", "delta": "I", "delta'": "I", "G": "W"}
BEFORE = {"F": (), "I": ("F",), "B": ("F",), "W": ("F", "I")}  # of the same stage and micro-batch
ENTRY = re.compile(r"([0-9]{1,6})(F|I|W|B)([0-9]{1,9})")
SENT = re.compile(r"[0-9]+(SEND_F|RECV_F|SEND_B|RECV_B|UNSHARD|RESHARD|REDUCE_GRAD)[0-9]*")


def torch_actions(timeline):
    """What each rank does in one step of the engine, in order.

    Of a timeline that flushes after each mini-batch it is the first one, since a step is a mini-batch; of another, all.

    Returns
    -------
    tuple of tuple of Action
        One entry a processor.

    Raises
    ------
    ValueError
        If this is no timeline, the engine cannot express the order, or the mini-batches of a timeline that flushes
        differ in it.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> from lpkit.plans import Plan
    >>> from lpkit.schedule import schedule
    >>> plan = Plan("by hand", Costs.from_times([2, 2], 2, [0, 2], unit="cycles"), 2, ends=(1, 2))
    >>> print(to_torch_csv(schedule(plan, "layerpipe", 3)), end="")
    0F0,0F1,0F2,0B0,0B1,0B2
    1F0,1I0,1W0,1F1,1I1,1W1,1F2,1I2,1W2
    """
    if not isinstance(timeline, Timeline):
        raise ValueError(f"timeline is {shown(timeline)}; give a Timeline, as a schedule returns it")
    for stage, layers in enumerate(timeline.plan.stages, 1):
        if not layers:
            raise ValueError(f"stage {stage} holds no layer; torch needs a module on every stage, use another planner")
    rows = [_on_rank(timeline, processor) for processor in range(1, max(timeline.processors) + 1)]
    if not is_flushed(timeline):
        return tuple(tuple(row) for row in rows)
    each = timeline.micro_batches
    for rank, row in enumerate(rows):
        steps = [[a._replace(micro_batch=a.micro_batch % each) for a in row if a.micro_batch // each == n]
                 for n in range(timeline.batches)]  # fmt: skip
        if any(step != steps[0] for step in steps):
            raise ValueError(f"the mini-batches have different orders on rank {rank}; a step of torch is one of them, "
                             "make a timeline of each")  # fmt: skip
        rows[rank] = steps[0]
    return tuple(map(tuple, rows))


def is_flushed(timeline):
    """Whether no processor starts a mini-batch before it has ended the one before.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> from lpkit.plans import Plan
    >>> from lpkit.schedule import schedule
    >>> plan = Plan("by hand", Costs.from_times([2, 2], 2, [0, 2], unit="cycles"), 2, ends=(1, 2))
    >>> [is_flushed(schedule(plan, name, 3)) for name in ("gpipe", "layerpipe")]
    [True, False]
    """
    work = timeline.kind < KINDS.index("send")
    batches = timeline.micro // timeline.micro_batches
    homes = [timeline.processors[k - 1] for k in timeline.stage.tolist()]
    last = {}
    for home, batch, works in zip(homes, batches.tolist(), work.tolist()):
        if works and batch < last.get(home, 0):
            return False
        if works:
            last[home] = batch
    return True


def _on_rank(timeline, processor):
    """Actions of a processor: its operations, put together by stage."""
    parts = []  # (stage, micro-batch, letters) of what is done in a row
    for kind, stage, micro in zip(timeline.kind.tolist(), timeline.stage.tolist(), timeline.micro.tolist()):
        letter = LETTERS.get(KINDS[kind])
        if letter is None or timeline.processors[stage - 1] != processor:
            continue
        before = parts[-1] if parts else (0, 0, "")
        together = before[:2] == (stage, micro) and "F" not in (letter, before[2][:1])
        if before == (stage, micro, letter) or (together and before[2][-1] == letter):
            continue
        if together:
            parts[-1] = (stage, micro, before[2] + letter)
        else:
            parts.append((stage, micro, letter))
    return _whole_actions(timeline, parts)


def _whole_actions(timeline, parts):
    """Actions of parts; each must be there once, so that nothing was interrupted."""
    split = {(stage, micro) for stage, micro, letters in parts if "I" in letters}
    actions = []
    for stage, micro, letters in parts:
        alone = letters == "W" and (stage, micro) not in split  # nothing to pass down: B and W are the same
        for letter in "B" if alone or letters not in ("F", "I", "W", "IW") else letters:
            actions.append(Action(stage - 1, letter, micro))
    seen = set()
    for action in actions:
        clash = ("I", "W", "B") if action.op == "B" else ("B", action.op)
        if any((action.stage, op, action.micro_batch) in seen for op in clash):
            raise ValueError(f"{timeline.schedule} interrupts the work of stage {action.stage + 1} on micro-batch "
                             f"{action.micro_batch}; torch runs F, I, W and B of a stage as a whole")  # fmt: skip
        seen.add(action)
    return actions


def to_torch_csv(timeline, *, bubbles=False):
    """The text of the CSV; with `bubbles`, an empty entry where a rank waits if every action took one step.

    Raises
    ------
    ValueError
        As `torch_actions`.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> from lpkit.plans import Plan
    >>> from lpkit.schedule import schedule
    >>> plan = Plan("by hand", Costs.from_times([2, 2], 2, [0, 2], unit="cycles"), 2, ends=(1, 2))
    >>> print(to_torch_csv(schedule(plan, "gpipe", micro_batches=2), bubbles=True), end="")
    0F0,0F1,,,0B1,0B0
    ,1F0,1F1,1B1,1B0
    """
    rows = torch_actions(timeline)
    if bubbles:
        steps = _steps(rows)
        rows = [_spread(row, steps) for row in rows]
    text = [",".join("" if a is None else f"{a.stage}{a.op}{a.micro_batch}" for a in row) for row in rows]
    return "\n".join(text) + "\n"


def write_torch_csv(timeline, path, *, bubbles=False):
    """Write the CSV to `path`, whole or not at all; returns the path.

    Parameters
    ----------
    timeline : Timeline
    path : path
    bubbles : bool
        As for `to_torch_csv`.

    Raises
    ------
    ValueError
        As `torch_actions`, or if the file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> import lpkit as lp
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     line = lp.schedule(lp.plan(lp.costs("sample4"), 2), "gpipe", micro_batches=1)
    ...     print(write_torch_csv(line, f"{folder}/schedule.csv").read_text(), end="")
    0F0,0B0
    1F0,1B0
    """
    return write_atomically(path, to_torch_csv(timeline, bubbles=bubbles))


def _spread(row, steps):
    """A row with None in the steps in which nothing is done."""
    at = {steps[action]: action for action in row}
    return [at.get(step) for step in range(max(at) + 1)]


def read_torch_csv(path):
    """The actions in a compute-only CSV, one tuple a rank; empty entries are left out.

    Raises
    ------
    FileNotFoundError, ValueError
        If there is no such file, an entry is no action, a stage is on two ranks, F, I, W or B of a micro-batch is
        missing or there twice, or ranks would wait for each other for ever: the sentence names the place.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "schedule.csv"
    >>> _ = path.write_text("0F0,0B0\\n1F0,1I0,1W0\\n")
    >>> read_torch_csv(path)[0]
    (Action(stage=0, op='F', micro_batch=0), Action(stage=0, op='B', micro_batch=0))
    """
    lines = read_text(path).rstrip("\n").split("\n")
    try:
        rows = tuple(tuple(_row(line, rank)) for rank, line in enumerate(lines))
        _check(rows)
    except ValueError as error:
        raise ValueError(f"{str(path)!r}: {error}") from None
    return rows


def _row(line, rank):
    for place, entry in enumerate(line.split(",")):
        entry = entry.strip().strip('"')
        if SENT.fullmatch(entry):
            raise ValueError(f"row {rank}, entry {place} is {shown(entry)}, communication; give a compute-only CSV")
        if match := ENTRY.fullmatch(entry):
            yield Action(int(match[1]), match[2], int(match[3]))
        elif entry:
            raise ValueError(f"row {rank}, entry {place} is {shown(entry)}; an entry is STAGE, then F, I, W or B, then "
                             "MICRO-BATCH, such as 0F3")  # fmt: skip


def _check(rows):
    """Raise unless the actions are complete, each once, and can be run."""
    if not any(rows):
        raise ValueError("there is no action in it; give a row for each rank")
    homes, done = {}, defaultdict(set)
    for rank, row in enumerate(rows):
        for action in row:
            if homes.setdefault(action.stage, rank) != rank:
                raise ValueError(f"stage {action.stage} is on the ranks {homes[action.stage]} and {rank}; keep it on "
                                 "one")  # fmt: skip
            ops = done[action.stage, action.micro_batch]
            if action.op in ops or ("B" in ops | {action.op} and ops & {"I", "W", "B"}):
                raise ValueError(f"{_say(action)} on rank {rank} repeats what was done; give F once, and B or I and W")
            if missing := [op for op in BEFORE[action.op] if op not in ops]:
                raise ValueError(f"{_say(action)} on rank {rank} comes before {missing[0]}; its order is F, I, W")
            ops.add(action.op)
    _check_complete(homes, done)
    _steps(rows)


def _check_complete(homes, done):
    micros = {micro for _, micro in done}
    for what, numbers in (("stage", set(homes)), ("micro-batch", micros)):
        if missing := [n for n in range(len(numbers)) if n not in numbers]:
            raise ValueError(f"{what} {missing[0]} is missing; they are counted from 0 without a gap")
    for stage in sorted(homes):
        for micro in range(len(micros)):
            ops = done.get((stage, micro), set())
            if ops not in ({"F", "B"}, {"F", "I", "W"}):
                found = ", ".join(sorted(ops)) or "nothing"
                raise ValueError(f"stage {stage}, micro-batch {micro} has {found}; give F, and B or I and W")


def _steps(rows):
    """{action: step} if every action takes one step and what it needs of another stage was done in an earlier one."""
    last, at, steps, step = max(a.stage for row in rows for a in row), [0] * len(rows), {}, 0
    while any(place < len(row) for place, row in zip(at, rows)):
        ready = [rank for rank, row in enumerate(rows) if at[rank] < len(row) and _may(row[at[rank]], steps, last)]
        if not ready:
            rank = next(rank for rank, row in enumerate(rows) if at[rank] < len(row))
            raise ValueError(f"the ranks wait for each other: {_say(rows[rank][at[rank]])} on rank {rank} never gets "
                             "what it needs; change the order")  # fmt: skip
        for rank in ready:
            steps[rows[rank][at[rank]]] = step
            at[rank] += 1
        step += 1
    return steps


def _may(action, steps, last):
    """Whether what an action needs of the stage before or after is done."""
    stage, op, micro = action
    if op == "F":
        return stage == 0 or (stage - 1, "F", micro) in steps
    return op == "W" or stage == last or any((stage + 1, o, micro) in steps for o in "IB")


def _say(action):
    return f"{action.stage}{action.op}{action.micro_batch}"


def orders_of(rows):
    """The orders that `lpkit.schedule.hand_made` takes, from actions with stage k on rank k.

    Raises
    ------
    ValueError
        If a rank has another stage than its own.

    Examples
    --------
    >>> orders_of([[Action(0, "F", 0), Action(0, "B", 0)]])
    [[('F', 0), ('B', 0), ('U', 0)]]
    """
    names = {"F": "F", "I": "delta", "W": "G", "B": "B"}
    for rank, row in enumerate(rows):
        for action in row:
            if action.stage != rank:
                raise ValueError(f"{_say(action)} is on rank {rank}; an order made by hand has stage k on rank k")
    return [[*((names[op], micro) for _, op, micro in row), ("U", 0)] for row in rows]
