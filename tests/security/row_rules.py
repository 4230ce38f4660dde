"""Rules of an authorization table: ACLs in words, and what a client may do with them.

    {"area": "deny", "case": "allow ALL, deny READ", "result": {"Fetch": "…", "authorized operations": […]}}

Invariant: ACLs are read from the words of the case. What cannot be read is an ``Unreadable``: a rule is never
left out in silence.
"""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from moldau.protocol.errors import ErrorCode
from moldau.security.acls import (
    CLUSTER_NAME,
    OPERATIONS,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from tests.security.row_world import Unreadable, World, item, make
from tests.security.secure_wire import Wire

_CLAUSE = re.compile(r"(?:(allow|deny) )?(?:only )?([A-Z_]+)\b(.*)")
#: What looks like an operation: other words of a case are remarks.
_SHOUTED = re.compile(r"\b(?!ACLs?\b)[A-Z_]{3,}\b")
_QUOTED = re.compile(r'"([^"]*)"')
_NOT_SET = -(2**31)


class Stage(NamedTuple):
    """Where a rule is played: its names, its user's connection, and ways to get more of both."""

    world: World
    wire: Wire
    grant: Callable[[list[Acl]], None]
    #: Opens a connection: ``connect(user, source)``, where None is the user of the rule, or any address.
    connect: Callable[[str | None, str | None], Wire]
    #: Another user, without any ACL.
    another: str


def play(rule: dict[str, Any], stage: Stage) -> Any:
    """What happens; to be compared with the rule's result."""
    area = rule["area"].lower()
    for words, form in _AREAS.items():
        if area.startswith(words):
            return form(rule["case"], stage, rule["result"])
    raise Unreadable(f"the area {area!r} is not known")


def acls_of(case: str, world: World, *, kind: ResourceType = ResourceType.TOPIC) -> list[Acl]:
    """``allow READ literal, deny READ on host 10.0.0.1`` as ACLs on the topic of the play."""
    found = []
    own = {
        ResourceType.TOPIC: world.topic,
        ResourceType.GROUP: world.group,
        ResourceType.TRANSACTIONAL_ID: world.transactional_id,
        ResourceType.CLUSTER: CLUSTER_NAME,
    }[kind]
    for clause in case.split(", "):
        words = _CLAUSE.match(clause.strip())
        if words is None or words[2] not in Operation.__members__:
            if _SHOUTED.search(clause):
                raise Unreadable(f"{clause.strip()!r} is no ACL, as: deny READ on host 10.0.0.1")
            continue
        permission = Permission.DENY if words[1] == "deny" else Permission.ALLOW
        name, pattern, host, principal = own, PatternType.LITERAL, "*", world.user
        rest, quoted = words[3], _QUOTED.search(words[3])
        if "for principal" in rest and quoted:
            principal = quoted[1].replace("<user>", world.user.partition(":")[2])
        elif "for User:*" in rest:
            principal = "User:*"
        elif "host" in rest:
            host = quoted[1] if quoted else rest.rpartition(" ")[2]
        elif "prefixed" in rest:
            pattern = PatternType.PREFIXED
            name = quoted[1] if quoted else own if "full name" in rest else own[:-1]
        elif "wildcard" in rest:
            name = "*"
        elif "another topic" in rest:
            name = f"{own}-another"
        found.append(Acl(kind, name, pattern, principal, host, Operation[words[2]], permission))
    return found


# --- one function for an area -------------------------------------------------------------------------------


def _topic(case: str, stage: Stage, result: Any) -> Any:
    acls, _, asked = case.partition(": ")
    stage.grant(acls_of(acls, stage.world))
    if asked.startswith("TopicAuthorizedOperations"):
        return operations(stage.wire, stage.world)
    if asked.startswith("DescribeConfigs"):
        wanted = item("describe_configs", "DescribeConfigsResource", resource_type=2)
        wanted.resource_name, wanted.configuration_keys = stage.world.topic, None
        return outcome(stage.wire.ask(make("DescribeConfigs", resources=[wanted]), 4).results[0].error_code)
    raise Unreadable(f"what {asked!r} asks is not known")


def _group(case: str, stage: Stage, result: Any) -> Any:
    acls, _, asked = case.partition(": ")
    stage.world.commit_offset()
    stage.grant(acls_of(acls, stage.world, kind=ResourceType.GROUP))
    if asked.startswith("ListGroups"):
        return _lists_the_group(stage)
    request = make("DescribeGroups", groups=[stage.world.group], include_authorized_operations=True)
    (group,) = stage.wire.ask(request, 6).groups
    return shown(group.error_code) if group.error_code else _names(group.authorized_operations, "GROUP")


def _lists_the_group(stage: Stage) -> bool:
    listed = stage.wire.ask(make("ListGroups"), 5).groups
    return stage.world.group in [group.group_id for group in listed]


def _cluster(case: str, stage: Stage, result: Any) -> Any:
    acls, _, asked = case.partition(": ")
    stage.grant(acls_of(acls, stage.world, kind=ResourceType.CLUSTER))
    if asked.startswith("DescribeCluster"):
        request = make("DescribeCluster", include_cluster_authorized_operations=True, endpoint_type=1)
        return _names(stage.wire.ask(request, 2).cluster_authorized_operations, "CLUSTER")
    if asked.startswith("Metadata"):
        request = make("Metadata", topics=[], include_cluster_authorized_operations=True)
        return _names(stage.wire.ask(request, 10).cluster_authorized_operations, "CLUSTER")
    if not isinstance(result, dict):
        raise Unreadable(f"what {asked!r} asks is not known")
    stage.world.commit_offset()
    every = {"resource_name_filter": None, "principal_filter": None, "host_filter": None}
    kinds = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}
    calls: dict[str, Callable[[], Any]] = {
        "ListGroups": lambda: _lists_the_group(stage),
        "DescribeAcls": lambda: shown(stage.wire.ask(make("DescribeAcls", **every, **kinds), 3).error_code),
        "DescribeClientQuotas": lambda: shown(stage.wire.ask(make("DescribeClientQuotas"), 1).error_code),
    }
    return _called(calls, result)


def _transactional_id(case: str, stage: Stage, result: Any) -> Any:
    world, wire = stage.world, stage.wire
    world.begin_transaction()
    stage.grant(acls_of(case, world, kind=ResourceType.TRANSACTIONAL_ID))
    name = world.transactional_id

    def state() -> str:
        (found,) = wire.ask(make("DescribeTransactions", transactional_ids=[name]), 0).transaction_states
        return shown(found.error_code)

    def listed() -> bool:
        states = wire.ask(make("ListTransactions", duration_filter=-1), 1).transaction_states
        return name in [each.transactional_id for each in states]

    def coordinator() -> str:
        request = make("FindCoordinator", coordinator_keys=[name], key_type=1)
        return shown(wire.ask(request, 4).coordinators[0].error_code)

    def producer() -> str:
        request = make("InitProducerId", transactional_id=name, transaction_timeout_ms=60000)
        request.producer_id = request.producer_epoch = -1
        for _ in range(50):
            code = wire.ask(request, 5).error_code
            if code != ErrorCode.CONCURRENT_TRANSACTIONS:
                break
        return shown(code)

    calls = {
        "DescribeTransactions": state,
        "ListTransactions names it": listed,
        "FindCoordinator": coordinator,
        "InitProducerId": producer,
    }
    return _called(calls, result)


def _called(calls: dict[str, Callable[[], Any]], result: dict[str, Any]) -> dict[str, Any]:
    """What a result names, asked in the order of the calls."""
    unknown = result.keys() - calls.keys()
    if unknown:
        raise Unreadable(f"what {', '.join(unknown)} asks is not known")
    return {name: call() for name, call in calls.items() if name in result}


def _deny(case: str, stage: Stage, result: Any) -> Any:
    stage.grant(acls_of(case, stage.world))
    found = {"authorized operations": operations(stage.wire, stage.world)}
    return found | {"Fetch": fetched(stage.wire, stage.world.topic)}


def _host(case: str, stage: Stage, result: Any) -> Any:
    stage.grant(acls_of(case, stage.world))
    if not isinstance(result, dict):
        return fetched(stage.wire, stage.world.topic)
    found = {}
    for words in result:
        with stage.connect(None, words.removeprefix("from ")) as wire:
            found[words] = fetched(wire, stage.world.topic)
    return found


def _principal(case: str, stage: Stage, result: Any) -> Any:
    stage.grant(acls_of(case, stage.world))
    if not isinstance(result, dict):
        return fetched(stage.wire, stage.world.topic)
    found: dict[str, Any] = {}
    for words in result:
        if words == "ops":
            found[words] = operations(stage.wire, stage.world)
        else:
            with stage.connect(stage.another if words == "another user" else None, None) as wire:
                found[words] = fetched(wire, stage.world.topic)
    return found


def _super_user(case: str, stage: Stage, result: Any) -> Any:
    acls = acls_of(f"deny {case.partition(' deny ')[2]}", stage.world)
    stage.grant(acls)
    name = case.partition(" ")[0].removeprefix("User:")
    with stage.connect(name, None) as wire:
        return fetched(wire, stage.world.topic)


def _idempotent(case: str, stage: Stage, result: Any) -> Any:
    found = []
    for clause in case.partition(": ")[2].split(", "):
        permission = Permission.DENY if clause.startswith("deny ") else Permission.ALLOW
        operation, _, where = clause.removeprefix("deny ").partition(" on ")
        if operation not in Operation.__members__:
            continue
        kind, name, pattern = ResourceType.TOPIC, f"az-{where.rpartition(' ')[2]}", PatternType.LITERAL
        if where == "cluster":
            kind, name = ResourceType.CLUSTER, CLUSTER_NAME
        elif where == "*":
            name = "*"
        elif "prefix" in where:
            pattern = PatternType.PREFIXED
        found.append(Acl(kind, name, pattern, stage.world.user, "*", Operation[operation], permission))
    stage.grant(found)
    request = make("InitProducerId", transactional_id=None, producer_id=-1, producer_epoch=-1)
    return shown(stage.wire.ask(request, 5).error_code)


def _auto_creation(case: str, stage: Stage, result: Any) -> Any:
    """``DESCRIBE on the topic + CREATE on the cluster``; a place is that of all operations before it."""
    topic, waiting = f"auto-{stage.world.missing}", []
    acls = []
    for clause in case.split(" + "):
        operation, _, where = clause.partition(" on ")
        if operation not in Operation.__members__:
            continue
        waiting.append(Operation[operation])
        if not where:
            continue
        kind, name, pattern = ResourceType.TOPIC, topic, PatternType.LITERAL
        if where.startswith("the cluster"):
            kind, name = ResourceType.CLUSTER, CLUSTER_NAME
        elif where.startswith("prefix "):
            name, pattern = where.removeprefix("prefix "), PatternType.PREFIXED
        acls += [Acl(kind, name, pattern, stage.world.user, "*", each, Permission.ALLOW) for each in waiting]
        waiting = []
    stage.grant(acls)
    wanted = item("metadata", "MetadataRequestTopic", name=topic)
    request = make("Metadata", topics=[wanted], allow_auto_topic_creation=True)
    answer = shown(stage.wire.ask(request, 12).topics[0].error_code)
    request.allow_auto_topic_creation = False
    exists = not stage.world.admin.ask(request, 12).topics[0].error_code
    later = shown(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if exists and answer == shown(ErrorCode.NONE) and result["answer"] == later:
        answer = later  # Kafka has the client ask again; here the answer waits for the topic
    return {"answer": answer, "topic exists afterwards": exists}


def _effect(case: str, stage: Stage, result: Any) -> Any:
    """The milliseconds of a result are those of another machine; what counts is that nothing was refused."""
    denied = shown(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert fetched(stage.wire, stage.world.topic) == denied
    stage.grant(acls_of("allow READ", stage.world))
    refused = int(fetched(stage.wire, stage.world.topic) == denied)
    return dict(result) | {"denied answers in between": refused}


_AREAS: dict[str, Callable[[str, Stage, Any], Any]] = {
    "implied operations (topic)": _topic,
    "implied operations (group)": _group,
    "implied operations (cluster)": _cluster,
    "implied operations (transactional": _transactional_id,
    "deny": _deny,
    "host": _host,
    "principal": _principal,
    "super user": _super_user,
    "idempotent producer": _idempotent,
    "auto topic creation": _auto_creation,
    "effect": _effect,
}


# --- what clients see ---------------------------------------------------------------------------------------


def operations(wire: Wire, world: World, topic: str | None = None) -> Any:
    wanted = item("metadata", "MetadataRequestTopic", name=topic or world.topic)
    request = make("Metadata", topics=[wanted], include_topic_authorized_operations=True)
    (found,) = wire.ask(request, 12).topics
    return shown(found.error_code) if found.error_code else _names(found.topic_authorized_operations, "TOPIC")


def _names(bits: int, kind: str) -> list[str]:
    return [each.name for each in OPERATIONS[ResourceType[kind]] if bits != _NOT_SET and bits & 1 << each]


def fetched(wire: Wire, topic: str) -> str:
    wanted = item("fetch", "FetchPartition", partition=0, partition_max_bytes=1000)
    named = item("fetch", "FetchTopic", topic=topic, partitions=[wanted])
    answer = wire.ask(make("Fetch", topics=[named]), 12)
    return outcome(answer.responses[0].partitions[0].error_code)


def outcome(code: int) -> str:
    return "ok" if not code else shown(code)


def shown(code: int) -> str:
    return f"{ErrorCode(code).name} ({int(code)})"
