"""Schemas carried from one registry to another: the same ids, or said loudly."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from moldau.cli.main import cli
from moldau.client.registry.errors import RegistryError
from moldau.client.registry.schema_registry import Reference, RegistryClient
from moldau.mirror.rules.properties import read_settings
from moldau.mirror.schemas import SchemaSync
from moldau.registry.server import ServerOptions, serve
from moldau.testing import Broker
from tests.mirror.flows import SETTINGS, log_bounds, running, settings_with
from tests.shared.waiting import wait_until

pytestmark = pytest.mark.slow

ADDRESS = '{"type":"record","name":"Address","namespace":"x","fields":[{"name":"street","type":"string"}]}'
USER = '{"type":"record","name":"User","fields":[{"name":"home","type":"x.Address"}]}'


@contextmanager
def registry(broker: Broker) -> Iterator[str]:
    """A registry in a thread of its own; its URL."""
    started: Future[tuple[str, Callable[[], None]]] = Future()

    async def work() -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()

        def ready(url: str, _: object) -> None:
            started.set_result((url, lambda: loop.call_soon_threadsafe(stop.set)))

        await serve(ServerOptions(broker.bootstrap_servers), ready, stop)

    thread = threading.Thread(target=lambda: asyncio.run(work()), name="registry", daemon=True)
    thread.start()
    url, stop = started.result(60)
    try:
        yield url
    finally:
        stop()
        thread.join(60)
        assert not thread.is_alive()


@pytest.fixture
def brokers() -> Iterator[tuple[Broker, Broker]]:
    with Broker(SETTINGS) as a, Broker(SETTINGS) as b:
        yield a, b


@pytest.fixture
def urls(brokers: tuple[Broker, Broker]) -> Iterator[tuple[str, str]]:
    with registry(brokers[0]) as one, registry(brokers[1]) as other:
        yield one, other


def shown(client: RegistryClient) -> list[tuple[object, ...]]:
    """Every version that there is, deleted ones too."""
    found = []
    for subject in client.subjects(deleted=True):
        present = client.versions(subject) if subject in client.subjects() else []
        for version in client.versions(subject, deleted=True):
            answer = client.call("GET", f"/subjects/{subject}/versions/{version}?deleted=true")
            found.append((subject, version, answer["id"], answer["schema"], version in present))
    return found


def test_a_look_carries_what_is_new(urls: tuple[str, str], caplog: pytest.LogCaptureFixture) -> None:
    with RegistryClient(urls[0]) as source, RegistryClient(urls[1]) as target:
        source.register("numbers", '"int"')
        source.register("numbers", '"long"')
        source.delete_version("numbers", 1)
        source.register("address", ADDRESS)
        source.register("users-value", USER, references=[Reference("x.Address", "address", 1)])
        sync = SchemaSync("A->B", source, target)
        assert sync.look() == 4
        assert shown(target) == shown(source)
        assert target.mode("numbers") == "IMPORT"
        with pytest.raises(RegistryError, match=r"IMPORT|import"):
            target.register("numbers", '"string"')
        assert sync.look() == 0
        source.delete_version("numbers", 2)
        source.register("more", '"bytes"')
        assert sync.look() == 2
        assert shown(target) == shown(source)
        # A mirror that starts again finds that everything is there.
        assert SchemaSync("A->B", source, target).look() == 0
        # What the target has used for something else stays, and is said.
        target.register("own", '"double"')
        source.register("next", '"float"')
        source.register("last", '"boolean"')
        assert sync.look() == 1
        assert "id 6) is NOT carried over" in caplog.text
        assert "last" in target.subjects()


def test_a_flow_carries_schemas(brokers: tuple[Broker, Broker], urls: tuple[str, str]) -> None:
    a, b = brokers
    a.create_topic("orders")
    a.produce("orders", b"1")
    more = {
        "A.schema.registry.url": urls[0],
        "B.schema.registry.url": urls[1],
        "moldau.sync.schemas.enabled": "true",
        "moldau.sync.schemas.interval.seconds": "0.2",
        "topics": "orders",
    }
    with RegistryClient(urls[0]) as source, RegistryClient(urls[1]) as target:
        source.register("orders-value", '"int"')
        with running(settings_with({"A": a, "B": b}, ("A->B",), more)):
            wait_until(lambda: shown(target) == shown(source), seconds=60)
            source.register("orders-value", '"long"')
            wait_until(lambda: shown(target) == shown(source), seconds=60)


def test_both_registries_are_named() -> None:
    given = {
        "clusters": "A,B",
        "A.bootstrap.servers": "a:1",
        "B.bootstrap.servers": "b:1",
        "A->B.enabled": "true",
    }
    with pytest.raises(ValueError, match=r"A\.schema\.registry\.url is missing"):
        read_settings({**given, "moldau.sync.schemas.enabled": "true"})
    urls = {"A.schema.registry.url": "http://a", "B.schema.registry.url": "http://b"}
    more = {
        **given,
        **urls,
        "A->B.moldau.sync.schemas.enabled": "true",
        "A.basic.auth.user.info": "ann:secret",
    }
    (flow,) = read_settings(more).flows
    assert flow.registries is not None
    assert [each.url for each in flow.registries] == ["http://a", "http://b"]
    assert "secret" not in repr(flow)


def test_a_cluster_moves_with_the_schemas_of_its_registry(
    brokers: tuple[Broker, Broker], tmp_path: Path
) -> None:
    """They are in a topic like any other: a registry that is started at the new cluster has them."""
    a, b = brokers
    state = ["--state", str(tmp_path / "migration.json")]
    with registry(a) as old:
        with RegistryClient(old) as client:
            client.register("address-value", ADDRESS)
            before = shown(client)
        addresses = ["--from", a.bootstrap_servers, "--to", b.bootstrap_servers]
        planned = CliRunner().invoke(cli, ["migrate", "plan", *addresses, *state, "--json"])
        assert [each["name"] for each in json.loads(planned.stdout)["topics"]] == ["_schemas"], planned.output
        identity = {"replication.policy.class": "IdentityReplicationPolicy"}
        with running(settings_with({"A": a, "B": b}, ("A->B",), identity)):
            wait_until(
                lambda: "_schemas" in b.topics() and log_bounds(a, "_schemas") == log_bounds(b, "_schemas")
            )
            done = CliRunner().invoke(cli, ["migrate", "cutover", *state])
            assert done.exit_code == 0, done.output
    with registry(b) as new, RegistryClient(new) as client:
        assert shown(client) == before
        client.register("user-value", '"string"')
        assert [row[2] for row in shown(client)] == [1, 2]
