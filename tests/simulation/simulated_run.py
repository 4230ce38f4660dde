"""One run: a broker, its clients, the faults, and the checkers, all drawn from one seed.

A run has three parts. First the clients work while the faults of the seed occur. Then they work for a while
without faults. At last they finish, everything that is open must end, and the checkers check everything once
more, before and after a last reload.

Invariant: the same seed gives the same run. A run ends by itself, within its simulated time.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from random import Random
from typing import Any

from moldau.broker.coordination.transactions import TRANSACTIONS_TOPIC
from moldau.coordinators import runtime as runtime_module
from moldau.coordinators.runtime import PendingRequest, Runtime, partition_of
from moldau.coordinators.transactions import transaction as transaction_module
from moldau.coordinators.transactions.markers import WriteMarkers, write_txn_markers_request
from tests.simulation import committed_reading as reading
from tests.simulation.checkers import LONGEST_CALL_SECONDS, Checkers, Violation, require
from tests.simulation.faults import Faults, draw
from tests.simulation.population import TOPICS, Slot, population
from tests.simulation.simulated_broker import SimulatedBroker
from tests.simulation.simulated_partitions import Partitions
from tests.simulation.two_phase_clients import Decided, TwoPhaseProducer
from tests.simulation.virtual_client import Gone, VirtualClient
from tests.simulation.virtual_time import VirtualClock, VirtualLoop, without_the_machine

#: Simulated seconds of each part.
TROUBLE_SECONDS = 60.0
CALM_SECONDS = 8.0
#: How long everything may take to come to its end.
END_SECONDS = 600.0
_LOOK_SECONDS = 8.0
_READ = ("out", "copy-classic", "copy-consumer")


class Simulation:
    def __init__(
        self,
        seed: int,
        trouble_seconds: float = TROUBLE_SECONDS,
        *,
        faults: Faults | None = None,
        kinds: tuple[str, ...] = (),
    ) -> None:
        self.seed = seed
        self.dice = Random(seed)
        self.faults: Faults = draw(self.dice) if faults is None else faults
        self._kinds = kinds
        self.open = True
        self.loop = VirtualLoop()
        self.clock = VirtualClock(self.loop)
        self.partitions = Partitions(self.loop, self.clock, Random(f"{seed}/partitions"), TOPICS)
        self.partitions.faults = self.faults
        settings = {"group.initial.rebalance.delay.ms": str(self.dice.choice([0, 0, 1000]))}
        broker_dice = Random(f"{seed}/broker")
        self.broker = SimulatedBroker(
            self.loop, self.clock, self.partitions, broker_dice, self.fail, settings
        )
        self.broker.on_runtime = self._watch
        self.checkers = Checkers(self.broker)
        self.checkers.appends_succeed = not self.faults.refusal
        self.clients: list[VirtualClient] = []
        #: What the other side of two-phase commits has decided, by transactional id.
        self.decided: dict[str, Decided] = {}
        self.seen: dict[tuple[str, int], list[reading.Seen]] = {}
        self._trouble_seconds = trouble_seconds
        self._over: asyncio.Future[None]
        self._one_at_a_time = asyncio.Lock()

    # --- running ----------------------------------------------------------------------------------

    def run(self) -> "Simulation":
        self.loop.set_exception_handler(self._loop_failed)
        try:
            with without_the_machine(self.loop.time), _patched(self):
                self.loop.run_until_complete(self._run())
        finally:
            self._close()
        return self

    def _close(self) -> None:
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        with contextlib.suppress(RuntimeError):
            self.loop.run_until_complete(asyncio.sleep(0))
        self.loop.close()

    def _loop_failed(self, loop: Any, context: dict[str, Any]) -> None:
        self.fail(context.get("exception") or RuntimeError(context["message"]))

    def fail(self, error: BaseException) -> None:
        """Ends the run; the first thing that went wrong is the one to look at."""
        if not self._over.done():
            self._over.set_exception(error)

    async def _run(self) -> None:
        self._over = self.loop.create_future()
        story = self.loop.create_task(self._story())
        story.add_done_callback(self._told)
        await self._over

    def _told(self, story: "asyncio.Task[None]") -> None:
        if story.cancelled() or self._over.done():
            return
        error = story.exception()
        if error is not None:
            self.fail(error)
        else:
            self._over.set_result(None)

    async def _story(self) -> None:
        self.broker.start()
        slots = [
            self.loop.create_task(self._guarded(self._slot(slot))) for slot in population(self, self._kinds)
        ]
        nemeses = [self.loop.create_task(self._guarded(each)) for each in self._nemeses()]
        watcher = self.loop.create_task(self._guarded(self._watcher()))
        reader = self.loop.create_task(self._guarded(self._reader()))
        await asyncio.sleep(self._trouble_seconds)
        self.faults = self.partitions.faults = self.faults.calm()
        async with self._one_at_a_time:
            for nemesis in nemeses:
                nemesis.cancel()
        if self.broker.process is None:
            self.broker.start()
        await asyncio.sleep(CALM_SECONDS)
        self.open = False
        _, late = await asyncio.wait(slots, timeout=END_SECONDS)
        require(not late, "a client never comes to its end", [client.name for client in self.clients])
        watcher.cancel()
        reader.cancel()
        await self._end()

    async def _guarded(self, work: Awaitable[None]) -> None:
        try:
            await work
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self.fail(error)

    # --- clients ----------------------------------------------------------------------------------

    async def _slot(self, slot: Slot) -> None:
        """One client after the other in the same place; each may be killed, or live on as a zombie."""
        dice = Random(f"{self.seed}/slot {slot.name}")
        life = 0
        await asyncio.sleep(dice.uniform(0, 3))
        zombies: list[asyncio.Task[None]] = []
        while self.open:
            life += 1
            client = slot.make(f"{slot.name}.{life}", dice)
            task = self.loop.create_task(self._guarded(self._life(client)))
            while self.open and not task.done():
                every = self.faults.kill_every
                seconds = dice.expovariate(1 / every) if every else 5.0
                await asyncio.wait([task], timeout=max(seconds, 0.01))
                if every and not task.done() and self.open:
                    if slot.fenced and dice.random() < self.faults.zombie:
                        client.stall_seconds = dice.uniform(1, 20)
                        zombies.append(task)
                        self.loop.call_later(client.stall_seconds + 10, task.cancel)
                    else:
                        task.cancel()
                    break
            if self.open:
                await asyncio.sleep(dice.uniform(0.05, 4.0))
            else:
                zombies.append(task)
        if zombies:
            await asyncio.wait(zombies)

    async def _life(self, client: VirtualClient) -> None:
        self.clients.append(client)
        try:
            await client.live()
        except Gone:
            self.checkers.counts["fenced clients"] += 1
        finally:
            self.clients.remove(client)

    # --- what goes wrong --------------------------------------------------------------------------

    def _nemeses(self) -> Iterator[Awaitable[None]]:
        faults = self.faults
        table: list[tuple[str, float, Callable[[Random], Awaitable[None]]]] = [
            ("crash", faults.crash_every, self._crash),
            ("move", faults.move_every, self._move),
            ("clock", faults.clock_every, self._set_clock),
            ("pause", faults.pause_every, self._pause),
            ("topics", faults.topics_every, self._grow),
        ]
        for name, every, strike in table:
            if every:
                yield self._nemesis(name, every, strike)

    async def _nemesis(self, name: str, every: float, strike: Callable[[Random], Awaitable[None]]) -> None:
        dice = Random(f"{self.seed}/{name}")
        while True:
            await asyncio.sleep(dice.expovariate(1 / every))
            async with self._one_at_a_time:
                self.checkers.counts[name] += 1
                await strike(dice)

    async def _crash(self, dice: Random) -> None:
        self.checkers.state_is_what_the_log_says()
        self.broker.crash()
        await asyncio.sleep(dice.choice([0.01, dice.uniform(0.1, 8.0)]))
        self.broker.start()

    async def _move(self, dice: Random) -> None:
        kind = dice.random() < 0.6
        choice = [each for each in self.partitions.all() if each.is_internal is kind]
        partition = dice.choice(choice).topic_partition
        self.broker.resign(*partition)
        await asyncio.sleep(dice.choice([0.0, 0.01, dice.uniform(0.1, 5.0)]))
        self.broker.lead_again(*partition)

    async def _set_clock(self, dice: Random) -> None:
        self.clock.set_by(dice.choice([-20_000, -1_000, 1_000, 20_000]))

    async def _pause(self, dice: Random) -> None:
        self.loop.skip(dice.uniform(0.5, 12.0))

    async def _grow(self, dice: Random) -> None:
        count = len(self.partitions.replicas.by_name["grow"].partitions)
        if count < 6:
            self.partitions.grow("grow", count + 1)
            self.broker.follow()

    def _markers(
        self, runtime: Runtime[Any], markers: WriteMarkers, carry_out: Callable[[Any], None]
    ) -> None:
        """Markers that come late, or twice."""
        dice, process = self.dice, self.broker.process
        if dice.random() >= self.faults.late_markers:
            carry_out(markers)
            return
        index = partition_of(markers.transactional_id, TOPICS[runtime.name])
        shard = runtime._contexts.get(index)

        def late() -> None:
            if self.broker.process is not process or runtime._contexts.get(index) is not shard:
                return  # whoever leads the shard now has the same markers from its log
            if markers.transaction_version < 2:
                # Before the end only: without an epoch of its own, a late marker could not be recognised.
                again()
                carry_out(markers)
            else:
                carry_out(markers)
                self.loop.call_later(dice.uniform(0.0, dice.choice([0.1, 1.0, 10.0])), again)
                self.loop.call_later(dice.uniform(0.0, 1.0), again)

        def again() -> None:
            if self.broker.process is not None:
                request = write_txn_markers_request([(markers, markers.partitions)])
                self.broker.process.deliver(request, 2, "a late coordinator")

        self.loop.call_later(dice.uniform(0.0, dice.choice([0.1, 4.0])), late)

    # --- watching ---------------------------------------------------------------------------------

    def _watch(self, runtime: Runtime[Any]) -> None:
        perform = runtime._perform

        def watched(shard: Any, result: Any, request: Any) -> bool:
            self.checkers.decided(runtime, shard, result)
            return perform(shard, result, request)

        ready = runtime._ready

        def watched_ready(shard: Any, applied: int) -> None:
            ready(shard, applied)
            self.checkers.shard_is_what_its_log_says(runtime, shard.partition)

        runtime._perform = watched  # type: ignore[method-assign]
        runtime._ready = watched_ready  # type: ignore[method-assign]
        if runtime.name == TRANSACTIONS_TOPIC.name:
            carry_out = runtime._do_effect

            runtime._do_effect = lambda markers: self._markers(runtime, markers, carry_out)

    async def _watcher(self) -> None:
        dice = Random(f"{self.seed}/watcher")
        next_look = 0.0
        while True:
            await asyncio.sleep(dice.uniform(0.05, 1.0))
            self.checkers.nobody_waits_for_ever()
            self.checkers.consumer_groups_are_sound([c for c in self.clients if hasattr(c, "owned")])
            if self.loop.time() >= next_look:
                self.checkers.state_is_what_the_log_says()
                next_look = self.loop.time() + dice.uniform(0, 2 * _LOOK_SECONDS)

    async def _reader(self) -> None:
        """Follows everything that is committed; what it has seen must never change."""
        dice = Random(f"{self.seed}/reader")
        at: dict[tuple[str, int], int] = {}
        while True:
            await asyncio.sleep(dice.uniform(0.2, 3.0))
            for topic in _READ:
                for index in range(TOPICS[topic]):
                    place = (topic, index)
                    found = self._page(topic, index, at.get(place, 0))
                    if found is not None:
                        self.seen.setdefault(place, []).extend(found.records)
                        at[place] = found.next_offset

    def _page(self, topic: str, index: int, offset: int) -> reading.Page | None:
        process = self.broker.process
        if process is None:
            return None
        answer = process.deliver(reading.request(topic, index, offset), reading.VERSION, "reader")
        return reading.page(answer.result(), offset)

    # --- the end ----------------------------------------------------------------------------------

    async def _end(self) -> None:
        """Time for what was left open, and the last checks."""
        for transactional_id in sorted(self.decided):
            await TwoPhaseProducer(self, f"operator of {transactional_id}", transactional_id, []).resolve()
        await asyncio.sleep(60.0)
        checkers = self.checkers
        checkers.everything_has_ended()
        checkers.state_is_what_the_log_says()
        await asyncio.sleep(LONGEST_CALL_SECONDS)  # all clients are gone, and so must be what they asked
        checkers.nobody_waits_for_ever()
        self.broker.crash()
        self.broker.start()
        await self._loaded()
        checkers.state_is_what_the_log_says()
        checkers.everything_has_ended()
        checkers.offsets_never_go_back()
        visible = {
            (topic, index): self._all(topic, index) for topic in _READ for index in range(TOPICS[topic])
        }
        checkers.transactions_are_whole(visible)
        for place, records in self.seen.items():
            require(visible[place][: len(records)] == records, "what was seen has changed", place)
        self._offsets_are_there()
        self._copies_are_exact(visible)

    async def _loaded(self) -> None:
        process = self.broker.process
        assert process is not None
        while any(runtime.loading for runtime in process.runtimes()):
            await asyncio.sleep(1.0)
        await asyncio.sleep(1.0)  # for markers that it found to be missing

    def _all(self, topic: str, index: int) -> list[reading.Seen]:
        found: list[reading.Seen] = []
        offset = 0
        while True:
            page = self._page(topic, index, offset)
            assert page is not None
            found += page.records
            if page.next_offset == offset:
                return found
            offset = page.next_offset

    def _committed(self, group: str, topic: str, index: int, missing: int = 0) -> int:
        process = self.broker.process
        assert process is not None
        found = process.groups.shard(group).offsets.get(group, topic, index)
        return missing if found is None else found.offset

    def _offsets_are_there(self) -> None:
        for place, offset in self.checkers.promises():
            self.checkers.fetched(place, self._committed(*place), offset)
        for place in self.checkers.places():
            self.checkers.looked(place, self._committed(*place, missing=-1))

    def _copies_are_exact(self, visible: dict[tuple[str, int], list[reading.Seen]]) -> None:
        """Every record below a copier's offset is there once, none beyond it is there at all."""
        for topic, group in (("copy-classic", "classic copiers"), ("copy-consumer", "consumer copiers")):
            for index in range(TOPICS[topic]):
                end = self._committed(group, "in", index)
                wanted = [f"{index}/{offset}" for offset in range(end)]
                found = [record.value for record in visible[topic, index]]
                require(sorted(found) == sorted(wanted), "not exactly once", topic, index, end, found)
                self.checkers.counts["copied"] += len(found)


# --- determinism ----------------------------------------------------------------------------------


class _NumberedRequest(PendingRequest):
    """Counted, so that a set of them has the same order in every run."""

    __slots__ = ("_number",)
    count = 0

    def __init__(self, future: "asyncio.Future[Any]") -> None:
        super().__init__(future)
        _NumberedRequest.count += 1
        self._number = _NumberedRequest.count

    def __hash__(self) -> int:
        return self._number


class _SlowAsyncio:
    """asyncio for the runtime of coordinators: where it lets others have their turn, time passes."""

    def __init__(self, dice: Random) -> None:
        self._dice = dice

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds + self._dice.uniform(0.0, 0.2))

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)


@contextlib.contextmanager
def _patched(simulation: Simulation) -> Iterator[None]:
    """Replies pass the checkers; loading takes several turns; producer epochs may be exhausted soon."""
    answer = runtime_module._answer

    def checked(reply: Any) -> None:
        try:
            simulation.checkers.answered(reply)
        except Violation as error:
            simulation.fail(error)
        answer(reply)

    _NumberedRequest.count = 0
    changes: list[tuple[Any, str, Any]] = [
        (runtime_module, "_answer", checked),
        (runtime_module, "_LOAD_SLICE", 1),
        (runtime_module, "PendingRequest", _NumberedRequest),
        (runtime_module, "asyncio", _SlowAsyncio(Random(f"{simulation.seed}/loading"))),
    ]
    if simulation.faults.few_epochs:
        changes += [
            (transaction_module, "LAST_CLIENT_EPOCH", simulation.faults.few_epochs),
            (transaction_module, "MAX_EPOCH", simulation.faults.few_epochs + 1),
        ]
    before = [(module, name, getattr(module, name)) for module, name, _ in changes]
    for module, name, value in changes:
        setattr(module, name, value)
    try:
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)


def simulate(seed: int, trouble_seconds: float = TROUBLE_SECONDS, **how: Any) -> Simulation:
    """Runs one seed; a Violation, or any other exception of the broker, has a note how to repeat the run."""
    try:
        return Simulation(seed, trouble_seconds, **how).run()
    except BaseException as error:
        error.add_note(f"again with: {command(seed, trouble_seconds)}")
        raise


def command(seed: int, trouble_seconds: float) -> str:
    """What to type to see a run again."""
    given = f"MOLDAU_SIMULATION_SEED={seed} MOLDAU_SIMULATION_SECONDS={trouble_seconds:g}"
    return f"{given} .venv/bin/pytest tests/simulation -k replay"
