"""The load on coordinators: our small Java programs and one raw OffsetFetch, their output as values.

Kafka's consumer joins where a user would wait for it. Everywhere else a client's threads and heartbeat
intervals would be the measure, so the requests go over bare connections, with Kafka's own message classes.
The same for either broker.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.load import Latencies, run
from moldau.coordinators.runtime import partition_of
from moldau.protocol.api_keys import ApiKey
from moldau.protocol.codec import decode, encode
from moldau.protocol.errors import ErrorCode
from moldau.protocol.framing import write_request_header
from moldau.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)

OFFSETS_TOPIC_PARTITIONS = 50
OFFSET_FETCH_VERSION = 8
PAUSE_S = 0.02
LOADED_TIMEOUT_S = 300.0
NOT_READY = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


def join_group(bootstrap_servers: str, topic: str, protocol: str, joins: int, warm_up: int) -> Latencies:
    """From subscribing in a new group to the first record, one consumer after the other."""
    arguments = [bootstrap_servers, topic, protocol, joins, warm_up]
    return _latencies(run("GroupJoin", [str(argument) for argument in arguments]))


def rebalance_classic(
    bootstrap_servers: str, topic: str, group: str, members: int, rounds: int, warm_up: int
) -> Latencies:
    arguments = [bootstrap_servers, topic, group, members, rounds, warm_up]
    return _latencies(run("ClassicRebalance", [str(argument) for argument in arguments]))


def rebalance_consumer(
    bootstrap_servers: str, topic: str, partitions: int, group: str, members: int, rounds: int, warm_up: int
) -> Latencies:
    arguments = [bootstrap_servers, topic, partitions, group, members, rounds, warm_up]
    return _latencies(run("ConsumerRebalance", [str(argument) for argument in arguments]))


@dataclass(frozen=True, slots=True)
class Commits:
    """OffsetCommit requests over one connection; each commits for every partition of the topic."""

    topic: str
    partitions: int
    #: Requests go to the groups name-0, name-1, … in turn, and commit their own number.
    group: str
    groups: int
    requests: int
    warm_up: int
    in_flight: int


def commit_offsets(bootstrap_servers: str, commits: Commits) -> float:
    """Requests answered in a second, after the warm-up."""
    arguments = [bootstrap_servers, commits.topic, commits.partitions, commits.group, commits.groups]
    arguments += [commits.requests, commits.warm_up, commits.in_flight]
    return commits.requests / float(run("OffsetCommits", [str(argument) for argument in arguments]))


def _latencies(printed: str) -> Latencies:
    return Latencies(tuple(int(line) for line in printed.splitlines()))


# --- a coordinator that loads -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Loading:
    #: When all committed offsets could be fetched, as time.perf_counter() tells it.
    ready_at: float
    #: The slowest answer until then, and how many there were: nobody may be kept waiting by the loading.
    longest_wait_s: float
    answers: int


def await_offsets(port: int, topic: str, group: str, groups: int) -> Loading:
    """Asks for one offset of each shard until all of them are there; wrong offsets are an error."""
    numbers = _one_group_a_shard(group, groups)
    frame = _offset_fetch([f"{group}-{number}" for number in numbers], topic)
    deadline = time.perf_counter() + LOADED_TIMEOUT_S
    longest_wait_s, answers = 0.0, 0
    with socket.create_connection(("127.0.0.1", port), timeout=LOADED_TIMEOUT_S) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while time.perf_counter() < deadline:
            asked_at = time.perf_counter()
            response = _ask(connection, frame)
            answered_at = time.perf_counter()
            longest_wait_s, answers = max(longest_wait_s, answered_at - asked_at), answers + 1
            if _all_there(response, numbers):
                return Loading(answered_at, longest_wait_s, answers)
            time.sleep(PAUSE_S)
    raise RuntimeError(f"the offsets were not loaded in {LOADED_TIMEOUT_S} s")


def _one_group_a_shard(group: str, groups: int) -> list[int]:
    shards: dict[int, int] = {}
    for number in range(groups):
        shards.setdefault(partition_of(f"{group}-{number}", OFFSETS_TOPIC_PARTITIONS), number)
    return list(shards.values())


def _offset_fetch(groups: Sequence[str], topic: str) -> bytes:
    asked = [
        OffsetFetchRequestGroup(
            group_id=group, topics=[OffsetFetchRequestTopics(name=topic, partition_indexes=[0])]
        )
        for group in groups
    ]
    frame = bytearray(4)
    write_request_header(frame, ApiKey.OFFSET_FETCH, OFFSET_FETCH_VERSION, 1, "bench", True)
    frame += encode(OffsetFetchRequest(groups=asked), OFFSET_FETCH_VERSION)
    struct.pack_into(">i", frame, 0, len(frame) - 4)
    return bytes(frame)


def _ask(connection: socket.socket, frame: bytes) -> OffsetFetchResponse:
    connection.sendall(frame)
    (size,) = struct.unpack(">i", _receive(connection, 4))
    # behind the correlation id and a byte that says that the header has no tagged fields
    return decode(OffsetFetchResponse, OFFSET_FETCH_VERSION, _receive(connection, size), 5)


def _receive(connection: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        piece = connection.recv(size - len(received))
        if not piece:
            raise ConnectionResetError("the broker closed the connection")
        received += piece
    return bytes(received)


def _all_there(response: OffsetFetchResponse, numbers: Sequence[int]) -> bool:
    ready = True
    for group, number in zip(response.groups, numbers, strict=True):
        if group.error_code in NOT_READY:
            ready = False
        elif group.error_code or group.topics[0].partitions[0].committed_offset != number:
            raise RuntimeError(f"{number} was committed by {group.group_id}, the answer is {group}")
    return ready
