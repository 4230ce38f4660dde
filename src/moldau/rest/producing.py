"""Records on their way to the cluster: sent together, each with an outcome of its own.

Invariant: what a cluster refuses is the outcome of the records concerned and never loses those of the others.
A request waits while the producer's memory is full, so what clients send is bounded by what brokers take.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import Any, NamedTuple

from moldau.client.producer.accumulator import RECORD_OVERHEAD, RecordMetadata
from moldau.client.producer.encoded_batch import EncodedBatch
from moldau.client.producer.partitioner import partition_of
from moldau.client.producer.producer import Delivery, Producer
from moldau.protocol.errors import KafkaError
from moldau.protocol.records import HEADER_SIZE
from moldau.rest.plain_records import PlainRecords
from moldau.rest.sessions import Session
from moldau.rest.shared_batches import FOR_WHAT_IS_IN_IT, Place, Share, SharedBatches


class OutgoingRecord(NamedTuple):
    key: bytes | None
    value: bytes | None
    partition: int | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()
    timestamp_ms: int | None = None


Outcome = RecordMetadata | KafkaError

#: Fewer records are given to the producer one by one.
MIN_IN_COLUMNS = 8


class Written(NamedTuple):
    """The outcome of records that travelled together: their places in the request, and where they went."""

    places: Sequence[int]
    partition: int
    #: The offset of the first one; the others follow. -1 where nobody knows.
    outcome: int | KafkaError


async def send_all(session: Session, topic: str, records: Sequence[OutgoingRecord]) -> list[Outcome]:
    """Sends records in their order; the outcomes are in the same order."""
    producer = await session.producer()
    waiting: list[Delivery | KafkaError] = []
    for key, value, partition, headers, timestamp_ms in records:
        try:
            found: Any = producer.try_send(topic, value, key, partition, headers, timestamp_ms)
            if found is None:
                found = await producer.send(topic, value, key, partition, headers, timestamp_ms)
        except KafkaError as error:
            found = error
        waiting.append(found)
    outcomes: list[Outcome] = []
    for each, record in zip(waiting, records, strict=True):
        if isinstance(each, KafkaError):
            outcomes.append(each)
        elif isinstance(each.batch.outcome, tuple):  # as all of a batch have, when the first one has
            outcomes.append(each.batch.metadata(each.place, each.timestamp))
        else:
            outcomes.append(await outcome_of(producer, each, record))
    return outcomes


def is_tried_alone(delivery: Delivery, outcome: object) -> bool:
    """Whether a record was refused together with others, and perhaps because of them."""
    refused = isinstance(outcome, KafkaError) and outcome.code in FOR_WHAT_IS_IN_IT
    return refused and delivery.batch.count > 1


async def outcome_of(producer: Producer, delivery: Delivery, record: OutgoingRecord | None) -> Outcome:
    """What became of a record, which may be None where it is known that it is not tried alone."""
    outcome, batch = await _outcome(delivery), delivery.batch
    if record is None or not is_tried_alone(delivery, outcome):
        return outcome
    key, value, _, headers, _ = record
    alone = EncodedBatch.of_record(batch.queue.index, key, value, headers, delivery.timestamp)
    try:
        return await _outcome(await producer.send_encoded(batch.queue.topic, alone))
    except KafkaError as error:
        return error


async def _outcome(delivery: Delivery) -> Outcome:
    try:
        return await delivery
    except KafkaError as error:
        return error


# Records that are sent in columns ------------------------------------------------------------------------


async def send_plain(
    batches: SharedBatches,
    topic: str,
    records: PlainRecords,
    partition: int | None,
    partition_count: int,
    *,
    size: int,
) -> list[Written]:
    """The same for many records at once: an outcome for those of each partition.

    ``size`` is what ``size_of`` says of them.
    """
    limit = batches.producer.options.batch_size_bytes
    sent: list[tuple[Sequence[int], Place, Share]] = []
    everything = range(len(records.values))
    for chosen, places in by_partition(records, partition, partition_count):
        for part in (places,) if size <= limit else _in_batches(records, places, limit):
            keys = None if records.keys is None else _those(records.keys, part)
            place, values = (topic, chosen), _those(records.values, part)
            if size <= limit:
                share = await batches.add(place, values, keys, size, at_once=places == everything)
            else:  # those of one partition have to stay in their order
                share = await batches.add_alone(place, values, keys)
            sent.append((part, place, share))
    return [Written(places, *await batches.outcome(place, share)) for places, place, share in sent]


def one_by_one(records: PlainRecords, partition: int | None) -> list[OutgoingRecord]:
    """Records for ``send_all``; a partition of the request is that of all of them."""
    nothing = [None] * len(records.values)
    chosen = nothing if records.partitions is None else records.partitions
    return [
        OutgoingRecord(key, value, own if partition is None else partition)
        for key, value, own in zip(records.keys or nothing, records.values, chosen, strict=True)
    ]


def fits_batches(records: PlainRecords, batch_size_bytes: int) -> bool:
    """Whether no record is larger than a batch; one that is has to be sent alone."""
    largest = max(map(_size, records.values)) + (0 if records.keys is None else max(map(_size, records.keys)))
    return HEADER_SIZE + RECORD_OVERHEAD + largest <= batch_size_bytes


def size_of(records: PlainRecords) -> int:
    """No fewer bytes than a batch of all of them has."""
    total = HEADER_SIZE + RECORD_OVERHEAD * len(records.values) + sum(map(len, filter(None, records.values)))
    return total + sum(map(len, filter(None, records.keys or ())))


def by_partition(
    records: PlainRecords, partition: int | None, partition_count: int
) -> Iterator[tuple[int | None, Sequence[int]]]:
    """Places of records by the partition that they name or their key has; None for any.

    All of them are a range.
    """
    everything = range(len(records.values))
    if partition is not None:
        yield partition, everything
        return
    if records.partitions is None and (records.keys is None or partition_count == 1):
        yield None if records.keys is None else 0, everything
        return
    found: defaultdict[int | None, list[int]] = defaultdict(list)
    nothing = repeat(None)
    columns = zip(everything, records.partitions or nothing, records.keys or nothing, strict=False)
    for place, chosen, key in columns:
        if chosen is None and key is not None:
            chosen = partition_of(key, partition_count)
        found[chosen].append(place)
    yield from found.items()


def _in_batches(records: PlainRecords, places: Sequence[int], limit: int) -> Iterator[Sequence[int]]:
    """Places, cut into as many as a batch can take."""
    values, keys = records.values, records.keys
    sizes = [RECORD_OVERHEAD + _size(values[each]) for each in places]
    if keys is not None:
        sizes = [size + _size(keys[each]) for size, each in zip(sizes, places, strict=True)]
    begin, total = 0, HEADER_SIZE
    for index, size in enumerate(sizes):
        if total + size > limit:
            yield places[begin:index]
            begin, total = index, HEADER_SIZE
        total += size
    yield places[begin:]


def _those(column: Sequence[bytes | None], places: Sequence[int]) -> Sequence[bytes | None]:
    return column if len(places) == len(column) else [column[each] for each in places]


def _size(data: bytes | None) -> int:
    return 0 if data is None else len(data)
