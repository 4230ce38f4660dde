"""The three perf tools: options, and one short run of each."""

# ruff: noqa: E501 -- a message of Kafka's tools stands in one line, as long as it is

import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moldau.cli.kafka_tools.performance.e2e_latency import Sizes, message
from moldau.testing import Broker

PRODUCER = ("--topic", "perf", "--throughput", "-1")
NUMBER = r"[\d.]+"
TOTAL = re.compile(
    rf"(\d+)( steady state)? records sent, {NUMBER} records/sec \({NUMBER} MB/sec\), {NUMBER} ms avg latency, "
    rf"{NUMBER} ms max latency, \d+ ms 50th, \d+ ms 95th, \d+ ms 99th, \d+ ms 99\.9th\."
)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--topic", "x"), "argument --num-records is required"),
        ((*PRODUCER, "--num-records", "1", "--record-size", "1"), "At least one of --bootstrap-server, --command-property, --producer-props, --producer.config or --command-config must be specified."),
        ((*PRODUCER, "--num-records", "a", "--record-size", "1", "--bootstrap-server", "x:1"), "argument --num-records: could not convert 'a' to Long (For input string: \"a\")"),
        ((*PRODUCER, "--num-records", "0", "--record-size", "1", "--bootstrap-server", "x:1"), "--num-records should be greater than zero."),
        ((*PRODUCER, "--num-records", "1", "--record-size", "0", "--bootstrap-server", "x:1"), "--record-size should be greater than zero."),
        ((*PRODUCER, "--num-records", "1", "--bootstrap-server", "x:1"), "one of the arguments --record-size --payload-file --payload-monotonic is required"),
        ((*PRODUCER, "--num-records", "1", "--record-size", "1", "--payload-file", "f", "--bootstrap-server", "x:1"), "argument --payload-file: not allowed with argument --record-size"),
        ((*PRODUCER, "--num-records", "1", "--record-size", "1", "--producer-props", "a=b", "--command-property", "c=d"), "--command-property and --producer-props cannot be specified together."),
        ((*PRODUCER, "--num-records", "9", "--record-size", "1", "--warmup-records", "9", "--bootstrap-server", "x:1"), "The value for --warmup-records must be strictly fewer than the number of records in the test, --num-records."),
        ((*PRODUCER, "--num-records", "9", "--record-size", "1", "--reporting-interval", "0", "--bootstrap-server", "x:1"), "--reporting-interval should be greater than zero."),
        ((*PRODUCER, "--frob"), "unrecognized arguments: '--frob'"),
    ],
)  # fmt: skip
def test_producer_options(tool: Callable[..., Any], words: tuple[str, ...], message: str) -> None:
    result = tool("kafka-producer-perf-test", *words)
    assert result.errors[0] == f"kafka-producer-perf-test: error: {message}"
    assert (result.code, result.stdout) == (1, "")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--producer-props", "foo"), "java.lang.IllegalArgumentException: Invalid property: foo"),
        (("--command-property", "acks=7"), "org.apache.kafka.common.config.ConfigException: Invalid value 7 for configuration acks: String must be one of: all, -1, 0, 1"),
        (("--command-config", "/none"), "java.nio.file.NoSuchFileException: /none"),
    ],
)  # fmt: skip
def test_producer_settings(tool_at: Callable[..., Any], words: tuple[str, ...], message: str) -> None:
    result = tool_at(
        "kafka-producer-perf-test", *PRODUCER, "--num-records", "1", "--record-size", "1", *words
    )
    assert result.errors == [f'Exception in thread "main" {message}']
    assert result.code == 1


@pytest.mark.parametrize(
    "words",
    [("--transactional-id", "perf-1", "--transaction-duration-ms", "1"), ("--transaction-duration-ms", "1")],
)
def test_a_run_in_transactions(tool_at: Callable[..., Any], broker: Broker, words: tuple[str, ...]) -> None:
    result = tool_at(
        "kafka-producer-perf-test", *PRODUCER, "--num-records", "300", "--record-size", "50", *words
    )
    (line,) = result.lines
    assert TOTAL.fullmatch(line), line
    assert result.code == 0
    (transaction,) = tool_at("kafka-transactions", "list").lines[1:]
    name, *_, state = transaction.split()
    assert name.startswith("perf-1" if "perf-1" in words else "performance-producer-")
    assert state in ("PrepareCommit", "CompleteCommit")
    assert len(broker.records("perf")) == 300


def test_a_run_of_the_producer(tool_at: Callable[..., Any], broker: Broker) -> None:
    result = tool_at("kafka-producer-perf-test", *PRODUCER, "--num-records", "300", "--record-size", "50")
    (line,) = result.lines
    found = TOTAL.fullmatch(line)
    assert found is not None
    assert found[1] == "300"
    records = broker.records("perf")
    assert len(records) == 300
    assert all(len(record.value or b"") == 50 for record in records)
    assert len({record.value for record in records}) > 200


def test_the_old_way_to_name_the_server_and_the_warm_up(tool: Callable[..., Any], broker: Broker) -> None:
    server = f"bootstrap.servers={broker.bootstrap_servers}"
    words = ("--num-records", "20", "--payload-monotonic", "--warmup-records", "5", "--print-metrics")
    result = tool("kafka-producer-perf-test", *PRODUCER, *words, "--producer-props", server, "acks=1")
    assert result.lines[:2] == [
        "Option --producer-props has been deprecated and will be removed in a future version. Use --command-property instead.",
        "Warmup first 5 records. Steady state results will print after the complete test summary.",
    ]
    totals = [TOTAL.fullmatch(line) for line in result.lines[2:4]]
    assert [(found[1], found[2]) for found in totals if found] == [("20", None), ("15", " steady state")]
    assert result.lines[4] == ""
    assert "producer-metrics:record-send-total:{client-id=perf-producer-client}" in result.stdout
    assert [record.value for record in broker.records("perf")][:3] == [b"0", b"1", b"2"]


def test_payloads_from_a_file(tool_at: Callable[..., Any], broker: Broker, tmp_path: Path) -> None:
    file = tmp_path / "lines.txt"
    file.write_text("a\nbb\nccc\n")
    words = ("--num-records", "30", "--payload-file", str(file))
    result = tool_at("kafka-producer-perf-test", *PRODUCER, *words)
    assert result.lines[:2] == [f"Reading payloads from: {file}", "Number of records read: 3"]
    assert {record.value for record in broker.records("perf")} == {b"a", b"bb", b"ccc"}
    file.write_text("")
    empty = tool_at("kafka-producer-perf-test", *PRODUCER, *words)
    assert "File does not exist or empty file provided." in empty.errors[0]


def test_records_that_cannot_be_written(tool_at: Callable[..., Any]) -> None:
    words = ("--topic", "a b", "--throughput", "-1", "--num-records", "2", "--record-size", "5")
    result = tool_at("kafka-producer-perf-test", *words)
    assert (
        result.errors == ["org.apache.kafka.common.errors.InvalidTopicException: Invalid topics: [a b]"] * 2
    )
    assert result.lines[0].startswith(
        "0 records sent, 0.000000 records/sec (0.00 MB/sec), NaN ms avg latency"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--num-records", "1"), "Exactly one of the following arguments is required: [topic], [include]"),
        (("--topic", "x"), "Exactly one of the following arguments is required: [messages], [num-records]"),
        (("--topic", "x", "--num-records", "1"), 'Missing required argument "[bootstrap-server]"'),
        (("--topic", "x", "--num-records", "1", "--bootstrap-server", "x:1", "--consumer.config", "a", "--command-config", "b"), 'Option "[consumer.config]" can\'t be used with option "[command-config]"'),
    ],
)  # fmt: skip
def test_consumer_options(tool: Callable[..., Any], words: tuple[str, ...], message: str) -> None:
    result = tool("kafka-consumer-perf-test", *words)
    assert result.errors[0] == message
    assert result.code == 1


def test_a_run_of_the_consumer(tool_at: Callable[..., Any], broker: Broker) -> None:
    for index in range(20):
        broker.produce("perf", b"x" * 10, key=b"k%d" % (index % 10))
    result = tool_at("kafka-consumer-perf-test", "--topic", "perf", "--num-records", "20")
    header, line = result.lines
    assert header.startswith("start.time, end.time, data.consumed.in.MB")
    cells = line.split(", ")
    assert len(cells) == 10
    assert cells[2] == "0.0002"
    assert cells[4] == "20"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d:\d{3}", cells[0])
    words = (
        "--include",
        "per.*",
        "--messages",
        "20",
        "--hide-header",
        "--date-format",
        "yyyy",
        "--group",
        "g",
    )
    again = tool_at("kafka-consumer-perf-test", *words, "--print-metrics")
    assert again.lines[0] == "Warning: --messages is deprecated. Use --num-records instead."
    assert re.fullmatch(r"\d{4}, \d{4}, .*", again.lines[1])
    assert "records-consumed-total:{client-id=perf-consumer-client} : 20.000" in again.stdout
    assert again.errors == []
    described = tool_at("kafka-consumer-groups", "--describe", "--group", "g")
    assert [line.split()[3:6] for line in described.lines[2:]] == [["20", "20", "0"]]


def test_a_consumer_that_waits_in_vain(tool_at: Callable[..., Any]) -> None:
    tool_at("kafka-topics", "--create", "--topic", "perf")
    words = ("--topic", "perf", "--num-records", "5", "--timeout", "50", "--show-detailed-stats")
    result = tool_at("kafka-consumer-perf-test", *words)
    assert result.lines == [
        "time, threadId, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec",
        "WARNING: Exiting before consuming the expected number of records: timeout (50 ms) exceeded. You can use the --timeout option to increase the timeout.",
    ]
    bad = tool_at(
        "kafka-consumer-perf-test", "--topic", "perf", "--num-records", "5", "--reporting-interval", "0"
    )
    assert bad.errors[0] == "Reporting interval must be greater than 0."
    assert (
        tool_at(
            "kafka-consumer-perf-test", "--topic", "perf", "--num-records", "5", "--date-format", "QQ"
        ).code
        == 1
    )


def test_progress_of_the_consumer(tool_at: Callable[..., Any], broker: Broker) -> None:
    broker.produce("perf", b"x")
    words = ("--topic", "perf", "--num-records", "1", "--show-detailed-stats", "--reporting-interval", "1")
    result = tool_at("kafka-consumer-perf-test", *words, "--hide-header")
    assert all(len(line.split(", ")) == 10 for line in result.lines)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--bootstrap-server", "x:1", "--topic", "x"), 'Missing required argument "[num-records]"'),
        (("x:1", "x", "3"), "Invalid number of arguments. Expected 5 or 6 positional arguments, but got 3. Usage: bootstrap-server topic num-records producer-acks record-size [optional] command-config"),
        (("x:1", "x", "10", "0", "1"), "Invalid value for --producer-acks. Latency testing requires synchronous acknowledgement. Please use '1' or 'all'."),
        (("x:1", "x", "0", "1", "1"), "Value for --num-records must be a positive integer."),
        (("x:1", "x", "1", "1", "-8"), "Value for --record-size must be a non-negative integer."),
        (("x:1", "x", "a", "1", "8"), "Cannot parse argument 'a' of option num-records"),
    ],
)  # fmt: skip
def test_latency_options(tool: Callable[..., Any], words: tuple[str, ...], message: str) -> None:
    result = tool("kafka-e2e-latency", *words)
    assert result.errors[0] == message
    assert result.code == 1


def test_a_run_of_the_latency_test(tool: Callable[..., Any], broker: Broker) -> None:
    result = tool("kafka-e2e-latency", broker.bootstrap_servers, "lat", "5", "all", "10")
    assert result.lines[0].startswith("WARNING: Positional argument usage is deprecated")
    assert result.lines[1] == (
        'Topic "lat" does not exist. Will create topic with 1 partition(s) and replication factor = 1'
    )
    assert re.fullmatch(r"0\t\d+\.\d+", result.lines[2])
    assert re.fullmatch(r"Avg latency: \d+\.\d{4} ms", result.lines[3])
    assert re.fullmatch(r"Percentiles: 50th = \d+, 99th = \d+, 99\.9th = \d+", result.lines[4])
    assert len(broker.records("lat")) == 5


def test_keys_and_headers_of_the_latency_test(tool_at: Callable[..., Any], broker: Broker) -> None:
    words = ("--topic", "lat", "--num-records", "2", "--producer-acks", "1", "--record-size", "4")
    sizes = (
        "--record-key-size",
        "3",
        "--num-headers",
        "2",
        "--record-header-key-size",
        "2",
        "--record-header-size",
        "-1",
    )
    assert tool_at("kafka-e2e-latency", *words, *sizes).code == 0
    record = broker.records("lat")[0]
    assert len(record.key or b"") == 3
    assert [(len(name), value) for name, value in record.headers] == [(2, None), (2, None)]


def test_messages_are_letters() -> None:
    key, value, headers = message(Sizes(4, 0, 1, 2, 3), random.Random(0))
    assert key is None
    assert re.fullmatch(rb"([A-Z])\1{3}", value)
    assert len(headers[0][0]) == 2
    assert len(headers[0][1] or b"") == 3
