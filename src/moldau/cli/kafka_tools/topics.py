"""``moldau kafka-topics``: create, list, describe, alter and delete topics, as Kafka's TopicCommand does."""

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from moldau.base.names import ZERO_UUID, TopicPartition, format_uuid, parse_uuid
from moldau.cli.kafka_tools.framework.bootstrap import (
    CLUSTER_OPTIONS,
    open_admin_cluster,
    with_bootstrap_server,
)
from moldau.cli.kafka_tools.framework.exceptions import ToolError, exception_line, illegal_argument, sentence
from moldau.cli.kafka_tools.framework.options import Given, Option, OptionError, Options, refuse_with, require
from moldau.cli.kafka_tools.framework.tool import Console, Tool
from moldau.cli.kafka_tools.framework.topic_filter import select
from moldau.client.admin.admin import Admin, raise_errors
from moldau.client.admin.descriptions import (
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    PartitionDescription,
    ResourceType,
    TopicDescription,
)
from moldau.client.admin.replicas import Move, ongoing_moves
from moldau.protocol.errors import ErrorCode, KafkaError

_JAVA_CLASS = "org.apache.kafka.tools.TopicCommand"
_ACTIONS = ("create", "alter", "list", "describe", "delete")
_REPORTS = (
    "under-replicated-partitions",
    "under-min-isr-partitions",
    "at-min-isr-partitions",
    "unavailable-partitions",
)
_MAX_REPLICATION_FACTOR = 32767

TOOL = Tool(
    "kafka-topics",
    "Creates, lists, describes, alters and deletes topics.",
    Options(
        *CLUSTER_OPTIONS,
        Option("list", "List all topics, or those that --topic allows."),
        Option("create", "Create a topic."),
        Option("delete", "Delete the topics that --topic allows."),
        Option("alter", "Raise the number of partitions. Configs are changed with kafka-configs."),
        Option("describe", "Show topics with their partitions."),
        Option("topic", "A topic; except with --create also a regular expression.", "topic"),
        Option("topic-id", "The id of a topic to describe.", "id"),
        Option("config", "A config of the topic to create; may stand several times.", "name=value"),
        Option("delete-config", "Has no effect since Kafka 4.0.", "name", hidden=True),
        Option("partitions", "How many partitions the topic shall have.", "count", int),
        Option("replication-factor", "How many replicas each partition shall have.", "count", int),
        Option("replica-assignment", "The brokers of each partition: 1:2,2:3 for two partitions.", "brokers"),
        Option("under-replicated-partitions", "With --describe: partitions that lack in-sync replicas."),
        Option("unavailable-partitions", "With --describe: partitions without a leader."),
        Option("under-min-isr-partitions", "With --describe: fewer in-sync replicas than required."),
        Option("at-min-isr-partitions", "With --describe: just as many in-sync replicas as required."),
        Option("topics-with-overrides", "With --describe: topics with configs of their own."),
        Option("if-exists", "Be content when the topic does not exist."),
        Option("if-not-exists", "Be content when the topic exists already."),
        Option("exclude-internal", "Leave internal topics out."),
        Option("partition-size-limit-per-response", "How many partitions to ask for at once.", "count", int),
    ),
    (
        "--bootstrap-server localhost:9092 --list",
        "--bootstrap-server localhost:9092 --create --topic orders --partitions 3 --config retention.ms=-1",
        "--bootstrap-server localhost:9092 --describe --topic 'orders.*'",
        "--bootstrap-server localhost:9092 --alter --topic orders --partitions 6",
        "--bootstrap-server localhost:9092 --delete --topic orders",
    ),
)


def main(arguments: Sequence[str], console: Console) -> int:
    if not arguments:
        raise OptionError("Create, delete, describe, or change a topic.")
    given = TOOL.options.parse(with_bootstrap_server(arguments, console))
    try:
        check(given, console)
    except ToolError as error:
        console.error(error.message)
        console.error(exception_line(error))
        return 1
    try:
        asyncio.run(_execute(given, console))
    except (KafkaError, ToolError) as error:
        console.print(f"Error while executing topic command : {sentence(error)}")
        console.error(f"[main] ERROR {_JAVA_CLASS} - {exception_line(error)}")
        return 1
    except OptionError as error:
        console.print(f"Error while executing topic command : {error.message}")
        return 1
    return 0


# Options -----------------------------------------------------------------------------------------------


def check(given: Given, console: Console) -> None:
    """Refuses options that exclude each other, in the order of Kafka's tool."""
    if sum(given.has(action) for action in _ACTIONS) != 1:
        raise OptionError(
            "Command must include exactly one action: --list, --describe, --create, --alter or --delete"
        )
    if given.has("delete-config"):
        console.error(
            "delete-config option is no longer supported and deprecated since version 4.0. "
            "The config will be fully removed in future releases."
        )
    if not given.has("bootstrap-server"):
        raise illegal_argument("--bootstrap-server must be specified")
    if given.has("describe") and given.has("if-exists") and not (given.has("topic") or given.has("topic-id")):
        raise OptionError("--topic or --topic-id is required to describe a topic")
    if not given.has("list") and not given.has("describe"):
        require(given, "topic")
    if given.has("alter"):
        if given.has("config"):
            raise OptionError(
                'Option combination "[[config], [bootstrap-server]]" can\'t be used with option "[alter]" '
                "(To alter topic configurations, the kafka-configs tool can be used.)"
            )
        require(given, "partitions")
    _check_invalid(given)


def _check_invalid(given: Given) -> None:
    def only_with(name: str, *actions: str, and_not: Iterable[str] = ()) -> None:
        refuse_with(given, name, [a for a in _ACTIONS if a not in actions] + list(and_not))

    only_with("config", "alter", "create")
    only_with("partitions", "alter", "create")
    only_with("replication-factor", "create")
    only_with("replica-assignment", "alter", "create")
    if given.has("create"):
        refuse_with(given, "replica-assignment", ("partitions", "replication-factor"))
    for report in _REPORTS:
        only_with(report, "describe", and_not=("topics-with-overrides",))
    only_with("topics-with-overrides", "describe", and_not=_REPORTS)
    only_with("if-exists", "alter", "delete", "describe")
    only_with("if-not-exists", "create")
    only_with("exclude-internal", "list", "describe")


def parse_assignment(text: str) -> dict[int, list[int]]:
    """Reads ``1:2,2:3``: the brokers of partition 0, then those of partition 1."""
    found: dict[int, list[int]] = {}
    for index, part in enumerate(text.split(",")):
        brokers = [_broker_id(word) for word in part.split(":")]
        twice = sorted({broker for broker in brokers if brokers.count(broker) > 1})
        if twice:
            raise ToolError(
                "org.apache.kafka.tools.AdminCommandFailedException",
                "Partition replica lists may not contain duplicate entries: " + ",".join(map(str, twice)),
            )
        found[index] = brokers
        if len(brokers) != len(found[0]):
            raise ToolError(
                "org.apache.kafka.tools.AdminOperationException",
                f"Partition {index} has different replication factor: {brokers}",
            )
    return found


def _broker_id(word: str) -> int:
    try:
        return int(word.strip())
    except ValueError:
        raise ToolError("java.lang.NumberFormatException", f'For input string: "{word.strip()}"') from None


def parse_configs(texts: Iterable[str]) -> dict[str, str | None]:
    """The ``name=value`` arguments of ``--config``."""
    found: dict[str, str | None] = {}
    for word in texts:
        parts = re.split(r"\s*=\s*", word)
        if len(parts) != 2 or not parts[1]:
            raise illegal_argument(
                "requirement failed: Invalid topic config: "
                'all configs to be added must be in the format "key=val".'
            )
        found[parts[0].strip()] = parts[1].strip()
    return found


def new_topic(given: Given) -> NewTopic:
    """The topic that ``--create`` describes."""
    name: str = given.value("topic")
    partitions: int | None = given.value("partitions")
    factor: int | None = given.value("replication-factor")
    assignment = given.value("replica-assignment")
    assignments = parse_assignment(assignment) if assignment else {}
    configs = parse_configs(given.values("config"))
    if factor is not None and not 1 <= factor <= _MAX_REPLICATION_FACTOR:
        raise illegal_argument(
            f"The replication factor must be between 1 and {_MAX_REPLICATION_FACTOR} inclusive"
        )
    if partitions is not None and partitions < 1:
        raise illegal_argument("The partitions must be greater than 0")
    if not name:
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION, "The given topic name '' cannot be represented in a request."
        )
    return NewTopic(
        name,
        -1 if partitions is None else partitions,
        -1 if factor is None else factor,
        assignments,
        configs,
    )


# Lines -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reports:
    """What ``--describe`` shows: all partitions, or only those with a problem."""

    under_replicated: bool = False
    under_min_isr: bool = False
    at_min_isr: bool = False
    unavailable: bool = False
    overrides_only: bool = False

    @classmethod
    def of(cls, given: Given) -> "Reports":
        return cls(
            under_replicated=given.has("under-replicated-partitions"),
            under_min_isr=given.has("under-min-isr-partitions"),
            at_min_isr=given.has("at-min-isr-partitions"),
            unavailable=given.has("unavailable-partitions"),
            overrides_only=given.has("topics-with-overrides"),
        )

    @property
    def all_partitions(self) -> bool:
        return not (self.under_replicated or self.under_min_isr or self.at_min_isr or self.unavailable)

    def show(
        self,
        partition: PartitionDescription,
        min_isr: int,
        live: frozenset[int],
        move: Move | None = None,
    ) -> bool:
        has_leader = partition.leader_id >= 0
        return (
            self.all_partitions
            or (self.under_replicated and len(partition.isr) < _replication_factor(partition, move))
            or (self.unavailable and (not has_leader or partition.leader_id not in live))
            or (self.under_min_isr and (not has_leader or len(partition.isr) < min_isr))
            or (self.at_min_isr and len(partition.isr) == min_isr)
        )


def describe_lines(
    topic: TopicDescription,
    configs: Sequence[ConfigEntry],
    live: frozenset[int],
    reports: Reports,
    moves: Mapping[int, Move] | None = None,
) -> list[str]:
    """The lines of one topic for ``--describe``; ``moves`` of its partitions that are under way."""
    moves = moves or {}
    lines = []
    changed = [entry for entry in configs if not entry.is_default]
    if reports.all_partitions and (changed or not reports.overrides_only):
        factor = _replication_factor(topic.partitions[0], moves.get(0))
        lines.append(topic_line(topic, changed, factor))
    if not reports.overrides_only:
        min_isr = next((int(c.value) for c in configs if c.name == "min.insync.replicas" and c.value), 1)
        lines += [
            partition_line(topic.name, p, moves.get(p.index))
            for p in topic.partitions
            if reports.show(p, min_isr, live, moves.get(p.index))
        ]
    return lines


def _replication_factor(partition: PartitionDescription, move: Move | None) -> int:
    """While replicas move, those that come do not count."""
    return len(partition.replicas) - (0 if move is None else len(move.adding))


def topic_line(topic: TopicDescription, configs: Iterable[ConfigEntry], replication_factor: int) -> str:
    topic_id = "" if topic.topic_id == ZERO_UUID else f"\tTopicId: {format_uuid(topic.topic_id)}"
    shown = ",".join(f"{entry.name}={entry.value}" for entry in configs)
    return (
        f"Topic: {topic.name}{topic_id}\tPartitionCount: {len(topic.partitions)}"
        f"\tReplicationFactor: {replication_factor}\tConfigs: {shown}"
    )


def partition_line(topic: str, partition: PartitionDescription, move: Move | None = None) -> str:
    leader = str(partition.leader_id) if partition.leader_id >= 0 else "none"
    moving = ""
    if move is not None:
        moving = f"\tAdding Replicas: {_ids(move.adding)}\tRemoving Replicas: {_ids(move.removing)}"
    return (
        f"\tTopic: {topic}\tPartition: {partition.index}\tLeader: {leader}"
        f"\tReplicas: {_ids(partition.replicas)}\tIsr: {_ids(partition.isr)}{moving}"
        f"\tElr: {_ids(partition.eligible_leader_replicas)}\tLastKnownElr: {_ids(partition.last_known_elr)}"
    )


def _ids(brokers: Iterable[int] | None) -> str:
    return "N/A" if brokers is None else ",".join(str(broker) for broker in brokers)


# The cluster -------------------------------------------------------------------------------------------


async def _execute(given: Given, console: Console) -> None:
    if given.has("create"):
        wanted = new_topic(given)
        if "." in wanted.name or "_" in wanted.name:
            console.print(
                "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') "
                "could collide. To avoid issues it is best to use either, but not both."
            )
    call = "createTopics" if given.has("create") else "listTopics"
    async with await open_admin_cluster(given, console, call=call) as cluster:
        admin = Admin(cluster)
        if given.has("create"):
            await _create(admin, wanted, given.has("if-not-exists"), console)
        elif given.has("list"):
            console.print("\n".join(await _topics(admin, given)))
        elif given.has("alter"):
            await _alter(admin, given)
        elif given.has("delete"):
            raise_errors(await admin.delete_topics(await _topics(admin, given, must_exist=True)))
        else:
            await _describe(admin, given, console)


async def _topics(admin: Admin, given: Given, *, must_exist: bool = False) -> list[str]:
    """The topics that the options select."""
    pattern = given.value("topic")
    names = await admin.list_topics()
    found = select(names, pattern, exclude_internal=given.has("exclude-internal"))
    if must_exist and pattern and not found and not given.has("if-exists"):
        raise illegal_argument(f"Topic '{pattern}' does not exist as expected")
    return found


async def _create(admin: Admin, wanted: NewTopic, if_not_exists: bool, console: Console) -> None:
    try:
        raise_errors(await admin.create_topics([wanted]))
    except KafkaError as error:
        if error.code == ErrorCode.TOPIC_ALREADY_EXISTS and if_not_exists:
            return
        if error.code == ErrorCode.INVALID_CONFIG and (error.message or "").startswith("Invalid value"):
            # Kafka's tool checks values itself, so the error has another name there.
            name = "org.apache.kafka.common.config.ConfigException"
            raise ToolError(name, sentence(error)) from None
        raise
    console.print(f"Created topic {wanted.name}.")


async def _alter(admin: Admin, given: Given) -> None:
    count = given.value("partitions")
    assignment = given.value("replica-assignment")
    assignments = parse_assignment(assignment) if assignment else None
    names = await _topics(admin, given, must_exist=True)
    wanted: dict[str, NewPartitions] = {}
    for name, topic in (await admin.describe_topics(names)).items():
        if isinstance(topic, KafkaError):
            raise topic
        new = None if assignments is None else list(assignments.values())[len(topic.partitions) :]
        wanted[name] = NewPartitions(count, new)
    if wanted:
        raise_errors(await admin.create_partitions(wanted))


async def _describe(admin: Admin, given: Given, console: Console) -> None:
    topics = await _described(admin, given)
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in topics]
    configs: Mapping[ConfigResource, list[ConfigEntry] | KafkaError] = {}
    if resources:
        configs = await admin.describe_configs(resources)
    live = frozenset(broker.node_id for broker in (await admin.describe_cluster()).brokers)
    moves: Mapping[TopicPartition, Move] = {}
    with suppress(KafkaError):  # who may not see them is shown the topics all the same
        moves = await ongoing_moves(admin.cluster)
    for name, topic in topics.items():
        own = {place.partition: move for place, move in moves.items() if place.topic == name}
        entries = configs[ConfigResource(ResourceType.TOPIC, name)]
        if isinstance(entries, KafkaError):
            raise entries
        for line in describe_lines(topic, entries, live, Reports.of(given), own):
            console.print(line)


async def _described(admin: Admin, given: Given) -> dict[str, TopicDescription]:
    topic_id = _topic_id(given.value("topic-id"))
    if topic_id == ZERO_UUID:
        names = await _topics(admin, given, must_exist=True)
    else:
        name = (await admin.topic_names([topic_id])).get(topic_id)
        if not isinstance(name, str) and not given.has("if-exists"):
            raise illegal_argument(f"TopicId '{format_uuid(topic_id)}' does not exist as expected")
        names = [name] if isinstance(name, str) else []
    limit = given.value("partition-size-limit-per-response") or 2000
    outcomes = await admin.describe_topics(names, partition_limit=limit)
    raise_errors(outcomes)
    topics = {name: topic for name, topic in outcomes.items() if isinstance(topic, TopicDescription)}
    if topic_id != ZERO_UUID:
        # Kafka's tool describes a topic id with a request that has no eligible leader replicas.
        topics = {name: _without_elr(topic) for name, topic in topics.items()}
    return topics


def _without_elr(topic: TopicDescription) -> TopicDescription:
    hidden = (replace(p, eligible_leader_replicas=None, last_known_elr=None) for p in topic.partitions)
    return replace(topic, partitions=tuple(hidden))


def _topic_id(text: str | None) -> bytes:
    if not text:
        return ZERO_UUID
    try:
        return parse_uuid(text)
    except ValueError:
        raise illegal_argument(
            f"Input string `{text}` is no id of a topic: 22 characters of base64"
        ) from None
