"""What a pipeline asks of the cluster itself: is a topic there, make one, where do its last records begin.

Invariant: every answer comes within seconds or as a PipelineError with what to do; records are never read
here.
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

#: The broker's own default where nothing is said.
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
                    f"the cluster at {servers} cannot be reached ({_said(error)}). Start one with "
                    "'moldau up', or name another with --bootstrap-servers"
                ) from None
        return self._loop

    def names(self) -> list[str]:
        """Every topic that is not the cluster's own."""
        topics = self.loop.run(self.loop.cluster.topics(None))
        return sorted(topic.name for topic in topics if not topic.is_internal)

    def check(self, topic: str) -> None:
        """PipelineError where it is not there."""
        for name in (each.strip() for each in topic.split(",")):
            try:
                self.loop.run(self.loop.cluster.topic(name, refresh=True))
            except KafkaError as error:
                if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise PipelineError(f"topic {name!r}: {_said(error)}") from None
                raise PipelineError(
                    f"topic {name!r} does not exist. 'moldau topics list' shows what there is, "
                    f"'moldau topics create {name}' makes it"
                ) from None

    def make(self, topic: str, partitions: int | None = None) -> None:
        """Makes a topic unless it is there."""
        wanted = NewTopic(topic, partitions or _BROKERS_DEFAULT, _BROKERS_DEFAULT)
        outcome = self.loop.run(Admin(self.loop.cluster).create_topics([wanted]))[topic]
        if isinstance(outcome, KafkaError) and outcome.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise PipelineError(f"topic {topic!r} cannot be made: {_said(outcome)}")

    def last_records(self, topic: str, count: int) -> tuple[str, str]:
        """Starting and ending offsets, as options, of about the last ``count`` records."""
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
    """Where to begin to read about ``count`` records: small partitions whole, the rest shared out."""
    starts: dict[TopicPartition, int] = {}
    held = sorted((ends[tp] - firsts[tp], tp) for tp in ends)
    left = count
    for place, (size, tp) in enumerate(held):
        share = min(size, -(-left // (len(held) - place))) if left > 0 else 0
        starts[tp] = ends[tp] - share
        left -= share
    return starts


def _said(error: BaseException) -> str:
    return str(getattr(error, "message", "") or error).rstrip(".?")
