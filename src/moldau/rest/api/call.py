"""One HTTP request as the proxy's resources see it: whose session, which partition, which records.

Invariant: from text to values. What a client got wrong becomes a ``Problem``, in v2's codes under v2's paths
and in v3's under ``/v3``.
"""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar
from urllib.parse import quote

from moldau.base.names import TopicPartition
from moldau.protocol.errors import KafkaError
from moldau.protocol.primitives import TextTooLong
from moldau.rest import problems
from moldau.rest.consumers.instance import ConsumerInstance
from moldau.rest.login import Login
from moldau.rest.peers import Elsewhere, InstanceName
from moldau.rest.proxy import Proxy
from moldau.rest.sessions import Session
from moldau.web.call import Asked, Call
from moldau.web.forwarding import FORWARDED
from moldau.web.problems import Problem

_T = TypeVar("_T")

#: How the client of a forwarded request reached the proxy that it asked.
FORWARDED_BASE = "X-Forward-Base"
_LARGEST_INT = (1 << 31) - 1
LARGEST_LONG = (1 << 63) - 1
_MAX_ENTRIES = 10_000


class RestCall(Call):
    def __init__(self, proxy: Proxy, asked: Asked) -> None:
        super().__init__(asked)
        self.proxy = proxy
        self._tried: list[str] = []

    @property
    def base(self) -> str:
        """How the client reached us: what links begin with."""
        forwarded = self.header(FORWARDED_BASE) if self.header(FORWARDED) else None
        if forwarded is not None:
            return forwarded
        url = self.request.url
        return f"{url.scheme}://{url.netloc}"

    def forwarded_headers(self) -> dict[str, str]:
        headers = {FORWARDED_BASE: self.base}
        if isinstance(self.principal, Login):
            headers["authorization"] = self.principal.authorization()
        return headers

    def link(self, *parts: object) -> str:
        return "/".join((self.base, *(quote(str(part), safe="*:-._~") for part in parts)))

    async def session(self) -> Session:
        """The session of whoever asks."""
        if isinstance(self.principal, Login):
            client = self.request.client
            address = "" if client is None else client.host
            return await self.proxy.sessions.of(self.principal.security, address)
        return self.proxy.own_session

    # The path.

    def topic(self) -> str:
        return self.parameters["topic"]

    def path_number(self, name: str, missing: Callable[[], Problem]) -> int:
        """A number of the path; what is none names nothing that exists."""
        text = self.parameters[name]
        if not text.isascii() or not text.isdecimal() or len(text) > 10 or int(text) > _LARGEST_INT:
            raise missing()
        return int(text)

    # Consumer instances.

    def instance_name(self) -> InstanceName:
        return InstanceName(self.parameters["group"], self.parameters["instance"])

    async def instance(self) -> ConsumerInstance:
        """The instance that the path names; ``Elsewhere`` where another proxy may have it."""
        name = self.instance_name()
        session = await self.session()
        if self.proxy.consumers.has(name):
            return self.proxy.consumers.get(name, session)
        raise self.elsewhere(name)

    def elsewhere(self, name: InstanceName) -> Exception:
        """The next proxy to ask for an instance, or that there is none."""
        for url in self.proxy.peers.candidates(name):
            if self.may_try(url):
                self.proxy.peers.remember(name, url)
                return Elsewhere(url)
        self.proxy.peers.forget(name)
        return problems.consumer_instance_not_found()

    def may_try(self, url: str) -> bool:
        """Whether the request may go to another proxy: once to each, and not when it comes from one."""
        if self.header(FORWARDED) or url in self._tried:
            return False
        self._tried.append(url)
        return True

    # The body.

    async def optional_body(self) -> dict[str, Any]:
        """A JSON object, or nothing, which is an empty one."""
        if not (await self.raw_body()).strip():
            return {}
        return await self.body()

    async def entries(self, name: str) -> list[dict[str, Any]]:
        """A list of objects under a name."""
        return entries_of(await self.body(), name)

    async def partitions(self, name: str = "partitions") -> list[TopicPartition]:
        return [partition_of(each) for each in await self.entries(name)]


def entries_of(body: dict[str, Any], name: str) -> list[dict[str, Any]]:
    found = body.get(name)
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise problems.unprocessable(f"{name} is a list of objects")
    if len(found) > _MAX_ENTRIES:
        raise problems.unprocessable(f"{name} has more than {_MAX_ENTRIES} entries")
    return found


def partition_of(entry: dict[str, Any]) -> TopicPartition:
    topic = entry.get("topic")
    if not isinstance(topic, str) or not topic:
        raise problems.unprocessable("topic is the name of a topic")
    return TopicPartition(topic, number_of(entry, "partition", _LARGEST_INT))


def number_of(entry: dict[str, Any], name: str, most: int = LARGEST_LONG) -> int:
    found = entry.get(name)
    if not isinstance(found, int) or isinstance(found, bool) or not 0 <= found <= most:
        raise problems.unprocessable(f"{name} is a number from 0 to {most}")
    return found


def answered(
    handler: Callable[[RestCall], Awaitable[_T]], *, v2: bool
) -> Callable[[RestCall], Awaitable[_T]]:
    """A handler whose errors of the cluster are answered in the codes of its version."""

    async def answer(call: RestCall) -> _T:
        try:
            return await handler(call)
        except KafkaError as error:
            raise problems.from_kafka(error, v2=v2) from None
        except (UnicodeEncodeError, TextTooLong) as error:
            half = "a text has half a surrogate pair, which UTF-8 cannot write"
            refused = problems.unprocessable if v2 else problems.bad_request
            raise refused(error if isinstance(error, TextTooLong) else half) from None

    return answer
