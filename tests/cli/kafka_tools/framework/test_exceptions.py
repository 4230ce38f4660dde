"""The names that Kafka's tools print for errors."""

from moldau.cli.kafka_tools.framework.exceptions import (
    ToolError,
    exception_line,
    exception_name,
    execution_lines,
    illegal_argument,
    sentence,
)
from moldau.protocol.errors import ErrorCode, KafkaError


def test_names() -> None:
    package = "org.apache.kafka.common.errors"
    assert exception_name(ErrorCode.TOPIC_ALREADY_EXISTS) == f"{package}.TopicExistsException"
    assert exception_name(ErrorCode.INVALID_TOPIC_EXCEPTION) == f"{package}.InvalidTopicException"
    assert exception_name(ErrorCode.NOT_LEADER_OR_FOLLOWER) == f"{package}.NotLeaderOrFollowerException"
    assert exception_name(ErrorCode.INVALID_RECORD) == "org.apache.kafka.common.InvalidRecordException"


def test_the_brokers_sentence_comes_first() -> None:
    assert sentence(KafkaError(ErrorCode.REQUEST_TIMED_OUT, "too late")) == "too late"
    assert sentence(KafkaError(ErrorCode.REQUEST_TIMED_OUT)) == "The request timed out."
    assert sentence(KafkaError(ErrorCode.DUPLICATE_VOTER)) == "DUPLICATE_VOTER"


def test_lines() -> None:
    error = KafkaError(ErrorCode.INVALID_PARTITIONS, "no")
    line = "org.apache.kafka.common.errors.InvalidPartitionsException: no"
    assert exception_line(error) == line
    assert execution_lines(error) == [
        f"java.util.concurrent.ExecutionException: {line}",
        f"Caused by: {line}",
    ]
    assert exception_line(illegal_argument("bad")) == "java.lang.IllegalArgumentException: bad"
    assert str(ToolError("java.io.IOException", "gone")) == "gone"
