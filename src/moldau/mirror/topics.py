"""The topics of a flow: which there are at the source, and their counterparts at the target.

Invariant: a topic of the target that is not a mirror of this flow is never written to, widened or deleted.
What changes at the source is followed: new topics, new partitions, configs, and deletions where that was
asked for. A topic that was deleted and made again at the source is another topic, and is said so.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from moldau.base.names import TopicPartition, Uuid, format_uuid
from moldau.client.admin.admin import Admin, raise_errors
from moldau.client.admin.descriptions import (
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    ResourceType,
)
from moldau.client.transport.cluster import Cluster, Topic
from moldau.mirror.rules.properties import FlowSettings
from moldau.protocol.errors import ErrorCode, KafkaError

log = logging.getLogger("moldau.mirror")

STATE = "moldau.mirror.state"
SOURCE = "moldau.mirror.source"
#: A topic with this has no room for any batch: it takes no more writes, and can be read as before. A cut-over
#: closes topics like this; it is not copied.
FENCE = ("max.message.bytes", "1")
#: Configs of mirrors themselves: never copied, never taken away.
OWN_CONFIGS = frozenset({STATE, SOURCE})


@dataclass(frozen=True, slots=True)
class MirroredTopic:
    """A topic of the source and what it is called at the target."""

    source: str
    target: str
    topic_id: Uuid
    partition_count: int


class TopicsChanged(Exception):
    """The source has another topic under a name by now, or none: the flow has to look at its topics again."""


@dataclass(slots=True)
class FlowTopics:
    """What a flow copies now, and what it cannot."""

    mirrored: dict[str, MirroredTopic] = field(default_factory=dict)
    #: Name at the source -> why it is not copied.
    refused: dict[str, str] = field(default_factory=dict)

    def target_partition(self, partition: TopicPartition) -> TopicPartition:
        return TopicPartition(self.mirrored[partition.topic].target, partition.partition)

    def partitions(self) -> list[TopicPartition]:
        """All partitions, by their names at the source."""
        return [
            TopicPartition(topic.source, index)
            for topic in self.mirrored.values()
            for index in range(topic.partition_count)
        ]

    def by_target(self) -> dict[str, MirroredTopic]:
        return {topic.target: topic for topic in self.mirrored.values()}

    def check(self, source: Cluster, names: Iterable[str]) -> None:
        """``TopicsChanged`` where what the source is known to have is not what the flow copies.

        A topic that was deleted and made again goes by the same name, and the offsets of the old one mean
        other records in it: whatever was asked by name counts only if this is true afterwards.
        """
        for name in names:
            if source.topic_id(name) != self.mirrored[name].topic_id:
                raise TopicsChanged(f"topic {name} was deleted, or made again, at the source")


def is_copied(settings: FlowSettings, name: str) -> bool:
    """Whether a topic of the source goes over the flow."""
    policy = settings.policy
    if policy.would_loop(name, settings.target):
        return False
    if policy.is_heartbeats(name):
        # Where two aliases stand for one cluster its own heartbeats would come back for ever.
        return settings.replicate_heartbeats and settings.source not in policy.hops(name)
    return not policy.is_internal(name) and name in settings.topics


def source_of(settings: FlowSettings, cluster_id: str | None, topic_id: Uuid) -> str:
    """The value of ``moldau.mirror.source``."""
    return f"{settings.source}/{cluster_id or ''}/{format_uuid(topic_id)}"


async def source_topics(settings: FlowSettings, source: Cluster, *, exact: bool) -> dict[str, Topic]:
    """The topics of the source that go over the flow, as they are now."""
    found = await source.topics(None)
    chosen = {}
    for topic in found:
        if topic.error_code or topic.is_internal or not is_copied(settings, topic.name):
            continue
        if exact and settings.policy.is_heartbeats(topic.name):
            continue
        chosen[topic.name] = topic
    return chosen


async def own_configs(cluster: Cluster, names: Iterable[str]) -> dict[str, dict[str, str]]:
    """The configs that topics have set themselves."""
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
    if not resources:
        return {}
    found = await Admin(cluster).describe_configs(resources)
    configs: dict[str, dict[str, str]] = {}
    for resource, entries in found.items():
        if isinstance(entries, list):
            configs[resource.name] = {
                entry.name: entry.value
                for entry in entries
                if entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG and entry.value is not None
            }
    return configs


class TopicSync:
    """Keeps the topics of the target as those of the source. ``exact``: they are mirrors with offsets."""

    def __init__(self, settings: FlowSettings, source: Cluster, target: Cluster, *, exact: bool) -> None:
        self.settings = settings
        self._source = source
        self._target = target
        self._exact = exact
        self._said: dict[str, str] = {}

    def _name(self, source_name: str) -> str:
        return self.settings.policy.remote_topic(self.settings.source, source_name)

    async def refresh(self, *, change: bool = True) -> FlowTopics:
        """Looks at both sides; with ``change`` makes what is missing at the target."""
        found = await source_topics(self.settings, self._source, exact=self._exact)
        topics = FlowTopics()
        existing = {t.name: t for t in await self._target.topics(None) if not t.error_code}
        known = {name: self._name(name) for name in found}
        theirs = await own_configs(self._target, [t for t in known.values() if t in existing])
        for name, topic in found.items():
            target_name = known[name]
            problem = self._problem(topic, target_name, existing, theirs.get(target_name, {}))
            if problem is not None:
                if (
                    self._exact
                    and problem == _RECREATED
                    and self.settings.on_recreated == "replace"
                    and change
                ):
                    await self._replace(target_name)
                    existing.pop(target_name, None)
                else:
                    topics.refused[name] = problem
                    self._say(name, problem)
                    continue
            self._said.pop(name, None)
            if target_name not in existing:
                if not change:
                    continue
                await self._create(topic, target_name)
            elif change and len(existing[target_name].partitions) < len(topic.partitions):
                await self._widen(target_name, len(topic.partitions))
            topics.mirrored[name] = MirroredTopic(name, target_name, topic.topic_id, len(topic.partitions))
        if change and self.settings.sync_deletes:
            await self._delete_gone(found, existing)
        return topics

    def _say(self, name: str, problem: str) -> None:
        if self._said.get(name) != problem:
            self._said[name] = problem
            log.error("%s: topic %s is not copied: %s", self.settings.name, name, problem)

    def _problem(
        self, topic: Topic, target_name: str, existing: Mapping[str, Topic], theirs: Mapping[str, str]
    ) -> str | None:
        if target_name not in existing:
            return None
        if len(existing[target_name].partitions) > len(topic.partitions):
            return (
                f"{target_name} has {len(existing[target_name].partitions)} partitions at the target, "
                f"{len(topic.partitions)} at the source"
            )
        if not self._exact:
            return None
        state = theirs.get(STATE, "none")
        if state != "mirror":
            why = "is being promoted" if state == "stopped" else "is an ordinary topic at the target"
            return f"{target_name} {why}: delete it, or demote it with `moldau mirror demote`"
        wanted = source_of(self.settings, self._source.cluster_id, topic.topic_id)
        have = theirs.get(SOURCE, "")
        if have.rpartition("/")[2] != wanted.rpartition("/")[2]:
            return _RECREATED
        return None

    async def _create(self, topic: Topic, name: str) -> None:
        configs: dict[str, str | None] = dict(await self._configs_of(topic.name))
        if self._exact:
            configs[STATE] = "mirror"
            configs[SOURCE] = source_of(self.settings, self._source.cluster_id, topic.topic_id)
        new = NewTopic(name, len(topic.partitions), self.settings.replication_factor, configs=configs)
        outcome = (await Admin(self._target).create_topics([new]))[name]
        if isinstance(outcome, KafkaError) and outcome.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise KafkaError(outcome.code, f"{name} cannot be made at the target: {outcome.message}")
        log.info("%s: made %s with %d partitions", self.settings.name, name, len(topic.partitions))
        await self._target.retry(lambda: self._target.topic(name, refresh=True))

    async def _widen(self, name: str, count: int) -> None:
        raise_errors(await Admin(self._target).create_partitions({name: NewPartitions(count)}))
        log.info("%s: %s has %d partitions now", self.settings.name, name, count)
        await self._target.retry(lambda: self._target.topic(name, refresh=True))

    async def _replace(self, name: str) -> None:
        log.warning("%s: %s was made anew at the source: its mirror is replaced", self.settings.name, name)
        raise_errors(await Admin(self._target).delete_topics([name]))

    async def _delete_gone(self, found: Mapping[str, Topic], existing: Mapping[str, Topic]) -> None:
        """Deletes mirrors of this flow whose source is gone; only with offsets a mirror can be told."""
        if not self._exact:
            return
        expected = {self._name(name) for name in found}
        configs = await own_configs(self._target, [name for name in existing if name not in expected])
        ours, prefix = f"{self.settings.source}/{self._source.cluster_id or ''}/", self._name("")
        mirrors = {
            name.removeprefix(prefix): name
            for name, own in configs.items()
            if own.get(STATE) == "mirror" and own.get(SOURCE, "").startswith(ours) and name.startswith(prefix)
        }
        # What is not copied any more may be left out by the flow, or not be shown to its user: only the
        # cluster's own word that there is no such topic counts.
        for topic in await self._source.topics(mirrors) if mirrors else ():
            if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                name = mirrors[topic.name]
                log.warning("%s: %s was deleted at the source, and is here too", self.settings.name, name)
                raise_errors(await Admin(self._target).delete_topics([name]))

    async def _configs_of(self, name: str) -> dict[str, str]:
        """What the mirror of a topic should have set."""
        found = (await own_configs(self._source, [name])).get(name, {})
        excluded = self.settings.configs_exclude
        if self._exact:
            # Where offsets are kept timestamps are too: their type has to be the same.
            keep = {k: v for k, v in found.items() if k == "message.timestamp.type" or k not in excluded}
        else:
            keep = {k: v for k, v in found.items() if k not in excluded}
        return {k: v for k, v in keep.items() if k not in OWN_CONFIGS and (k, v) != FENCE}

    async def _is_closed(self, name: str) -> bool:
        """Whether a cut-over has closed the topic at the source: what it had before is at the target."""
        found = (await own_configs(self._source, [name])).get(name, {})
        return found.get(FENCE[0]) == FENCE[1]

    async def sync_configs(self, topics: FlowTopics) -> None:
        """Sets what the source has set and takes away what it has not."""
        theirs = await own_configs(self._target, [t.target for t in topics.mirrored.values()])
        changes: dict[ConfigResource, list[ConfigChange]] = {}
        for topic in topics.mirrored.values():
            have = theirs.get(topic.target, {})
            if self._exact and have.get(STATE) != "mirror":
                continue  # it was promoted meanwhile
            wanted = await self._configs_of(topic.source)
            kept = OWN_CONFIGS | {FENCE[0]} if await self._is_closed(topic.source) else OWN_CONFIGS
            differences = [
                ConfigChange(name, ConfigOperation.SET, value)
                for name, value in wanted.items()
                if have.get(name) != value
            ] + [
                ConfigChange(name, ConfigOperation.DELETE)
                for name in have
                if name not in wanted and name not in kept and name not in self.settings.configs_exclude
            ]
            if differences:
                changes[ConfigResource(ResourceType.TOPIC, topic.target)] = differences
        for resource, error in (
            await Admin(self._target).incremental_alter_configs(changes) if changes else {}
        ).items():
            if error is not None:
                log.error("%s: the configs of %s are not taken: %s", self.settings.name, resource.name, error)


_RECREATED = (
    "it was deleted and made again at the source, so that its offsets mean other records. Delete the mirror, "
    "or set moldau.on.recreated=replace (--recreated replace) to have that done"
)
