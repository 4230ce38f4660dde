"""Every transform has its names and its settings, and those settings are Kafka's."""

import json
from pathlib import Path

import pytest

from moldau.connect.compatibility import Compatibility
from moldau.connect.config.definition import ConfigDef, ConfigKey, value_text
from moldau.connect.converters.catalogue import HEADER_CONVERTERS
from moldau.connect.data.schema import Schema, array
from moldau.connect.data.types import Int8, Int32, Type
from moldau.connect.errors import ConnectException, DataException
from moldau.connect.records import SourceRecord
from moldau.connect.transforms.catalogue import PREDICATES, TRANSFORMS, predicate, transformation

DEFINITIONS = json.loads((Path(__file__).parents[1] / "vectors" / "config" / "definitions.json").read_text())


def definition(name: str) -> ConfigDef:
    if name in TRANSFORMS:
        return TRANSFORMS[name][1]
    return PREDICATES[name].config if name in PREDICATES else HEADER_CONVERTERS[name].config


KNOWN = [name for name in DEFINITIONS if name in {*TRANSFORMS, *PREDICATES, *HEADER_CONVERTERS}]


@pytest.mark.parametrize("name", KNOWN)
def test_settings_are_those_of_apache(name: str) -> None:
    assert [shown(key) for key in definition(name)] == DEFINITIONS[name]


def shown(key: ConfigKey) -> dict[str, object]:
    """A definition as the captured ones are written."""
    node: dict[str, object] = {"name": key.name, "type": key.type.name, "required": key.required}
    if not key.required:
        node["default"] = value_text(key.default)
    node |= {"importance": key.importance.name, "group": key.group, "order": key.order}
    node |= {"width": key.width.name, "display_name": key.shown_name}
    if key.validator is not None:
        node["validator"] = str(key.validator)
    assert key.doc
    return node


def test_everything_is_there() -> None:
    assert len(TRANSFORMS) == 26
    assert len(PREDICATES) == 3
    assert len(KNOWN) == 25


def test_names_that_are_not_known() -> None:
    with pytest.raises(ConnectException, match="name matches Nope"):
        transformation("Nope", {})
    with pytest.raises(ConnectException, match="name matches Nope"):
        predicate("Nope", {})


PACKAGE = "org.apache.kafka.connect.transforms"


def test_the_strict_mode_names_any_schema() -> None:
    rename = transformation(f"{PACKAGE}.SetSchemaMetadata$Value", {"schema.name": "numbers"})
    record = SourceRecord(topic="t", value_schema=array(Schema(Type.INT32)), value=[Int32(1)])
    made = rename.apply(record)
    assert made is not None
    assert made.value_schema is not None
    assert made.value_schema.name == "numbers"


def test_the_strict_mode_refuses_a_replacement_that_does_not_fit() -> None:
    settings = {"fields": "a", "replacement": "300"}
    record = SourceRecord(topic="t", value={"a": Int8(1)})
    kafka = transformation(f"{PACKAGE}.MaskField$Value", settings, Compatibility.KAFKA).apply(record)
    assert kafka is not None
    assert kafka.value == {"a": 44}
    with pytest.raises(DataException, match="out of range"):
        transformation(f"{PACKAGE}.MaskField$Value", settings).apply(record)


def test_the_strict_mode_says_which_field_is_missing() -> None:
    from moldau.connect.data.schema import Struct, struct

    schema = struct({"a": Schema(Type.STRING)})
    record = SourceRecord(topic="t", value_schema=schema, value=Struct(schema, {"a": "x"}))
    settings = {"fields": "zz", "headers": "h", "operation": "copy"}
    with pytest.raises(DataException, match="Field does not exist: zz"):
        transformation(f"{PACKAGE}.HeaderFrom$Value", settings).apply(record)
