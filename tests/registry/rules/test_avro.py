"""Avro schema resolution as tables (old, new, answers), and data that was written before read after the
change.
"""

import io
import json
from typing import Any

import fastavro
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from moldau.registry.rules.avro import unreadable
from moldau.registry.rules.compatibility import Level, incompatibilities
from moldau.registry.schemas import SchemaType, parse
from moldau.schemas.avro.parse import parse_avro
from moldau.schemas.avro.types import AvroType


def root(schema: Any) -> AvroType:
    return parse_avro(json.dumps(schema), {}).root


def record(*fields: Any, **others: Any) -> dict[str, Any]:
    made = [each if isinstance(each, dict) else {"name": each[0], "type": each[1]} for each in fields]
    return {"type": "record", "name": "R", "fields": made, **others}


def field(name: str, kind: Any, **others: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **others}


def enum(*symbols: str, **others: Any) -> dict[str, Any]:
    return {"type": "enum", "name": "E", "symbols": list(symbols), **others}


def fixed(size: int, **others: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": "F", "size": size, **others}


def array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def map_of(values: Any) -> dict[str, Any]:
    return {"type": "map", "values": values}


PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
#: writer -> readers other than itself, from the specification's list of promotions
PROMOTED = {
    "int": {"long", "float", "double"},
    "long": {"float", "double"},
    "float": {"double"},
    "string": {"bytes"},
    "bytes": {"string"},
}


@pytest.mark.parametrize("writer", PRIMITIVES)
@pytest.mark.parametrize("reader", PRIMITIVES)
def test_promotions(writer: str, reader: str) -> None:
    found = unreadable(root(reader), root(writer))
    assert bool(found) == (reader != writer and reader not in PROMOTED.get(writer, ()))
    assert [each.kind for each in found] == ["TYPE_MISMATCH"] * len(found)


NODE = {"type": "record", "name": "Node", "fields": [field("v", "int"), field("next", ["null", "Node"])]}
LONG_NODE = {
    "type": "record",
    "name": "Node",
    "fields": [field("v", "long"), field("next", ["null", "Node"])],
}
TEXT_NODE = {
    "type": "record",
    "name": "Node",
    "fields": [field("v", "string"), field("next", ["null", "Node"])],
}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
WIDER = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 3}
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
MICROS = {"type": "long", "logicalType": "timestamp-micros"}

MISSING = "READER_FIELD_MISSING_DEFAULT_VALUE"
UNION = "MISSING_UNION_BRANCH"
TYPE = "TYPE_MISMATCH"
SYMBOLS = "MISSING_ENUM_SYMBOLS"
NAME = "NAME_MISMATCH"
SIZE = "FIXED_SIZE_MISMATCH"

#: old, new, what BACKWARD finds, what FORWARD finds ("" for nothing)
EVOLUTION: list[tuple[Any, Any, str, str]] = [
    # records: fields come and go
    (record(("a", "int")), record(("a", "int")), "", ""),
    (record(("a", "int")), record(("a", "int"), ("b", "int")), MISSING, ""),
    (record(("a", "int")), record(("a", "int"), field("b", "int", default=0)), "", ""),
    (record(("a", "int"), ("b", "int")), record(("a", "int")), "", MISSING),
    (record(("a", "int"), field("b", "int", default=1)), record(("a", "int")), "", ""),
    (record(("a", "int")), record(), "", MISSING),
    (record(), record(("a", "int")), MISSING, ""),
    (record(), record(), "", ""),
    (record(("a", "int"), ("b", "int")), record(("b", "int"), ("a", "int")), "", ""),
    (record(("a", "int")), record(("A", "int")), MISSING, MISSING),
    (record(("a", "int")), record(field("a", "int", default=3)), "", ""),
    (record(field("a", "int", default=3)), record(("a", "int")), "", ""),
    (record(("a", "int")), record(("a", "int"), field("b", ["null", "string"], default=None)), "", ""),
    (record(("a", "int")), record(("a", "int"), field("b", ["null", "string"])), MISSING, ""),
    (record(("a", "int")), record(("a", "int"), field("b", enum("X", default="X"))), MISSING, ""),
    (record(("a", "int")), record(("a", "int"), field("b", array("int"), default=[])), "", ""),
    (record(("a", "int")), record(("a", "int"), field("b", map_of("int"), default={})), "", ""),
    (record(("a", "int")), record(("a", "int"), field("b", "null", default=None)), "", ""),
    (record(("a", "int")), record(field("a", "int", doc="now with words")), "", ""),
    (record(("a", "int")), record(field("a", "int", order="descending")), "", ""),
    (record(("a", "int")), record(field("a", "int", extra={"x": 1})), "", ""),
    # the types of fields
    (record(("a", "int")), record(("a", "long")), "", TYPE),
    (record(("a", "long")), record(("a", "int")), TYPE, ""),
    (record(("a", "int")), record(("a", "string")), TYPE, TYPE),
    (record(("a", "string")), record(("a", "bytes")), "", ""),
    (record(("a", "float")), record(("a", "double")), "", TYPE),
    (record(("a", "boolean")), record(("a", "int")), TYPE, TYPE),
    (record(("a", "int")), record(("a", ["null", "int"])), "", TYPE),
    (record(("a", "int")), record(("a", ["null", "long"])), "", TYPE),
    (record(("a", "int")), record(("a", ["null", "string"])), UNION, TYPE),
    (record(("a", "int")), record(("a", array("int"))), TYPE, TYPE),
    (record(("a", array("int"))), record(("a", array("long"))), "", TYPE),
    (record(("a", map_of("int"))), record(("a", map_of("string"))), TYPE, TYPE),
    (record(("a", record(("x", "int"), name="I"))), record(("a", record(("x", "long"), name="I"))), "", TYPE),
    (
        record(("a", record(("x", "int"), name="I"))),
        record(("a", record(("x", "int"), name="J"))),
        NAME,
        NAME,
    ),
    (
        record(("a", record(name="I"))),
        record(("a", record(("y", "int"), name="I"))),
        MISSING,
        "",
    ),
    (record(("a", "int")), record(("a", record(name="I"))), TYPE, TYPE),
    # field aliases help the reader, who knows the old name
    (record(("a", "int")), record(field("b", "int", aliases=["a"])), "", MISSING),
    (record(("a", "int")), record(field("b", "long", aliases=["a"])), "", MISSING),
    (record(("a", "string")), record(field("b", "int", aliases=["a"])), TYPE, MISSING),
    (record(("a", "int")), record(field("b", "int", aliases=["c"])), MISSING, MISSING),
    (record(field("a", "int", aliases=["b"])), record(("b", "int")), MISSING, ""),
    (record(("a", "int")), record(field("b", "int", aliases=["a"], default=9)), "", MISSING),
    # names of types
    (record(), record(name="S"), NAME, NAME),
    (record(), record(name="S", aliases=["R"]), "", NAME),
    (record(namespace="x"), record(namespace="y"), "", ""),
    (record(namespace="x"), record(name="S", namespace="x", aliases=["R"]), "", NAME),
    (record(namespace="x"), record(name="S", namespace="y", aliases=["x.R"]), "", NAME),
    (record(namespace="x"), record(name="S", namespace="y", aliases=["R"]), NAME, NAME),
    (enum("A"), enum("A", name="G"), NAME, NAME),
    (enum("A"), enum("A", name="G", aliases=["E"]), "", NAME),
    (fixed(4), fixed(4, name="G"), NAME, NAME),
    (fixed(4), fixed(4, name="G", aliases=["F"]), "", NAME),
    (record(), {**record(), "type": "error"}, "", ""),
    (record(), enum("A", name="R"), TYPE, TYPE),
    (enum("A", name="R"), fixed(1, name="R"), TYPE, TYPE),
    # enums
    (enum("A", "B"), enum("A", "B"), "", ""),
    (enum("A", "B"), enum("B", "A"), "", ""),
    (enum("A"), enum("A", "B"), "", SYMBOLS),
    (enum("A", "B"), enum("A"), SYMBOLS, ""),
    (enum("A", "B"), enum("A", default="A"), "", ""),
    (enum("A", "B", default="A"), enum("A", "B", "C"), "", ""),
    (enum("A", "B", default="A"), enum("A", "C"), SYMBOLS, ""),
    (enum("A", "B"), enum("C", default="C"), "", SYMBOLS),
    (enum("A"), "string", TYPE, TYPE),
    (enum("A"), "int", TYPE, TYPE),
    # fixed
    (fixed(4), fixed(4), "", ""),
    (fixed(4), fixed(8), SIZE, SIZE),
    (fixed(4), "bytes", TYPE, TYPE),
    (fixed(0), fixed(0), "", ""),
    # arrays and maps
    (array("int"), array("int"), "", ""),
    (array("int"), array("double"), "", TYPE),
    (array("int"), map_of("int"), TYPE, TYPE),
    (array(enum("A")), array(enum("A", "B")), "", SYMBOLS),
    (array(["null", "int"]), array("int"), TYPE, ""),
    (map_of("int"), map_of(["int", "string"]), "", TYPE),
    (map_of(array("int")), map_of(array("string")), TYPE, TYPE),
    (array("int"), "int", TYPE, TYPE),
    # unions
    (["null", "int"], ["null", "int"], "", ""),
    (["null", "int"], ["int", "null"], "", ""),
    (["null", "int"], ["null", "int", "string"], "", UNION),
    (["null", "int", "string"], ["null", "int"], UNION, ""),
    (["null", "int"], "int", TYPE, ""),
    (["int"], "int", "", ""),
    (["int", "long"], "long", "", ""),
    (["int", "long"], "double", "", UNION),
    (["int", "string"], "string", TYPE, ""),
    (["int", "float"], ["double"], "", UNION),
    (["string"], ["bytes"], "", ""),
    (["null", "int"], ["null", "long"], "", UNION),
    ([], "int", "", UNION),
    ([], [], "", ""),
    (["null", record(("a", "int"))], ["null", record(("a", "int"), ("b", "int"))], UNION, ""),
    (
        ["null", record(("a", "int"))],
        ["null", record(("a", "int"), field("b", "int", default=0))],
        "",
        "",
    ),
    ([record(name="A"), record(name="B")], [record(name="B"), record(name="A")], "", ""),
    ([record(name="A")], [record(name="B")], UNION, UNION),
    (record(name="A"), [record(name="B"), record(name="A")], "", NAME),
    ([enum("A")], [enum("A", "B")], "", UNION),
    ([fixed(1)], [fixed(2)], UNION, UNION),
    ([array("int")], [array("long")], "", UNION),
    # recursive types
    (NODE, NODE, "", ""),
    (NODE, LONG_NODE, "", TYPE),
    (NODE, TEXT_NODE, TYPE, TYPE),
    (NODE, record(("v", "int"), name="Node"), "", MISSING),
    # logical types annotate and never decide
    (MILLIS, "long", "", ""),
    (MILLIS, MICROS, "", ""),
    (DECIMAL, WIDER, "", ""),
    (DECIMAL, "bytes", "", ""),
    ({"type": "int", "logicalType": "date"}, "long", "", TYPE),
    ({"type": "int", "logicalType": "date"}, MILLIS, "", TYPE),
    ({"type": "string", "logicalType": "uuid"}, "string", "", ""),
    (fixed(12, logicalType="duration"), fixed(12), "", ""),
    (fixed(12, logicalType="decimal", precision=4), fixed(8, logicalType="decimal", precision=4), SIZE, SIZE),
    ({"type": "string", "avro.java.string": "String"}, "string", "", ""),
]


@pytest.mark.parametrize(("old", "new", "backward", "forward"), EVOLUTION)
def test_evolution(old: Any, new: Any, backward: str, forward: str) -> None:
    assert [each.kind for each in unreadable(root(new), root(old))][:1] == [backward][: bool(backward)]
    assert [each.kind for each in unreadable(root(old), root(new))][:1] == [forward][: bool(forward)]


def test_paths_name_the_place() -> None:
    old = record(("a", "int"), ("b", array(map_of("int"))), ("c", ["null", "string"]))
    new = record(("a", "string"), ("b", array(map_of("string"))), ("c", ["null", "int"]), ("d", "int"))
    found = unreadable(root(new), root(old))
    assert [each.path for each in found] == [
        "/fields/0/type",
        "/fields/1/type/items/values",
        "/fields/2/type/1",
        "/fields/3",
    ]


def test_every_use_of_a_broken_type_is_named() -> None:
    inner = record(("x", "int"), name="I")
    old = record(("a", inner), ("b", "I"))
    new = record(("a", record(("x", "string"), name="I")), ("b", "I"))
    paths = [each.path for each in unreadable(root(new), root(old))]
    assert paths == ["/fields/0/type/fields/0/type", "/fields/1/type/fields/0/type"]


def test_a_union_does_not_trust_an_assumption_that_failed() -> None:
    """Two types that refer to each other: one broken, so neither can be read, whichever is asked for "
    "first."""

    def pair(kind: str) -> list[Any]:
        first = record(
            field("b", ["null", record(field("a", ["null", "A"]), name="B")]), ("v", kind), name="A"
        )
        return [first, "B"]

    found = unreadable(root(pair("string")), root(pair("int")))
    assert [each.path for each in found] == ["/0", "/1"]


def test_types_that_double_at_every_level_are_compared_once() -> None:
    def tower(leaf: str) -> Any:
        made: Any = record(("x", leaf), name="T0")
        for level in range(1, 30):
            made = record(("l", made), ("r", f"T{level - 1}"), name=f"T{level}")
        return made

    assert unreadable(root(tower("int")), root(tower("int"))) == []
    assert 0 < len(unreadable(root(tower("string")), root(tower("int")))) <= 100


@pytest.mark.slow
def test_a_long_chain_of_names_ends_with_an_answer() -> None:
    def chain(leaf: str) -> Any:
        types: list[Any] = [record(("x", leaf), name="C0")]
        types += [record(("x", f"C{level - 1}"), name=f"C{level}") for level in range(1, 3000)]
        return types

    old, new = root(chain("int")), root(chain("string"))
    assert unreadable(new.branches[-1], old.branches[-1])


@pytest.mark.slow
def test_large_enums_and_unions_are_compared_in_no_time() -> None:
    many = [f"a{index}" for index in range(20_000)]
    assert unreadable(root(enum(*many)), root(enum(*reversed(many)))) == []
    records = [record(("a", "int"), name=f"R{index}") for index in range(150)]
    assert unreadable(root(records), root(records[::-1])) == []
    many_records = [record(name=f"R{index}") for index in range(1000)]
    assert unreadable(root(many_records), root(many_records[::-1])) == []


# The golden cases of the two books.


CONTACT = {
    "type": "record",
    "name": "contactDetails",
    "namespace": "avro.example",
    "fields": [
        field("fullname", "string", default="NONE"),
        field("age", "int", default=-1),
        field("cell_number", "string", default="NONE"),
        field(
            "address",
            {
                "type": "record",
                "name": "home_address",
                "fields": [
                    field(name, "string", default="NONE") for name in ("street", "city", "state_prov", "zip")
                ],
            },
            default={},
        ),
    ],
}
ALERT = {
    "type": "record",
    "name": "Alert",
    "namespace": "com.kafkainaction",
    "fields": [
        field("sensor_id", "long", doc="the sensor"),
        field("time", "long", doc="seconds since the epoch"),
        field(
            "status",
            {"type": "enum", "name": "alert_status", "symbols": ["Critical", "Major", "Minor", "Warning"]},
        ),
    ],
}
CUSTOMER = [field("id", "int"), field("name", "string")]
FAX = {
    "type": "record",
    "namespace": "customerManagement.avro",
    "name": "Customer",
    "fields": [*CUSTOMER, field("faxNumber", ["null", "string"], default=None)],
}
EMAIL = {**FAX, "fields": [*CUSTOMER, field("email", ["null", "string"], default=None)]}


def copied(writer: Any, reader: Any, value: Any) -> Any:
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(writer), value)
    buffer.seek(0)
    return fastavro.schemaless_reader(buffer, fastavro.parse_schema(writer), fastavro.parse_schema(reader))


def allowed(level: Level, old: Any, new: Any) -> bool:
    before, after = (parse(SchemaType.AVRO, json.dumps(each), {}) for each in (old, new))
    return not incompatibilities(level, after, [before])


def test_contact_details_fill_their_defaults() -> None:
    empty = {**CONTACT, "fields": []}
    assert allowed(Level.BACKWARD, empty, CONTACT)
    read = copied(empty, CONTACT, {})
    assert read["age"] == -1
    assert read["fullname"] == "NONE"
    assert (
        parse_avro(json.dumps(CONTACT), {}).names["avro.example.home_address"].fields[3].type.kind == "string"
    )


def test_an_alert_knows_its_states() -> None:
    value = {"sensor_id": 12345, "time": 1_700_000_000, "status": "Critical"}
    assert copied(ALERT, ALERT, value) == value
    fewer = json.loads(json.dumps(ALERT).replace('"Critical", ', ""))
    assert not allowed(Level.BACKWARD, ALERT, fewer)
    assert allowed(Level.FORWARD, ALERT, fewer)


def test_fax_number_becomes_email_in_all_four_combinations() -> None:
    assert allowed(Level.FULL, FAX, EMAIL)
    assert copied(FAX, EMAIL, {"id": 1, "name": "Ann", "faxNumber": "1"}) == {
        "id": 1,
        "name": "Ann",
        "email": None,
    }
    assert copied(EMAIL, FAX, {"id": 1, "name": "Ann", "email": "a"}) == {
        "id": 1,
        "name": "Ann",
        "faxNumber": None,
    }
    assert copied(FAX, FAX, {"id": 1, "name": "Ann", "faxNumber": None})["faxNumber"] is None
    assert copied(EMAIL, EMAIL, {"id": 1, "name": "Ann", "email": "x"})["email"] == "x"


def test_an_int_that_becomes_a_long_and_a_new_date_do_not_break_avro() -> None:
    """What breaks a hand-made serializer (the guide's reason for Avro) is two compatible changes here."""
    new = {
        **FAX,
        "fields": [field("id", "long"), field("name", "string"), field("startDate", "long", default=0)],
    }
    assert allowed(Level.BACKWARD, FAX, new)
    assert not allowed(Level.FORWARD, FAX, new)


# Whatever BACKWARD allows can be read.

LEAVES: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "bytes": st.binary(max_size=5).map(lambda raw: bytes(each & 127 for each in raw)),
    "string": st.text(max_size=5),
}
DEFAULTS: dict[str, Any] = {
    "null": None,
    "boolean": False,
    "int": 0,
    "long": 0,
    "float": 0.5,
    "double": 0.5,
    "bytes": "",
    "string": "",
}


@st.composite
def types(draw: st.DrawFn, depth: int = 2) -> Any:
    kind = draw(st.sampled_from([*LEAVES, *(["array", "map", "union", "enum", "record"] if depth else [])]))
    if kind == "array":
        return array(draw(types(depth - 1)))
    if kind == "map":
        return map_of(draw(types(depth - 1)))
    if kind == "union":
        return draw(st.lists(st.sampled_from(list(LEAVES)), min_size=1, max_size=3, unique=True))
    if kind == "enum":
        symbols = draw(st.lists(st.sampled_from("ABCD"), min_size=1, unique=True))
        name = f"E{draw(st.uuids()).hex}"
        others = {"default": symbols[0]} if draw(st.booleans()) else {}
        return enum(*symbols, name=name, **others)
    if kind == "record":
        return draw(records(depth - 1))
    return kind


@st.composite
def records(draw: st.DrawFn, depth: int = 2) -> Any:
    names = draw(st.lists(st.sampled_from("abcd"), max_size=4, unique=True))
    fields = [field(name, draw(types(depth))) for name in names]
    return record(*fields, name=f"N{draw(st.uuids()).hex}")


def values(schema: Any) -> st.SearchStrategy[Any]:
    if isinstance(schema, str):
        return LEAVES[schema]
    if isinstance(schema, list):
        return st.one_of(
            [values(branch).map(lambda value, branch=branch: (branch, value)) for branch in schema]
        )
    match schema["type"]:
        case "array":
            return st.lists(values(schema["items"]), max_size=3)
        case "map":
            return st.dictionaries(st.text(max_size=3), values(schema["values"]), max_size=2)
        case "enum":
            return st.sampled_from(schema["symbols"])
        case _:
            return st.fixed_dictionaries({each["name"]: values(each["type"]) for each in schema["fields"]})


@st.composite
def changed(draw: st.DrawFn, schema: Any) -> Any:
    """The same schema after a few edits of the kind that people make."""
    if isinstance(schema, str):
        return draw(st.sampled_from([schema, schema, *PROMOTED.get(schema, ()), "string"]))
    if isinstance(schema, list):
        extra = draw(st.sampled_from(list(LEAVES)))
        return draw(st.permutations(list(dict.fromkeys([*schema, extra]))))
    match schema["type"]:
        case "array":
            return array(draw(changed(schema["items"])))
        case "map":
            return map_of(draw(changed(schema["values"])))
        case "enum":
            symbols = draw(st.lists(st.sampled_from("ABCD"), min_size=1, unique=True))
            symbols = list(dict.fromkeys([*schema["symbols"], *symbols])) if draw(st.booleans()) else symbols
            others = {"default": symbols[-1]} if draw(st.booleans()) else {}
            return enum(*symbols, name=schema["name"], **others)
        case _:
            return draw(changed_record(schema))


@st.composite
def changed_record(draw: st.DrawFn, schema: Any) -> Any:
    fields = []
    for each in schema["fields"]:
        action = draw(st.sampled_from(["keep", "keep", "change", "drop", "rename"]))
        if action == "drop":
            continue
        kind = draw(changed(each["type"])) if action == "change" else each["type"]
        renamed = {"name": each["name"] + "_", "aliases": [each["name"]]} if action == "rename" else {}
        fields.append({**each, "type": kind, **renamed})
    if draw(st.booleans()):
        kind = draw(st.sampled_from(list(LEAVES)))
        others = {"default": DEFAULTS[kind]} if draw(st.booleans()) else {}
        fields.append(field("added", kind, **others))
    return {**schema, "fields": draw(st.permutations(fields))}


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_what_backward_allows_can_be_read(data: st.DataObject) -> None:
    old = data.draw(records())
    new = data.draw(changed_record(old))
    assume(allowed(Level.BACKWARD, old, new))
    copied(old, new, data.draw(values(old)))


@pytest.mark.slow
def test_unions_of_thousands_of_records_are_compared_name_by_name() -> None:
    def union(kind: str, order: int) -> str:
        records = [
            {"type": "record", "name": f"R{n}", "fields": [{"name": "a", "type": kind}]} for n in range(2_000)
        ]
        return json.dumps([*records[::order], "null"])

    new, old = parse(SchemaType.AVRO, union("long", -1)), parse(SchemaType.AVRO, union("int", 1))
    assert incompatibilities(Level.BACKWARD, new, [old]) == []
    assert "MISSING_UNION_BRANCH" in incompatibilities(Level.FORWARD, new, [old])[0]


def test_an_alias_names_a_branch_of_a_union() -> None:
    old = [{"type": "record", "name": "n.Old", "fields": []}, "null"]
    new = ["null", {"type": "record", "name": "New", "aliases": ["n.Old"], "fields": []}]
    parsed = [parse(SchemaType.AVRO, json.dumps(each)) for each in (old, new)]
    assert incompatibilities(Level.BACKWARD, parsed[1], [parsed[0]]) == []
    assert incompatibilities(Level.FORWARD, parsed[1], [parsed[0]]) != []


def test_a_field_that_means_two_of_the_writers_is_refused() -> None:
    """By its name one, by an alias another: Avro's readers for Java end with an error there."""
    both = record(field("a", "int"), field("b", "int", aliases=["a"]))
    assert [each.kind for each in unreadable(root(both), root(both))] == ["FIELD_MATCHES_SEVERAL"]
    own = record(field("a", "int", aliases=["a"]))
    assert unreadable(root(own), root(own)) == [], "an alias that is its own name means one"
    assert unreadable(root(both), root(record(field("a", "int")))) == []
