"""Asks the authorizer on behalf of requests, and writes down what was refused.

Invariant: every refusal that a client notices is a line in the log ``kafka.authorizer.logger``, in Kafka's
words; questions that only fill a list are not. The set of ACLs is that of the metadata, at every moment.
"""

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from moldau.cluster.image import ClusterImage
from moldau.cluster.records import AclAdded, AclRemoved, Record
from moldau.protocol.api_keys import ApiKey
from moldau.security.acls import OPERATIONS, Operation, ResourceType
from moldau.security.authorizer import Authorizer

if TYPE_CHECKING:
    from moldau.broker.access.auditing import AuditLog
    from moldau.broker.connection import Connection

log = logging.getLogger("kafka.authorizer.logger")

#: Kafka's names for what is one authorizer here; an old configuration goes on working.
AUTHORIZERS = frozenset(
    {
        "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "kafka.security.authorizer.AclAuthorizer",
        "kafka.security.auth.SimpleAclAuthorizer",
    }
)


class Authorization:
    def __init__(self, authorizer: Authorizer, audit: "AuditLog | None" = None) -> None:
        self.authorizer = authorizer
        self._audit = audit

    def may(
        self,
        connection: "Connection",
        api_key: int,
        operation: int,
        resource_type: int,
        name: str,
        *,
        quiet: bool = False,
    ) -> bool:
        principal, host = connection.principal, connection.host
        allowed = self.authorizer.may(principal, host, operation, resource_type, name)
        if not quiet and (not allowed or log.isEnabledFor(logging.DEBUG)):
            self._tell(allowed, principal, host, api_key, operation, resource_type, name)
        return allowed

    def _tell(
        self,
        allowed: bool,
        principal: str,
        host: str,
        api_key: int,
        operation: int,
        resource_type: int,
        name: str,
    ) -> None:
        """A line in the words of kafka-authorizer.log: refusals always, the rest for who turns it on."""
        rule = self.authorizer.decide(principal, host, operation, resource_type, name).rule
        if self._audit is not None and not allowed:
            self._audit.write(
                "denied",
                principal,
                host,
                operation=Operation(operation).name,
                resource=ResourceType(resource_type).name,
                name=name,
                api=ApiKey(api_key).name,
                rule=str(rule),
            )
        log.log(
            logging.DEBUG if allowed else logging.INFO,
            "Principal = %s is %s operation = %s from host = %s on resource = %s:LITERAL:%s "
            "for request = %s with resourceRefCount = 1 based on rule %s",
            _printable(principal),
            "Allowed" if allowed else "Denied",
            Operation(operation).name,
            host,
            ResourceType(resource_type).title,
            _printable(name),
            "".join(word.capitalize() for word in ApiKey(api_key).name.split("_")),
            rule if isinstance(rule, str) else f"MatchingAcl(acl={_printable(str(rule))})",
        )

    def describes(self, connection: "Connection") -> Callable[[str], bool]:
        """Whether a client may know of topics, for as long as somebody wants to know; no refusal is told."""
        principal, host, may = connection.principal, connection.host, self.authorizer.may
        return lambda topic: may(principal, host, Operation.DESCRIBE, ResourceType.TOPIC, topic)

    def operations(self, connection: "Connection", resource_type: ResourceType, name: str) -> int:
        """What the client may do with a resource, as the bit field that answers carry.

        Of a resource that it may not describe, it is told nothing.
        """
        principal, host, bits = connection.principal, connection.host, 0
        if not self.authorizer.may(principal, host, Operation.DESCRIBE, resource_type, name):
            return bits
        for operation in OPERATIONS[resource_type]:
            if self.authorizer.may(principal, host, operation, resource_type, name):
                bits |= 1 << operation
        return bits

    def apply(self, old: ClusterImage, new: ClusterImage, records: Sequence[Record]) -> None:
        """Follows the metadata; a change counts for the next request, on open connections too."""
        if old.security.acls is new.security.acls:
            return
        if not old.security.acls:
            for acl in new.security.acls:
                self.authorizer.add(acl)
            return
        for record in records:
            if isinstance(record, AclAdded):
                self.authorizer.add(record.acl)
            elif isinstance(record, AclRemoved):
                self.authorizer.remove(record.acl)


def _printable(text: str) -> str:
    """A name that a client chose, on one line and without control characters."""
    return text if text.isprintable() else text.encode("unicode_escape").decode()
