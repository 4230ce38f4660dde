"""The demo's producer against a real broker: topics as they should be, and every event a record."""

import asyncio
import json
from collections import Counter
from pathlib import Path

import pytest

from moldau.base.clock import SystemClock
from moldau.client.admin.admin import Admin
from moldau.client.admin.descriptions import ConfigResource, ResourceType
from moldau.client.producer.producer import Producer
from moldau.client.transport.cluster import Cluster
from moldau.pipelines.demo.producer import Writer, create_topics, main, produce
from moldau.pipelines.demo.records import DemoRecord, json_order
from moldau.pipelines.demo.shop import CLICKS, CUSTOMERS, ORDERS, Order, Shop
from moldau.protocol.errors import KafkaError
from moldau.testing import Broker

#: A broker refuses records that are hours away from its own time.
BEGAN_MS = SystemClock().now_ms()


class Hurried(SystemClock):
    """Ten seconds pass with each look; after the second one it is time to stop."""

    def __init__(self, stop: asyncio.Event) -> None:
        self._stop = stop
        self._now_ms = BEGAN_MS

    def now_ms(self) -> int:
        self._now_ms += 10_000
        if self._now_ms >= BEGAN_MS + 20_000:
            self._stop.set()
        return self._now_ms


def test_events_are_written_as_they_happen() -> None:
    async def work(servers: str) -> Counter[str]:
        async with await Cluster.open(servers) as cluster:
            await create_topics(cluster)
            await create_topics(cluster)  # a second run finds them
            wanted = ConfigResource(ResourceType.TOPIC, CUSTOMERS)
            found = (await Admin(cluster).describe_configs([wanted]))[wanted]
            assert not isinstance(found, Exception)
            assert {entry.name: entry.value for entry in found}["cleanup.policy"] == "compact"
            stop = asyncio.Event()
            async with await Producer.open(cluster) as producer:
                return await produce(Writer(producer), Shop(1, BEGAN_MS), json_order, Hurried(stop), stop)

    with Broker() as broker:
        written = asyncio.run(work(broker.bootstrap_servers))
        events = list(Shop(1, BEGAN_MS).events(BEGAN_MS + 20_000))
        orders = [event for event in events if isinstance(event, Order)]
        assert written[ORDERS] == len(orders) == len(list(broker.records(ORDERS)))
        assert written[CLICKS] == len(events) - len(orders)
        clicks = [json.loads(record.value or b"") for record in broker.records(CLICKS)]
        assert {click["click_id"] for click in clicks} == {
            e.click_id for e in events if not isinstance(e, Order)
        }


def test_a_record_that_is_refused_ends_it() -> None:
    async def work(servers: str) -> None:
        async with await Cluster.open(servers) as cluster:
            await create_topics(cluster)
            async with await Producer.open(cluster) as producer:
                writer = Writer(producer)
                await writer.send(DemoRecord(CUSTOMERS, b"c", b"{}", BEGAN_MS))
                await writer.flush()
                await writer.send(DemoRecord(CUSTOMERS, b"c", b"{}", BEGAN_MS * 2))
                with pytest.raises(KafkaError):
                    await writer.flush()

    with Broker() as broker:
        asyncio.run(work(broker.bootstrap_servers))


def test_a_cluster_or_a_registry_that_is_not_there_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--bootstrap-servers", "127.0.0.1:1"]) == 1
    assert "Error: " in (said := capsys.readouterr().err)
    assert said.count("\n") == 1
    with Broker() as broker:
        assert (
            main(["--bootstrap-servers", broker.bootstrap_servers, "--registry", "http://127.0.0.1:1"]) == 1
        )
    assert "http://127.0.0.1:1 cannot be reached" in capsys.readouterr().err


def test_the_pipeline_of_the_demo_has_the_steps_that_the_view_shows() -> None:
    from moldau.cli.up.watch import GROUPS, RESULTS
    from moldau.pipelines.definitions import ParquetOutput, TopicOutput
    from moldau.pipelines.demo.runner import FILE, NAME
    from moldau.pipelines.files import load

    pytest.importorskip("pyspark")
    pipeline = load(Path(FILE), NAME)
    outputs = [step.output for step in pipeline.steps]
    assert [each.topic for each in outputs if isinstance(each, TopicOutput)] == list(RESULTS)
    assert [each.path for each in outputs if isinstance(each, ParquetOutput)] == ["orders"]
    assert {pipeline.query_name(step.name) for step in pipeline.steps} | {"demo-conversions-clicks"} == set(
        GROUPS
    )
