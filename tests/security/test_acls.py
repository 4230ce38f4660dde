"""ACLs and filters as values."""

import pytest

from moldau.security.acls import Acl, AclFilter, Operation, PatternType, Permission, ResourceType, check

_LITERAL = Acl(ResourceType.TOPIC, "pay", PatternType.LITERAL, "User:ann", "*", Operation.READ, 3)
_PREFIXED = _LITERAL._replace(pattern_type=PatternType.PREFIXED)
_WILDCARD = _LITERAL._replace(resource_name="*")


@pytest.mark.parametrize(
    ("name", "pattern", "found"),
    [
        (None, PatternType.ANY, {_LITERAL, _PREFIXED, _WILDCARD}),
        ("pay", PatternType.ANY, {_LITERAL, _PREFIXED}),
        ("pay", PatternType.LITERAL, {_LITERAL}),
        ("payments", PatternType.MATCH, {_PREFIXED, _WILDCARD}),
        ("pay", PatternType.MATCH, {_LITERAL, _PREFIXED, _WILDCARD}),
        ("payments", PatternType.PREFIXED, set()),
        ("*", PatternType.LITERAL, {_WILDCARD}),
    ],
)
def test_a_filter_by_name_and_pattern(name: str | None, pattern: PatternType, found: set[Acl]) -> None:
    wanted = AclFilter(resource_name=name, pattern_type=pattern)
    assert {acl for acl in (_LITERAL, _PREFIXED, _WILDCARD) if wanted.matches(acl)} == found


def test_a_filter_by_the_rest() -> None:
    assert AclFilter(principal="User:ann", operation=Operation.READ).matches(_LITERAL)
    assert not AclFilter(principal="User:bob").matches(_LITERAL)
    assert not AclFilter(host="10.0.0.1").matches(_LITERAL)
    assert not AclFilter(permission=Permission.DENY).matches(_LITERAL)
    assert not AclFilter(resource_type=ResourceType.GROUP).matches(_LITERAL)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({}, None),
        ({"operation": Operation.CLUSTER_ACTION}, None),
        ({"resource_name": ""}, "Invalid empty resource name"),
        ({"resource_type": ResourceType.CLUSTER}, "The only valid name for the CLUSTER resource"),
        ({"pattern_type": PatternType.MATCH}, "Invalid pattern type MATCH"),
        ({"operation": Operation.ANY}, "Invalid operation type ANY"),
        ({"permission": Permission.ANY}, "Invalid permission type ANY"),
        ({"principal": "a"}, "Could not parse principal from `a`"),
        ({"principal": ""}, "expected a string in format"),
    ],
)
def test_what_can_be_created(change: dict[str, object], message: str | None) -> None:
    said = check(_LITERAL._replace(**change))  # type: ignore[arg-type]
    assert said is None if message is None else said is not None and said.startswith(message)
