"""Sequences, duplicates, epochs, transactions; snapshots byte for byte as Kafka 4.3 writes them."""

import pytest

from moldau.base.names import TopicPartition
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.records import BatchHeader
from moldau.storage.errors import CorruptFileError
from moldau.storage.log.producer_state import ProducerStates
from moldau.storage.log.txn_index import AbortedTransaction

KAFKA_EMPTY_SNAPSHOT = bytes.fromhex("000148674bc700000000")
KAFKA_SNAPSHOT = bytes.fromhex(
    "00014cd357c900000001"
    "000000000000000d0000000000020000000000000002000000020000019b76daa802ffffffff0000000000000000"
)


def header(
    sequence: int,
    count: int = 1,
    *,
    producer_id: int = 1,
    epoch: int = 0,
    timestamp: int = 1000,
    transactional: bool = False,
) -> BatchHeader:
    attributes = 0x10 if transactional else 0
    return BatchHeader(
        0, 49, -1, 2, 0, attributes, count - 1, timestamp, timestamp, producer_id, epoch, sequence, count
    )


@pytest.fixture
def state() -> ProducerStates:
    return ProducerStates(TopicPartition("id1", 0))


class Script:
    """Appends batches as a log would."""

    def __init__(self, state: ProducerStates) -> None:
        self.state = state
        self.offset = 0

    def __call__(self, batch: BatchHeader, now_ms: int = 0) -> int:
        """The base offset in the response to the producer."""
        seen = self.state.check(batch)
        if seen is not None:
            return seen.base_offset
        base = self.offset
        self.state.apply(batch, base, now_ms)
        self.offset += batch.record_count
        return base


@pytest.fixture
def append(state: ProducerStates) -> Script:
    return Script(state)


def code_of(append: Script, batch: BatchHeader) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        append(batch)
    return caught.value.code


def test_where_transactions_have_epochs_of_their_own_the_first_batch_is_waited_for(
    state: ProducerStates,
) -> None:
    """The ones before it may have been refused, and are sent again: taken now, it would keep them out."""
    late = header(1, transactional=True)
    with pytest.raises(KafkaError) as caught:
        state.check(late, 12)
    assert caught.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert state.check(late, 11) is None
    assert state.check(header(1), 12) is None, "an idempotent producer goes on where its state has expired"
    assert state.check(header(0, transactional=True), 12) is None


def test_the_golden_sequence(append: Script, state: ProducerStates) -> None:
    """One after the other, as the real broker was asked and answered."""
    assert append(header(0, 2, timestamp=234)) == 0
    assert append(header(2, timestamp=243)) == 2
    seen = state.check(header(2))
    assert seen is not None
    assert (seen.base_offset, seen.timestamp) == (2, 243)
    seen = state.check(header(0, 2))
    assert seen is not None
    assert (seen.base_offset, seen.timestamp) == (0, 234)
    assert code_of(append, header(2, 2)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert code_of(append, header(10)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    for sequence in range(3, 9):
        assert append(header(sequence)) == sequence
    assert code_of(append, header(2)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert append(header(4)) == 4
    assert append.offset == 9
    assert code_of(append, header(5, epoch=1)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert append(header(0, epoch=1)) == 9
    assert code_of(append, header(9, epoch=0)) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert code_of(append, header(0, epoch=-1)) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert append(header(0, producer_id=999999)) == 10
    assert append(header(4, producer_id=999998)) == 11
    assert [(p.producer_id, p.epoch, p.last_sequence) for p in state.active()] == [
        (1, 1, 0),
        (999999, 0, 0),
        (999998, 0, 4),
    ]


def test_an_unknown_producer_may_start_anywhere(append: Script) -> None:
    assert append(header(7)) == 0
    assert code_of(append, header(7, 3)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert append(header(8)) == 1


def test_sequences_wrap(append: Script) -> None:
    assert append(header(2147483646, 3)) == 0
    assert append(header(1)) == 3
    assert append(header(2147483646, 3)) == 0
    assert code_of(append, header(5)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert code_of(append, header(0)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_new_epoch_forgets_old_batches(append: Script) -> None:
    append(header(0))
    append(header(0, epoch=1))
    assert append(header(0, epoch=1)) == 1
    assert append(header(1, epoch=1)) == 2


def test_a_negative_epoch_is_refused_even_of_a_stranger(append: Script) -> None:
    assert code_of(append, header(0, epoch=-1)) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_producers_expire_by_our_clock(append: Script, state: ProducerStates) -> None:
    append(header(0, producer_id=1, timestamp=5), now_ms=1000)
    append(header(0, producer_id=2, timestamp=5, transactional=True), now_ms=1000)
    append(header(0, producer_id=3, timestamp=5), now_ms=1500)
    assert state.expire(1999, 1000) == 0
    assert state.expire(2000, 1000) == 1
    assert [producer.producer_id for producer in state.active()] == [2, 3]
    assert state.get(1) is None
    assert len(state) == 2


class TestTransactions:
    def test_open_and_end(self, append: Script, state: ProducerStates) -> None:
        assert state.first_open_offset() is None
        append(header(0, 3, producer_id=1, transactional=True))
        append(header(0, 2, producer_id=2, transactional=True))
        append(header(3, 1, producer_id=1, transactional=True))
        assert state.first_open_offset() == 0
        ended = state.apply_marker(
            header(-1, producer_id=1), 6, committed=False, coordinator_epoch=0, now_ms=0
        )
        assert ended is not None
        assert state.aborted(ended) == AbortedTransaction(1, 0, 6, 3)
        assert state.first_open_offset() == 3
        ended = state.apply_marker(
            header(-1, producer_id=2), 7, committed=False, coordinator_epoch=0, now_ms=0
        )
        assert ended is not None
        assert state.aborted(ended) == AbortedTransaction(2, 3, 7, 8)
        assert state.first_open_offset() is None

    def test_unstable_until_the_marker_is_replicated(self, append: Script, state: ProducerStates) -> None:
        append(header(0, 3, transactional=True))
        assert state.first_unstable_offset(3) == 0
        state.apply_marker(header(-1), 3, committed=True, coordinator_epoch=0, now_ms=0)
        assert state.first_unstable_offset(3) == 0
        append(header(3, 1, producer_id=2, transactional=True))
        assert state.first_unstable_offset(3) == 0
        assert state.first_unstable_offset(4) == 3

    def test_a_marker_without_a_transaction(self, state: ProducerStates) -> None:
        ended = state.apply_marker(
            header(-1, producer_id=5), 0, committed=True, coordinator_epoch=3, now_ms=0
        )
        assert ended is None
        producer = state.get(5)
        assert producer is not None
        assert (producer.coordinator_epoch, producer.last_sequence, producer.last_offset) == (3, -1, -1)

    def test_a_marker_with_a_bumped_epoch_restarts_sequences(self, append: Script) -> None:
        append(header(0, 3, transactional=True))
        append.state.apply_marker(header(-1, epoch=1), 3, committed=True, coordinator_epoch=0, now_ms=0)
        assert code_of(append, header(3, epoch=0)) == ErrorCode.INVALID_PRODUCER_EPOCH
        assert code_of(append, header(3, epoch=1)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        append(header(0, epoch=1))

    def test_a_plain_write_inside_a_transaction_is_refused(self, append: Script) -> None:
        append(header(0, transactional=True))
        assert code_of(append, header(1)) == ErrorCode.INVALID_TXN_STATE

    def test_a_plain_write_with_a_later_epoch_leaves_no_transaction_open_behind_it(
        self, append: Script, state: ProducerStates
    ) -> None:
        append(header(0, transactional=True))
        assert code_of(append, header(0, epoch=1)) == ErrorCode.INVALID_TXN_STATE
        state.apply_marker(header(-1, epoch=1), 1, committed=False, coordinator_epoch=0, now_ms=0)
        append(header(0, epoch=1))

    def test_a_marker_of_the_second_protocol_is_due_repeated_or_late(
        self, append: Script, state: ProducerStates
    ) -> None:
        """Late: it would end the transaction behind the one that it was written for."""
        assert not state.has_marker(1, 1)
        append(header(0, transactional=True))
        assert not state.has_marker(1, 1)
        state.apply_marker(header(-1, epoch=1), 1, committed=True, coordinator_epoch=0, now_ms=0)
        assert state.has_marker(1, 1)
        append(header(0, epoch=1, transactional=True))
        with pytest.raises(KafkaError) as caught:
            state.has_marker(1, 1)
        assert caught.value.code == ErrorCode.INVALID_PRODUCER_EPOCH
        assert not state.has_marker(1, 2)

    def test_who_does_not_count_is_checked_for_its_epoch_only(
        self, append: Script, state: ProducerStates
    ) -> None:
        append(header(0, 3, epoch=2, transactional=True))
        state.check_epoch(header(0, 3, epoch=2, transactional=True))
        state.check_epoch(header(0, epoch=3))
        for epoch in (-1, 1):
            with pytest.raises(KafkaError) as caught:
                state.check_epoch(header(0, epoch=epoch))
            assert caught.value.code == ErrorCode.INVALID_PRODUCER_EPOCH

    def test_zombies(self, append: Script, state: ProducerStates) -> None:
        state.check_marker(9, 0, 0)
        append(header(0, epoch=2))
        with pytest.raises(KafkaError) as caught:
            state.check_marker(1, 1, 0)
        assert caught.value.code == ErrorCode.INVALID_PRODUCER_EPOCH
        state.apply_marker(header(-1, epoch=2), 1, committed=True, coordinator_epoch=5, now_ms=0)
        with pytest.raises(KafkaError) as caught:
            state.check_marker(1, 2, 4)
        assert caught.value.code == ErrorCode.TRANSACTION_COORDINATOR_FENCED
        state.check_marker(1, 2, 5)


class TestSnapshots:
    def test_kafkas_bytes(self, state: ProducerStates) -> None:
        assert state.snapshot() == KAFKA_EMPTY_SNAPSHOT
        batch = header(0, 3, producer_id=13, timestamp=1767225600002, transactional=True)
        state.apply(batch, 0, 0)
        assert state.snapshot() == KAFKA_SNAPSHOT

    def test_round_trip(self, append: Script, state: ProducerStates) -> None:
        append(header(0, 3, producer_id=1, timestamp=5))
        append(header(2147483647, 4, producer_id=2, epoch=7))
        append(header(0, producer_id=4, transactional=True))
        append(header(0, producer_id=3, transactional=True))
        state.apply_marker(header(-1, producer_id=9), 9, committed=True, coordinator_epoch=2, now_ms=0)
        again = ProducerStates(state.topic_partition)
        again.load(state.snapshot(), "x", 77)
        assert again.snapshot() == state.snapshot()
        assert again.first_open_offset() == 7
        assert [producer.last_seen_ms for producer in again.active()] == [77] * 5
        seen = again.check(header(2147483647, 4, producer_id=2, epoch=7))
        assert seen is not None
        assert (seen.base_offset, seen.last_offset) == (3, 6)
        assert again.check(header(3, producer_id=1)) is None

    @pytest.mark.parametrize(
        "data",
        [
            b"",
            KAFKA_SNAPSHOT[:9],
            KAFKA_SNAPSHOT[:-1],
            KAFKA_SNAPSHOT + b"\0",
            b"\0\2" + KAFKA_SNAPSHOT[2:],
            KAFKA_SNAPSHOT[:20] + b"\1" + KAFKA_SNAPSHOT[21:],
            bytes(len(KAFKA_SNAPSHOT)),
        ],
    )
    def test_corrupt(self, append: Script, state: ProducerStates, data: bytes) -> None:
        append(header(0))
        before = state.snapshot()
        with pytest.raises(CorruptFileError, match="file-name"):
            state.load(data, "file-name", 0)
        assert state.snapshot() == before
