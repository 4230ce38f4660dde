"""Filters, times and lines of kafka-get-offsets."""

from collections.abc import Callable
from typing import Any

import pytest

from moldau.base.names import TopicPartition
from moldau.cli.kafka_tools.framework.exceptions import ToolError
from moldau.cli.kafka_tools.framework.options import OptionError
from moldau.cli.kafka_tools.get_offsets import check_addresses, offset_lines, parse_filter, parse_time

ALL = [TopicPartition(topic, index) for topic in ("orders", "payments") for index in range(4)]


@pytest.mark.parametrize(
    ("topic", "partitions", "patterns", "expected"),
    [
        (None, None, None, "o0 o1 o2 o3 p0 p1 p2 p3"),
        ("ord.*", "0,2", None, "o0 o2"),
        (None, "3", None, "o3 p3"),
        (None, None, "orders:1,payments:0-2", "o1 p0 p1"),
        (None, None, "orders:2-", "o2 o3"),
        (None, None, "orders:-2", "o0 o1"),
        (None, None, ":3,payments:0", "o3 p0 p3"),
        (None, None, "pay.*", "p0 p1 p2 p3"),
    ],
)
def test_filters(topic: str | None, partitions: str | None, patterns: str | None, expected: str) -> None:
    wanted = parse_filter(topic, partitions, patterns)
    assert " ".join(f"{tp.topic[0]}{tp.partition}" for tp in ALL if wanted(tp)) == expected


@pytest.mark.parametrize(
    ("topic", "partitions", "patterns", "message"),
    [
        ("a", None, "b", "--topic-partitions cannot be used with --topic or --partitions"),
        (
            None,
            "a",
            None,
            "--partitions expects a comma separated list of numeric partition ids, but received: a",
        ),
        (None, None, "x:a", "org.apache.kafka.tools.TerseException: Invalid rule specification: x:a"),
    ],
)
def test_filters_that_are_none(
    topic: str | None, partitions: str | None, patterns: str | None, message: str
) -> None:
    with pytest.raises(ToolError) as error:
        parse_filter(topic, partitions, patterns)
    assert error.value.message == message


def test_times() -> None:
    names = (
        "latest",
        "earliest",
        "max-timestamp",
        "earliest-local",
        "latest-tiered",
        "earliest-pending-upload",
    )
    assert [parse_time(name) for name in names] == [-1, -2, -3, -4, -5, -6]
    assert parse_time("1767225780000") == 1767225780000
    with pytest.raises(ToolError, match="Malformed time argument abc"):
        parse_time("abc")


def test_lines_are_sorted_as_text() -> None:
    offsets = {TopicPartition("t", index): index for index in (2, 10, 1)}
    assert offset_lines(offsets) == ["t:1:1", "t:10:10", "t:2:2"]


def test_addresses() -> None:
    check_addresses("a:1,b:2")
    for bad in ("foo", "foo:bar", "a:1,b"):
        with pytest.raises(OptionError, match="Please provide valid host:port like host1:9091,host2:9092"):
            check_addresses(bad)


def test_a_broker_list_is_a_bootstrap_server(
    tool: Callable[..., Any], tool_at: Callable[..., Any], broker: Any
) -> None:
    tool_at("kafka-topics", "--create", "--topic", "t")
    result = tool("kafka-get-offsets", "--broker-list", broker.bootstrap_servers, "--topic", "t")
    assert result.lines == ["t:0:0"]
    assert result.errors == [
        f"hint: --broker-list is of older versions; use --bootstrap-server {broker.bootstrap_servers}"
    ]
