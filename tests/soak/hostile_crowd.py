"""Ten thousand connections that mean no good, held at once, in a process of their own.

    python tests/soak/hostile_crowd.py PORT CONNECTIONS SECONDS

A quarter each: silent ones, the start of a TLS handshake, frames that claim all that may come before a login
and dribble a byte at a time, and lengths of two gigabytes, which are closed and come again. It prints how
many were open together, how many were made and how many the broker closed.

Invariant: traffic goes to 127.0.0.1 only.
"""

import resource
import selectors
import socket
import struct
import sys
import time
from contextlib import suppress

FIRST_WORDS = (
    b"",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(40),
    struct.pack(">i", 500_000) + b"\0",
    struct.pack(">i", 2**31 - 1),
)
DRIBBLE_SECONDS = 1.0


class Crowd:
    def __init__(self, port: int, size: int) -> None:
        self._port = port
        self._size = size
        self._selector = selectors.DefaultSelector()
        self._open: dict[socket.socket, int] = {}
        self.most = self.made = self.closed = 0

    def grow(self) -> None:
        """Connects until there are as many as wanted, a few hundred at a time."""
        for _ in range(min(300, self._size - len(self._open))):
            try:
                made = socket.create_connection(("127.0.0.1", self._port), timeout=5)
            except OSError:
                return
            made.setblocking(False)
            kind = self.made % len(FIRST_WORDS)
            self.made += 1
            self._open[made] = kind
            self._selector.register(made, selectors.EVENT_READ)
            with suppress(OSError):
                made.send(FIRST_WORDS[kind])
        self.most = max(self.most, len(self._open))

    def look(self) -> None:
        """Lets go of those that the broker has closed."""
        for key, _ in self._selector.select(0.02):
            connection = key.fileobj
            assert isinstance(connection, socket.socket)
            try:
                alive = bool(connection.recv(4096))
            except OSError:
                alive = False
            if not alive:
                self._selector.unregister(connection)
                del self._open[connection]
                connection.close()
                self.closed += 1

    def dribble(self) -> None:
        for connection, kind in self._open.items():
            if kind == 2:
                with suppress(OSError):
                    connection.send(b"\0")


def main() -> None:
    port, size, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    crowd = Crowd(port, size)
    deadline, next_dribble = time.monotonic() + seconds, 0.0
    while (now := time.monotonic()) < deadline:
        crowd.grow()
        crowd.look()
        if now >= next_dribble:
            crowd.dribble()
            next_dribble = now + DRIBBLE_SECONDS
    print(crowd.most, crowd.made, crowd.closed)


if __name__ == "__main__":
    main()
