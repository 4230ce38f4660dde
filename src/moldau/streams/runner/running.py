"""Runs a program in this process: its directory, its log, Spark, the query, and what others may know of it.

Invariant: one process at a time runs an application on a machine, and only that one writes into its
directory. A checkpoint is used only with the state topics that it was made with: where these are gone,
somebody has reset the application, and it begins anew.
"""

import json
import logging
import os
import platform
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moldau.base.clock import SystemClock
from moldau.client.groups.groups import Groups
from moldau.pipelines.directory import PipelineDirectory, PipelineState
from moldau.pipelines.metrics_server import MetricsServer
from moldau.pipelines.running import RunOptions, log_to, now, open_session
from moldau.protocol.errors import KafkaError
from moldau.spark.background_loop import connect
from moldau.spark.query.failures import sentence
from moldau.spark.query.listener import Publisher
from moldau.spark.query.progress import FAILED, RUNNING, STOPPED, STREAMS, QueryStatus
from moldau.spark.read.listing import list_offsets
from moldau.spark.read.offsets import LATEST
from moldau.streams.errors import StreamsError
from moldau.streams.runner.application import Progress, RunningApplication, StreamsOptions, prepared
from moldau.streams.runner.layout import full_name
from moldau.streams.runner.orders import Application
from moldau.streams.runner.programs import Program
from moldau.streams.topology.plan import Plan, plan
from moldau.streams.topology.topology import Topology

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("moldau.streams")

#: The checkpoint of an application among those of its directory.
_STEP = "tasks"
_LAG_SECONDS = 2.0
#: Others hear of a batch at most so often, and so often that it still runs where there is none.
_TELL_SECONDS, _STILL_SECONDS = 1.0, 10.0


def streams_home(given: str | os.PathLike[str] | None = None) -> Path:
    """The directory of all applications: what is given, MOLDAU_STREAMS_HOME, or one below the user's own."""
    chosen = given or os.environ.get("MOLDAU_STREAMS_HOME")
    return Path(chosen).expanduser().absolute() if chosen else Path.home() / ".moldau" / "streams"


@dataclass(frozen=True, slots=True)
class RunSettings:
    """How a program is run, beside what its query needs."""

    streams: StreamsOptions = field(default_factory=StreamsOptions)
    home: Path = field(default_factory=streams_home)
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    #: Process what is there, then end.
    once: bool = False
    #: Spark's interval between batches, such as ``1 second``; as fast as possible without.
    trigger: str | None = None
    checkpoints: str | None = None
    metrics_port: int | None = None
    #: For questions about stores; None where there are none.
    http_port: int | None = None
    #: Whether progress goes to the topic ``__moldau_pipelines``, where the console finds it.
    publish: bool = True


class RunningProgram:
    """Made by ``run``; ``close`` ends it."""

    def __init__(self, program: Program, application_id: str, settings: RunSettings) -> None:
        self.settings = settings
        self.directory = PipelineDirectory(settings.home, application_id, settings.checkpoints)
        self.application_id = application_id
        self.running: RunningApplication | None = None
        self.metrics: MetricsServer | None = None
        self.queries: Any = None
        self._program = program
        self._stack = ExitStack()
        self._clock = SystemClock()
        self._lag: dict[str, int] = {}
        self._lag_at = -_LAG_SECONDS - 1
        self._progress = Progress()
        self._error: str | None = None
        self._is_ours = False
        self._plan: Plan = ()
        self._publisher: Publisher | None = None
        self._told: tuple[float, QueryStatus] | None = None
        self._state = PipelineState(
            application_id,
            str(Path(program.name).absolute()),
            pid=os.getpid(),
            master=settings.master or "local[*]",
            bootstrap_servers=settings.streams.bootstrap_servers,
            started=now(),
        )

    @property
    def state(self) -> PipelineState:
        return replace(self._state, queries=(self.status,), error=self._error)

    @property
    def status(self) -> QueryStatus:
        progress = self._progress
        seconds = progress.batch_seconds
        return QueryStatus(
            self.application_id,
            group=self.application_id,
            state=self._state.state,
            batch_id=progress.batch_id,
            rows=progress.records_in,
            batch_rows=progress.batch_records,
            processed_rows_per_second=round(progress.batch_records / seconds, 1) if seconds else None,
            batch_duration_ms=round(seconds * 1000) if seconds else None,
            latency_ms=progress.latency_ms,
            lag=(self._lag,) if self._lag else (),
            late_rows=progress.reasons.get("late", 0),
            dropped=progress.reasons,
            sink="moldau",
            updated=now(),
            error=self._error,
            host=platform.node(),
            kind=STREAMS,
            output=", ".join((self._state.outputs or {}).values()),
            plan=self._plan,
        )

    def start(self, spark: "SparkSession | None" = None) -> None:
        settings = self.settings
        self._stack.enter_context(self.directory.running())
        self._is_ours = True
        self._stack.enter_context(log_to(self.directory.log_path))
        self._write()
        application = self._prepared()
        self._describe(application)
        if spark is None:
            options = RunOptions(settings.streams.bootstrap_servers, settings.master, conf=settings.conf)
            spark = open_session(self.application_id, options, self.directory.log_path)
            self._stack.callback(_end_session, spark)
        workers = settings.streams.workers or max(spark.sparkContext.defaultParallelism, 1)
        application = replace(application, workers=workers)
        if settings.metrics_port is not None:
            self.metrics = MetricsServer(settings.metrics_port, lambda: self.state)
            self._stack.callback(self.metrics.close)
        if settings.http_port is not None:
            from moldau.streams.runner.http_queries import StoreServer

            self.queries = StoreServer(application, settings.http_port)
            self._stack.callback(self.queries.close)
        checkpoint = self.directory.checkpoint(_STEP)
        self.running = RunningApplication(spark, application, checkpoint, self._batch)
        trigger: dict[str, Any] = {}
        if settings.once:
            trigger = {"availableNow": True}
        elif settings.trigger is not None:
            trigger = {"processingTime": settings.trigger}
        self.running.start(**trigger)
        self._state = replace(self._state, state=RUNNING)
        log.info("application %s runs: %s", self.application_id, self._program.name)
        self._write()

    def _prepared(self) -> Application:
        application = prepared(self._program, self.application_id, self.settings.streams, 1)
        loop = connect(application.cluster)
        names = [each.name for each in application.layout.internal_topics]
        ids = {name: str(loop.run(loop.cluster.topic(name, refresh=True)).topic_id) for name in names}
        path = self.directory.path / "topics.json"
        before = json.loads(path.read_text()) if path.exists() else {}
        if any(before.get(name, id_) != id_ for name, id_ in ids.items()):
            log.warning("application %s was reset: it begins anew", self.application_id)
            self.directory.forget_checkpoints()
        for step in self.directory.notice_removed_checkpoints():
            log.warning("the checkpoint of %s is gone", step)
        topics = sorted({t for g in application.layout.groups for t in (*g.topics, *g.global_topics)})
        self.directory.check_topics(_STEP, topics)
        path.write_text(json.dumps(ids))
        return application

    def _describe(self, application: Application) -> None:
        """What the program is, for those who look at it from elsewhere; said before Spark takes its time."""
        topology = application.program.load().topology(0)
        self._plan = plan(topology, partial(full_name, application.application_id, topology))
        self._state = replace(self._state, outputs=_outputs(topology))
        if self.settings.publish:
            self._publisher = Publisher(connect(application.cluster))
        self._tell()

    def _tell(self) -> None:
        """Publishes the status: what changed at most every second, that it still runs every ten."""
        if self._publisher is None:
            return
        at, status = self._clock.monotonic(), self.status
        if self._told is not None:
            before, last = self._told
            has_changed = replace(status, updated="") != replace(last, updated="")
            is_urgent = status.state != last.state
            wait = 0.0 if is_urgent else _TELL_SECONDS if has_changed else _STILL_SECONDS
            if at - before < wait:
                return
        self._told = (at, status)
        self._publisher.publish(status)

    def poll(self, seconds: float) -> bool:
        """Waits so long; whether the query still runs. StreamsError where it has failed."""
        assert self.running is not None
        query = self.running.query
        assert query is not None
        from pyspark.errors import StreamingQueryException

        with suppress(StreamingQueryException):
            query.awaitTermination(seconds)  # type: ignore[arg-type]
        if not query.isActive and (failure := query.exception()) is not None:
            raise StreamsError(short_failure(sentence(failure))) from failure
        self._look_at_lag(query.isActive)
        self._write()
        self._tell()
        return bool(query.isActive)

    def _batch(self, progress: Progress) -> None:
        self._progress = progress

    def _look_at_lag(self, is_active: bool) -> None:
        if is_active and self._clock.monotonic() - self._lag_at < _LAG_SECONDS:
            return
        assert self.running is not None
        application = self.running.application
        loop = connect(application.cluster)
        places = application.layout.all_places()
        try:
            ends = loop.run(list_offsets(loop.cluster, dict.fromkeys(places, LATEST), committed=True))
            if not self.running.seen:
                return
        except KafkaError:
            return  # the query says what is wrong, or it passes
        self._lag_at = self._clock.monotonic()
        lag: dict[str, int] = {}
        for place, end in ends.items():
            lag[place.topic] = lag.get(place.topic, 0) + max(end - self.running.seen.get(place, end), 0)
        self._lag = lag

    def close(self, error: BaseException | None = None) -> None:
        try:
            if self.running is not None:
                self.running.stop()
            failed = error is not None and not isinstance(error, KeyboardInterrupt)
            self._error = str(error) if failed else None
            # Where another process runs the application, its state is not ours to write.
            if self._is_ours:
                self._state = replace(self._state, state=FAILED if failed else STOPPED)
                self._write()
                self._tell()
                if self._publisher is not None:
                    self._publisher.flush()
                log.info("application %s %s", self.application_id, self._state.state)
        finally:
            self._stack.close()

    def _write(self) -> None:
        self.directory.write_state(self.state)
        details = asdict(self._progress)
        details["positions"] = {str(place): at for place, at in self._progress.positions.items()}
        path = self.directory.path / "progress.json"
        beside = path.with_suffix(".new")
        beside.write_text(json.dumps(details))
        os.replace(beside, path)


def run(
    program: Program,
    application_id: str,
    settings: RunSettings,
    *,
    spark: "SparkSession | None" = None,
    should_stop: Callable[[], bool] = lambda: False,
    on_change: Callable[[RunningProgram], None] = lambda running: None,
) -> RunningProgram:
    """Runs until the query has ended or ``should_stop`` is true."""
    program_runs = RunningProgram(program, application_id, settings)
    try:
        program_runs.start(spark)
        on_change(program_runs)
        while program_runs.poll(0.5):
            on_change(program_runs)
            if should_stop():
                break
    except BaseException as error:
        program_runs.close(error)
        raise
    program_runs.close()
    return program_runs


def short_failure(text: str) -> str:
    """What a query's failure is about, without the frames of Spark's."""
    for line in reversed(text.splitlines()):
        if "HostFailed: " in line:
            return line.split("HostFailed: ", 1)[1]
    return text


def group_of(application: Application) -> Any:
    """What the cluster knows of the application's group."""
    loop = connect(application.cluster)
    return loop.run(Groups(loop.cluster).committed(application.application_id))


def _outputs(topology: Topology) -> dict[str, str]:
    names = [
        sink.topic or "topics that a function chooses" for sink in topology.sinks() if not sink.is_internal
    ]
    return {"results": ", ".join(dict.fromkeys(names))} if names else {}


def _end_session(spark: "SparkSession") -> None:
    with suppress(Exception):
        spark.stop()
