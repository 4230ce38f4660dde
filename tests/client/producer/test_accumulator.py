import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.client.producer.accumulator import (
    Batch,
    PartitionQueue,
    ProducerIdentity,
    RecordMetadata,
    headers_size,
)
from moldau.protocol.compression import Compression
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.records import crc_matches, read_header

ME = ProducerIdentity(42, 3)


def filled(queue: PartitionQueue, *counts: int) -> list[Batch]:
    """Batches with that many records, full and ready to be sent."""
    batches = []
    for count in counts:
        queue.filling = batch = Batch(queue, 100, deadline=50.0)
        for number in range(count):
            batch.builder.append(b"k", b"%d" % number, (), 1000 + number)
        queue.close_batch()
        batches.append(batch)
    return batches


def take(queue: PartitionQueue, identity: ProducerIdentity | None = ME) -> Batch:
    return queue.take(identity, Compression.NONE, None)


def test_batches_carry_their_sequences() -> None:
    queue = PartitionQueue("orders", 2)
    filled(queue, 3, 1, 2)
    headers = [read_header(take(queue).records or b"") for _ in range(3)]
    assert [h.base_sequence for h in headers] == [0, 3, 4]
    assert {(h.producer_id, h.producer_epoch) for h in headers} == {(42, 3)}
    assert queue.next_sequence == 6


def test_without_an_identity_there_are_no_sequences() -> None:
    queue = PartitionQueue("orders", 0)
    filled(queue, 2)
    header = read_header(take(queue, None).records or b"")
    assert (header.producer_id, header.base_sequence) == (-1, -1)


def test_sequences_begin_again_after_the_largest() -> None:
    queue = PartitionQueue("orders", 0)
    queue.next_sequence = 0x7FFFFFFF
    filled(queue, 1, 1)
    assert [take(queue).base_sequence for _ in range(2)] == [0x7FFFFFFF, 0]


def test_so_many_are_on_their_way_at_once() -> None:
    queue = PartitionQueue("orders", 0)
    assert not queue.can_send(5)
    batches = filled(queue, 1, 1, 1)
    queue.established = True
    take(queue)
    take(queue)
    assert not queue.can_send(2)
    queue.arrived(batches[0], written=True)
    assert queue.can_send(2)


def test_the_first_batch_goes_alone_until_the_broker_has_written_one() -> None:
    queue = PartitionQueue("orders", 0)
    one, two, _, _ = filled(queue, 1, 1, 1, 1)
    take(queue)
    assert queue.waits_for_first
    assert not queue.can_send(5)
    queue.arrived(one, written=False)
    assert take(queue) is two
    assert not queue.can_send(5)
    queue.arrived(two, written=True)
    take(queue)
    assert queue.can_send(5)
    assert not queue.waits_for_first


def test_what_failed_goes_first_and_alone() -> None:
    queue = PartitionQueue("orders", 0)
    one, two, three, four = filled(queue, 1, 1, 1, 1)
    for _ in range(3):
        take(queue)
    queue.send_again(two)
    queue.send_again(three)
    assert not queue.can_send(5), "one is still on its way"
    queue.arrived(one, written=True)
    for expected in (two, three):
        assert queue.can_send(5)
        again = take(queue)
        assert again is expected
        assert again.attempts == 2
        assert not queue.can_send(5)
        queue.arrived(again, written=True)
    assert take(queue) is four
    assert not queue.resending


@pytest.mark.slow
@given(st.lists(st.booleans(), max_size=60), st.integers(1, 5))
def test_the_order_holds_whatever_fails(outcomes: list[bool], in_flight: int) -> None:
    """A broker that takes the batches in the order of their sequences never sees a gap."""
    queue = PartitionQueue("orders", 0)
    wanted = filled(queue, *([1] * 8))
    written: list[Batch] = []
    sent: list[Batch] = []
    failing = iter(outcomes)
    while queue.full or sent:
        while queue.can_send(in_flight):
            sent.append(take(queue))
        batch = sent.pop(0)
        in_order = batch.base_sequence == len(written)
        if in_order and next(failing, True):
            written.append(batch)
            queue.arrived(batch, written=True)
        else:
            queue.send_again(batch)
    assert written == wanted


def test_a_new_identity_counts_from_0() -> None:
    queue = PartitionQueue("orders", 0)
    one, two, three = filled(queue, 2, 3, 4)
    take(queue)
    take(queue)
    queue.arrived(one, written=True)
    queue.send_again(two)
    queue.restart_sequences(ProducerIdentity(77, 0))
    records = two.records
    assert records is not None
    header = read_header(records)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 0, 0)
    assert crc_matches(records, 0, header.size)
    assert take(queue, ProducerIdentity(77, 0)) is two
    queue.arrived(two, written=True)
    assert take(queue, ProducerIdentity(77, 0)) is three
    assert three.base_sequence == 3


def test_batches_that_wait_too_long() -> None:
    queue = PartitionQueue("orders", 0)
    old, new = filled(queue, 1, 1)
    new.deadline = 60.0
    assert queue.expired(49.0) == []
    assert queue.expired(50.0) == [old]
    assert list(queue.full) == [new]
    assert queue.drop_all() == [new]
    assert not queue.full


def test_everyone_hears_the_outcome_once() -> None:
    queue = PartitionQueue("orders", 2)
    (batch,) = filled(queue, 2)
    heard: list[object] = []
    batch.callbacks.append((1, 1001, heard.append))
    batch.listeners.append(lambda: heard.append("listener"))
    batch.finish((10, -1))
    assert heard == [RecordMetadata("orders", 2, 11, 1001), "listener"]
    assert batch.metadata(0, 1000) == RecordMetadata("orders", 2, 10, 1000)


def test_outcomes() -> None:
    queue = PartitionQueue("orders", 0)
    by_broker, unknown, failed = filled(queue, 1, 1, 1)
    by_broker.finish((5, 7777))
    assert by_broker.metadata(0, 1).timestamp == 7777  # type: ignore[union-attr]
    unknown.finish((-1, -1))
    assert unknown.metadata(0, 1).offset == -1  # type: ignore[union-attr]
    error = KafkaError(ErrorCode.MESSAGE_TOO_LARGE)
    failed.finish(error)
    assert failed.metadata(0, 1) is error


def test_the_size_of_headers_is_not_underrated() -> None:
    assert headers_size([("ä", b"12"), ("b", None)]) >= 2 + 2 + 1 + 4
