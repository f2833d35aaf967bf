"""lpkit: pipeline-parallel training derived, costed, planned and checked against its papers.

The vocabulary, in the order in which one thing is made from another:

Network     layers (`Conv`, `Dense`, ...) as a graph; built in by name: ``network("vgg16")``; your own by `read_csv`,
            ``read_onnx("model.onnx")`` or ``read_torch(module, sample)``
Array       a systolic array, rows x columns and what stays in place: ``Array(64, 64, "ws")``
Costs       cycles of F, G and delta, and bytes, one row a layer: ``costs("vgg16", Array(64, 64), batch=32)``
Plan        layers on stages and the delta work that moves up a stage: ``plan(costs, processors=4)``
LayerGraph  the layers of a network that branches, for ``optimal_graph(layer_graph(network, costs), processors=4)``
Timeline    which stage works on what from when to when: ``schedule(plan, "layerpipe", batches=12)``
Reading     a named set of the modelling choices a paper leaves open: ``READINGS["closest"]``
sweep       all of this over a grid, as a tidy table
DFG         a data-flow graph with delays, as ``backprop_dfg(4)``; `lpkit.dfg` and `lpkit.retiming` bound and retime it
claims      what the papers say, what comes out here, and the verdict

Examples
--------
>>> import lpkit as lp
>>> cost = lp.costs("vgg16", lp.Array(64, 64), batch=32)
>>> best = lp.plan(cost, processors=4)
>>> f"{float(best.speedup):.2f} of 4"
'3.75 of 4'
"""

from lpkit.claims import claims, read_claims, verdict, verdicts
from lpkit.costs import READINGS, Costs, Reading, costs, reading
from lpkit.dfg import DFG, backprop_dfg, iteration_bound
from lpkit.display import Table
from lpkit.layer_graph import LayerGraph
from lpkit.network_graph import layer_graph
from lpkit.networks import (
    NETWORKS, Activation, Add, BatchNorm, Concat, Conv, ConvTranspose, Dense, Flatten, GlobalPool, Layer, Network,
    Node, Pool, network, read_csv, write_csv,
)  # fmt: skip
from lpkit.optimal_graph import optimal_graph
from lpkit.partition import (
    PLANNERS, Certificate, Plan, algorithm1, check_plan, communication, equal_layers, optimal, pipedream, plan,
    verify_optimal,
)  # fmt: skip
from lpkit.list_schedule import list_schedule
from lpkit.plan_reader import read_plan
from lpkit.planfile import stage_table, write_plan
from lpkit.priorities import priorities
from lpkit.publish import publish
from lpkit.reconstruction import sample_candidates
from lpkit.retiming import derive, min_period, min_registers, retime
from lpkit.run import notebook_ids, title
from lpkit.schedule import SCHEDULES, hand_made, schedule
from lpkit.sensitivity import SENSITIVITY_VALUES, sensitivity, sensitivity_summary
from lpkit.summary import flat_from, gains, saturation, speedup_summary
from lpkit.sweep import sweep
from lpkit.systolic import Array, Gemm, cycles, gemm_cycles, gemms, report
from lpkit.timeline import Timeline

__all__ = [
    "Activation", "Add", "Array", "BatchNorm", "Certificate", "Concat", "Conv", "ConvTranspose", "Costs", "DFG",
    "Dense", "Flatten", "Gemm", "GlobalPool", "Layer", "LayerGraph", "NETWORKS", "Network", "Node", "PLANNERS",
    "Plan", "Pool", "READINGS", "Reading", "SCHEDULES", "SENSITIVITY_VALUES", "Table", "Timeline", "algorithm1",
    "backprop_dfg", "check_plan", "claims", "communication", "costs", "cycles", "derive", "equal_layers", "explore",
    "flat_from", "gains", "gemm_cycles", "gemms", "hand_made", "iteration_bound", "layer_graph", "list_schedule",
    "min_period", "min_registers", "network", "notebook_ids", "optimal", "optimal_graph", "pipedream", "plan",
    "plots", "priorities", "publish", "read_claims", "read_csv", "read_onnx", "read_plan", "read_torch", "reading",
    "report", "retime", "sample_candidates", "saturation", "schedule", "sensitivity", "sensitivity_summary",
    "speedup_summary", "stage_table", "sweep", "title", "verdict", "verdicts", "verify_optimal", "write_csv",
    "write_plan",
]  # fmt: skip


_READERS = {"read_onnx": "lpkit.interop.onnx", "read_torch": "lpkit.interop.torch_model"}


def __getattr__(name):
    """What is imported on first use: matplotlib takes longer than everything else here, and few read model files."""
    import importlib

    if name in ("explore", "plots"):
        return importlib.import_module(f"lpkit.{name}")
    if name in _READERS:
        return getattr(importlib.import_module(_READERS[name]), name)
    raise AttributeError(f"module 'lpkit' has no attribute {name!r}")


def __dir__():
    return [*__all__, "__all__", "__doc__", "__file__", "__name__", "__path__"]
