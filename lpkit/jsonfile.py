"""JSON read strictly and written for people: what one program means is what the next one reads.

A key that is there twice, a NaN, an overlong number and a file that was cut off are errors with the place. Exact
numbers survive: a Fraction is written as text, ``"1/3"``, and floats to the last bit.
"""

import json
import math
import re
from fractions import Fraction

from lpkit.checks import plain, read_text, shown

__all__ = ["exact", "from_exact", "parse_json", "read_json", "to_text"]

MOST_DIGITS = 400  # of a number: more than any float has
FRACTION = re.compile(r"-?[0-9]{1,400}/[0-9]{1,400}")
WIDE = 116  # characters of a list that stays on one line
TOO_DEEP = "its lists lie in one another too deeply; give a file that lpkit wrote"


def read_json(path):
    """What the JSON file at `path` holds.

    Raises
    ------
    FileNotFoundError, ValueError
        As `lpkit.checks.read_text` and `parse_json`; the sentence begins with the path.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "plan.json")
    ...     _ = file.write_text('{"ends": [1, 3]}')
    ...     read_json(file)
    {'ends': [1, 3]}
    """
    text = read_text(path)
    try:
        return parse_json(text)
    except ValueError as error:
        raise ValueError(f"{str(path)!r}: {error}") from None


def parse_json(text, *, too_deep=TOO_DEEP, **numbers):
    """The value that JSON `text` stands for.

    `too_deep` is what is said of lists in lists without end, and `numbers` are other readers of numbers, as for
    `json.loads`.

    Parameters
    ----------
    text : str
    too_deep : str
        What the error says of lists in lists without end.
    **numbers
        Other readers of numbers, by the names of `json.loads`: parse_int, parse_float, parse_constant.

    Raises
    ------
    ValueError
        If it is no JSON or ends early, a key is repeated, a number is not finite or has more than 400 digits, or lists
        lie in one another too deeply.

    Examples
    --------
    >>> parse_json('{"ends": [1, 3], "scale": 0.5}')
    {'ends': [1, 3], 'scale': 0.5}
    >>> parse_json('{"ends": [1, 3')
    Traceback (most recent call last):
    ...
    ValueError: line 1 is not JSON (Expecting ',' delimiter); the file may have been cut off
    """
    numbers = {"parse_int": _whole, "parse_float": _float, "parse_constant": _float} | numbers
    try:
        return json.loads(text, object_pairs_hook=_without_repeats, **numbers)
    except json.JSONDecodeError as error:
        raise ValueError(f"line {error.lineno} is not JSON ({error.msg}); the file may have been cut off") from None
    except RecursionError:
        raise ValueError(too_deep) from None


def _without_repeats(pairs):
    result = {}
    for key, value in pairs:
        if key in result:
            raise ValueError(f"the key {shown(key)} is there twice; keep one")
        result[key] = value
    return result


def _whole(text):
    if len(text) > MOST_DIGITS:
        raise ValueError(f"a number has {len(text)} digits; at most {MOST_DIGITS} are allowed")
    return int(text)


def _float(text):
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{shown(text)} is there as a number; numbers must be finite")
    return number


def exact(value):
    """A number as JSON keeps it exactly: an int or float as it is, a Fraction as text; so is what is not finite.

    Examples
    --------
    >>> exact(Fraction(6, 3)), exact(Fraction(1, 3)), exact(0.1), exact(math.inf)
    (2, '1/3', 0.1, 'inf')
    """
    value = plain(value)
    if isinstance(value, Fraction):
        return value.numerator if value.denominator == 1 else str(value)
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def from_exact(value, name):
    """The number that `exact` wrote.

    Raises
    ------
    ValueError
        If it is neither a number nor text such as ``"1/3"``.

    Examples
    --------
    >>> from_exact("1/3", "amount"), from_exact(2, "amount")
    (Fraction(1, 3), 2)
    >>> from_exact("1/0", "amount")
    Traceback (most recent call last):
    ...
    ValueError: amount is '1/0'; it must be a number, or a fraction as text such as "1/3"
    """
    if isinstance(value, str) and FRACTION.fullmatch(value) and int(value.partition("/")[2]):
        number = Fraction(value)
        return number.numerator if number.denominator == 1 else number
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value
    raise ValueError(f'{name} is {shown(value)}; it must be a number, or a fraction as text such as "1/3"')


def to_text(value, indent=0):
    """`value` as JSON text: one line for a list or dict that fits, else a line for each entry.

    Raises
    ------
    ValueError
        If a number is not finite.

    Examples
    --------
    >>> to_text({"ends": [1, 3], "text": 40 * "long"}).splitlines()[:2]
    ['{', ' "ends": [1, 3],']
    """
    line = json.dumps(value, allow_nan=False)
    if not isinstance(value, (dict, list, tuple)) or len(line) + indent <= WIDE:
        return line
    margin = "\n" + " " * (indent + 1)
    if isinstance(value, dict):
        entries, brackets = [f"{json.dumps(k)}: {to_text(v, indent + 1)}" for k, v in value.items()], "{}"
    elif any(isinstance(v, (dict, list, tuple)) for v in value):
        entries, brackets = [to_text(v, indent + 1) for v in value], "[]"
    else:
        return line  # a column of numbers: one line is read more easily than hundreds
    return brackets[0] + margin + f",{margin}".join(entries) + "\n" + " " * indent + brackets[1]
