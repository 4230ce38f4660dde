"""Attacks on a broker at 127.0.0.1, each for a bounded time, in a process of their own.

    python -m tests.soak.hostile_attacks PORT ATTACK SECONDS SEED

It prints how many requests and connections it made. The attacker behaves as badly as its attack says and in
no other way; all of it is drawn from the seed.

Invariant: traffic goes to 127.0.0.1 only; connections and bytes in flight are bounded.
"""

import random
import resource
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.messages.api_versions import ApiVersionsRequest
from moldau.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from moldau.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.protocol.messages.metadata import MetadataRequest
from tests.broker.giant_requests import giants
from tests.broker.random_requests import ROUTES, RandomRequests
from tests.contract.wire import frame, raw_frame

#: What brokers say to each other: it may stop a cluster by its meaning, and is for other listeners to guard.
BETWEEN_BROKERS = {
    ApiKey.ALTER_PARTITION,
    ApiKey.ENVELOPE,
    ApiKey.BROKER_REGISTRATION,
    ApiKey.BROKER_HEARTBEAT,
    ApiKey.ALLOCATE_PRODUCER_IDS,
}
#: Well formed, these make things that stay: topics by the thousand are not what is measured here.
MAKES_TOPICS = {ApiKey.CREATE_TOPICS, ApiKey.CREATE_PARTITIONS, ApiKey.BEGIN_RESTORE, ApiKey.FORK_TOPIC}
CLIENT_ROUTES = [(key, version) for key, version in ROUTES if key not in BETWEEN_BROKERS]

CONNECTIONS = 2_000
ELEMENTS = 19_000
TOPIC = "known"


class Attack:
    def __init__(self, port: int, seconds: float, seed: int) -> None:
        self.port = port
        self.dice = random.Random(seed)
        self.seed = seed
        self.deadline = time.monotonic() + seconds
        self.requests = 0
        self.connections = 0

    @property
    def goes_on(self) -> bool:
        return time.monotonic() < self.deadline

    def connect(self) -> socket.socket:
        self.connections += 1
        made = socket.create_connection(("127.0.0.1", self.port), timeout=5)
        made.setblocking(False)
        return made

    @contextmanager
    def many(self, count: int) -> Iterator[list[socket.socket]]:
        """Connections, as many as there is time for; they are closed in the end."""
        made: list[socket.socket] = []
        try:
            while len(made) < count and self.goes_on:
                with suppress(OSError):
                    made.append(self.connect())
            yield made
        finally:
            for each in made:
                each.close()

    def push(self, connection: socket.socket, data: bytes) -> int:
        """As many bytes as the connection takes at once; 0 when it takes none or is gone."""
        try:
            return connection.send(data)
        except OSError:
            return 0

    def push_all(self, connection: socket.socket, data: bytes) -> bool:
        """All of the bytes, unless the broker stops reading or closes for longer than a moment."""
        connection.settimeout(2)
        try:
            connection.sendall(data)
            return True
        except OSError:
            return False
        finally:
            with suppress(OSError):
                connection.setblocking(False)

    def drain(self, connection: socket.socket) -> None:
        with suppress(OSError):
            while connection.recv(1 << 16):
                pass

    def wait(self, seconds: float) -> None:
        """Keeps everything as it is."""
        time.sleep(min(seconds, max(self.deadline - time.monotonic(), 0)))  # the attack is to sit still

    # --- the attacks ------------------------------------------------------------------------------

    def damaged(self) -> None:
        """Requests of every API and version with some bytes replaced, cut out, doubled or appended."""
        self._throw(damage=True)

    def odd(self) -> None:
        """Well formed requests of every API and version, with values at the edge."""
        self._throw(damage=False)

    def _throw(self, *, damage: bool) -> None:
        while self.goes_on:
            requests = RandomRequests(self.dice.randrange(1 << 30), self.dice.randbytes(16))
            connection = self.connect()
            for _ in range(20):
                key, version = self.dice.choice(CLIENT_ROUTES)
                if not damage and key in MAKES_TOPICS:
                    continue
                body = frame(requests.request(key, version), version)[4:]
                self.requests += 1
                if not self.push_all(connection, raw_frame(requests.damaged(body) if damage else body)):
                    break
                self.drain(connection)
            connection.close()

    def giants(self) -> None:
        """Valid requests with very many elements, on a few connections at once."""
        routes = [each for each in CLIENT_ROUTES if each[0] not in MAKES_TOPICS]
        while self.goes_on:
            key, version = self.dice.choice(routes)
            count = self.dice.choice((500, 5_000, ELEMENTS, 3 * ELEMENTS))
            for giant in giants(key, version, count, repeated=self.dice.random() < 0.3):
                data = frame(giant.message, version)
                with self.many(self.dice.choice((1, 4, 16))) as connections:
                    for connection in connections:
                        self.requests += 1
                        self.push_all(connection, data)
                    self.wait(0.2)
                    for connection in connections:
                        self.drain(connection)
                if not self.goes_on:
                    return

    def half_sent(self) -> None:
        """Frames that claim megabytes and do not come."""
        while self.goes_on:
            with self.many(CONNECTIONS) as connections:
                for connection in connections:
                    claimed = self.dice.choice((4 << 20, 100_000_000, 1 << 20))
                    self.requests += 1
                    self.push(connection, struct.pack(">i", claimed) + bytes(6))
                for connection in connections[:20]:
                    self.push(connection, bytes(200_000))
                self.wait(2)

    def unread(self) -> None:
        """Requests without end, whose answers nobody reads."""
        configs = [DescribeConfigsResource(4, "1", None)] * 50
        kinds = [
            frame(MetadataRequest(None), 12),
            frame(ApiVersionsRequest("hostile", "1"), 4),
            frame(DescribeConfigsRequest(configs, True, True), 4),
            frame(self._fetch(0), 12),
        ]
        while self.goes_on:
            with self.many(self.dice.choice((5, 50, 500))) as connections:
                data = {each: self.dice.choice(kinds) * 200 for each in connections}
                for _ in range(20):
                    for connection in connections:
                        self.requests += 1
                        self.push(connection, data[connection])
                    self.wait(0.05)

    def crowd(self) -> None:
        """Thousands of connections that all ask at once, again and again."""
        request = frame(ApiVersionsRequest("hostile", "1"), 4)
        while self.goes_on:
            with self.many(CONNECTIONS) as connections:
                for _ in range(10):
                    for connection in connections:
                        self.requests += 1
                        self.push(connection, request * self.dice.choice((1, 1, 5, 100)))
                    for connection in connections:
                        self.drain(connection)

    def long_polls(self) -> None:
        """Tens of thousands of fetches that wait for one partition, while others write to it."""
        poll = frame(self._fetch(20_000, from_the_end=True), 12) * 30
        while self.goes_on:
            with self.many(1_000) as connections:
                for connection in connections:
                    self.requests += 30
                    self.push(connection, poll)
                for _ in range(20):
                    self.wait(0.2)
                    for connection in connections:
                        self.drain(connection)

    def _fetch(self, max_wait_ms: int, *, from_the_end: bool = False) -> FetchRequest:
        """One partition: what there is, or more than will ever come."""
        wanted = FetchTopic(TOPIC, partitions=[FetchPartition(0, -1, 0, partition_max_bytes=1 << 20)])
        min_bytes = 1 << 30 if from_the_end else 1
        return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=min_bytes, topics=[wanted])


ATTACKS: dict[str, Callable[[Attack], None]] = {
    "damaged requests": Attack.damaged,
    "odd requests": Attack.odd,
    "giant requests": Attack.giants,
    "half-sent frames": Attack.half_sent,
    "unread answers": Attack.unread,
    "crowds": Attack.crowd,
    "long polls": Attack.long_polls,
}


def main() -> None:
    port, name, seconds, seed = int(sys.argv[1]), sys.argv[2], float(sys.argv[3]), int(sys.argv[4])
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    attack = Attack(port, seconds, seed)
    ATTACKS[name](attack)
    print(attack.requests, attack.connections)


if __name__ == "__main__":
    main()
