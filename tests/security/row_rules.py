"""Rules of an authorization table: ACLs in words, and what a client may do with them.

    {"area": "deny", "case": "allow ALL, deny READ", "result": {"Fetch": "…", "authorized operations": […]}}

Invariant: ACLs are read from the words of the case. An area that cannot be played over the wire by one client
is not a rule of this file (``playable``).
"""

import re
from collections.abc import Callable
from typing import Any

from row_forms import Unreadable, World, item, make
from secure_wire import Wire

from moldau.protocol.errors import ErrorCode
from moldau.security.acls import OPERATIONS, Acl, Operation, PatternType, Permission, ResourceType

_AREAS = ("implied operations (topic)", "deny", "idempotent producer")
_CLAUSE = re.compile(r"(?:(allow|deny) )?(?:only )?([A-Z_]+)\b(.*)")
_QUOTED = re.compile(r'"([^"]*)"')


def playable(rule: dict[str, Any]) -> bool:
    return rule.get("area", "").lower() in _AREAS


def acls_of(case: str, world: World, *, kind: ResourceType = ResourceType.TOPIC) -> list[Acl]:
    """``allow READ literal, deny READ on host 10.0.0.1`` as ACLs on the topic of the play."""
    found = []
    for clause in case.split(", "):
        words = _CLAUSE.match(clause.strip())
        if words is None or words[2] not in Operation.__members__:
            continue
        permission = Permission.DENY if words[1] == "deny" else Permission.ALLOW
        name, pattern, host = world.topic, PatternType.LITERAL, "*"
        rest = words[3]
        if "prefixed" in rest:
            pattern = PatternType.PREFIXED
            quoted = _QUOTED.search(rest)
            name = quoted[1] if quoted else world.topic if "full name" in rest else world.topic[:-1]
        elif "wildcard" in rest:
            name = "*"
        elif "another topic" in rest:
            name = f"{world.topic}-another"
        if "host" in rest:
            host = rest.rpartition(" ")[2]
        found.append(Acl(kind, name, pattern, world.user, host, Operation[words[2]], permission))
    return found


def play(rule: dict[str, Any], world: World, wire: Wire, grant: Callable[[list[Acl]], None]) -> Any:
    """What happens; to be compared with the rule's result."""
    area, case = rule["area"].lower(), rule["case"]
    if area == "idempotent producer":
        grant(_idempotent(case.partition(": ")[2], world))
        request = make("InitProducerId", transactional_id=None, producer_id=-1, producer_epoch=-1)
        return _shown(wire.ask(request, 5).error_code)
    acls, _, asked = case.partition(": ")
    grant(acls_of(acls, world))
    if area == "deny":
        return {"authorized operations": _operations(wire, world), "Fetch": _fetch(wire, world)}
    if asked.startswith("TopicAuthorizedOperations"):
        return _operations(wire, world)
    if asked.startswith("DescribeConfigs"):
        wanted = item("describe_configs", "DescribeConfigsResource", resource_type=2)
        wanted.resource_name, wanted.configuration_keys = world.topic, None
        code = wire.ask(make("DescribeConfigs", resources=[wanted]), 4).results[0].error_code
        return "ok" if not code else _shown(code)
    raise Unreadable(f"what {asked!r} asks is not known")


def _idempotent(words: str, world: World) -> list[Acl]:
    """``WRITE on topic a, deny WRITE on prefix a``; the names are those of the words."""
    found = []
    for clause in words.split(", "):
        permission = Permission.DENY if clause.startswith("deny ") else Permission.ALLOW
        operation, _, where = clause.removeprefix("deny ").partition(" on ")
        if operation not in Operation.__members__:
            continue
        kind, name, pattern = ResourceType.TOPIC, f"az-{where.rpartition(' ')[2]}", PatternType.LITERAL
        if where == "cluster":
            kind, name = ResourceType.CLUSTER, "kafka-cluster"
        elif where == "*":
            name = "*"
        elif "prefix" in where:
            pattern = PatternType.PREFIXED
        found.append(Acl(kind, name, pattern, world.user, "*", Operation[operation], permission))
    return found


def _operations(wire: Wire, world: World) -> Any:
    wanted = item("metadata", "MetadataRequestTopic", name=world.topic)
    request = make("Metadata", topics=[wanted], include_topic_authorized_operations=True)
    (topic,) = wire.ask(request, 12).topics
    if topic.error_code:
        return _shown(topic.error_code)
    bits = topic.topic_authorized_operations
    return [each.name for each in OPERATIONS[ResourceType.TOPIC] if bits & 1 << each]


def _fetch(wire: Wire, world: World) -> str:
    wanted = item("fetch", "FetchPartition", partition=0, partition_max_bytes=1000)
    named = item("fetch", "FetchTopic", topic=world.topic, partitions=[wanted])
    answer = wire.ask(make("Fetch", topics=[named]), 12)
    code = answer.responses[0].partitions[0].error_code
    return "ok" if not code else _shown(code)


def _shown(code: int) -> str:
    return f"{ErrorCode(code).name} ({int(code)})"
