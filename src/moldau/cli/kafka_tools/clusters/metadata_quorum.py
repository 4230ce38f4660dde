"""``moldau kafka-metadata-quorum``: who keeps the metadata, as Kafka's MetadataQuorumCommand prints it.

There is no quorum of controllers in Moldau: one broker is the controller, and the others may follow it. The
tool shows what the brokers answer; adding and removing controllers is refused.
"""

import asyncio
import json
from collections.abc import Sequence

from moldau.base.clock import SystemClock
from moldau.base.names import format_uuid
from moldau.cli.kafka_tools.framework.bootstrap import open_admin_cluster, with_bootstrap_server
from moldau.cli.kafka_tools.framework.exceptions import ToolError
from moldau.cli.kafka_tools.framework.options import Given, Option, OptionError, Options
from moldau.cli.kafka_tools.framework.tool import Console, Tool, report_failure
from moldau.client.admin.replicas import Quorum, describe_quorum
from moldau.protocol.errors import KafkaError

TOOL = Tool(
    "kafka-metadata-quorum",
    "Shows who keeps the metadata of the cluster: describe --status, or describe --replication.",
    Options(
        Option("bootstrap-server", "The brokers to connect to.", "servers", letter="b"),
        Option(
            "bootstrap-controller",
            "The same: every broker answers for the controller.",
            "servers",
            letter="C",
        ),
        Option("command-config", "A properties file with settings of the client.", "file", letter="c"),
        Option("status", "With describe: a summary."),
        Option("replication", "With describe: one line for each node."),
        Option("human-readable", "With --replication: times as words."),
    ),
    (
        "--bootstrap-server localhost:9092 describe --status",
        "--bootstrap-server localhost:9092 describe --replication --human-readable",
    ),
)
_COLUMNS = (
    "NodeId",
    "DirectoryId",
    "LogEndOffset",
    "Lag",
    "LastFetchTimestamp",
    "LastCaughtUpTimestamp",
    "Status",
)


def main(arguments: Sequence[str], console: Console) -> int:
    words = [each for each in arguments if each in ("describe", "add-controller", "remove-controller")]
    options = ["--bootstrap-server" if each == "--bootstrap-controller" else each for each in arguments]
    given = TOOL.options.parse(
        with_bootstrap_server([each for each in options if each not in words], console)
    )
    if not given.has("bootstrap-server"):
        raise OptionError("one of the arguments --bootstrap-server --bootstrap-controller is required")
    if words != ["describe"]:
        console.error("Only describe is there: the brokers elect their controller by themselves")
        return 1
    if given.has("status") == given.has("replication"):
        which = "Only one" if given.has("status") else "One"
        console.error(f"{which} of --status or --replication must be specified with describe sub-command")
        return 1
    try:
        asyncio.run(_describe(given, console))
    except (KafkaError, ToolError) as error:
        return report_failure(error, console)
    return 0


async def _describe(given: Given, console: Console) -> None:
    async with await open_admin_cluster(given, console, call="describeMetadataQuorum") as cluster:
        quorum = await describe_quorum(cluster)
        cluster_id = cluster.cluster_id or ""
    if given.has("status"):
        lines = status_lines(quorum, cluster_id)
    else:
        now_ms = SystemClock().now_ms() if given.has("human-readable") else None
        lines = replication_lines(quorum, now_ms)
    for line in lines:
        console.print(line)


def status_lines(quorum: Quorum, cluster_id: str) -> list[str]:
    state = quorum.state
    leader = next((each for each in state.current_voters if each.replica_id == state.leader_id), None)
    end = 0 if leader is None else leader.log_end_offset
    behind = [end - each.log_end_offset for each in state.current_voters]
    late = [
        0 if leader is None else leader.last_caught_up_timestamp - each.last_caught_up_timestamp
        for each in state.current_voters
    ]
    voters = [
        {
            "id": each.replica_id,
            "directoryId": format_uuid(each.replica_directory_id),
            "endpoints": list(quorum.endpoints.get(each.replica_id, ())),
        }
        for each in state.current_voters
    ]
    observers = [
        {"id": each.replica_id, "directoryId": format_uuid(each.replica_directory_id)}
        for each in state.observers
    ]
    values = (
        ("ClusterId", cluster_id),
        ("LeaderId", state.leader_id),
        ("LeaderEpoch", state.leader_epoch),
        ("HighWatermark", state.high_watermark),
        ("MaxFollowerLag", max(behind, default=0)),
        ("MaxFollowerLagTimeMs", max(late, default=0)),
        ("CurrentVoters", json.dumps(voters)),
        ("CurrentObservers", json.dumps(observers)),
    )
    return [f"{name + ':':<24}{value}" for name, value in values]


def replication_lines(quorum: Quorum, now_ms: int | None) -> list[str]:
    """A table whose columns are as wide as their widest cell; times as words when ``now_ms`` is given."""
    state = quorum.state
    voters = sorted(
        state.current_voters, key=lambda each: (each.replica_id != state.leader_id, each.replica_id)
    )
    end = next((each.log_end_offset for each in voters if each.replica_id == state.leader_id), 0)

    def moment(ms: int) -> str:
        return str(ms) if now_ms is None or ms < 0 else f"{now_ms - ms} ms ago"

    rows = [list(_COLUMNS)]
    for each in (*voters, *state.observers):
        role = "Observer" if each in state.observers else "Follower"
        rows.append(
            [
                str(each.replica_id),
                format_uuid(each.replica_directory_id),
                str(each.log_end_offset),
                str(end - each.log_end_offset),
                moment(each.last_fetch_timestamp),
                moment(each.last_caught_up_timestamp),
                "Leader" if each.replica_id == state.leader_id else role,
            ]
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    return [
        "".join(f"{cell.ljust(width)}\t" for cell, width in zip(row, widths, strict=True)) for row in rows
    ]
