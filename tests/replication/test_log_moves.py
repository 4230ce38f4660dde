"""Replicas that move between the data directories of a broker: beside appends, through crashes and cuts."""

from collections.abc import Iterator
from typing import Any

import pytest

from moldau.base.names import TopicPartition
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.records import Record, encode_batch
from moldau.testing import Broker
from tests.shared.waiting import turns, until, wait_until

ORDERS = TopicPartition("orders", 0)
RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
SETTINGS: dict[str, Any] = {"log.dirs": "/a,/b", "node.id": 1}


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(SETTINGS) as broker:
        yield broker


def directory(broker: Broker, place: TopicPartition = ORDERS) -> str:
    found = broker.node.logs.directory_of(place)
    assert found is not None
    return found.path


def other(broker: Broker) -> str:
    return "/b" if directory(broker) == "/a" else "/a"


def move(broker: Broker, path: str, place: TopicPartition = ORDERS) -> None:
    async def ask() -> None:
        broker.node.services.log_moves.move(place, path, exists=True)

    broker.run(ask())


def names(broker: Broker, path: str) -> list[str]:
    return [name for name in broker.node._files.list_directory(path) if name.startswith("orders")]


def values(broker: Broker) -> list[bytes | None]:
    return [record.value for record in broker.records("orders")]


def fill(broker: Broker, count: int, size: int = 1000) -> list[bytes]:
    """Batches with a number in front, in small segments."""
    made = [b"%06d" % number + b"x" * size for number in range(count)]

    async def append() -> None:
        partition = broker.node.replicas.find("orders", 0)
        for value in made:
            partition.append(memoryview(encode_batch([Record(0, 1000, b"k", value)])), 1, 1000, 13)

    broker.run(append())
    return made


def wait_for_move(broker: Broker, path: str) -> None:
    wait_until(lambda: directory(broker) == path, lambda: (names(broker, "/a"), names(broker, "/b")))


def test_a_move_beside_appends(broker: Broker) -> None:
    broker.create_topic("orders", 1, {"segment.bytes": 1_048_576})
    target = other(broker)
    fill(broker, 3000)

    async def both() -> int:
        partition = broker.node.replicas.find("orders", 0)
        before = partition.log
        broker.node.services.log_moves.move(ORDERS, target, exists=True)
        idempotent = encode_batch(
            [Record(0, 1000, b"k", b"003000")], producer_id=7, producer_epoch=0, base_sequence=0
        )
        partition.append(memoryview(idempotent), 1, 1000, 13)
        number = 3000
        while partition.log is before:
            number += 1
            batch = encode_batch([Record(0, 1000, b"k", b"%06d" % number)])
            partition.append(memoryview(batch), 1, 1000, 13)
            await turns(3)
        assert partition.log is not None
        assert [each.producer_id for each in partition.log.active_producers()] == [7]
        return number

    last = broker.run(both())
    assert directory(broker) == target
    assert [int(value[:6]) for value in values(broker) if value] == list(range(last + 1))
    assert names(broker, target) == ["orders-0"]
    (old,) = names(broker, other(broker))
    assert old.endswith("-delete")
    broker.produce("orders", "last")
    assert values(broker)[-1] == b"last"


def test_a_reader_of_the_old_files_reads_on(broker: Broker) -> None:
    broker.create_topic("orders")
    made = fill(broker, 10)

    async def slice_of() -> Any:
        log = broker.node.replicas.find("orders", 0).leading_log()
        return log.read(0, 1 << 20, log.log_end_offset, at_least_one=True)

    found = broker.run(slice_of())
    target = other(broker)
    move(broker, target)
    wait_for_move(broker, target)
    assert made[9] in found.read()


def test_a_broker_that_dies_goes_on_at_the_next_start(broker: Broker) -> None:
    broker.stop()
    broker._settings[RATE] = "1"
    broker.start()
    broker.create_topic("orders", 1, {"segment.bytes": 1_048_576})
    made = fill(broker, 4000)
    target = other(broker)
    move(broker, target)

    def copied() -> int:
        return sum(each.size for each in broker.node.services.log_moves.futures_in(target))

    wait_until(lambda: copied() >= 1_000_000)
    (future,) = broker.node.services.log_moves.futures_in(target)
    assert future.topic_partition == ORDERS
    assert 0 < future.offset_lag < 4000
    broker.kill()
    broker._settings[RATE] = str(1 << 40)
    broker.start()
    wait_for_move(broker, target)
    assert values(broker) == made
    broker.stop()
    broker.start()
    assert directory(broker) == target
    assert values(broker) == made


def test_an_exchange_that_fails_is_tried_again(broker: Broker, monkeypatch: Any) -> None:
    """The disk refuses the name once; the log goes on where it was, and moves later."""
    monkeypatch.setattr("moldau.replication.log_moves._AFTER_ERROR_SECONDS", 0.01)
    broker.create_topic("orders")
    made = fill(broker, 20)
    target = other(broker)
    files: Any = broker.node._files
    real = files.rename
    failures = 0

    def once(path: str, goal: str) -> None:
        nonlocal failures
        if failures == 0 and path.endswith("-future"):
            failures += 1
            raise OSError(5, "broken", path)
        real(path, goal)

    monkeypatch.setattr(files, "rename", once)
    move(broker, target)
    wait_for_move(broker, target)
    assert failures == 1
    assert values(broker) == made


def test_a_power_cut_between_the_two_names(broker: Broker, monkeypatch: Any) -> None:
    """Both directories have the partition's name; the marker tells which one is the true one."""
    broker.create_topic("orders")
    made = fill(broker, 20)
    source, target = directory(broker), other(broker)
    files: Any = broker.node._files
    real = files.rename

    def die(path: str, goal: str) -> None:
        if goal.endswith("-delete"):
            raise KeyboardInterrupt
        real(path, goal)

    async def exchange() -> None:
        partition = broker.node.replicas.find("orders", 0)
        moves = broker.node.services.log_moves
        monkeypatch.setattr(files, "rename", die)
        monkeypatch.setattr(moves, "_background", _Nothing())
        moves.move(ORDERS, target, exists=True)
        current = moves._moves[ORDERS]
        while moves._moves[ORDERS].future is None or not current.marked or current.lag:
            await moves._step(current)
        with pytest.raises(KeyboardInterrupt):
            await moves._step(current)
        assert partition.log is not None

    broker.run(exchange())
    broker.kill()
    monkeypatch.setattr(files, "rename", real)
    assert [files.exists(f"{path}/orders-0") for path in (source, target)] == [True, True]
    broker.start()
    assert values(broker) == made
    assert directory(broker) == target
    assert names(broker, target) == ["orders-0"]
    assert all(name.endswith("-delete") for name in names(broker, source))


class _Nothing:
    def start(self, work: Any, name: str) -> None:
        work.close()


def test_a_cut_of_the_log_is_a_cut_of_the_copy(broker: Broker) -> None:
    broker.create_topic("orders")
    made = fill(broker, 20)
    target = other(broker)

    async def cut() -> None:
        partition = broker.node.replicas.find("orders", 0)
        moves = broker.node.services.log_moves
        moves.move(ORDERS, target, exists=True)
        current = moves._moves[ORDERS]
        await until(lambda: current.future is not None and current.future.log_end_offset == 20)
        if partition.log is current.source:
            partition.truncate_to(12, 1000)
            assert current.future is None or current.future.log_end_offset <= 12
        await until(lambda: ORDERS not in moves._moves)

    broker.run(cut())
    assert directory(broker) == target
    assert values(broker) in (made[:12], made)


def test_a_move_back_ends_one_that_is_under_way(broker: Broker) -> None:
    broker.create_topic("orders")
    fill(broker, 10)
    source, target = directory(broker), other(broker)

    async def there_and_back() -> None:
        moves = broker.node.services.log_moves
        moves.move(ORDERS, target, exists=True)
        await turns()
        moves.move(ORDERS, source, exists=True)
        assert list(moves.futures_in(target)) == []

    broker.run(there_and_back())
    assert directory(broker) == source
    assert len(values(broker)) == 10


def test_where_a_replica_cannot_go(broker: Broker) -> None:
    broker.create_topic("orders")
    with pytest.raises(KafkaError) as refused:
        move(broker, "/nowhere")
    assert refused.value.code is ErrorCode.LOG_DIR_NOT_FOUND
    with pytest.raises(KafkaError) as refused:
        move(broker, "/b", TopicPartition("later", 0))
    assert refused.value.code is ErrorCode.REPLICA_NOT_AVAILABLE
    broker.create_topic("later")
    assert directory(broker, TopicPartition("later", 0)) == "/b"


def test_deleted_records_and_leader_epochs(broker: Broker) -> None:
    broker.create_topic("orders")
    fill(broker, 10)

    async def trim() -> None:
        partition = broker.node.replicas.find("orders", 0)
        partition.delete_records(4)

    broker.run(trim())
    target = other(broker)
    move(broker, target)
    wait_for_move(broker, target)
    log = broker.node.replicas.find("orders", 0).log
    assert log is not None
    assert (log.log_start_offset, log.log_end_offset) == (4, 10)
    assert log.leader_epochs.entries() == [(0, 4)]
