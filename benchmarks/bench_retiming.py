"""How fast retiming is: against limits, and against plain methods of the textbook on small graphs.

    python benchmarks/bench_retiming.py [FOLDER]

FOLDER may hold recorded graphs (answers.json, iscas89/*.bench, random/*.txt.gz); what it holds is checked and timed as
well. Limits and ratios of one run count, not the times. Exit status 1 if a bar is missed.
"""

import gzip
import importlib.util
import json
import sys
import time
from bisect import bisect_left
from heapq import heappop, heappush
from pathlib import Path

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csc_array

from lpkit.dfg import DFG, backprop_dfg, critical_path
from lpkit.interop.bench import read_bench
from lpkit.retiming import delay_gradients, min_period, min_registers, retime, stage_lags, verify_min_period

ARRAYS_LEAST = 5  # times as fast as all pairs and Bellman-Ford on arrays, 300 nodes
BOOK_LEAST = 100  # times as fast as the same on dictionaries, as it stands in textbooks, 300 nodes
REGISTERS_LEAST = 5  # times as fast as one programme with the constraints of all pairs, 300 nodes
SOLVER = "lemon" if importlib.util.find_spec("pylmcf") else "highs"


def random_graph(nodes, seed, near=None):
    """Four edges a node; edges that lead up in the order of the nodes may have no delay. `near` bounds how far."""
    rng = np.random.default_rng(seed)
    tails = rng.integers(0, nodes, 4 * nodes)
    heads = (tails + rng.integers(-near, near + 1, 4 * nodes)) % nodes if near else rng.integers(0, nodes, 4 * nodes)
    delays = rng.integers(0, 4, 4 * nodes) + (tails >= heads)
    names = [f"n{i}" for i in range(nodes)]
    times = dict(zip(names, rng.integers(1, 11, nodes).tolist()))
    return DFG(times, [(names[u], names[v], w) for u, v, w in zip(tails.tolist(), heads.tolist(), delays.tolist())])


def read_random(path):
    with gzip.open(path, "rt") as file:
        next(file)
        times = {f"n{i}": int(time) for i, time in enumerate(next(file).split())}
        return DFG(times, [(f"n{u}", f"n{v}", int(w)) for u, v, w in map(str.split, file)])


def all_pairs(dfg):
    """Leiserson and Saxe's matrices W and D of a graph with whole times, by Floyd and Warshall."""
    n, times = len(dfg.nodes), dfg.whole_times
    scale = int(times.sum()) + 1
    weight = np.full((n, n), np.inf)
    np.fill_diagonal(weight, 0)
    np.minimum.at(weight, (dfg.tails, dfg.heads), dfg.delays * scale - times[dfg.tails])
    for k in range(n):
        np.minimum(weight, weight[:, k, None] + weight[k], out=weight)
    joined = np.isfinite(weight)
    W = np.full((n, n), np.inf)
    W[joined] = np.ceil(weight[joined] / scale)
    D = np.where(joined, times, -1.0)
    D[joined] += W[joined] * scale - weight[joined]
    return W, D


def plain_min_period(dfg):
    """Least period by bisection over all entries of D, each tested by Bellman and Ford."""
    W, D = all_pairs(dfg)
    periods = np.unique(D[D >= dfg.whole_times.max()])

    def fits(period):
        bound = np.where(D > period, W - 1, np.inf)
        np.minimum.at(bound, (dfg.tails, dfg.heads), dfg.delays)
        lags = np.zeros(len(W))
        for _ in range(len(W) + 1):
            lower = np.minimum(lags, (lags[None, :] + bound).min(axis=1))
            if (lower == lags).all():
                return True
            lags = lower
        return False

    low, high = 0, len(periods) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(periods[middle]) else (middle + 1, high)
    return int(periods[low])


def book_min_period(dfg):
    """The same in the words of a textbook: dictionaries, one search a node, all pairs as constraints."""
    edges = {}
    for u, v, w in dfg.edges:
        edges.setdefault(u, []).append((v, w))
    pairs = {(s, v): label for s in dfg.nodes for v, label in book_search(dfg, edges, s).items()}

    def fits(period):
        rows = [(u, v, w) for u, v, w in dfg.edges]
        rows += [(u, v, w - 1) for (u, v), (w, minus) in pairs.items() if -minus > period]
        lag = dict.fromkeys(dfg.nodes, 0)
        for _ in range(len(lag) + 1):
            changed = False
            for u, v, w in rows:
                if lag[v] + w < lag[u]:
                    lag[u], changed = lag[v] + w, True
            if not changed:
                return True
        return False

    periods = sorted({-minus for _, minus in pairs.values() if -minus >= max(dfg.times.values())})
    return periods[bisect_left(periods, True, key=fits)]


def book_search(dfg, edges, source):
    """(W, -D) from `source` to every node."""
    best, heap = {source: (0, -dfg.times[source])}, [(0, -dfg.times[source], source)]
    while heap:
        *label, u = heappop(heap)
        if tuple(label) == best[u]:
            for v, w in edges.get(u, ()):
                further = (label[0] + w, label[1] - dfg.times[v])
                if v not in best or further < best[v]:
                    best[v] = further
                    heappush(heap, (*further, v))
    return best


def plain_min_registers(dfg, period):
    """Fewest registers, each edge its own, by one linear programme with a constraint for each pair of nodes too far."""
    W, D = all_pairs(dfg)
    a, b = np.nonzero((D > period) & np.isfinite(W))
    a, b = np.concatenate([dfg.tails, a]), np.concatenate([dfg.heads, b])
    bounds = np.concatenate([dfg.delays, W[D > period][np.isfinite(W[D > period])] - 1])
    rows, n = np.arange(len(a)), len(W)
    ones = np.ones(len(a))
    places = np.concatenate([rows, rows]), np.concatenate([a, b])
    matrix = csc_array((np.concatenate([ones, -ones]), places), shape=(len(a), n))
    cost = np.bincount(dfg.heads, minlength=n) - np.bincount(dfg.tails, minlength=n)
    found = linprog(cost, A_ub=matrix, b_ub=bounds, bounds=(None, None), method="highs")
    return round(found.fun) + int(dfg.delays.sum())


def best_of(repeats, function, *arguments, **options):
    """Shortest time of some calls in seconds, and the last result."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = function(*arguments, **options)
        times.append(time.perf_counter() - start)
    return min(times), result


def report(what, value, bar, unit, higher_is_better):
    met = value >= bar if higher_is_better else value <= bar
    note = "" if met else "   MISSED"
    print(f"{what:64} {value:9.3f} {unit:3} bar {bar:g}, {value / bar:.2f} of it{note}", flush=True)
    return met


def timed_period(what, dfg, bar):
    seconds, found = best_of(3, min_period, dfg)
    assert verify_min_period(dfg, found)
    return report(f"min period, {what}: {found.period}", seconds, bar, "s", False), found.period


def timed_registers(what, dfg, period, bar):
    seconds, found = best_of(1, min_registers, dfg, period, solver=SOLVER)
    assert retime(dfg, found.r).registers() == found.registers and critical_path(retime(dfg, found.r)).period <= period
    return report(f"min registers with {SOLVER}, {what}: {found.registers}", seconds, bar, "s", False)


def made_here():
    """Random graphs and backprop chains."""
    for near in (20, None):
        dfg, what = random_graph(10_000, 1, near), f"10,000 nodes, {'near' if near else 'any'} edges"
        met, period = timed_period(what, dfg, 0.5)
        yield met
        if SOLVER == "lemon":
            yield timed_registers(what, dfg, period, 5)
    sequential = backprop_dfg(5_000)
    yield timed_period("backprop of 5,000 layers", sequential, 1)[0]
    stages = range(1, 5_001)
    delayed = delay_gradients(sequential, stages)
    yield timed_period("the same with delayed gradients", delayed, 1)[0]
    yield report("lags of 5,000 stages", best_of(3, stage_lags, delayed, stages)[0], 1, "s", False)


def against_plain_methods():
    dfg = random_graph(300, 2, 20)
    own, found = best_of(5, min_period, dfg)
    peer, period = best_of(1, plain_min_period, dfg)
    assert period == found.period
    yield report("times as fast as all pairs on arrays (300 nodes)", peer / own, ARRAYS_LEAST, "x", True)
    peer, period = best_of(1, book_min_period, dfg)
    assert period == found.period
    yield report("times as fast as all pairs on dictionaries (300 nodes)", peer / own, BOOK_LEAST, "x", True)
    own, found = best_of(3, min_registers, dfg, period, shared=False)
    peer, fewest = best_of(1, plain_min_registers, dfg, period)
    assert fewest == found.registers
    yield report("times as fast as one programme of all pairs (300 nodes)", peer / own, REGISTERS_LEAST, "x", True)


def recorded(folder):
    """Every recorded circuit and random graph: equal answers; the largest against its bar."""
    answers = json.loads((folder / "answers.json").read_text())
    for entry in answers["random"]:
        dfg, golden = read_random(folder / entry["file"]), entry["golden"]
        met, period = timed_period(entry["id"], dfg, 0.5)
        assert period == golden["min_period"]
        yield met
    for entry in answers["iscas89"]:
        for kind in ("raw", "swept"):
            dfg, golden = read_bench(folder / entry["file"], swept=kind == "swept"), entry[kind]
            found = min_period(dfg)
            assert (found.period, verify_min_period(dfg, found)) == (golden["min_period"], True), entry["id"]
            if SOLVER == "lemon" or entry["gates"] < 3_000:
                assert min_registers(dfg, solver=SOLVER).registers == golden["min_registers_shared"], entry["id"]
                least = min_registers(dfg, found.period, solver=SOLVER).registers
                assert least == golden["min_registers_shared_at_min_period"], entry["id"]
        if entry["gates"] > 15_000:
            yield timed_period(entry["id"], read_bench(folder / entry["file"]), 1)[0]
    print(f"{len(answers['iscas89'])} circuits, raw and swept: every period and register count as recorded")


def main(arguments):
    met = [*made_here(), *against_plain_methods(), *(recorded(Path(arguments[0])) if arguments else ())]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
