"""The connectors of a worker: what REST asks for becomes records, records become state, and what runs
follows.

Invariant: what runs here is what the state says of the connectors that this worker owns; an error while
starting one is its status, never the end of the worker.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from moldau.base.clock import Clock, SystemClock
from moldau.base.names import TopicPartition
from moldau.client.replicated_state.replicated_state import NotLeader
from moldau.client.transport.cluster import Cluster
from moldau.connect.config.providers import hidden, resolved
from moldau.connect.config.validation import Validation, validate
from moldau.connect.connector import Connector, SinkConnector, SourceConnector
from moldau.connect.converters.registered import registry_hosts
from moldau.connect.data.text import java_text
from moldau.connect.errors import ConfigException
from moldau.connect.plugins import Plugins, described
from moldau.connect.worker import state as records
from moldau.connect.worker.offsets import OffsetStore
from moldau.connect.worker.own_offsets import OwnOffsets
from moldau.connect.worker.settings import WorkerSettings
from moldau.connect.worker.state import ConfigState, StateRecord, Target
from moldau.connect.worker.statuses import State, Status, Statuses
from moldau.connect.worker.store import RunsElsewhere, Store
from moldau.connect.worker.tasks.bodies import body_of, check_runtime, tasks_of, writer_count
from moldau.connect.worker.tasks.client_options import ClientOptions
from moldau.connect.worker.tasks.exactly_once import fence
from moldau.connect.worker.tasks.handling import ErrorHandling
from moldau.connect.worker.tasks.processing import processing_of
from moldau.connect.worker.tasks.running_task import Body, RunningTask
from moldau.connect.worker.tasks.task_parts import TaskParts
from moldau.connect.worker.tasks.topic_creation import creation_of
from moldau.connect.worker.tasks.traces import headline, trace_of
from moldau.connect.worker.topic_offsets import TopicOffsets
from moldau.protocol.errors import KafkaError
from moldau.web.problems import http_problem

log = logging.getLogger("moldau.connect.worker")

_STATES = {Target.STARTED: State.RUNNING, Target.PAUSED: State.PAUSED, Target.STOPPED: State.STOPPED}
#: How long a worker waits for the one before it to let a connector go.
_RELEASE_SECONDS = 10.0
_LOOK_SECONDS = 0.1


@dataclass(slots=True)
class _Live:
    """A connector that runs here."""

    config: dict[str, str]
    target: Target
    connector: Connector | None = None
    tasks: dict[int, RunningTask] = field(default_factory=dict)
    #: The settings of the tasks that were started.
    settings: list[dict[str, str]] = field(default_factory=list)
    offsets: OffsetStore | None = None
    #: References by the values that providers gave for them.
    secrets: dict[str, str] = field(default_factory=dict)


class Herder:
    def __init__(
        self,
        worker: WorkerSettings,
        plugins: Plugins,
        cluster: Cluster,
        store: Store,
        offsets: OffsetStore,
        statuses: Statuses,
        worker_id: str,
        clock: Clock | None = None,
    ) -> None:
        self.worker = worker
        self.plugins = plugins
        self.cluster = cluster
        self.store = store
        self.offsets = offsets
        self.statuses = statuses
        statuses.tracks_topics = worker.topic_tracking
        self.worker_id = worker_id
        self._clock = clock or SystemClock()
        self._live: dict[str, _Live] = {}
        self._turn = asyncio.Lock()
        self._changed: set[str] = set()
        #: Connectors that this worker is asked to delete: it tells the others.
        self._deleting: set[str] = set()
        self._wake = asyncio.Event()
        self._background: list[asyncio.Task[None]] = []
        #: Of connectors that have a topic of their own for their places.
        self._own_offsets: dict[tuple[str, str], OwnOffsets] = {}

    @property
    def state(self) -> ConfigState:
        return self.store.state

    # --- life -----------------------------------------------------------------------------------------

    def start(self) -> None:
        self.store.on_change = self._note
        self._note(None)
        self._background = [
            asyncio.create_task(self._flush_now_and_then(), name="connect-offsets"),
            asyncio.create_task(self._follow_changes(), name="connect-changes"),
        ]

    async def close(self) -> None:
        """Stops every task, says so, and writes the places of sources."""
        for task in self._background:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        async with self._turn:
            for name in list(self._live):
                await self._release(name)
        await self._flush()
        for own in self._own_offsets.values():
            await own.close()

    async def _flush(self) -> None:
        for store in (*self._own_offsets.values(), self.offsets):
            await store.flush()

    async def offsets_of(self, name: str, config: Mapping[str, str]) -> OffsetStore:
        """Where the places of a connector are kept."""
        topic = config.get("offsets.storage.topic", "").strip()
        if not topic or not self.store.shared:
            return self.offsets
        if (name, topic) not in self._own_offsets:
            given = self.worker.given
            partitions = int(given.get("offset.storage.partitions", "25"))
            replicas = int(given.get("offset.storage.replication.factor", "-1"))
            own = OwnOffsets(TopicOffsets(self.cluster, topic, partitions, replicas), self.offsets)
            await own.open()
            self._own_offsets[name, topic] = own
        return self._own_offsets[name, topic]

    async def fence(self, name: str) -> None:
        """Nothing that earlier tasks of a source still write is committed from now on."""
        if self.worker.exactly_once:
            await fence(self.cluster, self.worker, name, self.state.fencing.get(name, 0))

    def runs(self, name: str) -> bool:
        return name in self._live

    def _note(self, name: str | None) -> None:
        self._changed |= {name} if name is not None else {*self.state.connectors, *self._live}
        self._wake.set()

    async def _follow_changes(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            names, self._changed = self._changed, set()
            # What goes comes first: two workers that wait for each other would wait in vain.
            for name in sorted(names, key=self.store.owns):
                try:
                    await self.follow(name)
                except KafkaError as error:
                    log.warning("connector %s: %s; again soon", name, error)
                    self._changed.add(name)
                    await asyncio.sleep(1)
                    self._wake.set()

    async def _flush_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(self.worker.offset_flush_interval_ms / 1000)
            try:
                await self._flush()
            except (OSError, KafkaError) as error:
                log.error("the places of sources could not be written: %s", error)

    # --- questions ------------------------------------------------------------------------------------

    def names(self) -> list[str]:
        return list(self.state.connectors)

    def config(self, name: str) -> dict[str, str]:
        found = self.state.connectors.get(name)
        if found is None:
            raise http_problem(404, f"Connector {name} not found")
        return found

    def info(self, name: str) -> dict[str, Any]:
        config = self.config(name)
        count = len(self.state.tasks.get(name, ()))
        return {
            "name": name,
            "config": config,
            "tasks": [{"connector": name, "task": number} for number in range(count)],
            "type": self.kind(config),
        }

    def kind(self, config: Mapping[str, str]) -> str:
        connector = self.plugins.connector(config.get("connector.class", ""))
        return "unknown" if connector is None else connector.kind

    def tasks(self, name: str) -> list[dict[str, Any]]:
        self.config(name)
        return [
            {"id": {"connector": name, "task": number}, "config": settings}
            for number, settings in enumerate(self.state.tasks.get(name, ()))
        ]

    def status(self, name: str) -> dict[str, Any]:
        status = self.statuses.connector(name)
        if status is None:
            raise http_problem(404, f"No status found for connector {name}")
        tasks = self.statuses.tasks(name)
        return {
            "name": name,
            "connector": self._seen(status).node(),
            "tasks": [{"id": task, **self._seen(each).node()} for task, each in tasks.items()],
            "type": self.kind(self.state.connectors.get(name, {})),
        }

    def task_status(self, name: str, task: int) -> dict[str, Any]:
        status = self.statuses.task(name, task)
        if status is None:
            raise http_problem(404, f"No status found for task {name}-{task}")
        return {"id": task, **self._seen(status).node()}

    def _seen(self, status: Status) -> Status:
        """What a worker said last, unless it is gone: then nobody runs it."""
        if status.worker_id == self.worker_id or self.store.lives(status.worker_id):
            return status
        return replace(status, state=State.UNASSIGNED)

    def plugin_of(self, config: Mapping[str, str | None]) -> type[Connector]:
        """The class of a connector; a configuration without one, or with an unknown one, is refused."""
        name = config.get("connector.class")
        if not name:
            shown = java_text(dict(sorted(config.items())))
            raise http_problem(400, f"Connector config {shown} contains no connector type")
        found = self.plugins.connector(name.strip())
        if found is None:
            known = ", ".join(described(each) for each in self.plugins.connectors())
            raise http_problem(
                400,
                "Failed to find any class that implements Connector and which name matches "
                f"{name}, available connectors are: {known}",
            )
        return found

    def validate(self, config: Mapping[str, str | None]) -> Validation:
        return self._validated(self.plugin_of(config), config)

    def _validated(self, connector: type[Connector], config: Mapping[str, str | None]) -> Validation:
        exactly_once = self.worker.exactly_once or not self.store.shared
        return validate(connector, config, exactly_once, self.worker.providers, self.worker.converter_names)

    # --- changes --------------------------------------------------------------------------------------

    async def create(self, name: str, config: Mapping[str, str | None], target: Target) -> dict[str, Any]:
        if name in self.state.connectors:
            raise http_problem(409, f"Connector {name} already exists")
        checked = self._checked(config)

        def decide() -> list[StateRecord]:
            if name in self.state.connectors:
                raise http_problem(409, f"Connector {name} already exists")
            plan = self._plan(name, checked) if target is Target.STARTED else []
            return [*records.created(name, checked, target), *plan]

        await self._change(name, decide)
        return self._new(name)

    def _new(self, name: str) -> dict[str, Any]:
        """A connector that was just made; workers of a cluster begin its tasks a moment later."""
        return {**self.info(name), "tasks": []} if self.store.shared else self.info(name)

    async def put_config(self, name: str, config: Mapping[str, str | None]) -> tuple[bool, dict[str, Any]]:
        """Whether the connector is new, and what it is now."""
        checked = self._checked(config)
        new = name not in self.state.connectors

        def decide() -> list[StateRecord]:
            planned = self.state.target(name) is Target.STARTED or bool(self.state.tasks.get(name))
            return [records.configured(name, checked), *(self._plan(name, checked) if planned else [])]

        await self._change(name, decide)
        return new, self._new(name) if new else self.info(name)

    async def patch_config(self, name: str, changes: Mapping[str, str | None]) -> dict[str, Any]:
        merged: dict[str, str | None] = {**self.config(name), **changes}
        given = {key: value for key, value in merged.items() if value is not None}
        return (await self.put_config(name, given))[1]

    async def delete(self, name: str) -> None:
        self.config(name)
        self._deleting.add(name)
        config = dict(self.config(name))
        try:
            await self._change(name, lambda: records.deleted(name, self.state.written_tasks(name)))
            await self._fence_deleted(name)
            (await self.offsets_of(name, config)).forget(name)
            self.statuses.forget(name)
        finally:
            self._deleting.discard(name)
        try:
            await self._forget(config, None)
        except Exception as error:
            log.warning("connector %s is deleted; what its sink keeps of offsets is not: %s", name, error)

    async def _fence_deleted(self, name: str) -> None:
        """Whoever may still run a task of it cannot write any more; then nothing of it stays behind."""
        if name not in self.state.fencing:
            return
        await self.fence(name)

        def decide() -> tuple[list[StateRecord], None]:
            return ([] if name in self.state.connectors else [records.fenced(name, None)]), None

        await self.store.change(decide)

    async def forget_in_sink(self, name: str, partitions: Sequence[TopicPartition] | None) -> None:
        """Tells a sink that keeps offsets on the other side that those of the group were changed."""
        try:
            await self._forget(self.config(name), partitions)
        except Exception as error:
            said = f"The offsets are changed, but not those that the sink keeps: {headline(error)}"
            raise http_problem(500, said) from error

    async def _forget(self, config: Mapping[str, str], partitions: Sequence[TopicPartition] | None) -> None:
        kind = self.plugins.connector(config.get("connector.class", ""))
        if kind is None or not issubclass(kind, SinkConnector):
            return
        connector = kind(resolved(config, self.worker.providers))
        await asyncio.to_thread(connector.forget, partitions)

    async def set_target(self, name: str, target: Target) -> None:
        if name not in self.state.connectors:
            raise http_problem(404, f"Unknown connector {name}")

        def decide() -> list[StateRecord]:
            plan: list[StateRecord] = []
            if target is Target.STOPPED:
                plan = records.planned(name, [])
            elif target is Target.STARTED and not self.state.tasks.get(name):
                plan = self._plan(name, self.config(name))
            return [*plan, records.targeted(name, target)]

        await self._change(name, decide)

    async def restart(self, name: str, include_tasks: bool, only_failed: bool) -> dict[str, Any] | None:
        """Begins a connector anew, and its tasks if that is asked for; the status meanwhile, or None."""
        self._require_here(name)
        if self.state.target(name) is Target.STARTED and not self.state.tasks.get(name):
            with suppress(NotLeader):  # its plan may have failed for a reason that is gone now
                await self._change(name, lambda: self._plan(name, self.config(name)))
        answer: dict[str, Any] | None = None
        async with self._turn:
            live = self._live.get(name)
            if live is None or live.target is Target.STOPPED:
                return self._restarting(name, not only_failed, []) if include_tasks or only_failed else None
            chosen = [
                task
                for task, status in self.statuses.tasks(name).items()
                if include_tasks and (not only_failed or status.state is State.FAILED)
            ]
            told = self.statuses.connector(name)
            again = not only_failed or (told is not None and told.state is State.FAILED)
            if include_tasks or only_failed:
                answer = self._restarting(name, again, chosen)
            if again:
                live.connector = self._make(name, live)
                self._tell_connector(name, live)
            for task in chosen:
                await self._restart_task(name, live, task)
        return answer

    async def restart_task(self, name: str, task: int) -> None:
        self._require_here(name)
        async with self._turn:
            live = self._live.get(name)
            if live is None or not 0 <= task < len(live.settings):
                unknown = "Unknown task: {}-{}" if self.store.shared else "Task {}-{} not found"
                raise http_problem(404, unknown.format(name, task))
            await self._restart_task(name, live, task)

    def _require_here(self, name: str) -> None:
        if name not in self.state.connectors:
            raise http_problem(404, f"Unknown connector: {name}")
        if self.store.owns(name):
            return
        owner = self.store.owner(name)
        if owner is None:
            raise http_problem(
                409, "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"
            )
        raise RunsElsewhere(owner.url)

    def _restarting(self, name: str, connector: bool, tasks: list[int]) -> dict[str, Any]:
        """The status as it is for a moment, with what begins anew marked."""
        answer = self.status(name)
        if connector:
            answer["connector"] = {**answer["connector"], "state": State.RESTARTING.value}
        for each in answer["tasks"]:
            if each["id"] in tasks:
                each["state"] = State.RESTARTING.value
        return answer

    def _checked(self, config: Mapping[str, str | None]) -> dict[str, str]:
        """The configuration, if nothing is wrong with it."""
        connector = self.plugin_of(config)
        given = {name: value for name, value in config.items() if value is not None}
        secrets: dict[str, str] = {}
        try:
            refusal = self._validated(connector, config).refusal()
            if refusal is not None:
                raise http_problem(400, refusal)
            settings = resolved(given, self.worker.providers, secrets)
            check_runtime(connector, settings, self.worker)
            for path in connector.paths(settings):
                self.worker.allowed_paths.resolve(path)
            for host in [*connector.hosts(settings), *registry_hosts(settings)]:
                self.worker.allowed_hosts.check(host)
        except ConfigException as error:
            raise http_problem(400, hidden(error.message, secrets)) from error
        return given

    def _plan(self, name: str, config: Mapping[str, str]) -> list[StateRecord]:
        """The tasks of a configuration, with references to secrets in the place of secrets.

        None where they are planned already, or where the connector cannot be made: its status will say why.
        """
        try:
            known = resolved(config, self.worker.providers)
            connector = self.plugin_of(dict(config))(known)
            settings = tasks_of(name, connector, known, self.worker)
        except Exception as error:
            log.warning("connector %s cannot plan its tasks: %s", name, headline(error))
            return []
        kept = [
            {
                **{key: config.get(key, value) for key, value in each.items()},
                "task.class": connector.task_class_name,
            }
            for each in settings
        ]
        if kept == self.state.tasks.get(name):
            return []
        found = records.planned(name, kept)
        if self.worker.exactly_once and connector.kind == "source":
            # As many as ever were: workers that missed a change may still run some of them.
            count = writer_count(type(connector), known, self.worker, len(kept))
            found.append(records.fenced(name, max(count, self.state.fencing.get(name, 0))))
        return found

    async def _change(self, name: str, decide: Callable[[], Sequence[StateRecord]]) -> None:
        await self.store.change(lambda: (decide(), None))
        try:
            await self.follow(name)
        except KafkaError as error:
            log.warning("connector %s: %s; again soon", name, error)
            self._note(name)

    # --- what runs ------------------------------------------------------------------------------------

    async def follow(self, name: str) -> None:
        """Makes what runs of a connector here what the state says."""
        async with self._turn:
            config = self.state.connectors.get(name)
            if config is None or not self.store.owns(name):
                await self._release(name)
                return
            live = self._live.get(name)
            if live is None:
                await self._await_release(name)
                await self.offsets.catch_up()
                live = self._live[name] = _Live({}, self.state.target(name))
            came_from, live.target = live.target, self.state.target(name)
            if live.connector is None or live.config != config:
                live.config = config
                live.connector = self._make(name, live)
            if live.connector is not None:
                self._tell_connector(name, live)
                await self._follow_tasks(name, live, came_from)

    async def _release(self, name: str) -> None:
        """Stops what runs of a connector; where it still exists, the next worker waits for word of that."""
        live = self._live.pop(name, None)
        if live is None:
            return
        await self._stop_tasks(live)
        await self._flush()
        if name in self.state.connectors:
            gone = Status(State.UNASSIGNED, self.worker_id, None)
            for task in self.statuses.tasks(name):
                self.statuses.set_task(name, task, gone)
            self.statuses.set_connector(name, gone)
        elif name not in self._deleting:
            # The records that say so may have come while it still ran here, where they do not count.
            self.statuses.drop(name)

    async def _await_release(self, name: str) -> None:
        """Waits until the worker that had a connector says that it has let it go, if that worker lives."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _RELEASE_SECONDS
        while loop.time() < deadline:
            status = self.statuses.connector(name)
            if status is None or status.state is State.UNASSIGNED:
                return
            if status.worker_id == self.worker_id or not self.store.lives(status.worker_id):
                return
            await asyncio.sleep(_LOOK_SECONDS)

    def _make(self, name: str, live: _Live) -> Connector | None:
        try:
            settings = resolved(live.config, self.worker.providers, live.secrets)
            connector = self.plugin_of(dict(live.config))(settings)
            tasks_of(name, connector, settings, self.worker)  # an error of its plan is one of the connector
            return connector
        except Exception as error:
            log.error("connector %s failed: %s", name, headline(error))
            self.statuses.set_connector(name, self._failure(live, error))
            return None

    def _failure(self, live: _Live, error: Exception) -> Status:
        return Status(State.FAILED, self.worker_id, None, hidden(trace_of(error), live.secrets))

    async def _follow_tasks(self, name: str, live: _Live, came_from: Target) -> None:
        wanted = [] if live.target is Target.STOPPED else list(self.state.tasks.get(name, ()))
        if wanted != live.settings:
            await self._stop_tasks(live)
            self.statuses.forget_tasks(name)
            live.offsets = self.offsets
            if isinstance(live.connector, SourceConnector):
                if wanted:
                    await self.fence(name)
                live.offsets = await self.offsets_of(name, live.config)
                await live.offsets.catch_up()
            live.settings = wanted
            for task in range(len(wanted)):
                self._start_task(name, live, task)
        elif live.target is Target.STOPPED:
            self.statuses.forget_tasks(name)
        elif came_from is not live.target:
            for running in live.tasks.values():
                (running.pause if live.target is Target.PAUSED else running.resume)()

    async def _restart_task(self, name: str, live: _Live, task: int) -> None:
        running = live.tasks.pop(task, None)
        if running is not None:
            await running.stop()
        self._start_task(name, live, task)

    async def _stop_tasks(self, live: _Live) -> None:
        tasks, live.tasks = live.tasks, {}
        await asyncio.gather(*(running.stop() for running in tasks.values()))
        live.settings = []

    def _start_task(self, name: str, live: _Live, task: int) -> None:
        version = None if live.connector is None else live.connector.version

        def tell(state: State, trace: str | None) -> None:
            shown = trace and hidden(trace, live.secrets)
            self.statuses.set_task(name, task, Status(state, self.worker_id, version, shown))

        try:
            body = self._body(name, live, task)
        except Exception as error:
            log.error("task %s-%d failed: %s", name, task, headline(error))
            self.statuses.set_task(name, task, self._failure(live, error))
            return
        live.tasks[task] = RunningTask(f"{name}-{task}", body, tell, live.target is Target.PAUSED)

    def _body(self, name: str, live: _Live, task: int) -> Body:
        config = resolved(live.config, self.worker.providers, live.secrets)
        parts = TaskParts(
            name,
            task,
            resolved(live.settings[task], self.worker.providers),
            processing_of(config, self.worker),
            ErrorHandling.of(config),
            self.cluster,
            live.offsets or self.offsets,
            self._clock,
            partial(self.statuses.saw_topic, name, task=task),
            self.worker.identity,
            ClientOptions.of(config, self.worker),
            creation_of(config, self.worker),
            self.statuses.counts(name, task),
        )
        assert live.connector is not None
        return body_of(parts, live.connector, config, self.worker)

    def _tell_connector(self, name: str, live: _Live) -> None:
        if live.connector is not None:
            status = Status(_STATES[live.target], self.worker_id, live.connector.version)
            if self.statuses.connector(name) != status:
                self.statuses.set_connector(name, status)
