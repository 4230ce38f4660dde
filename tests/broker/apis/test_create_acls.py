"""CreateAcls, DescribeAcls and DeleteAcls, by the answers of a real broker."""

from collections.abc import Iterator
from typing import Any

import pytest

from moldau.broker.context import CloseConnection
from moldau.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from moldau.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from moldau.protocol.messages.describe_acls import DescribeAclsRequest
from moldau.security.acls import Operation
from moldau.testing import Broker
from tests.broker.apis.asking import Ask

_NO_COLON = (
    "Could not parse principal from `a` (no colon is present separating the principal type from the "
    "principal name)"
)


@pytest.fixture(scope="module")
def acls() -> Iterator[Ask]:
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with Broker(settings) as broker:
        yield Ask(broker)


def creation(**changes: Any) -> AclCreation:
    acl = AclCreation(2, "t", 3, "User:a", "*", Operation.READ, 3)
    for name, value in changes.items():
        setattr(acl, name, value)
    return acl


def describe(ask: Ask, **filters: Any) -> list[tuple[int, str, int, int]]:
    wanted = DescribeAclsRequest(1, None, 1, None, None, 1, 1)
    for name, value in filters.items():
        setattr(wanted, name, value)
    found = ask(wanted).resources
    return [
        (each.resource_type, each.resource_name, each.pattern_type, acl.operation)
        for each in found
        for acl in each.acls
    ]


@pytest.mark.parametrize(
    ("changes", "code", "message"),
    [
        ({}, 0, ""),
        ({"operation": 9}, 0, ""),
        ({"principal": "a"}, 42, _NO_COLON),
        ({"resource_pattern_type": 1}, -1, None),
        ({"operation": 1}, -1, None),
        ({"resource_name": ""}, 42, "Invalid empty resource name"),
        ({"resource_type": 4}, 42, "The only valid name for the CLUSTER resource is kafka-cluster"),
    ],
)
def test_what_can_be_created(acls: Ask, changes: dict[str, Any], code: int, message: str | None) -> None:
    (result,) = acls(CreateAclsRequest([creation(**changes)])).results
    assert (result.error_code, result.error_message) == (code, message)


def test_a_type_that_is_not_known_closes_the_connection(acls: Ask) -> None:
    for changes in ({"resource_type": 0}, {"resource_type": 99}, {"operation": 99}, {"permission_type": 0}):
        with pytest.raises(CloseConnection):
            acls(CreateAclsRequest([creation(**changes)]))


def test_they_are_described_and_deleted_as_a_set(acls: Ask) -> None:
    wanted = [creation(resource_name="set", operation=each) for each in (3, 4, 8)]
    acls(CreateAclsRequest([*wanted, *wanted]))
    acls(CreateAclsRequest([creation(resource_name="se", resource_pattern_type=4)]))
    assert sorted(describe(acls, resource_name_filter="set")) == [(2, "set", 3, op) for op in (3, 4, 8)]
    assert len(describe(acls, resource_name_filter="set", pattern_type_filter=2)) == 4
    (result,) = acls(DeleteAclsRequest([DeleteAclsFilter(2, "set", 3, None, None, 4, 1)])).filter_results
    assert [(each.operation, each.error_code) for each in result.matching_acls] == [(4, 0)]
    assert sorted(describe(acls, resource_name_filter="set")) == [(2, "set", 3, op) for op in (3, 8)]
    (result,) = acls(DeleteAclsRequest([DeleteAclsFilter(2, "set", 3, None, None, 4, 1)])).filter_results
    assert (result.error_code, result.error_message, result.matching_acls) == (0, None, [])


def test_without_an_authorizer_there_are_none(ask: Ask) -> None:
    assert ask(CreateAclsRequest([creation()])).results[0].error_code == 54
    assert ask(DescribeAclsRequest(1, None, 1, None, None, 1, 1)).error_code == 54
    assert ask(DeleteAclsRequest([DeleteAclsFilter()])).filter_results[0].error_code == 54
