"""Texts to trees: names are found, everything that is wrong is said."""

import json
from typing import Any

import pytest

from moldau.schemas.avro.parse import normal_text_of, parse_avro, parse_with_texts
from moldau.schemas.avro.types import AvroType
from moldau.schemas.limits import MAX_DEPTH, InvalidSchema

MONEY = {"type": "record", "name": "shop.Money", "fields": [{"name": "cents", "type": "long"}]}
NODE = {
    "type": "record",
    "name": "n.Node",
    "fields": [{"name": "next", "type": ["null", "Node"], "default": None}],
}


def root(schema: Any) -> AvroType:
    return parse_avro(json.dumps(schema)).root


def record(*fields: Any, **others: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": list(fields), **others}


def test_a_name_is_the_type_itself() -> None:
    made = root(NODE)
    (field,) = made.fields
    assert field.type.branches[1] is made
    assert (field.has_default, field.default) == (True, None)


@pytest.mark.parametrize(
    ("named", "space", "full"),
    [
        ("F", None, "n.F"),
        ("F", "m", "m.F"),
        ("F", "", "F"),
        ("o.p.F", "m", "o.p.F"),
    ],
)
def test_full_names(named: str, space: str | None, full: str) -> None:
    inner = {"type": "fixed", "name": named, "size": 1, **({} if space is None else {"namespace": space})}
    outer = parse_avro(json.dumps(record({"name": "a", "type": inner}, namespace="n")))
    assert outer.root.fields[0].type.name == full
    assert set(outer.names) == {"n.R", full}


def test_a_short_name_is_looked_for_in_the_namespace_first() -> None:
    schema = [
        {"type": "fixed", "name": "F", "size": 1},
        {"type": "fixed", "name": "n.F", "size": 2},
        record({"name": "near", "type": "F"}, {"name": "far", "type": "n.F"}, namespace="n"),
        {"type": "record", "name": "m.S", "fields": [{"name": "outside", "type": "F"}]},
    ]
    _, _, inside, outside = root(schema).branches
    assert [each.type.size for each in inside.fields] == [2, 2]
    assert [each.type.size for each in outside.fields] == [1], "the one without a namespace"


def test_attributes_that_avro_does_not_know_are_kept() -> None:
    made = root(record({"name": "a", "type": {"type": "int", "x": 1}, "y": 2, "doc": 3}, z=3))
    (field,) = made.fields
    assert (field.type.properties, field.properties, made.properties) == ({"x": 1}, {"y": 2}, {"z": 3})
    assert field.doc is None, "a doc is text, or none"


def test_logical_types_where_they_are_valid() -> None:
    assert root({"type": "int", "logicalType": "date"}).logical is not None
    odd = root({"type": "string", "logicalType": "date"})
    assert (odd.kind, odd.logical, odd.properties) == ("string", None, {"logicalType": "date"})
    decimal = {"type": "fixed", "name": "F", "size": 16, "logicalType": "decimal", "precision": 4}
    assert root(decimal).logical is not None


def test_aliases_get_the_namespace_and_are_there_once() -> None:
    made = root({"type": "fixed", "name": "n.F", "size": 1, "aliases": ["A", "m.B", "A"]})
    assert made.aliases == ("n.A", "m.B")


def test_an_error_is_a_record() -> None:
    made = root({"type": "error", "name": "E", "fields": []})
    assert (made.kind, made.is_error) == ("record", True)


def test_orders_in_small_letters() -> None:
    assert root(record({"name": "a", "type": "int", "order": "IGNORE"})).fields[0].order == "ignore"


def test_the_default_of_an_enum_is_no_property() -> None:
    made = root({"type": "enum", "name": "E", "symbols": ["A", "B"], "default": "B", "x": 1})
    assert (list(made.symbols), made.symbol_default, made.properties) == (["A", "B"], "B", {"x": 1})


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (1, "Schema not yet supported: 1"),
        ({}, "No type: {}"),
        ({"type": 1}, "No type"),
        ("Missing", '"Missing" is not a defined name'),
        ({"type": "array"}, "No items type in array"),
        ({"type": "map", "items": "int"}, "No values type in map"),
        (["int", ["null"]], "Nested union"),
        (["int", "int"], "Duplicate in union: int"),
        ([{"type": "array", "items": "int"}, {"type": "array", "items": "long"}], "in union: array"),
        ({"type": "record", "fields": []}, "No name in schema"),
        ({"type": "record", "name": "1R", "fields": []}, 'Illegal name of a type: "1R"'),
        ({"type": "record", "name": "R\n", "fields": []}, "Illegal name of a type"),
        ({"type": "record", "name": "a..R", "fields": []}, 'Illegal name of a type: ""'),
        ({"type": "record", "name": "R", "namespace": 1, "fields": []}, "The namespace of R is not a string"),
        ({"type": "fixed", "name": "string", "size": 1}, "may not be named after primitives: string"),
        ({"type": "record", "name": "R"}, "Record has no fields: R"),
        (record("a"), "A field of R is not an object"),
        (record({"type": "int"}), "Illegal name of a field of R: null"),
        (record({"name": "a"}), r"No field type: R\.a"),
        (record({"name": "a", "type": "int"}, {"name": "a", "type": "int"}), "Duplicate field a in record R"),
        (record({"name": "a", "type": "int", "order": "up"}), r'Invalid order "up" of field R\.a'),
        (record({"name": "a", "type": "int", "default": "x"}), r'default for field R\.a: "x" not a "int"'),
        (record({"name": "a", "type": {**record(), "name": "R"}}), "Can't redefine: R"),
        ({"type": "enum", "name": "E"}, "Enum has no symbols: E"),
        ({"type": "enum", "name": "E", "symbols": ["A", "A"]}, "Duplicate enum symbol in E"),
        ({"type": "enum", "name": "E", "symbols": ["a-b"]}, 'Illegal name of a symbol of E: "a-b"'),
        ({"type": "enum", "name": "E", "symbols": ["A"], "default": "B"}, 'default "B" is not a symbol'),
        ({"type": "fixed", "name": "F"}, "Invalid or no size: F"),
        ({"type": "fixed", "name": "F", "size": -1}, "Invalid or no size: F"),
        ({"type": "fixed", "name": "F", "size": True}, "Invalid or no size: F"),
        ({"type": "fixed", "name": "F", "size": 2**31}, "Invalid or no size: F"),
        ({"type": "fixed", "name": "F", "size": 1, "aliases": "A"}, "aliases is not an array of strings"),
    ],
)  # fmt: skip
def test_what_is_wrong(schema: Any, words: str) -> None:
    with pytest.raises(InvalidSchema, match=words):
        parse_avro(json.dumps(schema))


def test_a_default_of_a_type_that_is_declared_later() -> None:
    """It can be checked only when the record is complete."""
    good = record({"name": "a", "type": ["null", "R"], "default": None})
    assert root(good).fields[0].has_default
    bad = record({"name": "a", "type": ["null", "R"], "default": {}}, {"name": "b", "type": "int"})
    with pytest.raises(InvalidSchema, match=r"Invalid default for field R\.a"):
        root(bad)
    assert parse_avro(json.dumps(bad), lenient=True).root.fields[0].default == {}


def test_references_are_names_that_are_already_there() -> None:
    money = parse_avro(json.dumps(MONEY))
    order = parse_avro(json.dumps(record({"name": "price", "type": "Money"}, namespace="shop")), money.names)
    assert order.root.fields[0].type is money.root
    assert (order.borrowed, set(order.names)) == ({"shop.Money"}, {"shop.Money", "shop.R"})
    assert set(money.names) == {"shop.Money"}, "what was given is not changed"
    with pytest.raises(InvalidSchema, match=r"Can't redefine: shop\.Money"):
        parse_avro(json.dumps(MONEY), money.names)


def test_texts_that_name_each_other_in_their_order() -> None:
    price = record({"name": "money", "type": "shop.Money"}, name="Price")
    order = record({"name": "price", "type": "Price"})
    texts = [json.dumps(MONEY), json.dumps(price)]
    found = parse_with_texts(json.dumps(order), texts)
    assert found.root.fields[0].type.fields[0].type.name == "shop.Money"
    with pytest.raises(InvalidSchema, match=r'"shop\.Money" is not a defined name'):
        parse_with_texts(json.dumps(order), texts[::-1])


def test_a_programs_own_schema_may_be_deeper_than_a_clients() -> None:
    text = '{"type":"array","items":' * MAX_DEPTH + '"int"' + "}" * MAX_DEPTH
    with pytest.raises(InvalidSchema, match=f"deeper than {MAX_DEPTH} levels"):
        parse_avro(text)
    assert parse_with_texts(text).root.kind == "array"
    deeper = '{"type":"array","items":' * 300 + '"int"' + "}" * 300
    with pytest.raises(InvalidSchema, match="deeper than 300 levels"):
        parse_with_texts(deeper)


def test_the_normal_text_borrows_too() -> None:
    money = parse_avro(json.dumps(MONEY))
    one = parse_avro('{"b":1,"a":2,"type":"array","items":"shop.Money"}', money.names)
    assert normal_text_of(one) == '{"type":"array","items":"shop.Money","a":2,"b":1}'
