"""Names by the rules of the JMX exporter, as a real one gave them."""

import pytest

from moldau.metrics.table import Kind, Metric


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        (("kafka.server", "BrokerTopicMetrics", "BytesInPerSec", Kind.METER), "bytesin_total"),
        (("kafka.server", "ReplicaManager", "LeaderCount", Kind.GAUGE), "leadercount"),
        (("kafka.log", "Log", "RetentionSizeInPercent", Kind.GAUGE), "retentionsizein_percent"),
        (("kafka.log", "LogCleanerManager", "max-dirty-percent", Kind.GAUGE), "max_dirty_percent"),
        (("kafka.network", "RequestMetrics", "TotalTimeMs", Kind.HISTOGRAM), "totaltimems"),
        (("kafka.coordinator.group", "GroupMetadataManager", "NumGroups", Kind.GAUGE), "numgroups"),
    ],
)
def test_the_name_follows_from_the_mbean(metric: tuple[str, str, str, Kind], expected: str) -> None:
    domain, type_, name, kind = metric
    written = Metric(domain, type_, name, "help", kind).prometheus
    assert written == f"{domain.replace('.', '_')}_{type_.lower()}_{expected}"


def test_percentiles_have_a_count_beside_them() -> None:
    metric = Metric("kafka.log", "LogFlushStats", "LogFlushRateAndTimeMs", "help", Kind.TIMER)
    assert metric.prometheus_names == (
        "kafka_log_logflushstats_logflushrateandtimems",
        "kafka_log_logflushstats_logflushrateandtimems_count_total",
    )


def test_an_attribute_that_grows_ends_in_total_once() -> None:
    kind = "kafka.server", "socket-server-metrics", None, "help"
    metric = Metric(*kind, attribute="incoming-byte-total", grows=True)
    assert metric.prometheus == "kafka_server_socket_server_metrics_incoming_byte_total"


def test_keys_are_labels() -> None:
    metric = Metric(
        "kafka.server", "Produce", None, "help", keys=("user", "client-id"), attribute="byte-rate"
    )
    assert metric.labels == ("user", "client_id")
    assert metric.object_name == "kafka.server:type=Produce,user=*,client-id=*"
