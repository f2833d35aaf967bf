"""The `lpkit` command: costs and plans anywhere; figures, check, claims and list in the repository.

Every command takes ``--json``. Exit status: 0 done, 1 a check or a notebook failed, 2 wrong input (one line, no
traceback).
"""

import json
import re
import shutil
import sys
import warnings
from contextlib import contextmanager

import click

from lpkit.command_data import data
from lpkit.command_options import cost_options, limit_options, reader_options
from lpkit.partition import PLANNERS
from lpkit.schedule import SCHEDULES

__all__ = ["main"]

AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON for machines instead of text.")
NAMED = click.argument("source", metavar="NETWORK")
FILES = (".json", ".csv", ".txt", ".png", ".svg")


def main(arguments=None):
    """Run the command line; returns the exit status.

    Examples
    --------
    >>> main(["cost", "sample4", "--array", "0x32"])
    2
    """
    try:
        given = _each_export(sys.argv[1:] if arguments is None else arguments)
        with _warnings_in_a_line():
            status = cli.main(args=given, prog_name="lpkit", standalone_mode=False)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.Abort:
        return _fail("interrupted", 130)
    except click.UsageError as error:
        return _fail(f"{error.format_message()} See {error.ctx.command_path if error.ctx else 'lpkit'} -h")
    except click.ClickException as error:
        return _fail(error.format_message())
    except SystemExit:  # click's answer to a broken pipe: the reader has gone, nothing is wrong
        return 0
    except OSError as error:
        place = "cannot write what was found" if error.filename is None else repr(error.filename)
        return _fail(f"{place}: {error.strerror}" if error.strerror else error)
    except ValueError as error:
        return _fail(error)
    except (ArithmeticError, RecursionError, MemoryError) as error:
        return _fail(f"this cannot be computed here ({': '.join([type(error).__name__, *map(str, error.args[:1])])}); "
                     "use smaller sizes or a smaller file")
    return status if isinstance(status, int) else 0


@contextmanager
def _warnings_in_a_line():
    """Show what a library says to its caller as a person reads it."""
    with warnings.catch_warnings():
        warnings.simplefilter("default", UserWarning)
        warnings.showwarning = lambda message, *_, **__: click.echo(f"lpkit: warning: {message}", err=True)
        yield


def _each_export(arguments):
    """``--export a.json b.csv`` as ``--export a.json --export b.csv``: click's options take one value each.

    Examples
    --------
    >>> _each_export(["plan", "vgg16", "--export", "a.json", "b.csv", "-P", "4"])
    ['plan', 'vgg16', '--export', 'a.json', '--export', 'b.csv', '-P', '4']
    """
    spread, names = [], 0  # names: file names met in a row since --export; the network comes first
    for argument in arguments:
        names = 1 if argument == "--export" else names + 1 if names and argument.endswith(FILES) else 0
        spread += ["--export", argument] if names > 2 and len(spread) > 1 and spread[1][0] != "-" else [argument]
    return spread


def _fail(message, status=2):
    click.echo("lpkit: " + _brief(" ".join(str(message).split())), err=True)
    return status


def _brief(line):
    """`line` with the middle left out of what is too long for an error: words that a file holds, numbers of 400 digits.

    Examples
    --------
    >>> _brief("batch is '" + "9" * 5000 + "'; it must be a number")
    "batch is '9999999999999999999999999999999...9999999999999999999'; it must be a number"
    """
    line = re.sub(r"(?<!\S)(\S{32})\S{400,}(\S{21})(?!\S)", r"\1...\2", line)
    return line if len(line) <= 2000 else f"{line[:1200]} ... {line[-600:]}"


def _show(frame, as_json, *, head=None, lead=(), foot=()):
    """Print a table for people or a JSON object for machines."""
    from lpkit.display import Table

    if as_json:
        return _dump({**(head or {}), "rows": _records(frame)})
    lead = [*(f"{name}: {value}" for name, value in (head or {}).items()), *lead]
    for line in [*lead, Table(frame).text(_width()), *foot]:
        click.echo(line)


def _records(frame):
    """Rows as dicts; what is missing (NaN) is None, since JSON has no NaN."""
    rows = frame.to_dict("records")
    return [{name: None if value != value else value for name, value in row.items()} for row in rows]


def _width():
    return shutil.get_terminal_size((120, 24)).columns


def _dump(value):
    click.echo(json.dumps(value, indent=1, default=float))


@click.group(no_args_is_help=False, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="layerpipe-lpkit", prog_name="lpkit")
def cli():
    """Pipeline-parallel training: costed, planned and checked against its papers."""


@cli.command()
@NAMED
@reader_options
@cost_options
@click.option("--op", default="all", show_default=True, metavar="F|G|delta|all")
@AS_JSON
def cost(source, op, as_json, **choices):
    """Cycles and bytes of every layer of NETWORK (a name or a file) on a systolic array.

    A SCALE-Sim topology is reported on in SCALE-Sim's columns, unless a batch, a choice of the backward pass, another
    convention or --op G|delta is given.
    """
    from lpkit.checks import choice
    from lpkit.sources import DEFAULT_ARRAY, layer_costs, topology_report

    choice(op, "op", ("F", "G", "delta", "all"))
    report = topology_report(source, **choices) if op in ("F", "all") else None
    if report is not None:
        return _show(report, as_json, head={"network": source, "array": choices["array"] or DEFAULT_ARRAY})
    found = layer_costs(source, **choices)
    frame = found.to_frame().drop(columns=["first_consumer", "shared_input"])
    frame = frame if op == "all" else frame[["layer", op]]
    totals = {"F": found.F.sum(), "G": found.G.sum(), "delta": found.delta.sum(), "total": found.total}
    foot = [f"total: {', '.join(f'{n} {_number(v)}' for n, v in totals.items() if op in (n, 'all'))} {found.unit}"]
    _show(frame, as_json, head={"network": found.name, "unit": found.unit, "source": found.source}, foot=foot)


def _number(value):
    return f"{int(value):,}" if float(value).is_integer() else f"{float(value):.6g}"


@cli.command()
@NAMED
@click.option("-P", "--processors", metavar="N", help="[default: 4]")
@reader_options
@cost_options
@limit_options
@click.option("--planner", metavar="|".join(PLANNERS), help="[default: optimal]")
@click.option("--compare", is_flag=True, help="Print the period of every planner; ratio, reduction and gain are "
              "against PipeDream's planner.")
@click.option("--stages", "table", is_flag=True, help="Print the table of stages also where a plan.json is scheduled.")
@click.option("--schedule", metavar="|".join(SCHEDULES), help="Run the plan, and print the measures explained above. "
              "Other common names, such as 1F1B (one_f_one_b) or ZB-H1 (zero_bubble), are taken, in any case.")
@click.option("--batches", metavar="N", help="Mini-batches of the schedule.  [default: 4 where it flushes; else 12, or "
              "half as many again as fill pipeline and stashes, if more: 4 x stages - 4 fill them (layerpipe, "
              "registered), or 2 x stages - 2 (1f1b, pipedream)]")
@click.option("--micro-batches", metavar="N", help="Of each mini-batch of a schedule that flushes, each with the "
              "plan's costs.  [default: 4 x stages]")
@click.option("--model", metavar="registered|1f1b", help="Of layerpipe: with S stages after a stage its gradients are "
              "2 S (registered) or S (1f1b) updates late.  [default: registered]")
@click.option("--delta-first", is_flag=True, default=None, help="All deltas of a stage before its first G, in "
              "one_f_one_b and interleaved; else layer by layer.")
@click.option("--stages-per-processor", metavar="N", help="Of interleaved: the plan has N stages for each processor.")
@click.option("--bandwidth", metavar="BYTES", help="Of each link: bytes a cycle, or in one unit of measured costs, "
              "such as a second. The planner holds the period of each link to it, or, with --schedule, sends of the "
              "schedule take that time; without it, they take none.")
@click.option("--latency", metavar="TIME", help="Of each send, added to bytes over bandwidth, in cycles or the unit "
              "of the costs.  [default: 0]")
@click.option("--ascii", "drawn", is_flag=True, help="Draw the schedule.")
@click.option("--width", metavar="N", help="Characters of a line of --ascii.  [default: the terminal's]")
@click.option("--clock", metavar="HZ", help="Cycles a second in trace.json; without it a cycle is shown as 1 us.")
@click.option("--export", "files", multiple=True, metavar="FILE...", help="Write files; names say what: plan.json, "
              "stages.csv (any other .json, .csv), graph.txt; with --schedule trace.json, schedule.csv, timeline.csv, "
              "and any .png or .svg, a Gantt chart.")
@AS_JSON
def plan(source, compare, table, schedule, drawn, width, clock, files, as_json, stages_per_processor, batches,
         micro_batches, model, delta_first, bandwidth, latency, sequence, dimension, batch_dimension, strict, **choices):
    """Split NETWORK over processors so that the slowest is as fast as can be.

    NETWORK is the name of a built-in network; a file: an ONNX model (.onnx), a network or SCALE-Sim topology (.csv), a
    graph.txt of PipeDream; or a plan.json that was exported before.

    Columns of a stage: layers, its first and last by name, and their count; load, its work in cycles or the unit of the
    costs; busy, the part of the period that this fills; shifted, the part of delta of those layers that the next stage
    computes; to next, what any pipeline sends over the boundary, activations there and errors back; added, what shifting
    delta sends beside that. --json and stages.csv hold the exact numbers of all of it.

    Measures of a schedule: period, the time of a mini-batch in the steady state; speedup, that of one processor over
    it; fill, until the first micro-batch is through, forward and back; drain, from the last F of the first layer to
    the end; latency, of the mini-batch in the middle, from its first F to its update; makespan, all of it; bubbles,
    the share of the makespan in which processors wait. in_flight and bytes are the most that a processor keeps.
    """
    from lpkit import plan_command as command
    from lpkit.exports import export, held
    from lpkit.plan_options import number
    from lpkit.plan_report import report_dict
    from lpkit.planfile import to_dict

    reading = {"sequence": sequence, "dimension": dimension, "batch_dimension": batch_dimension, "strict": strict}
    choices["bandwidth"] = bandwidth if schedule is None else None
    net, warned = command.opened(source, **reading)
    made = command.planned(source if net is None else net, stages_per_processor=stages_per_processor, **choices,
                           **(reading if net is None else {}))
    line = command.scheduled(made, schedule, stages_per_processor=stages_per_processor, batches=batches,
                             micro_batches=micro_batches, model=model, delta_first=delta_first, latency=latency,
                             bandwidth=None if schedule is None else bandwidth)  # fmt: skip
    width = _needs_schedule(line, drawn, width, clock, files)
    command.refuse_overwriting(source, files)
    pairs = [(str(path), held(path, line)) for path in
             export(made, files, timeline=line, channels=command.channels_of(net), clock=number(clock))]  # fmt: skip
    compared = command.compared(made) if compare else None
    told = report_dict(made, net, warned)
    if as_json:
        extra = {} if compared is None else {"compare": compared.to_dict("records")}
        extra |= {"files": dict(pairs)} if pairs else {}
        return _dump(to_dict(made) | told | extra | _timeline(line, width))
    whole = table or line is None or not command.is_plan(source)
    _show_plan(made, told, compared, line, width, whole)
    for path, words in pairs:
        click.echo(f"wrote {path}: {words}")


def _needs_schedule(line, drawn, width, clock, files):
    """Characters of a drawing, or None without one; raises if something is asked for that needs something else."""
    from lpkit.checks import whole_number
    from lpkit.plan_options import whole

    for option, given in (("--ascii", drawn), ("--clock", clock is not None)):
        if given and line is None:
            raise ValueError(f"{option} has no meaning without a schedule; give --schedule layerpipe or another")
    if width is not None and not drawn:
        raise ValueError("--width has no meaning without a drawing; give --ascii, or leave it out")
    if clock is not None and not any(name.endswith("trace.json") for name in files):
        raise ValueError("--clock has no meaning without a trace; give --export trace.json, or leave it out")
    if not drawn:
        return None
    fits = max(20, min(_width() - len(f"processor {line.stages} "), 10_000))
    return fits if width is None else whole_number(whole(width), "width", least=10, most=10_000)


def _timeline(line, width):
    """What ``--json`` adds of a timeline."""
    from lpkit.schedule_report import measures

    return {} if line is None else {"timeline": measures(line) | ({"ascii": line.ascii(width)} if width else {})}


def _show_plan(made, told, compared, line, width, table):
    """A plan, and its timeline if there is one, for people."""
    from lpkit.plan_command import one_line
    from lpkit.plan_report import plan_table

    head = f"{made.costs.name}: {made.planner.split()[0]}, {len(made.ends)} stages"
    click.echo(head if table else f"{head}, {one_line(made)}")
    if table:
        shared = line is not None and max(line.processors) < line.stages
        _show(plan_table(made), False, foot=_summary(made, told, ", with one for each stage" * shared))
    if compared is not None:
        _show_comparison(made, compared)
    if line is not None:
        _show_timeline(line, width)


def _show_comparison(made, compared):
    from lpkit.plan_options import lacking

    click.echo("period ratio, time reduction and throughput gain against PipeDream's planner:")
    foot = [f"{planner} does not know {', '.join(names)}" for planner, names in lacking(made).items()
            if planner in set(compared["planner"])]
    _show(compared, False, foot=foot)


def _show_timeline(line, width):
    from lpkit.schedule_report import processor_table, spoken

    _show(processor_table(line), False, foot=[line.ascii(width)] if width else [], lead=spoken(line))


def _summary(made, told, of=""):
    """What stands below the table of a plan."""
    unit = made.costs.unit
    lines = [f"period {_number(made.period)} {unit}, speedup {float(made.speedup):.4g} over one processor{of}"]
    if made.certificate is not None:
        lines.append(made.certificate.text)
    lines += [told["next"]["text"]] if told["next"] else []
    rests = [f"assumed: {sentence}" for sentence in told["assumptions"]]
    return lines + rests + [f"note: {note}" for note in made.notes]


@cli.command()
@click.argument("graph", metavar="GRAPH.json|NETLIST.bench")
@click.option("--period", default="min", show_default=True, metavar="min|T", help="Shortest clock period, or at most T, in the unit of the node times; T may be a fraction.")
@click.option("--registers", default=None, metavar="min", help="Also the fewest registers at that period.")
@AS_JSON
def retime(graph, period, registers, as_json):
    """Iteration bound and retiming of a data-flow graph: its shortest period, or the lags for a given one."""
    from lpkit.checks import choice
    from lpkit.graphfile import read_graph, retimed

    if registers is not None:
        choice(registers, "registers", ("min",))
    found, lags = retimed(read_graph(graph), period, fewest=registers == "min")
    if as_json:
        return _dump(found | {"lags": lags})
    for name, value in found.items():
        click.echo(f"{name}: {value}")
    moved = {node: lag for node, lag in lags.items() if lag}
    click.echo(f"lags: {', '.join(f'{node} {lag:+d}' for node, lag in moved.items()) or 'none'}")


@cli.command("list")
@AS_JSON
def list_(as_json):
    """Every table and figure with its notebook, and the claims each one checks."""
    import pandas as pd

    from lpkit.claims import read_claims
    from lpkit.run import notebook_ids, title

    claims = [claim.item for claim in read_claims()]
    rows = [{"id": name, "claims": claims.count(name), "title": title(name)} for name in notebook_ids()]
    _show(pd.DataFrame(rows), as_json)


@cli.command()
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("-p", "--parameter", "pairs", nargs=2, multiple=True, metavar="NAME VALUE", help="Set a parameter.")
@click.option("-j", "--jobs", default=2, show_default=True, metavar="N", help="Notebooks at a time (1 or 2).")
@click.option("--out", metavar="DIR", help="Write there instead of figures/ and data/results/.")
@click.option("--fresh", is_flag=True, help="Do not resume an interrupted batch.")
@click.option("--timeout", default=600.0, show_default=True, metavar="SECONDS", help="Allowed a cell.")
@AS_JSON
def figures(ids, pairs, jobs, out, fresh, timeout, as_json):
    """Execute notebooks (all without IDs); write their figures and results.

    A run of all prints the verdicts; one with 00_index counts them anew in README.md.
    """
    from lpkit.claims import claims as table
    from lpkit.readme import refresh
    from lpkit.run import run

    batch = run(list(ids) or None, parameters=dict(pairs), jobs=jobs, out=out, fresh=fresh, timeout=timeout)
    if as_json:
        _dump(batch.to_dict())
    if not pairs and not out and batch.exit_code == 0:
        if not ids or "00_index" in ids:
            refresh()
        if not ids and not as_json:
            click.echo(table().text(_width()))
    return batch.exit_code


@cli.command()
@click.option("-j", "--jobs", default=2, show_default=True, metavar="N", help="Notebooks at a time (1 or 2).")
@AS_JSON
def check(jobs, as_json):
    """Re-run every notebook into a scratch folder and compare with what is committed."""
    from lpkit.run import check as compare

    result = compare(jobs=jobs)
    if as_json:
        _dump(result.to_dict())
    return result.exit_code


@cli.command()
@click.argument("item", required=False, metavar="[ID]")
@AS_JSON
def claims(item, as_json):
    """The verdict on every claim of the papers (or those of one notebook)."""
    from lpkit.claims import claims as table
    from lpkit.claims import verdicts

    if as_json:
        return _dump(_records(verdicts(item)))
    click.echo(table(item).text(_width()))


cli.add_command(data)

if __name__ == "__main__":
    sys.exit(main())
