"""kafka-python 3 behind the common words."""

import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

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

with warnings.catch_warnings():
    # The library reads its schemas with a function that CPython 3.11 deprecates and 3.13 brings back.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka
    import kafka.codec
    from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions
    from kafka.admin._partitions import OffsetSpec

_SPECS = {
    "earliest": OffsetSpec.EARLIEST,
    "latest": OffsetSpec.LATEST,
    "max_timestamp": OffsetSpec.MAX_TIMESTAMP,
}


def _refused(error: Exception) -> Refused:
    number = getattr(error, "errno", None)
    return Refused(number if isinstance(number, int) else type(error).__name__)


def _answer(call: Callable[..., Any], *args: Any, **options: Any) -> Any:
    try:
        return call(*args, **options)
    except kafka.errors.KafkaError as error:
        raise _refused(error) from error


class KafkaPythonProducer:
    def __init__(self, bootstrap_servers: str, how: Producing) -> None:
        self._pending = Pending()
        options: dict[str, Any] = {}
        if how.max_request_bytes is not None:
            options["max_request_size"] = how.max_request_bytes
        self._producer = kafka.KafkaProducer(
            bootstrap_servers=bootstrap_servers,
            acks=how.acks,
            enable_idempotence=how.idempotent,
            compression_type=None if how.compression == "none" else how.compression,
            linger_ms=how.linger_ms,
            reconnect_backoff_max_ms=500,
            **options,
        )

    def send(self, topic: str, record: Sent, partition: int | None = 0) -> None:
        try:
            sent = self._producer.send(
                topic,
                value=record.value,
                key=record.key,
                headers=list(record.headers),
                partition=partition,
                timestamp_ms=record.timestamp_ms,
            )
        except kafka.errors.KafkaError as error:
            sent = _refused(error)
        self._pending.outcomes.append(sent)

    def flush(self, timeout: float = PATIENCE_SECONDS) -> list[int | Refused]:
        self._producer.flush(timeout)
        return [self._outcome(sent, timeout) for sent in self._pending.take()]

    def _outcome(self, sent: Any, timeout: float) -> int | Refused:
        if isinstance(sent, Refused):
            return sent
        try:
            offset: int = sent.get(timeout).offset
        except kafka.errors.KafkaError as error:
            return _refused(error)
        return offset

    def close(self) -> None:
        self._producer.close(PATIENCE_SECONDS)


class KafkaPythonConsumer:
    def __init__(self, bootstrap_servers: str, how: Consuming) -> None:
        options: dict[str, Any] = {}
        if how.max_partition_fetch_bytes is not None:
            options["max_partition_fetch_bytes"] = how.max_partition_fetch_bytes
        self._consumer = kafka.KafkaConsumer(
            bootstrap_servers=bootstrap_servers,
            group_id=None,
            isolation_level="read_committed" if how.read_committed else "read_uncommitted",
            auto_offset_reset=how.on_reset,
            reconnect_backoff_max_ms=500,
            **options,
        )

    def assign(self, topic: str, offsets: Mapping[int, int]) -> None:
        self._consumer.assign([kafka.TopicPartition(topic, partition) for partition in offsets])
        for partition, offset in offsets.items():
            self.seek(topic, partition, offset)

    def poll(self, count: int, timeout: float = PATIENCE_SECONDS) -> list[Received]:
        deadline = time.monotonic() + timeout
        found: list[Received] = []
        while len(found) < count and (left := deadline - time.monotonic()) > 0:
            polled = _answer(
                self._consumer.poll, timeout_ms=int(left * 1000) + 1, max_records=count - len(found)
            )
            found += (_received(record) for records in polled.values() for record in records)
        return found

    def seek(self, topic: str, partition: int, offset: int) -> None:
        self._consumer.seek(kafka.TopicPartition(topic, partition), offset)

    def pause(self, topic: str, partition: int) -> None:
        self._consumer.pause(kafka.TopicPartition(topic, partition))

    def resume(self, topic: str, partition: int) -> None:
        self._consumer.resume(kafka.TopicPartition(topic, partition))

    def ends(self, topic: str, partition: int) -> tuple[int, int]:
        place = kafka.TopicPartition(topic, partition)
        return self._consumer.beginning_offsets([place])[place], self._consumer.end_offsets([place])[place]

    def offset_for_time(self, topic: str, partition: int, timestamp_ms: int) -> int | None:
        place = kafka.TopicPartition(topic, partition)
        found = self._consumer.offsets_for_times({place: timestamp_ms})[place]
        return None if found is None else found.offset

    def close(self) -> None:
        self._consumer.close()


def _received(record: Any) -> Received:
    return Received(
        record.partition,
        record.offset,
        record.timestamp,
        record.timestamp_type,
        record.key,
        record.value,
        tuple((name, value) for name, value in record.headers),
    )


class KafkaPythonClient:
    lacks = frozenset({"null_header", "null_key_and_value"})
    codecs = frozenset(
        name for name in ("gzip", "snappy", "lz4", "zstd") if getattr(kafka.codec, f"has_{name}")()
    )

    def __init__(self, bootstrap_servers: str) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._closing: list[Callable[[], None]] = []
        self._kept: Any = None

    @property
    def _admin(self) -> Any:
        if self._kept is None:
            self._kept = kafka.KafkaAdminClient(bootstrap_servers=self._bootstrap_servers)
            self._closing.append(self._kept.close)
        return self._kept

    def producer(self, how: Producing = DEFAULT_PRODUCING) -> KafkaPythonProducer:
        producer = KafkaPythonProducer(self._bootstrap_servers, how)
        self._closing.append(producer.close)
        return producer

    def consumer(self, how: Consuming = DEFAULT_CONSUMING) -> KafkaPythonConsumer:
        consumer = KafkaPythonConsumer(self._bootstrap_servers, how)
        self._closing.append(consumer.close)
        return consumer

    def close(self) -> None:
        for close in self._closing:
            close()

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] = {}) -> None:
        wanted = {"num_partitions": partitions, "replication_factor": 1, "configs": dict(configs)}
        _answer(self._admin.create_topics, {name: wanted})

    def delete_topic(self, name: str) -> None:
        _answer(self._admin.delete_topics, [name])

    def topics(self) -> dict[str, int]:
        return {topic["name"]: len(topic["partitions"]) for topic in self._admin.describe_topics()}

    def create_partitions(self, topic: str, total: int) -> None:
        _answer(self._admin.create_partitions, {topic: NewPartitions(total)})

    def configs(self, topic: str) -> dict[str, str]:
        return self._describe(ConfigResourceType.TOPIC, topic)

    def broker_configs(self, broker_id: int) -> dict[str, str]:
        return self._describe(ConfigResourceType.BROKER, str(broker_id))

    def _describe(self, kind: Any, name: str) -> dict[str, str]:
        described = self._admin.describe_configs([ConfigResource(kind, name)], config_filter="all")
        return {key: entry["value"] for key, entry in described[kind.name.lower()][name].items()}

    def alter_configs(self, topic: str, configs: Mapping[str, str | None]) -> None:
        changes = {name: ("delete" if value is None else "set", value) for name, value in configs.items()}
        self._alter(topic, {name: (kind.upper(), value) for name, (kind, value) in changes.items()}, True)

    def replace_configs(self, topic: str, configs: Mapping[str, str]) -> None:
        self._alter(topic, dict(configs), False)

    def _alter(self, topic: str, configs: dict[str, Any], incremental: bool) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, configs)
        answered = self._admin.alter_configs([resource], raise_on_unknown=False, incremental=incremental)
        if (said := answered["topic"][topic]) != "OK":
            raise Refused(int(said.split("]")[0].removeprefix("[Error ")))

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        place = kafka.TopicPartition(topic, partition)
        low: int = _answer(self._admin.delete_records, {place: before})[place]["low_watermark"]
        return low

    def cluster(self) -> Cluster:
        found = self._admin.describe_cluster()
        return Cluster(found["controller_id"], tuple(each["broker_id"] for each in found["brokers"]))

    def list_offset(self, topic: str, partition: int, what: str | int) -> int:
        place = kafka.TopicPartition(topic, partition)
        spec = what if isinstance(what, int) else _SPECS[what]
        offset: int = _answer(self._admin.list_partition_offsets, {place: spec})[place].offset
        return offset
