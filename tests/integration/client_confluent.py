"""confluent-kafka (librdkafka) behind the common words."""

import time
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

import confluent_kafka as ck
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.integration.client_contract import (
    DEFAULT_CONSUMING,
    DEFAULT_PRODUCING,
    PATIENCE_SECONDS,
    Cluster,
    Consuming,
    Pending,
    Producing,
    Received,
    Refused,
    Sent,
)

_TIMESTAMP_TYPES = {ck.TIMESTAMP_CREATE_TIME: 0, ck.TIMESTAMP_LOG_APPEND_TIME: 1}
_SPECS = {
    "earliest": OffsetSpec.earliest,
    "latest": OffsetSpec.latest,
    "max_timestamp": OffsetSpec.max_timestamp,
}


def _refused(error: ck.KafkaError) -> Refused:
    return Refused(error.code() if error.code() >= 0 else error.name())


def _answer(future: "Future[Any]") -> Any:
    try:
        return future.result(PATIENCE_SECONDS)
    except ck.KafkaException as error:
        raise _refused(error.args[0]) from error


class ConfluentProducer:
    def __init__(self, bootstrap_servers: str, how: Producing) -> None:
        self._pending = Pending()
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap_servers,
            "acks": how.acks,
            "enable.idempotence": how.idempotent,
            "compression.type": how.compression,
            "linger.ms": how.linger_ms,
            "log_level": 0,
            "reconnect.backoff.max.ms": 500,
        }
        if how.max_request_bytes is not None:
            settings["message.max.bytes"] = how.max_request_bytes
        self._producer = ck.Producer(settings)

    def send(self, topic: str, record: Sent, partition: int | None = 0) -> None:
        place = len(self._pending.outcomes)
        outcomes = self._pending.outcomes
        outcomes.append(None)

        def delivered(error: ck.KafkaError | None, message: ck.Message) -> None:
            outcomes[place] = message.offset() if error is None else _refused(error)

        options: dict[str, Any] = {} if record.timestamp_ms is None else {"timestamp": record.timestamp_ms}
        if partition is not None:
            options["partition"] = partition
        try:
            self._producer.produce(
                topic,
                value=record.value,
                key=record.key,
                headers=list(record.headers),
                on_delivery=delivered,
                **options,
            )
        except ck.KafkaException as error:
            outcomes[place] = _refused(error.args[0])

    def flush(self, timeout: float = PATIENCE_SECONDS) -> list[int | Refused]:
        left = self._producer.flush(timeout)
        assert left == 0, f"{left} records are not delivered"
        return self._pending.take()

    def close(self) -> None:
        self._producer.flush(PATIENCE_SECONDS)


class ConfluentConsumer:
    def __init__(self, bootstrap_servers: str, how: Consuming) -> None:
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "unused: partitions are assigned",
            "enable.auto.commit": False,
            "isolation.level": "read_committed" if how.read_committed else "read_uncommitted",
            "auto.offset.reset": {"none": "error"}.get(how.on_reset, how.on_reset),
            "log_level": 0,
            "fetch.error.backoff.ms": 10,
            "reconnect.backoff.max.ms": 500,
        }
        if how.max_partition_fetch_bytes is not None:
            settings["max.partition.fetch.bytes"] = how.max_partition_fetch_bytes
        self._consumer = ck.Consumer(settings)

    def assign(self, topic: str, offsets: Mapping[int, int]) -> None:
        self._consumer.assign([ck.TopicPartition(topic, *place) for place in offsets.items()])

    def poll(self, count: int, timeout: float = PATIENCE_SECONDS) -> list[Received]:
        deadline = time.monotonic() + timeout
        found: list[Received] = []
        while len(found) < count and (left := deadline - time.monotonic()) > 0:
            message = self._consumer.poll(left)
            if message is None:
                break
            error = message.error()
            if error is None:
                found.append(_received(message))
            elif not error.retriable() and error.code() not in (-195, -187, -193):  # the broker is away
                raise _refused(error)
        return found

    def seek(self, topic: str, partition: int, offset: int) -> None:
        self._consumer.seek(ck.TopicPartition(topic, partition, offset))

    def pause(self, topic: str, partition: int) -> None:
        self._consumer.pause([ck.TopicPartition(topic, partition)])

    def resume(self, topic: str, partition: int) -> None:
        self._consumer.resume([ck.TopicPartition(topic, partition)])

    def ends(self, topic: str, partition: int) -> tuple[int, int]:
        first, after = self._consumer.get_watermark_offsets(
            ck.TopicPartition(topic, partition), PATIENCE_SECONDS
        )
        return first, after

    def offset_for_time(self, topic: str, partition: int, timestamp_ms: int) -> int | None:
        asked = [ck.TopicPartition(topic, partition, timestamp_ms)]
        (found,) = self._consumer.offsets_for_times(asked, PATIENCE_SECONDS)
        return None if found.offset < 0 else found.offset

    def close(self) -> None:
        self._consumer.close()


def _received(message: ck.Message) -> Received:
    kind, timestamp = message.timestamp()
    return Received(
        message.partition(),
        message.offset(),
        timestamp,
        _TIMESTAMP_TYPES[kind],
        message.key(),
        message.value(),
        tuple(message.headers() or ()),
    )


class ConfluentClient:
    lacks: frozenset[str] = frozenset()
    codecs = frozenset({"gzip", "snappy", "lz4", "zstd"})

    def __init__(self, bootstrap_servers: str) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._closing: list[Callable[[], None]] = []
        self._kept: AdminClient | None = None

    @property
    def _admin(self) -> AdminClient:
        if self._kept is None:
            self._kept = AdminClient({"bootstrap.servers": self._bootstrap_servers, "log_level": 0})
        return self._kept

    def producer(self, how: Producing = DEFAULT_PRODUCING) -> ConfluentProducer:
        producer = ConfluentProducer(self._bootstrap_servers, how)
        self._closing.append(producer.close)
        return producer

    def consumer(self, how: Consuming = DEFAULT_CONSUMING) -> ConfluentConsumer:
        consumer = ConfluentConsumer(self._bootstrap_servers, how)
        self._closing.append(consumer.close)
        return consumer

    def close(self) -> None:
        for close in self._closing:
            close()
        self._kept = None

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] = {}) -> None:
        _answer(self._admin.create_topics([NewTopic(name, partitions, 1, config=dict(configs))])[name])

    def delete_topic(self, name: str) -> None:
        _answer(self._admin.delete_topics([name])[name])

    def topics(self) -> dict[str, int]:
        listed = self._admin.list_topics(timeout=PATIENCE_SECONDS).topics
        return {name: len(topic.partitions) for name, topic in listed.items()}

    def create_partitions(self, topic: str, total: int) -> None:
        _answer(self._admin.create_partitions([NewPartitions(topic, total)])[topic])

    def configs(self, topic: str) -> dict[str, str]:
        return self._describe(ResourceType.TOPIC, topic)

    def broker_configs(self, broker_id: int) -> dict[str, str]:
        return self._describe(ResourceType.BROKER, str(broker_id))

    def _describe(self, kind: ResourceType, name: str) -> dict[str, str]:
        resource = ConfigResource(kind, name)
        entries = _answer(self._admin.describe_configs([resource])[resource])
        return {key: entry.value for key, entry in entries.items()}

    def alter_configs(self, topic: str, configs: Mapping[str, str | None]) -> None:
        entries = [
            ConfigEntry(
                name,
                value,
                incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
            )
            for name, value in configs.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        _answer(self._admin.incremental_alter_configs([resource])[resource])

    def replace_configs(self, topic: str, configs: Mapping[str, str]) -> None:
        resource = ConfigResource(ResourceType.TOPIC, topic, set_config=dict(configs))
        with warnings.catch_warnings():
            # Deprecated for the reason that the scenario is about; older programs still call it.
            warnings.simplefilter("ignore", DeprecationWarning)
            _answer(self._admin.alter_configs([resource])[resource])

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        asked = ck.TopicPartition(topic, partition, before)
        low: int = _answer(self._admin.delete_records([asked])[asked]).low_watermark
        return low

    def cluster(self) -> Cluster:
        found = _answer(self._admin.describe_cluster())
        return Cluster(found.controller.id, tuple(node.id for node in found.nodes))

    def list_offset(self, topic: str, partition: int, what: str | int) -> int:
        spec = OffsetSpec.for_timestamp(what) if isinstance(what, int) else _SPECS[what]()
        asked = ck.TopicPartition(topic, partition)
        offset: int = _answer(self._admin.list_offsets({asked: spec})[asked]).offset
        return offset
