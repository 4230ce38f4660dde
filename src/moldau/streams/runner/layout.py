"""Which tasks an application has, what each reads, and which topics of its own it needs.

Invariant: pure. A task is a group of operators and a partition number. Groups are Kafka Streams'
sub-topologies; where every topic has one partition they are one group, and records that would go through a
repartition topic stay in memory.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from moldau.base.names import TopicPartition
from moldau.streams.engine.task import Task
from moldau.streams.errors import TopologyError
from moldau.streams.topology.copartitioning import PartitionCount, repartition_counts
from moldau.streams.topology.topology import SourceNode, Topology

#: Topics that only the application itself reads.
_REPARTITION_CONFIGS: dict[str, str | None] = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "segment.bytes": str(50 * 1024 * 1024),
    "message.timestamp.type": "CreateTime",
}
_STATE_CONFIGS: dict[str, str | None] = {
    "cleanup.policy": "compact",
    "segment.bytes": str(16 * 1024 * 1024),
    "min.cleanable.dirty.ratio": "0.3",
    "message.timestamp.type": "CreateTime",
}


@dataclass(frozen=True, slots=True)
class Group:
    """Operators that run together, once for each partition."""

    number: int
    nodes: tuple[str, ...]
    #: As they are called in the cluster; topics of the same number of partitions or fewer.
    topics: tuple[str, ...]
    global_topics: tuple[str, ...]
    tasks: int
    #: None where there is nothing to remember.
    state_topic: str | None


@dataclass(frozen=True, slots=True)
class InternalTopic:
    name: str
    partitions: int
    configs: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Layout:
    application_id: str
    groups: tuple[Group, ...]
    partitions: Mapping[str, int]
    internal_topics: tuple[InternalTopic, ...]
    #: Whether records for repartition topics stay in the task.
    in_memory: bool
    #: The shortest interval of punctuation by wall clock; None where there is none.
    clock_ms: int | None

    def places(self, group: Group, partition: int) -> list[TopicPartition]:
        """What a task reads."""
        return [TopicPartition(t, partition) for t in group.topics if partition < self.partitions[t]]

    def global_places(self, group: Group) -> list[TopicPartition]:
        return [TopicPartition(t, p) for t in group.global_topics for p in range(self.partitions[t])]

    def all_places(self) -> list[TopicPartition]:
        topics = sorted({t for group in self.groups for t in (*group.topics, *group.global_topics)})
        return [TopicPartition(topic, p) for topic in topics for p in range(self.partitions[topic])]

    def task_number(self, group: Group, partition: int) -> int:
        """Numbers all tasks of the application."""
        return sum(each.tasks for each in self.groups if each.number < group.number) + partition


def full_name(application_id: str, topology: Topology, topic: str) -> str:
    """A topic as it is called in the cluster: those between tasks have the application's name in front."""
    return f"{application_id}-{topic}" if topic in topology.repartition_topics else topic


def state_topic_name(application_id: str, group: int) -> str:
    """Ends as changelogs do, so that Kafka's own reset tool finds it."""
    return f"{application_id}-tasks-{group}-changelog"


def source_topics(topology: Topology) -> list[str]:
    """The topics that must be there before the application starts."""
    return sorted(t for s in topology.sources() for t in s.topics if t not in topology.repartition_topics)


def laid_out(
    topology: Topology, application_id: str, partitions: Mapping[str, int], *, in_memory: bool | None = None
) -> Layout:
    """The layout for topics with these numbers of partitions.

    ``in_memory`` of None: where every topic has one partition. TopologyError where topics do not fit.
    """
    counts = {topic: partitions[topic] for topic in source_topics(topology)}
    global_topics = {t for s in topology.sources() if s.name in topology.global_sources for t in s.topics}
    one = all(count == 1 for topic, count in counts.items() if topic not in global_topics)
    explicit = any((each.partitions or 1) > 1 for each in topology.repartition_topics.values())
    if in_memory and not one:
        raise TopologyError(
            "records can stay in memory between sub-topologies only where every topic has one partition",
            "Leave the setting out: they then go through topics.",
        )
    in_memory = (one and not explicit) if in_memory is None else in_memory
    if in_memory:
        counts |= dict.fromkeys(topology.repartition_topics, 1)
    else:
        _count_repartitions(topology, counts)
    names = {topic: full_name(application_id, topology, topic) for topic in counts}
    groups = _groups(topology, application_id, counts, names, global_topics, in_memory)
    internal = [
        InternalTopic(names[topic], counts[topic], _REPARTITION_CONFIGS)
        for topic in topology.repartition_topics
        if not in_memory
    ]
    internal += [
        InternalTopic(group.state_topic, group.tasks, _STATE_CONFIGS) for group in groups if group.state_topic
    ]
    task = Task(topology)
    waits = [each.interval_ms for each in task.context.scheduler.schedules if each.kind == "wall_clock_time"]
    read = {t for group in groups for t in (*group.topics, *group.global_topics)}
    return Layout(
        application_id,
        tuple(groups),
        {names[topic]: count for topic, count in counts.items() if names[topic] in read},
        tuple(internal),
        in_memory,
        min(waits) if waits else None,
    )


def _groups(
    topology: Topology,
    application_id: str,
    counts: Mapping[str, int],
    names: Mapping[str, str],
    global_topics: set[str],
    in_memory: bool,
) -> list[Group]:
    parts = [part.nodes for part in topology.sub_topologies() if not part.is_global]
    of_globals = tuple(n for part in topology.sub_topologies() if part.is_global for n in part.nodes)
    if in_memory:
        parts = [tuple(topology.nodes)]
    found = []
    for number, nodes in enumerate(parts):
        topics = [
            topic
            for name in nodes
            if isinstance(source := topology.nodes[name], SourceNode)
            for topic in source.topics
            if topic not in global_topics and not (in_memory and topic in topology.repartition_topics)
        ]
        wants_globals = bool(of_globals) and (in_memory or _reads_globals(topology, nodes))
        all_nodes = tuple(dict.fromkeys((*of_globals, *nodes))) if wants_globals else nodes
        found.append(
            Group(
                number,
                all_nodes,
                tuple(names[topic] for topic in topics),
                tuple(names[topic] for topic in sorted(global_topics)) if wants_globals else (),
                max((counts[topic] for topic in topics), default=1),
                # With several topics, one may wait for another: how far each was taken is state, too.
                state_topic_name(application_id, number)
                if len(topics) > 1 or _remembers(topology, all_nodes)
                else None,
            )
        )
    return found


def _reads_globals(topology: Topology, nodes: tuple[str, ...]) -> bool:
    """Whether operators look into global tables, which other operators keep."""
    if not any(store.is_global for store in topology.stores.values()):
        return False
    try:
        Task(topology, nodes)
    except LookupError:
        return True
    return False


def _remembers(topology: Topology, nodes: tuple[str, ...]) -> bool:
    task = Task(topology, nodes)
    own = [name for name in task.stores if not topology.stores[name].is_global]
    has_extractor = any(
        source.timestamp_extractor is not None for source in topology.sources() if source.name in nodes
    )
    state = task.export()
    return bool(own or state.operators or task.context.scheduler.schedules or has_extractor)


def _count_repartitions(topology: Topology, counts: dict[str, int]) -> None:
    """Numbers for repartition topics: asked for, those of what they are joined with, or the largest before
    them.
    """
    for topic, each in topology.repartition_topics.items():
        if each.partitions is not None:
            counts[topic] = each.partitions
    for _ in topology.repartition_topics:
        for joined in topology.copartition_groups:
            group: dict[str, PartitionCount] = {}
            for name in joined:
                node = topology.nodes.get(name)
                for topic in node.topics if isinstance(node, SourceNode) else ():
                    inside = topic in topology.repartition_topics
                    group[topic] = PartitionCount(counts.get(topic), is_repartition=inside)
            counts.update(repartition_counts(group))
        for part in topology.sub_topologies():
            read = [
                counts[topic]
                for name in part.nodes
                if isinstance(source := topology.nodes[name], SourceNode)
                for topic in source.topics
                if topic in counts
            ]
            for sink in topology.sinks():
                sent = sink.topic or ""
                if sink.name not in part.nodes or sent not in topology.repartition_topics or not read:
                    continue
                if topology.repartition_topics[sent].partitions is None and not _is_joined(topology, sent):
                    counts[sent] = max(counts.get(sent, 0), *read)
    for topic in topology.repartition_topics:
        counts.setdefault(topic, max(counts.values(), default=1))


def _is_joined(topology: Topology, topic: str) -> bool:
    """Whether the number of partitions follows from what the topic is joined with."""
    source = topology.source_of(topic)
    return source is not None and any(
        source.name in group and len(group) > 1 for group in topology.copartition_groups
    )
