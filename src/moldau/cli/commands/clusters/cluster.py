"""``moldau cluster``: the brokers of a cluster, who leads how much, and why it is not well.

The commands that change something are in ``cluster_moves.py`` and ``cluster_restart.py``.
"""

from typing import TYPE_CHECKING, Any

import click

from moldau.cli.commands.clusters.cluster_moves import add, drain, elect, move, rebalance
from moldau.cli.commands.clusters.cluster_restart import restart
from moldau.cli.output import print_json, print_table
from moldau.cli.session import cluster_command_options, connected

if TYPE_CHECKING:
    from moldau.client.admin.descriptions import ClusterDescription, TopicDescription
    from moldau.client.transport.cluster import Cluster

_SHOWN_PARTITIONS = 5


@click.group()
def cluster() -> None:
    """Show the brokers of a cluster, say in words what is wrong with it, and move replicas and leaders.

    \b
    Examples:
      moldau cluster status
      moldau cluster why
      moldau cluster drain 3 --dry-run
      moldau cluster rebalance
    """


for _command in (add, drain, rebalance, move, elect, restart):
    cluster.add_command(_command)


@cluster.command(short_help="Brokers, their leaders and replicas, and the controller.")
@cluster_command_options
def status(as_json: bool) -> None:
    """Show every broker with the partitions it leads and holds, and how many are not as they should be.

    \b
    Examples:
      moldau cluster status
      moldau cluster status -b 127.0.0.1:9093 --json
    """
    described, topics = connected(_described)
    rows = _broker_rows(described, topics)
    summary = _summary(topics)
    if as_json:
        print_json({"cluster_id": described.cluster_id, "brokers": rows, **summary})
        return
    columns = ["Broker>", "Address", "Rack", "State", "Leads>", "Replicas>", "In sync>"]
    print_table(
        columns,
        [[row[name] for name in _COLUMNS] for row in rows],
        title=f"Cluster {described.cluster_id}",
    )
    click.echo(", ".join(f"{count} {name.replace('_', ' ')}" for name, count in summary.items()))


@cluster.command(short_help="Why partitions are offline or under-replicated, and what to do.")
@cluster_command_options
def why(as_json: bool) -> None:
    """Say in words what is offline or under-replicated, and what to do about it; exit code 1 if anything is.

    \b
    Examples:
      moldau cluster why
    """
    from moldau.reports.cluster_why import reasons

    described, topics = connected(_described)
    found = reasons(described, topics)
    if as_json:
        print_json([reason._asdict() for reason in found])
    elif not found:
        click.echo("every partition has its leader, its replicas in sync, and its preferred leader")
    else:
        for reason in found:
            click.echo(f"{reason.what}{_some(reason.partitions)}")
            click.echo(f"  next: {reason.next_step}")
    if found:
        raise SystemExit(1)


async def _described(cluster: "Cluster") -> "tuple[ClusterDescription, list[TopicDescription]]":
    from moldau.client.admin.admin import Admin
    from moldau.protocol.errors import KafkaError

    admin = Admin(cluster)
    described = await admin.describe_cluster(include_fenced_brokers=True)
    topics = await admin.describe_topics()
    return described, [each for each in topics.values() if not isinstance(each, KafkaError)]


_COLUMNS = ("broker", "address", "rack", "state", "leads", "replicas", "in_sync")


def _broker_rows(described: "ClusterDescription", topics: "list[TopicDescription]") -> list[dict[str, Any]]:
    partitions = [partition for topic in topics for partition in topic.partitions]
    rows = []
    for broker in sorted(described.brokers, key=lambda each: each.node_id):
        broker_id = broker.node_id
        state = "fenced" if broker_id in described.fenced else "live"
        values = (
            broker_id,
            broker.address,
            broker.rack or "",
            "controller" if broker_id == described.controller_id else state,
            sum(each.leader_id == broker_id for each in partitions),
            sum(broker_id in each.replicas for each in partitions),
            sum(broker_id in each.isr for each in partitions),
        )
        rows.append(dict(zip(_COLUMNS, values, strict=True)))
    return rows


def _summary(topics: "list[TopicDescription]") -> dict[str, int]:
    partitions = [partition for topic in topics for partition in topic.partitions]
    return {
        "topics": len(topics),
        "partitions": len(partitions),
        "offline": sum(each.leader_id < 0 for each in partitions),
        "under_replicated": sum(
            each.leader_id >= 0 and len(each.isr) < len(each.replicas) for each in partitions
        ),
    }


def _some(names: tuple[str, ...]) -> str:
    if not names:
        return ""
    more = len(names) - _SHOWN_PARTITIONS
    return f" ({', '.join(names[:_SHOWN_PARTITIONS])}{f' and {more} more' if more > 0 else ''})"
