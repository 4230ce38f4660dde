"""Descriptors printed as .proto files."""

from typing import Any

import pytest
from google.protobuf import text_format
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from moldau.schemas.protobuf.text import proto_text
from moldau.schemas.protoc import compile_proto


def printed(text: str) -> list[str]:
    """The lines of a file without those that are empty."""
    made: Any = text_format.Parse(text, FileDescriptorProto())
    return [line for line in proto_text(made).splitlines() if line]


def message(body: str, syntax: str = "proto3") -> list[str]:
    """The lines of the body of a message ``M``."""
    lines = printed(f'syntax: "{syntax}" message_type {{ name: "M" {body} }}')
    assert (lines[1], lines[-1]) == ("message M {", "}")
    return [line.removeprefix("  ") for line in lines[2:-1]]


def field(others: str, label: str = "LABEL_OPTIONAL") -> str:
    return f'field {{ name: "a" number: 1 label: {label} {others} }}'


def test_the_head_of_a_file() -> None:
    assert printed("""
        package: "a.b" syntax: "proto3"
        dependency: "x.proto" dependency: "y.proto" dependency: "z.proto"
        public_dependency: 1 weak_dependency: 2
        options { java_package: "a\\"b" java_multiple_files: true optimize_for: SPEED }
    """) == [
        'syntax = "proto3";',
        "package a.b;",
        'import "x.proto";',
        'import public "y.proto";',
        'import weak "z.proto";',
        'option java_package = "a\\042b";',
        "option optimize_for = SPEED;",
        "option java_multiple_files = true;",
    ]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 'syntax = "proto2";'),
        ('syntax: "proto3"', 'syntax = "proto3";'),
        ('syntax: "editions" edition: EDITION_2023', 'edition = "2023";'),
    ],
)
def test_the_syntax(text: str, line: str) -> None:
    assert printed(text) == [line]


@pytest.mark.parametrize(
    ("syntax", "body", "line"),
    [
        ("proto3", field("type: TYPE_INT32"), "int32 a = 1;"),
        ("proto3", field("type: TYPE_INT32 proto3_optional: true"), "optional int32 a = 1;"),
        ("proto3", field("type: TYPE_INT32", "LABEL_REPEATED"), "repeated int32 a = 1;"),
        ("proto2", field("type: TYPE_INT32"), "optional int32 a = 1;"),
        ("proto2", field("type: TYPE_INT32", "LABEL_REQUIRED"), "required int32 a = 1;"),
        ("proto3", field('type: TYPE_MESSAGE type_name: ".p.N"'), ".p.N a = 1;"),
        ("proto3", field('type: TYPE_ENUM type_name: ".p.E"'), ".p.E a = 1;"),
        ("proto2", field('type: TYPE_INT32 default_value: "-7"'), "optional int32 a = 1 [default = -7];"),
        (
            "proto2",
            field('type: TYPE_STRING default_value: "é\\n"'),
            'optional string a = 1 [default = "\\303\\251\\012"];',
        ),
        (
            "proto2",
            field('type: TYPE_BYTES default_value: "\\\\377"'),
            'optional bytes a = 1 [default = "\\377"];',
        ),
        (
            "proto3",
            field("type: TYPE_INT32 options { packed: false deprecated: true }", "LABEL_REPEATED"),
            "repeated int32 a = 1 [packed = false, deprecated = true];",
        ),
        ("proto3", 'reserved_range { start: 2 end: 3 } reserved_name: "b"', "reserved 2;"),
        ("proto3", "reserved_range { start: 2 end: 9 }", "reserved 2 to 8;"),
        ("proto3", "reserved_range { start: 2 end: 536870912 }", "reserved 2 to max;"),
        ("proto2", "extension_range { start: 100 end: 200 }", "extensions 100 to 199;"),
        ("proto3", "options { deprecated: true }", "option deprecated = true;"),
    ],
)
def test_a_line_of_a_message(syntax: str, body: str, line: str) -> None:
    assert message(body, syntax)[0] == line


def test_a_map_is_no_message_of_its_own() -> None:
    entry = """nested_type { name: "AEntry" options { map_entry: true }
        field { name: "key" number: 1 type: TYPE_STRING }
        field { name: "value" number: 2 type: TYPE_MESSAGE type_name: ".M" } }"""
    used = field('type: TYPE_MESSAGE type_name: ".M.AEntry"', "LABEL_REPEATED")
    assert message(used + entry) == ["map<string, .M> a = 1;"]


def test_a_oneof_is_where_its_first_field_is() -> None:
    body = """
        field { name: "a" number: 1 label: LABEL_OPTIONAL type: TYPE_INT32 oneof_index: 0 }
        field { name: "b" number: 2 label: LABEL_OPTIONAL type: TYPE_BOOL }
        field { name: "c" number: 3 label: LABEL_OPTIONAL type: TYPE_STRING oneof_index: 0 }
        oneof_decl { name: "either" }
    """
    assert message(body) == ["oneof either {", "  int32 a = 1;", "  string c = 3;", "}", "bool b = 2;"]
    assert message(body, "proto2")[1] == "  int32 a = 1;", "a field of a oneof has no label"


def test_a_group_has_its_message_inside() -> None:
    nested = 'nested_type { name: "G" field { name: "b" number: 2 label: LABEL_OPTIONAL type: TYPE_INT32 } }'
    group = field('type: TYPE_GROUP type_name: ".M.G"')
    assert message(group + nested, "proto2") == [
        "optional group G = 1 {",
        "  optional int32 b = 2;",
        "}",
    ]


def test_an_enum_whose_ranges_end_with_their_last_number() -> None:
    assert printed("""
        enum_type { name: "E" options { allow_alias: true }
            value { name: "A" number: 0 } value { name: "B" number: 0 options { deprecated: true } }
            reserved_range { start: 2 end: 2 } reserved_range { start: 5 end: 2147483647 }
            reserved_name: "C" }
    """)[1:] == [
        "enum E {",
        "  option allow_alias = true;",
        "  A = 0;",
        "  B = 0 [deprecated = true];",
        "  reserved 2;",
        "  reserved 5 to max;",
        '  reserved "C";',
        "}",
    ]


def test_services_and_extensions() -> None:
    assert printed("""
        extension { name: "x" number: 100 label: LABEL_OPTIONAL type: TYPE_INT32 extendee: ".M" }
        service { name: "S"
            method { name: "A" input_type: ".M" output_type: ".N" server_streaming: true }
            method { name: "B" input_type: ".M" output_type: ".N" client_streaming: true
                options { deprecated: true } } }
    """)[1:] == [
        "extend .M {",
        "  optional int32 x = 100;",
        "}",
        "service S {",
        "  rpc A (.M) returns (stream .N);",
        "  rpc B (stream .M) returns (.N) {",
        "    option deprecated = true;",
        "  }",
        "}",
    ]


def test_protoc_reads_back_the_same_descriptor() -> None:
    text = """
        syntax = "proto3"; package p; import "google/protobuf/timestamp.proto";
        enum E { A = 0; reserved 3 to 5, 9; reserved "C"; }
        message M {
          optional int32 a = 1; repeated M b = 2; map<string, E> c = 3; reserved 100 to max;
          oneof d { string e = 4; google.protobuf.Timestamp f = 5 [deprecated = true]; }
          message N { bytes g = 1; }
          N h = 6;
        }
        service S { rpc A (M) returns (stream M.N); }
    """

    def compiled(source: str) -> Any:
        found = compile_proto({"a.proto": source}, "a.proto")
        return FileDescriptorSet.FromString(found).file[-1]

    once = compiled(text)
    assert compiled(proto_text(once)) == once


def test_a_name_in_json_is_printed_where_it_is_not_the_usual_one() -> None:
    source = """
        syntax = "proto3";
        message M {
          string user_name = 1;
          string a_b = 2 [json_name = "x"];
          string c_d = 3 [json_name = "cD"];
        }
    """
    (made,) = FileDescriptorSet.FromString(compile_proto({"a.proto": source}, "a.proto")).file
    text = proto_text(made)
    assert 'string a_b = 2 [json_name = "x"];' in text
    assert text.count("json_name") == 1
    (again,) = FileDescriptorSet.FromString(compile_proto({"a.proto": text}, "a.proto")).file
    assert again == made
