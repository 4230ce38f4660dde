"""Protobuf's descriptors: as text, in a pool, and the messages of a file by name and by place.

Invariant: every schema gets a pool of its own, so that two that use the same names do not meet. Of the files
that a schema imports only Google's own come from this installation.
"""

import base64
import binascii
import importlib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from google.protobuf import descriptor_pb2, message_factory
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError

from moldau.schemas.limits import InvalidSchema

_GOOGLES = re.compile(r"google/(protobuf|type|rpc|api)/[a-z_]+\.proto\Z")


def descriptor_text(serialized: bytes) -> str:
    """A file's descriptor as a registry takes and answers it in place of .proto text."""
    return base64.b64encode(serialized).decode()


def descriptor_of(text: str) -> Any | None:
    """The FileDescriptorProto that a text is in base64; None where it is something else."""
    try:
        return descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (DecodeError, binascii.Error, ValueError):
        return None


def file_in_pool(files: Iterable[Any]) -> Any:
    """The last of the files in a pool with the others, which come before those that import them."""
    pool = DescriptorPool()
    found = None
    for file in files:
        for name in file.dependency:
            _add_googles(pool, name)
        try:
            pool.Add(file)
            found = pool.FindFileByName(file.name)
        except (TypeError, KeyError) as error:
            raise InvalidSchema(f"The Protobuf schema {file.name!r} cannot be used: {error}.") from error
    return found


def _add_googles(pool: DescriptorPool, name: str) -> None:
    """Adds a file of Google's own; never one that a schema could name to have something else loaded."""
    if not _GOOGLES.match(name) or _has(pool, name):
        return
    try:
        module = importlib.import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
    except ImportError as error:
        raise InvalidSchema(
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


def messages(file: Any) -> list[Any]:
    """The messages of a file, each before those inside it."""
    return list(_messages(file.message_types_by_name.values()))


def _messages(found: Iterable[Any]) -> Iterator[Any]:
    for each in found:
        yield each
        yield from _messages(each.nested_types)


def message_named(file: Any, name: str | None) -> Any | None:
    """A message by its name, with or without the package; the first one where no name is given."""
    every = messages(file)
    if name is None:
        return every[0] if every else None
    for each in every:
        if name in (each.full_name, each.full_name.removeprefix(f"{file.package}.")):
            return each
    return next((each for each in every if each.name == name), None)


def message_indexes(descriptor: Any) -> tuple[int, ...]:
    """Where a message is: its place in the file, or in the message around it."""
    around = descriptor.containing_type
    beside = descriptor.file.message_types_by_name.values() if around is None else around.nested_types
    place = [each.full_name for each in beside].index(descriptor.full_name)
    return (place,) if around is None else (*message_indexes(around), place)


def message_at(file: Any, indexes: Sequence[int]) -> Any | None:
    """The message that indexes lead to; None where there is none."""
    found, beside = None, list(file.message_types_by_name.values())
    for index in indexes:
        if not 0 <= index < len(beside):
            return None
        found = beside[index]
        beside = list(found.nested_types)
    return found


def message_class(descriptor: Any) -> Any:
    return message_factory.GetMessageClass(descriptor)
