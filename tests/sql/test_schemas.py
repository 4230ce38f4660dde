"""Schemas of results: Avro's own parser takes them, and rows go there and back through a real registry."""

from datetime import UTC, datetime
from decimal import Decimal

import fastavro
import pytest

from moldau.sql.dialect import parse_type
from moldau.sql.errors import SqlError
from moldau.sql.formats import value_serde
from moldau.sql.schemas import avro_schema, json_schema, protobuf_schema
from moldau.sql.statements import ColumnDefinition
from moldau.sql.types import type_of

TYPES = {
    "A": "INT",
    "B": "STRING",
    "C": "DECIMAL(5, 2)",
    "D": "ARRAY<DOUBLE>",
    "E": "MAP<STRING, BIGINT>",
    "F": "STRUCT<X INT, Y STRUCT<Z STRING>>",
    "G": "TIMESTAMP",
    "H": "BOOLEAN",
}
COLUMNS = [ColumnDefinition(name, type_of(parse_type(kind))) for name, kind in TYPES.items()]
ROW = {
    "A": 1,
    "B": "x",
    "C": Decimal("1.50"),
    "D": [0.5, None],
    "E": {"k": 7},
    "F": {"X": 1, "Y": {"Z": "deep"}},
    "G": datetime(2026, 1, 2, tzinfo=UTC),
    "H": None,
}


def test_avro_takes_the_schema() -> None:
    parsed = fastavro.parse_schema(avro_schema(COLUMNS, "my-table"))
    assert parsed["name"] == "moldau.sql.my_tableValue"


def test_json_schema_names_all_columns() -> None:
    assert list(json_schema(COLUMNS, "t")["properties"]) == list(TYPES)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["AVRO", "JSON_SR"])
def test_there_and_back_through_a_registry(form: str, registry_url: str) -> None:
    serde = value_serde(form, COLUMNS, registry_url, "T")
    data = serde.serialize(form, ROW)
    assert data[:1] == b"\0"
    assert serde.deserialize(form, data) == ROW
    assert serde.serialize(form, None) is None


PROTOBUF_TYPES = {
    "A": "INT",
    "B": "STRING",
    "C": "BIGINT",
    "D": "ARRAY<DOUBLE>",
    "E": "MAP<STRING, BIGINT>",
    "F": "STRUCT<X INT, Y STRUCT<Z STRING>>",
    "G": "BYTES",
    "H": "BOOLEAN",
    "I": "ARRAY<STRUCT<X INT>>",
}
PROTOBUF_ROW = {
    "A": 0,
    "B": None,
    "C": 1 << 60,
    "D": [0.5],
    "E": {"k": 7},
    "F": {"X": 1, "Y": {"Z": "deep"}},
    "G": b"\0x",
    "H": False,
    "I": [{"X": 1}, {"X": None}],
}


def test_protobuf_through_a_registry(registry_url: str) -> None:
    columns = [ColumnDefinition(name, type_of(parse_type(kind))) for name, kind in PROTOBUF_TYPES.items()]
    serde = value_serde("PROTOBUF", columns, registry_url, "my-table")
    data = serde.serialize("protobuf", PROTOBUF_ROW)
    assert data[:1] == b"\0"
    assert serde.deserialize("protobuf", data) == PROTOBUF_ROW
    assert serde.serialize("protobuf", None) is None
    assert serde.deserialize("protobuf", None) is None


def test_what_protobuf_does_not_have() -> None:
    with pytest.raises(SqlError, match="PROTOBUF has no TIMESTAMP here"):
        protobuf_schema([ColumnDefinition("T", type_of(parse_type("TIMESTAMP")))], "t")
