"""Plays rows of an authorization table against a broker, over the wire.

    .venv/bin/python -m tests.security.play FILE …

A file has rows as a real Kafka was asked: an API, a version, a case in words, and steps: which ACLs were
granted, and which errors came back, each with its place in the answer. Every row gets names, a user and ACLs
of its own. One line a row, ``row PASS`` or ``row FAIL why``; at the end how many of each.

Invariant: a row passes when every answer has the errors of the row, at their places, in every version that
the row names. Where this broker differs on purpose, that is listed here, with the reason.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import row_rules
from row_forms import Unreadable, World, item, make, request_for
from secure_wire import Closed, NoAnswer, Wire

from moldau.protocol.errors import ErrorCode
from moldau.protocol.schema import declaration
from moldau.security.acls import Acl, Operation, PatternType, Permission, ResourceType
from moldau.testing import Broker

_USERS = 4000
_SECRET = "secret"
SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin;User:ANONYMOUS",
    "delegation.token.secret.key": "of the tests",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'user_admin="{_SECRET}" user_bob="{_SECRET}" '
        + " ".join(f'user_u{number}="{_SECRET}"' for number in range(_USERS))
        + ";"
    ),
}

#: Fields that end in ErrorCode and are not counted: the captured answers leave tagged fields out.
_NOT_COUNTED = {"TopicConfigErrorCode"}


class Play(NamedTuple):
    """One version of a row: steps of ACLs that add up, and the errors after each."""

    version: int
    steps: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]


def plays_of(row: dict[str, Any]) -> Iterator[Play]:
    """The row in its own version with all its steps, and what it says about other versions."""
    yield Play(row["version"], _steps(row["steps"]))
    denied = _steps(row["steps"][:1])
    for version in row.get("versions_same_denied_form", ()):
        if version != row["version"]:
            yield Play(version, denied)
    for older in row.get("forms_of_older_versions", ()):
        steps = older.get("steps") or [{"granted": [], "errors": older["errors"]}]
        yield Play(older["version"], _steps(steps))
        for version in older.get("versions", ()):
            if version != older["version"]:
                yield Play(version, _steps(steps[:1]))
    for alone in row.get("one_acl_alone", ()):
        yield Play(row["version"], (((alone["granted_alone"],), tuple(alone["errors"])),))


def _steps(steps: list[dict[str, Any]]) -> tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]:
    return tuple((tuple(step["granted"]), tuple(step["errors"])) for step in steps)


class Player:
    """One broker for many rows: each play has names and a user that nothing else has."""

    def __init__(self, broker: Broker) -> None:
        self.address = broker.bootstrap_servers
        self.admin = Wire(self.address).log_in("admin", _SECRET)
        for key_type in (0, 1):  # so that the topics of the coordinators are there
            self.admin.ask(make("FindCoordinator", coordinator_keys=["any"], key_type=key_type), 4)
        self._plays = 0

    def row(self, row: dict[str, Any]) -> str | None:
        """Why a row fails; None when it passes."""
        try:
            for play in plays_of(row):
                if (reason := self._play(row["api"], row.get("case", ""), play)) is not None:
                    return f"v{play.version}: {reason}"
        except Unreadable as error:
            return str(error)
        except (AssertionError, Closed, NoAnswer) as error:
            return f"could not be prepared: {error}"
        return None

    def rule(self, rule: dict[str, Any]) -> str | None:
        """Why a rule fails; None when it holds."""
        world, user = self._world("az-")
        world.create_topic()
        try:
            with Wire(self.address, seconds=2).log_in(user, _SECRET) as wire:
                found = row_rules.play(rule, world, wire, self._grant_all)
        except (Unreadable, AssertionError, Closed, NoAnswer) as error:
            return f"{type(error).__name__} {error}"
        return None if found == rule["result"] else f"expected {rule['result']}, got {found}"

    def _world(self, prefix: str = "") -> tuple[World, str]:
        """Names that nothing else has, and the user of this play."""
        self._plays += 1
        number = self._plays
        user = f"u{number % _USERS}"
        names = (f"{prefix}{letter}{number}" for letter in "tmgxc")
        return World(self.admin, *names, f"User:{user}"), user

    def _grant_all(self, acls: list[Acl]) -> None:
        creations = [item("create_acls", "AclCreation") for _ in acls]
        for creation, acl in zip(creations, acls, strict=True):
            creation.resource_type, creation.resource_name = acl.resource_type, acl.resource_name
            creation.resource_pattern_type, creation.principal = acl.pattern_type, acl.principal
            creation.host, creation.operation = acl.host, acl.operation
            creation.permission_type = acl.permission
        for result in self.admin.ask(make("CreateAcls", creations=creations), 3).results:
            assert not result.error_code, result

    def _play(self, api: str, case: str, play: Play) -> str | None:
        world, user = self._world()
        world.create_topic()
        request = request_for(api, play.version, case, world)
        with Wire(self.address, seconds=2).log_in(user, _SECRET) as wire:
            held: set[str] = set()
            for granted, expected in play.steps:
                for text in granted:
                    if text not in held:
                        held.add(text)
                        self.grant(text, world)
                found = self._errors(wire, request, play.version)
                if not _same(api, play.version, case, expected, found):
                    what = ", ".join(granted) or "nothing"
                    return f"with {what}: expected {'; '.join(expected)}, got {'; '.join(found)}"
        return None

    def grant(self, text: str, world: World, permission: Permission = Permission.ALLOW) -> None:
        """``WRITE TOPIC <T>`` for the user of this play."""
        operation, kind, name = text.split(" ", 2)
        name = world.names().get(name, name)
        creation = item("create_acls", "AclCreation", resource_type=ResourceType[kind], resource_name=name)
        creation.resource_pattern_type, creation.host = PatternType.LITERAL, "*"
        creation.principal, creation.permission_type = world.user, permission
        creation.operation = Operation[operation]
        (result,) = self.admin.ask(make("CreateAcls", creations=[creation]), 3).results
        assert not result.error_code, result

    def _errors(self, wire: Wire, request: Any, version: int) -> tuple[str, ...]:
        try:
            return errors_of(wire.ask(request, version))
        except Closed:
            return ("closed",)
        except NoAnswer:
            return ("no answer",)


def errors_of(answer: Any) -> tuple[str, ...]:
    """The error codes of an answer with their places: ``Topics[].ErrorCode=…``; ``ok`` without any."""
    found = list(dict.fromkeys(_walk(answer, "")))
    return tuple(found) or ("ok",)


def _walk(message: Any, place: str) -> Iterator[str]:
    for each in declaration(type(message)).fields:
        value = getattr(message, each.name)
        name = "".join(word.capitalize() for word in each.name.split("_"))
        if isinstance(value, list):
            for one in value:
                if hasattr(one, "__message__"):
                    yield from _walk(one, f"{place}{name}[].")
        elif hasattr(value, "__message__"):
            yield from _walk(value, f"{place}{name}.")
        elif name.endswith("ErrorCode") and value and name not in _NOT_COUNTED:
            yield f"{place}{name}={ErrorCode(value).name} ({int(value)})"


def _same(api: str, version: int, case: str, expected: tuple[str, ...], found: tuple[str, ...]) -> bool:
    if sorted(expected) == sorted(found):
        return True
    refused = all("AUTHORIZATION_FAILED" in each for each in found)
    if expected == ("no answer",):
        # Kafka forgets to answer; a refusal is what it meant.
        return refused
    if api == "InitProducerId" and version == 6 and expected == ("closed",):
        return refused  # served here, and refused like the versions before it
    if (
        api == "Metadata"
        and "auto creation" in case
        and expected == ("Topics[].ErrorCode=UNKNOWN_TOPIC_OR_PARTITION (3)",)
    ):
        return found == ("ok",)  # Kafka has the client ask again; here the answer waits for the topic
    return False


def rows_of(paths: Iterable[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows with their names, from files with a list of rows or with one under ``apis``."""
    for path in paths:
        data = json.loads(Path(path).read_text())
        rows = data if isinstance(data, list) else [*data.get("apis", ()), *data.get("rows", ())]
        rules = [] if isinstance(data, list) else data.get("rules", ())
        for rule in filter(row_rules.playable, [*rules, *(row for row in rows if "area" in row)]):
            yield f"{rule['area']}: {rule['case']}", rule
        for row in (row for row in rows if "api" in row):
            case = f" {row['case']}" if row.get("case") else ""
            yield f"{row['api']} v{row['version']}{case}", row


def main(paths: list[str]) -> int:
    passed = failed = 0
    with Broker(SETTINGS) as broker:
        player = Player(broker)
        for name, row in rows_of(paths):
            reason = player.rule(row) if "area" in row else player.row(row)
            if reason is None:
                passed += 1
                print(f"{name} PASS", flush=True)
            else:
                failed += 1
                print(f"{name} FAIL {reason}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0
