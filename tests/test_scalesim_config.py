"""SCALE-Sim configs: written and read back, in all their versions, and every wrong value in one sentence."""

import configparser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lpkit.interop.scalesim_config import ScaleConfig, read_config, write_config
from lpkit.systolic import Array

OLD = """\
[general]
run_name = "first run"

[architecture_presets]
ArrayHeight:    32
ArrayWidth:     16
IfmapSramSz:    108
FilterSramSz:   109
OfmapSramSz:    110
IfmapOffset:    0
Dataflow:       os
"""


def save(tmp_path, text):
    path = tmp_path / "scale.cfg"
    path.write_text(text)
    return path


def test_a_config_of_version_1(tmp_path):
    assert read_config(save(tmp_path, OLD)) == ScaleConfig(Array(32, 16, "os"), "first_run", 108, 109, 110)


@pytest.mark.parametrize("change, found", [
    (("Dataflow:       os", "Dataflow : WS  # in place"), {"array": Array(32, 16, "ws")}),
    (("Dataflow:       os", ""), {"array": Array(32, 16, "ws")}),
    (("IfmapSramSz:    108", "ifmapsramszkb = 108"), {}),
    (("IfmapOffset:    0", "Bandwidth : 20, 10,30"), {"bandwidth": 10}),
    (("Dataflow:       os", "Dataflow: os\n[run_presets]\nInterfaceBandwidth: USER"), {"mode": "USER"}),
    (('run_name = "first run"', "run_name = ../%(x)s/${y}"), {"run_name": "..___x_s___y_"}),
])  # fmt: skip
def test_forms_that_mean_the_same(tmp_path, change, found):
    whole = {"array": Array(32, 16, "os"), "run_name": "first_run", "ifmap_kilobytes": 108, "filter_kilobytes": 109,
             "ofmap_kilobytes": 110}  # fmt: skip
    assert change[0] in OLD
    assert read_config(save(tmp_path, OLD.replace(*change))) == ScaleConfig(**whole | found)


side = st.integers(1, 2**20)


@given(rows=side, columns=side, flow=st.sampled_from(["ws", "os", "is"]), sizes=st.tuples(side, side, side, side),
       mode=st.sampled_from(["CALC", "USER"]), name=st.from_regex(r"\A[A-Za-z0-9_.+-]{1,20}\Z"))
def test_what_is_written_is_read_back(tmp_path_factory, rows, columns, flow, sizes, mode, name):
    config = ScaleConfig(Array(rows, columns, flow), name, *sizes, mode)
    path = tmp_path_factory.getbasetemp() / "written.cfg"
    assert read_config(write_config(config, path)) == config


def test_a_written_config_has_what_version_3_asks_for(tmp_path):
    parser = configparser.ConfigParser()
    parser.read(write_config("128x64", tmp_path / "scale.cfg"))
    sizes = parser["architecture_presets"]
    keys = ("arrayheight", "arraywidth", "ifmapsramszkB", "filtersramszkB", "ofmapsramszkB",
            "IfmapOffset", "FilterOffset", "OfmapOffset", "ReadRequestBuffer", "WriteRequestBuffer", "MemoryBanks")
    assert [int(sizes[key]) for key in keys] == [128, 64, 64, 64, 64, 0, 10_000_000, 20_000_000, 32, 32, 1]
    assert not parser.getboolean("layout", "IfmapCustomLayout") and sizes["Dataflow"] == "ws"
    layout = [f"{what}SRAMBank{part}" for what in ("Ifmap", "Filter") for part in ("Bandwidth", "Num", "Port")]
    assert all(int(parser["layout"][key]) > 0 for key in layout)
    assert parser["sparsity"]["SparsitySupport"] == "false"
    assert dict(parser["run_presets"]) == {"interfacebandwidth": "CALC", "useramulatortrace": "False"}


@pytest.mark.parametrize("text, message", [
    ("", "is empty; it may have been cut off"),
    ("ArrayHeight: 32", "is not a config file: File contains no section headers"),
    ("[general]\nrun_name = x\n", r"has no section \[architecture_presets\]; give a SCALE-Sim config file"),
    (OLD.replace("ArrayWidth:     16\n", ""), "ArrayWidth is missing; give a whole number of at least 1"),
    (OLD.replace("32", "-32"), "ArrayHeight is '-32'; it must be a whole number of at least 1"),
    (OLD.replace("32", "0"), "ArrayHeight is 0; it must be a whole number from 1"),
    (OLD.replace("32", "9" * 30), "ArrayHeight is 9{30}; it must be a whole number from 1 to"),
    (OLD.replace("os", "rs"), "Dataflow is 'rs'; Known: 'ws', 'os', 'is'"),
    (OLD.replace("108", "lots"), "IfmapSramSz is 'lots'; it must be a whole number"),
    (OLD + "Bandwidth: fast\n", "Bandwidth is 'fast'; it must be a whole number"),
    (OLD + "[run_presets]\nInterfaceBandwidth: BEST\n", "InterfaceBandwidth is 'BEST'; Known: 'CALC', 'USER'"),
    (OLD + "ArrayHeight: 3\n", "is not a config file: While reading from it"),
])  # fmt: skip
def test_errors_name_file_and_value(tmp_path, text, message):
    with pytest.raises(ValueError, match=message) as caught:
        read_config(save(tmp_path, text))
    assert "scale.cfg" in str(caught.value) and "\n" not in str(caught.value) and len(str(caught.value)) < 400


@pytest.mark.parametrize("options, message", [
    ({"array": 7}, "array is 7; it must be ROWSxCOLUMNS"), ({"bandwidth": 0}, "bandwidth is 0; it must be a whole"),
    ({"mode": "FAST"}, "mode is 'FAST'; Known: 'CALC', 'USER'"), ({"run_name": "a/b"}, "run_name is 'a/b'; it names a"),
    ({"ifmap_kilobytes": 1.5}, "ifmap kilobytes is 1.5; it must be a whole number"),
])  # fmt: skip
def test_wrong_configs_are_not_made(options, message):
    with pytest.raises(ValueError, match=message):
        ScaleConfig(**{"array": Array(2, 2)} | options)


def test_a_missing_file():
    with pytest.raises(FileNotFoundError, match="there is no file 'none.cfg'; check the path"):
        read_config("none.cfg")
