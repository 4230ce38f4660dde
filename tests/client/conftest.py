"""A broker that answers as a test tells it to, over a real socket and in real frames."""

import asyncio
import inspect
import ssl
import struct
from collections.abc import Callable
from typing import Any

import pytest

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.codec import decode, encode
from moldau.protocol.errors import ErrorCode
from moldau.protocol.framing import skip_header_tags
from moldau.protocol.messages import load
from moldau.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from moldau.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from moldau.protocol.schema import declaration
from tests.shared.ports import free_port
from tests.shared.request_headers import read_request_header
from tests.shared.waiting import turns

CLOSE = object()

TOPIC_ID = b"topic-id-16bytes"


class ScriptedBroker:
    """``handlers``: API key -> function of the request (and its version) that returns the answer.

    None leaves the request without an answer, ``CLOSE`` closes the connection, bytes are sent as they are; an
    exception fails the test. Handlers may be coroutines; requests of a connection are answered one by one.
    """

    CLOSE = CLOSE

    def __init__(self, handlers: dict[ApiKey, Callable[..., Any]] | None = None, *, node_id: int = 1) -> None:
        self.handlers: dict[ApiKey, Callable[..., Any]] = {
            ApiKey.METADATA: self._metadata,
            **(handlers or {}),
        }
        self.node_id = node_id
        self.api_versions: dict[int, tuple[int, int]] = {}
        self.requests: list[Any] = []
        self.versions: list[tuple[ApiKey, int]] = []
        self.connections = 0
        #: Topic -> number of partitions, told by the default Metadata handler.
        self.topics: dict[str, int] = {}
        #: Brokers that Metadata names; this one when empty.
        self.cluster: list[ScriptedBroker] = []
        #: (topic, partition) -> node id; this broker unless told.
        self.leaders: dict[tuple[str, int], int] = {}
        self.failures: list[BaseException] = []
        self.raw: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any] | None = None
        self.tls: ssl.SSLContext | None = None

    async def __aenter__(self) -> "ScriptedBroker":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self.tls)
        self.port: int = self._server.sockets[0].getsockname()[1]
        self._writers: set[asyncio.StreamWriter] = set()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.drop_connections()
        await turns()
        if self.failures:
            raise self.failures[0]

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def drop_connections(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    def of(self, request_class: type) -> list[Any]:
        """The requests of one kind that have come."""
        return [request for request in self.requests if isinstance(request, request_class)]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        self.connections += 1
        try:
            if self.raw is not None:
                await self.raw(reader, writer)
                return
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                answer = await self._answer(await reader.readexactly(size))
                if answer is CLOSE:
                    return
                if answer is not None:
                    writer.write(answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        except BaseException as failure:
            self.failures.append(failure)
            raise
        finally:
            self._writers.discard(writer)
            writer.transport.abort()

    async def _answer(self, frame: bytes) -> Any:
        header = read_request_header(memoryview(frame))
        api_key = ApiKey(header.api_key)
        request_class, response_class = load(api_key)
        version = header.api_version
        position = header.position
        if version in declaration(request_class).flexible:
            position = skip_header_tags(frame, position)
        request = decode(request_class, version, frame, position)
        self.requests.append(request)
        self.versions.append((api_key, version))
        handler = self.handlers.get(api_key, self._api_versions if api_key == ApiKey.API_VERSIONS else None)
        assert handler is not None, f"the test has no handler for {api_key.name}"
        takes_version = "version" in inspect.signature(handler).parameters
        answer = handler(request, version) if takes_version else handler(request)
        if inspect.isawaitable(answer):
            answer = await answer
        if answer is None or answer is CLOSE:
            return answer
        return frame_of(answer, response_class, version, header.correlation_id)

    def _api_versions(self, request: Any, version: int) -> Any:
        offered = self.api_versions or {
            int(key): tuple(declaration(load(key)[0]).versions)
            for key in (*self.handlers, ApiKey.API_VERSIONS)
        }
        keys = [ApiVersion(key, *range_) for key, range_ in sorted(offered.items())]
        first, last = offered.get(int(ApiKey.API_VERSIONS), (0, 4))
        if not first <= version <= last:
            return Refused(ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=keys))
        return ApiVersionsResponse(api_keys=keys)

    def _metadata(self, request: Any) -> Any:
        names = list(self.topics) if request.topics is None else [t.name for t in request.topics]
        brokers = self.cluster or [self]
        return MetadataResponse(
            brokers=[MetadataResponseBroker(b.node_id, "127.0.0.1", b.port, None) for b in brokers],
            cluster_id="scripted",
            controller_id=self.node_id,
            topics=[self._topic(name) for name in names],
        )

    def _topic(self, name: str) -> Any:
        if name not in self.topics:
            return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name=name)
        return MetadataResponseTopic(
            name=name,
            topic_id=TOPIC_ID,
            partitions=[
                MetadataResponsePartition(
                    partition_index=index,
                    leader_id=self.leaders.get((name, index), self.node_id),
                    leader_epoch=0,
                    replica_nodes=[self.node_id],
                    isr_nodes=[self.node_id],
                )
                for index in range(self.topics[name])
            ],
        )


class Refused:
    """An answer that is written in version 0 whatever was asked."""

    def __init__(self, message: Any) -> None:
        self.message = message


def frame_of(answer: Any, response_class: type, version: int, correlation_id: int) -> bytes:
    if isinstance(answer, bytes):
        return answer
    if isinstance(answer, Refused):
        answer, version = answer.message, 0
    flexible = version in declaration(response_class).flexible
    tags = b"\0" if flexible and declaration(response_class).api_key != ApiKey.API_VERSIONS else b""
    body = struct.pack(">i", correlation_id) + tags + encode(answer, version)
    return struct.pack(">i", len(body)) + body


@pytest.fixture
def scripted() -> type[ScriptedBroker]:
    return ScriptedBroker


@pytest.fixture
def unused_port() -> int:
    """A port that nothing listened on a moment ago."""
    return free_port()
