"""Descriptors as text, in pools of their own, and their messages by name and by place."""

import base64
from typing import Any

import pytest
from google.protobuf import text_format
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from moldau.schemas.limits import InvalidSchema
from moldau.schemas.protobuf.descriptors import (
    descriptor_of,
    descriptor_text,
    file_in_pool,
    message_at,
    message_class,
    message_indexes,
    message_named,
    messages,
)


def file(text: str) -> Any:
    return text_format.Parse(f'syntax: "proto3" {text}', FileDescriptorProto())


SHOP = file("""
    name: "shop.proto" package: "shop"
    message_type {
        name: "Order"
        nested_type { name: "Line" nested_type { name: "Price" } }
        nested_type { name: "Note" }
    }
    message_type { name: "Note" }
""")
IN_ORDER = ["shop.Order", "shop.Order.Line", "shop.Order.Line.Price", "shop.Order.Note", "shop.Note"]
PLACES = [(0,), (0, 0), (0, 0, 0), (0, 1), (1,)]


def test_a_descriptor_as_text_and_back() -> None:
    text = descriptor_text(SHOP.SerializeToString())
    assert base64.b64decode(text) == SHOP.SerializeToString()
    assert descriptor_of(text) == SHOP


@pytest.mark.parametrize(
    "text", ['syntax = "proto3";', "not base64!", "abc", base64.b64encode(b"\xff\xff").decode(), "é"]
)
def test_a_text_that_is_no_descriptor(text: str) -> None:
    assert descriptor_of(text) is None


def test_messages_with_those_inside_them() -> None:
    assert [each.full_name for each in messages(file_in_pool([SHOP]))] == IN_ORDER


@pytest.mark.parametrize(("full_name", "place"), list(zip(IN_ORDER, PLACES, strict=True)))
def test_places_lead_to_messages_and_back(full_name: str, place: tuple[int, ...]) -> None:
    found = message_at(file_in_pool([SHOP]), place)
    assert found.full_name == full_name
    assert message_indexes(found) == place


@pytest.mark.parametrize("place", [(2,), (-1,), (0, 2), (0, -1), (0, 0, 0, 0), (1, 0), ()])
def test_places_where_no_message_is(place: tuple[int, ...]) -> None:
    assert message_at(file_in_pool([SHOP]), place) is None


@pytest.mark.parametrize(
    ("name", "full_name"),
    [
        (None, "shop.Order"),
        ("shop.Order.Line", "shop.Order.Line"),
        ("Order.Line", "shop.Order.Line"),
        ("Line", "shop.Order.Line"),
        ("Note", "shop.Note"),  # rather than Order.Note, which comes first
        ("Order.Note", "shop.Order.Note"),
    ],
)
def test_a_message_by_its_name(name: str | None, full_name: str) -> None:
    found = message_named(file_in_pool([SHOP]), name)
    assert found is not None
    assert found.full_name == full_name


@pytest.mark.parametrize("name", ["Missing", "shop", "op.Order", "Order.", ""])
def test_a_message_that_is_not_there(name: str) -> None:
    assert message_named(file_in_pool([SHOP]), name) is None


def test_a_file_without_messages() -> None:
    empty = file_in_pool([file('name: "empty.proto"')])
    assert messages(empty) == []
    assert message_named(empty, None) is None
    assert message_at(empty, (0,)) is None


def test_files_that_import_each_other_in_their_order() -> None:
    user = file("""
        name: "user.proto" dependency: "shop.proto"
        message_type { name: "User" field {
            name: "last" number: 1 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".shop.Order" } }
    """)
    found = file_in_pool([SHOP, user])
    assert found.name == "user.proto"
    assert messages(found)[0].fields_by_name["last"].message_type.full_name == "shop.Order"
    with pytest.raises(InvalidSchema, match=r"'user\.proto' cannot be used"):
        file_in_pool([user, SHOP])


def test_googles_own_files_come_along_with_what_they_import() -> None:
    found = file_in_pool(
        [
            file("""
                name: "a.proto"
                dependency: "google/protobuf/timestamp.proto" dependency: "google/protobuf/api.proto"
                message_type { name: "A" field {
                    name: "at" number: 1 label: LABEL_OPTIONAL type: TYPE_MESSAGE
                    type_name: ".google.protobuf.Timestamp" } }
            """)
        ]
    )
    assert messages(found)[0].fields_by_name["at"].message_type.full_name == "google.protobuf.Timestamp"


@pytest.mark.parametrize(
    "name", ["google/protobuf/../../os.proto", "os.proto", "google/protobuf/timestamp.proto\n"]
)
def test_nothing_else_is_loaded_for_an_import(name: str) -> None:
    made = file('name: "a.proto"')
    made.dependency.append(name)
    with pytest.raises(InvalidSchema, match=r"'a\.proto' cannot be used"):
        file_in_pool([made])


def test_a_file_of_googles_that_is_not_installed() -> None:
    with pytest.raises(InvalidSchema, match="pip install googleapis-common-protos"):
        file_in_pool([file('name: "a.proto" dependency: "google/type/no_such_thing.proto"')])


def test_two_schemas_with_the_same_names_do_not_meet() -> None:
    other = file('name: "shop.proto" package: "shop" message_type { name: "Other" }')
    assert messages(file_in_pool([SHOP]))[0].name == "Order"
    assert [each.name for each in messages(file_in_pool([other]))] == ["Other"]


def test_messages_can_be_made_of_a_descriptor() -> None:
    made = file("""
        name: "a.proto" message_type { name: "A" field {
            name: "count" number: 1 label: LABEL_OPTIONAL type: TYPE_INT32 } }
    """)
    message = message_class(messages(file_in_pool([made]))[0])
    assert message(count=300).SerializeToString() == b"\x08\xac\x02"
