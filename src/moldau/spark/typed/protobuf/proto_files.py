"""The text of .proto files to descriptors, by the real compiler, in a process of its own.

Invariant: nothing of a .proto text is parsed here. Every schema gets a pool of its own, so that two that
use the same names do not meet. What does not compile is a ``SchemaError`` with the compiler's first
complaint.
"""

import base64
import binascii
import subprocess
import sys
import tempfile
from functools import lru_cache
from importlib.resources import files as resources
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Any

from google.protobuf import descriptor_pb2, message_factory
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError

from moldau.spark.typed.registry import SchemaText
from moldau.spark.typed.shapes import SchemaError

_TIMEOUT_S = 30
_MAIN = "moldau_main.proto"


@lru_cache(maxsize=256)
def file_descriptor(schema: SchemaText) -> Any:
    """The descriptor of the file itself, with what it uses in its pool."""
    pool = DescriptorPool()
    found = None
    for file in _compiled(schema).file:
        pool.Add(file)
        found = file.name
    return pool.FindFileByName(found)


def message_descriptor(schema: SchemaText, message: str | None) -> Any:
    """The message of that name, with or without its package; the first one where none is named."""
    file = file_descriptor(schema)
    messages = list(file.message_types_by_name.values())
    if not messages:
        raise SchemaError("the .proto file has no message")
    if message is None:
        return messages[0]
    every = list(messages)
    for each in every:
        every += each.nested_types
        if message in (each.full_name, each.name):
            return each
    names = ", ".join(each.full_name for each in messages)
    raise SchemaError(f"the .proto file has no message {message!r}: there are {names}")


def message_at(schema: SchemaText, indexes: tuple[int, ...]) -> Any:
    """The message at a place: its number in the file, then in the message around it."""
    found: Any = None
    try:
        for index in indexes:
            top = file_descriptor(schema).message_types_by_name.values()
            found = list(top if found is None else found.nested_types)[index]
    except IndexError:
        raise SchemaError(f"the schema has no message at {list(indexes)}") from None
    return found


def indexes_of(descriptor: Any) -> tuple[int, ...]:
    """Where a message stands."""
    around = descriptor.containing_type
    if around is None:
        return (list(descriptor.file.message_types_by_name.values()).index(descriptor),)
    return (*indexes_of(around), list(around.nested_types).index(descriptor))


def message_class(descriptor: Any) -> Any:
    return message_factory.GetMessageClass(descriptor)


def _compiled(schema: SchemaText) -> Any:
    made = descriptor_pb2.FileDescriptorSet()
    if find_spec("grpc_tools") is None:
        raise SchemaError(
            "Protobuf needs the compiler of the package grpcio-tools: pip install moldau[spark]"
        )
    with tempfile.TemporaryDirectory(prefix="moldau-proto-") as directory:
        root, output = Path(directory, "in"), Path(directory, "set")
        for name, text in (*schema.uses, (_MAIN, schema.text)):
            _place(root, name, text)
        command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{root}"]
        command += [f"-I{resources('grpc_tools') / '_proto'}", "--include_imports"]
        command.append(f"--descriptor_set_out={output}")
        try:
            done = subprocess.run(
                [*command, str(root / _MAIN)], capture_output=True, text=True, timeout=_TIMEOUT_S
            )
        except subprocess.TimeoutExpired:
            raise SchemaError(f"the .proto file did not compile within {_TIMEOUT_S} s") from None
        if done.returncode:
            said = done.stderr.replace(f"{root}/", "").replace(_MAIN, "schema").strip().splitlines()
            raise SchemaError(f"the .proto file does not compile: {said[-1] if said else 'no reason given'}")
        made.ParseFromString(output.read_bytes())
    return made


def _place(root: Path, name: str, text: str) -> None:
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts:
        raise SchemaError(f"{name!r} is no name of an import")
    path = root.joinpath(*parts)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_as_text(text))


def _as_text(text: str) -> str:
    """Some registries answer with a descriptor in base64 where its text was never given."""
    if ";" in text or "{" in text:
        return text
    try:
        file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, DecodeError, ValueError):
        return text
    raise SchemaError(f"the registry holds {file.name or 'the schema'} as a descriptor, not as .proto text")
