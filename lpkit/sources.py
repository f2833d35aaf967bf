"""NETWORK as people name one on a command line: a built-in name or a file, turned into costs.

A file is told by what is in it: an lpkit network CSV, a SCALE-Sim topology CSV (convolutions or M, N, K), or a
PipeDream graph.txt, whose times are measured, so that no array is asked for. An ONNX model is told by its name.
"""

import re
from dataclasses import replace
from pathlib import Path

from lpkit.checks import is_file, read_text, shown, unknown_name, whole_number
from lpkit.costs import costs, reading
from lpkit.interop import pipedream, scalesim
from lpkit.interop.onnx import read_onnx
from lpkit.interop.pipedream_layers import profile_layers
from lpkit.interop.scalesim_config import read_config
from lpkit.network_graph import layer_graph
from lpkit.networks import NETWORKS, Network, network, read_csv
from lpkit.systolic import Array

__all__ = ["graph_of", "kind_of", "layer_costs", "network_of", "topology_report"]

DEFAULT_ARRAY, DEFAULT_BATCH = "32x32", 32
NUMBER = re.compile(r"[0-9]{0,18}\.?[0-9]{1,18}(e-?[0-9]{1,2})?")
OF_NAMES, OF_ONNX = ("sequence",), ("dimension", "batch_dimension", "strict")  # choices of a reader


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


def network_of(source, **choices):
    """The `Network` that a source names or holds; None for a topology or a graph.txt, which hold costs only.

    Parameters
    ----------
    source : str, path or Network
        A Network is returned as it is.
    **choices
        ``sequence`` of a built-in transformer; ``dimension`` (a sequence of ``"NAME=SIZE"``), ``batch_dimension`` (a
        number or ``"none"``) and ``strict`` of an ONNX model. None where not given.

    Raises
    ------
    ValueError, FileNotFoundError
        As `kind_of` and the readers; also if a choice is given that the source cannot use.

    Examples
    --------
    >>> network_of("bert_base", sequence="128").input_shape
    (128, 1, 1)
    """
    given = _given(choices)
    if isinstance(source, Network):
        return source
    kind = kind_of(source)
    if "sequence" in given and kind != "name":
        raise ValueError(f"sequence cannot be chosen of {str(source)!r}, a file; leave the option out")
    for option in OF_ONNX:
        if option in given and kind != "onnx":
            raise ValueError(f"{option} has no meaning for {str(source)!r}, which is no ONNX model; leave the option "
                             "out")
    if kind == "name":
        return network(source, **{name: _whole(value, name) for name, value in given.items()})
    if kind == "onnx":
        try:
            return read_onnx(source, **_of_onnx(**given))
        except ValueError as error:
            raise ValueError(_in_options(str(error))) from None
    return read_csv(source) if kind == "network" else None


def _in_options(sentence):
    """A sentence of `read_onnx` that asks for the size of a dimension, with the option that says it."""
    return re.sub(r"dimensions=\{'([^']+)': (\d+)\}$", r"\g<0> (on the command line --dimension \1=\2)", sentence)


def _of_onnx(dimension=(), batch_dimension="0", strict=False):
    """Keywords of `read_onnx` from words of a command line."""
    sizes = {}
    for text in dimension:
        name, equals, size = text.rpartition("=")
        if not equals or not name or not re.fullmatch(r"\d{1,18}", size):
            raise ValueError(f"dimension is {shown(text)}; it must be NAME=SIZE, as in height=224")
        sizes[name] = int(size)
    axis = None if str(batch_dimension).lower() == "none" else batch_dimension
    if isinstance(axis, str):
        if not re.fullmatch(r"\d", axis):
            raise ValueError(f"batch_dimension is {shown(axis)}; it must be a whole number from 0 to 7, or none")
        axis = int(axis)
    return {"dimensions": sizes or None, "batch_dimension": axis, "strict": strict}


def layer_costs(source, *, array=None, config=None, batch=None, read=None, **choices):
    """Costs of each layer of `source`; what is None is 32x32, 32, the plain reading, the choice of the reading.

    Parameters
    ----------
    source : str, path or Network
        A built-in name, a file, or what `network_of` made of it.
    array : str, optional
        ``"ROWSxCOLUMNS"``.
    config : path, optional
        A SCALE-Sim config, which gives array and dataflow in place of `array`; ``dataflow`` still replaces its own.
    batch : int or str, optional
    read : str, optional
        Name of a reading.
    **choices
        ``dataflow``, the keywords of `costs`, and those of `network_of`; of a graph.txt ``split_backward`` (a rule or a
        number) and, where its rule is ``by_gemm``, `array`. None where not given.

    Raises
    ------
    ValueError, FileNotFoundError
        As `network_of`, the readers and `costs`; also if a choice is given that the source cannot use.

    Examples
    --------
    >>> layer_costs("sample4", read="closest").total
    96478368
    >>> layer_costs("bert_base", sequence=128).total
    1118730192
    """
    given = _given(choices)
    split = given.pop("split_backward", None)
    readers = {name: given.pop(name) for name in (*OF_NAMES, *OF_ONNX) if name in given}
    net = network_of(source, **readers)
    kind = "network" if net is not None else kind_of(source)
    if kind == "graph":
        given |= _given({"array": array, "config": config, "batch": batch, "reading": read})
        return pipedream.to_costs(pipedream.read_graph(Path(source).resolve()), **_split(source, split, given))
    if split is not None:
        raise ValueError(f"split_backward has no meaning for {_named(source)}, whose G and delta are counted apart; "
                         "leave the option out")
    read = reading("plain" if read is None else read)
    settings = {**read.choices(), **given}
    array = array_of(array, config, given.get("dataflow"), settings.pop("dataflow", read.dataflow))
    batch = DEFAULT_BATCH if batch is None else _whole(batch, "batch")
    if kind == "topology":
        if settings.pop("layers") != "all" and "layers" in given:
            raise ValueError("layers cannot be chosen from a SCALE-Sim topology; leave the option out")
        return scalesim.topology_costs(source, array, batch=batch, **settings)
    return costs(net, array, batch=batch, **settings)


def array_of(array, config, dataflow, default="ws"):
    """The array that words of a command line name: its size, or a config file; `dataflow` replaces the file's own."""
    if config is None:
        return Array.parse(array or DEFAULT_ARRAY, dataflow=dataflow or default)
    if array is not None:
        raise ValueError("array and config both say the size of the array; give one of them")
    found = read_config(config).array
    return found if dataflow is None else replace(found, dataflow=dataflow)


def _given(choices):
    """Choices that were made: not None, not an empty sequence, not a flag left out."""
    return {name: value for name, value in choices.items() if value is not None and value != () and (
        name != "strict" or value)}


def _split(source, split, given):
    """Keywords of `to_costs`: a PipeDream graph leaves no other choice than how its backward time is split."""
    array = given.pop("array", None) if split == "by_gemm" else None
    if given:
        raise ValueError(f"{str(source)!r} holds measured times; {', '.join(sorted(given))} cannot change them, "
                         "leave the options out")
    if isinstance(split, str) and NUMBER.fullmatch(split):
        split = float(split)
    return _given({"split_backward": split, "array": array})


def _named(source):
    return shown(source.name if isinstance(source, Network) else str(source))


def graph_of(source, found, *, array=None, batch=None, split_backward=None, **choices):
    """The `LayerGraph` behind costs that `layer_costs` made; None for a topology, which is a list of layers.

    Parameters
    ----------
    source : str, path or Network
    found : Costs
    array, batch, split_backward, **choices
        As they were given to `layer_costs`.

    Raises
    ------
    ValueError, FileNotFoundError
        As `network_of` and the readers; or if the costs are not those of the source.

    Examples
    --------
    >>> len(graph_of("resnet18", layer_costs("resnet18")))
    21
    """
    readers = {name: choices[name] for name in (*OF_NAMES, *OF_ONNX) if name in choices}
    if (net := network_of(source, **readers)) is not None:
        return layer_graph(net, found, batch=DEFAULT_BATCH if batch is None else _whole(batch, "batch"))
    if kind_of(source) != "graph":
        return None
    split = _split(source, split_backward, _given({"array": array}))
    return profile_layers(pipedream.read_graph(Path(source).resolve()), **split)


def topology_report(source, *, array=None, config=None, batch=None, dataflow=None, convention=None, **choices):
    """SCALE-Sim's report of a SCALE-Sim topology as a DataFrame.

    None for any other source, and where something is asked for that SCALE-Sim's report does not know: a batch, a
    convention other than its own, any choice of the backward pass.
    """
    asked = batch not in (None, 1, "1") or convention not in (None, "scalesim") or _given(choices)
    if asked or kind_of(source) != "topology":
        return None
    return scalesim.report_topology(source, array_of(array, config, dataflow))


def _whole(text, name):
    """A number that may come as text from a command line."""
    try:
        return whole_number(float(text) if isinstance(text, str) else text, name)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} is {shown(text)}; it must be a whole number of at least 1") from None
