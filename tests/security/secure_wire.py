"""Requests over a socket as any user: bytes out, bytes in, one version of one API at a time.

Invariant: nothing is hidden: a closed connection and a missing answer are results like any other.
"""

import socket
import struct
from typing import Any

from moldau.protocol import messages
from moldau.protocol.api_keys import ApiKey
from moldau.protocol.codec import decode, encode
from moldau.protocol.framing import write_request_header
from moldau.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from moldau.protocol.messages.sasl_handshake import SaslHandshakeRequest
from moldau.protocol.schema import declaration

#: Longer than any answer takes that comes at all.
_PATIENCE_SECONDS = 10.0


class Closed(Exception):
    """The broker closed the connection without an answer."""


class NoAnswer(Exception):
    """Nothing came in time."""


class Wire:
    """One connection; ``client_id`` goes with every request."""

    def __init__(
        self, address: str, *, client_id: str | None = "probe", seconds: float = 0, source: str | None = None
    ) -> None:
        """``source`` is the address to come from, where it matters."""
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection(
            (host, int(port)), seconds or _PATIENCE_SECONDS, None if source is None else (source, 0)
        )
        self.client_id = client_id

    def __enter__(self) -> "Wire":
        return self

    def __exit__(self, *exc: object) -> None:
        self.socket.close()

    def send(self, request: Any, version: int) -> None:
        self.socket.sendall(framed(request, version, self.client_id))

    def receive(self, request: Any, version: int) -> Any:
        frame = self.receive_frame()
        api_key = declaration(type(request)).api_key
        assert api_key is not None
        _, response = messages.load(api_key)
        tagged = version in declaration(response).flexible and api_key != ApiKey.API_VERSIONS
        return decode(response, version, frame, 5 if tagged else 4)

    def receive_frame(self) -> bytes:
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            try:
                part = self.socket.recv(size - len(data))
            except TimeoutError:
                raise NoAnswer from None
            except OSError:
                raise Closed from None
            if not part:
                raise Closed
            data += part
        return data

    def ask(self, request: Any, version: int | None = None) -> Any:
        """The answer; ``Closed`` or ``NoAnswer`` without one."""
        if version is None:
            version = declaration(type(request)).versions.last
        try:
            self.send(request, version)
        except OSError:
            raise Closed from None
        return self.receive(request, version)

    def log_in(self, user: str, password: str) -> "Wire":
        answer = self.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        assert not answer.error_code, answer
        answer = self.ask(SaslAuthenticateRequest(auth_bytes=f"\0{user}\0{password}".encode()), 2)
        assert not answer.error_code, answer
        return self


def framed(request: Any, version: int, client_id: str | None = "probe") -> bytes:
    declared = declaration(type(request))
    assert declared.api_key is not None
    out = bytearray()
    write_request_header(out, declared.api_key, version, 7, client_id, version in declared.flexible)
    out += encode(request, version)
    return struct.pack(">i", len(out)) + bytes(out)
