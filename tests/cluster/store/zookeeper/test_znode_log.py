"""The log in znodes: what is larger than a transaction, what is damaged, and the tree beside it."""

from collections.abc import Iterator
from typing import Any

import pytest

from moldau.cluster.records import PartitionChanged, Record, TopicCreated, TopicDeleted
from moldau.cluster.store.contract import MetadataStoreError, StaleControllerEpoch, StaleVersion
from tests.shared.zookeeper_server import shared_zookeeper

pytest.importorskip("kazoo")

from moldau.cluster.store.zookeeper import znode_log
from moldau.cluster.store.zookeeper.connection import Connection
from moldau.cluster.store.zookeeper.settings import ZooKeeperSettings
from moldau.cluster.store.zookeeper.tree import ROOTS
from moldau.cluster.store.zookeeper.znode_log import CONTROLLER_EPOCH, ROOT, ZnodeLog

pytestmark = pytest.mark.slow


def topic(number: int, partitions: int) -> list[Record]:
    topic_id = number.to_bytes(16, "big")
    return [
        TopicCreated(topic_id, f"t{number}"),
        *(PartitionChanged(topic_id, each, (1, 2), (1, 2), 1, 0, 0) for each in range(partitions)),
    ]


@pytest.fixture
def connection() -> Iterator[Connection]:
    hosts, _, chroot = shared_zookeeper().chroot().partition("/")
    made = Connection(ZooKeeperSettings(hosts, f"/{chroot}", 8.0), lambda state: None)
    for path in (*ROOTS, CONTROLLER_EPOCH):
        made.client.create(path, b"0")
    made.client.set(CONTROLLER_EPOCH, b"1")
    yield made
    made.close()


def test_an_append_that_does_not_fit_into_one_transaction(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(znode_log, "PART_BYTES", 500)
    monkeypatch.setattr(znode_log, "TRANSACTION_BYTES", 5_000)
    log = ZnodeLog(connection)
    records = topic(1, 300)
    assert log.append(records, 0, 1) == (1, False)
    assert len(connection.client.get_children(f"{ROOT}/log")) > 1
    assert len(connection.client.get_children("/brokers/topics/t1/partitions")) == 300
    assert connection.client.exists("/brokers/topics/t1/partitions/299/state")
    other = ZnodeLog(connection)
    assert other.load(0).records == records
    assert other.append([TopicDeleted((1).to_bytes(16, "big"))], 1, 1) == (2, False)
    assert connection.client.get_children("/brokers/topics") == []
    assert log.load(1).version == 2


def test_who_is_late_changes_nothing(connection: Connection) -> None:
    log, other = ZnodeLog(connection), ZnodeLog(connection)
    log.append(topic(1, 1), 0, 1)
    with pytest.raises(StaleVersion):
        other.append(topic(2, 1), 0, 1)
    for epoch in (0, 2):
        with pytest.raises(StaleControllerEpoch):
            log.append(topic(2, 1), 1, epoch)
    assert connection.client.get_children("/brokers/topics") == ["t1"]


def test_a_controller_that_is_replaced_in_the_middle(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had looked at the epoch just before: the transaction itself looks again."""
    log = ZnodeLog(connection)
    log.append(topic(1, 1), 0, 1)
    look = log._epoch_version

    def and_then(epoch: int) -> int:
        version = look(epoch)
        connection.client.set(CONTROLLER_EPOCH, b"2")
        return version

    monkeypatch.setattr(log, "_epoch_version", and_then)
    with pytest.raises(StaleControllerEpoch):
        log.append(topic(2, 1), 1, 1)
    assert ZnodeLog(connection).load(0).version == 1
    assert connection.client.get_children("/brokers/topics") == ["t1"]


def test_a_tree_that_somebody_has_changed_by_hand(connection: Connection) -> None:
    log = ZnodeLog(connection)
    log.append(topic(1, 1), 0, 1)
    connection.client.delete("/brokers/topics/t1", recursive=True)
    connection.client.create("/config/topics/t2", b"by hand")
    log.append([*topic(2, 1), TopicDeleted((1).to_bytes(16, "big"))], 1, 1)
    assert connection.client.get("/config/topics/t2")[0] == b'{"version":1,"config":{}}'
    assert connection.client.get_children("/brokers/topics") == ["t2"]


def test_an_append_that_was_cut_short_does_not_stop_the_next_ones(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The controller died between two transactions: znodes of partitions are missing, or left over."""
    log = ZnodeLog(connection)
    client = connection.client
    log.append(topic(1, 5), 0, 1)
    client.delete("/brokers/topics/t1/partitions/3", recursive=True)
    moved = PartitionChanged((1).to_bytes(16, "big"), 3, (1, 2), (2,), 2, 1, 1)
    log.append([moved], 1, 1)
    assert b'"isr":[2]' in client.get("/brokers/topics/t1/partitions/3/state")[0]
    client.create("/brokers/topics/t1/partitions/7/state", b"left over", makepath=True)
    log.append([TopicDeleted((1).to_bytes(16, "big"))], 2, 1)
    assert client.get_children("/brokers/topics") == []
    assert ZnodeLog(connection).load(0).version == 3


def test_a_controller_that_is_replaced_before_a_part_of_its_append(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next controller has written the same version: the late one takes nothing of it away."""
    monkeypatch.setattr(znode_log, "PART_BYTES", 500)
    late, log = ZnodeLog(connection), ZnodeLog(connection)
    look = late._epoch_version

    def and_then(epoch: int) -> int:
        version = look(epoch)
        connection.client.set(CONTROLLER_EPOCH, b"2")
        log.append(topic(2, 300), 0, 2)
        return version

    monkeypatch.setattr(late, "_epoch_version", and_then)
    with pytest.raises(StaleControllerEpoch):
        late.append(topic(1, 300), 0, 1)
    assert ZnodeLog(connection).load(0).records == topic(2, 300)


def test_an_epoch_from_a_copy_of_the_tree(connection: Connection) -> None:
    """Who copies znodes to another ensemble copies their data, and their versions begin anew."""
    connection.client.delete(CONTROLLER_EPOCH)
    connection.client.create(CONTROLLER_EPOCH, b"38")
    log = ZnodeLog(connection)
    assert log.append(topic(1, 1), 0, 38)[0] == 1
    with pytest.raises(StaleControllerEpoch):
        log.append(topic(2, 1), 1, 37)


@pytest.mark.parametrize("damage", [b"", b"short", bytes(40)])
def test_damage_is_seen(connection: Connection, damage: bytes) -> None:
    ZnodeLog(connection).append(topic(1, 1), 0, 1)
    connection.client.set(f"{ROOT}/log/1", damage)
    with pytest.raises(MetadataStoreError, match=r"/log/1 cannot be used .* restore it from a backup"):
        ZnodeLog(connection).load(0)


def test_an_older_ensemble_is_not_taken_for_ours(connection: Connection) -> None:
    ZnodeLog(connection).append(topic(1, 1), 0, 1)
    with pytest.raises(MetadataStoreError, match="put back to an older state"):
        ZnodeLog(connection).load(7)
    connection.client.set(ROOT, b"[]")
    with pytest.raises(MetadataStoreError, match="is no metadata of Moldau"):
        ZnodeLog(connection).load(0)


def test_a_snapshot_replaces_the_log(connection: Connection) -> None:
    log: Any = ZnodeLog(connection)
    version = 0
    while True:
        version, due = log.append(topic(version + 1, 700), version, 1)
        if due:
            break
    log.compact(1)
    assert connection.client.get_children(f"{ROOT}/log") == []
    assert connection.client.get_children(f"{ROOT}/snapshot") == [str(version)]
    changes = ZnodeLog(connection).load(1)
    assert (changes.after_version, changes.version) == (0, version)
    assert len(changes.records) == version * 701
