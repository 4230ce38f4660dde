"""Who may do what: ACLs, super users and a default, as one question with a yes or a no.

Invariant: a deny that fits wins over every allow; without a fitting ACL the answer is no, unless the resource
has no ACL at all and ``allow.everyone.if.no.acl.found`` is set. Super users may do everything. The order of
ACLs does not matter. Answers are remembered until an ACL changes; what is remembered is bounded.
"""

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import ip_address
from typing import NamedTuple

from moldau.security.acls import EVERYBODY, WILDCARD, Acl, Operation, PatternType, Permission, ResourceType

#: Whoever may do one of these may also do the first.
_IMPLIED_BY = {
    Operation.DESCRIBE: frozenset(
        {Operation.DESCRIBE, Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
    ),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS}),
}
#: Beyond so many remembered answers all are forgotten: a client that asks for a million names stays cheap.
_REMEMBERED_MOST = 100_000


class Decision(NamedTuple):
    """A yes or a no, and what decided it: an ACL, or the name of a rule."""

    allowed: bool
    rule: Acl | str


class Authorizer:
    def __init__(
        self,
        acls: Iterable[Acl] = (),
        super_users: frozenset[str] = frozenset(),
        allow_if_no_acl: bool = False,
    ) -> None:
        self.super_users = super_users
        self.allow_if_no_acl = allow_if_no_acl
        self._literal: dict[tuple[int, str], set[Acl]] = {}
        self._prefixed: dict[tuple[int, str], set[Acl]] = {}
        #: How many prefixes of each length there are for a type of resource.
        self._lengths: dict[int, dict[int, int]] = {}
        self._remembered: dict[tuple[str, str, int, int, str], bool] = {}
        for acl in acls:
            self.add(acl)

    # --- the set of ACLs -------------------------------------------------------------------------------

    def add(self, acl: Acl) -> None:
        key = (acl.resource_type, acl.resource_name)
        if acl.pattern_type == PatternType.PREFIXED:
            if key not in self._prefixed:
                lengths = self._lengths.setdefault(acl.resource_type, {})
                lengths[len(acl.resource_name)] = lengths.get(len(acl.resource_name), 0) + 1
            self._prefixed.setdefault(key, set()).add(acl)
        else:
            self._literal.setdefault(key, set()).add(acl)
        self._remembered.clear()

    def remove(self, acl: Acl) -> None:
        key = (acl.resource_type, acl.resource_name)
        prefixed = acl.pattern_type == PatternType.PREFIXED
        index = self._prefixed if prefixed else self._literal
        found = index.get(key)
        if found is None or acl not in found:
            return
        found.discard(acl)
        if not found:
            del index[key]
            if prefixed:
                lengths, length = self._lengths[acl.resource_type], len(acl.resource_name)
                lengths[length] -= 1
                if not lengths[length]:
                    del lengths[length]
        self._remembered.clear()

    # --- questions -------------------------------------------------------------------------------------

    def may(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> bool:
        """Whether the principal may do this to that resource from that host."""
        question = (principal, host, operation, resource_type, name)
        allowed = self._remembered.get(question)
        if allowed is None:
            allowed = self.decide(*question).allowed
            if len(self._remembered) >= _REMEMBERED_MOST:
                self._remembered.clear()
            self._remembered[question] = allowed
        return allowed

    def decide(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> Decision:
        """The same with its reason, and slower."""
        if principal in self.super_users:
            return Decision(True, "SuperUser")
        allow: Acl | None = None
        found = self._of_resource(resource_type, name)
        implied_by = _IMPLIED_BY.get(operation, frozenset((operation,)))  # type: ignore[call-overload]
        for acl in found:
            if acl.principal not in (principal, EVERYBODY) or not _is_from(acl, host):
                continue
            if acl.permission == Permission.DENY:
                if acl.operation in (operation, Operation.ALL):
                    return Decision(False, acl)
            elif acl.operation == Operation.ALL or acl.operation in implied_by:
                allow = acl
        if allow is not None:
            return Decision(True, allow)
        if not found and self.allow_if_no_acl:
            return Decision(True, "DefaultAllow")
        return Decision(False, "DefaultDeny")

    def _of_resource(self, resource_type: int, name: str) -> list[Acl]:
        found = list(self._literal.get((resource_type, name), ()))
        if name != WILDCARD:
            found += self._literal.get((resource_type, WILDCARD), ())
        for length in self._lengths.get(resource_type, ()):
            if length <= len(name):
                found += self._prefixed.get((resource_type, name[:length]), ())
        return found

    def may_any(self, principal: str, host: str, operation: int, resource_type: ResourceType) -> bool:
        """Whether there is some resource of the type with which the principal may do this (KIP-679).

        Kafka's own way, including the question about a topic that is called "hardcode": it finds super
        users and the default.
        """
        if self.may(principal, host, operation, resource_type, "hardcode"):
            return True
        allowed: list[Acl] = []
        denied: set[tuple[int, str]] = set()
        for index in (self._literal, self._prefixed):
            for (kind, _), acls in index.items():
                for acl in acls if kind == resource_type else ():
                    if (
                        acl.principal not in (principal, EVERYBODY)
                        or not _is_from(acl, host)
                        or acl.operation not in (operation, Operation.ALL)
                    ):
                        continue
                    if acl.permission == Permission.ALLOW:
                        allowed.append(acl)
                    elif acl.pattern_type == PatternType.LITERAL and acl.resource_name == WILDCARD:
                        return False
                    else:
                        denied.add((acl.pattern_type, acl.resource_name))
        return any(not _outweighed(acl, denied) for acl in allowed)


def _is_from(acl: Acl, host: str) -> bool:
    """Whether an ACL is about a host; IPv6 is written in two ways: Java's has all of its zeros."""
    return acl.host in (WILDCARD, host) or (":" in acl.host and _short(acl.host) == host)


@lru_cache(maxsize=1024)
def _short(host: str) -> str:
    try:
        return str(ip_address(host))
    except ValueError:
        return host


def _outweighed(allow: Acl, denied: set[tuple[int, str]]) -> bool:
    """Whether a deny covers all that this ACL allows."""
    name = allow.resource_name
    if allow.pattern_type == PatternType.LITERAL:
        if name == WILDCARD:
            return False
        if (PatternType.LITERAL, name) in denied:
            return True
    return any((PatternType.PREFIXED, name[:length]) in denied for length in range(1, len(name) + 1))
