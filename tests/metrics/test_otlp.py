"""OTLP: what is sent, decoded by the library of OpenTelemetry where it is there; what clients push, and
rubbish.
"""

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.metrics.instruments import Histogram
from moldau.metrics.otlp import NotOtlp, Point, decode_metrics, export_requests
from moldau.metrics.readings import Reading, Value, one
from moldau.metrics.table import Kind, Metric

IN = Metric("kafka.server", "BrokerTopicMetrics", "BytesInPerSec", "Bytes", Kind.METER, ("topic",), "bytes")
LEADERS = Metric("kafka.server", "ReplicaManager", "LeaderCount", "Led here")
TIMES = Metric("kafka.network", "RequestMetrics", "TotalTimeMs", "Time", Kind.HISTOGRAM)
NAME = Metric("kafka.server", "KafkaServer", "ClusterId", "Id")


def test_each_kind_of_metric_is_sent_as_what_it_is() -> None:
    histogram = Histogram()
    histogram.record(2.0, 0.0)
    readings = [Reading(IN, [(("orders",), 9)]), one(LEADERS, 3), one(TIMES, histogram), one(NAME, "x")]
    (message,) = export_requests(readings, {"service.name": "moldau"}, 1, 2, 0.0)
    (resource,) = message["resourceMetrics"]
    assert resource["resource"]["attributes"][0]["key"] == "service.name"
    first, second, third = resource["scopeMetrics"][0]["metrics"]
    assert first["sum"]["isMonotonic"]
    assert first["sum"]["dataPoints"][0]["asInt"] == "9"
    assert first["sum"]["dataPoints"][0]["attributes"][0]["value"] == {"stringValue": "orders"}
    assert second["gauge"]["dataPoints"][0]["asInt"] == "3"
    assert third["summary"]["dataPoints"][0]["count"] == "1"


def test_many_numbers_are_several_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """A collector refuses one that is too large."""
    monkeypatch.setattr("moldau.metrics.otlp._POINTS_MOST", 2)
    values: list[tuple[tuple[str, ...], Value]] = [((f"t{number}",), number) for number in range(3)]
    messages = list(export_requests([Reading(IN, values), one(LEADERS, 3)], {}, 1, 2, 0.0))
    sent = [
        (metric["name"].rpartition("_")[0], len(each["dataPoints"]))
        for message in messages
        for metric in message["resourceMetrics"][0]["scopeMetrics"][0]["metrics"]
        for kind in ("sum", "gauge")
        if (each := metric.get(kind))
    ]
    name = "kafka_server_brokertopicmetrics_bytesin"
    assert sent == [(name, 2), (name, 1), ("kafka_server_replicamanager", 1)]
    assert list(export_requests([one(NAME, "x")], {}, 1, 2, 0.0)) == []


def field(number: int, content: bytes) -> bytes:
    size = len(content)
    length = bytes([size]) if size < 128 else bytes([size & 0x7F | 0x80, size >> 7])
    return bytes([number << 3 | 2]) + length + content


def message(*metrics: bytes) -> bytes:
    return field(1, field(2, b"".join(field(2, metric) for metric in metrics)))


def point(value: float, **attributes: str) -> bytes:
    pairs = (field(7, field(1, k.encode()) + field(2, field(1, v.encode()))) for k, v in attributes.items())
    return bytes([4 << 3 | 1]) + struct.pack("<d", value) + b"".join(pairs)


def points(data: bytes) -> list[Point]:
    return [each for each in decode_metrics(data) if each is not None]


def test_gauges_and_sums_of_clients_are_read() -> None:
    gauge = field(1, b"lag") + field(5, field(1, point(7.5, topic="orders", partition="0")))
    integer = bytes([6 << 3 | 1]) + struct.pack("<q", -3)
    total = field(1, b"sent") + field(7, field(1, integer) + bytes([2 << 3, 1, 3 << 3, 1]))
    assert points(message(gauge, total)) == [
        Point("lag", (("partition", "0"), ("topic", "orders")), 7.5, False, False),
        Point("sent", (), -3.0, True, True),
    ]


def test_what_is_not_known_is_passed_over() -> None:
    histogram = field(1, b"h") + field(9, b"\x08\x01")
    assert points(message(histogram) + b"\x7d\x01\x02\x03\x04") == []


@pytest.mark.parametrize("data", [b"\xff\xff", b"\x0a\x05ab", b"\x00", b"\x0b", b"\x80" * 11, b"\x0a"])
def test_rubbish_is_refused(data: bytes) -> None:
    with pytest.raises(NotOtlp):
        list(decode_metrics(data))


def nested(depth: int, content: bytes) -> bytes:
    """A message of some kilobytes, so many messages deep."""
    for tag in (b"\x0a", b"\x12", b"\x12", b"\x2a")[:depth][::-1]:
        size = len(content)
        content = tag + bytes([size & 0x7F | 0x80, size >> 7 & 0x7F | 0x80, size >> 14]) + content
    return content


@pytest.mark.parametrize("depth", [0, 1, 2, 3, 4])
def test_nothing_is_collected_of_countless_empty_fields_and_others_have_their_turn(depth: int) -> None:
    """Two bytes each; compressed, they are next to nothing."""
    steps = list(decode_metrics(nested(depth, b"\x0a\x00" * 5000)))
    assert len(steps) >= 5000
    assert not any(steps)


def test_one_number_has_a_bound() -> None:
    attributes = field(1, point(1.0) + b"\x3a\x00" * 10)
    assert points(message(field(1, b"x") + field(5, attributes)))[0].value == 1.0
    with pytest.raises(NotOtlp, match="attributes"):
        points(nested(4, nested(1, b"\x3a\x00" * 10_000)))


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with suppress(NotOtlp):
        list(decode_metrics(data))
