"""Sessions: those that nobody uses any more, and logins that the cluster refuses."""

import asyncio
from contextlib import nullcontext
from dataclasses import replace

import pytest

from moldau.client.transport.security import PLAINTEXT, Credentials
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.rest import refusals, sessions
from moldau.rest.refusals import Refusals
from moldau.rest.sessions import Session, SessionOptions, Sessions
from moldau.web.problems import Problem
from tests.shared.waiting import turns


def test_nobody_gets_a_session_that_is_about_to_end():
    async def work():
        sessions = Sessions(SessionOptions("127.0.0.1:1", PLAINTEXT))
        left = []

        class Idle(Session):
            def __init__(self):
                self.users, self.used_at = 0, float("-inf")

            async def close(self):
                left.append(len(sessions))

        sessions._sessions |= {"ann": Idle(), "bob": Idle()}
        await sessions.close_idle()
        assert left == [0, 0]

    asyncio.run(work())


def login(name, password="guess"):
    return replace(PLAINTEXT, mechanism="PLAIN", credentials=Credentials(name, password))


class Clusters:
    """Lets in who has the right password, and counts who has not."""

    def __init__(self, code=ErrorCode.SASL_AUTHENTICATION_FAILED, turns=0):
        self.tries = self.now = self.most = 0
        self.code = code
        self.turns = turns

    async def open(self, servers, *, security, **more):
        self.tries += 1
        self.now += 1
        self.most = max(self.most, self.now)
        await turns(self.turns)
        self.now -= 1
        if security.credentials.password != "right":
            raise KafkaError(self.code, "no")


async def is_refused(found, login, address, error=KafkaError):
    with pytest.raises(error) as refused:
        await found.of(login, address)
    return refused.value


def test_a_login_that_was_refused_does_not_reach_the_cluster_again_and_again(monkeypatch):
    monkeypatch.setattr(sessions, "Cluster", clusters := Clusters())

    async def work():
        found = Sessions(SessionOptions("127.0.0.1:1", PLAINTEXT))
        for _ in range(3 * refusals.FORGIVEN):
            error = await is_refused(found, login("ann"), "10.0.0.1")
            assert error.code is ErrorCode.SASL_AUTHENTICATION_FAILED
        assert clusters.tries == 1
        await found.of(login("ann", "right"), "10.0.0.1")
        assert (clusters.tries, len(found)) == (2, 1)

    asyncio.run(work())


def test_an_address_that_guesses_waits_alone(monkeypatch):
    monkeypatch.setattr(sessions, "Cluster", clusters := Clusters())

    async def work():
        found = Sessions(SessionOptions("127.0.0.1:1", PLAINTEXT))
        for number in range(refusals.FORGIVEN):
            await is_refused(found, login("ann", f"guess {number}"), "10.0.0.1")
        for number in range(10):
            problem = await is_refused(found, login("ann", f"more {number}"), "10.0.0.1", Problem)
            assert (problem.status, problem.headers["Retry-After"]) == (429, "1")
        assert clusters.tries == refusals.FORGIVEN
        await found.of(login("ann", "right"), "10.0.0.2")
        await found.of(login("ann", "right"), "10.0.0.1")  # who has a session needs no login

    asyncio.run(work())


@pytest.mark.parametrize("code", [None, ErrorCode.BROKER_NOT_AVAILABLE])
def test_only_refusals_count(monkeypatch, code):
    monkeypatch.setattr(sessions, "Cluster", clusters := Clusters(code))
    password = "right" if code is None else "guess"

    async def work():
        found = Sessions(SessionOptions("127.0.0.1:1", PLAINTEXT))
        for number in range(2 * refusals.FORGIVEN):
            asked = found.of(login(f"user {number}", password), "10.0.0.1")
            with nullcontext() if code is None else pytest.raises(KafkaError):
                await asked
        assert clusters.tries == 2 * refusals.FORGIVEN

    asyncio.run(work())


def test_many_at_once_are_let_in_and_guesses_at_once_are_not(monkeypatch):
    """As after a proxy has started, with a load balancer before it: all have one address."""
    monkeypatch.setattr(sessions, "Cluster", clusters := Clusters(turns=3))
    count = 5 * refusals.FORGIVEN

    async def work(password, address):
        found = Sessions(SessionOptions("127.0.0.1:1", PLAINTEXT))
        asked = [found.of(login(f"user {number}", password), address) for number in range(count)]
        outcomes = await asyncio.gather(*asked, return_exceptions=True)
        assert not found._refusals._lines
        return [type(each) for each in outcomes]

    assert asyncio.run(work("right", "10.0.0.1")) == [Session] * count
    assert clusters.most == refusals.FORGIVEN
    guessed = asyncio.run(work("guess", "10.0.0.1"))
    assert refusals.FORGIVEN <= guessed.count(KafkaError) < 2 * refusals.FORGIVEN
    assert guessed.count(Problem) == count - guessed.count(KafkaError)


def test_what_was_refused_is_forgotten_in_time(monkeypatch):
    monkeypatch.setattr(refusals, "_REMEMBERED_MOST", 2)
    found = Refusals()
    for number in range(3):
        found.refused(login(f"user {number}"), KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED), "b", 100.0)
    found.check(login("user 0"), "a", 100.0)  # the oldest, of three
    with pytest.raises(KafkaError):
        found.check(login("user 1"), "a", 109.9)
    found.check(login("user 1"), "a", 110.0)
