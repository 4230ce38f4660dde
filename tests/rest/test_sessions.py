"""Sessions that nobody uses any more."""

import asyncio

from moldau.client.transport.security import PLAINTEXT
from moldau.rest.sessions import Session, SessionOptions, Sessions


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
