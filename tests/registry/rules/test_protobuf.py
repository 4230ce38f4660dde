"""Protobuf differences as tables (old, new, what is found), and bytes that were written before read after
the change.
"""

import os
import signal
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from moldau.registry.rules.compatibility import Level, incompatibilities
from moldau.registry.rules.protobuf import changes
from moldau.registry.schemas import InvalidSchema, Reference, SchemaType, parse, serialized
from moldau.schemas import protoc
from moldau.schemas.protobuf.schema import ProtobufSchema, parse_protobuf
from moldau.schemas.protoc import check_file_name, compile_proto


def proto(body: str, syntax: str = "proto3") -> str:
    return f'syntax = "{syntax}"; {body}'


def schema(body: str, **imports: ProtobufSchema) -> ProtobufSchema:
    text = body if body.startswith("syntax") else proto(body)
    return parse_protobuf(text, {f"{name}.proto": each for name, each in imports.items()})


def found(old: str, new: str) -> list[str]:
    return [f"{'!' * each.breaking}{each.kind} {each.path}" for each in changes(schema(old), schema(new))]


def m(fields: str) -> str:
    return f"message M {{ {fields} }}"


SCALARS = {
    "int32": "varint",
    "int64": "varint",
    "uint32": "varint",
    "uint64": "varint",
    "bool": "varint",
    "sint32": "zigzag",
    "sint64": "zigzag",
    "string": "text",
    "bytes": "text",
    "fixed32": "4",
    "sfixed32": "4",
    "fixed64": "8",
    "sfixed64": "8",
    "float": "float",
    "double": "double",
}


@pytest.fixture(scope="module")
def by_scalar() -> dict[str, ProtobufSchema]:
    return {kind: schema(m(f"{kind} a = 1;")) for kind in SCALARS}


@pytest.mark.parametrize("old", SCALARS)
@pytest.mark.parametrize("new", SCALARS)
def test_scalars_change_inside_their_wire_group(
    old: str, new: str, by_scalar: dict[str, ProtobufSchema]
) -> None:
    differences = [each.kind for each in changes(by_scalar[old], by_scalar[new])]
    assert differences == ([] if SCALARS[old] == SCALARS[new] else ["FIELD_SCALAR_KIND_CHANGED"])


N = "message N { int32 x = 1; }"
O = "message O { int32 x = 1; }"  # noqa: E741
E = "enum E { Z = 0; }"
P2 = 'syntax = "proto2"; '

TABLE: list[tuple[str, str, list[str]]] = [
    # packages, messages
    (m("int32 a = 1;"), m("int32 a = 1;"), []),
    ("package x; " + m(""), "package x; " + m(""), []),
    ("package x; " + m(""), "package y; " + m(""), ["!PACKAGE_CHANGED #/"]),
    (m(""), "package x; " + m(""), ["!PACKAGE_CHANGED #/"]),
    (m(""), m("") + N, ["MESSAGE_ADDED #/N"]),
    (m("") + N, m(""), ["!MESSAGE_REMOVED #/N"]),
    (m("") + N, N + m(""), ["MESSAGE_MOVED #/M", "MESSAGE_MOVED #/N"]),
    (m(""), N, ["!MESSAGE_REMOVED #/M", "MESSAGE_ADDED #/N"]),
    (m(N), m(""), ["!MESSAGE_REMOVED #/M/N"]),
    (m(""), m(N), ["MESSAGE_ADDED #/M/N"]),
    (m("") + N, m(N), ["MESSAGE_ADDED #/M/N", "!MESSAGE_REMOVED #/N"]),
    (m(N), m("message N { string x = 1; }"), ["!FIELD_SCALAR_KIND_CHANGED #/M/N/1"]),
    (m("int32 a = 1;"), P2 + m("optional int32 a = 1;"), []),
    # fields
    (m("int32 a = 1;"), m("int32 a = 1; int32 b = 2;"), ["FIELD_ADDED #/M/2"]),
    (m("int32 a = 1; int32 b = 2;"), m("int32 a = 1;"), ["FIELD_REMOVED #/M/2"]),
    (m("int32 a = 1;"), m("int32 b = 1;"), ["FIELD_NAME_CHANGED #/M/1"]),
    (m("int32 a = 1;"), m("int32 a = 2;"), ["FIELD_REMOVED #/M/1", "FIELD_ADDED #/M/2"]),
    (m("int32 a = 1; int32 b = 2;"), m("int32 b = 2; int32 a = 1;"), []),
    (
        m("int32 a = 1; int32 b = 2;"),
        m("int32 b = 1; int32 a = 2;"),
        ["FIELD_NAME_CHANGED #/M/1", "FIELD_NAME_CHANGED #/M/2"],
    ),
    (m("int32 a = 1;"), m("optional int32 a = 1;"), []),
    (m("int32 a = 1;"), m("reserved 1;"), ["FIELD_REMOVED #/M/1"]),
    (m("int32 a = 1;"), m('reserved 1; reserved "a";'), ["FIELD_REMOVED #/M/1"]),
    (m("reserved 1;"), m(""), []),
    (m("reserved 1;"), m("int32 a = 1;"), ["FIELD_ADDED #/M/1"]),
    (m("int32 a = 1;"), m("int32 a = 1 [deprecated = true];"), []),
    (m("int32 a = 1;"), m('int32 a = 1 [json_name = "z"];'), []),
    (m("int32 a = 1;"), m("string a = 1;"), ["!FIELD_SCALAR_KIND_CHANGED #/M/1"]),
    (m("int32 a = 1;"), m("bool b = 1;"), ["FIELD_NAME_CHANGED #/M/1"]),
    # labels
    (m("int32 a = 1;"), m("repeated int32 a = 1;"), ["!FIELD_NUMERIC_LABEL_CHANGED #/M/1"]),
    (m("repeated int32 a = 1;"), m("int32 a = 1;"), ["!FIELD_NUMERIC_LABEL_CHANGED #/M/1"]),
    (m("repeated double a = 1;"), m("double a = 1;"), ["!FIELD_NUMERIC_LABEL_CHANGED #/M/1"]),
    (m("string a = 1;"), m("repeated string a = 1;"), ["FIELD_STRING_OR_BYTES_LABEL_CHANGED #/M/1"]),
    (m("repeated bytes a = 1;"), m("bytes a = 1;"), ["FIELD_STRING_OR_BYTES_LABEL_CHANGED #/M/1"]),
    (m("N a = 1;") + N, m("repeated N a = 1;") + N, []),
    (m("repeated int32 a = 1;"), m("repeated int64 a = 1;"), []),
    # required
    (P2 + m(""), P2 + m("required int32 a = 1;"), ["!REQUIRED_FIELD_ADDED #/M/1"]),
    (P2 + m("required int32 a = 1;"), P2 + m(""), ["!REQUIRED_FIELD_REMOVED #/M/1"]),
    (P2 + m(""), P2 + m("optional int32 a = 1;"), ["FIELD_ADDED #/M/1"]),
    (P2 + m("required int32 a = 1;"), P2 + m("optional int32 a = 1;"), ["!REQUIRED_FIELD_REMOVED #/M/1"]),
    (P2 + m("optional int32 a = 1;"), P2 + m("required int32 a = 1;"), ["!REQUIRED_FIELD_ADDED #/M/1"]),
    (P2 + m("optional int32 a = 1 [default = 1];"), P2 + m("optional int32 a = 1 [default = 2];"), []),
    (P2 + m("optional group G = 1 { }"), P2 + m("optional group G = 1 { }"), []),
    (
        P2 + m("optional group G = 1 { }"),
        P2 + m("optional int32 g = 1;"),
        ["!FIELD_KIND_CHANGED #/M/1", "!MESSAGE_REMOVED #/M/G"],
    ),
    # named types
    (m("N a = 1;") + N, m("N a = 1;") + N, []),
    (m("N a = 1;") + N + O, m("O a = 1;") + N + O, ["!FIELD_NAMED_TYPE_CHANGED #/M/1"]),
    (m("N a = 1;") + N, m("int32 a = 1;") + N, ["!FIELD_KIND_CHANGED #/M/1"]),
    (m("bytes a = 1;") + N, m("N a = 1;") + N, ["!FIELD_KIND_CHANGED #/M/1"]),
    (m("M a = 1;"), m("M a = 1;"), []),
    (m("M a = 1; int32 v = 2;"), m("M a = 1; string v = 2;"), ["!FIELD_SCALAR_KIND_CHANGED #/M/2"]),
    (m("N a = 1;") + N, m("N a = 1;") + "message N { int64 x = 1; }", []),
    (m("N a = 1;") + N, m("N a = 1;") + "message N { string x = 1; }", ["!FIELD_SCALAR_KIND_CHANGED #/N/1"]),
    # enums
    (m("") + E, m(""), ["ENUM_REMOVED #/E"]),
    (m(""), m("") + E, ["ENUM_ADDED #/E"]),
    (m("") + E, m("") + "enum E { Z = 0; A = 1; }", ["ENUM_CONST_ADDED #/E/1"]),
    (m("") + "enum E { Z = 0; A = 1; }", m("") + E, ["ENUM_CONST_REMOVED #/E/1"]),
    (m("") + E, m("") + "enum E { Y = 0; }", ["ENUM_CONST_CHANGED #/E/0"]),
    (m(E), m(""), ["ENUM_REMOVED #/M/E"]),
    (m("E a = 1;") + E, m("int32 a = 1;") + E, []),
    (m("int64 a = 1;") + E, m("E a = 1;") + E, []),
    (m("E a = 1;") + E, m("sint32 a = 1;") + E, ["!FIELD_SCALAR_KIND_CHANGED #/M/1"]),
    (m("E a = 1;") + E, m("string a = 1;") + E, ["!FIELD_SCALAR_KIND_CHANGED #/M/1"]),
    (m("E a = 1;") + E + "enum D { X = 0; }", m("D a = 1;") + E + "enum D { X = 0; }", []),
    # maps
    (m("map<string, int32> a = 1;"), m("map<string, int32> a = 1;"), []),
    (m("map<string, int32> a = 1;"), m("map<string, int64> a = 1;"), []),
    (m("map<string, int32> a = 1;"), m("map<string, string> a = 1;"), ["!FIELD_SCALAR_KIND_CHANGED #/M/1"]),
    (m("map<string, int32> a = 1;"), m("map<int32, int32> a = 1;"), ["!FIELD_SCALAR_KIND_CHANGED #/M/1"]),
    (m("map<string, int32> a = 1;"), m("map<string, int32> b = 1;"), ["FIELD_NAME_CHANGED #/M/1"]),
    (m("map<string, N> a = 1;") + N, m("map<string, int32> a = 1;") + N, ["!FIELD_KIND_CHANGED #/M/1"]),
    (m("map<string, int32> a = 1;"), m("int32 a = 1;"), ["!FIELD_KIND_CHANGED #/M/1"]),
    (m("repeated N a = 1;") + N, m("map<int32, int32> a = 1;") + N, ["!FIELD_KIND_CHANGED #/M/1"]),
    (m("map<string, int32> a = 1;"), m(""), ["FIELD_REMOVED #/M/1"]),
    # oneofs
    (m("oneof o { int32 a = 1; }"), m("oneof o { int32 a = 1; }"), []),
    (
        m("oneof o { int32 a = 1; }"),
        m("oneof o { int32 a = 1; int32 b = 2; }"),
        ["ONEOF_FIELD_ADDED #/M/o/2"],
    ),
    (
        m("oneof o { int32 a = 1; int32 b = 2; }"),
        m("oneof o { int32 a = 1; }"),
        ["!ONEOF_FIELD_REMOVED #/M/o/2"],
    ),
    (m("int32 a = 1;"), m("oneof o { int32 a = 1; }"), ["ONEOF_ADDED #/M/o"]),
    (m("oneof o { int32 a = 1; }"), m("int32 a = 1;"), ["ONEOF_REMOVED #/M/o"]),
    (
        m("int32 a = 1;"),
        m("oneof o { int32 a = 1; int32 b = 2; }"),
        ["ONEOF_ADDED #/M/o", "FIELD_ADDED #/M/2"],
    ),
    (
        m("int32 a = 1; int32 b = 2;"),
        m("oneof o { int32 a = 1; int32 b = 2; }"),
        ["!MULTIPLE_FIELDS_MOVED_TO_ONEOF #/M/o", "ONEOF_ADDED #/M/o"],
    ),
    (
        m("int32 a = 1; oneof o { int32 b = 2; }"),
        m("oneof o { int32 a = 1; int32 b = 2; }"),
        ["!FIELD_MOVED_TO_EXISTING_ONEOF #/M/o"],
    ),
    (
        m("oneof o { int32 a = 1; }"),
        m("oneof p { int32 a = 1; }"),
        ["ONEOF_REMOVED #/M/o", "ONEOF_ADDED #/M/p"],
    ),
    (
        m("oneof o { int32 a = 1; }"),
        m("oneof p { string a = 1; }"),
        ["ONEOF_REMOVED #/M/o", "ONEOF_ADDED #/M/p", "!FIELD_SCALAR_KIND_CHANGED #/M/1"],
    ),
    (m("oneof o { int32 a = 1; }"), m("oneof o { string a = 1; }"), ["!FIELD_SCALAR_KIND_CHANGED #/M/1"]),
    (m("oneof o { int32 a = 1; }"), m("oneof o { int32 z = 1; }"), ["FIELD_NAME_CHANGED #/M/1"]),
    (m("oneof o { int32 a = 1; int32 b = 2; }"), m("oneof o { int32 a = 1; } int32 b = 2;"), []),
    (m("oneof o { int32 a = 1; }"), m(""), ["ONEOF_REMOVED #/M/o", "FIELD_REMOVED #/M/1"]),
    (m("int32 a = 1; int32 b = 2;"), m("optional int32 a = 1; optional int32 b = 2;"), []),
    # what is not about data
    (m(""), m("") + "service S { rpc X (M) returns (M); }", []),
    (m(""), 'option java_package = "x"; ' + m(""), []),
]


@pytest.mark.parametrize(("old", "new", "expected"), TABLE)
def test_differences(old: str, new: str, expected: list[str]) -> None:
    assert sorted(found(old, new)) == sorted(expected)


def test_imported_types_are_compared_where_they_are_used() -> None:
    first = schema("package other; message N { int32 x = 1; }")
    second = schema("package other; message N { int64 x = 1; int32 y = 2; }")
    third = schema("package other; message N { string x = 1; }")
    body = 'import "other.proto"; message M { other.N a = 1; }'
    old = schema(body, other=first)
    assert [each.kind for each in changes(old, schema(body, other=first))] == []
    assert [each.kind for each in changes(old, schema(body, other=second))] == ["FIELD_ADDED"]
    broken = changes(old, schema(body, other=third))
    assert [each.kind for each in broken] == ["FIELD_SCALAR_KIND_CHANGED", "FIELD_NAMED_TYPE_CHANGED"]
    local = schema("message M { N a = 1; } " + N)
    assert not any(each.breaking for each in changes(old, local) if each.path != "#/")


def test_references_of_references_come_along() -> None:
    base = parse(SchemaType.PROTOBUF, proto("message Base { int32 x = 1; }"), {})
    text = proto('import "base.proto"; message Middle { Base b = 1; }')
    middle = parse(SchemaType.PROTOBUF, text, {Reference("base.proto", "base", 1): base})
    text = proto('import "dir/middle.proto"; message Top { Middle m = 1; }')
    top = parse(SchemaType.PROTOBUF, text, {Reference("dir/middle.proto", "middle", 1): middle})
    assert top.references == (Reference("dir/middle.proto", "middle", 1),)
    assert incompatibilities(Level.FULL_TRANSITIVE, top, [top, top]) == []


@pytest.mark.parametrize(
    "text",
    [
        "nonsense",
        proto("message {"),
        proto("message M { int32 a = 1; int32 b = 1; }"),
        proto("message M { int32 a = 1; reserved 1; }"),
        proto("message M { Unknown a = 1; }"),
        proto("enum E { A = 1; }"),
        proto('import "missing.proto"; message M { }'),
        proto('import "../../etc/passwd"; message M { }'),
        proto('import "/etc/passwd"; message M { }'),
        proto("message M { required int32 a = 1; }"),
        proto("".join(f"message M{level} {{ " for level in range(5000)) + "}" * 5000),
        "x" * 1_000_001,
        "  ",
    ],
)
def test_what_protoc_refuses_is_invalid(text: str) -> None:
    with pytest.raises(InvalidSchema):
        parse(SchemaType.PROTOBUF, text, {})


@pytest.mark.parametrize(
    "name", ["../x.proto", "/x.proto", "a/../x.proto", "a//x.proto", "", "a\\x", "x\0", "~/x", "a" * 2000]
)
def test_names_of_imports_stay_inside(name: str) -> None:
    with pytest.raises(InvalidSchema):
        check_file_name(name)


@pytest.mark.slow
def test_a_compilation_has_a_time_and_the_next_one_a_worker() -> None:
    files = {"a.proto": proto(m("int32 a = 1;"))}
    assert compile_proto(files, "a.proto")
    assert protoc._worker.pid is not None
    os.kill(protoc._worker.pid, signal.SIGSTOP)  # as slow as a compiler can be
    with pytest.raises(InvalidSchema, match="in time"):
        compile_proto(files, "a.proto", timeout_ms=50)
    assert compile_proto(files, "a.proto")


RICH = proto(
    """package a.b; import "google/protobuf/timestamp.proto"; import "confluent/meta.proto";
    import "confluent/type/decimal.proto"; option java_package = "x.y";
    message M { option (confluent.message_meta).doc = "what it is";
      int32 a = 1 [deprecated = true]; oneof x { string b = 2; bytes c = 3; } map<string, M> m = 4;
      optional int64 o = 5; google.protobuf.Timestamp t = 6; confluent.type.Decimal d = 9;
      message N { repeated float f = 1; reserved 3, 5 to 8, 100 to max; reserved "zz"; }
      enum E { option allow_alias = true; A = 0; B = 0; reserved 7, 9 to max; } N n = 7; E e = 8; }
    service S { rpc X (M) returns (stream M); }"""
)
OLD_STYLE = proto(
    """message M { required int32 a = 1 [default = 5]; optional string s = 2 [default = "a\\"b\\n"];
    optional bytes y = 7 [default = "\\001x"]; repeated group G = 3 { optional M m = 1; }
    extensions 100 to 200; }
    extend M { optional int32 more = 100; } enum E { Z = -1; Y = 4; }""",
    "proto2",
)
EDITION = 'edition = "2023"; option features.field_presence = IMPLICIT; message M { string a = 1; }'


@pytest.mark.slow
@pytest.mark.parametrize("text", [RICH, OLD_STYLE, EDITION])
def test_every_form_of_a_schema_says_the_same(text: str) -> None:
    given = parse(SchemaType.PROTOBUF, text, {})
    normal = parse(SchemaType.PROTOBUF, given.normalized, {})
    assert normal.normalized == given.normalized
    assert incompatibilities(Level.FULL, normal, [given]) == []
    again = parse(SchemaType.PROTOBUF, serialized(given), {})
    assert again.normalized == given.normalized
    assert again.fingerprint == given.fingerprint


def test_layout_and_comments_do_not_count() -> None:
    first = parse(SchemaType.PROTOBUF, proto(m("int32 a = 1;")), {})
    loose = proto(m("  int32   a=1 ; // more\n"))
    second = parse(SchemaType.PROTOBUF, f"// words\n{loose}\n\n", {})
    assert first.fingerprint == second.fingerprint
    assert first.text != second.text


# Whatever is allowed reads: the bytes parse, and fields that kept their type keep their values.

KINDS = ("int32", "sint64", "fixed32", "double", "string", "bool", "E", "N")
_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "int32": st.integers(-(2**31), 2**31 - 1),
    "sint64": st.integers(-(2**63), 2**63 - 1),
    "fixed32": st.integers(0, 2**32 - 1),
    "double": st.floats(allow_nan=False),
    "string": st.text(max_size=5),
    "bool": st.booleans(),
    "E": st.integers(0, 1),
}
COMMON = " message N { int32 x = 1; } enum E { Z = 0; A = 1; }"
FIELDS = st.dictionaries(
    st.integers(1, 5), st.tuples(st.sampled_from(KINDS), st.booleans(), st.booleans()), max_size=4
)


def written(fields: dict[int, tuple[str, bool, bool]]) -> str:
    """number -> (type, repeated, inside the oneof)"""
    alone = [f"{'repeated ' * r}{k} f{n} = {n};" for n, (k, r, o) in fields.items() if r or not o]
    inside = [f"{k} f{n} = {n};" for n, (k, r, o) in fields.items() if o and not r]
    return m(" ".join(alone) + (f" oneof o {{ {' '.join(inside)} }}" if inside else "")) + COMMON


def message_class(made: ProtobufSchema) -> Any:
    pool = descriptor_pool.DescriptorPool()
    pool.Add(descriptor_pb2.FileDescriptorProto.FromString(made.file.SerializeToString()))
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("M"))


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(FIELDS, FIELDS, st.data())
def test_what_is_allowed_reads_old_bytes(
    old: dict[int, tuple[str, bool, bool]], edits: dict[int, tuple[str, bool, bool]], data: st.DataObject
) -> None:
    keep = data.draw(st.booleans())
    new = {**old, **{number: each for number, each in edits.items() if not keep or number not in old}}
    before, after = schema(written(old)), schema(written(new))
    assume(not any(each.breaking for each in changes(before, after)))
    value = message_class(before)()
    for number, (kind, repeated, _) in old.items():
        count = data.draw(st.integers(0, 2 if repeated else 1))
        for _ in range(count):
            if kind == "N":
                target = getattr(value, f"f{number}")
                (target.add() if repeated else target).x = 7
            elif repeated:
                getattr(value, f"f{number}").append(data.draw(_VALUES[kind]))
            else:
                setattr(value, f"f{number}", data.draw(_VALUES[kind]))
    read = message_class(after).FromString(value.SerializeToString())
    for number, (kind, repeated, _) in old.items():
        if number in new and new[number][:2] == (kind, repeated):
            first, second = getattr(value, f"f{number}"), getattr(read, f"f{number}")
            assert str(first) == str(second)
