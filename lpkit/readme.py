"""The parts of README.md that are made from the ledger, so that no verdict in it is typed by hand."""

from lpkit.badges import badges
from lpkit.checks import write_atomically
from lpkit.claims import VERDICTS, verdicts
from lpkit.notebooks import title
from lpkit.paths import repository

__all__ = ["refresh", "tally", "with_verdicts"]

BEGIN, END = "<!-- verdicts: made by lpkit figures -->", "<!-- end of verdicts -->"


def with_verdicts(text, table):
    """`text` with what stands between the two marks replaced by `table`.

    Raises
    ------
    ValueError
        If a mark is missing.

    Examples
    --------
    >>> with_verdicts(f"a\\n{BEGIN}\\nold\\n{END}\\nb", "new") == f"a\\n{BEGIN}\\nnew\\n{END}\\nb"
    True
    """
    if not 0 <= text.find(BEGIN) < text.find(END):
        raise ValueError(f"README.md must hold the lines {BEGIN!r} and {END!r}, in this order; put them back")
    before, rest = text.split(BEGIN, 1)
    return f"{before}{BEGIN}\n{table}\n{END}{rest.split(END, 1)[1]}"


def tally(table, reading="closest"):
    """Verdicts of a ledger counted for each table or figure, as a Markdown table with links to the notebooks.

    Parameters
    ----------
    table : pandas.DataFrame
        As `lpkit.verdicts` returns it.
    reading : str
        Whose verdicts are counted.

    Examples
    --------
    >>> print(tally(verdicts("pprs_fig2_bubbling")))
    | table or figure | claims | reproduced |
    | :--- | ---: | ---: |
    | [PPRS, Fig. 2: bubbling](notebooks/pprs_fig2_bubbling.ipynb) | 3 | 3 |
    """
    words = [word for word in VERDICTS if (table[f"verdict {reading}"] == word).any()]
    lines = [["table or figure", "claims", *words], [":---", *["---:"] * (len(words) + 1)]]
    for item, rows in table.groupby("item"):
        counts = rows[f"verdict {reading}"].value_counts()
        lines.append([f"[{title(item)}](notebooks/{item}.ipynb)", len(rows), *(counts.get(word, 0) for word in words)])
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def refresh(root=None):
    """Write the current verdicts into README.md and the badges at its head; whether that changed anything.

    Raises
    ------
    ValueError
        If a mark is missing from README.md, or a file cannot be written.

    Examples
    --------
    >>> refresh()  # what is committed is current
    False
    """
    path, table = repository(root) / "README.md", verdicts()
    made = {path: with_verdicts(path.read_text(encoding="utf-8"), tally(table))}
    made |= {path.parent / "figures" / "badges" / name: text for name, text in badges(table, root).items()}
    changed = {place: text for place, text in made.items()
               if not place.exists() or place.read_text(encoding="utf-8") != text}  # fmt: skip
    for place, text in changed.items():
        place.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(place, text)
    return bool(changed)
