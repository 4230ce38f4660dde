"""Values of MySQL's drivers as Debezium describes them."""

import datetime
from decimal import Decimal
from typing import Any

import pytest

from moldau.connect.connectors.cdc.mysql_tables import MySqlTable, from_catalogue, mysql_source
from moldau.connect.connectors.cdc.mysql_types import MySqlColumn, MySqlRules
from moldau.connect.errors import ConnectException, DataException


@pytest.mark.parametrize(
    ("column", "value", "name", "wanted"),
    [
        (MySqlColumn("c", "bigint", unsigned=True), 7, None, 7),
        (MySqlColumn("c", "decimal", size=5, scale=2), Decimal("1.5"), "Decimal", Decimal("1.50")),
        (MySqlColumn("c", "binary", size=4), b"ab", None, b"ab\0\0"),
        (MySqlColumn("c", "bit", size=1), "1", None, True),
        (MySqlColumn("c", "bit", size=10), "1000000001", "Bits", b"\x01\x02"),
        (MySqlColumn("c", "bit", size=10), b"\x02\x01", "Bits", b"\x01\x02"),
        (MySqlColumn("c", "set", labels=("x", "y", "z")), {"z", "x"}, "EnumSet", "x,z"),
        (MySqlColumn("c", "json"), {b"a": [1, b"b"]}, "Json", '{"a":[1,"b"]}'),
        (MySqlColumn("c", "date"), datetime.date(1969, 12, 31), "Date", -1),
        (MySqlColumn("c", "time"), -datetime.timedelta(seconds=1), "MicroTime", -1_000_000),
        (MySqlColumn("c", "datetime", size=3), datetime.datetime(1970, 1, 1, 0, 0, 1), "Timestamp", 1000),
        (
            MySqlColumn("c", "datetime", size=6),
            datetime.datetime(1970, 1, 2),
            "MicroTimestamp",
            86_400_000_000,
        ),
    ],
)
def test_a_value_and_its_schema(column: MySqlColumn, value: Any, name: str | None, wanted: object) -> None:
    schema, read = MySqlRules().column(column)
    assert (schema.name or "").rpartition(".")[2] == (name or "")
    assert read(value) == wanted


def test_numbers_that_do_not_fit() -> None:
    column = MySqlColumn("c", "bigint", unsigned=True)
    with pytest.raises(DataException, match=r"bigint\.unsigned\.handling\.mode=precise"):
        MySqlRules().column(column)[1](1 << 63)
    assert MySqlRules(big_unsigned="precise").column(column)[1](1 << 63) == Decimal(1 << 63)


def test_zero_dates_in_columns_without_null() -> None:
    columns = [MySqlColumn("id", "int", False, key=True), MySqlColumn("at", "datetime", False)]
    table = MySqlTable.of("p", "d", "t", columns, MySqlRules(), mysql_source("mysql"))
    assert table.row({"id": 1, "at": None}).get("at") == 0


def test_a_type_that_cannot_be_read_is_said() -> None:
    with pytest.raises(ConnectException, match="uuid"):
        from_catalogue(("c", "uuid", "uuid", True, False, None, None, None, None))
    found = from_catalogue(("c", "enum", "enum('a','b''c')", True, False, None, None, None, 4))
    assert found.labels == ("a", "b'c")
