"""Why an application is slow, behind or gone: what its numbers say, each with what to do.

Pure. Nothing is said that does not follow from the numbers.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from moldau.pipelines.directory import PipelineState

_SLOW_BATCH_SECONDS = 10.0
_MUCH_DROPPED = 0.01


def reasons(state: PipelineState, progress: Mapping[str, Any], tasks: int, workers: int) -> Iterator[str]:
    """One sentence for each thing that is worth saying; the worst first."""
    name = state.name
    if state.state == "failed":
        yield f"it failed: {state.error}"
        if state.error and "does not decode" in state.error:
            yield "run it with --bad-records continue, or with --dead-letter-topic TOPIC to keep such records"
        return
    if state.state == "died":
        yield f"its process is gone without a word: 'moldau streams logs {name}' may say why; start it again"
        return
    if state.state == "stopped":
        yield f"it was stopped: 'moldau streams run {state.file} --name {name}' goes on where it ended"
    batches = int(progress.get("batches", 0))
    if not batches:
        yield "it has had no batch in this run: nothing came, or Spark is still starting"
        return
    lag = sum(sum(each.values()) for query in state.queries for each in query.lag)
    seconds, records = float(progress.get("batch_seconds", 0)), int(progress.get("batch_records", 0))
    rate = records / seconds if seconds else 0.0
    if lag:
        wait = f", about {lag / rate:.0f} s of work at the rate of its last batch" if rate else ""
        yield f"{lag} records wait{wait}"
        if workers < tasks:
            yield (
                f"{tasks} tasks share {workers} workers: --workers {tasks}, or more cores for Spark, lets"
                " them run side by side"
            )
        else:
            yield f"each of its {tasks} tasks has a worker: more partitions of the input allow more"
    if seconds > _SLOW_BATCH_SECONDS:
        yield f"its last batch took {seconds:.1f} s for {records} records"
    total, dropped = int(progress.get("records_in", 0)), int(progress.get("dropped", 0))
    if dropped and dropped > total * _MUCH_DROPPED:
        reasons: dict[str, int] = progress.get("reasons", {})
        shown = ", ".join(f"{count} {reason}" for reason, count in reasons.items())
        yield (
            f"{dropped} of {total} records were dropped: "
            + (shown or "too late for their window, without a key, or not to be decoded")
            + ("; a longer grace takes late ones" if reasons.get("late", 1) else "")
        )
    if int(progress.get("restored_tasks", 0)) > tasks:
        yield (
            "tasks were made anew from their state topics more than once: a worker's process ended, or"
            " executors came and went"
        )
    latency = progress.get("latency_ms")
    if latency is not None and not lag:
        yield f"nothing waits; its newest result came {latency} ms after its record's time"
