"""One task's writing: Arrow batches in, record batches out; one is encoded while others are in flight.

Invariant: rows keep their order within a partition. ``finish`` returns only when every row is acknowledged;
what cannot be written fails the task. At most a few megabytes wait to be sent; a query that makes rows faster
has to wait.
"""

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from moldau.base.buffer_pool import BufferPool
from moldau.base.clock import SystemClock
from moldau.client.producer.encoded_batch import EncodedBatch
from moldau.client.producer.encoded_sender import EncodedSender
from moldau.client.producer.idle_producers import partition_count
from moldau.client.producer.sender import ProducerOptions
from moldau.client.producer.transactions import OpenTransaction
from moldau.client.transport.background_loop import BackgroundLoop
from moldau.protocol.compression import COMPRESSION_NAMES
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.spark.jvm.shared_rows import shared_rows
from moldau.spark.options import WriteOptions
from moldau.spark.write.encode import choose_partitions, encoded_batches
from moldau.spark.write.rows import Rows, rows_of

#: Of memory for encoded rows: one that is filled, and those with requests in flight.
_PIECES = 3


class TaskWriter:
    def __init__(
        self, loop: BackgroundLoop, options: WriteOptions, transaction: OpenTransaction | None = None
    ) -> None:
        self._loop = loop
        self._options = options
        self._compression = COMPRESSION_NAMES[options.compression]
        self._clock = SystemClock()
        self._sender = EncodedSender(loop, _producer_options(options), transaction=transaction)
        self._partition_counts: dict[str, int] = {}
        #: Rows without a key go to one partition for a whole Arrow batch, then to the next.
        self._sticky = self._clock.now_ms()
        self._memory = BufferPool(kept=_PIECES)
        self.rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Encodes and sends the rows of one batch."""
        if not batch.num_rows:
            return
        for topic, part in self._by_topic(batch):
            self._sender.send(topic, self._encoded(topic, rows_of(part, self._clock.now_ms())))

    def write_to(self, topic: str, batch: pa.RecordBatch, for_null_keys: int) -> None:
        """Sends rows to one topic; those without a key go to a partition that the caller chooses."""
        if batch.num_rows:
            rows = rows_of(batch, self._clock.now_ms())
            self._sender.send(topic, self._encoded(topic, rows, for_null_keys))

    def partition_count(self, topic: str) -> int:
        count = self._partition_counts.get(topic)
        if count is None:
            count = self._loop.run(partition_count(self._loop.cluster, topic))
            self._partition_counts[topic] = count
        return count

    def write_shared(self, batches: Iterable[pa.RecordBatch]) -> None:
        """The same for rows in memory of the JVM, see ``shared_rows``."""
        assert self._options.topic is not None, "rows with a column topic come by themselves"
        for shared in shared_rows(batches, self._clock.now_ms()):
            try:
                made = self._encoded(self._options.topic, shared.rows)
                shared.done()  # what is sent is a copy
                self._sender.send(self._options.topic, made)
            except BaseException:
                shared.failed()  # also after the memory was given back, so that the JVM never waits for it
                raise

    def finish(self) -> int:
        """Waits until everything is written; how many rows."""
        self._sender.flush()
        return self.rows

    def done(self) -> None:
        """After ``finish``, when nothing more is to be written: the next task may have the producer."""
        self._sender.done()

    def close(self) -> None:
        """Must be called last, also after a failure."""
        self._sender.close()

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

    def _encoded(self, topic: str, rows: Rows, for_null_keys: int | None = None) -> list[EncodedBatch]:
        count = self.partition_count(topic)
        self._sticky += 1
        sticky = self._sticky if for_null_keys is None else for_null_keys
        chosen = choose_partitions(rows, count, sticky % count)
        self.rows += rows.count
        options = self._options
        return encoded_batches(
            rows,
            chosen,
            count,
            options.batch_size_bytes,
            options.max_request_bytes,
            self._compression,
            self._memory,
        )


def _producer_options(options: WriteOptions) -> ProducerOptions:
    return ProducerOptions(
        acks=options.acks,
        enable_idempotence=options.idempotent,
        batch_size_bytes=options.batch_size_bytes,
        max_request_bytes=options.max_request_bytes,
        request_timeout_ms=options.cluster.request_timeout_ms,
        delivery_timeout_ms=options.cluster.api_timeout_ms,
        stop_at_first_error=True,
    )
