"""ACLs of topics, carried from a source to a target.

Invariant: nothing is taken away at the target. As in MirrorMaker 2, a topic that is copied can be read there
by who may read it at the source, and WRITE is not copied; where names and offsets stay (a mirror that may be
promoted), every ACL of topics and groups is, but for those that name a topic that the target has for itself,
or a group that the flow leaves out: a right to one thing would become a right to another.
"""

import logging
from collections.abc import Collection

from moldau.client.admin.access import Access
from moldau.client.transport.cluster import Cluster
from moldau.mirror.rules.properties import FlowSettings
from moldau.mirror.topics import is_copied
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.security.acls import Acl, Operation, PatternType, ResourceType

log = logging.getLogger("moldau.mirror")


def target_acl(
    settings: FlowSettings, acl: Acl, *, exact: bool, at_target: Collection[str] = ()
) -> Acl | None:
    """What stands for an ACL of the source at the target; None for one that is not copied.

    ``at_target`` are the topics that are there.
    """
    if exact and settings.policy.identity:
        # The groups and topics are the same ones, under the same names.
        return acl if _is_of_the_same(settings, acl, at_target) else None
    if acl.resource_type != ResourceType.TOPIC or acl.pattern_type != PatternType.LITERAL:
        return None
    if acl.resource_name != "*" and not is_copied(settings, acl.resource_name):
        return None
    if acl.operation == Operation.WRITE:
        return None
    operation = Operation.READ if acl.operation == Operation.ALL else acl.operation
    name = settings.policy.remote_topic(settings.source, acl.resource_name)
    return acl._replace(resource_name=name, operation=operation)


def _is_of_the_same(settings: FlowSettings, acl: Acl, at_target: Collection[str]) -> bool:
    name = acl.resource_name
    is_one = acl.pattern_type == PatternType.LITERAL and name != "*"
    if acl.resource_type == ResourceType.TOPIC:
        return not is_one or name not in at_target or is_copied(settings, name)
    # Groups whose offsets stay behind by default, such as those of Connect, need their rights all the same.
    return acl.resource_type == ResourceType.GROUP and (
        not is_one or settings.groups.include.fullmatch(name) is not None
    )


async def sync_acls(settings: FlowSettings, source: Cluster, target: Cluster, *, exact: bool) -> int:
    """Adds what is missing at the target; how many. A cluster without an authorizer has none to give."""
    try:
        found = await Access(source).list_acls()
        there = set(await Access(target).list_acls())
        topics = {each.name for each in await target.topics(None)}
    except KafkaError as error:
        if error.code is ErrorCode.SECURITY_DISABLED:
            return 0
        raise
    made = [target_acl(settings, acl, exact=exact, at_target=topics) for acl in found]
    wanted = [acl for acl in made if acl is not None]
    missing = [acl for acl in dict.fromkeys(wanted) if acl not in there]
    if missing:
        await Access(target).create_acls(missing)
        log.info("%s: %d ACLs added", settings.name, len(missing))
    return len(missing)
