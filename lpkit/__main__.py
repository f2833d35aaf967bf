"""The `lpkit` command: costs and plans anywhere; figures, check, claims and list in the repository.

Every command takes ``--json``. Exit status: 0 done, 1 a check or a notebook failed, 2 wrong input (one line, no
traceback).
"""

import re
import sys
import warnings
from contextlib import contextmanager

import click

from lpkit.command_data import data
from lpkit.command_options import cost_options, reader_options
from lpkit.command_plan import plan
from lpkit.command_text import AS_JSON, dump, records, show, width

__all__ = ["main"]

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
    from lpkit.display import readable
    from lpkit.sources import array_of, layer_costs, topology_report

    choice(op, "op", ("F", "G", "delta", "all"))
    report = topology_report(source, **choices) if op in ("F", "all") else None
    if report is not None:
        array = array_of(choices["array"], choices["config"], None)
        return show(report, as_json, head={"network": source, "array": f"{array.rows}x{array.columns}"})
    found = layer_costs(source, **choices)
    frame = found.to_frame().drop(columns=["first_consumer", "shared_input"])
    frame = frame if op == "all" else frame[["layer", op]]
    totals = {"F": found.F.sum(), "G": found.G.sum(), "delta": found.delta.sum(), "total": found.total}
    foot = [f"total: {', '.join(f'{n} {readable(v)}' for n, v in totals.items() if op in (n, 'all'))} {found.unit}"]
    show(frame, as_json, head={"network": found.name, "unit": found.unit, "source": found.source}, foot=foot)


@cli.command()
@click.argument("graph", metavar="GRAPH.json|NETLIST.bench")
@click.option("--period", default="min", show_default=True, metavar="min|T",
              help="Shortest clock period, or at most T, in the unit of the node times; T may be a fraction.")
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
        return dump(found | {"lags": lags})
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
    show(pd.DataFrame(rows), as_json)


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
        dump(batch.to_dict())
    if not pairs and not out and batch.exit_code == 0:
        if not ids or "00_index" in ids:
            refresh()
        if not ids and not as_json:
            click.echo(table().text(width()))
    return batch.exit_code


@cli.command()
@click.option("-j", "--jobs", default=2, show_default=True, metavar="N", help="Notebooks at a time (1 or 2).")
@AS_JSON
def check(jobs, as_json):
    """Re-run every notebook into a scratch folder and compare with what is committed."""
    from lpkit.run import check as compare

    result = compare(jobs=jobs)
    if as_json:
        dump(result.to_dict())
    return result.exit_code


@cli.command()
@click.argument("item", required=False, metavar="[ID]")
@AS_JSON
def claims(item, as_json):
    """The verdict on every claim of the papers (or those of one notebook)."""
    from lpkit.claims import claims as table
    from lpkit.claims import verdicts

    if as_json:
        return dump(records(verdicts(item)))
    click.echo(table(item).text(width()))


cli.add_command(plan)
cli.add_command(data)

if __name__ == "__main__":
    sys.exit(main())
