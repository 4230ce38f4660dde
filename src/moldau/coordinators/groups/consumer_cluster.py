"""The cluster as the consumer groups of one shard see it: topics by version, their hashes, what matches.

Law: a memory of answers that hold for one version of the topics, and of nothing else.
"""

from collections.abc import Iterable

from moldau.base.names import Uuid
from moldau.coordinators.groups.metadata_hash import group_hash, topic_hash
from moldau.coordinators.groups.regular_expressions import compile_expression
from moldau.coordinators.groups.surroundings import ConsumerConfig, Surroundings, Topic, Topics


class ClusterView:
    def __init__(self, surroundings: Surroundings) -> None:
        self._surroundings = surroundings
        #: Grows whenever topics come, go or get more partitions.
        self.version = 0
        self._hashes: dict[str, int] = {}
        self._matching: dict[str, tuple[str, ...]] = {}

    def changed(self) -> None:
        self.version += 1
        self._hashes.clear()
        self._matching.clear()

    @property
    def topics(self) -> Topics:
        return self._surroundings.topics()

    def config_of(self, group_id: str) -> ConsumerConfig:
        return self._surroundings.config_of(group_id)

    def existing(self, names: Iterable[str]) -> list[Topic]:
        topics = self.topics
        return [topic for name in names if (topic := topics.by_name(name)) is not None]

    def ids(self, names: Iterable[str]) -> frozenset[Uuid]:
        return frozenset(topic.topic_id for topic in self.existing(names))

    def hash_of(self, names: Iterable[str]) -> int:
        """The hash of those topics that exist."""
        hashes = {}
        for topic in self.existing(names):
            known = self._hashes.get(topic.name)
            if known is None:
                known = self._hashes[topic.name] = topic_hash(*topic)
            hashes[topic.name] = known
        return group_hash(hashes)

    def matching(self, expression: str) -> tuple[str, ...]:
        """The names that an expression matches, in order."""
        found = self._matching.get(expression)
        if found is None:
            matches = compile_expression(expression).matches
            found = tuple(sorted(name for name in self.topics.names() if matches(name)))
            self._matching[expression] = found
        return found
