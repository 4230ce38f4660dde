"""Writes records: collects them in batches, and reports where each record went.

    async with await Producer.open(cluster, linger_ms=5) as producer:
        delivery = await producer.send("orders", b"value", key=b"key", headers=(("trace", b"1"),))
        metadata = await delivery  # RecordMetadata, or the KafkaError that the record met is raised

``send`` waits only while the producer's memory is full or the topic is not known yet; ``try_send`` never
waits and returns None where ``send`` would, for a caller that counts microseconds. ``on_delivery`` is
called with the outcome for those who do not await it. ``flush`` returns when everything sent so far has
its outcome. The options are those of ``ProducerOptions``: acks=all, idempotent, batches of 16 KiB, linger
5 ms by default.

With a ``transactional_id`` records are sent in transactions, which ``Producer.open`` makes possible: it
fences an earlier producer of that id and aborts what it left open.

    producer = await Producer.open(cluster, transactional_id="billing-0")
    async with producer.transaction():  # begin_transaction, and commit_transaction or abort_transaction
        await producer.send("bills", b"value")
        await producer.send_offsets_to_transaction(consumer.progress(), consumer.group_metadata())

Invariant: this file collects, ``sender`` sends. Records of a partition leave in the order of the sends;
each has one outcome, reported once, within ``delivery_timeout_ms``. A transaction is committed only if every
record in it was written; a producer that was fenced writes nothing more (``ProducerFenced``).
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from types import TracebackType
from typing import Any, NamedTuple, cast

from moldau.base.clock import Clock, SystemClock
from moldau.base.names import TopicPartition
from moldau.client.groups.descriptions import CommittedOffset, ConsumerGroupMetadata
from moldau.client.producer import transactions
from moldau.client.producer.accumulator import (
    RECORD_OVERHEAD,
    Batch,
    OnDelivery,
    PartitionQueue,
    ProducerIdentity,
    RecordMetadata,
    headers_size,
)
from moldau.client.producer.encoded_batch import EncodedBatch
from moldau.client.producer.partitioner import partition_of
from moldau.client.producer.produce_requests import Outcome
from moldau.client.producer.sender import ProducerOptions, Sender
from moldau.client.transport.cluster import Cluster
from moldau.protocol.errors import ErrorCode, KafkaError

_new_tuple = tuple.__new__  # a named tuple's own constructor is twice the price, and each record pays it


#: What a broker says to a producer whose epoch is over.
_FENCED = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})


class ProducerFenced(KafkaError):
    """The epoch of the producer is over; where ``abort_transaction`` raises it too, for good."""

    def __init__(self, transactional_id: str) -> None:
        super().__init__(
            ErrorCode.PRODUCER_FENCED,
            f"another producer has taken over transactional id {transactional_id!r}, "
            "or its transaction has timed out",
        )


class Delivery(NamedTuple):
    """The fate of one record: await it for its metadata; it raises the error that the record met."""

    batch: Batch
    #: Which record of the batch it is, and its timestamp.
    place: int
    timestamp: int

    @property
    def done(self) -> bool:
        return self.batch.outcome is not None

    def when_done(self, call: Callable[[Outcome], None]) -> None:
        """Calls with the outcome of the batch, as soon as it has one."""
        batch = self.batch
        if batch.outcome is None:
            batch.listeners.append(lambda: call(cast("Outcome", batch.outcome)))
        else:
            call(batch.outcome)

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        if self.batch.outcome is None:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()

            def finished() -> None:
                if not waiter.done():
                    waiter.set_result(None)

            self.batch.listeners.append(finished)
            yield from waiter
        outcome = self.batch.metadata(self.place, self.timestamp)
        if isinstance(outcome, KafkaError):
            raise outcome
        return outcome


class _TopicQueues:
    """The queues of a topic, and the one that records without a key go to at present."""

    __slots__ = ("queues", "sticky")

    def __init__(self, name: str, count: int, first: int) -> None:
        self.queues = [PartitionQueue(name, index) for index in range(count)]
        self.sticky = self.queues[first % count]

    def next_sticky(self) -> None:
        self.sticky = self.queues[(self.sticky.index + 1) % len(self.queues)]


class Producer:
    """Made by ``Producer.open``; ``close`` (or the end of ``async with``) flushes first."""

    def __init__(self, cluster: Cluster, options: ProducerOptions, clock: Clock | None = None) -> None:
        options.check()
        self.cluster = cluster
        self.options = options
        self._now_ms = (clock or SystemClock()).now_ms
        self._loop = asyncio.get_running_loop()
        self._sender = Sender(cluster, options, self._queues, self._finish)
        self._topics: dict[str, _TopicQueues] = {}
        self._free_bytes = options.buffer_memory_bytes
        self._unfinished = 0
        self._progress: asyncio.Future[None] | None = None
        self._closed = False
        #: Of a transactional producer: whether records may be sent now.
        self._in_transaction = False
        #: Whether the transaction may be committed, though no answer said so.
        self._commit_tried = False
        self._prepared: ProducerIdentity | None = None
        self._fenced: ProducerFenced | None = None

    @classmethod
    async def open(
        cls,
        cluster: Cluster,
        *,
        clock: Clock | None = None,
        transaction: transactions.OpenTransaction | None = None,
        **options: Any,
    ) -> "Producer":
        """Takes the fields of ``ProducerOptions``; an idempotent producer asks for its id here.

        With a ``transaction``, nobody is fenced: it goes on in the epoch that another process has begun.
        """
        if transaction is not None:
            options["transactional_id"] = transaction.transactional_id
        producer = cls(cluster, ProducerOptions(**options), clock)
        if transaction is not None:
            producer._sender.enter(transaction)
        elif producer.options.transactional_id is None:
            await producer._sender.start()
        else:
            await producer._init_transactions(producer.options.transactional_id)
        return producer

    async def __aenter__(self) -> "Producer":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            await self._abort_what_is_open()
        await self.close(flush=error is None)

    async def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        partition: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        timestamp_ms: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> Delivery:
        """Takes a record; waits while there is no space. The outcome comes with the delivery."""
        while True:
            delivery = self.try_send(topic, value, key, partition, headers, timestamp_ms, on_delivery)
            if delivery is not None:
                return delivery
            if topic not in self._topics:
                await self._learn_topic(topic)
            elif self._sender.pump_scheduled:
                await asyncio.sleep(0)
            else:
                await self._wait_for_progress()

    def try_send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        partition: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        timestamp_ms: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> Delivery | None:
        """As ``send``, but None while the topic is not known, memory is full, or the loop must turn first."""
        queues = self._topics.get(topic)
        if queues is None or self._sender.pump_scheduled:
            return None
        if partition is not None:
            queue = self._chosen(queues, partition)
        elif key is not None:
            queue = queues.queues[partition_of(key, len(queues.queues))]
        else:
            queue = queues.sticky
        batch = queue.filling
        size = RECORD_OVERHEAD
        if value is not None:
            size += len(value)
        if key is not None:
            size += len(key)
        if headers:
            size += headers_size(headers)
        if batch is not None and batch.builder.size + size > self.options.batch_size_bytes:
            if queue is queues.sticky:
                queues.next_sticky()
            queue.close_batch()
            self._sender.ready(queue)
            return None  # the loop turns, so that what is full leaves before more is collected
        if batch is None:
            batch = self._open_batch(queue, size)
            if batch is None:
                return None
        if timestamp_ms is None:
            timestamp_ms = self._now_ms()
        builder = batch.builder
        index = builder.count
        builder.append(key, value, headers, timestamp_ms)
        if on_delivery is not None:
            batch.callbacks.append((index, timestamp_ms, on_delivery))
        return _new_tuple(Delivery, (batch, index, timestamp_ms))

    def grow(self, topic: str, partition_count: int) -> None:
        """Takes notice of partitions that a topic has got since the producer first wrote to it."""
        queues = self._topics.get(topic)
        if queues is not None:
            added = range(len(queues.queues), partition_count)
            queues.queues += [PartitionQueue(topic, index) for index in added]

    async def next_partition(self, topic: str) -> int:
        """Where a batch of records without keys goes; the one after it goes to the next partition."""
        if topic not in self._topics:
            await self._learn_topic(topic)
        queues = self._topics[topic]
        chosen = queues.sticky.index
        queues.next_sticky()
        return chosen

    async def send_encoded(self, topic: str, encoded: EncodedBatch, *, at_once: bool = False) -> Delivery:
        """Takes a batch whose records are encoded already; the outcome is that of its first record.

        What was sent to the same partition before goes before it. ``at_once`` does not wait for others that
        could travel in the same request.
        """
        size = len(encoded.content)
        if topic not in self._topics:
            await self._learn_topic(topic)
        while self._free_bytes < size and self._unfinished:
            await self._wait_for_progress()
        if self._closed:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "the producer is closed")
        if self.options.transactional_id is not None:
            self._check_sendable()
        queue = self._chosen(self._topics[topic], encoded.partition)
        queue.close_batch()
        batch = queue.add_encoded(encoded)
        batch.deadline = self._loop.time() + self.options.delivery_timeout_ms / 1000
        self._free_bytes -= size
        self._unfinished += 1
        (self._sender.send_now if at_once else self._sender.ready)(queue)
        return Delivery(batch, 0, encoded.max_timestamp)

    async def flush(self) -> None:
        """Returns when every record taken so far has its outcome."""
        for queue in self._queues():
            if queue.filling is not None:
                queue.close_batch()
                self._sender.ready(queue)
        while self._unfinished:
            await self._wait_for_progress()

    async def close(self, *, flush: bool = True) -> None:
        """Without ``flush``, records that are not in flight yet are given up.

        With it, a transaction that is open is aborted.
        """
        if flush and not self._closed:
            await self._abort_what_is_open()
            await self.flush()
        self._closed = True
        self._sender.close()
        gone = KafkaError(ErrorCode.NETWORK_EXCEPTION, "the producer was closed before the record was sent")
        for queue in self._queues():
            for batch in queue.drop_all():
                self._finish(batch, gone)

    # Transactions.

    @property
    def prepared(self) -> ProducerIdentity | None:
        """The transaction that waits to be completed: prepared here, or before and kept by ``open``."""
        return self._prepared

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is begun and not ended."""
        return self._in_transaction

    @property
    def identity(self) -> ProducerIdentity:
        """The id and epoch of a transactional producer; from transaction version 2 on, each end brings new
        ones."""
        return self._open_transaction.identity

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """A transaction that is committed at the end, or aborted when an exception leaves the block."""
        await self.begin_transaction()
        try:
            yield
            await self.commit_transaction()
        except BaseException:
            await self._abort_what_is_open()
            raise

    async def begin_transaction(self) -> None:
        self._check_transactional()
        if self._in_transaction or self._prepared is not None:
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, "the transaction before is not ended")
        self._in_transaction = True

    async def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, CommittedOffset | int],
        group: ConsumerGroupMetadata | str,
    ) -> None:
        """Commits offsets of a consumer group with the transaction; nothing is committed without it."""
        self._check_sendable()
        given = {p: CommittedOffset(o) if isinstance(o, int) else o for p, o in offsets.items()}
        metadata = ConsumerGroupMetadata(group) if isinstance(group, str) else group
        self._sender.transaction_started = True
        try:
            await transactions.commit_offsets(self.cluster, self._open_transaction, given, metadata)
        except KafkaError as error:
            self._sender.stop(error)
            raise self._in_words(error, final=True) from None

    async def commit_transaction(self) -> None:
        """Returns when the transaction is committed; the error of a record that was not written is raised.

        After any other error than ``ProducerFenced`` the transaction may be aborted.
        """
        await self._written()
        await self._end(commit=True)

    async def abort_transaction(self) -> None:
        """Records that are not in flight are not sent; no reader of committed records sees the others."""
        self._check_in_transaction()
        self._sender.stop(KafkaError(ErrorCode.TRANSACTION_ABORTABLE, "the transaction was aborted"))
        while self._unfinished:
            await self._wait_for_progress()
        await self._end(commit=False)

    async def prepare_transaction(self) -> ProducerIdentity:
        """The first phase: everything is written, and the transaction waits for ``complete_transaction``.

        What is returned is for whoever decides: with it, a later producer with ``keep_prepared`` can
        complete the transaction too.
        """
        if not self.options.two_phase_commit:
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, "the producer has not two_phase_commit=True")
        await self._written()
        self._prepared = self._open_transaction.identity
        self._in_transaction = False
        return self._prepared

    async def complete_transaction(self, prepared: ProducerIdentity) -> None:
        """The second phase: commits if this is the transaction that was prepared, and aborts any other."""
        self._check_transactional()
        if self._prepared is None:
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, "no transaction is prepared")
        self._sender.transaction_started = True
        await self._end(commit=self._prepared == prepared)

    async def _init_transactions(self, transactional_id: str) -> None:
        options = self.options
        found = await transactions.begin(
            self.cluster,
            transactional_id,
            timeout_ms=options.transaction_timeout_ms,
            two_phase=options.two_phase_commit,
            keep_prepared=options.keep_prepared,
        )
        self._prepared = found.prepared
        self._sender.enter(found)

    async def _written(self) -> None:
        """Returns when every record of the transaction is written; raises why one is not."""
        self._check_in_transaction()
        await self.flush()
        self._check_sendable()

    async def _end(self, *, commit: bool) -> None:
        transaction = self._open_transaction
        if self._sender.transaction_started:
            try:
                transaction = await self._ended(transaction, commit)
            except KafkaError as error:
                raise self._in_words(error, final=True) from None
        self._in_transaction, self._commit_tried, self._prepared = False, False, None
        self._sender.enter(replace(transaction, prepared=None))

    async def _ended(
        self, transaction: transactions.OpenTransaction, commit: bool
    ) -> transactions.OpenTransaction:
        """Ends a transaction; returns the producer in the epoch for the next one."""
        identity = None
        self._commit_tried = self._commit_tried or commit
        try:
            identity = await transactions.end(
                self.cluster, transaction.transactional_id, *transaction.identity, commit=commit
            )
        except KafkaError as error:
            # Nothing was open where the first request that would have begun it has failed.
            if self._commit_tried or error.code != ErrorCode.INVALID_TXN_STATE:
                raise
        if identity is not None:
            return replace(transaction, **identity._asdict())
        if commit:
            return transaction
        # What was not written has left a gap in the sequences, which end with the epoch.
        return await transactions.next_epoch(self.cluster, transaction, self.options.transaction_timeout_ms)

    async def _abort_what_is_open(self) -> None:
        """Tries to; if it fails, the next producer of the id or the timeout aborts the transaction."""
        if self._in_transaction and self._fenced is None and not self._closed:
            with suppress(KafkaError):
                await self.abort_transaction()

    @property
    def _open_transaction(self) -> transactions.OpenTransaction:
        assert self._sender.transaction is not None
        return self._sender.transaction

    def _check_transactional(self) -> None:
        if self._fenced is not None:
            raise self._fenced
        if self.options.transactional_id is None:
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, "the producer has no transactional id")

    def _check_in_transaction(self) -> None:
        self._check_transactional()
        if not self._in_transaction:
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, "no transaction is begun")

    def _check_sendable(self) -> None:
        """Whether the transaction can still be committed."""
        self._check_in_transaction()
        if self._sender.failure is not None:
            raise self._in_words(self._sender.failure)

    def _in_words(self, error: KafkaError, *, final: bool = False) -> KafkaError:
        """An error as it is raised. What a coordinator says of an epoch is final."""
        if error.code not in _FENCED:
            return error
        fenced = ProducerFenced(self.options.transactional_id or "")
        if final:
            self._fenced = fenced
        return fenced

    # Inside.

    def _queues(self) -> Iterator[PartitionQueue]:
        for topic in self._topics.values():
            yield from topic.queues

    def _chosen(self, queues: _TopicQueues, partition: int) -> PartitionQueue:
        count = len(queues.queues)
        if not 0 <= partition < count:
            topic = queues.sticky.topic
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"topic {topic!r} has partitions 0 to {count - 1}, not {partition}",
            )
        return queues.queues[partition]

    def _open_batch(self, queue: PartitionQueue, size: int) -> Batch | None:
        """A fresh batch for the queue; None when there is no memory for it before another is done."""
        options = self.options
        if self._closed:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "the producer is closed")
        if options.transactional_id is not None:
            self._check_sendable()
        if size > options.max_request_bytes:
            raise KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"a record of about {size} bytes does not fit a request of {options.max_request_bytes} bytes",
            )
        reserved = max(options.batch_size_bytes, size)
        if self._free_bytes < reserved and self._unfinished:
            return None
        self._free_bytes -= reserved
        self._unfinished += 1
        deadline = self._loop.time() + options.delivery_timeout_ms / 1000
        queue.filling = batch = Batch(queue, reserved, deadline)
        if options.linger_ms > 0:
            self._loop.call_later(options.linger_ms / 1000, self._linger_over, batch)
        else:
            self._loop.call_soon(self._linger_over, batch)
        return batch

    def _linger_over(self, batch: Batch) -> None:
        queue = batch.queue
        if queue.filling is batch:
            queue.close_batch()
            self._sender.send_now(queue)

    def _finish(self, batch: Batch, outcome: Outcome) -> None:
        self._free_bytes += batch.reserved
        self._unfinished -= 1
        if self._progress is not None and not self._progress.done():
            self._progress.set_result(None)
        batch.finish(outcome)

    async def _wait_for_progress(self) -> None:
        """Until some batch has its outcome."""
        if self._progress is None or self._progress.done():
            self._progress = self._loop.create_future()
        await asyncio.shield(self._progress)

    async def _learn_topic(self, name: str) -> None:
        """Waits for a topic that the cluster may be creating because we ask for it."""
        options = self.options
        topic = await self.cluster.retry(
            lambda: self.cluster.topic(
                name, refresh=True, allow_auto_topic_creation=options.allow_auto_create_topics
            ),
            timeout_ms=options.max_block_ms,
        )
        if name not in self._topics:
            first = self._now_ms()  # not every producer starts with partition 0
            self._topics[name] = _TopicQueues(name, len(topic.partitions), first)
            await self._sender.connect()
