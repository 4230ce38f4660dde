"""One task's writing: Arrow batches in, record batches out, encoding one while the others travel.

Invariant: rows keep their order within a partition. ``finish`` returns only when every row is acknowledged;
what cannot be written fails the task. At most a few megabytes wait to be sent: who makes rows faster has to
wait.
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future

import numpy as np
import pyarrow as pa

from moldau.base.buffer_pool import BufferPool
from moldau.base.clock import SystemClock
from moldau.protocol.compression import COMPRESSION_NAMES
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.spark.jvm.shared_rows import shared_rows
from moldau.spark.options import WriteOptions
from moldau.spark.wire import Wire
from moldau.spark.write.batch_payload import Payload
from moldau.spark.write.direct_sending import DirectSender
from moldau.spark.write.encode import choose_partitions, payloads
from moldau.spark.write.producers import Producer, give_back, partition_count, take_producer
from moldau.spark.write.rows import Rows, rows_of
from moldau.spark.write.sending import PayloadSender
from moldau.spark.write.transactions import Begun

_ROUNDS_ON_THEIR_WAY = 3
#: Of memory for encoded rows: one that is filled, and those with requests on their way.
_PIECES = 3


class TaskWriter:
    def __init__(self, wire: Wire, options: WriteOptions, begun: Begun | None = None) -> None:
        self._wire = wire
        self._options = options
        self._compression = COMPRESSION_NAMES[options.compression]
        self._clock = SystemClock()
        self._producer: Producer | None = None
        if begun is None and options.idempotent:
            self._producer = wire.ask(take_producer(wire.cluster))
        self._sender = PayloadSender(wire.cluster, options, begun=begun, producer=self._producer)
        self._partition_counts: dict[str, int] = {}
        #: Rows without a key go to one partition for a whole Arrow batch, then to the next.
        self._sticky = self._clock.now_ms()
        #: The fast way, where there is one; without answers there is none.
        self._direct: DirectSender | None = None
        if options.acks and wire.has_lines:
            self._direct = DirectSender(wire, self._sender)
        self._rounds: deque[Future[None]] = deque()
        self._memory = BufferPool(kept=_PIECES)
        self.rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Encodes and sends the rows of one batch."""
        if not batch.num_rows:
            return
        for topic, part in self._by_topic(batch):
            self._send(topic, self._payloads(topic, rows_of(part, self._clock.now_ms())))

    def write_shared(self, batches: Iterable[pa.RecordBatch]) -> None:
        """The same for rows that lie in memory of the JVM, see ``shared_rows``."""
        assert self._options.topic is not None, "rows with a column topic come by themselves"
        for shared in shared_rows(batches, self._clock.now_ms()):
            try:
                made = self._payloads(self._options.topic, shared.rows)
                shared.done()  # what is sent is a copy
                self._send(self._options.topic, made)
            except BaseException:
                shared.failed()  # also when the room was given back: nobody is to wait for it
                raise

    def finish(self) -> int:
        """Waits until everything is written; how many rows."""
        if self._direct is not None:
            self._direct.flush()
            return self.rows
        while self._rounds:
            self._rounds.popleft().result()
        self._wire.ask(self._sender.flush())
        return self.rows

    def done(self) -> None:
        """After ``finish``, when nothing more is to be written: the next task may have the producer."""
        if self._producer is not None:
            give_back(self._wire.cluster, self._producer)
            self._producer = None

    def close(self) -> None:
        """In any case, and last."""
        if self._direct is not None:
            self._direct.close()

    def _by_topic(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        if self._options.topic is not None:
            yield self._options.topic, batch
            return
        column = batch.column(batch.schema.get_field_index("topic"))
        if column.null_count:
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                "a row has null in its column topic, and the option topic is not set",
            )
        names = column.dictionary_encode()
        if len(names.dictionary) == 1:
            yield names.dictionary[0].as_py(), batch
            return
        indices = names.indices.to_numpy(zero_copy_only=False)
        for index, name in enumerate(names.dictionary.to_pylist()):
            yield name, batch.take(pa.array(np.flatnonzero(indices == index)))

    def _payloads(self, topic: str, rows: Rows) -> list[Payload]:
        count = self._partition_counts.get(topic)
        if count is None:
            count = self._wire.ask(partition_count(self._wire.cluster, topic))
            self._partition_counts[topic] = count
        self._sticky += 1
        chosen = choose_partitions(rows, count, self._sticky % count)
        self.rows += rows.count
        options = self._options
        return payloads(
            rows,
            chosen,
            count,
            options.batch_size_bytes,
            options.max_request_bytes,
            self._compression,
            self._memory,
        )

    def _send(self, topic: str, made: list[Payload]) -> None:
        if self._direct is not None:
            self._direct.send(topic, made)
            return
        while len(self._rounds) >= _ROUNDS_ON_THEIR_WAY or (self._rounds and self._rounds[0].done()):
            self._rounds.popleft().result()
        self._rounds.append(
            self._wire.begin(self._in_turn(topic, made, self._rounds[-1] if self._rounds else None))
        )

    async def _in_turn(self, topic: str, made: list[Payload], before: "Future[None] | None") -> None:
        """Rounds are sent one after the other, so that sequences are given out in order."""
        if before is not None:
            await asyncio.wrap_future(before)
        await self._sender.send(topic, made)
