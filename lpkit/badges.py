"""The badges at the head of README.md: small pictures made from the ledger and from pyproject.toml, on this machine.

A badge is a label on grey and a value on colour, as most projects have them; these ask no server for anything, so that
they show in a clone without a network and cannot say what is no longer true: `lpkit.readme.refresh` writes them.
"""

import tomllib
from xml.sax.saxutils import escape

from lpkit.notebooks import notebook_ids
from lpkit.paths import repository

__all__ = ["badge", "badges"]

LETTER, EDGE = 6.6, 12  # pixels of a letter at 11 px, and around a text; textLength makes every font fit
BLUE, GREEN, GREY = "#0072b2", "#007a5e", "#555555"


def badge(label, value, colour=BLUE):
    """SVG text of a badge.

    Parameters
    ----------
    label, value : str
    colour : str
        Of the value's ground, such as ``"#0072b2"``; dark enough for white letters.

    Examples
    --------
    >>> badge("licence", "BSD & more").count("BSD &amp; more"), badge("a", "b") == badge("a", "b")
    (2, True)
    """
    left, right = (round(LETTER * len(text)) + EDGE for text in (label, value))
    words = [_words(text, start, width) for text, start, width in ((label, 0, left), (value, left, right))]
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" role="img">\n'
            f"<title>{escape(label)}: {escape(value)}</title>\n"
            f'<rect width="{left + right}" height="20" rx="3" fill="{GREY}"/>\n'
            f'<path d="M{left} 0h{right - 3}a3 3 0 0 1 3 3v14a3 3 0 0 1 -3 3h-{right - 3}z" fill="{colour}"/>\n'
            '<g fill="#ffffff" font-family="DejaVu Sans, Verdana, sans-serif" font-size="11">\n'
            + "\n".join(words) + "\n</g>\n</svg>\n")  # fmt: skip


def _words(text, start, width):
    return f'<text x="{start + EDGE // 2}" y="14" textLength="{width - EDGE}">{escape(text)}</text>'


def badges(table, root=None, reading="closest"):
    """The badges of the project, SVG text by file name: claims, notebooks, Python, licence.

    Parameters
    ----------
    table : pandas.DataFrame
        As `lpkit.verdicts` returns it.
    root : path, optional
        The repository.
    reading : str
        Whose verdicts are counted; those on which the reading was fitted are not counted as reproduced.

    Examples
    --------
    >>> from lpkit.claims import verdicts
    >>> list(badges(verdicts()))
    ['claims.svg', 'notebooks.svg', 'python.svg', 'licence.svg']
    """
    project = tomllib.loads((repository(root) / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    reproduced = int((table[f"verdict {reading}"] == "reproduced").sum())
    return {"claims.svg": badge("claims of the papers", f"{reproduced} of {len(table)} reproduced"),
            "notebooks.svg": badge("notebooks", str(len(notebook_ids(root))), GREEN),
            "python.svg": badge("Python", project["requires-python"].removeprefix(">=") + " or newer"),
            "licence.svg": badge("licence", project["license"])}  # fmt: skip
