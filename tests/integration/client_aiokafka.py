"""aiokafka behind the common words: its loop runs in a thread of its own, as in a service."""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import aiokafka
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.admin.records_to_delete import RecordsToDelete

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


def _refused(error: Exception) -> Refused:
    number = getattr(error, "errno", None)
    return Refused(number if isinstance(number, int) else type(error).__name__)


class Loop:
    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_SECONDS * 2)
        except aiokafka.errors.KafkaError as error:
            raise _refused(error) from error

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class AiokafkaProducer:
    def __init__(self, loop: Loop, bootstrap_servers: str, how: Producing) -> None:
        self._loop = loop
        self._pending = Pending()
        options: dict[str, Any] = {}
        if how.max_request_bytes is not None:
            options["max_request_size"] = how.max_request_bytes

        async def start() -> aiokafka.AIOKafkaProducer:
            producer = aiokafka.AIOKafkaProducer(
                bootstrap_servers=bootstrap_servers,
                acks=how.acks,
                enable_idempotence=how.idempotent,
                compression_type=None if how.compression == "none" else how.compression,
                linger_ms=how.linger_ms,
                **options,
            )
            await producer.start()
            return producer

        self._producer = loop.run(start())

    def send(self, topic: str, record: Sent, partition: int | None = 0) -> None:
        work = self._producer.send(
            topic,
            record.value,
            record.key,
            partition=partition,
            timestamp_ms=record.timestamp_ms,
            headers=list(record.headers),
        )
        try:
            self._pending.outcomes.append(self._loop.run(work))
        except Refused as refused:
            self._pending.outcomes.append(refused)

    def flush(self, timeout: float = PATIENCE_SECONDS) -> list[int | Refused]:
        async def wait(sent: Any) -> int | Refused:
            if isinstance(sent, Refused):
                return sent
            try:
                metadata = await asyncio.wait_for(asyncio.shield(sent), timeout)
            except aiokafka.errors.KafkaError as error:
                return _refused(error)
            return -1 if metadata is None else int(metadata.offset)

        async def wait_for_all() -> list[int | Refused]:
            return [await wait(sent) for sent in self._pending.take()]

        found: list[int | Refused] = self._loop.run(wait_for_all())
        return found

    def close(self) -> None:
        self._loop.run(self._producer.stop())


class AiokafkaConsumer:
    def __init__(self, loop: Loop, bootstrap_servers: str, how: Consuming) -> None:
        self._loop = loop
        options: dict[str, Any] = {}
        if how.max_partition_fetch_bytes is not None:
            options["max_partition_fetch_bytes"] = how.max_partition_fetch_bytes

        async def start() -> aiokafka.AIOKafkaConsumer:
            consumer = aiokafka.AIOKafkaConsumer(
                bootstrap_servers=bootstrap_servers,
                isolation_level="read_committed" if how.read_committed else "read_uncommitted",
                auto_offset_reset=how.on_reset,
                **options,
            )
            await consumer.start()
            return consumer

        self._consumer = loop.run(start())

    def assign(self, topic: str, offsets: Mapping[int, int]) -> None:
        self._call(self._consumer.assign, [aiokafka.TopicPartition(topic, each) for each in offsets])
        for partition, offset in offsets.items():
            self.seek(topic, partition, offset)

    def _call(self, function: Callable[..., Any], *args: Any) -> Any:
        async def call() -> Any:
            return function(*args)

        return self._loop.run(call())

    def poll(self, count: int, timeout: float = PATIENCE_SECONDS) -> list[Received]:
        deadline = time.monotonic() + timeout
        found: list[Received] = []
        while len(found) < count and (left := deadline - time.monotonic()) > 0:
            work = self._consumer.getmany(timeout_ms=int(left * 1000), max_records=count - len(found))
            polled = self._loop.run(work)
            found += (_received(record) for records in polled.values() for record in records)
        return found

    def seek(self, topic: str, partition: int, offset: int) -> None:
        self._call(self._consumer.seek, aiokafka.TopicPartition(topic, partition), offset)

    def pause(self, topic: str, partition: int) -> None:
        self._call(self._consumer.pause, aiokafka.TopicPartition(topic, partition))

    def resume(self, topic: str, partition: int) -> None:
        self._call(self._consumer.resume, aiokafka.TopicPartition(topic, partition))

    def ends(self, topic: str, partition: int) -> tuple[int, int]:
        place = aiokafka.TopicPartition(topic, partition)
        first = self._loop.run(self._consumer.beginning_offsets([place]))
        return first[place], self._loop.run(self._consumer.end_offsets([place]))[place]

    def offset_for_time(self, topic: str, partition: int, timestamp_ms: int) -> int | None:
        place = aiokafka.TopicPartition(topic, partition)
        found = self._loop.run(self._consumer.offsets_for_times({place: timestamp_ms}))[place]
        return None if found is None else found.offset

    def close(self) -> None:
        self._loop.run(self._consumer.stop())


def _received(record: Any) -> Received:
    return Received(
        record.partition,
        record.offset,
        record.timestamp,
        record.timestamp_type,
        record.key,
        record.value,
        tuple(record.headers),
    )


class AiokafkaClient:
    lacks = frozenset({"alter_configs", "list_offset", "null_key_and_value"})
    codecs = frozenset({"gzip", "snappy", "lz4", "zstd"})

    def __init__(self, bootstrap_servers: str) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._loop = Loop()
        self._closing: list[Callable[[], None]] = []
        self._kept: AIOKafkaAdminClient | None = None

    @property
    def _admin(self) -> AIOKafkaAdminClient:
        if self._kept is None:

            async def start() -> AIOKafkaAdminClient:
                admin = AIOKafkaAdminClient(bootstrap_servers=self._bootstrap_servers)
                await admin.start()
                return admin

            admin = self._kept = self._loop.run(start())
            self._closing.append(lambda: self._loop.run(admin.close()))
        return self._kept

    def producer(self, how: Producing = DEFAULT_PRODUCING) -> AiokafkaProducer:
        producer = AiokafkaProducer(self._loop, self._bootstrap_servers, how)
        self._closing.append(producer.close)
        return producer

    def consumer(self, how: Consuming = DEFAULT_CONSUMING) -> AiokafkaConsumer:
        consumer = AiokafkaConsumer(self._loop, self._bootstrap_servers, how)
        self._closing.append(consumer.close)
        return consumer

    def close(self) -> None:
        for close in self._closing:
            close()
        self._loop.close()

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] = {}) -> None:
        wanted = NewTopic(name, partitions, 1, topic_configs=dict(configs))
        _raise_first(self._loop.run(self._admin.create_topics([wanted])).topic_errors)

    def delete_topic(self, name: str) -> None:
        _raise_first(self._loop.run(self._admin.delete_topics([name])).topic_error_codes)

    def topics(self) -> dict[str, int]:
        described = self._loop.run(self._admin.describe_topics())
        return {topic["topic"]: len(topic["partitions"]) for topic in described}

    def create_partitions(self, topic: str, total: int) -> None:
        self._loop.run(self._admin.create_partitions({topic: NewPartitions(total)}))

    def configs(self, topic: str) -> dict[str, str]:
        return self._describe(ConfigResourceType.TOPIC, topic)

    def broker_configs(self, broker_id: int) -> dict[str, str]:
        return self._describe(ConfigResourceType.BROKER, str(broker_id))

    def _describe(self, kind: ConfigResourceType, name: str) -> dict[str, str]:
        (answer,) = self._loop.run(self._admin.describe_configs([ConfigResource(kind, name)]))
        ((code, _, _, _, entries),) = answer.resources
        if code:
            raise Refused(code)
        return {entry[0]: entry[1] for entry in entries}

    def alter_configs(self, topic: str, configs: Mapping[str, str | None]) -> None:
        raise NotImplementedError

    def replace_configs(self, topic: str, configs: Mapping[str, str]) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, dict(configs))
        (answer,) = self._loop.run(self._admin.alter_configs([resource]))
        ((code, *_),) = answer.resources
        if code:
            raise Refused(code)

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        place = aiokafka.TopicPartition(topic, partition)
        low: int = self._loop.run(self._admin.delete_records({place: RecordsToDelete(before)}))[place]
        return low

    def cluster(self) -> Cluster:
        found = self._loop.run(self._admin.describe_cluster())
        return Cluster(found["controller_id"], tuple(each["node_id"] for each in found["brokers"]))

    def list_offset(self, topic: str, partition: int, what: str | int) -> int:
        raise NotImplementedError


def _raise_first(errors: Any) -> None:
    for _, code, *_ in errors:
        if code:
            raise Refused(code)
