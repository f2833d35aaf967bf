"""From a slider's release to the new picture and text, for every view: CPU time against the 150 ms that a hand notices.

    python benchmarks/bench_explore.py [NETWORK ...]

Each is the least of seven redraws that alternate between two arrays, so that what is remembered helps as little as it
does a reader who goes back and forth; the first redraw, with nothing remembered but what other views needed, is shown
beside it. Exit status 1 if a view misses the limit.
"""

import sys
import time

from lpkit.explore import State, figure_of, text_of
from lpkit.explore_picture import png
from lpkit.explore_state import VIEWS, costs_of

LIMIT = 0.150  # seconds


def redraw(state):
    """CPU seconds of picture and text."""
    start = time.process_time()
    png(figure_of(state))
    text_of(state)
    return time.process_time() - start


def main(networks):
    missed = 0
    redraw(State("sample4"))  # imports and fonts are not what is measured
    for network in networks:
        processors = min(16, len(costs_of(State(network))))
        for view in VIEWS:
            states = [State(network, rows=rows, processors=processors, view=view) for rows in (32, 64)]
            first = redraw(states[0])
            redraw(states[1])
            least = min(redraw(states[n % 2]) for n in range(7))
            missed += least > LIMIT
            print(f"{network:10} {processors:2} processors {view:14} {1e3 * least:4.0f} ms, first {1e3 * first:4.0f} ms, "
                  f"{LIMIT / least:.1f} times inside the limit")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["vgg16", "resnet50", "resnet152"]))
