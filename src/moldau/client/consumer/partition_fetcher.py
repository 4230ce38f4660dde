"""Fetches of one partition, for asyncio and for a thread that waits.

    fetcher = PartitionFetcher(cluster, TopicPartition("orders", 0), isolation_level=READ_COMMITTED)
    fetched = await fetcher.fetch(offset, max_bytes)

``fetch`` goes through the cluster's connections and is tried again while leaders move and errors are
retriable. A thread that waits has ``BlockingPartitionFetcher``: ``begin`` asks, over a blocking connection
where there can be one, and ``take`` gives the answer. Whatever goes wrong there, and whatever the leader
refuses, is left to ``fetch``.

Invariant: a fetch that was begun ends with what it brought or with the error of ``fetch``; nothing that
came over a connection that failed is used.
"""

from collections.abc import Callable
from concurrent.futures import Future
from typing import NamedTuple

from moldau.base.names import TopicPartition
from moldau.client.admin.descriptions import READ_COMMITTED, READ_UNCOMMITTED
from moldau.client.consumer.fetch_requests import FetchPosition, fetch_request, fetched_partitions
from moldau.client.transport.background_loop import BackgroundLoop
from moldau.client.transport.blocking_connection import BlockingConnection
from moldau.client.transport.cluster import Cluster
from moldau.client.transport.connection import error_code
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.fetch import AbortedTransaction, FetchRequest, FetchResponse


class Fetched(NamedTuple):
    records: memoryview
    #: Transactions with records here that were aborted; none unless only committed records are wanted.
    aborted_transactions: list[AbortedTransaction]
    #: Everything below this is there for a reader to see.
    visible_end: int


class PartitionFetcher:
    """``end`` is what is promised: a partition that seems to end before it is asked again."""

    def __init__(
        self,
        cluster: Cluster,
        partition: TopicPartition,
        *,
        isolation_level: int = READ_UNCOMMITTED,
        max_bytes: int = 52_428_800,
        end: int = 0,
        purpose: str | None = None,
    ) -> None:
        self.cluster = cluster
        self.partition = partition
        self._isolation_level = isolation_level
        self._max_bytes = max_bytes
        self._end = end
        #: A connection of our own: other readers must not wait behind our long polls.
        self._purpose = f"fetch-{partition}" if purpose is None else purpose

    async def fetch(self, offset: int, partition_max_bytes: int) -> Fetched:
        """What there is from ``offset`` on: whole batches, perhaps after the time that a Fetch waits."""

        async def attempt() -> Fetched:
            await self.cluster.topic(self.partition.topic)
            connection = await self.cluster.leader(self.partition, self._purpose)
            request, version = self.request(offset, partition_max_bytes)
            answer = await connection.send(request, max_version=version)
            return self.read(answer, offset, connection.address)

        return await self.cluster.retry(attempt)

    async def disconnect(self) -> None:
        """Closes the connection that these fetches alone have used."""
        known = self.cluster.partition(self.partition)
        if known is not None:
            await self.cluster.disconnect(known.leader_id, self._purpose)

    def request(self, offset: int, partition_max_bytes: int) -> tuple[FetchRequest, int | None]:
        """The request, and the last version that it can be sent in."""
        return fetch_request(
            self.cluster,
            [FetchPosition(self.partition, offset, partition_max_bytes)],
            isolation_level=self._isolation_level,
            max_bytes=self._max_bytes,
        )

    def read(self, answer: FetchResponse, offset: int, address: str) -> Fetched:
        """What an answer brought; raises its error."""
        data = dict(fetched_partitions(self.cluster, answer, address)).get(self.partition)
        if data is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{address} left {self.partition} out")
        if data.error_code:
            raise KafkaError(
                error_code(data.error_code), f"{self.partition} cannot be read at offset {offset}"
            )
        committed = self._isolation_level == READ_COMMITTED
        visible_end = data.last_stable_offset if committed else data.high_watermark
        records = memoryview(data.records or b"")
        if not records and visible_end < self._end:
            # The promised end is not there (yet): another leader that lags, or an open transaction.
            raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE, f"{self.partition} ends at {visible_end}")
        return Fetched(records, list(data.aborted_transactions or ()), visible_end)


class BlockingPartitionFetcher:
    """One fetch is in flight at a time."""

    def __init__(self, loop: BackgroundLoop, fetcher: PartitionFetcher) -> None:
        self._loop = loop
        self._fetcher = fetcher
        self._connection: BlockingConnection | None = None
        self._asked: tuple[int, int] | None = None
        #: The answer, where the fetch did not go over a blocking connection.
        self._retrying: Future[Fetched] | None = None

    def begin(self, offset: int, partition_max_bytes: int) -> None:
        """Asks for what comes from ``offset`` on."""
        self._asked = offset, partition_max_bytes
        try:
            if self._connection is None and self._loop.has_blocking_connections:
                self._connection = self._loop.blocking_connection_to_leader(self._fetcher.partition)
            if self._connection is not None:
                request, version = self._fetcher.request(offset, partition_max_bytes)
                self._connection.send(request, max_version=version)
                return
        except KafkaError:
            self._disconnect()
        self._retrying = self._loop.submit(self._fetcher.fetch(offset, partition_max_bytes))

    def take(self, memory: Callable[[int], memoryview | None] | None = None) -> Fetched:
        """What the fetch brought, in ``memory`` where that gives any."""
        assert self._asked is not None, "no fetch was begun"
        if self._retrying is not None:
            retrying, self._retrying = self._retrying, None
            try:
                return retrying.result()
            except BaseException:
                retrying.cancel()
                raise
        assert self._connection is not None
        try:
            answer = self._connection.receive(memory)
            return self._fetcher.read(answer, self._asked[0], self._connection.address)
        except KafkaError:
            self._disconnect()
        return self._loop.run(self._fetcher.fetch(*self._asked))

    def close(self) -> None:
        """Drops the fetch that is still in flight."""
        if self._retrying is not None:
            self._retrying.cancel()
        if self._connection is not None:
            self._loop.give_back(self._connection)
            self._connection = None

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
