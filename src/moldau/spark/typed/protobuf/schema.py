"""The messages of Protobuf schemas, compiled once each. What cannot be used is a ``SchemaError``."""

from functools import lru_cache
from typing import Any

from moldau.schemas.limits import InvalidSchema
from moldau.schemas.protobuf import descriptors
from moldau.schemas.protobuf.schema import MAIN, compiled_files
from moldau.schemas.protoc import DoesNotCompile
from moldau.spark.typed.registry import SchemaText
from moldau.spark.typed.shapes import SchemaError

_TIMEOUT_MS = 30_000


@lru_cache(maxsize=256)
def file_descriptor(schema: SchemaText) -> Any:
    """The descriptor of the file itself, with what it uses in its pool."""
    try:
        _, files = compiled_files(schema.text, dict(schema.uses), _TIMEOUT_MS)
        return descriptors.file_in_pool(files)
    except DoesNotCompile as error:
        said = error.complaints.replace(MAIN, "schema").splitlines()[-1]
        raise SchemaError(f"the .proto file does not compile: {said}") from None
    except InvalidSchema as error:
        raise SchemaError(f"the .proto file cannot be used: {error}") from None


def message_descriptor(schema: SchemaText, message: str | None) -> Any:
    """The message of that name, with or without its package; the first one where none is named."""
    file = file_descriptor(schema)
    found = descriptors.message_named(file, message)
    if found is not None:
        return found
    names = ", ".join(each.full_name for each in file.message_types_by_name.values())
    if not names:
        raise SchemaError("the .proto file has no message")
    raise SchemaError(f"the .proto file has no message {message!r}: there are {names}")


def message_at(schema: SchemaText, indexes: tuple[int, ...]) -> Any:
    """The message at a place: its number in the file, then in the message around it."""
    found = descriptors.message_at(file_descriptor(schema), indexes)
    if found is None:
        raise SchemaError(f"the schema has no message at {list(indexes)}")
    return found
