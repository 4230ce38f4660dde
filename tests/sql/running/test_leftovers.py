"""Schemas of a topic that is deleted."""

from moldau.client.registry.schema_registry import RegistryClient
from moldau.sql.catalogue import source_of
from moldau.sql.formats import value_serde
from moldau.sql.parser import parse_statement
from moldau.sql.running.leftovers import forget_schema
from moldau.sql.statements import CreateSource

CLICKS = "CREATE STREAM s (user STRING KEY, page STRING) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='{}')"


def test_schemas_go_with_their_topic(registry_url: str) -> None:
    statement = parse_statement(CLICKS.format("AVRO"))
    assert isinstance(statement, CreateSource)
    source = source_of(statement)
    serde = value_serde("AVRO", source.value_columns, registry_url, "S")
    for topic in ("s", "s-2"):
        serde.serialize(topic, {"PAGE": "/a"})
    assert forget_schema(registry_url, source) == ""
    with RegistryClient(registry_url) as client:
        assert client.subjects() == ["s-2-value"]
    assert forget_schema(registry_url, source) == ""  # there is none any more
    said = forget_schema("http://127.0.0.1:1", source)
    assert said.startswith("subject s-value could not be deleted: ")


def test_without_schemas_nobody_is_asked() -> None:
    statement = parse_statement(CLICKS.format("JSON"))
    assert isinstance(statement, CreateSource)
    assert forget_schema("http://127.0.0.1:1", source_of(statement)) == ""
