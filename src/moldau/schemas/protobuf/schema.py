"""Protobuf schemas: what protoc makes of them, and every type that a field may name.

A schema arrives as the text of a .proto file or, from Python clients, as a base64 FileDescriptorProto; both
end as descriptors that the real compiler has accepted. Invariant: imports are the registered references and
the files that every registry has (``built_in``), nothing else.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from moldau.schemas.limits import MAX_REFERENCES, InvalidSchema, check_size
from moldau.schemas.protobuf.built_in import built_in
from moldau.schemas.protobuf.descriptors import descriptor_of, descriptor_text
from moldau.schemas.protobuf.text import proto_text
from moldau.schemas.protobuf.unknown_options import HELPER, HELPER_TEXT, unknown_names, with_unknown
from moldau.schemas.protoc import TIMEOUT_MS, DoesNotCompile, check_file_name, compile_proto

#: The name that a schema has in what the compiler says.
MAIN = "default.proto"
_STUB = "moldau-imports-of-a-descriptor.proto"
_DESCRIPTOR = "google/protobuf/descriptor.proto"
_MAX_UNKNOWN_OPTIONS = 200


@dataclass(frozen=True, slots=True, eq=False)
class Named:
    """A message or an enum with the package and the file that declare it."""

    descriptor: Any
    package: str
    file: str

    @property
    def local_name(self) -> str:
        return self.full_name.removeprefix(f"{self.package}.") if self.package else self.full_name

    full_name: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class ProtobufSchema:
    """`file` is the schema's own FileDescriptorProto, `types` all that it can see by full name, `imports`
    texts by name.
    """

    text: str
    file: Any
    types: Mapping[str, Named]
    imports: Mapping[str, str]
    normalized: str


def parse_protobuf(text: str, references: Mapping[str, ProtobufSchema]) -> ProtobufSchema:
    imports: dict[str, str] = {}
    for name, schema in references.items():
        check_file_name(name)
        imports.update(schema.imports)
        imports[name] = schema.text
    trimmed, files = compiled_files(text, imports)
    types = {named.full_name: named for file in files for named in _types(file)}
    return ProtobufSchema(trimmed, files[-1], types, imports, normal_text(files[-1], files))


def compiled_files(
    text: str, imports: Mapping[str, str], timeout_ms: int = TIMEOUT_MS
) -> tuple[str, list[Any]]:
    """The .proto text of a schema, and descriptors: of all that it imports, and last of its own file."""
    if len(imports) > MAX_REFERENCES:
        raise InvalidSchema(f"The schema has more than {MAX_REFERENCES} references")
    trimmed = _as_text(check_size(text), imports)
    main = MAIN
    while main in imports:
        main = f"_{main}"
    return trimmed, _compiled({**imports, main: trimmed}, main, timeout_ms)


def _compiled(files: Mapping[str, str], main: str, timeout_ms: int = TIMEOUT_MS) -> list[Any]:
    """The descriptors of a file and of all that it imports, its own last."""
    names: set[str] = set()
    while True:
        kept = {name: with_unknown(text, names) for name, text in files.items()} if names else files
        helper = {HELPER: HELPER_TEXT} if names else {}
        try:
            serialized = compile_proto({**built_in(files.values()), **helper, **kept}, main, timeout_ms)
        except DoesNotCompile as error:
            more = unknown_names(error.complaints) - names
            if not more or len(names) > _MAX_UNKNOWN_OPTIONS:
                raise
            names |= more
        else:
            return [
                _without_helper(file) for file in descriptor_pb2.FileDescriptorSet.FromString(serialized).file
            ]


def _without_helper(file: Any) -> Any:
    if HELPER in file.dependency:  # behind all others, so that no place of theirs changes
        file.dependency.remove(HELPER)
    return file


def _as_text(text: str, imports: Mapping[str, str]) -> str:
    file = descriptor_of(text)
    if file is None:
        return text
    if not file.dependency:
        return proto_text(file)
    # Options can be printed only by one who knows what the imports declare.
    lines = "".join(f'import "{check_file_name(name)}";\n' for name in file.dependency)
    known = _compiled({**imports, _STUB: f'syntax = "proto3";\n{lines}'}, _STUB)
    return proto_text(_with_options(file, known))


def _types(file: Any) -> Iterator[Named]:
    stack = [(file.package, each) for each in (*file.message_type, *file.enum_type)]
    while stack:
        scope, descriptor = stack.pop()
        full_name = f"{scope}.{descriptor.name}" if scope else descriptor.name
        yield Named(descriptor, file.package, file.name, full_name)
        if isinstance(descriptor, descriptor_pb2.DescriptorProto):
            stack.extend((full_name, each) for each in (*descriptor.nested_type, *descriptor.enum_type))


def normal_text(own: Any, files: Iterable[Any]) -> str:
    """The form of `normalize=true`: printed from the descriptor, so that neither comments nor layout nor the
    order of imports count.
    """
    file = _with_options(own, files)
    names = sorted(file.dependency)
    public = {file.dependency[index] for index in file.public_dependency}
    weak = {file.dependency[index] for index in file.weak_dependency}
    for repeated in (file.dependency, file.public_dependency, file.weak_dependency):
        del repeated[:]
    file.dependency.extend(names)
    file.public_dependency.extend(index for index, name in enumerate(names) if name in public)
    file.weak_dependency.extend(index for index, name in enumerate(names) if name in weak)
    return proto_text(file)


def _with_options(own: Any, files: Iterable[Any]) -> Any:
    """A copy of the descriptor that knows the extensions which its imports declare for options."""
    by_name = {file.name: file for file in files}
    if _DESCRIPTOR not in by_name:
        return descriptor_pb2.FileDescriptorProto.FromString(own.SerializeToString())
    pool = descriptor_pool.DescriptorPool()
    for name, file in by_name.items():
        if name != own.name:
            pool.Add(file)
    # Messages of a pool know an extension once its file has been loaded.
    for name in by_name:
        if name != own.name:
            pool.FindFileByName(name)
    kind = pool.FindMessageTypeByName("google.protobuf.FileDescriptorProto")
    return message_factory.GetMessageClass(kind).FromString(own.SerializeToString())


def serialized(schema: ProtobufSchema) -> str:
    """The form of `format=serialized`, which Python clients ask for: a base64 FileDescriptorProto."""
    return descriptor_text(schema.file.SerializeToString(deterministic=True))
