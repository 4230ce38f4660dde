"""Reads one offset range of one partition: fetches ahead while the bytes before are decoded.

``pieces_of_range`` gives what a query asks for: every record, or with ``asOf`` the last one of each key. All
readers call it, so that typed and plain columns, with Spark and without, agree.

Invariant: every visible record of [start, end) comes once and in order, or an error says which is missing;
a task never ends early in silence.
"""

from collections.abc import Iterator

from moldau.base.names import TopicPartition
from moldau.client.admin.descriptions import READ_COMMITTED, READ_UNCOMMITTED
from moldau.client.consumer.partition_fetcher import BlockingPartitionFetcher, Fetched, PartitionFetcher
from moldau.client.transport.background_loop import BackgroundLoop
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.records import ATTRIBUTES_AT, COMPRESSION_MASK, HEADER_SIZE
from moldau.spark.jvm.column_memory import bytes_for_pieces
from moldau.spark.options import ReadOptions
from moldau.spark.read.columns import Columns
from moldau.spark.read.damage import DataLoss
from moldau.spark.read.decoding import decode, next_offset_of
from moldau.spark.read.decompression import Decompressor
from moldau.spark.read.listing import list_offset
from moldau.spark.read.offsets import EARLIEST
from moldau.spark.read.planning import OffsetRange

#: The assumed size of a record before the first ones have arrived, and the smallest fetch.
_FIRST_RECORD_BYTES = 4096
_LEAST_FETCH_BYTES = 64 * 1024
#: The first fetch of a range is small, and each is twice as large as the one before, so that a query which
#: shows a few rows gets them quickly.
_FIRST_FETCH_BYTES = 256 * 1024


class RangeReader:
    def __init__(self, loop: BackgroundLoop, wanted: OffsetRange, options: ReadOptions) -> None:
        self._loop = loop
        self._wanted = wanted
        self._options = options
        self._partition = TopicPartition(wanted.topic, wanted.partition)
        #: What a record of this range needs, as far as it has come.
        self._record_bytes = float(_FIRST_RECORD_BYTES)
        self._most_bytes = _FIRST_FETCH_BYTES
        #: As far as is known from the last fetch.
        self._compressed = False

    def __iter__(self) -> Iterator[Columns]:
        """The records in pieces, one for each fetch that brought any."""
        if self._wanted.start >= self._wanted.end:
            return
        options = self._options
        fetcher = PartitionFetcher(
            self._loop.cluster,
            self._partition,
            isolation_level=READ_COMMITTED if options.read_committed else READ_UNCOMMITTED,
            max_bytes=options.fetch_max_bytes,
            end=self._wanted.end,
        )
        fetches = BlockingPartitionFetcher(self._loop, fetcher)
        try:
            yield from self._pieces(fetches)
        finally:
            fetches.close()

    def _pieces(self, fetches: BlockingPartitionFetcher) -> Iterator[Columns]:
        wanted, options = self._wanted, self._options
        decompressor = Decompressor()
        offset = wanted.start
        fetches.begin(offset, self._fetch_bytes(offset))
        while offset < wanted.end:
            fetched = self._taken(fetches, offset)
            if fetched is None:
                offset = self._passed_over(offset)
                if offset < wanted.end:
                    fetches.begin(offset, self._fetch_bytes(offset))
                continue
            after = next_offset_of(fetched.records, offset)
            if after == offset and fetched.visible_end >= wanted.end:
                return  # compaction has left nothing there
            if after > offset:
                self._record_bytes = len(fetched.records) / (after - offset)
                self._most_bytes = min(self._most_bytes * 2, options.partition_fetch_bytes)
            if after < wanted.end:
                fetches.begin(after, self._fetch_bytes(after))
            self._compressed = _is_compressed(fetched.records)
            columns = decode(
                fetched.records,
                decompressor=decompressor,
                name=str(self._partition),
                first_offset=offset,
                end_offset=wanted.end,
                aborted=fetched.aborted_transactions if options.read_committed else None,
                headers=options.include_headers,
            )
            offset = after
            del fetched  # its memory is free for the fetch after the next
            if columns.rows:
                yield columns

    def _taken(self, fetches: BlockingPartitionFetcher, offset: int) -> Fetched | None:
        """What the fetch brought; None where the offset is gone and data loss is allowed."""
        try:
            # Columns can point into fetched records only where these are not compressed.
            return fetches.take(None if self._compressed else bytes_for_pieces)
        except KafkaError as error:
            if error.code != ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            if self._options.fail_on_data_loss:
                raise self._lost(offset) from None
            return None

    def _passed_over(self, offset: int) -> int:
        """Where reading goes on behind a hole; the end of the range when nothing is left of it."""
        start = self._loop.run(list_offset(self._loop.cluster, self._partition, EARLIEST))
        return min(max(start, offset), self._wanted.end) if start > offset else self._wanted.end

    def _lost(self, offset: int) -> DataLoss:
        return DataLoss(
            f"offset {offset} of {self._partition} is gone: retention or DeleteRecords has removed it, or "
            "the topic was made again, since this query planned to read it. Begin at what is left with "
            "another checkpoint and startingOffsets=earliest, or set failOnDataLoss=false to pass over holes."
        )

    def _fetch_bytes(self, offset: int) -> int:
        """About the size of the rest of the range: bytes behind it would be fetched in vain."""
        rest = int((self._wanted.end - offset) * self._record_bytes * 1.25)
        return min(self._most_bytes, self._options.partition_fetch_bytes, rest + _LEAST_FETCH_BYTES)


def pieces_of_range(loop: BackgroundLoop, wanted: OffsetRange, options: ReadOptions) -> Iterator[Columns]:
    """The records in pieces."""
    if options.as_of_ms is None:
        yield from RangeReader(loop, wanted, options)
        return
    from moldau.spark.read.as_of import last_of_keys

    table = last_of_keys(RangeReader(loop, wanted, options))
    if table is not None:
        yield table


def _is_compressed(records: memoryview) -> bool:
    """Whether the first batch is, and so probably the others."""
    return len(records) > HEADER_SIZE and bool(records[ATTRIBUTES_AT + 1] & COMPRESSION_MASK)
