"""Retiming of data-flow graphs: legal moves, the shortest period, the fewest registers, LayerPipe's derivation.

The moves come from `lpkit.moves`, the shortest period from `lpkit.min_period`, the fewest registers from
`lpkit.min_registers`, the derivation of a pipeline from `lpkit.derivation`, what it must keep from `lpkit.stash`; all
of their public names are public names of this module too.
"""

from lpkit.derivation import Step, derive, split_delta, stage_lags
from lpkit.min_period import Retiming, min_period, verify_min_period
from lpkit.min_registers import RegisterCertificate, min_registers, register_cost, verify_min_registers
from lpkit.moves import delay_gradients, move, pipeline, retime
from lpkit.period_proofs import PeriodCertificate
from lpkit.stash import Stash, smallest_delays, staleness, stash, tensor_bytes

__all__ = [
    "PeriodCertificate", "RegisterCertificate", "Retiming", "Stash", "Step", "delay_gradients", "derive", "min_period",
    "min_registers", "move", "pipeline", "register_cost", "retime", "smallest_delays", "split_delta", "stage_lags",
    "staleness", "stash", "tensor_bytes", "verify_min_period", "verify_min_registers",
]  # fmt: skip
