"""Sessions: their end, their number, their tokens, and how often one may try to log in."""

from moldau.base.clock import SteppedClock
from moldau.console.sessions import IDLE_SECONDS, MAX_ATTEMPTS, MAX_SESSIONS, Sessions
from moldau.console.settings import ClusterSettings, ConsoleSettings


def sessions(clock: SteppedClock) -> Sessions:
    return Sessions(ConsoleSettings((ClusterSettings("local", "127.0.0.1:1"),)), clock)


def test_a_session_ends_when_nobody_uses_it() -> None:
    clock = SteppedClock()
    found = sessions(clock)
    session = found.begin("ann")
    clock.advance(IDLE_SECONDS - 1)
    assert found.find(session.id) is session
    clock.advance(IDLE_SECONDS + 1)
    assert found.find(session.id) is None
    assert found.find(None) is None
    assert found.find("made up") is None


def test_there_are_only_so_many() -> None:
    found = sessions(SteppedClock())
    first = found.begin()
    made = [found.begin() for _ in range(MAX_SESSIONS)]
    assert found.find(first.id) is None
    assert found.find(made[0].id) is made[0]
    assert len({each.id for each in made}) == MAX_SESSIONS


def test_tokens_belong_to_their_session() -> None:
    found, other = sessions(SteppedClock()), sessions(SteppedClock())
    first, second = found.begin(), found.begin()
    assert found.is_token(first, found.token(first))
    assert not found.is_token(first, found.token(second))
    assert not found.is_token(first, other.token(first))
    assert not found.is_token(first, "\ud800")


def test_passwords_cannot_be_tried_for_ever() -> None:
    clock = SteppedClock()
    found = sessions(clock)
    assert all(found.may_try("a") for _ in range(MAX_ATTEMPTS))
    assert not found.may_try("a")
    assert found.may_try("b")
    clock.advance(61)
    assert found.may_try("a")
    found.forgive("a")
    assert found.may_try("a")
