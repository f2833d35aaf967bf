"""Retiming of data-flow graphs: legal moves of delays, the shortest period, the fewest registers, LayerPipe's derivation.

The moves come from `lpkit.moves`, the shortest period from `lpkit.min_period`; all of their public names are public
names of this module too.
"""

from lpkit.min_period import PeriodCertificate, Retiming, min_period, verify_min_period
from lpkit.moves import delay_gradients, move, pipeline, retime

__all__ = [
    "PeriodCertificate", "Retiming", "delay_gradients", "min_period", "move", "pipeline", "retime", "verify_min_period",
]  # fmt: skip
