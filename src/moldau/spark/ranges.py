"""Reads one offset range of one partition: fetches ahead while the bytes before are decoded.

Law: every visible record of [start, end) comes once and in order, or an error says which is missing. A leader
that moves and errors that pass are waited for here, within the time that the options give; a task never ends
early in silence.
"""

from collections.abc import Iterator
from concurrent.futures import Future
from typing import NamedTuple

from moldau.base.names import ZERO_UUID, TopicPartition
from moldau.client.connection import error_code
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.fetch import (
    AbortedTransaction,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from moldau.spark.columns import Columns
from moldau.spark.data_loss import DataLoss
from moldau.spark.decoding import decode, next_offset_of
from moldau.spark.listing import list_offset
from moldau.spark.offsets import EARLIEST
from moldau.spark.options import ReadOptions
from moldau.spark.planning import OffsetRange
from moldau.spark.wire import Wire

#: The last version of Fetch that names topics; later ones have their ids.
_LAST_VERSION_WITH_NAMES = 12
_MAX_WAIT_MS = 500
#: What a record is taken to need before the first ones have come, and the least that is asked for.
_FIRST_RECORD_BYTES = 4096
_LEAST_FETCH_BYTES = 64 * 1024
#: The first fetch of a range is a small one, and each is twice the one before: whoever wants a few rows to
#: look at has them soon.
_FIRST_FETCH_BYTES = 256 * 1024
READ_COMMITTED = 1


class Fetched(NamedTuple):
    records: memoryview
    aborted: list[AbortedTransaction]
    #: Everything below this is there for a reader to see.
    visible_end: int
    log_start_offset: int


class RangeReader:
    def __init__(self, wire: Wire, wanted: OffsetRange, options: ReadOptions) -> None:
        self._wire = wire
        self._wanted = wanted
        self._options = options
        self._partition = TopicPartition(wanted.topic, wanted.partition)
        #: What a record of this range needs, as far as it has come.
        self._record_bytes = float(_FIRST_RECORD_BYTES)
        self._most_bytes = _FIRST_FETCH_BYTES

    def __iter__(self) -> Iterator[Columns]:
        """The records in pieces, one for each fetch that brought any."""
        wanted, options = self._wanted, self._options
        offset = wanted.start
        ahead = self._begin(offset)
        while offset < wanted.end:
            fetched = self._wait(ahead, offset)
            if fetched is None:
                offset = self._passed_over(offset)
                ahead = self._begin(offset)
                continue
            after = next_offset_of(fetched.records, offset)
            if after == offset and fetched.visible_end >= wanted.end:
                return  # compaction has left nothing there
            if after > offset:
                self._record_bytes = len(fetched.records) / (after - offset)
                self._most_bytes = min(self._most_bytes * 2, options.partition_fetch_bytes)
            if after < wanted.end:
                ahead = self._begin(after)
            columns = decode(
                fetched.records,
                name=str(self._partition),
                first_offset=offset,
                end_offset=wanted.end,
                aborted=fetched.aborted if options.read_committed else None,
                headers=options.include_headers,
            )
            offset = after
            if columns.rows:
                yield columns

    def _begin(self, offset: int) -> "Future[Fetched]":
        cluster = self._wire.cluster
        return self._wire.begin(cluster.retry(lambda: self._fetch(offset)))

    def _wait(self, ahead: "Future[Fetched]", offset: int) -> Fetched | None:
        """What a fetch brought; None where the offset is gone and that may be."""
        try:
            fetched = ahead.result()
        except KafkaError as error:
            if error.code == ErrorCode.OFFSET_OUT_OF_RANGE and not self._options.fail_on_data_loss:
                return None
            if error.code == ErrorCode.OFFSET_OUT_OF_RANGE:
                raise self._lost(offset) from None
            raise
        except BaseException:
            ahead.cancel()
            raise
        return fetched

    def _passed_over(self, offset: int) -> int:
        """Where reading goes on behind a hole; the end of the range when nothing is left of it."""
        start = self._wire.ask(list_offset(self._wire.cluster, self._partition, EARLIEST))
        return min(max(start, offset), self._wanted.end) if start > offset else self._wanted.end

    def _lost(self, offset: int) -> DataLoss:
        return DataLoss(
            f"offset {offset} of {self._partition} is gone: retention or DeleteRecords has removed it, or "
            "the topic was made anew, since this query planned to read it. Begin at what is left with "
            "another checkpoint and startingOffsets=earliest, or set failOnDataLoss=false to pass over holes."
        )

    def _fetch_bytes(self, offset: int) -> int:
        """No more than the rest of the range seems to need: what lies behind it would be fetched in vain."""
        rest = int((self._wanted.end - offset) * self._record_bytes * 1.25)
        return min(self._most_bytes, self._options.partition_fetch_bytes, rest + _LEAST_FETCH_BYTES)

    async def _fetch(self, offset: int) -> Fetched:
        options, cluster, (name, index) = self._options, self._wire.cluster, self._partition
        known = cluster.known_topic(name) or await cluster.topic(name)
        connection = await cluster.leader(self._partition, lane=f"{name}-{index}")
        asked = FetchPartition(
            partition=index, fetch_offset=offset, partition_max_bytes=self._fetch_bytes(offset)
        )
        request = FetchRequest(
            max_wait_ms=_MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=options.fetch_max_bytes,
            isolation_level=READ_COMMITTED if options.read_committed else 0,
            topics=[FetchTopic(topic=name, topic_id=known.topic_id, partitions=[asked])],
        )
        by_name = known.topic_id == ZERO_UUID
        answer: FetchResponse = await connection.send(
            request, max_version=_LAST_VERSION_WITH_NAMES if by_name else None
        )
        if answer.error_code:
            raise KafkaError(error_code(answer.error_code), f"{connection.address} refused to fetch")
        data = answer.responses[0].partitions[0]
        if data.error_code:
            raise KafkaError(error_code(data.error_code), f"{self._partition} cannot be read")
        visible_end = data.last_stable_offset if options.read_committed else data.high_watermark
        records = memoryview(data.records or b"")
        if not records and visible_end < self._wanted.end:
            # The planned end is not there (yet): another leader that lags, or an open transaction.
            raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE, f"{self._partition} ends at {visible_end}")
        return Fetched(records, list(data.aborted_transactions or ()), visible_end, data.log_start_offset)
