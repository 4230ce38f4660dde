"""Members of classic groups, of three makes, each reading in a thread of its own.

A member publishes what it has (``assigned``), how often it was told (``rounds``), what it had to give up
(``revoked``) and what it read (``values``). ``commit`` runs between two polls. As a program
(``python group_members.py MAKE ADDRESS GROUP TOPIC``) it is a member to be killed.
"""

import asyncio
import sys
import threading
import warnings
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass
from typing import Any, ClassVar

import aiokafka
import confluent_kafka as ck
from aiokafka.coordinator.assignors.range import RangePartitionAssignor as AioRange
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor as AioRoundRobin
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor as AioSticky

with warnings.catch_warnings():
    # The library reads its schemas with a function that CPython 3.11 deprecates and 3.13 brings back.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

PATIENCE_SECONDS = 20.0
_POLL_SECONDS = 0.05
#: Long enough for any machine; one that is to be missed has a shorter one, and the clock is stepped.
SESSION_MS = 30_000
DOOMED_SESSION_MS = 10_000
HEARTBEAT_MS = 100

Partition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Joining:
    group_id: str
    topics: tuple[str, ...]
    client_id: str = "c"
    strategy: str = "range"
    instance_id: str | None = None
    auto_commit: bool = True
    session_ms: int = SESSION_MS


class Member(ABC):
    def __init__(self, address: str, how: Joining) -> None:
        self.how = how
        self.values: Counter[bytes] = Counter()
        self.assigned: set[Partition] = set()
        self.revoked: list[set[Partition]] = []
        self.rounds = 0
        self.failure: BaseException | None = None
        self._address = address
        self._work: list[tuple[Any, threading.Event]] = []
        self._stopped = threading.Event()
        self.has_gained = threading.Event()
        self._thread = threading.Thread(target=self._guarded, daemon=True)
        self._thread.start()

    def commit(self, offsets: dict[Partition, tuple[int, str]]) -> None:
        """Commits by hand, from the thread of the member; returns when it is done."""
        done = threading.Event()
        self._work.append((offsets, done))
        assert done.wait(PATIENCE_SECONDS)

    def close(self) -> None:
        self._stopped.set()
        self._thread.join(PATIENCE_SECONDS)
        if self.failure is not None:
            raise self.failure

    def wait(self) -> None:
        self._thread.join()

    def _guarded(self) -> None:
        try:
            self._run()
        except BaseException as error:
            self.failure = error

    @abstractmethod
    def _run(self) -> None: ...

    def _gained(self, partitions: set[Partition]) -> None:
        self.rounds += 1
        self.assigned = self.assigned | partitions
        if partitions:
            self.has_gained.set()

    def _lost(self, partitions: set[Partition]) -> None:
        if partitions:
            self.revoked.append(partitions)
        self.assigned = self.assigned - partitions


def _pairs(partitions: Any) -> set[Partition]:
    return {(each.topic, each.partition) for each in partitions}


class ConfluentMember(Member):
    def _run(self) -> None:
        how = self.how
        settings = {
            "bootstrap.servers": self._address,
            "group.id": how.group_id,
            "client.id": how.client_id,
            "partition.assignment.strategy": how.strategy,
            "enable.auto.commit": how.auto_commit,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": how.session_ms,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "topic.metadata.refresh.interval.ms": 200,
            "fetch.wait.max.ms": 50,
            **({"group.instance.id": how.instance_id} if how.instance_id else {}),
        }
        consumer = ck.Consumer(settings)
        consumer.subscribe(
            list(how.topics),
            on_assign=lambda _, partitions: self._gained(_pairs(partitions)),
            on_revoke=lambda _, partitions: self._lost(_pairs(partitions)),
            on_lost=lambda _, partitions: self._lost(_pairs(partitions)),
        )
        while not self._stopped.is_set():
            message = consumer.poll(_POLL_SECONDS)
            if message is not None and message.error() is None:
                self.values[message.value()] += 1
            while self._work:
                offsets, done = self._work.pop()
                given = [ck.TopicPartition(*p, o, metadata) for p, (o, metadata) in offsets.items()]
                consumer.commit(offsets=given, asynchronous=False)
                done.set()
        consumer.close()


class _Listener(kafka.ConsumerRebalanceListener, aiokafka.ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, member: Member) -> None:
        self.member = member

    def on_partitions_revoked(self, revoked: Any) -> None:
        self.member._lost(_pairs(revoked))

    def on_partitions_lost(self, lost: Any) -> None:
        self.member._lost(_pairs(lost))

    def on_partitions_assigned(self, assigned: Any) -> None:
        self.member._gained(_pairs(assigned))


class KafkaPythonMember(Member):
    STRATEGIES: ClassVar = {
        "range": RangePartitionAssignor,
        "roundrobin": RoundRobinPartitionAssignor,
        "sticky": StickyPartitionAssignor,
        "cooperative-sticky": CooperativeStickyAssignor,
    }

    def _run(self) -> None:
        how = self.how
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=self._address,
            group_id=how.group_id,
            client_id=how.client_id,
            group_instance_id=how.instance_id,
            partition_assignment_strategy=[self.STRATEGIES[how.strategy]],
            enable_auto_commit=how.auto_commit,
            auto_offset_reset="earliest",
            session_timeout_ms=how.session_ms,
            heartbeat_interval_ms=HEARTBEAT_MS,
            fetch_max_wait_ms=50,
        )
        consumer.subscribe(list(how.topics), listener=_Listener(self))
        while not self._stopped.is_set():
            for records in consumer.poll(timeout_ms=int(_POLL_SECONDS * 1000)).values():
                self.values.update(record.value for record in records)
            # kafka-python 3.0.12 forgets a round that ends between two polls: it takes itself for joined,
            # has no partition and sends no heartbeat.
            coordinator = consumer._coordinator
            if coordinator.rejoining and not coordinator.need_rejoin():
                coordinator.request_rejoin()
            while self._work:
                offsets, done = self._work.pop()
                consumer.commit(
                    {
                        kafka.TopicPartition(*p): kafka.OffsetAndMetadata(offset, metadata, -1)
                        for p, (offset, metadata) in offsets.items()
                    }
                )
                done.set()
        consumer.close()


class AiokafkaMember(Member):
    STRATEGIES: ClassVar = {"range": AioRange, "roundrobin": AioRoundRobin, "sticky": AioSticky}

    def _strategy(self) -> Any:
        """A class of its own: the library keeps what a member had in the class, one for the process."""
        return type("Strategy", (self.STRATEGIES[self.how.strategy],), {})

    def _run(self) -> None:
        asyncio.run(self._read())

    async def _read(self) -> None:
        how = self.how
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=self._address,
            group_id=how.group_id,
            client_id=how.client_id,
            group_instance_id=how.instance_id,
            partition_assignment_strategy=[self._strategy()],
            enable_auto_commit=how.auto_commit,
            auto_offset_reset="earliest",
            session_timeout_ms=how.session_ms,
            heartbeat_interval_ms=HEARTBEAT_MS,
            fetch_max_wait_ms=50,
        )
        consumer.subscribe(list(how.topics), listener=_Listener(self))
        await consumer.start()
        try:
            while not self._stopped.is_set():
                for records in (await consumer.getmany(timeout_ms=int(_POLL_SECONDS * 1000))).values():
                    self.values.update(record.value for record in records)
                while self._work:
                    offsets, done = self._work.pop()
                    await consumer.commit({aiokafka.TopicPartition(*p): v for p, v in offsets.items()})
                    done.set()
        finally:
            await consumer.stop()


MAKES: dict[str, type[Member]] = {
    "confluent": ConfluentMember,
    "kafka_python": KafkaPythonMember,
    "aiokafka": AiokafkaMember,
}

if __name__ == "__main__":
    make, address, group_id, topic = sys.argv[1:]
    one = MAKES[make](address, Joining(group_id, (topic,), client_id="doomed", session_ms=DOOMED_SESSION_MS))
    assert one.has_gained.wait(PATIENCE_SECONDS)
    print("joined", flush=True)
    one.wait()
