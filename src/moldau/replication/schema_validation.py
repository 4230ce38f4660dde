"""Which schemas do the records of a batch name? For topics that take only what a registry knows.

A value or key in Confluent's format begins with a zero byte and the id of its schema in four bytes; newer
serializers put a one and a guid into a header instead. What is null names no schema and is fine.

Pure: whether a schema exists is asked elsewhere. A batch that the log refuses anyhow
gives no claims: the log says why. Nothing here runs for a topic that does not ask for it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.payload import decode_payload
from moldau.protocol.records import (
    HEADER_SIZE,
    MAGIC,
    MAGIC_AT,
    Headers,
    crc_matches,
    payload_of,
    read_header,
)
from moldau.schemas.schema_id import InvalidFrame, header_of, read_prefix, schema_header
from moldau.storage.log.validation import rejected_records

#: The id or the guid by which a record names its schema.
SchemaName: TypeAlias = int | str


@dataclass(frozen=True, slots=True)
class SchemaValidation:
    """The subjects that a topic's keys and values belong to; None where they are not looked at."""

    key_subject: str | None
    value_subject: str | None


@dataclass(frozen=True, slots=True)
class Claims:
    """What the records of one batch say of their schemas."""

    #: By subject and schema the indexes of the records that name it, with "key" or "value".
    wanted: dict[tuple[str, SchemaName], list[tuple[int, str]]] = field(default_factory=dict)
    #: Records that name no schema at all.
    errors: list[tuple[int, str]] = field(default_factory=list)

    def joined(self, other: "Claims") -> "Claims":
        """The claims of two batches for one partition, as if they were one batch."""
        return Claims({**self.wanted, **other.wanted}, self.errors + other.errors)

    def refusal(self, known: Mapping[tuple[str, SchemaName], bool]) -> KafkaError | None:
        """The error for the batch where a record names nothing, or a schema that is not known."""
        errors = list(self.errors)
        for (subject, schema), records in self.wanted.items():
            if not known[subject, schema]:
                kind = "id" if isinstance(schema, int) else "guid"
                reason = f"has the schema {kind} {schema}, which subject {subject} does not have"
                errors += [(index, f"The {part} {reason}") for index, part in records]
        return rejected_records(sorted(errors)) if errors else None


def schema_validation(topic: str, values: Mapping[str, Any]) -> SchemaValidation | None:
    """What the configs of a topic ask for; None where they ask for nothing."""
    key = bool(values.get("confluent.key.schema.validation"))
    value = bool(values.get("confluent.value.schema.validation"))
    if not key and not value:
        return None
    return SchemaValidation(f"{topic}-key" if key else None, f"{topic}-value" if value else None)


def claims_of(records: memoryview, validation: SchemaValidation, limit: int) -> Claims | None:
    """The claims of the one batch in ``records``; None where the log will refuse it for what it is.

    KafkaError for a record that cannot be looked into.
    """
    if len(records) < HEADER_SIZE or records[MAGIC_AT] != MAGIC:
        return None
    header = read_header(records)
    if header.size != len(records) or header.is_control or not crc_matches(records, 0, header.size):
        return None
    try:
        payload = bytes(payload_of(records, 0, header, limit))
    except KafkaError:
        return None
    try:
        decoded = decode_payload(payload, header.record_count, 0, 0, 0)
    except KafkaError as error:
        # The log hops over lengths only, so it might take a record whose inside makes no sense.
        raise KafkaError(ErrorCode.INVALID_RECORD, error.message) from None
    claims = Claims()
    for index, record in enumerate(decoded):
        if validation.key_subject is not None and record.key is not None:
            _claim(claims, index, "key", validation.key_subject, record.key, record.headers)
        if validation.value_subject is not None and record.value is not None:
            _claim(claims, index, "value", validation.value_subject, record.value, record.headers)
    return claims


def _claim(claims: Claims, index: int, part: str, subject: str, data: bytes, headers: Headers) -> None:
    schema = _schema_named(data, header_of(headers, schema_header(part == "key")))
    if schema is None:
        message = f"The {part} does not begin with a zero byte and the id of a schema of subject {subject}"
        claims.errors.append((index, message))
    else:
        claims.wanted.setdefault((subject, schema), []).append((index, part))


def _schema_named(data: bytes, header: bytes | None) -> SchemaName | None:
    try:
        ref, _ = read_prefix(data if header is None else header)
    except InvalidFrame:
        return None
    # A guid is named in a header only.
    return ref.schema_id if ref.guid is None else ref.guid if header is not None else None
