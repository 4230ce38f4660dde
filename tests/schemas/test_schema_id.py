"""The frame before the payload, in headers, and with Protobuf's indexes, beside confluent-kafka's."""

import io
import uuid

import pytest
from confluent_kafka.schema_registry.serde import SchemaId
from hypothesis import given
from hypothesis import strategies as st

from moldau.schemas.schema_id import (
    InvalidFrame,
    SchemaRef,
    guid_prefix,
    header_of,
    id_prefix,
    read_indexes,
    read_prefix,
    schema_header,
    write_indexes,
)

GUID = "89791762-2336-4186-9674-299b90a802e2"


def test_ids_and_guids():
    assert id_prefix(1) == b"\x00\x00\x00\x00\x01"
    assert guid_prefix(GUID) == b"\x01" + uuid.UUID(GUID).bytes
    assert read_prefix(id_prefix(4711) + b"x") == (SchemaRef(schema_id=4711), 5)
    assert read_prefix(guid_prefix(GUID) + b"x") == (SchemaRef(guid=GUID), 17)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is empty"),
        (b"{}", "begins with the byte 123"),
        (b"\x00\x00\x00\x01", "ends within the id of its schema: it has 4 bytes"),
        (b"\x01abc", "ends within the id"),
    ],
)
def test_what_has_no_frame(data, said):
    with pytest.raises(InvalidFrame) as caught:
        read_prefix(data)
    assert said in str(caught.value)


@pytest.mark.slow
@given(st.lists(st.integers(0, 1000), min_size=1, max_size=5))
def test_indexes_are_confluents(indexes):
    data = write_indexes(indexes)
    assert read_indexes(b"xx" + data + b"yy", 2) == (tuple(indexes), 2 + len(data))
    assert SchemaId("PROTOBUF", 7, message_indexes=indexes).id_to_bytes() == id_prefix(7) + data
    theirs = SchemaId("PROTOBUF")
    theirs.from_bytes(io.BytesIO(id_prefix(7) + data))
    assert (theirs.id, theirs.message_indexes) == (7, indexes)


@pytest.mark.parametrize("data", [b"", b"\x02", b"\x80\x80", b"\xff" * 9, b"\x01", b"\xfe\xff\xff\x0f"])
def test_indexes_that_make_no_sense(data):
    with pytest.raises(InvalidFrame):
        read_indexes(data, 0)


def test_the_last_header_that_says_something_counts():
    headers = [("__key_schema_id", b"a"), ("__key_schema_id", b"b"), ("__key_schema_id", None)]
    assert header_of(headers, schema_header(True)) == b"b"
    assert header_of(headers, schema_header(False)) is None
