"""Fetches of one partition, one on its way at a time: over a line where there can be one, and tried again.

The fast way is a line (``client/transport/blocking_connection.py``) to the leader. Whatever goes wrong with
it, and whatever the leader refuses, is left to the patient way: the same fetch through the cluster's
connections, which waits for a leader that moves and for errors that pass, within the time that the options
give.

Invariant: a fetch that was begun ends with what it brought or with the error of the patient way; nothing
that came over a line that failed is used.
"""

from collections.abc import Callable
from concurrent.futures import Future
from typing import NamedTuple

from moldau.base.names import ZERO_UUID, TopicPartition
from moldau.client.transport.blocking_connection import Line
from moldau.client.transport.connection import error_code
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.fetch import (
    AbortedTransaction,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from moldau.spark.options import ReadOptions
from moldau.spark.wire import Wire

#: The last version of Fetch that names topics; later ones have their ids.
_LAST_VERSION_WITH_NAMES = 12
_MAX_WAIT_MS = 500
_READ_COMMITTED = 1


class Fetched(NamedTuple):
    records: memoryview
    aborted: list[AbortedTransaction]
    #: Everything below this is there for a reader to see.
    visible_end: int


class Fetches:
    """``end`` is what the plan promises: a partition that seems to end before it is asked again."""

    def __init__(self, wire: Wire, partition: TopicPartition, end: int, options: ReadOptions) -> None:
        self._wire = wire
        self._partition = partition
        self._end = end
        self._options = options
        self._line: Line | None = None
        self._asked: tuple[int, int] | None = None
        #: The patient way, where a fetch went it from the beginning.
        self._patient: Future[Fetched] | None = None

    def begin(self, offset: int, most_bytes: int) -> None:
        """Asks for what lies behind ``offset``."""
        self._asked = offset, most_bytes
        try:
            if self._line is None:
                self._line = self._wire.line(self._partition)
            if self._line is not None:
                request, max_version = self._request(offset, most_bytes)
                self._line.ask(request, max_version=max_version)
                return
        except KafkaError:
            self._hang_up()
        self._patient = self._wire.begin(self._patiently(offset, most_bytes))

    def take(self, memory: Callable[[int], memoryview | None] | None = None) -> Fetched:
        """What the fetch brought, in ``memory`` where that gives any; the error that will not pass."""
        assert self._asked is not None, "no fetch was begun"
        if self._patient is not None:
            patient, self._patient = self._patient, None
            try:
                return patient.result()
            except BaseException:
                patient.cancel()
                raise
        assert self._line is not None
        try:
            return self._fetched(self._line.answer(memory), self._line.address)
        except KafkaError:
            self._hang_up()
        return self._wire.ask(self._patiently(*self._asked))

    def close(self) -> None:
        """What is still on its way is of no interest."""
        if self._patient is not None:
            self._patient.cancel()
        if self._line is not None:
            self._wire.give_back(self._line)
            self._line = None

    def _hang_up(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None

    async def _patiently(self, offset: int, most_bytes: int) -> Fetched:
        return await self._wire.cluster.retry(lambda: self._fetch(offset, most_bytes))

    async def _fetch(self, offset: int, most_bytes: int) -> Fetched:
        cluster, (name, index) = self._wire.cluster, self._partition
        await cluster.topic(name)
        connection = await cluster.leader(self._partition, lane=f"{name}-{index}")
        request, max_version = self._request(offset, most_bytes)
        return self._fetched(await connection.send(request, max_version=max_version), connection.address)

    def _request(self, offset: int, most_bytes: int) -> tuple[FetchRequest, int | None]:
        options, (name, index) = self._options, self._partition
        known = self._wire.cluster.known_topic(name)
        topic_id = ZERO_UUID if known is None else known.topic_id
        asked = FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=most_bytes)
        request = FetchRequest(
            max_wait_ms=_MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=options.fetch_max_bytes,
            isolation_level=_READ_COMMITTED if options.read_committed else 0,
            topics=[FetchTopic(topic=name, topic_id=topic_id, partitions=[asked])],
        )
        return request, _LAST_VERSION_WITH_NAMES if topic_id == ZERO_UUID else None

    def _fetched(self, answer: FetchResponse, address: str) -> Fetched:
        if answer.error_code:
            raise KafkaError(error_code(answer.error_code), f"{address} refused to fetch")
        data = answer.responses[0].partitions[0]
        if data.error_code:
            raise KafkaError(error_code(data.error_code), f"{self._partition} cannot be read")
        visible_end = data.last_stable_offset if self._options.read_committed else data.high_watermark
        records = memoryview(data.records or b"")
        if not records and visible_end < self._end:
            # The planned end is not there (yet): another leader that lags, or an open transaction.
            raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE, f"{self._partition} ends at {visible_end}")
        return Fetched(records, list(data.aborted_transactions or ()), visible_end)
