"""A blocking client with one socket and our codec, which does nothing but what the test says.

Invariant: no retries, no metadata, no sleeping. Whatever the broker does is visible: an answer, a closed
connection, or silence.
"""

import socket
import struct
from contextlib import suppress
from typing import Any

from moldau.protocol import messages
from moldau.protocol.api_keys import ApiKey
from moldau.protocol.codec import decode, encode
from moldau.protocol.framing import write_request_header
from moldau.protocol.schema import declaration

#: What a test waits for at the longest; a broker that needs more has forgotten to answer.
TIMEOUT_SECONDS = 10.0


class Outcome:
    """What may come instead of an answer."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


CLOSED = Outcome("closed")


def frame(message: Any, version: int, correlation_id: int = 1, client_id: str | None = "golden") -> bytes:
    """A request as it is sent, its size in front."""
    of = declaration(type(message))
    assert of.api_key is not None
    out = bytearray(4)
    write_request_header(out, of.api_key, version, correlation_id, client_id, version in of.flexible)
    out += encode(message, version)
    struct.pack_into(">i", out, 0, len(out) - 4)
    return bytes(out)


def raw_frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def header(api_key: int, version: int, correlation_id: int = 1, client_id: bytes | None = b"golden") -> bytes:
    """The part of a request header that all versions share."""
    size = -1 if client_id is None else len(client_id)
    return struct.pack(">hhih", api_key, version, correlation_id, size) + (client_id or b"")


class Wire:
    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self._socket = socket.create_connection((host, port), timeout=TIMEOUT_SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 0

    @property
    def address(self) -> str:
        """Our own end, as the broker's log names it."""
        host, port = self._socket.getsockname()
        return f"{host}:{port}"

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> "Wire":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def write(self, data: bytes) -> None:
        """Raw bytes; a broker that has closed the connection already is met when reading."""
        with suppress(BrokenPipeError, ConnectionResetError):
            self._socket.sendall(data)

    def read_frame(self) -> bytes | Outcome:
        """The next answer without its size, or CLOSED."""
        prefix = self._read(4)
        if prefix is None:
            return CLOSED
        (size,) = struct.unpack(">i", prefix)
        body = self._read(size)
        assert body is not None, "the connection was closed in the middle of an answer"
        return body

    def _read(self, size: int) -> bytes | None:
        data = bytearray()
        while len(data) < size:
            try:
                piece = self._socket.recv(min(size - len(data), 1 << 20))
            except ConnectionResetError:
                return None
            if not piece:
                assert not data, f"the connection was closed after {len(data)} of {size} bytes"
                return None
            data += piece
        return bytes(data)

    def is_silent(self) -> bool:
        """Whether nothing has come so far, neither an answer nor the end."""
        self._socket.setblocking(False)
        try:
            self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except ConnectionResetError:
            return False
        finally:
            self._socket.settimeout(TIMEOUT_SECONDS)
        return False

    def read_to_end(self) -> None:
        """Returns when the broker has closed the connection, wherever in an answer that is."""
        with suppress(ConnectionResetError):
            while self._socket.recv(1 << 20):
                pass

    def send(self, message: Any, version: int) -> int:
        """Sends a request; returns its correlation id."""
        self._correlation_id += 1
        self.write(frame(message, version, self._correlation_id))
        return self._correlation_id

    def receive(self, api_key: ApiKey, version: int, correlation_id: int | None = None) -> Any:
        """The next answer, taken for one of this API and version, or CLOSED."""
        body = self.read_frame()
        if isinstance(body, Outcome):
            return body
        (found,) = struct.unpack_from(">i", body)
        assert correlation_id in (None, found), f"the answer is to request {found}"
        _, response = messages.load(api_key)
        position = 4
        if version in declaration(response).flexible and api_key != ApiKey.API_VERSIONS:
            assert body[4] == 0, "the response header carries tagged fields"
            position = 5
        return decode(response, version, body, position)

    def ask(self, message: Any, version: int) -> Any:
        """Sends a request and waits: the decoded response, or CLOSED."""
        api_key = declaration(type(message)).api_key
        assert api_key is not None
        return self.receive(api_key, version, self.send(message, version))
