"""What is written down of a refusal, and how ACLs follow the metadata."""

import logging
from types import SimpleNamespace

import pytest

from moldau.broker.access.authorization import Authorization
from moldau.cluster.image import EMPTY_IMAGE
from moldau.cluster.records import AclAdded, AclRemoved, Record
from moldau.protocol.api_keys import ApiKey
from moldau.security.acls import Acl, Operation, ResourceType
from moldau.security.authorizer import Authorizer

_ACL = Acl(ResourceType.TOPIC, "t", 3, "User:u3", "*", Operation.READ, 3)


def _connection(principal: str = "User:u3") -> SimpleNamespace:
    return SimpleNamespace(principal=principal, host="127.0.0.1")


def _may(authorization: Authorization, name: str, *, quiet: bool = False) -> bool:
    question = (ApiKey.PRODUCE, Operation.WRITE, ResourceType.TOPIC, name)
    return authorization.may(_connection(), *question, quiet=quiet)  # type: ignore[arg-type]


def test_a_refusal_is_a_line_in_kafkas_words(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kafka.authorizer.logger")
    authorization = Authorization(Authorizer())
    assert not _may(authorization, "quiet", quiet=True)
    assert not _may(authorization, "m420376")
    assert caplog.messages == [
        "Principal = User:u3 is Denied operation = WRITE from host = 127.0.0.1 on resource = "
        "Topic:LITERAL:m420376 for request = Produce with resourceRefCount = 1 based on rule DefaultDeny"
    ]


def test_what_is_allowed_is_a_line_for_who_turns_it_on(caplog: pytest.LogCaptureFixture) -> None:
    authorizer = Authorizer()
    authorizer.add(_ACL._replace(operation=Operation.WRITE))
    caplog.set_level(logging.INFO, "kafka.authorizer.logger")
    assert _may(Authorization(authorizer), "t")
    assert caplog.messages == []
    caplog.set_level(logging.DEBUG, "kafka.authorizer.logger")
    assert _may(Authorization(authorizer), "t")
    assert caplog.messages[0].startswith(
        "Principal = User:u3 is Allowed operation = WRITE from host = 127.0.0.1 on resource = "
        "Topic:LITERAL:t for request = Produce with resourceRefCount = 1 based on rule MatchingAcl("
    )


def test_a_name_cannot_write_a_line_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kafka.authorizer.logger")
    assert not _may(Authorization(Authorizer()), "a\nPrincipal = User:u3 is Allowed \x1b[2J")
    assert "\n" not in caplog.messages[0]
    assert "\x1b" not in caplog.messages[0]


def test_acls_follow_the_metadata() -> None:
    authorization = Authorization(Authorizer())
    image = EMPTY_IMAGE
    question = ("User:u3", "h", Operation.READ, ResourceType.TOPIC, "t")
    other = _ACL._replace(resource_name="other")
    for record, allowed in ((AclAdded(_ACL), True), (AclAdded(other), True), (AclRemoved(_ACL), False)):
        records: list[Record] = [record]
        after = image.apply_all(records)
        authorization.apply(image, after, records)
        image = after
        assert authorization.authorizer.may(*question) is allowed


def test_operations_are_bits() -> None:
    authorization = Authorization(Authorizer([_ACL]))
    bits = authorization.operations(_connection(), ResourceType.TOPIC, "t")  # type: ignore[arg-type]
    assert bits == 1 << Operation.READ | 1 << Operation.DESCRIBE
