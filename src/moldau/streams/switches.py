"""A new version in the place of an old one: it goes on where the old one ended, with the rows of its stores.

The two are applications of different names. What the new one takes over is written into its own state
topics, together with records that the old one had sent to itself and not read yet, and the offsets of its
group: all in one transaction, so that a switch happened or did not. The old one's topics stay as they are.

Invariant: what would be done is known before anything is done. Nothing is done while the old version runs,
where the new one has run already, or where stores do not fit.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from moldau.base.names import TopicPartition
from moldau.client.groups.descriptions import CommittedOffset
from moldau.client.groups.groups import Groups
from moldau.client.producer.producer import Producer
from moldau.client.transport.background_loop import BackgroundLoop
from moldau.client.transport.cluster import Cluster
from moldau.protocol.compression import COMPRESSION_NAMES
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.spark.background_loop import connect
from moldau.spark.read.listing import list_offsets
from moldau.spark.read.offsets import EARLIEST, LATEST
from moldau.spark.write.exactly_once import Decisions, last_decision
from moldau.streams.compatibility import Succession, same_schedules, succession
from moldau.streams.engine.stores.store import StoreState
from moldau.streams.engine.task import Task, TaskState
from moldau.streams.errors import StreamsError
from moldau.streams.runner.application import StreamsOptions, prepared
from moldau.streams.runner.layout import Group, Layout, full_name, laid_out, source_topics
from moldau.streams.runner.orders import Application
from moldau.streams.runner.programs import Program
from moldau.streams.runner.saved_state import TAKEN_OVER, Decoder, Saved, encoded
from moldau.streams.runner.topics import ApplicationTopics
from moldau.streams.runner.worker import Reading, read_state
from moldau.streams.topology.topology import Topology

#: The most that brokers allow by default: a large state takes long to write.
_TRANSACTION_MS = 900_000
#: Key, value, headers, timestamp.
_Record = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]], int]


@dataclass(frozen=True, slots=True)
class Version:
    """A program under the name of its application."""

    application_id: str
    program: Program

    @property
    def topology(self) -> Topology:
        return self.program.load().topology(0)


@dataclass(slots=True)
class SwitchPlan:
    """What a switch does."""

    old: Version
    new: Version
    succession: Succession
    #: Rows that each store takes over.
    rows: dict[str, int] = field(default_factory=dict)
    #: Where the new version begins to read.
    offsets: dict[TopicPartition, int] = field(default_factory=dict)
    #: Topics that the old version has not read, and those that nobody will read any more.
    new_topics: list[str] = field(default_factory=list)
    left_topics: list[str] = field(default_factory=list)
    #: Records that the old version sent to itself and has not read, which are carried over: from, to.
    waiting: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)
    #: Whether punctuation begins anew, because the versions make different schedules.
    new_schedules: bool = False
    problems: list[str] = field(default_factory=list)
    #: The state of each task of the new version, by group and partition.
    states: dict[tuple[int, int], Saved] = field(default_factory=dict, repr=False)

    def check(self) -> None:
        if self.problems:
            raise StreamsError(f"{self.new.application_id} cannot take over: {'; '.join(self.problems)}")


class Switch:
    """Plans a switch and carries it out."""

    def __init__(
        self,
        old: Version,
        new: Version,
        options: StreamsOptions,
        *,
        renamed: Mapping[str, str] | None = None,
        empty: frozenset[str] = frozenset(),
        old_query_id: str | None = None,
    ) -> None:
        if old.application_id == new.application_id:
            raise StreamsError(
                f"both versions are called {old.application_id}: a new version under the same name goes on by"
                " itself with 'moldau streams run'; for a switch, give it a name of its own with --name"
            )
        self._old, self._new = old, new
        self._options = options
        self._renamed, self._empty = renamed or {}, empty
        self._old_query_id = old_query_id
        self._loop: BackgroundLoop = connect(options.cluster)

    # --- planning -----------------------------------------------------------------------------------

    def planned(self) -> SwitchPlan:
        """What would be done. StreamsError where that cannot even be said."""
        old_topology, new_topology = self._old.topology, self._new.topology
        plan = SwitchPlan(
            self._old,
            self._new,
            succession(old_topology, new_topology, self._renamed, self._empty),
        )
        plan.problems = list(plan.succession.problems)
        self._check_old(plan)
        self._check_new(plan)
        old, new = self._laid_out(self._old), self._laid_out(self._new)
        saved = self._old_states(old)
        positions = self._positions(old, saved)
        self._place(plan, old, new, positions)
        if not plan.problems:
            self._take_over(plan, old, new, saved)
        return plan

    def _check_old(self, plan: SwitchPlan) -> None:
        name = self._old.application_id
        described = self._loop.run(Groups(self._loop.cluster).describe([name]))[name]
        if not isinstance(described, KafkaError) and described.state not in ("Empty", "Dead"):
            plan.problems.append(
                f"application {name} runs (its group is {described.state}): stop it first with"
                f" 'moldau streams stop {name}'"
            )

    def _check_new(self, plan: SwitchPlan) -> None:
        name = self._new.application_id
        committed = self._committed(name)
        loop = self._loop
        wanted = dict.fromkeys(committed, EARLIEST)
        firsts = loop.run(list_offsets(loop.cluster, wanted, committed=True)) if wanted else {}
        # After a reset its group stands at the first records: that is how a switch is undone.
        if any(at > firsts.get(place, 0) for place, at in committed.items()):
            plan.problems.append(
                f"application {name} has run already: begin it anew with 'moldau streams reset {name}"
                " --execute', or give it another name"
            )

    def _committed(self, application_id: str) -> dict[TopicPartition, int]:
        try:
            found = self._loop.run(Groups(self._loop.cluster).committed(application_id))
        except KafkaError as error:
            if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
                raise
            return {}
        return {place: each.offset for place, each in found.items() if isinstance(each, CommittedOffset)}

    def _laid_out(self, version: Version) -> Application:
        """A version as it runs, without making anything."""
        topology = version.topology
        topics = ApplicationTopics(self._options.cluster)
        partitions = topics.partitions_of(source_topics(topology))
        layout = laid_out(topology, version.application_id, partitions, in_memory=self._options.in_memory)
        return Application(version.application_id, version.program, layout, self._options.cluster)

    def _old_states(self, old: Application) -> dict[tuple[int, int], Saved]:
        """The state of every task, with classes of the new version where they have the same name."""
        self._new.topology  # noqa: B018 (its classes are loaded last, and so are the ones that are found)
        found = {}
        for group in old.layout.groups:
            if group.state_topic is None or not self._is_there(group.state_topic):
                continue
            for partition in range(group.tasks):
                decoder = Decoder(self._new.program.module, self._old.program.module)
                saved = read_state(old, group.number, partition, decoder)
                if saved is not None:
                    found[group.number, partition] = saved
        return found

    def _is_there(self, topic: str) -> bool:
        (found,) = self._loop.run(self._loop.cluster.topics([topic]))
        return not found.error_code

    def _positions(
        self, old: Application, saved: Mapping[tuple[int, int], Saved]
    ) -> dict[TopicPartition, int]:
        """How far the old version has read: by its state, by its last decision, by its group."""
        positions = self._committed(old.application_id)
        if not positions and not saved:
            raise StreamsError(
                f"application {old.application_id} has processed nothing on this cluster: there is nothing to"
                f" take over. Run {self._new.application_id} with 'moldau streams run'"
            )
        last = self._loop.run(last_decision(self._loop.cluster, old.query))
        if last is not None and (self._old_query_id is None or last.query_id == self._old_query_id):
            for topic, partition, at in last.positions:
                # Its driver may have died before it could tell the group.
                place = TopicPartition(topic, partition)
                positions[place] = max(at, positions.get(place, 0))
        for each in saved.values():
            positions |= {TopicPartition(*place): at for place, at in each.positions.items()}
        return positions

    def _place(
        self, plan: SwitchPlan, old: Application, new: Application, positions: Mapping[TopicPartition, int]
    ) -> None:
        places = [
            p for group in new.layout.groups for t in range(group.tasks) for p in new.layout.places(group, t)
        ]
        own = {each.name for each in new.layout.internal_topics}
        read = {topic for group in old.layout.groups for topic in group.topics}
        unread = [place for place in places if place not in positions and place.topic not in own]
        # A partition that the old version had nothing of begins at its start, a new topic where asked to.
        asked = LATEST if self._options.start_at == "latest" else EARLIEST
        wanted = {place: EARLIEST if place.topic in read else asked for place in unread}
        loop = self._loop
        firsts = loop.run(list_offsets(loop.cluster, wanted, committed=True)) if wanted else {}
        for place in places:
            plan.offsets[place] = 0 if place.topic in own else positions.get(place, firsts.get(place, 0))
        plan.new_topics = sorted({place.topic for place in unread} - read)
        own_before = {each.name for each in old.layout.internal_topics}
        plan.left_topics = sorted(read - own_before - {place.topic for place in places})
        self._find_waiting(plan, old, new, positions)

    def _find_waiting(
        self, plan: SwitchPlan, old: Application, new: Application, positions: Mapping[TopicPartition, int]
    ) -> None:
        topology = self._old.topology
        for topic in topology.repartition_topics:
            before = full_name(old.application_id, topology, topic)
            if old.layout.in_memory or not self._is_there(before):
                continue
            count = old.layout.partitions[before]
            places = [TopicPartition(before, partition) for partition in range(count)]
            loop = self._loop
            ends = loop.run(list_offsets(loop.cluster, dict.fromkeys(places, LATEST), committed=True))
            waiting = {
                place: (positions.get(place, 0), end)
                for place, end in ends.items()
                if end > positions.get(place, 0)
                and self._has_records(old, place, positions.get(place, 0), end)
            }
            after = full_name(new.application_id, self._new.topology, topic)
            if waiting and new.layout.partitions.get(after) != count:
                plan.problems.append(
                    f"records wait in {before}, and the new version has no such topic: let the old version"
                    f" read them first with 'moldau streams run … --name {old.application_id} --once'"
                )
            plan.waiting |= waiting

    def _has_records(self, application: Application, place: TopicPartition, start: int, end: int) -> bool:
        """Not all offsets are records: the ends of transactions have some, too."""
        return any(piece.rows for piece in Reading(application, headers=False)(place, start, end))

    def _take_over(
        self, plan: SwitchPlan, old: Application, new: Application, saved: Mapping[tuple[int, int], Saved]
    ) -> None:
        homes = {
            name: group
            for group in old.layout.groups
            for name in Task(self._old.topology, group.nodes).stores
        }
        for group in new.layout.groups:
            if group.state_topic is None:
                continue
            task = Task(self._new.topology, group.nodes)
            stores = {n: o for n, o in plan.succession.stores.items() if n in task.stores}
            sources = {homes[o].number: homes[o] for o in stores.values()}
            names = {full_name(old.application_id, self._old.topology, _short(t, new)) for t in group.topics}
            sources |= {each.number: each for each in old.layout.groups if names & set(each.topics)}
            for each in {homes[o].number: homes[o] for o in stores.values()}.values():
                if each.tasks != group.tasks:
                    plan.problems.append(
                        f"the stores {', '.join(stores)} are in {group.tasks} partitions now, and were in"
                        f" {each.tasks}: rows would be with the wrong keys"
                    )
                    return
            keeps = len(sources) == 1 and same_schedules(
                Task(self._old.topology, next(iter(sources.values())).nodes), task
            )
            plan.new_schedules |= bool(task.context.scheduler.schedules) and not keeps
            for partition in range(group.tasks):
                state = _merged(
                    [saved[n, partition] for n in sorted(sources) if (n, partition) in saved],
                    stores,
                    {n: o for n, o in plan.succession.operators.items() if n in task.nodes},
                    keeps_schedules=keeps,
                )
                if state is None:
                    continue
                for name, rows in state.stores.items():
                    plan.rows[name] = plan.rows.get(name, 0) + len(rows.rows)
                plan.states[group.number, partition] = self._saved(plan, new.layout, group, partition, state)

    def _saved(
        self, plan: SwitchPlan, layout: Layout, group: Group, partition: int, state: TaskState
    ) -> Saved:
        places = {place: plan.offsets[place] for place in layout.places(group, partition)}
        stands = tuple(sorted((tp.topic, tp.partition, at) for tp, at in places.items())), TAKEN_OVER
        return Saved(stands, {(tp.topic, tp.partition): at for tp, at in places.items()}, state, 0, 0)

    # --- doing --------------------------------------------------------------------------------------

    def carry_out(self) -> SwitchPlan:
        """Plans once more, and does it; StreamsError where something speaks against it."""
        self.planned().check()
        self._loop.run(_finish(self._loop.cluster, f"streams-{self._old.application_id}"))
        plan = self.planned()
        plan.check()
        # Makes its topics, and says what is wrong with the program before anything is written.
        new = prepared(self._new.program, self._new.application_id, self._options, 1)
        for topic in new.layout.internal_topics:
            places = {TopicPartition(topic.name, partition): 0 for partition in range(topic.partitions)}
            loop = self._loop
            ends = loop.run(list_offsets(loop.cluster, dict.fromkeys(places, LATEST), committed=True))
            if any(self._has_records(new, place, 0, end) for place, end in ends.items() if end):
                raise StreamsError(
                    f"topic {topic.name} has records: begin anew with 'moldau streams reset"
                    f" {self._new.application_id} --execute', or give the new version another name"
                )
        # Read before the loop writes: reading waits for the loop.
        waiting = {place: list(_records(new, place, *offsets)) for place, offsets in plan.waiting.items()}
        self._loop.run(self._write(plan, new, waiting))
        return plan

    async def _write(
        self, plan: SwitchPlan, new: Application, waiting: Mapping[TopicPartition, list[_Record]]
    ) -> None:
        cluster = self._loop.cluster
        producer = await Producer.open(
            cluster,
            transactional_id=f"moldau-switch-{new.application_id}",
            transaction_timeout_ms=_TRANSACTION_MS,
            compression=COMPRESSION_NAMES[self._options.compression],
        )
        async with producer, producer.transaction():
            for (number, partition), saved in plan.states.items():
                state_topic = new.layout.groups[number].state_topic
                assert state_topic is not None
                for row in encoded(saved):
                    await producer.send(state_topic, row[1], row[0], partition)
            for place, records in waiting.items():
                topic = full_name(
                    new.application_id,
                    self._new.topology,
                    place.topic.removeprefix(f"{plan.old.application_id}-"),
                )
                for key, value, headers, timestamp in records:
                    await producer.send(topic, value, key, place.partition, headers, timestamp)
            await producer.send_offsets_to_transaction(plan.offsets, new.application_id)


async def _finish(cluster: Cluster, query: str) -> None:
    """Ends what a driver that died has left: what it decided is committed, everything else aborted."""
    decisions = await Decisions.open(cluster, query)
    await decisions.finish_last()
    await decisions.clean_up()


def _short(topic: str, application: Application) -> str:
    """A topic as the topology calls it."""
    own = any(each.name == topic for each in application.layout.internal_topics)
    return topic.removeprefix(f"{application.application_id}-") if own else topic


def _merged(
    found: list[Saved], stores: Mapping[str, str], operators: Mapping[str, str], *, keeps_schedules: bool
) -> TaskState | None:
    """The state of one new task from those of the old ones; None where there is none."""
    if not found:
        return None
    rows: dict[str, StoreState] = {}
    numbers: dict[str, tuple[Any, ...]] = {}
    looped: dict[str, int] = {}
    times: dict[tuple[str, int], int] = {}
    stream_time, schedules = None, None
    for saved in found:
        state = saved.state
        rows |= {new: state.stores[old] for new, old in stores.items() if old in state.stores}
        numbers |= {new: state.operators[old] for new, old in operators.items() if old in state.operators}
        own_looped, (own_time, own_times, own_schedules) = state.task
        looped |= own_looped
        times |= own_times
        stream_time = own_time if stream_time is None else max(stream_time, own_time)
        schedules = own_schedules if keeps_schedules else None
    return TaskState(rows, numbers, (looped, (stream_time, times, schedules)))


def _records(application: Application, place: TopicPartition, start: int, end: int) -> Iterator[_Record]:
    for piece in Reading(application)(place, start, end):
        headers = piece.headers.to_pylist() if piece.headers is not None else [None] * piece.rows
        columns = (piece.key.to_pylist(), piece.value.to_pylist(), headers, piece.timestamp.to_pylist())
        for key, value, pairs, timestamp in zip(*columns, strict=True):
            yield key, value, [(pair["key"], pair["value"]) for pair in pairs or ()], timestamp
