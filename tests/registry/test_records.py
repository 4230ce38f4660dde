"""Records of ``_schemas``: Confluent's bytes in and out, and nothing that stops a reader."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.registry.records import (
    ClearSubjectKey,
    ConfigKey,
    ContextKey,
    DeleteSubjectKey,
    Entry,
    FieldsValue,
    ModeKey,
    NoopKey,
    Reference,
    SchemaKey,
    SchemaValue,
    UnknownKey,
    read,
    read_references,
    write,
)

#: Keys as Confluent's registry writes them, byte for byte.
KEYS = [
    (SchemaKey("orders-value", 3), b'{"keytype":"SCHEMA","subject":"orders-value","version":3,"magic":1}'),
    (ConfigKey(None), b'{"keytype":"CONFIG","subject":null,"magic":0}'),
    (ConfigKey("orders-value"), b'{"keytype":"CONFIG","subject":"orders-value","magic":0}'),
    (ModeKey(None), b'{"keytype":"MODE","subject":null,"magic":0}'),
    (DeleteSubjectKey("s"), b'{"keytype":"DELETE_SUBJECT","subject":"s","magic":0}'),
    (ClearSubjectKey("s"), b'{"keytype":"CLEAR_SUBJECT","subject":"s","magic":0}'),
    (ContextKey(".c"), b'{"keytype":"CONTEXT","tenant":"default","context":".c","magic":0}'),
    (NoopKey(), b'{"keytype":"NOOP","magic":0}'),
]


@pytest.mark.parametrize(("key", "data"), KEYS)
def test_keys_have_confluents_bytes(key, data):
    assert write(Entry(key)) == (data, None)
    assert read(data, None) == Entry(key)


def test_a_key_is_read_whatever_the_order_of_its_fields():
    data = b'{"subject":"s","version":1,"magic":1,"keytype":"SCHEMA"}'  # as Karapace writes it
    assert read(data, None).key == SchemaKey("s", 1)


def test_an_avro_schema_as_confluent_writes_it():
    key = b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}'
    value = b'{"subject":"s","version":1,"id":7,"schema":"\\"string\\"","deleted":false}'
    entry = read(key, value)
    assert entry.value == SchemaValue("s", 1, 7, '"string"')
    assert write(entry) == (key, value)


def test_all_fields_of_a_schema_go_in_and_out():
    value = SchemaValue(
        "s",
        2,
        9,
        "{}",
        "JSON",
        (Reference("a.json", "a", 1),),
        {"properties": {"owner": "ann"}},
        {"domainRules": []},
        True,
        "0c7f",
        1_700_000_000_000,
        {"later": [1]},
    )
    key, data = write(Entry(SchemaKey("s", 2), value))
    assert read(key, data).value == value
    assert list(json.loads(data))[:9] == [
        "subject",
        "version",
        "id",
        "guid",
        "schemaType",
        "references",
        "metadata",
        "ruleSet",
        "schema",
    ]


def test_the_time_of_a_record_stands_in_where_the_value_has_none():
    key, data = write(Entry(SchemaKey("s", 1), SchemaValue("s", 1, 1, "x")))
    assert read(key, data, 42).value.timestamp_ms == 42


def test_other_values_are_their_fields():
    entry = Entry(ConfigKey("s"), FieldsValue({"subject": "s", "compatibilityLevel": "FULL"}))
    assert read(*write(entry)) == entry


SCHEMA_KEY = b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}'


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"{}"),
        (b"", b"{}"),
        (b"\xff\xfe garbage", b"x"),
        (b"[]", b"{}"),
        (b"{}", b"{}"),
        (b'{"keytype":"FROM_THE_FUTURE","magic":9}', b'{"x":1}'),
        (b'{"keytype":"SCHEMA","subject":7,"version":1}', b"{}"),
        (b'{"keytype":"SCHEMA","subject":"s","version":"1"}', b"{}"),
        (b'{"keytype":"SCHEMA","subject":"s","version":true}', b"{}"),
        (SCHEMA_KEY, b"not json"),
        (SCHEMA_KEY, b"[1]"),
        (SCHEMA_KEY, b'{"id":"seven","schema":"x"}'),
        (SCHEMA_KEY, b'{"id":99999999999,"schema":"x"}'),
        (SCHEMA_KEY, b'{"id":1}'),
        (SCHEMA_KEY, b'{"id":1,"schema":"x","references":[5]}'),
        (SCHEMA_KEY, b"[" * 100_000),
    ],
)
def test_what_is_no_record_is_kept_with_its_reason(key, value):
    entry = read(key, value)
    assert isinstance(entry.key, UnknownKey)
    assert entry.key.data == key
    assert entry.key.reason


@given(st.none() | st.binary(max_size=200), st.none() | st.binary(max_size=200))
def test_no_bytes_stop_the_reader(key, value):
    read(key, value)


@pytest.mark.slow
@given(st.text(max_size=20), st.integers(1, 2**31 - 1), st.integers(0, 2**31 - 1), st.text(max_size=50))
def test_what_was_written_is_read(subject, version, number, schema):
    entry = Entry(SchemaKey(subject, version), SchemaValue(subject, version, number, schema))
    assert read(*write(entry)) == entry


def test_references_of_a_request_are_checked():
    found = read_references([{"name": "n", "subject": "s", "version": -1}])
    assert found == (Reference("n", "s", -1),)
    with pytest.raises(ValueError, match="list"):
        read_references({"name": "n"})
