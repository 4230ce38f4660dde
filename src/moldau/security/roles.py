"""Roles: names for sets of rights that several users have, kept among the ACLs and expanded to ACLs of users.

    Role:analyst may read topic orders          a right of the role
    User:ann     may describe user Role:analyst ann has the role
    User:ann     may read topic orders          what follows from both, and what an authorizer looks at

Nothing but ACLs is stored, so that roles work with every cluster that has ACLs, Apache Kafka included. Rights
of a role never count by themselves: no login is of the type ``Role``.

Invariant: everything here is a function of a set of ACLs; it answers what to add and what to take away. A
member has all rights of its roles; a right goes with the last role of the member that has it. An ACL of a
member that is also a right of one of its roles belongs to the role.
"""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from moldau.security.acls import WILDCARD, Acl, Operation, PatternType, Permission, ResourceType

TYPE = "Role"
_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")


@dataclass
class Role:
    """The rights are ACLs of the role itself; members are principals, as ``User:ann``."""

    name: str
    rights: set[Acl] = field(default_factory=set)
    members: set[str] = field(default_factory=set)


class Change(NamedTuple):
    """What a cluster has to do; what is there already, or gone already, is not in it."""

    add: list[Acl]
    remove: list[Acl]


def check_name(name: str) -> str:
    """The name of a role; ValueError for what is none."""
    if _NAME.fullmatch(name) is None:
        raise ValueError(
            f"the name of a role has letters, digits, '.', '_' and '-', at most 100; not {name!r}"
        )
    return name


def roles_of(acls: Iterable[Acl]) -> dict[str, Role]:
    """The roles that are among the ACLs, by name."""
    found: dict[str, Role] = {}
    for acl in acls:
        kind, _, name = acl.principal.partition(":")
        if kind == TYPE:
            found.setdefault(name, Role(name)).rights.add(acl)
        elif acl.resource_type == ResourceType.USER and acl.resource_name.startswith(f"{TYPE}:"):
            name = acl.resource_name.partition(":")[2]
            if acl == membership(name, acl.principal):
                found.setdefault(name, Role(name)).members.add(acl.principal)
    return dict(sorted(found.items()))


def membership(role: str, principal: str) -> Acl:
    """The ACL that says that somebody has a role. It allows nothing that any API asks for."""
    return Acl(
        ResourceType.USER,
        f"{TYPE}:{role}",
        PatternType.LITERAL,
        principal,
        WILDCARD,
        Operation.DESCRIBE,
        Permission.ALLOW,
    )


def grant(acls: Collection[Acl], role: str, rights: Iterable[Acl]) -> Change:
    """Gives rights to a role and to all who have it; the principal of the rights does not matter."""
    own = [right._replace(principal=f"{TYPE}:{role}") for right in rights]
    known = roles_of(acls).get(role, Role(role))
    return _added(acls, [*own, *(_of(right, member) for member in known.members for right in own)])


def revoke(acls: Collection[Acl], role: str, rights: Iterable[Acl]) -> Change:
    """Takes rights away from a role, and from those who do not have them by another one."""
    known = roles_of(acls)
    gone = {right._replace(principal=f"{TYPE}:{role}") for right in rights}
    if role not in known:
        return Change([], [])
    members = known[role].members
    known[role].rights -= gone
    lost = [_of(right, member) for member in members for right in gone]
    kept = _expanded(known.values())
    return _removed(acls, [*gone, *(acl for acl in lost if acl not in kept)])


def join(acls: Collection[Acl], role: str, principal: str) -> Change:
    """Gives a role to somebody."""
    known = roles_of(acls).get(role, Role(role))
    return _added(acls, [membership(role, principal), *(_of(right, principal) for right in known.rights)])


def leave(acls: Collection[Acl], role: str, principal: str) -> Change:
    """Takes a role from somebody, with the rights that no other role gives."""
    known = roles_of(acls)
    if role not in known:
        return Change([], [])
    known[role].members.discard(principal)
    kept = _expanded(known.values())
    lost = [_of(right, principal) for right in known[role].rights]
    return _removed(acls, [membership(role, principal), *(acl for acl in lost if acl not in kept)])


def delete(acls: Collection[Acl], role: str) -> Change:
    """Takes a role from everybody, and its rights from the cluster."""
    known = roles_of(acls)
    if role not in known:
        return Change([], [])
    gone = known.pop(role)
    kept = _expanded(known.values())
    lost = [_of(right, member) for member in gone.members for right in gone.rights]
    memberships = [membership(role, member) for member in gone.members]
    return _removed(acls, [*memberships, *gone.rights, *(acl for acl in lost if acl not in kept)])


def mend(acls: Collection[Acl]) -> Change:
    """What members should have and do not, after somebody took ACLs away or a command was cut off."""
    return _added(acls, sorted(_expanded(roles_of(acls).values())))


def _of(right: Acl, principal: str) -> Acl:
    return right._replace(principal=principal)


def _expanded(roles: Iterable[Role]) -> set[Acl]:
    return {_of(right, member) for role in roles for member in role.members for right in role.rights}


def _added(acls: Collection[Acl], wanted: Iterable[Acl]) -> Change:
    present = set(acls)
    return Change([acl for acl in dict.fromkeys(wanted) if acl not in present], [])


def _removed(acls: Collection[Acl], unwanted: Iterable[Acl]) -> Change:
    present = set(acls)
    return Change([], [acl for acl in dict.fromkeys(unwanted) if acl in present])
