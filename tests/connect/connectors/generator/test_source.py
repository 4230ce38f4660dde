"""Made-up records: by schema, at a rate, and the same after a restart."""

import pytest

from moldau.connect.connector import SourceTaskContext
from moldau.connect.connectors.generator.source import DatagenSource, DatagenTask
from moldau.connect.connectors.generator.values import QUICKSTARTS
from moldau.connect.data.schema import Struct
from moldau.connect.errors import ConfigException
from moldau.testing.connect import read

FAST = {"kafka.topic": "t", "max.interval": "0"}


@pytest.mark.parametrize("name", QUICKSTARTS)
def test_known_schemas(name: str) -> None:
    found = read(DatagenSource, {**FAST, "quickstart": name, "iterations": "50"}, count=50)
    assert len(found.records) == 50
    value = found.records[0].value
    assert isinstance(value, Struct)
    names = [each["name"] for each in QUICKSTARTS[name]["fields"]]
    assert [field.name for field, _ in value.items()] == names
    assert found.records[0].key is not None


def test_a_restart_goes_on_with_the_same_records() -> None:
    given = {**FAST, "quickstart": "orders", "iterations": "20"}
    whole = read(DatagenSource, given, count=20)
    half = read(DatagenSource, {**given, "iterations": "8"}, count=8)
    rest = read(DatagenSource, given, count=12, places=half.places)
    assert [each.value for each in half.records + rest.records] == [each.value for each in whole.records]


def test_a_rate() -> None:
    now = [0]
    task = DatagenTask()
    given = {"kafka.topic": "t", "quickstart": "users", "max.interval": "100"}
    task.start(given, SourceTaskContext("g", 0, lambda _: None, lambda: now[0]))
    counts = []
    for now[0] in (0, 50, 100, 1000):
        counts.append(len(task.poll()))
    assert counts == [1, 0, 1, 9]


def test_every_type_of_a_schema_of_ones_own() -> None:
    schema = (
        '{"type":"record","name":"R","fields":[{"name":"a","type":["null","int"]},{"name":"b","type":'
        '{"type":"array","items":"string"}},{"name":"c","type":{"type":"map","values":"double"}},'
        '{"name":"d","type":{"type":"bytes","logicalType":"decimal","precision":9,"scale":2}},'
        '{"name":"e","type":{"type":"long","logicalType":"timestamp-millis"}},'
        '{"name":"f","type":{"type":"enum","name":"E","symbols":["X","Y"]}},{"name":"g","type":"boolean"}]}'
    )
    found = read(DatagenSource, {**FAST, "schema.string": schema, "iterations": "40"}, count=40)
    values = [each.value for each in found.records]
    assert all(isinstance(value, Struct) for value in values)
    assert {str(value.get("f")) for value in values if isinstance(value, Struct)} == {"X", "Y"}


def test_what_is_refused() -> None:
    for given in ({}, {"quickstart": "nope"}, {"quickstart": "users", "schema.string": '"int"'}):
        with pytest.raises(ConfigException):
            read(DatagenSource, {**FAST, **given}, count=1)
