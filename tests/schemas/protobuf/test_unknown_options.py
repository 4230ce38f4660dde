"""Custom options that nothing declares are kept."""

import pytest

from moldau.schemas.limits import InvalidSchema
from moldau.schemas.protobuf.schema import normal_text, parse_protobuf
from moldau.schemas.protobuf.unknown_options import unknown_names, with_unknown

TEXT = """syntax = "proto3";
package shop; // "(a)" { in a comment
/* option (comment) = 1; */
option (shop.owner) = "ann; [}";
message Order {
  option (audit).level = HIGH;
  int64 id = 1 [deprecated = true, (shop.tag) = { name: "a" values: [1, 2] }, json_name = "x"];
  oneof kind {
    option (only) = true;
    string a = 2 [(shop.tag) = { name: "b" }];
  }
  enum Size { option (sized) = 1.5; SMALL = 0 [(label) = 'it\\'s', (label) = "two"]; }
}
service Orders {
  option (host) = "h";
  rpc Get (Order) returns (Order) { option (http) = { get: "/v1/{id}" }; }
}
"""


def test_names_in_what_protoc_says():
    said = 'a.proto:3:8: Option "(foo.bar)" unknown. Ensure…\na.proto:4:1: Option "(x).y" unknown.\n'
    assert unknown_names(said) == {"(foo.bar)", "(x)"}
    assert unknown_names('default.proto:1:1: Option "deprecate" unknown.') == set()


def test_a_text_without_them_stays_as_it_is():
    assert with_unknown(TEXT, {"(other)", "(comment)"}) == TEXT


@pytest.mark.slow
def test_they_are_kept_in_the_text_and_in_the_normal_form():
    schema = parse_protobuf(TEXT, {})
    assert schema.text == TEXT.strip()
    normal = schema.normalized
    for option in (
        'option (shop.owner) = "ann; [}";',
        "option (audit).level = HIGH;",
        '(shop.tag) = { name: "a" values: [1, 2] }',
        "option (only) = true;",
        "option (sized) = 1.5;",
        "(label) = 'it\\'s', (label) = \"two\"",
        'option (host) = "h";',
        'option (http) = { get: "/v1/{id}" };',
        "deprecated = true",
    ):
        assert option in normal
    assert "moldau" not in normal
    assert parse_protobuf(normal, {}).normalized == normal
    assert not list(schema.file.dependency)


def test_another_option_is_another_schema():
    other = parse_protobuf(TEXT.replace("HIGH", "LOW"), {})
    assert other.file != parse_protobuf(TEXT, {}).file
    assert other.normalized != parse_protobuf(TEXT, {}).normalized


def test_options_that_are_declared_beside_those_that_are_not():
    declared = (
        'syntax = "proto3";\nimport "confluent/meta.proto";\n'
        'message M { int32 a = 1 [(confluent.field_meta) = { doc: "d" }, (other) = 1]; }\n'
    )
    normal = parse_protobuf(declared, {}).normalized
    assert "(confluent.field_meta)" in normal
    assert "(other) = 1" in normal


def test_in_what_a_schema_imports():
    imported = parse_protobuf('syntax = "proto3";\nmessage A { int32 a = 1 [(odd) = 1]; }\n', {})
    schema = parse_protobuf(
        'syntax = "proto3";\nimport "a.proto";\nmessage B { A a = 1; }\n', {"a.proto": imported}
    )
    assert "A" in schema.types


def test_what_is_wrong_otherwise_is_still_refused():
    with pytest.raises(InvalidSchema, match="Nope"):
        parse_protobuf('syntax = "proto3";\nmessage M { Nope a = 1 [(odd) = 1]; }\n', {})


@pytest.mark.parametrize(
    "text", ["option", "option (a", "message M { int32 a = 1 [", "/* option (a) = 1;", '"']
)
def test_halves_of_files_do_no_harm(text):
    assert with_unknown(text, {"(b)"}) == text


def test_the_normal_form_of_a_bare_descriptor():
    schema = parse_protobuf(TEXT, {})
    assert "moldau" not in normal_text(schema.file, [schema.file])
