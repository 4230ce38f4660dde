"""Whether this broker is the controller, and what it does while it is.

It campaigns in the background for as long as it runs. As the controller it watches the brokers' sessions: a
broker without one is fenced, and others lead what it led.

Invariant: only between winning and losing an election is ``metadata.controller_epoch`` set. To lose it is no
failure: this broker stops deciding, and campaigns again. The store refuses what a controller appends that has
not noticed yet. Nothing here waits until this broker has applied what it decides: its disk may hang.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from moldau.base.clock import stopwatch
from moldau.base.tasks import Background
from moldau.cluster.controller import commands
from moldau.cluster.controller.elections import RulesOf
from moldau.cluster.controller.leader_elections import preferred_leaders
from moldau.cluster.image import ClusterImage
from moldau.cluster.metadata import Metadata
from moldau.cluster.records import MetadataError, Record
from moldau.cluster.store.contract import Controllership, MetadataStore
from moldau.metrics.instruments import Histogram
from moldau.protocol.errors import KafkaError

log = logging.getLogger("moldau.cluster.controller")

_PAUSE_SECONDS = 0.5
_LOOK_SECONDS = 1.0
#: The first records of a cluster that does not exist yet; none where there is one.
CreateCluster = Callable[[ClusterImage], Sequence[Record]]


class ControllerRole:
    def __init__(self, node_id: int, store: MetadataStore, metadata: Metadata, rules_of: RulesOf) -> None:
        self._node_id = node_id
        self._store = store
        self._metadata = metadata
        self._rules_of = rules_of
        self._background = Background()
        self._lost = asyncio.Event()
        self._controllership: Controllership | None = None
        self._create_cluster: CreateCluster | None = None
        self._with_first: Callable[[], Awaitable[object]] | None = None
        self._may_act = asyncio.Event()
        self._fencing = False
        self._fence_again = False
        self.campaigning = False
        #: How long elections of leaders took that this controller had to hold, in milliseconds.
        self.election_times = Histogram()
        #: Whether what the metadata say of this broker is about this process, and not about the one before.
        self.registered = False
        #: Set as soon as this broker wins an election, even if it may not act yet.
        self.won = asyncio.Event()
        metadata.on_deposed = self._lost.set
        metadata.on_known = self._brokers_changed

    @property
    def acting(self) -> bool:
        return self._metadata.controller_epoch is not None

    def campaign(self) -> None:
        """Campaigns from now on, until ``close``."""
        if not self.campaigning:
            self.campaigning = True
            self._background.start(self._run(), "controller election")

    async def wait_for_a_cluster(self) -> None:
        """Campaigns, and returns when this broker may create the cluster or another one has created it."""
        self.campaign()
        won = asyncio.ensure_future(self.won.wait())
        while self._metadata.image.cluster_id is None and not won.done():
            changed = asyncio.ensure_future(self._metadata.next_change())
            await asyncio.wait([won, changed], return_when=asyncio.FIRST_COMPLETED)
            changed.cancel()
        won.cancel()

    async def another_one(self) -> None:
        """Returns when another live broker is known as the controller."""
        while True:
            image = self._metadata.image
            # The metadata may be old: whoever is gone has no session.
            if image.controller_id != self._node_id and image.controller_id in await self._store.sessions():
                return
            changed = asyncio.ensure_future(self._metadata.next_change())
            await asyncio.wait([changed], timeout=_LOOK_SECONDS)
            changed.cancel()

    def act(self, create_cluster: CreateCluster, with_first: Callable[[], Awaitable[object]]) -> None:
        """From now on a won election counts.

        ``with_first`` is started together with the first commands and so shares their append; it is dropped
        when another broker has won the first election.
        """
        self._create_cluster = create_cluster
        self._with_first = with_first
        self._may_act.set()

    def drop_first(self) -> None:
        self._with_first = None

    async def resign(self) -> None:
        """Stops deciding and lets another broker be the controller; no further campaign."""
        self._metadata.controller_epoch = None
        await self._background.stop()
        if self._controllership is not None:
            await self._controllership.resign()

    async def close(self) -> None:
        self._metadata.controller_epoch = None
        await self._background.stop()

    async def _run(self) -> None:
        watching = False
        while True:
            self._lost.clear()
            try:
                self._controllership = await self._store.campaign(self._node_id, self._lost.set)
            except MetadataError as error:
                log.error("Cannot campaign for the controller: %s", error)
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            self.won.set()
            await self._may_act.wait()
            try:
                await self._become_controller(self._controllership.epoch)
                if not watching:
                    watching = True
                    self._store.watch_sessions(lambda sessions: self._sessions_changed())
                await self._lost.wait()
                log.warning("broker %d is no longer the controller", self._node_id)
            except (KafkaError, MetadataError) as error:
                log.error("broker %d cannot act as the controller: %s", self._node_id, error)
                await asyncio.sleep(_PAUSE_SECONDS)
            finally:
                self._metadata.controller_epoch = None
                self.won.clear()
            await self._give_back()

    async def _give_back(self) -> None:
        controllership, self._controllership = self._controllership, None
        if controllership is not None:
            try:
                await controllership.resign()
            except MetadataError as error:
                log.warning("the controllership could not be given back: %s", error)

    async def _become_controller(self, epoch: int) -> None:
        assert self._create_cluster is not None
        known = self._metadata.known
        sessions = await self._store.sessions()
        if not self.registered and any(each.broker_id != self._node_id for each in known.live_brokers()):
            # All have died together, this broker too: its last process leads nothing that others have led.
            sessions -= {self._node_id}
        self._metadata.controller_epoch = epoch
        submit = partial(self._metadata.submit, when_stored=True)
        with_first, self._with_first = self._with_first, None
        # Decided one after the other, stored with one append.
        await asyncio.gather(
            submit(self._create_cluster),
            submit(lambda image: commands.become_controller(image, self._node_id, epoch)),
            submit(lambda image: commands.fence_missing_brokers(image, sessions, known, self._rules_of)),
            *(() if with_first is None else (with_first(),)),
        )
        self.registered = True
        log.info("broker %d is the controller, epoch %d", self._node_id, epoch)

    # --- while it is the controller ----------------------------------------------------------------------

    def _sessions_changed(self) -> None:
        if not self.acting:
            return
        self._fence_again = True
        if not self._fencing:
            self._fencing = True
            self._background.start(self._fence_missing(), "fencing")

    def _brokers_changed(self, old: ClusterImage, new: ClusterImage) -> None:
        """A registration may have been under way for so long that its sender has no session any more."""
        if old.brokers is not new.brokers:
            self._sessions_changed()

    async def _fence_missing(self) -> None:
        try:
            while self._fence_again and self.acting:
                self._fence_again = False
                try:
                    await self._fence_missing_once()
                except (KafkaError, MetadataError) as error:
                    log.error("brokers without a session could not be fenced yet: %s", error)
                    self._fence_again = True
                    await asyncio.sleep(_LOOK_SECONDS)
        finally:
            self._fencing = False

    async def _fence_missing_once(self) -> None:
        known = self._metadata.known
        sessions = await self._store.sessions()
        missing = sorted(b.broker_id for b in known.live_brokers() if b.broker_id not in sessions)
        if missing:
            log.warning("fencing broker(s) %s: they have no session", ", ".join(map(str, missing)))
            began = stopwatch()
            await self._metadata.submit(
                lambda image: commands.fence_missing_brokers(image, sessions, known, self._rules_of),
                when_stored=True,
            )
            self._note_election(began)

    def _note_election(self, began: float) -> None:
        now = stopwatch()
        self.election_times.record((now - began) * 1000, now)

    def balance_leaders(self) -> None:
        """Lets preferred replicas lead again where they are in sync; called from time to time."""
        if self.acting and preferred_leaders(self._metadata.known, self._rules_of):
            self._background.start(self._balance_leaders(), "preferred leaders")

    async def _balance_leaders(self) -> None:
        try:
            began = stopwatch()
            await self._metadata.submit(
                lambda image: preferred_leaders(image, self._rules_of), when_stored=True
            )
            self._note_election(began)
        except KafkaError as error:
            log.warning("preferred leaders were not elected: %s", error)
