"""How v3 writes its resources: kind, metadata with links, and relations to others.

Invariant: every resource says its ``self`` link, and every relation is a link that exists.
"""

from collections.abc import Iterable
from typing import Any

from moldau.rest import problems
from moldau.rest.api.call import RestCall
from moldau.rest.sessions import Session


async def cluster_of(call: RestCall) -> tuple[Session, str]:
    """The session, and the id of the cluster that the path names; 404 for another one."""
    session = await call.session()
    wanted = call.parameters["cluster"]
    known = session.cluster.cluster_id or ""
    if wanted != known:
        raise problems.not_found(f"Cluster {wanted[:100]}")
    return session, known


def link(call: RestCall, *parts: object) -> str:
    """A link below this cluster."""
    return call.link("v3", "clusters", call.parameters["cluster"], *parts)


def related(call: RestCall, *parts: object) -> dict[str, str]:
    return {"related": link(call, *parts)}


def resource(
    call: RestCall, kind: str, path: Iterable[object], rest: str, /, **fields: Any
) -> dict[str, Any]:
    """``path`` is that below the cluster, ``rest`` that of the resource name (``topic=orders``)."""
    cluster = call.parameters["cluster"]
    crn = f"crn:///kafka={cluster}" + (f"/{rest}" if rest else "")
    return {
        "kind": kind,
        "metadata": {"self": link(call, *path), "resource_name": crn},
        "cluster_id": cluster,
        **fields,
    }


def collection(call: RestCall, kind: str, path: Iterable[object], data: list[Any]) -> dict[str, Any]:
    return {"kind": kind, "metadata": {"self": link(call, *path), "next": None}, "data": data}
