"""Orders and components of a graph whose nodes are numbered 0..n-1, and two small ways of writing things down."""

from fractions import Fraction

import numpy as np

__all__ = ["outgoing", "plain", "shown_path", "strong_components", "weak_components", "topological"]

SHOWN = 12  # nodes of a path that an error names


def outgoing(count, tails, heads):
    """Edges by their source, as lists: node u has ``targets[starts[u]:starts[u + 1]]``; also the order of the edges.

    Parameters
    ----------
    count : int
        Nodes.
    tails, heads : ndarray of int, shape (edges,)
        Where each edge begins and ends.

    Returns
    -------
    starts, targets, order : list of int
        Of lengths count + 1, edges and edges.

    Examples
    --------
    >>> outgoing(2, np.array([1, 0, 1]), np.array([0, 1, 1]))
    ([0, 1, 3], [1, 0, 1], [1, 0, 2])
    """
    order = np.argsort(tails, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(tails, minlength=count))])
    return starts.tolist(), heads[order].tolist(), order.tolist()


def topological(starts, targets):
    """Nodes in topological order, from the lists of `outgoing`; nodes on a loop and behind one are left out.

    Examples
    --------
    >>> topological([0, 0, 1, 2], [0, 0])
    [1, 2, 0]
    """
    waiting = [0] * (len(starts) - 1)
    for v in targets:
        waiting[v] += 1
    order = [place for place, count in enumerate(waiting) if count == 0]
    for u in order:  # the list grows while it is read
        for v in targets[starts[u] : starts[u + 1]]:
            waiting[v] -= 1
            if waiting[v] == 0:
                order.append(v)
    return order


def strong_components(count, tails, heads):
    """Label of the strongly connected component of each of `count` nodes.

    Parameters
    ----------
    count, tails, heads
        As for `outgoing`.

    Returns
    -------
    ndarray of int, shape (count,)

    Examples
    --------
    >>> labels = strong_components(3, np.array([0, 1, 1]), np.array([1, 0, 2]))
    >>> bool(labels[0] == labels[1] != labels[2])
    True
    """
    return _components(count, tails, heads, "strong")


def weak_components(count, tails, heads):
    """Label of the connected component of each of `count` nodes, whichever way the edges point.

    Parameters
    ----------
    count, tails, heads
        As for `outgoing`.

    Returns
    -------
    ndarray of int, shape (count,)

    Examples
    --------
    >>> weak_components(4, np.array([0, 1, 3]), np.array([1, 0, 2])).tolist()
    [0, 0, 1, 1]
    """
    return _components(count, tails, heads, "weak")


def _components(count, tails, heads, connection):
    from scipy.sparse import csr_array  # takes longer to import than all of lpkit
    from scipy.sparse.csgraph import connected_components

    graph = csr_array((np.ones(len(tails), dtype=np.int8), (tails, heads)), shape=(count, count))
    return connected_components(graph, directed=True, connection=connection)[1]


def shown_path(path):
    """``a -> b -> a``, with the middle of a long path left out.

    Examples
    --------
    >>> shown_path("aba"), shown_path(list("abcdefghijklmnop"))
    ('a -> b -> a', 'a -> b -> c -> d -> e -> f -> ... 4 more ... -> k -> l -> m -> n -> o -> p')
    """
    path = list(path)
    if len(path) > SHOWN + 1:
        path = path[: SHOWN // 2] + [f"... {len(path) - SHOWN} more ..."] + path[-SHOWN // 2 :]
    return " -> ".join(path)


def plain(number):
    """`number` as an int where it is a whole Fraction; else unchanged.

    Examples
    --------
    >>> plain(Fraction(6, 3)), plain(Fraction(1, 3)), plain(2.0)
    (2, Fraction(1, 3), 2.0)
    """
    return number.numerator if isinstance(number, Fraction) and number.denominator == 1 else number
