"""The bits of authorized operations, as a real broker without an authorizer sends them."""

from moldau.broker.access.authorized_operations import EVERY_OPERATION, NOT_ASKED, REFUSALS
from moldau.security.acls import Operation, ResourceType


def test_everybody_may_do_everything_without_an_authorizer() -> None:
    assert EVERY_OPERATION[ResourceType.TOPIC] == 3576
    assert EVERY_OPERATION[ResourceType.CLUSTER] == 8096
    assert not EVERY_OPERATION[ResourceType.GROUP] & 1 << Operation.WRITE
    assert all(
        EVERY_OPERATION[kind] & 1 << Operation.DESCRIBE
        for kind in (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER)
    )


def test_not_asked_is_the_smallest_number() -> None:
    assert NOT_ASKED == -(2**31)


def test_there_is_a_refusal_for_every_type_of_resource() -> None:
    assert set(REFUSALS) == set(EVERY_OPERATION)
