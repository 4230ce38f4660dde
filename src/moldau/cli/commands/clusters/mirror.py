"""``moldau mirror``: copies topics between clusters continuously, promotes copies and turns flows round.

``moldau mirror FILE`` runs the flows of a file, ``moldau mirror --from A --to B`` one that flags describe.

Invariant: every subcommand works over Kafka's protocol alone, so that either side may be Apache Kafka; only
mirrors with the same offsets, and so promote and demote, need a Moldau target.
"""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

from moldau.cli.output import echo, log_to_stderr, note, print_json, print_table, size_given, size_text
from moldau.cli.session import (
    FILE,
    PORT,
    add_options,
    bootstrap_server,
    cluster_command_options,
    connected,
    json_option,
    log_level_option,
    run,
)

if TYPE_CHECKING:
    from moldau.client.transport.cluster import Cluster
    from moldau.mirror.flow import Flow
    from moldau.mirror.rules.properties import FlowSettings, MirrorSettings

#: Flags mean "soon"; MirrorMaker 2's defaults of ten minutes are for files.
_SECONDS = "5"


class _RunByDefault(click.Group):
    """What is no subcommand is an argument of ``run``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        first = args[0] if args else ""
        if first and first not in self.commands and first not in ("-h", "--help"):
            args = ["run", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_RunByDefault)
def mirror() -> None:
    """Copy topics between clusters continuously.

    To a Moldau cluster the copies have the same offsets: consumers move over by changing their address. To
    Apache Kafka it works as MirrorMaker 2 does, with its topics, but each record once and offsets translated
    to the record.

    \b
    Examples:
      moldau mirror mm2.properties
      moldau mirror --from kafka:9092 --to 127.0.0.1:9092 --topics 'orders.*'
      moldau mirror status -b 127.0.0.1:9092 --from kafka:9092
      moldau mirror promote orders -b 127.0.0.1:9092
    """


_from_config_option = click.option(
    "--from-config",
    type=FILE,
    metavar="FILE",
    help="Settings of clients of the source: security.protocol, sasl.*, ssl.* …",
)


#: The options that describe one flow.
flow_options = add_options(
    click.option("--from", "source", metavar="HOST:PORT", help="The cluster that is copied."),
    click.option("--to", "target", metavar="HOST:PORT", help="The cluster that gets the copy."),
    click.option("--topics", default=".*", show_default=True, metavar="REGEX,…", help="Which topics."),
    click.option("--exclude", metavar="REGEX,…", help="Topics that stay out."),
    click.option("--groups", default=".*", show_default=True, metavar="REGEX,…", help="Which groups."),
    click.option("--source-alias", default="source", show_default=True, help="Its name in this flow."),
    click.option("--target-alias", default="target", show_default=True, help="Its name in this flow."),
    _from_config_option,
    click.option("--to-config", type=FILE, metavar="FILE", help="The same for the target."),
)


def flow_properties(
    more: Mapping[str, str | None] = MappingProxyType({}),
    *,
    source: str | None,
    target: str | None,
    topics: str,
    exclude: str | None,
    groups: str,
    source_alias: str,
    target_alias: str,
    from_config: Path | None,
    to_config: Path | None,
) -> dict[str, str]:
    """The flags as an ``mm2.properties`` file would have them."""
    if not source or not target:
        raise click.UsageError("give --from HOST:PORT and --to HOST:PORT, or a file of properties")
    properties = {
        "clusters": f"{source_alias},{target_alias}",
        f"{source_alias}.bootstrap.servers": source,
        f"{target_alias}.bootstrap.servers": target,
        f"{source_alias}->{target_alias}.enabled": "true",
        "topics": topics,
        "groups": groups,
        "sync.group.offsets.enabled": "true",
        "sync.group.offsets.interval.seconds": _SECONDS,
        "emit.checkpoints.interval.seconds": _SECONDS,
        "refresh.topics.interval.seconds": _SECONDS,
        "sync.topic.configs.interval.seconds": _SECONDS,
        "replication.policy.class": "IdentityReplicationPolicy",
    }
    for alias, path in ((source_alias, from_config), (target_alias, to_config)):
        if path is not None:
            properties |= {f"{alias}.{name}": value for name, value in _read(path).items()}
    if exclude is not None:
        properties["topics.exclude"] = exclude
    return properties | {name: value for name, value in more.items() if value is not None}


def _read(path: Path) -> dict[str, str]:
    from moldau.base.settings import parse_properties

    try:
        return parse_properties(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise click.UsageError(f"{path}: {error}") from error


async def _connect(source: str, from_config: Path | None) -> "Cluster":
    """The cluster that is copied, with the settings that a file has for its clients."""
    from moldau.mirror.running import Clusters

    own = {} if from_config is None else _read(from_config)
    return await Clusters({"source": {**own, "bootstrap.servers": source}}).connect("source")


def settings_of(properties: dict[str, str]) -> "MirrorSettings":
    """Settings, or wrong usage that says why."""
    from moldau.mirror.rules.properties import read_settings

    try:
        settings = read_settings(properties)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if not settings.flows:
        raise click.UsageError("no flow is enabled: add a line such as A->B.enabled = true")
    for name in settings.unknown:
        note(f"{name} is not known and has no effect")
    return settings


@mirror.command("run", short_help="Run flows until Ctrl-C.")
@click.argument("file", required=False, type=FILE)
@flow_options
@click.option(
    "--mode",
    type=click.Choice(["auto", "exact", "translated"]),
    default=None,
    help="exact: the same offsets, for Moldau targets; translated: as MirrorMaker 2. Default: what the "
    "target can.",
)
@click.option(
    "--policy",
    type=click.Choice(["identity", "default"]),
    default=None,
    help="Names at the target: the same (identity), or with the source's alias before them (default).",
)
@click.option("--throttle", metavar="RATE", callback=size_given, help="Most bytes a second, such as 10MB.")
@click.option("--function", metavar="FILE.py:NAME", help="A Python function that filters or changes records.")
@click.option("--acls", is_flag=True, help="Copy ACLs too.")
@click.option(
    "--schemas",
    nargs=2,
    metavar="FROM-URL TO-URL",
    help="Carry the schemas of one registry over to another, with their ids.",
)
@click.option("--delete", is_flag=True, help="Delete copies whose source was deleted.")
@click.option(
    "--recreated",
    type=click.Choice(["stop", "replace"]),
    default=None,
    help="When a topic was deleted and made again at the source: stop copying it, or replace the mirror.",
)
@click.option("--once", is_flag=True, help="End when everything is copied.")
@click.option(
    "--metrics-port", type=PORT, help="Answers /metrics and /healthz on this machine; 0 takes a free port."
)
@log_level_option("info")
def run_command(
    file: Path | None,
    mode: str | None,
    policy: str | None,
    throttle: int | None,
    function: str | None,
    acls: bool,
    schemas: tuple[str, str] | None,
    delete: bool,
    recreated: str | None,
    once: bool,
    metrics_port: int | None,
    log_level: str,
    **flow: Any,
) -> None:
    """Run the flows of an mm2.properties file, or the one that the flags describe, until Ctrl-C or SIGTERM.

    Several of these share the work and stand in for each other.

    \b
    Examples:
      moldau mirror mm2.properties
      moldau mirror --from kafka:9092 --to 127.0.0.1:9092 --topics orders,payments --throttle 10MB
    """
    log_to_stderr(log_level)
    given = {
        "moldau.mode": mode,
        "replication.policy.class": policy,
        "moldau.throttle.bytes.per.second": None if throttle is None else str(throttle),
        "moldau.function": function,
        "sync.topic.acls.enabled": "true" if acls else None if file is not None else "false",
        "moldau.sync.topic.deletes.enabled": "true" if delete else None,
        "moldau.on.recreated": recreated,
    }
    if schemas is not None:
        if file is not None:
            raise click.UsageError("--schemas is for a flow of flags; a file has A.schema.registry.url")
        given |= {
            "moldau.sync.schemas.enabled": "true",
            "moldau.sync.schemas.interval.seconds": _SECONDS,
            f"{flow['source_alias']}.schema.registry.url": schemas[0],
            f"{flow['target_alias']}.schema.registry.url": schemas[1],
        }
    if file is not None:
        properties = _read(file) | {name: value for name, value in given.items() if value is not None}
    else:
        properties = flow_properties(given, **flow)
    settings = settings_of(properties)
    run(_run(settings, once=once, metrics_port=metrics_port))


async def _run(settings: "MirrorSettings", *, once: bool, metrics_port: int | None = None) -> None:
    import asyncio
    import signal

    from moldau.mirror.running import run_flows, wait_until_caught_up

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    tasks: list[asyncio.Task[None]] = []

    async def end_when_done(flows: "list[Flow]") -> None:
        await wait_until_caught_up(flows)
        stop.set()

    def started(flows: "list[Flow]") -> None:
        echo("moldau mirror ready: " + ", ".join(flow.settings.name for flow in flows))
        tasks.append(loop.create_task(_report(flows)))
        if metrics_port is not None:
            tasks.append(loop.create_task(_show_metrics(flows, metrics_port)))
        if once:
            tasks.append(loop.create_task(end_when_done(flows)))

    try:
        await run_flows(settings, stop, started=started)
    finally:
        for task in tasks:
            task.cancel()


async def _show_metrics(flows: "list[Flow]", port: int) -> None:
    import asyncio

    from moldau.base.http_server import HttpServer
    from moldau.cli.monitoring.mirror_view import MirrorView

    server = HttpServer(MirrorView(flows).answer)
    try:
        note(f"http://127.0.0.1:{await server.start('127.0.0.1', port)}/metrics")
        await asyncio.Event().wait()
    except OSError as error:
        note(f"no metrics: {error}")
    finally:
        await server.close()


async def _report(flows: "list[Flow]") -> None:
    """A line for each flow now and then, when it has moved."""
    import asyncio

    before = dict.fromkeys((flow.settings.name for flow in flows), -1)
    while True:
        await asyncio.sleep(10)
        for flow in flows:
            status = flow.status
            if status.bytes_copied != before[flow.settings.name]:
                before[flow.settings.name] = status.bytes_copied
                echo(
                    f"{flow.settings.name}: {len(status.topics.mirrored)} topics, {len(status.progress)} "
                    f"partitions here, {status.lag} records behind, {size_text(status.bytes_copied)} copied",
                    err=True,
                )


@mirror.command("status", short_help="Show mirrors and how far they are.")
@click.option("--from", "source", metavar="HOST:PORT", help="Their source, to show how far behind they are.")
@_from_config_option
@cluster_command_options
def status_command(source: str | None, from_config: Path | None, as_json: bool) -> None:
    """Show the mirrored topics of a cluster.

    \b
    Example:
      moldau mirror status -b 127.0.0.1:9092 --from kafka:9092
    """

    async def work(cluster: "Cluster") -> list[dict[str, Any]]:
        from moldau.mirror.migration import status
        from moldau.mirror.promotion import mirror_states

        names = [t.name for t in await cluster.topics(None) if not t.is_internal and not t.error_code]
        states = {n: s for n, s in (await mirror_states(cluster, names)).items() if s[0] != "none"}
        lags: dict[str, int] = {}
        if source is not None:
            async with await _connect(source, from_config) as other:
                for each in await status(other, cluster, [n for n, s in states.items() if s[0] == "mirror"]):
                    lags[each.topic] = lags.get(each.topic, 0) + each.lag
        return [
            {"topic": name, "state": state, "source": origin, "lag": lags.get(name)}
            for name, (state, origin) in sorted(states.items())
        ]

    found = connected(work)
    if as_json:
        print_json(found)
        return
    if not found:
        echo("no topic of this cluster is a mirror")
        return
    rows = [[r["topic"], r["state"], r["source"], "" if r["lag"] is None else str(r["lag"])] for r in found]
    print_table(["topic", "state", "source", "behind"], rows)


@mirror.command("promote", short_help="Make mirrors writable.")
@click.argument("topics", nargs=-1, required=True)
@click.option("--offset", metavar="P:N,…", help="Where partitions shall end; what is behind goes.")
@cluster_command_options
def promote_command(topics: tuple[str, ...], offset: str | None, as_json: bool) -> None:
    """Make mirrored topics ordinary ones, which producers may write to.

    They end where the mirror is, or at the offsets that are given. Transactions that are open there are
    aborted. Run it again if it was interrupted.

    \b
    Examples:
      moldau mirror promote orders payments -b 127.0.0.1:9092
      moldau mirror promote orders --offset 0:1500,1:1498
    """
    from moldau.cli.commands.data.topic_branches import offsets_of

    if offset is not None and len(topics) > 1:
        raise click.UsageError("--offset is for one topic")

    async def work(cluster: "Cluster") -> list[Any]:
        from moldau.mirror.promotion import promote

        made = []
        for topic in topics:
            count = len((await cluster.topic(topic, refresh=True)).partitions)
            ends = None if offset is None else offsets_of(offset, count)
            made.append(await promote(cluster, topic, ends))
        return made

    found = connected(work)
    if as_json:
        print_json([{"topic": each.topic, "ends": list(each.ends)} for each in found])
        return
    for each in found:
        echo(f"{each.topic} takes writes now; its partitions end at {', '.join(map(str, each.ends))}")


@mirror.command("demote", short_help="Make topics mirrors of another cluster's.")
@click.argument("topics", nargs=-1, required=True)
@click.option(
    "--from", "source", required=True, metavar="HOST:PORT", help="The cluster to follow from now on."
)
@click.option("--source-alias", default="source", show_default=True, help="Its name in the flow.")
@_from_config_option
@cluster_command_options
def demote_command(
    topics: tuple[str, ...], source: str, source_alias: str, from_config: Path | None, as_json: bool
) -> None:
    """Turn a flow round: topics of this cluster become mirrors of those of another one.

    Records that only this cluster has are cut off when the flow runs (`moldau mirror --from … --to …`).

    \b
    Example:
      moldau mirror demote orders -b old:9092 --from new:9092
    """
    properties = flow_properties(
        source=source,
        target=bootstrap_server(),
        topics=".*",
        exclude=None,
        groups=".*",
        source_alias=source_alias,
        target_alias="this" if source_alias != "this" else "target",
        from_config=from_config,
        to_config=None,
    )
    flow = settings_of(properties).flows[0]

    async def work(cluster: "Cluster") -> None:
        from moldau.mirror.promotion import demote

        async with await _connect(source, from_config) as other:
            for topic in topics:
                await demote(cluster, topic, flow, other)

    connected(work)
    if as_json:
        print_json([{"topic": topic, "source": source} for topic in topics])
        return
    for topic in topics:
        echo(
            f"{topic} is a mirror of {source} now: run "
            f"`moldau mirror --from {source} --to {bootstrap_server()}`"
        )


@mirror.command("verify", short_help="Compare topics by counts and checksums.")
@flow_options
@click.option("--translated", is_flag=True, help="The copies have offsets of their own.")
@json_option
def verify_command(translated: bool, as_json: bool, **flow: Any) -> None:
    """Compare the topics of two clusters record by record: counts and checksums of every partition.

    Both sides are compared up to where the copy is; what is not copied yet is counted beside it.

    \b
    Example:
      moldau mirror verify --from kafka:9092 --to 127.0.0.1:9092 --topics 'orders.*'
    """
    settings = settings_of(flow_properties(**flow))
    differences = run(compare(settings, exact=not translated))
    print_differences(differences, as_json=as_json)
    if not all(each.equal for each in differences):
        raise click.exceptions.Exit(1)


async def compare(settings: "MirrorSettings", *, exact: bool) -> list[Any]:
    from moldau.mirror.comparison import compare_topics
    from moldau.mirror.running import Clusters
    from moldau.mirror.topics import source_topics

    flow: FlowSettings = settings.flows[0]
    clusters = Clusters(settings.clusters)
    async with (
        await clusters.connect(flow.source) as source,
        await clusters.connect(flow.target) as target,
    ):
        found = await source_topics(flow, source, exact=exact)
        names = {name: flow.policy.remote_topic(flow.source, name) for name in sorted(found)}
        return await compare_topics(source, target, names, exact=exact)


def print_differences(differences: list[Any], *, as_json: bool) -> None:
    rows = [
        {
            "topic": each.topic,
            "partition": each.source.partition,
            "records": [each.source.records, each.target.records],
            "checksum": [each.source.checksum, each.target.checksum],
            "equal": each.equal,
            "behind": each.behind,
        }
        for each in differences
    ]
    if as_json:
        print_json(rows)
        return
    print_table(
        ["topic", "partition", "records", "at the target", "checksum", "", "not copied yet"],
        [
            [
                row["topic"],
                str(row["partition"]),
                *map(str, row["records"]),
                row["checksum"][0][:12],
                "equal" if row["equal"] else "DIFFERENT",
                str(row["behind"]),
            ]
            for row in rows
        ],
    )
