"""What requests to coordinators cost a broker: CPU time of two source trees in one run, as a ratio.

Both brokers run side by side, each on its own data directory, and take turns; the load is the same bytes over
bare connections. CPU time of the process and not the wall is counted, so other work on the machine disturbs
less. A request that is answered with an error ends the run.

    git archive SOME_COMMIT src | tar x -C /tmp/old
    python -m benchmarks.coordinator_cost --old /tmp/old/src [--rounds 7]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import struct
import tempfile
from collections import deque
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from benchmarks.moldau_broker import MoldauBroker
from moldau.protocol import api_keys
from moldau.protocol.api_keys import ApiKey
from moldau.protocol.codec import decode, encode
from moldau.protocol.framing import write_request_header
from moldau.protocol.messages import (
    add_partitions_to_txn,
    consumer_group_heartbeat,
    create_topics,
    end_txn,
    find_coordinator,
    init_producer_id,
    offset_commit,
)

TOPIC, PARTITIONS = "load", 48
MEMBERS, HEARTBEATS, GROUPS = 50, 10, 5
PRODUCERS, TRANSACTIONS = 32, 20
COMMITS = 4_000
VERSIONS = {
    ApiKey.OFFSET_COMMIT: 8,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: 0,
    ApiKey.ADD_PARTITIONS_TO_TXN: 3,
    ApiKey.END_TXN: 3,
    ApiKey.INIT_PRODUCER_ID: 4,
    ApiKey.FIND_COORDINATOR: 3,
    ApiKey.CREATE_TOPICS: 5,
}


def _is_flexible(key: ApiKey) -> bool:
    first = api_keys.VERSIONS[key].first_flexible
    return first is not None and VERSIONS[key] >= first


class TreeBroker(MoldauBroker):
    """A broker with the code of one source tree."""

    tree = Path()

    def cpu_s(self) -> float:
        """In nanoseconds, where the system counts them; the usual figure has steps of ten milliseconds."""
        tasks = Path(f"/proc/{self.pid}/task").glob("*/schedstat")
        return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9

    def command(self) -> list[str]:
        return ["env", f"PYTHONPATH={self.tree}", *super().command()]


class Peer:
    """One connection; answers come in the order of the requests."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._asked: deque[tuple[ApiKey, type[Any]]] = deque()

    @classmethod
    async def connect(cls, port: int) -> Peer:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    def send(self, key: ApiKey, message: Any, response: type[Any]) -> None:
        version = VERSIONS[key]
        out = bytearray(4)
        write_request_header(out, key, version, 7, "bench", _is_flexible(key))
        out += encode(message, version)
        struct.pack_into(">i", out, 0, len(out) - 4)
        self._asked.append((key, response))
        self._writer.write(out)

    async def receive(self) -> Any:
        (size,) = struct.unpack(">i", await self._reader.readexactly(4))
        body = await self._reader.readexactly(size)
        key, response = self._asked.popleft()
        version = VERSIONS[key]
        return decode(response, version, body[5 if _is_flexible(key) else 4 :])

    async def ask(self, key: ApiKey, message: Any, response: type[Any]) -> Any:
        self.send(key, message, response)
        return await self.receive()

    def close(self) -> None:
        self._writer.close()


def require(error_code: int, what: str) -> None:
    if error_code:
        raise RuntimeError(f"{what}: error {error_code}")


def _commit(group: str, offset: int) -> Any:
    partition = offset_commit.OffsetCommitRequestPartition(0, offset, -1, "")
    topic = offset_commit.OffsetCommitRequestTopic(TOPIC, partitions=[partition])
    return offset_commit.OffsetCommitRequest(group, -1, "", topics=[topic])


async def commits(port: int, connections: int, in_flight: int, groups: int = 4) -> int:
    """OffsetCommit of one partition, by clients that have so many groups together."""

    async def client(number: int) -> None:
        peer = await Peer.connect(port)
        for offset in range(each + in_flight):
            if offset < each:
                peer.send(
                    ApiKey.OFFSET_COMMIT,
                    _commit(f"one-{number % groups}", offset),
                    offset_commit.OffsetCommitResponse,
                )
            if offset >= in_flight:
                answer = await peer.receive()
                require(answer.topics[0].partitions[0].error_code, "OffsetCommit")
        peer.close()

    each = COMMITS // connections
    await asyncio.gather(*(client(number) for number in range(connections)))
    return each * connections


async def joins(port: int, group: str) -> int:
    """Members of the new protocol that join together, confirm what they are given, and leave."""
    key, response = ApiKey.CONSUMER_GROUP_HEARTBEAT, consumer_group_heartbeat.ConsumerGroupHeartbeatResponse
    beat = consumer_group_heartbeat.ConsumerGroupHeartbeatRequest

    async def member(number: int) -> None:
        peer = await Peer.connect(port)
        member_id, epoch = f"member-{number}", 0
        owned: list[Any] = []
        for step in range(HEARTBEATS + 1):
            request = beat(group, member_id, epoch, topic_partitions=owned)
            if not step:
                request.rebalance_timeout_ms = 60_000
                request.subscribed_topic_names = [TOPIC]
            answer = await peer.ask(key, request, response)
            require(answer.error_code, f"heartbeat: {answer.error_message}")
            epoch = answer.member_epoch
            if answer.assignment is not None:
                owned = answer.assignment.topic_partitions
        require((await peer.ask(key, beat(group, member_id, -1), response)).error_code, "leaving")
        peer.close()

    await asyncio.gather(*(member(number) for number in range(MEMBERS)))
    return MEMBERS * (HEARTBEATS + 2)


async def groups_in_turn(port: int, turn: int) -> int:
    return sum([await joins(port, f"group-{turn}-{number}") for number in range(GROUPS)])


async def transactions(port: int) -> int:
    """AddPartitionsToTxn and EndTxn of many producers at once; a marker is written for each."""

    async def producer(number: int) -> None:
        peer = await Peer.connect(port)
        name = f"producer-{number}"
        answer = await peer.ask(
            ApiKey.INIT_PRODUCER_ID,
            init_producer_id.InitProducerIdRequest(name, 60_000),
            init_producer_id.InitProducerIdResponse,
        )
        require(answer.error_code, "InitProducerId")
        ids = (answer.producer_id, answer.producer_epoch)
        topic = add_partitions_to_txn.AddPartitionsToTxnTopic(TOPIC, [number % PARTITIONS])
        add = add_partitions_to_txn.AddPartitionsToTxnRequest([], name, *ids, [topic])
        for _ in range(TRANSACTIONS):
            await _begin(peer, add)
            end = end_txn.EndTxnRequest(name, *ids, True)
            require((await peer.ask(ApiKey.END_TXN, end, end_txn.EndTxnResponse)).error_code, "EndTxn")
        peer.close()

    await asyncio.gather(*(producer(number) for number in range(PRODUCERS)))
    return PRODUCERS * TRANSACTIONS


async def _begin(peer: Peer, add: Any) -> None:
    """The transaction before may still be ending: then it is asked again, as clients do."""
    concurrent = 51
    while True:
        added = await peer.ask(
            ApiKey.ADD_PARTITIONS_TO_TXN, add, add_partitions_to_txn.AddPartitionsToTxnResponse
        )
        code = added.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
        if code != concurrent:
            require(code, "AddPartitionsToTxn")
            return


async def prepare(port: int) -> None:
    """Makes the topic and both internal ones, and waits until their coordinators answer."""
    peer = await Peer.connect(port)
    topic = create_topics.CreatableTopic(TOPIC, PARTITIONS, 1)
    request = create_topics.CreateTopicsRequest([topic], 30_000)
    made = await peer.ask(ApiKey.CREATE_TOPICS, request, create_topics.CreateTopicsResponse)
    require(made.topics[0].error_code, "CreateTopics")
    for kind in (0, 1):
        while True:
            asked = find_coordinator.FindCoordinatorRequest("one-0", kind)
            found = await peer.ask(ApiKey.FIND_COORDINATOR, asked, find_coordinator.FindCoordinatorResponse)
            if not found.error_code:
                break
            await asyncio.sleep(0.1)
    peer.close()


Case = Callable[[int, int], Awaitable[int]]
CASES: dict[str, Case] = {
    "OffsetCommit, 1 connection, 1 in flight": lambda port, turn: commits(port, 1, 1),
    "OffsetCommit, 1 connection, 16 in flight": lambda port, turn: commits(port, 1, 16),
    "OffsetCommit, 50 connections, 1 in flight": lambda port, turn: commits(port, 50, 1),
    "OffsetCommit, 50 connections, one group": lambda port, turn: commits(port, 50, 1, 1),
    "join, 10 heartbeats, leave: 50 members": groups_in_turn,
    "transaction, 32 producers": lambda port, turn: transactions(port),
}


def compare(old: TreeBroker, new: TreeBroker, rounds: int, only: str) -> None:
    for broker in (old, new):
        asyncio.run(prepare(broker.port))
    print(f"{'µs of CPU':45}{'old':>9}{'new':>9}{'new/old':>9}   lowest and highest of {rounds} rounds")
    for name, case in CASES.items():
        if only not in name:
            continue
        costs: dict[TreeBroker, list[float]] = {old: [], new: []}
        for turn in range(-1, rounds):
            for broker in (old, new) if turn % 2 else (new, old):
                before = broker.cpu_s()
                count = asyncio.run(_counted(case, broker.port, turn))
                if turn >= 0:  # the first one warms up
                    costs[broker].append((broker.cpu_s() - before) / count * 1e6)
        ratios = [new_us / old_us for old_us, new_us in zip(costs[old], costs[new], strict=True)]
        medians = statistics.median(costs[old]), statistics.median(costs[new]), statistics.median(ratios)
        print(
            f"{name:45}{medians[0]:9.1f}{medians[1]:9.1f}{medians[2]:9.2f}"
            f"   {min(ratios):.2f}-{max(ratios):.2f}",
            flush=True,
        )


async def _counted(case: Case, port: int, turn: int) -> int:
    return await case(port, turn)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--old", type=Path, required=True, help="the src folder to compare with")
    parser.add_argument("--new", type=Path, default=Path(__file__).parent.parent / "src")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    arguments = parser.parse_args()
    print(f"load average {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as directory:
        brokers = []
        try:
            for name in ("old", "new"):
                broker = TreeBroker(Path(directory) / name)
                broker.tree = getattr(arguments, name).resolve()
                brokers.append(broker)
                broker.start()
            compare(brokers[0], brokers[1], arguments.rounds, arguments.only)
        finally:
            for broker in brokers:
                broker.stop()


if __name__ == "__main__":
    main()
