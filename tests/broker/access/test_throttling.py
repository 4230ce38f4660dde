"""Throttling over the wire, by the numbers of a real broker; the clock is stepped, not waited for."""

import select
from collections.abc import Iterator
from typing import Any

import pytest

from moldau.base.clock import SteppedClock
from moldau.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from moldau.protocol.messages.api_versions import ApiVersionsRequest
from moldau.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from moldau.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from moldau.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from moldau.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from moldau.protocol.messages.metadata import MetadataRequest
from moldau.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.protocol.records import Record, encode_batch
from moldau.testing import Broker
from tests.security.secure_wire import Closed, NoAnswer, Wire


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        broker.create_topic("t")
        yield broker


@pytest.fixture
def steady() -> Iterator[Broker]:
    """Only the test moves its clock: what is measured is the broker's rate, however busy the machine is."""
    with Broker(clock=SteppedClock(frozen=True)) as broker:
        broker.create_topic("t")
        yield broker


def connect(broker: Broker, client_id: str | None = "c", seconds: float = 0) -> Wire:
    return Wire(broker.bootstrap_servers, client_id=client_id, seconds=seconds)


def quota(broker: Broker, entity: dict[str, str | None], **values: float) -> None:
    parts = [EntityData(kind, name) for kind, name in entity.items()]
    entry = EntryData(parts, [OpData(key, value) for key, value in values.items()])
    with connect(broker, "admin") as wire:
        (result,) = wire.ask(AlterClientQuotasRequest([entry])).entries
        assert result.error_code == 0, result.error_message


def produce(size: int, acks: int = -1) -> ProduceRequest:
    batch = bytes(encode_batch([Record(0, 1, None, b"x" * (size - 140), ())]))
    return ProduceRequest(None, acks, 1000, [TopicProduceData("t", b"", [PartitionProduceData(0, batch)])])


class Near:
    """A waiting time; what has passed since, on a busy machine, is not waited for any more."""

    def __init__(self, milliseconds: int) -> None:
        self.milliseconds = milliseconds

    def __eq__(self, other: object) -> bool:
        assert isinstance(other, int)
        if not self.milliseconds:
            return other == 0
        return 0 < other <= self.milliseconds + 50

    def __hash__(self) -> int:
        return hash(self.milliseconds)

    def __repr__(self) -> str:
        return f"at most {self.milliseconds}"


near: Any = Near


@pytest.mark.parametrize("version", [3, 5, 6, 9, 12])
def test_a_produce_over_its_quota_is_answered_and_the_connection_waits(broker: Broker, version: int) -> None:
    quota(broker, {"client-id": "c"}, producer_byte_rate=10_000)
    with connect(broker) as wire, connect(broker) as other:
        assert wire.ask(produce(400_000), version).throttle_time_ms == near(30_000)
        wire.socket.settimeout(0.3)
        wire.send(MetadataRequest(), 12)
        with pytest.raises(NoAnswer):
            wire.receive_frame()
        assert other.ask(MetadataRequest(), 12).throttle_time_ms == 0
        broker.clock.advance(31)
        wire.socket.settimeout(10)
        assert wire.receive(MetadataRequest(), 12).throttle_time_ms == 0


@pytest.mark.parametrize(("size", "wait"), [(95_000, 0), (105_000, 500), (150_000, 5000), (400_000, 30000)])
def test_how_long_a_first_produce_waits(broker: Broker, size: int, wait: int) -> None:
    quota(broker, {"user": None}, producer_byte_rate=10_000)
    with connect(broker) as wire:
        assert wire.ask(produce(size), 12).throttle_time_ms == near(wait)


def test_without_an_answer_the_next_request_waits(broker: Broker) -> None:
    quota(broker, {"client-id": "c"}, producer_byte_rate=10_000)
    with connect(broker, seconds=0.3) as wire:
        wire.send(produce(400_000, acks=0), 12)
        wire.send(ApiVersionsRequest("probe", "1"), 3)
        try:
            wire.receive_frame()  # in the same read as the produce it may pass
        except NoAnswer:
            broker.clock.advance(31)
            wire.socket.settimeout(10)
            wire.receive_frame()
    assert len(broker.records("t")) == 1


def test_clients_share_what_is_theirs_together(broker: Broker) -> None:
    quota(broker, {"user": "ANONYMOUS"}, producer_byte_rate=10_000)
    with connect(broker, "sa") as one, connect(broker, "sb") as two:
        assert one.ask(produce(60_000), 12).throttle_time_ms == 0
        assert two.ask(produce(60_000), 12).throttle_time_ms == near(2000)


def test_a_client_without_an_id_has_none(broker: Broker) -> None:
    quota(broker, {"client-id": None}, producer_byte_rate=1000)
    for client_id, wait in (("abc", 10_000), ("", 0), (None, 0)):
        with connect(broker, client_id) as wire:
            assert wire.ask(produce(20_000), 12).throttle_time_ms == near(wait)


def test_a_fetch_over_its_quota_is_empty(broker: Broker) -> None:
    for _ in range(3):
        broker.produce("t", b"x" * 50_000)
    quota(broker, {"client-id": "c"}, consumer_byte_rate=10_000)
    wanted = FetchTopic("t", b"", [FetchPartition(0, -1, 0, partition_max_bytes=150_000)])
    request = FetchRequest(max_bytes=150_000, topics=[wanted])
    found = []
    with connect(broker) as wire:
        for _ in range(2):
            answer = wire.ask(request, 12)
            size = sum(len(data.records) for topic in answer.responses for data in topic.partitions)
            found.append((answer.throttle_time_ms > 0, size, len(answer.responses)))
            broker.clock.advance(1)
    assert found[0][1] <= 100_000
    throttled = [each for each in found if each[0]]
    assert throttled == [(True, 0, 0)] * len(throttled) != []


def test_a_quota_of_time(broker: Broker) -> None:
    quota(broker, {"client-id": "c"}, request_percentage=0.000001)
    with connect(broker) as wire:
        assert wire.ask(MetadataRequest(), 12).throttle_time_ms == 1000


def measured_rate(broker: Broker, wire: Wire, size: int) -> float:
    """Bytes a second of a producer that waits as it is told, over a minute after its first burst."""
    clock = broker.clock

    def produce_for(seconds: float) -> float:
        began, sent = clock.monotonic(), 0
        while clock.monotonic() - began < seconds:
            clock.advance(wire.ask(produce(size), 12).throttle_time_ms / 1000 + 0.001)
            sent += size
        return sent / (clock.monotonic() - began)

    produce_for(30)
    return produce_for(60)


@pytest.mark.parametrize("quota_bytes", [50_000, 500_000])
def test_who_is_throttled_gets_the_rate_that_was_granted(steady: Broker, quota_bytes: int) -> None:
    """Team Clueful's producers run as fast as they can; what gets through is the quota, within a tenth."""
    quota(steady, {"client-id": "clueful"}, producer_byte_rate=quota_bytes)
    with connect(steady, "clueful", seconds=20) as wire:
        assert measured_rate(steady, wire, quota_bytes) == pytest.approx(quota_bytes, rel=0.1)


def test_a_reader_gets_the_rate_that_was_granted(steady: Broker) -> None:
    for _ in range(20):
        steady.produce("t", b"x" * 10_000)
    quota(steady, {"client-id": "c"}, consumer_byte_rate=20_000)
    wanted = FetchTopic("t", b"", [FetchPartition(0, -1, 0, partition_max_bytes=20_000)])
    request = FetchRequest(max_bytes=20_000, topics=[wanted])
    sizes: list[tuple[float, int]] = []
    clock = steady.clock
    with connect(steady, seconds=20) as wire:
        began = clock.monotonic()
        while clock.monotonic() - began < 90:
            answer = wire.ask(request, 12)
            size = sum(len(data.records) for topic in answer.responses for data in topic.partitions)
            sizes.append((clock.monotonic() - began, size))
            clock.advance(answer.throttle_time_ms / 1000 + 0.001)
    measured = [size for at, size in sizes if at >= 30]
    first = next(at for at, _ in sizes if at >= 30)
    assert sum(measured) / (sizes[-1][0] - first) == pytest.approx(20_000, rel=0.1)


def test_the_users_quota_counts_before_that_of_its_client(steady: Broker) -> None:
    """Not the smallest one: ten megabytes for the user are ten, though its client id has one."""
    quota(steady, {"user": "ANONYMOUS"}, producer_byte_rate=1_000_000)
    quota(steady, {"client-id": "c"}, producer_byte_rate=100_000)
    with connect(steady, seconds=20) as wire:
        assert measured_rate(steady, wire, 500_000) == pytest.approx(1_000_000, rel=0.1)
    quota(steady, {"user": "ANONYMOUS", "client-id": "c"}, producer_byte_rate=300_000)
    with connect(steady, seconds=20) as wire:
        assert measured_rate(steady, wire, 500_000) == pytest.approx(300_000, rel=0.1)


def test_a_quota_of_time_slows_a_client_that_only_asks(broker: Broker) -> None:
    """A loop of polls that never waits is what request_percentage is for; another client is not slowed."""
    quota(broker, {"client-id": "c"}, request_percentage=0.0005)
    with connect(broker, seconds=20) as wire, connect(broker, "other") as other:
        waits = []
        for _ in range(50):
            waits.append(wire.ask(MetadataRequest(), 12).throttle_time_ms)
            broker.clock.advance(waits[-1] / 1000)
        assert any(waits)
        assert max(waits) <= 1000
        assert other.ask(MetadataRequest(), 12).throttle_time_ms == 0


def test_a_quota_of_time_does_not_count_the_time_that_a_fetch_waits(broker: Broker) -> None:
    """An idle consumer waits nearly all the time, and takes nothing of the broker meanwhile."""
    quota(broker, {"client-id": "c"}, request_percentage=3)
    request = FetchRequest(max_wait_ms=500, min_bytes=1, topics=[FetchTopic("t", b"", [FetchPartition(0)])])
    with connect(broker) as wire:
        assert wire.ask(request, 12).throttle_time_ms == 0


def topics(wire: Wire, version: int, *counts: int, names: str = "m") -> tuple[int, list[int]]:
    wanted = [CreatableTopic(f"{names}{index}", count, 1) for index, count in enumerate(counts)]
    answer = wire.ask(CreateTopicsRequest(wanted), version)
    return answer.throttle_time_ms, [topic.error_code for topic in answer.topics]


@pytest.mark.parametrize("version", [6, 7])
def test_new_versions_are_refused_topics_beyond_their_quota(broker: Broker, version: int) -> None:
    quota(broker, {"user": None}, controller_mutation_rate=1)
    with connect(broker) as wire:
        assert topics(wire, version, 5, names="a") == (0, [0])
    with connect(broker) as wire:
        assert topics(wire, version, 30, 1, names="b") == (near(24_000), [0, 89])
    with connect(broker) as wire:
        assert topics(wire, version, 1, 1, names="c") == (near(24_000), [89, 89])
    assert broker.topics() == ["a0", "b0", "t"]


def test_old_versions_only_wait(broker: Broker) -> None:
    quota(broker, {"user": None}, controller_mutation_rate=1)
    with connect(broker) as wire:
        assert topics(wire, 5, 5, names="a") == (0, [0])
    with connect(broker) as wire:
        assert topics(wire, 5, 30, 1, names="b") == (near(25_000), [0, 0])


def test_partitions_and_deletions_count_too(broker: Broker) -> None:
    quota(broker, {"client-id": "c"}, controller_mutation_rate=1)

    def widen(count: int) -> tuple[int, int]:
        with connect(broker) as wire:
            answer = wire.ask(CreatePartitionsRequest([CreatePartitionsTopic("t", count, None)]), 3)
            return answer.throttle_time_ms, answer.results[0].error_code

    def delete(version: int) -> tuple[int, int]:
        with connect(broker) as wire:
            request = DeleteTopicsRequest([DeleteTopicState("t")], ["t"])
            if version >= 6:
                request.topic_names = []
            answer = wire.ask(request, version)
            return answer.throttle_time_ms, answer.responses[0].error_code

    assert widen(40) == (0, 0)
    assert widen(80) == (near(28_000), 89)
    assert delete(6) == (near(28_000), 89)
    assert delete(5) == (near(28_000), 89)
    broker.clock.advance(29)
    assert delete(6) == (0, 0)


def test_connections_by_address(broker: Broker) -> None:
    quota(broker, {"ip": "127.0.0.1"}, connection_creation_rate=1)
    served = turned_away = 0
    wires = [connect(broker) for _ in range(16)]
    for wire in wires:
        try:
            wire.ask(ApiVersionsRequest("probe", "1"), 3)
            served += 1
        except Closed:
            turned_away += 1
        wire.socket.close()
    assert (served, turned_away) == (10, 6)


@pytest.mark.parametrize("scope", ["", "listener.name.plaintext."])
def test_connections_beyond_the_rate_of_a_listener_wait(scope: str) -> None:
    """Set while the broker runs, over the wire; the eleventh connection is answered, later."""
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,INTERNAL://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT",
        "inter.broker.listener.name": "INTERNAL",
    }
    with Broker(settings) as broker:
        change = AlterableConfig(f"{scope}max.connection.creation.rate", 0, "4")
        with connect(broker) as wire:
            request = IncrementalAlterConfigsRequest([AlterConfigsResource(4, "1", [change])])
            (result,) = wire.ask(request).responses
            assert result.error_code == 0, result.error_message
        wires = [connect(broker) for _ in range(45)]
        for wire in wires:
            wire.send(ApiVersionsRequest("probe", "1"), 3)
        readable, _, _ = select.select([wires[-1].socket], [], [], 0.2)
        assert not readable
        for wire in wires:
            wire.socket.settimeout(20)
            assert wire.receive(ApiVersionsRequest("probe", "1"), 3).error_code == 0
            wire.socket.close()


def test_the_last_quota_takes_the_measuring_out(broker: Broker) -> None:
    assert broker.node.dispatch._wrap_handler is not None  # the interceptors of a test
    before = broker.node.dispatch._wrap_handler
    quota(broker, {"client-id": "x"}, producer_byte_rate=1)
    assert broker.node.dispatch._wrap_handler is not before
    with connect(broker) as wire:
        gone = EntryData([EntityData("client-id", "x")], [OpData("producer_byte_rate", 0.0, True)])
        wire.ask(AlterClientQuotasRequest([gone]))
    assert broker.node.dispatch._wrap_handler is before
