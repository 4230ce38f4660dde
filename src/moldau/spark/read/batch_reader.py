"""A batch read: the plan on the driver, one offset range in each task.

Invariant: what is read is decided once, when the plan is made; records that arrive later belong to the next
query.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from moldau.base.names import TopicPartition
from moldau.client.transport.background_loop import BackgroundLoop
from moldau.spark.background_loop import connect
from moldau.spark.options import OptionError, ReadOptions
from moldau.spark.query.user_errors import shorten_user_errors
from moldau.spark.read.listing import list_offsets, partitions_of, resolve
from moldau.spark.read.planning import OffsetRange, ranges_between, split
from moldau.spark.read.pushdown import Bounds, bounds_of
from moldau.spark.session.worker import prepare_worker

if TYPE_CHECKING:
    from moldau.spark.query.name import Question
    from moldau.spark.typed.plan import TypedPlan


class RangePartition(InputPartition):
    """One task's work, as it travels to the executor."""

    def __init__(self, wanted: OffsetRange, question: "Question | None" = None) -> None:
        super().__init__(None)
        self.wanted = wanted
        self.question = question


@dataclass(frozen=True, slots=True)
class Output:
    """What tasks hand to Spark."""

    names: tuple[str, ...]
    #: How keys and values are typed; None for the connector's columns.
    plan: "TypedPlan | None" = None
    never_null: frozenset[str] = frozenset()
    #: Whether batches go through memory that the JVM maps, see ``shared_batches``.
    shared: bool = False


class TopicReader(DataSourceReader):
    """``filters`` narrow what is read; Spark applies all of them again."""

    def __init__(self, options: ReadOptions, output: Output, filters: Iterable[Any] = ()) -> None:
        self._options = options
        self._output = output
        self._bounds = Bounds()
        if options.as_of_ms is None:
            self._narrow(filters)

    @shorten_user_errors
    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        loop = connect(options.cluster)
        starts, ends = loop.run(_limits(loop, options, self._bounds))
        ranges = ranges_between(starts, ends)
        if options.as_of_ms is not None:
            # Only a task that reads the whole partition knows the last record of a key.
            return [RangePartition(each) for each in ranges]
        wanted = split(ranges, options.min_partitions, options.max_records_per_partition)
        return [RangePartition(each) for each in wanted]

    def _narrow(self, filters: Iterable[Any]) -> None:
        plan = self._output.plan
        self._bounds = bounds_of(filters if plan is None else plan.connector_filters(filters))

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if not isinstance(partition, RangePartition):
            return iter(
                ()
            )  # where there is nothing to read, as in an empty topic, Spark makes one of its own
        return read_range(partition.wanted, self._options, self._output)


class FilteringReader(TopicReader):
    """Spark refuses a reader that takes filters unless its own setting allows it, hence two classes."""

    def pushFilters(self, filters: list[Any]) -> Iterator[Any]:
        self._narrow(filters)
        return iter(filters)


@shorten_user_errors
def read_range(wanted: OffsetRange, options: ReadOptions, output: Output) -> Iterator[Any]:
    """Arrow batches of one range; typed where there is a plan for that."""
    # Only tasks come here: a driver that plans need not wait for Arrow and the kernels.
    from moldau.spark.read.columns import declared

    names = output.names
    in_place = False
    if output.plan is not None:
        from moldau.spark.typed.columns import typed_batches

        prepare_worker()
        batches = typed_batches(connect(options.cluster), wanted, options, names, output.plan)
    else:
        from moldau.spark.read.columns import arrow_batch
        from moldau.spark.read.ranges import pieces_of_range

        prepare_worker()
        pieces = pieces_of_range(connect(options.cluster), wanted, options)
        batches = (arrow_batch(piece, names, wanted.topic, wanted.partition) for piece in pieces)
        in_place = options.as_of_ms is None
    batches = declared(batches, output.never_null)
    if output.shared:
        from moldau.spark.jvm.shared_batches import hand_over

        batches = hand_over(batches, in_place=in_place)
    yield from batches


async def _limits(
    loop: BackgroundLoop, options: ReadOptions, bounds: Bounds
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    partitions = await partitions_of(loop.cluster, options)
    starts = await resolve(loop.cluster, partitions, options.start, options, "startingOffsets")
    ends = await resolve(loop.cluster, partitions, options.end, options, "endingOffsets")
    for partition, start in starts.items():
        if start > ends[partition]:
            raise OptionError(
                f"{partition} would be read from {start} to {ends[partition]}: the start lies "
                "behind the end; choose startingOffsets that are there"
            )
    return await _narrowed(loop, starts, ends, bounds)


async def _narrowed(
    loop: BackgroundLoop, starts: dict[TopicPartition, int], ends: dict[TopicPartition, int], bounds: Bounds
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """What the filters of the query leave of the ranges."""
    if not bounds.narrow:
        return starts, ends
    wanted = [tp for tp in starts if bounds.partitions is None or tp.partition in bounds.partitions]
    since = {}
    if bounds.since_ms is not None:
        since = await list_offsets(loop.cluster, dict.fromkeys(wanted, bounds.since_ms), committed=False)
    narrowed = {}
    for tp in wanted:
        # -1: no record is as new.
        first = since.get(tp, 0) if since.get(tp, 0) >= 0 else ends[tp]
        narrowed[tp] = max(starts[tp], bounds.first_offset, first)
    return narrowed, {tp: min(ends[tp], bounds.end_offset) for tp in wanted}
