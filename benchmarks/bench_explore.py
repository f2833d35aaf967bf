"""From a slider's release to the new picture and text, for every view: CPU time against the 150 ms that a hand notices.

    python benchmarks/bench_explore.py [NETWORK ...]

Of the explorer of plans each is the least of seven redraws that alternate between two arrays, so that what is
remembered helps as little as it does a reader who goes back and forth; the first redraw, with nothing remembered but
what other views needed, is shown beside it. Of the explorer of PPRS each redraw has a learning rate that was never
asked for before, so its runs are made anew; those of GD and AGD are remembered, and the first redraw makes them too.
Exit status 1 if a view misses the limit.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # as the notebooks have it

import itertools
import sys
import time

from lpkit import explore, explore_pprs
from lpkit.explore import State
from lpkit.explore_picture import png
from lpkit.explore_pprs_state import FROG, PROBLEMS, PprsState
from lpkit.explore_pprs_state import VIEWS as PPRS_VIEWS
from lpkit.explore_state import VIEWS, costs_of

LIMIT = 0.150  # seconds
REDRAWS = 7


def redraw(state, module=explore):
    """CPU seconds of picture and text."""
    start = time.process_time()
    png(module.figure_of(state))
    module.text_of(state)
    return time.process_time() - start


def said(name, view, first, least):
    """One line; whether the limit is missed."""
    times = f"{1e3 * least:4.0f} ms, first {1e3 * first:4.0f} ms"
    print(f"{name:34} {view:14} {times}, {LIMIT / least:.1f} times inside the limit")
    return least > LIMIT


def plans(network):
    """Each view of a network: how many miss the limit."""
    processors, missed = min(16, len(costs_of(State(network)))), 0
    for view in VIEWS:
        states = [State(network, rows=rows, processors=processors, view=view) for rows in (32, 64)]
        first = redraw(states[0])
        redraw(states[1])
        least = min(redraw(states[n % 2]) for n in range(REDRAWS))
        missed += said(f"{network}, {processors} processors", view, first, least)
    return missed


def optimisers(problem, rates):
    """Each view of a problem of PPRS: how many miss the limit."""
    missed = 0
    for view in PPRS_VIEWS[: -1 if problem == FROG else None]:
        if problem == FROG:
            states = [PprsState(FROG, K=K, lr=3e-4, target=9, view=view) for K in (10, 100)]
            states = [states[n % 2] for n in range(REDRAWS + 1)]
        else:
            states = [PprsState(problem, lr=next(rates), view=view) for _ in range(REDRAWS + 1)]
        first = redraw(states[0], explore_pprs)
        missed += said(PROBLEMS[problem], view, first, min(redraw(state, explore_pprs) for state in states[1:]))
    return missed


def main(networks):
    redraw(State("sample4"))  # imports and fonts are not what is measured
    rates = (0.01 * 1.001**n for n in itertools.count())
    missed = sum(plans(network) for network in networks) + sum(optimisers(problem, rates) for problem in PROBLEMS)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["vgg16", "resnet50", "resnet152"]))
