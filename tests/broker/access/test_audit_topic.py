"""The audit log in a topic: the same lines in the same order, once, from every broker."""

import json
from functools import partial
from pathlib import Path

import pytest

from moldau.base.settings import SettingError
from moldau.broker.access.audit_topic import AuditTopic
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from moldau.security.audit import broken_at
from moldau.testing import Broker, Cluster
from tests.security.secure_wire import Wire
from tests.shared.waiting import wait_until

TOPIC = "audit"


def _settings(path: Path) -> dict[str, str]:
    return {"moldau.audit.log": str(path), "moldau.audit.topic": TOPIC}


def _create(broker: Broker, *names: str) -> None:
    with Wire(broker.bootstrap_servers) as wire:
        for name in names:
            wire.ask(CreateTopicsRequest([CreatableTopic(name, 1, 1)]))


def _copied(broker: Broker) -> list[str]:
    if TOPIC not in broker.topics():
        return []
    return [(record.value or b"").decode() for record in broker.records(TOPIC)]


def _has(broker: Broker, lines: int) -> bool:
    return len(_copied(broker)) == lines


def test_every_line_of_the_file_is_in_the_topic(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    for expected in (20, 40):  # the chain goes on after a restart
        with Broker(_settings(path), data_dir=tmp_path / "data") as broker:
            _create(broker, *(f"t{expected - 20 + number}" for number in range(20)))
            wait_until(partial(_has, broker, expected))
            lines = path.read_text().splitlines()
            assert _copied(broker) == lines
            assert {record.key for record in broker.records(TOPIC)} == {b"broker-1"}
    assert broken_at(lines) is None
    assert broken_at([*lines[:7], *lines[8:]]) == 8
    assert [json.loads(line)["what"] for line in lines[:2]] == [["t0"], ["t1"]]


def test_lines_whose_acknowledgement_was_lost_are_there_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What came meanwhile waits: a batch that is sent again is the same batch."""
    produce = AuditTopic._produce
    sizes: list[int] = []

    async def loses_the_first_answer(topic: AuditTopic, lines: list[tuple[int, bytes]]) -> None:
        await produce(topic, lines)
        sizes.append(len(lines))
        if len(sizes) == 1:
            topic.add(0, "came meanwhile")
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "the leader is gone")

    monkeypatch.setattr(AuditTopic, "_produce", loses_the_first_answer)
    with Broker(_settings(tmp_path / "audit.jsonl")) as broker:
        _create(broker, "t")
        wait_until(lambda: len(sizes) == 1)
        broker.clock.advance(10)
        wait_until(partial(_has, broker, 2))
        assert _copied(broker)[1] == "came meanwhile"
    assert sizes == [1, 1, 1]


@pytest.mark.slow
def test_brokers_write_to_whoever_leads(tmp_path: Path) -> None:
    """Each broker's lines are there in their order and once, also of the time when the leader was away."""
    cluster = Cluster(3, {"moldau.audit.topic": TOPIC, "default.replication.factor": "3"})
    for number, broker in cluster.brokers.items():
        broker._settings["moldau.audit.log"] = str(tmp_path / f"{number}.jsonl")
    with cluster:
        for number in cluster.running:
            cluster[number].run(_write(cluster[number], "first"))
        wait_until(lambda: len(_copied(cluster[1])) >= 3)
        leader = cluster.leader(TOPIC)
        cluster.kill(leader)
        for number in cluster.running:
            for word in ("second", "third"):
                cluster[number].run(_write(cluster[number], word))

        def by_broker() -> dict[int, list[str]]:
            found: dict[int, list[str]] = {}
            for record in cluster[cluster.running[0]].records(TOPIC):
                key, value = (record.key or b"").decode(), (record.value or b"").decode()
                found.setdefault(int(key.rpartition("-")[2]), []).append(value)
            return found

        def all_there() -> bool:
            return all(by_broker().get(number) == _lines(tmp_path, number) for number in cluster.running)

        wait_until(all_there)
        for number, lines in by_broker().items():
            assert broken_at(lines) is None, number


async def _write(broker: Broker, word: str) -> None:
    audit = broker.node.services.audit
    assert audit is not None
    audit.write("denied", "User:ann", "10.0.0.1", name=word)


def _lines(directory: Path, number: int) -> list[str]:
    return (directory / f"{number}.jsonl").read_text().splitlines()


def test_a_topic_needs_the_file() -> None:
    with (
        pytest.raises(SettingError, match=r"moldau\.audit\.topic needs moldau\.audit\.log"),
        Broker({"moldau.audit.topic": TOPIC}),
    ):
        pass
