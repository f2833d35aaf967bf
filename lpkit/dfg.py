"""Data-flow graphs: make one, bound its iteration period, look for cutsets, slow it down, unfold it.

The type comes from `lpkit.flowgraph`, backprop graphs from `lpkit.backprop`, the bound from `lpkit.bounds`, loops and
the textbook methods from `lpkit.loops`, slack and schedules from `lpkit.slack`, cutsets, slow-down and unfolding from
`lpkit.cutsets`; all of their public names are public names of this module too. Files are read by
`lpkit.interop.dfg_files` and `lpkit.interop.bench`.
"""

from lpkit.backprop import DEFAULT_TIMES, backprop_dfg, operation, stages_after
from lpkit.bounds import Bound, iteration_bound
from lpkit.cutsets import Cutset, cutset, slow, unfold
from lpkit.flowgraph import DFG, CriticalPath, Edge, critical_path, execution_order
from lpkit.loops import Loop, cycle_mean_bound, longest_path_matrix_bound, loops
from lpkit.slack import Schedule, modulo_schedule, slack

__all__ = [
    "Bound", "CriticalPath", "Cutset", "DEFAULT_TIMES", "DFG", "Edge", "Loop", "Schedule", "backprop_dfg",
    "critical_path", "cutset", "cycle_mean_bound", "execution_order", "iteration_bound", "longest_path_matrix_bound",
    "loops", "modulo_schedule", "operation", "slack", "slow", "stages_after", "unfold",
]  # fmt: skip
