"""Two leaders to whom the same happens: one looks at all partitions of a session, the other at news.

Whatever happens, both answer the same bytes at the same moment, and know the same of their followers.
"""

import random
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from moldau.broker.apis import fetch
from moldau.broker.purgatory import Parked
from moldau.cluster.records import (
    BrokerFenced,
    BrokerRegistered,
    Endpoint,
    PartitionChanged,
    TopicCreated,
    TopicDeleted,
)
from moldau.protocol.codec import decode
from moldau.protocol.control_records import ControlType, Marker
from moldau.protocol.errors import KafkaError
from moldau.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from moldau.protocol.records import Record, batches, encode_batch
from moldau.replication.partition import Partition
from moldau.replication.read_replica import RACK_AWARE_SELECTOR
from tests.broker.apis.fetch_worlds import LAG_TIME_MS, LEADER, NOW, Answer, Refusals, World

TOPICS = {"a": 6, "b": 4}
FOLLOWERS = (2, 3)
NEVER_WATCHES = 1 << 30
STEPS = 220
Place = tuple[str, int]


class Reader:
    """A consumer or a follower: where it is in each partition, and its session."""

    def __init__(self, drawn: random.Random, version: int, replica_id: int, isolation_level: int) -> None:
        self.drawn = drawn
        self.version = version
        self.replica_id = replica_id
        self.isolation_level = isolation_level
        self.broker_epoch = 1
        self.session_id = self.epoch = 0
        self.positions: dict[Place, FetchPartition] = {}
        self.told: dict[Place, tuple[int, ...]] = {}
        self.waits_for: int | None = None
        #: Topics by id, as they were when they were asked for.
        self.ids: dict[str, bytes] = {}

    def said(self, place: Place) -> tuple[int, ...]:
        at = self.positions[place]
        epochs = at.current_leader_epoch, at.last_fetched_epoch
        return at.fetch_offset, at.partition_max_bytes, at.log_start_offset, at.high_watermark, *epochs

    def request(self, max_wait_ms: int, min_bytes: int, max_bytes: int) -> FetchRequest:
        new = self.epoch == 0
        changed = [each for each in self.positions if new or self.told.get(each) != self.said(each)]
        gone = [] if new else [each for each in self.told if each not in self.positions]
        self.told = {each: self.said(each) for each in self.positions}
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            isolation_level=self.isolation_level,
            session_id=self.session_id,
            session_epoch=self.epoch,
            rack_id="east",
        )
        if self.version >= 15:
            request.replica_state = ReplicaState(self.replica_id, self.broker_epoch)
        else:
            request.replica_id = self.replica_id
        for name in sorted({each[0] for each in changed}):
            asked = [self.positions[each] for each in changed if each[0] == name]
            request.topics.append(FetchTopic(name, self.ids.get(name, bytes(16)), asked))
        for name, index in gone:
            request.forgotten_topics_data.append(ForgottenTopic(name, self.ids.get(name, bytes(16)), [index]))
        return request

    def take(self, response: FetchResponse) -> None:
        self.waits_for = None
        if response.error_code or not response.session_id:
            self.session_id = self.epoch = 0
            return
        self.session_id = response.session_id
        self.epoch += 1
        names = {topic_id: name for name, topic_id in self.ids.items()}
        for topic in response.responses:
            name = topic.topic if self.version < 13 else names.get(topic.topic_id, "")
            for data in topic.partitions:
                if (name, data.partition_index) in self.positions:
                    self._go_on(self.positions[name, data.partition_index], data)

    def _go_on(self, at: FetchPartition, data: PartitionData) -> None:
        if data.error_code:
            if self.drawn.random() < 0.5:
                at.fetch_offset = self.drawn.randrange(4)
                at.current_leader_epoch = at.last_fetched_epoch = -1
            return
        if data.diverging_epoch.epoch >= 0:
            at.fetch_offset = max(data.diverging_epoch.end_offset, 0)
            at.last_fetched_epoch = data.diverging_epoch.epoch
            return
        if self.replica_id >= 0 and self.version >= 18:
            at.high_watermark = max(data.high_watermark, 0)
        at.log_start_offset = data.log_start_offset if self.replica_id >= 0 else -1
        records = bytes(data.records or b"")
        for position, header in batches(records):
            if position + header.size <= len(records):
                at.fetch_offset = header.base_offset + header.last_offset_delta + 1
                if self.replica_id >= 0:
                    at.last_fetched_epoch = header.partition_leader_epoch


class Play:
    """Draws what happens, lets it happen in both worlds, and compares them after each step."""

    def __init__(self, seed: int) -> None:
        self.drawn = drawn = random.Random(seed)
        selector = RACK_AWARE_SELECTOR if seed % 7 == 6 else ""
        self.refusals = Refusals()
        authorizer = self.refusals if seed % 5 == 4 else None
        self.worlds = World(1, selector, authorizer), World(NEVER_WATCHES, selector, authorizer)
        self.numbers = count(1)
        self.sequences: dict[Place, int] = {}
        self.requests: dict[int, Reader] = {}
        self.described: dict[Place, PartitionChanged] = {}
        self.epochs = {2: 1, 3: 1}
        self.ids = {name: bytes([0] * 14 + [place, 1]) for place, name in enumerate(TOPICS)}
        self.readers = [
            Reader(drawn, 17, -1, 0),
            Reader(drawn, 12, -1, 1),
            Reader(drawn, drawn.choice((10, 16)), -1, drawn.randrange(2)),
            Reader(drawn, 18, 2, 0),
            Reader(drawn, drawn.choice((12, 17)), 3, 0),
        ]
        for broker in (LEADER, *FOLLOWERS):
            self.register(broker, 1)
        for name in TOPICS:
            self.create(name)
        self.share_topics()
        for reader in self.readers:
            self.choose_partitions(reader)

    # --- both worlds ----------------------------------------------------------------------------------

    def both(self, act: Callable[[World], object]) -> Any:
        seen = []
        for world in self.worlds:
            try:
                seen.append(act(world))
            except KafkaError as error:
                seen.append(error.code)
        assert seen[0] == seen[1]
        return seen[0]

    def change(self, *records: Any) -> None:
        self.both(lambda world: world.change(*records))

    def of(self, place: Place, act: Callable[[Partition], object]) -> Any:
        return self.both(lambda world: act(world.replicas.find(*place)))

    def compare(self) -> None:
        answers = [world.take_answers() for world in self.worlds]
        assert answers[0] == answers[1]
        for answer in answers[0]:
            self.deliver(answer)
        states = [world.state() for world in self.worlds]
        assert states[0] == states[1]
        proposed = [
            [(partition.topic_partition, isr) for partition, isr in world.proposer.proposed]
            for world in self.worlds
        ]
        assert proposed[0] == proposed[1]
        assert set(self.worlds[0].parked) == set(self.worlds[1].parked)

    def deliver(self, answer: Answer) -> None:
        reader = self.requests.pop(answer.number)
        if reader.waits_for == answer.number:
            reader.take(decode(FetchResponse, answer.version, answer.content))

    def run(self) -> None:
        for _ in range(STEPS):
            step = self.drawn.choices([each for each, _ in self.STEPS], [many for _, many in self.STEPS])[0]
            step(self)
            if self.drawn.random() < 0.9:
                self.both(World.settle)
            self.compare()

    # --- metadata -------------------------------------------------------------------------------------

    def register(self, broker: int, epoch: int) -> None:
        listeners = (Endpoint("PLAINTEXT", "h", 9000 + broker, "PLAINTEXT"),)
        rack = "east" if broker == 3 else "west"
        self.change(BrokerRegistered(broker, epoch, bytes(16), listeners, rack))

    def create(self, name: str) -> None:
        records: list[Any] = [TopicCreated(self.ids[name], name)]
        for index in range(TOPICS[name]):
            replicas = (LEADER, *FOLLOWERS) if index % 3 else (LEADER,)
            described = PartitionChanged(self.ids[name], index, replicas, replicas, LEADER, 0, 0)
            self.described[name, index] = described
            self.sequences.pop((name, index), None)
            records.append(described)
        self.change(*records)

    def a_place(self) -> Place:
        return self.drawn.choice(list(self.described))

    def redescribe(self, place: Place, **changes: Any) -> None:
        known = self.described[place]
        epoch = known.partition_epoch + 1
        self.described[place] = known._replace(partition_epoch=epoch, **changes)
        self.change(self.described[place])

    def elect(self) -> None:
        place = self.a_place()
        known = self.described[place]
        leader = self.drawn.choice((*known.replicas, -1, LEADER))
        self.redescribe(place, leader=leader, leader_epoch=known.leader_epoch + 1)

    def change_isr(self) -> None:
        place = self.a_place()
        known = self.described[place]
        rest = [each for each in known.replicas if each != known.leader and self.drawn.random() < 0.7]
        if known.leader >= 0:
            self.redescribe(place, isr=(known.leader, *rest))

    def reassign(self) -> None:
        place = self.a_place()
        replicas = self.drawn.choice(((LEADER,), (LEADER, 2), (LEADER, 2, 3), (2, 3)))
        known = self.described[place]
        isr = tuple(each for each in known.isr if each in replicas) or replicas[:1]
        leader = known.leader if known.leader in isr else isr[0]
        self.redescribe(
            place,
            replicas=replicas,
            isr=isr,
            leader=leader,
            leader_epoch=known.leader_epoch + (leader != known.leader),
        )
        self.both(World.settle)

    def recreate(self) -> None:
        """Who waits by name for a topic that is gone and there again waits for the one that is gone, where it
        looks at everything; so nobody waits.
        """
        name = self.drawn.choice(list(TOPICS))
        old = self.ids[name]
        if self.drawn.random() < 0.5:
            self.both(World.expire)
        self.change(TopicDeleted(old))
        self.ids[name] = old[:15] + bytes([old[15] + 1])
        if any(world.parked for world in self.worlds):
            self.both(World.settle)
        self.create(name)

    def restart_broker(self) -> None:
        broker = self.drawn.choice(FOLLOWERS)
        if self.drawn.random() < 0.3:
            self.change(BrokerFenced(broker))
            return
        self.epochs[broker] += 1
        self.register(broker, self.epochs[broker])

    def suspend(self) -> None:
        self.both(lambda world: world.replicas.suspend())
        if self.drawn.random() < 0.5:
            self.both(World.settle)
            self.compare()
        self.both(World.resume)

    def share_topics(self) -> None:
        """Readers hear of the ids that topics have now, and begin anew with those."""
        for reader in self.readers:
            if reader.ids != self.ids:
                reader.ids = dict(self.ids)
                reader.epoch = reader.session_id = 0

    def share_epochs(self) -> None:
        for reader in self.readers:
            if reader.replica_id >= 0:
                reader.broker_epoch = self.epochs[reader.replica_id]

    # --- records --------------------------------------------------------------------------------------

    def append(self) -> None:
        place = self.a_place()
        values = [bytes(self.drawn.randrange(1, 60)) for _ in range(self.drawn.randrange(1, 4))]
        data = encode_batch([Record(index, NOW, None, value) for index, value in enumerate(values)])
        self.write(place, data)

    def write(self, place: Place, data: bytearray) -> None:
        def act(partition: Partition) -> object:
            now_ms = self.worlds[0].clock.now_ms()
            if partition.leader == LEADER:
                return partition.append(memoryview(bytearray(data)), 1, now_ms, 12)
            if partition.log is None:
                return None
            copied = bytearray(data)
            copied[:8] = partition.log.log_end_offset.to_bytes(8, "big")
            copied[12:16] = max(partition.leader_epoch, 0).to_bytes(4, "big")
            partition.append_as_follower(memoryview(copied), now_ms)
            return partition.log.log_end_offset

        self.of(place, act)

    def append_in_a_transaction(self) -> None:
        place = self.a_place()
        if self.described[place].leader != LEADER:
            return
        sequence = self.sequences.get(place, 0)
        data = encode_batch(
            [Record(0, NOW, None, b"open")],
            producer_id=7,
            producer_epoch=0,
            base_sequence=sequence,
            transactional=True,
        )
        self.sequences[place] = sequence + 1
        self.write(place, data)

    def end_transaction(self) -> None:
        kind = self.drawn.choice((ControlType.COMMIT, ControlType.ABORT))
        now_ms = self.worlds[0].clock.now_ms()
        self.of(self.a_place(), lambda each: each.append_marker(Marker(kind, 0), 7, 0, now_ms))

    def delete_records(self) -> None:
        place, share = self.a_place(), self.drawn.random()

        def act(partition: Partition) -> object:
            log = partition.log
            if log is None:
                return None
            log.advance_log_start_offset(int(partition.high_watermark * share), "so says the test")
            return log.log_start_offset

        self.of(place, act)

    def cut(self) -> None:
        """A follower's log is cut, or begins again; a mirror's leader cuts its log too."""
        place, back, restarts = self.a_place(), self.drawn.randrange(3), self.drawn.random() < 0.2

        def act(partition: Partition) -> object:
            log, now_ms = partition.log, self.worlds[0].clock.now_ms()
            if log is None:
                return None
            offset = max(log.log_end_offset - back, log.log_start_offset)
            if partition.leader == LEADER:
                partition.cut_mirror(offset, now_ms)
            elif restarts:
                partition.restart_at(log.log_end_offset + back, now_ms)
            else:
                partition.truncate_to(offset, now_ms)
            return log.log_end_offset

        self.of(place, act)

    def follow(self) -> None:
        def act(partition: Partition) -> object:
            if partition.log is None or partition.leader == LEADER:
                return None
            partition.follow(partition.log.log_end_offset, partition.log.log_start_offset)
            return partition.high_watermark

        self.of(self.a_place(), act)

    def end_mirror(self) -> None:
        """What a mirror knows of producers is forgotten when it becomes an ordinary partition."""
        place = self.a_place()
        self.sequences.pop(place, None)

        def act(partition: Partition) -> object:
            partition.set_mirror("mirror", NOW)
            return partition.set_mirror("none", NOW)

        self.of(place, act)

    # --- time, limits, rights -------------------------------------------------------------------------

    def pass_time(self) -> None:
        seconds = self.drawn.choice((0.01, 0.3, 1.0, LAG_TIME_MS / 1000))
        self.both(lambda world: world.clock.advance(seconds))

    def shrink(self) -> None:
        self.both(lambda world: world.replicas.shrink_isrs())

    def decide(self) -> None:
        """The controller refuses what was proposed, or its answer is lost."""
        refused = self.drawn.random() < 0.5
        for world in self.worlds:
            for partition, _ in world.proposer.proposed:
                if partition.leading is not None:
                    partition.leading.proposal_failed(refused=refused)
            world.proposer.proposed.clear()

    def throttle(self) -> None:
        place, on = self.a_place(), self.drawn.random() < 0.5

        def act(partition: Partition) -> None:
            partition.throttled_as_leader = on

        self.of(place, act)

    def refuse(self) -> None:
        """While nobody waits: who waits hears of it when he is woken, for whatever reason."""
        self.both(World.expire)
        self.refusals.names = {name for name in TOPICS if self.drawn.random() < 0.3}

    # --- readers --------------------------------------------------------------------------------------

    def choose_partitions(self, reader: Reader) -> None:
        for place in self.described:
            chance = self.drawn.random()
            if chance < 0.2:
                reader.positions.pop(place, None)
            elif chance < 0.9 and place not in reader.positions:
                reader.positions[place] = FetchPartition(
                    place[1], fetch_offset=0, partition_max_bytes=self.drawn.choice((1, 100, 1 << 20))
                )

    def rechoose(self) -> None:
        self.choose_partitions(self.drawn.choice(self.readers))

    def move_a_reader(self) -> None:
        reader = self.drawn.choice(self.readers)
        if reader.positions:
            place = self.drawn.choice(list(reader.positions))
            at = reader.positions[place]
            at.fetch_offset = max(0, at.fetch_offset + self.drawn.randrange(-2, 3))
            at.current_leader_epoch = self.drawn.choice((-1, self.described[place].leader_epoch))
            at.last_fetched_epoch = self.drawn.choice((-1, -1, self.described[place].leader_epoch))

    def read_otherwise(self) -> None:
        reader = self.drawn.choice(self.readers)
        reader.isolation_level = self.drawn.randrange(2)
        if reader.replica_id < 0 and reader.version < 13:
            reader.version = self.drawn.choice((10, 12))

    def fetch(self) -> None:
        reader = self.drawn.choice(self.readers)
        if reader.waits_for is not None:
            if self.drawn.random() < 0.8:
                return
            if self.drawn.random() < 0.5:  # its connection is gone, or it does not wait for its answer
                number = reader.waits_for
                self.both(lambda world: world.disconnect(number))
            reader.epoch += self.drawn.choice((1, 0)) if reader.epoch else 0
            if self.drawn.random() < 0.3:
                reader.epoch = 0
        number = next(self.numbers)
        request = reader.request(
            self.drawn.choice((0, 0, 500, 5000)),
            self.drawn.choice((1, 1, 1, 200)),
            self.drawn.choice((1, 150, 1 << 20)),
        )
        self.requests[number] = reader
        reader.waits_for = number
        self.both(lambda world: world.ask(number, request, reader.version))

    STEPS: tuple[tuple[Callable[["Play"], None], int], ...] = (
        (fetch, 60),
        (append, 14),
        (append_in_a_transaction, 4),
        (end_transaction, 4),
        (delete_records, 2),
        (cut, 4),
        (follow, 6),
        (end_mirror, 1),
        (elect, 2),
        (change_isr, 2),
        (reassign, 1),
        (recreate, 1),
        (restart_broker, 1),
        (suspend, 1),
        (share_topics, 4),
        (share_epochs, 4),
        (pass_time, 8),
        (shrink, 3),
        (decide, 2),
        (throttle, 1),
        (refuse, 1),
        (rechoose, 2),
        (move_a_reader, 3),
        (read_otherwise, 1),
    )


def follower_of_many(min_bytes: int, max_bytes: int) -> tuple[World, FetchRequest]:
    """Partitions with a record each, and a follower of four of them who has none."""
    play = Play(0)
    for index in range(6):
        data = encode_batch([Record(0, NOW, None, bytes(50))])
        play.worlds[0].replicas.find("a", index).append(memoryview(data), 1, NOW, 12)
    reader = Reader(play.drawn, 17, 2, 0)
    reader.ids = play.ids
    for index in (1, 2, 4, 5):
        reader.positions["a", index] = FetchPartition(index, 0, 0, partition_max_bytes=1)
    return play.worlds[0], reader.request(500, min_bytes, max_bytes)


def outcome(steps: Any) -> Any:
    """What comes of a handler that works in steps, of which it takes a few."""
    for _ in range(10):
        try:
            next(steps)
        except StopIteration as end:
            return end.value
    pytest.fail("it goes on and on")


@pytest.mark.parametrize("why", ["a limit", "a throttle"])
def test_what_is_kept_back_from_a_fetch_in_steps_is_waited_for(
    why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was read again and again until the time was up."""
    monkeypatch.setattr(fetch, "_PARTITIONS_AT_ONCE", 3)
    world, request = follower_of_many(200, 1)
    if why == "a throttle":
        world.throttle.take(1 << 20)
        for partition in world.replicas:
            partition.throttled_as_leader = True
            partition.isr = (LEADER,)
    assert isinstance(outcome(world.handle(request, 17)), Parked)


def test_a_fetch_in_steps_reads_again_what_moved_behind_its_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "_PARTITIONS_AT_ONCE", 3)
    world, request = follower_of_many(1, 1 << 20)
    for asked in request.topics[0].partitions:
        asked.fetch_offset = 1
    steps = world.handle(request, 17)
    next(steps)
    next(steps)
    data = encode_batch([Record(0, NOW, None, b"new")])
    world.replicas.find("a", 1).append(memoryview(data), 1, NOW, 12)
    response = outcome(steps)
    assert isinstance(response, FetchResponse)
    assert len(response.responses[0].partitions[0].records or b"") == len(data)
    assert not any(len(each.watchers) for each in world.replicas)


@pytest.mark.parametrize("seed", range(40))
def test_looking_only_at_news_changes_no_answer(seed: int) -> None:
    Play(seed).run()


@pytest.mark.parametrize("seed", range(1000, 1010))
def test_nor_does_it_in_many_small_steps(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "_PARTITIONS_AT_ONCE", 3)
    Play(seed).run()
