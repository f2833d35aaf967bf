"""Tables as a person reads them: the same text in a terminal, a notebook and on GitHub.

`Table` has a fixed text form, so that a notebook's committed numbers can be compared word for word.
"""

import textwrap
from dataclasses import dataclass
from fractions import Fraction
from itertools import zip_longest
from numbers import Integral, Real

import pandas as pd

__all__ = ["Table", "cell", "counted", "engineering", "kilobytes", "readable"]

NARROWEST = 14  # characters that a wrapped column keeps


def cell(value, digits=4):
    """One value as text: whole numbers with thousands separators, others to `digits` significant digits.

    Examples
    --------
    >>> cell(43467592), cell(1.35164), cell(True), cell(None)
    ('43,467,592', '1.352', 'yes', '-')
    """
    if isinstance(value, (bool, type(pd.NA == 0))) or str(type(value)) == "<class 'numpy.bool'>":
        return "yes" if value else "no"
    if isinstance(value, Integral):
        return f"{int(value):,}"
    if isinstance(value, Fraction):
        return cell(value.numerator if value.denominator == 1 else float(value), digits)
    if isinstance(value, Real):
        return "-" if value != value else f"{float(value):.{digits}g}"
    return "-" if value is None else str(value).replace("|", "/").replace("\n", " ")


def engineering(value, digits=4):
    """A cycle count the way the paper prints it.

    Examples
    --------
    >>> engineering(43467592), engineering(0)
    ('4.347e7', '0')
    """
    if not value:
        return "0"
    mantissa, exponent = f"{float(value):.{digits - 1}e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def kilobytes(value):
    """A number of bytes in the unit a person would choose (powers of 1000).

    Examples
    --------
    >>> kilobytes(2540), kilobytes(51380224), kilobytes(12)
    ('2.54 kB', '51.4 MB', '12 B')
    """
    value = float(value)
    for factor, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if abs(value) >= factor:
            return f"{value / factor:.3g} {unit}"
    return f"{value:.3g} B"


def readable(value):
    """A number as text: whole ones with all their digits, others to six digits or, if they are large, one decimal.

    Examples
    --------
    >>> readable(13953910), readable(2.5), readable(26163804.6)
    ('13,953,910', '2.5', '26,163,804.6')
    """
    if float(value).is_integer():
        return f"{int(value):,}"
    return f"{float(value):,.1f}" if abs(value) >= 1e5 else f"{float(value):,.6g}"


def counted(number, what):
    """A number of things, the word in the plural unless there is one.

    Examples
    --------
    >>> counted(1, "stage"), counted(4, "stage")
    ('1 stage', '4 stages')
    """
    return f"{number} {what}{'s' * (number != 1)}"


def _wrapped(text, width):
    return textwrap.wrap(text, width, break_long_words=False) or [""] if len(text) > width else [text]


@dataclass(frozen=True)
class Table:
    """A pandas table with one text form, for terminals, notebooks and GitHub.

    Parameters
    ----------
    frame : pandas.DataFrame
        What to show; the index is shown when it has a name.
    digits : int
        Significant digits of numbers that are not whole.

    Examples
    --------
    >>> Table(pd.DataFrame({"layer": ["conv1"], "cycles": [1204506]}))
    layer     cycles
    conv1  1,204,506
    """

    frame: pd.DataFrame
    digits: int = 4

    def _texts(self):
        frame = self.frame
        if any(name is not None for name in frame.index.names):
            frame = frame.reset_index()
        columns = [frame.iloc[:, i].tolist() for i in range(frame.shape[1])]
        body = [[cell(v, self.digits) for v in column] for column in columns]
        numeric = [all(isinstance(v, (Real, type(None))) and not isinstance(v, bool) for v in c) for c in columns]
        return [str(c) for c in frame.columns], list(zip(*body)), numeric

    def __repr__(self):
        return self.text()

    def text(self, width=None):
        """The table as aligned lines; the widest column of words is wrapped where they are longer than `width`.

        Examples
        --------
        >>> print(Table(pd.DataFrame({"claim": ["delta can be shared"], "cycles": [5]})).text(width=22))
        claim           cycles
        delta can be         5
        shared
        """
        head, rows, numeric = self._texts()
        widths = [max(len(r[i]) for r in [head, *rows]) for i in range(len(head))]
        words = [i for i, n in enumerate(numeric) if not n]
        if width and words and (excess := sum(widths) + 2 * (len(widths) - 1) - width) > 0:
            widest = max(words, key=lambda i: widths[i])
            widths[widest] = max(widths[widest] - excess, NARROWEST)
        align = [str.rjust if n else str.ljust for n in numeric]
        lines = [line for row in [head, *rows] for line in zip_longest(*map(_wrapped, row, widths), fillvalue="")]
        return "\n".join("  ".join(a(t, w) for a, t, w in zip(align, line, widths)).rstrip() for line in lines)

    def _repr_markdown_(self):
        head, rows, numeric = self._texts()
        rule = ["---:" if n else ":---" for n in numeric]
        return "\n".join("| " + " | ".join(row) + " |" for row in [head, rule, *rows])
