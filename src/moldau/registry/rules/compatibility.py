"""Whether a new schema may follow the ones before it: which pairs a level compares, and which way round.

BACKWARD: readers with the new schema understand what was written with the old one. FORWARD: the other way
round. FULL: both. The transitive forms look at every earlier version, the others at the last one only. The
rules themselves are in the file of their format.
"""

from collections.abc import Iterator, Sequence
from enum import StrEnum

from moldau.registry.rules import avro as avro_rules
from moldau.registry.rules import json_messages
from moldau.registry.rules import json_schema as json_rules
from moldau.registry.rules import protobuf as protobuf_rules
from moldau.registry.schemas import ParsedSchema
from moldau.schemas.avro.types import AvroSchema
from moldau.schemas.json_schema.parse import JsonDocument
from moldau.schemas.protobuf.schema import ProtobufSchema


class Level(StrEnum):
    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"


def incompatibilities(level: Level, new: ParsedSchema, previous: Sequence[ParsedSchema]) -> list[str]:
    """Why `new` may not follow `previous` (oldest first); empty when it may. The newest version is answered
    for first.
    """
    found: list[str] = []
    for old in compared(level, previous):
        found += conflicts(level, new, old)
    return found


def compared(level: Level, previous: Sequence[ParsedSchema]) -> Sequence[ParsedSchema]:
    """The earlier versions that a level looks at, newest first."""
    if level is Level.NONE:
        return ()
    return tuple(reversed(previous)) if level.endswith("_TRANSITIVE") else tuple(previous[-1:])


def conflicts(level: Level, new: ParsedSchema, old: ParsedSchema) -> list[str]:
    """Why one earlier version speaks against the new schema, for callers that name the version with the
    messages.
    """
    if level is Level.NONE:
        return []
    if new.schema_type is not old.schema_type:
        return [
            f"{{errorType:'SCHEMA_TYPE_MISMATCH', description:'The new schema is {new.schema_type}, "
            f"the old schema is {old.schema_type}'}}"
        ]
    found: list[str] = []
    if level.startswith(("FORWARD", "FULL")):  # in Confluent's order
        found += _unreadable(old, new, "old", "new")
    if level.startswith(("BACKWARD", "FULL")):
        found += _unreadable(new, old, "new", "old")
    return found


def _unreadable(reader: ParsedSchema, writer: ParsedSchema, reads: str, writes: str) -> Iterator[str]:
    """One message for each reason why `reader` does not understand what `writer` wrote."""
    match reader.form, writer.form:
        case AvroSchema() as taken, AvroSchema() as given:
            for each in avro_rules.unreadable(taken.root, given.root):
                yield avro_rules.message(each, reads, writes)
        case JsonDocument() as update, JsonDocument() as original:
            for each in json_rules.changes(original.root, update.root):
                if each.breaking:
                    yield json_messages.message(each, reads, writes)
        case ProtobufSchema() as update, ProtobufSchema() as original:
            for each in protobuf_rules.changes(original, update):
                if each.breaking:
                    yield protobuf_rules.message(each, reads, writes)
