"""Plays rows of an authorization table against a broker, over the wire.

    .venv/bin/python -m tests.security.play FILE …

A file has rows as a real Kafka was asked: an API, a version, a case in words, and steps: which ACLs were
granted, and which errors came back, each with its place in the answer. Every row gets names, a user and ACLs
of its own. One line a row, ``row PASS`` or ``row FAIL why``; at the end how many of each.

Invariant: a row passes when every answer has the errors of the row, at their places, in every version that
the row names. Where this broker differs on purpose, that is listed here, with the reason.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from moldau.protocol.errors import ErrorCode
from moldau.protocol.schema import declaration
from moldau.security.acls import Acl, Operation, PatternType, Permission, ResourceType
from moldau.testing import Broker
from tests.security import row_open_default, row_pairs, row_rules
from tests.security.row_forms import request_for
from tests.security.row_world import Unreadable, World, item, make
from tests.security.secure_wire import Closed, NoAnswer, Wire

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

#: The area of rules that need a broker with another setting.
_OPEN = "allow.everyone.if.no.acl.found"

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
        #: No API tells it, and a request of this very broker needs it.
        self.broker_epoch = broker.node.services.image.brokers[1].broker_epoch
        self._plays = 0
        self._granted: list[Acl] = []

    def row(self, row: dict[str, Any]) -> str | None:
        """Why a row fails; None when it passes."""
        case = row.get("case", "") or f"{row.get('at', '')} {_case_of(row)}"
        try:
            for play in plays_of(row):
                if (reason := self._play(row["api"], case, play)) is not None:
                    return f"v{play.version}: {reason}"
        except Unreadable as error:
            return str(error)
        except (AssertionError, Closed, NoAnswer) as error:
            return f"could not be prepared: {error}"
        return None

    def rule(self, rule: dict[str, Any]) -> str | None:
        """Why a rule fails; None when it holds."""
        world, user = self._world("az-")
        _, another = self._world()
        result = rule["result"]
        try:
            world.create_topic()
            with self._connect(user, None) as wire:
                stage = row_rules.Stage(
                    world,
                    wire,
                    self._grant_all,
                    lambda name, source: self._connect(name or user, source),
                    another,
                )
                found = _rule_player(rule)(rule, stage)
        except (Unreadable, AssertionError, Closed, NoAnswer) as error:
            return f"{type(error).__name__} {error}"
        finally:
            self._take_back()
        if "AddPartitionsToTxn" in rule["case"]:
            found, result = _any_order(found), _any_order(result)
        if isinstance(found, str) and isinstance(result, str) and result.startswith(f"{found} ("):
            return None  # the rest of the result is a remark
        return None if found == result else f"expected {result}, got {found}"

    def _connect(self, user: str, source: str | None) -> Wire:
        return Wire(self.address, seconds=5, source=source).log_in(user, _SECRET)

    def _world(self, prefix: str = "") -> tuple[World, str]:
        """Names that nothing else has, and the user of this play."""
        self._plays += 1
        number = self._plays
        user = f"u{number % _USERS}"
        names = (f"{prefix}{letter}{number}" for letter in "tmgxc")
        return World(self.admin, *names, f"User:{user}", broker_epoch=self.broker_epoch), user

    def _grant_all(self, acls: list[Acl]) -> None:
        self._granted += acls
        creations = [item("create_acls", "AclCreation") for _ in acls]
        for creation, acl in zip(creations, acls, strict=True):
            creation.resource_type, creation.resource_name = acl.resource_type, acl.resource_name
            creation.resource_pattern_type, creation.principal = acl.pattern_type, acl.principal
            creation.host, creation.operation = acl.host, acl.operation
            creation.permission_type = acl.permission
        for result in self.admin.ask(make("CreateAcls", creations=creations), 3).results:
            assert not result.error_code, result

    def _take_back(self) -> None:
        """A rule's ACLs are gone after it: some are about everybody, or about every topic."""
        filters = []
        for acl in self._granted:
            wanted = item("delete_acls", "DeleteAclsFilter", resource_type_filter=acl.resource_type)
            wanted.resource_name_filter, wanted.pattern_type_filter = acl.resource_name, acl.pattern_type
            wanted.principal_filter, wanted.host_filter = acl.principal, acl.host
            wanted.operation, wanted.permission_type = acl.operation, acl.permission
            filters.append(wanted)
        self._granted.clear()
        if filters:
            self.admin.ask(make("DeleteAcls", filters=filters), 3)

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


def _case_of(row: dict[str, Any]) -> str:
    """The case of a row without words, where the ACLs that it grants tell: configs of a broker or a group."""
    granted = {text.split(" ")[1] for step in row["steps"] for text in step["granted"]}
    if "Configs" in row["api"] and granted <= {"CLUSTER", "GROUP"}:
        return {"CLUSTER": "broker", "GROUP": "group"}.get("".join(granted), "")
    return ""


def _any_order(answer: Any) -> Any:
    """An answer whose items come in the order of a hash table in Kafka, and of the request here."""
    return {key: sorted(each, key=str) if isinstance(each, list) else each for key, each in answer.items()}


def _rule_player(rule: dict[str, Any]) -> Callable[[dict[str, Any], row_rules.Stage], Any]:
    """What plays a rule of this area."""
    area = rule["area"].lower()
    for words, form in (
        ("mixed request", row_pairs.mixed),
        ("order of items", row_pairs.order),
        (_OPEN, row_open_default.play),
    ):
        if area.startswith(words):
            return lambda rule, stage: form(rule["case"], stage, rule["result"])
    return row_rules.play


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
    """Rows with their names, from files with a list of rows or with lists under names."""
    for path in paths:
        data = json.loads(Path(path).read_text())
        lists = {"": data} if isinstance(data, list) else data
        for title, rows in lists.items():
            for row in rows if isinstance(rows, list) else ():
                if "area" in row:
                    yield f"{row['area']}: {row['case']}", row
                elif "api" in row:
                    case = f" {row['case']}" if row.get("case") else ""
                    # What Kafka has on a listener of its own is asked of a broker here.
                    where = "controller listener" if title == "controller_listener" else ""
                    name = f"{where}: {row['api']}" if where else row["api"]
                    yield f"{name} v{row['version']}{case}", {"at": where} | row


class Players:
    """A broker for rows, and another one for rules about the open default; each started when it is needed."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._started: dict[bool, Player] = {}

    def __enter__(self) -> "Players":
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    def play(self, row: dict[str, Any]) -> str | None:
        """Why a row or a rule fails; None when it passes."""
        is_open = row.get("area", "").lower().startswith(_OPEN)
        if is_open not in self._started:
            settings = SETTINGS | ({"allow.everyone.if.no.acl.found": "true"} if is_open else {})
            self._started[is_open] = Player(self._stack.enter_context(Broker(settings)))
        player = self._started[is_open]
        return player.rule(row) if "area" in row else player.row(row)


def main(paths: list[str]) -> int:
    passed = failed = 0
    with Players() as players:
        for name, row in rows_of(paths):
            reason = players.play(row)
            if reason is None:
                passed += 1
                print(f"{name} PASS", flush=True)
            else:
                failed += 1
                print(f"{name} FAIL {reason}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0
