"""kafka-verifiable-producer: a line for every record, as in Kafka's transcript."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moldau.testing import Broker


def events(result: Any) -> list[dict[str, Any]]:
    """The lines without what differs from run to run."""
    found = [json.loads(line) for line in result.lines]
    for each in found:
        assert each.pop("timestamp") > 0
        each.pop("avg_throughput", None)
    return found


def test_three_numbers(broker: Broker, tool_at: Callable[..., Any]) -> None:
    result = tool_at("kafka-verifiable-producer", "--topic", "ver", "--max-messages", "3")
    assert result.code == 0
    first, *sent, shutdown, data = events(result)
    assert first == {"name": "startup_complete"}
    assert [(e["value"], e["offset"], e["key"]) for e in sent] == [
        ("0", 0, None),
        ("1", 1, None),
        ("2", 2, None),
    ]
    assert shutdown == {"name": "shutdown_complete"}
    assert data == {"name": "tool_data", "sent": 3, "acked": 3, "target_throughput": -1}
    assert [record.value for record in broker.records("ver")] == [b"0", b"1", b"2"]
    line = result.lines[1]
    assert line.partition(",")[2] == (
        '"name":"producer_send_success","key":null,"value":"0","offset":0,"topic":"ver","partition":0}'
    )
    assert '"target_throughput":-1,"avg_throughput":' in result.lines[-1]


def test_prefix_keys_and_time(broker: Broker, tool_at: Callable[..., Any]) -> None:
    broker.create_topic("ver", 2)
    words = ("--value-prefix", "7", "--repeating-keys", "2", "--acks", "1", "--message-create-time", "5000",
             "--throughput", "1000")  # fmt: skip
    result = tool_at("kafka-verifiable-producer", "--topic", "ver", "--max-messages", "3", *words)
    sent = [e for e in events(result) if e["name"] == "producer_send_success"]
    assert sorted((e["key"], e["value"], e["partition"]) for e in sent) == [
        ("0", "7.0", 0),
        ("0", "7.2", 0),
        ("1", "7.1", 1),
    ]
    assert broker.records("ver", 0)[0].timestamp == 5000


def test_a_record_that_cannot_be_written_has_its_line_too(
    broker: Broker, tool_at: Callable[..., Any], tmp_path: Path
) -> None:
    broker.create_topic("ver")
    file = tmp_path / "producer.properties"
    file.write_text("max.request.size=10\n")
    result = tool_at(
        "kafka-verifiable-producer", "--topic", "ver", "--max-messages", "1", "--producer.config", str(file)
    )
    assert result.lines.pop(0).startswith("Option --producer.config has been deprecated")
    _, error, _, data = (json.loads(line) for line in result.lines[1:])
    assert error["exception"] == "class org.apache.kafka.common.errors.RecordTooLargeException"
    assert (error["name"], error["value"], error["topic"]) == ("producer_send_error", "0", "ver")
    assert (data["sent"], data["acked"]) == (1, 0)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--topic", "t"), "argument --bootstrap-server is required"),
        (("--bootstrap-server", "x:1"), "argument --topic is required"),
        (("more",), "unrecognized arguments: 'more'"),
        (
            ("--bootstrap-server", "x:1", "--topic", "t", "--acks", "7"),
            "argument --acks: invalid choice: '7' (choose from {0,1,-1})",
        ),
        (
            ("--bootstrap-server", "x:1", "--topic", "t", "--producer.config", "a", "--command-config", "b"),
            "Options --producer.config and --command-config are mutually exclusive.",
        ),
    ],
)
def test_options(tool: Callable[..., Any], words: tuple[str, ...], message: str) -> None:
    result = tool("kafka-verifiable-producer", *words)
    assert result.errors[0] == f"verifiable-producer: error: {message}"
    assert result.code == 1
