"""A whole cluster moved to Moldau: planned, copied, compared, cut over, and back if need be.

The mirror keeps a copy with the same offsets while everybody still uses the old cluster. The cut-over closes
the old topics for writers, waits until the rest is copied, compares where both end and promotes the copies:
writers pause for that long and no longer. Groups go on where they were.

Invariant: until the cut-over the old cluster is only read. What the cut-over changes is written to the state
file before, so that a rollback, also after a crash, sets it as it was, and a cut-over that was interrupted is
finished by running it again. A topic never takes writes at both clusters: from the first copy that may be
promoted on, the old topics stay closed until a rollback has made mirrors of the copies.
"""

import asyncio
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from moldau.base.names import TopicPartition
from moldau.client.admin.admin import Admin, raise_errors
from moldau.client.admin.descriptions import (
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ResourceType,
)
from moldau.client.groups.groups import Groups
from moldau.client.transport.cluster import Cluster
from moldau.mirror.exact_target import ExactTarget, MirrorPlace
from moldau.mirror.groups import GroupSync
from moldau.mirror.promotion import demote, mirror_states, promote
from moldau.mirror.rules.properties import FlowSettings
from moldau.mirror.source import Bounds, source_bounds
from moldau.mirror.topics import FENCE, TopicSync, own_configs, source_topics
from moldau.protocol.errors import ErrorCode, KafkaError


@dataclass(slots=True)
class MigrationState:
    """What a migration has done so far; kept in a file."""

    source: str
    target: str
    topics: list[str] = field(default_factory=list)
    #: Which groups move, as in ``--groups``.
    groups: str = ".*"
    #: Topic -> its ``max.message.bytes`` before the cut-over, None where it had none of its own.
    fenced: dict[str, str | None] = field(default_factory=dict)
    #: Topic -> where its partitions ended at the cut-over.
    ends: dict[str, list[int]] = field(default_factory=dict)
    phase: str = "planned"

    def save(self, path: Path) -> None:
        text = json.dumps(asdict(self), indent=2) + "\n"
        new = path.with_suffix(f"{path.suffix}.new")
        new.write_text(text, "utf-8")
        new.replace(path)

    @classmethod
    def load(cls, path: Path) -> "MigrationState":
        """ValueError when the file is not one of ours."""
        try:
            return cls(**json.loads(path.read_text("utf-8")))
        except FileNotFoundError:
            raise ValueError(f"{path} is not there: begin with `moldau migrate plan`") from None
        except (TypeError, json.JSONDecodeError) as error:
            raise ValueError(f"{path} is not the state of a migration: {error}") from None


@dataclass(frozen=True, slots=True)
class TopicPlan:
    name: str
    partitions: int
    records: int
    configs: dict[str, str]
    #: What stands in the way; None where nothing does.
    problem: str | None


@dataclass(frozen=True, slots=True)
class Plan:
    topics: list[TopicPlan]
    groups: list[str]
    #: Topics of the target that the source does not have.
    only_at_target: list[str]


async def plan(flow: FlowSettings, source: Cluster, target: Cluster) -> Plan:
    """What would be copied, and what differs."""
    found = await source_topics(flow, source, exact=True)
    sync = await TopicSync(flow, source, target, exact=True).refresh(change=False)
    configs = await own_configs(source, found)
    there = {t.name for t in await target.topics(None) if not t.error_code and not t.is_internal}
    topics = []
    for name, topic in sorted(found.items()):
        partitions = [TopicPartition(name, each.index) for each in topic.partitions]
        bounds = await source_bounds(source, partitions)
        records = sum(end - start for start, end in bounds.values())
        topics.append(
            TopicPlan(name, len(partitions), records, configs.get(name, {}), sync.refused.get(name))
        )
    groups = sorted({g.group_id for g in await Groups(source).list() if g.group_id in flow.groups})
    return Plan(topics, groups, sorted(there - set(found)))


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    topic: str
    partition: int
    source: Bounds
    #: None where there is no mirror.
    target: MirrorPlace | None

    @property
    def lag(self) -> int:
        if self.target is None:
            return self.source.end - self.source.start
        return max(0, self.source.end - max(self.target.log_end_offset, self.source.start))


async def status(source: Cluster, target: Cluster, topics: Iterable[str]) -> list[PartitionStatus]:
    """How far each partition is."""
    names = list(topics)
    states = await mirror_states(target, names)
    found: list[PartitionStatus] = []
    for name in names:
        partitions = [
            TopicPartition(name, each.index) for each in (await source.topic(name, refresh=True)).partitions
        ]
        bounds = await source_bounds(source, partitions)
        places: dict[TopicPartition, MirrorPlace | KafkaError] = {}
        if states[name][0] == "mirror":
            await target.topic(name, refresh=True)
            places = await ExactTarget(target).places(partitions)
        for partition in partitions:
            place = places.get(partition)
            if partition in bounds:
                found.append(
                    PartitionStatus(
                        name,
                        partition.partition,
                        bounds[partition],
                        place if isinstance(place, MirrorPlace) else None,
                    )
                )
    return found


@dataclass(frozen=True, slots=True)
class CutOver:
    """What the cut-over did, and how long nobody could write."""

    seconds: float
    topics: int
    partitions: int
    groups: int


async def cut_over(
    flow: FlowSettings,
    source: Cluster,
    target: Cluster,
    state: MigrationState,
    path: Path,
    *,
    fence: bool = True,
    timeout_seconds: float = 30.0,
) -> CutOver:
    """Closes the old topics, waits for the mirror, promotes the copies.

    The mirror has to be running. REQUEST_TIMED_OUT when it does not catch up: then the old topics are open
    again and nothing has changed. Topics that an earlier attempt may have promoted are only finished.
    """
    waiting = [name for name in state.topics if name not in state.ends]
    behind = sum(each.lag for each in await status(source, target, waiting))
    began = asyncio.get_running_loop().time()
    try:
        if fence:
            await _fence(source, state, path)
        found = await _wait_until_equal(source, target, waiting, began + timeout_seconds, behind)
        groups = await _move_groups(flow, source, target, found)
    except BaseException:
        if fence and not state.ends:
            await unfence(source, state, path)
        raise
    for each in found:
        state.ends.setdefault(each.topic, []).append(each.source.end)
    state.save(path)
    for name in state.topics:
        if (await mirror_states(target, [name]))[name][0] != "none":
            state.ends[name] = list((await promote(target, name)).ends)
            state.save(path)
    seconds = asyncio.get_running_loop().time() - began
    state.phase = "cut over"
    state.save(path)
    return CutOver(seconds, len(state.topics), sum(map(len, state.ends.values())), groups)


async def _fence(source: Cluster, state: MigrationState, path: Path) -> None:
    configs = await own_configs(source, state.topics)
    for name in state.topics:
        state.fenced.setdefault(name, configs.get(name, {}).get(FENCE[0]))
    state.phase = "cutting over"
    state.save(path)
    await _alter(source, dict.fromkeys(state.topics, FENCE[1]))


async def unfence(source: Cluster, state: MigrationState, path: Path) -> None:
    """Opens the old topics for writers again."""
    if state.fenced:
        await _alter(source, state.fenced)
    state.fenced = {}
    state.phase = "copying"
    state.save(path)


async def _alter(cluster: Cluster, values: "dict[str, str] | dict[str, str | None]") -> None:
    changes = {
        ConfigResource(ResourceType.TOPIC, name): [
            ConfigChange(FENCE[0], ConfigOperation.DELETE)
            if value is None
            else ConfigChange(FENCE[0], ConfigOperation.SET, value)
        ]
        for name, value in values.items()
    }
    raise_errors(await Admin(cluster).incremental_alter_configs(changes))


async def _wait_until_equal(
    source: Cluster, target: Cluster, topics: list[str], deadline: float, behind: int
) -> list[PartitionStatus]:
    """Twice in a row both sides end at the same offsets, and the source has not moved in between."""
    before: list[int] | None = None
    while True:
        found = await status(source, target, topics)
        unknown = sum([len((await source.topic(name)).partitions) for name in topics]) - len(found)
        ends = [each.source.end for each in found]
        equal = all(each.target is not None and each.lag == 0 for each in found)
        if equal and not unknown and ends == before:
            return found
        before = ends
        if asyncio.get_running_loop().time() >= deadline:
            lag = sum(each.lag for each in found)
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"the mirror is {lag} records behind (it was {behind} when the cut-over began)"
                + (f", and {unknown} partitions of the source cannot be asked" if unknown else "")
                + ": is `moldau migrate start` running, and have the writers stopped?",
            )
        await asyncio.sleep(0.05)


async def _move_groups(
    flow: FlowSettings, source: Cluster, target: Cluster, found: list[PartitionStatus]
) -> int:
    """The last word on where groups are, before anybody reads at the target."""
    ends = {TopicPartition(each.topic, each.partition): each.source.end for each in found}

    def same(partition: TopicPartition, offset: int) -> tuple[TopicPartition, int] | None:
        return (partition, min(offset, ends[partition])) if partition in ends else None

    sync = GroupSync(source, target, flow.groups, same)
    positions = await sync.positions()
    await sync.write(positions)
    return len({each.group for each in positions})


async def roll_back(
    flow: FlowSettings,
    source: Cluster,
    target: Cluster,
    state: MigrationState,
    path: Path,
    *,
    discard: bool = False,
) -> int:
    """Back to the old cluster: its topics take writes, and the copies are mirrors again.

    What was written to the copies since the cut-over is not at the old cluster: unless ``discard`` says that
    it may go, its presence is an error. Returns how many such records there were.
    """
    written = 0
    for name, ends in state.ends.items():
        partitions = [TopicPartition(name, index) for index in range(len(ends))]
        bounds = await source_bounds(target, partitions)
        written += sum(max(0, bounds[p].end - ends[p.partition]) for p in partitions if p in bounds)
    if written and not discard:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"{written} records were written to the new cluster since the cut-over, and the old one does not "
            "have them: --discard-writes lets them go",
        )
    # First the copies are closed, so that at no time both clusters take writes.
    for name in list(state.ends):
        await demote(target, name, flow, source)
        del state.ends[name]
        state.save(path)
    await unfence(source, state, path)
    return written
