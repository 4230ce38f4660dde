"""Figures in the layout of Kafka's perf tools."""

import math
from datetime import datetime

import pytest

from moldau.cli.kafka_tools.performance.measurements import (
    CONSUMER_HEADER,
    DETAILED_CONSUMER_HEADER,
    ProducerFigures,
    consumer_progress_line,
    consumer_total_line,
    date_format,
    decimal,
    latency_lines,
    metric_lines,
    percentiles,
    ratio,
)


def test_numbers_look_as_java_prints_them() -> None:
    assert decimal(1 / 3, 4) == "0.3333"
    assert decimal(ratio(0, 0), 2) == "NaN"
    assert decimal(ratio(1, 0), 2) == "Infinity"
    assert decimal(-math.inf, 2) == "-Infinity"


def test_percentiles() -> None:
    assert percentiles(range(1000, 0, -1), (0.5, 0.95, 0.99, 0.999)) == [501, 951, 991, 1000]
    assert percentiles([4], (0.5, 0.999)) == [4, 4]
    assert percentiles([], (0.5,)) == [0]


def test_the_producers_lines() -> None:
    figures = ProducerFigures(4, 1_000)
    for latency in (1, 2, 3, 10):
        figures.record(latency, 1024 * 1024)
    assert figures.window_line(2_000, 5_000) is None
    assert figures.window_line(6_000, 5_000) == (
        "4 records sent, 0.8 records/sec (0.80 MB/sec), 4.0 ms avg latency, 10.0 ms max latency."
    )
    assert figures.window_line(7_000, 5_000) is None
    assert figures.total_line(9_000) == (
        "4 records sent, 0.500000 records/sec (0.50 MB/sec), 4.00 ms avg latency, 10.00 ms max latency, "
        "3 ms 50th, 10 ms 95th, 10 ms 99th, 10 ms 99.9th."
    )


def test_a_producer_that_wrote_nothing() -> None:
    assert ProducerFigures(1, 0).total_line(10) == (
        "0 records sent, 0.000000 records/sec (0.00 MB/sec), NaN ms avg latency, 0.00 ms max latency, "
        "0 ms 50th, 0 ms 95th, 0 ms 99th, 0 ms 99.9th."
    )


def test_a_run_within_one_millisecond() -> None:
    figures = ProducerFigures(1, 5)
    figures.record(0, 1)
    assert figures.total_line(5).startswith(
        "1 records sent, 1000.000000 records/sec (0.00 MB/sec), 0.00 ms avg"
    )


def test_the_steady_state_has_its_name() -> None:
    figures = ProducerFigures(10, 0, steady_state=True)
    figures.record(5, 10)
    assert figures.total_line(1000).startswith("1 steady state records sent, 1.000000 records/sec")


def test_not_every_latency_of_a_long_run_is_kept() -> None:
    figures = ProducerFigures(1_000_000, 0)
    for latency in range(10):
        figures.record(latency, 1)
    assert "4 ms 50th" in figures.total_line(1)


def test_the_consumers_lines() -> None:
    assert DETAILED_CONSUMER_HEADER.startswith("time, threadId, data.consumed.in.MB, MB.sec")
    assert CONSUMER_HEADER.endswith("rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec")
    # the figures of a real run: 20444 records of 100 bytes in 1815 ms, 1682 of them for joining
    line = consumer_total_line("S", "E", 1815, 1682, 20444, 2_044_400)
    assert line == "S, E, 1.9497, 1.0742, 20444, 11263.9118, 1682, 133, 14.6593, 153714.2857"
    line = consumer_progress_line("T", 100, 0, 4001, 1, 400_100, 100)
    assert line == "T, 0, 0.3816, 3.8147, 4001, 40000.0000, 0, 100, 3.8147, 40000.0000"
    assert consumer_progress_line("T", 1947, 1517, 1, 0, 100, 0) == (
        "T, 0, 0.0001, 0.0000, 1, 0.5136, 1517, 430, 0.0002, 2.3256"
    )
    assert (
        consumer_total_line("S", "E", 645, 0, 0, 0)
        == "S, E, 0.0000, 0.0000, 0, 0.0000, 0, 645, 0.0000, 0.0000"
    )


def test_the_latency_lines() -> None:
    assert latency_lines([1_500_000, 2_900_000, 56_000_000]) == [
        "Avg latency: 20.1333 ms",
        "Percentiles: 50th = 2, 99th = 56, 99.9th = 56",
    ]


def test_metrics() -> None:
    assert metric_lines({"bb": 2.0, "a": 1.25}) == ["", "Metric Name   Value", "a  : 1.250", "bb : 2.000"]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("yyyy-MM-dd HH:mm:ss:SSS", "%Y-%m-%d %H:%M:%S:%f"),
        ("yyyy", "%Y"),
        ("hh 'o''clock' a", "%I o'clock %p"),
        ("yyyy'T'HH''mm", "%YT%H'%M"),
        ("100%", "100%%"),
    ],
)
def test_date_formats(pattern: str, expected: str) -> None:
    assert date_format(pattern) == expected
    datetime(2026, 1, 2).strftime(date_format(pattern))


@pytest.mark.parametrize("pattern", ["QQ", "yyyy 'open"])
def test_date_formats_that_are_none(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"Illegal pattern character|Unterminated quote"):
        date_format(pattern)
