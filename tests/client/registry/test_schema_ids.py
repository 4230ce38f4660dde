"""What the broker remembers of a registry, with a registry that is a table."""

import asyncio

import pytest

from moldau.base.clock import SteppedClock
from moldau.client.registry.schema_ids import RegistrySchemaIds
from moldau.client.registry.schema_registry import RegistryClient, RegistryError
from moldau.protocol.errors import ErrorCode, KafkaError

GUID = "89791762-2336-4186-9674-299b90a802e2"


@pytest.fixture
def asked(monkeypatch):
    """The paths that were asked for; ids up to 10 are versions of ``a-value``, 50 is a failure."""
    paths = []

    def call(self, method, path, body=None):
        paths.append(path)
        if "guids" in path:
            return [{"context": ".", "id": 7}]
        number = int(path.split("/")[3])
        if number == 50:
            raise RegistryError(0, 0, "nobody there")
        if number > 10:
            raise RegistryError(404, 40403, "Schema not found")
        return [{"subject": "a-value", "version": 1}]

    monkeypatch.setattr(RegistryClient, "call", call)
    return paths


@pytest.fixture
def clock():
    return SteppedClock()


@pytest.fixture
def ids(clock):
    made = RegistrySchemaIds("http://127.0.0.1:1", "ann:s:cret", clock, 5)
    yield made
    asyncio.run(made.close())


def test_what_is_there_is_asked_for_once(ids, asked):
    async def work():
        assert ids.known("a-value", 3) is None
        assert await asyncio.gather(ids.ask("a-value", 3), ids.ask("a-value", 3)) == [True, True]
        assert ids.known("a-value", 3) is True

    asyncio.run(work())
    assert asked == ["/schemas/ids/3/versions?subject=a-value"]


@pytest.mark.parametrize(("subject", "schema"), [("a-value", 11), ("b-value", 3)])
def test_what_is_not_there_is_asked_for_again_later(ids, clock, asked, subject, schema):
    async def work():
        assert await ids.ask(subject, schema) is False
        assert ids.known(subject, schema) is False
        clock.advance(5)
        assert ids.known(subject, schema) is None

    asyncio.run(work())


def test_a_guid_leads_to_ids(ids, asked):
    assert asyncio.run(ids.ask("a-value", GUID)) is True
    assert asked[0] == f"/schemas/guids/{GUID}/ids"


def test_a_registry_that_fails_is_no_answer(ids, asked):
    async def work():
        with pytest.raises(KafkaError) as refused:
            await ids.ask("a-value", 50)
        assert refused.value.code == ErrorCode.REQUEST_TIMED_OUT
        assert "nobody there" in str(refused.value)
        assert ids.known("a-value", 50) is None

    asyncio.run(work())


def test_a_url_that_is_none():
    with pytest.raises(KafkaError) as refused:
        RegistrySchemaIds("nonsense", None, SteppedClock(), 5)
    assert refused.value.code == ErrorCode.INVALID_CONFIG
