"""nbval executes these notebooks and compares their outputs with the committed ones."""

import os

os.environ.pop("LPKIT_OUT", None)  # comparing writes nothing


def pytest_collectstart(collector):
    """Libraries of a machine may warn on standard error; the committed notebooks have nothing there."""
    if hasattr(collector, "skip_compare"):
        collector.skip_compare += ("stderr",)
