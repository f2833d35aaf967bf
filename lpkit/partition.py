"""Planners: layers onto the stages of a pipeline. Costs in, a `Plan` out.

`equal_layers` counts layers, `pipedream` balances their work, `algorithm1` is the greedy of the paper, `optimal` is the
least period that any plan with shared deltas can have, with a certificate.
Source: LayerPipe (ICCAD 2021), section IV; PipeDream (SOSP 2019), section 3.1.
"""

from lpkit.algorithm1 import algorithm1
from lpkit.chains import check_processors
from lpkit.checks import choice, shown
from lpkit.costs import Costs
from lpkit.optimal import optimal, straight
from lpkit.plans import Certificate, Communication, Plan, check_plan, communication
from lpkit.proofs import verify_optimal

__all__ = ["Certificate", "Communication", "PLANNERS", "Plan", "algorithm1", "check_plan", "communication",
           "equal_layers", "optimal", "pipedream", "plan", "verify_optimal"]


def equal_layers(costs, processors):
    """Plan with as equal a number of layers a stage as can be; the first stages take one more where it does not divide.

    Raises
    ------
    ValueError
        If `processors` is not a whole number from 1 to the number of layers.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> equal_layers(Costs.from_times([5, 1, 1, 1, 1], 0, 0, unit="cycles"), 2).loads
    (7, 2)
    """
    processors = check_processors(costs, processors)
    size, more = divmod(len(costs), processors)
    return Plan("equal_layers", costs, processors, tuple(size * k + min(k, more) for k in range(1, processors + 1)))


def pipedream(costs, processors, *, bandwidth=None, memory=None, together=None, speeds=None, replicas=None):
    """Plan with the least period that whole layers allow: PipeDream's straight pipeline, exact; also its replicas.

    Among the partitions with the least period it takes the fewest stages, then the lowest cuts; with `speeds` or
    `replicas` as `optimal` does.

    Parameters
    ----------
    costs : Costs
    processors : int
        1 to the number of layers.
    bandwidth : number, optional
        Bytes of a link in one unit of time: a cut costs twice its bytes (activation there, error back) over the
        bandwidth, beside the stages, as with PipeDream's ``--activation_compression_ratio 1``. `Plan.links` holds it.
    memory : number of bytes, optional
        Of a stage. The n-th stage from the end holds n versions of its weights and of the inputs of its layers
        (PipeDream's own test counts one version less, so that it passes any plan for the last stage).
    together, speeds, replicas
        As in `optimal`; ``replicas=True`` is PipeDream's planner without ``--straight_pipeline``, on a chain.

    Raises
    ------
    ValueError
        If an argument is out of range, or no plan fits the memory.

    References
    ----------
    Narayanan et al., PipeDream (SOSP 2019), section 3.1.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> chain = Costs.from_times([4, 2, 2, 3], 0, 0, unit="cycles", output_bytes=10)
    >>> pipedream(chain, 3).ends, pipedream(chain, 3).period, pipedream(chain, 3, bandwidth=2).period
    ((1, 3, 4), 4, 10)
    """
    return straight(costs, processors, bandwidth=bandwidth, memory=memory, together=together, speeds=speeds,
                    replicas=replicas)  # fmt: skip


PLANNERS = {"equal_layers": equal_layers, "pipedream": pipedream, "algorithm1": algorithm1, "optimal": optimal}


def plan(costs, processors, planner="optimal", **options):
    """Plan by the planner of that name: ``equal_layers``, ``pipedream``, ``algorithm1`` or ``optimal``.

    `options` are the keyword options of that function. Algorithm 1 takes the printed steps literally unless
    ``mode="strict"`` is given; `lpkit.sweep` gives it.

    Raises
    ------
    ValueError
        If `costs` are no `Costs`, if there is no such planner, or as the planner does.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> plan(Costs.from_times([4, 2, 2], 0, [0, 0, 2], unit="cycles"), 2, "pipedream").loads
    (4, 6)
    """
    if not isinstance(costs, Costs):
        name = shown(costs) if isinstance(costs, str) else "network"
        raise ValueError(f"costs is {shown(costs)}; it must be the costs of its layers: give lp.costs({name})")
    if planner == "optimal_graph":
        raise ValueError("the planner 'optimal_graph' needs the graph of the layers; give "
                         f"lp.optimal_graph(lp.layer_graph(network, costs), {shown(processors)})")
    return PLANNERS[choice(planner, "planner", tuple(PLANNERS))](costs, processors, **options)
