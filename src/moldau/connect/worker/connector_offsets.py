"""Offsets of connectors over REST: places of sources, and what the group of a sink has committed.

Invariant: offsets change only while a connector is stopped.
"""

from collections.abc import Mapping
from typing import Any

from moldau.base.names import TopicPartition
from moldau.client.admin.admin import Admin
from moldau.client.consumer.consumer import END
from moldau.client.groups.descriptions import CommittedOffset
from moldau.client.groups.groups import Groups
from moldau.client.groups.offset_resets import Reset, ResetTo, new_offsets
from moldau.connect.config.providers import resolved
from moldau.connect.connector import Place, SourceConnector
from moldau.connect.data.numbers import parse_integer
from moldau.connect.data.text import java_text
from moldau.connect.data.types import Int32, Int64, Sized
from moldau.connect.errors import ConnectException, NumberFormatException
from moldau.connect.worker.herder import Herder
from moldau.connect.worker.state import Target
from moldau.connect.worker.tasks.client_options import ClientOptions, group_of
from moldau.connect.worker.tasks.on_spark import runs_on_spark
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.web.problems import http_problem

_ALTERED = "The offsets for this connector have been altered successfully"
#: What the coordinator says of a group that still has members.
_STILL_USED = frozenset(
    {ErrorCode.NON_EMPTY_GROUP, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC}
)
_RESET = "The offsets for this connector have been reset successfully"


async def read_offsets(herder: Herder, name: str) -> dict[str, Any]:
    config = herder.config(name)
    if herder.kind(config) == "source":
        found = [{"partition": partition, "offset": offset} for partition, offset in herder.offsets.of(name)]
        return {"offsets": found}
    try:
        committed = await Groups(herder.cluster).committed(group_of(name, config))
    except KafkaError as error:
        said = f"Failed to retrieve consumer group offsets for sink connector {name}: {error}"
        raise http_problem(500, said) from error
    return {
        "offsets": [
            {
                "partition": {"kafka_partition": at.partition, "kafka_topic": at.topic},
                "offset": {"kafka_offset": each.offset},
            }
            for at, each in sorted(committed.items())
            if isinstance(each, CommittedOffset)
        ]
    }


async def alter_offsets(herder: Herder, name: str, body: Mapping[str, Any]) -> dict[str, str]:
    config = herder.config(name)
    given = body.get("offsets")
    if not isinstance(given, list) or not given:
        raise http_problem(400, "Partitions / offsets need to be provided for an alter offsets request")
    _require_stopped(herder, name)
    pairs = [_pair(each) for each in given]
    if herder.kind(config) == "source":
        await _alter_source(herder, name, pairs)
    else:
        await _alter_sink(herder, name, pairs)
    return {"message": _ALTERED}


async def reset_offsets(herder: Herder, name: str) -> dict[str, str]:
    config = herder.config(name)
    _require_stopped(herder, name)
    if herder.kind(config) == "source":
        await herder.fence(name)
        store = await herder.offsets_of(name, config)
        store.forget(name)
        await store.flush()
    else:
        try:
            outcome = await _reset_group(herder, name)
        except KafkaError as error:
            outcome = error
        if outcome is not None and outcome.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise http_problem(500, _failed("reset", name, outcome)) from outcome
        await herder.forget_in_sink(name, None)
    return {"message": _RESET}


async def _reset_group(herder: Herder, name: str) -> KafkaError | None:
    config, groups = herder.config(name), Groups(herder.cluster)
    group, beginning = group_of(name, config), _beginning(herder, name)
    if beginning is None:
        return (await groups.delete([group]))[group]
    committed = await groups.committed(group)
    topics = await herder.cluster.topics({at.topic for at in committed})
    there = {topic.name for topic in topics if topic.partitions}
    known = [at for at in committed if at.topic in there]
    found = await new_offsets(Admin(herder.cluster), beginning, known, {})
    new = {at: CommittedOffset(offset) for at, offset in found.offsets.items()}
    outcomes = await groups.commit(group, new) if new else {}
    return next((outcome for outcome in outcomes.values() if outcome is not None), None)


def _beginning(herder: Herder, name: str) -> Reset | None:
    """Where a sink on Spark begins anew; None for others. Its checkpoint gives way to an offset that somebody
    has committed, not to one that is missing."""
    config = herder.config(name)
    if not runs_on_spark(config, herder.worker):
        return None
    latest = ClientOptions.of(config, herder.worker).consumer["offset_reset"] == END
    return Reset(ResetTo.LATEST if latest else ResetTo.EARLIEST)


def _require_stopped(herder: Herder, name: str) -> None:
    if herder.state.target(name) is not Target.STOPPED:
        raise http_problem(
            400,
            "Connectors must be in the STOPPED state before their offsets can be modified. This can be done "
            "for the specified connector by issuing a 'PUT' request to the "
            f"'/connectors/{name}/stop' endpoint",
        )


def _pair(node: Any) -> tuple[Place | None, Place | None]:
    if not isinstance(node, dict):
        raise http_problem(400, "An offset is an object with a partition and an offset")
    partition, offset = node.get("partition"), node.get("offset")
    for part in (partition, offset):
        if part is not None and not isinstance(part, dict):
            raise http_problem(400, "A partition and an offset are objects")
    return partition, offset


async def _alter_source(herder: Herder, name: str, pairs: list[tuple[Place | None, Place | None]]) -> None:
    config = herder.config(name)
    connector = herder.plugin_of(config)(resolved(config, herder.worker.providers))
    assert isinstance(connector, SourceConnector)
    known: list[tuple[Place, Place | None]] = []
    for partition, offset in pairs:
        if partition is None:
            raise http_problem(500, "Partition objects cannot be null")
        for field, value in (offset or {}).items():
            beyond = isinstance(value, int) and not Int64.holds(value)
            if beyond or isinstance(value, dict | list):
                kind = "class java.math.BigInteger"
                if not beyond:
                    kind = "MAP" if isinstance(value, dict) else "ARRAY"
                raise http_problem(
                    500,
                    f"Offsets may only contain primitive types as values, but field {field} contains {kind}",
                )
        known.append((partition, offset))
    try:
        connector.check_offsets(known)
    except ConnectException as error:
        raise http_problem(500, error.message) from error
    await herder.fence(name)
    store = await herder.offsets_of(name, config)
    store.put(name, known)
    await store.flush()


async def _alter_sink(herder: Herder, name: str, pairs: list[tuple[Place | None, Place | None]]) -> None:
    asked: dict[TopicPartition, CommittedOffset | Reset | None] = {}
    beginning = _beginning(herder, name)
    for partition, offset in pairs:
        at = _sink_partition(partition)
        asked[at] = beginning if offset is None else _sink_offset(offset)
    forgotten = [at for at, each in asked.items() if each is None]
    resets = {at: each for at, each in asked.items() if isinstance(each, Reset)}
    wanted = {at: each for at, each in asked.items() if isinstance(each, CommittedOffset)}
    if any(each.offset < 0 for each in wanted.values()):
        raise http_problem(500, f"Failed to modify offsets for sink connector {name}")
    groups, group = Groups(herder.cluster), group_of(name, herder.config(name))
    try:
        for at in wanted:
            topic = await herder.cluster.topic(at.topic)
            if at.partition not in {each.index for each in topic.partitions}:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        for at, reset in resets.items():
            found = await new_offsets(Admin(herder.cluster), reset, [at], {})
            wanted[at] = CommittedOffset(found.offsets[at])
        outcomes: dict[TopicPartition, KafkaError | None] = {}
        if wanted:
            outcomes |= await groups.commit(group, wanted)
        if forgotten:
            outcomes |= await groups.delete_offsets(group, forgotten)
    except KafkaError as error:
        raise http_problem(500, _failed("alter", name, error)) from error
    for outcome in outcomes.values():
        if outcome is not None:
            raise http_problem(500, _failed("alter", name, outcome)) from outcome
    await herder.forget_in_sink(name, [*wanted, *forgotten])


def _failed(what: str, name: str, error: KafkaError) -> str:
    said = f"Failed to {what} consumer group offsets for connector {name}"
    if error.code not in _STILL_USED:
        return said
    return (
        f"{said} either because its tasks haven't stopped completely yet or the connector was resumed before "
        f"the request to {what} its offsets could be successfully completed. If the connector is in a "
        "stopped state, this operation can be safely retried. If it doesn't eventually succeed, the Connect "
        "cluster may need to be restarted to get rid of the zombie sink tasks."
    )


def _sink_partition(partition: Place | None) -> TopicPartition:
    found = partition or {}
    if found.get("kafka_topic") is None or found.get("kafka_partition") is None:
        raise http_problem(
            400,
            "The partition for a sink connector offset must contain the keys 'kafka_topic' and "
            "'kafka_partition'",
        )
    number = _whole(found["kafka_partition"], Int32)
    if number is None:
        raise http_problem(
            400,
            "Failed to parse the following Kafka partition value in the provided offsets: "
            f"'{java_text(found['kafka_partition'])}'. Partition values for sink connectors need to be "
            "integers.",
        )
    return TopicPartition(java_text(found["kafka_topic"]), number)


def _sink_offset(offset: Place) -> CommittedOffset | Reset:
    """An offset or, beyond Kafka, a time: that of the first record at or after it."""
    if offset.get("kafka_timestamp") is not None:
        millis = _whole(offset["kafka_timestamp"], Int64)
        if millis is None or millis < 0:
            raise http_problem(400, "kafka_timestamp is a number of milliseconds since 1970")
        return Reset(ResetTo.TIMESTAMP, millis)
    if offset.get("kafka_offset") is None:
        raise http_problem(
            400, "The offset for a sink connector should either be null or contain the key 'kafka_offset'"
        )
    number = _whole(offset["kafka_offset"], Int64)
    if number is None:
        raise http_problem(
            400,
            "Failed to parse the following Kafka offset value in the provided offsets: "
            f"'{java_text(offset['kafka_offset'])}'. Offset values for sink connectors need to be integers.",
        )
    return CommittedOffset(number)


def _whole(value: object, width: type[Sized]) -> int | None:
    try:
        return None if isinstance(value, bool | float) else int(parse_integer(str(value), width))
    except NumberFormatException:
        return None
