"""Rules of a broker with ``allow.everyone.if.no.acl.found=true``: what has no ACL is open to everybody.

Invariant: a rule leaves no ACL behind, because one about everything would close what the next rule is about.
"""

import re
from collections.abc import Callable
from typing import Any

from moldau.protocol.errors import ErrorCode
from moldau.security.acls import Acl, Operation, PatternType, Permission, ResourceType
from tests.security.row_rules import Stage, fetched, operations, outcome
from tests.security.row_world import Unreadable, item, make

_ACL = re.compile(r"\((allow|deny) ([A-Z_]+) for")


def play(case: str, stage: Stage, result: Any) -> Any:
    """What happens; to be compared with the rule's result."""
    for words, form in _CASES.items():
        if words in case:
            return form(case, stage)
    raise Unreadable(f"the case {case!r} is not known")


def _grant(
    case: str, stage: Stage, name: str, pattern: PatternType = PatternType.LITERAL
) -> Callable[[], None]:
    """An ACL as ``(allow READ for u11)`` for the user of the rule; calling the answer takes it away."""
    read = _ACL.search(case)
    operation = Operation[read[2]] if read else Operation.READ
    denies = (read and read[1] == "deny") or "only a deny" in case
    permission = Permission.DENY if denies else Permission.ALLOW
    acl = Acl(ResourceType.TOPIC, name, pattern, stage.world.user, "*", operation, permission)
    stage.grant([acl])

    def remove() -> None:
        wanted = item("delete_acls", "DeleteAclsFilter", resource_type_filter=acl.resource_type)
        wanted.resource_name_filter, wanted.pattern_type_filter = acl.resource_name, acl.pattern_type
        wanted.principal_filter = wanted.host_filter = None
        wanted.operation = wanted.permission_type = 1
        (answer,) = stage.world.admin.ask(make("DeleteAcls", filters=[wanted]), 3).filter_results
        assert not answer.error_code, answer

    return remove


def _other(stage: Stage, topic: str) -> str:
    with stage.connect(stage.another, None) as wire:
        return fetched(wire, topic)


def _without_acls(case: str, stage: Stage) -> Any:
    wanted = item("create_topics", "CreatableTopic", name=stage.world.missing, num_partitions=1)
    wanted.replication_factor = 1
    (made,) = stage.wire.ask(make("CreateTopics", topics=[wanted], timeout_ms=5000), 7).topics
    return [fetched(stage.wire, stage.world.topic), outcome(made.error_code)]


def _one_acl(case: str, stage: Stage) -> Any:
    topic, free = stage.world.topic, f"free-{stage.world.topic}"
    stage.world.create_topic(free)
    remove = _grant(case, stage, topic)
    found = [fetched(stage.wire, topic), _other(stage, topic), _other(stage, free)]
    remove()
    return found


def _operations(case: str, stage: Stage) -> Any:
    remove = _grant(case, stage, stage.world.topic)
    with stage.connect(stage.another, None) as wire:
        found = operations(wire, stage.world)
    remove()
    return found


def _prefixed(case: str, stage: Stage) -> Any:
    topic, free = stage.world.topic, f"free-{stage.world.topic}"
    stage.world.create_topic(free)
    remove = _grant(case, stage, topic[:-1], PatternType.PREFIXED)
    found = [_other(stage, topic), _other(stage, free)]
    remove()
    return found


def _removed(case: str, stage: Stage) -> Any:
    _grant(case, stage, stage.world.topic)()
    return _other(stage, stage.world.topic)


def _both_users(case: str, stage: Stage) -> Any:
    remove = _grant(case, stage, stage.world.topic)
    found = [fetched(stage.wire, stage.world.topic), _other(stage, stage.world.topic)]
    remove()
    return found


def _wildcard(case: str, stage: Stage) -> Any:
    remove = _grant(case, stage, "*")
    found = [_other(stage, stage.world.topic), fetched(stage.wire, stage.world.topic)]
    remove()
    return found


def _idempotent(case: str, stage: Stage) -> Any:
    """The result says "passed the authorizer", and what a broker that had just started answered then."""
    remove = _grant(case, stage, stage.world.topic)
    with stage.connect(stage.another, None) as wire:
        request = make("InitProducerId", transactional_id=None, producer_id=-1, producer_epoch=-1)
        code = wire.ask(request, 5).error_code
    remove()
    refused = code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return outcome(code) if refused else "passed the authorizer"


_CASES = {
    "no ACL anywhere": _without_acls,
    "topic has one ACL": _one_acl,
    "authorized operations": _operations,
    "prefixed ACL": _prefixed,
    "ACLs removed": _removed,
    "another operation only": _both_users,
    "wildcard ACL": _wildcard,
    "only a deny": _both_users,
    "InitProducerId": _idempotent,
}
