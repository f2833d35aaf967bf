"""How fast the cost model is: the grid of the paper against a plain loop, and one network against SCALE-Sim.

    python benchmarks/bench_systolic.py [--scalesim PYTHON]

The ratios of one run count, not the times. PYTHON is an interpreter in whose environment ``scalesim==3.0.0`` with
``numpy<2.4`` is installed; that part takes a minute or two and about 1.2 GB. Exit status 1 if a bar is missed.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from lpkit.interop.scalesim import read_topology
from lpkit.networks import network
from lpkit.products import gemms
from lpkit.systolic import OPS, Array, cycles_grid

GRID_MOST = 0.010  # seconds
LOOP_LEAST = 10  # times as fast as the loop
SCALESIM_LEAST = 100_000
ARRAYS = [Array(side, side) for side in (32, 64, 128, 256)]
BATCHES = [16, 32, 64, 128, 256]

ALEXNET = """Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, Strides,
Conv1, 224, 224, 11, 11, 3, 96, 4,
Conv2, 27, 27, 5, 5, 96, 256, 1,
Conv3, 13, 13, 3, 3, 256, 384, 1,
Conv4, 13, 13, 3, 3, 384, 384, 1,
Conv5, 13, 13, 3, 3, 384, 256, 1,
"""
CONFIG = """[general]
run_name = bench
[architecture_presets]
ArrayHeight = 128
ArrayWidth = 128
IfmapSramSzkB = 64
FilterSramSzkB = 64
OfmapSramSzkB = 64
IfmapOffset = 0
FilterOffset = 10000000
OfmapOffset = 20000000
Dataflow = ws
Bandwidth = 10
MemoryBanks = 1
ReadRequestBuffer = 32
WriteRequestBuffer = 32
[layout]
IfmapCustomLayout = False
IfmapSRAMBankBandwidth = 10
IfmapSRAMBankNum = 10
IfmapSRAMBankPort = 2
FilterCustomLayout = False
FilterSRAMBankBandwidth = 10
FilterSRAMBankNum = 10
FilterSRAMBankPort = 2
[sparsity]
SparsitySupport = false
SparseRep = ellpack_block
OptimizedMapping = false
BlockSize = 8
RandomNumberGeneratorSeed = 40
[run_presets]
InterfaceBandwidth = CALC
UseRamulatorTrace = False
"""
RUN = """
import contextlib, csv, io, json, sys, time
from pathlib import Path
from scalesim.scale_sim import scalesim
folder = Path(sys.argv[1])
with contextlib.redirect_stdout(io.StringIO()):
    start = time.process_time()
    run = scalesim(save_disk_space=True, verbose=False, config=str(folder / "scale.cfg"),
                   topology=str(folder / "alexnet.csv"), layout=str(folder / "layout.csv"))
    run.run_scale(top_path=str(folder))
    seconds = time.process_time() - start
report = next(folder.rglob("COMPUTE_REPORT.csv"))
rows = [[cell.strip() for cell in row] for row in csv.reader(report.open())]
column = rows[0].index("Total Cycles")
print(json.dumps({"seconds": seconds, "cycles": [int(float(row[column])) for row in rows[1:]]}))
"""


def best(function, repeats):
    """Smallest CPU time of `repeats` calls, seconds."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return min(times)


def mean(function, repeats):
    """CPU time a call over many, for calls too short to time singly."""
    start = time.process_time()
    for _ in range(repeats):
        function()
    return (time.process_time() - start) / repeats


def grid(networks):
    return [cycles_grid(net.layers, ARRAYS, BATCHES, delta="zero_insert") for net in networks]


def loop(networks):
    """The same numbers one by one, in plain Python."""
    found = []
    for net in networks:
        for op in OPS:
            for array in ARRAYS:
                for batch in BATCHES:
                    for layer in net.layers:
                        total = 0
                        for g in gemms(layer, op, batch=batch, delta="zero_insert"):
                            folds = -(-g.K // array.rows) * -(-g.N // array.columns)
                            total += g.count * folds * (2 * array.rows + array.columns + g.M - 2)
                        found.append(total)
    return found


def bench_grid():
    networks = [network("vgg16"), network("resnet50")]
    fast, slow = grid(networks), loop(networks)
    equal = np.array_equal(np.concatenate([g[op].ravel() for g in fast for op in OPS]), slow)
    ours, theirs = best(lambda: grid(networks), 30), best(lambda: loop(networks), 3)
    print(f"grid of {len(slow)} costs (2 networks x 4 arrays x 5 batches x F, G, delta): {1e3 * ours:.2f} ms, "
          f"{theirs / ours:.0f} times as fast as a plain loop, {'equal' if equal else 'NOT EQUAL'}")
    return equal and ours <= GRID_MOST and theirs / ours >= LOOP_LEAST


def run_scalesim(python, folder):
    (folder / "scale.cfg").write_text(CONFIG)
    names = [line.split(",")[0] for line in ALEXNET.splitlines()]
    (folder / "layout.csv").write_text("".join(f"{name},{'1,' * 20}\n" for name in names))
    done = subprocess.run([python, "-c", RUN, str(folder)], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"SCALE-Sim did not run in {python}:\n{done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout.splitlines()[-1])


def bench_scalesim(python):
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "alexnet.csv").write_text(ALEXNET)
        shapes = [layer.shape for layer in read_topology(Path(name) / "alexnet.csv").layers]
        theirs = run_scalesim(python, Path(name))

    def ours():
        return cycles_grid(shapes, [Array(128, 128)], [1], ops=("F",), convention="scalesim")["F"][0, 0]

    seconds = mean(ours, 2000)
    equal = ours().tolist() == theirs["cycles"]
    ratio = theirs["seconds"] / seconds
    print(f"AlexNet, ws 128x128: {1e6 * seconds:.0f} us against {theirs['seconds']:.1f} s of CPU time, "
          f"{ratio:.0f} times as fast as SCALE-Sim 3.0.0 without traces, {'equal' if equal else 'NOT EQUAL'}: "
          f"{sum(theirs['cycles'])} cycles")
    return equal and ratio >= SCALESIM_LEAST


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scalesim", metavar="PYTHON", help="interpreter of an environment with SCALE-Sim 3.0.0")
    python = parser.parse_args().scalesim
    passed = bench_grid()
    passed &= bench_scalesim(python) if python else True
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
