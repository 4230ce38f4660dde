"""Avro serializers and deserializers with the wire format of Confluent's.

Invariant: a schema is registered, fetched and compiled once; after that a record costs one look-up and one
call of a compiled function. Both may be shared by threads; two of them may prepare the same schema at first.
"""

from collections.abc import Callable, Sequence
from typing import Any

from moldau.client.registry.schema_registry import Reference, RegisteredSchema, RegistryClient
from moldau.schemas.avro.parse import parse_with_texts
from moldau.schemas.avro.types import AvroSchema
from moldau.schemas.limits import InvalidSchema
from moldau.schemas.schema_id import SchemaRef, id_prefix
from moldau.serde.avro_models import avro_schema_of, from_avro, to_avro
from moldau.serde.calls import (
    MAX_KEPT,
    Deserializer,
    Serializer,
    Write,
    checked,
    framed,
    names_schema,
    unframed,
)
from moldau.serde.compiled_avro.decode import Decode, compile_decoder
from moldau.serde.compiled_avro.encode import compile_encoder
from moldau.serde.errors import SerdeError, shown
from moldau.serde.models import is_model
from moldau.serde.options import ReaderOptions, WriterOptions
from moldau.serde.registered import (
    context_subject,
    latest,
    prefix_of,
    referenced,
    registered,
    writer_schema,
)

AVRO = "AVRO"


def parse_avro(text: str, references: Sequence[str] = (), *, stored: bool = False) -> AvroSchema:
    """``references`` are the texts of schemas that it names, those that others name first.

    One that is ``stored`` in a registry has records: what is wrong with a name or a default does not keep
    anyone from reading them.
    """
    try:
        return parse_with_texts(text, references, lenient=stored)
    except InvalidSchema as error:
        raise SerdeError(f"The Avro schema cannot be used: {error}") from error


def stored_avro(registry: RegistryClient, found: RegisteredSchema) -> AvroSchema:
    """A schema of the registry, with what it refers to."""
    return parse_avro(found.text, list(referenced(registry, found.references).values()), stored=True)


class AvroSerializer(Serializer):
    """``schema`` is Avro's JSON, or a dataclass or pydantic model.

    Without one the latest version of the subject is used (``use_latest_version``), or the values are
    instances of dataclasses or pydantic models and bring their schemas. ``to_dict`` turns other objects into
    dicts.
    """

    def __init__(
        self,
        registry: RegistryClient | str,
        schema: str | type | None = None,
        *,
        references: Sequence[Reference] = (),
        to_dict: Callable[[Any], Any] | None = None,
        options: WriterOptions | None = None,
    ) -> None:
        super().__init__(registry, options)
        self._references = tuple(references)
        self._to_dict = to_dict
        self._schema = schema
        self._parsed = None if schema is None else self._parse(schema)

    def _prepared(self, topic: str, cls: type, is_key: bool) -> Write:
        """The function that writes values for a topic."""
        schema, found = self._schema_for(topic, cls, is_key)
        encode = compile_encoder(schema, strict=self._options.strict)
        prefix = prefix_of(found, self._options)
        step = self._step(cls)
        if self._options.schema_id_in == "header":
            return lambda value, headers: encode(
                framed(prefix, is_key, headers), value if step is None else step(value)
            )
        if step is None:
            return lambda value, headers: encode(prefix, value)
        return lambda value, headers: encode(prefix, step(value))

    def _schema_for(self, topic: str, cls: type, is_key: bool) -> tuple[AvroSchema, RegisteredSchema]:
        given = self._parsed
        if given is None and is_model(cls):
            given = self._parse(cls)
        subject = self._strategy(topic, is_key, given.name if given is not None else None)
        if self._options.use_latest_version:
            found = latest(self._registry, subject, AVRO)
            return stored_avro(self._registry, found), found
        if given is None:
            raise SerdeError(
                f"No schema is given for {shown(cls)}: pass one, or a dataclass, or set use_latest_version."
            )
        return given, registered(self._registry, subject, given.text, AVRO, self._references, self._options)

    def _parse(self, schema: str | type) -> AvroSchema:
        text = schema if isinstance(schema, str) else avro_schema_of(schema)
        return parse_avro(text, list(referenced(self._registry, self._references).values()))

    def _step(self, cls: type) -> Callable[[Any], Any] | None:
        if self._to_dict is not None:
            return self._to_dict
        model = self._schema if is_model(self._schema) else cls
        return to_avro(model) if isinstance(model, type) and is_model(model) else None


class AvroDeserializer(Deserializer):
    """``reader`` is the schema to read with, or the class to make; without one it is the writer's schema.

    ``from_dict`` turns dicts into other objects.
    """

    def __init__(
        self,
        registry: RegistryClient | str,
        reader: str | type | None = None,
        *,
        references: Sequence[Reference] = (),
        from_dict: Callable[[Any], Any] | None = None,
        options: ReaderOptions | None = None,
    ) -> None:
        super().__init__(registry, options)
        self._step = from_dict
        self._named = self._options.return_record_name
        self._reader: AvroSchema | None = None
        if isinstance(reader, type):
            self._step, self._named = from_avro(reader), True
            reader = avro_schema_of(reader)
        if reader is not None:
            self._reader = parse_avro(reader, list(referenced(self._registry, references).values()))
        #: Used only where data is read in the same way for every topic.
        self._by_prefix: dict[bytes, Decode] = {}
        self._by_place: dict[tuple[SchemaRef, str, bool], Decode] = {}

    def _read(self, topic: str, data: bytes, is_key: bool, headers: Any) -> Any:
        # What nearly every record is: an id before the payload, seen before.
        if data.__class__ is bytes and (not headers or not names_schema(headers, is_key)):
            decode = self._by_prefix.get(data[:5])
            if decode is not None:
                value = decode(data, 5)
                return value if self._step is None else self._step(value)
        data = checked(data)
        ref, frame, position = unframed(data, is_key, headers)
        value = self._decoder(ref, topic, is_key)(data, position if frame is data else 0)
        return value if self._step is None else self._step(value)

    def _decoder(self, ref: SchemaRef, topic: str, is_key: bool) -> Decode:
        place = (ref, "" if self._any_topic else topic, is_key)
        decode = self._by_place.get(place)
        if decode is None:
            if len(self._by_place) >= MAX_KEPT:
                self._by_place.clear()
                self._by_prefix.clear()
            decode = self._by_place[place] = self._compiled(ref, topic, is_key)
            if self._any_topic and ref.schema_id is not None:
                self._by_prefix[id_prefix(ref.schema_id)] = decode
        return decode

    def _compiled(self, ref: SchemaRef, topic: str, is_key: bool) -> Decode:
        subject = context_subject(self._options.subject_name, topic, is_key)
        found = writer_schema(self._registry, ref, AVRO, subject)
        writer, reader = stored_avro(self._registry, found), self._reader
        if self._options.use_latest_version:
            chosen = latest(self._registry, self._strategy(topic, is_key, writer.name), AVRO)
            reader = stored_avro(self._registry, chosen)
        return compile_decoder(writer, reader, return_record_name=self._named)
