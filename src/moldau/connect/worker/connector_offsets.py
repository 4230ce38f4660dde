"""Offsets of connectors over REST: places of sources, and what the group of a sink has committed.

Invariant: offsets change only while a connector is stopped.
"""

from collections.abc import Mapping
from typing import Any

from moldau.base.names import TopicPartition
from moldau.client.groups.descriptions import CommittedOffset
from moldau.client.groups.groups import Groups
from moldau.connect.connector import Place, SourceConnector
from moldau.connect.data.text import java_text
from moldau.connect.errors import ConnectException
from moldau.connect.worker.herder import Herder
from moldau.connect.worker.state import Target
from moldau.connect.worker.tasks.sink_body import group_of
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.web.problems import http_problem

_ALTERED = "The offsets for this connector have been altered successfully"
_RESET = "The offsets for this connector have been reset successfully"


async def read_offsets(herder: Herder, name: str) -> dict[str, Any]:
    if herder.kind(herder.config(name)) == "source":
        found = [{"partition": partition, "offset": offset} for partition, offset in herder.offsets.of(name)]
        return {"offsets": found}
    committed = await Groups(herder.cluster).committed(group_of(name))
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
        outcome = (await Groups(herder.cluster).delete([group_of(name)]))[group_of(name)]
        if outcome is not None and outcome.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise http_problem(500, f"Failed to reset consumer group offsets for connector {name}")
        await herder.forget_in_sink(name, None)
    return {"message": _RESET}


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
    connector = herder.plugin_of(herder.config(name))(herder.config(name))
    assert isinstance(connector, SourceConnector)
    known: list[tuple[Place, Place | None]] = []
    for partition, offset in pairs:
        if partition is None:
            raise http_problem(500, "Partition objects cannot be null")
        for field, value in (offset or {}).items():
            if isinstance(value, dict | list):
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
    store = await herder.offsets_of(name, herder.config(name))
    store.put(name, known)
    await store.flush()


async def _alter_sink(herder: Herder, name: str, pairs: list[tuple[Place | None, Place | None]]) -> None:
    wanted: dict[TopicPartition, CommittedOffset] = {}
    forgotten: list[TopicPartition] = []
    for partition, offset in pairs:
        at = _sink_partition(partition)
        if offset is None:
            forgotten.append(at)
        else:
            wanted[at] = CommittedOffset(_sink_offset(offset))
    if any(each.offset < 0 for each in wanted.values()):
        raise http_problem(500, f"Failed to modify offsets for sink connector {name}")
    groups = Groups(herder.cluster)
    try:
        for at in wanted:
            topic = await herder.cluster.topic(at.topic)
            if at.partition not in {each.index for each in topic.partitions}:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        outcomes: dict[TopicPartition, KafkaError | None] = {}
        if wanted:
            outcomes |= await groups.commit(group_of(name), wanted)
        if forgotten:
            outcomes |= await groups.delete_offsets(group_of(name), forgotten)
    except KafkaError as error:
        raise http_problem(500, f"Failed to alter consumer group offsets for connector {name}") from error
    if any(outcome is not None for outcome in outcomes.values()):
        raise http_problem(500, f"Failed to alter consumer group offsets for connector {name}")
    await herder.forget_in_sink(name, [*wanted, *forgotten])


def _sink_partition(partition: Place | None) -> TopicPartition:
    found = partition or {}
    if found.get("kafka_topic") is None or found.get("kafka_partition") is None:
        raise http_problem(
            400,
            "The partition for a sink connector offset must contain the keys 'kafka_topic' and "
            "'kafka_partition'",
        )
    number = _whole(found["kafka_partition"])
    if number is None:
        raise http_problem(
            400,
            "Failed to parse the following Kafka partition value in the provided offsets: "
            f"'{java_text(found['kafka_partition'])}'. Partition values for sink connectors need to be "
            "integers.",
        )
    return TopicPartition(java_text(found["kafka_topic"]), number)


def _sink_offset(offset: Place) -> int:
    if offset.get("kafka_offset") is None:
        raise http_problem(
            400, "The offset for a sink connector should either be null or contain the key 'kafka_offset'"
        )
    number = _whole(offset["kafka_offset"])
    if number is None:
        raise http_problem(
            400,
            "Failed to parse the following Kafka offset value in the provided offsets: "
            f"'{java_text(offset['kafka_offset'])}'. Offset values for sink connectors need to be integers.",
        )
    return number


def _whole(value: object) -> int | None:
    try:
        return None if isinstance(value, bool | float) else int(str(value))
    except ValueError:
        return None
