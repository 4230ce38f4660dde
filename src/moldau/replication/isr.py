"""What the leader of a partition knows about its followers: how far each of them is, who is in sync, and
from that how far the high watermark may advance.

Invariant: pure; time comes in as an argument. The high watermark counts every replica that is in sync by the
metadata log, or is about to be: a proposal that the controller has not answered may already be decided.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

from moldau.cluster.image import PartitionImage

if TYPE_CHECKING:
    from moldau.replication.partition import Partition

UNKNOWN_OFFSET = -1


class IsrProposer(Protocol):
    """How a leader has its in-sync replicas changed; the controller decides."""

    #: ``replica.lag.time.max.ms``: a follower that has not caught up for this long is not in sync.
    lag_time_ms: int

    def is_eligible(self, broker_id: int) -> bool:
        """Whether a broker may be in sync: it is live and not about to stop."""
        ...

    def propose(self, partition: "Partition", isr: tuple[int, ...]) -> None:
        """Asks the controller; the partition's ``leading`` is told when that fails."""
        ...


class NoProposer:
    """For a broker that is alone: nobody can join or leave."""

    lag_time_ms = 30_000

    def is_eligible(self, broker_id: int) -> bool:
        return False

    def propose(self, partition: "Partition", isr: tuple[int, ...]) -> None:
        raise AssertionError("there is no controller to ask")


ALONE = NoProposer()


class FollowerProgress:
    """One follower, as its fetches show it."""

    __slots__ = (
        "broker_epoch",
        "caught_up_ms",
        "fetched_ms",
        "leader_end_at_fetch",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self, caught_up_ms: int) -> None:
        #: A fetch from an offset says that the follower has everything below it.
        self.log_end_offset = UNKNOWN_OFFSET
        self.log_start_offset = UNKNOWN_OFFSET
        #: The last moment at which it had everything that the leader had.
        self.caught_up_ms = caught_up_ms
        self.fetched_ms = 0
        self.leader_end_at_fetch = 0
        #: The process that fetched; -1 when it did not say.
        self.broker_epoch = -1

    def fetch(self, offset: int, log_start_offset: int, leader_end_offset: int, now_ms: int) -> None:
        if offset >= leader_end_offset:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif offset >= self.leader_end_at_fetch:
            # It has fetched everything that there was at its last fetch, so it had caught up then.
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        self.log_end_offset = offset
        self.log_start_offset = log_start_offset
        self.leader_end_at_fetch = leader_end_offset
        self.fetched_ms = now_ms

    def is_known(self, offset: int, log_start_offset: int, broker_epoch: int) -> bool:
        """Whether its last fetch has said the same."""
        return (
            offset == self.log_end_offset
            and log_start_offset == self.log_start_offset
            and broker_epoch == self.broker_epoch
        )

    def idled(self, until_ms: int) -> None:
        """It went on fetching the end of the leader's log, which did not move, until then."""
        self.caught_up_ms = max(self.caught_up_ms, until_ms)
        self.fetched_ms = max(self.fetched_ms, until_ms)

    def is_caught_up(self, leader_end_offset: int, now_ms: int, lag_time_ms: int) -> bool:
        return self.log_end_offset == leader_end_offset or now_ms - self.caught_up_ms <= lag_time_ms


class LeaderState:
    """The followers of a partition that this node leads, for one leader epoch."""

    __slots__ = (
        "_in_doubt",
        "_leader",
        "epoch_start_offset",
        "followers",
        "isr",
        "leader_epoch",
        "partition_epoch",
        "proposed",
        "replicas",
    )

    def __init__(self, described: PartitionImage, log_end_offset: int, now_ms: int) -> None:
        """``described`` names this node as the leader, whose log ends at ``log_end_offset`` now."""
        self._leader = described.leader
        self.leader_epoch = described.leader_epoch
        #: A follower below it may lack records that were committed under an earlier leader.
        self.epoch_start_offset = log_end_offset
        self.followers: dict[int, FollowerProgress] = {}
        self.replicas: tuple[int, ...] = ()
        self.isr: tuple[int, ...] = ()
        self.partition_epoch = -1
        #: What the controller was asked to make the in-sync replicas; None when nothing is under way.
        self.proposed: tuple[int, ...] | None = None
        #: Proposals of this partition epoch whose outcome was never heard.
        self._in_doubt: frozenset[int] = frozenset()
        self.update(described, now_ms)

    def update(self, described: PartitionImage, now_ms: int) -> None:
        """Takes over what the metadata log says, within the same leader epoch."""
        self.replicas = described.replicas
        for replica in described.replicas:
            if replica != self._leader and replica not in self.followers:
                in_sync = replica in described.isr
                self.followers[replica] = FollowerProgress(now_ms if in_sync else 0)
        for replica in self.followers.keys() - set(described.replicas):
            del self.followers[replica]
        if described.partition_epoch > self.partition_epoch:
            self.partition_epoch = described.partition_epoch
            self.isr = described.isr
            self.proposed = None
            self._in_doubt = frozenset()

    # --- reading ----------------------------------------------------------------------------------

    @property
    def maximal_isr(self) -> frozenset[int]:
        """Everybody who is in sync or may be by now."""
        return frozenset((*self.isr, *(self.proposed or ()), *self._in_doubt))

    def is_under_min_isr(self, min_insync_replicas: int) -> bool:
        """``min.insync.replicas`` above the number of replicas asks for all of them."""
        return len(self.isr) < min(min_insync_replicas, len(self.replicas))

    def fetch(
        self, replica: int, offset: int, log_start_offset: int, leader_end_offset: int, now_ms: int
    ) -> None:
        self.followers[replica].fetch(offset, log_start_offset, leader_end_offset, now_ms)

    def high_watermark(
        self,
        leader_end_offset: int,
        min_insync_replicas: int,
        now_ms: int,
        lag_time_ms: int,
        is_eligible: Callable[[int], bool],
    ) -> int:
        """How far the partition is committed by what is known; UNKNOWN_OFFSET when it must not advance.

        A replica that is caught up but not in sync yet counts as well, so that it is not overtaken for ever;
        but not one whose broker is gone, which would keep everybody waiting.
        """
        if self.is_under_min_isr(min_insync_replicas):
            return UNKNOWN_OFFSET
        maximal, lowest = self.maximal_isr, leader_end_offset
        for replica, follower in self.followers.items():
            if follower.log_end_offset < lowest and (
                replica in maximal
                or (follower.is_caught_up(leader_end_offset, now_ms, lag_time_ms) and is_eligible(replica))
            ):
                lowest = follower.log_end_offset
        return lowest

    # --- proposals --------------------------------------------------------------------------------

    def expanded_isr(
        self, replica: int, high_watermark: int, is_eligible: Callable[[int], bool]
    ) -> tuple[int, ...] | None:
        """The in-sync replicas with this one, if it has come close enough to be one; None otherwise."""
        if self.proposed is not None or replica in self.isr:
            return None
        end_offset = self.followers[replica].log_end_offset
        if end_offset < high_watermark or end_offset < self.epoch_start_offset or not is_eligible(replica):
            return None
        return tuple(sorted((*self.isr, replica)))  # the order in which Kafka's leaders have them

    def shrunk_isr(self, leader_end_offset: int, now_ms: int, lag_time_ms: int) -> tuple[int, ...] | None:
        """The in-sync replicas without those that lag too much; None when all of them keep up."""
        if self.proposed is not None:
            return None
        kept = tuple(
            replica
            for replica in self.isr
            if replica == self._leader
            or (
                replica in self.followers
                and self.followers[replica].is_caught_up(leader_end_offset, now_ms, lag_time_ms)
            )
        )
        return kept if len(kept) < len(self.isr) else None

    def doubtful_isr(self) -> tuple[int, ...] | None:
        """The in-sync replicas with one that the controller may have added by now: it is to be asked again.

        Such a replica counts, and if it is gone nothing is committed until the controller says so.
        """
        if self.proposed is None:
            for replica in sorted(self._in_doubt.intersection(self.followers).difference(self.isr)):
                return (*self.isr, replica)
        return None

    def propose(self, isr: Iterable[int]) -> tuple[int, ...]:
        """The controller is asked for these in-sync replicas; one proposal is under way at a time."""
        assert self.proposed is None, "a proposal is under way"
        self.proposed = tuple(isr)
        return self.proposed

    def proposal_failed(self, *, refused: bool, ineligible: bool = False) -> None:
        """The proposal was refused; or nobody knows, and it may yet show up in the metadata log.

        A member that is ``ineligible`` stays so with the epoch that it was named with: an earlier request for
        the same, that is still on its way, will be refused as well.
        """
        if self.proposed is not None and not refused:
            self._in_doubt |= frozenset(self.proposed)
        elif self.proposed is not None and ineligible:
            self._in_doubt -= frozenset(self.proposed).difference(self.isr)
        self.proposed = None
