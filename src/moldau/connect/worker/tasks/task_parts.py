"""What the bodies of source and sink tasks share: who they are, and how a bad record is dealt with."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from moldau.base.clock import Clock
from moldau.client.admin.admin import Admin
from moldau.client.admin.descriptions import NewTopic
from moldau.client.producer.producer import Delivery, Producer
from moldau.client.transport.cluster import Cluster
from moldau.connect.errors import ConnectException
from moldau.connect.records import SourceRecord
from moldau.connect.worker.offsets import OffsetStore
from moldau.connect.worker.statuses import TaskCounts
from moldau.connect.worker.tasks.client_options import ClientOptions
from moldau.connect.worker.tasks.handling import ErrorHandling
from moldau.connect.worker.tasks.processing import Processing, RawRecord, StepFailed
from moldau.connect.worker.tasks.running_task import Control
from moldau.connect.worker.tasks.topic_creation import TopicCreation
from moldau.protocol.errors import ErrorCode, KafkaError

log = logging.getLogger("moldau.connect.worker")


@dataclass(frozen=True, slots=True)
class TaskParts:
    """All that a task works with."""

    connector: str
    task: int
    settings: Mapping[str, str]
    processing: Processing
    handling: ErrorHandling
    cluster: Cluster
    offsets: OffsetStore
    clock: Clock
    saw_topic: Callable[[str], None]
    #: Which worker, or cluster of them, this is.
    workers: str = ""
    clients: ClientOptions = field(default_factory=ClientOptions)
    #: How topics of a source are made; None where that is left to the brokers.
    creation: TopicCreation | None = field(default_factory=TopicCreation)
    counts: TaskCounts = field(default_factory=TaskCounts)

    @property
    def name(self) -> str:
        return f"{self.connector}-{self.task}"


_NOT_PERMITTED = frozenset({ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED})


async def settle(
    parts: TaskParts,
    failed: StepFailed,
    record: RawRecord | SourceRecord,
    again: Callable[[], object],
    control: Control,
    bury: Callable[[StepFailed], Awaitable[None]],
) -> object:
    """What becomes of a record that a step failed for: the result of a later attempt, or None if it is left
    out.

    Raises ConnectException where no error is tolerated.
    """
    loop = asyncio.get_running_loop()
    began, attempt = loop.time(), 0
    while True:
        pause = parts.handling.pause_ms(failed, attempt, (loop.time() - began) * 1000)
        if pause is None or control.stopping.is_set():
            break
        await control.rest(pause / 1000)
        attempt += 1
        parts.counts.retries += 1
        try:
            return await asyncio.to_thread(again)
        except StepFailed as later:
            failed = later
    give_up(parts, failed, record)
    await bury(failed)
    return None


def give_up(parts: TaskParts, failed: StepFailed, record: RawRecord | SourceRecord) -> None:
    """Reports a record that is to be left out; ConnectException where no error is tolerated."""
    parts.counts.errors += 1
    parts.handling.report(failed, parts.name, record)
    if not parts.handling.tolerates_all:
        raise ConnectException("Tolerance exceeded in error handler") from failed.error
    parts.counts.skipped += 1


async def ensure_dead_letters(parts: TaskParts) -> None:
    """Makes the topic of dead letters of a sink, if one is named and not there."""
    handling = parts.handling
    if not handling.dead_letters:
        return
    try:
        await ensure_topic(parts.cluster, handling.dead_letters, 1, handling.dead_letter_replicas)
    except KafkaError as error:
        raise ConnectException(
            f"Could not initialize dead letter queue with topic={handling.dead_letters}"
        ) from error


async def send(producer: Producer, record: RawRecord) -> Delivery:
    return await producer.send(
        record.topic, record.value, record.key, record.partition, record.headers, record.timestamp
    )


async def ensure_topic(
    cluster: Cluster,
    name: str,
    partitions: int = -1,
    replicas: int = -1,
    configs: Mapping[str, str] | None = None,
) -> None:
    """Makes a topic if it is not there; where that is not permitted, it is there or others make it."""
    topic = NewTopic(name, partitions, replicas, configs=dict(configs or {}))
    outcome = (await Admin(cluster).create_topics([topic]))[name]
    if not isinstance(outcome, KafkaError) or outcome.code is ErrorCode.TOPIC_ALREADY_EXISTS:
        return
    if outcome.code not in _NOT_PERMITTED:
        raise outcome
    log.info("topic %s may not be created here; it is taken to be there, or made by the broker", name)
