"""The part of README.md that is made from the ledger, so that no verdict in it is typed by hand."""

from lpkit.checks import write_atomically
from lpkit.claims import claims
from lpkit.paths import repository

__all__ = ["refresh", "with_verdicts"]

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


def refresh(root=None):
    """Write the current verdicts into README.md; whether that changed it.

    Examples
    --------
    >>> refresh()  # what is committed is current
    False
    """
    path = repository(root) / "README.md"
    old = path.read_text(encoding="utf-8")
    new = with_verdicts(old, claims()._repr_markdown_())
    if new != old:
        write_atomically(path, new)
    return new != old
