"""DescribeLogDirs: where partitions are kept and how large they are."""

from moldau.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from tests.broker.apis.asking import Ask, batch, produce_request


def sizes(response: object) -> dict[tuple[str, int], int]:
    return {
        (topic.name, partition.partition_index): partition.partition_size
        for directory in response.results  # type: ignore[attr-defined]
        for topic in directory.topics
        for partition in topic.partitions
    }


def test_all_partitions_with_their_sizes(ask: Ask) -> None:
    ask.broker.create_topic("orders", 2)
    records = batch(b"v" * 100)
    ask(produce_request("orders", records, partition=1), 9)
    response = ask(DescribeLogDirsRequest(None))
    assert response.error_code == 0
    assert sizes(response) == {("orders", 0): 0, ("orders", 1): len(records)}
    (directory,) = response.results
    assert directory.error_code == 0
    assert directory.log_dir


def test_only_what_was_asked_for(ask: Ask) -> None:
    ask.broker.create_topic("orders", 2)
    ask.broker.create_topic("other")
    asked = [DescribableLogDirTopic("orders", [1]), DescribableLogDirTopic("nowhere", [0])]
    assert sizes(ask(DescribeLogDirsRequest(asked))).keys() == {("orders", 1)}
    assert sizes(ask(DescribeLogDirsRequest([]))) == {}


def test_the_volume_is_told_from_version_4(ask: Ask) -> None:
    (directory,) = ask(DescribeLogDirsRequest([]), 4).results
    assert directory.total_bytes >= directory.usable_bytes
    (older,) = ask(DescribeLogDirsRequest([]), 3).results
    assert (older.total_bytes, older.usable_bytes) == (-1, -1)
