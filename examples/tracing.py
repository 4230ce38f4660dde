"""One trace over three programs: a shop writes orders, billing reads them and writes bills, a mailer reads
bills.

Each record carries a W3C ``traceparent`` header; whoever handles it makes a child of it. The spans are
printed as a tree, and are what an OpenTelemetry exporter would send.

    python examples/tracing.py                     starts a broker of its own
    python examples/tracing.py 127.0.0.1:9092      uses yours
"""

import asyncio
import os
import sys

from moldau.base.names import TopicPartition
from moldau.base.trace_context import TRACEPARENT, TraceContext
from moldau.client.consumer.consumer import BEGINNING, Consumer
from moldau.client.producer.producer import Producer
from moldau.client.transport.cluster import Cluster
from moldau.testing import Broker

#: (name, span, parent or None) of everything that was done.
Spans = list[tuple[str, TraceContext, TraceContext | None]]


async def shop(producer: Producer, spans: Spans) -> None:
    for number in range(2):
        span = TraceContext.new(os.urandom)
        spans.append((f"shop: order {number}", span, None))
        headers = [(TRACEPARENT, span.header())]
        await (await producer.send("orders", f"order {number}".encode(), headers=headers))


async def billing(cluster: Cluster, producer: Producer, spans: Spans) -> None:
    async for value, parent in traced(cluster, "orders", 2):
        span = parent.child(os.urandom)
        spans.append((f"billing: {value.decode()}", span, parent))
        await (await producer.send("bills", b"bill of " + value, headers=[(TRACEPARENT, span.header())]))


async def mailer(cluster: Cluster, spans: Spans) -> None:
    async for value, parent in traced(cluster, "bills", 2):
        spans.append((f"mailer: {value.decode()}", parent.child(os.urandom), parent))


async def traced(cluster: Cluster, topic: str, count: int):  # type: ignore[no-untyped-def]
    """The records of a topic, each with the span that wrote it."""
    async with Consumer(cluster) as consumer:
        await consumer.assign({TopicPartition(topic, 0): BEGINNING})
        async for record in consumer:
            yield record.value, TraceContext.of(record.headers) or TraceContext.new(os.urandom)
            count -= 1
            if not count:
                return


def tree(spans: Spans) -> list[str]:
    """Spans as lines, each below its parent."""
    lines: list[str] = []

    def add(parent: TraceContext | None, depth: int) -> None:
        for name, span, of in spans:
            if of == parent:
                lines.append(f"{'  ' * depth}{name}  trace {span.trace_id[:8]} span {span.span_id}")
                add(span, depth + 1)

    add(None, 0)
    return lines


async def play(bootstrap_servers: str) -> list[str]:
    spans: Spans = []
    async with (
        await Cluster.open(bootstrap_servers) as cluster,
        await Producer.open(cluster) as producer,
    ):
        await shop(producer, spans)
        await billing(cluster, producer, spans)
        await mailer(cluster, spans)
    return tree(spans)


def main() -> None:
    if len(sys.argv) > 1:
        print("\n".join(asyncio.run(play(sys.argv[1]))))
        return
    with Broker({"auto.create.topics.enable": True}) as broker:
        print("\n".join(asyncio.run(play(broker.bootstrap_servers))))


if __name__ == "__main__":
    main()
