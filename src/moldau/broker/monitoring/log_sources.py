"""Metrics of partitions, logs, data directories and the cleaner, read from the state that there is.

Invariant: nothing is kept here, and no file is read but the sizes of volumes.
"""

from collections.abc import Callable, Iterable, Iterator

from moldau.base.clock import Clock
from moldau.metrics import broker_metrics as names
from moldau.metrics.readings import Keys, Reading, Sources, Value, one
from moldau.replication.log_cleaning import LogCleaning
from moldau.replication.partition import Partition
from moldau.replication.replicas import Replicas, Traffic
from moldau.storage.directory.logs import Logs
from moldau.storage.log.log import Log


class LogSources:
    def __init__(self, replicas: Replicas, logs: Logs, cleaning: LogCleaning, clock: Clock) -> None:
        self._replicas = replicas
        self._logs = logs
        self._cleaning = cleaning
        self._clock = clock

    def register(self, sources: Sources) -> None:
        sources.add("kafka.server", "BrokerTopicMetrics", self.traffic)
        sources.add("kafka.cluster", "Partition", self.partitions)
        sources.add("kafka.log", "Log", self.logs)
        sources.add("kafka.log", "LogFlushStats", self.flushes)
        sources.add("kafka.log", "LogManager", self.directories)
        sources.add("moldau.log", "LogDirectory", self.volumes)
        sources.add("kafka.log", "LogCleanerManager", self.cleaner)
        sources.add("kafka.log", "LogCleaner", self.clean_times)
        sources.add("moldau.log", "LogCleaner", self.cleanings)

    def traffic(self) -> Iterable[Reading]:
        topics = {name: topic.traffic() for name, topic in self._replicas.by_name.items()}
        total = Traffic(*map(sum, zip(*topics.values(), self._replicas.former_traffic, strict=True)))
        for field, (of_all, of_topic) in names.TRAFFIC.items():
            yield one(of_all, getattr(total, field))
            yield Reading(of_topic, [((name,), getattr(each, field)) for name, each in topics.items()])
        for field, metric in names.REPLICATION.items():
            yield one(metric, getattr(total, field))

    def partitions(self) -> Iterable[Reading]:
        values: dict[str, Callable[[Partition], int]] = {
            "UnderReplicated": lambda each: len(each.isr) < len(each.replicas),
            "UnderMinIsr": lambda each: len(each.isr) < each.min_insync_replicas,
            "AtMinIsr": lambda each: len(each.isr) == each.min_insync_replicas,
            "InSyncReplicasCount": lambda each: len(each.isr),
            "ReplicasCount": lambda each: len(each.replicas),
            "LastStableOffsetLag": _stable_lag,
        }
        for name, value in values.items():
            yield Reading(names.PARTITION[name], self._of_partitions(value))

    def _of_partitions(self, value: Callable[[Partition], int]) -> Iterator[tuple[Keys, Value]]:
        # Whoever reads this pauses in between, and topics come and go meanwhile.
        for each in tuple(self._replicas):
            leads = each.leading is not None
            yield _place(each), int(value(each)) if leads else 0

    def logs(self) -> Iterable[Reading]:
        values: dict[str, Callable[[Log], int]] = {
            "LogStartOffset": lambda log: log.log_start_offset,
            "LogEndOffset": lambda log: log.log_end_offset,
            "NumLogSegments": lambda log: len(log.segments),
            "Size": lambda log: log.size,
            "RetentionSizeInPercent": _retention_percent,
        }
        for name, value in values.items():
            yield Reading(names.LOG[name], self._of_logs(value))

    def _of_logs(self, value: Callable[[Log], int]) -> Iterator[tuple[Keys, Value]]:
        for each in tuple(self._replicas):
            if each.log is not None:
                yield _place(each), value(each.log)

    def flushes(self) -> Iterable[Reading]:
        yield one(names.LOG_FLUSH, self._replicas.flush_times)

    def directories(self) -> Iterable[Reading]:
        offline = {each.path: int(each.offline is not None) for each in self._logs.directories}
        yield one(names.OFFLINE_DIRECTORIES, sum(offline.values()))
        yield Reading(names.DIRECTORY_OFFLINE, [((path,), value) for path, value in offline.items()])

    def volumes(self) -> Iterable[Reading]:
        sizes = {each.path: each.volume_bytes() for each in self._logs.online}
        yield Reading(names.DIRECTORY_TOTAL, [((path,), total) for path, (total, _) in sizes.items()])
        yield Reading(names.DIRECTORY_USABLE, [((path,), usable) for path, (_, usable) in sizes.items()])
        refusing = self._replicas.full_directories
        yield Reading(names.DIRECTORY_REFUSES, [((path,), int(path in refusing)) for path in sizes])

    def cleaner(self) -> Iterable[Reading]:
        cleaner = self._cleaning.cleaner
        found = {each.path: [0, 0] for each in self._logs.directories}
        for place in cleaner.uncleanable:
            directory, log = self._logs.directory_of(place), self._logs.get(place)
            if directory is not None and log is not None:
                found[directory.path][0] += 1
                found[directory.path][1] += log.size
        yield Reading(names.UNCLEANABLE, [((path,), count) for path, (count, _) in found.items()])
        yield Reading(names.UNCLEANABLE_BYTES, [((path,), size) for path, (_, size) in found.items()])
        yield one(names.MAX_DIRTY, round(cleaner.max_dirty_ratio * 100))
        looked_at = self._cleaning.looked_at
        since = 0.0 if looked_at is None else self._clock.monotonic() - looked_at
        yield one(names.SINCE_CLEANING, round(since * 1000))

    def clean_times(self) -> Iterable[Reading]:
        yield one(names.MAX_CLEAN_TIME, round(self._cleaning.last_seconds, 3))

    def cleanings(self) -> Iterable[Reading]:
        yield one(names.CLEANINGS, self._cleaning.cleanings)


def _place(partition: Partition) -> Keys:
    topic, number = partition.topic_partition
    return topic, str(number)


def _stable_lag(partition: Partition) -> int:
    if partition.log is None:
        return 0
    return partition.high_watermark - partition.log.stable_offset_below(partition.high_watermark)


def _retention_percent(log: Log) -> int:
    limit = log.config.retention_bytes
    return round(100 * log.size / limit) if limit > 0 else 0
