"""Schemas as the registry keeps them: parsed once, with the text that is stored and the mark by which equal
ones are known.

Pure. The rest of the registry knows ``ParsedSchema`` only; which format it is of is decided here alone.
Invariant: whatever is wrong with a schema ends as ``InvalidSchema`` with a message for the client; no schema
stops, hangs or crashes the service.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from moldau.schemas.avro.parse import normal_text_of, parse_avro
from moldau.schemas.avro.text import text_of
from moldau.schemas.avro.types import AvroSchema
from moldau.schemas.json_schema.parse import JsonDocument, parse_json
from moldau.schemas.limits import MAX_REFERENCES, check_size, compact
from moldau.schemas.limits import InvalidSchema as InvalidSchema
from moldau.schemas.protobuf.schema import ProtobufSchema, parse_protobuf
from moldau.schemas.protobuf.schema import serialized as _serialized_protobuf


class SchemaType(StrEnum):
    AVRO = "AVRO"
    JSON = "JSON"
    PROTOBUF = "PROTOBUF"


@dataclass(frozen=True, slots=True)
class Reference:
    """A name used inside a schema, and the registered version that it stands for."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class ParsedSchema:
    """`text` is what is stored and returned, `normalized` what `normalize=true` stores; equal fingerprints
    mean one schema.

    `resolved` is a fingerprint that also counts what the references, and theirs in turn, stand for: the same
    text may mean different things in two contexts. `complaint` is what speaks against taking it as a new
    schema; one that is stored already is read in spite of it. `form` is the parsed form for the rules; it
    does not take part in comparisons of values.
    """

    schema_type: SchemaType
    text: str
    normalized: str
    fingerprint: bytes
    resolved: bytes
    references: tuple[Reference, ...]
    form: AvroSchema | JsonDocument | ProtobufSchema = field(repr=False, compare=False)
    complaint: str | None = None
    #: Characters of the text and of all that it refers to: a measure of what looking at it may cost.
    size: int = 0


References = Mapping[Reference, ParsedSchema] | Sequence[tuple[Reference, ParsedSchema]]


def parse(
    schema_type: SchemaType, text: str, references: References = (), *, lenient: bool = False
) -> ParsedSchema:
    """Parse, check and name a schema; `references` are its references with what they stand for, parsed
    already. A complaint is an error unless the schema is read leniently.
    """
    pairs = list(references.items() if isinstance(references, Mapping) else references)
    found = _parse(schema_type, text, pairs)
    found = replace(found, size=len(text) + sum(target.size for _, target in pairs))
    if found.complaint is not None and not lenient:
        raise InvalidSchema(found.complaint)
    return found


def _parse(schema_type: SchemaType, text: str, pairs: list[tuple[Reference, ParsedSchema]]) -> ParsedSchema:
    if len(pairs) > MAX_REFERENCES:
        raise InvalidSchema(f"The schema has more than {MAX_REFERENCES} references")
    for reference, target in pairs:
        if target.schema_type is not schema_type:
            raise InvalidSchema(f"The reference {reference.name} is {target.schema_type}, not {schema_type}")
    names = tuple(reference for reference, _ in pairs)
    match schema_type:
        case SchemaType.AVRO:
            return _avro(text, pairs, names)
        case SchemaType.JSON:
            return _json(text, pairs, names)
        case SchemaType.PROTOBUF:
            return _protobuf(text, pairs, names)


def _fingerprint(schema_type: SchemaType, body: bytes, references: tuple[Reference, ...]) -> bytes:
    """Confluent's rule: the schema as stored and its references, in their order. Not a protection
    against attackers.
    """
    digest = hashlib.md5(schema_type.encode(), usedforsecurity=False)
    digest.update(b"\0" + body)
    for each in references:
        digest.update(f"\0{each.name}\0{each.subject}\0{each.version}".encode())
    return digest.digest()


def _resolved(fingerprint: bytes, pairs: list[tuple[Reference, ParsedSchema]]) -> bytes:
    if not pairs:
        return fingerprint
    return hashlib.md5(
        fingerprint + b"".join(target.resolved for _, target in pairs), usedforsecurity=False
    ).digest()


def _avro(
    text: str, pairs: list[tuple[Reference, ParsedSchema]], references: tuple[Reference, ...]
) -> ParsedSchema:
    names: dict[str, Any] = {}
    for _, target in pairs:
        assert isinstance(target.form, AvroSchema)
        for name, named in target.form.names.items():
            names.setdefault(name, named)
    schema = parse_avro(text, names, lenient=True)
    stored, normalized = text_of(schema), normal_text_of(schema)
    fingerprint = _fingerprint(SchemaType.AVRO, stored.encode(), references)
    return ParsedSchema(
        SchemaType.AVRO,
        stored,
        normalized,
        fingerprint,
        _resolved(fingerprint, pairs),
        references,
        schema,
        schema.complaint,
    )


def _json(
    text: str, pairs: list[tuple[Reference, ParsedSchema]], references: tuple[Reference, ...]
) -> ParsedSchema:
    documents: dict[str, Any] = {}
    for reference, target in pairs:
        assert isinstance(target.form, JsonDocument)
        for name, document in target.form.documents.references.items():
            documents.setdefault(name, document)
        documents[reference.name] = target.form.value
    document = parse_json(text, documents)
    # Layout is not part of a schema: what is compared has none.
    fingerprint = _fingerprint(SchemaType.JSON, compact(document.value).encode(), references)
    normalized = compact(document.value, sort_keys=True)
    return ParsedSchema(
        SchemaType.JSON,
        compact(document.value),
        normalized,
        fingerprint,
        _resolved(fingerprint, pairs),
        references,
        document,
    )


def _protobuf(
    text: str, pairs: list[tuple[Reference, ParsedSchema]], references: tuple[Reference, ...]
) -> ParsedSchema:
    imports: dict[str, ProtobufSchema] = {}
    for reference, target in pairs:
        assert isinstance(target.form, ProtobufSchema)
        imports[reference.name] = target.form
    schema = parse_protobuf(check_size(text), imports)
    fingerprint = _fingerprint(
        SchemaType.PROTOBUF, schema.file.SerializeToString(deterministic=True), references
    )
    return ParsedSchema(
        SchemaType.PROTOBUF,
        schema.text,
        schema.normalized,
        fingerprint,
        _resolved(fingerprint, pairs),
        references,
        schema,
    )


def serialized(schema: ParsedSchema) -> str:
    """What `format=serialized` answers: a base64 descriptor for Protobuf, the text for everything else."""
    return _serialized_protobuf(schema.form) if isinstance(schema.form, ProtobufSchema) else schema.text
