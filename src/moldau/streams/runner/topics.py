"""The topics of an application: what is there, and what it makes for itself.

Invariant: topics that are there are never changed; one with another number of partitions than needed is an
error that says so.
"""

from collections.abc import Iterable, Sequence

from moldau.client.admin.admin import Admin
from moldau.client.admin.descriptions import NewTopic
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.spark.background_loop import connect
from moldau.spark.options import ClusterOptions
from moldau.streams.errors import StreamsError
from moldau.streams.runner.layout import InternalTopic

#: Asks for the broker's default.
_BROKERS_DEFAULT = -1


class ApplicationTopics:
    def __init__(self, cluster: ClusterOptions, replication_factor: int | None = None) -> None:
        self._servers = cluster.bootstrap_servers
        self._replicas = replication_factor or _BROKERS_DEFAULT
        try:
            self._loop = connect(cluster)
        except (KafkaError, OSError, ValueError) as error:
            raise StreamsError(
                f"the cluster at {self._servers} cannot be reached ({error}). Start one with 'moldau up', or"
                " name another with --bootstrap-servers"
            ) from None

    def partitions_of(self, topics: Sequence[str]) -> dict[str, int]:
        """How many partitions each topic has; StreamsError names those that are not there."""
        found, missing = {}, []
        for topic in self._loop.run(self._loop.cluster.topics(topics)):
            if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                missing.append(topic.name)
            elif topic.error_code:
                raise StreamsError(f"topic {topic.name}: {ErrorCode(topic.error_code).name}")
            else:
                found[topic.name] = len(topic.partitions)
        if missing:
            made = "; ".join(f"'moldau topics create {name}'" for name in sorted(missing))
            raise StreamsError(f"there is no topic {', '.join(sorted(missing))}: make it first with {made}")
        return found

    def make(self, topics: Iterable[InternalTopic]) -> None:
        """Makes the application's own topics; those that are there must fit."""
        wanted = {each.name: each for each in topics}
        if not wanted:
            return
        new = [
            NewTopic(each.name, each.partitions, self._replicas, configs=dict(each.configs))
            for each in wanted.values()
        ]
        outcomes = self._loop.run(Admin(self._loop.cluster).create_topics(new))
        there = []
        for name, outcome in outcomes.items():
            if not isinstance(outcome, KafkaError):
                continue
            if outcome.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise StreamsError(f"topic {name} cannot be made: {outcome}")
            there.append(name)
        self._wait_for(wanted)
        for name, count in self.partitions_of(there).items() if there else ():
            if count != wanted[name].partitions:
                raise StreamsError(
                    f"topic {name} has {count} partitions, and the program needs {wanted[name].partitions}:"
                    " the number of partitions of its input changed. Begin anew with 'moldau streams reset'"
                )

    def make_outputs(self, topics: Iterable[str], partitions: int) -> None:
        """Makes the topics that results go to, unless they are there."""
        wanted = [NewTopic(name, partitions, self._replicas) for name in dict.fromkeys(topics)]
        if not wanted:
            return
        for name, outcome in self._loop.run(Admin(self._loop.cluster).create_topics(wanted)).items():
            if isinstance(outcome, KafkaError) and outcome.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise StreamsError(f"topic {name} cannot be made: {outcome}")
        self._wait_for(each.name for each in wanted)

    def _wait_for(self, names: Iterable[str]) -> None:
        """Returns when the cluster knows them."""
        cluster = self._loop.cluster
        for name in names:
            self._loop.run(cluster.retry(lambda name=name: cluster.topic(name, refresh=True)))  # type: ignore[misc]
