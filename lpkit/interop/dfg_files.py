"""Data-flow graphs from and to JSON files and networkx graphs.

::

    {"nodes": {"add": 1, "mul": "5/2"}, "edges": [["add", "mul", 0], ["mul", "add", 1]], "hosts": []}
"""

import json
import re
from fractions import Fraction

from lpkit.checks import read_text, short, shown, write_atomically
from lpkit.flowgraph import DFG
from lpkit.jsonfile import parse_json

__all__ = ["from_networkx", "read_json", "to_networkx", "write_json"]

_NUMBER = re.compile(r"[0-9]{1,78}(/[0-9]{1,78}|\.[0-9]{1,78})?")


def read_json(path):
    """The `DFG` in a JSON file: "nodes" (name: time), "edges" ([source, target, delays]) and, if any, "hosts" (names).

    A time is a whole number, a decimal (0.1 is one tenth exactly) or a fraction as text, "5/2". Other keys say nothing.

    Raises
    ------
    FileNotFoundError, ValueError
        If the file is missing, is not JSON or is cut off, or does not hold a graph; the sentence begins with the file.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "ring.json"
    >>> read_json(write_json(DFG({"a": Fraction(5, 2)}, [("a", "a", 1)]), path)).times
    {'a': Fraction(5, 2)}
    """
    text = read_text(path)
    try:
        return _graph(parse_json(text, too_deep="it is nested too deeply for a graph", parse_int=_whole,
                                 parse_float=_fraction, parse_constant=_fraction))  # fmt: skip
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def write_json(dfg, path):
    """Write `dfg` to `path` for `read_json`, whole or not at all; returns the path.

    Raises
    ------
    ValueError
        If the file cannot be written.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = write_json(DFG({"a": 1}, [("a", "a", 1)]), pathlib.Path(tempfile.mkdtemp()) / "loop.json")
    >>> print(path.read_text(), end="")
    {
     "nodes": {"a": 1},
     "edges": [
      ["a", "a", 1]
     ],
     "hosts": []
    }
    """
    times = {name: str(time) if isinstance(time, Fraction) else time for name, time in dfg.times.items()}
    edges = ",\n".join(f"  {json.dumps(edge)}" for edge in dfg.edges)
    edges = f"[\n{edges}\n ]" if edges else "[]"
    parts = f' "nodes": {json.dumps(times)},\n "edges": {edges},\n "hosts": {json.dumps(dfg.hosts)}\n'
    return write_atomically(path, f"{{\n{parts}}}\n")


def from_networkx(graph, *, time="time", delays="delays", hosts=()):
    """The `DFG` of a networkx graph; nodes are named by their text, `time` and `delays` name the attributes.

    Parameters
    ----------
    graph : networkx DiGraph or MultiDiGraph
    time, delays : str
        Attribute of a node, and of an edge.
    hosts : sequence
        Nodes that are hosts.

    Returns
    -------
    DFG

    Raises
    ------
    ValueError
        If the graph is undirected, an attribute is missing or wrong, or two nodes have one name.

    Examples
    --------
    >>> import pytest; networkx = pytest.importorskip("networkx")
    >>> graph = networkx.DiGraph([("a", "a", {"delays": 2})])
    >>> graph.nodes["a"]["time"] = 3
    >>> from_networkx(graph).edges
    (Edge(source='a', target='a', delays=2),)
    """
    if not (hasattr(graph, "is_directed") and graph.is_directed()):
        raise ValueError(f"{type(graph).__name__} is not a directed networkx graph; give a DiGraph or MultiDiGraph")
    times, edges = {}, []
    for node, data in graph.nodes(data=True):
        if str(node) in times:
            raise ValueError(f"two nodes are named {shown(str(node))}; give each a name of its own")
        times[str(node)] = _attribute(data, time, f"node {short(node)}")
    for u, v, data in graph.edges(data=True):
        edges.append((str(u), str(v), _attribute(data, delays, f"edge {short(u)} -> {short(v)}")))
    return DFG(times, edges, tuple(map(str, hosts)))


def to_networkx(dfg):
    """A networkx ``MultiDiGraph`` with the attributes "time" and "delays" (needs networkx).

    Examples
    --------
    >>> import pytest; networkx = pytest.importorskip("networkx")
    >>> to_networkx(DFG({"a": 3}, [("a", "a", 2)])).nodes["a"]
    {'time': 3}
    """
    import networkx  # the only function that needs it

    graph = networkx.MultiDiGraph()
    graph.add_nodes_from((name, {"time": time}) for name, time in dfg.times.items())
    graph.add_edges_from((u, v, {"delays": w}) for u, v, w in dfg.edges)
    return graph


def _attribute(data, name, where):
    if name not in data:
        raise ValueError(f"{where} has no attribute {name!r}; set it, or name the right one")
    return data[name]


def _whole(text):
    if len(text) > 78:
        raise ValueError(f"a number has {len(text)} digits; at most 78 are allowed")
    return int(text)


def _fraction(text):
    """The number that `text` stands for, exactly."""
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"a number is {text[:40]!r}; write it as 3, 0.5 or \"5/2\" (at most 78 digits, not negative)")
    if "/" in text and int(text.split("/")[1]) == 0:
        raise ValueError(f"a number is {text[:40]!r}; its denominator must not be 0")
    return Fraction(text)


def _graph(content):
    kinds = {"nodes": dict, "edges": list, "hosts": list}
    if not isinstance(content, dict) or not isinstance(content.get("nodes"), dict):
        raise ValueError('it holds no graph; give {"nodes": {name: time}, "edges": [[source, target, delays]]}')
    parts = {name: content.get(name, kind()) for name, kind in kinds.items()}
    for name, kind in kinds.items():
        if not isinstance(parts[name], kind):
            raise ValueError(f"{name!r} is {json.dumps(parts[name], default=str):.60}; it must be a list")
    times = {name: _fraction(time) if isinstance(time, str) else time for name, time in parts["nodes"].items()}
    return DFG(times, parts["edges"], tuple(parts["hosts"]))
