"""The log says what peers did, and no more than so much a second."""

import logging
from collections.abc import Callable

import pytest

from moldau.broker.bounds.complaints import Complaints


class Time:
    def __init__(self) -> None:
        self.now = 100.0
        self.later: list[tuple[float, Callable[[], None]]] = []

    def call_later(self, seconds: float, call: Callable[[], None]) -> None:
        self.later.append((self.now + seconds, call))

    def pass_by(self, seconds: float) -> None:
        self.now += seconds
        due = [call for at, call in self.later if at <= self.now]
        self.later = [(at, call) for at, call in self.later if at > self.now]
        for call in due:
            call()


def test_a_thousand_peers_have_a_few_lines_and_a_count(caplog: pytest.LogCaptureFixture) -> None:
    time = Time()
    complaints = Complaints(time.call_later, lambda: time.now)
    with caplog.at_level(logging.WARNING):
        for number in range(1000):
            complaints.closing(f"10.0.0.1:{number}", "PUBLIC", "no reason")
        assert len(caplog.messages) == 10
        assert caplog.messages[0] == "closing connection from 10.0.0.1:0 on PUBLIC: no reason"
        time.pass_by(1.0)
        assert caplog.messages[10:] == ["closed 990 more connections because of what their peers did"]
        complaints.closing("10.0.0.1:7", "PUBLIC", "again")
        assert caplog.messages[-1] == "closing connection from 10.0.0.1:7 on PUBLIC: again"
    assert not time.later


def test_those_that_come_now_and_then_have_each_their_line(caplog: pytest.LogCaptureFixture) -> None:
    time = Time()
    complaints = Complaints(time.call_later, lambda: time.now)
    with caplog.at_level(logging.WARNING):
        for number in range(100):
            complaints.closing(f"10.0.0.1:{number}", "PUBLIC", "no reason")
            time.pass_by(0.15)
    assert len(caplog.messages) == 100
