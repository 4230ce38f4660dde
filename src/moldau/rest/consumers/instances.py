"""The consumer instances of this proxy: by group and name, each with whom it belongs to.

Invariant: an instance is used by the login that made it and by nobody else; one that is not used ends after a
time, and there are never more of them than a limit.
"""

import asyncio
import logging
from contextlib import suppress

from moldau.protocol.errors import KafkaError
from moldau.rest import problems
from moldau.rest.consumers.instance import ConsumerInstance, Render
from moldau.rest.consumers.settings import InstanceSettings
from moldau.rest.peers import InstanceName
from moldau.rest.sessions import Session

log = logging.getLogger("moldau.rest")

_LOOK_SECONDS = 5.0


class Instances:
    def __init__(self, *, idle_timeout_ms: int, max_instances: int) -> None:
        self._idle_seconds = idle_timeout_ms / 1000
        self._max = max_instances
        self._instances: dict[InstanceName, ConsumerInstance] = {}
        self._reaper: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._instances)

    def start(self) -> None:
        self._reaper = asyncio.create_task(self._reap(), name="rest-consumers")

    async def close(self) -> None:
        if self._reaper is not None:
            self._reaper.cancel()
            await asyncio.gather(self._reaper, return_exceptions=True)
        instances, self._instances = list(self._instances.values()), {}
        await asyncio.gather(*(self._end(each) for each in instances))

    def has(self, name: InstanceName) -> bool:
        return name in self._instances

    def get(self, name: InstanceName, session: Session) -> ConsumerInstance:
        """The instance; one of another login is not to be seen."""
        found = self._instances.get(name)
        if found is None or found.session is not session:
            raise problems.consumer_instance_not_found()
        found.used_at = asyncio.get_running_loop().time()
        return found

    def create(
        self, name: InstanceName, session: Session, settings: InstanceSettings, render: Render
    ) -> ConsumerInstance:
        if name in self._instances:
            raise problems.consumer_already_exists()
        if len(self._instances) >= self._max:
            raise problems.too_many("consumer instances: delete some, or start another proxy")
        made = ConsumerInstance(session, name.group_id, name.name, settings, render)
        self._instances[name] = made
        session.users += 1
        return made

    async def delete(self, name: InstanceName, session: Session) -> None:
        instance = self.get(name, session)
        del self._instances[name]
        await self._end(instance)

    async def _end(self, instance: ConsumerInstance) -> None:
        try:
            await instance.close()
        except KafkaError as error:
            log.info("consumer %s of group %s ended: %s", instance.name, instance.group_id, error)
        except Exception:  # a bug of ours: the others have to end, too
            log.exception("consumer %s of group %s did not end well", instance.name, instance.group_id)
        finally:
            instance.session.users -= 1  # not before: its last commit needs the session

    async def _reap(self) -> None:
        """Ends instances whose clients have gone."""
        while True:
            await asyncio.sleep(min(_LOOK_SECONDS, self._idle_seconds / 2))
            now = asyncio.get_running_loop().time()
            for name, instance in list(self._instances.items()):
                if not instance.busy and now - instance.used_at > self._idle_seconds:
                    with suppress(KeyError):
                        del self._instances[name]
                        await self._end(instance)
