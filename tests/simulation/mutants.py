"""Mutants: each breaks one promise of the coordinators in a way that looks harmless in the code.

A mutant changes one thing, with a patch that the test reverts. The simulation has to detect each of them; if
it does not, the simulation has a gap.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from moldau.coordinators.groups import offsets
from moldau.coordinators.groups.classic import rebalance
from moldau.coordinators.groups.classic.group import ClassicGroup
from moldau.coordinators.groups.consumer import heartbeat as consumer_heartbeat
from moldau.coordinators.groups.consumer.member import reconcile
from moldau.coordinators.groups.offsets import Offsets
from moldau.coordinators.groups.shard import GroupShard
from moldau.coordinators.runtime import Runtime
from moldau.coordinators.transactions import transaction as transitions
from moldau.coordinators.transactions.shard import TransactionShard
from moldau.storage.log.log import Log
from moldau.storage.log.producer_state import ProducerStates
from tests.simulation.faults import Faults

Mutant = Callable[[pytest.MonkeyPatch], None]


def answers_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    def committed(self: Runtime[Any], partition: int) -> None:
        shard = self._contexts.get(partition)
        while shard is not None and shard.uncommitted:
            self._finish(shard.uncommitted.popleft()[1])

    patch.setattr(Runtime, "committed", committed)


def answers_before_the_end_of_the_turn(patch: pytest.MonkeyPatch) -> None:
    gather = Runtime._gather

    def hasty(self: Runtime[Any], context: Any, result: Any, request: Any) -> bool:
        gathered = gather(self, context, result, request)
        if gathered:
            self._finish(result)
        return gathered

    patch.setattr(Runtime, "_gather", hasty)


def a_refused_batch_stays_in_memory(patch: pytest.MonkeyPatch) -> None:
    def forgiving(self: Runtime[Any], context: Any, gathered: Any, error: Any) -> None:
        for result in gathered.results:
            self._refuse(result, None, error)

    patch.setattr(Runtime, "_lost", forgiving)


def anybody_may_commit_offsets(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ClassicGroup, "check_offset_commit", lambda *arguments: None)


def old_epochs_may_end_transactions(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(transitions, "_check_owner", lambda transaction, claimed: None)


def old_epochs_may_write(patch: pytest.MonkeyPatch) -> None:
    check = transitions._check_writer

    def unchecked(transaction: Any, claimed: Any) -> Any:
        return check(transaction, claimed if transaction is None else transaction.owner)

    patch.setattr(transitions, "_check_writer", unchecked)
    patch.setattr(ProducerStates, "check_epoch", lambda self, header: None)


def aborted_offsets_count(patch: pytest.MonkeyPatch) -> None:
    end = Offsets.end_transaction
    patch.setattr(
        Offsets, "end_transaction", lambda self, producer_id, committed: end(self, producer_id, True)
    )


def pending_offsets_are_not_waited_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Offsets, "is_pending", lambda self, place: False)


def aborted_records_are_not_named(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Log, "aborted_transactions", lambda self, start_offset, end_offset: [])


def a_late_marker_is_written_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ProducerStates, "has_marker", lambda self, producer_id, epoch: False)


def a_partition_is_given_before_it_is_free(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        consumer_heartbeat,
        "reconcile",
        lambda member, target: reconcile(member, replace(target, is_free=lambda partition: True)),
    )


def a_round_waits_for_members_that_are_gone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(rebalance, "join_timeout", lambda operation, group: None)
    patch.setattr(rebalance, "session_timeout", lambda operation, group, member_id: None)


def a_decision_writes_state(patch: pytest.MonkeyPatch) -> None:
    ended = TransactionShard._ended

    def eager(self: TransactionShard, transactional_id: str, *rest: Any) -> Any:
        result = ended(self, transactional_id, *rest)
        self.transactions[transactional_id] = result.records[-1].transaction
        return result._replace(records=result.records[:-1])

    patch.setattr(TransactionShard, "_ended", eager)


def commits_are_kept_in_memory(patch: pytest.MonkeyPatch) -> None:
    commit = offsets.commit

    def forgetful(operation: Any, request: Any, *rest: Any) -> Any:
        response = commit(operation, request, *rest)
        del operation.records[1:]  # the others are answered, but never written
        return response

    patch.setattr(offsets, "commit", forgetful)


def markers_are_not_written_after_a_reload(patch: pytest.MonkeyPatch) -> None:
    loaded = TransactionShard.loaded
    patch.setattr(TransactionShard, "loaded", lambda self, now_ms: loaded(self, now_ms)._replace(effects=()))


def a_reload_forgets_pending_offsets(patch: pytest.MonkeyPatch) -> None:
    loaded = GroupShard.loaded

    def forgetful(self: GroupShard, now_ms: int) -> Any:
        self.offsets.pending.clear()
        self.offsets._open_transactions.clear()
        return loaded(self, now_ms)

    patch.setattr(GroupShard, "loaded", forgetful)


def the_last_epoch_is_given_to_clients(patch: pytest.MonkeyPatch) -> None:
    """It is the coordinator's own: what a client writes in it no marker can end."""

    def exhausted(self: transitions.Transaction) -> bool:
        return self.owner.producer_epoch > transitions.LAST_CLIENT_EPOCH

    patch.setattr(transitions.Transaction, "is_epoch_exhausted", property(exhausted))


_TROUBLE = Faults(commit_delay=0.1, kill_every=6.0, move_every=5.0, zombie=0.5)
_ZOMBIES = Faults(stall=0.05, kill_every=4.0, zombie=0.9)
_REFUSALS = Faults(refusal=0.2)
_PAUSES = Faults(stall=0.03, stall_seconds=12.0)
_LATE = Faults(repetition=0.5, late_markers=0.6, kill_every=6.0)
_CRASHES = Faults(commit_delay=0.3, crash_every=4.0, kill_every=6.0, late_markers=0.5)

#: The mutant, the faults and the kinds of clients with which it is detected soonest.
MUTANTS: list[tuple[Mutant, Faults, tuple[str, ...]]] = [
    (answers_before_the_commit, _TROUBLE, ()),
    (answers_before_the_end_of_the_turn, _TROUBLE, ()),
    (a_refused_batch_stays_in_memory, _REFUSALS, ()),
    (anybody_may_commit_offsets, _PAUSES, ("classic",)),
    (old_epochs_may_end_transactions, _ZOMBIES, ("producer",)),
    (old_epochs_may_write, _ZOMBIES, ("producer",)),
    (aborted_offsets_count, _PAUSES, ("classic-copier",)),
    (pending_offsets_are_not_waited_for, _PAUSES, ("classic-copier",)),
    (aborted_records_are_not_named, _TROUBLE, ("producer",)),
    (a_late_marker_is_written_again, _LATE, ("producer",)),
    (a_partition_is_given_before_it_is_free, _TROUBLE, ("consumer",)),
    (a_round_waits_for_members_that_are_gone, _TROUBLE, ("classic",)),
    (a_decision_writes_state, _CRASHES, ("producer",)),
    (commits_are_kept_in_memory, _CRASHES, ("classic",)),
    (markers_are_not_written_after_a_reload, _CRASHES, ("producer",)),
    (the_last_epoch_is_given_to_clients, replace(_ZOMBIES, few_epochs=3), ("producer",)),
    (a_reload_forgets_pending_offsets, _CRASHES, ("classic-copier",)),
]
