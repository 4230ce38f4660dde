"""The proxies of one group: which there are, and which of them has a consumer instance.

Proxies find each other through a Kafka group in which each gives its address. For each name of an instance
the members agree, without asking, on one of them: the one whose address and the name have the highest hash. A
request for an instance that is not here goes there first, and then to the others, because the group may have
changed since the instance was made.

Invariant: nothing is stored. A proxy that dies takes its instances with it; another one says so at once.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from moldau.client.replicated_state.election import Election, Identity
from moldau.client.transport.cluster import Cluster

_PROTOCOL_TYPE = "moldau-rest"
#: How soon a proxy hears of another one.
_HEARTBEAT_MS = 1_000
_MAX_KNOWN = 10_000


@dataclass(frozen=True, slots=True)
class InstanceName:
    group_id: str
    name: str


class Elsewhere(Exception):
    """The request belongs to another proxy."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.url = url


def owner(urls: Iterable[str], instance: InstanceName) -> str:
    """The proxy that instances of this name are made at."""

    def weight(url: str) -> bytes:
        text = "\0".join((url, instance.group_id, instance.name))
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()

    return max(urls, key=lambda url: (weight(url), url))


class Peers:
    """Without a group the proxy is alone."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._election: Election | None = None
        #: Where instances of others were last found.
        self._found: dict[InstanceName, str] = {}

    def join(self, cluster: Cluster, identity: Identity, group_id: str) -> None:
        self._election = Election(
            cluster,
            identity,
            group_id=group_id,
            protocol_type=_PROTOCOL_TYPE,
            service="REST proxy",
            heartbeat_interval_ms=_HEARTBEAT_MS,
            name_members=True,
        )
        self.url = identity.url
        self._election.start()

    async def close(self) -> None:
        if self._election is not None:
            await self._election.close()

    @property
    def urls(self) -> list[str]:
        """All proxies, with this one."""
        others = () if self._election is None else self._election.members
        return sorted({self.url, *(each.url for each in others)})

    def candidates(self, instance: InstanceName) -> list[str]:
        """The others, in the order in which they are to be asked for an instance."""
        urls = [url for url in self.urls if url != self.url]
        if not urls:
            return []
        first = self._found.get(instance) or owner(self.urls, instance)
        return sorted(urls, key=lambda url: (url != first, url))

    def remember(self, instance: InstanceName, url: str) -> None:
        if len(self._found) >= _MAX_KNOWN:
            del self._found[next(iter(self._found))]
        self._found[instance] = url

    def forget(self, instance: InstanceName) -> None:
        self._found.pop(instance, None)
