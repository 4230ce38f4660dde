"""Which ACLs stand at the target for those of the source."""

import pytest

from moldau.mirror.access import target_acl
from moldau.mirror.rules.properties import read_settings
from moldau.security.acls import Acl, Operation, PatternType, Permission, ResourceType
from tests.mirror.rules.test_properties import MINIMAL

DEFAULT = read_settings(MINIMAL).flows[0]
IDENTITY = read_settings(MINIMAL | {"replication.policy.class": "IdentityReplicationPolicy"}).flows[0]


def acl(operation: Operation, name: str = "orders", **changes: int) -> Acl:
    made = Acl(ResourceType.TOPIC, name, PatternType.LITERAL, "User:ann", "*", operation, Permission.ALLOW)
    return made._replace(**changes)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (acl(Operation.READ), acl(Operation.READ, "A.orders")),
        (acl(Operation.ALL), acl(Operation.READ, "A.orders")),
        (acl(Operation.WRITE), None),
        (acl(Operation.READ, pattern_type=PatternType.PREFIXED), None),
        (acl(Operation.READ, resource_type=ResourceType.GROUP), None),
        (acl(Operation.READ, "__consumer_offsets"), None),
        (
            acl(Operation.DESCRIBE, "*", permission=Permission.DENY),
            acl(Operation.DESCRIBE, "A.*", permission=Permission.DENY),
        ),
    ],
)
def test_as_mirror_maker_2(given: Acl, expected: Acl | None) -> None:
    assert target_acl(DEFAULT, given, exact=False) == expected


def test_where_names_and_offsets_stay_all_of_topics_and_groups_do() -> None:
    for operation in (Operation.WRITE, Operation.ALL):
        assert target_acl(IDENTITY, acl(operation), exact=True) == acl(operation)
    group = acl(Operation.READ, resource_type=ResourceType.GROUP)
    assert target_acl(IDENTITY, group, exact=True) == group
    assert target_acl(IDENTITY, acl(Operation.ALTER, resource_type=ResourceType.CLUSTER), exact=True) is None
    assert target_acl(IDENTITY, group, exact=False) is None


def test_rights_to_what_is_something_else_at_the_target_are_not_carried_over() -> None:
    more = {"replication.policy.class": "IdentityReplicationPolicy", "topics": "orders.*", "groups": "shop.*"}
    flow = read_settings(MINIMAL | more).flows[0]
    there = {"orders", "payments"}

    def is_carried(given: Acl) -> bool:
        return target_acl(flow, given, exact=True, at_target=there) == given

    assert is_carried(acl(Operation.WRITE))
    assert not is_carried(acl(Operation.READ, "payments")), "a topic that the target has for itself"
    assert is_carried(acl(Operation.READ, "bills")), "a topic that is not there yet"
    assert is_carried(acl(Operation.READ, "*"))
    assert is_carried(acl(Operation.READ, "pay", pattern_type=PatternType.PREFIXED))
    group = acl(Operation.READ, "shop-1", resource_type=ResourceType.GROUP)
    assert is_carried(group)
    assert not is_carried(group._replace(resource_name="billing"))
    assert is_carried(group._replace(resource_name="*"))
    connect = read_settings(MINIMAL | {"replication.policy.class": "IdentityReplicationPolicy"}).flows[0]
    assert target_acl(connect, group._replace(resource_name="connect-x"), exact=True) is not None
