"""A FileDescriptorProto printed as a .proto file that protoc reads back to the same descriptor.

Options of extensions are printed when the descriptor was read with a pool that knows them;
without one they are unknown bytes without a name, and stay out. Those that nothing declares are printed as
they were written (``unknown_options``).
"""

from collections.abc import Iterable, Iterator
from typing import Any

from google.protobuf import descriptor_pb2, text_format

from moldau.schemas.protobuf.unknown_options import PACKAGE

_FIELD = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    number: name.removeprefix("TYPE_").lower()
    for name, number in _FIELD.Type.items()
    if name not in ("TYPE_MESSAGE", "TYPE_ENUM", "TYPE_GROUP")
}
_MAX_FIELD = 536_870_912
_MAX_ENUM = 2**31 - 1


def proto_text(file: Any) -> str:
    syntax = file.syntax or "proto2"
    lines = [f'edition = "{_edition(file)}";' if syntax == "editions" else f'syntax = "{syntax}";']
    if file.package:
        lines.append(f"package {file.package};")
    public, weak = set(file.public_dependency), set(file.weak_dependency)
    for index, name in enumerate(file.dependency):
        word = "public " if index in public else "weak " if index in weak else ""
        lines.append(f'import {word}"{_escaped(name)}";')
    lines += [f"option {each};" for each in _options(file.options)]
    for enum in file.enum_type:
        lines += ["", *_enum(enum)]
    for message in file.message_type:
        lines += ["", *_message(message, syntax)]
    lines += _extensions(file.extension, syntax)
    for service in file.service:
        lines += ["", *_service(service)]
    return "\n".join(lines) + "\n"


def _edition(file: Any) -> str:
    return str(descriptor_pb2.Edition.Name(file.edition)).removeprefix("EDITION_")


def _escaped(text: str | bytes) -> str:
    raw = text.encode() if isinstance(text, str) else text
    return "".join(
        chr(each) if 32 <= each < 127 and each not in b"\"\\'" else f"\\{each:03o}" for each in raw
    )


def _options(options: Any) -> Iterator[str]:
    for field, value in options.ListFields():
        if field.name in ("map_entry", "uninterpreted_option"):
            continue
        if field.is_extension and field.full_name.startswith(f"{PACKAGE}."):
            yield from value  # the sources of options that nothing declares
            continue
        name = f"({field.full_name})" if field.is_extension else field.name
        for each in value if field.is_repeated else (value,):
            yield f"{name} = {_shown(field, each)}"


def _shown(field: Any, value: Any) -> str:
    if field.type in (field.TYPE_MESSAGE, field.TYPE_GROUP):
        return f"{{ {text_format.MessageToString(value, as_one_line=True, as_utf8=True)} }}"
    if field.type == field.TYPE_ENUM:
        return str(field.enum_type.values_by_number[value].name)
    if field.type == field.TYPE_BOOL:
        return "true" if value else "false"
    if field.type in (field.TYPE_STRING, field.TYPE_BYTES):
        return f'"{_escaped(value)}"'
    return repr(value)


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"  {line}" if line else "" for line in lines]


def _enum(enum: Any) -> list[str]:
    body = [f"option {each};" for each in _options(enum.options)]
    body += [f"{value.name} = {value.number}{_brackets(_options(value.options))};" for value in enum.value]
    body += _reserved(enum, _MAX_ENUM, 0)
    return [f"enum {enum.name} {{", *_indented(body), "}"]


def _reserved(descriptor: Any, largest: int, beyond: int) -> list[str]:
    """Ranges of messages end beyond their last number (`beyond` is 1), those of enums with it."""
    lines = [f"reserved {_range(each, largest, beyond)};" for each in descriptor.reserved_range]
    return lines + [f'reserved "{_escaped(name)}";' for name in descriptor.reserved_name]


def _range(each: Any, largest: int, beyond: int) -> str:
    last = each.end - beyond
    if each.end >= largest:
        return f"{each.start} to max"
    return f"{each.start}" if last == each.start else f"{each.start} to {last}"


def _brackets(options: Iterable[str]) -> str:
    listed = list(options)
    return f" [{', '.join(listed)}]" if listed else ""


def _message(message: Any, syntax: str) -> list[str]:
    return [f"message {message.name} {{", *_indented(_body(message, syntax)), "}"]


def _body(message: Any, syntax: str) -> list[str]:
    lines = [f"option {each};" for each in _options(message.options)]
    entries = {each.name: each for each in message.nested_type if each.options.map_entry}
    groups = {each.type_name.rpartition(".")[2] for each in message.field if each.type == _FIELD.TYPE_GROUP}
    together: dict[int, list[Any]] = {}
    for field in message.field:
        if field.HasField("oneof_index"):
            together.setdefault(field.oneof_index, []).append(field)
    done: set[int] = set()
    for field in message.field:
        if not field.HasField("oneof_index") or field.proto3_optional:
            lines += _field(field, message, entries, syntax)
        elif field.oneof_index not in done:
            done.add(field.oneof_index)
            oneof = message.oneof_decl[field.oneof_index]
            members = [
                line
                for each in together[field.oneof_index]
                for line in _field(each, message, entries, "oneof")
            ]
            lines += [f"oneof {oneof.name} {{", *_indented([f"option {o};" for o in _options(oneof.options)])]
            lines += [*_indented(members), "}"]
    lines += _reserved(message, _MAX_FIELD, 1)
    lines += [f"extensions {_range(each, _MAX_FIELD, 1)};" for each in message.extension_range]
    for nested in message.nested_type:
        if nested.name not in entries and nested.name not in groups:
            lines += _message(nested, syntax)
    for enum in message.enum_type:
        lines += _enum(enum)
    return lines + _extensions(message.extension, syntax)


def _field(field: Any, message: Any, entries: dict[str, Any], syntax: str) -> list[str]:
    options = list(_options(field.options))
    if field.HasField("default_value"):
        options.insert(0, f"default = {_default(field)}")
    if not field.extendee and field.json_name not in ("", _json_name(field.name)):
        options.append(f'json_name = "{_escaped(field.json_name)}"')
    label = "" if syntax == "oneof" else _label(field, syntax)
    if field.type == _FIELD.TYPE_GROUP:
        name = field.type_name.rpartition(".")[2]
        body = next(each for each in message.nested_type if each.name == name)
        head = f"{label}group {name} = {field.number}{_brackets(options)} {{"
        return [head, *_indented(_body(body, "proto2")), "}"]
    kind = _kind(field)
    entry = entries.get(field.type_name.rpartition(".")[2])
    if entry is not None and field.label == _FIELD.LABEL_REPEATED:
        label, kind = "", f"map<{_kind(entry.field[0])}, {_kind(entry.field[1])}>"
    return [f"{label}{kind} {field.name} = {field.number}{_brackets(options)};"]


def _kind(field: Any) -> str:
    return _SCALARS.get(field.type) or str(field.type_name)


def _label(field: Any, syntax: str) -> str:
    if field.label == _FIELD.LABEL_REPEATED:
        return "repeated "
    if field.label == _FIELD.LABEL_REQUIRED:
        return "required "
    return "optional " if syntax == "proto2" or field.proto3_optional else ""


def _json_name(name: str) -> str:
    """The name that protoc gives a field in JSON where the file does not say another."""
    first, *rest = name.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in rest)


def _default(field: Any) -> str:
    if field.type == _FIELD.TYPE_STRING:
        return f'"{_escaped(field.default_value)}"'
    # The descriptor keeps the default of bytes in its escaped form.
    return f'"{field.default_value}"' if field.type == _FIELD.TYPE_BYTES else str(field.default_value)


def _extensions(fields: Iterable[Any], syntax: str) -> list[str]:
    lines: list[str] = []
    for field in fields:
        if field.type != _FIELD.TYPE_GROUP:
            lines += [f"extend {field.extendee} {{", *_indented(_field(field, None, {}, syntax)), "}"]
    return lines


def _service(service: Any) -> list[str]:
    lines = [f"option {each};" for each in _options(service.options)]
    for method in service.method:
        taken = f"{'stream ' if method.client_streaming else ''}{method.input_type}"
        given = f"{'stream ' if method.server_streaming else ''}{method.output_type}"
        options = [f"option {each};" for each in _options(method.options)]
        head = f"rpc {method.name} ({taken}) returns ({given})"
        lines += [f"{head} {{", *_indented(options), "}"] if options else [f"{head};"]
    return [f"service {service.name} {{", *_indented(lines), "}"]
