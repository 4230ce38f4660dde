"""ACLs of topics, carried from a source to a target.

Invariant: nothing is taken away at the target. As in MirrorMaker 2, a topic that is copied can be read there
by who may read it at the source, and WRITE is not copied; where names and offsets stay (a mirror that may be
promoted), every ACL of topics and groups is.
"""

import logging

from moldau.client.admin.access import Access
from moldau.client.transport.cluster import Cluster
from moldau.mirror.rules.properties import FlowSettings
from moldau.mirror.topics import is_copied
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.security.acls import Acl, Operation, PatternType, ResourceType

log = logging.getLogger("moldau.mirror")


def target_acl(settings: FlowSettings, acl: Acl, *, exact: bool) -> Acl | None:
    """What stands for an ACL of the source at the target; None for one that is not copied."""
    if exact and settings.policy.identity:
        # The groups and topics are the same ones, under the same names.
        return acl if acl.resource_type in (ResourceType.TOPIC, ResourceType.GROUP) else None
    if acl.resource_type != ResourceType.TOPIC or acl.pattern_type != PatternType.LITERAL:
        return None
    if acl.resource_name != "*" and not is_copied(settings, acl.resource_name):
        return None
    if acl.operation == Operation.WRITE:
        return None
    operation = Operation.READ if acl.operation == Operation.ALL else acl.operation
    name = settings.policy.remote_topic(settings.source, acl.resource_name)
    return acl._replace(resource_name=name, operation=operation)


async def sync_acls(settings: FlowSettings, source: Cluster, target: Cluster, *, exact: bool) -> int:
    """Adds what is missing at the target; how many. A cluster without an authorizer has none to give."""
    try:
        found = await Access(source).list_acls()
        there = set(await Access(target).list_acls())
    except KafkaError as error:
        if error.code is ErrorCode.SECURITY_DISABLED:
            return 0
        raise
    wanted = [made for acl in found if (made := target_acl(settings, acl, exact=exact)) is not None]
    missing = [acl for acl in dict.fromkeys(wanted) if acl not in there]
    if missing:
        await Access(target).create_acls(missing)
        log.info("%s: %d ACLs added", settings.name, len(missing))
    return len(missing)
