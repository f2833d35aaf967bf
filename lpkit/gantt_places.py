"""Where the boxes of a Gantt chart stand: a lane a processor, thin ones for what it sends, an operation a box.

Boxes are dicts of arrays, one entry a box: row of the timeline, part (a place in `PARTS`), left and right in units of
the axis, top and bottom in inches from above.
"""

import numpy as np

from lpkit.timeline_rows import KINDS, TENSORS

__all__ = ["PARTS", "at_processors", "boxes_of", "corners", "lanes_of", "runs_of"]

PARTS = ("F", "delta", "delta'", "delta''", "G", *(f"send {tensor}" for tensor in TENSORS[1:]))
LANE, THIN = 0.34, 0.19  # inches a lane takes, of a processor and of its sends


def lanes_of(line):
    """Where each lane lies, from the first processor down, what a processor sends below it.

    Returns
    -------
    dict of (processor, processor that it sends to or 0) to (top, bottom)
        In inches.

    Examples
    --------
    >>> import lpkit as lp
    >>> from lpkit.schedule import pipedream
    >>> plan = lp.plan(lp.Costs.from_times([2, 2], 2, [0, 2], cut_bytes=[8], unit="cycles"), 2)
    >>> list(lanes_of(pipedream(plan))), list(lanes_of(pipedream(plan, bandwidth=4)))
    ([(1, 0), (2, 0)], [(1, 0), (1, 2), (2, 0), (2, 1)])
    """
    (owner, target), size = at_processors(line), max(line.processors) + 1
    seen = np.flatnonzero(np.bincount(owner * size + target))
    used = {(k, 0) for k in line.processors} | {divmod(lane, size) for lane in seen.tolist()}
    lanes, top = {}, 0.0
    for processor in sorted(set(line.processors)):
        for lane in sorted(lane for lane in used if lane[0] == processor):
            height = THIN if lane[1] else LANE
            lanes[lane] = (top + 0.12 * height, top + 0.92 * height)
            top += height
    return lanes


def at_processors(line):
    """Processor of each operation, and the one that it sends to or 0: two int arrays.

    Examples
    --------
    >>> import lpkit as lp
    >>> from lpkit.schedule import pipedream
    >>> line = pipedream(lp.plan(lp.Costs.from_times([2, 2], 2, [0, 2], unit="cycles"), 2))
    >>> [sorted(set(column.tolist())) for column in at_processors(line)]
    [[1, 2], [0]]
    """
    owner = np.array((0, *line.processors))
    return owner[line.stage], owner[line.target]


def boxes_of(line, lanes, window, size):
    """The boxes of the operations that take time within `window`, cut at its ends.

    Parameters
    ----------
    line : Timeline
    lanes : dict
        From `lanes_of`.
    window : (first, last)
        In units of the axis.
    size : float
        Units of the costs in one of the axis.

    Examples
    --------
    >>> import lpkit as lp
    >>> from lpkit.schedule import pipedream
    >>> line = pipedream(lp.plan(lp.Costs.from_times([2, 2], 2, [0, 2], unit="cycles"), 2))
    >>> boxes = boxes_of(line, lanes_of(line), (1, 5), 1)
    >>> [PARTS[part] for part in boxes["part"]], boxes["left"].tolist(), boxes["right"].tolist()
    (['F', 'F', 'G'], [1.0, 2.0, 4.0], [2.0, 4.0, 5.0])
    """
    left, right = (np.clip(times / (line.scale * size), *window) for times in (line.start, line.end))
    row = np.flatnonzero(right > left)
    of_kind = np.array([PARTS.index(kind) if kind in PARTS else -1 for kind in KINDS])
    of_tensor = np.array([-1, *(PARTS.index(f"send {tensor}") for tensor in TENSORS[1:])])
    sent = line.kind[row] == KINDS.index("send")
    part = np.where(sent, of_tensor[line.tensor[row]], of_kind[line.kind[row]])
    edges = np.zeros((2, max(line.processors) + 1, max(line.processors) + 1))
    edges[(slice(None), *np.array(list(lanes)).T)] = np.array(list(lanes.values())).T
    top, bottom = edges[(slice(None), *(column[row] for column in at_processors(line)))]
    return {"row": row, "part": part, "left": left[row], "right": right[row], "top": top, "bottom": bottom}


def runs_of(boxes, *keys):
    """Boxes that follow each other without a gap in a lane, and agree in each of `keys`, as one; the first gives `row`.

    Examples
    --------
    >>> boxes = {"left": np.array([0, 2, 5]), "right": np.array([2, 4, 6]), "top": np.zeros(3), "row": np.arange(3)}
    >>> [column.tolist() for column in runs_of(boxes).values()]
    [[0, 5], [4, 6], [0.0, 0.0], [0, 2]]
    """
    order = np.lexsort((boxes["left"], boxes["top"]))
    boxes, keys = {name: column[order] for name, column in boxes.items()}, [key[order] for key in keys]
    joined = boxes["left"][1:] == boxes["right"][:-1]
    for column in (boxes["top"], *keys):
        joined &= column[1:] == column[:-1]
    breaks = np.flatnonzero(~joined)
    begins, ends = np.append(0, breaks + 1)[: len(order)], np.append(breaks, len(order) - 1)[: len(order)]
    return {name: column[ends if name == "right" else begins] for name, column in boxes.items()}


def corners(left, right, top, bottom):
    """Corners of rectangles from four arrays of n: (n, 4, 2).

    Parameters
    ----------
    left, right, top, bottom : array (n,)

    Returns
    -------
    array (n, 4, 2)
        x and y of the corners, around the rectangle.

    Examples
    --------
    >>> corners(*np.array([[0], [2], [5], [6]])).tolist()
    [[[0, 5], [2, 5], [2, 6], [0, 6]]]
    """
    return np.stack([np.stack([x, y], -1) for x, y in ((left, top), (right, top), (right, bottom), (left, bottom))], 1)
