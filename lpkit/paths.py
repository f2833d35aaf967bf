"""Where the repository's folders are: found from the package or the working directory, never typed in.

The library works from a wheel, which holds no notebooks and no data; what needs them calls `repository`
and gets the folder of a checkout or one clear error. Nothing is looked up when the module is imported.
"""

from pathlib import Path

__all__ = ["repository", "notebooks", "data", "results", "figures"]

PACKAGE = Path(__file__).resolve().parent
PROJECT = 'name = "layerpipe-lpkit"'  # the line of pyproject.toml that tells our checkout from any other


def repository(root=None):
    """Folder of the repository: `root` itself if given, else the checkout of the package or around the working folder.

    Raises
    ------
    ValueError
        If there is none, as in an installed wheel used elsewhere.

    Examples
    --------
    >>> (repository() / "pyproject.toml").exists()
    True
    """
    if root is not None:
        return _with_notebooks(Path(root).resolve())
    here = Path.cwd()
    for folder in (PACKAGE.parent, here, *here.parents):
        if _is_checkout(folder):
            return folder
    raise ValueError(
        "this command needs the lpkit repository (notebooks/, data/), and an installed lpkit has none; "
        "clone it and run there, or install the clone with pip install -e ."
    )


def notebooks(root=None):
    """Folder of the notebooks, ``notebooks/``.

    Examples
    --------
    >>> notebooks().name
    'notebooks'
    """
    return repository(root) / "notebooks"


def data(root=None):
    """Folder of the data that came with the repository, ``data/``.

    Examples
    --------
    >>> data().name
    'data'
    """
    return repository(root) / "data"


def results(root=None):
    """Folder of what the notebooks computed, ``data/results/``.

    Examples
    --------
    >>> results().parts[-2:]
    ('data', 'results')
    """
    return data(root) / "results"


def figures(root=None):
    """Folder of the drawn figures and their captions, ``figures/``.

    Examples
    --------
    >>> figures().name
    'figures'
    """
    return repository(root) / "figures"


def _with_notebooks(root):
    if not (root / "notebooks").is_dir():
        raise ValueError(f"{str(root)!r} holds no folder 'notebooks'; give the folder of the lpkit repository")
    return root


def _is_checkout(folder):
    project = folder / "pyproject.toml"
    return (folder / "notebooks").is_dir() and project.is_file() and PROJECT in project.read_text(encoding="utf-8")
