"""The ledger: every checkable sentence of the papers, the value found here, and the verdict.

`data/claims.csv` holds what a paper says (in our own words), in which unit, how the check is made and how close counts;
its first line is ``# claims: N``, by which a ledger that was cut off is noticed.
`measures` holds one function a claim, from a reading (a named set of modelling choices) to a number.
Verdicts are computed, never written down:

reproduced
    the value meets the check within the tolerance
reproduced (fitted)
    so it does, but the number had a part in choosing that reading or the reconstructed network
direction only
    it does not, but it lies on the side of `direction` that the sentence speaks of (of a sentence about all cases: it
    holds in more than half of them)
not reproduced
    neither
cannot be checked
    the paper does not give what a check needs; the note says what is missing
"""

import csv
import io
import math
import re
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from inspect import isfunction, signature

import pandas as pd

from lpkit.checks import choice, read_text, unknown_name
from lpkit.costs import READINGS
from lpkit.display import Table, engineering
from lpkit.paths import repository

__all__ = ["Claim", "read_claims", "value_text", "verdict", "verdicts", "claims"]

MEASURES = ("measures", "graph_measures", "schedule_measures", "pprs_measures", "attack_measures")  # modules
CHECKS = ("equal", "at_least", "at_most", "holds", "none")
VERDICTS = ("reproduced", "reproduced (fitted)", "direction only", "not reproduced", "cannot be checked")


@dataclass(frozen=True)
class Claim:
    """One sentence of a paper that can be held against a number.

    Attributes
    ----------
    id, item : str
        Name of the claim, and the notebook that shows it.
    source, statement, note : str
        Where it stands, what it says in our words, and what to know about the check.
    paper : float or None
        The paper's value in `unit`.
    check : {"equal", "at_least", "at_most", "holds", "none"}
        ``holds`` is for a share of cases, all of which must agree.
    tolerance : float
        Relative to the paper's value.
    direction : float or None
        A value above this agrees in direction.
    computed : str
        The function of `lpkit.measures` that finds the value.
    fitted : str
        Readings, with spaces between, that were chosen with an eye on this number.
    """

    id: str
    item: str
    source: str
    statement: str
    paper: float | None
    unit: str
    check: str
    tolerance: float
    direction: float | None
    computed: str
    fitted: str
    note: str


def read_claims(path=None):
    """The claims in a ledger file, by default the repository's ``data/claims.csv``.

    Raises
    ------
    FileNotFoundError, ValueError
        If the file is missing, cut off or holds a field that cannot be used; the line is named.

    Examples
    --------
    >>> next(claim.statement for claim in read_claims() if claim.id == "sample-pipedream-period")
    "PipeDream's slowest processor of the sample network needs 4.35e7 cycles"
    """
    path = path or repository() / "data" / "claims.csv"
    count, text = _counted(read_text(path))
    rows, before = csv.DictReader(io.StringIO(text), strict=True), int(count is not None)
    found = {}
    try:
        for row in rows:
            place = f"{path}, line {rows.line_num + before}"
            claim = _claim(row, place)
            if found.setdefault(claim.id, claim) is not claim:
                raise ValueError(f"{place}: the id {claim.id!r} has been used before; give another")
    except csv.Error as error:
        line = rows.reader.line_num + before
        raise ValueError(f"{path}, line {line}: {error}; the line may have been cut off") from None
    if not found:
        raise ValueError(f"{path}, line {1 + before}: there is no claim after the head; the file may have been cut off")
    if count not in (None, len(found)):
        raise ValueError(f"{path}, line 1: '# claims:' says {count}, but the file has {len(found)}; it may have been "
                         "cut off, or correct the number")
    return tuple(found.values())


def _counted(text):
    """The number in a first line ``# claims: N`` (None without one), and the lines after it."""
    counted = re.match(r"# *claims: *([0-9]{1,9})[ ,]*(?:\r?\n|$)", text)
    return (int(counted[1]), text[counted.end():]) if counted else (None, text)


def _claim(row, place):
    fields = Claim.__annotations__
    if set(row) != set(fields) or None in row.values():
        raise ValueError(f"{place}: the fields must be {', '.join(fields)}; the line may have been cut off")
    choice(row["check"], f"{place}: check", CHECKS)
    numbers = {name: _number(row[name], f"{place}: {name}") for name in ("paper", "tolerance", "direction")}
    checked = row["check"] != "none"
    missing = [name for name in ("paper", "tolerance", "computed") if checked and not row[name]]
    if missing:
        raise ValueError(f"{place}: {missing[0]} is empty; a check {row['check']!r} needs it")
    if row["computed"] and not _is_measure(row["computed"]):
        raise ValueError(f"{place}: computed is {row['computed']!r}; it must be a function of a reading in one of "
                         f"lpkit.{', lpkit.'.join(MEASURES)}")
    return Claim(**{**row, **numbers})


def _number(text, name):
    """The finite number that `text` is, or None where it is empty."""
    try:
        value = float(text) if text else None
    except ValueError:
        value = math.nan
    if value is not None and not math.isfinite(value):
        raise ValueError(f"{name} is {text!r}; it must be a number or empty")
    return value


@cache
def measure_modules():
    """The modules that hold the measures, imported on first use: the library alone does without them."""
    return tuple(import_module(f"lpkit.{name}") for name in MEASURES)


def _measure(name):
    """The function of that name in one of the modules of measures; None if there is none."""
    return next((getattr(module, name) for module in measure_modules() if hasattr(module, name)), None)


def _is_measure(name):
    function = _measure(name)
    return isfunction(function) and not name.startswith("_") and list(signature(function).parameters) == ["read"]


def verdict(claim, value):
    """The verdict on `claim` when the value found here is `value`.

    Parameters
    ----------
    claim : Claim
    value : float or None
        In the unit of the claim; None where nothing can be computed.

    Examples
    --------
    >>> gain = Claim("gain", "", "", "", 0.43, "fraction", "equal", 0.1, 0.0, "", "", "")
    >>> [verdict(gain, value) for value in (0.40, 0.13, -0.02, None)]
    ['reproduced', 'direction only', 'not reproduced', 'cannot be checked']
    """
    if claim.check == "none" or value is None:
        return "cannot be checked"
    margin = abs(claim.paper) * claim.tolerance * (1 + 1e-9)
    met = {
        "equal": abs(value - claim.paper) <= margin,
        "at_least": value >= claim.paper - margin,
        "at_most": value <= claim.paper + margin,
        "holds": value >= 1 - margin,
    }[claim.check]
    if met:
        return "reproduced"
    toward = 0.5 if claim.check == "holds" else claim.direction  # a claim about all cases that holds in most
    return "direction only" if toward is not None and value > toward else "not reproduced"


def verdicts(item=None, *, ledger=None):
    """Every claim (or those of one notebook) with the value and verdict under each reading.

    Parameters
    ----------
    item : str, optional
        A notebook; without it all claims.
    ledger : path, optional
        As `read_claims` takes it.

    Returns
    -------
    pandas.DataFrame
        Columns id, item, source, statement, unit, paper, one column of values and one of verdicts a reading, note.

    Raises
    ------
    ValueError
        If there are no claims of that item, or as `read_claims`.

    Examples
    --------
    >>> verdicts("lp_fig5_delta_split")[["paper", "closest", "verdict closest"]].round(3).values.tolist()
    [[0.333, 0.167, 'not reproduced']]
    """
    known = read_claims(ledger)
    chosen = [c for c in known if item in (None, c.item)]
    if not chosen:
        raise unknown_name(item, "item", sorted({c.item for c in known}))
    return pd.DataFrame([_row(claim) for claim in chosen])


def _told(claim, reading, found):
    """`found`, with a word where agreement was to be expected."""
    return f"{found} (fitted)" if found == "reproduced" and reading in claim.fitted.split() else found


def _row(claim):
    row = dict(id=claim.id, item=claim.item, source=claim.source, statement=claim.statement, unit=claim.unit,
               paper=math.nan if claim.paper is None else claim.paper)
    values = {name: _measure(claim.computed)(name) if claim.computed else None for name in READINGS}
    row |= {name: math.nan if value is None else float(value) for name, value in values.items()}
    row |= {f"verdict {name}": _told(claim, name, verdict(claim, value)) for name, value in values.items()}
    return row | dict(note=claim.note)


def claims(item=None, *, ledger=None):
    """The verdict table of a notebook, or of everything, as a person reads it.

    Values are in the unit of the claim; fractions are shown in percent. They are those of the ledger's own settings,
    whatever the parameters of the notebook that shows them. Where every reading gives the same, as for all claims that
    no costs enter, it is said once, under "here".

    Raises
    ------
    ValueError
        As `verdicts`.

    Examples
    --------
    >>> claims("lp_table4_speedup").frame.columns[2:].tolist()
    ['closest', 'verdict (closest)', 'plain', 'verdict (plain)']
    >>> claims("lp_fig5_delta_split").frame[["paper", "here", "verdict"]].values.tolist()
    [['0.3333 of delta', '0.1667 of delta', 'not reproduced']]
    """
    frame = verdicts(item, ledger=ledger)
    table = {"claim, at the settings of the ledger": frame["statement"], "paper": _texts(frame, "paper")}
    found = [{"here": _texts(frame, name), "verdict": frame[f"verdict {name}"].tolist()} for name in READINGS]
    if all(other == found[0] for other in found):
        return Table(pd.DataFrame(table | found[0]))
    for name, own in zip(READINGS, found):
        table |= {name: own["here"], f"verdict ({name})": own["verdict"]}
    return Table(pd.DataFrame(table))


def _texts(frame, column):
    return [value_text(value, unit) for value, unit in zip(frame[column], frame["unit"])]


def value_text(value, unit):
    """A value with its unit.

    Examples
    --------
    >>> value_text(0.264, "fraction"), value_text(32159456.0, "cycles"), value_text(1.0, "share")
    ('26.4 %', '3.216e7 cycles', 'all')
    >>> value_text(25806.0, "bytes")
    '25,806 bytes'
    """
    if value != value:
        return "-"
    if unit == "fraction":
        return f"{100 * value:.3g} %"
    if unit == "share":
        return "all" if value == 1 else "none" if value == 0 else f"{100 * value:.0f} % of cases"
    if unit == "cycles":
        return f"{engineering(value)} cycles"
    return f"{value:,.0f} {unit}" if abs(value) >= 100 else f"{value:.4g} {unit}"
