"""How a command prints: a table for people, JSON for machines, and the flag that chooses."""

import json
import shutil

import click

__all__ = ["AS_JSON", "dump", "records", "show", "width"]

AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON for machines instead of text.")


def show(frame, as_json, *, head=None, lead=(), foot=()):
    """Print a table for people, between lines of text, or a JSON object for machines.

    Examples
    --------
    >>> import pandas as pd
    >>> show(pd.DataFrame({"layer": ["conv1"], "F": [1204506]}), False, foot=["in cycles"])
    layer          F
    conv1  1,204,506
    in cycles
    """
    from lpkit.display import Table

    if as_json:
        return dump({**(head or {}), "rows": records(frame)})
    lead = [*(f"{name}: {value}" for name, value in (head or {}).items()), *lead]
    for line in [*lead, Table(frame).text(width()), *foot]:
        click.echo(line)


def records(frame):
    """Rows as dicts; what is missing (NaN) is None, since JSON has no NaN.

    Examples
    --------
    >>> import pandas as pd
    >>> records(pd.DataFrame({"claim": ["a", "b"], "value": [0.5, float("nan")]}))
    [{'claim': 'a', 'value': 0.5}, {'claim': 'b', 'value': None}]
    """
    rows = frame.to_dict("records")
    return [{name: None if value != value else value for name, value in row.items()} for row in rows]


def width():
    """Characters of a line of the terminal, 120 where there is none.

    Examples
    --------
    >>> width() > 0
    True
    """
    return shutil.get_terminal_size((120, 24)).columns


def dump(value):
    """Print JSON; what is no JSON number becomes the nearest float.

    Examples
    --------
    >>> from fractions import Fraction
    >>> dump({"period": Fraction(5, 2)})
    {
     "period": 2.5
    }
    """
    click.echo(json.dumps(value, indent=1, default=float))
