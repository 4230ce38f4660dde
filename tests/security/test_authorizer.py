"""The authorizer: against an oracle over random ACLs, and by the answers of a real broker."""

import random

import pytest

from moldau.security.acls import Acl, Operation, PatternType, Permission, ResourceType
from moldau.security.authorizer import Authorizer
from tests.security import acl_oracle as oracle

_OPERATIONS = [operation for operation in Operation if operation > Operation.ANY]
_NAMES = ["a", "ab", "abc", "b", "*", "kafka-cluster", "ä", "hardcode"]
_PRINCIPALS = ["User:ann", "User:bob", "User:*", "Group:ann", "user:ann"]
_HOSTS = ["*", "10.0.0.1", "10.0.0.2"]
_TYPES = [ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER]


def acl(
    name: str = "t",
    principal: str = "User:ann",
    operation: Operation = Operation.READ,
    permission: Permission = Permission.ALLOW,
    *,
    pattern: PatternType = PatternType.LITERAL,
    host: str = "*",
    kind: ResourceType = ResourceType.TOPIC,
) -> Acl:
    return Acl(kind, name, pattern, principal, host, operation, permission)


def any_acl(draw: random.Random) -> Acl:
    return Acl(
        draw.choice(_TYPES),
        draw.choice(_NAMES),
        draw.choice([PatternType.LITERAL, PatternType.PREFIXED]),
        draw.choice(_PRINCIPALS),
        draw.choice(_HOSTS),
        draw.choice(_OPERATIONS),
        draw.choice([Permission.ALLOW, Permission.ALLOW, Permission.DENY]),
    )


def disagreements(seed: int, rounds: int, questions: int) -> list[object]:
    """Where authorizer and oracle differ, over random sets that grow and shrink."""
    draw = random.Random(seed)
    found: list[object] = []
    for _ in range(rounds):
        super_users = frozenset(draw.sample(_PRINCIPALS, draw.choice([0, 0, 1])))
        open_by_default = draw.random() < 0.3
        authorizer = Authorizer((), super_users, open_by_default)
        acls: set[Acl] = set()
        for _ in range(draw.randrange(12)):
            change = any_acl(draw)
            if acls and draw.random() < 0.3:
                change = draw.choice(sorted(acls))
                acls.discard(change)
                authorizer.remove(change)
            else:
                acls.add(change)
                authorizer.add(change)
            for _ in range(questions):
                question = (
                    draw.choice(_PRINCIPALS),
                    draw.choice(["10.0.0.1", "10.0.0.2", "10.0.0.3"]),
                    draw.choice(_OPERATIONS),
                    draw.choice(_TYPES),
                    draw.choice(_NAMES),
                )
                if authorizer.may(*question) != oracle.may(acls, super_users, open_by_default, *question):
                    found.append((acls, super_users, open_by_default, question))
    return found


@pytest.mark.slow
def test_it_agrees_with_the_oracle_over_random_acls() -> None:
    assert disagreements(seed=1, rounds=400, questions=8) == []


def test_the_oracle_is_short() -> None:
    with open(oracle.__file__) as source:
        assert len(source.readlines()) <= 60


def test_deny_wins_and_implies_nothing() -> None:
    authorizer = Authorizer([acl(), acl(operation=Operation.DESCRIBE, permission=Permission.DENY)])
    assert authorizer.may("User:ann", "h", Operation.READ, ResourceType.TOPIC, "t")
    assert not authorizer.may("User:ann", "h", Operation.DESCRIBE, ResourceType.TOPIC, "t")


def test_the_rule_that_decides_is_named() -> None:
    rule = acl()
    authorizer = Authorizer([rule], frozenset({"User:root"}))
    assert authorizer.decide("User:ann", "h", Operation.READ, ResourceType.TOPIC, "t").rule == rule
    assert authorizer.decide("User:root", "h", Operation.READ, ResourceType.TOPIC, "t").rule == "SuperUser"
    assert authorizer.decide("User:bob", "h", Operation.READ, ResourceType.TOPIC, "t").rule == "DefaultDeny"


def test_a_change_counts_at_once() -> None:
    authorizer = Authorizer()
    question = ("User:ann", "h", Operation.READ, ResourceType.TOPIC, "orders")
    prefixed = acl("ord", pattern=PatternType.PREFIXED)
    assert not authorizer.may(*question)
    authorizer.add(prefixed)
    assert authorizer.may(*question)
    authorizer.remove(prefixed)
    authorizer.remove(prefixed)
    assert not authorizer.may(*question)


_W, _D = Operation.WRITE, Permission.DENY
_PREFIX = PatternType.PREFIXED


@pytest.mark.parametrize(
    ("acls", "allowed"),
    [
        ([], False),
        ([acl("missing", operation=_W)], True),
        ([acl("p", operation=_W, pattern=_PREFIX)], True),
        ([acl("*", operation=_W)], True),
        ([acl(operation=Operation.ALL)], True),
        ([acl(operation=Operation.READ)], False),
        ([acl("a", operation=_W), acl("a", operation=_W, permission=_D)], False),
        ([acl("a", operation=_W), acl("a", operation=_W, permission=_D, pattern=_PREFIX)], False),
        ([acl("abc", operation=_W), acl("a", operation=_W, permission=_D)], True),
        (
            [
                acl("ab", operation=_W, pattern=_PREFIX),
                acl("a", operation=_W, permission=_D, pattern=_PREFIX),
            ],
            False,
        ),
        ([acl("a", operation=_W), acl("*", operation=_W, permission=_D)], False),
        ([acl("a", operation=_W), acl("*", operation=Operation.ALL, permission=_D)], False),
        ([acl("a", operation=_W, host="10.0.0.9")], False),
        ([acl("hardcode", operation=_W)], True),
    ],
)
def test_may_write_any_topic(acls: list[Acl], allowed: bool) -> None:
    assert Authorizer(acls).may_any("User:ann", "h", _W, ResourceType.TOPIC) is allowed


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moldau.security.authorizer._REMEMBERED_MOST", 10)
    authorizer = Authorizer([acl("n", pattern=_PREFIX)])
    for number in range(100):
        assert authorizer.may("User:ann", "h", Operation.READ, ResourceType.TOPIC, f"n{number}")
    assert len(authorizer._remembered) <= 10


@pytest.mark.parametrize("host", ["0:0:0:0:0:0:0:1", "::1", "0000::0001"])
def test_an_address_of_ipv6_is_the_same_however_it_is_written(host: str) -> None:
    """Kafka's brokers show addresses with all their zeros, and so the ACLs that were made for them."""
    authorizer = Authorizer([acl(), acl(host=host, permission=Permission.DENY)])
    read = Operation.READ, ResourceType.TOPIC
    assert not authorizer.may("User:ann", "::1", *read, "t")
    assert authorizer.may("User:ann", "::2", *read, "t")
    assert authorizer.may("User:ann", "fe80::1%eth0", *read, "t")
    assert not authorizer.may_any("User:ann", "::1", *read)
