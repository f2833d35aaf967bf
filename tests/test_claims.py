"""Verdicts: computed by the stated rule, from a ledger that is whole, and the same as the committed ones."""

import csv
import inspect
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lpkit import measures
from lpkit.claims import CHECKS, VERDICTS, Claim, claims, measure_modules, read_claims, verdict, verdicts
from lpkit.costs import READINGS, costs
from lpkit.notebooks import notebook_ids
from lpkit.summary import gains
from lpkit.sweep import PAPER_ARRAYS, PAPER_BATCHES, sweep
from lpkit.systolic import Array

ROOT = Path(__file__).parents[1]
FIELDS = "id,item,source,statement,paper,unit,check,tolerance,direction,computed,fitted,note"
GOOD = "saving,lp_table3,section IV,26 % less time,0.26,fraction,equal,0.02,0,sample_time_reduction,,by hand"
OPEN = 'alpha,lp_table4,Algorithm 1,"the factor, alpha",,,none,,,,,not given'


def ledger(folder, *lines, head=FIELDS):
    path = folder / "claims.csv"
    path.write_text("\n".join([head, *lines]) + "\n")
    return path


def changed(**fields):
    """The good line with other fields."""
    return ",".join((dict(zip(FIELDS.split(","), GOOD.split(","))) | fields).values())


@pytest.fixture(scope="module")
def everything():
    """All verdicts, computed here and now."""
    return verdicts().set_index("id")


# ---- the rule -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("check, paper, tolerance, direction, value, expected", [
    ("equal", 100, 0.1, None, 100, "reproduced"),
    ("equal", 100, 0.1, None, 110, "reproduced"),
    ("equal", 100, 0.1, None, 90, "reproduced"),
    ("equal", 100, 0.1, None, 110.01, "not reproduced"),
    ("equal", 100, 0.1, None, 89.99, "not reproduced"),
    ("equal", 100, 0.1, 0, 110.01, "direction only"),
    ("equal", 100, 0.1, 0, 0.01, "direction only"),
    ("equal", 100, 0.1, 0, 0, "not reproduced"),
    ("equal", 100, 0.1, 0, -100, "not reproduced"),
    ("equal", -0.2, 0.1, None, -0.22, "reproduced"),
    ("equal", -0.2, 0.1, None, -0.23, "not reproduced"),
    ("equal", 43500000, 0, None, 43500000, "reproduced"),
    ("equal", 43500000, 0, None, 43500001, "not reproduced"),
    ("equal", 0.43, 0.1, None, 0.387, "reproduced"),  # at the edge, rounding makes no difference
    ("equal", 0.25, 0.1, None, 0.275, "reproduced"),
    ("equal", 0.43, 0.1, None, 0.3869, "not reproduced"),
    ("at_least", 0.8, 0, 0, 0.8, "reproduced"),
    ("at_least", 0.8, 0, 0, 5, "reproduced"),
    ("at_least", 0.8, 0, 0, 0.79, "direction only"),
    ("at_least", 0.8, 0.1, 0, 0.72, "reproduced"),
    ("at_least", 0.8, 0.1, 0, 0.719, "direction only"),
    ("at_least", 0.8, 0, None, 0.79, "not reproduced"),
    ("at_least", 0.8, 0, 0, -0.1, "not reproduced"),
    ("at_most", 2730, 0.02, None, 2784.6, "reproduced"),
    ("at_most", 2730, 0.02, None, 2785, "not reproduced"),
    ("at_most", 2730, 0, None, 0, "reproduced"),
    ("holds", 1, 0, None, 1.0, "reproduced"),
    ("holds", 1, 0, None, 0.999, "direction only"),  # in most cases
    ("holds", 1, 0, None, 0.5, "not reproduced"),
    ("holds", 1, 0, None, 0.0, "not reproduced"),
    ("holds", 1, 0.1, None, 0.9, "reproduced"),
    ("none", None, None, None, 1.0, "cannot be checked"),
    ("equal", 100, 0.1, 0, None, "cannot be checked"),
])  # fmt: skip
def test_verdict(check, paper, tolerance, direction, value, expected):
    claim = Claim("", "", "", "", paper, "", check, tolerance, direction, "", "", "")
    assert expected in VERDICTS and check in CHECKS
    assert verdict(claim, value) == expected


def test_a_value_from_numpy_is_judged_like_any_other():
    claim = Claim("", "", "", "", 0.26, "", "equal", 0.02, 0, "", "", "")
    assert verdict(claim, np.float64(0.26)) == "reproduced" and verdict(claim, np.float64(0.2)) == "direction only"


# ---- reading ------------------------------------------------------------------------------------------------------


def test_a_good_ledger(tmp_path):
    good, unanswered = read_claims(ledger(tmp_path, GOOD, OPEN))
    assert good == Claim("saving", "lp_table3", "section IV", "26 % less time", 0.26, "fraction", "equal", 0.02, 0.0,
                         "sample_time_reduction", "", "by hand")
    assert unanswered.statement == "the factor, alpha" and unanswered.paper is unanswered.direction is None


def test_line_ends_marks_and_blank_lines_do_not_matter(tmp_path):
    expected = read_claims(ledger(tmp_path, GOOD, OPEN))
    (tmp_path / "other.csv").write_bytes(b"\xef\xbb\xbf" + "\r\n".join([FIELDS, "", GOOD, "", OPEN]).encode())
    assert read_claims(tmp_path / "other.csv") == expected


@pytest.mark.parametrize("line", ["# claims: 2", "#claims:2,,,,", "# claims: 2\r"])
def test_a_ledger_may_say_how_many_claims_it_holds(tmp_path, line):
    expected = read_claims(ledger(tmp_path, GOOD, OPEN))
    assert read_claims(ledger(tmp_path, FIELDS, GOOD, OPEN, head=line)) == expected
    path = ledger(tmp_path, FIELDS, GOOD, head=line)  # cut off at the end of a line
    told = "claims.csv, line 1: '# claims:' says 2, but the file has 1; it may have been"
    with pytest.raises(ValueError, match=told):
        read_claims(path)
    path = ledger(tmp_path, FIELDS, GOOD, changed(paper="a quarter"), head=line)
    with pytest.raises(ValueError, match="claims.csv, line 4: paper is 'a quarter'"):  # still the line of the file
        read_claims(path)


def test_the_ledger_of_the_repository_cut_off_at_any_line_is_noticed(tmp_path):
    lines = (ROOT / "data" / "claims.csv").read_text().splitlines(keepends=True)
    for kept in range(len(lines)):
        (tmp_path / "claims.csv").write_text("".join(lines[:kept]))
        with pytest.raises(ValueError, match="cut off"):
            read_claims(tmp_path / "claims.csv")


@pytest.mark.parametrize("lines, sentence", [
    ([GOOD.removesuffix(",by hand")],
     f"line 2: the fields must be {FIELDS.replace(',', ', ')}; the line may have been cut off"),
    ([GOOD, "", OPEN[:30]], "line 4: unexpected end of data; the line may have been cut off"),
    ([OPEN, "alpha,lp_table4,Algo"], "line 3: the fields must be id, item,"),
    ([GOOD + ",more"], "line 2: the fields must be id, item,"),
    ([OPEN, changed(paper="a quarter")], "line 3: paper is 'a quarter'; it must be a number or empty"),
    ([changed(tolerance="2 %")], "line 2: tolerance is '2 %'; it must be a number or empty"),
    ([changed(direction="up")], "line 2: direction is 'up'; it must be a number or empty"),
    ([changed(paper="nan")], "line 2: paper is 'nan'; it must be a number or empty"),
    ([changed(paper="inf")], "line 2: paper is 'inf'; it must be a number or empty"),
    ([changed(check="equals")], "line 2: check is 'equals'; did you mean 'equal'? Known: 'equal', 'at_least'"),
    ([changed(check="")], "line 2: check is ''; Known: 'equal'"),
    ([changed(paper="")], "line 2: paper is empty; a check 'equal' needs it"),
    ([changed(tolerance="")], "line 2: tolerance is empty; a check 'equal' needs it"),
    ([changed(computed="")], "line 2: computed is empty; a check 'equal' needs it"),
    ([changed(computed="sample_gain")],
     "line 2: computed is 'sample_gain'; it must be a function of a reading in one of lpkit.measures, "
     "lpkit.graph_measures, lpkit.schedule_measures, lpkit.pprs_measures, lpkit.attack_measures"),
    ([changed(computed="np")], "line 2: computed is 'np'; it must be a function"),
    ([changed(computed="_best")], "line 2: computed is '_best'; it must be a function"),
    ([changed(computed="vgg16_traffic")], "line 2: computed is 'vgg16_traffic'; it must be a function"),
    ([GOOD, OPEN, GOOD], "line 4: the id 'saving' has been used before; give another"),
    ([], "line 1: there is no claim after the head; the file may have been cut off"),
])  # fmt: skip
def test_a_damaged_ledger_gets_one_sentence_with_the_line(tmp_path, lines, sentence):
    path = ledger(tmp_path, *lines)
    with pytest.raises(ValueError) as caught:
        read_claims(path)
    assert str(caught.value).startswith(f"{path}, {sentence}") and "\n" not in str(caught.value)


def test_a_ledger_without_a_column(tmp_path):
    path = ledger(tmp_path, OPEN.replace(",none,", ","), head=FIELDS.replace(",check,", ","))
    with pytest.raises(ValueError, match="claims.csv, line 2: the fields must be id, item, source, statement, paper"):
        read_claims(path)


@pytest.mark.parametrize("content, sentence", [
    (b"", "is empty; it may have been cut off"), (b"\n\n", "is empty; it may have been cut off"),
    (b"\x89PNG\r\n\x1a\n", "is not text"), (b"id,item\n\0\0", "is not text"),
    (b"id\ritem", "line 1: new-line character seen in unquoted field"),
])  # fmt: skip
def test_what_is_no_ledger_at_all(tmp_path, content, sentence):
    (tmp_path / "claims.csv").write_bytes(content)
    with pytest.raises(ValueError) as caught:
        read_claims(tmp_path / "claims.csv")
    assert sentence in str(caught.value) and "\n" not in str(caught.value)


def test_a_ledger_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no file .*claims.csv'; check the path"):
        read_claims(tmp_path / "claims.csv")


# ---- tables -------------------------------------------------------------------------------------------------------


def test_the_table_of_a_small_ledger(tmp_path):
    path = ledger(tmp_path, GOOD, OPEN)
    frame = verdicts(ledger=path)
    values = {name: measures.sample_time_reduction(name) for name in READINGS}
    assert frame[list(READINGS)].iloc[0].to_dict() == values and frame[list(READINGS)].iloc[1].isna().all()
    assert frame["verdict closest"].tolist() == ["reproduced", "cannot be checked"]
    assert frame["verdict plain"].tolist() == ["direction only", "cannot be checked"]
    table = claims(ledger=path).frame
    assert table["claim, at the settings of the ledger"].tolist() == ["26 % less time", "the factor, alpha"]
    assert table["paper"].tolist() == ["26 %", "-"]
    assert table["plain"].tolist() == [f"{100 * values['plain']:.3g} %", "-"]


def test_the_claims_of_one_notebook(everything):
    part = verdicts("lp_table2_costs").set_index("id")
    assert part.index.tolist() == everything.index[everything["item"] == "lp_table2_costs"].tolist()
    assert part.equals(everything.loc[part.index])


def test_an_unknown_notebook():
    with pytest.raises(ValueError, match="^item is 'lp_table5'; did you mean .*'lp_table2_costs'.* Known: "):
        verdicts("lp_table5")


# ---- the ledger of the repository -----------------------------------------------------------------------------------


def test_no_verdict_changes_unnoticed(everything):
    """The committed table of the index notebook is what comes out now."""
    with open(ROOT / "data" / "results" / "00_index.csv", newline="", encoding="utf-8") as file:
        committed = {row["id"]: row for row in csv.DictReader(file)}
    assert list(committed) == everything.index.tolist()
    for id, row in everything.iterrows():
        for name in READINGS:
            assert committed[id][f"verdict {name}"] == row[f"verdict {name}"], (id, name)
            old = float(committed[id][name] or "nan")
            assert math.isclose(old, row[name], rel_tol=1e-9) or (math.isnan(old) and math.isnan(row[name])), (id, name)


def test_the_verdicts_are_no_single_one(everything):
    """A ledger where everything held, or nothing, would be one to distrust."""
    assert set(everything["verdict closest"]) == set(VERDICTS)
    assert set(everything["verdict plain"]) == set(VERDICTS) - {"reproduced (fitted)"}


def test_agreement_that_was_to_be_expected_is_called_so(tmp_path):
    path = ledger(tmp_path, changed(fitted="closest"))
    found = verdicts(ledger=path).iloc[0]
    assert (found["verdict closest"], found["verdict plain"]) == ("reproduced (fitted)", "direction only")


def test_every_claim_has_its_notebook_and_every_notebook_of_the_paper_a_claim():
    items, ids = {claim.item for claim in read_claims()}, set(notebook_ids())
    assert items <= ids
    assert {id for id in ids if id.startswith("lp_")} <= items


def measures_of_a_reading():
    """Names of the functions of `measures` for the ledger: public, with the one argument `read`."""
    return {name for module in measure_modules() for name, found in vars(module).items()
            if inspect.isfunction(found) and found.__module__ == module.__name__ and not name.startswith("_")
            and list(inspect.signature(found).parameters) == ["read"]}


def test_the_ledger_uses_every_measure_and_names_no_other():
    used = {claim.computed for claim in read_claims() if claim.computed}
    assert used == measures_of_a_reading() and len(used) > 20


def test_what_cannot_be_checked_says_why():
    unanswered = [claim for claim in read_claims() if claim.check == "none"]
    assert unanswered and all(claim.note and not claim.computed for claim in unanswered)


@pytest.mark.parametrize("claim", read_claims(), ids=lambda claim: claim.id)
def test_each_claim_is_meant_as_it_is_checked(claim):
    """Shares are held against all cases, and a percentage is a fraction between 0 and 1."""
    assert claim.statement and claim.source.startswith(("LayerPipe", "PPRS"))
    if claim.check == "holds":
        assert claim.unit == "share" and claim.paper == 1
    if claim.unit == "fraction":
        assert 0 < claim.paper < 1 and f"{100 * claim.paper:g} %" in claim.statement
    if claim.check in ("equal", "at_least", "at_most"):
        assert verdict(claim, claim.paper) == "reproduced"
        assert verdict(replace(claim, direction=None), -claim.paper - 1) == (
            "reproduced" if claim.check == "at_most" else "not reproduced")


# ---- measures -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("read", list(READINGS))
def test_means_and_maxima_are_those_of_the_gains_of_the_sweep(everything, read):
    rows = gains(sweep(measures.NETWORKS, planners=("pipedream", "algorithm1"), reading=read))
    rows = rows[rows["planner"] == "algorithm1"]
    assert len(rows) == 2 * len(PAPER_ARRAYS) * len(PAPER_BATCHES) * 11
    best = rows.groupby("processors")[["throughput gain", "time reduction"]].max()
    expected = {
        "mean-gain-body-throughput": rows["throughput gain"].mean(),
        "mean-gain-abstract-time": rows["time reduction"].mean(),
        "best-gain-8-throughput": best.loc[8, "throughput gain"],
        "best-gain-8-time": best.loc[8, "time reduction"],
        "best-gain-7-to-9": best.loc[7:9, "throughput gain"].min(),
        "largest-additional": rows["additional_bytes"].max() / 4,
    }
    for id, value in expected.items():
        assert everything.loc[id, read] == pytest.approx(value, rel=1e-12), id


@pytest.mark.parametrize("read", list(READINGS))
def test_the_saturation_rule_is_total_work_over_the_largest_fixed_work(everything, read):
    def rule(array, batch):
        cost = costs("vgg16", Array(array, array), batch=batch, **READINGS[read].choices())
        return cost.total // max((cost.F + cost.G).tolist())

    found = {(a, b): rule(a, b) for a in PAPER_ARRAYS for b in PAPER_BATCHES}
    assert everything.loc["saturation-rule-vgg16", read] == sum(found.values()) / len(found)
    small = [value for (a, _), value in found.items() if a <= 64]
    assert everything.loc["saturation-rule-vgg16-small", read] == sum(small) / len(small)


def test_the_traffic_of_vgg16_by_hand(everything):
    """Filters of 3x3: 7 of 13 convolutions have under 10^6 weights (256 to 512 channels has more)."""
    channels = [3, 64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512]
    small = [9 * a * b < 1e6 for a, b in zip(channels, channels[1:])]
    assert everything.loc["traffic-filters-KB", "plain"] == sum(small) / 13 == 7 / 13


def test_agreement_with_scalesim_is_counted(monkeypatch):
    exact = measures.gemm_cycles
    assert measures.scalesim_agreement("plain") == 1.0
    monkeypatch.setattr(measures, "gemm_cycles", lambda *gemm, **options: exact(*gemm, **options) + (gemm[0] % 2))
    assert 0 < measures.scalesim_agreement("plain") < 1
