"""What a client may do with a resource, as the bit field that several answers carry, and how it hears a no.

Invariant: without an authorizer everybody may do everything that the type of resource knows.
"""

from moldau.protocol.errors import ErrorCode
from moldau.security.acls import OPERATIONS, ResourceType

#: The value where the client did not ask for the field: the smallest number that fits.
NOT_ASKED = -2147483648

EVERY_OPERATION: dict[ResourceType, int] = {
    resource_type: sum(1 << operation for operation in operations)
    for resource_type, operations in OPERATIONS.items()
}

#: What a client is told that may not use a resource of each type.
REFUSALS: dict[ResourceType, tuple[ErrorCode, str]] = {
    ResourceType.TOPIC: (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed."),
    ResourceType.GROUP: (ErrorCode.GROUP_AUTHORIZATION_FAILED, "Group authorization failed."),
    ResourceType.CLUSTER: (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed."),
    ResourceType.TRANSACTIONAL_ID: (
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        "Transactional Id authorization failed.",
    ),
    ResourceType.DELEGATION_TOKEN: (
        ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
        "Delegation Token authorization failed.",
    ),
    ResourceType.USER: (
        ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
        "Delegation Token authorization failed.",
    ),
}
