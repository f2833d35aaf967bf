"""Loops one by one, and two textbook ways to the iteration bound: small reference methods, for teaching and checks.

A graph may have exponentially many loops (a chain of L layers that trains has 3**L - 1), and both textbook methods need
a matrix with a row for each delay; `lpkit.bounds.iteration_bound` needs neither.
Source: Johnson, "Finding all the elementary circuits of a directed graph", SIAM J. Computing 4 (1975); Parhi (1999),
sections 2.4.1 (longest path matrix) and 2.4.2 (minimum cycle mean); Karp, Discrete Mathematics 23 (1978); Ito & Parhi,
"Determining the minimum iteration period of an algorithm", J. VLSI Signal Processing 11 (1995).
"""

from collections import defaultdict
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from lpkit.checks import whole_number
from lpkit.orders import outgoing, plain, strong_components, topological

__all__ = ["Loop", "cycle_mean_bound", "longest_path_matrix_bound", "loops"]

MOST_DELAYS = 128  # of the reference methods, whose work grows as the fourth power
NO_PATH = -1


class Loop(NamedTuple):
    """A loop: its nodes from the first in the order of the graph, their time, its delays, and time over delays."""

    nodes: tuple
    time: int | Fraction
    delays: int
    bound: Fraction


def loops(dfg, limit=10_000):
    """All simple loops of `dfg`; of parallel edges the one with the fewest delays counts.

    Raises
    ------
    ValueError
        If there are more than `limit`: their number may grow exponentially with the graph.

    References
    ----------
    Johnson (1975).

    Examples
    --------
    >>> from lpkit.dfg import DFG, backprop_dfg
    >>> loops(DFG({"a": 2, "b": 3}, [("a", "b", 0), ("b", "a", 2)]))
    (Loop(nodes=('a', 'b'), time=5, delays=2, bound=Fraction(5, 2)),)
    >>> [len(loops(backprop_dfg(layers))) for layers in (2, 3, 4, 5)]
    [8, 26, 80, 242]
    """
    limit, found = whole_number(limit, "limit"), []
    fewest = {}
    for u, v, w in zip(dfg.tails.tolist(), dfg.heads.tolist(), dfg.delays.tolist()):
        fewest[u, v] = min(w, fewest.get((u, v), w))
    for nodes in _node_loops(len(dfg.nodes), fewest):
        if len(found) == limit:
            raise ValueError(f"there are more than {limit} loops; raise `limit`, or use iteration_bound instead")
        delays = sum(fewest[step] for step in zip(nodes, nodes[1:] + nodes[:1]))
        names = tuple(dfg.nodes[place] for place in nodes)
        time = plain(Fraction(sum(dfg.times[name] for name in names)))
        found.append(Loop(names, time, delays, Fraction(time) / delays))
    return tuple(found)


def _node_loops(count, edges):
    """Loops as tuples of places: those through the first node, then those of the rest without it, and so on."""
    tails, heads = np.array(list(edges), dtype=np.int64).reshape(-1, 2).T
    while True:
        labels = strong_components(count, tails, heads)
        inside = labels[tails] == labels[heads]
        tails, heads = tails[inside], heads[inside]
        if not len(tails):
            return
        root, targets = int(tails.min()), defaultdict(list)
        for u, v in zip(tails.tolist(), heads.tolist()):
            targets[u].append(v)
        yield from _loops_through(root, targets)
        kept = (tails != root) & (heads != root)
        tails, heads = tails[kept], heads[kept]


def _loops_through(root, targets):
    """Johnson's search: a node from which the root could not be reached is blocked until its way is open again."""
    path, blocked, waiting = [root], {root}, defaultdict(set)
    frames = [[iter(targets[root]), False]]  # of each node of the path: what is left to try, and if a loop was found
    while frames:
        step = next(frames[-1][0], None)
        if step is None:
            node, (_, found) = path.pop(), frames.pop()
            if found:
                _release(node, blocked, waiting)
                if frames:
                    frames[-1][1] = True
            else:
                for target in targets[node]:
                    waiting[target].add(node)
        elif step == root:
            frames[-1][1] = True
            yield tuple(path)
        elif step not in blocked:
            blocked.add(step)
            path.append(step)
            frames.append([iter(targets[step]), False])


def _release(node, blocked, waiting):
    released = [node]
    while released:
        node = released.pop()
        if node in blocked:
            blocked.discard(node)
            released.extend(waiting.pop(node, ()))


def longest_path_matrix_bound(dfg):
    """The iteration bound from the longest path matrices L(1), L(2), ..., L(d) over the d delays of the graph.

    L(m) holds the longest time from one delay to another through m - 1 delays; the bound is the largest diagonal
    element over its m.

    Raises
    ------
    ValueError
        If the edges hold more than 128 delays.

    References
    ----------
    Parhi (1999), section 2.4.1.

    Examples
    --------
    >>> from lpkit.dfg import DFG
    >>> longest_path_matrix_bound(DFG({"a": 2, "b": 2, "c": 1}, [("a", "b", 0), ("b", "c", 1), ("c", "a", 1)]))
    Fraction(5, 2)
    """
    first, bound = _delay_matrix(dfg), Fraction(0)
    power = first
    for m in range(1, len(first) + 1):
        bound = max(bound, Fraction(int(max(power.diagonal())), m))
        power = np.array([_through(row, first) for row in power])
    return bound / dfg.denominator


def cycle_mean_bound(dfg):
    """The iteration bound as the largest cycle mean of the delay graph: a node a delay, by Karp's algorithm.

    Raises
    ------
    ValueError
        If the edges hold more than 128 delays.

    References
    ----------
    Parhi (1999), section 2.4.2; Karp (1978).

    Examples
    --------
    >>> from lpkit.dfg import DFG
    >>> cycle_mean_bound(DFG({"a": 2, "b": 2, "c": 1}, [("a", "b", 0), ("b", "c", 1), ("c", "a", 1)]))
    Fraction(5, 2)
    """
    matrix, bound = _delay_matrix(dfg), Fraction(0)
    count = len(matrix)
    walks = [np.zeros(count, dtype=matrix.dtype)]  # longest walks of k edges to each delay
    for _ in range(count):
        walks.append(_through(walks[-1], matrix))
    for place in range(count):
        last = int(walks[count][place])
        shorter = [(k, int(walk[place])) for k, walk in enumerate(walks[:count]) if walk[place] != NO_PATH]
        if last != NO_PATH:
            bound = max(bound, min(Fraction(last - time, count - k) for k, time in shorter))
    return bound / dfg.denominator


def _through(row, matrix):
    """Longest way from where `row` starts through one more step of `matrix`; NO_PATH where there is none."""
    open_ = (row[:, None] != NO_PATH) & (matrix != NO_PATH)
    return np.where(open_, row[:, None] + matrix, NO_PATH).max(axis=0)


def _delay_matrix(dfg):
    """Longest delay-free time from each delay to each other, in units of 1 / denominator; or NO_PATH."""
    count, delays = sum(dfg.delays.tolist()), dfg.delays.tolist()
    if count > MOST_DELAYS:
        raise ValueError(f"the graph holds {count} delays, more than {MOST_DELAYS}; use iteration_bound")
    large = sum(dfg.whole_times.tolist()) * (count + 1) >= 2**62
    matrix = np.full((count, count), NO_PATH, dtype=object if large else np.int64)
    first = np.cumsum([0, *delays]).tolist()
    held = [edge for edge, w in enumerate(delays) if w]
    for edge in held:
        for place in range(first[edge], first[edge + 1] - 1):
            matrix[place, place + 1] = 0  # two delays of one edge
        arrival = _arrivals(dfg, int(dfg.heads[edge]))
        for other in held:
            matrix[first[edge + 1] - 1, first[other]] = arrival[int(dfg.tails[other])]
    return matrix


def _arrivals(dfg, source):
    """Longest delay-free time from `source` to each node, both included; NO_PATH where there is no such path."""
    free = dfg.delays == 0
    starts, targets, _ = outgoing(len(dfg.nodes), dfg.tails[free], dfg.heads[free])
    times, arrival = dfg.whole_times.tolist(), [NO_PATH] * len(dfg.nodes)
    arrival[source] = times[source]
    for u in topological(starts, targets):
        if arrival[u] != NO_PATH:
            for v in targets[starts[u] : starts[u + 1]]:
                arrival[v] = max(arrival[v], arrival[u] + times[v])
    return arrival
