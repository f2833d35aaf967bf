"""The command ``lpkit plan``: its options, and what it prints of a plan and its timeline."""

import click

from lpkit import command_text
from lpkit.command_options import cost_options, limit_options, reader_options
from lpkit.command_text import AS_JSON, dump, show
from lpkit.partition import PLANNERS
from lpkit.schedule import SCHEDULES

__all__ = ["plan"]


@click.command()
@click.argument("source", metavar="NETWORK")
@click.option("-P", "--processors", metavar="N", help="[default: 4]")
@reader_options
@cost_options
@limit_options
@click.option("--planner", metavar="|".join((*PLANNERS, "optimal_graph")), help="optimal_graph: over all orders of the "
              "layers of a network that branches, not only the one they are in.  [default: optimal]")
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
              "schedule take that time (to plan with it too, export a plan.json with it and schedule that); without "
              "it, they take none.")
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
         micro_batches, model, delta_first, bandwidth, latency, sequence, dimension, batch_dimension, strict,
         **choices):
    """Split NETWORK over processors so that the slowest is as fast as can be.

    NETWORK is the name of a built-in network; a file: an ONNX model (.onnx), a network or SCALE-Sim topology (.csv), a
    graph.txt of PipeDream; or a plan.json that was exported before.

    Columns of a stage: layers, its first and last by name, and their count; load, its work in cycles or the unit of the
    costs; where processors differ, which one, its speed or its replicas, and the time of the load there; busy, the part
    of the period that this fills; shifted, the part of delta of those layers that the next stage computes; to next,
    what any pipeline sends over the boundary, activations there and errors back; added, what shifting delta sends
    beside that: weights there and results back (the paper counts the weights alone). --json and stages.csv hold the
    exact numbers of all of it, additional_bytes of a stage as the paper counts them.

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
    made, graph = command.planned_of(source if net is None else net, stages_per_processor=stages_per_processor,
                                     **choices, **(reading if net is None else {}))
    line = command.scheduled(made, schedule, stages_per_processor=stages_per_processor, batches=batches,
                             micro_batches=micro_batches, model=model, delta_first=delta_first, latency=latency,
                             bandwidth=None if schedule is None else bandwidth)  # fmt: skip
    width = _needs_schedule(line, drawn, width, clock, files)
    command.refuse_overwriting(source, files)
    pairs = [(str(path), held(path, line)) for path in
             export(made, files, timeline=line, channels=command.channels_of(net), clock=number(clock))]  # fmt: skip
    compared = command.compared(made, graph) if compare else None
    told = report_dict(made, net, warned, graph=graph, grows=stages_per_processor is None,
                       sends=schedule is not None and bandwidth is not None)
    if as_json:
        extra = {} if compared is None else {"compare": compared.to_dict("records")}
        extra |= {"files": dict(pairs)} if pairs else {}
        return dump(to_dict(made) | told | extra | _timeline(line, width))
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
    fits = max(20, min(command_text.width() - len(f"processor {line.stages} "), 10_000))
    return fits if width is None else whole_number(whole(width), "width", least=10, most=10_000)


def _timeline(line, width):
    """What ``--json`` adds of a timeline."""
    from lpkit.schedule_report import measures

    return {} if line is None else {"timeline": measures(line) | ({"ascii": line.ascii(width)} if width else {})}


def _show_plan(made, told, compared, line, width, table):
    """A plan, and its timeline if there is one, for people."""
    from lpkit.display import counted
    from lpkit.plan_command import idle, one_line
    from lpkit.plan_report import plan_table

    shared = line is not None and max(line.processors) < line.stages
    rest = "" if shared else idle(made)
    head = f"{made.costs.name}: {made.planner.split()[0]}, {counted(len(made.ends), 'stage')}{rest}"
    click.echo(head if table else f"{head}, {one_line(made)}")
    if table:
        show(plan_table(made), False, foot=_summary(made, told, ", with one for each stage" * shared))
    if compared is not None:
        _show_comparison(made, compared)
    if line is not None:
        _show_timeline(line, width)


def _show_comparison(made, compared):
    from lpkit.plan_options import lacking

    click.echo("period ratio, time reduction and throughput gain against PipeDream's planner:")
    foot = [f"{planner} does not know {', '.join(names)}" for planner, names in lacking(made).items()
            if planner in set(compared["planner"])]
    show(compared, False, foot=foot)


def _show_timeline(line, width):
    from lpkit.schedule_report import processor_table, spoken

    show(processor_table(line), False, foot=[line.ascii(width)] if width else [], lead=spoken(line))


def _summary(made, told, of=""):
    """What stands below the table of a plan."""
    from lpkit.display import readable

    unit = made.costs.unit
    lines = [f"period {readable(made.period)} {unit}, speedup {float(made.speedup):.4g} over one processor{of}"]
    if made.certificate is not None:
        lines.append(made.certificate.text)
    lines += [told["order"]["text"]] if told["order"] else []
    lines += [told["next"]["text"]] if told["next"] else []
    rests = [f"assumed: {sentence}" for sentence in told["assumptions"]]
    return lines + rests + [f"note: {note}" for note in made.notes]
