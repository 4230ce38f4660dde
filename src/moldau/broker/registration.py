"""This broker's place in the cluster: registered at the controller, and handed back when it stops.

Invariant: a broker that has a session is registered, whatever happens to the controller: when the metadata
says that it is fenced, or that it stops, although it runs, it registers again. It stops being a leader before
it stops answering.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from moldau.base.names import Uuid
from moldau.base.tasks import Background
from moldau.broker.controller_requests import registration_request
from moldau.cluster.controller.commands import BrokerRegistration
from moldau.cluster.image import EMPTY_IMAGE, ClusterImage
from moldau.cluster.metadata import Metadata
from moldau.cluster.records import MetadataError, Record
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from moldau.replication.links.controller_channel import ControllerChannel

log = logging.getLogger("moldau.broker.registration")

_TRY_MS = 10_000
_PAUSE_SECONDS = 0.5
#: What the controller says while its store is out of reach.
_PASSING = (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.REQUEST_TIMED_OUT)
_SHUTDOWN_MS = 5_000
_SHUTDOWN_POLL_SECONDS = 0.05


class Registration:
    def __init__(
        self,
        registration: BrokerRegistration,
        channel: ControllerChannel,
        metadata: Metadata,
        background: Background,
    ) -> None:
        self._registration = registration
        self._channel = channel
        self._metadata = metadata
        self._background = background
        self._registering = False
        #: Set when the broker stops: from then on it may be fenced.
        self.leaving = False
        self.broker_epoch = -1

    async def register(self) -> None:
        """Returns when the controller knows this broker, however long that takes."""
        while True:
            try:
                answer = await self._channel.send(
                    registration_request(self._registration), timeout_ms=_TRY_MS
                )
            except KafkaError as error:
                if error.code is not ErrorCode.REQUEST_TIMED_OUT:
                    raise
                log.warning("broker %d waits to be registered: %s", self._registration.broker_id, error)
                continue
            if answer.error_code in _PASSING:
                log.warning(
                    "broker %d waits to be registered: the controller cannot write the metadata",
                    self._registration.broker_id,
                )
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            if answer.error_code:
                raise KafkaError(ErrorCode(answer.error_code), "The controller refused this broker.")
            # Two requests may be under way, and the older answer come last: epochs only grow.
            self.broker_epoch = max(self.broker_epoch, answer.broker_epoch)
            return

    async def regain(
        self, open_session: Callable[[], Awaitable[object]], refresh: Callable[[], Awaitable[object]]
    ) -> None:
        """A new session, and the metadata as it is with this broker in it, however long that takes."""
        opened = False
        while True:
            try:
                if not opened:
                    await open_session()
                    opened = True
                await self.register()
                await refresh()
                return
            except (MetadataError, KafkaError) as error:
                log.error("broker %d has no new session yet: %s", self._registration.broker_id, error)
                await asyncio.sleep(_PAUSE_SECONDS)

    def follow(self, old: ClusterImage, new: ClusterImage, records: Sequence[Record]) -> None:
        """Registers again when the metadata says that this broker is gone."""
        if old.brokers is new.brokers or self.leaving or self._registering:
            return
        if self._is_missing(new):
            self._registering = True
            self._background.start(self._again(), "registration")

    def begin_anew(self, incarnation_id: Uuid) -> None:
        """Registers as another process that may lack records: one of this broker's disks has failed.

        Others lead then wherever they can. Where this broker still has everything it is soon in sync again.
        """
        self._registration = self._registration._replace(
            incarnation_id=incarnation_id, previous_broker_epoch=-1
        )
        self.follow(EMPTY_IMAGE, self._metadata.image, ())

    def _is_missing(self, image: ClusterImage) -> bool:
        broker_id = self._registration.broker_id
        known = image.brokers.get(broker_id)
        return (
            known is None
            or not image.is_active(broker_id)
            or known.incarnation_id != self._registration.incarnation_id
        )

    async def _again(self) -> None:
        broker_id = self._registration.broker_id
        try:
            while self._is_missing(self._metadata.image) and not self.leaving:
                log.warning("broker %d runs, and the metadata do not say so: registering again", broker_id)
                await self.register()
                try:
                    await self._metadata.refresh()
                except KafkaError as error:
                    log.warning("broker %d does not know yet whether it is registered: %s", broker_id, error)
                    await asyncio.sleep(_PAUSE_SECONDS)
        finally:
            self._registering = False

    async def hand_over(self) -> None:
        """Asks the controller to let others lead; returns when this broker leads nothing, or in vain."""
        broker_id = self._registration.broker_id
        others = [each for each in self._metadata.image.active_brokers() if each != broker_id]
        if not others or self.broker_epoch < 0:
            return
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _SHUTDOWN_MS / 1000
        request = BrokerHeartbeatRequest(
            broker_id, self.broker_epoch, self._metadata.image.version, want_shut_down=True
        )
        try:
            while loop.time() < deadline:
                answer = await self._channel.send(request, timeout_ms=_SHUTDOWN_MS)
                if answer.error_code or answer.should_shut_down:
                    return
                await asyncio.sleep(_SHUTDOWN_POLL_SECONDS)
        except KafkaError as error:
            log.warning("broker %d stops without handing over its partitions: %s", broker_id, error)
