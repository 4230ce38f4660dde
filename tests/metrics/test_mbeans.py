"""Names of MBeans: how they are written, parsed and matched; and what each kind of metric shows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.metrics.instruments import Histogram
from moldau.metrics.mbeans import BadName, MBeans, ObjectName, object_name, quoted
from moldau.metrics.readings import Reading, Sources, one
from moldau.metrics.table import Kind, Metric

SIZE = Metric("kafka.log", "Log", "Size", "Bytes", Kind.GAUGE, ("topic", "partition"))
FLUSH = Metric("kafka.log", "LogFlushStats", "LogFlushRateAndTimeMs", "Time", Kind.TIMER, unit="calls")
IN = Metric("kafka.server", "BrokerTopicMetrics", "BytesInPerSec", "Bytes", Kind.METER, unit="bytes")
COUNT = Metric("kafka.server", "client-metrics", None, "Clients", attribute="instance-count")
UNKNOWN = Metric("kafka.server", "client-metrics", None, "Refused", attribute="unknown-count")


@pytest.fixture
def beans() -> MBeans:
    sources = Sources()
    histogram = Histogram()
    histogram.record(5.0, 0.0)
    sources.add("kafka.log", "Log", lambda: [Reading(SIZE, [(("a", "0"), 10), (("b", "1"), 20)])])
    sources.add("kafka.log", "LogFlushStats", lambda: [one(FLUSH, histogram)])
    sources.add("kafka.server", "BrokerTopicMetrics", lambda: [one(IN, 600)])
    sources.add("kafka.server", "client-metrics", lambda: [one(COUNT, 2), one(UNKNOWN, 1)])
    return MBeans(sources, 0.0)


def names(beans: MBeans, pattern: str) -> list[str]:
    return [each[0].written(False) for each in beans.find(ObjectName.parse(pattern)) if each is not None]


def shown(beans: MBeans, name: str, now: float = 60.0) -> dict[str, object]:
    ((found, metrics, values),) = filter(None, beans.find(ObjectName.parse(name)))
    return beans.attributes(found, metrics, values, now)


@pytest.mark.parametrize(
    ("pattern", "count"),
    [
        ("kafka.log:type=Log,name=Size,topic=a,partition=0", 1),
        ("kafka.log:partition=0,topic=a,name=Size,type=Log", 1),
        ("kafka.log:type=Log,name=Size,topic=*,partition=*", 2),
        ("kafka.log:type=Log,*", 2),
        ("kafka.log:*", 3),
        ("kafka.*:*", 5),
        ("*:type=client-*", 1),
        ("kafka.log:type=Log,name=Size,topic=?,partition=1", 1),
        ("kafka.log:type=Log,name=Size", 0),
        ("kafka.nothing:*", 0),
    ],
)
def test_patterns_find_names(beans: MBeans, pattern: str, count: int) -> None:
    assert len(names(beans, pattern)) == count


@pytest.mark.parametrize(
    "text", ["kafka", "kafka:", "kafka:type", "kafka:type=a,type=b", "kafka:=x", "a:b=c=d"]
)
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(BadName):
        ObjectName.parse(text)


def test_a_pattern_costs_no_more_than_the_name_is_long() -> None:
    """Anybody who may look could hold the broker's thread for years with the regular expression of this."""
    name = ObjectName.parse("kafka.log:type=Log,name=Size,topic=" + "a" * 249)
    assert not ObjectName.parse("kafka.log:topic=" + "*a" * 40 + "*b,*").matches(name)
    assert ObjectName.parse("kafka.log:topic=" + "*a" * 40 + "*,*").matches(name)


def test_values_are_quoted_where_kafka_quotes_them() -> None:
    assert [quoted(each) for each in ("a.b-c_1", "a:b", 'say "x"', "a*")] == [
        "a.b-c_1",
        '"a:b"',
        '"say \\"x\\""',
        '"a\\*"',
    ]


@given(st.text(max_size=20), st.text(max_size=20))
def test_a_written_name_finds_itself(topic: str, partition: str) -> None:
    name = object_name(SIZE, (topic, partition))
    again = ObjectName.parse(name.written(False))
    assert again == name
    assert not again.is_pattern
    assert again.matches(name)


def test_a_gauge_has_a_value(beans: MBeans) -> None:
    assert shown(beans, "kafka.log:type=Log,name=Size,topic=b,partition=1") == {"Value": 20}


def test_a_meter_has_a_count_and_rates(beans: MBeans) -> None:
    attributes = shown(beans, "kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec")
    assert attributes["Count"] == 600
    assert attributes["EventType"] == "bytes"
    assert attributes["MeanRate"] == attributes["OneMinuteRate"] == 10.0


def test_a_timer_has_percentiles_and_rates(beans: MBeans) -> None:
    attributes = shown(beans, "kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs")
    assert attributes["999thPercentile"] == attributes["Max"] == 5.0
    assert attributes["LatencyUnit"] == "MILLISECONDS"
    assert "FifteenMinuteRate" in attributes


def test_attributes_of_one_mbean_come_together(beans: MBeans) -> None:
    assert shown(beans, "kafka.server:type=client-metrics") == {"instance-count": 2, "unknown-count": 1}
