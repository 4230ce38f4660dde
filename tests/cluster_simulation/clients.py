"""Clients of a simulated cluster: Moldau's own, over the simulated network, and what they were told.

Invariant: a value is sent once by the program and is unique. What a client was not told for certain is noted
as not known. A client never gives up: after any error it begins anew, until the run is over.
"""

import asyncio
from collections.abc import Coroutine
from random import Random
from typing import Any

from moldau.base.names import TopicPartition
from moldau.client.admin.admin import Admin
from moldau.client.admin.descriptions import READ_COMMITTED, READ_UNCOMMITTED
from moldau.client.admin.messages import NewTopic
from moldau.client.consumer.consumer import Consumer, at_offset
from moldau.client.consumer.fetched import FetchedBatch
from moldau.client.groups.descriptions import CommittedOffset
from moldau.client.groups.groups import Groups
from moldau.client.producer.producer import Producer
from moldau.client.transport.cluster import Cluster
from moldau.protocol.errors import KafkaError
from tests.cluster_faults.checker import Fate, History, Polled, Sent
from tests.cluster_simulation.invariants import Invariants
from tests.cluster_simulation.processes import Process
from tests.cluster_simulation.simulated_cluster import SimulatedCluster
from tests.simulation.virtual_time import VirtualClock

OPTIONS = {
    "request_timeout_ms": 2_000,
    "connect_timeout_ms": 1_000,
    "api_timeout_ms": 8_000,
    "retry_backoff_ms": 50,
    "retry_backoff_max_ms": 400,
}
PARTITIONS = 2


class Clients:
    def __init__(self, cluster: SimulatedCluster, invariants: Invariants, seed: int) -> None:
        self.cluster = cluster
        self.invariants = invariants
        self.histories = {"plain": History(), "bank": History()}
        self._seed = seed
        self.done = False
        #: Writers that have ended, and how many there are.
        self.at_work = 0
        self.ready = False
        self.commits = 0
        self.problems: list[str] = []
        #: Where the partitions end, once nobody writes any more.
        self.ends: dict[TopicPartition, int] | None = None
        self.readers_left = 0

    def start(self) -> None:
        self._process("creator").run(self._create())

    def _process(self, name: str) -> Process:
        return Process(self.cluster.loop, name)

    async def open(self) -> Cluster:
        return await Cluster.open(self.cluster.bootstrap_servers, **OPTIONS)

    async def _create(self) -> None:
        while True:
            try:
                async with await self.open() as cluster:
                    found = await Admin(cluster).create_topics(
                        [NewTopic(name, PARTITIONS, 3) for name in self.histories]
                    )
                    if not any(isinstance(each, KafkaError) and each.code != 36 for each in found.values()):
                        break
            except (KafkaError, TimeoutError):
                pass
            await asyncio.sleep(0.2)
        self.ready = True
        for number in range(2):
            self._process(f"writer{number}").run(self._write(f"writer{number}"))
        for number in range(2):
            self._process(f"teller{number}").run(self._tell(f"teller{number}"))
        self._process("committer").run(self._commit())
        for topic in self.histories:
            for number in range(2):
                self.readers_left += 1
                name = f"{topic} reader{number}"
                self._process(name).run(self._read(name, topic))

    # --- writers ------------------------------------------------------------------------------------

    async def _write(self, name: str) -> None:
        """Sends values without transactions."""
        self.at_work += 1
        dice, number = Random(f"{name} {self._seed}"), 0
        while not self.done:
            try:
                async with await self.open() as cluster:
                    producer = await Producer.open(
                        cluster,
                        clock=VirtualClock(self.cluster.loop),
                        linger_ms=1,
                        request_timeout_ms=1_500,
                        delivery_timeout_ms=10_000,
                    )
                    incarnation = f"{name}.{number}"
                    try:
                        while not self.done:
                            waiting = []
                            for _ in range(dice.randint(1, 4)):
                                number += 1
                                partition = dice.randrange(PARTITIONS)
                                value = f"{name}-{number}"
                                waiting.append(await self._send(producer, incarnation, partition, value))
                            await asyncio.gather(*waiting)
                            await asyncio.sleep(dice.uniform(0, 0.15))
                    finally:
                        await producer.close(flush=False)
            except (KafkaError, TimeoutError):
                await asyncio.sleep(0.2)
        self.at_work -= 1

    async def _send(
        self, producer: Producer, name: str, partition: int, value: str
    ) -> Coroutine[Any, Any, None]:
        history = self.histories["plain"]
        place = len(history.sent)
        history.sent.append(Sent(name, partition, value, Fate.UNKNOWN))
        delivery = await producer.send("plain", value.encode(), partition=partition)

        async def delivered() -> None:
            metadata = await delivery
            history.sent[place] = Sent(name, partition, value, Fate.ACKNOWLEDGED, metadata.offset)
            self.invariants.acknowledge(TopicPartition("plain", partition), metadata.offset, value.encode())

        return delivered()

    async def _tell(self, name: str) -> None:
        """Sends values in transactions."""
        self.at_work += 1
        dice, number = Random(f"{name} {self._seed}"), 0
        while not self.done:
            try:
                async with await self.open() as cluster:
                    producer = await Producer.open(
                        cluster,
                        clock=VirtualClock(self.cluster.loop),
                        linger_ms=1,
                        transactional_id=name,
                        request_timeout_ms=1_500,
                        delivery_timeout_ms=10_000,
                        transaction_timeout_ms=8_000,
                    )
                    try:
                        while not self.done:
                            number += 1
                            await self._transaction(producer, name, number, dice)
                            await asyncio.sleep(dice.uniform(0, 0.2))
                    finally:
                        await producer.close(flush=False)
            except (KafkaError, TimeoutError):
                await asyncio.sleep(0.2)
        self.at_work -= 1

    async def _transaction(self, producer: Producer, name: str, number: int, dice: Random) -> None:
        history, places = self.histories["bank"], []
        await producer.begin_transaction()
        for part in range(dice.randint(1, 4)):
            partition = dice.randrange(PARTITIONS)
            value = f"{name}-{number}.{part}"
            places.append((len(history.sent), partition, value))
            history.sent.append(Sent(f"{name}#{number}", partition, value, Fate.UNKNOWN))
            delivery = await producer.send("bank", value.encode(), partition=partition)
            if dice.random() < 0.3:
                await delivery
        if dice.random() < 0.25:
            await producer.abort_transaction()
            fate = Fate.FAILED
        else:
            await producer.commit_transaction()
            fate = Fate.ACKNOWLEDGED
        for place, partition, value in places:
            history.sent[place] = Sent(f"{name}#{number}", partition, value, fate)

    async def _commit(self) -> None:
        """Commits offsets of a group, ever higher ones, and asks for them again."""
        self.at_work += 1
        place = TopicPartition("plain", 0)
        told, tried = -1, -1
        while not self.done:
            try:
                async with await self.open() as cluster:
                    groups = Groups(cluster)
                    while not self.done:
                        tried += 1
                        outcome = await groups.commit("accountant", {place: CommittedOffset(tried)})
                        if all(each is None for each in outcome.values()):
                            told = tried
                            self.commits += 1
                        found = await groups.committed("accountant", [place])
                        known = found.get(place)  # without a commit it is left out
                        if isinstance(known, CommittedOffset) and not told <= known.offset <= tried:
                            self.problems.append(
                                f"offset {told} was committed and {known.offset} is found, {tried} at most"
                            )
                        elif known is None and told >= 0:
                            self.problems.append(f"offset {told} was committed and is gone")
                        await asyncio.sleep(0.1)
            except (KafkaError, TimeoutError):
                await asyncio.sleep(0.2)
        self.at_work -= 1

    # --- readers ----------------------------------------------------------------------------------

    async def _read(self, name: str, topic: str) -> None:
        """Reads everything once, in order, until it has reached the ends."""
        level = READ_COMMITTED if topic == "bank" else READ_UNCOMMITTED
        positions = {TopicPartition(topic, each): 0 for each in range(PARTITIONS)}
        while not self._is_read(positions):
            try:
                async with (
                    await self.open() as cluster,
                    Consumer(cluster, isolation_level=level, max_wait_ms=200) as consumer,
                ):
                    await consumer.assign({p: at_offset(offset) for p, offset in positions.items()})
                    while not self._is_read(positions):
                        batch = await consumer.next_batch(timeout_ms=300)
                        if batch is not None:
                            self._note(name, batch)
                        for place in positions:
                            positions[place] = consumer.position(place)
            except (KafkaError, TimeoutError):
                await asyncio.sleep(0.2)
        self.readers_left -= 1

    def _note(self, name: str, batch: FetchedBatch) -> None:
        topic, partition = batch.topic, batch.partition
        for record in batch.records():
            value = bytes(record.value or b"").decode()
            self.histories[topic].polled.append(Polled(name, partition, record.offset, value))

    def _is_read(self, positions: dict[TopicPartition, int]) -> bool:
        return self.ends is not None and all(
            offset >= self.ends[place] for place, offset in positions.items()
        )
