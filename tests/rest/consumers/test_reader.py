"""Records at hand: small batches that follow each other are one, where nothing tells their records apart."""

import asyncio

import pytest

from moldau.base.names import TopicPartition
from moldau.client.consumer.fetched import ConsumerRecord, FetchedBatch
from moldau.protocol.errors import KafkaError
from moldau.protocol.records import Record, TimestampType, encode_batch, read_header
from moldau.rest.consumers import reader as reader_module
from moldau.rest.consumers.reader import Reader, Ready
from moldau.rest.consumers.settings import InstanceSettings


def fetched(base, *values, key=None, partition=0, epoch=1, kind=TimestampType.CREATE_TIME, fetch_offset=0):
    records = [Record(base + place, 1000 + place, key, value) for place, value in enumerate(values)]
    data = encode_batch(records, base_offset=base, leader_epoch=epoch, timestamp_type=kind)
    return FetchedBatch("orders", partition, read_header(data), memoryview(data), 0, fetch_offset)


def test_batches_of_values_become_one():
    at_hand = Ready(fetched(5, b"a", b"b"))
    assert at_hand.join(fetched(7, b"c"))
    assert at_hand.join(fetched(8, b"d", b"e"))
    assert (at_hand.values, at_hand.count) == ([b"a", b"b", b"c", b"d", b"e"], 5)
    assert [at_hand.offset(place) for place in range(5)] == [5, 6, 7, 8, 9]
    assert [(each.offset, each.value, each.timestamp) for each in at_hand.records] == [
        (5, b"a", 1000),
        (6, b"b", 1001),
        (7, b"c", 1000),
        (8, b"d", 1000),
        (9, b"e", 1001),
    ]
    at_hand.begin = 3
    assert at_hand.first_size() == 1
    assert at_hand.first() == ConsumerRecord(
        "orders", 0, 8, 1000, TimestampType.CREATE_TIME, None, b"d", (), 1
    )


@pytest.mark.parametrize(
    "behind",
    [
        fetched(8, b"c"),
        fetched(7, b"c", key=b"k"),
        fetched(7, None),
        fetched(7, b"c", partition=1),
        fetched(7, b"c", epoch=2),
        fetched(7, b"c", kind=TimestampType.LOG_APPEND_TIME),
        fetched(7, b"c", b"d", fetch_offset=8),
    ],
)
def test_what_differs_stays_a_batch_of_its_own(behind):
    at_hand = Ready(fetched(5, b"a", b"b"))
    assert not at_hand.join(behind)
    assert (at_hand.values, at_hand.count, len(at_hand.records)) == ([b"a", b"b"], 2, 2)


def test_records_with_keys_are_not_put_together():
    at_hand = Ready(fetched(5, b"a", key=b"k"))
    assert at_hand.values is None
    assert not at_hand.join(fetched(6, b"b"))
    assert (at_hand.count, at_hand.offset(0), at_hand.first_size()) == (1, 5, 2)


def test_no_more_than_an_answer_needs_is_put_together():
    at_hand = Ready(fetched(0, b"x"))
    joined = 1
    while at_hand.join(fetched(joined, b"x")):
        joined += 1
    assert at_hand.count == joined == 100


def test_a_batch_that_cannot_be_opened_is_not_skipped():
    data = encode_batch([Record(5, 1000, b"k", b"value")], base_offset=5)
    data[-6:] = b"\xff" * 6
    damaged = FetchedBatch("orders", 0, read_header(data), memoryview(data), 0, 5)
    reader = Reader(None, "g", InstanceSettings())
    reader._batches.extend([damaged, fetched(6, b"a")])
    for _ in range(2):
        with pytest.raises(KafkaError, match="orders-0 cannot be read at offset 5"):
            reader.look()


def test_more_is_fetched_when_half_of_what_was_ready_is_gone(monkeypatch):
    batches = [fetched(place, b"a", key=b"k") for place in range(8)]
    monkeypatch.setattr(reader_module, "_READY_BYTES", sum(each.size for each in batches))
    monkeypatch.setattr(reader_module, "_READY_BATCHES", 100)

    async def work():
        reader = Reader(None, "g", InstanceSettings())
        reader.positions[TopicPartition("orders", 0)] = 0
        wanted = []
        for batch in batches:
            wanted.append(reader._wanted.is_set())
            reader._make_ready(batch)
        assert all(wanted)
        assert not reader._wanted.is_set()
        for _ in batches:
            assert reader.look()
            reader.take()
            wanted.append(reader._wanted.is_set())
        assert wanted[8:] == [False] * 3 + [True] * 5

    asyncio.run(work())
