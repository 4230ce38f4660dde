"""A whole cluster moved: planned, copied, proven equal, cut over, and back."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from moldau.base.names import TopicPartition
from moldau.cli.main import cli
from moldau.client.groups.descriptions import CommittedOffset
from moldau.client.groups.groups import Groups
from moldau.client.transport.cluster import Cluster
from moldau.mirror import migration
from moldau.mirror.migration import MigrationState
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.testing import Broker
from tests.mirror.flows import SETTINGS, ask, content, log_bounds, running, settings
from tests.shared.waiting import wait_until


@pytest.fixture(scope="module")
def brokers() -> Iterator[dict[str, Broker]]:
    with Broker(SETTINGS) as a, Broker(SETTINGS) as b:
        yield {"source": a, "target": b}


@pytest.fixture
def pair(brokers: dict[str, Broker]) -> dict[str, Broker]:
    for broker in brokers.values():
        broker.reset()
    a = brokers["source"]
    a.create_topic("orders", partitions=3, configs={"retention.ms": "77777777"})
    a.create_topic("payments")
    for at in range(120):
        a.produce("orders", b"%d" % at, key=b"%d" % at, partition=at % 3)
        a.produce("payments", b"%d" % at)
    place = TopicPartition("orders", 1)
    ask(a, lambda cluster: Groups(cluster).commit("shop", {place: CommittedOffset(17)}))
    return brokers


def command(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["migrate", *arguments])


def plan(pair: dict[str, Broker], state: Path, *more: str) -> Result:
    a, b = pair.values()
    addresses = ["--from", a.bootstrap_servers, "--to", b.bootstrap_servers]
    return command("plan", *addresses, "--state", str(state), "--json", *more)


def mirroring(pair: dict[str, Broker]) -> bool:
    a, b = pair.values()
    topics = ("orders", "payments")
    return all(t in b.topics() and log_bounds(a, t) == log_bounds(b, t) for t in topics)


def test_from_the_plan_to_the_cut_over_and_back(pair: dict[str, Broker], tmp_path: Path) -> None:
    a, b = pair.values()
    file = tmp_path / "migration.json"
    state = ["--state", str(file)]
    planned = plan(pair, file)
    assert planned.exit_code == 0, planned.output
    found = json.loads(planned.stdout)
    assert [(t["name"], t["partitions"], t["records"], t["problem"]) for t in found["topics"]] == [
        ("orders", 3, 120, None),
        ("payments", 1, 120, None),
    ]
    assert found["groups"] == ["shop"]
    assert command("status", *state).exit_code == 0
    with running(settings(pair, "source->target", replication_policy_class="IdentityReplicationPolicy")):
        wait_until(lambda: mirroring(pair))
        proof = command("status", *state, "--verify", "--json")
        assert proof.exit_code == 0, proof.output
        assert [row["equal"] for row in json.loads(proof.stdout)] == [True] * 4
        assert [row["records"] for row in json.loads(proof.stdout)] == [
            [40, 40],
            [40, 40],
            [40, 40],
            [120, 120],
        ]
        done = command("cutover", *state, "--json")
        assert done.exit_code == 0, done.output
        report = json.loads(done.stdout)
        assert (report["topics"], report["partitions"], report["groups"]) == (2, 4, 1)
        assert report["seconds"] > 0
        with pytest.raises(Exception, match=r"MESSAGE_TOO_LARGE|too large|RECORD"):
            produce_over_the_wire(a)
        produce_over_the_wire(b)
        there = ask(b, lambda cluster: Groups(cluster).committed("shop"))
        assert there == {TopicPartition("orders", 1): CommittedOffset(17)}
        assert command("cutover", *state).exit_code == 1, "once is enough"
        refused = command("rollback", *state)
        assert refused.exit_code == 1
        assert "--discard-writes" in refused.output
        assert command("rollback", *state, "--discard-writes").exit_code == 0
        produce_over_the_wire(a)
        wait_until(lambda: mirroring(pair), lambda: (log_bounds(a, "orders"), log_bounds(b, "orders")))
    assert MigrationState.load(file).fenced == {}


def test_only_the_groups_of_the_plan_move(pair: dict[str, Broker], tmp_path: Path) -> None:
    a, b = pair.values()
    place = TopicPartition("payments", 0)
    ask(a, lambda cluster: Groups(cluster).commit("test-shop", {place: CommittedOffset(3)}))
    file = tmp_path / "migration.json"
    planned = plan(pair, file, "--groups", "shop.*")
    assert json.loads(planned.stdout)["groups"] == ["shop"]
    more = {"replication_policy_class": "IdentityReplicationPolicy", "groups": "shop.*"}
    with running(settings(pair, "source->target", **more)):
        wait_until(lambda: mirroring(pair))
        done = command("cutover", "--state", str(file), "--json")
    assert json.loads(done.stdout)["groups"] == 1, done.output
    assert ask(b, lambda cluster: Groups(cluster).committed("shop"))
    assert not ask(b, lambda cluster: Groups(cluster).committed("test-shop"))


def produce_over_the_wire(broker: Broker) -> None:
    from moldau.client.producer.producer import Producer
    from moldau.client.transport.cluster import Cluster

    async def work(cluster: Cluster) -> None:
        async with await Producer.open(cluster) as producer:
            await (await producer.send("orders", b"written", partition=0))

    ask(broker, work)


def test_what_was_interrupted_is_finished_and_writes_go_to_one_cluster(
    pair: dict[str, Broker], tmp_path: Path
) -> None:
    a, b = pair.values()
    file = tmp_path / "migration.json"
    state = ["--state", str(file)]
    plan(pair, file)

    def break_off(name: str) -> pytest.MonkeyPatch:
        """The first topic goes well, and the second does not."""
        whole, patch = getattr(migration, name), pytest.MonkeyPatch()

        async def broken(target: Cluster, topic: str, *rest: object) -> object:
            if topic == "payments":
                raise KafkaError(ErrorCode.NOT_CONTROLLER, "the cluster is busy")
            return await whole(target, topic, *rest)

        patch.setattr(migration, name, broken)
        return patch

    with running(settings(pair, "source->target", replication_policy_class="IdentityReplicationPolicy")):
        wait_until(lambda: mirroring(pair))
        patch = break_off("promote")
        try:
            assert command("cutover", *state).exit_code == 1
            produce_over_the_wire(b)
            assert command("cutover", *state).exit_code == 1
        finally:
            patch.undo()
        with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
            produce_over_the_wire(a)
        refused = plan(pair, file)
        assert refused.exit_code == 1
        assert "moldau migrate rollback" in refused.output
        done = command("cutover", *state, "--json")
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout)["partitions"] == 4
        patch = break_off("demote")
        try:
            assert command("rollback", *state, "--discard-writes").exit_code == 1
        finally:
            patch.undo()
        with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
            produce_over_the_wire(a)
        back = command("rollback", *state, "--discard-writes")
        assert back.exit_code == 0, back.output
        produce_over_the_wire(a)
        wait_until(lambda: mirroring(pair))


def test_a_mirror_that_does_not_run_leaves_everything_as_it_was(
    pair: dict[str, Broker], tmp_path: Path
) -> None:
    a, _ = pair.values()
    file = tmp_path / "migration.json"
    plan(pair, file)
    failed = command("cutover", "--state", str(file), "--timeout", "0.2")
    assert failed.exit_code == 1
    assert ErrorCode.REQUEST_TIMED_OUT.name in failed.output
    assert "migrate start" in failed.output
    produce_over_the_wire(a)


def test_a_difference_is_found(pair: dict[str, Broker], tmp_path: Path) -> None:
    a, b = pair.values()
    file = tmp_path / "migration.json"
    plan(pair, file)
    with running(settings(pair, "source->target", replication_policy_class="IdentityReplicationPolicy")):
        wait_until(lambda: mirroring(pair))

    def damage() -> None:
        partition = b._partitions("payments")[0]
        assert partition.log is not None
        partition.truncate_to(100, 0)
        from moldau.protocol.records import Record, encode_batch

        other = [Record(100 + at, 5, None, b"other", ()) for at in range(20)]
        partition.log.append_batches(memoryview(encode_batch(other, base_offset=100, leader_epoch=0)), 0)
        partition.advance_high_watermark(120)

    b._call(damage)
    proof = command("status", "--state", str(file), "--verify", "--json")
    assert proof.exit_code == 1
    assert [row["topic"] for row in json.loads(proof.stdout) if not row["equal"]] == ["payments"]
    assert len(content(a, "payments")) == len(content(b, "payments"))


def test_topics_in_the_way_are_named(pair: dict[str, Broker], tmp_path: Path) -> None:
    _, b = pair.values()
    b.create_topic("orders")
    b.create_topic("own")
    found = json.loads(plan(pair, tmp_path / "m.json").stdout)
    problems = {t["name"]: t["problem"] for t in found["topics"]}
    assert "ordinary topic" in problems["orders"]
    assert problems["payments"] is None
    assert found["only_at_target"] == ["own"]


@pytest.mark.parametrize("content_", ["", "{}", '{"a": 1}'])
def test_a_state_file_that_is_none(tmp_path: Path, content_: str) -> None:
    file = tmp_path / "m.json"
    file.write_text(content_)
    failed = command("status", "--state", str(file))
    assert failed.exit_code == 1
    assert "is not the state of a migration" in failed.output
    assert "moldau migrate plan" in command("status", "--state", str(tmp_path / "none.json")).output
