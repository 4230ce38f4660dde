"""What is remembered of groups, what is forgotten, and what a file of it tells."""

from moldau.base.names import TopicPartition
from moldau.metrics.lag.evaluation import WINDOW, Status
from moldau.metrics.lag.history import LagHistory, Look, Looks, from_lines, to_line

PLACE = TopicPartition("orders", 0)
SECOND = 1000


def looks(committed: int | None, end: int, owner: bool = True) -> Looks:
    return {PLACE: Look(committed, end, owner)}


def test_a_member_that_does_not_get_on_is_stalled() -> None:
    history = LagHistory()
    for number in range(5):
        history.take("billing", looks(10, 20 + number), number * 10 * SECOND)
    assert history.status("billing", 41 * SECOND).status is Status.ERR
    assert history.status("billing", 41 * SECOND).partitions[PLACE].status is Status.STALL


def test_a_group_whose_member_died_is_stopped() -> None:
    history = LagHistory()
    for number in range(3):
        history.take("billing", looks(10 + number, 20, owner=True), number * 10 * SECOND)
    for number in range(3, 8):
        history.take("billing", looks(12, 30, owner=False), number * 10 * SECOND)
    assert len(history.window("billing", PLACE)) == 3
    found = history.status("billing", 75 * SECOND)
    assert found.partitions[PLACE].status is Status.STOP
    assert found.lag == 18


def test_a_group_that_died_before_the_first_look_is_stopped() -> None:
    """There is one commit for ever, and no window to compare its age with."""
    history = LagHistory()
    for number in range(WINDOW):
        history.take("billing", looks(10, 30, owner=False), number * 10 * SECOND)
        assert history.status("billing", number * 10 * SECOND).status is Status.OK
    history.take("billing", looks(10, 30, owner=False), WINDOW * 10 * SECOND)
    found = history.status("billing", WINDOW * 10 * SECOND)
    assert (found.status, found.partitions[PLACE].status) == (Status.ERR, Status.STOP)
    for number in range(3):  # somebody begins to read
        history.take("billing", looks(20 + number, 30 + number), (WINDOW + 1 + number) * 10 * SECOND)
    assert history.status("billing", (WINDOW + 4) * 10 * SECOND).partitions[PLACE].status is not Status.STOP


def test_a_window_is_bounded_and_nothing_committed_is_no_commit() -> None:
    history = LagHistory()
    history.take("billing", looks(None, 5), 0)
    assert history.window("billing", PLACE) == ()
    for number in range(3 * WINDOW):
        history.take("billing", looks(number, number), number)
    assert len(history.window("billing", PLACE)) == WINDOW


def test_what_is_gone_is_forgotten() -> None:
    history = LagHistory()
    history.take("billing", looks(1, 2), 0)
    history.take("billing", {}, 1)
    assert history.window("billing", PLACE) == ()
    for _ in range(WINDOW + 1):
        history.end_round()
    assert list(history) == []


def test_a_file_tells_the_same_as_the_memory() -> None:
    history, lines = LagHistory(), []
    for number in range(6):
        seen = looks(10, 20 + number)
        history.take("billing", seen, number * SECOND)
        lines.append(to_line("billing", seen, number * SECOND))
    rubbish = [
        "",
        "{",
        "[]",
        '{"group": "x"}',
        '{"time_ms": 1, "group": "x", "partitions": [[1]]}',
        lines[0][:20],
    ]
    again = from_lines([*rubbish, *lines])
    assert again.status("billing", 7000) == history.status("billing", 7000)
    assert list(again) == ["billing"]


def test_lag_is_never_negative() -> None:
    assert [Look(5, 3, True).lag, Look(None, 3, True).lag, Look(1, 3, False).lag] == [0, 0, 2]
