"""nbval leaves out notebooks that need a library that is not installed here, and says so."""

from lpkit.notebooks import missing, notebook_ids

ABSENT = {id: names for id in notebook_ids() if (names := missing(id))}
collect_ignore = [f"{id}.ipynb" for id in ABSENT]


def pytest_report_header():
    return [f"left out: {id}.ipynb, which needs {' and '.join(names)}, not installed" for id, names in ABSENT.items()]
