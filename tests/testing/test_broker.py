"""The embedded broker as a user's test sees it: life, records, reset, clock, and nothing left behind."""

import asyncio
import gc
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka as ck
import pytest
from confluent_kafka.admin import AdminClient, ConfigResource

from moldau.base.settings import SettingError
from moldau.client.transport.connection import Connection
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.testing import Broker, SteppedClock
from moldau.testing import broker as broker_module
from tests.shared.waiting import turns, until, wait_until
from tests.testing.one_connection import ask, batch, fetch, parked, produce, values


def producer_of(broker: Broker, **settings: object) -> ck.Producer:
    given = {name.replace("_", "."): value for name, value in settings.items()}
    return ck.Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0, **given})


def send(producer: ck.Producer, topic: str, *sent: bytes) -> None:
    for value in sent:
        producer.produce(topic, value)
    assert producer.flush(30) == 0


# life -------------------------------------------------------------------------------------------------------


def test_the_example_of_the_docstring() -> None:
    with Broker() as broker:
        send(producer_of(broker), "orders", b"one", b"two")
        assert values(broker, "orders") == [b"one", b"two"]
        assert broker.topics() == ["orders"]


def test_it_is_ready_soon() -> None:
    began = time.perf_counter()
    with Broker() as broker:
        ready = time.perf_counter()
        broker.create_topic("t", partitions=3)
        created = time.perf_counter()
        broker.reset()
        reset = time.perf_counter()
    stopped = time.perf_counter()
    for what, seconds in [
        ("ready", ready - began),
        ("reset", reset - created),
        ("stopped", stopped - reset),
    ]:
        print(f"{what} in {seconds * 1000:.1f} ms")


def test_several_brokers_live_side_by_side() -> None:
    with Broker() as one, Broker() as other:
        assert one.port != other.port
        one.produce("t", b"in the one")
        other.produce("t", b"in the other")
        one.clock.advance(3600)
        assert other.clock.advanced_seconds == 0
        assert values(one, "t") == [b"in the one"]
        assert values(other, "t") == [b"in the other"]
    with pytest.raises(RuntimeError, match="not running"):
        one.records("t")


@pytest.mark.parametrize("place", ["memory", "disk"])
def test_start_stop_start_keeps_port_and_data(place: str, tmp_path: Path) -> None:
    broker = Broker(data_dir=tmp_path if place == "disk" else None)
    broker.start()
    address = broker.bootstrap_servers
    broker.produce("t", b"before")
    broker.stop()
    broker.stop()
    broker.start()
    try:
        assert broker.bootstrap_servers == address
        broker.produce("t", b"after")
        assert values(broker, "t") == [b"before", b"after"]
        assert [record.offset for record in broker.records("t")] == [0, 1]
        with pytest.raises(RuntimeError, match="running already"):
            broker.start()
    finally:
        broker.stop()


def test_it_says_that_it_is_not_running() -> None:
    broker = Broker()
    assert repr(broker) == "<Broker not running>"
    for use in (lambda: broker.bootstrap_servers, lambda: broker.records("t"), broker.reset):
        with pytest.raises(RuntimeError, match="not running"):
            use()


@pytest.mark.parametrize("place", ["memory", "disk"])
def test_a_port_in_use(place: str, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        broker = Broker(port=port, data_dir=tmp_path if place == "disk" else None)
        with pytest.raises(OSError, match="in use"):
            broker.start()
    with broker:  # free by now: the same object can still be used
        assert broker.port == port


def test_settings_are_kafkas_own() -> None:
    with Broker({"num.partitions": 3, "auto.create.topics.enable": False}) as broker:
        assert broker.node.settings.num_partitions == 3
        assert broker.node.settings.auto_create_topics_enable is False
    with pytest.raises(SettingError, match=r"num\.partitions"):
        Broker({"num.partitions": "many"}).start()


def test_data_stays_where_it_was_asked_for(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path) as broker:
        broker.produce("orders", b"one")
    assert (tmp_path / "orders-0" / "00000000000000000000.log").stat().st_size > 0


def test_from_asyncio_without_a_plugin() -> None:
    async def main(broker: Broker) -> list[bytes | None]:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers)
        consumer = aiokafka.AIOKafkaConsumer(
            "t", bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest"
        )
        async with producer:
            await producer.send_and_wait("t", b"one")
            async with consumer:
                message = await consumer.getone()
        return [message.value, *(record.value for record in broker.records("t"))]

    with Broker() as broker:
        assert asyncio.run(main(broker)) == [b"one", b"one"]


LIVES = 5


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
@pytest.mark.parametrize("place", ["memory", "disk"])
def test_nothing_is_left_behind(place: str, tmp_path: Path) -> None:
    def live(directory: Path) -> None:
        with Broker(data_dir=directory if place == "disk" else None) as broker:
            broker.create_topic("t", partitions=5)
            broker.produce("t", b"v")
            ask(broker, lambda connection: connection.send(fetch(broker, "t", 0)))

    live(tmp_path / "warm")  # what is imported and opened once for the process
    gc.collect()
    threads, files = set(threading.enumerate()), open_files()
    for number in range(LIVES):
        live(tmp_path / str(number))
    gc.collect()
    assert set(threading.enumerate()) <= threads
    # Each life would leave one at least. Clients that other tests have left open and close theirs meanwhile.
    assert open_files() < files + LIVES


@pytest.mark.slow
def test_a_program_that_forgets_to_stop_it_ends_quietly() -> None:
    program = """
from moldau.testing import Broker
broker = Broker().start()
broker.produce("t", b"v")
print(len(broker.records("t")))
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "1\n", "")


@pytest.mark.slow
def test_importing_is_cheap() -> None:
    program = """
import sys
import moldau.testing.plugin
assert "moldau.node" not in sys.modules
from moldau.testing import Broker
with Broker() as broker:
    broker.produce("t", b"v")
assert "sqlite3" not in sys.modules
assert "moldau.cluster.store.local" not in sys.modules
assert "click" not in sys.modules
assert "urllib.request" not in sys.modules
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_every_public_name_is_there() -> None:
    import moldau.testing

    for name in moldau.testing.__all__:
        assert getattr(moldau.testing, name).__name__ == name
    assert set(moldau.testing.__all__) <= set(dir(moldau.testing))
    with pytest.raises(AttributeError, match="no attribute 'Brokr'"):
        _ = moldau.testing.Brokr  # type: ignore[attr-defined]


# records ----------------------------------------------------------------------------------------------------


def test_records_are_whole() -> None:
    with Broker() as broker:
        broker.create_topic("t", partitions=2)
        broker.produce("t", "text", key="k", headers=(("h", b"1"), ("n", None)), timestamp_ms=77)
        broker.produce("t", None, partition=1)
        (first,) = broker.records("t", partition=0)
        assert (first.offset, first.timestamp, first.key, first.value) == (0, 77, b"k", b"text")
        assert first.headers == (("h", b"1"), ("n", None))
        assert [record.value for record in broker.records("t")] == [b"text", None]
        assert broker.records("t", partition=7) == []


def test_records_of_every_codec_and_many_batches() -> None:
    with Broker() as broker:
        for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
            producer = producer_of(broker, compression_type=codec, linger_ms=50)
            send(producer, "t", *(b"%s %d" % (codec.encode(), n) for n in range(100)))
        found = broker.records("t")
        assert [record.offset for record in found] == list(range(500))
        assert found[-1].value == b"zstd 99"


def test_only_what_is_still_there_is_shown() -> None:
    with Broker() as broker:
        producer = producer_of(broker, linger_ms=50)
        send(producer, "t", *(b"%d" % n for n in range(10)))
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        for future in admin.delete_records([ck.TopicPartition("t", 0, 7)]).values():
            future.result()
        assert values(broker, "t") == [b"7", b"8", b"9"]


def test_a_topic_that_is_not_there() -> None:
    with Broker() as broker:
        broker.create_topic("orders")
        with pytest.raises(KeyError, match="no topic 'order'; there are \\['orders'\\]"):
            broker.records("order")


def test_waiting_for_records() -> None:
    with Broker() as broker:
        waiting = threading.Thread(target=lambda: [broker.produce("t", b"%d" % n) for n in range(3)])
        waiting.start()
        found = broker.wait_for_records("t", 3)
        waiting.join()
        assert [record.value for record in found] == [b"0", b"1", b"2"]
        with pytest.raises(TimeoutError, match="'t' has 3 of 4 records"):
            broker.wait_for_records("t", 4, timeout_seconds=0)
        with pytest.raises(TimeoutError, match="'absent' has 0 of 1 records"):
            broker.wait_for_records("absent", 1, timeout_seconds=0)


def test_what_the_broker_refuses_is_raised() -> None:
    with Broker() as broker:
        with pytest.raises(KafkaError) as caught:
            broker.produce("not a name", b"v")
        assert caught.value.code == ErrorCode.INVALID_TOPIC_EXCEPTION
        broker.create_topic("t", configs={"max.message.bytes": 100})
        with pytest.raises(KafkaError) as caught:
            broker.produce("t", bytes(1000))
        assert caught.value.code == ErrorCode.MESSAGE_TOO_LARGE
        with pytest.raises(KafkaError) as caught:
            broker.create_topic("t")
        assert caught.value.code == ErrorCode.TOPIC_ALREADY_EXISTS


# reset ------------------------------------------------------------------------------------------------------


def test_reset_empties_the_broker() -> None:
    with Broker() as broker:
        address = broker.bootstrap_servers
        broker.create_topic("t", configs={"retention.ms": 5})
        broker.produce("t", b"v")
        admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
        resource = ConfigResource(
            ConfigResource.Type.BROKER,
            "1",
            incremental_configs=[
                ck.admin.ConfigEntry(
                    "log.retention.ms", "7", incremental_operation=ck.admin.AlterConfigOpType.SET
                )
            ],
        )
        admin.incremental_alter_configs([resource])[resource].result()
        broker.intercept("Metadata", lambda request: None)
        broker.reset()
        assert broker.topics() == []
        assert broker.bootstrap_servers == address
        assert not broker._interceptors.placed
        described = admin.describe_configs([resource])[resource].result()
        assert described["log.retention.ms"].value != "7"
        broker.produce("t", b"new")
        assert [(record.offset, record.value) for record in broker.records("t")] == [(0, b"new")]


@pytest.mark.parametrize("idempotent", [True, False])
def test_clients_go_on_after_a_reset(idempotent: bool) -> None:
    with Broker() as broker:
        producer = producer_of(broker, enable_idempotence=idempotent)
        consumer = ck.Consumer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "group.id": "unused",
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        for round_number in range(3):
            value = b"%d" % round_number
            send(producer, "t", value)
            assert values(broker, "t") == [value]
            consumer.assign([ck.TopicPartition("t", 0, 0)])
            message = consumer.poll(30)
            while message is not None and message.error():  # it hears first that the old topic is gone
                message = consumer.poll(30)
            assert message is not None
            assert (message.offset(), message.value()) == (0, value)
            broker.reset()
        consumer.close()


def test_committed_offsets_go_with_a_reset() -> None:
    with Broker({"group.initial.rebalance.delay.ms": 0}) as broker:
        for round_number in range(2):
            for number in range(2):
                broker.produce("t", b"%d %d" % (round_number, number))
            consumer = ck.Consumer(
                {
                    "bootstrap.servers": broker.bootstrap_servers,
                    "group.id": "same",
                    "auto.offset.reset": "earliest",
                    "enable.auto.commit": False,
                    "log_level": 0,
                }
            )
            consumer.subscribe(["t"])
            message = consumer.poll(30)
            assert message is not None
            assert message.error() is None
            assert message.value() == b"%d 0" % round_number
            consumer.commit(message, asynchronous=False)
            consumer.close()
            broker.reset()
            assert broker.topics() == []


def test_a_reset_wakes_whoever_waits_for_a_topic() -> None:
    with Broker() as broker:
        broker.create_topic("t")

        async def wait(connection: Connection) -> int:
            waiting = connection.submit(fetch(broker, "t", 0, max_wait_ms=100_000))
            await parked(broker)
            await asyncio.to_thread(broker.reset)
            return int((await waiting).responses[0].partitions[0].error_code)

        assert ask(broker, wait) == ErrorCode.UNKNOWN_TOPIC_ID


def test_reset_sets_an_advanced_clock_back() -> None:
    with Broker() as broker:
        address = broker.bootstrap_servers
        broker.clock.advance(1_000_000)
        broker.produce("t", b"v")
        broker.reset()
        assert broker.bootstrap_servers == address
        assert broker.topics() == []
        assert abs(broker.clock.now_ms() - time.time() * 1000) < 500_000
    own = SteppedClock()
    own.advance(10)
    with Broker(clock=own) as broker:
        broker.reset()
        assert broker.clock is own


# clock ------------------------------------------------------------------------------------------------------


def test_a_long_poll_ends_when_the_clock_is_stepped() -> None:
    with Broker() as broker:
        broker.create_topic("t")

        async def wait(connection: Connection) -> int:
            waiting = connection.submit(fetch(broker, "t", 0, max_wait_ms=600_000))
            await parked(broker)
            broker.clock.advance(599)
            await asyncio.to_thread(broker.topics)
            assert not waiting.done()
            broker.clock.advance(2)
            return len((await waiting).responses)

        assert ask(broker, wait) == 1


def test_a_segment_is_rolled_when_its_time_is_over() -> None:
    with Broker() as broker:
        broker.create_topic("t", configs={"segment.ms": 60_000})

        def segments() -> list[int]:
            async def look() -> list[int]:
                log = broker.node.replicas.find("t", 0).leading_log()
                return [segment.base_offset for segment in log.segments_info()]

            return broker.run(look())

        broker.produce("t", b"0")
        broker.clock.advance(30)
        broker.produce("t", b"1")
        assert segments() == [0]
        broker.clock.advance(60)
        broker.produce("t", b"2")
        assert segments() == [0, 2]
        assert values(broker, "t") == [b"0", b"1", b"2"]


def test_records_get_the_clocks_time() -> None:
    with Broker(clock=SteppedClock(frozen=True, start_ms=1_000_000)) as broker:
        broker.create_topic("t", configs={"message.timestamp.type": "LogAppendTime"})
        broker.produce("t", b"0")
        broker.clock.advance(1.5)
        broker.produce("t", b"1")
        assert [record.timestamp for record in broker.records("t")] == [1_000_000, 1_001_500]


def test_deleted_files_go_when_their_delay_is_over(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path) as broker:
        broker.produce("t", b"v")
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
        admin.delete_topics(["t"])["t"].result()
        assert len(list(tmp_path.glob("t-0*-delete"))) == 1
        broker.clock.advance(70)
        wait_until(lambda: not list(tmp_path.glob("t-0*")))  # they go in another thread


def test_idle_connections_are_closed_in_their_time() -> None:
    with Broker({"connections.max.idle.ms": 60_000}) as broker:

        async def idle(connection: Connection) -> None:
            for _ in range(3):
                broker.clock.advance(61)
                await asyncio.to_thread(broker.run, turns())
            await until(lambda: connection.closed)

        ask(broker, idle)


def test_producers_that_are_silent_for_a_day_are_forgotten() -> None:
    with Broker() as broker:
        broker.create_topic("t")
        written = batch(b"v", producer_id=77, producer_epoch=0, base_sequence=0)
        ask(broker, lambda connection: connection.send(produce(broker, "t", written)))

        async def producers() -> int:
            return len(broker.node.replicas.find("t", 0).leading_log().active_producers())

        assert broker.run(producers()) == 1
        broker.clock.advance(2 * 86_400)
        broker.run(turns())
        assert broker.run(producers()) == 0


def test_a_loop_that_does_not_close_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """uvloop may wait for ever for a connection that was being made."""
    monkeypatch.setattr(broker_module, "_CLOSE_SECONDS", 0.05)
    released, new_loop = threading.Event(), broker_module.new_event_loop

    class Stuck:
        def __init__(self) -> None:
            self._loop = new_loop()

        def __getattr__(self, name: str) -> Any:
            return getattr(self._loop, name)

        def close(self) -> None:
            released.wait(60)
            self._loop.close()

    monkeypatch.setattr(broker_module, "new_event_loop", Stuck)
    monkeypatch.setattr(broker_module.asyncio, "set_event_loop", lambda loop: None)
    broker = Broker().start()
    broker.stop()
    assert not broker.running
    released.set()
