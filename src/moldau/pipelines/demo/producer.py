"""Writes the shop's events to their topics as they happen: ``python -m moldau.pipelines.demo.producer``.

It creates the topics, writes the customers, prints that it is ready, and goes on until SIGTERM or Ctrl-C. Its
last line says what it wrote. An error of the cluster ends it with one line.
"""

import argparse
import asyncio
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

from moldau.base.clock import Clock, SystemClock
from moldau.client.admin.admin import Admin, raise_errors
from moldau.client.admin.descriptions import NewTopic
from moldau.client.producer.accumulator import RecordMetadata
from moldau.client.producer.producer import Producer
from moldau.client.registry.schema_registry import RegistryClient, RegistryError
from moldau.client.transport.cluster import Cluster
from moldau.client.transport.security import PLAINTEXT, Security
from moldau.pipelines.demo.arguments import add_cluster_arguments, client_settings
from moldau.pipelines.demo.records import (
    ORDER_SCHEMA,
    DemoRecord,
    Encoder,
    customer_record,
    json_order,
    record_of,
)
from moldau.pipelines.demo.shop import CLICKS, CUSTOMERS, ORDERS, Order, Shop
from moldau.protocol.errors import ErrorCode, KafkaError

READY = "moldau demo producer ready"
_TICK_SECONDS = 0.1
_HOUR_MS = "3600000"

#: A demo that runs for days keeps the last hour; customers are kept for good, the latest state of each.
TOPICS = (
    NewTopic(ORDERS, 2, configs={"retention.ms": _HOUR_MS}),
    NewTopic(CLICKS, 2, configs={"retention.ms": _HOUR_MS}),
    NewTopic(CUSTOMERS, 1, configs={"cleanup.policy": "compact"}),
)


async def create_topics(cluster: Cluster, topics: Sequence[NewTopic] = TOPICS) -> None:
    """Creates the topics that do not exist yet."""
    created = await Admin(cluster).create_topics(topics)
    exists = ErrorCode.TOPIC_ALREADY_EXISTS
    raise_errors({n: o for n, o in created.items() if not (isinstance(o, KafkaError) and o.code == exists)})


class Writer:
    """Sends records; an error about one is raised by the next ``send``, or by ``flush``."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self._refused: KafkaError | None = None

    async def send(self, record: DemoRecord) -> None:
        self._check()
        await self._producer.send(
            record.topic,
            record.value,
            record.key,
            timestamp_ms=record.timestamp_ms,
            on_delivery=self._delivered,
        )

    async def flush(self) -> None:
        await self._producer.flush()
        self._check()

    def _delivered(self, outcome: RecordMetadata | KafkaError) -> None:
        if isinstance(outcome, KafkaError):
            self._refused = outcome

    def _check(self) -> None:
        if self._refused is not None:
            raise self._refused


async def produce(
    writer: Writer, shop: Shop, encode_order: Encoder, clock: Clock, stop: asyncio.Event
) -> Counter[str]:
    """Writes what happens in the shop until ``stop``; returns how many records of which kind."""
    written: Counter[str] = Counter()
    while not stop.is_set():
        for event in shop.events(clock.now_ms()):
            await writer.send(record_of(event, encode_order))
            written[ORDERS if isinstance(event, Order) else CLICKS] += 1
            if isinstance(event, Order) and event.fault:
                written[event.fault] += 1
        try:
            async with asyncio.timeout(_TICK_SECONDS):
                await stop.wait()
        except TimeoutError:
            continue
    await writer.flush()
    return written


async def run(
    bootstrap_servers: str,
    registry_url: str | None,
    seed: int,
    clicks_per_second: float,
    security: Security = PLAINTEXT,
) -> None:
    clock = SystemClock()
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with await Cluster.open(bootstrap_servers, client_id="moldau-demo", security=security) as cluster:
        await create_topics(cluster)
        encode = json_order if registry_url is None else avro_encoder(registry_url)
        shop = Shop(seed, clock.now_ms(), clicks_per_second=clicks_per_second)
        async with await Producer.open(cluster, linger_ms=20) as producer:
            writer = Writer(producer)
            for customer in shop.customers:
                await writer.send(customer_record(customer, clock.now_ms()))
            await writer.flush()
            print(f"{READY}: {bootstrap_servers}", flush=True)
            written = await produce(writer, shop, encode, clock, stop)
    print(
        "moldau demo producer stopped:", ", ".join(f"{n} {what}" for what, n in written.items()), flush=True
    )


def avro_encoder(registry_url: str) -> Encoder:
    """Registers the schema of an order, so that readers find it, and encodes by it."""
    from moldau.serde.avro import AvroSerializer

    client = RegistryClient(registry_url)
    client.register(f"{ORDERS}-value", ORDER_SCHEMA)
    serializer = AvroSerializer(client, ORDER_SCHEMA)

    def encode(order: dict[str, Any]) -> bytes:
        value = serializer.serialize(ORDERS, order)
        assert value is not None
        return value

    return encode


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Write the demo's orders, clicks and customers.")
    add_cluster_arguments(parser)
    parser.add_argument("--registry", metavar="URL", help="orders as Avro by this schema registry, else JSON")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--clicks-per-second", type=float, default=40.0)
    given = parser.parse_args(arguments)
    try:
        security = Security.of(client_settings(given))
        asyncio.run(
            run(given.bootstrap_servers, given.registry, given.seed, given.clicks_per_second, security)
        )
    except (KafkaError, RegistryError, ValueError, OSError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
