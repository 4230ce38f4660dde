"""Bytes that no client should send, over real sockets: the broker answers or closes, says why, goes on."""

import logging
import random
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from moldau.broker.bounds import complaints
from moldau.protocol.api_keys import ApiKey
from moldau.protocol.compression import Compression, compress
from moldau.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from moldau.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from moldau.protocol.records import ATTRIBUTES_AT
from moldau.testing import Broker
from tests.broker.random_requests import ROUTES, RandomRequests
from tests.contract.batches import batch, patched, with_payload
from tests.contract.scene import produce_request
from tests.contract.wire import CLOSED, Wire, frame, raw_frame

#: More requests find more; this many take a few seconds.
REQUESTS_PER_ROUTE = 10
NOW = 1_700_000_000_000
#: Turns of the broker's loop after which a request that is not answered is taken for one that waits.
PATIENCE_ROUNDS = 2_000
#: Long polls, acks=0, and members of a group that wait for the others.
MAY_WAIT = {ApiKey.FETCH, ApiKey.PRODUCE, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with pytest.MonkeyPatch.context() as patch, Broker({"socket.request.max.bytes": 4_000_000}) as running:
        patch.setattr(complaints, "_LINES_A_SECOND", 1_000_000)  # each connection that is closed is looked up
        yield running


@pytest.fixture
def healthy(broker: Broker) -> Iterator["Witness"]:
    witness = Witness(broker)
    yield witness
    witness.close()


class Witness:
    """Another client, which must not notice anything."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.wire = Wire(broker.port)
        self.has_topic()

    def has_topic(self) -> None:
        """Makes the topic again if a request, odd as it was, has deleted it."""
        if "known" not in self.broker.topics():
            self.broker.create_topic("known", 2)

    def is_fine(self) -> None:
        answer = self.wire.ask(MetadataRequest([]), 12)
        assert answer is not CLOSED
        assert len(answer.brokers) == 1

    def close(self) -> None:
        """Whatever was opened is gone again, and nothing waits any more."""
        self.wire.close()
        while self.broker.run(self._left()):
            pass

    async def _left(self) -> int:
        node = self.broker.node
        return len(node.server.connections) + len(node.services.purgatory)

    async def is_done_with(self, peer: str) -> bool:
        """Whether the broker has what a connection sent, and owes it nothing that is not parked."""
        for connection in self.broker.node.server.connections:
            if connection.peer == peer:
                arrived = connection.requests or connection._partial is not None
                open_replies = connection._replies
                return bool(arrived) and (not open_replies or open_replies[0].parked is not None)
        return False


def throw(broker: Broker, healthy: Witness, data: bytes, caplog: pytest.LogCaptureFixture) -> str:
    """Sends bytes from a connection of their own: "answered", "closed" with a line in the log, "silent"."""
    caplog.clear()
    with Wire(broker.port) as wire:
        wire.write(data)
        healthy.is_fine()
        rounds = 0
        while wire.is_silent():
            rounds += 1
            done = broker.run(healthy.is_done_with(wire.address)) or rounds == PATIENCE_ROUNDS
            if done and wire.is_silent():
                return "silent"
        if wire.read_frame() is not CLOSED:
            return "answered"
        peer = f"closing connection from {wire.address} "
        assert any(peer in message for message in caplog.messages), "closed without a word"
        return "closed"


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.fixture(autouse=True)
def nothing_failed(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Refusals are in the log; failures of our own would be too, and must not be there."""
    failures = Failures()
    logging.getLogger().addHandler(failures)
    yield
    logging.getLogger().removeHandler(failures)
    assert failures.messages == []


class Failures(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


def topic_id(broker: Broker) -> bytes:
    return broker.node.metadata.image.topics_by_name["known"].topic_id


def test_random_bytes(broker: Broker, healthy: Witness, caplog: pytest.LogCaptureFixture) -> None:
    generator = random.Random(1)
    for _ in range(150):
        data = generator.randbytes(generator.choice((1, 3, 4, 5, 14, 100, 3000)))
        throw(broker, healthy, generator.choice((data, raw_frame(data))), caplog)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(REQUESTS_PER_ROUTE))
def test_odd_requests(broker: Broker, healthy: Witness, seed: int, caplog: pytest.LogCaptureFixture) -> None:
    """Well formed, every API and version: whatever the values, there is an answer and no failure."""
    requests = RandomRequests(seed, topic_id(broker))
    for api_key, version in ROUTES:
        healthy.has_topic()
        request = requests.request(api_key, version)
        outcome = throw(broker, healthy, frame(request, version), caplog)
        if api_key not in MAY_WAIT:
            assert outcome == "answered", f"{outcome}: {request}"
        assert not errors(caplog), request


@pytest.mark.parametrize("seed", range(REQUESTS_PER_ROUTE))
def test_damaged_requests(
    broker: Broker, healthy: Witness, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    requests = RandomRequests(100 + seed, topic_id(broker))
    for api_key, version in ROUTES:
        fine = frame(requests.request(api_key, version), version)
        damaged = requests.damaged(fine[4:])
        throw(broker, healthy, raw_frame(damaged), caplog)
        assert not errors(caplog), damaged.hex()


def test_requests_that_are_cut(broker: Broker, healthy: Witness, caplog: pytest.LogCaptureFixture) -> None:
    """The frame says how long it is, and its end is missing: closed, whichever field is hit."""
    requests = RandomRequests(7, topic_id(broker))
    for api_key, version in ROUTES:
        body = frame(requests.request(api_key, version), version)[4:]
        for _ in range(2):
            throw(broker, healthy, raw_frame(body[: requests.random.randrange(len(body))] or b"\0"), caplog)


def test_a_frame_whose_rest_never_comes(
    broker: Broker, healthy: Witness, caplog: pytest.LogCaptureFixture
) -> None:
    requests = RandomRequests(8, topic_id(broker))
    for api_key, version in ROUTES[::3]:
        data = frame(requests.request(api_key, version), version)
        assert throw(broker, healthy, data[:-1], caplog) == "silent"


def test_huge_lengths_inside_a_request(
    broker: Broker, healthy: Witness, caplog: pytest.LogCaptureFixture
) -> None:
    """Every four bytes in turn claim to be two thousand million of something."""
    known = MetadataRequest([MetadataRequestTopic(name="known")])
    for message, version in ((known, 8), (known, 12), (produce_request("known", b"x" * 70), 9)):
        fine = frame(message, version)
        for at in range(14, len(fine) - 3):
            throw(broker, healthy, fine[:at] + b"\x7f\xff\xff\xff" + fine[at + 4 :], caplog)


def test_an_oversized_frame_is_refused_before_it_comes(
    broker: Broker, healthy: Witness, caplog: pytest.LogCaptureFixture
) -> None:
    assert throw(broker, healthy, struct.pack(">i", 4_000_001), caplog) == "closed"
    assert "socket.request.max.bytes=4000000" in caplog.text


# --- record batches ---------------------------------------------------------------------------------


def produced(healthy: Witness, records: bytes) -> Any:
    answer = healthy.wire.ask(produce_request("known", records), 9)
    return answer.responses[0].partition_responses[0]


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.LZ4, Compression.ZSTD])
def test_a_bomb(healthy: Witness, codec: Compression) -> None:
    """A megabyte at the most that would become seventy."""
    packed = compress(codec, memoryview(bytes(70_000_000)), 1)
    assert len(packed) < 1_000_000
    fine = batch(timestamp=NOW)
    result = produced(healthy, patched(with_payload(fine, packed), ATTRIBUTES_AT, "h", codec))
    assert result.error_code == 10
    assert "bytes" in result.error_message
    healthy.is_fine()


def test_a_batch_that_is_too_large(healthy: Witness) -> None:
    result = produced(healthy, batch(bytes(1_100_000), timestamp=NOW))
    assert (result.error_code, result.base_offset) == (10, -1)


def test_damaged_batches(broker: Broker, healthy: Witness, caplog: pytest.LogCaptureFixture) -> None:
    """Each is refused with a code, or was not damaged after all and can be fetched; never half of either."""
    requests = RandomRequests(9, topic_id(broker))
    broker.create_topic("damaged")
    kept = 0
    for number in range(400):
        codec = Compression(number % 5)
        fine = batch(b"a" * 50, b"b", b"c" * 9, timestamp=NOW, compression=codec)
        records = requests.damaged(fine)
        if number % 2 and len(records) > 61:
            records = with_payload(records, records[61:])  # a wrong checksum would hide what is behind it
        answer = healthy.wire.ask(produce_request("damaged", records), 9)
        result = answer.responses[0].partition_responses[0]
        if result.error_code == 0:
            assert result.base_offset == kept
            kept = broker.node.replicas.find("damaged", 0).high_watermark
        else:
            assert result.base_offset == -1
            assert result.error_code != -1
    fetch = FetchTopic("damaged", partitions=[FetchPartition(0, fetch_offset=0, partition_max_bytes=1 << 20)])
    answer = healthy.wire.ask(FetchRequest(min_bytes=1, topics=[fetch]), 12)
    assert answer.responses[0].partitions[0].high_watermark == kept


# --- names ------------------------------------------------------------------------------------------

BAD_NAMES = [
    "",
    ".",
    "..",
    "../known",
    "/etc/passwd",
    "a/b",
    "a\\b",
    "a b",
    " ",
    "a\tb",
    "a\nb",
    "\x00",
    "a\x00b",
    "\x7f",
    "é",
    "ｆｕｌｌ",
    "日本",
    "😀",
    "\u202e",
    "a:b",
    "a*",
    "$a",
    "a%2e",
    "x" * 250,
    "x" * 30_000,
]


@pytest.mark.parametrize("name", BAD_NAMES, ids=lambda name: ascii(name[:20]))
def test_bad_names_of_topics(broker: Broker, healthy: Witness, name: str) -> None:
    before = broker.topics()
    answer = healthy.wire.ask(MetadataRequest([MetadataRequestTopic(name=name)], True), 12)
    assert [(topic.error_code, topic.name) for topic in answer.topics] == [(17, name)]
    answer = healthy.wire.ask(CreateTopicsRequest([CreatableTopic(name, 1, 1)], 1000), 7)
    assert [(topic.error_code, topic.name) for topic in answer.topics] == [(17, name)]
    assert broker.topics() == before
