"""A logical type is one row of one table: serializers, columns and generated classes follow from it."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from moldau.cli.codegen.avro import write_avro
from moldau.cli.codegen.classes import Module
from moldau.schemas.avro import logical
from moldau.schemas.avro.logical import LOGICAL_TYPES, LogicalType, logical_type
from moldau.schemas.avro.parse import parse_avro
from moldau.serde.compiled_avro.decode import compile_decoder
from moldau.serde.compiled_avro.encode import compile_encoder
from moldau.spark.typed.avro.schema import parse, reader_shape

#: A row as someone would add it.
NEW = LogicalType("event-millis", ("long",), "timestamp", ("datetime", "datetime"), 1_000)
WHEN = datetime(2026, 1, 2, 3, 4, 5, 678000, UTC)
RECORD = json.dumps(
    {
        "type": "record",
        "name": "R",
        "fields": [{"name": "at", "type": {"type": "long", "logicalType": "event-millis"}, "default": 0}],
    }
)


def test_a_new_row_is_all_that_a_new_logical_type_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(logical.LOGICAL_TYPES, NEW.name, NEW)
    schema = parse_avro(RECORD)
    assert compile_decoder(schema)(compile_encoder(schema)(b"", {"at": WHEN}), 0) == {"at": WHEN}
    assert reader_shape(parse(RECORD)).type.field("at").type == pa.timestamp("us", tz="UTC")
    module = Module("R")
    write_avro(module, schema, False)
    assert "at: Annotated[datetime, AvroField({'type': 'long', 'logicalType': 'event-millis'})]" in (
        module.text()
    )


@pytest.mark.parametrize("row", LOGICAL_TYPES.values(), ids=lambda row: row.name)
def test_a_row_says_values_of_other_types_pass_as_they_are(row: LogicalType) -> None:
    write = row.writer({"precision": 4})
    assert write(5) == 5
    assert write(None) is None


@pytest.mark.parametrize(
    ("kind", "properties", "known"),
    [
        ("long", {"logicalType": "timestamp-millis"}, True),
        ("int", {"logicalType": "timestamp-millis"}, False),
        ("string", {"logicalType": "nothing"}, False),
        ("string", {"logicalType": 5}, False),
        ("bytes", {"logicalType": "decimal", "precision": 4, "scale": 2}, True),
        ("bytes", {"logicalType": "decimal", "precision": 4, "scale": 5}, False),
        ("bytes", {"logicalType": "decimal"}, False),
    ],
)
def test_what_is_unknown_or_not_valid_is_the_plain_type(
    kind: str, properties: dict[str, Any], known: bool
) -> None:
    assert (logical_type(kind, properties) is not None) is known


def test_decimals_of_a_fixed_fill_its_size_and_never_more() -> None:
    decimal = LOGICAL_TYPES["decimal"]
    write = decimal.writer({"precision": 9, "scale": 2}, 3)
    assert write(Decimal("-1.5")) == b"\xff\xff\x6a"
    assert decimal.reader({"precision": 9, "scale": 2}, 3)(b"\xff\xff\x6a") == Decimal("-1.50")
    with pytest.raises(OverflowError):
        write(Decimal("99999.99"))
    with pytest.raises(ValueError, match="precision"):
        write(Decimal("99999999.99"))
