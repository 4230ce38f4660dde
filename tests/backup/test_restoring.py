"""A backup taken over the wire and brought back to another cluster, compared row by row and byte by byte."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer

from moldau.backup import restoring, taking
from moldau.backup.manifest import BackupError, Chunk, GroupOffset, Run, manifest_name, write_manifest
from moldau.backup.restoring import RestoreOptions, cut_offset, pieces, restore_topics
from moldau.backup.runs import choose, problems, read_runs
from moldau.backup.taking import Wanted, take_backup
from moldau.base.names import TopicPartition
from moldau.base.object_stores import LocalStore
from moldau.client.admin.admin import Admin, raise_errors
from moldau.client.groups.descriptions import CommittedOffset
from moldau.client.groups.groups import Groups
from moldau.client.transport.cluster import Cluster
from moldau.mirror.rules.filters import name_filter
from moldau.mirror.source import Bounds, source_bounds
from moldau.mirror.topics import own_configs
from moldau.protocol.records import Record, encode_batch
from moldau.testing import Broker
from tests.mirror.flows import SETTINGS, ask, committed, content, log_bounds, log_bytes

EVERYTHING = Wanted(name_filter([".*"]), name_filter([".*"]))


class Clock:
    """Every look at it is a second later than the last."""

    def __init__(self) -> None:
        self.now = 1_700_000_000_000

    def __call__(self) -> int:
        self.now += 1000
        return self.now


@pytest.fixture(scope="module")
def brokers() -> Iterator[tuple[Broker, Broker]]:
    with Broker(SETTINGS) as a, Broker(SETTINGS) as b:
        yield a, b


@pytest.fixture
def pair(brokers: tuple[Broker, Broker]) -> tuple[Broker, Broker]:
    for broker in brokers:
        broker.reset()
    return brokers


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def take(broker: Broker, store: LocalStore, clock: Clock, wanted: Wanted = EVERYTHING) -> Run:
    return ask(broker, lambda cluster: take_backup(cluster, store, wanted, now_ms=clock))


def restore(broker: Broker, store: LocalStore, run: Run, **options: object) -> restoring.Restored:
    names = {name: name for name in run.topics}
    given = RestoreOptions(**{"names": names, **options})  # type: ignore[arg-type]

    async def work(cluster: Cluster) -> restoring.Restored:
        done = await restore_topics(cluster, store, run, given)
        await restoring.restore_groups(cluster, run.groups, given.names, done)
        return done

    return ask(broker, work)


def write(broker: Broker, topic: str, values: list[bytes], **options: object) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 1, **options})
    for at, value in enumerate(values):
        producer.produce(topic, value, b"k%d" % (at % 7), at % 2, headers=[("n", b"%d" % at), ("none", None)])
    assert producer.flush(60) == 0


@pytest.mark.slow
def test_what_was_deleted_after_a_time_comes_back(
    pair: tuple[Broker, Broker], store: LocalStore, clock: Clock
) -> None:
    a, b = pair
    for topic in ("orders", "gone"):
        a.create_topic(topic, configs={"retention.ms": "-1"})
        for at in range(5):
            a.produce(topic, b"%d" % at, timestamp_ms=1_600_000_000_000 + at)
    take(a, store, clock)
    moment_ms = clock()

    async def accident(cluster: Cluster) -> None:
        raise_errors(await Admin(cluster).delete_records({TopicPartition("orders", 0): 4}))
        raise_errors(await Admin(cluster).delete_topics(["gone"]))

    ask(a, accident)
    a.produce("orders", b"later", timestamp_ms=moment_ms + 1)
    take(a, store, clock)
    chosen = choose(read_runs(store), at_ms=moment_ms).records
    restore(b, store, chosen, at_ms=moment_ms)
    for topic in ("orders", "gone"):
        assert [bytes(each.value or b"") for each in b.records(topic)] == [b"0", b"1", b"2", b"3", b"4"]


def test_a_topic_that_is_deleted_meanwhile_is_left_out(
    pair: tuple[Broker, Broker], store: LocalStore, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, _ = pair
    for topic in ("gone", "orders"):
        a.create_topic(topic)
        a.produce(topic, b"x")
    bounds_of = source_bounds

    async def meanwhile(cluster: Cluster, partitions: list[TopicPartition]) -> dict[TopicPartition, Bounds]:
        if partitions[0].topic == "gone":
            raise_errors(await Admin(cluster).delete_topics(["gone"]))
        return await bounds_of(cluster, partitions)

    monkeypatch.setattr(taking, "source_bounds", meanwhile)
    assert list(take(a, store, clock).topics) == ["orders"]


def test_two_runs_at_the_same_time(
    pair: tuple[Broker, Broker], store: LocalStore, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files of the one that began first would be removed as leftovers of the other."""
    others: list[Run] = []

    async def meanwhile(cluster: Cluster, wanted: Wanted) -> dict[str, tuple[GroupOffset, ...]]:
        if not others:
            others.append(Run("", None, 0, 0, {}))
            others.append(await take_backup(cluster, store, wanted, now_ms=clock))
        return {}

    monkeypatch.setattr(taking, "_groups", meanwhile)
    with pytest.raises(BackupError, match="at the same time"):
        take(pair[0], store, clock)
    assert read_runs(store) == others[1:]
    take(pair[0], store, clock)


@pytest.mark.slow
def test_incremental_runs_and_back_byte_by_byte(
    pair: tuple[Broker, Broker], store: LocalStore, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = pair
    monkeypatch.setattr(taking, "_CHUNK_BYTES", 2000)
    monkeypatch.setattr(taking, "_FETCH_BYTES", 1000)
    monkeypatch.setattr(restoring, "_REQUEST_BYTES", 3000)
    a.create_topic("orders", partitions=2, configs={"retention.ms": "-1"})
    a.create_topic("empty")
    write(a, "orders", [b"v%d" % at for at in range(400)], **{"compression.type": "zstd", "batch.size": 500})

    async def commit(cluster: Cluster) -> None:
        raise_errors(await Admin(cluster).delete_records({TopicPartition("orders", 1): 30}))
        offsets = {TopicPartition("orders", 0): CommittedOffset(17, -1, "mine")}
        raise_errors(await Groups(cluster).commit("billing", offsets))

    ask(a, commit)
    first = take(a, store, clock)
    write(a, "orders", [b"w%d" % at for at in range(100)])
    second = take(a, store, clock)
    assert len(first.chunks) >= 4
    assert set(first.chunks) < set(second.chunks), "what was there is not copied again"
    assert 0 < second.own_size < first.size
    assert take(a, store, clock).own_size == 0
    assert [problem for run in read_runs(store) for problem in problems(store, run)] == []

    done = restore(b, store, second)
    assert log_bounds(b, "orders") == log_bounds(a, "orders")
    assert log_bounds(b, "orders")[1][0] == 30
    for partition in (0, 1):
        assert log_bytes(b, "orders", partition) == log_bytes(a, "orders", partition)
    assert content(b, "orders") == content(a, "orders")
    assert {*b.topics()} >= {"empty", "orders"}
    assert (done.groups, done.refused) == (1, [])
    found = ask(b, lambda cluster: Groups(cluster).committed("billing"))
    assert found == {TopicPartition("orders", 0): CommittedOffset(17, -1, "mine")}
    assert ask(b, lambda cluster: own_configs(cluster, ["orders"])) == {"orders": {"retention.ms": "-1"}}
    write(b, "orders", [b"a new one"] * 2)
    assert len(content(b, "orders")) == len(content(a, "orders")) + 2


@pytest.mark.slow
def test_transactions_stay_what_they_were(
    pair: tuple[Broker, Broker], store: LocalStore, clock: Clock
) -> None:
    a, b = pair
    a.create_topic("orders")
    writer = Producer({"bootstrap.servers": a.bootstrap_servers, "transactional.id": "t"})
    writer.init_transactions(60)
    for at, end in enumerate(("commit", "abort", "open")):
        writer.begin_transaction()
        writer.produce("orders", b"%d" % at, partition=0)
        writer.flush(60)
        if end != "open":
            (writer.commit_transaction if end == "commit" else writer.abort_transaction)(60)
    run = take(a, store, clock)
    restore(b, store, run)
    assert [row[3] for row in committed(b, "orders")] == [b"0"]
    assert [row[3] for row in content(b, "orders")] == [b"0", b"1", b"2"]
    b.produce("orders", b"3")
    assert [row[3] for row in committed(b, "orders")] == [b"0", b"3"], "the open one was aborted"
    writer.abort_transaction(60)


def test_to_a_point_in_time(pair: tuple[Broker, Broker], store: LocalStore, clock: Clock) -> None:
    a, b = pair
    a.create_topic("orders")
    producer = Producer({"bootstrap.servers": a.bootstrap_servers, "linger.ms": 100})
    for at in range(100):
        producer.produce("orders", b"%d" % at, timestamp=1_000_000 + at)
    assert producer.flush(60) == 0
    run = take(a, store, clock)
    restore(b, store, run, at_ms=1_000_041)
    assert [row[3] for row in content(b, "orders")] == [b"%d" % at for at in range(42)]
    assert content(b, "orders") == content(a, "orders")[:42]
    restore(b, store, run, names={"orders": "before"}, at_ms=1)
    assert content(b, "before") == []


def test_what_is_there_is_not_touched(pair: tuple[Broker, Broker], store: LocalStore, clock: Clock) -> None:
    a, b = pair
    a.create_topic("orders")
    a.produce("orders", b"theirs")
    b.create_topic("orders")
    b.produce("orders", b"mine")
    run = take(a, store, clock)
    with pytest.raises(BackupError, match="orders exists already"):
        restore(b, store, run)
    restore(b, store, run, names={"orders": "orders-of-old"})
    assert [row[3] for row in content(b, "orders")] == [b"mine"]
    assert [row[3] for row in content(b, "orders-of-old")] == [b"theirs"]
    other = replace(run, run_id="20231114T231320123Z", cluster_id="another")
    store.put(manifest_name(other.run_id), write_manifest(other))
    clock.now += 86_400_000
    with pytest.raises(BackupError, match="place of its own"):
        take(a, store, clock)


@pytest.mark.slow
def test_a_restore_that_was_interrupted_goes_on(
    pair: tuple[Broker, Broker], store: LocalStore, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = pair
    monkeypatch.setattr(taking, "_CHUNK_BYTES", 2000)
    monkeypatch.setattr(taking, "_FETCH_BYTES", 1000)
    a.create_topic("orders", partitions=2)
    write(a, "orders", [b"v%d" % at for at in range(400)], **{"batch.size": 500})
    run = take(a, store, clock)
    damaged = run.topics["orders"].partitions[1].chunks[2].name
    data = store.get(damaged)
    store.put(damaged, data[:-1])
    with pytest.raises(BackupError, match="damaged"):
        restore(b, store, run)
    store.put(damaged, data)
    restore(b, store, run)
    assert content(b, "orders") == content(a, "orders")


def test_a_topic_that_was_made_again_is_copied_anew(
    pair: tuple[Broker, Broker], store: LocalStore, clock: Clock
) -> None:
    a, b = pair
    a.create_topic("orders")
    a.produce("orders", b"old")
    first = take(a, store, clock)
    ask(a, lambda cluster: Admin(cluster).delete_topics(["orders"]))
    a.create_topic("orders")
    a.produce("orders", b"new")
    second = take(a, store, clock)
    assert not set(first.chunks) & set(second.chunks)
    restore(b, store, choose(read_runs(store)).records)
    assert [row[3] for row in content(b, "orders")] == [b"new"]
    restore(b, store, choose(read_runs(store), run_id=first.run_id).records, names={"orders": "old"})
    assert [row[3] for row in content(b, "old")] == [b"old"]


def test_compaction_leaves_gaps_also_at_the_end(
    pair: tuple[Broker, Broker], store: LocalStore, clock: Clock
) -> None:
    a, b = pair
    a.create_topic("table", configs={"cleanup.policy": "compact"})
    records = [Record(at, at, b"k%d" % at, b"v", ()) for at in (3, 7, 9)]

    def compacted() -> None:
        (partition,) = a._partitions("table")
        assert partition.log is not None
        # As after a cleaning: offsets that no record has, and as after a roll, when it took all of the end.
        batch = encode_batch(records, base_offset=2, last_offset_delta=8, leader_epoch=0)
        partition.log.append_batches(memoryview(batch), 0)
        partition.log.log_end_offset = 40
        partition._advance(partition.log, 0)

    a._call(compacted)
    run = take(a, store, clock)
    assert run.topics["table"].partitions[0].log_end_offset == 40
    restore(b, store, run)
    assert content(b, "table") == content(a, "table")
    assert log_bounds(b, "table") == [(0, 40)]


# --- pure parts ---------------------------------------------------------------------------------------------


def batch(first: int, count: int) -> bytes:
    records = [Record(first + n, 1000 + first + n, b"k", b"v", ()) for n in range(count)]
    return bytes(encode_batch(records, base_offset=first, leader_epoch=0))


def test_where_a_chunk_is_cut() -> None:
    data = batch(0, 5) + batch(5, 5)
    chunk = Chunk("n", len(data), "", 0, 10, 1009, 0)
    assert cut_offset(chunk, data, 1009) is None
    assert cut_offset(chunk, data, 1006) == 7
    assert cut_offset(chunk, data, 1004) == 5
    assert cut_offset(chunk, data, 0) == 0


def test_pieces_are_whole_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [batch(first, 5) for first in (0, 5, 10)]
    data = b"".join(parts)
    assert list(pieces(data, 0, None)) == [data]
    assert list(pieces(data, 5, None)) == [parts[1] + parts[2]]
    assert list(pieces(data, 0, 10)) == [parts[0] + parts[1]]
    assert list(pieces(data, 0, 0)) == []
    whole, cut = pieces(data, 0, 7)
    assert (bytes(whole), len(bytes(cut)) < len(parts[1])) == (parts[0], True)
    monkeypatch.setattr(restoring, "_REQUEST_BYTES", 1)
    assert list(pieces(data, 0, None)) == parts


def test_apache_kafka_cannot_be_restored_into(
    pair: tuple[Broker, Broker], store: LocalStore, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = pair

    async def no(cluster: Cluster) -> bool:
        return False

    monkeypatch.setattr(restoring, "supports_mirrors", no)
    with pytest.raises(BackupError, match="restore into Moldau"):
        restore(b, store, take(a, store, clock))
