"""Requests that only the controller can answer, from a broker that is not the controller (Kafka's Envelope).

A request travels with its own header, its sender's principal and address, and is handled by the controller
as if it had come there: the same route, the same checks. Its answer comes back in the same envelope.

Invariant: a request is forwarded once; a controller that has lost its role says NOT_CONTROLLER, and the
broker that got the request tries the next one. When the answer goes out to the client, this broker knows of
the change itself. All attempts of one request have one id: the controller takes what an attempt whose answer
was lost has made for what was asked, and not for somebody else's.
"""

import asyncio
import ipaddress
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from moldau.base.names import Uuid
from moldau.protocol import codec
from moldau.protocol.api_keys import ApiKey
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.framing import skip_header_tags, write_request_header
from moldau.protocol.messages import load
from moldau.protocol.messages.envelope import EnvelopeRequest
from moldau.protocol.principal_data import DefaultPrincipalData, encode_principal
from moldau.protocol.schema import declaration
from moldau.security.principals import BROKER, Identity, Principal

if TYPE_CHECKING:
    from moldau.broker.connection import Connection
    from moldau.broker.context import RequestContext
    from moldau.broker.dispatch import Dispatch
    from moldau.cluster.metadata import Metadata
    from moldau.replication.links.controller_channel import ControllerChannel


class Forwarding:
    """What this broker sends on to the controller."""

    def __init__(
        self, channel: "ControllerChannel", metadata: "Metadata", new_uuid: Callable[[], Uuid]
    ) -> None:
        self._channel = channel
        self._metadata = metadata
        self._new_uuid = new_uuid

    async def forward(self, request: Any, context: "RequestContext") -> Any:
        """The controller's answer to a client's request; REQUEST_TIMED_OUT when no controller is reached."""
        connection = context.connection
        return await self._send(
            request,
            context.api_version,
            context.client_id,
            connection.identity,
            connection.host,
        )

    async def ask(self, request: Any, *, timeout_ms: int | None = None) -> Any:
        """The controller's answer to a request that this broker makes itself, for a client that needs it."""
        version = declaration(type(request)).versions.last
        return await self._send(request, version, None, Identity(BROKER), "127.0.0.1", timeout_ms)

    async def _send(
        self,
        request: Any,
        version: int,
        client_id: str | None,
        identity: Identity,
        host: str,
        timeout_ms: int | None = None,
    ) -> Any:
        api_key = declaration(type(request)).api_key
        assert api_key is not None
        frame = bytearray()
        flexible = version in declaration(type(request)).flexible
        write_request_header(frame, api_key, version, 0, client_id, flexible)
        frame += codec.encode(request, version)
        envelope = EnvelopeRequest(
            bytes(frame), encode_principal(_principal_data(identity)), _packed_address(host), self._new_uuid()
        )
        answer = await self._channel.send(envelope, timeout_ms=timeout_ms)
        if answer.error_code or answer.response_data is None:
            raise KafkaError(ErrorCode(answer.error_code or ErrorCode.UNKNOWN_SERVER_ERROR))
        await self._metadata.refresh()
        response = load(api_key)[1]
        content = memoryview(answer.response_data)
        position = skip_header_tags(content, 4) if version in declaration(response).flexible else 4
        return codec.decode(response, version, content[position:])


class ForwardedConnection:
    """Stands for the client of another broker while its request is handled; it has one answer."""

    def __init__(
        self, host: str, principal: DefaultPrincipalData, listener_name: str, attempt_id: bytes = b""
    ) -> None:
        self.host = host
        self.attempt_id = attempt_id
        self.peer = f"{host} through another broker"
        self.identity = Identity(
            Principal(principal.name, principal.type), by_delegation_token=principal.token_authenticated
        )
        self.principal = str(self.identity.principal)
        self.listener_name = listener_name
        self.client_id_bytes = b""
        self.client_id = ""
        self.closing = False
        self.software = ("unknown", "unknown")
        self.read_at = 0.0
        self.answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def reserve(self, *, alone: bool = False) -> "ForwardedReply":
        return ForwardedReply(self)

    def send(self, parts: list[Any]) -> None:
        if not self.answer.done():
            # Without the length in front: the envelope has its own.
            self.answer.set_result(b"".join(bytes(part) for part in parts)[4:])

    def close(self, reason: str) -> None:
        if not self.answer.done():
            self.answer.set_exception(KafkaError(ErrorCode.INVALID_REQUEST, reason))


class ForwardedReply:
    def __init__(self, connection: ForwardedConnection) -> None:
        self._connection = connection
        self.parked: Any = None
        self.began_at = self.handled_at = 0.0

    def fill(self, parts: list[Any]) -> None:
        self._connection.send(parts)

    def wait_with_others(self) -> None:
        """There is no other request on such a connection."""


#: Handles the request of an envelope: its bytes, whose it is, and from where; the bytes of the answer.
Unwrap = Callable[[bytes, DefaultPrincipalData, str, str, bytes], "asyncio.Future[bytes]"]


def unwrap_with(dispatch: "Dispatch") -> Unwrap:
    def unwrap(
        content: bytes, principal: DefaultPrincipalData, host: str, listener_name: str, attempt_id: bytes
    ) -> "asyncio.Future[bytes]":
        connection: Any = ForwardedConnection(host, principal, listener_name, attempt_id)
        standing_in: Connection = connection
        dispatch.frame(memoryview(content), standing_in)
        future: asyncio.Future[bytes] = connection.answer
        return future

    return unwrap


def attempt_id(context: "RequestContext") -> bytes:
    """What all attempts to forward this request have in common; nothing if it was not forwarded."""
    connection: Any = context.connection
    return connection.attempt_id if isinstance(connection, ForwardedConnection) else b""


def api_key_of_frame(content: bytes) -> int:
    return int.from_bytes(content[:2], "big", signed=True)


#: What may be in an envelope, and what a broker that is not the controller sends on.
FORWARDED = frozenset(
    {
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.ELECT_LEADERS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.UPDATE_FEATURES,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.RAISE_LEADER_EPOCHS,
        ApiKey.FORK_TOPIC,
        ApiKey.BEGIN_RESTORE,
        ApiKey.RESTORE_BATCHES,
        ApiKey.END_RESTORE,
    }
)
#: These are looked at here first: loggers are this broker's own, and so are its settings.
FORWARDED_IN_PARTS = frozenset({ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS})


def _principal_data(identity: Identity) -> DefaultPrincipalData:
    principal = identity.principal
    return DefaultPrincipalData(principal.type, principal.name, identity.by_delegation_token)


def _packed_address(host: str) -> bytes:
    try:
        return ipaddress.ip_address(host).packed
    except ValueError:
        return bytes(4)
