from moldau.cli.reports.cluster_checks import check_log_dirs, check_topics
from moldau.client.admin.descriptions import LogDir
from moldau.client.transport.cluster import Partition, Topic
from moldau.reports.findings import Severity


def topic(*partitions: tuple[int, tuple[int, ...]]) -> Topic:
    """A topic of three replicas by the leader and the in-sync replicas of each partition."""
    made = [Partition(n, leader, 0, (1, 2, 3), isr) for n, (leader, isr) in enumerate(partitions)]
    return Topic("orders", partitions=tuple(made))


def test_partitions() -> None:
    assert [f.severity for f in check_topics([topic((1, (1, 2, 3)))])] == [Severity.OK]
    offline, lagging = check_topics([topic((-1, ()), (1, (1,)), (2, (1, 2, 3)))])
    assert (offline.severity, offline.text) == (Severity.PROBLEM, "without a leader: orders-0")
    assert (lagging.severity, lagging.text) == (Severity.WARNING, "under-replicated: orders-1")


def test_long_lists_are_shortened() -> None:
    (finding,) = check_topics([topic(*[(-1, ())] * 9)])
    assert finding.text.endswith("orders-4 and 4 more")


def test_disks_of_brokers() -> None:
    gigabyte = 1 << 30
    found = check_log_dirs(
        1,
        [
            LogDir("/a", 0, {}, 100 * gigabyte, 50 * gigabyte),
            LogDir("/b", 0, {}, 100 * gigabyte, gigabyte // 100),
            LogDir("/c", 56, {}),
            LogDir("/old", 0, {}),
        ],
    )
    assert [f.severity for f in found] == [Severity.OK, Severity.PROBLEM, Severity.PROBLEM]
    assert "0.0 GiB free at /b" in found[1].text
    assert found[2].text == "/c is offline"
