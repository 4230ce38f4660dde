"""Records of internal topics as JSON, as Kafka's own dump tool prints them.

Pure. A record that cannot be decoded gets a message instead of its key, and the next records are still shown.
"""

import json
import struct
from collections.abc import Callable
from typing import Any

from moldau.coordinators.transactions.records import (
    KEY_VERSION,
    VALUE_VERSION,
    TransactionLogKey,
    TransactionLogValue,
)
from moldau.protocol import codec
from moldau.protocol.primitives import MalformedMessage
from moldau.protocol.records import Record

#: From a record to the texts of its key and its value; None if there is none.
RecordDecoder = Callable[[Record], tuple[str, str | None]]

_VERSION = struct.Struct(">h")
VERSION_SIZE = _VERSION.size
_DELETED = "<DELETE>"


def transaction_log(record: Record) -> tuple[str, str | None]:
    """A record of ``__transaction_state``."""
    try:
        version = version_of(record.key)
        if version != KEY_VERSION:
            return f"Unknown record type {version} at offset {record.offset}, skipping.", None
        key = codec.decode(TransactionLogKey, version, record.key or b"", VERSION_SIZE)
        shown = json_text({"type": str(version), "data": {"transactionalId": key.transactional_id}})
        return shown, _DELETED if record.value is None else _transaction_value(record.value)
    except (MalformedMessage, ValueError) as error:
        return f"Could not read record at offset {record.offset} due to: {error}", None


def _transaction_value(buffer: bytes) -> str:
    version = version_of(buffer)
    if not 0 <= version <= VALUE_VERSION:
        raise ValueError(f"the value has version {version}, which this release does not know")
    value = codec.decode(TransactionLogValue, version, buffer, VERSION_SIZE)
    partitions = value.transaction_partitions
    data: dict[str, Any] = {
        "producerId": value.producer_id,
        "previousProducerId": value.previous_producer_id,
        "nextProducerId": value.next_producer_id,
        "producerEpoch": value.producer_epoch,
        "nextProducerEpoch": value.next_producer_epoch,
        "transactionTimeoutMs": value.transaction_timeout_ms,
        "transactionStatus": value.transaction_status,
        "transactionPartitions": None
        if partitions is None
        else [{"topic": each.topic, "partitionIds": [*each.partition_ids]} for each in partitions],
        "transactionLastUpdateTimestampMs": value.transaction_last_update_timestamp_ms,
        "transactionStartTimestampMs": value.transaction_start_timestamp_ms,
        "clientTransactionVersion": value.client_transaction_version,
    }
    # Tagged fields are shown if they differ from their default.
    for name, default in (
        ("previousProducerId", -1),
        ("nextProducerId", -1),
        ("nextProducerEpoch", -1),
        ("clientTransactionVersion", 0),
    ):
        if data[name] == default:
            del data[name]
    return json_text({"version": str(version), "data": data})


def version_of(buffer: bytes | None) -> int:
    if buffer is None or len(buffer) < VERSION_SIZE:
        raise ValueError("it has no version")
    version: int = _VERSION.unpack_from(buffer)[0]
    return version


def json_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
