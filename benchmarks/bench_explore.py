"""From a slider's release to the new picture and its lines, for every view: CPU time against the 150 ms of a hand.

    python benchmarks/bench_explore.py [NETWORK ...]

Each redraw is of a state that nobody has asked for before, so that nothing is remembered but the network itself: of the
explorer of plans a new array, on 16 processors or as many as there are layers, and for the loads a new number of
processors as well; of the explorer of PPRS a new learning rate (the runs of GD and AGD do not depend on it, the
recorded attack knows none). The median of the redraws of a view must be within the limit; the worst is shown beside it.

The sweep of Fig. 8 (`lpkit.sweep`, 1,760 plans over arrays, mini-batches and processors) is no view of the explorer;
the one that it draws, the speedup over all processor counts, is timed at its first and at its second use.

Exit status 1 if a view of a network misses the limit. The explorer of PPRS runs optimisers, and is told of without one.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # as the notebooks have it

import itertools
import statistics
import sys
import time

from lpkit import NETWORKS, explore, explore_pprs
from lpkit.explore import State, table_for
from lpkit.explore_pprs_state import FROG, PROBLEMS, PprsState
from lpkit.explore_pprs_state import VIEWS as PPRS_VIEWS
from lpkit.explore_spare import prepare
from lpkit.explore_state import VIEWS, costs_of

LIMIT = 0.150  # seconds
REDRAWS = 7
SIDES = itertools.count(33)  # no array is asked for twice


def seconds(made, *given):
    """CPU seconds of a call; the next axes are set out after it, as in the explorers."""
    start = time.process_time()
    made(*given)
    spent = time.process_time() - start
    prepare()
    return spent


def told(name, view, spent):
    """One line; the median."""
    median = statistics.median(spent)
    print(f"{name:34} {view:22} {1e3 * median:4.0f} ms, worst {1e3 * max(spent):4.0f} ms, "
          f"{LIMIT / median:.1f} times inside the limit", flush=True)  # fmt: skip
    return median


def plans(network):
    """Median of each view of a network."""
    most = min(16, len(costs_of(State(network))))
    rows = [State(network, rows=next(SIDES), processors=most, view=view) for view in VIEWS for _ in range(REDRAWS)]
    medians = [told(f"{network}, {most} processors", view, [seconds(explore.drawn, state) for state in states])
               for view, states in itertools.groupby(rows, key=lambda state: state.view)]  # fmt: skip
    counts = range(max(most - REDRAWS + 1, 1), most + 1)
    states = [State(network, columns=next(SIDES), processors=count) for count in counts]
    return [*medians, told(network, "loads, new processors", [seconds(explore.drawn, state) for state in states])]


def optimisers(problem, rates):
    """Each view of a problem of PPRS."""
    for view in PPRS_VIEWS[: -1 if problem == FROG else None]:
        if problem == FROG:
            states = [PprsState(FROG, K=K, lr=3e-4, target=9, view=view) for K in (10, 100)]
        else:
            states = [PprsState(problem, lr=next(rates), view=view) for _ in range(REDRAWS + 1)]
            explore_pprs.drawn(states.pop())  # makes the runs of GD and AGD
        told(PROBLEMS[problem], view, [seconds(explore_pprs.drawn, state) for state in states])


def curve(network):
    """First and second use of the curve of the speedup."""
    state = State(network, rows=next(SIDES), view="speedup")
    first, second = (1e3 * seconds(table_for, state) for _ in range(2))
    print(f"{network}: the speedup over processors takes {first:.0f} ms at its first use, {second:.1f} ms at its "
          "second")  # fmt: skip


def main(networks):
    for view in VIEWS:
        explore.drawn(State("sample4", view=view))  # imports and fonts are not what is measured
    medians = [median for network in networks for median in plans(network)]
    inside = sum(median <= LIMIT for median in medians)
    slowest = 1e3 * max(medians)
    print(f"{inside} of {len(medians)} views are within {1e3 * LIMIT:.0f} ms; the slowest takes {slowest:.0f} ms")
    curve(networks[-1])
    for problem in PROBLEMS:
        optimisers(problem, (0.01 * 1.001**n for n in itertools.count()))
    return int(inside < len(medians))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or NETWORKS))
