"""Mutants of the cluster: bugs that systems like this one have had, each a small change to a broker's code.

A mutant changes one thing, with a patch that the test reverts. The simulation has to notice each of them.
Those that need a moment that no run has met are listed too, with the reason, and each with a test that aims
at it: ``test_aimed_mutants`` sees that this test fails with the mutant.
"""

from collections.abc import Callable
from typing import Any

import pytest

from moldau import node as node_module
from moldau.broker import config_resources, registration
from moldau.broker.coordination.journal import PartitionJournal
from moldau.broker.coordination.markers import MarkerWriter
from moldau.cluster.controller import commands, elections, isr_changes
from moldau.cluster.controller.elections import ElectionRules
from moldau.cluster.metadata import Metadata
from moldau.coordinators.runtime import Runtime
from moldau.coordinators.transactions.shard import TransactionShard
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.replication import isr_proposals, leader_fetcher
from moldau.replication.isr import FollowerProgress, LeaderState
from moldau.replication.partition import Partition, ReadBounds
from moldau.replication.replicas import Replicas
from moldau.storage.log.leader_epoch_cache import LeaderEpochCache
from moldau.storage.log.log import Log
from moldau.storage.log.producer_state import ProducerStates
from tests.cluster_simulation import simulated_store
from tests.cluster_simulation.trouble import HANGING, Odds

Mutant = Callable[[pytest.MonkeyPatch], None]


# --- how far is committed --------------------------------------------------------------------------------


def the_leader_alone_commits(patch: pytest.MonkeyPatch) -> None:
    """Kafka 0.8: what the leader has counts as stored."""
    patch.setattr(LeaderState, "high_watermark", lambda self, end, *rest: end)


def acks_all_waits_for_nobody(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Partition, "replication_outcome", lambda self, epoch, offset: ErrorCode.NONE)


def a_deposed_leader_acknowledges(patch: pytest.MonkeyPatch) -> None:
    """The record was cut off, and others have moved the high watermark beyond its offset."""

    def outcome(self: Partition, leader_epoch: int, last_offset: int) -> ErrorCode | None:
        return ErrorCode.NONE if self.high_watermark > last_offset else None

    patch.setattr(Partition, "replication_outcome", outcome)


def a_proposed_isr_counts_at_once(patch: pytest.MonkeyPatch) -> None:
    """KIP-497: a leader goes on without a follower before the controller knows."""
    patch.setattr(LeaderState, "maximal_isr", property(lambda self: frozenset(self.proposed or self.isr)))


def a_proposal_in_doubt_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    """KAFKA-13462 and others: the controller may have taken what was not answered."""

    def failed(self: LeaderState, *, refused: bool, ineligible: bool = False) -> None:
        self.proposed = None

    patch.setattr(LeaderState, "proposal_failed", failed)
    patch.setattr(
        LeaderState, "maximal_isr", property(lambda self: frozenset((*self.isr, *(self.proposed or ()))))
    )


def followers_that_catch_up_do_not_count(patch: pytest.MonkeyPatch) -> None:
    """One that is in sync by the time that the controller decides was not waited for."""

    def high_watermark(self: LeaderState, end: int, minimum: int, *rest: Any) -> int:
        if self.is_under_min_isr(minimum):
            return -1
        return min(
            [end, *(each.log_end_offset for broker, each in self.followers.items() if broker in self.isr)]
        )

    patch.setattr(LeaderState, "high_watermark", high_watermark)


def readers_see_what_is_not_committed(patch: pytest.MonkeyPatch) -> None:
    def bounds(self: Partition, log: Log, isolation_level: int, replica_id: int = -1) -> ReadBounds:
        end = log.log_end_offset
        return ReadBounds(log.log_start_offset, end, log.stable_offset_below(end), end)

    patch.setattr(Partition, "read_bounds", bounds)


def a_restart_takes_all_for_committed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Replicas, "_known_high_watermark", lambda self, log: log.log_end_offset)


# --- who is in sync ----------------------------------------------------------------------------------------


def the_isr_takes_who_lags(patch: pytest.MonkeyPatch) -> None:
    def expanded(self: LeaderState, replica: int, high_watermark: int, is_eligible: Any) -> Any:
        if self.proposed is not None or replica in self.isr or not is_eligible(replica):
            return None
        return (*self.isr, replica)

    patch.setattr(LeaderState, "expanded_isr", expanded)


def the_isr_takes_who_has_not_seen_this_epoch(patch: pytest.MonkeyPatch) -> None:
    """KAFKA-7128: caught up to a high watermark that the new leader does not know yet."""

    def expanded(self: LeaderState, replica: int, high_watermark: int, is_eligible: Any) -> Any:
        if self.proposed is not None or replica in self.isr or not is_eligible(replica):
            return None
        return (*self.isr, replica) if self.followers[replica].log_end_offset >= high_watermark else None

    patch.setattr(LeaderState, "expanded_isr", expanded)


def the_controller_takes_old_members(patch: pytest.MonkeyPatch) -> None:
    """KAFKA-14190, KIP-841: in sync was a process that has died since."""
    checked = isr_changes._checked

    def careless(image: Any, broker_id: int, proposal: Any) -> Any:
        members = tuple(each._replace(broker_epoch=isr_changes.ANY_EPOCH) for each in proposal.new_isr)
        return checked(image, broker_id, proposal._replace(new_isr=members))

    patch.setattr(isr_changes, "_checked", careless)


def the_controller_takes_old_partition_epochs(patch: pytest.MonkeyPatch) -> None:
    def check(partition: Any, proposal: Any) -> None:
        if proposal.leader_epoch != partition.leader_epoch:
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)

    patch.setattr(isr_changes, "_check_epochs", check)


def a_late_answer_ends_a_newer_proposal(patch: pytest.MonkeyPatch) -> None:
    def answered(leading: LeaderState, partition_epoch: int, future: Any) -> None:
        leading.proposed = None
        leading._in_doubt = frozenset()

    patch.setattr(isr_proposals, "_answered", answered)


# --- who leads ---------------------------------------------------------------------------------------------


def anybody_may_lead(patch: pytest.MonkeyPatch) -> None:
    """Unclean elections, Kafka's default until 0.11."""
    patch.setattr(
        node_module, "rules_of_configs", lambda static: lambda image, topic: ElectionRules(2, unclean=True)
    )


def the_first_replica_leads(patch: pytest.MonkeyPatch) -> None:
    elect = elections._elect

    def first(before: Any, wanted: Any, elr: Any, last_known: Any, active: Any, *rest: Any) -> int:
        for replica in wanted.replicas:
            if replica in active:
                return int(replica)
        return elect(before, wanted, elr, last_known, active, *rest)

    patch.setattr(elections, "_elect", first)


def a_process_that_died_is_still_in_sync(patch: pytest.MonkeyPatch) -> None:
    """KIP-966: it comes back without what it had not flushed, and leads."""
    patch.setattr(elections, "after_return", lambda partition, *rest, **more: partition)
    patch.setattr(commands, "elections_after_return", lambda *arguments, **more: [])


def a_controller_waits_for_its_own_disk(patch: pytest.MonkeyPatch) -> None:
    """It fences the next dead broker once it has made the directories of a topic."""
    submit = Metadata.submit

    async def submit_and_wait(self: Metadata, decide: Any, **more: Any) -> Any:
        return await submit(self, decide)

    patch.setattr(Metadata, "submit", submit_and_wait)


def every_stop_counts_as_clean(patch: pytest.MonkeyPatch) -> None:
    returned = elections.after_return
    patch.setattr(
        elections,
        "after_return",
        lambda partition, broker, active, rules, clean=False, **more: returned(
            partition, broker, active, rules, clean=True, **more
        ),
    )


def the_leader_epoch_stays(patch: pytest.MonkeyPatch) -> None:
    settle = elections.settle

    def same_epoch(before: Any, *rest: Any, **more: Any) -> Any:
        changed = settle(before, *rest, **more)
        return changed if changed is before else changed._replace(leader_epoch=before.leader_epoch)

    patch.setattr(elections, "settle", same_epoch)
    patch.setattr(isr_changes, "settle", same_epoch)


def old_controllers_may_write(patch: pytest.MonkeyPatch) -> None:
    """KAFKA-6082: writes without the epoch and the version; a controller that stood still decides on."""
    start = simulated_store.StoreServer.__init__

    def unfenced(self: Any, *arguments: Any) -> None:
        start(self, *arguments)
        self.fences = False

    patch.setattr(simulated_store.StoreServer, "__init__", unfenced)


def a_lost_session_changes_nothing(patch: pytest.MonkeyPatch) -> None:
    """A leader that is cut off from the store does not stop leading, and never comes back."""
    patch.setattr(node_module.Node, "_session_lost", lambda self: None)


def a_fenced_broker_does_not_come_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(registration.Registration, "follow", lambda self, old, new, records: None)
    patch.setattr(node_module.Node, "_regain_session", _nothing)


async def _nothing(self: Any) -> None:
    """In place of what a broker should do."""


def who_left_stays_eligible_with_a_lower_minimum(patch: pytest.MonkeyPatch) -> None:
    """KIP-966: the leader commits alone since then, and whoever is eligible lacks it."""
    patch.setattr(config_resources, "elections_after_configs", lambda *arguments: [])


def dead_brokers_are_not_fenced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(commands, "fence_missing_brokers", lambda *arguments: [])


# --- where logs part --------------------------------------------------------------------------------


def followers_cut_to_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    """KIP-101: what is committed on the leader may be above a follower's own high watermark."""
    take_role = Partition.take_role

    def cut(self: Partition, described: Any, now_ms: int) -> None:
        was = self.leader_epoch
        take_role(self, described, now_ms)
        if self.log is not None and described.leader != self.node_id and was != described.leader_epoch:
            self.truncate_to(self.high_watermark, now_ms)

    patch.setattr(Partition, "take_role", cut)


def followers_cut_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Partition, "truncate_to", lambda self, offset, now_ms: None)


def followers_append_where_they_are(patch: pytest.MonkeyPatch) -> None:
    """The leader does not look at the follower's last epoch: logs differ below the same offsets."""
    from moldau.broker.apis import fetch

    names = [name for name in vars(fetch) if "diverg" in name]
    assert names, "the fetch handler finds divergence elsewhere"
    for name in names:
        patch.setattr(fetch, name, lambda *arguments, **more: None)


def old_answers_are_appended(patch: pytest.MonkeyPatch) -> None:
    """An answer of the last leader arrives after the next one was elected."""

    def is_current(followed: Any, position: Any) -> bool:
        log = followed.partition.log
        return log is not None and log.log_end_offset == position.fetch_offset

    patch.setattr(leader_fetcher, "_is_current", is_current)


def epochs_are_not_compared(patch: pytest.MonkeyPatch) -> None:
    """KIP-320: a leader answers followers that know another epoch."""

    def log_of(self: Partition, current_leader_epoch: int) -> Log:
        assert self.log is not None
        return self.log

    patch.setattr(Partition, "_log_in_epoch", log_of)


def epochs_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    """A log that does not note which epoch began where."""
    patch.setattr(LeaderEpochCache, "assign", lambda self, epoch, start_offset: False)


def a_fetch_counts_before_it_is_stored(patch: pytest.MonkeyPatch) -> None:
    """A follower is taken to have what it was sent and has not said to have."""
    fetch = FollowerProgress.fetch

    def ahead(self: FollowerProgress, offset: int, start: int, leader_end: int, now_ms: int) -> None:
        fetch(self, leader_end, start, leader_end, now_ms)

    patch.setattr(FollowerProgress, "fetch", ahead)


# --- producers, transactions, offsets ---------------------------------------------------------------


def repeated_batches_are_appended(patch: pytest.MonkeyPatch) -> None:
    """Redpanda 3039: the broker does not remember the last batches of a producer."""
    patch.setattr(ProducerStates, "check", lambda self, header: None)


def a_cut_log_keeps_its_producers(patch: pytest.MonkeyPatch) -> None:
    """A retry is taken for a repetition of what was cut off, and acknowledged."""
    from moldau.storage.log import log

    patch.setattr(log, "load_producer_states", lambda *arguments: None)


def open_transactions_are_shown(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Log, "stable_offset_below", lambda self, high_watermark: high_watermark)


def aborted_records_are_shown(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Log, "aborted_transactions", lambda self, start, end: [])


def coordinators_answer_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    """Redpanda 6018: a transaction that is in the coordinator's memory only."""
    patch.setattr(PartitionJournal, "committed", lambda self, partition: 1 << 62)


def coordinators_keep_what_they_had(patch: pytest.MonkeyPatch) -> None:
    """A coordinator that leads again goes on with what it knew when it led before."""
    load = Runtime.load

    def once(self: Any, partition: int, leader_epoch: int = 0) -> None:
        if partition not in self._contexts:
            load(self, partition, leader_epoch)

    patch.setattr(Runtime, "load", once)
    patch.setattr(Runtime, "unload", lambda self, partition: None)


def markers_are_said_to_be_written(patch: pytest.MonkeyPatch) -> None:
    def answered_at_once(self: MarkerWriter, leader: int, parts: Any) -> None:
        for order, partitions in parts:
            for partition in tuple(partitions):
                self._answered(order, partition, ErrorCode.NONE)

    patch.setattr(MarkerWriter, "_attempt", answered_at_once)


def a_new_coordinator_forgets_markers(patch: pytest.MonkeyPatch) -> None:
    loaded = TransactionShard.loaded
    patch.setattr(TransactionShard, "loaded", lambda self, now_ms: loaded(self, now_ms)._replace(effects=()))


_USUAL = Odds()
_CUTS = Odds(kill=2, power_cut=1, stop=1, pause=2, cut_both=8, cut_out=6, cut_in=6, cut_kill=12, cut_store=2)
_KILLS = Odds(pause_between=0.9, kill=8, power_cut=6, stop=2, pause=3, cut_both=2, cut_store=2)
_STORE = Odds(pause_between=0.9, kill=2, power_cut=1, stop=1, pause=8, cut_both=2, cut_store=10)

_STORM = Odds(pause_between=0.35, kill=10, power_cut=2, stop=2, pause=4, cut_both=4, cut_kill=8, cut_store=2)

_LOWERED = Odds(
    pause_between=0.5,
    kill=8,
    power_cut=0,
    stop=0,
    pause=0,
    cut_both=12,
    cut_out=0,
    cut_in=0,
    cut_kill=0,
    cut_store=0,
    lower=10,
)

#: The mutant, and the trouble with which it is noticed soonest.
MUTANTS: list[tuple[Mutant, Odds]] = [
    (the_leader_alone_commits, _CUTS),
    (acks_all_waits_for_nobody, _CUTS),
    (a_deposed_leader_acknowledges, _CUTS),
    (a_proposed_isr_counts_at_once, _CUTS),
    (followers_that_catch_up_do_not_count, _KILLS),
    (readers_see_what_is_not_committed, _CUTS),
    (a_restart_takes_all_for_committed, _KILLS),
    (the_isr_takes_who_lags, _CUTS),
    (anybody_may_lead, _STORM),
    (the_first_replica_leads, _USUAL),
    (a_process_that_died_is_still_in_sync, _KILLS),
    (the_leader_epoch_stays, _STORM),
    (a_fenced_broker_does_not_come_back, _STORE),
    (followers_cut_to_the_high_watermark, _STORM),
    (followers_cut_nothing, _STORM),
    (followers_append_where_they_are, _STORM),
    (epochs_are_forgotten, _STORM),
    (a_fetch_counts_before_it_is_stored, _CUTS),
    (repeated_batches_are_appended, _CUTS),
    (open_transactions_are_shown, _USUAL),
    (aborted_records_are_shown, _USUAL),
    (coordinators_answer_before_the_commit, _CUTS),
    (markers_are_said_to_be_written, _KILLS),
    (a_new_coordinator_forgets_markers, _KILLS),
    (a_lost_session_changes_nothing, _STORE),
    (dead_brokers_are_not_fenced, _KILLS),
    (a_controller_waits_for_its_own_disk, HANGING),
    (who_left_stays_eligible_with_a_lower_minimum, _LOWERED),
]

#: Those that no run has noticed yet, and what we think is in the way.
NOT_NOTICED: dict[Mutant, str] = {
    a_proposal_in_doubt_is_forgotten: (
        "the answer to a proposal has to be lost, and its taker to die, before the next fetch of the follower"
    ),
    the_isr_takes_who_has_not_seen_this_epoch: (
        "a new leader has to know a lower high watermark than the old one, and die again at once"
    ),
    the_controller_takes_old_members: (
        "a follower has to die and come back between a proposal and its decision"
    ),
    the_controller_takes_old_partition_epochs: (
        "a leader has one proposal under way at a time, so an old one needs a lost answer first"
    ),
    a_late_answer_ends_a_newer_proposal: "the same: answers come in the order of the proposals",
    every_stop_counts_as_clean: "only one broker loses power at a time, and then others have what it lost",
    old_controllers_may_write: (
        "a controller that stood still learns within 0.2 s that its session is over, and has to decide "
        "something just then"
    ),
    old_answers_are_appended: (
        "an answer counts only at the end of the log; there the next leader agrees, or diverges by epoch"
    ),
    epochs_are_not_compared: "the check for diverging epochs stands behind it",
    a_cut_log_keeps_its_producers: (
        "a batch has to be cut off and sent again to a broker that was a follower and leads now"
    ),
    coordinators_keep_what_they_had: (
        "loading again is what fences; without it the old state is mostly the same"
    ),
}

#: The tests that aim at them: a file below ``tests`` and one of its functions.
AIMED: dict[Mutant, tuple[str, str]] = {
    a_proposal_in_doubt_is_forgotten: (
        "replication/test_isr.py",
        "test_a_proposal_without_an_answer_may_have_been_taken",
    ),
    the_isr_takes_who_has_not_seen_this_epoch: (
        "replication/test_isr.py",
        "test_a_follower_comes_in_at_the_high_watermark_and_the_start_of_the_epoch",
    ),
    the_controller_takes_old_members: (
        "cluster/controller/test_isr_changes.py",
        "test_a_member_must_be_the_process_that_the_leader_has_seen",
    ),
    the_controller_takes_old_partition_epochs: (
        "cluster/controller/test_isr_changes.py",
        "test_a_proposal_on_an_older_state_is_refused",
    ),
    a_late_answer_ends_a_newer_proposal: (
        "replication/test_isr_proposals.py",
        "test_a_late_answer_leaves_a_newer_proposal_alone",
    ),
    every_stop_counts_as_clean: (
        "cluster/controller/test_commands.py",
        "test_a_process_that_died_does_not_lead_at_its_return",
    ),
    old_controllers_may_write: (
        "cluster_simulation/test_aimed_mutants.py",
        "test_the_simulated_store_refuses_an_old_controller",
    ),
    old_answers_are_appended: (
        "replication/test_leader_fetcher.py",
        "test_what_comes_from_a_former_epoch_is_not_taken",
    ),
    epochs_are_not_compared: (
        "replication/test_leader_fetcher.py",
        "test_a_leader_refuses_a_follower_of_another_epoch",
    ),
    a_cut_log_keeps_its_producers: (
        "replication/test_leader_fetcher.py",
        "test_a_batch_that_was_cut_off_is_no_repetition",
    ),
    coordinators_keep_what_they_had: (
        "coordinators/test_runtime.py",
        "test_a_shard_that_is_led_again_is_read_again",
    ),
}
