"""The plain path of Produce beside the general one: the same answers, logs and counters, byte for byte.

Two brokers with one stopped clock get the same frames; in one of them something stands around the handlers,
so that it has no plain path.
"""

import asyncio
import errno
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from moldau.base.clock import SteppedClock
from moldau.node import Node
from moldau.protocol.api_keys import ApiKey
from moldau.protocol.compression import Compression
from moldau.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.storage.files import OsFile
from moldau.testing.broker import create_topic
from tests.broker.fake_transport import FakeConnection
from tests.broker.random_requests import RandomRequests
from tests.contract import batches
from tests.contract.wire import frame, raw_frame
from tests.shared.waiting import turns, until

NOW_MS = 1_700_000_000_000
TOPICS: dict[str, dict[str, str]] = {
    "plain": {},
    "compacted": {"cleanup.policy": "compact"},
    "append-time": {"message.timestamp.type": "LogAppendTime"},
    "gzip": {"compression.type": "gzip"},
    "flushed": {"flush.messages": "1"},
    "narrow": {"max.message.bytes": "200"},
    "short": {"segment.bytes": "1048576", "message.timestamp.before.max.ms": "1000"},
    "n" * 140: {},
}
NOWHERE = bytes(15) + b"\x01"
VERSIONS = range(3, 14)


def batch(*values: bytes, timestamp: int = NOW_MS, **options: Any) -> bytes:
    return bytes(batches.batch(*(values or (b"v",)), timestamp=timestamp, **options))


class Side:
    """One broker with its topics, and one connection after the other to it."""

    def __init__(self, directory: Path, clock: SteppedClock, *, plain: bool, **settings: str) -> None:
        properties = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(directory), **settings}
        around = None if plain else lambda key, handle: lambda request, context: handle(request, context)
        self.node = Node(properties, clock=clock, wrap_handler=around)
        self.directory = directory
        self.answered_plainly = 0

    async def start(self) -> None:
        await self.node.start()
        for name, configs in TOPICS.items():
            await create_topic(self.node, name, 2, configs)
        self.connect()

    def connect(self) -> None:
        self.client = FakeConnection(self.node.dispatch.frame, loop=asyncio.get_running_loop())

    def topic_id(self, name: str) -> bytes:
        known = self.node.metadata.image.topics_by_name.get(name)
        return NOWHERE if known is None else known.topic_id

    def count_plain(self, version: int) -> None:
        """From now on counts what the plain path answers."""
        route = self.node.dispatch._routes.get((ApiKey.PRODUCE, version))
        if route is None or route.plain is None or getattr(route.plain, "counted", False):
            return
        inner = route.plain

        def counted(*arguments: Any) -> Any:
            answer = inner(*arguments)
            self.answered_plainly += answer is not None
            return answer

        counted.counted = True  # type: ignore[attr-defined]
        route.plain = counted

    def logs(self) -> dict[str, bytes]:
        """What is in the log of every partition."""
        return {
            str(path.relative_to(self.directory)): path.read_bytes()
            for path in sorted(self.directory.glob("*-[01]/*.log"))
        }

    def counters(self) -> dict[str, Any]:
        """What is counted of all that came so far."""
        services = self.node.services
        produce = services.requests.api(ApiKey.PRODUCE)
        return {
            "requests": {version: tally.count for version, tally in sorted(produce.versions.items())},
            "errors": produce.errors,
            "failures": (+services.topic_failures.all, services.topic_failures.by_topic),
            "partitions": {
                each.topic_partition: (each.appends, each.bytes_in, each.high_watermark, each.messages_in)
                for each in services.replicas
            },
        }


class Pair:
    """Both brokers; ``send`` compares what comes of one frame."""

    def __init__(self, directory: Path, **settings: str) -> None:
        clock = SteppedClock(frozen=True, start_ms=NOW_MS)
        self.plain = Side(directory / "one", clock, plain=True, **settings)
        self.general = Side(directory / "two", clock, plain=False, **settings)
        self.sides = (self.plain, self.general)

    async def send(self, make: Callable[[Side], bytes], *, answered: bool = True) -> bytes:
        answers = []
        for side in self.sides:
            data = make(side)
            side.client.feed(data)
            if answered:
                client = side.client
                await until(lambda client=client: client.transport.data or client.transport.closed)
            await turns(3)
            answer = side.client.transport.data.replace(b"/two/", b"/one/")  # an error names its directory
            for name in TOPICS:  # ids are drawn by lot
                answer = answer.replace(side.topic_id(name), name.encode().ljust(16)[:16])
            answers.append((answer, side.client.transport.closed))
            side.client.transport.written.clear()
            if side.client.transport.closed:
                side.client.lose()
                side.connect()
        assert answers[0] == answers[1], make(self.plain).hex()
        return answers[0][0]

    def check(self) -> None:
        assert self.plain.logs() == self.general.logs()
        assert self.plain.counters() == self.general.counters()


def together(directory: Path, play: Callable[[Pair], Awaitable[None]], **settings: str) -> None:
    async def scene() -> None:
        pair = Pair(directory, **settings)
        for side in pair.sides:
            await side.start()
        try:
            await play(pair)
            pair.check()
        finally:
            for side in pair.sides:
                await side.node.stop()

    asyncio.run(scene())


def request(
    side: Side, version: int, topic: str, records: bytes | None, acks: int = 1, **options: Any
) -> bytes:
    data = [PartitionProduceData(options.pop("partition", 0), records)]
    named = TopicProduceData(topic, side.topic_id(topic), data)
    message = ProduceRequest(options.pop("transactional_id", None), acks, 5000, [named])
    return frame(message, version, **options)


class Producers:
    """Requests as producers send them, and as nobody should."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.damaged = RandomRequests(seed, NOWHERE).damaged
        self.sequences: Counter[int] = Counter()

    def records(self) -> bytes | None:
        choose = self.random.choice
        count = choose((1, 1, 1, 2, 40, 300))
        options: dict[str, Any] = {}
        kind = self.random.randrange(8)
        if kind == 0:
            options["compression"] = choose(tuple(Compression))
        if kind in (1, 2):
            producer_id = choose((7, 8))
            first = max(self.sequences[producer_id] + choose((0, 0, 0, 0, -1, 1)), 0)
            self.sequences[producer_id] = first + count
            epoch = choose((0, 0, 0, 1))
            options |= {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": first}
        if kind == 3:
            options[choose(("transactional", "control"))] = True
        if kind == 4:
            options[choose(("last_offset_delta", "max_timestamp"))] = choose((0, 1, 5))
        timestamp = NOW_MS + choose((0, 0, 0, -1, -5000, 10**9))
        values = [bytes([65 + n % 20]) * choose((0, 1, 100, 100, 3000)) for n in range(count)]
        made = batch(*values, timestamp=timestamp, key=choose((b"k", b"k", None)), **options)
        bad = self.damaged(made), self.damaged(made), made[:-1], made + made, b"", None
        return choose((made, made, choose(bad)))

    def request(self) -> tuple[int, int, Callable[[Side], bytes]]:
        """Version, acks and what makes the frame for a side."""
        choose = self.random.choice
        version = choose((*VERSIONS, 9, 12, 13, 13, 13))
        topic = choose((*TOPICS, "plain", "plain", "plain", "nowhere", "__consumer_offsets"))
        records, acks = self.records(), choose((1, 1, -1, -1, -1, 0, 2))
        options: dict[str, Any] = {
            "partition": choose((0, 0, 0, 0, 1, 2, -1)),
            "correlation_id": self.random.randrange(1 << 31),
            "client_id": choose(("tester", "tester", None, "zwei")),
            "transactional_id": choose((None,) * 12 + ("t",)),
        }
        damage = self.random.randrange(1 << 30) if self.random.random() < 0.1 and version < 13 else None

        def make(side: Side) -> bytes:
            sent = request(side, version, topic, records, acks, **dict(options))
            if damage is None:
                return sent
            return raw_frame(sent[4:14] + RandomRequests(damage, NOWHERE).damaged(sent[14:]))

        return version, acks if damage is None else 0, make


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_random_requests_have_the_same_answers_and_logs(seed: int, tmp_path: Path) -> None:
    async def play(pair: Pair) -> None:
        producers = Producers(seed)
        for _ in range(250):
            version, acks, make = producers.request()
            await pair.send(make, answered=acks != 0)
            pair.plain.count_plain(version)
        assert pair.plain.answered_plainly > 25
        assert pair.general.answered_plainly == 0

    together(tmp_path, play)


@pytest.mark.parametrize("version", range(9, 14))
def test_what_producers_send_goes_the_plain_way(version: int, tmp_path: Path) -> None:
    async def play(pair: Pair) -> None:
        for acks in (1, 1, -1):
            await pair.send(lambda side: request(side, version, "plain", batch(b"v" * 200), acks))  # noqa: B023
            pair.plain.count_plain(version)
        assert pair.plain.answered_plainly == 2

    together(tmp_path, play)


@pytest.mark.parametrize("version", [8, 9, 13])
def test_several_partitions_and_tagged_fields_go_the_general_way(version: int, tmp_path: Path) -> None:
    def several(side: Side, topics: int, partitions: int) -> bytes:
        data = [PartitionProduceData(index, batch()) for index in range(partitions)]
        names = ["plain", "append-time"][:topics]
        named = [TopicProduceData(name, side.topic_id(name), data) for name in names]
        return frame(ProduceRequest(None, 1, 5000, named), version)

    def tagged(side: Side) -> bytes:
        """A tagged field that nobody knows behind the last field."""
        return raw_frame(several(side, 1, 1)[4:-1] + b"\x01\x09\x01x")

    async def play(pair: Pair) -> None:
        await pair.send(lambda side: several(side, 1, 1))
        pair.plain.count_plain(version)
        for topics, partitions in ((0, 0), (1, 0), (1, 2), (2, 1), (2, 2)):
            await pair.send(lambda side: several(side, topics, partitions))  # noqa: B023
        if version >= 9:
            assert len(await pair.send(tagged)) > 30
        assert pair.plain.answered_plainly == 0

    together(tmp_path, play)


def test_a_batch_that_is_too_much_for_the_loop(tmp_path: Path) -> None:
    async def play(pair: Pair) -> None:
        many = batch(*[b""] * 10_001, timestamp=NOW_MS)
        await pair.send(lambda side: request(side, 13, "plain", many))
        await pair.send(lambda side: request(side, 13, "plain", many) + request(side, 13, "plain", batch()))
        await until(lambda: all(not side.client.connection._replies for side in pair.sides))

    together(tmp_path, play)


def test_a_disk_that_is_full_is_asked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(file: OsFile, data: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    async def play(pair: Pair) -> None:
        await pair.send(lambda side: request(side, 13, "plain", batch()))
        with monkeypatch.context() as patch:
            patch.setattr(OsFile, "append", full)
            await pair.send(lambda side: request(side, 13, "plain", batch()))
        await pair.send(lambda side: request(side, 13, "plain", batch()))
        written = [entry.message for entry in caplog.records if "cannot append" in entry.message]
        assert len(written) == 2

    together(tmp_path, play)


def test_nothing_is_plain_where_something_stands_before_the_handler(tmp_path: Path) -> None:
    """Authorization, quotas, the audit and the log of requests see every request."""

    async def play() -> None:
        node = Node(
            {
                "listeners": "PLAINTEXT://127.0.0.1:0",
                "log.dirs": str(tmp_path),
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            }
        )
        await node.start()
        try:
            fake = FakeConnection(node.dispatch.frame, loop=asyncio.get_running_loop())
            fake.feed(frame(ProduceRequest(None, 1, 5000, []), 13))
            await until(lambda: fake.transport.data)
            assert node.dispatch._routes[ApiKey.PRODUCE, 13].plain is None
        finally:
            await node.stop()

    asyncio.run(play())


def test_the_log_of_requests_has_every_request(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def play(pair: Pair) -> None:
        for side in pair.sides:
            side.node.dispatch.log_requests = True
        with caplog.at_level("INFO", "moldau.request"):
            await pair.send(lambda side: request(side, 13, "plain", batch()))
        assert len([entry for entry in caplog.records if entry.name == "moldau.request"]) == 2

    together(tmp_path, play)
