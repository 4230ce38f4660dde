"""Spark's events of streaming queries, kept as statuses and published to a compacted topic.

    from moldau.spark import listen

    listener = listen(spark, "localhost:9092")

The topic is ``__moldau_pipelines``: the key is the query's name, the value its QueryStatus as JSON.

Invariant: a failure here never disturbs the query: a cluster that does not answer is logged. Events come on a
thread of Spark's, which never waits for the cluster.
"""

import asyncio
import json
import logging
import platform
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from moldau.client.admin.admin import Admin
from moldau.client.admin.descriptions import NewTopic
from moldau.client.producer.producer import Producer
from moldau.client.transport.background_loop import BackgroundLoop
from moldau.client.transport.cluster import Cluster
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.spark.background_loop import connect
from moldau.spark.options import read_options
from moldau.spark.query.failures import sentence
from moldau.spark.query.progress import FAILED, STARTING, STOPPED, QueryStatus, with_progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("moldau.spark")

PIPELINES_TOPIC = "__moldau_pipelines"
#: A status is small, and the newest counts: one that waits longer than this is of no use.
_DELIVERY_TIMEOUT_MS = 30_000
_SEGMENT_BYTES = 16 * 1024 * 1024


class Publisher:
    """Writes statuses to the topic, in the background; ``flush`` before the program ends."""

    def __init__(self, loop: BackgroundLoop) -> None:
        self._loop = loop
        self._producer: Producer | None = None
        self._pending: list[Any] = []
        self._one_by_one = asyncio.Lock()

    def publish(self, status: QueryStatus) -> None:
        self._pending = [each for each in self._pending if not each.done()]
        self._pending.append(self._loop.submit(self._send(status)))

    def flush(self) -> None:
        """Waits for the statuses that are in flight."""
        for each in self._pending:
            each.result()
        self._pending = []

    async def _send(self, status: QueryStatus) -> None:
        key, value = status.name.encode(), json.dumps(status.to_json()).encode()
        try:
            async with self._one_by_one:
                if self._producer is None:
                    await make_topic(self._loop.cluster)
                    self._producer = await Producer.open(
                        self._loop.cluster, linger_ms=0, delivery_timeout_ms=_DELIVERY_TIMEOUT_MS
                    )
                await (await self._producer.send(PIPELINES_TOPIC, value, key))
        except KafkaError as error:
            log.warning("the progress of %s is not published: %s", status.name, error)


async def make_topic(cluster: Cluster) -> None:
    """Creates the compacted topic unless it exists."""
    wanted = NewTopic(
        PIPELINES_TOPIC,
        1,
        min(3, max(len(cluster.brokers), 1)),
        # Small segments: the last one is not compacted, and whoever wants to see all queries reads it whole.
        configs={"cleanup.policy": "compact", "segment.bytes": str(_SEGMENT_BYTES)},
    )
    outcome = (await Admin(cluster).create_topics([wanted]))[PIPELINES_TOPIC]
    if isinstance(outcome, KafkaError) and outcome.code != ErrorCode.TOPIC_ALREADY_EXISTS:
        raise outcome


class QueryListener(StreamingQueryListener):
    """The newest status of each query of a session, by name; ``on_change`` is called with each."""

    def __init__(self, on_change: Callable[[QueryStatus], None] | None = None, group: str = "") -> None:
        self._on_change = on_change
        self._group = group
        self._names: dict[str, str] = {}
        self.statuses: dict[str, QueryStatus] = {}

    def onQueryStarted(self, event: Any) -> None:
        name = event.name or str(event.id)
        self._names[str(event.runId)] = name
        self._keep(
            QueryStatus(
                name,
                str(event.id),
                str(event.runId),
                self._group or event.name or "",
                platform.node(),
                STARTING,
                updated=event.timestamp or "",
            )
        )

    def onQueryProgress(self, event: Any) -> None:
        progress = json.loads(event.progress.json)
        status = self._status(progress["runId"])
        if status is not None:
            self._keep(with_progress(status, progress))

    def onQueryIdle(self, event: Any) -> None:
        """Nothing arrived: the status stays as it is, with a rate of 0."""
        status = self._status(str(event.runId))
        if status is not None:
            idle = replace(status, input_rows_per_second=0.0, processed_rows_per_second=0.0, batch_rows=0)
            self._keep(replace(idle, updated=event.timestamp or status.updated))

    def onQueryTerminated(self, event: Any) -> None:
        status = self._status(str(event.runId))
        if status is not None:
            error = sentence(event.exception) if event.exception else None
            self._keep(replace(status, state=FAILED if error else STOPPED, error=error))

    def _status(self, run_id: str) -> QueryStatus | None:
        return self.statuses.get(self._names.get(run_id, ""))

    def _keep(self, status: QueryStatus) -> None:
        self.statuses[status.name] = status
        if self._on_change is not None:
            self._on_change(status)


def listen(spark: "SparkSession", bootstrap_servers: str, **options: str) -> QueryListener:
    """Publishes the progress of every query of a session from now on; more options say how to connect."""
    given = {"kafka.bootstrap.servers": bootstrap_servers, "subscribe": PIPELINES_TOPIC, **options}
    publisher = Publisher(connect(read_options(given).cluster))
    listener = QueryListener(publisher.publish)
    spark.streams.addListener(listener)
    return listener
