"""One writes, all read; the next writer fences the one before."""

import asyncio

import pytest

from moldau.client.replicated_state.replicated_log import ReplicatedLog
from moldau.client.transport.cluster import Cluster
from moldau.protocol.errors import KafkaError


@pytest.mark.slow
def test_the_next_writer_fences_the_one_before(broker):
    async def work():
        async with await Cluster.open(broker.bootstrap_servers) as cluster:
            states: tuple[dict, dict] = {}, {}
            old, new = (
                ReplicatedLog(
                    cluster,
                    "notes",
                    lambda record, state=state: state.update({record.key: record.value}),
                    transactional_id="notes-writer",
                    timeout_ms=5_000,
                )
                for state in states
            )
            await old.open()
            await new.open()
            await old.lead()
            await old.append([(b"a", b"1"), (b"b", b"1")])
            await new.lead()
            assert states[1] == {b"a": b"1", b"b": b"1"}  # it has read all before it leads, and no marker
            await new.append([(b"a", b"2")])
            with pytest.raises(KafkaError):
                await old.append([(b"c", b"lost")])
            assert not old.leads
            await old.lead()  # it may come back, but only with all that happened since
            assert states[0][b"a"] == b"2"
            with pytest.raises(KafkaError):
                await new.append([(b"d", b"lost")])
            assert not new.leads
            await old.close()
            await new.close()
            return states

    one, other = asyncio.run(work())
    assert one == other == {b"a": b"2", b"b": b"1"}


def test_written_but_not_seen_ends_the_lead(broker):
    async def work():
        async with await Cluster.open(broker.bootstrap_servers) as cluster:
            log = ReplicatedLog(cluster, "notes", lambda record: None, transactional_id="w", timeout_ms=1_000)
            await log.open()
            await log.lead()
            await log.close()  # its reader stands still
            log._timeout_seconds = 0.05
            with pytest.raises(KafkaError, match="not read again"):
                await log.append([(b"a", b"1")])
            assert not log.leads

    asyncio.run(work())
