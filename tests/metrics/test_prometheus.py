"""Text for Prometheus, line by line, and as OpenMetrics; read back by the library of Prometheus where
it is there.
"""

from collections.abc import Iterable

from moldau.metrics.instruments import Histogram, Rates
from moldau.metrics.prometheus import exposition, wants_openmetrics
from moldau.metrics.readings import Reading, Value, one
from moldau.metrics.table import Kind, Metric

BYTES = Metric("kafka.server", "BrokerTopicMetrics", "BytesInPerSec", "Bytes", Kind.METER)
BY_TOPIC = Metric("kafka.server", "BrokerTopicMetrics", "BytesInPerSec", "Bytes", Kind.METER, ("topic",))
TIMES = Metric("kafka.network", "RequestMetrics", "TotalTimeMs", "Time", Kind.HISTOGRAM, ("request",))
IDLE = Metric("kafka.server", "Pool", "AvgIdlePercent", "Idle", Kind.SHARE)
TEXT = Metric("kafka.server", "KafkaServer", "ClusterId", "Id")


def lines(readings: Iterable[Reading], *, openmetrics: bool = False) -> list[str]:
    return "".join(exposition(readings, 0.0, openmetrics=openmetrics)).splitlines()


def test_with_and_without_a_key_it_is_one_family() -> None:
    values: list[tuple[tuple[str, ...], Value]] = [(("orders",), 5)]
    shown = lines([one(BYTES, 7), one(TEXT, "x"), Reading(BY_TOPIC, values)])
    assert shown[1:] == [
        "# TYPE kafka_server_brokertopicmetrics_bytesin_total counter",
        "kafka_server_brokertopicmetrics_bytesin_total 7",
        'kafka_server_brokertopicmetrics_bytesin_total{topic="orders"} 5',
    ]


def test_openmetrics_names_a_counter_without_its_end() -> None:
    shown = lines([one(BYTES, 7)], openmetrics=True)
    assert shown[1:] == [
        "# TYPE kafka_server_brokertopicmetrics_bytesin counter",
        "kafka_server_brokertopicmetrics_bytesin_total 7",
        "# EOF",
    ]


def test_percentiles_and_their_count() -> None:
    histogram = Histogram()
    histogram.record(4.0, 0.0)
    shown = lines([Reading(TIMES, [(("Produce",), histogram)])])
    name = "kafka_network_requestmetrics_totaltimems"
    assert f'{name}{{request="Produce",quantile="0.99"}} 4.0' in shown
    assert f"# TYPE {name} gauge" in shown
    assert f'{name}_count_total{{request="Produce"}} 1' in shown
    assert f"# TYPE {name}_count_total counter" in shown


def test_a_share_is_its_one_minute_rate() -> None:
    rates = Rates(0.0, 0.0)
    rates.decayed = [0.75, 0.5, 0.25]
    assert "kafka_server_pool_avgidle_percent 0.75" in lines([one(IDLE, rates)])


def test_a_name_cannot_end_its_line() -> None:
    nasty = 'a"b\\c\nd'
    shown = lines([Reading(BY_TOPIC, [((nasty,), 1)])])
    assert shown[-1].endswith('{topic="a\\"b\\\\c\\nd"} 1')


def test_a_family_without_values_is_left_out() -> None:
    assert lines([Reading(BY_TOPIC, []), one(TEXT, "x")]) == []


def test_what_a_scraper_prefers() -> None:
    assert not wants_openmetrics("")
    assert not wants_openmetrics("text/plain")
    assert not wants_openmetrics("*/*")
    prometheus = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
    assert wants_openmetrics(prometheus)
    assert not wants_openmetrics("application/openmetrics-text;q=0.2, text/plain;q=0.9")
    assert not wants_openmetrics("application/openmetrics-text;q=x")
