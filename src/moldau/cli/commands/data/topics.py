"""``moldau topics``: list, create, describe, alter and delete topics.

``topic_branches`` has fork, snapshot and restore.
"""

from typing import TYPE_CHECKING, Any, TypeGuard

import click

from moldau.cli.commands.data.topic_branches import fork, restore, snapshot
from moldau.cli.output import echo, note, print_json, print_table, size_text
from moldau.cli.session import cluster_command_options, connected, pairs, timeout_ms

if TYPE_CHECKING:
    from moldau.client.admin.admin import Admin
    from moldau.client.admin.descriptions import TopicDescription
    from moldau.client.transport.cluster import Cluster
    from moldau.protocol.errors import KafkaError


@click.group()
def topics() -> None:
    """List, create, describe, alter and delete topics; fork, snapshot and restore them.

    \b
    Examples:
      moldau topics create orders --partitions 3 --config retention.ms=86400000
      moldau topics list
      moldau topics describe orders --json
      moldau topics alter orders --partitions 6
      moldau topics delete orders --yes
      moldau topics fork orders orders-test --at '1h ago'
      moldau topics snapshot orders orders.tar.zst
    """


topics.add_command(fork)
topics.add_command(snapshot)
topics.add_command(restore)


@topics.command("list")
@click.option("--internal", is_flag=True, help="Show internal topics too.")
@click.option("--names", is_flag=True, help="Print the names alone, one in a line.")
@cluster_command_options
def list_topics(internal: bool, names: bool, as_json: bool) -> None:
    """Show all topics, with the number of their records and their size.

    \b
    Examples:
      moldau topics list
      moldau topics list --names | xargs -n1 moldau offsets
      moldau topics list --json -b broker1:9092
    """

    async def work(cluster: "Cluster") -> list[dict[str, Any]]:
        from asyncio import gather

        from moldau.client.admin.admin import Admin, raise_errors

        admin = Admin(cluster)
        if names:
            return [{"name": name} for name in await admin.list_topics(include_internal=internal)]
        found = await admin.describe_topics()
        raise_errors(found)
        shown = [t for t in found.values() if _is_topic(t) and (internal or not t.is_internal)]
        offsets, sizes = await gather(_offsets(admin, shown), _sizes(admin))
        return [summary(topic, offsets, sizes) for topic in shown]

    rows = connected(work)
    if as_json:
        print_json([row["name"] for row in rows] if names else rows)
    elif names:
        for row in rows:
            echo(row["name"])
    elif not rows:
        note("There are no topics yet. Make one with 'moldau topics create NAME'.")
    else:
        print_table(
            ["Topic", "Partitions>", "Replicas>", "Records>", "Size>", "State"],
            [
                [
                    row["name"],
                    row["partitions"],
                    row["replication_factor"],
                    row["records"],
                    size_text(row["size_bytes"]),
                    state_text(row),
                ]
                for row in rows
            ],
        )


@topics.command("create")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option("-p", "--partitions", type=click.IntRange(min=1), help="Default: the broker's num.partitions.")
@click.option("-r", "--replication-factor", type=click.IntRange(min=1), help="Default: the broker's own.")
@click.option("-c", "--config", "configs", multiple=True, metavar="NAME=VALUE", help="A config; repeatable.")
@click.option("--if-not-exists", is_flag=True, help="Be content when the topic is there already.")
@cluster_command_options
def create(
    names: tuple[str, ...],
    partitions: int | None,
    replication_factor: int | None,
    configs: tuple[str, ...],
    if_not_exists: bool,
    as_json: bool,
) -> None:
    """Create one or more topics.

    \b
    Examples:
      moldau topics create orders
      moldau topics create orders --partitions 12 --replication-factor 3
      moldau topics create users --config cleanup.policy=compact --if-not-exists
    """
    wanted = pairs(configs, "--config")

    async def work(cluster: "Cluster") -> list[dict[str, Any]]:
        from moldau.base.names import format_uuid
        from moldau.client.admin.admin import Admin
        from moldau.client.admin.descriptions import CreatedTopic, NewTopic

        new = [NewTopic(n, partitions or -1, replication_factor or -1, configs=dict(wanted)) for n in names]
        created = await Admin(cluster).create_topics(new, timeout_ms=timeout_ms())
        results: list[dict[str, Any]] = []
        for name in names:
            outcome = created[name]
            if isinstance(outcome, CreatedTopic):
                results.append(
                    {
                        "name": name,
                        "created": True,
                        "topic_id": format_uuid(outcome.topic_id),
                        "partitions": outcome.num_partitions,
                        "replication_factor": outcome.replication_factor,
                    }
                )
            elif if_not_exists and outcome.code.name == "TOPIC_ALREADY_EXISTS":
                results.append({"name": name, "created": False})
            else:
                raise outcome
        return results

    results = connected(work)
    if as_json:
        print_json(results)
        return
    for result in results:
        if result["created"]:
            echo(
                f"Created topic {result['name']}: {result['partitions']} partition(s), "
                f"replication factor {result['replication_factor']}"
            )
        else:
            echo(f"Topic {result['name']} exists already")


@topics.command("describe")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@cluster_command_options
def describe(names: tuple[str, ...], as_json: bool) -> None:
    """Show a topic's partitions, leaders, replicas, offsets, sizes and configs.

    \b
    Examples:
      moldau topics describe orders
      moldau topics describe orders users --json
    """

    async def work(cluster: "Cluster") -> list[dict[str, Any]]:
        from asyncio import gather

        from moldau.client.admin.admin import Admin, raise_errors
        from moldau.client.admin.descriptions import ConfigResource, ConfigSource, ResourceType

        admin = Admin(cluster)
        found = await admin.describe_topics(names)
        raise_errors(found)
        shown = [t for t in found.values() if _is_topic(t)]
        resources = [ConfigResource(ResourceType.TOPIC, t.name) for t in shown]
        offsets, sizes, configs = await gather(
            _offsets(admin, shown), _sizes(admin), admin.describe_configs(resources)
        )
        raise_errors(configs)
        results = []
        for topic, resource in zip(shown, resources, strict=True):
            entries = configs[resource]
            own = {
                e.name: e.value
                for e in (entries if isinstance(entries, list) else [])
                if e.source == ConfigSource.DYNAMIC_TOPIC_CONFIG
            }
            results.append(details(topic, offsets, sizes, own))
        return results

    results = connected(work)
    if as_json:
        print_json(results)
        return
    for result in results:
        _print_details(result)


@topics.command("alter")
@click.argument("name")
@click.option("-p", "--partitions", type=click.IntRange(min=1), required=True, help="The new, higher number.")
@cluster_command_options
def alter(name: str, partitions: int, as_json: bool) -> None:
    """Raise the number of partitions of a topic.

    Keys may then go to other partitions than before. Configs are changed with 'moldau configs set'.

    \b
    Examples:
      moldau topics alter orders --partitions 6
    """

    async def work(cluster: "Cluster") -> None:
        from moldau.client.admin.admin import Admin, raise_errors
        from moldau.client.admin.descriptions import NewPartitions

        raise_errors(await Admin(cluster).create_partitions({name: NewPartitions(partitions)}))

    connected(work)
    if as_json:
        print_json({"name": name, "partitions": partitions})
    else:
        echo(f"Topic {name} has {partitions} partitions now")


@topics.command("delete")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--if-exists", is_flag=True, help="Be content when a topic is not there.")
@cluster_command_options
def delete(names: tuple[str, ...], yes: bool, if_exists: bool, as_json: bool) -> None:
    """Delete topics with all their records.

    \b
    Examples:
      moldau topics delete orders
      moldau topics delete orders users --yes --if-exists
    """
    if not yes:
        click.confirm(f"Delete {', '.join(names)} and all records in it?", abort=True, err=True)

    async def work(cluster: "Cluster") -> list[str]:
        from moldau.client.admin.admin import Admin

        outcomes = await Admin(cluster).delete_topics(names, timeout_ms=timeout_ms())
        deleted = []
        for name in names:
            error = outcomes[name]
            if error is None:
                deleted.append(name)
            elif not (if_exists and error.code.name == "UNKNOWN_TOPIC_OR_PARTITION"):
                raise named(error, name)
        return deleted

    deleted = connected(work)
    if as_json:
        print_json([{"name": name, "deleted": name in deleted} for name in names])
        return
    for name in deleted:
        echo(f"Deleted topic {name}")


def named(error: "KafkaError", name: str) -> "KafkaError":
    """The error with the name of the topic, which brokers leave out of some messages."""
    from moldau.client.transport.cluster import topic_error

    return error if error.message and name in error.message else topic_error(name, error.code)


def summary(
    topic: "TopicDescription",
    offsets: dict[tuple[str, int], tuple[int, int]],
    sizes: dict[tuple[str, int], int] | None,
) -> dict[str, Any]:
    """One topic as a row; -1 stands for what is not known."""
    keys = [(topic.name, p.index) for p in topic.partitions]
    known = all(key in offsets for key in keys)
    return {
        "name": topic.name,
        "partitions": len(topic.partitions),
        "replication_factor": topic.replication_factor,
        "internal": topic.is_internal,
        "records": sum(offsets[key][1] - offsets[key][0] for key in keys) if known else -1,
        "size_bytes": -1 if sizes is None else sum(sizes.get(key, 0) for key in keys),
        "offline_partitions": sum(p.leader_id < 0 for p in topic.partitions),
        "under_replicated_partitions": sum(len(p.isr) < len(p.replicas) for p in topic.partitions),
    }


def state_text(row: dict[str, Any]) -> str:
    if row["offline_partitions"]:
        return f"{row['offline_partitions']} without leader"
    if row["under_replicated_partitions"]:
        return f"{row['under_replicated_partitions']} under-replicated"
    return "ok"


def details(
    topic: "TopicDescription",
    offsets: dict[tuple[str, int], tuple[int, int]],
    sizes: dict[tuple[str, int], int] | None,
    configs: dict[str, str | None],
) -> dict[str, Any]:
    """One topic with everything that is known of it."""
    from moldau.base.names import format_uuid

    partitions = []
    for p in topic.partitions:
        begin, end = offsets.get((topic.name, p.index), (-1, -1))
        partitions.append(
            {
                "partition": p.index,
                "leader": p.leader_id,
                "leader_epoch": p.leader_epoch,
                "replicas": list(p.replicas),
                "isr": list(p.isr),
                "begin_offset": begin,
                "end_offset": end,
                "size_bytes": -1 if sizes is None else sizes.get((topic.name, p.index), 0),
            }
        )
    return {
        "name": topic.name,
        "topic_id": format_uuid(topic.topic_id),
        "internal": topic.is_internal,
        "replication_factor": topic.replication_factor,
        "configs": configs,
        "partitions": partitions,
    }


def _print_details(result: dict[str, Any]) -> None:
    configs = ", ".join(f"{name}={value}" for name, value in result["configs"].items())
    echo(
        f"{result['name']}  id {result['topic_id']}, {len(result['partitions'])} partition(s), "
        f"replication factor {result['replication_factor']}"
    )
    echo(f"configs: {configs or 'all by default'}")
    print_table(
        ["Partition>", "Leader>", "Replicas", "In sync", "Begin>", "End>", "Records>", "Size>"],
        [
            [
                p["partition"],
                "none" if p["leader"] < 0 else p["leader"],
                ",".join(map(str, p["replicas"])),
                ",".join(map(str, p["isr"])),
                p["begin_offset"],
                p["end_offset"],
                p["end_offset"] - p["begin_offset"],
                size_text(p["size_bytes"]),
            ]
            for p in result["partitions"]
        ],
    )


def _is_topic(outcome: "TopicDescription | KafkaError") -> TypeGuard["TopicDescription"]:
    from moldau.client.admin.descriptions import TopicDescription

    return isinstance(outcome, TopicDescription)


async def _offsets(
    admin: "Admin", topics: "list[TopicDescription]"
) -> dict[tuple[str, int], tuple[int, int]]:
    """Begin and end of every partition that has a leader."""
    from asyncio import gather

    from moldau.base.names import TopicPartition
    from moldau.client.admin.descriptions import EARLIEST, LATEST, ListedOffset

    led = [TopicPartition(t.name, p.index) for t in topics for p in t.partitions if p.leader_id >= 0]
    begins, ends = await gather(
        admin.list_offsets(dict.fromkeys(led, EARLIEST)), admin.list_offsets(dict.fromkeys(led, LATEST))
    )
    found: dict[tuple[str, int], tuple[int, int]] = {}
    for partition in led:
        begin, end = begins[partition], ends[partition]
        if isinstance(begin, ListedOffset) and isinstance(end, ListedOffset):
            found[partition] = (begin.offset, end.offset)
    return found


async def _sizes(admin: "Admin") -> dict[tuple[str, int], int] | None:
    """The size of each partition's largest replica; None where no broker answers that."""
    from moldau.protocol.errors import KafkaError

    found = [each for each in (await admin.describe_log_dirs()).values() if not isinstance(each, KafkaError)]
    if not found:
        return None  # the user may not be allowed to ask, or the cluster may not support it
    sizes: dict[tuple[str, int], int] = {}
    for directories in found:
        for directory in directories:
            for key, replica in directory.replicas.items():
                sizes[key] = max(sizes.get(key, 0), replica.size)
    return sizes
