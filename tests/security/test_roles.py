"""Roles: what is added and taken away, and that an authorizer answers accordingly after any sequence."""

import random

import pytest

from moldau.security import roles
from moldau.security.acls import Acl, Operation, PatternType, Permission, ResourceType, check
from moldau.security.authorizer import Authorizer

_ANN, _BEN = "User:ann", "User:ben"


def _right(topic: str, operation: Operation = Operation.READ) -> Acl:
    kind, pattern, allow = ResourceType.TOPIC, PatternType.LITERAL, Permission.ALLOW
    return Acl(kind, topic, pattern, "User:anybody", "*", operation, allow)


def _apply(acls: set[Acl], change: roles.Change) -> None:
    assert not set(change.add) & acls
    assert set(change.remove) <= acls
    acls |= set(change.add)
    acls -= set(change.remove)


def _may_read(acls: set[Acl], principal: str, topic: str) -> bool:
    return Authorizer(acls).may(principal, "h", Operation.READ, ResourceType.TOPIC, topic)


def test_a_role_from_its_first_right_to_its_end() -> None:
    acls: set[Acl] = set()
    _apply(acls, roles.grant(acls, "analyst", [_right("orders")]))
    assert not _may_read(acls, _ANN, "orders")
    _apply(acls, roles.join(acls, "analyst", _ANN))
    assert _may_read(acls, _ANN, "orders")
    _apply(acls, roles.grant(acls, "analyst", [_right("payments")]))
    assert _may_read(acls, _ANN, "payments")
    _apply(acls, roles.revoke(acls, "analyst", [_right("orders")]))
    assert not _may_read(acls, _ANN, "orders")
    _apply(acls, roles.leave(acls, "analyst", _ANN))
    assert not _may_read(acls, _ANN, "payments")
    _apply(acls, roles.delete(acls, "analyst"))
    assert not acls


def test_a_right_goes_with_the_last_role_that_has_it() -> None:
    acls: set[Acl] = set()
    for role in ("analyst", "auditor"):
        _apply(acls, roles.grant(acls, role, [_right("orders")]))
        _apply(acls, roles.join(acls, role, _ANN))
    _apply(acls, roles.delete(acls, "analyst"))
    assert _may_read(acls, _ANN, "orders")
    _apply(acls, roles.revoke(acls, "auditor", [_right("orders")]))
    assert not _may_read(acls, _ANN, "orders")


def test_nobody_logs_in_as_a_role_and_a_membership_allows_nothing() -> None:
    acls: set[Acl] = set()
    _apply(acls, roles.join(acls, "analyst", _ANN))
    (acl,) = acls
    assert check(acl) is None
    authorizer = Authorizer(acls)
    for operation in (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS):
        assert not authorizer.may(_ANN, "h", operation, ResourceType.USER, "Role:analyst")


def test_commands_that_come_twice_change_nothing() -> None:
    acls: set[Acl] = set()
    _apply(acls, roles.grant(acls, "analyst", [_right("orders")]))
    _apply(acls, roles.join(acls, "analyst", _ANN))
    nothing = roles.Change([], [])
    assert roles.grant(acls, "analyst", [_right("orders")]) == nothing
    assert roles.join(acls, "analyst", _ANN) == nothing
    assert roles.leave(acls, "analyst", _BEN) == nothing
    assert roles.mend(acls) == nothing
    for gone in (roles.leave(acls, "none", _ANN), roles.delete(acls, "none"), roles.revoke(acls, "none", [])):
        assert gone == nothing


def test_what_was_cut_off_is_mended() -> None:
    acls: set[Acl] = set()
    _apply(acls, roles.grant(acls, "analyst", [_right("orders")]))
    _apply(acls, roles.join(acls, "analyst", _ANN))
    acls.discard(_right("orders")._replace(principal=_ANN))
    _apply(acls, roles.mend(acls))
    assert _may_read(acls, _ANN, "orders")


@pytest.mark.slow
def test_random_sequences_against_sets() -> None:
    """After each command a user may read exactly what one of its roles has."""
    draw = random.Random(18)
    acls: set[Acl] = set()
    rights: dict[str, set[str]] = {}
    members: dict[str, set[str]] = {}
    for _ in range(2000):
        role, topic = draw.choice("abc"), draw.choice("xyz")
        user = draw.choice((_ANN, _BEN))
        match draw.randrange(5):
            case 0:
                _apply(acls, roles.grant(acls, role, [_right(topic)]))
                rights.setdefault(role, set()).add(topic)
            case 1:
                _apply(acls, roles.revoke(acls, role, [_right(topic)]))
                rights.setdefault(role, set()).discard(topic)
            case 2:
                _apply(acls, roles.join(acls, role, user))
                members.setdefault(role, set()).add(user)
            case 3:
                _apply(acls, roles.leave(acls, role, user))
                members.setdefault(role, set()).discard(user)
            case _:
                if draw.random() < 0.2:
                    _apply(acls, roles.delete(acls, role))
                    rights.pop(role, None)
                    members.pop(role, None)
        for each in (_ANN, _BEN):
            wanted = {name for held in members if each in members[held] for name in rights.get(held, ())}
            assert {name for name in "xyz" if _may_read(acls, each, name)} == wanted


@pytest.mark.parametrize("name", ["", "a b", "x" * 101, "a:b", "ä"])
def test_names(name: str) -> None:
    with pytest.raises(ValueError, match="the name of a role"):
        roles.check_name(name)
    assert roles.check_name("team-1.read_only") == "team-1.read_only"
