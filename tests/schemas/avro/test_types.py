"""The names of types, and what a schema says about itself."""

import pytest

from moldau.schemas.avro.types import AvroSchema, AvroType

NULL, INT = AvroType("null"), AvroType("int")


@pytest.mark.parametrize(
    ("type_", "short_name", "namespace", "called"),
    [
        (INT, "", "", "int"),
        (AvroType("array", inner=INT), "", "", "array"),
        (AvroType("record", "Order"), "Order", "", "Order"),
        (AvroType("enum", "shop.api.State"), "State", "shop.api", "shop.api.State"),
    ],
)
def test_names(type_: AvroType, short_name: str, namespace: str, called: str) -> None:
    assert (type_.short_name, type_.namespace, type_.called) == (short_name, namespace, called)


@pytest.mark.parametrize(
    ("type_", "nullable"),
    [
        (NULL, True),
        (INT, False),
        (AvroType("union", branches=(INT, NULL)), True),
        (AvroType("union", branches=(INT, AvroType("string"))), False),
        (AvroType("array", inner=NULL), False),
    ],
)
def test_null_is_a_value_of_null_and_of_unions_with_it(type_: AvroType, nullable: bool) -> None:
    assert type_.nullable is nullable


def test_only_arrays_and_maps_have_items() -> None:
    assert AvroType("map", inner=INT).item is INT
    with pytest.raises(AssertionError, match="int"):
        _ = INT.item


def test_types_are_compared_by_identity() -> None:
    """Two records of one shape are two types, and a record that contains itself can be hashed."""
    assert AvroType("int") != AvroType("int")
    assert len({AvroType("int"), AvroType("int")}) == 2


@pytest.mark.parametrize(
    ("root", "name"),
    [
        (AvroType("record", "shop.Order"), "shop.Order"),
        (INT, "int"),
        (AvroType("union", branches=(NULL, INT)), None),
    ],
)
def test_the_name_of_a_schema(root: AvroType, name: str | None) -> None:
    assert AvroSchema(root, {}).name == name


@pytest.mark.parametrize(
    ("root", "is_bytes"),
    [
        (AvroType("bytes"), True),
        (AvroType("bytes", properties={"x": 1}), True),
        (AvroType("bytes", properties={"logicalType": "decimal", "precision": 4}), False),
        (AvroType("fixed", "F", size=4), False),
        (AvroType("string"), False),
    ],
)
def test_only_bytes_without_a_logical_type_are_written_alone(root: AvroType, is_bytes: bool) -> None:
    assert AvroSchema(root, {}).is_bytes is is_bytes
