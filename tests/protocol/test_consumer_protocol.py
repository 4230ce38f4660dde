"""The bytes themselves are compared with kio in ``test_messages``; here the version before them counts."""

import pytest

from moldau.protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    read,
    write,
)
from moldau.protocol.primitives import MalformedMessage

SUBSCRIPTION = ConsumerProtocolSubscription(
    topics=["orders"],
    user_data=b"u",
    owned_partitions=[TopicPartition("orders", [0, 2])],
    generation_id=4,
    rack_id="r1",
)


def test_the_newest_version_is_written() -> None:
    assert write(SUBSCRIPTION).startswith(b"\x00\x03")
    assert read(ConsumerProtocolSubscription, write(SUBSCRIPTION)) == SUBSCRIPTION


def test_older_versions_say_less() -> None:
    assert write(SUBSCRIPTION, 0).hex(" ") == "00 00 00 00 00 01 00 06 6f 72 64 65 72 73 00 00 00 01 75"
    plain = ConsumerProtocolSubscription(topics=["orders"], user_data=b"u")
    assert read(ConsumerProtocolSubscription, write(SUBSCRIPTION, 0)) == plain


def test_a_version_from_the_future_is_read_as_the_newest() -> None:
    assignment = ConsumerProtocolAssignment([TopicPartition("orders", [1])])
    future = b"\x00\x09" + write(assignment)[2:] + b"more"
    assert read(ConsumerProtocolAssignment, future) == assignment


@pytest.mark.parametrize("buffer", [b"", b"\x00", b"\xff\xff\x00\x00\x00\x00", b"\x00\x00\x00"])
def test_bytes_that_are_no_subscription(buffer: bytes) -> None:
    with pytest.raises(MalformedMessage):
        read(ConsumerProtocolSubscription, buffer)
