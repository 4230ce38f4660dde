"""What a pipeline asks the cluster: whether a topic exists, to create one, where its last records begin.

Invariant: what fails becomes a PipelineError that says what to do. Records are never read here.
"""

import json

from moldau.base.names import TopicPartition
from moldau.client.admin.admin import Admin
from moldau.client.admin.descriptions import NewTopic
from moldau.client.transport.background_loop import BackgroundLoop
from moldau.pipelines.errors import PipelineError
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.spark.background_loop import connect
from moldau.spark.options import OptionError, read_options
from moldau.spark.read.listing import list_offsets, partitions_of
from moldau.spark.read.offsets import EARLIEST, LATEST, offsets_to_json

#: Asks for the broker's default.
_BROKERS_DEFAULT = -1


class Topics:
    """The topics of one cluster; ``options`` are those of ``format("moldau")`` that say how to reach it."""

    def __init__(self, options: dict[str, str]) -> None:
        self._options = options
        self._loop: BackgroundLoop | None = None

    @property
    def loop(self) -> BackgroundLoop:
        """The connection, made when it is first needed."""
        if self._loop is None:
            try:
                cluster = read_options({**self._options, "subscribe": "any"}).cluster
                self._loop = connect(cluster)
            except OptionError as error:
                raise PipelineError(str(error)) from None
            except (KafkaError, OSError, ValueError) as error:
                servers = self._options["kafka.bootstrap.servers"]
                raise PipelineError(
                    f"the cluster at {servers} cannot be reached ({_message(error)}). Start one with "
                    "'moldau up', or name another with --bootstrap-servers"
                ) from None
        return self._loop

    def names(self) -> list[str]:
        """Every topic that is not the cluster's own."""
        topics = self.loop.run(self.loop.cluster.topics(None))
        return sorted(topic.name for topic in topics if not topic.is_internal)

    def check(self, topic: str) -> None:
        """PipelineError where a topic of this comma-separated list does not exist."""
        for name in (each.strip() for each in topic.split(",")):
            try:
                self.loop.run(self.loop.cluster.topic(name, refresh=True))
            except KafkaError as error:
                if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise PipelineError(f"topic {name!r}: {_message(error)}") from None
                raise PipelineError(
                    f"topic {name!r} does not exist. 'moldau topics list' shows what there is, "
                    f"'moldau topics create {name}' makes it"
                ) from None

    def create(self, topic: str, partitions: int | None = None) -> None:
        """Creates a topic unless it exists."""
        wanted = NewTopic(topic, partitions or _BROKERS_DEFAULT, _BROKERS_DEFAULT)
        outcome = self.loop.run(Admin(self.loop.cluster).create_topics([wanted]))[topic]
        if isinstance(outcome, KafkaError) and outcome.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise PipelineError(f"topic {topic!r} cannot be made: {_message(outcome)}")

    def last_records(self, topic: str, count: int) -> tuple[str, str]:
        """The options startingOffsets and endingOffsets for about the last ``count`` records."""
        loop = self.loop
        options = read_options({**self._options, "subscribe": topic})

        async def work() -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
            partitions = await partitions_of(loop.cluster, options)
            firsts = await list_offsets(loop.cluster, dict.fromkeys(partitions, EARLIEST), committed=True)
            ends = await list_offsets(loop.cluster, dict.fromkeys(partitions, LATEST), committed=True)
            return firsts, ends

        firsts, ends = loop.run(work())
        starts = last_offsets(firsts, ends, count)
        return json.dumps(offsets_to_json(starts)), json.dumps(offsets_to_json(ends))


def last_offsets(
    firsts: dict[TopicPartition, int], ends: dict[TopicPartition, int], count: int
) -> dict[TopicPartition, int]:
    """Where to start in each partition: small ones are read whole, the others share the rest of ``count``."""
    starts: dict[TopicPartition, int] = {}
    by_size = sorted((ends[tp] - firsts[tp], tp) for tp in ends)
    left = count
    for index, (size, tp) in enumerate(by_size):
        share = min(size, -(-left // (len(by_size) - index))) if left > 0 else 0
        starts[tp] = ends[tp] - share
        left -= share
    return starts


def _message(error: BaseException) -> str:
    return str(getattr(error, "message", "") or error).rstrip(".?")
