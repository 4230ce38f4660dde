import click
import pytest

from moldau.cli.session import explain, pairs
from moldau.client.transport.connection import BrokerNotAvailable
from moldau.protocol.errors import ErrorCode, KafkaError


def test_an_error_is_one_line_with_a_next_step() -> None:
    error = KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'a'\nalready exists.")
    assert explain(error) == (
        "Topic 'a' already exists (TOPIC_ALREADY_EXISTS). "
        "Next: 'moldau topics describe NAME' shows it; --if-not-exists is content with that"
    )


def test_an_error_without_words_is_its_code() -> None:
    assert explain(KafkaError(ErrorCode.INVALID_TIMESTAMP)) == "INVALID_TIMESTAMP"


def test_a_question_keeps_its_mark() -> None:
    said = explain(BrokerNotAvailable("nothing listens at a:1: is the broker running?"))
    assert said.startswith(
        "nothing listens at a:1: is the broker running? Next: start one with 'moldau broker'"
    )


def test_pairs() -> None:
    assert pairs(["a=1", " b = x=y "], "--config") == {"a": "1", "b": "x=y"}
    for wrong in ("a", "=1"):
        with pytest.raises(click.UsageError, match="NAME=VALUE"):
            pairs([wrong], "--config")
