"""SCALE-Sim config files: the array, its dataflow, its memories and its bandwidth, read and written.

A config is an INI file with the sections ``general``, ``architecture_presets`` and ``run_presets``; version 3 asks for
``layout`` and ``sparsity`` too. Version 1 names memories without the unit at the end (``IfmapSramSz``). Values are text
here, nothing in them is replaced or executed. Source: the documentation of SCALE-Sim v2 and v3.
"""

import configparser
import re
from dataclasses import dataclass

from lpkit.checks import choice, read_text, shown, whole_number, write_atomically
from lpkit.systolic import DATAFLOWS, Array, as_array

__all__ = ["ScaleConfig", "read_config", "write_config"]

PRESETS = "architecture_presets"
MODES = ("CALC", "USER")
MEMORIES = {"ifmap_kilobytes": "IfmapSramSz", "filter_kilobytes": "FilterSramSz", "ofmap_kilobytes": "OfmapSramSz"}
TEMPLATE = """\
[general]
run_name = {run_name}

[architecture_presets]
ArrayHeight: {rows}
ArrayWidth: {columns}
IfmapSramSzkB: {ifmap}
FilterSramSzkB: {filter}
OfmapSramSzkB: {ofmap}
IfmapOffset: 0
FilterOffset: 10000000
OfmapOffset: 20000000
Bandwidth: {bandwidth}
Dataflow: {dataflow}
MemoryBanks: 1
ReadRequestBuffer: 32
WriteRequestBuffer: 32

[layout]
IfmapCustomLayout: False
IfmapSRAMBankBandwidth: 10
IfmapSRAMBankNum: 10
IfmapSRAMBankPort: 2
FilterCustomLayout: False
FilterSRAMBankBandwidth: 10
FilterSRAMBankNum: 10
FilterSRAMBankPort: 2

[sparsity]
SparsitySupport: false
SparseRep: ellpack_block
OptimizedMapping: false
BlockSize: 8
RandomNumberGeneratorSeed: 40

[run_presets]
InterfaceBandwidth: {mode}
UseRamulatorTrace: False
"""


@dataclass(frozen=True)
class ScaleConfig:
    """What a config file says, as far as it decides on cycles, or would if memory could stall.

    `bandwidth` is in words a cycle, `mode` CALC (SCALE-Sim assumes that memory keeps up, as lpkit does) or USER (it
    counts stalls of that bandwidth, which lpkit does not).

    Examples
    --------
    >>> ScaleConfig(Array(32, 16, "os")).array
    Array(rows=32, columns=16, dataflow='os')
    """

    array: Array
    run_name: str = "lpkit"
    ifmap_kilobytes: int = 64
    filter_kilobytes: int = 64
    ofmap_kilobytes: int = 64
    bandwidth: int = 10
    mode: str = "CALC"

    def __post_init__(self):
        object.__setattr__(self, "array", as_array(self.array))
        for name in (*MEMORIES, "bandwidth"):
            object.__setattr__(self, name, whole_number(getattr(self, name), name.replace("_", " ")))
        if not isinstance(self.run_name, str) or not re.fullmatch(r"[\w.+-]{1,200}", self.run_name):
            raise ValueError(f"run_name is {shown(self.run_name)}; it names a folder, so give letters, digits, '_', "
                             "'.', '+' or '-'")
        choice(self.mode, "mode", MODES)


def read_config(path):
    """Read a SCALE-Sim config of version 1, 2 or 3.

    What the file leaves out, other than the size of the array, is as in `ScaleConfig`, with the weights in place
    (``ws``); several bandwidths, one for each operand, are read as the least.

    Raises
    ------
    FileNotFoundError, ValueError
        If there is no such file, it is no config, or a value cannot be used; the sentence names file and value.

    Examples
    --------
    >>> import tempfile, os
    >>> path = write_config("128x64", os.path.join(tempfile.mkdtemp(), "scale.cfg"))
    >>> read_config(path).array
    Array(rows=128, columns=64, dataflow='ws')
    """
    sections = _sections(path)
    if PRESETS not in sections:
        raise ValueError(f"{str(path)!r} has no section [{PRESETS}]; give a SCALE-Sim config file")
    presets = sections[PRESETS]
    try:
        return _config(presets, sections)
    except ValueError as error:
        raise ValueError(f"{str(path)!r}: {error}") from None


def _sections(path):
    """{section: {key in lower case: text}} of an INI file."""
    parser = configparser.ConfigParser(interpolation=None, inline_comment_prefixes=("#", ";"))
    try:
        parser.read_string(read_text(path))
    except configparser.Error as error:
        line = " ".join(str(error).replace("'<string>'", "it").split())
        raise ValueError(f"{str(path)!r} is not a config file: {line[:160]}") from None
    return {name: {key: value.strip().strip("\"'").strip() for key, value in parser[name].items()}
            for name in parser.sections()}


def _config(presets, sections):
    array = Array(_whole(presets, "ArrayHeight"), _whole(presets, "ArrayWidth"),
                  choice(presets.get("dataflow", "ws").lower(), "Dataflow", DATAFLOWS))
    given = {name: _whole(presets, key if key.lower() in presets else f"{key}kB")
             for name, key in MEMORIES.items() if {key.lower(), f"{key}kB".lower()} & presets.keys()}
    if "bandwidth" in presets:
        words = [_whole({"bandwidth": part.strip()}, "Bandwidth") for part in presets["bandwidth"].split(",")]
        given["bandwidth"] = min(words)
    mode = sections.get("run_presets", {}).get("interfacebandwidth", "CALC").upper()
    name = re.sub(r"[^\w.+-]", "_", sections.get("general", {}).get("run_name", ""))[:200] or "lpkit"
    return ScaleConfig(array, name, mode=choice(mode, "InterfaceBandwidth", MODES), **given)


def _whole(presets, key):
    text = presets.get(key.lower())
    if text is None:
        raise ValueError(f"{key} is missing; give a whole number of at least 1")
    if not re.fullmatch(r"\d{1,40}", text):
        raise ValueError(f"{key} is {shown(text)}; it must be a whole number of at least 1")
    return whole_number(int(text), key)


def write_config(config, path):
    """Write a `ScaleConfig`, or an array, as a config that SCALE-Sim 2 and 3 read; returns the path.

    Raises
    ------
    ValueError
        If the array is none, or the file cannot be written.

    Examples
    --------
    >>> import tempfile, os
    >>> path = write_config(Array(32, 32, "os"), os.path.join(tempfile.mkdtemp(), "scale.cfg"))
    >>> path.read_text().splitlines()[4]
    'ArrayHeight: 32'
    """
    config = config if isinstance(config, ScaleConfig) else ScaleConfig(config)
    array = config.array
    return write_atomically(path, TEMPLATE.format(
        run_name=config.run_name, rows=array.rows, columns=array.columns, dataflow=array.dataflow, mode=config.mode,
        ifmap=config.ifmap_kilobytes, filter=config.filter_kilobytes, ofmap=config.ofmap_kilobytes,
        bandwidth=config.bandwidth))
