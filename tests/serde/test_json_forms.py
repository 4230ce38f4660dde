"""Values with a schema as JSON; what the registry would be asked for is made up here."""

from typing import Any

import pytest

from moldau.client.registry.schema_registry import Reference, RegisteredSchema
from moldau.schemas.schema_id import SchemaRef
from moldau.serde.errors import SerdeError
from moldau.serde.json_forms import decoder, encoder


class Registry:
    """Knows one schema that others refer to."""

    def version(self, subject: str, version: int, *, deleted: bool) -> RegisteredSchema:
        assert (subject, version, deleted) == ("address", 1, True)
        text = '{"type":"record","name":"Address","fields":[{"name":"city","type":"string"}]}'
        return RegisteredSchema(2, "AVRO", text)


def both(schema: RegisteredSchema) -> tuple[Any, Any]:
    client: Any = Registry()
    return encoder(client, schema), decoder(client, schema, SchemaRef(schema_id=schema.schema_id))


def test_avro_with_a_reference() -> None:
    text = '{"type":"record","name":"P","fields":[{"name":"home","type":["null","Address"]}]}'
    schema = RegisteredSchema(1, "AVRO", text, (Reference("Address", "address", 1),))
    encode, decode = both(schema)
    value = {"home": {"Address": {"city": "Praha"}}}
    assert decode(b"12345" + encode(value), 5) == value
    with pytest.raises(SerdeError, match="home"):
        encode({"home": {"city": "Praha"}})


def test_json_is_checked_when_it_is_written() -> None:
    encode, decode = both(RegisteredSchema(1, "JSON", '{"type":"object","required":["id"]}'))
    assert encode({"id": 1}) == b'{"id":1}'
    assert decode(b'12345{"id":1}', 5) == {"id": 1}
    with pytest.raises(SerdeError):
        encode({})
    with pytest.raises(SerdeError):
        decode(b"12345{", 5)
