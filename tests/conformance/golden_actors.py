"""Those who were there while a transcript was captured: members of groups, a producer that never commits.

Each is a context: from its start to its end the actor is connected."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from confluent_kafka import Producer

from tests.conformance.tool_process import JavaProcess

Actor = Callable[[str, Path], AbstractContextManager[None]]


@contextmanager
def group_members(bootstrap_servers: str, directory: Path) -> Iterator[None]:
    """One member each of g-classic and g-consumer (java/GroupMembers.java)."""
    with JavaProcess("GroupMembers", [bootstrap_servers], directory) as members:
        members.wait_for(lambda each: "ready" in each.lines, "word that both have read everything")
        yield
        assert members.end_input() == 0, members.told()


@contextmanager
def open_transaction(bootstrap_servers: str, _: Path) -> Iterator[None]:
    """tx-open holds a transaction on both partitions of txt, tx-done has committed one (librdkafka)."""
    hanging = _producer(bootstrap_servers, "tx-open", {"transaction.timeout.ms": 600_000})
    hanging.begin_transaction()
    for partition in (0, 1):
        hanging.produce("txt", b"open", partition=partition)
    hanging.flush()
    done = _producer(bootstrap_servers, "tx-done", {})
    done.begin_transaction()
    done.produce("txt", b"done", partition=1)
    done.commit_transaction()
    yield


def _producer(bootstrap_servers: str, transactional_id: str, more: dict[str, int]) -> Producer:
    producer = Producer(
        {"bootstrap.servers": bootstrap_servers, "transactional.id": transactional_id, **more}
    )
    producer.init_transactions()
    return producer


ACTORS: dict[str, Actor] = {"group members": group_members, "open transaction": open_transaction}
