"""What must hold in every moment of a simulated cluster, looked up in the brokers themselves.

Nothing is changed here. Each invariant that is broken is a sentence; ``checks`` counts how often each was
looked at, so that one which never had anything to look at is noticed.
"""

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from moldau.base.names import TopicPartition
from moldau.protocol.records import CONTROL_MASK, batches, decode_records

if TYPE_CHECKING:
    from moldau.cluster.image import ClusterImage, PartitionImage
    from moldau.replication.partition import Partition
    from tests.cluster_simulation.simulated_cluster import SimulatedBroker, SimulatedCluster

_DECODED_LIMIT = 1 << 24
#: How long a controller that works may take to see that a session is over.
_FENCE_SECONDS = 3.0

#: What is at an offset: the epoch of its batch and the value.
Content = dict[int, tuple[int, bytes | None]]


def content(partition: "Partition", below: int) -> Content:
    """Every record below an offset; control records by their key."""
    log = partition.log
    assert log is not None
    found: Content = {}
    offset = log.log_start_offset
    while offset < min(below, log.log_end_offset):
        read = log.read(offset, 1 << 20, log.log_end_offset, at_least_one=True)
        assert read is not None
        data = read.read()
        for position, header in batches(data):
            for record in decode_records(data, position, header, limit=_DECODED_LIMIT):
                value = b"control %r" % record.key if header.attributes & CONTROL_MASK else record.value
                if record.offset < below:
                    found[record.offset] = header.partition_leader_epoch, value
            offset = header.last_offset + 1
    return found


class Invariants:
    def __init__(self, cluster: "SimulatedCluster") -> None:
        self._cluster = cluster
        self.broken: list[str] = []
        self.checks: Counter[str] = Counter()
        self._leaders: dict[tuple[bytes, TopicPartition, int], int] = {}
        self._looked_at: set[tuple[TopicPartition, int]] = set()
        #: What producers were told to be stored: place and offset -> value.
        self.acknowledged: dict[TopicPartition, dict[int, bytes]] = {}

        #: Since when a broker has no session, and since when the same controller has been able to act.
        self._gone_since: dict[int, float] = {}
        self._steady: tuple[object, float] = (None, 0.0)
        #: Since when a leader epoch is known that began while somebody was gone.
        self._led_since: dict[TopicPartition, tuple[int, float]] = {}

    def acknowledge(self, place: TopicPartition, offset: int, value: bytes) -> None:
        self.acknowledged.setdefault(place, {})[offset] = value

    def look(self) -> None:
        """The invariants that are cheap enough for every step."""
        image = self._cluster.image()
        for broker in self._cluster.running():
            for partition in broker.partitions():
                if partition.leading is not None:
                    self._one_leader(broker, partition)
                    self._has_a_session(broker, partition)
        gone = self._long_gone()
        for place, described in self._described(image):
            self._leader_has_everything(image, place, described)
            self._in_sync_has_committed(image, place, described)
            if gone:
                self._dead_lead_nothing(gone, place, described)

    def compare(self) -> None:
        """The invariants that read whole logs."""
        image = self._cluster.image()
        for place, described in self._described(image):
            self._replicas_agree(place, described)

    def compare_directories(self) -> None:
        """Once everything has healed: each broker has the directories of its replicas, and no others."""
        wanted: dict[int, set[str]] = {each: set() for each in self._cluster.brokers}
        for place, described in self._described(self._cluster.image()):
            for broker_id in described.replicas:
                wanted[broker_id].add(str(place))
        for broker in self._cluster.running():
            assert broker.node is not None
            (directory,) = broker.node.logs.directories
            found = {str(place) for place, _ in directory.partitions()}
            self.checks["directories"] += 1
            if found != wanted[broker.broker_id]:
                self.broken.append(
                    f"broker {broker.broker_id} has directories too many or too few: "
                    f"{sorted(found ^ wanted[broker.broker_id])}"
                )

    def _described(self, image: "ClusterImage") -> Iterator[tuple[TopicPartition, "PartitionImage"]]:
        for topic in image.topics_by_name.values():
            for described in topic.partitions:
                yield TopicPartition(topic.name, described.partition), described

    def _one_leader(self, broker: "SimulatedBroker", partition: "Partition") -> None:
        place = partition.topic_partition
        key = partition.topic_id, place, partition.leader_epoch
        first = self._leaders.setdefault(key, broker.broker_id)
        self.checks["one leader in an epoch"] += 1
        if first != broker.broker_id:
            self.broken.append(
                f"{place}: brokers {first} and {broker.broker_id} both lead in epoch {partition.leader_epoch}"
            )

    def _has_a_session(self, broker: "SimulatedBroker", partition: "Partition") -> None:
        """Who is cut off from the store leads no longer than its session lasts: then others may."""
        assert broker.process is not None
        self.checks["a leader has a session"] += 1
        if self._cluster.store.has_outlived_its_session(broker.process):
            self.broken.append(
                f"{partition.topic_partition}: broker {broker.broker_id} leads and has been cut off from the "
                "store for longer than its session"
            )

    def _long_gone(self) -> set[int]:
        """Brokers whose sessions ended some time ago, if there is a controller that could act since then."""
        store, now = self._cluster.store, self._cluster.loop.time()
        controller = store.controller
        if controller is not None and (
            not controller.process.alive or controller.process.paused or controller.process in store.cut
        ):
            controller = None
        if self._steady[0] is not controller:
            self._steady = controller, now
        for broker_id in self._cluster.brokers:
            if broker_id in store.sessions:
                self._gone_since.pop(broker_id, None)
            else:
                self._gone_since.setdefault(broker_id, now)
        if controller is None:
            return set()
        return {
            broker_id
            for broker_id, since in self._gone_since.items()
            if now - max(since, self._steady[1]) > _FENCE_SECONDS
        }

    def _dead_lead_nothing(self, gone: set[int], place: TopicPartition, described: "PartitionImage") -> None:
        self.checks["the dead lead nothing"] += 1
        epoch, since = self._led_since.get(place, (-1, 0.0))
        if epoch != described.leader_epoch:
            self._led_since[place] = described.leader_epoch, self._cluster.loop.time()
        elif described.leader in gone and self._cluster.loop.time() - since > _FENCE_SECONDS:
            self.broken.append(
                f"{place}: broker {described.leader} has had no session for {_FENCE_SECONDS:g} s and "
                "still leads"
            )

    def _leader_has_everything(
        self, image: "ClusterImage", place: TopicPartition, described: "PartitionImage"
    ) -> None:
        """Whoever begins to lead has every record that was acknowledged before."""
        key = place, described.leader_epoch
        if key in self._looked_at or described.leader < 0 or not self.acknowledged.get(place):
            return
        partition = self._cluster.partition(described.leader, place)
        if partition is None or partition.leader_epoch != described.leader_epoch or partition.leading is None:
            return
        self._looked_at.add(key)
        self.checks["a leader has what was acknowledged"] += 1
        assert partition.log is not None
        here = content(partition, partition.log.log_end_offset)
        for offset, value in self.acknowledged[place].items():
            if offset >= partition.log.log_start_offset and here.get(offset, (0, None))[1] != value:
                self.broken.append(
                    f"{place}: broker {described.leader} leads epoch {described.leader_epoch} without offset "
                    f"{offset} ({value!r}), which was acknowledged; it has {here.get(offset)}"
                )
                return

    def _replicas_agree(self, place: TopicPartition, described: "PartitionImage") -> None:
        """Below what both show to consumers, two replicas are the same."""
        shown = []
        for broker_id in described.replicas:
            partition = self._cluster.partition(broker_id, place)
            if partition is not None:
                shown.append((broker_id, partition, content(partition, partition.high_watermark)))
        for at, (first, one, left) in enumerate(shown):
            for second, other, right in shown[at + 1 :]:
                self.checks["replicas agree"] += 1
                start = max(one.log.log_start_offset, other.log.log_start_offset)  # type: ignore[union-attr]
                end = min(one.high_watermark, other.high_watermark)
                for offset in range(start, end):
                    if left.get(offset) != right.get(offset):
                        self.broken.append(
                            f"{place}: at offset {offset} broker {first} has {left.get(offset)}, broker "
                            f"{second} has {right.get(offset)}, both below their high watermarks"
                        )
                        return

    def _in_sync_has_committed(
        self, image: "ClusterImage", place: TopicPartition, described: "PartitionImage"
    ) -> None:
        """A broker that is in sync has everything that the leader shows to consumers."""
        leader = self._cluster.partition(described.leader, place)
        if leader is None or leader.leader_epoch != described.leader_epoch or leader.leading is None:
            return
        for broker_id in described.isr:
            follower = self._cluster.partition(broker_id, place)
            broker = self._cluster.brokers[broker_id]
            known = image.brokers.get(broker_id)
            if follower is None or follower.log is None or known is None:
                continue
            if broker.node is None or broker.node.broker_epoch != known.broker_epoch:
                continue
            self.checks["in sync means committed"] += 1
            if follower.log.log_end_offset < leader.high_watermark and broker_id != described.leader:
                self.broken.append(
                    f"{place}: broker {broker_id} is in sync and ends at {follower.log.log_end_offset}, "
                    f"below the high watermark {leader.high_watermark} of leader {described.leader}"
                )
