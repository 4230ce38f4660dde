"""Runs a pipeline: every step becomes a query or a batch, and is watched until it is stopped or one fails.

    with start(load("revenue.py"), RunOptions("localhost:9092")) as running:
        while running.poll(1.0): ...

``run_file`` does all of that for one file and returns when the pipeline has ended.

Invariant: nothing is started before every function has returned its DataFrame and every topic exists. A
query that fails ends the pipeline; what the others have done stays, and the next run continues from it.
"""

import logging
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError

from moldau.base.clock import SystemClock
from moldau.base.escaping import EscapingFormatter
from moldau.pipelines.context import Context, Shared, checked
from moldau.pipelines.definitions import ParquetOutput, Pipeline, Step, TopicOutput
from moldau.pipelines.directory import PipelineDirectory, PipelineState, home_directory
from moldau.pipelines.errors import PipelineError
from moldau.pipelines.files import line_in, load
from moldau.pipelines.topics import Topics
from moldau.pipelines.writing import shaped, start_query, target, trigger_of, write_batch
from moldau.spark.query.failures import sentence
from moldau.spark.query.progress import FAILED, RUNNING, STARTING, STOPPED, QueryStatus

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from moldau.pipelines.metrics_server import MetricsServer
    from moldau.spark.query.listener import Publisher, QueryListener

log = logging.getLogger("moldau.pipelines")

DEFAULT_SERVERS = "127.0.0.1:9092"
#: How long a query may take to finish its batch when it is stopped, and how often that is checked.
_LAST_BATCH_SECONDS = 30.0
_POLL_SECONDS = 0.1
_LAST_EVENTS_MS = 5_000
#: Spark waits ten seconds for a new Python worker; on a busy machine the query has to be started again.
_WORKER_NOT_STARTED = "Python worker failed to connect back"
_MAX_STARTS = 4
_INITIALIZATION_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How a pipeline is run: everything that does not stand in its file."""

    bootstrap_servers: str = DEFAULT_SERVERS
    master: str | None = None
    home: Path = field(default_factory=home_directory)
    #: More options of ``format("moldau")`` for every source and sink.
    options: Mapping[str, str] = field(default_factory=dict)
    #: Spark's own settings.
    conf: Mapping[str, str] = field(default_factory=dict)
    #: Process the records that are in the topics, then end.
    available_now: bool = False
    #: Where checkpoints are if not in the pipeline's directory: an address that every Spark executor reaches.
    checkpoints: str | None = None
    from_scratch: bool = False
    metrics_port: int | None = None
    #: Whether progress goes to the topic ``__moldau_pipelines``.
    publish: bool = True

    @property
    def cluster(self) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.bootstrap_servers, **self.options}


@dataclass(frozen=True, slots=True)
class _PreparedStep:
    """A step whose function has returned its DataFrame."""

    step: Step
    frame: "DataFrame"


class RunningPipeline:
    """Made by ``start``; ``stop`` or the end of ``with`` ends it."""

    def __init__(self, pipeline: Pipeline, options: RunOptions) -> None:
        self.pipeline = pipeline
        self.options = options
        self.directory = PipelineDirectory(options.home, pipeline.name, options.checkpoints)
        self.queries: dict[str, StreamingQuery] = {}
        self.metrics: MetricsServer | None = None
        self._topics = Topics(options.cluster)
        self._exit_stack = ExitStack()
        self._spark: SparkSession | None = None
        self._listener: QueryListener | None = None
        self._publisher: Publisher | None = None
        #: The last status of each query that has ended.
        self._ends: dict[str, QueryStatus] = {}
        #: How to start each query again, once for each start that it has left.
        self._starts: dict[str, list[Callable[[], StreamingQuery]]] = {}
        outputs = {
            s.name: f"table {self.directory.table(s.output.path)}"
            if isinstance(s.output, ParquetOutput)
            else str(s.output)
            for s in pipeline.steps
        }
        self._state = PipelineState(
            pipeline.name,
            str(pipeline.path),
            pid=os.getpid(),
            master=options.master or "local[*]",
            bootstrap_servers=options.bootstrap_servers,
            started=now(),
            outputs=outputs,
        )
        self._written: PipelineState | None = None

    def __enter__(self) -> "RunningPipeline":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(error)

    @property
    def statuses(self) -> list[QueryStatus]:
        """Every query of this pipeline, in the order of the file."""
        return [self._status(name) for name in self.queries]

    @property
    def state(self) -> PipelineState:
        return replace(self._state, queries=tuple(self.statuses))

    def start(self, spark: "SparkSession | None") -> None:
        """Starts everything. A session that is given is used, and goes on after the pipeline."""
        self._exit_stack.enter_context(self.directory.running())
        self._exit_stack.enter_context(log_to(self.directory.log_path))
        log.info("pipeline %s begins: %s", self.pipeline.name, self.pipeline.path)
        self._write_state()
        if self.options.from_scratch:
            self.directory.forget_checkpoints()
        for step in self.directory.notice_removed_checkpoints():
            log.warning("the checkpoint of %s is gone: it begins anew", step)
        _ = self._topics.loop  # reports a cluster that is not reachable before Spark takes seconds to start
        if spark is None:
            spark = open_session(self.pipeline.name, self.options, self.directory.log_path)
            self._exit_stack.callback(_end_session, spark)
        self._spark = spark
        self._watch(self._spark)
        shared = Shared(self._spark, self.pipeline, self._topics, self.options.cluster)
        prepared = [self._prepare(shared, step) for step in self.pipeline.steps]
        for each in prepared:
            self._begin(each)
            log.info("%s is written to %s", each.step.name, each.step.output)
        self._state = replace(self._state, state=RUNNING)
        self._write_state()

    def poll(self, seconds: float) -> bool:
        """Waits so long; whether a query still runs. PipelineError when one has failed."""
        try:
            return self._poll(seconds)
        except Py4JError as error:
            self._spark = None
            raise PipelineError(
                f"Spark's Java process is gone: 'moldau pipeline logs {self.pipeline.name}' may say why; "
                "where it ran out of memory, --conf spark.driver.memory=2g gives it more"
            ) from error

    def _poll(self, seconds: float) -> bool:
        active = [query for query in self.queries.values() if query.isActive]
        if active:
            _wait(active[0], seconds)
        for name, query in list(self.queries.items()):
            if not query.isActive and (failure := query.exception()) is not None:
                if self._restart(name, sentence(failure)):
                    continue
                self._ends[name] = replace(self._status(name), state=FAILED, error=sentence(failure))
                raise PipelineError(f"query {name} failed: {_with_hint(sentence(failure))}") from failure
        self._write_state()
        return any(query.isActive for query in self.queries.values())

    def stop(self) -> None:
        """Stops the queries, each after its current batch."""
        for query in self.queries.values():
            _finish_batch(query)
        for query in self.queries.values():
            query.stop()

    def close(self, error: BaseException | None = None) -> None:
        """Ends everything and writes how it ended."""
        try:
            if self._spark is not None:
                self._end_queries(self._spark)
            state = STOPPED if error is None or isinstance(error, KeyboardInterrupt) else FAILED
            self._state = replace(
                self._state, state=state, error=sentence(error) if state == FAILED and error else None
            )
            # Without a written state the start was refused, because another process runs this pipeline: its
            # state is not ours to write.
            if self._written is not None:
                log.info(
                    "pipeline %s %s%s", self.pipeline.name, state, f": {error}" if state == FAILED else ""
                )
                self._write_state()
        finally:
            self._exit_stack.close()

    def _end_queries(self, spark: "SparkSession") -> None:
        for query in self.queries.values():
            if query.isActive:
                query.stop()
        if self._listener is not None:
            spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(_LAST_EVENTS_MS)
            spark.streams.removeListener(self._listener)
        for name in self.queries:
            status = self._status(name)
            self._ends[name] = status if status.ended else replace(status, state=STOPPED)
            if self._publisher is not None and self._ends[name] != status:
                self._publisher.publish(self._ends[name])
        if self._publisher is not None:
            self._publisher.flush()
        if self.metrics is not None:
            self.metrics.close()

    def _watch(self, spark: "SparkSession") -> None:
        from moldau.pipelines.metrics_server import MetricsServer
        from moldau.spark.query.listener import Publisher, QueryListener

        if self.options.publish:
            self._publisher = Publisher(self._topics.loop)
        publisher = self._publisher
        self._listener = QueryListener(
            None if publisher is None else lambda status: publisher.publish(self._named(status))
        )
        spark.streams.addListener(self._listener)
        if self.options.metrics_port is not None:
            self.metrics = MetricsServer(self.options.metrics_port, lambda: self.state)

    def _prepare(self, shared: Shared, step: Step) -> _PreparedStep:
        context = Context(shared, step.name, self.directory.query_id(step.name))
        frame = built(self.pipeline, step, context)
        if frame.isStreaming:
            self.directory.check_topics(step.name, context.topics_read)
        if isinstance(step.output, TopicOutput):
            self._topics.create(step.output.topic, step.output.partitions)
        return _PreparedStep(step, frame)

    def _begin(self, prepared: _PreparedStep) -> None:
        step, output = prepared.step, prepared.step.output
        table = self.directory.table(output.path) if isinstance(output, ParquetOutput) else ""
        wanted = target(output, self.options.cluster, table)
        try:
            if not prepared.frame.isStreaming:
                write_batch(prepared.frame, wanted)
                return
            name = self.pipeline.query_name(step.name)
            trigger = trigger_of(output.trigger, self.options.available_now)
            checkpoint = self.directory.checkpoint(step.name)
            start = partial(start_query, prepared.frame, name, wanted, checkpoint, trigger)
            self._starts[name] = [start] * _MAX_STARTS
            self._start_query(name)
        except Exception as error:
            raise PipelineError(f"{step.name}: {_with_hint(sentence(error))}") from error

    def _restart(self, name: str, failure: str) -> bool:
        """Starts a query again whose Python workers did not come up in time; False for other failures."""
        if _WORKER_NOT_STARTED not in failure or not self._starts[name]:
            return False
        log.warning("query %s is started again: %s", name, failure)
        self._start_query(name)
        return True

    def _start_query(self, name: str) -> None:
        self.queries[name] = self._starts[name].pop()()
        _wait_for_initialization(self.queries[name])

    def _status(self, name: str) -> QueryStatus:
        seen = None if self._listener is None else self._listener.statuses.get(name)
        return self._ends.get(name) or self._named(seen or QueryStatus(name, group=name))

    def _named(self, status: QueryStatus) -> QueryStatus:
        """With what Spark does not know of it: its pipeline, and what its step writes to."""
        outputs = {self.pipeline.query_name(step.name): str(step.output) for step in self.pipeline.steps}
        return replace(status, pipeline=self.pipeline.name, output=outputs.get(status.name, ""))

    def _write_state(self) -> None:
        if self.state != self._written:
            self._written = self.state
            self.directory.write_state(self._written)


def open_session(name: str, options: RunOptions, output: str | Path) -> "SparkSession":
    """A session whose JVM writes its output to a file."""
    from moldau.spark.session.create import spark_session

    settings = {"spark.sql.streaming.stopTimeout": "30s", **options.conf}
    interrupted = signal.getsignal(signal.SIGINT)
    with open(output, "ab") as file:
        session = spark_session(f"moldau {name}", master=options.master, jvm_output=file, **settings)
    # Spark has installed its own handler; what Ctrl-C does is decided by whoever runs the pipeline.
    if signal.getsignal(signal.SIGINT) is not interrupted:
        signal.signal(signal.SIGINT, interrupted)
    return session


@contextmanager
def log_to(path: Path) -> Iterator[None]:
    """Writes Moldau's own log to the pipeline's log file, beside Spark's."""
    handler = logging.FileHandler(path)
    handler.setFormatter(EscapingFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logger = logging.getLogger("moldau")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        handler.close()


def built(pipeline: Pipeline, step: Step, context: Context) -> "DataFrame":
    """What the function of a step returns, with the columns of its output; a mistake names its line."""
    try:
        return shaped(checked(step.build(context), step.name), step.output, step.name)
    except PipelineError as error:
        line = line_in(error, pipeline.path) or step.line
        raise PipelineError(f"{pipeline.path.name}:{line}: {error}") from error.__cause__
    except Exception as error:
        line = line_in(error, pipeline.path) or step.line
        raise PipelineError(f"{pipeline.path.name}:{line}: {step.name}: {sentence(error)}") from error


def start(pipeline: Pipeline, options: RunOptions, spark: "SparkSession | None" = None) -> RunningPipeline:
    """A pipeline that runs; PipelineError says why it does not."""
    running = RunningPipeline(pipeline, options)
    try:
        running.start(spark)
    except BaseException as error:
        running.close(error)
        raise
    return running


def run_file(
    path: str | Path,
    *,
    name: str | None = None,
    bootstrap_servers: str | None = None,
    master: str | None = None,
    home: str | Path | None = None,
    options: Mapping[str, str] | None = None,
    conf: Mapping[str, str] | None = None,
    available_now: bool = False,
    from_scratch: bool = False,
    publish: bool = True,
    spark: "SparkSession | None" = None,
    should_stop: Callable[[], bool] = lambda: False,
    on_change: Callable[[RunningPipeline], None] = lambda running: None,
) -> list[QueryStatus]:
    """Runs a file until its queries have ended or ``should_stop`` is true; returns how each query ended.

    ``on_change`` is called about twice a second. PipelineError says in one sentence which query failed.
    """
    chosen = RunOptions(
        bootstrap_servers or os.environ.get("MOLDAU_BOOTSTRAP_SERVERS") or DEFAULT_SERVERS,
        master,
        home_directory(home),
        dict(options or {}),
        dict(conf or {}),
        available_now,
        from_scratch=from_scratch,
        publish=publish,
    )
    return run(load(path, name), chosen, spark=spark, should_stop=should_stop, on_change=on_change)


def run(
    pipeline: Pipeline,
    options: RunOptions,
    *,
    spark: "SparkSession | None" = None,
    should_stop: Callable[[], bool] = lambda: False,
    on_change: Callable[[RunningPipeline], None] = lambda running: None,
) -> list[QueryStatus]:
    """As ``run_file``, for a pipeline that was loaded."""
    with start(pipeline, options, spark) as running:
        on_change(running)
        try:
            while running.poll(0.5):
                on_change(running)
                if should_stop():
                    running.stop()
                    break
        except PipelineError as error:
            if not should_stop():
                raise
            # Whoever stops us (Ctrl-C, say) has stopped Spark as well: the next start repeats its batch.
            log.warning("a batch was cut short: %s", error)
    return running.statuses


def _wait(query: "StreamingQuery", seconds: float) -> None:
    """Waits until the query has ended, or so long; ``poll`` reports how it ended."""
    from pyspark.errors import StreamingQueryException

    with suppress(StreamingQueryException):
        query.awaitTermination(seconds)  # type: ignore[arg-type]


def _end_session(spark: "SparkSession") -> None:
    try:
        spark.stop()
    except (Py4JError, OSError) as error:
        log.warning("Spark could not be ended, it is gone: %s", error)


def _wait_for_initialization(query: "StreamingQuery") -> None:
    """Waits until the query has its Python workers, because many that start together time out."""
    for _ in range(round(_INITIALIZATION_SECONDS / _POLL_SECONDS)):
        if not query.isActive or not query.status["message"].startswith("Initializing"):
            return
        _wait(query, _POLL_SECONDS)


def _finish_batch(query: "StreamingQuery") -> None:
    """Waits until the query is between two batches, but not for ever."""
    if not query.isActive:
        return
    first = query.lastProgress
    for _ in range(round(_LAST_BATCH_SECONDS / _POLL_SECONDS)):
        now = query.lastProgress
        if (
            not query.isActive
            or not query.status["isTriggerActive"]
            or (now and (not first or now.batchId > first.batchId))
        ):
            return
        _wait(query, _POLL_SECONDS)


def _with_hint(message: str) -> str:
    """The message, with what to do where it is about a checkpoint that does not fit the query."""
    if "STATE_STORE" in message or "checkpoint" in message.lower() or "StateSchema" in message:
        return f"{message.rstrip('.')}. Begin anew with --from-scratch, or give the function another name"
    return message


def now() -> str:
    """The time in ISO 8601, as it is written into states."""
    return datetime.fromtimestamp(SystemClock().now_ms() / 1000, UTC).isoformat(timespec="seconds")


__all__ = ["STARTING", "PipelineState", "RunOptions", "RunningPipeline", "run", "run_file", "start"]
