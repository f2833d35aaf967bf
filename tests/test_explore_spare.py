"""Axes that are set out before they are asked for change no picture and are handed out once."""

import pytest

from lpkit import explore, explore_pprs
from lpkit.explore import State
from lpkit.explore_picture import png
from lpkit.explore_pprs import PprsState
from lpkit.explore_pprs_state import VIEWS as PPRS_VIEWS
from lpkit.explore_spare import figure_for, prepare, set_out
from lpkit.explore_state import VIEWS

PLANS = [(explore, State("sample4", processors=3, view=view)) for view in VIEWS]
RUNS = [(explore_pprs, PprsState(K=2, Delta=3, view=view)) for view in PPRS_VIEWS]


@pytest.mark.parametrize("module, state", PLANS + RUNS, ids=lambda given: getattr(given, "view", ""))
def test_a_prepared_picture_is_the_same(module, state):
    figure_for("another view", 1)  # so that nothing is ready
    first = module.figure_of(state)
    prepare()
    second, third = module.figure_of(state), module.figure_of(state)
    assert png(first) == png(second) == png(third)
    assert len({id(figure) for figure in (first, second, third)}) == 3


@pytest.mark.parametrize("state", [state for _, state in PLANS], ids=lambda state: state.view)
def test_what_was_drawn_in_between_does_not_matter(state):
    alone = png(explore.figure_of(state))
    prepare()
    for _, other in PLANS:
        explore.figure_of(other)
    explore.figure_of(state, State("sample4", processors=2, view=state.view))
    prepare()
    assert png(explore.figure_of(state)) == alone


def test_only_the_last_layout_is_kept_ready():
    for view in ("one", "two"):
        set_out(figure_for(view, 1), 1, 1, left=0.2)
        prepare()
        prepare()
    assert figure_for("one", 1).axes == []
    set_out(figure_for("two", 1), 1, 1, left=0.2)
    prepare()
    ready = figure_for("two", 1)
    assert len(ready.axes) == 1 and ready.subplotpars.left == 0.2
    assert figure_for("two", 1) is not ready
