"""What an authorizer has to answer, in the fewest lines: every ACL is looked at, nothing is remembered.

Written from Kafka's documentation and a real broker's answers, and not from our authorizer.
"""

from collections.abc import Collection

from moldau.security.acls import Acl, Operation, PatternType, Permission

_IMPLIES = {
    Operation.READ: [Operation.DESCRIBE],
    Operation.WRITE: [Operation.DESCRIBE],
    Operation.DELETE: [Operation.DESCRIBE],
    Operation.ALTER: [Operation.DESCRIBE],
    Operation.ALTER_CONFIGS: [Operation.DESCRIBE_CONFIGS],
}


def covers(acl: Acl, resource_type: int, name: str) -> bool:
    if acl.resource_type != resource_type:
        return False
    if acl.pattern_type == PatternType.PREFIXED:
        return name.startswith(acl.resource_name)
    return acl.resource_name in ("*", name)


def speaks_of(acl: Acl, principal: str, host: str) -> bool:
    return acl.principal in ("User:*", principal) and acl.host in ("*", host)


def may(
    acls: Collection[Acl],
    super_users: Collection[str],
    allow_if_no_acl: bool,
    principal: str,
    host: str,
    operation: int,
    resource_type: int,
    name: str,
) -> bool:
    if principal in super_users:
        return True
    covering = [acl for acl in acls if covers(acl, resource_type, name)]
    if not covering:
        return allow_if_no_acl
    ours = [acl for acl in covering if speaks_of(acl, principal, host)]
    for acl in ours:
        if acl.permission == Permission.DENY and acl.operation in (Operation.ALL, operation):
            return False
    for acl in ours:
        if acl.permission == Permission.ALLOW:
            granted = [Operation.ALL, acl.operation, *_IMPLIES.get(Operation(acl.operation), [])]
            if acl.operation == Operation.ALL or operation in granted[1:]:
                return True
    return False
