"""``moldau streams switch``: a new version goes on where an old one ended, with its state.

Invariant: without ``--execute`` nothing is changed. An old version that runs is refused, not stopped.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from moldau.cli.commands.programs.streams_run import home_option, one_line
from moldau.cli.output import note, print_table
from moldau.cli.session import pairs, servers_option

if TYPE_CHECKING:
    from moldau.pipelines.directory import PipelineDirectory
    from moldau.streams.switches import SwitchPlan


@click.command(short_help="Let a new version go on where an old one ended, with its state.")
@click.argument("old", metavar="APPLICATION")
@click.argument("file", metavar="FILE")
@servers_option
@click.option("--name", metavar="ID", help="The new application id [default: the name of FILE].")
@click.option("--old-file", metavar="FILE", help="The old program [default: the one that was run here].")
@click.option("--store", "stores", multiple=True, metavar="NEW=OLD", help="A renamed store; repeatable.")
@click.option("--empty", multiple=True, metavar="STORE", help="A store that begins empty; repeatable.")
@click.option("--execute", is_flag=True, help="Do it; without this, show what would be done.")
@click.option("--option", "options", multiple=True, metavar="KEY=VALUE", help="For TLS and SASL; repeatable.")
@home_option
def switch(
    old: str,
    file: str,
    bootstrap_server: str,
    name: str | None,
    old_file: str | None,
    stores: tuple[str, ...],
    empty: tuple[str, ...],
    execute: bool,
    options: tuple[str, ...],
    home: str | None,
) -> None:
    """Let the program of FILE take over from APPLICATION, which must be stopped.

    Stores go over by their names, if they are of the same kind with the same serdes and windows; anything
    else is refused with the reason. It happens in one transaction. The old application's topics stay.

    To go back: stop the new one, 'moldau streams reset OLD --execute', and switch from the new to the old.

    \b
    Examples:
      moldau streams switch word_count word_count_2.py
      moldau streams switch word_count word_count_2.py --store totals=counts --execute
    """
    with one_line():
        from moldau.pipelines.directory import PipelineDirectory
        from moldau.streams.runner.application import StreamsOptions
        from moldau.streams.runner.programs import program_of_file
        from moldau.streams.runner.running import streams_home
        from moldau.streams.switches import Switch, Version

        before = PipelineDirectory(streams_home(home), old)
        if before.is_running():
            raise click.ClickException(f"application {old} runs: 'moldau streams stop {old}' ends it")
        switching = Switch(
            Version(old, program_of_file(old_file or _file_of(before))),
            Version(name or Path(file).stem, program_of_file(file)),
            StreamsOptions(bootstrap_server, pairs(options, "--option")),
            renamed=pairs(stores, "--store"),
            empty=frozenset(empty),
            old_query_id=_query_id(before),
        )
        plan = switching.carry_out() if execute else switching.planned()
        _show(plan)
        plan.check()
        if execute:
            click.echo(f"{plan.new.application_id} goes on with its next run, where {old} ended")
        else:
            note("nothing was changed; --execute does it")


def _file_of(directory: "PipelineDirectory") -> str:
    state = directory.state()
    if state is None:
        raise click.ClickException(
            f"no application {directory.name} was run here: name its program with --old-file"
        )
    return state.file


def _query_id(directory: "PipelineDirectory") -> str | None:
    """Spark's id of the query, by which decisions of an earlier life are told apart."""
    found = sorted((directory.path / "checkpoints").glob("*/metadata"))
    return str(json.loads(found[0].read_text())["id"]) if len(found) == 1 else None


def _show(plan: "SwitchPlan") -> None:
    follow = plan.succession.stores
    rows = [(store, before, plan.rows.get(store, 0)) for store, before in follow.items()]
    rows += [(store, "(begins empty)", 0) for store in plan.succession.empty]
    print_table(["store", "follows", "rows>"], rows, title=plan.new.application_id)
    print_table(["partition", "from offset>"], [(str(tp), at) for tp, at in sorted(plan.offsets.items())])
    for store in plan.succession.left:
        click.echo(f"nothing takes over store {store}")
    for topic in plan.new_topics:
        click.echo(f"topic {topic} was not read before")
    for topic in plan.left_topics:
        click.echo(f"topic {topic} is not read any more")
    for place, (start, end) in sorted(plan.waiting.items()):
        click.echo(f"records of {place} from {start} to {end} are carried over")
    if plan.new_schedules:
        click.echo("punctuation begins anew: the versions make different schedules")
