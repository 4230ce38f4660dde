"""The consumer instances of a proxy: how one of them ends."""

import asyncio
from types import SimpleNamespace

import pytest

from moldau.rest.consumers.instances import Instances
from moldau.rest.consumers.settings import InstanceSettings
from moldau.rest.peers import InstanceName


@pytest.mark.parametrize("failure", [None, RuntimeError("a bug")])
def test_its_session_stays_until_it_has_ended(failure):
    async def work():
        instances, session = Instances(idle_timeout_ms=1000, max_instances=1), SimpleNamespace(users=0)
        name = InstanceName("g", "c")
        instance = instances.create(name, session, InstanceSettings(), None)
        users = []

        async def close():
            users.append(session.users)
            if failure is not None:
                raise failure

        instance.close = close
        await instances.delete(name, session)
        assert (users, session.users, len(instances)) == ([1], 0, 0)

    asyncio.run(work())
