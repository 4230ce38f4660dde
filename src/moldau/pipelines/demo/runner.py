"""Runs the demo's pipeline in a process of its own: ``python -m moldau.pipelines.demo.runner``.

It does what ``moldau pipeline run`` does, with Spark's settings for a small machine, prints when its queries
run, and stops them after their batch on SIGTERM or Ctrl-C. Queries are started one after the other, each when
the one before has finished its first batch: together they would compete for the cores, and the first result
would come as late as the last.
"""

import argparse
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moldau.pipelines.demo.arguments import add_cluster_arguments, client_settings
from moldau.pipelines.errors import PipelineError
from moldau.pipelines.files import load
from moldau.pipelines.running import RunningPipeline, RunOptions
from moldau.spark.session.java import JavaNotFound

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

NAME = "demo"
FILE = Path(__file__).with_name("shop_pipeline.py")
READY = "moldau demo pipeline ready"
#: A few hundred rows a second: what counts is how soon a plan runs, not how fast it is once it is compiled.
CONF = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "2",
}
_FIRST_BATCH_SECONDS = 30.0
_POLL_SECONDS = 0.1


class OneByOne(RunningPipeline):
    """A pipeline whose queries are started one after the other."""

    def __init__(self, *given: Any, should_stop: Callable[[], bool]) -> None:
        super().__init__(*given)
        self._should_stop = should_stop

    def _begin(self, prepared: Any) -> None:
        super()._begin(prepared)
        for query in list(self.queries.values())[-1:]:
            wait_for_batch(query, self._should_stop)


def wait_for_batch(query: "StreamingQuery", should_stop: Callable[[], bool]) -> None:
    """Returns after the first batch of a query, when it has ended, or after half a minute."""
    for _ in range(round(_FIRST_BATCH_SECONDS / _POLL_SECONDS)):
        if not query.isActive or query.lastProgress is not None or should_stop():
            return
        try:
            query.awaitTermination(_POLL_SECONDS)  # type: ignore[arg-type]  # fractions of a second work
        except Exception:  # a failure of the query: ``poll`` reports it with the query's name
            return


def run(options: RunOptions, file: Path, should_stop: Callable[[], bool]) -> None:
    running = OneByOne(load(file, NAME), options, should_stop=should_stop)
    try:
        running.start(None)
    except BaseException as error:
        running.close(error)
        raise
    with running:
        print(f"{READY}: {', '.join(running.queries)}", flush=True)
        while running.poll(0.5):
            if should_stop():
                running.stop()
                return


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Run the demo's pipeline until SIGTERM or Ctrl-C.")
    add_cluster_arguments(parser)
    parser.add_argument("--home", type=Path, required=True, help="where checkpoints and tables are")
    parser.add_argument("--heap", default="1g", help="of Spark's JVM")
    parser.add_argument("--file", type=Path, default=FILE)
    given = parser.parse_args(arguments)
    stops: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda received, _: stops.append(received))
    try:
        settings = {f"kafka.{name}": value for name, value in client_settings(given).items()}
        conf = {**CONF, "spark.driver.memory": given.heap}
        options = RunOptions(given.bootstrap_servers, home=given.home, options=settings, conf=conf)
        run(options, given.file, lambda: bool(stops))
    except (PipelineError, JavaNotFound, ValueError, OSError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    print("moldau demo pipeline stopped", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
