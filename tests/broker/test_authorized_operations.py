"""The bit fields of operations, as a real broker without an authorizer sends them."""

from moldau.broker.authorized_operations import (
    CLUSTER_OPERATIONS,
    GROUP_OPERATIONS,
    NOT_ASKED,
    TOPIC_OPERATIONS,
)

READ, WRITE, DESCRIBE, CLUSTER_ACTION = 3, 4, 8, 9


def test_each_kind_of_resource_knows_its_operations() -> None:
    assert NOT_ASKED == -(2**31)
    assert TOPIC_OPERATIONS & 1 << WRITE
    assert not GROUP_OPERATIONS & 1 << WRITE
    assert GROUP_OPERATIONS & 1 << READ
    assert CLUSTER_OPERATIONS & 1 << CLUSTER_ACTION
    assert not TOPIC_OPERATIONS & 1 << CLUSTER_ACTION
    assert all(each & 1 << DESCRIBE for each in (TOPIC_OPERATIONS, GROUP_OPERATIONS, CLUSTER_OPERATIONS))


def test_the_numbers_of_kafka() -> None:
    assert (TOPIC_OPERATIONS, CLUSTER_OPERATIONS) == (3576, 8096)
