"""Schemas: versions, differences, checks and new ones, on a real registry; and records decoded by it."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from moldau.client.registry.schema_registry import RegistryClient
from moldau.serde.avro import AvroSerializer
from moldau.testing import Broker
from tests.shared.services import running_registry

FIRST = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
SECOND = {**FIRST, "fields": [*FIRST["fields"], {"name": "town", "type": "string", "default": "Brno"}]}
BROKEN = {**FIRST, "fields": [*FIRST["fields"], {"name": "price", "type": "double"}]}


@pytest.fixture
def registry(broker: Broker) -> Iterator[str]:
    """The URL of a registry on the broker."""
    with running_registry(broker.bootstrap_servers) as found:
        yield found.url


def test_versions_differences_and_checks(make_console: Callable[..., Any], registry: str) -> None:
    console = make_console(schema_registry=registry)

    def send(schema: str, action: str) -> Any:
        return console.post("/schemas/new", subject="orders-value", type="AVRO", schema=schema, action=action)

    made = send(json.dumps(FIRST), "register")
    assert "Registered under id 1" in made.words
    checked = send(json.dumps(SECOND), "check")
    assert "It is compatible" in checked.words
    send(json.dumps(SECOND), "register")
    assert "orders-value AVRO 2 2" in console.get("/schemas").words
    page = console.get("/schemas/view", subject="orders-value")
    assert "From version 1 to 2" in page.words
    assert "<ins>+      &quot;name&quot;: &quot;town&quot;,</ins>" in page.text
    refused = send(json.dumps(BROKEN), "register")
    assert refused.status == 400
    assert "not compatible" in refused.words
    assert "price" in refused.text
    for wrong in ("{", '{"type": "<script>boom()</script>"}'):
        page = send(wrong, "check")
        assert page.status == 400
        assert "<script>boom" not in page.text
    gone = console.get("/schemas/view", subject="nothing")
    assert (gone.status, "never registered" in gone.words) == (404, True)


def test_a_schema_with_references_gets_a_new_version(make_console: Callable[..., Any], registry: str) -> None:
    console = make_console(schema_registry=registry)
    town = {"type": "record", "name": "Town", "fields": [{"name": "name", "type": "string"}]}
    uses = {**FIRST, "fields": [*FIRST["fields"], {"name": "town", "type": "Town"}]}
    fields = {"type": "AVRO", "action": "register"}
    console.post("/schemas/new", subject="town-value", schema=json.dumps(town), **fields)
    made = console.post(
        "/schemas/new", subject="o", schema=json.dumps(uses), references="Town=town-value:1", **fields
    )
    assert "Registered under id 2" in made.words
    form = console.get("/schemas/new", subject="o")
    assert "Town=town-value:1</textarea>" in form.text
    wrong = console.post("/schemas/new", subject="o", schema=json.dumps(uses), references="Town", **fields)
    assert (wrong.status, "has the form name=subject:version" in wrong.words) == (400, True)
    assert "&quot;town&quot;" in wrong.text


@pytest.mark.slow
def test_records_are_decoded_and_written_by_their_schema(
    make_console: Callable[..., Any], registry: str, broker: Broker
) -> None:
    with RegistryClient(registry) as client:
        data = AvroSerializer(client, json.dumps(SECOND)).serialize("orders", {"id": 7, "town": "Praha"})
    broker.produce("orders", data)
    broker.produce("orders", b"\x00\x00\x00\x03\xe7rest")  # a schema that the registry does not have
    console = make_console(schema_registry=registry)
    page = console.get("/topics/orders/messages")
    assert "&quot;town&quot;: &quot;Praha&quot;" in page.text
    assert "avro" in page.words
    assert "not decoded" in page.words
    found = console.get("/topics/orders/messages", filter='value.town == "Praha"', noscript="1")
    assert "2 records looked at, 1 fits" in found.words
    sent = console.post("/topics/orders/produce", form="schema", value='{"id": 8, "town": "Ústí"}')
    assert "Sent: partition 0, offset 2" in sent.words
    assert "Ústí" in console.get("/topics/orders/messages/one", partition=0, offset=2).text
    wrong = console.post("/topics/orders/produce", form="schema", value='{"id": "eight"}')
    assert (wrong.status, "does not fit the schema" in wrong.words) == (400, True)


def test_without_a_registry_the_page_says_so(console: Any) -> None:
    assert "knows no schema registry" in console.get("/schemas").words


def test_a_registry_that_is_away(make_console: Callable[..., Any]) -> None:
    console = make_console(schema_registry="http://127.0.0.1:9")
    page = console.get("/schemas")
    assert (page.status, "cannot be reached" in page.words) == (502, True)
