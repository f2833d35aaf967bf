"""ISCAS netlists (``.bench``) as data-flow graphs: gates take one unit of time, flip-flops are delays.

::

    INPUT(G0)
    OUTPUT(G17)
    G5 = DFF(G10)
    G14 = NOT(G0)

Source: Brglez, Bryan & Kozminski, "Combinational profiles of sequential benchmark circuits", ISCAS 1989.
"""

import re
from collections import defaultdict
from collections.abc import Mapping

from lpkit.checks import choice, read_text, shown
from lpkit.flowgraph import DFG, shown_name
from lpkit.orders import shown_path

__all__ = ["GATES", "read_bench"]

GATES = ("AND", "NAND", "OR", "NOR", "XOR", "XNOR", "NOT", "INV", "BUF", "BUFF")
ONE_PIN = ("DFF", "NOT", "INV", "BUF", "BUFF")
_PORT = re.compile(r"(INPUT|OUTPUT)\s*\(\s*([^\s(),=]+)\s*\)", re.IGNORECASE)
_GATE = re.compile(r"([^\s(),=]+)\s*=\s*([A-Za-z]+)\s*\(([^()=]*)\)")


def read_bench(path, *, times=1, swept=False):
    """The `DFG` of a ``.bench`` netlist: a node a gate, an edge a pin; the flip-flops on the way are its delays.

    Inputs and outputs are nodes that take no time, named as their signal and "output:" with it, and hosts.

    Parameters
    ----------
    path : str or Path
    times : int, Fraction or mapping
        Time of a gate, one for all or by its type in capitals.
    swept : bool
        Leave out gates and flip-flops from which no output can be reached.

    Raises
    ------
    FileNotFoundError, ValueError
        If the file is missing or cut off, a line is none of a netlist, a signal is driven twice or never, or a loop of
        gates has no flip-flop; the sentence gives the line or the signal.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "tiny.bench"
    >>> _ = path.write_text("INPUT(a)\\nOUTPUT(y)\\nq = DFF(y)\\ny = NAND(a, q)\\n")
    >>> graph = read_bench(path)
    >>> graph.times, graph.edges[1]
    ({'a': 0, 'y': 1, 'output:y': 0}, Edge(source='y', target='y', delays=1))
    """
    inputs, outputs, gates, flops = _netlist(path, read_text(path))
    sources = _sources(path, inputs, gates, flops)
    _refuse_undriven(path, sources, outputs, gates, flops)
    pins = [(*sources[pin], name) for name, (_, pins) in gates.items() for pin in pins]
    pins += [(*sources[signal], f"output:{signal}") for signal in outputs]
    edges = [(source, target, delays) for source, delays, target in pins]
    ports = [*inputs, *(f"output:{signal}" for signal in outputs)]
    if swept:
        kept = _reaching(edges, ports)
        gates = {name: gate for name, gate in gates.items() if name in kept}
        edges = [edge for edge in edges if edge[1] in kept]
    nodes = dict.fromkeys(inputs, 0) | _gate_times(gates, times) | dict.fromkeys(ports, 0)
    try:
        return DFG(nodes, edges, hosts=ports)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _netlist(path, text):
    """Inputs, outputs, gates {signal: (type, pins)} and flip-flops {signal: pin} of a netlist."""
    inputs, outputs, gates, flops = {}, {}, {}, {}
    for line, content in enumerate(text.splitlines(), 1):
        content = content.split("#")[0].strip()
        try:
            if content:
                _take(content, inputs, outputs, gates, flops)
        except ValueError as error:
            raise ValueError(f"{path}, line {line}: {error}") from None
    if not (inputs or outputs or gates or flops):
        raise ValueError(f"{path} has no gates; it may have been cut off")
    return inputs, outputs, gates, flops


def _take(content, inputs, outputs, gates, flops):
    """Add what one line says."""
    port, gate = _PORT.fullmatch(content), _GATE.fullmatch(content)
    if not (port or gate):
        raise ValueError(f"{content[:60]!r} is no line of a netlist, as INPUT(a), OUTPUT(y) or y = NAND(a, b)")
    name = port[2] if port else gate[1]
    is_output = port and port[1].upper() == "OUTPUT"
    if name in outputs if is_output else any(name in known for known in (inputs, gates, flops)):
        raise ValueError(f"signal {shown(name)} is {'an output' if is_output else 'driven'} twice; keep one of the "
                         "lines")  # fmt: skip
    _refuse_clash(name, is_output, outputs, (inputs, gates, flops))
    if port:
        (outputs if is_output else inputs)[name] = None
        return
    kind, pins = gate[2].upper(), tuple(pin.strip() for pin in gate[3].split(","))
    choice(kind, "gate", (*GATES, "DFF"))
    if not all(pins) or (len(pins) > 1 and kind in ONE_PIN):
        raise ValueError(f"{kind} has the pins ({shown_name(gate[3].strip())}); give "
                         f"{'one signal' if kind in ONE_PIN else 'names'}")  # fmt: skip
    if kind == "DFF":
        flops[name] = pins[0]
    else:
        gates[name] = (kind, pins)


def _refuse_clash(name, is_output, outputs, driven):
    """Refuse a signal that is named as the node of an output."""
    node = f"output:{name}" if is_output else name
    signal = node.removeprefix("output:")
    if any(node in known for known in driven) if is_output else signal != node and signal in outputs:
        raise ValueError(f"signal {shown(node)} has the name of the node of output {shown(signal)}; rename one of them")


def _sources(path, inputs, gates, flops):
    """The input or gate behind each signal, and how many flip-flops lie between."""
    sources = {name: (name, 0) for name in [*inputs, *gates]}
    for signal in flops:
        chain = {}
        while signal in flops and signal not in sources and signal not in chain:
            chain[signal] = None
            signal = flops[signal]
        if signal in chain:
            ring = [*list(chain)[list(chain).index(signal) :], signal]
            raise ValueError(f"{path}: the flip-flops {shown_path(list(map(shown_name, ring)))} form a loop without a "
                             "gate; drive one of them")  # fmt: skip
        source, before = sources.get(signal, (None, 0))
        for delays, name in enumerate(reversed(chain), before + 1):
            sources[name] = (source, delays)
    return sources


def _refuse_undriven(path, sources, outputs, gates, flops):
    read = [*outputs, *(pin for _, pins in gates.values() for pin in pins)]
    undriven = [flops[name] for name, (source, _) in sources.items() if source is None]
    undriven += [signal for signal in read if signal not in sources]
    if undriven:
        raise ValueError(f"{path}: signal {shown(undriven[0])} is read but never driven; the file may have been cut "
                         "off")  # fmt: skip


def _gate_times(gates, times):
    """Time of each gate, by its type where `times` is a mapping."""
    if not isinstance(times, Mapping):
        return dict.fromkeys(gates, times)
    for kind, _ in gates.values():
        if kind not in times:
            kinds = sorted({kind for kind, _ in gates.values()})
            raise ValueError(f"times has none for {kind}; give one for each type of gate: {kinds}")
    return {name: times[kind] for name, (kind, _) in gates.items()}


def _reaching(edges, ports):
    """The nodes from which an output can be reached, and all ports."""
    before = defaultdict(list)
    for source, target, _ in edges:
        before[target].append(source)
    kept, waiting = set(ports), [port for port in ports if port.startswith("output:")]
    while waiting:
        for source in before[waiting.pop()]:
            if source not in kept:
                kept.add(source)
                waiting.append(source)
    return kept
