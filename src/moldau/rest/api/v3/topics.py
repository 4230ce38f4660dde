"""v3: topics, their partitions and replicas, moves of replicas, elections of leaders."""

import asyncio
from typing import Any

from moldau.base.names import TopicPartition
from moldau.client.admin.admin import Admin, raise_errors
from moldau.client.admin.descriptions import NewPartitions, NewTopic, PartitionDescription, TopicDescription
from moldau.client.admin.replicas import PREFERRED, UNCLEAN, Move, elect_leaders, ongoing_moves, reassign
from moldau.client.transport.cluster import NO_OPERATIONS
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.rest import problems
from moldau.rest.api.call import RestCall, entries_of
from moldau.rest.api.v3.clusters import broker_of
from moldau.rest.api.v3.resources import cluster_of, collection, related, resource
from moldau.security.acls import Operation
from moldau.web.routes import Answer

_MAX_NUMBER = (1 << 31) - 1
#: How long a broker may take to hear of a new topic, and how often it is asked.
_HEARD_SECONDS = 10.0
_LOOK_SECONDS = 0.05


async def list_topics(call: RestCall) -> Any:
    session, _ = await cluster_of(call)
    found = await session.admin.describe_topics()
    shown = call.flag("include_authorized_operations")
    topics = [each for _, each in sorted(found.items()) if isinstance(each, TopicDescription)]
    return collection(call, "KafkaTopicList", ("topics",), [_topic(call, each, shown) for each in topics])


async def create_topic(call: RestCall) -> Any:
    session, _ = await cluster_of(call)
    body = await call.body()
    wanted, validate_only = _new_topic(body), body.get("validate_only") is True
    made = await session.admin.create_topics([wanted], validate_only=validate_only)
    raise_errors(made)
    if validate_only:
        (found,) = made.values()
        assert not isinstance(found, KafkaError)
        fields = {"partitions_count": max(found.num_partitions, 0)}
        return Answer(_topic_fields(call, wanted.name, False, max(found.replication_factor, 0), fields), 200)
    shown = _topic(call, await _new_description(session.admin, wanted.name), False)
    return Answer(shown, 201, (("Location", shown["metadata"]["self"]),))


async def _new_description(admin: Admin, name: str) -> TopicDescription:
    """A topic that was made this moment: the broker that is asked may not have heard of it yet."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _HEARD_SECONDS
    while True:
        described = (await admin.describe_topics([name]))[name]
        if not isinstance(described, KafkaError):
            return described
        if described.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or loop.time() >= deadline:
            raise described
        await asyncio.sleep(_LOOK_SECONDS)


def _new_topic(body: dict[str, Any]) -> NewTopic:
    name = body.get("topic_name")
    if not isinstance(name, str) or not name:
        raise problems.bad_request("topic_name is the name of a topic")
    assignments: dict[int, list[int]] = {}
    if body.get("replicas_assignments") is not None:
        for each in entries_of(body, "replicas_assignments"):
            brokers = each.get("broker_ids")
            if not isinstance(brokers, list) or not all(_is_number(number) for number in brokers):
                raise problems.bad_request("broker_ids is a list of numbers")
            assignments[_number(each, "partition_id", 0)] = brokers
    configs: dict[str, str | None] = {}
    if body.get("configs") is not None:
        for each in entries_of(body, "configs"):
            key, value = each.get("name"), each.get("value")
            if not isinstance(key, str) or not isinstance(value, str | None):
                raise problems.bad_request("configs have a name and a value, both texts")
            configs[key] = value
    partitions, replicas = _number(body, "partitions_count", -1), _number(body, "replication_factor", -1)
    if assignments:
        partitions = replicas = -1
    return NewTopic(name, partitions, replicas, assignments, configs)


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_NUMBER


def _number(body: dict[str, Any], name: str, default: int) -> int:
    found = body.get(name)
    if found is None:
        return default
    if not isinstance(found, int) or not _is_number(found):
        raise problems.bad_request(f"{name} is a number")
    return found


async def get_topic(call: RestCall) -> Any:
    return _topic(call, await _described(call), call.flag("include_authorized_operations"))


async def update_partition_count(call: RestCall) -> Any:
    session, _ = await cluster_of(call)
    count = _number(await call.body(), "partitions_count", -1)
    if count < 1:
        raise problems.bad_request("partitions_count is a number above 0")
    raise_errors(await session.admin.create_partitions({call.topic(): NewPartitions(count)}))
    return _topic(call, await _described(call), False)


async def delete_topic(call: RestCall) -> Any:
    session, _ = await cluster_of(call)
    raise_errors(await session.admin.delete_topics([call.topic()]))
    await session.cluster.topics([call.topic()])  # what is known of it is forgotten
    return Answer(status=204)


async def _described(call: RestCall) -> TopicDescription:
    session, _ = await cluster_of(call)
    name = call.topic()
    found = (await session.admin.describe_topics([name])).get(name)
    if isinstance(found, TopicDescription):
        return found
    raise found or problems.unknown_topic_or_partition()


def _topic(call: RestCall, topic: TopicDescription, with_operations: bool) -> dict[str, Any]:
    fields: dict[str, Any] = {"partitions_count": len(topic.partitions)}
    if with_operations and topic.authorized_operations != NO_OPERATIONS:
        fields["authorized_operations"] = [
            each.name for each in Operation if each > 1 and topic.authorized_operations >> each & 1
        ]
    return _topic_fields(call, topic.name, topic.is_internal, topic.replication_factor, fields)


def _topic_fields(
    call: RestCall, name: str, is_internal: bool, replication_factor: int, fields: dict[str, Any]
) -> dict[str, Any]:
    path = ("topics", name)
    return resource(
        call,
        "KafkaTopic",
        path,
        f"topic={name}",
        topic_name=name,
        is_internal=is_internal,
        replication_factor=replication_factor,
        **fields,
        partitions=related(call, *path, "partitions"),
        configs=related(call, *path, "configs"),
        partition_reassignments=related(call, *path, "partitions", "-", "reassignment"),
    )


# Partitions and replicas -------------------------------------------------------------------------------


async def list_partitions(call: RestCall) -> Any:
    topic = await _described(call)
    path = ("topics", topic.name, "partitions")
    shown = [_partition(call, topic.name, each) for each in topic.partitions]
    return collection(call, "KafkaPartitionList", path, shown)


async def get_partition(call: RestCall) -> Any:
    return _partition(call, call.topic(), await _one_partition(call))


async def _one_partition(call: RestCall) -> PartitionDescription:
    number = call.path_number("partition", problems.unknown_topic_or_partition)
    for each in (await _described(call)).partitions:
        if each.index == number:
            return each
    raise problems.unknown_topic_or_partition()


def _partition(call: RestCall, topic: str, partition: PartitionDescription) -> dict[str, Any]:
    path = ("topics", topic, "partitions", partition.index)
    fields: dict[str, Any] = {}
    if partition.leader_id >= 0:
        fields["leader"] = related(call, *path, "replicas", partition.leader_id)
    return resource(
        call,
        "KafkaPartition",
        path,
        f"topic={topic}/partition={partition.index}",
        topic_name=topic,
        partition_id=partition.index,
        **fields,
        replicas=related(call, *path, "replicas"),
        reassignment=related(call, *path, "reassignment"),
    )


async def list_replicas(call: RestCall) -> Any:
    partition = await _one_partition(call)
    path = ("topics", call.topic(), "partitions", partition.index, "replicas")
    shown = [_replica(call, call.topic(), partition, each) for each in partition.replicas]
    return collection(call, "KafkaReplicaList", path, shown)


async def get_replica(call: RestCall) -> Any:
    partition = await _one_partition(call)
    missing = problems.not_found(f"Replica {call.parameters['broker'][:20]}")
    number = call.path_number("broker", lambda: missing)
    if number not in partition.replicas:
        raise missing
    return _replica(call, call.topic(), partition, number)


async def list_broker_replicas(call: RestCall) -> Any:
    """Every replica that a broker has."""
    broker = await broker_of(call)
    session = await call.session()
    found = await session.admin.describe_topics()
    shown = [
        _replica(call, name, partition, broker.node_id)
        for name, topic in sorted(found.items())
        if isinstance(topic, TopicDescription)
        for partition in topic.partitions
        if broker.node_id in partition.replicas
    ]
    path = ("brokers", broker.node_id, "partition-replicas")
    return collection(call, "KafkaReplicaList", path, shown)


def _replica(call: RestCall, topic: str, partition: PartitionDescription, broker: int) -> dict[str, Any]:
    return resource(
        call,
        "KafkaReplica",
        ("topics", topic, "partitions", partition.index, "replicas", broker),
        f"topic={topic}/partition={partition.index}/replica={broker}",
        topic_name=topic,
        partition_id=partition.index,
        broker_id=broker,
        is_leader=broker == partition.leader_id,
        is_in_sync=broker in partition.isr,
        broker=related(call, "brokers", broker),
    )


# Moves and elections -----------------------------------------------------------------------------------


async def list_all_reassignments(call: RestCall) -> Any:
    session, _ = await cluster_of(call)
    moves = await ongoing_moves(session.cluster)
    path = ("topics", "-", "partitions", "-", "reassignment")
    return collection(call, "KafkaReassignmentList", path, _moves(call, moves))


async def list_topic_reassignments(call: RestCall) -> Any:
    topic = await _described(call)
    session = await call.session()
    moves = await ongoing_moves(
        session.cluster, [TopicPartition(topic.name, each.index) for each in topic.partitions]
    )
    path = ("topics", topic.name, "partitions", "-", "reassignment")
    return collection(call, "KafkaReassignmentList", path, _moves(call, moves))


async def get_reassignment(call: RestCall) -> Any:
    partition = TopicPartition(call.topic(), (await _one_partition(call)).index)
    move = (await ongoing_moves((await call.session()).cluster, [partition])).get(partition)
    if move is None:
        raise problems.not_found(f"Reassignment of {partition}")
    return _move(call, partition, move)


async def start_reassignment(call: RestCall) -> Any:
    """Of our own: moves a partition to other brokers; null cancels."""
    partition = TopicPartition(call.topic(), (await _one_partition(call)).index)
    brokers = (await call.body()).get("broker_ids")
    if brokers is not None and (
        not isinstance(brokers, list) or not brokers or not all(_is_number(each) for each in brokers)
    ):
        raise problems.bad_request("broker_ids is a list of numbers, or null to cancel")
    wanted = None if brokers is None else tuple(brokers)
    raise_errors(await reassign((await call.session()).cluster, {partition: wanted}))
    return Answer(status=204)


def _moves(call: RestCall, moves: dict[TopicPartition, Move]) -> list[Any]:
    return [_move(call, partition, move) for partition, move in sorted(moves.items())]


def _move(call: RestCall, partition: TopicPartition, move: Move) -> dict[str, Any]:
    path = ("topics", partition.topic, "partitions", partition.partition)
    return resource(
        call,
        "KafkaReassignment",
        (*path, "reassignment"),
        f"topic={partition.topic}/partition={partition.partition}/reassignment",
        topic_name=partition.topic,
        partition_id=partition.partition,
        adding_replicas=list(move.adding),
        removing_replicas=list(move.removing),
        replicas=related(call, *path, "replicas"),
    )


async def elect(call: RestCall) -> Any:
    """Of our own: elects leaders, of these partitions or of all."""
    session, _ = await cluster_of(call)
    body = await call.optional_body()
    kind = body.get("election_type") or "PREFERRED"
    if kind not in ("PREFERRED", "UNCLEAN"):
        raise problems.bad_request("election_type is PREFERRED or UNCLEAN")
    partitions = None
    if body.get("partitions") is not None:
        partitions = []
        for each in entries_of(body, "partitions"):
            topic = each.get("topic_name")
            if not isinstance(topic, str):
                raise problems.bad_request("topic_name is the name of a topic")
            partitions.append(TopicPartition(topic, _number(each, "partition_id", 0)))
    outcomes = await elect_leaders(session.cluster, PREFERRED if kind == "PREFERRED" else UNCLEAN, partitions)
    data = [
        {
            "topic_name": partition.topic,
            "partition_id": partition.partition,
            "error_code": None if error is None else problems.from_kafka(error).code,
            "message": None if error is None else str(error),
        }
        for partition, error in sorted(outcomes.items())
    ]
    return collection(call, "KafkaLeaderElectionList", ("leader-elections",), data)
