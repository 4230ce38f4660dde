"""``moldau migrate``: a whole Kafka cluster moved to Moldau, with the same offsets.

``plan`` shows what would be copied, ``start`` copies until it is stopped, ``status`` shows how far it is,
``cutover`` closes the old topics and opens the new ones, ``rollback`` goes back.

Invariant: all of them take their clusters from the state file that ``plan`` has written, so that no step can
be done to the wrong cluster.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from moldau.cli.commands.clusters.mirror import (
    _run,
    compare,
    flow_options,
    flow_properties,
    print_differences,
    settings_of,
)
from moldau.cli.output import echo, log_to_stderr, print_json, print_table
from moldau.cli.session import FILE, add_options, json_option, run

if TYPE_CHECKING:
    from moldau.client.transport.cluster import Cluster
    from moldau.mirror.migration import MigrationState
    from moldau.mirror.rules.properties import FlowSettings, MirrorSettings

_T = TypeVar("_T")
_state_option = click.option(
    "--state",
    "state_file",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("migration.json"),
    show_default=True,
    metavar="FILE",
    help="Where the migration notes what it does.",
)
#: What every step after the plan takes.
_step_options = add_options(
    _state_option, click.option("--from-config", type=FILE), click.option("--to-config", type=FILE)
)


@click.group()
def migrate() -> None:
    """Move a Kafka cluster to Moldau: topics, records, configs, groups, each at the same offset.

    \b
    The steps:
      moldau migrate plan --from kafka:9092 --to 127.0.0.1:9092
      moldau migrate start            keep it running
      moldau migrate status
      moldau migrate cutover          writers pause while this runs
      moldau migrate rollback         if need be
    """


def _settings(state: "MigrationState", from_config: Path | None, to_config: Path | None) -> "MirrorSettings":
    import re

    return settings_of(
        flow_properties(
            {"moldau.mode": "exact", "sync.topic.acls.enabled": "true"},
            source=state.source,
            target=state.target,
            topics=",".join(map(re.escape, state.topics)) or "(?!)",
            exclude="__.*",
            groups=state.groups,
            source_alias="source",
            target_alias="target",
            from_config=from_config,
            to_config=to_config,
        )
    )


def _with_both(
    settings: "MirrorSettings", work: "Callable[[FlowSettings, Cluster, Cluster], Awaitable[_T]]"
) -> _T:
    async def inside() -> _T:
        from moldau.mirror.running import Clusters

        flow = settings.flows[0]
        clusters = Clusters(settings.clusters)
        async with (
            await clusters.connect(flow.source) as source,
            await clusters.connect(flow.target) as target,
        ):
            return await work(flow, source, target)

    return run(inside())


def _load(path: Path) -> "MigrationState":
    from moldau.mirror.migration import MigrationState

    try:
        return MigrationState.load(path)
    except ValueError as error:
        raise click.ClickException(str(error)) from error


@migrate.command("plan", short_help="Show what would be copied, and what stands in the way.")
@flow_options
@_state_option
@json_option
def plan_command(state_file: Path, as_json: bool, **flow: Any) -> None:
    """Look at both clusters, and write the state file that the other steps use.

    \b
    Example:
      moldau migrate plan --from kafka:9092 --to 127.0.0.1:9092
    """
    from moldau.mirror.migration import MigrationState, plan

    settings = settings_of(flow_properties({"moldau.mode": "exact"}, **flow))
    found = _with_both(settings, plan)
    free = [t.name for t in found.topics if t.problem is None]
    state = MigrationState(flow["source"], flow["target"], free, flow["groups"])
    if state_file.exists():
        before = _load(state_file)
        if before.phase == "cut over":
            raise click.ClickException(f"{state_file} has a migration that is done: use another --state FILE")
        if before.fenced or before.ends:  # only the file knows what the old topics had before
            raise click.ClickException(
                f"{state_file} has a cut-over that was interrupted: "
                "run `moldau migrate cutover` again, or `moldau migrate rollback`"
            )
    state.save(state_file)
    if as_json:
        print_json(
            {
                "topics": [
                    {
                        "name": t.name,
                        "partitions": t.partitions,
                        "records": t.records,
                        "configs": t.configs,
                        "problem": t.problem,
                    }
                    for t in found.topics
                ],
                "groups": found.groups,
                "only_at_target": found.only_at_target,
            }
        )
        return
    print_table(
        ["topic", "partitions>", "records>", "configs", "in the way"],
        [
            [t.name, t.partitions, t.records, ",".join(f"{k}={v}" for k, v in t.configs.items()), t.problem]
            for t in found.topics
        ],
    )
    echo(f"{len(found.groups)} groups; {len(found.only_at_target)} topics are at the target only")
    echo(f"Next: moldau migrate start --state {state_file}")


@migrate.command("start", short_help="Copy until Ctrl-C.")
@_step_options
@click.option("--once", is_flag=True, help="End when everything is copied.")
def start_command(state_file: Path, from_config: Path | None, to_config: Path | None, once: bool) -> None:
    """Copy the planned topics and follow them; keep it running until after the cut-over."""
    log_to_stderr("info")
    state = _load(state_file)
    if not state.topics:
        raise click.ClickException("the plan has no topics")
    if state.phase == "planned":
        state.phase = "copying"
        state.save(state_file)
    run(_run(_settings(state, from_config, to_config), once=once))


@migrate.command("status", short_help="Show how far the copy is.")
@_step_options
@click.option("--verify", is_flag=True, help="Compare counts and checksums of every partition.")
@json_option
def status_command(
    state_file: Path, from_config: Path | None, to_config: Path | None, verify: bool, as_json: bool
) -> None:
    """Show how far each partition is; with --verify prove that what was copied is equal.

    \b
    Example:
      moldau migrate status --verify
    """
    from moldau.mirror.migration import status

    state = _load(state_file)
    settings = _settings(state, from_config, to_config)
    if verify:
        differences = run(compare(settings, exact=True))
        print_differences(differences, as_json=as_json)
        if not all(each.equal for each in differences):
            raise click.exceptions.Exit(1)
        return
    found = _with_both(settings, lambda flow, source, target: status(source, target, state.topics))
    rows = [
        [
            each.topic,
            each.partition,
            each.source.start,
            each.source.end,
            None if each.target is None else each.target.log_end_offset,
            each.lag,
        ]
        for each in found
    ]
    columns = ["topic", "partition", "begins", "ends", "copied to", "behind"]
    if as_json:
        print_json({"phase": state.phase, "partitions": [dict(zip(columns, r, strict=True)) for r in rows]})
        return
    echo(f"{state.source} -> {state.target}: {state.phase}")
    print_table([columns[0], *(f"{column}>" for column in columns[1:])], rows)


@migrate.command("cutover", short_help="Close the old topics and open the new ones.")
@_step_options
@click.option("--no-fence", is_flag=True, help="The writers have stopped: leave the old topics as they are.")
@click.option(
    "--timeout", "timeout_seconds", default=30.0, show_default=True, help="For the mirror to catch up."
)
@json_option
def cutover_command(
    state_file: Path,
    from_config: Path | None,
    to_config: Path | None,
    no_fence: bool,
    timeout_seconds: float,
    as_json: bool,
) -> None:
    """Close the old topics for writers, wait until everything is copied, move groups, open the new topics.

    Old topics are closed with max.message.bytes=1, which a rollback takes back. If the mirror does not catch
    up in time they are opened again, and nothing has changed.
    """
    from moldau.mirror.migration import cut_over

    state = _load(state_file)
    if state.phase == "cut over":
        raise click.ClickException("the cut-over is done already")
    settings = _settings(state, from_config, to_config)
    done = _with_both(
        settings,
        lambda flow, source, target: cut_over(
            flow, source, target, state, state_file, fence=not no_fence, timeout_seconds=timeout_seconds
        ),
    )
    if as_json:
        print_json(
            {
                "seconds": round(done.seconds, 3),
                "topics": done.topics,
                "partitions": done.partitions,
                "groups": done.groups,
            }
        )
        return
    echo(
        f"{done.topics} topics with {done.partitions} partitions and {done.groups} groups are at "
        f"{state.target} now; writers had to wait for {done.seconds:.1f} s"
    )


@migrate.command("rollback", short_help="Go back to the old cluster.")
@_step_options
@click.option("--discard-writes", is_flag=True, help="Let go of what was written to the new cluster since.")
def rollback_command(
    state_file: Path, from_config: Path | None, to_config: Path | None, discard_writes: bool
) -> None:
    """Open the old topics again and make the new ones mirrors as before."""
    from moldau.mirror.migration import roll_back

    state = _load(state_file)
    settings = _settings(state, from_config, to_config)
    lost = _with_both(
        settings,
        lambda flow, source, target: roll_back(
            flow, source, target, state, state_file, discard=discard_writes
        ),
    )
    echo(f"{state.source} takes writes again" + (f"; {lost} records of the new cluster go" if lost else ""))
