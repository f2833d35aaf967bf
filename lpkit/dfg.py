"""Data-flow graphs: make one, bound its iteration period, look for cutsets, slow it down, unfold it.

The type comes from `lpkit.flowgraph`, the backprop graphs from `lpkit.backprop`; all of their public names are public
names of this module too.
"""

from lpkit.backprop import backprop_dfg, operation, stages_after
from lpkit.bounds import Bound, iteration_bound
from lpkit.flowgraph import DFG, CriticalPath, Edge, critical_path, execution_order

__all__ = [
    "Bound", "DFG", "CriticalPath", "Edge", "backprop_dfg", "critical_path", "execution_order", "iteration_bound", "operation", "stages_after",
]  # fmt: skip
