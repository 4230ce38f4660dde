"""Protobuf's descriptors between Python and the registry.

Invariant: no .proto text is parsed here: the registry has a real compiler and answers with descriptors.
Every schema gets a pool of its own, so that two that use the same names do not meet. Of the files that a
schema imports only Google's own come from this installation; the others are its references.
"""

import base64
import binascii
import importlib
import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from google.protobuf import descriptor_pb2, message_factory
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError

from moldau.client.registry.schema_registry import Reference, RegisteredSchema, RegistryClient
from moldau.schemas.schema_id import SchemaRef
from moldau.serde.errors import SerdeError
from moldau.serde.registered import asked, referenced

PROTOBUF = "PROTOBUF"
_GOOGLES = re.compile(r"google/(protobuf|type|rpc|api)/[a-z_]+\.proto\Z")
#: Files that every registry has; Confluent's serializers do not register them either.
_BUILT_IN = re.compile(r"(google/(protobuf|type)|confluent)/.*\.proto\Z|confluent/meta\.proto\Z")


def is_built_in(file_name: str) -> bool:
    return _BUILT_IN.match(file_name) is not None


def file_text(file: Any) -> str:
    """A file's descriptor as the registry takes it in place of text."""
    return base64.b64encode(file.serialized_pb).decode()


def message_indexes(descriptor: Any) -> tuple[int, ...]:
    """Where a message stands: its place in the file, or in the message around it."""
    around = descriptor.containing_type
    if around is None:
        return (list(descriptor.file.message_types_by_name.values()).index(descriptor),)
    places = [each.full_name for each in around.nested_types]
    return (*message_indexes(around), places.index(descriptor.full_name))


def message_at(file: Any, indexes: Sequence[int]) -> Any:
    """The message that indexes lead to."""
    found, messages = None, list(file.message_types_by_name.values())
    for index in indexes:
        if not 0 <= index < len(messages):
            said = f"The data names the message {list(indexes)} of its schema, which has no such one"
            raise SerdeError(f"{said}: it is damaged, or was not written for Protobuf.")
        found = messages[index]
        messages = list(found.nested_types)
    return found


def message_named(file: Any, name: str | None) -> Any:
    """A message by its name, with or without the package; the first one where no name is given."""
    every = list(_messages(file.message_types_by_name.values()))
    if name is None and every:
        return every[0]
    for each in every:
        if name in (each.full_name, each.full_name.removeprefix(f"{file.package}.")):
            return each
    names = ", ".join(each.full_name for each in every) or "none"
    raise SerdeError(f"The schema has no message {name!r}; it has {names}.")


def _messages(messages: Any) -> Any:
    for each in messages:
        yield each
        yield from _messages(each.nested_types)


def message_class(descriptor: Any) -> Any:
    return message_factory.GetMessageClass(descriptor)


def file_of(
    registry: RegistryClient, schema: RegisteredSchema, ref: SchemaRef, subject: str | None = None
) -> Any:
    """The descriptor of a schema's file, in a pool with all that it imports."""
    if ref.guid is not None:
        path = f"/schemas/guids/{ref.guid}?format=serialized"
    else:
        within = "" if subject is None else f"&subject={quote(subject, safe='')}"
        path = f"/schemas/ids/{ref.schema_id}?format=serialized{within}"
    what = f"The descriptor of the schema with the {ref} cannot be had"
    answer = asked(what, lambda: registry.call("GET", path))
    pool = DescriptorPool()
    imported = referenced(registry, schema.references, lambda each: _version(registry, each))
    for name, text in imported.items():
        _add(pool, _parsed(text, name))
    root = _parsed(answer["schema"], None)
    if root.name in imported or not root.name:
        root.name = f"schema-{ref.schema_id if ref.guid is None else ref.guid}.proto"
    return _add(pool, root)


def _version(registry: RegistryClient, reference: Reference) -> str:
    subject = quote(reference.subject, safe="")
    path = f"/subjects/{subject}/versions/{reference.version}?format=serialized&deleted=true"
    return str(registry.call("GET", path)["schema"])


def _parsed(text: str, name: str | None) -> Any:
    try:
        found = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (DecodeError, binascii.Error, ValueError) as error:
        raise SerdeError(
            "The registry does not answer with the descriptor of a Protobuf schema (format=serialized): "
            "pass the generated class, or use a registry that does."
        ) from error
    if name is not None:
        found.name = name
    return found


def _add(pool: DescriptorPool, file: Any) -> Any:
    for name in file.dependency:
        _add_googles(pool, name)
    try:
        pool.Add(file)
        return pool.FindFileByName(file.name)
    except (TypeError, KeyError) as error:
        raise SerdeError(f"The Protobuf schema {file.name!r} cannot be used: {error}.") from error


def _add_googles(pool: DescriptorPool, name: str) -> None:
    """Adds a file of Google's own; never one that a schema could name to have something else loaded."""
    if not _GOOGLES.match(name) or _has(pool, name):
        return
    try:
        module = importlib.import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
    except ImportError as error:
        raise SerdeError(
            f"The schema imports {name}, which is not installed here: pip install googleapis-common-protos."
        ) from error
    for each in module.DESCRIPTOR.dependencies:
        _add_googles(pool, each.name)
    pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)


def _has(pool: DescriptorPool, name: str) -> bool:
    try:
        pool.FindFileByName(name)
    except KeyError:
        return False
    return True
