"""Texts of PostgreSQL as values of Debezium's types."""

from decimal import Decimal

import pytest

from moldau.connect.connectors.cdc.postgresql_types import TypeInfo, TypeRules
from moldau.connect.data.schema import Struct
from moldau.connect.errors import DataException

CASES = [
    (16, -1, "t", True, None),
    (21, -1, "-7", -7, None),
    (20, -1, "9223372036854775807", 2**63 - 1, None),
    (701, -1, "0.1", 0.1, None),
    (17, -1, "\\x00ff", b"\x00\xff", None),
    (1700, (10 << 16 | 2) + 4, "12.3", Decimal("12.30"), "org.apache.kafka.connect.data.Decimal"),
    (1082, -1, "2024-02-29", 19782, "io.debezium.time.Date"),
    (1083, -1, "23:59:59.5", 86_399_500_000, "io.debezium.time.MicroTime"),
    (1083, -1, "24:00:00", 86_400_000_000, "io.debezium.time.MicroTime"),
    (1114, -1, "1969-12-31 23:59:59.999999", -1, "io.debezium.time.MicroTimestamp"),
    (1114, -1, "infinity", 9_223_372_036_825_200_000, "io.debezium.time.MicroTimestamp"),
    (1184, -1, "2024-01-01 10:00:00.12+02", "2024-01-01T08:00:00.12Z", "io.debezium.time.ZonedTimestamp"),
    (1266, -1, "10:00:00+02", "08:00:00Z", "io.debezium.time.ZonedTime"),
    (1186, -1, "1 day -01:00:00.5", 82_799_500_000, "io.debezium.time.MicroDuration"),
    (1186, -1, "1 year 2 mons", 36_817_200_000_000, "io.debezium.time.MicroDuration"),
    (3802, -1, '{"a": 1}', '{"a": 1}', "io.debezium.data.Json"),
    (2950, -1, "x", "x", "io.debezium.data.Uuid"),
    (1043, -1, "ä", "ä", None),
]


@pytest.mark.parametrize(("oid", "modifier", "text", "value", "name"), CASES)
def test_types(oid: int, modifier: int, text: str, value: object, name: str | None) -> None:
    schema, read = TypeRules().column(oid, modifier, True)
    assert read(text) == value
    assert schema.name == name


def test_decimals_in_three_ways() -> None:
    schema, read = TypeRules().column(1700, -1, False)
    found = read("123.4500")
    assert isinstance(found, Struct)
    assert (found.get("scale"), found.get("value")) == (4, (1234500).to_bytes(3, "big"))
    assert schema.name == "io.debezium.data.VariableScaleDecimal"
    with pytest.raises(DataException, match="NaN is no decimal"):
        read("NaN")
    assert TypeRules("double").column(1700, -1, False)[1]("1.5") == 1.5
    assert TypeRules("string").column(1700, -1, False)[1]("NaN") == "NaN"


def test_types_of_ones_own() -> None:
    known = {1: TypeInfo("e", labels=("a", "b")), 2: TypeInfo("d", base=23), 3: TypeInfo(element=25)}
    rules = TypeRules(known=known)
    schema, read = rules.column(1, -1, False)
    assert (schema.parameters, read("b")) == ({"allowed": "a,b"}, "b")
    assert rules.column(2, -1, False)[1]("5") == 5
    read_array = rules.column(3, -1, False)[1]
    assert read_array('{a,NULL,"b \\"c\\",{}","NULL"}') == ["a", None, 'b "c",{}', "NULL"]
    assert read_array("{}") == []
    assert read_array("[0:1]={1,2}") == ["1", "2"]
