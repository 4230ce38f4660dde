"""Records of ``__transaction_state``: Kafka's bytes."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.base.names import TopicPartition
from moldau.coordinators.transactions.records import TransactionRecord, decode_record, encode_record
from moldau.coordinators.transactions.transaction import WRITTEN, Transaction, TransactionState

#: Written by Apache Kafka 4.3.0: librdkafka's producer after its first InitProducerId.
EMPTY_KEY = bytes.fromhex("0000000774782d6f70656e")
EMPTY_VALUE = bytes.fromhex(
    "0001000000000000000a0000000927c00000000001a1e130a6a7ffffffffffffffff010008000000000000000a"
)
EMPTY = TransactionRecord(
    "tx-open",
    Transaction(
        producer_id=10,
        producer_epoch=0,
        timeout_ms=600_000,
        state=TransactionState.EMPTY,
        partitions=(),
        last_update_ms=1794779424423,
        previous_producer_id=10,
    ),
)
#: The Java producer of transaction version 2 on its way to a commit.
PREPARED_VALUE = bytes.fromhex(
    "0001000000000000000d00010000ea6002020767622d74786e020000000000000001a1e13200fa000001a1e13200d4"
    "020008000000000000000d02020002"
)
PREPARED = TransactionRecord(
    "gb-tx",
    Transaction(
        producer_id=13,
        producer_epoch=1,
        timeout_ms=60_000,
        state=TransactionState.PREPARE_COMMIT,
        partitions=(TopicPartition("gb-txn", 0),),
        last_update_ms=0x1A1E13200FA,
        start_ms=0x1A1E13200D4,
        previous_producer_id=13,
        client_transaction_version=2,
    ),
)


@pytest.mark.parametrize(
    ("record", "key", "value"),
    [
        (EMPTY, EMPTY_KEY, EMPTY_VALUE),
        (PREPARED, b"\0\0\0\5gb-tx", PREPARED_VALUE),
        (TransactionRecord("gb-tx", None), b"\0\0\0\5gb-tx", None),
    ],
)
def test_golden_bytes(record: TransactionRecord, key: bytes, value: bytes | None) -> None:
    assert encode_record(record) == (key, value)
    assert decode_record(key, value) == record


def test_a_complete_transaction_has_an_empty_list_not_null() -> None:
    complete = Transaction(1, 0, 1000, TransactionState.COMPLETE_ABORT, (), 5, 4)
    _, value = encode_record(TransactionRecord("t", complete))
    assert value is not None
    assert value[2 + 8 + 2 + 4 + 1] == 1  # an empty compact array; 0 would be null


def test_values_of_version_0_are_read() -> None:
    value = bytes.fromhex(
        "0000 0000000000000007 0003 000003e8 01 00000001 0001 61 00000002 00000004 00000001"
        "0000000000000010 0000000000000008"
    )
    record = decode_record(b"\0\0\0\1t", value)
    assert record is not None
    assert record.transaction is not None
    assert record.transaction.partitions == (TopicPartition("a", 1), TopicPartition("a", 4))
    assert record.transaction.previous_producer_id == -1
    assert (record.transaction.last_update_ms, record.transaction.start_ms) == (16, 8)


def test_keys_of_the_future_are_passed_over() -> None:
    assert decode_record(b"\0\1whatever", b"") is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"", b""),
        (b"\0", None),
        (b"\0\0\0\5ab", None),
        (EMPTY_KEY, b""),
        (EMPTY_KEY, b"\0\2"),
        (EMPTY_KEY, b"\xff\xff"),
        (EMPTY_KEY, EMPTY_VALUE[:-1]),
        (EMPTY_KEY, EMPTY_VALUE[:16] + b"\x06" + EMPTY_VALUE[17:]),
        (EMPTY_KEY, EMPTY_VALUE[:16] + b"\x63" + EMPTY_VALUE[17:]),
    ],
)
def test_corrupt_records_are_named(key: bytes, value: bytes | None) -> None:
    with pytest.raises(ValueError, match="transaction"):
        decode_record(key, value)


@given(st.binary(max_size=80), st.binary(max_size=120))
def test_any_bytes_are_read_or_refused(key: bytes, value: bytes) -> None:
    for prefixed in (key, b"\0\0" + key, EMPTY_KEY):
        for content in (value, b"\0\1" + value, EMPTY_VALUE[:20] + value):
            with suppress(ValueError):
                decode_record(prefixed, content)


_int64 = st.integers(-1, (1 << 63) - 1)
_epoch = st.integers(-1, 32767)


@pytest.mark.slow
@given(
    transactional_id=st.text(max_size=20).filter(lambda text: text.isprintable()),
    state=st.sampled_from(sorted(WRITTEN - {TransactionState.EMPTY})),
    partitions=st.sets(st.builds(TopicPartition, st.sampled_from("abc"), st.integers(0, 100))),
    ids=st.tuples(_int64, _int64, _int64),
    epochs=st.tuples(_epoch, _epoch),
    times=st.tuples(_int64, _int64),
)
def test_round_trip(
    transactional_id: str,
    state: TransactionState,
    partitions: set[TopicPartition],
    ids: tuple[int, int, int],
    epochs: tuple[int, int],
    times: tuple[int, int],
) -> None:
    transaction = Transaction(
        producer_id=ids[0],
        producer_epoch=epochs[0],
        timeout_ms=5,
        state=state,
        partitions=tuple(sorted(partitions)),
        last_update_ms=times[0],
        start_ms=times[1],
        previous_producer_id=ids[1],
        next_producer_id=ids[2],
        next_producer_epoch=epochs[1],
        client_transaction_version=2,
    )
    record = TransactionRecord(transactional_id, transaction)
    assert decode_record(*encode_record(record)) == record
