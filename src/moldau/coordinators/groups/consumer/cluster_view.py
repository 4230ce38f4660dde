"""The topics of the cluster for the consumer groups of one shard: ids, hashes, and names that match a regex.

Invariant: caches are valid for one version of the topics and are cleared when topics change.
"""

from collections.abc import Iterable

from moldau.base.names import Uuid
from moldau.base.re2.regular_expressions import BadExpression, Program, compile_expression
from moldau.coordinators.groups.consumer.metadata_hash import group_hash, topic_hash
from moldau.coordinators.groups.environment import ConsumerConfig, Environment, Topic, Topics
from moldau.protocol.errors import ErrorCode, KafkaError

#: Bound of the caches of topic ids and of matching names.
_MOST_SUBSCRIPTIONS = 1_000


def subscription_program(expression: str) -> Program:
    """The compiled regular expression of a subscription; KafkaError when it is invalid."""
    try:
        return compile_expression(expression)
    except BadExpression as error:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{expression}` is not a valid regular expression: {error}.",
        ) from None


class ClusterView:
    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        #: Grows whenever topics are created, deleted or get more partitions.
        self.version = 0
        self._hashes: dict[str, int] = {}
        self._matching: dict[str, tuple[str, ...]] = {}
        self._ids: dict[frozenset[str], frozenset[Uuid]] = {}

    def changed(self) -> None:
        self.version += 1
        self._hashes.clear()
        self._matching.clear()
        self._ids.clear()

    @property
    def topics(self) -> Topics:
        return self._environment.topics()

    def config_of(self, group_id: str) -> ConsumerConfig:
        return self._environment.config_of(group_id)

    def existing(self, names: Iterable[str]) -> list[Topic]:
        topics = self.topics
        return [topic for name in names if (topic := topics.by_name(name)) is not None]

    def ids(self, names: frozenset[str]) -> frozenset[Uuid]:
        """The ids of those topics that exist; cached, because every heartbeat needs them."""
        known = self._ids.get(names)
        if known is None:
            if len(self._ids) >= _MOST_SUBSCRIPTIONS:
                self._ids.clear()
            known = self._ids[names] = frozenset(topic.topic_id for topic in self.existing(names))
        return known

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
            matches = subscription_program(expression).matches
            found = tuple(sorted(name for name in self.topics.names() if matches(name)))
            if len(self._matching) >= _MOST_SUBSCRIPTIONS:
                self._matching.clear()
            self._matching[expression] = found
        return found
