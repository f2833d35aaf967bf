"""The contents of the repository, notebook by notebook: title, link, what became of the claims, and a small picture.

Pictures are small enough (some kilobytes, at most 32 colours) to stand in a notebook itself: a picture linked from an
output is found by JupyterLab, but not by every page that shows notebooks, and an embedded one is seen in all of them.
"""

import io
from dataclasses import dataclass

from lpkit import paths
from lpkit.checks import whole_number
from lpkit.deliver import manifest
from lpkit.notebooks import title
from lpkit.publish import Shown

__all__ = ["Heading", "heading", "pictures", "thumbnail"]

COLOURS = 32


@dataclass(frozen=True)
class Heading:
    """Title of a notebook, a link to it in Markdown, and how many of its claims are reproduced, fitted or not.

    Examples
    --------
    >>> Heading("lp_fig1", "Fig. 1: a graph", 2, 1)
    Fig. 1: a graph (lp_fig1): 1 of 2 claims reproduced
    >>> Heading("lp_fig7", "Fig. 7: saturation", 5, 2, 1)
    Fig. 7: saturation (lp_fig7): 2 of 5 claims reproduced, 1 more (fitted)
    """

    id: str
    title: str
    claims: int
    reproduced: int
    fitted: int = 0

    @property
    def said(self):
        """What became of the claims, in words."""
        plural = "claim" if self.claims == 1 else "claims"
        more = f", {self.fitted} more (fitted)" if self.fitted else ""
        return f"{self.reproduced} of {self.claims} {plural} reproduced{more}" if self.claims else "no claim of a paper"

    def __repr__(self):
        return f"{self.title} ({self.id}): {self.said}"

    def _repr_markdown_(self):
        return f"**[{self.title}]({self.id}.ipynb)**: {self.said}"


def heading(id, verdicts, reading="closest"):
    """The `Heading` of notebook `id`.

    Parameters
    ----------
    verdicts : pandas.DataFrame
        As `lpkit.verdicts` returns it.
    reading : str
        Whose verdicts are counted.

    Examples
    --------
    >>> import lpkit as lp
    >>> heading("lp_fig1_backprop_dfg", lp.verdicts("lp_fig1_backprop_dfg"))
    Fig. 1: backpropagation as a data-flow graph (lp_fig1_backprop_dfg): 2 of 2 claims reproduced
    """
    found = verdicts.loc[verdicts["item"] == id, f"verdict {reading}"]
    count = found.value_counts()
    return Heading(id, title(id), len(found), *(int(count.get(f"reproduced{how}", 0)) for how in ("", " (fitted)")))


def pictures(id, *, root=None):
    """Names of the committed pictures of notebook `id`, the first of which stands for it.

    Examples
    --------
    >>> pictures("lp_fig6_schedules")
    ['lp_fig6_schedules', 'lp_fig6_schedules_larger']
    """
    made = sorted(name for name, entry in manifest(paths.repository(root)).items() if entry["notebook"] == id)
    return [name for name in made if (paths.figures(root) / f"{name}.png").exists()]


def thumbnail(name, *, width=320, height=220, root=None):
    """The committed picture `name`, reduced so that it fits into `width` x `height` pixels, as Jupyter shows it.

    Parameters
    ----------
    name : str
        Of a picture in figures/, without its ending.
    width, height : int
        Pixels at the most.
    root : path, optional
        The repository, if not the one that `lpkit.paths.repository` finds.

    Raises
    ------
    ValueError
        If there is no such picture, or a size is no whole number from 1 to 2000.

    Examples
    --------
    >>> small = thumbnail("lp_fig7_saturation")
    >>> small, small._repr_png_()[:4], len(small._repr_png_()) < 20_000
    (figure: lp_fig7_saturation, b'\\x89PNG', True)
    """
    from PIL import Image  # comes with matplotlib

    size = tuple(whole_number(value, said, most=2000) for value, said in ((width, "width"), (height, "height")))
    file = paths.figures(root) / f"{name}.png"
    if not file.exists():
        raise ValueError(f"there is no picture {name!r} in figures/; make it with lpkit figures")
    stream = io.BytesIO()
    with Image.open(file) as picture:
        small = picture.convert("RGB")
    small.thumbnail(size, Image.Resampling.LANCZOS)
    few = small.quantize(COLOURS, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    few.save(stream, "png", optimize=True)
    return Shown(name, stream.getvalue())
