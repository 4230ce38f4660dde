"""A connection for a thread that waits, for much data: large answers come into memory that is used again.

    connection = await cluster.blocking_connection(node_id)   # on the loop that made the cluster
    connection.send(FetchRequest(…))                          # in any one thread from then on
    ...                                                       # the answer arrives meanwhile
    answer = connection.receive()                             # of the oldest request without an answer

An event loop is woken for every few packets and hands each of them from thread to thread; reading gigabytes,
that is half of the time. Here the kernel keeps an answer until a good part of it is there,
and one call takes it. Record batches that are ``InPlace`` are sent from their own memory, without a copy.

Invariant: like ``connection`` this file knows frames and nothing of what a request means, and never
retries. The memory of an answer is used again only when no view of it is left. Whatever goes wrong is a
``KafkaError``, and the connection is closed.
"""

import socket
import struct
import sys
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from moldau.base.buffer_pool import BufferPool
from moldau.client.transport.connection import MAX_FRAME_BYTES, ConnectionLost, RequestTimedOut
from moldau.client.transport.requests import agreed_version, answer_reader, api_key_of, request_parts
from moldau.protocol.api_keys import ApiKey
from moldau.protocol.messages import load
from moldau.protocol.primitives import MalformedMessage
from moldau.protocol.schema import Versions

#: So much of an answer is to be there before this thread is woken; less where less is left of it.
_WAKE_BYTES = 1024 * 1024
#: How much may arrive before this thread reads. Above what would wake this thread, Linux acknowledges late,
#: and a peer with a small buffer, as Kafka's brokers have, sends nothing more until this thread reads.
_AHEAD_BYTES = 8 * 1024 * 1024
#: Other systems have the option, but their event of a readable socket does not follow it.
_LOW_WATER = socket.SO_RCVLOWAT if sys.platform == "linux" else None
_SIZE = struct.Struct(">i")


class BlockingConnection:
    """Made by ``Cluster.blocking_connection`` from a connection that is open and logged in."""

    def __init__(
        self,
        sock: socket.socket,
        address: str,
        client_id: str | None,
        api_versions: Mapping[int, Versions],
        timeout_ms: int,
    ) -> None:
        self.address = address
        self._sock = sock
        self._client_id = client_id
        self._api_versions = api_versions
        #: One piece that is read into, one that its reader may still look at.
        self._memory = BufferPool(kept=2)
        self._head = memoryview(bytearray(4))
        self._low_water = 1
        self._correlation_id = 0
        #: Of each request in flight: its number, and how its answer is read.
        self._expected: deque[tuple[int, Callable[[memoryview], Any]]] = deque()
        self._sent_by_key: dict[tuple[ApiKey, int | None], tuple[int, Callable[[memoryview], Any]]] = {}
        sock.settimeout(timeout_ms / 1000)

    @property
    def idle(self) -> bool:
        """Whether the next one may use it: open, and nothing in flight."""
        return self._sock.fileno() >= 0 and not self._expected

    def send(self, request: object, *, max_version: int | None = None) -> None:
        """Sends a request. Answers have to be taken before the peer stops reading because of them."""
        api_key = api_key_of(request)
        agreed = self._sent_by_key.get((api_key, max_version))
        if agreed is None:
            version = agreed_version(self.address, self._api_versions, api_key, max_version)
            agreed = version, answer_reader(load(api_key)[1], version)
            self._sent_by_key[api_key, max_version] = agreed
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        parts = request_parts(request, api_key, agreed[0], self._correlation_id, self._client_id)
        try:
            self._send(parts)
            self._wake_at(_AHEAD_BYTES)
        except OSError as error:
            raise self._lost(str(error)) from None
        self._expected.append((self._correlation_id, agreed[1]))

    def receive(self, memory: Callable[[int], memoryview | None] | None = None) -> Any:
        """Waits for the next answer, which is read into what ``memory`` gives for its size, if anything.

        Otherwise views of it keep its memory from being used for another.
        """
        assert self._expected, "no request is in flight"
        correlation_id, read = self._expected[0]
        try:
            self._fill(self._head)
            (size,) = _SIZE.unpack(self._head)
            if not 4 <= size <= MAX_FRAME_BYTES:
                raise self._lost("it sent no Kafka frame")
            given = None if memory is None else memory(size)
            frame = self._memory.take(size) if given is None else given
            self._fill(frame)
        except TimeoutError:
            self.close()
            raise RequestTimedOut(f"{self.address} did not answer in time") from None
        except OSError as error:
            raise self._lost(str(error)) from None
        self._expected.popleft()  # not earlier: an interrupted read leaves half an answer behind
        if _SIZE.unpack_from(frame)[0] != correlation_id:
            raise self._lost("it answered something else")
        try:
            return read(frame)
        except MalformedMessage as error:
            raise self._lost(f"its answer cannot be read: {error}") from None

    def close(self) -> None:
        self._sock.close()

    def _send(self, parts: list[Any]) -> None:
        while parts:
            sent = self._sock.sendmsg(parts)
            while parts and sent >= len(parts[0]):
                sent -= len(parts.pop(0))
            if sent:
                parts[0] = memoryview(parts[0])[sent:]

    def _fill(self, view: memoryview) -> None:
        filled, size = 0, len(view)
        while filled < size:
            self._wake_at(min(size - filled, _WAKE_BYTES))
            got = self._sock.recv_into(view[filled:])
            if not got:
                raise ConnectionResetError("it closed the connection")
            filled += got

    def _wake_at(self, count: int) -> None:
        if _LOW_WATER is not None and count != self._low_water:
            self._sock.setsockopt(socket.SOL_SOCKET, _LOW_WATER, count)
            self._low_water = count

    def _lost(self, why: str) -> ConnectionLost:
        self.close()
        return ConnectionLost(f"the connection to {self.address} is lost: {why}")
