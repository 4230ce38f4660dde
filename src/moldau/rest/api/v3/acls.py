"""v3: ACLs, found, created and deleted by their seven fields."""

from enum import IntEnum
from typing import Any, TypeVar
from urllib.parse import urlencode

from moldau.client.admin.access import Access
from moldau.rest import problems
from moldau.rest.api.call import RestCall, entries_of
from moldau.rest.api.v3.resources import cluster_of, link
from moldau.security.acls import Acl, AclFilter, Operation, PatternType, Permission, ResourceType
from moldau.web.routes import Answer

_E = TypeVar("_E", bound=IntEnum)

FIELDS = ("resource_type", "resource_name", "pattern_type", "principal", "host", "operation", "permission")


async def search(call: RestCall) -> Any:
    session, _ = await cluster_of(call)
    found = await Access(session.cluster).list_acls(_filter(call))
    given = {name: value for name in FIELDS if (value := call.text(name)) is not None}
    where = link(call, "acls") + (f"?{urlencode(given)}" if given else "")
    return {
        "kind": "KafkaAclList",
        "metadata": {"self": where, "next": None},
        "data": [_shown(call, each) for each in sorted(found)],
    }


async def create(call: RestCall) -> Any:
    session, _ = await cluster_of(call)
    acl = _acl(await call.body())
    await Access(session.cluster).create_acls([acl])
    return Answer(status=201, headers=(("Location", _where(call, acl)),))


async def create_batch(call: RestCall) -> Any:
    session, _ = await cluster_of(call)
    acls = [_acl(each) for each in entries_of(await call.body(), "data")]
    if acls:
        await Access(session.cluster).create_acls(acls)
    return Answer(status=201)


async def delete(call: RestCall) -> Any:
    session, _ = await cluster_of(call)
    for name in ("resource_type", "pattern_type", "operation", "permission"):
        if not call.text(name):
            raise problems.bad_request(f"{name} is missing: what is deleted has to be named")
    gone = await Access(session.cluster).delete_acls([_filter(call)])
    return {"data": [_shown(call, each) for each in sorted(gone)]}


def _filter(call: RestCall) -> AclFilter:
    return AclFilter(
        _choice(ResourceType, "resource_type", call.text("resource_type") or "ANY"),
        call.text("resource_name") or None,
        _choice(PatternType, "pattern_type", call.text("pattern_type") or "ANY"),
        call.text("principal") or None,
        call.text("host") or None,
        _choice(Operation, "operation", call.text("operation") or "ANY"),
        _choice(Permission, "permission", call.text("permission") or "ANY"),
    )


def _acl(body: dict[str, Any]) -> Acl:
    for name in FIELDS:
        if not isinstance(body.get(name), str):
            raise problems.bad_request(f"{name} is missing, or no text")
    return Acl(
        _choice(ResourceType, "resource_type", body["resource_type"]),
        body["resource_name"],
        _choice(PatternType, "pattern_type", body["pattern_type"]),
        body["principal"],
        body["host"],
        _choice(Operation, "operation", body["operation"]),
        _choice(Permission, "permission", body["permission"]),
    )


def _choice(kind: type[_E], name: str, text: str) -> _E:
    try:
        return kind[text.upper()]
    except KeyError:
        names = ", ".join(each.name for each in kind if each)
        raise problems.bad_request(f"{name} is one of {names}, not {text[:50]}") from None


def _where(call: RestCall, acl: Acl) -> str:
    return link(call, "acls") + "?" + urlencode(_fields(acl))


def _fields(acl: Acl) -> dict[str, str]:
    return {
        "resource_type": ResourceType(acl.resource_type).name,
        "resource_name": acl.resource_name,
        "pattern_type": PatternType(acl.pattern_type).name,
        "principal": acl.principal,
        "host": acl.host,
        "operation": Operation(acl.operation).name,
        "permission": Permission(acl.permission).name,
    }


def _shown(call: RestCall, acl: Acl) -> dict[str, Any]:
    return {
        "kind": "KafkaAcl",
        "metadata": {"self": _where(call, acl), "resource_name": None},
        "cluster_id": call.parameters["cluster"],
        **_fields(acl),
    }
