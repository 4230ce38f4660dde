"""The records of ``__transaction_state`` in Kafka's binary format: one key per transactional id.

Key: version 0, the transactional id. Value: version 1 (flexible; the next producer, the previous producer id
and the client's transaction version are tagged fields); version 0 of old releases is read, too.

Invariant: a record of an unknown version is distinguished from a corrupt one.
"""

import struct as _struct
from collections.abc import Iterable
from itertools import groupby
from typing import NamedTuple

from moldau.base.names import TopicPartition
from moldau.coordinators.transactions.transaction import WRITTEN, Transaction, TransactionState
from moldau.protocol import codec
from moldau.protocol.primitives import MalformedMessage
from moldau.protocol.schema import Int8, Int16, Int32, Int64, String, data, field, struct

KEY_VERSION = 0
VALUE_VERSION = 1
_VERSION = _struct.Struct(">h")


@data(versions="0", flexible="none")
class TransactionLogKey:
    transactional_id: String = field()


@struct
class PartitionsSchema:
    topic: String = field()
    partition_ids: list[Int32] = field()


@data(versions="0-1", flexible="1+")
class TransactionLogValue:
    producer_id: Int64 = field()
    producer_epoch: Int16 = field()
    transaction_timeout_ms: Int32 = field()
    transaction_status: Int8 = field()
    transaction_partitions: list[PartitionsSchema] | None = field()
    transaction_last_update_timestamp_ms: Int64 = field()
    transaction_start_timestamp_ms: Int64 = field()
    previous_producer_id: Int64 = field("1+", tag=0, tagged="1+", default=-1)
    next_producer_id: Int64 = field("1+", tag=1, tagged="1+", default=-1)
    client_transaction_version: Int16 = field("1+", tag=2, tagged="1+", default=0)
    next_producer_epoch: Int16 = field("1+", tag=3, tagged="1+", default=-1)


class TransactionRecord(NamedTuple):
    """The state of a transactional id; None is a tombstone."""

    transactional_id: str
    transaction: Transaction | None


def encode_record(record: TransactionRecord) -> tuple[bytes, bytes | None]:
    key = _VERSION.pack(KEY_VERSION) + codec.encode(TransactionLogKey(record.transactional_id), KEY_VERSION)
    return key, None if record.transaction is None else _encode_value(record.transaction)


def _encode_value(transaction: Transaction) -> bytes:
    empty = transaction.state is TransactionState.EMPTY
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=int(transaction.state),
        transaction_partitions=None if empty else _by_topic(transaction.partitions),
        transaction_last_update_timestamp_ms=transaction.last_update_ms,
        transaction_start_timestamp_ms=transaction.start_ms,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        client_transaction_version=transaction.client_transaction_version,
        next_producer_epoch=transaction.next_producer_epoch,
    )
    return _VERSION.pack(VALUE_VERSION) + codec.encode(value, VALUE_VERSION)


def _by_topic(partitions: Iterable[TopicPartition]) -> list[PartitionsSchema]:
    return [
        PartitionsSchema(topic, [partition for _, partition in group])
        for topic, group in groupby(sorted(partitions), lambda partition: partition.topic)
    ]


def decode_record(key: bytes, value: bytes | None) -> TransactionRecord | None:
    """None for a key of an unknown version; ValueError when the record is corrupt."""
    try:
        if _version(key, "key") != KEY_VERSION:
            return None
        name = codec.decode(TransactionLogKey, KEY_VERSION, key, _VERSION.size).transactional_id
        return TransactionRecord(name, None if value is None else _decode_value(value))
    except MalformedMessage as error:
        raise ValueError(f"a record of a transaction is malformed: {error}") from None


def _version(buffer: bytes, what: str) -> int:
    if len(buffer) < _VERSION.size:
        raise ValueError(f"the {what} of a transaction has no version")
    version: int = _VERSION.unpack_from(buffer)[0]
    return version


def _decode_value(buffer: bytes) -> Transaction:
    version = _version(buffer, "value")
    if not 0 <= version <= VALUE_VERSION:
        raise ValueError(f"the value of a transaction has version {version}")
    value = codec.decode(TransactionLogValue, version, buffer, _VERSION.size)
    if value.transaction_status not in WRITTEN:
        raise ValueError(f"a transaction has status {value.transaction_status}")
    partitions = [
        TopicPartition(entry.topic, partition)
        for entry in value.transaction_partitions or ()
        for partition in entry.partition_ids
    ]
    return Transaction(
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=TransactionState(value.transaction_status),
        partitions=tuple(sorted(set(partitions))),
        last_update_ms=value.transaction_last_update_timestamp_ms,
        start_ms=value.transaction_start_timestamp_ms,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        next_producer_epoch=value.next_producer_epoch,
        client_transaction_version=value.client_transaction_version,
    )
