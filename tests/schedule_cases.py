"""Plans that the tests of schedules and timelines share."""

from dataclasses import replace

import numpy as np

from lpkit.costs import Costs
from lpkit.partition import PLANNERS, Plan, check_plan, plan
from lpkit.schedule import SCHEDULES, layerpipe, one_f_one_b, pipedream

THREE = Plan("by hand", Costs.from_times([9, 5, 4], [8, 6, 4], [8, 5, 3], unit="cycles"), 3, ends=(1, 2, 3))
THREE_ON_TWO = Plan("by hand", THREE.costs, 2, ends=(1, 3))
SIZES = dict(weight_bytes=[100, 100], input_bytes=[40, 60], output_bytes=[60, 20])
TWO_LAYERS = Costs.from_times([2, 2], 2, [4, 2], unit="cycles", **SIZES)
TWO = Plan("by hand", TWO_LAYERS, 2, ends=(1, 2), moved=((1, 1, 2, 1),))
FLUSHING = ("gpipe", "one_f_one_b", "zero_bubble", "interleaved")
ASYNCHRONOUS = {
    "pipedream": pipedream, "registered": layerpipe, "1f1b": lambda plan, n: layerpipe(plan, n, model="1f1b"),
}  # fmt: skip


def equal_stages(P, F, G, delta):
    return Plan("by hand", Costs.from_times([F] * P, G, delta, unit="cycles"), P, ends=tuple(range(1, P + 1)))


def random_plan(rng, unit="cycles"):
    """A plan of a random chain, half of them with residual readers, by a random planner that may be run."""
    L, top = int(rng.integers(1, 9)), int(rng.choice([3, 10, 1000]))
    columns = rng.integers(1, top + 1, L), rng.integers(0, top + 1, L), rng.integers(0, 2 * top + 1, L)
    columns = columns if unit == "cycles" else [column / 7 for column in columns]
    sizes = {name: rng.integers(0, 40, L) for name in ("weight_bytes", "input_bytes", "output_bytes")}
    chain = Costs.from_times(*columns, unit=unit, **sizes)
    if rng.random() < 0.5:
        readers = np.minimum(np.arange(1, L + 1) + rng.choice([1, 1, 1, 2, 3], L), L + 1)
        chain = replace(chain, first_consumer=readers, shared_input=rng.random(L) < 0.3)
    found = plan(chain, int(rng.integers(1, L + 1)), str(rng.choice(list(PLANNERS))))
    return found if not check_plan(found) else plan(chain, found.processors, "optimal")


def every_schedule(found, **links):
    for name, function in SCHEDULES.items():
        micro = {"micro_batches": 3} if name in FLUSHING else {}
        yield function(found, 4, **micro, **links)
    yield layerpipe(found, 7, model="1f1b", **links)
    yield one_f_one_b(found, 2, micro_batches=5, delta_first=True, **links)
