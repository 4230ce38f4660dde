"""A real Kafka's directory becomes one of ours: topics, records, group offsets, transactions, configs."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource

from moldau.importing.directory import plan_import, run_import, staging
from moldau.importing.metadata import ImportFailed, read_moldau_image
from moldau.inspection.findings import Severity
from moldau.inspection.layout import find_target
from moldau.inspection.verify import plan as plan_checks
from moldau.testing import Broker

pytestmark = pytest.mark.slow

SETTINGS = {"group.initial.rebalance.delay.ms": "0", "auto.create.topics.enable": "false"}


def content(directory: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path.relative_to(directory)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def problems(path: Path) -> list[str]:
    found = (finding for job in plan_checks(find_target(path)) for finding in job.run().findings)
    return [each.what for each in found if each.severity is not Severity.NOTE]


@contextmanager
def consumer(broker: Broker, group: str, **options: str | bool) -> Iterator[Consumer]:
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": group, "enable.auto.commit": False}
    made = Consumer({**settings, "auto.offset.reset": "earliest", **options})
    try:
        yield made
    finally:
        made.close()


def values(reader: Consumer, topic: str, partition: int, count: int) -> list[bytes]:
    reader.assign([TopicPartition(topic, partition, 0)])
    found: list[bytes] = []
    while len(found) < count:
        message = reader.poll(10)
        assert message is not None, f"{len(found)} of {count} records of {topic}"
        assert message.error() is None
        found.append(message.value())
    return found


@pytest.mark.parametrize("link", [False, True])
def test_a_broker_serves_what_kafka_had(kafka_directory: Path, tmp_path: Path, link: bool) -> None:
    before = content(kafka_directory)
    plan = plan_import([kafka_directory], tmp_path / "data", link=link)
    assert plan.topics == ["__consumer_offsets", "__transaction_state", "clicks", "orders", "payments"]
    assert plan.remarks == ("1 SCRAM credentials are not imported",)
    assert plan.clean
    sizes: list[int] = []
    run_import(plan, sizes.append)
    assert sum(sizes) == plan.size
    assert problems(tmp_path / "data") == []
    with Broker(SETTINGS, data_dir=tmp_path / "data") as broker:
        _look_at_topics(broker)
        _look_at_records(broker)
        _go_on_writing(broker)
    assert problems(tmp_path / "data") == []
    assert content(kafka_directory) == before
    linked = [path for path in (tmp_path / "data").rglob("*.log") if path.stat().st_nlink > 1]
    assert [str(path.relative_to(tmp_path / "data")) for path in linked] == (
        [f"orders-0/{0:020d}.log"] if link else []
    )


def _look_at_topics(broker: Broker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    listed = admin.list_topics(timeout=10)
    assert listed.cluster_id == "TW9sZGF1R29sZGVuMDAwMQ"
    assert {name: len(topic.partitions) for name, topic in listed.topics.items()} == {
        "orders": 3,
        "payments": 1,
        "clicks": 1,
        "__consumer_offsets": 3,
        "__transaction_state": 2,
    }
    (described,) = admin.describe_configs([ConfigResource("topic", "orders")]).values()
    assert described.result()["retention.ms"].value == "-1"


def _look_at_records(broker: Broker) -> None:
    with consumer(broker, "billing") as reader:
        committed = reader.committed([TopicPartition("orders", partition) for partition in range(3)])
        assert [each.offset for each in committed] == [10, 10, 10]
        for partition, count in enumerate((130, 85, 85)):
            assert len(values(reader, "orders", partition, count)) == count
        # Two of six transactions of three records were aborted.
        assert values(reader, "payments", 0, 12)[-1] == b"payment 4.2"
    with consumer(broker, "other", **{"isolation.level": "read_uncommitted"}) as reader:
        assert len(values(reader, "payments", 0, 18)) == 18


def _go_on_writing(broker: Broker) -> None:
    """The transactional id is known, its epoch goes on, and new producers get ids that nobody had."""
    delivered: list[int] = []

    def note(error: object, message: object) -> None:
        assert error is None
        delivered.append(message.offset())  # type: ignore[attr-defined]

    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "bookkeeper"})
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce("payments", b"new", on_delivery=note)
    producer.commit_transaction(10)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    producer.produce("orders", b"new", partition=1, on_delivery=note)
    producer.flush(10)
    assert delivered == [24, 85]


def test_without_metadata_the_names_of_directories_tell(kafka_directory: Path, tmp_path: Path) -> None:
    shutil.rmtree(kafka_directory / "__cluster_metadata-0")
    (kafka_directory / "orders-1" / "partition.metadata").unlink()
    (kafka_directory / ".kafka_cleanshutdown").unlink()
    plan = plan_import([kafka_directory], tmp_path / "data", cluster_id="mine", node_id=4)
    assert len(plan.remarks) == 2
    assert (plan.origin, plan.clean) == ("the names of directories", False)
    run_import(plan)
    image = read_moldau_image(tmp_path / "data")
    assert image.cluster_id == "mine"
    assert len(image.topics_by_name["orders"].partitions) == 3
    assert image.topics_by_name["orders"].partitions[0].replicas == (4,)
    assert image.next_producer_id > 0  # a partition remembers a producer
    assert not (tmp_path / "data" / ".kafka_cleanshutdown").exists()
    with Broker(SETTINGS | {"node.id": "4"}, data_dir=tmp_path / "data") as broker:
        assert len(broker.records("orders")) == 300


def test_partitions_that_do_not_belong_or_are_missing(kafka_directory: Path, tmp_path: Path) -> None:
    shutil.copytree(kafka_directory / "clicks-0", kafka_directory / "stranger-0")
    shutil.rmtree(kafka_directory / "orders-0")
    shutil.rmtree(kafka_directory / "payments-0")
    plan = plan_import([kafka_directory], tmp_path / "data")
    texts = "\n".join(plan.remarks)
    assert "stranger-0 belongs to no topic of the metadata" in texts
    assert "partition(s) 0 of orders are not in the source and begin empty" in texts
    assert "topic(s) without a partition in the source stay behind: payments" in texts
    run_import(plan)
    image = read_moldau_image(tmp_path / "data")
    assert "payments" not in image.topics_by_name
    assert len(image.topics_by_name["orders"].partitions) == 3


def test_several_directories(kafka_directory: Path, tmp_path: Path) -> None:
    other = tmp_path / "disk2"
    other.mkdir()
    shutil.copy(kafka_directory / "meta.properties", other)
    shutil.move(kafka_directory / "orders-2", other)
    shutil.copytree(kafka_directory / "orders-1", other / "orders-1")
    plan = plan_import([kafka_directory, other], tmp_path / "data")
    assert len(plan.partitions) == 10
    assert any("holds the same partition" in remark for remark in plan.remarks)


def test_from_another_moldau(tmp_path: Path) -> None:
    with Broker(SETTINGS, data_dir=tmp_path / "old") as broker:
        broker.create_topic("orders", partitions=2, configs={"retention.ms": "5000000000"})
        broker.produce("orders", b"one", partition=1)
    before = content(tmp_path / "old")
    run_import(plan_import([tmp_path / "old"], tmp_path / "new"))
    assert content(tmp_path / "old") == before
    old, new = read_moldau_image(tmp_path / "old"), read_moldau_image(tmp_path / "new")
    assert new.topics_by_name["orders"].topic_id == old.topics_by_name["orders"].topic_id
    assert new.overrides == old.overrides
    with Broker(SETTINGS, data_dir=tmp_path / "new") as broker:
        assert [record.value for record in broker.records("orders")] == [b"one"]


def test_configs_that_are_not_ours(
    kafka_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from moldau.cluster.records import ResourceType
    from moldau.importing import directory
    from moldau.importing.metadata import SourceMetadata, read_metadata

    def with_odd_configs(root: Path) -> SourceMetadata:
        found = read_metadata(root)
        assert found is not None
        odd = {
            (ResourceType.TOPIC, "orders"): {"follower.magic": "1", "retention.ms": "-1", "segment.ms": "x"},
            (ResourceType.TOPIC, "gone"): {"retention.ms": "1"},
            (ResourceType.BROKER, "1"): {"log.cleaner.threads": "2"},
            (ResourceType.CLIENT_METRICS, "m"): {"interval.ms": "100"},
            (ResourceType.GROUP, "billing"): {"consumer.session.timeout.ms": "50000"},
        }
        return SourceMetadata(found.origin, found.topics, odd)

    monkeypatch.setattr(directory, "read_metadata", with_odd_configs)
    plan = plan_import([kafka_directory], tmp_path / "data")
    assert len(plan.remarks) == 4
    run_import(plan)
    image = read_moldau_image(tmp_path / "data")
    assert image.configs(ResourceType.TOPIC, "orders") == {"retention.ms": "-1"}
    assert image.configs(ResourceType.GROUP, "billing") == {"consumer.session.timeout.ms": "50000"}
    assert image.configs(ResourceType.BROKER, "") == {"min.insync.replicas": "1"}


def test_what_is_refused(kafka_directory: Path, tmp_path: Path) -> None:
    target = tmp_path / "data"
    for source, place, texts in (
        (tmp_path / "nowhere", target, "does not exist"),
        (kafka_directory / "orders-0", target, "not a whole data directory"),
        (kafka_directory, kafka_directory, "is not empty"),
        (kafka_directory, kafka_directory / "inside", "lies inside"),
    ):
        with pytest.raises(ImportFailed, match=texts):
            plan_import([source], place)
    staging(target).mkdir()
    with pytest.raises(ImportFailed, match="remove it first"):
        plan_import([kafka_directory], target)
    staging(target).rmdir()
    (kafka_directory / "meta.properties").write_text("version=0\n")
    with pytest.raises(ImportFailed, match="is this a broker's data directory"):
        plan_import([kafka_directory], target)


def test_an_import_that_breaks_off_leaves_no_directory(kafka_directory: Path, tmp_path: Path) -> None:
    plan = plan_import([kafka_directory], tmp_path / "data")
    shutil.rmtree(kafka_directory / "payments-0")
    with pytest.raises(FileNotFoundError):
        run_import(plan)
    assert not (tmp_path / "data").exists()
    assert staging(tmp_path / "data").exists()
