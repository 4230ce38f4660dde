"""The log of a coordinator, as its runtime needs it."""

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from moldau.coordinators.shard import ProducerIdAndEpoch


class JournalEntry(NamedTuple):
    """What a journal reads: one record, or the marker that ends a transaction."""

    offset: int
    key: bytes | None
    value: bytes | None
    producer: ProducerIdAndEpoch | None = None
    #: For a marker: whether it commits the transaction of ``producer``. None for a record.
    committed: bool | None = None


class Journal(Protocol):
    """The partitions of one internal topic, as a coordinator needs them."""

    def append(
        self, partition: int, records: list[tuple[bytes, bytes | None]], producer: ProducerIdAndEpoch | None
    ) -> int:
        """Appends records in one batch and returns the offset behind them; KafkaError when it cannot."""
        ...

    def room(self, partition: int) -> int:
        """How many bytes a batch may have; KafkaError when an append would be refused now."""
        ...

    def committed(self, partition: int) -> int:
        """Everything below this offset is committed."""
        ...

    def end(self, partition: int) -> int:
        """Everything below this offset is committed, or will be as long as this node leads."""
        ...

    def read(self, partition: int) -> Iterator[JournalEntry]:
        """Everything up to the end, in order; corrupt batches are logged and skipped."""
        ...
