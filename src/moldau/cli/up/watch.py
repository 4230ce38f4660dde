"""Watches the demo as a client: records in topics, lag of groups, results as a consumer reads them.

    async with await Cluster.open(address) as cluster:
        watch = Watch(cluster, clock, clock.monotonic())
        reading = [asyncio.create_task(reader) for reader in watch.readers()]
        snapshot = await watch.look()

Invariant: changes nothing. A topic or a group that does not exist yet counts as empty. Results are counted as
they are read, because the markers of transactions take offsets, too.
"""

import asyncio
import json
from collections import Counter, deque
from collections.abc import Coroutine, Mapping

from moldau.base.clock import Clock
from moldau.base.names import TopicPartition
from moldau.cli.reports.live_view import HISTORY, DemoSnapshot, QueryLag, Revenue, TopicFlow
from moldau.client.admin.admin import Admin
from moldau.client.admin.descriptions import LATEST, READ_COMMITTED, READ_UNCOMMITTED, ListedOffset
from moldau.client.consumer.consumer import Consumer, at_offset
from moldau.client.consumer.fetched import ConsumerRecord
from moldau.client.groups.descriptions import CommittedOffset
from moldau.client.groups.groups import Groups
from moldau.client.transport.cluster import Cluster
from moldau.pipelines.demo.shop import CLICKS, ORDERS
from moldau.protocol.errors import ErrorCode, KafkaError

REVENUE = "revenue"
CONVERSIONS = "conversions"
DEAD_LETTER = "orders.dead-letter"
RESULTS = (REVENUE, CONVERSIONS, DEAD_LETTER)

#: The groups of the pipeline's queries, and the topic that each reads.
GROUPS = {
    "demo-revenue": ORDERS,
    "demo-conversions": ORDERS,
    "demo-conversions-clicks": CLICKS,
    "demo-rejected": ORDERS,
    "demo-orders": ORDERS,
}
#: Bad records and windows that are kept for the view.
_LAST_BAD = 6
_WINDOWS = 12
_TOPIC_POLL_SECONDS = 0.5


class Watch:
    """Keeps the history that a snapshot shows; ``began`` is the start, as ``clock.monotonic()`` gave it."""

    def __init__(
        self, cluster: Cluster, clock: Clock, began: float, services: tuple[tuple[str, str], ...] = ()
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._admin = Admin(cluster)
        self._groups = Groups(cluster)
        self._began = began
        self._services = services
        self._looked = began
        self._known: dict[str, list[TopicPartition]] = {}
        self._at_start: dict[TopicPartition, int] = {}
        self._totals: Counter[str] = Counter()
        self._rates: dict[str, deque[float]] = {n: deque(maxlen=HISTORY) for n in (ORDERS, CLICKS, *RESULTS)}
        self._counted: Counter[str] = Counter()
        self._readers: dict[TopicPartition, Consumer] = {}
        self._windows: dict[str, dict[str, Revenue]] = {}
        self._bad: deque[tuple[str, str]] = deque(maxlen=_LAST_BAD)
        #: Set by the first row of a window that came in this run, and when that was.
        self.first_result = asyncio.Event()
        self._first_result_seconds: float | None = None

    async def mark_start(self) -> None:
        """Remembers the ends of the topics: records from earlier runs are not counted."""
        self._at_start = await self._ends((ORDERS, CLICKS, *RESULTS))

    async def look(self, notes: tuple[str, ...] = ()) -> DemoSnapshot:
        """Asks the cluster, and returns what the demo does now."""
        now = self._clock.monotonic()
        ends = await self._ends((ORDERS, CLICKS))
        totals = Counter(self._counted)
        for partition, end in ends.items():
            totals[partition.topic] += end - self._at_start.get(partition, 0)
        seconds = max(now - self._looked, 0.001)
        for name, rates in self._rates.items():
            rates.append((totals[name] - self._totals[name]) / seconds)
        self._totals, self._looked = totals, now
        flows = {n: TopicFlow(n, totals[n], tuple(rates)) for n, rates in self._rates.items()}
        return DemoSnapshot(
            seconds=now - self._began,
            services=self._services,
            flows=(flows[ORDERS], flows[CLICKS]),
            results=tuple(flows[name] for name in RESULTS),
            queries=tuple([QueryLag(name, await self._lag(name, ends)) for name in GROUPS]),
            window=self._latest_window(),
            bad_count=self._counted[DEAD_LETTER],
            bad=tuple(self._bad),
            first_result_seconds=self._first_result_seconds,
            notes=notes,
        )

    async def caught_up(self) -> bool:
        """Whether every query has committed all that its topic has, and all results have been read here."""
        ends = await self._ends((ORDERS, CLICKS))
        if any([await self._lag(name, ends) != 0 for name in GROUPS]):
            return False
        stable = await self._ends(RESULTS, READ_COMMITTED)
        return all(p in self._readers and self._readers[p].position(p) >= end for p, end in stable.items())

    def readers(self) -> list[Coroutine[None, None, None]]:
        """Coroutines that read the results of this run and never end; to be run as tasks."""
        return [self._read(topic) for topic in RESULTS]

    async def _read(self, topic: str) -> None:
        while not (partitions := await self._partitions(topic)):
            await asyncio.sleep(_TOPIC_POLL_SECONDS)
        async with Consumer(self._cluster, isolation_level=READ_COMMITTED) as consumer:
            # A topic that was created after the start is read from its first record.
            await consumer.assign({p: at_offset(self._at_start.get(p, 0)) for p in partitions})
            self._readers.update(dict.fromkeys(partitions, consumer))
            async for record in consumer:
                self.take(record)

    def take(self, record: ConsumerRecord) -> None:
        """Counts one result, and keeps what the view shows of it."""
        self._counted[record.topic] += 1
        if record.topic == DEAD_LETTER:
            found = {name: (value or b"").decode("utf-8", "replace") for name, value in record.headers}
            position = f"{found.get('moldau.partition', '?')}@{found.get('moldau.offset', '?')}"
            self._bad.appendleft((found.get("moldau.error", "no reason given"), position))
        elif record.topic == REVENUE and record.value is not None:
            row = revenue_row(json.loads(record.value))
            self._windows.setdefault(row.window, {})[row.town] = row
            for old in sorted(self._windows)[:-_WINDOWS]:
                del self._windows[old]
            if not self.first_result.is_set():
                self._first_result_seconds = self._clock.monotonic() - self._began
                self.first_result.set()

    def _latest_window(self) -> tuple[Revenue, ...]:
        """The newest window, its towns by revenue."""
        if not self._windows:
            return ()
        rows = self._windows[max(self._windows)].values()
        return tuple(sorted(rows, key=lambda row: (-row.amount, row.town)))

    async def _lag(self, group: str, ends: Mapping[TopicPartition, int]) -> int | None:
        """Records of its topic that a query has not committed; None while it has committed nothing."""
        try:
            found = await self._groups.committed(group)
        except KafkaError as error:
            if error.code == ErrorCode.GROUP_ID_NOT_FOUND:
                return None
            raise
        done = {tp: each.offset for tp, each in found.items() if isinstance(each, CommittedOffset)}
        if not done:
            return None
        of_topic = {tp: end for tp, end in ends.items() if tp.topic == GROUPS[group]}
        return sum(max(0, end - done.get(tp, 0)) for tp, end in of_topic.items())

    async def _ends(
        self, topics: tuple[str, ...], level: int = READ_UNCOMMITTED
    ) -> dict[TopicPartition, int]:
        partitions = [p for topic in topics for p in await self._partitions(topic)]
        listed = await self._admin.list_offsets(dict.fromkeys(partitions, LATEST), isolation_level=level)
        return {tp: each.offset for tp, each in listed.items() if isinstance(each, ListedOffset)}

    async def _partitions(self, topic: str) -> list[TopicPartition]:
        if topic not in self._known:
            try:
                found = await self._cluster.topic(topic, refresh=True)
            except KafkaError as error:
                if error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    return []
                raise
            self._known[topic] = [TopicPartition(topic, each.index) for each in found.partitions]
        return self._known[topic]


def revenue_row(value: Mapping[str, object]) -> Revenue:
    """A row of the topic ``revenue``; the window is named by the time at which it begins."""
    start = str(value["window_start"])
    return Revenue(
        start[:19].replace("T", " "), str(value["town"]), int(str(value["orders"])), int(str(value["amount"]))
    )
