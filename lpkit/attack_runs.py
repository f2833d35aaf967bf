"""The experiment of PPRS (NeurIPS 2019), section 5: gd, agd and pprs on one attack, over learning rates and gammas.

All methods are given the same simulated time. ``scale="quick"`` is a few settings and a third of the time.
``scale="paper"`` is the paper's grid and half decades around its best settings, in 38 pieces that are kept on disk
(`lpkit.resume`), so that an interrupted run goes on. To compute them before the notebook shows them (half an hour)::

    python -m lpkit.attack_runs IMAGE TARGET
    lpkit figures pprs_fig3_adversarial -p scale paper -p image IMAGE -p target TARGET --out FOLDER
"""

import argparse
import hashlib
import sys

import numpy as np

from lpkit.checks import choice, shown, whole_number
from lpkit.resume import kept, runs_folder
from lpkit.smoothing import agd, gd, pprs
from lpkit.traces import Trace

__all__ = ["attack_runs", "budget", "settings", "steps"]

PAPER = tuple(float(f"1e-{e}") for e in range(3, 8))  # the paper's learning rates, and its gammas
HALF = (*PAPER, *(float(f"3e-{e}") for e in range(3, 8)))
BESIDE = ((1e-3, 1e-2), (3e-4, 1e-2), (3e-4, 3e-3), (1e-4, 3e-3))  # (lr, gamma) in half decades
QUICK = {
    ("gd", 1): ((1e-3, 0), (3e-4, 0), (1e-4, 0)),
    ("agd", 1): ((1e-5, 0), (3e-6, 0), (1e-6, 0)),
    ("pprs", 2): ((1e-4, 1e-3), (3e-4, 3e-3)),
    ("pprs", 10): ((1e-4, 1e-3), (3e-4, 3e-3)),
    ("pprs", 100): ((3e-4, 3e-3),),
}
SLOTS = {"paper": 600, "quick": 200}  # a node


def budget(depth, scale="paper"):
    """Simulated time that every method is given: 600 or 200 slots a node, so that gd makes 300 or 100 steps.

    Raises
    ------
    ValueError
        If the scale is unknown or `depth` is not a whole number of at least 1.

    Examples
    --------
    >>> budget(20), budget(200), budget(20, "quick")
    (12000, 120000, 4000)
    """
    return SLOTS[choice(scale, "scale", tuple(SLOTS))] * whole_number(depth, "depth")


def settings(scale="paper"):
    """(method, K) -> (lr, gamma) of each setting; gd and agd have no gamma.

    Raises
    ------
    ValueError
        If the scale is unknown.

    Examples
    --------
    >>> [(method, K, len(pairs)) for (method, K), pairs in settings().items()]
    [('gd', 1, 10), ('agd', 1, 10), ('pprs', 2, 29), ('pprs', 10, 29), ('pprs', 100, 29)]
    """
    if choice(scale, "scale", tuple(SLOTS)) == "quick":
        return dict(QUICK)
    pairs = (*((lr, gamma) for lr in PAPER for gamma in PAPER), *BESIDE)
    alone = {(method, 1): tuple((lr, 0) for lr in HALF) for method in ("gd", "agd")}
    return alone | {("pprs", K): pairs for K in (2, 10, 100)}


def steps(K, depths, scale="paper"):
    """T: what fits into the time at the depth that allows most.

    Parameters
    ----------
    K : int
        Gradients a step.
    depths : sequence of int
        Deltas, at least one.
    scale : {"paper", "quick"}

    Raises
    ------
    ValueError
        As `budget`.

    Examples
    --------
    >>> [steps(K, (20, 200)) for K in (1, 2, 10, 100)]
    [300, 298, 287, 200]
    """
    return max(1, *(budget(depth, scale) // (2 * (K + depth - 1)) for depth in depths))


def attack_runs(attack, *, depths=(20, 200), scale="quick", seeds=(0,), folder=None, progress=None):
    """Run every method on an attack, in float32.

    Parameters
    ----------
    attack : LinfAttack
    depths : sequence of int
        Deltas; a run is as long as the one that allows most steps.
    scale : {"quick", "paper"}
    seeds : sequence of int
        Of the perturbations; gd and agd have none and run once.
    folder : path, optional
        Where pieces of ``scale="paper"`` are kept; see `lpkit.resume`.
    progress : callable, optional
        ``progress(done, pieces, name)`` after each piece; default is a line on a terminal, and nothing elsewhere.

    Returns
    -------
    dict of (method, K, seed) to Trace

    Raises
    ------
    ValueError
        If the scale is unknown, a number is out of range, or the folder cannot be written to.
    """
    grids, progress = settings(scale), progress or _on_terminal
    if not np.iterable(depths) or not np.iterable(seeds):
        raise ValueError(f"depths are {shown(depths)} and seeds {shown(seeds)}; give sequences of whole numbers")
    depths = [whole_number(d, "depth") for d in depths]
    seeds = list(dict.fromkeys(whole_number(s, "seed", least=0) for s in seeds))  # a seed given twice is run once
    if not depths or not seeds:
        raise ValueError("depths or seeds are empty; give at least one of each")
    jobs = [(method, K, seed, piece, steps(K, depths, scale)) for (method, K), pairs in grids.items()
            for seed in (seeds if K > 1 else seeds[:1]) for piece in _pieces(pairs, scale)]  # fmt: skip
    found = {}
    for done, (method, K, seed, pairs, T) in enumerate(jobs, 1):
        trace = _kept(attack, method, K, seed, pairs, T, folder) if scale == "paper" else _run(
            attack, method, K, seed, pairs, T)  # fmt: skip
        found.setdefault((method, K, seed), []).append(trace)
        progress(done, len(jobs), f"{method}, K = {K}, seed {seed}")
    return {key: _joined(traces) for key, traces in found.items()}


def _pieces(pairs, scale):
    """Settings that run as one batch: all, or those of one learning rate, so that little is lost by a break."""
    if scale == "quick":
        return [pairs]
    return [tuple(p for p in pairs if p[0] == lr) for lr in dict.fromkeys(lr for lr, _ in pairs)]


def _run(attack, method, K, seed, pairs, T):
    lr, gamma = np.array(pairs, dtype=float).T
    if method == "pprs":
        return pprs(attack, T, K=K, lr=lr, gamma=gamma, seed=seed, dtype="float32")
    return {"gd": gd, "agd": agd}[method](attack, T, lr=lr, dtype="float32")


def _kept(attack, method, K, seed, pairs, T, folder):
    """`_run`, or what it gave before. The network is known by its scores of the image."""
    given = {"method": method, "K": K, "seed": seed, "pairs": pairs, "T": T, "target": attack.target,
             "weight": attack.weight, "margin": attack.margin, "reduction": attack.reduction, "ties": attack.ties,
             "scores": [f"{score:.3f}" for score in attack.clean_scores],
             "image": hashlib.sha256(attack.image.tobytes()).hexdigest()}  # fmt: skip

    def compute():
        trace = _run(attack, method, K, seed, pairs, T)
        rates = {f"set {name}": values for name, values in trace.settings.items()}
        return {"values": trace.values, "iterations": trace.iterations, "points": trace.points,
                "stopped": trace.stopped} | rates  # fmt: skip

    arrays = kept(f"attack-{method}-{K}", given, compute, folder=folder)
    rates = {name[4:]: arrays.pop(name) for name in list(arrays) if name.startswith("set ")}
    return Trace(method, attack.name, settings=rates, shape=(len(pairs),), K=K, **arrays)


def _joined(traces):
    """One trace of the settings of several; those that all stopped early have fewer records."""
    longest = max(traces, key=lambda trace: len(trace.iterations))
    n, first = len(longest.iterations), traces[0]
    values = [np.pad(t.values, ((0, 0), (0, n - t.values.shape[1])), constant_values=np.nan) for t in traces]
    rates = {name: np.concatenate([t.settings[name] for t in traces]) for name in first.settings}
    points, stopped = (np.concatenate([getattr(t, name) for t in traces]) for name in ("points", "stopped"))
    return Trace(first.method, first.problem, np.concatenate(values), longest.iterations, points, rates,
                 (len(points),), stopped, first.K)  # fmt: skip


def _on_terminal(done, pieces, name):
    if sys.stderr.isatty():
        end = "\n" if done == pieces else ""
        print(f"\r{done} of {pieces}: {name}".ljust(60), end=end, file=sys.stderr, flush=True)


def _in_lines(done, pieces, name):
    print(f"{done} of {pieces}: {name}", file=sys.stderr, flush=True)


def main(arguments=None):
    """`python -m lpkit.attack_runs`."""
    from lpkit.attack import LinfAttack
    from lpkit.image_network import trained_alexnet
    from lpkit.images import SAMPLE, picture

    given = _parser(SAMPLE).parse_args(arguments)
    try:
        attack = LinfAttack(trained_alexnet(), picture(given.image).pixels, given.target)
        attack_runs(attack, depths=given.depths, scale="paper", seeds=given.seeds,
                    progress=_on_terminal if sys.stderr.isatty() else _in_lines)  # fmt: skip
    except (ValueError, FileNotFoundError) as error:
        _parser(SAMPLE).error(str(error))
    except KeyboardInterrupt:
        print(f"\ninterrupted; what is done is kept in {runs_folder()}, the same command goes on", file=sys.stderr)
        return 1
    print(f"all pieces are in {runs_folder()}; to see them: lpkit figures pprs_fig3_adversarial -p scale paper "
          f"-p image {given.image} -p target {given.target} --out FOLDER")  # fmt: skip
    return 0


def _parser(image):
    parser = argparse.ArgumentParser(
        prog="python -m lpkit.attack_runs",
        description="Compute the pieces of scale=\"paper\" of Fig. 3: about half an hour. Each is kept in "
        f"{runs_folder()} as soon as it is done; interrupted, the same command goes on.")  # fmt: skip
    parser.add_argument("image", nargs="?", default=image, help="as for lpkit.images.picture [%(default)s]")
    parser.add_argument("target", nargs="?", default="frog", help="class to be taken for [%(default)s]")
    parser.add_argument("--depths", type=int, nargs="+", default=[20, 200], help="Deltas of the pipeline [20 200]")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0], help="of the perturbations [0]")
    return parser


if __name__ == "__main__":
    sys.exit(main())
