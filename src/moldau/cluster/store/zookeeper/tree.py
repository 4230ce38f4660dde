"""The znodes that people and tools know, as Kafka 3.9 wrote them, for the records of one append.

Pure: two images and the records between them become creations, changes and removals of znodes.

Invariant: paths, JSON and the order of its keys are Kafka's. These znodes are written for others to read; the
metadata itself is the log, and nothing is ever read back from here.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from moldau.base.names import format_uuid
from moldau.cluster.image import BrokerImage, ClusterImage, PartitionImage, TopicImage
from moldau.cluster.records import (
    BrokerRegistered,
    ClusterCreated,
    ConfigChanged,
    PartitionChanged,
    ProducerIdsAllocated,
    Record,
    ResourceType,
    TopicCreated,
    TopicDeleted,
)

#: What the first broker of Kafka 3.9 makes on an empty ZooKeeper, in its order; none of them has data.
ROOTS = (
    "/consumers",
    "/brokers",
    "/brokers/ids",
    "/brokers/topics",
    "/config",
    "/config/changes",
    "/admin",
    "/admin/delete_topics",
    "/brokers/seqid",
    "/isr_change_notification",
    "/latest_producer_id_block",
    "/log_dir_event_notification",
    "/config/topics",
    "/config/clients",
    "/config/users",
    "/config/brokers",
    "/config/ips",
    "/cluster",
)
FEATURES = "/feature"
_CONFIGS = {
    ResourceType.TOPIC: "/config/topics",
    ResourceType.BROKER: "/config/brokers",
}
#: Only the brokers read these when ``zookeeper.set.acl`` is on.
SENSITIVE = ("/config/users", "/config/brokers", "/moldau")


class Create(NamedTuple):
    """A new znode; Kafka gives those that only have children no data at all."""

    path: str
    data: bytes | None = None


class SetData(NamedTuple):
    path: str
    data: bytes


class Delete(NamedTuple):
    path: str


Change = Create | SetData | Delete


def changes(before: ClusterImage, after: ClusterImage, records: Sequence[Record]) -> list[Change]:
    """What an append changes in the tree, in an order in which parents come before children."""
    made: list[Change] = []
    deleted = {record.topic_id for record in records if isinstance(record, TopicDeleted)}
    for topic_id in dict.fromkeys(
        record.topic_id
        for record in records
        if isinstance(record, TopicCreated | PartitionChanged | TopicDeleted)
    ):
        old, new = before.topics_by_id.get(topic_id), after.topics_by_id.get(topic_id)
        if old is not None and (new is None or topic_id in deleted):
            made.extend(_topic_gone(before, old))
        if new is not None:
            made.extend(_topic_changed(old, new, after))
    made.extend(_config_changes(before, after, records))
    for record in records:
        if isinstance(record, ClusterCreated):
            made.append(Create("/cluster/id", _json({"version": "1", "id": record.cluster_id})))
        elif isinstance(record, ProducerIdsAllocated):
            made.append(SetData("/latest_producer_id_block", _producer_ids(record)))
    return made


def broker(image: BrokerImage, now_ms: int) -> bytes:
    """The data of ``/brokers/ids/<id>``."""
    plain = next((each for each in image.listeners if each.security_protocol == "PLAINTEXT"), None)
    value: dict[str, Any] = {
        "features": {},
        "listener_security_protocol_map": {each.name: each.security_protocol for each in image.listeners},
        "endpoints": [str(each) for each in image.listeners],
    }
    if image.rack is not None:
        value["rack"] = image.rack
    value |= {
        "jmx_port": -1,
        "port": -1 if plain is None else plain.port,
        "host": None if plain is None else plain.host,
        "version": 5,
        "timestamp": str(now_ms),
    }
    return _json(value)


def registered(records: Iterable[Record], broker_id: int) -> bool:
    """Whether a broker has registered with these records, and so has new data."""
    return any(isinstance(each, BrokerRegistered) and each.broker_id == broker_id for each in records)


def controller(broker_id: int, now_ms: int) -> bytes:
    value = {"version": 2, "brokerid": broker_id, "timestamp": str(now_ms), "kraftControllerEpoch": -1}
    return _json(value)


def features() -> bytes:
    return _json({"features": {}, "version": 2, "status": 1})


# --- topics ----------------------------------------------------------------------------------------------


def _topic_changed(old: TopicImage | None, new: TopicImage, image: ClusterImage) -> list[Change]:
    path = f"/brokers/topics/{new.name}"
    made: list[Change] = []
    known = () if old is None else old.partitions
    if old is None:
        configs = image.configs(ResourceType.TOPIC, new.name)
        made.append(Create(f"/config/topics/{new.name}", _config(configs)))
        made.append(Create(path, _topic(new)))
        made.append(Create(f"{path}/partitions"))
    elif _replicas(old) != _replicas(new):
        made.append(SetData(path, _topic(new)))
    for partition in new.partitions[len(known) :]:
        made.append(Create(f"{path}/partitions/{partition.partition}"))
        made.append(Create(_state_path(path, partition), _state(partition, image.controller_epoch)))
    for before, partition in zip(known, new.partitions, strict=False):
        if before != partition:
            made.append(SetData(_state_path(path, partition), _state(partition, image.controller_epoch)))
    return made


def _topic_gone(image: ClusterImage, topic: TopicImage) -> list[Change]:
    path = f"/brokers/topics/{topic.name}"
    made: list[Change] = []
    for partition in topic.partitions:
        made.append(Delete(_state_path(path, partition)))
        made.append(Delete(f"{path}/partitions/{partition.partition}"))
    made += (Delete(f"{path}/partitions"), Delete(path), Delete(f"/config/topics/{topic.name}"))
    return made


def _state_path(topic_path: str, partition: PartitionImage) -> str:
    return f"{topic_path}/partitions/{partition.partition}/state"


def _replicas(topic: TopicImage) -> list[tuple[tuple[int, ...], ...]]:
    return [(each.replicas, each.adding_replicas, each.removing_replicas) for each in topic.partitions]


def _topic(topic: TopicImage) -> bytes:
    moving = {
        name: {str(each.partition): list(ids) for each in topic.partitions if (ids := getattr(each, name))}
        for name in ("adding_replicas", "removing_replicas")
    }
    return _json(
        {
            "partitions": {str(each.partition): list(each.replicas) for each in topic.partitions},
            "topic_id": format_uuid(topic.topic_id),
            **moving,
            "version": 3,
        }
    )


def _state(partition: PartitionImage, controller_epoch: int) -> bytes:
    return _json(
        {
            "controller_epoch": controller_epoch,
            "leader": partition.leader,
            "version": 1,
            "leader_epoch": partition.leader_epoch,
            "isr": list(partition.isr),
        }
    )


# --- configs and producer ids ----------------------------------------------------------------------------


def _config_changes(before: ClusterImage, after: ClusterImage, records: Sequence[Record]) -> list[Change]:
    created = {record.name for record in records if isinstance(record, TopicCreated)}
    made: list[Change] = []
    for resource in dict.fromkeys(
        (record.resource_type, record.resource_name)
        for record in records
        if isinstance(record, ConfigChanged)
    ):
        kind, name = resource
        root = _CONFIGS.get(kind)
        if root is None or (
            kind is ResourceType.TOPIC and (name in created or name not in after.topics_by_name)
        ):
            continue
        path = f"{root}/{name or '<default>'}"
        data = _config(after.configs(*resource))
        # A topic's znode is there from its creation on; a broker's is made with its first config and stays.
        exists = kind is ResourceType.TOPIC or resource in before.overrides
        made.append(SetData(path, data) if exists else Create(path, data))
    return made


def _config(configs: Any) -> bytes:
    return _json({"version": 1, "config": dict(configs)})


def _producer_ids(record: ProducerIdsAllocated) -> bytes:
    return _json(
        {
            "version": 1,
            "broker": record.broker_id,
            "block_start": str(record.first_id),
            "block_end": str(record.first_id + record.count - 1),
        }
    )


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
