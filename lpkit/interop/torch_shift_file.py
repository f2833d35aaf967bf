"""What the schedule CSV of torch cannot say of a plan, as JSON beside it: stages, placement, and the shifted delta.

A runtime that is to compute delta'' on the next stage needs to know of which layer and how much. Delta is split by
input channels: the first ones stay (delta'), the others move (delta''), in whole channels.
Source: LayerPipe (ICCAD 2021), section IV and Fig. 5(d).
"""

from pathlib import Path

from lpkit.checks import shown, write_all
from lpkit.interop.torch_schedule import is_flushed, to_torch_csv, torch_actions
from lpkit.jsonfile import exact, to_text
from lpkit.networks import MatMul
from lpkit.plans import plain, ratio
from lpkit.timeline import moved_work

__all__ = ["SCHEMA", "beside", "input_channels", "shift_text", "to_shift", "write_torch_schedule"]

SCHEMA = "lpkit-torch-shift-1"
LOST = ("sends and receives: torch adds them", "delta'' of each entry of 'shift': the actions I of its layer's stage "
        "stand for delta' alone, and the next stage computes the rest beside its own I",
        "the order of layers inside a stage: torch runs a stage as a whole",
        "on stage 0 I does nothing and W all of the backward")  # fmt: skip
FLUSHED = ("the updates after each mini-batch, and the weight versions they make: torch updates once, at the end of a "
           "step")  # fmt: skip


def input_channels(network):
    """{layer: input channels} of a `lpkit.networks.Network`, for `to_shift`; no entry for a product of two tensors.

    Examples
    --------
    >>> from lpkit.networks import network
    >>> input_channels(network("sample4"))["conv2"]
    32
    >>> input_channels(network("bert_base"))["block1.fc2"]
    3072
    """
    return {layer.name: layer.op.K if isinstance(layer.op, MatMul) else layer.in_shape[0]
            for layer in network.layers if layer.weights}


def to_shift(timeline, *, channels=None):
    """The document: stages with their layers and ranks, and one entry for each layer whose delta is shared.

    Parameters
    ----------
    timeline : Timeline
    channels : dict of layer name -> input channels, optional
        See `input_channels`. Without it ``channels`` of an entry is null, and bytes are those of the true fraction.

    Returns
    -------
    dict
        ``shift``: layer, from_stage, to_stage (both from 0), fraction (exact, as text) and fraction_number,
        input_channels, moved_channels (the last ones, rounded to whole channels), moved_fraction, and bytes of the
        weights that go up once a step and of the result that comes back for each micro-batch.

    Raises
    ------
    ValueError
        As `torch_actions`, or if a layer has no whole number of channels.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> from lpkit.plans import Plan
    >>> from lpkit.schedule import schedule
    >>> chain = Costs.from_times([2, 2], 2, [2, 2], unit="cycles", weight_bytes=90, input_bytes=300)
    >>> made = Plan("by hand", chain, 2, ends=(1, 2), moved=((1, 1, 2, 1),))
    >>> to_shift(schedule(made, "gpipe"), channels={"layer1": 9})["shift"]  # doctest: +NORMALIZE_WHITESPACE
    [{'layer': 'layer1', 'from_stage': 0, 'to_stage': 1, 'fraction': '1/2', 'fraction_number': 0.5, 'input_channels': 9,
      'moved_channels': 4, 'moved_fraction': '4/9', 'weight_bytes': 40, 'result_bytes': 133}]
    """
    rows, plan = torch_actions(timeline), timeline.plan
    shift = [_entry(plan.costs, layer, plan.stage_of(layer), *move, channels)
             for layer, move in sorted(moved_work(plan).items())]  # fmt: skip
    stages = [{"stage": k, "rank": home - 1, "layers": [plan.costs.layers[l - 1] for l in layers]}
              for k, (layers, home) in enumerate(zip(plan.stages, timeline.processors))]  # fmt: skip
    return {"schema": SCHEMA, "costs": plan.costs.name, "planner": plan.planner, "schedule": timeline.schedule,
            "micro_batches": 1 + max(a.micro_batch for row in rows for a in row), "stages": stages, "shift": shift,
            "not_in_the_csv": [*LOST, *(() if is_flushed(timeline) else (FLUSHED,))]}  # fmt: skip


def _entry(costs, layer, home, target, amount, channels):
    """The shift of one layer."""
    name, fraction = costs.layers[layer - 1], ratio(amount, costs.delta[layer - 1].item())
    count = None if channels is None else channels.get(name)
    if count is not None and (not isinstance(count, int) or count < 1):
        raise ValueError(f"channels of layer {shown(name)} is {shown(count)}; it must be a whole number of at least 1")
    moved = None if count is None else round(fraction * count)
    rounded = fraction if count is None else plain(ratio(moved, count))
    weights, inputs = (int(column[layer - 1]) for column in (costs.weight_bytes, costs.input_bytes))
    return {"layer": name, "from_stage": home - 1, "to_stage": target - 1, "fraction": exact(fraction),
            "fraction_number": float(fraction), "input_channels": count, "moved_channels": moved,
            "moved_fraction": exact(rounded), "weight_bytes": round(rounded * weights),
            "result_bytes": round(rounded * inputs)}  # fmt: skip


def shift_text(timeline, *, channels=None):
    """The text of the file.

    Raises
    ------
    ValueError
        As `to_shift`.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> from lpkit.plans import Plan
    >>> from lpkit.schedule import schedule
    >>> plan = Plan("by hand", Costs.from_times([2, 2], 2, [0, 2], unit="cycles"), 2, ends=(1, 2))
    >>> print(shift_text(schedule(plan, "gpipe", micro_batches=1)).splitlines()[1])
     "schema": "lpkit-torch-shift-1",
    """
    return to_text(to_shift(timeline, channels=channels)) + "\n"


def beside(path):
    """Where the file of the CSV at `path` lies.

    Examples
    --------
    >>> beside("schedule.csv").name
    'schedule.shift.json'
    """
    return Path(path).with_suffix(".shift.json")


def write_torch_schedule(timeline, path, *, channels=None, bubbles=False):
    """Write the CSV to `path` and the JSON beside it, both or none; returns both paths.

    Parameters
    ----------
    timeline : Timeline
    path : path
        Of the CSV.
    channels, bubbles
        As for `to_shift` and `lpkit.interop.torch_schedule.to_torch_csv`.

    Raises
    ------
    ValueError
        As `to_shift`, or if one of them cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> import lpkit as lp
    >>> line = lp.schedule(lp.plan(lp.costs("sample4"), 2), "gpipe")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path.name for path in write_torch_schedule(line, f"{folder}/schedule.csv")]
    ['schedule.csv', 'schedule.shift.json']
    """
    texts = {Path(path): to_torch_csv(timeline, bubbles=bubbles), beside(path): shift_text(timeline, channels=channels)}
    write_all(texts)
    return tuple(texts)
