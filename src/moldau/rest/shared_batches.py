"""Batches that requests share: while one is on its way to a partition, the records of those that come are
collected, and leave together when it is written, or a few milliseconds later.

A request that finds nothing on its way is sent at once and waits for nobody. The more requests come, the more
of them travel together, and a batch has its price, not a request.

Invariant: every request gets the outcome of its own records. Where a broker refuses a batch for what is in
it, nothing of it is written, and each request is sent again, alone: nobody fails for the records of others.
"""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from moldau.base.clock import SystemClock
from moldau.client.producer.encoded_batch import EncodedBatch
from moldau.client.producer.producer import Producer
from moldau.protocol.errors import ErrorCode, KafkaError

#: What is collected is no larger, and has no more records than are quickly encoded.
_MOST_BYTES, _MOST_RECORDS = 128 * 1024, 1_000
#: What is collected waits no longer for the batch before it, as records do in Kafka's own producer.
_LINGER_SECONDS = 0.005
_TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
#: Refusals that are due to some of the records, or to how many they are together.
FOR_WHAT_IS_IN_IT = _TOO_LARGE | {ErrorCode.INVALID_RECORD, ErrorCode.INVALID_TIMESTAMP}
#: Topics that are remembered.
_MOST_TOPICS = 1_000
_CLOCK = SystemClock()

#: A topic and a partition; None is whichever is next.
Place = tuple[str, int | None]
Column = Sequence[bytes | None]
#: A partition, and the offset of the first record there (-1 where nobody knows), or why there is none.
Outcome = tuple[int, int | KafkaError]


class Share(NamedTuple):
    """The records of one request in a batch."""

    batch: "Batch"
    #: Which one of the batch is the first of them.
    begin: int
    values: Column
    keys: Column | None
    outcome: "asyncio.Future[Outcome]"


class Batch:
    """The records of one request or more."""

    __slots__ = ("keys", "shares", "size", "timer", "values")

    def __init__(self) -> None:
        self.values: list[bytes | None] = []
        self.keys: list[bytes | None] | None = None
        self.size = 0
        self.shares: list[Share] = []
        self.timer: asyncio.TimerHandle | None = None

    def takes(self, values: Column, keys: Column | None, size: int) -> bool:
        """Whether the records of another request fit; some with keys and some without do not."""
        return (
            self.size + size <= _MOST_BYTES
            and len(self.values) + len(values) <= _MOST_RECORDS
            and (self.keys is None) == (keys is None)
        )

    def add(self, values: Column, keys: Column | None, size: int) -> Share:
        outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        share = Share(self, len(self.values), values, keys, outcome)
        if keys is not None:
            self.keys = self.keys or []
            self.keys += keys
        self.values += values
        self.size += size
        self.shares.append(share)
        return share

    def finish(self, partition: int, outcome: int | KafkaError) -> None:
        for share in self.shares:
            found = outcome
            if not isinstance(found, KafkaError) and found >= 0:
                found += share.begin
            if not share.outcome.done():  # whoever asked may have gone
                share.outcome.set_result((partition, found))


class SharedBatches:
    def __init__(self, producer: Producer) -> None:
        self.producer = producer
        #: How many batches are on their way, and the one that is collected meanwhile.
        self._on_their_way: dict[Place, int] = {}
        self._collected: dict[Place, Batch] = {}
        #: Topics that do not take batches as large as shared ones.
        self._never_shared: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def add(
        self, place: Place, values: Column, keys: Column | None, size: int, *, at_once: bool = False
    ) -> Share:
        """Takes records that fit into one batch; ``outcome`` is to be asked for what became of them.

        ``at_once`` says that no others follow which could travel in the same request to a broker.
        """
        collected = self._collected.get(place)
        if collected is not None:
            if collected.takes(values, keys, size):
                return collected.add(values, keys, size)
            self._send_collected(place)
        if place not in self._on_their_way or place[0] in self._never_shared:
            return await self.add_alone(place, values, keys, at_once=at_once)
        batch = self._collected[place] = Batch()
        loop = asyncio.get_running_loop()
        batch.timer = loop.call_later(_LINGER_SECONDS, self._send_collected, place)
        return batch.add(values, keys, size)

    async def add_alone(
        self, place: Place, values: Column, keys: Column | None, *, at_once: bool = False
    ) -> Share:
        """The same for records that leave at once, behind all that left like this before."""
        batch = Batch()
        share = batch.add(values, keys, 0)
        await self._send(place, batch, at_once=at_once)
        return share

    async def outcome(self, place: Place, share: Share) -> Outcome:
        partition, found = await share.outcome
        if not isinstance(found, KafkaError) or len(share.batch.shares) == 1:
            return partition, found
        if found.code not in FOR_WHAT_IS_IN_IT:
            return partition, found
        if found.code in _TOO_LARGE:
            if len(self._never_shared) >= _MOST_TOPICS:
                self._never_shared.clear()
            self._never_shared.add(place[0])
        return await (await self.add_alone(place, share.values, share.keys)).outcome

    def _send_collected(self, place: Place) -> None:
        batch = self._collected.pop(place, None)
        if batch is not None:
            if batch.timer is not None:
                batch.timer.cancel()
            task = asyncio.get_running_loop().create_task(self._send(place, batch))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _send(self, place: Place, batch: Batch, *, at_once: bool = False) -> None:
        """Hands a batch to the producer, which reports its outcome."""
        topic, partition = place
        self._on_their_way[place] = self._on_their_way.get(place, 0) + 1
        number = -1
        try:
            number = await self.producer.next_partition(topic) if partition is None else partition
            encoded = EncodedBatch.of(number, batch.values, batch.keys, _CLOCK.now_ms())
            delivery = await self.producer.send_encoded(topic, encoded, at_once=at_once)
        except KafkaError as error:
            self._finish(place, batch, number, error)
        except BaseException:
            gone = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the records were not sent")
            self._finish(place, batch, number, gone)
            raise
        else:
            delivery.when_done(lambda outcome: self._finish(place, batch, number, outcome))

    def _finish(
        self, place: Place, batch: Batch, partition: int, outcome: tuple[int, int] | KafkaError
    ) -> None:
        batch.finish(partition, outcome if isinstance(outcome, KafkaError) else outcome[0])
        self._on_their_way[place] -= 1
        if not self._on_their_way[place]:
            del self._on_their_way[place]
        self._send_collected(place)
