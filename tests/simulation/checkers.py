"""The checkers of the simulation: whether the broker keeps its promises to clients.

Clients report the answers that they got; the checkers also inspect the coordinators and the logs, without
changing anything. The rules that they check:

- state is what the log says: a shard that replays its log from the start is equal to the live one;
- no reply before the records that it depends on are committed;
- no request waits for ever;
- a generation has one assignment, in which no partition has two owners;
- an acknowledged offset is never lost, and a committed offset never goes back;
- a transaction is visible completely or not at all, in accordance with what its client was told.
"""

from collections import Counter
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from moldau.broker.coordination.journal import PartitionJournal
from moldau.coordinators.groups.classic.group import ClassicGroup, ClassicState
from moldau.coordinators.groups.consumer.group import ConsumerGroup
from moldau.coordinators.groups.records import OffsetCommit
from moldau.coordinators.groups.shard import GroupShard
from moldau.coordinators.journal import JournalEntry
from moldau.coordinators.runtime import Runtime, ShardContext
from moldau.coordinators.shard import Token
from moldau.coordinators.transactions.shard import TransactionShard
from moldau.coordinators.transactions.transaction import IDLE
from moldau.protocol.errors import KafkaError
from tests.simulation.simulated_broker import SimulatedBroker
from tests.simulation.simulated_partitions import SimulatedPartition

#: No request may wait longer: the longest that is foreseen is a new member's JoinGroup, five minutes.
LONGEST_CALL_SECONDS = 400.0
_SETTLED = (ClassicState.STABLE, ClassicState.EMPTY)
_SOFT_STATE = ("checked_metadata_version", "awaited_requests")

OffsetKey = tuple[str, str, int]
Owned = frozenset[tuple[str, int]]


class Violation(AssertionError):
    """A rule was violated."""


def require(condition: bool, rule: str, *facts: Any) -> None:
    if not condition:
        raise Violation(f"{rule}: {', '.join(map(str, facts))}")


def gathered(context: ShardContext[Any]) -> list[tuple[bytes, bytes | None]]:
    """What a shard has decided in this turn of the loop, which is not in its log yet."""
    return [] if context.gathered is None else context.gathered.encoded


@dataclass(slots=True)
class Attempt:
    """One transaction as its client knows it."""

    name: str
    #: Topic, partition and value of what was acknowledged.
    written: list[tuple[str, int, str]] = field(default_factory=list)
    offsets: dict[OffsetKey, int] = field(default_factory=dict)
    commit_asked: bool = False
    #: Committed or aborted, as the client was told; None if it got no definite answer.
    outcome: bool | None = None


class Checkers:
    def __init__(self, broker: SimulatedBroker) -> None:
        self._broker = broker
        self._promised: dict[OffsetKey, int] = {}
        #: The possible values of offsets that are also deleted; -1 when there is none.
        self._possible: dict[OffsetKey, set[int]] = {}
        self._assigned: dict[tuple[str, int], dict[str, Owned]] = {}
        self._needed: dict[Token, tuple[SimulatedPartition, int]] = {}
        self.attempts: dict[str, Attempt] = {}
        #: Whether no append of a coordinator is ever refused in this run.
        self.appends_succeed = True
        self.counts: Counter[str] = Counter()

    # --- reports of clients -----------------------------------------------------------------------

    def promised(self, place: OffsetKey) -> int:
        return self._promised.get(place, 0)

    def promises(self) -> list[tuple[OffsetKey, int]]:
        return sorted(self._promised.items())

    def acknowledged(self, place: OffsetKey, offset: int) -> None:
        self.counts["commits"] += 1
        self._promised[place] = max(self.promised(place), offset)

    def fetched(self, place: OffsetKey, offset: int, promised: int) -> None:
        """An offset was read; ``promised`` is what had been acknowledged when it was asked for."""
        self.counts["offset fetches"] += 1
        require(max(offset, 0) >= promised, "an acknowledged offset is lost", place, offset, promised)

    def might_become(self, place: OffsetKey, offset: int) -> None:
        """A client is about to commit or delete it; whether that succeeds is not known."""
        self._possible.setdefault(place, {-1}).add(offset)

    def became(self, place: OffsetKey, offset: int) -> None:
        self._possible[place] = {offset}

    def looked(self, place: OffsetKey, offset: int) -> None:
        possible = self._possible.get(place, {-1})
        require(offset in possible, "an offset that nobody wrote", place, offset, possible)
        self._possible[place] = {offset}

    def places(self) -> list[OffsetKey]:
        """Of offsets that are also deleted."""
        return sorted(self._possible)

    def assigned(self, group: str, generation: int, who: str, owned: Owned) -> None:
        """A member got its assignment; ``who`` is its instance id or its member id."""
        self.counts["assignments"] += 1
        members = self._assigned.setdefault((group, generation), {})
        known = members.setdefault(who, owned)
        require(known == owned, "two assignments in one generation", group, generation, who, known, owned)
        counts = Counter(partition for each in members.values() for partition in each)
        twice = [partition for partition, count in counts.items() if count > 1]
        require(not twice, "a partition with two owners", group, generation, twice, members)

    # --- replies ----------------------------------------------------------------------------------

    def decided(self, runtime: Runtime[Any], shard: ShardContext[Any], result: Any) -> None:
        """A result is about to be carried out: its replies depend on everything in the log after it."""
        partition = self._broker.partitions.get(runtime.name, shard.partition)
        assert partition.log is not None
        end = partition.log.log_end_offset + len(gathered(shard)) + len(result.records)
        for reply in result.replies:
            self._needed[reply.token] = (partition, end)

    def answered(self, reply: Any) -> None:
        self.counts["answers"] += 1
        partition, end = self._needed.pop(reply.token, (None, 0))
        if partition is not None and not isinstance(reply.response, KafkaError):
            committed = partition.high_watermark
            place = partition.topic_partition
            require(committed >= end, "an answer before its commit", place, committed, end, reply.response)

    def nobody_waits_for_ever(self) -> None:
        process = self._broker.process
        now = self._broker.loop.time()
        for call in () if process is None else process.calls:
            require(now - call.since < LONGEST_CALL_SECONDS, "a request waits for ever", call.what)

    # --- what the log says ------------------------------------------------------------------------

    def state_is_what_the_log_says(self) -> None:
        process = self._broker.process
        for runtime in () if process is None else process.runtimes():
            for index in runtime.partitions():
                self.shard_is_what_its_log_says(runtime, index)

    def shard_is_what_its_log_says(self, runtime: Runtime[Any], index: int) -> None:
        self.counts["replays"] += 1
        shard, replayed = runtime.shard(index), self._replayed(runtime, index)
        live, fresh = hard_state(shard), hard_state(replayed)
        name = f"{runtime.name}-{index}"
        require(live == fresh, "state is not what the log says", name, *_differences(live, fresh))
        if self.appends_succeed and isinstance(shard, GroupShard):
            # After a failed append a group may be ahead of its log until its next rebalance.
            live, fresh = settled_groups(shard, shard), settled_groups(shard, replayed)
            require(live == fresh, "a group is not what the log says", name, *_differences(live, fresh))

    def _replayed(self, runtime: Runtime[Any], index: int) -> Any:
        shard = runtime._new_shard(index)
        for entry in self.entries(runtime.name, index):
            runtime._replay(shard, entry, index)
        for key, value in gathered(runtime._contexts[index]):
            runtime._replay(shard, JournalEntry(-1, key, value), index)
        return shard

    def entries(self, topic: str, index: int) -> list[JournalEntry]:
        """Everything in the log, committed or not: the live shard has applied it all."""
        log = self._broker.partitions.get(topic, index).log
        assert log is not None
        view = SimpleNamespace(high_watermark=log.log_end_offset, leading_log=lambda: log)
        replicas: Any = SimpleNamespace(find=lambda topic, index: view)
        return list(PartitionJournal(topic, replicas, self._broker.clock, 0).read(index))

    def offsets_never_go_back(self) -> None:
        process = self._broker.process
        assert process is not None
        runtime = process.groups.runtime
        for index in runtime.partitions():
            shard = runtime._new_shard(index)
            for entry in self.entries(runtime.name, index):
                touched = [place for place in _touched(shard, entry) if place not in self._possible]
                before = {place: shard.offsets.get(*place) for place in touched}
                runtime._replay(shard, entry, index)
                for place, old in before.items():
                    new = shard.offsets.get(*place)
                    if old is not None and new is not None:
                        require(
                            new.offset >= old.offset, "an offset went back", place, old, new, entry.offset
                        )

    # --- groups of the new protocol ---------------------------------------------------------------

    def consumer_groups_are_sound(self, clients: list[Any]) -> None:
        process = self._broker.process
        if process is None:
            return
        for index in process.groups.runtime.partitions():
            for group in process.groups.runtime.shard(index).groups.values():
                if isinstance(group, ConsumerGroup):
                    self._check_group(group)
                    self._check_clients(group, [c for c in clients if c.group == group.group_id])

    def _check_group(self, group: ConsumerGroup) -> None:
        self.counts["consumer groups"] += 1
        counts = Counter(
            partition
            for member in group.members.values()
            for partitions in (member.assigned, member.pending_revocation)
            for partition in partitions
        )
        twice = [partition for partition, count in counts.items() if count > 1]
        require(not twice, "a partition with two owners", group.group_id, twice)
        require(counts.keys() == group.owners.keys(), "owners are not those who own", group.group_id)
        epochs = [member.member_epoch for member in group.members.values()]
        require(group.assignment_epoch <= group.group_epoch, "a target of the future", group.group_id)
        require(max(epochs, default=0) <= group.assignment_epoch, "a member of the future", group.group_id)

    def _check_clients(self, group: ConsumerGroup, clients: list[Any]) -> None:
        """Clients that the group still knows read nothing that it did not give them."""
        for client in clients:
            member = group.members.get(client.member_id)
            if member is not None and member.classic is None:
                known = member.assigned.keys() | member.pending_revocation.keys()
                require(
                    client.owned <= known,
                    "a member reads what it does not have",
                    client.name,
                    client.owned,
                    known,
                )

    # --- the end ----------------------------------------------------------------------------------

    def everything_has_ended(self) -> None:
        """Nothing is open any more: no transaction, no offset that waits for one, no unstable record."""
        process = self._broker.process
        assert process is not None
        for index in process.transactions.coordinator.runtime.partitions():
            shard = process.transactions.coordinator.runtime.shard(index)
            open_ids = {k: v for k, v in shard.transactions.items() if v.state not in IDLE}
            require(not open_ids, "a transaction is open for ever", open_ids)
        for index in process.groups.runtime.partitions():
            pending = process.groups.runtime.shard(index).offsets.pending
            require(not pending, "offsets wait for ever", pending)
        for partition in self._broker.partitions.all():
            log = partition.log
            assert log is not None
            stable = log.stable_offset_below(partition.high_watermark)
            require(
                stable == log.log_end_offset,
                "the last stable offset is stuck",
                partition.topic_partition,
                stable,
                log.log_end_offset,
            )

    def transactions_are_whole(self, visible: dict[tuple[str, int], list[Any]]) -> None:
        """``visible`` is all that readers of committed data can see, by partition."""
        seen: Counter[tuple[str, int, str]] = Counter()
        found: Counter[str] = Counter()
        for (topic, partition), records in visible.items():
            for record in records:
                seen[topic, partition, record.value] += 1
                found[record.key] += 1
        twice = [place for place, count in seen.items() if count > 1]
        require(not twice, "a record is there twice", twice)
        for attempt in self.attempts.values():
            there = sum(seen[place] for place in attempt.written)
            facts = (attempt, there, found[attempt.name])
            if attempt.outcome is True:
                require(
                    there == len(attempt.written) == found[attempt.name], "committed, but not there", *facts
                )
            elif attempt.outcome is False or not attempt.commit_asked:
                require(found[attempt.name] == 0, "never committed, but there", *facts)
            else:
                require(found[attempt.name] in (0, len(attempt.written)), "a torn transaction", *facts)
            self.counts[f"transactions {attempt.outcome}"] += 1


# --- state ----------------------------------------------------------------------------------------


def hard_state(shard: Any) -> dict[str, Any]:
    """The hard state of a shard of either coordinator."""
    if isinstance(shard, TransactionShard):
        return {"transactions": shard.transactions, "open": shard._open}
    assert isinstance(shard, GroupShard)
    groups: dict[str, Any] = {}
    for name, group in shard.groups.items():
        if isinstance(group, ClassicGroup):
            if group.established:
                groups[name] = group.recorded
        else:
            groups[name] = {key: value for key, value in vars(group).items() if key not in _SOFT_STATE}
    return {**groups, "committed": shard.offsets.committed, "pending": shard.offsets.pending}


def settled_groups(live: GroupShard, shown: GroupShard) -> dict[str, Any]:
    """The classic groups of ``shown`` that are not rebalancing in the live shard, member by member."""
    found: dict[str, Any] = {}
    for name, group in live.groups.items():
        if isinstance(group, ClassicGroup) and group.established and group.state in _SETTLED:
            other = shown.groups.get(name)
            assert isinstance(other, ClassicGroup)
            found[name] = (
                other.state,
                other.generation,
                other.protocol_type,
                other.protocol_name,
                other.leader,
                other.subscribed_topics,
                other.static_members,
                other.metadata(other.assignments()).members,
            )
    return found


def _differences(live: dict[str, Any], fresh: dict[str, Any]) -> list[str]:
    return [
        f"{key}: {live.get(key)} is not {fresh.get(key)}"
        for key in sorted({*live, *fresh})
        if live.get(key) != fresh.get(key)
    ]


def _touched(shard: GroupShard, entry: JournalEntry) -> list[OffsetKey]:
    """The places that an entry of the log may change."""
    if entry.committed is not None:
        assert entry.producer is not None
        return list(shard.offsets.pending.get(entry.producer.producer_id, ()))
    record = None if entry.key is None else shard.decode(entry.key, entry.value)
    if isinstance(record, OffsetCommit) and entry.producer is None:
        return [(record.group_id, record.topic, record.partition)]
    return []
