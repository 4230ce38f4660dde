"""Names and ids: what a topic may be called, and how an id is written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.base.names import (
    TopicPartition,
    by_topic,
    collision_key,
    format_uuid,
    parse_uuid,
    topic_name_error,
)


@given(st.binary(min_size=16, max_size=16))
def test_an_id_survives_its_written_form(value: bytes) -> None:
    text = format_uuid(value)
    assert len(text) == 22
    assert parse_uuid(text) == value


@pytest.mark.parametrize("text", ["", "abc", "A" * 30])
def test_a_text_that_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"16 bytes|padding|base64|characters"):
        parse_uuid(text)


@pytest.mark.parametrize("name", ["a", "a.b_c-D9", "_", "-", "x" * 249, "__consumer_offsets"])
def test_legal_names(name: str) -> None:
    assert topic_name_error(name) is None


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "a b", "a/b", "é", "a\n", "a\0"])
def test_illegal_names(name: str) -> None:
    assert topic_name_error(name) is not None


def test_dots_and_underscores_collide() -> None:
    assert collision_key("a.b") == collision_key("a_b") != collision_key("a-b")


def test_a_partition_is_written_as_its_directory() -> None:
    assert str(TopicPartition("orders", 3)) == "orders-3"


def test_partitions_by_topic_keep_their_order() -> None:
    partitions = [TopicPartition("b", 2), TopicPartition("a", 0), TopicPartition("b", 1)]
    assert list(by_topic(partitions).items()) == [("b", [2, 1]), ("a", [0])]
