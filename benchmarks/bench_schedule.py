"""How fast timelines are made and checked, and that the cost is linear in the number of operations.

    python benchmarks/bench_schedule.py

LayerPipe on ResNet50, 12 stages. Exit status 1 if a bar is missed.
"""

import sys
import time

from lpkit.costs import costs
from lpkit.partition import plan
from lpkit.schedule import layerpipe
from lpkit.systolic import Array
from lpkit.timeline_paths import bubbles, critical_path, crossings

BATCHES = (100, 1_000)  # about 20,000 and 200,000 operations
SECONDS_MOST = 0.5  # for the first of them
GROWTH_MOST = 15  # times as long for ten times the work


def best_of(repeats, function, *arguments):
    """Shortest time of some calls in seconds, and the last result."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = function(*arguments)
        times.append(time.perf_counter() - start)
    return min(times), result


def report(what, value, bar, unit):
    met = value <= bar
    print(f"{what:58} {value:10.3f} {unit:6} bar {bar:g}, {value / bar:.2f} of it{'' if met else '   MISSED'}")
    return met


def main():
    found = plan(costs("resnet50", Array(32, 32), batch=32), 12)
    small, line = best_of(5, layerpipe, found, BATCHES[0])
    large, longer = best_of(3, layerpipe, found, BATCHES[1])
    assert line.period == longer.period == found.period
    met = [report(f"layerpipe, {len(line):,} operations", small, SECONDS_MOST, "s")]
    met.append(report(f"growth to {len(longer):,} operations", large / small, GROWTH_MOST, "x"))
    seconds, problems = best_of(1, line.check)
    assert problems == ()
    print(f"{f'check of {len(line):,} operations':58} {seconds:10.3f} s")
    for name, function in (("crossings", crossings), ("critical path", critical_path), ("bubbles", bubbles)):
        seconds, _ = best_of(3, function, line)
        print(f"{f'{name} of {len(line):,} operations':58} {seconds:10.3f} s")
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
