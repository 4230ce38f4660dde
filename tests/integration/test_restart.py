"""A broker that goes and comes back: its clients go on, with nothing lost and nothing twice."""

import asyncio
import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from moldau.client.transport.connection import Connection
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.protocol.records import Record, encode_batch
from moldau.testing import Broker
from tests.integration.broker_process import BrokerProcess
from tests.integration.client_contract import Client, Producer, Producing, Refused, Sent, offsets, values
from tests.integration.every_client import CLIENTS
from tests.integration.history_checker import PartitionHistory, Value

pytestmark = pytest.mark.slow

#: Rounds of kill -9 for each client; each takes a second or two, most of it the client's own back-off.
KILLS = 5


@pytest.fixture(params=CLIENTS)
def make_client(request: pytest.FixtureRequest) -> Iterator[Callable[[str], Client]]:
    opened: list[Client] = []

    def make(bootstrap_servers: str) -> Client:
        opened.append(CLIENTS[request.param](bootstrap_servers))
        return opened[-1]

    yield make
    for client in opened:
        client.close()


def numbers(first: int, last: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, last)]


def goes_on_over_a_restart(
    make_client: Callable[[str], Client], address: str, topic: str, restart: Callable[[], None]
) -> None:
    client = make_client(address)
    client.create_topic(topic, configs={"retention.ms": "-1"})
    producer = client.producer()
    consumer = client.consumer()
    consumer.assign(topic, {0: 0})
    for round_number in range(2):
        start = round_number * 10
        for value in numbers(start, start + 10):
            producer.send(topic, Sent(value))
        assert producer.flush() == list(range(start, start + 10))
        found = consumer.poll(10)
        assert values(found) == numbers(start, start + 10)
        assert offsets(found) == list(range(start, start + 10))
        restart()
    # A client that comes new: what matters of an old one's admin calls is its own patience.
    fresh = make_client(address)
    assert fresh.topics()[topic] == 1
    assert fresh.configs(topic)["retention.ms"] == "-1"
    reader = fresh.consumer()
    reader.assign(topic, {0: 0})
    assert values(reader.poll(20)) == numbers(0, 20)


@pytest.mark.parametrize("place", ["disk", "memory"])
def test_in_this_process(
    place: str, make_client: Callable[[str], Client], topic: str, tmp_path: Path
) -> None:
    with Broker(data_dir=tmp_path if place == "disk" else None) as broker:

        def restart() -> None:
            address = broker.bootstrap_servers
            broker.stop()
            broker.start()
            assert broker.bootstrap_servers == address

        goes_on_over_a_restart(make_client, broker.bootstrap_servers, topic, restart)


@pytest.mark.parametrize("end", ["SIGTERM", "SIGKILL"])
def test_in_another_process(
    end: str, make_client: Callable[[str], Client], topic: str, tmp_path: Path
) -> None:
    with BrokerProcess(tmp_path) as broker:

        def restart() -> None:
            if end == "SIGKILL":
                broker.kill()
            else:
                assert broker.stop() == 0
            broker.start()

        goes_on_over_a_restart(make_client, broker.bootstrap_servers, topic, restart)


class Load:
    """One idempotent producer that never stops sending, and the count of what was acknowledged to it."""

    def __init__(self, producer: Producer, topic: str, history: PartitionHistory, seed: int) -> None:
        self._producer = producer
        self._topic = topic
        self._history = history
        self._dice = random.Random(seed)
        self._acknowledged = 0
        self._moved = threading.Condition()
        self._stop = threading.Event()
        self.refused: list[Refused] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        sequence = 0
        while not self._stop.is_set():
            burst = [Value("load", sequence + n) for n in range(self._dice.randrange(1, 600))]
            sequence += len(burst)
            for value in burst:
                self._history.send(value)
                size = self._dice.choice([0, 100, 3000])
                self._producer.send(self._topic, Sent(value.encode(size)))
            for value, outcome in zip(burst, self._producer.flush(60), strict=True):
                if isinstance(outcome, Refused):
                    self.refused.append(outcome)
                else:
                    self._history.acknowledge(value, outcome)
            with self._moved:
                self._acknowledged = sequence
                self._moved.notify_all()

    def wait_for(self, more: int) -> None:
        """Until so many more records are acknowledged."""
        with self._moved:
            target = self._acknowledged + more
            assert self._moved.wait_for(lambda: self._acknowledged >= target, 60)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


def read_all(client: Client, topic: str) -> list[tuple[int, Value]]:
    consumer = client.consumer()
    consumer.assign(topic, {0: 0})
    _, end = consumer.ends(topic, 0)
    return [(record.offset, Value.decode(record.value)) for record in consumer.poll(end)]


def test_kill_9_loses_nothing_and_repeats_nothing(
    make_client: Callable[[str], Client], topic: str, tmp_path: Path
) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    history = PartitionHistory(f"{topic}-0")
    with BrokerProcess(tmp_path, {"log.segment.bytes": "1048576"}) as broker:
        client = make_client(broker.bootstrap_servers)
        client.create_topic(topic)
        load = Load(client.producer(Producing(linger_ms=2)), topic, history, seed)
        try:
            for _ in range(KILLS):
                load.wait_for(dice.randrange(1, 1000))
                time.sleep(dice.random() / 20)  # to strike anywhere between two answers
                broker.kill()
                broker.start()
                for offset, value in read_all(client, topic):
                    history.read(offset, value)
            load.wait_for(1)
        finally:
            load.stop()
        log = read_all(client, topic)
        assert history.anomalies(log) == []
        assert not load.refused
        assert len(history.acknowledged) == len(log) == len(history.sent)


def test_a_retry_is_recognised_after_a_kill(topic: str, tmp_path: Path) -> None:
    """What the clients above rely on, request by request: the last five batches of a producer are known.

    More than Kafka 4.3.0 keeps: asked the same, it knows only the last one after a kill too.
    """
    with BrokerProcess(tmp_path) as broker:

        async def offsets_of(*sequences: int) -> list[tuple[int, int]]:
            connection = await Connection.open("127.0.0.1", broker.port)
            answers = [await connection.send(batch_of(topic, each), max_version=12) for each in sequences]
            connection.close()
            await connection.wait_closed()
            results = [answer.responses[0].partition_responses[0] for answer in answers]
            return [(result.error_code, result.base_offset) for result in results]

        CLIENTS["confluent"](broker.bootstrap_servers).create_topic(topic)
        wanted = [(0, sequence) for sequence in range(0, 70, 10)]
        assert asyncio.run(offsets_of(*range(0, 70, 10))) == wanted
        for _ in range(2):
            broker.kill()
            broker.start()
            assert asyncio.run(offsets_of(60, 50, 40, 30, 20)) == wanted[:1:-1]
        broker.stop()  # leaves a snapshot, which in Kafka's format holds one batch of each producer
        broker.start()
        assert asyncio.run(offsets_of(60)) == [(0, 60)]
        assert asyncio.run(offsets_of(80, 70)) == [(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1), (0, 70)]


def batch_of(topic: str, sequence: int) -> ProduceRequest:
    """Ten records of one producer, from this place in its order on."""
    records = [Record(number, 1000, None, b"%d" % (sequence + number)) for number in range(10)]
    batch = encode_batch(records, producer_id=4711, producer_epoch=0, base_sequence=sequence)
    data = TopicProduceData(topic, partition_data=[PartitionProduceData(0, batch)])
    return ProduceRequest(None, -1, 30_000, [data])
