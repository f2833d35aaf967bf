"""NETWORK as people name one on a command line: a built-in name or a file, turned into costs.

A file is told by what is in it: an lpkit network CSV, a SCALE-Sim topology CSV (convolutions or M, N, K), or a
PipeDream graph.txt, whose times are measured, so that no array is asked for. An ONNX model is told by its name.
"""

import re
from pathlib import Path

from lpkit.checks import is_file, read_text, shown, unknown_name, whole_number
from lpkit.costs import costs, reading
from lpkit.interop import pipedream, scalesim
from lpkit.interop.onnx import read_onnx
from lpkit.networks import NETWORKS, network, read_csv
from lpkit.systolic import Array

__all__ = ["kind_of", "layer_costs", "topology_report"]

DEFAULT_ARRAY, DEFAULT_BATCH = "32x32", 32


def kind_of(source):
    """What `source` names: ``"name"`` (built in), ``"network"``, ``"onnx"``, ``"topology"`` or ``"graph"`` (files).

    Raises
    ------
    ValueError, FileNotFoundError
        If it is neither a built-in name nor a file of a known form.

    Examples
    --------
    >>> kind_of("vgg16")
    'name'
    """
    if str(source).lower() in NETWORKS:
        return "name"
    if not is_file(source) and not re.search(r"[./\\]", str(source)):
        raise unknown_name(str(source), "network", NETWORKS)
    if Path(source).suffix.lower() == ".onnx":
        return "onnx"
    text = read_text(source)
    if any(map(_is_node, text.split("\n"))):
        return "graph"
    lines = (line for line in text.splitlines() if line.strip() and not line.startswith("#"))
    first = next(lines, None)
    if first is None:
        raise ValueError(f"{str(source)!r} holds nothing but comments; it may have been cut off")
    return "network" if {"name", "op"} <= set(re.split(r"\s*,\s*", first.strip().lower())) else "topology"


def _is_node(line):
    """Whether a line is a node of a graph.txt: ``id -- description -- ... forward_compute_time``."""
    name, _, rest = line.partition(" -- ")
    return bool(re.fullmatch(r"\S+", name)) and "forward_compute_time" in rest.partition(" -- ")[2]


def layer_costs(source, *, array=None, batch=None, read=None, **choices):
    """Costs of each layer of `source`; what is None is 32x32, 32, the plain reading, the choice of the reading.

    Parameters
    ----------
    source : str or path
        A built-in name or a file.
    array : str, optional
        ``"ROWSxCOLUMNS"``.
    batch : int or str, optional
    read : str, optional
        Name of a reading.
    **choices
        ``dataflow``, the keywords of `costs`, and ``sequence`` of a built-in transformer; None where not given.

    Raises
    ------
    ValueError, FileNotFoundError
        As `kind_of`, the readers and `costs`; also if a choice is given that the source cannot use.

    Examples
    --------
    >>> layer_costs("sample4", read="closest").total
    96478368
    >>> layer_costs("bert_base", sequence=128).total
    1118730192
    """
    kind, given = kind_of(source), _given(choices)
    if kind == "graph":
        return _measured(source, given | _given({"array": array, "batch": batch, "reading": read}))
    sequence = {"sequence": _whole(given.pop("sequence"), "sequence")} if "sequence" in given else {}
    if sequence and kind != "name":
        raise ValueError(f"sequence cannot be chosen of {str(source)!r}, a file; leave the option out")
    read = reading("plain" if read is None else read)
    settings = {**read.choices(), **given}
    array = Array.parse(array or DEFAULT_ARRAY, dataflow=settings.pop("dataflow", read.dataflow))
    batch = DEFAULT_BATCH if batch is None else _whole(batch, "batch")
    if kind == "topology":
        if settings.pop("layers") != "all" and "layers" in given:
            raise ValueError("layers cannot be chosen from a SCALE-Sim topology; leave the option out")
        return scalesim.topology_costs(source, array, batch=batch, **settings)
    reader = {"name": network, "network": read_csv, "onnx": read_onnx}[kind]
    return costs(reader(source, **sequence), array, batch=batch, **settings)


def _given(choices):
    return {name: value for name, value in choices.items() if value is not None}


def _measured(source, given):
    """Costs of a PipeDream graph, which leaves no choice."""
    if given:
        raise ValueError(f"{str(source)!r} holds measured times; {', '.join(sorted(given))} cannot change them, "
                         "leave the options out")
    return pipedream.to_costs(pipedream.read_graph(Path(source).resolve()))


def topology_report(source, *, array=None, batch=None, dataflow=None, convention=None, **choices):
    """SCALE-Sim's report of a SCALE-Sim topology as a DataFrame.

    None for any other source, and where something is asked for that SCALE-Sim's report does not know: a batch, a
    convention other than its own, any choice of the backward pass.
    """
    asked = batch not in (None, 1, "1") or convention not in (None, "scalesim") or _given(choices)
    if asked or kind_of(source) != "topology":
        return None
    return scalesim.report_topology(source, Array.parse(array or DEFAULT_ARRAY, dataflow=dataflow or "ws"))


def _whole(text, name):
    """A number that may come as text from a command line."""
    try:
        return whole_number(float(text) if isinstance(text, str) else text, name)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} is {shown(text)}; it must be a whole number of at least 1") from None
