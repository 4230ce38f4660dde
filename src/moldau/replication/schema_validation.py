"""Which schemas do the records of a batch name? For topics that take only what a registry knows.

A value or key in Confluent's format begins with a zero byte and the id of its schema in four bytes; newer
serializers put a one and a guid into a header instead. What is null names no schema and is fine.

Pure: whether a schema exists is asked elsewhere. A batch that the log refuses anyhow
gives no claims: the log says why. Nothing here runs for a topic that does not ask for it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.payload import iterate_payload
from moldau.protocol.records import (
    HEADER_SIZE,
    MAGIC,
    MAGIC_AT,
    crc_matches,
    read_header,
)
from moldau.schemas.schema_id import InvalidFrame, header_of, read_prefix, schema_header
from moldau.storage.log.validation import (
    NAMED_RECORDS,
    BatchLimits,
    RecordErrors,
    checked_records,
    rejected_records,
)

#: A request names at most so many schemas: more are not real ones.
MAX_SCHEMAS = 1000

#: The id or the guid by which a record names its schema.
SchemaName: TypeAlias = int | str


@dataclass(frozen=True, slots=True)
class SchemaValidation:
    """The subjects that a topic's keys and values belong to; None where they are not looked at."""

    key_subject: str | None
    value_subject: str | None


class Claims:
    """What the records of one batch say of their schemas.

    Of records with the same fault a few are known by index, and of the others how many they are.
    """

    __slots__ = ("errors", "wanted")

    def __init__(self) -> None:
        #: By subject and schema the first records that name it, with "key" or "value", and how many do.
        self.wanted: dict[tuple[str, SchemaName], RecordErrors] = {}
        #: Records that name no schema at all.
        self.errors = RecordErrors()

    def joined(self, other: "Claims") -> "Claims":
        """The claims of two batches for one partition, as if they were one batch."""
        both = Claims()
        both.wanted = {**self.wanted, **other.wanted}
        both.errors.first = (self.errors.first + other.errors.first)[:NAMED_RECORDS]
        both.errors.total = self.errors.total + other.errors.total
        return both

    def refusal(self, known: Mapping[tuple[str, SchemaName], bool]) -> KafkaError | None:
        """The error for the batch where a record names nothing, or a schema that is not known."""
        named = list(self.errors.first)
        total = self.errors.total
        for (subject, schema), records in self.wanted.items():
            if not known[subject, schema]:
                kind = "id" if isinstance(schema, int) else "guid"
                reason = f"has the schema {kind} {schema}, which subject {subject} does not have"
                named += [(index, f"The {part} {reason}") for index, part in records.first]
                total += records.total
        errors = RecordErrors()
        for index, text in sorted(named):
            errors.add(index, text)
        errors.total = total
        return rejected_records(errors) if total else None

    def add(self, index: int, part: str, subject: str, schema: SchemaName | None) -> None:
        if schema is None:
            message = (
                f"The {part} does not begin with a zero byte and the id of a schema of subject {subject}"
            )
            self.errors.add(index, message)
            return
        records = self.wanted.get((subject, schema))
        if records is None:
            if len(self.wanted) >= MAX_SCHEMAS:
                message = f"The records name more than {MAX_SCHEMAS} schemas."
                raise KafkaError(ErrorCode.INVALID_RECORD, message)
            records = self.wanted[subject, schema] = RecordErrors()
        records.add(index, part)


def schema_validation(topic: str, values: Mapping[str, Any]) -> SchemaValidation | None:
    """What the configs of a topic ask for; None where they ask for nothing."""
    key = bool(values.get("confluent.key.schema.validation"))
    value = bool(values.get("confluent.value.schema.validation"))
    if not key and not value:
        return None
    return SchemaValidation(f"{topic}-key" if key else None, f"{topic}-value" if value else None)


def claims_of(records: memoryview, validation: SchemaValidation, limits: BatchLimits) -> Claims | None:
    """The claims of the one batch in ``records``; None where the log will refuse it for what it is.

    HeavyBatch where ``limits`` is ``AT_ONCE`` and the batch is more than that.
    """
    if len(records) < HEADER_SIZE or records[MAGIC_AT] != MAGIC:
        return None
    header = read_header(records)
    if header.size != len(records) or header.is_control or not crc_matches(records, 0, header.size):
        return None
    try:
        payload = bytes(checked_records(records, header, limits)[0])
    except KafkaError:
        return None
    claims = Claims()
    for index, record in enumerate(iterate_payload(payload, header.record_count, 0, 0)):
        if validation.key_subject is not None and record.key is not None:
            schema = _schema_named(record.key, header_of(record.headers, schema_header(is_key=True)))
            claims.add(index, "key", validation.key_subject, schema)
        if validation.value_subject is not None and record.value is not None:
            schema = _schema_named(record.value, header_of(record.headers, schema_header(is_key=False)))
            claims.add(index, "value", validation.value_subject, schema)
    return claims


def _schema_named(data: bytes, header: bytes | None) -> SchemaName | None:
    try:
        ref, _ = read_prefix(data if header is None else header)
    except InvalidFrame:
        return None
    # A guid is named in a header only.
    return ref.schema_id if ref.guid is None else ref.guid if header is not None else None
