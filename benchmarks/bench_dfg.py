"""How fast the exact iteration bound is: against limits, and against the usual ways to it.

    python benchmarks/bench_dfg.py

Limits and ratios of one run count, not the times. Exit status 1 if a bar is missed. networkx is compared where it is
installed: its simple_cycles lists the loops, its find_negative_cycle serves Lawler's bisection.
"""

import sys
import time
from fractions import Fraction

import numpy as np

from lpkit.dfg import DFG, backprop_dfg, critical_path, iteration_bound, loops

LIMITS = [("local", 0.5), ("uniform", 0.5)]  # seconds for 10,000 nodes and 40,000 edges
LAYERS, LAYERS_LIMIT = 5_000, 0.1
LOOPS_LEAST = 50  # times as fast as listing the loops of 9 layers
LAWLER_LEAST = 10  # times as fast as Lawler's bisection in plain Python, 300 nodes


def random_graph(nodes, kind, seed=0):
    """Ring-like or uniform random edges, four a node; an edge that leads back in the order of the nodes has a delay."""
    random = np.random.default_rng(seed)
    tails = np.repeat(np.arange(nodes), 4)
    near = kind == "local"
    heads = (tails + random.integers(-30, 31, len(tails))) % nodes if near else random.integers(0, nodes, len(tails))
    delays = np.where(heads <= tails, random.integers(1, 4, len(tails)), random.integers(0, 4, len(tails)))
    names = [str(node) for node in range(nodes)]
    edges = [(names[u], names[v], w) for u, v, w in zip(tails.tolist(), heads.tolist(), delays.tolist())]
    return DFG(dict(zip(names, random.integers(1, 11, nodes).tolist())), edges)


def best_of(repeats, function, *arguments):
    """Shortest time of some calls in seconds, and the last result."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = function(*arguments)
        times.append(time.perf_counter() - start)
    return min(times), result


def bounded(graph):
    """The bound of a graph whose arrays have yet to be made."""
    return iteration_bound(DFG(graph.times, graph.edges))


def has_positive_loop(graph, ratio):
    """Whether a loop has more time than `ratio` times its delays: Bellman and Ford, edge by edge, in floats."""
    weights = [(u, v, float(graph.times[u]) - ratio * w) for u, v, w in graph.edges]
    length = dict.fromkeys(graph.nodes, 0.0)
    for _ in graph.nodes:
        changed = False
        for u, v, weight in weights:
            if length[u] + weight > length[v] + 1e-9:
                length[v], changed = length[u] + weight, True
        if not changed:
            return False
    return True


def lawler(graph, positive=has_positive_loop):
    """Lawler's bisection to 1e-6."""
    low, high = 0.0, float(sum(graph.times.values()))
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (middle, high) if positive(graph, middle) else (low, middle)
    return high


def by_networkx(networkx):
    """The same two ways with networkx."""

    def listed(graph):
        plain = networkx.DiGraph()
        for u, v, w in graph.edges:
            held = plain.edges[u, v]["w"] if plain.has_edge(u, v) else w
            plain.add_edge(u, v, w=min(w, held))
        found = networkx.simple_cycles(plain)
        return max(
            Fraction(sum(graph.times[n] for n in loop),
                     sum(plain.edges[s]["w"] for s in zip(loop, loop[1:] + loop[:1])))
            for loop in found
        )

    def positive(graph, ratio):
        weighted = networkx.DiGraph()
        for u, v, w in graph.edges:
            weight = ratio * w - float(graph.times[u])
            held = weighted.edges[u, v]["weight"] if weighted.has_edge(u, v) else weight
            weighted.add_edge(u, v, weight=min(weight, held))
        weighted.add_edges_from(("source", node, {"weight": 0.0}) for node in graph.nodes)
        return networkx.negative_edge_cycle(weighted)

    return listed, lambda graph: lawler(graph, positive)


def report(what, value, bar, unit, higher_is_better):
    met = value >= bar if higher_is_better else value <= bar
    print(f"{what:62} {value:10.3f} {unit:6} bar {bar:g}, {value / bar:.2f} of it{'' if met else '   MISSED'}")
    return met


def main():
    met = []
    for kind, limit in LIMITS:
        graph = random_graph(10_000, kind)
        seconds, bound = best_of(5, iteration_bound, graph)
        assert bound.verify(graph)
        met.append(report(f"bound of 10,000 nodes, 40,000 edges, {kind}", 1e3 * seconds, 1e3 * limit, "ms", False))
        print(f"{'  making the graph, proving the bound, critical path':62} ", end="")
        print(*(f"{1e3 * best_of(3, *call)[0]:.0f}" for call in (
            (DFG, graph.times, graph.edges), (bound.verify, graph), (critical_path, graph)
        )), "ms")  # fmt: skip
    graph = backprop_dfg(LAYERS)
    seconds, bound = best_of(5, iteration_bound, graph)
    assert bound.value == 2 * LAYERS and bound.verify(graph)
    met.append(report(f"bound of the backprop graph of {LAYERS} layers", 1e3 * seconds, 1e3 * LAYERS_LIMIT, "ms",
                      False))

    chain, small = backprop_dfg(9), random_graph(300, "uniform")
    quick, bound = best_of(5, bounded, chain)
    slow, found = best_of(1, lambda: loops(chain, limit=20_000))
    assert max(loop.bound for loop in found) == bound.value
    met.append(report(f"times as fast as listing {len(found)} loops (9 layers)", slow / quick, LOOPS_LEAST, "x", True))
    faster, exact = best_of(5, bounded, small)
    slow, value = best_of(1, lawler, small)
    assert abs(value - float(exact.value)) < 1e-5
    met.append(report("times as fast as Lawler's bisection (300 nodes)", slow / faster, LAWLER_LEAST, "x", True))
    try:
        import networkx
    except ImportError:
        print("networkx is not installed: not compared")
        return 0 if all(met) else 1
    listed, bisected = by_networkx(networkx)
    slow, value = best_of(1, listed, chain)
    assert value == bound.value
    met.append(report("times as fast as networkx simple_cycles (9 layers)", slow / quick, LOOPS_LEAST, "x", True))
    slow, value = best_of(1, bisected, small)
    print(f"  networkx bisection says {value:.6f}, exact {float(exact.value):.6f}")
    met.append(report("times as fast as bisection with networkx (300 nodes)", slow / faster, LAWLER_LEAST, "x", True))
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
