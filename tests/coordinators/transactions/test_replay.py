"""Random runs of clients, lost answers, late requests, reloads and refusing logs; what must always hold.

State equals replayed state. An id has one owner at a time. Nobody is told of an end that did not happen, and
an end that was decided stays.
"""

from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.coordinators.transactions.transaction import PREPARED, TransactionState, is_valid_transition
from moldau.protocol.errors import ErrorCode
from tests.coordinators.transactions.transaction_coordinator import T0, T1, WAITS, Coordinator

IDS = ("a", "b")
ProducerIdAndEpoch = tuple[int, int]


@dataclass
class Client:
    """A process that uses one id; others use it too."""

    transactional_id: str
    version: int
    producer: ProducerIdAndEpoch | None = None
    #: Identities under which it has asked for an end, to be asked again late.
    sent: list[tuple[ProducerIdAndEpoch, bool]] = field(default_factory=list)


class Run:
    def __init__(self) -> None:
        self.coordinator = Coordinator(id_expiration_ms=400_000)
        self.clients = [Client(name, version) for name in IDS for version in (5, 5, 4)]

    # --- commands -------------------------------------------------------------------------------

    def init(self, client: Client, choice: int, received: bool) -> None:
        claims = choice & 1 and client.producer is not None
        claimed = client.producer if claims and client.producer is not None else (-1, -1)
        response = self.coordinator.init(
            client.transactional_id,
            claimed=claimed,
            timeout_ms=30_000,
            two_phase_commit=bool(choice & 2),
            keep=bool(choice & 4),
            version=6,
        )
        if response != "refused" and response.error_code == ErrorCode.NONE and received:
            client.producer = response.producer_id, response.producer_epoch

    def write(self, client: Client, choice: int, received: bool) -> None:
        if client.producer is not None:
            partition = T0 if choice & 1 else T1
            if client.version < 5:
                self.coordinator.refusing or self.coordinator.add(
                    client.producer, partition, transactional_id=client.transactional_id
                )
            else:
                code = self.coordinator.write(
                    client.producer, partition, transactional_id=client.transactional_id
                )
                assert code == WAITS or code == "refused" or isinstance(code, ErrorCode)

    def end(self, client: Client, choice: int, received: bool) -> None:
        if client.producer is not None:
            client.sent.append((client.producer, bool(choice & 1)))
            self.send_end(client, *client.sent[-1], received)

    def end_late(self, client: Client, choice: int, received: bool) -> None:
        if client.sent:
            self.send_end(client, *client.sent[choice % len(client.sent)], received=False)

    def send_end(self, client: Client, producer: ProducerIdAndEpoch, committed: bool, received: bool) -> None:
        before = self.outcomes(client.transactional_id).get(producer)
        length = len(self.coordinator.log)
        response = self.coordinator.end(producer, committed, client.transactional_id, client.version)
        if response == "refused" or response.error_code != ErrorCode.NONE:
            assert len(self.coordinator.log) == length
            return
        outcome = self.outcomes(client.transactional_id).get(producer)
        assert outcome is committed, "told of an end that did not happen"
        if client.version >= 5:
            assert before is None or len(self.coordinator.log) == length, "ended twice"
            if received and client.producer == producer:
                client.producer = response.producer_id, response.producer_epoch

    def markers(self, client: Client, choice: int, received: bool) -> None:
        if choice & 1:
            self.coordinator.effects.reverse()
        if not received:
            self.coordinator.effects *= 2
        self.coordinator.write_markers()

    def reload(self, client: Client, choice: int, received: bool) -> None:
        self.coordinator.reload()

    def advance(self, client: Client, choice: int, received: bool) -> None:
        self.coordinator.advance((0, 1, 999, 15_000, 31_000, 500_000)[choice % 6])

    def refuse(self, client: Client, choice: int, received: bool) -> None:
        self.coordinator.refusing = not self.coordinator.refusing and received

    # --- what must hold -------------------------------------------------------------------------

    def history(self, transactional_id: str) -> list:
        decoded = [self.coordinator.shard.decode(*entry) for entry in self.coordinator.log]
        return [
            record.transaction for record in decoded if record and record.transactional_id == transactional_id
        ]

    def outcomes(self, transactional_id: str) -> dict[ProducerIdAndEpoch, bool]:
        """How the last transaction of each producer ended, by the log alone."""
        found: dict[ProducerIdAndEpoch, bool] = {}
        owner: ProducerIdAndEpoch | None = None
        for transaction in self.history(transactional_id):
            if transaction is None:
                owner = None
                continue
            if transaction.state in PREPARED:
                assert owner is not None
                found[owner] = transaction.state is TransactionState.PREPARE_COMMIT
            owner = tuple(transaction.owner)
        return found

    def check(self) -> None:
        coordinator = self.coordinator
        fresh = coordinator.replayed()
        assert fresh.transactions == coordinator.shard.transactions
        assert fresh._open == coordinator.shard._open
        for name, transaction in coordinator.shard.transactions.items():
            owners = [
                c for c in self.clients if c.transactional_id == name and c.producer == transaction.owner
            ]
            assert len(owners) <= 1, "two clients own one id"
        for name in IDS:
            history = self.history(name)
            for old, new in pairwise(history):
                if old is not None and new is not None:
                    assert is_valid_transition(old.state, new.state)
                    assert old.producer_id != new.producer_id or old.producer_epoch <= new.producer_epoch


COMMANDS = (
    Run.init,
    Run.write,
    Run.write,
    Run.end,
    Run.end_late,
    Run.markers,
    Run.markers,
    Run.reload,
    Run.advance,
    Run.refuse,
)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(COMMANDS), st.integers(0, 5), st.integers(0, 7), st.booleans()),
        max_size=60,
    )
)
def test_any_run(commands: list) -> None:
    run = Run()
    for command, client, choice, received in commands:
        command(run, run.clients[client], choice, received)
        run.check()
