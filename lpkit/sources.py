"""NETWORK as people name one on a command line: a built-in name or a file, turned into costs.

A file is told by what is in it: an lpkit network CSV, a SCALE-Sim topology CSV (convolutions or M, N, K), or a
PipeDream graph.txt, whose times are measured, so that no array is asked for.
"""

import re
from functools import cache
from pathlib import Path

from lpkit.checks import read_text, unknown_name, whole_number
from lpkit.costs import costs, reading
from lpkit.interop import pipedream, scalesim
from lpkit.networks import NETWORKS, network, read_csv
from lpkit.systolic import Array

__all__ = ["kind_of", "layer_costs", "topology_report"]

FILES = ("network", "topology", "graph")


def kind_of(source):
    """What `source` names: ``"name"`` (built in), ``"network"``, ``"topology"`` or ``"graph"`` (files).

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
    if not Path(source).exists() and not re.search(r"[./\\]", str(source)):
        raise unknown_name(str(source), "network", NETWORKS)
    if Path(source).suffix.lower() == ".onnx":
        raise ValueError(f"{str(source)!r} is an ONNX file, which this version does not read; give a network CSV, "
                         "a SCALE-Sim topology CSV or a PipeDream graph.txt")
    text = read_text(source)
    if re.search(r"^\S+ -- .* -- .*forward_compute_time", text, re.M):
        return "graph"
    first = next(line for line in text.splitlines() if line.strip() and not line.startswith("#"))
    return "network" if {"name", "op"} <= set(re.split(r"\s*,\s*", first.strip().lower())) else "topology"


def layer_costs(source, *, array="32x32", batch=32, read="plain", **choices):
    """Costs of each layer of `source`; choices that are None are those of the reading.

    Parameters
    ----------
    source : str or path
        A built-in name or a file.
    array : str
        ``"ROWSxCOLUMNS"``.
    batch : int or str
    read : str
        Name of a reading.
    **choices
        ``dataflow`` and the keywords of `costs`; None where not given.

    Raises
    ------
    ValueError, FileNotFoundError
        As `kind_of`, the readers and `costs`; also if a choice is given that the source cannot use.

    Examples
    --------
    >>> layer_costs("sample4", read="closest").total
    96478368
    """
    kind, given = kind_of(source), {name: value for name, value in choices.items() if value is not None}
    if kind == "graph":
        if given:
            raise ValueError(f"{str(source)!r} holds measured times; {', '.join(sorted(given))} cannot change them, "
                             "leave the options out")
        return pipedream.to_costs(pipedream.read_graph(source))
    settings = {**reading(read).choices(), **given}
    array = Array.parse(array, dataflow=settings.pop("dataflow", reading(read).dataflow))
    batch = _whole(batch, "batch")
    if kind == "topology":
        if settings.pop("layers") != "all" and "layers" in given:
            raise ValueError("layers cannot be chosen from a SCALE-Sim topology; leave the option out")
        return scalesim.topology_costs(source, array, batch=batch, **settings)
    return costs(_network(kind, str(source)), array, batch=batch, **settings)


@cache
def _network(kind, source):
    return network(source) if kind == "name" else read_csv(source)


def topology_report(source, *, array="32x32", batch="1", dataflow=None, **_):
    """SCALE-Sim's report of a SCALE-Sim topology as a DataFrame; None for any other source."""
    if kind_of(source) != "topology":
        return None
    return scalesim.report_topology(source, Array.parse(array, dataflow=dataflow or "ws"))


def _whole(text, name):
    """A number that may come as text from a command line."""
    try:
        return whole_number(float(text) if isinstance(text, str) else text, name)
    except (TypeError, ValueError):
        raise ValueError(f"{name} is {text!r}; it must be a whole number of at least 1") from None
