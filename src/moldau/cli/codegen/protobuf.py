"""Dataclasses from a Protobuf schema.

They are no Protobuf messages: serializers take protoc's classes. Fields have proto3's defaults; a field that
may be absent (a message, ``optional``, a part of a ``oneof``) is None. Pure.
"""

from typing import Any

from google.protobuf.descriptor_pb2 import FieldDescriptorProto

from moldau.cli.codegen.classes import Module, class_name, comment, identifier
from moldau.schemas.protobuf.schema import ProtobufSchema

_F = FieldDescriptorProto
_SCALARS = {
    **dict.fromkeys((_F.TYPE_DOUBLE, _F.TYPE_FLOAT), ("float", "0.0")),
    _F.TYPE_BOOL: ("bool", "False"),
    _F.TYPE_STRING: ("str", '""'),
    _F.TYPE_BYTES: ("bytes", 'b""'),
}
_NUMBER = ("int", "0")
_MESSAGES = (_F.TYPE_MESSAGE, _F.TYPE_GROUP)


def write_protobuf(module: Module, schema: ProtobufSchema) -> None:
    writer = _Writer(module, schema)
    package = f".{schema.file.package}" if schema.file.package else ""
    for each in (*schema.file.enum_type, *schema.file.message_type):
        writer.named(f"{package}.{each.name}")


class _Writer:
    def __init__(self, module: Module, schema: ProtobufSchema) -> None:
        self._module = module
        self._types = schema.types
        self._names: dict[str, str] = {}

    def named(self, full_name: str) -> str:
        """The name of the class for a message or an enum; writes the class the first time."""
        if full_name not in self._names:
            named = self._types[full_name.lstrip(".")]
            made = self._names[full_name] = self._module.name(class_name(named.local_name))
            if hasattr(named.descriptor, "value"):
                lines = [f"{identifier(each.name)} = {each.number}" for each in named.descriptor.value]
                self._module.enum(made, "IntEnum", None, lines)
            else:
                self._message(made, named.descriptor)
        return self._names[full_name]

    def _message(self, name: str, message: Any) -> None:
        oneofs = [each.name for each in message.oneof_decl]
        lines: list[str] = []
        for each in message.field:
            if each.HasField("oneof_index") and not each.proto3_optional:
                lines.append(comment(f"one of {oneofs[each.oneof_index]}"))
            annotation, default = self._field(each)
            made = identifier(each.name)
            if made != each.name:
                lines.append(comment(f"{each.name} in the schema"))
            lines.append(f"{made}: {annotation} = {self._module.default(default)}")
        self._module.dataclass(name, None, lines)

    def _field(self, each: Any) -> tuple[str, str]:
        pair = self._map(each)
        if pair is not None:
            return f"dict[{self._type(pair[0])[0]}, {self._type(pair[1])[0]}]", "{}"
        annotation, default = self._type(each)
        if each.label == _F.LABEL_REPEATED:
            return f"list[{annotation}]", "[]"
        if each.type in _MESSAGES or each.HasField("oneof_index") or each.proto3_optional:
            return f"{annotation} | None", "None"
        return annotation, default

    def _map(self, each: Any) -> Any:
        """The key and value fields of a map, which is encoded as a repeated message; None for others."""
        if each.type != _F.TYPE_MESSAGE or each.label != _F.LABEL_REPEATED:
            return None
        named = self._types[each.type_name.lstrip(".")].descriptor
        return named.field if named.options.map_entry else None

    def _type(self, each: Any) -> tuple[str, str]:
        if each.type == _F.TYPE_ENUM:
            name = self.named(each.type_name)
            first = self._types[each.type_name.lstrip(".")].descriptor.value[0].name
            return name, f"{name}.{identifier(first)}"
        if each.type in _MESSAGES:
            if each.type_name == ".google.protobuf.Timestamp":
                return self._module.use("datetime", "datetime"), "None"
            return self.named(each.type_name), "None"
        return _SCALARS.get(each.type, _NUMBER)
