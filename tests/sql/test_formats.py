"""Formats of keys and values: bytes and rows."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.serde.errors import SerdeError
from moldau.sql.dialect import parse_type
from moldau.sql.errors import SqlError
from moldau.sql.formats import StateSerde, check_format, key_serde, value_serde
from moldau.sql.statements import ColumnDefinition
from moldau.sql.types import type_of


def columns(**types: str) -> list[ColumnDefinition]:
    return [ColumnDefinition(name, type_of(parse_type(kind))) for name, kind in types.items()]


ROW = columns(A="INT", B="STRING", C="DECIMAL(5, 2)", D="ARRAY<DOUBLE>", T="TIMESTAMP")


@pytest.mark.parametrize(
    ("form", "data"),
    [
        ("JSON", b'{"A":1,"B":"x,y","C":1.5,"D":[0.5],"T":1000}'),
        ("JSON", b'{"a":1,"b":"x,y","c":"1.50","d":[0.5],"t":"1970-01-01T00:00:01","more":1}'),
    ],
)
def test_json(form: str, data: bytes) -> None:
    row = {
        "A": 1,
        "B": "x,y",
        "C": Decimal("1.50"),
        "D": [0.5],
        "T": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
    }
    serde = value_serde(form, ROW)
    assert serde.deserialize("t", data) == row
    assert serde.deserialize("t", serde.serialize("t", row)) == row


@pytest.mark.parametrize(
    ("kind", "value", "data"),
    [
        ("DOUBLE", float("inf"), b'{"A":"Infinity"}'),
        ("DOUBLE", float("-inf"), b'{"A":"-Infinity"}'),
        ("DECIMAL(38, 2)", Decimal("123456789012345678901234567890123456.78"), None),
        ("DECIMAL(38, 2)", Decimal("0.10"), b'{"A":0.1}'),
    ],
)
def test_numbers_that_json_lacks(kind: str, value: Any, data: bytes | None) -> None:
    serde = value_serde("JSON", columns(A=kind))
    written = serde.serialize("t", {"A": value})
    assert data in (None, written)
    json.loads(written, parse_constant=pytest.fail)
    assert serde.deserialize("t", written) == {"A": value}


def test_other_formats() -> None:
    two = columns(A="INT", B="STRING")
    delimited = value_serde("DELIMITED", two)
    assert delimited.serialize("t", {"A": 1, "B": 'x,"y'}) == b'1,"x,""y"'
    assert delimited.deserialize("t", b'1,"x,""y"') == {"A": 1, "B": 'x,"y'}
    assert delimited.deserialize("t", b",x") == {"A": None, "B": "x"}
    kafka = value_serde("KAFKA", columns(A="BIGINT"))
    assert kafka.serialize("t", {"A": 5}) == (5).to_bytes(8, "big")
    assert kafka.deserialize("t", (5).to_bytes(8, "big")) == {"A": 5}
    assert value_serde("NONE", []).deserialize("t", b"whatever") == {}


@pytest.mark.parametrize(
    ("form", "kinds", "key", "data"),
    [
        ("KAFKA", {"K": "STRING"}, "x", b"x"),
        ("KAFKA", {"K": "INT"}, 7, b"\0\0\0\7"),
        ("JSON", {"K": "STRING"}, "x", b'"x"'),
        ("JSON", {"K": "INT", "L": "STRING"}, (7, "x"), b'{"K":7,"L":"x"}'),
        ("DELIMITED", {"K": "INT", "L": "STRING"}, (7, "x"), b"7,x"),
        ("DELIMITED", {"K": "INT"}, 7, b"7"),
    ],
)
def test_keys(form: str, kinds: dict[str, str], key: Any, data: bytes) -> None:
    serde = key_serde(form, columns(**kinds))
    assert serde.serialize("t", key) == data
    assert serde.deserialize("t", data) == key


@pytest.mark.parametrize("data", [b"{", b"[1]", b'{"A":"x"}', b"\xff"])
def test_what_cannot_be_read_is_said(data: bytes) -> None:
    with pytest.raises(SerdeError):
        value_serde("JSON", ROW).deserialize("t", data)


def test_what_a_format_cannot_hold() -> None:
    with pytest.raises(SqlError, match="one column"):
        value_serde("KAFKA", ROW)
    with pytest.raises(SqlError, match="has no DECIMAL"):
        key_serde("KAFKA", columns(K="DECIMAL(4, 2)"))
    with pytest.raises(SqlError, match="KEY_FORMAT"):
        key_serde("KAFKA", columns(K="INT", L="INT"))
    with pytest.raises(SqlError, match="schema registry"):
        value_serde("AVRO", ROW)
    with pytest.raises(SqlError, match="not a format"):
        check_format("XML")


STATES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.binary() | st.decimals(allow_nan=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=10,
)


@pytest.mark.slow
@given(STATES)
def test_states_are_what_they_were(state: Any) -> None:
    serde = StateSerde()
    assert serde.deserialize("", serde.serialize("", state)) == state
