"""ACLs as values: what may be done to what, by whom, from where; and filters that find them.

Invariant: an ACL is its seven fields and nothing else; a set of ACLs has each of them once. The numbers are
those of Kafka's protocol.
"""

from enum import IntEnum
from typing import NamedTuple

from moldau.security.principals import parse_principal

#: The one resource of type CLUSTER, and what stands for every name, host and user.
CLUSTER_NAME = "kafka-cluster"
WILDCARD = "*"
EVERYBODY = "User:*"


class Operation(IntEnum):
    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class ResourceType(IntEnum):
    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7

    @property
    def title(self) -> str:
        """As Kafka's logs and tools write it: ``TransactionalId``."""
        return "".join(word.capitalize() for word in self.name.split("_"))


class PatternType(IntEnum):
    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Permission(IntEnum):
    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


_O, _R = Operation, ResourceType
#: The operations that make sense for each type of resource, as tools offer and answers list them.
OPERATIONS: dict[ResourceType, tuple[Operation, ...]] = {
    _R.TOPIC: (
        *(_O.READ, _O.WRITE, _O.CREATE, _O.DELETE, _O.ALTER, _O.DESCRIBE),
        *(_O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS),
    ),
    _R.GROUP: (_O.READ, _O.DELETE, _O.DESCRIBE, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS),
    _R.CLUSTER: (
        *(_O.CREATE, _O.ALTER, _O.DESCRIBE, _O.CLUSTER_ACTION),
        *(_O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS, _O.IDEMPOTENT_WRITE),
    ),
    _R.TRANSACTIONAL_ID: (_O.WRITE, _O.DESCRIBE, _O.TWO_PHASE_COMMIT),
    _R.DELEGATION_TOKEN: (_O.DESCRIBE,),
    _R.USER: (_O.CREATE_TOKENS, _O.DESCRIBE_TOKENS),
}


class Acl(NamedTuple):
    """One rule: this principal may, or may not, do this to these resources from this host."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission: int

    def __str__(self) -> str:
        pattern = (
            f"resourceType={ResourceType(self.resource_type).name}, name={self.resource_name}, "
            f"patternType={PatternType(self.pattern_type).name}"
        )
        return f"Acl({pattern}, {self.entry()})"

    def entry(self) -> str:
        """Who, from where, what: as Kafka's tools print it."""
        return (
            f"(principal={self.principal}, host={self.host}, operation={Operation(self.operation).name}, "
            f"permissionType={Permission(self.permission).name})"
        )


def check(acl: Acl) -> str | None:
    """Why an ACL cannot be created, in Kafka's words; None for one that can.

    The numbers are in range here; any operation goes with any resource, as in Kafka.
    """
    if not acl.resource_name:
        return "Invalid empty resource name"
    if acl.resource_type == ResourceType.CLUSTER and acl.resource_name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if acl.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        return f"Invalid pattern type {PatternType(acl.pattern_type).name}"
    if acl.operation <= Operation.ANY:
        return f"Invalid operation type {Operation(acl.operation).name}"
    if acl.permission not in (Permission.DENY, Permission.ALLOW):
        return f"Invalid permission type {Permission(acl.permission).name}"
    try:
        parse_principal(acl.principal)
    except ValueError as error:
        return str(error)
    return None


class AclFilter(NamedTuple):
    """Finds ACLs; None, or ANY, is no condition."""

    resource_type: int = ResourceType.ANY
    resource_name: str | None = None
    pattern_type: int = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: int = Operation.ANY
    permission: int = Permission.ANY

    def matches(self, acl: Acl) -> bool:
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self._matches_name(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
        )

    def _matches_name(self, acl: Acl) -> bool:
        name = self.resource_name
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, acl.pattern_type):
            return False
        if name is None or name == acl.resource_name:
            return True
        if self.pattern_type != PatternType.MATCH:
            return False
        if acl.pattern_type == PatternType.PREFIXED:
            return name.startswith(acl.resource_name)
        return acl.resource_name == WILDCARD
