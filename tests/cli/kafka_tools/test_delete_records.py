"""The JSON file of kafka-delete-records, and its lines."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moldau.base.names import TopicPartition
from moldau.cli.kafka_tools.delete_records import outcome_lines, parse_offsets
from moldau.cli.kafka_tools.framework.exceptions import ToolError
from moldau.protocol.errors import ErrorCode, KafkaError


def test_offsets() -> None:
    text = '{"partitions":[{"topic":"a","partition":0,"offset":-1},{"topic":"b","partition":2,"offset":5}]}'
    assert parse_offsets(text) == {TopicPartition("a", 0): -1, TopicPartition("b", 2): 5}
    assert parse_offsets('{"version":1,"partitions":[]}') == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "The input string is not a valid JSON"),
        ("[]", "The input string is not a valid JSON"),
        ('{"version":2,"partitions":[]}', "Not supported version field value 2"),
        ('{"version":1}', "Missing partitions field"),
        ('{"partitions":[{"topic":"a"}]}', "No such field exists: `partition`"),
        ('{"partitions":[{"topic":"a","partition":0}]}', "No such field exists: `offset`"),
        ('{"partitions":[7]}', "No such field exists: `topic`"),
        (
            '{"partitions":[{"topic":"a","partition":"0","offset":1}]}',
            'Expected `Integer` value, received "0"',
        ),
        (
            '{"partitions":[{"topic":"a","partition":true,"offset":1}]}',
            "Expected `Integer` value, received true",
        ),
    ],
)
def test_files_that_are_wrong(text: str, message: str) -> None:
    with pytest.raises(ToolError) as error:
        parse_offsets(text)
    assert error.value.message == message


def test_lines() -> None:
    outcomes = {
        TopicPartition("a", 0): 2,
        TopicPartition("b", 1): KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE),
    }
    assert outcome_lines(outcomes) == [
        "partition: a-0\tlow_watermark: 2",
        "partition: b-1\terror: org.apache.kafka.common.errors.OffsetOutOfRangeException: "
        "The requested offset is not within the range of offsets maintained by the server.",
    ]


def test_a_partition_with_an_error_does_not_spoil_the_others(
    tool_at: Callable[..., Any], broker: Any, tmp_path: Path
) -> None:
    for _ in range(3):
        broker.produce("orders", b"v")
    file = tmp_path / "offsets.json"
    file.write_text(
        '{"partitions":[{"topic":"orders","partition":0,"offset":2},{"topic":"nope","partition":0,"offset":1}]}'
    )
    result = tool_at("kafka-delete-records", "--offset-json-file", str(file))
    assert result.code == 0
    assert "partition: orders-0\tlow_watermark: 2" in result.lines
    assert (
        "partition: nope-0\terror: org.apache.kafka.common.errors.UnknownTopicOrPartitionException: "
        in result.stdout
    )
