"""A follower's fetch session: only what has changed is sent again."""

from moldau.replication.fetch_session import FetchSession, Key, Position

A, B = bytes([1]) * 16, bytes([2]) * 16


def at(offset: int) -> Position:
    return Position(0, offset, 0, 0, 0, 100)


def named(session: FetchSession, positions: dict[Key, Position]) -> tuple[list[Key], list[Key]]:
    topics, forgotten = session.next_request(positions)
    return (
        [(topic.topic_id, each.partition) for topic in topics for each in topic.partitions],
        [(topic.topic_id, index) for topic in forgotten for index in topic.partitions],
    )


def test_the_first_request_names_everything_and_the_next_only_what_moved() -> None:
    session = FetchSession()
    assert (session.session_id, session.epoch) == (0, 0)
    assert named(session, {(A, 0): at(0), (A, 1): at(0), (B, 0): at(0)}) == ([(A, 0), (A, 1), (B, 0)], [])
    session.answered(7)
    assert (session.session_id, session.epoch) == (7, 1)
    assert named(session, {(A, 0): at(0), (A, 1): at(5), (B, 0): at(0)}) == ([(A, 1)], [])
    session.answered(7)
    assert session.epoch == 2


def test_what_is_no_longer_followed_is_forgotten() -> None:
    session = FetchSession()
    named(session, {(A, 0): at(0), (B, 0): at(0)})
    session.answered(7)
    assert named(session, {(A, 0): at(0)}) == ([], [(B, 0)])
    session.answered(7)
    assert named(session, {(A, 0): at(0), (B, 0): at(0)}) == ([(B, 0)], [])


def test_without_a_session_everything_is_named_each_time() -> None:
    session = FetchSession()
    for _ in range(2):
        assert named(session, {(A, 0): at(0)}) == ([(A, 0)], [])
        session.answered(0)
        assert (session.session_id, session.epoch) == (0, 0)


def test_the_epoch_begins_again_at_one() -> None:
    session = FetchSession()
    named(session, {(A, 0): at(0)})
    session.answered(7)
    session._epoch = 0x7FFFFFFF
    session.answered(7)
    assert session.epoch == 1


def test_after_a_reset_the_session_is_begun_again() -> None:
    session = FetchSession()
    named(session, {(A, 0): at(0)})
    session.answered(7)
    session.reset()
    assert named(session, {(A, 0): at(0)}) == ([(A, 0)], [])
    assert session.epoch == 0


def test_who_knows_what_may_have_moved_has_only_that_looked_at() -> None:
    session = FetchSession()
    positions = {(A, 0): at(0), (A, 1): at(0), (B, 0): at(0)}
    topics, _ = session.next_request(positions, [])
    assert [len(topic.partitions) for topic in topics] == [2, 1], "the leader knows of nothing yet"
    session.answered(7)
    positions[A, 0] = positions[A, 1] = at(5)
    del positions[B, 0]
    topics, forgotten = session.next_request(positions, [(A, 1), (B, 0), (B, 1)])
    assert [(topic.topic_id, [each.partition for each in topic.partitions]) for topic in topics] == [(A, [1])]
    assert [(topic.topic_id, topic.partitions) for topic in forgotten] == [(B, [0])]
    assert session.sent == {(A, 0): at(0), (A, 1): at(5)}


def test_what_was_sent_can_be_looked_at_after_a_reset() -> None:
    session = FetchSession()
    session.next_request({(A, 0): at(3)})
    sent = session.sent
    session.answered(0)
    assert (sent, session.sent) == ({(A, 0): at(3)}, {})
