"""Plays rows of an authorization table against a broker, over the wire.

    .venv/bin/python -m tests.security.play FILE …

A file has rows as a real Kafka was asked: an API, a version, a case in words, and steps: which ACLs were
granted, and which errors came back, each with its place in the answer. Every row gets names, a user and ACLs
of its own: <T>, <G> and so on stand for any, and a name that a row spells out is the one of its request. One
line a row, ``row PASS`` or ``row FAIL why``; at the end how many of each.

Invariant: a row passes when every answer has the errors of the row, at their places, in every version that
the row names. Where this broker differs on purpose, that is listed here, with the reason. What cannot be
read as a row fails and says why; it is never left out, and keeps no other row from being played.
"""

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from moldau.protocol.errors import ErrorCode
from moldau.protocol.schema import declaration
from moldau.security.acls import Acl, Operation, PatternType, Permission, ResourceType
from moldau.testing import Broker
from tests.security import row_open_default, row_pairs, row_rules
from tests.security.row_forms import is_gone, request_for
from tests.security.row_world import PLACES, Unreadable, World, item, make
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
    yield Play(_field(row, "version", int), _steps(row))
    denied = _steps(row)[:1]
    for version in _list(row, "versions_same_denied_form", int):
        if version != row["version"]:
            yield Play(version, denied)
    for older in _list(row, "forms_of_older_versions", dict):
        own = _field(older, "version", int)
        steps = _steps(older) if "steps" in older else (((), _texts(older, "errors")),)
        yield Play(own, steps)
        for version in _list(older, "versions", int):
            if version != own:
                yield Play(version, steps[:1])
    for alone in _list(row, "one_acl_alone", dict):
        yield Play(row["version"], (((_field(alone, "granted_alone", str),), _texts(alone, "errors")),))


def _steps(row: dict[str, Any]) -> tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]:
    steps = _list(row, "steps", dict)
    if not steps:
        raise Unreadable("the row has no steps")
    return tuple((_texts(step, "granted"), _texts(step, "errors")) for step in steps)


_KINDS = {int: "a number", str: "a text", dict: "an object"}


def _field(row: dict[str, Any], name: str, kind: type) -> Any:
    value = row.get(name)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise Unreadable(f"{name!r} has to be {_KINDS[kind]}, not {json.dumps(value)[:80]}")
    return value


def _list(row: dict[str, Any], name: str, kind: type) -> list[Any]:
    values = row.get(name, [])
    if not isinstance(values, list) or not all(isinstance(each, kind) for each in values):
        raise Unreadable(f"{name!r} has to be a list, each {_KINDS[kind]}, not {json.dumps(values)[:80]}")
    return values


def _texts(step: dict[str, Any], name: str) -> tuple[str, ...]:
    if name not in step:
        raise Unreadable(f"a step has no {name!r}")
    return tuple(_list(step, name, str))


def right_of(text: str) -> tuple[Operation, ResourceType, str]:
    """``WRITE TOPIC <T>``."""
    words = text.split(" ", 2)
    if len(words) < 3 or words[0] not in Operation.__members__ or words[1] not in ResourceType.__members__:
        raise Unreadable(f"{text!r} is no right, as WRITE TOPIC <T>: an operation, a type and a name")
    name = words[2]
    if name.startswith("<") and name not in PLACES:
        raise Unreadable(f"{name} stands for nothing here: there are {', '.join(PLACES)}")
    return Operation[words[0]], ResourceType[words[1]], name


#: The names that one request has, by type; the first place is for what exists.
_PLACES_OF = {
    ResourceType.TOPIC: ("<T>", "<M>"),
    ResourceType.GROUP: ("<G>",),
    ResourceType.TRANSACTIONAL_ID: ("<X>",),
}


def spelled_names(row: dict[str, Any]) -> dict[str, str]:
    """The names that a row spells out, by the place that they take in its request.

    Of several of one type it is the one that was asked about, that the case tells of, or that comes last:
    rights on the others are there to show that they do not help.
    """
    asked: dict[ResourceType, list[str]] = {}
    granted: dict[ResourceType, list[str]] = {}
    for alone in _list(row, "one_acl_alone", dict):
        _, kind, name = right_of(_field(alone, "granted_alone", str))
        granted.setdefault(kind, []).append(name)
    forms = [row, *_list(row, "forms_of_older_versions", dict)]
    for step in (each for form in forms for each in _list(form, "steps", dict)):
        for text in _list(step, "granted", str):
            _, kind, name = right_of(text)
            granted.setdefault(kind, []).append(name)
        for question in _list(step, "asks", dict):
            kind = ResourceType.__members__.get(question.get("type", ""), ResourceType.UNKNOWN)
            asked.setdefault(kind, []).append(str(question.get("name", "")))
    words = row.get("case", "").replace(",", " ").replace('"', " ").replace("'", " ").split()
    found = {}
    for kind, places in _PLACES_OF.items():
        names = granted.get(kind, []) + asked.get(kind, [])
        if any(each in PLACES for each in names):
            continue
        spelled = [each for each in names if each not in ("", "*") and not each.startswith("<")]
        told = [each for each in spelled if each in words or each in asked.get(kind, [])] or spelled
        if told:
            found[places[-1] if is_gone(row.get("case", "")) or _makes_it(row) else places[0]] = told[-1]
    return found


def _makes_it(row: dict[str, Any]) -> bool:
    """Whether the request makes the topic that it names."""
    return row["api"] == "CreateTopics" and "existing" not in row.get("case", "")


class Player:
    """One broker for many rows: each play has names and a user that nothing else has."""

    def __init__(self, broker: Broker) -> None:
        self.address = broker.bootstrap_servers
        self.admin = self._connect("admin", None)
        for key_type in (0, 1):  # so that the topics of the coordinators are there
            self.admin.ask(make("FindCoordinator", coordinator_keys=["any"], key_type=key_type), 4)
        #: No API tells it, and a request of this very broker needs it.
        self.broker_epoch = broker.node.services.image.brokers[1].broker_epoch
        self._plays = 0
        self._granted: list[Acl] = []
        #: Names that rows have spelled out: each is there once.
        self._taken: set[str] = set()

    def play(self, row: dict[str, Any]) -> str | None:
        """Why a row or a rule fails; None when it passes."""
        try:
            return self._rule(row) if "area" in row else self._row(row)
        except Unreadable as error:
            return str(error)
        except Exception as error:
            # Half an answer may be left behind: the next row begins anew.
            self.admin.socket.close()
            self.admin = self._connect("admin", None)
            self._take_back()
            return f"could not be played: {type(error).__name__} {error}"

    def _row(self, row: dict[str, Any]) -> str | None:
        case = _field(row, "case", str) if "case" in row else ""
        case = case or f"{row.get('at', '')} {_case_of(row)}"
        names = spelled_names(row)
        for play in plays_of(row):
            if (reason := self._play(row["api"], case, play, names)) is not None:
                return f"v{play.version}: {reason}"
        return None

    def _rule(self, rule: dict[str, Any]) -> str | None:
        if "result" not in rule:
            raise Unreadable("the rule has no 'result'")
        case, result = _field(rule, "case", str), rule["result"]
        world, user = self._world("az-")
        _, another = self._world()
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
        finally:
            self._take_back()
        if "AddPartitionsToTxn" in case:
            found, result = _any_order(found), _any_order(result)
        if isinstance(found, str) and isinstance(result, str) and result.startswith(f"{found} ("):
            return None  # the rest of the result is a remark
        return None if found == result else f"expected {result}, got {found}"

    def _connect(self, user: str, source: str | None) -> Wire:
        return Wire(self.address, seconds=10, source=source).log_in(user, _SECRET)

    def _world(self, prefix: str = "", spelled: dict[str, str] | None = None) -> tuple[World, str]:
        """Names that nothing else has, and the user of this play."""
        self._plays += 1
        number = self._plays
        user = f"u{number % _USERS}"
        names = [f"{prefix}{letter}{number}" for letter in "tmgxc"]
        for place, name in (spelled or {}).items():
            names[list(PLACES).index(place)] = own = f"{name}-{number}" if name in self._taken else name
            self._taken.add(own)
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
        if filters:
            self.admin.ask(make("DeleteAcls", filters=filters), 3)
        self._granted.clear()

    def _play(self, api: str, case: str, play: Play, names: dict[str, str]) -> str | None:
        world, user = self._world(spelled=names)
        own = {name: world.names()[place] for place, name in names.items()} | world.names()
        world.create_topic()
        request = request_for(api, play.version, case, world)
        silent = any("no answer" in expected for _, expected in play.steps)
        try:
            with Wire(self.address, seconds=2 if silent else 10).log_in(user, _SECRET) as wire:
                held: set[str] = set()
                for granted, expected in play.steps:
                    for text in granted:
                        if text not in held:
                            held.add(text)
                            operation, kind, name = right_of(text)
                            acl = (kind, own.get(name, name), PatternType.LITERAL, world.user, "*", operation)
                            self._grant_all([Acl(*acl, Permission.ALLOW)])
                    found = self._errors(wire, request, play.version)
                    if not _same(api, play.version, case, expected, found):
                        what = ", ".join(granted) or "nothing"
                        return f"with {what}: expected {'; '.join(expected)}, got {'; '.join(found)}"
        finally:
            self._take_back()
        return None

    def _errors(self, wire: Wire, request: Any, version: int) -> tuple[str, ...]:
        try:
            return errors_of(wire.ask(request, version))
        except Closed:
            return ("closed",)
        except NoAnswer:
            return ("no answer",)


def _case_of(row: dict[str, Any]) -> str:
    """The case of a row without words, where the ACLs that it grants tell: configs of a broker or a group."""
    kinds = {right_of(text)[1].name for granted, _ in _steps(row) for text in granted}
    cases: dict[str, str] = {}
    if "Configs" in row["api"]:
        cases = {"CLUSTER": "broker", "GROUP": "group"}
    elif row["api"] == "FindCoordinator":
        cases = {"CLUSTER": "share", "GROUP": "group", "TRANSACTIONAL_ID": "transaction"}
    return cases.get("".join(kinds), "")


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
    """Rows with their names, from files with a list of rows or with lists under names.

    What is no row has the name of its place, and a reason why it cannot be played under ``unreadable``.
    """
    for path in paths:
        try:
            data = json.loads(Path(path).read_text())
        except (OSError, ValueError, RecursionError) as error:
            yield path, {"unreadable": f"cannot be read: {error}"}
            continue
        lists = {"": data} if isinstance(data, list) else data if isinstance(data, dict) else {}
        found = [
            (title, number, row)
            for title, rows in lists.items()
            if isinstance(rows, list)
            for number, row in enumerate(rows, 1)
        ]
        if not found:
            yield path, {"unreadable": "has no rows: it is a list of them, or an object with lists of them"}
        for title, number, row in found:
            yield _named(row, title, f"{path} {title} row {number}".replace("  ", " "))


def _named(row: Any, title: str, place: str) -> tuple[str, dict[str, Any]]:
    if not isinstance(row, dict):
        return place, {"unreadable": f"a row is an object, not {json.dumps(row)[:80]}"}
    if not isinstance(row.get("area", ""), str):
        return place, {"unreadable": "the 'area' of a rule is a text"}
    if "area" in row:
        return f"{row['area']}: {row.get('case', '')}", row
    if not isinstance(row.get("api"), str):
        return place, {"unreadable": "a row has an 'api', or an 'area' for a rule"}
    case = f" {row['case']}" if row.get("case") else ""
    # What Kafka has on a listener of its own is asked of a broker here.
    where = "controller listener" if title == "controller_listener" else ""
    name = f"{where}: {row['api']}" if where else row["api"]
    return f"{name} v{row.get('version')}{case}", {"at": where} | row


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
        if "unreadable" in row:
            return str(row["unreadable"])
        is_open = row.get("area", "").lower().startswith(_OPEN)
        if is_open not in self._started:
            settings = SETTINGS | ({"allow.everyone.if.no.acl.found": "true"} if is_open else {})
            self._started[is_open] = Player(self._stack.enter_context(Broker(settings)))
        return self._started[is_open].play(row)


def main(paths: list[str]) -> int:
    if not paths:
        print("usage: python -m tests.security.play FILE …", file=sys.stderr)
        return 2
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
