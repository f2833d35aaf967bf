"""Options of the commands ``lpkit cost`` and ``lpkit plan``, in groups that a command takes as decorators."""

import click

from lpkit.interop.pipedream_split import SPLITS
from lpkit.systolic import BATCHINGS, CONVENTIONS, DATAFLOWS, DELTAS, FOLD_OVERLAPS, G_FORMS

__all__ = ["cost_options", "limit_options", "reader_options"]

READERS = [
    click.option("--sequence", metavar="N", help="Tokens a sample of a built-in transformer.  [default: as published]"),
    click.option("--dimension", multiple=True, metavar="NAME=SIZE", help="Size of a dynamic dimension of an ONNX "
                 "model, by its name; may be repeated."),
    click.option("--batch-dimension", metavar="N|none", help="Which dimension of the inputs of an ONNX model counts "
                 "samples.  [default: 0]"),
    click.option("--strict", is_flag=True, help="Refuse an ONNX model with operators whose work is not counted."),
]
COSTS = [
    click.option("--array", metavar="ROWSxCOLUMNS", help="[default: 32x32]"),
    click.option("--config", metavar="FILE.cfg", help="Array and dataflow of a SCALE-Sim config, instead of --array."),
    click.option("--batch", metavar="N", help="Samples a mini-batch.  [default: 32]"),
    click.option("--reading", "read", metavar="NAME", help="Set of modelling choices: plain or closest (to the paper); "
                 "the options below replace single ones.  [default: plain]"),
    click.option("--dataflow", metavar="|".join(DATAFLOWS), help="What stays in place: weights, outputs, inputs."),
    click.option("--convention", metavar="|".join(CONVENTIONS),
                 help="How cycles are counted: exactly, or as SCALE-Sim prints them."),
    click.option("--fold-overlap", metavar="|".join(FOLD_OVERLAPS),
                 help="Whether the next weights load while the last fold computes."),
    click.option("--delta", metavar="|".join(DELTAS), help="How delta becomes a Gemm."),
    click.option("--g-form", "G", metavar="|".join(G_FORMS), help="What streams in G: a, the input; b, delta."),
    click.option("--batching", metavar="|".join(BATCHINGS), help="The batch inside one Gemm, or a Gemm an image."),
    click.option("--layers", metavar="all|convolutions|main_path", help="What counts; main_path: no projections."),
    click.option("--first-layer-delta/--no-first-layer-delta", default=None,
                 help="Count the gradient of the network's input."),
    click.option("--bytes", "bytes_per_element", type=float, help="Bytes an element.  [default: 4]"),
    click.option("--split-backward", metavar="|".join((*SPLITS, "NUMBER")), help="Of a graph.txt: how much of a "
                 "measured backward time is delta: half, what exceeds forward, as the cycles of its product on --array,"
                 " or that share.  [default: half]"),
]
LIMITS = [
    click.option("--memory", metavar="BYTES", help="Of a stage: versions of its weights and of the inputs of its "
                 "layers have to fit."),
    click.option("--together", multiple=True, metavar="FIRST:LAST", help="Layers, by name or number, that stay on one "
                 "stage; may be repeated."),
    click.option("--speeds", metavar="S,S,...", help="Speed of each processor, in the order of the stages."),
    click.option("--replicas", is_flag=True, help="Let several processors share the samples of a stage."),
    click.option("--granularity", metavar="TILES", help="Equal tiles of each delta, of which only whole ones move: one "
                 "number, or one a layer with commas between."),
    click.option("--threshold", metavar="BYTES", help="A delta whose layer has more bytes of weights does not move."),
    click.option("--residual", metavar="consumer|sum_site", help="sum_site: no delta moves whose result is one term of "
                 "a sum."),
]


def _with(options, command):
    for option in reversed(options):
        command = option(command)
    return command


def reader_options(command):
    """How a network is read.

    Examples
    --------
    >>> [option.name for option in reader_options(click.Command("show")).params]
    ['strict', 'batch_dimension', 'dimension', 'sequence']
    """
    return _with(READERS, command)


def cost_options(command):
    """The modelling choices, shared by `cost` and `plan`.

    Examples
    --------
    >>> [option.name for option in cost_options(click.Command("show")).params][-3:]
    ['batch', 'config', 'array']
    """
    return _with(COSTS, command)


def limit_options(command):
    """What a plan has to keep to, for the planners that know such a limit (`lpkit.plan_options.LIMITS`).

    Examples
    --------
    >>> [option.name for option in limit_options(click.Command("show")).params][-3:]
    ['speeds', 'together', 'memory']
    """
    return _with(LIMITS, command)
