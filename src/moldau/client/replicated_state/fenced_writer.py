"""Writes records into one partition, in transactions, under an id that the next writer takes over.

``fence`` takes the transactional id: whoever had it before can write nothing from then on, and what it left
open is aborted. ``write`` then writes records that become visible together, and returns the offset of the
last.

Invariant: a write succeeds only if nobody else has fenced since our own ``fence``. After any failure this
writer is ``broken``: what became of the records is not known, and nothing is written before the next
``fence``.
"""

from collections.abc import Sequence

from moldau.base.clock import Clock
from moldau.base.names import TopicPartition
from moldau.client.producer.producer import Producer
from moldau.client.transport.cluster import Cluster
from moldau.protocol.errors import ErrorCode, KafkaError

#: A writer that dies in the middle of a write makes its readers wait for no longer than this.
_TRANSACTION_TIMEOUT_MS = 15_000
#: The broker decides how large a batch may be.
_ANY_SIZE = 1 << 28


class FencedWriter:
    def __init__(
        self, cluster: Cluster, partition: TopicPartition, transactional_id: str, clock: Clock
    ) -> None:
        self._cluster = cluster
        self._partition = partition
        self._transactional_id = transactional_id
        self._clock = clock
        self._producer: Producer | None = None

    @property
    def broken(self) -> bool:
        """Whether ``fence`` has to come before the next write."""
        return self._producer is None

    def abandon(self) -> None:
        """Writes nothing more before the next ``fence``."""
        self._producer = None

    async def fence(self) -> None:
        self._producer = None
        self._producer = await Producer.open(
            self._cluster,
            clock=self._clock,
            transactional_id=self._transactional_id,
            transaction_timeout_ms=_TRANSACTION_TIMEOUT_MS,
            delivery_timeout_ms=self._cluster.api_timeout_ms,
            request_timeout_ms=self._cluster.request_timeout_ms,
            linger_ms=0,
            batch_size_bytes=_ANY_SIZE,
            max_request_bytes=_ANY_SIZE,
            allow_auto_create_topics=False,
        )

    async def write(self, records: Sequence[tuple[bytes, bytes | None]]) -> int:
        """Returns when the records are committed: the offset of the last one."""
        producer, self._producer = self._producer, None  # broken, unless all goes well
        if producer is None:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH, "the log belongs to another writer")
        try:
            await producer.begin_transaction()
            for key, value in records:
                delivery = await producer.send(
                    self._partition.topic, value, key, partition=self._partition.partition
                )
            await producer.commit_transaction()
        except BaseException:
            await producer.close(flush=False)  # whoever fences next aborts what is open
            raise
        self._producer = producer
        return (await delivery).offset
