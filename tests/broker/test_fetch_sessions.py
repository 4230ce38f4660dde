"""Fetch sessions: the life of a session as a real broker leads it, and the bound on their number."""

import gc
from itertools import count

import pytest

from moldau.base.clock import SteppedClock
from moldau.broker.fetch_sessions import EVICTION_SECONDS, FetchSessions, Plan
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from moldau.replication.partition import Partition
from tests.replication.replicated import new_replica

SETTINGS = {"max.incremental.fetch.session.cache.slots": 2, "moldau.fetch.session.partitions.max": 6}


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock(frozen=True)


@pytest.fixture
def sessions(clock: SteppedClock) -> FetchSessions:
    ids = count(1)
    return FetchSessions(clock, SETTINGS, lambda: next(ids))


def fetch(
    session_id: int, epoch: int, *partitions: tuple[int, int], forget: tuple[int, ...] = ()
) -> FetchRequest:
    request = FetchRequest(session_id=session_id, session_epoch=epoch)
    if partitions:
        asked = [
            FetchPartition(index, fetch_offset=offset, partition_max_bytes=100)
            for index, offset in partitions
        ]
        request.topics = [FetchTopic("t", partitions=asked)]
    if forget:
        request.forgotten_topics_data = [ForgottenTopic("t", partitions=list(forget))]
    return request


def tell(plan: Plan, **data: object) -> list[int]:
    """Answers every partition alike; returns the partitions that the answer mentions."""
    results = [(wanted, PartitionData(wanted.index, records=b"", **data)) for wanted in plan.wanted]
    return [wanted.index for wanted, _ in plan.select(results)]


def test_without_a_session_everything_is_told_every_time(sessions: FetchSessions) -> None:
    for _ in range(2):
        plan = sessions.plan(fetch(0, -1, (0, 5), (1, 5)), 12)
        assert plan.session_id == 0
        assert tell(plan, high_watermark=5) == [0, 1]
    assert len(sessions) == 0


def test_versions_before_sessions_get_none(sessions: FetchSessions) -> None:
    assert sessions.plan(fetch(0, 0, (0, 0)), 6).session_id == 0


def test_a_session_tells_only_news(sessions: FetchSessions) -> None:
    first = sessions.plan(fetch(0, 0, (0, 0), (1, 0)), 12)
    assert first.session_id == 1
    assert tell(first, high_watermark=3) == [0, 1]
    assert tell(sessions.plan(fetch(1, 1), 12), high_watermark=3) == []
    assert tell(sessions.plan(fetch(1, 2), 12), high_watermark=4) == [0, 1]
    assert tell(sessions.plan(fetch(1, 3), 12), high_watermark=4, error_code=1) == [0, 1]


def test_the_session_keeps_the_last_offset_that_the_client_sent(sessions: FetchSessions) -> None:
    sessions.plan(fetch(0, 0, (0, 20)), 12)
    assert [w.fetch_offset for w in sessions.plan(fetch(1, 1), 12).wanted] == [20]
    assert [w.fetch_offset for w in sessions.plan(fetch(1, 2, (0, 21)), 12).wanted] == [21]


def test_a_partition_that_gave_data_goes_to_the_end(sessions: FetchSessions) -> None:
    plan = sessions.plan(fetch(0, 0, (0, 0), (1, 0)), 12)
    plan.select([(w, PartitionData(w.index, records=b"x" if w.index == 0 else b"")) for w in plan.wanted])
    assert [w.index for w in sessions.plan(fetch(1, 1), 12).wanted] == [1, 0]


def test_a_wrong_epoch_leaves_the_session_as_it_was(sessions: FetchSessions) -> None:
    sessions.plan(fetch(0, 0, (0, 0)), 12)
    with pytest.raises(KafkaError) as refused:
        sessions.plan(fetch(1, 9), 12)
    assert refused.value.code is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert sessions.plan(fetch(1, 1), 12).session_id == 1


def test_an_unknown_session_is_said_to_be_unknown(sessions: FetchSessions) -> None:
    with pytest.raises(KafkaError) as refused:
        sessions.plan(fetch(12345, 1), 12)
    assert refused.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_names_and_ids_do_not_mix_in_a_session(sessions: FetchSessions) -> None:
    sessions.plan(fetch(0, 0, (0, 0)), 12)
    with pytest.raises(KafkaError) as refused:
        sessions.plan(fetch(1, 1), 13)
    assert refused.value.code is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_forgetting_the_last_partition_ends_the_session(sessions: FetchSessions) -> None:
    sessions.plan(fetch(0, 0, (0, 0)), 12)
    assert sessions.plan(fetch(1, 1, forget=(0,)), 12).wanted == []
    with pytest.raises(KafkaError) as refused:
        sessions.plan(fetch(1, 2), 12)
    assert refused.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_asking_for_a_new_session_closes_the_old_one(sessions: FetchSessions) -> None:
    sessions.plan(fetch(0, 0, (0, 0)), 12)
    assert sessions.plan(fetch(1, 0, (0, 0)), 12).session_id == 2
    assert len(sessions) == 1
    sessions.plan(fetch(2, -1, (0, 0)), 12)
    assert len(sessions) == 0


def test_sessions_are_bounded_and_only_quiet_ones_make_room(
    sessions: FetchSessions, clock: SteppedClock
) -> None:
    assert sessions.plan(fetch(0, 0, (0, 0)), 12).session_id == 1
    assert sessions.plan(fetch(0, 0, (0, 0)), 12).session_id == 2
    assert sessions.plan(fetch(0, 0, (0, 0)), 12).session_id == 0
    clock.advance(EVICTION_SECONDS)
    sessions.plan(fetch(1, 1), 12)  # in use again: the other one is the quiet one now
    assert sessions.plan(fetch(0, 0, (0, 0)), 12).session_id == 3
    with pytest.raises(KafkaError):
        sessions.plan(fetch(2, 1), 12)


def test_the_epoch_wraps_to_one(sessions: FetchSessions) -> None:
    sessions.plan(fetch(0, 0, (0, 0)), 12)
    sessions._sessions[1].epoch = 0x7FFFFFFF
    sessions.plan(fetch(1, 0x7FFFFFFF), 12)
    assert sessions.plan(fetch(1, 1), 12).session_id == 1


# --- news ---------------------------------------------------------------------------------------------


@pytest.fixture
def watching(clock: SteppedClock) -> FetchSessions:
    ids = count(1)
    return FetchSessions(clock, SETTINGS, lambda: next(ids), watches_from=2)


def replica() -> Partition:
    return new_replica(1)


def news(plan: Plan) -> list[int]:
    return [wanted.index for wanted in plan.news()]


def begin(sessions: FetchSessions, partitions: int = 3) -> Plan:
    """The second fetch of a session: from here on it has news."""
    sessions.plan(fetch(0, 0, *((index, 0) for index in range(partitions))), 12)
    return sessions.plan(fetch(1, 1), 12)


def watch(plan: Plan, *indexes: int) -> dict[int, Partition]:
    watched = {}
    for wanted in plan.wanted:
        if wanted.index in indexes:
            partition = watched[wanted.index] = replica()
            assert partition.log is not None
            wanted.watch(partition, partition.log, None)
    return watched


def test_what_is_watched_is_no_news_until_it_moves(watching: FetchSessions) -> None:
    plan = begin(watching)
    assert news(plan) == [0, 1, 2]
    watched = watch(plan, 0, 1, 2)
    assert news(plan) == []
    watched[2].notify()
    watched[0].notify()
    assert news(plan) == [0, 2], "in the order of the session"
    assert news(watching.plan(fetch(1, 2), 12)) == [0, 2]


def test_what_a_request_names_and_what_is_new_is_news(watching: FetchSessions) -> None:
    watched = watch(begin(watching), 0, 1, 2)
    plan = watching.plan(fetch(1, 2, (1, 0), (7, 0)), 12)
    assert news(plan) == [1, 7]
    assert not len(watched[1].watchers)


def test_what_is_forgotten_is_watched_no_more(watching: FetchSessions) -> None:
    watched = watch(begin(watching), 0, 1, 2)
    plan = watching.plan(fetch(1, 2, forget=(1,)), 12)
    assert not len(watched[1].watchers)
    assert (news(plan), [wanted.index for wanted in plan.wanted]) == ([], [0, 2])


def test_what_was_told_is_looked_at_once_more(watching: FetchSessions) -> None:
    plan = begin(watching)
    watch(plan, 0, 1, 2)
    wanted = plan.wanted[1]
    assert plan.select([(wanted, PartitionData(1, high_watermark=9, records=b""))])
    assert news(plan) == [1]


def test_what_gave_data_is_the_last_news(watching: FetchSessions) -> None:
    plan = begin(watching)
    assert plan.select([(plan.wanted[0], PartitionData(0, records=b"x"))])
    plan = watching.plan(fetch(1, 2), 12)
    assert news(plan) == [wanted.index for wanted in plan.wanted] == [1, 2, 0]


def test_a_fetch_under_which_the_order_has_changed_keeps_to_its_own(watching: FetchSessions) -> None:
    plan = begin(watching)
    watch(plan, 1)
    later = watching.plan(fetch(1, 2), 12)
    assert plan.select([(plan.wanted[0], PartitionData(0, records=b"x"))])
    assert (later.watching, news(later)) == (None, [0, 1, 2])


def test_a_fetch_that_the_session_has_left_behind_looks_at_all_that_it_asked_for(
    watching: FetchSessions,
) -> None:
    plan = begin(watching)
    watch(plan, 0, 1, 2)
    later = watching.plan(fetch(1, 2, forget=(2,)), 12)
    assert (plan.watching, news(plan)) == (None, [0, 1, 2])
    assert (later.watching is not None, news(later)) == (True, [])


def test_a_session_that_ends_lets_go_of_what_it_watched(watching: FetchSessions) -> None:
    plan = begin(watching)
    watched = watch(plan, 0, 1, 2)
    watching.plan(fetch(1, -1), 12)
    assert not any(len(each.watchers) for each in watched.values())
    assert (plan.watching, news(plan)) == (None, [0, 1, 2])
    again = watch(begin(FetchSessions(watching._clock, SETTINGS, lambda: 1, watches_from=2)), 0)
    assert len(again[0].watchers) == 1


def test_another_kind_of_reader_is_told_everything(watching: FetchSessions) -> None:
    plan = begin(watching)
    assert plan.session is not None
    plan.session.read_by("a consumer")
    watch(plan, 0, 1, 2)
    plan.session.read_by("a consumer")
    assert news(plan) == []
    plan.session.read_by("a follower")
    assert news(plan) == [0, 1, 2]


def test_a_small_session_looks_at_everything(watching: FetchSessions) -> None:
    plan = begin(watching, 1)
    assert plan.watching is None
    assert watching.plan(fetch(1, 2, (5, 0)), 12).watching is not None
    assert watching.plan(fetch(1, 3, forget=(5,)), 12).watching is not None, "it stays as it is"


def test_partitions_of_all_sessions_are_bounded(sessions: FetchSessions, clock: SteppedClock) -> None:
    four = [(index, 0) for index in range(4)]
    assert sessions.plan(fetch(0, 0, *four), 12).session_id == 1
    assert sessions.plan(fetch(0, 0, *four), 12).session_id == 0, "one more would be too much"
    assert sessions.partition_count == 4
    clock.advance(EVICTION_SECONDS)
    assert sessions.plan(fetch(0, 0, *four), 12).session_id == 2, "the first was not used for long"
    assert (len(sessions), sessions.partition_count, sessions.evictions) == (1, 4, 1)


def test_a_session_that_grows_too_much_ends(sessions: FetchSessions) -> None:
    sessions.plan(fetch(0, 0, (0, 0)), 12)
    assert sessions.plan(fetch(1, 1, *((index, 0) for index in range(1, 6))), 12).session_id == 1
    assert sessions.partition_count == 6
    with pytest.raises(KafkaError) as refused:
        sessions.plan(fetch(1, 2, (6, 0)), 12)
    assert refused.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (len(sessions), sessions.partition_count) == (0, 0)


def test_a_session_that_is_over_is_freed_at_once(sessions: FetchSessions) -> None:
    """Sessions may be large, and the garbage collector late."""
    gc.collect()
    gc.disable()
    try:
        session_id = sessions.plan(fetch(0, 0, (0, 0), (1, 0)), 12).session_id
        sessions.plan(fetch(session_id, -1), 12)
        assert gc.collect() == 0
    finally:
        gc.enable()
