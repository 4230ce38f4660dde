"""kafka-verifiable-consumer: what happens to a member, as in Kafka's transcript."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moldau.cli.kafka_tools.framework.options import OptionError
from moldau.cli.kafka_tools.verifiable_consumer import TOOL, consumer_properties
from moldau.protocol.api_keys import ApiKey
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.testing import Broker

BOTH = [{"topic": "ver", "partition": 0}, {"topic": "ver", "partition": 1}]


@pytest.fixture
def numbers(broker: Broker) -> Broker:
    """Five records: four in the first partition, one in the second."""
    broker.create_topic("ver", 2)
    for number in range(4):
        broker.produce("ver", b"%d" % number, partition=0)
    broker.produce("ver", b"7.1", key=b"1", partition=1)
    return broker


def events(result: Any) -> list[dict[str, Any]]:
    """The lines without their times."""
    found = [json.loads(line) for line in result.lines]
    for each in found:
        assert each.pop("timestamp") > 0
    return found


def named(result: Any, name: str) -> list[dict[str, Any]]:
    return [event for event in events(result) if event["name"] == name]


def consume(tool_at: Callable[..., Any], *words: str) -> Any:
    return tool_at("kafka-verifiable-consumer", "--topic", "ver", "--group-id", "vg", *words)


@pytest.mark.parametrize("protocol", ["classic", "CONSUMER"])
def test_five_records(numbers: Broker, tool_at: Callable[..., Any], protocol: str) -> None:
    result = consume(tool_at, "--max-messages", "5", "--verbose", "--group-protocol", protocol)
    assert (result.code, result.stderr) == (0, "")
    found = events(result)
    assert found[0] == {"name": "startup_complete"}
    assert found[1] == {"name": "partitions_assigned", "partitions": BOTH}
    assert found[-3:] == [
        {"name": "partitions_revoked", "partitions": BOTH},
        {"name": "shutdown_complete"},
        {"name": "shutdown_requested"},
    ]
    read = [(e["partition"], e["offset"], e["key"], e["value"]) for e in named(result, "record_data")]
    assert sorted(read) == [
        *((0, number, None, str(number)) for number in range(4)),
        (1, 0, "1", "7.1"),
    ]
    assert sum(e["count"] for e in named(result, "records_consumed")) == 5
    done = {(o["partition"], o["offset"]) for e in named(result, "offsets_committed") for o in e["offsets"]}
    assert {(0, 4), (1, 1)} <= done
    assert all(e["success"] for e in named(result, "offsets_committed"))


def test_the_lines_have_kafkas_order(numbers: Broker, tool_at: Callable[..., Any]) -> None:
    broker_lines = consume(tool_at, "--max-messages", "5", "--verbose").lines
    lines = [line.partition(",")[2] for line in broker_lines]
    assert (
        '"name":"partitions_assigned","partitions":[{"topic":"ver","partition":0},'
        '{"topic":"ver","partition":1}]}' in lines
    )
    assert '"name":"record_data","key":"1","value":"7.1","topic":"ver","partition":1,"offset":0}' in lines
    summary = '{"topic":"ver","partition":0,"count":4,"minOffset":0,"maxOffset":3}'
    assert any(line.startswith('"name":"records_consumed","count":') and summary in line for line in lines)
    offset = '{"topic":"ver","partition":0,"offset":4}'
    assert any(
        line.startswith('"name":"offsets_committed","offsets":[')
        and offset in line
        and line.endswith('],"success":true}')
        for line in lines
    )


def test_the_limit_is_what_is_committed(numbers: Broker, tool_at: Callable[..., Any]) -> None:
    first = consume(tool_at, "--max-messages", "2", "--verbose")
    assert len(named(first, "record_data")) == 2
    second = consume(tool_at, "--max-messages", "3", "--verbose")
    read = [e["value"] for result in (first, second) for e in named(result, "record_data")]
    assert sorted(read) == ["0", "1", "2", "3", "7.1"]


def test_commits_by_the_clock_have_no_lines(numbers: Broker, tool_at: Callable[..., Any]) -> None:
    result = consume(tool_at, "--max-messages", "5", "--enable-autocommit")
    assert not named(result, "offsets_committed")
    assert not named(result, "record_data")
    numbers.produce("ver", b"new", partition=1)
    (consumed,) = named(consume(tool_at, "--max-messages", "1"), "records_consumed")
    assert consumed["partitions"] == [
        {"topic": "ver", "partition": 1, "count": 1, "minOffset": 1, "maxOffset": 1}
    ]


def test_a_commit_that_is_refused(numbers: Broker, tool_at: Callable[..., Any]) -> None:
    refusal = KafkaError(ErrorCode.OFFSET_METADATA_TOO_LARGE)
    with numbers.intercept(ApiKey.OFFSET_COMMIT, lambda request: refusal):
        failed = named(consume(tool_at, "--max-messages", "5"), "offsets_committed")
    assert failed
    assert all(not e["success"] and e["error"] and list(e)[-2:] == ["error", "success"] for e in failed)


@pytest.mark.slow
def test_a_signal_ends_it(numbers: Broker, tool_at: Callable[..., Any]) -> None:
    def stop(request: Any) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    with numbers.intercept(ApiKey.OFFSET_COMMIT, stop):
        result = consume(tool_at)
    names = [e["name"] for e in events(result)]
    assert names.count("shutdown_requested") == 1
    assert names.count("offsets_committed") == names.count("records_consumed")  # what was begun is ended
    assert names[-2:] == ["partitions_revoked", "shutdown_complete"]
    assert result.code == 128 + signal.SIGTERM


def test_an_error_ends_it_with_a_word(numbers: Broker, tool_at: Callable[..., Any]) -> None:
    result = consume(tool_at, "--session-timeout", "1")
    assert [e["name"] for e in events(result)] == [
        "startup_complete",
        "shutdown_complete",
        "shutdown_requested",
    ]
    assert result.errors[0].startswith("org.apache.kafka.common.errors.InvalidSessionTimeoutException: ")


def test_the_command_line_weighs_more_than_the_file(tmp_path: Path) -> None:
    file = tmp_path / "consumer.properties"
    file.write_text("group.id=other\nisolation.level=read_committed\nheartbeat.interval.ms=100\n")
    words = (
        "--group-id",
        "vg",
        "--command-config",
        str(file),
        "--group-instance-id",
        "i",
        "--reset-policy",
        "none",
    )
    properties = consumer_properties(TOOL.options.parse(words))
    assert properties == {
        "group.id": "vg",
        "group.protocol": "classic",
        "group.instance.id": "i",
        "isolation.level": "read_committed",
        "heartbeat.interval.ms": "100",
        "auto.offset.reset": "none",
        "enable.auto.commit": "false",
        "session.timeout.ms": "30000",
        "partition.assignment.strategy": "org.apache.kafka.clients.consumer.RangeAssignor",
    }
    newer = ("--group-id", "vg", "--group-protocol", "CONSUMER", "--group-remote-assignor", "range")
    assert consumer_properties(TOOL.options.parse(newer)) == {
        "group.id": "vg",
        "group.protocol": "consumer",
        "group.remote.assignor": "range",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": "false",
    }


def test_the_old_name_of_the_file(numbers: Broker, tool_at: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "consumer.properties"
    file.write_text("client.id=me\n")
    result = consume(tool_at, "--max-messages", "5", "--consumer.config", str(file))
    assert result.lines[0].startswith("Option --consumer.config has been deprecated")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--topic", "t"), "argument --group-id is required"),
        (("--topic", "t", "--group-id", "g"), "argument --bootstrap-server is required"),
        (("--group-id", "g", "--bootstrap-server", "x:1"), "argument --topic is required"),
        (("more",), "unrecognized arguments: 'more'"),
        (("--more",), "unrecognized arguments: '--more'"),
        (
            ("--bootstrap-server", "x:1", "--topic", "t", "--group-id", "g", "--consumer.config", "a",
             "--command-config", "b"),
            "Options --consumer.config and --command-config are mutually exclusive.",
        ),
    ],
)  # fmt: skip
def test_options(tool: Callable[..., Any], words: tuple[str, ...], message: str) -> None:
    result = tool("kafka-verifiable-consumer", *words)
    assert result.errors[0] == f"verifiable-consumer: error: {message}"
    assert result.code == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("--group-protocol", "foo"),
            "java.lang.IllegalArgumentException: "
            "No enum constant org.apache.kafka.clients.consumer.GroupProtocol.FOO",
        ),
        (
            ("--group-protocol", "consumer", "--session-timeout", "5"),
            "org.apache.kafka.common.config.ConfigException: "
            "session.timeout.ms cannot be set when group.protocol=CONSUMER",
        ),
    ],
)
def test_settings_that_do_not_go_together(
    tool: Callable[..., Any], words: tuple[str, ...], message: str
) -> None:
    needed = ("--topic", "t", "--group-id", "g", "--bootstrap-server", "127.0.0.1:1")
    result = tool("kafka-verifiable-consumer", *needed, *words)
    assert (result.errors, result.code) == ([message], 1)


def test_a_bad_number_is_told_before_anything_is_done() -> None:
    with pytest.raises(OptionError, match="max-messages"):
        TOOL.options.parse(["--max-messages", "many"]).value("max-messages")
