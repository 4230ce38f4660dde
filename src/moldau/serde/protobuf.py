"""Protobuf serializers and deserializers with the wire format of Confluent's.

Invariant: generated classes are used as they are; without one a class is made from the descriptor that the
registry answers. The files that a schema imports are registered before it, under their own names.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import quote

from google.protobuf import json_format
from google.protobuf.message import DecodeError, EncodeError, Message

from moldau.client.registry.schema_registry import Reference, RegisteredSchema, RegistryClient
from moldau.schemas.limits import InvalidSchema
from moldau.schemas.protobuf import descriptors
from moldau.schemas.protobuf.descriptors import message_class
from moldau.schemas.schema_id import SchemaRef, write_indexes
from moldau.serde.calls import (
    MAX_KEPT,
    Deserializer,
    Serializer,
    Write,
    checked,
    framed,
    indexes_at,
    names_schema,
    unframed,
)
from moldau.serde.errors import SerdeError, shown
from moldau.serde.options import ReaderOptions, WriterOptions
from moldau.serde.registered import (
    asked,
    context_subject,
    latest,
    prefix_of,
    referenced,
    registered,
    writer_schema,
)

PROTOBUF = "PROTOBUF"
#: Files that every registry has; Confluent's serializers do not register them either.
_BUILT_IN = re.compile(r"(google/(protobuf|type)|confluent)/.*\.proto\Z")


def message_at(file: Any, indexes: Sequence[int]) -> Any:
    """The message that indexes lead to."""
    found = descriptors.message_at(file, indexes)
    if found is None:
        said = f"The data names the message {list(indexes)} of its schema, which has no such one"
        raise SerdeError(f"{said}: it is damaged, or was not written for Protobuf.")
    return found


def message_named(file: Any, name: str | None) -> Any:
    """A message by its name, with or without the package; the first one where no name is given."""
    found = descriptors.message_named(file, name)
    if found is None:
        names = ", ".join(each.full_name for each in descriptors.messages(file)) or "none"
        raise SerdeError(f"The schema has no message {name!r}; it has {names}.")
    return found


def file_of(
    registry: RegistryClient, schema: RegisteredSchema, ref: SchemaRef, subject: str | None = None
) -> Any:
    """The descriptor of a schema's file, in a pool with all it imports, as the registry compiled them."""
    if ref.guid is not None:
        path = f"/schemas/guids/{ref.guid}?format=serialized"
    else:
        within = "" if subject is None else f"&subject={quote(subject, safe='')}"
        path = f"/schemas/ids/{ref.schema_id}?format=serialized{within}"
    what = f"The descriptor of the schema with the {ref} cannot be had"
    answer = asked(what, lambda: registry.call("GET", path))
    imported = referenced(registry, schema.references, lambda each: _version(registry, each))
    files = [_parsed(text, name) for name, text in imported.items()]
    root = _parsed(answer["schema"], None)
    if root.name in imported or not root.name:
        root.name = f"schema-{ref.schema_id if ref.guid is None else ref.guid}.proto"
    try:
        return descriptors.file_in_pool([*files, root])
    except InvalidSchema as error:
        raise SerdeError(str(error)) from error


def _version(registry: RegistryClient, reference: Reference) -> str:
    subject = quote(reference.subject, safe="")
    path = f"/subjects/{subject}/versions/{reference.version}?format=serialized&deleted=true"
    return str(registry.call("GET", path)["schema"])


def _parsed(text: str, name: str | None) -> Any:
    found = descriptors.descriptor_of(text)
    if found is None:
        raise SerdeError(
            "The registry does not answer with the descriptor of a Protobuf schema (format=serialized): "
            "pass the generated class, or use a registry that does."
        )
    if name is not None:
        found.name = name
    return found


class ProtobufSerializer(Serializer):
    """``schema`` is a generated class, or a .proto text whose ``message`` the values are.

    Without one the values are messages and bring their schema, or, with ``use_latest_version``, the
    ``message`` of the subject's latest version. Dicts are taken wherever messages are.
    """

    def __init__(
        self,
        registry: RegistryClient | str,
        schema: type[Message] | str | None = None,
        *,
        message: str | None = None,
        references: Sequence[Reference] = (),
        options: WriterOptions | None = None,
    ) -> None:
        super().__init__(registry, options)
        self._schema = schema
        self._message = message
        self._references = tuple(references)

    def _prepared(self, topic: str, cls: type, is_key: bool) -> Write:
        found, made = self._schema_for(topic, cls, is_key)
        prefix = prefix_of(found, self._options) + write_indexes(self._indexes(found, made))
        encode = _encoder(made)
        if self._options.schema_id_in == "header":
            return lambda value, headers: framed(prefix, is_key, headers) + encode(value)
        return lambda value, headers: prefix + encode(value)

    def _schema_for(self, topic: str, cls: type, is_key: bool) -> tuple[RegisteredSchema, Any]:
        """The schema in the registry, and the class of its messages."""
        made: Any = self._schema if isinstance(self._schema, type) else None
        if made is None and self._schema is None and issubclass(cls, Message):
            made = cls
        name = self._message if made is None else made.DESCRIPTOR.full_name
        subject = self._strategy(topic, is_key, name)
        if self._options.use_latest_version:
            found = latest(self._registry, subject, PROTOBUF)
        elif made is not None:
            file = made.DESCRIPTOR.file
            text, references = descriptors.descriptor_text(file.serialized_pb), self._imports(file)
            found = registered(self._registry, subject, text, PROTOBUF, references, self._options)
        elif isinstance(self._schema, str):
            found = registered(
                self._registry, subject, self._schema, PROTOBUF, self._references, self._options
            )
        else:
            raise SerdeError(f"{shown(cls)} is no message: pass the generated class, or a .proto text.")
        return found, made if made is not None else message_class(message_named(self._file(found), name))

    def _file(self, found: RegisteredSchema) -> Any:
        return file_of(self._registry, found, SchemaRef(schema_id=found.schema_id), found.subject)

    def _indexes(self, found: RegisteredSchema, made: Any) -> tuple[int, ...]:
        """Those in the schema that the data will name: the latest version may have other messages before."""
        descriptor = made.DESCRIPTOR
        if self._options.use_latest_version:
            descriptor = message_named(self._file(found), descriptor.full_name)
        return descriptors.message_indexes(descriptor)

    def _imports(self, file: Any) -> list[Reference]:
        """Registers what a file imports, each under its own name, and refers to it."""
        found = []
        for each in file.dependencies:
            if _BUILT_IN.match(each.name):
                continue
            text, references = descriptors.descriptor_text(each.serialized_pb), self._imports(each)
            registered(self._registry, each.name, text, PROTOBUF, references, self._options)
            version = self._registry.lookup(
                each.name, text, PROTOBUF, references, normalize=self._options.normalize
            ).version
            assert version is not None
            found.append(Reference(each.name, each.name, version))
        return found


def _encoder(made: Any) -> Callable[[Any], bytes]:
    name = made.DESCRIPTOR.full_name

    def encode(value: Any) -> bytes:
        if not isinstance(value, made):
            if not isinstance(value, dict):
                raise SerdeError(f"{shown(value)} is no {name}: pass such a message, or a dict.")
            value = _from_dict(made, value)
        try:
            found: bytes = value.SerializeToString()
        except EncodeError as error:
            missing = value.FindInitializationErrors()
            if not missing:
                raise SerdeError(f"The {name} cannot be encoded: {error}.") from error
            said = f"{name} has required fields that are not set: {', '.join(missing)}."
            raise SerdeError(said, missing[0]) from error
        return found

    return encode


def _from_dict(made: Any, value: dict[str, Any]) -> Any:
    try:
        return json_format.ParseDict(value, made())
    except json_format.ParseError as error:
        raise SerdeError(f"The dict makes no {made.DESCRIPTOR.full_name}: {error}") from error


class ProtobufDeserializer(Deserializer):
    """``message`` is the generated class to make; without one a class is made from the writer's schema."""

    def __init__(
        self,
        registry: RegistryClient | str,
        message: type[Message] | None = None,
        *,
        options: ReaderOptions | None = None,
    ) -> None:
        super().__init__(registry, options)
        self._message: Any = message
        self._ready: dict[tuple[SchemaRef, tuple[int, ...], str, bool], Any] = {}
        self._by_prefix: dict[bytes, Any] = {}

    def _read(self, topic: str, data: bytes, is_key: bool, headers: Any) -> Any:
        # What nearly every record is: an id and the first message, seen before.
        if data.__class__ is bytes and (not headers or not names_schema(headers, is_key)):
            made = self._by_prefix.get(data[:6])
            if made is not None:
                return self._parsed(made, data[6:])
        data = checked(data)
        ref, frame, position = unframed(data, is_key, headers)
        indexes, position = indexes_at(frame, position)
        made = self._class(ref, indexes, topic, is_key)
        if self._any_topic and frame is data and position == 6:
            self._by_prefix[data[:6]] = made
        return self._parsed(made, data[position:] if frame is data else data)

    def _class(self, ref: SchemaRef, indexes: tuple[int, ...], topic: str, is_key: bool) -> Any:
        place = (ref, indexes, "" if self._any_topic else topic, is_key)
        made = self._ready.get(place)
        if made is None:
            if len(self._ready) >= MAX_KEPT:
                self._ready.clear()
                self._by_prefix.clear()
            made = self._ready[place] = self._found(ref, indexes, topic, is_key)
        return made

    def _found(self, ref: SchemaRef, indexes: tuple[int, ...], topic: str, is_key: bool) -> Any:
        subject = context_subject(self._options.subject_name, topic, is_key)
        schema = writer_schema(self._registry, ref, PROTOBUF, subject)
        written = message_at(file_of(self._registry, schema, ref, subject), indexes)
        if self._message is not None:
            self._check(written)
            return self._message
        if self._options.use_latest_version:
            newest = latest(self._registry, self._strategy(topic, is_key, written.full_name), PROTOBUF)
            file = file_of(self._registry, newest, SchemaRef(schema_id=newest.schema_id), newest.subject)
            written = message_named(file, written.full_name)
        return message_class(written)

    def _check(self, written: Any) -> None:
        """A message may have been renamed, so another name is fine, unless the writer's file has ours too."""
        wanted = self._message.DESCRIPTOR.full_name
        if written.full_name == wanted:
            return
        others = {each.full_name for each in written.file.message_types_by_name.values()}
        if wanted in others:
            raise SerdeError(f"The data is a {written.full_name}, not a {wanted}: read it with that class.")

    def _parsed(self, made: Any, payload: bytes) -> Any:
        try:
            found = made.FromString(payload)
        except DecodeError as error:
            name = made.DESCRIPTOR.full_name
            raise SerdeError(f"The data is no {name}, or is damaged: {error}.") from error
        if self._options.as_dict:
            return json_format.MessageToDict(found, preserving_proto_field_name=True)
        return found
